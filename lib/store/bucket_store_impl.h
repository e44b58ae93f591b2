/* store/bucket_store_impl.h — the engine of stores in buckets: conditional put with verification,
 * swap, get, remove, list and their retries, written once. A vendor is a table of functions that
 * build requests, sign them and parse replies.
 *
 * Usage     a vendor's store begins with struct qr_bucket, which qr_bucket_init fills. The engine
 *           calls the vendor's functions with that struct.
 * Errors    as store/store.h. Messages begin with the URL: "gs://bucket/name".
 */
#ifndef QR_STORE_BUCKET_STORE_IMPL_H
#define QR_STORE_BUCKET_STORE_IMPL_H

#include "store/object_names_impl.h"
#include "store/web/bucket.h"

enum { QR_BUCKET_MAX_TRIES = 4, QR_BUCKET_MAX_NAME_BYTES = 1024 };

/* A request with the texts that it borrows. All-zero but for web.method: a request for nothing. */
struct qr_bucket_request {
    struct qr_web_request web; /* max_reply_bytes 0: QR_WEB_REPLY_BYTES */
    struct qr_buf url;
    char *headers[QR_WEB_MAX_HEADERS]; /* heap; NULL: borrowed */
};
void qr_bucket_request_fini(struct qr_bucket_request *r);
/* Adds a header; takes ownership of the text (heap). */
void qr_bucket_header(struct qr_bucket_request *r, char *text);

/* The names of a list, as far as its pages were read. */
struct qr_bucket_page {
    struct qr_names names;
    bool full;  /* more than QR_NAMES_MAX */
    char *next; /* token of the next page, heap; NULL: this was the last */
};
/* Adds a name; skips one that a list of lines cannot hold. */
void qr_bucket_page_add(struct qr_bucket_page *page, const char *name);

/* How the server received an upload; the engine decides by the stored object what it means. */
enum qr_bucket_outcome {
    QR_BUCKET_STORED,   /* *ret is the object as the reply describes it */
    QR_BUCKET_CONFLICT, /* the object has another version now, or an earlier attempt succeeded */
    QR_BUCKET_DAMAGED,  /* rejected: the bytes were damaged in transit */
};

struct qr_bucket;
struct qr_bucket_api {
    struct qr_web_api web; /* attempt: qr_bucket_attempt; store: the struct qr_bucket */
    /* Every upload needs a condition, so that its retries are safe: a put that replaces any version
     * is a put that replaces the current one. */
    bool always_conditional;
    uint64_t max_put_bytes; /* 0: no limit */
    const char *max_put_rule;
    bool (*is_name)(const char *name); /* a part of the check of a name */
    const char *name_rule;             /* "give a name other than ..." */

    /* Adds the headers of an attempt: credentials, signature. UNAVAILABLE: retry. */
    enum qr_code (*sign)(struct qr_bucket *b, const struct qr_web_call *c,
                         struct qr_bucket_request *req, struct qr_err *err);
    /* True when the reply rejects the credentials and other ones may be accepted. */
    bool (*renew)(struct qr_bucket *b, const struct qr_web_request *req,
                  const struct qr_web_reply *reply);
    /* Reads the metadata of an object; *ret_found false, and *ret unchanged, when it is missing. */
    enum qr_code (*stat)(struct qr_bucket *b, const struct qr_web_call *c,
                         struct qr_web_object *ret, bool *ret_found, struct qr_err *err);
    /* Build the requests for the bytes of a version, its removal, and a page of a list (token NULL:
     * the first). */
    void (*build_get)(const struct qr_bucket *b, const char *name, const struct qr_web_object *o,
                      struct qr_bucket_request *req);
    void (*build_remove)(const struct qr_bucket *b, const char *name, const struct qr_web_object *o,
                         struct qr_bucket_request *req);
    void (*build_list)(const struct qr_bucket *b, const char *prefix, const char *token,
                       struct qr_bucket_request *req);
    /* Adds the names of a page, and sets page->next, which is NULL before. INVALID_ARGUMENT:
     * malformed. */
    enum qr_code (*read_page)(struct qr_bytes body, struct qr_bucket_page *page,
                              struct qr_err *err);
    /* Uploads once, with retries. only: the version to replace, all-zero: create; NULL: replace
     * any, without a condition. Rejections other than the outcomes are errors. */
    enum qr_code (*put)(struct qr_bucket *b, const struct qr_web_call *c, struct qr_bytes content,
                        const struct qr_web_object *only, const char *write_id,
                        struct qr_web_object *ret, enum qr_bucket_outcome *ret_outcome,
                        struct qr_err *err);
    /* The id of struct qr_store_version, and the object that it means: FAILED_PRECONDITION when it
     * has another version now. */
    void (*version)(const struct qr_web_object *o, uint8_t ret[16]);
    enum qr_code (*find_version)(struct qr_bucket *b, const struct qr_web_call *c,
                                 const uint8_t id[16], struct qr_web_object *ret,
                                 struct qr_err *err);
    enum qr_code (*check_writable)(struct qr_bucket *b, const char *prefix, struct qr_err *err);
    void (*fini)(struct qr_bucket *b); /* frees what the vendor's struct adds */
};

struct qr_bucket {
    struct qr_store store;
    const struct qr_bucket_api *api;
    char *name; /* of the bucket */
    char *base; /* start of its URLs, without a trailing slash; set by the vendor */
    struct qr_web *web;
    struct qr_web_bucket web_bucket;
};

/* Fills the engine's part of a vendor's store (heap, closed by its ops). web: owned; NULL: libcurl.
 * waits: borrowed. */
void qr_bucket_init(struct qr_bucket *b, const struct qr_bucket_api *api, const char *name,
                    const struct qr_web_waits *waits, struct qr_web *web);
/* As attempt of struct qr_web_api. */
enum qr_code qr_bucket_attempt(void *bucket, const struct qr_web_call *c,
                               const struct qr_web_request *req, struct qr_web_reply *ret,
                               struct qr_err *err);
/* Sends a request, with retries and a deadline of its own, until a reply is final. */
QR_MUST_CHECK enum qr_code qr_bucket_send(struct qr_bucket *b, const struct qr_web_call *c,
                                          struct qr_bucket_request *req, struct qr_web_reply *ret,
                                          struct qr_err *err);
/* Removes a version; succeeds also when the object is missing. FAILED_PRECONDITION: it has another
 * version now. */
QR_MUST_CHECK enum qr_code qr_bucket_delete(struct qr_bucket *b, const struct qr_web_call *c,
                                            const struct qr_web_object *o, struct qr_err *err);
/* INVALID_ARGUMENT: the name is malformed. */
QR_MUST_CHECK enum qr_code qr_bucket_check_name(const struct qr_bucket *b, const char *name,
                                                struct qr_err *err);
/* FAILED_PRECONDITION with the message of a lost swap. */
enum qr_code qr_bucket_changed(const struct qr_bucket *b, const char *name, struct qr_err *err);

#endif
