/* sim/shift.h — derivatives by the parameter-shift rule, as devices compute them.
 *
 * E(t) of a power P^t of an involution is a + b cos pi t + c sin pi t, so dE/dt = pi/2 (E(t + 1/2)
 * - E(t - 1/2)) (Schuld et al., arXiv:1811.11184). Each occurrence of a parameter or input is
 * shifted alone: two evaluations of the read-outs, with random numbers of their own, for each
 * occurrence and micro-batch. Other gates are replaced by powers.
 * Cost      2 * occurrences simulations of each sample
 */
#ifndef QR_SIM_SHIFT_H
#define QR_SIM_SHIFT_H

#include "base/pool.h"
#include "circuit/circuit.h"
#include "sim/sim_options.h"

struct qr_shift;           /* of a plan */
struct qr_shift_workspace; /* of a workspace */

/* Args:     circuit  the lowered one
 *           wanted   columns with derivatives, or NULL
 *           zero_gradient  per parameter
 * Errors:   UNIMPLEMENTED: a controlled gate is not a power, or a strength of noise has a
 *           parameter; those of a compilation
 */
QR_MUST_CHECK enum qr_code qr_shift_new(const struct qr_circuit *circuit, const uint8_t *wanted,
                                        const uint8_t *zero_gradient,
                                        const struct qr_observable *obs, size_t n_obs,
                                        const struct qr_sim_options *opt, struct qr_shift **ret,
                                        struct qr_err *err);
void qr_shift_free(struct qr_shift *s);
size_t qr_shift_bytes(const struct qr_shift *s, size_t max_samples);
QR_MUST_CHECK enum qr_code qr_shift_workspace_new(const struct qr_shift *s, size_t max_samples,
                                                  struct qr_shift_workspace **ret,
                                                  struct qr_err *err);
void qr_shift_workspace_free(struct qr_shift_workspace *ws);
/* Keeps the samples of a forward sweep. */
void qr_shift_keep(struct qr_shift_workspace *ws, const double *x, size_t x_stride,
                   size_t n_samples);
/* Returns the kept samples (a row has more columns than the circuit), and their number. */
const double *qr_shift_samples(const struct qr_shift_workspace *ws, size_t *ret_n);
/* Adds the derivatives by parameters and columns of the lowered circuit.
 *
 * Args:     ret_params  n_params, added to
 *           ret_dx      n_samples * n_columns, added to; NULL: none
 * Returns:  false: a read-out is not finite
 */
bool qr_shift_gradient(struct qr_shift_workspace *ws, struct qr_pool *pool, const double *theta,
                       const struct qr_sim_draw *draw, const double *direction, const double *scale,
                       double *ret_params, double *ret_dx);

#endif
