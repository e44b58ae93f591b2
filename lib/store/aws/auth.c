/* store/aws/auth.c — access keys for S3 from the environment, STS, profiles, containers and
 * instance metadata. Start reading at qr_s3_auth_keys(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "format/json.h"
#include "store/aws/aws.h"

enum { MAX_TOKEN_BYTES = 64 << 10, TIMEOUT_MS = 10000, METADATA_TIMEOUT_MS = 2000 };
static const int64_t early_ns = 300 * QR_SECOND; /* keys with less time left are renewed */
/* The metadata server of an instance may start later than the process; other machines have none. */
static const int64_t patience_ns = 10 * QR_SECOND;

enum keys_source { UNDECIDED, ENVIRONMENT, WEB_IDENTITY, PROFILE, CONTAINER, METADATA };
struct qr_s3_auth {
    const struct qr_s3_options *opt;
    const char *region; /* NULL: not configured */
    struct qr_web *web;
    enum keys_source source;
    const char *role, *token_file; /* from the environment or the profile */
    struct qr_s3_profile profile;
    struct qr_s3_keys keys;
    int64_t began_ns;
    bool there; /* a metadata server has replied, even with an error */
};

struct qr_s3_auth *qr_s3_auth_new(const struct qr_s3_options *opt, const char *region,
                                  struct qr_web *web) {
    struct qr_s3_auth *a = qr_xcalloc(1, sizeof *a);
    a->opt = opt;
    a->region = region;
    a->web = web;
    return a;
}

void qr_s3_auth_free(struct qr_s3_auth *a) {
    if (!a) return;
    qr_s3_keys_fini(&a->keys);
    qr_s3_profile_fini(&a->profile);
    free(a);
}

bool qr_s3_auth_drop(struct qr_s3_auth *a) {
    if (a->source == ENVIRONMENT) return false;
    qr_s3_keys_fini(&a->keys);
    return true;
}

static bool is_token(const char *text) { return text && qr_web_is_token(text, strlen(text)); }

/* Takes the texts of k, unless the keys are malformed. */
static enum qr_code auth_store_keys(struct qr_s3_auth *a, const char *what, struct qr_s3_keys *k,
                                    enum qr_code bad, struct qr_err *err) {
    if (!is_token(k->id) || !is_token(k->secret) || (k->session && !is_token(k->session)))
        return qr_fail(err, bad, "%s has no access key and secret key", what);
    qr_s3_keys_fini(&a->keys);
    a->keys = QR_MOVE(*k);
    return QR_OK;
}

static char *copy_of(const char *text) { return text && *text ? qr_xstrdup(text) : NULL; }

static enum qr_code auth_send(struct qr_s3_auth *a, struct qr_web_request *req,
                              struct qr_web_reply *reply, struct qr_err *err) {
    req->max_reply_bytes = MAX_TOKEN_BYTES;
    if (!req->timeout_ms) req->timeout_ms = TIMEOUT_MS;
    return a->web->send(a->web, req, reply, err);
}

/* The message quotes only the code and the message of the error reply. */
static enum qr_code auth_refused(const char *what, const struct qr_web_reply *reply,
                                 struct qr_err *err) {
    struct qr_s3_error e;
    qr_s3_error_read(qr_buf_view(&reply->body), &e);
    bool again = qr_web_retryable(reply->status) || strcmp(e.code, "Throttling") == 0 ||
                 strcmp(e.code, "IDPCommunicationError") == 0;
    return qr_fail(err, again ? QR_UNAVAILABLE : QR_UNAUTHENTICATED,
                   "%s returned no keys: %d%s%s%s%s", what, reply->status, *e.code ? ", " : "",
                   e.code, *e.message ? ": " : "", e.message);
}

/* ---- STS ---- */

static void sts_leaf(void *ctx, const char *parent, const char *name, const char *text) {
    struct qr_s3_keys *k = ctx;
    int64_t expires;
    if (strcmp(parent, "Credentials") != 0) return;
    if (strcmp(name, "AccessKeyId") == 0 && !k->id) k->id = copy_of(text);
    else if (strcmp(name, "SecretAccessKey") == 0 && !k->secret) k->secret = copy_of(text);
    else if (strcmp(name, "SessionToken") == 0 && !k->session) k->session = copy_of(text);
    else if (strcmp(name, "Expiration") == 0 && qr_s3_time_parse(text, &expires))
        k->expires_ns = expires;
}

static char *sts_url(const struct qr_s3_auth *a) {
    const char *china = a->region && strncmp(a->region, "cn-", 3) == 0 ? ".cn" : "";
    if (a->opt->sts_endpoint) {
        size_t n = strlen(a->opt->sts_endpoint);
        while (n && a->opt->sts_endpoint[n - 1] == '/') n--;
        return qr_xasprintf("%.*s/", (int)n, a->opt->sts_endpoint);
    }
    return a->region ? qr_xasprintf("https://sts.%s.amazonaws.com%s/", a->region, china)
                     : qr_xstrdup("https://sts.amazonaws.com/");
}

/* Reads the token anew each time: a projected token is renewed in place. */
static enum qr_code aws_fetch_web_identity(struct qr_s3_auth *a, struct qr_err *err) {
    qr_auto(qr_web_wipe) struct qr_buf token = {0}, body = {0};
    if (qr_web_read_secret(a->token_file, &token, err) != QR_OK)
        return qr_wrap(err, "AWS_WEB_IDENTITY_TOKEN_FILE");
    qr_web_put_field(&body, "Action", "AssumeRoleWithWebIdentity");
    qr_web_put_field(&body, "RoleArn", a->role);
    qr_web_put_field(&body, "RoleSessionName",
                     a->opt->role_session ? a->opt->role_session : "qring");
    qr_web_put_field(&body, "Version", "2011-06-15");
    qr_web_put_field(&body, "WebIdentityToken", qr_buf_string(&token));
    qr_auto(qr_free_p) char *url = sts_url(a);
    struct qr_web_request req = {.method = "POST",
                                 .url = url,
                                 .headers = {"Content-Type: application/x-www-form-urlencoded"},
                                 .n_headers = 1,
                                 .has_body = true,
                                 .body = qr_buf_view(&body),
                                 .ca_file = a->opt->ca_file};
    qr_auto(qr_web_reply_wipe) struct qr_web_reply reply = {0};
    qr_auto(qr_s3_keys_fini) struct qr_s3_keys k = {0};
    struct qr_err why;
    QR_TRY(auth_send(a, &req, &reply, err));
    if (reply.status != 200) return auth_refused("STS (AssumeRoleWithWebIdentity)", &reply, err);
    if (qr_s3_xml(qr_buf_view(&reply.body), "AssumeRoleWithWebIdentityResponse", sts_leaf, &k,
                  &why) != QR_OK)
        return qr_fail(err, QR_UNAVAILABLE, "STS: malformed reply (200): %.200s", why.msg);
    return auth_store_keys(a, "STS", &k, QR_UNAVAILABLE, err);
}

/* ---- JSON endpoints ---- */

static enum qr_code aws_read_json(struct qr_s3_auth *a, const char *what,
                                  const struct qr_web_reply *reply, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *root = NULL;
    qr_auto(qr_s3_keys_fini) struct qr_s3_keys k = {0};
    if (reply->status != 200) return auth_refused(what, reply, err);
    if (qr_json_parse(qr_buf_view(&reply->body), what, &root, QR_IGNORED) != QR_OK)
        return qr_fail(err, QR_UNAVAILABLE, "%s: the reply (200) is not JSON", what);
    k.id = copy_of(qr_json_text(qr_json_get(root, "AccessKeyId"), NULL));
    k.secret = copy_of(qr_json_text(qr_json_get(root, "SecretAccessKey"), NULL));
    k.session = copy_of(qr_json_text(qr_json_get(root, "Token"), NULL));
    if (!qr_s3_time_parse(qr_json_text(qr_json_get(root, "Expiration"), ""), &k.expires_ns))
        k.expires_ns = 0;
    return auth_store_keys(a, what, &k, QR_UNAVAILABLE, err);
}

/* Secrets are exchanged only with https hosts, this machine, and the addresses of the agents of ECS
 * and EKS. */
static const struct qr_web_trusted trusted[] = {
    {.host = "127.0.0.1"},
    {.host = "localhost"},
    {.host = "[::1]"},
    {.host = "169.254.170.2"},
    {.host = "169.254.170.23"},
    {.host = "[fd00:ec2::23]"},
    {true, "*"},
};

static enum qr_code aws_fetch_container(struct qr_s3_auth *a, struct qr_err *err) {
    const struct qr_s3_options *o = a->opt;
    qr_auto(qr_web_wipe) struct qr_buf token = {0};
    qr_auto(qr_web_wipe_text) char *authorization = NULL;
    qr_auto(qr_free_p) char *url = o->container_path
                                       ? qr_xasprintf("http://169.254.170.2%s", o->container_path)
                                       : qr_xstrdup(o->container_url);
    if (!qr_web_url_trusted(url, trusted, sizeof trusted / sizeof *trusted) ||
        (o->container_path && *o->container_path != '/'))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "AWS_CONTAINER_CREDENTIALS_FULL_URI is neither https nor an address of this "
                       "machine or container; keys are requested from no other host");
    if (!o->container_token_file) qr_buf_puts(&token, o->container_token ? o->container_token : "");
    else if (qr_web_read_secret(o->container_token_file, &token, err) != QR_OK)
        return qr_wrap(err, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    qr_web_trim(&token);
    /* A token such as "Basic ..." contains a blank. */
    if (strpbrk(qr_buf_string(&token), "\r\n"))
        return qr_fail(err, QR_INVALID_ARGUMENT, "the container's token has more than one line");
    if (token.n) authorization = qr_xasprintf("Authorization: %s", qr_buf_string(&token));
    struct qr_web_request req = {.method = "GET",
                                 .url = url,
                                 .headers = {authorization},
                                 .n_headers = authorization != NULL,
                                 .direct = true,
                                 .ca_file = o->ca_file};
    qr_auto(qr_web_reply_wipe) struct qr_web_reply reply = {0};
    QR_TRY(auth_send(a, &req, &reply, err));
    return aws_read_json(a, "the container's endpoint", &reply, err);
}

/* Reads one line of the instance metadata; method PUT: the session token. */
static enum qr_code metadata_line(struct qr_s3_auth *a, const char *method, const char *path,
                                  const char *header, struct qr_web_reply *reply,
                                  struct qr_err *err) {
    const char *base = a->opt->metadata ? a->opt->metadata : "http://169.254.169.254";
    size_t n = strlen(base);
    while (n && base[n - 1] == '/') n--;
    qr_auto(qr_free_p) char *url = qr_xasprintf("%.*s/latest/%s", (int)n, base, path);
    struct qr_web_request req = {.method = method,
                                 .url = url,
                                 .headers = {header},
                                 .n_headers = 1,
                                 .has_body = strcmp(method, "PUT") == 0,
                                 .timeout_ms = METADATA_TIMEOUT_MS,
                                 .direct = true};
    enum qr_code code = auth_send(a, &req, reply, err);
    a->there |= reply->status != 0;
    QR_TRY(code);
    if (reply->status != 200) return auth_refused("the instance's metadata", reply, err);
    if (req.has_body && !is_token(qr_buf_string(&reply->body)))
        return qr_fail(err, QR_UNAVAILABLE, "the instance's metadata returned no token");
    return QR_OK;
}

static enum qr_code request_metadata(struct qr_s3_auth *a, struct qr_err *err) {
    static const char path_prefix[] = "meta-data/iam/security-credentials/";
    qr_auto(qr_web_reply_wipe) struct qr_web_reply token = {0}, role = {0}, keys = {0};
    qr_auto(qr_buf_free) struct qr_buf path = {0};
    QR_TRY(metadata_line(a, "PUT", "api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600",
                         &token, err));
    qr_auto(qr_free_p) char *header =
        qr_xasprintf("X-aws-ec2-metadata-token: %s", qr_buf_string(&token.body));
    QR_TRY(metadata_line(a, "GET", path_prefix, header, &role, err));
    const char *name = qr_buf_string(&role.body);
    qr_auto(qr_free_p) char *first = qr_xstrndup(name, strcspn(name, "\r\n"));
    qr_buf_puts(&path, path_prefix);
    qr_web_escape(&path, first);
    QR_TRY(metadata_line(a, "GET", qr_buf_string(&path), header, &keys, err));
    return aws_read_json(a, "the instance's metadata", &keys, err);
}

static enum qr_code aws_fetch_metadata(struct qr_s3_auth *a, struct qr_err *err) {
    if (!a->began_ns) a->began_ns = qr_web_awake_ns(&a->opt->waits) + 1;
    enum qr_code code = request_metadata(a, err);
    if (code != QR_UNAVAILABLE || a->there ||
        qr_web_awake_ns(&a->opt->waits) - a->began_ns <= patience_ns)
        return code;
    struct qr_err last = *err;
    return qr_fail(err, QR_UNAUTHENTICATED,
                   "no credentials for S3: neither AWS_ACCESS_KEY_ID, nor "
                   "AWS_WEB_IDENTITY_TOKEN_FILE, nor a profile in ~/.aws, nor a container's "
                   "endpoint, and there is no instance metadata (%.200s)",
                   last.msg);
}

/* ---- environment, profile; all sources ---- */

static enum qr_code aws_read_environment(struct qr_s3_auth *a, struct qr_err *err) {
    qr_auto(qr_s3_keys_fini) struct qr_s3_keys k = {.id = copy_of(a->opt->key_id),
                                                    .secret = copy_of(a->opt->secret),
                                                    .session = copy_of(a->opt->session)};
    return auth_store_keys(a, "AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY", &k,
                           QR_UNAUTHENTICATED, err);
}

static enum qr_code aws_read_profile(struct qr_s3_auth *a, struct qr_err *err) {
    qr_auto(qr_s3_profile_fini) struct qr_s3_profile p = {0};
    QR_TRY(qr_s3_profile_read(a->opt, &p, err));
    qr_auto(qr_s3_keys_fini) struct qr_s3_keys k = {p.key_id, p.secret, p.session, 0};
    p.key_id = p.secret = p.session = NULL;
    return auth_store_keys(a, "the profile in ~/.aws", &k, QR_UNAUTHENTICATED, err);
}

static enum qr_code aws_choose_source(struct qr_s3_auth *a, struct qr_err *err) {
    const struct qr_s3_options *o = a->opt;
    struct qr_s3_profile *p = &a->profile;
    if (o->key_id || o->secret) return a->source = ENVIRONMENT, QR_OK;
    if (o->role && o->token_file) {
        a->role = o->role, a->token_file = o->token_file;
        return a->source = WEB_IDENTITY, QR_OK;
    }
    if (o->token_file)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not; set both");
    qr_s3_profile_fini(p);
    QR_TRY(qr_s3_profile_read(o, p, err));
    if (p->key_id) return a->source = PROFILE, QR_OK;
    if (p->role && p->token_file) {
        a->role = p->role, a->token_file = p->token_file;
        return a->source = WEB_IDENTITY, QR_OK;
    }
    if (p->unsupported)
        return qr_fail(err, QR_UNAUTHENTICATED,
                       "no credentials for S3: the profile in ~/.aws uses %s, which is not "
                       "supported; set the keys that aws configure export-credentials --format env "
                       "prints",
                       p->unsupported);
    if (o->container_path || o->container_url) return a->source = CONTAINER, QR_OK;
    if (o->no_metadata)
        return qr_fail(
            err, QR_UNAUTHENTICATED,
            "no credentials for S3: neither AWS_ACCESS_KEY_ID, nor AWS_WEB_IDENTITY_TOKEN_FILE, "
            "nor a profile in ~/.aws, nor a container's endpoint, and AWS_EC2_METADATA_DISABLED "
            "disables the instance metadata");
    a->source = METADATA;
    return QR_OK;
}

enum qr_code qr_s3_auth_keys(struct qr_s3_auth *a, const struct qr_s3_keys **ret,
                             struct qr_err *err) {
    enum qr_code code = QR_OK;
    if (a->source == UNDECIDED) QR_TRY(aws_choose_source(a, err));
    int64_t left = a->keys.expires_ns - qr_now_ns(a->opt->waits.wall);
    bool lasting = a->keys.id && !a->keys.expires_ns;
    if (!lasting && !(a->keys.id && left > early_ns)) {
        switch (a->source) {
        case ENVIRONMENT: code = aws_read_environment(a, err); break;
        case WEB_IDENTITY: code = aws_fetch_web_identity(a, err); break;
        case PROFILE: code = aws_read_profile(a, err); break;
        case CONTAINER: code = aws_fetch_container(a, err); break;
        default: code = aws_fetch_metadata(a, err); break;
        }
        /* Use keys that are still valid when no new ones are available. */
        if (code != QR_OK && !(a->keys.id && left > 0)) return code;
    }
    *ret = &a->keys;
    return QR_OK;
}
