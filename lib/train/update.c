#include "train/update.h"

#include <string.h>

#include "base/mem.h"

void qr_update_init(struct qr_update *u, const struct qr_job *job, const struct qr_model *m,
                    struct qr_pool *pool) {
    size_t n = qr_model_n_params(m);
    *u = (struct qr_update){.job = job,
                            .model = m,
                            .pool = pool,
                            .n_points = qr_optimizer_n_points(job->train.optimizer.kind),
                            .n_tensors = qr_model_n_tensors(m)};
    u->tensors = qr_xcalloc(u->n_tensors, sizeof *u->tensors);
    for (size_t i = 0; i < u->n_tensors; i++) {
        const struct qr_model_tensor *t = qr_model_tensor(m, i);
        u->tensors[i] = (struct qr_optimizer_tensor){.n = t->n, .frozen = t->frozen};
    }
    u->changed = qr_xaligned(n * sizeof *u->changed);
    if (u->n_points == 1) return;
    u->plus = qr_xaligned(n * sizeof *u->plus);
    u->minus = qr_xaligned(n * sizeof *u->minus);
    u->still = qr_xcalloc(n + 1, sizeof *u->still);
    qr_model_zero_gradient(m, u->still);
}

void qr_update_fini(struct qr_update *u) {
    free(u->tensors);
    free(u->changed);
    free(u->plus);
    free(u->minus);
    free(u->still);
    *u = (struct qr_update){0};
}

void qr_update_prepare(struct qr_update *u, struct qr_stepper *stepper, const struct qr_state *s,
                       bool train) {
    if (u->n_points == 1 || !train) {
        qr_stepper_prepare(stepper, s->weights);
        return;
    }
    qr_optimizer_points(&u->job->train.optimizer, u->job->seed, s->step, s->n_params, u->still,
                        s->weights, u->plus, u->minus);
    qr_stepper_prepare_points(stepper, u->plus, u->minus);
}

/* The mean gradient, or what stands for it. */
static void take_gradient(struct qr_update *u, const qr_fixed *grad, uint64_t samples,
                          const struct qr_state *s, double *ret) {
    if (u->n_points > 1) {
        double difference = qr_fixed_to_double(grad[0]) / (double)samples +
                            qr_model_penalty(u->model, u->plus) -
                            qr_model_penalty(u->model, u->minus);
        qr_optimizer_estimate(&u->job->train.optimizer, u->job->seed, s->step, s->n_params,
                              u->still, difference, ret);
    } else {
        qr_model_mean_gradient(u->model, u->pool, grad, samples, ret);
        qr_model_add_penalty_gradient(u->model, s->weights, ret);
    }
}

void qr_update_apply(struct qr_update *u, const qr_fixed *sums, uint64_t samples,
                     struct qr_state *s, double *ret_gradient) {
    const struct qr_optimizer_options *o = &u->job->train.optimizer;
    bool natural = o->kind == QR_NATURAL_GRADIENT;
    uint64_t evaluated = u->n_points * samples;
    double penalty = qr_model_penalty(u->model, s->weights),
           loss = qr_model_mean(u->model, 0, sums, evaluated) + penalty, *gradient = ret_gradient;
    take_gradient(u, sums + s->n_sums, samples, s, gradient);
    if (natural || qr_optimizer_clips(o)) {
        memcpy(u->changed, gradient, s->n_params * sizeof *gradient);
        gradient = u->changed;
    }
    if (natural)
        qr_model_natural_gradient(u->model, s->weights, o->regularization, u->pool, gradient);
    qr_optimizer_apply(o, s->step, loss, s->n_params, u->tensors, u->n_tensors, gradient,
                       s->weights, s->moments, s->products);
    if (qr_optimizer_ended(o, s->products)) s->stop[QR_STOP_STOPPED] = 1;
    for (size_t i = 0; i < s->n_sums; i++) s->sums[i] += qr_fixed_to_double(sums[i]);
    s->sums[0] += penalty * (double)evaluated;
    s->sums[s->n_sums] += (double)evaluated;
    s->step++;
}
