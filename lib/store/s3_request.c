/* store/s3_request.c — signed S3 requests and their error replies. Start reading at s3_attempt()
 * and qr_s3_refused(). */
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "store/s3_impl.h"

enum qr_code qr_s3_read_object(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_s3_object o = {.size = reply->length};
    if (!*reply->etag || !reply->has_length)
        return qr_fail(err, QR_INVALID_ARGUMENT, "the reply lacks an ETag or Content-Length");
    memcpy(o.etag, reply->etag, sizeof o.etag);
    if (strlen(reply->write_id) < sizeof o.write_id)
        memcpy(o.write_id, reply->write_id, strlen(reply->write_id));
    /* Servers without checksums still store the crc32c that qring puts into the metadata. The
     * checksum of a multipart object ("…-2") covers parts and does not parse. */
    o.has_crc32c =
        qr_web_crc32c_parse(*reply->crc32c ? reply->crc32c : reply->our_crc32c, &o.crc32c);
    *(struct qr_s3_object *)ctx = o;
    return QR_OK;
}

/* ---- names ---- */

void qr_s3_object_url(const struct qr_s3 *s, const char *name, struct qr_buf *ret) {
    qr_buf_printf(ret, "%s/", s->base);
    while (*name) {
        size_t n = strcspn(name, "/");
        qr_auto(qr_free_p) char *part = qr_xstrndup(name, n);
        qr_web_escape(ret, part);
        name += n;
        if (*name == '/') qr_buf_puts(ret, "/"), name++;
    }
}

/* ---- requests ---- */

/* Adds the signature headers to req. Their texts are in `own`, which the caller frees. */
enum { OWN = 5 };
static void s3_sign(const struct qr_s3 *s, const struct qr_s3_keys *keys,
                    struct qr_web_request *req, char *own[OWN]) {
    char now[QR_S3_TIME_BYTES], hash[QR_S3_HASH_BYTES];
    uint8_t digest[QR_SHA256_BYTES];
    const char *host = strstr(req->url, "://") + 3, *target = strchr(host, '/');
    size_t path = strcspn(target, "?");
    qr_s3_time(qr_now_ns(s->opt.waits.wall), now);
    qr_sha256(req->body.p, req->has_body ? req->body.n : 0, digest);
    qr_hex(digest, sizeof digest, hash);
    own[0] = qr_xasprintf("Host: %s", s->host);
    own[1] = qr_xasprintf("x-amz-date: %s", now);
    own[2] = qr_xasprintf("x-amz-content-sha256: %s", hash);
    own[3] = keys->session ? qr_xasprintf("x-amz-security-token: %s", keys->session) : NULL;
    for (int i = 0; i < 4; i++)
        if (own[i]) req->headers[req->n_headers++] = own[i];
    qr_auto(qr_free_p) char *plain = qr_xstrndup(target, path);
    const struct qr_s3_signing signing = {.method = req->method,
                                          .path = plain,
                                          .query = target[path] ? target + path + 1 : "",
                                          .headers = req->headers,
                                          .n_headers = req->n_headers,
                                          .payload = hash,
                                          .time = now,
                                          .region = s->region,
                                          .service = "s3"};
    own[4] = qr_s3_authorization(&signing, keys);
    req->headers[req->n_headers++] = own[4];
}

/* True when the server rejected the keys: renewed ones may be accepted. */
static bool keys_refused(const struct qr_web_reply *reply) {
    static const char *const codes[] = {"ExpiredToken", "InvalidAccessKeyId", "InvalidToken",
                                        "TokenRefreshRequired", "InvalidClientTokenId"};
    struct qr_s3_error e;
    if (reply->status != 400 && reply->status != 401 && reply->status != 403) return false;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(e.code, codes[i]) == 0) return true;
    return reply->status == 401;
}

static enum qr_code s3_attempt(void *store, const struct qr_web_call *c,
                               const struct qr_web_request *req, struct qr_web_reply *ret,
                               struct qr_err *err) {
    struct qr_s3 *s = store;
    (void)c;
    *ret = (struct qr_web_reply){0};
    for (int tries = 0;; tries++) {
        struct qr_web_request r = *req;
        const struct qr_s3_keys *keys;
        char *own[OWN] = {0};
        enum qr_code code = qr_s3_auth_keys(s->auth, &keys, err);
        if (code != QR_OK) return code;
        s3_sign(s, keys, &r, own);
        if (s->opt.extra_header) r.headers[r.n_headers++] = s->opt.extra_header;
        r.ca_file = s->opt.ca_file;
        code = s->web->send(s->web, &r, ret, err);
        for (int i = 0; i < OWN; i++) free(own[i]);
        if (code == QR_OK && qr_web_success(ret->status) && req->read)
            return qr_web_read(req, ret, err);
        if (code != QR_OK || tries || !keys_refused(ret) || !qr_s3_auth_drop(s->auth)) return code;
        qr_web_reply_fini(ret);
    }
}

static bool s3_retryable(const struct qr_web_reply *reply) {
    struct qr_s3_error e;
    if (reply->status == 501) return false;
    if (qr_web_retryable(reply->status)) return true;
    if (reply->status != 409 && reply->status != 400) return false;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    return reply->status == 409 ? strcmp(e.code, "ConditionalRequestConflict") == 0 ||
                                      strcmp(e.code, "OperationAborted") == 0
                                : strcmp(e.code, "RequestTimeout") == 0;
}

/* ---- error replies ---- */

/* The IAM actions that an operation needs. */
static const char *action_of(const char *doing) {
    static const char *const rows[][2] = {{"download", "s3:GetObject and s3:ListBucket"},
                                          {"list", "s3:ListBucket"},
                                          {"delete", "s3:DeleteObject"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], doing) == 0) return rows[i][1];
    return "s3:PutObject, s3:GetObject, s3:DeleteObject and s3:ListBucket";
}

enum qr_code qr_s3_refused(const struct qr_s3 *s, const struct qr_web_call *c,
                           const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_s3_error e;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    const char *region = *e.region ? e.region : reply->region, *b = s->bucket;
    char what[300];
    snprintf(what, sizeof what, "%d%s%s%s%s", reply->status, *e.code ? " " : "", e.code,
             *e.message ? ": " : "", e.message);
    if (*region && strcmp(region, s->region) != 0 && reply->status != 404)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "s3://%s/%s: %s rejected (%s): the bucket is in region %.60s, not %s; set "
                       "AWS_REGION=%.60s",
                       b, c->name, c->doing, what, region, s->region, region);
    if (strcmp(e.code, "RequestTimeTooSkewed") == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "s3://%s/%s: %s rejected (%s): set this machine's clock", b, c->name,
                       c->doing, what);
    if (keys_refused(reply) || strcmp(e.code, "SignatureDoesNotMatch") == 0)
        return qr_fail(err, QR_UNAUTHENTICATED,
                       "s3://%s/%s: %s rejected (%s): the keys are not accepted; check "
                       "AWS_ACCESS_KEY_ID, the profile or this pod's role",
                       b, c->name, c->doing, what);
    switch (reply->status) {
    case 403:
        return qr_fail(err, QR_PERMISSION_DENIED,
                       "s3://%s/%s: %s rejected (%s): allow this worker's role %s on bucket %s", b,
                       c->name, c->doing, what, action_of(c->doing), b);
    case 404:
        return qr_fail(err, QR_NOT_FOUND,
                       "s3://%s/%s: %s: not found (%s): check the names of bucket %s and object", b,
                       c->name, c->doing, what, b);
    case 412:
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "s3://%s/%s: %s: the object was changed by another writer (%s)", b, c->name,
                       c->doing, what);
    case 501:
        return qr_fail(err, QR_UNIMPLEMENTED,
                       "s3://%s/%s: %s: not supported by this server (%s); use one with "
                       "conditional writes (If-None-Match, If-Match)",
                       b, c->name, c->doing, what);
    default:
        return qr_fail(err, reply->status == 400 ? QR_INVALID_ARGUMENT : QR_UNKNOWN,
                       "s3://%s/%s: %s rejected (%s)", b, c->name, c->doing, what);
    }
}

static enum qr_code s3_refused(void *store, const struct qr_web_call *c,
                               const struct qr_web_reply *reply, struct qr_err *err) {
    return qr_s3_refused(store, c, reply, err);
}

static void error_code(struct qr_bytes body, char *ret, size_t bytes) {
    struct qr_s3_error e;
    qr_s3_error_read(body, &e);
    snprintf(ret, bytes, "%s", e.code);
}

const struct qr_web_api qr_s3_api = {"s3", s3_attempt, s3_retryable, error_code, s3_refused};
