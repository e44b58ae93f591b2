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

/* Takes ownership of the name (heap). Returns false when the list is full (QR_NAMES_MAX); the
 * caller then still owns the name. */
QR_MUST_CHECK bool qr_names_add(struct qr_names *names, char *name);
/* Writes the sorted names, separated by '\n', as the content of *ret (NULL: discards them), and
 * empties the list. */
void qr_names_write_sorted(struct qr_names *names, struct qr_buf *ret);

#endif
