/* The little of XML that S3 and STS send: elements and text. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "store/aws/aws.h"

enum { MAX_DEPTH = 16, MAX_NAME = 64 };

struct xml_reader {
    const char *at, *end;
    char name[MAX_DEPTH][MAX_NAME];
    int depth;
    bool leaf; /* nothing but text since the last opening */
    struct qr_buf text;
    qr_s3_leaf *say;
    void *ctx;
};

static enum qr_code broken(const struct xml_reader *r, const char *why, struct qr_err *err) {
    (void)r;
    return qr_fail(err, QR_INVALID_ARGUMENT, "no whole XML: %s", why);
}

static const char *find(const struct xml_reader *r, const char *what) {
    return memmem(r->at, (size_t)(r->end - r->at), what, strlen(what));
}

static void put_code_point(struct qr_buf *b, uint64_t c) {
    uint8_t u[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) u[i] = (uint8_t)(0x80 | (c & 0x3f));
    u[0] = (uint8_t)(n == 1 ? c : (0xf00 >> n & 0xff) | c);
    qr_buf_put(b, u, n);
}

/* "&#x41;" without & and ;, in base 16 or 10; false: none. */
static bool number_of(const char *s, uint64_t *ret) {
    uint64_t base = *s == 'x' ? 16 : 10, v = 0;
    s += base == 16;
    size_t n = strlen(s);
    if (n == 0 || n > 7) return false;
    for (; *s; s++) {
        uint64_t d = *s >= '0' && *s <= '9'   ? (uint64_t)(*s - '0')
                     : *s >= 'a' && *s <= 'f' ? (uint64_t)(*s - 'a') + 10
                     : *s >= 'A' && *s <= 'F' ? (uint64_t)(*s - 'A') + 10
                                              : 99;
        if (d >= base) return false;
        v = v * base + d;
    }
    *ret = v;
    return v > 0 && v < 0x110000 && (v < 0xd800 || v > 0xdfff);
}

/* At '&'. */
static enum qr_code entity(struct xml_reader *r, struct qr_err *err) {
    static const struct {
        const char *name, *text;
    } known[] = {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};
    const char *end = find(r, ";");
    uint64_t c;
    char name[12] = "";
    if (!end || end - r->at > 10) return broken(r, "an entity without its end", err);
    memcpy(name, r->at + 1, (size_t)(end - r->at - 1));
    r->at = end + 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return qr_buf_puts(&r->text, known[i].text), QR_OK;
    if (name[0] != '#' || !number_of(name + 1, &c)) return broken(r, "an unknown entity", err);
    put_code_point(&r->text, c);
    return QR_OK;
}

/* At '<' of an element's end. */
static enum qr_code closing(struct xml_reader *r, struct qr_err *err) {
    const char *end = find(r, ">");
    size_t n = r->depth ? strlen(r->name[r->depth - 1]) : 0;
    if (!end || !r->depth || (size_t)(end - r->at) < n + 2 ||
        memcmp(r->at + 2, r->name[r->depth - 1], n) != 0 ||
        (size_t)(end - r->at) - 2 - n != strspn(r->at + 2 + n, " \t\r\n"))
        return broken(r, "an end of another element", err);
    if (r->leaf && r->say)
        r->say(r->ctx, r->depth > 1 ? r->name[r->depth - 2] : "", r->name[r->depth - 1],
               qr_buf_string(&r->text));
    r->leaf = false;
    r->depth--;
    r->at = end + 1;
    return QR_OK;
}

/* Where a tag that begins at r->at ends: '>' outside quotes; NULL: nowhere. */
static const char *end_of_tag(const struct xml_reader *r) {
    char quote = 0;
    for (const char *c = r->at; c < r->end; c++) {
        if (quote ? *c == quote : *c == '"' || *c == '\'') quote = quote ? 0 : *c;
        else if (!quote && *c == '>') return c;
    }
    return NULL;
}

/* At '<' of an element's beginning. */
static enum qr_code opening(struct xml_reader *r, struct qr_err *err) {
    const char *end = end_of_tag(r), *begin = r->at + 1;
    size_t n = 0;
    if (!end) return broken(r, "it is cut", err);
    while (begin + n < end && !strchr(" \t\r\n/<", begin[n])) n++;
    bool empty = end[-1] == '/';
    if (n == 0 || n >= MAX_NAME || memchr(begin, 0, n)) return broken(r, "a name", err);
    if (r->depth == MAX_DEPTH) return broken(r, "too deep", err);
    memcpy(r->name[r->depth], begin, n);
    r->name[r->depth][n] = 0;
    qr_buf_clear(&r->text);
    r->at = end + 1;
    if (empty) {
        if (r->say) r->say(r->ctx, r->depth ? r->name[r->depth - 1] : "", r->name[r->depth], "");
        r->leaf = false;
    } else {
        r->depth++;
        r->leaf = true;
    }
    return QR_OK;
}

static enum qr_code passed_over(struct xml_reader *r, const char *end, struct qr_err *err) {
    const char *at = find(r, end);
    if (!at) return broken(r, "it is cut", err);
    r->at = at + strlen(end);
    return QR_OK;
}

static bool begins(const struct xml_reader *r, const char *with) {
    size_t n = strlen(with);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, with, n) == 0;
}

static enum qr_code step(struct xml_reader *r, struct qr_err *err) {
    if (*r->at == '&') return entity(r, err);
    if (*r->at != '<') {
        if (r->depth) qr_buf_put(&r->text, r->at, 1);
        else if (!strchr(" \t\r\n", *r->at)) return broken(r, "text outside", err);
        r->at++;
        return QR_OK;
    }
    if (begins(r, "<?")) return passed_over(r, "?>", err);
    if (begins(r, "<!--")) return passed_over(r, "-->", err);
    if (begins(r, "<!")) return broken(r, "a declaration", err);
    return begins(r, "</") ? closing(r, err) : opening(r, err);
}

enum qr_code qr_s3_xml(struct qr_bytes body, const char *root, qr_s3_leaf *leaf, void *ctx,
                       struct qr_err *err) {
    struct xml_reader r = {
        .at = (const char *)body.p, .end = (const char *)body.p + body.n, .say = leaf, .ctx = ctx};
    bool seen = false;
    enum qr_code code = QR_OK;
    if (body.n && memchr(body.p, 0, body.n)) return broken(&r, "a NUL", err);
    if (begins(&r, "\xef\xbb\xbf")) r.at += 3;
    while (code == QR_OK && r.at < r.end) {
        int before = r.depth;
        bool one_more =
            seen && before == 0 && *r.at == '<' && !begins(&r, "<!") && !begins(&r, "<?");
        code = one_more ? broken(&r, "two roots", err) : step(&r, err);
        if (code == QR_OK && before == 0 && r.depth == 1) {
            seen = true;
            if (strcmp(r.name[0], root) != 0) code = broken(&r, "another document", err);
        }
    }
    if (code == QR_OK && (!seen || r.depth)) code = broken(&r, "it is cut", err);
    qr_buf_free(&r.text);
    return code;
}

/* ---- errors ---- */

static void keep(char *to, size_t bytes, const char *text) {
    size_t n = 0;
    for (; *text && n + 1 < bytes; text++)
        if ((unsigned char)*text >= ' ' && *text != 127) to[n++] = *text;
    /* not in the middle of a character */
    while (n && ((unsigned char)to[n - 1] & 0xc0) == 0x80 && *text) n--;
    if (n && *text && ((unsigned char)to[n - 1] & 0xc0) == 0xc0) n--;
    to[n] = 0;
}

static void error_leaf(void *ctx, const char *parent, const char *name, const char *text) {
    struct qr_s3_error *e = ctx;
    if (strcmp(parent, "Error") != 0) return;
    if (strcmp(name, "Code") == 0) keep(e->code, sizeof e->code, text);
    else if (strcmp(name, "Message") == 0) keep(e->message, sizeof e->message, text);
    else if (strcmp(name, "Region") == 0) keep(e->region, sizeof e->region, text);
}

void qr_s3_error_read(struct qr_bytes body, struct qr_s3_error *ret) {
    struct qr_s3_error e = {0};
    struct qr_err err;
    /* STS has its own envelope around it */
    if (qr_s3_xml(body, "Error", error_leaf, &e, &err) != QR_OK &&
        qr_s3_xml(body, "ErrorResponse", error_leaf, &e, &err) != QR_OK)
        e = (struct qr_s3_error){0};
    *ret = e;
}
