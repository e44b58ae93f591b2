/* sim/fusion/plan.h — the compiled circuit as data: fused gates and their shapes; what an engine
 * adds is the engine's. sim/planner.md tells why it is so. */
#ifndef QR_SIM_FUSION_PLAN_H
#define QR_SIM_FUSION_PLAN_H

#include "circuit/circuit.h"
#include "circuit/lower.h"
#include "sim/kernels/kernel.h"

enum {
    QR_SAMPLE_LANES_MAX_QUBITS = 11, /* up to here the lanes are samples */
    /* From here on they are qubits where there is no data. The least that there can be: lanes
     * change places with four qubits of the tile that the next fused gate, of two more, does not
     * need. */
    QR_QUBIT_LANES_MIN_QUBITS = QR_LANE_BITS + 4 + 2,
    /* of a cross matrix: groups of 4 cells, 4 terms a group and number, so 1024 terms a lane */
    QR_PIECE_GROUPS = 256,
    QR_NO_SLOT = UINT32_MAX,
    /* of what is fused: sets of qubits are masks in a plan, bit q for qubit q */
    QR_FUSED_QUBITS = 64,
};

/* The qubits of a gate of such a circuit. */
static inline uint64_t qr_gate_mask(const struct qr_gate *g) {
    uint64_t mask = qr_qubits_mask(&g->controls);
    for (unsigned t = 0; t < g->n_targets; t++) mask |= UINT64_C(1) << g->targets[t];
    return mask;
}

/* One gate of the circuit inside a fused gate. Frame positions are 0 (more significant) and 1. */
struct qr_plan_op {
    struct qr_gate gate;
    /* into the table of data-free gate matrices; QR_NO_SLOT when an argument is data */
    uint32_t number;
    uint8_t t[2];                       /* frame positions of the targets */
    uint8_t has_control, control_value; /* a control inside the frame, on position 1 - t[0] */
};

/* One derivative that a shape owes. */
struct qr_plan_derivative {
    uint32_t op; /* global index */
    uint32_t of; /* parameter, or column */
    uint32_t arg;
    double scale;
    bool mixed; /* its gate has data (too): one generator per sample */
    bool input; /* by a column that is wanted */
};

/* What a fused gate multiplies by. Those with the same gates at the same places share one. */
struct qr_plan_shape {
    uint32_t first_op, n_ops;
    uint32_t n_prefix; /* ops up to the last one with data; 0 without data */
    uint32_t first_derivative, n_derivatives;
    uint32_t data_slot;  /* numbers of the samples' own, or QR_NO_SLOT */
    uint32_t mixed_slot; /* cross matrices kept per sample, or QR_NO_SLOT */
};

/* Neighbouring gates of the circuit as one matrix on two qubits. */
struct qr_fused_gate {
    uint32_t shape;
    uint8_t q[2];                      /* frame */
    uint64_t controls, control_values; /* outside the frame; bit q: qubit q */
};

struct qr_sim_plan {
    unsigned n_qubits, n; /* asked for; simulated (at least 2) */
    unsigned n_params, n_columns, n_readouts;
    size_t n_gates;
    enum qr_precision precision;
    enum qr_isa isa;
    const struct qr_kernels *kernels;
    bool lanes_are_samples;
    unsigned cell_bits;
    size_t cell_bytes, elem_bytes;

    /* The circuit's expressions; NULL: it has none. n_params and n_columns are those of its lowered
     * circuit, which is what was compiled. */
    struct qr_lowered *lowered;
    uint8_t *zero_gradient; /* n_params: no observable sees it */
    uint8_t *wanted;        /* n_columns: derivatives by it are wanted; NULL: by none */
    bool inputs_wanted;     /* by one of the circuit's own, before it was lowered */
    struct qr_plan_op *ops;
    size_t n_ops;
    uint32_t *numbers; /* op that stands for each data-free gate matrix */
    size_t n_numbers;
    struct qr_plan_shape *shapes;
    size_t n_shapes;
    struct qr_plan_derivative *derivatives;
    size_t n_derivatives;
    struct qr_fused_gate *fused;
    size_t n_fused;
    size_t n_data, n_mixed; /* slots of shapes */

    const struct qr_sim_engine *engine;
    bool at_any_cost; /* it was asked for by name */
    char why[256];    /* this engine */
    /* engines that were asked before it, and why they are not it */
    unsigned n_passed_over;
    struct {
        const char *engine;
        char why[256];
    } passed_over[3];
    struct qr_statevector *statevector; /* its own part, where it is the engine; else NULL */
    struct qr_stream *stream;           /* the same of the streaming engine */
    struct qr_cones *cones;             /* the same of the cones engine */
};

/* Element `at` of a table in the amplitudes' precision. */
static inline void qr_element_set(const struct qr_sim_plan *p, void *table, size_t at, double v) {
    if (p->precision == QR_DOUBLE) ((double *)table)[at] = v;
    else ((float *)table)[at] = (float)v;
}
static inline double qr_element(const struct qr_sim_plan *p, const void *table, size_t at) {
    return p->precision == QR_DOUBLE ? ((const double *)table)[at]
                                     : (double)((const float *)table)[at];
}

/* Fuses the gates. Segments come one after the other and share shapes, but no fused gate crosses
 * from one to the next; each has its own numbering of at most QR_FUSED_QUBITS qubits.
 * ret_first[n_segments + 1], or NULL: their first fused gates. */
void qr_plan_fuse(struct qr_sim_plan *p, const struct qr_circuit *segments, size_t n_segments,
                  uint32_t *ret_first);
/* Undoes it. */
void qr_plan_unfuse(struct qr_sim_plan *p);

#endif
