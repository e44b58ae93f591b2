/* sim/streaming/streaming_impl.h — bound numbers, workspace and one sweep of the streaming engine.
 * Private to sim/streaming. */
#ifndef QR_SIM_STREAMING_STREAMING_IMPL_H
#define QR_SIM_STREAMING_STREAMING_IMPL_H

#include <pthread.h>
#include <stdatomic.h>

#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"
#include "sim/streaming/plan_impl.h"

/* Numbers for one theta. A matrix of the tail is dim x dim in cells of float64: column c of row r
 * is lane c % 16 of cell (c / 16) * dim + r. */
struct qr_stream_bound {
    uint64_t generation; /* unique per bind */
    void *coefs;         /* n_coefs elements */
    double *wide;        /* fused gates across the cut: variants * QR_WIDE */
    /* n_readouts * n_tail matrices: the observable after each fused gate of the tail */
    double *after;
    double *input; /* n_readouts matrices: the observable before the tail */
    /* n_readouts * density_numbers: weights of a density matrix in each read-out */
    double *weights;
};

/* The observable of lambda: sum of row[r] * O_r. */
struct qr_stream_direction {
    const struct qr_sim_bound *bound;
    uint64_t generation;
    double *row;
    double *after;
    void *dense; /* before the tail: 2 * dim * dim elements, or dim if diagonal */
};

/* Written by one thread. */
struct qr_stream_slot {
    unsigned char *phi[QR_STREAM_LEVELS][QR_STREAM_HALVES]; /* state after each half-layer */
    unsigned char *lambda, *tile;
    double (*sums)[QR_LANES]; /* n_fused * QR_CROSS */
    uint32_t *terms;          /* per set: terms in the current piece */
    unsigned char *density;
    /* of the current piece; if lanes are slices and the tail is not diagonal */
    double (*density_batches)[QR_LANES];
    uint32_t density_terms, batch_terms;
    unsigned char *right;  /* a piece of the right table's derivative */
    unsigned char *mixing; /* 16 cells each: coefficients, then their conjugates */
    qr_fixed *cross;       /* n_shapes * QR_CROSS */
    qr_fixed *density_sum; /* density_numbers */
    bool bad;
};

enum { QR_STREAM_SUM_PARTS = 16 };

struct qr_stream_workspace {
    struct qr_sim_workspace head;
    size_t n_samples;
    double *x;
    unsigned n_slots;
    struct qr_stream_slot *slots;
    struct qr_stream_direction direction;
    /* derivatives of the last forward sweep are already computed, for its direction */
    bool done;
    double *encoding;  /* 2x2 matrices: per qubit, or per qubit and lane */
    double *matrix[3]; /* scratch matrices of the tail */
    qr_fixed *cross;   /* n_shapes * QR_CROSS, of the micro-batch */
    double *scratch;   /* n_params + density_numbers */

    /* Used if lanes are samples: */
    size_t n_pieces; /* of the cross matrix of a fused gate */
    uint64_t each_generation;
    const struct qr_sim_bound *each_bound;
    unsigned char *each_dense;  /* per read-out: its observable before the tail, as elements */
    unsigned char *each_weight; /* per read-out and lane: the direction */
    size_t group_bytes;
    /* per group: sums of the fused gates and of the density matrix, until the scale is known */
    unsigned char *kept;
    void *coefs;          /* of the fused gates with data */
    unsigned char *start; /* state before the data */

    /* Used if lanes are slices: */
    qr_fixed *sample_cross; /* max_samples * n_shapes * QR_CROSS */
    unsigned char *left[2], *right[2], *left_grad;
    bool one_table; /* the right table holds one variant at a time */
    /* the right table; and all its variants in the layout of the right chain */
    unsigned char *table, *table_grad;
    unsigned char *wide_table, *wide_grad;
    /* derivatives by the numbers of the left table: re, im per chunk and term */
    double (*slice_grad)[QR_LANES];
    /* one for each part of right_sum and slice_sum */
    pthread_mutex_t sum_lock[QR_STREAM_SUM_PARTS];
    /* integer sums if threads share slices; they overlay left_grad and wide_table, which are unused
     * then */
    qr_fixed *slice_sum, *right_sum;
    double *narrow; /* of the first layer's fused gates with data */
    double complex *amplitudes;
    unsigned char *left_start, *right_start; /* NULL: computed for each sample */
};

/* One sweep. */
struct qr_stream_run {
    const struct qr_sim_plan *p;
    const struct qr_stream *s;
    const struct qr_sim_bound *b;
    const struct qr_kernels *k;
    struct qr_stream_workspace *ws;
    struct qr_pool *pool;
    const struct qr_stream_direction *direction; /* NULL: read-outs only */
    bool each;                                   /* every lane has its own direction */
};

/* tail.c */
size_t qr_tail_doubles(const struct qr_stream *s); /* numbers of one matrix */
size_t qr_tail_numbers(const struct qr_stream *s); /* elements of a direction's observable */
/* Propagates the observables back through the tail. */
void qr_tail_bind(struct qr_sim_bound *b);
/* Sets the direction; does nothing if it is already set. */
void qr_tail_set_direction(struct qr_stream_direction *d, const struct qr_sim_bound *b,
                           const double *row);
/* Writes the observable of each read-out before the tail, as elements. */
void qr_tail_each(const struct qr_sim_bound *b, unsigned char *ret);
/* Adds the cross matrices of the tail's fused gates.
 *
 * Args:     after   observable after each fused gate
 *           matrix  three scratch matrices
 *           rho     sums of a density matrix
 * Returns:  false if a number was out of range
 */
bool qr_tail_gradient(const struct qr_sim_bound *b, const double *after, double *const matrix[3],
                      const double *rho, qr_fixed *cross);

/* levels.c: runs 16 lanes through the levels and back. in: input of level 0; input_too: propagate
 * lambda to the input. */
void qr_stream_level(struct qr_stream_run *r, struct qr_stream_slot *slot, unsigned level,
                     const unsigned char *in, unsigned char *lambda, uint64_t word, bool input_too);
/* Ends all pieces; if lanes are slices. */
void qr_stream_flush(struct qr_stream_run *r, struct qr_stream_slot *slot);

/* front.c: runs one sample of a sliced plan: the density matrix of the read-outs and, with a
 * direction, all cross matrices, into the slots. */
void qr_front_run(struct qr_stream_run *r, const double *x);
/* Matrix of a fused gate with its data folded in. encoding: of one sample, by
 * qr_stream_encodings. */
struct qr_m4 qr_front_matrix(const struct qr_sim_bound *b, const struct qr_front_gate *at,
                             const double *encoding);
/* True if only four of the right chain's 16 lanes differ. They then use lanes 4 to 7 of the left
 * chain; its fused gates have the same positions, so both chains run as one. */
static inline bool qr_front_one_chain(const struct qr_stream_front *f) {
    return f->wrap && !f->centre_first;
}
/* Both initial tables; in one chain all lanes are in left. */
void qr_front_start(const struct qr_sim_plan *p, struct qr_stream_workspace *ws,
                    unsigned char *left, unsigned char *right);

/* streaming_workspace.c */
void qr_stream_bound_buffers(struct qr_buffers *r, struct qr_sim_bound *b);
void qr_stream_workspace_buffers(struct qr_buffers *r, struct qr_sim_workspace *ws);
void qr_stream_workspace_begin(struct qr_sim_workspace *ws);
void qr_stream_workspace_end(struct qr_sim_workspace *ws);
/* True if the right table holds one variant at a time. */
bool qr_stream_one_table(const struct qr_stream *s);
/* Number of shares that threads may take at a time: items of a variant, or variants. */
size_t qr_stream_shares(const struct qr_stream *s);

/* encoding.c: 2x2 matrices of the gates after the CZ, per qubit (and lane). */
void qr_stream_encodings(const struct qr_stream *s, const double *x, size_t stride, size_t n_lanes,
                         double *ret);
/* True if workspaces are small enough for each thread to have its own samples. */
bool qr_stream_in_parallel(const struct qr_sim_plan *p);
/* True if idle threads take items of a sample in progress. */
bool qr_stream_threads_share(const struct qr_sim_plan *p);

/* streaming_facts.c */
void qr_stream_report(struct qr_report_build *b);

#endif
