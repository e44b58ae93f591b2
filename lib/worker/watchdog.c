/* worker/watchdog.c — ends the process in time, with a message, whatever its libraries do. Start
 * reading at qr_watchdog_arm() and on_fatal_signal(). */
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

/* Sanitizers report errors themselves, and slow everything down. */
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

static atomic_int ticks_left, exit_code; /* 0 ticks: watchdog off */
static _Atomic(const char *) doing;

/* ---- allowed in a signal handler ---- */

/* Writes one line in one write, unless the reader blocks. */
static void watchdog_write_line(const char *a, const char *b, const char *c) {
    char line[300];
    size_t n = 0;
    const char *const parts[] = {"qring: ", a, b, c, "\n"};
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const char *s = parts[i]; *s && n < sizeof line; s++) line[n++] = *s;
    if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT)) (void)!write(STDERR_FILENO, line, n);
}

/* Checks whether the system refuses memory of a size that a library may have requested. */
static bool memory_is_short(void) {
    void *p = mmap(NULL, SHORT_BYTES, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return true;
    munmap(p, SHORT_BYTES);
    return false;
}

/* ---- the watchdog ---- */

static void on_watchdog_tick(int number) {
    (void)number;
    int saved = errno, left = atomic_load(&ticks_left);
    while (left > 0 && !atomic_compare_exchange_weak(&ticks_left, &left, left - 1)) continue;
    if (left == 1) {
        watchdog_write_line("exiting: a call hangs ", atomic_load(&doing), "");
        _exit(atomic_load(&exit_code));
    }
    errno = saved;
}

static int ticks_from_ns(int64_t ns) {
    return (int)((ns + TICK_MS * QR_MS - 1) / (TICK_MS * QR_MS));
}

void qr_watchdog_arm(int64_t bound_ns, int code, const char *what) {
    const struct timeval tick = {.tv_usec = TICK_MS * 1000};
    const struct itimerval on = {tick, tick}, off = {{0, 0}, {0, 0}};
    if (SLOW) bound_ns *= 10;
    atomic_store(&ticks_left, 0);
    atomic_store(&exit_code, code);
    atomic_store(&doing, what);
    atomic_store(&ticks_left, ticks_from_ns(bound_ns));
    setitimer(ITIMER_REAL, bound_ns ? &on : &off, NULL);
}

void qr_watchdog_shorten(int64_t bound_ns) {
    if (SLOW) bound_ns *= 10;
    int most = ticks_from_ns(bound_ns), left = atomic_load(&ticks_left);
    while (left > most && !atomic_compare_exchange_weak(&ticks_left, &left, most)) continue;
}

int qr_watchdog_signal(void) { return SIGALRM; }

/* ---- crashes ---- */

/* An exit code that was decided before the library failed stays; otherwise logs a line and keeps
 * the signal's default effect. */
static void on_fatal_signal(int number) {
    const char *name = number == SIGABRT ? "SIGABRT" : "SIGSEGV";
    if (atomic_load(&ticks_left) > 0) {
        watchdog_write_line(name, " in a library ", atomic_load(&doing));
        _exit(atomic_load(&exit_code));
    }
    signal(number, SIG_DFL);
    if (number == SIGABRT && qr_abort_reported()) return; /* abort() continues */
    if (!memory_is_short()) {
        watchdog_write_line(
            "ended by ", name,
            ", in a library or because of a bug. Please report this with the lines above");
        raise(number); /* Sent by another process, the signal would end nothing by itself. */
        return;
    }
    watchdog_write_line("out of memory (", name, " in a library that got none)");
    signal(SIGABRT, SIG_DFL);
    abort();
}

/* Called when operator new finds no memory. */
static void on_new_failure(void) {
    watchdog_write_line("out of memory (", "a library in C++ got none", ")");
    qr_abort();
}

/* Only if the C++ runtime is loaded, which only libraries need. */
static void install_new_handler(void) {
    typedef void (*handler)(void);
    handler (*set)(handler);
    *(void **)&set = dlsym(RTLD_DEFAULT, "_ZSt15set_new_handlerPFvvE");
    if (set) set(on_new_failure);
}

static void install_handler(int number, void (*handler)(int), int flags) {
    struct sigaction a = {.sa_flags = flags};
    a.sa_handler = handler;
    sigemptyset(&a.sa_mask);
    sigaction(number, &a, NULL);
}

static void install_handlers(void) {
    install_handler(SIGALRM, on_watchdog_tick, SA_RESTART);
    install_handler(SIGXFSZ, SIG_IGN, 0);
    install_new_handler();
    if (SLOW) return;
    /* The main thread's stack may be exhausted. */
    static _Alignas(64) char stack[HANDLER_STACK_BYTES];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&other, NULL);
    install_handler(SIGABRT, on_fatal_signal, SA_NODEFER);
    install_handler(SIGSEGV, on_fatal_signal, SA_ONSTACK | SA_NODEFER);
}

/* ---- stacks ---- */

/* Threads get at least the limit that held when the process started. */
static void raise_thread_stacks(void) {
    pthread_attr_t a;
    size_t bytes;
    if (pthread_getattr_default_np(&a) != 0) return;
    if (pthread_attr_getstacksize(&a, &bytes) == 0 && bytes < (size_t)QR_WATCHDOG_STACK_BYTES &&
        pthread_attr_setstacksize(&a, (size_t)QR_WATCHDOG_STACK_BYTES) == 0)
        pthread_setattr_default_np(&a);
    pthread_attr_destroy(&a);
}

static enum qr_code raise_stack_limit(struct qr_err *err) {
    struct rlimit r;
    if (getrlimit(RLIMIT_STACK, &r) != 0) return QR_OK;
    if (r.rlim_max < (rlim_t)QR_WATCHDOG_STACK_BYTES)
        return qr_fail(err, QR_UNAVAILABLE,
                       "cannot start: a stack of at most %llu bytes is allowed, %lld are needed; "
                       "raise the limit (ulimit -s)",
                       (unsigned long long)r.rlim_max, (long long)QR_WATCHDOG_STACK_BYTES);
    if (r.rlim_cur >= (rlim_t)QR_WATCHDOG_STACK_BYTES) return QR_OK;
    r.rlim_cur = r.rlim_max < MAIN_STACK_BYTES ? r.rlim_max : MAIN_STACK_BYTES;
    setrlimit(RLIMIT_STACK, &r);
    return QR_OK;
}

enum qr_code qr_watchdog_install(struct qr_err *err) {
    install_handlers();
    raise_thread_stacks();
    return raise_stack_limit(err);
}
