/* train/update.c — from the sum of a TRAIN reduction to the next state. Start reading at
 * qr_update_apply(). */
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

/* ---- weight by weight ---- */

enum {
    TASK = 1 << 14, /* weights per task */
    /* weights that are processed completely while they are cached; so few that the next ones are
     * fetched from L3 during their divisions and roots */
    PART = 1 << 6,
};

struct update_parts {
    const struct qr_update *u;
    const qr_fixed *grad; /* sums over this many samples */
    uint64_t samples;
    const struct qr_state *s;
    double *gradient;
    struct qr_state *ret; /* NULL: compute the gradient only */
};

static void update_part(const struct update_parts *p, size_t from, size_t end) {
    const struct qr_state *s = p->s;
    const struct qr_update *u = p->u;
    size_t n = s->n_params, bytes = (end - from) * sizeof(double);
    const struct qr_optimizer_update all = {n,
                                            u->tensors,
                                            u->n_tensors,
                                            p->gradient,
                                            p->ret->weights,
                                            p->ret->moments,
                                            p->ret->products};
    memcpy(p->ret->weights + from, s->weights + from, bytes);
    for (size_t k = 0; k < s->n_moments; k++)
        memcpy(p->ret->moments + k * n + from, s->moments + k * n + from, bytes);
    qr_optimizer_part(&u->job->train.optimizer, s->step, from, end, &all);
}

static void update_task(void *ctx, size_t i, unsigned worker) {
    const struct update_parts *p = ctx;
    const struct qr_model *m = p->u->model;
    size_t n = p->s->n_params, end = (i + 1) * TASK < n ? (i + 1) * TASK : n;
    (void)worker;
    for (size_t at = i * TASK, last; at < end; at = last) {
        last = at + PART < end ? at + PART : end;
        qr_model_mean_gradient(m, at, last, p->grad, p->samples, p->gradient);
        qr_model_add_penalty_gradient(m, p->s->weights, at, last, p->gradient);
        if (p->ret) update_part(p, at, last);
    }
}

static void run_update_parts(struct update_parts *p) {
    qr_pool_for(p->u->pool, (p->s->n_params + TASK - 1) / TASK, update_task, p);
}

/* ---- whole update: where a weight's step depends on other weights' derivatives ---- */

/* The mean gradient, or its estimate from two points. */
static void mean_gradient(struct qr_update *u, const qr_fixed *grad, uint64_t samples,
                          const struct qr_state *s, double *ret) {
    if (u->n_points > 1) {
        double difference = qr_fixed_to_double(grad[0]) / (double)samples +
                            qr_model_penalty(u->model, u->plus) -
                            qr_model_penalty(u->model, u->minus);
        qr_optimizer_estimate(&u->job->train.optimizer, u->job->seed, s->step, s->n_params,
                              u->still, difference, ret);
    } else {
        run_update_parts(&(struct update_parts){u, grad, samples, s, ret, NULL});
    }
}

static void update_whole(struct qr_update *u, const qr_fixed *grad, uint64_t samples, double loss,
                         const struct qr_state *s, struct qr_state *ret, double *gradient) {
    const struct qr_optimizer_options *o = &u->job->train.optimizer;
    bool natural = o->kind == QR_NATURAL_GRADIENT;
    qr_state_copy(ret, s);
    mean_gradient(u, grad, samples, s, gradient);
    if (natural || qr_optimizer_clips(o)) {
        memcpy(u->changed, gradient, s->n_params * sizeof *gradient);
        gradient = u->changed;
    }
    if (natural)
        qr_model_natural_gradient(u->model, s->weights, o->regularization, u->pool, gradient);
    qr_optimizer_apply(o, s->step, loss, s->n_params, u->tensors, u->n_tensors, gradient,
                       ret->weights, ret->moments, ret->products);
}

/* ---- */

static bool can_update_by_parts(const struct qr_update *u) {
    const struct qr_optimizer_options *o = &u->job->train.optimizer;
    return u->n_points == 1 && o->kind != QR_NATURAL_GRADIENT && !qr_optimizer_clips(o) &&
           !qr_optimizer_has_line_search(o->kind);
}

void qr_update_apply(struct qr_update *u, const qr_fixed *sums, uint64_t samples, bool begins,
                     const struct qr_state *s, struct qr_state *ret, double *ret_gradient) {
    const struct qr_optimizer_options *o = &u->job->train.optimizer;
    const qr_fixed *grad = sums + s->n_sums;
    uint64_t evaluated = u->n_points * samples;
    double penalty = qr_model_penalty(u->model, s->weights),
           loss = qr_model_mean(u->model, 0, sums, evaluated) + penalty;
    if (can_update_by_parts(u)) {
        qr_state_copy_rest(ret, s);
        qr_optimizer_begin(o, ret->products);
        run_update_parts(&(struct update_parts){u, grad, samples, s, ret_gradient, ret});
    } else {
        update_whole(u, grad, samples, loss, s, ret, ret_gradient);
    }
    if (qr_optimizer_ended(o, ret->products)) ret->stop[QR_STOP_STOPPED] = 1;
    if (begins) memset(ret->sums, 0, (ret->n_sums + 1) * sizeof *ret->sums);
    for (size_t i = 0; i < s->n_sums; i++) ret->sums[i] += qr_fixed_to_double(sums[i]);
    ret->sums[0] += penalty * (double)evaluated;
    ret->sums[s->n_sums] += (double)evaluated;
    ret->step++;
}
