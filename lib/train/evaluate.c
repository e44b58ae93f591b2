/* train/evaluate.c — evaluation without training. Start reading at qr_evaluate(). */
#include "train/evaluate.h"

#include <string.h>

#include "base/mem.h"

/* Resources of one pass over samples. Micro-batches need not have the size used in training: a
 * prediction does not depend on the other samples. */
struct pass {
    const struct qr_model *m;
    const struct qr_dataset *data;
    struct qr_pool *pool;
    struct qr_model_state *numbers;
    struct qr_model_workspace *workspace;
    size_t micro_batch;
    const double **x, **y;
    uint32_t *number; /* of the samples in the data */
    struct qr_draw draw;
};

static enum qr_code pass_init(struct pass *p, const struct qr_model *m, const double *params,
                              const struct qr_dataset *data, struct qr_pool *pool,
                              struct qr_err *err) {
    *p = (struct pass){
        .m = m, .data = data, .pool = pool, .micro_batch = qr_model_micro_batch_size(m)};
    if (qr_model_workspace_new(m, &p->workspace, err) != QR_OK) return err->code;
    p->numbers = qr_model_state_new(m);
    p->x = qr_xcalloc(p->micro_batch, sizeof *p->x);
    p->y = qr_xcalloc(p->micro_batch, sizeof *p->y);
    p->number = qr_xcalloc(p->micro_batch, sizeof *p->number);
    p->draw = (struct qr_draw){.seed = qr_model_seed(m), .sample = p->number};
    qr_model_prepare(p->numbers, params, pool);
    return QR_OK;
}

static void pass_fini(struct pass *p) {
    qr_model_state_free(p->numbers);
    qr_model_workspace_free(p->workspace);
    free(p->x);
    free(p->y);
    free(p->number);
}

static void pass_set_samples(struct pass *p, const size_t *sample, size_t n) {
    for (size_t i = 0; i < n; i++) {
        p->x[i] = p->data->x + sample[i] * p->data->n_columns;
        p->y[i] = qr_dataset_y(p->data, sample[i]);
        p->number[i] = (uint32_t)sample[i];
    }
}

static enum qr_code not_finite(const struct qr_dataset *data, const size_t *sample, size_t n,
                               struct qr_err *err) {
    if (data->row)
        return qr_fail(err, QR_OUT_OF_RANGE,
                       "one of the %zu samples from sample %zu on gives a number that is not "
                       "finite or reaches 2^40; check the weights and these samples",
                       n, qr_dataset_row(data, sample[0]));
    return qr_fail(err, QR_OUT_OF_RANGE,
                   "samples %zu to %zu give a number that is not finite or reaches 2^40; check "
                   "the weights and these samples",
                   sample[0], sample[n - 1]);
}

/* Finds the first sample that fails alone; at least one of those that fail together does. */
static enum qr_code not_predicted(struct pass *p, const size_t *sample, size_t n,
                                  struct qr_err *err) {
    double *unused = qr_xcalloc(qr_model_n_outputs(p->m), sizeof *unused);
    size_t i = 0;
    for (; i < n; i++) {
        pass_set_samples(p, sample + i, 1);
        if (!qr_model_predict(p->numbers, p->workspace, p->pool, p->x, 1, &p->draw, unused, NULL))
            break;
    }
    free(unused);
    if (i == n) return not_finite(p->data, sample, n, err);
    return qr_fail(err, QR_OUT_OF_RANGE,
                   "sample %zu (counted from 0) gives a number that is not finite or reaches 2^40; "
                   "check the weights and this sample",
                   qr_dataset_row(p->data, sample[i]));
}

/* Sums of loss and metrics, and of gradients unless grad is NULL. */
static enum qr_code sum_micro_batches(struct pass *p, const size_t *sample, size_t n,
                                      qr_fixed *sums, qr_fixed *grad, struct qr_err *err) {
    for (size_t at = 0; at < n; at += p->micro_batch) {
        size_t k = n - at < p->micro_batch ? n - at : p->micro_batch;
        pass_set_samples(p, sample + at, k);
        if (!qr_model_micro_batch(p->numbers, p->workspace, p->pool, p->x, p->y, k, &p->draw, sums,
                                  grad))
            return not_finite(p->data, sample + at, k, err);
    }
    return QR_OK;
}

static enum qr_code predict_micro_batches(struct pass *p, const size_t *sample, size_t n,
                                          double *ret_p, double *ret_z, struct qr_err *err) {
    size_t n_outputs = qr_model_n_outputs(p->m), n_readouts = qr_model_n_readouts(p->m);
    qr_auto(qr_free_p) double *unused =
        ret_p ? NULL : qr_xcalloc(p->micro_batch * n_outputs, sizeof *unused);
    enum qr_code code = QR_OK;
    for (size_t at = 0; at < n && code == QR_OK; at += p->micro_batch) {
        size_t k = n - at < p->micro_batch ? n - at : p->micro_batch;
        pass_set_samples(p, sample + at, k);
        if (!qr_model_predict(p->numbers, p->workspace, p->pool, p->x, k, &p->draw,
                              ret_p ? ret_p + at * n_outputs : unused,
                              ret_z ? ret_z + at * n_readouts : NULL))
            code = not_predicted(p, sample + at, k, err);
    }
    return code;
}

enum qr_code qr_evaluate(const struct qr_model *m, const double *params,
                         const struct qr_dataset *data, const size_t *sample, size_t n,
                         struct qr_pool *pool, double *ret_p, double *ret_z, double *ret_means,
                         struct qr_err *err) {
    struct pass p;
    size_t n_sums = qr_model_n_sums(m);
    qr_auto(qr_free_p) qr_fixed *sums = qr_xaligned(n_sums * sizeof *sums);
    enum qr_code code = pass_init(&p, m, params, data, pool, err);
    if (code == QR_OK && (ret_p || ret_z))
        code = predict_micro_batches(&p, sample, n, ret_p, ret_z, err);
    if (code == QR_OK && ret_means) {
        code = sum_micro_batches(&p, sample, n, sums, NULL, err);
        for (size_t i = 0; i < qr_model_n_values(m) && code == QR_OK; i++)
            ret_means[i] = qr_model_mean(m, i, sums, n);
        if (code == QR_OK) ret_means[0] += qr_model_penalty(m, params);
    }
    pass_fini(&p);
    return code;
}

enum qr_code qr_loss_gradient(const struct qr_model *m, const double *params,
                              const struct qr_dataset *data, const size_t *sample, size_t n,
                              struct qr_pool *pool, double *ret_loss, double *ret_grad,
                              struct qr_err *err) {
    struct pass p;
    size_t n_params = qr_model_n_params(m), n_sums = qr_model_n_sums(m);
    qr_fixed *sums = qr_xaligned((n_sums + n_params) * sizeof *sums), *grad = sums + n_sums;
    enum qr_code code = pass_init(&p, m, params, data, pool, err);
    if (code == QR_OK) code = sum_micro_batches(&p, sample, n, sums, grad, err);
    if (code == QR_OK) {
        *ret_loss = qr_model_mean(m, 0, sums, n) + qr_model_penalty(m, params);
        for (size_t i = 0; i < n_params; i++) ret_grad[i] = qr_fixed_to_double(grad[i]) / (double)n;
        qr_model_add_penalty_gradient(m, params, 0, qr_model_n_params(m), ret_grad);
    }
    pass_fini(&p);
    free(sums);
    return code;
}
