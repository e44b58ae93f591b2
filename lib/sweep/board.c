#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "sweep/board_impl.h"

enum { MAX_ROW_BYTES = 1 << 16, MAX_CLAIM_BYTES = 4096, MAX_TEXT_BYTES = 64 << 20 };
static const int64_t longest_lease_ns = 86400 * QR_SECOND;

/* Of one claim of somebody else. */
struct seen {
    struct qr_store_version version;
    int64_t since_ns; /* 0: not seen yet */
};

struct qr_sweep_board {
    struct qr_sweep_board_options opt;
    struct qr_store *store;
    char *url, *dir; /* of the store, with a '/' at its end */
    struct seen *seen;
    uint64_t beat;
    int64_t kept_ns, moved_ns;
};

static size_t place(const struct qr_sweep_board *b, size_t rung, size_t trial) {
    QR_ASSERT(rung < b->opt.n_rungs && trial < b->opt.n_trials);
    return rung * b->opt.n_trials + trial;
}

static char *claim_name(const struct qr_sweep_board *b, size_t rung, size_t trial) {
    return qr_xasprintf("%sclaims/%zu-%04zu", b->dir, rung, trial);
}
static char *row_name(const struct qr_sweep_board *b, size_t rung, size_t trial) {
    return qr_xasprintf("%srows/%zu-%04zu.json", b->dir, rung, trial);
}

static char *url_of(const struct qr_sweep_board_options *opt) {
    size_t n = strlen(opt->url);
    while (n > 1 && opt->url[n - 1] == '/') n--;
    return qr_xasprintf("%.*s/sweep", (int)n, opt->url);
}

struct qr_sweep_board *qr_sweep_board_over(const struct qr_sweep_board_options *opt,
                                           struct qr_store *store, char *dir) {
    struct qr_sweep_board *b = qr_xcalloc(1, sizeof *b);
    b->opt = *opt;
    b->store = store;
    b->url = url_of(opt);
    b->dir = dir;
    b->seen = qr_xcalloc(opt->n_trials * opt->n_rungs, sizeof *b->seen);
    return b;
}

enum qr_code qr_sweep_board_open(const struct qr_sweep_board_options *opt,
                                 struct qr_sweep_board **ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *url = url_of(opt), *inside = qr_xasprintf("%s/x", url);
    struct qr_store *store;
    char *name = NULL;
    enum qr_code code = opt->waits
                            ? qr_store_resolve_waiting(inside, opt->waits, &store, &name, err)
                            : qr_store_resolve(inside, &store, &name, err);
    if (code != QR_OK) return code;
    name[strlen(name) - 1] = 0; /* the x */
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

enum qr_code qr_sweep_board_begin(struct qr_sweep_board *b, struct qr_bytes text,
                                  struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = qr_xasprintf("%sjob.json", b->dir);
    enum qr_code code = b->store->ops->put(b->store, name, text, true, err);
    if (code != QR_OK && code != QR_FAILED_PRECONDITION) return code;
    return b->store->ops->get(b->store, name, MAX_TEXT_BYTES, ret, err);
}

/* Everything whose name begins so. */
static enum qr_code remove_all(struct qr_sweep_board *b, const char *prefix, struct qr_err *err) {
    struct qr_buf names = {0};
    enum qr_code code = b->store->ops->list(b->store, prefix, &names, err);
    const char *rest = code == QR_OK ? qr_buf_string(&names) : "";
    while (*rest && code == QR_OK) {
        size_t n = strcspn(rest, "\n");
        qr_auto(qr_free_p) char *name = qr_xstrndup(rest, n);
        code = b->store->ops->remove(b->store, name, err);
        if (code == QR_NOT_FOUND) code = QR_OK; /* another one of us took it away */
        rest += n + (rest[n] == '\n');
    }
    qr_buf_free(&names);
    return code;
}

enum qr_code qr_sweep_board_forget(struct qr_sweep_board *b, struct qr_err *err) {
    return remove_all(b, b->dir, err);
}

void qr_sweep_board_end(struct qr_sweep_board *b) {
    qr_auto(qr_free_p) char *claims = qr_xasprintf("%sclaims/", b->dir);
    struct qr_err unread;
    /* what stays is in nobody's way */
    if (remove_all(b, claims, &unread) != QR_OK) return;
}

/* ---- rows ---- */

/* "…/rows/0-0012.json" of this sweep. */
static bool names_row(const struct qr_sweep_board *b, const char *name, size_t *ret_rung,
                      size_t *ret_trial) {
    const char *at = strrchr(name, '/');
    at = at ? at + 1 : name;
    size_t first = strcspn(at, "-"), second = at[first] ? strcspn(at + first + 1, ".") : 0;
    if (!second || strcmp(at + first + 1 + second, ".json") != 0) return false;
    qr_auto(qr_free_p) char *of_rung = qr_xstrndup(at, first),
                            *of_trial = qr_xstrndup(at + first + 1, second);
    uint64_t rung, trial;
    if (!qr_parse_u64(of_rung, &rung) || !qr_parse_u64(of_trial, &trial) ||
        rung >= b->opt.n_rungs || trial >= b->opt.n_trials)
        return false;
    *ret_rung = (size_t)rung;
    *ret_trial = (size_t)trial;
    return true;
}

static enum qr_code fetch(struct qr_sweep_board *b, const char *name, size_t rung, size_t trial,
                          struct qr_sweep_row *ret, struct qr_err *err) {
    struct qr_buf text = {0};
    struct qr_sweep_row r = {0};
    qr_auto(qr_free_p) char *what = qr_xasprintf("%s/rows/%zu-%04zu.json", b->url, rung, trial);
    enum qr_code code = b->store->ops->get(b->store, name, MAX_ROW_BYTES, &text, err);
    if (code == QR_OK && (qr_sweep_row_read(qr_buf_view(&text), what, &r, err) != QR_OK ||
                          r.trial != trial || r.rung != rung))
        code = qr_fail(err, QR_DATA_LOSS,
                       "%s is not the row of that trial; remove it, and the trial is trained again",
                       what);
    if (code == QR_OK) *ret = r;
    else qr_sweep_row_fini(&r);
    qr_buf_free(&text);
    return code;
}

enum qr_code qr_sweep_board_rows(struct qr_sweep_board *b, struct qr_sweep_rows *rows,
                                 struct qr_err *err) {
    struct qr_buf names = {0};
    qr_auto(qr_free_p) char *prefix = qr_xasprintf("%srows/", b->dir);
    enum qr_code code = b->store->ops->list(b->store, prefix, &names, err);
    const char *rest = code == QR_OK ? qr_buf_string(&names) : "";
    while (*rest && code == QR_OK) {
        size_t n = strcspn(rest, "\n"), rung, trial;
        qr_auto(qr_free_p) char *name = qr_xstrndup(rest, n);
        rest += n + (rest[n] == '\n');
        if (!names_row(b, name, &rung, &trial) || qr_sweep_row_at(rows, rung, trial)->there)
            continue;
        code = fetch(b, name, rung, trial, qr_sweep_row_at(rows, rung, trial), err);
    }
    qr_buf_free(&names);
    return code;
}

enum qr_code qr_sweep_board_put(struct qr_sweep_board *b, const struct qr_sweep_row *row,
                                struct qr_err *err) {
    struct qr_buf text = {0}, there = {0};
    qr_auto(qr_free_p) char *name = row_name(b, row->rung, row->trial);
    qr_sweep_row_json(row, &text);
    enum qr_code code = b->store->ops->put(b->store, name, qr_buf_view(&text), true, err);
    if (code == QR_FAILED_PRECONDITION) {
        code = b->store->ops->get(b->store, name, MAX_ROW_BYTES, &there, err);
        if (code == QR_OK && (there.n != text.n || memcmp(there.p, text.p, text.n) != 0))
            code = qr_fail(err, QR_INTERNAL,
                           "%s/rows/%zu-%04zu.json: trial %zu came to something else here: %.200s",
                           b->url, row->rung, row->trial, row->trial, qr_buf_string(&text));
    }
    qr_buf_free(&text);
    qr_buf_free(&there);
    return code;
}

/* ---- claims ---- */

enum qr_code qr_sweep_claim_read(struct qr_bytes text, const char *what, struct qr_sweep_claim *ret,
                                 struct qr_err *err) {
    static const char *const keys[] = {"holder", "beat", "lease_ms"};
    qr_auto(qr_json_free_p) struct qr_json *o = NULL;
    struct qr_sweep_claim c = {0};
    const char *holder = "";
    int64_t beat = 0, lease_ms = 0;
    struct qr_err own;
    if (!err) err = &own;
    enum qr_code code = qr_json_parse(text, what, &o, err);
    if (code == QR_OK) code = qr_json_want(o, what, QR_JSON_OBJECT, err);
    if (code == QR_OK) code = qr_json_known(o, what, keys, 3, err);
    if (code == QR_OK) code = qr_json_string(qr_json_get(o, "holder"), "holder", &holder, err);
    if (code == QR_OK)
        code = qr_json_i64(qr_json_get(o, "beat"), "beat", 0, INT64_C(1) << 53, &beat, err);
    if (code == QR_OK)
        code = qr_json_i64(qr_json_get(o, "lease_ms"), "lease_ms", 0, longest_lease_ns / QR_MS,
                           &lease_ms, err);
    if (code == QR_OK && strlen(holder) >= sizeof c.holder)
        code = qr_fail(err, QR_INVALID_ARGUMENT, "holder: at most 32 characters are one");
    if (code != QR_OK) return qr_wrap(err, "%s", what);
    snprintf(c.holder, sizeof c.holder, "%s", holder);
    c.beat = (uint64_t)beat;
    c.lease_ns = lease_ms * QR_MS;
    *ret = c;
    return QR_OK;
}

/* Puts ours, or a free one, where that version is. *ret_done false: somebody was faster. */
static enum qr_code swap(struct qr_sweep_board *b, const char *name,
                         const struct qr_store_version *seen, const char *holder, bool *ret_done,
                         struct qr_err *err) {
    struct qr_buf text = {0};
    qr_buf_printf(&text, "{\"holder\":\"%s\",\"beat\":%llu,\"lease_ms\":%lld}\n", holder,
                  (unsigned long long)++b->beat, (long long)(b->opt.lease_ns / QR_MS));
    enum qr_code code = b->store->ops->swap(b->store, name, qr_buf_view(&text), seen, err);
    qr_buf_free(&text);
    *ret_done = code == QR_OK;
    if (code == QR_OK) b->kept_ns = qr_now_ns(b->opt.clock);
    return code == QR_FAILED_PRECONDITION ? QR_OK : code;
}

/* What is there: *ret_version.there false: nothing. One that cannot be read is somebody's, with our
 * own patience. */
static enum qr_code look(struct qr_sweep_board *b, const char *name, struct qr_sweep_claim *ret,
                         struct qr_store_version *ret_version, struct qr_err *err) {
    struct qr_buf text = {0};
    struct qr_err unread;
    enum qr_code code =
        b->store->ops->get_version(b->store, name, MAX_CLAIM_BYTES, &text, ret_version, err);
    if (code == QR_OK && ret_version->there &&
        qr_sweep_claim_read(qr_buf_view(&text), name, ret, &unread) != QR_OK)
        *ret = (struct qr_sweep_claim){.holder = "?", .lease_ns = b->opt.lease_ns};
    qr_buf_free(&text);
    return code;
}

/* Has this claim stood still for its lease? */
static bool is_silent(struct qr_sweep_board *b, struct seen *s, const struct qr_sweep_claim *c,
                      const struct qr_store_version *version) {
    int64_t now = qr_now_ns(b->opt.clock);
    if (!s->since_ns || memcmp(s->version.id, version->id, sizeof version->id) != 0) {
        if (s->since_ns) b->moved_ns = now;
        *s = (struct seen){.version = *version, .since_ns = now ? now : 1};
        return false;
    }
    return now - s->since_ns >= c->lease_ns;
}

enum qr_code qr_sweep_board_take(struct qr_sweep_board *b, size_t rung, size_t trial,
                                 bool *ret_mine, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = claim_name(b, rung, trial);
    struct qr_sweep_claim c = {0};
    struct qr_store_version version;
    *ret_mine = false;
    enum qr_code code = look(b, name, &c, &version, err);
    if (code != QR_OK) return code;
    bool free = !version.there || !*c.holder || strcmp(c.holder, b->opt.holder) == 0;
    if (!free && !is_silent(b, &b->seen[place(b, rung, trial)], &c, &version)) return QR_OK;
    return swap(b, name, &version, b->opt.holder, ret_mine, err);
}

enum qr_code qr_sweep_board_keep(struct qr_sweep_board *b, size_t rung, size_t trial,
                                 bool *ret_mine, struct qr_err *err) {
    *ret_mine = true;
    if (qr_now_ns(b->opt.clock) - b->kept_ns < b->opt.lease_ns / 5) return QR_OK;
    qr_auto(qr_free_p) char *name = claim_name(b, rung, trial);
    struct qr_sweep_claim c = {0};
    struct qr_store_version version;
    enum qr_code code = look(b, name, &c, &version, err);
    if (code != QR_OK) return code;
    *ret_mine = version.there && strcmp(c.holder, b->opt.holder) == 0;
    return *ret_mine ? swap(b, name, &version, b->opt.holder, ret_mine, err) : QR_OK;
}

void qr_sweep_board_give(struct qr_sweep_board *b, size_t rung, size_t trial) {
    qr_auto(qr_free_p) char *name = claim_name(b, rung, trial);
    struct qr_sweep_claim c = {0};
    struct qr_store_version version;
    struct qr_err unread; /* it is silent from now on in any case */
    bool done;
    if (look(b, name, &c, &version, &unread) != QR_OK || !version.there ||
        strcmp(c.holder, b->opt.holder) != 0)
        return;
    if (swap(b, name, &version, "", &done, &unread) != QR_OK) return;
}

int64_t qr_sweep_board_moved_ns(const struct qr_sweep_board *b) { return b->moved_ns; }
