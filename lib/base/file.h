/* base/file.h — reads, replaces and appends to local files safely.
 *
 * Errors    every message names the path, as the caller passed it. Codes follow from errno
 *           (base/err.h) unless stated.
 * Threads   any; an appender belongs to one thread at a time.
 *
 * Paths are plain paths; URLs are handled by store.
 */
#ifndef QR_BASE_FILE_H
#define QR_BASE_FILE_H

#include <stdbool.h>

#include "base/bytes.h"

/* Raises this process's limit of open files and connections to the hard limit.
 *
 * Errors:   UNAVAILABLE: the hard limit is below 64 (the message has both numbers)
 */
QR_MUST_CHECK enum qr_code qr_open_files_raise(struct qr_err *err);
/* Occupies closed standard streams, so that no file or connection gets their numbers and log lines
 * are written into it. Reading and writing them fails as before (EBADF). Before any other file is
 * opened. */
void qr_standard_streams_occupy(void);
/* Opens a regular file, and nothing else. Never blocks on a FIFO.
 *
 * Args:     flags   of open(2). With O_NOFOLLOW (for files that qring writes) symbolic links and
 *                   files with several hard links are rejected too. With O_TRUNC the file is
 *                   emptied after these checks.
 *           ret     the descriptor, close-on-exec; caller closes
 * Errors:   INVALID_ARGUMENT with the kind (a FIFO, a device, a socket, a directory)
 */
QR_MUST_CHECK enum qr_code qr_file_open(const char *path, int flags, int *ret, struct qr_err *err);
/* Returns why a program must not treat path as a file of its own: "a symbolic link", "a FIFO", "a
 * file with several names (hard links)" …. Static; NULL for a regular file or a missing one. */
const char *qr_file_irregular(const char *path);
/* Reads a whole regular file, also through a symbolic link.
 *
 * Args:     ret   replaced by the content; caller frees
 * Errors:   RESOURCE_EXHAUSTED with both sizes (the file is larger than max_bytes);
 *           INVALID_ARGUMENT (not a regular file); DATA_LOSS (EIO, which is RESOURCE_EXHAUSTED in
 *           all other functions)
 */
QR_MUST_CHECK enum qr_code qr_file_read(const char *path, size_t max_bytes, struct qr_buf *ret,
                                        struct qr_err *err);
/* Reads standard input to its end, as qr_file_read does. Blocks. */
QR_MUST_CHECK enum qr_code qr_input_read(size_t max_bytes, struct qr_buf *ret, struct qr_err *err);
/* Writes all bytes; returns 0 or errno. */
int qr_fd_write(int fd, struct qr_bytes b);
/* INVALID_ARGUMENT for a directory, a device, a FIFO or a socket, also behind a link: a rename
 * would put a file in its place. OK for a path without a file. */
QR_MUST_CHECK enum qr_code qr_file_check_replaceable(const char *path, struct qr_err *err);
/* Replaces a file atomically: writes a temporary file beside path, fsync, rename, fsync of the
 * directory. Creates missing parent directories. Several processes may replace one path
 * concurrently.
 *
 * Errors:   those of qr_file_check_replaceable; after an error path has its old content, unless
 *           only the fsync of the directory failed
 */
QR_MUST_CHECK enum qr_code qr_file_replace(const char *path, struct qr_bytes content,
                                           struct qr_err *err);
/* Syncs the content of a file to disk. Returns 0, also for a missing file, or errno. */
int qr_file_sync(const char *path);
/* Syncs the directory that contains path, so that a new name survives a power failure. Returns 0 or
 * errno. Allocates nothing. */
int qr_sync_parent(const char *path);
/* Creates a directory and its parents, as mkdir -p. */
QR_MUST_CHECK enum qr_code qr_dir_make(const char *path, struct qr_err *err);
/* Creates a directory and checks that a file can be created, written and deleted in it. */
QR_MUST_CHECK enum qr_code qr_dir_writable(const char *path, struct qr_err *err);
bool qr_file_exists(const char *path);
/* Whether both paths lead to one file that exists. */
bool qr_file_same(const char *a, const char *b);
/* Call before deleting files below a directory of qring. INVALID_ARGUMENT when the directory is a
 * symbolic link, since the files in its target may belong to another program. A missing directory
 * is OK. */
QR_MUST_CHECK enum qr_code qr_dir_check_no_link(const char *path, struct qr_err *err);
/* Returns a name beside path that no other process uses: "path.tmp-<pid>-<hex>"; heap. */
char *qr_file_temporary(const char *path);
/* "a" and "b.h5" → "a/b.h5"; heap. */
char *qr_path_join(const char *dir, const char *name);

/* A regular file that grows by whole records; links are rejected. */
struct qr_appender;
QR_MUST_CHECK enum qr_code qr_appender_open(const char *path, bool truncate,
                                            struct qr_appender **ret, struct qr_err *err);
/* Appends all bytes, or none. After an error whose message says "its last line may be incomplete"
 * the file may end with a part of the record. */
QR_MUST_CHECK enum qr_code qr_appender_write(struct qr_appender *a, struct qr_bytes bytes,
                                             struct qr_err *err);
void qr_appender_close(struct qr_appender *a); /* NULL is allowed */

#endif
