/* qring's side of tests/bench/peers: gradients of a batch, one repetition each time it is told to.
 *
 * gradient THREADS [statevector] reads one request a line and answers each with one line of JSON
 * (talk.py has the other sides):
 *   open FOLDER  loads the job FOLDER/job.json, any job, with its data and its weights. All samples
 *                that train are the batch; it runs once. statevector: by that engine
 *   run MS       gradients, one after the other, until MS milliseconds have passed, at least one:
 *                mean nanoseconds of one, by the clock and of processor time, and what the
 *                machine's multiply-adds gave before
 *   result       what the last one computed: mean loss and its gradient */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/pool.h"
#include "job/workload.h"
#include "tests/bench/peak.h"

enum { MAX_LINE = 4096 };

struct batch {
    struct qr_job *job;
    struct qr_workload w;
    enum qr_engine engine;
    struct qr_model *model; /* the workload's, or one by another engine */
    struct qr_model_state *state;
    struct qr_pool *pool;
    unsigned n_lanes;
    struct qr_model_workspace **lanes;
    const double **x, **y;
    uint32_t *numbers; /* of the samples */
    struct qr_draw draw;
    size_t n_samples, micro_batch, n_values;
    qr_fixed *values; /* per lane */
    atomic_bool bad;
};

static _Noreturn void stop(const char *what, const char *detail) {
    fprintf(stderr, "gradient: %s: %s\n", what, detail);
    exit(1);
}

static void must(enum qr_code code, const struct qr_err *err) {
    if (code != QR_OK) stop("refused", err->msg);
}

static unsigned whole(const char *text, unsigned most) {
    uint64_t v = 0;
    if (!text || !qr_parse_u64(text, &v) || v > most)
        stop("no number in its range", text ? text : "nothing");
    return (unsigned)v;
}

static void load(struct batch *b, const char *folder, unsigned threads) {
    struct qr_err err;
    qr_auto(qr_free_p) char *path = qr_xasprintf("%s/job.json", folder);
    must(qr_job_load(path, NULL, &b->job, &err), &err);
    must(qr_workload_load(b->job, "auto", threads, &b->w, &err), &err);
    b->model = b->w.model;
    if (b->engine == QR_ENGINE_AUTO) return;
    const struct qr_job *j = b->job;
    struct qr_model_options o = {
        .layers = j->layers,
        .n_layers = j->n_layers,
        .loss = j->train.loss,
        .sim = {.precision = j->precision, .isa = qr_isa_best(), .engine = b->engine},
        .micro_batch_size = j->micro_batch_size};
    must(qr_model_new(&o, &b->model, &err), &err);
}

static void run_micro_batch(void *ctx, size_t i, unsigned worker) {
    struct batch *b = ctx;
    size_t first = i * b->micro_batch,
           n = b->n_samples - first < b->micro_batch ? b->n_samples - first : b->micro_batch;
    unsigned lane = b->n_lanes == 1 ? 0 : worker;
    qr_fixed *sums = b->values + lane * b->n_values;
    struct qr_draw draw = b->draw;
    draw.sample = b->numbers + first;
    if (!qr_model_micro_batch(b->state, b->lanes[lane], b->pool, b->x + first, b->y + first, n,
                              &draw, sums, sums + qr_model_n_sums(b->model)))
        atomic_store(&b->bad, true);
}

/* The whole batch, as a training step does it. */
static void run(struct batch *b) {
    size_t n = (b->n_samples + b->micro_batch - 1) / b->micro_batch;
    b->draw.step++;
    qr_model_prepare(b->state, b->w.initial, b->pool);
    memset(b->values, 0, b->n_lanes * b->n_values * sizeof *b->values);
    if (b->n_lanes > 1) qr_pool_for(b->pool, n, run_micro_batch, b);
    for (size_t i = 0; i < n && b->n_lanes == 1; i++) run_micro_batch(b, i, 0);
    if (atomic_load(&b->bad)) stop(b->job->name, "a number is not finite");
}

static struct batch *batch_new(const char *folder, unsigned threads, enum qr_engine engine) {
    struct qr_err err;
    struct batch *b = qr_xcalloc(1, sizeof *b);
    b->engine = engine;
    load(b, folder, threads);
    b->n_samples = b->w.data.n_train;
    b->micro_batch = b->job->micro_batch_size;
    if (threads > 1) b->pool = qr_pool_new(threads);
    b->n_lanes = qr_model_micro_batches_in_parallel(b->model) ? threads : 1;
    b->lanes = qr_xcalloc(b->n_lanes, sizeof *b->lanes);
    for (unsigned i = 0; i < b->n_lanes; i++)
        must(qr_model_workspace_new(b->model, &b->lanes[i], &err), &err);
    b->state = qr_model_state_new(b->model);
    b->x = qr_xcalloc(b->n_samples, sizeof *b->x);
    b->y = qr_xcalloc(b->n_samples, sizeof *b->y);
    b->numbers = qr_xcalloc(b->n_samples, sizeof *b->numbers);
    b->draw = (struct qr_draw){.seed = 1, .trains = true};
    for (size_t i = 0; i < b->n_samples; i++) {
        b->x[i] = b->w.data.x + i * b->w.data.n_columns;
        b->y[i] = qr_dataset_y(&b->w.data, i);
        b->numbers[i] = (uint32_t)i;
    }
    b->n_values = qr_model_n_sums(b->model) + qr_model_n_params(b->model);
    b->values = qr_xcalloc(b->n_lanes * b->n_values, sizeof *b->values);
    return b;
}

static void batch_free(struct batch *b) {
    for (unsigned i = 0; i < b->n_lanes; i++) qr_model_workspace_free(b->lanes[i]);
    qr_model_state_free(b->state);
    qr_pool_free(b->pool);
    if (b->model != b->w.model) qr_model_free(b->model);
    qr_workload_fini(&b->w);
    qr_job_free(b->job);
    free(b->lanes);
    free(b->x);
    free(b->y);
    free(b->numbers);
    free(b->values);
    free(b);
}

static void answer_open(const struct batch *b) {
    struct qr_sim_facts facts =
        qr_sim_facts(qr_model_layer(b->model, qr_model_quantum(b->model, 0)).plan);
    printf("{\"table\": \"%s\", \"engine\": \"%s\", \"flops\": %.0f}\n", qr_isa_name(qr_isa_best()),
           facts.engine, facts.flop_per_gradient);
}

static void answer_run(struct batch *b, unsigned ms) {
    double gflops = peak_gflops(b->pool, qr_isa_best(), QR_SINGLE, 48);
    int64_t cpu_ns = bench_cpu_ns(), start_ns = bench_now_ns(), took_ns;
    int count = 0;
    do {
        run(b);
        count++;
        took_ns = bench_now_ns() - start_ns;
    } while (took_ns < (int64_t)ms * 1000000);
    cpu_ns = bench_cpu_ns() - cpu_ns;
    printf("{\"ns\": %.1f, \"cpu_ns\": %.1f, \"gflops_ceiling\": %.1f}\n", (double)took_ns / count,
           (double)cpu_ns / count, gflops);
}

static void answer_result(struct batch *b) {
    size_t n_sums = qr_model_n_sums(b->model), n = qr_model_n_params(b->model);
    double samples = (double)b->n_samples;
    for (unsigned i = 1; i < b->n_lanes; i++) {
        qr_fixed *lane = b->values + i * b->n_values;
        qr_fixed_add(b->values, lane, b->n_values);
        memset(lane, 0, b->n_values * sizeof *lane);
    }
    printf("{\"loss\": %.9g, \"gradient\": [", qr_fixed_to_double(b->values[0]) / samples);
    for (size_t i = 0; i < n; i++)
        printf("%s%.9g", i ? ", " : "", qr_fixed_to_double(b->values[n_sums + i]) / samples);
    printf("]}\n");
}

int main(int argc, char **argv) {
    static char line[MAX_LINE];
    unsigned threads = argc > 1 ? whole(argv[1], 256) : 1;
    enum qr_engine engine = argc > 2 ? QR_ENGINE_STATEVECTOR : QR_ENGINE_AUTO;
    struct batch *b = NULL;
    while (fgets(line, sizeof line, stdin)) {
        char *rest = line;
        const char *word = strsep(&rest, " \n"), *argument = strsep(&rest, "\n");
        if (strcmp(word, "open") == 0 && argument) {
            if (b) batch_free(b);
            b = batch_new(argument, threads, engine);
            run(b);
            answer_open(b);
        } else if (strcmp(word, "run") == 0 && b) answer_run(b, whole(argument, 100000));
        else if (strcmp(word, "result") == 0 && b) answer_result(b);
        else stop("unknown request", word);
        fflush(stdout);
    }
    if (b) batch_free(b);
    return 0;
}
