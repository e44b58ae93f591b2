/* store/gcs_auth.c — OAuth tokens for Cloud Storage: service account, gcloud login, workload
 * identity federation, metadata server. Start reading at qr_gcs_auth_header(). */
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "format/json.h"
#include "store/gcs_impl.h"

enum { MAX_FILE_BYTES = 1 << 20, MAX_TOKEN_BYTES = 64 << 10, TOKEN_TIMEOUT_MS = 10000 };
static const int64_t early_ns = 225 * QR_SECOND; /* a token with less time left is renewed */
/* The metadata server of a pod may start later than the pod. */
static const int64_t patience_ns = 30 * QR_SECOND;
static const char storage_scope[] = "https://www.googleapis.com/auth/devstorage.read_write";
static const char cloud_scope[] = "https://www.googleapis.com/auth/cloud-platform";
static const char google_token_url[] = "https://oauth2.googleapis.com/token";

enum source { UNDECIDED, NONE, METADATA, SERVICE_ACCOUNT, USER, EXTERNAL };
struct qr_gcs_auth {
    const struct qr_gcs_options *opt;
    struct qr_web *http;
    enum source source;
    char *path; /* of the credentials file */
    struct qr_json *file;
    char *header; /* "Authorization: Bearer …" */
    int64_t expires_ns, began_ns;
    bool there; /* a metadata server has replied, even with an error */
};

struct qr_gcs_auth *qr_gcs_auth_new(const struct qr_gcs_options *opt, struct qr_web *http) {
    struct qr_gcs_auth *a = qr_xcalloc(1, sizeof *a);
    a->opt = opt;
    a->http = http;
    return a;
}

bool qr_gcs_auth_drop(struct qr_gcs_auth *a) {
    if (!a->header) return false;
    qr_web_wipe_text(&a->header);
    return true;
}

void qr_gcs_auth_free(struct qr_gcs_auth *a) {
    if (!a) return;
    qr_gcs_auth_drop(a);
    qr_json_free(a->file);
    free(a->path);
    free(a);
}

/* ---- the credentials file ---- */

static enum qr_code credentials_text(const struct qr_gcs_auth *a, const char *key, const char **ret,
                                     struct qr_err *err) {
    if (qr_json_string(qr_json_get(a->file, key), key, ret, QR_IGNORED) == QR_OK) return QR_OK;
    /* The message does not quote the value: it may be a secret. */
    return qr_fail(err, QR_INVALID_ARGUMENT, "credentials %s: %s is missing or not a string",
                   a->path, key);
}

/* A credentials file of unknown origin must not send keys to hosts other than Google's or this
 * machine. */
static const struct qr_web_trusted trusted[] = {
    {.host = "127.0.0.1"},
    {.host = "localhost"},
    {.host = "[::1]"},
    {true, "*.googleapis.com:443"},
    {true, "accounts.google.com:443"}, /* in files from before 2018 */
};

static enum qr_code credentials_url(const struct qr_gcs_auth *a, const char *key,
                                    const char *standard, const char **ret, struct qr_err *err) {
    *ret = standard;
    if (!qr_json_get(a->file, key) && standard) return QR_OK;
    QR_TRY(credentials_text(a, key, ret, err));
    if (qr_web_url_trusted(*ret, trusted, sizeof trusted / sizeof *trusted)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "credentials %s: %s is not an https address below googleapis.com; secrets are "
                   "sent to no other host",
                   a->path, key);
}

static enum qr_code read_credentials(struct qr_gcs_auth *a, const char *path, struct qr_err *err) {
    static const struct {
        const char *type;
        enum source source;
    } types[] = {{"service_account", SERVICE_ACCOUNT},
                 {"authorized_user", USER},
                 {"external_account", EXTERNAL}};
    qr_auto(qr_web_wipe) struct qr_buf text = {0};
    const char *type;
    qr_auto(qr_free_p) char *what = qr_xasprintf("credentials %s", path);
    qr_json_free(QR_MOVE(a->file)); /* of an earlier try */
    free(QR_MOVE(a->path));
    if (qr_file_read(path, MAX_FILE_BYTES, &text, err) != QR_OK ||
        qr_json_parse(qr_buf_view(&text), what, &a->file, err) != QR_OK)
        return qr_wrap(err, "cannot read Cloud Storage credentials");
    a->path = qr_xstrdup(path);
    QR_TRY(credentials_text(a, "type", &type, err));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].type, type) == 0) return a->source = types[i].source, QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "credentials %s: type '%.40s' is not supported; use service_account, "
                   "authorized_user or external_account",
                   path, type);
}

static enum qr_code gcs_choose_source(struct qr_gcs_auth *a, struct qr_err *err) {
    const struct qr_gcs_options *o = a->opt;
    if (o->emulator_host && *o->emulator_host) {
        a->source = o->metadata_host && *o->metadata_host ? METADATA : NONE;
        return QR_OK;
    }
    if (o->credentials && *o->credentials) return read_credentials(a, o->credentials, err);
    if (o->gcloud_dir && *o->gcloud_dir) {
        qr_auto(qr_free_p) char *path =
            qr_path_join(o->gcloud_dir, "application_default_credentials.json");
        if (qr_file_exists(path)) return read_credentials(a, path, err);
    }
    if (o->no_metadata && !(o->metadata_host && *o->metadata_host))
        return qr_fail(
            err, QR_UNAUTHENTICATED,
            "no credentials for Cloud Storage: GOOGLE_APPLICATION_CREDENTIALS names no file, "
            "gcloud has none (gcloud auth "
            "application-default login), and NO_GCE_CHECK disables the metadata server");
    a->source = METADATA;
    return QR_OK;
}

/* ---- token replies ---- */

static void auth_keep_token(struct qr_gcs_auth *a, const char *token, int64_t seconds) {
    qr_gcs_auth_drop(a);
    a->header = qr_xasprintf("Authorization: Bearer %s", token);
    a->expires_ns = qr_now_ns(a->opt->waits.clock) + seconds * QR_SECOND;
}

/* The message quotes only the two fields that OAuth defines for display. root NULL: not JSON. */
static enum qr_code token_refused(const char *what, const struct qr_web_reply *r,
                                  const struct qr_json *root, struct qr_err *err) {
    const char *reason = qr_json_text(qr_json_get(root, "error"), "no reason given"),
               *description = qr_json_text(qr_json_get(root, "error_description"), "");
    /* RFC 6749, 5.2: a rejection has its reason in JSON. */
    bool cut = !root && (r->status == 400 || r->status == 401);
    bool again = cut || qr_web_retryable(r->status) || strcmp(reason, "internal_failure") == 0 ||
                 strcmp(reason, "server_error") == 0 ||
                 strcmp(reason, "temporarily_unavailable") == 0;
    return qr_fail(err, again ? QR_UNAVAILABLE : QR_UNAUTHENTICATED,
                   "%s returned no token: %d, %.80s%s%.200s%s", what, r->status, reason,
                   *description ? ": " : "", description, again ? "" : "; check the credentials");
}

/* what: name of the server, for messages. */
static enum qr_code gcs_read_token(struct qr_gcs_auth *a, const char *what, const char *key,
                                   const struct qr_web_reply *r, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    int64_t seconds;
    bool parsed = qr_json_parse(qr_buf_view(&r->body), what, &root, QR_IGNORED) == QR_OK;
    if (r->status != 200) return token_refused(what, r, parsed ? root : NULL, err);
    const char *token = parsed ? qr_json_text(qr_json_get(root, key), "") : "";
    if (!qr_web_is_token(token, strlen(token)))
        return qr_fail(err, QR_UNAVAILABLE, "%s returned 200 without a token", what);
    if (qr_json_i64(qr_json_get(root, "expires_in"), "expires_in", 0, 1 << 24, &seconds,
                    QR_IGNORED) != QR_OK)
        seconds = 3600;
    auth_keep_token(a, token, seconds);
    return QR_OK;
}

static enum qr_code post_token_request(struct qr_gcs_auth *a, const char *url, const char *type,
                                       const char *extra, const struct qr_buf *body,
                                       const char *what, const char *key, struct qr_err *err) {
    struct qr_web_request req = {.method = "POST",
                                 .url = url,
                                 .headers = {type, extra},
                                 .n_headers = extra ? 2 : 1,
                                 .has_body = true,
                                 .body = qr_buf_view(body),
                                 .max_reply_bytes = MAX_TOKEN_BYTES,
                                 .timeout_ms = TOKEN_TIMEOUT_MS};
    qr_auto(qr_web_reply_wipe) struct qr_web_reply reply = {0};
    QR_TRY(a->http->send(a->http, &req, &reply, err));
    return gcs_read_token(a, what, key, &reply, err);
}

/* Posts a form to the token endpoint. */
static enum qr_code post_form(struct qr_gcs_auth *a, const char *url, const struct qr_buf *form,
                              const char *what, struct qr_err *err) {
    return post_token_request(a, url, "Content-Type: application/x-www-form-urlencoded", NULL, form,
                              what, "access_token", err);
}

/* ---- metadata server ---- */

static enum qr_code request_metadata(struct qr_gcs_auth *a, struct qr_err *err) {
    const char *host = a->opt->metadata_host && *a->opt->metadata_host ? a->opt->metadata_host
                                                                       : "metadata.google.internal";
    if (strncmp(host, "http://", 7) == 0) host += 7;
    int n = (int)strcspn(host, "/");
    qr_auto(qr_free_p) char *url = qr_xasprintf(
        "http://%.*s/computeMetadata/v1/instance/service-accounts/default/token", n, host);
    struct qr_web_request req = {.method = "GET",
                                 .url = url,
                                 .headers = {"Metadata-Flavor: Google"},
                                 .n_headers = 1,
                                 .max_reply_bytes = MAX_TOKEN_BYTES,
                                 .timeout_ms = TOKEN_TIMEOUT_MS,
                                 .direct = true};
    qr_auto(qr_web_reply_wipe) struct qr_web_reply reply = {0};
    enum qr_code code = a->http->send(a->http, &req, &reply, err);
    a->there |= reply.from_metadata;
    if (code == QR_OK && reply.status == 200 && !reply.from_metadata)
        return qr_fail(err, QR_UNAVAILABLE, "%s is not a metadata server", host);
    return code == QR_OK ? gcs_read_token(a, "the metadata server", "access_token", &reply, err)
                         : code;
}

static enum qr_code gcs_fetch_metadata(struct qr_gcs_auth *a, struct qr_err *err) {
    if (!a->began_ns) a->began_ns = qr_web_awake_ns(&a->opt->waits) + 1;
    enum qr_code code = request_metadata(a, err);
    if (code != QR_UNAVAILABLE || a->there ||
        qr_web_awake_ns(&a->opt->waits) - a->began_ns <= patience_ns)
        return code;
    struct qr_err last = *err;
    return qr_fail(err, QR_UNAUTHENTICATED,
                   "no credentials for Cloud Storage: GOOGLE_APPLICATION_CREDENTIALS is not set, "
                   "gcloud has no file (gcloud auth application-default login), and there is no "
                   "metadata server (%.200s)",
                   last.msg);
}

/* ---- service account ---- */

static void base64url(struct qr_buf *b, const void *p, size_t n) {
    unsigned char *text = qr_xmalloc(4 * (n / 3 + 1) + 1);
    int length = EVP_EncodeBlock(text, p, (int)n);
    for (int i = 0; i < length && text[i] != '='; i++) {
        char c = text[i] == '+' ? '-' : text[i] == '/' ? '_' : (char)text[i];
        qr_buf_put(b, &c, 1);
    }
    free(text);
}

static bool sign_jwt(const char *pem, struct qr_buf *jwt) {
    BIO *bio = BIO_new_mem_buf(pem, -1);
    /* Empty pass phrase: without one OpenSSL would prompt on the terminal for an encrypted key. */
    static char none[] = "";
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, none) : NULL;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    size_t n = key ? (size_t)EVP_PKEY_size(key) : 0;
    unsigned char *signature = qr_xmalloc(n + 1);
    bool ok = key && ctx && EVP_PKEY_base_id(key) == EVP_PKEY_RSA &&
              EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
              EVP_DigestSign(ctx, signature, &n, jwt->p, jwt->n) == 1;
    if (ok) {
        qr_buf_puts(jwt, ".");
        base64url(jwt, signature, n);
    }
    free(signature);
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    BIO_free(bio);
    return ok;
}

static enum qr_code gcs_fetch_service_account(struct qr_gcs_auth *a, struct qr_err *err) {
    const char *email, *pem, *url, *id = qr_json_text(qr_json_get(a->file, "private_key_id"), "");
    qr_auto(qr_buf_free) struct qr_buf part = {0}, jwt = {0}, body = {0};
    QR_TRY(credentials_text(a, "client_email", &email, err));
    QR_TRY(credentials_text(a, "private_key", &pem, err));
    QR_TRY(credentials_url(a, "token_uri", google_token_url, &url, err));
    int64_t now = qr_now_ns(a->opt->waits.wall) / QR_SECOND;
    struct qr_json_writer w = qr_json_writer(&part, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "alg", "RS256");
    qr_json_key_string(&w, "typ", "JWT");
    if (*id) qr_json_key_string(&w, "kid", id);
    qr_json_close(&w, '}');
    base64url(&jwt, part.p, part.n);
    qr_buf_clear(&part);
    w = qr_json_writer(&part, 0);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "iss", email);
    qr_json_key_string(&w, "scope", storage_scope);
    qr_json_key_string(&w, "aud", url);
    qr_json_key_i64(&w, "iat", now);
    qr_json_key_i64(&w, "exp", now + 3600);
    qr_json_close(&w, '}');
    qr_buf_puts(&jwt, ".");
    base64url(&jwt, part.p, part.n);
    if (!sign_jwt(pem, &jwt))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "credentials %s: private_key is not an RSA key in PEM form without a pass "
                       "phrase; download the key file again",
                       a->path);
    qr_web_put_field(&body, "grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer");
    qr_web_put_field(&body, "assertion", qr_buf_string(&jwt));
    return post_form(a, url, &body, "the token endpoint", err);
}

/* ---- gcloud login ---- */

static enum qr_code gcs_fetch_user(struct qr_gcs_auth *a, struct qr_err *err) {
    static const char *const keys[] = {"client_id", "client_secret", "refresh_token"};
    const char *url, *value;
    qr_auto(qr_web_wipe) struct qr_buf body = {0};
    qr_web_put_field(&body, "grant_type", "refresh_token");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        QR_TRY(credentials_text(a, keys[i], &value, err));
        qr_web_put_field(&body, keys[i], value);
    }
    QR_TRY(credentials_url(a, "token_uri", google_token_url, &url, err));
    return post_form(a, url, &body, "the token endpoint", err);
}

/* ---- federation ---- */

static enum qr_code fetch_subject(struct qr_gcs_auth *a, const struct qr_json *source,
                                  const char *url, struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_bucket_request_fini) struct qr_bucket_request req = {
        .web = {.method = "GET",
                .url = url,
                .max_reply_bytes = MAX_TOKEN_BYTES,
                .timeout_ms = TOKEN_TIMEOUT_MS,
                .direct = true}};
    qr_auto(qr_web_reply_fini) struct qr_web_reply reply = {0};
    for (const struct qr_json *h = qr_json_first(qr_json_get(source, "headers"));
         h && req.web.n_headers < QR_WEB_MAX_HEADERS; h = qr_json_next(h)) {
        const char *value = qr_json_text(h, NULL);
        if (value) qr_bucket_header(&req, qr_xasprintf("%s: %s", qr_json_key(h), value));
    }
    QR_TRY(a->http->send(a->http, &req.web, &reply, err));
    if (reply.status != 200)
        return qr_fail(err, qr_web_retryable(reply.status) ? QR_UNAVAILABLE : QR_UNAUTHENTICATED,
                       "credentials %s: credential_source.url returned %d", a->path, reply.status);
    qr_buf_put(ret, reply.body.p, reply.body.n);
    return QR_OK;
}

/* Replaces a subject token in JSON by its field. malformed: the code when it is not JSON. */
static enum qr_code extract_subject(const struct qr_gcs_auth *a, const struct qr_json *format,
                                    enum qr_code malformed, struct qr_buf *ret,
                                    struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    const char *key, *token;
    QR_TRY(qr_json_string(qr_json_get(format, "subject_token_field_name"),
                          "credential_source.format.subject_token_field_name", &key, err));
    if (qr_json_parse(qr_buf_view(ret), "the subject token", &root, err) != QR_OK)
        return qr_fail(err, malformed, "credentials %s: the subject token is not JSON", a->path);
    QR_TRY(qr_json_string(qr_json_get(root, key), key, &token, err));
    qr_buf_clear(ret);
    qr_buf_puts(ret, token);
    return QR_OK;
}

/* Reads the token anew each time: a projected token is renewed in place. */
static enum qr_code subject_token(struct qr_gcs_auth *a, struct qr_buf *ret, struct qr_err *err) {
    const struct qr_json *source = qr_json_get(a->file, "credential_source"),
                         *format = qr_json_get(source, "format");
    const char *file = qr_json_text(qr_json_get(source, "file"), NULL),
               *url = qr_json_text(qr_json_get(source, "url"), NULL);
    if (!file && !url)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "credentials %s: credential_source has neither a file nor a url; other "
                       "sources are not supported",
                       a->path);
    if ((file ? qr_file_read(file, MAX_TOKEN_BYTES, ret, err)
              : fetch_subject(a, source, url, ret, err)) != QR_OK)
        return qr_wrap(err, "cannot read the subject token");
    /* A malformed file is final; the reply of a server may have been truncated. */
    if (strcmp(qr_json_text(qr_json_get(format, "type"), "text"), "json") == 0)
        QR_TRY(extract_subject(a, format, file ? QR_INVALID_ARGUMENT : QR_UNAVAILABLE, ret, err));
    qr_web_trim(ret);
    return ret->n ? QR_OK
                  : qr_fail(err, file ? QR_UNAUTHENTICATED : QR_UNAVAILABLE,
                            "credentials %s: the subject token is empty", a->path);
}

static enum qr_code impersonate(struct qr_gcs_auth *a, const char *url, struct qr_err *err) {
    qr_auto(qr_web_wipe_text) char *bearer = QR_MOVE(a->header);
    qr_auto(qr_buf_free) struct qr_buf body = {0};
    qr_buf_printf(&body, "{\"scope\":[\"%s\"],\"lifetime\":\"3600s\"}", storage_scope);
    return post_token_request(a, url, "Content-Type: application/json", bearer, &body,
                              "the impersonated account", "accessToken", err);
}

static enum qr_code gcs_fetch_external(struct qr_gcs_auth *a, struct qr_err *err) {
    const char *audience, *type, *url, *account = NULL;
    qr_auto(qr_web_wipe) struct qr_buf subject = {0}, body = {0};
    QR_TRY(credentials_text(a, "audience", &audience, err));
    QR_TRY(credentials_text(a, "subject_token_type", &type, err));
    QR_TRY(credentials_url(a, "token_url", "https://sts.googleapis.com/v1/token", &url, err));
    if (qr_json_get(a->file, "service_account_impersonation_url"))
        QR_TRY(credentials_url(a, "service_account_impersonation_url", NULL, &account, err));
    QR_TRY(subject_token(a, &subject, err));
    qr_web_put_field(&body, "grant_type", "urn:ietf:params:oauth:grant-type:token-exchange");
    qr_web_put_field(&body, "audience", audience);
    qr_web_put_field(&body, "scope", cloud_scope);
    qr_web_put_field(&body, "requested_token_type",
                     "urn:ietf:params:oauth:token-type:access_token");
    qr_web_put_field(&body, "subject_token", qr_buf_string(&subject));
    qr_web_put_field(&body, "subject_token_type", type);
    QR_TRY(post_form(a, url, &body, "the token exchange", err));
    return account ? impersonate(a, account, err) : QR_OK;
}

/* ---- all sources ---- */

enum qr_code qr_gcs_auth_header(struct qr_gcs_auth *a, const char **ret, struct qr_err *err) {
    enum qr_code code;
    int64_t left = a->header ? a->expires_ns - qr_now_ns(a->opt->waits.clock) : 0;
    if (a->source == UNDECIDED) QR_TRY(gcs_choose_source(a, err));
    if (a->source == NONE || left > early_ns) return *ret = a->header, QR_OK;
    switch (a->source) {
    case METADATA: code = gcs_fetch_metadata(a, err); break;
    case SERVICE_ACCOUNT: code = gcs_fetch_service_account(a, err); break;
    case USER: code = gcs_fetch_user(a, err); break;
    default: code = gcs_fetch_external(a, err); break;
    }
    /* Use a token that is still valid when no new one is available. */
    if (code != QR_OK && !(a->header && left > 0)) return code;
    *ret = a->header;
    return QR_OK;
}
