#include "worker/watchdog.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

/* they say more themselves of what breaks, and all takes longer */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SLOW = 1 };
#else
enum { SLOW = 0 };
#endif
enum {
    TICK_MS = 50,
    SHORT_BYTES = 16 << 20,
    MAIN_STACK_BYTES = 8 << 20,
    HANDLER_STACK_BYTES = 64 << 10
};

static atomic_int ticks_left, exit_code; /* 0 ticks: no watchdog */
static _Atomic(const char *) doing;

/* ---- what a handler may do ---- */

/* One line, in one write, unless whoever reads it does not. */
static void say(const char *a, const char *b, const char *c) {
    char line[300];
    size_t n = 0;
    const char *const parts[] = {"qring: ", a, b, c, "\n"};
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const char *s = parts[i]; *s && n < sizeof line; s++) line[n++] = *s;
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT)) (void)!write(STDERR_FILENO, line, n);
}

/* Does the system refuse what a library may have asked for? */
static bool memory_is_short(void) {
    void *p = mmap(NULL, SHORT_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return true;
    munmap(p, SHORT_BYTES);
    return false;
}

/* ---- the watchdog ---- */

static void on_tick(int number) {
    (void)number;
    int saved = errno, left = atomic_load(&ticks_left);
    while (left > 0 && !atomic_compare_exchange_weak(&ticks_left, &left, left - 1)) continue;
    if (left == 1) {
        say("this process is ended: something hangs ", atomic_load(&doing), "");
        _exit(atomic_load(&exit_code));
    }
    errno = saved;
}

static int ticks_of(int64_t ns) { return (int)((ns + TICK_MS * QR_MS - 1) / (TICK_MS * QR_MS)); }

void qr_watchdog_arm(int64_t bound_ns, int code, const char *what) {
    const struct timeval tick = {.tv_usec = TICK_MS * 1000};
    const struct itimerval on = {tick, tick}, off = {{0, 0}, {0, 0}};
    if (SLOW) bound_ns *= 10;
    atomic_store(&ticks_left, 0);
    atomic_store(&exit_code, code);
    atomic_store(&doing, what);
    atomic_store(&ticks_left, ticks_of(bound_ns));
    setitimer(ITIMER_REAL, bound_ns ? &on : &off, NULL);
}

void qr_watchdog_shorten(int64_t bound_ns) {
    if (SLOW) bound_ns *= 10;
    int most = ticks_of(bound_ns), left = atomic_load(&ticks_left);
    while (left > most && !atomic_compare_exchange_weak(&ticks_left, &left, most)) continue;
}

int qr_watchdog_signal(void) { return SIGALRM; }

/* ---- sudden ends ---- */

/* What was decided before a library broke stays; else the signal does what it always did, after
 * a line. */
static void on_fatal(int number) {
    const char *name = number == SIGABRT ? "SIGABRT" : "SIGSEGV";
    if (atomic_load(&ticks_left) > 0) {
        say(name, " in a library ", atomic_load(&doing));
        _exit(atomic_load(&exit_code));
    }
    signal(number, SIG_DFL);
    if (number == SIGABRT && qr_abort_reported()) return; /* and abort() goes on */
    if (!memory_is_short()) {
        say("ended by ", name,
            ", in a library or by a defect. Please report this with the lines before");
        raise(number); /* somebody else may have sent it: then nothing ends by itself */
        return;
    }
    say("out of memory (", name, " in a library that got none)");
    signal(SIGABRT, SIG_DFL);
    abort();
}

/* operator new has found no memory. */
static void on_new(void) {
    say("out of memory (", "a library in C++ got none", ")");
    qr_abort();
}

/* Where the C++ runtime is in this process at all, which only libraries need. */
static void handle_new(void) {
    typedef void (*handler)(void);
    handler (*set)(handler);
    *(void **)&set = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
    if (set) set(on_new);
}

static void handle(int number, void (*handler)(int), int flags) {
    struct sigaction a = {.sa_flags = flags};
    a.sa_handler = handler;
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

static void take_signals(void) {
    handle(SIGALRM, on_tick, SA_RESTART);
    handle_new();
    if (SLOW) return;
    /* the main thread's may be what has ended */
    static _Alignas(64) char stack[HANDLER_STACK_BYTES];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    handle(SIGABRT, on_fatal, SA_NODEFER);
    handle(SIGSEGV, on_fatal, SA_ONSTACK | SA_NODEFER);
}

/* ---- stacks ---- */

/* Threads get the limit that was there when the process began, or more. */
static void widen_threads(void) {
    pthread_attr_t a;
    size_t bytes;
    if (pthread_getattr_default_np(&a) != 0) return;
    if (pthread_attr_getstacksize(&a, &bytes) == 0 && bytes < (size_t)QR_WATCHDOG_STACK_BYTES &&
        pthread_attr_setstacksize(&a, (size_t)QR_WATCHDOG_STACK_BYTES) == 0)
        pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
}

static enum qr_code take_stack(struct qr_err *err) {
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) != 0) return QR_OK;
    if (r.rlim_max < (rlim_t)QR_WATCHDOG_STACK_BYTES)
        return qr_fail(err, QR_UNAVAILABLE,
                       "this process may have %llu bytes of stack, and wants %lld: raise the limit "
                       "(ulimit -s)",
                       (unsigned long long)r.rlim_max, (long long)QR_WATCHDOG_STACK_BYTES);
    if (r.rlim_cur >= (rlim_t)QR_WATCHDOG_STACK_BYTES) return QR_OK;
    r.rlim_cur = r.rlim_max < MAIN_STACK_BYTES ? r.rlim_max : MAIN_STACK_BYTES;
    setrlimit(RLIMIT_STACK, &r);
    return QR_OK;
}

enum qr_code qr_watchdog_install(struct qr_err *err) {
    take_signals();
    widen_threads();
    return take_stack(err);
}
