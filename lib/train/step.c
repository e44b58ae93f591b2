/* train/step.c — computes and sums a member's micro-batches of a reduction. Start reading at
 * run_micro_batch() and qr_stepper_sum(). */
#include "train/step.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bounds.h"
#include "base/counter.h"
#include "base/mem.h"
#include "base/span.h"
#include "train/pod_time.h"

/* One thread's share of a step. */
struct lane {
    struct qr_model_workspace *workspace;
    qr_fixed *vector; /* bad, ids, samples, read-outs, sums, gradients */
    struct qr_coverage coverage;
    qr_fixed *at_points;    /* the sums of a micro-batch at two points; NULL with one */
    const double **x, **y;  /* micro_batch_size pointers each */
    uint32_t *sample;       /* sample numbers in the data */
    int64_t micro_batch_ns; /* the longest */
    bool used;              /* vector has nonzero values before the derivatives */
    bool has_gradient;      /* derivatives are initialized; else their contents are undefined */
};

struct qr_stepper {
    struct qr_stepper_options opt;
    struct qr_model_state *numbers[2]; /* the second belongs to the second point */
    const double *weights[2];          /* of an idle stepper: weights to prepare from */
    size_t n_derivatives, n_sums, n_lanes;
    bool parallel;      /* each thread has a lane; else all share the first */
    unsigned n_threads; /* the pool's, last requested */
    struct lane *lanes;
    qr_fixed *vector; /* the contribution: a lane's layout, then nanoseconds per rank */
    int64_t took_ns;  /* for what was added */
    uint64_t pod_ms;  /* of qr_stepper_set_pod_time */
    bool bound;
    const struct qr_step_work *work; /* of the running work */
    qr_stepper_next_fn *next;
    void *next_ctx;
    atomic_bool interrupted; /* the work must go on with another number of threads */
};

/* Number of integers before the derivatives. */
static size_t n_head(const struct qr_stepper *s) { return QR_VECTOR_SUMS + s->n_sums; }

static size_t n_vector_values(const struct qr_stepper *s, enum qr_reduction_kind kind) {
    return n_head(s) + (kind == QR_REDUCTION_TRAIN ? s->n_derivatives : 0);
}

size_t qr_stepper_vector_length(const struct qr_stepper *s, enum qr_reduction_kind kind) {
    return n_vector_values(s, kind) + s->opt.n_members;
}

size_t qr_stepper_micro_batches(const struct qr_stepper *s, const struct qr_step_work *w) {
    return qr_micro_batch_count(w->range, s->opt.micro_batch_size);
}

/* Allocates what a lane computes with. */
static enum qr_code lane_equip(struct qr_stepper *s, struct lane *l, struct qr_err *err) {
    if (qr_model_workspace_new(s->opt.model, &l->workspace, err) != QR_OK) return err->code;
    if (s->opt.n_points > 1) l->at_points = qr_xcalloc(2 * s->n_sums, sizeof *l->at_points);
    l->x = qr_xcalloc(s->opt.micro_batch_size, sizeof *l->x);
    l->y = qr_xcalloc(s->opt.micro_batch_size, sizeof *l->y);
    l->sample = qr_xcalloc(s->opt.micro_batch_size, sizeof *l->sample);
    return QR_OK;
}

static enum qr_code lane_init(struct qr_stepper *s, struct lane *l, struct qr_err *err) {
    l->vector =
        qr_xaligned((n_vector_values(s, QR_REDUCTION_TRAIN) + QR_MAX_MEMBERS) * sizeof *l->vector);
    return s->opt.idle ? QR_OK : lane_equip(s, l, err);
}

enum qr_code qr_stepper_new(const struct qr_stepper_options *opt, struct qr_stepper **ret,
                            struct qr_err *err) {
    struct qr_stepper *s = qr_xcalloc(1, sizeof *s);
    s->opt = *opt;
    s->n_derivatives = opt->n_points > 1 ? 1 : qr_model_n_params(opt->model);
    s->n_sums = qr_model_n_sums(opt->model);
    for (size_t i = 0; i < opt->n_points && !opt->idle; i++)
        s->numbers[i] = qr_model_state_new(opt->model);
    s->parallel = !opt->idle && qr_model_micro_batches_in_parallel(opt->model);
    s->n_threads = qr_pool_size(opt->pool);
    size_t n_lanes = s->parallel ? s->n_threads : 1;
    s->lanes = qr_xcalloc(n_lanes, sizeof *s->lanes);
    s->vector =
        qr_xaligned((n_vector_values(s, QR_REDUCTION_TRAIN) + QR_MAX_MEMBERS) * sizeof *s->vector);
    while (s->n_lanes < n_lanes) { /* a lane that fails is counted, so its parts are freed */
        enum qr_code code = lane_init(s, &s->lanes[s->n_lanes++], err);
        if (code != QR_OK) {
            qr_stepper_free(s);
            return code;
        }
    }
    *ret = s;
    return QR_OK;
}

static void lane_fini(struct lane *l) {
    qr_model_workspace_free(l->workspace);
    free(l->vector);
    free(l->at_points);
    free(l->x);
    free(l->y);
    free(l->sample);
}

void qr_stepper_free(struct qr_stepper *s) {
    if (!s) return;
    for (size_t i = 0; i < s->n_lanes; i++) lane_fini(&s->lanes[i]);
    for (size_t i = 0; i < s->opt.n_points; i++) qr_model_state_free(s->numbers[i]);
    free(s->lanes);
    free(s->vector);
    free(s);
}

static void stepper_prepare_point(struct qr_stepper *s, size_t i, const double *weights) {
    s->weights[i] = weights;
    if (s->numbers[i]) qr_model_prepare(s->numbers[i], weights, s->opt.pool);
}

void qr_stepper_prepare(struct qr_stepper *s, const double *weights) {
    stepper_prepare_point(s, 0, weights);
}

void qr_stepper_prepare_points(struct qr_stepper *s, const double *plus, const double *minus) {
    stepper_prepare_point(s, 0, plus);
    stepper_prepare_point(s, 1, minus);
}

/* Gives an idle stepper a lane, to look for a bad sample. */
static enum qr_code stepper_equip(struct qr_stepper *s, struct qr_err *err) {
    if (s->lanes[0].workspace) return QR_OK;
    if (lane_equip(s, &s->lanes[0], err) != QR_OK) return err->code;
    for (size_t i = 0; i < s->opt.n_points; i++) {
        s->numbers[i] = qr_model_state_new(s->opt.model);
        if (s->weights[i]) stepper_prepare_point(s, i, s->weights[i]);
    }
    return QR_OK;
}

static size_t sample_at(const struct qr_step_work *w, size_t position) {
    return w->sample ? w->sample[position] : position;
}

/* Points the lane at n samples from position `first`. */
static void lane_set_samples(const struct qr_stepper *s, struct lane *l,
                             const struct qr_step_work *w, size_t first, size_t n) {
    const struct qr_dataset *d = s->opt.data;
    for (size_t i = 0; i < n; i++) {
        size_t sample = sample_at(w, first + i);
        l->x[i] = d->x + sample * d->n_columns;
        l->y[i] = qr_dataset_y(d, sample);
        l->sample[i] = (uint32_t)sample;
    }
}

/* Zeroes the lane's gradient on first use. */
static void lane_begin_gradient(const struct qr_stepper *s, struct lane *l) {
    if (!l->has_gradient) memset(l->vector + n_head(s), 0, s->n_derivatives * sizeof *l->vector);
    l->has_gradient = true;
}

/* Adds the sums of both points, and the difference of their losses; nothing when one of them is
 * bad. */
static bool lane_compute_points(struct qr_stepper *s, struct lane *l, const struct qr_draw *draw,
                                size_t n, qr_fixed *sums) {
    memset(l->at_points, 0, 2 * s->n_sums * sizeof *l->at_points);
    for (size_t i = 0; i < 2; i++)
        if (!qr_model_micro_batch(s->numbers[i], l->workspace, s->opt.pool, l->x, l->y, n, draw,
                                  l->at_points + i * s->n_sums, NULL))
            return false;
    qr_fixed_add(sums, l->at_points, s->n_sums);
    qr_fixed_add(sums, l->at_points + s->n_sums, s->n_sums);
    sums[s->n_sums] += l->at_points[0] - l->at_points[s->n_sums];
    return true;
}

/* Adds the sums, and in training the gradient, of the n samples that the lane points at. `sets`:
 * assigns the gradient instead of adding. */
static bool lane_compute(struct qr_stepper *s, struct lane *l, const struct qr_step_work *w,
                         size_t n, bool sets, qr_fixed *sums) {
    bool train = w->kind == QR_REDUCTION_TRAIN;
    const struct qr_draw draw = {
        .seed = s->opt.seed, .step = w->step, .sample = l->sample, .trains = train};
    if (train && s->opt.n_points > 1) return lane_compute_points(s, l, &draw, n, sums);
    return qr_model_put_micro_batch(s->numbers[0], l->workspace, s->opt.pool, l->x, l->y, n, &draw,
                                    sets, sums, train ? sums + s->n_sums : NULL);
}

static void count_readouts(const struct qr_stepper *s, const struct lane *l, size_t n,
                           qr_fixed *vector) {
    const double *z = qr_model_readouts(l->workspace), bound = qr_model_readout_bound(s->opt.model);
    size_t n_readouts = n * qr_model_n_readouts(s->opt.model);
    double per_bucket = bound > 0 ? QR_READOUT_BUCKETS / (2 * bound) : 0;
    for (size_t i = 0; i < n_readouts; i++) {
        double at = floor((z[i] + bound) * per_bucket);
        size_t k = at < 0 ? 0 : at < QR_READOUT_BUCKETS ? (size_t)at : QR_READOUT_BUCKETS - 1;
        vector[QR_VECTOR_READOUTS + k / 2] += (qr_fixed)1 << 64 * (k % 2);
    }
}

void qr_stepper_readouts(const qr_fixed *vector, uint64_t ret[QR_READOUT_BUCKETS]) {
    for (size_t k = 0; k < QR_READOUT_BUCKETS; k++)
        ret[k] = (uint64_t)(vector[QR_VECTOR_READOUTS + k / 2] >> 64 * (k % 2));
}

static void run_micro_batch(struct qr_stepper *s, struct lane *l, size_t micro_batch) {
    const struct qr_step_work *w = s->work;
    struct qr_range r = qr_micro_batch_at(w->range, s->opt.micro_batch_size, micro_batch);
    size_t n = r.end - r.begin;
    int64_t span_ns = qr_span_begin();
    if (w->kind == QR_REDUCTION_TRAIN && s->opt.n_points > 1) lane_begin_gradient(s, l);
    bool sets = w->kind == QR_REDUCTION_TRAIN && !l->has_gradient;
    qr_fixed *vector = l->vector;
    l->used = true;
    int64_t began_ns = qr_now_ns(s->opt.clock);
    lane_set_samples(s, l, w, r.begin, n);
    if (lane_compute(s, l, w, n, sets, vector + QR_VECTOR_SUMS)) {
        l->has_gradient |= sets;
        count_readouts(s, l, n, vector);
    } else {
        vector[QR_VECTOR_BAD] += qr_fixed_from_count(1);
        vector[QR_VECTOR_BAD_IDS] += qr_fixed_from_count(micro_batch);
    }
    vector[QR_VECTOR_SAMPLES] += qr_fixed_from_count(n);
    int64_t computed_ns = qr_now_ns(s->opt.clock), took_ns = computed_ns - began_ns;
    if (took_ns > l->micro_batch_ns) l->micro_batch_ns = took_ns;
    qr_coverage_add_micro_batch(&l->coverage, &w->key, micro_batch);
    qr_span_end(span_ns, QR_SPAN_MICRO_BATCH, NULL, micro_batch);
    qr_count_time(QR_COVERAGE_TIME, qr_now_ns(s->opt.clock) - computed_ns);
    qr_count(QR_MICRO_BATCHES, 1);
    qr_count(QR_SAMPLES, n);
    qr_count(QR_TURNS_TRAINING, 1); /* liveness signal, also from the pool's threads */
}

void qr_stepper_set_rank(struct qr_stepper *s, uint32_t rank, uint32_t n_members) {
    QR_ASSERT(rank < n_members && n_members <= QR_MAX_MEMBERS);
    s->opt.rank = rank;
    s->opt.n_members = n_members;
}

void qr_stepper_set_pod_time(struct qr_stepper *s, uint64_t pod_ms, bool bound) {
    s->pod_ms = pod_ms;
    s->bound = bound;
}

static void lane_clear(struct qr_stepper *s, struct lane *l) {
    if (l->used) memset(l->vector, 0, n_head(s) * sizeof *l->vector);
    l->used = l->has_gradient = false;
    l->coverage = (struct qr_coverage){0};
}

void qr_stepper_clear(struct qr_stepper *s) {
    s->took_ns = 0;
    for (size_t i = 0; i < s->n_lanes; i++) lane_clear(s, &s->lanes[i]);
}

/* Integers per task of a long sum. */
enum { SUMMED = 1 << 14 };
struct lane_sum {
    qr_fixed *acc;
    const qr_fixed *term;
    size_t n;
};
static void sum_task(void *ctx, size_t i, unsigned worker) {
    const struct lane_sum *t = ctx;
    size_t at = i * SUMMED, left = t->n - at;
    (void)worker;
    qr_fixed_add(t->acc + at, t->term + at, left < SUMMED ? left : SUMMED);
}

/* Merges lane l into the first; the first gets the derivatives if either has them. */
static void lane_merge(struct qr_stepper *s, struct lane *first, struct lane *l) {
    if (!first->has_gradient && l->has_gradient) {
        qr_fixed *vector = first->vector;
        first->vector = l->vector;
        l->vector = vector;
        first->has_gradient = true;
        l->has_gradient = false;
    }
    struct lane_sum t = {first->vector, l->vector, n_head(s)};
    if (l->has_gradient) t.n = n_vector_values(s, QR_REDUCTION_TRAIN);
    qr_pool_for(s->opt.pool, (t.n + SUMMED - 1) / SUMMED, sum_task, &t);
    first->coverage = qr_coverage_sum(first->coverage, l->coverage);
    l->used = true;
    lane_clear(s, l);
}

/* ---- another number of threads ---- */

static bool stepper_must_resize(const struct qr_stepper *s) {
    return qr_pool_requested(s->opt.pool) != s->n_threads;
}

/* Gives each of the n_threads a lane, or as many as there is memory for. */
static void stepper_add_lanes(struct qr_stepper *s, unsigned n_threads) {
    struct qr_err err;
    if (n_threads <= s->n_lanes) return;
    s->lanes = qr_xreallocarray(s->lanes, n_threads, sizeof *s->lanes);
    for (; s->n_lanes < n_threads; s->n_lanes++) {
        struct lane *l = &s->lanes[s->n_lanes];
        *l = (struct lane){0};
        if (lane_init(s, l, &err) == QR_OK) continue;
        lane_fini(l);
        break;
    }
}

/* Removes the last lane; its integers go to the first. */
static void stepper_remove_lane(struct qr_stepper *s) {
    struct lane *first = &s->lanes[0], *l = &s->lanes[--s->n_lanes];
    if (l->used) lane_merge(s, first, l);
    if (l->micro_batch_ns > first->micro_batch_ns) first->micro_batch_ns = l->micro_batch_ns;
    lane_fini(l);
}

/* Follows a request for another number of threads, between two loops. */
static enum qr_code stepper_resize(struct qr_stepper *s, struct qr_err *err) {
    unsigned n_threads = s->n_threads = qr_pool_requested(s->opt.pool);
    /* A workspace has room for the CPUs that there were when it was made. */
    for (size_t i = 0; n_threads > qr_pool_size(s->opt.pool) && i < s->n_lanes; i++) {
        struct lane *l = &s->lanes[i];
        if (!l->workspace) continue;
        qr_model_workspace_free(l->workspace);
        l->workspace = NULL;
        QR_TRY(qr_model_workspace_new(s->opt.model, &l->workspace, err));
    }
    if (!s->parallel) return qr_pool_resize(s->opt.pool, n_threads), QR_OK;
    stepper_add_lanes(s, n_threads);
    qr_pool_resize(s->opt.pool, s->n_lanes < n_threads ? (unsigned)s->n_lanes : n_threads);
    while (s->n_lanes > qr_pool_size(s->opt.pool)) stepper_remove_lane(s);
    return QR_OK;
}

/* ---- work ---- */

/* Runs the next micro-batch; returns false after the last one, or if the work is interrupted. */
static bool run_next(struct qr_stepper *s, struct lane *l) {
    uint64_t micro_batch;
    if (stepper_must_resize(s)) {
        atomic_store_explicit(&s->interrupted, true, memory_order_relaxed);
        return false;
    }
    if (!s->next(s->next_ctx, &micro_batch)) return false;
    run_micro_batch(s, l, (size_t)micro_batch);
    return true;
}

static void micro_batch_task(void *ctx, size_t i, unsigned worker) {
    struct qr_stepper *s = ctx;
    (void)i;
    run_next(s, &s->lanes[worker]);
}

enum qr_code qr_stepper_work(struct qr_stepper *s, const struct qr_step_work *w, size_t n_left,
                             qr_stepper_next_fn *next, void *ctx, struct qr_err *err) {
    int64_t began_ns = qr_now_ns(s->opt.clock), span_ns = qr_span_begin();
    s->next = next;
    s->next_ctx = ctx;
    s->work = w;
    do {
        s->interrupted = false;
        if (stepper_must_resize(s)) QR_TRY(stepper_resize(s, err));
        if (s->parallel) qr_pool_for(s->opt.pool, n_left, micro_batch_task, s);
        else
            while (run_next(s, &s->lanes[0])) continue;
    } while (s->interrupted);
    int64_t took_ns = qr_now_ns(s->opt.clock) - began_ns;
    s->took_ns += took_ns;
    qr_span_end(span_ns, QR_SPAN_COMPUTE, NULL, 0);
    qr_count_time(QR_COMPUTE_TIME, took_ns);
    return QR_OK;
}

void qr_stepper_sum(struct qr_stepper *s, enum qr_reduction_kind kind, const qr_fixed **ret_vector,
                    struct qr_coverage *ret_coverage) {
    size_t values = n_vector_values(s, kind);
    struct lane *first = &s->lanes[0];
    int64_t span_ns = qr_span_begin();
    for (size_t i = 1; i < s->n_lanes; i++)
        if (s->lanes[i].used) lane_merge(s, first, &s->lanes[i]);
    first->used = true;
    if (kind == QR_REDUCTION_TRAIN) lane_begin_gradient(s, first);
    *ret_coverage = first->coverage;
    /* With peers, send from a vector that stays unchanged while the next step is computed */
    qr_fixed *sum = s->opt.n_members == 1 ? first->vector : s->vector;
    if (sum != first->vector) memcpy(sum, first->vector, values * sizeof *sum);
    memset(sum + values, 0, s->opt.n_members * sizeof *sum);
    sum[values + s->opt.rank] = qr_pod_time_encode((uint64_t)s->took_ns, s->pod_ms, s->bound);
    *ret_vector = sum;
    qr_span_end(span_ns, QR_SPAN_SUM, NULL, 0);
}

int64_t qr_stepper_micro_batch_ns(const struct qr_stepper *s) {
    int64_t longest_ns = 0;
    for (size_t i = 0; i < s->n_lanes; i++)
        if (s->lanes[i].micro_batch_ns > longest_ns) longest_ns = s->lanes[i].micro_batch_ns;
    return longest_ns;
}

/* Micro-batch b belongs to rank b mod members. */
struct strided {
    atomic_size_t next;
    size_t n, first, stride;
};
static bool next_strided(void *ctx, uint64_t *ret_micro_batch) {
    struct strided *t = ctx;
    size_t i = atomic_fetch_add_explicit(&t->next, 1, memory_order_relaxed);
    *ret_micro_batch = t->first + i * t->stride;
    return i < t->n;
}

void qr_stepper_compute(struct qr_stepper *s, const struct qr_step_work *w,
                        const qr_fixed **ret_vector, struct qr_coverage *ret_coverage) {
    size_t n_micro_batches = qr_stepper_micro_batches(s, w), rank = s->opt.rank,
           n = s->opt.n_members;
    struct strided t = {.n = n_micro_batches > rank ? (n_micro_batches - rank - 1) / n + 1 : 0,
                        .first = rank,
                        .stride = n};
    struct qr_err err;
    atomic_init(&t.next, 0);
    qr_stepper_clear(s);
    QR_ASSERT(qr_stepper_work(s, w, t.n, next_strided, &t, &err) == QR_OK);
    qr_stepper_sum(s, w->kind, ret_vector, ret_coverage);
}

/* Whether this sample alone can be computed. */
static bool sample_is_good(struct qr_stepper *s, const struct qr_step_work *w, size_t position) {
    struct lane *l = &s->lanes[0];
    lane_set_samples(s, l, w, position, 1);
    return lane_compute(s, l, w, 1, true, l->vector + QR_VECTOR_SUMS);
}

enum qr_code qr_stepper_find_bad_sample(struct qr_stepper *s, const struct qr_step_work *w,
                                        uint64_t step, uint64_t bad, uint64_t bad_ids,
                                        struct qr_err *err) {
    const char *kind = w->kind == QR_REDUCTION_TRAIN ? "training" : "validation";
    /* One bad micro-batch is known by its id; of several only the sum is known, so all are searched
     * in order. */
    if (stepper_equip(s, err) != QR_OK) return err->code;
    size_t first = bad == 1 ? (size_t)bad_ids : 0,
           end = bad == 1 ? first + 1 : qr_stepper_micro_batches(s, w);
    for (size_t b = first; b < end; b++) {
        struct qr_range r = qr_micro_batch_at(w->range, s->opt.micro_batch_size, b);
        for (size_t i = r.begin; i < r.end; i++)
            if (!sample_is_good(s, w, i))
                return qr_fail(
                    err, QR_OUT_OF_RANGE,
                    "step %llu: sample %zu (micro-batch %zu of the %s batch) gives a loss or "
                    "gradient that is not finite or "
                    "reaches 2^40; check this sample's values and label, or lower learning_rate",
                    (unsigned long long)step, qr_dataset_row(s->opt.data, sample_at(w, i)), b,
                    kind);
    }
    return qr_fail(err, QR_OUT_OF_RANGE,
                   "step %llu: the sum of a %s micro-batch reaches 2^40 although each of its "
                   "samples alone does not; lower learning_rate "
                   "or micro_batch_size",
                   (unsigned long long)step, kind);
}
