/* sim/density/density.h — the engine for circuits with noise on up to 12 qubits: density matrices
 * (density_impl.h). */
#ifndef QR_SIM_DENSITY_DENSITY_H
#define QR_SIM_DENSITY_DENSITY_H

#include "sim/fusion/engine.h"

extern const struct qr_sim_engine qr_density_engine;

/* The cost per sample and gradient of a noisy circuit by the engines other than cones, in
 * multiply-adds of that engine: the limit up to which cones are the better method. Infinite: cones
 * are the only one. */
double qr_noisy_cost(struct qr_sim_plan *p, const struct qr_circuit *c);

#endif
