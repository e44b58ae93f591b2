#include "worker/last_words.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/counter.h"

static char file[4096] = "/dev/termination-log";
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void qr_last_words_to(const char *path) {
    pthread_mutex_lock(&lock);
    if (path) snprintf(file, sizeof file, "%s", path);
    pthread_mutex_unlock(&lock);
}

void qr_last_words(const char *text) {
    pthread_mutex_lock(&lock);
    int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC); /* not O_CREAT: the file is the kubelet's */
    if (fd >= 0) {
        dprintf(fd, "%s\n", text);
        close(fd);
    }
    pthread_mutex_unlock(&lock);
}

void qr_last_words_drained(char *ret, size_t bytes) {
    long long step = (long long)qr_counter_value(QR_STEP), planned = (long long)qr_counter_value(QR_STEPS_PLANNED);
    if (step > 0) snprintf(ret, bytes, "step %lld of %lld: drained on SIGTERM", step, planned);
    else snprintf(ret, bytes, "before the first step: drained on SIGTERM");
}
