/* sim/sim_options.h — options of a compiled circuit; random numbers of trajectories and shots. */
#ifndef QR_SIM_SIM_OPTIONS_H
#define QR_SIM_SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/kernels/isa.h"

/* How noise channels are simulated. AUTO: EXACT unless TRAJECTORIES cost much less. EXACT: channels
 * as Pauli transfer matrices, by the cones or the density engine; measured bits as further qubits
 * (circuit/defer.h). DENSITY: by the latter. */
enum qr_method { QR_METHOD_AUTO, QR_METHOD_EXACT, QR_METHOD_DENSITY, QR_METHOD_TRAJECTORIES };
extern const char *const qr_method_names[4];
enum { QR_TRAJECTORIES = 128 }; /* the default number for each sample */

/* Engine to use: AUTO takes the one with the least counted work, the others are used at any cost.
 * STATEVECTOR supports any circuit of up to 64 qubits; sim/planner.md says which circuits the other
 * engines support. */
enum qr_engine {
    QR_ENGINE_AUTO,
    QR_ENGINE_CONES,
    QR_ENGINE_STREAMING,
    QR_ENGINE_STATEVECTOR,
    QR_ENGINE_DENSITY
};

struct qr_sim_options {
    enum qr_precision precision;
    enum qr_isa isa;
    enum qr_engine engine;
    /* n_columns of the circuit, 0 or 1: compute derivatives by this input. NULL: by none. Read only
     * while compiling. */
    const uint8_t *wanted;
    enum qr_method method; /* of circuits with noise channels; ignored without */
    /* per sample; 0: QR_TRAJECTORIES, and without observables one for each of the shots */
    unsigned n_trajectories;
    /* Read-outs are means of so many bit strings, drawn from the state in the basis of each set of
     * observables that can be measured together; 0: exact expectation values. Derivatives stay
     * those of the exact expectation values (of the trajectories). Needs a state vector. */
    unsigned shots;
    bool parameter_shift; /* derivatives by the parameter-shift rule (shift.h) */
};

/* Key of random numbers, and the number of each sample of a micro-batch; NULL: 0, 1, 2 ... A
 * trajectory depends on key, sample, its number and the circuit only. */
struct qr_sim_draw {
    uint64_t key;
    const uint32_t *sample; /* borrowed until the backward sweep has ended */
};

#endif
