/* tests/fake/client.h — a client of tests/fake/gcs.py for torture: virtual time, short guards
 * against stalls, and a store without faults beside it. */
#ifndef FAKE_CLIENT_H
#define FAKE_CLIENT_H

#include <stdbool.h>

#include "base/clock.h"
#include "store/gcs.h"
#include "tests/fake/fake.h"
#include "tests/fake/guard.h"

static int64_t virtual_ns = 1000 * QR_SECOND;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass(int64_t ns) { virtual_ns += ns; }
static const struct qr_clock virtual_clock = {now, NULL};
static char host[64]; /* of the fake */

/* Through `at`: a failure that stays ends in a sentence after 20 s of virtual time. */
static struct qr_store *opened(const char *at) {
    const struct qr_gcs_options o = {.emulator_host = at,
                                     .metadata_host = at,
                                     .waits.clock = &virtual_clock,
                                     .waits.wall = &qr_clock_wall,
                                     .waits.sleep = pass,
                                     .waits.deadline_ns = 20 * QR_SECOND};
    struct qr_store *s = NULL;
    struct qr_err err = {0};
    return qr_store_gcs_new("auth-torture", &o, NULL, &s, &err) == QR_OK ? s : NULL;
}

/* Without faults, one for all these, so that they are quick; each process has its own: a connection
 * is not shared. */
static struct qr_store *plain(void) {
    static struct qr_store *s;
    static pid_t mine;
    if (mine != getpid()) s = opened(host);
    mine = getpid();
    return s;
}
enum { TEXT_MAX = 16 << 20 };
/* What is in an object; "" where there is none, the error where it cannot be read. */
static const char *text_of(const char *name) {
    static struct qr_buf b;
    static struct qr_err err;
    qr_buf_clear(&b);
    if (plain()->ops->get(plain(), name, TEXT_MAX, &b, &err) == QR_OK) return qr_buf_string(&b);
    return err.code == QR_NOT_FOUND ? "" : err.msg;
}
static void put_text(const char *name, const char *text) {
    struct qr_err err = {0};
    if (plain()->ops->put(plain(), name, qr_bytes_of_string(text), false, &err) != QR_OK)
        fprintf(stderr, "%s\n", err.msg);
}
static inline void remove_text(const char *name) {
    struct qr_err err = {0};
    if (plain()->ops->remove(plain(), name, &err) != QR_OK && err.code != QR_NOT_FOUND)
        fprintf(stderr, "%s\n", err.msg);
}
static bool is(const char *text, const char *one, const char *other) {
    return strcmp(text, one) == 0 || strcmp(text, other) == 0;
}

#endif
