/* base/span.c — each thread appends its spans to a lane of its own; a capture collects all lanes.
 * Start reading at qr_span_put(). */
#include "base/span.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define ROW(id, text, statistic) [id] = {text, statistic},
const struct qr_span_row qr_span_rows[QR_SPAN_KINDS] = {QR_SPAN_ROWS(ROW)};
#undef ROW

/* One for each thread that recorded a span in any capture. Its lock is taken by that thread for
 * each span, and by the thread that starts or stops a capture. */
struct span_lane {
    struct span_lane *next;
    pthread_mutex_t lock;
    int64_t since_ns; /* start of the capture; 0: none is running */
    struct qr_span_thread thread;
    size_t cap;
};

_Atomic bool qr_spans_on;
/* Taken before a lane's lock. Guards the next five variables. */
static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct span_lane *lanes;
static size_t n_lanes;
static bool capture_running;
static int64_t capture_since_ns, capture_since_wall_ns;
static atomic_size_t n_spans;
static _Atomic uint64_t n_lost;
static _Thread_local struct span_lane *thread_lane;

int64_t qr_span_now_ns(void) { return qr_now_ns(&qr_clock_monotonic); }

/* Returns the calling thread's lane, created at its first span; NULL: there are too many. */
static struct span_lane *span_thread_lane(void) {
    if (thread_lane) return thread_lane;
    pthread_mutex_lock(&capture_lock);
    struct span_lane *l = n_lanes < QR_SPAN_THREADS_MAX ? qr_xcalloc(1, sizeof *l) : NULL;
    if (l) {
        pthread_mutex_init(&l->lock, NULL);
        l->thread.id = gettid();
        if (pthread_getname_np(pthread_self(), l->thread.name, sizeof l->thread.name) != 0)
            *l->thread.name = '\0';
        l->since_ns = capture_running ? capture_since_ns : 0;
        l->next = lanes;
        lanes = l;
        n_lanes++;
    }
    pthread_mutex_unlock(&capture_lock);
    return thread_lane = l;
}

/* Makes space for one more span. Called with the lane's lock held. */
static bool span_grow_lane(struct span_lane *l) {
    if (l->thread.n < l->cap) return true;
    size_t cap = l->cap ? 2 * l->cap : 64;
    void *p = reallocarray(l->thread.spans, cap, sizeof *l->thread.spans);
    if (!p) return false;
    l->thread.spans = p;
    l->cap = cap;
    return true;
}

void qr_span_put(int64_t begin_ns, enum qr_span_kind kind, const char *name, uint64_t number) {
    int64_t end_ns = qr_span_now_ns();
    struct span_lane *l = span_thread_lane();
    if (!l) {
        atomic_fetch_add(&n_lost, 1);
        return;
    }
    pthread_mutex_lock(&l->lock);
    if (l->since_ns && begin_ns >= l->since_ns) {
        if (atomic_fetch_add(&n_spans, 1) < QR_SPANS_MAX && span_grow_lane(l))
            l->thread.spans[l->thread.n++] = (struct qr_span){begin_ns, end_ns, name, number, kind};
        else atomic_fetch_add(&n_lost, 1);
    }
    pthread_mutex_unlock(&l->lock);
}

bool qr_spans_start(void) {
    pthread_mutex_lock(&capture_lock);
    bool starts = !capture_running;
    if (starts) {
        capture_running = true;
        atomic_store(&n_spans, 0);
        atomic_store(&n_lost, 0);
        capture_since_wall_ns = qr_now_ns(&qr_clock_wall);
        capture_since_ns = qr_span_now_ns();
        for (struct span_lane *l = lanes; l; l = l->next) {
            pthread_mutex_lock(&l->lock);
            l->since_ns = capture_since_ns;
            pthread_mutex_unlock(&l->lock);
        }
        atomic_store_explicit(&qr_spans_on, true, memory_order_relaxed);
    }
    pthread_mutex_unlock(&capture_lock);
    return starts;
}

void qr_spans_stop(struct qr_spans *ret) {
    pthread_mutex_lock(&capture_lock);
    QR_ASSERT(capture_running);
    atomic_store_explicit(&qr_spans_on, false, memory_order_relaxed);
    *ret = (struct qr_spans){.begin_ns = capture_since_ns,
                             .begin_wall_ns = capture_since_wall_ns,
                             .threads = qr_xcalloc(n_lanes + 1, sizeof *ret->threads)};
    for (struct span_lane *l = lanes; l; l = l->next) {
        pthread_mutex_lock(&l->lock);
        l->since_ns = 0;
        if (l->thread.n) ret->threads[ret->n_threads++] = l->thread;
        else free(l->thread.spans);
        l->thread.spans = NULL;
        l->thread.n = l->cap = 0;
        pthread_mutex_unlock(&l->lock);
    }
    ret->end_ns = qr_span_now_ns();
    ret->n_lost = atomic_load(&n_lost);
    capture_running = false;
    pthread_mutex_unlock(&capture_lock);
}

void qr_spans_fini(struct qr_spans *s) {
    for (size_t i = 0; i < s->n_threads; i++) free(s->threads[i].spans);
    free(s->threads);
    *s = (struct qr_spans){0};
}
