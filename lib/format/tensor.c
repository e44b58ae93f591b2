/* format/tensor.c — lists of tensors. Start reading at qr_tensors_add(). */
#include "format/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void qr_tensors_free(struct qr_tensors *t) {
    if (!t) return;
    for (size_t i = 0; i < t->n; i++) {
        free(t->v[i].name);
        free(t->v[i].values);
    }
    free(t->v);
    *t = (struct qr_tensors){0};
}

static struct qr_tensor *tensors_append(struct qr_tensors *t, const char *name, unsigned rank,
                                        const size_t *dims, size_t n, double *values) {
    t->v = qr_xreallocarray(t->v, t->n + 1, sizeof *t->v);
    struct qr_tensor *x = &t->v[t->n++];
    *x = (struct qr_tensor){.name = qr_xstrdup(name), .rank = rank, .n = n, .values = values};
    if (rank) memcpy(x->dims, dims, rank * sizeof *dims);
    return x;
}

struct qr_tensor *qr_tensors_add(struct qr_tensors *t, const char *name, unsigned rank,
                                 const size_t *dims, const double *values) {
    QR_ASSERT(rank <= QR_MAX_RANK);
    size_t n = 1;
    for (unsigned i = 0; i < rank; i++) QR_ASSERT(!__builtin_mul_overflow(n, dims[i], &n));
    double *copy = qr_xcalloc(n, sizeof *copy);
    if (values && n) memcpy(copy, values, n * sizeof *copy);
    return tensors_append(t, name, rank, dims, n, copy);
}

enum qr_code qr_tensors_add_large(struct qr_tensors *t, const char *name, unsigned rank,
                                  const size_t *dims, const char *what, struct qr_tensor **ret,
                                  struct qr_err *err) {
    QR_ASSERT(rank <= QR_MAX_RANK);
    size_t n = 1;
    char label[256];
    snprintf(label, sizeof label, "%.100s: '%.100s'", what, name);
    for (unsigned i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, dims[i], &n)) n = SIZE_MAX;
    void *values;
    QR_TRY(qr_large_new(n, sizeof(double), label, &values, err));
    *ret = tensors_append(t, name, rank, dims, n, values);
    return QR_OK;
}

const struct qr_tensor *qr_tensors_find(const struct qr_tensors *t, const char *name) {
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->v[i].name, name) == 0) return &t->v[i];
    return NULL;
}

void qr_shape_text(unsigned rank, const size_t *dims, char ret[QR_SHAPE_CHARS]) {
    size_t at = 1;
    ret[0] = '(';
    for (unsigned i = 0; i < rank && at < QR_SHAPE_CHARS - 32; i++)
        at += (size_t)snprintf(ret + at, QR_SHAPE_CHARS - at, "%s%zu%s", i ? ", " : "", dims[i],
                               rank == 1 ? "," : "");
    snprintf(ret + at, QR_SHAPE_CHARS - at, ")");
}
