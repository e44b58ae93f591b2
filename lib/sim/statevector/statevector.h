/* sim/statevector/statevector.h — the engine for any circuit: it holds all 2^n amplitudes and
 * applies fused gates in passes over tiles of them. */
#ifndef QR_SIM_STATEVECTOR_STATEVECTOR_H
#define QR_SIM_STATEVECTOR_STATEVECTOR_H

#include "sim/fusion/engine.h"

extern const struct qr_sim_engine qr_statevector_engine;

/* Estimates the multiply-adds in float64 per amplitude of a gradient. The plan is unchanged. */
double qr_statevector_cost(struct qr_sim_plan *p, const struct qr_circuit *c);

#endif
