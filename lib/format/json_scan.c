/* format/json_scan.c — checks JSON strictly, without recursion, and reports line and column. Start
 * reading at qr_json_scan(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "format/json.h"
#include "format/json_impl.h"

/* A key of an object that is still open: its text between the quotes, not unescaped. */
struct scan_key_range {
    uint32_t at, n;
};

struct json_scanner {
    const uint8_t *p;
    size_t n, at;
    const char *what;
    struct qr_err *err;
    size_t n_values;
    unsigned depth;
    char open[QR_JSON_MAX_DEPTH];
    size_t first_key[QR_JSON_MAX_DEPTH]; /* index in keys of the object's first key */
    struct scan_key_range *keys;
    size_t n_keys, cap_keys;
};

static enum qr_code scan_fail_at(struct json_scanner *s, size_t at, const char *message) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < s->n; i++) {
        if (s->p[i] == '\n') {
            line++;
            column = 1;
        } else if ((s->p[i] & 0xc0) != 0x80) {
            column++;
        }
    }
    return qr_fail(s->err, QR_INVALID_ARGUMENT, "%s: line %zu, column %zu: %s", s->what, line,
                   column, message);
}

/* Reports "expected X but found Y" at the current byte. */
static enum qr_code scan_fail_expected(struct json_scanner *s, const char *wanted) {
    char found[48], message[192];
    uint8_t here = s->at < s->n ? s->p[s->at] : 0, next = s->at + 1 < s->n ? s->p[s->at + 1] : 0;
    if (here == '#' || (here == '/' && (next == '/' || next == '*')))
        return scan_fail_at(s, s->at, "JSON has no comments; delete this one");
    size_t before = s->at;
    while (before && s->p[before - 1] <= ' ') before--;
    if ((here == '}' || here == ']') && before && s->p[before - 1] == ',')
        return scan_fail_at(s, s->at, "trailing comma before this bracket; delete the comma");
    if (s->at >= s->n) snprintf(found, sizeof found, "the end of the text");
    else if (s->p[s->at] > ' ' && s->p[s->at] < 0x7f)
        snprintf(found, sizeof found, "'%c'", s->p[s->at]);
    else snprintf(found, sizeof found, "byte 0x%02x", s->p[s->at]);
    snprintf(message, sizeof message, "expected %s but found %s", wanted, found);
    return scan_fail_at(s, s->at, message);
}

static void scan_skip_blanks(struct json_scanner *s) {
    while (s->at < s->n && (s->p[s->at] == ' ' || s->p[s->at] == '\t' || s->p[s->at] == '\n' ||
                            s->p[s->at] == '\r'))
        s->at++;
}

static bool scan_is_digit(const struct json_scanner *s, size_t at) {
    return at < s->n && s->p[at] >= '0' && s->p[at] <= '9';
}

static enum qr_code scan_number(struct json_scanner *s) {
    size_t from = s->at, at = s->at;
    bool integer = true;
    if (at < s->n && s->p[at] == '-') at++;
    size_t digits = at;
    while (scan_is_digit(s, at)) at++;
    s->at = at;
    if (at == digits) return scan_fail_expected(s, "a digit");
    if (at - digits > 1 && s->p[digits] == '0')
        return scan_fail_at(s, from, "a number must not begin with 0");
    if (at < s->n && s->p[at] == '.') {
        integer = false;
        size_t fraction = s->at = ++at;
        while (scan_is_digit(s, at)) at++;
        if (at == fraction) return scan_fail_expected(s, "a digit after the decimal point");
    }
    if (at < s->n && (s->p[at] == 'e' || s->p[at] == 'E')) {
        integer = false;
        at++;
        if (at < s->n && (s->p[at] == '+' || s->p[at] == '-')) at++;
        size_t exponent = s->at = at;
        while (scan_is_digit(s, at)) at++;
        if (at == exponent) return scan_fail_expected(s, "a digit of the exponent");
    }
    s->at = at;
    char text[QR_JSON_MAX_NUMBER + 1];
    if (at - from > QR_JSON_MAX_NUMBER)
        return scan_fail_at(
            s, from, "a number has more than 63 characters; 17 digits are enough for any float64");
    memcpy(text, s->p + from, at - from);
    text[at - from] = 0;
    char message[192];
    int64_t i;
    if (integer && (!qr_parse_i64(text, &i) || i > (int64_t)1 << 53 || i < -((int64_t)1 << 53))) {
        snprintf(message, sizeof message,
                 "the integer %s is above 2^53 and would be rounded; use a smaller one", text);
        return scan_fail_at(s, from, message);
    }
    double x;
    if (!integer && !qr_parse_double(text, &x)) {
        snprintf(message, sizeof message, "the number %s is outside the range of float64", text);
        return scan_fail_at(s, from, message);
    }
    return QR_OK;
}

static int scan_hex4(const uint8_t *p) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        int c = p[i] | 0x20;
        int d = p[i] >= '0' && p[i] <= '9' ? p[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Scans the escape sequence that begins with the backslash at s->at. */
static enum qr_code scan_escape(struct json_scanner *s) {
    size_t from = s->at++;
    if (s->at >= s->n) return scan_fail_at(s, from, "the text ends inside a string");
    if (s->p[s->at] != 'u') {
        if (!s->p[s->at] || !strchr("\"\\/bfnrt", s->p[s->at]))
            return scan_fail_at(s, from, "invalid escape; write a backslash as \\\\");
        s->at++;
        return QR_OK;
    }
    int c = s->n - s->at > 4 ? scan_hex4(s->p + s->at + 1) : -1;
    if (c < 0) return scan_fail_at(s, from, "\\u needs four hexadecimal digits");
    if (c == 0) return scan_fail_at(s, from, "\\u0000 is not allowed in a string");
    s->at += 5;
    if (c >= 0xdc00 && c <= 0xdfff)
        return scan_fail_at(s, from, "\\u escape of a lone surrogate (half a character)");
    if (c >= 0xd800 && c <= 0xdbff) {
        int low = s->n - s->at > 5 && s->p[s->at] == '\\' && s->p[s->at + 1] == 'u'
                      ? scan_hex4(s->p + s->at + 2)
                      : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return scan_fail_at(s, from, "\\u escape of a lone surrogate (half a character)");
        s->at += 6;
    }
    return QR_OK;
}

static enum qr_code scan_string(struct json_scanner *s) {
    size_t from = s->at++;
    for (;;) {
        if (s->at >= s->n) return scan_fail_at(s, from, "this string has no closing quote");
        uint8_t c = s->p[s->at];
        if (c == '"') break;
        if (c == '\\') {
            enum qr_code code = scan_escape(s);
            if (code != QR_OK) return code;
            continue;
        }
        if (c == '\n' || c == '\r')
            return scan_fail_at(s, from, "this string has no closing quote on its line");
        if (c < 0x20)
            return scan_fail_at(s, s->at, "control character in a string; write it as \\u00XX");
        uint32_t cp;
        size_t len = qr_utf8_next(s->p + s->at, s->n - s->at, &cp);
        if (!len) return scan_fail_at(s, s->at, "the text is not valid UTF-8 here");
        s->at += len;
    }
    s->at++;
    return QR_OK;
}

/* Returns the next code point of a scanned string; 0 at its end (a string has no U+0000). */
static uint32_t scan_key_next(const uint8_t *p, size_t n, size_t *at) {
    if (*at >= n) return 0;
    if (p[*at] != '\\') {
        uint32_t cp = 0;
        *at += qr_utf8_next(p + *at, n - *at, &cp);
        return cp;
    }
    uint8_t e = p[*at + 1];
    *at += 2;
    if (e != 'u')
        return e == 'b'   ? '\b'
               : e == 'f' ? '\f'
               : e == 'n' ? '\n'
               : e == 'r' ? '\r'
               : e == 't' ? '\t'
                          : e;
    uint32_t c = (uint32_t)scan_hex4(p + *at);
    *at += 4;
    if (c < 0xd800 || c > 0xdbff) return c;
    uint32_t low = (uint32_t)scan_hex4(p + *at + 2);
    *at += 6;
    return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
}

/* Compares unescaped texts: "a" and "\u0061" are the same key. */
static int scan_key_order(const struct json_scanner *s, struct scan_key_range a,
                          struct scan_key_range b) {
    size_t i = 0, j = 0;
    for (;;) {
        uint32_t x = scan_key_next(s->p + a.at, a.n, &i), y = scan_key_next(s->p + b.at, b.n, &j);
        if (x != y) return x < y ? -1 : 1;
        if (!x) return 0;
    }
}
static int scan_key_order_stable(const void *a, const void *b, void *ctx) {
    const struct scan_key_range *x = a, *y = b;
    int order = scan_key_order(ctx, *x, *y);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

static void scan_key_push(struct json_scanner *s, size_t from, size_t end) {
    if (s->n_keys == s->cap_keys) {
        s->cap_keys = s->cap_keys ? 2 * s->cap_keys : 64;
        s->keys = qr_xreallocarray(s->keys, s->cap_keys, sizeof *s->keys);
    }
    s->keys[s->n_keys++] = (struct scan_key_range){(uint32_t)from, (uint32_t)(end - from)};
}

/* Checks an ended object for duplicate keys, and drops its keys. */
static enum qr_code scan_check_keys(struct json_scanner *s, size_t first) {
    size_t n = s->n_keys - first;
    s->n_keys = first;
    if (n < 2) return QR_OK;
    struct scan_key_range *keys = s->keys + first;
    qsort_r(keys, n, sizeof *keys, scan_key_order_stable, s);
    for (size_t i = 1; i < n; i++) {
        if (scan_key_order(s, keys[i - 1], keys[i]) != 0) continue;
        char message[192];
        snprintf(message, sizeof message, "duplicate key \"%.*s\" in one object; keep one of them",
                 (int)(keys[i].n < 100 ? keys[i].n : 100), (const char *)s->p + keys[i].at);
        return scan_fail_at(s, keys[i].at - 1, message);
    }
    return QR_OK;
}

static enum qr_code scan_word(struct json_scanner *s) {
    static const char *const words[] = {"true", "false", "null"};
    for (size_t i = 0; i < 3; i++) {
        size_t n = strlen(words[i]);
        if (s->n - s->at >= n && memcmp(s->p + s->at, words[i], n) == 0) {
            s->at += n;
            return QR_OK;
        }
    }
    static const char *const others[][2] = {{"True", "true"},
                                            {"False", "false"},
                                            {"None", "null"},
                                            {"NaN", "number"},
                                            {"Infinity", "number"}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        size_t n = strlen(others[i][0]);
        char message[96];
        if (s->n - s->at < n || memcmp(s->p + s->at, others[i][0], n) != 0) continue;
        snprintf(message, sizeof message,
                 i < 3 ? "%s is Python syntax; write %s" : "JSON has no %s; a %s is finite",
                 others[i][0], others[i][1]);
        return scan_fail_at(s, s->at, message);
    }
    return scan_fail_expected(s, "a value");
}

/* Scans a key and its colon, with the blanks around them. */
static enum qr_code scan_key(struct json_scanner *s) {
    scan_skip_blanks(s);
    if (s->at >= s->n || s->p[s->at] != '"') return scan_fail_expected(s, "a key in double quotes");
    size_t from = s->at + 1;
    enum qr_code code = scan_string(s);
    if (code != QR_OK) return code;
    scan_key_push(s, from, s->at - 1);
    scan_skip_blanks(s);
    if (s->at >= s->n || s->p[s->at] != ':') return scan_fail_expected(s, "':' after a key");
    s->at++;
    return QR_OK;
}

/* Scans a scalar, an empty container, or the opening bracket of a container (*ret_opened), whose
 * first member comes next. */
static enum qr_code scan_value(struct json_scanner *s, bool *ret_opened) {
    *ret_opened = false;
    scan_skip_blanks(s);
    if (++s->n_values > QR_JSON_MAX_VALUES)
        return scan_fail_at(s, s->at, "more than 4194304 values in one JSON text");
    uint8_t c = s->at < s->n ? s->p[s->at] : 0;
    if (c == '"') return scan_string(s);
    if (c == '-' || (c >= '0' && c <= '9')) return scan_number(s);
    if (c != '{' && c != '[') return scan_word(s);
    if (s->depth == QR_JSON_MAX_DEPTH)
        return scan_fail_at(s, s->at, "objects and arrays are nested more than 64 deep");
    s->at++;
    scan_skip_blanks(s);
    if (s->at < s->n && s->p[s->at] == (c == '{' ? '}' : ']')) {
        s->at++;
        return QR_OK;
    }
    s->open[s->depth] = (char)c;
    s->first_key[s->depth++] = s->n_keys;
    *ret_opened = true;
    return QR_OK;
}

/* After a value: closes the containers that end here. Stops after a comma, or when none is open. */
static enum qr_code scan_after_value(struct json_scanner *s) {
    while (s->depth) {
        bool object = s->open[s->depth - 1] == '{';
        scan_skip_blanks(s);
        uint8_t c = s->at < s->n ? s->p[s->at] : 0;
        if (c == ',') {
            s->at++;
            return QR_OK;
        }
        if (c != (object ? '}' : ']'))
            return scan_fail_expected(s, object ? "',' or '}'" : "',' or ']'");
        s->at++;
        s->depth--;
        enum qr_code code = scan_check_keys(s, s->first_key[s->depth]);
        if (code != QR_OK) return code;
    }
    return QR_OK;
}

static enum qr_code scan_all(struct json_scanner *s) {
    enum qr_code code;
    do {
        if (s->depth && s->open[s->depth - 1] == '{' && (code = scan_key(s)) != QR_OK) return code;
        bool opened;
        if ((code = scan_value(s, &opened)) != QR_OK) return code;
        if (opened) continue;
        if ((code = scan_after_value(s)) != QR_OK) return code;
    } while (s->depth);
    scan_skip_blanks(s);
    return s->at < s->n ? scan_fail_expected(s, "the end of the text after the value") : QR_OK;
}

enum qr_code qr_json_scan(struct qr_bytes text, const char *what, struct qr_err *err) {
    struct json_scanner s = {.p = text.p, .n = text.n, .what = what, .err = err};
    enum qr_code code = scan_all(&s);
    free(s.keys);
    return code;
}
