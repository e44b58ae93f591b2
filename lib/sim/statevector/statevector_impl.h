/* sim/statevector/statevector_impl.h — passes over a state as data, the workspace of the engine and
 * one sweep. Private to sim/statevector. */
#ifndef QR_SIM_STATEVECTOR_STATEVECTOR_IMPL_H
#define QR_SIM_STATEVECTOR_STATEVECTOR_IMPL_H

#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

enum {
    QR_PIECE_CELLS = 1024, /* cells of one piece of a read-out: one term each */
    /* largest state that is kept after the fixed gates */
    QR_START_MAX_BYTES = 1 << 26,
};

/* ---- the plan ---- */

/* One step of a pass: a fused gate, or an exchange of all lanes with four cell bits of the tile. */
struct qr_plan_step {
    bool transpose;
    /* cell bits of the tile that change places with the lanes; the fields below are then unused */
    uint8_t swap[QR_LANE_BITS];
    uint32_t fused, shape;
    struct qr_tile_target target;
    uint64_t outer_controls, outer_values; /* cell bits outside the tile */
    uint16_t lanes;                        /* lanes in which the controls hold */
    uint32_t wide_slot;                    /* per-lane numbers, or QR_NO_SLOT */
    bool cross;                            /* has derivatives */
    bool needs_adjoint; /* an earlier step with derivatives shares a qubit: see mark_adjoints() */
};

struct qr_plan_pass {
    uint32_t first_step, n_steps;
    uint64_t tile; /* cell bits of the tile */
    /* offsets of the tile's cells (qr_cell_at); unused if the tile is the whole state */
    uint32_t first_offset;
};

struct qr_plan_term {
    uint32_t readout;
    double coefficient;
    struct qr_pauli_string string;
};

/* Consecutive terms that flip the same qubits: one call of a kernel. */
enum { QR_RUN_MOST = 32 };
struct qr_plan_run {
    uint32_t first, n;
    uint8_t parities; /* number of distinct parities of n_y: 1 or 2 */
};

/* The part of a plan that belongs to this engine. */
struct qr_statevector {
    unsigned tile_bits;
    unsigned n_slots; /* threads that a workspace supports */
    struct qr_plan_step *steps;
    size_t n_steps;
    struct qr_plan_pass *passes;
    size_t n_passes;
    /* passes before this one hold fixed gates only and run once for all samples and thetas; 0: no
     * state is kept */
    size_t first_pass;
    uint64_t *offsets;
    size_t n_offsets;
    struct qr_plan_term *terms;
    size_t n_terms;
    struct qr_plan_run *runs; /* all terms, in order */
    size_t n_runs;
    /* the tiles of the last pass hold all cells that the terms pair: lambda is computed there, not
     * as a state */
    bool tiles_observe;
    size_t n_wide;
    /* bit of each qubit in the final state: the first four are lanes unless lanes are samples */
    uint8_t final_bit[QR_FUSED_QUBITS];
    /* first step that has derivatives; n_steps if there is none */
    size_t first_cross;
};

/* passes.c: orders fused gates into passes; sets the bits of all qubits and read-outs. */
void qr_plan_passes(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs);

/* ---- the workspace ---- */

/* Written by one thread while a pass runs. */
struct qr_sweep_slot {
    unsigned char *phi, *lambda; /* a tile of each; unused if the tile is the whole state */
    qr_fixed *cross;             /* n_shapes * QR_CROSS */
    qr_fixed *z;                 /* n_readouts * QR_LANES; only lane 0 if lanes are amplitudes */
    bool *bad_z;                 /* as z: a term was out of range */
    /* item that this thread processes next; number of items: none */
    size_t next;
    bool bad; /* a cross number was out of range */
};

/* A group is the contents of one state vector: up to 16 samples, or one. */
enum { QR_NO_GROUP = -1 };

struct qr_statevector_workspace {
    struct qr_sim_workspace head;
    size_t n_samples;
    double *x;         /* max_samples * n_columns: samples of the last forward sweep */
    int64_t phi_group; /* group with its final state in phi */
    unsigned char *phi, *lambda;
    unsigned char *start;  /* state before pass first_pass; NULL if first_pass is 0 */
    bool started;          /* start is set */
    double *wide, *narrow; /* n_wide * QR_WIDE, n_data * QR_NARROW */
    struct qr_sweep_slot *slots;
    qr_fixed *cross; /* n_shapes * QR_CROSS */
    qr_fixed *mixed; /* n_mixed * max_samples * QR_CROSS */
    double *scratch; /* n_params */
};

/* ---- one sweep over one group ---- */

struct qr_sweep {
    const struct qr_sim_plan *p;
    const struct qr_statevector *v; /* the plan's part for this engine */
    const struct qr_sim_bound *b;
    struct qr_statevector_workspace *ws;
    struct qr_pool *pool;
    size_t first, n; /* samples of the group */
    const struct qr_plan_pass *pass;
    unsigned char *from;     /* state that a pass reads: ws->phi or ws->start */
    const double *direction; /* n * n_readouts, of the group */
    double scale[QR_LANES];  /* of each lane; 0 in empty lanes */
};

/* statevector_passes.c: forward computes the final state in ws->phi from |0..0>; backward runs from
 * ws->phi and ws->lambda and adds cross numbers to the slots. */
void qr_sweep_forward(struct qr_sweep *r);
void qr_sweep_backward(struct qr_sweep *r);
/* Runs items 0..n-1 on the pool's threads, each with its own slot. */
typedef void (*qr_sweep_item_fn)(struct qr_sweep *r, size_t item, struct qr_sweep_slot *slot);
void qr_sweep_items(struct qr_sweep *r, size_t n, qr_sweep_item_fn fn);

/* readout.c: adds the group's read-outs to z of the slots; sets ws->lambda, unless
 * tiles_observe. */
void qr_sweep_expect(struct qr_sweep *r);
void qr_sweep_observe(struct qr_sweep *r);
/* Computes lambda for the tile of the last pass at base; its cells are contiguous here; for plans
 * with tiles_observe. */
void qr_sweep_observe_tile(const struct qr_sweep *r, uint64_t base, unsigned char *lambda,
                           const unsigned char *phi);

/* statevector_facts.c */
void qr_statevector_report(struct qr_report_build *b);

#endif
