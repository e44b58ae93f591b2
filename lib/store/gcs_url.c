/* store/gcs_url.c — gs:// URLs, and the environment variables of Google's clients:
 * STORAGE_EMULATOR_HOST, GOOGLE_APPLICATION_CREDENTIALS, CLOUDSDK_CONFIG (or HOME),
 * GCE_METADATA_HOST, NO_GCE_CHECK. Start reading at qr_store_gcs_open(). */
#include <string.h>

#include "base/mem.h"
#include "store/bucket_url_impl.h"
#include "store/gcs.h"
#include "store/kind_impl.h"

static struct qr_gcs_options process_options; /* set once, before any thread starts */

void qr_gcs_configure(const struct qr_gcs_options *o) { process_options = *o; }

void qr_store_gcs_configure(char *const *environment, bool (*stopping)(void),
                            const struct qr_log *log) {
    static char gcloud_dir[4096];
    const char *home = qr_bucket_given(environment, "HOME"),
               *config = qr_bucket_given(environment, "CLOUDSDK_CONFIG");
    qr_auto(qr_free_p) char *dir = config ? qr_xstrdup(config)
                                   : home ? qr_xasprintf("%s/.config/gcloud", home)
                                          : NULL;
    if (dir && strlen(dir) < sizeof gcloud_dir) memcpy(gcloud_dir, dir, strlen(dir) + 1);
    const struct qr_gcs_options o = {
        .emulator_host = qr_bucket_given(environment, "STORAGE_EMULATOR_HOST"),
        .credentials = qr_bucket_given(environment, "GOOGLE_APPLICATION_CREDENTIALS"),
        .gcloud_dir = gcloud_dir,
        .metadata_host = qr_bucket_given(environment, "GCE_METADATA_HOST"),
        .no_metadata = qr_bucket_switch(environment, "NO_GCE_CHECK"),
        .waits = qr_bucket_waits(stopping, log),
    };
    qr_gcs_configure(&o);
}

char *qr_gcs_url(const char *bucket, const char *name) {
    return qr_xasprintf("gs://%s/%s", bucket, name);
}

enum qr_code qr_store_gcs_open(const char *url, const struct qr_store_waits *waits,
                               struct qr_store **ret, char **ret_name, struct qr_err *err) {
    struct qr_gcs_options o = process_options;
    qr_auto(qr_free_p) char *bucket = NULL;
    const char *name;
    QR_TRY(qr_bucket_url(url, "Cloud Storage", waits, &o.waits, &bucket, &name, err));
    if (qr_store_gcs_new(bucket, &o, NULL, ret, err) != QR_OK) return qr_wrap(err, "%s", url);
    *ret_name = qr_xstrdup(name);
    return QR_OK;
}
