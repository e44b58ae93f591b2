#include "output/progress_reporter.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

static const int64_t look_ns = QR_SECOND / 5, cost_every_ns = 10 * QR_SECOND,
                     request_ns = 5 * QR_SECOND, last_request_ns = QR_SECOND / 2;

struct listening {
    struct qr_progress_sink to;
    int64_t next_ns;
    uint64_t told; /* the last word that was heard; 0: none */
    unsigned n_failed;
};

struct qr_progress_reporter {
    struct listening to[QR_PROGRESS_SINKS];
    size_t n;
    struct qr_log log;
    struct qr_progress_snapshot heard; /* the thread's own copy */
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct qr_progress_snapshot now;
    uint64_t said;     /* how often; 0: nothing is known */
    const char *asked; /* who is told just now; NULL: nobody */
    bool leads, closing, ended_well, finished;
};

static int64_t now(void) { return qr_now_ns(&qr_clock_monotonic); }

static void wait_until(struct qr_progress_reporter *t, int64_t ns) {
    const struct timespec at = {.tv_sec = (time_t)(ns / QR_SECOND),
                                .tv_nsec = (long)(ns % QR_SECOND)};
    pthread_cond_timedwait(&t->changed, &t->lock, &at);
}

/* ---- what a store asks the thread ---- */

static _Thread_local struct qr_progress_reporter *mine;

static bool closing(void) {
    pthread_mutex_lock(&mine->lock);
    bool yes = mine->closing;
    pthread_mutex_unlock(&mine->lock);
    return yes;
}

static void nap(int64_t ns) {
    int64_t end_ns = now() + ns;
    pthread_mutex_lock(&mine->lock);
    while (!mine->closing && now() < end_ns) wait_until(mine, end_ns);
    pthread_mutex_unlock(&mine->lock);
}

/* ---- the thread ---- */

int64_t qr_progress_sink_next_ns(const struct qr_progress_sink *l, int64_t began_ns,
                                 unsigned n_failed) {
    int64_t wait_ns = l->every_ns;
    for (unsigned i = 0; i < n_failed && wait_ns < l->most_ns; i++) wait_ns *= 2;
    return began_ns + (l->most_ns && wait_ns > l->most_ns ? l->most_ns : wait_ns);
}

/* How the run goes by now, into t->heard. What they were told last; 0: nothing is to be told. */
static uint64_t listen(struct qr_progress_reporter *t, bool *ret_leads) {
    pthread_mutex_lock(&t->lock);
    uint64_t said = t->said;
    *ret_leads = t->leads;
    t->heard = t->now;
    pthread_mutex_unlock(&t->lock);
    return said;
}

static void set_asked(struct qr_progress_reporter *t, const char *what) {
    pthread_mutex_lock(&t->lock);
    t->asked = what;
    pthread_mutex_unlock(&t->lock);
}

static void tell(struct qr_progress_reporter *t, struct listening *l, uint64_t said,
                 enum qr_report_kind when) {
    struct qr_err err = {0};
    set_asked(t, l->to.what);
    enum qr_code code = l->to.tell(l->to.ctx, &t->heard, when, &err);
    set_asked(t, NULL);
    if (code == QR_OK) {
        if (l->n_failed) qr_info(&t->log, "worker", "%s is told again", l->to.what);
        l->n_failed = 0;
        l->told = said;
        return;
    }
    if (!l->n_failed)
        qr_warn(&t->log, "worker", "%s is not told: %s%s", l->to.what, err.msg,
                when == QR_REPORT_ONGOING ? ". Training goes on, and it is tried again" : "");
    l->n_failed++;
}

/* Those that are due, without the lock. */
static void tell_due(struct qr_progress_reporter *t) {
    for (size_t i = 0; i < t->n; i++) {
        struct listening *l = &t->to[i];
        int64_t began_ns = now();
        bool leads;
        uint64_t said = began_ns < l->next_ns ? 0 : listen(t, &leads);
        if (!said || !leads || l->told == said) continue;
        tell(t, l, said, QR_REPORT_ONGOING);
        l->next_ns = qr_progress_sink_next_ns(&l->to, began_ns, l->n_failed);
    }
}

static void tell_last(struct qr_progress_reporter *t, bool ended_well) {
    bool leads;
    uint64_t said = listen(t, &leads);
    for (size_t i = 0; said && i < t->n; i++)
        if (leads || t->to[i].to.last_of_all)
            tell(t, &t->to[i], said, ended_well ? QR_REPORT_DONE : QR_REPORT_LAST);
}

static void *serve(void *arg) {
    struct qr_progress_reporter *t = arg;
    mine = t;
    pthread_mutex_lock(&t->lock);
    while (!t->closing) {
        pthread_mutex_unlock(&t->lock);
        tell_due(t);
        pthread_mutex_lock(&t->lock);
        if (!t->closing) wait_until(t, now() + look_ns);
    }
    bool ended_well = t->ended_well;
    pthread_mutex_unlock(&t->lock);
    tell_last(t, ended_well);
    pthread_mutex_lock(&t->lock);
    t->finished = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

/* ---- the others ---- */

static void progress_reporter_free(struct qr_progress_reporter *t) {
    for (size_t i = 0; i < t->n; i++)
        if (t->to[i].to.free) t->to[i].to.free(t->to[i].to.ctx);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

enum qr_code qr_progress_reporter_new(const struct qr_progress_sink *to, size_t n,
                                      const struct qr_log *log, struct qr_progress_reporter **ret,
                                      struct qr_err *err) {
    struct qr_progress_reporter *t = qr_xcalloc(1, sizeof *t);
    pthread_condattr_t monotonic;
    QR_ASSERT(n <= QR_PROGRESS_SINKS);
    for (; t->n < n; t->n++) t->to[t->n].to = to[t->n];
    t->log = *log;
    pthread_mutex_init(&t->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int sys = pthread_create(&t->thread, NULL, serve, t);
    if (sys) {
        progress_reporter_free(t);
        return qr_fail_errno(err, sys, "start the thread that tells how the run goes");
    }
    *ret = t;
    return QR_OK;
}

void qr_progress_reporter_update(struct qr_progress_reporter *t, bool leader,
                                 const struct qr_progress_snapshot *s) {
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->now = *s;
    t->leads = leader;
    t->said++;
    pthread_mutex_unlock(&t->lock);
}

bool qr_progress_reporter_close(struct qr_progress_reporter *t, bool ended_well,
                                int64_t within_ns) {
    if (!t) return true;
    int64_t deadline_ns = now() + within_ns;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    t->ended_well = ended_well;
    pthread_cond_broadcast(&t->changed);
    while (!t->finished && now() < deadline_ns) wait_until(t, deadline_ns);
    bool finished = t->finished;
    const char *asked = t->asked;
    pthread_mutex_unlock(&t->lock);
    if (!finished) {
        if (asked)
            qr_warn(&t->log, "worker", "%s is not told: no answer by the end of the run", asked);
        pthread_detach(t->thread);
        return false;
    }
    pthread_join(t->thread, NULL);
    progress_reporter_free(t);
    return true;
}

/* ---- what it has cost ---- */

struct cost_listener {
    struct qr_store *store;
    char *name;
    const struct qr_price *price;
};

static enum qr_code tell_cost(void *ctx, const struct qr_progress_snapshot *s,
                              enum qr_report_kind when, struct qr_err *err) {
    struct cost_listener *c = ctx;
    (void)when;
    return qr_cost_write(c->store, c->name, c->price, s->pod_ms, err);
}

static void free_cost(void *ctx) {
    struct cost_listener *c = ctx;
    c->store->ops->close(c->store);
    free(c->name);
    free(c);
}

enum qr_code qr_cost_sink(const char *url, const struct qr_price *price,
                          struct qr_progress_sink *ret, struct qr_err *err) {
    const struct qr_store_waits waits = {.deadline_ns = request_ns,
                                         .stop_deadline_ns = last_request_ns,
                                         .stopping = closing,
                                         .sleep = nap};
    struct cost_listener *c = qr_xcalloc(1, sizeof *c);
    qr_auto(qr_free_p) char *bare = qr_xstrdup(url), *full = NULL;
    for (size_t n = strlen(bare); n > 1 && bare[n - 1] == '/'; n--) bare[n - 1] = 0;
    full = qr_xasprintf("%s/cost.json", bare);
    enum qr_code code = qr_store_resolve_waiting(full, &waits, &c->store, &c->name, err);
    if (code != QR_OK) {
        free(c);
        return code;
    }
    c->price = price;
    *ret = (struct qr_progress_sink){.what = "cost.json",
                                     .every_ns = cost_every_ns,
                                     .last_of_all = true,
                                     .tell = tell_cost,
                                     .free = free_cost,
                                     .ctx = c};
    return QR_OK;
}
