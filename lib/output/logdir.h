/* output/logdir.h — TensorBoard's event files in a bucket: a thread that carries what
 * record/tensorboard.h wrote here to gs://.
 *
 * What      Objects cannot be extended, so whole files go up: soon after the first record, then at
 *           most every interval_ns, and at the end. Each has one writer: the first upload creates
 *           the object and refuses to replace one, later ones replace by generation.
 * Waits     Training never waits for storage: qr_logdir_wrote notes a number. The files lie in a
 *           folder here (OUT/logs), which is the buffer: an outage of any length costs no
 *           memory. One file at a time is read for its upload: QR_LOGDIR_FILE_BYTES and what one
 *           flush adds.
 * Outages   are ridden out in the store, a minute at a time, and tried again with what the file
 *           holds by then. A refusal is tried again every five minutes. Both are said once, and
 *           when it works again.
 * End       qr_logdir_close uploads what is missing within its bound, or a second from SIGTERM on,
 *           and says what could not be. A killed process leaves the objects as last uploaded: whole
 *           records, readable.
 * Threads   its own, from the first record on; the functions belong to one other thread.
 */
#ifndef QR_OUTPUT_LOGDIR_H
#define QR_OUTPUT_LOGDIR_H

#include "base/clock.h"
#include "base/log.h"
#include "store/store.h"

/* a file that has grown to this is left for a new one: bounds what one upload repeats */
enum { QR_LOGDIR_FILE_BYTES = 4 << 20 };

struct qr_logdir;
struct qr_logdir_options {
    const char *url;          /* gs://bucket/path; copied */
    const char *folder;       /* where the files lie; copied */
    struct qr_store *store;   /* taken over; NULL: the URL's bucket */
    int64_t interval_ns;      /* 0: 10 s */
    bool (*stopping)(void);   /* has this process been asked to end? NULL: never */
    const struct qr_log *log; /* borrowed */
};
/* Asks the bucket whether files may be written there; writes nothing. */
QR_MUST_CHECK enum qr_code qr_logdir_check(const char *url, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_logdir_open(const struct qr_logdir_options *opt,
                                          struct qr_logdir **ret, struct qr_err *err);
/* As record/tensorboard.h's wrote: the file `name` in the folder has so many bytes now. */
void qr_logdir_wrote(void *logdir, const char *name, size_t bytes);
/* At most bound_ns. False: a request hangs, and its thread with it; the process must end by _exit.
 * NULL is fine. */
bool qr_logdir_close(struct qr_logdir *l, int64_t bound_ns);

#endif
