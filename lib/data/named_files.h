/* data/named_files.h — finds and reads files that a job names by path or URL.
 *
 * Paths     A relative path is resolved against the working directory and, when no file is there,
 *           against `folder`, the folder of the job file (NULL: none); see data/dataset.h.
 * Threads   any.
 */
#ifndef QR_DATA_NAMED_FILES_H
#define QR_DATA_NAMED_FILES_H

#include "format/data_names.h"

/* Reads the file of a path or URL. NOT_FOUND: the message has both paths that were tried. */
QR_MUST_CHECK enum qr_code qr_named_file_read(const char *url, const char *folder, size_t max_bytes,
                                              struct qr_buf *ret, struct qr_err *err);

/* Returns the location of a file (heap): an absolute path, or a URL in the folder of a remote job
 * file (no request is sent). Returns the name itself when it is not a relative path or no file
 * exists. */
char *qr_named_file_find(const char *url, const char *folder);

/* A job file from a store or web server may name local files, such as a volume's /data; its author
 * must not learn their contents. True when messages and logs must not quote the file. */
bool qr_named_file_unquoted(const char *url, const char *folder);
/* Replaces an error that would quote such a file. shown: the file, or the key that names it. */
enum qr_code qr_named_file_unquote(const char *shown, struct qr_err *err);

/* Lists the files of a name, for qr_named_file_read: the name itself, or all files below a name
 * that ends with '/' (data/dataset.h).
 *
 * Args:     ret   empty before; free with qr_name_list_fini
 * Errors:   NOT_FOUND (no files), RESOURCE_EXHAUSTED (more than 65536 files)
 */
QR_MUST_CHECK enum qr_code qr_named_files(const char *url, const char *folder,
                                          struct qr_name_list *ret, struct qr_err *err);

/* As qr_named_file_read; a NOT_FOUND message begins with the job's key. */
QR_MUST_CHECK enum qr_code qr_dataset_read(const char *key, const char *url, const char *folder,
                                           size_t max_bytes, struct qr_buf *ret,
                                           struct qr_err *err);

#endif
