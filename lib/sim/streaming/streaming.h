/* sim/streaming/streaming.h — the engine for prepare-convolve-pool circuits: it simulates slices of
 * the state and traces out qubits at the pools. */
#ifndef QR_SIM_STREAMING_STREAMING_H
#define QR_SIM_STREAMING_STREAMING_H

#include "sim/fusion/engine.h"

extern const struct qr_sim_engine qr_streaming_engine;

#endif
