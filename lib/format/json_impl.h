/* format/json_impl.h — struct qr_json is a cJSON; private to format/json*.c. */
#ifndef QR_FORMAT_JSON_IMPL_H
#define QR_FORMAT_JSON_IMPL_H

#include <cjson/cJSON.h>

#include "format/json.h"

static inline const cJSON *json_to_cjson(const struct qr_json *v) {
    return (const cJSON *)(const void *)v;
}
static inline struct qr_json *json_from_cjson(cJSON *v) { return (struct qr_json *)(void *)v; }

#endif
