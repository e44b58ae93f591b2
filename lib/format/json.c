/* format/json.c — parses JSON by cJSON after a strict check (json_scan.c), and the getters. Start
 * reading at qr_json_parse(). */
#include "format/json.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "format/json_impl.h"

static const cJSON *json_to_cjson(const struct qr_json *v) {
    return (const cJSON *)(const void *)v;
}
static const struct qr_json *json_from_cjson(const cJSON *v) {
    return (const struct qr_json *)(const void *)v;
}

enum qr_code qr_json_parse(struct qr_bytes text, const char *what, struct qr_json **ret,
                           struct qr_err *err) {
    if (text.n > QR_JSON_MAX_TEXT)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: %zu bytes of JSON, above the limit of %d",
                       what, text.n, QR_JSON_MAX_TEXT);
    /* Byte-order mark */
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        text = qr_bytes_of(text.p + 3, text.n - 3);
    enum qr_code code = qr_json_scan(text, what, err);
    if (code != QR_OK) return code;
    /* cJSON 1.7 may read one byte past the given length, so parse a copy that ends with NUL. */
    char *copy = qr_xmalloc(text.n + 1);
    memcpy(copy, text.p, text.n);
    copy[text.n] = 0;
    cJSON *root = cJSON_ParseWithLengthOpts(copy, text.n + 1, NULL, 0);
    free(copy);
    if (!root)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%s: out of memory for the tree of %zu bytes of JSON", what, text.n);
    *ret = (struct qr_json *)(void *)root;
    return QR_OK;
}

void qr_json_free(struct qr_json *root) { cJSON_Delete((cJSON *)(void *)root); }
void qr_json_free_p(struct qr_json **root) {
    qr_json_free(*root);
    *root = NULL;
}

enum qr_json_type qr_json_type(const struct qr_json *v) {
    switch (json_to_cjson(v)->type & 0xff) {
    case cJSON_False:
    case cJSON_True: return QR_JSON_BOOL;
    case cJSON_Number: return QR_JSON_NUMBER;
    case cJSON_String: return QR_JSON_STRING;
    case cJSON_Array: return QR_JSON_ARRAY;
    case cJSON_Object: return QR_JSON_OBJECT;
    default: return QR_JSON_NULL;
    }
}

static const char *const type_names[] = {"null",     "a boolean", "a number",
                                         "a string", "an array",  "an object"};
const char *qr_json_type_name(const struct qr_json *v) {
    return v ? type_names[qr_json_type(v)] : "nothing";
}

const struct qr_json *qr_json_get(const struct qr_json *object, const char *key) {
    if (!object || qr_json_type(object) != QR_JSON_OBJECT) return NULL;
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(json_to_cjson(object), key);
    return cJSON_IsNull(v) ? NULL : json_from_cjson(v);
}

size_t qr_json_size(const struct qr_json *v) {
    size_t n = 0;
    for (const struct qr_json *i = qr_json_first(v); i; i = qr_json_next(i)) n++;
    return n;
}
const struct qr_json *qr_json_at(const struct qr_json *v, size_t i) {
    const struct qr_json *at = qr_json_first(v);
    while (at && i--) at = qr_json_next(at);
    return at;
}
const struct qr_json *qr_json_first(const struct qr_json *v) {
    return v && qr_json_type(v) >= QR_JSON_ARRAY ? json_from_cjson(json_to_cjson(v)->child) : NULL;
}
const struct qr_json *qr_json_next(const struct qr_json *v) {
    return json_from_cjson(json_to_cjson(v)->next);
}
const char *qr_json_key(const struct qr_json *member) { return json_to_cjson(member)->string; }

/* Describes the value for messages: the value itself if it is short, else its type. */
static const char *json_describe(const struct qr_json *v, char ret[96]) {
    switch (qr_json_type(v)) {
    case QR_JSON_NUMBER: qr_number_text(json_to_cjson(v)->valuedouble, ret); break;
    case QR_JSON_STRING:
        snprintf(ret, 96,
                 strlen(json_to_cjson(v)->valuestring) > 60 ? "the string \"%.60s...\""
                                                            : "the string \"%.60s\"",
                 json_to_cjson(v)->valuestring);
        break;
    case QR_JSON_BOOL:
        snprintf(ret, 96, "%s", cJSON_IsTrue(json_to_cjson(v)) ? "true" : "false");
        break;
    default: snprintf(ret, 96, "%s", qr_json_type_name(v));
    }
    return ret;
}

enum qr_code qr_json_want(const struct qr_json *v, const char *where, enum qr_json_type type,
                          struct qr_err *err) {
    char text[96];
    if (!v)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing; it must be %s", where,
                       type_names[type]);
    if (qr_json_type(v) == type) return QR_OK;
    const char *one = qr_json_type(v) == QR_JSON_STRING ? json_to_cjson(v)->valuestring : NULL;
    if (type == QR_JSON_ARRAY && one && strlen(one) <= 40)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s, not %s; write [\"%s\"]", where,
                       type_names[type], json_describe(v, text), one);
    if (type == QR_JSON_ARRAY && qr_json_type(v) == QR_JSON_NUMBER)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s, not %s; write [%s]", where,
                       type_names[type], json_describe(v, text), json_describe(v, text));
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s, not %s", where, type_names[type],
                   json_describe(v, text));
}

enum qr_code qr_json_double(const struct qr_json *v, const char *where, double min, double max,
                            double *ret, struct qr_err *err) {
    enum qr_code code = qr_json_want(v, where, QR_JSON_NUMBER, err);
    if (code != QR_OK) return code;
    double x = json_to_cjson(v)->valuedouble;
    char is[32], low[32], high[32];
    qr_number_text(x, is);
    qr_number_text(min, low);
    qr_number_text(max, high);
    if (max == 1 - 0x1p-53 && /* the last number below 1 */ !(x >= min && x <= max))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be at least %s and below 1",
                       where, is, low);
    if (x < min && (!isfinite(max) || max >= 1e300))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be at least %s", where, is,
                       low);
    if (x > max && !isfinite(min))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be at most %s", where, is,
                       high);
    if (!(x >= min && x <= max))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be between %s and %s", where,
                       is, low, high);
    *ret = x;
    return QR_OK;
}

enum qr_code qr_json_i64(const struct qr_json *v, const char *where, int64_t min, int64_t max,
                         int64_t *ret, struct qr_err *err) {
    char text[96];
    if (!v) return qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing; it must be an integer", where);
    if (qr_json_type(v) != QR_JSON_NUMBER)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be an integer, not %s", where,
                       json_describe(v, text));
    double x = json_to_cjson(v)->valuedouble;
    if (fabs(x) > 0x1p53)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is %.17g; it must not exceed 2^53, since larger integers are not exact",
                       where, x);
    if (x != floor(x))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is %s; it must be an integer, without a fraction", where,
                       json_describe(v, text));
    int64_t i = (int64_t)x;
    if (i < min && max >= (int64_t)1 << 53)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %lld; it must be at least %lld", where,
                       (long long)i, (long long)min);
    if (i < min || i > max)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %lld; it must be between %lld and %lld",
                       where, (long long)i, (long long)min, (long long)max);
    *ret = i;
    return QR_OK;
}

enum qr_code qr_json_bool(const struct qr_json *v, const char *where, bool *ret,
                          struct qr_err *err) {
    char text[96];
    if (!v)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing; it must be true or false", where);
    if (qr_json_type(v) != QR_JSON_BOOL)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be true or false, not %s", where,
                       json_describe(v, text));
    *ret = cJSON_IsTrue(json_to_cjson(v));
    return QR_OK;
}

enum qr_code qr_json_string(const struct qr_json *v, const char *where, const char **ret,
                            struct qr_err *err) {
    enum qr_code code = qr_json_want(v, where, QR_JSON_STRING, err);
    if (code == QR_OK) *ret = json_to_cjson(v)->valuestring;
    return code;
}

/* Appends "'a', 'b' or 'c'". */
static void json_list_names(const char *const *names, size_t n, struct qr_buf *ret) {
    for (size_t i = 0; i < n; i++)
        qr_buf_printf(ret, "%s'%s'", i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
}

enum qr_code qr_json_choice(const struct qr_json *v, const char *where, const char *const *names,
                            size_t n, size_t *ret, struct qr_err *err) {
    struct qr_buf list = {0};
    json_list_names(names, n, &list);
    enum qr_code code;
    char text[96];
    if (!v) {
        code = qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing; it must be %s", where,
                       qr_buf_string(&list));
    } else if (qr_json_type(v) != QR_JSON_STRING) {
        code = qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s, not %s", where,
                       qr_buf_string(&list), json_describe(v, text));
    } else {
        const char *s = json_to_cjson(v)->valuestring;
        size_t i = 0;
        while (i < n && strcmp(names[i], s) != 0) i++;
        if (i < n) {
            *ret = i;
            code = QR_OK;
        } else {
            const char *near = qr_nearest(s, names, n);
            code = qr_fail(err, QR_INVALID_ARGUMENT, "%s is '%.60s'; it must be %s%s%s%s", where, s,
                           qr_buf_string(&list), near ? "; did you mean '" : "", near ? near : "",
                           near ? "'?" : "");
        }
    }
    qr_buf_free(&list);
    return code;
}

enum qr_code qr_json_known(const struct qr_json *object, const char *where,
                           const char *const *known, size_t n, struct qr_err *err) {
    enum qr_code code = qr_json_want(object, where, QR_JSON_OBJECT, err);
    if (code != QR_OK) return code;
    for (const struct qr_json *m = qr_json_first(object); m; m = qr_json_next(m)) {
        const char *key = qr_json_key(m);
        size_t i = 0;
        while (i < n && strcmp(known[i], key) != 0) i++;
        if (i < n) continue;
        const char *near = qr_nearest(key, known, n);
        if (near)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown key '%.60s'; did you mean '%s'?",
                           where, key, near);
        struct qr_buf list = {0};
        json_list_names(known, n, &list);
        code = qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown key '%.60s'; known are %s", where,
                       key, n ? qr_buf_string(&list) : "none");
        qr_buf_free(&list);
        return code;
    }
    return QR_OK;
}
