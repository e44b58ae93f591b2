/* tests/golden.h — reads JSON files of golden values. Exits if a file is malformed. */
#ifndef GOLDEN_H
#define GOLDEN_H

#include <float.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/json.h"
#include "tests/t.h"

static inline struct qr_json *golden_load(const char *path) {
    struct qr_err err;
    struct qr_buf text = {0};
    struct qr_json *root = NULL;
    if (qr_file_read(path, (size_t)64 << 20, &text, &err) != QR_OK ||
        qr_json_parse(qr_buf_view(&text), path, &root, &err) != QR_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    qr_buf_free(&text);
    return root;
}

static inline double golden_number(const struct qr_json *object, const char *key, double absent) {
    const struct qr_json *v = qr_json_get(object, key);
    double x = absent;
    if (v && qr_json_double(v, key, -DBL_MAX, DBL_MAX, &x, QR_IGNORED) != QR_OK) exit(1);
    return x;
}

static inline bool golden_flag(const struct qr_json *object, const char *key) {
    const struct qr_json *v = qr_json_get(object, key);
    bool x = false;
    if (v && qr_json_bool(v, key, &x, QR_IGNORED) != QR_OK) exit(1);
    return x;
}

static inline const char *golden_text(const struct qr_json *object, const char *key) {
    const char *s = "";
    if (qr_json_string(qr_json_get(object, key), key, &s, QR_IGNORED) != QR_OK) exit(1);
    return s;
}

static inline size_t golden_count(const struct qr_json *v) {
    if (qr_json_type(v) != QR_JSON_ARRAY) return 1;
    size_t n = 0;
    for (const struct qr_json *e = qr_json_first(v); e; e = qr_json_next(e)) n += golden_count(e);
    return n;
}
static inline double *golden_fill(const struct qr_json *v, double *at) {
    if (qr_json_type(v) != QR_JSON_ARRAY) {
        if (qr_json_double(v, "a number", -DBL_MAX, DBL_MAX, at, QR_IGNORED) != QR_OK) exit(1);
        return at + 1;
    }
    for (const struct qr_json *e = qr_json_first(v); e; e = qr_json_next(e))
        at = golden_fill(e, at);
    return at;
}
/* All numbers of a nested array in order; free() them. */
static inline double *golden_numbers(const struct qr_json *v, size_t *ret_n) {
    if (!v) {
        fprintf(stderr, "a golden array is missing\n");
        exit(1);
    }
    *ret_n = golden_count(v);
    double *numbers = qr_xcalloc(*ret_n + 1, sizeof *numbers);
    golden_fill(v, numbers);
    return numbers;
}

#endif
