/* cmd/qring/command.h — what the commands of qring share: their table, their arguments,
 * their job. */
#ifndef QR_CMD_COMMAND_H
#define QR_CMD_COMMAND_H

#include <stdbool.h>
#include <stdio.h>

#include "base/log.h"
#include "job/workload.h"

/* argv[0] is the command's own name. Returns the exit code. */
struct qr_command {
    const char *name, *usage, *summary;
    const char *help; /* examples first, then flags; completions and man pages are made from it */
    int (*run)(const struct qr_command *self, int argc, char **argv);
};
extern const struct qr_command qr_commands[];
extern const size_t qr_n_commands;

int qr_command_run(const struct qr_command *self, int argc, char **argv);
int qr_command_sweep(const struct qr_command *self, int argc, char **argv);
int qr_command_infer(const struct qr_command *self, int argc, char **argv);
int qr_command_predict(const struct qr_command *self, int argc, char **argv);
int qr_command_evaluate(const struct qr_command *self, int argc, char **argv);
int qr_command_gradient(const struct qr_command *self, int argc, char **argv);
int qr_command_validate(const struct qr_command *self, int argc, char **argv);
int qr_command_status(const struct qr_command *self, int argc, char **argv);
int qr_command_show(const struct qr_command *self, int argc, char **argv);
int qr_command_weights(const struct qr_command *self, int argc, char **argv);
int qr_command_certs(const struct qr_command *self, int argc, char **argv);
int qr_command_completion(const struct qr_command *self, int argc, char **argv);
extern const char qr_help_run[], qr_help_sweep[], qr_help_infer[], qr_help_predict[],
    qr_help_evaluate[], qr_help_gradient[], qr_help_validate[], qr_help_status[], qr_help_show[],
    qr_help_weights[], qr_help_certs[], qr_help_completion[];

/* A flag as a help text explains it: "  --out DIR   the folder …" has name "--out", value "DIR"
 * ("" for a switch) and about "the folder …". */
struct qr_help_flag {
    char name[40], value[40], about[120];
};
/* The next flag of a help text; *at is its beginning at first. False: there is no other. */
bool qr_help_flag(const char **at, struct qr_help_flag *ret);
/* qring help job [WORD]: the reference of the job file, or what it says of a word. The exit
 * code. */
int qr_help_job(int n_words, char **words);
void qr_help_job_words(struct qr_buf *ret); /* those that it knows, with blanks between */
/* Flags of qringd that qring run does not take, as it tells each worker who it is. No dashes. */
bool qr_run_rejects(const char *name);
/* qringd, beside this program; heap. */
QR_MUST_CHECK enum qr_code qr_find_worker(char **ret, struct qr_err *err);
/* Ends this process by SIGINT, so that a shell's loop ends too. */
_Noreturn void qr_exit_by_sigint(void);

/* One flag of a command: text takes a value, on does not. One that stands several times in a table
 * may be given as often; its values fill the texts that are NULL, in order, and then the last. */
struct qr_flag {
    const char *name;
    const char **text;
    bool *on;
};
struct qr_words {
    const char *v[64];
    size_t n;
};
/* Flags anywhere, "--a b" or "--a=b"; other words in order. INVALID_ARGUMENT names the flag, the
 * nearest one, or what is too much. "--help" and "-h" set *ret_help and end the reading.
 * set: what --set and --seed say of the job; NULL: the command has no such flags. */
QR_MUST_CHECK enum qr_code qr_read_flags(int argc, char **argv, const struct qr_flag *flags,
                                         size_t n_flags, struct qr_overrides *set, size_t max_words,
                                         struct qr_words *ret_words, bool *ret_help,
                                         struct qr_err *err);

/* What a command answers to --help; its exit code. */
int qr_print_help(const struct qr_command *self);

/* A job, with the keys that are set (or NULL), and all that evaluating it needs; --isa and
 * --threads as texts or NULL. */
struct qr_loaded {
    struct qr_job *job;
    struct qr_workload load;
    struct qr_pool *pool;
};
QR_MUST_CHECK enum qr_code qr_load_workload(const char *job, struct qr_overrides *set,
                                            const char *isa, const char *threads,
                                            struct qr_loaded *ret, struct qr_err *err);
/* The same of a job that is there, which is taken over; samples: instead of its own, or NULL. */
QR_MUST_CHECK enum qr_code qr_load_job(struct qr_job *job, const struct qr_job_samples *samples,
                                       const char *isa, const char *threads, struct qr_loaded *ret,
                                       struct qr_err *err);
void qr_loaded_fini(struct qr_loaded *l);

/* Weights and samples, as infer, evaluate and predict name them; NULL where a flag is not there. */
enum { QR_METRIC_FLAGS = QR_MAX_METRICS + 1 };
struct qr_evaluation_flags {
    const char *job, *weights, *bucket, *path; /* else QRING_JOB, QRING_WEIGHTS */
    const char *data;                          /* a path, a URL, or - for standard input */
    const char *channel;                       /* of the job's; not with data */
    const char *isa, *threads, *metrics[QR_METRIC_FLAGS];
    const char *wait;        /* how long for weights that are not there yet; NULL: not at all */
    struct qr_overrides set; /* keys of the job; QRING_SET and QRING_SEED come before them */
};
/* What a model says of samples: those that training holds out, all of the job's where it holds none
 * out, or those of data or a channel. */
struct qr_evaluation {
    struct qr_loaded l;
    char *weights;              /* where they were, as a message may have it */
    const char *set;            /* "validation", "all", "data" or "channel" */
    const char *channel;        /* its name; NULL: none */
    char *data;                 /* where the samples were; NULL: those that the job holds out */
    size_t *sample, n;          /* positions in the data */
    double *p, *means;          /* n x n_outputs; loss and metrics, NULL without labels */
    struct qr_data_names names; /* of the data, as the weights hold them */
    size_t n_classes;           /* of counts; 0: not counted */
    int64_t *counts;            /* the confusion matrix, label by label */
};
/* labels: the samples of data have some, and loss and metrics are wanted. */
QR_MUST_CHECK enum qr_code qr_evaluation_new(struct qr_evaluation_flags *f, bool labels,
                                             struct qr_evaluation *ret, struct qr_err *err);
void qr_evaluation_fini(struct qr_evaluation *e);
/* Fills counts; nothing with more classes than a matrix may have. */
void qr_evaluation_count(struct qr_evaluation *e);
/* "loss", and the metrics'. */
const char *qr_evaluation_value_name(const struct qr_evaluation *e, size_t i);
void qr_print_confusion(const struct qr_evaluation *e); /* nothing where it was not counted */
/* A list of names as a key of an open object; nothing where it is empty. */
void qr_put_name_list(struct qr_json_writer *w, const char *key, const struct qr_name_list *l);
/* The keys "job" to "confusion_matrix" of an open object. */
void qr_put_evaluation(struct qr_json_writer *w, const struct qr_evaluation *e);
/* Columns of a CSV file, a comma before each: "name", or "name_0" ...; 17 digits. No head for 0. */
void qr_put_csv_header(struct qr_buf *b, const char *name, size_t n);
void qr_put_csv_values(struct qr_buf *b, const double *v, size_t n);

/* Text for a terminal that may hold names and paths from files: control characters other than
 * newlines are escaped (base/printable.h). */
void qr_print_escaped(FILE *out, const char *text);
/* stderr, for people. */
const struct qr_log *qr_command_log(void);
void qr_command_quiet(void); /* errors alone, from now on */
/* Says the error and returns its exit code; 0 for QR_OK. */
int qr_exit_report(enum qr_code code, const struct qr_err *err);

/* The model as a table: layer, output shape, parameters. */
void qr_model_table(const struct qr_model *m, const struct qr_job *job, struct qr_buf *ret);
/* A gradient or weights as {"pqc/parameters": […], "dense/kernel": [[…]]}; k > 0 vectors of
 * n_params give each a leading axis. */
void qr_put_tensors(struct qr_json_writer *w, const struct qr_model *m, const double *values,
                    size_t k);

#endif
