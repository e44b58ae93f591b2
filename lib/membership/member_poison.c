/* membership/member_poison.c — a micro-batch that kills every worker that computes it ends the job
 * before the ring is lost: protocol.md §8. Start reading at member_died().
 */
#include <stdio.h>
#include <string.h>

#include "membership/member_impl.h"

enum { SHOWN_DEAD = 4 };

static bool same_process(const struct qr_member_name *a, const struct qr_member_name *b) {
    return a->index == b->index && same_inc(a->incarnation, b->incarnation);
}
static bool same_base(const struct qr_deaths *d, uint64_t reductions, const uint8_t *digest) {
    return d->reductions == reductions && memcmp(d->digest, digest, sizeof d->digest) == 0;
}

static void set_base(struct qr_deaths *d, uint64_t reductions, const uint8_t *digest) {
    d->reductions = reductions;
    d->n = 0;
    memcpy(d->digest, digest, sizeof d->digest);
}

/* ---- which micro-batch ---- */

static bool has_micro_batch(const struct qr_death *x, uint64_t micro_batch) {
    for (uint32_t i = 0; i < x->n_runs; i++) {
        const struct qr_run *r = &x->run[i];
        if (micro_batch >= r->first && (micro_batch - r->first) % r->stride == 0 &&
            (micro_batch - r->first) / r->stride < r->count)
            return true;
    }
    return false;
}

/* After the first unnamed death that it may have caused, a micro-batch is only computed once named;
 * further unnamed deaths say nothing about it. */
unsigned qr_death_count(const struct qr_deaths *d, uint64_t micro_batch) {
    unsigned named = 0, owned = 0;
    for (uint32_t i = 0; i < d->n; i++)
        if (has_micro_batch(&d->death[i], micro_batch)) *(d->death[i].named ? &named : &owned) += 1;
    return named + (owned > 0);
}

/* Three deaths, and more than twice as many as all others of this reduction: random kills spread
 * over the micro-batches, and several at once. */
static bool is_poison(const struct qr_deaths *d, uint64_t micro_batch) {
    unsigned n = qr_death_count(d, micro_batch);
    return n >= DEADLY && n > 2 * (d->n - n);
}

static bool find_poison(const struct qr_deaths *d, uint64_t *ret_micro_batch) {
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = 0; d->death[i].named && k < d->death[i].n_runs; k++)
            if (is_poison(d, d->death[i].run[k].first)) {
                *ret_micro_batch = d->death[i].run[k].first;
                return true;
            }
    return false;
}

/* ---- the list of deaths ---- */

static int compare_deaths(const struct qr_death *a, const struct qr_death *b) {
    if (a->generation != b->generation) return a->generation < b->generation ? -1 : 1;
    if (a->name.index != b->name.index) return a->name.index < b->name.index ? -1 : 1;
    return memcmp(a->name.incarnation, b->name.incarnation, QR_INCARNATION_BYTES);
}

static void remove_death(struct qr_deaths *d, uint32_t at) {
    d->n--;
    memmove(&d->death[at], &d->death[at + 1], (d->n - at) * sizeof d->death[0]);
}

/* Drops the oldest death when full. Of two reports of one death the one that names micro-batches is
 * more precise. */
static void poison_add_death(struct qr_deaths *d, const struct qr_death *x) {
    for (uint32_t i = 0; i < d->n; i++)
        if (same_process(&d->death[i].name, &x->name)) {
            if (x->named && !d->death[i].named) d->death[i] = *x;
            return;
        }
    if (d->n == QR_MESSAGE_MAX_DEATHS) {
        if (compare_deaths(x, &d->death[0]) < 0) return;
        remove_death(d, 0);
    }
    uint32_t at = d->n;
    while (at > 0 && compare_deaths(x, &d->death[at - 1]) < 0) at--;
    memmove(&d->death[at + 1], &d->death[at], (d->n - at) * sizeof d->death[0]);
    d->death[at] = *x;
    d->n++;
}

static void poison_add_deaths(struct qr_deaths *d, const struct qr_deaths *from) {
    for (uint32_t i = 0; i < from->n; i++) poison_add_death(d, &from->death[i]);
}

static bool peer_is_alive(const struct qr_member *m, const struct qr_member_name *name) {
    const struct peer *p = &m->peer[name->index];
    return is_responding(p) && same_inc(p->incarnation, name->incarnation);
}

/* A connection broke or a peer fell silent in its generation. The process is gone if it does not
 * come back. */
void member_died(struct qr_member *m, uint32_t index) {
    const struct peer *p = &m->peer[index];
    const struct qr_begin *b = &m->generation.begin;
    struct qr_death x = {.name.index = index, .generation = b->id.number};
    uint32_t rank = 0;
    if (!m->formed || m->over || m->ending || p->gone || m->held.stateless) return;
    if (p->server) return; /* A server computes nothing. */
    memcpy(x.name.incarnation, p->incarnation, QR_INCARNATION_BYTES);
    while (rank < b->n_members && !same_process(&b->member[rank].name, &x.name)) rank++;
    if (rank == b->n_members) return;
    if (!same_base(&m->deaths, m->held.applied_reductions, m->held.digest))
        set_base(&m->deaths, m->held.applied_reductions, m->held.digest);
    const struct qr_in_flight *h = &p->beat.in_flight;
    x.named = h->n > 0 && h->reductions == m->deaths.reductions &&
              memcmp(h->digest, m->deaths.digest, sizeof h->digest) == 0;
    for (uint32_t i = 0; x.named && i < h->n; i++)
        x.run[x.n_runs++] = (struct qr_run){.first = h->micro_batch[i], .count = 1, .stride = 1};
    if (!x.named && m->opt.owned) m->opt.owned(m->ctx, rank, &x);
    poison_add_death(&m->deaths, &x);
    m->death_ns = m->now_ns;
}

void member_returned(struct qr_member *m, uint32_t index) {
    for (uint32_t i = m->deaths.n; i-- > 0;)
        if (m->deaths.death[i].name.index == index && peer_is_alive(m, &m->deaths.death[i].name))
            remove_death(&m->deaths, i);
}

/* Removes deaths that the present state makes obsolete. An unnamed one of the last generation stays
 * for one reduction: that process may have been ahead. */
void member_forget_deaths(struct qr_member *m) {
    struct qr_deaths *d = &m->deaths;
    const struct qr_held *h = &m->held;
    if (d->n == 0 || h->stateless || h->applied_reductions < d->reductions ||
        same_base(d, h->applied_reductions, h->digest))
        return;
    for (uint32_t i = d->n; i-- > 0;)
        if (h->applied_reductions != d->reductions + 1 || d->death[i].named ||
            d->death[i].generation != m->generation.begin.id.number)
            remove_death(d, i);
}

/* ---- the list in a Begin ---- */

void member_gather_deaths(struct pending *q, const struct qr_deaths *d) {
    struct qr_deaths *now = &q->deaths, *before = &q->deaths_before;
    if (d->n == 0) return;
    if (now->n == 0 || d->reductions > now->reductions) {
        if (now->n && d->reductions == now->reductions + 1) *before = *now;
        else before->n = 0;
        *now = *d;
    } else if (same_base(now, d->reductions, d->digest)) {
        poison_add_deaths(now, d);
    } else if (d->reductions + 1 == now->reductions) {
        if (!before->n) set_base(before, d->reductions, d->digest);
        poison_add_deaths(before, d);
    }
}

/* Deaths in the previous generation when a member had not applied the base: may be any micro-batch
 * of it. */
static void carry_deaths(const struct qr_member *m, struct qr_deaths *ret,
                         const struct qr_deaths *before) {
    for (uint32_t i = 0; i < before->n && before->reductions + 1 == ret->reductions; i++) {
        struct qr_death x = before->death[i];
        if (x.named || (m->formed && x.generation != m->generation.begin.id.number)) continue;
        x.n_runs = 1;
        x.run[0] = QR_EVERY_MICRO_BATCH;
        poison_add_death(ret, &x);
    }
}

static void remove_living(struct qr_deaths *d, const struct qr_begin *b) {
    for (uint32_t i = d->n; i-- > 0;) {
        bool here = false;
        for (uint32_t r = 0; r < b->n_members && !here; r++)
            here = same_process(&b->member[r].name, &d->death[i].name);
        if (here) remove_death(d, i);
    }
}

/* Other members report the death, but this member's connection is still open: do not count that
 * death yet. The list keeps it, since its reporter may be lost next. */
static bool finds_poison(const struct qr_member *m, const struct qr_deaths *d,
                         struct qr_deaths *ret_dead, uint64_t *ret_micro_batch) {
    *ret_dead = *d;
    for (uint32_t i = ret_dead->n; i-- > 0;)
        if (peer_is_alive(m, &ret_dead->death[i].name)) remove_death(ret_dead, i);
    return find_poison(ret_dead, ret_micro_batch);
}

static void end_for_poison(struct qr_member *m, const struct qr_deaths *d, uint64_t micro_batch) {
    char text[QR_MESSAGE_TEXT_BYTES];
    unsigned n_dead = qr_death_count(d, micro_batch), shown = 0;
    bool owner = false;
    int n = snprintf(text, sizeof text, "micro-batch %llu killed %u workers, one after the other:",
                     (unsigned long long)micro_batch, n_dead);
    for (uint32_t i = 0; i < d->n && n > 0 && (size_t)n < sizeof text; i++) {
        const struct qr_death *x = &d->death[i];
        if (!has_micro_batch(x, micro_batch) || (!x->named && owner) || shown == SHOWN_DEAD)
            continue;
        owner = owner || !x->named;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s %.100s", shown++ ? "," : "",
                      qr_member_peer_text(m, x->name.index));
    }
    if (n_dead > shown && n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, " and %u more", n_dead - shown);
    m->blame =
        (struct qr_blame){.is = true, .reductions = d->reductions, .micro_batch = micro_batch};
    member_end_all(m, QR_DATA_LOSS, text);
}

/* The generation that begins without them confirms the deaths. False: a micro-batch of the base is
 * poison, and the job has ended. */
bool member_begin_deaths(struct qr_member *m, struct pending *q, struct qr_begin *b) {
    uint64_t micro_batch;
    struct qr_deaths *d = &b->deaths;
    member_gather_deaths(q, &m->deaths);
    set_base(d, b->base_reductions, b->base_digest);
    if (same_base(&q->deaths, d->reductions, d->digest)) {
        poison_add_deaths(d, &q->deaths);
        carry_deaths(m, d, &q->deaths_before);
    } else {
        carry_deaths(m, d, &q->deaths);
    }
    remove_living(d, b);
    struct qr_deaths dead; /* A copy: b is the message buffer that the report uses. */
    if (!finds_poison(m, d, &dead, &micro_batch)) return true;
    end_for_poison(m, &dead, micro_batch);
    return false;
}

static void log_deaths(struct qr_member *m) {
    const struct qr_deaths *d = &m->deaths;
    for (uint32_t i = 0; i < d->n; i++) {
        const struct qr_death *x = &d->death[i];
        char runs[200] = "";
        size_t n = 0;
        for (uint32_t k = 0; k < x->n_runs && n < sizeof runs; k++)
            n += (size_t)snprintf(
                runs + n, sizeof runs - n, " %llu+%llux%llu", (unsigned long long)x->run[k].first,
                (unsigned long long)x->run[k].count, (unsigned long long)x->run[k].stride);
        member_log(m, QR_LOG_DEBUG,
                   "%s died in the reduction after state %llu; it %s micro-batches%s",
                   qr_member_peer_text(m, x->name.index), (unsigned long long)d->reductions,
                   x->named ? "had named" : "owned", n ? runs : " none");
    }
}

/* Takes the list of the Begin, and adds processes lost since this member's promise. */
void member_begun_deaths(struct qr_member *m, const struct qr_begin *b) {
    struct qr_deaths *d = &m->deaths, own = m->deaths;
    set_base(d, b->base_reductions, b->base_digest);
    if (b->from_checkpoint) return;
    poison_add_deaths(d, &b->deaths);
    if (same_base(&own, d->reductions, d->digest)) poison_add_deaths(d, &own);
    remove_living(d, b);
    log_deaths(m);
}

/* With too few members for a Begin, each remaining one decides when no process has come back. The
 * leader decides when it notices late that a process of the list is gone. */
void member_check_poison(struct qr_member *m, unsigned n_here) {
    uint64_t micro_batch;
    struct qr_deaths dead;
    if (!m->formed || m->deaths.n < DEADLY) return;
    bool few = n_here < member_min_workers(m), leads = m->active && m->generation.rank == 0;
    if ((few ? !m->active && m->now_ns - m->death_ns >= SETTLED_NS : leads) &&
        finds_poison(m, &m->deaths, &dead, &micro_batch))
        end_for_poison(m, &dead, micro_batch);
}

/* ---- what is in flight ---- */

void qr_member_name_in_flight(struct qr_member *m, int64_t now_ns,
                              const struct qr_in_flight *in_flight) {
    member_advance(m, now_ns);
    m->in_flight = *in_flight;
    if (m->over) return;
    member_heartbeats(m);
    m->in_flight_sequence = m->sequence;
    member_consider(m);
}

bool qr_member_in_flight_acknowledged(const struct qr_member *m) {
    for (uint32_t i = 0; m->active && i < QR_MAX_MEMBERS; i++)
        if (member_answers(m, i) && m->peer[i].in_flight_answered < m->in_flight_sequence)
            return false;
    return true;
}

/* Answers this peer at once: it is waiting. */
void member_answer_in_flight(struct qr_member *m, uint32_t from, const struct qr_in_flight *before,
                             const struct qr_heartbeat *h) {
    if (h->in_flight_heard > m->peer[from].in_flight_answered)
        m->peer[from].in_flight_answered = h->in_flight_heard;
    if (h->in_flight.n == 0 ||
        (before->n == h->in_flight.n && memcmp(before, &h->in_flight, sizeof *before) == 0))
        return;
    member_heartbeat(m);
    m->out.heartbeat.in_flight_heard = h->sequence;
    member_send(m, m->peer[from].conn);
}
