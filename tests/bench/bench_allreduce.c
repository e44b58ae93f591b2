/* Time of one all-reduce between processes on loopback. One JSON line per case.
 *
 *   bench_allreduce [--ranks N] [--schedule auto|ring|doubling|star|halving] [--tls]
 *                   [BYTES...]        without arguments: a selection
 *
 * Workers are forks; rank 0 prints. Median, 10th and 90th percentile over the repetitions of one
 * run; the group is formed once for all sizes. */
#include <arpa/inet.h>
#include <getopt.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/parse.h"
#include "group/group.h"
#include "tests/group_form.h"
#include "tests/bench/peers/allreduce_runs.h"
#include "tests/tls.h"

enum { MAX_N = 16, MAX_SIZES = 32 };
static char address[MAX_N][32];
static size_t sizes[MAX_SIZES] = {256, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20};
static size_t n_sizes = 7;

static int listener(unsigned *ret_port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(fd, (struct sockaddr *)&a, &n) != 0 || listen(fd, 1) != 0)
        abort();
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static void die(const struct qr_err *err) {
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

static void time_size(struct qr_group *g, uint32_t rank, uint32_t n, size_t bytes, bool tls,
                      uint64_t *step) {
    static int64_t ns[MOST_RUNS];
    struct qr_err err = {0};
    size_t len = bytes / sizeof(qr_fixed);
    qr_fixed *v = qr_xcalloc(len + 1, sizeof *v), *sum = qr_xcalloc(len + 1, sizeof *sum);
    for (size_t k = 0; k < len; k++) v[k] = (qr_fixed)k + rank;
    int runs = runs_of(bytes);
    struct used before = {0};
    for (int i = -WARM_UP; i < runs; i++, (*step)++) {
        struct qr_contribution c = {
            .key = {.reductions = *step}, .n_micro_batches = n, .vector = v, .n = len};
        qr_coverage_add_micro_batch(&c.coverage, &c.key, rank);
        if (i == 0) before = used_so_far();
        int64_t start = now_ns();
        if (qr_group_reduce(g, &c, sum, &err) != QR_OK) die(&err);
        if (i >= 0) ns[i] = now_ns() - start;
        for (size_t k = 0; i == -WARM_UP && k < len; k++)
            QR_ASSERT(sum[k] == (qr_fixed)(n * k + n * (n - 1) / 2));
    }
    char name[32];
    snprintf(name, sizeof name, "%s%s", qr_group_schedule_name(g, len), tls ? "+tls" : "");
    if (rank == 0) print_line("qring", (int)n, bytes, name, ns, runs, before);
    free(v);
    free(sum);
}

/* tls: certificates; NULL: plaintext. */
static void run(uint32_t index, uint32_t n, enum qr_allreduce schedule, const struct tls_dir *tls) {
    const char *peers[MAX_N];
    for (uint32_t i = 0; i < n; i++) peers[i] = address[i];
    struct qr_link_tls *own = tls ? tls_open(tls) : NULL;
    struct qr_group_options o = {.run = "bench",
                                 .index = index,
                                 .n_peers = n,
                                 .peers = peers,
                                 .count_known = true,
                                 .min_workers = n,
                                 .listen_address = address[index],
                                 .form_timeout_ns = 20 * QR_SECOND,
                                 .clock = &qr_clock_monotonic,
                                 .allreduce = schedule,
                                 .tls = own};
    struct qr_err err = {0};
    struct qr_group *g;
    struct qr_group_view view;
    unsigned port;
    if (qr_group_open(&o, &g, &port, &err) != QR_OK || form_group(g, &view, &err) != QR_OK)
        die(&err);
    uint64_t step = 0;
    for (size_t i = 0; i < n_sizes; i++) time_size(g, view.rank, n, sizes[i], tls != NULL, &step);
    if (qr_group_done(g, NULL, 5 * QR_SECOND, &err) != QR_OK) fprintf(stderr, "%s\n", err.msg);
    qr_group_close(g);
    qr_link_tls_free(own);
}

static bool run_all(uint32_t n, enum qr_allreduce schedule, const struct tls_dir *tls) {
    int fd[MAX_N], status;
    pid_t pid[MAX_N];
    unsigned port;
    bool good = true;
    for (uint32_t i = 0; i < n; i++) {
        fd[i] = listener(&port);
        snprintf(address[i], sizeof address[i], "127.0.0.1:%u", port);
    }
    for (uint32_t i = 0; i < n; i++) close(fd[i]);
    for (uint32_t i = 0; i < n; i++)
        if ((pid[i] = fork()) == 0) {
            run(i, n, schedule, tls);
            exit(0);
        }
    for (uint32_t i = 0; i < n; i++)
        good = waitpid(pid[i], &status, 0) == pid[i] && status == 0 && good;
    return good;
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"ranks", 1, NULL, 'n'}, {"schedule", 1, NULL, 's'}, {"tls", 0, NULL, 't'}, {0}};
    uint64_t n = 0, bytes;
    int schedule = QR_ALLREDUCE_AUTO;
    bool with_tls = false, good = true;
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'n' && qr_parse_u64(optarg, &n) && n >= 2 && n <= MAX_N) continue;
        if (c == 't') with_tls = true;
        else if (c == 's') {
            for (schedule = QR_ALLREDUCE_KINDS - 1;
                 schedule > 0 && strcmp(qr_allreduce_names[schedule], optarg) != 0;)
                schedule--;
        } else return 2;
    }
    if (optind < argc) n_sizes = 0;
    for (; optind < argc && n_sizes < MAX_SIZES; optind++)
        if (qr_parse_u64(argv[optind], &bytes)) sizes[n_sizes++] = bytes;
    setenv("GRPC_POLL_STRATEGY", "poll", 1);
    const struct qr_certificate_request order = tls_order("bench");
    struct qr_certificate_set set = tls_make(&order);
    struct tls_dir dir = tls_dir_new();
    tls_dir_put(&dir, &set);
    if (n) good = run_all((uint32_t)n, (enum qr_allreduce)schedule, with_tls ? &dir : NULL);
    /* 2 workers, 2 over TLS, 4, 4 over TLS, 8, 8 over TLS */
    for (uint32_t turn = 0; !n && turn < 6; turn++)
        good = run_all(2U << turn / 2, QR_ALLREDUCE_AUTO, turn % 2 ? &dir : NULL) && good;
    qr_certificate_wipe(&set);
    tls_dir_free(&dir);
    return !good;
}
