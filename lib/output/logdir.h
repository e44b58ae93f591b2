/* output/logdir.h — uploads TensorBoard event files to a bucket: a thread that copies files written
 * by record/tensorboard.h to gs://.
 *
 * Use       qr_logdir_check before training; qr_logdir_open; qr_logdir_wrote for each record;
 *           qr_logdir_close at the end.
 * Uploads   Objects cannot be appended to, so whole files are uploaded: soon after the first
 *           record, then at most every interval_ns, and at the end. Each object has one writer: the
 *           first upload creates it and never replaces an existing one; later ones replace it by
 *           generation.
 * Buffer    Training never waits for storage: qr_logdir_wrote stores a number. The local files
 *           (OUT/logs) are the buffer, so an outage of any length costs no memory. One file at a
 *           time is read for its upload: QR_LOGDIR_FILE_BYTES plus one flush.
 * Outages   The store retries for a minute; then the upload is retried with the newer content. A
 *           rejected upload is retried every five minutes. Each outage is logged once, and its end.
 * End       qr_logdir_close uploads what is missing within its bound, or within a second of
 *           SIGTERM, and logs what was not uploaded. After a kill the objects are as last uploaded:
 *           whole, readable records.
 * Threads   An own thread from the first record on; the functions are for one other thread.
 */
#ifndef QR_OUTPUT_LOGDIR_H
#define QR_OUTPUT_LOGDIR_H

#include "base/clock.h"
#include "base/log.h"
#include "store/store.h"

/* A file of this size is closed and a new one started: bounds what one upload repeats. */
enum { QR_LOGDIR_FILE_BYTES = 4 << 20 };

struct qr_logdir;
struct qr_logdir_options {
    const char *url;          /* gs://bucket/path; copied */
    const char *folder;       /* local folder of the event files; copied */
    struct qr_store *store;   /* taken over; NULL: that of the URL's bucket */
    int64_t interval_ns;      /* time between uploads; 0: 10 s */
    bool (*stopping)(void);   /* has this process been asked to stop? NULL: never */
    const struct qr_log *log; /* borrowed */
};
/* Checks that the bucket allows writing there; writes nothing. Errors: those of the store. */
QR_MUST_CHECK enum qr_code qr_logdir_check(const char *url, struct qr_err *err);
/* Prepares the uploads; the thread starts with the first record. Errors: those of the store. */
QR_MUST_CHECK enum qr_code qr_logdir_open(const struct qr_logdir_options *opt,
                                          struct qr_logdir **ret, struct qr_err *err);
/* The `wrote` callback of record/tensorboard.h: the file `name` now has this many bytes. */
void qr_logdir_wrote(void *logdir, const char *name, size_t bytes);
/* Ends the uploads, within bound_ns. False: a request hangs with its thread, and the process must
 * exit with _exit. NULL is allowed. */
bool qr_logdir_close(struct qr_logdir *l, int64_t bound_ns);

#endif
