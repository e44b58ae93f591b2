/* A worker waits for its certificate if it becomes valid soon; one that becomes valid later gives a
 * retryable error or is rejected. On virtual time, and once on real time. */
#include "worker/tls.h"

#include "tests/tls.h"

static int64_t now_ns, slept_ns;
static int64_t virtual_now(void *ctx) { return now_ns + *(int64_t *)ctx; }
static void virtual_sleep(int64_t ns) {
    now_ns += ns;
    slept_ns += ns;
}

/* The certificate becomes valid in `seconds`, by this machine's clock. */
static void test_valid_in(struct qr_settings *s, int64_t seconds, enum qr_code expected,
                          int exit_code, int64_t least_s, int64_t most_s) {
    int64_t none = 0;
    const struct qr_clock wall = {virtual_now, &none};
    struct qr_certificate_request o = tls_order("begins");
    struct tls_dir d = tls_dir_new();
    struct qr_certificate_own own;
    struct qr_err err = {0};
    now_ns = tls_now_s() * QR_SECOND;
    slept_ns = 0;
    o.not_before_s = tls_now_s() + seconds;
    struct qr_certificate_set set = tls_make(&o);
    tls_dir_put(&d, &set);
    s->tls_dir = d.path;
    enum qr_code code = qr_tls_await(s, &wall, virtual_sleep, NULL, &own, &err);
    CHECK(code == expected && qr_exit_code(code) == exit_code, "in %lld s: %s: %s",
          (long long)seconds, qr_code_name(code), err.msg);
    CHECK(slept_ns >= least_s * QR_SECOND && slept_ns <= most_s * QR_SECOND,
          "in %lld s: waited %lld ns", (long long)seconds, (long long)slept_ns);
    CHECK(code == QR_OK || strstr(err.msg, "not valid yet"), "%s", err.msg);
    s->tls_dir = NULL;
    qr_certificate_wipe(&set);
    tls_dir_free(&d);
}

/* As in a worker, on the real clock. */
static void test_real_clock(struct qr_settings *s) {
    struct qr_certificate_request o = tls_order("real");
    struct tls_dir d = tls_dir_new();
    struct qr_link_tls *tls = NULL;
    struct qr_err err = {0};
    o.not_before_s = tls_now_s() + 2;
    struct qr_certificate_set set = tls_make(&o);
    tls_dir_put(&d, &set);
    s->tls_dir = d.path;
    CHECK(qr_tls_open(s, NULL, &tls, &err) == QR_OK && tls, "%s", err.msg);
    CHECK(tls_now_s() >= o.not_before_s);
    qr_link_tls_free(tls);
    s->tls_dir = NULL;
    qr_certificate_wipe(&set);
    tls_dir_free(&d);
}

int main(void) {
    struct qr_settings s;
    qr_settings_init(&s);
    test_valid_in(&s, -10, QR_OK, 0, 0, 0);
    /* A second passes between the two readings of the clock, and at most one more while the
     * certificate is made. */
    test_valid_in(&s, 5, QR_OK, 0, 3, 6);
    test_valid_in(&s, 55, QR_OK, 0, 53, 57);
    test_valid_in(&s, 70, QR_UNAVAILABLE, 138, 60, 60);
    test_valid_in(&s, 590, QR_UNAVAILABLE, 138, 60, 60);
    test_valid_in(&s, 700, QR_INVALID_ARGUMENT, 2, 0, 0);
    test_real_clock(&s);
    qr_settings_fini(&s);
    return t_end();
}
