/* tests/cluster_sim/whole_store.h — the store that all workers of a world share: a file system or
 * a bucket, on virtual time, with faults.
 *
 * A request takes effect at one moment and is answered at a later one; the client may be killed or
 * stopped in between. A file system writes while its process runs, swaps LATEST under a lock, and
 * at a power cut loses writes that it has not acknowledged (each absent, torn at 512 bytes, or
 * whole); a bucket continues without its clients and keeps what it has done. Checked at each change
 * of LATEST: it never goes back, it names the undisturbed run's state, and the log has that state's
 * line on disk. Included once. */
#ifndef TESTS_CLUSTER_SIM_WHOLE_STORE_H
#define TESTS_CLUSTER_SIM_WHOLE_STORE_H

#include "base/checksum.h"
#include "tests/cluster_sim/whole.h"

enum { SECTOR = 512 };
static const char latest_name[] = "run/LATEST";

static struct object *object_of(struct store *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->v[i].name, name) == 0) return &s->v[i];
    return NULL;
}
static void set_bytes(struct qr_buf *b, const void *p, size_t n) {
    qr_buf_clear(b);
    qr_buf_put(b, p, n);
}
static void write_object(struct store *s, const char *name, const struct qr_buf *bytes) {
    struct object *o = object_of(s, name);
    if (!o) {
        size_t at = 0;
        while (at < s->n && strcmp(s->v[at].name, name) < 0) at++;
        s->v = qr_xreallocarray(s->v, s->n + 1, sizeof *s->v);
        memmove(s->v + at + 1, s->v + at, (s->n - at) * sizeof *s->v);
        s->n++;
        o = &s->v[at];
        *o = (struct object){0};
        snprintf(o->name, sizeof o->name, "%s", name);
    }
    set_bytes(&o->bytes, bytes->p, bytes->n);
    o->damaged = false;
    o->version = ++s->versions;
}
static void remove_object(struct store *s, struct object *o) {
    qr_buf_free(&o->bytes);
    qr_buf_free(&o->good);
    memmove(o, o + 1, (size_t)(s->v + s->n - (o + 1)) * sizeof *o);
    s->n--;
}
static bool is_whole(const struct object *o) {
    struct qr_checkpoint c = {0};
    if (strcmp(o->name, latest_name) == 0) return false;
    bool whole = qr_checkpoint_decode(qr_buf_view(&o->bytes), "an object", &c, QR_IGNORED) == QR_OK;
    qr_checkpoint_fini(&c);
    return whole;
}
static unsigned n_whole(const struct store *s) {
    unsigned n = 0;
    for (size_t i = 0; i < s->n; i++) n += is_whole(&s->v[i]);
    return n;
}
static struct qr_store_version version_of(const struct store *s, const struct object *o) {
    struct qr_store_version v = {.there = o != NULL};
    if (o && s->cloud) qr_set_u64le(v.id, o->version);
    else if (o) qr_xxh3(o->bytes.p, o->bytes.n, v.id);
    return v;
}

/* ---- what must hold ---- */

static void check_move(struct whole *w, const struct node *x, const struct qr_buf *text) {
    struct store *s = &w->store;
    struct qr_checkpoint_latest l;
    struct qr_err err = {0};
    if (qr_checkpoint_latest_decode(qr_buf_view(text), "LATEST", &l, &err) != QR_OK)
        broken(w, x, "LATEST is written whole", err.msg);
    else if (l.reductions >= truth.n_reductions)
        broken(w, x, "LATEST names a state of the run", l.object);
    else if (strcmp(l.digest, truth.digest_at[l.reductions]) != 0)
        broken(w, x, "LATEST names the undisturbed run's state", l.object);
    else if (s->has_newest && (l.reductions < s->newest.reductions ||
                               (l.reductions == s->newest.reductions && s->newest.done && !l.done)))
        broken(w, x, "LATEST never goes back", l.object);
    else if ((long long)truth.log_end[l.reductions] > s->synced) {
        /* who leaves without leading publishes what it has, also when the leader has not written
         * that line yet, and never will if it dies now */
        if (x->leader && !s->ahead_of_log)
            broken(w, x, "the log is on disk as far as the published state goes", l.object);
        s->ahead_of_log = true;
    }
    say(x, "MOVES LATEST to step %llu (%llu reductions)%s", (unsigned long long)l.step,
        (unsigned long long)l.reductions, l.done ? ", done" : "");
    s->newest = l;
    s->has_newest = true;
    s->n_saves++;
}

/* ---- a request takes effect ---- */

static void keep_before(const struct store *s, struct request *r, const struct object *o) {
    r->wrote = true;
    r->had = o != NULL;
    if (o) set_bytes(&r->before, o->bytes.p, o->bytes.n);
    r->wrote_version = s->versions + 1;
}
static enum qr_code swap_now(struct whole *w, struct request *r, const struct node *x) {
    struct store *s = &w->store;
    struct object *o = object_of(s, r->name);
    struct qr_store_version now = version_of(s, o);
    bool plain = w->mutations & PLANT_PLAIN_WRITE,
         same = now.there == r->version.there && memcmp(now.id, r->version.id, sizeof now.id) == 0;
    if (!s->cloud && !r->locked && !plain) {
        if (s->lock) return QR_UNAVAILABLE;
        if (!same) return QR_FAILED_PRECONDITION;
        s->lock = r;
        r->locked = true;
        r->at_ns = now_of(w) + dice_ns(w, MS(4));
        r->back_ns += MS(4);
        return QR_ABORTED; /* goes on then */
    }
    if (!plain && !same) return QR_FAILED_PRECONDITION;
    keep_before(s, r, o);
    write_object(s, r->name, &r->bytes);
    if (s->lock == r) s->lock = NULL;
    check_move(w, x, &r->bytes);
    return QR_OK;
}
static enum qr_code list_now(struct store *s, struct request *r) {
    qr_buf_clear(&r->bytes);
    for (size_t i = 0; i < s->n; i++)
        if (strncmp(s->v[i].name, r->name, strlen(r->name)) == 0)
            qr_buf_printf(&r->bytes, "%s%s", r->bytes.n ? "\n" : "", s->v[i].name);
    return QR_OK;
}
/* At times what is read is not what is there: when there is another one to fall back on, and never
 * when LATEST is written after it. */
static void read_wrongly(struct whole *w, const struct request *r) {
    if (!r->bytes.n || strcmp(r->name, latest_name) == 0 || dice(w, 1000) >= w->store.fault ||
        n_whole(&w->store) < 2)
        return;
    r->bytes.p[dice(w, r->bytes.n)] ^= (uint8_t)(1 << dice(w, 8));
    if (r->node) say(r->node, "reads %s with a wrong bit", r->name);
}
static void perform(struct whole *w, struct request *r) {
    struct store *s = &w->store;
    struct object *o = object_of(s, r->name);
    const struct node *x = r->node ? r->node : &w->node[0];
    r->performed = true;
    r->code = QR_OK;
    if (r->fail) r->code = QR_UNAVAILABLE;
    else if (r->verb == GET) {
        if (o) set_bytes(&r->bytes, o->bytes.p, o->bytes.n);
        r->version = version_of(s, o);
        r->code = o ? QR_OK : QR_NOT_FOUND;
        if (o && r->node && o->damaged && r->node->damage_hidden)
            set_bytes(&r->bytes, o->good.p, o->good.n);
        else if (o) read_wrongly(w, r);
    } else if (r->verb == CREATE && o) r->code = QR_FAILED_PRECONDITION;
    else if (r->verb == CREATE || r->verb == PUT) {
        keep_before(s, r, o);
        write_object(s, r->name, &r->bytes);
    } else if (r->verb == REMOVE) {
        r->code = o ? QR_OK : QR_NOT_FOUND;
        if (o) {
            keep_before(s, r, o);
            remove_object(s, o);
        }
    } else if (r->verb == LIST) r->code = list_now(s, r);
    else {
        r->code = swap_now(w, r, x);
        if (r->code == QR_ABORTED) r->performed = false;
    }
    /* its fsync of the folder holds for the names that others have made there */
    if (r->performed && r->wrote)
        for (struct request *e = s->requests; e; e = e->next) e->wrote = e->wrote && e == r;
    if (r->performed && r->lose_answer) r->code = QR_UNAVAILABLE;
}

/* ---- requests under way ---- */

static void drop_request(struct store *s, struct request *r) {
    for (struct request **at = &s->requests; *at; at = &(*at)->next)
        if (*at == r) {
            *at = r->next;
            break;
        }
    if (s->lock == r) s->lock = NULL;
}
static void free_request(struct request *r) {
    qr_buf_free(&r->bytes);
    qr_buf_free(&r->before);
    free(r);
}
static bool is_due(const struct whole *w, const struct request *r) {
    return !r->performed && (w->store.cloud || !r->node || !r->node->paused);
}
static int64_t store_next_ns(const struct whole *w) {
    int64_t at = INT64_MAX;
    for (const struct request *r = w->store.requests; r; r = r->next)
        if (is_due(w, r) && r->at_ns < at) at = r->at_ns;
    return at;
}
static void store_advance(struct whole *w) {
    struct store *s = &w->store;
    for (struct request *r = s->requests, *next; r; r = next) {
        next = r->next;
        if (!is_due(w, r) || r->at_ns > now_of(w)) continue;
        perform(w, r);
        if (!r->performed || r->node) continue;
        drop_request(s, r);
        free_request(r);
    }
}
/* Its process is gone: what it asked for is taken back, or is done all the same, now or later. */
static void orphan_requests(struct whole *w, const struct node *x) {
    struct store *s = &w->store;
    for (struct request *r = s->requests; r; r = r->next) {
        if (r->node != x || r->performed) continue;
        bool writes = r->verb != GET && r->verb != LIST;
        if (writes && !r->fail && dice(w, 2) && (s->cloud || r->verb != SWAP || r->locked)) {
            struct request *o = qr_xcalloc(1, sizeof *o);
            *o = *r;
            o->node = NULL;
            r->bytes = r->before = (struct qr_buf){0};
            if (s->lock == r) s->lock = o;
            if (!s->cloud) o->at_ns = now_of(w);
            o->next = s->requests;
            s->requests = o;
        }
        if (s->lock == r) s->lock = NULL;
        r->performed = true;
        r->code = QR_UNAVAILABLE;
    }
}

static enum qr_code ask(struct node *x, struct request *r, struct qr_err *err) {
    static const char *const verbs[] = {"get", "put", "create", "remove", "list", "swap"};
    struct whole *w = x->w;
    struct store *s = &w->store;
    /* so that nothing is tried again */
    if (x->killed) return qr_fail(err, QR_INTERNAL, "%s: its process is gone", r->name);
    int64_t scale = dice(w, 1000) >= s->fault ? s->cloud ? MS(8) : MS(1)
                    : dice(w, 5) ? MS(500)
                                              : MS(6000);
    r->node = x;
    r->fail = dice(w, 1000) < s->fault;
    r->lose_answer = dice(w, 1000) < s->fault;
    r->at_ns = now_of(w) + 10000 + dice_ns(w, scale);
    r->back_ns = r->at_ns + 10000 + dice_ns(w, scale);
    r->next = s->requests;
    s->requests = r;
    for (int64_t until_ns = r->back_ns; !x->killed && (!r->performed || now_of(w) < r->back_ns);
         until_ns = r->back_ns)
        wait_until(w, until_ns > now_of(w) ? until_ns : now_of(w) + MS(1));
    drop_request(s, r);
    enum qr_code code = x->killed ? QR_INTERNAL : r->code;
    struct qr_checkpoint_latest l;
    if (code == QR_OK && r->verb == SWAP &&
        qr_checkpoint_latest_decode(qr_buf_view(&r->bytes), "LATEST", &l, QR_IGNORED) == QR_OK &&
        l.reductions > s->acked_reductions)
        s->acked_reductions = l.reductions;
    if (code != QR_OK)
        qr_fail(err, code, "%s %s: a computed fault, or a lost race", verbs[r->verb], r->name);
    if (code == QR_UNAVAILABLE && !x->killed)
        say(x, "cannot %s %s%s", verbs[r->verb], r->name,
            r->lose_answer && !r->fail ? " (done, the answer is lost)" : "");
    return code;
}

/* ---- the interface ---- */

struct door {
    struct qr_store base;
    struct node *node;
};
static struct node *node_of(struct qr_store *s) { return ((struct door *)s)->node; }
static struct request *request_of(enum verb verb, const char *name) {
    struct request *r = qr_xcalloc(1, sizeof *r);
    r->verb = verb;
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}
static enum qr_code read_with(struct node *x, enum verb verb, const char *name, size_t max_bytes,
                              struct qr_buf *ret, struct qr_store_version *v, struct qr_err *err) {
    struct request *r = request_of(verb, name);
    struct stat st;
    char path[96];
    snprintf(path, sizeof path, "%s/steps.jsonl", x->w->dir);
    /* the publisher has just synced it */
    if (x->w->now == &x->actor[PUBLISHING] && strcmp(name, latest_name) == 0)
        x->w->store.synced = stat(path, &st) == 0 ? (long long)st.st_size : 0;
    enum qr_code code = ask(x, r, err);
    if (code == QR_OK && r->bytes.n > max_bytes)
        code = qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s is too long", name);
    if (v && code == QR_NOT_FOUND) {
        code = QR_OK;
        qr_buf_clear(&r->bytes);
    }
    if (v && code == QR_OK) *v = r->version;
    if (code == QR_OK) set_bytes(ret, r->bytes.p, r->bytes.n);
    free_request(r);
    return code;
}
static enum qr_code door_get(struct qr_store *s, const char *name, size_t max_bytes,
                             struct qr_buf *ret, struct qr_err *err) {
    return read_with(node_of(s), GET, name, max_bytes, ret, NULL, err);
}
static enum qr_code door_get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                     struct qr_buf *ret, struct qr_store_version *v,
                                     struct qr_err *err) {
    return read_with(node_of(s), GET, name, max_bytes, ret, v, err);
}
static enum qr_code door_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                              struct qr_err *err) {
    return read_with(node_of(s), LIST, prefix, SIZE_MAX, ret, NULL, err);
}
static enum qr_code write_with(struct node *x, enum verb verb, const char *name,
                               struct qr_bytes content, const struct qr_store_version *seen,
                               struct qr_err *err) {
    struct request *r = request_of(verb, name);
    set_bytes(&r->bytes, content.p, content.n);
    if (seen) r->version = *seen;
    enum qr_code code = ask(x, r, err);
    free_request(r);
    return code;
}
static enum qr_code door_put(struct qr_store *s, const char *name, struct qr_bytes content,
                             bool if_absent, struct qr_err *err) {
    return write_with(node_of(s), if_absent ? CREATE : PUT, name, content, NULL, err);
}
static enum qr_code door_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                              const struct qr_store_version *seen, struct qr_err *err) {
    return write_with(node_of(s), SWAP, name, content, seen, err);
}
static enum qr_code door_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    return write_with(node_of(s), REMOVE, name, (struct qr_bytes){0}, NULL, err);
}
static enum qr_code door_check(struct qr_store *s, const char *prefix, struct qr_err *err) {
    (void)s, (void)prefix, (void)err;
    return QR_OK;
}
static void door_close(struct qr_store *s) { free(s); }
static struct qr_checkpoint_folder place_of(struct node *x) {
    static const struct qr_store_ops ops = {door_get,   door_put,         door_remove, door_list,
                                            door_check, door_get_version, door_swap,   door_close};
    struct door *d = qr_xcalloc(1, sizeof *d);
    struct qr_checkpoint_folder p = {.url =
                                         qr_xstrdup(x->w->store.cloud ? "gs://bucket/run" : "/run"),
                                     .dir = qr_xstrdup("run")};
    *d = (struct door){.base.ops = &ops, .node = x};
    p.at = (struct qr_checkpoint_location){.store = &d->base, .dir = p.dir, .url = p.url};
    return p;
}

/* ---- the end ---- */

static void store_fini(struct store *s) {
    for (struct request *r = s->requests, *next; r; r = next) {
        next = r->next;
        if (!r->node) free_request(r);
    }
    while (s->n) remove_object(s, &s->v[s->n - 1]);
    free(s->v);
}

#endif
