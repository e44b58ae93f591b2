/* expression/expression_parse.c — parses expressions by recursive descent, directly into postfix
 * order. Constants are folded where an operation is appended; constant factors are removed at the
 * end. Start reading at qr_expression_parse(). */
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

/* Counts characters, not bytes. */
static size_t parse_column(const struct expression_reader *r, const char *at) {
    size_t n = 1;
    for (const char *s = r->text; s < at; s++) n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

static enum qr_code parse_fail(struct expression_reader *r, const char *at, const char *fmt, ...)
    QR_PRINTF(3, 4);
static enum qr_code parse_fail(struct expression_reader *r, const char *at, const char *fmt, ...) {
    char why[240];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: expression \"%.100s\", column %zu: %s",
                   r->where, r->text, parse_column(r, at), why);
}

static void parse_skip_blanks(struct expression_reader *r) {
    while (*r->at == ' ' || *r->at == '\t') r->at++;
}
static bool parse_is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool parse_is_letter(char ch) {
    return ch == '_' || (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
           (unsigned char)ch >= 0x80;
}
static bool parse_in_name(char ch) { return parse_is_letter(ch) || parse_is_digit(ch); }

/* ---- the program ---- */

static enum qr_code append_node(struct expression_reader *r, const char *at,
                                struct qr_expression_node node) {
    if (r->n == QR_EXPRESSION_NODES)
        return parse_fail(r, at, "more than %d numbers, names and operations", QR_EXPRESSION_NODES);
    r->node[r->n++] = node;
    return QR_OK;
}

/* Appends an operation on the last node; left: the left operand's node, where it has two. */
static enum qr_code append_operation(struct expression_reader *r, const char *at,
                                     enum qr_expression_op op, bool two, unsigned left) {
    struct qr_expression_node *last = &r->node[r->n - 1];
    bool constant = last->op == QR_EXPRESSION_NUMBER;
    if (two) constant = constant && left + 2 == r->n && r->node[left].op == QR_EXPRESSION_NUMBER;
    if (!constant)
        return append_node(r, at, (struct qr_expression_node){.op = op, .index = two ? left : 0});
    double a = two ? r->node[left].number : last->number,
           v = qr_expression_apply(op, a, last->number);
    if (!isfinite(v)) return parse_fail(r, at, "the result is not a finite number");
    r->n -= two;
    r->node[r->n - 1].number = v;
    return QR_OK;
}

/* ---- numbers and names ---- */

static enum qr_code parse_number(struct expression_reader *r) {
    const char *p = r->at;
    double v;
    while (parse_is_digit(*p) || *p == '.') p++;
    if ((*p == 'e' || *p == 'E') &&
        (parse_is_digit(p[1]) || ((p[1] == '+' || p[1] == '-') && p[2]))) {
        p += 2;
        while (parse_is_digit(*p)) p++;
    }
    if (!qr_parse_double_n(r->at, (size_t)(p - r->at), &v))
        return parse_fail(r, r->at, "'%.*s' is not a finite decimal number",
                          (int)(p - r->at > 40 ? 40 : p - r->at), r->at);
    enum qr_code code =
        append_node(r, r->at, (struct qr_expression_node){.op = QR_EXPRESSION_NUMBER, .number = v});
    r->at = p;
    return code;
}

/* Reads [digits]; leaves the position unchanged when there is no index. */
static bool parse_index(struct expression_reader *r, uint64_t *ret) {
    const char *p = r->at;
    uint64_t i = 0;
    if (*p++ != '[' || !parse_is_digit(*p)) return false;
    for (; parse_is_digit(*p); p++)
        if (i < UINT32_MAX) i = 10 * i + (uint64_t)(*p - '0');
    if (*p++ != ']') return false;
    r->at = p;
    *ret = i;
    return true;
}

static enum qr_code append_input(struct expression_reader *r, const char *at, uint32_t column) {
    return append_node(r, at,
                       (struct qr_expression_node){.op = QR_EXPRESSION_INPUT, .index = column});
}

static enum qr_code append_named_input(struct expression_reader *r, const char *at,
                                       const char *name, size_t n) {
    uint32_t column;
    if (n < 1 || n > QR_EXPRESSION_NAME)
        return parse_fail(r, at, "a column's name has 1 to %d bytes, not %zu", QR_EXPRESSION_NAME,
                          n);
    const char *why = r->names->column ? r->names->column(r->names->context, name, n, &column)
                      : r->names->no_inputs
                          ? r->names->no_inputs
                          : "inputs have no names here; write x[0], x[1] and so on";
    return why ? parse_fail(r, at, "x.%.*s: %s", (int)n, name, why) : append_input(r, at, column);
}

/* After the x: [i], .NAME or ['any name']. */
static enum qr_code parse_input(struct expression_reader *r, const char *at) {
    uint64_t i;
    const char *name = r->at + 1, *end = name;
    if (*r->at == '.') {
        while (parse_in_name(*end)) end++;
        r->at = end;
        return append_named_input(r, at, name, (size_t)(end - name));
    }
    if (*r->at == '[' && r->at[1] == '\'' && (end = strchr(++name, '\'')) && end[1] == ']') {
        r->at = end + 2;
        return append_named_input(r, at, name, (size_t)(end - name));
    }
    if (*r->at == '[' && parse_is_letter(r->at[1]))
        return parse_fail(r, at,
                          "x[ ] takes a number; write the index of a repeat in braces: x[{%.1s}]",
                          r->at + 1);
    if (*r->at == '[' && !strchr(r->at, ']')) return parse_fail(r, at, "the ] of x[ is missing");
    if (!parse_index(r, &i))
        return parse_fail(r, at, "x is the inputs; write x[0], or x.NAME with a column's name");
    if (i < r->names->n_columns) return append_input(r, at, (uint32_t)i);
    if (!r->names->n_columns)
        return parse_fail(r, at, "%s",
                          r->names->no_inputs ? r->names->no_inputs : "the circuit has no inputs");
    return parse_fail(r, at, "there is no x[%llu], the circuit's inputs are x[0] to x[%u]",
                      (unsigned long long)i, r->names->n_columns - 1);
}

/* ---- functions ---- */

static const char *const others[][2] = {
    {"arcsin", "asin"},   {"arccos", "acos"}, {"arctan", "atan"}, {"ln", "log"},
    {"power", "pow"},     {"fabs", "abs"},    {"tg", "tan"},      {"sqr", "pow(..., 2)"},
    {"arctan2", "atan2"}, {"norm", "hypot"}};

static enum qr_code fail_unknown_function(struct expression_reader *r, const char *at,
                                          const char *name) {
    const char *known[QR_EXPRESSION_OPS], *suggestion = NULL, *dot = strrchr(name, '.');
    const char *bare = dot ? dot + 1 : name; /* numpy's, math's */
    size_t n = 0;
    for (int op = 0; op < QR_EXPRESSION_OPS; op++) {
        const char *function = qr_expression_function((enum qr_expression_op)op);
        if (!function) continue;
        if (strcmp(bare, function) == 0) suggestion = function;
        known[n++] = function;
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(bare, others[i][0]) == 0) suggestion = others[i][1];
    if (!suggestion) suggestion = qr_nearest(bare, known, n);
    if (suggestion)
        return parse_fail(r, at, "there is no function '%s'; did you mean %s?", name, suggestion);
    return parse_fail(
        r, at,
        "there is no function '%s'; there are sin cos tan asin acos atan atan2 sqrt exp log "
        "pow abs hypot",
        name);
}

static enum qr_code parse_sum(struct expression_reader *r);

/* Parses one level deeper; brackets, functions and signs use this function. */
static enum qr_code parse_nested(struct expression_reader *r,
                                 enum qr_code (*read)(struct expression_reader *r)) {
    if (r->depth == QR_EXPRESSION_DEPTH)
        return parse_fail(r, r->at - 1, "more than %d nested brackets, functions and signs",
                          QR_EXPRESSION_DEPTH);
    r->depth++;
    enum qr_code code = read(r);
    r->depth--;
    return code;
}

static enum qr_code parse_close_bracket(struct expression_reader *r, const char *open) {
    parse_skip_blanks(r);
    if (*r->at == '^') return parse_fail(r, r->at, "powers are written pow(a, b)");
    if (*r->at != ')')
        return *r->at ? parse_fail(r, r->at, "unexpected '%.10s'; expected ) or an operator", r->at)
                      : parse_fail(r, open, "this ( is not closed");
    r->at++;
    return QR_OK;
}

static enum qr_code parse_call(struct expression_reader *r, const char *at,
                               enum qr_expression_op op) {
    const char *open = r->at++;
    enum qr_code code = parse_nested(r, parse_sum);
    unsigned left = r->n - 1;
    bool two = qr_expression_has_two(op);
    if (code) return code;
    parse_skip_blanks(r);
    if (two && *r->at != ',')
        return parse_fail(r, r->at, "%s takes two numbers: %s(a, b)", qr_expression_function(op),
                          qr_expression_function(op));
    if (!two && *r->at == ',')
        return parse_fail(r, r->at, "%s takes one number", qr_expression_function(op));
    if (two) {
        r->at++;
        if ((code = parse_nested(r, parse_sum))) return code;
    }
    if ((code = parse_close_bracket(r, open))) return code;
    return append_operation(r, at, op, two, left);
}

/* ---- the grammar ---- */

static enum qr_code parse_word(struct expression_reader *r) {
    char name[QR_EXPRESSION_NAME + 1];
    const char *at = r->at, *p = at;
    while (parse_in_name(*p) ||
           (*p == '.' && parse_is_letter(p[1]) && !(p == at + 1 && *at == 'x')))
        p++;
    r->at = p;
    if (p == at + 1 && *at == 'x') return parse_input(r, at);
    uint64_t i;
    bool indexed = *p == '[' && parse_index(r, &i);
    size_t n = (size_t)(r->at - at);
    if (n > QR_EXPRESSION_NAME)
        return parse_fail(r, at, "a name has at most %d bytes, not %zu", QR_EXPRESSION_NAME, n);
    snprintf(name, sizeof name, "%.*s", (int)n, at);
    const char *after = r->at;
    parse_skip_blanks(r);
    bool call = *r->at == '(' && !indexed;
    for (int op = 0; op < QR_EXPRESSION_OPS; op++) {
        const char *f = qr_expression_function((enum qr_expression_op)op);
        if (!f || strcmp(f, name) != 0) continue;
        return call ? parse_call(r, at, (enum qr_expression_op)op)
                    : parse_fail(r, after, "( must follow the function %s", f);
    }
    if (call) return fail_unknown_function(r, at, name);
    if (strcmp(name, "pi") == 0)
        return append_node(r, at,
                           (struct qr_expression_node){.op = QR_EXPRESSION_NUMBER, .number = M_PI});
    if (*after == '[')
        return parse_fail(r, after,
                          "[ ] takes a number; write the index of a repeat in braces: %.40s[{i}]",
                          name);
    if (strcasecmp(name, "nan") == 0 || strcasecmp(name, "inf") == 0 ||
        strcasecmp(name, "infinity") == 0)
        return parse_fail(r, at, "'%s' would be a trainable weight; an angle is a finite number",
                          name);
    const char *dot = strrchr(name, '.');
    if (strcasecmp(dot ? dot + 1 : name, "pi") == 0 || strcmp(name, "π") == 0)
        return parse_fail(r, at, "'%s' would be a trainable weight; write pi", name);
    return append_node(
        r, at,
        (struct qr_expression_node){.op = QR_EXPRESSION_PARAMETER,
                                    .index = r->names->parameter(r->names->context, at, n)});
}

static enum qr_code parse_unary(struct expression_reader *r) {
    parse_skip_blanks(r);
    const char *at = r->at;
    enum qr_code code;
    if (*at == '-' || *at == '+') {
        r->at++;
        code = parse_nested(r, parse_unary);
        return code || *at == '+' ? code : append_operation(r, at, QR_EXPRESSION_NEGATE, false, 0);
    }
    if (parse_is_digit(*at) || *at == '.') return parse_number(r);
    if (parse_is_letter(*at)) return parse_word(r);
    if (*at != '(')
        return parse_fail(r, at,
                          *at ? "unexpected '%.10s'; expected a number, a name or ("
                              : "expected a number, a name or (%s",
                          at);
    r->at++;
    if ((code = parse_nested(r, parse_sum))) return code;
    return parse_close_bracket(r, at);
}

/* Operands joined from left to right by one of two signs. */
static enum qr_code parse_joined(struct expression_reader *r,
                                 enum qr_code (*operand)(struct expression_reader *r),
                                 const char signs[2], enum qr_expression_op first) {
    enum qr_code code = operand(r);
    while (!code) {
        parse_skip_blanks(r);
        const char *at = r->at;
        if (*at != signs[0] && *at != signs[1]) return QR_OK;
        if (at[0] == '*' && at[1] == '*') return parse_fail(r, at, "powers are written pow(a, b)");
        unsigned left = r->n - 1;
        r->at++;
        code = operand(r);
        if (!code) code = append_operation(r, at, first + (*at == signs[1]), true, left);
    }
    return code;
}

static enum qr_code parse_product(struct expression_reader *r) {
    return parse_joined(r, parse_unary, "*/", QR_EXPRESSION_MULTIPLY);
}
static enum qr_code parse_sum(struct expression_reader *r) {
    return parse_joined(r, parse_product, "+-", QR_EXPRESSION_ADD);
}

/* ---- the scale ---- */

/* Removes the first node. */
static void remove_first_node(struct expression_reader *r) {
    r->n--;
    for (unsigned i = 0; i < r->n; i++) {
        r->node[i] = r->node[i + 1];
        if (r->node[i].index && r->node[i].op >= QR_EXPRESSION_ADD) r->node[i].index--;
    }
}

/* Removes constant factors from the front, the inside and the end; returns their product. */
static double extract_scale(struct expression_reader *r) {
    const struct qr_expression_node *last = &r->node[r->n - 1];
    bool product = last->op == QR_EXPRESSION_MULTIPLY, by = last->op == QR_EXPRESSION_DIVIDE;
    if (last->op == QR_EXPRESSION_NEGATE) {
        r->n--;
        return -extract_scale(r);
    }
    if ((product || by) && r->node[r->n - 2].op == QR_EXPRESSION_NUMBER) {
        double c = r->node[r->n - 2].number;
        r->n -= 2;
        return product ? extract_scale(r) * c : extract_scale(r) / c;
    }
    if (product && last->index == 0 && r->node[0].op == QR_EXPRESSION_NUMBER) {
        double c = r->node[0].number;
        r->n--;
        remove_first_node(r);
        return c * extract_scale(r);
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
    QR_TRY(parse_sum(&r));
    if (*r.at)
        return *r.at == '^' ? parse_fail(&r, r.at, "powers are written pow(a, b)")
                            : parse_fail(&r, r.at,
                                         "unexpected '%.10s'; expected an operator (+ - * /) "
                                         "between two numbers",
                                         r.at);
    double scale = extract_scale(&r);
    if (!isfinite(scale)) return parse_fail(&r, text, "the constant factor is not a finite number");
    *ret_scale = scale;
    *ret = (struct qr_expression){.n = r.n, .node = qr_xcalloc(r.n, sizeof *r.node)};
    memcpy(ret->node, r.node, r.n * sizeof *r.node);
    return QR_OK;
}

static uint32_t keep_length(void *length, const char *name, size_t n) {
    (void)name;
    *(size_t *)length = n;
    return 0;
}

bool qr_expression_is_name(const char *text) {
    size_t n = 0;
    double scale;
    struct qr_expression e;
    const struct qr_expression_names names = {.context = &n, .parameter = keep_length};
    if (qr_expression_parse(text, "", &names, &scale, &e, QR_IGNORED)) return false;
    bool ret = e.n == 1 && e.node->op == QR_EXPRESSION_PARAMETER && n == strlen(text);
    qr_expression_fini(&e);
    return ret;
}
