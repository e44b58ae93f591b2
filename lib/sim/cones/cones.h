/* sim/cones/cones.h — the engine for circuits with read-outs that depend on small parts of them:
 * light cones, contracted as networks of Pauli transfer matrices. sim/cones/cones.md has the
 * method. */
#ifndef QR_SIM_CONES_CONES_H
#define QR_SIM_CONES_CONES_H

#include "sim/fusion/engine.h"

extern const struct qr_sim_engine qr_cones_engine;

#endif
