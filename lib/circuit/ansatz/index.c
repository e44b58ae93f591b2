#include "circuit/ansatz/index.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { MAX_NAME = 16, MAX_NESTED = 16 };
static const int64_t most = INT64_C(1) << 53;

struct reader {
    const struct qr_index_scope *scope;
    const char *path;
    const char *text, *at, *end;
    unsigned nested;
    struct qr_err *err;
};

static enum qr_code bad(const struct reader *r, const char *fmt, ...) QR_PRINTF(2, 3);
static enum qr_code bad(const struct reader *r, const char *fmt, ...) {
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: \"%.*s\", character %d: %s", r->path,
                   (int)(r->end - r->text), r->text, (int)(r->at - r->text) + 1, why);
}

static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool begins_name(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
}

bool qr_index_is_name(const char *name) {
    size_t n = 0;
    while (begins_name(name[n]) || (n && is_digit(name[n]))) n++;
    return n && !name[n] && n <= MAX_NAME;
}

static void skip_blanks(struct reader *r) {
    while (r->at < r->end && *r->at == ' ') r->at++;
}
/* The next sign, 0 at the end. */
static char next(struct reader *r) {
    skip_blanks(r);
    return r->at < r->end ? *r->at : 0;
}

static enum qr_code read_sum(struct reader *r, int64_t *ret);

static enum qr_code read_digits(struct reader *r, int64_t *ret) {
    for (*ret = 0; r->at < r->end && is_digit(*r->at); r->at++) {
        *ret = 10 * *ret + (*r->at - '0');
        if (*ret > most) return bad(r, "the number is above 2^53");
    }
    return QR_OK;
}

static enum qr_code read_name(struct reader *r, int64_t *ret) {
    const char *name = r->at;
    size_t n = 1;
    while (name + n < r->end && (begins_name(name[n]) || is_digit(name[n]))) n++;
    for (unsigned i = r->scope->n; i-- > 0;)
        if (strlen(r->scope->known[i].name) == n && !memcmp(r->scope->known[i].name, name, n)) {
            *ret = r->scope->known[i].value;
            r->at += n;
            return QR_OK;
        }
    struct qr_buf list = {0};
    for (unsigned i = 0; i < r->scope->n; i++)
        qr_buf_printf(&list, "%s'%s'",
                      !i                    ? ""
                      : i + 1 < r->scope->n ? ", "
                                            : " and ",
                      r->scope->known[i].name);
    enum qr_code code = bad(r, "nothing here is called '%.*s'; there %s %s", (int)n, name,
                            r->scope->n == 1 ? "is" : "are", qr_buf_string(&list));
    qr_buf_free(&list);
    return code;
}

static enum qr_code read_factor(struct reader *r, int64_t *ret) {
    char ch = next(r);
    if (is_digit(ch)) return read_digits(r, ret);
    if (begins_name(ch)) return read_name(r, ret);
    if (ch == '{')
        return bad(r, "this is a number already, and braces are for names and angles; write it "
                      "without them");
    if (ch != '-' && ch != '(')
        return bad(r, "a number, a name or '(' must stand here%s", ch ? "" : ", not the end");
    if (++r->nested > MAX_NESTED) return bad(r, "over %d levels deep", MAX_NESTED);
    r->at++;
    enum qr_code code = ch == '(' ? read_sum(r, ret) : read_factor(r, ret);
    if (code) return code;
    r->nested--;
    if (ch == '-') *ret = -*ret;
    else if (next(r) != ')') return bad(r, "')' must stand here");
    else r->at++;
    return QR_OK;
}

static enum qr_code in_range(const struct reader *r, int64_t v) {
    return v < -most || v > most ? bad(r, "a value before here is beyond 2^53") : QR_OK;
}

static enum qr_code read_product(struct reader *r, int64_t *ret) {
    enum qr_code code = read_factor(r, ret);
    for (char ch; !code && ((ch = next(r)) == '*' || ch == '%');) {
        int64_t by = 0, all;
        r->at++;
        if ((code = read_factor(r, &by))) return code;
        if (ch == '*') {
            if (__builtin_mul_overflow(*ret, by, &all)) all = INT64_MAX;
            *ret = all;
            code = in_range(r, all);
        } else if (by == 0) {
            return bad(r, "the number behind %% is 0");
        } else {
            *ret %= by;
            if (*ret && (*ret < 0) != (by < 0)) *ret += by;
        }
    }
    return code;
}

static enum qr_code read_sum(struct reader *r, int64_t *ret) {
    enum qr_code code = read_product(r, ret);
    for (char ch; !code && ((ch = next(r)) == '+' || ch == '-');) {
        int64_t by = 0;
        r->at++;
        if ((code = read_product(r, &by))) return code;
        *ret += ch == '+' ? by : -by;
        code = in_range(r, *ret);
    }
    return code;
}

static enum qr_code read_whole(const struct qr_index_scope *s, const char *path, const char *text,
                               size_t n, int64_t *ret, struct qr_err *err) {
    struct reader r = {s, path, text, text, text + n, 0, err};
    if (n > QR_INDEX_TEXT_BYTES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: a text that counts has at most %d bytes, not %zu", path,
                       QR_INDEX_TEXT_BYTES, n);
    enum qr_code code = read_sum(&r, ret);
    if (!code && next(&r)) return bad(&r, "one of + - * %% or the end must stand here");
    return code;
}

enum qr_code qr_index_value(const struct qr_index_scope *s, const char *text, const char *path,
                            int64_t *ret, struct qr_err *err) {
    return read_whole(s, path, text, strlen(text), ret, err);
}

enum qr_code qr_index_fill(const struct qr_index_scope *s, const char *text, const char *path,
                           char *ret, size_t room, struct qr_err *err) {
    enum qr_code code = QR_OK;
    size_t n = 0;
    while (!code && *text) {
        char put[24] = {*text, 0};
        const char *close = *text == '{' ? strchr(text, '}') : NULL;
        if (*text == '{' && !close)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '{' without '}' behind it: \"%.80s\"",
                           path, text);
        if (close) {
            int64_t value = 0;
            code = read_whole(s, path, text + 1, (size_t)(close - text - 1), &value, err);
            snprintf(put, sizeof put, "%lld", (long long)value);
            text = close;
        }
        text++;
        for (const char *p = put; !code && *p; p++) {
            if (n + 1 >= room)
                return qr_fail(err, QR_INVALID_ARGUMENT,
                               "%s: with its braces filled in it has over %zu bytes", path,
                               room - 1);
            ret[n++] = *p;
        }
    }
    if (!code) ret[n] = 0;
    return code;
}
