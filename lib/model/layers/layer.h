/* model/layers/layer.h — a layer: one table of functions for each kind.
 *
 * A model is a chain of layers. Rows are samples, values float64. A layer is const once it is made;
 * its numbers for one state have one owner while they are prepared, and are then read by any
 * thread; its part of a micro-batch's workspace belongs to one thread. Derivatives by inputs are
 * per sample, float64; by weights they are integers, rounded once per weight and micro-batch.
 * Where a function may be NULL, the layer has nothing of its own there.
 */
#ifndef QR_MODEL_LAYERS_LAYER_H
#define QR_MODEL_LAYERS_LAYER_H

#include "base/pool.h"
#include "model/layers/dense_algebra.h"
#include "model/layers/options.h"
#include "sim/sim.h"

struct qr_layer_table;

struct qr_layer_quantum {
    struct qr_circuit *circuit;
    struct qr_sim_plan *plan; /* one for all filters */
    uint8_t *zero_gradient;   /* per parameter of the circuit */
    size_t n_filters, n_theta, n_readouts_each;
    double readout_bound; /* bound of the read-outs' absolute values */
    /* Workspaces of the simulator: one per filter, since a state must live from forward to
     * backward. Large circuits share one and go forward again. */
    size_t n_sims;
    /* The layers after this one are affine with one output: d output / d read-outs is one row for
     * all samples, known before the forward pass; dL/d output scales it afterwards. */
    bool known;
    /* Watched observables have their own plan, so that the read-outs' plan, and each bit that is
     * learned, is the same without them; NULL: none. */
    struct qr_sim_plan *watch_plan;
    size_t n_watched;
};

struct qr_layer {
    const struct qr_layer_table *table;
    enum qr_layer_kind kind;
    uint32_t number;              /* in the chain, from 0 */
    char name[QR_LAYER_NAME + 1]; /* "": no name was given */
    char span[64];                /* name in spans: "quantum_0:Quantum_cones" */
    size_t n_in, n_out;
    size_t first_param, n_params; /* its part of the parameter vector */
    bool learns;                  /* it has weights, and they are not frozen */
    bool flows;                   /* derivatives by its inputs are wanted */
    union {
        struct qr_layer_quantum quantum;
        struct {
            struct qr_dense dense;
            double l1, l2;
        };
        enum qr_activation activation;
        double rate;
        struct qr_scale_options scale;
    };
};

/* One tensor of a layer's weights; a layer's tensors are consecutive. */
struct qr_layer_tensor {
    const char *layer, *what; /* Keras' words: "dense", "kernel" */
    bool one_each;            /* each tensor is a layer of its own in Keras */
    unsigned rank;
    size_t dims[2];
};

/* A layer's numbers for one state. */
struct qr_layer_state {
    const struct qr_layer *layer;
    const double *params; /* the whole vector; borrowed */
    union {
        double *transposed; /* dense: the kernel's transpose, or NULL where nothing flows */
        struct {
            struct qr_sim_bound **bound, **watch_bound; /* quantum: n_filters of each */
        };
    };
    const double *row; /* quantum, known: d output / d read-outs */
};

/* A layer's part of a micro-batch. */
struct qr_layer_work {
    const struct qr_layer *layer;
    const double *in;
    double *out; /* micro-batch x n_out */
    /* The same: dL/d out; after dense's backward, dL/d of the values before the activation */
    double *d;
    double magnitude; /* of the values in `in`; below 0: not computed */
    double *z;        /* dense: before the activation; dropout: the factors */
    /* quantum */
    struct qr_sim_workspace **sim;  /* n_sims */
    struct qr_sim_workspace *watch; /* or NULL */
    double *watched, *watch_z;      /* n_watched for each sample: of all filters, of one */
    double *filter_z, *filter_dx, *direction, *scale;
    qr_fixed *grad;      /* n_params */
    struct qr_draw draw; /* of the last forward pass */
};

/* What a layer is made for. */
struct qr_layer_context {
    size_t micro_batch_size;
    struct qr_sim_options sim;
};

struct qr_layer_table {
    const char *name;
    /* table, kind, number, n_in, first_param, learns and flows are set; fills in the rest. On
     * failure the caller frees what was made so far with `free`. */
    enum qr_code (*make)(struct qr_layer *l, const struct qr_layer_options *o,
                         const struct qr_layer_context *place, struct qr_err *err);
    void (*free)(struct qr_layer *l);
    size_t (*n_tensors)(const struct qr_layer *l);
    struct qr_layer_tensor (*tensor)(const struct qr_layer *l, size_t i);

    /* Numbers for one state; their bytes. */
    void (*state_new)(struct qr_layer_state *s);
    void (*state_free)(struct qr_layer_state *s);
    size_t (*state_bytes)(const struct qr_layer *l);
    void (*prepare)(struct qr_layer_state *s, struct qr_pool *pool);

    /* Doubles besides out and d in a workspace for n samples; assigns them to w unless w is NULL.
     * Each part begins on 64 bytes. */
    size_t (*doubles)(const struct qr_layer *l, size_t n, struct qr_layer_work *w, double *base);
    /* What else the layer has in a workspace, and its bytes. */
    enum qr_code (*work_new)(struct qr_layer_work *w, size_t n, struct qr_err *err);
    void (*work_free)(struct qr_layer_work *w);
    size_t (*work_bytes)(const struct qr_layer *l, size_t n);

    /* in -> out. draw: NULL if nothing is random. gradient: backward will follow. False when a
     * number is not finite or leaves +-2^40. */
    bool (*forward)(const struct qr_layer_state *s, struct qr_layer_work *w, struct qr_pool *pool,
                    size_t n, const struct qr_draw *draw, bool gradient);
    /* From d. Where the layer learns, computes what `add` needs; where it flows, ret_d[n x n_in] =
     * dL/d in, else ret_d is NULL. logits: d is dL/d of the values before the activation. False
     * when a derivative does not fit. */
    bool (*backward)(const struct qr_layer_state *s, struct qr_layer_work *w, struct qr_pool *pool,
                     size_t n, bool logits, double *ret_d);
    /* grad += its weights' derivatives, or, where it `sets`, grad = them; grad: the whole vector.
     * Layers that learn. */
    void (*add)(const struct qr_layer_work *w, struct qr_pool *pool, size_t n, bool sets,
                qr_fixed *grad);
    /* sums[k] += the watched observables over n samples, after forward. False where a number does
     * not fit. */
    bool (*watch)(const struct qr_layer_state *s, struct qr_layer_work *w, struct qr_pool *pool,
                  size_t n, qr_fixed *sums);
    /* The values before the activation: the loss may be computed from them. NULL: no activation. */
    const double *(*before_activation)(const struct qr_layer_work *w);
};

extern const struct qr_layer_table *const qr_layer_tables[QR_LAYERS];

/* Assigns the next n doubles at *at to *place, unless place is NULL; advances *at. */
static inline void qr_layer_part(double *base, size_t *at, size_t n, double **place) {
    if (place) *place = base + *at;
    *at += (n + 7) & ~(size_t)7;
}

#endif
