/* store/s3_url.c — s3:// URLs, and the environment variables of AWS' clients. Start reading at
 * qr_store_s3_open(). */
#include <string.h>

#include "base/mem.h"
#include "store/bucket_url_impl.h"
#include "store/kind_impl.h"
#include "store/s3.h"

static struct qr_s3_options process_options; /* set once, before any thread starts */

/* Returns the first of two variables that is set. */
static const char *env_first(char *const *environment, const char *name, const char *other) {
    const char *value = qr_bucket_given(environment, name);
    return value || !other ? value : qr_bucket_given(environment, other);
}

static const char *aws_file_path(const char *home, const char *name, char *path, size_t bytes) {
    qr_auto(qr_free_p) char *all = home ? qr_xasprintf("%s/.aws/%s", home, name) : NULL;
    if (!all || strlen(all) >= bytes) return NULL;
    memcpy(path, all, strlen(all) + 1);
    return path;
}

void qr_store_s3_configure(char *const *env, bool (*stopping)(void), const struct qr_log *log) {
    static char credentials[4096], config[4096];
    const char *home = env_first(env, "HOME", NULL);
    const char *own_credentials = env_first(env, "AWS_SHARED_CREDENTIALS_FILE", NULL),
               *own_config = env_first(env, "AWS_CONFIG_FILE", NULL);
    bool plain = qr_bucket_switch(env, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
    process_options = (struct qr_s3_options){
        .endpoint = plain ? NULL : env_first(env, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        .sts_endpoint = plain ? NULL : env_first(env, "AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"),
        .region = env_first(env, "AWS_REGION", "AWS_DEFAULT_REGION"),
        .key_id = env_first(env, "AWS_ACCESS_KEY_ID", NULL),
        .secret = env_first(env, "AWS_SECRET_ACCESS_KEY", NULL),
        .session = env_first(env, "AWS_SESSION_TOKEN", NULL),
        .role = env_first(env, "AWS_ROLE_ARN", NULL),
        .token_file = env_first(env, "AWS_WEB_IDENTITY_TOKEN_FILE", NULL),
        .role_session = env_first(env, "AWS_ROLE_SESSION_NAME", NULL),
        .profile = env_first(env, "AWS_PROFILE", "AWS_DEFAULT_PROFILE"),
        .credentials_file =
            own_credentials ? own_credentials
                            : aws_file_path(home, "credentials", credentials, sizeof credentials),
        .config_file =
            own_config ? own_config : aws_file_path(home, "config", config, sizeof config),
        .container_path = env_first(env, "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", NULL),
        .container_url = env_first(env, "AWS_CONTAINER_CREDENTIALS_FULL_URI", NULL),
        .container_token = env_first(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN", NULL),
        .container_token_file = env_first(env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", NULL),
        .metadata = env_first(env, "AWS_EC2_METADATA_SERVICE_ENDPOINT", NULL),
        .no_metadata = qr_bucket_switch(env, "AWS_EC2_METADATA_DISABLED"),
        .ca_file = env_first(env, "AWS_CA_BUNDLE", NULL),
        .waits = qr_bucket_waits(stopping, log),
    };
}

enum qr_code qr_store_s3_open(const char *url, const struct qr_store_waits *waits,
                              struct qr_store **ret, char **ret_name, struct qr_err *err) {
    struct qr_s3_options o = process_options;
    qr_auto(qr_free_p) char *bucket = NULL;
    const char *name;
    QR_TRY(qr_bucket_url(url, "S3", waits, &o.waits, &bucket, &name, err));
    if (qr_store_s3_new(bucket, &o, NULL, ret, err) != QR_OK) return qr_wrap(err, "%s", url);
    *ret_name = qr_xstrdup(name);
    return QR_OK;
}
