/* worker/limits.c — limits of descriptors and threads, checked before gRPC needs them. Start
 * reading at qr_limits_raise(). */
#include "worker/limits.h"

#include <pthread.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/pool.h"

enum {
    LEAST_THREADS = 24 /* gRPC's for two links, this program's, and a few that compute */
};

static void *wait_at_gate(void *gate) {
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

/* No single number limits threads: the user's limit, the cgroup and memory all do. Starts them all
 * at once, then ends them. */
static enum qr_code try_threads(struct qr_err *err) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread[LEAST_THREADS];
    int n = 0, sys = 0;
    pthread_mutex_lock(&gate);
    while (n < LEAST_THREADS && (sys = pthread_create(&thread[n], NULL, wait_at_gate, &gate)) == 0)
        n++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < n; i++) pthread_join(thread[i], NULL);
    if (n == LEAST_THREADS) return QR_OK;
    struct rlimit r;
    /* Thread stacks count towards it. */
    bool space = getrlimit(RLIMIT_AS, &r) == 0 && r.rlim_cur != RLIM_INFINITY;
    return qr_fail_errno(err, sys,
                         "cannot start: only %d more threads are allowed, a worker needs %d; raise "
                         "the limit (ulimit -u, the pod's pids%s)",
                         n, (int)LEAST_THREADS, space ? ", ulimit -v" : "");
}

enum qr_code qr_limits_raise(struct qr_err *err) {
    QR_TRY(qr_open_files_raise(err));
    return try_threads(err);
}

void qr_limits_text(unsigned n_threads, bool as_set, struct qr_buf *ret) {
    const char *threads_by, *memory_by;
    uint64_t bytes = qr_memory_limit_under("", &memory_by);
    (void)qr_cpu_limit_under("", &threads_by);
    qr_buf_printf(ret, "%u thread%s (%s), %.1f MiB of memory (%s)", n_threads,
                  n_threads == 1 ? "" : "s", as_set ? "as set" : threads_by,
                  (double)bytes / 1048576, memory_by);
}
