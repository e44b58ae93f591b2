/* sim/readout_errors.h — observables as they are read with errors.
 *
 * A bit is read as 1 for 0 with probability p_01, and as 0 for 1 with p_10, after the rotation to
 * the basis of a Pauli P. So P is measured as (1 - p_01 - p_10) P + (p_10 - p_01).
 */
#ifndef QR_SIM_READOUT_ERRORS_H
#define QR_SIM_READOUT_ERRORS_H

#include "observable/observable.h"

enum { QR_READOUT_TERMS = 1 << 16 }; /* maximum number of terms of one observable */

/* Returns the observables with the errors of each qubit; caller frees with qr_readouts_free.
 *
 * Args:     errors  per qubit p_01 and p_10
 * Errors:   RESOURCE_EXHAUSTED: a product of n Paulis with p_01 != p_10 becomes 2^n terms, and
 *           these are too many
 */
QR_MUST_CHECK enum qr_code qr_readouts_with_errors(const struct qr_observable *obs, size_t n_obs,
                                                   const double (*errors)[2],
                                                   struct qr_observable **ret, struct qr_err *err);
void qr_readouts_free(struct qr_observable *obs, size_t n_obs);

#endif
