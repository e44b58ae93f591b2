/* Libraries that break for one process: preloaded into qringd.
 *   QR_NO_THREADS=N      pthread_create fails with EAGAIN from the Nth on; =/FILE: while that
 *                        file exists
 *   QR_AT_SHUTDOWN=HOW   gRPC's last call does not return ("hangs"), or aborts ("aborts"), or
 *                        touches what is not there ("faults")
 * Without them nothing changes. */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "tests/real.h"

int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr,
                   void *(*body)(void *), void *restrict arg) {
    REAL(pthread_create);
    static atomic_int made;
    const char *when = getenv("QR_NO_THREADS");
    int nth = atomic_fetch_add(&made, 1) + 1;
    bool none = when && (*when == '/' ? access(when, F_OK) == 0 : nth >= atoi(when));
    return none ? EAGAIN : real(thread, attr, body, arg);
}

void grpc_shutdown_blocking(void);
void grpc_shutdown_blocking(void) {
    REAL(grpc_shutdown_blocking);
    const char *how = getenv("QR_AT_SHUTDOWN");
    while (how && strcmp(how, "hangs") == 0) pause();
    if (how && strcmp(how, "aborts") == 0) abort();
    if (how && strcmp(how, "faults") == 0) raise(SIGSEGV);
    real();
}
