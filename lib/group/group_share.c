/* group/group_share.c — assigns micro-batches to members: by measured speed (elastic.md), in the
 * first reduction of a generation by its Begin. Start reading at group_assign().
 */
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "group/group_impl.h"

/* Returns the first micro-batch of rank r. Ranges are proportional to speed, rounded to the
 * nearest, so that clock noise between equal machines moves none. An unknown speed counts as the
 * mean, and no speed counts as less than a sixteenth of the mean. */
static uint64_t first_micro_batch(const struct qr_group *g, uint32_t rank,
                                  uint64_t n_micro_batches) {
    const uint64_t *speed = g->shares.speed;
    uint32_t n = g->view.n_members;
    uint64_t mean = 0, n_known = 0, before = 0, all = 0;
    for (uint32_t r = 0; r < n; r++) n_known += speed[r] > 0;
    for (uint32_t r = 0; r < n; r++) mean += n_known ? speed[r] / n_known : 0;
    for (uint32_t r = 0; r < n; r++) {
        uint64_t weight = !speed[r] ? mean + 1 : speed[r] > mean / 16 ? speed[r] : mean / 16 + 1;
        if (g->view.servers >> r & 1) weight = 0;
        if (r < rank) before += weight;
        all += weight;
    }
    return (uint64_t)((2 * (unsigned __int128)n_micro_batches * before + all) /
                      (2 * (unsigned __int128)all));
}

enum { FORGET_REDUCTIONS = 64 };

void qr_group_set_speeds(struct qr_group *g, uint64_t n_micro_batches, const uint64_t *ns) {
    uint64_t count[QR_MAX_MEMBERS];
    if (g->solo || g->view.n_members < 2) return;
    pthread_mutex_lock(&g->lock);
    /* The first reduction of a generation is assigned by its Begin. */
    bool is_first = g->held.applied_reductions <= g->base_reductions + 1;
    pthread_mutex_unlock(&g->lock);
    if (is_first) return;
    for (uint32_t r = 0; r < g->view.n_members; r++)
        count[r] =
            first_micro_batch(g, r + 1, n_micro_batches) - first_micro_batch(g, r, n_micro_batches);
    uint64_t mean = 0;
    uint32_t n = g->view.n_members - (uint32_t)__builtin_popcountll(g->view.servers);
    for (uint32_t r = 0; r < g->view.n_members; r++) mean += g->shares.speed[r] / n;
    for (uint32_t r = 0; r < g->view.n_members; r++) {
        uint64_t *speed = &g->shares.speed[r], now = (count[r] << 30) / (ns[r] + 1) + 1;
        if (count[r] && now < UINT64_C(1) << 50) *speed = *speed ? (7 * *speed + now) / 8 : now;
        /* A member without micro-batches is not measured: a low speed fades until the member gets
         * one again. */
        if (!count[r] && *speed && *speed < mean) *speed += (mean - *speed) / FORGET_REDUCTIONS + 1;
        qr_peer_speed(g->view.index[r], (double)*speed * 1e9 / (double)(1 << 30));
    }
}

void group_reserve_ledger(struct ledger *l, size_t n_micro_batches) {
    if (l->cap >= n_micro_batches) return;
    l->micro_batch = qr_xreallocarray(l->micro_batch, n_micro_batches, sizeof *l->micro_batch);
    l->mine = qr_xreallocarray(l->mine, n_micro_batches, 1);
    l->cap = n_micro_batches;
}

void group_assign(struct qr_group *g, uint64_t n_micro_batches) {
    struct ledger *l = &g->ledger;
    group_reserve_ledger(l, n_micro_batches);
    if (!g->solo && g->held.applied_reductions == g->generation->begin.base_reductions) {
        qr_generation_micro_batches(&g->generation->begin, g->generation->rank, n_micro_batches,
                                    l->mine);
        return;
    }
    uint64_t first = first_micro_batch(g, g->view.rank, n_micro_batches),
             end = first_micro_batch(g, g->view.rank + 1, n_micro_batches);
    for (uint64_t b = 0; b < n_micro_batches; b++) l->mine[b] = b >= first && b < end;
}
