/* circuit/circuit_write.c — a circuit as the object of a job file that reads back as the same
 * circuit. Start reading at qr_circuit_put_json(). */
#include <math.h>
#include <string.h>

#include "base/parse.h"
#include "circuit/circuit_json.h"

/* The value of an argument with another scale: a number, the text of an expression, or an object
 * for a parameter whose name no expression can have. */
static void put_argument(struct qr_json_writer *w, const struct qr_circuit *c,
                         const struct qr_gate_arg *arg, double scale) {
    struct qr_expression_node leaf = {.op = arg->kind == QR_ARG_DATA ? QR_EXPRESSION_INPUT
                                                                     : QR_EXPRESSION_PARAMETER,
                                      .index = arg->index};
    const struct qr_expression one = {.n = 1, .node = &leaf}, *e = arg->kind == QR_ARG_EXPRESSION
                                                                       ? &c->expressions[arg->index]
                                                                       : &one;
    struct qr_buf text = {0};
    if (arg->kind == QR_ARG_CONSTANT) {
        qr_json_put_number(w, scale);
        return;
    }
    if (arg->kind == QR_ARG_PARAMETER && !qr_expression_is_name(c->param_names[arg->index])) {
        qr_json_open(w, '{');
        qr_json_key_string(w, "parameter", c->param_names[arg->index]);
        if (scale != 1) qr_json_key_number(w, "scale", scale);
        qr_json_close(w, '}');
        return;
    }
    qr_expression_print(e, scale, &(struct qr_expression_style){.parameters = c->param_names},
                        &text);
    qr_json_put_string(w, qr_buf_string(&text));
    qr_buf_free(&text);
}

bool qr_gate_angle_of(double exponent, double *ret) {
    uint64_t bits = qr_bits_of_double(exponent * M_PI);
    double candidates[] = {qr_double_of_bits(bits), qr_double_of_bits(bits + 1),
                           qr_double_of_bits(bits - 1)};
    size_t best = 32;
    for (size_t i = 0; i < 3; i++) {
        char text[32];
        if (!isfinite(candidates[i]) || candidates[i] / M_PI != exponent) continue;
        qr_number_text(candidates[i], text);
        if (strlen(text) >= best) continue;
        best = strlen(text);
        *ret = candidates[i];
        if (best <= 16) break; /* with 15 digits; those beside it have more */
    }
    return best < 32;
}

static void put_qubits(struct qr_json_writer *w, const char *key, const struct qr_qubits *list,
                       const struct qr_qubits *values) {
    qr_json_key_open(w, key, '[');
    for (unsigned q = qr_qubits_first(list); q < QR_MAX_QUBITS; q = qr_qubits_next(list, q))
        qr_json_put_i64(w, values ? qr_qubits_has(values, q) : q);
    qr_json_close(w, ']');
}

static void put_targets(struct qr_json_writer *w, const struct qr_gate *g, const char *key) {
    qr_json_key_open(w, key, '[');
    for (unsigned k = 0; k < g->n_targets; k++) qr_json_put_i64(w, g->targets[k]);
    qr_json_close(w, ']');
}

static void put_operators(struct qr_json_writer *w, const struct qr_channel *c) {
    unsigned dim = 1u << c->info->n_targets;
    const double complex *v = c->kraus;
    qr_json_key_open(w, "operators", '[');
    for (unsigned k = 0; k < c->n_kraus; k++) {
        qr_json_open(w, '[');
        for (unsigned i = 0; i < dim; i++) {
            qr_json_open(w, '[');
            for (unsigned j = 0; j < dim; j++, v++) {
                qr_json_open(w, '[');
                qr_json_put_number(w, creal(*v));
                qr_json_put_number(w, cimag(*v));
                qr_json_close(w, ']');
            }
            qr_json_close(w, ']');
        }
        qr_json_close(w, ']');
    }
    qr_json_close(w, ']');
}

static void put_channel(struct qr_json_writer *w, const struct qr_circuit *c,
                        const struct qr_gate *g) {
    const struct qr_channel *n = &c->channels[g->channel];
    const double(*errors)[2] = c->readout_errors; /* the default of a measurement's */
    unsigned indent = w->indent;
    qr_json_open(w, '{');
    w->indent = 0;
    if (!n->info->measures) qr_json_key_string(w, "channel", n->info->names[0]);
    put_targets(w, g, n->info->measures ? "measure" : "qubits");
    if (n->info->measures) {
        qr_json_key_open(w, "bits", '[');
        if (g->bit) qr_json_put_i64(w, g->bit - 1);
        qr_json_close(w, ']');
    }
    for (unsigned k = 0; k < n->info->n_args; k++) {
        bool zero = n->args[k].kind == QR_ARG_CONSTANT && n->args[k].scale == 0;
        if (n->info->measures && zero && !(errors && errors[g->targets[0]][k] != 0)) continue;
        qr_json_put_key(w, n->info->arg_names[k]);
        put_argument(w, c, &n->args[k], n->args[k].scale);
    }
    if (n->info->kraus) put_operators(w, n);
    qr_json_close(w, '}');
    w->indent = indent;
}

static void put_gate(struct qr_json_writer *w, const struct qr_circuit *c,
                     const struct qr_gate *g) {
    if (g->kind == QR_GATE_CHANNEL) {
        put_channel(w, c, g);
        return;
    }
    const struct qr_gate_info *info = qr_gate_info(g->kind);
    double angle = 0;
    bool rotation =
        info->rotation && g->global_shift == -0.5 && qr_gate_angle_of(g->args[0].scale, &angle);
    unsigned indent = w->indent;
    qr_json_open(w, '{');
    w->indent = 0; /* one gate on each line */
    qr_json_key_string(w, "gate", rotation ? info->rotation : info->name);
    put_targets(w, g, "qubits");
    for (unsigned k = 0; k < g->n_args && !rotation; k++) {
        const struct qr_gate_arg *a = &g->args[k];
        bool last = info->has_exponent && k + 1u == g->n_args;
        if (last && a->kind == QR_ARG_CONSTANT && a->scale == 1) continue; /* the default */
        qr_json_put_key(w, info->arg_names[k]);
        put_argument(w, c, a, a->scale);
    }
    if (rotation) {
        qr_json_put_key(w, "angle");
        put_argument(w, c, &g->args[0], angle);
    } else if (g->global_shift != 0) {
        qr_json_key_number(w, "global_shift", g->global_shift);
    }
    if (!qr_qubits_is_empty(&g->controls)) {
        put_qubits(w, "controls", &g->controls, NULL);
        if (!qr_qubits_equal(&g->controls, &g->control_values))
            put_qubits(w, "control_values", &g->controls, &g->control_values);
    }
    qr_json_close(w, '}');
    w->indent = indent;
}

static void open_condition(struct qr_json_writer *w, const struct qr_condition *condition) {
    unsigned indent = w->indent;
    qr_json_open(w, '{');
    w->indent = 0; /* one line before the gates */
    put_qubits(w, "if", &condition->bits, NULL);
    if (!qr_qubits_equal(&condition->bits, &condition->values))
        put_qubits(w, "if_values", &condition->bits, &condition->values);
    w->indent = indent;
    qr_json_key_open(w, "gates", '[');
}

static void put_readout_errors(struct qr_json_writer *w, const struct qr_circuit *c) {
    qr_json_key_open(w, "noise", '{');
    qr_json_key_open(w, "readout", '[');
    for (unsigned q = 0; q < c->n_qubits; q++) {
        qr_json_open(w, '{');
        qr_json_key_open(w, "qubits", '[');
        qr_json_put_i64(w, q);
        qr_json_close(w, ']');
        qr_json_key_number(w, "p_01", c->readout_errors[q][0]);
        qr_json_key_number(w, "p_10", c->readout_errors[q][1]);
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
    qr_json_close(w, '}');
}

void qr_circuit_put_json(const struct qr_circuit *c, struct qr_json_writer *w) {
    qr_json_open(w, '{');
    qr_json_key_i64(w, "qubits", c->n_qubits);
    if (c->n_columns) qr_json_key_i64(w, "columns", c->n_columns);
    qr_json_key_open(w, "gates", '[');
    for (size_t i = 0; i < c->n_gates; i++) {
        uint32_t condition = c->gates[i].condition;
        if (condition && (!i || c->gates[i - 1].condition != condition))
            open_condition(w, &c->conditions.list[condition - 1]);
        put_gate(w, c, &c->gates[i]);
        if (!condition || (i + 1 < c->n_gates && c->gates[i + 1].condition == condition)) continue;
        qr_json_close(w, ']');
        qr_json_close(w, '}');
    }
    qr_json_close(w, ']');
    if (c->readout_errors) put_readout_errors(w, c);
    qr_json_close(w, '}');
}
