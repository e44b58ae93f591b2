/* Job files: any bytes give a job or an error that a terminal can show; also through the C API,
 * which reports all errors, one on each line. */
#include <string.h>

#include "api/qring.h"
#include "base/text.h"
#include "job/job.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool shows(const char *text) {
    char shown[QR_ERR_MSG_BYTES];
    return qr_printable(shown, sizeof shown, text) == strlen(text) && strcmp(shown, text) == 0;
}

static void read_by_c(const uint8_t *data, size_t n, bool fine) {
    struct qring_job *job = NULL;
    struct qring_error err;
    enum qring_code code = qring_job_new((const char *)data, n, NULL, &job, &err);
    QR_ASSERT((code == QRING_OK) == (job != NULL) && code == err.code && (!fine || job));
    QR_ASSERT((code == QRING_OK) == !err.message[0]);
    for (char *rest = err.message, *line; (line = strsep(&rest, "\n"));)
        QR_ASSERT((*line || job) && shows(line));
    qring_job_free(job);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_job *job = NULL;
    struct qr_err err = {0};
    enum qr_code code = qr_job_parse(qr_bytes_of(data, n), "input", &job, &err);
    QR_ASSERT(code == QR_OK || (err.msg[0] != 0 && shows(err.msg)));
    read_by_c(data, n, code == QR_OK);
    qr_job_free(job);
    return 0;
}
