/* preflight/validate.h — everything a run would need, tried before anything is spent: what `qring
 * validate` says.
 *
 * What      settings and job as a worker reads them; its ring and every name in it; data,
 *           model, memory; folders and buckets; one wave of micro-batches timed here (enum
 *           qr_timing), and from it seconds, pod-hours and the number of workers that pays
 *           off (preflight/estimate.h).
 * Bounds    names 10 s together; the measurement some seconds, however large the circuit; stores as
 *           long as they take.
 * Leaves    nothing: folders that the checks made are taken away, nothing is trained or uploaded.
 * Ownership a validation owns what is in it; qr_validation_fini.
 */
#ifndef QR_PREFLIGHT_VALIDATE_H
#define QR_PREFLIGHT_VALIDATE_H

#include "job/workload.h"
#include "preflight/estimate.h"
#include "worker/ring.h"

struct qr_finding {
    enum qr_code code;
    char *sentence;
};
/* address NULL: not found; must: not only a candidate */
struct qr_peer_name {
    char *peer, *address;
    enum qr_code code;
    bool must;
};

/* Where the seconds of a wave of micro-batches come from. MEASURED: it was run. SCALED: a wave
 * would take over two seconds; one sample of a micro-batch was run. ESTIMATED: so would that; the
 * operations of a gradient (sim/sim.h) at the rate of a 16-qubit circuit with the same kernels and
 * engine, which was run. Memory decides for large states: expect a factor of 2 either way. */
enum qr_timing { QR_TIMING_NONE, QR_TIMING_MEASURED, QR_TIMING_SCALED, QR_TIMING_ESTIMATED };

/* A channel that only evaluation or prediction reads. name: the job's. */
struct qr_channel_samples {
    const char *name;
    size_t n_samples;
};
struct qr_validation {
    struct qr_settings settings;
    struct qr_job *job; /* NULL: could not be read */
    bool has_identity, has_load;
    enum qr_timing timing; /* NONE: could not be said */
    struct qr_identity identity;
    size_t n_names;
    struct qr_peer_name *names;
    struct qr_workload load;
    size_t n_channels;
    struct qr_channel_samples *channels;
    struct qr_memory_estimate memory; /* of this worker */
    uint64_t epochs;
    char *out, *weights_url, *logdir; /* as a worker would take them; NULL: not known */
    char *checkpoints_url;            /* NULL: no checkpoints, or their place cannot be used */
    bool outputs_good;
    struct qr_estimate_facts facts;
    unsigned best, max_workers;
    double price; /* of a CPU and hour; negative: not asked for */
    size_t n_findings;
    struct qr_finding findings[16];
};

/* argv as qringd's (argv[0] is skipped). message_ns: assumed between two pods. price: as in
 * the struct. INVALID_ARGUMENT only for a command line that cannot be read; everything else is
 * a finding. */
QR_MUST_CHECK enum qr_code qr_validate(int argc, char *const *argv, char *const *environment,
                                       int64_t message_ns, double price, const struct qr_log *log,
                                       struct qr_validation *ret, struct qr_err *err);
void qr_validation_fini(struct qr_validation *v);
/* 0; 138 when all that was found is temporary; else 2. */
int qr_validation_exit_code(const struct qr_validation *v);

/* For people; for programs: one object with every key always, null where a thing is not known. */
void qr_validation_text(const struct qr_validation *v, struct qr_buf *ret);
void qr_validation_json(const struct qr_validation *v, struct qr_buf *ret);

#endif
