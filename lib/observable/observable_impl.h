/* observable/observable_impl.h — lists of terms, shared by the readers of observables. */
#ifndef QR_OBSERVABLE_OBSERVABLE_IMPL_H
#define QR_OBSERVABLE_OBSERVABLE_IMPL_H

#include "observable/observable.h"

/* Terms of an observable that is being read. */
struct qr_term_list {
    size_t n;
    struct qr_pauli_term *terms; /* owned */
};
void qr_term_list_add(struct qr_term_list *l, const struct qr_pauli_term *term);
/* Builds the observable: merges like terms, drops zero terms, takes ownership of the list (which
 * becomes empty). Returns NULL, or the error text when the sum is zero or not finite; the list then
 * stays the caller's. */
const char *qr_observable_of_terms(struct qr_term_list *l, struct qr_observable *ret);

#endif
