/* base/file.h — files, whole and safe.
 *
 * Every error names the path. Paths are plain paths (URLs are store's business).
 */
#ifndef QR_BASE_FILE_H
#define QR_BASE_FILE_H

#include <stdbool.h>

#include "base/bytes.h"

/* Opens an ordinary file and nothing else: FIFO, device, socket and directory are INVALID_ARGUMENT
 * naming the kind, and never waited for. flags as open(2)'s. With O_NOFOLLOW (files that this
 * program writes) also a symbolic link and a file with several names. O_TRUNC empties only what was
 * not refused. The descriptor is the caller's, and closes on exec. */
QR_MUST_CHECK enum qr_code qr_file_open(const char *path, int flags, int *ret, struct qr_err *err);
/* What stands at path that a program cannot call its own file: "a symbolic link", "a FIFO", "a file
 * with several names (hard links)" …; NULL: an ordinary file, or nothing. Static. */
const char *qr_file_irregular(const char *path);
/* The whole file into *ret (caller frees). DATA_LOSS-free: a file above max_bytes is
 * RESOURCE_EXHAUSTED naming both sizes. As qr_file_open: ordinary files only, also
 * through links. EIO is DATA_LOSS here, RESOURCE_EXHAUSTED everywhere else. */
QR_MUST_CHECK enum qr_code qr_file_read(const char *path, size_t max_bytes, struct qr_buf *ret,
                                        struct qr_err *err);
/* Standard input to its end, as qr_file_read; it is waited for. */
QR_MUST_CHECK enum qr_code qr_input_read(size_t max_bytes, struct qr_buf *ret, struct qr_err *err);
/* Replaces path at once or not at all: temporary file beside it, write, fsync, rename, fsync of the
 * directory (when only that fails, an error comes back and the new content is there). Creates
 * missing parent directories. Several processes may replace one path at a time. */
QR_MUST_CHECK enum qr_code qr_file_replace(const char *path, struct qr_bytes content,
                                           struct qr_err *err);
/* Makes what is in the file now survive a power cut; a file that is not there is fine. 0
 * or errno. */
int qr_file_sync(const char *path);
/* Makes a new name survive a power cut: fsync of the directory that holds path. 0 or errno. */
int qr_sync_parent(const char *path);
/* mkdir -p. */
QR_MUST_CHECK enum qr_code qr_dir_make(const char *path, struct qr_err *err);
/* Makes the directory and proves that a file can be written in it (create, write, unlink). */
QR_MUST_CHECK enum qr_code qr_dir_writable(const char *path, struct qr_err *err);
bool qr_file_exists(const char *path);
/* Before files below a folder of this program are removed. INVALID_ARGUMENT: the folder is a
 * symbolic link, so what is below it may be another program's. Nothing there is OK. */
QR_MUST_CHECK enum qr_code qr_dir_check_no_link(const char *path, struct qr_err *err);
/* A name beside path that no other process has: "path.tmp-<pid>-<hex>"; heap. */
char *qr_file_temporary(const char *path);
/* "a" and "b.h5" → "a/b.h5"; heap. */
char *qr_path_join(const char *dir, const char *name);

/* An ordinary file that grows by whole records; links are refused. */
struct qr_appender;
QR_MUST_CHECK enum qr_code qr_appender_open(const char *path, bool truncate,
                                            struct qr_appender **ret, struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_appender_write(struct qr_appender *a, struct qr_bytes bytes,
                                             struct qr_err *err); /* all or nothing */
void qr_appender_close(struct qr_appender *a);

#endif
