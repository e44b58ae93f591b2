/* store/bucket_url.c — URLs, environment variables and timeouts that the remote stores share. Start
 * reading at qr_bucket_url(). */
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "store/bucket_url_impl.h"

enum qr_code qr_url_read_only(const char *shown, const char *scheme, struct qr_err *err) {
    return qr_fail(err, QR_UNIMPLEMENTED,
                   "%.300s: %s:// URLs are read-only; give a folder, gs:// or s3://", shown,
                   scheme);
}

const char *qr_bucket_given(char *const *environment, const char *name) {
    const char *value = qr_variable(environment, name);
    return value && *value ? value : NULL;
}

bool qr_bucket_switch(char *const *environment, const char *name) {
    const char *value = qr_bucket_given(environment, name);
    bool on = false;
    if (value && !qr_parse_bool(value, &on)) on = strcasecmp(value, "true") == 0;
    return on;
}

static void log_notice(void *log, const char *sentence) {
    qr_warn((const struct qr_log *)log, "store", "%s", sentence);
}

struct qr_web_waits qr_bucket_waits(bool (*stopping)(void), const struct qr_log *log) {
    return (struct qr_web_waits){.clock = &qr_clock_monotonic,
                                 .awake = &qr_clock_awake,
                                 .wall = &qr_clock_wall,
                                 .sleep = qr_sleep_ns,
                                 .stopping = stopping,
                                 .notice = log_notice,
                                 .notice_ctx = (void *)(uintptr_t)log};
}

enum qr_code qr_bucket_waits_of(const char *url, const char *service,
                                const struct qr_store_waits *own, struct qr_web_waits *waits,
                                struct qr_err *err) {
    if (!waits->clock) {
        qr_auto(qr_free_p) char *shown = qr_web_url_redacted(url);
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "%s: %s is not configured in this program; give a local path", shown,
                       service);
    }
    if (own) {
        waits->deadline_ns = own->deadline_ns;
        waits->stop_deadline_ns = own->stop_deadline_ns;
        waits->stopping = own->stopping;
        waits->sleep = own->sleep;
        waits->notice = NULL;
    }
    return QR_OK;
}

enum qr_code qr_bucket_url(const char *url, const char *service, const struct qr_store_waits *own,
                           struct qr_web_waits *waits, char **ret_bucket, const char **ret_name,
                           struct qr_err *err) {
    const char *bucket = strstr(url, "://") + 3, *slash = strchr(bucket, '/');
    QR_TRY(qr_bucket_waits_of(url, service, own, waits, err));
    if (!slash || slash == bucket || !slash[1])
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: give bucket and name, %.*sbucket/dir/name",
                       url, (int)(bucket - url), url);
    *ret_bucket = qr_xstrndup(bucket, (size_t)(slash - bucket));
    *ret_name = slash + 1;
    return QR_OK;
}
