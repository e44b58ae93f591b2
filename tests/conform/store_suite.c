/* tests/conform/store_suite.c — the suites that all implementations of store/store.h pass. */
#include "tests/conform/store_suite.h"

/* Compare-and-swap: an object is replaced only by a writer that has seen its present version. */
static void swap_suite(struct qr_store *s) {
    struct qr_buf b = {0};
    struct qr_err err = {0};
    struct qr_store_version none = {.there = true}, first, second, third;
    const struct qr_store_ops *o = s->ops;
    CHECK(o->get_version(s, "run/L", 100, &b, &none, &err) == QR_OK && !none.there && b.n == 0,
          "%s", err.msg);
    CHECK(o->swap(s, "run/L", qr_bytes_of_string("one"), &none, &err) == QR_OK &&
              holds(s, "run/L", "one"),
          "%s", err.msg);
    CHECK(o->swap(s, "run/L", qr_bytes_of_string("two"), &none, &err) == QR_FAILED_PRECONDITION &&
              strstr(err.msg, "run/L") && holds(s, "run/L", "one"),
          "%s", err.msg);
    CHECK(o->get_version(s, "run/L", 100, &b, &first, &err) == QR_OK && first.there &&
              strcmp(qr_buf_string(&b), "one") == 0,
          "%s", err.msg);
    CHECK(o->swap(s, "run/L", qr_bytes_of_string("two"), &first, &err) == QR_OK &&
              holds(s, "run/L", "two"),
          "%s", err.msg);
    CHECK(o->swap(s, "run/L", qr_bytes_of_string("three"), &first, &err) ==
                  QR_FAILED_PRECONDITION &&
              holds(s, "run/L", "two"),
          "%s", err.msg);
    CHECK(o->get_version(s, "run/L", 100, &b, &second, &err) == QR_OK &&
              put(s, "run/L", "put", false, &err) == QR_OK,
          "%s", err.msg);
    CHECK(o->swap(s, "run/L", qr_bytes_of_string("three"), &second, &err) ==
                  QR_FAILED_PRECONDITION &&
              holds(s, "run/L", "put"),
          "%s", err.msg);
    CHECK(o->get_version(s, "run/L", 100, &b, &third, &err) == QR_OK &&
              o->remove(s, "run/L", &err) == QR_OK,
          "%s", err.msg);
    CHECK(o->swap(s, "run/L", qr_bytes_of_string("four"), &third, &err) == QR_FAILED_PRECONDITION,
          "a deleted object is created again: %s", err.msg);
    CHECK(o->swap(s, "run/L", qr_bytes_of_string("four"), &none, &err) == QR_OK &&
              holds(s, "run/L", "four"),
          "%s", err.msg);
    CHECK(o->get_version(s, "run/L", 3, &b, &third, &err) == QR_RESOURCE_EXHAUSTED, "%s", err.msg);
    CHECK(o->remove(s, "run/L", &err) == QR_OK);
    qr_buf_free(&b);
}

void suite(struct qr_store *s) {
    struct qr_buf b = {0};
    struct qr_err err = {0};
    CHECK(s->ops->get(s, "run/none", 10, &b, &err) == QR_NOT_FOUND && strstr(err.msg, "run/none"),
          "%s", err.msg);
    CHECK(s->ops->list(s, "run/", &b, &err) == QR_OK && b.n == 0);
    CHECK(s->ops->check_writable(s, "run/weights.h5", &err) == QR_OK, "%s", err.msg);
    CHECK(put(s, "run/a", "one", false, &err) == QR_OK && holds(s, "run/a", "one"), "%s", err.msg);
    CHECK(put(s, "run/a", "two", false, &err) == QR_OK && holds(s, "run/a", "two"), "%s", err.msg);
    CHECK(put(s, "run/a", "three", true, &err) == QR_FAILED_PRECONDITION &&
              strstr(err.msg, "run/a") && holds(s, "run/a", "two"),
          "%s", err.msg);
    CHECK(put(s, "run/b/c", "new", true, &err) == QR_OK && holds(s, "run/b/c", "new"), "%s",
          err.msg);
    CHECK(put(s, "run/b/c", "again", true, &err) == QR_FAILED_PRECONDITION &&
          holds(s, "run/b/c", "new"));
    CHECK(put(s, "run/empty", "", false, &err) == QR_OK && holds(s, "run/empty", ""));
    CHECK(put(s, "runner", "x", false, &err) == QR_OK);
    CHECK(put(s, "other/x", "x", false, &err) == QR_OK);
    static const struct {
        const char *prefix, *want;
    } lists[] = {{"run/", "run/a\nrun/b/c\nrun/empty"},
                 {"run", "run/a\nrun/b/c\nrun/empty\nrunner"},
                 {"run/b", "run/b/c"},
                 {"run/e", "run/empty"},
                 {"none", ""},
                 {"none/x/", ""},
                 {"", "other/x\nrun/a\nrun/b/c\nrun/empty\nrunner"}};
    for (size_t i = 0; i < COUNT(lists); i++) {
        CHECK(s->ops->list(s, lists[i].prefix, &b, &err) == QR_OK, "%s", err.msg);
        CHECK(strcmp(qr_buf_string(&b), lists[i].want) == 0, "'%s': %s", lists[i].prefix,
              qr_buf_string(&b));
    }
    CHECK(s->ops->get(s, "run/a", 2, &b, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, "run/a") && strstr(err.msg, "3") && strstr(err.msg, "2"),
          "%s", err.msg);
    CHECK(s->ops->get(s, "run/a", 3, &b, &err) == QR_OK && b.n == 3);
    CHECK(s->ops->remove(s, "run/a", &err) == QR_OK &&
          s->ops->get(s, "run/a", 10, &b, &err) == QR_NOT_FOUND);
    CHECK(s->ops->remove(s, "run/a", &err) == QR_NOT_FOUND && strstr(err.msg, "run/a"), "%s",
          err.msg);
    CHECK(put(s, "", "x", false, &err) == QR_INVALID_ARGUMENT);
    char *large = qr_xcalloc(1, 300000);
    memset(large, 'x', 299999);
    CHECK(put(s, "large", large, false, &err) == QR_OK &&
          s->ops->get(s, "large", 300000, &b, &err) == QR_OK && b.n == 299999 &&
          memcmp(b.p, large, b.n) == 0);
    CHECK(s->ops->remove(s, "large", &err) == QR_OK && s->ops->remove(s, "runner", &err) == QR_OK &&
          s->ops->remove(s, "other/x", &err) == QR_OK);
    CHECK(s->ops->remove(s, "run/b/c", &err) == QR_OK &&
          s->ops->remove(s, "run/empty", &err) == QR_OK);
    swap_suite(s);
    CHECK(s->ops->list(s, "", &b, &err) == QR_OK && b.n == 0, "%s", qr_buf_string(&b));
    free(large);
    qr_buf_free(&b);
}

void read_only_suite(struct qr_store *s, const char *name, const char *text, const char *missing) {
    struct qr_buf b = {0};
    struct qr_err err = {0};
    struct qr_store_version first = {0}, second = {0};
    const struct qr_store_ops *o = s->ops;
    CHECK(holds(s, name, text) && holds(s, name, text));
    CHECK(o->get(s, missing, 100, &b, &err) == QR_NOT_FOUND && strstr(err.msg, missing), "%s",
          err.msg);
    CHECK(o->get(s, name, strlen(text) - 1, &b, &err) == QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, name),
          "%s", err.msg);
    CHECK(o->get(s, "", 100, &b, &err) == QR_INVALID_ARGUMENT, "%s", err.msg);
    CHECK(o->get_version(s, name, 100, &b, &first, &err) == QR_OK && first.there &&
              o->get_version(s, name, 100, &b, &second, &err) == QR_OK &&
              memcmp(first.id, second.id, sizeof first.id) == 0 &&
              strcmp(qr_buf_string(&b), text) == 0,
          "%s", err.msg);
    CHECK(o->get_version(s, missing, 100, &b, &second, &err) == QR_OK && !second.there && b.n == 0,
          "%s", err.msg);
    const enum qr_code codes[] = {
        put(s, name, "x", false, &err),     put(s, "new", "x", true, &err),
        o->remove(s, name, &err),           o->check_writable(s, name, &err),
        o->check_writable(s, "run/", &err), o->swap(s, name, qr_bytes_of_string("x"), &first, &err),
        o->list(s, "", &b, &err),
    };
    for (size_t i = 0; i < COUNT(codes); i++)
        CHECK(codes[i] == QR_UNIMPLEMENTED, "%zu: %s", i, qr_code_name(codes[i]));
    CHECK(strstr(err.msg, "cannot list"), "%s", err.msg);
    CHECK(o->check_writable(s, name, &err) == QR_UNIMPLEMENTED && strstr(err.msg, "read-only"),
          "%s", err.msg);
    CHECK(holds(s, name, text));
    qr_buf_free(&b);
}
