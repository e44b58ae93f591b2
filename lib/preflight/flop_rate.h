/* preflight/flop_rate.h — measures this machine's speed for circuits: the operations of a small
 * gradient divided by its time.
 *
 * Purpose   estimates for circuits too large to run. The state of a large circuit does not fit into
 *           the caches, so expect a factor of 2 either way.
 * Cost      0.1 s; less than 1 s without vector instructions.
 * Threads   any.
 */
#ifndef QR_PREFLIGHT_FLOP_RATE_H
#define QR_PREFLIGHT_FLOP_RATE_H

#include "sim/sim.h"

/* Measures the floating-point operations per second of one thread, as qr_sim_facts counts them, for
 * the tutorial's circuit on 16 qubits.
 *
 * Args:     opt   kernels and engine
 * Errors:   INVALID_ARGUMENT, RESOURCE_EXHAUSTED as qr_sim_compile
 */
QR_MUST_CHECK enum qr_code qr_measure_flop_rate(const struct qr_sim_options *opt,
                                                double *ret_flop_per_s, struct qr_err *err);

#endif
