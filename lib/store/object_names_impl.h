/* store/object_names_impl.h — what a list is made of: names in any order, given as sorted lines. */
#ifndef QR_STORE_OBJECT_NAMES_IMPL_H
#define QR_STORE_OBJECT_NAMES_IMPL_H

#include "store/store.h"

enum { QR_NAMES_MAX = 1 << 20 };
/* All-zero: none. */
struct qr_names {
    char **v;
    size_t n;
};

/* Takes the name over (heap); false: there are QR_NAMES_MAX already, and it stays the caller's. */
QR_MUST_CHECK bool qr_names_add(struct qr_names *names, char *name);
/* Sorted, '\n' between them, as *ret's content; NULL: nowhere. The names are gone afterwards. */
void qr_names_write_sorted(struct qr_names *names, struct qr_buf *ret);

#endif
