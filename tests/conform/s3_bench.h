/* tests/conform/s3_bench.h — web_bench.h for S3. */
#ifndef S3_BENCH_H
#define S3_BENCH_H

enum { LARGE = (9 << 20) + 777, KIB = 1024 };
#include "store/s3_impl.h"
#include "tests/conform/web_bench.h"

static int64_t later_ns; /* of the wall clock, ahead of the system's */
static int64_t wall(void *ctx) { return (void)ctx, qr_now_ns(&qr_clock_wall) + later_ns; }
static const struct qr_clock wall_clock = {wall, NULL};

static struct qr_s3_options options(void) {
    return (struct qr_s3_options){.endpoint = endpoint,
                                  .sts_endpoint = endpoint,
                                  .metadata = endpoint,
                                  .key_id = "AKIDFAKE",
                                  .secret = "fake/secret+key",
                                  .waits = {.clock = &virtual_clock,
                                            .wall = &wall_clock,
                                            .sleep = web_bench_sleep,
                                            .stopping = is_stopping}};
}
static struct qr_store *open_with(const char *bucket, const struct qr_s3_options *o,
                                  struct qr_web *web) {
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    CHECK(qr_store_s3_new(bucket, o, web, &s, &err) == QR_OK, "%s", err.msg);
    return s;
}

static struct qr_store *open_bucket(const char *bucket, const char *extra_header,
                                    void (*notice)(void *ctx, const char *sentence),
                                    struct qr_web *web) {
    struct qr_s3_options o = options();
    o.extra_header = extra_header;
    o.waits.notice = notice, o.waits.notice_ctx = &notices;
    return open_with(bucket, &o, web);
}
static const struct bucket_kind bucket_kind = {"s3", LARGE, open_bucket};

#endif
