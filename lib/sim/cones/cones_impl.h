/* sim/cones/cones_impl.h — a cones plan as data: networks, programs, classes and their instances.
 * Private to sim/cones. cones.md defines the terms. */
#ifndef QR_SIM_CONES_CONES_IMPL_H
#define QR_SIM_CONES_CONES_IMPL_H

#include "base/bytes.h"
#include "sim/cones/pauli_transfer.h"
#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"
#include "sim/fusion/gate_expansion.h"

enum {
    CONE_MAX_QUBITS = 64,   /* of one cone */
    CONE_MAX_GATES = 2048,  /* of one cone; the search visits each pair of its tensors */
    CONE_MAX_LEGS = 24,     /* of one tensor */
    CONE_MAX_INPUTS = 256,  /* of one class */
    CONE_PART_NUMBERS = 16, /* largest output of a class that other classes use */
    CONE_MORE_TRIALS = 61,
    CONE_MAX_SHARES = 16,   /* shares of a step's work */
    CONE_STEP_SAMPLES = 32, /* samples among which the cost of a step is divided */
    CONE_KEPT_ROWS = 2048,  /* rows of blocks that are kept from forward to backward */
    CONE_SEEN = 16, /* samples: if all of an instance differ so far, the rest are not compared */
    /* smaller circuits with gates that are not simple use a state vector, which is small; they did
     * before there was an alternative, and keep their bits */
    CONE_EXPANDED_QUBITS = 12,
    CONE_HELPER = 4, /* digit of a helper, beside the four Paulis */
    CONE_NONE = UINT32_MAX,
};
/* Largest number of values of one tensor: shared by all samples, and per lane. */
#define CONE_MAX_NUMBERS ((double)(1 << 22))
#define CONE_MAX_ROWS ((double)(1 << 14))

/* When the numbers of a tensor are known: with the plan, the step's parameters, or a sample. */
enum cone_when { CONE_FIXED, CONE_STEP, CONE_LANES };

/* ---- a cone: the gates that one Pauli term depends on, in their own numbering ---- */

/* Cones that differ only in qubits and data columns are equal if derivatives by the same of their
 * columns are requested. */
struct cone {
    unsigned n_qubits, n_columns; /* of the cone; helpers are qubits too */
    unsigned n_helpers;
    bool expanded; /* some gate was replaced by simple gates */
    size_t n_gates;
    struct qr_gate *gates; /* in program order; targets and columns are local */
    uint8_t *paulis;       /* per qubit: the term's digit, or CONE_HELPER */
    uint8_t *wanted;       /* per column: derivatives by it are requested */
    struct qr_buf key;     /* equal for equal cones */
    /* levels: gates, by the number of unfused gates before them; fused gates first_fused[l] ..
     * first_fused[l + 1] of the plan are those of level l */
    size_t n_levels;
    uint16_t *level; /* n_gates; of an unfused gate, the level that it ends */
    uint32_t *first_fused;
    bool data; /* some gate has data */
};

/* True if the gate is a tensor of its own and is never fused: it has data, is an AND or a noise
 * channel. */
bool cone_gate_is_unfused(const struct qr_gate *g);

/* Finds the cone of a term, made of simple gates and ANDs. wanted: as in the plan.
 * ret_columns[local]: column of the circuit, freed by the caller. Returns false if the cone has too
 * many qubits (helpers included) or gates. */
struct cone_finder;
struct cone_finder *cone_finder_new(const struct qr_circuit *c, const uint8_t *wanted);
void cone_finder_free(struct cone_finder *f);
bool cone_of_term(struct cone_finder *f, const struct qr_pauli_term *term, struct cone *ret,
                  uint32_t **ret_columns);
void cone_fini(struct cone *c);

/* ---- its network: tensors joined by legs ---- */

enum cone_source { CONE_NUMBERS, CONE_GATE, CONE_INPUT };

/* A tensor of the network, row-major over its legs. A leg joins two tensors. */
struct cone_leaf {
    enum cone_source from;
    enum cone_when when;
    unsigned n_legs;
    uint16_t leg[CONE_MAX_LEGS];
    size_t size;
    double *numbers; /* if CONE_NUMBERS */
    uint32_t shape;  /* if CONE_GATE: of the transfer matrices */
    /* if CONE_GATE or CONE_INPUT: entries of the transfer matrix, or of the signal */
    uint16_t *entries;
    double scale;    /* if CONE_INPUT: the exponent is scale * column */
    uint32_t column; /* local */
    bool wanted;
};
struct cone_network {
    size_t n_leaves;
    struct cone_leaf *leaves;
    size_t n_legs;
    uint8_t *dim; /* per leg */
};

/* Transfer matrices: those of the shapes, then those of the noise channels, whose index is n_shapes
 * + channel. */
static inline size_t cone_n_transfers(const struct qr_sim_plan *p) {
    return p->n_shapes + p->n_channels;
}

/* Per shape and channel: its transfer matrix for two sets of generic parameters, and whether it is
 * fixed (has no parameter). */
struct cone_shapes {
    const struct qr_sim_plan *p;
    double (*number)[2][QR_TRANSFER];
    bool *fixed;
};
void cone_shapes_make(struct cone_shapes *s, const struct qr_sim_plan *p);
void cone_shapes_fini(struct cone_shapes *s);

/* Keeps only the digits that can occur, given the initial state, and that can matter, given the
 * observable. Removes legs with a single digit. */
void cone_network_make(const struct cone *c, const struct cone_shapes *s, struct cone_network *ret);
void cone_network_fini(struct cone_network *n);

/* ---- the order of contraction ---- */

/* Nodes 0 .. n_leaves - 1 are the leaves; node n_leaves + i is the product of pair i; the last node
 * is the root. */
struct cone_tree {
    size_t n_pairs;
    uint32_t (*pair)[2];
    double cost; /* weighted multiply-adds; infinite: no order fits */
};
/* Finds the cheapest of a few greedy orders and of more_trials (at most CONE_MORE_TRIALS) random
 * ones; the random numbers depend on the network only. step_weight: weight of the work per step
 * relative to the work per sample. */
void cone_tree_search(const struct cone_network *n, double step_weight, uint32_t more_trials,
                      struct cone_tree *ret);
void cone_tree_fini(struct cone_tree *t);

/* ---- programs ---- */

struct cone_tensor {
    enum cone_source from; /* CONE_NUMBERS: fixed, or the result of a contraction */
    enum cone_when when;
    bool needs;    /* a derivative: it depends on a parameter or a requested column */
    uint32_t size; /* values; for CONE_LANES: per lane */
    /* offset in the plan's fixed numbers, the step's numbers, or the rows of a block */
    size_t at;
    uint32_t source;    /* CONE_GATE: shape; CONE_INPUT: input of its class */
    size_t first_entry; /* CONE_GATE, CONE_INPUT: offset in the plan's entries */
};

/* result[i][j] = sum_k a[i][k] b[k][j]; result x is value order_out[x] of out. For CONE_LANES, b is
 * CONE_LANES; a may be. */
struct cone_contraction {
    uint32_t a, b, out; /* tensors */
    uint32_t n_i, n_k, n_j;
    size_t order_out; /* offset in the plan's orders; NO_ORDER: identity */
    /* if out is CONE_LANES and a is not, and a needs a derivative: first row of its sums */
    size_t sums;
};
#define NO_ORDER SIZE_MAX

/* An input of an item: a signal, or an item of another class. */
struct cone_input {
    bool is_signal;
    uint32_t of; /* index of the signal or class */
    uint32_t tensor;
};

/* Parts of networks that are equal except for their data: one program, one instance for each. */
struct cone_class {
    struct qr_buf key;
    uint32_t root;
    bool needs;
    bool wanted; /* depends on a column with requested derivatives */
    uint32_t first_input, n_inputs;
    uint32_t first_step, n_step, first_lanes, n_lanes; /* contractions */
    size_t n_rows, n_sums;                             /* of a block of lanes */
    size_t n_instances, cap_instances;
    uint32_t *instances; /* per instance and input: instance of the signal or class */
    size_t first_slot;   /* index of its first instance among all */
};

/* Data gates with exponent scale * column, for columns with or without requested derivatives. An
 * instance is a column. */
struct cone_signal {
    double scale;
    bool wanted;
    size_t n_instances, cap_instances;
    uint32_t *columns;
    size_t first_slot;
};

/* A shape or channel with a transfer matrix that each step computes; the rows and columns that
 * tensors use. */
struct cone_gate {
    uint32_t shape;
    uint16_t rows, columns; /* bit i: row or column i */
};

/* Classes with step contractions that run on one thread. */
struct cone_share {
    uint32_t first_class, n_classes;
    size_t scratch, numbers; /* offset and size of its part of the n_scratch numbers */
};

struct cone_term {
    uint32_t readout;
    double coefficient;
    uint32_t class, instance;
};

struct qr_cones {
    size_t n_tensors, n_contractions, n_inputs, n_classes, n_signals, n_terms;
    struct cone_tensor *tensors;
    struct cone_contraction *contractions;
    struct cone_input *inputs;
    struct cone_class *classes; /* a class comes after the classes that it uses */
    struct cone_signal *signals;
    struct cone_term *terms;
    double *constants; /* per read-out: sum of the terms without a Pauli */
    size_t n_gates;
    struct cone_gate *gates;
    size_t n_shares;
    struct cone_share *shares;
    size_t n_fixed, n_step, n_entries, n_orders, n_scratch;
    double *fixed;
    uint16_t *entries;
    uint32_t *orders;
    /* maxima over classes of a block's rows and sums, over contractions of their result */
    size_t max_rows, max_result, max_sums;
    size_t n_slots;  /* instances of all classes and signals */
    size_t n_cones;  /* distinct cones */
    unsigned widest; /* qubits of the largest cone */
};

/* How to assemble a cone's root from instances; equal cones share a recipe. */
struct cone_part {
    uint32_t class;
    uint32_t first_input; /* offset in the recipe's inputs, in the order of the class's inputs */
};
struct cone_recipe {
    size_t n_parts, n_inputs;
    struct cone_part *parts; /* the last part is the root */
    uint32_t *inputs;        /* local column, or part */
};

/* program.c: converts a network and its tree to new classes and a recipe. Parts with a small output
 * and a cost above a minimum become classes. */
void cone_program_make(struct qr_cones *own, const struct qr_sim_plan *p,
                       const struct cone_network *n, const struct cone_tree *t,
                       struct cone_recipe *ret);
void cone_recipe_fini(struct cone_recipe *r);

/* cones_build.c: builds the whole plan. Returns false, with the reason in p->why, if it is
 * unsuitable. */
bool cones_build(struct qr_sim_plan *p, const struct qr_circuit *c, const struct qr_observable *obs,
                 size_t n_obs);
void cones_free(struct qr_cones *own);

/* ---- numbers ---- */

struct qr_cones_bound {
    double *transfer; /* cone_n_transfers * QR_TRANSFER; unused columns stay 0 */
    double *step;     /* n_step */
    double *scratch;  /* n_scratch */
};

/* Sixteen items side by side. */
typedef double cone_row[QR_LANES];

/* slices.c: the kernels matmul and lanes (kernels/kernel.h) for contiguous matrices; large ones are
 * shared by the pool's threads. */
void cones_matmul(const struct qr_kernels *kernels, struct qr_pool *pool, double *c,
                  const double *a, size_t a_i, size_t a_k, const double *b, size_t n_i, size_t n_k,
                  size_t n_j);
void cones_lanes(const struct qr_kernels *kernels, struct qr_pool *pool, cone_row *out,
                 const cone_row *x, size_t x_i, size_t x_s, const cone_row *y, size_t y_o,
                 size_t y_s, size_t n_i, size_t n_s, size_t n_o, bool add);

/* cones_step.c: the work per step; forward in bind, backward once per micro-batch. */
void cones_bound_buffers(struct qr_buffers *r, struct qr_sim_bound *b);
void cones_bind(struct qr_sim_bound *b, struct qr_pool *pool);
/* Numbers of a tensor that is not CONE_LANES. */
const double *cones_numbers(const struct qr_sim_bound *b, const struct cone_tensor *t);
/* Propagates derivatives by the step's numbers back to the transfer matrices.
 *
 * Args:     d           n_step derivatives: on entry those used by lanes and read-outs, then all
 *           scratch     2 * n_scratch numbers
 *           d_transfer  overwritten: derivatives by the transfer matrices
 */
void cones_step_backward(const struct qr_sim_bound *b, struct qr_pool *pool, double *d,
                         double *scratch, double *d_transfer);

/* ---- items ---- */

/* The items of a signal or class in one micro-batch; equal ones are stored once. With requested
 * derivatives there is one per instance and sample: item i * n_samples + s. */
struct cone_items {
    uint32_t n;
    uint64_t *bits; /* of a signal without requested derivatives: bits of the data */
    uint32_t *keys; /* of a class: n * n_inputs items of its inputs */
    double *values; /* n * (QR_SIGNALS, or the size of the root) */
    /* derivatives, if the class needs them or the signal's are requested */
    double *d;
    size_t first_kept, n_kept; /* of a class: its first kept row, and number of kept blocks */
};

struct cones_workspace {
    struct qr_sim_workspace head;
    size_t n_samples;
    struct qr_pool *pool; /* of the call in progress */
    double *x;            /* max_samples * n_columns */
    struct cone_items *signals, *classes;
    uint32_t *item;  /* n_slots * max_samples: item of each instance and sample */
    uint32_t *table; /* hash table of items */
    /* of a block: rows, derivatives by them, sums over blocks, and one contraction's result */
    cone_row *rows, *d_rows, *sums, *result;
    cone_row *kept; /* rows of the first blocks, kept from forward to backward */
    size_t n_kept;  /* used rows, at most CONE_KEPT_ROWS */
    double *d_step, *scratch, *d_transfer;
    qr_fixed *cross;
    double *gradient; /* n_params */
};

/* cones_items.c: finds the items of the samples in ws->x and computes the signals. */
size_t cones_table_size(const struct qr_cones *own, size_t max_samples);
void cones_find_items(const struct qr_cones *own, struct cones_workspace *ws);

/* lanes.c: returns how many blocks of a class are kept, given the *rows kept for earlier classes,
 * and adds its rows. */
size_t cones_blocks_kept(const struct cone_class *c, size_t n_items, size_t *rows);

/* lanes.c: computes the values of a class's items; backward adds the derivatives by the items'
 * inputs, given those by the items. */
void cones_class_forward(const struct qr_sim_bound *b, struct cones_workspace *ws, uint32_t class);
void cones_class_backward(const struct qr_sim_bound *b, struct cones_workspace *ws, uint32_t class);

/* cones_facts.c */
void qr_cones_report(struct qr_report_build *b);

#endif
