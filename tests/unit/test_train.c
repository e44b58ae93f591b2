/* The step loop with a group of one: against a plain float64 re-computation, with several threads,
 * numbers that are not finite, early stopping and a count of allocations. */
#include <math.h>
#include <stdatomic.h>

#include "base/counter.h"
#include "base/mem.h"
#include "data/batch.h"
#include "tests/t.h"
#include "train/evaluate.h"
#include "train/train.h"

/* ---- allocations are counted while `counting` is set (not in sanitizer builds, which own
 * malloc) ---- */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define COUNTS_ALLOCATIONS 1
static atomic_bool counting;
static atomic_long n_allocations;
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t),
    *__libc_memalign(size_t, size_t);
static void count(void) {
    if (atomic_load(&counting)) atomic_fetch_add(&n_allocations, 1);
}
void *malloc(size_t n) { return count(), __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return count(), __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return count(), __libc_realloc(p, n); }
int posix_memalign(void **p, size_t a, size_t n) {
    return count(), *p = __libc_memalign(a, n), *p ? 0 : 12;
}
#endif

struct fixture {
    struct qr_job *job;
    struct qr_dataset data;
    struct qr_model *model;
    struct qr_job_canonical canonical;
    struct qr_pool *pool;
    struct qr_group *group;
};

static void setup(struct fixture *f, const char *text, unsigned threads) {
    struct qr_err err = {0};
    *f = (struct fixture){0};
    CHECK(qr_job_parse(qr_bytes_of_string(text), "the test", &f->job, &err) == QR_OK, "%s",
          err.msg);
    CHECK(qr_job_data(f->job, &f->data, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_model(f->job, qr_isa_best(), f->data.n_columns, &f->model, &err) == QR_OK, "%s",
          err.msg);
    qr_job_canonical(f->job, &f->data, NULL, &f->canonical);
    f->pool = qr_pool_new(threads);
    struct qr_group_options g = {.run = "t", .clock = &qr_clock_monotonic};
    memcpy(g.job_hash, f->canonical.hash, 32);
    f->group = qr_group_solo(&g);
}

static void teardown(struct fixture *f) {
    qr_group_close(f->group);
    qr_pool_free(f->pool);
    qr_job_canonical_fini(&f->canonical);
    qr_model_free(f->model);
    qr_dataset_fini(&f->data);
    qr_job_free(f->job);
}

static struct qr_train_options options(struct fixture *f) {
    struct qr_train_options o = {.job = f->job,
                                 .canonical = &f->canonical,
                                 .data = &f->data,
                                 .model = f->model,
                                 .group = f->group,
                                 .pool = f->pool,
                                 .clock = &qr_clock_monotonic};
    return o;
}

#define QCNN(more) QCNN_OF("4", more)
#define QCNN_OF(qubits, more) QCNN_WITH(qubits, "{\"layer\":\"dense\",\"units\":1}", more)
#define QCNN_WITH(qubits, dense, more)                                                             \
    "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\","              \
    "\"qubits\":" qubits ",\"stages\":1}}," dense                                                  \
    "],\"data\":{\"source\":\"cluster-excitations\",\"rounds\":"                                   \
    "10,\"train_fraction\":0.7},"                                                                  \
    "\"precision\":\"double\",\"micro_batch_size\":2," more "}"
#define SGD                                                                                        \
    "\"train\":{\"epochs\":3,\"batch_size\":9,\"loss\":\"mse\",\"metrics\":[\"accuracy\"],"        \
    "\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":0.1}"

#define SPSA                                                                                       \
    "\"train\":{\"epochs\":3,\"batch_size\":9,\"loss\":\"mse\",\"metrics\":[\"accuracy\"],"        \
    "\"optimizer\":{\"name\":\"spsa\",\"learning_rate\":0.02}"

/* Loss and gradient of a batch; with SPSA the estimate from the losses at two points. */
static double batch_gradient(const struct fixture *f, uint64_t step, const double *w,
                             const size_t *sample, size_t m, double *grad) {
    const struct qr_optimizer_options *o = &f->job->train.optimizer;
    size_t k = qr_model_n_params(f->model);
    struct qr_err err = {0};
    double loss[2], plus[256], minus[256], unused[256];
    uint8_t fixed[256];
    if (o->kind != QR_SPSA) {
        CHECK(qr_loss_gradient(f->model, w, &f->data, sample, m, NULL, loss, grad, &err) == QR_OK,
              "%s", err.msg);
        return loss[0];
    }
    qr_model_zero_gradient(f->model, fixed);
    qr_optimizer_points(o, f->job->seed, step, k, fixed, w, plus, minus);
    for (int i = 0; i < 2; i++)
        CHECK(qr_loss_gradient(f->model, i ? minus : plus, &f->data, sample, m, NULL, &loss[i],
                               unused, &err) == QR_OK,
              "%s", err.msg);
    qr_optimizer_estimate(o, f->job->seed, step, k, fixed, loss[0] - loss[1], grad);
    double penalties = qr_model_penalty(f->model, plus) + qr_model_penalty(f->model, minus);
    return (loss[0] + loss[1] - penalties) / 2 + qr_model_penalty(f->model, w);
}

/* The same training in plain float64, from qr_loss_gradient and the data alone: checks order,
 * batches, means and the update. */
static void train_by_hand(struct fixture *f, double *w, double *ret_loss, double *ret_last) {
    size_t n = f->data.n_train, k = qr_model_n_params(f->model), batch = f->job->train.batch_size,
           sample[64];
    double grad[256], sum = 0;
    uint64_t step = 0;
    struct qr_order o;
    qr_order_init(&o, n);
    qr_model_init(f->model, f->job->seed, w);
    for (uint64_t e = 0; e < f->job->train.epochs; e++) {
        qr_order_fill(&o, f->job->seed, e, true);
        sum = 0;
        for (size_t at = 0; at < n; at += batch) {
            size_t m = n - at < batch ? n - at : batch;
            for (size_t i = 0; i < m; i++) sample[i] = o.index[at + i];
            *ret_last = batch_gradient(f, step, w, sample, m, grad);
            sum += *ret_last * (double)m;
            double rate = qr_learning_rate_at(&f->job->train.optimizer, step++);
            for (size_t i = 0; i < k; i++) w[i] -= rate * grad[i];
        }
    }
    *ret_loss = sum / (double)n;
    qr_order_fini(&o);
}

/* Final loss of the validation samples, by qr_evaluate. */
static double validation_loss(const struct fixture *f, const double *w) {
    size_t sample[64], n = f->data.n_samples - f->data.n_train;
    double means[8];
    struct qr_err err = {0};
    for (size_t i = 0; i < n; i++) sample[i] = f->data.n_train + i;
    CHECK(qr_evaluate(f->model, w, &f->data, sample, n, NULL, NULL, NULL, means, &err) == QR_OK,
          "%s", err.msg);
    return means[0];
}

static enum qr_code keep_loss(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *detail, struct qr_err *err) {
    (void)leader, (void)detail, (void)err;
    if (!line->eval) *(double *)ctx = line->loss;
    return QR_OK;
}

static void test_against_hand(const char *text) {
    struct fixture f;
    setup(&f, text, 1);
    struct qr_train_options o = options(&f);
    struct qr_train_result r = {0};
    struct qr_err err = {0};
    double w[256], loss, last = 0, line = 0;
    o.observer.ctx = &line;
    o.observer.step = keep_loss;
    CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
    train_by_hand(&f, w, &loss, &last);
    CHECK(fabs(line - last) < 1e-13, "%g %g", line, last);
    double worst = 0;
    for (size_t i = 0; i < qr_model_n_params(f.model); i++)
        worst = t_worst(worst, fabs(w[i] - r.params[i]));
    /* Both sum the same 28 samples a step in float64, differently grouped: 12 steps of rounding at
     * 2^-53. */
    CHECK(worst < 1e-13, "%g", worst);
    CHECK(fabs(loss - r.loss) < 1e-13 && r.steps == 12 && r.epochs == 3 && r.has_val &&
              r.n_metrics == 2,
          "%g %g", loss, r.loss);
    CHECK(strcmp(r.metrics[0].name, "accuracy") == 0 &&
          strcmp(r.metrics[1].name, "val_accuracy") == 0);
    CHECK(fabs(r.val_loss - validation_loss(&f, r.params)) < 1e-13, "%g", r.val_loss);
    free(r.params);
    teardown(&f);
}

/* ---- train.log ---- */

struct logged_run {
    unsigned steps, evals;
    double loss, gap, speed; /* last of each: an epoch's training loss and logged values */
};

static double logged_value(const struct qr_step_line *line, const char *name) {
    for (size_t i = 0; i < line->n_logged; i++)
        if (strcmp(line->logged[i].name, name) == 0) return line->logged[i].value;
    return -1;
}

static double norm_of(const double *g, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += g[i] * g[i];
    return sqrt(sum);
}

static enum qr_code keep_logged(void *ctx, bool leader, const struct qr_step_line *line,
                                const struct qr_step_detail *detail, struct qr_err *err) {
    struct logged_run *r = ctx;
    (void)leader, (void)err;
    double place = (double)(100 * line->step + 10 * line->epoch + line->samples);
    CHECK(line->n_logged == (line->eval ? 2 : 3), "%zu", line->n_logged);
    if (line->eval) {
        r->evals++;
        r->gap = logged_value(line, "gap");
        CHECK(r->gap == line->loss - detail->running[0].value, "%g", r->gap);
        CHECK(logged_value(line, "shares") == line->metrics[0].value - detail->running[1].value);
        return QR_OK;
    }
    r->steps++;
    r->speed = logged_value(line, "speed");
    /* The rate is that of this step, not of the next one. */
    double rate = 0.1 * pow(0.5, (double)(line->step - 1));
    double norm = norm_of(detail->gradient, 24);
    CHECK(fabs(r->speed - rate * norm) < 1e-14, "step %d: %.17g, not %.17g", (int)line->step,
          r->speed, rate * norm);
    CHECK(logged_value(line, "place") == place, "%g, not %g", logged_value(line, "place"), place);
    CHECK(isnan(logged_value(line, "none")));
    return QR_OK;
}

#define LOGGED(more)                                                                               \
    "\"train\":{\"epochs\":3,\"batch_size\":9,\"loss\":\"mse\",\"metrics\":[\"accuracy\"],"        \
    "\"log\":{\"gap\":\"val_loss - loss\",\"speed\":\"learning_rate * gradient_norm\","            \
    "\"place\":\"100*step + 10*epoch + samples\",\"shares\":\"val_accuracy - accuracy\","          \
    "\"none\":\"log(0 - step)\"},"                                                                 \
    "\"optimizer\":{\"name\":\"sgd\",\"learning_rate\":{\"schedule\":\"exponential\","             \
    "\"initial_learning_rate\":0.1,\"decay_steps\":1,\"decay_rate\":0.5}}" more

static void test_logged(void) {
    struct fixture f;
    struct logged_run seen = {0};
    struct qr_train_result r = {0};
    struct qr_err err = {0};
    setup(&f, QCNN(LOGGED("}")), 1);
    CHECK(qr_model_n_params(f.model) == 24, "%zu", qr_model_n_params(f.model));
    struct qr_train_options o = options(&f);
    o.observer.ctx = &seen;
    o.observer.step = keep_logged;
    CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
    CHECK(seen.steps == 12 && seen.evals == 3);
    /* The result has the last values, after the metrics. */
    CHECK(r.n_metrics == 6, "%zu", r.n_metrics);
    for (size_t i = 2; i < r.n_metrics; i++) {
        if (strcmp(r.metrics[i].name, "gap") == 0)
            CHECK(r.metrics[i].value == seen.gap && seen.gap == r.val_loss - r.loss);
        CHECK(strcmp(r.metrics[i].name, "speed") != 0, "a value of one step");
    }
    /* So has /metrics. */
    char name[QR_VALUE_NAME_BYTES];
    double value;
    bool shown = false;
    for (size_t i = 0; i < QR_VALUES; i++)
        if (qr_value_get(i, name, &value) && strcmp(name, "gap") == 0) shown = value == seen.gap;
    CHECK(shown);
    qr_train_result_fini(&r);
    teardown(&f);
}

static void test_logged_without_evaluation(void) {
    struct fixture f;
    struct qr_train_result r = {0};
    struct qr_err err = {0};
    setup(&f, QCNN(LOGGED("}")), 1);
    f.data.n_train = f.data.n_samples;
    struct qr_train_options o = options(&f);
    CHECK(qr_train_run(&o, &r, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "train.log.gap: val_loss - loss uses a value of an evaluation"),
          "%s", err.msg);
    teardown(&f);
}

static void test_threads(const char *text) {
    char first[33] = "";
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct fixture f;
        setup(&f, text, threads);
        struct qr_train_options o = options(&f);
        struct qr_train_result r = {0};
        struct qr_err err = {0};
        CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
        if (threads == 1) memcpy(first, r.state_digest, sizeof first);
        CHECK(strcmp(first, r.state_digest) == 0 && strlen(first) == 32, "%s %s", first,
              r.state_digest);
        free(r.params);
        teardown(&f);
    }
}

static void test_bad_numbers(const char *text) {
    struct fixture f;
    setup(&f, text, 1);
    struct qr_train_options o = options(&f);
    struct qr_train_result r = {0};
    struct qr_err err = {0};
    f.data.y[11] = 1e30; /* the loss exceeds 2^40 */
    CHECK(qr_train_run(&o, &r, &err) == QR_OUT_OF_RANGE && r.params == NULL);
    CHECK(strstr(err.msg, "sample 11 ") && strstr(err.msg, "training batch"), "%s", err.msg);
    f.data.y[11] = 1;
    f.data.y[30] = 1e30; /* the third validation sample */
    CHECK(qr_train_run(&o, &r, &err) == QR_OUT_OF_RANGE);
    CHECK(strstr(err.msg, "sample 30 ") && strstr(err.msg, "validation batch"), "%s", err.msg);
    teardown(&f);
}

/* Samples are good, but a penalty or an update is not. */
static void test_bad_updates(void) {
    static const struct {
        const char *text, *words;
    } rows[] = {
        {QCNN_WITH("4", "{\"layer\":\"dense\",\"units\":1,\"l2\":1e15}", SGD "}"),
         "step 1: the loss with the penalties reaches 2^40"},
        {QCNN_WITH("4", "{\"layer\":\"dense\",\"units\":1,\"l2\":1e15}", SPSA "}"),
         "step 1: the loss with the penalties reaches 2^40"},
        {QCNN_WITH("4", "{\"layer\":\"dense\",\"units\":1,\"l2\":1e10}",
                   "\"train\":{\"loss\":\"mse\",\"optimizer\":{\"name\":\"sgd\","
                   "\"learning_rate\":1e300}}"),
         "step 1: a new weight is not finite"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        setup(&f, rows[i].text, 1);
        struct qr_train_options o = options(&f);
        struct qr_train_result r = {0};
        struct qr_err err = {0};
        CHECK(qr_train_run(&o, &r, &err) == QR_OUT_OF_RANGE && r.params == NULL &&
                  strstr(err.msg, rows[i].words),
              "%s", err.msg);
        teardown(&f);
    }
}

struct seen {
    size_t n;
    struct qr_step_line lines[64];
    const struct fixture *f;
    double before[256];
};

/* Counts the read-outs of the line's samples by bucket, at the weights before the line (an
 * evaluation does not change them). */
static void check_readouts(const struct seen *s, const struct qr_step_line *line,
                           const struct qr_step_detail *detail) {
    const struct fixture *f = s->f;
    size_t sample[28], n = line->eval ? 12 : 28, n_readouts = qr_model_n_readouts(f->model);
    double z[28 * 8], bound = detail->readout_bound;
    uint64_t sum = 0;
    struct qr_err err = {0};
    CHECK(n_readouts <= 8 && bound == 1 && detail->readouts);
    for (size_t i = 0; i < n; i++) sample[i] = line->eval ? 28 + i : i;
    const double *weights = line->eval ? detail->weights : s->before;
    CHECK(qr_evaluate(f->model, weights, &f->data, sample, n, NULL, NULL, z, NULL, &err) == QR_OK,
          "%s", err.msg);
    for (int k = 0; k < QR_READOUT_BUCKETS; k++) {
        uint64_t count = 0;
        double low = 2 * bound * k / QR_READOUT_BUCKETS - bound,
               high = 2 * bound * (k + 1) / QR_READOUT_BUCKETS - bound;
        for (size_t i = 0; i < n * n_readouts; i++)
            count += z[i] >= low && (z[i] < high || k == QR_READOUT_BUCKETS - 1);
        CHECK(count == detail->readouts[k], "bucket %d: %llu", k,
              (unsigned long long)detail->readouts[k]);
        sum += detail->readouts[k];
    }
    CHECK(sum == n * n_readouts);
}

/* One step and one evaluation an epoch: an evaluation reports the weights that it evaluated, a step
 * the gradient at the weights before it. */
static void check_detail(struct seen *s, const struct qr_step_line *line,
                         const struct qr_step_detail *detail) {
    const struct fixture *f = s->f;
    size_t sample[28], k = qr_model_n_params(f->model);
    double means[1], loss, grad[256], worst = 0;
    struct qr_err err = {0};
    CHECK(detail->ends_epoch == line->eval && (detail->gradient == NULL) == line->eval &&
          detail->learning_rate == 2);
    for (size_t i = 0; i < 28; i++) sample[i] = line->eval ? 28 + i : i;
    if (line->eval) {
        CHECK(qr_evaluate(f->model, detail->weights, &f->data, sample, 12, NULL, NULL, NULL, means,
                          &err) == QR_OK &&
                  means[0] == line->loss,
              "%s", err.msg);
        /* With one step an epoch, the epoch's mean is the step's loss. */
        CHECK(detail->n_running == 1 && detail->running[0].value == s->lines[s->n - 2].loss);
        check_readouts(s, line, detail);
        memcpy(s->before, detail->weights, k * sizeof *s->before);
        return;
    }
    if (line->step == 1) qr_model_init(f->model, f->job->seed, s->before);
    check_readouts(s, line, detail);
    CHECK(qr_loss_gradient(f->model, s->before, &f->data, sample, 28, NULL, &loss, grad, &err) ==
              QR_OK,
          "%s", err.msg);
    for (size_t i = 0; i < k; i++) worst = t_worst(worst, fabs(grad[i] - detail->gradient[i]));
    /* 28 samples, summed in float64 in another grouping. */
    CHECK(worst < 1e-13, "step %llu: %g", (unsigned long long)line->step, worst);
}

static enum qr_code keep_line(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *detail, struct qr_err *err) {
    (void)err;
    struct seen *s = ctx;
    CHECK(leader);
    s->lines[s->n++] = *line;
    check_detail(s, line, detail);
    return QR_OK;
}

static void test_lines_and_early_stopping(void) {
    struct fixture f;
    struct seen seen = {.f = &f};
    setup(&f,
          QCNN("\"train\":{\"epochs\":12,\"batch_size\":28,\"optimizer\":{\"name\":\"sgd\","
               "\"learning_rate\":2},"
               "\"early_stopping\":{\"patience\":2}}"),
          1);
    struct qr_train_options o = options(&f);
    struct qr_train_result r = {0};
    struct qr_err err = {0};
    o.observer = (struct qr_train_observer){.ctx = &seen, .step = keep_line};
    CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
    /* One step and one evaluation an epoch, each reported, in order. */
    CHECK(seen.n == 2 * r.epochs && r.steps == r.epochs, "%zu lines, %llu epochs", seen.n,
          (unsigned long long)r.epochs);
    size_t best = 0;
    for (size_t e = 0; e < r.epochs; e++) {
        CHECK(!seen.lines[2 * e].eval && seen.lines[2 * e].step == e + 1 &&
              seen.lines[2 * e].samples == 28);
        CHECK(seen.lines[2 * e + 1].eval && seen.lines[2 * e + 1].epoch == e + 1 &&
              seen.lines[2 * e + 1].samples == 12);
        if (seen.lines[2 * e + 1].loss < seen.lines[2 * best + 1].loss) best = e;
    }
    /* A learning rate of 2 diverges: training must stop two epochs after the best one and restore
     * its weights. */
    CHECK(r.stopped_early && r.epochs == best + 3, "best %zu of %llu", best,
          (unsigned long long)r.epochs);
    size_t sample[12];
    double means[1];
    for (size_t i = 0; i < 12; i++) sample[i] = 28 + i;
    CHECK(qr_evaluate(f.model, r.params, &f.data, sample, 12, NULL, NULL, NULL, means, &err) ==
          QR_OK);
    CHECK(means[0] == seen.lines[2 * best + 1].loss, "%.17g %.17g", means[0],
          seen.lines[2 * best + 1].loss);
    /* All values of the result are of that epoch, also those of its training. */
    CHECK(r.restored && r.best_epoch == best + 1 && r.best == means[0] && r.val_loss == means[0],
          "%.17g %.17g", r.val_loss, means[0]);
    CHECK(r.loss == seen.lines[2 * best].loss, "%.17g %.17g", r.loss, seen.lines[2 * best].loss);
    free(r.params);
    teardown(&f);
}

/* Losses and log values of epochs, as they are reported. */
struct epochs_seen {
    size_t n;
    double loss[40], gap[40];
};
static void keep_epoch(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches,
                       double seconds, const struct qr_named_value *values, size_t n) {
    struct epochs_seen *s = ctx;
    (void)epochs, (void)n_batches, (void)seconds;
    CHECK(epoch == ++s->n && s->n < COUNT(s->loss));
    s->loss[s->n - 1] = values[0].value;
    s->gap[s->n - 1] = n > 1 ? values[1].value - values[0].value : 0;
}

/* Early stopping by values at an epoch's end: the training loss, with and without validation, and
 * values of train.log. Training stops two epochs after the best one and restores its weights. */
static void test_monitors(void) {
    static const struct {
        const char *monitor, *log;
        bool validates, by_gap;
    } rows[] = {{"loss", "", false, false},
                {"loss", "", true, false},
                {"x", "\"log\":{\"x\":\"2*loss\"},", false, false},
                {"x", "\"log\":{\"x\":\"2*loss\"},", true, false},
                {"gap", "\"log\":{\"x\":\"0*loss\",\"gap\":\"val_loss - loss\"},", true, true}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct fixture f;
        struct epochs_seen seen = {0};
        struct qr_train_result r = {0};
        struct qr_err err = {0};
        qr_auto(qr_free_p) char *text = qr_xasprintf(
            QCNN("\"train\":{\"epochs\":30,\"batch_size\":9,%s\"optimizer\":{\"name\":\"sgd\","
                 "\"learning_rate\":0.9},\"early_stopping\":{\"monitor\":\"%s\",\"patience\":2}}"),
            rows[i].log, rows[i].monitor);
        setup(&f, text, 1);
        if (!rows[i].validates) f.data.n_train = f.data.n_samples;
        struct qr_train_options o = options(&f);
        o.observer = (struct qr_train_observer){.ctx = &seen, .epoch = keep_epoch};
        CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
        const double *value = rows[i].by_gap ? seen.gap : seen.loss;
        size_t best = 0;
        for (size_t e = 0; e < seen.n; e++)
            if (value[e] < value[best]) best = e;
        CHECK(r.stopped_early && r.epochs == best + 3 && seen.n == r.epochs,
              "row %zu: best %zu of %llu", i, best, (unsigned long long)r.epochs);
        /* The result has the values of that epoch. */
        double times = strcmp(rows[i].monitor, "x") == 0 ? 2 : 1;
        CHECK(r.restored && r.best_epoch == best + 1 && r.best == times * value[best] &&
              r.loss == seen.loss[best]);
        for (size_t k = 0; k < r.n_metrics; k++) {
            if (strcmp(r.metrics[k].name, "gap") == 0) CHECK(r.metrics[k].value == seen.gap[best]);
            if (strcmp(r.metrics[k].name, "x") == 0 && !rows[i].by_gap)
                CHECK(r.metrics[k].value == 2 * seen.loss[best]);
        }
        qr_train_result_fini(&r);
        teardown(&f);
    }
}

#ifdef COUNTS_ALLOCATIONS
static void count_from_first_batch(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch,
                                   uint64_t n_batches, const struct qr_named_value *running,
                                   size_t n) {
    (void)ctx, (void)epochs, (void)running, (void)n;
    if (epoch == 1 && batch == 1) atomic_store(&counting, true);
    if (epoch == 3 && batch == n_batches) atomic_store(&counting, false);
}

/* Each kind of plan: statevector, streaming with samples in the lanes, streaming with slices. */
static void check_no_allocation(const char *job) {
    struct fixture f;
    setup(&f, job, 2);
    struct qr_train_options o = options(&f);
    struct qr_train_result r = {0};
    struct qr_err err = {0};
    o.observer = (struct qr_train_observer){.progress = count_from_first_batch};
    atomic_store(&counting, true);
    free(malloc(1));
    CHECK(atomic_load(&n_allocations) == 1); /* the counter works */
    atomic_store(&counting, false);
    atomic_store(&n_allocations, 0);
    CHECK(qr_train_run(&o, &r, &err) == QR_OK, "%s", err.msg);
    CHECK(atomic_load(&n_allocations) == 0, "%ld allocations from the first update to the last",
          atomic_load(&n_allocations));
    free(r.params);
    teardown(&f);
}

static void test_no_allocation(void) {
    static const char *const jobs[] = {QCNN(SGD "}"), QCNN_OF("8", SGD "}"), QCNN_OF("12", SGD "}"),
                                       QCNN(SPSA "}")};
    for (size_t i = 0; i < COUNT(jobs); i++) {
        atomic_store(&n_allocations, 0);
        check_no_allocation(jobs[i]);
    }
}
#else
static void test_no_allocation(void) { SKIP("counting allocations: the sanitizer owns malloc"); }
#endif

struct counted {
    size_t steps, evals;
    uint64_t last_epoch;
};
static enum qr_code count_line(void *ctx, bool leader, const struct qr_step_line *line,
                               const struct qr_step_detail *detail, struct qr_err *err) {
    (void)leader, (void)err;
    struct counted *c = ctx;
    c->steps += !line->eval;
    c->evals += line->eval;
    if (detail->ends_epoch) CHECK(line->epoch == ++c->last_epoch);
    return QR_OK;
}

/* With "evaluate": false the steps, state and weights are the same, without evaluations. */
static void test_without_evaluation(void) {
    static const char *const jobs[] = {QCNN(SGD "}"), QCNN(SGD ",\"evaluate\":false}"),
                                       QCNN(SPSA "}"), QCNN(SPSA ",\"evaluate\":false}")};
    struct qr_train_result r[4] = {{0}};
    struct counted seen[4] = {{0}};
    struct qr_err err = {0};
    size_t bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        struct fixture f;
        setup(&f, jobs[i], 1);
        struct qr_train_options o = options(&f);
        o.observer = (struct qr_train_observer){.ctx = &seen[i], .step = count_line};
        CHECK(qr_train_run(&o, &r[i], &err) == QR_OK, "%s", err.msg);
        bytes = qr_model_n_params(f.model) * sizeof *r[i].params;
        teardown(&f);
    }
    for (size_t i = 0; i < 4; i += 2) {
        const struct qr_train_result *with = &r[i], *without = &r[i + 1];
        CHECK(strcmp(with->state_digest, without->state_digest) == 0 &&
                  memcmp(with->params, without->params, bytes) == 0 && with->loss == without->loss,
              "%s, %s", with->state_digest, without->state_digest);
        CHECK(with->has_val && !without->has_val && without->n_metrics == 1 &&
              with->steps == without->steps && without->epochs == with->epochs);
        CHECK(seen[i].steps == with->steps && seen[i].evals == with->epochs);
        CHECK(seen[i + 1].steps == with->steps && !seen[i + 1].evals);
        CHECK(seen[i].last_epoch == with->epochs && seen[i + 1].last_epoch == with->epochs);
    }
    for (size_t i = 0; i < 4; i++) qr_train_result_fini(&r[i]);
}

int main(void) {
    test_against_hand(QCNN(SGD "}"));
    test_against_hand(QCNN_WITH("4",
                                "{\"layer\":\"dense\",\"units\":3,\"activation\":\"tanh\",\"l2\":0."
                                "02},{\"layer\":\"dense\","
                                "\"units\":1,\"l1\":0.01,\"l2\":0.03}",
                                SGD "}"));
    test_against_hand(QCNN(SPSA "}"));
    test_against_hand(QCNN_WITH("4",
                                "{\"layer\":\"dense\",\"units\":3,\"activation\":\"tanh\",\"l2\":0."
                                "02},{\"layer\":\"dense\","
                                "\"units\":1,\"l1\":0.01,\"l2\":0.03}",
                                SPSA "}"));
    test_threads(QCNN(SGD "}"));
    test_threads(QCNN(SPSA "}"));
    test_bad_numbers(QCNN(SGD "}"));
    test_bad_numbers(QCNN(SPSA "}"));
    test_bad_updates();
    test_lines_and_early_stopping();
    test_monitors();
    test_without_evaluation();
    test_logged();
    test_logged_without_evaluation();
    test_no_allocation();
    return t_end();
}
