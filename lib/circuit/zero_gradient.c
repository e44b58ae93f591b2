/* Parameters that no observable can see.
 *
 * Walking back from one Pauli term, keep for every qubit the Paulis that certainly commute with the operator O so far (O is
 * the term carried back through the gates already passed, U^dagger O U): all three while O does not touch the qubit, one
 * where O has only that Pauli there, none in general.
 *   A gate is a product of exponentials of products with one Pauli factor per qubit (X on the target of X^t and CNOT^t, Z
 * on every control, ...), or of something wider ("any"). If O commutes with the factor on every qubit of the gate, it
 * commutes with the gate and with its generator: U^dagger O U = O, and the derivative of <O> with respect to the gate's
 * arguments is exactly zero, for every initial state.
 *   Otherwise the gate's parameters count as visible, and on a qubit where the gate has the factor P alone, O and U both
 * commute with P, so U^dagger O U still does; on a qubit with "any" nothing is known afterwards.
 * Only sufficient conditions are used, so what is flagged is zero for all parameter values. */
#include <string.h>

#include "circuit/circuit.h"

enum { PX = 1, PY = 2, PZ = 4, ALL = PX | PY | PZ, ANY = 0 };

/* The Pauli factor of a kind on its first and second target. */
static void factors(enum qr_gate_kind kind, uint8_t ret[2]) {
    ret[0] = ret[1] = ANY;
    switch (kind) {
    case QR_GATE_X: ret[0] = PX; break;
    case QR_GATE_Y: ret[0] = PY; break;
    case QR_GATE_Z: ret[0] = PZ; break;
    case QR_GATE_XX: ret[0] = ret[1] = PX; break;
    case QR_GATE_YY: ret[0] = ret[1] = PY; break;
    case QR_GATE_ZZ: case QR_GATE_CZ: ret[0] = ret[1] = PZ; break;
    case QR_GATE_CNOT: ret[0] = PZ, ret[1] = PX; break;
    case QR_GATE_I: case QR_GATE_H: case QR_GATE_SWAP: case QR_GATE_ISWAP: case QR_GATE_PHASED_X: case QR_GATE_PHASED_ISWAP:
    case QR_GATE_FSIM: case QR_GATE_KINDS: break;
    }
}

static bool commutes(uint8_t known, uint8_t factor) { return factor == ANY ? known == ALL : (known & factor) == factor; }

static void see(const struct qr_circuit *c, const struct qr_pauli_term *term, uint8_t *invisible) {
    uint8_t known[QR_MAX_QUBITS];
    for (unsigned q = 0; q < c->n_qubits; q++) {
        bool x = term->x >> q & 1, z = term->z >> q & 1;
        known[q] = x && z ? PY : x ? PX : z ? PZ : ALL;
    }
    for (size_t i = c->n_gates; i-- > 0;) {
        const struct qr_gate *g = &c->gates[i];
        if (g->kind == QR_GATE_I) continue;
        uint8_t factor[2];
        factors(g->kind, factor);
        bool passes = true;
        for (unsigned k = 0; k < g->n_targets; k++) passes = passes && commutes(known[g->targets[k]], factor[k]);
        for (uint64_t left = g->controls; left; left &= left - 1)
            passes = passes && commutes(known[__builtin_ctzll(left)], PZ);
        if (passes) continue;
        for (unsigned k = 0; k < g->n_args; k++)
            if (g->args[k].kind == QR_ARG_PARAMETER) invisible[g->args[k].index] = 0;
        for (unsigned k = 0; k < g->n_targets; k++) known[g->targets[k]] &= factor[k];
        for (uint64_t left = g->controls; left; left &= left - 1) known[__builtin_ctzll(left)] &= PZ;
    }
}

void qr_circuit_zero_gradient(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs, uint8_t *ret) {
    memset(ret, 1, c->n_params);
    for (size_t r = 0; r < n_obs; r++)
        for (size_t t = 0; t < obs[r].n_terms; t++) see(c, &obs[r].terms[t], ret);
}
