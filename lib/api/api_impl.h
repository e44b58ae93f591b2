/* api/api_impl.h — a function of the C interface, shared by the files of this component. */
#ifndef QR_API_API_IMPL_H
#define QR_API_API_IMPL_H

#include <sys/types.h>

#include "api/arguments.h"
#include "base/pool.h"
#include "sim/sim.h"

struct qring_function {
    atomic_flag busy; /* a call is running; guards all fields that calls change */
    bool states, input_gradients;
    unsigned shots; /* without observables: for bit strings only */
    struct qr_circuit *circuit;
    struct qr_observable *observables; /* n_observables */
    size_t n_observables;
    struct qr_sim_plan *plan;
    uint64_t draw_key; /* of random numbers */
    bool in_parallel;  /* each thread runs its own micro-batches */

    struct qr_sim_bound *bound;
    double *bound_weights; /* those that bound was set for, if is_bound */
    bool is_bound;
    unsigned n_threads;
    struct qr_pool *pool; /* made by the first call that needs it */
    pid_t pool_process;
    struct qr_sim_workspace **workspaces; /* n_workspaces, of workspace_samples each */
    unsigned n_workspaces;
    size_t workspace_samples;
};

/* Read the circuit and the observables of a function. */
QR_MUST_CHECK enum qr_code qr_api_circuit(struct qring_function *f, const char *text, size_t bytes,
                                          struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_api_observables(struct qring_function *f, const char *const *texts,
                                              size_t n, struct qr_err *err);
/* Returns the pool; NULL for one thread. */
struct qr_pool *qr_api_pool(struct qring_function *f);
/* Makes sure that there are n workspaces of n_samples. */
QR_MUST_CHECK enum qr_code qr_api_reserve(struct qring_function *f, unsigned n, size_t n_samples,
                                          struct qr_err *err);

#endif
