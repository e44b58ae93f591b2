/* circuit/lower.h — a circuit with expressions as one without: for engines, which know parameters
 * and data columns alone.
 *
 * Form      expressions of parameters alone become derived parameters, the others, which have
 *           inputs and maybe parameters too, derived columns. They stand behind the circuit's own,
 *           which keep their numbers: theta' and x' begin with theta and x. What expressions share
 *           is a derived column, before theirs, and they refer to it by its column.
 * Numbers   float64, in the order of expressions and nodes; samples ascend. Derivatives of what is
 *           shared come last, in reverse order: they are whole then.
 * Cost      a value or a derivative costs a program's nodes.
 * Ownership it owns its circuit and its copies of the expressions. Const after it is made; any
 *           thread may read it. Nothing but qr_circuit_lower allocates.
 */
#ifndef QR_CIRCUIT_LOWER_H
#define QR_CIRCUIT_LOWER_H

#include "circuit/circuit.h"

struct qr_lowered {
    struct qr_circuit *circuit;
    unsigned n_params, n_columns; /* of the circuit that was lowered */
    unsigned n_derived_params, n_derived_columns;
    struct qr_expression *params, *columns; /* the derived ones */
    uint32_t *order; /* n_derived_columns: in which their derivatives are passed on */
};

/* NULL: the circuit has no expressions. */
struct qr_lowered *qr_circuit_lower(const struct qr_circuit *c);
void qr_lowered_free(struct qr_lowered *l);

/* Which columns' derivatives the lowered circuit owes, ret[n_columns + n_derived_columns]: wanted
 * ones (wanted[n_columns], NULL: none) and derived ones that pass something on, to a wanted column
 * or to a parameter. zero_gradient[n_params]: parameters that no observable sees; an expression
 * with one of them is seen by none. Returns whether there are any. */
bool qr_lowered_wanted(const struct qr_lowered *l, const uint8_t *wanted,
                       const uint8_t *zero_gradient, uint8_t *ret);

/* theta' of theta; ret may not be theta. */
void qr_lowered_theta(const struct qr_lowered *l, const double *theta, double *ret);
/* x' of one sample's x. */
void qr_lowered_x(const struct qr_lowered *l, const double *theta, const double *x, double *ret);

/* The chain rule: what derived parameters and columns got is added to what they are made of.
 * d_theta: by theta'. d_x, x: n_samples rows, by x', and x'; d_x may be NULL where no column's
 * derivatives are known. wanted: as qr_lowered_wanted returned it, or NULL: other columns get
 * nothing. */
void qr_lowered_chain(const struct qr_lowered *l, const double *theta, const double *x,
                      size_t n_samples, const uint8_t *wanted, double *d_theta, double *d_x);

#endif
