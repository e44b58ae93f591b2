/* tests/conform/gcs_bench.h — web_bench.h for Cloud Storage. */
#ifndef GCS_BENCH_H
#define GCS_BENCH_H

enum { LARGE = (17 << 20) + 12345, KIB = 1024 };
#include "store/gcs_impl.h"
#include "tests/conform/web_bench.h"

static struct qr_gcs_options options(void) {
    return (struct qr_gcs_options){.emulator_host = endpoint,
                                   .waits.clock = &virtual_clock,
                                   .waits.wall = &qr_clock_wall,
                                   .waits.sleep = web_bench_sleep,
                                   .waits.stopping = is_stopping};
}
static struct qr_store *open_with(const char *bucket, const struct qr_gcs_options *o,
                                  struct qr_web *http) {
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    CHECK(qr_store_gcs_new(bucket, o, http, &s, &err) == QR_OK, "%s", err.msg);
    return s;
}

static struct qr_store *open_bucket(const char *bucket, const char *extra_header,
                                    void (*notice)(void *ctx, const char *sentence),
                                    struct qr_web *web) {
    struct qr_gcs_options o = options();
    o.extra_header = extra_header;
    o.waits.notice = notice, o.waits.notice_ctx = &notices;
    return open_with(bucket, &o, web);
}
static const struct bucket_kind bucket_kind = {"gs", LARGE, open_bucket};

#define INSERT(...) "\"storage.objects.insert\":[" __VA_ARGS__ "]"
#define GETS(...) "\"storage.objects.get\":[" __VA_ARGS__ "]"

#endif
