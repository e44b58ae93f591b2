/* output/publisher.c — the thread that publishes checkpoints. Start reading at publisher_run() and
 * publish_newest(). */
#include "output/publisher.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/span.h"
#include "output/publisher_impl.h"
#include "train/train_checkpoint.h"

enum { MAX_DELAY_S = 30 };
static const int64_t give_up_ns = 600 * QR_SECOND, warn_every_ns = 60 * QR_SECOND,
                     busy_ns = 50 * QR_MS, idle_ns = 3600 * QR_SECOND;

struct publisher_slot {
    struct qr_state state;
    bool full;
};

struct qr_publisher {
    struct qr_publisher_options opt;
    struct qr_log log;
    char *url, *log_path, *job_hash;
    bool cloud;
    struct qr_checkpoint_folder place; /* used by the thread only */
    struct qr_publisher_threads threads;
    pthread_mutex_t lock;
    /* Guarded by lock. */
    struct publisher_slot newest, work; /* work belongs to the thread while busy */
    bool busy, due, quit, publish_now, tried, finishing, finished, done, fatal, warned;
    bool epoch_end; /* work is the end of an epoch, which is published as it is */
    /* the lines up to the state in newest are on disk; those up to work always are */
    bool logged;
    /* Of the last state that was selected for publishing. */
    uint64_t published_reductions, taken_step;
    int64_t taken_ns, retry_ns, failing_since_ns, warned_ns;
    unsigned failures;
    struct qr_err why;  /* reason of fatal */
    struct qr_err last; /* result of the last attempt; QR_OK after a success */
    bool ended;         /* LATEST shows that the job is done, with all epochs of the ring */
};

static int64_t publisher_now(const struct qr_publisher *p) { return qr_now_ns(p->opt.clock); }

/* Both are called with the lock held. */
static void publisher_wait_until(struct qr_publisher *p, int64_t until_ns) {
    p->threads.wait(p->threads.ctx, &p->lock, until_ns);
}
static void publisher_wake(struct qr_publisher *p) { p->threads.wake(p->threads.ctx); }

/* ---- the thread ---- */

/* The newest state may be published. */
static bool has_newest(const struct qr_publisher *p) { return p->newest.full && p->logged; }

static bool has_work(const struct qr_publisher *p) {
    bool newer = (has_newest(p) && p->newest.state.reductions > p->published_reductions) ||
                 (p->work.full && p->work.state.reductions > p->published_reductions);
    if (p->fatal) return false;
    if (p->finishing && !p->finished) return true;
    /* Other workers may have published a newer state meanwhile. */
    if (p->publish_now && !p->tried && (has_newest(p) || p->work.full)) return true;
    return newer && (p->publish_now || p->due);
}

static enum qr_code write_checkpoint(struct qr_publisher *p, bool done,
                                     struct qr_checkpoint_latest *ret, struct qr_err *err) {
    struct qr_checkpoint c;
    qr_auto(qr_buf_free) struct qr_buf notes = {0};
    int sys = qr_file_sync(p->log_path);
    if (sys) return qr_fail_errno(err, sys, "%s", p->log_path);
    qr_state_save(&p->work.state, p->opt.job, p->opt.model, p->job_hash, &c);
    enum qr_code code = qr_checkpoint_save(&p->place.at, &c, done, ret, &notes, err);
    qr_run_checkpoints_warn(&notes, &p->log);
    if (code == QR_OK && ret->reductions == c.reductions) {
        qr_count(QR_CHECKPOINTS, 1);
        qr_gauge(QR_CHECKPOINT_STEP, (int64_t)c.step);
        qr_gauge(QR_CHECKPOINT_TIME, qr_now_ns(&qr_clock_wall) / QR_SECOND);
        qr_debug(&p->log, "checkpoint", "step %" PRIu64 " published in %s%s", c.step, p->url,
                 done ? ", done" : "");
    } else if (code == QR_OK) {
        qr_debug(&p->log, "checkpoint", "step %" PRIu64 " not published: %s/LATEST is newer",
                 c.step, p->url);
    }
    qr_checkpoint_fini(&c);
    return code;
}

/* Called with the lock held, after a failed attempt that began at began_ns. */
static void handle_failure(struct qr_publisher *p, int64_t began_ns, const struct qr_err *err) {
    enum qr_code code = err->code;
    int64_t now = publisher_now(p);
    bool refused = code == QR_INVALID_ARGUMENT || code == QR_INTERNAL || code == QR_UNIMPLEMENTED;
    if (p->cloud)
        refused |= code == QR_PERMISSION_DENIED || code == QR_NOT_FOUND ||
                   code == QR_UNAUTHENTICATED || code == QR_FAILED_PRECONDITION;
    qr_count(QR_CHECKPOINT_ERRORS, 1);
    if (!p->failures++) p->failing_since_ns = began_ns;
    p->last = *err;
    p->retry_ns =
        now + (!p->cloud && code == QR_UNAVAILABLE
                   ? busy_ns
                   : (p->failures < 6 ? INT64_C(1) << (p->failures - 1) : MAX_DELAY_S) * QR_SECOND);
    if (refused || (p->cloud && now - p->failing_since_ns >= give_up_ns)) {
        p->fatal = true;
        p->why = *err;
        if (!refused) p->why.code = QR_UNAVAILABLE;
        qr_wrap(&p->why, "cannot publish the checkpoint of step %" PRIu64, p->work.state.step);
    } else if (code != QR_UNAVAILABLE || p->cloud) {
        if (p->warned && now - p->warned_ns < warn_every_ns) return;
        qr_warn(
            &p->log, "checkpoint",
            "step %" PRIu64
            ": cannot publish the checkpoint: %s; training continues, and publishing is retried",
            p->work.state.step, err->msg);
        p->warned = true;
        p->warned_ns = now;
    }
}

static void take_newest(struct qr_publisher *p) {
    struct publisher_slot s = p->work;
    p->work = p->newest;
    p->newest = s;
    p->newest.full = false;
}

static void publish_newest(struct qr_publisher *p) {
    struct qr_err err = {0};
    if (has_newest(p) && (!p->epoch_end || p->finishing || p->publish_now)) take_newest(p);
    p->epoch_end = false;
    bool done = p->finishing && p->done;
    p->busy = true;
    p->due = false;
    p->taken_ns = publisher_now(p);
    p->taken_step = p->work.state.step;
    int64_t began_ns = p->taken_ns;
    pthread_mutex_unlock(&p->lock);
    struct qr_checkpoint_latest l;
    int64_t span_ns = qr_span_begin();
    enum qr_code code = write_checkpoint(p, done, &l, &err);
    qr_span_end(span_ns, QR_SPAN_PUBLISH, NULL, p->taken_step);
    pthread_mutex_lock(&p->lock);
    p->busy = false;
    if (code == QR_OK) {
        if (p->warned)
            qr_info(&p->log, "checkpoint", "step %" PRIu64 " published", p->work.state.step);
        p->published_reductions = p->work.state.reductions;
        p->failures = 0;
        p->warned = false;
        p->last.code = QR_OK;
        p->tried |= p->publish_now;
        p->ended = l.done && l.epoch >= p->opt.epochs;
        p->finished = p->finishing && done == p->done && !p->newest.full;
    } else {
        handle_failure(p, began_ns, &err);
        p->due = true; /* this state, or a newer one by then */
    }
    publisher_wake(p);
}

static void publisher_run(struct qr_publisher *p) {
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        if (!has_work(p)) publisher_wait_until(p, publisher_now(p) + idle_ns);
        else if (p->failures && publisher_now(p) < p->retry_ns)
            publisher_wait_until(p, p->retry_ns);
        else publish_newest(p);
    }
    pthread_mutex_unlock(&p->lock);
}

/* A system thread. Its condition variable uses the monotonic clock. */
struct publisher_thread {
    pthread_t id;
    pthread_cond_t changed;
    void (*body)(struct qr_publisher *p);
    struct qr_publisher *p;
    const struct qr_clock *clock;
};

static void *thread_main(void *ctx) {
    const struct publisher_thread *t = ctx;
    pthread_setname_np(pthread_self(), "qring-publisher");
    t->body(t->p);
    return NULL;
}

static int thread_start(void *ctx, void (*body)(struct qr_publisher *p), struct qr_publisher *p) {
    struct publisher_thread *t = ctx;
    t->body = body;
    t->p = p;
    return pthread_create(&t->id, NULL, thread_main, t);
}

static void thread_wait(void *ctx, pthread_mutex_t *lock, int64_t until_ns) {
    struct publisher_thread *t = ctx;
    int64_t ns = qr_monotonic_of(t->clock, until_ns);
    const struct timespec ts = {.tv_sec = ns / QR_SECOND, .tv_nsec = ns % QR_SECOND};
    pthread_cond_timedwait(&t->changed, lock, &ts);
}

static void thread_wake(void *ctx) {
    struct publisher_thread *t = ctx;
    pthread_cond_broadcast(&t->changed);
}

static void free_thread(struct publisher_thread *t) {
    pthread_cond_destroy(&t->changed);
    free(t);
}

static void thread_end(void *ctx, bool hangs) {
    struct publisher_thread *t = ctx;
    if (hangs) {
        pthread_detach(t->id);
        return;
    }
    pthread_join(t->id, NULL);
    free_thread(t);
}

static struct qr_publisher_threads system_thread(const struct qr_clock *clock) {
    struct publisher_thread *t = qr_xcalloc(1, sizeof *t);
    t->clock = clock;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&t->changed, &attr);
    pthread_condattr_destroy(&attr);
    return (struct qr_publisher_threads){t, thread_start, thread_wait, thread_wake, thread_end};
}

/* ---- the training thread ---- */

static void free_publisher(struct qr_publisher *p) {
    qr_checkpoint_folder_close(&p->place);
    qr_state_fini(&p->newest.state);
    qr_state_fini(&p->work.state);
    pthread_mutex_destroy(&p->lock);
    free(p->url);
    free(p->log_path);
    free(p->job_hash);
    free(p);
}

enum qr_code qr_publisher_new_with(const struct qr_publisher_options *opt,
                                   const struct qr_checkpoint_folder *place,
                                   const struct qr_publisher_threads *threads,
                                   struct qr_publisher **ret, struct qr_err *err) {
    struct qr_publisher *p = qr_xcalloc(1, sizeof *p);
    p->opt = *opt;
    p->place = *place;
    p->place.at.keep = opt->keep;
    p->threads = *threads;
    p->log = *opt->log;
    p->url = qr_xstrdup(p->place.url);
    p->log_path = qr_xstrdup(opt->log_path);
    p->job_hash = qr_xstrdup(opt->job_hash);
    p->cloud = qr_url_remote(opt->url);
    qr_state_init(&p->newest.state, opt->job, opt->model);
    qr_state_init(&p->work.state, opt->job, opt->model);
    p->taken_ns = publisher_now(p);
    if (opt->begin) {
        p->published_reductions = opt->begin->reductions;
        p->taken_step = opt->begin->step;
        qr_gauge(QR_CHECKPOINT_STEP, (int64_t)opt->begin->step);
    }
    pthread_mutex_init(&p->lock, NULL);
    int sys = p->threads.start(p->threads.ctx, publisher_run, p);
    if (sys) {
        free_publisher(p);
        return qr_fail_errno(err, sys, "cannot start the checkpoint thread");
    }
    *ret = p;
    return QR_OK;
}

enum qr_code qr_publisher_new(const struct qr_publisher_options *opt, struct qr_publisher **ret,
                              struct qr_err *err) {
    struct qr_checkpoint_folder place;
    QR_TRY(qr_checkpoint_folder_open(opt->url, &place, err));
    const struct qr_publisher_threads threads = system_thread(opt->clock);
    enum qr_code code = qr_publisher_new_with(opt, &place, &threads, ret, err);
    if (code != QR_OK) free_thread(threads.ctx);
    return code;
}

bool qr_publisher_free(struct qr_publisher *p) {
    if (!p) return true;
    int64_t deadline_ns = publisher_now(p) + QR_PUBLISHER_CLOSE_NS;
    pthread_mutex_lock(&p->lock);
    while (p->busy && publisher_now(p) < deadline_ns) publisher_wait_until(p, deadline_ns);
    bool busy = p->busy;
    p->quit = true;
    publisher_wake(p);
    pthread_mutex_unlock(&p->lock);
    p->threads.end(p->threads.ctx, busy);
    if (busy) return false; /* the thread hangs in a store until the process exits */
    free_publisher(p);
    return true;
}

void qr_publisher_set_epochs(struct qr_publisher *p, uint64_t epochs) {
    pthread_mutex_lock(&p->lock);
    p->opt.epochs = epochs;
    pthread_mutex_unlock(&p->lock);
}

bool qr_publisher_has_tried(struct qr_publisher *p) {
    pthread_mutex_lock(&p->lock);
    bool tried = p->tried;
    pthread_mutex_unlock(&p->lock);
    return tried;
}

bool qr_publisher_training_done(struct qr_publisher *p) {
    if (!p) return false;
    pthread_mutex_lock(&p->lock);
    bool ended = p->ended;
    pthread_mutex_unlock(&p->lock);
    return ended;
}

bool qr_publisher_has_failed(struct qr_publisher *p) {
    if (!p) return false;
    pthread_mutex_lock(&p->lock);
    bool refused = p->fatal;
    pthread_mutex_unlock(&p->lock);
    return refused;
}

/* True for the last state of an epoch that is to be published. */
static bool ends_epochs(const struct qr_publisher *p, const struct qr_state *s) {
    return p->opt.every_epochs && s->epoch && s->epoch % p->opt.every_epochs == 0 &&
           s->step == s->epoch * p->opt.n_batches && s->reductions > p->published_reductions;
}

enum qr_code qr_publisher_committed(struct qr_publisher *p, bool leader, bool logged,
                                    struct qr_state *state, struct qr_err *err) {
    enum qr_code code = QR_OK;
    pthread_mutex_lock(&p->lock);
    if (p->fatal) {
        code = p->why.code;
        *err = p->why;
    } else {
        /* Keep the last state with all its lines on disk, which can be published. */
        if (!logged && has_newest(p) && !p->busy && !p->epoch_end) take_newest(p);
        qr_state_exchange(&p->newest.state, state);
        p->newest.full = true;
        p->logged = logged;
        bool late = publisher_now(p) - p->taken_ns >= p->opt.every_ns &&
                    p->newest.state.step >= p->taken_step + p->opt.every_steps;
        bool ends = ends_epochs(p, &p->newest.state);
        if (leader && logged && (late || ends) && !p->due && !p->busy) {
            if (ends) take_newest(p);
            p->epoch_end = ends;
            p->due = true;
            publisher_wake(p);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return code;
}

void qr_publisher_logged(struct qr_publisher *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->logged = true;
    publisher_wake(p);
    pthread_mutex_unlock(&p->lock);
}

enum qr_code qr_publisher_finish(struct qr_publisher *p, bool done, int64_t within_ns,
                                 struct qr_err *err) {
    int64_t deadline_ns = publisher_now(p) + within_ns;
    enum qr_code code = QR_OK;
    pthread_mutex_lock(&p->lock);
    QR_ASSERT(p->logged || !p->newest.full);
    p->finishing = true;
    p->finished = false;
    p->done = done;
    p->retry_ns = 0;
    unsigned failures = p->failures;
    publisher_wake(p);
    while (!p->finished && !p->fatal && publisher_now(p) < deadline_ns) {
        bool given_up =
            !p->cloud && !p->busy && p->failures > failures && p->last.code != QR_UNAVAILABLE;
        if (given_up) break;
        publisher_wait_until(p, deadline_ns);
    }
    if (p->fatal) {
        code = p->why.code;
        *err = p->why;
    } else if (!p->finished && p->cloud) {
        code = qr_fail(err, QR_UNAVAILABLE, "cannot publish the last checkpoint within %lld s: %s",
                       (long long)(within_ns / QR_SECOND), p->last.msg);
    } else if (!p->finished) {
        qr_warn(&p->log, "checkpoint",
                "cannot publish the last checkpoint: %s; the weights are not affected",
                p->last.msg);
    }
    p->finishing = false;
    pthread_mutex_unlock(&p->lock);
    return code;
}

/* ---- leaving ---- */

void qr_publisher_publish_now(struct qr_publisher *p) {
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->publish_now = true;
    p->retry_ns = 0;
    publisher_wake(p);
    pthread_mutex_unlock(&p->lock);
}

void qr_publisher_wait(struct qr_publisher *p, int64_t within_ns) {
    if (!p) return;
    int64_t deadline_ns = publisher_now(p) + within_ns;
    pthread_mutex_lock(&p->lock);
    while ((p->busy || has_work(p)) && publisher_now(p) < deadline_ns)
        publisher_wait_until(p, deadline_ns);
    pthread_mutex_unlock(&p->lock);
}
