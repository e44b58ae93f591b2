/* Failures of Cloud Storage: every instruction of Google's storage test bench for every verb in
 * use, Google's eight groups of retry conformance, unreadable replies, broken downloads, truncated
 * tokens, against tests/fake/gcs.py. STORAGE_TESTBENCH=http://host:port: against the test bench
 * itself, and then only with its own instructions. */
#include <unistd.h>

#include "base/file.h"
#include "tests/conform/gcs_bench.h"
#include "tests/fake/guard.h"

static bool bench; /* runs against the test bench itself */

/* Google's eight groups. */
static const struct row google[] = {
    {1, "\"storage.objects.list\":[\"return-503\",\"return-503\"]", LIST, 0, QR_OK, "", true, NULL},
    {1, "\"storage.objects.list\":[\"return-reset-connection\",\"return-503\"]", LIST, 0, QR_OK, "",
     true, NULL},
    {1, GETS("\"return-503\",\"return-reset-connection\""), GET, 10, QR_OK, "", true, NULL},
    {1, GETS("\"return-408\",\"return-429\",\"return-500\",\"return-502\",\"return-504\""), GET, 10,
     QR_OK, "", true, NULL},
    {1, "\"storage.buckets.testIamPermissions\":[\"return-503\",\"return-503\"]", CHECK_WRITE, 0,
     QR_OK, "", true, NULL},
    /* 2: every write here has a precondition. */
    {2, INSERT("\"return-503\",\"return-503\""), CREATE, 100, QR_OK, "", true, NULL},
    {2, INSERT("\"return-reset-connection\",\"return-503\""), PUT, 100, QR_OK, "", true, NULL},
    {2, "\"storage.objects.delete\":[\"return-503\",\"return-reset-connection\"]", REMOVE, 0, QR_OK,
     "", true, NULL},
    /* 3, 4: there is no write without a precondition and no write that is not idempotent; a
     * rejected one is not retried. */
    {3, INSERT("\"return-412\",\"return-503\""), CREATE, 100, QR_FAILED_PRECONDITION,
     "gs://conform/new already exists", false, NULL},
    {4, "\"storage.objects.delete\":[\"return-403\",\"return-503\"]", REMOVE, 0,
     QR_PERMISSION_DENIED, "on bucket conform", false, NULL},
    {5, INSERT("\"return-400\",\"return-503\""), CREATE, 100, QR_INVALID_ARGUMENT,
     "gs://conform/new", false, NULL},
    {5, INSERT("\"return-401\",\"return-503\""), CREATE, 100, QR_UNAUTHENTICATED, "credentials",
     false, NULL},
    {5, GETS("\"return-400\",\"return-503\""), GET, 10, QR_INVALID_ARGUMENT, "gs://conform/there",
     false, NULL},
    {6, INSERT("\"return-503\",\"return-400\""), CREATE, 100, QR_INVALID_ARGUMENT, "400", true,
     NULL},
    {6, INSERT("\"return-reset-connection\",\"return-401\""), CREATE, 100, QR_UNAUTHENTICATED,
     "401", true, NULL},
    {7, INSERT("\"return-reset-connection\",\"return-503\""), CREATE, LARGE, QR_OK, "", true, NULL},
    {7, INSERT("\"return-408\""), CREATE, LARGE, QR_OK, "", true, NULL},
    {7, INSERT("\"return-503-after-256K\""), CREATE, LARGE, QR_OK, "", true, NULL},
    {7, INSERT("\"return-503-after-8192K\",\"return-408\""), CREATE, LARGE, QR_OK, "", true, NULL},
    {7, INSERT("\"return-503-after-256K\""), PUT, LARGE, QR_OK, "", true, NULL},
    {8, GETS("\"return-broken-stream\",\"return-broken-stream\""), GET, 600 * KIB, QR_OK, "", true,
     NULL},
    {8, GETS("\"return-broken-stream-after-256K\""), GET, 600 * KIB, QR_OK, "", true, NULL},
};
static const struct row ours[] = {
    {0, INSERT("\"return-503-after-256K\""), CREATE, 600 * KIB, QR_OK, "", true, NULL},
    {0, INSERT("\"return-broken-stream-after-8192K\",\"return-reset-connection\""), CREATE, LARGE,
     QR_OK, "", true, NULL},
    /* A server that keeps an odd number of bytes. */
    {0, INSERT("\"return-503-after-300K\""), CREATE, LARGE, QR_OK, "", true, NULL},
    {0, INSERT("\"return-503-after-8192K\",\"lost-session\""), CREATE, LARGE, QR_OK, "", true,
     NULL},
    {0, INSERT("\"return-503-after-8192K\",\"return-404\""), CREATE, LARGE, QR_OK, "", true, NULL},
    {0, INSERT("\"lost-acknowledgement\""), CREATE, 100, QR_OK, "", true, NULL},
    {0, INSERT("\"lost-acknowledgement\""), PUT, 100, QR_OK, "", true, NULL},
    /* The client's own success is recognised after the 412. */
    {0, INSERT("\"lost-acknowledgement\",\"return-503\""), SWAP, 100, QR_OK, "", true, NULL},
    /* Statuses without a meaning here, and a failed condition of a request without one. */
    {0, INSERT("\"return-307\""), CREATE, 100, QR_INVALID_ARGUMENT, "upload rejected (307", true,
     NULL},
    {0, INSERT("\"return-409\""), SWAP, 100, QR_INVALID_ARGUMENT, "upload rejected (409", true,
     NULL},
    {0, GETS("\"return-407\""), GET, 10, QR_INVALID_ARGUMENT, "download rejected (407", true, NULL},
    {0, GETS("\"return-412\""), GET, 10, QR_INVALID_ARGUMENT, "download rejected (412", true, NULL},
    {0, GETS("\"return-412\""), PUT, 10, QR_INVALID_ARGUMENT, "upload rejected (412", true, NULL},
    {0, "\"storage.objects.list\":[\"return-412\"]", LIST, 0, QR_INVALID_ARGUMENT,
     "list rejected (412", true, NULL},
    {0, "\"storage.objects.delete\":[\"return-412\"]", REMOVE, 0, QR_OK, "", true, NULL},
    {0, INSERT("\"garbage-reply\""), CREATE, 100, QR_OK, "", true, NULL},
    {0, INSERT("\"garbage-reply\",\"garbage-reply\""), CREATE, LARGE, QR_OK, "", true, NULL},
    {0, GETS("\"garbage-reply\""), GET, 10, QR_OK, "", true, NULL},
    {0, INSERT("\"return-503\",\"return-reset-connection\""), SWAP, 100, QR_OK, "", true, NULL},
    {0, INSERT("\"return-412\""), SWAP, 100, QR_FAILED_PRECONDITION,
     "was changed by another writer", true, NULL},
    {0, INSERT("\"wrong-crc32c\""), SWAP, 100, QR_OK, "", true, NULL},
    {0, INSERT("\"lost-acknowledgement\""), CREATE, 0, QR_OK, "", true, NULL},
    {0, "\"storage.objects.delete\":[\"lost-acknowledgement\"]", REMOVE, 0, QR_OK, "", true, NULL},
    {0, INSERT("\"wrong-crc32c\""), CREATE, 100, QR_OK, "", true, NULL},
    {0, INSERT("\"wrong-crc32c\",\"wrong-crc32c\",\"wrong-crc32c\",\"wrong-crc32c\""), PUT, 100,
     QR_DATA_LOSS, "gs://conform/there", true, NULL},
    {0, GETS("\"wrong-crc32c\""), GET, 10, QR_OK, "", true, NULL},
};

/* ---- each instruction at each verb ---- */

enum { ABOVE = (9 << 20) + 777 }; /* more than one request carries */

struct verb {
    const char *method;
    enum op op;
    size_t bytes;
    bool has_body;
};
#define TO "storage.objects.insert"
#define FROM "storage.objects.get"
static const struct verb verbs[] = {
    {TO, PUT, 100, true},
    {TO, CREATE, 100, true},
    {TO, SWAP, 100, true},
    {TO, CREATE, ABOVE, true},
    {TO, PUT, ABOVE, true},
    {TO, SWAP, ABOVE, true},
    {FROM, GET, 600 * KIB, true},
    {FROM, PUT, 100, true},
    {FROM, SWAP, 100, true},
    {FROM, REMOVE, 0, true},
    {"storage.objects.list", LIST, 0, true},
    {"storage.objects.delete", REMOVE, 0, false},
    {"storage.buckets.testIamPermissions", CHECK_WRITE, 0, true},
};

/* make test has no time for all: the fake is slow with megabytes. The last two verbs, and all
 * statuses but the first, run only against the test bench. */
static bool too_long_here(const struct verb *v) {
    return !bench && v->bytes == ABOVE && v->op != CREATE;
}
/* An object stored in one request is recognised after the next request's 412, which is not a
 * success with a body. */
static int replies_of(const struct verb *v) {
    return strcmp(v->method, TO) == 0 && v->bytes != ABOVE ? 1 : 2;
}

/* Runs `v` with the same fault `times` times in a row. */
static void check_fault(const struct verb *v, const char *instruction, int times, enum qr_code want,
                        bool used) {
    struct qr_buf faults = {0};
    qr_buf_printf(&faults, "\"%s\":[", v->method);
    for (int i = 0; i < times; i++) qr_buf_printf(&faults, "%s\"%s\"", i ? "," : "", instruction);
    qr_buf_puts(&faults, "]");
    const struct row r = {0, qr_buf_string(&faults), v->op, v->bytes, want, "", used, NULL};
    conform(&r);
    qr_buf_free(&faults);
}

static void test_every_verb(void) {
    static const char *const passing[] = {"return-503", "return-reset-connection",
                                          "return-408", "return-429",
                                          "return-500", "return-502",
                                          "return-504"};
    static const struct {
        const char *instruction;
        enum qr_code code;
    } final[] = {{"return-403", QR_PERMISSION_DENIED},
                 {"return-400", QR_INVALID_ARGUMENT},
                 {"return-401", QR_UNAUTHENTICATED},
                 {"return-409", QR_INVALID_ARGUMENT}};
    static const char *const other_protocols[] = {
        "redirect-send-token-t", "redirect-send-handle-and-token-t", "redirect-expect-token-t",
        "return-503-if-dp-enforced"};
    for (size_t i = 0; i < COUNT(verbs); i++) {
        const struct verb *v = &verbs[i];
        if (too_long_here(v)) continue;
        for (size_t k = 0; k < (bench ? COUNT(passing) : 2); k++)
            check_fault(v, passing[k], 2, QR_OK, true);
        for (size_t k = 0; k < (bench ? COUNT(final) : 1); k++)
            check_fault(v, final[k].instruction, 2, final[k].code, false);
        /* Instructions for gRPC. */
        for (size_t k = 0; k < (bench ? COUNT(other_protocols) : 1); k++)
            check_fault(v, other_protocols[k], 1, QR_OK, false);
        check_fault(v, "return-broken-stream", replies_of(v), QR_OK, v->has_body);
        if (bench || v->op == GET) check_fault(v, "stall-for-1s-after-0K", 1, QR_OK, v->has_body);
    }
}

/* ---- uploads ---- */

static void test_uploads(void) {
    static const struct verb large_ones[] = {
        {TO, PUT, ABOVE, true}, {TO, CREATE, ABOVE, true}, {TO, SWAP, ABOVE, true}};
    static const char *const after[] = {"return-503-after-256K", "return-408-after-1024K",
                                        "return-429-after-8192K", "return-503-after-9216K",
                                        "stall-for-1s-after-8192K"};
    for (size_t i = 0; i < COUNT(large_ones); i++) {
        for (int times = 1; times <= (too_long_here(&large_ones[i]) ? 1 : 3); times++) {
            check_fault(&large_ones[i], "return-broken-stream-final-chunk-after-0B", times, QR_OK,
                        true);
            check_fault(&large_ones[i], "return-broken-stream-final-chunk-after-100B", times, QR_OK,
                        true);
        }
        for (size_t k = 0; k < COUNT(after); k++)
            if (bench || i == 1) check_fault(&large_ones[i], after[k], 1, QR_OK, true);
    }
    static const struct verb small_one = {TO, CREATE, 600 * KIB, true};
    check_fault(&small_one, "return-503-after-256K", 2, QR_OK, true);
    check_fault(&small_one, "stall-for-1s-after-256K", 1, QR_OK, true);
}

/* ---- downloads ---- */

static void test_downloads(void) {
    static const struct row rows[] = {
        {8,
         GETS("\"return-broken-stream-after-8704K\",\"return-broken-stream-after-256K\",\"return-"
              "503\""),
         GET, ABOVE, QR_OK, "", true, NULL},
        {8,
         GETS("\"return-broken-stream-after-1K\",\"return-broken-stream-after-1K\",\"return-broken-"
              "stream-after-1K\",\"return-broken-stream-after-1K\","
              "\"return-broken-stream-after-1K\",\"return-broken-stream-after-1K\",\"return-broken-"
              "stream-after-1K\",\"return-broken-stream-after-1K\""),
         GET, 20 * KIB, QR_OK, "", true, NULL},
        {8, GETS("\"stall-for-1s-after-256K\""), GET, 600 * KIB, QR_OK, "", true, NULL},
        {8, GETS("\"return-broken-stream-after-256K\",\"return-404\""), GET, 600 * KIB, QR_OK, "",
         true, NULL},
        {8, GETS("\"return-broken-stream-after-256K\",\"return-412\""), GET, 600 * KIB, QR_OK, "",
         true, NULL},
        {8, GETS("\"return-broken-stream-after-256K\",\"return-416\""), GET, 600 * KIB, QR_OK, "",
         true, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) conform(&rows[i]);
}

/* ---- the test bench's header: the same fault at every request ---- */

static void test_emulator_header(void) {
    /* Ten seconds in the test bench. */
    const char *pause = bench ? "stall-at-256KiB" : "stall-at-256KiB/1";
    const struct row rows[] = {
        {9, "", GET, ABOVE, QR_OK, "", false, "return-broken-stream"},
        {9, "", GET, 600 * KIB, QR_DATA_LOSS, "do not match the object's crc32c", false,
         "return-corrupted-data"},
        {9, "", GET, 600 * KIB, QR_OK, "", false, "stall-always/1"},
        {9, "", GET, 600 * KIB, QR_OK, "", false, pause},
        {9, "", GET, 600 * KIB, QR_OK, "", false, "return-503-after-256K"},
        {9, "", GET, 600 * KIB, QR_UNAVAILABLE, "please retry", false,
         "return-503-after-256K/retry-1"},
        {9, "", GET, 600 * KIB, QR_UNAVAILABLE, "please retry", false,
         "return-503-after-256K/retry-2"},
        {9, "", GET, 600 * KIB, QR_OK, "", false, "return-503-after-256K/retry-3"},
        /* The server keeps no byte beyond that. */
        {9, "", CREATE, ABOVE, QR_UNAVAILABLE, "please retry", false, "return-503-after-256K"},
        /* 412 where Google returns 400. */
        {9, "", CREATE, 100, QR_FAILED_PRECONDITION, "gs://conform/new", false,
         "inject-upload-data-error"},
        {9, "", PUT, 100, QR_ABORTED, "please retry", false, "inject-upload-data-error"},
        {9, "", PUT, ABOVE, QR_ABORTED, "please retry", false, "inject-upload-data-error"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) conform(&rows[i]);
}

/* ---- silence longer than the guard ---- */

static void test_silence(void) {
    static const struct verb put_one = {TO, PUT, 100, true}, get_one = {FROM, GET, 600 * KIB, true},
                             large_one = {TO, CREATE, ABOVE, true};
    guard_s = 1;
    check_fault(&put_one, "stall-for-3s-after-0K", 1, QR_OK, true);
    check_fault(&get_one, "stall-for-3s-after-256K", 1, QR_OK, true);
    /* The test bench appends the data that arrived meanwhile a second time. */
    if (!bench) check_fault(&large_one, "stall-for-3s-after-8192K", 1, QR_OK, true);
    guard_s = 30;
}

/* ---- faults that only the fake has ---- */

/* An unreadable 200, from every verb. */
static void test_unreadable(void) {
    static const char *const replies[] = {"cut-reply-after-0B",  "cut-reply-after-1B",
                                          "cut-reply-after-20B", "short-reply",
                                          "chunked-reply",       "html-reply"};
    for (size_t i = 0; i < COUNT(verbs); i++)
        for (size_t k = 0; k < COUNT(replies) && !too_long_here(&verbs[i]); k++)
            check_fault(&verbs[i], replies[k], replies_of(&verbs[i]), QR_OK, verbs[i].has_body);
    static const struct verb large_one = {TO, CREATE, ABOVE, true};
    check_fault(&large_one, "no-location", 2, QR_OK, true);
    /* At the limit of attempts the stored object is found by reading it. */
    for (int times = 3; times < 6; times++)
        check_fault(&large_one, "html-reply", times, QR_OK, times == 3);
}

static void test_odd_downloads(void) {
    static const char *const odd[] = {"ignore-range", "other-range",          "replaced",
                                      "html-reply",   "cut-reply-after-100B", "short-reply",
                                      "chunked-reply"};
    for (size_t i = 0; i < COUNT(odd); i++) {
        struct qr_buf faults = {0};
        qr_buf_puts(&faults, "\"" FROM "\":[");
        for (int k = 0; k < 12; k++) qr_buf_puts(&faults, "\"return-broken-stream-after-256K\",");
        qr_buf_printf(&faults, "\"%s\"]", odd[i]);
        const struct row r = {8, qr_buf_string(&faults), GET, ABOVE, QR_OK, "", true, NULL};
        conform(&r);
        qr_buf_free(&faults);
    }
}

/* A server that ignores ranges and breaks off in the middle each time: there is no progress, and
 * the download ends. */
struct stubborn {
    struct qr_web http;
    struct qr_web *under;
    bool bytes_too;
};
static enum qr_code send_stubborn(struct qr_web *h, const struct qr_web_request *req,
                                  struct qr_web_reply *ret, struct qr_err *err) {
    struct stubborn *s = (struct stubborn *)h;
    struct qr_web_request all = *req;
    if (all.n_headers && strncmp(all.headers[all.n_headers - 1], "Range:", 6) == 0) all.n_headers--;
    virtual_ns += QR_MS;
    enum qr_code code = s->under->send(s->under, &all, ret, err);
    bool media = strstr(req->url, "alt=media") != NULL;
    if (code != QR_OK || ret->status != 200 || media != s->bytes_too) return code;
    ret->body.n /= 2;
    return media
               ? qr_fail(err, QR_UNAVAILABLE, "storage.googleapis.com: Transferred a partial file")
               : QR_OK;
}
static void close_stubborn(struct qr_web *h) {
    struct stubborn *s = (struct stubborn *)h;
    s->under->close(s->under);
    free(s);
}
static void test_no_progress(void) {
    for (int media = 0; media < 2; media++) {
        struct stubborn *b = qr_xcalloc(1, sizeof *b);
        *b = (struct stubborn){{send_stubborn, close_stubborn}, qr_web_curl(), media == 1};
        struct qr_gcs_options o = options();
        struct qr_store *s = open_with("conform", &o, &b->http);
        struct qr_err err = {0};
        struct qr_buf got = {0};
        int64_t began = virtual_ns;
        enum qr_code code = s->ops->get(s, "there", LARGE, &got, &err);
        int64_t took = virtual_ns - began;
        CHECK(code == QR_UNAVAILABLE && qr_exit_code(code) == 138 &&
                  strstr(err.msg, "please retry"),
              "%s %s", qr_code_name(code), err.msg);
        CHECK(took >= 600 * QR_SECOND && took < 605 * QR_SECOND, "%lld s",
              (long long)(took / QR_SECOND));
        qr_buf_free(&got);
        s->ops->close(s);
    }
}

/* An object that another client stored compressed: its bytes are returned as stored, in accordance
 * with its size and crc32c. */
static void test_compressed_object(void) {
    static const char text[] = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\x2b\x2c\xca\xcc\x4b\xd7"
                               "\x29\x1c\x25\x89\x20\x01\x93\xdb\xba\x4c\x2c\x01\x00\x00";
    struct qr_buf body = {0};
    qr_buf_puts(&body, "--b\r\nContent-Type: "
                       "application/"
                       "json\r\n\r\n{\"name\":\"packed\",\"contentEncoding\":\"gzip\"}\r\n--"
                       "b\r\nContent-Type: text/csv\r\n\r\n");
    qr_buf_put(&body, text, sizeof text - 1);
    qr_buf_puts(&body, "\r\n--b--\r\n");
    struct qr_web *h = qr_web_curl();
    qr_auto(qr_free_p) char *url =
        qr_xasprintf("%s/upload/storage/v1/b/conform/o?uploadType=multipart", endpoint);
    struct qr_web_request req = {.method = "POST",
                                 .url = url,
                                 .headers = {"Content-Type: multipart/related; boundary=b"},
                                 .n_headers = 1,
                                 .has_body = true,
                                 .body = qr_buf_view(&body),
                                 .max_reply_bytes = 1 << 20};
    struct qr_web_reply reply;
    struct qr_err err = {0};
    CHECK(h->send(h, &req, &reply, &err) == QR_OK && reply.status == 200, "%d %s", reply.status,
          err.msg);
    qr_web_reply_fini(&reply);
    h->close(h);
    qr_buf_free(&body);
    struct qr_gcs_options o = options();
    struct qr_store *s = open_with("conform", &o, NULL);
    CHECK(s->ops->get(s, "packed", 1000, &body, &err) == QR_OK && body.n == sizeof text - 1 &&
              memcmp(body.p, text, body.n) == 0,
          "%zu bytes, %s", body.n, err.msg);
    qr_buf_free(&body);
    s->ops->close(s);
}

/* ---- tokens ---- */

static void test_broken_tokens(void) {
    static const char *const replies[] = {
        "cut-reply-after-0B", "cut-reply-after-1B", "cut-reply-after-20B",
        "short-reply",        "chunked-reply",      "html-reply",
        "cut-refusal",        "return-503",         "return-reset-connection"};
    char folder[] = "/tmp/qring-tokens-XXXXXX";
    CHECK(mkdtemp(folder) != NULL);
    qr_auto(qr_free_p) char *user = qr_path_join(folder, "user.json"),
                            *federated = qr_path_join(folder, "federated.json");
    qr_auto(qr_free_p) char *user_text =
        qr_xasprintf("{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":"
                     "\"secret&=\",\"refresh_token\":\"1//refresh\",\"token_uri\":\"%s/token\"}",
                     endpoint);
    qr_auto(qr_free_p) char *federated_text =
        qr_xasprintf("{\"type\":\"external_account\",\"audience\":\"//iam/"
                     "pool\",\"subject_token_type\":\"urn:ietf:params:oauth:token-type:jwt\","
                     "\"token_url\":\"%s/sts\","
                     "\"credential_source\":{\"url\":\"%s/"
                     "subject\",\"headers\":{\"x-asks\":\"qring\"},\"format\":{\"type\":\"json\","
                     "\"subject_token_field_name\":\"id_token\"}},"
                     "\"service_account_impersonation_url\":\"%s/impersonate\"}",
                     endpoint, endpoint, endpoint);
    struct qr_err err = {0};
    CHECK(qr_file_replace(user, qr_bytes_of_string(user_text), &err) == QR_OK &&
              qr_file_replace(federated, qr_bytes_of_string(federated_text), &err) == QR_OK,
          "%s", err.msg);
    const char *const files[] = {NULL, user, federated}; /* NULL: the metadata server */
    for (size_t i = 0; i < COUNT(files); i++)
        for (size_t k = 0; k < COUNT(replies); k++) {
            /* The metadata server returns no OAuth errors. */
            if (!files[i] && strcmp(replies[k], "cut-refusal") == 0) continue;
            /* Nor does the subject's server. */
            if (files[i] == federated && strcmp(replies[k], "cut-refusal") == 0) continue;
            struct qr_gcs_options o = options();
            if (files[i]) o.emulator_host = NULL, o.endpoint = endpoint, o.credentials = files[i];
            else o.metadata_host = host;
            qr_auto(qr_free_p) char *faults =
                qr_xasprintf("{\"instructions\":{\"token\":[\"%s\",\"%s\",\"%s\"]}}", replies[k],
                             replies[k], replies[k]);
            tell("/control/faults", faults);
            struct qr_store *s = open_with("auth-b", &o, NULL);
            enum qr_code code = s->ops->put(s, "w", qr_bytes_of_string("x"), false, &err);
            CHECK(code == QR_OK, "%s, %s: %s", files[i] ? files[i] : "metadata server", replies[k],
                  err.msg);
            s->ops->close(s);
        }
    /* Ten minutes of such replies: a retryable error, for every source. */
    struct qr_buf many = {0};
    qr_buf_puts(&many, "{\"instructions\":{\"token\":[\"cut-reply-after-20B\"");
    for (int i = 0; i < 400; i++) qr_buf_puts(&many, ",\"cut-reply-after-20B\"");
    qr_buf_puts(&many, "]}}");
    for (size_t i = 0; i < COUNT(files); i++) {
        struct qr_gcs_options o = options();
        if (files[i]) o.emulator_host = NULL, o.endpoint = endpoint, o.credentials = files[i];
        else o.metadata_host = host;
        tell("/control/faults", qr_buf_string(&many));
        struct qr_store *s = open_with("auth-b", &o, NULL);
        int64_t began = virtual_ns;
        CHECK(s->ops->put(s, "w", qr_bytes_of_string("x"), false, &err) == QR_UNAVAILABLE &&
                  strstr(err.msg, "please retry"),
              "%s", err.msg);
        CHECK(virtual_ns - began >= 600 * QR_SECOND && virtual_ns - began < 605 * QR_SECOND,
              "%lld s", (long long)((virtual_ns - began) / QR_SECOND));
        s->ops->close(s);
    }
    tell("/control/faults", "{\"instructions\":{}}");
    qr_buf_free(&many);
    unlink(user), unlink(federated);
    CHECK(rmdir(folder) == 0, "%s is not empty", folder);
}

/* ---- */

/* The test bench has only buckets that were created in it. */
static void make_bucket(void) {
    struct qr_web *h = qr_web_curl();
    qr_auto(qr_free_p) char *url = qr_xasprintf("%s/storage/v1/b?project=p", endpoint);
    struct qr_web_request req = {.method = "POST",
                                 .url = url,
                                 .headers = {"Content-Type: application/json"},
                                 .n_headers = 1,
                                 .has_body = true,
                                 .body = qr_bytes_of_string("{\"name\":\"conform\"}"),
                                 .max_reply_bytes = 1 << 20};
    struct qr_web_reply reply;
    struct qr_err err = {0};
    CHECK(h->send(h, &req, &reply, &err) == QR_OK && (reply.status == 200 || reply.status == 409),
          "%d %s", reply.status, err.msg);
    qr_web_reply_fini(&reply);
    h->close(h);
}

int main(void) {
    const char *at = getenv("STORAGE_TESTBENCH");
    bench = at != NULL;
    guard_s = 30;
    virtual_ns = 1000 * QR_SECOND;
    pid_t pid = bench ? 0 : start_fake(host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of Cloud Storage");
        return t_end();
    }
    snprintf(endpoint, sizeof endpoint, "%s%s", bench ? "" : "http://", bench ? at : host);
    web_bench_init(&bucket_kind);
    if (bench) make_bucket();
    for (size_t i = 0; i < COUNT(google); i++) conform(&google[i]);
    test_every_verb();
    test_uploads();
    test_downloads();
    test_compressed_object();
    test_emulator_header();
    test_silence();
    if (!bench) {
        for (size_t i = 0; i < COUNT(ours); i++) conform(&ours[i]);
        damaged_uploads();
        test_unreadable();
        test_odd_downloads();
        test_no_progress();
        test_broken_tokens();
        kill(pid, SIGTERM);
        waitpid(pid, NULL, 0);
    }
    free(pattern);
    return t_end();
}
