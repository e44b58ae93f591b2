/* sim/fusion/engine.h — what an engine is: one table of functions for each way to simulate fused
 * gates. sim.c knows which engines there are.
 *
 * An engine is asked in sim.c's order whether it can plan a circuit; the first that can is the
 * plan's. Where a function may be NULL, the engine has nothing of its own there.
 */
#ifndef QR_SIM_FUSION_ENGINE_H
#define QR_SIM_FUSION_ENGINE_H

#include "base/pool.h"
#include "exact/integer.h"
#include "sim/fusion/buffers.h"
#include "sim/fusion/plan.h"

/* An engine's workspace begins with it. */
struct qr_sim_workspace {
    const struct qr_sim_plan *plan;
    /* where the circuit was lowered, n_columns a sample: what the engine is given, and derivatives
     * by it where any are wanted; else NULL (workspace.h) */
    double *lowered_x, *lowered_dx;
    size_t lowered_samples; /* of the last forward sweep */
};

struct qr_sim_bound;
struct qr_report_build;

struct qr_sim_engine {
    const char *name;    /* "streaming" */
    const char *memory;  /* what a workspace holds, in words: "two state vectors" */
    unsigned max_qubits; /* plan is not asked about larger circuits */
    /* a direction that is known before the forward sweep lets it do both at once */
    bool joins_sweeps;

    /* Fills p's fused gates and the engine's own part. False when the circuit is not of its kind: p
     * is as it was, but for p->why, which says what is in the way. */
    bool (*plan)(struct qr_sim_plan *p, const struct qr_circuit *c, const struct qr_observable *obs,
                 size_t n_obs);
    void (*plan_free)(struct qr_sim_plan *p);
    /* What a workspace takes at least; more than there is memory: the circuit is refused. */
    unsigned __int128 (*least_bytes)(const struct qr_sim_plan *p);
    bool (*micro_batches_in_parallel)(const struct qr_sim_plan *p);
    /* as sim.h's; NULL: 16 where lanes are samples, else 1 */
    size_t (*micro_batch_size)(const struct qr_sim_plan *p, size_t batch_size);

    /* Numbers for one theta beside those of the fused gates: all four, or none. */
    size_t (*bound_bytes)(const struct qr_sim_plan *p);
    void (*bound_new)(struct qr_sim_bound *b);
    void (*bound_free)(struct qr_sim_bound *b);
    void (*bind)(struct qr_sim_bound *b, struct qr_pool *pool);

    /* Counts what a workspace takes. */
    void (*workspace_buffers)(const struct qr_sim_plan *p, size_t max_samples,
                              struct qr_buffers *r);
    enum qr_code (*workspace_new)(const struct qr_sim_plan *p, size_t max_samples,
                                  struct qr_sim_workspace **ret, struct qr_err *err);
    void (*workspace_free)(struct qr_sim_workspace *ws);

    /* As sim.h's; gradient: a backward sweep will follow; direction: NULL when it is not
     * known yet. */
    void (*forward)(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                    const double *x, size_t x_stride, size_t n_samples, bool gradient,
                    const double *direction, double *ret_z);
    bool (*backward)(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                     struct qr_pool *pool, const double *direction, const double *scale,
                     qr_fixed *ret_grad, double *ret_dx);

    /* Lines, parts, fused gates and stages of the report (report/build.h). */
    void (*report)(struct qr_report_build *b);
};

#endif
