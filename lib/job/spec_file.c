/* job/spec_file.c — reads a file that a key of a job names, in place of the value itself. */
#include "data/named_files.h"
#include "job/job_impl.h"

enum qr_code qr_job_read_file(const struct qr_job *job, const char *where, const char *url,
                              size_t max_bytes, const char *content, struct qr_buf *ret,
                              struct qr_err *err) {
    if (!*url) return qr_fail(err, QR_INVALID_ARGUMENT, "%s is empty; give a path or URL", where);
    if (!job->is_file)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: files are read only for a job that is itself a file; give the %s here",
                       where, content);
    enum qr_code code = qr_dataset_read(where, url, job->data.folder, max_bytes, ret, err);
    return code == QR_OK || code == QR_NOT_FOUND ? code : qr_wrap(err, "%s", where);
}
