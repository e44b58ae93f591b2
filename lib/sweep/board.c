/* sweep/board.c — rows and claims in a store. Start reading at qr_sweep_board_claim(). */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/parse.h"
#include "sweep/board_impl.h"

enum { MAX_ROW_BYTES = 1 << 16, MAX_CLAIM_BYTES = 4096, MAX_TEXT_BYTES = 64 << 20 };
#define DIGITS "0123456789"
static const int64_t max_lease_ns = 86400 * QR_SECOND;

/* A claim of another worker. */
struct seen_claim {
    struct qr_store_version version;
    int64_t since_ns; /* time at which version was first seen; 0: not yet */
    bool warned;      /* a warning about an invalid claim was logged */
};

struct qr_sweep_board {
    struct qr_sweep_board_options opt;
    struct qr_store *store;
    char *url, *dir; /* dir: name prefix in the store, with a trailing '/' */
    struct seen_claim *seen;
    uint64_t beat;
    int64_t renewed_ns, renewal_seen_ns;
};

static size_t claim_index(const struct qr_sweep_board *b, size_t rung, size_t trial) {
    QR_ASSERT(rung < b->opt.n_rungs && trial < b->opt.n_trials);
    return rung * b->opt.n_trials + trial;
}

static char *claim_name(const struct qr_sweep_board *b, size_t rung, size_t trial) {
    return qr_xasprintf("%sclaims/%zu-%04zu", b->dir, rung, trial);
}
static char *row_name(const struct qr_sweep_board *b, size_t rung, size_t trial) {
    return qr_xasprintf("%srows/%zu-%04zu.json", b->dir, rung, trial);
}

static char *board_url(const struct qr_sweep_board_options *opt) {
    size_t n = strlen(opt->url);
    while (n > 1 && opt->url[n - 1] == '/') n--;
    return qr_xasprintf("%.*s/sweep", (int)n, opt->url);
}

struct qr_sweep_board *qr_sweep_board_over(const struct qr_sweep_board_options *opt,
                                           struct qr_store *store, char *dir) {
    struct qr_sweep_board *b = qr_xcalloc(1, sizeof *b);
    b->opt = *opt;
    b->store = store;
    b->url = board_url(opt);
    b->dir = dir;
    b->seen = qr_xcalloc(opt->n_trials * opt->n_rungs, sizeof *b->seen);
    return b;
}

enum qr_code qr_sweep_board_open(const struct qr_sweep_board_options *opt,
                                 struct qr_sweep_board **ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = board_url(opt), *inside = qr_xasprintf("%s/x", url);
    struct qr_store *store;
    char *name = NULL;
    QR_TRY(opt->waits ? qr_store_resolve_waiting(inside, opt->waits, &store, &name, err)
                      : qr_store_resolve(inside, &store, &name, err));
    name[strlen(name) - 1] = 0; /* remove the x */
    *ret = qr_sweep_board_over(opt, store, name);
    return QR_OK;
}

void qr_sweep_board_close(struct qr_sweep_board *b) {
    if (!b) return;
    if (b->store) b->store->ops->close(b->store);
    free(b->url);
    free(b->dir);
    free(b->seen);
    free(b);
}

enum qr_code qr_sweep_board_publish(struct qr_sweep_board *b, struct qr_bytes text,
                                    struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = qr_xasprintf("%sjob.json", b->dir);
    enum qr_code code = b->store->ops->put(b->store, name, text, true, err);
    if (code != QR_OK && code != QR_FAILED_PRECONDITION) return code;
    return b->store->ops->get(b->store, name, MAX_TEXT_BYTES, ret, err);
}

/* ---- names ---- */

typedef char *name_fn(const struct qr_sweep_board *b, size_t rung, size_t trial);

/* True when `name` is a name that `of` returns for some trial and rung, of any sweep. */
static bool parse_object_name(const struct qr_sweep_board *b, const char *name, name_fn *of,
                              size_t *ret_rung, size_t *ret_trial) {
    const char *at = strrchr(name, '/');
    at = at ? at + 1 : name;
    size_t first = strspn(at, DIGITS), second = at[first] ? strspn(at + first + 1, DIGITS) : 0;
    qr_auto(qr_free_p) char *of_rung = qr_xstrndup(at, first),
                            *of_trial = qr_xstrndup(at + first + (at[first] != 0), second);
    uint64_t rung, trial;
    if (!qr_parse_u64(of_rung, &rung) || !qr_parse_u64(of_trial, &trial) ||
        rung >= QR_SWEEP_MAX_RUNGS || trial >= QR_SWEEP_MAX_TRIALS)
        return false;
    *ret_rung = (size_t)rung;
    *ret_trial = (size_t)trial;
    qr_auto(qr_free_p) char *exact = of(b, *ret_rung, *ret_trial);
    return strcmp(name, exact) == 0;
}

/* Removes the objects of a folder of the board whose names `of` returns for some trial and rung. */
static enum qr_code remove_objects(struct qr_sweep_board *b, const char *folder, name_fn *of,
                                   struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    qr_auto(qr_free_p) char *prefix = qr_xasprintf("%s%s/", b->dir, folder);
    QR_TRY(b->store->ops->list(b->store, prefix, &names, err));
    for (char *rest = (char *)names.p, *name; (name = strsep(&rest, "\n"));) {
        size_t rung, trial;
        if (!parse_object_name(b, name, of, &rung, &trial)) continue;
        enum qr_code code = b->store->ops->remove(b->store, name, err);
        /* Not found: another worker removed it. */
        if (code != QR_OK && code != QR_NOT_FOUND) return code;
    }
    return QR_OK;
}

/* Rejects symbolic links: files below them do not belong to the sweep. */
static enum qr_code board_check_folders(const struct qr_sweep_board *b, struct qr_err *err) {
    static const char *const folders[] = {"", "rows", "claims"};
    for (size_t i = 0; i < 3 && !qr_url_remote(b->opt.url); i++) {
        qr_auto(qr_free_p) char *path = qr_xasprintf("%s%s", b->dir, folders[i]);
        QR_TRY(qr_dir_check_no_link(path, err));
    }
    return QR_OK;
}

/* Deletes job.json last: while it exists, remaining rows cannot be mistaken for another sweep's. */
enum qr_code qr_sweep_board_delete(struct qr_sweep_board *b, struct qr_err *err) {
    qr_auto(qr_free_p) char *text = qr_xasprintf("%sjob.json", b->dir);
    enum qr_code code = board_check_folders(b, err);
    if (code == QR_OK) code = remove_objects(b, "rows", row_name, err);
    if (code == QR_OK) code = remove_objects(b, "claims", claim_name, err);
    if (code == QR_OK) code = b->store->ops->remove(b->store, text, err);
    return code == QR_NOT_FOUND ? QR_OK : code;
}

void qr_sweep_board_delete_claims(struct qr_sweep_board *b) {
    /* Remaining claims do no harm. */
    (void)(board_check_folders(b, QR_IGNORED) == QR_OK &&
           remove_objects(b, "claims", claim_name, QR_IGNORED) == QR_OK);
}

/* ---- rows ---- */

/* Checks that the row has the job hash of this sweep's trial. */
static enum qr_code row_check_hash(const struct qr_sweep_board *b, const struct qr_sweep_rows *rows,
                                   const struct qr_sweep_row *r, struct qr_err *err) {
    if (!rows->hash || strcmp(rows->hash[r->trial], r->job_hash) == 0) return QR_OK;
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "cannot continue the sweep in %.200s: its row of trial %zu is of other data or "
        "another version (job hash %.12s, expected %.12s); choose another --out or --to, "
        "or --fresh, which removes that sweep",
        b->opt.url, r->trial, *r->job_hash ? r->job_hash : "none",
        *rows->hash[r->trial] ? rows->hash[r->trial] : "none");
}

static enum qr_code fetch_row(struct qr_sweep_board *b, const char *name, size_t rung, size_t trial,
                              struct qr_sweep_rows *rows, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_auto(qr_sweep_row_fini) struct qr_sweep_row r = {0};
    qr_auto(qr_free_p) char *what = qr_xasprintf("%s/rows/%zu-%04zu.json", b->url, rung, trial);
    QR_TRY(b->store->ops->get(b->store, name, MAX_ROW_BYTES, &text, err));
    if (qr_sweep_row_read(qr_buf_view(&text), what, &r, err) != QR_OK || r.trial != trial ||
        r.rung != rung)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s is not the row of that trial; remove it, and the trial is trained again",
                       what);
    QR_TRY(row_check_hash(b, rows, &r, err));
    *qr_sweep_row_at(rows, rung, trial) = QR_MOVE(r);
    return QR_OK;
}

enum qr_code qr_sweep_board_rows(struct qr_sweep_board *b, struct qr_sweep_rows *rows,
                                 struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    qr_auto(qr_free_p) char *prefix = qr_xasprintf("%srows/", b->dir);
    QR_TRY(b->store->ops->list(b->store, prefix, &names, err));
    for (char *rest = (char *)names.p, *name; (name = strsep(&rest, "\n"));) {
        size_t rung, trial;
        if (parse_object_name(b, name, row_name, &rung, &trial) && rung < b->opt.n_rungs &&
            trial < b->opt.n_trials && !qr_sweep_row_at(rows, rung, trial)->there)
            QR_TRY(fetch_row(b, name, rung, trial, rows, err));
    }
    return QR_OK;
}

enum qr_code qr_sweep_board_add_row(struct qr_sweep_board *b, const struct qr_sweep_row *row,
                                    struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0}, there = {0};
    qr_auto(qr_free_p) char *name = row_name(b, row->rung, row->trial);
    qr_sweep_row_json(row, &text);
    enum qr_code code = b->store->ops->put(b->store, name, qr_buf_view(&text), true, err);
    if (code != QR_FAILED_PRECONDITION) return code;
    QR_TRY(b->store->ops->get(b->store, name, MAX_ROW_BYTES, &there, err));
    if (there.n == text.n && memcmp(there.p, text.p, text.n) == 0) return QR_OK;
    return qr_fail(err, QR_INTERNAL,
                   "%s/rows/%zu-%04zu.json: trial %zu has another result here: %.200s", b->url,
                   row->rung, row->trial, row->trial, qr_buf_string(&text));
}

/* ---- claims ---- */

static enum qr_code parse_claim(struct qr_bytes text, const char *what, struct qr_sweep_claim *ret,
                                struct qr_err *err) {
    static const char *const keys[] = {"holder", "beat", "kept", "lease_ms"};
    qr_auto(qr_json_free_p) struct qr_json *o = NULL;
    const int64_t most = INT64_C(1) << 53;
    const char *holder;
    int64_t beat, kept, lease_ms;
    QR_TRY(qr_json_parse(text, what, &o, err));
    QR_TRY(qr_json_want(o, what, QR_JSON_OBJECT, err));
    QR_TRY(qr_json_known(o, what, keys, 4, err));
    QR_TRY(qr_json_string(qr_json_get(o, "holder"), "holder", &holder, err));
    QR_TRY(qr_json_i64(qr_json_get(o, "beat"), "beat", 0, most, &beat, err));
    QR_TRY(qr_json_i64(qr_json_get(o, "kept"), "kept", 0, most, &kept, err));
    QR_TRY(qr_json_i64(qr_json_get(o, "lease_ms"), "lease_ms", 0, max_lease_ns / QR_MS, &lease_ms,
                       err));
    if (strlen(holder) >= sizeof ret->holder)
        return qr_fail(err, QR_INVALID_ARGUMENT, "holder is longer than 32 characters");
    *ret = (struct qr_sweep_claim){
        .beat = (uint64_t)beat, .kept = (uint64_t)kept, .lease_ns = lease_ms * QR_MS};
    memcpy(ret->holder, holder, strlen(holder));
    return QR_OK;
}

enum qr_code qr_sweep_claim_read(struct qr_bytes text, const char *what, struct qr_sweep_claim *ret,
                                 struct qr_err *err) {
    return parse_claim(text, what, ret, err) == QR_OK ? QR_OK : qr_wrap(err, "%s", what);
}

/* Replaces the claim of that version by this holder's, or by a free one (holder ""). *ret_done
 * false: another worker has changed it. */
static enum qr_code swap_claim(struct qr_sweep_board *b, const char *name,
                               const struct qr_store_version *seen, const char *holder,
                               uint64_t kept, bool *ret_done, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_buf_printf(&text, "{\"holder\":\"%s\",\"beat\":%llu,\"kept\":%llu,\"lease_ms\":%lld}\n",
                  holder, (unsigned long long)++b->beat, (unsigned long long)kept,
                  (long long)(b->opt.lease_ns / QR_MS));
    enum qr_code code = b->store->ops->swap(b->store, name, qr_buf_view(&text), seen, err);
    *ret_done = code == QR_OK;
    if (code == QR_OK) b->renewed_ns = qr_now_ns(b->opt.clock);
    return code == QR_FAILED_PRECONDITION ? QR_OK : code;
}

/* Reads a claim; *ret_version.there false: none. A malformed claim counts as another worker's, with
 * this worker's lease. */
static enum qr_code read_claim(struct qr_sweep_board *b, const char *name,
                               struct qr_sweep_claim *ret, struct qr_store_version *ret_version,
                               struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    QR_TRY(b->store->ops->get_version(b->store, name, MAX_CLAIM_BYTES, &text, ret_version, err));
    if (ret_version->there &&
        qr_sweep_claim_read(qr_buf_view(&text), name, ret, QR_IGNORED) != QR_OK)
        *ret = (struct qr_sweep_claim){.holder = "?", .lease_ns = b->opt.lease_ns};
    return QR_OK;
}

/* True when the object at a claim's name cannot be a claim: it is too long, a FIFO or a folder. Out
 * of memory, which has an errno, is a different error, and so is a rejection by a bucket. */
static bool is_invalid_claim(const struct qr_sweep_board *b, enum qr_code code,
                             const struct qr_err *err) {
    return (code == QR_INVALID_ARGUMENT && !qr_url_remote(b->url)) ||
           (code == QR_RESOURCE_EXHAUSTED && !err->sys);
}

/* Removes an invalid claim; err has the reason. False: it cannot be removed. */
static bool remove_invalid_claim(struct qr_sweep_board *b, const char *name, struct seen_claim *s,
                                 const struct qr_err *err) {
    enum qr_code code = b->store->ops->remove(b->store, name, QR_IGNORED);
    bool removed = code == QR_OK || code == QR_NOT_FOUND;
    if (removed) qr_warn(b->opt.log, "qring", "removed an invalid claim: %s", err->msg);
    else if (!s->warned)
        qr_warn(b->opt.log, "qring", "training without a claim, since none can be written: %s",
                err->msg);
    s->warned = !removed;
    return removed;
}

/* True when this claim has not changed for its lease. */
static bool is_lease_expired(struct qr_sweep_board *b, struct seen_claim *s,
                             const struct qr_sweep_claim *c,
                             const struct qr_store_version *version) {
    int64_t now = qr_now_ns(b->opt.clock);
    if (!s->since_ns || memcmp(s->version.id, version->id, sizeof version->id) != 0) {
        if (s->since_ns && c->kept) b->renewal_seen_ns = now;
        s->version = *version;
        s->since_ns = now ? now : 1;
        return false;
    }
    return now - s->since_ns >= c->lease_ns;
}

enum qr_code qr_sweep_board_claim(struct qr_sweep_board *b, size_t rung, size_t trial,
                                  bool *ret_mine, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = claim_name(b, rung, trial);
    struct seen_claim *s = &b->seen[claim_index(b, rung, trial)];
    struct qr_sweep_claim c = {0};
    struct qr_store_version version = {0};
    *ret_mine = false;
    enum qr_code code = read_claim(b, name, &c, &version, err);
    if (is_invalid_claim(b, code, err)) {
        *ret_mine = !remove_invalid_claim(b, name, s, err);
        if (*ret_mine) return QR_OK;
    } else if (code != QR_OK) {
        return code;
    }
    bool free = !version.there || !*c.holder || strcmp(c.holder, b->opt.holder) == 0;
    if (!free && !is_lease_expired(b, s, &c, &version)) return QR_OK;
    return swap_claim(b, name, &version, b->opt.holder, 0, ret_mine, err);
}

enum qr_code qr_sweep_board_renew(struct qr_sweep_board *b, size_t rung, size_t trial,
                                  bool *ret_mine, struct qr_err *err) {
    *ret_mine = true;
    if (qr_now_ns(b->opt.clock) - b->renewed_ns < b->opt.lease_ns / 5) return QR_OK;
    qr_auto(qr_free_p) char *name = claim_name(b, rung, trial);
    struct qr_sweep_claim c = {0};
    struct qr_store_version version;
    QR_TRY(read_claim(b, name, &c, &version, err));
    *ret_mine = version.there && strcmp(c.holder, b->opt.holder) == 0;
    return *ret_mine ? swap_claim(b, name, &version, b->opt.holder, c.kept + 1, ret_mine, err)
                     : QR_OK;
}

void qr_sweep_board_release(struct qr_sweep_board *b, size_t rung, size_t trial) {
    qr_auto(qr_free_p) char *name = claim_name(b, rung, trial);
    struct qr_sweep_claim c = {0};
    struct qr_store_version version;
    bool done;
    (void)(read_claim(b, name, &c, &version, QR_IGNORED) == QR_OK && version.there &&
           strcmp(c.holder, b->opt.holder) == 0 &&
           swap_claim(b, name, &version, "", 0, &done, QR_IGNORED) == QR_OK);
}

int64_t qr_sweep_board_renewal_seen_ns(const struct qr_sweep_board *b) {
    return b->renewal_seen_ns;
}
