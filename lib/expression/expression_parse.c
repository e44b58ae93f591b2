/* Expressions from text: by recursive descent, straight into postfix order. Constants are folded
 * where an operation is appended; factors before the whole are taken off at the end. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/parse.h"
#include "expression/expression.h"

struct expression_reader {
    const char *where, *text, *at;
    const struct qr_expression_names *names;
    struct qr_expression_node node[QR_EXPRESSION_NODES];
    unsigned n, depth;
    struct qr_err *err;
};

/* Characters, not bytes, are counted. */
static size_t column_of(const struct expression_reader *r, const char *at) {
    size_t n = 1;
    for (const char *s = r->text; s < at; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static enum qr_code bad(struct expression_reader *r, const char *at, const char *fmt, ...)
    QR_PRINTF(3, 4);
static enum qr_code bad(struct expression_reader *r, const char *at, const char *fmt, ...) {
    char why[240];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: expression \"%.100s\", column %zu: %s",
                   r->where, r->text, column_of(r, at), why);
}

static void skip_blanks(struct expression_reader *r) {
    while (*r->at == ' ' || *r->at == '\t') r->at++;
}
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool begins_name(char ch) {
    return ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
           (unsigned char)ch >= 0x80;
}
static bool in_name(char ch) { return begins_name(ch) || is_digit(ch); }

/* ---- the program ---- */

static enum qr_code append(struct expression_reader *r, const char *at,
                           struct qr_expression_node node) {
    if (r->n == QR_EXPRESSION_NODES)
        return bad(r, at, "it has more than %d numbers, names and operations", QR_EXPRESSION_NODES);
    r->node[r->n++] = node;
    return QR_OK;
}

/* An operation on what stands last; left: the left operand's node, where it has two. */
static enum qr_code operate(struct expression_reader *r, const char *at, enum qr_expression_op op,
                            bool two, unsigned left) {
    struct qr_expression_node *last = &r->node[r->n - 1];
    bool constant = last->op == QR_EXPRESSION_NUMBER;
    if (two) constant = constant && left + 2 == r->n && r->node[left].op == QR_EXPRESSION_NUMBER;
    if (!constant)
        return append(r, at, (struct qr_expression_node){.op = op, .index = two ? left : 0});
    double a = two ? r->node[left].number : last->number,
           v = qr_expression_apply(op, a, last->number);
    if (!isfinite(v)) return bad(r, at, "this is not a finite number");
    r->n -= two;
    r->node[r->n - 1].number = v;
    return QR_OK;
}

/* ---- numbers and names ---- */

static enum qr_code read_number(struct expression_reader *r) {
    const char *p = r->at;
    double v;
    while (is_digit(*p) || *p == '.') p++;
    if ((*p == 'e' || *p == 'E') && (is_digit(p[1]) || ((p[1] == '+' || p[1] == '-') && p[2]))) {
        p += 2;
        while (is_digit(*p)) p++;
    }
    if (!qr_parse_double_n(r->at, (size_t)(p - r->at), &v))
        return bad(r, r->at, "'%.*s' is not a finite decimal number",
                   (int)(p - r->at > 40 ? 40 : p - r->at), r->at);
    enum qr_code code =
        append(r, r->at, (struct qr_expression_node){.op = QR_EXPRESSION_NUMBER, .number = v});
    r->at = p;
    return code;
}

/* [digits]; nothing is read where it is none. */
static bool read_index(struct expression_reader *r, uint64_t *ret) {
    const char *p = r->at;
    uint64_t i = 0;
    if (*p++ != '[' || !is_digit(*p)) return false;
    for (; is_digit(*p); p++)
        if (i < UINT32_MAX) i = 10 * i + (uint64_t)(*p - '0');
    if (*p++ != ']') return false;
    r->at = p;
    *ret = i;
    return true;
}

static enum qr_code append_input(struct expression_reader *r, const char *at, uint32_t column) {
    return append(r, at, (struct qr_expression_node){.op = QR_EXPRESSION_INPUT, .index = column});
}

static enum qr_code named_input(struct expression_reader *r, const char *at, const char *name,
                                size_t n) {
    uint32_t column;
    if (n < 1 || n > QR_EXPRESSION_NAME)
        return bad(r, at, "a column's name has 1 to %d bytes, not %zu", QR_EXPRESSION_NAME, n);
    const char *why = r->names->column ? r->names->column(r->names->context, name, n, &column)
                      : r->names->no_inputs
                          ? r->names->no_inputs
                          : "inputs have no names here; write x[0], x[1] and so on";
    return why ? bad(r, at, "x.%.*s: %s", (int)n, name, why) : append_input(r, at, column);
}

/* Behind the x: [i], .NAME or ['any name']. */
static enum qr_code read_input(struct expression_reader *r, const char *at) {
    uint64_t i;
    const char *name = r->at + 1, *end = name;
    if (*r->at == '.') {
        while (in_name(*end)) end++;
        r->at = end;
        return named_input(r, at, name, (size_t)(end - name));
    }
    if (*r->at == '[' && r->at[1] == '\'' && (end = strchr(++name, '\'')) && end[1] == ']') {
        r->at = end + 2;
        return named_input(r, at, name, (size_t)(end - name));
    }
    if (*r->at == '[' && begins_name(r->at[1]))
        return bad(r, at, "x[ ] takes a number; what a repeat counts stands in braces: x[{%.1s}]",
                   r->at + 1);
    if (!read_index(r, &i))
        return bad(r, at, "x is the inputs; write x[0], or x.NAME with a column's name");
    if (i < r->names->n_columns) return append_input(r, at, (uint32_t)i);
    if (!r->names->n_columns)
        return bad(r, at, "%s",
                   r->names->no_inputs ? r->names->no_inputs : "the circuit has no inputs");
    return bad(r, at, "there is no x[%llu], the circuit's inputs are x[0] to x[%u]",
               (unsigned long long)i, r->names->n_columns - 1);
}

/* ---- functions ---- */

static const char *const others[][2] = {
    {"arcsin", "asin"},   {"arccos", "acos"}, {"arctan", "atan"}, {"ln", "log"},
    {"power", "pow"},     {"fabs", "abs"},    {"tg", "tan"},      {"sqr", "pow(..., 2)"},
    {"arctan2", "atan2"}, {"norm", "hypot"}};

static enum qr_code unknown_function(struct expression_reader *r, const char *at,
                                     const char *name) {
    const char *known[QR_EXPRESSION_OPS], *meant = NULL, *dot = strrchr(name, '.');
    const char *bare = dot ? dot + 1 : name; /* numpy's, math's */
    size_t n = 0;
    for (int op = 0; op < QR_EXPRESSION_OPS; op++) {
        const char *function = qr_expression_function((enum qr_expression_op)op);
        if (!function) continue;
        if (strcmp(bare, function) == 0) meant = function;
        known[n++] = function;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(bare, others[i][0]) == 0) meant = others[i][1];
    if (!meant) meant = qr_nearest(bare, known, n);
    if (meant) return bad(r, at, "there is no function '%s'; did you mean %s?", name, meant);
    return bad(r, at,
               "there is no function '%s'; there are sin cos tan asin acos atan atan2 sqrt exp log "
               "pow abs hypot",
               name);
}

static enum qr_code read_sum(struct expression_reader *r);

/* One more level; brackets, functions and signs go through here. */
static enum qr_code deeper(struct expression_reader *r,
                           enum qr_code (*read)(struct expression_reader *r)) {
    if (r->depth == QR_EXPRESSION_DEPTH)
        return bad(r, r->at - 1, "more than %d brackets, functions and signs inside each other",
                   QR_EXPRESSION_DEPTH);
    r->depth++;
    enum qr_code code = read(r);
    r->depth--;
    return code;
}

static enum qr_code close_bracket(struct expression_reader *r, const char *open) {
    skip_blanks(r);
    if (*r->at == '^') return bad(r, r->at, "powers are written pow(a, b)");
    if (*r->at != ')')
        return *r->at ? bad(r, r->at, "'%.10s' makes no sense here; ) or an operation is missing",
                            r->at)
                      : bad(r, open, "this ( is never closed");
    r->at++;
    return QR_OK;
}

static enum qr_code read_call(struct expression_reader *r, const char *at,
                              enum qr_expression_op op) {
    const char *open = r->at++;
    enum qr_code code = deeper(r, read_sum);
    unsigned left = r->n - 1;
    bool two = qr_expression_has_two(op);
    if (code) return code;
    skip_blanks(r);
    if (two && *r->at != ',')
        return bad(r, r->at, "%s takes two numbers: %s(a, b)", qr_expression_function(op),
                   qr_expression_function(op));
    if (!two && *r->at == ',')
        return bad(r, r->at, "%s takes one number", qr_expression_function(op));
    if (two) {
        r->at++;
        if ((code = deeper(r, read_sum))) return code;
    }
    if ((code = close_bracket(r, open))) return code;
    return operate(r, at, op, two, left);
}

/* ---- the grammar ---- */

static enum qr_code read_word(struct expression_reader *r) {
    char name[QR_EXPRESSION_NAME + 1];
    const char *at = r->at, *p = at;
    while (in_name(*p) || (*p == '.' && begins_name(p[1]) && !(p == at + 1 && *at == 'x'))) p++;
    r->at = p;
    if (p == at + 1 && *at == 'x') return read_input(r, at);
    uint64_t i;
    bool indexed = *p == '[' && read_index(r, &i);
    size_t n = (size_t)(r->at - at);
    if (n > QR_EXPRESSION_NAME)
        return bad(r, at, "a name has at most %d bytes, not %zu", QR_EXPRESSION_NAME, n);
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    const char *behind = r->at;
    skip_blanks(r);
    bool call = *r->at == '(' && !indexed;
    for (int op = 0; op < QR_EXPRESSION_OPS; op++) {
        const char *f = qr_expression_function((enum qr_expression_op)op);
        if (!f || strcmp(f, name) != 0) continue;
        return call ? read_call(r, at, (enum qr_expression_op)op)
                    : bad(r, behind, "( must follow the function %s", f);
    }
    if (call) return unknown_function(r, at, name);
    if (strcmp(name, "pi") == 0)
        return append(r, at,
                      (struct qr_expression_node){.op = QR_EXPRESSION_NUMBER, .number = M_PI});
    if (*behind == '[')
        return bad(r, behind,
                   "[ ] takes a number; what a repeat counts stands in braces: %.40s[{i}]", name);
    if (strcasecmp(name, "nan") == 0 || strcasecmp(name, "inf") == 0 ||
        strcasecmp(name, "infinity") == 0)
        return bad(r, at, "'%s' would be a trainable weight; an angle is a finite number", name);
    const char *dot = strrchr(name, '.');
    if (strcasecmp(dot ? dot + 1 : name, "pi") == 0 || strcmp(name, "π") == 0)
        return bad(r, at, "'%s' would be a trainable weight; write pi", name);
    return append(
        r, at,
        (struct qr_expression_node){.op = QR_EXPRESSION_PARAMETER,
                                    .index = r->names->parameter(r->names->context, at, n)});
}

static enum qr_code read_unary(struct expression_reader *r) {
    skip_blanks(r);
    const char *at = r->at;
    enum qr_code code;
    if (*at == '-' || *at == '+') {
        r->at++;
        code = deeper(r, read_unary);
        return code || *at == '+' ? code : operate(r, at, QR_EXPRESSION_NEGATE, false, 0);
    }
    if (is_digit(*at) || *at == '.') return read_number(r);
    if (begins_name(*at)) return read_word(r);
    if (*at != '(')
        return bad(r, at,
                   *at ? "'%.10s' makes no sense here; a number, a name or ( must stand here"
                       : "a number, a name or ( must stand here%s",
                   at);
    r->at++;
    if ((code = deeper(r, read_sum))) return code;
    return close_bracket(r, at);
}

/* Operands of what reads them, joined from left to right by one of two signs. */
static enum qr_code read_joined(struct expression_reader *r,
                                enum qr_code (*operand)(struct expression_reader *r),
                                const char signs[2], enum qr_expression_op first) {
    enum qr_code code = operand(r);
    while (!code) {
        skip_blanks(r);
        const char *at = r->at;
        if (*at != signs[0] && *at != signs[1]) return QR_OK;
        if (at[0] == '*' && at[1] == '*') return bad(r, at, "powers are written pow(a, b)");
        unsigned left = r->n - 1;
        r->at++;
        code = operand(r);
        if (!code) code = operate(r, at, first + (*at == signs[1]), true, left);
    }
    return code;
}

static enum qr_code read_product(struct expression_reader *r) {
    return read_joined(r, read_unary, "*/", QR_EXPRESSION_MULTIPLY);
}
static enum qr_code read_sum(struct expression_reader *r) {
    return read_joined(r, read_product, "+-", QR_EXPRESSION_ADD);
}

/* ---- the scale ---- */

/* Takes the first node off. */
static void drop_first(struct expression_reader *r) {
    r->n--;
    for (unsigned i = 0; i < r->n; i++) {
        r->node[i] = r->node[i + 1];
        if (r->node[i].index && r->node[i].op >= QR_EXPRESSION_ADD) r->node[i].index--;
    }
}

/* Takes constant factors off what stands before, between and behind; their product. */
static double take_scale(struct expression_reader *r) {
    const struct qr_expression_node *last = &r->node[r->n - 1];
    bool product = last->op == QR_EXPRESSION_MULTIPLY, by = last->op == QR_EXPRESSION_DIVIDE;
    if (last->op == QR_EXPRESSION_NEGATE) {
        r->n--;
        return -take_scale(r);
    }
    if ((product || by) && r->node[r->n - 2].op == QR_EXPRESSION_NUMBER) {
        double c = r->node[r->n - 2].number;
        r->n -= 2;
        return product ? take_scale(r) * c : take_scale(r) / c;
    }
    if (product && last->index == 0 && r->node[0].op == QR_EXPRESSION_NUMBER) {
        double c = r->node[0].number;
        r->n--;
        drop_first(r);
        return c * take_scale(r);
    }
    return 1;
}

enum qr_code qr_expression_parse(const char *text, const char *where,
                                 const struct qr_expression_names *names, double *ret_scale,
                                 struct qr_expression *ret, struct qr_err *err) {
    struct expression_reader r = {
        .where = where, .text = text, .at = text, .names = names, .err = err};
    size_t bytes = strlen(text);
    if (bytes > QR_EXPRESSION_BYTES)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: an expression has at most %d bytes, not %zu",
                       where, QR_EXPRESSION_BYTES, bytes);
    enum qr_code code = read_sum(&r);
    if (code) return code;
    if (*r.at)
        return *r.at == '^' ? bad(&r, r.at, "powers are written pow(a, b)")
                            : bad(&r, r.at,
                                  "'%.10s' makes no sense here; an operation (+ - * /) "
                                  "must stand between two numbers",
                                  r.at);
    double scale = take_scale(&r);
    if (!isfinite(scale)) return bad(&r, text, "its constant factor is not a finite number");
    *ret_scale = scale;
    *ret = (struct qr_expression){.n = r.n, .node = qr_xcalloc(r.n, sizeof *r.node)};
    memcpy(ret->node, r.node, r.n * sizeof *r.node);
    return QR_OK;
}
