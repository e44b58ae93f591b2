/* job/workload.h — a job with its data, its model and its weights: what training and evaluation
 * both begin with.
 *
 * Ownership a workload owns everything in it. Const after qr_workload_load; any thread may read it.
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
    struct qr_weights_layout layout; /* of the model's weights; entries owned */
    /* n_params: the job's initial weights from a file, or drawn from its seed */
    double *initial;
    bool initial_from_file;
    uint8_t initial_digest[32]; /* of that file's bytes */
    unsigned n_threads;
    bool idle; /* no micro-batch is computed here */
};
/* isa: "auto" or a name. n_threads 0: as many as this process may use. Refuses what does not fit
 * the memory limit (RESOURCE_EXHAUSTED with both numbers). May read files for as long as the
 * stores take. */
QR_MUST_CHECK enum qr_code qr_workload_load(const struct qr_job *job, const char *isa,
                                            unsigned n_threads, struct qr_workload *ret,
                                            struct qr_err *err);
/* The same for a parameter server, which computes no micro-batches: no workspaces are counted. */
QR_MUST_CHECK enum qr_code qr_workload_load_idle(const struct qr_job *job, const char *isa,
                                                 unsigned n_threads, struct qr_workload *ret,
                                                 struct qr_err *err);
/* The same to predict or evaluate other samples: the job's own data is not read, and no initial
 * weights are made (initial is 0 until qr_workload_weights fills it). */
QR_MUST_CHECK enum qr_code qr_workload_load_samples(const struct qr_job *job,
                                                    const struct qr_job_samples *samples,
                                                    const char *isa, unsigned n_threads,
                                                    struct qr_workload *ret, struct qr_err *err);
void qr_workload_fini(struct qr_workload *w);

/* Peak resident bytes of a worker with this job, in a process of that kind (threads are the
 * workload's). qr_workload_load compares the largest kind with two workers with the limit. */
struct qr_memory_estimate qr_workload_memory(const struct qr_workload *w,
                                             const struct qr_memory_process *process);

/* What only training needs, before anything is written: INVALID_ARGUMENT for early stopping without
 * validation data. */
QR_MUST_CHECK enum qr_code qr_workload_check_training(const struct qr_workload *w,
                                                      struct qr_err *err);

/* What an evaluator needs: INVALID_ARGUMENT where no sample validates. */
QR_MUST_CHECK enum qr_code qr_workload_check_validation(const struct qr_workload *w,
                                                        struct qr_err *err);
/* Training evaluates at the end of each epoch: there are samples for it, and the job wants it. */
bool qr_workload_evaluates(const struct qr_workload *w);

/* Weights of this model from a URL, also of a checkpoint, or of the newest one where the URL
 * is a checkpoint folder's LATEST: ret_values[n_params]. */
QR_MUST_CHECK enum qr_code qr_workload_weights(const struct qr_workload *w, const char *url,
                                               double *ret_values, struct qr_err *err);

/* Digest of the bytes of the job's train.initial_weights, which it has: as a workload's
 * initial_digest. */
QR_MUST_CHECK enum qr_code qr_workload_initial_digest(const struct qr_job *job, uint8_t ret[32],
                                                      struct qr_err *err);

/* The same in two steps, for data that is read by the names that the weights hold: the file of such
 * a URL, then its values. All owned. */
struct qr_weights_file {
    char *url; /* as messages may have it */
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
