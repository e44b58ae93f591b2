/* circuit/rotations.c — full turns of gates that have an exponent. Start reading at
 * qr_circuit_turns_per_unit(). */
#include "circuit/rotations.h"

#include <math.h>
#include <string.h>

/* The exponent of a gate, in half-turns; NULL: none. */
static const struct qr_gate_arg *gate_exponent(const struct qr_gate *g) {
    if (g->kind == QR_GATE_CHANNEL) return NULL;
    return qr_gate_info(g->kind)->has_exponent ? &g->args[g->n_args - 1] : NULL;
}

void qr_circuit_turns_per_unit(const struct qr_circuit *c, double *ret) {
    memset(ret, 0, c->n_columns * sizeof *ret);
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate_arg *t = gate_exponent(&c->gates[i]);
        if (t && t->kind == QR_ARG_DATA && fabs(t->scale) / 2 > ret[t->index])
            ret[t->index] = fabs(t->scale) / 2;
    }
}

const struct qr_gate *qr_circuit_large_constant(const struct qr_circuit *c, double most,
                                                double *ret_turns) {
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate_arg *t = gate_exponent(&c->gates[i]);
        if (!t || t->kind != QR_ARG_CONSTANT || fabs(t->scale) / 2 <= most) continue;
        *ret_turns = t->scale / 2;
        return &c->gates[i];
    }
    return NULL;
}
