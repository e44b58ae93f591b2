/* group/group_suspects.c — after deaths in a reduction: finds the micro-batches that may be the
 * cause, and announces one before it is computed. Reasons: membership/protocol.md §8. Start reading
 * at qr_group_portion().
 */
#include <string.h>

#include "group/group_impl.h"

/* Before a micro-batch is tried a third time: a burst of kills finds no worker computing it. */
#define QUARANTINE_NS (500 * QR_MS)
/* Of work: shorter micro-batches are announced several at a time. */
#define WORTH_NAMING_NS (5 * QR_MS)
/* Then it is computed without an answer: a silent member is dropped after 1.25 s. */
#define ACKNOWLEDGED_WITHIN_NS (200 * QR_MS)

static unsigned micro_batch_deaths(const struct qr_group *g, uint64_t micro_batch) {
    if (g->solo || g->held.applied_reductions != g->generation->begin.base_reductions) return 0;
    return qr_death_count(&g->generation->begin.deaths, micro_batch);
}

/* Stable; taken micro-batches keep their places. Without deaths all are plain, and nothing is
 * sorted. */
void group_sort_micro_batches(struct qr_group *g) {
    struct ledger *l = &g->ledger;
    l->plain = l->owned = l->limit = l->n;
    if (g->solo || g->generation->begin.deaths.n == 0) return;
    size_t at = l->n_taken;
    for (unsigned level = 0; level < 3; level++) {
        for (uint64_t b = 0; b < l->n_micro_batches; b++) {
            unsigned n = l->mine[b] ? micro_batch_deaths(g, b) : 0;
            if (l->mine[b] && (n < 2 ? n : 2) == level) l->micro_batch[at++] = b;
        }
        if (level == 0) l->plain = l->limit = at;
        if (level == 1) l->owned = at;
    }
}

/* ---- control thread ---- */

void group_suspects_requests(struct qr_group *g) {
    if (!g->name_in_flight) return;
    g->name_in_flight = false;
    qr_member_name_in_flight(g->member, group_now_ns(g), &g->in_flight);
    group_suspects_update(g);
}

void group_suspects_update(struct qr_group *g) {
    if (!g->awaits_in_flight || g->name_in_flight || !qr_member_in_flight_acknowledged(g->member))
        return;
    g->awaits_in_flight = false;
    if (!g->quit) g->data->ops->wake(g->data);
}

/* Announced micro-batches are never computed unannounced. More runs than fit become one over
 * all. */
static void own_runs(const struct qr_group *g, struct qr_death *ret) {
    const struct ledger *l = &g->ledger;
    ret->n_runs = 0;
    for (uint64_t b = 0; b < l->n_micro_batches; b++) {
        struct qr_run *r = ret->n_runs ? &ret->run[ret->n_runs - 1] : NULL;
        if (!l->mine[b] || micro_batch_deaths(g, b)) continue;
        uint64_t last = r ? r->first + (r->count - 1) * r->stride : 0;
        if (r && (r->count == 1 || b - last == r->stride)) {
            r->stride = b - last;
            r->count++;
        } else if (ret->n_runs < QR_MESSAGE_MAX_RUNS) {
            ret->run[ret->n_runs++] = (struct qr_run){.first = b, .count = 1, .stride = 1};
        } else {
            ret->n_runs = 1;
            ret->run[0] = (struct qr_run){.first = ret->run[0].first,
                                          .count = l->n_micro_batches - ret->run[0].first,
                                          .stride = 1};
            return;
        }
    }
}

void group_owned(void *ctx, uint32_t rank, struct qr_death *ret) {
    struct qr_group *g = ctx;
    struct ledger *l = &g->ledger;
    ret->n_runs = 0;
    if (l->serial == g->serial && l->n_micro_batches == 0) return;
    /* That member was faster than this one. */
    if (l->serial != g->serial || l->reductions != g->held.applied_reductions) {
        ret->n_runs = 1;
        ret->run[0] = (struct qr_run){.first = 0, .count = UINT64_C(1) << 40, .stride = 1};
        return;
    }
    if (g->held.applied_reductions == g->generation->begin.base_reductions)
        qr_generation_micro_batches(&g->generation->begin, rank, l->n_micro_batches, l->mine);
    else
        for (uint64_t b = 0; b < l->n_micro_batches; b++)
            l->mine[b] = b >= l->first[rank] && b < l->first[rank + 1];
    own_runs(g, ret);
}

/* ---- training thread ---- */

static void announce_in_flight(struct qr_group *g, const struct qr_in_flight *in_flight) {
    g->in_flight = *in_flight;
    g->name_in_flight = true;
    g->awaits_in_flight = in_flight->n > 0;
    group_wake_control(g);
}

/* Waits until then, or until *go_on is false. */
static enum qr_code suspects_idle_until(struct qr_group *g, int64_t until_ns, const bool *go_on,
                                        struct qr_err *err) {
    enum qr_code code = QR_OK;
    while (code == QR_OK && *go_on && group_now_ns(g) < until_ns) {
        pthread_mutex_unlock(&g->lock);
        code = qr_mesh_idle(g->mesh, until_ns, err);
        pthread_mutex_lock(&g->lock);
    }
    return code;
}

/* Waits until all reachable members have answered, or the time is over. */
static enum qr_code await_acknowledged(struct qr_group *g, struct qr_err *err) {
    enum qr_code code =
        suspects_idle_until(g, group_now_ns(g) + ACKNOWLEDGED_WITHIN_NS, &g->awaits_in_flight, err);
    g->awaits_in_flight = false;
    return code;
}

enum qr_code qr_group_portion(struct qr_group *g, unsigned at_once, size_t *ret_left,
                              struct qr_err *err) {
    struct ledger *l = &g->ledger;
    pthread_mutex_lock(&g->lock);
    enum qr_code code = group_check_current(g, err);
    /* An announced micro-batch is computed, or will not be. */
    if (g->in_flight.n) announce_in_flight(g, &(struct qr_in_flight){0});
    if (l->n_taken < l->limit || l->limit == l->n || code != QR_OK) {
        if (code == QR_OK) *ret_left = l->limit - l->n_taken;
        pthread_mutex_unlock(&g->lock);
        return code;
    }
    struct qr_in_flight in_flight = {.reductions = g->held.applied_reductions};
    const bool alone = l->limit >= l->owned, always = true;
    size_t many = alone ? 1 : at_once,
           short_ones =
               !alone && g->micro_batch_ns > 0 ? (size_t)(WORTH_NAMING_NS / g->micro_batch_ns) : 0,
           end = alone ? l->n : l->owned;
    if (short_ones > many) many = short_ones;
    if (alone && g->view.n_members > 1)
        code = suspects_idle_until(g, g->begun_ns + QUARANTINE_NS, &always, err);
    memcpy(in_flight.digest, g->held.digest, sizeof in_flight.digest);
    for (size_t i = l->limit;
         i < end && in_flight.n < many && in_flight.n < QR_MESSAGE_MAX_IN_FLIGHT; i++)
        in_flight.micro_batch[in_flight.n++] = l->micro_batch[i];
    if (code == QR_OK) {
        announce_in_flight(g, &in_flight);
        code = await_acknowledged(g, err);
    }
    if (code == QR_OK) code = group_check_current(g, err);
    if (code == QR_OK) {
        l->limit += in_flight.n;
        *ret_left = in_flight.n;
    } else {
        announce_in_flight(g, &(struct qr_in_flight){0});
    }
    pthread_mutex_unlock(&g->lock);
    return code;
}

bool qr_group_poison_found(struct qr_group *g, uint64_t *ret_reductions,
                           uint64_t *ret_micro_batch) {
    pthread_mutex_lock(&g->lock);
    const struct verdict *t = g->stop.set ? &g->stop : &g->done;
    struct qr_blame blame = t->set ? t->blame : (struct qr_blame){0};
    pthread_mutex_unlock(&g->lock);
    if (blame.is) {
        *ret_reductions = blame.reductions;
        *ret_micro_batch = blame.micro_batch;
    }
    return blame.is;
}
