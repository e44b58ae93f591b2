/* output/progress_to.h — who is told how far a run is: Kubeflow Trainer's TrainJob, another server,
 * or an object of Kubernetes.
 *
 * Target    "" or NULL: the TrainJob that Kubeflow Trainer names in the environment
 *           (KUBEFLOW_TRAINER_SERVER_URL, _CA_CERT, _TOKEN: KEP-2779), else nobody.
 *           http://, https://: POST of what that server would get, without a token. KIND/NAME, as
 *           kubectl has it (job/qcnn): annotations qring.dev/... of that object in the pod's
 *           namespace, by the pod's service account. none: nobody.
 * When      at most every five seconds, annotations ten; after failures up to a minute. At the end
 *           once more.
 * Failure   is the progress_reporter's: said once, counted, and training goes on.
 * Threads   a target belongs to one thread, its listener to the progress_reporter's.
 */
#ifndef QR_OUTPUT_PROGRESS_TO_H
#define QR_OUTPUT_PROGRESS_TO_H

#include "output/progress_reporter.h"

/* where Kubernetes puts it */
#define QR_PROGRESS_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

struct qr_progress_target { /* heap, or NULL */
    char *what;             /* for messages: "the TrainJob", "job/qcnn"; NULL: nobody is told */
    char *url, *token_file, *ca_file;
    bool annotations;
};
/* INVALID_ARGUMENT: no target. */
QR_MUST_CHECK enum qr_code qr_progress_check(const char *target, struct qr_err *err);
/* The target as logs and messages may have it: of a URL the scheme and host alone. Of any text.
 * Heap. */
char *qr_progress_shown(const char *target);
/* account: the folder with token, ca.crt and namespace. FAILED_PRECONDITION: the environment lacks
 * what that target wants; nobody can be told. ret is set in every case. */
QR_MUST_CHECK enum qr_code qr_progress_find(const char *target, const char *account,
                                            char *const *environment,
                                            struct qr_progress_target *ret, struct qr_err *err);
void qr_progress_target_fini(struct qr_progress_target *t);
/* t: borrowed until it is freed. web: as qr_poster_new. */
struct qr_web;
struct qr_progress_sink qr_progress_target_sink(const struct qr_progress_target *t,
                                                struct qr_web *(*web)(void));

#endif
