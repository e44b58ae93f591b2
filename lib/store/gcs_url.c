/* gs:// URLs, and what Google's clients read from the environment: STORAGE_EMULATOR_HOST,
 * GOOGLE_APPLICATION_CREDENTIALS, CLOUDSDK_CONFIG (or HOME), GCE_METADATA_HOST, NO_GCE_CHECK. */
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "store/gcs.h"
#include "store/kind_impl.h"

static struct qr_gcs_options process_options; /* set once, before threads */

void qr_gcs_configure(const struct qr_gcs_options *o) { process_options = *o; }

/* One that is empty says nothing. */
static const char *given(char *const *environment, const char *name) {
    const char *value = qr_variable(environment, name);
    return value && *value ? value : NULL;
}

static void say(void *log, const char *sentence) {
    qr_warn((const struct qr_log *)log, "store", "%s", sentence);
}

void qr_store_gcs_configure(char *const *environment, bool (*stopping)(void),
                            const struct qr_log *log) {
    static char gcloud_dir[4096];
    const char *no_check = given(environment, "NO_GCE_CHECK"), *home = given(environment, "HOME"),
               *config = given(environment, "CLOUDSDK_CONFIG");
    bool none = false;
    if (no_check && !qr_parse_bool(no_check, &none)) none = strcasecmp(no_check, "true") == 0;
    qr_auto(qr_free_p) char *dir = config ? qr_xstrdup(config)
                                   : home ? qr_xasprintf("%s/.config/gcloud", home)
                                          : NULL;
    if (dir && strlen(dir) < sizeof gcloud_dir) memcpy(gcloud_dir, dir, strlen(dir) + 1);
    const struct qr_gcs_options o = {
        .emulator_host = given(environment, "STORAGE_EMULATOR_HOST"),
        .credentials = given(environment, "GOOGLE_APPLICATION_CREDENTIALS"),
        .gcloud_dir = gcloud_dir,
        .metadata_host = given(environment, "GCE_METADATA_HOST"),
        .no_metadata = none,
        .waits.clock = &qr_clock_monotonic,
        .waits.awake = &qr_clock_awake,
        .waits.wall = &qr_clock_wall,
        .waits.sleep = qr_sleep_ns,
        .waits.stopping = stopping,
        .waits.notice = say,
        .waits.notice_ctx = (void *)(uintptr_t)log,
    };
    qr_gcs_configure(&o);
}

char *qr_gcs_url(const char *bucket, const char *name) {
    return qr_xasprintf("gs://%s/%s", bucket, name);
}

enum qr_code qr_store_gcs_open(const char *url, const struct qr_store_waits *waits,
                               struct qr_store **ret, char **ret_name, struct qr_err *err) {
    const char *bucket = url + strlen("gs://"), *slash = strchr(bucket, '/');
    struct qr_gcs_options o = process_options;
    if (!o.waits.clock)
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "%s: Cloud Storage is not configured in this program; give a local path",
                       url);
    if (!slash || slash == bucket || !slash[1])
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: give bucket and name, gs://bucket/dir/name",
                       url);
    if (waits) {
        o.waits.deadline_ns = waits->deadline_ns;
        o.waits.stop_deadline_ns = waits->stop_deadline_ns;
        o.waits.stopping = waits->stopping;
        o.waits.sleep = waits->sleep;
        o.waits.notice = NULL;
    }
    qr_auto(qr_free_p) char *name = qr_xstrndup(bucket, (size_t)(slash - bucket));
    enum qr_code code = qr_store_gcs_new(name, &o, NULL, ret, err);
    if (code != QR_OK) return qr_wrap(err, "%s", url);
    *ret_name = qr_xstrdup(slash + 1);
    return QR_OK;
}
