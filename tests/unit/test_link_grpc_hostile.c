/* Hostile peers, with a certificate of the job and without: memory stays bounded, and a good
 * connection at the same link loses nothing.
 *
 * A child process, forked before gRPC starts, attacks; the attacked link and the good connection
 * are in this process. */
#include <arpa/inet.h>
#include <errno.h>
#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/counter.h"
#include "link/link_grpc.h"
#include "link/link_grpc_parts_impl.h"
#include "tests/tls.h"

#ifdef __SANITIZE_ADDRESS__
/* c-ares of Debian 12 loses the name that it looks up in /etc/hosts. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) { return "leak:libcares.so"; }
#endif

enum harm {
    OVERSIZE,
    STREAMS,
    METADATA,
    NOT_READING,
    RAW,
    IDLE = RAW,
    GARBAGE,
    RESET_STORM,
    DRIPPING,
    RAPID_RESET,
    ENDLESS_STREAMS,
    HARMS
};
static const char *const harm_name[HARMS] = {"a message of 256 MB",
                                             "300 streams",
                                             "1 MB of metadata",
                                             "a peer that does not read",
                                             "1000 idle connections",
                                             "garbage where TLS should begin",
                                             "300 connections that are reset",
                                             "8000 handshakes of a byte in 60 ms",
                                             "10000 streams opened and reset",
                                             "10000 streams opened, and nothing acknowledged"};
enum {
    BIG = 256 << 20,
    MANY = 300,
    IDLE_CONNECTIONS = 1000,
    DRIPPING_CONNECTIONS = 8000,
    RESETS = 10000,
    PEER_KB = 16 << 10,
    IDLE_KB = 40,
    HANDSHAKE_KB = 60
};

/* ---- the child ---- */

struct hostile {
    grpc_channel *channel;
    grpc_completion_queue *cq;
    grpc_call *call;
    grpc_metadata_array initial, trailing;
    grpc_slice details;
    grpc_status_code status;
};

static gpr_timespec in_ms(int ms) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
}
static void open_call(struct hostile *h, const char *key, const char *value, size_t n) {
    grpc_metadata m = {.key = grpc_slice_from_static_string(key),
                       .value = n ? grpc_slice_from_copied_buffer(value, n) : grpc_empty_slice()};
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA,
                       .flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY,
                       .data.send_initial_metadata = {.count = n ? 1 : 0, .metadata = &m}},
                      {.op = GRPC_OP_RECV_INITIAL_METADATA,
                       .data.recv_initial_metadata.recv_initial_metadata = &h->initial}};
    grpc_op status = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
                      .data.recv_status_on_client = {.trailing_metadata = &h->trailing,
                                                     .status = &h->status,
                                                     .status_details = &h->details}};
    grpc_metadata_array_init(&h->initial);
    grpc_metadata_array_init(&h->trailing);
    h->details = grpc_empty_slice();
    h->call = grpc_channel_create_call(h->channel, NULL, 0, h->cq,
                                       grpc_slice_from_static_string("/qring.Link/Stream"), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_call_start_batch(h->call, ops, 2, (void *)1, NULL);
    grpc_call_start_batch(h->call, &status, 1, (void *)2, NULL);
}
static void turn(struct hostile *h, int ms) {
    gpr_timespec end = in_ms(ms);
    while (grpc_completion_queue_next(h->cq, end, NULL).type == GRPC_OP_COMPLETE) continue;
}
static void oversize(struct hostile *h) {
    grpc_slice big = grpc_slice_malloc(BIG);
    memset(GRPC_SLICE_START_PTR(big), 7, BIG);
    grpc_byte_buffer *b = grpc_raw_byte_buffer_create(&big, 1);
    grpc_op send = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = b};
    open_call(h, "", "", 0);
    turn(h, 100);
    grpc_call_start_batch(h->call, &send, 1, (void *)3, NULL);
    turn(h, 500);
}
static void many_streams(struct hostile *h) {
    struct hostile all[8] = {0};
    open_call(h, "", "", 0);
    /* Queued streams take memory only in the child. */
    for (int i = 0; i < MANY; i++) {
        struct hostile *one = &all[i % 8];
        *one = *h;
        open_call(one, "", "", 0);
        turn(one, 1);
    }
}
static void attack_by_grpc(enum harm what, const char *address, const struct qr_link_tls *tls) {
    struct hostile h = {.channel = link_grpc_channel(address, tls, true, 1000),
                        .cq = grpc_completion_queue_create_for_next(NULL)};
    static char metadata[1 << 20];
    memset(metadata, 'x', sizeof metadata);
    if (what == OVERSIZE) oversize(&h);
    else if (what == STREAMS) many_streams(&h);
    else if (what == METADATA) open_call(&h, "much", metadata, sizeof metadata);
    else open_call(&h, "", "", 0);
    turn(&h, 200);
}

static int connect_raw(const char *address) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) perror("connect");
    return fd;
}
static void reset(int fd) {
    const struct linger now = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}
/* Raw HTTP/2: a stream's headers and its reset, repeated (CVE-2023-44487). */
static void rapid_reset(int fd, bool resets) {
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    static const uint8_t headers[] = {
        0x83, 0x86, 0x04, 18,  '/', 'q', 'r', 'i',  'n', 'g', '.',  'L',  'i', 'n', 'k',
        '/',  'S',  't',  'r', 'e', 'a', 'm', 0x01, 1,   'x', 0x0f, 0x10, 16,  'a', 'p',
        'p',  'l',  'i',  'c', 'a', 't', 'i', 'o',  'n', '/', 'g',  'r',  'p', 'c', 0x00,
        2,    't',  'e',  8,   't', 'r', 'a', 'i',  'l', 'e', 'r',  's'};
    uint8_t frame[9 + sizeof headers + 13] = {0, 0, sizeof headers, 1, 4}, sink[4096];
    memcpy(frame + 9, headers, sizeof headers);
    uint8_t *rst = frame + 9 + sizeof headers;
    rst[2] = 4;
    rst[3] = 3;
    rst[12] = 8; /* CANCEL */
    if (write(fd, preface, sizeof preface) < 0) return;
    for (uint32_t i = 0; i < RESETS; i++) {
        for (int k = 0; k < 4; k++)
            frame[5 + k] = rst[5 + k] = (uint8_t)((2 * i + 1) >> (24 - 8 * k));
        if (send(fd, frame, resets ? sizeof frame : 9 + sizeof headers, MSG_NOSIGNAL) < 0) return;
        while (recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0) continue;
    }
}
/* Keeps handshakes open for three seconds, and replaces those that are cut. */
static void drip(const char *address) {
    static const uint8_t hello[100] = {22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}; /* of 512 bytes */
    static struct { int fd, sent; } all[DRIPPING_CONNECTIONS];
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    a.sin_port = htons((uint16_t)atoi(strchr(address, ':') + 1));
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + 3 * QR_SECOND;
    for (int64_t round_ns; (round_ns = qr_now_ns(&qr_clock_monotonic)) < end_ns;) {
        for (int i = 0; i < DRIPPING_CONNECTIONS; i++) {
            if (!all[i].fd) {
                all[i].fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
                all[i].sent = 0;
                connect(all[i].fd, (struct sockaddr *)&a, sizeof a);
            }
            bool sends = send(all[i].fd, hello + all[i].sent, 1, MSG_NOSIGNAL) == 1;
            all[i].sent += sends;
            if (sends || errno == EAGAIN) continue;
            close(all[i].fd);
            all[i].fd = 0;
        }
        qr_sleep_ns(60 * QR_MS - (qr_now_ns(&qr_clock_monotonic) - round_ns));
    }
}
static void attack_raw(enum harm what, const char *address) {
    static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    int fd[IDLE_CONNECTIONS];
    uint8_t noise[5000];
    qr_entropy(noise, sizeof noise);
    for (int i = 0; what == IDLE && i < IDLE_CONNECTIONS; i++) fd[i] = connect_raw(address);
    for (int i = 0; what == GARBAGE && i < 200; i++) {
        fd[0] = connect_raw(address);
        if (i % 2) send(fd[0], noise, sizeof noise, MSG_NOSIGNAL);
        else send(fd[0], request, sizeof request, MSG_NOSIGNAL);
        if (i % 3) close(fd[0]);
    }
    for (int i = 0; what == RESET_STORM && i < MANY; i++) reset(connect_raw(address));
    if (what == DRIPPING) drip(address);
    if (what >= RAPID_RESET) rapid_reset(connect_raw(address), what == RAPID_RESET);
    qr_sleep_ns(200 * QR_MS);
}
struct target {
    char address[64];
    struct tls_dir dir;
};
static pid_t start_harm(enum harm what, int *ret_to) {
    int p[2];
    fflush(NULL);
    if (pipe(p) != 0) abort();
    pid_t pid = fork();
    if (pid) {
        close(p[0]);
        *ret_to = p[1];
        return pid;
    }
    close(p[1]);
    struct target target;
    if (read(p[0], &target, sizeof target) != (ssize_t)sizeof target) _exit(1);
    if (what < RAW) {
        grpc_init();
        attack_by_grpc(what, target.address, tls_open(&target.dir));
    } else {
        attack_raw(what, target.address);
    }
    _exit(0);
}

/* ---- this process ---- */

static long rss_kb(const char *what) {
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, what, strlen(what)) == 0) kb = atol(line + strlen(what));
    if (f) fclose(f);
    return kb;
}
static void forget_peak(void) {
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}
struct good {
    bool floods;
    struct qr_link *server, *client;
    uint32_t client_conn, server_conn;
    unsigned sent, received, downs, oversized, hostile_ups;
};
static void turn_good(struct good *g) {
    struct qr_link *both[] = {g->server, g->client};
    uint8_t head[8] = {0};
    for (int i = 0; i < 2; i++) {
        struct qr_link_event e;
        both[i]->ops->poll(both[i], qr_now_ns(&qr_clock_monotonic) + QR_MS, &e);
        if (e.kind == QR_LINK_UP && i == 1) g->client_conn = e.conn;
        if (e.kind == QR_LINK_UP && i == 0 && g->server_conn) g->hostile_ups++;
        if (e.kind == QR_LINK_UP && i == 0 && !g->server_conn) g->server_conn = e.conn;
        if (e.kind == QR_LINK_DOWN && i == 1) g->downs++;
        if (e.kind == QR_LINK_MESSAGE && e.message.n > QR_LINK_MAX_MESSAGE) g->oversized++;
        /* Messages of the attacker have other lengths. */
        if (e.kind == QR_LINK_MESSAGE && i == 0 && e.message.n == sizeof head) g->received++;
        /* Fill the queue of the attacker's connection. */
        if (e.kind == QR_LINK_UP && i == 0 && e.conn != g->server_conn && g->floods)
            for (int k = 0; k < 64; k++) {
                static uint8_t body[100 << 10];
                g->server->ops->send(g->server, e.conn, qr_bytes_of(body, sizeof body),
                                     qr_bytes_of(head, 0));
            }
    }
    qr_set_u32le(head, g->sent);
    if (g->client_conn &&
        g->client->ops->send(g->client, g->client_conn, qr_bytes_of(head, sizeof head),
                             qr_bytes_of(head, 0)))
        g->sent++;
}
/* gRPC 1.51 stops listening for good when descriptors run out. Raise the limit, as a worker
 * does. */
static void many_descriptors(void) {
    struct rlimit r;
    getrlimit(RLIMIT_NOFILE, &r);
    r.rlim_cur = r.rlim_max;
    setrlimit(RLIMIT_NOFILE, &r);
}
static void open_good(struct good *g, const struct qr_link_tls *tls, char ret_address[64]) {
    struct qr_err err = {0};
    unsigned port = 0;
    *g = (struct good){.server = qr_link_grpc_new_with_acceptor(&qr_clock_monotonic, tls, NULL),
                       .client = qr_link_grpc_new(&qr_clock_monotonic, tls)};
    CHECK(g->server->ops->listen(g->server, "127.0.0.1:0", &port, &err) == QR_OK, "%s", err.msg);
    snprintf(ret_address, 64, "127.0.0.1:%u", port);
    g->client->ops->dial(g->client, 1, ret_address);
    for (int i = 0; i < 3000 && g->received < 10; i++) turn_good(g);
    CHECK(g->received >= 10, "no good connection");
}
static void close_good(struct good *g) {
    g->client->ops->hang_up(g->client, 1);
    for (int i = 0; i < 20; i++) turn_good(g);
    g->client->ops->free(g->client);
    g->server->ops->free(g->server);
}
/* A peer that connects after the attack. */
static void connect_late(struct good *g, const struct qr_link_tls *tls, const char *address,
                         const char *what) {
    struct qr_link *late = qr_link_grpc_new(&qr_clock_monotonic, tls);
    struct qr_link_event e = {.kind = QR_LINK_NOTHING};
    late->ops->dial(late, 2, address);
    for (int i = 0; i < 3000 && e.kind != QR_LINK_UP; i++) {
        turn_good(g);
        late->ops->poll(late, qr_now_ns(&qr_clock_monotonic) + QR_MS, &e);
    }
    CHECK(e.kind == QR_LINK_UP, "%s: a new peer cannot connect", what);
    late->ops->hang_up(late, 2);
    for (int i = 0; i < 20; i++) {
        turn_good(g);
        late->ops->poll(late, qr_now_ns(&qr_clock_monotonic) + QR_MS, &e);
    }
    late->ops->free(late);
}
static void test_harm(struct good *g, enum harm what, pid_t pid, int to,
                      const struct target *target, const struct qr_link_tls *tls) {
    int status = 0;
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + 20 * QR_SECOND;
    g->floods = what == NOT_READING;
    g->downs = g->hostile_ups = g->received = 0;
    forget_peak();
    long before = rss_kb("VmRSS:");
    int64_t cuts_before = qr_counter_value(QR_LINK_CUT);
    CHECK(write(to, target, sizeof *target) == (ssize_t)sizeof *target);
    close(to);
    while (waitpid(pid, &status, WNOHANG) == 0 && qr_now_ns(&qr_clock_monotonic) < end_ns)
        turn_good(g);
    unsigned had = g->received;
    connect_late(g, tls, target->address, harm_name[what]);
    long more = rss_kb("VmHWM:") - before;
    printf("%s: %ld KB more at most; %u good messages, %u hostile connections up\n",
           harm_name[what], more, g->received, g->hostile_ups);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    /* Of dripping connections, fewer than half are ever open together. */
    long limit_kb = what == IDLE       ? IDLE_CONNECTIONS * IDLE_KB
                    : what == DRIPPING ? DRIPPING_CONNECTIONS / 2 * HANDSHAKE_KB
                                       : PEER_KB;
    CHECK(more <= limit_kb, "%s: %ld KB more", harm_name[what], more);
#endif
    if (what >= DRIPPING)
        CHECK(qr_counter_value(QR_LINK_CUT) > cuts_before, "%s: no connection was cut",
              harm_name[what]);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: the child: %d", harm_name[what],
          status);
    /* Exceeding the quota can cut any connection: it is dialed again, and the group continues with
     * the same bits. */
    CHECK(g->downs <= (what == OVERSIZE) && g->received > had && g->oversized == 0,
          "%s: %u down, %u then %u, %u oversized", harm_name[what], g->downs, had, g->received,
          g->oversized);
}

int main(void) {
    pid_t pid[HARMS];
    int to[HARMS];
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    many_descriptors();
    for (int i = 0; i < HARMS; i++) pid[i] = start_harm((enum harm)i, &to[i]);
    const struct qr_certificate_request o = tls_order("hostile");
    struct qr_certificate_set set = tls_make(&o);
    struct target target = {.dir = tls_dir_new()};
    tls_dir_put(&target.dir, &set);
    qr_certificate_wipe(&set);
    struct qr_link_tls *tls = tls_open(&target.dir);
    struct good g;
    open_good(&g, tls, target.address);
    for (int i = 0; i < RAPID_RESET; i++) test_harm(&g, (enum harm)i, pid[i], to[i], &target, tls);
    close_good(&g);
    open_good(&g, NULL, target.address); /* raw HTTP/2, without TLS */
    for (int i = RAPID_RESET; i < HARMS; i++)
        test_harm(&g, (enum harm)i, pid[i], to[i], &target, NULL);
    close_good(&g);
    qr_link_tls_free(tls);
    tls_dir_free(&target.dir);
    return t_end();
}
