/* monitor/termination_log.c — writes the kubelet's termination file. Start reading at
 * qr_termination_log(). */
#include "monitor/termination_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counter.h"

static const char default_path[] = "/dev/termination-log";
static char target_path[4096] = "/dev/termination-log";
static bool from_untrusted_job;  /* only a job file names the target */
static struct stat last_written; /* the target after this process's last write */
static pthread_mutex_t termination_lock = PTHREAD_MUTEX_INITIALIZER;

void qr_termination_log_to(const char *path, bool from_job_file) {
    pthread_mutex_lock(&termination_lock);
    if (path) {
        snprintf(target_path, sizeof target_path, "%s", path);
        from_untrusted_job = from_job_file && strcmp(target_path, default_path) != 0;
    }
    pthread_mutex_unlock(&termination_lock);
}

/* True when no foreign content is lost: a regular file with one name that is empty, or as this
 * process left it. */
static bool termination_may_overwrite(const struct stat *st) {
    bool unchanged = st->st_dev == last_written.st_dev && st->st_ino == last_written.st_ino &&
                     st->st_size == last_written.st_size;
    return !from_untrusted_job ||
           (S_ISREG(st->st_mode) && st->st_nlink == 1 && (st->st_size == 0 || unchanged));
}

/* Checks without opening the target: the reader of a FIFO would see end-of-file. */
bool qr_termination_log_refused(void) {
    struct stat st;
    pthread_mutex_lock(&termination_lock);
    bool refused =
        from_untrusted_job && lstat(target_path, &st) == 0 && !termination_may_overwrite(&st);
    pthread_mutex_unlock(&termination_lock);
    return refused;
}

/* Returns -1 when there is no target, or it must not be overwritten. Not O_CREAT: the kubelet
 * creates the file. O_NONBLOCK: do not wait for the reader of a FIFO. */
static int termination_open(void) {
    struct stat st;
    int fd = open(target_path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
                                   (from_untrusted_job ? O_NOFOLLOW : 0));
    if (fd < 0 || (fstat(fd, &st) == 0 && termination_may_overwrite(&st))) return fd;
    close(fd);
    return -1;
}

void qr_termination_log(const char *text) {
    pthread_mutex_lock(&termination_lock);
    int fd = termination_open();
    if (fd >= 0) {
        bool device = fstat(fd, &last_written) == 0 &&
                      !S_ISREG(last_written.st_mode); /* cannot be truncated */
        if (ftruncate(fd, 0) == 0 || !from_untrusted_job)
            dprintf(fd, "%s%s", text, device ? "\n" : "");
        if (fstat(fd, &last_written) != 0) last_written = (struct stat){0};
        close(fd);
    }
    pthread_mutex_unlock(&termination_lock);
}

void qr_termination_log_drained(char *ret, size_t bytes) {
    long long step = (long long)qr_counter_value(QR_STEP),
              planned = (long long)qr_counter_value(QR_STEPS_PLANNED);
    if (qr_counter_value(QR_EVALUATOR))
        snprintf(ret, bytes, "evaluator, last evaluated step %lld: drained on SIGTERM",
                 (long long)qr_counter_value(QR_EVALUATED_STEP));
    else if (step > 0) snprintf(ret, bytes, "step %lld of %lld: drained on SIGTERM", step, planned);
    else snprintf(ret, bytes, "before the first step: drained on SIGTERM");
}
