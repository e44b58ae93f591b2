/* sim/fusion/derivative.c — from exact sums of cross matrices to one integer per parameter. Start
 * reading at qr_bound_gradient(). */
#include <math.h>
#include <string.h>

#include "circuit/channel.h"
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

/* The cross matrix of an op has the corrections of all sites after it. Such shapes have no data. */
static void shape_gradient_with_sites(const struct qr_sim_bound *b, const struct qr_plan_shape *s,
                                      const struct qr_bound_sums *sums, double *scratch) {
    const struct qr_sim_plan *p = b->plan;
    qr_fixed cross[QR_CROSS];
    double k[QR_CROSS];
    uint32_t site = s->n_sites;
    memcpy(cross, sums->cross + (size_t)(s - p->shapes) * QR_CROSS, sizeof cross);
    for (uint32_t j = s->first_derivative + s->n_derivatives; j-- > s->first_derivative;) {
        const struct qr_plan_derivative *d = &p->derivatives[j];
        for (; site > 0 && p->sites[s->first_site + site - 1].op > d->op - s->first_op; site--)
            qr_fixed_add(cross, sums->sites + (size_t)(s->first_site + site - 1) * QR_CROSS,
                         QR_CROSS);
        cross_to_double(cross, k);
        scratch[d->of] += qr_derivative_value(b->weights + (size_t)j * QR_CROSS, k);
    }
}

void qr_bound_channel_gradient(const struct qr_sim_bound *b, size_t channel, const double *d,
                               double *ret) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_channel *c = &p->channels[channel];
    size_t n = c->info->n_targets == 1 ? 16 : 256;
    double a[QR_CHANNEL_ARGS], r[QR_CHANNEL_TRANSFER], da[QR_CHANNEL_ARGS * QR_CHANNEL_TRANSFER];
    qr_channel_values(c, b->theta, a);
    qr_channel_transfer(c, a, r, da);
    for (unsigned k = 0; k < c->info->n_args; k++) {
        const struct qr_gate_arg *arg = &c->args[k];
        double sum = 0;
        if (arg->kind != QR_ARG_PARAMETER || p->zero_gradient[arg->index]) continue;
        for (size_t i = 0; i < n; i++)
            if (d[i] != 0) sum += d[i] * da[k * n + i];
        ret[arg->index] += arg->scale * sum;
    }
}

bool qr_bound_gradient(const struct qr_sim_bound *b, const struct qr_bound_sums *sums,
                       double *scratch, qr_fixed *ret_grad, double *ret_dx) {
    const struct qr_sim_plan *p = b->plan;
    const double *x = sums->x;
    size_t n_samples = sums->n_samples;
    bool good = true;
    for (unsigned k = 0; k < p->n_params; k++) scratch[k] = sums->params ? sums->params[k] : 0;
    for (size_t i = 0; i < p->n_shapes && sums->cross; i++) {
        const struct qr_plan_shape *s = &p->shapes[i];
        if (!s->n_derivatives) continue;
        double k[QR_CROSS];
        if (sums->sites && s->n_sites) {
            shape_gradient_with_sites(b, s, sums, scratch);
            continue;
        }
        cross_to_double(sums->cross + i * QR_CROSS, k);
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
                                     sums->mixed +
                                         (s->mixed_slot * sums->mixed_stride + n) * QR_CROSS);
        }
    }
    for (size_t i = 0; sums->channels && i < p->n_channels; i++)
        if (p->channel_needs[i])
            qr_bound_channel_gradient(b, i, sums->channels + i * QR_CHANNEL_TRANSFER, scratch);
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
