#include "store/gcs_environment.h"

#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "store/gcs.h"

static const char *variable(char *const *environment, const char *name) {
    size_t n = strlen(name);
    for (; *environment; environment++)
        if (strncmp(*environment, name, n) == 0 && (*environment)[n] == '=') return (*environment)[n + 1] ? *environment + n + 1 : NULL;
    return NULL;
}

static struct qr_gcs_options options;

static void say(void *log, const char *sentence) { qr_warn((const struct qr_log *)log, "store", "%s", sentence); }

void qr_cloud_configure(char *const *environment, bool (*stopping)(void), const struct qr_log *log) {
    static char gcloud_dir[4096];
    const char *no_check = variable(environment, "NO_GCE_CHECK"), *home = variable(environment, "HOME"),
        *config = variable(environment, "CLOUDSDK_CONFIG");
    bool none = false;
    if (no_check && !qr_parse_bool(no_check, &none)) none = strcasecmp(no_check, "true") == 0;
    qr_auto(qr_free_p) char *dir = config ? qr_xstrdup(config) : home ? qr_xasprintf("%s/.config/gcloud", home) : NULL;
    if (dir && strlen(dir) < sizeof gcloud_dir) memcpy(gcloud_dir, dir, strlen(dir) + 1);
    options = (struct qr_gcs_options){
        .emulator_host = variable(environment, "STORAGE_EMULATOR_HOST"),
        .credentials = variable(environment, "GOOGLE_APPLICATION_CREDENTIALS"),
        .gcloud_dir = gcloud_dir, .metadata_host = variable(environment, "GCE_METADATA_HOST"), .no_metadata = none,
        .clock = &qr_clock_monotonic, .awake = &qr_clock_awake, .wall = &qr_clock_wall, .sleep = qr_sleep_ns, .stopping = stopping,
        .notice = say, .notice_ctx = (void *)(uintptr_t)log,
    };
    qr_store_configure(&options);
}

const struct qr_gcs_options *qr_cloud_options(void) { return &options; }
