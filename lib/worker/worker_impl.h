/* worker/worker_impl.h — the state of a worker, shared by worker's files, and how it opens its
 * ports. */
#ifndef QR_WORKER_WORKER_IMPL_H
#define QR_WORKER_WORKER_IMPL_H

#include <stdatomic.h>

#include "base/pool.h"
#include "group/group.h"
#include "job/canonical.h"
#include "job/workload.h"
#include "monitor/http.h"
#include "monitor/profiler.h"
#include "output/outputs.h"
#include "output/progress_to.h"
#include "output/publisher.h"
#include "worker/watchdog.h"
#include "worker/settings.h"
#include "worker/thread_count.h"
#include "worker/tls.h"
#include "worker/worker.h"

/* State of the signal thread, which looks at the pod's limits; count, n_logged and reason are set
 * before its first look. */
struct worker_resize {
    struct qr_thread_count count;
    unsigned n_logged;
    struct qr_buf reason; /* of the last request to the pool */
    struct qr_err err;    /* complete before refused is set */
    atomic_bool refused;  /* the memory limit is below the need */
};

struct worker {
    struct qr_settings settings;
    struct qr_log log;
    struct qr_job *job;
    struct qr_identity identity;
    struct qr_workload load;
    struct qr_outputs outputs;
    struct qr_job_canonical canonical;
    struct qr_field *fields;
    char *listen, *places;
    struct qr_link_tls *tls; /* NULL: plaintext */
    struct qr_group *group;
    struct qr_pool *pool;
    struct worker_resize resize;
    struct qr_http *http;
    struct qr_profiler *profiler; /* NULL: not enabled */
    struct qr_publisher *publisher;
    struct qr_progress_reporter *progress_reporter;
    struct qr_progress_target progress_target; /* target of progress reports */
    struct qr_price price;
    uint64_t pod_ms, max_pod_ms;  /* used by earlier processes of the run; allowed, 0: no limit */
    struct qr_resume_point start; /* found checkpoint */
    int64_t looked_ns;            /* last look for a checkpoint */
    bool ended;                   /* the last look found the end of the run */
    int64_t began_ns;
    bool local;                 /* every peer is on this machine */
    bool has_outputs, finished; /* finished: exit 0 without training */
    bool end_sent;              /* the others know how this process ends */
};

/* Reads the earlier cost of the run into w->pod_ms. With --fresh that was another run: delete
 * it. */
QR_MUST_CHECK enum qr_code worker_find_cost(struct worker *w, struct qr_err *err);
QR_MUST_CHECK enum qr_code worker_delete_cost(struct worker *w, struct qr_err *err);
/* Sets w->progress_target; if something is missing, logs a warning and disables reports. */
void worker_find_progress_target(struct worker *w, char *const *environment);
/* Opens w->progress_reporter, where a setting or the price requires it. */
QR_MUST_CHECK enum qr_code worker_open_progress_reporter(struct worker *w, struct qr_err *err);
/* At --max-cost: publishes a checkpoint and returns the error that all members end with. */
enum qr_code worker_over_budget(struct worker *w, const struct qr_train_result *result,
                                struct qr_err *err);

/* Runs an evaluator, until the run that it watches has ended. */
QR_MUST_CHECK enum qr_code worker_evaluate(struct worker *w, struct qr_err *err);

/* Follows the pod's limits from now on: w->pool, while a stepper works with it. */
void worker_follow_pod(struct worker *w);
void worker_unfollow_pod(struct worker *w);
/* True: the memory limit is below the need, so the worker must end; any thread. */
bool worker_pod_refuses(const struct worker *w);
/* The code and error of a worker that ended with `code`: those of the refusal, if that was the
 * reason. */
enum qr_code worker_pod_error(const struct worker *w, enum qr_code code, struct qr_err *err);

/* Chooses address and TLS: w->listen, w->tls, w->local. */
QR_MUST_CHECK enum qr_code worker_choose_address(struct worker *w, struct qr_err *err);
/* Opens the ports for peers, or none for a single worker: w->group. */
QR_MUST_CHECK enum qr_code worker_open_group(struct worker *w, struct qr_err *err);
/* Opens the port for probes and metrics, after the group listens, so that "ready" is true from the
 * first answer on: w->http. */
QR_MUST_CHECK enum qr_code worker_open_http(struct worker *w, struct qr_err *err);
/* Opens the profiler's port, and what the job records: w->profiler. */
QR_MUST_CHECK enum qr_code worker_open_profiler(struct worker *w, struct qr_err *err);
/* Retries `open` for QR_PORT_WAIT_NS while a port is in use: a previous process may still hold it,
 * about to exit or to be killed. */
QR_MUST_CHECK enum qr_code worker_await_port(struct worker *w,
                                             enum qr_code (*open)(struct worker *w,
                                                                  struct qr_err *err),
                                             struct qr_err *err);

#endif
