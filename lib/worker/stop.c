#include "worker/stop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "worker/last_words.h"

enum { LOOK_MS = 100 };

static atomic_bool requested, hurry;
static atomic_int exit_code = 143;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_group *watched;
static struct qr_publisher *publisher;

static sigset_t stop_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

static void *wait_for_signals(void *unused) {
    const struct timespec look = {.tv_nsec = LOOK_MS * QR_MS};
    char words[80];
    sigset_t set = stop_signals();
    int signal_number;
    bool twice = false;
    (void)unused;
    while (sigwait(&set, &signal_number) != 0) continue;
    atomic_store(&requested, true);
    pthread_mutex_lock(&lock);
    if (watched) qr_group_interrupt(watched);
    qr_publisher_hurry(publisher);
    pthread_mutex_unlock(&lock);
    for (int64_t waited_ns = 0; waited_ns < (atomic_load(&hurry) ? QR_STOP_HURRY_NS : QR_STOP_BOUND_NS); waited_ns += LOOK_MS * QR_MS) {
        int again;
        while ((again = sigtimedwait(&set, NULL, &look)) < 0 && errno == EINTR) continue;
        if ((twice = again > 0)) break;
    }
    pthread_mutex_lock(&lock); /* nobody frees it now */
    if (!twice) qr_publisher_await(publisher, QR_STOP_PUBLISH_NS);
    qr_last_words_drained(words, sizeof words);
    qr_last_words(words);
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
void qr_stop_hurry(bool on) { atomic_store(&hurry, on); }
bool qr_stop_requested(void) { return atomic_load(&requested); }

void qr_stop_publish(struct qr_publisher *p) {
    pthread_mutex_lock(&lock);
    publisher = p;
    if (atomic_load(&requested)) qr_publisher_hurry(p);
    pthread_mutex_unlock(&lock);
}

void qr_stop_watch(struct qr_group *group) {
    pthread_mutex_lock(&lock);
    watched = group;
    if (group && atomic_load(&requested)) qr_group_interrupt(group);
    pthread_mutex_unlock(&lock);
}
