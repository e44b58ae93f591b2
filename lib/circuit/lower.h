/* circuit/lower.h — a circuit with expressions as one without: for engines, which support
 * parameters and data columns only.
 *
 * Form      an expression of parameters only becomes a derived parameter; one with inputs becomes a
 *           derived column. They follow the circuit's own, which keep their numbers: theta' and x'
 *           begin with theta and x. A shared expression is a derived column before those that use
 *           it, which refer to it by its column.
 * Use       qr_circuit_lower once; qr_lowered_theta and qr_lowered_x before a simulation,
 *           qr_lowered_chain after its derivatives.
 * Numbers   float64, in the order of expressions and nodes; samples ascend. Derivatives of shared
 *           expressions are passed on last, in reverse order, when they are complete.
 * Cost      a value or a derivative costs a program's nodes.
 * Ownership a lowered circuit owns its circuit and its copies of the expressions.
 * Threads   const after qr_circuit_lower, which alone allocates; any thread may read it.
 */
#ifndef QR_CIRCUIT_LOWER_H
#define QR_CIRCUIT_LOWER_H

#include "circuit/circuit.h"

struct qr_lowered {
    struct qr_circuit *circuit;
    unsigned n_params, n_columns; /* of the original circuit */
    unsigned n_derived_params, n_derived_columns;
    struct qr_expression *params, *columns; /* the derived ones */
    uint32_t *order; /* n_derived_columns: order in which their derivatives are passed on */
};

/* Lowers a circuit.
 *
 * Returns:  NULL when the circuit has no expressions; caller frees with qr_lowered_free
 */
struct qr_lowered *qr_circuit_lower(const struct qr_circuit *c);
void qr_lowered_free(struct qr_lowered *l);

/* Finds the columns for which the lowered circuit must compute derivatives.
 *
 * Args:     wanted         n_columns, columns that the caller wants; NULL: none
 *           zero_gradient  n_params, parameters with gradient 0; an expression with one of them has
 *                          gradient 0 too
 *           ret            n_columns + n_derived_columns: the wanted ones, and derived ones that
 *                          pass a derivative on to a wanted column or to a parameter
 * Returns:  true when there are any
 */
bool qr_lowered_wanted(const struct qr_lowered *l, const uint8_t *wanted,
                       const uint8_t *zero_gradient, uint8_t *ret);

/* Computes theta' from theta; ret must not be theta. */
void qr_lowered_theta(const struct qr_lowered *l, const double *theta, double *ret);
/* Computes x' of one sample from x. */
void qr_lowered_x(const struct qr_lowered *l, const double *theta, const double *x, double *ret);

/* Applies the chain rule: adds the derivatives of derived parameters and columns to those of their
 * operands.
 *
 * Args:     d_theta  by theta', in and out
 *           x, d_x   n_samples rows of x' and of the derivatives by x'; d_x NULL: no column's
 *                    derivatives are known
 *           wanted   as returned by qr_lowered_wanted, or NULL; other columns get nothing
 */
void qr_lowered_chain(const struct qr_lowered *l, const double *theta, const double *x,
                      size_t n_samples, const uint8_t *wanted, double *d_theta, double *d_x);

#endif
