/* tests/ref/expression.h — a slow reference for expressions: forward differentiation in long double
 * with libm, one pass for each name. */
#ifndef TESTS_REF_EXPRESSION_H
#define TESTS_REF_EXPRESSION_H

#include "circuit/circuit.h"

/* The value of c's expression i, and its derivative by one name: by QR_EXPRESSION_PARAMETER or
 * _INPUT, and index. Shared subexpressions are evaluated each time. */
double ref_expression(const struct qr_circuit *c, size_t i, const double *theta, const double *x,
                      enum qr_expression_op by, uint32_t index, double *ret_derivative);

#endif
