/* format/json_parse.c — parses JSON strictly, in one pass and without recursion, into cJSON's tree;
 * errors have line and column. cJSON's own parser is lenient. Start reading at qr_json_parse(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "format/json.h"
#include "format/json_impl.h"

enum { MAX_DEPTH = 64, MAX_TEXT = 64 << 20, MAX_VALUES = 4 << 20, MAX_NUMBER = 63 };

/* A key of an object that is still open. */
struct parsed_key {
    const char *name; /* borrowed from the tree */
    size_t at;        /* offset of its quote */
};

struct json_parser {
    const uint8_t *p;
    size_t n, at;
    const char *what;
    struct qr_err *err;
    size_t n_values;
    unsigned depth;
    cJSON *root, *open[MAX_DEPTH];
    char *key;                   /* of the next value; owned */
    size_t first_key[MAX_DEPTH]; /* index in keys of the open object's first key */
    struct parsed_key *keys;
    size_t n_keys, cap_keys;
};

static enum qr_code json_fail_at(struct json_parser *s, size_t at, const char *message) {
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
static enum qr_code json_fail_expected(struct json_parser *s, const char *wanted) {
    char found[48], message[192];
    uint8_t here = s->at < s->n ? s->p[s->at] : 0, next = s->at + 1 < s->n ? s->p[s->at + 1] : 0;
    if (here == '#' || (here == '/' && (next == '/' || next == '*')))
        return json_fail_at(s, s->at, "JSON has no comments; delete this one");
    size_t before = s->at;
    while (before && s->p[before - 1] <= ' ') before--;
    if ((here == '}' || here == ']') && before && s->p[before - 1] == ',')
        return json_fail_at(s, s->at, "trailing comma before this bracket; delete the comma");
    if (s->at >= s->n) snprintf(found, sizeof found, "the end of the text");
    else if (s->p[s->at] > ' ' && s->p[s->at] < 0x7f)
        snprintf(found, sizeof found, "'%c'", s->p[s->at]);
    else snprintf(found, sizeof found, "byte 0x%02x", s->p[s->at]);
    snprintf(message, sizeof message, "expected %s but found %s", wanted, found);
    return json_fail_at(s, s->at, message);
}

static void json_skip_blanks(struct json_parser *s) {
    while (s->at < s->n && (s->p[s->at] == ' ' || s->p[s->at] == '\t' || s->p[s->at] == '\n' ||
                            s->p[s->at] == '\r'))
        s->at++;
}

static bool json_is_digit(const struct json_parser *s, size_t at) {
    return at < s->n && s->p[at] >= '0' && s->p[at] <= '9';
}

static enum qr_code json_parse_number(struct json_parser *s, double *ret) {
    size_t from = s->at, at = s->at;
    bool integer = true;
    if (at < s->n && s->p[at] == '-') at++;
    size_t digits = at;
    while (json_is_digit(s, at)) at++;
    s->at = at;
    if (at == digits) return json_fail_expected(s, "a digit");
    if (at - digits > 1 && s->p[digits] == '0')
        return json_fail_at(s, from, "a number must not begin with 0");
    if (at < s->n && s->p[at] == '.') {
        integer = false;
        size_t fraction = s->at = ++at;
        while (json_is_digit(s, at)) at++;
        if (at == fraction) return json_fail_expected(s, "a digit after the decimal point");
    }
    if (at < s->n && (s->p[at] == 'e' || s->p[at] == 'E')) {
        integer = false;
        at++;
        if (at < s->n && (s->p[at] == '+' || s->p[at] == '-')) at++;
        size_t exponent = s->at = at;
        while (json_is_digit(s, at)) at++;
        if (at == exponent) return json_fail_expected(s, "a digit of the exponent");
    }
    s->at = at;
    char text[MAX_NUMBER + 1];
    if (at - from > MAX_NUMBER)
        return json_fail_at(
            s, from, "a number has more than 63 characters; 17 digits are enough for any float64");
    memcpy(text, s->p + from, at - from);
    text[at - from] = 0;
    char message[192];
    int64_t i;
    if (integer && (!qr_parse_i64(text, &i) || i > (int64_t)1 << 53 || i < -((int64_t)1 << 53))) {
        snprintf(message, sizeof message,
                 "the integer %s is above 2^53 and would be rounded; use a smaller one", text);
        return json_fail_at(s, from, message);
    }
    if (!qr_parse_double(text, ret)) {
        snprintf(message, sizeof message, "the number %s is outside the range of float64", text);
        return json_fail_at(s, from, message);
    }
    return QR_OK;
}

/* Reads the four hexadecimal digits at `at`; -1 when there are fewer. */
static int json_read_hex4(const struct json_parser *s, size_t at) {
    int v = 0;
    if (at > s->n || s->n - at < 4) return -1;
    for (const uint8_t *p = s->p + at; p < s->p + at + 4; p++) {
        int c = *p | 0x20;
        int d = *p >= '0' && *p <= '9' ? *p - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0) return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Writes a code point above 0 as UTF-8 and returns its end. */
static char *json_put_utf8(char *to, uint32_t c) {
    unsigned more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    *to++ = (char)(more ? (0xff00u >> (more + 1) & 0xff) | c >> 6 * more : c);
    while (more--) *to++ = (char)(0x80 | (c >> 6 * more & 0x3f));
    return to;
}

/* Decodes the escape sequence at s->at, and advances both. */
static enum qr_code json_parse_escape(struct json_parser *s, char **to) {
    static const char escapes[] = "\"\\/bfnrt", characters[] = "\"\\/\b\f\n\r\t";
    size_t from = s->at++;
    if (s->at >= s->n) return json_fail_at(s, from, "the text ends inside a string");
    if (s->p[s->at] != 'u') {
        const char *e = s->p[s->at] ? strchr(escapes, s->p[s->at++]) : NULL;
        if (!e) return json_fail_at(s, from, "invalid escape; write a backslash as \\\\");
        *(*to)++ = characters[e - escapes];
        return QR_OK;
    }
    int c = json_read_hex4(s, s->at + 1), low = 0;
    if (c < 0) return json_fail_at(s, from, "\\u needs four hexadecimal digits");
    if (c == 0) return json_fail_at(s, from, "\\u0000 is not allowed in a string");
    s->at += 5;
    if (c >= 0xd800 && c <= 0xdbff && s->n - s->at > 1 && memcmp(s->p + s->at, "\\u", 2) == 0) {
        low = json_read_hex4(s, s->at + 2);
        s->at += 6;
    }
    bool pair = low >= 0xdc00 && low <= 0xdfff;
    if (c >= 0xd800 && c <= 0xdfff && !pair)
        return json_fail_at(s, from, "\\u escape of a lone surrogate (half a character)");
    *to =
        json_put_utf8(*to, pair ? 0x10000u + ((uint32_t)(c - 0xd800) << 10) + (uint32_t)low - 0xdc00
                                : (uint32_t)c);
    return QR_OK;
}

static enum qr_code json_fail_memory(const struct json_parser *s) {
    return qr_fail(s->err, QR_RESOURCE_EXHAUSTED,
                   "%s: out of memory for the tree of %zu bytes of JSON", s->what, s->n);
}

/* Decodes the string at s->at into a new text. */
static enum qr_code json_parse_string(struct json_parser *s, char **ret) {
    size_t from = s->at++, end = s->at;
    while (end < s->n && s->p[end] != '"') end += s->p[end] == '\\' ? 2 : 1;
    qr_auto(qr_free_p) char *text = cJSON_malloc(end - from + 1);
    if (!text) return json_fail_memory(s);
    char *to = text;
    for (;;) {
        if (s->at >= s->n) return json_fail_at(s, from, "this string has no closing quote");
        uint8_t c = s->p[s->at];
        if (c == '"') break;
        if (c == '\\') {
            QR_TRY(json_parse_escape(s, &to));
            continue;
        }
        if (c == '\n' || c == '\r')
            return json_fail_at(s, from, "this string has no closing quote on its line");
        if (c < 0x20)
            return json_fail_at(s, s->at, "control character in a string; write it as \\u00XX");
        uint32_t cp;
        size_t len = qr_utf8_next(s->p + s->at, s->n - s->at, &cp);
        if (!len) return json_fail_at(s, s->at, "the text is not valid UTF-8 here");
        memcpy(to, s->p + s->at, len);
        to += len;
        s->at += len;
    }
    s->at++;
    *to = 0;
    *ret = QR_MOVE(text);
    return QR_OK;
}

static int json_compare_keys(const void *a, const void *b) {
    const struct parsed_key *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : x->at < y->at ? -1 : x->at > y->at;
}

/* Checks an ended object for duplicate keys, and drops its keys. */
static enum qr_code json_check_keys(struct json_parser *s, size_t first) {
    size_t n = s->n_keys - first;
    s->n_keys = first;
    if (n < 2) return QR_OK;
    struct parsed_key *keys = s->keys + first;
    qsort(keys, n, sizeof *keys, json_compare_keys);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(keys[i - 1].name, keys[i].name) != 0) continue;
        char message[192];
        snprintf(message, sizeof message,
                 "duplicate key \"%.100s\" in one object; keep one of them", keys[i].name);
        return json_fail_at(s, keys[i].at, message);
    }
    return QR_OK;
}

/* Parses a key and its colon, with the blanks around them. */
static enum qr_code json_parse_key(struct json_parser *s) {
    json_skip_blanks(s);
    size_t from = s->at;
    if (from >= s->n || s->p[from] != '"') return json_fail_expected(s, "a key in double quotes");
    QR_TRY(json_parse_string(s, &s->key));
    if (s->n_keys == s->cap_keys) {
        s->cap_keys = s->cap_keys ? 2 * s->cap_keys : 64;
        s->keys = qr_xreallocarray(s->keys, s->cap_keys, sizeof *s->keys);
    }
    s->keys[s->n_keys++] = (struct parsed_key){s->key, from};
    json_skip_blanks(s);
    if (s->at >= s->n || s->p[s->at] != ':') return json_fail_expected(s, "':' after a key");
    s->at++;
    return QR_OK;
}

static enum qr_code json_parse_word(struct json_parser *s, int *ret) {
    static const struct {
        const char *text;
        int type;
        const char *use; /* instead of a word that is not JSON */
    } words[] = {{"true", cJSON_True, NULL}, {"false", cJSON_False, NULL},
                 {"null", cJSON_NULL, NULL}, {"True", 0, "true"},
                 {"False", 0, "false"},      {"None", 0, "null"},
                 {"NaN", cJSON_Number, ""},  {"Infinity", cJSON_Number, ""}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        size_t n = strlen(words[i].text);
        char message[96];
        if (s->n - s->at < n || memcmp(s->p + s->at, words[i].text, n) != 0) continue;
        if (!words[i].use) {
            s->at += n;
            *ret = words[i].type;
            return QR_OK;
        }
        snprintf(message, sizeof message,
                 *words[i].use ? "%s is Python syntax; write %s"
                               : "JSON has no %s; a number is finite%s",
                 words[i].text, words[i].use);
        return json_fail_at(s, s->at, message);
    }
    return json_fail_expected(s, "a value");
}

/* Parses a scalar, or the opening bracket of a container; *ret_opened when a member follows. */
static enum qr_code json_parse_value(struct json_parser *s, bool *ret_opened) {
    double x;
    *ret_opened = false;
    json_skip_blanks(s);
    if (++s->n_values > MAX_VALUES)
        return json_fail_at(s, s->at, "more than 4194304 values in one JSON text");
    cJSON *v = cJSON_CreateNull();
    if (!v) return json_fail_memory(s);
    v->string = QR_MOVE(s->key);
    if (s->depth) cJSON_AddItemToArray(s->open[s->depth - 1], v);
    else s->root = v;
    uint8_t c = s->at < s->n ? s->p[s->at] : 0;
    if (c == '"') {
        v->type = cJSON_String;
        return json_parse_string(s, &v->valuestring);
    }
    if (c == '-' || (c >= '0' && c <= '9')) {
        QR_TRY(json_parse_number(s, &x));
        v->type = cJSON_Number;
        cJSON_SetNumberHelper(v, x);
        return QR_OK;
    }
    if (c != '{' && c != '[') return json_parse_word(s, &v->type);
    if (s->depth == MAX_DEPTH)
        return json_fail_at(s, s->at, "objects and arrays are nested more than 64 deep");
    v->type = c == '{' ? cJSON_Object : cJSON_Array;
    s->open[s->depth] = v;
    s->first_key[s->depth++] = s->n_keys;
    s->at++;
    json_skip_blanks(s);
    *ret_opened = s->at >= s->n || s->p[s->at] != (c == '{' ? '}' : ']');
    return QR_OK;
}

/* After a value: closes the containers that end here. Stops after a comma, or when none is open. */
static enum qr_code json_parse_after_value(struct json_parser *s) {
    while (s->depth) {
        bool object = cJSON_IsObject(s->open[s->depth - 1]);
        json_skip_blanks(s);
        uint8_t c = s->at < s->n ? s->p[s->at] : 0;
        if (c == ',') {
            s->at++;
            return QR_OK;
        }
        if (c != (object ? '}' : ']'))
            return json_fail_expected(s, object ? "',' or '}'" : "',' or ']'");
        s->at++;
        s->depth--;
        QR_TRY(json_check_keys(s, s->first_key[s->depth]));
    }
    return QR_OK;
}

static enum qr_code json_parse_all(struct json_parser *s) {
    do {
        bool opened;
        if (s->depth && cJSON_IsObject(s->open[s->depth - 1])) QR_TRY(json_parse_key(s));
        QR_TRY(json_parse_value(s, &opened));
        if (!opened) QR_TRY(json_parse_after_value(s));
    } while (s->depth);
    json_skip_blanks(s);
    return s->at < s->n ? json_fail_expected(s, "the end of the text after the value") : QR_OK;
}

enum qr_code qr_json_parse(struct qr_bytes text, const char *what, struct qr_json **ret,
                           struct qr_err *err) {
    if (text.n > MAX_TEXT)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: %zu bytes of JSON, above the limit of %d",
                       what, text.n, MAX_TEXT);
    size_t mark = text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct json_parser s = {.p = text.p + mark, .n = text.n - mark, .what = what, .err = err};
    enum qr_code code = json_parse_all(&s);
    free(s.key);
    free(s.keys);
    if (code == QR_OK) *ret = json_from_cjson(s.root);
    else cJSON_Delete(s.root);
    return code;
}
