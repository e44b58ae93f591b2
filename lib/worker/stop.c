#include "worker/stop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "monitor/termination_log.h"
#include "worker/watchdog.h"

enum { LOOK_MS = 100, PULSE_MS = 500 };

static const char *const while_stopping = "after it was asked to stop";
static atomic_bool requested, hurry;
static atomic_int exit_code = 143;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_group *watched;
static struct qr_publisher *publisher;

/* The end, once it is decided. Nobody waits who holds its lock. */
static struct {
    pthread_mutex_t lock;
    bool is, asked; /* asked: the watchdog is that of a request */
    int code;
    int64_t asked_ns; /* for the part that is under way, when asked to stop */
} end = {.lock = PTHREAD_MUTEX_INITIALIZER};

static sigset_t stop_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

/* True when a signal came. */
static bool waited(int ms) {
    const struct timespec look = {.tv_nsec = ms * QR_MS};
    sigset_t set = stop_signals();
    /* interrupted by the watchdog's ticks: a short wait, so more of them */
    bool came = sigtimedwait(&set, NULL, &look) > 0;
    qr_awake_pulse();
    return came;
}

static bool is_ending(void) {
    pthread_mutex_lock(&end.lock);
    bool is = end.is;
    pthread_mutex_unlock(&end.lock);
    return is;
}

/* The watchdog while nothing is decided: then it is left alone. */
static void watch_stopping(int64_t bound_ns) {
    pthread_mutex_lock(&end.lock);
    end.asked = true;
    if (!end.is) qr_watchdog_arm(bound_ns, atomic_load(&exit_code), while_stopping);
    else qr_watchdog_shorten(end.asked_ns);
    pthread_mutex_unlock(&end.lock);
}

static void ask(void) {
    watch_stopping(QR_STOP_ASK_NS);
    pthread_mutex_lock(&lock);
    if (watched) qr_group_interrupt(watched);
    qr_publisher_publish_now(publisher);
    pthread_mutex_unlock(&lock);
    watch_stopping(QR_STOP_BOUND_NS + QR_STOP_PUBLISH_NS + QR_STOP_ASK_NS);
}

/* Until the process has begun to end by itself, a second signal has come, or the time is over.
 * True: the second signal. */
static bool asked_twice(void) {
    int64_t began_ns = qr_now_ns(&qr_clock_awake);
    while (!is_ending() && qr_now_ns(&qr_clock_awake) - began_ns <
                               (atomic_load(&hurry) ? QR_STOP_SHORT_NS : QR_STOP_BOUND_NS))
        if (waited(LOOK_MS)) return true;
    return false;
}

static void *wait_for_signals(void *unused) {
    char words[80];
    sigset_t tick;
    (void)unused;
    sigemptyset(&tick);
    sigaddset(&tick, qr_watchdog_signal());
    pthread_sigmask(SIG_UNBLOCK, &tick, NULL);
    while (!waited(PULSE_MS)) continue;
    atomic_store(&requested, true);
    ask();
    bool twice = asked_twice();
    while (is_ending()) {
        if (twice) _exit(end.code);
        twice = waited(LOOK_MS);
    }
    pthread_mutex_lock(&lock); /* nobody frees it now */
    if (!twice) qr_publisher_wait(publisher, QR_STOP_PUBLISH_NS);
    qr_termination_log_drained(words, sizeof words);
    qr_termination_log(words);
    _exit(atomic_load(&exit_code));
}

enum qr_code qr_stop_start(struct qr_err *err) {
    sigset_t set = stop_signals();
    pthread_t thread;
    sigaddset(&set, qr_watchdog_signal());
    signal(SIGPIPE, SIG_IGN); /* whoever read our progress may be gone */
    signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error of the write, as a full disk is */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    qr_awake_pulse();
    int sys = pthread_create(&thread, NULL, wait_for_signals, NULL);
    if (sys) {
        /* the main thread takes them then, as they come */
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        return qr_fail_errno(err, sys, "start the thread for signals");
    }
    pthread_detach(thread);
    return QR_OK;
}

void qr_stop_bound(int64_t bound_ns, int code, const char *what) {
    pthread_mutex_lock(&end.lock);
    if (!end.is && !end.asked) qr_watchdog_arm(bound_ns, code, what);
    pthread_mutex_unlock(&end.lock);
}

void qr_stop_begin_part(int code, const struct qr_stop_part *part) {
    pthread_mutex_lock(&end.lock);
    end.is = true;
    end.code = code;
    end.asked_ns = part->asked_ns;
    qr_watchdog_arm(end.asked ? part->asked_ns : part->calm_ns, code, part->what);
    pthread_mutex_unlock(&end.lock);
}

void qr_stop_exit_code(int code) { atomic_store(&exit_code, code); }
void qr_stop_set_short(bool on) { atomic_store(&hurry, on); }
bool qr_stop_requested(void) { return atomic_load(&requested); }

void qr_stop_set_publisher(struct qr_publisher *p) {
    pthread_mutex_lock(&lock);
    publisher = p;
    if (atomic_load(&requested)) qr_publisher_publish_now(p);
    pthread_mutex_unlock(&lock);
}

void qr_stop_set_group(struct qr_group *group) {
    pthread_mutex_lock(&lock);
    watched = group;
    if (group && atomic_load(&requested)) qr_group_interrupt(group);
    pthread_mutex_unlock(&lock);
}
