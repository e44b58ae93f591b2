/* membership/member_base.c — rule 5: the base state of a generation, the micro-batches that count,
 * and which worker has which state where two differ. Start reading at member_choose_base().
 */
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "membership/member_impl.h"

static uint64_t run_last(const struct qr_run *r) { return r->first + (r->count - 1) * r->stride; }

/* Checks for a common solution of x = a mod p and x = b mod q within both runs. Runs stay below
 * 2^40, so nothing overflows. */
bool qr_runs_disjoint(const struct qr_run *a, const struct qr_run *b) {
    if (a->count == 1 && b->count == 1) return a->first != b->first;
    uint64_t low = a->first > b->first ? a->first : b->first;
    uint64_t high = run_last(a) < run_last(b) ? run_last(a) : run_last(b);
    if (low > high) return true;
    int64_t p = (int64_t)a->stride, q = (int64_t)b->stride, x0 = 1, x1 = 0, g = p, h = q;
    while (h != 0) {
        int64_t t = g / h, u = g - t * h, v = x0 - t * x1;
        g = h;
        h = u;
        x0 = x1;
        x1 = v;
    }
    int64_t diff = (int64_t)b->first - (int64_t)a->first;
    if (diff % g != 0) return true;
    /* Common solutions repeat after lcm(p, q). */
    __int128 step = (__int128)p / g * q;
    __int128 k = (__int128)(diff / g) * x0 % (q / g);
    __int128 x = (__int128)a->first + k * p;    /* One solution. */
    __int128 back = ((__int128)low - x) / step; /* The least solution >= low. */
    x += back * step;
    while (x < (__int128)low) x += step;
    while (x - step >= (__int128)low) x -= step;
    return x > (__int128)high;
}

static bool held_is_disjoint(const struct qr_held *h, const struct qr_begin *b, uint32_t ranks) {
    for (uint32_t i = 0; i < h->n_runs; i++)
        for (uint32_t j = i + 1; j < h->n_runs; j++)
            /* Overlapping runs of one member would count a micro-batch twice. */
            if (!qr_runs_disjoint(&h->run[i], &h->run[j])) return false;
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t k = 0; k < b->member[r].n_kept; k++)
            for (uint32_t i = 0; i < h->n_runs; i++)
                if (!qr_runs_disjoint(&h->run[i], &b->member[r].kept[k])) return false;
    return true;
}

static bool held_has_state(const struct qr_held *h, uint64_t reductions) {
    return !h->stateless && h->applied_reductions == reductions;
}

enum base_choice member_choose_base(const struct qr_held *held,
                                    const struct qr_member_faults *faults, struct qr_begin *b) {
    uint64_t top = 0;
    uint32_t n_top = 0, best = 0, best_votes = 0, refusals = 0;
    for (uint32_t r = 0; r < b->n_members; r++)
        if (!held[r].stateless && held[r].applied_reductions > top)
            top = held[r].applied_reductions;
    for (uint32_t r = 0; r < b->n_members; r++) {
        if (!held_has_state(&held[r], top)) continue;
        n_top++;
        if (held[r].refusals > refusals) refusals = held[r].refusals;
        uint32_t votes = 0;
        for (uint32_t o = 0; o < b->n_members; o++)
            votes += held_has_state(&held[o], top) &&
                     memcmp(held[o].digest, held[r].digest, sizeof held[r].digest) == 0;
        if (votes > best_votes) {
            best = r;
            best_votes = votes;
        }
    }
    b->base_reductions = top;
    if (refusals >= 2) return BASE_REFUSED_TWICE;
    if (2 * best_votes <= n_top) {
        b->from_checkpoint = true;
        for (uint32_t r = 0; r < b->n_members; r++) {
            b->member[r].holder = b->member[r].keep = false;
            b->member[r].n_kept = 0;
        }
        return n_top ? BASE_SPLIT : BASE_NONE;
    }
    memcpy(b->base_digest, held[best].digest, sizeof b->base_digest);
    for (uint32_t r = 0; r < b->n_members; r++) {
        const struct qr_held *h = &held[r];
        struct qr_begin_member *out = &b->member[r];
        out->holder =
            held_has_state(h, top) && memcmp(h->digest, b->base_digest, sizeof h->digest) == 0;
        bool same = h->base_reductions == top &&
                    memcmp(h->base_digest, b->base_digest, sizeof h->base_digest) == 0;
        if (faults->keep_other_base) same = true;
        bool apart = faults->keep_overlap || held_is_disjoint(h, b, r);
        out->keep = !h->stateless && h->n_runs > 0 && refusals == 0 && same && apart;
        out->n_kept = out->keep ? h->n_runs : 0;
        memcpy(out->kept, h->run, out->n_kept * sizeof *h->run);
    }
    return BASE_OK;
}

void qr_generation_micro_batches(const struct qr_begin *begin, uint32_t rank,
                                 uint64_t n_micro_batches, uint8_t *ret_mine) {
    enum { FREE, MINE, TAKEN };
    memset(ret_mine, FREE, n_micro_batches);
    for (uint32_t r = 0; r < begin->n_members; r++)
        for (uint32_t k = 0; k < begin->member[r].n_kept; k++) {
            const struct qr_run *run = &begin->member[r].kept[k];
            for (uint64_t i = 0, at = run->first; i < run->count && at < n_micro_batches;
                 i++, at += run->stride)
                if (ret_mine[at] != MINE) ret_mine[at] = r == rank ? MINE : TAKEN;
        }
    /* Number of computing members, and this rank's position among them. */
    uint32_t n = 0, mine = 0;
    for (uint32_t r = 0; r < begin->n_members; r++) {
        if (r == rank) mine = n;
        n += !begin->member[r].server;
    }
    if (begin->member[rank].server) mine = n;
    for (uint64_t at = 0, j = 0; at < n_micro_batches; at++) {
        if (ret_mine[at] == FREE) ret_mine[at] = j++ % n == mine ? MINE : TAKEN;
        ret_mine[at] = ret_mine[at] == MINE;
    }
}

/* ---- states that differ: one machine computes wrongly ---- */

static bool states_equal(const struct qr_held *a, const struct qr_held *b) {
    return !a->stateless && !b->stateless && a->applied_reductions == b->applied_reductions &&
           memcmp(a->digest, b->digest, sizeof a->digest) == 0;
}

void member_states_text(struct qr_member *m, const struct qr_held *held, const struct qr_begin *b,
                        char *ret, size_t cap) {
    size_t n = 0;
    ret[0] = '\0';
    for (uint32_t r = 0; r < b->n_members && n + 1 < cap; r++) {
        char digest[33];
        bool listed = held[r].stateless || held[r].applied_reductions != b->base_reductions,
             first = true;
        for (uint32_t o = 0; o < r && !listed; o++) listed = states_equal(&held[o], &held[r]);
        if (listed) continue;
        qr_hex(held[r].digest, sizeof held[r].digest, digest);
        n += (size_t)snprintf(ret + n, cap - n, "%s%s at", n ? "; " : "states: ", digest);
        for (uint32_t o = r; o < b->n_members && n + 1 < cap; o++) {
            if (!states_equal(&held[o], &held[r])) continue;
            n += (size_t)snprintf(ret + n, cap - n, "%s %.100s", first ? "" : ",",
                                  qr_member_peer_text(m, b->member[o].name.index));
            first = false;
        }
    }
}

/* Logs it if the state is after as many reductions as the base, and another one. */
static void log_wrong_state(struct qr_member *m, const struct qr_held *h, const struct qr_begin *b,
                            const char *who, const char *where) {
    char wrong[33], right[33];
    if (h->stateless || h->applied_reductions != b->base_reductions ||
        memcmp(h->digest, b->base_digest, sizeof h->digest) == 0)
        return;
    qr_hex(h->digest, sizeof h->digest, wrong);
    qr_hex(b->base_digest, sizeof b->base_digest, right);
    member_log(m, QR_LOG_ERROR,
               "reduction %llu: %s computed a wrong state: its digest is %s, the majority's is %s. "
               "It fetches the majority's state; check %s machine",
               (unsigned long long)b->base_reductions, who, wrong, right, where);
}

void member_log_wrong_states(struct qr_member *m, const struct qr_held *held,
                             const struct qr_begin *b) {
    for (uint32_t r = 0; r < b->n_members; r++)
        if (b->member[r].name.index != m->opt.index)
            log_wrong_state(m, &held[r], b, qr_member_peer_text(m, b->member[r].name.index), "its");
}

void member_log_own_wrong_state(struct qr_member *m, const struct qr_begin *b) {
    log_wrong_state(m, &m->held, b, "this worker", "this");
}
