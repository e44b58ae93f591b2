/* record/checkpoint_store.c — publishes, finds and deletes checkpoints in a store. Start reading at
 * qr_checkpoint_save(). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "record/checkpoint.h"
#include "record/checkpoint_impl.h"

enum { MAX_LATEST_BYTES = 4096, MAX_TRIES = 16 };
static const size_t checkpoint_max_bytes = (size_t)1 << 30;

static char *checkpoint_path(const struct qr_checkpoint_location *p, const char *name) {
    return qr_xasprintf("%s/%s", p->dir, name);
}

#define checkpoint_add_note(notes, fmt, ...)                                                       \
    qr_buf_printf((notes), "%s" fmt, (notes)->n ? "\n" : "", __VA_ARGS__)

/* ---- LATEST ---- */

struct latest_read {
    struct qr_store_version version;
    bool damaged;
    struct qr_checkpoint_latest l; /* if LATEST exists and is intact */
    struct qr_err why;             /* if LATEST is damaged */
};

static enum qr_code checkpoint_read_latest(const struct qr_checkpoint_location *p,
                                           struct latest_read *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = checkpoint_path(p, "LATEST"),
                            *what = qr_xasprintf("%s/LATEST", p->url);
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    *ret = (struct latest_read){0};
    enum qr_code code =
        p->store->ops->get_version(p->store, name, MAX_LATEST_BYTES, &text, &ret->version, err);
    if (code == QR_RESOURCE_EXHAUSTED)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s was not written by qring: it is too long; delete it, or use --fresh",
                       what);
    if (code != QR_OK || !ret->version.there) return code;
    code = qr_checkpoint_latest_decode(qr_buf_view(&text), what, &ret->l, &ret->why);
    ret->damaged = code == QR_DATA_LOSS;
    if (ret->damaged) return QR_OK;
    if (code != QR_OK) *err = ret->why;
    return code;
}

enum qr_code qr_checkpoint_peek(const struct qr_checkpoint_location *p,
                                struct qr_checkpoint_latest *ret, struct qr_err *err) {
    struct latest_read at;
    QR_TRY(checkpoint_read_latest(p, &at, err));
    if (at.damaged) return qr_fail(err, at.why.code, "%s", at.why.msg);
    *ret = at.l;
    return QR_OK;
}

static enum qr_code checkpoint_reject_other_job(const struct qr_checkpoint_location *p,
                                                const struct latest_read *at, const char *job_hash,
                                                struct qr_err *err) {
    if (!at->version.there || at->damaged || strcmp(at->l.job_hash, job_hash) == 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s has the checkpoints of another job: its hash is %s, this job's is %s. "
                   "Choose another --checkpoints or --out (\"train.initial_weights\": "
                   "\"%s/LATEST\" starts from that job's weights), or use --fresh, which deletes "
                   "those checkpoints",
                   p->url, at->l.job_hash, job_hash, p->url);
}

/* ---- save ---- */

static enum qr_code checkpoint_read_object(const struct qr_checkpoint_location *p,
                                           const char *object, struct qr_buf *ret,
                                           struct qr_err *err) {
    qr_auto(qr_free_p) char *name = checkpoint_path(p, object);
    return p->store->ops->get(p->store, name, checkpoint_max_bytes, ret, err);
}

/* The name exists already: with equal bytes, with the same state in other bytes (LATEST then gets
 * that file's checksum), or damaged, in which case the file is replaced. */
static enum qr_code checkpoint_handle_existing(const struct qr_checkpoint_location *p,
                                               const struct qr_checkpoint *c, const char *object,
                                               struct qr_bytes file, uint32_t *crc32c,
                                               struct qr_buf *notes, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = checkpoint_path(p, object),
                            *what = qr_xasprintf("%s/%s", p->url, object);
    qr_auto(qr_buf_free) struct qr_buf there = {0};
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint old = {0};
    enum qr_code code = checkpoint_read_object(p, object, &there, err);
    if (code != QR_OK && code != QR_RESOURCE_EXHAUSTED) return code;
    if (code == QR_OK && there.n == file.n && memcmp(there.p, file.p, file.n) == 0) return QR_OK;
    if (code == QR_OK &&
        qr_checkpoint_decode(qr_buf_view(&there), what, &old, QR_IGNORED) == QR_OK &&
        strcmp(old.job_hash, c->job_hash) == 0 && old.reductions == c->reductions) {
        *crc32c = qr_crc32c(0, there.p, there.n);
        return QR_OK;
    }
    checkpoint_add_note(notes, "%s was damaged; writing it again", what);
    return p->store->ops->put(p->store, name, file, false, err);
}

static enum qr_code checkpoint_write_object(const struct qr_checkpoint_location *p,
                                            const struct qr_checkpoint *c, const char *object,
                                            uint32_t *ret_crc32c, struct qr_buf *notes,
                                            struct qr_err *err) {
    qr_auto(qr_free_p) char *name = checkpoint_path(p, object),
                            *what = qr_xasprintf("%s/%s", p->url, object);
    qr_auto(qr_buf_free) struct qr_buf file = {0}, back = {0};
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint again = {0};
    QR_TRY(qr_checkpoint_encode(c, &file, ret_crc32c, err));
    enum qr_code code = p->store->ops->put(p->store, name, qr_buf_view(&file), true, err);
    if (code != QR_OK && code != QR_FAILED_PRECONDITION) return code;
    if (code == QR_FAILED_PRECONDITION)
        code = checkpoint_handle_existing(p, c, object, qr_buf_view(&file), ret_crc32c, notes, err);
    if (code == QR_OK) code = checkpoint_read_object(p, object, &back, err);
    if (code == QR_NOT_FOUND)
        return qr_fail(err, QR_ABORTED, "%s was deleted by another process; please retry", what);
    if (code != QR_OK) return code;
    if (qr_crc32c(0, back.p, back.n) != *ret_crc32c)
        return qr_fail(err, QR_DATA_LOSS, "%s: bytes read back differ from the bytes written",
                       what);
    /* Verifies the digest too, computed from the bytes read back. */
    return qr_checkpoint_decode(qr_buf_view(&back), what, &again, err);
}

bool qr_checkpoint_has_name(const char *name) {
    static const char hex[] = "0123456789abcdef";
    enum { STEP_CHARS = 16, DIGEST_CHARS = 32 };
    if (strspn(name, hex) != CHECKPOINT_HASH_CHARS) return false;
    name += CHECKPOINT_HASH_CHARS;
    if (*name != '-' || strspn(name + 1, "0123456789") != STEP_CHARS) return false;
    name += 1 + STEP_CHARS;
    if (*name != '-' || strspn(name + 1, hex) != DIGEST_CHARS) return false;
    return strcmp(name + 1 + DIGEST_CHARS, ".safetensors") == 0;
}

/* Deletes all but the newest p->keep of the checkpoints up to the one that LATEST names. Files that
 * cannot be deleted remain until the next save. */
static void checkpoint_prune(const struct qr_checkpoint_location *p,
                             const struct qr_checkpoint_latest *l) {
    qr_auto(qr_free_p) char *prefix =
        qr_xasprintf("%s/%.*s-", p->dir, (int)CHECKPOINT_HASH_CHARS, l->job_hash);
    qr_auto(qr_free_p) char *named = checkpoint_path(p, l->object);
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    struct qr_err err;
    if (p->store->ops->list(p->store, prefix, &names, &err) != QR_OK || !names.n) return;
    /* Keep files after the named one: another worker may be about to name one of them. */
    size_t n = 0, skip = strlen(p->dir) + 1;
    char *at = (char *)names.p;
    for (char *name = at, *end; name; name = end ? end + 1 : NULL) {
        if ((end = strchr(name, '\n'))) *end = 0;
        if (strcmp(name, named) > 0) break;
        n += qr_checkpoint_has_name(name + skip);
    }
    for (; n > (p->keep ? p->keep : QR_CHECKPOINTS_KEPT); at += strlen(at) + 1) {
        if (!qr_checkpoint_has_name(at + skip)) continue;
        if (p->store->ops->remove(p->store, at, &err) != QR_OK) break;
        n--;
    }
}

static enum qr_code checkpoint_check_same_state(const struct qr_checkpoint_location *p,
                                                const struct qr_checkpoint_latest *at,
                                                const struct qr_checkpoint *c, struct qr_err *err) {
    if (at->reductions != c->reductions || strcmp(at->digest, c->digest) == 0) return QR_OK;
    return qr_fail(err, QR_INTERNAL,
                   "%s/LATEST names state %s at step %" PRIu64
                   ", but this worker has %s at that step: one job, two results. Check the "
                   "hardware, and that all workers run the same program",
                   p->url, at->digest, at->step, c->digest);
}

enum qr_code qr_checkpoint_save(const struct qr_checkpoint_location *p,
                                const struct qr_checkpoint *c, bool done,
                                struct qr_checkpoint_latest *ret_latest, struct qr_buf *notes,
                                struct qr_err *err) {
    struct qr_checkpoint_latest l = {
        .step = c->step, .epoch = c->epoch, .reductions = c->reductions, .done = done};
    qr_auto(qr_free_p) char *name = checkpoint_path(p, "LATEST");
    struct latest_read at;
    bool written = false;
    memcpy(l.job_hash, c->job_hash, sizeof l.job_hash);
    memcpy(l.digest, c->digest, sizeof l.digest);
    checkpoint_name(l.job_hash, l.step, l.digest, l.object, sizeof l.object);
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        QR_TRY(checkpoint_read_latest(p, &at, err));
        QR_TRY(checkpoint_reject_other_job(p, &at, c->job_hash, err));
        bool there = at.version.there && !at.damaged;
        if (there) QR_TRY(checkpoint_check_same_state(p, &at.l, c, err));
        bool newer = there && at.l.reductions > c->reductions;
        /* LATEST names this state and has `done` if this save would set it. */
        bool same = there && at.l.reductions == c->reductions && (at.l.done || !done);
        if (newer || (same && tries > 0)) {
            *ret_latest = at.l;
            return QR_OK;
        }
        enum qr_code code =
            written ? QR_OK : checkpoint_write_object(p, c, l.object, &l.crc32c, notes, err);
        /* LATEST has moved so far ahead meanwhile that this file was pruned. */
        if (code == QR_ABORTED) continue;
        if (code != QR_OK) return code;
        written = true;
        if (same && at.l.crc32c == l.crc32c) {
            *ret_latest = at.l;
            return QR_OK;
        }
        if (at.damaged && tries == 0) checkpoint_add_note(notes, "%s", at.why.msg);
        qr_auto(qr_buf_free) struct qr_buf text = {0};
        qr_checkpoint_latest_encode(&l, &text);
        code = p->store->ops->swap(p->store, name, qr_buf_view(&text), &at.version, err);
        if (code == QR_OK) {
            *ret_latest = l;
            checkpoint_prune(p, &l);
            return QR_OK;
        }
        if (code != QR_FAILED_PRECONDITION) return code;
    }
    return qr_fail(err, QR_UNAVAILABLE,
                   "%s/LATEST is changed by other processes faster than by this worker; please "
                   "retry",
                   p->url);
}

/* ---- load ---- */

/* Returns OK; DATA_LOSS or NOT_FOUND for an unusable file; or an error that ends the search.
 * expected NULL: only the file's name is known. */
static enum qr_code checkpoint_load_object(const struct qr_checkpoint_location *p,
                                           const char *object, const char *job_hash,
                                           const struct qr_checkpoint_latest *expected,
                                           struct qr_checkpoint *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *what = qr_xasprintf("%s/%s", p->url, object);
    qr_auto(qr_buf_free) struct qr_buf file = {0};
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint c = {0};
    char name[sizeof expected->object];
    QR_TRY(checkpoint_read_object(p, object, &file, err));
    QR_TRY(qr_checkpoint_decode(qr_buf_view(&file), what, &c, err));
    if (expected && qr_crc32c(0, file.p, file.n) != expected->crc32c)
        return qr_fail(err, QR_DATA_LOSS, "%s does not match the crc32c in LATEST", what);
    checkpoint_name(c.job_hash, c.step, c.digest, name, sizeof name);
    if (strcmp(name, object) != 0 || strcmp(c.job_hash, job_hash) != 0)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s holds step %" PRIu64 " of job %s, which does not match its name", what,
                       c.step, c.job_hash);
    *ret = QR_MOVE(c);
    return QR_OK;
}

static bool checkpoint_is_unusable(enum qr_code code) {
    return code == QR_DATA_LOSS || code == QR_NOT_FOUND || code == QR_RESOURCE_EXHAUSTED;
}

static uint64_t checkpoint_object_step(const char *object) {
    uint64_t step = 0;
    for (const char *c = object + CHECKPOINT_HASH_CHARS + 1; *c >= '0' && *c <= '9'; c++)
        step = step * 10 + (uint64_t)(*c - '0');
    return step;
}

/* Loads the newest intact checkpoint by name. One step may have two: before and after its
 * evaluation. ret->job_hash is "" when none is intact. */
static enum qr_code checkpoint_load_by_name(const struct qr_checkpoint_location *p,
                                            const char *job_hash, const char *without,
                                            struct qr_checkpoint *ret, struct qr_buf *notes,
                                            struct qr_err *err) {
    qr_auto(qr_free_p) char *prefix =
        qr_xasprintf("%s/%.*s-", p->dir, (int)CHECKPOINT_HASH_CHARS, job_hash);
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint best = {0};
    QR_TRY(p->store->ops->list(p->store, prefix, &names, err));
    for (size_t begin, end = names.n; end > 0; end = begin ? begin - 1 : 0) {
        names.p[end] = 0;
        begin = end;
        while (begin > 0 && names.p[begin - 1] != '\n') begin--;
        const char *object = (char *)names.p + begin + strlen(p->dir) + 1;
        if (*best.job_hash && checkpoint_object_step(object) < best.step) break;
        if (strcmp(object, without) == 0) continue;
        qr_auto(qr_checkpoint_fini) struct qr_checkpoint c = {0};
        enum qr_code code = checkpoint_load_object(p, object, job_hash, NULL, &c, err);
        if (checkpoint_is_unusable(code)) checkpoint_add_note(notes, "%s", err->msg);
        else if (code != QR_OK) return code;
        else if (!*best.job_hash || best.reductions <= c.reductions) {
            qr_checkpoint_fini(&best);
            best = QR_MOVE(c);
        }
    }
    *ret = QR_MOVE(best);
    return QR_OK;
}

static enum qr_code checkpoint_load_earlier(const struct qr_checkpoint_location *p,
                                            const char *job_hash, const struct latest_read *at,
                                            struct qr_checkpoint *ret, struct qr_buf *notes,
                                            struct qr_err *err) {
    struct qr_checkpoint c = {0};
    QR_TRY(checkpoint_load_by_name(p, job_hash, at->l.object, &c, notes, err));
    if (!*c.job_hash && at->version.there)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: no checkpoint of this job is intact (%.*s); use --fresh to train from the start",
            p->url, (int)strcspn(qr_buf_string(notes), "\n"), qr_buf_string(notes));
    if (*c.job_hash)
        checkpoint_add_note(notes, "%s: the newest intact checkpoint is that of step %" PRIu64 "%s",
                            p->url, c.step, at->version.there ? "" : "; there is no LATEST");
    *ret = c;
    return QR_OK;
}

enum qr_code qr_checkpoint_load(const struct qr_checkpoint_location *p, const char *job_hash,
                                struct qr_checkpoint *ret, bool *ret_done, struct qr_buf *notes,
                                struct qr_err *err) {
    struct latest_read at, again;
    *ret_done = false;
    QR_TRY(checkpoint_read_latest(p, &at, err));
    for (int tries = 0;; tries++) {
        QR_TRY(checkpoint_reject_other_job(p, &at, job_hash, err));
        if (at.damaged) checkpoint_add_note(notes, "%s", at.why.msg);
        if (!at.version.there || at.damaged) break;
        enum qr_code code = checkpoint_load_object(p, at.l.object, job_hash, &at.l, ret, err);
        *ret_done = code == QR_OK && at.l.done;
        if (!checkpoint_is_unusable(code)) return code;
        struct qr_err why = *err;
        /* LATEST may have moved on, and the file been pruned. */
        QR_TRY(checkpoint_read_latest(p, &again, err));
        bool moved = again.version.there &&
                     memcmp(again.version.id, at.version.id, sizeof at.version.id) != 0;
        at = again;
        if (moved && tries < MAX_TRIES) continue;
        checkpoint_add_note(notes, "%s", why.msg);
        break;
    }
    return checkpoint_load_earlier(p, job_hash, &at, ret, notes, err);
}

/* ---- by name ---- */

enum qr_code qr_checkpoint_list(const struct qr_checkpoint_location *p, const char *job_hash,
                                struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *prefix =
        qr_xasprintf("%s/%.*s-", p->dir, (int)CHECKPOINT_HASH_CHARS, job_hash);
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    QR_TRY(p->store->ops->list(p->store, prefix, &names, err));
    for (const char *at = qr_buf_string(&names); *at;) {
        int n = (int)strcspn(at, "\n");
        qr_auto(qr_free_p) char *name = qr_xasprintf("%.*s", n, at);
        const char *object = name + strlen(p->dir) + 1;
        if (qr_checkpoint_has_name(object)) qr_buf_printf(ret, "%s%s", ret->n ? "\n" : "", object);
        at += n + (at[n] == '\n');
    }
    return QR_OK;
}

enum qr_code qr_checkpoint_read(const struct qr_checkpoint_location *p, const char *name,
                                const char *job_hash, struct qr_checkpoint *ret,
                                struct qr_err *err) {
    return checkpoint_load_object(p, name, job_hash, NULL, ret, err);
}

bool qr_checkpoint_parse_name(const char *name, uint64_t *ret_step, char ret_digest[33]) {
    enum { STEP_CHARS = 16, DIGEST_CHARS = 32 };
    if (!qr_checkpoint_has_name(name)) return false;
    *ret_step = checkpoint_object_step(name);
    memcpy(ret_digest, name + CHECKPOINT_HASH_CHARS + STEP_CHARS + 2, DIGEST_CHARS);
    ret_digest[DIGEST_CHARS] = 0;
    return true;
}

/* ---- delete ---- */

enum qr_code qr_checkpoint_delete_all(const struct qr_checkpoint_location *p, struct qr_err *err) {
    qr_auto(qr_free_p) char *latest = checkpoint_path(p, "LATEST"),
                            *prefix = checkpoint_path(p, "");
    qr_auto(qr_buf_free) struct qr_buf names = {0};
    enum qr_code code = p->store->ops->remove(p->store, latest, err);
    if (code == QR_OK || code == QR_NOT_FOUND)
        code = p->store->ops->list(p->store, prefix, &names, err);
    char *rest = names.n ? (char *)names.p : NULL;
    while (rest && code == QR_OK) {
        char *name = rest, *end = strchr(rest, '\n');
        if (end) *end = 0;
        rest = end ? end + 1 : NULL;
        if (!qr_checkpoint_has_name(name + strlen(prefix))) continue;
        code = p->store->ops->remove(p->store, name, err);
        if (code == QR_NOT_FOUND) code = QR_OK;
    }
    return code == QR_OK ? code : qr_wrap(err, "cannot delete the checkpoints in %s", p->url);
}
