/* format/json_impl.h — private to the JSON reader and writer. */
#ifndef QR_FORMAT_JSON_IMPL_H
#define QR_FORMAT_JSON_IMPL_H

#include "base/bytes.h"
#include "base/printable.h"

enum {
    QR_JSON_MAX_DEPTH = 64,
    QR_JSON_MAX_TEXT = 64 << 20,
    QR_JSON_MAX_VALUES = 4 << 20,
    QR_JSON_MAX_NUMBER = 63
};

/* The whole grammar, before cJSON (which is lenient) sees the text: UTF-8, depth, duplicate keys,
 * numbers, what follows the value. INVALID_ARGUMENT with line and column. */
QR_MUST_CHECK enum qr_code qr_json_scan(struct qr_bytes text, const char *what, struct qr_err *err);

#endif
