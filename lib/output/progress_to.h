/* output/progress_to.h — sends progress to Kubeflow Trainer's TrainJob, to another server, or to an
 * object of Kubernetes.
 *
 * Target    "" or NULL: the TrainJob that Kubeflow Trainer names in the environment
 *           (KUBEFLOW_TRAINER_SERVER_URL, _CA_CERT, _TOKEN: KEP-2779), if it does. http:// or
 *           https://: POST of the same content, without a token. KIND/NAME as for kubectl
 *           (job/qcnn): annotations qring.dev/... of that object in the namespace of the pod, with
 *           the pod's service account. none: no reports.
 * When      At most every 5 s, annotations every 10 s; after failures up to every 60 s. Once more
 *           at the end.
 * Failure   Handled by the reporter: logged once, counted, and training continues.
 * Threads   A target belongs to one thread, its sink to the reporter's thread.
 */
#ifndef QR_OUTPUT_PROGRESS_TO_H
#define QR_OUTPUT_PROGRESS_TO_H

#include "output/progress_reporter.h"

/* Where Kubernetes mounts the service account. */
#define QR_PROGRESS_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

struct qr_progress_target { /* strings on the heap, or NULL */
    char *what;             /* for messages: "the TrainJob", "job/qcnn"; NULL: no target */
    char *url, *token_file, *ca_file;
    bool annotations;
};
/* INVALID_ARGUMENT: not a valid target. */
QR_MUST_CHECK enum qr_code qr_progress_check(const char *target, struct qr_err *err);
/* Returns the target for logs and messages, on the heap: of a URL only scheme and host. Accepts any
 * text. */
char *qr_progress_shown(const char *target);
/* Finds the address and credentials of a target.
 *
 * Args:     account  folder with token, ca.crt and namespace
 *           ret      set in every case; caller frees with qr_progress_target_fini
 * Errors:   INVALID_ARGUMENT; FAILED_PRECONDITION (the environment lacks what the target needs)
 */
QR_MUST_CHECK enum qr_code qr_progress_find(const char *target, const char *account,
                                            char *const *environment,
                                            struct qr_progress_target *ret, struct qr_err *err);
void qr_progress_target_fini(struct qr_progress_target *t);
/* Creates the sink of a target. t: borrowed until the sink is freed. web: as in qr_poster_new. */
struct qr_web;
struct qr_progress_sink qr_progress_target_sink(const struct qr_progress_target *t,
                                                struct qr_web *(*web)(void));

#endif
