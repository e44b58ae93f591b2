/* Cloud Storage against tests/fake/gcs.py: the suite of every store, outages, rejected requests,
 * credentials. Faults: test_store_gcs_faults.c. */
#include "tests/conform/checkpoint_suite.h"
#include "tests/conform/gcs_bench.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <sys/wait.h>
#include <fcntl.h>

/* Full jitter: some waits are shorter than half of the maximum, some longer. */
static void test_jitter(void) {
    struct qr_gcs_options o = options();
    struct qr_web_retry r;
    int low = 0, high = 0;
    for (int i = 0; i < 64; i++) {
        qr_web_retry_begin(&r, &o.waits);
        int64_t before = virtual_ns;
        CHECK(qr_web_retry_wait(&r, 0));
        if (virtual_ns - before < QR_SECOND / 2) low++;
        else high++;
        CHECK(virtual_ns - before <= QR_SECOND);
    }
    CHECK(low > 8 && high > 8, "%d %d", low, high); /* fewer than 9 of 64 fair coins: 1e-10 */
    qr_web_retry_begin(&r, &o.waits);
    int64_t before = virtual_ns;
    CHECK(qr_web_retry_wait(&r, 40) && virtual_ns - before == 40 * QR_SECOND,
          "Retry-After is honoured");
}

/* ---- rejected requests ---- */

static void test_rejected(void) {
    struct qr_gcs_options o = options();
    static const struct {
        const char *bucket;
        enum qr_code write, check, read;
        const char *words;
    } rows[] = {
        {"forbidden-b", QR_PERMISSION_DENIED, QR_PERMISSION_DENIED, QR_PERMISSION_DENIED,
         "roles/storage.object"},
        {"readonly-b", QR_OK, QR_PERMISSION_DENIED, QR_OK, "storage.objects.create is missing"},
        {"missing-b", QR_NOT_FOUND, QR_NOT_FOUND, QR_NOT_FOUND, "bucket does not exist"},
    };
    struct qr_err err = {0};
    struct qr_buf b = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_store *s = open_with(rows[i].bucket, &o, NULL);
        int64_t before = sleeps;
        CHECK(s->ops->check_writable(s, "run/w.h5", &err) == rows[i].check &&
                  strstr(err.msg, rows[i].words) && strstr(err.msg, rows[i].bucket),
              "%s", err.msg);
        CHECK(put(s, "run/w.h5", "x", false, &err) == rows[i].write &&
                  (!rows[i].write ||
                   (strstr(err.msg, rows[i].bucket) && strstr(err.msg, "run/w.h5"))),
              "%s", err.msg);
        CHECK(s->ops->get(s, "run/w.h5", 9, &b, &err) == rows[i].read, "%s", err.msg);
        if (rows[i].read == QR_PERMISSION_DENIED)
            CHECK(strstr(err.msg, "roles/storage.objectViewer"), "%s", err.msg);
        CHECK(sleeps == before, "final errors are not waited for");
        s->ops->close(s);
    }
    struct qr_store *s = NULL;
    CHECK(qr_store_gcs_new("No_Bucket!", &o, NULL, &s, &err) == QR_INVALID_ARGUMENT &&
          strstr(err.msg, "No_Bucket!") && !s);
    s = open_with("names", &o, NULL);
    CHECK(put(s, "dir/", "x", false, &err) == QR_INVALID_ARGUMENT &&
          put(s, "a\nb", "x", false, &err) == QR_INVALID_ARGUMENT &&
          put(s, "..", "x", false, &err) == QR_INVALID_ARGUMENT);
    CHECK(put(s, "dir/ü %2F+?#&", "odd", false, &err) == QR_OK && holds(s, "dir/ü %2F+?#&", "odd"),
          "%s", err.msg);
    CHECK(s->ops->list(s, "dir/ü %", &b, &err) == QR_OK &&
              strcmp(qr_buf_string(&b), "dir/ü %2F+?#&") == 0,
          "%s", qr_buf_string(&b));
    /* Names that the server would reject, or store differently, after the training are rejected
     * before it. */
    static char far[1200];
    memset(far, 'a', sizeof far - 1);
    const char *const bad[] = {far, "a\nb.h5", "a\xff.h5", "a\xc3", "\xed\xa0\x80"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        int64_t before = sleeps;
        CHECK(put(s, bad[i], "x", false, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "gs://names/"),
              "%zu: %s", i, err.msg);
        CHECK(s->ops->check_writable(s, bad[i], &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "UTF-8"),
              "%zu: %s", i, err.msg);
        CHECK(sleeps == before);
    }
    CHECK(s->ops->check_writable(s, "run/train/", &err) == QR_OK, "a folder: %s", err.msg);
    s->ops->close(s);
    qr_buf_free(&b);
}

/* STORAGE_EMULATOR_HOST, which other clients of Cloud Storage accept with the API's path too. */
static void test_emulators(void) {
    static const char *const ends[] = {"", "/", "/storage/v1", "/storage/v1/"};
    struct qr_err err = {0};
    for (size_t i = 0; i < 2 * COUNT(ends); i++) {
        struct qr_gcs_options o = options();
        qr_auto(qr_free_p) char *emulator =
            qr_xasprintf("%s%s", i % 2 ? endpoint : host, ends[i / 2]);
        o.emulator_host = emulator;
        struct qr_store *s = open_with("emulators", &o, NULL);
        CHECK(put(s, "w", "x", false, &err) == QR_OK && holds(s, "w", "x"), "%s: %s", emulator,
              err.msg);
        s->ops->close(s);
    }
}

/* ---- credentials ---- */

static void check_put(const struct qr_gcs_options *o, const char *what, enum qr_code want,
                      const char *words) {
    struct qr_store *s = open_with("auth-b", o, NULL);
    struct qr_err err = {0};
    enum qr_code code = put(s, "w", "x", false, &err);
    CHECK(code == want && (code == QR_OK || strstr(err.msg, words)), "%s: %s", what,
          code == QR_OK ? "accepted" : err.msg);
    CHECK(code == QR_OK || (!strstr(err.msg, "ya29") && !strstr(err.msg, "1//refresh") &&
                            !strstr(err.msg, "PRIVATE") && !strstr(err.msg, "990011")),
          "a secret in: %s", err.msg);
    s->ops->close(s);
}

/* OpenSSL would ask for its pass phrase on the terminal. */
static const char *encrypted_key(void) {
    static char text[4096];
    struct qr_buf b = {0};
    char *pem;
    EVP_PKEY *key = EVP_RSA_gen(2048);
    BIO *bio = BIO_new(BIO_s_mem());
    CHECK(key &&
          PEM_write_bio_PKCS8PrivateKey(bio, key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL));
    size_t n = (size_t)BIO_get_mem_data(bio, &pem);
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_auto(qr_free_p) char *key_text = qr_xstrndup(pem, n);
    qr_json_open(&w, '{');
    qr_json_put_key(&w, "type");
    qr_json_put_string(&w, "service_account");
    qr_json_put_key(&w, "client_email");
    qr_json_put_string(&w, "a@b");
    qr_json_put_key(&w, "private_key");
    qr_json_put_string(&w, key_text);
    qr_json_close(&w, '}');
    snprintf(text, sizeof text, "%s", qr_buf_string(&b));
    qr_buf_free(&b);
    BIO_free(bio);
    EVP_PKEY_free(key);
    return text;
}

/* A process with a terminal and no input must exit with the error and not wait. */
static void test_encrypted_key(struct qr_gcs_options o) {
    qr_auto(qr_free_p) char *path = write_file("encrypted.json", encrypted_key());
    int master = posix_openpt(O_RDWR | O_NOCTTY), status = -1;
    CHECK(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    o.credentials = path;
    pid_t pid = fork();
    if (pid == 0) {
        struct qr_store *s = NULL;
        struct qr_err err = {0};
        if (setsid() < 0 || open(ptsname(master), O_RDWR) < 0) _exit(3);
        bool rejected = qr_store_gcs_new("auth-b", &o, NULL, &s, &err) == QR_OK &&
                        put(s, "w", "x", false, &err) == QR_INVALID_ARGUMENT;
        _exit(rejected && strstr(err.msg, "private_key") ? 0 : 4);
    }
    pid_t ended = 0;
    for (int i = 0; i < 1000 && (ended = waitpid(pid, &status, WNOHANG)) == 0; i++) usleep(10000);
    CHECK(ended == pid && status == 0, "an encrypted key: %s, status %x", ended ? "ended" : "waits",
          status);
    if (!ended) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
    close(master);
    unlink(path);
}

/* Writes a new key, and sends its public half to the fake. */
static char *key_file(const char *token_path) {
    EVP_PKEY *key = EVP_RSA_gen(2048);
    BIGNUM *n = NULL, *e = NULL;
    BIO *bio = BIO_new(BIO_s_mem());
    char *pem;
    CHECK(key && EVP_PKEY_get_bn_param(key, "n", &n) && EVP_PKEY_get_bn_param(key, "e", &e) &&
          PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL));
    long length = BIO_get_mem_data(bio, &pem);
    char *n_hex = BN_bn2hex(n), *e_hex = BN_bn2hex(e);
    qr_auto(qr_free_p) char *public_half =
                                qr_xasprintf("{\"n\":\"%s\",\"e\":\"%s\"}", n_hex, e_hex),
                            *text = qr_xstrndup(pem, (size_t)length);
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s%s", endpoint, token_path);
    tell("/control/key", public_half);
    struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_json_open(&w, '{');
    static const char *const keys[] = {"type", "client_email", "private_key_id", "private_key",
                                       "token_uri"};
    const char *const values[] = {"service_account", "worker@project.iam", "key-1", text, url};
    for (size_t i = 0; i < COUNT(keys); i++)
        qr_json_put_key(&w, keys[i]), qr_json_put_string(&w, values[i]);
    qr_json_close(&w, '}');
    char *path = write_file("service.json", qr_buf_string(&b));
    qr_buf_free(&b);
    OPENSSL_free(n_hex), OPENSSL_free(e_hex);
    BN_free(n), BN_free(e);
    BIO_free(bio);
    EVP_PKEY_free(key);
    return path;
}

static void test_metadata_server(void) {
    struct qr_gcs_options o = options();
    struct qr_err err = {0};
    check_put(&o, "no token where one is required", QR_UNAUTHENTICATED, "auth-b");
    o.metadata_host = host;
    check_put(&o, "metadata server beside an emulator", QR_OK, "");
    logged("");
    struct qr_store *s = open_with("auth-b", &o, NULL);
    CHECK(put(s, "a", "1", false, &err) == QR_OK && put(s, "b", "2", false, &err) == QR_OK, "%s",
          err.msg);
    CHECK(logged("GET /computeMetadata") == 1, "one token serves many requests");
    virtual_ns += (3600 - 226) * QR_SECOND;
    CHECK(put(s, "a", "1", false, &err) == QR_OK && logged("GET /computeMetadata") == 0,
          "still good");
    virtual_ns += 2 * QR_SECOND;
    CHECK(put(s, "a", "1", false, &err) == QR_OK && logged("GET /computeMetadata") == 1,
          "renewed before it ends");
    tell("/control/expire", "{}");
    CHECK(put(s, "a", "3", false, &err) == QR_OK && holds(s, "a", "3") &&
              logged("GET /computeMetadata") == 1,
          "401 once: %s", err.msg);
    s->ops->close(s);
    qr_auto(qr_free_p) char *as_url = qr_xasprintf("%s/", endpoint);
    o.metadata_host = as_url;
    check_put(&o, "metadata server as a URL", QR_OK, "");
    o.metadata_host = "127.0.0.1:1";
    int64_t before = virtual_ns;
    check_put(&o, "no metadata server", QR_UNAUTHENTICATED, "no credentials for Cloud Storage");
    CHECK(virtual_ns - before > 30 * QR_SECOND && virtual_ns - before < 100 * QR_SECOND, "%lld s",
          (long long)((virtual_ns - before) / QR_SECOND));
}

static const struct {
    const char *file;
    const char *text;
    enum qr_code want;
    const char *words;
} credential_files[] = {
    {"user.json",
     "{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"secret&=\","
     "\"refresh_token\":\"1//refresh\",\"token_uri\":\"@/token\"}",
     QR_OK, ""},
    {"revoked.json",
     "{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"secret&=\","
     "\"refresh_token\":\"1//refresh2\",\"token_uri\":\"@/token\"}",
     QR_UNAUTHENTICATED, "expired or revoked"},
    {"pod.json",
     "{\"type\":\"external_account\",\"audience\":\"//iam/"
     "pool\",\"subject_token_type\":\"urn:ietf:params:oauth:token-type:jwt\",\"token_url\":\"@/"
     "sts\","
     "\"credential_source\":{\"file\":\"$/subject\"}}",
     QR_OK, ""},
    {"url.json",
     "{\"type\":\"external_account\",\"audience\":\"//iam/"
     "pool\",\"subject_token_type\":\"urn:ietf:params:oauth:token-type:jwt\",\"token_url\":\"@/"
     "sts\","
     "\"credential_source\":{\"url\":\"@/"
     "subject\",\"headers\":{\"x-asks\":\"qring\"},\"format\":{\"type\":\"json\",\"subject_"
     "token_field_name\":\"id_token\"}},"
     "\"service_account_impersonation_url\":\"@/impersonate\"}",
     QR_OK, ""},
    {"thief.json",
     "{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"secret&=\","
     "\"refresh_token\":\"1//refresh\",\"token_uri\":\"https://evil.example/googleapis.com\"}",
     QR_INVALID_ARGUMENT, "token_uri"},
    {"thief2.json",
     "{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"secret&=\","
     "\"refresh_token\":\"1//refresh\",\"token_uri\":\"http://127.0.0.1:80@evil.example/\"}",
     QR_INVALID_ARGUMENT, "token_uri"},
    {"pem.json",
     "{\"type\":\"service_account\",\"client_email\":\"a@b\",\"private_key\":\"-----BEGIN "
     "PRIVATE KEY-----\\nxx\\n\",\"token_uri\":\"@/token\"}",
     QR_INVALID_ARGUMENT, "private_key"},
    {"number.json",
     "{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":990011,\"refresh_"
     "token\":\"1//refresh\"}",
     QR_INVALID_ARGUMENT, "client_secret is missing or not a string"},
    {"aws.json",
     "{\"type\":\"external_account\",\"audience\":\"a\",\"subject_token_type\":\"t\",\"token_"
     "url\":\"@/sts\",\"credential_source\":{\"environment_id\":\"aws1\"}}",
     QR_INVALID_ARGUMENT, "credential_source"},
    {"kind.json", "{\"type\":\"gdch_service_account\"}", QR_INVALID_ARGUMENT,
     "gdch_service_account"},
    {"none.json", "{}", QR_INVALID_ARGUMENT, "type"},
    {"cut.json", "{\"type\":", QR_INVALID_ARGUMENT, "cut.json"},
};

/* URLs that parsers read in different ways. */
static void test_hostile_token_urls(struct qr_gcs_options o) {
    static const char *const urls[] = {
        "https://evil.example/.googleapis.com",
        "https://evil.example?.googleapis.com",
        "https://evil.example#.googleapis.com",
        "https://evil.example#@oauth2.googleapis.com/token",
        "https://evil.example\\\\.googleapis.com/token",
        "https://evil.example\\\\@oauth2.googleapis.com/token",
        "https://oauth2.googleapis.com@evil.example/token",
        "https://user:hush@oauth2.googleapis.com/token",
        "https://evil.example%2f.googleapis.com/token",
        "https://evil.example\xef\xbc\x8f.googleapis.com/token",
        "https://oauth2\xe3\x80\x82googleapis.com/token",
        "https://googleapis.com/token",
        "https://.googleapis.com/token",
        "https://evilgoogleapis.com/token",
        "https://OAUTH2.GOOGLEAPIS.COM.evil.example/token",
        "https://oauth2.googleapis.com:444/token",
        "http://oauth2.googleapis.com/token",
        "http://localhost.evil.example/token",
        "http://0/token",
        "oauth2.googleapis.com/token",
    };
    for (size_t i = 0; i < COUNT(urls); i++) {
        qr_auto(qr_free_p) char *text =
            qr_xasprintf("{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":"
                         "\"secret\",\"refresh_token\":\"1//refresh\",\"token_uri\":\"%s\"}",
                         urls[i]);
        qr_auto(qr_free_p) char *path = write_file("thief.json", text);
        o.credentials = path;
        check_put(&o, urls[i], QR_INVALID_ARGUMENT, "token_uri is not an https address");
        unlink(path);
    }
}

static void test_credential_files(void) {
    struct qr_gcs_options o = options();
    o.emulator_host = NULL, o.endpoint = endpoint;
    qr_auto(qr_free_p) char *service = key_file("/token");
    o.credentials = service;
    check_put(&o, "service account", QR_OK, "");
    tell("/control/key", "{\"n\":\"c5f1a3\",\"e\":\"10001\"}");
    check_put(&o, "another key", QR_UNAUTHENTICATED, "invalid_grant");
    qr_auto(qr_free_p) char *subject = write_file("subject", "subject-of-a-pod\n");
    for (size_t i = 0; i < COUNT(credential_files); i++) {
        struct qr_buf b = {0};
        for (const char *c = credential_files[i].text; *c; c++) {
            if (*c == '@' && c[1] == '/') qr_buf_puts(&b, endpoint);
            else if (*c == '$') qr_buf_puts(&b, bench_dir);
            else qr_buf_put(&b, c, 1);
        }
        qr_auto(qr_free_p) char *path = write_file(credential_files[i].file, qr_buf_string(&b));
        o.credentials = path;
        check_put(&o, credential_files[i].file, credential_files[i].want,
                  credential_files[i].words);
        unlink(path);
        qr_buf_free(&b);
    }
    test_hostile_token_urls(o);
    qr_auto(qr_free_p) char *missing = qr_path_join(bench_dir, "nowhere.json");
    o.credentials = missing;
    check_put(&o, "a missing file", QR_NOT_FOUND, "nowhere.json");
    test_encrypted_key(o);
    o.credentials = NULL, o.no_metadata = true;
    check_put(&o, "no source", QR_UNAUTHENTICATED, "NO_GCE_CHECK");
    qr_auto(qr_free_p) char *gcloud =
        write_file("application_default_credentials.json", "{\"type\":\"x\"}");
    o.gcloud_dir = bench_dir;
    check_put(&o, "gcloud's file is found", QR_INVALID_ARGUMENT,
              "application_default_credentials.json");
    unlink(gcloud), unlink(service), unlink(subject);
}

/* A retried upload keeps its idempotency token; the next operation has another one. */
static void test_idempotency(void) {
    static const struct row r = {
        0,   INSERT("\"return-503\",\"return-reset-connection\""), CREATE, 100, QR_OK, "", true,
        NULL};
    logged("");
    conform(&r);
    struct qr_json *root = ask("GET", "/control/log", NULL);
    const struct qr_json *counts = qr_json_get(root, "idempotency");
    int64_t first = 0, last = 0;
    struct qr_err err = {0};
    CHECK(qr_json_size(counts) == 2 &&
          qr_json_i64(qr_json_at(counts, 0), "", 0, 9, &first, &err) == QR_OK &&
          qr_json_i64(qr_json_at(counts, 1), "", 0, 9, &last, &err) == QR_OK);
    /* One attempt of the preparation, three of this upload. */
    CHECK(first == 1 && last == 3, "%lld, %lld", (long long)first, (long long)last);
    qr_json_free(root);
    /* A lost acknowledgement is detected by reading: one upload that counts, one that is rejected,
     * and no third. */
    static const struct row lost = {
        0, INSERT("\"lost-acknowledgement\""), CREATE, 100, QR_OK, "", true, NULL};
    logged("");
    conform(&lost);
    int uploads = logged("POST /upload");
    CHECK(uploads == 1 + 2, "%d uploads", uploads); /* one of the preparation */
}

static struct qr_store *open_shared(void) {
    const struct qr_gcs_options o = options();
    return open_with("suite", &o, NULL);
}

int main(void) {
    virtual_ns = 1000 * QR_SECOND;
    CHECK(mkdtemp(bench_dir) != NULL);
    web_bench_init(&bucket_kind);
    pid_t pid = start_fake(host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of Cloud Storage");
        rmdir(bench_dir);
        return t_end();
    }
    snprintf(endpoint, sizeof endpoint, "http://%s", host);
    CHECK(setenv("all_proxy", "127.0.0.1:1", 1) == 0); /* not used for this machine */
    struct qr_gcs_options o = options();
    struct qr_store *s = open_with("suite", &o, NULL);
    suite(s);
    checkpoint_suite(s);
    checkpoint_race(s, open_shared, "a bucket", 30);
    s->ops->close(s);
    test_idempotency();
    outages();
    test_jitter();
    test_rejected();
    test_emulators();
    test_metadata_server();
    test_credential_files();
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    free(pattern);
    CHECK(rmdir(bench_dir) == 0, "%s is not empty", bench_dir);
    return t_end();
}
