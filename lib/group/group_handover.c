/* group/group_handover.c — hands the sum of a leaving member to another one (sum_handover.h). Start
 * reading at handover_prepare() and handover_received(). */
#include "group/sum_handover.h"

#include <inttypes.h>
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "format/handover.h"
#include "group/group_impl.h"

_Static_assert(QR_HANDOVER_HEADER_BYTES + QR_MESSAGE_MAX_RUNS * 24 +
                       QR_HANDOVER_MAX_COUNT * QR_FIXED_BYTES + 4 <=
                   QR_LINK_MAX_MESSAGE,
               "a handover is one message");

static uint64_t count_run_micro_batches(const struct qr_run *run, uint32_t n) {
    uint64_t micro_batches = 0;
    for (uint32_t i = 0; i < n; i++) micro_batches += run[i].count;
    return micro_batches;
}

/* ---- the leaver ---- */

bool handover_worth(const struct qr_group *g) {
    const struct ledger *l = &g->ledger;
    const struct handover *h = &g->handover;
    bool has_receiver = !g->solo && g->view.n_members > 1 && g->serial;
    bool fits = h->known && h->n <= QR_HANDOVER_MAX_COUNT;
    if (!has_receiver || !fits) return false;
    /* All that was taken is in the sum. */
    bool its_own = l->n_taken > 0 && !l->dropped && !h->gives;
    return its_own && group_now_ns(g) - l->began_ns >= QR_HANDOVER_WORTH_NS;
}

/* held: the runs. vector: h->n integers over exactly these. */
static void handover_encode_frame(struct qr_group *g, const struct qr_held *held,
                                  const qr_fixed *vector, struct qr_coverage coverage) {
    struct handover *h = &g->handover;
    struct qr_handover out = {.kind = (uint8_t)h->key.kind,
                              .generation = g->generation->id_hash,
                              .reductions = h->key.reductions,
                              .n_runs = held->n_runs,
                              .integers = qr_bytes_of(vector, h->n * sizeof *vector)};
    memcpy(out.base_digest, h->key.base_digest, sizeof out.base_digest);
    memcpy(out.run, held->run, sizeof out.run);
    qr_coverage_store(out.coverage, coverage);
    qr_buf_clear(&h->frame);
    qr_handover_encode(&out, &h->frame);
    h->frame_micro_batches = count_run_micro_batches(held->run, held->n_runs);
}

static bool is_present_state(const struct qr_group *g, const struct qr_coverage_key *key) {
    return key->reductions == g->held.applied_reductions &&
           memcmp(key->base_digest, g->held.digest, sizeof g->held.digest) == 0;
}

void handover_prepare(struct qr_group *g, const struct qr_contribution *c) {
    struct handover *h = &g->handover;
    struct qr_held held;
    if (!handover_worth(g)) return;
    if (!is_present_state(g, &h->key) || !is_present_state(g, &c->key)) return;
    if (c->n != h->n + c->n_by_rank) return; /* Values by rank are not handed over. */
    if (!group_runs(g, &held)) return;
    handover_encode_frame(g, &held, c->vector, c->coverage);
}

/* Moves the taken micro-batches, except those in flight, to the front. Returns their number. */
static size_t sort_finished(struct ledger *l, const struct qr_group_finished *f) {
    size_t n = 0;
    for (size_t i = 0; i < l->n_taken; i++) {
        bool in_flight = false;
        for (size_t k = 0; k < f->n_in_flight; k++)
            in_flight = in_flight || f->in_flight[k] == l->micro_batch[i];
        if (!in_flight) l->micro_batch[n++] = l->micro_batch[i];
    }
    return n;
}

void handover_prepare_finished(struct qr_group *g) {
    struct handover *h = &g->handover;
    struct ledger *l = &g->ledger;
    struct qr_group_finished f;
    struct qr_held held;
    struct qr_coverage all = {0};
    if (h->frame.n || !h->finished) return; /* prepared already, or impossible */
    if (!handover_worth(g) || !is_present_state(g, &h->key)) return;
    if (!h->finished(h->finished_ctx, &f) || f.n != h->n) return;
    /* No more micro-batches are taken, and this member leaves in any case. */
    l->n = l->n_taken = sort_finished(l, &f);
    l->open = false;
    for (size_t i = 0; i < l->n_taken; i++)
        qr_coverage_add_micro_batch(&all, &h->key, l->micro_batch[i]);
    /* One was just taken. */
    if (l->n_taken == 0 || !qr_coverage_equal(all, f.coverage) || !group_runs(g, &held)) return;
    handover_encode_frame(g, &held, f.vector, f.coverage);
}

bool handover_send(struct qr_group *g) {
    struct handover *h = &g->handover;
    uint32_t index, conn;
    bool sent =
        h->frame.n && !h->left && qr_member_successor(g->member, &index, &conn) &&
        g->control->ops->send(g->control, conn, qr_buf_view(&h->frame), (struct qr_bytes){0});
    qr_buf_free(&h->frame);
    if (!sent) return false;
    qr_count(QR_MICRO_BATCHES_HANDED_OVER, h->frame_micro_batches);
    qr_info(g->o.log, "group",
            "hands over %" PRIu64 " micro-batch%s of reduction %" PRIu64 " to %s",
            h->frame_micro_batches, h->frame_micro_batches == 1 ? "" : "es",
            g->held.applied_reductions + 1, qr_member_peer_text(g->member, index));
    h->awaits = true;
    h->leave_by_ns = group_now_ns(g) + QR_HANDOVER_ANSWER_NS;
    group_drop_held(g);
    return true;
}

/* ---- the receiver ---- */

void handover_expect(struct qr_group *g, const struct qr_contribution *shape) {
    struct handover *h = &g->handover;
    h->known = true;
    h->key = shape->key;
    h->n_micro_batches = shape->n_micro_batches;
    h->n = shape->n - shape->n_by_rank;
}

void handover_drop(struct qr_group *g) {
    g->handover.n_runs = 0;
    g->handover.gives = false;
}

void handover_fini(struct handover *h) {
    qr_buf_free(&h->frame);
    free(h->apart.vector);
    free(h->given.vector);
    free(h->added.vector);
}

static void swap_sums(struct handover_sum *a, struct handover_sum *b) {
    struct handover_sum s = *a;
    *a = *b;
    *b = s;
}

/* The runs are micro-batches of this reduction, without duplicates. */
static bool runs_fit(const struct handover *h, const struct qr_handover *in) {
    for (uint32_t i = 0; i < in->n_runs; i++) {
        if (in->run[i].first + (in->run[i].count - 1) * in->run[i].stride >= h->n_micro_batches)
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (!qr_runs_disjoint(&in->run[i], &in->run[k])) return false;
    }
    return in->n_runs > 0;
}

static bool coverage_matches(const struct handover *h, const struct qr_handover *in) {
    struct qr_coverage all = {0};
    for (uint32_t i = 0; i < in->n_runs; i++)
        for (uint64_t k = 0; k < in->run[i].count; k++)
            qr_coverage_add_micro_batch(&all, &h->key, in->run[i].first + k * in->run[i].stride);
    return qr_coverage_equal(all, qr_coverage_load(in->coverage));
}

static bool runs_apart(const struct qr_run *a, uint32_t n_a, const struct qr_run *b, uint32_t n_b) {
    for (uint32_t i = 0; i < n_a; i++)
        for (uint32_t k = 0; k < n_b; k++)
            if (!qr_runs_disjoint(&a[i], &b[k])) return false;
    return true;
}

static uint32_t handover_rank(const struct qr_begin *b, uint32_t index) {
    uint32_t r = 0;
    while (r < b->n_members && b->member[r].name.index != index) r++;
    return r;
}

/* No Begin known here has assigned these micro-batches to another member. The sender may not have
 * received the last Begin yet. */
static bool sender_owns(const struct qr_group *g, uint32_t index, const struct qr_handover *in) {
    const struct qr_begin *b = &g->generation->begin;
    if (in->generation == g->generation->id_hash) return true;
    if (g->held.applied_reductions != b->base_reductions) return false;
    qr_generation_micro_batches(b, handover_rank(b, index), g->handover.n_micro_batches,
                                g->ledger.mine);
    for (uint32_t i = 0; i < in->n_runs; i++)
        for (uint64_t k = 0; k < in->run[i].count; k++)
            if (!g->ledger.mine[in->run[i].first + k * in->run[i].stride]) return false;
    return true;
}

/* NULL: accepted. */
static const char *handover_objection(const struct qr_group *g, uint32_t index,
                                      const struct qr_handover *in) {
    const struct handover *h = &g->handover;
    if (!g->serial || handover_rank(&g->generation->begin, index) == g->generation->begin.n_members)
        return "it is of no member of this generation";
    if (!h->known || in->reductions != h->key.reductions || in->kind != (uint8_t)h->key.kind ||
        memcmp(in->base_digest, h->key.base_digest, sizeof in->base_digest) != 0)
        return "this worker is at another reduction";
    if (in->integers.n != h->n * QR_FIXED_BYTES) return "its length is not that of this job's sums";
    if (!runs_fit(h, in))
        return "it names micro-batches twice, or micro-batches that the reduction does not have";
    if (!sender_owns(g, index, in)) return "its micro-batches belong to other members by now";
    if (!coverage_matches(h, in)) return "its coverage word is not that of its micro-batches";
    if (h->n_runs + in->n_runs > QR_MESSAGE_MAX_RUNS)
        return "with what others handed over it is in too many pieces";
    if (!runs_apart(in->run, in->n_runs, h->run, h->n_runs))
        return "another worker handed over some of its micro-batches";
    return NULL;
}

static void handover_answer(struct qr_group *g, uint32_t conn, uint64_t generation) {
    struct qr_buf out = {0};
    qr_handover_encode(&(struct qr_handover){.generation = generation}, &out);
    /* The sender's wait is bounded. */
    (void)g->control->ops->send(g->control, conn, qr_buf_view(&out), (struct qr_bytes){0});
    qr_buf_free(&out);
}

void handover_received(struct qr_group *g, uint32_t conn, uint32_t index, struct qr_bytes message) {
    struct handover *h = &g->handover;
    struct qr_handover in;
    bool whole = qr_handover_decode(message, &in);
    if (whole && !in.n_runs) {
        if (h->awaits) g->leave = true;
        h->awaits = false;
        return;
    }
    const char *why = whole ? handover_objection(g, index, &in) : "it is damaged";
    if (whole) handover_answer(g, conn, in.generation);
    if (why) {
        qr_count(QR_HANDOVERS_REFUSED, 1);
        qr_warn(g->o.log, "group", "%s: what it hands over is dropped, and computed again: %s",
                qr_member_peer_text(g->member, index), why);
        return;
    }
    struct handover_sum *sum = &h->apart;
    if (sum->cap < h->n) {
        sum->vector = qr_xreallocarray(sum->vector, h->n, sizeof *sum->vector);
        sum->cap = h->n;
    }
    if (!h->n_runs) {
        memset(sum->vector, 0, h->n * sizeof *sum->vector);
        sum->coverage = (struct qr_coverage){0};
    }
    qr_fixed_add_bytes(sum->vector, in.integers.p, h->n);
    sum->coverage = qr_coverage_sum(sum->coverage, qr_coverage_load(in.coverage));
    memcpy(h->run + h->n_runs, in.run, in.n_runs * sizeof *h->run);
    h->n_runs += in.n_runs;
    uint64_t micro_batches = count_run_micro_batches(in.run, in.n_runs);
    qr_info(g->o.log, "group", "%s hands over %" PRIu64 " micro-batch%s of reduction %" PRIu64,
            qr_member_peer_text(g->member, index), micro_batches, micro_batches == 1 ? "" : "es",
            in.reductions + 1);
    if (!g->begun) group_on_suspend(g); /* The promise may still be to come. */
}

void handover_join(struct qr_group *g, struct qr_held *held) {
    struct handover *h = &g->handover;
    if (!h->n_runs) return;
    if (held->n_runs + h->n_runs > QR_MESSAGE_MAX_RUNS ||
        !runs_apart(held->run, held->n_runs, h->run, h->n_runs)) {
        qr_count(QR_HANDOVERS_REFUSED, 1);
        qr_warn(g->o.log, "group",
                "what was handed over is dropped, and computed again: with this worker's own "
                "micro-batches it is in too many pieces");
        handover_drop(g);
        return;
    }
    memcpy(held->run + held->n_runs, h->run, h->n_runs * sizeof *h->run);
    held->n_runs += h->n_runs;
}

void handover_begun(struct qr_group *g, const struct qr_run *kept, uint32_t n_kept,
                    uint32_t n_own) {
    struct handover *h = &g->handover;
    struct ledger *l = &g->ledger;
    if (!h->n_runs) return;
    uint64_t micro_batches = count_run_micro_batches(h->run, h->n_runs);
    bool joined = n_kept == n_own + h->n_runs &&
                  memcmp(kept + n_own, h->run, h->n_runs * sizeof *h->run) == 0;
    /* Arrived after the promise: the micro-batches belong to other members by now. */
    if (!joined || micro_batches > l->cap - l->n_taken) {
        qr_count(QR_HANDOVERS_REFUSED, 1);
        qr_warn(g->o.log, "group",
                "what was handed over is dropped, and computed again: it came too late");
        h->n_runs = 0;
        return;
    }
    for (uint32_t i = 0; i < h->n_runs; i++)
        for (uint64_t k = 0; k < h->run[i].count; k++)
            l->micro_batch[l->n_taken++] = h->run[i].first + k * h->run[i].stride;
    l->n = l->n_taken;
    if (h->gives) {
        qr_fixed_add(h->given.vector, h->apart.vector, h->n);
        h->given.coverage = qr_coverage_sum(h->given.coverage, h->apart.coverage);
    } else swap_sums(&h->given, &h->apart);
    h->gives = true;
    h->n_runs = 0;
    qr_count(QR_MICRO_BATCHES_TAKEN_OVER, micro_batches);
}

bool handover_take(struct qr_group *g, const qr_fixed **ret_vector, size_t *ret_n,
                   struct qr_coverage *ret_coverage) {
    struct handover *h = &g->handover;
    if (!h->gives) return false;
    swap_sums(&h->added, &h->given);
    h->gives = false;
    *ret_vector = h->added.vector;
    *ret_n = h->n;
    *ret_coverage = h->added.coverage;
    return true;
}
