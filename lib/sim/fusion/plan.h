/* sim/fusion/plan.h — the compiled circuit as data: fused gates and their shapes. Each engine adds
 * its own part. sim/planner.md explains the design. */
#ifndef QR_SIM_FUSION_PLAN_H
#define QR_SIM_FUSION_PLAN_H

#include "circuit/circuit.h"
#include "circuit/defer.h"
#include "circuit/lower.h"
#include "sim/kernels/kernel.h"
#include "sim/sim_options.h"

enum {
    QR_SAMPLE_LANES_MAX_QUBITS = 11, /* up to this size the lanes are samples */
    /* From this size on the lanes are qubits if there is no data. It is the minimum: lanes change
     * places with four qubits of the tile that the next fused gate, on two more, does not need. */
    QR_QUBIT_LANES_MIN_QUBITS = QR_LANE_BITS + 4 + 2,
    /* of a cross matrix: groups of 4 cells with 4 terms per group and number, so 1024 terms per
     * lane */
    QR_PIECE_GROUPS = 256,
    QR_NO_SLOT = UINT32_MAX,
    /* largest fused circuit: sets of qubits are masks, bit q for qubit q */
    QR_FUSED_QUBITS = 64,
};

/* Qubits of a gate, targets and controls, as a mask. */
static inline uint64_t qr_gate_mask(const struct qr_gate *g) {
    uint64_t mask = qr_qubits_mask(&g->controls);
    for (unsigned t = 0; t < g->n_targets; t++) mask |= UINT64_C(1) << g->targets[t];
    return mask;
}

/* One gate of the circuit inside a fused gate. Frame positions are 0 (more significant) and 1. */
struct qr_plan_op {
    struct qr_gate gate;
    /* index into the table of data-free gate matrices; QR_NO_SLOT if an argument is data */
    uint32_t number;
    uint8_t t[2];                       /* frame positions of the targets */
    uint8_t has_control, control_value; /* control inside the frame, on position 1 - t[0] */
};

/* One derivative that a shape contributes. */
struct qr_plan_derivative {
    uint32_t op; /* index into ops */
    uint32_t of; /* parameter, or column if input */
    uint32_t arg;
    double scale;
    bool mixed; /* its gate has data: one generator per sample */
    bool input; /* derivative by a column */
};

/* A place inside a fused gate where a Pauli error may happen: between gates. */
struct qr_plan_site {
    uint32_t op; /* number of the shape's ops before it */
    uint8_t n_targets;
    uint8_t t[2]; /* frame positions of the channel's qubits */
};
/* A channel at a site, or of a branch. */
struct qr_plan_noise {
    uint32_t channel;
    uint32_t number;   /* of its gate among the circuit's channels: the number of its draws */
    uint8_t n_targets; /* of a branch: its frame positions */
    uint8_t t[2];
    uint16_t bit; /* of a measurement: 1 + the bit that it sets; 0: none */
};

/* The matrix of a fused gate. Fused gates with the same gates at the same positions share one. */
struct qr_plan_shape {
    uint32_t first_op, n_ops;
    uint32_t n_prefix; /* number of ops up to the last one with data; 0 without data */
    uint32_t first_derivative, n_derivatives;
    uint32_t data_slot;           /* index of the per-sample numbers, or QR_NO_SLOT */
    uint32_t mixed_slot;          /* index of the per-sample cross matrices, or QR_NO_SLOT */
    uint32_t first_site, n_sites; /* in order of time; a shape with sites has no data */
};

/* What a fused gate is. All but the first are in plans with `structured` only, without controls,
 * channels or conditions. */
enum qr_fused_kind {
    QR_FUSED_MATRIX,      /* any gates on the frame */
    QR_FUSED_ROTATION,    /* one-qubit gates on q[0] */
    QR_FUSED_PHASE,       /* diagonal gates; those of a batch run as one */
    QR_FUSED_PERMUTATION, /* one gate that permutes amplitudes: CNOT, SWAP */
};
enum { QR_FUSED_KINDS = QR_FUSED_PERMUTATION + 1 };

/* Neighbouring gates of the circuit as one matrix on two qubits. */
struct qr_fused_gate {
    uint32_t shape;
    uint8_t q[2]; /* frame */
    enum qr_fused_kind kind;
    uint32_t batch;       /* of a PHASE: those of a batch are adjacent and commute */
    bool single;          /* a PHASE or ROTATION: acts on q[0] only */
    uint32_t first_noise; /* index of the first channel of its sites; or of a branch */
    bool branch; /* no gates (an empty shape): a channel that is not a list of Pauli errors */
    uint32_t condition; /* 1 + index of the plan's conditions; 0: always acts */
    bool classical;     /* sets bits or has a condition; such gates keep their order */
    uint64_t controls, control_values; /* outside the frame; bit q: qubit q */
};

struct qr_sim_plan {
    unsigned n_qubits, n; /* of the circuit; simulated (at least 2) */
    unsigned n_params, n_columns, n_readouts;
    size_t n_gates;
    enum qr_precision precision;
    enum qr_isa isa;
    const struct qr_kernels *kernels;
    bool lanes_are_samples;
    bool structured; /* fuse by structure: one-qubit and diagonal gates apart from matrices */
    unsigned cell_bits;
    size_t cell_bytes, elem_bytes;

    /* The circuit's expressions; NULL if it has none. n_params and n_columns are those of the
     * lowered circuit, which is the one compiled. */
    struct qr_lowered *lowered;
    uint8_t *zero_gradient; /* n_params: 1 if no observable depends on it */
    uint8_t *wanted;        /* n_columns: 1 if derivatives by it are requested; NULL: none */
    enum qr_method method;
    unsigned n_trajectories, shots;
    const struct qr_observable *measured; /* by shots, n_readouts; only while planning */
    double (*readout_errors)[2];          /* of shots, per qubit; NULL: none */
    struct qr_shift *shift; /* of derivatives by the parameter-shift rule; NULL: by adjoints */
    size_t n_channels;      /* noise channels of the circuit; 0: a circuit without noise */
    struct qr_channel *channels;
    bool *channel_needs; /* n_channels: some observable depends on one of its parameters */
    unsigned n_bits;     /* that measurements set */
    struct qr_conditions conditions; /* of gates; none after measurements were deferred */
    struct qr_deferred *deferred;    /* the circuit with qubits in place of bits; NULL: as it is */
    bool inputs_wanted;              /* by a column of the circuit itself, before lowering */
    struct qr_plan_op *ops;
    size_t n_ops;
    uint32_t *numbers; /* index of a representative op for each data-free gate matrix */
    size_t n_numbers;
    struct qr_plan_shape *shapes;
    size_t n_shapes;
    struct qr_plan_derivative *derivatives;
    size_t n_derivatives;
    struct qr_fused_gate *fused;
    size_t n_fused;
    struct qr_plan_site *sites;
    size_t n_sites;
    struct qr_plan_noise *noise;
    size_t n_noise;
    size_t n_data, n_mixed; /* numbers of data_slot and mixed_slot indices */

    const struct qr_sim_engine *engine;
    bool engine_requested; /* the caller named the engine */
    char why[256];         /* reason for this engine */
    /* engines that were tried before, and why they were rejected */
    unsigned n_rejected;
    struct {
        const char *engine;
        char why[256];
    } rejected[4];
    struct qr_statevector *statevector; /* part of the statevector engine; NULL for other engines */
    struct qr_stream *stream;           /* part of the streaming engine; NULL for other engines */
    struct qr_cones *cones;             /* part of the cones engine; NULL for other engines */
    struct qr_density *density;         /* part of the density engine; NULL for other engines */
};

/* Sets or reads element `at` of a table in the amplitudes' precision. */
static inline void qr_element_set(const struct qr_sim_plan *p, void *table, size_t at, double v) {
    if (p->precision == QR_DOUBLE) ((double *)table)[at] = v;
    else ((float *)table)[at] = (float)v;
}
static inline double qr_element(const struct qr_sim_plan *p, const void *table, size_t at) {
    return p->precision == QR_DOUBLE ? ((const double *)table)[at]
                                     : (double)((const float *)table)[at];
}

/* Fuses the gates of consecutive segments. Segments share shapes, but no fused gate spans two
 * segments.
 *
 * Args:     segments   circuits of at most QR_FUSED_QUBITS qubits, each with its own numbering
 *           ret_first  n_segments + 1 indices: the first fused gate of each segment, then the end;
 *                      or NULL
 */
void qr_plan_fuse(struct qr_sim_plan *p, const struct qr_circuit *segments, size_t n_segments,
                  uint32_t *ret_first);
/* Frees the result of qr_plan_fuse. */
void qr_plan_unfuse(struct qr_sim_plan *p);

#endif
