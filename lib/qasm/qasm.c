/* qasm/qasm.c — reads a text: tokens, execution, then the circuit and its read-outs. Start reading
 * at qr_qasm_read(). */
#include "qasm/qasm.h"

#include <string.h>

#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "qasm/qasm_impl.h"

/* ---- columns ---- */

static enum qr_code fail_unknown_input(const struct qasm_reader *r, size_t i) {
    struct qr_buf known = {0};
    for (size_t k = 0; k < i; k++)
        if (strcmp(r->inputs[k], r->inputs[i]) == 0)
            return qr_fail(r->err, QR_INVALID_ARGUMENT,
                           "the input '%.64s' is named twice; name it once", r->inputs[i]);
    for (uint32_t k = 0; k < r->n_leaves && known.n < 200; k++)
        if (r->leaves[k][0] != 'x' || r->leaves[k][1] != '[')
            qr_buf_printf(&known, "%s%s", known.n ? ", " : "", r->leaves[k]);
    enum qr_code code = qr_fail(r->err, QR_INVALID_ARGUMENT,
                                "the text has no free symbol '%.64s' for an input; it has %s%s",
                                r->inputs[i], known.n ? "" : "none", qr_buf_string(&known));
    qr_buf_free(&known);
    return code;
}

static void number_column(const uint32_t *first, uint32_t *column) {
    *column = first[*column / QASM_INPUT_ELEMENTS] + *column % QASM_INPUT_ELEMENTS;
}

/* Gives the inputs their columns, in the caller's order. */
static enum qr_code number_columns(struct qasm_reader *r) {
    struct qr_gate_reader *g = &r->gates;
    uint32_t n = 0;
    if (!r->n_inputs) return QR_OK;
    qr_auto(qr_free_p) uint32_t *first = qr_xcalloc(r->n_inputs + 1, sizeof *first);
    for (size_t i = 0; i < r->n_inputs; i++) {
        if (!r->input_sizes[i]) return fail_unknown_input(r, i);
        first[i] = n;
        n += r->input_sizes[i];
    }
    for (size_t i = 0; i < g->list.n; i++)
        for (unsigned k = 0; k < g->list.gates[i].n_args; k++)
            if (g->list.gates[i].args[k].kind == QR_ARG_DATA)
                number_column(first, &g->list.gates[i].args[k].index);
    for (size_t i = 0; i < g->n_expressions; i++)
        for (unsigned k = 0; k < g->expressions[i].n; k++)
            if (g->expressions[i].node[k].op == QR_EXPRESSION_INPUT)
                number_column(first, &g->expressions[i].node[k].index);
    g->n_columns = n;
    return QR_OK;
}

/* ---- reading ---- */

/* Those at the end are read-outs. */
static void drop_measurements(struct qr_gate_reader *g) {
    size_t n = 0;
    for (size_t i = 0; i < g->list.n; i++) {
        const struct qr_gate *gate = &g->list.gates[i];
        if (gate->kind == QR_GATE_CHANNEL && g->channels[gate->channel].info->measures) continue;
        if (n != i) g->list.gates[n] = *gate;
        n++;
    }
    g->list.n = n;
}

static enum qr_code build_circuit(struct qasm_reader *r, struct qr_program *ret) {
    if (!r->n_qubits) return qasm_fail(r, r->at, "the text has no qubits; declare some");
    QR_TRY(number_columns(r));
    if (!r->dynamic) drop_measurements(&r->gates);
    if (!r->gates.list.n) { /* a circuit has at least one gate */
        struct qr_gate g = {.kind = QR_GATE_I, .n_targets = 1};
        qr_gate_list_add(&r->gates.list, &g);
    }
    r->gates.n_qubits = r->n_qubits;
    return qr_circuit_build(&r->gates, "the text", &ret->circuit);
}

static void take_readouts(struct qasm_reader *r, struct qr_program *ret) {
    ret->readouts = qr_xcalloc(r->n_measured + r->n_readouts + 1, sizeof *ret->readouts);
    for (size_t i = 0; i < r->n_measured; i++) {
        unsigned q = r->measured_order[i];
        if (!qr_qubits_has(&r->measured, q)) continue; /* a gate followed */
        qr_qubits_remove(&r->measured, q);
        ret->readouts[ret->n_readouts++] = qr_xasprintf("Z%u", q);
    }
    for (size_t i = 0; i < r->n_readouts; i++) ret->readouts[ret->n_readouts++] = r->readouts[i];
    r->n_readouts = 0;
}

static enum qr_code read_text(struct qasm_reader *r, struct qr_program *ret) {
    QR_TRY(qasm_tokens_begin(r));
    QR_TRY(qasm_program(r));
    QR_TRY(build_circuit(r, ret));
    take_readouts(r, ret);
    return QR_OK;
}

enum qr_code qr_qasm_read(struct qr_bytes text, const struct qr_program_options *options,
                          struct qr_program *ret, struct qr_buf *excerpt, struct qr_err *err) {
    struct qr_program q = {0};
    size_t n_inputs = options->n_inputs;
    if (n_inputs > QASM_INPUT_ELEMENTS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%zu inputs are named, more than %d; use an array",
                       n_inputs, QASM_INPUT_ELEMENTS);
    struct qasm_reader *r = qr_xcalloc(1, sizeof *r);
    r->text = text;
    r->inputs = options->inputs;
    r->max_steps = options->max_steps ? options->max_steps : QR_QASM_STEPS;
    r->max_gates = options->max_gates ? options->max_gates : QR_PROGRAM_GATES;
    r->n_inputs = n_inputs;
    r->input_sizes = qr_xcalloc(n_inputs + 1, sizeof *r->input_sizes);
    r->excerpt = excerpt;
    r->err = r->gates.err = err;
    enum qr_code code = read_text(r, &q);
    qasm_reader_fini(r);
    free(r);
    if (code == QR_OK) *ret = q;
    else qr_program_fini(&q);
    return code;
}

bool qr_qasm_reserved(const char *name) {
    static const char *const words[] = {
#define WORD(word) #word,
        QASM_KEYWORDS(WORD)
#undef WORD
            "gphase",
        "tau",
        "euler",
        "π",
        "τ",
        "ℇ",
        "ln",
        "arcsin",
        "arccos",
        "arctan",
        "ceiling",
        "floor",
        "mod",
        "popcount"};
    bool reserved = qasm_stdgates_has(name, strlen(name)) || !qr_expression_is_name(name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) reserved |= !strcmp(words[i], name);
    return reserved;
}
