/* model/natural/natural_gradient.h — the natural gradient of a circuit without inputs: the gradient
 * times the pseudo-inverse of the metric of its states.
 *
 * Metric    Fubini and Study's, by blocks (Stokes et al., Quantum 4, 269; PennyLane's
 *           block-diag): a block is a set of gates of which none follows another; between blocks
 *           the metric is 0. Entry a, b of a block is Re <K_a K_b> - <K_a> <K_b> in the state
 *           before the block, K the generators of the gates' arguments; the chain rule converts it
 *           to parameters, so that blocks which share a parameter are merged.
 * Numbers   float64 for any precision, always the double contract's; eigenvalues below 1e-12 of a
 *           block's largest count as 0. A function of the weights alone.
 * Cost      per block one simulation of the circuit before it, for all its entries; then about ten
 *           times the cube of a block's parameters.
 * Threads   one caller at a time; the pool's threads help.
 */
#ifndef QR_MODEL_NATURAL_NATURAL_GRADIENT_H
#define QR_MODEL_NATURAL_NATURAL_GRADIENT_H

#include "circuit/circuit.h"
#include "sim/sim.h"

struct qr_natural_gradient;
/* Prepares the blocks of a circuit.
 *
 * Args:     circuit  without columns; copied
 *           ret      caller frees with qr_natural_gradient_free
 * Errors:   INVALID_ARGUMENT: names a gate with a generator that depends on the arguments, or a
 *           block with too many gates; RESOURCE_EXHAUSTED: a block cannot be simulated
 */
QR_MUST_CHECK enum qr_code qr_natural_gradient_new(const struct qr_circuit *circuit,
                                                   enum qr_isa isa,
                                                   struct qr_natural_gradient **ret,
                                                   struct qr_err *err);
void qr_natural_gradient_free(struct qr_natural_gradient *n);
size_t qr_natural_gradient_bytes(const struct qr_natural_gradient *n);
/* gradient = (metric at theta + regularization)^+ gradient; both n_params. */
void qr_natural_gradient_apply(struct qr_natural_gradient *n, const double *theta,
                               double regularization, struct qr_pool *pool, double *gradient);
/* The metric at theta, row-major n_params x n_params. */
void qr_natural_gradient_metric(struct qr_natural_gradient *n, const double *theta,
                                struct qr_pool *pool, double *ret);

#endif
