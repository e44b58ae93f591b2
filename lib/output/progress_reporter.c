/* output/progress_reporter.c — the thread that reports progress, and the sink of cost.json. Start
 * reading at run_reports(). */
#include "output/progress_reporter.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"

static const int64_t look_ns = QR_SECOND / 5, cost_every_ns = 10 * QR_SECOND,
                     request_ns = 5 * QR_SECOND, last_request_ns = QR_SECOND / 2;

struct sink_state {
    struct qr_progress_sink to;
    int64_t next_ns;
    uint64_t reported; /* number of the last update that was sent; 0: none */
    unsigned n_failed;
};

struct qr_progress_reporter {
    struct sink_state to[QR_PROGRESS_SINKS];
    size_t n;
    struct qr_log log;
    struct qr_progress_snapshot snapshot; /* the thread's own copy */
    pthread_t thread;
    pthread_mutex_t lock; /* guards the following fields */
    pthread_cond_t changed;
    struct qr_progress_snapshot now;
    uint64_t n_updates;  /* 0: no snapshot yet */
    const char *pending; /* sink of the current request; NULL: none */
    bool leader, closing, ended_well, finished;
    bool abandoned; /* the thread frees the reporter */
};

static int64_t reporter_now(void) { return qr_now_ns(&qr_clock_monotonic); }

static void reporter_wait_until(struct qr_progress_reporter *t, int64_t ns) {
    const struct timespec at = {.tv_sec = (time_t)(ns / QR_SECOND),
                                .tv_nsec = (long)(ns % QR_SECOND)};
    pthread_cond_timedwait(&t->changed, &t->lock, &at);
}

/* ---- callbacks of a store, in the thread ---- */

static _Thread_local struct qr_progress_reporter *current_reporter;

static bool reporter_closing(void) {
    pthread_mutex_lock(&current_reporter->lock);
    bool yes = current_reporter->closing;
    pthread_mutex_unlock(&current_reporter->lock);
    return yes;
}

static void reporter_sleep(int64_t ns) {
    int64_t end_ns = reporter_now() + ns;
    pthread_mutex_lock(&current_reporter->lock);
    while (!current_reporter->closing && reporter_now() < end_ns)
        reporter_wait_until(current_reporter, end_ns);
    pthread_mutex_unlock(&current_reporter->lock);
}

/* ---- the thread ---- */

int64_t qr_progress_sink_next_ns(const struct qr_progress_sink *l, int64_t began_ns,
                                 unsigned n_failed) {
    int64_t wait_ns = l->every_ns;
    for (unsigned i = 0; i < n_failed && wait_ns < l->most_ns; i++) wait_ns *= 2;
    return began_ns + (l->most_ns && wait_ns > l->most_ns ? l->most_ns : wait_ns);
}

/* Copies the latest snapshot into t->snapshot. Returns the number of its update; 0: none yet. */
static uint64_t copy_snapshot(struct qr_progress_reporter *t, bool *ret_leads) {
    pthread_mutex_lock(&t->lock);
    uint64_t n_updates = t->n_updates;
    *ret_leads = t->leader;
    t->snapshot = t->now;
    pthread_mutex_unlock(&t->lock);
    return n_updates;
}

static void set_pending(struct qr_progress_reporter *t, const char *what) {
    pthread_mutex_lock(&t->lock);
    t->pending = what;
    pthread_mutex_unlock(&t->lock);
}

static void send_report(struct qr_progress_reporter *t, struct sink_state *l, uint64_t n_updates,
                        enum qr_report_kind when) {
    struct qr_err err = {0};
    set_pending(t, l->to.what);
    enum qr_code code = l->to.send(l->to.ctx, &t->snapshot, when, &err);
    set_pending(t, NULL);
    if (code == QR_OK) {
        if (l->n_failed) qr_info(&t->log, "worker", "updates of %s succeed again", l->to.what);
        l->n_failed = 0;
        l->reported = n_updates;
        return;
    }
    if (!l->n_failed)
        qr_warn(&t->log, "worker", "cannot update %s: %s%s", l->to.what, err.msg,
                when == QR_REPORT_ONGOING ? "; training continues, and the update is retried" : "");
    l->n_failed++;
}

/* Sends the reports that are due, without the lock. */
static void send_due(struct qr_progress_reporter *t) {
    for (size_t i = 0; i < t->n; i++) {
        struct sink_state *l = &t->to[i];
        int64_t began_ns = reporter_now();
        bool leader;
        uint64_t n_updates = began_ns < l->next_ns ? 0 : copy_snapshot(t, &leader);
        if (!n_updates || !leader || l->reported == n_updates) continue;
        send_report(t, l, n_updates, QR_REPORT_ONGOING);
        l->next_ns = qr_progress_sink_next_ns(&l->to, began_ns, l->n_failed);
    }
}

static void send_last(struct qr_progress_reporter *t, bool ended_well) {
    bool leader;
    uint64_t n_updates = copy_snapshot(t, &leader);
    for (size_t i = 0; n_updates && i < t->n; i++)
        if (leader || t->to[i].to.last_of_all)
            send_report(t, &t->to[i], n_updates, ended_well ? QR_REPORT_DONE : QR_REPORT_LAST);
}

static void progress_reporter_free(struct qr_progress_reporter *t) {
    for (size_t i = 0; i < t->n; i++)
        if (t->to[i].to.free) t->to[i].to.free(t->to[i].to.ctx);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void *run_reports(void *arg) {
    struct qr_progress_reporter *t = arg;
    current_reporter = t;
    pthread_mutex_lock(&t->lock);
    while (!t->closing) {
        pthread_mutex_unlock(&t->lock);
        send_due(t);
        pthread_mutex_lock(&t->lock);
        if (!t->closing) reporter_wait_until(t, reporter_now() + look_ns);
    }
    bool ended_well = t->ended_well;
    pthread_mutex_unlock(&t->lock);
    send_last(t, ended_well);
    pthread_mutex_lock(&t->lock);
    t->finished = true;
    bool abandoned = t->abandoned;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (abandoned) progress_reporter_free(t);
    return NULL;
}

/* ---- the training thread ---- */

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
    int sys = pthread_create(&t->thread, NULL, run_reports, t);
    if (sys) {
        progress_reporter_free(t);
        return qr_fail_errno(err, sys, "cannot start the progress thread");
    }
    *ret = t;
    return QR_OK;
}

void qr_progress_reporter_update(struct qr_progress_reporter *t, bool leader,
                                 const struct qr_progress_snapshot *s) {
    if (!t) return;
    pthread_mutex_lock(&t->lock);
    t->now = *s;
    t->leader = leader;
    t->n_updates++;
    pthread_mutex_unlock(&t->lock);
}

bool qr_progress_reporter_close(struct qr_progress_reporter *t, bool ended_well,
                                int64_t within_ns) {
    if (!t) return true;
    int64_t deadline_ns = reporter_now() + within_ns;
    pthread_mutex_lock(&t->lock);
    t->closing = true;
    t->ended_well = ended_well;
    pthread_cond_broadcast(&t->changed);
    while (!t->finished && reporter_now() < deadline_ns) reporter_wait_until(t, deadline_ns);
    bool in_time = t->finished;
    const char *pending = t->pending;
    pthread_mutex_unlock(&t->lock);
    if (!in_time && pending)
        qr_warn(&t->log, "worker", "cannot update %s: no response by the end of the run", pending);
    pthread_mutex_lock(&t->lock);
    bool finished = t->finished;
    t->abandoned = !finished;
    if (!finished) pthread_detach(t->thread);
    pthread_mutex_unlock(&t->lock);
    if (!finished) return false;
    pthread_join(t->thread, NULL);
    progress_reporter_free(t);
    return in_time;
}

/* ---- the cost ---- */

struct cost_listener {
    struct qr_store *store;
    char *name;
    const struct qr_price *price;
};

static enum qr_code send_cost(void *ctx, const struct qr_progress_snapshot *s,
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
                                         .stopping = reporter_closing,
                                         .sleep = reporter_sleep};
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
                                     .send = send_cost,
                                     .free = free_cost,
                                     .ctx = c};
    return QR_OK;
}
