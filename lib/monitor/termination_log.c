#include "monitor/termination_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/counter.h"

static const char kubelets[] = "/dev/termination-log";
static char file[4096] = "/dev/termination-log";
static bool only_empty;   /* a job file named it */
static struct stat wrote; /* what this process left there */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void qr_termination_log_to(const char *path, bool from_job_file) {
    pthread_mutex_lock(&lock);
    if (path) {
        snprintf(file, sizeof file, "%s", path);
        only_empty = from_job_file && strcmp(file, kubelets) != 0;
    }
    pthread_mutex_unlock(&lock);
}

/* Nobody's content is lost: an ordinary file of one name that is empty, or as this process
 * left it. */
static bool may_replace(const struct stat *st) {
    bool ours =
        st->st_dev == wrote.st_dev && st->st_ino == wrote.st_ino && st->st_size == wrote.st_size;
    return !only_empty || (S_ISREG(st->st_mode) && st->st_nlink == 1 && (st->st_size == 0 || ours));
}

/* Looks without opening: who reads from a FIFO would take that for the end. */
bool qr_termination_log_refused(void) {
    struct stat st;
    pthread_mutex_lock(&lock);
    bool refused = only_empty && lstat(file, &st) == 0 && !may_replace(&st);
    pthread_mutex_unlock(&lock);
    return refused;
}

/* -1: there is none, or it is not for us. Not O_CREAT: the file is the kubelet's. A FIFO without a
 * reader is not waited for. */
static int open_file(void) {
    struct stat st;
    int fd =
        open(file, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (only_empty ? O_NOFOLLOW : 0));
    if (fd < 0 || (fstat(fd, &st) == 0 && may_replace(&st))) return fd;
    close(fd);
    return -1;
}

void qr_termination_log(const char *text) {
    pthread_mutex_lock(&lock);
    int fd = open_file();
    if (fd >= 0) {
        bool device = fstat(fd, &wrote) == 0 && !S_ISREG(wrote.st_mode); /* cannot be cut */
        if (ftruncate(fd, 0) == 0 || !only_empty) dprintf(fd, "%s%s", text, device ? "\n" : "");
        if (fstat(fd, &wrote) != 0) wrote = (struct stat){0};
        close(fd);
    }
    pthread_mutex_unlock(&lock);
}

void qr_termination_log_drained(char *ret, size_t bytes) {
    long long step = (long long)qr_counter_value(QR_STEP),
              planned = (long long)qr_counter_value(QR_STEPS_PLANNED);
    if (qr_counter_value(QR_EVALUATOR))
        snprintf(ret, bytes, "evaluator, step %lld is in its curve: drained on SIGTERM",
                 (long long)qr_counter_value(QR_EVALUATED_STEP));
    else if (step > 0) snprintf(ret, bytes, "step %lld of %lld: drained on SIGTERM", step, planned);
    else snprintf(ret, bytes, "before the first step: drained on SIGTERM");
}
