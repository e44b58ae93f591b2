/* steps.jsonl: whoever writes, torn, ahead, behind, of another run: each line once. */
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
static void put(const struct qr_buf *b, size_t n) {
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
/* As train tells it: with up to three lines before. */
static bool tell(struct qr_steps_log *l, size_t i) {
    struct qr_err err;
    bool continues = false;
    size_t n = i < 3 ? i : 3;
    CHECK(qr_steps_log_write(l, &line[i], &line[i - n], n, &continues, &err) == QR_OK, "%s",
          err.msg);
    return continues;
}

/* A worker is stopped in the lock (its lock is ours here), others go on without it; then it wakes
 * where it was: before its line, or before its look at the end. */
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
    CHECK(t_in_time("lines while another holds the lock", qr_now_ns(&qr_clock_monotonic) - began_ns,
                    2 * QR_SECOND, T_MINUTE));
    check_file(n_lines, "the lock is held");
    struct qr_buf late = text_of(at, at + 1);
    /* what it does when it wakes after its look */
    CHECK(pwrite(a.fd, late.p, late.n, a.end) == (ssize_t)late.n);
    close(holder);
    check_file(n_lines, "the late line is there already");
    for (size_t i = at; i < n_lines; i++) tell(&a, i);
    check_file(n_lines, "it goes on");
    qr_buf_free(&late);
    qr_steps_log_fini(&a);
    qr_steps_log_fini(&b);
}

/* A second worker takes over behind line `at`, of which it knows the last three; the file ends with
 * `there` bytes more or less than it says. */
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
    CHECK(qr_steps_log_truncate(&a, &err) == QR_OK);
    check_file(0, "a new run");
    tell(&a, 0);
    CHECK(qr_steps_log_truncate(&b, &err) == QR_OK); /* it was stopped in between */
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

/* 100 MB behind the lines that a worker knows: found, or not, in one window of memory. Lines of
 * 1000 bytes; growth: a window, the page cache is none of it, and what the C library and a
 * sanitizer keep. */
static void test_long_log(bool ours) {
    enum { N = 100000, BYTES = 1000, GROWTH_KIB = 4096 };
    struct qr_steps_log l;
    qr_steps_log_init(&l, folder);
    make_lines(ours ? 1 : 5);
    struct qr_buf begin = text_of(0, n_lines);
    make_lines(1);
    put(&begin, begin.n);
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
    tell(&l, 5);
    long grown = resident_max_kib() - resident;
    CHECK(l.tail.cap <= 2 * QR_STEPS_WINDOW_BYTES && grown <= GROWTH_KIB,
          "%zu bytes held, grown by %ld KiB", l.tail.cap, grown);
    if (ours)
        CHECK(file_bytes() == before, "a line that is there: %lld bytes, %lld before", file_bytes(),
              before);
    else CHECK(file_bytes() > 0 && file_bytes() < BYTES, "another run's: %lld bytes", file_bytes());
    qr_steps_log_fini(&l);
    qr_buf_free(&begin);
}

/* A file that takes no more: the lines wait, in order, also those of a file that another has gone
 * on with. */
static void test_no_room(void) {
    struct qr_steps_log l;
    struct qr_err err;
    struct rlimit was, none;
    bool continues;
    CHECK(unlink(path) == 0 || errno == ENOENT);
    signal(SIGXFSZ, SIG_IGN);
    qr_steps_log_init(&l, folder);
    for (size_t i = 0; i < 4; i++) tell(&l, i);
    getrlimit(RLIMIT_FSIZE, &was);
    none = was;
    none.rlim_cur = (rlim_t)file_bytes() + 7;
    setrlimit(RLIMIT_FSIZE, &none);
    CHECK(qr_steps_log_write(&l, &line[4], &line[1], 3, &continues, &err) ==
                  QR_RESOURCE_EXHAUSTED &&
              strstr(err.msg, path),
          "%s", err.msg);
    check_file(4, "half a line is taken back");
    for (size_t i = 5; i < 10; i++)
        CHECK(qr_steps_log_write(&l, &line[i], &line[i - 3], 3, &continues, &err) == QR_OK,
              "not tried: %s", err.msg);
    CHECK(qr_steps_log_n_pending(&l) == 6 && qr_steps_log_flush(&l, &err) == QR_RESOURCE_EXHAUSTED,
          "%zu lines wait", qr_steps_log_n_pending(&l));
    setrlimit(RLIMIT_FSIZE, &was);
    CHECK(qr_steps_log_flush(&l, &err) == QR_OK && qr_steps_log_n_pending(&l) == 0, "%s", err.msg);
    check_file(10, "what has waited");
    setrlimit(RLIMIT_FSIZE, &none);
    CHECK(qr_steps_log_write(&l, &line[10], &line[7], 3, &continues, &err) != QR_OK);
    setrlimit(RLIMIT_FSIZE, &was);
    struct qr_buf others = text_of(0, 13);
    put(&others, others.n);
    CHECK(qr_steps_log_write(&l, &line[11], &line[8], 3, &continues, &err) == QR_OK &&
              qr_steps_log_flush(&l, &err) == QR_OK,
          "%s", err.msg);
    check_file(13, "another has gone on");
    for (size_t i = 12; i < n_lines; i++) tell(&l, i);
    check_file(n_lines, "and what has waited is there once");
    qr_buf_free(&others);
    qr_steps_log_fini(&l);
}

/* More than may be kept: none is given up, and that is known; with room all are written. */
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

/* A checkpoint was published beyond the lines that are there (by an earlier version, or a worker
 * that left while another could not write): the file goes on, and what it lacks is known. */
static void test_lacks(size_t there, size_t at, bool lacks) {
    struct qr_steps_log l;
    struct qr_err err;
    bool continues;
    make_lines(1);
    struct qr_buf old = text_of(0, there);
    put(&old, old.n);
    qr_steps_log_init(&l, folder);
    CHECK(qr_steps_log_write(&l, &line[at], NULL, 0, &continues, &err) == QR_OK, "%s", err.msg);
    CHECK((l.lacks_before > 0) == lacks, "%zu lines, then line %zu: %llu", there, at,
          (unsigned long long)l.lacks_before);
    CHECK(!lacks ||
              (l.lacks_after / 2 == line[there - 1].step && l.lacks_before / 2 == line[at].step),
          "%llu %llu", (unsigned long long)l.lacks_after, (unsigned long long)l.lacks_before);
    CHECK(file_bytes() > (long long)old.n, "the lines before stay");
    qr_buf_free(&old);
    qr_steps_log_fini(&l);
}

/* A leader that could not write is lost, and the ring trains on: what is there stays. Of another
 * run's file it does not. began: the new leader saw the run begin, or go on from a checkpoint. */
static void test_lost_with_the_leader(int began) {
    struct qr_steps_log l;
    struct qr_err err;
    make_lines(1);
    struct qr_buf old = text_of(0, 5), want = text_of(0, 5), text = {0};
    if (began == 0) CHECK(unlink(path) == 0 || errno == ENOENT);
    else put(&old, old.n);
    qr_steps_log_init(&l, folder);
    if (began == 0) {
        CHECK(qr_steps_log_truncate(&l, &err) == QR_OK);
        put(&old, old.n);
    } else {
        qr_steps_log_resume(&l, began == 1 ? line[4].step : line[4].step + 1);
    }
    tell(&l, 11);
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

/* A worker that leaves without leading adds what is missing, and does not begin the file anew. */
static void test_leaves(size_t there, size_t at, bool reaches) {
    struct qr_steps_log l;
    struct qr_err err;
    make_lines(1);
    struct qr_buf old = text_of(0, there);
    put(&old, old.n);
    qr_steps_log_init(&l, folder);
    enum qr_code code = qr_steps_log_write_leaving(&l, &line[at - 3], 4, &err);
    CHECK(code == (reaches ? QR_OK : QR_FAILED_PRECONDITION), "%zu, %zu: %s", there, at, err.msg);
    check_file(!reaches || there > at ? there : at + 1, "who leaves");
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
    /* a file that cannot be written is named */
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
