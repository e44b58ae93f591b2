/* record/checkpoint_store.c — checkpoints in a store: publish, find, prune. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "record/checkpoint.h"
#include "record/checkpoint_impl.h"

enum { MAX_LATEST_BYTES = 4096, MAX_TRIES = 16 };
static const size_t max_file_bytes = (size_t)1 << 30;

static char *name_in(const struct qr_checkpoint_location *p, const char *name) {
    return qr_xasprintf("%s/%s", p->dir, name);
}

static void note(struct qr_buf *notes, const char *sentence) {
    qr_buf_printf(notes, "%s%s", notes->n ? "\n" : "", sentence);
}

/* ---- LATEST ---- */

struct pointer {
    struct qr_store_version version;
    bool damaged;
    struct qr_checkpoint_latest l; /* of a LATEST that is there and whole */
    struct qr_err why;             /* of a damaged one */
};

static enum qr_code read_latest(const struct qr_checkpoint_location *p, struct pointer *ret,
                                struct qr_err *err) {
    qr_auto(qr_free_p) char *name = name_in(p, "LATEST"), *what = qr_xasprintf("%s/LATEST", p->url);
    struct qr_buf text = {0};
    *ret = (struct pointer){0};
    enum qr_code code =
        p->store->ops->get_version(p->store, name, MAX_LATEST_BYTES, &text, &ret->version, err);
    if (code == QR_RESOURCE_EXHAUSTED)
        code = qr_fail(err, QR_DATA_LOSS,
                       "%s is no file of this program: it is too long; take it away, or --fresh",
                       what);
    if (code == QR_OK && ret->version.there) {
        code = qr_checkpoint_latest_decode(qr_buf_view(&text), what, &ret->l, &ret->why);
        ret->damaged = code == QR_DATA_LOSS;
        if (ret->damaged) code = QR_OK;
        else if (code != QR_OK && err) *err = ret->why;
    }
    qr_buf_free(&text);
    return code;
}

enum qr_code qr_checkpoint_peek(const struct qr_checkpoint_location *p,
                                struct qr_checkpoint_latest *ret, struct qr_err *err) {
    struct pointer at;
    enum qr_code code = read_latest(p, &at, err);
    if (code != QR_OK) return code;
    if (at.damaged) return qr_fail(err, at.why.code, "%s", at.why.msg);
    *ret = at.l;
    return QR_OK;
}

static enum qr_code refuse_other(const struct qr_checkpoint_location *p, const struct pointer *at,
                                 const char *job_hash, struct qr_err *err) {
    if (!at->version.there || at->damaged || strcmp(at->l.job_hash, job_hash) == 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s has the checkpoints of another job: its hash is %s, this job's is %s. "
                   "Choose another --checkpoints or "
                   "--out (\"train.initial_weights\": \"%s/LATEST\" begins with that job's "
                   "weights), or --fresh, which takes those away",
                   p->url, at->l.job_hash, job_hash, p->url);
}

/* ---- save ---- */

static enum qr_code read_object(const struct qr_checkpoint_location *p, const char *object,
                                struct qr_buf *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = name_in(p, object);
    return p->store->ops->get(p->store, name, max_file_bytes, ret, err);
}

/* The name is taken: by equal bytes, by the same state in other bytes (its checksum then counts),
 * or by something broken that goes. */
static enum qr_code meet_present(const struct qr_checkpoint_location *p,
                                 const struct qr_checkpoint *c, const char *object,
                                 struct qr_bytes file, uint32_t *crc32c, struct qr_buf *notes,
                                 struct qr_err *err) {
    qr_auto(qr_free_p) char *name = name_in(p, object),
                            *what = qr_xasprintf("%s/%s", p->url, object);
    struct qr_buf there = {0};
    struct qr_checkpoint old = {0};
    struct qr_err why;
    enum qr_code code = read_object(p, object, &there, err);
    if (code == QR_OK && there.n == file.n && memcmp(there.p, file.p, file.n) == 0) {
        qr_buf_free(&there);
        return QR_OK;
    }
    if (code == QR_OK && qr_checkpoint_decode(qr_buf_view(&there), what, &old, &why) == QR_OK &&
        strcmp(old.job_hash, c->job_hash) == 0 && old.reductions == c->reductions) {
        *crc32c = qr_crc32c(0, there.p, there.n);
    } else if (code == QR_OK || code == QR_RESOURCE_EXHAUSTED) {
        qr_auto(qr_free_p) char *sentence =
            qr_xasprintf("%s was damaged, and is written again", what);
        note(notes, sentence);
        code = p->store->ops->put(p->store, name, file, false, err);
    }
    qr_checkpoint_fini(&old);
    qr_buf_free(&there);
    return code;
}

static enum qr_code write_object(const struct qr_checkpoint_location *p,
                                 const struct qr_checkpoint *c, const char *object,
                                 uint32_t *ret_crc32c, struct qr_buf *notes, struct qr_err *err) {
    qr_auto(qr_free_p) char *name = name_in(p, object);
    struct qr_buf file = {0}, back = {0};
    enum qr_code code = qr_checkpoint_encode(c, &file, ret_crc32c, err);
    if (code == QR_OK) code = p->store->ops->put(p->store, name, qr_buf_view(&file), true, err);
    bool put = code == QR_OK || code == QR_FAILED_PRECONDITION;
    if (code == QR_FAILED_PRECONDITION)
        code = meet_present(p, c, object, qr_buf_view(&file), ret_crc32c, notes, err);
    if (code == QR_OK) code = read_object(p, object, &back, err);
    if (code == QR_NOT_FOUND && put)
        code = qr_fail(err, QR_ABORTED, "%s/%s was taken away by others; please retry", p->url,
                       object);
    if (code == QR_OK && qr_crc32c(0, back.p, back.n) != *ret_crc32c)
        code = qr_fail(err, QR_DATA_LOSS, "%s/%s: what was read back is not what was written",
                       p->url, object);
    if (code == QR_OK) { /* its digest too, computed anew from what is there */
        qr_auto(qr_free_p) char *what = qr_xasprintf("%s/%s", p->url, object);
        struct qr_checkpoint again = {0};
        code = qr_checkpoint_decode(qr_buf_view(&back), what, &again, err);
        qr_checkpoint_fini(&again);
    }
    qr_buf_free(&file);
    qr_buf_free(&back);
    return code;
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

/* Of those up to the one that LATEST names, all but the newest three. What cannot be removed stays
 * until the next time. */
static void prune(const struct qr_checkpoint_location *p, const struct qr_checkpoint_latest *l) {
    qr_auto(qr_free_p) char *prefix =
        qr_xasprintf("%s/%.*s-", p->dir, (int)CHECKPOINT_HASH_CHARS, l->job_hash);
    qr_auto(qr_free_p) char *named = name_in(p, l->object);
    struct qr_buf names = {0};
    struct qr_err err;
    if (p->store->ops->list(p->store, prefix, &names, &err) == QR_OK && names.n) {
        /* none behind the named one: another worker may be about to name it */
        size_t n = 0, skip = strlen(p->dir) + 1;
        char *at = (char *)names.p;
        for (char *name = at, *end; name; name = end ? end + 1 : NULL) {
            if ((end = strchr(name, '\n'))) *end = 0;
            if (strcmp(name, named) > 0) break;
            n += qr_checkpoint_has_name(name + skip);
        }
        for (; n > QR_CHECKPOINTS_KEPT; at += strlen(at) + 1) {
            if (!qr_checkpoint_has_name(at + skip)) continue;
            if (p->store->ops->remove(p->store, at, &err) != QR_OK) break;
            n--;
        }
    }
    qr_buf_free(&names);
}

static enum qr_code same_state(const struct qr_checkpoint_location *p,
                               const struct qr_checkpoint_latest *at, const struct qr_checkpoint *c,
                               struct qr_err *err) {
    if (at->reductions != c->reductions || strcmp(at->digest, c->digest) == 0) return QR_OK;
    return qr_fail(err, QR_INTERNAL,
                   "%s/LATEST names state %s at step %" PRIu64
                   ", and this worker has %s there: one job, two results. A machine "
                   "computes wrongly, or the program differs",
                   p->url, at->digest, at->step, c->digest);
}

enum qr_code qr_checkpoint_save(const struct qr_checkpoint_location *p,
                                const struct qr_checkpoint *c, bool done,
                                struct qr_checkpoint_latest *ret_latest, struct qr_buf *notes,
                                struct qr_err *err) {
    struct qr_checkpoint_latest l = {
        .step = c->step, .epoch = c->epoch, .reductions = c->reductions, .done = done};
    qr_auto(qr_free_p) char *name = name_in(p, "LATEST");
    struct pointer at;
    bool written = false;
    memcpy(l.job_hash, c->job_hash, sizeof l.job_hash);
    memcpy(l.digest, c->digest, sizeof l.digest);
    checkpoint_name(l.job_hash, l.step, l.digest, l.object, sizeof l.object);
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        enum qr_code code = read_latest(p, &at, err);
        if (code == QR_OK) code = refuse_other(p, &at, c->job_hash, err);
        bool there = at.version.there && !at.damaged;
        if (code == QR_OK && there) code = same_state(p, &at.l, c, err);
        if (code != QR_OK) return code;
        bool newer = there && at.l.reductions > c->reductions;
        /* and says no less */
        bool same = there && at.l.reductions == c->reductions && (at.l.done || !done);
        if (newer || (same && tries > 0)) {
            *ret_latest = at.l;
            return QR_OK;
        }
        if (!written) code = write_object(p, c, l.object, &l.crc32c, notes, err);
        /* LATEST has gone on meanwhile, so far that this one is old */
        if (code == QR_ABORTED) continue;
        if (code != QR_OK) return code;
        written = true;
        if (same && at.l.crc32c == l.crc32c) {
            *ret_latest = at.l;
            return QR_OK;
        }
        if (at.damaged && tries == 0) note(notes, at.why.msg);
        struct qr_buf text = {0};
        qr_checkpoint_latest_encode(&l, &text);
        code = p->store->ops->swap(p->store, name, qr_buf_view(&text), &at.version, err);
        qr_buf_free(&text);
        if (code == QR_OK) {
            *ret_latest = l;
            prune(p, &l);
            return QR_OK;
        }
        if (code != QR_FAILED_PRECONDITION) return code;
    }
    return qr_fail(err, QR_UNAVAILABLE,
                   "%s/LATEST is changed by others faster than by this worker; please retry",
                   p->url);
}

/* ---- load ---- */

/* OK, or DATA_LOSS and NOT_FOUND for a file that cannot be used, or an error that ends the search.
 * expected NULL: nothing is known of the file but its name. */
static enum qr_code load_object(const struct qr_checkpoint_location *p, const char *object,
                                const char *job_hash, const struct qr_checkpoint_latest *expected,
                                struct qr_checkpoint *ret, struct qr_err *err) {
    qr_auto(qr_free_p) char *what = qr_xasprintf("%s/%s", p->url, object);
    struct qr_buf file = {0};
    struct qr_checkpoint c = {0};
    char name[sizeof expected->object];
    enum qr_code code = read_object(p, object, &file, err);
    if (code == QR_OK) code = qr_checkpoint_decode(qr_buf_view(&file), what, &c, err);
    if (code == QR_OK && expected && qr_crc32c(0, file.p, file.n) != expected->crc32c)
        code = qr_fail(err, QR_DATA_LOSS, "%s does not have the crc32c that LATEST says", what);
    checkpoint_name(c.job_hash, c.step, c.digest, name, sizeof name);
    if (code == QR_OK && (strcmp(name, object) != 0 || strcmp(c.job_hash, job_hash) != 0))
        code = qr_fail(err, QR_DATA_LOSS,
                       "%s holds step %" PRIu64 " of job %s, not what its name says", what, c.step,
                       c.job_hash);
    qr_buf_free(&file);
    if (code == QR_OK) *ret = c;
    else qr_checkpoint_fini(&c);
    return code;
}

static bool unusable(enum qr_code code) {
    return code == QR_DATA_LOSS || code == QR_NOT_FOUND || code == QR_RESOURCE_EXHAUSTED;
}

static uint64_t step_of(const char *object) {
    uint64_t step = 0;
    for (const char *c = object + CHECKPOINT_HASH_CHARS + 1; *c >= '0' && *c <= '9'; c++)
        step = step * 10 + (uint64_t)(*c - '0');
    return step;
}

/* The newest whole one by name. Of one step there may be two: before and after the evaluation.
 * ret->job_hash "": none is whole. */
static enum qr_code load_by_name(const struct qr_checkpoint_location *p, const char *job_hash,
                                 const char *without, struct qr_checkpoint *ret,
                                 struct qr_buf *notes, struct qr_err *err) {
    qr_auto(qr_free_p) char *prefix =
        qr_xasprintf("%s/%.*s-", p->dir, (int)CHECKPOINT_HASH_CHARS, job_hash);
    struct qr_buf names = {0};
    enum qr_code code = p->store->ops->list(p->store, prefix, &names, err);
    size_t end = code == QR_OK ? names.n : 0;
    while (end > 0 && code == QR_OK) {
        names.p[end] = 0;
        size_t begin = end;
        while (begin > 0 && names.p[begin - 1] != '\n') begin--;
        const char *object = (char *)names.p + begin + strlen(p->dir) + 1;
        end = begin ? begin - 1 : 0;
        if (*ret->job_hash && step_of(object) < ret->step) break;
        if (strcmp(object, without) == 0) continue;
        struct qr_checkpoint c = {0};
        code = load_object(p, object, job_hash, NULL, &c, err);
        if (unusable(code)) {
            if (err) note(notes, err->msg);
            code = QR_OK;
        } else if (code == QR_OK) {
            struct qr_checkpoint *worse =
                *ret->job_hash && ret->reductions > c.reductions ? &c : ret;
            qr_checkpoint_fini(worse);
            if (worse == ret) *ret = c;
        }
    }
    if (code != QR_OK) qr_checkpoint_fini(ret);
    qr_buf_free(&names);
    return code;
}

static enum qr_code load_earlier(const struct qr_checkpoint_location *p, const char *job_hash,
                                 const struct pointer *at, struct qr_checkpoint *ret,
                                 struct qr_buf *notes, struct qr_err *err) {
    struct qr_checkpoint c = {0};
    enum qr_code code = load_by_name(p, job_hash, at->l.object, &c, notes, err);
    if (code != QR_OK) return code;
    if (!*c.job_hash && at->version.there)
        return qr_fail(
            err, QR_DATA_LOSS,
            "%s: no checkpoint of this job is whole (%.*s); --fresh trains again from the start",
            p->url, (int)strcspn(qr_buf_string(notes), "\n"), qr_buf_string(notes));
    if (*c.job_hash) {
        qr_auto(qr_free_p) char *sentence =
            qr_xasprintf("%s: the newest whole checkpoint is that of step %" PRIu64 "%s", p->url,
                         c.step, at->version.there ? "" : "; there is no LATEST");
        note(notes, sentence);
    }
    *ret = c;
    return QR_OK;
}

enum qr_code qr_checkpoint_load(const struct qr_checkpoint_location *p, const char *job_hash,
                                struct qr_checkpoint *ret, bool *ret_done, struct qr_buf *notes,
                                struct qr_err *err) {
    struct qr_err own;
    struct pointer at, again;
    if (!err) err = &own;
    *ret_done = false;
    enum qr_code code = read_latest(p, &at, err);
    for (int tries = 0; code == QR_OK; tries++) {
        code = refuse_other(p, &at, job_hash, err);
        if (code != QR_OK) return code;
        if (at.damaged) note(notes, at.why.msg);
        if (!at.version.there || at.damaged) break;
        struct qr_checkpoint c = {0};
        code = load_object(p, at.l.object, job_hash, &at.l, &c, err);
        if (code == QR_OK) {
            *ret = c;
            *ret_done = at.l.done;
            return QR_OK;
        }
        if (!unusable(code)) return code;
        struct qr_err why = *err;
        /* it may have gone on, and the file taken away behind it */
        if ((code = read_latest(p, &again, err)) != QR_OK) return code;
        bool moved = again.version.there &&
                     memcmp(again.version.id, at.version.id, sizeof at.version.id) != 0;
        at = again;
        if (moved && tries < MAX_TRIES) continue;
        note(notes, why.msg);
        break;
    }
    return code == QR_OK ? load_earlier(p, job_hash, &at, ret, notes, err) : code;
}

/* ---- forget ---- */

enum qr_code qr_checkpoint_delete_all(const struct qr_checkpoint_location *p, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    qr_auto(qr_free_p) char *latest = name_in(p, "LATEST"), *prefix = name_in(p, "");
    struct qr_buf names = {0};
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
    qr_buf_free(&names);
    return code == QR_OK ? code : qr_wrap(err, "take away the checkpoints in %s", p->url);
}
