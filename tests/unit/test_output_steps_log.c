/* steps.jsonl with concurrent writers, and with torn, missing, extra or foreign lines: each line is
 * written once. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "output/steps_log.h"
#include "tests/t.h"

enum { STEPS = 12 };
static char folder[] = "/tmp/qring-steps-XXXXXX", path[64];
/* Three steps, then an evaluation, and so on: line[0 .. 15]. */
static struct qr_step_line line[16];
static size_t n_lines;

static void make_lines(double loss) {
    n_lines = 0;
    for (uint64_t s = 1; s <= STEPS; s++) {
        line[n_lines++] = (struct qr_step_line){
            .step = s, .epoch = (s - 1) / 3 + 1, .samples = 9, .loss = loss / (double)s};
        if (s % 3 == 0)
            line[n_lines++] = (struct qr_step_line){
                .step = s, .epoch = s / 3, .eval = true, .samples = 4, .loss = loss / (double)s};
    }
}
static struct qr_buf text_of(size_t first, size_t end) {
    struct qr_buf b = {0};
    for (size_t i = first; i < end; i++) qr_step_json(&line[i], &b);
    return b;
}
static void write_file(const struct qr_buf *b, size_t n) {
    FILE *f = fopen(path, "w");
    if (n) fwrite(b->p, 1, n, f);
    fclose(f);
}
static void check_file(size_t end, const char *what) {
    struct qr_buf want = text_of(0, end), text = {0};
    struct qr_err err;
    CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK, "%s", err.msg);
    CHECK(text.n == want.n && strcmp(qr_buf_string(&text), qr_buf_string(&want)) == 0,
          "%s:\n%s--\n%s", what, qr_buf_string(&text), qr_buf_string(&want));
    qr_buf_free(&text);
    qr_buf_free(&want);
}
/* Writes line i as training does, with up to three lines before it. */
static bool write_line(struct qr_steps_log *l, size_t i) {
    struct qr_err err;
    bool continues = false;
    size_t n = i < 3 ? i : 3;
    CHECK(qr_steps_log_write(l, &line[i], &line[i - n], n, &continues, &err) == QR_OK, "%s",
          err.msg);
    return continues;
}

/* A worker is stopped while it holds the lock, which the test holds here; others continue without
 * it. Then it resumes where it was: before its write, or before it reads the end. */
static void test_stopped_in_the_lock(size_t at) {
    struct qr_steps_log a, b;
    qr_steps_log_init(&a, folder);
    qr_steps_log_init(&b, folder);
    CHECK(unlink(path) == 0 || errno == ENOENT);
    for (size_t i = 0; i < at; i++) write_line(&a, i);
    int holder = open(path, O_RDWR);
    CHECK(flock(holder, LOCK_EX) == 0);
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    for (size_t i = at; i < n_lines; i++) write_line(&b, i);
    CHECK(t_in_time("lines while another process holds the lock",
                    qr_now_ns(&qr_clock_monotonic) - began_ns, 2 * QR_SECOND, T_MINUTE));
    check_file(n_lines, "the lock is held");
    struct qr_buf late = text_of(at, at + 1);
    /* The write of a worker that resumes after it read the end. */
    CHECK(pwrite(a.fd, late.p, late.n, a.end) == (ssize_t)late.n);
    close(holder);
    check_file(n_lines, "the late line is already written");
    for (size_t i = at; i < n_lines; i++) write_line(&a, i);
    check_file(n_lines, "after it resumes");
    qr_buf_free(&late);
    qr_steps_log_fini(&a);
    qr_steps_log_fini(&b);
}

/* A second worker takes over after line `at` and knows the last three lines. The file lacks
 * `missing` lines and ends with `torn` bytes of the next one. */
static void test_takes_over(size_t at, int missing, size_t torn) {
    struct qr_steps_log a, b;
    struct qr_err err;
    char what[80];
    qr_steps_log_init(&a, folder);
    qr_steps_log_init(&b, folder);
    CHECK(unlink(path) == 0 || errno == ENOENT);
    snprintf(what, sizeof what, "takes over at line %zu, %d missing, %zu bytes torn", at, missing,
             torn);
    CHECK(qr_steps_log_truncate(&a, &err) == QR_OK && qr_steps_log_truncate(&b, &err) == QR_OK,
          "%s", err.msg);
    for (size_t i = 0; i < at - (size_t)missing; i++) write_line(&a, i);
    if (torn) {
        struct qr_buf next = text_of(at - (size_t)missing, at - (size_t)missing + 1);
        int fd = open(path, O_WRONLY | O_APPEND);
        CHECK(write(fd, next.p, torn) == (ssize_t)torn);
        close(fd);
        qr_buf_free(&next);
    }
    for (size_t i = at; i < n_lines; i++) CHECK(write_line(&b, i) == (i == at), "%s", what);
    check_file(n_lines, what);
    /* The first worker resumes and writes the lines that it expects to be next. */
    for (size_t i = at - (size_t)missing; i < n_lines; i++) write_line(&a, i);
    check_file(n_lines, what);
    qr_steps_log_fini(&a);
    qr_steps_log_fini(&b);
}

/* A new run truncates the file of an earlier run, but keeps lines written since its start. */
static void test_fresh(void) {
    struct qr_steps_log a, b;
    struct qr_err err;
    struct qr_buf old = text_of(0, 9);
    write_file(&old, old.n);
    qr_steps_log_init(&a, folder);
    qr_steps_log_init(&b, folder);
    CHECK(qr_steps_log_truncate(&a, &err) == QR_OK);
    check_file(0, "a new run");
    write_line(&a, 0);
    CHECK(qr_steps_log_truncate(&b, &err) == QR_OK); /* It was stopped in between. */
    check_file(1, "a late start");
    qr_steps_log_fini(&a);
    qr_steps_log_fini(&b);
    qr_buf_free(&old);
}

/* The file of another run is replaced by the known lines. */
static void test_other_run(size_t lines_there, size_t at) {
    struct qr_steps_log l;
    qr_steps_log_init(&l, folder);
    make_lines(5);
    struct qr_buf old = text_of(0, lines_there);
    write_file(&old, old.n);
    make_lines(1);
    for (size_t i = at; i < n_lines; i++) write_line(&l, i);
    struct qr_buf want = text_of(at < 3 ? 0 : at - 3, n_lines), text = {0};
    struct qr_err err;
    CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK && text.n == want.n &&
              memcmp(text.p, want.p, want.n) == 0,
          "%zu lines of another run, at %zu:\n%s", lines_there, at, qr_buf_string(&text));
    qr_buf_free(&text);
    qr_buf_free(&want);
    qr_buf_free(&old);
    qr_steps_log_fini(&l);
}

static long long file_bytes(void) {
    struct stat st;
    return stat(path, &st) == 0 ? (long long)st.st_size : -1;
}
static long resident_max_kib(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

/* 100 MB follow the lines that a worker knows, which are found, or not, in one window of memory.
 * GROWTH_KIB is a window and what the C library and a sanitizer keep; the page cache does not
 * count. */
static void test_long_log(bool ours) {
    enum { N = 100000, BYTES = 1000, GROWTH_KIB = 4096 };
    struct qr_steps_log l;
    qr_steps_log_init(&l, folder);
    make_lines(ours ? 1 : 5);
    struct qr_buf begin = text_of(0, n_lines);
    make_lines(1);
    write_file(&begin, begin.n);
    FILE *f = fopen(path, "a");
    char filler[BYTES + 1];
    for (int i = 0; i < N; i++) {
        int n = snprintf(filler, sizeof filler, "{\"step\":%d,\"pad\":\"", STEPS + 1 + i);
        memset(filler + n, 'x', (size_t)(BYTES - n));
        memcpy(filler + BYTES - 3, "\"}\n", 3);
        fwrite(filler, 1, BYTES, f);
    }
    fclose(f);
    long long before = file_bytes();
    long resident = resident_max_kib();
    write_line(&l, 5);
    long grown = resident_max_kib() - resident;
    CHECK(l.tail.cap <= 2 * QR_STEPS_WINDOW_BYTES && grown <= GROWTH_KIB,
          "%zu bytes held, grown by %ld KiB", l.tail.cap, grown);
    if (ours)
        CHECK(file_bytes() == before, "an existing line: %lld bytes, %lld before", file_bytes(),
              before);
    else CHECK(file_bytes() > 0 && file_bytes() < BYTES, "another run's: %lld bytes", file_bytes());
    qr_steps_log_fini(&l);
    qr_buf_free(&begin);
}

/* The disk is full: lines are kept in order, even if another worker continues the file. */
static void test_no_room(void) {
    struct qr_steps_log l;
    struct qr_err err;
    struct rlimit was, none;
    bool continues;
    CHECK(unlink(path) == 0 || errno == ENOENT);
    signal(SIGXFSZ, SIG_IGN);
    qr_steps_log_init(&l, folder);
    for (size_t i = 0; i < 4; i++) write_line(&l, i);
    getrlimit(RLIMIT_FSIZE, &was);
    none = was;
    none.rlim_cur = (rlim_t)file_bytes() + 7;
    setrlimit(RLIMIT_FSIZE, &none);
    CHECK(qr_steps_log_write(&l, &line[4], &line[1], 3, &continues, &err) ==
                  QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, path),
          "%s", err.msg);
    check_file(4, "the partial line is removed");
    for (size_t i = 5; i < 10; i++)
        CHECK(qr_steps_log_write(&l, &line[i], &line[i - 3], 3, &continues, &err) == QR_OK,
              "not tried again: %s", err.msg);
    CHECK(qr_steps_log_n_pending(&l) == 6 && qr_steps_log_flush(&l, &err) == QR_RESOURCE_EXHAUSTED,
          "%zu lines pending", qr_steps_log_n_pending(&l));
    setrlimit(RLIMIT_FSIZE, &was);
    CHECK(qr_steps_log_flush(&l, &err) == QR_OK && qr_steps_log_n_pending(&l) == 0, "%s", err.msg);
    check_file(10, "pending lines");
    setrlimit(RLIMIT_FSIZE, &none);
    CHECK(qr_steps_log_write(&l, &line[10], &line[7], 3, &continues, &err) != QR_OK);
    setrlimit(RLIMIT_FSIZE, &was);
    struct qr_buf others = text_of(0, 13);
    write_file(&others, others.n);
    CHECK(qr_steps_log_write(&l, &line[11], &line[8], 3, &continues, &err) == QR_OK &&
              qr_steps_log_flush(&l, &err) == QR_OK,
          "%s", err.msg);
    check_file(13, "continued by another worker");
    for (size_t i = 12; i < n_lines; i++) write_line(&l, i);
    check_file(n_lines, "pending lines are written once");
    qr_buf_free(&others);
    qr_steps_log_fini(&l);
}

/* More lines than the buffer's limit: none is dropped, `full` is set, and with room all are
 * written. */
static void test_full(void) {
    struct qr_steps_log l;
    struct qr_err err;
    bool continues;
    qr_steps_log_init(&l, "/nowhere");
    struct qr_step_line many = line[0];
    uint64_t s = 0;
    while (!l.full && s < 1000000) {
        many.step = ++s;
        if (qr_steps_log_write(&l, &many, NULL, 0, &continues, &err) == QR_OK) continue;
    }
    CHECK(l.full && l.kept.n > QR_STEPS_KEPT_BYTES && qr_steps_log_n_pending(&l) == s &&
              strncmp((char *)l.kept.p, "{\"step\":1,", 10) == 0 && strstr(l.why.msg, "/nowhere"),
          "%zu bytes are kept", l.kept.n);
    free(l.path);
    l.path = qr_xstrdup(path);
    CHECK(unlink(path) == 0 || errno == ENOENT);
    CHECK(qr_steps_log_flush(&l, &err) == QR_OK && !l.full && !qr_steps_log_pending(&l), "%s",
          err.msg);
    CHECK(file_bytes() > QR_STEPS_KEPT_BYTES, "%lld bytes", file_bytes());
    unlink(path);
    qr_steps_log_fini(&l);
}

/* A checkpoint was published beyond the lines in the file (by an earlier version, or by a worker
 * that left while another could not write): the file continues, and the gap is recorded. */
static void test_lacks(size_t n_lines_there, size_t at, bool lacks) {
    struct qr_steps_log l;
    struct qr_err err;
    bool continues;
    make_lines(1);
    struct qr_buf old = text_of(0, n_lines_there);
    write_file(&old, old.n);
    qr_steps_log_init(&l, folder);
    CHECK(qr_steps_log_write(&l, &line[at], NULL, 0, &continues, &err) == QR_OK, "%s", err.msg);
    CHECK((l.lacks_before > 0) == lacks, "%zu lines, then line %zu: %llu", n_lines_there, at,
          (unsigned long long)l.lacks_before);
    CHECK(!lacks || (l.lacks_after / 2 == line[n_lines_there - 1].step &&
                     l.lacks_before / 2 == line[at].step),
          "%llu %llu", (unsigned long long)l.lacks_after, (unsigned long long)l.lacks_before);
    CHECK(file_bytes() > (long long)old.n, "earlier lines are kept");
    qr_buf_free(&old);
    qr_steps_log_fini(&l);
}

/* A leader that could not write is lost and the ring continues: existing lines are kept, unless the
 * file is of another run. began: 0 if the new leader saw the run begin, 1 if it resumed at the
 * file's end, 2 if it resumed later. */
static void test_lost_with_the_leader(int began) {
    struct qr_steps_log l;
    struct qr_err err;
    make_lines(1);
    struct qr_buf old = text_of(0, 5), want = text_of(0, 5), text = {0};
    if (began == 0) CHECK(unlink(path) == 0 || errno == ENOENT);
    else write_file(&old, old.n);
    qr_steps_log_init(&l, folder);
    if (began == 0) {
        CHECK(qr_steps_log_truncate(&l, &err) == QR_OK);
        write_file(&old, old.n);
    } else {
        qr_steps_log_resume(&l, began == 1 ? line[4].step : line[4].step + 1);
    }
    write_line(&l, 11);
    if (began == 2) qr_buf_clear(&want);
    for (size_t i = 8; i < 12; i++) qr_step_json(&line[i], &want);
    CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK && text.n == want.n &&
              memcmp(text.p, want.p, want.n) == 0,
          "%d:\n%s", began, qr_buf_string(&text));
    CHECK((l.lacks_before > 0) == (began < 2));
    qr_buf_free(&old);
    qr_buf_free(&want);
    qr_buf_free(&text);
    qr_steps_log_fini(&l);
}

/* A follower that leaves adds missing lines and never replaces the file. */
static void test_leaves(size_t n_lines_there, size_t at, bool reaches) {
    struct qr_steps_log l;
    struct qr_err err;
    make_lines(1);
    struct qr_buf old = text_of(0, n_lines_there);
    write_file(&old, old.n);
    qr_steps_log_init(&l, folder);
    enum qr_code code = qr_steps_log_write_leaving(&l, &line[at - 3], 4, &err);
    CHECK(code == (reaches ? QR_OK : QR_FAILED_PRECONDITION), "%zu, %zu: %s", n_lines_there, at,
          err.msg);
    check_file(!reaches || n_lines_there > at ? n_lines_there : at + 1, "a leaving worker");
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
    test_long_log(true);
    test_long_log(false);
    test_no_room();
    test_full();
    test_lacks(5, 5, false);
    test_lacks(5, 11, true);
    for (int began = 0; began < 3; began++) test_lost_with_the_leader(began);
    test_leaves(12, 9, true);
    test_leaves(10, 9, true);
    test_leaves(8, 9, true);
    test_leaves(6, 9, true);
    test_leaves(3, 9, false);
    test_stopped_in_the_lock(1);
    test_stopped_in_the_lock(7);
    /* The error names the file that cannot be written. */
    struct qr_steps_log l;
    struct qr_err err;
    bool continues;
    qr_steps_log_init(&l, "/nowhere");
    CHECK(qr_steps_log_write(&l, &line[0], NULL, 0, &continues, &err) == QR_NOT_FOUND &&
              strstr(err.msg, "/nowhere/steps.jsonl"),
          "%s", err.msg);
    qr_steps_log_fini(&l);
    unlink(path);
    rmdir(folder);
    return t_end();
}
