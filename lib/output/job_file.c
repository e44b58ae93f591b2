/* output/job_file.c — writes OUT/job.json and compares it with a job. Start reading at
 * qr_job_file_write(). */
#include "output/job_file.h"

#include "base/file.h"
#include "base/mem.h"
#include "job/record.h"

enum { MAX_BYTES = 64 << 20 };

enum qr_code qr_job_file_write(const char *dir, const struct qr_job *job, uint64_t epochs,
                               struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_auto(qr_free_p) char *path = qr_path_join(dir, "job.json");
    qr_job_record(job, epochs, &text);
    return qr_file_replace(path, qr_buf_view(&text), err);
}

bool qr_job_file_differs(const char *dir, const struct qr_job *job, uint64_t epochs,
                         struct qr_buf *ret) {
    struct qr_buf was = {0}, is = {0};
    struct qr_json *there = NULL, *here = NULL;
    qr_auto(qr_free_p) char *path = qr_path_join(dir, "job.json"),
                            *where = qr_xasprintf("the run in %.120s", dir);
    bool known = qr_file_read(path, MAX_BYTES, &was, QR_IGNORED) == QR_OK &&
                 qr_json_parse(qr_buf_view(&was), path, &there, QR_IGNORED) == QR_OK;
    if (known) {
        qr_job_record(job, epochs, &is);
        known = qr_json_parse(qr_buf_view(&is), path, &here, QR_IGNORED) == QR_OK;
    }
    if (known) qr_job_differences(there, here, where, ret);
    qr_json_free(there);
    qr_json_free(here);
    qr_buf_free(&was);
    qr_buf_free(&is);
    return known;
}
