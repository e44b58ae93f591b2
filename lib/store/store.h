/* store/store.h — stores of named objects: one interface for memory, files, Google Cloud Storage,
 * S3 and web servers.
 *
 * URLs      gs://bucket/name, s3://bucket/name, https://host/path, file:///dir/name, or a plain
 *           path. qr_store_resolve picks the store and the name in it.
 * Read only https://: put, remove, list, swap and check_writable are UNIMPLEMENTED.
 * Errors    NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION (if_absent or swap lost), UNAVAILABLE
 *           (retry), each naming the URL.
 * Threads   a store may be used by one thread at a time.
 */
#ifndef QR_STORE_STORE_H
#define QR_STORE_STORE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/log.h"

/* The version of an object that a read returned: the generation in Cloud Storage, the digest of the
 * ETag in S3, the digest of the content elsewhere. */
struct qr_store_version {
    bool there; /* the object exists */
    uint8_t id[16];
};

struct qr_store;
struct qr_store_ops {
    /* Whole object; above max_bytes RESOURCE_EXHAUSTED. May block. */
    enum qr_code (*get)(struct qr_store *s, const char *name, size_t max_bytes, struct qr_buf *ret,
                        struct qr_err *err);
    /* Creates or replaces atomically. if_absent: create only, FAILED_PRECONDITION when the object
     * exists. May block. */
    enum qr_code (*put)(struct qr_store *s, const char *name, struct qr_bytes content,
                        bool if_absent, struct qr_err *err);
    enum qr_code (*remove)(struct qr_store *s, const char *name, struct qr_err *err);
    /* Names that begin with prefix, sorted, '\n'-separated into ret. */
    enum qr_code (*list)(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                         struct qr_err *err);
    /* Checks that a put under this prefix would succeed, before a run starts. A prefix that ends
     * with '/' or names a directory means that directory (created when missing), any other prefix
     * its parent directory. */
    enum qr_code (*check_writable)(struct qr_store *s, const char *prefix, struct qr_err *err);
    /* As get, with the version. A missing object is not an error: *ret is empty and the version
     * says so. */
    enum qr_code (*get_version)(struct qr_store *s, const char *name, size_t max_bytes,
                                struct qr_buf *ret, struct qr_store_version *ret_version,
                                struct qr_err *err);
    /* Compare-and-swap: replaces exactly the version seen, or creates the object when it did not
     * exist. FAILED_PRECONDITION: the object has another version now. Of several processes that saw
     * the same version, one succeeds. Files: under a lock that the kernel releases when its process
     * exits (".NAME.lock" beside the file; UNAVAILABLE while another process holds it); file
     * systems without locks have only the comparison. */
    enum qr_code (*swap)(struct qr_store *s, const char *name, struct qr_bytes content,
                         const struct qr_store_version *seen, struct qr_err *err);
    void (*close)(struct qr_store *s);
};
struct qr_store {
    const struct qr_store_ops *ops;
};

void qr_store_close_p(struct qr_store **s); /* for qr_auto; NULL is fine */
struct qr_store *qr_store_memory_new(void); /* for tests; all objects are in memory */
/* Names are paths relative to root ("": names are used as given). */
struct qr_store *qr_store_file_new(const char *root);

/* Configures the remote stores. A program calls it once, before it starts threads or opens a URL;
 * until then a remote URL is FAILED_PRECONDITION.
 *
 * Args:     environment   NULL-terminated "NAME=value" texts: the variables that the vendors' own
 *                         clients read
 *           stopping      true once the process has been asked to end
 *           log           receives a warning about long waits
 *           All are borrowed for the life of the process.
 */
void qr_store_configure(char *const *environment, bool (*stopping)(void), const struct qr_log *log);

/* Wraps a store and counts its requests (base/counter.h): get and get_version as reads, put and
 * swap as writes, the rest as others. An answered request is not an error, even when it returns
 * FAILED_PRECONDITION or, for remove, NOT_FOUND. Takes ownership of inner. */
struct qr_store *qr_store_counted(struct qr_store *inner);

/* Opens the store of a URL, with its requests counted, and returns the object name in it (heap).
 * Sends no request. */
QR_MUST_CHECK enum qr_code qr_store_resolve(const char *url, struct qr_store **ret, char **ret_name,
                                            struct qr_err *err);
/* The same with other timeouts than those of this process, for a thread of its own. Logs nothing
 * while it waits. */
struct qr_store_waits {
    int64_t deadline_ns, stop_deadline_ns; /* since the last progress; once stopping */
    bool (*stopping)(void);
    void (*sleep)(int64_t ns);
};
QR_MUST_CHECK enum qr_code qr_store_resolve_waiting(const char *url,
                                                    const struct qr_store_waits *waits,
                                                    struct qr_store **ret, char **ret_name,
                                                    struct qr_err *err);
/* Returns the URL for messages (heap), without possible secrets (the query of an https:// URL). */
char *qr_url_redacted(const char *url);
/* Returns the path of a local file, a part of the URL; NULL for a remote one. */
const char *qr_url_local_path(const char *url);
/* Whether both are one existing local file, or the same remote URL. */
bool qr_url_same(const char *a, const char *b);
/* UNIMPLEMENTED for a read-only scheme (https://), INVALID_ARGUMENT for a path that
 * qr_file_check_replaceable rejects. Sends no request. Lets a program reject a destination before
 * it starts the work. */
QR_MUST_CHECK enum qr_code qr_url_check_writable(const char *url, struct qr_err *err);
/* True for a URL on another machine: a store without directories, whose outages are waited for.
 * False for NULL. */
bool qr_url_remote(const char *url);
/* One-shot conveniences over qr_store_resolve. */
QR_MUST_CHECK enum qr_code qr_url_read(const char *url, size_t max_bytes, struct qr_buf *ret,
                                       struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_url_write(const char *url, struct qr_bytes content,
                                        struct qr_err *err);

#endif
