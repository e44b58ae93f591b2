#include "base/pool.h"

#include <errno.h>
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/mem.h"

/* A loop in progress, on the stack of who called for it. */
struct loop {
    qr_pool_task_fn task;
    void *ctx;
    size_t n;
    atomic_size_t next;
    struct loop *older; /* guarded by the pool's lock, as is: */
    unsigned helpers;   /* threads besides the caller that are in it */
    bool inner;         /* called for by a task of another */
};

struct seat {
    pthread_t thread;
    bool asleep, kept_off;
};

struct qr_pool {
    unsigned size;
    cpu_set_t cpus;     /* that the pool's maker may use; none: not known */
    struct seat *seats; /* size - 1; all but thread is guarded by lock */
    pthread_mutex_t lock;
    /* a loop began; for callers that wait: a helper was the last to leave, or an inner
     * loop began */
    pthread_cond_t work, done;
    /* guarded by lock: */
    struct loop *newest;
    bool stop;
};

struct thread_arg {
    struct qr_pool *pool;
    unsigned worker;
};

/* Whose task this thread is in, and as which of its threads. */
static _Thread_local struct {
    const struct qr_pool *pool;
    unsigned worker;
} inside;

/* exact/contract.md §6: rounding to nearest and subnormal numbers decide bits. */
static void assert_float_environment(void) {
    QR_ASSERT(fegetround() == FE_TONEAREST);
    volatile double tiny = 0x1p-1022;
    volatile double half = tiny * 0.5; /* 0 under FTZ */
    QR_ASSERT(half != 0.0);
    volatile float tinyf = 0x1p-126f;
    volatile float back = tinyf * 0.5f;
    QR_ASSERT(back * 2.0f == tinyf); /* 0 under DAZ */
}

static void run_tasks(struct loop *l, unsigned worker) {
    assert_float_environment();
    for (size_t i; (i = atomic_fetch_add_explicit(&l->next, 1, memory_order_relaxed)) < l->n;)
        l->task(l->ctx, i, worker);
}

/* The newest loop that has something left. */
static struct loop *open_loop(const struct qr_pool *p) {
    struct loop *l = p->newest;
    while (l && atomic_load_explicit(&l->next, memory_order_relaxed) >= l->n) l = l->older;
    return l;
}

/* Under the lock, which is away while tasks run. */
static void help(struct qr_pool *p, struct loop *l, unsigned worker) {
    l->helpers++;
    pthread_mutex_unlock(&p->lock);
    inside.pool = p;
    inside.worker = worker;
    run_tasks(l, worker);
    inside.pool = NULL;
    pthread_mutex_lock(&p->lock);
    if (--l->helpers == 0) pthread_cond_broadcast(&p->done);
}

/* Under the lock. Some kernels wake a thread on the CPU of who wakes it, though its own is idle,
 * and only a balancer, milliseconds later, lets it go: longer than most loops. So who sleeps is
 * kept off the caller's CPU until it is awake. */
static void spread(struct qr_pool *p) {
    cpu_set_t others = p->cpus;
    int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    CPU_CLR(here, &others);
    if (CPU_COUNT(&others) == 0) return;
    for (struct seat *s = p->seats; s < p->seats + p->size - 1; s++)
        /* where that is forbidden, so be it */
        if (s->asleep) s->kept_off = pthread_setaffinity_np(s->thread, sizeof others, &others) == 0;
}

/* Under the lock. */
static void sleep_until_work(struct qr_pool *p, struct seat *s) {
    s->asleep = true;
    pthread_cond_wait(&p->work, &p->lock);
    s->asleep = false;
    if (s->kept_off) pthread_setaffinity_np(pthread_self(), sizeof p->cpus, &p->cpus);
    s->kept_off = false;
}

static void *thread_main(void *arg) {
    struct thread_arg a = *(struct thread_arg *)arg;
    free(arg);
    struct qr_pool *p = a.pool;
    char name[16];
    snprintf(name, sizeof name, "qring-pool-%u", a.worker % 1000);
    pthread_setname_np(pthread_self(), name);
    pthread_mutex_lock(&p->lock);
    while (!p->stop) {
        struct loop *l = open_loop(p);
        if (l) help(p, l, a.worker);
        else sleep_until_work(p, &p->seats[a.worker - 1]);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct qr_pool *qr_pool_new(unsigned n_threads) {
    QR_ASSERT(n_threads >= 1);
    struct qr_pool *p = qr_xcalloc(1, sizeof *p);
    p->size = n_threads;
    p->seats = qr_xcalloc(n_threads, sizeof *p->seats);
    if (pthread_getaffinity_np(pthread_self(), sizeof p->cpus, &p->cpus) != 0) CPU_ZERO(&p->cpus);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->done, NULL);
    for (unsigned i = 1; i < n_threads; i++) {
        struct thread_arg *a = qr_xmalloc(sizeof *a);
        *a = (struct thread_arg){.pool = p, .worker = i};
        if (pthread_create(&p->seats[i - 1].thread, NULL, thread_main, a) == 0) continue;
        free(a);
        p->size = i;
        break;
    }
    return p;
}

void qr_pool_free(struct qr_pool *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 1; i < p->size; i++) pthread_join(p->seats[i - 1].thread, NULL);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->seats);
    free(p);
}

unsigned qr_pool_size(const struct qr_pool *p) { return p ? p->size : 1; }

/* Under the lock: until all helpers have left the loop. Its caller helps inner ones meanwhile,
 * unless it is one itself. */
static void join(struct qr_pool *p, struct loop *l) {
    while (l->helpers) {
        struct loop *other = l->inner ? NULL : open_loop(p);
        if (other) help(p, other, 0);
        else pthread_cond_wait(&p->done, &p->lock);
    }
    struct loop **at = &p->newest;
    while (*at != l) at = &(*at)->older;
    *at = l->older;
}

void qr_pool_for(struct qr_pool *p, size_t n, qr_pool_task_fn task, void *ctx) {
    bool inner = p && inside.pool == p;
    unsigned worker = inner ? inside.worker : 0;
    struct loop l = {.task = task, .ctx = ctx, .n = n, .inner = inner};
    if (!p || p->size == 1 || n <= 1) {
        run_tasks(&l, worker);
        return;
    }
    pthread_mutex_lock(&p->lock);
    l.older = p->newest;
    p->newest = &l;
    spread(p);
    pthread_cond_broadcast(&p->work);
    if (inner) pthread_cond_broadcast(&p->done);
    pthread_mutex_unlock(&p->lock);
    if (!inner) {
        inside.pool = p;
        inside.worker = 0;
    }
    run_tasks(&l, worker);
    if (!inner) inside.pool = NULL;
    pthread_mutex_lock(&p->lock);
    join(p, &l);
    pthread_mutex_unlock(&p->lock);
}

/* The processors that the kernel lets this thread use. A set that is too small for the machine is
 * refused with EINVAL: cpu_set_t ends at 1024, and the kernel itself can be built for 8192. */
static unsigned cpuset(void) {
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
    static const char *const all[] = {
        "the processors that it may run on, no cgroup found",
        "the processors that it may run on, cgroup v1 sets no lower limit",
        "the processors that it may run on, cgroup v2 sets no lower limit"};
    struct qr_cgroup c;
    qr_cgroup_read(root, &c);
    unsigned n = cpuset();
    const char *by = all[c.cpu_version];
    if (c.cpuset && c.cpuset < n) {
        n = c.cpuset;
        by = c.cpuset_by;
    }
    if (c.cpus > 0 && c.cpus <= n - 1) { /* rounded up it is below n */
        n = (unsigned)c.cpus + ((unsigned)c.cpus < c.cpus);
        by = c.cpus_by;
    }
    if (ret_by) *ret_by = by;
    return n >= 1 ? n : 1;
}
