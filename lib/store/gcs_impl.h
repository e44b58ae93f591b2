/* store/gcs_impl.h — the parts of the Cloud Storage client: requests, retries,
 * credentials, uploads. */
#ifndef QR_STORE_GCS_IMPL_H
#define QR_STORE_GCS_IMPL_H

#include "store/gcs.h"

enum {
    QR_GCS_MAX_HEADERS = 12,
    QR_GCS_REPLY_BYTES = 4 << 20,
    QR_GCS_CHUNK_BYTES = 8 << 20,
    QR_GCS_ID_BYTES = 37
};

struct qr_gcs_reply;
struct qr_gcs_request {
    const char *method, *url;
    const char *headers[QR_GCS_MAX_HEADERS]; /* "Name: value" */
    size_t n_headers;
    bool has_body; /* an empty body too is sent with its length */
    struct qr_bytes body;
    size_t max_reply_bytes;
    int64_t timeout_ms; /* of the whole attempt; 0: only the guard against stalls */
    bool direct;        /* past any proxy */
    /* Takes what a success (2xx) says into ctx, for qr_gcs_attempt; NULL: nothing is wanted of it,
     * or its body is an object's bytes. One that says INVALID_ARGUMENT has left ctx as it was: the
     * reply is lost, like one that never came. */
    enum qr_code (*read)(void *ctx, const struct qr_gcs_reply *reply, struct qr_err *err);
    void *ctx;
};
struct qr_gcs_reply {
    int status;            /* 0: no reply came */
    struct qr_buf body;    /* what came, also of a reply that broke off */
    char *location;        /* heap */
    bool has_range;        /* Range: bytes=0-N */
    uint64_t range_end;    /* N */
    bool has_piece;        /* Content-Range: bytes N-… */
    uint64_t piece_begin;  /* N */
    uint64_t length;       /* Content-Length; 0: not said */
    uint64_t generation;   /* of the object whose bytes these are; 0: not said */
    int64_t retry_after_s; /* 0: none */
    bool from_metadata;    /* Metadata-Flavor: Google */
};
void qr_gcs_reply_fini(struct qr_gcs_reply *r);
/* One header line with or without its line end. Whatever is no header that we know is
 * passed over. */
void qr_gcs_reply_header(struct qr_gcs_reply *r, const char *line, size_t n);

/* OK: a whole reply came, whatever its status. UNAVAILABLE: none did, or it broke off (trying again
 * may help). Other codes are final. *ret is filled in every case and freed by the caller. */
struct qr_gcs_http {
    enum qr_code (*send)(struct qr_gcs_http *h, const struct qr_gcs_request *req,
                         struct qr_gcs_reply *ret, struct qr_err *err);
    void (*close)(struct qr_gcs_http *h);
};
struct qr_gcs_http *qr_gcs_http_curl(void);

/* ---- retries ---- */

struct qr_gcs_retry {
    const struct qr_gcs_options *opt;
    int64_t began_ns, noticed_ns;
    unsigned n;
};
int64_t qr_gcs_awake_ns(const struct qr_gcs_options *opt);
/* also when there was progress */
void qr_gcs_retry_begin(struct qr_gcs_retry *r, const struct qr_gcs_options *opt);
/* Waits a random time in [0, min(32 s, 2^n s)], at least what the server asked for; false when the
 * deadline has passed. */
bool qr_gcs_retry_wait(struct qr_gcs_retry *r, int64_t retry_after_s);
bool qr_gcs_retryable(int status);

/* ---- credentials ---- */

struct qr_gcs_auth;
struct qr_gcs_auth *qr_gcs_auth_new(const struct qr_gcs_options *opt, struct qr_gcs_http *http);
void qr_gcs_auth_free(struct qr_gcs_auth *a);
/* "Authorization: Bearer …" (borrowed until the next call), or NULL where none is wanted.
 * UNAVAILABLE: try again. */
QR_MUST_CHECK enum qr_code qr_gcs_auth_header(struct qr_gcs_auth *a, const char **ret,
                                              struct qr_err *err);
void qr_gcs_auth_drop(struct qr_gcs_auth *a); /* the token was refused */

/* ---- one store ---- */

struct qr_gcs {
    struct qr_store store;
    struct qr_gcs_options opt;
    char *bucket, *base; /* base: scheme and host without a slash at the end */
    struct qr_gcs_http *http;
    struct qr_gcs_auth *auth;
};
struct qr_gcs_object {
    uint64_t size, generation;
    uint32_t crc32c;
    char write_id[QR_GCS_ID_BYTES];
};

/* What one request is for, in messages: "gs://bucket/name: upload". */
struct qr_gcs_call {
    const char *name, *doing, *token; /* token: constant over the retries of one operation */
};

void qr_gcs_id(char ret[QR_GCS_ID_BYTES]); /* a random UUID */
void qr_gcs_escape(struct qr_buf *ret, const char *text);
/* One attempt with credentials; a 401 is tried once more with a fresh token. OK: look at the
 * status; a success has been read. UNAVAILABLE: no whole reply came, or one that cannot be read;
 * *ret has what came of it. */
QR_MUST_CHECK enum qr_code qr_gcs_attempt(struct qr_gcs *g, const struct qr_gcs_call *c,
                                          const struct qr_gcs_request *req,
                                          struct qr_gcs_reply *ret, struct qr_err *err);
/* Attempts until there is a reply that retrying cannot better. */
QR_MUST_CHECK enum qr_code qr_gcs_send(struct qr_gcs *g, struct qr_gcs_retry *r,
                                       const struct qr_gcs_call *c,
                                       const struct qr_gcs_request *req, struct qr_gcs_reply *ret,
                                       struct qr_err *err);
/* qr_gcs_retry_wait, and says now and then what is waited for. err: the last attempt's, where it
 * had no reply. */
bool qr_gcs_wait(const struct qr_gcs *g, struct qr_gcs_retry *r, const struct qr_gcs_call *c,
                 const struct qr_gcs_reply *reply, const struct qr_err *err);
/* The sentence and code for a status that is an error. */
enum qr_code qr_gcs_refused(const struct qr_gcs *g, const struct qr_gcs_call *c,
                            const struct qr_gcs_reply *reply, struct qr_err *err);
/* After the deadline. *err comes in as the last attempt's. */
enum qr_code qr_gcs_gave_up(const struct qr_gcs *g, const struct qr_gcs_retry *r,
                            const struct qr_gcs_call *c, const struct qr_gcs_reply *reply,
                            struct qr_err *err);
bool qr_gcs_success(int status); /* 2xx */
/* A request's read: what a reply says about an object, into a struct qr_gcs_object. */
QR_MUST_CHECK enum qr_code qr_gcs_read_object(void *ctx, const struct qr_gcs_reply *reply,
                                              struct qr_err *err);
/* The reason in an error's body, cut and printable; "" where there is none. */
void qr_gcs_error_text(struct qr_bytes body, char *ret, size_t bytes);
/* True when the body is the API's own JSON error. */
bool qr_gcs_is_error(struct qr_bytes body);
bool qr_gcs_crc32c_parse(const char *base64, uint32_t *ret);
void qr_gcs_crc32c_text(uint32_t crc, char ret[9]);

/* ".../o/NAME" */
void qr_gcs_object_url(const struct qr_gcs *g, const char *name, struct qr_buf *ret);
/* The bytes of one generation into ret (empty, with room for them), its crc32c checked; a stream
 * that breaks off goes on where it ended. ABORTED: this generation is not there any more;
 * DATA_LOSS: other bytes came. After both it helps to look at the object again. */
QR_MUST_CHECK enum qr_code qr_gcs_download(struct qr_gcs *g, const struct qr_gcs_call *c,
                                           const struct qr_gcs_object *o, struct qr_buf *ret,
                                           struct qr_err *err);

/* Uploads under ifGenerationMatch. *ret_status 200: *ret is the object as the server describes it.
 * 412: it is not our generation any more, or the upload succeeded before. 400: the checksum did not
 * fit, or the server disliked the request (err says so). */
QR_MUST_CHECK enum qr_code qr_gcs_upload(struct qr_gcs *g, const char *name,
                                         struct qr_bytes content, uint64_t generation,
                                         const char *write_id, struct qr_gcs_object *ret,
                                         int *ret_status, struct qr_err *err);

#endif
