/* The end of an evaluator's file of lines: the last line that is found is a whole line. */
#include <string.h>

#include "evaluator/curve.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    for (int first = 0; first < 2; first++) {
        char hash[QR_CURVE_HASH_CHARS + 1] = "";
        size_t whole = 0;
        uint64_t step = 0;
        struct qr_err err = {0};
        enum qr_code code = qr_curve_last(qr_bytes_of(data, n), first, &whole, &step, hash, &err);
        QR_ASSERT(code == QR_OK || (code == QR_INVALID_ARGUMENT && *err.msg));
        if (code != QR_OK) continue;
        QR_ASSERT(whole <= n && (whole == 0 || data[whole - 1] == '\n'));
        QR_ASSERT(whole == n || !memchr(data + whole, '\n', n - whole));
        QR_ASSERT((step > 0) == (whole > 0) && strlen(hash) == (step ? 16 : 0));
    }
    return 0;
}
