/* store/aws/aws.h — AWS protocols: signatures (Signature Version 4), XML replies, profile files,
 * and the sources of access keys.
 *
 * Auth      in this order, as AWS' own clients: the environment's keys, web identity, the files'
 *           profile (keys, or its own web identity), the container's endpoint, the instance's
 *           metadata (v2). Expiring keys are renewed five minutes before their end.
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
    const char *extra_header;              /* sent with every storage request: names a fault test */
    struct qr_web_waits waits;
};

/* ---- signatures ---- */

struct qr_s3_keys {
    char *id, *secret, *session; /* heap; session NULL: none */
    int64_t expires_ns;          /* wall clock; 0: never */
};
void qr_s3_keys_fini(struct qr_s3_keys *k); /* wipes the memory */

enum { QR_S3_TIME_BYTES = 17, QR_S3_HASH_BYTES = 65 };
/* Writes "20130524T000000Z". */
void qr_s3_time(int64_t wall_ns, char ret[QR_S3_TIME_BYTES]);
/* Parses "2011-07-15T23:28:33Z", with or without fractions of a second; false: malformed. */
bool qr_s3_time_parse(const char *text, int64_t *ret_wall_ns);

struct qr_s3_signing {
    const char *method, *path, *query; /* as sent: escaped, parameters of the query sorted */
    const char *const *headers;        /* "Name: value", including Host and x-amz-date */
    size_t n_headers;
    const char *payload; /* SHA-256 of the body in hex */
    const char *time, *region, *service;
};
/* Returns "Authorization: AWS4-HMAC-SHA256 …" (heap). */
char *qr_s3_authorization(const struct qr_s3_signing *s, const struct qr_s3_keys *keys);

/* ---- XML ---- */

/* Called for each element that holds only text, in order; text: with entities resolved. */
typedef void qr_s3_leaf(void *ctx, const char *parent, const char *name, const char *text);
/* Parses an XML document whose root element is `root`.
 *
 * At most 16 levels, names of 63 bytes. Comments, processing instructions and attributes are
 * ignored, DTDs are rejected.
 * Errors:   INVALID_ARGUMENT (malformed or truncated); `leaf` may have been called before
 */
QR_MUST_CHECK enum qr_code qr_s3_xml(struct qr_bytes body, const char *root, qr_s3_leaf *leaf,
                                     void *ctx, struct qr_err *err);

struct qr_s3_error {
    char code[64], message[QR_WEB_TEXT_BYTES], region[64]; /* printable; "": missing */
};
/* Reads an error reply of S3 or STS; all fields "" when the body is malformed. */
void qr_s3_error_read(struct qr_bytes body, struct qr_s3_error *ret);

/* ---- profiles in files ---- */

struct qr_s3_profile {
    char *key_id, *secret, *session, *region, *endpoint, *style, *role, *token_file;
    char *unsupported; /* first key that qring does not support; NULL: none */
    bool there;        /* a file has the profile */
};
/* Reads the profile of both files. INVALID_ARGUMENT: AWS_PROFILE names a missing profile; the file
 * system's errors. */
QR_MUST_CHECK enum qr_code qr_s3_profile_read(const struct qr_s3_options *opt,
                                              struct qr_s3_profile *ret, struct qr_err *err);
/* Adds the keys of one file; config: its sections are "profile NAME". Keys that are already set
 * stay. */
void qr_s3_profile_parse(struct qr_bytes text, const char *name, bool config,
                         struct qr_s3_profile *p);
void qr_s3_profile_fini(struct qr_s3_profile *p); /* wipes the secrets */

/* ---- credentials ---- */

struct qr_s3_auth;
/* Borrows its arguments; sends no request. region NULL: not configured. */
struct qr_s3_auth *qr_s3_auth_new(const struct qr_s3_options *opt, const char *region,
                                  struct qr_web *web);
void qr_s3_auth_free(struct qr_s3_auth *a); /* NULL is fine */
/* *ret: valid keys, borrowed until the next call. UNAVAILABLE: retry. */
QR_MUST_CHECK enum qr_code qr_s3_auth_keys(struct qr_s3_auth *a, const struct qr_s3_keys **ret,
                                           struct qr_err *err);
/* Forgets rejected keys; false when the source has no others. */
bool qr_s3_auth_drop(struct qr_s3_auth *a);

#endif
