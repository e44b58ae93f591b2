/* store/store_memory.c — the store of tests: a sorted array of objects in memory. Start reading at
 * qr_store_memory_new(). */
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "store/store.h"

struct object {
    char *name;
    struct qr_buf content;
};
struct memory {
    struct qr_store store;
    struct object *v; /* sorted by name */
    size_t n;
};

/* Index of the first object whose name is not below `name`. */
static size_t memory_lower_bound(const struct memory *m, const char *name) {
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(m->v[mid].name, name) < 0) low = mid + 1;
        else high = mid;
    }
    return low;
}
static struct object *memory_find(const struct memory *m, const char *name) {
    size_t i = memory_lower_bound(m, name);
    return i < m->n && strcmp(m->v[i].name, name) == 0 ? &m->v[i] : NULL;
}
static struct memory *memory_of(struct qr_store *s) { return (struct memory *)s; }

static enum qr_code memory_get(struct qr_store *s, const char *name, size_t max_bytes,
                               struct qr_buf *ret, struct qr_err *err) {
    const struct object *o = memory_find(memory_of(s), name);
    if (!o) return qr_fail(err, QR_NOT_FOUND, "memory:%s: no such object", name);
    if (o->content.n > max_bytes)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "memory:%s has %zu bytes; at most %zu are read",
                       name, o->content.n, max_bytes);
    qr_buf_clear(ret);
    qr_buf_put(ret, o->content.p, o->content.n);
    return qr_buf_ok(ret) ? QR_OK
                          : qr_fail(err, QR_RESOURCE_EXHAUSTED, "memory:%s: %zu bytes are too many",
                                    name, o->content.n);
}

static enum qr_code memory_put(struct qr_store *s, const char *name, struct qr_bytes content,
                               bool if_absent, struct qr_err *err) {
    struct memory *m = memory_of(s);
    if (!*name) return qr_fail(err, QR_INVALID_ARGUMENT, "memory: an object needs a name");
    struct object *o = memory_find(m, name);
    if (o && if_absent)
        return qr_fail(err, QR_FAILED_PRECONDITION, "memory:%s already exists and is not replaced",
                       name);
    qr_auto(qr_buf_free) struct qr_buf copy = {0};
    qr_buf_put(&copy, content.p, content.n);
    if (!qr_buf_ok(&copy))
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "memory:%s: %zu bytes are too many", name,
                       content.n);
    if (!o) {
        size_t i = memory_lower_bound(m, name);
        m->v = qr_xreallocarray(m->v, m->n + 1, sizeof *m->v);
        memmove(m->v + i + 1, m->v + i, (m->n - i) * sizeof *m->v);
        m->n++;
        o = &m->v[i];
        *o = (struct object){.name = qr_xstrdup(name)};
    }
    qr_buf_free(&o->content);
    o->content = QR_MOVE(copy);
    return QR_OK;
}

static enum qr_code memory_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    struct memory *m = memory_of(s);
    struct object *o = memory_find(m, name);
    if (!o) return qr_fail(err, QR_NOT_FOUND, "memory:%s: no such object", name);
    free(o->name);
    qr_buf_free(&o->content);
    memmove(o, o + 1, (size_t)(m->v + m->n - (o + 1)) * sizeof *o);
    m->n--;
    return QR_OK;
}

static enum qr_code memory_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                                struct qr_err *err) {
    const struct memory *m = memory_of(s);
    (void)err;
    qr_buf_clear(ret);
    for (size_t i = memory_lower_bound(m, prefix);
         i < m->n && strncmp(m->v[i].name, prefix, strlen(prefix)) == 0; i++)
        qr_buf_printf(ret, "%s%s", ret->n ? "\n" : "", m->v[i].name);
    return QR_OK;
}

static enum qr_code memory_check_writable(struct qr_store *s, const char *prefix,
                                          struct qr_err *err) {
    (void)s, (void)prefix, (void)err;
    return QR_OK;
}

static struct qr_store_version memory_version(const struct object *o) {
    struct qr_store_version v = {.there = o != NULL};
    if (o) qr_xxh3(o->content.p, o->content.n, v.id);
    return v;
}

static enum qr_code memory_get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                       struct qr_buf *ret, struct qr_store_version *ret_version,
                                       struct qr_err *err) {
    const struct object *o = memory_find(memory_of(s), name);
    if (o) QR_TRY(memory_get(s, name, max_bytes, ret, err));
    else qr_buf_clear(ret);
    *ret_version = memory_version(o);
    return QR_OK;
}

static enum qr_code memory_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                                const struct qr_store_version *seen, struct qr_err *err) {
    struct qr_store_version now = memory_version(memory_find(memory_of(s), name));
    if (now.there != seen->there || (now.there && memcmp(now.id, seen->id, sizeof now.id) != 0))
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "memory:%s was changed by another writer and is not replaced", name);
    return memory_put(s, name, content, false, err);
}

static void memory_close(struct qr_store *s) {
    struct memory *m = memory_of(s);
    if (!m) return;
    for (size_t i = 0; i < m->n; i++) {
        free(m->v[i].name);
        qr_buf_free(&m->v[i].content);
    }
    free(m->v);
    free(m);
}

struct qr_store *qr_store_memory_new(void) {
    static const struct qr_store_ops ops = {
        memory_get,         memory_put,  memory_remove, memory_list, memory_check_writable,
        memory_get_version, memory_swap, memory_close};
    struct memory *m = qr_xcalloc(1, sizeof *m);
    m->store.ops = &ops;
    return &m->store;
}
