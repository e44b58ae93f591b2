/* train/validation.c — evaluation of a committed state outside the ring. Start reading at
 * qr_validation_pass_evaluate(). */
#include "train/validation.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "data/batch.h"
#include "train/logged.h"

struct qr_validation_pass {
    struct qr_validation_pass_options opt;
    struct qr_stepper *stepper;
    size_t n_batches; /* of an epoch */
    size_t n;         /* micro-batches of the evaluation */
    atomic_size_t next;
};

enum qr_code qr_validation_pass_new(const struct qr_validation_pass_options *opt,
                                    struct qr_validation_pass **ret, struct qr_err *err) {
    const struct qr_stepper_options so = {.model = opt->model,
                                          .data = opt->data,
                                          .micro_batch_size = opt->job->micro_batch_size,
                                          .seed = opt->job->seed,
                                          .n_points = 1,
                                          .n_members = 1,
                                          .pool = opt->pool,
                                          .clock = opt->clock};
    struct qr_validation_pass *h = qr_xcalloc(1, sizeof *h);
    h->opt = *opt;
    h->n_batches = qr_batch_count(opt->data->n_train, opt->job->train.batch_size);
    enum qr_code code = qr_stepper_new(&so, &h->stepper, err);
    if (code == QR_OK) *ret = h;
    else free(h);
    return code;
}

void qr_validation_pass_free(struct qr_validation_pass *h) {
    if (!h) return;
    qr_stepper_free(h->stepper);
    free(h);
}

static bool validation_next(void *ctx, uint64_t *ret_micro_batch) {
    struct qr_validation_pass *h = ctx;
    if (h->opt.stopping && h->opt.stopping(h->opt.stopping_ctx)) return false;
    *ret_micro_batch = atomic_fetch_add_explicit(&h->next, 1, memory_order_relaxed);
    return *ret_micro_batch < h->n;
}

enum qr_code qr_validation_pass_evaluate(struct qr_validation_pass *h, const struct qr_state *s,
                                         struct qr_step_values *ret, struct qr_err *err) {
    const struct qr_model *m = h->opt.model;
    const struct qr_dataset *d = h->opt.data;
    const struct qr_step_work w = {
        .kind = QR_REDUCTION_EVAL, .range = {d->n_train, d->n_samples}, .step = s->step};
    const qr_fixed *sum;
    struct qr_coverage coverage;
    h->n = qr_stepper_micro_batches(h->stepper, &w);
    atomic_store(&h->next, 0);
    qr_stepper_clear(h->stepper);
    qr_stepper_prepare(h->stepper, s->weights);
    QR_TRY(qr_stepper_work(h->stepper, &w, h->n, validation_next, h, err));
    if (atomic_load(&h->next) < h->n)
        return qr_fail(err, QR_CANCELLED, "stopped on request during an evaluation");
    qr_stepper_sum(h->stepper, w.kind, &sum, &coverage);
    uint64_t bad = qr_fixed_to_count(sum[QR_VECTOR_BAD]),
             samples = qr_fixed_to_count(sum[QR_VECTOR_SAMPLES]);
    if (bad)
        return qr_stepper_find_bad_sample(h->stepper, &w, s->step + 1, bad,
                                          qr_fixed_to_count(sum[QR_VECTOR_BAD_IDS]), err);
    QR_ASSERT(samples == d->n_samples - d->n_train && s->step > 0);
    *ret = (struct qr_step_values){.step = s->step,
                                   .epoch = (s->step - 1) / h->n_batches + 1,
                                   .samples = samples,
                                   .eval = true,
                                   .ends_epoch = s->step % h->n_batches == 0};
    for (size_t i = 0; i < qr_model_n_values(m); i++)
        ret->value[i] = qr_model_mean(m, i, sum + QR_VECTOR_SUMS, samples);
    ret->value[0] += qr_model_penalty(m, s->weights);
    qr_stepper_readouts(sum, ret->readouts);
    qr_logged_add(h->opt.job, m, s, NULL, ret);
    return QR_OK;
}
