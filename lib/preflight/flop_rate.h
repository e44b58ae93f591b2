/* preflight/flop_rate.h — how fast this machine is at circuits: the operations of one small
 * gradient, by the time it took.
 *
 * Uses      for a circuit too large to be tried. Its state leaves the caches that this one fits, so
 *           a factor of 2 either way is to be expected.
 * Cost      0.1 s; much less than a second without vector instructions.
 */
#ifndef QR_PREFLIGHT_FLOP_RATE_H
#define QR_PREFLIGHT_FLOP_RATE_H

#include "sim/sim.h"

/* Floating-point operations a second, as qr_sim_facts counts them, of one thread: the tutorial's
 * circuit on 16 qubits with these kernels and by this engine. INVALID_ARGUMENT, RESOURCE_EXHAUSTED
 * as qr_sim_compile. */
QR_MUST_CHECK enum qr_code qr_measure_flop_rate(const struct qr_sim_options *opt,
                                                double *ret_flop_per_s, struct qr_err *err);

#endif
