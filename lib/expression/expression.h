/* expression/expression.h — arguments of gates as expressions: "w0*x[0] + b0", "2*asin(x[1])".
 *
 * Text      numbers, pi, parameters by name, inputs x[0], x.NAME or x['any name']; + - * / ( ) and
 *           unary minus; sin cos tan asin acos atan sqrt exp log abs of one, pow(a, b),
 *           atan2(y, x), hypot(a, b). A parameter's name begins with a letter or _, continues with
 *           these, digits and dots, and may end in [digits]: theta[3]. Blanks are ignored.
 * Form      parsed once into a program in postfix order, in which each operation refers to its left
 *           operand (the right one directly precedes it). Constants are folded while parsing, and
 *           constant factors of the whole become its scale; the rest is the form that is compared,
 *           hashed and printed. Printing and parsing again gives the same program. A shared
 *           expression has no text of its own and is printed as #3.
 * Use       qr_expression_parse, then value or derivatives; qr_expression_fini.
 * Numbers   float64 and exact/functions only: the same bits on every machine. Derivatives are
 *           exact, in reverse order of the program. Outside a function's domain the value is a NaN
 *           or an infinity. Derivatives of atan2 and hypot at the origin are 0.
 * Bounds    QR_EXPRESSION_BYTES of text, _NODES numbers, names and operations, _DEPTH nested
 *           brackets, functions and signs.
 * Threads   a program is const after parsing; any thread may read it.
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
    QR_EXPRESSION_POW, /* with the next two, functions of two numbers */
    QR_EXPRESSION_ATAN2,
    QR_EXPRESSION_HYPOT,
    QR_EXPRESSION_SIN, /* from here on, functions of one number */
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
    /* PARAMETER, INPUT: its index; SHARED: index of an earlier expression of the circuit with
     * inputs, in a lowered circuit its column (lower.h); operation on two operands: node of the
     * left one; else 0 */
    uint32_t index;
    double number; /* NUMBER; else 0 */
};

/* A program; its value is that of the last node. */
struct qr_expression {
    unsigned n;                      /* 1 to QR_EXPRESSION_NODES */
    struct qr_expression_node *node; /* owned */
};

/* Callbacks that assign indices to the names of a text; called once per occurrence. */
struct qr_expression_names {
    void *context;
    uint32_t (*parameter)(void *context, const char *name, size_t n);
    /* Returns NULL and *ret, or why the name is invalid (end of a sentence, borrowed). NULL
     * function: inputs have no names. */
    const char *(*column)(void *context, const char *name, size_t n, uint32_t *ret);
    uint32_t n_columns; /* x[i] has i below it */
    /* Message for x where there are no inputs; NULL: a default for circuits */
    const char *no_inputs;
};

/* Parses text: its value is *ret_scale times the program's.
 *
 * Args:     where      the value's path in messages
 *           names      callbacks for names, borrowed during the call
 *           ret_scale  1 for a program of one NUMBER
 *           ret        caller frees with qr_expression_fini
 * Errors:   INVALID_ARGUMENT with the column of the first error
 */
QR_MUST_CHECK enum qr_code qr_expression_parse(const char *text, const char *where,
                                               const struct qr_expression_names *names,
                                               double *ret_scale, struct qr_expression *ret,
                                               struct qr_err *err);
/* Whether the whole text is a parameter's name in expressions. */
bool qr_expression_is_name(const char *text);
void qr_expression_fini(struct qr_expression *e);
struct qr_expression qr_expression_copy(const struct qr_expression *e);
bool qr_expression_equal(const struct qr_expression *a, const struct qr_expression *b);

/* The value for parameters theta and inputs x (each may be NULL when not referred to). A shared
 * expression is a column of x. */
double qr_expression_value(const struct qr_expression *e, const double *theta, const double *x);
/* The value, and ret_d[n]: the derivative by each node, hence by each occurrence of a name. */
double qr_expression_derivatives(const struct qr_expression *e, const double *theta,
                                 const double *x, double ret_d[QR_EXPRESSION_NODES]);
/* Applies one operation; b is the right operand of operations on two. */
double qr_expression_apply(enum qr_expression_op op, double a, double b);
/* Whether the operation has two operands. */
bool qr_expression_has_two(enum qr_expression_op op);

/* The name of a function; NULL: not a function. Static. */
const char *qr_expression_function(enum qr_expression_op op);

/* How an expression is printed; all zero: as text that parses to the same program. */
struct qr_expression_style {
    char *const *parameters, *const *columns; /* names; NULL, or NULL for a column: "p3", "x[3]" */
    bool round;                               /* six digits, for display */
    /* Functions of another language, by operation; "**" is an operator. Columns' names stand as
     * they are. */
    const char *const *functions;
    const char *shared; /* before the number of a shared expression; NULL: "#" */
};
/* Appends scale * e. */
void qr_expression_print(const struct qr_expression *e, double scale,
                         const struct qr_expression_style *style, struct qr_buf *to);

#endif
