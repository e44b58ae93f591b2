/* tests/cluster_sim/whole_faults.h — what may happen to a world, and what must hold at its end.
 * Included once. */
#ifndef TESTS_CLUSTER_SIM_WHOLE_FAULTS_H
#define TESTS_CLUSTER_SIM_WHOLE_FAULTS_H

#include "tests/cluster_sim/whole_world.h"

/* ---- power cuts ---- */

/* Not acknowledged: it may be there, in part, or not at all, whatever else is. */
static void cut_request(struct whole *w, struct request *r) {
    struct store *s = &w->store;
    struct object *o = object_of(s, r->name);
    bool creates = r->verb == CREATE || r->verb == PUT || r->verb == SWAP;
    /* read, refused, or others have written since */
    if (r->performed && !(r->wrote && o && o->version == r->wrote_version)) return;
    if (!r->performed && r->verb == CREATE && o) return;
    if (!r->performed && r->verb == SWAP && !r->locked) return;
    unsigned how = (unsigned)dice(w, 3);
    if (!creates || how == 0) { /* absent: as it was before */
        if (r->wrote && r->had) write_object(s, r->name, &r->before);
        else if (r->wrote && o) remove_object(s, o);
        return;
    }
    size_t sectors = r->bytes.n / SECTOR;
    /* a rename that overtook its data leaves none of it */
    if (how == 1) r->bytes.n = sectors ? SECTOR * dice(w, sectors + 1) : 0;
    write_object(s, r->name, &r->bytes);
}
/* A disk that lied: something acknowledged is damaged, never all that is whole. */
static void damage(struct whole *w) {
    struct store *s = &w->store;
    if (n_whole(s) < 2) return;
    struct object *o = &s->v[dice(w, s->n)];
    bool newest = false;
    for (size_t i = 0; i < s->n; i++)
        if (s->has_newest && dice(w, 2) &&
            strcmp(s->v[i].name + strlen("run/"), s->newest.object) == 0) {
            o = &s->v[i];
            newest = true;
        }
    if (!o->bytes.n) return;
    if (!o->damaged) set_bytes(&o->good, o->bytes.p, o->bytes.n);
    o->damaged = true;
    if (newest || dice(w, 3)) o->bytes.p[dice(w, o->bytes.n)] ^= (uint8_t)(1 << dice(w, 8));
    else o->bytes.n = SECTOR * dice(w, o->bytes.n / SECTOR + 1);
    s->lied = true;
    say(&w->node[0], "(disk) %s is damaged, though it was acknowledged", o->name);
}
static void cut_log(struct whole *w) {
    char path[96];
    struct stat st;
    snprintf(path, sizeof path, "%s/steps.jsonl", w->dir);
    if (stat(path, &st) != 0 || w->store.cloud) return;
    long long size = st.st_size, synced = w->store.synced < size ? w->store.synced : size,
              first = synced / SECTOR + 1, last = size / SECTOR;
    if (dice(w, 3) == 0) size = synced;
    else if (dice(w, 2) && last >= first)
        size = SECTOR * (first + (long long)dice(w, (uint64_t)(last - first + 1)));
    if (truncate(path, size) != 0) broken(w, &w->node[0], "the log can be cut", path);
    w->store.synced = size;
}
/* After every process has died. */
static void store_power_cut(struct whole *w) {
    struct store *s = &w->store;
    struct qr_checkpoint_latest l;
    s->n_cuts++;
    for (struct request *r = s->requests, *next; r; r = next) {
        next = r->next;
        cut_request(w, r);
        r->performed = true;
        r->code = QR_UNAVAILABLE;
        if (r->node) continue;
        drop_request(s, r);
        free_request(r);
    }
    s->lock = NULL;
    cut_log(w);
    if (dice(w, 2)) damage(w);
    const struct object *o = object_of(s, latest_name);
    s->has_newest =
        o && qr_checkpoint_latest_decode(qr_buf_view(&o->bytes), "LATEST", &l, QR_IGNORED) == QR_OK;
    if (s->has_newest) s->newest = l;
}

/* ---- all at once ---- */

static void kill_all(struct whole *w, bool power) {
    for (unsigned i = 0; i < w->n; i++)
        if (w->node[i].live && !w->node[i].killed) kill_node(&w->node[i]);
    if (!power) return;
    say(&w->node[0], "(power) everything is off");
    store_power_cut(w);
}
static inline void heal(struct whole *w) {
    for (unsigned i = 0; i < w->n; i++) {
        struct node *x = &w->node[i];
        if (x->paused) x->resume_ns = now_of(w);
        x->actor[TRAINING].frozen_ns = x->actor[PUBLISHING].frozen_ns = 0;
        for (int k = 0; k < 2; k++) {
            qr_sim_net_lossy(w->net, site_of(x, k), 0);
            x->port[k].slow_ns = 0;
        }
        qr_sim_net_rate(w->net, site_of(x, 0), 0);
        for (unsigned o = 0; o < w->n; o++) cut(x, &w->node[o], false);
    }
    if (w->no_data && w->n > 1) { /* two never pass data to each other again */
        say(&w->node[0], "passes no data to worker 1, for good");
        block(&w->node[0], &w->node[1], 1, true);
        if (dice(w, 2)) block(&w->node[1], &w->node[0], 1, true);
    }
    qr_sim_net_lie(w->net, NULL, NULL);
    w->store.fault = 0;
}
/* ---- trouble ---- */

struct plan {
    bool calm, power, halves;
    unsigned set, n_cuts;
    uint64_t after_saves;
    int64_t quiet_ns, every_ms;
};

static inline void flavour(struct whole *w, struct plan *p) {
    struct store *s = &w->store;
    s->on = dice(w, 6) > 0;
    s->cloud = s->on && dice(w, 5) < 2;
    s->fault = dice(w, 3) ? (unsigned)dice(w, 120) : 0;
    w->every_ns = dice(w, 2) ? 0 : dice_ns(w, 500) * MS(1);
    w->every_steps = 1 + dice(w, 3);
    w->offsets = dice(w, 2);
    w->no_data = dice(w, 6) == 0;
    /* where there is no LATEST, one that is left alone would wait for ever */
    if (w->seed % 3 == 2 && s->on && w->n > 1) w->servers = 1 + (w->n > 3);
    *p = (struct plan){.calm = dice(w, 8) == 0,
                       .power = s->on && dice(w, 3) == 0,
                       .halves = w->n > 1 && dice(w, 8) == 0,
                       .n_cuts = 1 + (unsigned)dice(w, 3),
                       .after_saves = dice(w, 6),
                       .set = 1 + (unsigned)dice(w, (1u << w->n) - 1),
                       .quiet_ns = MS(200) + dice_ns(w, 4000) * MS(1),
                       .every_ms = 1 + dice_ns(w, 400)};
    if (p->calm) return;
    if (dice(w, 6) == 0)
        for (unsigned i = 0; i < w->n; i++)
            for (int k = 0; k < 2; k++)
                qr_sim_net_lossy(w->net, site_of(&w->node[i], k), 1 + (unsigned)dice(w, 60));
    if (dice(w, 8) == 0)
        qr_sim_net_rate(w->net, site_of(&w->node[dice(w, w->n)], 0), 50000 + dice_ns(w, 400000));
}
/* Once so many checkpoints were written, at any moment; then after more of them again. */
static inline void power_cut(struct whole *w, struct plan *p) {
    if (!p->power || !p->n_cuts || w->done || w->store.n_saves < p->after_saves || dice(w, 60))
        return;
    kill_all(w, !w->store.cloud);
    p->after_saves = w->store.n_saves + dice(w, 6);
    p->n_cuts--;
}
static bool acts(const struct node *x) { return x->live && !x->killed && !x->paused; }
static void trouble_links(struct whole *w, struct node *x, struct node *o) {
    switch (dice(w, 9)) {
    case 7:
    case 8:
        say(x, "passes no data to worker %u", o->index);
        block(x, o, 1, true);
        if (dice(w, 2)) block(o, x, 1, true);
        break;
    case 0:
        say(x, "cannot reach worker %u", o->index);
        for (int k = 0, twice = (int)dice(w, 2); k <= twice; k++) {
            block(k ? o : x, k ? x : o, 0, true);
            if (dice(w, 2)) block(k ? o : x, k ? x : o, 1, true);
        }
        break;
    case 1:
        say(x, "reaches worker %u again", o->index);
        cut(x, o, false);
        break;
    case 2:
        if (!x->live || !o->live) break;
        say(x, "loses a connection to worker %u", o->index);
        int kind = (int)dice(w, 2);
        qr_sim_net_break(w->net, x->port[kind].inner, o->port[kind].inner);
        break;
    case 3:
    case 6:
        say(x, "has streams that are slow to give back");
        x->port[1].slow_ns = now_of(w) + dice_ns(w, 4000) * MS(1);
        break;
    case 4: {
        char host[16], other[16];
        snprintf(host, sizeof host, "host%u", x->index);
        snprintf(other, sizeof other, "host%u", o->index);
        bool lie = dice(w, 2);
        say(x, "its name leads %s",
            !lie         ? "where it should"
            : dice(w, 2) ? "to another"
                         : "to nobody");
        qr_sim_net_lie(w->net, lie ? host : NULL, w->random & 1 ? other : NULL);
        break;
    }
    default: qr_sim_net_rate(w->net, site_of(x, 0), dice(w, 2) ? 0 : 20000 + dice_ns(w, 200000));
    }
}
static inline void trouble(struct whole *w) {
    struct node *x = &w->node[dice(w, w->n)], *o = &w->node[dice(w, w->n)];
    switch (dice(w, 10)) {
    case 0:
    case 1:
        if (x->live && !x->killed) kill_node(x);
        break;
    case 2:
        if (!acts(x)) break;
        say(x, "is stopped");
        x->paused = true;
        x->resume_ns = now_of(w) + MS(20) + dice_ns(w, 3000) * MS(1);
        break;
    case 3:
        if (!acts(x)) break;
        int k = dice(w, 2) ? TRAINING : PUBLISHING;
        say(x, "its %s thread is frozen", k == TRAINING ? "training" : "publishing");
        x->actor[k].frozen_ns =
            now_of(w) + (dice(w, 10) ? MS(20) + dice_ns(w, 2000) * MS(1) : 15 * QR_SECOND);
        break;
    case 4:
        if (acts(x) && !x->leaving && dice(w, 2)) ask_to_leave(x);
        break;
    case 5:
        if (dice(w, 12) == 0) kill_all(w, false);
        break;
    default:
        if (x != o) trouble_links(w, x, o);
    }
}

/* ---- the end ---- */

/* The lines of the undisturbed run in their order, each at most once. */
static bool in_order(const struct qr_buf *text) {
    const char *at = qr_buf_string(text);
    for (size_t place = 0; *at && place < truth.n_lines; place++) {
        const struct qr_buf *line = &truth.line[place];
        if (line->n && strncmp(at, (const char *)line->p, line->n) == 0) at += line->n;
    }
    return !*at;
}
static void check_log(struct whole *w) {
    struct qr_buf text = {0};
    struct qr_err err;
    char path[96];
    snprintf(path, sizeof path, "%s/steps.jsonl", w->dir);
    /* Not all: a worker that left published a state whose line the leader had not written, and the
     * leader died; who goes on from there has no lines. */
    bool there = qr_file_read(path, 1 << 24, &text, &err) == QR_OK,
         all = there && text.n == truth.log.n && memcmp(text.p, truth.log.p, text.n) == 0;
    w->store.gap = !all && there && w->store.ahead_of_log && in_order(&text);
    if (!all && !w->store.gap)
        broken(w, &w->node[0], "each step is in the log once",
               there ? "it differs" : "there is none");
    qr_buf_free(&text);
}
static void check_end(struct whole *w) {
    const struct store *s = &w->store;
    for (unsigned i = 0; i < w->n; i++)
        if (w->node[i].live || !w->node[i].finished)
            broken(w, &w->node[i], "after quiet everybody finishes", "it has not");
    if (!w->done) return;
    check_log(w);
    if (s->on && !s->gave_up &&
        !(s->has_newest && s->newest.done && s->newest.reductions + 1 == truth.n_reductions))
        broken(w, &w->node[0], "LATEST says done", "it does not");
}

#endif
