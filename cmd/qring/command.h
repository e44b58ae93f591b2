/* cmd/qring/command.h — shared by the commands of qring: their table, arguments, job and output.
 *
 * Use       A command reads its flags with qr_read_flags, loads with qr_load_workload or
 *           qr_evaluation_new, prints, and returns qr_exit_report.
 * Errors    INVALID_ARGUMENT for arguments, and those of the functions that load.
 * Threads   The main thread.
 */
#ifndef QR_CMD_COMMAND_H
#define QR_CMD_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "base/log.h"
#include "job/workload.h"

/* A command of qring. run: argv[0] is the name of the command; returns the exit code. */
struct qr_command {
    const char *name, *usage, *summary;
    const char *help; /* examples first, then flags; the source of completions and man pages */
    int (*run)(const struct qr_command *self, int argc, char **argv);
};

int qr_command_run(const struct qr_command *self, int argc, char **argv);
int qr_command_sweep(const struct qr_command *self, int argc, char **argv);
int qr_command_infer(const struct qr_command *self, int argc, char **argv);
int qr_command_predict(const struct qr_command *self, int argc, char **argv);
int qr_command_evaluate(const struct qr_command *self, int argc, char **argv);
int qr_command_gradient(const struct qr_command *self, int argc, char **argv);
int qr_command_sample(const struct qr_command *self, int argc, char **argv);
int qr_command_validate(const struct qr_command *self, int argc, char **argv);
int qr_command_verify(const struct qr_command *self, int argc, char **argv);
int qr_command_status(const struct qr_command *self, int argc, char **argv);
int qr_command_show(const struct qr_command *self, int argc, char **argv);
int qr_command_export(const struct qr_command *self, int argc, char **argv);
int qr_command_import(const struct qr_command *self, int argc, char **argv);
int qr_command_weights(const struct qr_command *self, int argc, char **argv);
int qr_command_certs(const struct qr_command *self, int argc, char **argv);
/* As the commands, with the table of all commands. */
int qr_completion(const struct qr_command *all, size_t n, const struct qr_command *self, int argc,
                  char **argv);
extern const char qr_help_run[], qr_help_sweep[], qr_help_infer[], qr_help_predict[],
    qr_help_evaluate[], qr_help_gradient[], qr_help_sample[], qr_help_validate[], qr_help_verify[],
    qr_help_status[], qr_help_show[], qr_help_export[], qr_help_import[], qr_help_weights[],
    qr_help_certs[], qr_help_completion[];

/* Lines that the help texts of evaluate, infer and predict share. */
#define QR_HELP_JOB_WEIGHTS                                                                        \
    "  JOB                    path or URL, - for standard input, or the folder of a run "          \
    "[QRING_JOB,\n"                                                                                \
    "                         else the built-in tutorial]\n"                                       \
    "  --weights URL          .h5 (also from Keras), .npz or .safetensors file [QRING_WEIGHTS, "   \
    "else\n"                                                                                       \
    "                         weights.safetensors in the run's folder]\n"
#define QR_HELP_SET_THREADS                                                                        \
    "  --set PATH=VALUE       set a key of the job, repeatable: --set train.epochs=5 --set "       \
    "'model[1].units=8'\n"                                                                         \
    "  --seed N               random seed, as --set seed=N; QRING_SET and QRING_SEED are read "    \
    "too\n"                                                                                        \
    "  --isa NAME             kernels [auto]: auto, portable, avx2, avx512 or neon; all give the " \
    "same bits\n"                                                                                  \
    "  --threads T            number of threads [the available CPUs]\n"

/* A flag in a help text: " --out DIR the folder ..." has name "--out", value "DIR" ("" for a
 * switch) and about "the folder ...". */
struct qr_help_flag {
    char name[40], value[40], about[120];
};
/* Reads the next flag of a help text; *at starts at the beginning of the text. False: no more. */
bool qr_help_flag(const char **at, struct qr_help_flag *ret);
/* qring help job [WORD]: prints the reference of the job file, or its entry for a word; --schema,
 * --tables, --man: its other forms. Returns the exit code. */
int qr_help_job(int n_words, char **words);
void qr_help_job_words(struct qr_buf *ret); /* the known words, separated by blanks */
void qr_job_key_paths(struct qr_buf *ret);  /* "seed=|train.epochs=|...", for --set */
/* True for flags of qringd, without dashes, that qring run rejects because it assigns each worker
 * its identity. */
bool qr_run_rejects(const char *name);
/* Returns the path of qringd, which is next to this program; heap. NOT_FOUND. */
QR_MUST_CHECK enum qr_code qr_find_worker(char **ret, struct qr_err *err);
/* Ends this process by SIGINT, so that a loop of a shell ends too. */
_Noreturn void qr_exit_by_sigint(void);

/* One flag of a command: with a value (text) or without (on). A name that occurs several times in a
 * table is repeatable: its values fill the texts in order, then replace the last. */
struct qr_flag {
    const char *name;
    const char **text;
    bool *on;
};
struct qr_words {
    const char *v[64];
    size_t n;
};
struct qr_flag_reader {
    const struct qr_flag *flags;
    size_t n_flags;
    struct qr_overrides *set; /* receives --set and --seed; NULL: no such flags of their own */
    /* Takes a flag of qringd, its name without dashes; NULL: the command has none of these. */
    enum qr_code (*setting)(void *context, const char *name, const char *value, struct qr_err *err);
    void *context;
    size_t max_words; /* number of words that the command takes */
};
/* Reads flags anywhere, "--a b" or "--a=b" (a letter also as "-n2"), and other words in order.
 * --help and -h set *ret_help and end the reading.
 *
 * Errors:   INVALID_ARGUMENT: unknown flag (with the nearest one), missing value, or extra word;
 *           those of setting
 */
QR_MUST_CHECK enum qr_code qr_read_arguments(int argc, char **argv, const struct qr_flag_reader *r,
                                             struct qr_words *ret_words, bool *ret_help,
                                             struct qr_err *err);
/* As qr_read_arguments, without flags of qringd. */
QR_MUST_CHECK enum qr_code qr_read_flags(int argc, char **argv, const struct qr_flag *flags,
                                         size_t n_flags, struct qr_overrides *set, size_t max_words,
                                         struct qr_words *ret_words, bool *ret_help,
                                         struct qr_err *err);
struct qr_settings;
/* Reads the settings of the environment, and warns of unknown ones. */
QR_MUST_CHECK enum qr_code qr_read_environment(struct qr_settings *s, struct qr_err *err);
/* Reads the value of -n; NULL: *ret stays. */
QR_MUST_CHECK enum qr_code qr_parse_workers(const char *text, unsigned *ret, struct qr_err *err);

/* Prints the help text of a command. Returns the exit code. */
int qr_print_help(const struct qr_command *self);

/* A job with everything that an evaluation needs. Freed with qr_loaded_fini. */
struct qr_loaded {
    struct qr_job *job;
    struct qr_workload load;
    struct qr_pool *pool;
};
/* Loads a job with its data and model. set: keys of the job, or NULL; isa, threads: values of the
 * flags, or NULL. */
QR_MUST_CHECK enum qr_code qr_load_workload(const char *job, struct qr_overrides *set,
                                            const char *isa, const char *threads,
                                            struct qr_loaded *ret, struct qr_err *err);
/* As qr_load_workload for an existing job, which is taken over. samples: used instead of the job's
 * own data; NULL: none. */
QR_MUST_CHECK enum qr_code qr_load_job(struct qr_job *job, const struct qr_job_samples *samples,
                                       const char *isa, const char *threads, struct qr_loaded *ret,
                                       struct qr_err *err);
void qr_loaded_fini(struct qr_loaded *l);
/* Checks that a command overwrites none of the files that it reads, by whatever path, nor those of
 * a run that it reads: with its logs, and all below its checkpoints.
 *
 * Args:     flag    its name, for the message
 *           url     where the command will write
 *           inputs  n paths and URLs, or folders of runs; NULL entries are skipped
 *           job     its data files too; NULL: none
 * Errors:   INVALID_ARGUMENT
 */
QR_MUST_CHECK enum qr_code qr_check_destination(const char *flag, const char *url,
                                                const char *const *inputs, size_t n,
                                                const struct qr_job *job, struct qr_err *err);

/* Flags of infer, evaluate and predict; NULL: not given. */
enum { QR_METRIC_FLAGS = QR_MAX_METRICS + 1 };
struct qr_evaluation_flags {
    const char *job, *weights, *bucket, *path; /* defaults: QRING_JOB, QRING_WEIGHTS */
    const char *data;                          /* a path, a URL, or - for standard input */
    /* name of a channel of the job; not together with data */
    const char *channel;
    const char *isa, *threads, *metrics[QR_METRIC_FLAGS];
    const char *wait;        /* time to wait for weights that do not exist yet; NULL: do not wait */
    struct qr_overrides set; /* keys of the job; QRING_SET and QRING_SEED come first */
};
/* Outputs of a model for samples: the validation samples, all samples of a job without these, or
 * those of data or a channel. */
struct qr_evaluation {
    struct qr_loaded l;
    char *weights;              /* URL of the weights without secrets */
    const char *set;            /* "validation", "all", "data" or "channel" */
    const char *channel;        /* name of the channel; NULL: none */
    char *data;                 /* path or URL of the samples; NULL: samples of the job itself */
    size_t *sample, n;          /* positions in the data */
    double *p, *means;          /* n x n_outputs; loss and metrics, NULL without labels */
    struct qr_data_names names; /* names of columns and classes, from the weights */
    size_t n_classes;           /* size of counts; 0: not counted */
    int64_t *counts;            /* confusion matrix, n_classes rows (labels) by n_classes columns */
};
/* Loads weights and samples and evaluates them. labels: samples of data have labels, and loss and
 * metrics are computed. */
QR_MUST_CHECK enum qr_code qr_evaluation_new(struct qr_evaluation_flags *f, bool labels,
                                             struct qr_evaluation *ret, struct qr_err *err);
void qr_evaluation_fini(struct qr_evaluation *e);
/* Fills counts, unless there are more classes than a matrix may have. */
void qr_evaluation_count(struct qr_evaluation *e);
/* Name of the i-th value: "loss", then the metrics. */
const char *qr_evaluation_value_name(const struct qr_evaluation *e, size_t i);
void qr_print_confusion(const struct qr_evaluation *e); /* nothing if not counted */
/* Writes a list of names as a key of an open object; nothing if the list is empty. */
void qr_put_name_list(struct qr_json_writer *w, const char *key, const struct qr_name_list *l);
/* Writes the keys "job" to "confusion_matrix" of an open object. */
void qr_put_evaluation(struct qr_json_writer *w, const struct qr_evaluation *e);
/* Append columns of a CSV file, each after a comma: "name", or "name_0" ...; values with 17 digits.
 * No header for n = 0. */
void qr_put_csv_header(struct qr_buf *b, const char *name, size_t n);
void qr_put_csv_values(struct qr_buf *b, const double *v, size_t n);
/* Reads positions in the training set, "0,3"; text NULL: all. ret: freed by the caller, also after
 * a failure, when it may be NULL. */
QR_MUST_CHECK enum qr_code qr_read_samples(const char *text, size_t n_train, size_t **ret,
                                           size_t *ret_n, struct qr_err *err);

/* Prints text that may contain names and paths from files: control characters except newlines are
 * escaped (base/text.h). */
void qr_print_escaped(FILE *out, const char *text);
/* The log of the commands, on standard error. */
const struct qr_log *qr_command_log(void);
void qr_command_quiet(void); /* only errors from now on */
/* Prints the error, and returns its exit code; 0 for QR_OK. */
int qr_exit_report(enum qr_code code, const struct qr_err *err);

/* Appends the model as a table: layer, output shape, parameters. */
void qr_model_table(const struct qr_model *m, const struct qr_job *job, struct qr_buf *ret);
/* Writes a gradient or weights as {"pqc/parameters": [...], "dense/kernel": [[...]]}; with k > 0
 * vectors of n_params, each has a leading axis. */
void qr_put_tensors(struct qr_json_writer *w, const struct qr_model *m, const double *values,
                    size_t k);

#endif
