/* expression/expression.c — values, derivatives and text of expressions. Start reading at
 * qr_expression_value(). */
#include "expression/expression.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "exact/functions.h"

/* ---- programs ---- */

void qr_expression_fini(struct qr_expression *e) {
    free(e->node);
    *e = (struct qr_expression){0};
}

struct qr_expression qr_expression_copy(const struct qr_expression *e) {
    struct qr_expression copy = {.n = e->n, .node = qr_xcalloc(e->n, sizeof *e->node)};
    memcpy(copy.node, e->node, e->n * sizeof *e->node);
    return copy;
}

bool qr_expression_equal(const struct qr_expression *a, const struct qr_expression *b) {
    if (a->n != b->n) return false;
    for (unsigned i = 0; i < a->n; i++)
        if (a->node[i].op != b->node[i].op || a->node[i].index != b->node[i].index ||
            qr_bits_of_double(a->node[i].number) != qr_bits_of_double(b->node[i].number))
            return false;
    return true;
}

/* ---- values ---- */

double qr_expression_apply(enum qr_expression_op op, double a, double b) {
    switch (op) {
    case QR_EXPRESSION_ADD: return a + b;
    case QR_EXPRESSION_SUBTRACT: return a - b;
    case QR_EXPRESSION_MULTIPLY: return a * b;
    case QR_EXPRESSION_DIVIDE: return a / b;
    case QR_EXPRESSION_NEGATE: return -a;
    case QR_EXPRESSION_POW: return qr_pow(a, b);
    case QR_EXPRESSION_ATAN2: return qr_atan2(a, b);
    case QR_EXPRESSION_HYPOT: return qr_hypot(a, b);
    case QR_EXPRESSION_SIN: return qr_sin(a);
    case QR_EXPRESSION_COS: return qr_cos(a);
    case QR_EXPRESSION_TAN: return qr_tan(a);
    case QR_EXPRESSION_ASIN: return qr_asin(a);
    case QR_EXPRESSION_ACOS: return qr_acos(a);
    case QR_EXPRESSION_ATAN: return qr_atan(a);
    case QR_EXPRESSION_SQRT: return sqrt(a);
    case QR_EXPRESSION_EXP: return qr_exp(a);
    case QR_EXPRESSION_LOG: return qr_log(a);
    case QR_EXPRESSION_ABS: return fabs(a);
    default: QR_ASSERT(false);
    }
    return (double)NAN;
}

bool qr_expression_has_two(enum qr_expression_op op) {
    return op >= QR_EXPRESSION_ADD && op <= QR_EXPRESSION_HYPOT && op != QR_EXPRESSION_NEGATE;
}

/* The value of node i, from those of the nodes before it. */
static double node_value(const struct qr_expression_node *node, unsigned i, const double *v,
                         const double *theta, const double *x) {
    switch (node[i].op) {
    case QR_EXPRESSION_NUMBER: return node[i].number;
    case QR_EXPRESSION_PARAMETER: return theta[node[i].index];
    case QR_EXPRESSION_INPUT:
    case QR_EXPRESSION_SHARED: return x[node[i].index];
    default:
        return qr_expression_has_two(node[i].op)
                   ? qr_expression_apply(node[i].op, v[node[i].index], v[i - 1])
                   : qr_expression_apply(node[i].op, v[i - 1], 0);
    }
}

double qr_expression_value(const struct qr_expression *e, const double *theta, const double *x) {
    QR_RAW double v[QR_EXPRESSION_NODES];
    for (unsigned i = 0; i < e->n; i++) v[i] = node_value(e->node, i, v, theta, x);
    return v[e->n - 1];
}

/* ---- derivatives ---- */

/* The derivative of y = f(a). */
static double derivative_of(enum qr_expression_op op, double a, double y) {
    switch (op) {
    case QR_EXPRESSION_NEGATE: return -1;
    case QR_EXPRESSION_SIN: return qr_cos(a);
    case QR_EXPRESSION_COS: return -qr_sin(a);
    case QR_EXPRESSION_TAN: return 1 + y * y;
    case QR_EXPRESSION_ASIN: return 1 / sqrt((1 - a) * (1 + a));
    case QR_EXPRESSION_ACOS: return -1 / sqrt((1 - a) * (1 + a));
    case QR_EXPRESSION_ATAN: return 1 / (1 + a * a);
    case QR_EXPRESSION_SQRT: return 0.5 / y;
    case QR_EXPRESSION_EXP: return y;
    case QR_EXPRESSION_LOG: return 1 / a;
    case QR_EXPRESSION_ABS: return a > 0 ? 1 : a < 0 ? -1 : 0;
    default: QR_ASSERT(false);
    }
    return (double)NAN;
}

/* The derivatives of y = a^b. Where y is 0, it is 0 for slightly different b too. */
static void pow_derivatives(double a, double b, double y, double *ret_a, double *ret_b) {
    *ret_a = b == 0 ? 0 : b * qr_pow(a, b - 1);
    *ret_b = y == 0 ? 0 : y * qr_log(a);
}

/* The derivatives of atan2(a, b). Dividing by the larger operand first avoids overflow. */
static void atan2_derivatives(double a, double b, double *ret_a, double *ret_b) {
    double most = fabs(a) < fabs(b) ? fabs(b) : fabs(a), u = a / most, v = b / most;
    bool origin = a == 0 && b == 0;
    *ret_a = origin ? 0 : v / (u * u + v * v) / most;
    *ret_b = origin ? 0 : -(u / (u * u + v * v) / most);
}

double qr_expression_derivatives(const struct qr_expression *e, const double *theta,
                                 const double *x, double ret_d[QR_EXPRESSION_NODES]) {
    QR_RAW double v[QR_EXPRESSION_NODES];
    for (unsigned i = 0; i < e->n; i++) {
        v[i] = node_value(e->node, i, v, theta, x);
        ret_d[i] = 0;
    }
    ret_d[e->n - 1] = 1;
    /* Each node is an operand once, so its derivative is complete when it is visited. */
    for (unsigned i = e->n; i-- > 0;) {
        const struct qr_expression_node *node = &e->node[i];
        double d = ret_d[i], a, b;
        unsigned left = node->index, right = i - 1;
        switch (node->op) {
        case QR_EXPRESSION_NUMBER:
        case QR_EXPRESSION_PARAMETER:
        case QR_EXPRESSION_INPUT:
        case QR_EXPRESSION_SHARED: break;
        case QR_EXPRESSION_ADD: ret_d[left] = ret_d[right] = d; break;
        case QR_EXPRESSION_SUBTRACT:
            ret_d[left] = d;
            ret_d[right] = -d;
            break;
        case QR_EXPRESSION_MULTIPLY:
            ret_d[left] = d * v[right];
            ret_d[right] = d * v[left];
            break;
        case QR_EXPRESSION_DIVIDE:
            ret_d[left] = d / v[right];
            ret_d[right] = -(d * v[i] / v[right]);
            break;
        case QR_EXPRESSION_POW:
            pow_derivatives(v[left], v[right], v[i], &a, &b);
            ret_d[left] = d * a;
            ret_d[right] = d * b;
            break;
        case QR_EXPRESSION_ATAN2:
            atan2_derivatives(v[left], v[right], &a, &b);
            ret_d[left] = d * a;
            ret_d[right] = d * b;
            break;
        case QR_EXPRESSION_HYPOT:
            ret_d[left] = v[i] == 0 ? 0 : d * (v[left] / v[i]);
            ret_d[right] = v[i] == 0 ? 0 : d * (v[right] / v[i]);
            break;
        default: ret_d[right] = d * derivative_of(node->op, v[right], v[i]);
        }
    }
    return v[e->n - 1];
}

/* ---- text ---- */

static const char *const functions[QR_EXPRESSION_OPS] = {
    [QR_EXPRESSION_POW] = "pow",   [QR_EXPRESSION_ATAN2] = "atan2", [QR_EXPRESSION_HYPOT] = "hypot",
    [QR_EXPRESSION_SIN] = "sin",   [QR_EXPRESSION_COS] = "cos",     [QR_EXPRESSION_TAN] = "tan",
    [QR_EXPRESSION_ASIN] = "asin", [QR_EXPRESSION_ACOS] = "acos",   [QR_EXPRESSION_ATAN] = "atan",
    [QR_EXPRESSION_SQRT] = "sqrt", [QR_EXPRESSION_EXP] = "exp",     [QR_EXPRESSION_LOG] = "log",
    [QR_EXPRESSION_ABS] = "abs"};

const char *qr_expression_function(enum qr_expression_op op) { return functions[op]; }

struct expression_printer {
    const struct qr_expression_node *node;
    const struct qr_expression_style *style;
    struct qr_buf *to;
};

static void print_number(const struct expression_printer *p, double v) {
    char text[32];
    qr_number_text(v, text);
    if (p->style->round) snprintf(text, sizeof text, "%.6g", v);
    qr_buf_puts(p->to, text);
}

static void print_input(const struct expression_printer *p, uint32_t i) {
    const char *name = p->style->columns ? p->style->columns[i] : NULL;
    if (!name) {
        qr_buf_printf(p->to, "x[%u]", i);
        return;
    }
    bool plain = *name != 0;
    for (const char *s = name; *s; s++)
        plain &= *s == '_' || (unsigned char)*s >= 0x80 || (*s >= '0' && *s <= '9') ||
                 (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z');
    qr_buf_printf(p->to, p->style->functions ? "%s" : plain ? "x.%s" : "x['%s']", name);
}

/* How tightly an operation binds. */
enum { SUM = 1, PRODUCT, SIGN, WHOLE, POWER };
static int precedence(const struct expression_printer *p, const struct qr_expression_node *n) {
    switch (n->op) {
    case QR_EXPRESSION_ADD:
    case QR_EXPRESSION_SUBTRACT: return SUM;
    case QR_EXPRESSION_MULTIPLY:
    case QR_EXPRESSION_DIVIDE: return PRODUCT;
    case QR_EXPRESSION_NEGATE: return SIGN;
    case QR_EXPRESSION_POW: return p->style->functions ? WHOLE : POWER;
    case QR_EXPRESSION_NUMBER: return n->number < 0 ? WHOLE : POWER;
    default: return POWER;
    }
}

static void print_node(const struct expression_printer *p, unsigned i, int least);

static void print_operation(const struct expression_printer *p, unsigned i) {
    static const char *const between[] = {[QR_EXPRESSION_ADD] = " + ",
                                          [QR_EXPRESSION_SUBTRACT] = " - ",
                                          [QR_EXPRESSION_MULTIPLY] = "*",
                                          [QR_EXPRESSION_DIVIDE] = "/"};
    const struct qr_expression_node *n = &p->node[i];
    const char *function = p->style->functions ? p->style->functions[n->op] : functions[n->op];
    if (function && strcmp(function, "**") == 0) {
        print_node(p, n->index, POWER);
        qr_buf_puts(p->to, "**");
        print_node(p, i - 1, POWER);
    } else if (function) {
        qr_buf_printf(p->to, "%s(", function);
        if (qr_expression_has_two(n->op)) {
            print_node(p, n->index, SUM);
            qr_buf_puts(p->to, ", ");
        }
        print_node(p, i - 1, SUM);
        qr_buf_puts(p->to, ")");
    } else if (n->op == QR_EXPRESSION_NEGATE) {
        qr_buf_puts(p->to, "-");
        print_node(p, i - 1, SIGN);
    } else {
        print_node(p, n->index, precedence(p, n));
        qr_buf_puts(p->to, between[n->op]);
        print_node(p, i - 1, precedence(p, n) + 1);
    }
}

static void print_node(const struct expression_printer *p, unsigned i, int least) {
    const struct qr_expression_node *n = &p->node[i];
    bool brackets = precedence(p, n) < least;
    if (brackets) qr_buf_puts(p->to, "(");
    if (n->op == QR_EXPRESSION_NUMBER) print_number(p, n->number);
    else if (n->op == QR_EXPRESSION_INPUT) print_input(p, n->index);
    else if (n->op == QR_EXPRESSION_SHARED)
        qr_buf_printf(p->to, "%s%u", p->style->shared ? p->style->shared : "#", n->index);
    else if (n->op == QR_EXPRESSION_PARAMETER && p->style->parameters)
        qr_buf_puts(p->to, p->style->parameters[n->index]);
    else if (n->op == QR_EXPRESSION_PARAMETER) qr_buf_printf(p->to, "p%u", n->index);
    else print_operation(p, i);
    if (brackets) qr_buf_puts(p->to, ")");
}

void qr_expression_print(const struct qr_expression *e, double scale,
                         const struct qr_expression_style *style, struct qr_buf *to) {
    static const struct qr_expression_style plain = {.parameters = NULL};
    struct expression_printer p = {e->node, style ? style : &plain, to};
    if (scale == -1) qr_buf_puts(to, "-");
    else if (scale != 1) {
        print_number(&p, scale);
        qr_buf_puts(to, "*");
    }
    print_node(&p, e->n - 1, scale == 1 ? SUM : SIGN);
}
