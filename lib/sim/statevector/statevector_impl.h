/* sim/statevector/statevector_impl.h — passes over a state as data, the engine's workspace and one
 * sweep of it (inside the room). */
#ifndef QR_SIM_STATEVECTOR_STATEVECTOR_IMPL_H
#define QR_SIM_STATEVECTOR_STATEVECTOR_IMPL_H

#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

enum {
    QR_PIECE_CELLS = 1024, /* cells of one piece of a read-out: one term each */
    /* states up to here are kept as they are behind the fixed gates */
    QR_START_MAX_BYTES = 1 << 26,
};

/* ---- the plan ---- */

/* A fused gate at its place in a pass, or an exchange of all lanes with four cell bits of
 * the tile. */
struct qr_plan_step {
    bool transpose;
    /* of the tile: the bits that change places with the lane bits; nothing below counts then */
    uint8_t swap[QR_LANE_BITS];
    uint32_t fused, shape;
    struct qr_tile_target place;
    uint64_t outer_controls, outer_values; /* cell bits outside the tile */
    uint16_t lanes;                        /* lanes whose controls hold */
    uint32_t wide_slot;                    /* per-lane numbers, or QR_NO_SLOT */
    bool cross;                            /* owes derivatives */
    bool back; /* its adjoint stands between the final state and one that does */
};

struct qr_plan_pass {
    uint32_t first_step, n_steps;
    uint64_t tile; /* cell bits of the tile */
    /* where a tile's cells lie (qr_cell_at); unused when the tile is the whole state */
    uint32_t first_offset;
};

struct qr_plan_term {
    uint32_t readout;
    double coefficient;
    struct qr_pauli_string place;
};

/* Terms that turn the same qubits and stand one after the other: one call of a kernel. */
enum { QR_RUN_MOST = 32 };
struct qr_plan_run {
    uint32_t first, n;
    uint8_t parities; /* of numbers of Y, how many there are: 1 or 2 */
};

/* This engine's part of a plan. */
struct qr_statevector {
    unsigned tile_bits;
    unsigned n_slots; /* threads that a workspace can feed */
    struct qr_plan_step *steps;
    size_t n_steps;
    struct qr_plan_pass *passes;
    size_t n_passes;
    /* those before hold fixed gates only: once for all samples and thetas. 0: nothing is kept */
    size_t first_pass;
    uint64_t *offsets;
    size_t n_offsets;
    struct qr_plan_term *terms;
    size_t n_terms;
    struct qr_plan_run *runs; /* all terms, in their order */
    size_t n_runs;
    /* the last pass's tiles have all cells that the terms pair: lambda begins there, not as
     * a state */
    bool tiles_observe;
    size_t n_wide;
    /* first step in order of execution that owes derivatives; n_steps when none does */
    size_t first_cross;
};

/* passes.c: orders fused gates into passes, finds every one's place and the places of
 * the read-outs. */
void qr_plan_passes(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs);

/* ---- the workspace ---- */

/* What one thread writes while a pass runs. */
struct qr_sweep_slot {
    unsigned char *phi, *lambda; /* a tile of each; unused when the tile is the whole state */
    qr_fixed *cross;             /* n_shapes * QR_CROSS */
    qr_fixed *z;                 /* n_readouts * QR_LANES; lane 0 alone when lanes are amplitudes */
    bool *bad_z;                 /* the same shape */
    /* the item that this thread does after this one; none: their number */
    size_t next;
    bool bad; /* a cross number left the range */
};

/* A group is what one state vector holds: up to 16 samples, or one. */
enum { QR_NO_GROUP = -1 };

struct qr_statevector_workspace {
    struct qr_sim_workspace head;
    size_t max_samples, n_samples;
    double *x;         /* max_samples * n_columns: the samples of the last forward */
    int64_t phi_group; /* whose final state phi holds */
    unsigned char *phi, *lambda;
    unsigned char *start;  /* the state before pass first_pass; NULL where that is 0 */
    bool started;          /* it is there */
    double *wide, *narrow; /* n_wide * QR_WIDE, n_data * QR_NARROW */
    struct qr_sweep_slot *slots;
    qr_fixed *cross; /* n_shapes * QR_CROSS */
    qr_fixed *mixed; /* n_mixed * max_samples * QR_CROSS */
    double *scratch; /* n_params */
};

/* ---- one sweep over one group ---- */

struct qr_sweep {
    const struct qr_sim_plan *p;
    const struct qr_statevector *v; /* its part for this engine */
    const struct qr_sim_bound *b;
    struct qr_statevector_workspace *ws;
    struct qr_pool *pool;
    size_t first, n; /* samples of the group */
    const struct qr_plan_pass *pass;
    unsigned char *from;     /* the state that a pass reads: ws->phi, or ws->start */
    const double *direction; /* n * n_readouts, of the group */
    double scale[QR_LANES];  /* of each lane; 0 in empty ones */
};

/* sweep.c: |0..0> to the final state in ws->phi; and back from ws->phi, ws->lambda, cross numbers
 * into the slots. */
void qr_sweep_forward(struct qr_sweep *r);
void qr_sweep_backward(struct qr_sweep *r);
/* Items 0..n-1 over the pool's threads, each with a slot of its own. */
typedef void (*qr_sweep_item_fn)(struct qr_sweep *r, size_t item, struct qr_sweep_slot *slot);
void qr_sweep_items(struct qr_sweep *r, size_t n, qr_sweep_item_fn fn);

/* readout.c: adds this group's read-outs into the slots' z; sets ws->lambda, unless tiles do it. */
void qr_sweep_expect(struct qr_sweep *r);
void qr_sweep_observe(struct qr_sweep *r);
/* The same for one tile of the last pass, at base, whose cells are here one after the other: where
 * the plan's tiles_observe. */
void qr_sweep_observe_tile(const struct qr_sweep *r, uint64_t base, unsigned char *lambda,
                           const unsigned char *phi);

/* facts.c */
void qr_statevector_report(struct qr_report_build *b);

#endif
