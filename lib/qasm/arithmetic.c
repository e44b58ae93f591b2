/* qasm/arithmetic.c — operations on values: numbers that are known while reading, and expressions
 * of free symbols. Start reading at qasm_binary(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "exact/functions.h"
#include "qasm/qasm_impl.h"

enum { MAX_NODES = 1 << 21 };

/* ---- expressions of free symbols ---- */

static enum qr_code add_node(struct qasm_reader *r, uint32_t token, struct qasm_node node,
                             struct qasm_value *ret) {
    if (r->n_nodes == MAX_NODES)
        return qasm_fail(r, token, "more than %d operations on free symbols; use fewer", MAX_NODES);
    if (r->n_nodes == r->cap_nodes) {
        r->cap_nodes = r->cap_nodes ? 2 * r->cap_nodes : 64;
        r->nodes = qr_xreallocarray(r->nodes, r->cap_nodes, sizeof *r->nodes);
    }
    r->nodes[r->n_nodes] = node;
    *ret = (struct qasm_value){.kind = QASM_SYMBOLIC, .node = r->n_nodes++};
    return QR_OK;
}

enum qr_code qasm_leaf(struct qasm_reader *r, uint32_t token, bool input, char *text,
                       struct qasm_value *ret) {
    if (r->n_leaves == r->cap_leaves) {
        r->cap_leaves = r->cap_leaves ? 2 * r->cap_leaves : 64;
        r->leaves = qr_xreallocarray(r->leaves, r->cap_leaves, sizeof *r->leaves);
    }
    r->leaves[r->n_leaves] = text;
    return add_node(r, token,
                    (struct qasm_node){.op = input ? QR_EXPRESSION_INPUT : QR_EXPRESSION_PARAMETER,
                                       .a = r->n_leaves++},
                    ret);
}

static enum qr_code node_of(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                            uint32_t *ret) {
    struct qasm_value made = v;
    if (v.kind != QASM_SYMBOLIC)
        QR_TRY(add_node(r, token,
                        (struct qasm_node){.op = QR_EXPRESSION_NUMBER, .number = qasm_number(v)},
                        &made));
    *ret = made.node;
    return QR_OK;
}

/* An operation of lib/expression: a number if both operands are. */
static enum qr_code apply_operation(struct qasm_reader *r, uint32_t token, enum qr_expression_op op,
                                    struct qasm_value a, struct qasm_value b,
                                    struct qasm_value *ret) {
    struct qasm_node node = {.op = op};
    if (a.kind != QASM_SYMBOLIC && b.kind != QASM_SYMBOLIC) {
        *ret = qasm_real(qr_expression_apply(op, qasm_number(a), qasm_number(b)));
        return isfinite(ret->real)
                   ? QR_OK
                   : qasm_fail(r, token, "the result is not a finite number; correct the operands");
    }
    QR_TRY(node_of(r, token, a, &node.a));
    if (qr_expression_has_two(op)) QR_TRY(node_of(r, token, b, &node.b));
    return add_node(r, token, node, ret);
}

/* ---- the text of an expression ---- */

enum { TEXT_SUM = 1, TEXT_PRODUCT, TEXT_SIGN, TEXT_WHOLE };
static int text_level(const struct qasm_node *n) {
    switch (n->op) {
    case QR_EXPRESSION_ADD:
    case QR_EXPRESSION_SUBTRACT: return TEXT_SUM;
    case QR_EXPRESSION_MULTIPLY:
    case QR_EXPRESSION_DIVIDE: return TEXT_PRODUCT;
    case QR_EXPRESSION_NEGATE: return TEXT_SIGN;
    case QR_EXPRESSION_NUMBER: return n->number < 0 ? TEXT_SIGN : TEXT_WHOLE;
    default: return TEXT_WHOLE;
    }
}

/* Stops, without reading the rest, when the text is longer or deeper than an expression may be. */
static void put_node(const struct qasm_reader *r, uint32_t i, int least, unsigned depth,
                     struct qr_buf *to) {
    const struct qasm_node *n = &r->nodes[i];
    int level = text_level(n);
    if (to->overflow || to->n > QR_EXPRESSION_BYTES || depth > QR_QASM_DEPTH) {
        to->overflow = true;
        return;
    }
    if (level < least) qr_buf_puts(to, "(");
    if (n->op == QR_EXPRESSION_NUMBER) {
        char number[32];
        qr_number_text(n->number, number);
        qr_buf_puts(to, number);
    } else if (n->op == QR_EXPRESSION_PARAMETER || n->op == QR_EXPRESSION_INPUT) {
        qr_buf_puts(to, r->leaves[n->a]);
    } else if (qr_expression_function(n->op)) {
        qr_buf_printf(to, "%s(", qr_expression_function(n->op));
        put_node(r, n->a, TEXT_SUM, depth + 1, to);
        if (qr_expression_has_two(n->op)) {
            qr_buf_puts(to, ", ");
            put_node(r, n->b, TEXT_SUM, depth + 1, to);
        }
        qr_buf_puts(to, ")");
    } else if (n->op == QR_EXPRESSION_NEGATE) {
        qr_buf_puts(to, "-");
        put_node(r, n->a, TEXT_WHOLE, depth + 1, to);
    } else {
        static const char signs[] = {[QR_EXPRESSION_ADD] = '+',
                                     [QR_EXPRESSION_SUBTRACT] = '-',
                                     [QR_EXPRESSION_MULTIPLY] = '*',
                                     [QR_EXPRESSION_DIVIDE] = '/'};
        put_node(r, n->a, level, depth + 1, to);
        qr_buf_printf(to, "%c", signs[n->op]);
        put_node(r, n->b, level + 1 == TEXT_SIGN ? TEXT_WHOLE : level + 1, depth + 1, to);
    }
    if (level < least) qr_buf_puts(to, ")");
}

enum qr_code qasm_angle(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                        struct qr_gate_arg *ret) {
    if (v.kind == QASM_UNKNOWN) return qasm_need(r, token, v, "the angle");
    if (v.kind != QASM_SYMBOLIC) {
        *ret = (struct qr_gate_arg){QR_ARG_CONSTANT, qasm_number(v), 0};
        return QR_OK;
    }
    if (!r->nodes[v.node].has_arg) {
        struct qr_buf text = {0};
        put_node(r, v.node, TEXT_SUM, 0, &text);
        bool fits = qr_buf_ok(&text) && text.n <= QR_EXPRESSION_BYTES;
        enum qr_code code = fits ? qr_gate_expression(&r->gates, qr_buf_string(&text), "the angle",
                                                      &r->nodes[v.node].arg)
                                 : QR_OK;
        qr_buf_free(&text);
        if (!fits)
            return qasm_fail(r, token,
                             "the angle's expression exceeds %d bytes or nests more than %d "
                             "operations; simplify it",
                             QR_EXPRESSION_BYTES, QR_QASM_DEPTH);
        if (code) return qasm_fail(r, token, "%s", r->err->msg);
        r->nodes[v.node].has_arg = true;
    }
    *ret = r->nodes[v.node].arg;
    return QR_OK;
}

/* ---- known values ---- */

enum qr_code qasm_integer(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                          const char *what, int64_t low, int64_t high, int64_t *ret) {
    if (v.kind == QASM_UNKNOWN) return qasm_need(r, token, v, what);
    if (v.kind == QASM_SYMBOLIC)
        return qasm_refuse(r, token, "%s depends on a free symbol; only angles may", what);
    if (v.kind == QASM_REAL && v.real == rint(v.real) && fabs(v.real) < 0x1p62)
        v = qasm_whole((int64_t)v.real);
    if (v.kind != QASM_WHOLE && fabs(v.real) >= 0x1p62)
        return qasm_refuse(r, token,
                           "%s is %.10g, too large for an integer here; use a smaller one", what,
                           v.real);
    if (v.kind != QASM_WHOLE)
        return qasm_fail(r, token, "%s is %.10g; it must be an integer", what, v.real);
    if (v.whole < low || v.whole > high)
        return qasm_fail(r, token, "%s is %lld; it must be from %lld to %lld", what,
                         (long long)v.whole, (long long)low, (long long)high);
    *ret = v.whole;
    return QR_OK;
}

enum qr_code qasm_truth(struct qasm_reader *r, uint32_t token, struct qasm_value v, bool *ret) {
    if (v.kind == QASM_UNKNOWN) return qasm_need(r, token, v, "the condition");
    if (v.kind == QASM_SYMBOLIC)
        return qasm_refuse(r, token, "the condition depends on a free symbol; only angles may");
    *ret = v.kind == QASM_WHOLE ? v.whole != 0 : v.real != 0;
    return QR_OK;
}

static int64_t wrapped_whole(int64_t v, enum qasm_type type, unsigned width) {
    if (!width || width > 63) return v;
    uint64_t mask = (UINT64_C(1) << width) - 1, low = (uint64_t)v & mask;
    if (type == QASM_INT && low >> (width - 1)) low |= ~mask;
    return (int64_t)low;
}

/* An angle in [0, 2 pi); of n > 0 bits: the nearest multiple of 2 pi / 2^n, ties to even. */
static struct qasm_value wrapped_angle(double v, unsigned n) {
    double turns = v / (2 * M_PI);
    if (n) turns = ldexp(rint(ldexp(turns, (int)n)), -(int)n);
    if (n || turns < 0 || turns >= 1) turns -= floor(turns), v = turns * (2 * M_PI);
    struct qasm_value ret = qasm_real(turns < 1 ? v : 0);
    ret.type = QASM_ANGLE, ret.width = (uint8_t)n;
    return ret;
}

uint32_t qasm_table_add(struct qasm_reader *r, const struct qasm_table *t) {
    if (r->n_tables == r->cap_tables) {
        r->cap_tables = r->cap_tables ? 2 * r->cap_tables : 16;
        r->tables = qr_xreallocarray(r->tables, r->cap_tables, sizeof *r->tables);
    }
    r->tables[r->n_tables] = *t;
    return ++r->n_tables;
}

static enum qr_code convert_table(struct qasm_reader *r, uint32_t token, enum qasm_type type,
                                  unsigned width, uint32_t *table) {
    struct qasm_table t = r->tables[*table - 1];
    const struct qasm_value *from = t.values;
    enum qr_code code = QR_OK;
    t.values = qr_xcalloc((size_t)1 << t.n, sizeof *t.values);
    *table = qasm_table_add(r, &t);
    for (unsigned k = 0; k < 1u << t.n && !code; k++)
        code = qasm_convert(r, token, type, width, from[k], &t.values[k]);
    r->steps += UINT64_C(1) << t.n;
    return code;
}

enum qr_code qasm_convert(struct qasm_reader *r, uint32_t token, enum qasm_type type,
                          unsigned width, struct qasm_value v, struct qasm_value *ret) {
    *ret = v;
    if (v.kind == QASM_UNKNOWN) {
        ret->derived |= type == QASM_FLOATING || type == QASM_ANGLE;
        return v.table ? convert_table(r, token, type, width, &ret->table) : QR_OK;
    }
    if (type == QASM_FLOATING || type == QASM_ANGLE) {
        if (v.kind == QASM_SYMBOLIC) return QR_OK;
        bool pattern = type == QASM_ANGLE && v.kind == QASM_WHOLE && v.type == QASM_BIT && v.width;
        if (pattern && (v.width != width || width > 63))
            return qasm_fail(r, token, "only angle[%u] takes %u bits; convert them to it", v.width,
                             v.width);
        double number = qasm_number(v);
        if (pattern) number = ldexp(number, -(int)width) * (2 * M_PI);
        *ret =
            type == QASM_ANGLE ? wrapped_angle(number, width > 63 ? 0 : width) : qasm_real(number);
        return QR_OK;
    }
    bool truth = false;
    if (type == QASM_BOOL) {
        QR_TRY(qasm_truth(r, token, v, &truth));
        *ret = qasm_whole(truth);
        return QR_OK;
    }
    if (v.kind == QASM_REAL && v.type == QASM_ANGLE) {
        if (type != QASM_BIT || !width || width != v.width)
            return qasm_fail(
                r, token, "only angle[n] is converted to bits, and only to bit[n]; do so before");
        v.real = rint(ldexp(v.real / (2 * M_PI), (int)width));
    }
    if (v.kind == QASM_REAL && fabs(v.real) < 0x1p62) v = qasm_whole((int64_t)v.real);
    QR_TRY(qasm_integer(r, token, v, "the value", INT64_MIN, INT64_MAX, &v.whole));
    if (type == QASM_UINT && (!width || width > 63) && v.whole < 0)
        return qasm_refuse(r, token,
                           "a uint of 64 bits is limited to 0 to 2^63 - 1; use fewer bits");
    v.whole = wrapped_whole(v.whole, type, type == QASM_BIT && !width ? 1 : width);
    *ret = qasm_typed(v.whole, type, type == QASM_INT ? 0 : width > 64 ? 64 : width);
    return QR_OK;
}

/* ---- operators ---- */

static enum qr_code divide_whole(struct qasm_reader *r, uint32_t token, unsigned op, int64_t a,
                                 int64_t b, int64_t *ret) {
    if (b == 0) return qasm_fail(r, token, "division by zero; correct the divisor");
    if (a == INT64_MIN && b == -1)
        return qasm_fail(r, token, "the integer exceeds 64 bits; use float");
    if (op == '/' && r->exact && a % b)
        return qasm_refuse(r, token,
                           "in a power the division of integers drops a fraction; write 1/2 as 0.5 "
                           "or 1.0/2");
    *ret = op == '/' ? a / b : a % b;
    return QR_OK;
}

/* Returns whether the power exceeds 64 bits, the lowest of which are *ret. */
static bool power_whole(int64_t a, int64_t b, int64_t *ret) {
    bool over = false;
    int64_t v = 1;
    for (uint64_t n = (uint64_t)b; n; n >>= 1) {
        if (n & 1) over |= __builtin_mul_overflow(v, a, &v);
        if (n > 1) over |= __builtin_mul_overflow(a, a, &a);
    }
    *ret = v;
    return over;
}

static enum qr_code fail_wide(struct qasm_reader *r, uint32_t token) {
    return qasm_refuse(r, token, "the result exceeds 63 bits; use fewer bits");
}

/* uint has 64 bits */
static unsigned bits_of(struct qasm_value v) {
    return v.type == QASM_UINT && !v.width ? 64 : v.width;
}

/* The type of the result: shifts keep that of the left operand, logic that of the wider one where
 * the result fits; sums of uint have the wider one's. */
static struct qasm_value typed_result(unsigned op, struct qasm_value a, struct qasm_value b,
                                      int64_t v) {
    bool shift = op == QASM_LEFT || op == QASM_RIGHT, logic = op == '&' || op == '|' || op == '^';
    if (logic && a.type == b.type && a.width == b.width)
        return qasm_typed(v, (enum qasm_type)a.type, a.width);
    const struct qasm_value *of = shift || bits_of(a) >= bits_of(b) ? &a : &b;
    unsigned width = bits_of(*of);
    bool typed = shift || (logic && (width > 63 || v >> width == 0)) ||
                 (a.type == QASM_UINT && b.type == QASM_UINT);
    return typed && width
               ? qasm_typed(wrapped_whole(v, QASM_UINT, width), (enum qasm_type)of->type, of->width)
               : qasm_whole(v);
}

static enum qr_code whole_binary(struct qasm_reader *r, uint32_t token, unsigned op,
                                 struct qasm_value left, struct qasm_value right,
                                 struct qasm_value *ret) {
    bool over = false;
    int64_t a = left.whole, b = right.whole, v = 0;
    switch (op) {
    case '+': over = __builtin_add_overflow(a, b, &v); break;
    case '-': over = __builtin_sub_overflow(a, b, &v); break;
    case '*': over = __builtin_mul_overflow(a, b, &v); break;
    case '/':
    case '%': QR_TRY(divide_whole(r, token, op, a, b, &v)); break;
    case QASM_POWER: over = power_whole(a, b, &v); break;
    case QASM_LEFT:
        v = b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b);
        if (left.width > 63) return fail_wide(r, token);
        break;
    case QASM_RIGHT: v = b < 0 || b > 63 ? 0 : a >> b; break;
    case '&': v = a & b; break;
    case '|': v = a | b; break;
    case '^': v = a ^ b; break;
    default: return qasm_fail(r, token, "this operator is unknown");
    }
    *ret = typed_result(op, left, right, v);
    if (over && !ret->width) return qasm_fail(r, token, "the integer exceeds 64 bits; use float");
    return ret->type == QASM_UINT && ret->whole < 0 ? fail_wide(r, token) : QR_OK;
}

/* Comparisons and logic; false: op is none of these. */
static bool compare_values(unsigned op, struct qasm_value left, struct qasm_value right,
                           int64_t *ret) {
    double a = qasm_number(left), b = qasm_number(right);
    bool whole = left.kind == QASM_WHOLE && right.kind == QASM_WHOLE; /* of up to 64 bits */
    int order = whole ? (left.whole > right.whole) - (left.whole < right.whole) : (a > b) - (a < b);
    switch (op) {
    case QASM_EQUAL: *ret = order == 0; return true;
    case QASM_UNEQUAL: *ret = order != 0; return true;
    case QASM_AT_MOST: *ret = order <= 0; return true;
    case QASM_AT_LEAST: *ret = order >= 0; return true;
    case '<': *ret = order < 0; return true;
    case '>': *ret = order > 0; return true;
    case QASM_AND: *ret = a != 0 && b != 0; return true;
    case QASM_OR: *ret = a != 0 || b != 0; return true;
    default: return false;
    }
}

/* Whether a known operand of && or || has the result. */
static bool decides(unsigned op, struct qasm_value v) {
    return v.kind < QASM_SYMBOLIC &&
           ((op == QASM_AND && qasm_number(v) == 0) || (op == QASM_OR && qasm_number(v) != 0));
}

/* Whether the value is UNKNOWN because of a result that has no assumed value yet. */
static bool is_open(const struct qasm_reader *r, struct qasm_value v) {
    return v.kind == QASM_UNKNOWN && v.result && r->results[v.result - 1].assumed < 0;
}

enum qr_code qasm_need(struct qasm_reader *r, uint32_t token, struct qasm_value v,
                       const char *what) {
    const struct qasm_result *of = v.result ? &r->results[v.result - 1] : NULL;
    if (of && is_open(r, v) && r->latest[of->bit] == v.result) {
        /* The statement is executed for both values, so the message needs no place. */
        r->needed = v.result;
        return qr_fail(r->err, QR_UNIMPLEMENTED, "%s depends on a measured bit", what);
    }
    return qasm_refuse(r, token,
                       "%s depends on a measured bit by a variable, or on a bit that was measured "
                       "again; write the bits here, or before",
                       what);
}

enum qr_code qasm_binary(struct qasm_reader *r, uint32_t token, unsigned op, struct qasm_value a,
                         struct qasm_value b, struct qasm_value *ret) {
    static const struct {
        unsigned op;
        enum qr_expression_op meaning;
    } known[] = {{'+', QR_EXPRESSION_ADD},
                 {'-', QR_EXPRESSION_SUBTRACT},
                 {'*', QR_EXPRESSION_MULTIPLY},
                 {'/', QR_EXPRESSION_DIVIDE},
                 {QASM_POWER, QR_EXPRESSION_POW}};
    bool whole = a.kind == QASM_WHOLE && b.kind == QASM_WHOLE;
    *ret = qasm_whole(0);
    if (a.kind == QASM_UNKNOWN || b.kind == QASM_UNKNOWN) {
        *ret = decides(op, a)   ? qasm_whole(op == QASM_OR)
               : decides(op, b) ? qasm_whole(op == QASM_OR)
                                : qasm_derived(is_open(r, a) || b.kind != QASM_UNKNOWN ? a : b);
        return QR_OK;
    }
    bool symbolic = a.kind == QASM_SYMBOLIC || b.kind == QASM_SYMBOLIC;
    if (!symbolic && compare_values(op, a, b, &ret->whole)) return QR_OK;
    /* Numbers of OpenQASM 2 are real. */
    if (whole && !(r->version == 2 && op == '/') && !(op == QASM_POWER && b.whole < 0))
        return whole_binary(r, token, op, a, b, ret);
    if (op == '%' && !symbolic) {
        double x = qasm_number(a), y = qasm_number(b);
        if (y == 0) return qasm_fail(r, token, "division by zero; correct the divisor");
        *ret = qasm_real(x - y * trunc(x / y));
        return isfinite(ret->real)
                   ? QR_OK
                   : qasm_fail(r, token, "the result is not a finite number; correct the operands");
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].op == op) return apply_operation(r, token, known[i].meaning, a, b, ret);
    return symbolic ? qasm_refuse(r, token,
                                  "free symbols have the operators + - * / and ** alone; give the "
                                  "symbol a value")
                    : qasm_fail(r, token, "this operator takes integers; convert its operands");
}

enum qr_code qasm_unary(struct qasm_reader *r, uint32_t token, unsigned op, struct qasm_value a,
                        struct qasm_value *ret) {
    bool truth = false;
    *ret = a;
    if (a.kind == QASM_UNKNOWN) {
        *ret = qasm_derived(a);
        return QR_OK;
    }
    if (op == '-' && a.kind == QASM_WHOLE && a.whole != INT64_MIN) {
        *ret = qasm_whole(-a.whole);
        return QR_OK;
    }
    if (op == '-') return apply_operation(r, token, QR_EXPRESSION_NEGATE, a, a, ret);
    if (op == '!') {
        QR_TRY(qasm_truth(r, token, a, &truth));
        *ret = qasm_whole(!truth);
        return QR_OK;
    }
    QR_TRY(qasm_integer(r, token, a, "the operand of ~", INT64_MIN, INT64_MAX, &a.whole));
    unsigned width = a.type == QASM_BIT && !a.width ? 1 : a.width;
    if (width > 63 || (a.type == QASM_UINT && !width)) return fail_wide(r, token);
    *ret = qasm_typed(wrapped_whole(~a.whole, QASM_UINT, width), (enum qasm_type)a.type, a.width);
    return QR_OK;
}

/* ---- functions ---- */

static enum qr_code whole_function(struct qasm_reader *r, uint32_t token, const char *name,
                                   const struct qasm_value *v, struct qasm_value *ret) {
    bool floor_of = strcmp(name, "floor") == 0, mod = strcmp(name, "mod") == 0;
    if (v->kind == QASM_SYMBOLIC || (mod && v[1].kind == QASM_SYMBOLIC))
        return qasm_refuse(r, token, "%s of a free symbol has no derivative; give it a value",
                           name);
    if (strcmp(name, "popcount") == 0) {
        int64_t bits;
        QR_TRY(qasm_integer(r, token, *v, "the argument", INT64_MIN, INT64_MAX, &bits));
        if (bits < 0)
            return qasm_fail(r, token,
                             "popcount counts bits, but %lld is an int; convert it to bit[n]",
                             (long long)bits);
        *ret = qasm_whole(__builtin_popcountll((unsigned long long)bits));
        return QR_OK;
    }
    if (mod) return qasm_binary(r, token, '%', v[0], v[1], ret);
    *ret = qasm_real(floor_of ? floor(qasm_number(*v)) : ceil(qasm_number(*v)));
    return QR_OK;
}

enum qr_code qasm_function(struct qasm_reader *r, uint32_t token, const struct qasm_value *v,
                           unsigned n, struct qasm_value *ret, bool *ret_known) {
    static const char *const other_names[][2] = {
        {"arcsin", "asin"}, {"arccos", "acos"}, {"arctan", "atan"}, {"ln", "log"}};
    static const char *const whole[] = {"ceiling", "floor", "popcount", "mod"};
    char name[16];
    snprintf(name, sizeof name, "%.*s", QASM_TEXT(r, r->tokens[token].value));
    for (size_t i = 0; i < 4; i++)
        if (strcmp(name, other_names[i][0]) == 0)
            snprintf(name, sizeof name, "%s", other_names[i][1]);
    int op = 0, wanted = 0;
    while (op < QR_EXPRESSION_OPS &&
           !(qr_expression_function((enum qr_expression_op)op) &&
             strcmp(qr_expression_function((enum qr_expression_op)op), name) == 0))
        op++;
    if (op < QR_EXPRESSION_OPS) wanted = qr_expression_has_two((enum qr_expression_op)op) ? 2 : 1;
    for (size_t i = 0; i < 4; i++)
        if (strcmp(name, whole[i]) == 0) wanted = i == 3 ? 2 : 1;
    *ret_known = wanted != 0;
    if (!wanted) return QR_OK;
    if ((int)n != wanted)
        return qasm_fail(r, token, "%s takes %d argument%s, but %u are given; correct them", name,
                         wanted, wanted == 1 ? "" : "s", n);
    for (unsigned i = 0; i < n; i++)
        if (v[i].kind == QASM_UNKNOWN) {
            *ret = qasm_derived(v[i]);
            return QR_OK;
        }
    if (op == QR_EXPRESSION_POW) return qasm_binary(r, token, QASM_POWER, v[0], v[1], ret);
    return op < QR_EXPRESSION_OPS ? apply_operation(r, token, (enum qr_expression_op)op, v[0],
                                                    n > 1 ? v[1] : v[0], ret)
                                  : whole_function(r, token, name, v, ret);
}
