/* store/gcs_environment.h — what Google's clients read from the environment, for every gs:// URL. */
#ifndef QR_STORE_GCS_ENVIRONMENT_H
#define QR_STORE_GCS_ENVIRONMENT_H

#include <stdbool.h>

#include "base/log.h"

/* STORAGE_EMULATOR_HOST, GOOGLE_APPLICATION_CREDENTIALS, CLOUDSDK_CONFIG (or HOME), GCE_METADATA_HOST, NO_GCE_CHECK. environment:
 * NULL-terminated "NAME=value" texts, borrowed for the process' life, as the log is, where long waits are said. Before other threads and
 * before any URL is opened. stopping: has this process been asked to end? */
void qr_cloud_configure(char *const *environment, bool (*stopping)(void), const struct qr_log *log);
/* What it has configured, for who wants a store with other waits. */
struct qr_gcs_options;
const struct qr_gcs_options *qr_cloud_options(void);

#endif
