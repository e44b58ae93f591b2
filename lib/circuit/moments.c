/* circuit/moments.c — gates in moments: sets of gates that can act at the same time. */
#include "base/mem.h"
#include "circuit/circuit.h"

struct qr_qubits qr_gate_all_qubits(const struct qr_gate *g) {
    struct qr_qubits set = g->controls;
    for (unsigned k = 0; k < g->n_targets; k++) qr_qubits_add(&set, g->targets[k]);
    return set;
}

/* A gate follows the measurement of its bits; the next measurement of a bit follows the gate.
 * set_at, used_at: per bit, the first moment after these. */
static void place_after_bits(const struct qr_circuit *c, const struct qr_gate *g, size_t *set_at,
                             size_t *used_at, size_t *at) {
    static const struct qr_qubits none;
    const struct qr_qubits *bits =
        g->condition ? &c->conditions.list[g->condition - 1].bits : &none;
    for (unsigned b = qr_qubits_first(bits); b < QR_MAX_QUBITS; b = qr_qubits_next(bits, b))
        if (set_at[b] > *at) *at = set_at[b];
    if (g->bit && used_at[g->bit - 1] > *at) *at = used_at[g->bit - 1];
    if (g->bit && set_at[g->bit - 1] > *at) *at = set_at[g->bit - 1];
    for (unsigned b = qr_qubits_first(bits); b < QR_MAX_QUBITS; b = qr_qubits_next(bits, b))
        if (*at + 1 > used_at[b]) used_at[b] = *at + 1;
    if (g->bit) set_at[g->bit - 1] = *at + 1;
}

size_t qr_circuit_moments(const struct qr_circuit *c, bool between, size_t **ret_first,
                          size_t **ret_order) {
    size_t *at = qr_xcalloc(c->n_gates + 1, sizeof *at), n = 0,
           *free_at = qr_xcalloc(c->n_qubits, sizeof *free_at),
           *set_at = qr_xcalloc(c->n_bits + 1, sizeof *set_at),
           *used_at = qr_xcalloc(c->n_bits + 1, sizeof *used_at);
    for (size_t i = 0; i < c->n_gates; i++) {
        struct qr_qubits set = qr_gate_all_qubits(&c->gates[i]);
        unsigned last = qr_qubits_last(&set);
        for (unsigned q = qr_qubits_first(&set); between && q < last; q++) qr_qubits_add(&set, q);
        for (unsigned q = qr_qubits_first(&set); q < QR_MAX_QUBITS; q = qr_qubits_next(&set, q))
            if (free_at[q] > at[i]) at[i] = free_at[q];
        place_after_bits(c, &c->gates[i], set_at, used_at, &at[i]);
        for (unsigned q = qr_qubits_first(&set); q < QR_MAX_QUBITS; q = qr_qubits_next(&set, q))
            free_at[q] = at[i] + 1;
        if (at[i] + 1 > n) n = at[i] + 1;
    }
    /* Counting sort */
    size_t *first = qr_xcalloc(n + 2, sizeof *first),
           *order = qr_xcalloc(c->n_gates + 1, sizeof *order);
    for (size_t i = 0; i < c->n_gates; i++) first[at[i] + 2]++;
    for (size_t m = 2; m < n + 2; m++) first[m] += first[m - 1];
    for (size_t i = 0; i < c->n_gates; i++) order[first[at[i] + 1]++] = i;
    free(at);
    free(free_at);
    free(set_at);
    free(used_at);
    *ret_first = first;
    *ret_order = order;
    return n;
}
