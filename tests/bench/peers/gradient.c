/* qring's side of tests/bench/peers: gradients of a batch, one repetition each time it is told to.
 *
 * gradient THREADS reads one request a line and answers each with one line of JSON (talk.py is the other side):
 *   open FILE   compiles the case that FILE describes (cases.py writes it) and runs it once
 *   run MS      gradients, one after the other, until MS milliseconds have passed, at least one: mean nanoseconds of one
 *   result      what the last one computed: the mean read-out and the mean gradient
 * A gradient is what a training step computes of it: coefficients for theta, both sweeps over all blocks of the batch, the threads'
 * integers added. The direction is 1 for every read-out. */
#include "base/clock.h"
#include "base/mem.h"
#include "base/parse.h"
#include "base/pool.h"
#include "circuit/qcnn.h"
#include "sim/sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINE = 1 << 16, MAX_BATCH = 4096, MAX_NUMBERS = 4096 };

struct lane { struct qr_sim_workspace *ws; qr_fixed *gradient; };
struct bench {
    struct qr_pool *pool;
    struct lane *lanes; /* one a thread that takes blocks of its own */
    unsigned n_lanes, n, stages;
    enum qr_qcnn_variant variant;
    enum qr_engine engine;
    struct qr_circuit *circuit;
    struct qr_sim_plan *plan;
    struct qr_sim_bound *bound;
    double theta[MAX_NUMBERS], *x, *z, *ones;
    size_t n_theta, batch, block, n_readouts;
};

static _Noreturn void stop(const char *what, const char *detail) {
    fprintf(stderr, "gradient: %s: %s\n", what, detail);
    exit(1);
}

static unsigned whole(const char *text, unsigned most) {
    uint64_t v = 0;
    if (!text || !qr_parse_u64(text, &v) || v > most) stop("no number in its range", text ? text : "nothing");
    return (unsigned)v;
}

static double real(const char *text) {
    double v = 0;
    if (!text || !qr_parse_double(text, &v)) stop("no number", text ? text : "nothing");
    return v;
}

/* ---- the case ------------------------------------------------------------------------------------------------------------ */

static void read_line(struct bench *b, char *line) {
    char *rest = line, *key = strsep(&rest, " \n"), *word = strsep(&rest, " \n");
    if (strcmp(key, "qubits") == 0) b->n = whole(word, QR_MAX_QUBITS);
    else if (strcmp(key, "stages") == 0) b->stages = whole(word, 64);
    else if (strcmp(key, "variant") == 0) b->variant = strcmp(word, "research") == 0 ? QR_QCNN_RESEARCH : QR_QCNN_NOTEBOOK;
    else if (strcmp(key, "engine") == 0) b->engine = strcmp(word, "blocked") == 0 ? QR_ENGINE_BLOCKED : QR_ENGINE_AUTO;
    else if (strcmp(key, "theta") == 0) {
        for (; word && *word && b->n_theta < MAX_NUMBERS; word = strsep(&rest, " \n")) b->theta[b->n_theta++] = real(word);
    } else if (strcmp(key, "sample") == 0 && b->n > 0 && b->batch < MAX_BATCH) {
        unsigned qubit = whole(word, b->n - 1);
        b->x = qr_xreallocarray(b->x, (b->batch + 1) * b->n, sizeof *b->x);
        for (unsigned q = 0; q < b->n; q++) b->x[b->batch * b->n + q] = 0;
        b->x[b->batch * b->n + qubit] = real(strsep(&rest, " \n"));
        b->batch++;
    } else stop("unknown line in the case", key);
}

static void read_case(struct bench *b, const char *path) {
    static char line[MAX_LINE];
    FILE *f = fopen(path, "r");
    if (!f) stop(path, strerror(errno));
    while (fgets(line, sizeof line, f)) read_line(b, line);
    fclose(f);
    if (b->batch == 0) stop(path, "no samples");
}

static void drop(struct bench *b) {
    for (unsigned i = 0; i < b->n_lanes; i++) {
        qr_sim_workspace_free(b->lanes[i].ws);
        free(b->lanes[i].gradient);
    }
    free(b->lanes);
    qr_sim_bound_free(b->bound);
    qr_sim_plan_free(b->plan);
    qr_circuit_free(b->circuit);
    free(b->x);
    free(b->z);
    free(b->ones);
    *b = (struct bench){.pool = b->pool};
}

static void compile(struct bench *b) {
    struct qr_observable o[QR_MAX_QUBITS];
    struct qr_sim_options so = {QR_SINGLE, qr_isa_best(), b->engine};
    struct qr_qcnn_options qo = {b->n, b->stages, b->variant};
    struct qr_err err;
    uint64_t remaining = 0;
    char text[16];
    bool ok = qr_qcnn_new(&qo, &b->circuit, &remaining, &err) == QR_OK;
    for (unsigned q = 0; ok && q < b->n; q++) {
        if (!(remaining >> q & 1)) continue;
        snprintf(text, sizeof text, "Z%u", q);
        ok = qr_observable_parse(text, b->n, &o[b->n_readouts++], &err) == QR_OK;
    }
    ok = ok && qr_sim_compile(b->circuit, o, b->n_readouts, &so, &b->plan, &err) == QR_OK;
    if (!ok) stop("the circuit", err.msg);
    if (b->circuit->n_params != b->n_theta) stop("the case", "another number of parameters than the circuit has");
    for (size_t i = 0; i < b->n_readouts; i++) qr_observable_fini(&o[i]);
    b->block = qr_sim_lanes_are_samples(b->plan) ? 16 : 1; /* a job's own default */
    b->n_lanes = qr_sim_blocks_in_parallel(b->plan) ? qr_pool_size(b->pool) : 1;
    b->lanes = qr_xcalloc(b->n_lanes, sizeof *b->lanes);
    for (unsigned i = 0; i < b->n_lanes; i++) {
        if (qr_sim_workspace_new(b->plan, b->block, &b->lanes[i].ws, &err) != QR_OK) stop("memory", err.msg);
        b->lanes[i].gradient = qr_xcalloc(b->n_theta, sizeof(qr_fixed));
    }
    b->bound = qr_sim_bound_new(b->plan);
    size_t n_z = b->batch * b->n_readouts;
    b->z = qr_xcalloc(n_z, sizeof *b->z);
    b->ones = qr_xcalloc(n_z, sizeof *b->ones);
    for (size_t i = 0; i < n_z; i++) b->ones[i] = 1;
}

/* ---- one gradient -------------------------------------------------------------------------------------------------------- */

static void run_block(struct bench *b, size_t i, struct lane *lane, struct qr_pool *inside) {
    size_t first = i * b->block, n = b->batch - first < b->block ? b->batch - first : b->block;
    qr_sim_forward_for_gradient(b->bound, lane->ws, inside, b->x + first * b->n, b->n, n, b->ones, b->z + first * b->n_readouts);
    if (!qr_sim_backward(b->bound, lane->ws, inside, b->ones, b->ones, lane->gradient)) stop("gradient", "a number is not finite");
}

static void task(void *ctx, size_t i, unsigned worker) {
    struct bench *b = ctx;
    run_block(b, i, &b->lanes[worker], NULL);
}

static void once(struct bench *b) {
    size_t n_blocks = (b->batch + b->block - 1) / b->block;
    for (unsigned i = 0; i < b->n_lanes; i++) memset(b->lanes[i].gradient, 0, b->n_theta * sizeof(qr_fixed));
    qr_sim_bind(b->bound, b->theta);
    if (qr_sim_blocks_in_parallel(b->plan)) qr_pool_for(b->pool, n_blocks, task, b);
    else
        for (size_t i = 0; i < n_blocks; i++) run_block(b, i, &b->lanes[0], b->pool);
    for (unsigned i = 1; i < b->n_lanes; i++) qr_fixed_add(b->lanes[0].gradient, b->lanes[i].gradient, b->n_theta);
}

/* ---- requests ------------------------------------------------------------------------------------------------------------ */

static void answer_open(struct bench *b, const char *path) {
    drop(b);
    read_case(b, path);
    compile(b);
    once(b);
    struct qr_sim_facts f = qr_sim_facts(b->plan);
    printf("{\"table\": \"%s\", \"engine\": \"%s\", \"flops\": %.0f}\n", qr_isa_name(qr_isa_best()), f.engine, f.flop_per_gradient);
}

static void answer_run(struct bench *b, unsigned ms) {
    int64_t start_ns = qr_now_ns(&qr_clock_monotonic), took_ns;
    int64_t count = 0;
    do {
        once(b);
        count++;
        took_ns = qr_now_ns(&qr_clock_monotonic) - start_ns;
    } while (took_ns < (int64_t)ms * 1000000);
    printf("{\"ns\": %.1f, \"count\": %lld}\n", (double)took_ns / (double)count, (long long)count);
}

static void answer_result(const struct bench *b) {
    double sum = 0;
    for (size_t i = 0; i < b->batch * b->n_readouts; i++) sum += b->z[i];
    printf("{\"readout\": %.9g, \"gradient\": [", sum / (double)b->batch);
    for (size_t i = 0; i < b->n_theta; i++)
        printf("%s%.9g", i ? ", " : "", qr_fixed_to_double(b->lanes[0].gradient[i]) / (double)b->batch);
    printf("]}\n");
}

int main(int argc, char **argv) {
    static char line[MAX_LINE];
    static struct bench b;
    b.pool = qr_pool_new(argc > 1 ? whole(argv[1], 256) : 1);
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line, *word = strsep(&rest, " \n"), *argument = strsep(&rest, "\n");
        if (strcmp(word, "open") == 0) answer_open(&b, argument);
        else if (strcmp(word, "run") == 0) answer_run(&b, whole(argument, 100000));
        else if (strcmp(word, "result") == 0) answer_result(&b);
        else stop("unknown request", word);
        fflush(stdout);
    }
    drop(&b);
    qr_pool_free(b.pool);
    return 0;
}
