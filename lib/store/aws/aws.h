/* store/aws/aws.h — what AWS' clients have in common: signatures (Signature Version 4), the XML of
 * replies, profiles in files, and keys from wherever a program may have them.
 *
 * Auth      in this order, as AWS' own clients: the environment's keys, web identity, the files'
 *           profile (keys, or its own web identity), the container's endpoint, the instance's
 *           metadata (v2). Keys that end are renewed five minutes before.
 * Secrets   keys and tokens appear in no message, and are wiped.
 * Sources   docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html,
 *           docs.aws.amazon.com/sdkref/latest/guide.
 */
#ifndef QR_STORE_AWS_AWS_H
#define QR_STORE_AWS_AWS_H

#include "store/web/web.h"

/* Borrowed for the store's life; NULL: not set. The names are those of the environment. */
struct qr_s3_options {
    const char *endpoint;                  /* AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL */
    const char *sts_endpoint;              /* AWS_ENDPOINT_URL_STS, AWS_ENDPOINT_URL */
    const char *region;                    /* AWS_REGION, AWS_DEFAULT_REGION */
    const char *key_id, *secret, *session; /* AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, … */
    const char *role, *token_file;         /* AWS_ROLE_ARN, AWS_WEB_IDENTITY_TOKEN_FILE */
    const char *role_session;              /* AWS_ROLE_SESSION_NAME */
    const char *profile;                   /* AWS_PROFILE */
    const char *credentials_file;          /* AWS_SHARED_CREDENTIALS_FILE, ~/.aws/credentials */
    const char *config_file;               /* AWS_CONFIG_FILE, ~/.aws/config */
    const char *container_path;            /* AWS_CONTAINER_CREDENTIALS_RELATIVE_URI */
    const char *container_url;             /* AWS_CONTAINER_CREDENTIALS_FULL_URI */
    const char *container_token;           /* AWS_CONTAINER_AUTHORIZATION_TOKEN */
    const char *container_token_file;      /* AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE */
    const char *metadata;                  /* AWS_EC2_METADATA_SERVICE_ENDPOINT */
    bool no_metadata;                      /* AWS_EC2_METADATA_DISABLED */
    const char *ca_file;                   /* AWS_CA_BUNDLE */
    const char *extra_header; /* sent with every storage request: a fault test's name */
    struct qr_web_waits waits;
};

/* ---- signatures ---- */

struct qr_s3_keys {
    char *id, *secret, *session; /* heap; session NULL: none */
    int64_t expires_ns;          /* of the wall's clock; 0: never */
};
void qr_s3_keys_fini(struct qr_s3_keys *k); /* wiped */

enum { QR_S3_TIME_BYTES = 17, QR_S3_HASH_BYTES = 65 };
/* "20130524T000000Z" */
void qr_s3_time(int64_t wall_ns, char ret[QR_S3_TIME_BYTES]);
/* "2011-07-15T23:28:33Z", with or without parts of a second; false: no such time. */
bool qr_s3_time_parse(const char *text, int64_t *ret_wall_ns);

struct qr_s3_signing {
    const char *method, *path, *query; /* as sent: escaped, the query's parts sorted */
    const char *const *headers;        /* "Name: value", Host and x-amz-date among them */
    size_t n_headers;
    const char *payload; /* its SHA-256 in hex */
    const char *time, *region, *service;
};
/* "Authorization: AWS4-HMAC-SHA256 …". Heap. */
char *qr_s3_authorization(const struct qr_s3_signing *s, const struct qr_s3_keys *keys);

/* ---- XML ---- */

/* Each element that holds text alone, in order, with its parent's name; text: entities resolved. */
typedef void qr_s3_leaf(void *ctx, const char *parent, const char *name, const char *text);
/* A document whose root has this name, closed: else INVALID_ARGUMENT. At most 16 levels, names of
 * 63 bytes; comments, instructions and attributes are passed over, DTDs refused. Leaves may have
 * been given before an error is found. */
QR_MUST_CHECK enum qr_code qr_s3_xml(struct qr_bytes body, const char *root, qr_s3_leaf *leaf,
                                     void *ctx, struct qr_err *err);

struct qr_s3_error {
    char code[64], message[QR_WEB_TEXT_BYTES], region[64]; /* printable; "": not said */
};
void qr_s3_error_read(struct qr_bytes body, struct qr_s3_error *ret);

/* ---- the files' profile ---- */

struct qr_s3_profile {
    char *key_id, *secret, *session, *region, *endpoint, *style, *role, *token_file;
    char *unsupported; /* what it wants that is not supported; NULL: nothing */
    bool there;
};
QR_MUST_CHECK enum qr_code qr_s3_profile_read(const struct qr_s3_options *opt,
                                              struct qr_s3_profile *ret, struct qr_err *err);
/* One file's text; config: its sections are "profile NAME". What is set already stays. */
void qr_s3_profile_parse(struct qr_bytes text, const char *name, bool config,
                         struct qr_s3_profile *p);
void qr_s3_profile_fini(struct qr_s3_profile *p);

/* ---- credentials ---- */

struct qr_s3_auth;
struct qr_s3_auth *qr_s3_auth_new(const struct qr_s3_options *opt, const char *region,
                                  struct qr_web *web);
void qr_s3_auth_free(struct qr_s3_auth *a);
/* Borrowed until the next call. UNAVAILABLE: try again. */
QR_MUST_CHECK enum qr_code qr_s3_auth_keys(struct qr_s3_auth *a, const struct qr_s3_keys **ret,
                                           struct qr_err *err);
/* The keys were refused; false: others cannot be had. */
bool qr_s3_auth_drop(struct qr_s3_auth *a);

#endif
