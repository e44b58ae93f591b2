/* worker/settings.h — the table of settings: flags, environment, the job's `worker` object,
 * defaults.
 *
 * What      The table drives the flags (--a-b), the environment (QRING_A_B), the keys of the job
 *           file's `worker` object ("a_b" or "a-b"), --help, cmd/README.md's table and the log at
 *           the start, which names the source of each value.
 * Order     qr_settings_init; then qr_settings_flags, qr_settings_environment, qr_settings_load_job
 *           in any order; qr_settings_check. Precedence: flag, environment, job file, default. Keys
 *           of the job (--set, --seed) are collected instead: all of them count.
 * Values    Texts are heap strings, NULL where unset; an empty text unsets. Numbers are int64, -1
 *           where unset; durations are _ns.
 * Ownership A settings object owns its texts. Const after the start; any thread may read it.
 * Errors    INVALID_ARGUMENT with the setting as typed.
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
/* Which value applies when workers of one ring have different ones. No setting of a newcomer can
 * end a ring that works. */
enum qr_setting_scope {
    QR_SETTING_NONE, /* no such setting */
    QR_SETTING_OWN,  /* each worker has its own, without effect on others */
    /* The first leader's value applies to all until the ring ends (membership/protocol.md §5). */
    QR_SETTING_RING,
    QR_SETTING_LEADER, /* the present leader's value, while it leads */
    QR_SETTING_FIRST,  /* the first leader's value, once, before the ring begins */
    /* Must be equal: otherwise the newcomer cannot join, and it alone stops. */
    QR_SETTING_EQUAL,
};
enum { QR_SETTINGS_MAX = 64 };

struct qr_settings {
    char *job;               /* the positional argument, or QRING_JOB; NULL: the built-in job */
    struct qr_overrides set; /* keys of the job from --set and --seed; environment first */
    /* Identity */
    char *index, *peers, *peer_template, *replicas, *parameter_servers;
    char *role;                       /* NULL: worker, or TF_CONFIG's */
    int64_t max_workers, min_workers; /* min_workers -1: ceil(replicas / 2) */
    int64_t port, data_port;          /* port -1: the own address's, else 2222 */
    char *bind;                       /* NULL: all addresses; loopback if every peer is there */
    int64_t http_port;                /* 0: none */
    char *http_bind;                  /* as bind */
    char *tls_dir, *tls_cert, *tls_key, *tls_ca; /* worker/tls.h */
    bool plaintext;
    /* form_timeout_ns -1: start_timeout_ns, or 10 s without a known count. */
    int64_t start_timeout_ns, form_timeout_ns;
    /* Work */
    int64_t threads; /* -1: as many as this process may use */
    char *isa, *allreduce;
    int64_t epochs; /* -1: the job's */
    /* Outputs */
    char *out; /* NULL: out/<the job's name> */
    char *weights, *weights_gcs_bucket, *weights_gcs_path;
    /* NULL: OUT/checkpoints, or beside weights in a bucket; "none": no checkpoints. */
    char *checkpoints;
    char *signing_key; /* Ed25519, PEM; NULL: the provenance is not signed */
    int64_t checkpoint_interval_ns, checkpoint_steps; /* minimum distance; both must pass */
    int64_t checkpoint_keep;
    int64_t checkpoint_epochs; /* additionally at the end of every N-th epoch; 0, -1: none */
    int64_t evaluate_interval_ns;
    bool fresh;   /* delete earlier checkpoints and results */
    char *logdir; /* TensorBoard folder; NULL: no events */
    int64_t profiler_port;
    char *profiler_bind;
    /* Cost: numbers as texts, per pod hour and in money; NULL: none (settings_cost.c). */
    char *price_per_pod_hour, *currency, *max_cost;
    char *progress_to, *service_account; /* output/progress_to.h */
    /* Process */
    char *log_level, *log_format;
    int64_t exit_on_drain;
    char *termination_log; /* NULL: /dev/termination-log where it exists */
    /* Of qring run; -1: none. lock_fd: an inherited lock on OUT. */
    int64_t progress_fd, lock_fd;
    bool print_identity, help, version;
    char *print_settings;

    uint8_t origin[QR_SETTINGS_MAX]; /* enum qr_setting_origin, by row of the table */
};

void qr_settings_init(struct qr_settings *s); /* sets the defaults */
/* Frees the texts. */
void qr_settings_fini(struct qr_settings *s);

/* Reads the command line: "--name value", "--name=value", "--flag"; argv[0] is skipped; the one
 * other argument is the job.
 *
 * Errors:   INVALID_ARGUMENT: unknown names (with the nearest), missing or wrong values, a second
 *           job
 */
QR_MUST_CHECK enum qr_code qr_settings_flags(struct qr_settings *s, int argc, char *const *argv,
                                             struct qr_err *err);
/* Reads the environment. Unknown QRING_ names only cause warnings, since old and foreign names must
 * not stop a worker; names that Kubernetes makes of a Service called qring-… are ignored.
 *
 * Args:     environment    NULL-terminated "NAME=value" texts
 *           ret_unknown    [max_unknown]: one sentence for each unknown name, heap
 *           ret_n_unknown  number of sentences
 */
QR_MUST_CHECK enum qr_code qr_settings_environment(struct qr_settings *s, char *const *environment,
                                                   char **ret_unknown, size_t max_unknown,
                                                   size_t *ret_n_unknown, struct qr_err *err);
/* Reads the job file's `worker` object; NULL is fine. */
QR_MUST_CHECK enum qr_code qr_settings_job(struct qr_settings *s, const struct qr_json *worker,
                                           struct qr_err *err);
/* Loads the job that the settings name, sets its keys, and reads its `worker` object.
 *
 * Args:     report, context  as in qr_job_load_all; NULL
 *           ret              the caller's; also set when only that object is rejected
 */
QR_MUST_CHECK enum qr_code qr_settings_load_job(
    struct qr_settings *s, void (*report)(void *context, const struct qr_err *err), void *context,
    struct qr_job **ret, struct qr_err *err);
/* Checks combinations (weights and its bucket, TLS and plaintext, price). */
QR_MUST_CHECK enum qr_code qr_settings_check(const struct qr_settings *s, struct qr_err *err);

/* Returns the price of a pod, and the pod-time that --max-cost allows; 0: no limit.
 *
 * Errors:   INVALID_ARGUMENT: not a number, or a limit without a price
 */
QR_MUST_CHECK enum qr_code qr_settings_price(const struct qr_settings *s, struct qr_price *ret,
                                             uint64_t *ret_max_pod_ms, struct qr_err *err);

/* Logs lines "settings from flags: index=1, …", one for each source with any. */
void qr_settings_log(const struct qr_settings *s, const struct qr_log *log);
void qr_settings_help(struct qr_buf *ret);     /* appends the flags part of qringd --help */
void qr_settings_markdown(struct qr_buf *ret); /* appends cmd/README.md's table */

/* Returns which value of a setting applies in a ring.
 *
 * Args:     ret_note  (may be NULL) the log line of a newcomer with another value; NULL: none
 */
enum qr_setting_scope qr_settings_scope(const char *name, const char **ret_note);
/* The same for a key of the job file ("train.epochs"). */
enum qr_setting_scope qr_settings_scope_key(const char *path, const char **ret_note);
/* Returns the source of a setting's value; name without dashes, of the table. */
enum qr_setting_origin qr_settings_origin(const struct qr_settings *s, const char *name);

/* Returns 0: no such flag; 1: a flag without a value; 2: one that takes a value. name without
 * dashes. */
int qr_settings_arity(const char *name);
/* Returns the values of a setting, "auto|portable|avx2"; NULL where they are not a list. name
 * without dashes. Static; one thread. */
const char *qr_settings_choices(const char *name);
/* Returns the i-th name ("data-port"), without hidden ones; NULL at the end. For completion and
 * suggestions. */
const char *qr_settings_name(size_t i);
/* Can the job file's "worker" have this setting? name without dashes, an existing one. */
bool qr_settings_in_job(const char *name);
/* Sets one value like a flag ("threads", "2"). */
QR_MUST_CHECK enum qr_code qr_settings_set(struct qr_settings *s, const char *name,
                                           const char *value, struct qr_err *err);

#endif
