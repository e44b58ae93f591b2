/* observable/observable_impl.h — what the readers of observables share. */
#ifndef QR_OBSERVABLE_OBSERVABLE_IMPL_H
#define QR_OBSERVABLE_OBSERVABLE_IMPL_H

#include "observable/observable.h"

/* Terms of an observable while it is read. */
struct qr_term_list {
    size_t n;
    struct qr_pauli_term *terms; /* owned */
};
void qr_term_list_add(struct qr_term_list *l, const struct qr_pauli_term *term);
/* The observable of all terms, which are its own then: like ones merged, those of 0 left out. NULL,
 * or what is wrong: the sum is zero or not finite. by_digest: a long text names its terms by their
 * digest. */
const char *qr_observable_of_terms(struct qr_term_list *l, bool by_digest,
                                   struct qr_observable *ret);

#endif
