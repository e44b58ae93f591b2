/* record/tensorboard.c — buffers events of steps and epochs and appends them to event files. Start
 * reading at qr_tensorboard_step(). */
#include "record/tensorboard.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/tfrecord.h"

enum { ROOT, TRAIN, VALIDATION, EVALUATOR, N_RUNS };
static const char *const folders[N_RUNS] = {"", "train", "validation", "evaluator"};
enum { TAG_CHARS = 96, HELD_MAX_BYTES = 256 << 10, BUFFER_MAX_BYTES = 4 << 20, MAX_METRICS = 16 };
#define HELD_MAX_NS QR_SECOND

struct run_file {
    struct qr_appender *file;
    char *name;
    size_t bytes;
    long long second;
    struct qr_buf held;
};

/* The values of one event while they are collected. */
struct event_batch {
    size_t n;
    struct qr_event_value v[QR_EVENT_MAX_VALUES];
    char tag[QR_EVENT_MAX_VALUES][TAG_CHARS];
    uint8_t scalar[QR_EVENT_MAX_VALUES][4];
};

struct tensorboard_weight {
    char tag[TAG_CHARS - 32];
    size_t offset, n;
    bool quantum;
};

struct qr_tensorboard {
    struct qr_tensorboard_options opt;
    char *logdir, *host;
    size_t n_weights, n_params;
    struct tensorboard_weight *weights;
    struct run_file runs[N_RUNS];
    struct qr_buf event, content, graph;
    struct event_batch batch;
    struct qr_hparam hparams[QR_HPARAMS_MAX];
    uint8_t histogram[QR_HISTOGRAM_BUCKETS * 3 * 8];
    int64_t flushed_ns;
    bool began, failed, restart;
    int64_t first_step; /* readers discard earlier events from this step on */
};

/* Names a weight as Keras does: "pqc/parameters" → "parameters_0"; further filters keep their layer
 * as a prefix; "dense/kernel" → "dense/kernel_0". */
static void tensorboard_weight_tag(const struct qr_weights_entry *e, bool first_quantum, char *ret,
                                   size_t cap) {
    const char *slash = strchr(e->name, '/');
    snprintf(ret, cap, "%.56s_0", first_quantum && slash ? slash + 1 : e->name);
}

struct qr_tensorboard *qr_tensorboard_new(const struct qr_tensorboard_options *opt) {
    struct qr_tensorboard *t = qr_xcalloc(1, sizeof *t);
    t->opt = *opt;
    QR_ASSERT(opt->n_hparams <= QR_HPARAMS_MAX);
    if (opt->n_hparams) memcpy(t->hparams, opt->hparams, opt->n_hparams * sizeof *t->hparams);
    t->logdir = qr_xstrdup(opt->logdir);
    t->host = qr_xstrdup(*opt->host ? opt->host : "localhost");
    for (char *c = t->host; *c; c++) *c = *c == '/' ? '_' : *c;
    if (opt->graph.n) qr_buf_put(&t->graph, opt->graph.p, opt->graph.n);
    t->n_weights = opt->layout->n;
    t->weights = qr_xcalloc(t->n_weights ? t->n_weights : 1, sizeof *t->weights);
    bool quantum_seen = false;
    for (size_t i = 0; i < t->n_weights; i++) {
        const struct qr_weights_entry *e = &opt->layout->entries[i];
        struct tensorboard_weight *w = &t->weights[i];
        w->offset = t->n_params;
        w->quantum = e->symbols != NULL;
        w->n = 1;
        for (unsigned k = 0; k < e->rank; k++) w->n *= e->dims[k];
        t->n_params += w->n;
        tensorboard_weight_tag(e, w->quantum && !quantum_seen, w->tag, sizeof w->tag);
        quantum_seen |= w->quantum;
    }
    t->event.max = t->content.max = BUFFER_MAX_BYTES;
    for (int i = 0; i < N_RUNS; i++) t->runs[i].held.max = BUFFER_MAX_BYTES;
    return t;
}

void qr_tensorboard_set_number(struct qr_tensorboard *t, const char *name, double value) {
    for (size_t i = 0; i < t->opt.n_hparams; i++)
        if (strcmp(t->hparams[i].name, name) == 0) t->hparams[i].number = value;
}

void qr_tensorboard_restart(struct qr_tensorboard *t) { t->restart = true; }

static double tensorboard_wall_seconds(const struct qr_tensorboard *t) {
    return (double)qr_now_ns(t->opt.wall) / (double)QR_SECOND;
}

/* ---- files ---- */

static void tensorboard_close_run(struct run_file *r) {
    qr_appender_close(r->file);
    r->file = NULL;
    free(r->name);
    r->name = NULL;
    r->bytes = 0;
}

static enum qr_code tensorboard_flush(struct qr_tensorboard *t, struct qr_err *err) {
    t->flushed_ns = qr_now_ns(t->opt.monotonic);
    for (int i = 0; i < N_RUNS; i++) {
        struct run_file *r = &t->runs[i];
        if (r->held.n == 0) continue;
        if (!qr_buf_ok(&r->held))
            return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                           "TensorBoard events of one step exceed %d bytes", BUFFER_MAX_BYTES);
        QR_TRY(qr_appender_write(r->file, qr_buf_view(&r->held), err));
        r->bytes += r->held.n;
        qr_buf_clear(&r->held);
        if (t->opt.wrote) t->opt.wrote(t->opt.wrote_ctx, r->name, r->bytes);
        if (t->opt.max_file_bytes && r->bytes >= t->opt.max_file_bytes) tensorboard_close_run(r);
    }
    return QR_OK;
}

static void tensorboard_put_event(struct qr_tensorboard *t, int run, const struct qr_event *e) {
    qr_buf_clear(&t->event);
    qr_event_encode(e, &t->event);
    if (qr_buf_ok(&t->event)) qr_tfrecord_put(&t->runs[run].held, qr_buf_view(&t->event));
}

/* Opens a file with a unique name: second, host, process and a free number. Readers take files in
 * the order of their names, so each further file of this process has a later second. */
static enum qr_code tensorboard_open_run(struct qr_tensorboard *t, int run, struct qr_err *err) {
    struct run_file *r = &t->runs[run];
    if (r->file) return QR_OK;
    double now = tensorboard_wall_seconds(t);
    bool first = r->second == 0;
    long long second = first || (long long)now > r->second ? (long long)now : r->second + 1;
    qr_auto(qr_free_p) char *path = NULL;
    for (int uid = run; !path || qr_file_exists(path); uid += N_RUNS) {
        char file[512];
        snprintf(file, sizeof file, "events.out.tfevents.%010lld.%.255s.%ld.%d.v2", second, t->host,
                 t->opt.pid, uid);
        free(r->name);
        r->name = *folders[run] ? qr_path_join(folders[run], file) : qr_xstrdup(file);
        free(path);
        path = qr_path_join(t->logdir, r->name);
    }
    QR_TRY(qr_appender_open(path, false, &r->file, err));
    r->second = second;
    const struct qr_event version = {
        .wall_time = now, .file_version = "brain.Event:2", .writer = "qring"};
    const struct qr_event start = {.wall_time = now, .session_start = true, .step = t->first_step};
    tensorboard_put_event(t, run, &version);
    if (first) tensorboard_put_event(t, run, &start);
    /* The graph comes after the session start, which would make readers discard it. */
    const struct qr_event graph = {
        .wall_time = now, .step = t->first_step, .graph = qr_buf_view(&t->graph)};
    if (first && run == TRAIN && graph.graph.n) tensorboard_put_event(t, run, &graph);
    return QR_OK;
}

/* ---- one event ---- */

static struct qr_event_value *tensorboard_next_value(struct qr_tensorboard *t, const char *before,
                                                     const char *name, const char *after) {
    struct event_batch *b = &t->batch;
    QR_ASSERT(b->n < QR_EVENT_MAX_VALUES);
    snprintf(b->tag[b->n], TAG_CHARS, "%s%s%s", before, name, after);
    struct qr_event_value *v = &b->v[b->n];
    *v = (struct qr_event_value){.tag = b->tag[b->n], .dtype = QR_EVENT_FLOAT};
    b->n++;
    return v;
}

static enum qr_code tensorboard_end_event(struct qr_tensorboard *t, int run, int64_t step,
                                          struct qr_err *err) {
    struct event_batch *b = &t->batch;
    const struct qr_event e = {
        .wall_time = tensorboard_wall_seconds(t), .step = step, .n_values = b->n, .values = b->v};
    b->n = 0;
    if (e.n_values == 0) return QR_OK;
    QR_TRY(tensorboard_open_run(t, run, err));
    tensorboard_put_event(t, run, &e);
    return QR_OK;
}

static void tensorboard_put_scalar(struct qr_tensorboard *t, const char *before, const char *name,
                                   const char *after, double value) {
    union {
        float f;
        uint32_t u;
    } bits = {.f = (float)value};
    uint8_t *at = t->batch.scalar[t->batch.n];
    struct qr_event_value *v = tensorboard_next_value(t, before, name, after);
    qr_set_u32le(at, bits.u);
    v->plugin = "scalars";
    v->data_class = QR_EVENT_CLASS_SCALAR;
    v->tensor = qr_bytes_of(at, 4);
}

bool qr_histogram(const double *v, size_t n, double ret[QR_HISTOGRAM_BUCKETS][3]) {
    enum { K = QR_HISTOGRAM_BUCKETS };
    double low = n ? v[0] : 0, high = low;
    for (size_t i = 0; i < n; i++) {
        if (!(fabs(v[i]) < 0x1p1000)) return false;
        if (v[i] < low) low = v[i];
        if (v[i] > high) high = v[i];
    }
    double width = (high - low) / K;
    for (int k = 0; k < K; k++) {
        ret[k][0] = low + width * k;
        ret[k][1] = k == K - 1 ? high : low + width * (k + 1);
        ret[k][2] = 0;
    }
    for (size_t i = 0; i < n; i++) {
        double at = width > 0 ? floor((v[i] - low) / width) : K - 1;
        ret[at < K - 1 ? (int)at : K - 1][2] += 1;
    }
    return true;
}

/* Writes a histogram (720 bytes) as an event of its own. */
static enum qr_code tensorboard_put_histogram(struct qr_tensorboard *t, int run, const char *tag,
                                              const char *after,
                                              const double rows[QR_HISTOGRAM_BUCKETS][3],
                                              int64_t step, struct qr_err *err) {
    for (size_t i = 0; i < QR_HISTOGRAM_BUCKETS * 3; i++)
        qr_set_u64le(t->histogram + 8 * i, qr_bits_of_double(rows[i / 3][i % 3]));
    struct qr_event_value *v = tensorboard_next_value(t, "", tag, after);
    v->plugin = "histograms";
    v->data_class = QR_EVENT_CLASS_TENSOR;
    v->dtype = QR_EVENT_DOUBLE;
    v->rank = 2;
    v->dims[0] = QR_HISTOGRAM_BUCKETS;
    v->dims[1] = 3;
    v->tensor = qr_bytes_of(t->histogram, sizeof t->histogram);
    return tensorboard_end_event(t, run, step, err);
}

/* Steps 1 ... 128, then every second one, from 256 on every fourth, and so on: the files of a long
 * run grow with the logarithm of its steps. */
bool qr_tensorboard_shows_readouts(uint64_t step) {
    uint64_t every = 1;
    while (step >= 128 * every) every *= 2;
    return step % every == 0;
}

static enum qr_code tensorboard_put_readouts(struct qr_tensorboard *t, int run,
                                             const struct qr_step_detail *d, int64_t step,
                                             struct qr_err *err) {
    double rows[QR_HISTOGRAM_BUCKETS][3], width = 2 * d->readout_bound / QR_READOUT_BUCKETS;
    _Static_assert((int)QR_READOUT_BUCKETS == (int)QR_HISTOGRAM_BUCKETS, "a row for each bucket");
    for (int k = 0; k < QR_READOUT_BUCKETS; k++) {
        rows[k][0] = width * k - d->readout_bound;
        rows[k][1] =
            k == QR_READOUT_BUCKETS - 1 ? d->readout_bound : width * (k + 1) - d->readout_bound;
        rows[k][2] = (double)d->readouts[k];
    }
    return tensorboard_put_histogram(t, run, "Readouts", "", rows, step, err);
}

/* ---- HParams ---- */

static enum qr_code tensorboard_put_hparams(struct qr_tensorboard *t, const char *tag,
                                            struct qr_err *err) {
    struct qr_event_value *v = tensorboard_next_value(t, "_hparams_/", tag, "");
    v->plugin = "hparams";
    v->content = qr_buf_view(&t->content);
    v->data_class = QR_EVENT_CLASS_TENSOR;
    v->rank = 1;
    v->dims[0] = 0;
    return tensorboard_end_event(t, ROOT, 0, err);
}

static enum qr_code tensorboard_begin_session(struct qr_tensorboard *t,
                                              const struct qr_step_line *line, struct qr_err *err) {
    struct qr_hparam_metric m[2 * MAX_METRICS];
    char tags[2 * MAX_METRICS][TAG_CHARS];
    size_t n = 0;
    t->first_step = line->step == 1 ? 0 : (int64_t)line->step;
    QR_ASSERT(line->n_metrics < MAX_METRICS && 2 * MAX_METRICS <= QR_HPARAMS_MAX);
    for (int val = t->opt.has_validation; val >= 0; val--)
        for (size_t i = 0; i <= line->n_metrics; i++, n++) {
            snprintf(tags[n], TAG_CHARS, "%s%s", val ? "val_" : "",
                     i ? line->metrics[i - 1].name : "loss");
            m[n] = (struct qr_hparam_metric){.group = "", .tag = tags[n], .validation = val};
        }
    qr_buf_clear(&t->content);
    qr_hparams_experiment(t->hparams, t->opt.n_hparams, m, n, &t->content);
    QR_TRY(tensorboard_put_hparams(t, "experiment", err));
    qr_buf_clear(&t->content);
    qr_hparams_start(t->hparams, t->opt.n_hparams, t->opt.group, tensorboard_wall_seconds(t),
                     &t->content);
    t->began = true;
    t->flushed_ns = qr_now_ns(t->opt.monotonic) - HELD_MAX_NS; /* write the first step at once */
    return tensorboard_put_hparams(t, "session_start_info", err);
}

enum qr_code qr_tensorboard_success(struct qr_tensorboard *t, uint64_t epochs,
                                    const struct qr_named_value *values, size_t n,
                                    struct qr_err *err) {
    if (!t->began || t->failed || t->opt.evaluator) return QR_OK;
    for (size_t i = 0; i < n; i++)
        tensorboard_put_scalar(t, values[i].name, "", "", values[i].value);
    t->failed = true; /* until all is written */
    QR_TRY(tensorboard_end_event(t, ROOT, (int64_t)epochs, err));
    qr_buf_clear(&t->content);
    qr_hparams_end(true, tensorboard_wall_seconds(t), &t->content);
    QR_TRY(tensorboard_put_hparams(t, "session_end_info", err));
    QR_TRY(tensorboard_flush(t, err));
    t->failed = false;
    return QR_OK;
}

/* ---- steps ---- */

typedef double lanes __attribute__((vector_size(16)));
typedef double lanes_at __attribute__((vector_size(16), aligned(8), may_alias));

/* Adds up in eight sums: a single one would wait for the latency of each addition. */
static double gradient_sum_of_squares(const double *v, size_t n) {
    lanes sum[4] = {0};
    double rest = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 4; k++) {
            lanes x = *(const lanes_at *)(v + i + 2 * k);
            sum[k] += x * x;
        }
    for (; i < n; i++) rest += v[i] * v[i];
    lanes all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    return all[0] + all[1] + rest;
}

double qr_gradient_norm(const double *g, size_t n) { return sqrt(gradient_sum_of_squares(g, n)); }

static void tensorboard_put_gradients(struct qr_tensorboard *t, const double *g) {
    tensorboard_put_scalar(t, "batch_gradient_norm", "", "", qr_gradient_norm(g, t->n_params));
    for (size_t i = 0; i < t->n_weights; i++) {
        const struct tensorboard_weight *w = &t->weights[i];
        if (!w->quantum || w->n == 0 || t->batch.n + 2 > QR_EVENT_MAX_VALUES) continue;
        double sum = 0, squares = 0, variance = 0;
        for (size_t k = w->offset; k < w->offset + w->n; k++) sum += g[k], squares += g[k] * g[k];
        double mean = sum / (double)w->n;
        for (size_t k = w->offset; k < w->offset + w->n; k++)
            variance += (g[k] - mean) * (g[k] - mean);
        tensorboard_put_scalar(t, "batch_gradient_norm/", w->tag, "", sqrt(squares));
        tensorboard_put_scalar(t, "batch_gradient_variance/", w->tag, "", variance / (double)w->n);
    }
}

static void tensorboard_put_metrics(struct qr_tensorboard *t, const char *before,
                                    const struct qr_step_line *line, const char *after) {
    tensorboard_put_scalar(t, before, "loss", after, line->loss);
    for (size_t i = 0; i < line->n_metrics; i++)
        tensorboard_put_scalar(t, before, line->metrics[i].name, after, line->metrics[i].value);
}

static void tensorboard_put_logged(struct qr_tensorboard *t, const char *before,
                                   const struct qr_step_line *line, const char *after) {
    for (size_t i = 0; i < line->n_logged; i++)
        if (isfinite(line->logged[i].value))
            tensorboard_put_scalar(t, before, line->logged[i].name, after, line->logged[i].value);
}

static enum qr_code tensorboard_put_epoch_end(struct qr_tensorboard *t,
                                              const struct qr_step_line *line,
                                              const struct qr_step_detail *d, struct qr_err *err) {
    int64_t epoch = (int64_t)line->epoch - 1;
    for (size_t i = 0; i < d->n_running; i++)
        tensorboard_put_scalar(t, "epoch_", d->running[i].name, "", d->running[i].value);
    tensorboard_put_scalar(t, "epoch_learning_rate", "", "", d->learning_rate);
    if (d->cost > 0) {
        tensorboard_put_scalar(t, "cost", "", "", d->cost);
        tensorboard_put_scalar(t, "cost_pod_hours", "", "", (double)d->pod_ms / 3.6e6);
    }
    QR_TRY(tensorboard_end_event(t, TRAIN, epoch, err));
    for (size_t i = 0; i < d->n_running; i++)
        tensorboard_put_scalar(t, d->running[i].name, "", "", d->running[i].value);
    if (line->eval) tensorboard_put_metrics(t, "val_", line, "");
    QR_TRY(tensorboard_end_event(t, ROOT, epoch, err));
    for (size_t i = 0; i < t->n_weights; i++) {
        const struct tensorboard_weight *w = &t->weights[i];
        double rows[QR_HISTOGRAM_BUCKETS][3];
        if (qr_histogram(d->weights + w->offset, w->n, rows))
            QR_TRY(tensorboard_put_histogram(t, TRAIN, w->tag, "/histogram", rows, epoch, err));
    }
    return QR_OK;
}

static enum qr_code tensorboard_put_evaluation(struct qr_tensorboard *t, int run,
                                               const struct qr_step_line *line,
                                               const struct qr_step_detail *d, struct qr_err *err) {
    int64_t step = (int64_t)line->step;
    tensorboard_put_metrics(t, "evaluation_", line, "_vs_iterations");
    tensorboard_put_logged(t, "evaluation_", line, "_vs_iterations");
    QR_TRY(tensorboard_end_event(t, run, step, err));
    if (d->ends_epoch) {
        tensorboard_put_metrics(t, "epoch_", line, "");
        tensorboard_put_logged(t, "epoch_", line, "");
        QR_TRY(tensorboard_end_event(t, run, (int64_t)line->epoch - 1, err));
    }
    return d->readouts ? tensorboard_put_readouts(t, run, d, step, err) : QR_OK;
}

/* Flushes each line: the next one may come much later. */
static enum qr_code tensorboard_put_evaluator_line(struct qr_tensorboard *t,
                                                   const struct qr_step_line *line,
                                                   const struct qr_step_detail *d,
                                                   struct qr_err *err) {
    if (!t->began) t->first_step = t->restart ? 0 : (int64_t)line->step;
    t->began = true;
    QR_TRY(tensorboard_put_evaluation(t, EVALUATOR, line, d, err));
    return tensorboard_flush(t, err);
}

static enum qr_code tensorboard_put_line(struct qr_tensorboard *t, const struct qr_step_line *line,
                                         const struct qr_step_detail *d, struct qr_err *err) {
    int64_t step = (int64_t)line->step;
    if (!t->began) QR_TRY(tensorboard_begin_session(t, line, err));
    if (line->eval) {
        QR_TRY(tensorboard_put_evaluation(t, VALIDATION, line, d, err));
    } else {
        tensorboard_put_metrics(t, "batch_", line, "");
        tensorboard_put_logged(t, "batch_", line, "");
        if (d->gradient) tensorboard_put_gradients(t, d->gradient);
        QR_TRY(tensorboard_end_event(t, TRAIN, step, err));
        if (d->readouts && qr_tensorboard_shows_readouts(line->step))
            QR_TRY(tensorboard_put_readouts(t, TRAIN, d, step, err));
    }
    return d->ends_epoch ? tensorboard_put_epoch_end(t, line, d, err) : QR_OK;
}

enum qr_code qr_tensorboard_step(struct qr_tensorboard *t, const struct qr_step_line *line,
                                 const struct qr_step_detail *detail, struct qr_err *err) {
    if (t->failed) return QR_OK;
    enum qr_code code = t->opt.evaluator ? tensorboard_put_evaluator_line(t, line, detail, err)
                                         : tensorboard_put_line(t, line, detail, err);
    bool due = detail->ends_epoch || t->runs[TRAIN].held.n > HELD_MAX_BYTES ||
               qr_now_ns(t->opt.monotonic) - t->flushed_ns >= HELD_MAX_NS;
    if (code == QR_OK && due) code = tensorboard_flush(t, err);
    t->failed = code != QR_OK;
    return code;
}

void qr_tensorboard_close(struct qr_tensorboard *t) {
    if (!t) return;
    struct qr_err err;
    /* A failure here loses at most one second of events. */
    if (!t->failed && tensorboard_flush(t, &err) != QR_OK) t->failed = true;
    for (int i = 0; i < N_RUNS; i++) {
        tensorboard_close_run(&t->runs[i]);
        qr_buf_free(&t->runs[i].held);
    }
    qr_buf_free(&t->event);
    qr_buf_free(&t->content);
    qr_buf_free(&t->graph);
    free(t->weights);
    free(t->logdir);
    free(t->host);
    free(t);
}
