/* The evaluator's curve: one writer at a time, a full disk, a link, a file longer than the window
 * that is read. */
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "evaluator/curve.h"
#include "tests/support/evaluator_world.h"

static struct trained_run run;
static struct world w;
static struct qr_err err;

static void test_curve(void) {
    world_init(&w, &run);
    curve_delete(&run);
    world_act(&w, DONE, END(5));
    qr_auto(qr_free_p) char *path = curve_path(&run);
    /* Another evaluator has the lock. */
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && flock(fd, LOCK_EX) == 0);
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 0}) == QR_UNAVAILABLE &&
              strstr(err.msg, "evaluation.jsonl: another evaluator is writing it"),
          "%s", err.msg);
    CHECK(w.now_ns >= QR_SECOND && w.n_shown == 0);
    close(fd);
    /* A full disk: a partial line is removed. */
    struct rlimit was, few;
    CHECK(getrlimit(RLIMIT_FSIZE, &was) == 0);
    few = (struct rlimit){100, was.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    CHECK(setrlimit(RLIMIT_FSIZE, &few) == 0);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) != QR_OK && strstr(err.msg, "evaluation.jsonl"), "%s",
          err.msg);
    struct stat st;
    CHECK(stat(path, &st) == 0 && st.st_size == 0, "%lld", (long long)st.st_size);
    CHECK(setrlimit(RLIMIT_FSIZE, &was) == 0);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK, "%s", err.msg);
    CURVE("disk space again", 5);
    /* The curve is not written through a link. */
    curve_delete(&run);
    CHECK(symlink("/dev/null", path) == 0);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) != QR_OK && strstr(err.msg, "evaluation.jsonl"), "%s",
          err.msg);
    curve_delete(&run);
    /* A file longer than the window. */
    struct qr_buf long_one = {0};
    for (int i = 1; i < 2000; i++)
        qr_buf_printf(&long_one, "{\"step\":%d,\"loss\":0.25,\"job_hash\":\"%.16s\"}\n", i,
                      run.canonical.hex);
    curve_write(&run, qr_buf_string(&long_one));
    struct qr_curve c = {0};
    CHECK(long_one.n > QR_CURVE_WINDOW_BYTES &&
              qr_curve_open(run.dir, run.canonical.hex, false, world_sleep, &w, &c, &err) ==
                  QR_OK &&
              c.step == 1999 && !c.other && c.end == (long long)long_one.n,
          "%s", err.msg);
    qr_curve_close(&c);
    memset(long_one.p, 'x', long_one.n);
    curve_write(&run, qr_buf_string(&long_one));
    CHECK(qr_curve_open(run.dir, run.canonical.hex, false, world_sleep, &w, &c, &err) ==
          QR_INVALID_ARGUMENT);
    qr_buf_free(&long_one);
    curve_delete(&run);
    world_fini(&w);
}

int main(void) {
    if (!trained_run_init(&run)) return t_end();
    test_curve();
    trained_run_fini(&run);
    return t_end();
}
