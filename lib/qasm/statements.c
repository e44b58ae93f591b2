/* qasm/statements.c — executes statements: includes, measurements, control flow. Start reading at
 * qasm_program(). */
#include <string.h>

#include "base/mem.h"
#include "qasm/qasm_impl.h"

/* ---- skipping ---- */

/* Past the bracket that closes the one at the token. */
static void skip_brackets(struct qasm_reader *r) {
    unsigned depth = 0;
    do {
        depth += qasm_is(r, '(') || qasm_is(r, '[');
        depth -= qasm_is(r, ')') || qasm_is(r, ']');
        if (qasm_is(r, '{')) r->at = qasm_here(r)->value;
        qasm_next(r);
    } while (depth && !qasm_is(r, QASM_END));
}

/* Past a statement that is not executed. */
static enum qr_code skip_statement(struct qasm_reader *r) {
    QR_TRY(qasm_enter(r, r->at));
    bool branch = qasm_is_key(r, QASM_KEY_if);
    if (branch || qasm_is_key(r, QASM_KEY_while)) {
        qasm_next(r);
        skip_brackets(r);
        QR_TRY(skip_statement(r));
        if (branch && qasm_is_key(r, QASM_KEY_else)) {
            qasm_next(r);
            QR_TRY(skip_statement(r));
        }
    } else if (qasm_is_key(r, QASM_KEY_for)) {
        while (!qasm_is_key(r, QASM_KEY_in) && !qasm_is(r, QASM_END)) qasm_next(r);
        qasm_next(r);
        skip_brackets(r);
        QR_TRY(skip_statement(r));
    } else if (qasm_is(r, '{')) {
        r->at = qasm_here(r)->value + 1;
    } else {
        while (!qasm_is(r, ';') && !qasm_is(r, QASM_END)) {
            bool block = qasm_is(r, '{');
            if (block) r->at = qasm_here(r)->value;
            qasm_next(r);
            if (block && !qasm_is(r, ';') && !qasm_is(r, ',')) break;
        }
        qasm_skip(r, ';');
    }
    r->depth--;
    return QR_OK;
}

/* ---- blocks ---- */

enum qr_code qasm_block(struct qasm_reader *r) {
    uint32_t token = r->at;
    QR_TRY(qasm_expect(r, '{', "'{'"));
    uint32_t end = r->tokens[token].value;
    struct qasm_scope scope = qasm_scope_open(r);
    while (r->at < end && r->flow == QASM_ON) QR_TRY(qasm_statement(r));
    if (r->at > end) return qasm_fail(r, end, "unexpected '}'; expected the end of a statement");
    qasm_scope_close(r, &scope);
    r->at = end + 1;
    r->steps++;
    return QR_OK;
}

/* A block, or one statement. */
static enum qr_code run_body(struct qasm_reader *r) {
    QR_TRY(qasm_enter(r, r->at));
    if (qasm_is(r, ';')) return qasm_fail(r, r->at, "a statement is missing; write one or { }");
    if (qasm_is(r, '{')) {
        QR_TRY(qasm_block(r));
    } else {
        struct qasm_scope scope = qasm_scope_open(r);
        QR_TRY(qasm_statement(r));
        qasm_scope_close(r, &scope);
    }
    r->depth--;
    return QR_OK;
}

/* Jumps past the body after break, continue and return; true: the loop ends. */
static bool loop_ends(struct qasm_reader *r) {
    if (r->flow == QASM_CONTINUE) r->flow = QASM_ON;
    if (r->flow != QASM_BREAK) return r->flow != QASM_ON;
    r->flow = QASM_ON;
    return true;
}

/* ---- control flow ---- */

static enum qr_code read_condition(struct qasm_reader *r, bool *ret) {
    struct qasm_value v;
    QR_TRY(qasm_expect(r, '(', "'(' and a condition"));
    uint32_t token = r->at;
    if (!qasm_compare_register(r, &v)) QR_TRY(qasm_expression(r, &v));
    QR_TRY(qasm_truth(r, token, v, ret));
    return qasm_expect(r, ')', "')' after the condition");
}

static enum qr_code run_if(struct qasm_reader *r) {
    bool truth;
    qasm_next(r);
    QR_TRY(read_condition(r, &truth));
    uint32_t body = r->at;
    QR_TRY(skip_statement(r));
    uint32_t end = r->at, other = end;
    if (qasm_is_key(r, QASM_KEY_else)) {
        qasm_next(r);
        other = r->at;
        QR_TRY(skip_statement(r));
        end = r->at;
    }
    r->at = truth ? body : other;
    if (truth || other != end) QR_TRY(run_body(r));
    r->at = end;
    return QR_OK;
}

/* for type name in [0 : 3] body; in a set; in the bits of a register or the elements of an array */
static enum qr_code run_for(struct qasm_reader *r) {
    enum qasm_type type = QASM_INT;
    unsigned width = 0;
    uint32_t name, first, n;
    bool one, cells = false;
    qasm_next(r);
    QR_TRY(qasm_type(r, &type, &width));
    uint32_t token = r->at;
    QR_TRY(qasm_expect_name(r, "the name of the loop's variable", &name));
    if (!qasm_is_key(r, QASM_KEY_in)) return qasm_fail(r, r->at, "expected 'in' and a range");
    qasm_next(r);
    bool range = qasm_skip(r, '[');
    if (range || qasm_is(r, '{')) {
        QR_TRY(qasm_range(r, 0, &first, &n, &one));
        if (range) QR_TRY(qasm_expect(r, ']', "']' after the range"));
    } else {
        struct qasm_selection s;
        uint32_t at = r->at;
        QR_TRY(qasm_select(r, &s));
        if (s.qubits || s.n_dims != 1)
            return qasm_fail(
                r, at, "a loop goes over integers or an array of one dimension; index the array");
        first = s.first, n = s.n, cells = true;
    }
    uint32_t body = r->at;
    QR_TRY(skip_statement(r));
    uint32_t end = r->at;
    for (uint32_t i = 0; i < n; i++) {
        struct qasm_scope scope = qasm_scope_open(r);
        struct qasm_value v =
            cells ? r->cells[r->pool[first + i]] : qasm_whole((int32_t)r->pool[first + i]);
        QR_TRY(qasm_declare_value(r, token, type, width, v));
        r->at = body;
        QR_TRY(run_body(r));
        qasm_scope_close(r, &scope);
        r->steps++;
        QR_TRY(qasm_bounded(r, token));
        if (loop_ends(r)) break;
    }
    r->at = end;
    return QR_OK;
}

static enum qr_code run_while(struct qasm_reader *r) {
    uint32_t condition = ++r->at;
    for (;;) {
        bool truth;
        r->at = condition;
        QR_TRY(read_condition(r, &truth));
        uint32_t body = r->at;
        if (truth) QR_TRY(run_body(r));
        QR_TRY(qasm_bounded(r, condition));
        if (!truth || loop_ends(r)) {
            r->at = body;
            return skip_statement(r);
        }
    }
}

/* switch (value) { case 1, 2 { } default { } } */
static enum qr_code run_switch(struct qasm_reader *r) {
    struct qasm_value v;
    int64_t value, label;
    qasm_next(r);
    QR_TRY(qasm_expect(r, '(', "'(' and an integer"));
    uint32_t token = r->at, body = 0;
    QR_TRY(qasm_expression(r, &v));
    QR_TRY(qasm_integer(r, token, v, "the value of the switch", INT64_MIN, INT64_MAX, &value));
    QR_TRY(qasm_expect(r, ')', "')'"));
    QR_TRY(qasm_expect(r, '{', "'{' and the cases"));
    while (!qasm_is(r, '}')) {
        bool otherwise = qasm_is_key(r, QASM_KEY_default), taken = otherwise && !body;
        if (!otherwise && !qasm_is_key(r, QASM_KEY_case))
            return qasm_fail(r, r->at, "expected case or default");
        qasm_next(r);
        if (!otherwise) do {
                uint32_t at = r->at;
                QR_TRY(qasm_expression(r, &v));
                QR_TRY(qasm_integer(r, at, v, "the case", INT64_MIN, INT64_MAX, &label));
                taken |= label == value && !body;
            } while (qasm_skip(r, ',') && !qasm_is(r, '{'));
        if (!qasm_is(r, '{')) return qasm_expect(r, '{', "'{' and the statements of the case");
        if (taken) body = r->at;
        QR_TRY(skip_statement(r));
    }
    uint32_t end = r->at + 1;
    if (body) {
        r->at = body;
        QR_TRY(run_body(r));
    }
    r->at = end;
    return QR_OK;
}

static enum qr_code run_return(struct qasm_reader *r) {
    qasm_next(r);
    r->returned = qasm_whole(0);
    if (qasm_is_key(r, QASM_KEY_measure)) {
        struct qasm_selection q, c = {.n = 1};
        uint32_t token = r->at;
        QR_TRY(qasm_measure(r, &q));
        c.first = qasm_pool_add(r, q.n);
        c.n = q.n;
        for (uint32_t i = 0; i < q.n; i++) r->pool[c.first + i] = qasm_cells_add(r, 1);
        QR_TRY(qasm_measure_into(r, token, &q, &c));
        if (q.n) r->returned = r->cells[r->pool[c.first]];
        r->returned.derived |= q.n != 1;
        qasm_copy_bits(r, &c);
    } else if (!qasm_is(r, ';')) {
        struct qasm_value v; /* Calls in the expression set r->returned. */
        struct qasm_selection bits;
        uint32_t token = r->at;
        bool is_register = qasm_register(r, &bits);
        QR_TRY(qasm_expression(r, &v));
        r->returned = v;
        if (is_register) qasm_copy_bits(r, &bits);
        else if (!qasm_returns_bits(r, token)) r->n_returned = 0;
    }
    QR_TRY(qasm_expect(r, ';', "';' after return"));
    r->flow = QASM_RETURN;
    return QR_OK;
}

static enum qr_code run_jump(struct qasm_reader *r, enum qasm_flow flow) {
    qasm_next(r);
    QR_TRY(qasm_expect(r, ';', "';'"));
    r->flow = flow;
    return QR_OK;
}

/* box { ... }: without a duration it orders nothing that is simulated. */
static enum qr_code run_box(struct qasm_reader *r) {
    qasm_next(r);
    if (qasm_is(r, '[')) return qasm_refuse(r, r->at, "qring has no timing; remove the duration");
    QR_TRY(qasm_enter(r, r->at));
    QR_TRY(qasm_block(r));
    r->depth--;
    return QR_OK;
}

/* ---- qubits ---- */

void qasm_touch(struct qasm_reader *r, unsigned qubit) {
    qr_qubits_add(&r->touched, qubit);
    if (!qr_qubits_has(&r->measured, qubit)) return;
    qr_qubits_remove(&r->measured, qubit);
    r->dynamic = true;
}

void qasm_number_bits(struct qasm_reader *r, uint32_t first_cell, uint32_t n) {
    for (uint32_t i = 0; i < n && r->n_bits < QR_MAX_QUBITS; i++)
        r->cell_bits[first_cell + i] = (uint16_t)++r->n_bits;
}

/* Adds a result; returns its value. cell: has the bit, or gets one. */
static enum qr_code add_result(struct qasm_reader *r, uint32_t token, uint32_t cell) {
    if (!r->cell_bits[cell]) qasm_number_bits(r, cell, 1);
    if (!r->cell_bits[cell])
        return qasm_refuse(r, token, "more than %d bits are measured; use fewer", QR_MAX_QUBITS);
    if (r->n_results == r->cap_results) {
        r->cap_results = r->cap_results ? 2 * r->cap_results : 64;
        r->results = qr_xreallocarray(r->results, r->cap_results, sizeof *r->results);
    }
    unsigned bit = r->cell_bits[cell] - 1u;
    r->results[r->n_results] = (struct qasm_result){.bit = (uint16_t)bit, .assumed = -1};
    r->latest[bit] = ++r->n_results;
    r->cells[cell] = (struct qasm_value){.kind = QASM_UNKNOWN, .result = r->n_results};
    return QR_OK;
}

enum qr_code qasm_measure(struct qasm_reader *r, struct qasm_selection *ret) {
    uint32_t token = r->at;
    qasm_next(r);
    if (r->in_gate) return qasm_fail(r, token, "a gate measures no qubits; measure outside");
    return qasm_select_qubits(r, ret);
}

enum qr_code qasm_measure_into(struct qasm_reader *r, uint32_t token,
                               const struct qasm_selection *qubits,
                               const struct qasm_selection *cells) {
    if (r->n_assumed)
        return qasm_refuse(r, token,
                           "whether this is measured depends on a measured bit; measure "
                           "outside of the condition");
    for (uint32_t i = 0; i < qubits->n; i++) {
        uint16_t q = (uint16_t)r->pool[qubits->first + i];
        uint32_t cell = cells ? r->pool[cells->first + i] : 0;
        if (cells) QR_TRY(add_result(r, token, cell));
        if (qr_measurement_append(&r->gates, NULL, q,
                                  cells ? r->cell_bits[cell] - 1u : (unsigned)QR_MAX_QUBITS,
                                  "measure") != QR_OK)
            return qasm_fail(r, token, "%s", r->err->msg);
        if (qr_qubits_has(&r->measured, q)) continue;
        qr_qubits_add(&r->measured, q);
        if (r->n_measured == r->cap_measured) {
            r->cap_measured = r->cap_measured ? 2 * r->cap_measured : 64;
            r->measured_order =
                qr_xreallocarray(r->measured_order, r->cap_measured, sizeof *r->measured_order);
        }
        r->measured_order[r->n_measured++] = q;
    }
    return qasm_bounded(r, token);
}

/* measure q -> c; */
static enum qr_code run_measure(struct qasm_reader *r) {
    struct qasm_selection q, c;
    uint32_t measure = r->at;
    QR_TRY(qasm_measure(r, &q));
    bool into = qasm_skip(r, QASM_ARROW);
    if (into) {
        uint32_t token = r->at;
        QR_TRY(qasm_select(r, &c));
        if (c.qubits || c.type > QASM_BOOL)
            return qasm_fail(r, token, "a measurement gives bits; measure into a bit");
        if (c.n != q.n)
            return qasm_fail(r, token, "%u qubits are measured into %u bits; give the same number",
                             q.n, c.n);
    }
    QR_TRY(qasm_measure_into(r, measure, &q, into ? &c : NULL));
    return qasm_expect(r, ';', "';' after the measurement");
}

/* Qubits begin as 0; after gates a reset is a channel. */
static enum qr_code run_reset(struct qasm_reader *r) {
    struct qasm_selection q;
    uint32_t token = r->at;
    qasm_next(r);
    if (r->in_gate) return qasm_fail(r, token, "a gate resets no qubits; reset outside");
    QR_TRY(qasm_select_qubits(r, &q));
    for (uint32_t i = 0; i < q.n; i++) {
        struct qr_channel reset = {.info = qr_channel_info_of("Reset", 1)};
        uint16_t qubit = (uint16_t)r->pool[q.first + i];
        if (qr_qubits_has(&r->touched, qubit) || qr_qubits_has(&r->measured, qubit))
            QR_TRY(qasm_channel_add(r, token, &reset, &qubit));
    }
    return qasm_expect(r, ';', "';' after the qubits");
}

static enum qr_code run_barrier(struct qasm_reader *r) {
    struct qasm_selection q;
    qasm_next(r);
    while (!qasm_is(r, ';')) {
        QR_TRY(qasm_select_qubits(r, &q));
        if (!qasm_skip(r, ',')) break;
    }
    return qasm_expect(r, ';', "';' after the qubits");
}

/* ---- others ---- */

static enum qr_code run_include(struct qasm_reader *r) {
    static const struct {
        const char *name;
        unsigned set;
    } known[] = {{"qelib1.inc", QASM_QELIB}, {"stdgates.inc", QASM_STDGATES}};
    qasm_next(r);
    const struct qasm_token *t = qasm_here(r);
    uint32_t token = r->at;
    QR_TRY(qasm_expect(r, QASM_STRING, "the name of a file in quotes"));
    QR_TRY(qasm_expect(r, ';', "';' after the include"));
    for (size_t i = 0; i < 2; i++)
        if (strlen(known[i].name) == t->bytes - 2 &&
            memcmp(known[i].name, r->text.p + t->at + 1, t->bytes - 2) == 0) {
            r->sets |= known[i].set;
            return QR_OK;
        }
    return qasm_refuse(r, token,
                       "only qelib1.inc and stdgates.inc can be included; paste the file's text");
}

/* Statements that qring cannot simulate. */
static const char *reason_to_refuse(uint32_t key) {
    switch (key) {
    case QASM_KEY_extern: return "an extern function is not known here; compute its value before";
    case QASM_KEY_delay:
    case QASM_KEY_duration:
    case QASM_KEY_stretch: return "qring has no timing; remove it";
    case QASM_KEY_cal:
    case QASM_KEY_defcal:
    case QASM_KEY_defcalgrammar: return "qring has no pulses; remove the calibration";
    case QASM_KEY_complex: return "qring has no complex variables; use float";
    default: return NULL;
    }
}

/* An expression without an effect. */
enum qr_code qasm_expression_statement(struct qasm_reader *r) {
    struct qasm_value unused;
    QR_TRY(qasm_expression(r, &unused));
    return qasm_expect(r, ';', "';' after the expression");
}

static enum qr_code run_call(struct qasm_reader *r) {
    const struct qasm_symbol *s =
        qasm_is_identifier(r, r->at) ? qasm_find_called(r, qasm_here(r)->value) : NULL;
    struct qasm_value unused;
    unsigned next = r->tokens[r->at + 1].kind;
    if (!s && (next == '=' || next == QASM_ASSIGN || next == '['))
        return qasm_fail(r, r->at, "'%.*s' is not declared; declare it before",
                         QASM_TEXT(r, qasm_here(r)->value));
    if (s && s->kind == QASM_SUBROUTINE) {
        QR_TRY(qasm_subroutine_call(r, s, &unused));
        return qasm_expect(r, ';', "';' after the call");
    }
    return s && s->kind < QASM_GATE ? qasm_assignment(r) : qasm_gate_call(r);
}

static enum qr_code run_statement(struct qasm_reader *r) {
    uint32_t key = qasm_is(r, QASM_NAME) ? qasm_here(r)->value : QASM_N_KEYWORDS;
    const char *reason = reason_to_refuse(key);
    if (reason) return qasm_refuse(r, r->at, "%s", reason);
    if ((key == QASM_KEY_gate || key == QASM_KEY_opaque || key == QASM_KEY_def) &&
        (r->in_gate || r->frame))
        return qasm_fail(r, r->at, "a definition is inside of another; move it outside");
    switch (key) {
    case QASM_KEY_include: return run_include(r);
    case QASM_KEY_gate:
    case QASM_KEY_opaque: return qasm_gate_definition(r);
    case QASM_KEY_def: return qasm_subroutine_definition(r);
    case QASM_KEY_barrier:
    case QASM_KEY_nop: return run_barrier(r);
    case QASM_KEY_measure: return run_measure(r);
    case QASM_KEY_reset: return run_reset(r);
    case QASM_KEY_if: return run_if(r);
    case QASM_KEY_for: return run_for(r);
    case QASM_KEY_while: return run_while(r);
    case QASM_KEY_switch: return run_switch(r);
    case QASM_KEY_box: return run_box(r);
    case QASM_KEY_return: return run_return(r);
    case QASM_KEY_break: return run_jump(r, QASM_BREAK);
    case QASM_KEY_continue: return run_jump(r, QASM_CONTINUE);
    case QASM_KEY_end: return run_jump(r, QASM_STOP);
    }
    if (qasm_is_declaration(r)) return qasm_declaration(r);
    return run_call(r);
}

static enum qr_code run_any_statement(struct qasm_reader *r) {
    uint32_t token = r->at, n_symbols = r->n_symbols, n_pool = r->n_pool;
    QR_TRY(qasm_bounded(r, token));
    r->steps++;
    if (qasm_is(r, QASM_PRAGMA)) return qasm_pragma(r);
    if (qasm_is(r, '{')) return run_body(r);
    /* Programs that read OpenQASM 2 allow empty statements. */
    if (r->version == 2 && !r->in_gate && qasm_skip(r, ';')) return QR_OK;
    if (!qasm_is(r, QASM_NAME))
        return qasm_begins_value(r) ? qasm_expression_statement(r)
                                    : qasm_expect(r, QASM_NAME, "a statement");
    QR_TRY(run_statement(r));
    if (r->n_symbols == n_symbols) r->n_pool = n_pool;
    return QR_OK;
}

/* ---- statements that depend on measured bits ---- */

/* What a statement may have changed before it failed, but for variables. */
struct saved {
    uint32_t at;
    unsigned depth;
    bool in_gate, checking;
    enum qasm_flow flow;
    struct qasm_value returned;
    struct qasm_scope scope;
    size_t n_gates;
    struct qr_qubits controls, control_values;
};

static struct saved save(const struct qasm_reader *r) {
    return (struct saved){
        .at = r->at,
        .depth = r->depth,
        .in_gate = r->in_gate,
        .checking = r->checking,
        .flow = r->flow,
        .returned = r->returned,
        .scope = {r->n_symbols, r->n_pool, r->n_cells, r->start, r->frame, r->n_known},
        .n_gates = r->gates.list.n,
        .controls = r->gates.controls,
        .control_values = r->gates.control_values};
}

static void restore(struct qasm_reader *r, const struct saved *s) {
    r->at = s->at;
    r->depth = s->depth;
    r->in_gate = s->in_gate;
    r->checking = s->checking;
    r->flow = s->flow;
    r->returned = s->returned;
    qasm_scope_close(r, &s->scope);
    r->gates.list.n = s->n_gates;
    r->gates.controls = s->controls;
    r->gates.control_values = s->control_values;
    if (r->excerpt) qr_buf_clear(r->excerpt);
}

static bool same_value(struct qasm_value a, struct qasm_value b) {
    return a.kind == b.kind && a.derived == b.derived && a.table == b.table &&
           (a.kind == QASM_UNKNOWN    ? a.result == b.result
            : a.kind == QASM_SYMBOLIC ? a.node == b.node
                                      : a.whole == b.whole);
}

/* Variables whose value depends on the result become UNKNOWN. zero: their values after the
 * statement with the result 0; r->cells has those with 1. */
static void join_variables(struct qasm_reader *r, const struct qasm_value *zero, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (!same_value(zero[i], r->cells[i]))
            r->cells[i] = (struct qasm_value){.kind = QASM_UNKNOWN, .derived = true};
}

static enum qr_code statement_once(struct qasm_reader *r, const struct saved *s);

/* Executes the statement for both values of the result that it needs; its gates depend on them. */
static enum qr_code split_statement(struct qasm_reader *r, const struct saved *s) {
    enum { MOST_BITS = 12, MOST_COMPARED = 64 }; /* executed 2^12 times, or 64 */
    uint32_t result = r->needed, n = s->scope.n_cells, end = 0;
    unsigned bit = r->results[result - 1].bit;
    unsigned most = r->compared ? MOST_COMPARED : MOST_BITS;
    const struct qr_condition around = r->gates.condition;
    r->needed = 0;
    r->compared = false;
    if (r->n_assumed >= most)
        return qasm_refuse(r, s->at,
                           "the statement depends on more than %u measured bits; split it", most);
    r->dynamic = true;
    r->n_assumed++;
    qr_auto(qr_free_p) struct qasm_value *old = qr_xcalloc(2 * (size_t)n + 1, sizeof *old);
    struct qasm_value *zero = old + n;
    if (n) memcpy(old, r->cells, n * sizeof *old);
    r->steps += n;
    for (int8_t value = 0; value < 2; value++) {
        struct saved each = *s;
        each.n_gates = value ? r->gates.list.n : s->n_gates;
        restore(r, &each);
        if (n && value) memcpy(zero, r->cells, n * sizeof *zero);
        if (n) memcpy(r->cells, old, n * sizeof *old);
        r->results[result - 1].assumed = value;
        qr_qubits_add(&r->gates.condition.bits, bit);
        if (value) qr_qubits_add(&r->gates.condition.values, bit);
        QR_TRY(statement_once(r, &each));
        if (r->flow != s->flow || r->n_symbols != s->scope.n_symbols || (value && r->at != end))
            return qasm_refuse(r, s->at,
                               "a jump or declaration depends on a measured bit; write "
                               "conditions with gates alone");
        end = r->at;
        QR_TRY(qr_gate_reader_depend(&r->gates, each.n_gates, "if"));
        r->gates.condition = around;
    }
    join_variables(r, zero, n);
    r->results[result - 1].assumed = -1;
    r->n_assumed--;
    return QR_OK;
}

static enum qr_code statement_once(struct qasm_reader *r, const struct saved *s) {
    enum qr_code code = run_any_statement(r);
    return code && r->needed && !s->checking ? split_statement(r, s) : code;
}

enum qr_code qasm_statement(struct qasm_reader *r) {
    const struct saved s = save(r);
    return statement_once(r, &s);
}

enum qr_code qasm_program(struct qasm_reader *r) {
    for (;;) {
        uint32_t first = r->at, n_symbols = r->n_symbols;
        QR_TRY(qasm_tokens_more(r));
        if (qasm_is(r, QASM_END)) break;
        while (!qasm_is(r, QASM_END) && r->flow != QASM_STOP) {
            uint32_t token = r->at;
            QR_TRY(qasm_statement(r));
            if (r->flow != QASM_ON && r->flow != QASM_STOP)
                return qasm_fail(
                    r, token,
                    "this statement is outside of a loop or a subroutine; move or remove it");
        }
        if (r->flow == QASM_STOP) break;
        /* Definitions are executed later. */
        if (r->n_symbols == n_symbols) r->at = first;
        r->n_tokens = r->at;
    }
    return QR_OK;
}
