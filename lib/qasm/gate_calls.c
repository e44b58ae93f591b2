/* qasm/gate_calls.c — applies gates with their modifiers, and calls subroutines; reads their
 * definitions. Start reading at qasm_gate_call(). */
#include <string.h>

#include "base/mem.h"
#include "qasm/qasm_impl.h"

enum { MAX_MODIFIERS = 32 };

struct gate_modifier {
    enum qasm_keyword kind;
    double power;     /* pow */
    unsigned n, from; /* ctrl, negctrl: number of controls, and the first operand of these */
    uint32_t token;
};
/* A call of a gate. */
struct gate_call {
    uint32_t token, name;
    uint32_t angles, n_angles;        /* cells */
    uint32_t operands, n_operands;    /* the pool: first entry and length (0: one) of each */
    uint32_t broadcast;               /* length of the registers; 0: none */
    unsigned n_modifiers, n_controls; /* n_controls: operands of all modifiers */
    struct gate_modifier modifiers[MAX_MODIFIERS];
};

/* ---- reading a call ---- */

/* ctrl(n) @ */
static enum qr_code read_modifier(struct qasm_reader *r, struct gate_call *call) {
    struct gate_modifier m = {.kind = (enum qasm_keyword)qasm_here(r)->value,
                              .n = 1,
                              .from = call->n_controls,
                              .token = r->at};
    struct qasm_value v;
    int64_t n = 1;
    qasm_next(r);
    if (qasm_skip(r, '(')) {
        uint32_t token = r->at;
        r->exact = m.kind == QASM_KEY_pow;
        enum qr_code code = qasm_expression(r, &v);
        r->exact = false;
        QR_TRY(code);
        QR_TRY(qasm_expect(r, ')', "')' after the argument of a modifier"));
        if (m.kind == QASM_KEY_inv) return qasm_fail(r, token, "inv takes no argument; remove it");
        if (m.kind != QASM_KEY_pow)
            QR_TRY(qasm_integer(r, token, v, "the number of controls", 1, QR_MAX_QUBITS, &n));
        else if (v.kind >= QASM_SYMBOLIC)
            return qasm_refuse(r, token, "the power is not known while reading; give a number");
        else m.power = qasm_number(v);
        m.n = (unsigned)n;
    } else if (m.kind == QASM_KEY_pow) {
        return qasm_fail(r, r->at, "expected '(' and a number after pow");
    }
    if (m.kind == QASM_KEY_ctrl || m.kind == QASM_KEY_negctrl) call->n_controls += m.n;
    if (call->n_modifiers == MAX_MODIFIERS)
        return qasm_fail(r, m.token, "a gate has at most %d modifiers; use fewer", MAX_MODIFIERS);
    call->modifiers[call->n_modifiers++] = m;
    return qasm_expect(r, '@', "'@' after a modifier");
}

static bool is_modifier(const struct qasm_reader *r) {
    uint32_t key = qasm_here(r)->value;
    return qasm_is(r, QASM_NAME) && key >= QASM_KEY_ctrl && key <= QASM_KEY_pow;
}

static enum qr_code read_angles(struct qasm_reader *r, struct gate_call *call) {
    call->angles = r->n_cells;
    if (!qasm_skip(r, '(')) return QR_OK;
    while (!qasm_is(r, ')')) {
        struct qasm_value v;
        uint32_t token = r->at;
        QR_TRY(qasm_expression(r, &v));
        if (v.kind == QASM_UNKNOWN) return qasm_need(r, token, v, "the angle");
        QR_TRY(qasm_convert(r, token, QASM_FLOATING, 0, v, &v));
        uint32_t cell = qasm_cells_add(r, 1);
        r->cells[cell] = v;
        call->n_angles++;
        if (!qasm_skip(r, ',')) break;
    }
    return qasm_expect(r, ')', "')' after the angles");
}

static enum qr_code read_operands(struct qasm_reader *r, struct gate_call *call) {
    QR_RAW uint32_t lists[2 * QR_MAX_QUBITS];
    while (!qasm_is(r, ';')) {
        struct qasm_selection s;
        uint32_t token = r->at;
        QR_TRY(qasm_select_qubits(r, &s));
        if (call->n_operands == QR_MAX_QUBITS)
            return qasm_fail(r, token, "a gate has at most %d operands; give fewer", QR_MAX_QUBITS);
        if (s.n_dims && call->broadcast && call->broadcast != s.n)
            return qasm_fail(r, token,
                             "this register has %u qubits, but another operand has %u; "
                             "give registers of the same length",
                             s.n, call->broadcast);
        if (s.n_dims && !s.n)
            return qasm_fail(r, token, "this register has no qubits; give others");
        if (s.n_dims) call->broadcast = s.n;
        lists[2 * call->n_operands] = s.first;
        lists[2 * call->n_operands++ + 1] = s.n_dims ? s.n : 0;
        if (!qasm_skip(r, ',')) break;
    }
    call->operands = qasm_pool_add(r, 2 * call->n_operands);
    for (unsigned i = 0; i < 2 * call->n_operands; i++) r->pool[call->operands + i] = lists[i];
    return qasm_expect(r, ';', "';' after the operands of a gate");
}

/* ---- applying a gate ---- */

/* Angles and qubits of the definition as symbols. */
static enum qr_code bind_arguments(struct qasm_reader *r, const struct gate_call *call,
                                   const uint16_t *qubits) {
    struct qasm_symbol s = {.kind = QASM_VARIABLE,
                            .items = {.constant = true, .type = QASM_ANGLE, .n = 1}};
    unsigned n = 0;
    if (qasm_skip(r, '(')) {
        for (; !qasm_is(r, ')'); qasm_skip(r, ','), n++) {
            s.name = qasm_here(r)->value;
            s.items.first = qasm_pool_add(r, 1);
            r->pool[s.items.first] = call->angles + n;
            QR_TRY(qasm_declare(r, r->at, &s));
            qasm_next(r);
        }
        qasm_next(r);
    }
    s = (struct qasm_symbol){.kind = QASM_QUBITS, .items = {.qubits = true, .n = 1}};
    for (n = 0; !qasm_is(r, '{'); qasm_skip(r, ','), n++) {
        s.name = qasm_here(r)->value;
        s.items.first = qasm_pool_add(r, 1);
        r->pool[s.items.first] = qubits[n];
        QR_TRY(qasm_declare(r, r->at, &s));
        qasm_next(r);
    }
    return QR_OK;
}

/* Executes the body of a defined gate. */
static enum qr_code run_gate(struct qasm_reader *r, const struct qasm_symbol *gate,
                             const struct gate_call *call, const uint16_t *qubits) {
    uint32_t back = r->at;
    bool in_gate = r->in_gate;
    QR_TRY(qasm_enter(r, call->token));
    struct qasm_scope scope = qasm_frame_open(r, gate->number);
    r->in_gate = true;
    r->at = gate->token;
    QR_TRY(bind_arguments(r, call, qubits));
    QR_TRY(qasm_block(r));
    if (r->flow != QASM_ON)
        return qasm_fail(r, gate->token, "a gate has no jumps; use if and else");
    qasm_scope_close(r, &scope);
    r->in_gate = in_gate;
    r->at = back;
    r->depth--;
    return QR_OK;
}

static enum qr_code check_operands(struct qasm_reader *r, const struct gate_call *call,
                                   const uint16_t *qubits) {
    struct qr_qubits seen = {0};
    for (unsigned i = 0; i < call->n_operands; i++) {
        unsigned q = qubits[i];
        if (qr_qubits_has(&seen, q))
            return qasm_fail(r, call->token,
                             "operand %u is a qubit that is an operand already; "
                             "give different qubits",
                             i + 1);
        qr_qubits_add(&seen, q);
        if (!r->in_gate) qasm_touch(r, q);
    }
    return QR_OK;
}

static void add_controls(struct qasm_reader *r, const struct gate_call *call,
                         const uint16_t *qubits) {
    for (unsigned i = 0; i < call->n_modifiers; i++) {
        const struct gate_modifier *m = &call->modifiers[i];
        for (unsigned k = 0; k < m->n; k++)
            if (m->kind == QASM_KEY_ctrl || m->kind == QASM_KEY_negctrl)
                qr_gate_reader_control(&r->gates, qubits[m->from + k], m->kind == QASM_KEY_ctrl);
    }
}

/* inv and pow; controls commute with both. */
static enum qr_code apply_modifiers(struct qasm_reader *r, const struct gate_call *call,
                                    size_t from) {
    struct qr_gate_list *list = &r->gates.list;
    for (unsigned i = call->n_modifiers; i-- > 0;) {
        const struct gate_modifier *m = &call->modifiers[i];
        struct qr_err why;
        enum qr_code code = QR_OK;
        if (m->kind == QASM_KEY_inv) qr_gate_list_invert(list, from);
        if (m->kind == QASM_KEY_pow)
            code = qr_gate_list_power(list, from, m->power, r->max_gates, &why);
        if (code)
            return (code == QR_UNIMPLEMENTED ? qasm_refuse : qasm_fail)(r, m->token, "%s", why.msg);
        r->steps += list->n - from;
    }
    return QR_OK;
}

/* The power 0 of a gate, which U(w, 0, 0) consists of but for one. */
static bool has_no_effect(const struct qr_gate *g) {
    const struct qr_gate_arg *last = g->n_args ? &g->args[g->n_args - 1] : NULL;
    return qr_gate_info(g->kind)->has_exponent && last->kind == QR_ARG_CONSTANT && last->scale == 0;
}

/* Drops the gates without effect from number `from` on. */
static void drop_gates(struct qasm_reader *r, size_t from) {
    struct qr_gate_list *l = &r->gates.list;
    size_t n = from;
    for (size_t i = from; i < l->n; i++)
        if (!has_no_effect(&l->gates[i])) {
            if (n != i) l->gates[n] = l->gates[i];
            n++;
        }
    l->n = n;
}

/* gate: NULL for a gate of the library or gphase */
static enum qr_code apply_gate(struct qasm_reader *r, const struct qasm_symbol *gate, bool phase,
                               const struct gate_call *call, const uint16_t *qubits) {
    size_t from = r->gates.list.n;
    QR_RAW struct qr_qubits controls, values;
    QR_TRY(check_operands(r, call, qubits));
    if (r->checking) return QR_OK;
    const uint16_t *own = qubits + call->n_controls;
    if (call->n_controls) {
        controls = r->gates.controls, values = r->gates.control_values;
        add_controls(r, call, qubits);
    }
    if (gate) QR_TRY(run_gate(r, gate, call, own));
    else if (phase) QR_TRY(qasm_phase_add(r, call->token, r->cells[call->angles]));
    else QR_TRY(qasm_library_add(r, call->token, call->name, &r->cells[call->angles], own));
    if (call->n_controls) r->gates.controls = controls, r->gates.control_values = values;
    QR_TRY(apply_modifiers(r, call, from));
    if (qr_qubits_is_empty(&r->gates.controls)) drop_gates(r, from);
    r->steps += r->gates.list.n - from;
    return qasm_bounded(r, call->token);
}

static enum qr_code check_counts(struct qasm_reader *r, const struct gate_call *call,
                                 unsigned n_angles, unsigned n_qubits) {
    if (call->n_angles != n_angles)
        return qasm_fail(r, call->token,
                         "'%.*s' takes %u angle%s, but %u %s given; correct the angles",
                         QASM_TEXT(r, call->name), n_angles, n_angles == 1 ? "" : "s",
                         call->n_angles, call->n_angles == 1 ? "is" : "are");
    n_qubits += call->n_controls;
    if (call->n_operands != n_qubits)
        return qasm_fail(r, call->token,
                         "'%.*s' acts on %u qubit%s here, but %u %s given; correct the qubits",
                         QASM_TEXT(r, call->name), n_qubits, n_qubits == 1 ? "" : "s",
                         call->n_operands, call->n_operands == 1 ? "is" : "are");
    return QR_OK;
}

static enum qr_code fail_unknown_gate(struct qasm_reader *r, const struct gate_call *call) {
    const char *include = qasm_library_include(r, call->name);
    return include
               ? qasm_fail(r, call->token, "the gate '%.*s' is not defined; add include \"%s\";",
                           QASM_TEXT(r, call->name), include)
               : qasm_fail(r, call->token, "the gate '%.*s' is not defined; define it before",
                           QASM_TEXT(r, call->name));
}

/* Registers are applied qubit by qubit; single qubits are repeated. */
static enum qr_code broadcast_gate(struct qasm_reader *r, const struct qasm_symbol *gate,
                                   bool phase, const struct gate_call *call) {
    QR_RAW uint16_t qubits[QR_MAX_QUBITS];
    for (uint32_t i = 0; i < (call->broadcast ? call->broadcast : 1); i++) {
        for (unsigned k = 0; k < call->n_operands; k++) {
            const uint32_t *list = &r->pool[call->operands + 2 * k];
            qubits[k] = (uint16_t)r->pool[list[0] + (list[1] ? i : 0)];
        }
        QR_TRY(apply_gate(r, gate, phase, call, qubits));
    }
    return QR_OK;
}

enum qr_code qasm_gate_call(struct qasm_reader *r) {
    QR_RAW struct gate_call call;
    memset(&call, 0, offsetof(struct gate_call, modifiers));
    unsigned n_angles = 1, n_qubits = 0;
    while (is_modifier(r)) QR_TRY(read_modifier(r, &call));
    call.token = r->at;
    QR_TRY(qasm_expect_name(r, "the name of a gate", &call.name));
    const struct qasm_symbol *found = qasm_find_called(r, call.name);
    struct qasm_symbol gate;
    bool defined = found && found->kind == QASM_GATE,
         phase = !found && r->names[call.name].bytes == 6 &&
                 memcmp(r->names[call.name].text, "gphase", 6) == 0;
    if (found && !defined)
        return qasm_fail(r, call.token, "'%.*s' is not a gate; expected a gate or an assignment",
                         QASM_TEXT(r, call.name));
    if (defined && !found->token)
        return qasm_refuse(r, call.token, "an opaque gate has no definition; define it as a gate");
    if (defined) {
        gate = *found;
        n_angles = gate.n_angles;
        n_qubits = gate.n_qubits;
    } else if (!phase && !qasm_library_find(r, call.name, &n_angles, &n_qubits)) {
        return fail_unknown_gate(r, &call);
    }
    uint32_t n_cells = r->n_cells;
    QR_TRY(read_angles(r, &call));
    QR_TRY(read_operands(r, &call));
    if (phase && r->version == 2) n_qubits = call.n_operands; /* PennyLane gives any */
    QR_TRY(check_counts(r, &call, n_angles, n_qubits));
    QR_TRY(broadcast_gate(r, defined ? &gate : NULL, phase, &call));
    r->n_cells = n_cells;
    return QR_OK;
}

/* ---- definitions ---- */

/* A list of different names up to `end`. */
static enum qr_code read_names(struct qasm_reader *r, unsigned end, const char *what,
                               uint32_t *ret_n) {
    uint32_t name;
    *ret_n = 0;
    while (!qasm_is(r, end)) {
        QR_TRY(qasm_expect_name(r, what, &name));
        ++*ret_n;
        if (!qasm_skip(r, ',')) break;
    }
    return QR_OK;
}

/* Executes the body once with symbols for its angles, without adding gates, to find errors. */
static enum qr_code check_definition(struct qasm_reader *r, const struct qasm_symbol *gate) {
    struct gate_call call = {
        .token = gate->token - 1, .name = gate->name, .n_angles = gate->n_angles};
    uint16_t qubits[QR_MAX_QUBITS];
    bool checking = r->checking;
    uint32_t n_cells = r->n_cells;
    for (unsigned i = 0; i < gate->n_qubits; i++) qubits[i] = (uint16_t)i;
    call.angles = qasm_cells_add(r, gate->n_angles);
    for (unsigned i = 0; i < gate->n_angles; i++) r->cells[call.angles + i] = qasm_real(0.5);
    r->checking = true;
    QR_TRY(run_gate(r, gate, &call, qubits));
    r->checking = checking;
    r->n_cells = n_cells;
    return QR_OK;
}

enum qr_code qasm_gate_definition(struct qasm_reader *r) {
    struct qasm_symbol gate = {.kind = QASM_GATE, .number = r->n_symbols};
    bool opaque = qasm_is_key(r, QASM_KEY_opaque);
    uint32_t token = ++r->at;
    QR_TRY(qasm_expect_name(r, "the name of the gate", &gate.name));
    gate.token = r->at;
    if (qasm_skip(r, '(')) {
        QR_TRY(read_names(r, ')', "the name of an angle", &gate.n_angles));
        QR_TRY(qasm_expect(r, ')', "',' or ')' after an angle"));
    }
    QR_TRY(read_names(r, opaque ? ';' : '{', "the name of a qubit", &gate.n_qubits));
    if (!gate.n_qubits || gate.n_qubits > QR_MAX_QUBITS)
        return qasm_fail(r, token, "a gate acts on 1 to %d qubits, not %u", QR_MAX_QUBITS,
                         gate.n_qubits);
    if (opaque) {
        gate.token = 0;
        QR_TRY(qasm_declare(r, token, &gate));
        return qasm_expect(r, ';', "';' after the qubits");
    }
    if (!qasm_is(r, '{')) return qasm_expect(r, '{', "'{' and the gates of the definition");
    uint32_t end = qasm_here(r)->value + 1;
    QR_TRY(check_definition(r, &gate));
    QR_TRY(qasm_declare(r, token, &gate));
    r->at = end;
    return QR_OK;
}
