/* format/json_write.c — the JSON writer: indentation, escapes and numbers. Start reading at
 * qr_json_put_value(). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "format/json.h"
#include "format/json_impl.h"

struct qr_json_writer qr_json_writer(struct qr_buf *out, unsigned indent) {
    return (struct qr_json_writer){.out = out, .first = true, .indent = indent};
}

static void json_put_line_break(struct qr_json_writer *w) {
    if (!w->indent) return;
    qr_buf_puts(w->out, "\n");
    for (unsigned i = 0; i < w->indent * w->depth; i++) qr_buf_puts(w->out, " ");
}

/* Writes the comma and line break before a key or an element. */
static void json_put_separator(struct qr_json_writer *w) {
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (!w->first) qr_buf_puts(w->out, ",");
    if (w->depth) json_put_line_break(w);
    w->first = false;
}

void qr_json_open(struct qr_json_writer *w, char bracket) {
    json_put_separator(w);
    qr_buf_put(w->out, &bracket, 1);
    w->depth++;
    w->first = true;
}

void qr_json_close(struct qr_json_writer *w, char bracket) {
    QR_ASSERT(w->depth > 0);
    w->depth--;
    if (!w->first) json_put_line_break(w);
    qr_buf_put(w->out, &bracket, 1);
    w->first = false;
}

static void json_put_quoted(struct qr_buf *out, const char *s) {
    const uint8_t *p = (const uint8_t *)s;
    size_t n = strlen(s);
    qr_buf_puts(out, "\"");
    while (n) {
        uint32_t c;
        size_t len = qr_utf8_next(p, n, &c);
        if (!len) {
            qr_buf_puts(out, "\xef\xbf\xbd");
            len = 1;
        } else if (c == '"' || c == '\\') {
            qr_buf_puts(out, "\\");
            qr_buf_put(out, p, 1);
        } else if (c == '\n') {
            qr_buf_puts(out, "\\n");
        } else if (c == '\t') {
            qr_buf_puts(out, "\\t");
        } else if (c == '\r') {
            qr_buf_puts(out, "\\r");
        } else if (c < 0x20 || c == 0x7f) {
            qr_buf_printf(out, "\\u%04x", (unsigned)c);
        } else {
            qr_buf_put(out, p, len);
        }
        p += len;
        n -= len;
    }
    qr_buf_puts(out, "\"");
}

void qr_json_put_key(struct qr_json_writer *w, const char *key) {
    json_put_separator(w);
    json_put_quoted(w->out, key);
    qr_buf_puts(w->out, w->indent ? ": " : ":");
    w->after_key = true;
}

void qr_json_put_string(struct qr_json_writer *w, const char *s) {
    json_put_separator(w);
    json_put_quoted(w->out, s);
}

void qr_json_put_double(struct qr_json_writer *w, double x) {
    json_put_separator(w);
    if (!isfinite(x)) {
        qr_buf_puts(w->out, "null");
        return;
    }
    /* %.17g writes integers below 1e17 without an exponent, and the reader rejects integer literals
     * above 2^53: add ".0". */
    qr_buf_printf(w->out, fabs(x) > 0x1p53 && fabs(x) < 1e17 ? "%.1f" : "%.17g", x);
}

void qr_json_put_number(struct qr_json_writer *w, double x) {
    char text[32];
    json_put_separator(w);
    qr_number_text(x, text);
    qr_buf_puts(w->out, isfinite(x) ? text : "null");
}

void qr_json_put_i64(struct qr_json_writer *w, int64_t x) {
    json_put_separator(w);
    qr_buf_printf(w->out, "%lld", (long long)x);
}
void qr_json_put_bool(struct qr_json_writer *w, bool x) {
    json_put_separator(w);
    qr_buf_puts(w->out, x ? "true" : "false");
}
void qr_json_put_null(struct qr_json_writer *w) {
    json_put_separator(w);
    qr_buf_puts(w->out, "null");
}

static int json_compare_keys(const void *a, const void *b) {
    const struct qr_json *const *x = a, *const *y = b;
    return strcmp(qr_json_key(*x), qr_json_key(*y));
}

static void json_put_object(struct qr_json_writer *w, const struct qr_json *v, bool sorted) {
    size_t n = qr_json_size(v), i = 0;
    const struct qr_json **members = qr_xcalloc(n, sizeof(const struct qr_json *));
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) members[i++] = m;
    if (sorted && n) qsort(members, n, sizeof *members, json_compare_keys);
    qr_json_open(w, '{');
    for (i = 0; i < n; i++) {
        qr_json_put_key(w, qr_json_key(members[i]));
        qr_json_put_value(w, members[i], sorted);
    }
    qr_json_close(w, '}');
    free(members);
}

void qr_json_put_value(struct qr_json_writer *w, const struct qr_json *v, bool sorted) {
    /* A getter cannot fail for a value of its own type. */
    enum qr_code code = QR_OK;
    double x;
    bool b;
    const char *s;
    switch (qr_json_type(v)) {
    case QR_JSON_NULL: qr_json_put_null(w); break;
    case QR_JSON_BOOL:
        code = qr_json_bool(v, "", &b, NULL);
        if (code == QR_OK) qr_json_put_bool(w, b);
        break;
    case QR_JSON_NUMBER:
        code = qr_json_double(v, "", -HUGE_VAL, HUGE_VAL, &x, NULL);
        if (code == QR_OK) qr_json_put_double(w, x);
        break;
    case QR_JSON_STRING:
        code = qr_json_string(v, "", &s, NULL);
        if (code == QR_OK) qr_json_put_string(w, s);
        break;
    case QR_JSON_ARRAY:
        qr_json_open(w, '[');
        for (const struct qr_json *e = qr_json_first(v); e; e = qr_json_next(e))
            qr_json_put_value(w, e, sorted);
        qr_json_close(w, ']');
        break;
    case QR_JSON_OBJECT: json_put_object(w, v, sorted); break;
    }
    QR_ASSERT(code == QR_OK);
}

void qr_json_put_shortest(struct qr_json_writer *w, const struct qr_json *v) {
    double x;
    bool object = qr_json_type(v) == QR_JSON_OBJECT;
    if (qr_json_type(v) == QR_JSON_NUMBER) {
        if (qr_json_double(v, "", -HUGE_VAL, HUGE_VAL, &x, NULL) == QR_OK) qr_json_put_number(w, x);
    } else if (!object && qr_json_type(v) != QR_JSON_ARRAY) {
        qr_json_put_value(w, v, false);
    } else {
        qr_json_open(w, object ? '{' : '[');
        for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
            if (object) qr_json_put_key(w, qr_json_key(m));
            qr_json_put_shortest(w, m);
        }
        qr_json_close(w, object ? '}' : ']');
    }
}
