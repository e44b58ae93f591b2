/* The same suite for every store: memory and files here, Cloud Storage in test_store_gcs.c. */
#include "tests/conform/store_suite.h"

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "store/store.h"

static void test_files(const char *dir) {
    struct qr_err err;
    struct qr_buf b = {0};
    struct qr_store *s = NULL;
    char *name = NULL, url[256];
    snprintf(url, sizeof url, "file://%s/u/w.bin", dir);
    CHECK(qr_url_write(url, qr_bytes_of_string("hello"), &err) == QR_OK, "%s", err.msg);
    CHECK(qr_url_read(url + 7, 100, &b, &err) == QR_OK && strcmp(qr_buf_string(&b), "hello") == 0,
          "%s", err.msg);
    CHECK(qr_store_resolve(url, &s, &name, &err) == QR_OK && strcmp(name, url + 7) == 0, "%s",
          name);
    char blocked[256];
    /* a file in a directory's place */
    snprintf(blocked, sizeof blocked, "%s/u/w.bin/below/x", dir);
    CHECK(s->ops->check_writable(s, blocked, &err) != QR_OK && strstr(err.msg, "w.bin"), "%s",
          err.msg);
    CHECK(s->ops->put(s, blocked, qr_bytes_of_string("x"), true, &err) != QR_OK &&
              strstr(err.msg, "w.bin"),
          "%s", err.msg);
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
    static const struct {
        const char *url;
        enum qr_code code;
        const char *words;
    } rows[] = {
        {"gs://bucket/w.h5", QR_FAILED_PRECONDITION,
         "gs://bucket/w.h5: Cloud Storage is not configured in this program; give a local path"},
        {"s3://bucket/w.h5", QR_FAILED_PRECONDITION,
         "s3://bucket/w.h5: S3 is not configured in this program; give a local path"},
        {"s3:/bucket/w.h5", QR_INVALID_ARGUMENT, "s3://bucket/name has two"},
        {"https://x/w.h5?hush", QR_FAILED_PRECONDITION,
         "https://x/w.h5?...: HTTPS is not configured in this program; give a local path"},
        {"https:/x/w.h5", QR_INVALID_ARGUMENT, "https://host/path has two"},
        {"ftp://x/w.h5", QR_INVALID_ARGUMENT, "unknown kind of URL"},
        {"file://host/w.h5", QR_INVALID_ARGUMENT, "three slashes"},
        {"file://", QR_INVALID_ARGUMENT, "three slashes"},
        {"", QR_INVALID_ARGUMENT, "empty path"},
        {"gs:/bucket/w.h5", QR_INVALID_ARGUMENT, "gs://bucket/name has two"},
        {"gs:bucket/w.h5", QR_INVALID_ARGUMENT, "gs://bucket/name has two"},
        {"file:/dir/w.h5", QR_INVALID_ARGUMENT, "file:///dir/name has three"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        s = NULL;
        name = NULL;
        CHECK(qr_store_resolve(rows[i].url, &s, &name, &err) == rows[i].code &&
                  strstr(err.msg, rows[i].words) && !s && !name,
              "%s: %s", rows[i].url, err.msg);
    }
    static const char *const shown[][2] = {
        {"https://u:p@h/a?b#c", "https://h/a?..."}, {"http://h/a#c", "http://h/a"},
        {"s3://b/a?b@c", "s3://b/a?b@c"},           {"dir/a?b", "dir/a?b"},
        {"https://h?a/b@c", "https://h?..."},       {"https://a@b@c/", "https://c/"}};
    for (size_t i = 0; i < COUNT(shown); i++) {
        qr_auto(qr_free_p) char *got = qr_url_redacted(shown[i][0]);
        CHECK(strcmp(got, shown[i][1]) == 0, "%s: %s", shown[i][0], got);
    }
    CHECK(qr_url_remote("gs://bucket/w.h5") && qr_url_remote("s3://bucket/w.h5") &&
          qr_url_remote("https://x/w.h5") && !qr_url_remote("file:///dir/w.h5") &&
          !qr_url_remote("gs:/w.h5") && !qr_url_remote("dir/w.h5") && !qr_url_remote(NULL));
    CHECK(qr_url_read("/nonexistent/file", 10, &b, &err) == QR_NOT_FOUND &&
              strstr(err.msg, "/nonexistent/file"),
          "%s", err.msg);
    qr_buf_free(&b);
}

/* Eight processes create one name: one succeeds, the others get an error, and the content
 * is whole. */
static void test_concurrent_create(const char *dir) {
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
        CHECK(pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) &&
              WEXITSTATUS(status) < 3);
        count[WEXITSTATUS(status) % 3]++;
        if (WEXITSTATUS(status) == 0) winner = i;
    }
    char want[] = "content of 0";
    want[11] = (char)('0' + winner);
    CHECK(count[0] == 1 && count[1] == N - 1, "%d created it, %d were rejected", count[0],
          count[1]);
    CHECK(holds(s, "one", want));
    CHECK(s->ops->remove(s, "one", &err) == QR_OK);
    s->ops->close(s);
}

/* Four processes increment one counter by compare-and-swap: no step is lost. */
static void test_concurrent_swap(const char *dir) {
    enum { N = 4, EACH = 25 };
    pid_t pids[N];
    struct qr_err err;
    struct qr_buf b = {0};
    struct qr_store *s = qr_store_file_new(dir);
    CHECK(put(s, "count", "", false, &err) == QR_OK);
    for (int i = 0; i < N; i++) {
        pids[i] = fork();
        for (int done = 0; pids[i] == 0 && done < EACH;) {
            struct qr_store_version v;
            if (s->ops->get_version(s, "count", 1000, &b, &v, &err) != QR_OK) _exit(1);
            qr_buf_puts(&b, "x");
            enum qr_code code = s->ops->swap(s, "count", qr_buf_view(&b), &v, &err);
            if (code == QR_OK) done++;
            else if (code != QR_FAILED_PRECONDITION && code != QR_UNAVAILABLE) _exit(2);
        }
        if (pids[i] == 0) _exit(0);
    }
    for (int i = 0; i < N; i++) {
        int status = 0;
        CHECK(pids[i] > 0 && waitpid(pids[i], &status, 0) == pids[i] && WIFEXITED(status) &&
                  WEXITSTATUS(status) == 0,
              "%x", (unsigned)status);
    }
    CHECK(s->ops->get(s, "count", 1000, &b, &err) == QR_OK && b.n == N * EACH, "%zu", b.n);
    CHECK(s->ops->remove(s, "count", &err) == QR_OK);
    qr_buf_free(&b);
    s->ops->close(s);
}

static const enum qr_counter counted[] = {QR_STORE_GETS,   QR_STORE_GET_ERRORS,  QR_STORE_GET_BYTES,
                                          QR_STORE_PUTS,   QR_STORE_PUT_ERRORS,  QR_STORE_PUT_BYTES,
                                          QR_STORE_OTHERS, QR_STORE_OTHER_ERRORS};
static void check_counters(const char *what, const int64_t (*by)[COUNT(counted)]) {
    static int64_t before[COUNT(counted)];
    for (size_t i = 0; i < COUNT(counted); i++) {
        int64_t now = qr_counter_value(counted[i]);
        if (by)
            CHECK(now - before[i] == (*by)[i], "%s: %s%s grew by %lld, not %lld", what,
                  qr_counter_table[counted[i]].family, qr_counter_table[counted[i]].labels,
                  (long long)(now - before[i]), (long long)(*by)[i]);
        before[i] = now;
    }
}
#define GREW(what, ...) check_counters(what, &(const int64_t[COUNT(counted)]){__VA_ARGS__})

/* Every request to a store counts once. */
static void test_counters(void) {
    struct qr_store *s = qr_store_counted(qr_store_memory_new());
    struct qr_store_version v;
    struct qr_buf b = {0};
    struct qr_err err;
    check_counters("", NULL);
    CHECK(s->ops->put(s, "a", qr_bytes_of_string("12345"), true, &err) == QR_OK);
    GREW("put", 0, 0, 0, 1, 0, 5);
    CHECK(s->ops->put(s, "a", qr_bytes_of_string("12345"), true, &err) == QR_FAILED_PRECONDITION);
    GREW("put of an existing name", 0, 0, 0, 1);
    CHECK(s->ops->get(s, "a", 100, &b, &err) == QR_OK && b.n == 5);
    GREW("get", 1, 0, 5);
    CHECK(s->ops->get(s, "none", 100, &b, &err) == QR_NOT_FOUND);
    GREW("get of a missing name", 0, 1);
    qr_buf_clear(&b);
    CHECK(s->ops->get_version(s, "a", 100, &b, &v, &err) == QR_OK);
    GREW("get with a version", 1, 0, 5);
    CHECK(s->ops->swap(s, "a", qr_bytes_of_string("123"), &v, &err) == QR_OK);
    GREW("swap", 0, 0, 0, 1, 0, 3);
    CHECK(s->ops->swap(s, "a", qr_bytes_of_string("12"), &v, &err) == QR_FAILED_PRECONDITION);
    GREW("swap of a changed object", 0, 0, 0, 1);
    qr_buf_clear(&b);
    CHECK(s->ops->list(s, "", &b, &err) == QR_OK &&
          s->ops->check_writable(s, "x/", &err) == QR_OK && s->ops->remove(s, "a", &err) == QR_OK);
    GREW("list, check, remove", 0, 0, 0, 0, 0, 0, 3);
    s->ops->close(s);
    qr_buf_free(&b);
    CHECK(qr_url_read("/nonexistent/file", 10, &b, &err) == QR_NOT_FOUND);
    GREW("a file by its path", 0, 1);
}

int main(void) {
    struct qr_store *s = qr_store_memory_new();
    suite(s);
    s->ops->close(s);
    s = qr_store_counted(qr_store_memory_new());
    suite(s);
    s->ops->close(s);
    test_counters();
    char dir[] = "/tmp/qring-store-XXXXXX";
    CHECK(mkdtemp(dir) != NULL);
    s = qr_store_file_new(dir);
    suite(s);
    s->ops->close(s);
    test_files(dir);
    test_concurrent_create(dir);
    test_concurrent_swap(dir);
    char path[64];
    static const char *const locks[] = {".count.lock", "run/.L.lock"}, *const left[] = {
                                                                           "run/b", "run", "other",
                                                                           ""};
    for (size_t i = 0; i < COUNT(locks); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, locks[i]);
        CHECK(unlink(path) == 0, "%s", path);
    }
    for (size_t i = 0; i < COUNT(left); i++) {
        snprintf(path, sizeof path, "%s/%s", dir, left[i]);
        CHECK(rmdir(path) == 0, "%s is not empty: a temporary file was left", path);
    }
    return t_end();
}
