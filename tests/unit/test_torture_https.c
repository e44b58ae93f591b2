/* A file of a web server, tests/fake/https.py, with each allocation failing in turn, qring's and
 * libcurl's, once or from then on: by a redirect with a token, and in pieces after broken
 * connections. What was read is right. */
#include "tests/torture.h"

#include "base/file.h"
#include "store/https.h"
#include "tests/fake/fake.h"
#include "tests/fake/guard.h"

static int64_t virtual_ns = 1000 * QR_SECOND;
static int64_t virtual_now(void *ctx) { return (void)ctx, virtual_ns; }
static void pass_time(int64_t ns) { virtual_ns += ns; }
static const struct qr_clock virtual_clock = {virtual_now, NULL};
static char host[64], dir[] = "/tmp/qring-https-XXXXXX", *tokens;
static const char text[] = "0123456789";

static enum qr_code read_path(const char *path, struct qr_err *err) {
    const struct qr_https_options o = {
        .tokens = tokens,
        .waits = {.clock = &virtual_clock, .sleep = pass_time, .deadline_ns = 20 * QR_SECOND}};
    qr_auto(qr_free_p) char *url = qr_xasprintf("http://%s/%s", host, path), *name = NULL;
    struct qr_store *s = NULL;
    struct qr_buf b = {0};
    enum qr_code code = qr_store_https_new(url, &o, NULL, &s, &name, err);
    if (code != QR_OK) return code;
    code = s->ops->get(s, name, 100, &b, err);
    if (code == QR_OK && strcmp(qr_buf_string(&b), text) != 0)
        code = qr_fail(err, QR_INTERNAL, "wrong: %s", qr_buf_string(&b));
    qr_buf_free(&b);
    s->ops->close(s);
    return code;
}
static enum qr_code run_get(struct qr_err *err) {
    return read_path("to:%2Ftoken%2Fdata/x?a=b", err);
}
/* A new path each time, so that the server's faults occur again. */
static enum qr_code run_cut(struct qr_err *err) {
    uint64_t random;
    qr_entropy(&random, sizeof random);
    qr_auto(qr_free_p) char *path =
        qr_xasprintf("cut-4,cut-4/data?%llx", (unsigned long long)random);
    return read_path(path, err);
}

/* As test_torture_gcs.c. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_UNDEFINED__
enum { STRIDE = 17 };
#else
enum { STRIDE = 2 };
#endif
static const struct operation operations[] = {
    {.name = "get", .run = run_get, .caches = true, .stride = STRIDE},
    {.name = "get in pieces", .run = run_cut, .caches = true, .stride = STRIDE},
};

int main(void) {
    struct qr_err err;
    CHECK(mkdtemp(dir) != NULL);
    pid_t pid = start_fake_with("tests/fake/https.py", "0", "-", dir, host, sizeof host);
    if (pid < 0) {
        SKIP("there is no /usr/bin/python3 for the fake web server");
        return t_end();
    }
    qr_auto(qr_free_p) char *data = qr_path_join(dir, "data"),
                            *line = qr_xasprintf("%s secret-of-the-fake\n", host);
    tokens = qr_path_join(dir, "tokens");
    CHECK(qr_file_replace(data, qr_bytes_of_string(text), &err) == QR_OK &&
          qr_file_replace(tokens, qr_bytes_of_string(line), &err) == QR_OK);
    tortured(operations, COUNT(operations));
    unlink(data), unlink(tokens), rmdir(dir);
    free(tokens);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    return t_end();
}
