/* qasm/subroutines.c — definitions and calls of subroutines, which are executed in place. Start
 * reading at qasm_subroutine_call(). */
#include "qasm/qasm_impl.h"

enum { MAX_SUBROUTINE_ARGUMENTS = 64 };

/* The type of an argument in the definition; *ret_dims: dimensions that must be given, or 0. */
static enum qr_code read_argument_type(struct qasm_reader *r, struct qasm_selection *ret,
                                       int64_t *ret_size, bool *ret_array) {
    struct qasm_value v;
    unsigned width = 0;
    *ret = (struct qasm_selection){.n = 1};
    *ret_size = 0;
    *ret_array = false;
    ret->constant = qasm_is_key(r, QASM_KEY_readonly);
    if (ret->constant || qasm_is_key(r, QASM_KEY_mutable)) qasm_next(r);
    if (qasm_is_key(r, QASM_KEY_array)) {
        bool constant = ret->constant;
        *ret_array = true;
        QR_TRY(qasm_shape(r, true, ret));
        ret->constant = constant;
        return QR_OK;
    }
    ret->qubits = qasm_is_key(r, QASM_KEY_qubit) || qasm_is_key(r, QASM_KEY_qreg);
    if (!ret->qubits && !qasm_is_key(r, QASM_KEY_creg)) {
        QR_TRY(qasm_type(r, &ret->type, &width));
        ret->width = (uint8_t)(width > 63 ? 0 : width);
        *ret_size = ret->type == QASM_BIT ? width : 0;
        return QR_OK;
    }
    qasm_next(r);
    if (!qasm_skip(r, '[')) return QR_OK;
    uint32_t token = r->at;
    QR_TRY(qasm_expression(r, &v));
    QR_TRY(qasm_integer(r, token, v, "the size of an argument", 1, QR_MAX_QUBITS, ret_size));
    return qasm_expect(r, ']', "']' after the size");
}

static bool takes_array(const struct qasm_selection *wanted, const struct qasm_selection *given) {
    bool same = given->type == wanted->type && given->width == wanted->width &&
                given->n_dims == wanted->n_dims;
    for (unsigned k = 0; same && k < wanted->n_dims; k++)
        same = !wanted->dims[k] || wanted->dims[k] == given->dims[k];
    return same;
}

/* The argument of the call that belongs to the type `items`. */
static enum qr_code read_argument(struct qasm_reader *r, int64_t size, bool array,
                                  struct qasm_selection *items) {
    struct qasm_selection given;
    uint32_t token = r->at;
    if (items->qubits || array || size) {
        QR_TRY(qasm_select(r, &given));
        if (given.qubits != items->qubits)
            return qasm_fail(r, token, "this argument must be %s; correct the call",
                             items->qubits ? "qubits" : "a classical variable");
        if (array && !takes_array(items, &given))
            return qasm_fail(r, token,
                             "this is not an array of the type and dimensions that the subroutine "
                             "takes; correct the call");
        if (!array && (size != (given.n_dims ? given.n : 0) || given.n_dims > 1))
            return qasm_fail(r, token,
                             "this argument has %u elements, but the subroutine takes "
                             "%lld",
                             given.n, (long long)(size ? size : 1));
        if (!items->qubits && !array && given.type != QASM_BIT)
            return qasm_fail(r, token, "this argument must be bits; declare a bit register");
        given.constant |= items->constant;
        *items = given;
        if (given.qubits || array) return QR_OK;
        items->constant = false; /* bits are passed by value */
        qasm_copy_bits(r, &given);
        QR_TRY(qasm_add_variable(r, token, items));
        qasm_store_returned(r, items);
        return QR_OK;
    }
    QR_TRY(qasm_add_variable(r, token, items));
    return qasm_read_value(r, items);
}

/* Reads definition and call in parallel, and makes a symbol of each argument. */
static enum qr_code read_arguments_of(struct qasm_reader *r, uint32_t *definition,
                                      struct qasm_symbol ret[MAX_SUBROUTINE_ARGUMENTS],
                                      unsigned *ret_n) {
    uint32_t token = r->at;
    *ret_n = 0;
    QR_TRY(qasm_expect(r, '(', "'(' after the subroutine's name"));
    while (r->tokens[*definition].kind != ')') {
        uint32_t call = r->at, name;
        struct qasm_selection items;
        int64_t size;
        bool array;
        if (*ret_n == MAX_SUBROUTINE_ARGUMENTS)
            return qasm_fail(r, token, "a subroutine has at most %d arguments; use fewer",
                             MAX_SUBROUTINE_ARGUMENTS);
        r->at = *definition;
        QR_TRY(read_argument_type(r, &items, &size, &array));
        QR_TRY(qasm_expect_name(r, "the name of an argument", &name));
        if (!qasm_skip(r, ',') && !qasm_is(r, ')'))
            return qasm_expect(r, ')', "',' or ')' after an argument");
        *definition = r->at;
        r->at = call;
        if (qasm_is(r, ')')) return qasm_fail(r, r->at, "an argument is missing; give it");
        QR_TRY(read_argument(r, size, array, &items));
        ret[(*ret_n)++] = (struct qasm_symbol){
            .kind = items.qubits ? QASM_QUBITS : QASM_VARIABLE, .name = name, .items = items};
        if (!qasm_skip(r, ',')) break;
    }
    if (r->tokens[*definition].kind != ')')
        return qasm_fail(r, r->at, "an argument is missing; give it");
    return qasm_expect(r, ')', "')' after the arguments");
}

/* -> type */
static enum qr_code convert_returned(struct qasm_reader *r, struct qasm_value *ret) {
    enum qasm_type type = QASM_VOID;
    unsigned width;
    if (!qasm_skip(r, QASM_ARROW)) return QR_OK;
    uint32_t token = r->at;
    QR_TRY(qasm_type(r, &type, &width));
    if (type != QASM_BIT) r->n_returned = 0;
    return qasm_convert(r, token, type, width, *ret, ret);
}

enum qr_code qasm_subroutine_call(struct qasm_reader *r, const struct qasm_symbol *symbol,
                                  struct qasm_value *ret) {
    struct qasm_symbol arguments[MAX_SUBROUTINE_ARGUMENTS];
    uint32_t token = r->at, definition = symbol->token + 1, n_cells = r->n_cells,
             n_known = symbol->number + 1;
    unsigned n;
    QR_TRY(qasm_enter(r, token));
    if (r->in_gate) return qasm_fail(r, token, "a gate calls no subroutines; call gates");
    qasm_next(r);
    QR_TRY(read_arguments_of(r, &definition, arguments, &n));
    uint32_t back = r->at, body = definition + 1;
    struct qasm_scope scope = qasm_frame_open(r, n_known);
    for (unsigned i = 0; i < n; i++) QR_TRY(qasm_declare(r, token, &arguments[i]));
    while (r->tokens[body].kind != '{') body++;
    r->at = body;
    r->returned = qasm_whole(0);
    r->n_returned = 0;
    QR_TRY(qasm_block(r));
    if (r->flow == QASM_BREAK || r->flow == QASM_CONTINUE)
        return qasm_fail(r, token,
                         "the subroutine jumps out of a loop that it does not contain; use return");
    if (r->flow == QASM_RETURN) r->flow = QASM_ON;
    qasm_scope_close(r, &scope);
    *ret = r->returned;
    r->at = definition + 1;
    QR_TRY(convert_returned(r, ret));
    r->at = back;
    r->call = token;
    r->call_end = back;
    r->n_cells = n_cells;
    r->depth--;
    return qasm_bounded(r, token);
}

enum qr_code qasm_subroutine_definition(struct qasm_reader *r) {
    struct qasm_symbol def = {.kind = QASM_SUBROUTINE};
    uint32_t token = ++r->at;
    QR_TRY(qasm_expect_name(r, "the name of the subroutine", &def.name));
    def.token = r->at;
    QR_TRY(qasm_expect(r, '(', "'(' after the subroutine's name"));
    while (!qasm_is(r, ')') && !qasm_is(r, '{') && !qasm_is(r, QASM_END)) qasm_next(r);
    QR_TRY(qasm_expect(r, ')', "')' after the arguments"));
    if (qasm_skip(r, QASM_ARROW)) {
        enum qasm_type type;
        unsigned width;
        QR_TRY(qasm_type(r, &type, &width));
    }
    if (!qasm_is(r, '{')) return qasm_expect(r, '{', "'{' and the statements of the subroutine");
    uint32_t end = qasm_here(r)->value + 1;
    QR_TRY(qasm_declare(r, token, &def));
    r->at = end;
    return QR_OK;
}
