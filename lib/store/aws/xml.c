/* store/aws/xml.c — a parser for the part of XML that S3 and STS send: elements and text. Start
 * reading at qr_s3_xml(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"
#include "store/aws/aws.h"

enum { MAX_DEPTH = 16, MAX_NAME = 64 };

struct xml_reader {
    const char *at, *end;
    char name[MAX_DEPTH][MAX_NAME];
    int depth;
    bool leaf; /* only text since the last start tag */
    struct qr_buf text;
    qr_s3_leaf *leaf_fn;
    void *ctx;
};

static enum qr_code xml_malformed(const struct xml_reader *r, const char *why, struct qr_err *err) {
    (void)r;
    return qr_fail(err, QR_INVALID_ARGUMENT, "malformed XML: %s", why);
}

static const char *xml_find(const struct xml_reader *r, const char *what) {
    return memmem(r->at, (size_t)(r->end - r->at), what, strlen(what));
}

static void put_code_point(struct qr_buf *b, uint64_t c) {
    uint8_t u[4];
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, c >>= 6) u[i] = (uint8_t)(0x80 | (c & 0x3f));
    u[0] = (uint8_t)(n == 1 ? c : (0xf00 >> n & 0xff) | c);
    qr_buf_put(b, u, n);
}

/* Parses the number of "&#x41;" ("x41") or "&#65;" ("65"); false: malformed. */
static bool xml_number(const char *s, uint64_t *ret) {
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

/* r->at is at '&'. */
static enum qr_code read_entity(struct xml_reader *r, struct qr_err *err) {
    static const struct {
        const char *name, *text;
    } known[] = {{"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};
    const char *end = xml_find(r, ";");
    uint64_t c;
    char name[12] = "";
    if (!end || end - r->at > 10) return xml_malformed(r, "unterminated entity", err);
    memcpy(name, r->at + 1, (size_t)(end - r->at - 1));
    r->at = end + 1;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0) return qr_buf_puts(&r->text, known[i].text), QR_OK;
    if (name[0] != '#' || !xml_number(name + 1, &c)) return xml_malformed(r, "unknown entity", err);
    put_code_point(&r->text, c);
    return QR_OK;
}

/* r->at is at '<' of an end tag. */
static enum qr_code read_end_tag(struct xml_reader *r, struct qr_err *err) {
    const char *end = xml_find(r, ">");
    size_t n = r->depth ? strlen(r->name[r->depth - 1]) : 0;
    if (!end || !r->depth || (size_t)(end - r->at) < n + 2 ||
        memcmp(r->at + 2, r->name[r->depth - 1], n) != 0 ||
        (size_t)(end - r->at) - 2 - n != strspn(r->at + 2 + n, " \t\r\n"))
        return xml_malformed(r, "mismatched end tag", err);
    if (r->leaf && r->leaf_fn)
        r->leaf_fn(r->ctx, r->depth > 1 ? r->name[r->depth - 2] : "", r->name[r->depth - 1],
                   qr_buf_string(&r->text));
    r->leaf = false;
    r->depth--;
    r->at = end + 1;
    return QR_OK;
}

/* Returns the '>' that ends the tag at r->at, outside quotes, or NULL. */
static const char *end_of_tag(const struct xml_reader *r) {
    char quote = 0;
    for (const char *c = r->at; c < r->end; c++) {
        if (quote ? *c == quote : *c == '"' || *c == '\'') quote = quote ? 0 : *c;
        else if (!quote && *c == '>') return c;
    }
    return NULL;
}

/* r->at is at '<' of a start tag. */
static enum qr_code read_start_tag(struct xml_reader *r, struct qr_err *err) {
    const char *end = end_of_tag(r), *begin = r->at + 1;
    size_t n = 0;
    if (!end) return xml_malformed(r, "truncated", err);
    while (begin + n < end && !strchr(" \t\r\n/<", begin[n])) n++;
    bool empty = end[-1] == '/';
    if (n == 0 || n >= MAX_NAME || memchr(begin, 0, n))
        return xml_malformed(r, "bad element name", err);
    if (r->depth == MAX_DEPTH) return xml_malformed(r, "nested too deeply", err);
    memcpy(r->name[r->depth], begin, n);
    r->name[r->depth][n] = 0;
    qr_buf_clear(&r->text);
    r->at = end + 1;
    if (empty) {
        if (r->leaf_fn)
            r->leaf_fn(r->ctx, r->depth ? r->name[r->depth - 1] : "", r->name[r->depth], "");
        r->leaf = false;
    } else {
        r->depth++;
        r->leaf = true;
    }
    return QR_OK;
}

static enum qr_code skip_to(struct xml_reader *r, const char *end, struct qr_err *err) {
    const char *at = xml_find(r, end);
    if (!at) return xml_malformed(r, "truncated", err);
    r->at = at + strlen(end);
    return QR_OK;
}

static bool xml_begins(const struct xml_reader *r, const char *with) {
    size_t n = strlen(with);
    return (size_t)(r->end - r->at) >= n && memcmp(r->at, with, n) == 0;
}

static enum qr_code xml_step(struct xml_reader *r, struct qr_err *err) {
    if (*r->at == '&') return read_entity(r, err);
    if (*r->at != '<') {
        if (r->depth) qr_buf_put(&r->text, r->at, 1);
        else if (!strchr(" \t\r\n", *r->at))
            return xml_malformed(r, "text outside the root element", err);
        r->at++;
        return QR_OK;
    }
    if (xml_begins(r, "<?")) return skip_to(r, "?>", err);
    if (xml_begins(r, "<!--")) return skip_to(r, "-->", err);
    if (xml_begins(r, "<!")) return xml_malformed(r, "declarations are not supported", err);
    return xml_begins(r, "</") ? read_end_tag(r, err) : read_start_tag(r, err);
}

enum qr_code qr_s3_xml(struct qr_bytes body, const char *root, qr_s3_leaf *leaf, void *ctx,
                       struct qr_err *err) {
    struct xml_reader r = {.at = (const char *)body.p,
                           .end = (const char *)body.p + body.n,
                           .leaf_fn = leaf,
                           .ctx = ctx};
    bool seen = false;
    enum qr_code code = QR_OK;
    if (body.n && memchr(body.p, 0, body.n)) return xml_malformed(&r, "NUL byte", err);
    if (xml_begins(&r, "\xef\xbb\xbf")) r.at += 3;
    while (code == QR_OK && r.at < r.end) {
        int before = r.depth;
        bool one_more =
            seen && before == 0 && *r.at == '<' && !xml_begins(&r, "<!") && !xml_begins(&r, "<?");
        code = one_more ? xml_malformed(&r, "more than one root element", err) : xml_step(&r, err);
        if (code == QR_OK && before == 0 && r.depth == 1) {
            seen = true;
            if (strcmp(r.name[0], root) != 0)
                code = xml_malformed(&r, "unexpected root element", err);
        }
    }
    if (code == QR_OK && (!seen || r.depth)) code = xml_malformed(&r, "truncated", err);
    qr_buf_free(&r.text);
    return code;
}

/* ---- errors ---- */

static void error_leaf(void *ctx, const char *parent, const char *name, const char *text) {
    struct qr_s3_error *e = ctx;
    if (strcmp(parent, "Error") != 0) return;
    if (strcmp(name, "Code") == 0) qr_text_cut(e->code, sizeof e->code, text);
    else if (strcmp(name, "Message") == 0) qr_text_cut(e->message, sizeof e->message, text);
    else if (strcmp(name, "Region") == 0) qr_text_cut(e->region, sizeof e->region, text);
}

void qr_s3_error_read(struct qr_bytes body, struct qr_s3_error *ret) {
    struct qr_s3_error e = {0};
    struct qr_err err;
    /* STS wraps the error in an ErrorResponse. */
    if (qr_s3_xml(body, "Error", error_leaf, &e, &err) != QR_OK &&
        qr_s3_xml(body, "ErrorResponse", error_leaf, &e, &err) != QR_OK)
        e = (struct qr_s3_error){0};
    *ret = e;
}
