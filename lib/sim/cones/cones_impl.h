/* sim/cones/cones_impl.h — a cones plan as data: networks, programs, classes and their instances
 * (inside the room). cones.md has the method and the words. */
#ifndef QR_SIM_CONES_CONES_IMPL_H
#define QR_SIM_CONES_CONES_IMPL_H

#include "base/bytes.h"
#include "sim/cones/pauli_transfer.h"
#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

enum {
    CONE_MAX_QUBITS = 64,   /* of one cone */
    CONE_MAX_GATES = 2048,  /* of one; a search looks at each pair of its tensors */
    CONE_MAX_LEGS = 24,     /* of one tensor */
    CONE_MAX_INPUTS = 256,  /* of one class */
    CONE_PART_NUMBERS = 16, /* of what a class that others take hands on, at most */
    CONE_MORE_TRIALS = 61,
    CONE_MAX_SHARES = 16,   /* of a step's work */
    CONE_STEP_SAMPLES = 32, /* among which what is done once a step is divided */
    CONE_KEPT_ROWS = 2048,  /* of blocks that backward need not go forward through again */
    CONE_SEEN = 16, /* samples: where an instance's all differ, the others are not looked for */
    /* circuits with gates that are not simple: fewer have been a state vector's always, which is
     * small, and keep its bits */
    CONE_EXPANDED_QUBITS = 12,
    CONE_HELPER = 4, /* beside the four Paulis */
    CONE_NONE = UINT32_MAX,
};
/* Numbers of one tensor: the same for all samples, and in each lane. */
#define CONE_MAX_NUMBERS ((double)(1 << 22))
#define CONE_MAX_ROWS ((double)(1 << 14))

/* When a tensor's numbers are known: with the plan; with a step's parameters; with a sample. */
enum cone_when { CONE_FIXED, CONE_STEP, CONE_LANES };

/* ---- a cone: the gates that one Pauli term sees, in numbers of their own ---- */

/* Cones that differ in qubits and data columns alone are equal, where the same of their columns
 * are wanted. */
struct cone {
    unsigned n_qubits, n_columns; /* local; helpers are qubits too */
    unsigned n_helpers;
    bool expanded; /* not all of its gates were simple */
    size_t n_gates;
    struct qr_gate *gates; /* in program order; targets and columns are local */
    uint8_t *paulis;       /* n_qubits: the term's digit on each, or CONE_HELPER */
    uint8_t *wanted;       /* n_columns: derivatives by it are wanted */
    struct qr_buf key;     /* equal for equal cones */
    /* its gates, by the number of gates apart before them; fused gates first_fused[l] ..
     * first_fused[l + 1] of the plan are those of level l */
    size_t n_levels;
    uint16_t *level; /* n_gates; of a gate apart, the level that it ends */
    uint32_t *first_fused;
    bool data; /* it has gates with data */
};

/* Where a gate's angle depends on the sample. */
bool cone_gate_has_data(const struct qr_gate *g);
/* It is a tensor of its own, and no gate is fused with it: one with data, or an AND. */
bool cone_gate_is_apart(const struct qr_gate *g);

/* expand.c: gates in the place of those that there are no tensors for. */
struct cone_gates {
    struct qr_gate *gates; /* owned */
    size_t n, cap;
    uint16_t next_helper; /* a qubit's number */
};
/* Without controls: its first target, a helper, becomes itself AND its second being its argument, 0
 * or 1. It is not unitary. */
#define CONE_GATE_AND QR_GATE_KINDS
/* A gate on one or two qubits, and where it has data a power of an involution without controls. */
bool cone_gate_is_simple(const struct qr_gate *g);
/* Appends g as simple gates and ANDs with new helpers. */
void cone_gate_expand(struct cone_gates *to, const struct qr_gate *g);

/* The cone of a term, of simple gates and ANDs; ret_columns[local] is the circuit's column. False:
 * more qubits, helpers with them, or gates than one may have. wanted: as the plan's. */
struct cone_finder;
struct cone_finder *cone_finder_new(const struct qr_circuit *c, const uint8_t *wanted);
void cone_finder_free(struct cone_finder *f);
bool cone_of_term(struct cone_finder *f, const struct qr_pauli_term *term, struct cone *ret,
                  uint32_t **ret_columns);
void cone_fini(struct cone *c);

/* ---- its network: tensors on legs ---- */

enum cone_source { CONE_NUMBERS, CONE_GATE, CONE_INPUT };

/* A tensor at the edge of a network; row-major over its legs. A leg joins two of them. */
struct cone_leaf {
    enum cone_source from;
    enum cone_when when;
    unsigned n_legs;
    uint16_t leg[CONE_MAX_LEGS];
    size_t size;
    double *numbers;   /* CONE_NUMBERS */
    uint32_t shape;    /* CONE_GATE */
    uint16_t *entries; /* CONE_GATE, CONE_INPUT: which numbers of the transfer matrix, the signal */
    double scale;      /* CONE_INPUT: a signal of exponent scale * column */
    uint32_t column;   /* local */
    bool wanted;
};
struct cone_network {
    size_t n_leaves;
    struct cone_leaf *leaves;
    size_t n_legs;
    uint8_t *dim; /* n_legs */
};

/* What every shape's transfer matrix is for parameters that make nothing trivial, twice, and
 * whether it has any. */
struct cone_shapes {
    const struct qr_sim_plan *p;
    double (*number)[2][QR_TRANSFER];
    bool *fixed;
};
void cone_shapes_make(struct cone_shapes *s, const struct qr_sim_plan *p);
void cone_shapes_fini(struct cone_shapes *s);

/* Only digits that can be there, given the beginning, and can matter, given the observable, are
 * left; legs with one of them are gone. */
void cone_network_make(const struct cone *c, const struct cone_shapes *s, struct cone_network *ret);
void cone_network_fini(struct cone_network *n);

/* ---- the order in which it is contracted ---- */

/* Nodes 0 .. n_leaves - 1 are the leaves, n_leaves + i is what pair i makes; the last is the
 * root. */
struct cone_tree {
    size_t n_pairs;
    uint32_t (*pair)[2];
    double cost; /* weighted multiply-adds; infinite: none fits */
};
/* The cheapest of a few greedy ones, and of so many more, at most CONE_MORE_TRIALS, by random
 * numbers that follow from the network. step_weight: of what is done once a step, as a part of
 * what is done once a sample. */
void cone_tree_search(const struct cone_network *n, double step_weight, uint32_t more_trials,
                      struct cone_tree *ret);
void cone_tree_fini(struct cone_tree *t);

/* ---- programs ---- */

struct cone_tensor {
    enum cone_source from; /* NUMBERS: fixed ones, or what a contraction makes */
    enum cone_when when;
    bool needs;         /* a derivative: a parameter or a wanted column is behind it */
    uint32_t size;      /* numbers; of LANES: of each lane */
    size_t at;          /* in the plan's fixed numbers, the step's, or rows of a block */
    uint32_t source;    /* GATE: shape. INPUT: which of its class's */
    size_t first_entry; /* GATE, INPUT: in the plan's entries */
};

/* result[i][j] = sum_k a[i][k] b[k][j]; out's number order_out[x] is result x. Of LANES b is
 * always, or neither is. */
struct cone_contraction {
    uint32_t a, b, out; /* tensors */
    uint32_t n_i, n_k, n_j;
    size_t order_out; /* in the plan's orders; NO_ORDER: as it lies */
    size_t sums; /* of LANES with an a that is not, and needs a derivative: its first row of sums */
};
#define NO_ORDER SIZE_MAX

/* What an item of a class is made of: a signal, or an item of another class. */
struct cone_input {
    bool is_signal;
    uint32_t of; /* signal or class */
    uint32_t tensor;
};

/* Parts of networks that are equal but for their data: one program, and an instance for each. */
struct cone_class {
    struct qr_buf key;
    uint32_t root;
    bool needs;
    bool wanted; /* a wanted column is behind it */
    uint32_t first_input, n_inputs;
    uint32_t first_step, n_step, first_lanes, n_lanes; /* contractions */
    size_t n_rows, n_sums;                             /* of a block of lanes */
    size_t n_instances, cap_instances;
    uint32_t *instances; /* n_inputs each: instances of what the inputs are of */
    size_t first_slot;   /* of its instances, among all */
};

/* Data gates whose exponent is scale * column, with columns that are wanted or with others; an
 * instance is a column. */
struct cone_signal {
    double scale;
    bool wanted;
    size_t n_instances, cap_instances;
    uint32_t *columns;
    size_t first_slot;
};

/* A shape whose transfer matrix a step needs, and which of its rows and columns the tensors use. */
struct cone_gate {
    uint32_t shape;
    uint16_t rows, columns; /* bit i: number i */
};

/* Classes whose contractions of a step one thread makes. */
struct cone_share {
    uint32_t first_class, n_classes;
    size_t scratch, numbers; /* its part of n_scratch numbers */
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
    struct cone_class *classes; /* those that others take come before these */
    struct cone_signal *signals;
    struct cone_term *terms;
    double *constants; /* of each read-out: terms without a Pauli */
    size_t n_gates;
    struct cone_gate *gates;
    size_t n_shares;
    struct cone_share *shares;
    size_t n_fixed, n_step, n_entries, n_orders, n_scratch;
    double *fixed;
    uint16_t *entries;
    uint32_t *orders;
    size_t max_rows, max_result, max_sums; /* of a class's block; of a contraction in it */
    size_t n_slots;                        /* instances of all classes and signals */
    size_t n_cones;                        /* different ones */
    unsigned widest;                       /* qubits of the widest */
};

/* How a cone's root is made of instances; equal cones share it. */
struct cone_part {
    uint32_t class;
    uint32_t first_input; /* in the recipe's inputs, in the order of the class's */
};
struct cone_recipe {
    size_t n_parts, n_inputs;
    struct cone_part *parts; /* the last is the root */
    uint32_t *inputs;        /* local column, or part */
};

/* program.c: a network, contracted along its tree, to classes that are not there yet and a recipe.
 * Parts that are small where they end, and cost something, become classes of their own. */
void cone_program_make(struct qr_cones *own, const struct qr_sim_plan *p,
                       const struct cone_network *n, const struct cone_tree *t,
                       struct cone_recipe *ret);
void cone_recipe_fini(struct cone_recipe *r);

/* build.c: the whole plan. False, with p->why: nothing that fits. */
bool cones_build(struct qr_sim_plan *p, const struct qr_circuit *c, const struct qr_observable *obs,
                 size_t n_obs);
void cones_free(struct qr_cones *own);

/* ---- numbers ---- */

struct qr_cones_bound {
    double *transfer; /* n_shapes * QR_TRANSFER; columns that no tensor uses stay 0 */
    double *step;     /* n_step */
    double *scratch;  /* n_scratch */
};

/* Sixteen items side by side. */
typedef double cone_row[QR_LANES];

/* slices.c: kernels' matmul and lanes (kernels/kernel.h) of matrices without gaps, by the pool's
 * threads where they are large. */
void cones_matmul(const struct qr_kernels *kernels, struct qr_pool *pool, double *c,
                  const double *a, size_t a_i, size_t a_k, const double *b, size_t n_i, size_t n_k,
                  size_t n_j);
void cones_lanes(const struct qr_kernels *kernels, struct qr_pool *pool, cone_row *out,
                 const cone_row *x, size_t x_i, size_t x_s, const cone_row *y, size_t y_o,
                 size_t y_s, size_t n_i, size_t n_s, size_t n_o, bool add);

/* step.c: what is done once a step; forward when it is bound, backward once a micro-batch. */
size_t cones_bound_bytes(const struct qr_sim_plan *p);
void cones_bound_new(struct qr_sim_bound *b);
void cones_bound_free(struct qr_sim_bound *b);
void cones_bind(struct qr_sim_bound *b, struct qr_pool *pool);
/* of a tensor that is not of LANES */
const double *cones_numbers(const struct qr_sim_bound *b, const struct cone_tensor *t);
/* d: n_step derivatives by the step's numbers: by those that lanes and read-outs use, and then by
 * all. scratch: 2 * n_scratch. d_transfer, overwritten: by the transfer matrices. */
void cones_step_backward(const struct qr_sim_bound *b, struct qr_pool *pool, double *d,
                         double *scratch, double *d_transfer);

/* ---- items ---- */

/* Items of a signal or a class in one micro-batch: what is equal is there once. Where a wanted
 * column is behind them, instance i's item of sample s is i * n_samples + s. */
struct cone_items {
    uint32_t n;
    uint64_t *bits;            /* of a signal that is not wanted: the data's */
    uint32_t *keys;            /* of a class: n * n_inputs, items of the inputs */
    double *values;            /* n * (QR_SIGNALS, or the root's size) */
    double *d;                 /* of a class that needs, a signal that is wanted: derivatives */
    size_t first_kept, n_kept; /* of a class: its first row that is kept, and of how many blocks */
};

struct cones_workspace {
    struct qr_sim_workspace head;
    size_t max_samples, n_samples;
    struct qr_pool *pool; /* of the call in progress */
    double *x;            /* max_samples * n_columns */
    struct cone_items *signals, *classes;
    uint32_t *item;  /* n_slots * max_samples: of each instance and sample */
    uint32_t *table; /* hashes */
    /* of a block: the class's rows, derivatives by them, sums over blocks, one contraction's
     * result */
    cone_row *rows, *d_rows, *sums, *result;
    cone_row *kept; /* rows of the first blocks, from forward to backward */
    size_t n_kept;  /* so many of CONE_KEPT_ROWS */
    double *d_step, *scratch, *d_transfer;
    qr_fixed *cross;
    double *gradient; /* n_params */
};

/* items.c: those of the samples in ws->x; values of signals. */
size_t cones_table_size(const struct qr_cones *own, size_t max_samples);
void cones_find_items(const struct qr_cones *own, struct cones_workspace *ws);

/* lanes.c: of how many blocks of a class rows are kept, where *rows are kept of those before; adds
 * them. */
size_t cones_blocks_kept(const struct cone_class *c, size_t n_items, size_t *rows);

/* lanes.c: the values of a class's items; then, from derivatives by them, those by what they are
 * made of, added. */
void cones_class_forward(const struct qr_sim_bound *b, struct cones_workspace *ws, uint32_t class);
void cones_class_backward(const struct qr_sim_bound *b, struct cones_workspace *ws, uint32_t class);

/* facts.c */
void qr_cones_report(struct qr_report_build *b);

#endif
