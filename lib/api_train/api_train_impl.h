/* api_train/api_train_impl.h — handles of jobs and weights, private to this component. */
#ifndef QR_API_TRAIN_API_TRAIN_IMPL_H
#define QR_API_TRAIN_API_TRAIN_IMPL_H

#include <pthread.h>

#include "api/arguments.h"
#include "job/workload.h"

struct qr_group;

struct qring_job {
    atomic_flag busy; /* a call is running; guards `job` */
    struct qr_job *job;
    pthread_mutex_t lock;   /* guards the rest, for qring_job_cancel */
    struct qr_group *group; /* of the running training */
    bool cancelled;
};

struct qring_weights {
    size_t n; /* tensors */
    struct qr_weights_entry *entries;
    size_t n_values;
    double *values;             /* of all tensors, in their order */
    struct qr_data_names names; /* of inputs and classes, for the file */
};

/* Creates weights of a model, all 0. names: copied. */
struct qring_weights *qr_api_weights(const struct qr_model *m, const struct qr_data_names *names);
/* Copies the values into ret, if they are of this model. INVALID_ARGUMENT: a tensor has another
 * name or shape; OUT_OF_RANGE: a value is not finite, or 2^40 or more. */
QR_MUST_CHECK enum qr_code qr_api_weights_take(const struct qring_weights *w,
                                               const struct qr_model *m, double *ret,
                                               struct qr_err *err);
/* Appends a copy of an array [n][m] to the list. */
QR_MUST_CHECK enum qr_code qr_api_tensor(const struct qring_array *a, const char *name, size_t n,
                                         size_t m, struct qr_tensors *ret, struct qr_err *err);

#endif
