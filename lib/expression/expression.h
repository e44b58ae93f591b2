/* expression/expression.h — numbers of gates as expressions: "w0*x[0] + b0", "2*asin(x[1])".
 *
 * Text      numbers, pi, parameters by name, inputs x[0], x.NAME or x['any name']; + - * / ( ) and
 *           unary minus; sin cos tan asin acos atan sqrt exp log abs of one, pow(a, b),
 *           atan2(y, x), hypot(a, b). A parameter's name begins with a letter or _, goes on with
 *           these, digits and dots, and may end in [digits]: theta[3]. Blanks mean nothing.
 * Form      read once to a program in postfix order, in which each operation names its left operand
 *           (the right one stands just before it). What is constant is computed while reading, and
 *           factors before the whole become its scale; what is left is the form that is compared,
 *           hashed and shown. It reads back as itself.
 *           What is shared has no text of its own and shows as #3.
 * Numbers   float64 and exact/functions alone: the same bits everywhere. Derivatives are exact, in
 *           reverse order of the program. What is outside a function's domain is a NaN or an
 *           infinity. Those of atan2 and hypot are 0 at the origin.
 * Bounds    QR_EXPRESSION_BYTES of text, _NODES numbers, names and operations, _DEPTH brackets,
 *           functions and signs inside each other.
 * Threads   a program is const after it was read.
 */
#ifndef QR_EXPRESSION_EXPRESSION_H
#define QR_EXPRESSION_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/err.h"

enum {
    QR_EXPRESSION_BYTES = 1024,
    QR_EXPRESSION_NODES = 128,
    QR_EXPRESSION_DEPTH = 32,
    QR_EXPRESSION_NAME = 64 /* bytes of a name */
};

enum qr_expression_op {
    QR_EXPRESSION_NUMBER,
    QR_EXPRESSION_PARAMETER,
    QR_EXPRESSION_INPUT,
    QR_EXPRESSION_SHARED, /* the value of another expression */
    QR_EXPRESSION_ADD,
    QR_EXPRESSION_SUBTRACT,
    QR_EXPRESSION_MULTIPLY,
    QR_EXPRESSION_DIVIDE,
    QR_EXPRESSION_NEGATE,
    QR_EXPRESSION_POW, /* with the next two functions of two numbers */
    QR_EXPRESSION_ATAN2,
    QR_EXPRESSION_HYPOT,
    QR_EXPRESSION_SIN, /* from here on functions of one number */
    QR_EXPRESSION_COS,
    QR_EXPRESSION_TAN,
    QR_EXPRESSION_ASIN,
    QR_EXPRESSION_ACOS,
    QR_EXPRESSION_ATAN,
    QR_EXPRESSION_SQRT,
    QR_EXPRESSION_EXP,
    QR_EXPRESSION_LOG,
    QR_EXPRESSION_ABS,
    QR_EXPRESSION_OPS
};

struct qr_expression_node {
    enum qr_expression_op op;
    /* PARAMETER, INPUT: which; SHARED: which of the circuit's expressions, of inputs, before this
     * one, lowered its column (lower.h); of two operands the left one's node; else 0 */
    uint32_t index;
    double number; /* NUMBER; else 0 */
};

/* Its value is that of the last node. */
struct qr_expression {
    unsigned n;                      /* 1 to QR_EXPRESSION_NODES */
    struct qr_expression_node *node; /* owned */
};

/* Who numbers the names of a text; called for each where it stands. */
struct qr_expression_names {
    void *context;
    uint32_t (*parameter)(void *context, const char *name, size_t n);
    /* NULL and *ret, or what is wrong with the name: a sentence's end, borrowed. The function NULL:
     * inputs have no names. */
    const char *(*column)(void *context, const char *name, size_t n, uint32_t *ret);
    uint32_t n_columns;    /* x[i] has i below it */
    const char *no_inputs; /* said of x where there are none; NULL: of a circuit */
};

/* Reads text: its value is *ret_scale times the program's. A program of one node that is a number
 * has scale 1. where: the value's path in messages. INVALID_ARGUMENT with the column where it stops
 * making sense. */
QR_MUST_CHECK enum qr_code qr_expression_parse(const char *text, const char *where,
                                               const struct qr_expression_names *names,
                                               double *ret_scale, struct qr_expression *ret,
                                               struct qr_err *err);
void qr_expression_fini(struct qr_expression *e);
struct qr_expression qr_expression_copy(const struct qr_expression *e);
bool qr_expression_equal(const struct qr_expression *a, const struct qr_expression *b);

/* The value for parameters theta and inputs x (NULL where none is referred to). What is shared is a
 * column of x. */
double qr_expression_value(const struct qr_expression *e, const double *theta, const double *x);
/* The same, and ret_d[n]: the derivative by each node's value, so by each mention of a name. */
double qr_expression_derivatives(const struct qr_expression *e, const double *theta,
                                 const double *x, double ret_d[QR_EXPRESSION_NODES]);
/* One operation on values, as the program has it; b is POW's and the others' right operand. */
double qr_expression_apply(enum qr_expression_op op, double a, double b);
/* It has two operands. */
bool qr_expression_has_two(enum qr_expression_op op);

/* The name of a function, of "pow" too; NULL: it is none. */
const char *qr_expression_function(enum qr_expression_op op);

/* Appends scale * e as text that reads back as them. parameters, columns: their names; NULL, or a
 * column's NULL: "p3", "x[3]". round: six digits, for people. */
void qr_expression_print(const struct qr_expression *e, double scale, char *const *parameters,
                         char *const *columns, bool round, struct qr_buf *to);

#endif
