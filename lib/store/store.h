/* store/store.h — where bytes live: one interface for memory, files, Google Cloud Storage, S3 and
 * web servers.
 *
 * URLs      gs://bucket/name, s3://bucket/name, https://host/path, file:///dir/name, or a plain
 *           path. qr_store_resolve picks the store and the name in it.
 * Read only https://: what writes or lists is UNIMPLEMENTED, check_writable too.
 * Errors    NOT_FOUND, PERMISSION_DENIED, FAILED_PRECONDITION (if_absent or swap lost), UNAVAILABLE
 *           (retry), each naming the URL.
 * Threads   a store may be used by one thread at a time.
 */
#ifndef QR_STORE_STORE_H
#define QR_STORE_STORE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/log.h"

/* Which content of a name was seen: Cloud Storage's generation; of S3 the ETag's digest, the
 * content's own elsewhere. */
struct qr_store_version {
    bool there;
    uint8_t id[16];
};

struct qr_store;
struct qr_store_ops {
    /* Whole object; above max_bytes RESOURCE_EXHAUSTED. May block. */
    enum qr_code (*get)(struct qr_store *s, const char *name, size_t max_bytes, struct qr_buf *ret,
                        struct qr_err *err);
    /* Creates or replaces at once. if_absent: create-only, FAILED_PRECONDITION when there.
     * May block. */
    enum qr_code (*put)(struct qr_store *s, const char *name, struct qr_bytes content,
                        bool if_absent, struct qr_err *err);
    enum qr_code (*remove)(struct qr_store *s, const char *name, struct qr_err *err);
    /* Names that begin with prefix, sorted, '\n'-separated into ret. */
    enum qr_code (*list)(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                         struct qr_err *err);
    /* Proves that a put under this prefix would work, before anything is spent. A prefix that ends
     * with '/' or names a directory means that directory (made when missing), another one the
     * directory it stands in. */
    enum qr_code (*check_writable)(struct qr_store *s, const char *prefix, struct qr_err *err);
    /* As get, with the version; a name that is not there is no error but a version, with
     * *ret empty. */
    enum qr_code (*get_version)(struct qr_store *s, const char *name, size_t max_bytes,
                                struct qr_buf *ret, struct qr_store_version *ret_version,
                                struct qr_err *err);
    /* Compare-and-swap: replaces exactly the version seen, or creates the name where none was.
     * FAILED_PRECONDITION: another version is there by now. Of several processes that saw one
     * version one succeeds. Files: under a lock that the kernel gives back when its process dies
     * (".NAME.lock" beside the file; UNAVAILABLE while another process has it); file systems
     * without locks have only the comparison. */
    enum qr_code (*swap)(struct qr_store *s, const char *name, struct qr_bytes content,
                         const struct qr_store_version *seen, struct qr_err *err);
    void (*close)(struct qr_store *s);
};
struct qr_store {
    const struct qr_store_ops *ops;
};

struct qr_store *qr_store_memory_new(void); /* for tests; everything lives in this object */
/* Names are paths relative to root ("" = as given). */
struct qr_store *qr_store_file_new(const char *root);

/* What stores on other machines need of this process: what their vendors' clients read from the
 * environment (NULL-terminated "NAME=value" texts), whether it has been asked to end, and where
 * long waits are said. Called once by whoever may read the environment, before any other thread and
 * any URL; all is borrowed for the process' life. Until then such a URL is FAILED_PRECONDITION. */
void qr_store_configure(char *const *environment, bool (*stopping)(void), const struct qr_log *log);

/* The same store, its requests counted (base/counter.h): get and get_version as reads, put and swap
 * as writes, the rest as others. One that was answered is no error, also with "there already",
 * "another version" or, for what was to be removed, "not there". Takes it over. */
struct qr_store *qr_store_counted(struct qr_store *inner);

/* Opens the store of a URL and the object name in it (heap). Nothing is asked of the network. Its
 * requests are counted. */
QR_MUST_CHECK enum qr_code qr_store_resolve(const char *url, struct qr_store **ret, char **ret_name,
                                            struct qr_err *err);
/* The same with other waits than this process': for a thread of its own. Says nothing while
 * it waits. */
struct qr_store_waits {
    int64_t deadline_ns, stop_deadline_ns; /* since the last progress; once stopping */
    bool (*stopping)(void);
    void (*sleep)(int64_t ns);
};
QR_MUST_CHECK enum qr_code qr_store_resolve_waiting(const char *url,
                                                    const struct qr_store_waits *waits,
                                                    struct qr_store **ret, char **ret_name,
                                                    struct qr_err *err);
/* As a message may have it: without what may be a secret in an https:// URL (its query). Heap. */
char *qr_url_redacted(const char *url);
/* Is it of a kind that is only read (https://)? UNIMPLEMENTED; nothing is asked. For what is
 * written at the end of work. */
QR_MUST_CHECK enum qr_code qr_url_check_writable(const char *url, struct qr_err *err);
/* Is it on another machine? Such a place has no folders to make or list by path, and
 * outages that are waited for. NULL: no. */
bool qr_url_remote(const char *url);
/* One-shot conveniences over qr_store_resolve. */
QR_MUST_CHECK enum qr_code qr_url_read(const char *url, size_t max_bytes, struct qr_buf *ret,
                                       struct qr_err *err);
QR_MUST_CHECK enum qr_code qr_url_write(const char *url, struct qr_bytes content,
                                        struct qr_err *err);

#endif
