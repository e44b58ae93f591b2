/* Mutual TLS on the gRPC link: accepted and rejected peers, with the counter of each rejection;
 * rotation with open and new connections; log lines and memory for peers that fail.
 *
 * Two links of this process, each with files of its own, polled in turn by this thread. A rejected
 * connection must never be UP on either side. */
#include <arpa/inet.h>
#include <malloc.h>
#include <sys/socket.h>

#include "base/counter.h"
#include "link/link_grpc.h"
#include "tests/tls.h"

#ifdef __SANITIZE_ADDRESS__
/* c-ares of Debian 12 loses the name that it looks up in /etc/hosts. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libcares.so"; }
#endif

struct log_lines {
    unsigned n;
    char last[600];
};
static void keep_line(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    struct log_lines *l = ctx;
    (void)level;
    (void)module;
    l->n++;
    snprintf(l->last, sizeof l->last, "%s", message);
}

/* One end: a directory, credentials from it, a link. */
struct end {
    struct tls_dir dir;
    struct log_lines lines;
    struct qr_log log;
    struct qr_link_tls *tls;
    struct qr_link *link;
    unsigned ups, downs, messages;
    uint32_t conn;
};
static void open_end(struct end *e, const struct qr_certificate_set *set,
                     const struct qr_clock *wall) {
    *e = (struct end){.log = {.level = QR_LOG_DEBUG, .write = keep_line}};
    e->log.ctx = &e->lines;
    if (set) {
        e->dir = tls_dir_new();
        tls_dir_put(&e->dir, set);
        e->tls = tls_open_at(&e->dir, wall ? wall : &qr_clock_wall, &e->log);
    }
    e->link = qr_link_grpc_new(&qr_clock_monotonic, e->tls);
}
static void close_end(struct end *e) {
    e->link->ops->free(e->link);
    qr_link_tls_free(e->tls);
    if (e->dir.path[0]) tls_dir_free(&e->dir);
}
static void poll_end(struct end *e) {
    struct qr_link_event ev;
    e->link->ops->poll(e->link, qr_now_ns(&qr_clock_monotonic) + QR_MS, &ev);
    if (ev.kind == QR_LINK_UP) {
        e->ups++;
        e->conn = ev.conn;
    }
    if (ev.kind == QR_LINK_DOWN) e->downs++;
    if (ev.kind == QR_LINK_MESSAGE) e->messages++;
}
/* Polls both until *counter reaches want; false after limit_ms. */
static bool until(struct end *a, struct end *b, const unsigned *counter, unsigned want,
                  int limit_ms) {
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + limit_ms * (int64_t)QR_MS;
    while (*counter < want && qr_now_ns(&qr_clock_monotonic) < end_ns) {
        poll_end(a);
        if (b) poll_end(b);
    }
    return *counter >= want;
}
static bool until_counted(struct end *a, struct end *b, enum qr_counter c, int64_t want,
                          int limit_ms) {
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + limit_ms * (int64_t)QR_MS;
    while (qr_counter_value(c) < want && qr_now_ns(&qr_clock_monotonic) < end_ns) {
        poll_end(a);
        if (b) poll_end(b);
    }
    return qr_counter_value(c) >= want;
}
static unsigned listen_on(struct end *e, char ret_address[64]) {
    struct qr_err err = {0};
    unsigned port = 0;
    CHECK(e->link->ops->listen(e->link, "127.0.0.1:0", &port, &err) == QR_OK, "%s", err.msg);
    snprintf(ret_address, 64, "127.0.0.1:%u", port);
    return port;
}

/* ---- rejected peers ---- */

/* The client, or with `server_bad` the server, presents `bad`; the other one `good`. */
static void check_rejected(const char *what, const struct qr_certificate_set *good,
                           const struct qr_certificate_set *bad, bool server_bad,
                           enum qr_counter reason, const char *words) {
    struct end server, client;
    char address[64];
    int64_t before = qr_counter_value(reason);
    open_end(&server, server_bad ? bad : good, NULL);
    open_end(&client, server_bad ? good : bad, NULL);
    struct end *checker = server_bad ? &client : &server;
    listen_on(&server, address);
    client.link->ops->dial(client.link, 1, address);
    CHECK(until_counted(&server, &client, reason, before + 1, 30000), "%s: not counted", what);
    unsigned never = 0;
    until(&server, &client, &never, 1, 100);
    CHECK(server.ups == 0 && client.ups == 0, "%s: accepted (%u, %u)", what, server.ups,
          client.ups);
    CHECK(checker->lines.n >= 1 && strstr(checker->lines.last, words), "%s: %u lines, the last: %s",
          what, checker->lines.n, checker->lines.last);
    printf("%s: %s\n", what, checker->lines.last);
    close_end(&server);
    close_end(&client);
}

static void test_rejected(void) {
    struct qr_certificate_request o = tls_order("job-a");
    struct qr_certificate_set good = tls_make(&o), other_ca = tls_make(&o);
    o.ca = qr_buf_string(&good.ca);
    o.ca_key = qr_buf_string(&good.ca_key);
    struct qr_certificate_request b = o;
    b.job = "job-b";
    struct qr_certificate_set foreign = tls_make(&b);
    check_rejected("client of another CA", &good, &other_ca, false, QR_TLS_REFUSED_WRONG_CA,
                   "qring://tests/job-a");
    check_rejected("server of another CA", &good, &other_ca, true, QR_TLS_REFUSED_WRONG_CA,
                   "dialed as");
    check_rejected("client of another job", &good, &foreign, false, QR_TLS_REFUSED_FOREIGN_JOB,
                   "qring://tests/job-b");
    check_rejected("server of another job", &good, &foreign, true, QR_TLS_REFUSED_FOREIGN_JOB,
                   "qring://tests/job-b");
    check_rejected("plaintext client", &good, NULL, false, QR_TLS_REFUSED_PLAINTEXT,
                   "does not use TLS");
    check_rejected("plaintext server", &good, NULL, true, QR_TLS_REFUSED_PLAINTEXT,
                   "does not use TLS");
    qr_certificate_wipe(&good);
    qr_certificate_wipe(&other_ca);
    qr_certificate_wipe(&foreign);
}

/* ---- time ---- */

static int64_t shifted(void *ctx) {
    return qr_now_ns(&qr_clock_wall) + *(const _Atomic int64_t *)ctx;
}
/* The server accepts a certificate; then its clock is two hours off, outside the validity of the
 * client's certificate and within that of its own. */
static void check_rejected_by_time(int64_t shift_ns, enum qr_counter reason, const char *words) {
    struct qr_certificate_request o = tls_order("times");
    _Atomic int64_t now_shift_ns = 0;
    const struct qr_clock wall = {shifted, &now_shift_ns};
    o.not_before_s -= 36000;
    o.not_after_s += 36000;
    struct qr_certificate_set wide = tls_make(&o);
    o = tls_order("times");
    o.ca = qr_buf_string(&wide.ca);
    o.ca_key = qr_buf_string(&wide.ca_key);
    struct qr_certificate_set narrow = tls_make(&o);
    struct end server, client;
    char address[64];
    int64_t before = qr_counter_value(reason);
    open_end(&server, &wide, &wall);
    open_end(&client, &narrow, NULL);
    listen_on(&server, address);
    client.link->ops->dial(client.link, 1, address);
    CHECK(until(&server, &client, &server.ups, 1, 30000), "not accepted");
    now_shift_ns = shift_ns;
    client.link->ops->dial(client.link, 2, address);
    CHECK(until_counted(&server, &client, reason, before + 1, 30000), "not counted");
    CHECK(server.ups == 1 && strstr(server.lines.last, words), "%s", server.lines.last);
    printf("%s\n", server.lines.last);
    close_end(&server);
    close_end(&client);
    qr_certificate_wipe(&wide);
    qr_certificate_wipe(&narrow);
}

/* Many rejections log one line at first. */
static void test_quiet(void) {
    struct qr_certificate_request o = tls_order("quiet");
    struct qr_certificate_set good = tls_make(&o), bad = tls_make(&o);
    struct end server, client;
    char address[64];
    int64_t before = qr_counter_value(QR_TLS_REFUSED_WRONG_CA);
    open_end(&server, &good, NULL);
    open_end(&client, &bad, NULL);
    qr_link_tls_free(client.tls); /* the client's own rejections are not counted here */
    client.link->ops->free(client.link);
    client.tls = tls_open(&client.dir);
    client.link = qr_link_grpc_new(&qr_clock_monotonic, client.tls);
    listen_on(&server, address);
    for (uint32_t k = 0; k < 6; k++) client.link->ops->dial(client.link, k, address);
    CHECK(until_counted(&server, &client, QR_TLS_REFUSED_WRONG_CA, before + 10, 30000));
    CHECK(server.lines.n == 1, "%u lines", server.lines.n);
    close_end(&server);
    close_end(&client);
    qr_certificate_wipe(&good);
    qr_certificate_wipe(&bad);
}

/* ---- rotation ---- */

struct ring {
    struct end server, client;
    char address[64];
    uint32_t held;
    unsigned sent;
};
static void send_one(struct ring *r) {
    const uint8_t word[4] = {1, 2, 3, 4};
    unsigned want = r->server.messages + 1;
    CHECK(r->client.link->ops->send(r->client.link, r->held, qr_bytes_of(word, 4),
                                    qr_bytes_of(word, 0)));
    CHECK(until(&r->server, &r->client, &r->server.messages, want, 3000));
}
/* Both ends get these files; once they are read, a new peer can connect, and the open connection
 * has lost nothing. */
static void rotate(struct ring *r, const struct qr_certificate_set *set, const char *ca,
                   const char *what) {
    struct end *ends[] = {&r->server, &r->client};
    for (int i = 0; i < 2; i++) {
        tls_dir_put(&ends[i]->dir, set);
        tls_put(ends[i]->dir.ca, ca);
    }
    unsigned never = 0;
    /* the files are read twice a second, and gRPC reads the pair once a second */
    until(&r->server, &r->client, &never, 1, 2200);
    send_one(r);
    unsigned ups = r->client.ups;
    r->client.link->ops->dial(r->client.link, 2, r->address);
    CHECK(until(&r->server, &r->client, &r->client.ups, ups + 1, 5000),
          "%s: a new peer cannot connect", what);
    r->client.link->ops->hang_up(r->client.link, 2);
    send_one(r);
    CHECK(r->client.downs == 0, "%s: a connection broke", what);
}
static void test_rotation(void) {
    struct qr_certificate_request o = tls_order("rotates");
    struct qr_certificate_set first = tls_make(&o), other = tls_make(&o);
    o.ca = qr_buf_string(&first.ca);
    o.ca_key = qr_buf_string(&first.ca_key);
    struct qr_certificate_set renewed = tls_make(&o);
    qr_auto(qr_free_p) char *both =
        qr_xasprintf("%s%s", qr_buf_string(&first.ca), qr_buf_string(&other.ca));
    struct ring r = {.held = 0};
    open_end(&r.server, &first, NULL);
    open_end(&r.client, &first, NULL);
    listen_on(&r.server, r.address);
    r.client.link->ops->dial(r.client.link, 1, r.address);
    CHECK(until(&r.server, &r.client, &r.client.ups, 1, 5000));
    r.held = r.client.conn;
    send_one(&r);
    rotate(&r, &renewed, both, "a new certificate of the same CA, and both CAs");
    rotate(&r, &other, both, "a certificate of the other CA");
    rotate(&r, &other, qr_buf_string(&other.ca), "the other CA alone");
    struct end late; /* with the first files */
    int64_t before = qr_counter_value(QR_TLS_REFUSED_WRONG_CA);
    open_end(&late, &first, NULL);
    late.link->ops->dial(late.link, 1, r.address);
    CHECK(until_counted(&r.server, &late, QR_TLS_REFUSED_WRONG_CA, before + 1, 30000),
          "the first CA is still trusted");
    /* A half-written CA file: open connections stay, and the last valid CA still rejects the first
     * one. */
    tls_put(r.server.dir.ca, "-----BEGIN CERTIFICATE-----\nhalf a fi");
    unsigned never = 0;
    until(&r.server, &late, &never, 1, 2500);
    send_one(&r);
    CHECK(late.ups == 0 && r.client.downs == 0);
    rotate(&r, &other, qr_buf_string(&other.ca), "complete again");
    close_end(&late);
    close_end(&r.client);
    close_end(&r.server);
    qr_certificate_wipe(&first);
    qr_certificate_wipe(&other);
    qr_certificate_wipe(&renewed);
}

/* ---- unusable files ---- */

static void check_unusable(const struct tls_dir *d, const char *words) {
    const struct qr_link_tls_options o = {.files = {d->certificate, d->key, d->ca},
                                          .clock = &qr_clock_monotonic,
                                          .wall = &qr_clock_wall};
    struct qr_link_tls *tls = NULL;
    struct qr_err err = {0};
    enum qr_code code = qr_link_tls_new(&o, &tls, &err);
    CHECK(code != QR_OK && qr_exit_code(code) == 2 && !tls && strstr(err.msg, words), "%s, not: %s",
          words, err.msg);
    CHECK(!strstr(err.msg, "PRIVATE"), "%s", err.msg);
    printf("%s\n", err.msg);
}
static void test_files(void) {
    static const char encrypted[] =
        "-----BEGIN ENCRYPTED PRIVATE "
        "KEY-----\nMIIBvTBXBgkqhkiG9w0BBQ0wSjApBgkqhkiG9w0BBQwwHAQI\n-----END "
        "ENCRYPTED PRIVATE KEY-----\n";
    struct qr_certificate_request o = tls_order("files");
    struct qr_certificate_set good = tls_make(&o), other = tls_make(&o);
    struct qr_certificate_request past = o, future = o;
    past.not_before_s -= 36000;
    past.not_after_s = tls_now_s() - 10;
    future.not_before_s = tls_now_s() + 1000;
    struct qr_certificate_set expired = tls_make(&past), early = tls_make(&future);
    struct tls_dir d = tls_dir_new();
    check_unusable(&d, "No such file");
    tls_dir_put(&d, &expired);
    check_unusable(&d, "has expired");
    tls_dir_put(&d, &early);
    /* 1000 s is more than clocks may differ by; test_worker_tls.c has less */
    check_unusable(&d, "not valid yet");
    tls_dir_put(&d, &good);
    tls_put(d.key, qr_buf_string(&other.key));
    check_unusable(&d, "is not the key of the certificate");
    tls_put(d.key, encrypted);
    check_unusable(&d, "is encrypted");
    tls_put(d.key, "no key");
    check_unusable(&d, "no PEM private key");
    tls_dir_put(&d, &good);
    tls_put(d.ca, qr_buf_string(&other.ca));
    check_unusable(&d, "was not issued by a CA in");
    tls_put(d.ca, "");
    check_unusable(&d, "no PEM certificates of a CA");
    tls_dir_put(&d, &good);
    tls_put(d.certificate, qr_buf_string(&good.ca));
    tls_put(d.key, qr_buf_string(&good.ca_key));
    check_unusable(&d, "cannot serve as a"); /* a CA's own certificate is for signing */
    tls_dir_free(&d);
    struct qr_certificate_set *all[] = {&good, &other, &expired, &early};
    for (size_t i = 0; i < COUNT(all); i++) qr_certificate_wipe(all[i]);
}

/* gRPC 1.51 leaks 125 KB for each TLS handshake whose channel is destroyed during it, so the link
 * must keep the channel until the handshake has ended. */
static void test_hung_up_early(void) {
    enum { TIMES = 300, BYTES = 2 << 20 };
    struct qr_certificate_request order = tls_order("early");
    struct qr_certificate_set set = tls_make(&order);
    struct end a, b;
    unsigned never = 0;
    char address[64];
    open_end(&a, &set, NULL);
    open_end(&b, &set, NULL);
    CHECK(listen_on(&a, address) != 0);
    size_t had = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        b.link->ops->dial(b.link, 7, address);
        /* connected, with an incomplete handshake */
        for (unsigned k = 0; k < 3; k++) {
            struct qr_link_event ev;
            int64_t now = qr_now_ns(&qr_clock_monotonic);
            (k % 2 ? &a : &b)->link->ops->poll((k % 2 ? &a : &b)->link, now + QR_MS / 4, &ev);
        }
        b.link->ops->hang_up(b.link, 7);
        if (i == TIMES / 6) had = mallinfo2().uordblks;
    }
    (void)until(&a, &b, &never, 1, 1000);
    size_t has = mallinfo2().uordblks;
    CHECK(has < had + BYTES, "%d aborted handshakes hold %zu KB", TIMES, (has - had) >> 10);
    CHECK(b.ups == 0 || b.downs == 0, "DOWN of a connection that was hung up");
    close_end(&b);
    close_end(&a);
    qr_certificate_wipe(&set);
}

int main(void) {
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    test_files();
    test_rejected();
    check_rejected_by_time(7200 * QR_SECOND, QR_TLS_REFUSED_EXPIRED, "has expired");
    check_rejected_by_time(-7200 * QR_SECOND, QR_TLS_REFUSED_NOT_YET_VALID, "not valid yet");
    test_quiet();
    test_rotation();
    test_hung_up_early();
    return t_end();
}
