/* The termination log: which files a path from a job file may overwrite, and its texts. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counter.h"
#include "base/file.h"
#include "monitor/termination_log.h"
#include "tests/t.h"

static char folder[] = "/tmp/termination-XXXXXX", path[64], other[64];

static bool has(const char *file, const char *want) {
    struct qr_buf b = {0};
    bool same =
        qr_file_read(file, 4096, &b, QR_IGNORED) == QR_OK && strcmp(qr_buf_string(&b), want) == 0;
    qr_buf_free(&b);
    return same;
}

static void put(const char *file, const char *text) {
    unlink(file);
    CHECK(qr_file_replace(file, qr_bytes_of_string(text), QR_IGNORED) == QR_OK);
}

static void test_job_file(void) {
    qr_termination_log_to(path, true);
    qr_termination_log("no file");
    CHECK(access(path, F_OK) != 0 && !qr_termination_log_refused());
    put(path, "");
    CHECK(!qr_termination_log_refused());
    qr_termination_log("a longer first message");
    CHECK(!qr_termination_log_refused(), "as this process left it");
    qr_termination_log("second");
    CHECK(has(path, "second"), "the message is replaced");
    /* Content of another program is kept: more bytes, another file of the same size. */
    put(other, "second");
    FILE *f = fopen(path, "a");
    CHECK(f && fputs("+", f) >= 0 && fclose(f) == 0);
    CHECK(qr_termination_log_refused());
    qr_termination_log("third");
    CHECK(has(path, "second+"));
    CHECK(rename(other, path) == 0 && qr_termination_log_refused());
    qr_termination_log("third");
    CHECK(has(path, "second"));
    /* A second name, a symbolic link, a FIFO. */
    put(path, "");
    CHECK(link(path, other) == 0 && qr_termination_log_refused());
    qr_termination_log("third");
    CHECK(has(path, "") && unlink(path) == 0);
    CHECK(symlink(other, path) == 0 && qr_termination_log_refused());
    qr_termination_log("third");
    CHECK(has(other, "") && unlink(path) == 0);
    CHECK(mkfifo(path, 0600) == 0 && qr_termination_log_refused());
    qr_termination_log("third");
    CHECK(unlink(path) == 0 && unlink(other) == 0);
}

/* A path from a flag is overwritten, through a link too. */
static void test_flag(void) {
    put(other, "the user's");
    CHECK(symlink(other, path) == 0);
    qr_termination_log_to(path, false);
    CHECK(!qr_termination_log_refused());
    qr_termination_log("the reason");
    CHECK(has(other, "the reason"));
    CHECK(unlink(path) == 0 && unlink(other) == 0);
}

static void test_drained(void) {
    char text[96];
    qr_termination_log_drained(text, sizeof text);
    CHECK(strcmp(text, "before the first step: drained on SIGTERM") == 0, "%s", text);
    qr_gauge(QR_STEP, 17);
    qr_gauge(QR_STEPS_PLANNED, 100);
    qr_termination_log_drained(text, sizeof text);
    CHECK(strcmp(text, "step 17 of 100: drained on SIGTERM") == 0, "%s", text);
    qr_gauge(QR_EVALUATOR, 1);
    qr_gauge(QR_EVALUATED_STEP, 9);
    qr_termination_log_drained(text, sizeof text);
    CHECK(strcmp(text, "evaluator, last evaluated step 9: drained on SIGTERM") == 0, "%s", text);
}

int main(void) {
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/log", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    test_job_file();
    test_flag();
    test_drained();
    CHECK(rmdir(folder) == 0);
    return t_end();
}
