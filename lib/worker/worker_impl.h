/* worker/worker_impl.h — a worker as its files see it, and how it opens its ports. */
#ifndef QR_WORKER_WORKER_IMPL_H
#define QR_WORKER_WORKER_IMPL_H

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
#include "worker/tls.h"
#include "worker/worker.h"

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
    struct qr_http *http;
    struct qr_profiler *profiler; /* NULL: none is wanted */
    struct qr_publisher *publisher;
    struct qr_progress_reporter *progress_reporter;
    struct qr_progress_target told; /* who is told how far it is */
    struct qr_price price;
    uint64_t pod_ms, max_pod_ms;  /* that were taken before; that are paid, 0: all */
    struct qr_resume_point start; /* what a checkpoint had */
    int64_t looked_ns;            /* when it was looked for last */
    bool ended;                   /* the last look found the end of the run */
    int64_t began_ns;
    bool local;                 /* every peer is on this machine */
    bool has_outputs, finished; /* finished: exit 0 without training */
    bool told_end;              /* the others know how this ends */
};

/* What the run has cost before: w->pod_ms. --fresh: that was another run. */
QR_MUST_CHECK enum qr_code worker_find_cost(struct worker *w, struct qr_err *err);
QR_MUST_CHECK enum qr_code worker_forget_cost(struct worker *w, struct qr_err *err);
/* w->told; what is missing for it is said, and nobody is told. */
void worker_find_told(struct worker *w, char *const *environment);
/* w->progress_reporter, where a setting asks for somebody to be told. */
QR_MUST_CHECK enum qr_code worker_open_progress_reporter(struct worker *w, struct qr_err *err);
/* The bound is reached: a checkpoint, and the sentence that everybody ends with. */
enum qr_code worker_over_budget(struct worker *w, const struct qr_train_result *result,
                                struct qr_err *err);

/* The whole work of an evaluator, until the run that it watches has ended. */
QR_MUST_CHECK enum qr_code worker_evaluate(struct worker *w, struct qr_err *err);

/* Where it listens, and with which TLS: w->listen, w->tls, w->local. */
QR_MUST_CHECK enum qr_code worker_choose_address(struct worker *w, struct qr_err *err);
/* The ports for peers, or none where it works alone: w->group. */
QR_MUST_CHECK enum qr_code worker_open_group(struct worker *w, struct qr_err *err);
/* The port for probes and metrics, once the group listens, so that "ready" is true from the first
 * answer on: w->http. */
QR_MUST_CHECK enum qr_code worker_open_http(struct worker *w, struct qr_err *err);
/* The profiler's port, and what the job records: w->profiler. */
QR_MUST_CHECK enum qr_code worker_open_profiler(struct worker *w, struct qr_err *err);
/* Tries `open` again for QR_PORT_WAIT_NS where a port is in use: a forerunner may have it a little
 * longer, on its way out, or stopped and about to be killed. */
QR_MUST_CHECK enum qr_code worker_await_port(struct worker *w,
                                             enum qr_code (*open)(struct worker *w,
                                                                  struct qr_err *err),
                                             struct qr_err *err);

#endif
