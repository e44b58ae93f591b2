/* Dials to a peer that accepts the connection and then sends nothing: one whose node failed, or
 * another program. The wait for it has a bound, since the right peer may have restarted
 * elsewhere. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/link_grpc.h"
#include "tests/t.h"

enum { HELD = 64 };
struct silent_peer {
    bool greets; /* sends HTTP/2 settings: there is a connection, but no stream */
    int listener, held[HELD];
    unsigned n;
};

static unsigned open_silent_peer(struct silent_peer *m, bool greets) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int yes = 1;
    *m = (struct silent_peer){.greets = greets,
                              .listener =
                                  socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
    setsockopt(m->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    CHECK(bind(m->listener, (const struct sockaddr *)&a, sizeof a) == 0 &&
          listen(m->listener, HELD) == 0 &&
          getsockname(m->listener, (struct sockaddr *)&a, &n) == 0);
    return ntohs(a.sin_port);
}

static void accept_connections(struct silent_peer *m) {
    static const uint8_t settings[9] = {[3] = 4};
    int fd = m->n < HELD ? accept4(m->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    if (fd < 0) return;
    if (m->greets) CHECK(write(fd, settings, sizeof settings) == (ssize_t)sizeof settings);
    m->held[m->n++] = fd;
}

static bool up_within(struct qr_link *const *links, unsigned n, struct silent_peer *m, int64_t ns) {
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + ns;
    for (int64_t now_ns; (now_ns = qr_now_ns(&qr_clock_monotonic)) < end_ns;) {
        if (m) accept_connections(m);
        for (unsigned i = 0; i < n; i++) {
            struct qr_link_event e;
            links[i]->ops->poll(links[i], now_ns + QR_MS, &e);
            if (i == 0 && e.kind == QR_LINK_UP) return true;
        }
    }
    return false;
}

/* The silent peer keeps its connections while the right one listens at its address. */
static void test_silent_peer(bool greets, int64_t bound_ns) {
    struct silent_peer m;
    struct qr_err err = {0};
    char address[64];
    unsigned port = open_silent_peer(&m, greets), bound;
    struct qr_link *links[] = {qr_link_grpc_new_with_acceptor(&qr_clock_monotonic, NULL, NULL),
                               qr_link_grpc_new_with_acceptor(&qr_clock_monotonic, NULL, NULL)};
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    links[0]->ops->dial(links[0], 7, address);
    CHECK(!up_within(links, 1, &m, 2 * QR_SECOND), "a silent peer is not up");
    CHECK(m.n > 0, "no connection");
    close(m.listener);
    CHECK(links[1]->ops->listen(links[1], address, &bound, &err) == QR_OK, "%s", err.msg);
    CHECK(up_within(links, 2, NULL, bound_ns), "%s: not within %lld s",
          greets ? "settings" : "silent", (long long)(bound_ns / QR_SECOND));
    for (unsigned i = 0; i < m.n; i++) close(m.held[i]);
    for (size_t i = 0; i < COUNT(links); i++) links[i]->ops->free(links[i]);
}

/* The monotonic time, but at most *stops. */
static int64_t clock_that_stops(void *stops) {
    int64_t now_ns = qr_now_ns(&qr_clock_monotonic), stops_ns = *(int64_t *)stops;
    return now_ns < stops_ns ? now_ns : stops_ns;
}

/* Before the first success an attempt counts until it ends, after 3 s, so that a machine that is
 * slow does not get more attempts. The link's clock stops at 2.5 s. */
static void test_few_at_once(void) {
    struct silent_peer m;
    char address[64];
    int64_t end_ns = qr_now_ns(&qr_clock_monotonic) + 3 * QR_SECOND,
            stops_ns = end_ns - QR_SECOND / 2;
    const struct qr_clock clock = {clock_that_stops, &stops_ns};
    struct qr_link *l = qr_link_grpc_new_with_acceptor(&clock, NULL, NULL);
    snprintf(address, sizeof address, "127.0.0.1:%u", open_silent_peer(&m, false));
    for (uint32_t tag = 0; tag < 20; tag++) l->ops->dial(l, tag, address);
    while (qr_now_ns(&qr_clock_monotonic) < end_ns) {
        struct qr_link_event e;
        accept_connections(&m);
        l->ops->poll(l, qr_now_ns(&clock), &e);
        usleep(1000);
    }
    CHECK(m.n == 2, "%u connections", m.n);
    stops_ns = INT64_MAX;
    close(m.listener);
    for (unsigned i = 0; i < m.n; i++) close(m.held[i]);
    l->ops->free(l);
}

int main(void) {
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    test_few_at_once();
    test_silent_peer(false, 3 * QR_SECOND);
    test_silent_peer(true, 12 * QR_SECOND);
    return t_end();
}
