/* Nanoseconds per sample of one gradient (set-up of a step, forward, backward, all parameters), by
 * model, qubits, batch, threads, kernel table and engine. Each case is a process, so that peak
 * memory is per case; the runs of a group's cases alternate, so that disturbances of the machine
 * affect all cases. Each run also measures the machine's ceiling (README.md, Method).
 *
 *   bench_sim                 all groups
 *   bench_sim WORD            groups whose name and qubits contain WORD: pure, hybrid-16,
 *                             filters3-8 ...
 *   LONG=1                    also n = 30 as a whole, n = 32 on an eighth */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/gradient.h"
#include "tests/bench/peak.h"

enum { MAX_CASES = 12, MAX_RUNS = 21 };
static const double enough_ns = 20e6; /* the least time of a run, which repeats its batch */

/* Messages of a case, after each run and at its end. */
struct turn {
    double ns, cpu_ns, blocked_percent, gflops;
};
struct last {
    double flop, pass_bytes;
    int64_t resident_bytes;
    char engine[16];
};
struct child {
    struct gradient_case k;
    pid_t pid;
    int ask, answer;
    double ns[MAX_RUNS], cpu_ns[MAX_RUNS], blocked_percent[MAX_RUNS], peak;
    struct last last;
};

static void must_io(bool good) {
    if (good) return;
    fprintf(stderr, "bench_sim: a case ended early\n");
    exit(1);
}

static struct turn one_run(struct gradient *g, size_t repeat) {
    struct turn t = {.gflops = peak_gflops(g->pool, g->k.isa, QR_SINGLE, 48)};
    int64_t busy = bench_busy_ns(), start = bench_now_ns(), cpu = bench_cpu_ns();
    for (size_t i = 0; i < repeat; i++) gradient_run(g);
    t.ns = (double)(bench_now_ns() - start) / (double)(repeat * g->k.batch);
    t.cpu_ns = (double)(bench_cpu_ns() - cpu) / (double)(repeat * g->k.batch);
    double threads_ns = (double)g->k.threads * (double)(bench_now_ns() - start);
    t.blocked_percent = 100 * fmax(0, 1 - (double)(bench_busy_ns() - busy) / threads_ns);
    return t;
}

/* The process of a case: set-up, a run to warm up, then a run for each byte received. */
static void serve(const struct gradient_case *k, int ask, int answer) {
    struct gradient *g = gradient_new(k);
    struct qr_sim_facts f = qr_sim_facts(qr_model_layer(g->model, 0).plan);
    size_t repeat = 1;
    char byte;
    must_io(read(ask, &byte, 1) == 1);
    /* No warm-up for runs of seconds. */
    double ns = k->n >= 26 ? enough_ns : one_run(g, 1).ns * (double)k->batch;
    if (ns < enough_ns) repeat = (size_t)(enough_ns / ns) + 1;
    must_io(write(answer, &byte, 1) == 1);
    while (read(ask, &byte, 1) == 1 && byte == 'r') {
        struct turn t = one_run(g, repeat);
        must_io(write(answer, &t, sizeof t) == sizeof t);
    }
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    double filters = (double)qr_model_layer(g->model, 0).n_filters,
           amplitudes = (double)(UINT64_C(1) << k->n);
    struct last l = {.flop = f.flop_per_gradient / k->part * filters,
                     .resident_bytes = u.ru_maxrss * INT64_C(1024)};
    /* the statevector engine reads and writes one vector in each pass forward, two in
     * each backward */
    l.pass_bytes = 3.0 * (double)f.n_passes * 16 * amplitudes * filters;
    snprintf(l.engine, sizeof l.engine, "%s", f.engine);
    must_io(write(answer, &l, sizeof l) == sizeof l);
    gradient_free(g);
    _exit(0);
}

static void begin(struct child *c) {
    int ask[2], answer[2];
    must_io(pipe2(ask, O_CLOEXEC) == 0 && pipe2(answer, O_CLOEXEC) == 0);
    fflush(stdout);
    c->pid = fork();
    must_io(c->pid >= 0);
    if (c->pid == 0) {
        close(ask[1]);
        close(answer[0]);
        serve(&c->k, ask[0], answer[1]);
    }
    close(ask[0]);
    close(answer[1]);
    c->ask = ask[1];
    c->answer = answer[0];
}

static void say(struct child *c, size_t runs) {
    struct bench_spread ns = bench_spread(c->ns, runs), cpu = bench_spread(c->cpu_ns, runs);
    struct bench_spread blocked = bench_spread(c->blocked_percent, runs);
    bench_open("gradient", gradient_names[c->k.kind]);
    bench_put_count("n", c->k.n);
    bench_put_count("batch", (double)c->k.batch);
    bench_put_count("threads", c->k.threads);
    bench_put("table", qr_isa_name(c->k.isa));
    bench_put("engine", c->last.engine);
    if (c->k.part > 1) bench_put_number("part", 1.0 / c->k.part);
    bench_put_ns(ns, runs);
    bench_put_number("cpu_ns", cpu.median);
    if (c->k.threads > 1) bench_put_number("blocked_percent", blocked.median);
    bench_put_count("flops", c->last.flop);
    if (c->last.pass_bytes > 0) bench_put_count("bytes", c->last.pass_bytes);
    bench_put_number("gflops", c->last.flop / ns.median);
    bench_put_number("gflops_ceiling", c->peak);
    bench_put_number("ceiling_percent", 100 * c->last.flop / ns.median / c->peak);
    bench_put_count("resident_bytes", (double)c->last.resident_bytes);
    bench_close();
}

/* Runs the cases alternately, and prints them. */
static void group(struct child *c, size_t n, size_t runs) {
    char byte = 'w';
    for (size_t i = 0; i < n; i++) {
        begin(&c[i]);
        must_io(write(c[i].ask, &byte, 1) == 1 && read(c[i].answer, &byte, 1) == 1);
    }
    byte = 'r';
    for (size_t r = 0; r < runs; r++)
        for (size_t i = 0; i < n; i++) {
            struct turn t;
            must_io(write(c[i].ask, &byte, 1) == 1 && read(c[i].answer, &t, sizeof t) == sizeof t);
            c[i].ns[r] = t.ns;
            c[i].cpu_ns[r] = t.cpu_ns;
            c[i].blocked_percent[r] = t.blocked_percent;
            if (t.gflops > c[i].peak) c[i].peak = t.gflops;
        }
    byte = 'e';
    for (size_t i = 0; i < n; i++) {
        must_io(write(c[i].ask, &byte, 1) == 1 &&
                read(c[i].answer, &c[i].last, sizeof c[i].last) == sizeof c[i].last);
        close(c[i].ask);
        close(c[i].answer);
        waitpid(c[i].pid, NULL, 0);
        say(&c[i], runs);
    }
}

/* The default engine with one and two threads. statevector: that engine too. tables: the other
 * kernel tables too, with one thread. */
struct plan {
    enum gradient_kind kind;
    unsigned n;
    size_t batch, runs;
    unsigned part;
    bool statevector, tables;
};

static void run_plan(const struct plan *p) {
    struct child c[MAX_CASES] = {0};
    size_t n = 0;
    struct gradient_case k = {p->kind, p->n, p->batch, 1, qr_isa_best(), QR_ENGINE_AUTO, p->part};
    for (int g = 0; g <= p->statevector; g++)
        for (unsigned t = 1; t <= 2; t++) {
            k.engine = g ? QR_ENGINE_STATEVECTOR : QR_ENGINE_AUTO;
            k.threads = t;
            c[n++].k = k;
        }
    k.engine = QR_ENGINE_AUTO;
    k.threads = 1;
    for (int isa = 0; isa < QR_ISAS && p->tables; isa++) {
        k.isa = (enum qr_isa)isa;
        if (qr_isa_available(k.isa) && k.isa != qr_isa_best() &&
            (isa != QR_ISA_PORTABLE || p->n <= 12))
            c[n++].k = k;
    }
    group(c, n, p->runs);
}

static void run_plans(const struct plan *p, size_t n, const char *word) {
    char name[64];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s-%u", gradient_names[p[i].kind], p[i].n);
        if (strstr(name, word)) run_plan(&p[i]);
    }
}

int main(int argc, char **argv) {
    static const struct plan plans[] = {
        /* qubits, batch, runs, part, statevector, tables */
        {GRADIENT_PURE, 8, 64, 21, 1, true, true},
        {GRADIENT_PURE, 8, 16, 21, 1, false, false},
        {GRADIENT_PURE, 8, 112, 21, 1, false, false},
        {GRADIENT_PURE, 12, 32, 15, 1, true, true},
        {GRADIENT_PURE, 15, 16, 15, 1, true, false},
        {GRADIENT_PURE, 16, 16, 15, 1, true, true},
        {GRADIENT_PURE, 19, 8, 9, 1, true, false},
        {GRADIENT_PURE, 20, 4, 9, 1, true, true},
        {GRADIENT_PURE, 22, 4, 9, 1, false, false},
        {GRADIENT_PURE, 23, 2, 7, 1, false, true},
        {GRADIENT_PURE, 24, 1, 7, 1, false, false},
        {GRADIENT_PURE, 26, 1, 3, 1, false, false},
        {GRADIENT_PURE, 28, 1, 3, 1, false, false},
        {GRADIENT_PURE, 30, 1, 3, 8, false, false},
        {GRADIENT_PURE, 32, 1, 1, 32, false, false},
        {GRADIENT_HYBRID, 8, 64, 21, 1, true, false},
        {GRADIENT_HYBRID, 12, 64, 15, 1, true, true},
        {GRADIENT_HYBRID, 16, 64, 15, 1, false, false},
        {GRADIENT_HYBRID, 20, 64, 15, 1, false, true},
        {GRADIENT_HYBRID, 23, 64, 15, 1, false, false},
        {GRADIENT_HYBRID, 64, 64, 15, 1, false, false},
        {GRADIENT_HYBRID, 256, 64, 15, 1, false, false},
        {GRADIENT_HYBRID, 1024, 64, 15, 1, false, false},
        {GRADIENT_FILTERS, 8, 64, 21, 1, false, false},
        {GRADIENT_FILTERS, 12, 32, 15, 1, false, false},
        {GRADIENT_FILTERS, 16, 16, 9, 1, false, false},
        {GRADIENT_FILTERS, 20, 2, 7, 1, false, false},
    };
    static const struct plan slow[] = {{GRADIENT_PURE, 30, 1, 1, 1, false, false},
                                       {GRADIENT_PURE, 32, 1, 1, 8, false, false}};
    const char *word = argc > 1 ? argv[1] : "";
    run_plans(plans, sizeof plans / sizeof plans[0], word);
    if (getenv("LONG")) run_plans(slow, sizeof slow / sizeof slow[0], word);
    return 0;
}
