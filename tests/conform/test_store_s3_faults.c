/* Failures of S3, against tests/fake/s3.py: the faults of Cloud Storage's test bench for every verb
 * in use, outages, and a concurrent writer between a read and a write. */
#include "tests/conform/s3_bench.h"

#define TO "storage.objects.insert "
#define FROM "storage.objects.get "
#define LISTS "storage.objects.list "
#define GONE "storage.objects.delete "
static const struct row faults[] = {
    {0, TO "return-503 return-reset-connection return-429 return-500", CREATE, 100, QR_OK, "", true,
     NULL},
    {0, TO "return-503 return-reset-connection return-408", PUT, 100, QR_OK, "", true, NULL},
    {0, TO "return-503 return-reset-connection", SWAP, 100, QR_OK, "", true, NULL},
    {0, TO "return-503 return-502 return-504", PUT, LARGE, QR_OK, "", true, NULL},
    {0, TO "return-503 return-500 return-503", CHECK_WRITE, 0, QR_OK, "", true, NULL},
    {0, TO "return-412 return-503", CREATE, 100, QR_FAILED_PRECONDITION,
     "s3://conform/new already exists", false, NULL},
    {0, TO "return-412 return-412 return-412 return-412", PUT, 100, QR_ABORTED, "please retry",
     true, NULL},
    {0, TO "return-412", SWAP, 100, QR_FAILED_PRECONDITION, "was changed by another writer", true,
     NULL},
    {0, TO "return-403 return-503", CREATE, 100, QR_PERMISSION_DENIED, "s3:PutObject", false, NULL},
    {0, TO "return-400 return-503", CREATE, 100, QR_INVALID_ARGUMENT, "s3://conform/new", false,
     NULL},
    {0, TO "return-503 return-401", CREATE, 100, QR_UNAUTHENTICATED, "keys are not accepted", true,
     NULL},
    {0, TO "return-501 return-503", CREATE, 100, QR_UNIMPLEMENTED, "conditional writes", false,
     NULL},
    {0, TO "return-503-after-256K return-broken-stream-after-8192K", CREATE, LARGE, QR_OK, "", true,
     NULL},
    {0, TO "lost-acknowledgement", CREATE, 100, QR_OK, "", true, NULL},
    {0, TO "lost-acknowledgement return-503", CREATE, 0, QR_OK, "", true, NULL},
    {0, TO "lost-acknowledgement", PUT, 100, QR_OK, "", true, NULL},
    {0, TO "lost-acknowledgement return-503", SWAP, 100, QR_OK, "", true, NULL},
    {0, TO "lost-acknowledgement", CHECK_WRITE, 0, QR_OK, "", true, NULL},
    {0, TO "wrong-crc32c", CREATE, 100, QR_OK, "", true, NULL},
    {0, TO "wrong-crc32c", SWAP, 100, QR_OK, "", true, NULL},
    {0, TO "wrong-crc32c wrong-crc32c wrong-crc32c wrong-crc32c", PUT, 100, QR_DATA_LOSS,
     "s3://conform/there", true, NULL},
    {0, TO "return-301", CREATE, 100, QR_INVALID_ARGUMENT, "bucket is in region", true, NULL},
    {0, TO "return-307", CREATE, 100, QR_INVALID_ARGUMENT, "upload rejected (307", true, NULL},
    {0, TO "return-409", SWAP, 100, QR_INVALID_ARGUMENT, "upload rejected (409", true, NULL},
    {0, TO "return-418", CREATE, 100, QR_INVALID_ARGUMENT, "upload rejected (418", true, NULL},
    {0, FROM "return-412 return-412", GET, 10, QR_INVALID_ARGUMENT, "download rejected (412", true,
     NULL},
    {0, LISTS "return-412", LIST, 0, QR_INVALID_ARGUMENT, "list rejected (412", true, NULL},
    {0, TO "garbage-reply", CREATE, 100, QR_OK, "", true, NULL},
    {0, TO "html-reply", CREATE, 100, QR_OK, "", true, NULL},
    {0, TO "html-reply short-reply", PUT, 100, QR_OK, "", true, NULL},
    {0, TO "chunked-reply", SWAP, 100, QR_OK, "", true, NULL},
    {0, FROM "return-503 return-reset-connection return-429", GET, 10, QR_OK, "", true, NULL},
    {0, FROM "return-400 return-400 return-503", GET, 10, QR_INVALID_ARGUMENT, "s3://conform/there",
     false, NULL},
    {0, FROM "return-403 return-403 return-503", GET, 10, QR_PERMISSION_DENIED, "s3:GetObject",
     false, NULL},
    {0, FROM "return-broken-stream return-broken-stream", GET, 600 * KIB, QR_OK, "", true, NULL},
    {0,
     FROM "return-broken-stream-after-256K return-broken-stream-after-256K return-503 "
          "return-broken-stream-after-256K ignore-range",
     GET, LARGE, QR_OK, "", true, NULL},
    {0, FROM "return-broken-stream-after-256K short-reply html-reply other-range", GET, LARGE,
     QR_OK, "", true, NULL},
    {0, FROM "return-broken-stream-after-256K replaced", GET, LARGE, QR_OK, "", true, NULL},
    {0, FROM "return-broken-stream-after-256K return-416", GET, 600 * KIB, QR_OK, "", true, NULL},
    {0, FROM "cut-reply-after-100B chunked-reply html-reply", GET, 600 * KIB, QR_OK, "", true,
     NULL},
    {0, FROM "wrong-crc32c", GET, 10, QR_OK, "", true, NULL},
    {0, FROM "wrong-crc32c wrong-crc32c wrong-crc32c wrong-crc32c", GET, 10, QR_DATA_LOSS, "crc32c",
     true, NULL},
    {0, LISTS "return-503 return-reset-connection", LIST, 0, QR_OK, "", true, NULL},
    {0,
     LISTS "cut-reply-after-0B cut-reply-after-20B cut-reply-after-200B short-reply chunked-reply "
           "html-reply",
     LIST, 0, QR_OK, "", true, NULL},
    {0, LISTS "return-403 return-503", LIST, 0, QR_PERMISSION_DENIED, "s3:ListBucket", false, NULL},
    {0, GONE "return-503 return-reset-connection lost-acknowledgement", REMOVE, 0, QR_OK, "", true,
     NULL},
    {0, GONE "return-403 return-503", REMOVE, 0, QR_PERMISSION_DENIED, "s3:DeleteObject", false,
     NULL},
};

/* ---- a concurrent writer between a read and a write ---- */

struct concurrent {
    struct qr_web web;
    struct qr_web *under;
    struct qr_store *other;
};
static enum qr_code send_concurrent(struct qr_web *h, const struct qr_web_request *req,
                                    struct qr_web_reply *ret, struct qr_err *err) {
    struct concurrent *m = (struct concurrent *)h;
    struct qr_err ignored;
    if (strcmp(req->method, "PUT") == 0 && m->other)
        CHECK(put(m->other, "w", "theirs", false, &ignored) == QR_OK, "%s", ignored.msg);
    return m->under->send(m->under, req, ret, err);
}
static void close_concurrent(struct qr_web *h) {
    struct concurrent *m = (struct concurrent *)h;
    m->under->close(m->under);
    free(m);
}
static void test_concurrent_writer(void) {
    struct qr_s3_options o = options();
    struct qr_err err = {0};
    struct qr_buf b = {0};
    struct qr_store_version v;
    struct concurrent *m = qr_xcalloc(1, sizeof *m);
    *m = (struct concurrent){{send_concurrent, close_concurrent}, qr_web_curl(), NULL};
    struct qr_store *s = open_with("between", &o, &m->web), *other = open_with("between", &o, NULL);
    CHECK(put(s, "w", "ours", true, &err) == QR_OK, "%s", err.msg);
    CHECK(s->ops->get_version(s, "w", 100, &b, &v, &err) == QR_OK, "%s", err.msg);
    m->other = other;
    CHECK(s->ops->swap(s, "w", qr_bytes_of_string("again"), &v, &err) == QR_FAILED_PRECONDITION &&
              holds(other, "w", "theirs"),
          "the swap loses against the concurrent writer: %s", err.msg);
    CHECK(other->ops->remove(other, "w", &err) == QR_OK, "%s", err.msg);
    CHECK(put(s, "w", "new", true, &err) == QR_FAILED_PRECONDITION && holds(other, "w", "theirs"),
          "so does the creation: %s", err.msg);
    s->ops->close(s);
    other->ops->close(other);
    qr_buf_free(&b);
}

int main(void) {
    virtual_ns = 1000 * QR_SECOND;
    pid_t pid = start_fake_of("tests/fake/s3.py", host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake of S3");
        return t_end();
    }
    snprintf(endpoint, sizeof endpoint, "http://%s", host);
    web_bench_init(&bucket_kind);
    for (size_t i = 0; i < COUNT(faults); i++) conform(&faults[i]);
    outages();
    damaged_uploads();
    test_concurrent_writer();
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    free(pattern);
    return t_end();
}
