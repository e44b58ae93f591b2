/* A connection is identified by both its ends: another one from the same remote port to another
 * local port must not affect it. A process that does nothing is checked once a second. */
#include <arpa/inet.h>
#include <dirent.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/counter.h"
#include "link/link_grpc.h"
#include "link/link_grpc_parts_impl.h"
#include "tests/real.h"
#include "tests/t.h"

enum { PORTS = 2 };
static atomic_bool stopping;

static struct sockaddr_in loopback(unsigned port) {
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Connects from *port, which may have other connections; 0: from any, and *port gets it. */
static int connect_from(unsigned *port, unsigned to) {
    struct sockaddr_in local = loopback(*port), remote = loopback(to);
    socklen_t n = sizeof local;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    CHECK(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0);
    CHECK(bind(fd, (struct sockaddr *)&local, sizeof local) == 0, "%m");
    CHECK(connect(fd, (struct sockaddr *)&remote, sizeof remote) == 0, "%m");
    CHECK(getsockname(fd, (struct sockaddr *)&local, &n) == 0);
    *port = ntohs(local.sin_port);
    return fd;
}

/* Copies between the two sockets until one is closed. */
static void *relay(void *ctx) {
    const int *fd = ctx;
    struct pollfd p[2] = {{.fd = fd[0], .events = POLLIN}, {.fd = fd[1], .events = POLLIN}};
    static char buffer[64 << 10];
    while (!atomic_load(&stopping)) {
        poll(p, 2, 10);
        for (int i = 0; i < 2; i++) {
            if (!p[i].revents) continue;
            ssize_t n = read(fd[i], buffer, sizeof buffer);
            if (n <= 0) return NULL;
            for (ssize_t at = 0, k; at < n; at += k)
                if ((k = send(fd[!i], buffer + at, (size_t)(n - at), MSG_NOSIGNAL)) <= 0)
                    return NULL;
        }
    }
    return NULL;
}

/* ---- when a check is due ---- */

static unsigned n_checks; /* each reads /proc/self/fd once */
DIR *opendir(const char *path) {
    REAL(opendir);
    n_checks++;
    return real(path);
}

static int64_t virtual_ns;
static int64_t read_virtual(void *ctx) {
    (void)ctx;
    return virtual_ns;
}

static int64_t used_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * QR_SECOND + t.tv_nsec;
}

/* Calls the guard for so long, as its thread does, and uses the processor before each call. Returns
 * the number of checks. */
static unsigned checks_during(int64_t ns, int64_t busy_ns) {
    const struct qr_clock clock = {read_virtual, NULL};
    n_checks = 0;
    for (int64_t end_ns = virtual_ns + ns; virtual_ns < end_ns;) {
        for (int64_t begin_ns = used_ns(); used_ns() - begin_ns < busy_ns;) continue;
        virtual_ns += link_grpc_guard_check(&clock);
    }
    return n_checks;
}

/* 100 ms of virtual time pass within microseconds, so the process uses no processor time unless the
 * test makes it. */
static void test_due(void) {
    virtual_ns = 1000 * QR_SECOND;
    checks_during(QR_MS, 0); /* the first one */
    unsigned idle = checks_during(10 * QR_SECOND, 0), busy = checks_during(QR_SECOND, 50 * QR_MS);
    CHECK(idle >= 9 && idle <= 20, "idle: %u checks in 10 s", idle);
    CHECK(busy >= 9, "busy: %u checks in 1 s", busy);
}

int main(void) {
    test_due();
    struct qr_err err = {0};
    struct qr_link *server[PORTS], *client = qr_link_grpc_new(&qr_clock_monotonic, NULL);
    unsigned port[PORTS] = {0}, from = 0, received = 0, downs = 0;
    for (int i = 0; i < PORTS; i++) {
        server[i] = qr_link_grpc_new_with_acceptor(&qr_clock_monotonic, NULL, NULL);
        CHECK(server[i]->ops->listen(server[i], "127.0.0.1:0", &port[i], &err) == QR_OK, "%s",
              err.msg);
    }
    /* The client dials the relay, whose remote port the test knows. */
    struct sockaddr_in at = loopback(0);
    socklen_t n = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0 &&
          getsockname(listener, (struct sockaddr *)&at, &n) == 0);
    char address[64];
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    client->ops->dial(client, 1, address);
    uint32_t conn = 0;
    int fd[2] = {-1, -1}, second_fd = -1;
    pthread_t thread;
    static uint8_t body[100 << 10];
    int64_t cuts_before = qr_counter_value(QR_LINK_CUT), end_ns = 0;
    int64_t deadline_ns = qr_now_ns(&qr_clock_monotonic) + 60 * QR_SECOND;
    while ((!end_ns || qr_now_ns(&qr_clock_monotonic) < end_ns) && !downs &&
           qr_now_ns(&qr_clock_monotonic) < deadline_ns) {
        struct qr_link *all[] = {server[0], server[1], client};
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (fd[0] < 0 && poll(&p, 1, 0) == 1) {
            fd[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
            fd[1] = connect_from(&from, port[0]);
            CHECK(pthread_create(&thread, NULL, relay, fd) == 0);
        }
        for (int i = 0; i < 3; i++) {
            struct qr_link_event e;
            all[i]->ops->poll(all[i], qr_now_ns(&qr_clock_monotonic) + QR_MS, &e);
            if (e.kind == QR_LINK_UP && i == 2) conn = e.conn;
            received += e.kind == QR_LINK_MESSAGE && i == 0;
            downs += e.kind == QR_LINK_DOWN;
        }
        if (conn)
            client->ops->send(client, conn, qr_bytes_of(body, sizeof body), qr_bytes_of(body, 0));
        if (received >= 100 && second_fd < 0) { /* 10 MB */
            second_fd = connect_from(&from, port[1]);
            end_ns = qr_now_ns(&qr_clock_monotonic) + QR_SECOND; /* enough checks */
        }
    }
    CHECK(end_ns && !downs && qr_counter_value(QR_LINK_CUT) == cuts_before,
          "%u messages, then another connection from its remote port: %u down, %lld cut", received,
          downs, (long long)(qr_counter_value(QR_LINK_CUT) - cuts_before));
    atomic_store(&stopping, true);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++) close(fd[i]);
    close(second_fd);
    close(listener);
    client->ops->hang_up(client, 1);
    client->ops->free(client);
    for (int i = 0; i < PORTS; i++) server[i]->ops->free(server[i]);
    return t_end();
}
