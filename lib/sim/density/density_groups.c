/* sim/density/density_groups.c — the 16x16 matrices of items and groups, and the derivatives that
 * follow from those by a group's matrix. Start reading at density_group_matrix() and
 * density_group_gradient(). */
#include <string.h>

#include "circuit/channel.h"
#include "sim/density/density_impl.h"

/* ---- items ---- */

/* A matrix on the digit of one frame position, the other unchanged. */
static void embed_one(const double *m, unsigned position, double ret[QR_TRANSFER]) {
    unsigned step = position ? 1 : 4, other = 5 - step;
    memset(ret, 0, QR_TRANSFER * sizeof *ret);
    for (unsigned o = 0; o < 4; o++)
        for (unsigned r = 0; r < 4; r++)
            for (unsigned c = 0; c < 4; c++)
                ret[(o * other + r * step) * 16 + o * other + c * step] = m[r * 4 + c];
}

/* A matrix on both digits; swapped: the first target is frame position 1. */
static void embed_two(const double *m, bool swapped, double ret[QR_TRANSFER]) {
    for (unsigned r = 0; r < 16; r++)
        for (unsigned c = 0; c < 16; c++) {
            unsigned from_r = swapped ? r % 4 * 4 + r / 4 : r,
                     from_c = swapped ? c % 4 * 4 + c / 4 : c;
            ret[r * 16 + c] = m[from_r * 16 + from_c];
        }
}

static void and_matrix(const struct density_item *item, double ret[QR_TRANSFER]) {
    struct qr_m4 m = {0};
    double numbers[QR_TRANSFER];
    unsigned value = item->op.gate.args[0].scale != 0;
    for (unsigned s = 0; s < 2; s++)
        for (unsigned c = 0; c < 2; c++) m.e[((s & (c == value)) * 2 + c) * 4 + s * 2 + c].re = 1;
    qr_transfer(&m, QR_ALL_DIGITS, numbers);
    embed_two(numbers, item->op.t[0] == 1, ret);
}

static void gate_values(const struct qr_sim_bound *b, const struct qr_gate *g, const double *x,
                        double a[2]) {
    a[0] = a[1] = 0;
    for (unsigned k = 0; k < g->n_args; k++) a[k] = qr_gate_arg_value(&g->args[k], b->theta, x);
}

void density_item_matrix(const struct qr_sim_bound *b, const struct density_item *item,
                         const double *x, double ret[QR_TRANSFER]) {
    static const double restart[16] = {1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1, -1, 0, 0};
    double a[QR_CHANNEL_ARGS], numbers[QR_CHANNEL_TRANSFER];
    double complex u[16];
    struct qr_m4 m;
    switch (item->what) {
    case DENSITY_AND: and_matrix(item, ret); return;
    case DENSITY_RESTART: embed_one(restart, item->op.t[0], ret); return;
    case DENSITY_CHANNEL:
        qr_channel_values(&b->plan->channels[item->channel], b->theta, a);
        qr_channel_transfer(&b->plan->channels[item->channel], a, numbers, NULL);
        if (item->op.gate.n_targets == 2) embed_two(numbers, item->op.t[0] == 1, ret);
        else embed_one(numbers, item->op.t[0], ret);
        return;
    case DENSITY_GATE:
        gate_values(b, &item->op.gate, x, a);
        qr_gate_matrix(&item->op.gate, a, u, NULL);
        m = qr_m4_mul_gate(NULL, &item->op, u, false);
        qr_transfer(&m, QR_ALL_DIGITS, ret);
    }
}

/* ---- groups ---- */

/* A matrix as a factor: entry [r][c] is at r * row + c * column. */
struct factor {
    const double *m;
    unsigned row, column;
};
static struct factor plain(const double *m) { return (struct factor){m, 16, 1}; }
static struct factor transposed(const double *m) { return (struct factor){m, 1, 16}; }

/* ret = a b; ret may be one of them. */
static void product(struct factor a, struct factor b, double *ret) {
    double sum[QR_TRANSFER] = {0};
    for (unsigned r = 0; r < 16; r++)
        for (unsigned k = 0; k < 16; k++) {
            double v = a.m[r * a.row + k * a.column];
            if (v == 0) continue;
            for (unsigned c = 0; c < 16; c++) sum[r * 16 + c] += v * b.m[k * b.row + c * b.column];
        }
    memcpy(ret, sum, sizeof sum);
}

static void set_identity(double ret[QR_TRANSFER]) {
    memset(ret, 0, QR_TRANSFER * sizeof *ret);
    for (unsigned i = 0; i < 16; i++) ret[i * 17] = 1;
}

void density_group_matrix(const struct qr_sim_bound *b, const struct density_group *g,
                          const double *x, double *items, double ret[QR_TRANSFER]) {
    set_identity(ret);
    for (uint32_t i = 0; i < g->n_items; i++) {
        double own[QR_TRANSFER], *m = items ? items + (size_t)i * QR_TRANSFER : own;
        density_item_matrix(b, &b->plan->density->items[g->first_item + i], x, m);
        product(plain(m), plain(ret), ret);
    }
}

/* ---- derivatives ---- */

/* d: by the matrix of a gate in its frame. */
static void gate_gradient(const struct qr_sim_bound *b, const struct qr_plan_op *op,
                          const double *r, const double *d, const double *x, double *params,
                          double *dx) {
    const struct qr_sim_plan *p = b->plan;
    double a[2], cross[QR_CROSS], w[QR_CROSS];
    double complex u[16], du[32];
    qr_transfer_cross(r, d, QR_ALL_DIGITS, QR_ALL_DIGITS, cross);
    gate_values(b, &op->gate, x, a);
    qr_gate_matrix(&op->gate, a, u, du);
    for (unsigned k = 0; k < op->gate.n_args; k++) {
        const struct qr_gate_arg *arg = &op->gate.args[k];
        bool input = arg->kind == QR_ARG_DATA && dx && p->wanted && p->wanted[arg->index];
        if (!input && (arg->kind != QR_ARG_PARAMETER || p->zero_gradient[arg->index])) continue;
        qr_derivative_weights(NULL, op, u, du + k * (op->gate.n_targets == 2 ? 16u : 4u),
                              arg->scale, w);
        *(input ? dx + arg->index : params + arg->index) += qr_derivative_value(w, cross);
    }
}

/* d: by the matrix of a channel in the frame of a group. */
static void channel_gradient(const struct qr_sim_bound *b, const struct density_item *item,
                             const double *d, double *params) {
    double own[QR_TRANSFER];
    unsigned step = item->op.t[0] ? 1 : 4, other = 5 - step;
    if (item->op.gate.n_targets == 2) {
        embed_two(d, item->op.t[0] == 1, own);
    } else {
        memset(own, 0, sizeof own);
        for (unsigned o = 0; o < 4; o++)
            for (unsigned r = 0; r < 4; r++)
                for (unsigned c = 0; c < 4; c++)
                    own[r * 4 + c] += d[(o * other + r * step) * 16 + o * other + c * step];
    }
    qr_bound_channel_gradient(b, item->channel, own, params);
}

/* The group's matrix is after * item * before: the derivative by the item's is after^T d
 * before^T. */
void density_group_gradient(const struct qr_sim_bound *b, const struct density_group *g,
                            const double *items, const double *d, const double *x, double *chain,
                            double *params, double *dx) {
    double *before = chain, *left = chain + (size_t)g->n_items * QR_TRANSFER,
           *own = left + QR_TRANSFER;
    set_identity(before);
    for (uint32_t i = 0; i + 1 < g->n_items; i++)
        product(plain(items + (size_t)i * QR_TRANSFER), plain(before + (size_t)i * QR_TRANSFER),
                before + (size_t)(i + 1) * QR_TRANSFER);
    memcpy(left, d, QR_TRANSFER * sizeof *left);
    for (uint32_t i = g->n_items; i-- > 0;) {
        const struct density_item *item = &b->plan->density->items[g->first_item + i];
        const double *r = items + (size_t)i * QR_TRANSFER;
        if (item->needs) {
            product(plain(left), transposed(before + (size_t)i * QR_TRANSFER), own);
            if (item->what == DENSITY_CHANNEL) channel_gradient(b, item, own, params);
            else gate_gradient(b, &item->op, r, own, x, params, dx);
        }
        product(transposed(r), plain(left), left);
    }
}
