/* tests/same_circuit.h — compares two circuits field by field. */
#ifndef TESTS_SAME_CIRCUIT_H
#define TESTS_SAME_CIRCUIT_H

#include <string.h>

#include "circuit/circuit.h"

static inline bool same_gate(const struct qr_gate *a, const struct qr_gate *b) {
    bool same = a->kind == b->kind && a->n_targets == b->n_targets && a->n_args == b->n_args &&
                memcmp(a->targets, b->targets, a->n_targets * sizeof *a->targets) == 0 &&
                qr_bits_of_double(a->global_shift) == qr_bits_of_double(b->global_shift) &&
                qr_qubits_equal(&a->controls, &b->controls) &&
                qr_qubits_equal(&a->control_values, &b->control_values);
    for (unsigned k = 0; k < a->n_args && same; k++)
        same = a->args[k].kind == b->args[k].kind && a->args[k].scale == b->args[k].scale &&
               (a->args[k].kind == QR_ARG_CONSTANT || a->args[k].index == b->args[k].index);
    return same;
}

static inline bool same_circuit(const struct qr_circuit *a, const struct qr_circuit *b) {
    bool same = a->n_qubits == b->n_qubits && a->n_columns == b->n_columns &&
                a->n_gates == b->n_gates && a->n_params == b->n_params &&
                a->n_expressions == b->n_expressions;
    for (size_t i = 0; same && i < a->n_gates; i++) {
        const struct qr_gate *x = &a->gates[i], *y = &b->gates[i];
        const struct qr_condition *on = x->condition ? &a->conditions.list[x->condition - 1] : NULL,
                                  *also =
                                      y->condition ? &b->conditions.list[y->condition - 1] : NULL;
        same = same_gate(x, y) && x->bit == y->bit && !on == !also &&
               (!on || memcmp(on, also, sizeof *on) == 0) &&
               (x->kind != QR_GATE_CHANNEL ||
                qr_channel_equal(&a->channels[x->channel], &b->channels[y->channel]));
    }
    for (size_t i = 0; same && i < a->n_params; i++)
        same = strcmp(a->param_names[i], b->param_names[i]) == 0;
    for (size_t i = 0; same && i < a->n_expressions; i++)
        same = qr_expression_equal(&a->expressions[i], &b->expressions[i]);
    return same;
}

#endif
