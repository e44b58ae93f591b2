#include "worker/stop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static atomic_bool requested;
static atomic_int exit_code = 143;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_group *watched;

static sigset_t stop_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

static void *wait_for_signals(void *unused) {
    const struct timespec bound = {.tv_sec = (time_t)(QR_STOP_BOUND_NS / QR_SECOND)};
    sigset_t set = stop_signals();
    int signal_number;
    (void)unused;
    while (sigwait(&set, &signal_number) != 0) continue;
    atomic_store(&requested, true);
    pthread_mutex_lock(&lock);
    if (watched) qr_group_interrupt(watched);
    pthread_mutex_unlock(&lock);
    while (sigtimedwait(&set, NULL, &bound) < 0 && errno == EINTR) continue;
    _exit(atomic_load(&exit_code));
}

void qr_stop_start(void) {
    sigset_t set = stop_signals();
    pthread_t thread;
    signal(SIGPIPE, SIG_IGN); /* whoever read our progress may be gone */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, wait_for_signals, NULL) != 0) abort();
    pthread_detach(thread);
}

void qr_stop_exit_code(int code) { atomic_store(&exit_code, code); }
bool qr_stop_requested(void) { return atomic_load(&requested); }

void qr_stop_watch(struct qr_group *group) {
    pthread_mutex_lock(&lock);
    watched = group;
    if (group && atomic_load(&requested)) qr_group_interrupt(group);
    pthread_mutex_unlock(&lock);
}
