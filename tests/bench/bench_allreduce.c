/* How long one all-reduce takes between processes on loopback, and what raw TCP between two processes moves at most. One JSON line per case.
 *
 * Workers are forks; rank 0 prints. Median over the repetitions of one run; the group is formed once for all sizes. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "group/group.h"
#include "tests/tls.h"

enum { MAX_N = 4 };
static char address[MAX_N][32];

static int listener(unsigned *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || getsockname(fd, (struct sockaddr *)&a, &n) != 0 || listen(fd, 1) != 0) abort();
    *ret_port = ntohs(a.sin_port);
    return fd;
}
static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}
/* tls: with these certificates; NULL: plaintext. */
static void run(uint32_t index, uint32_t n, const struct tls_dir *tls) {
    const char *peers[MAX_N];
    for (uint32_t i = 0; i < n; i++) peers[i] = address[i];
    struct qr_group_options o = {.run = "bench", .index = index, .n_peers = n, .peers = peers, .count_known = true, .min_workers = n,
                                 .listen_address = address[index], .form_timeout_ns = 20 * QR_SECOND, .clock = &qr_clock_monotonic,
                                 .tls = tls ? tls_open(tls) : NULL};
    struct qr_err err = {0};
    struct qr_group *g;
    struct qr_group_view view;
    unsigned port;
    if (qr_group_open(&o, &g, &port, &err) != QR_OK || qr_group_form(g, &view, &err) != QR_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    uint64_t step = 0;
    for (size_t bytes = 1 << 10; bytes <= 16 << 20; bytes *= 4) {
        size_t len = bytes / sizeof(qr_fixed);
        int reps = bytes <= 64 << 10 ? 200 : bytes <= 1 << 20 ? 40 : 8;
        qr_fixed *v = qr_xcalloc(len, sizeof *v), *sum = qr_xcalloc(len, sizeof *sum);
        int64_t ns[200];
        for (int i = -3; i < reps; i++, step++) {
            struct qr_contribution c = {.key = {.step = step}, .n_blocks = n, .vector = v, .n = len};
            qr_coverage_add_block(&c.coverage, &c.key, view.rank);
            int64_t start = qr_now_ns(&qr_clock_monotonic);
            if (qr_group_reduce(g, &c, sum, &err) != QR_OK) {
                fprintf(stderr, "%s\n", err.msg);
                exit(1);
            }
            if (i >= 0) ns[i] = qr_now_ns(&qr_clock_monotonic) - start;
        }
        qsort(ns, (size_t)reps, sizeof ns[0], by_value);
        if (index == 0)
            printf("{\"bench\":\"allreduce\",\"workers\":%u,\"tls\":%s,\"schedule\":\"%s\",\"bytes\":%zu,\"median_us\":%.1f,\"min_us\":%.1f,\"gb_per_s\":%.3f}\n", n, tls ? "true" : "false",
                   qr_group_schedule_name(g, len), bytes, (double)ns[reps / 2] * 1e-3, (double)ns[0] * 1e-3, (double)bytes / (double)ns[reps / 2]);
        fflush(stdout);
        free(v), free(sum);
    }
    if (qr_group_done(g, NULL, 5 * QR_SECOND, &err) != QR_OK) fprintf(stderr, "%s\n", err.msg);
    qr_group_close(g);
    qr_link_tls_free((struct qr_link_tls *)(uintptr_t)o.tls);
}
/* What one TCP connection moves one way in writes of 256 KB. */
static void raw_tcp(void) {
    enum { WRITE = 256 << 10, TIMES = 4096 };
    unsigned port;
    int l = listener(&port);
    pid_t pid = fork();
    char *p = qr_xcalloc(1, WRITE);
    if (pid == 0) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) _exit(1);
        for (int i = 0; i < TIMES; i++)
            if (write(fd, p, WRITE) != WRITE) _exit(1);
        _exit(0);
    }
    int fd = accept(l, NULL, NULL);
    int64_t start = qr_now_ns(&qr_clock_monotonic);
    double total = 0;
    for (ssize_t k; (k = read(fd, p, WRITE)) > 0;) total += (double)k;
    double ns = (double)(qr_now_ns(&qr_clock_monotonic) - start);
    waitpid(pid, NULL, 0);
    printf("{\"bench\":\"raw_tcp\",\"write_bytes\":%d,\"gb_per_s\":%.3f}\n", (int)WRITE, total / ns);
    fflush(stdout);
    close(fd), close(l), free(p);
}

int main(void) {
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    raw_tcp();
    const struct qr_certificate_order order = tls_order("bench");
    struct qr_certificate_set set = tls_make(&order);
    struct tls_dir dir = tls_dir_new();
    tls_dir_put(&dir, &set);
    for (uint32_t turn = 0; turn < MAX_N; turn++) { /* 2 workers, 2 over TLS, 4, 4 over TLS */
        uint32_t n = turn / 2 * 2 + 2;
        int fd[MAX_N];
        pid_t pid[MAX_N];
        unsigned port;
        for (uint32_t i = 0; i < n; i++) fd[i] = listener(&port), snprintf(address[i], sizeof address[i], "127.0.0.1:%u", port);
        for (uint32_t i = 0; i < n; i++) close(fd[i]);
        for (uint32_t i = 0; i < n; i++)
            if ((pid[i] = fork()) == 0) {
                run(i, n, turn % 2 ? &dir : NULL);
                exit(0);
            }
        for (uint32_t i = 0; i < n; i++) waitpid(pid[i], NULL, 0);
    }
    qr_certificate_wipe(&set);
    tls_dir_free(&dir);
    return 0;
}
