/* One suite over every store: memory and files. */
#include "tests/t.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "store/store.h"

static bool holds(struct qr_store *s, const char *name, const char *want) {
    struct qr_buf b = {0};
    struct qr_err err;
    bool same = s->ops->get(s, name, 1000, &b, &err) == QR_OK && b.n == strlen(want) && strcmp(qr_buf_string(&b), want) == 0;
    qr_buf_free(&b);
    return same;
}
static enum qr_code put(struct qr_store *s, const char *name, const char *content, bool if_absent, struct qr_err *err) {
    return s->ops->put(s, name, qr_bytes_of_string(content), if_absent, err);
}

static void suite(struct qr_store *s) {
    struct qr_buf b = {0};
    struct qr_err err = {0};
    CHECK(s->ops->get(s, "run/none", 10, &b, &err) == QR_NOT_FOUND && strstr(err.msg, "run/none"), "%s", err.msg);
    CHECK(s->ops->list(s, "run/", &b, &err) == QR_OK && b.n == 0);
    CHECK(s->ops->check_writable(s, "run/weights.h5", &err) == QR_OK, "%s", err.msg);
    CHECK(put(s, "run/a", "one", false, &err) == QR_OK && holds(s, "run/a", "one"), "%s", err.msg);
    CHECK(put(s, "run/a", "two", false, &err) == QR_OK && holds(s, "run/a", "two"), "%s", err.msg);
    CHECK(put(s, "run/a", "three", true, &err) == QR_FAILED_PRECONDITION && strstr(err.msg, "run/a") && holds(s, "run/a", "two"), "%s", err.msg);
    CHECK(put(s, "run/b/c", "new", true, &err) == QR_OK && holds(s, "run/b/c", "new"), "%s", err.msg);
    CHECK(put(s, "run/b/c", "again", true, &err) == QR_FAILED_PRECONDITION && holds(s, "run/b/c", "new"));
    CHECK(put(s, "run/empty", "", false, &err) == QR_OK && holds(s, "run/empty", ""));
    CHECK(put(s, "runner", "x", false, &err) == QR_OK);
    CHECK(put(s, "other/x", "x", false, &err) == QR_OK);
    static const struct { const char *prefix, *want; } lists[] = {
        {"run/", "run/a\nrun/b/c\nrun/empty"}, {"run", "run/a\nrun/b/c\nrun/empty\nrunner"}, {"run/b", "run/b/c"}, {"run/e", "run/empty"}, {"none", ""}, {"none/x/", ""},
        {"", "other/x\nrun/a\nrun/b/c\nrun/empty\nrunner"}};
    for (size_t i = 0; i < COUNT(lists); i++) {
        CHECK(s->ops->list(s, lists[i].prefix, &b, &err) == QR_OK, "%s", err.msg);
        CHECK(strcmp(qr_buf_string(&b), lists[i].want) == 0, "'%s': %s", lists[i].prefix, qr_buf_string(&b));
    }
    CHECK(s->ops->get(s, "run/a", 2, &b, &err) == QR_RESOURCE_EXHAUSTED && strstr(err.msg, "run/a") && strstr(err.msg, "3") && strstr(err.msg, "2"), "%s", err.msg);
    CHECK(s->ops->get(s, "run/a", 3, &b, &err) == QR_OK && b.n == 3);
    CHECK(s->ops->remove(s, "run/a", &err) == QR_OK && s->ops->get(s, "run/a", 10, &b, &err) == QR_NOT_FOUND);
    CHECK(s->ops->remove(s, "run/a", &err) == QR_NOT_FOUND && strstr(err.msg, "run/a"), "%s", err.msg);
    CHECK(put(s, "", "x", false, &err) == QR_INVALID_ARGUMENT);
    char *large = qr_xcalloc(1, 300000);
    memset(large, 'x', 299999);
    CHECK(put(s, "large", large, false, &err) == QR_OK && s->ops->get(s, "large", 300000, &b, &err) == QR_OK && b.n == 299999 && memcmp(b.p, large, b.n) == 0);
    CHECK(s->ops->remove(s, "large", &err) == QR_OK && s->ops->remove(s, "runner", &err) == QR_OK && s->ops->remove(s, "other/x", &err) == QR_OK);
    CHECK(s->ops->remove(s, "run/b/c", &err) == QR_OK && s->ops->remove(s, "run/empty", &err) == QR_OK);
    CHECK(s->ops->list(s, "", &b, &err) == QR_OK && b.n == 0, "%s", qr_buf_string(&b));
    free(large);
    qr_buf_free(&b);
}

static void files_only(const char *dir) {
    struct qr_err err;
    struct qr_buf b = {0};
    struct qr_store *s = NULL;
    char *name = NULL, url[256];
    snprintf(url, sizeof url, "file://%s/u/w.bin", dir);
    CHECK(qr_url_write(url, qr_bytes_of_string("hello"), &err) == QR_OK, "%s", err.msg);
    CHECK(qr_url_read(url + 7, 100, &b, &err) == QR_OK && strcmp(qr_buf_string(&b), "hello") == 0, "%s", err.msg);
    CHECK(qr_store_resolve(url, &s, &name, &err) == QR_OK && strcmp(name, url + 7) == 0, "%s", name);
    char blocked[256];
    snprintf(blocked, sizeof blocked, "%s/u/w.bin/below/x", dir); /* a file where a directory should be */
    CHECK(s->ops->check_writable(s, blocked, &err) != QR_OK && strstr(err.msg, "w.bin"), "%s", err.msg);
    CHECK(s->ops->put(s, blocked, qr_bytes_of_string("x"), true, &err) != QR_OK && strstr(err.msg, "w.bin"), "%s", err.msg);
    snprintf(blocked, sizeof blocked, "%s/u/", dir);
    CHECK(s->ops->get(s, blocked, 10, &b, &err) != QR_OK);
    if (geteuid() != 0) {
        snprintf(blocked, sizeof blocked, "%s/u", dir);
        chmod(blocked, 0500);
        CHECK(s->ops->check_writable(s, blocked, &err) == QR_PERMISSION_DENIED, "%s", err.msg);
        chmod(blocked, 0700);
    }
    CHECK(s->ops->remove(s, name, &err) == QR_OK);
    free(name);
    s->ops->close(s);
    snprintf(blocked, sizeof blocked, "%s/u", dir);
    rmdir(blocked);
    static const struct { const char *url; enum qr_code code; const char *words; } rows[] = {
        {"gs://bucket/w.h5", QR_UNIMPLEMENTED, "gs://bucket/w.h5: Cloud Storage is not part of this build; give a local path"},
        {"s3://bucket/w.h5", QR_INVALID_ARGUMENT, "unknown kind of URL"}, {"https://x/w.h5", QR_INVALID_ARGUMENT, "unknown kind of URL"},
        {"file://host/w.h5", QR_INVALID_ARGUMENT, "three slashes"}, {"file://", QR_INVALID_ARGUMENT, "three slashes"}, {"", QR_INVALID_ARGUMENT, "empty path"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        s = NULL;
        name = NULL;
        CHECK(qr_store_resolve(rows[i].url, &s, &name, &err) == rows[i].code && strstr(err.msg, rows[i].words) && !s && !name, "%s: %s", rows[i].url, err.msg);
    }
    CHECK(qr_url_read("/nonexistent/file", 10, &b, &err) == QR_NOT_FOUND && strstr(err.msg, "/nonexistent/file"), "%s", err.msg);
    qr_buf_free(&b);
}

/* Eight processes create one name: one of them does, the others are told so, and the content is whole. */
static void one_creates(const char *dir) {
    enum { N = 8 };
    pid_t pids[N];
    struct qr_err err;
    struct qr_store *s = qr_store_file_new(dir);
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char content[] = "content of 0";
            content[11] = (char)('0' + i);
            enum qr_code code = put(s, "one", content, true, &err);
            _exit(code == QR_OK ? 0 : code == QR_FAILED_PRECONDITION ? 1 : 2);
        }
    }
    int count[3] = {0}, winner = -1;
    for (int i = 0; i < N; i++) {
        int status = 0;
        CHECK(pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) && WEXITSTATUS(status) < 3);
        count[WEXITSTATUS(status) % 3]++;
        if (WEXITSTATUS(status) == 0) winner = i;
    }
    char want[] = "content of 0";
    want[11] = (char)('0' + winner);
    CHECK(count[0] == 1 && count[1] == N - 1, "%d created it, %d were refused", count[0], count[1]);
    CHECK(holds(s, "one", want));
    CHECK(s->ops->remove(s, "one", &err) == QR_OK);
    s->ops->close(s);
}

int main(void) {
    struct qr_store *s = qr_store_memory_new();
    suite(s);
    s->ops->close(s);
    char dir[] = "/tmp/qring-store-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    s = qr_store_file_new(dir);
    suite(s);
    s->ops->close(s);
    files_only(dir);
    one_creates(dir);
    char path[64];
    static const char *const left[] = {"run/b", "run", "other", ""};
    for (size_t i = 0; i < COUNT(left); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, left[i]);
        CHECK(rmdir(path) == 0, "%s is not empty: a temporary file was left", path);
    }
    return t_end();
}
