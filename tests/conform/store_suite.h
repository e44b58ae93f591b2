/* tests/conform/store_suite.h — the suites that all implementations of store/store.h pass. */
#ifndef STORE_SUITE_H
#define STORE_SUITE_H

#include "tests/t.h"

#include "base/mem.h"
#include "store/store.h"

static inline bool holds(struct qr_store *s, const char *name, const char *want) {
    struct qr_buf b = {0};
    struct qr_err err;
    bool same = s->ops->get(s, name, 1000, &b, &err) == QR_OK && b.n == strlen(want) &&
                strcmp(qr_buf_string(&b), want) == 0;
    qr_buf_free(&b);
    return same;
}
static inline enum qr_code put(struct qr_store *s, const char *name, const char *content,
                               bool if_absent, struct qr_err *err) {
    return s->ops->put(s, name, qr_bytes_of_string(content), if_absent, err);
}

/* The store must be empty, and is empty afterwards. */
void suite(struct qr_store *s);
/* A read-only store: it has an object `name` with this text, and no object `missing`. Writes and
 * lists must fail at once, and change nothing. */
void read_only_suite(struct qr_store *s, const char *name, const char *text, const char *missing);

#endif
