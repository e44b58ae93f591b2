/* sim/method.h — how circuits with noise are simulated. */
#ifndef QR_SIM_METHOD_H
#define QR_SIM_METHOD_H

#include <stdint.h>

/* How noise channels are simulated. AUTO: EXACT unless TRAJECTORIES cost much less. EXACT: channels
 * as Pauli transfer matrices, by the cones or the density engine. DENSITY: by the latter. */
enum qr_method { QR_METHOD_AUTO, QR_METHOD_EXACT, QR_METHOD_DENSITY, QR_METHOD_TRAJECTORIES };
extern const char *const qr_method_names[4];
enum { QR_TRAJECTORIES = 128 }; /* the default number for each sample */

/* Key of random numbers, and the number of each sample of a micro-batch; NULL: 0, 1, 2 ... A
 * trajectory depends on key, sample, its number and the circuit only. */
struct qr_sim_draw {
    uint64_t key;
    const uint32_t *sample; /* borrowed until the backward sweep has ended */
};

#endif
