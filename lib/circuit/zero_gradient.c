/* circuit/zero_gradient.c — parameters that no observable can see.
 *
 * Walking back from one Pauli term, keep for every qubit the Paulis that certainly commute with the
 * operator O so far (O is the term carried back through the gates already passed, U^dagger O U):
 * all three while O does not touch the qubit, one where O has only that Pauli there, none in
 * general.
 *   A gate is a product of exponentials of products with one Pauli factor per qubit (X on the
 * target of X^t and CNOT^t, Z on every control, ...), or of something wider ("any"). If O commutes
 * with the factor on every qubit of the gate, it commutes with the gate and with its generator:
 * U^dagger O U = O, and the derivative of <O> with respect to the gate's arguments is exactly zero,
 * for every initial state.
 *   Otherwise the gate's parameters count as visible, and on a qubit where the gate has the factor
 * P alone, O and U both commute with P, so U^dagger O U still does; on a qubit with "any" nothing
 * is known afterwards.
 * Only sufficient conditions are used, so what is flagged is zero for all parameter values. */
#include <string.h>

#include "circuit/circuit.h"

enum { ALL = QR_PAULI_X | QR_PAULI_Y | QR_PAULI_Z, ANY = 0 };

static bool commutes(uint8_t known, uint8_t factor) {
    return factor == ANY ? known == ALL : (known & factor) == factor;
}

static void see(const struct qr_circuit *c, const struct qr_pauli_term *term, uint8_t *ret) {
    uint8_t known[QR_MAX_QUBITS];
    for (unsigned q = 0; q < c->n_qubits; q++) {
        bool x = term->x >> q & 1, z = term->z >> q & 1;
        known[q] = x && z ? QR_PAULI_Y : x ? QR_PAULI_X : z ? QR_PAULI_Z : ALL;
    }
    for (size_t i = c->n_gates; i-- > 0;) {
        const struct qr_gate *g = &c->gates[i];
        const struct qr_gate_info *info = qr_gate_info(g->kind);
        if (info->identity) continue;
        bool passes = true;
        for (unsigned k = 0; k < g->n_targets; k++)
            passes = passes && commutes(known[g->targets[k]], info->factor[k]);
        for (uint64_t left = g->controls; left; left &= left - 1)
            passes = passes && commutes(known[__builtin_ctzll(left)], QR_PAULI_Z);
        if (passes) continue;
        for (unsigned k = 0; k < g->n_args; k++)
            if (g->args[k].kind == QR_ARG_PARAMETER) ret[g->args[k].index] = 0;
        for (unsigned k = 0; k < g->n_targets; k++) known[g->targets[k]] &= info->factor[k];
        for (uint64_t left = g->controls; left; left &= left - 1)
            known[__builtin_ctzll(left)] &= QR_PAULI_Z;
    }
}

void qr_circuit_zero_gradient(const struct qr_circuit *c, const struct qr_observable *obs,
                              size_t n_obs, uint8_t *ret) {
    memset(ret, 1, c->n_params);
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms; t++) see(c, &obs[r].terms[t], ret);
}
