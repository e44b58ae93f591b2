/* tests/cluster_sim/world_trainer.h — the toy trainer of a world: sums of integers for
 * micro-batches, sent to all members, with proof that each counts once. Included once. */
#ifndef TESTS_CLUSTER_SIM_WORLD_TRAINER_H
#define TESTS_CLUSTER_SIM_WORLD_TRAINER_H

#include "tests/cluster_sim/world.h"

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
/* After the first reduction: round robin, by rank, over those that compute. */
static uint32_t owner_of(const struct node *x, unsigned b) {
    const struct qr_begin *g = &x->gen.begin;
    uint32_t rank[MAX_NODES], n = 0;
    for (uint32_t r = 0; r < g->n_members; r++)
        if (!g->member[r].server) rank[n++] = r;
    return rank[b % n];
}
static void set_mine(struct world *w, struct node *x) {
    uint8_t mine[MICRO_BATCHES];
    x->mine = 0;
    if (x->step == x->gen.begin.base_reductions) {
        qr_generation_micro_batches(&x->gen.begin, x->gen.rank, step_micro_batches(w, x), mine);
        for (unsigned b = 0; b < step_micro_batches(w, x); b++) x->mine |= (uint64_t)mine[b] << b;
    } else
        for (unsigned b = 0; b < step_micro_batches(w, x); b++)
            if (owner_of(x, b) == x->gen.rank) x->mine |= UINT64_C(1) << b;
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
        handle(w, x->m, .kind = QR_EVENT_REJECTED);
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
        if (x->gen.rank == 0) {
            w->latest_done = true;
            handle(w, x->m, .kind = QR_EVENT_END, .code = QR_OK);
        }
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
    for (uint32_t r = 0; r < g->begin.n_members; r++)
        RULE(g->begin.member[r].server == (g->begin.member[r].name.index < w->servers),
             "all know who computes");
    RULE(g->begin.member[g->begin.n_members - 1].name.index >= w->servers,
         "nothing begins without a worker");
    RULE(qr_gen_id_compare(&x->promised, &g->begin.id) == 0,
         "takes a Begin only for the greatest id that it promised");
    SAY("BEGIN %llu.%u: rank %u of %u, base %llu keep %d, own step %llu held %llx",
        (unsigned long long)g->begin.id.number, g->begin.id.index, g->rank, g->begin.n_members,
        (unsigned long long)g->begin.base_reductions, g->begin.member[g->rank].keep,
        (unsigned long long)x->step, (unsigned long long)x->held);
    x->gen = *g;
    x->active = true;
    x->closed_over = false; /* the leader exited before its Done: the closing reduction again */
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

#endif
