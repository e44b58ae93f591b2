/* job/job_impl.h — the parts of the job reader; for this room only. */
#ifndef QR_JOB_JOB_IMPL_H
#define QR_JOB_JOB_IMPL_H

#include "job/job.h"

/* folder: where files stand that the job names beside itself, or NULL; taken. set: NULL, or what is
 * set in it. */
QR_MUST_CHECK enum qr_code qr_job_parse_in(struct qr_bytes text, const char *what, bool is_file,
                                           char *folder, struct qr_overrides *set,
                                           struct qr_job **ret, struct qr_err *err);
/* Each reads one top-level object into the job; where is its path for messages. */
QR_MUST_CHECK enum qr_code qr_job_read_model(const struct qr_json *model, struct qr_job *job,
                                             struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_read_data(const struct qr_json *data, struct qr_job *job,
                                            struct qr_err *err);
void qr_job_free_data(struct qr_data_options *d);
QR_MUST_CHECK enum qr_code qr_job_read_train(const struct qr_json *train, struct qr_job *job,
                                             struct qr_err *err);
/* An observable as text, or {"hamiltonian": terms or file}. */
QR_MUST_CHECK enum qr_code qr_job_read_observable(const struct qr_job *job, const struct qr_json *v,
                                                  const char *where, unsigned n_qubits,
                                                  struct qr_observable *ret, struct qr_err *err);
/* "watch" of a quantum layer, whose circuit is there; freed by the second. */
QR_MUST_CHECK enum qr_code qr_job_read_watched(const struct qr_json *layer, const char *where,
                                               struct qr_job *job, struct qr_quantum_options *q,
                                               struct qr_err *err);
void qr_job_free_watched(struct qr_quantum_options *q);
/* A name that a value of a step may get: a sentence where it is none, or that of a value that is
 * always there. */
QR_MUST_CHECK enum qr_code qr_job_check_value_name(const struct qr_job *job, const char *where,
                                                   const char *name, struct qr_err *err);
/* "log" of train, whose metrics are read; freed by the second. */
QR_MUST_CHECK enum qr_code qr_job_read_log(const struct qr_json *train, struct qr_job *job,
                                           struct qr_err *err);
void qr_job_free_logged(struct qr_train_spec *t);
/* Some layer watches what has this name. */
bool qr_job_watches(const struct qr_job *job, const char *name);
/* The number of this name that each epoch ends with; train's metrics and log are read. False: no
 * such value, or one that a step alone has. */
bool qr_job_epoch_value(const struct qr_job *job, const char *name, struct qr_epoch_value *ret);
/* "loss" and "class_weight" of the train object. */
QR_MUST_CHECK enum qr_code qr_job_read_loss(const struct qr_json *train, struct qr_train_spec *t,
                                            struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_read_optimizer(const struct qr_json *optimizer,
                                                 struct qr_optimizer_options *ret,
                                                 struct qr_err *err);
/* learning_rate as an object; of piecewise *ret_rate is the first value. */
QR_MUST_CHECK enum qr_code qr_job_read_schedule(const struct qr_json *o, double *ret_rate,
                                                struct qr_rate_schedule *ret, struct qr_err *err);

/* Values that the last layer gives per sample; known without the data. */
size_t qr_job_n_outputs(const struct qr_job *job);
/* Outputs that cannot be what loss and weights of classes take them for: INVALID_ARGUMENT. */
QR_MUST_CHECK enum qr_code qr_job_check_outputs(const struct qr_job *job, struct qr_err *err);

/* Columns of the data that the circuit passes over, where data.columns did not pick them:
 * INVALID_ARGUMENT. trains: the data is the job's own. */
QR_MUST_CHECK enum qr_code qr_job_check_columns(const struct qr_job *job,
                                                const struct qr_dataset *data, bool trains,
                                                struct qr_err *err);
/* DATA_LOSS naming sample and column of an input that reaches 2^40. */
QR_MUST_CHECK enum qr_code qr_job_check_inputs(const struct qr_job *job,
                                               const struct qr_dataset *data, struct qr_err *err);
/* Two words as labels are -1 and 1, not 0 and 1. */
bool qr_job_labels_are_signs(const struct qr_job *job);

/* A sentence for a warning, heap; NULL: nothing is odd. Inputs, and constants, that turn a gate by
 * many turns; a batch above the samples that train. */
char *qr_job_warn_angles(const struct qr_job *job, const struct qr_dataset *data);
char *qr_job_warn_constants(const struct qr_job *job);
char *qr_job_warn_batch(const struct qr_job *job, const struct qr_dataset *data);

/* One of n names, as qr_json_choice reads it; other programs' names of the thing get what is meant
 * here. */
enum qr_job_name {
    QR_JOB_LAYER,
    QR_JOB_LOSS,
    QR_JOB_METRIC,
    QR_JOB_OPTIMIZER,
    QR_JOB_SCHEDULE,
    QR_JOB_PRECISION
};
QR_MUST_CHECK enum qr_code qr_job_choice(const struct qr_json *v, const char *where,
                                         enum qr_job_name of, const char *const *names, size_t n,
                                         size_t *ret, struct qr_err *err);

/* qr_json_known, where a key that is meant for another place, or other programs' name of one, gets
 * what is meant. */
QR_MUST_CHECK enum qr_code qr_job_check_keys(const struct qr_json *object, const char *where,
                                             const char *const *known, size_t n,
                                             struct qr_err *err);

/* Keys that may be left out: *ret keeps its value then. */
QR_MUST_CHECK enum qr_code qr_job_opt_i64(const struct qr_json *o, const char *where,
                                          const char *key, int64_t min, int64_t max, int64_t *ret,
                                          struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_opt_u64(const struct qr_json *o, const char *where,
                                          const char *key, uint64_t min, uint64_t max,
                                          uint64_t *ret, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_opt_double(const struct qr_json *o, const char *where,
                                             const char *key, double min, double max, double *ret,
                                             struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_opt_bool(const struct qr_json *o, const char *where,
                                           const char *key, bool *ret, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_opt_choice(const struct qr_json *o, const char *where,
                                             const char *key, const char *const *names, size_t n,
                                             size_t *ret, struct qr_err *err);

#endif
