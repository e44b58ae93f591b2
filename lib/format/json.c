/* format/json.c — the getters of parsed JSON. Start reading at qr_json_want(). */
#include "format/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "format/json_impl.h"

void qr_json_free(struct qr_json *root) { cJSON_Delete((cJSON *)(void *)root); }
void qr_json_free_p(struct qr_json **root) {
    qr_json_free(*root);
    *root = NULL;
}

enum qr_json_type qr_json_type(const struct qr_json *v) {
    const cJSON *c = json_to_cjson(v);
    return cJSON_IsBool(c)     ? QR_JSON_BOOL
           : cJSON_IsNumber(c) ? QR_JSON_NUMBER
           : cJSON_IsString(c) ? QR_JSON_STRING
           : cJSON_IsArray(c)  ? QR_JSON_ARRAY
           : cJSON_IsObject(c) ? QR_JSON_OBJECT
                               : QR_JSON_NULL;
}

static const char *const type_names[] = {"null",     "a boolean", "a number",
                                         "a string", "an array",  "an object"};
const char *qr_json_type_name(const struct qr_json *v) {
    return v ? type_names[qr_json_type(v)] : "nothing";
}

const struct qr_json *qr_json_get(const struct qr_json *object, const char *key) {
    cJSON *v = cJSON_GetObjectItemCaseSensitive(json_to_cjson(object), key);
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
struct json_text {
    char s[96];
};
static struct json_text json_describe(const struct qr_json *v) {
    struct json_text t;
    const cJSON *c = json_to_cjson(v);
    if (cJSON_IsNumber(c)) qr_number_text(c->valuedouble, t.s);
    else if (cJSON_IsString(c))
        snprintf(t.s, sizeof t.s, "the string \"%.60s%s\"", c->valuestring,
                 strlen(c->valuestring) > 60 ? "..." : "");
    else
        snprintf(t.s, sizeof t.s, "%s",
                 cJSON_IsTrue(c)    ? "true"
                 : cJSON_IsFalse(c) ? "false"
                                    : qr_json_type_name(v));
    return t;
}

/* Checks the type, which messages call `name`. */
static enum qr_code json_check_type(const struct qr_json *v, const char *where,
                                    enum qr_json_type type, const char *name, struct qr_err *err) {
    if (!v) return qr_fail(err, QR_INVALID_ARGUMENT, "%s is missing; it must be %s", where, name);
    if (qr_json_type(v) == type) return QR_OK;
    const char *one = cJSON_GetStringValue(json_to_cjson(v));
    struct json_text found = json_describe(v);
    if (type == QR_JSON_ARRAY && one && strlen(one) <= 40)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s, not %s; write [\"%s\"]", where,
                       name, found.s, one);
    if (type == QR_JSON_ARRAY && qr_json_type(v) == QR_JSON_NUMBER)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s, not %s; write [%s]", where, name,
                       found.s, found.s);
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s must be %s, not %s", where, name, found.s);
}

enum qr_code qr_json_want(const struct qr_json *v, const char *where, enum qr_json_type type,
                          struct qr_err *err) {
    return json_check_type(v, where, type, type_names[type], err);
}

enum qr_code qr_json_double(const struct qr_json *v, const char *where, double min, double max,
                            double *ret, struct qr_err *err) {
    QR_TRY(qr_json_want(v, where, QR_JSON_NUMBER, err));
    double x = json_to_cjson(v)->valuedouble;
    char is[32], low[32], high[32];
    if (x >= min && x <= max) {
        *ret = x;
        return QR_OK;
    }
    qr_number_text(x, is);
    qr_number_text(min, low);
    qr_number_text(max, high);
    if (max == 1 - 0x1p-53) /* the last number below 1 */
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be at least %s and below 1",
                       where, is, low);
    if (x < min && (!isfinite(max) || max >= 1e300))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be at least %s", where, is,
                       low);
    if (x > max && !isfinite(min))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be at most %s", where, is,
                       high);
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s; it must be between %s and %s", where, is,
                   low, high);
}

enum qr_code qr_json_i64(const struct qr_json *v, const char *where, int64_t min, int64_t max,
                         int64_t *ret, struct qr_err *err) {
    QR_TRY(json_check_type(v, where, QR_JSON_NUMBER, "an integer", err));
    double x = json_to_cjson(v)->valuedouble;
    if (fabs(x) > 0x1p53)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is %.17g; it must not exceed 2^53, since larger integers are not exact",
                       where, x);
    if (x != floor(x))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is %s; it must be an integer, without a fraction", where,
                       json_describe(v).s);
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
    QR_TRY(json_check_type(v, where, QR_JSON_BOOL, "true or false", err));
    *ret = cJSON_IsTrue(json_to_cjson(v));
    return QR_OK;
}

enum qr_code qr_json_string(const struct qr_json *v, const char *where, const char **ret,
                            struct qr_err *err) {
    QR_TRY(qr_json_want(v, where, QR_JSON_STRING, err));
    *ret = json_to_cjson(v)->valuestring;
    return QR_OK;
}

const char *qr_json_text(const struct qr_json *v, const char *otherwise) {
    const char *s = cJSON_GetStringValue(json_to_cjson(v));
    return s ? s : otherwise;
}

/* Appends "'a', 'b' or 'c'". */
static void json_list_names(const char *const *names, size_t n, struct qr_buf *ret) {
    for (size_t i = 0; i < n; i++)
        qr_buf_printf(ret, "%s'%s'", i == 0 ? "" : i + 1 == n ? " or " : ", ", names[i]);
}

static size_t json_find_name(const char *s, const char *const *names, size_t n) {
    size_t i = 0;
    while (i < n && strcmp(names[i], s) != 0) i++;
    return i;
}

enum qr_code qr_json_choice(const struct qr_json *v, const char *where, const char *const *names,
                            size_t n, size_t *ret, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf list = {0};
    json_list_names(names, n, &list);
    QR_TRY(json_check_type(v, where, QR_JSON_STRING, qr_buf_string(&list), err));
    const char *s = json_to_cjson(v)->valuestring, *near = qr_nearest(s, names, n);
    size_t i = json_find_name(s, names, n);
    if (i == n)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s is '%.60s'; it must be %s%s%s%s", where, s,
                       qr_buf_string(&list), near ? "; did you mean '" : "", near ? near : "",
                       near ? "'?" : "");
    *ret = i;
    return QR_OK;
}

enum qr_code qr_json_known(const struct qr_json *object, const char *where,
                           const char *const *known, size_t n, struct qr_err *err) {
    QR_TRY(qr_json_want(object, where, QR_JSON_OBJECT, err));
    for (const struct qr_json *m = qr_json_first(object); m; m = qr_json_next(m)) {
        const char *key = qr_json_key(m);
        if (json_find_name(key, known, n) < n) continue;
        const char *near = qr_nearest(key, known, n);
        if (near)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown key '%.60s'; did you mean '%s'?",
                           where, key, near);
        qr_auto(qr_buf_free) struct qr_buf list = {0};
        json_list_names(known, n, &list);
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: unknown key '%.60s'; known are %s", where,
                       key, n ? qr_buf_string(&list) : "none");
    }
    return QR_OK;
}
