/* worker/stop.h — SIGTERM and SIGINT: one request to stop, heard everywhere.
 *
 * What      The signals are blocked in every thread and taken by one thread that waits for them. The first one asks: the flag is set and
 *           the group, if there is one, is interrupted, so that every wait returns CANCELLED. The process then has QR_STOP_BOUND_NS, or
 *           QR_STOP_HURRY_NS while nothing but a computation would be lost; a second signal, or the end of that time, ends it at once with
 *           the drain's exit code and its last words.
 * Threads   any. There is one per process.
 */
#ifndef QR_WORKER_STOP_H
#define QR_WORKER_STOP_H

#include <stdbool.h>

#include "group/group.h"
#include "worker/publisher.h"

#define QR_STOP_BOUND_NS INT64_C(10000000000)
#define QR_STOP_HURRY_NS INT64_C(700000000)
#define QR_STOP_PUBLISH_NS INT64_C(5000000000) /* for the last checkpoint */

/* First thing in main, before any other thread. */
void qr_stop_start(void);
void qr_stop_exit_code(int code);          /* 143 until told otherwise */
bool qr_stop_requested(void);
/* Until there are weights to write. Before training a bucket may hang; while steps are computed a block may take minutes, and the others have
 * heard our goodbye already. */
void qr_stop_hurry(bool on);
/* The group to interrupt, at once when the request has been made already; NULL before it is closed. */
void qr_stop_watch(struct qr_group *group);
/* Who publishes a newer stable state when the request comes, also while a block is computed; NULL before it is freed. */
void qr_stop_publish(struct qr_publisher *publisher);

#endif
