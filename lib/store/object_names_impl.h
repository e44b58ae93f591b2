/* store/object_names_impl.h — collects object names in any order, writes them as sorted lines. */
#ifndef QR_STORE_OBJECT_NAMES_IMPL_H
#define QR_STORE_OBJECT_NAMES_IMPL_H

#include "store/store.h"

enum { QR_NAMES_MAX = 1 << 20 };
/* All-zero: empty. */
struct qr_names {
    char **v;
    size_t n;
};

/* Adds a copy of the name; false when the list is full (QR_NAMES_MAX). */
QR_MUST_CHECK bool qr_names_add(struct qr_names *names, const char *name);
void qr_names_cut(struct qr_names *names, size_t n); /* keeps the first n; 0 frees the list */
/* Writes the names, sorted and separated by '\n', as the content of *ret. */
void qr_names_write_sorted(struct qr_names *names, struct qr_buf *ret);

#endif
