/* job/job_impl.h — the parts of the job reader, private to lib/job.
 *
 * Use       qr_job_read_object reads an object by its rows (keys.c). The other readers are
 *           functions of rows: `where` is the path of the value in messages, `to` the place at the
 *           row's offset.
 * Order     of the rows: data refers to the model, train to both.
 * Errors    INVALID_ARGUMENT unless noted.
 * Threads   Any; a job is built by one thread.
 */
#ifndef QR_JOB_JOB_IMPL_H
#define QR_JOB_JOB_IMPL_H

#include "job/job.h"
#include "job/keys.h"

enum { QR_JOB_MAX_KEYS = 48, QR_JOB_MAX_MICRO_BATCHES = 1 << 22 };

struct qr_job_reader {
    struct qr_job *job;
    struct qr_err *err;
    const struct qr_job_object *objects; /* the table, of n_objects */
    size_t n_objects;
    /* Reading goes on after an error if report is not NULL: it is called for each error. */
    void (*report)(void *context, const struct qr_err *err);
    void *context;
    unsigned n_errors;
    /* The object that is being read, and its kind. */
    const struct qr_json *object;
    const char *where;
    size_t kind;
};

/* The object of a name, which must exist. */
const struct qr_job_object *qr_job_object_of(const struct qr_job_reader *r, const char *name);
/* Reads a job.
 *
 * Args:     folder  folder of files that the job names, or NULL; taken over
 *           set     keys set outside the file, or NULL
 *           report  called for each error, or NULL: stop at the first
 */
struct qr_job_source {
    const char *what;              /* name of the job in messages */
    bool is_file, data_may_follow; /* as in struct qr_job */
    char *folder;
    struct qr_overrides *set;
    void (*report)(void *context, const struct qr_err *err);
    void *context;
};
QR_MUST_CHECK enum qr_code qr_job_parse_in(struct qr_bytes text, const struct qr_job_source *from,
                                           struct qr_job **ret, struct qr_err *err);

/* Sets the defaults of an object, and reads it; v NULL: the defaults alone. */
QR_MUST_CHECK enum qr_code qr_job_read_object(struct qr_job_reader *r,
                                              const struct qr_job_object *o,
                                              const struct qr_json *v, const char *where, void *to);
/* Reads a value by the type of its row. */
QR_MUST_CHECK enum qr_code qr_job_read_value(struct qr_job_reader *r, const struct qr_job_key *k,
                                             const struct qr_json *v, const char *where, void *to);
/* Passes on an error, unless that was done since n_errors was `before`. Returns QR_OK where reading
 * goes on. */
QR_MUST_CHECK enum qr_code qr_job_note(struct qr_job_reader *r, unsigned before, enum qr_code code);
/* Reads a list of numbers into a new array, or fails if it has less than `least` or more than
 * `most` of them. */
struct qr_job_numbers {
    size_t least, most;
    double low, high;
    const char *give; /* what to give in place of too few or too many */
};
QR_MUST_CHECK enum qr_code qr_job_read_numbers(struct qr_job_reader *r, const struct qr_json *v,
                                               const char *where, const struct qr_job_numbers *n,
                                               double **ret, size_t *ret_n);

/* Functions of rows. */
#define READER(name)                                                                               \
    enum qr_code name(struct qr_job_reader *r, const struct qr_json *v, const char *where, void *to)
READER(qr_job_read_nothing); /* a text that is not used */
READER(qr_job_read_name);
READER(qr_job_read_model);
READER(qr_job_read_sweep);
READER(qr_job_read_worker);
READER(qr_job_read_profile_steps);
READER(qr_job_read_layer_name);
READER(qr_job_read_circuit);
READER(qr_job_read_readouts);
READER(qr_job_read_watched);
READER(qr_job_read_sample_weight);
READER(qr_job_read_labels);
READER(qr_job_read_data_columns);
READER(qr_job_read_channels);
READER(qr_job_read_channel_columns);
READER(qr_job_read_file_source);
READER(qr_job_read_urls);
READER(qr_job_read_shuffle_split);
READER(qr_job_read_loss);
READER(qr_job_read_output_weights);
READER(qr_job_read_class_weight);
READER(qr_job_read_metrics);
READER(qr_job_read_initial_weights);
READER(qr_job_read_initial_layers);
READER(qr_job_read_optimizer);
READER(qr_job_read_rate);
READER(qr_job_read_boundaries);
READER(qr_job_read_rate_values);
READER(qr_job_read_log);
#undef READER

/* Functions of objects. */
void qr_job_set_layer_defaults(size_t kind, void *to);
void qr_job_set_data_defaults(size_t kind, void *to);
void qr_job_set_train_defaults(size_t kind, void *to);
void qr_job_set_optimizer_defaults(size_t kind, void *to);
void qr_job_set_stopping_defaults(size_t kind, void *to);
bool qr_job_loss_has(size_t kind, const char *key);
bool qr_job_optimizer_has(size_t kind, const char *key);
bool qr_job_schedule_has(size_t kind, const char *key);
enum qr_code qr_job_reject_optimizer_key(size_t kind, const char *key, const char *where,
                                         struct qr_err *err);
enum qr_code qr_job_reject_schedule_key(size_t kind, const char *key, const char *where,
                                        struct qr_err *err);
enum qr_code qr_job_finish(struct qr_job_reader *r, void *to);
enum qr_code qr_job_finish_layer(struct qr_job_reader *r, void *to);
enum qr_code qr_job_finish_data(struct qr_job_reader *r, void *to);
/* Reads one more metric from the text of --metric. */
enum qr_code qr_job_read_metric(struct qr_job_reader *r, const char *text);
enum qr_code qr_job_finish_train(struct qr_job_reader *r, void *to);
enum qr_code qr_job_finish_optimizer(struct qr_job_reader *r, void *to);
enum qr_code qr_job_finish_schedule(struct qr_job_reader *r, void *to);
enum qr_code qr_job_finish_stopping(struct qr_job_reader *r, void *to);

/* An entry of train.metrics. */
struct qr_metric_spec {
    enum qr_metric metric;
    unsigned k; /* of top_k_accuracy */
};

/* Reads the file that the key `where` names; content: what to give instead, for messages. */
QR_MUST_CHECK enum qr_code qr_job_read_file(const struct qr_job *job, const char *where,
                                            const char *url, size_t max_bytes, const char *content,
                                            struct qr_buf *ret, struct qr_err *err);
/* Reads an observable: text, or {"hamiltonian": terms or file}. */
QR_MUST_CHECK enum qr_code qr_job_read_observable(const struct qr_job *job, const struct qr_json *v,
                                                  const char *where, unsigned n_qubits,
                                                  struct qr_observable *ret, struct qr_err *err);
/* Free what the readers made. */
void qr_job_free_data(struct qr_data_options *d);
void qr_job_free_train(struct qr_train_spec *t);
/* Finds the value of an epoch by name, after metrics and log of train. False: unknown, or a value
 * of single steps only. */
bool qr_job_epoch_value(const struct qr_job *job, const char *name, struct qr_epoch_value *ret);

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
QR_MUST_CHECK enum qr_code qr_job_choice(const struct qr_json *v, const char *where,
                                         enum qr_job_names of, const char *const *names, size_t n,
                                         size_t *ret, struct qr_err *err);

/* As qr_json_known; for keys of another object and for keys of other programs the error has advice
 * (aliases.c). known NULL: only such keys are errors. */
QR_MUST_CHECK enum qr_code qr_job_check_keys(const struct qr_json *object,
                                             const struct qr_job_object *o, const char *where,
                                             const char *const *known, size_t n,
                                             struct qr_err *err);

#endif
