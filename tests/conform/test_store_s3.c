/* S3 against tests/fake/s3.py: the suite of every store, rejected requests, names, addresses,
 * credentials. Faults: test_store_s3_faults.c. S3_SERVER=http://host:port, with S3_BUCKET and keys
 * in the environment: the suite against a real server. */
#include "tests/conform/checkpoint_suite.h"
#include "tests/conform/s3_bench.h"

#include <unistd.h>

/* ---- rejected requests ---- */

static void test_rejected(void) {
    struct qr_s3_options o = options();
    static const struct {
        const char *bucket;
        enum qr_code check, write, read;
        const char *words;
    } rows[] = {
        {"forbidden-b", QR_PERMISSION_DENIED, QR_PERMISSION_DENIED, QR_PERMISSION_DENIED,
         "on bucket forbidden-b"},
        {"readonly-b", QR_PERMISSION_DENIED, QR_PERMISSION_DENIED, QR_NOT_FOUND, "s3:PutObject"},
        {"missing-b", QR_NOT_FOUND, QR_NOT_FOUND, QR_NOT_FOUND, "bucket does not exist"},
        {"elsewhere-b", QR_INVALID_ARGUMENT, QR_INVALID_ARGUMENT, QR_INVALID_ARGUMENT,
         "set AWS_REGION=eu-west-7"},
        {"careless-b", QR_UNIMPLEMENTED, QR_OK, QR_OK, "ignores If-None-Match"},
        {"unable-b", QR_UNIMPLEMENTED, QR_OK, QR_OK, "conditional writes"},
        {"unsummed-b", QR_OK, QR_OK, QR_OK, ""},
        {"slow-b", QR_OK, QR_OK, QR_OK, ""},
    };
    struct qr_err err = {0};
    struct qr_buf b = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_store *s = open_with(rows[i].bucket, &o, NULL);
        int64_t before = sleeps;
        enum qr_code code = s->ops->check_writable(s, "run/w.h5", &err);
        CHECK(code == rows[i].check && (code == QR_OK || (strstr(err.msg, rows[i].words) &&
                                                          strstr(err.msg, rows[i].bucket))),
              "%s: %s %s", rows[i].bucket, qr_code_name(code), err.msg);
        CHECK(put(s, "run/w.h5", "x", false, &err) == rows[i].write, "%s: %s", rows[i].bucket,
              err.msg);
        CHECK(s->ops->get(s, "run/w.h5", 9, &b, &err) == rows[i].read, "%s: %s", rows[i].bucket,
              err.msg);
        CHECK(sleeps == before || i == COUNT(rows) - 1, "final errors are not waited for");
        if (rows[i].check == QR_OK && rows[i].write == QR_OK)
            CHECK(s->ops->list(s, "", &b, &err) == QR_OK &&
                      strcmp(qr_buf_string(&b), "run/w.h5") == 0,
                  "the check leaves no object: %s", qr_buf_string(&b));
        s->ops->close(s);
    }
    o.secret = "another";
    struct qr_store *s = open_with("keys-b", &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_UNAUTHENTICATED &&
              strstr(err.msg, "SignatureDoesNotMatch") && !strstr(err.msg, "another"),
          "%s", err.msg);
    s->ops->close(s);
    o = options();
    later_ns = 3600 * QR_SECOND;
    s = open_with("keys-b", &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, "clock"), "%s",
          err.msg);
    later_ns = 0;
    s->ops->close(s);
    qr_buf_free(&b);
}

static void test_names(struct qr_store *s) {
    struct qr_err err = {0};
    struct qr_buf b = {0};
    static char far[1200];
    memset(far, 'a', sizeof far - 1);
    const char *const bad[] = {far,      "a\nb.h5", "a\xff.h5", "dir/", "..",
                               "a/../b", "./a",     "",         "a/."};
    for (size_t i = 0; i < COUNT(bad); i++)
        CHECK(put(s, bad[i], "x", false, &err) == QR_INVALID_ARGUMENT && strstr(err.msg, "s3://"),
              "%zu: %s", i, err.msg);
    CHECK(s->ops->check_writable(s, far, &err) == QR_INVALID_ARGUMENT &&
              s->ops->check_writable(s, "run/train/", &err) == QR_OK,
          "a folder: %s", err.msg);
    static const char odd[] = "dir/\xc3\xbc %2F+?#&'<\"=~..x";
    CHECK(put(s, odd, "odd", false, &err) == QR_OK && holds(s, odd, "odd"), "%s", err.msg);
    CHECK(s->ops->list(s, "dir/\xc3\xbc %", &b, &err) == QR_OK &&
              strcmp(qr_buf_string(&b), odd) == 0,
          "%s %s", qr_buf_string(&b), err.msg);
    CHECK(s->ops->remove(s, odd, &err) == QR_OK, "%s", err.msg);
    qr_buf_free(&b);
}

/* URLs of buckets. */
static void test_addresses(void) {
    static const struct {
        const char *bucket, *endpoint, *region, *profile, *base, *host;
    } rows[] = {
        {"b-1", NULL, NULL, "", "https://b-1.s3.us-east-1.amazonaws.com",
         "b-1.s3.us-east-1.amazonaws.com"},
        {"b.1", NULL, "eu-west-1", "", "https://s3.eu-west-1.amazonaws.com/b.1",
         "s3.eu-west-1.amazonaws.com"},
        {"b-1", NULL, "cn-north-1", "", "https://b-1.s3.cn-north-1.amazonaws.com.cn",
         "b-1.s3.cn-north-1.amazonaws.com.cn"},
        {"b-1", NULL, "eu-west-1", "s3 =\n  addressing_style = path\n",
         "https://s3.eu-west-1.amazonaws.com/b-1", "s3.eu-west-1.amazonaws.com"},
        {"b-1", "http://minio:9000/", NULL, "region = x-1\n", "http://minio:9000/b-1",
         "minio:9000"},
        {"b-1", "ceph.example:443", NULL, "", "https://ceph.example/b-1", "ceph.example"},
        {"b-1", "https://h/gate", NULL, "addressing_style=virtual\n", "https://b-1.h/gate",
         "b-1.h"},
        {"b-1", NULL, NULL, "endpoint_url = https://r2.example\n", "https://r2.example/b-1",
         "r2.example"},
    };
    struct qr_err err = {0};
    qr_auto(qr_free_p) char *path = qr_path_join(bench_dir, "config");
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_s3_options o = options();
        qr_auto(qr_free_p) char *text =
            qr_xasprintf("[profile other]\nregion=no\n[ default ]\n%s", rows[i].profile);
        CHECK(qr_file_replace(path, qr_bytes_of_string(text), &err) == QR_OK, "%s", err.msg);
        o.endpoint = rows[i].endpoint, o.region = rows[i].region, o.config_file = path;
        struct qr_store *s = open_with(rows[i].bucket, &o, NULL);
        const struct qr_s3 *at = (const struct qr_s3 *)s;
        CHECK(strcmp(at->bucket.base, rows[i].base) == 0 && strcmp(at->host, rows[i].host) == 0,
              "%zu: %s %s", i, at->bucket.base, at->host);
        s->ops->close(s);
    }
    struct qr_s3_options o = options();
    struct qr_store *s = NULL;
    static const char *const no[] = {"b", "no bucket", ".hidden", "a/b"};
    for (size_t i = 0; i < COUNT(no); i++)
        CHECK(qr_store_s3_new(no[i], &o, NULL, &s, &err) == QR_INVALID_ARGUMENT && !s &&
                  strstr(err.msg, no[i]),
              "%s", err.msg);
    o.profile = "absent";
    CHECK(qr_store_s3_new("bucket", &o, NULL, &s, &err) == QR_INVALID_ARGUMENT && !s &&
              strstr(err.msg, "AWS_PROFILE=absent"),
          "%s", err.msg);
    unlink(path);
}

/* ---- credentials ---- */

static void check_put(const struct qr_s3_options *o, const char *what, enum qr_code want,
                      const char *words) {
    struct qr_store *s = open_with("keys-b", o, NULL);
    struct qr_err err = {0};
    enum qr_code code = put(s, "w", "x", false, &err);
    CHECK(code == want && (code == QR_OK || strstr(err.msg, words)), "%s: %s", what,
          code == QR_OK ? "accepted" : err.msg);
    CHECK(code == QR_OK || (!strstr(err.msg, "/secret") && !strstr(err.msg, "session-of")),
          "a secret in: %s", err.msg);
    s->ops->close(s);
}

/* Each source of temporary keys: the keys are reused, and renewed before they expire and when they
 * are rejected. */
static void test_renewal(const struct qr_s3_options *o, const char *what, const char *path) {
    struct qr_err err = {0};
    struct qr_store *s = open_with("keys-b", o, NULL);
    logged("");
    CHECK(put(s, "a", "1", false, &err) == QR_OK && put(s, "a", "2", false, &err) == QR_OK &&
              logged(path) == 1,
          "%s: keys serve many requests: %s", what, err.msg);
    later_ns = 590 * QR_SECOND;
    CHECK(put(s, "a", "3", false, &err) == QR_OK && logged(path) == 0, "%s: still good: %s", what,
          err.msg);
    later_ns = 610 * QR_SECOND;
    CHECK(put(s, "a", "4", false, &err) == QR_OK && logged(path) == 1,
          "%s: renewed five minutes before they end: %s", what, err.msg);
    later_ns = 0;
    qr_json_free(ask("POST", "/control/expire", "{}"));
    logged("");
    CHECK(put(s, "a", "5", false, &err) == QR_OK && holds(s, "a", "5") && logged(path) == 1,
          "%s: renewed when they are rejected: %s", what, err.msg);
    s->ops->close(s);
    static const char *const odd[] = {
        "return-503",  "return-reset-connection", "cut-reply-after-0B", "cut-reply-after-20B",
        "short-reply", "chunked-reply",           "html-reply"};
    for (size_t i = 0; i < COUNT(odd); i++) {
        qr_auto(qr_free_p) char *body =
            qr_xasprintf("{\"instructions\":{\"token\":[\"%s\",\"%s\"]}}", odd[i], odd[i]);
        qr_json_free(ask("POST", "/control/faults", body));
        check_put(o, odd[i], QR_OK, "");
        qr_json_free(ask("POST", "/control/faults", "{\"instructions\":{}}"));
    }
}

/* URLs that parsers read in different ways. */
static const char *const hostile_urls[] = {
    "http://evil.example/c",
    "http://127.0.0.1@evil.example/",
    "http://127.0.0.1:80@evil.example/",
    "http://127.0.0.1.evil.example/",
    "http://evil.example\\@127.0.0.1/",
    "http://127.0.0.1\\@evil.example/",
    "http://evil.example#@127.0.0.1/",
    "http://evil.example?@127.0.0.1/",
    "http://LOCALHOST.evil.example/",
    "http://localhost\xe3\x80\x82/",
    "http://\xe2\x91\xa0"
    "27.0.0.1/",
    "http://[::1].evil.example/",
    "http://169.254.170.2\t.evil.example/",
    "https://user@evil.example/",
    "ftp://127.0.0.1/",
};

static void test_credentials(void) {
    struct qr_s3_options o = options();
    o.key_id = o.secret = NULL;
    test_renewal(&o, "instance metadata", "PUT /latest/api/token");
    o.metadata = "http://127.0.0.1:1";
    int64_t before = virtual_ns;
    check_put(&o, "no source", QR_UNAUTHENTICATED, "no credentials for S3");
    CHECK(virtual_ns - before > 10 * QR_SECOND && virtual_ns - before < 60 * QR_SECOND, "%lld s",
          (long long)((virtual_ns - before) / QR_SECOND));
    o.no_metadata = true;
    check_put(&o, "metadata forbidden", QR_UNAUTHENTICATED, "AWS_EC2_METADATA_DISABLED");

    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/v2/credentials", endpoint);
    qr_auto(qr_free_p) char *token = write_file("token", "container-token\n");
    o.container_url = url, o.container_token_file = token;
    test_renewal(&o, "container", "GET /v2/credentials");
    o.container_token_file = NULL, o.container_token = "other-secret";
    check_put(&o, "container, another token", QR_UNAUTHENTICATED,
              "container's endpoint returned no keys");
    for (size_t i = 0; i < COUNT(hostile_urls); i++) {
        o.container_url = hostile_urls[i];
        check_put(&o, hostile_urls[i], QR_INVALID_ARGUMENT, "requested from no other host");
    }

    qr_auto(qr_free_p) char *subject = write_file("subject", "subject-of-a-pod\n");
    o.role = "arn:aws:iam::1:role/qring", o.token_file = subject;
    test_renewal(&o, "web identity", "POST /");
    o.role = "arn:aws:iam::1:role/other";
    check_put(&o, "another role", QR_UNAUTHENTICATED, "InvalidIdentityToken");
    o.role = NULL;
    check_put(&o, "no role", QR_INVALID_ARGUMENT, "AWS_ROLE_ARN");
    o.token_file = NULL;

    static const struct {
        const char *profile, *credentials, *config;
        enum qr_code want;
        const char *words;
    } rows[] = {
        {NULL, "[default]\naws_access_key_id=AKIDFAKE\naws_secret_access_key = fake/secret+key\n",
         "", QR_OK, ""},
        {"two", "[default]\naws_access_key_id=no\naws_secret_access_key=no\n",
         "# words\n[profile two]\r\naws_access_key_id = AKIDFAKE\r\naws_secret_access_key = "
         "fake/secret+key\r\n",
         QR_OK, ""},
        {"two", "[two]\naws_access_key_id=AKIDFAKE\n", "", QR_UNAUTHENTICATED,
         "has no access key and secret key"},
        {"two", "", "[profile two]\nsso_session = x\n", QR_UNAUTHENTICATED, "sso_session"},
        {"two", "",
         "[profile two]\nrole_arn=arn:aws:iam::1:role/qring\nweb_identity_token_file=$\n", QR_OK,
         ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf b = {0};
        for (const char *c = rows[i].config; *c; c++)
            *c == '$' ? qr_buf_puts(&b, subject) : qr_buf_put(&b, c, 1);
        qr_auto(qr_free_p) char *keys = write_file("keys", rows[i].credentials),
                                *config = write_file("config", qr_buf_string(&b));
        struct qr_s3_options p = options();
        p.key_id = p.secret = NULL, p.profile = rows[i].profile;
        p.credentials_file = keys, p.config_file = config, p.no_metadata = true;
        check_put(&p, rows[i].config, rows[i].want, rows[i].words);
        unlink(keys), unlink(config);
        qr_buf_free(&b);
    }
    o = options();
    o.secret = NULL;
    check_put(&o, "only the key id", QR_UNAUTHENTICATED, "AWS_SECRET_ACCESS_KEY");
    unlink(token), unlink(subject);
}

/* ---- a real server ---- */

static struct qr_store *open_shared(void) {
    const struct qr_s3_options o = options();
    return open_with("suite", &o, NULL);
}

static void test_real_server(const char *bucket) {
    struct qr_s3_options o = options();
    o.key_id = getenv("AWS_ACCESS_KEY_ID"), o.secret = getenv("AWS_SECRET_ACCESS_KEY");
    o.region = getenv("AWS_REGION");
    struct qr_store *s = open_with(bucket, &o, NULL);
    struct qr_err err = {0};
    suite(s);
    test_names(s);
    checkpoint_suite(s);
    CHECK(s->ops->put(s, "large", qr_bytes_of(pattern, LARGE), true, &err) == QR_OK, "%s", err.msg);
    holds_bytes(s, "large", LARGE, "large");
    CHECK(s->ops->remove(s, "large", &err) == QR_OK, "%s", err.msg);
    s->ops->close(s);
    s = open_with("no-such-bucket-here", &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_NOT_FOUND && strstr(err.msg, "NoSuchBucket"), "%s",
          err.msg);
    s->ops->close(s);
    o.secret = "another";
    s = open_with(bucket, &o, NULL);
    CHECK(put(s, "w", "x", false, &err) == QR_UNAUTHENTICATED &&
              strstr(err.msg, "SignatureDoesNotMatch"),
          "%s", err.msg);
    s->ops->close(s);
}

/* ---- more than one request can upload ---- */

static enum qr_code send_nothing(struct qr_web *web, const struct qr_web_request *req,
                                 struct qr_web_reply *ret, struct qr_err *err) {
    (void)web;
    *ret = (struct qr_web_reply){0};
    CHECK(false, "%s was sent", req->method);
    return qr_fail(err, QR_UNAVAILABLE, "planted");
}
static void close_nothing(struct qr_web *web) { (void)web; }
static void test_too_large(void) {
    const struct qr_s3_options o = options();
    struct qr_web no_server = {send_nothing, close_nothing};
    struct qr_store *s = open_with("large", &o, &no_server);
    const struct qr_bytes content = qr_bytes_of(pattern, (UINT64_C(5) << 30) + 1);
    struct qr_err err = {0};
    for (unsigned i = 0; i < 4; i++) {
        const struct qr_store_version seen = {.there = i == 3};
        enum qr_code code = i < 2 ? s->ops->put(s, "a/w.h5", content, i == 1, &err)
                                  : s->ops->swap(s, "a/w.h5", content, &seen, &err);
        CHECK(code == QR_INVALID_ARGUMENT && qr_exit_code(code) == 2 &&
                  strstr(
                      err.msg,
                      "s3://large/a/w.h5: cannot upload 5368709121 bytes: S3 accepts 5 GiB in one"),
              "%s: %s", qr_code_name(code), err.msg);
    }
    s->ops->close(s);
}

int main(void) {
    const char *at = getenv("S3_SERVER"), *bucket = getenv("S3_BUCKET");
    virtual_ns = 1000 * QR_SECOND;
    pid_t pid = at ? 0 : start_fake_of("tests/fake/s3.py", host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of S3");
        return t_end();
    }
    snprintf(endpoint, sizeof endpoint, "%s%s", at ? "" : "http://", at ? at : host);
    web_bench_init(&bucket_kind);
    if (at) {
        test_real_server(bucket ? bucket : "qring");
    } else {
        CHECK(mkdtemp(bench_dir) != NULL);
        CHECK(setenv("all_proxy", "127.0.0.1:1", 1) == 0); /* not used for this machine */
        struct qr_s3_options o = options();
        struct qr_store *s = open_with("suite", &o, NULL);
        suite(s);
        test_names(s);
        checkpoint_suite(s);
        checkpoint_race(s, open_shared, "a bucket", 30);
        s->ops->close(s);
        test_rejected();
        test_addresses();
        test_too_large();
        test_credentials();
        CHECK(rmdir(bench_dir) == 0, "%s is not empty", bench_dir);
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
    }
    free(pattern);
    return t_end();
}
