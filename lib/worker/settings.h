/* worker/settings.h — one table of settings: flags, environment, the job's `worker`
 * object, defaults.
 *
 * What      The table drives the flags (--a-b), the environment (QRING_A_B), the keys of the job
 *           file's `worker` object ("a_b" or "a-b"), --help, cmd/README.md's table and the log at
 *           the start, which says of each value where it came from.
 * Order     flag, environment, job file, default: whichever is first, in whatever order they
 *           are read. Keys of the job (--set, --seed) are gathered instead: all of them count.
 * Values    texts are heap strings or NULL where unset; an empty text unsets. Numbers are int64, -1
 *           where unset; durations are _ns.
 * Ownership a settings object owns its texts. Const after start; any thread may read it.
 */
#ifndef QR_WORKER_SETTINGS_H
#define QR_WORKER_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "job/job.h"
#include "output/cost.h"

enum qr_setting_origin { QR_ORIGIN_DEFAULT, QR_ORIGIN_JOB, QR_ORIGIN_ENVIRONMENT, QR_ORIGIN_FLAG };
/* Whose value counts where the workers of one ring have others. Nothing that a newcomer says ends a
 * ring that works. */
enum qr_setting_scope {
    QR_SETTING_NONE, /* no such setting */
    QR_SETTING_OWN,  /* each has its own, and it concerns nobody else */
    /* the first leader's counts for all until the ring ends (membership/protocol.md §5) */
    QR_SETTING_RING,
    QR_SETTING_LEADER, /* that of who leads, as long as it does */
    QR_SETTING_FIRST,  /* that of the first leader, once, before the ring begins */
    /* must be the same: else the newcomer does not get into the ring, and it alone gives up */
    QR_SETTING_EQUAL,
};
enum { QR_SETTINGS_MAX = 64 };

struct qr_settings {
    char *job;               /* the one positional argument, or QRING_JOB; NULL: the built-in job */
    struct qr_overrides set; /* its keys that are said here: those of the environment first */
    /* who am I */
    char *index, *peers, *peer_template, *replicas, *parameter_servers;
    char *role;                       /* NULL: worker, or TF_CONFIG's */
    int64_t max_workers, min_workers; /* min_workers -1: ceil(replicas / 2) */
    int64_t port, data_port;          /* port -1: that of one's own address, else 2222 */
    char *bind;                       /* NULL: all addresses; loopback when every peer is there */
    int64_t http_port;                /* 0: none */
    char *http_bind;                  /* as bind */
    char *tls_dir, *tls_cert, *tls_key, *tls_ca; /* worker/tls.h */
    bool plaintext;
    /* form_timeout_ns -1: start_timeout_ns, or 10 s where no count is known */
    int64_t start_timeout_ns, form_timeout_ns;
    /* work */
    int64_t threads; /* -1: as many as this process may use */
    char *isa, *allreduce;
    int64_t epochs; /* -1: the job's */
    /* what is left behind */
    char *out; /* NULL: out/<the job's name> */
    char *weights, *weights_gcs_bucket, *weights_gcs_path;
    /* NULL: OUT/checkpoints, or beside weights in a bucket; "none": no checkpoints */
    char *checkpoints;
    int64_t checkpoint_interval_ns, checkpoint_steps; /* whichever comes later */
    int64_t checkpoint_epochs;                        /* and at these ends; 0, -1: none */
    int64_t evaluate_interval_ns;
    bool fresh;   /* what was trained before is taken away */
    char *logdir; /* TensorBoard's; NULL: no events */
    int64_t profiler_port;
    char *profiler_bind;
    /* what it costs: numbers as texts, of pod hours and of money; NULL: none (settings_cost.c) */
    char *price_per_pod_hour, *currency, *max_cost;
    char *progress_to, *service_account; /* output/progress_to.h */
    /* the process */
    char *log_level, *log_format;
    int64_t exit_on_drain;
    char *termination_log; /* NULL: /dev/termination-log where it exists */
    /* of qring run; -1: none. lock_fd: the lock on OUT is held by it */
    int64_t progress_fd, lock_fd;
    bool print_identity, help, version;
    char *print_settings;

    uint8_t origin[QR_SETTINGS_MAX]; /* enum qr_setting_origin, by row of the table */
};

void qr_settings_init(struct qr_settings *s); /* defaults */
void qr_settings_fini(struct qr_settings *s);

/* "--name value", "--name=value", "--flag"; argv[0] is skipped; the one other argument is the job.
 * INVALID_ARGUMENT: unknown names (with the nearest), missing or wrong values, a second job. */
QR_MUST_CHECK enum qr_code qr_settings_flags(struct qr_settings *s, int argc, char *const *argv,
                                             struct qr_err *err);
/* environment: NULL-terminated "NAME=value" texts. Of QRING_ names that are no settings, up to
 * max_unknown sentences go to ret_unknown (heap), since old and foreign names must not stop a
 * worker; names that Kubernetes makes from a Service called qring-… are passed over. */
QR_MUST_CHECK enum qr_code qr_settings_environment(struct qr_settings *s, char *const *environment,
                                                   char **ret_unknown, size_t max_unknown,
                                                   size_t *ret_n_unknown, struct qr_err *err);
/* The job file's `worker` object; NULL is fine. */
QR_MUST_CHECK enum qr_code qr_settings_job(struct qr_settings *s, const struct qr_json *worker,
                                           struct qr_err *err);
/* The job that they name, with its keys that they set; its `worker` object is taken in. The job is
 * the caller's, and is there also when only that object is refused. */
QR_MUST_CHECK enum qr_code qr_settings_load_job(struct qr_settings *s, struct qr_job **ret,
                                                struct qr_err *err);
/* What only makes sense together (weights and its bucket). */
QR_MUST_CHECK enum qr_code qr_settings_check(const struct qr_settings *s, struct qr_err *err);

/* What a pod costs, and the pod-time that --max-cost pays; 0: none. INVALID_ARGUMENT: what is no
 * number, or a bound without a price. */
QR_MUST_CHECK enum qr_code qr_settings_price(const struct qr_settings *s, struct qr_price *ret,
                                             uint64_t *ret_max_pod_ms, struct qr_err *err);

/* Lines "from flags: index=1, …", one for each origin that has any. */
void qr_settings_log(const struct qr_settings *s, const struct qr_log *log);
void qr_settings_help(struct qr_buf *ret);     /* the options part of qringd --help */
void qr_settings_markdown(struct qr_buf *ret); /* cmd/README.md's table */

/* *ret_told (may be NULL): what a newcomer with another value reads in its log; NULL: nothing. */
enum qr_setting_scope qr_settings_scope(const char *name, const char **ret_told);
/* The same for a key of the job file ("train.epochs"). */
enum qr_setting_scope qr_settings_scope_key(const char *path, const char **ret_told);
/* Where the value of a setting came from; name without dashes, of the table. */
enum qr_setting_origin qr_settings_origin(const struct qr_settings *s, const char *name);

/* 0: no such flag; 1: a flag without a value; 2: one that takes a value. name without dashes. */
int qr_settings_arity(const char *name);
/* "auto|portable|avx2": the values that a setting may have; NULL where they are not so few. name
 * without dashes. Static; one thread. */
const char *qr_settings_choices(const char *name);
/* The i-th name ("data-port"), NULL at the end; hidden ones are left out. For completion and
 * nearest names. */
const char *qr_settings_name(size_t i);
/* Sets one value as a flag does ("threads", "2"). */
QR_MUST_CHECK enum qr_code qr_settings_set(struct qr_settings *s, const char *name,
                                           const char *value, struct qr_err *err);

#endif
