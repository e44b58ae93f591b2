/* Job files: any bytes end in a job or in an error with words. */
#include "job/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_job *job = NULL;
    struct qr_err err = {0};
    if (qr_job_parse(qr_bytes_of(data, n), "input", &job, &err) == QR_OK) qr_job_free(job);
    else QR_ASSERT(err.msg[0] != 0);
    return 0;
}
