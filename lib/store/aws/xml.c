/* store/aws/xml.c — XML replies of S3 and STS, parsed by Expat. Start reading at qr_s3_xml(). */
#include <expat.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "store/aws/aws.h"

enum { MAX_DEPTH = 16, MAX_NAME = 64 };

struct xml_reader {
    XML_Parser parser;
    const char *root, *rejected; /* rejected: the reason, or NULL */
    char name[MAX_DEPTH][MAX_NAME];
    int depth;
    bool leaf; /* only text since the last start tag */
    struct qr_buf text;
    qr_s3_leaf *leaf_fn;
    void *ctx;
};

static void xml_reject(struct xml_reader *r, const char *why) {
    r->rejected = why;
    XML_StopParser(r->parser, XML_FALSE);
}

static void XMLCALL on_start(void *ctx, const char *name, const char **attributes) {
    struct xml_reader *r = ctx;
    (void)attributes;
    if (r->depth == 0 && strcmp(name, r->root) != 0)
        return xml_reject(r, "unexpected root element");
    if (r->depth == MAX_DEPTH) return xml_reject(r, "nested too deeply");
    if (strlen(name) >= MAX_NAME) return xml_reject(r, "an element's name is too long");
    memcpy(r->name[r->depth++], name, strlen(name) + 1);
    r->leaf = true;
    qr_buf_clear(&r->text);
}

static void XMLCALL on_end(void *ctx, const char *name) {
    struct xml_reader *r = ctx;
    if (r->rejected) return; /* Expat still reports the end of an empty element */
    r->depth--;
    if (r->leaf)
        r->leaf_fn(r->ctx, r->depth ? r->name[r->depth - 1] : "", name, qr_buf_string(&r->text));
    r->leaf = false;
}

static void XMLCALL on_text(void *ctx, const char *text, int n) {
    qr_buf_put(&((struct xml_reader *)ctx)->text, text, (size_t)n);
}

/* A DTD could define entities that expand without bound. */
static void XMLCALL on_doctype(void *ctx, const char *name, const char *system, const char *public,
                               int internal) {
    (void)name, (void)system, (void)public, (void)internal;
    xml_reject(ctx, "declarations are not supported");
}

enum qr_code qr_s3_xml(struct qr_bytes body, const char *root, qr_s3_leaf *leaf, void *ctx,
                       struct qr_err *err) {
    static const XML_Memory_Handling_Suite memory = {qr_xmalloc, qr_xrealloc, free};
    struct xml_reader r = {.root = root, .leaf_fn = leaf, .ctx = ctx};
    if (body.n > QR_WEB_REPLY_BYTES)
        return qr_fail(err, QR_INVALID_ARGUMENT, "malformed XML: more than %d bytes",
                       QR_WEB_REPLY_BYTES);
    r.parser = XML_ParserCreate_MM("UTF-8", &memory, NULL);
    XML_SetUserData(r.parser, &r);
    XML_SetElementHandler(r.parser, on_start, on_end);
    XML_SetCharacterDataHandler(r.parser, on_text);
    XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
    bool whole = XML_Parse(r.parser, (const char *)body.p, (int)body.n, XML_TRUE) == XML_STATUS_OK;
    const char *why = r.rejected ? r.rejected : XML_ErrorString(XML_GetErrorCode(r.parser));
    enum qr_code code = whole ? QR_OK : qr_fail(err, QR_INVALID_ARGUMENT, "malformed XML: %s", why);
    XML_ParserFree(r.parser);
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
    struct qr_err err;
    *ret = (struct qr_s3_error){0};
    /* STS wraps the error in an ErrorResponse. */
    if (qr_s3_xml(body, "Error", error_leaf, ret, &err) != QR_OK &&
        qr_s3_xml(body, "ErrorResponse", error_leaf, ret, &err) != QR_OK)
        *ret = (struct qr_s3_error){0};
}
