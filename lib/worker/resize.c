/* worker/resize.c — follows the limits of the pod while the worker runs: reads them, requests
 * another number of threads from the pool, and ends the worker when the memory limit gets too low.
 * The number is decided in worker/thread_count.c. Start reading at resize_look().
 */
#include <sys/resource.h>

#include "base/counter.h"
#include "base/mem.h"
#include "worker/stop.h"
#include "worker/worker_impl.h"

/* Without the peak of reading the data file, which is over. */
static uint64_t resize_bytes(const struct worker *w, unsigned n_threads) {
    struct qr_workload of = w->load;
    of.data.file_bytes = 0;
    of.n_threads = n_threads;
    return qr_workload_need(&of);
}

static int64_t resize_cpu_ns(void) {
    struct rusage u;
    if (getrusage(RUSAGE_SELF, &u) != 0) return 0;
    return (u.ru_utime.tv_sec + u.ru_stime.tv_sec) * QR_SECOND +
           (u.ru_utime.tv_usec + u.ru_stime.tv_usec) * QR_US;
}

static struct qr_pod_reading resize_read(const char **ret_memory_by) {
    struct qr_cgroup c;
    qr_cgroup_read_throttling("", &c);
    struct qr_pod_reading r = {.cpus = qr_cpu_limit_of(&c, NULL),
                               .throttling = c.throttling,
                               .cpu_ns = resize_cpu_ns(),
                               .memory_limit = qr_memory_limit_under("", ret_memory_by)};
    r.cpu_limit = c.cpus > 0 && c.cpus < r.cpus ? c.cpus : r.cpus;
    return r;
}

static void resize_count(struct worker_resize *z, const struct qr_pod_reading *r) {
    uint64_t before = z->count.last.throttling.throttled_ns;
    qr_gauge_real(QR_CPU_LIMIT, r->cpu_limit);
    if (r->throttling.throttled_ns > before)
        qr_count_time(QR_THROTTLED_TIME, (int64_t)(r->throttling.throttled_ns - before));
}

/* The training thread resizes the pool before its next micro-batch. */
static void resize_log(struct worker *w, struct worker_resize *z) {
    unsigned n = qr_pool_size(w->pool);
    if (n == z->n_logged) return;
    qr_info(&w->log, "worker", "changed threads from %u to %u: %s", z->n_logged, n,
            qr_buf_string(&z->reason));
    qr_gauge(QR_THREADS, n);
    z->n_logged = n;
}

/* Called twice a second on the signal thread. True: the worker must end. */
static bool resize_look(void *ctx) {
    struct worker *w = ctx;
    struct worker_resize *z = &w->resize;
    const char *memory_by;
    const struct qr_pod_reading r = resize_read(&memory_by);
    resize_count(z, &r);
    qr_thread_count_look(&z->count, &r, qr_now_ns(&qr_clock_monotonic));
    resize_log(w, z);
    if (z->count.n != qr_pool_requested(w->pool)) {
        qr_buf_clear(&z->reason);
        qr_thread_count_reason(&z->count, &z->reason);
        qr_pool_request(w->pool, z->count.n);
    }
    if (!z->count.memory_is_short || atomic_load(&z->refused)) return atomic_load(&z->refused);
    unsigned n = z->count.fixed ? z->count.fixed : 1;
    (void)qr_fail(&z->err, QR_UNAVAILABLE,
                  "cannot continue: job %s needs %llu bytes with %u thread%s, and the memory limit "
                  "is now %llu bytes (%s); raise the pod's memory limit",
                  w->job->name, (unsigned long long)qr_thread_count_bytes(&z->count, n), n,
                  n == 1 ? "" : "s", (unsigned long long)r.memory_limit, memory_by);
    atomic_store(&z->refused, true);
    return true;
}

void worker_follow_pod(struct worker *w) {
    struct worker_resize *z = &w->resize;
    uint64_t one = resize_bytes(w, 1), two = resize_bytes(w, 2);
    const struct qr_pod_reading r = resize_read(NULL);
    z->count.fixed = w->settings.threads > 0 ? (unsigned)w->settings.threads : 0;
    z->count.bytes_per_thread = two - one;
    z->count.bytes = one - z->count.bytes_per_thread;
    z->n_logged = qr_pool_size(w->pool);
    qr_gauge(QR_THREADS, z->n_logged);
    qr_gauge_real(QR_CPU_LIMIT, r.cpu_limit);
    qr_thread_count_look(&z->count, &r, qr_now_ns(&qr_clock_monotonic));
    qr_stop_set_look(resize_look, w);
}

bool worker_pod_refuses(const struct worker *w) { return atomic_load(&w->resize.refused); }

enum qr_code worker_pod_error(const struct worker *w, enum qr_code code, struct qr_err *err) {
    if (code != QR_CANCELLED || qr_stop_requested() || !worker_pod_refuses(w)) return code;
    *err = w->resize.err;
    return err->code;
}

void worker_unfollow_pod(struct worker *w) {
    qr_stop_set_look(NULL, NULL);
    qr_buf_free(&w->resize.reason);
}
