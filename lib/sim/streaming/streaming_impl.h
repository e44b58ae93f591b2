/* sim/streaming/streaming_impl.h — the streaming engine's bound numbers, workspace and one sweep
 * (inside the room). */
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
    uint64_t generation; /* of each bind another */
    void *coefs;         /* n_coefs elements */
    double *wide;        /* of the fused gates across the cut: variants * QR_WIDE */
    /* n_readouts * n_tail matrices: the observable behind each fused gate of the tail */
    double *after;
    double *input; /* n_readouts matrices: before the tail */
    /* n_readouts * density_numbers: read-out from the sums of a density matrix */
    double *weights;
};

/* The observable that lambda comes from: sum of row[r] * O_r. */
struct qr_stream_direction {
    const struct qr_sim_bound *bound;
    uint64_t generation;
    double *row;
    double *after;
    void *dense; /* before the tail: 2 * dim * dim elements, or dim on the diagonal */
};

/* What one thread writes. */
struct qr_stream_slot {
    unsigned char *phi[QR_STREAM_LEVELS][QR_STREAM_HALVES]; /* the state behind each half-layer */
    unsigned char *lambda, *tile;
    double (*sums)[QR_LANES]; /* n_fused * QR_CROSS */
    uint32_t *terms;          /* of each set's piece so far */
    unsigned char *density;
    /* of the piece so far; lanes are slices and the tail is not diagonal */
    double (*density_batches)[QR_LANES];
    uint32_t density_terms, batch_terms;
    unsigned char *right;  /* a piece of the right table's derivative */
    unsigned char *mixing; /* 16 cells each: coefficients, their conjugates */
    qr_fixed *cross;       /* n_shapes * QR_CROSS */
    qr_fixed *density_sum; /* density_numbers */
    bool bad;
};

enum { QR_STREAM_SUM_PARTS = 16 };

struct qr_stream_workspace {
    struct qr_sim_workspace head;
    size_t max_samples, n_samples;
    double *x;
    unsigned n_slots;
    struct qr_stream_slot *slots;
    struct qr_stream_direction direction;
    /* the derivatives of the last forward are there already, for its direction */
    bool done;
    double *encoding;  /* 2x2 matrices: of each qubit, or of each qubit and lane */
    double *matrix[3]; /* of the tail */
    qr_fixed *cross;   /* n_shapes * QR_CROSS, of the micro-batch */
    double *scratch;   /* n_params */

    /* lanes are samples */
    size_t n_pieces; /* of a fused gate's cross matrix */
    uint64_t each_generation;
    const struct qr_sim_bound *each_bound;
    unsigned char *each_dense;  /* per read-out: its observable before the tail, as elements */
    unsigned char *each_weight; /* per read-out and lane: the direction */
    size_t group_bytes;
    /* per group: sums of fused gates, then of the density matrix, until the scale is known */
    unsigned char *kept;
    void *coefs;          /* of the fused gates that hold data */
    unsigned char *start; /* the cluster state */

    /* lanes are slices */
    qr_fixed *sample_cross; /* max_samples * n_shapes * QR_CROSS */
    unsigned char *left[2], *right[2], *left_grad;
    bool one_table; /* the right table is there for one variant at a time */
    /* the right table; and in the numbering of the right chain, all variants */
    unsigned char *table, *table_grad;
    unsigned char *wide_table, *wide_grad;
    /* derivatives of the left table's numbers: per chunk and term re, im */
    double (*slice_grad)[QR_LANES];
    pthread_mutex_t sum_lock[QR_STREAM_SUM_PARTS]; /* of right_sum and slice_sum, part by part */
    /* sums where slices are shared out: in left_grad's and wide_table's place, which wait */
    qr_fixed *slice_sum, *right_sum;
    double *narrow; /* of the first layer's fused gates that hold data */
    double complex *amplitudes;
    unsigned char *left_start, *right_start; /* NULL: made anew for each sample */
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
    bool each;                                   /* every lane has its own direction instead */
};

/* tail.c */
size_t qr_tail_doubles(const struct qr_stream *s); /* of one matrix */
size_t qr_tail_numbers(const struct qr_stream *s); /* elements of a direction's observable */
void qr_tail_bind(struct qr_sim_bound *b);
/* Sets the direction, unless it is there already. */
void qr_tail_set_direction(struct qr_stream_direction *d, const struct qr_sim_bound *b, const double *row);
/* The observable of each read-out before the tail, as elements. */
void qr_tail_each(const struct qr_sim_bound *b, unsigned char *ret);
/* after: the observable behind each fused gate. rho: the sums of a density matrix. Adds to cross
 * what the tail's fused gates owe. False when a number left the range. */
bool qr_tail_gradient(const struct qr_sim_bound *b, const double *after, double *const matrix[3],
                      const double *rho, qr_fixed *cross);

/* levels.c: one run of 16 lanes through the levels and back. in is level 0's first buffer.
 * input_too: lambda down to the input. */
void qr_stream_level(struct qr_stream_run *r, struct qr_stream_slot *slot, unsigned level,
                     const unsigned char *in, unsigned char *lambda, uint64_t word, bool input_too);
/* Ends all pieces: lanes are slices. */
void qr_stream_flush(struct qr_stream_run *r, struct qr_stream_slot *slot);

/* front.c: one sample of a sliced plan: read-outs' density matrix and, with a direction, all cross
 * matrices into slot 0. */
void qr_front_run(struct qr_stream_run *r, const double *x);
/* A fused gate's matrix with its data folded in; encoding: one sample's, as qr_stream_encodings. */
struct qr_m4 qr_front_matrix(const struct qr_sim_bound *b, const struct qr_front_gate *at,
                             const double *encoding);
/* Of the right chain's 16 lanes only four differ here: they are beside the left chain's, in its
 * lanes 4 to 7, and both chains, which have the same places, are one until all 16 are wanted. */
static inline bool qr_front_one_chain(const struct qr_stream_front *f) {
    return f->wrap && !f->centre_first;
}
/* Both tables before the first fused gate; in one chain all is left's. */
void qr_front_start(const struct qr_sim_plan *p, struct qr_stream_workspace *ws,
                    unsigned char *left, unsigned char *right);

/* workspace.c */
size_t qr_stream_bound_bytes(const struct qr_sim_plan *p);
void qr_stream_bound_new(struct qr_sim_bound *b);
void qr_stream_bound_free(struct qr_sim_bound *b);
enum qr_code qr_stream_workspace_new(const struct qr_sim_plan *p, size_t max_samples,
                                     struct qr_sim_workspace **ret, struct qr_err *err);
void qr_stream_workspace_free(struct qr_sim_workspace *ws);
/* The right table is there for one variant at a time. */
bool qr_stream_one_table(const struct qr_stream *s);
size_t qr_stream_shares(const struct qr_stream *s);
/* Counts what they take. */
void qr_stream_workspace_buffers(const struct qr_sim_plan *p, size_t max_samples,
                                 struct qr_buffers *r);

/* streaming.c */
void qr_stream_encodings(const struct qr_stream *s, const double *x, size_t stride, size_t n_lanes,
                         double *ret);
/* The plan's workspaces are small: each thread has samples of its own. */
bool qr_stream_in_parallel(const struct qr_sim_plan *p);

/* facts.c */
void qr_stream_report(struct qr_report_build *b);

#endif
