/* sim/statevector/statevector_sums.c — a group of samples, and the sums of the slots over all
 * groups. Start reading at qr_statevector_sweep(). */
#include <string.h>

#include "sim/statevector/statevector_impl.h"

size_t qr_statevector_group(const struct qr_sim_plan *p) {
    return p->lanes_are_samples ? QR_LANES : 1;
}

struct qr_sweep qr_statevector_sweep(const struct qr_sim_bound *b,
                                     struct qr_statevector_workspace *ws, struct qr_pool *pool,
                                     size_t first, size_t n) {
    return (struct qr_sweep){.p = b->plan,
                             .v = b->plan->statevector,
                             .b = b,
                             .ws = ws,
                             .pool = pool,
                             .first = first,
                             .n = n,
                             .end_step = b->plan->statevector->n_steps};
}

/* Sums the slots' integers; NaN if a term was out of range. */
double qr_statevector_readout(struct qr_statevector_workspace *ws, size_t at) {
    qr_fixed sum = 0;
    bool bad = false;
    for (unsigned i = 0; i < ws->n_slots; i++) {
        sum += ws->slots[i].z[at];
        bad |= ws->slots[i].bad_z[at];
        ws->slots[i].z[at] = 0;
        ws->slots[i].bad_z[at] = false;
    }
    return bad ? __builtin_nan("") : qr_fixed_to_double(sum);
}

void qr_statevector_lock_sums(const struct qr_sweep *r) {
    if (r->ws->n_slots > 1) pthread_mutex_lock(&r->ws->lock);
}
void qr_statevector_unlock_sums(const struct qr_sweep *r) {
    if (r->ws->n_slots > 1) pthread_mutex_unlock(&r->ws->lock);
}

/* Where samples are simulated one by one, adds what this one has added to the cross numbers of
 * shapes with per-sample sums to these. */
void qr_statevector_collect_mixed(struct qr_sweep *r) {
    const struct qr_sim_plan *p = r->p;
    if (p->lanes_are_samples || !p->n_mixed) return;
    for (size_t i = 0; i < p->n_shapes; i++) {
        size_t mixed = p->shapes[i].mixed_slot;
        if (mixed == QR_NO_SLOT) continue;
        const qr_fixed *sums = r->ws->cross + i * QR_CROSS;
        qr_fixed *before = r->ws->collected + mixed * QR_CROSS,
                 *to = r->ws->mixed + (mixed * r->ws->head.max_samples + r->sample[0]) * QR_CROSS;
        for (size_t k = 0; k < QR_CROSS; k++) {
            to[k] += sums[k] - before[k];
            before[k] = sums[k];
        }
    }
}

/* Where lanes are samples, sums the per-sample numbers over the samples. */
void qr_statevector_sum_mixed(struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    for (size_t i = 0; p->lanes_are_samples && i < p->n_shapes; i++) {
        if (p->shapes[i].mixed_slot == QR_NO_SLOT) continue;
        for (size_t s = 0; s < ws->n_samples; s++)
            qr_fixed_add(ws->cross + i * QR_CROSS,
                         ws->mixed +
                             (p->shapes[i].mixed_slot * ws->head.max_samples + s) * QR_CROSS,
                         QR_CROSS);
    }
}

void qr_statevector_clear_sums(struct qr_statevector_workspace *ws) {
    const struct qr_sim_plan *p = ws->head.plan;
    size_t n = p->n_shapes * QR_CROSS;
    memset(ws->cross, 0, n * sizeof *ws->cross);
    memset(ws->collected, 0, p->n_mixed * QR_CROSS * sizeof *ws->collected);
    memset(ws->mixed, 0, p->n_mixed * ws->head.max_samples * QR_CROSS * sizeof *ws->mixed);
    for (unsigned i = 0; i < ws->n_slots; i++) {
        if (p->n_sites)
            memset(ws->slots[i].sites, 0, p->n_sites * QR_CROSS * sizeof *ws->slots[i].sites);
        ws->slots[i].bad = false;
    }
}

bool qr_statevector_sums_are_good(const struct qr_statevector_workspace *ws) {
    bool bad = false;
    for (unsigned i = 0; i < ws->n_slots; i++) bad |= ws->slots[i].bad;
    return !bad;
}

void qr_statevector_copy_state(const struct qr_statevector_workspace *ws, size_t sample,
                               double *ret) {
    const struct qr_sim_plan *p = ws->head.plan;
    const struct qr_statevector *v = p->statevector;
    bool turned = v->tile_bits < p->cell_bits;
    unsigned lane_bits = p->lanes_are_samples ? 0 : QR_LANE_BITS;
    for (uint64_t i = 0; i < UINT64_C(1) << p->n_qubits; i++) {
        uint64_t at = 0;
        for (unsigned q = 0; q < p->n_qubits; q++)
            at |= (i >> (p->n_qubits - 1 - q) & 1) << v->final_bit[q];
        uint64_t cell = at >> lane_bits;
        size_t lane = lane_bits ? at % QR_LANES : sample;
        if (turned) cell = qr_cell_at(cell);
        double re = qr_element(p, ws->phi, cell * 2 * QR_LANES + lane),
               im = qr_element(p, ws->phi, (cell * 2 + 1) * QR_LANES + lane);
        ret[2 * i] = re * ws->factor.re - im * ws->factor.im;
        ret[2 * i + 1] = re * ws->factor.im + im * ws->factor.re;
    }
}
