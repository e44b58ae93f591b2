/* tests/cluster_sim/cluster_store.c — the store of a cluster: a file system or a bucket, in virtual
 * time, with faults. Start reading at request_run() and perform().
 *
 * A request takes effect at one time and is answered at a later one; its process may be killed or
 * stopped in between. A file system writes while the process runs, swaps LATEST under a lock, and
 * at a power cut loses writes that it has not acknowledged (each absent, torn at 512 bytes, or
 * complete); a bucket continues without its clients and keeps what it has done. Checked at each
 * change of LATEST: it never goes back, it names a state of the undisturbed run, and the log has
 * that state's line on disk. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "tests/cluster_sim/cluster_impl.h"

enum { SECTOR = 512 };
static const char latest_name[] = "run/LATEST";

/* intact: the bytes before they were damaged */
struct object {
    char name[120];
    struct qr_buf bytes, intact;
    uint64_t version;
    bool damaged;
};
enum verb { GET, PUT, CREATE, REMOVE, LIST, SWAP };
struct request {
    struct request *next;
    struct node *node; /* NULL: its process has exited */
    enum verb verb;
    char name[120];
    struct qr_buf bytes; /* to write, or read */
    struct qr_store_version version;
    int64_t effect_ns, answer_ns;
    bool locked, performed, lose_answer, fail;
    enum qr_code code;
    /* What a power cut can undo. */
    bool wrote, existed;
    struct qr_buf before;
    uint64_t wrote_version;
};

/* ---- objects ---- */

static struct object *object_of(struct store *s, const char *name) {
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->object[i].name, name) == 0) return &s->object[i];
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
        while (at < s->n && strcmp(s->object[at].name, name) < 0) at++;
        s->object = qr_xreallocarray(s->object, s->n + 1, sizeof *s->object);
        memmove(s->object + at + 1, s->object + at, (s->n - at) * sizeof *s->object);
        s->n++;
        o = &s->object[at];
        *o = (struct object){0};
        snprintf(o->name, sizeof o->name, "%s", name);
    }
    set_bytes(&o->bytes, bytes->p, bytes->n);
    o->damaged = false;
    o->version = ++s->versions;
}
static void remove_object(struct store *s, struct object *o) {
    qr_buf_free(&o->bytes);
    qr_buf_free(&o->intact);
    memmove(o, o + 1, (size_t)(s->object + s->n - (o + 1)) * sizeof *o);
    s->n--;
}
static bool is_intact_checkpoint(const struct object *o) {
    struct qr_checkpoint p = {0};
    if (strcmp(o->name, latest_name) == 0) return false;
    bool ok = qr_checkpoint_decode(qr_buf_view(&o->bytes), "an object", &p, QR_IGNORED) == QR_OK;
    qr_checkpoint_fini(&p);
    return ok;
}
static unsigned count_intact(const struct store *s) {
    unsigned n = 0;
    for (size_t i = 0; i < s->n; i++) n += is_intact_checkpoint(&s->object[i]);
    return n;
}
static bool is_newest(const struct store *s, const struct object *o) {
    return s->has_newest && strcmp(o->name + strlen("run/"), s->newest.object) == 0;
}
bool store_newest_is_damaged(const struct store *s) {
    for (size_t i = 0; i < s->n; i++)
        if (s->object[i].damaged && is_newest(s, &s->object[i])) return true;
    return false;
}
static struct qr_store_version version_of(const struct store *s, const struct object *o) {
    struct qr_store_version v = {.there = o != NULL};
    if (o && s->bucket) qr_set_u64le(v.id, o->version);
    else if (o) qr_xxh3(o->bytes.p, o->bytes.n, v.id);
    return v;
}

/* ---- a request takes effect ---- */

static void check_latest(struct cluster *c, const struct node *x, const struct qr_buf *text) {
    const struct reference *ref = c->ref;
    struct store *s = &c->store;
    struct qr_checkpoint_latest l;
    struct qr_err err = {0};
    if (qr_checkpoint_latest_decode(qr_buf_view(text), "LATEST", &l, &err) != QR_OK)
        cluster_violated(x, "LATEST is written completely", err.msg);
    else if (l.reductions >= ref->n_reductions)
        cluster_violated(x, "LATEST names a state of the run", l.object);
    else if (strcmp(l.digest, ref->digest_at[l.reductions]) != 0)
        cluster_violated(x, "LATEST names the undisturbed run's state", l.object);
    else if (s->has_newest && (l.reductions < s->newest.reductions ||
                               (l.reductions == s->newest.reductions && s->newest.done && !l.done)))
        cluster_violated(x, "LATEST never goes back", l.object);
    else if ((long long)ref->log_end[l.reductions] > s->log_synced) {
        /* A leaving worker that does not lead publishes its state even if the leader has not yet
         * written the line of that state, and never will if it is killed now. */
        if (x->leader && !s->ahead_of_log)
            cluster_violated(x, "the log on disk has the published state's line", l.object);
        s->ahead_of_log = true;
    }
    cluster_trace(x, "moves LATEST to step %llu (%llu reductions)%s", (unsigned long long)l.step,
                  (unsigned long long)l.reductions, l.done ? ", done" : "");
    s->newest = l;
    s->has_newest = true;
    s->n_saves++;
}
static void keep_before(const struct store *s, struct request *r, const struct object *o) {
    r->wrote = true;
    r->existed = o != NULL;
    if (o) set_bytes(&r->before, o->bytes.p, o->bytes.n);
    r->wrote_version = s->versions + 1;
}
static enum qr_code swap(struct cluster *c, struct request *r, const struct node *x) {
    struct store *s = &c->store;
    struct object *o = object_of(s, r->name);
    struct qr_store_version now = version_of(s, o);
    bool plain = c->mutations & PLANT_PLAIN_WRITE,
         same = now.there == r->version.there && memcmp(now.id, r->version.id, sizeof now.id) == 0;
    if (!s->bucket && !r->locked && !plain) {
        if (s->lock) return QR_UNAVAILABLE;
        if (!same) return QR_FAILED_PRECONDITION;
        s->lock = r;
        r->locked = true;
        r->effect_ns = now_of(c) + dice_ns(c, MS(4));
        r->answer_ns += MS(4);
        return QR_ABORTED; /* called again at effect_ns */
    }
    if (!plain && !same) return QR_FAILED_PRECONDITION;
    keep_before(s, r, o);
    write_object(s, r->name, &r->bytes);
    if (s->lock == r) s->lock = NULL;
    check_latest(c, x, &r->bytes);
    return QR_OK;
}
static enum qr_code list(struct store *s, struct request *r) {
    qr_buf_clear(&r->bytes);
    for (size_t i = 0; i < s->n; i++)
        if (strncmp(s->object[i].name, r->name, strlen(r->name)) == 0)
            qr_buf_printf(&r->bytes, "%s%s", r->bytes.n ? "\n" : "", s->object[i].name);
    return QR_OK;
}
/* At random, if another checkpoint is intact; never in LATEST. */
static void flip_bit(struct cluster *c, const struct request *r) {
    if (!r->bytes.n || strcmp(r->name, latest_name) == 0 || dice(c, 1000) >= c->store.faults ||
        count_intact(&c->store) < 2)
        return;
    r->bytes.p[dice(c, r->bytes.n)] ^= (uint8_t)(1 << dice(c, 8));
    if (r->node) cluster_trace(r->node, "reads %s with a wrong bit", r->name);
}
static void perform(struct cluster *c, struct request *r) {
    struct store *s = &c->store;
    struct object *o = object_of(s, r->name);
    const struct node *x = r->node ? r->node : &c->node[0];
    r->performed = true;
    r->code = QR_OK;
    if (r->fail) r->code = QR_UNAVAILABLE;
    else if (r->verb == GET) {
        if (o) set_bytes(&r->bytes, o->bytes.p, o->bytes.n);
        r->version = version_of(s, o);
        r->code = o ? QR_OK : QR_NOT_FOUND;
        if (o && r->node && o->damaged && r->node->damage_hidden)
            set_bytes(&r->bytes, o->intact.p, o->intact.n);
        else if (o) flip_bit(c, r);
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
    } else if (r->verb == LIST) r->code = list(s, r);
    else {
        r->code = swap(c, r, x);
        if (r->code == QR_ABORTED) r->performed = false;
    }
    /* Its fsync of the folder also makes the earlier names in it durable. */
    if (r->performed && r->wrote)
        for (struct request *e = s->requests; e; e = e->next) e->wrote = e->wrote && e == r;
    if (r->performed && r->lose_answer) r->code = QR_UNAVAILABLE;
}

/* ---- requests in progress ---- */

static void remove_request(struct store *s, struct request *r) {
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
static bool is_pending(const struct cluster *c, const struct request *r) {
    return !r->performed && (c->store.bucket || !r->node || !r->node->paused);
}
int64_t store_next_ns(const struct cluster *c) {
    int64_t at = INT64_MAX;
    for (const struct request *r = c->store.requests; r; r = r->next)
        if (is_pending(c, r) && r->effect_ns < at) at = r->effect_ns;
    return at;
}
void store_advance(struct cluster *c) {
    struct store *s = &c->store;
    for (struct request *r = s->requests, *next; r; r = next) {
        next = r->next;
        if (!is_pending(c, r) || r->effect_ns > now_of(c)) continue;
        perform(c, r);
        if (!r->performed || r->node) continue;
        remove_request(s, r);
        free_request(r);
    }
}
void store_orphan_requests(struct cluster *c, const struct node *x) {
    struct store *s = &c->store;
    for (struct request *r = s->requests; r; r = r->next) {
        if (r->node != x || r->performed) continue;
        bool writes = r->verb != GET && r->verb != LIST;
        if (writes && !r->fail && dice(c, 2) && (s->bucket || r->verb != SWAP || r->locked)) {
            struct request *o = qr_xcalloc(1, sizeof *o);
            *o = *r;
            o->node = NULL;
            r->bytes = r->before = (struct qr_buf){0};
            if (s->lock == r) s->lock = o;
            if (!s->bucket) o->effect_ns = now_of(c);
            o->next = s->requests;
            s->requests = o;
        }
        if (s->lock == r) s->lock = NULL;
        r->performed = true;
        r->code = QR_UNAVAILABLE;
    }
}
static enum qr_code request_run(struct node *x, struct request *r, struct qr_err *err) {
    static const char *const verbs[] = {"get", "put", "create", "remove", "list", "swap"};
    struct cluster *c = x->c;
    struct store *s = &c->store;
    /* A permanent code, so that the publisher does not retry. */
    if (x->killed) return qr_fail(err, QR_INTERNAL, "%s: its process was killed", r->name);
    int64_t scale = dice(c, 1000) >= s->faults ? s->bucket ? MS(8) : MS(1)
                    : dice(c, 5) ? MS(500)
                                               : MS(6000);
    r->node = x;
    r->fail = dice(c, 1000) < s->faults;
    r->lose_answer = dice(c, 1000) < s->faults;
    r->effect_ns = now_of(c) + 10000 + dice_ns(c, scale);
    r->answer_ns = r->effect_ns + 10000 + dice_ns(c, scale);
    r->next = s->requests;
    s->requests = r;
    while (!x->killed && (!r->performed || now_of(c) < r->answer_ns))
        actor_sleep(c, r->answer_ns > now_of(c) ? r->answer_ns : now_of(c) + MS(1));
    remove_request(s, r);
    enum qr_code code = x->killed ? QR_INTERNAL : r->code;
    struct qr_checkpoint_latest l;
    if (code == QR_OK && r->verb == SWAP &&
        qr_checkpoint_latest_decode(qr_buf_view(&r->bytes), "LATEST", &l, QR_IGNORED) == QR_OK &&
        l.reductions > s->acked_reductions)
        s->acked_reductions = l.reductions;
    if (code != QR_OK)
        qr_fail(err, code, "%s %s: a simulated fault, or a lost race", verbs[r->verb], r->name);
    if (code == QR_UNAVAILABLE && !x->killed)
        cluster_trace(x, "cannot %s %s%s", verbs[r->verb], r->name,
                      r->lose_answer && !r->fail ? " (done, but its answer is lost)" : "");
    return code;
}

/* ---- the interface ---- */

/* A store as one node sees it. */
struct client {
    struct qr_store base;
    struct node *node;
};
static struct node *node_of(struct qr_store *s) { return ((struct client *)s)->node; }
static struct request *request_new(enum verb verb, const char *name) {
    struct request *r = qr_xcalloc(1, sizeof *r);
    r->verb = verb;
    snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}
static enum qr_code read_with(struct node *x, enum verb verb, const char *name, size_t max_bytes,
                              struct qr_buf *ret, struct qr_store_version *v, struct qr_err *err) {
    struct request *r = request_new(verb, name);
    struct stat st;
    /* The publisher has just synced the log. */
    if (x->c->running == &x->actor[PUBLISHING] && strcmp(name, latest_name) == 0)
        x->c->store.log_synced = stat(x->c->log_path, &st) == 0 ? (long long)st.st_size : 0;
    enum qr_code code = request_run(x, r, err);
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
static enum qr_code client_get(struct qr_store *s, const char *name, size_t max_bytes,
                               struct qr_buf *ret, struct qr_err *err) {
    return read_with(node_of(s), GET, name, max_bytes, ret, NULL, err);
}
static enum qr_code client_get_version(struct qr_store *s, const char *name, size_t max_bytes,
                                       struct qr_buf *ret, struct qr_store_version *v,
                                       struct qr_err *err) {
    return read_with(node_of(s), GET, name, max_bytes, ret, v, err);
}
static enum qr_code client_list(struct qr_store *s, const char *prefix, struct qr_buf *ret,
                                struct qr_err *err) {
    return read_with(node_of(s), LIST, prefix, SIZE_MAX, ret, NULL, err);
}
static enum qr_code write_with(struct node *x, enum verb verb, const char *name,
                               struct qr_bytes content, const struct qr_store_version *seen,
                               struct qr_err *err) {
    struct request *r = request_new(verb, name);
    set_bytes(&r->bytes, content.p, content.n);
    if (seen) r->version = *seen;
    enum qr_code code = request_run(x, r, err);
    free_request(r);
    return code;
}
static enum qr_code client_put(struct qr_store *s, const char *name, struct qr_bytes content,
                               bool if_absent, struct qr_err *err) {
    return write_with(node_of(s), if_absent ? CREATE : PUT, name, content, NULL, err);
}
static enum qr_code client_swap(struct qr_store *s, const char *name, struct qr_bytes content,
                                const struct qr_store_version *seen, struct qr_err *err) {
    return write_with(node_of(s), SWAP, name, content, seen, err);
}
static enum qr_code client_remove(struct qr_store *s, const char *name, struct qr_err *err) {
    return write_with(node_of(s), REMOVE, name, (struct qr_bytes){0}, NULL, err);
}
static enum qr_code client_check(struct qr_store *s, const char *prefix, struct qr_err *err) {
    (void)s, (void)prefix, (void)err;
    return QR_OK;
}
static void client_close(struct qr_store *s) { free(s); }
struct qr_checkpoint_folder store_folder(struct node *x) {
    static const struct qr_store_ops ops = {client_get,  client_put,   client_remove,
                                            client_list, client_check, client_get_version,
                                            client_swap, client_close};
    struct client *d = qr_xcalloc(1, sizeof *d);
    struct qr_checkpoint_folder f = {
        .url = qr_xstrdup(x->c->store.bucket ? "gs://bucket/run" : "/run"),
        .dir = qr_xstrdup("run")};
    *d = (struct client){.base.ops = &ops, .node = x};
    f.at = (struct qr_checkpoint_location){.store = &d->base, .dir = f.dir, .url = f.url};
    return f;
}
void store_fini(struct store *s) {
    for (struct request *r = s->requests, *next; r; r = next) {
        next = r->next;
        if (!r->node) free_request(r); /* else the coroutine that made it does */
    }
    while (s->n) remove_object(s, &s->object[s->n - 1]);
    free(s->object);
}

/* ---- power cuts ---- */

/* A write that was not acknowledged may be absent, torn, or complete. */
static void cut_request(struct cluster *c, struct request *r) {
    struct store *s = &c->store;
    struct object *o = object_of(s, r->name);
    bool creates = r->verb == CREATE || r->verb == PUT || r->verb == SWAP;
    /* A read, a failure, or overwritten since. */
    if (r->performed && !(r->wrote && o && o->version == r->wrote_version)) return;
    if (!r->performed && r->verb == CREATE && o) return;
    if (!r->performed && r->verb == SWAP && !r->locked) return;
    unsigned how = (unsigned)dice(c, 3);
    if (!creates || how == 0) { /* absent */
        if (r->wrote && r->existed) write_object(s, r->name, &r->before);
        else if (r->wrote && o) remove_object(s, o);
        return;
    }
    size_t sectors = r->bytes.n / SECTOR;
    /* With 0 sectors the rename was written before the data. */
    if (how == 1) r->bytes.n = sectors ? SECTOR * dice(c, sectors + 1) : 0;
    write_object(s, r->name, &r->bytes);
}
/* Damages an acknowledged object, but not the only intact checkpoint. */
static void damage(struct cluster *c) {
    struct store *s = &c->store;
    if (count_intact(s) < 2) return;
    struct object *o = &s->object[dice(c, s->n)];
    bool newest = false;
    for (size_t i = 0; i < s->n; i++)
        if (s->has_newest && dice(c, 2) && is_newest(s, &s->object[i])) {
            o = &s->object[i];
            newest = true;
        }
    if (!o->bytes.n) return;
    if (!o->damaged) set_bytes(&o->intact, o->bytes.p, o->bytes.n);
    o->damaged = true;
    if (newest || dice(c, 3)) o->bytes.p[dice(c, o->bytes.n)] ^= (uint8_t)(1 << dice(c, 8));
    else o->bytes.n = SECTOR * dice(c, o->bytes.n / SECTOR + 1);
    s->damaged = true;
    cluster_trace(&c->node[0], "(disk) %s is damaged, though it was acknowledged", o->name);
}
static void cut_log(struct cluster *c) {
    struct stat st;
    if (stat(c->log_path, &st) != 0 || c->store.bucket) return;
    long long size = st.st_size, synced = c->store.log_synced < size ? c->store.log_synced : size,
              first = synced / SECTOR + 1, last = size / SECTOR;
    if (dice(c, 3) == 0) size = synced;
    else if (dice(c, 2) && last >= first)
        size = SECTOR * (first + (long long)dice(c, (uint64_t)(last - first + 1)));
    if (truncate(c->log_path, size) != 0)
        cluster_violated(&c->node[0], "the log can be truncated", c->log_path);
    c->store.log_synced = size;
}
void cluster_cut_power(struct cluster *c) {
    struct store *s = &c->store;
    struct qr_checkpoint_latest l;
    s->n_power_cuts++;
    for (struct request *r = s->requests, *next; r; r = next) {
        next = r->next;
        cut_request(c, r);
        r->performed = true;
        r->code = QR_UNAVAILABLE;
        if (r->node) continue;
        remove_request(s, r);
        free_request(r);
    }
    s->lock = NULL;
    cut_log(c);
    if (dice(c, 2)) damage(c);
    const struct object *o = object_of(s, latest_name);
    s->has_newest =
        o && qr_checkpoint_latest_decode(qr_buf_view(&o->bytes), "LATEST", &l, QR_IGNORED) == QR_OK;
    if (s->has_newest) s->newest = l;
}
