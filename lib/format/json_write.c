/* format/json_write.c — the JSON writer: indentation, escapes and numbers. Start reading at
 * qr_json_put_value(). */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
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

/* Bytes of the ASCII text at p that need no escape. */
static size_t json_plain_bytes(const uint8_t *p) {
    size_t n = 0;
    while (p[n] >= 0x20 && p[n] < 0x7f && p[n] != '"' && p[n] != '\\') n++;
    return n;
}

static void json_put_quoted(struct qr_buf *out, const char *s) {
    static const char plain[] = "\"\\\n\t\r", letters[] = "\"\\ntr";
    const uint8_t *p = (const uint8_t *)s;
    qr_buf_put(out, "\"", 1);
    for (size_t left = strlen(s), n; left; p += n, left -= n) {
        uint32_t c = ' ';
        n = json_plain_bytes(p);
        if (!n) n = qr_utf8_next(p, left, &c);
        const char *special = n == 1 ? strchr(plain, (int)c) : NULL;
        if (!n) qr_buf_puts(out, "\xef\xbf\xbd");
        else if (special) qr_buf_put(out, (char[]){'\\', letters[special - plain]}, 2);
        else if (c < 0x20 || c == 0x7f) qr_buf_printf(out, "\\u%04x", (unsigned)c);
        else qr_buf_put(out, p, n);
        n = n ? n : 1;
    }
    qr_buf_put(out, "\"", 1);
}

void qr_json_put_key(struct qr_json_writer *w, const char *key) {
    json_put_separator(w);
    json_put_quoted(w->out, key);
    qr_buf_puts(w->out, w->indent ? ": " : ":");
    w->after_key = true;
}

void qr_json_put_string(struct qr_json_writer *w, const char *s) {
    json_put_separator(w);
    if (s) json_put_quoted(w->out, s);
    else qr_buf_puts(w->out, "null");
}

/* Writes a number from 1e-4 to 2^53 as printf's %.17g does, ten times as fast: steps.jsonl has some
 * in each line. x is m 2^e, so its 17 digits are m 5^k 2^(e + k) for k = 16 - power, rounded; m 5^k
 * is below 2^53 5^20. power: that of ten of the first digit. */
static void json_put_usual(struct qr_buf *out, double x) {
    static const uint64_t low = UINT64_C(10000000000000000);
    char digits[17], text[32], *at = text;
    uint64_t bits = qr_bits_of_double(x), q;
    uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    int e = (int)(bits >> 52 & 0x7ff) - 1075, power = (e + 52) * 1233 / 4096 - (e + 52 < 0), n = 17;
    for (;; power++) { /* the estimate may be one too low */
        int k = 16 - power, shift = -(e + k);
        unsigned __int128 v = m;
        for (int i = 0; i < k; i++) v *= 5;
        unsigned __int128 one = shift > 0 ? (unsigned __int128)1 << shift : 1, rest = v & (one - 1);
        q = (uint64_t)(shift > 0 ? v >> shift : v << -shift);
        q += 2 * rest > one || (rest > 0 && 2 * rest == one && q % 2);
        if (q < 10 * low) break;
    }
    for (int i = 16; i >= 0; i--, q /= 10) digits[i] = (char)('0' + q % 10);
    while (n > 1 && digits[n - 1] == '0') n--;
    if (bits >> 63) *at++ = '-';
    if (power < 0) *at++ = '0', *at++ = '.';
    for (int p = -1; p > power; p--) *at++ = '0';
    for (int i = 0; i < n || i <= power; i++) {
        *at++ = digits[i];
        if (i == power && i + 1 < n) *at++ = '.';
    }
    qr_buf_put(out, text, (size_t)(at - text));
}

void qr_json_put_double(struct qr_json_writer *w, double x) {
    if (!isfinite(x)) {
        qr_json_put_null(w);
        return;
    }
    json_put_separator(w);
    if (fabs(x) >= 1e-4 && fabs(x) < 0x1p53) {
        json_put_usual(w->out, x);
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
    /* An integer literal above 2^53 would be rejected. */
    if (fabs(x) > 0x1p53 && fabs(x) < 1e17) qr_buf_printf(w->out, "%.1f", x);
    else qr_buf_puts(w->out, isfinite(x) ? text : "null");
}

void qr_json_put_i64(struct qr_json_writer *w, int64_t x) {
    json_put_separator(w);
    char text[24], *at = text + sizeof text;
    uint64_t left = x < 0 ? -(uint64_t)x : (uint64_t)x;
    do *--at = (char)('0' + left % 10);
    while (left /= 10);
    if (x < 0) *--at = '-';
    qr_buf_put(w->out, at, (size_t)(text + sizeof text - at));
}
void qr_json_put_bool(struct qr_json_writer *w, bool x) {
    json_put_separator(w);
    qr_buf_puts(w->out, x ? "true" : "false");
}
void qr_json_put_null(struct qr_json_writer *w) { qr_json_put_string(w, NULL); }

#define KEY_AND(name, type, put)                                                                   \
    void qr_json_key_##name(struct qr_json_writer *w, const char *key, type x) {                   \
        qr_json_put_key(w, key);                                                                   \
        put(w, x);                                                                                 \
    }
KEY_AND(string, const char *, qr_json_put_string)
KEY_AND(double, double, qr_json_put_double)
KEY_AND(number, double, qr_json_put_number)
KEY_AND(i64, int64_t, qr_json_put_i64)
KEY_AND(bool, bool, qr_json_put_bool)
KEY_AND(open, char, qr_json_open)

static int json_compare_keys(const void *a, const void *b) {
    const cJSON *const *x = a, *const *y = b;
    return strcmp((*x)->string, (*y)->string);
}

/* The form of numbers and the order of keys in a copied value. */
struct json_form {
    void (*number)(struct qr_json_writer *w, double x);
    bool sorted;
};

static void json_put_tree(struct qr_json_writer *w, const cJSON *v, const struct json_form *f) {
    if (cJSON_IsBool(v)) qr_json_put_bool(w, cJSON_IsTrue(v));
    else if (cJSON_IsNumber(v)) f->number(w, v->valuedouble);
    else if (cJSON_IsString(v)) qr_json_put_string(w, v->valuestring);
    else if (cJSON_IsNull(v)) qr_json_put_null(w);
    else {
        bool object = cJSON_IsObject(v);
        size_t n = (size_t)cJSON_GetArraySize(v), i = 0;
        qr_auto(qr_free_p) const cJSON **members = qr_xcalloc(n, sizeof *members);
        for (const cJSON *m = v->child; m; m = m->next) members[i++] = m;
        if (object && f->sorted && n) qsort(members, n, sizeof *members, json_compare_keys);
        qr_json_open(w, object ? '{' : '[');
        for (i = 0; i < n; i++) {
            if (object) qr_json_put_key(w, members[i]->string);
            json_put_tree(w, members[i], f);
        }
        qr_json_close(w, object ? '}' : ']');
    }
}

void qr_json_put_value(struct qr_json_writer *w, const struct qr_json *v, bool sorted) {
    json_put_tree(w, json_to_cjson(v), &(struct json_form){qr_json_put_double, sorted});
}

void qr_json_put_shortest(struct qr_json_writer *w, const struct qr_json *v) {
    json_put_tree(w, json_to_cjson(v), &(struct json_form){qr_json_put_number, false});
}
