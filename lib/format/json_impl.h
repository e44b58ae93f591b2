/* format/json_impl.h — limits and the grammar check of the JSON reader; private to
 * format/json*.c. */
#ifndef QR_FORMAT_JSON_IMPL_H
#define QR_FORMAT_JSON_IMPL_H

#include "base/bytes.h"
#include "base/text.h"

enum {
    QR_JSON_MAX_DEPTH = 64,
    QR_JSON_MAX_TEXT = 64 << 20,
    QR_JSON_MAX_VALUES = 4 << 20,
    QR_JSON_MAX_NUMBER = 63
};

/* Checks the whole grammar before the text is passed to cJSON, which is lenient: UTF-8, depth,
 * duplicate keys, numbers, trailing text. INVALID_ARGUMENT with line and column. */
QR_MUST_CHECK enum qr_code qr_json_scan(struct qr_bytes text, const char *what, struct qr_err *err);

#endif
