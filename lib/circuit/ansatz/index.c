/* circuit/ansatz/index.c — index expressions, by recursive descent. Start reading at
 * qr_index_value(). */
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

static enum qr_code index_fail(const struct reader *r, const char *fmt, ...) QR_PRINTF(2, 3);
static enum qr_code index_fail(const struct reader *r, const char *fmt, ...) {
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: \"%.*s\", character %d: %s", r->path,
                   (int)(r->end - r->text), r->text, (int)(r->at - r->text) + 1, why);
}

static bool index_is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool index_is_letter(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || ch == '_';
}

bool qr_index_is_name(const char *name) {
    size_t n = 0;
    while (index_is_letter(name[n]) || (n && index_is_digit(name[n]))) n++;
    return n && !name[n] && n <= MAX_NAME;
}

static void index_skip_spaces(struct reader *r) {
    while (r->at < r->end && *r->at == ' ') r->at++;
}
/* The next character after blanks, 0 at the end. */
static char index_peek(struct reader *r) {
    index_skip_spaces(r);
    return r->at < r->end ? *r->at : 0;
}

static enum qr_code index_read_sum(struct reader *r, int64_t *ret);

static enum qr_code index_read_digits(struct reader *r, int64_t *ret) {
    for (*ret = 0; r->at < r->end && index_is_digit(*r->at); r->at++) {
        *ret = 10 * *ret + (*r->at - '0');
        if (*ret > most) return index_fail(r, "the number is above 2^53");
    }
    return QR_OK;
}

static enum qr_code index_read_name(struct reader *r, int64_t *ret) {
    const char *name = r->at;
    size_t n = 1;
    while (name + n < r->end && (index_is_letter(name[n]) || index_is_digit(name[n]))) n++;
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
    enum qr_code code = index_fail(r, "unknown name '%.*s'; there %s %s", (int)n, name,
                                   r->scope->n == 1 ? "is" : "are", qr_buf_string(&list));
    qr_buf_free(&list);
    return code;
}

static enum qr_code index_read_factor(struct reader *r, int64_t *ret) {
    char ch = index_peek(r);
    if (index_is_digit(ch)) return index_read_digits(r, ret);
    if (index_is_letter(ch)) return index_read_name(r, ret);
    if (ch == '{')
        return index_fail(r, "an integer takes no braces (they are for names and angles); remove "
                             "them");
    if (ch != '-' && ch != '(')
        return index_fail(r, "expected a number, a name or '('%s", ch ? "" : ", found the end");
    if (++r->nested > MAX_NESTED)
        return index_fail(r, "nested more than %d levels deep", MAX_NESTED);
    r->at++;
    enum qr_code code = ch == '(' ? index_read_sum(r, ret) : index_read_factor(r, ret);
    if (code) return code;
    r->nested--;
    if (ch == '-') *ret = -*ret;
    else if (index_peek(r) != ')') return index_fail(r, "expected ')'");
    else r->at++;
    return QR_OK;
}

static enum qr_code index_check_range(const struct reader *r, int64_t v) {
    return v < -most || v > most ? index_fail(r, "an intermediate value exceeds 2^53") : QR_OK;
}

static enum qr_code index_read_product(struct reader *r, int64_t *ret) {
    enum qr_code code = index_read_factor(r, ret);
    for (char ch; !code && ((ch = index_peek(r)) == '*' || ch == '%');) {
        int64_t by = 0, all;
        r->at++;
        if ((code = index_read_factor(r, &by))) return code;
        if (ch == '*') {
            if (__builtin_mul_overflow(*ret, by, &all)) all = INT64_MAX;
            *ret = all;
            code = index_check_range(r, all);
        } else if (by == 0) {
            return index_fail(r, "the number after %% is 0");
        } else {
            *ret %= by;
            if (*ret && (*ret < 0) != (by < 0)) *ret += by;
        }
    }
    return code;
}

static enum qr_code index_read_sum(struct reader *r, int64_t *ret) {
    enum qr_code code = index_read_product(r, ret);
    for (char ch; !code && ((ch = index_peek(r)) == '+' || ch == '-');) {
        int64_t by = 0;
        r->at++;
        if ((code = index_read_product(r, &by))) return code;
        *ret += ch == '+' ? by : -by;
        code = index_check_range(r, *ret);
    }
    return code;
}

static enum qr_code index_read_text(const struct qr_index_scope *s, const char *path,
                                    const char *text, size_t n, int64_t *ret, struct qr_err *err) {
    struct reader r = {s, path, text, text, text + n, 0, err};
    if (n > QR_INDEX_TEXT_BYTES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: an index expression has at most %d bytes, not %zu", path,
                       QR_INDEX_TEXT_BYTES, n);
    enum qr_code code = index_read_sum(&r, ret);
    if (!code && index_peek(&r)) return index_fail(&r, "expected one of + - * %% or the end");
    return code;
}

enum qr_code qr_index_value(const struct qr_index_scope *s, const char *text, const char *path,
                            int64_t *ret, struct qr_err *err) {
    return index_read_text(s, path, text, strlen(text), ret, err);
}

enum qr_code qr_index_fill(const struct qr_index_scope *s, const char *text, const char *path,
                           char *ret, size_t size, struct qr_err *err) {
    enum qr_code code = QR_OK;
    size_t n = 0;
    while (!code && *text) {
        char put[24] = {*text, 0};
        const char *close = *text == '{' ? strchr(text, '}') : NULL;
        if (*text == '{' && !close)
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '{' without '}' after it: \"%.80s\"",
                           path, text);
        if (close) {
            int64_t value = 0;
            code = index_read_text(s, path, text + 1, (size_t)(close - text - 1), &value, err);
            snprintf(put, sizeof put, "%lld", (long long)value);
            text = close;
        }
        text++;
        for (const char *p = put; !code && *p; p++) {
            if (n + 1 >= size)
                return qr_fail(err, QR_INVALID_ARGUMENT,
                               "%s: longer than %zu bytes after its braces are filled in", path,
                               size - 1);
            ret[n++] = *p;
        }
    }
    if (!code) ret[n] = 0;
    return code;
}
