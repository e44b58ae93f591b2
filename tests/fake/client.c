/* tests/fake/client.c — a client of tests/fake/gcs.py, in virtual time. */
#include "tests/fake/client.h"

#include "base/clock.h"
#include "store/gcs.h"

static int64_t virtual_ns = 1000 * QR_SECOND;
static int64_t now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass(int64_t ns) { virtual_ns += ns; }
static const struct qr_clock virtual_clock = {now, NULL};
char fake_host[64];

struct qr_store *opened(const char *at) {
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

struct qr_store *plain(void) {
    static struct qr_store *s;
    static pid_t mine;
    if (mine != getpid()) s = opened(fake_host);
    mine = getpid();
    return s;
}

const char *text_of(const char *name) {
    static struct qr_buf b;
    static struct qr_err err;
    qr_buf_clear(&b);
    if (plain()->ops->get(plain(), name, TEXT_MAX, &b, &err) == QR_OK) return qr_buf_string(&b);
    return err.code == QR_NOT_FOUND ? "" : err.msg;
}

void put_text(const char *name, const char *text) {
    struct qr_err err = {0};
    if (plain()->ops->put(plain(), name, qr_bytes_of_string(text), false, &err) != QR_OK)
        fprintf(stderr, "%s\n", err.msg);
}

void remove_text(const char *name) {
    struct qr_err err = {0};
    if (plain()->ops->remove(plain(), name, &err) != QR_OK && err.code != QR_NOT_FOUND)
        fprintf(stderr, "%s\n", err.msg);
}

bool is(const char *text, const char *one, const char *other) {
    return strcmp(text, one) == 0 || strcmp(text, other) == 0;
}
