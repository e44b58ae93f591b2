/* A server's error message, {"message": ...}: a printable text within its buffer; and the target of
 * --progress-to: accepted, or rejected with an error that names the flag. */
#include <string.h>

#include "base/mem.h"
#include "output/progress_to.h"
#include "store/post.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    char reason[50], *text = NULL, *environment[] = {NULL};
    struct qr_progress_target t;
    struct qr_err err = {0};
    memset(reason, 'x', sizeof reason);
    qr_post_reason(qr_bytes_of(data, n), reason, sizeof reason);
    QR_ASSERT(strnlen(reason, sizeof reason) < sizeof reason);
    for (const char *c = reason; *c; c++) QR_ASSERT((unsigned char)*c >= ' ' && *c != 127);
    text = qr_xstrndup((const char *)data, n);
    enum qr_code code = qr_progress_check(text, &err);
    QR_ASSERT(code == QR_OK || strncmp(err.msg, "--progress-to: ", 15) == 0);
    enum qr_code found = qr_progress_find(text, "/nowhere", environment, &t, &err);
    QR_ASSERT((code == QR_OK) == (found == QR_OK || found == QR_FAILED_PRECONDITION));
    QR_ASSERT(!t.what == !t.url && (found == QR_OK || !t.what));
    QR_ASSERT(!t.what || (strncmp(t.url, "http", 4) == 0 && !t.token_file));
    qr_progress_target_fini(&t);
    free(text);
    return 0;
}
