/* base/pool.c — the thread pool: loops form a stack, and idle threads help in the newest loop with
 * indices left. Start reading at qr_pool_for(). */
#include "base/pool.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/number_env.h"

/* To block and to wake up takes about as long. The loops of a gradient follow each other more
 * closely, so threads look for the next one for this time before they block. */
#define SPIN_NS 50000

/* A loop in progress, on the stack of its caller. */
struct pool_loop {
    qr_pool_task_fn task;
    void *ctx;
    size_t n;
    atomic_size_t next;
    struct pool_loop *older; /* guarded by the pool's lock, as is helpers */
    unsigned helpers;        /* threads in this loop, besides the caller */
    bool inner;              /* called by a task of another loop */
};

struct pool_thread {
    pthread_t thread;
    bool asleep, kept_off;
};

struct qr_pool {
    atomic_uint requested;
    atomic_uint changes; /* broadcasts of work and done, for threads that spin */
    /* Written by the owner between loops, with the lock held: */
    atomic_uint size;
    cpu_set_t cpus;              /* affinity of the pool's owner; empty: unknown */
    struct pool_thread *threads; /* size - 1; all but thread is guarded by lock */
    pthread_mutex_t lock;
    /* work: a loop began. done, for waiting callers: the last helper left a loop, or an inner loop
     * began. */
    pthread_cond_t work, done;
    /* Guarded by lock: */
    struct pool_loop *newest;
};

struct pool_thread_arg {
    struct qr_pool *pool;
    unsigned worker;
};

/* The pool whose task this thread runs (NULL: none), and the thread's number in it. */
static _Thread_local struct {
    const struct qr_pool *pool;
    unsigned worker;
} current_task;

/* exact/contract.md §6: the rounding mode and subnormal numbers change the bits of results. */
static void assert_float_environment(void) {
    QR_ASSERT(fegetround() == FE_TONEAREST);
    volatile double tiny = 0x1p-1022;
    volatile double half = tiny * 0.5; /* 0 under FTZ */
    QR_ASSERT(half != 0.0);
    volatile float tinyf = 0x1p-126f;
    volatile float back = tinyf * 0.5f;
    QR_ASSERT(back * 2.0f == tinyf); /* 0 under DAZ */
}

static void pool_run_tasks(struct pool_loop *l, unsigned worker) {
    assert_float_environment();
    for (size_t i; (i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < l->n;)
        l->task(l->ctx, i, worker);
}

/* Called with the lock held; releases it until something has changed, at most for SPIN_NS. Where
 * threads share CPUs it would keep the others from working. */
static void pool_spin(struct qr_pool *p) {
    unsigned seen = atomic_load_explicit(&p->changes, memory_order_relaxed);
    if (p->size > (unsigned)CPU_COUNT(&p->cpus)) return;
    pthread_mutex_unlock(&p->lock);
    int64_t until_ns = qr_now_ns(&qr_clock_monotonic) + SPIN_NS;
    while (atomic_load_explicit(&p->changes, memory_order_relaxed) == seen &&
           qr_now_ns(&qr_clock_monotonic) < until_ns) {
    }
    pthread_mutex_lock(&p->lock);
}

/* Called with the lock held. */
static void pool_broadcast(struct qr_pool *p, pthread_cond_t *to) {
    atomic_fetch_add_explicit(&p->changes, 1, memory_order_relaxed);
    pthread_cond_broadcast(to);
}

/* The newest loop with indices left. */
static struct pool_loop *pool_find_open_loop(const struct qr_pool *p) {
    struct pool_loop *l = p->newest;
    while (l && atomic_load_explicit(&l->next, memory_order_relaxed) >= l->n) l = l->older;
    return l;
}

/* Called with the lock held; releases it while tasks run. */
static void pool_help_loop(struct qr_pool *p, struct pool_loop *l, unsigned worker) {
    l->helpers++;
    pthread_mutex_unlock(&p->lock);
    current_task.pool = p;
    current_task.worker = worker;
    pool_run_tasks(l, worker);
    current_task.pool = NULL;
    pthread_mutex_lock(&p->lock);
    if (--l->helpers == 0) pool_broadcast(p, &p->done);
}

/* Called with the lock held. Some kernels wake a thread on the waker's CPU, even if its previous
 * CPU is idle, and the load balancer moves it only milliseconds later, longer than most loops take.
 * So keep sleeping threads off the caller's CPU until they have woken. */
static void pool_move_sleepers(struct qr_pool *p) {
    cpu_set_t others = p->cpus;
    int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (struct pool_thread *s = p->threads; s < p->threads + p->size - 1; s++)
        /* Failure is harmless: the thread then wakes on any CPU. */
        if (s->asleep) s->kept_off = pthread_setaffinity_np(s->thread, sizeof others, &others) == 0;
}

/* Called with the lock held. */
static void pool_sleep_until_work(struct qr_pool *p, unsigned worker) {
    p->threads[worker - 1].asleep = true;
    pthread_cond_wait(&p->work, &p->lock);
    struct pool_thread *s = &p->threads[worker - 1]; /* the array may have moved */
    s->asleep = false;
    if (s->kept_off) pthread_setaffinity_np(pthread_self(), sizeof p->cpus, &p->cpus);
    s->kept_off = false;
}

static void *pool_thread_main(void *arg) {
    struct pool_thread_arg a = *(struct pool_thread_arg *)arg;
    free(arg);
    struct qr_pool *p = a.pool;
    struct qr_number_env unused;
    char name[16];
    /* A thread inherits the floating-point environment of its creator, and the global locale. */
    qr_number_env_enter(&unused);
    snprintf(name, sizeof name, "qring-pool-%u", a.worker % 1000);
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&p->lock);
    for (bool spun = false; a.worker < p->size;) {
        struct pool_loop *l = pool_find_open_loop(p);
        if (l) pool_help_loop(p, l, a.worker);
        else if (!spun) pool_spin(p);
        else pool_sleep_until_work(p, a.worker);
        spun = !l;
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals of the process go to the threads of the pool's user; those of a thread's own faults stay
 * where they are handled. */
static void block_set(sigset_t *ret) {
    static const int faults[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
    sigfillset(ret);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(ret, faults[i]);
}

struct qr_pool *qr_pool_new(unsigned n_threads) {
    struct qr_pool *p = qr_xcalloc(1, sizeof *p);
    p->size = 1;
    p->requested = n_threads;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    qr_pool_resize(p, n_threads);
    return p;
}

/* Sets the size; threads beyond it end once they wake. */
static void pool_set_size(struct qr_pool *p, unsigned size) {
    pthread_mutex_lock(&p->lock);
    QR_ASSERT(!p->newest);
    /* Threads that this one would create, and those that wake, may run on its CPUs; a cpuset may
     * have changed since the last call. */
    if (pthread_getaffinity_np(pthread_self(), sizeof p->cpus, &p->cpus) != 0) CPU_ZERO(&p->cpus);
    if (size > p->size) {
        struct pool_thread *more = qr_xcalloc(size - 1, sizeof *more);
        if (p->size > 1) memcpy(more, p->threads, (p->size - 1) * sizeof *more);
        free(p->threads);
        p->threads = more;
    }
    p->size = size;
    pool_broadcast(p, &p->work);
    pthread_mutex_unlock(&p->lock);
}

/* Starts the threads first..size-1; the pool gets smaller when the system refuses one. */
static void pool_start_threads(struct qr_pool *p, unsigned first) {
    sigset_t others, before;
    block_set(&others);
    pthread_sigmask(SIG_BLOCK, &others, &before);
    for (unsigned i = first; i < p->size; i++) {
        struct pool_thread_arg *a = qr_xmalloc(sizeof *a);
        *a = (struct pool_thread_arg){.pool = p, .worker = i};
        if (pthread_create(&p->threads[i - 1].thread, NULL, pool_thread_main, a) == 0) continue;
        free(a);
        pool_set_size(p, i);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void qr_pool_resize(struct qr_pool *p, unsigned n_threads) {
    QR_ASSERT(n_threads >= 1);
    unsigned before = p->size;
    pool_set_size(p, n_threads);
    for (unsigned i = n_threads; i < before; i++) pthread_join(p->threads[i - 1].thread, NULL);
    pool_start_threads(p, before);
}

void qr_pool_free(struct qr_pool *p) {
    if (!p) return;
    qr_pool_resize(p, 1);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->threads);
    free(p);
}

unsigned qr_pool_size(const struct qr_pool *p) {
    return p ? atomic_load_explicit(&p->size, memory_order_relaxed) : 1;
}

void qr_pool_request(struct qr_pool *p, unsigned n_threads) {
    QR_ASSERT(n_threads >= 1);
    atomic_store_explicit(&p->requested, n_threads, memory_order_relaxed);
}

unsigned qr_pool_requested(const struct qr_pool *p) {
    return p ? atomic_load_explicit(&p->requested, memory_order_relaxed) : 1;
}

/* Called with the lock held. Waits until all helpers have left the loop. The caller helps in inner
 * loops meanwhile, unless its own loop is an inner one. */
static void pool_join_loop(struct qr_pool *p, struct pool_loop *l) {
    for (bool spun = false; l->helpers;) {
        struct pool_loop *other = l->inner ? NULL : pool_find_open_loop(p);
        if (other) pool_help_loop(p, other, 0);
        else if (!spun) pool_spin(p);
        else pthread_cond_wait(&p->done, &p->lock);
        spun = !other;
    }
    struct pool_loop **at = &p->newest;
    while (*at != l) at = &(*at)->older;
    *at = l->older;
}

void qr_pool_for(struct qr_pool *p, size_t n, qr_pool_task_fn task, void *ctx) {
    bool inner = p && current_task.pool == p;
    unsigned worker = inner ? current_task.worker : 0;
    struct pool_loop l = {.task = task, .ctx = ctx, .n = n, .inner = inner};
    if (!p || p->size == 1 || n <= 1) {
        pool_run_tasks(&l, worker);
        return;
    }
    pthread_mutex_lock(&p->lock);
    l.older = p->newest;
    p->newest = &l;
    pool_move_sleepers(p);
    pool_broadcast(p, &p->work);
    if (inner) pool_broadcast(p, &p->done);
    pthread_mutex_unlock(&p->lock);
    if (!inner) {
        current_task.pool = p;
        current_task.worker = 0;
    }
    pool_run_tasks(&l, worker);
    if (!inner) current_task.pool = NULL;
    pthread_mutex_lock(&p->lock);
    pool_join_loop(p, &l);
    pthread_mutex_unlock(&p->lock);
}

/* Number of processors in this thread's affinity mask. The kernel rejects a set smaller than its
 * own with EINVAL: cpu_set_t ends at 1024, and a kernel can be built for 8192. */
static unsigned cpu_count_affinity(void) {
    for (size_t bytes = sizeof(cpu_set_t); bytes <= (1u << 16); bytes *= 2) {
        cpu_set_t *set = qr_xcalloc(1, bytes);
        bool ok = sched_getaffinity(0, bytes, set) == 0;
        unsigned n = ok ? (unsigned)CPU_COUNT_S(bytes, set) : 0;
        free(set);
        if (ok) return n;
        if (errno != EINVAL) break;
    }
    return 1;
}

unsigned qr_cpu_limit(void) { return qr_cpu_limit_under("", NULL); }

unsigned qr_cpu_limit_under(const char *root, const char **ret_by) {
    struct qr_cgroup c;
    qr_cgroup_read(root, &c);
    return qr_cpu_limit_of(&c, ret_by);
}

unsigned qr_cpu_limit_of(const struct qr_cgroup *c, const char **ret_by) {
    static const char *const all[] = {
        "the processors that it may run on, no cgroup found",
        "the processors that it may run on, cgroup v1 sets no lower limit",
        "the processors that it may run on, cgroup v2 sets no lower limit"};
    unsigned n = cpu_count_affinity();
    const char *by = all[c->cpu_version];
    if (c->cpuset && c->cpuset < n) {
        n = c->cpuset;
        by = c->cpuset_by;
    }
    if (c->cpus > 0 && c->cpus <= n - 1) { /* the quota, rounded up, is below n */
        n = (unsigned)c->cpus + ((unsigned)c->cpus < c->cpus);
        by = c->cpus_by;
    }
    if (ret_by) *ret_by = by;
    return n >= 1 ? n : 1;
}
