/* A step's sum is that of its micro-batches one by one, whatever the stepper summed before: other
 * steps, evaluations, bad samples, micro-batches of other threads; with one thread and three. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "tests/ref/chain.h"
#include "tests/t.h"
#include "train/step.h"

enum { INPUTS = 5, SAMPLES = 40, SIZE = 4, TRAINED = 30, MOST = 64 };

static struct qr_model *model;
static struct qr_dataset data;
static double weights[MOST];

static void make_model(bool frozen) {
    const struct qr_dense_options dense[2] = {{.units = 3, .activation = QR_TANH}, {.units = 1}};
    struct chain c = chain_of(NULL, dense, 2);
    c.layers[0].frozen = frozen;
    const struct qr_model_options opt = {.n_inputs = INPUTS,
                                         .layers = c.layers,
                                         .n_layers = c.n,
                                         .loss = QR_MSE,
                                         .micro_batch_size = SIZE};
    struct qr_err err;
    CHECK(qr_model_new(&opt, &model, &err) == QR_OK, "%s", err.msg);
    qr_model_init(model, 7, weights);
    QR_ASSERT(qr_model_n_params(model) <= MOST);
}

/* Adds micro-batches one by one to a vector of zeros; those with a NaN do not count. */
static void reference_sum(const struct qr_step_work *w, uint32_t rank, uint32_t n_members,
                          qr_fixed *ret) {
    struct qr_model_state *s = qr_model_state_new(model);
    struct qr_model_workspace *work;
    struct qr_err err;
    bool train = w->kind == QR_REDUCTION_TRAIN;
    qr_fixed *sums = ret + QR_VECTOR_SUMS, *grad = sums + qr_model_n_sums(model);
    CHECK(qr_model_workspace_new(model, &work, &err) == QR_OK, "%s", err.msg);
    qr_model_prepare(s, weights, NULL);
    for (size_t b = rank; b < qr_micro_batch_count(w->range, SIZE); b += n_members) {
        struct qr_range r = qr_micro_batch_at(w->range, SIZE, b);
        const double *x[SIZE], *y[SIZE];
        size_t n = r.end - r.begin;
        for (size_t i = 0; i < n; i++)
            x[i] = data.x + (r.begin + i) * INPUTS, y[i] = data.y + r.begin + i;
        if (!qr_model_micro_batch(s, work, NULL, x, y, n, NULL, sums, train ? grad : NULL)) {
            ret[QR_VECTOR_BAD] += qr_fixed_from_count(1);
            ret[QR_VECTOR_BAD_IDS] += qr_fixed_from_count(b);
        }
        ret[QR_VECTOR_SAMPLES] += qr_fixed_from_count(n);
    }
    qr_model_workspace_free(work);
    qr_model_state_free(s);
}

static void check_sum(struct qr_stepper *s, const char *what, enum qr_reduction_kind kind,
                      size_t begin, size_t end, uint32_t rank, uint32_t n_members) {
    const struct qr_step_work w = {.kind = kind, .range = {begin, end}};
    qr_fixed want[MOST + QR_VECTOR_SUMS] = {0};
    const qr_fixed *got;
    struct qr_coverage coverage;
    qr_stepper_set_rank(s, rank, n_members);
    reference_sum(&w, rank, n_members, want);
    qr_stepper_compute(s, &w, &got, &coverage);
    size_t n = qr_stepper_vector_length(s, kind) - n_members;
    CHECK(memcmp(got, want, n * sizeof *got) == 0, "%s", what);
}

/* This thread takes no micro-batch. */
static pthread_t main_thread;
static atomic_size_t next;
static bool take_in_other_threads(void *ctx, uint64_t *ret_micro_batch) {
    if (pthread_equal(pthread_self(), main_thread)) return qr_sleep_ns(QR_MS / 10), false;
    *ret_micro_batch = atomic_fetch_add(&next, 1);
    return *ret_micro_batch < *(size_t *)ctx;
}
static void check_other_threads(struct qr_stepper *s) {
    const struct qr_step_work all = {.kind = QR_REDUCTION_TRAIN, .range = {0, 5 * SIZE}};
    qr_fixed want[MOST + QR_VECTOR_SUMS] = {0};
    const qr_fixed *got;
    struct qr_coverage coverage;
    size_t n_micro_batches = 5;
    struct qr_err err;
    qr_stepper_set_rank(s, 0, 1);
    size_t n = qr_stepper_vector_length(s, QR_REDUCTION_TRAIN) - 1;
    qr_stepper_clear(s);
    reference_sum(&all, 0, 1, want);
    atomic_store(&next, 0);
    for (int i = 0; i < 200 && atomic_load(&next) < n_micro_batches; i++)
        CHECK(qr_stepper_work(s, &all, 200, take_in_other_threads, &n_micro_batches, &err) ==
              QR_OK);
    qr_stepper_sum(s, QR_REDUCTION_TRAIN, &got, &coverage);
    CHECK(memcmp(got, want, n * sizeof *got) == 0, "by other threads");
}

/* Tasks request 1, 2, 5, 5, 2, 1 ... threads while the micro-batches are taken, by other threads
 * than this one if there are any: so their integers are in lanes that are removed. */
static struct qr_pool *pool;
static bool take_and_resize(void *ctx, uint64_t *ret_micro_batch) {
    if (qr_pool_size(pool) > 1 && pthread_equal(pthread_self(), main_thread))
        return qr_sleep_ns(QR_MS / 10), false;
    size_t i = atomic_fetch_add(&next, 1);
    if (i < *(size_t *)ctx) qr_pool_request(pool, (unsigned)(i * i) % 5 + 1);
    *ret_micro_batch = i;
    return i < *(size_t *)ctx;
}
static void check_resize(struct qr_stepper *s) {
    const struct qr_step_work all = {.kind = QR_REDUCTION_TRAIN, .range = {0, TRAINED}};
    qr_fixed want[MOST + QR_VECTOR_SUMS] = {0};
    const qr_fixed *got;
    struct qr_coverage coverage;
    struct qr_err err;
    size_t n_micro_batches = qr_stepper_micro_batches(s, &all);
    qr_stepper_set_rank(s, 0, 1);
    size_t n = qr_stepper_vector_length(s, QR_REDUCTION_TRAIN) - 1;
    reference_sum(&all, 0, 1, want);
    for (unsigned most = 0; most < 5; most++) {
        qr_stepper_clear(s);
        atomic_store(&next, 0);
        for (int i = 0; i < 200 && atomic_load(&next) < n_micro_batches; i++)
            CHECK(qr_stepper_work(s, &all, 200, take_and_resize, &n_micro_batches, &err) == QR_OK);
        CHECK(atomic_load(&next) >= n_micro_batches, "%zu micro-batches", atomic_load(&next));
        qr_stepper_sum(s, QR_REDUCTION_TRAIN, &got, &coverage);
        CHECK(memcmp(got, want, n * sizeof *got) == 0, "with other numbers of threads");
        qr_pool_request(pool, most + 1);
        check_sum(s, "after a resize", QR_REDUCTION_TRAIN, 0, TRAINED, 0, 1);
        CHECK(qr_pool_size(pool) == most + 1, "%u threads, not %u", qr_pool_size(pool), most + 1);
    }
}

static void test_sequence(unsigned threads, bool frozen) {
    struct qr_stepper *s;
    struct qr_err err;
    make_model(frozen);
    const struct qr_stepper_options opt = {.model = model,
                                           .data = &data,
                                           .micro_batch_size = SIZE,
                                           .n_points = 1,
                                           .n_members = 1,
                                           .pool = qr_pool_new(threads),
                                           .clock = &qr_clock_monotonic};
    CHECK(qr_stepper_new(&opt, &s, &err) == QR_OK, "%s", err.msg);
    qr_stepper_prepare(s, weights);
    for (int i = 0; i < 20; i++) {
        double nan_before = data.x[9 * INPUTS];
        check_sum(s, "one micro-batch", QR_REDUCTION_TRAIN, 0, SIZE, 0, 1);
        check_sum(s, "seven, and a short one", QR_REDUCTION_TRAIN, 0, TRAINED, 0, 1);
        check_sum(s, "an evaluation", QR_REDUCTION_EVAL, TRAINED, SAMPLES, 0, 1);
        check_sum(s, "after an evaluation", QR_REDUCTION_TRAIN, SIZE, TRAINED, 0, 1);
        check_sum(s, "with peers", QR_REDUCTION_TRAIN, 0, TRAINED, 1, 3);
        check_sum(s, "no micro-batch of its own", QR_REDUCTION_TRAIN, 0, SIZE, 2, 3);
        data.x[9 * INPUTS] = NAN;
        check_sum(s, "one bad of eight", QR_REDUCTION_TRAIN, 0, TRAINED, 0, 1);
        check_sum(s, "only a bad one", QR_REDUCTION_TRAIN, 2 * SIZE, 3 * SIZE, 0, 1);
        data.x[9 * INPUTS] = nan_before;
        if (threads > 1) check_other_threads(s);
    }
    pool = opt.pool;
    check_resize(s);
    qr_stepper_free(s);
    qr_pool_free(opt.pool);
    qr_model_free(model);
}

int main(void) {
    main_thread = pthread_self();
    data = (struct qr_dataset){
        .n_samples = SAMPLES, .n_train = TRAINED, .n_columns = INPUTS, .n_outputs = 1};
    data.x = qr_xcalloc(SAMPLES * INPUTS, sizeof *data.x);
    data.y = qr_xcalloc(SAMPLES, sizeof *data.y);
    for (size_t i = 0; i < SAMPLES * INPUTS; i++) data.x[i] = sin((double)(i * i));
    for (size_t i = 0; i < SAMPLES; i++) data.y[i] = cos((double)i);
    for (int frozen = 0; frozen < 2; frozen++) test_sequence(1, frozen), test_sequence(3, frozen);
    qr_dataset_fini(&data);
    return t_end();
}
