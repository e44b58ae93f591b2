/* sim/statevector/statevector.h — the engine for any circuit: it holds all 2^n amplitudes and
 * applies fused gates in passes over tiles of them. */
#ifndef QR_SIM_STATEVECTOR_STATEVECTOR_H
#define QR_SIM_STATEVECTOR_STATEVECTOR_H

#include "sim/fusion/engine.h"

extern const struct qr_sim_engine qr_statevector_engine;

/* Whether this engine would fuse the circuit by structure. */
bool qr_statevector_is_structured(const struct qr_sim_plan *p);

#endif
