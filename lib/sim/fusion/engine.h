/* sim/fusion/engine.h — the interface of an engine: one table of functions for each way to simulate
 * fused gates. sim.c lists the engines.
 *
 * The engines are tried in sim.c's order; the first that can plan a circuit is the plan's engine.
 * Functions that may be NULL are optional. Threads are as in sim.h.
 */
#ifndef QR_SIM_FUSION_ENGINE_H
#define QR_SIM_FUSION_ENGINE_H

#include "base/pool.h"
#include "exact/integer.h"
#include "sim/fusion/buffers.h"
#include "sim/fusion/plan.h"

/* First member of every engine's workspace. */
struct qr_sim_workspace {
    const struct qr_sim_plan *plan;
    size_t max_samples;
    struct qr_owned owned; /* all buffers */
    /* if the circuit was lowered, n_columns per sample: the input of the engine, and derivatives by
     * that input if any are requested; else NULL (workspace.h) */
    double *lowered_x, *lowered_dx;
    size_t lowered_samples;           /* of the last forward sweep */
    struct qr_sim_draw draw;          /* of trajectories */
    struct qr_shift_workspace *shift; /* NULL: derivatives by adjoints */
    double *shift_params;
};

struct qr_sim_bound;
struct qr_report_build;

struct qr_sim_engine {
    const char *name;    /* "streaming" */
    const char *memory;  /* contents of a workspace in messages: "two state vectors" */
    unsigned max_qubits; /* plan is not called for larger circuits */
    /* runs both sweeps at once if the direction is known before the forward sweep */
    bool joins_sweeps;

    /* Sets p's fused gates and the engine's own part. Returns false for an unsupported circuit: p
     * is then unchanged, except that p->why has the reason. */
    bool (*plan)(struct qr_sim_plan *p, const struct qr_circuit *c, const struct qr_observable *obs,
                 size_t n_obs);
    void (*plan_free)(struct qr_sim_plan *p);
    /* Minimum memory; a circuit that needs more than the limit is rejected. NULL: a workspace for
     * one sample and the numbers of a step. */
    unsigned __int128 (*least_bytes)(const struct qr_sim_plan *p);
    /* As in sim.h. threads_share: with micro-batches in parallel; NULL: false. */
    bool (*micro_batches_in_parallel)(const struct qr_sim_plan *p);
    bool (*threads_share)(const struct qr_sim_plan *p);
    /* As in sim.h. NULL: 16 where lanes are samples, else 1. */
    size_t (*micro_batch_size)(const struct qr_sim_plan *p, size_t batch_size);

    /* Numbers for one theta, in addition to those of the fused gates: a struct of bound_size bytes
     * (b->own), whose buffers one walk counts and allocates. */
    size_t bound_size;
    void (*bound_buffers)(struct qr_buffers *r, struct qr_sim_bound *b);
    void (*bind)(struct qr_sim_bound *b, struct qr_pool *pool);

    /* A workspace is a zeroed struct of workspace_size bytes, whose buffers one walk counts and
     * allocates; then workspace_begin (optional) sets what is not 0, and workspace_end (optional)
     * is called before the buffers are freed. While buffers are counted no pointer is set. */
    size_t workspace_size;
    void (*workspace_buffers)(struct qr_buffers *r, struct qr_sim_workspace *ws);
    void (*workspace_begin)(struct qr_sim_workspace *ws);
    void (*workspace_end)(struct qr_sim_workspace *ws);

    /* As in sim.h. gradient: a backward sweep will follow; direction: NULL if not known yet. */
    void (*forward)(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                    const double *x, size_t x_stride, size_t n_samples, bool gradient,
                    const double *direction, double *ret_z);
    bool (*backward)(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                     struct qr_pool *pool, const double *direction, const double *scale,
                     qr_fixed *ret_grad, double *ret_dx);
    /* As qr_sim_sample; NULL: not supported. */
    bool (*sample)(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                   const double *x, size_t x_stride, size_t n_samples, uint64_t *ret,
                   uint64_t *ret_bits);
    /* As qr_sim_states; NULL: not supported. */
    void (*states)(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                   const double *x, size_t x_stride, size_t n_samples, double *ret);

    /* Lines, parts, fused gates and stages of the report (report/report_build.h). */
    void (*report)(struct qr_report_build *b);
};

#endif
