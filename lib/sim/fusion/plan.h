/* sim/fusion/plan.h — the compiled circuit as data (inside the room). planner.md tells why it is so. */
#ifndef QR_SIM_PLANNER_IMPL_H
#define QR_SIM_PLANNER_IMPL_H

#include "sim/kernels/kernel.h"
#include "sim/sim.h"

enum {
    QR_SAMPLE_LANES_MAX_QUBITS = 11, /* up to here the lanes are samples */
    QR_PIECE_GROUPS = 256,           /* groups of 4 cells: 4 terms a group and number, so 1024 terms a lane */
    QR_PIECE_CELLS = 1024,           /* cells of one piece of a read-out: one term each */
    QR_NARROW = 64,                  /* numbers of a matrix and its adjoint, the same in all lanes */
    QR_WIDE = 1024,                  /* and one set per lane */
    QR_START_MAX_BYTES = 1 << 26,    /* states up to here are kept as they are behind the fixed blocks */
    QR_NO_SLOT = UINT32_MAX,
};

struct qr_c64 { double re, im; };
struct qr_m4 { struct qr_c64 e[16]; }; /* 4x4, row-major; frame qubit 0 is the more significant */

/* One gate of the circuit inside a block. Frame positions are 0 (more significant) and 1. */
struct qr_plan_op {
    struct qr_gate gate;
    uint32_t number;   /* into the table of data-free gate matrices; QR_NO_SLOT when an argument is data */
    uint8_t t[2];      /* frame positions of the targets */
    uint8_t has_control, control_value; /* a control inside the frame, on position 1 - t[0] */
};

/* One derivative that a shape owes. */
struct qr_plan_slope {
    uint32_t op;    /* global index */
    uint32_t param;
    uint32_t arg;
    double scale;
    bool mixed;     /* its gate has data too: one generator per sample */
};

/* What a block multiplies by. Blocks with the same gates at the same places share one. */
struct qr_plan_shape {
    uint32_t first_op, n_ops;
    uint32_t n_prefix;    /* ops up to the last one with data; 0 without data */
    uint32_t first_slope, n_slopes;
    uint32_t data_slot;   /* numbers of the samples' own, or QR_NO_SLOT */
    uint32_t mixed_slot;  /* cross matrices kept per sample, or QR_NO_SLOT */
};

struct qr_plan_block {
    uint32_t shape;
    uint8_t q[2];                       /* frame */
    uint64_t controls, control_values;  /* outside the frame; bit q: qubit q */
};

/* A block at its place in a pass, or an exchange of all lanes with four cell bits of the tile. */
struct qr_plan_step {
    bool transpose;
    uint8_t swap[QR_LANE_BITS];   /* of the tile: the bits that change places with the lane bits; nothing below counts then */
    uint32_t block, shape;
    struct qr_place place;
    uint64_t outer_controls, outer_values; /* cell bits outside the tile */
    uint16_t lanes;      /* lanes whose controls hold */
    uint32_t wide_slot;  /* per-lane numbers, or QR_NO_SLOT */
    bool cross;          /* owes derivatives */
    bool back;           /* its adjoint stands between the final state and one that does */
};

struct qr_plan_pass {
    uint32_t first_step, n_steps;
    uint64_t tile;                /* cell bits of the tile */
    uint32_t first_offset;        /* where a tile's cells lie (qr_cell_at); unused when the tile is the whole state */
};

struct qr_plan_term {
    uint32_t readout;
    double coefficient;
    struct qr_pauli_place place;
};

struct qr_sim_plan {
    unsigned n_qubits, n; /* asked for; simulated (at least 2) */
    unsigned n_params, n_columns, n_readouts;
    size_t n_gates;
    struct qr_sim_options opt;
    const struct qr_kernels *kernels;
    bool lanes_are_samples;
    unsigned cell_bits, tile_bits;
    size_t cell_bytes, elem_bytes;
    unsigned n_slots; /* threads that a workspace can feed */

    uint8_t *invisible; /* n_params */
    struct qr_plan_op *ops;
    size_t n_ops;
    uint32_t *numbers; /* op that stands for each data-free gate matrix */
    size_t n_numbers;
    struct qr_plan_shape *shapes;
    size_t n_shapes;
    struct qr_plan_slope *slopes;
    size_t n_slopes;
    struct qr_plan_block *blocks;
    size_t n_blocks;
    struct qr_plan_step *steps;
    size_t n_steps;
    struct qr_plan_pass *passes;
    size_t n_passes;
    size_t first_pass;   /* those before hold fixed blocks only: once for all samples and thetas. 0: nothing is kept */
    uint64_t *offsets;
    size_t n_offsets;
    struct qr_plan_term *terms;
    size_t n_terms;
    bool tiles_observe; /* the last pass's tiles have all cells that the terms pair: lambda begins there, not as a state */
    size_t n_data, n_mixed, n_wide;
    size_t first_cross; /* first step in order of execution that owes derivatives; n_steps when none does */
    struct qr_stream *stream; /* NULL: the blocked engine */
    char why[256];            /* this engine */
};

/* kernel.c */
const struct qr_kernels *qr_kernels_of(enum qr_isa isa, enum qr_precision precision);

/* Fuses the gates into blocks and shapes. Segments come one after the other and share shapes, but no block crosses from one to
 * the next; each has its own numbering of qubits. ret_first[n_segments + 1], or NULL: their first blocks. */
void qr_plan_fuse(struct qr_sim_plan *p, const struct qr_circuit *segments, size_t n_segments, uint32_t *ret_first);
/* Undoes it. */
void qr_plan_forget_blocks(struct qr_sim_plan *p);
/* Orders blocks into passes, finds every block's place and the places of the read-outs. */
void qr_plan_passes(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs);

/* ---- block_algebra.c: 4x4 matrices in float64 ---- */
struct qr_m4 qr_m4_identity(void);
struct qr_m4 qr_m4_mul(const struct qr_m4 *a, const struct qr_m4 *b);
/* a times the adjoint of b */
struct qr_m4 qr_m4_mul_adjoint(const struct qr_m4 *a, const struct qr_m4 *b);
/* A gate's matrix in its block's frame. derivative: zero, not identity, where its control does not hold. */
struct qr_m4 qr_m4_embed(const struct qr_plan_op *op, const double complex *m, bool derivative);
/* a times that; zeros may have another sign than in the whole product. */
struct qr_m4 qr_m4_mul_gate(const struct qr_m4 *a, const struct qr_plan_op *op, const double complex *m, bool derivative);
/* The 16 weights with which the numbers of a cross matrix give Re Tr(s g s^adjoint K), times scale; g = (dG) G^adjoint in the frame, d of one
 * argument, both from qr_gate_matrix. */
void qr_slope_weights(const struct qr_m4 *s, const struct qr_plan_op *op, const double complex *u, const double complex *d, double scale,
                      double ret[QR_CROSS]);
double qr_slope_value(const double w[QR_CROSS], const double k[QR_CROSS]);
void qr_two_slopes(const double w[2 * QR_CROSS], const double k[QR_CROSS], double ret[2]); /* of slopes that follow each other */
/* As numbers of a kernel: 16 real then 16 imaginary parts of m, then the same of its adjoint. */
void qr_narrow_numbers(const struct qr_m4 *m, double ret[QR_NARROW]);
/* The same into one lane of a wide slot. */
void qr_wide_numbers(const struct qr_m4 *m, unsigned lane, double ret[QR_WIDE]);

/* ---- bind.c ---- */
struct qr_sim_bound {
    const struct qr_sim_plan *plan;
    double *theta;
    double complex *matrices;    /* n_numbers * 16 */
    double complex *derivatives; /* n_numbers * 2 * 16 */
    struct qr_m4 *suffix;        /* n_shapes: product of the ops after the data */
    double *narrow;              /* n_shapes * QR_NARROW; those with data unused */
    double *weights;             /* n_slopes * QR_CROSS; mixed ones unused */
    struct qr_stream_bound *stream; /* NULL: the blocked engine */
};
/* The matrix of a shape with data, for data row x. */
struct qr_m4 qr_bound_data_matrix(const struct qr_sim_bound *b, const struct qr_plan_shape *s, const double *x);

/* ---- gradient.c ---- */
/* Sums of all pieces to derivatives (see sim.h). mixed[(slot * n_samples + sample) * QR_CROSS + k]. */
bool qr_gradient(const struct qr_sim_bound *b, const qr_fixed *cross, const qr_fixed *mixed, size_t mixed_stride,
                 const double *x, size_t n_samples, double *scratch, qr_fixed *ret_grad);

#endif
