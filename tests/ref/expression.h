/* tests/ref/expression.h — the slow truth of expressions: each name's derivative by a walk of its
 * own over the program, forward, in long double with libm. */
#ifndef TESTS_REF_EXPRESSION_H
#define TESTS_REF_EXPRESSION_H

#include "circuit/circuit.h"

/* The value of c's expression i, and the derivative by one name: op QR_EXPRESSION_PARAMETER or
 * _INPUT, index. What it shares is walked through each time. */
double ref_expression(const struct qr_circuit *c, size_t i, const double *theta, const double *x,
                      enum qr_expression_op by, uint32_t index, double *ret_derivative);

#endif
