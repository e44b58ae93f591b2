/* preflight/validate.h — checks everything that a run needs before it starts, for `qring validate`.
 *
 * Usage     qr_validate; qr_validation_text or qr_validation_json; qr_validation_exit_code;
 *           qr_validation_fini.
 * Checks    settings and job as a worker reads them; its ring and all peer names; data, model,
 *           memory; folders and buckets; one wave of micro-batches timed here (enum qr_timing), and
 *           from it seconds, pod-hours and the recommended number of workers
 *           (preflight/estimate.h).
 * Bounds    names 10 s in total; the measurement some seconds, for a circuit of any size; stores
 *           their own timeouts.
 * Effects   none: folders that the checks created are removed, nothing is trained or uploaded.
 * Ownership a validation owns its contents.
 * Threads   one.
 */
#ifndef QR_PREFLIGHT_VALIDATE_H
#define QR_PREFLIGHT_VALIDATE_H

#include "job/workload.h"
#include "preflight/estimate.h"
#include "worker/ring.h"

/* A problem that would stop the run. */
struct qr_finding {
    enum qr_code code;
    char *sentence;
};
/* address NULL: not found; required: a peer of the ring, not only a candidate */
struct qr_peer_name {
    char *peer, *address;
    enum qr_code code;
    bool required;
};

/* The source of the time of a wave of micro-batches. MEASURED: the wave was run. SCALED: a wave
 * would take over 2 s; a part of a micro-batch was run and scaled. ESTIMATED: a part would also
 * take over 2 s; the operations of a gradient (sim/sim.h) divided by the measured rate of a
 * 16-qubit circuit with the same kernels and engine. Large states are bound by memory: expect a
 * factor of 2 either way. */
enum qr_timing { QR_TIMING_NONE, QR_TIMING_MEASURED, QR_TIMING_SCALED, QR_TIMING_ESTIMATED };

/* A channel that only evaluation or prediction reads. name: borrowed from the job. */
struct qr_channel_samples {
    const char *name;
    size_t n_samples;
};
struct qr_validation {
    struct qr_settings settings;
    struct qr_job *job; /* NULL: it could not be read */
    bool has_identity, has_load;
    enum qr_timing timing; /* NONE: not known */
    struct qr_identity identity;
    size_t n_names;
    struct qr_peer_name *names;
    struct qr_workload load;
    size_t n_channels;
    struct qr_channel_samples *channels;
    struct qr_memory_estimate memory; /* of this worker */
    uint64_t epochs;
    char *out, *weights_url, *logdir; /* as a worker would use them; NULL: not known */
    char *checkpoints_url;            /* NULL: no checkpoints, or their location is unusable */
    char *earlier_checkpoints;        /* where an earlier run may have some; NULL: not known */
    bool outputs_good;
    struct qr_estimate_facts facts;
    unsigned best, max_workers;
    double price; /* per CPU-hour; negative: no costs wanted */
    size_t n_findings;
    struct qr_finding findings[16];
};

/* Runs all checks.
 *
 * Args:     argv         as for qringd; argv[0] is skipped
 *           message_ns   assumed latency of a message between two pods
 *           price        per CPU-hour; negative: no costs wanted
 * Errors:   INVALID_ARGUMENT (malformed command line); every other problem is a finding
 */
QR_MUST_CHECK enum qr_code qr_validate(int argc, char *const *argv, char *const *environment,
                                       int64_t message_ns, double price, const struct qr_log *log,
                                       struct qr_validation *ret, struct qr_err *err);
void qr_validation_fini(struct qr_validation *v);
/* 0: no findings; 138: all findings are temporary; else 2. */
int qr_validation_exit_code(const struct qr_validation *v);

/* Append a report as text, or as one JSON object that always has every key (null: not known). */
void qr_validation_text(const struct qr_validation *v, struct qr_buf *ret);
void qr_validation_json(const struct qr_validation *v, struct qr_buf *ret);

#endif
