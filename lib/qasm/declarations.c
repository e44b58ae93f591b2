/* qasm/declarations.c — declarations of qubits, variables, free symbols and aliases; assignments.
 * Start reading at qasm_declaration(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "qasm/qasm_impl.h"

enum { MAX_BITS = 1 << 19 };

/* ---- registers ---- */

enum { SINGLE = -1 }; /* the size of what is not a register */

static enum qr_code read_size(struct qasm_reader *r, const char *what, int64_t most, int64_t *ret) {
    struct qasm_value v;
    QR_TRY(qasm_expect(r, '[', "'[' and a size"));
    uint32_t token = r->at;
    QR_TRY(qasm_expression(r, &v));
    QR_TRY(qasm_integer(r, token, v, what, 0, most, ret));
    return qasm_expect(r, ']', "']' after the size");
}

static enum qr_code declare_qubits(struct qasm_reader *r, uint32_t token, uint32_t name,
                                   int64_t n) {
    struct qasm_symbol s = {.kind = QASM_QUBITS,
                            .name = name,
                            .items = {.qubits = true,
                                      .n_dims = n >= 0,
                                      .n = n >= 0 ? (uint32_t)n : 1,
                                      .dims = {(uint32_t)n}}};
    if (r->in_gate || r->frame)
        return qasm_fail(r, token, "a definition declares no qubits; declare them outside");
    if (r->physical)
        return qasm_refuse(r, token, "qubits by number and declared ones are mixed; use one kind");
    if (r->n_qubits + s.items.n > QR_MAX_QUBITS)
        return qasm_refuse(r, token, "the circuit exceeds %d qubits; use fewer", QR_MAX_QUBITS);
    r->virtual = true;
    s.items.first = qasm_pool_add(r, s.items.n);
    for (uint32_t i = 0; i < s.items.n; i++) r->pool[s.items.first + i] = r->n_qubits + i;
    r->n_qubits += s.items.n;
    return qasm_declare(r, token, &s);
}

enum qr_code qasm_add_variable(struct qasm_reader *r, uint32_t token,
                               struct qasm_selection *items) {
    uint64_t n = 1;
    for (unsigned k = 0; k < items->n_dims; k++)
        if ((n *= items->dims[k]) > MAX_BITS) break;
    if (n + r->n_cells > MAX_BITS)
        return qasm_fail(r, token, "up to here variables have more than %d elements; use fewer",
                         MAX_BITS);
    items->n = (uint32_t)n;
    items->first = qasm_pool_add(r, items->n);
    uint32_t cells = qasm_cells_add(r, items->n);
    for (uint32_t i = 0; i < items->n; i++) r->pool[items->first + i] = cells + i;
    r->steps += n;
    return QR_OK;
}

/* Variables: cells and a symbol. */
static enum qr_code declare_cells(struct qasm_reader *r, uint32_t token, uint32_t name,
                                  const struct qasm_selection *shape) {
    struct qasm_symbol s = {.kind = QASM_VARIABLE, .name = name, .items = *shape};
    QR_TRY(qasm_add_variable(r, token, &s.items));
    if (shape->type == QASM_BIT && !r->start)
        qasm_number_bits(r, r->n_cells - s.items.n, s.items.n);
    return qasm_declare(r, token, &s);
}

/* qubit[n] q, qreg q[n], creg c[n] */
static enum qr_code declare_register(struct qasm_reader *r) {
    bool old = !qasm_is_key(r, QASM_KEY_qubit), bits = qasm_is_key(r, QASM_KEY_creg);
    int64_t n = SINGLE;
    uint32_t name;
    qasm_next(r);
    if (!old && qasm_is(r, '[')) QR_TRY(read_size(r, "the number of qubits", INT32_MAX, &n));
    uint32_t token = r->at;
    QR_TRY(qasm_expect_name(r, "the name of the register", &name));
    if (old && qasm_is(r, '[')) QR_TRY(read_size(r, "the size", INT32_MAX, &n));
    if (bits) {
        struct qasm_selection shape = {.type = QASM_BIT, .n_dims = n >= 0, .dims = {(uint32_t)n}};
        QR_TRY(declare_cells(r, token, name, &shape));
    } else {
        QR_TRY(declare_qubits(r, token, name, n));
    }
    return qasm_expect(r, ';', "';' after the declaration");
}

/* ---- values ---- */

static enum qr_code store_bits(struct qasm_reader *r, const struct qasm_selection *to,
                               struct qasm_value v) {
    for (uint32_t i = 0; i < to->n; i++)
        r->cells[r->pool[to->first + i]] = v.kind == QASM_UNKNOWN
                                               ? (to->n > 1 ? qasm_derived(v) : v)
                                               : qasm_whole(i > 62 ? 0 : v.whole >> i & 1);
    return QR_OK;
}

void qasm_store_returned(struct qasm_reader *r, const struct qasm_selection *to) {
    for (uint32_t i = 0; i < to->n; i++) r->cells[r->pool[to->first + i]] = r->returned_bits[i];
}

/* {{1, 2}, {3, 4}} */
static enum qr_code read_elements(struct qasm_reader *r, const struct qasm_selection *to,
                                  unsigned d, uint32_t *at) {
    uint32_t token = r->at, n = 0;
    QR_TRY(qasm_enter(r, token));
    QR_TRY(qasm_expect(r, '{', "'{' and the elements"));
    while (!qasm_is(r, '}')) {
        if (n++ == to->dims[d]) break;
        if (d + 1u < to->n_dims) {
            QR_TRY(read_elements(r, to, d + 1, at));
        } else {
            struct qasm_value v;
            uint32_t element = r->at;
            QR_TRY(qasm_expression(r, &v));
            QR_TRY(qasm_convert(r, element, to->type, to->width, v,
                                &r->cells[r->pool[to->first + (*at)++]]));
        }
        if (!qasm_skip(r, ',')) break;
    }
    if (n != to->dims[d] || !qasm_is(r, '}'))
        return qasm_fail(r, token, "this list must have %u elements; correct it", to->dims[d]);
    r->depth--;
    return qasm_expect(r, '}', "'}'");
}

/* Evaluates the expression at the token for each value of the table's results. *ret_whole is false,
 * and the rest left out, at a value that depends on more results. */
static enum qr_code fill_table(struct qasm_reader *r, uint32_t token, struct qasm_table *t,
                               bool *ret_whole) {
    enum qr_code code = QR_OK;
    *ret_whole = true;
    for (unsigned k = 0; k < 1u << t->n && *ret_whole && code == QR_OK; k++) {
        for (unsigned i = 0; i < t->n; i++)
            r->results[t->results[i] - 1].assumed = (int8_t)(k >> i & 1);
        r->at = token;
        code = qasm_expression(r, &t->values[k]);
        *ret_whole = t->values[k].kind != QASM_UNKNOWN;
    }
    for (unsigned i = 0; i < t->n; i++) r->results[t->results[i] - 1].assumed = -1;
    return code;
}

/* Gives a value that depends on at most QASM_TABLE measured bits a table, so that a statement that
 * uses the variable can depend on them. */
static enum qr_code tabulate(struct qasm_reader *r, uint32_t token, struct qasm_value *v) {
    uint32_t end = r->at;
    bool whole = false;
    struct qasm_table t = {.values = qr_xcalloc(1u << QASM_TABLE, sizeof *t.values)};
    enum qr_code code = QR_OK;
    for (uint32_t result = v->result; !whole && result && t.n < QASM_TABLE && !code;) {
        t.results[t.n++] = result;
        code = fill_table(r, token, &t, &whole);
        for (unsigned k = 0; !whole && !code && result && k < 1u << t.n; k++)
            result = t.values[k].kind == QASM_UNKNOWN ? t.values[k].result : result;
        for (unsigned i = 0; i < t.n && !whole; i++)
            if (t.results[i] == result) result = 0; /* by a variable without a table */
    }
    r->at = end;
    if (code || !whole) {
        free(t.values);
        return code;
    }
    t.values = qr_xreallocarray(t.values, (size_t)1 << t.n, sizeof *t.values);
    v->table = qasm_table_add(r, &t);
    return QR_OK;
}

enum qr_code qasm_read_value(struct qasm_reader *r, const struct qasm_selection *to) {
    struct qasm_value v;
    uint32_t token = r->at;
    bool bits = to->type == QASM_BIT && to->n_dims == 1;
    struct qasm_selection from;
    if (bits && qasm_register(r, &from) && from.n == to->n) {
        qasm_copy_bits(r, &from); /* which may be a part of `to` */
        qasm_next(r);
        qasm_store_returned(r, to);
        return QR_OK;
    }
    size_t n_gates = r->gates.list.n; /* Calls of subroutines are not repeated. */
    QR_TRY(qasm_expression(r, &v));
    if (bits && qasm_returns_bits(r, token) && r->n_returned == to->n) {
        qasm_store_returned(r, to);
        return QR_OK;
    }
    if (v.kind == QASM_UNKNOWN && v.derived && v.result && !to->n_dims &&
        n_gates == r->gates.list.n)
        QR_TRY(tabulate(r, token, &v));
    unsigned width = bits ? (to->n < 63 ? to->n : 63) : to->width;
    QR_TRY(qasm_convert(r, token, to->type, width, v, &v));
    if (to->n_dims) return store_bits(r, to, v);
    r->cells[r->pool[to->first]] = v;
    return QR_OK;
}

/* The value after "=": an expression, a measurement, a list, or another array. */
static enum qr_code read_value(struct qasm_reader *r, const struct qasm_selection *to) {
    uint32_t token = r->at, at = 0;
    if (to->n_dims && qasm_is(r, '{')) return read_elements(r, to, 0, &at);
    if (qasm_is_key(r, QASM_KEY_measure)) {
        struct qasm_selection q;
        QR_TRY(qasm_measure(r, &q));
        if (q.n != to->n)
            return qasm_fail(r, token, "%u qubits are measured into %u bits; give the same number",
                             q.n, to->n);
        if (to->type != QASM_BIT && to->type != QASM_BOOL)
            return qasm_fail(r, token, "a measurement gives bits; measure into a bit");
        return qasm_measure_into(r, token, &q, to);
    }
    if (to->n_dims && to->type != QASM_BIT) {
        struct qasm_selection from;
        QR_TRY(qasm_select(r, &from));
        if (from.qubits || from.n_dims != to->n_dims ||
            memcmp(from.dims, to->dims, to->n_dims * sizeof *to->dims) != 0)
            return qasm_fail(r, token, "this is not an array of the same dimensions; give one");
        for (uint32_t i = 0; i < to->n; i++)
            QR_TRY(qasm_convert(r, token, to->type, to->width, r->cells[r->pool[from.first + i]],
                                &r->cells[r->pool[to->first + i]]));
        return QR_OK;
    }
    return qasm_read_value(r, to);
}

enum qr_code qasm_shape(struct qasm_reader *r, bool argument, struct qasm_selection *ret) {
    bool array = qasm_is_key(r, QASM_KEY_array);
    unsigned width = 0;
    *ret = (struct qasm_selection){.n_dims = 0};
    if (array) {
        qasm_next(r);
        QR_TRY(qasm_expect(r, '[', "'[' and the type of the elements"));
    }
    uint32_t token = r->at;
    QR_TRY(qasm_type(r, &ret->type, &width));
    if (ret->type == QASM_BIT && width && !array) {
        ret->n_dims = 1;
        ret->dims[0] = width;
    } else {
        ret->width = (uint8_t)(width > 63 ? 0 : width);
    }
    if (array && ret->type == QASM_BIT)
        return qasm_fail(r, token, "an array has no bits; declare a bit register");
    while (array && qasm_skip(r, ',') && !qasm_is(r, ']')) {
        struct qasm_value v;
        int64_t n;
        uint32_t at = r->at;
        bool any = argument && !ret->n_dims && qasm_skip(r, '#'); /* #dim = n */
        if (any) {
            qasm_next(r);
            QR_TRY(qasm_expect(r, '=', "'=' after #dim"));
        }
        QR_TRY(qasm_expression(r, &v));
        QR_TRY(qasm_integer(r, at, v, "a dimension", 1, any ? QASM_DIMENSIONS : MAX_BITS, &n));
        if (any) {
            ret->n_dims = (uint8_t)n;
            break;
        }
        if (ret->n_dims == QASM_DIMENSIONS)
            return qasm_fail(r, at, "an array has at most %d dimensions; use fewer",
                             QASM_DIMENSIONS);
        ret->dims[ret->n_dims++] = (uint32_t)n;
    }
    return array ? qasm_expect(r, ']', "']' after the dimensions") : QR_OK;
}

/* [const] type name [= value]; */
static enum qr_code declare_variable(struct qasm_reader *r) {
    struct qasm_selection shape;
    bool constant = qasm_is_key(r, QASM_KEY_const), output = qasm_is_key(r, QASM_KEY_output);
    uint32_t name, first = r->at;
    if (constant || output) qasm_next(r);
    QR_TRY(qasm_shape(r, false, &shape));
    shape.constant = constant;
    uint32_t token = r->at;
    if (qasm_is(r, '(') && !constant && !output) { /* a conversion */
        r->at = first;
        return qasm_expression_statement(r);
    }
    QR_TRY(qasm_expect_name(r, "the name of the variable", &name));
    if (r->in_gate) return qasm_fail(r, token, "a gate declares no variables; declare a const");
    if (constant && !qasm_is(r, '='))
        return qasm_fail(r, token, "a constant needs a value; write = and the value");
    QR_TRY(declare_cells(r, token, name, &shape));
    if (!output && qasm_skip(r, '=')) {
        struct qasm_selection items = r->symbols[r->n_symbols - 1].items;
        QR_TRY(read_value(r, &items));
    }
    return qasm_expect(r, ';', "';' after the declaration");
}

enum qr_code qasm_declare_value(struct qasm_reader *r, uint32_t token, enum qasm_type type,
                                unsigned width, struct qasm_value v) {
    struct qasm_selection shape = {.type = type, .width = (uint8_t)(width > 63 ? 0 : width)};
    QR_TRY(declare_cells(r, token, r->tokens[token].value, &shape));
    return qasm_convert(r, token, type, width, v,
                        &r->cells[r->pool[r->symbols[r->n_symbols - 1].items.first]]);
}

/* ---- free symbols ---- */

/* The first column of an input that has this name; false: it is none. */
static bool input_column(const struct qasm_reader *r, uint32_t name, size_t *ret) {
    for (size_t i = 0; i < r->n_inputs; i++)
        if (strlen(r->inputs[i]) == r->names[name].bytes &&
            memcmp(r->inputs[i], r->names[name].text, r->names[name].bytes) == 0) {
            *ret = i;
            return true;
        }
    return false;
}

/* Name of a parameter, an element of it, or a column, which qasm.c numbers at the end. */
static enum qr_code declare_leaf(struct qasm_reader *r, uint32_t token, const char *name,
                                 const struct qasm_selection *items, uint32_t i, size_t column) {
    bool data = column < r->n_inputs;
    char *text = data            ? qr_xasprintf("x[%zu]", column * QASM_INPUT_ELEMENTS + i)
                 : items->n_dims ? qr_xasprintf("%s[%u]", name, i)
                                 : qr_xstrdup(name);
    return qasm_leaf(r, token, data, text, &r->cells[r->pool[items->first + i]]);
}

/* Whether an earlier free symbol has the name: input float x, and then x_. */
static bool leaf_is_taken(const struct qasm_reader *r, const char *name, size_t n) {
    for (size_t i = 0; i < r->n_leaves; i++) {
        const char *leaf = r->leaves[i];
        if (strncmp(leaf, name, n) == 0 && (!leaf[n] || leaf[n] == '[')) return true;
    }
    return false;
}

/* input float name; */
static enum qr_code declare_input(struct qasm_reader *r) {
    struct qasm_selection shape;
    uint32_t name;
    size_t column = 0;
    qasm_next(r);
    uint32_t token = r->at;
    QR_TRY(qasm_shape(r, false, &shape));
    if (shape.type != QASM_FLOATING && shape.type != QASM_ANGLE)
        return qasm_refuse(r, token,
                           "only float and angle can be free; replace input by const and "
                           "give the value");
    if (shape.n_dims > 1)
        return qasm_refuse(r, token, "an input has at most one dimension; use one");
    shape.constant = true;
    token = r->at;
    QR_TRY(qasm_expect_name(r, "the name of the input", &name));
    char text[QR_EXPRESSION_NAME];
    int n = snprintf(text, sizeof text, "%.*s", QASM_TEXT(r, name));
    if (n > QR_EXPRESSION_NAME - 10)
        return qasm_refuse(r, token, "a free symbol's name has at most %d bytes; shorten it",
                           QR_EXPRESSION_NAME - 10);
    bool data = input_column(r, name, &column);
    bool reserved = !qr_expression_is_name(text), underscore = n > 1 && text[n - 1] == '_';
    if (reserved) text[n++] = '_', text[n] = 0;
    else if (underscore)
        text[n - 1] = 0, reserved = !qr_expression_is_name(text), text[n - 1] = '_';
    if (!data && reserved && leaf_is_taken(r, text, (size_t)n))
        return qasm_refuse(r, token, "an earlier input is named '%s' too; choose another", text);
    QR_TRY(declare_cells(r, token, name, &shape));
    const struct qasm_selection items = r->symbols[r->n_symbols - 1].items;
    if (data && items.n > QASM_INPUT_ELEMENTS)
        return qasm_refuse(r, token, "an input that is data has at most %d elements; use several",
                           QASM_INPUT_ELEMENTS);
    if (data) r->input_sizes[column] = items.n;
    for (uint32_t i = 0; i < items.n; i++)
        QR_TRY(declare_leaf(r, token, text, &items, i, data ? column : r->n_inputs));
    return qasm_expect(r, ';', "';' after the declaration");
}

/* ---- aliases and assignments ---- */

/* Whether the selections have an entry in common. */
static bool overlap(const struct qasm_reader *r, const struct qasm_selection *a,
                    const struct qasm_selection *b) {
    for (uint32_t i = 0; i < a->n; i++)
        for (uint32_t k = 0; k < b->n; k++)
            if (r->pool[a->first + i] == r->pool[b->first + k]) return true;
    return false;
}

/* let name = q[0:1] ++ r; */
static enum qr_code declare_alias(struct qasm_reader *r) {
    struct qasm_symbol s = {.kind = QASM_QUBITS};
    struct qasm_selection part;
    qasm_next(r);
    uint32_t token = r->at;
    QR_TRY(qasm_expect_name(r, "the name of the alias", &s.name));
    QR_TRY(qasm_expect(r, '=', "'=' after the name"));
    uint32_t first = r->at;
    QR_TRY(qasm_select(r, &s.items));
    while (qasm_skip(r, QASM_CONCAT)) {
        uint32_t at = r->at;
        QR_TRY(qasm_select(r, &part));
        if (part.qubits != s.items.qubits || part.type != s.items.type || part.n_dims > 1)
            return qasm_fail(
                r, at, "this cannot be joined with what precedes it; join registers of one type");
        r->steps += (uint64_t)s.items.n * part.n / 16;
        QR_TRY(qasm_bounded(r, at));
        if (overlap(r, &s.items, &part))
            return qasm_fail(r, at, "a register cannot be joined with a part of itself; remove it");
        uint32_t to = qasm_pool_add(r, s.items.n + part.n);
        memcpy(r->pool + to, r->pool + s.items.first, s.items.n * sizeof *r->pool);
        memcpy(r->pool + to + s.items.n, r->pool + part.first, part.n * sizeof *r->pool);
        s.items.first = to;
        s.items.dims[0] = s.items.n += part.n;
        s.items.n_dims = 1;
        r->steps += s.items.n;
        if (s.items.n > MAX_BITS) return qasm_fail(r, first, "the alias is too long; shorten it");
        QR_TRY(qasm_bounded(r, at));
    }
    if (!s.items.qubits) s.kind = QASM_VARIABLE;
    QR_TRY(qasm_declare(r, token, &s));
    return qasm_expect(r, ';', "';' after the alias");
}

enum qr_code qasm_assignment(struct qasm_reader *r) {
    struct qasm_selection to;
    struct qasm_value v, old;
    uint32_t token = r->at;
    int64_t bit = -1;
    QR_TRY(qasm_select(r, &to));
    if (to.qubits) return qasm_fail(r, token, "this is a qubit; a gate must be here");
    if (to.constant)
        return qasm_fail(r, token,
                         "this is a constant, which cannot be changed; declare a variable");
    if (qasm_skip(r, '[')) { /* one bit of an integer */
        QR_TRY(qasm_expression(r, &v));
        QR_TRY(qasm_integer(r, token, v, "the number of a bit", 0, to.width ? to.width - 1 : 62,
                            &bit));
        QR_TRY(qasm_expect(r, ']', "']'"));
    }
    uint32_t operator= r->at;
    if (bit < 0 && qasm_skip(r, '=')) {
        QR_TRY(read_value(r, &to));
        return qasm_expect(r, ';', "';' after the assignment");
    }
    unsigned op = qasm_is(r, QASM_ASSIGN) ? qasm_here(r)->value : 0;
    if (!op && !qasm_is(r, '=')) {
        r->at = token;
        return qasm_expression_statement(r);
    }
    if (to.n_dims) return qasm_fail(r, operator, "this operator takes single variables; index one");
    qasm_next(r);
    QR_TRY(qasm_expression(r, &v));
    old = r->cells[r->pool[to.first]];
    int64_t all = 0, one;
    if (bit >= 0) {
        if (to.type != QASM_INT && to.type != QASM_UINT)
            return qasm_refuse(r, token, "only bits of integers are assigned; use int or uint");
        if (op && op != '&' && op != '|' && op != '^')
            return qasm_fail(r, operator, "a bit has no such operator; use &=, |= or ^=");
        QR_TRY(qasm_integer(r, token, old, "the variable", INT64_MIN, INT64_MAX, &all));
        old = qasm_typed(all >> bit & 1, QASM_BIT, 0);
    }
    if (op) QR_TRY(qasm_binary(r, operator, op, old, v, &v));
    if (bit >= 0) {
        QR_TRY(qasm_integer(r, token, v, "a bit", 0, 1, &one));
        v = qasm_whole((all & ~(INT64_C(1) << bit)) | one << bit);
    }
    QR_TRY(qasm_convert(r, token, to.type, to.width, v, &r->cells[r->pool[to.first]]));
    return qasm_expect(r, ';', "';' after the assignment");
}

/* ---- any declaration ---- */

bool qasm_is_declaration(const struct qasm_reader *r) {
    uint32_t key = qasm_here(r)->value;
    if (!qasm_is(r, QASM_NAME)) return false;
    return key == QASM_KEY_qreg || key == QASM_KEY_creg ||
           (key >= QASM_KEY_qubit && key <= QASM_KEY_let);
}

enum qr_code qasm_declaration(struct qasm_reader *r) {
    switch (qasm_here(r)->value) {
    case QASM_KEY_qreg:
    case QASM_KEY_creg:
    case QASM_KEY_qubit: return declare_register(r);
    case QASM_KEY_input: return declare_input(r);
    case QASM_KEY_let: return declare_alias(r);
    default: return declare_variable(r);
    }
}
