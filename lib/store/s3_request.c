/* store/s3_request.c — signed S3 requests and their replies. Start reading at qr_s3_sign() and
 * qr_s3_refused(). */
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "store/s3_impl.h"

/* ---- objects ---- */

void qr_s3_object_url(const struct qr_bucket *b, const char *name, struct qr_buf *ret) {
    qr_buf_printf(ret, "%s/", b->base);
    while (*name) {
        size_t n = strcspn(name, "/");
        qr_auto(qr_free_p) char *part = qr_xstrndup(name, n);
        qr_web_escape(ret, part);
        name += n;
        if (*name == '/') qr_buf_puts(ret, "/"), name++;
    }
}

enum qr_code qr_s3_read_stored(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    struct qr_web_object o = {.size = reply->length};
    if (!*reply->etag) return qr_fail(err, QR_INVALID_ARGUMENT, "the reply lacks an ETag");
    memcpy(o.etag, reply->etag, sizeof o.etag);
    if (strlen(reply->write_id) < sizeof o.write_id)
        memcpy(o.write_id, reply->write_id, strlen(reply->write_id));
    /* Servers without checksums still store the crc32c that qring puts into the metadata. The
     * checksum of a multipart object ("…-2") covers parts and does not parse. */
    o.has_crc32c =
        qr_web_crc32c_parse(*reply->crc32c ? reply->crc32c : reply->our_crc32c, &o.crc32c);
    *(struct qr_web_object *)ctx = o;
    return QR_OK;
}

enum qr_code qr_s3_read_object(void *ctx, const struct qr_web_reply *reply, struct qr_err *err) {
    return reply->has_length ? qr_s3_read_stored(ctx, reply, err)
                             : qr_fail(err, QR_INVALID_ARGUMENT, "the reply lacks Content-Length");
}

/* ---- requests ---- */

enum qr_code qr_s3_sign(struct qr_bucket *b, const struct qr_web_call *c,
                        struct qr_bucket_request *req, struct qr_err *err) {
    const struct qr_s3 *s = (const struct qr_s3 *)b;
    const char *host = strstr(req->web.url, "://") + 3, *target = strchr(host, '/');
    size_t path = strcspn(target, "?");
    char now[QR_S3_TIME_BYTES], hash[QR_S3_HASH_BYTES];
    uint8_t digest[QR_SHA256_BYTES];
    const struct qr_s3_keys *keys;
    (void)c;
    QR_TRY(qr_s3_auth_keys(s->auth, &keys, err));
    qr_s3_time(qr_now_ns(s->opt.waits.wall), now);
    qr_sha256(req->web.body.p, req->web.has_body ? req->web.body.n : 0, digest);
    qr_hex(digest, sizeof digest, hash);
    qr_bucket_header(req, qr_xasprintf("Host: %s", s->host));
    qr_bucket_header(req, qr_xasprintf("x-amz-date: %s", now));
    qr_bucket_header(req, qr_xasprintf("x-amz-content-sha256: %s", hash));
    if (keys->session)
        qr_bucket_header(req, qr_xasprintf("x-amz-security-token: %s", keys->session));
    qr_auto(qr_free_p) char *plain = qr_xstrndup(target, path);
    const struct qr_s3_signing signing = {.method = req->web.method,
                                          .path = plain,
                                          .query = target[path] ? target + path + 1 : "",
                                          .headers = req->web.headers,
                                          .n_headers = req->web.n_headers,
                                          .payload = hash,
                                          .time = now,
                                          .region = s->region,
                                          .service = "s3"};
    qr_bucket_header(req, qr_s3_authorization(&signing, keys));
    if (s->opt.extra_header) req->web.headers[req->web.n_headers++] = s->opt.extra_header;
    req->web.ca_file = s->opt.ca_file;
    return QR_OK;
}

bool qr_s3_is_error(const struct qr_web_reply *reply, const char *const *codes) {
    struct qr_s3_error e;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    for (; *codes; codes++)
        if (strcmp(e.code, *codes) == 0) return true;
    return false;
}

/* True when the server rejected the keys: renewed ones may be accepted. */
static bool keys_refused(const struct qr_web_reply *reply) {
    static const char *const codes[] = {"ExpiredToken",         "InvalidAccessKeyId",
                                        "InvalidToken",         "TokenRefreshRequired",
                                        "InvalidClientTokenId", NULL};
    return reply->status == 401 ||
           ((reply->status == 400 || reply->status == 403) && qr_s3_is_error(reply, codes));
}

bool qr_s3_renew(struct qr_bucket *b, const struct qr_web_request *req,
                 const struct qr_web_reply *reply) {
    (void)req;
    return keys_refused(reply) && qr_s3_auth_drop(((struct qr_s3 *)b)->auth);
}

bool qr_s3_retryable(const struct qr_web_reply *reply) {
    static const char *const conflicts[] = {"ConditionalRequestConflict", "OperationAborted", NULL},
                             *const slow[] = {"RequestTimeout", NULL};
    if (reply->status == 409) return qr_s3_is_error(reply, conflicts);
    if (reply->status == 400) return qr_s3_is_error(reply, slow);
    return reply->status != 501 && qr_web_retryable(reply->status);
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

enum qr_code qr_s3_refused(void *bucket, const struct qr_web_call *c,
                           const struct qr_web_reply *reply, struct qr_err *err) {
    const struct qr_s3 *s = bucket;
    const struct qr_web_bucket *p = &s->bucket.web_bucket;
    struct qr_s3_error e;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    const char *region = *e.region ? e.region : reply->region, *b = s->bucket.name;
    char what[300];
    snprintf(what, sizeof what, "%d%s%s%s%s", reply->status, *e.code ? " " : "", e.code,
             *e.message ? ": " : "", e.message);
    if (*region && strcmp(region, s->region) != 0 && reply->status != 404)
        return qr_web_fail(p, err, QR_INVALID_ARGUMENT, c->name,
                           ": %s rejected (%s): the bucket is in region %.60s, not %s; set "
                           "AWS_REGION=%.60s",
                           c->doing, what, region, s->region, region);
    if (strcmp(e.code, "RequestTimeTooSkewed") == 0)
        return qr_web_fail(p, err, QR_INVALID_ARGUMENT, c->name,
                           ": %s rejected (%s): set this machine's clock", c->doing, what);
    if (keys_refused(reply) || strcmp(e.code, "SignatureDoesNotMatch") == 0)
        return qr_web_fail(p, err, QR_UNAUTHENTICATED, c->name,
                           ": %s rejected (%s): the keys are not accepted; check "
                           "AWS_ACCESS_KEY_ID, the profile or this pod's role",
                           c->doing, what);
    switch (reply->status) {
    case 403:
        return qr_web_fail(p, err, QR_PERMISSION_DENIED, c->name,
                           ": %s rejected (%s): allow this worker's role %s on bucket %s", c->doing,
                           what, action_of(c->doing), b);
    case 404:
        return qr_web_fail(p, err, QR_NOT_FOUND, c->name,
                           ": %s: not found (%s): check the names of bucket %s and object",
                           c->doing, what, b);
    case 501:
        return qr_web_fail(p, err, QR_UNIMPLEMENTED, c->name,
                           ": %s: not supported by this server (%s); use one with "
                           "conditional writes (If-None-Match, If-Match)",
                           c->doing, what);
    default:
        return qr_web_fail(p, err, QR_INVALID_ARGUMENT, c->name, ": %s rejected (%s)", c->doing,
                           what);
    }
}

void qr_s3_error_code(struct qr_bytes body, char *ret, size_t bytes) {
    struct qr_s3_error e;
    qr_s3_error_read(body, &e);
    snprintf(ret, bytes, "%s", e.code);
}
