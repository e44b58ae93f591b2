/* One run per folder at a time: which processes share the lock, which are rejected, and stale
 * files. Two locks in one process are two open files. */
#include "tests/t.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "output/run_lock.h"

static char folder[] = "/tmp/qring-lock-XXXXXX";
static char path[64];
static const char *second = "second:2222";
static const struct qr_log quiet = {.level = QR_LOG_ERROR};

/* ring: the first worker, beside `second`; NULL: a single process. */
static enum qr_code lock_folder(const char *job, const char *ring, struct qr_run_lock *ret,
                                struct qr_err *err) {
    const char *const peers[] = {ring, second};
    const struct qr_run_lock_options opt = {.dir = folder,
                                            .job = job,
                                            .peers = peers,
                                            .n_peers = ring ? 2 : 0,
                                            .patience_ns = 20 * QR_MS,
                                            .log = &quiet};
    *ret = (struct qr_run_lock){0};
    *err = (struct qr_err){0};
    return qr_run_lock_take(&opt, ret, err);
}

static void test_alone(void) {
    struct qr_run_lock a, b;
    struct qr_err err;
    char pid[32], host[256] = "";
    snprintf(pid, sizeof pid, "process %ld ", (long)getpid());
    gethostname(host, sizeof host - 1);
    CHECK(lock_folder("job", NULL, &a, &err) == QR_OK && a.held, "%s", err.msg);
    static const struct {
        const char *job, *ring;
    } others[] = {{"job", NULL}, {"other", NULL}, {"job", "a:2222"}, {"job", "b:1"}};
    for (size_t i = 0; i < COUNT(others); i++) {
        CHECK(lock_folder(others[i].job, others[i].ring, &b, &err) == QR_INVALID_ARGUMENT &&
                  !b.held && !b.path,
              "%s", err.msg);
        CHECK(strstr(err.msg, folder) && strstr(err.msg, "in use by job job") &&
                  strstr(err.msg, pid) && strstr(err.msg, host) && strstr(err.msg, "--out"),
              "%s", err.msg);
    }
    CHECK(qr_file_exists(path));
    qr_run_lock_release(&a);
    CHECK(!qr_file_exists(path) && !a.held);
    qr_run_lock_release(&a); /* Releasing twice is allowed. */
}

static void test_shared(void) {
    struct qr_run_lock a, b, c, d;
    struct qr_err err;
    CHECK(lock_folder("job", "a:2222", &a, &err) == QR_OK &&
              lock_folder("job", "a:2222", &b, &err) == QR_OK,
          "%s", err.msg);
    CHECK(lock_folder("job", "b:2222", &c, &err) == QR_OK,
          "another first worker, the same second: %s", err.msg);
    qr_run_lock_release(&c);
    second = "other:2222";
    CHECK(lock_folder("job", "b:2222", &c, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "ring of a:2222"),
          "%s", err.msg);
    CHECK(lock_folder("other", "a:2222", &c, &err) == QR_INVALID_ARGUMENT, "%s", err.msg);
    CHECK(lock_folder("job", NULL, &c, &err) == QR_INVALID_ARGUMENT, "%s", err.msg);
    qr_run_lock_release(&a); /* The first process is gone; the ring continues. */
    CHECK(qr_file_exists(path) && lock_folder("job", "b:2222", &c, &err) == QR_INVALID_ARGUMENT,
          "%s", err.msg);
    CHECK(lock_folder("job", "a:2222", &d, &err) == QR_OK, "%s", err.msg);
    qr_run_lock_release(&b);
    qr_run_lock_release(&d);
    CHECK(!qr_file_exists(path));
}

/* Files left by a killed process: of this job or another, torn or foreign. Without a lock they are
 * ignored. */
static void test_stale_file(void) {
    static const char *const texts[] = {
        "", "{", "[1]", "{\"job\":\"x\",\"peers\":[],\"host\":\"h\",\"pid\":1}\n", "{\"pid\":-4}"};
    struct qr_run_lock a;
    struct qr_err err;
    for (size_t i = 0; i < COUNT(texts); i++) {
        CHECK(qr_file_replace(path, qr_bytes_of_string(texts[i]), &err) == QR_OK);
        CHECK(lock_folder("job", NULL, &a, &err) == QR_OK, "%s", err.msg);
        qr_run_lock_release(&a);
    }
}

/* Files of a process that holds the lock. */
static void test_held_by_another(void) {
    static const struct {
        const char *text, *words;
        enum qr_code code;
    } rows[] = {
        {"", "in use by another run", QR_INVALID_ARGUMENT},
        {"[1]", "in use by another run", QR_INVALID_ARGUMENT},
        {"{\"job\":\"x\",\"peers\":[],\"host\":\"no-such-host\",\"pid\":12}\n",
         "started by process 12 on host no-such-host", QR_UNAVAILABLE},
        {"{\"job\":\"job\",\"peers\":[],\"host\":\"\",\"pid\":12}\n", "in use by job job",
         QR_INVALID_ARGUMENT},
    };
    struct qr_run_lock a;
    struct qr_err err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK(qr_file_replace(path, qr_bytes_of_string(rows[i].text), &err) == QR_OK);
        qr_auto(qr_close_p) int fd = open(path, O_RDWR | O_CLOEXEC);
        struct flock f = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = 1};
        CHECK(fcntl(fd, F_OFD_SETLK, &f) == 0);
        CHECK(lock_folder("job", "b:1", &a, &err) == rows[i].code && strstr(err.msg, rows[i].words),
              "%s", err.msg);
        f.l_start = 0; /* A process that was stopped while it reads the file. */
        CHECK(fcntl(fd, F_OFD_SETLK, &f) == 0 &&
                  lock_folder("job", NULL, &a, &err) == QR_UNAVAILABLE &&
                  strstr(err.msg, "please retry"),
              "%s", err.msg);
    }
    unlink(path);
}

static void test_not_a_file(void) {
    struct qr_run_lock a;
    struct qr_err err;
    CHECK(symlink("elsewhere", path) == 0 &&
              lock_folder("job", NULL, &a, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "symbolic link"),
          "%s", err.msg);
    unlink(path);
    CHECK(mkfifo(path, 0600) == 0 && lock_folder("job", NULL, &a, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "FIFO"),
          "%s", err.msg);
    unlink(path);
}

int main(void) {
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/.qring.lock", folder);
    test_alone();
    test_shared();
    test_stale_file();
    test_held_by_another();
    test_not_a_file();
    CHECK(rmdir(folder) == 0, "the folder is not empty");
    return t_end();
}
