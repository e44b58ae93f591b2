/* tests/cluster_sim/world_trainer.c — the toy trainer of a process. Start reading at
 * trainer_run(). */
#include "tests/cluster_sim/world_trainer.h"

static uint64_t micro_batch_sum(uint64_t value, uint64_t step, unsigned b) {
    return mix(value ^ ((step % MAX_STEPS) << 32) ^ b) >> 20;
}
static uint64_t whole_sum(uint64_t value, uint64_t step) {
    uint64_t s = 0;
    for (unsigned b = 0; b < MICRO_BATCHES; b++) s += micro_batch_sum(value, step, b);
    return s;
}
static uint64_t next_value(uint64_t value, uint64_t sum) { return mix(value * 31 + sum); }
uint64_t trainer_next_value(uint64_t value, uint64_t step) {
    return next_value(value, whole_sum(value, step));
}
uint64_t world_value(const struct world *w, uint64_t step) { return w->ref[step % MAX_STEPS]; }
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

void trainer_set_held(struct node *x) {
    struct qr_held h = {.applied_reductions = x->step,
                        .committed_reductions = x->committed,
                        .base_reductions = x->step,
                        .refusals = x->refusals};
    digest_of(x->step, x->value, h.digest);
    memcpy(h.base_digest, h.digest, 16);
    for (uint64_t rest = x->held; rest;) { /* runs of equal stride, found greedily */
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
/* After the base reduction: round robin over the ranks that are not parameter servers. */
static uint32_t owner_of(const struct node *x, unsigned b) {
    const struct qr_begin *g = &x->gen.begin;
    uint32_t rank[MAX_NODES], n = 0;
    for (uint32_t r = 0; r < g->n_members; r++)
        if (!g->member[r].server) rank[n++] = r;
    return rank[b % n];
}
static void assign_micro_batches(struct world *w, struct node *x) {
    uint8_t mine[MICRO_BATCHES];
    bool base = x->step == x->gen.begin.base_reductions;
    unsigned n = (unsigned)step_micro_batches(w, x);
    x->assigned = 0;
    if (base) qr_generation_micro_batches(&x->gen.begin, x->gen.rank, n, mine);
    for (unsigned b = 0; b < n; b++)
        x->assigned |= (uint64_t)(base ? mine[b] : owner_of(x, b) == x->gen.rank) << b;
}
static bool has_base(const struct node *x) {
    return x->active && x->step >= x->gen.begin.base_reductions;
}

static void send_data(const struct world *w, struct node *x, uint32_t to, enum tag tag,
                      const struct part *p) {
    if (w->data_blocked[x->index][to]) return;
    uint8_t b[1 + 8 + 4 + 8 + 8 + 16];
    b[0] = (uint8_t)tag;
    qr_set_u64le(b + 1, x->gen.id_hash);
    qr_set_u32le(b + 9, x->index);
    qr_set_u64le(b + 13, p->step);
    qr_set_u64le(b + 21, p->sum);
    qr_coverage_store(b + 29, p->coverage);
    if (x->conn[to])
        x->link->ops->send(x->link, x->conn[to], qr_bytes_of(b, sizeof b), qr_bytes_of(NULL, 0));
}
static void send_part(const struct world *w, struct node *x, const struct part *p) {
    for (uint32_t r = 0; r < x->gen.begin.n_members; r++)
        if (r != x->gen.rank) send_data(w, x, x->gen.begin.member[r].name.index, TAG_PART, p);
}
static void add_micro_batch(struct world *w, struct node *x, unsigned b) {
    struct qr_coverage_key key = key_of(w, x);
    unsigned times = 1;
    uint64_t value = x->value;
    if (w->plant != PLANT_NONE && w->plants_left > 0 && x->gen.rank == 0 && x->step == 3 &&
        x->held == 0) {
        w->plants_left--;
        if (w->plant == PLANT_TWICE) times = 2;
        if (w->plant == PLANT_MISSED) times = 0;
        if (w->plant == PLANT_OTHER_STATE) value ^= 1, digest_of(x->step, value, key.base_digest);
    }
    if (x->held == 0) x->contribution = (struct part){0};
    x->held |= UINT64_C(1) << b;
    for (; times; times--) {
        x->contribution.sum += micro_batch_sum(value, x->step, b);
        qr_coverage_add_micro_batch(&x->contribution.coverage, &key, b);
    }
}
static struct part make_part(struct world *w, struct node *x) {
    struct part p = x->held ? x->contribution : (struct part){0};
    struct qr_coverage_key key = key_of(w, x);
    p.present = true, p.step = x->step;
    qr_coverage_add_member(&p.coverage, &key, x->gen.rank);
    return p;
}
static void add_set_aside(struct world *w, struct node *x) {
    for (unsigned b = 0; b < MICRO_BATCHES; b++)
        if (x->set_aside & x->assigned & ~x->held & (UINT64_C(1) << b)) add_micro_batch(w, x, b);
    x->set_aside = 0;
}
static void apply(struct world *w, struct node *x) {
    struct qr_coverage_key key = key_of(w, x);
    struct part total = {0};
    for (uint32_t r = 0; r < x->gen.begin.n_members; r++) {
        const struct part *p = &x->part[x->step & 1][x->gen.begin.member[r].name.index];
        if (!p->present || p->step != x->step) return;
        total.sum += p->sum;
        total.coverage = qr_coverage_sum(total.coverage, p->coverage);
    }
    if (!qr_coverage_equal(total.coverage, qr_coverage_total(&key, step_micro_batches(w, x),
                                                             x->gen.begin.n_members))) {
        TRACE("REFUSES step %llu", (unsigned long long)x->step);
        w->refused++, x->refusals++;
        x->active = false;
        trainer_set_held(x);
        handle(w, x->m, .kind = QR_EVENT_REJECTED);
        return;
    }
    RULE(qr_gen_id_compare(&x->promised, &x->gen.begin.id) == 0,
         "no state is applied between a promise and its Begin");
    RULE(total.sum == (x->step == w->steps ? 0 : whole_sum(world_value(w, x->step), x->step)),
         "no wrong sum is applied");
    for (uint32_t r = 0; r < x->gen.begin.n_members; r++) {
        const struct node *o = &w->node[x->gen.begin.member[r].name.index];
        if (o->live && !memcmp(o->inc, x->gen.begin.member[r].name.incarnation, 16))
            RULE(o->step >= x->step, "every member has a committed state");
    }
    x->committed = x->step;
    x->previous = x->part[x->step & 1][x->index];
    x->refusals = 0;
    if (x->gen.rank == 0 && x->committed > w->latest) w->latest = x->committed;
    if (x->step == w->steps) {
        TRACE("passes the closing reduction");
        x->closed = true;
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
    RULE(x->value == world_value(w, x->step), "every state equals the undisturbed run's");
    x->held = x->set_aside = 0, x->sent = false;
    assign_micro_batches(w, x);
    trainer_set_held(x);
}
void trainer_run(struct world *w, struct node *x) {
    if (!x->live || x->finished || x->ended) return;
    int64_t now = now_of(w);
    if (now >= x->micro_batch_ns) { /* a micro-batch is ready */
        x->micro_batch_ns = now + MS(1) + (int64_t)dice(w, 20) * MS(1);
        bool settled = qr_gen_id_compare(&x->promised, &x->gen.begin.id) == 0 && x->active;
        uint64_t todo = x->assigned & ~x->held & ~x->set_aside;
        if (x->gen.begin.n_members && todo && !x->closed) {
            uint64_t b = todo & -todo;
            if (settled && has_base(x))
                add_micro_batch(w, x, (unsigned)__builtin_ctzll(b)), trainer_set_held(x);
            else if (!x->active) x->set_aside |= b;
        }
    }
    if (!x->active) return;
    if (!has_base(x)) {
        if (now < x->resend_ns) return;
        x->resend_ns = now + MS(100);
        for (uint32_t r = 0; r < x->gen.begin.n_members; r++)
            if (x->gen.begin.member[r].holder)
                send_data(w, x, x->gen.begin.member[r].name.index, TAG_FETCH,
                          &(struct part){.step = x->gen.begin.base_reductions});
        return;
    }
    if (x->assigned & ~x->held) return;
    struct part *own = &x->part[x->step & 1][x->index];
    if (!x->sent) {
        *own = make_part(w, x);
        send_part(w, x, own);
        x->sent = true;
        x->resend_ns = now + MS(100);
    } else if (now >= x->resend_ns) { /* the network may have lost it */
        send_part(w, x, own);
        if (x->previous.present && x->previous.step + 1 == x->step) send_part(w, x, &x->previous);
        x->resend_ns = now + MS(100);
    }
    if (!x->closed) apply(w, x);
}
void trainer_receive(struct world *w, struct node *x, const uint8_t *b) {
    uint64_t hash = qr_get_u64le(b + 1);
    uint32_t from = qr_get_u32le(b + 9);
    struct part p = {true, qr_get_u64le(b + 13), qr_get_u64le(b + 21), qr_coverage_load(b + 29)};
    bool ours = x->gen.begin.n_members && hash == x->gen.id_hash && x->active;
    if (b[0] == TAG_PART && ours && (p.step == x->step || p.step == x->step + 1))
        x->part[p.step & 1][from] = p;
    else if (b[0] == TAG_PART && !ours && x->pending_hash == hash) x->early[p.step & 1][from] = p;
    else if (b[0] == TAG_FETCH && ours && x->step >= p.step)
        send_data(w, x, from, TAG_STATE, &(struct part){.step = x->step, .sum = x->value});
    else if (b[0] == TAG_STATE && ours && p.step > x->step && !has_base(x)) {
        TRACE("fetches step %llu", (unsigned long long)p.step);
        RULE(p.sum == world_value(w, p.step), "a fetched state equals the undisturbed run's");
        x->step = p.step, x->value = p.sum;
        /* Micro-batches of an older state must not be kept; do what the Begin says, so that a
         * machine that keeps them is detected. */
        if (!x->gen.begin.member[x->gen.rank].keep) x->held = 0;
        x->set_aside = 0, x->sent = false, x->previous.present = false;
        assign_micro_batches(w, x);
        trainer_set_held(x);
    }
}
void trainer_begin(struct world *w, struct node *x, const struct qr_generation *g) {
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
             "an id has one Begin, the same for all");
        w->gen[k].begun = true, w->gen[k].digest = digest;
    }
    RULE(g->begin.member[g->rank].name.index == x->index &&
             !memcmp(g->begin.member[g->rank].name.incarnation, x->inc, 16),
         "the Begin names this process at its rank");
    RULE(g->begin.member[0].name.index == g->begin.id.index, "the proposer leads");
    for (uint32_t r = 0; r < g->begin.n_members; r++)
        RULE(g->begin.member[r].server == (g->begin.member[r].name.index < w->servers),
             "all know the parameter servers");
    RULE(g->begin.member[g->begin.n_members - 1].name.index >= w->servers,
         "a generation has a worker");
    RULE(qr_gen_id_compare(&x->promised, &g->begin.id) == 0,
         "a Begin is accepted only for the greatest promised id");
    TRACE("BEGIN %llu.%u: rank %u of %u, base %llu keep %d, own step %llu held %llx",
          (unsigned long long)g->begin.id.number, g->begin.id.index, g->rank, g->begin.n_members,
          (unsigned long long)g->begin.base_reductions, g->begin.member[g->rank].keep,
          (unsigned long long)x->step, (unsigned long long)x->held);
    x->gen = *g;
    x->active = true;
    x->closed = false; /* if the leader exited before its Done, the closing reduction is repeated */
    memcpy(x->part, x->early, sizeof x->part);
    memset(x->early, 0, sizeof x->early);
    x->pending_hash = 0;
    x->sent = false, x->previous.present = false;
    RULE(x->step <= g->begin.base_reductions, "no member returns to an earlier state");
    if (x->step == g->begin.base_reductions) {
        if (!g->begin.member[g->rank].keep) x->held = 0;
        assign_micro_batches(w, x);
        add_set_aside(w, x);
    }
    x->set_aside = 0;
    x->resend_ns = 0;
    trainer_set_held(x);
}
