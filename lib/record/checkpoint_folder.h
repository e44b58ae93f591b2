/* record/checkpoint_folder.h — opens the directory of a run's checkpoints by its URL:
 * gs://bucket/name, file:///dir/name or a plain path.
 *
 * Threads   a folder is used by one thread at a time.
 */
#ifndef QR_RECORD_CHECKPOINT_FOLDER_H
#define QR_RECORD_CHECKPOINT_FOLDER_H

#include "record/checkpoint.h"

struct qr_checkpoint_folder {
    char *url, *dir;
    struct qr_checkpoint_location at; /* borrows url and dir */
};
/* INVALID_ARGUMENT: a bucket without a name below it, or an unsupported URL. */
QR_MUST_CHECK enum qr_code qr_checkpoint_folder_open(const char *url,
                                                     struct qr_checkpoint_folder *ret,
                                                     struct qr_err *err);
void qr_checkpoint_folder_close(struct qr_checkpoint_folder *p);

#endif
