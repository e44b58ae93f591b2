/* store/store_counted.c — a wrapper that counts the requests of another store. Start reading at
 * qr_store_counted(). */
#include "base/counter.h"
#include "base/mem.h"
#include "store/store.h"

struct counted {
    struct qr_store base;
    struct qr_store *inner;
};
static struct qr_store *inner_of(struct qr_store *s) { return ((struct counted *)s)->inner; }

static enum qr_code read_counted(enum qr_code code, size_t bytes) {
    qr_count(code == QR_OK ? QR_STORE_GETS : QR_STORE_GET_ERRORS, 1);
    if (code == QR_OK) qr_count(QR_STORE_GET_BYTES, bytes);
    return code;
}
static enum qr_code write_counted(enum qr_code code, size_t bytes) {
    bool answered = code == QR_OK || code == QR_FAILED_PRECONDITION;
    qr_count(answered ? QR_STORE_PUTS : QR_STORE_PUT_ERRORS, 1);
    if (code == QR_OK) qr_count(QR_STORE_PUT_BYTES, bytes);
    return code;
}
static enum qr_code other_counted(enum qr_code code) {
    qr_count(code == QR_OK || code == QR_NOT_FOUND ? QR_STORE_OTHERS : QR_STORE_OTHER_ERRORS, 1);
    return code;
}

static enum qr_code counted_get(struct qr_store *s, const char *name, size_t max_bytes,
                                struct qr_buf *ret, struct qr_err *err) {
    enum qr_code code = inner_of(s)->ops->get(inner_of(s), name, max_bytes, ret, err);
    return read_counted(code, ret->n);
}
static enum qr_code counted_get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                        struct qr_buf *ret, struct qr_store_version *ret_version,
                                        struct qr_err *err) {
    enum qr_code code =
        inner_of(s)->ops->get_version(inner_of(s), name, max_bytes, ret, ret_version, err);
    return read_counted(code, ret->n);
}
static enum qr_code counted_put(struct qr_store *s, const char *name, struct qr_bytes content,
                                bool if_absent, struct qr_err *err) {
    return write_counted(inner_of(s)->ops->put(inner_of(s), name, content, if_absent, err),
                         content.n);
}
static enum qr_code counted_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                                 const struct qr_store_version *seen, struct qr_err *err) {
    return write_counted(inner_of(s)->ops->swap(inner_of(s), name, content, seen, err), content.n);
}
static enum qr_code counted_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    return other_counted(inner_of(s)->ops->remove(inner_of(s), name, err));
}
static enum qr_code counted_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                                 struct qr_err *err) {
    return other_counted(inner_of(s)->ops->list(inner_of(s), prefix, ret, err));
}
static enum qr_code counted_check_writable(struct qr_store *s, const char *prefix,
                                           struct qr_err *err) {
    return other_counted(inner_of(s)->ops->check_writable(inner_of(s), prefix, err));
}
static void counted_close(struct qr_store *s) {
    inner_of(s)->ops->close(inner_of(s));
    free(s);
}
static const struct qr_store_ops ops = {
    .get = counted_get,
    .put = counted_put,
    .remove = counted_remove,
    .list = counted_list,
    .check_writable = counted_check_writable,
    .get_version = counted_get_version,
    .swap = counted_swap,
    .close = counted_close,
};

struct qr_store *qr_store_counted(struct qr_store *inner) {
    struct counted *c = qr_xcalloc(1, sizeof *c);
    *c = (struct counted){{&ops}, inner};
    return &c->base;
}
