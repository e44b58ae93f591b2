/* format/json_edit.c — sets a value at a path in a JSON tree (--set). Start reading at
 * qr_json_set(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "format/json_impl.h"

/* One step of a path: a key of an object, or the text in brackets after an array. */
struct json_path_step {
    const char *text;
    size_t n;
    bool in_array;
};

/* Parses the step at path[*at], which is not the end; false when the step is malformed. */
static bool json_path_next_step(const char *path, size_t *at, struct json_path_step *ret) {
    const char *p = path + *at;
    if (*p == '[' && *at) {
        size_t n = strcspn(p + 1, "[]");
        *ret = (struct json_path_step){p + 1, n, true};
        *at += n + 2;
        return n && p[n + 1] == ']' && (!p[n + 2] || strchr(".[", p[n + 2]));
    }
    if (*at && *p++ != '.') return false;
    size_t n = strcspn(p, ".[]");
    *ret = (struct json_path_step){p, n, false};
    *at = (size_t)(p - path) + n;
    return n && p[n] != ']';
}

static bool json_path_is_valid(const char *path) {
    size_t at = 0, n = 0;
    struct json_path_step s;
    do
        if (++n > QR_JSON_MAX_STEPS || !json_path_next_step(path, &at, &s)) return false;
    while (path[at]);
    return true;
}

/* NULL when the element has no name. */
static const char *json_element_name(const cJSON *element) {
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(element, "name"));
}

/* Reports that no element matches the step. path: the resolved path before this step. */
static enum qr_code json_path_fail_element(const cJSON *array, const struct json_path_step *s,
                                           const char *path, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    int n = cJSON_GetArraySize(array);
    for (const cJSON *e = array->child; e; e = e->next) {
        const char *name = json_element_name(e);
        if (name) qr_buf_printf(&names, "%s%.40s", names.n ? ", " : "", name);
    }
    if (strspn(s->text, "0123456789") < s->n)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: no element has the \"name\" '%.*s'%s%.300s",
                       path, (int)(s->n < 60 ? s->n : 60), s->text,
                       names.n ? "; there are: " : "; a number counts them from 0",
                       qr_buf_string(&names));
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s has %d element%s, counted from 0, and no [%.*s]; to add an element, give "
                   "the whole array: %s=[...]",
                   path, n, n == 1 ? "" : "s", (int)(s->n < 20 ? s->n : 20), s->text, path);
}

/* Finds the element that a step selects, and appends its number to the path. */
static enum qr_code json_path_find_element(const cJSON *array, const struct json_path_step *s,
                                           struct qr_buf *path, int *ret, struct qr_err *err) {
    uint64_t i;
    int at = 0, n = cJSON_GetArraySize(array);
    qr_auto(qr_free_p) char *text = qr_xstrndup(s->text, s->n);
    if (strspn(text, "0123456789") == s->n)
        at = qr_parse_u64(text, &i) && i < (uint64_t)n ? (int)i : n;
    else
        for (const cJSON *e = array->child; e; e = e->next, at++) {
            const char *name = json_element_name(e);
            if (name && strcmp(name, text) == 0) break;
        }
    if (at >= n) return json_path_fail_element(array, s, qr_buf_string(path), err);
    qr_buf_printf(path, "[%d]", at);
    *ret = at;
    return QR_OK;
}

/* Moves *v to the value that a step selects. Creates a missing key as an empty object. */
static enum qr_code json_path_descend(cJSON **v, const struct json_path_step *s,
                                      struct qr_buf *path, struct qr_err *err) {
    int i = 0;
    if (s->in_array) {
        QR_TRY(json_path_find_element(*v, s, path, &i, err));
        *v = cJSON_GetArrayItem(*v, i);
        return QR_OK;
    }
    qr_auto(qr_free_p) char *key = qr_xstrndup(s->text, s->n);
    cJSON *member = cJSON_GetObjectItemCaseSensitive(*v, key);
    if (cJSON_IsNull(member)) {
        cJSON_DeleteItemFromObjectCaseSensitive(*v, key);
        member = NULL;
    }
    if (!member) member = cJSON_AddObjectToObject(*v, key);
    if (!member) return qr_fail(err, QR_RESOURCE_EXHAUSTED, "out of memory for the key %s", key);
    qr_buf_printf(path, "%s%s", path->n ? "." : "", key);
    *v = member;
    return QR_OK;
}

/* Deletes an existing key when the value is null; true when it did. */
static bool json_delete_if_null(cJSON *parent, const char *key, cJSON *value) {
    if (!cJSON_IsNull(value) || !cJSON_GetObjectItemCaseSensitive(parent, key)) return false;
    cJSON_DeleteItemFromObjectCaseSensitive(parent, key);
    cJSON_Delete(value);
    return true;
}

static enum qr_code json_path_set_value(cJSON *parent, const struct json_path_step *s, cJSON *value,
                                        struct qr_buf *path, struct qr_err *err) {
    int i = 0;
    bool done;
    if (s->in_array) {
        if (json_path_find_element(parent, s, path, &i, err) != QR_OK) {
            cJSON_Delete(value);
            return err->code;
        }
        done = cJSON_ReplaceItemInArray(parent, i, value);
    } else {
        qr_auto(qr_free_p) char *key = qr_xstrndup(s->text, s->n);
        qr_buf_printf(path, "%s%s", path->n ? "." : "", key);
        if (json_delete_if_null(parent, key, value)) return QR_OK;
        done = cJSON_GetObjectItemCaseSensitive(parent, key)
                   ? cJSON_ReplaceItemInObjectCaseSensitive(parent, key, value)
                   : cJSON_AddItemToObject(parent, key, value);
    }
    if (done) return QR_OK;
    cJSON_Delete(value);
    return qr_fail(err, QR_RESOURCE_EXHAUSTED, "out of memory for %s", qr_buf_string(path));
}

static enum qr_code json_path_check_container(cJSON *v, const struct json_path_step *s,
                                              const char *path, struct qr_err *err) {
    if (s->in_array ? cJSON_IsArray(v) : cJSON_IsObject(v)) return QR_OK;
    bool made = cJSON_IsObject(v) && !v->child; /* created by the step before */
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s is %s, not %s, so it has no %s%.*s%s",
                   *path ? path : "the whole text",
                   made && s->in_array ? "missing or empty" : qr_json_type_name(json_from_cjson(v)),
                   s->in_array ? "an array" : "an object", s->in_array ? "[" : "'",
                   (int)(s->n < 60 ? s->n : 60), s->text, s->in_array ? "]" : "'");
}

static enum qr_code json_parse_or_string(const char *text, cJSON **ret, struct qr_err *err) {
    struct qr_json *v = NULL;
    bool json = qr_json_parse(qr_bytes_of_string(text), "value", &v, err) == QR_OK;
    const char *digits = text + (*text == '-');
    bool is_integer = *digits >= '1' && *digits <= '9' && !digits[strspn(digits, "0123456789")];
    /* An integer that is too large, or a malformed object, array or string: no text without quotes
     * begins like these. */
    if (!json && (is_integer || (*text && strchr("{[\"", *text)))) return err->code;
    *ret = json ? (cJSON *)(void *)v : cJSON_CreateString(text);
    return *ret ? QR_OK : qr_fail(err, QR_RESOURCE_EXHAUSTED, "out of memory for a value");
}

enum qr_code qr_json_set(struct qr_json *root, const char *path, const char *value,
                         struct qr_buf *ret_path, struct qr_err *err) {
    cJSON *at = (cJSON *)(void *)root, *v = NULL;
    size_t end = 0;
    struct json_path_step s;
    if (!qr_is_utf8(path) || !qr_is_utf8(value))
        return qr_fail(err, QR_INVALID_ARGUMENT, "the text is not valid UTF-8");
    if (!json_path_is_valid(path))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "'%.80s' is not a path: write keys separated by dots, and [0] or [NAME] for "
                       "an element of an array",
                       path);
    for (;;) {
        if (!json_path_next_step(path, &end, &s))
            return qr_fail(err, QR_INTERNAL, "path %.80s", path);
        QR_TRY(json_path_check_container(at, &s, qr_buf_string(ret_path), err));
        if (!path[end]) break;
        QR_TRY(json_path_descend(&at, &s, ret_path, err));
    }
    QR_TRY(json_parse_or_string(value, &v, err));
    return json_path_set_value(at, &s, v, ret_path, err);
}
