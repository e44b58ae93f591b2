/* circuit/argument.h — arguments of gates and channels. */
#ifndef QR_CIRCUIT_ARGUMENT_H
#define QR_CIRCUIT_ARGUMENT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* value = scale * (1, the parameter, the sample's data column, or the expression). */
enum qr_arg_kind { QR_ARG_CONSTANT, QR_ARG_PARAMETER, QR_ARG_DATA, QR_ARG_EXPRESSION };
struct qr_gate_arg {
    enum qr_arg_kind kind;
    double scale; /* CONSTANT: the value itself */
    /* PARAMETER: 0..n_params-1; DATA: column 0..n_columns-1; EXPRESSION: 0..n_expressions-1 */
    uint32_t index;
};

/* Returns the value of an argument that is not an expression.
 *
 * Args:     theta, x  parameters and data row; each may be NULL when not referred to
 */
static inline double qr_gate_arg_value(const struct qr_gate_arg *arg, const double *theta,
                                       const double *x) {
    switch (arg->kind) {
    case QR_ARG_CONSTANT: break;
    case QR_ARG_PARAMETER: return arg->scale * theta[arg->index];
    case QR_ARG_DATA: return arg->scale * x[arg->index];
    case QR_ARG_EXPRESSION: QR_ASSERT(false);
    }
    return arg->scale;
}

#endif
