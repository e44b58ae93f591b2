/* store/kind_impl.h — the URL schemes: one row for each, in store_url.c. */
#ifndef QR_STORE_KIND_IMPL_H
#define QR_STORE_KIND_IMPL_H

#include "store/store.h"

struct qr_store_kind {
    const char *scheme;  /* "gs" for gs://... */
    const char *form;    /* "gs://bucket/name", for messages */
    const char *slashes; /* "two": the number of slashes after the colon */
    bool remote;         /* on another machine: see qr_url_remote */
    bool read_only;      /* see qr_url_check_writable */
    /* As qr_url_redacted; NULL: the URL holds no secret. */
    char *(*shown)(const char *url);
    /* Reads environment variables; NULL: the scheme has none. */
    void (*configure)(char *const *environment, bool (*stopping)(void), const struct qr_log *log);
    /* As qr_store_resolve_waiting; the url begins with scheme://. */
    enum qr_code (*open)(const char *url, const struct qr_store_waits *waits, struct qr_store **ret,
                         char **ret_name, struct qr_err *err);
};
/* The functions of each scheme, for the rows of store_url.c. */
void qr_store_gcs_configure(char *const *environment, bool (*stopping)(void),
                            const struct qr_log *log);
enum qr_code qr_store_gcs_open(const char *url, const struct qr_store_waits *waits,
                               struct qr_store **ret, char **ret_name, struct qr_err *err);
void qr_store_s3_configure(char *const *environment, bool (*stopping)(void),
                           const struct qr_log *log);
enum qr_code qr_store_s3_open(const char *url, const struct qr_store_waits *waits,
                              struct qr_store **ret, char **ret_name, struct qr_err *err);
void qr_store_https_configure(char *const *environment, bool (*stopping)(void),
                              const struct qr_log *log);
enum qr_code qr_store_https_open(const char *url, const struct qr_store_waits *waits,
                                 struct qr_store **ret, char **ret_name, struct qr_err *err);
enum qr_code qr_store_file_open(const char *url, const struct qr_store_waits *waits,
                                struct qr_store **ret, char **ret_name, struct qr_err *err);

#endif
