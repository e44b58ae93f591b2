/* output/logdir.c — the thread that uploads TensorBoard event files. Start reading at
 * run_uploads(). */
#include "output/logdir.h"

#include <pthread.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

enum { READ_MAX_BYTES = 4 * QR_LOGDIR_FILE_BYTES };
static const int64_t interval_ns = 10 * QR_SECOND, refused_ns = 300 * QR_SECOND,
                     outage_ns = 60 * QR_SECOND, again_ns = QR_SECOND / 10,
                     /* A response at the very deadline still counts. */
    stopped_ns = QR_SECOND, beyond_ns = QR_SECOND / 20;

struct file {
    char *name;
    size_t written, uploaded;
    bool tried; /* the object may have been written by this worker */
};

struct qr_logdir {
    char *url, *folder, *prefix;
    struct qr_store *store;
    int64_t interval_ns;
    bool (*stopping)(void);
    const struct qr_log *log;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the following fields */
    pthread_cond_t wake, ended;
    struct file *files;
    size_t n_files;
    bool started, closing, abandoned, finished;
    bool fresh;   /* the current upload began after closing did */
    bool failing; /* a warning has been logged */
    int64_t deadline_ns, next_ns;
    struct qr_err last;
};

static int64_t logdir_now(void) { return qr_now_ns(&qr_clock_awake); }

static void logdir_wait_until(struct qr_logdir *l, pthread_cond_t *c, int64_t ns) {
    ns = qr_monotonic_of(&qr_clock_awake, ns);
    const struct timespec at = {.tv_sec = (time_t)(ns / QR_SECOND),
                                .tv_nsec = (long)(ns % QR_SECOND)};
    pthread_cond_timedwait(c, &l->lock, &at);
}

static void free_logdir(struct qr_logdir *l) {
    if (l->store) l->store->ops->close(l->store);
    for (size_t i = 0; i < l->n_files; i++) free(l->files[i].name);
    pthread_cond_destroy(&l->wake);
    pthread_cond_destroy(&l->ended);
    pthread_mutex_destroy(&l->lock);
    free(l->files);
    free(l->url);
    free(l->folder);
    free(l->prefix);
    free(l);
}

/* ---- callbacks of the store, in the upload thread ---- */

static _Thread_local struct qr_logdir *current_logdir;

/* While closing, an upload that began before is stopped in favor of the newest bytes, and nothing
 * is retried after the deadline. */
static bool uploads_stopping(void) {
    pthread_mutex_lock(&current_logdir->lock);
    bool yes = current_logdir->closing &&
               (!current_logdir->fresh || logdir_now() >= current_logdir->deadline_ns);
    pthread_mutex_unlock(&current_logdir->lock);
    return yes;
}

static void uploads_sleep(int64_t ns) {
    int64_t end_ns = logdir_now() + ns;
    pthread_mutex_lock(&current_logdir->lock);
    while (logdir_now() < end_ns &&
           !(current_logdir->closing &&
             (!current_logdir->fresh || logdir_now() >= current_logdir->deadline_ns)))
        logdir_wait_until(current_logdir, &current_logdir->wake,
                          current_logdir->closing && current_logdir->deadline_ns < end_ns
                              ? current_logdir->deadline_ns
                              : end_ns);
    pthread_mutex_unlock(&current_logdir->lock);
}

/* ---- the thread ---- */

static bool has_unsent_bytes(const struct qr_logdir *l) {
    for (size_t i = 0; i < l->n_files; i++)
        if (l->files[i].uploaded < l->files[i].written) return true;
    return false;
}

static enum qr_code upload(struct qr_logdir *l, const char *name, size_t bytes, bool create,
                           struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf content = {0};
    qr_auto(qr_free_p) char *path = qr_path_join(l->folder, name),
                            *object = *l->prefix ? qr_path_join(l->prefix, name) : qr_xstrdup(name);
    QR_TRY(qr_file_read(path, READ_MAX_BYTES, &content, err));
    if (content.n < bytes)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s has %zu bytes, but %zu were written: it was truncated", path, content.n,
                       bytes);
    /* Only whole records. */
    return l->store->ops->put(l->store, object, qr_bytes_of(content.p, bytes), create, err);
}

/* Uploads every file that has grown, once. The lock is held at entry and exit. */
static enum qr_code upload_changed(struct qr_logdir *l, struct qr_err *err) {
    for (size_t i = 0; i < l->n_files; i++) {
        struct file f = l->files[i];
        if (f.uploaded == f.written) continue;
        l->fresh = l->closing;
        l->files[i].tried = true;
        pthread_mutex_unlock(&l->lock);
        enum qr_code code = upload(l, f.name, f.written, !f.tried, err);
        pthread_mutex_lock(&l->lock);
        /* The object of another writer is not replaced. */
        if (code == QR_FAILED_PRECONDITION) l->files[i].tried = f.tried;
        if (code != QR_OK) return code;
        l->files[i].uploaded = f.written;
    }
    return QR_OK;
}

static void log_outcome(struct qr_logdir *l, enum qr_code code, const struct qr_err *err) {
    if (code == QR_OK && l->failing)
        qr_info(l->log, "worker", "uploads of TensorBoard events to %s succeed again", l->url);
    if (code != QR_OK && !l->failing && !l->closing)
        qr_warn(l->log, "worker",
                "cannot upload TensorBoard events to %s: %s; training continues, the events are "
                "kept in %s and the upload is retried",
                l->url, err->msg, l->folder);
    l->failing = code != QR_OK && (l->failing || !l->closing);
    if (code != QR_OK) l->last = *err;
}

static void *run_uploads(void *arg) {
    struct qr_logdir *l = arg;
    current_logdir = l;
    pthread_mutex_lock(&l->lock);
    for (;;) {
        struct qr_err err = {0};
        bool work = has_unsent_bytes(l);
        if (l->closing && (!work || logdir_now() >= l->deadline_ns)) break;
        if (!work && !l->closing) {
            pthread_cond_wait(&l->wake, &l->lock);
            continue;
        }
        if (!l->closing && logdir_now() < l->next_ns) {
            logdir_wait_until(l, &l->wake, l->next_ns);
            continue;
        }
        int64_t began_ns = logdir_now();
        bool last = l->closing;
        enum qr_code code = upload_changed(l, &err);
        bool refused = code != QR_OK && qr_exit_code(code) != 138;
        log_outcome(l, code, &err);
        l->next_ns = (refused ? refused_ns : l->interval_ns) + began_ns;
        /* Also stop if the next retry would come too late. */
        if (last && (refused || (code != QR_OK && logdir_now() + again_ns >= l->deadline_ns)))
            break;
        if (last && code != QR_OK) logdir_wait_until(l, &l->wake, logdir_now() + again_ns);
    }
    l->finished = true;
    pthread_cond_broadcast(&l->ended);
    bool abandoned = l->abandoned;
    pthread_mutex_unlock(&l->lock);
    if (abandoned) free_logdir(l);
    return NULL;
}

/* ---- the training thread ---- */

void qr_logdir_wrote(void *logdir, const char *name, size_t bytes) {
    struct qr_logdir *l = logdir;
    size_t i = 0;
    pthread_mutex_lock(&l->lock);
    while (i < l->n_files && strcmp(l->files[i].name, name) != 0) i++;
    if (i == l->n_files) {
        l->files = qr_xreallocarray(l->files, l->n_files + 1, sizeof *l->files);
        l->files[l->n_files++] = (struct file){.name = qr_xstrdup(name)};
    }
    l->files[i].written = bytes;
    /* If no thread can be started, retried with the next record. */
    if (!l->started) l->started = pthread_create(&l->thread, NULL, run_uploads, l) == 0;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
}

/* Returns "gs://bucket/path" without trailing slashes. */
static char *trimmed(const char *url) {
    size_t n = strlen(url);
    while (n && url[n - 1] == '/') n--;
    return qr_xstrndup(url, n);
}

enum qr_code qr_logdir_check(const char *url, struct qr_err *err) {
    qr_auto(qr_store_close_p) struct qr_store *store = NULL;
    qr_auto(qr_free_p) char *root = trimmed(url), *below = qr_xasprintf("%s/train/", root),
                            *name = NULL;
    if (qr_store_resolve(below, &store, &name, err) == QR_OK &&
        store->ops->check_writable(store, name, err) == QR_OK)
        return QR_OK;
    return qr_wrap(err, "TensorBoard events (--logdir)");
}

enum qr_code qr_logdir_open(const struct qr_logdir_options *opt, struct qr_logdir **ret,
                            struct qr_err *err) {
    qr_auto(qr_free_p) char *url = trimmed(opt->url);
    const char *bucket = strstr(url, "://") ? strstr(url, "://") + 3 : url,
               *slash = strchr(bucket, '/');
    struct qr_store *store = opt->store;
    if (!store) {
        const struct qr_store_waits waits = {.deadline_ns = outage_ns,
                                             .stop_deadline_ns = 1,
                                             .stopping = uploads_stopping,
                                             .sleep = uploads_sleep};
        qr_auto(qr_free_p) char *below = qr_xasprintf("%s/train/", url), *name = NULL;
        if (qr_store_resolve_waiting(below, &waits, &store, &name, err) != QR_OK)
            return qr_wrap(err, "TensorBoard events (--logdir)");
    }
    struct qr_logdir *l = qr_xcalloc(1, sizeof *l);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&l->wake, &monotonic);
    pthread_cond_init(&l->ended, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&l->lock, NULL);
    l->prefix = qr_xstrdup(slash ? slash + 1 : "");
    l->url = QR_MOVE(url);
    l->folder = qr_xstrdup(opt->folder);
    l->store = store;
    l->interval_ns = opt->interval_ns ? opt->interval_ns : interval_ns;
    l->stopping = opt->stopping;
    l->log = opt->log;
    *ret = l;
    return QR_OK;
}

/* Logs how many bytes were not uploaded. Called with the lock held. */
static void warn_missing(const struct qr_logdir *l) {
    size_t missing = 0, written = 0;
    for (size_t i = 0; i < l->n_files; i++) {
        written += l->files[i].written;
        missing += l->files[i].written - l->files[i].uploaded;
    }
    if (missing)
        qr_warn(l->log, "worker",
                "%zu of %zu bytes of TensorBoard events are not in %s%s%s; %s has all of them",
                missing, written, l->url, *l->last.msg ? ": " : "", l->last.msg, l->folder);
}

bool qr_logdir_close(struct qr_logdir *l, int64_t bound_ns) {
    if (!l) return true;
    pthread_mutex_lock(&l->lock);
    l->deadline_ns = logdir_now() + bound_ns;
    l->closing = true;
    pthread_cond_broadcast(&l->wake);
    bool stopping = false;
    while (l->started && !l->finished && logdir_now() < l->deadline_ns + beyond_ns) {
        /* Polled, since SIGTERM may come during the wait. */
        if (!stopping && l->stopping && l->stopping()) {
            stopping = true;
            if (logdir_now() + stopped_ns < l->deadline_ns)
                l->deadline_ns = logdir_now() + stopped_ns;
            pthread_cond_broadcast(&l->wake);
        }
        int64_t end_ns = l->deadline_ns + beyond_ns, look_ns = logdir_now() + again_ns;
        logdir_wait_until(l, &l->ended, end_ns < look_ns ? end_ns : look_ns);
    }
    bool left = l->started && !l->finished;
    warn_missing(l);
    l->abandoned = left;
    bool started = l->started;
    if (left) pthread_detach(l->thread);
    pthread_mutex_unlock(&l->lock);
    if (left) return false;
    if (started) pthread_join(l->thread, NULL);
    free_logdir(l);
    return true;
}
