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

/* The first object whose name is not below `name`. */
static size_t place(const struct memory *m, const char *name) {
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(m->v[mid].name, name) < 0) low = mid + 1;
        else high = mid;
    }
    return low;
}
static struct object *find(const struct memory *m, const char *name) {
    size_t i = place(m, name);
    return i < m->n && strcmp(m->v[i].name, name) == 0 ? &m->v[i] : NULL;
}
static struct memory *self(struct qr_store *s) { return (struct memory *)s; }

static enum qr_code get(struct qr_store *s, const char *name, size_t max_bytes, struct qr_buf *ret,
                        struct qr_err *err) {
    const struct object *o = find(self(s), name);
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

static enum qr_code put(struct qr_store *s, const char *name, struct qr_bytes content,
                        bool if_absent, struct qr_err *err) {
    struct memory *m = self(s);
    if (!*name) return qr_fail(err, QR_INVALID_ARGUMENT, "memory: an object needs a name");
    struct object *o = find(m, name);
    if (o && if_absent)
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "memory:%s is there already and is not replaced", name);
    struct qr_buf copy = {0};
    qr_buf_put(&copy, content.p, content.n);
    if (!qr_buf_ok(&copy)) {
        qr_buf_free(&copy);
        return qr_fail(err, QR_RESOURCE_EXHAUSTED, "memory:%s: %zu bytes are too many", name,
                       content.n);
    }
    if (!o) {
        size_t i = place(m, name);
        m->v = qr_xreallocarray(m->v, m->n + 1, sizeof *m->v);
        memmove(m->v + i + 1, m->v + i, (m->n - i) * sizeof *m->v);
        m->n++;
        o = &m->v[i];
        *o = (struct object){.name = qr_xstrdup(name)};
    }
    qr_buf_free(&o->content);
    o->content = copy;
    return QR_OK;
}

static enum qr_code remove_object(struct qr_store *s, const char *name, struct qr_err *err) {
    struct memory *m = self(s);
    struct object *o = find(m, name);
    if (!o) return qr_fail(err, QR_NOT_FOUND, "memory:%s: no such object", name);
    free(o->name);
    qr_buf_free(&o->content);
    memmove(o, o + 1, (size_t)(m->v + m->n - (o + 1)) * sizeof *o);
    m->n--;
    return QR_OK;
}

static enum qr_code list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                         struct qr_err *err) {
    const struct memory *m = self(s);
    (void)err;
    qr_buf_clear(ret);
    for (size_t i = place(m, prefix);
         i < m->n && strncmp(m->v[i].name, prefix, strlen(prefix)) == 0; i++)
        qr_buf_printf(ret, "%s%s", ret->n ? "\n" : "", m->v[i].name);
    return QR_OK;
}

static enum qr_code check_writable(struct qr_store *s, const char *prefix, struct qr_err *err) {
    (void)s, (void)prefix, (void)err;
    return QR_OK;
}

static struct qr_store_version version_of(const struct object *o) {
    struct qr_store_version v = {.there = o != NULL};
    if (o) qr_xxh3(o->content.p, o->content.n, v.id);
    return v;
}

static enum qr_code get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                struct qr_buf *ret, struct qr_store_version *ret_version,
                                struct qr_err *err) {
    const struct object *o = find(self(s), name);
    if (o) {
        enum qr_code code = get(s, name, max_bytes, ret, err);
        if (code != QR_OK) return code;
    } else {
        qr_buf_clear(ret);
    }
    *ret_version = version_of(o);
    return QR_OK;
}

static enum qr_code swap(struct qr_store *s, const char *name, struct qr_bytes content,
                         const struct qr_store_version *seen, struct qr_err *err) {
    struct qr_store_version now = version_of(find(self(s), name));
    if (now.there != seen->there || (now.there && memcmp(now.id, seen->id, sizeof now.id) != 0))
        return qr_fail(err, QR_FAILED_PRECONDITION,
                       "memory:%s has been changed meanwhile and is not replaced", name);
    return put(s, name, content, false, err);
}

static void close_store(struct qr_store *s) {
    struct memory *m = self(s);
    if (!m) return;
    for (size_t i = 0; i < m->n; i++) {
        free(m->v[i].name);
        qr_buf_free(&m->v[i].content);
    }
    free(m->v);
    free(m);
}

struct qr_store *qr_store_memory_new(void) {
    static const struct qr_store_ops ops = {get,         put,  remove_object, list, check_writable,
                                            get_version, swap, close_store};
    struct memory *m = qr_xcalloc(1, sizeof *m);
    m->store.ops = &ops;
    return &m->store;
}
