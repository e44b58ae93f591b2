/* format/tensor.h — named arrays of numbers, as in weight and data files.
 *
 * Threads   a list belongs to one thread at a time.
 */
#ifndef QR_FORMAT_TENSOR_H
#define QR_FORMAT_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { QR_MAX_RANK = 8 };

/* Values are float64 in memory, whatever the type in the file (readers reject integers above
 * 2^53). */
struct qr_tensor {
    char *name;
    unsigned rank;
    size_t dims[QR_MAX_RANK];
    size_t n;       /* product of dims; 1 for rank 0 */
    double *values; /* row-major */
};
struct qr_tensors {
    size_t n;
    struct qr_tensor *v;
};
void qr_tensors_free(struct qr_tensors *t); /* leaves an empty list; NULL is allowed */
/* Appends a copy of a tensor and returns it, borrowed until the next append. values NULL: zeros. */
struct qr_tensor *qr_tensors_add(struct qr_tensors *t, const char *name, unsigned rank,
                                 const size_t *dims, const double *values);
/* As qr_tensors_add with zeros, for sizes from a file. RESOURCE_EXHAUSTED, with `what`, the name
 * and both numbers, when the values would exceed this process's memory. */
QR_MUST_CHECK enum qr_code qr_tensors_add_large(struct qr_tensors *t, const char *name,
                                                unsigned rank, const size_t *dims, const char *what,
                                                struct qr_tensor **ret, struct qr_err *err);
const struct qr_tensor *qr_tensors_find(const struct qr_tensors *t, const char *name); /* or NULL */
/* Writes "(4, 8)", "(20,)" or "()" into ret. */
enum { QR_SHAPE_CHARS = 192 };
void qr_shape_text(unsigned rank, const size_t *dims, char ret[QR_SHAPE_CHARS]);

#endif
