/* job/job.h — the job file → checked options of model, data and training.
 *
 * Unknown keys are refused with the nearest known name, wrong types and ranges with the path of the
 * value. Everything is checked before anything runs. Ownership: a job owns all that it points to.
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

/* A number that each epoch ends with, which early stopping and sweeps may go by: a mean over the
 * epoch's training, of the evaluation, or what train.log makes of these. */
struct qr_epoch_value {
    bool evaluation; /* there is one only where epochs are evaluated */
    bool logged;     /* of train.log, the at-th; else of the model's values (qr_model_value_name) */
    size_t at;
    bool grows; /* the larger the better: a metric of that kind */
};

struct qr_early_stopping {
    bool on;
    char monitor[32]; /* its name: "val_loss", "loss" … */
    struct qr_epoch_value value;
    bool maximize;
    double min_delta;
    uint64_t patience;
    bool restore_best; /* keep the best state */
};

/* Initial weights of one layer: its name here, and in the file. */
struct qr_initial_layer {
    char *here, *there;
};

enum { QR_MAX_METRICS = 8 }; /* with what quantum layers watch */

/* What expressions in train.log may name, in this order: the model's values (qr_model_value_name)
 * of the step, or, beside an evaluation's, of its epoch's training; and the evaluation's. */
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
/* A value by a name of the user's: scale times the expression, whose parameters are enum
 * qr_log_value. */
struct qr_logged {
    char *name, *text;
    double scale;
    struct qr_expression expression;
    bool evaluation; /* it names an evaluation's value: logged with those, else with steps */
    bool gradient;   /* it names the gradient's norm */
};

struct qr_train_spec {
    uint64_t epochs, batch_size;
    enum qr_loss loss;
    struct qr_loss_options loss_options;
    size_t n_class_weights; /* 0: none */
    double *class_weight;   /* owned */
    size_t n_output_weights;
    double *output_weights; /* owned: loss_options.weights */
    size_t n_metrics;
    enum qr_metric metrics[QR_MAX_METRICS];
    unsigned top_k; /* of top_k_accuracy */
    size_t n_logged;
    struct qr_logged logged[QR_MAX_LOGGED]; /* owned */
    struct qr_optimizer_options optimizer;
    struct qr_early_stopping early_stopping;
    bool shuffle;
    bool evaluate;           /* training evaluates at the end of each epoch */
    char *initial_weights;   /* URL, found as the data's is, or NULL */
    size_t n_initial_layers; /* 0: of all layers */
    struct qr_initial_layer *initial_layers;
};

struct qr_job {
    char *name;
    uint64_t seed;
    enum qr_precision precision;
    bool is_file;            /* it may name files, which stand beside it */
    size_t micro_batch_size; /* effective: the defaults of exact/contract.md §4 applied */
    size_t n_layers;
    struct qr_layer_options *layers; /* their circuits and observables are the job's */
    bool data_may_be_wider;      /* its circuit is a gate list that does not say how many columns */
    bool default_readouts;       /* the last quantum layer gave none */
    size_t n_watched;            /* observables that its layers watch */
    struct qr_data_options data; /* strings owned by the job */
    struct qr_train_spec train;
    uint64_t profile_first, profile_last; /* steps that the profiler records; 0: none */
    struct qr_sweep_spec *sweep;          /* NULL: none */
    size_t n_set;                 /* keys that were said beside the file: "train.epochs=60" */
    char **set;                   /* owned */
    const struct qr_json *worker; /* the "worker" object or NULL; borrowed from the job's tree */
    struct qr_json *tree;         /* the parsed file */
};

/* text: the file's bytes; what: its name for messages. It reads no other file: a Hamiltonian in one
 * is refused. */
QR_MUST_CHECK enum qr_code qr_job_parse(struct qr_bytes text, const char *what, struct qr_job **ret,
                                        struct qr_err *err);
/* The built-in copy of deploy/jobs/qcnn.json when url is NULL; else read from a path or URL, of a
 * folder its job.json (output/job_file.h), and from standard input when it is "-". set: the keys
 * that are said outside it, or NULL. */
QR_MUST_CHECK enum qr_code qr_job_load(const char *url, struct qr_overrides *set,
                                       struct qr_job **ret, struct qr_err *err);
void qr_job_free(struct qr_job *job);
/* The number of its n-th quantum layer; n_layers when there are not so many. */
size_t qr_job_quantum(const struct qr_job *job, size_t n);

/* Trial t of its sweep, whose keys are set in the job. What is wrong with them is said with the
 * trial's number in front. */
QR_MUST_CHECK enum qr_code qr_job_trial(const struct qr_job *job, size_t trial, struct qr_job **ret,
                                        struct qr_err *err);
/* Those keys; ret is empty. */
void qr_job_trial_set(const struct qr_job *job, size_t trial, struct qr_overrides *ret);
/* Reads every trial of its sweep. ret: the metric that compares them, borrowed from the job or
 * static, and which way. INVALID_ARGUMENT: what is wrong with a trial, or that it does not come to
 * that metric. has_validation: there are such samples. */
QR_MUST_CHECK enum qr_code qr_job_check_trials(const struct qr_job *job, bool has_validation,
                                               const char **ret, bool *ret_maximize,
                                               struct qr_err *err);

/* What is allowed and seldom meant, a sentence each for a warning. data: NULL where it could not be
 * loaded; then only what the job file says. */
struct qr_job_warnings {
    size_t n;
    char *sentence[16];
};
void qr_job_warnings(const struct qr_job *job, const struct qr_dataset *data,
                     struct qr_job_warnings *ret);
void qr_job_warnings_fini(struct qr_job_warnings *d);
/* The columns of the data that the model reads, by name where the file has names: "a, b" or
 * "columns 0, 3 of 6"; nothing for data that is made. */
void qr_job_put_inputs(const struct qr_job *job, const struct qr_dataset *data, struct qr_buf *ret);

/* Words that labels are, each with its number: "cat (0), dog (1)"; nothing where they are
 * numbers. */
void qr_job_put_classes(const struct qr_job *job, const struct qr_dataset *data,
                        struct qr_buf *ret);

/* Builds the model of a job. isa from the settings. n_columns: of the data, where no circuit reads
 * them. */
QR_MUST_CHECK enum qr_code qr_job_model(const struct qr_job *job, enum qr_isa isa, size_t n_columns,
                                        struct qr_model **ret, struct qr_err *err);
/* Where the data are, with what model and loss want of them. Borrows from the job. */
struct qr_data_options qr_job_data_options(const struct qr_job *job);
/* Loads the data as the model wants it (columns of x and y). What values labels may have is checked
 * by qr_model_check_labels; that an evaluation has fewer than 2^22 micro-batches
 * (exact/contract.md §3), here. */
QR_MUST_CHECK enum qr_code qr_job_data(const struct qr_job *job, struct qr_dataset *ret,
                                       struct qr_err *err);
/* Other samples than those that the job trains and validates with, read as its data is: the columns
 * that it picks, by name where it has names. Where job->data has inputs and classes (of the weights
 * that are tried), by those. */
struct qr_job_samples {
    const char *channel; /* of the job's channels; NULL: of a file */
    const char *url;     /* a path, a URL, or what messages call the samples */
    struct qr_buf *file; /* its bytes, taken; NULL: they are read from url */
    bool labels;         /* there are some, and weights of samples where the job has these */
};
/* INVALID_ARGUMENT for a job without inputs, or without that channel: known before anything is
 * read. */
QR_MUST_CHECK enum qr_code qr_job_check_samples(const struct qr_job *job,
                                                const struct qr_job_samples *of,
                                                struct qr_err *err);
/* The same errors, else as the data set's, naming the file. */
QR_MUST_CHECK enum qr_code qr_job_samples(const struct qr_job *job, const struct qr_job_samples *of,
                                          struct qr_dataset *ret, struct qr_err *err);

/* INVALID_ARGUMENT where an expression of train.log names an evaluation's value, or early stopping
 * goes by one, and there are no validation samples. */
QR_MUST_CHECK enum qr_code qr_job_check_validation(const struct qr_job *job, bool has_validation,
                                                   struct qr_err *err);
/* A metric more than the file has, before the model is built: a name, or an object as in the file
 * ({"name": "top_k_accuracy", "k": 3}). One that is there already stays one. */
QR_MUST_CHECK enum qr_code qr_job_add_metric(struct qr_job *job, const char *text,
                                             struct qr_err *err);
/* Outputs are answers of a classifier: with a cross-entropy and hinge, with other losses where a
 * metric goes by the sign (accuracy, confusion_matrix). What qr_metric_predicted_class takes. */
bool qr_job_has_classes(const struct qr_job *job);
struct qr_metric_options qr_job_metric_options(const struct qr_job *job);

#endif
