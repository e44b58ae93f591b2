/* export/qasm3.c — OpenQASM 3: inputs, definitions of the gates that stdgates.inc lacks, gates with
 * modifiers, measurements. Start reading at export_qasm3(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/basic_gates.h"
#include "export/export_impl.h"
#include "export/qasm_names.h"

/* ---- gates ---- */

/* Name; with one control that must be 1, and with two; NULL: none in stdgates.inc. */
static const struct {
    const char *name[3], *definition;
} words[QR_BASIC_KINDS] = {
    [QR_BASIC_I] = {{"id"}, NULL},
    [QR_BASIC_X] = {{"x", "cx", "ccx"}, NULL},
    [QR_BASIC_Y] = {{"y", "cy"}, NULL},
    [QR_BASIC_H] = {{"h", "ch"}, NULL},
    [QR_BASIC_SWAP] = {{"swap", "cswap"}, NULL},
    [QR_BASIC_P] = {{"p", "cp"}, NULL},
    [QR_BASIC_RX] = {{"rx", "crx"}, NULL},
    [QR_BASIC_RY] = {{"ry", "cry"}, NULL},
    [QR_BASIC_RZ] = {{"rz", "crz"}, NULL},
    [QR_BASIC_RXX] = {{"rxx"}, "h a; h b; cx a, b; rz(t) b; cx a, b; h a; h b;"},
    [QR_BASIC_RYY] = {{"ryy"},
                      "rx(pi/2) a; rx(pi/2) b; cx a, b; rz(t) b; cx a, b; rx(-pi/2) a; rx(-pi/2) "
                      "b;"},
    [QR_BASIC_RZZ] = {{"rzz"}, "cx a, b; rz(t) b; cx a, b;"},
};
/* P by constants. */
static const struct {
    double half_turns;
    const char *name[2];
} phases[] = {{1, {"z", "cz"}}, {0.5, {"s"}}, {-0.5, {"sdg"}}, {0.25, {"t"}}, {-0.25, {"tdg"}}};

static const char *const functions[QR_EXPRESSION_OPS] = {
    [QR_EXPRESSION_POW] = "**",      [QR_EXPRESSION_ATAN2] = "atan2",
    [QR_EXPRESSION_HYPOT] = "hypot", [QR_EXPRESSION_SIN] = "sin",
    [QR_EXPRESSION_COS] = "cos",     [QR_EXPRESSION_TAN] = "tan",
    [QR_EXPRESSION_ASIN] = "arcsin", [QR_EXPRESSION_ACOS] = "arccos",
    [QR_EXPRESSION_ATAN] = "arctan", [QR_EXPRESSION_SQRT] = "sqrt",
    [QR_EXPRESSION_EXP] = "exp",     [QR_EXPRESSION_LOG] = "log",
    [QR_EXPRESSION_ABS] = "abs"};

struct qasm3_writer {
    const struct qr_circuit *circuit;
    struct qr_expression_style style;
    const char *qubits, *bits;
    bool used[QR_BASIC_KINDS];
    struct qr_buf gates;
    struct qr_err *err;
};

/* "ctrl(2) @ negctrl @ " and the qubits in their order; returns the name of the gate. */
static const char *put_modifiers(struct qasm3_writer *w, const struct qr_basic_gate *b,
                                 const char *const *name, size_t n_names, struct qr_buf *operands) {
    unsigned n[2] = {0, 0};
    for (int one = 1; one >= 0; one--)
        for (unsigned q = qr_qubits_first(&b->controls); q < QR_MAX_QUBITS;
             q = qr_qubits_next(&b->controls, q)) {
            if (qr_qubits_has(&b->control_values, q) != one) continue;
            qr_buf_printf(operands, "%s[%u], ", w->qubits, q);
            n[one]++;
        }
    if (!n[0] && n[1] < n_names && name[n[1]]) return name[n[1]];
    for (int one = 1; one >= 0; one--) {
        if (n[one]) qr_buf_puts(&w->gates, one ? "ctrl" : "negctrl");
        if (n[one] > 1) qr_buf_printf(&w->gates, "(%u)", n[one]);
        if (n[one]) qr_buf_puts(&w->gates, " @ ");
    }
    return name[0];
}

static void put_basic(void *context, const struct qr_basic_gate *b) {
    struct qasm3_writer *w = context;
    struct qr_buf operands = {0};
    const char *const *name = words[b->kind].name;
    size_t n_names = 3;
    bool angle = b->n_angles;
    for (size_t i = 0; b->kind == QR_BASIC_P && i < sizeof phases / sizeof *phases; i++)
        if (b->angle.kind == QR_ARG_CONSTANT && b->angle.scale == phases[i].half_turns) {
            name = phases[i].name;
            n_names = 2;
            angle = false;
        }
    qr_buf_puts(&w->gates, put_modifiers(w, b, name, n_names, &operands));
    if (angle) {
        qr_buf_puts(&w->gates, "(");
        export_angle(w->circuit, &w->style, &b->angle, &w->gates);
        qr_buf_puts(&w->gates, ")");
    }
    qr_buf_printf(&w->gates, " %s%s[%u]", qr_buf_string(&operands), w->qubits, b->targets[0]);
    if (b->n_targets == 2) qr_buf_printf(&w->gates, ", %s[%u]", w->qubits, b->targets[1]);
    qr_buf_puts(&w->gates, ";\n");
    w->used[b->kind] = true;
    qr_buf_free(&operands);
}

/* ---- measurements ---- */

static enum qr_code put_measurement(struct qasm3_writer *w, const struct qr_gate *g) {
    if (!qr_channel_reads_exactly(&w->circuit->channels[g->channel]))
        return qr_fail(w->err, QR_UNIMPLEMENTED,
                       "OpenQASM has no measurements with errors; remove p_01 and p_10");
    if (g->bit) qr_buf_printf(&w->gates, "%s[%u] = ", w->bits, g->bit - 1u);
    qr_buf_printf(&w->gates, "measure %s[%u];\n", w->qubits, g->targets[0]);
    return QR_OK;
}

/* if (c[0] && !c[1]) { */
static void open_condition(struct qasm3_writer *w, const struct qr_condition *condition) {
    const struct qr_qubits *bits = &condition->bits;
    for (unsigned b = qr_qubits_first(bits); b < QR_MAX_QUBITS; b = qr_qubits_next(bits, b))
        qr_buf_printf(&w->gates, "%s%s%s[%u]", b == qr_qubits_first(bits) ? "if (" : " && ",
                      qr_qubits_has(&condition->values, b) ? "" : "!", w->bits, b);
    qr_buf_puts(&w->gates, ") {\n");
}

/* ---- noise ---- */

/* A reset, or a pragma of Braket's; Kraus operators for channels that have no name there. */
static enum qr_code put_noise_pragma(struct qasm3_writer *w, const struct qr_gate *g) {
    const struct qr_channel *c = &w->circuit->channels[g->channel];
    const struct qr_channel_info *info = c->info;
    double complex kraus[QR_CHANNEL_KRAUS * 16];
    bool reset = strcmp(info->names[0], "Reset") == 0, named = info->braket && !info->kraus;
    unsigned n_kraus = 0;
    if (!reset && !named)
        QR_TRY(export_channel_operators(c, "Braket's OpenQASM", kraus, &n_kraus, w->err));
    if (reset) qr_buf_puts(&w->gates, "reset");
    else qr_buf_printf(&w->gates, "#pragma braket noise %s(", named ? info->braket : "kraus");
    for (unsigned i = 0; i < info->n_args && named; i++) {
        qr_buf_puts(&w->gates, i ? ", " : "");
        export_strength(w->circuit, &w->style, &c->args[qr_channel_arg_at(info, i)], &w->gates);
    }
    for (unsigned k = 0; k < n_kraus; k++) {
        qr_buf_puts(&w->gates, k ? ", " : "");
        export_matrix(kraus + (size_t)k * 16, 1u << info->n_targets, "im", &w->gates);
    }
    qr_buf_printf(&w->gates, "%s %s[%u]", reset ? "" : ")", w->qubits, g->targets[0]);
    if (g->n_targets == 2) qr_buf_printf(&w->gates, ", %s[%u]", w->qubits, g->targets[1]);
    qr_buf_puts(&w->gates, reset ? ";\n" : "\n");
    return QR_OK;
}

/* ---- the text ---- */

static void put_definitions(const struct qasm3_writer *w, struct qr_buf *to) {
    for (int k = 0; k < QR_BASIC_KINDS; k++)
        if (w->used[k] && words[k].definition)
            qr_buf_printf(to, "gate %s(t) a, b { %s }\n", words[k].name[0], words[k].definition);
}

enum qr_code export_qasm3(const struct qr_export *what, struct qr_buf *to, struct qr_err *err) {
    const struct qr_circuit *c = what->circuit;
    struct export_qasm_names names = export_qasm_names(c);
    struct qasm3_writer w = {.circuit = c, .qubits = names.qubits, .bits = names.bits, .err = err};
    w.style = (struct qr_expression_style){.parameters = names.params,
                                           .columns = names.columns,
                                           .functions = functions,
                                           .shared = names.shared};
    enum qr_code code = QR_OK;
    for (size_t i = 0; i < c->n_gates && code == QR_OK; i++) {
        const struct qr_gate *g = &c->gates[i];
        if (g->condition && (!i || g[-1].condition != g->condition))
            open_condition(&w, &c->conditions.list[g->condition - 1]);
        if (g->kind != QR_GATE_CHANNEL) qr_gate_lower(g, put_basic, &w);
        else
            code = c->channels[g->channel].info->measures ? put_measurement(&w, g)
                                                          : put_noise_pragma(&w, g);
        if (g->condition && (i + 1 == c->n_gates || g[1].condition != g->condition))
            qr_buf_puts(&w.gates, "}\n");
    }
    qr_buf_puts(to, "OPENQASM 3.0;\ninclude \"stdgates.inc\";\n");
    export_qasm_comment(what, to);
    put_definitions(&w, to);
    qr_buf_puts(to, qr_buf_string(&names.declarations));
    qr_buf_printf(to, "qubit[%u] %s;\n", c->n_qubits, names.qubits);
    size_t n_bits = export_qasm_bits(what);
    if (n_bits + c->n_bits) qr_buf_printf(to, "bit[%zu] %s;\n", n_bits + c->n_bits, names.bits);
    export_shared(c, &w.style, "float[64] ", ";\n", to);
    qr_buf_put(to, w.gates.p, w.gates.n);
    for (size_t i = 0; i < n_bits; i++)
        qr_buf_printf(to, "%s[%zu] = measure %s[%u];\n", names.bits, c->n_bits + i, names.qubits,
                      qr_qubits_first(&what->readouts[i].terms[0].z));
    to->overflow |= w.gates.overflow;
    qr_buf_free(&w.gates);
    export_qasm_names_fini(&names);
    return code;
}
