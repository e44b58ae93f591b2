/* tests/ref/expression.c — forward differentiation of expressions. Start reading at walk. */
#include "tests/ref/expression.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A value and its derivative. */
struct dual {
    long double v, d;
};
struct walk {
    const struct qr_circuit *c;
    const struct qr_expression_node *node;
    const double *theta, *x;
    enum qr_expression_op by;
    uint32_t index;
};

static struct dual chain(struct dual a, long double v, long double slope) {
    return (struct dual){v, a.d * slope};
}

static struct dual function(enum qr_expression_op op, struct dual a) {
    switch (op) {
    case QR_EXPRESSION_NEGATE: return (struct dual){-a.v, -a.d};
    case QR_EXPRESSION_SIN: return chain(a, sinl(a.v), cosl(a.v));
    case QR_EXPRESSION_COS: return chain(a, cosl(a.v), -sinl(a.v));
    case QR_EXPRESSION_TAN: return chain(a, tanl(a.v), 1 / (cosl(a.v) * cosl(a.v)));
    case QR_EXPRESSION_ASIN: return chain(a, asinl(a.v), 1 / sqrtl(1 - a.v * a.v));
    case QR_EXPRESSION_ACOS: return chain(a, acosl(a.v), -1 / sqrtl(1 - a.v * a.v));
    case QR_EXPRESSION_ATAN: return chain(a, atanl(a.v), 1 / (1 + a.v * a.v));
    case QR_EXPRESSION_SQRT: return chain(a, sqrtl(a.v), 0.5L / sqrtl(a.v));
    case QR_EXPRESSION_EXP: return chain(a, expl(a.v), expl(a.v));
    case QR_EXPRESSION_LOG: return chain(a, logl(a.v), 1 / a.v);
    case QR_EXPRESSION_ABS: return a.v < 0 ? (struct dual){-a.v, -a.d} : a;
    default: fprintf(stderr, "expression: no function %d\n", (int)op); abort();
    }
}

/* Angle or length. If a and b are 0, the value and the derivative are defined as 0. */
static struct dual of_pair(enum qr_expression_op op, struct dual a, struct dual b) {
    long double square = a.v * a.v + b.v * b.v, length = sqrtl(square);
    if (square == 0) return (struct dual){0, 0};
    if (op == QR_EXPRESSION_HYPOT) return (struct dual){length, (a.v * a.d + b.v * b.d) / length};
    return (struct dual){atan2l(a.v, b.v), (a.d * b.v - a.v * b.d) / square};
}

static struct dual walk(const struct walk *w, unsigned i) {
    const struct qr_expression_node *n = &w->node[i];
    bool here = n->op == w->by && n->index == w->index;
    if (n->op == QR_EXPRESSION_NUMBER) return (struct dual){n->number, 0};
    if (n->op == QR_EXPRESSION_PARAMETER) return (struct dual){w->theta[n->index], here};
    if (n->op == QR_EXPRESSION_INPUT) return (struct dual){w->x[n->index], here};
    if (n->op == QR_EXPRESSION_SHARED) {
        struct walk other = *w;
        other.node = w->c->expressions[n->index].node;
        return walk(&other, w->c->expressions[n->index].n - 1);
    }
    struct dual b = walk(w, i - 1), a;
    if (n->op >= QR_EXPRESSION_SIN || n->op == QR_EXPRESSION_NEGATE) return function(n->op, b);
    a = walk(w, n->index);
    switch (n->op) {
    case QR_EXPRESSION_ADD: return (struct dual){a.v + b.v, a.d + b.d};
    case QR_EXPRESSION_SUBTRACT: return (struct dual){a.v - b.v, a.d - b.d};
    case QR_EXPRESSION_MULTIPLY: return (struct dual){a.v * b.v, a.d * b.v + a.v * b.d};
    case QR_EXPRESSION_DIVIDE:
        return (struct dual){a.v / b.v, (a.d * b.v - a.v * b.d) / (b.v * b.v)};
    case QR_EXPRESSION_ATAN2:
    case QR_EXPRESSION_HYPOT: return of_pair(n->op, a, b);
    default: { /* a may be negative, if b is an integer */
        long double v = powl(a.v, b.v), by_b = b.d != 0 ? v * logl(a.v) * b.d : 0;
        return (struct dual){v, b.v * powl(a.v, b.v - 1) * a.d + by_b};
    }
    }
}

double ref_expression(const struct qr_circuit *c, size_t i, const double *theta, const double *x,
                      enum qr_expression_op by, uint32_t index, double *ret_derivative) {
    struct walk w = {c, c->expressions[i].node, theta, x, by, index};
    struct dual v = walk(&w, c->expressions[i].n - 1);
    if (ret_derivative) *ret_derivative = (double)v.d;
    return (double)v.v;
}
