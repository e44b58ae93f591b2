/* job/job.h — reads a job file into checked options of model, data and training.
 *
 * Use       qr_job_load (or qr_job_parse), then qr_job_model and qr_job_data, or both at once by
 *           job/workload.h; qr_job_free at the end. A job with "sweep": qr_job_check_trials, then
 *           qr_job_trial for each trial.
 * Checks    Unknown keys are rejected with the nearest known name, wrong types and ranges with the
 *           path of the value. Everything is checked before anything runs.
 * Ownership A job owns everything that it points to, unless noted.
 * Errors    INVALID_ARGUMENT unless noted; the message has the path of the key, and the line where
 *           the file is malformed.
 * Threads   Any; one thread at a time for a job that is changed (qr_job_add_metric, qr_job_free).
 */
#ifndef QR_JOB_JOB_H
#define QR_JOB_JOB_H

#include "data/dataset.h"
#include "expression/expression.h"
#include "format/json.h"
#include "job/overrides.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "sweep/sweep.h"

/* A value of an epoch that early stopping and sweeps can monitor: a mean over the epoch's training
 * steps, a value of its evaluation, or a value of train.log computed from these. */
struct qr_epoch_value {
    bool evaluation; /* exists only for epochs that are evaluated */
    /* index into train.log; otherwise into the values of the model (qr_model_value_name) */
    bool logged;
    size_t at;
    bool grows; /* a metric of which larger is better */
};

struct qr_early_stopping {
    bool on;
    char *monitor; /* name of the value: "val_loss", "loss" ...; owned */
    unsigned mode; /* 0: maximize depends on the value; 1: false; 2: true */
    struct qr_epoch_value value;
    bool maximize;
    double min_delta;
    uint64_t patience;
    bool restore_best; /* keep and restore the best state */
};

/* Initial weights of one layer: name of the layer in the model, and in the weights file. */
struct qr_initial_layer {
    char *name, *file_name;
};

enum { QR_MAX_METRICS = 8 }; /* including the observables that quantum layers watch */

/* Values that expressions in train.log can name, in this order: those of the step, or, next to
 * values of an evaluation, of the epoch's training (qr_model_value_name); then those of the
 * evaluation. */
enum qr_log_value {
    QR_LOG_STEP,
    QR_LOG_EPOCH,
    QR_LOG_SAMPLES,
    QR_LOG_LEARNING_RATE,
    QR_LOG_GRADIENT_NORM,
    QR_LOG_VALUES,
    QR_LOG_VAL_VALUES = QR_LOG_VALUES + 1 + QR_MAX_METRICS,
    QR_LOG_NAMES = QR_LOG_VAL_VALUES + 1 + QR_MAX_METRICS
};
enum { QR_MAX_LOGGED = 7 };
/* A value with a user-defined name: scale times the expression; its parameters are enum
 * qr_log_value. */
struct qr_logged {
    char *name, *text;
    double scale;
    struct qr_expression expression;
    /* uses a value of an evaluation: logged with evaluations, otherwise with steps */
    bool evaluation;
    bool gradient; /* uses the norm of the gradient */
};

struct qr_train_spec {
    uint64_t epochs, batch_size;
    enum qr_loss loss;
    struct qr_loss_options loss_options;
    size_t n_class_weights; /* 0: none */
    double *class_weight;   /* owned */
    size_t n_output_weights;
    double *output_weights; /* owned; same as loss_options.weights */
    size_t n_metrics;
    enum qr_metric metrics[QR_MAX_METRICS];
    unsigned top_k; /* k of top_k_accuracy */
    size_t n_logged;
    struct qr_logged logged[QR_MAX_LOGGED]; /* owned */
    struct qr_optimizer_options optimizer;
    struct qr_early_stopping early_stopping;
    bool shuffle;
    bool evaluate;           /* evaluate at the end of each epoch */
    char *initial_weights;   /* URL, resolved like that of the data; NULL: none */
    size_t n_initial_layers; /* 0: all layers */
    struct qr_initial_layer *initial_layers;
};

struct qr_job {
    char *name;
    uint64_t seed;
    enum qr_precision precision;
    bool is_file;         /* read from a file: may refer to files next to it */
    bool data_may_follow; /* a missing data.url is an error of the load: data.arrays may be set */
    size_t micro_batch_size; /* effective value, with the defaults of exact/contract.md §4 */
    size_t n_layers;
    struct qr_layer_options *layers; /* circuits and observables are owned by the job */
    bool data_may_be_wider;          /* the circuit is a gate list without a number of columns */
    bool default_readouts;           /* the last quantum layer has no readouts in the file */
    size_t n_watched;                /* number of observables that layers watch */
    struct qr_data_options data;     /* strings owned by the job */
    struct qr_train_spec train;
    uint64_t profile_first, profile_last; /* steps for the profiler, from 1; 0: none */
    struct qr_sweep_spec *sweep;          /* NULL: none */
    size_t n_set;                         /* keys set outside the file: "train.epochs=60" */
    char **set;                           /* owned */
    const struct qr_json *worker;         /* "worker" object or NULL; borrowed from tree */
    struct qr_json *tree;                 /* the parsed file */
};

/* Reads a job from memory.
 *
 * Args:     text   bytes of the file, borrowed
 *           what   name of the job in messages
 *           ret    job; caller frees with qr_job_free
 * Errors:   INVALID_ARGUMENT, also for a job that refers to a Hamiltonian in another file
 */
QR_MUST_CHECK enum qr_code qr_job_parse(struct qr_bytes text, const char *what, struct qr_job **ret,
                                        struct qr_err *err);
/* As qr_job_parse, for a job that may refer to files, or get its samples as data.arrays: a missing
 * data.url is not an error yet.
 *
 * Args:     folder  of these files, beside the working directory; NULL: none
 *           report  called for each error in the file that does not follow from another; the last
 *                   one is returned
 */
QR_MUST_CHECK enum qr_code qr_job_parse_all(struct qr_bytes text, const char *what,
                                            const char *folder,
                                            void (*report)(void *context, const struct qr_err *err),
                                            void *context, struct qr_job **ret, struct qr_err *err);
/* Reads a job from a path or URL.
 *
 * Args:     url    path or URL; a folder stands for its job.json (output/job_file.h); "-": standard
 *                  input; NULL: the built-in copy of deploy/jobs/qcnn.json
 *           set    keys set outside the file, or NULL
 *           ret    job; caller frees with qr_job_free
 * Errors:   INVALID_ARGUMENT; those of the store (NOT_FOUND, UNAVAILABLE ...)
 */
QR_MUST_CHECK enum qr_code qr_job_load(const char *url, struct qr_overrides *set,
                                       struct qr_job **ret, struct qr_err *err);
/* As qr_job_load; report is called for each error in the file that does not follow from another,
 * and the last one is returned. */
QR_MUST_CHECK enum qr_code qr_job_load_all(const char *url, struct qr_overrides *set,
                                           void (*report)(void *context, const struct qr_err *err),
                                           void *context, struct qr_job **ret, struct qr_err *err);
void qr_job_free(struct qr_job *job);
/* Returns the index of the n-th quantum layer, from 0; n_layers if there are fewer. */
size_t qr_job_quantum(const struct qr_job *job, size_t n);

/* Creates the job of one trial of a sweep, with the trial's keys set.
 *
 * Args:     trial  0 ... n_trials - 1
 *           ret    job; caller frees with qr_job_free
 * Errors:   INVALID_ARGUMENT; the message begins with the number of the trial
 */
QR_MUST_CHECK enum qr_code qr_job_trial(const struct qr_job *job, size_t trial, struct qr_job **ret,
                                        struct qr_err *err);
/* Adds the keys of a trial to ret, which must be empty. */
void qr_job_trial_set(const struct qr_job *job, size_t trial, struct qr_overrides *ret);
/* Reads every trial of a sweep and chooses the metric that compares them.
 *
 * Args:     has_validation  there are validation samples
 *           ret             name of the metric, borrowed from the job or static
 *           ret_maximize    whether larger is better
 * Errors:   INVALID_ARGUMENT: a trial is not valid, or does not have the metric
 */
QR_MUST_CHECK enum qr_code qr_job_check_trials(const struct qr_job *job, bool has_validation,
                                               const char **ret, bool *ret_maximize,
                                               struct qr_err *err);

/* Settings that are valid but usually a mistake, one sentence each.
 *
 * Args:     data  NULL where the data could not be loaded: only the job file is checked
 *           ret   sentences; caller frees with qr_job_warnings_fini
 */
struct qr_job_warnings {
    size_t n;
    char *sentence[16];
};
void qr_job_warnings(const struct qr_job *job, const struct qr_dataset *data,
                     struct qr_job_warnings *ret);
void qr_job_warnings_fini(struct qr_job_warnings *d);
/* Appends the columns of the data that the model reads: "a, b" where the file has names, otherwise
 * "columns 0, 3 (2 of 6 columns)". Nothing for generated data. */
void qr_job_put_inputs(const struct qr_job *job, const struct qr_dataset *data, struct qr_buf *ret);

/* Appends the labels that are words, with their numbers: "cat (0), dog (1)". Nothing where labels
 * are numbers. */
void qr_job_put_classes(const struct qr_job *job, const struct qr_dataset *data,
                        struct qr_buf *ret);

/* Builds the model of a job.
 *
 * Args:     isa        kernels, from the settings
 *           n_columns  columns of the data, used where no circuit reads them
 *           ret        model; caller frees with qr_model_free
 */
QR_MUST_CHECK enum qr_code qr_job_model(const struct qr_job *job, enum qr_isa isa, size_t n_columns,
                                        struct qr_model **ret, struct qr_err *err);
/* Returns the options for loading the data, with what model and loss require. Borrows from the
 * job. */
struct qr_data_options qr_job_data_options(const struct qr_job *job);
/* Loads the data of a job.
 *
 * Args:     ret    x and y as the model needs them; caller frees with qr_dataset_fini
 * Errors:   INVALID_ARGUMENT, also for 2^22 or more micro-batches per evaluation
 *           (exact/contract.md §3); DATA_LOSS (malformed data: file and row); those of the store
 * The range of labels is checked separately, by qr_model_check_labels.
 */
QR_MUST_CHECK enum qr_code qr_job_data(const struct qr_job *job, struct qr_dataset *ret,
                                       struct qr_err *err);
/* Samples other than those of training and validation, read like the data of the job: the columns
 * that it picks, by name where it has names. Where job->data has inputs and classes (from a weights
 * file), the columns and classes are those. */
struct qr_job_samples {
    const char *channel; /* one of the job's channels; NULL: a file */
    const char *url;     /* path, URL, or the name of the samples in messages */
    struct qr_buf *file; /* its bytes, taken over; NULL: read from url */
    /* The samples in memory, emptied (data/dataset.h); NULL: none */
    struct qr_tensors *arrays;
    bool labels; /* the samples have labels, and weights where the job has sample weights */
};
/* Checks without reading anything that the samples can be used. INVALID_ARGUMENT: the job has no
 * inputs, or no such channel. */
QR_MUST_CHECK enum qr_code qr_job_check_samples(const struct qr_job *job,
                                                const struct qr_job_samples *of,
                                                struct qr_err *err);
/* Loads the samples. Errors: as qr_job_check_samples, and those of qr_job_data; the message has the
 * name of the file. */
QR_MUST_CHECK enum qr_code qr_job_samples(const struct qr_job *job, const struct qr_job_samples *of,
                                          struct qr_dataset *ret, struct qr_err *err);

/* INVALID_ARGUMENT if train.log or early stopping uses a value of an evaluation, and there are no
 * validation samples. */
QR_MUST_CHECK enum qr_code qr_job_check_validation(const struct qr_job *job, bool has_validation,
                                                   struct qr_err *err);
/* Adds a metric to those of the file, before the model is built. A duplicate is kept once.
 *
 * Args:     text   a name, or an object as in the file: {"name": "top_k_accuracy", "k": 3}
 * Errors:   INVALID_ARGUMENT: unknown or unsuitable metric, or more than QR_MAX_METRICS
 */
QR_MUST_CHECK enum qr_code qr_job_add_metric(struct qr_job *job, const char *text,
                                             struct qr_err *err);
/* True if the outputs are classes: with a cross-entropy or hinge loss, and with other losses where
 * a metric compares signs (accuracy, confusion_matrix). Condition of qr_metric_predicted_class. */
bool qr_job_has_classes(const struct qr_job *job);
struct qr_metric_options qr_job_metric_options(const struct qr_job *job);

#endif
