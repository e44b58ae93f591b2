/* format/tensor.h — a named array of numbers, as weight and data files hold them. */
#ifndef QR_FORMAT_TENSOR_H
#define QR_FORMAT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { QR_MAX_RANK = 8 };

/* Values are float64 in memory whatever the file has (integers above 2^53 are refused
 * when read). */
struct qr_tensor {
    char *name;
    unsigned rank;
    size_t dims[QR_MAX_RANK];
    size_t n;       /* product of dims; rank 0 means 1 */
    double *values; /* row-major */
};
struct qr_tensors {
    size_t n;
    struct qr_tensor *v;
};
void qr_tensors_free(struct qr_tensors *t); /* leaves it empty */
/* Appends a copy (values may be NULL: zeros). Returns it. */
struct qr_tensor *qr_tensors_add(struct qr_tensors *t, const char *name, unsigned rank,
                                 const size_t *dims, const double *values);
/* As qr_tensors_add with zeros, for sizes that a file told: RESOURCE_EXHAUSTED with `what`, the
 * name and both numbers when the values would exceed this process's memory. */
QR_MUST_CHECK enum qr_code qr_tensors_add_large(struct qr_tensors *t, const char *name,
                                                unsigned rank, const size_t *dims, const char *what,
                                                struct qr_tensor **ret, struct qr_err *err);
const struct qr_tensor *qr_tensors_find(const struct qr_tensors *t, const char *name); /* or NULL */
/* "(4, 8)", "(20,)", "()" into ret. */
enum { QR_SHAPE_CHARS = 192 };
void qr_shape_text(unsigned rank, const size_t *dims, char ret[QR_SHAPE_CHARS]);

#endif
