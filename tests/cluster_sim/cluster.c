/* tests/cluster_sim/cluster.c — a cluster of whole workers: time, starts and ends, and what must
 * hold at the end of a run. Start reading at cluster_turn(). */
#include <stdarg.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/cluster_sim/cluster_impl.h"
#include "tests/t.h"

enum { MAX_STARTS = 100, MAX_TURNS = 20000000, MAX_INSTANT_TURNS = 200000, MAX_PRINTED = 700 };

void cluster_violated(const struct node *x, const char *rule, const char *detail) {
    struct cluster *c = x->c;
    if (c->n_violations++ > 0) return;
    c->rule = rule;
    snprintf(c->detail, sizeof c->detail, "worker %u at %.3f s: %.200s", x->index,
             (double)now_of(c) / 1e9, detail);
}
void cluster_trace(const struct node *x, const char *fmt, ...) {
    struct cluster *c = x->c;
    char text[400];
    va_list args;
    if (!c->trace) return;
    int n = snprintf(text, sizeof text, "%9.4f worker %u ", (double)now_of(c) / 1e9, x->index);
    va_start(args, fmt);
    vsnprintf(text + n, sizeof text - (size_t)n, fmt, args);
    va_end(args);
    for (const char *t = text; *t; t++)
        c->trace_hash = (c->trace_hash ^ (uint8_t)*t) * UINT64_C(0x100000001b3);
    if (c->print && c->n_traced++ < MAX_PRINTED) puts(text);
    if (c->print && c->n_traced == MAX_PRINTED) puts("... (the rest is not printed)");
}

/* ---- time ---- */

static void end_node(struct node *x) {
    struct cluster *c = x->c;
    x->live = false;
    x->reported_ns = now_of(c);
    cluster_trace(x, "has ended: %s %s", qr_code_name(x->code), x->code == QR_OK ? "" : x->err.msg);
    if (!x->killed && x->code == QR_OK) {
        x->finished = c->done = true;
        if (*x->digest && strcmp(x->digest, c->ref->digest) != 0)
            cluster_violated(x, "the last digest equals the undisturbed run's", x->digest);
        return;
    }
    bool retry = x->killed || x->code == QR_CANCELLED || qr_exit_code(x->code) == 138;
    if (!retry) cluster_violated(x, "no worker ends with a permanent error", x->err.msg);
    /* Without a store there is no LATEST, from which a restarted worker learns that all is done. */
    if (x->away || (c->done && !c->store.on) || c->n_starts++ >= MAX_STARTS) x->finished = true;
    else x->start_ns = now_of(c) + MS(20) + dice_ns(c, 1500) * MS(1);
}
static void sooner(int64_t *at, int64_t t) {
    if (t < *at) *at = t;
}
static void wake_node(struct cluster *c, struct node *x) {
    if (x->paused && now_of(c) >= x->resume_ns) x->paused = false;
    if (x->live && x->leaving && !x->killed && now_of(c) >= x->leave_by_ns) cluster_kill(x);
    if (x->live || !x->start_ns || now_of(c) < x->start_ns) return;
    if (c->done && !c->store.on) x->finished = true;
    else worker_start(x);
    x->start_ns = 0;
}
void cluster_turn(struct cluster *c, int64_t limit_ns) {
    struct actor *can[ACTORS * MAX_NODES];
    unsigned n = 0;
    int64_t next = limit_ns;
    c->turns++;
    store_advance(c);
    for (unsigned i = 0; i < c->n; i++) {
        struct node *x = &c->node[i];
        wake_node(c, x);
        if (x->paused) sooner(&next, x->resume_ns);
        if (x->start_ns) sooner(&next, x->start_ns);
        if (x->live && x->leaving && !x->killed) sooner(&next, x->leave_by_ns);
        for (int k = 0; k < ACTORS; k++) {
            struct actor *a = &x->actor[k];
            if (!a->started || a->done || x->paused) continue;
            if (actor_can_run(c, a)) can[n++] = a;
            else sooner(&next, a->until_ns > a->frozen_until_ns ? a->until_ns : a->frozen_until_ns);
        }
    }
    if (n == 0) {
        sooner(&next, qr_sim_net_next_ns(c->net));
        sooner(&next, store_next_ns(c));
        qr_sim_net_advance(c->net, next > now_of(c) ? next : now_of(c) + 1);
        return;
    }
    struct actor *a = can[dice(c, n)];
    if (c->instant_ns != now_of(c)) c->instant_turns = 0;
    c->instant_ns = now_of(c);
    if (++c->instant_turns == MAX_INSTANT_TURNS)
        cluster_violated(a->node, "time advances", "a thread polls without a wait");
    actor_resume(c, a);
    if (c->late_ns) a->frozen_until_ns = now_of(c) + dice_ns(c, c->late_ns);
    if (a->done && a == &a->node->actor[TRAINING]) end_node(a->node);
}
bool cluster_runs(const struct cluster *c) {
    bool finished = true;
    for (unsigned i = 0; i < c->n; i++)
        finished = finished && !c->node[i].live && c->node[i].finished;
    /* After a violation workers may hang. */
    return !finished && c->turns < MAX_TURNS && !c->n_violations;
}
static bool any_live(const struct cluster *c) {
    for (unsigned i = 0; i < c->n; i++)
        if (c->node[i].live) return true;
    return false;
}

/* ---- a cluster ---- */

void cluster_init(struct cluster *c, const struct reference *ref, uint64_t seed, unsigned n_max,
                  unsigned n_slots) {
    *c = (struct cluster){.ref = ref,
                          .seed = seed,
                          .random = mix(seed),
                          .trace_hash = UINT64_C(0xcbf29ce484222325),
                          .min_workers = 1,
                          .n_slots = n_slots,
                          .form_timeout_ns = 5 * QR_SECOND};
    c->n = c->n_starts = 1 + (unsigned)dice(c, n_max);
    struct qr_sim_net_options opt = {
        .seed = mix(seed + 1), .min_delay_ns = 50000, .max_delay_ns = MS(1 + dice_ns(c, 20))};
    c->net = qr_sim_net_new(&opt);
    snprintf(c->dir, sizeof c->dir, "%s/qring-whole-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(c->dir) != NULL, "mkdtemp");
    snprintf(c->log_path, sizeof c->log_path, "%s/steps.jsonl", c->dir);
    int64_t micro_batch_ns = dice(c, 4) ? MS(1 + dice_ns(c, 8)) : MS(100);
    for (unsigned i = 0; i < n_slots; i++) {
        struct node *x = &c->node[i];
        x->c = c;
        x->index = i;
        /* A fifth of the workers is slow. */
        x->micro_batch_ns = micro_batch_ns * (dice(c, 5) == 0 ? 3 + dice_ns(c, 6) : 1);
        x->start_ns = i < c->n ? 1 + dice_ns(c, 3) * dice_ns(c, 200) * MS(1) : 0;
        snprintf(c->address[i], sizeof c->address[i], "host%u:2222", i);
        c->peers[i] = c->address[i];
    }
}
void cluster_fini(struct cluster *c) {
    c->n_starts = MAX_STARTS;
    /* Workers of an unfinished run must release their files and memory. */
    for (unsigned i = 0; i < c->n; i++) {
        struct node *x = &c->node[i];
        if (x->live && !x->killed) cluster_kill(x);
        x->start_ns = 0;
    }
    for (unsigned turns = 0; turns < 100000 && any_live(c); turns++)
        cluster_turn(c, now_of(c) + MS(10));
    for (unsigned i = 0; i < c->n_slots; i++)
        for (int k = 0; k < ACTORS; k++) free(c->node[i].actor[k].stack);
    store_fini(&c->store);
    qr_buf_free(&c->line);
    unlink(c->log_path);
    rmdir(c->dir);
    qr_sim_net_free(c->net);
}

/* ---- the end of a run ---- */

/* Returns whether the text has lines of the undisturbed run in their order, each at most once. */
static bool in_order(const struct reference *ref, const struct qr_buf *text) {
    const char *at = qr_buf_string(text);
    for (size_t place = 0; *at && place < ref->n_lines; place++) {
        const struct qr_buf *line = &ref->line[place];
        if (line->n && strncmp(at, (const char *)line->p, line->n) == 0) at += line->n;
    }
    return !*at;
}
static void check_log(struct cluster *c) {
    struct qr_buf text = {0}, whole = c->ref->log;
    struct qr_err err;
    bool found = qr_file_read(c->log_path, 1 << 24, &text, &err) == QR_OK,
         same = found && text.n == whole.n && memcmp(text.p, whole.p, text.n) == 0;
    /* A line may be missing: a leaving worker published a state whose line the leader had not
     * written when it was killed, and the run continued from that state. */
    c->store.log_gap = !same && found && c->store.ahead_of_log && in_order(c->ref, &text);
    if (!same && !c->store.log_gap)
        cluster_violated(&c->node[0], "each step is in the log once",
                         found ? "it differs" : "there is none");
    qr_buf_free(&text);
}
void cluster_check_end(struct cluster *c) {
    const struct store *s = &c->store;
    for (unsigned i = 0; i < c->n; i++)
        if (c->node[i].live || !c->node[i].finished)
            cluster_violated(&c->node[i], "after the last fault every worker finishes",
                             "it has not");
    if (!c->done) return;
    check_log(c);
    if (s->on && !s->gave_up &&
        !(s->has_newest && s->newest.done && s->newest.reductions + 1 == c->ref->n_reductions))
        cluster_violated(&c->node[0], "LATEST says done", "it does not");
}
