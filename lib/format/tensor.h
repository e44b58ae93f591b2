/* format/tensor.h — a named array of numbers, as weight and data files hold them. */
#ifndef QR_FORMAT_TENSOR_H
#define QR_FORMAT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

enum { QR_MAX_RANK = 8 };

/* Values are float64 in memory whatever the file has (integers above 2^53 are refused when read). */
struct qr_tensor {
    char *name;
    unsigned rank;
    size_t dims[QR_MAX_RANK];
    size_t n;       /* product of dims; rank 0 means 1 */
    double *values; /* row-major */
};
struct qr_tensors { size_t n; struct qr_tensor *v; };
void qr_tensors_free(struct qr_tensors *t); /* leaves it empty */
/* Appends a copy (values may be NULL: zeros). Returns it. */
struct qr_tensor *qr_tensors_add(struct qr_tensors *t, const char *name, unsigned rank, const size_t *dims,
                                 const double *values);
const struct qr_tensor *qr_tensors_find(const struct qr_tensors *t, const char *name); /* or NULL */

#endif
