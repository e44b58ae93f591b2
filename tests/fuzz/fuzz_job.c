/* Job files: any bytes end in a job or in an error with words, which a terminal can show. */
#include <string.h>

#include "base/text.h"
#include "job/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_job *job = NULL;
    struct qr_err err = {0};
    char shown[QR_ERR_MSG_BYTES];
    if (qr_job_parse(qr_bytes_of(data, n), "input", &job, &err) == QR_OK) {
        qr_job_free(job);
        return 0;
    }
    QR_ASSERT(err.msg[0] != 0 && qr_printable(shown, sizeof shown, err.msg) == strlen(err.msg) &&
              strcmp(shown, err.msg) == 0);
    return 0;
}
