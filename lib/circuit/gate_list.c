/* circuit/gate_list.c — lists of gates, and the gates that composite gates consist of. Start
 * reading at qr_gate_on(). */
#include "base/mem.h"
#include "circuit/composite_gates.h"

void qr_gate_list_add(struct qr_gate_list *to, const struct qr_gate *g) {
    if (to->n == to->cap) {
        to->cap = to->cap ? 2 * to->cap : 64;
        to->gates = qr_xreallocarray(to->gates, to->cap, sizeof *to->gates);
    }
    to->gates[to->n++] = *g;
}

void qr_gate_list_fini(struct qr_gate_list *l) {
    free(l->gates);
    *l = (struct qr_gate_list){0};
}

struct qr_gate qr_gate_on(const struct qr_gate_use *use, enum qr_gate_kind kind, unsigned at,
                          double exponent) {
    return (struct qr_gate){.kind = kind,
                            .n_targets = 1,
                            .n_args = qr_gate_info(kind)->n_args,
                            .targets = {use->qubits[at]},
                            .args = {{QR_ARG_CONSTANT, exponent, 0}},
                            .controls = use->controls,
                            .control_values = use->control_values};
}

void qr_gate_control(struct qr_gate *g, unsigned qubit, bool value) {
    qr_qubits_add(&g->controls, qubit);
    if (value) qr_qubits_add(&g->control_values, qubit);
}
