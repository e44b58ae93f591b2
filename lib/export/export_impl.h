/* export/export_impl.h — what the formats share: circuits with numbers, texts of angles. */
#ifndef QR_EXPORT_EXPORT_IMPL_H
#define QR_EXPORT_EXPORT_IMPL_H

#include "export/export.h"

/* Appends an argument in half-turns as an angle in radians: "pi/2", "0.3", "pi*w", "2*(a + b)". The
 * style's functions are those of the language. */
void export_angle(const struct qr_circuit *c, const struct qr_expression_style *style,
                  const struct qr_gate_arg *a, struct qr_buf *to);

/* Appends a strength of a channel as it is: "0.3", "w", "2*(a + b)". */
void export_strength(const struct qr_circuit *c, const struct qr_expression_style *style,
                     const struct qr_gate_arg *a, struct qr_buf *to);

/* Values of a channel's arguments; fails if they depend on weights. format: in messages. */
QR_MUST_CHECK enum qr_code export_channel_values(const struct qr_channel *c, const char *format,
                                                 double ret[QR_CHANNEL_ARGS], struct qr_err *err);
/* Kraus operators of any channel of numbers, 16 entries apart; those that are 0 are left out. */
QR_MUST_CHECK enum qr_code export_channel_operators(const struct qr_channel *c, const char *format,
                                                    double complex ret[QR_CHANNEL_KRAUS * 16],
                                                    unsigned *ret_n, struct qr_err *err);
/* Appends "[[1, 0], [0, 0.5-0.5im]]", unit "im". */
void export_matrix(const double complex *m, unsigned dim, const char *unit, struct qr_buf *to);

/* Appends a line for each expression that others share: "float[64] s3 = w*x0;", with what precedes
 * and ends the line. */
void export_shared(const struct qr_circuit *c, const struct qr_expression_style *style,
                   const char *before, const char *after, struct qr_buf *to);

/* A writer appends what->circuit, in the file of its name. */
typedef enum qr_code export_write(const struct qr_export *what, struct qr_buf *to,
                                  struct qr_err *err);
export_write export_qasm3, export_qasm2, export_cirq, export_tfq, export_python;

#endif
