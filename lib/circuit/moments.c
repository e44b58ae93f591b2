/* circuit/moments.c — gates in moments: sets of gates that can act at the same time. */
#include "base/mem.h"
#include "circuit/circuit.h"

struct qr_qubits qr_gate_all_qubits(const struct qr_gate *g) {
    struct qr_qubits set = g->controls;
    for (unsigned k = 0; k < g->n_targets; k++) qr_qubits_add(&set, g->targets[k]);
    return set;
}

size_t qr_circuit_moments(const struct qr_circuit *c, bool between, size_t **ret_first,
                          size_t **ret_order) {
    size_t *at = qr_xcalloc(c->n_gates + 1, sizeof *at), n = 0,
           *free_at = qr_xcalloc(c->n_qubits, sizeof *free_at);
    for (size_t i = 0; i < c->n_gates; i++) {
        struct qr_qubits set = qr_gate_all_qubits(&c->gates[i]);
        unsigned last = qr_qubits_last(&set);
        for (unsigned q = qr_qubits_first(&set); between && q < last; q++) qr_qubits_add(&set, q);
        for (unsigned q = qr_qubits_first(&set); q < QR_MAX_QUBITS; q = qr_qubits_next(&set, q))
            if (free_at[q] > at[i]) at[i] = free_at[q];
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
    *ret_first = first;
    *ret_order = order;
    return n;
}
