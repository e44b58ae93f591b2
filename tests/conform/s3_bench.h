/* tests/conform/s3_bench.h — web_bench.h for S3. */
#ifndef S3_BENCH_H
#define S3_BENCH_H

enum { LARGE = (9 << 20) + 777, KIB = 1024 };
#include "store/s3_impl.h"
#include "tests/conform/web_bench.h"

static const char scheme[] = "s3";
static int64_t later_ns; /* the wall is so much ahead */
static int64_t wall(void *ctx) { return (void)ctx, qr_now_ns(&qr_clock_wall) + later_ns; }
static const struct qr_clock wall_clock = {wall, NULL};

static struct qr_s3_options options(void) {
    return (struct qr_s3_options){
        .endpoint = endpoint,
        .sts_endpoint = endpoint,
        .metadata = endpoint,
        .key_id = "AKIDFAKE",
        .secret = "fake/secret+key",
        .waits = {
            .clock = &virtual_clock, .wall = &wall_clock, .sleep = pass, .stopping = is_stopping}};
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

#endif
