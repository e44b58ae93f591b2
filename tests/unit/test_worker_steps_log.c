/* steps.jsonl: whoever writes, torn, ahead, behind, of another run: each line once. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/t.h"
#include "worker/steps_log.h"

enum { STEPS = 12 };
static char folder[] = "/tmp/qring-steps-XXXXXX", path[64];
/* Three steps, then an evaluation, and so on: line[0 .. 15]. */
static struct qr_step_line line[16];
static size_t n_lines;

static void make_lines(double loss) {
    n_lines = 0;
    for (uint64_t s = 1; s <= STEPS; s++) {
        line[n_lines++] = (struct qr_step_line){.step = s, .epoch = (s - 1) / 3 + 1, .samples = 9, .loss = loss / (double)s};
        if (s % 3 == 0) line[n_lines++] = (struct qr_step_line){.step = s, .epoch = s / 3, .eval = true, .samples = 4, .loss = loss / (double)s};
    }
}
static struct qr_buf text_of(size_t first, size_t end) {
    struct qr_buf b = {0};
    for (size_t i = first; i < end; i++) qr_step_json(&line[i], &b);
    return b;
}
static void put(const struct qr_buf *b, size_t n) {
    FILE *f = fopen(path, "w");
    if (n) fwrite(b->p, 1, n, f);
    fclose(f);
}
static void check_file(size_t end, const char *what) {
    struct qr_buf want = text_of(0, end), text = {0};
    struct qr_err err;
    CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK, "%s", err.msg);
    CHECK(text.n == want.n && strcmp(qr_buf_string(&text), qr_buf_string(&want)) == 0, "%s:\n%s--\n%s", what, qr_buf_string(&text), qr_buf_string(&want));
    qr_buf_free(&text);
    qr_buf_free(&want);
}
/* As train tells it: with up to three lines before. */
static bool tell(struct qr_steps_log *l, size_t i) {
    struct qr_err err;
    bool continues = false;
    size_t n = i < 3 ? i : 3;
    CHECK(qr_steps_log_write(l, &line[i], &line[i - n], n, &continues, &err) == QR_OK, "%s", err.msg);
    return continues;
}

/* A worker is stopped in the lock (its lock is ours here), others go on without it; then it wakes where it was: before its line, or before its look
 * at the end. */
static void test_stopped_in_the_lock(size_t at) {
    struct qr_steps_log a, b;
    qr_steps_log_init(&a, folder);
    qr_steps_log_init(&b, folder);
    CHECK(unlink(path) == 0 || errno == ENOENT);
    for (size_t i = 0; i < at; i++) tell(&a, i);
    int holder = open(path, O_RDWR);
    CHECK(flock(holder, LOCK_EX) == 0);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    for (size_t i = at; i < n_lines; i++) tell(&b, i);
    CHECK(qr_now_ns(&qr_clock_monotonic) - began_ns < 2 * QR_SECOND, "waits for the lock at every line");
    check_file(n_lines, "the lock is held");
    struct qr_buf late = text_of(at, at + 1);
    CHECK(pwrite(a.fd, late.p, late.n, a.end) == (ssize_t)late.n); /* what it does when it wakes after its look */
    close(holder);
    check_file(n_lines, "the late line is there already");
    for (size_t i = at; i < n_lines; i++) tell(&a, i);
    check_file(n_lines, "it goes on");
    qr_buf_free(&late);
    qr_steps_log_fini(&a);
    qr_steps_log_fini(&b);
}

/* A second worker takes over behind line `at`, of which it knows the last three; the file ends with `there` bytes more or less than it says. */
static void test_takes_over(size_t at, int missing, size_t torn) {
    struct qr_steps_log a, b;
    struct qr_err err;
    char what[80];
    qr_steps_log_init(&a, folder);
    qr_steps_log_init(&b, folder);
    CHECK(unlink(path) == 0 || errno == ENOENT);
    snprintf(what, sizeof what, "takes over at line %zu, %d missing, %zu bytes torn", at, missing, torn);
    CHECK(qr_steps_log_fresh(&a, &err) == QR_OK && qr_steps_log_fresh(&b, &err) == QR_OK, "%s", err.msg);
    for (size_t i = 0; i < at - (size_t)missing; i++) tell(&a, i);
    if (torn) {
        struct qr_buf next = text_of(at - (size_t)missing, at - (size_t)missing + 1);
        int fd = open(path, O_WRONLY | O_APPEND);
        CHECK(write(fd, next.p, torn) == (ssize_t)torn);
        close(fd);
        qr_buf_free(&next);
    }
    for (size_t i = at; i < n_lines; i++) CHECK(tell(&b, i) == (i == at), "%s", what);
    check_file(n_lines, what);
    /* the first one wakes up and writes what it believes to come next */
    for (size_t i = at - (size_t)missing; i < n_lines; i++) tell(&a, i);
    check_file(n_lines, what);
    qr_steps_log_fini(&a);
    qr_steps_log_fini(&b);
}

/* A new run takes away what a former one left, but not what was written since it started. */
static void test_fresh(void) {
    struct qr_steps_log a, b;
    struct qr_err err;
    struct qr_buf old = text_of(0, 9);
    put(&old, old.n);
    qr_steps_log_init(&a, folder);
    qr_steps_log_init(&b, folder);
    CHECK(qr_steps_log_fresh(&a, &err) == QR_OK);
    check_file(0, "a new run");
    tell(&a, 0);
    CHECK(qr_steps_log_fresh(&b, &err) == QR_OK); /* it was stopped in between */
    check_file(1, "a late start");
    qr_steps_log_fini(&a);
    qr_steps_log_fini(&b);
    qr_buf_free(&old);
}

/* Not ours: begins anew with what is known. */
static void test_other_run(size_t lines_there, size_t at) {
    struct qr_steps_log l;
    qr_steps_log_init(&l, folder);
    make_lines(5);
    struct qr_buf old = text_of(0, lines_there);
    put(&old, old.n);
    make_lines(1);
    for (size_t i = at; i < n_lines; i++) tell(&l, i);
    struct qr_buf want = text_of(at < 3 ? 0 : at - 3, n_lines), text = {0};
    struct qr_err err;
    CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK && text.n == want.n && memcmp(text.p, want.p, want.n) == 0, "%zu lines of another run, at %zu:\n%s",
          lines_there, at, qr_buf_string(&text));
    qr_buf_free(&text);
    qr_buf_free(&want);
    qr_buf_free(&old);
    qr_steps_log_fini(&l);
}

int main(void) {
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/steps.jsonl", folder);
    make_lines(1);
    for (size_t at = 1; at < n_lines; at++)
        for (int missing = 0; missing <= 3 && (size_t)missing < at; missing++)
            for (size_t torn = 0; torn <= 40; torn += 20) test_takes_over(at, missing, torn);
    test_fresh();
    test_other_run(16, 8);
    test_other_run(3, 9);
    test_other_run(9, 9);
    test_other_run(16, 0);
    test_stopped_in_the_lock(1);
    test_stopped_in_the_lock(7);
    /* a file that cannot be written is named */
    struct qr_steps_log l;
    struct qr_err err;
    bool continues;
    qr_steps_log_init(&l, "/nowhere");
    CHECK(qr_steps_log_write(&l, &line[0], NULL, 0, &continues, &err) == QR_NOT_FOUND && strstr(err.msg, "/nowhere/steps.jsonl"), "%s", err.msg);
    qr_steps_log_fini(&l);
    unlink(path);
    rmdir(folder);
    return t_end();
}
