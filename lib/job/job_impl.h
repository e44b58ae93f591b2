/* job/job_impl.h — the parts of the job reader, private to lib/job.
 *
 * Use       qr_job_parse_in calls qr_job_read_model, qr_job_read_data and qr_job_read_train in this
 *           order: data refers to the model, train to both. `where` is the path of the value in
 *           messages.
 * Errors    INVALID_ARGUMENT unless noted.
 * Threads   Any; a job is built by one thread.
 */
#ifndef QR_JOB_JOB_IMPL_H
#define QR_JOB_JOB_IMPL_H

#include "job/job.h"

/* Reads a job.
 *
 * Args:     folder  folder of files that the job names, or NULL; taken over
 *           set     keys set outside the file, or NULL
 */
QR_MUST_CHECK enum qr_code qr_job_parse_in(struct qr_bytes text, const char *what, bool is_file,
                                           char *folder, struct qr_overrides *set,
                                           struct qr_job **ret, struct qr_err *err);
/* Each function reads one top-level object into the job. */
QR_MUST_CHECK enum qr_code qr_job_read_model(const struct qr_json *model, struct qr_job *job,
                                             struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_read_data(const struct qr_json *data, struct qr_job *job,
                                            struct qr_err *err);
void qr_job_free_data(struct qr_data_options *d);
QR_MUST_CHECK enum qr_code qr_job_read_train(const struct qr_json *train, struct qr_job *job,
                                             struct qr_err *err);
/* Reads an observable: text, or {"hamiltonian": terms or file}. */
QR_MUST_CHECK enum qr_code qr_job_read_observable(const struct qr_job *job, const struct qr_json *v,
                                                  const char *where, unsigned n_qubits,
                                                  struct qr_observable *ret, struct qr_err *err);
/* Reads "watch" of a quantum layer, after its circuit; freed with qr_job_free_watched. */
QR_MUST_CHECK enum qr_code qr_job_read_watched(const struct qr_json *layer, const char *where,
                                               struct qr_job *job, struct qr_quantum_options *q,
                                               struct qr_err *err);
void qr_job_free_watched(struct qr_quantum_options *q);
/* INVALID_ARGUMENT if the name is not valid for a user-defined value of a step, or is already
 * taken. */
QR_MUST_CHECK enum qr_code qr_job_check_value_name(const struct qr_job *job, const char *where,
                                                   const char *name, struct qr_err *err);
/* Reads "log" of train, after its metrics; freed with qr_job_free_logged. */
QR_MUST_CHECK enum qr_code qr_job_read_log(const struct qr_json *train, struct qr_job *job,
                                           struct qr_err *err);
void qr_job_free_logged(struct qr_train_spec *t);
/* True if a layer watches an observable of this name. */
bool qr_job_watches(const struct qr_job *job, const char *name);
/* Finds the value of an epoch by name, after metrics and log of train. False: unknown, or a value
 * of single steps only. */
bool qr_job_epoch_value(const struct qr_job *job, const char *name, struct qr_epoch_value *ret);
/* Reads "loss" and "class_weight" of train. */
QR_MUST_CHECK enum qr_code qr_job_read_loss(const struct qr_json *train, struct qr_train_spec *t,
                                            struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_job_read_optimizer(const struct qr_json *optimizer,
                                                 struct qr_optimizer_options *ret,
                                                 struct qr_err *err);
/* Reads learning_rate as an object. *ret_rate of a piecewise schedule is its first value. */
QR_MUST_CHECK enum qr_code qr_job_read_schedule(const struct qr_json *o, double *ret_rate,
                                                struct qr_rate_schedule *ret, struct qr_err *err);

/* Returns the number of outputs per sample; independent of the data. */
size_t qr_job_n_outputs(const struct qr_job *job);
/* INVALID_ARGUMENT if the outputs are not valid for the loss, the metrics or the class weights. */
QR_MUST_CHECK enum qr_code qr_job_check_outputs(const struct qr_job *job, struct qr_err *err);

/* INVALID_ARGUMENT if the circuit ignores columns of the data, unless data.columns picked them.
 * trains: the data is the job's own. */
QR_MUST_CHECK enum qr_code qr_job_check_columns(const struct qr_job *job,
                                                const struct qr_dataset *data, bool trains,
                                                struct qr_err *err);
/* DATA_LOSS with sample and column if an input reaches 2^40. */
QR_MUST_CHECK enum qr_code qr_job_check_inputs(const struct qr_job *job,
                                               const struct qr_dataset *data, struct qr_err *err);
/* True if the two words of labels are -1 and 1; false: 0 and 1. */
bool qr_job_labels_are_signs(const struct qr_job *job);

/* Each returns a warning (heap), or NULL: inputs or constants that rotate a gate by many turns; a
 * batch larger than the training set. */
char *qr_job_warn_angles(const struct qr_job *job, const struct qr_dataset *data);
char *qr_job_warn_constants(const struct qr_job *job);
char *qr_job_warn_batch(const struct qr_job *job, const struct qr_dataset *data);

/* Reads one of n names, like qr_json_choice; for names of other programs the error has advice
 * (aliases.c). */
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

/* As qr_json_known; for keys of another object and for keys of other programs the error has advice
 * (aliases.c). */
QR_MUST_CHECK enum qr_code qr_job_check_keys(const struct qr_json *object, const char *where,
                                             const char *const *known, size_t n,
                                             struct qr_err *err);

/* Optional keys: *ret is unchanged if the key is missing. */
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
