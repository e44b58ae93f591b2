/* sim/statevector/statevector_impl.h — passes over a state as data, the workspace of the engine and
 * one sweep. Private to sim/statevector. */
#ifndef QR_SIM_STATEVECTOR_STATEVECTOR_IMPL_H
#define QR_SIM_STATEVECTOR_STATEVECTOR_IMPL_H

#include <pthread.h>

#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

enum {
    QR_PIECE_CELLS = 1024, /* cells of one piece of a read-out: one term each */
    /* Largest state that is kept after the fixed gates; larger ones take two vectors only. */
    QR_START_MAX_BYTES = 1 << 22,
};

/* ---- the plan ---- */

/* A fused gate of a step. */
struct qr_plan_gate {
    uint32_t fused;
    /* ROTATION: cell bit of the tile. PHASE, of its qubits: 0-3: lane; 4 + k: cell bit k of the
     * tile; QR_OUTER_BIT + k: cell bit k outside */
    uint8_t bit[2];
};
enum { QR_OUTER_BIT = 16, QR_INNER_BITS = QR_LANE_BITS + QR_TILE_BITS };

/* Rotations and exchanges of lanes that follow each other form a *chain* if their cell bits are so
 * few that a block of cells, which they pair with each other, fits L1: all steps run on a block
 * before the next one. */
enum { QR_CHAIN_STEPS = 8, QR_BLOCK_BITS = 6 /* in float32; 16 KiB of both vectors */ };

/* One step of a pass: fused gates of one kind that act as one, one if it is MATRIX, at most two if
 * it is ROTATION; or an exchange of all lanes with four cell bits of the tile.
 *
 * In plans by structure, cell i of a tile lies at order[i] while a step runs. A PERMUTATION is a
 * new order and moves nothing, unless it has no gates: then it moves cell i to position i. All
 * orders are affine: order[i ^ j] = order[i] ^ order[j] ^ order[0]. */
struct qr_plan_step {
    enum qr_fused_kind kind;
    uint32_t first_gate, n_gates; /* in the plan's list */
    uint64_t qubits;              /* of the gates */
    /* index among the numbers of its kind (structure.c); QR_NO_SLOT: a MATRIX in float64 */
    uint32_t numbers;
    uint32_t first_order; /* in the plan's list; QR_NO_SLOT: cells are in order */
    /* PERMUTATION: its cycles, in the plan's list; MATRIX in single precision: groups of four */
    uint32_t first_cell, n_cells;
    /* ROTATION and exchange: steps of its chain, if it is the first of it, else 0; cell bits of a
     * block of it */
    uint8_t n_chain;
    uint64_t block;
    bool transpose;
    /* cell bits of the tile that change places with the lanes; the fields below are then unused */
    uint8_t swap[QR_LANE_BITS];
    uint32_t shape;
    struct qr_tile_target target;
    uint64_t outer_controls, outer_values; /* cell bits outside the tile */
    uint16_t lanes;                        /* lanes in which the controls hold */
    uint32_t wide_slot;                    /* per-lane numbers, or QR_NO_SLOT */
    uint32_t noise_slot; /* numbers with Pauli errors at its sites, or a condition; or QR_NO_SLOT */
    uint32_t condition;  /* 1 + index of the plan's conditions; 0: always acts */
    uint32_t branch;     /* a channel: its kept state, or QR_NO_SLOT */
    bool cross;          /* has derivatives */
    bool needs_adjoint;  /* an earlier step with derivatives shares a qubit: see mark_adjoints() */
};

struct qr_plan_pass {
    uint32_t first_step, n_steps;
    uint64_t tile;    /* cell bits of the tile */
    uint64_t reached; /* of the tiles before: amplitudes with other bits are 0 at the start */
    /* offsets of the tile's cells (qr_cell_at) by their positions before the first step, and after
     * the last one; unused if the tile is the whole state */
    uint32_t first_offset, last_offset;
};

struct qr_plan_term {
    uint32_t readout;
    double coefficient;
    struct qr_pauli_string string;
    /* on the positions of cells in the last pass's tile, and whether their signs change */
    struct qr_pauli_string tile;
    bool tile_minus;
};

/* Consecutive terms that flip the same qubits: one call of a kernel. */
struct qr_plan_run {
    uint32_t first, n;
    uint8_t parities; /* number of distinct parities of n_y: 1 or 2 */
};

/* The part of a plan that belongs to this engine. */
struct qr_statevector {
    unsigned tile_bits;
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
    struct qr_plan_gate *gates; /* of the steps, in order */
    size_t n_gates;
    size_t n_numbers[QR_FUSED_KINDS]; /* of the steps of each kind */
    uint16_t *orders;                 /* per order, 2^tile_bits */
    size_t n_orders;
    uint16_t *cycles; /* cells, see permute in kernel.h */
    size_t n_cycles;
    uint32_t *groups; /* positions, see tile in kernel.h: per pair of bits, 2^tile_bits */
    size_t n_groups;
    size_t n_wide;
    size_t n_noisy, n_branches; /* numbers of noise_slot and branch indices */
    struct qr_shots *shots;     /* NULL: exact read-outs */
    uint32_t *site_channels;    /* per number of a draw: channel of Pauli errors, or QR_NO_SLOT */
    /* bit of each qubit in the final state: the first four are lanes unless lanes are samples */
    uint8_t final_bit[QR_FUSED_QUBITS];
    /* first step that has derivatives; n_steps if there is none */
    size_t first_cross;
    /* steps at which the state without errors is kept (noise_prefix.c): the first one that is not
     * fixed is stop 0, and n_steps comes after the last; 0: trajectories share nothing */
    uint32_t *stops;
    size_t n_stops;
    uint32_t *site_stops; /* per number of a draw: last stop before its step */
};

/* passes.c: orders fused gates into passes; sets the bits of all qubits and read-outs. */
void qr_plan_passes(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs);

/* Cell bits in which the tiles differ that a pass works on. Amplitudes that are 0 need no gates;
 * but the first pass after the fixed gates copies them, and backward they are not 0, because gates
 * whose adjoint is not needed are not undone. */
static inline uint64_t qr_pass_outside(const struct qr_sim_plan *p, size_t pass, bool backward) {
    const struct qr_statevector *v = p->statevector;
    bool all = backward || (v->first_pass && pass == v->first_pass);
    uint64_t bits = ((UINT64_C(1) << p->cell_bits) - 1) & ~v->passes[pass].tile;
    return all ? bits : bits & v->passes[pass].reached;
}
/* NULL: cells lie in order */
static inline const uint16_t *qr_step_order(const struct qr_sim_plan *p,
                                            const struct qr_plan_step *st) {
    return st->first_order == QR_NO_SLOT ? NULL : p->statevector->orders + st->first_order;
}
static inline const struct qr_fused_gate *qr_step_gate(const struct qr_sim_plan *p,
                                                       const struct qr_plan_step *st, uint32_t k) {
    return &p->fused[p->statevector->gates[st->first_gate + k].fused];
}
static inline const struct qr_plan_shape *qr_step_shape(const struct qr_sim_plan *p,
                                                        const struct qr_plan_step *st, uint32_t k) {
    return &p->shapes[qr_step_gate(p, st, k)->shape];
}

/* ---- the workspace ---- */

/* Written by one thread while a pass runs. */
struct qr_sweep_slot {
    unsigned char *phi, *lambda; /* a tile of each; unused if the tile is the whole state */
    /* phases of one tile (phase in kernel.h); NULL without diagonal gates */
    unsigned char *lanes, *rows;
    unsigned char *parities; /* of one tile */
    qr_fixed *sites;         /* n_sites * QR_CROSS: corrections (trajectories.c) */
    qr_fixed *z;             /* n_readouts * QR_LANES; only lane 0 if lanes are amplitudes */
    bool *bad_z;             /* as z: a term was out of range */
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
    unsigned n_slots;      /* threads that the workspace supports */
    struct qr_sweep_slot *slots;
    pthread_mutex_t lock;                  /* guards cross while a sweep runs */
    qr_fixed *cross;                       /* n_shapes * QR_CROSS; of all threads */
    qr_fixed *mixed;                       /* n_mixed * max_samples * QR_CROSS */
    qr_fixed *collected;                   /* n_mixed * QR_CROSS: of cross, already in mixed */
    double *scratch;                       /* n_params */
    struct qr_rotation_numbers *rotations; /* per step of each kind */
    struct qr_single_matrix *matrices;
    struct qr_phase_table *phases;
    double *step_scale;            /* n_steps: of its cross numbers, see structure.c */
    struct qr_c64 factor;          /* the state is this times the amplitudes in phi */
    struct qr_trajectories *noise; /* NULL: no channels */
    struct qr_shot_buffers *shots; /* NULL: no shots */
    /* Of a circuit with channels whose state is one tile: workspaces without samples and rows of
     * their own, in which other threads run rows of trajectories */
    struct qr_statevector_workspace *others;
    unsigned n_others;
};

/* ---- one sweep over one group ---- */

struct qr_sweep {
    const struct qr_sim_plan *p;
    const struct qr_statevector *v; /* the plan's part for this engine */
    const struct qr_sim_bound *b;
    struct qr_statevector_workspace *ws;
    struct qr_pool *pool;
    size_t first, n; /* samples, or rows of trajectories, of the group */
    uint32_t start;  /* stop of the plan at which the sweep begins, and ends backward */
    bool shared;     /* without errors: keeps its state at all stops, adds lambdas there */
    size_t first_step, end_step; /* of the part of the sweep that runs */
    const double *x;             /* n * n_columns */
    uint32_t sample[QR_LANES];   /* index in the micro-batch of each lane's sample */
    bool gradient;               /* keep states before branches */
    const struct qr_plan_pass *pass;
    uint64_t outside;        /* qr_pass_outside() */
    unsigned char *from;     /* state that a pass reads: ws->phi or ws->start */
    const double *direction; /* n * n_readouts, of the group */
    double scale[QR_LANES];  /* of each lane; 0 in empty lanes */
};

/* statevector_passes.c: forward computes the final state in ws->phi from |0..0>; backward runs from
 * ws->phi and ws->lambda and adds cross numbers to ws->cross. */
void qr_sweep_forward(struct qr_sweep *r);
/* Sets the numbers of the group's steps, which a forward sweep does first. */
void qr_sweep_prepare(const struct qr_sweep *r);
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

/* ---- structure.c: steps of plans by structure ---- */

/* The gates of a step and their adjoints, in the amplitudes' precision. */
struct qr_rotation_numbers {
    double forward[2][QR_ROTATION_NUMBERS], adjoint[2][QR_ROTATION_NUMBERS];
    uint8_t wanted[2]; /* numbers with a weight that is not 0 */
};
/* A 4x4 and its adjoint: 16 real, then 16 imaginary parts. */
struct qr_single_matrix {
    float forward[32], adjoint[32];
};
/* A product of diagonal gates as factors of bits: each applies where its bits are 1. */
struct qr_phase_table {
    struct qr_c64 constant, single[QR_OUTER_BIT + QR_FUSED_QUBITS];
    struct qr_c64 *pairs;   /* per gate of the step */
    struct qr_c64 *rows;    /* 2^row bits: of pairs inside the row bits */
    struct qr_c64 *columns; /* of pairs with a bit inside a row (column_masks in structure.c) */
    unsigned char *inside;  /* QR_PHASE_CELLS cells: of pairs inside the other bits */
    uint8_t column_rows[QR_LANE_BITS + QR_PHASE_BITS];
    uint16_t first_column[QR_LANE_BITS + QR_PHASE_BITS]; /* in columns, if it has one */
    /* sets of row bits that columns of lanes, and of the other bits, depend on */
    size_t lane_rows, cell_rows;
    bool has_rows, has_inside; /* otherwise these factors are 1 */
};
/* Square of the norm that rotations and phases so far give a state; one for the steps that need
 * their adjoint, one for the others. */
struct qr_growth {
    double norm;
    unsigned n_gates; /* that can only grow it, since the last scale */
};
/* Sets the numbers of a one-qubit gate from its matrix beside an idle qubit (qr_narrow_numbers),
 * and s of modulus 1: the gate is s / r times the matrix of the numbers. Multiplies g->norm by
 * r^2. */
void qr_rotation_set(const struct qr_sim_plan *p, const double *narrow, struct qr_growth *g,
                     double forward[QR_ROTATION_NUMBERS], double adjoint[QR_ROTATION_NUMBERS],
                     struct qr_c64 *ret_s);
/* The power of two that a phase or an ANY gate multiplies the state by: its square brings g->norm
 * back to [1, 4). */
double qr_growth_scale(struct qr_growth *g);
/* Set of numbers of the cross matrix that the shape's derivatives need. */
uint8_t qr_rotation_wanted(const struct qr_sim_bound *b, const struct qr_plan_shape *s);
void qr_structure_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws);
void qr_structure_slot_buffers(struct qr_buffers *r, const struct qr_sim_plan *p,
                               struct qr_sweep_slot *s);
/* Sets the numbers of all such steps, and ws->factor and step_scale. */
void qr_structure_prepare(const struct qr_sweep *r);
static inline bool qr_step_is_of_chain(const struct qr_plan_step *st) {
    return st->transpose || st->kind == QR_FUSED_ROTATION;
}
/* How the cells of a tile are read from a state, or written to one: see gather in kernel.h. */
struct qr_tile_copy {
    unsigned char *state;
    uint64_t base;
    const uint64_t *offsets;
};
/* The chain that begins with `head` on a tile. in: reads its cells first; out: writes them at last;
 * NULL: does not. Backward, phi's and lambda's. */
void qr_chain_forward(const struct qr_sweep *r, const struct qr_plan_step *head,
                      unsigned char *cells, const struct qr_tile_copy *in,
                      const struct qr_tile_copy *out, struct qr_prefetch *prefetch);
void qr_chain_backward(const struct qr_sweep *r, const struct qr_plan_step *head,
                       unsigned char *phi, unsigned char *lambda, const struct qr_tile_copy *in,
                       const struct qr_tile_copy *out, struct qr_prefetch *prefetch,
                       struct qr_sweep_slot *slot);
/* One other step on a tile, unless it is a MATRIX in float64; base: its cell bits outside. */
void qr_structure_forward(const struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                          unsigned char *cells, struct qr_prefetch *prefetch,
                          struct qr_sweep_slot *slot);
void qr_structure_backward(const struct qr_sweep *r, const struct qr_plan_step *st, uint64_t base,
                           unsigned char *phi, unsigned char *lambda, struct qr_prefetch *prefetch,
                           struct qr_sweep_slot *slot);

/* ---- statevector_sums.c ---- */

/* A sweep of samples, or rows of trajectories, first .. first + n - 1: at most one group. */
struct qr_sweep qr_statevector_sweep(const struct qr_sim_bound *b,
                                     struct qr_statevector_workspace *ws, struct qr_pool *pool,
                                     size_t first, size_t n);
size_t qr_statevector_group(const struct qr_sim_plan *p); /* samples of a full group */
/* The sum of the slots' read-outs; NaN if a term was out of range. Clears it. */
double qr_statevector_readout(struct qr_statevector_workspace *ws, size_t at);
void qr_statevector_clear_sums(struct qr_statevector_workspace *ws);
/* False: a number was out of range. */
bool qr_statevector_sums_are_good(const struct qr_statevector_workspace *ws);
/* Around additions to cross. */
void qr_statevector_lock_sums(const struct qr_sweep *r);
void qr_statevector_unlock_sums(const struct qr_sweep *r);
/* Copies the amplitudes of one lane, or, where lanes are amplitudes, of the state, in the order of
 * qubits: real and imaginary part of each. */
void qr_statevector_copy_state(const struct qr_statevector_workspace *ws, size_t lane, double *ret);
/* Cross numbers of shapes with per-sample sums. */
void qr_statevector_collect_mixed(struct qr_sweep *r);
void qr_statevector_sum_mixed(struct qr_statevector_workspace *ws);

/* ---- circuits with channels ---- */

/* A workspace keeps so many bytes at most of what it could compute again; as many for each of
 * outcomes, final states, and the workspaces of other threads. */
enum { QR_NOISE_PAULIS = 16, QR_NOISE_OPERATOR = 16, QR_KEPT_BYTES = 16 << 20 };

struct qr_statevector_bound {
    struct qr_m4 *before, *after; /* per site: products of the shape's ops before and after it */
    uint64_t *thresholds;         /* n_channels * 16 (trajectories.c) */
    double complex *kraus;        /* n_channels * QR_CHANNEL_KRAUS * 16 */
    uint32_t *n_kraus;            /* per channel; 0: a list of Pauli errors */
    bool invalid;                 /* a probability is none; all read-outs are NaN */
};

/* Pauli error at a site of a step, in one lane; ordered by noise_slot, lane and time. */
struct qr_noise_event {
    uint32_t noise_slot;
    uint32_t site; /* of the shape's */
    uint8_t lane, pauli;
};
/* A trajectory of a sample, or `weight` of them that are equal. If trajectories share their prefix,
 * the first row of each sample is the sweep without errors, with weight 0 if no trajectory is. */
struct qr_trajectory {
    uint32_t sample, number; /* index in the micro-batch; of the trajectory */
    uint32_t start;          /* last stop of the plan before the first error; n_stops: no error */
    uint32_t n_clean;        /* of the sweep without errors: trajectories like it */
    bool shared;             /* the sweep without errors */
    double weight;           /* divided by the number of trajectories */
};
/* What all threads share. */
struct qr_trajectory_rows {
    struct qr_trajectory *list; /* max_samples * (n_trajectories + 1), of the samples in order */
    size_t n;
    double *z; /* per row, n_readouts: read-outs, or sums over the row's shots; NaN: not finite */
    /* Per trajectory of the micro-batch, n_noise: Pauli at each site. NULL where these would be too
     * many, which are then drawn again. */
    uint8_t *outcomes;
    unsigned char *finals; /* final state of each group, from forward to backward, or NULL */
    /* Per stop: the state without errors, stop 0 the final one, and the sum of the lambdas of the
     * rows that begin there */
    unsigned char *kept, *lambdas;
    bool *has_lambda;
    /* Of rows first_end .. first_end + n_ends - 1: lambda at the row's stop */
    unsigned char *ends;
    size_t n_ends, first_end;
    int64_t kept_sample; /* whose states are kept, or QR_NO_GROUP */
    /* per row: direction * read-outs, and their mean over the sample's other trajectories. NULL:
     * not needed */
    double (*values)[2];
};
struct qr_trajectories {
    struct qr_trajectory_rows *rows;
    uint8_t *outcomes; /* QR_LANES * n_noise: of a group */
    struct qr_noise_event *events;
    uint32_t *first_event;    /* n_noisy + 1 */
    double *numbers;          /* n_noisy * QR_WIDE, or QR_NARROW */
    double *x, *direction;    /* of a group */
    unsigned char *kept;      /* n_branches states */
    double *branch_numbers;   /* n_branches * QR_WIDE, or QR_NARROW */
    uint8_t *branch_outcomes; /* n_branches * QR_LANES */
    double *branch_roots;     /* the same: 1 / sqrt of the probability */
    uint8_t *bits;            /* n_bits * QR_LANES: as measured so far; 0 of bits never measured */
    uint16_t *holds;          /* n_noisy: lanes in which the step's condition holds */
    qr_fixed *sites;          /* n_sites * QR_CROSS */
    qr_fixed *params;         /* n_params: derivatives by strengths */
    double *by_params;
    int64_t held; /* group in the workspace's phi when a loop over the groups began */
    bool bad;
};

/* noise_sites.c: the errors of a group are drawn before it is simulated; steps with errors get
 * numbers of their own. */
void qr_noise_prepare(const struct qr_sweep *r);
/* Finds the lanes in which the step's condition holds, and sets numbers that are those of the
 * identity in the others; returns the set of lanes. */
uint16_t qr_condition_forward(const struct qr_sweep *r, const struct qr_plan_step *st);
/* Whether a lane is in this set; true without a condition. */
bool qr_condition_holds(const struct qr_sweep *r, const struct qr_plan_step *st, unsigned lane);
/* Draws the Paulis of a trajectory, by the numbers of the channels; returns whether there is an
 * error. No draw without channels of Pauli errors. */
bool qr_noise_draw_row(const struct qr_sim_bound *b, const struct qr_statevector_workspace *ws,
                       uint32_t sample, uint32_t trajectory, uint8_t *ret);
/* Two draws of a trajectory: those of channels 2 * pair and 2 * pair + 1. */
void qr_noise_draw_pair(uint64_t key, uint32_t pair, uint32_t sample, uint32_t trajectory,
                        uint64_t ret[2]);
/* The number of a sample in the data, for its draws. */
uint32_t qr_noise_sample(const struct qr_statevector_workspace *ws, uint32_t sample);
/* Numbers of a step with errors in this group, or of a branch; NULL: those without errors. */
const double *qr_noise_numbers(const struct qr_sweep *r, const struct qr_plan_step *st);
size_t qr_noise_numbers_size(const struct qr_sim_plan *p);
/* Whether a backward sweep multiplies by the step's adjoint. One that no derivative needs stays in
 * phi and lambda; but trajectories that share their prefix take its errors out there. */
bool qr_noise_is_undone(const struct qr_sweep *r, const struct qr_plan_step *st);
/* Adds the corrections of a piece of cross numbers. acc: by lane, or, where lanes are amplitudes,
 * NULL and the sum over the lanes. */
void qr_noise_correct(const struct qr_sweep *r, const struct qr_plan_step *st,
                      const double (*acc)[QR_LANES], const double *sum, struct qr_sweep_slot *slot);

/* ---- noise_prefix.c ---- */

enum { QR_PREFIX_STOPS = 64 };
void qr_prefix_plan(struct qr_sim_plan *p);
/* Whether steps before a stop have derivatives. */
static inline bool qr_prefix_is_needed(const struct qr_statevector *v, uint32_t stop) {
    return stop && v->first_cross < v->stops[stop];
}
/* Last stop at or before a step. */
uint32_t qr_prefix_stop_of(const struct qr_statevector *v, size_t step);
void qr_prefix_buffers(struct qr_buffers *r, const struct qr_sim_plan *p, size_t n_rows,
                       struct qr_trajectory_rows *rows);
/* The state without errors at a stop, or, for stop 0, at the end. */
unsigned char *qr_prefix_state(const struct qr_sweep *r, size_t stop);
/* Adds the lambdas of the rows that begin at a stop to the sweep's. */
void qr_prefix_add(const struct qr_sweep *r, size_t stop);
/* Keeps the lambda of a row that has come back to its stop. */
void qr_prefix_keep(const struct qr_sweep *r, size_t row);
/* Sums the lambdas of rows rows->first_end .. end - 1. */
void qr_prefix_sum(const struct qr_sim_plan *p, struct qr_trajectory_rows *rows, size_t end,
                   struct qr_pool *pool);

/* ---- shots.c ---- */

/* Observables that one basis measures. */
struct qr_shot_group {
    struct qr_qubits x, y; /* qubits that are measured in these bases; others in that of Z */
    size_t first_term, n_terms;
};
struct qr_shot_term {
    uint32_t readout;
    double coefficient;
    uint64_t parity; /* bits of a string, in the order of qubits */
};
struct qr_shots {
    size_t n_groups, n_terms;
    struct qr_shot_group *groups;
    struct qr_shot_term *terms;
    double *constants;     /* per read-out */
    uint64_t (*errors)[2]; /* per qubit: thresholds of reading 1 for 0, and 0 for 1; NULL: none */
};
struct qr_shot_buffers {
    double *state, *sums; /* 2 * 2^n, 2^n */
    uint64_t *strings;    /* shots */
    double *z;            /* n_readouts */
};
/* A trajectory, or a sample without noise, in a lane of a group whose states are in phi. */
struct qr_shot_source {
    size_t lane;
    uint32_t sample, trajectory; /* index in the micro-batch; number */
    unsigned first, n;           /* shots */
};
void qr_shots_plan(struct qr_sim_plan *p, const struct qr_observable *obs, size_t n_obs);
void qr_shots_plan_free(struct qr_shots *s);
void qr_shots_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws);
/* z[r] += sum over shots of the terms' signs times coefficients. */
bool qr_shots_measure(struct qr_statevector_workspace *ws, const struct qr_shot_source *from,
                      double *z);
/* Draws strings in the basis of Z. False: the state is not finite. */
bool qr_shots_draw(struct qr_statevector_workspace *ws, const struct qr_shot_source *from,
                   uint64_t *ret);
/* Shots of a trajectory of n: first and number. */
void qr_shots_of(const struct qr_sim_plan *p, uint32_t trajectory, unsigned *ret_first,
                 unsigned *ret_n);

/* noise_branches.c */
/* Draws the operator of each lane and sets the step's numbers; keeps phi for the backward sweep. */
void qr_branch_forward(struct qr_sweep *r, const struct qr_plan_step *st, unsigned char *phi);
void qr_branch_backward(struct qr_sweep *r, const struct qr_plan_step *st, unsigned char *phi,
                        unsigned char *lambda);

/* trajectories.c */
/* False, with the reason in p->why: another method was requested. */
bool qr_trajectories_are_allowed(struct qr_sim_plan *p);
void qr_trajectories_plan(struct qr_sim_plan *p);
void qr_trajectories_bound_buffers(struct qr_buffers *r, struct qr_sim_bound *b);
void qr_trajectories_bind(struct qr_sim_bound *b);
/* The buffers that each workspace has, and those that a workspace and its others share. */
void qr_trajectories_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws);
void qr_trajectories_rows_buffers(struct qr_buffers *r, struct qr_statevector_workspace *ws);
/* As qr_sim_sample. */
bool qr_trajectories_sample(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                            struct qr_pool *pool, size_t n_samples, uint64_t *ret,
                            uint64_t *ret_bits);
void qr_trajectories_forward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                             struct qr_pool *pool, size_t n_samples, bool gradient, double *ret_z);
/* As of the engine. */
bool qr_trajectories_backward(const struct qr_sim_bound *b, struct qr_statevector_workspace *ws,
                              struct qr_pool *pool, const double *direction, const double *scale,
                              qr_fixed *ret_grad, double *ret_dx);
/* statevector_facts.c */
void qr_statevector_report(struct qr_report_build *b);

#endif
