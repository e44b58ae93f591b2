/* Mutual TLS on the gRPC link: who is taken, who is refused and by which count; rotation under an open and a new connection; what a stranger can cost.
 *
 * Two links of this process, each with files of its own, polled in turn by this thread. What is refused must never be UP on either side. */
#include <arpa/inet.h>
#include <sys/socket.h>

#include "base/counter.h"
#include "group/link_grpc.h"
#include "tests/tls.h"

#ifdef __SANITIZE_ADDRESS__
/* c-ares of Debian 12 loses the name that it looks up in /etc/hosts. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libcares.so"; }
#endif

struct log_lines { unsigned n; char last[600]; };
static void take_line(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    struct log_lines *l = ctx;
    (void)level, (void)module;
    l->n++;
    snprintf(l->last, sizeof l->last, "%s", message);
}

/* One end: a folder, credentials from it, a link. */
struct end {
    struct tls_dir dir;
    struct log_lines lines;
    struct qr_log log;
    struct qr_link_tls *tls;
    struct qr_link *link;
    unsigned ups, downs, messages;
    uint32_t conn;
};
static void open_end(struct end *e, const struct qr_certificate_set *set, const struct qr_clock *wall) {
    *e = (struct end){.log = {.level = QR_LOG_DEBUG, .write = take_line}};
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
static bool until(struct end *a, struct end *b, const unsigned *counter, unsigned want, int limit_ms) {
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + limit_ms * (int64_t)QR_MS;
    while (*counter < want && qr_now_ns(&qr_clock_monotonic) < end_ns) {
        poll_end(a);
        if (b) poll_end(b);
    }
    return *counter >= want;
}
static bool until_counted(struct end *a, struct end *b, enum qr_counter c, int64_t want, int limit_ms) {
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

/* ---- who is refused ---- */

/* The caller, or the called with `server_bad`, shows `bad`; the other shows `good`. */
static void refused(const char *what, const struct qr_certificate_set *good, const struct qr_certificate_set *bad, bool server_bad,
                    enum qr_counter reason, const char *words) {
    struct end server, client;
    char address[64];
    int64_t before = qr_counter_value(reason);
    open_end(&server, server_bad ? bad : good, NULL);
    open_end(&client, server_bad ? good : bad, NULL);
    struct end *judge = server_bad ? &client : &server;
    listen_on(&server, address);
    client.link->ops->dial(client.link, 1, address);
    CHECK(until_counted(&server, &client, reason, before + 1, 8000), "%s: not counted", what);
    unsigned never = 0;
    until(&server, &client, &never, 1, 100);
    CHECK(server.ups == 0 && client.ups == 0, "%s: taken (%u, %u)", what, server.ups, client.ups);
    CHECK(judge->lines.n >= 1 && strstr(judge->lines.last, words), "%s: %u lines, the last: %s", what, judge->lines.n, judge->lines.last);
    printf("%s: %s\n", what, judge->lines.last);
    close_end(&server);
    close_end(&client);
}

static void test_refusals(void) {
    struct qr_certificate_order o = tls_order("job-a");
    struct qr_certificate_set good = tls_make(&o), other_ca = tls_make(&o);
    o.ca = qr_buf_string(&good.ca);
    o.ca_key = qr_buf_string(&good.ca_key);
    struct qr_certificate_order b = o;
    b.job = "job-b";
    struct qr_certificate_set foreign = tls_make(&b);
    refused("another CA calls", &good, &other_ca, false, QR_TLS_REFUSED_WRONG_CA, "qring://tests/job-a");
    refused("another CA answers", &good, &other_ca, true, QR_TLS_REFUSED_WRONG_CA, "dialled as");
    refused("another job of this CA calls", &good, &foreign, false, QR_TLS_REFUSED_FOREIGN_JOB, "qring://tests/job-b");
    refused("another job of this CA answers", &good, &foreign, true, QR_TLS_REFUSED_FOREIGN_JOB, "qring://tests/job-b");
    refused("plaintext calls", &good, NULL, false, QR_TLS_REFUSED_PLAINTEXT, "does not speak TLS");
    refused("plaintext answers", &good, NULL, true, QR_TLS_REFUSED_PLAINTEXT, "does not speak TLS");
    qr_certificate_wipe(&good);
    qr_certificate_wipe(&other_ca);
    qr_certificate_wipe(&foreign);
}

int main(void) {
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    test_refusals();
    return t_end();
}
