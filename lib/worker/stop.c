/* worker/stop.c — SIGTERM and SIGINT: the thread that handles them, and the time limits of the end.
 * Start reading at signal_thread(). */
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

static const char *const while_stopping = "after a request to stop";
static atomic_bool requested, short_grace;
static atomic_int exit_code = 143;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct qr_group *stop_group;
static struct qr_publisher *publisher;
static bool (*stop_look)(void *ctx);
static void *stop_look_ctx;

/* State of the end, once decided. Its lock is never held during a wait. */
static struct {
    pthread_mutex_t lock;
    bool decided, asked; /* asked: the watchdog was set by a stop request */
    int code;
    int64_t asked_ns; /* time limit of the present part after a stop request */
} end = {.lock = PTHREAD_MUTEX_INITIALIZER};

static sigset_t stop_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return set;
}

/* Waits; true: a signal came. */
static bool await_signal(int ms) {
    const struct timespec look = {.tv_nsec = ms * QR_MS};
    sigset_t set = stop_signals();
    /* Watchdog ticks interrupt the wait and make it shorter, so there are more waits. */
    bool came = sigtimedwait(&set, NULL, &look) > 0;
    qr_awake_pulse();
    return came;
}

static bool stop_is_ending(void) {
    pthread_mutex_lock(&end.lock);
    bool decided = end.decided;
    pthread_mutex_unlock(&end.lock);
    return decided;
}

/* Sets the watchdog while no exit code is decided; afterwards only shortens it. */
static void arm_stop_watchdog(int64_t bound_ns) {
    pthread_mutex_lock(&end.lock);
    end.asked = true;
    if (!end.decided) qr_watchdog_arm(bound_ns, atomic_load(&exit_code), while_stopping);
    else qr_watchdog_shorten(end.asked_ns);
    pthread_mutex_unlock(&end.lock);
}

/* Called with the lock held. */
static void interrupt_training(void) {
    if (stop_group) qr_group_interrupt(stop_group);
    qr_publisher_publish_now(publisher);
}

static void stop_call_look(void) {
    pthread_mutex_lock(&lock);
    if (stop_look && stop_look(stop_look_ctx)) interrupt_training();
    pthread_mutex_unlock(&lock);
}

static void request_stop(void) {
    arm_stop_watchdog(QR_STOP_ASK_NS);
    pthread_mutex_lock(&lock);
    interrupt_training();
    pthread_mutex_unlock(&lock);
    arm_stop_watchdog(QR_STOP_BOUND_NS + QR_STOP_PUBLISH_NS + QR_STOP_ASK_NS);
}

/* Waits until the process has begun to end by itself, the time is over, or a second signal comes.
 * True: the second signal. */
static bool await_second_signal(void) {
    int64_t began_ns = qr_now_ns(&qr_clock_awake);
    while (!stop_is_ending() &&
           qr_now_ns(&qr_clock_awake) - began_ns <
               (atomic_load(&short_grace) ? QR_STOP_SHORT_NS : QR_STOP_BOUND_NS))
        if (await_signal(LOOK_MS)) return true;
    return false;
}

static void *signal_thread(void *unused) {
    char words[80];
    sigset_t tick;
    (void)unused;
    sigemptyset(&tick);
    sigaddset(&tick, qr_watchdog_signal());
    pthread_sigmask(SIG_UNBLOCK, &tick, NULL);
    while (!await_signal(PULSE_MS)) stop_call_look();
    atomic_store(&requested, true);
    request_stop();
    bool twice = await_second_signal();
    while (stop_is_ending()) {
        if (twice) _exit(end.code);
        twice = await_signal(LOOK_MS);
    }
    pthread_mutex_lock(&lock); /* prevents freeing of the publisher */
    if (!twice) qr_publisher_wait(publisher, QR_STOP_PUBLISH_NS);
    qr_termination_log_drained(words, sizeof words);
    qr_termination_log(words);
    _exit(atomic_load(&exit_code));
}

enum qr_code qr_stop_start(struct qr_err *err) {
    sigset_t set = stop_signals();
    pthread_t thread;
    sigaddset(&set, qr_watchdog_signal());
    signal(SIGPIPE, SIG_IGN); /* the reader of the progress lines may have exited */
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    qr_awake_pulse();
    int sys = pthread_create(&thread, NULL, signal_thread, NULL);
    if (sys) {
        /* The main thread then gets the signals, with their default effect. */
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        return qr_fail_errno(err, sys, "start the thread for signals");
    }
    pthread_detach(thread);
    return QR_OK;
}

void qr_stop_bound(int64_t bound_ns, int code, const char *what) {
    pthread_mutex_lock(&end.lock);
    if (!end.decided && !end.asked) qr_watchdog_arm(bound_ns, code, what);
    pthread_mutex_unlock(&end.lock);
}

void qr_stop_begin_part(int code, const struct qr_stop_part *part) {
    pthread_mutex_lock(&end.lock);
    end.decided = true;
    end.code = code;
    end.asked_ns = part->asked_ns;
    qr_watchdog_arm(end.asked ? part->asked_ns : part->normal_ns, code, part->what);
    pthread_mutex_unlock(&end.lock);
}

void qr_stop_exit_code(int code) { atomic_store(&exit_code, code); }
void qr_stop_set_short(bool on) { atomic_store(&short_grace, on); }
bool qr_stop_requested(void) { return atomic_load(&requested); }

void qr_stop_set_look(bool (*look)(void *ctx), void *ctx) {
    pthread_mutex_lock(&lock);
    stop_look = look;
    stop_look_ctx = ctx;
    pthread_mutex_unlock(&lock);
}

void qr_stop_set_publisher(struct qr_publisher *p) {
    pthread_mutex_lock(&lock);
    publisher = p;
    if (atomic_load(&requested)) qr_publisher_publish_now(p);
    pthread_mutex_unlock(&lock);
}

void qr_stop_set_group(struct qr_group *group) {
    pthread_mutex_lock(&lock);
    stop_group = group;
    if (group && atomic_load(&requested)) qr_group_interrupt(group);
    pthread_mutex_unlock(&lock);
}
