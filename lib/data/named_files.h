/* data/named_files.h — a file that a job names. */
#ifndef QR_DATA_NAMED_FILES_H
#define QR_DATA_NAMED_FILES_H

#include "base/bytes.h"

/* The file of a path or URL, looked for as dataset.h says. The error of none names both places. */
QR_MUST_CHECK enum qr_code qr_named_file_read(const char *url, const char *folder, size_t max_bytes,
                                              struct qr_buf *ret, struct qr_err *err);

/* Where it was found, as an absolute path, or as a URL beside a job file that has one (nothing is
 * asked of its store); the name itself where it is no relative path or no file is there. Heap. */
char *qr_named_file_find(const char *url, const char *folder);

/* A job file from a store or web server may name files of this machine, as a volume's /data; what
 * they hold is nothing that its author may learn. True where messages and logs must have nothing of
 * the file's content. */
bool qr_named_file_unquoted(const char *url, const char *folder);
/* Replaces the error about such a file's content. shown: the file, or the key that names it. */
enum qr_code qr_named_file_unquote(const char *shown, struct qr_err *err);

/* The files that a name stands for, to be read by qr_named_file_read: itself, or all below it where
 * it ends with '/', as dataset.h says. Heap, each of them too. NOT_FOUND: there are none. */
QR_MUST_CHECK enum qr_code qr_named_files(const char *url, const char *folder, char ***ret,
                                          size_t *ret_n, struct qr_err *err);

/* qr_named_file_read, and that error begins with the job's key. */
QR_MUST_CHECK enum qr_code qr_dataset_read(const char *key, const char *url, const char *folder,
                                           size_t max_bytes, struct qr_buf *ret,
                                           struct qr_err *err);

#endif
