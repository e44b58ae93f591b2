/* sim/fusion/derivative.c — from exact sums of cross matrices to one integer per parameter. Start
 * reading at qr_bound_gradient(). */
#include <math.h>
#include <string.h>

#include "sim/fusion/bind.h"

static void cross_to_double(const qr_fixed *k, double ret[QR_CROSS]) {
    for (int i = 0; i < QR_CROSS; i++) ret[i] = qr_fixed_to_double(k[i]);
}

/* A gate with data has one generator per sample. */
static double mixed_derivative(const struct qr_sim_bound *b, const struct qr_plan_shape *s,
                               const struct qr_plan_derivative *d, const double *x,
                               const qr_fixed *cross) {
    const struct qr_plan_op *op = &b->plan->ops[d->op];
    double complex u[16], du[32];
    double a[2] = {0, 0}, w[QR_CROSS], k[QR_CROSS];
    struct qr_m4 after = qr_bound_data_matrix(b, s, d->op - s->first_op + 1, x);
    for (unsigned i = 0; i < op->gate.n_args; i++)
        a[i] = qr_gate_arg_value(&op->gate.args[i], b->theta, x);
    qr_gate_matrix(&op->gate, a, u, du);
    qr_derivative_weights(&after, op, u, du + d->arg * (op->gate.n_targets == 2 ? 16u : 4u),
                          d->scale, w);
    cross_to_double(cross, k);
    return qr_derivative_value(w, k);
}

bool qr_bound_gradient(const struct qr_sim_bound *b, const qr_fixed *cross, const qr_fixed *mixed,
                       size_t mixed_stride, const double *x, size_t n_samples, double *scratch,
                       qr_fixed *ret_grad, double *ret_dx) {
    const struct qr_sim_plan *p = b->plan;
    bool good = true;
    for (unsigned k = 0; k < p->n_params; k++) scratch[k] = 0;
    for (size_t i = 0; i < p->n_shapes; i++) {
        const struct qr_plan_shape *s = &p->shapes[i];
        if (!s->n_derivatives) continue;
        double k[QR_CROSS];
        cross_to_double(cross + i * QR_CROSS, k);
        for (uint32_t j = s->first_derivative, end = j + s->n_derivatives; j < end; j++) {
            const struct qr_plan_derivative *d = &p->derivatives[j];
            const double *w = b->weights + (size_t)j * QR_CROSS;
            if (!d->mixed && j + 1 < end && !d[1].mixed) {
                double two[2];
                qr_two_derivatives(w, k, two);
                scratch[d->of] += two[0];
                scratch[d[1].of] += two[1];
                j++;
                continue;
            }
            if (!d->mixed) {
                scratch[d->of] += qr_derivative_value(w, k);
                continue;
            }
            for (size_t n = 0; n < n_samples; n++)
                *(d->input ? ret_dx + n * p->n_columns + d->of : scratch + d->of) +=
                    mixed_derivative(b, s, d, x + n * p->n_columns,
                                     mixed + (s->mixed_slot * mixed_stride + n) * QR_CROSS);
        }
    }
    size_t n_params = p->n_params;
    if (p->lowered) {
        qr_lowered_chain(p->lowered, b->theta, x, n_samples, p->wanted, scratch,
                         p->wanted ? ret_dx : NULL);
        n_params = p->lowered->n_params;
    }
    for (size_t n = 0; p->wanted && n < n_samples * p->n_columns; n++)
        good = good && fabs(ret_dx[n]) < 0x1p40;
    return good && qr_fixed_add_doubles(ret_grad, scratch, n_params);
}
