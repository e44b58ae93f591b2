/* circuit/circuit_impl.h — what the files of this room share. */
#ifndef QR_CIRCUIT_CIRCUIT_IMPL_H
#define QR_CIRCUIT_CIRCUIT_IMPL_H

#include "circuit/circuit.h"

/* Appends a parameter that the caller knows to be new (no look-up, so that long lists cost
 * linear time). */
uint32_t qr_circuit_append_param(struct qr_circuit *c, const char *name);

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
