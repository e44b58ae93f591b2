/* sim/statevector/readout.c — read-outs of a final state, and the observables applied to it. */
#include <string.h>

#include "sim/statevector/statevector_impl.h"

static bool odd_lane(unsigned lane, unsigned z_lane) {
    return __builtin_popcount(lane & z_lane) & 1;
}

static void add_z(struct qr_sweep_slot *slot, size_t at, double value) {
    qr_fixed f;
    if (qr_fixed_from_double(value, &f)) slot->z[at] += f;
    else slot->bad_z[at] = true;
}

/* One piece: a lane is a sample and enters by itself, or the 16 lanes go through the same tree as
 * in a kernel's fold. */
static void add_piece(struct qr_sweep *r, const struct qr_plan_term *t, const void *acc,
                      struct qr_sweep_slot *slot) {
    size_t at = (size_t)t->readout * QR_LANES;
    if (r->p->lanes_are_samples) {
        for (unsigned l = 0; l < r->n; l++)
            add_z(slot, at + l, qr_element(r->p, acc, l) * t->coefficient);
        return;
    }
    double v[QR_LANES];
    for (unsigned l = 0; l < QR_LANES; l++) {
        double x = qr_element(r->p, acc, l);
        v[l] = odd_lane(l, t->place.z_lane) ? -x : x;
    }
    for (unsigned half = QR_LANES / 2; half; half /= 2)
        for (unsigned l = 0; l < half; l++) v[l] += v[l + half];
    add_z(slot, at, v[0] * t->coefficient);
}

static size_t piece_cells(const struct qr_sweep *r, size_t first) {
    size_t all = (size_t)1 << r->p->cell_bits;
    return all - first < QR_PIECE_CELLS ? all - first : QR_PIECE_CELLS;
}

/* All terms while the piece is in the cache. */
static void expect_item(struct qr_sweep *r, size_t item, struct qr_sweep_slot *slot) {
    const struct qr_sim_plan *p = r->p;
    size_t first = item * QR_PIECE_CELLS, n = piece_cells(r, first);
    for (size_t t = 0; t < r->v->n_terms; t++) {
        _Alignas(64) double acc[QR_LANES]; /* or floats */
        memset(acc, 0, sizeof acc);
        p->kernels->expect(r->ws->phi, first, n, &r->v->terms[t].place, acc);
        add_piece(r, &r->v->terms[t], acc, slot);
    }
}

/* lambda += the term on phi; place: its own, or in a tile; minus: of what lies outside. */
static void add_term(const struct qr_sweep *r, const struct qr_plan_term *t,
                     const struct qr_pauli_place *place, bool minus, unsigned char *lambda,
                     const unsigned char *phi, size_t first, size_t n) {
    const struct qr_sim_plan *p = r->p;
    _Alignas(64) double weight[QR_LANES]; /* or floats */
    for (unsigned l = 0; l < QR_LANES; l++) {
        double w = 0;
        if (!p->lanes_are_samples) {
            w = r->direction[t->readout] * t->coefficient;
            if (odd_lane(l ^ place->x_lane, place->z_lane) != minus) w = -w;
        } else if (l < r->n) {
            w = r->direction[l * p->n_readouts + t->readout] * t->coefficient;
        }
        qr_element_set(p, weight, l, w);
    }
    p->kernels->observe(lambda, phi, first, n, place, weight);
}

static void observe_item(struct qr_sweep *r, size_t item, struct qr_sweep_slot *slot) {
    (void)slot;
    const struct qr_sim_plan *p = r->p;
    size_t first = item * QR_PIECE_CELLS, n = piece_cells(r, first);
    memset(r->ws->lambda + first * p->cell_bytes, 0, n * p->cell_bytes);
    for (size_t i = 0; i < r->v->n_terms; i++)
        add_term(r, &r->v->terms[i], &r->v->terms[i].place, false, r->ws->lambda, r->ws->phi, first,
                 n);
}

/* The bits of x that lie in mask, one after the other. */
static uint64_t collect(uint64_t x, uint64_t mask) {
    uint64_t o = 0;
    for (unsigned k = 0; mask; mask &= mask - 1, k++)
        if (x & mask & -mask) o |= UINT64_C(1) << k;
    return o;
}

void qr_sweep_observe_tile(const struct qr_sweep *r, uint64_t base, unsigned char *lambda,
                           const unsigned char *phi) {
    const struct qr_sim_plan *p = r->p;
    size_t n = (size_t)1 << r->v->tile_bits;
    memset(lambda, 0, n * p->cell_bytes);
    for (size_t i = 0; i < r->v->n_terms; i++) {
        const struct qr_plan_term *t = &r->v->terms[i];
        struct qr_pauli_place place = t->place;
        place.x = collect(place.x, r->pass->tile);
        place.z = collect(place.z, r->pass->tile);
        place.turned = false;
        add_term(r, t, &place, __builtin_parityll(t->place.z & base), lambda, phi, 0, n);
    }
}

static size_t n_pieces(const struct qr_sweep *r) {
    return (((size_t)1 << r->p->cell_bits) + QR_PIECE_CELLS - 1) / QR_PIECE_CELLS;
}
void qr_sweep_expect(struct qr_sweep *r) { qr_sweep_items(r, n_pieces(r), expect_item); }
void qr_sweep_observe(struct qr_sweep *r) {
    if (!r->v->tiles_observe) qr_sweep_items(r, n_pieces(r), observe_item);
}
