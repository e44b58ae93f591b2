/* tests/sim/world.h — N processes on one computed network, each a membership machine with a toy
 * trainer; rules checked at each action. Included once. */
#ifndef TESTS_SIM_WORLD_H
#define TESTS_SIM_WORLD_H

#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "exact/coverage.h"
#include "membership/member.h"
#include "tests/support/link_simulated.h"
#include "tests/support/planted.h"
#include "tests/t.h"

enum { MAX_NODES = 8, MICRO_BATCHES = 11, MAX_STEPS = 12, MAX_GENS = 4096 };
enum plant { PLANT_NONE, PLANT_TWICE, PLANT_MISSED, PLANT_OTHER_STATE };
#define MS(n) ((int64_t)(n)*1000000)

struct part {
    bool here;
    uint64_t step, sum;
    struct qr_coverage word;
};
struct node {
    bool live, paused, finished, active, ended, stopped, has_lost;
    uint32_t index, lost, inc_count;
    uint8_t inc[16];
    struct qr_link *link;
    struct qr_member *m;
    int64_t start_ns, resume_ns, lost_ns, micro_batch_ns, again_ns;
    enum qr_code code;
    char text[512];
    uint32_t conn[MAX_NODES]; /* last connection on which index spoke */
    struct qr_gen_id promised;
    /* once received, to come again: a Begin, and a Propose, Promise or Busy */
    struct qr_message stale[2];
    uint32_t stale_from[2];
    struct qr_generation gen;
    uint64_t pending_hash; /* of the promised id: its data waits */
    /* trainer */
    uint64_t step, value, committed, mine, held, aside;
    bool sent, closed_over;
    /* data streams, by index */
    bool wanted[MAX_NODES], lost_data[MAX_NODES];
    uint8_t wanted_inc[MAX_NODES][16];
    int64_t heard_ns[MAX_NODES], polls_ns;
    unsigned refusals;
    /* by step parity and index; early: of the promised id */
    struct part part[2][MAX_NODES], early[2][MAX_NODES];
    /* the contribution without its member's word; the one sent for the step before */
    struct part own, last;
};
struct world {
    uint64_t seed, random;
    bool elastic, loud, faulty, cut, cut_data;
    /* nothing that the first sends on data streams comes to the second */
    bool deaf[MAX_NODES][MAX_NODES];
    unsigned n, mutations;
    enum plant plant;
    int planted;    /* how often still */
    uint64_t steps; /* of the job */
    struct qr_sim_net *net;
    struct node node[MAX_NODES];
    char address[MAX_NODES][32];
    const char *peers[MAX_NODES];
    uint64_t ref[MAX_STEPS + 1];
    uint64_t latest;
    bool done; /* the store */
    unsigned n_gens, refused, broken_rules;
    struct {
        struct qr_gen_id id;
        uint64_t digest;
        bool begun;
    } gen[MAX_GENS];
    const char *rule;
    char detail[300];
    int64_t quiet_ns;
};

static uint64_t mix(uint64_t z) {
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static uint64_t dice(struct world *w, uint64_t n) { return (w->random = mix(w->random)) % n; }
static int64_t now_of(const struct world *w) { return qr_sim_net_now_ns(w->net); }

static void broken(struct world *w, const char *rule, const struct node *x) {
    if (w->broken_rules++ == 0) {
        w->rule = rule;
        snprintf(w->detail, sizeof w->detail, "worker %u at %.3f s, step %llu", x->index,
                 (double)now_of(w) / 1e9, (unsigned long long)x->step);
    }
}
#define RULE(cond, text)                                                                           \
    do {                                                                                           \
        if (!(cond)) broken(w, text, x);                                                           \
    } while (0)
#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (w->loud) {                                                                             \
            printf("%9.4f worker %u ", (double)now_of(w) / 1e9, x->index);                         \
            printf(__VA_ARGS__);                                                                   \
            putchar('\n');                                                                         \
        }                                                                                          \
    } while (0)

/* ---- the toy trainer ---- */
static uint64_t micro_batch_sum(uint64_t value, uint64_t step, unsigned b) {
    return mix(value ^ ((step % MAX_STEPS) << 32) ^ b) >> 20;
}
static uint64_t whole_sum(uint64_t value, uint64_t step) {
    uint64_t s = 0;
    for (unsigned b = 0; b < MICRO_BATCHES; b++) s += micro_batch_sum(value, step, b);
    return s;
}
static uint64_t next_value(uint64_t value, uint64_t sum) { return mix(value * 31 + sum); }
/* The run is periodic after MAX_STEPS, so that it can go on for ever in runs that wait for
 * a kill. */
static uint64_t ref_of(const struct world *w, uint64_t step) { return w->ref[step % MAX_STEPS]; }
static void digest_of(uint64_t step, uint64_t value, uint8_t ret[16]) {
    qr_set_u64le(ret, step);
    qr_set_u64le(ret + 8, value);
}
static struct qr_coverage_key key_of(const struct world *w, const struct node *x) {
    struct qr_coverage_key k = {.reductions = x->step,
                                .kind =
                                    x->step == w->steps ? QR_REDUCTION_CLOSE : QR_REDUCTION_TRAIN};
    digest_of(x->step, x->value, k.base_digest);
    return k;
}
static uint64_t step_micro_batches(const struct world *w, const struct node *x) {
    return x->step == w->steps ? 0 : MICRO_BATCHES;
}

static void tell_held(struct world *w, struct node *x) {
    struct qr_held h = {.applied_reductions = x->step,
                        .committed_reductions = x->committed,
                        .base_reductions = x->step,
                        .refusals = x->refusals};
    (void)w;
    digest_of(x->step, x->value, h.digest);
    memcpy(h.base_digest, h.digest, 16);
    for (uint64_t rest = x->held; rest;) { /* as few runs as a greedy walk finds */
        unsigned a = (unsigned)__builtin_ctzll(rest);
        struct qr_run *r = &h.run[h.n_runs++];
        *r = (struct qr_run){a, 1, 1};
        rest &= rest - 1;
        if (rest == 0) break;
        r->stride = (unsigned)__builtin_ctzll(rest) - a;
        for (uint64_t at = a + r->stride; at < MICRO_BATCHES && (rest >> at & 1); at += r->stride)
            r->count++, rest &= ~(UINT64_C(1) << at);
    }
    qr_member_set_held(x->m, &h);
}
static void set_mine(struct world *w, struct node *x) {
    uint8_t mine[MICRO_BATCHES];
    x->mine = 0;
    if (x->step == x->gen.begin.base_reductions) {
        qr_generation_micro_batches(&x->gen.begin, x->gen.rank, step_micro_batches(w, x), mine);
        for (unsigned b = 0; b < step_micro_batches(w, x); b++) x->mine |= (uint64_t)mine[b] << b;
    } else
        for (unsigned b = 0; b < step_micro_batches(w, x); b++)
            if (b % x->gen.begin.n_members == x->gen.rank) x->mine |= UINT64_C(1) << b;
}
static bool has_base(const struct node *x) {
    return x->active && x->step >= x->gen.begin.base_reductions;
}

enum tag { TAG_CONTROL, TAG_PART, TAG_FETCH, TAG_STATE };
static void send_data(const struct world *w, struct node *x, uint32_t to, enum tag tag,
                      const struct part *p) {
    if (w->deaf[x->index][to]) return;
    uint8_t b[1 + 8 + 4 + 8 + 8 + 16];
    b[0] = (uint8_t)tag;
    qr_set_u64le(b + 1, x->gen.id_hash);
    qr_set_u32le(b + 9, x->index);
    qr_set_u64le(b + 13, p->step);
    qr_set_u64le(b + 21, p->sum);
    qr_coverage_store(b + 29, p->word);
    if (x->conn[to])
        x->link->ops->send(x->link, x->conn[to], qr_bytes_of(b, sizeof b), qr_bytes_of(NULL, 0));
}
static void send_part(const struct world *w, struct node *x, const struct part *p) {
    for (uint32_t r = 0; r < x->gen.begin.n_members; r++)
        if (r != x->gen.rank) send_data(w, x, x->gen.begin.member[r].name.index, TAG_PART, p);
}
/* A micro-batch goes into the contribution: a vector that is never taken apart again. */
static void add_micro_batch(struct world *w, struct node *x, unsigned b) {
    struct qr_coverage_key key = key_of(w, x);
    unsigned times = 1;
    uint64_t value = x->value;
    if (w->plant != PLANT_NONE && w->planted > 0 && x->gen.rank == 0 && x->step == 3 &&
        x->held == 0) {
        w->planted--;
        if (w->plant == PLANT_TWICE) times = 2;
        if (w->plant == PLANT_MISSED) times = 0;
        if (w->plant == PLANT_OTHER_STATE) value ^= 1, digest_of(x->step, value, key.base_digest);
    }
    if (x->held == 0) x->own = (struct part){0};
    x->held |= UINT64_C(1) << b;
    for (; times; times--) {
        x->own.sum += micro_batch_sum(value, x->step, b);
        qr_coverage_add_micro_batch(&x->own.word, &key, b);
    }
}
static struct part make_part(struct world *w, struct node *x) {
    struct part p = x->held ? x->own : (struct part){0};
    struct qr_coverage_key key = key_of(w, x);
    p.here = true, p.step = x->step;
    qr_coverage_add_member(&p.word, &key, x->gen.rank);
    return p;
}
/* what was finished between promise and Begin, if it is still wanted */
static void add_aside(struct world *w, struct node *x) {
    for (unsigned b = 0; b < MICRO_BATCHES; b++)
        if (x->aside & x->mine & ~x->held & (UINT64_C(1) << b)) add_micro_batch(w, x, b);
    x->aside = 0;
}
static void publish(struct world *w, struct node *x) {
    if (x->committed > w->latest) w->latest = x->committed;
}
static void apply(struct world *w, struct node *x) {
    struct qr_coverage_key key = key_of(w, x);
    struct part total = {0};
    for (uint32_t r = 0; r < x->gen.begin.n_members; r++) {
        const struct part *p = &x->part[x->step & 1][x->gen.begin.member[r].name.index];
        if (!p->here || p->step != x->step) return;
        total.sum += p->sum;
        total.word = qr_coverage_sum(total.word, p->word);
    }
    if (!qr_coverage_equal(total.word, qr_coverage_total(&key, step_micro_batches(w, x),
                                                         x->gen.begin.n_members))) {
        SAY("REFUSES step %llu", (unsigned long long)x->step);
        w->refused++, x->refusals++;
        x->active = false;
        tell_held(w, x);
        qr_member_refused(x->m, now_of(w));
        return;
    }
    RULE(qr_gen_id_compare(&x->promised, &x->gen.begin.id) == 0,
         "applies nothing between promise and Begin");
    RULE(total.sum == (x->step == w->steps ? 0 : whole_sum(ref_of(w, x->step), x->step)),
         "no wrong sum is applied");
    for (uint32_t r = 0; r < x->gen.begin.n_members; r++) {
        const struct node *o = &w->node[x->gen.begin.member[r].name.index];
        if (o->live && !memcmp(o->inc, x->gen.begin.member[r].name.incarnation, 16))
            RULE(o->step >= x->step, "a committed state is everybody's");
    }
    x->committed = x->step;
    x->last = x->part[x->step & 1][x->index];
    x->refusals = 0;
    if (x->gen.rank == 0) publish(w, x);
    if (x->step == w->steps) {
        SAY("passes the closing reduction");
        x->closed_over = true;
        w->done = true;
        if (x->gen.rank == 0) qr_member_end(x->m, now_of(w), QR_OK, "");
        return;
    }
    x->value = next_value(x->value, total.sum);
    x->step++;
    if (x->step % MAX_STEPS == 0) x->value = w->ref[0];
    RULE(x->value == ref_of(w, x->step), "every state is the undisturbed run's");
    x->held = x->aside = 0, x->sent = false;
    set_mine(w, x);
    tell_held(w, x);
}
static void train(struct world *w, struct node *x) {
    if (!x->live || x->finished || x->ended) return;
    int64_t now = now_of(w);
    qr_member_set_turns(x->m, (uint64_t)now / 1000000, MS(20));
    if (now >= x->micro_batch_ns) { /* one micro-batch is ready */
        x->micro_batch_ns = now + MS(1) + (int64_t)dice(w, 20) * MS(1);
        bool settled = qr_gen_id_compare(&x->promised, &x->gen.begin.id) == 0 && x->active;
        uint64_t todo = x->mine & ~x->held & ~x->aside;
        if (x->gen.begin.n_members && todo && !x->closed_over) {
            uint64_t b = todo & -todo;
            if (settled && has_base(x))
                add_micro_batch(w, x, (unsigned)__builtin_ctzll(b)), tell_held(w, x);
            else if (!x->active)
                x->aside |= b; /* computed on between promise and Begin: set aside */
        }
    }
    if (!x->active) return;
    if (!has_base(x)) {
        if (now < x->again_ns) return;
        x->again_ns = now + MS(100);
        for (uint32_t r = 0; r < x->gen.begin.n_members; r++)
            if (x->gen.begin.member[r].holder)
                send_data(w, x, x->gen.begin.member[r].name.index, TAG_FETCH,
                          &(struct part){.step = x->gen.begin.base_reductions});
        return;
    }
    if (x->mine & ~x->held) return;
    struct part *own = &x->part[x->step & 1][x->index];
    if (!x->sent) {
        *own = make_part(w, x);
        send_part(w, x, own);
        x->sent = true;
        x->again_ns = now + MS(100);
    } else if (now >= x->again_ns) { /* the network may lose it */
        send_part(w, x, own);
        if (x->last.here && x->last.step + 1 == x->step) send_part(w, x, &x->last);
        x->again_ns = now + MS(100);
    }
    if (!x->closed_over) apply(w, x);
}
static void on_data(struct world *w, struct node *x, const uint8_t *b) {
    uint64_t hash = qr_get_u64le(b + 1);
    uint32_t from = qr_get_u32le(b + 9);
    struct part p = {true, qr_get_u64le(b + 13), qr_get_u64le(b + 21), qr_coverage_load(b + 29)};
    bool ours = x->gen.begin.n_members && hash == x->gen.id_hash && x->active;
    if (b[0] == TAG_PART && ours && (p.step == x->step || p.step == x->step + 1))
        x->part[p.step & 1][from] = p;
    else if (b[0] == TAG_PART && !ours && x->pending_hash == hash)
        x->early[p.step & 1][from] = p; /* waits for its Begin */
    else if (b[0] == TAG_FETCH && ours && x->step >= p.step)
        send_data(w, x, from, TAG_STATE, &(struct part){.step = x->step, .sum = x->value});
    else if (b[0] == TAG_STATE && ours && p.step > x->step && !has_base(x)) {
        SAY("fetches step %llu", (unsigned long long)p.step);
        RULE(p.sum == ref_of(w, p.step), "a fetched state is the undisturbed run's");
        x->step = p.step, x->value = p.sum;
        /* a laggard's are never kept; a machine that says so is believed */
        if (!x->gen.begin.member[x->gen.rank].keep) x->held = 0;
        x->aside = 0, x->sent = false, x->last.here = false;
        set_mine(w, x);
        tell_held(w, x);
    }
}
static void on_begin(struct world *w, struct node *x, const struct qr_generation *g) {
    uint64_t digest = mix(g->begin.base_reductions) ^ g->begin.from_checkpoint;
    for (uint32_t r = 0; r < g->begin.n_members; r++) {
        const struct qr_begin_member *b = &g->begin.member[r];
        digest = mix(digest ^ b->name.index ^ qr_get_u64le(b->name.incarnation) ^
                     (uint64_t)b->keep << 9 ^ (uint64_t)b->holder << 8);
        for (uint32_t k = 0; k < b->n_kept; k++)
            digest =
                mix(digest ^ b->kept[k].first ^ b->kept[k].count << 20 ^ b->kept[k].stride << 40);
    }
    unsigned k = 0;
    while (k < w->n_gens && qr_gen_id_compare(&w->gen[k].id, &g->begin.id) != 0) k++;
    RULE(k < w->n_gens, "a Begin follows a Propose");
    if (k < w->n_gens) {
        RULE(!w->gen[k].begun || w->gen[k].digest == digest,
             "one Begin for an id, and all agree on it");
        w->gen[k].begun = true, w->gen[k].digest = digest;
    }
    RULE(g->begin.member[g->rank].name.index == x->index &&
             !memcmp(g->begin.member[g->rank].name.incarnation, x->inc, 16),
         "its rank is its own");
    RULE(g->begin.member[0].name.index == g->begin.id.index, "the proposer leads");
    RULE(qr_gen_id_compare(&x->promised, &g->begin.id) == 0,
         "takes a Begin only for the greatest id that it promised");
    SAY("BEGIN %llu.%u: rank %u of %u, base %llu keep %d, own step %llu held %llx",
        (unsigned long long)g->begin.id.number, g->begin.id.index, g->rank, g->begin.n_members,
        (unsigned long long)g->begin.base_reductions, g->begin.member[g->rank].keep,
        (unsigned long long)x->step, (unsigned long long)x->held);
    x->gen = *g;
    x->active = true;
    memcpy(x->part, x->early, sizeof x->part);
    memset(x->early, 0, sizeof x->early);
    x->pending_hash = 0;
    x->sent = false, x->last.here = false;
    if (x->step > g->begin.base_reductions) RULE(false, "nobody goes back");
    if (x->step == g->begin.base_reductions) {
        if (!g->begin.member[g->rank].keep) x->held = 0;
        set_mine(w, x);
        add_aside(w, x);
    }
    x->aside = 0;
    x->again_ns = 0;
    tell_held(w, x);
}

/* ---- actions of the machine ---- */
struct context {
    struct world *w;
    struct node *x;
};
static struct context contexts[MAX_NODES];
static void send_control(struct node *x, uint32_t conn, const struct qr_message *msg) {
    static struct qr_buf buf;
    struct qr_err err;
    qr_buf_clear(&buf);
    qr_buf_put(&buf, "", 1);
    if (qr_message_encode(msg, &buf, &err) != QR_OK) {
        CHECK(false, "encode: %s", err.msg);
        return;
    }
    x->link->ops->send(x->link, conn, qr_buf_view(&buf), qr_bytes_of(NULL, 0));
}
static void note_promise(struct world *w, struct node *x, const struct qr_gen_id *id) {
    RULE(qr_gen_id_compare(id, &x->promised) > 0, "promises only greater ids");
    x->promised = *id;
    x->pending_hash = qr_gen_id_hash(id);
    memset(x->early, 0, sizeof x->early);
}
static void emit(void *ctx, const struct qr_member_action *a) {
    struct world *w = ((struct context *)ctx)->w;
    struct node *x = ((struct context *)ctx)->x;
    switch (a->kind) {
    case QR_ACT_SEND:
        if (a->message->kind == QR_MESSAGE_PROPOSE &&
            qr_gen_id_compare(&a->message->propose.id, &x->promised) != 0) {
            const struct qr_propose *p = &a->message->propose;
            for (unsigned k = 0; k < w->n_gens; k++)
                RULE(qr_gen_id_compare(&w->gen[k].id, &p->id) != 0, "ids are unique");
            note_promise(w, x, &p->id);
            if (w->n_gens < MAX_GENS) w->gen[w->n_gens++].id = p->id;
            SAY("PROPOSE %llu of %u", (unsigned long long)p->id.number, p->n_members);
        }
        if (a->message->kind == QR_MESSAGE_PROMISE) {
            SAY("PROMISE %llu.%u step %llu", (unsigned long long)a->message->promise.id.number,
                a->message->promise.id.index, (unsigned long long)x->step);
            note_promise(w, x, &a->message->promise.id);
        }
        send_control(x, a->conn, a->message);
        break;
    case QR_ACT_CLOSE: x->link->ops->close_conn(x->link, a->conn); break;
    case QR_ACT_DIAL: x->link->ops->dial(x->link, a->index, a->text); break;
    case QR_ACT_HANG_UP: x->link->ops->hang_up(x->link, a->index); break;
    case QR_ACT_LOG:
        SAY("log: %s", a->text);
        if (a->level == QR_LOG_WARNING && !x->has_lost &&
            sscanf(a->text, "worker %" SCNu32 " (", &x->lost) == 1) {
            x->has_lost = true, x->lost_ns = now_of(w);
            snprintf(x->text, sizeof x->text, "%s", a->text);
        }
        break;
    case QR_ACT_SUSPEND: x->active = false; break;
    case QR_ACT_PEER:
        x->wanted[a->index] = true;
        memcpy(x->wanted_inc[a->index], a->incarnation, 16);
        break;
    case QR_ACT_PEER_GONE: x->wanted[a->index] = false; break;
    case QR_ACT_RENEW_DATA:
        SAY("gives up its data stream to worker %u", a->index);
        x->wanted[a->index] = true;
        break;
    case QR_ACT_BEGIN:
        if (a->generation->begin.n_members == 1) { /* alone it sends no Propose */
            note_promise(w, x, &a->generation->begin.id);
            if (w->n_gens < MAX_GENS) w->gen[w->n_gens++].id = a->generation->begin.id;
        }
        on_begin(w, x, a->generation);
        break;
    case QR_ACT_DONE: x->ended = true; goto out;
    case QR_ACT_STOP:
        x->stopped = true;
        goto out;
    out:
        SAY("%s: %s", a->kind == QR_ACT_DONE ? "DONE" : "STOP", a->text);
        x->code = a->code;
        snprintf(x->text, sizeof x->text, "%s", a->text);
        x->active = false;
    }
}

/* ---- a process ---- */
static void start(struct world *w, struct node *x) {
    uint32_t index = x->index, count = x->inc_count;
    memset(x, 0, sizeof *x);
    x->index = index, x->inc_count = count + 1;
    x->live = true;
    qr_set_u64le(x->inc, mix(w->seed * 1000 + index * 100 + count));
    x->step = x->committed = w->latest;
    x->value = ref_of(w, x->step);
    SAY("starts at step %llu", (unsigned long long)x->step);
    struct qr_err err;
    unsigned port;
    x->link = qr_link_simulated_new(w->net);
    CHECK(x->link->ops->listen(x->link, w->address[index], &port, &err) == QR_OK, "%s", err.msg);
    struct qr_member_options opt = {.run = "toy",
                                    .contract = "f64-v1",
                                    .index = index,
                                    .n_peers = w->n,
                                    .peers = w->peers,
                                    .count_known = true,
                                    .min_workers = w->elastic ? 1 : w->n,
                                    .form_timeout_ns =
                                        w->elastic ? 20 * QR_SECOND : 600 * QR_SECOND,
                                    .seed = mix(w->seed + index),
                                    .faults = planted_faults(w->mutations).member};
    memcpy(opt.incarnation, x->inc, 16);
    contexts[index] = (struct context){w, x};
    x->m = qr_member_new(&opt, emit, &contexts[index]);
    tell_held(w, x);
    qr_member_start(x->m, now_of(w));
}
static void end_process(struct node *x) {
    qr_sim_net_kill(x->link);
    qr_member_free(x->m);
    x->m = NULL, x->live = false, x->active = false;
}
/* The streams come up where data passes both ways; who sees no beat where nothing passes
 * says so. */
static void serve_data(struct world *w, struct node *x) {
    struct qr_polled how = {.turn_ns = now_of(w)};
    if (!x->active || !x->polls_ns) x->polls_ns = now_of(w); /* its trainer takes no time */
    how.since_ns = x->polls_ns;
    for (unsigned i = 0; i < w->n; i++) {
        const struct node *o = &w->node[i];
        bool passes = !w->deaf[i][x->index] && !w->deaf[x->index][i];
        if (!w->deaf[i][x->index]) x->heard_ns[i] = now_of(w);
        how.heard_ns[i] = x->heard_ns[i];
        if (x->lost_data[i]) qr_member_data_down(x->m, now_of(w), i, "reset", true);
        x->wanted[i] = x->wanted[i] || x->lost_data[i];
        x->lost_data[i] = false;
        if (!x->wanted[i] || !passes || !o->live || memcmp(o->inc, x->wanted_inc[i], 16) != 0)
            continue;
        x->wanted[i] = false;
        qr_member_data_up(x->m, now_of(w), i, x->wanted_inc[i]);
    }
    qr_member_set_polled(x->m, &how);
}
/* What was sent meanwhile is lost: as when a stream breaks. */
static void hears_again(struct world *w, struct node *a, struct node *b) {
    if (!w->deaf[a->index][b->index]) return;
    w->deaf[a->index][b->index] = false;
    a->lost_data[b->index] = b->lost_data[a->index] = true;
}
static void serve(struct world *w, struct node *x) {
    static struct qr_message msg;
    struct qr_link_event ev;
    for (int turns = 0; qr_sim_link_ready(x->link) && turns < 200; turns++) {
        x->link->ops->poll(x->link, now_of(w), &ev);
        if (ev.kind == QR_LINK_UP) qr_member_up(x->m, now_of(w), ev.conn, ev.outgoing, ev.tag);
        if (ev.kind == QR_LINK_DOWN) {
            for (unsigned i = 0; i < MAX_NODES; i++)
                if (x->conn[i] == ev.conn) x->conn[i] = 0;
            qr_member_down(x->m, now_of(w), ev.conn, ev.reason);
        }
        if (ev.kind != QR_LINK_MESSAGE) continue;
        if (ev.message.p[0] != TAG_CONTROL) {
            on_data(w, x, ev.message.p);
            continue;
        }
        struct qr_err err;
        if (qr_message_decode(qr_bytes_of(ev.message.p + 1, ev.message.n - 1), &msg, &err) !=
            QR_OK) {
            CHECK(false, "decode: %s", err.msg);
            continue;
        }
        if (msg.kind == QR_MESSAGE_HELLO && msg.hello.index < MAX_NODES)
            x->conn[msg.hello.index] = ev.conn;
        if (msg.kind >= QR_MESSAGE_PROPOSE && msg.kind <= QR_MESSAGE_BEGIN && dice(w, 3)) {
            unsigned slot = msg.kind != QR_MESSAGE_BEGIN;
            x->stale[slot] = msg;
            for (x->stale_from[slot] = 0;
                 x->stale_from[slot] < w->n && x->conn[x->stale_from[slot]] != ev.conn;)
                x->stale_from[slot]++;
        }
        qr_member_message(x->m, now_of(w), ev.conn, &msg);
    }
    serve_data(w, x);
    if (now_of(w) >= qr_member_deadline_ns(x->m)) qr_member_tick(x->m, now_of(w));
    train(w, x);
}
static void turn(struct world *w, int64_t limit_ns) {
    int64_t at = limit_ns, next = qr_sim_net_next_ns(w->net);
    if (next < at) at = next;
    for (unsigned i = 0; i < w->n; i++) {
        const struct node *x = &w->node[i];
        int64_t t = x->live ? x->paused ? x->resume_ns : qr_member_deadline_ns(x->m) : INT64_MAX;
        if (x->live && !x->paused && x->gen.begin.n_members && x->micro_batch_ns > now_of(w) &&
            x->micro_batch_ns < t)
            t = x->micro_batch_ns;
        if (!x->live && x->start_ns > 0) t = x->start_ns;
        if (t < at) at = t;
    }
    if (at <= now_of(w)) at = now_of(w) + 1;
    qr_sim_net_advance(w->net, at);
    unsigned first = (unsigned)dice(w, w->n);
    for (unsigned k = 0; k < w->n; k++) {
        struct node *x = &w->node[(first + k) % w->n];
        if (!x->live && x->start_ns > 0 && now_of(w) >= x->start_ns) {
            x->start_ns = 0;
            if (w->elastic && w->done) x->finished = true; /* LATEST says done: exit 0 */
            else start(w, x);
        }
        if (x->paused && now_of(w) >= x->resume_ns) x->paused = false;
        if (x->live && !x->paused) serve(w, x);
    }
}
static void world_init(struct world *w, uint64_t seed, bool elastic, unsigned n, uint64_t steps) {
    memset(w, 0, sizeof *w);
    w->seed = seed, w->random = mix(seed), w->elastic = elastic, w->steps = steps;
    w->n = n ? n : 2 + (unsigned)dice(w, elastic ? 4 : 7);
    struct qr_sim_net_options opt = {
        .seed = mix(seed + 1), .min_delay_ns = 50000, .max_delay_ns = MS(1 + (int64_t)dice(w, 30))};
    w->net = qr_sim_net_new(&opt);
    for (unsigned s = 0; s < MAX_STEPS; s++)
        w->ref[s + 1] = next_value(w->ref[s], whole_sum(w->ref[s], s));
    for (unsigned i = 0; i < w->n; i++) {
        snprintf(w->address[i], sizeof w->address[i], "host%u:2222", i);
        w->peers[i] = w->address[i];
        w->node[i].index = i;
        /* any order, some late */
        w->node[i].start_ns =
            1 + (int64_t)dice(w, 3) * (int64_t)dice(w, elastic ? 200 : 1500) * MS(1);
    }
}
static void world_fini(struct world *w) {
    for (unsigned i = 0; i < w->n; i++) qr_member_free(w->node[i].m);
    qr_sim_net_free(w->net);
}
static bool all_active(const struct world *w) {
    for (unsigned i = 0; i < w->n; i++)
        if (!w->node[i].active || w->node[i].gen.begin.n_members != w->n) return false;
    return true;
}

#endif
