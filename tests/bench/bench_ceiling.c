/* Limits of the machine, measured in the same run as the benchmarks: fused multiply-adds from
 * registers by kernel table, precision and threads; memory bandwidth, reading and triad (a = b + s
 * * c), in each cache and in main memory; TCP over loopback between two processes. */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "tests/bench/peak.h"

enum { RUNS = 21 };

/* ---- multiply-adds ---- */

/* Runs with one thread and with two alternate. */
static void multiply_adds(struct qr_pool *two, enum qr_isa isa, enum qr_precision precision) {
    double ns[2][RUNS];
    struct peak_loop loop = peak_loop(isa, precision);
    for (int r = -1; r < RUNS; r++)
        for (int t = 0; t < 2; t++) {
            double gflops = peak_gflops(t ? two : NULL, isa, precision, 64);
            if (r >= 0) ns[t][r] = loop.flop / gflops;
        }
    for (int t = 0; t < 2; t++) {
        struct bench_spread s = bench_spread(ns[t], RUNS);
        bench_open("ceiling", precision == QR_DOUBLE ? "fma-float64" : "fma-float32");
        bench_put_count("threads", t + 1);
        bench_put("table", qr_isa_name(isa));
        bench_put_ns(s, RUNS);
        bench_put_count("flops", loop.flop);
        bench_put_number("gflops", loop.flop / s.median);
        bench_put_number("gflops_best", loop.flop / ns[t][0]);
        bench_close();
    }
}

/* ---- memory ---- */

typedef float wide __attribute__((vector_size(64)));
struct memory {
    wide *a, *b, *c;
    size_t n, times;
    wide sum;
};
struct memories {
    struct memory of[2];
    void (*run)(struct memory *);
};

/* Eight sums, so that additions do not depend on each other. */
#define READ(m)                                                                                    \
    const wide *a = (m)->a;                                                                        \
    for (size_t t = 0; t < (m)->times; t++) {                                                      \
        wide s0 = (m)->sum, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;         \
        for (size_t i = 0; i < (m)->n; i += 8) {                                                   \
            s0 += a[i];                                                                            \
            s1 += a[i + 1];                                                                        \
            s2 += a[i + 2];                                                                        \
            s3 += a[i + 3];                                                                        \
            s4 += a[i + 4];                                                                        \
            s5 += a[i + 5];                                                                        \
            s6 += a[i + 6];                                                                        \
            s7 += a[i + 7];                                                                        \
        }                                                                                          \
        (m)->sum = ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7));                              \
        __asm__ volatile("" : : "r"(m) : "memory");                                                \
    }
#define TRIAD(m)                                                                                   \
    for (size_t t = 0; t < (m)->times; t++) {                                                      \
        for (size_t i = 0; i < (m)->n; i++) (m)->a[i] = (m)->b[i] + (m)->c[i] * 0.5F;              \
        __asm__ volatile("" : : "r"(m) : "memory");                                                \
    }
static void read_any(struct memory *m) { READ(m) }
static void triad_any(struct memory *m) { TRIAD(m) }
#if defined __x86_64__
__attribute__((target("avx2,fma"))) static void read_avx2(struct memory *m) { READ(m) }
__attribute__((target("avx2,fma"))) static void triad_avx2(struct memory *m) { TRIAD(m) }
__attribute__((target("avx512f"))) static void read_avx512(struct memory *m) { READ(m) }
__attribute__((target("avx512f"))) static void triad_avx512(struct memory *m) { TRIAD(m) }
#else
#define read_avx2 read_any
#define triad_avx2 triad_any
#define read_avx512 read_any
#define triad_avx512 triad_any
#endif

static void memory_task(void *ctx, size_t i, unsigned worker) {
    (void)worker;
    struct memories *m = ctx;
    m->run(&m->of[i]);
}

static void memory(struct qr_pool *two, const char *level, size_t bytes_each, bool triad) {
    enum qr_isa isa = qr_isa_best();
    struct memories m = {.run = isa == QR_ISA_AVX512 ? (triad ? triad_avx512 : read_avx512)
                                : isa == QR_ISA_AVX2 ? (triad ? triad_avx2 : read_avx2)
                                                     : (triad ? triad_any : read_any)};
    size_t arrays = triad ? 3 : 1, n = bytes_each / arrays / sizeof(wide) / 8 * 8,
           moved = n * sizeof(wide) * arrays;
    double ns[2][RUNS];
    for (int i = 0; i < 2; i++) {
        struct memory *of = &m.of[i];
        *of = (struct memory){.n = n, .times = ((size_t)24 << 20) / moved + 1};
        of->a = qr_xaligned(moved);
        of->b = of->a + n;
        of->c = of->b + n;
        memset(of->a, 0, moved); /* maps the pages */
    }
    for (int r = -1; r < RUNS; r++)
        for (int t = 0; t < 2; t++) {
            int64_t start = bench_now_ns();
            if (t) qr_pool_for(two, 2, memory_task, &m);
            else memory_task(&m, 0, 0);
            if (r >= 0) ns[t][r] = (double)(bench_now_ns() - start) / (double)m.of[0].times;
        }
    for (int t = 0; t < 2; t++) {
        struct bench_spread s = bench_spread(ns[t], RUNS);
        char name[32];
        snprintf(name, sizeof name, "%s-%s", triad ? "triad" : "read", level);
        bench_open("ceiling", name);
        bench_put_count("threads", t + 1);
        bench_put_ns(s, RUNS);
        bench_put_count("bytes", (double)moved * (t + 1));
        bench_put_number("gb_per_s", (double)moved * (t + 1) / s.median);
        bench_put_number("gb_per_s_best", (double)moved * (t + 1) / ns[t][0]);
        bench_close();
    }
    free(m.of[0].a);
    free(m.of[1].a);
}

/* Size of a cache of CPU 0 in bytes; `guess` if the system does not tell. */
static size_t cache(int index, size_t guess) {
    char path[96];
    unsigned long bytes = 0;
    char unit = 0;
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lu%c", &bytes, &unit) == 2)
        bytes <<= unit == 'K' ? 10 : unit == 'M' ? 20 : 0;
    if (f) fclose(f);
    return bytes ? bytes : guess;
}

/* ---- TCP ---- */

static void must(bool good) {
    if (good) return;
    perror("bench_ceiling: TCP over loopback");
    exit(1);
}

static void tcp_pair(int fd[2]) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    must(l >= 0 && bind(l, (struct sockaddr *)&a, sizeof a) == 0 &&
         getsockname(l, (struct sockaddr *)&a, &n) == 0 && listen(l, 1) == 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(connect(fd[0], (struct sockaddr *)&a, sizeof a) == 0);
    fd[1] = accept(l, NULL, NULL);
    must(fd[1] >= 0);
    close(l);
    for (int i = 0; i < 2; i++)
        must(setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
}
static bool all(int fd, char *p, size_t n, bool out) {
    while (n) {
        ssize_t k = out ? send(fd, p, n, MSG_NOSIGNAL) : read(fd, p, n);
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* Time of one of `times` messages in one direction; with answers: half of a round trip. */
static void tcp(const char *name, size_t bytes, size_t times, bool answers) {
    enum { TCP_RUNS = 11 };
    int fd[2];
    double ns[TCP_RUNS];
    char *p = qr_xaligned(bytes);
    tcp_pair(fd);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        close(fd[0]);
        for (size_t i = 1; all(fd[1], p, bytes, false); i++)
            if (answers ? !all(fd[1], p, bytes, true) : i % times == 0 && !all(fd[1], p, 1, true))
                break;
        _exit(0);
    }
    close(fd[1]);
    for (int r = -1; r < TCP_RUNS; r++) {
        int64_t start = bench_now_ns();
        for (size_t i = 0; i < times; i++)
            must(all(fd[0], p, bytes, true) && (!answers || all(fd[0], p, bytes, false)));
        if (!answers) must(all(fd[0], p, 1, false));
        if (r >= 0) ns[r] = (double)(bench_now_ns() - start) / (double)times / (answers ? 2 : 1);
    }
    close(fd[0]);
    waitpid(pid, NULL, 0);
    struct bench_spread s = bench_spread(ns, TCP_RUNS);
    bench_open("ceiling", name);
    bench_put_count("bytes", (double)bytes);
    bench_put_ns(s, TCP_RUNS);
    bench_put_number("gb_per_s", (double)bytes / s.median);
    bench_close();
    free(p);
}

int main(void) {
    struct qr_pool *two = qr_pool_new(2);
    for (int isa = 0; isa < QR_ISAS; isa++) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        multiply_adds(two, (enum qr_isa)isa, QR_SINGLE);
        multiply_adds(two, (enum qr_isa)isa, QR_DOUBLE);
    }
    size_t l1 = cache(0, 32 << 10), l2 = cache(2, 1 << 20), l3 = cache(3, 16 << 20);
    size_t far = 4 * l3 < (size_t)64 << 20    ? (size_t)64 << 20
                 : 4 * l3 > (size_t)256 << 20 ? (size_t)256 << 20
                                              : 4 * l3;
    for (int triad = 0; triad < 2; triad++) {
        memory(two, "l1", l1 / 2, triad);
        memory(two, "l2", l2 / 2, triad);
        memory(two, "l3", l3 / 4, triad);
        memory(two, "dram", far, triad);
    }
    qr_pool_free(two);
    for (size_t bytes = 64; bytes <= 1 << 20; bytes *= bytes == 64 ? 16 : 4)
        tcp("tcp-pingpong", bytes, bytes <= 64 << 10 ? 200 : 20, true);
    tcp("tcp-stream", 256 << 10, 256, false);
    return 0;
}
