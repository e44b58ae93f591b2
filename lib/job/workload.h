/* job/workload.h — a job with its data, model and weights, for training and evaluation.
 *
 * Use       One of the qr_workload_load functions, then read the fields; qr_workload_fini at the
 *           end.
 * Ownership A workload owns everything in it, except the job.
 * Threads   Constant after loading; any thread may read it.
 */
#ifndef QR_JOB_WORKLOAD_H
#define QR_JOB_WORKLOAD_H

#include "data/dataset.h"
#include "job/job.h"
#include "job/memory.h"
#include "model/model.h"
#include "record/weights.h"

struct qr_workload {
    const struct qr_job *job; /* borrowed */
    struct qr_dataset data;
    struct qr_model *model;
    struct qr_weights_layout layout; /* tensors of the weights; entries owned */
    /* n_params values: initial weights of the job from a file, or drawn from its seed */
    double *initial;
    bool initial_from_file;
    uint8_t initial_digest[32]; /* SHA-256 of the bytes of that file */
    unsigned n_threads;
    bool idle; /* computes no micro-batches (parameter server) */
};
/* Loads the data and weights of a job and builds its model. May block as long as the stores take.
 *
 * Args:     job        borrowed until qr_workload_fini
 *           isa        "auto" or the name of the kernels
 *           n_threads  0: all CPUs of this process
 * Errors:   those of qr_job_data and qr_job_model; RESOURCE_EXHAUSTED (exceeds the memory limit:
 *           the message has both numbers), UNAVAILABLE (exceeds the memory that is free now)
 */
QR_MUST_CHECK enum qr_code qr_workload_load(const struct qr_job *job, const char *isa,
                                            unsigned n_threads, struct qr_workload *ret,
                                            struct qr_err *err);
/* As qr_workload_load, for a parameter server: it computes no micro-batches, so workspaces do not
 * count as memory. */
QR_MUST_CHECK enum qr_code qr_workload_load_idle(const struct qr_job *job, const char *isa,
                                                 unsigned n_threads, struct qr_workload *ret,
                                                 struct qr_err *err);
/* As qr_workload_load, to predict or evaluate other samples: the job's own data is not read, and
 * initial is 0 until qr_workload_weights fills it. */
QR_MUST_CHECK enum qr_code qr_workload_load_samples(const struct qr_job *job,
                                                    const struct qr_job_samples *samples,
                                                    const char *isa, unsigned n_threads,
                                                    struct qr_workload *ret, struct qr_err *err);
/* As qr_workload_load, to look at the model: data is read only if it determines the number of
 * columns, and initial is 0 until qr_workload_weights fills it. */
QR_MUST_CHECK enum qr_code qr_workload_load_model(const struct qr_job *job, const char *isa,
                                                  struct qr_workload *ret, struct qr_err *err);
void qr_workload_fini(struct qr_workload *w);

/* Estimates the peak resident bytes of a worker with this job. process->threads is ignored: it is
 * that of the workload. qr_workload_load compares the largest process with two workers with the
 * limit. */
struct qr_memory_estimate qr_workload_memory(const struct qr_workload *w,
                                             const struct qr_memory_process *process);

/* The bytes that qr_workload_load compares with the limit. */
uint64_t qr_workload_need(const struct qr_workload *w);

/* Checks that the job can be trained, before anything is written. INVALID_ARGUMENT: early stopping
 * or a logged value without validation data. */
QR_MUST_CHECK enum qr_code qr_workload_check_training(const struct qr_workload *w,
                                                      struct qr_err *err);

/* INVALID_ARGUMENT if there are no validation samples, which an evaluator needs. */
QR_MUST_CHECK enum qr_code qr_workload_check_validation(const struct qr_workload *w,
                                                        struct qr_err *err);
/* True if training evaluates at the end of each epoch: the job requests it and has samples. */
bool qr_workload_evaluates(const struct qr_workload *w);

/* Reads weights of this model from a URL, which may be a checkpoint, or the LATEST of a checkpoint
 * folder. ret_values[n_params]. */
QR_MUST_CHECK enum qr_code qr_workload_weights(const struct qr_workload *w, const char *url,
                                               double *ret_values, struct qr_err *err);

/* Computes the digest of the file of train.initial_weights, which the job must have; same as
 * initial_digest of a workload. */
QR_MUST_CHECK enum qr_code qr_workload_initial_digest(const struct qr_job *job, uint8_t ret[32],
                                                      struct qr_err *err);

/* A weights file: qr_weights_file_read, then qr_workload_decode, for data that is read by the names
 * in the weights. All owned; freed with qr_weights_file_fini. */
struct qr_weights_file {
    char *url; /* without secrets, for messages */
    enum qr_weights_format format;
    struct qr_buf bytes;
    struct qr_data_names names;
};
QR_MUST_CHECK enum qr_code qr_weights_file_read(const char *url, struct qr_weights_file *ret,
                                                struct qr_err *err);
void qr_weights_file_fini(struct qr_weights_file *w);
QR_MUST_CHECK enum qr_code qr_workload_decode(const struct qr_workload *w,
                                              const struct qr_weights_file *from,
                                              double *ret_values, struct qr_err *err);

#endif
