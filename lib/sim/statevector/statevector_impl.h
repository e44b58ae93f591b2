/* sim/statevector/statevector_impl.h — the blocked engine's workspace and one sweep of it (inside the room). */
#ifndef QR_SIM_GENERIC_IMPL_H
#define QR_SIM_GENERIC_IMPL_H

#include "sim/fusion/plan.h"
#include "sim/streaming/streaming_impl.h"

/* What one thread writes while a pass runs. */
struct qr_slot {
    unsigned char *phi, *lambda; /* a tile of each; unused when the tile is the whole state */
    qr_fixed *cross;             /* n_shapes * QR_CROSS */
    qr_fixed *z;                 /* n_readouts * QR_LANES; lane 0 alone when lanes are amplitudes */
    bool *bad_z;                 /* the same shape */
    size_t next;                 /* the item that this thread does after this one; none: their number */
    bool bad;                    /* a cross number left the range */
};

/* A group is what one state vector holds: up to 16 samples, or one. */
enum { QR_NO_GROUP = -1 };

struct qr_sim_workspace {
    const struct qr_sim_plan *plan;
    size_t max_samples, n_samples;
    double *x;            /* max_samples * n_columns: the samples of the last forward */
    int64_t phi_group;    /* whose final state phi holds */
    unsigned char *phi, *lambda;
    unsigned char *start; /* the state before pass first_pass; NULL where that is 0 */
    bool started;         /* it is there */
    double *wide, *narrow; /* n_wide * QR_WIDE, n_data * QR_NARROW */
    struct qr_slot *slots;
    qr_fixed *cross;      /* n_shapes * QR_CROSS */
    qr_fixed *mixed;      /* n_mixed * max_samples * QR_CROSS */
    double *scratch;      /* n_params */
    struct qr_stream_workspace *stream; /* NULL: all above is used */
};

/* Counts what a workspace takes. */
void qr_sim_workspace_room(const struct qr_sim_plan *p, size_t max_samples, struct qr_room *r);

/* One sweep over one group. */
struct qr_run {
    const struct qr_sim_plan *p;
    const struct qr_sim_bound *b;
    struct qr_sim_workspace *ws;
    struct qr_pool *pool;
    size_t first, n;              /* samples of the group */
    const struct qr_plan_pass *pass;
    unsigned char *from;          /* the state that a pass reads: ws->phi, or ws->start */
    const double *direction;      /* n * n_readouts, of the group */
    double scale[QR_LANES];       /* of each lane; 0 in empty ones */
};

/* passes_run.c: |0..0> to the final state in ws->phi; and back from ws->phi, ws->lambda, cross numbers into the slots. */
void qr_run_forward(struct qr_run *r);
void qr_run_backward(struct qr_run *r);
/* Items 0..n-1 over the pool's threads, each with a slot of its own. */
typedef void (*qr_run_item_fn)(struct qr_run *r, size_t item, struct qr_slot *slot);
void qr_run_items(struct qr_run *r, size_t n, qr_run_item_fn fn);

/* readout.c: adds this group's read-outs into the slots' z; sets ws->lambda, unless tiles do it. */
void qr_run_expect(struct qr_run *r);
void qr_run_observe(struct qr_run *r);
/* The same for one tile of the last pass, at base, whose cells are here one after the other: where the plan's tiles_observe. */
void qr_run_observe_tile(const struct qr_run *r, uint64_t base, unsigned char *lambda, const unsigned char *phi);

#endif
