/* group/group_step.c — the calls of the step loop: joining generations, taking micro-batches, sums,
 * applying states, the end. Start reading at qr_group_join(); elastic.md has the whole picture.
 *
 * The trainer's state as the machine knows it is g->held. It changes only in this file, under the
 * lock: when a state is applied, when a promise freezes the ledger, when a Begin keeps or empties
 * it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "group/group_impl.h"

#define FORM_GRACE_NS (660 * QR_SECOND) /* longer than the machine's own waits */
/* A member may still be computing a micro-batch; the machine detects frozen and lost members. */
#define CONNECT_NS (600 * QR_SECOND)
#define GOODBYES_WITHIN_NS (8 * QR_SECOND)
#define SERVER_WAITS_NS (5 * QR_SECOND) /* least time between two looks at the store */
#define TRANSFER_NS (600 * QR_SECOND)

static void group_lock(struct qr_group *g) { pthread_mutex_lock(&g->lock); }
static void group_unlock(struct qr_group *g) { pthread_mutex_unlock(&g->lock); }

/* The generation that the trainer works in is still the active one. Under the lock. */
bool group_current(const struct qr_group *g) {
    if (g->solo) return true;
    /* After Done no other generation begins, but the last chunks of the closing reduction may still
     * arrive. */
    if (g->done.set && group_now_ns(g) - g->done_ns > QR_SECOND) return false;
    return g->begun && g->joined == g->serial;
}
static enum qr_code group_aborted(struct qr_err *err) {
    return qr_fail(err, QR_ABORTED, "the group's membership is changing");
}
enum qr_code group_check_current(struct qr_group *g, struct qr_err *err) {
    enum qr_code code = group_stop_reason(g, err);
    if (code == QR_OK && !group_current(g)) code = group_aborted(err);
    return code;
}

/* Keeps the first error of the training thread for the goodbye. */
static enum qr_code group_note_error(struct qr_group *g, enum qr_code code,
                                     const struct qr_err *err) {
    if (code == QR_OK || code == QR_ABORTED || !err) return code;
    group_lock(g);
    /* This thread sends nothing more, so the goodbye need not wait. */
    if (code == QR_CANCELLED && !g->solo && !g->leave) {
        g->leave = true;
        group_wake_control(g);
    }
    if (!*g->leave_reason) {
        g->leave_code = code;
        snprintf(g->leave_reason, sizeof g->leave_reason, "%s", err->msg);
    }
    group_unlock(g);
    return code;
}

/* ---- the trainer's state, as the machine knows it ---- */

static void clear_ledger(struct qr_group *g) {
    struct ledger *l = &g->ledger;
    if (l->n_taken) l->dropped = true;
    l->n = l->n_taken = 0;
    l->open = false;
}

/* Lists the taken micro-batches as runs, in the order of taking; false: too many. */
static bool group_runs(const struct qr_group *g, struct qr_held *h) {
    const struct ledger *l = &g->ledger;
    h->n_runs = 0;
    for (size_t i = 0; i < l->n_taken; i++) {
        struct qr_run *r = h->n_runs ? &h->run[h->n_runs - 1] : NULL;
        uint64_t b = l->micro_batch[i], last = r ? r->first + (r->count - 1) * r->stride : 0;
        if (r && b > last && (r->count == 1 || b - last == r->stride)) {
            r->stride = b - last;
            r->count++;
            continue;
        }
        if (h->n_runs == QR_MESSAGE_MAX_RUNS) return false;
        h->run[h->n_runs++] = (struct qr_run){.first = b, .count = 1, .stride = 1};
    }
    return true;
}

static void report_held(struct qr_group *g) {
    struct qr_held *h = &g->held;
    if (g->solo) return;
    h->base_reductions = h->applied_reductions;
    memcpy(h->base_digest, h->digest, sizeof h->base_digest);
    if (!group_runs(g, h)) {
        clear_ledger(g);
        h->n_runs = 0;
    }
    qr_member_set_held(g->member, h);
}

void group_on_suspend(struct qr_group *g) {
    if (!g->faults.take_suspended) g->ledger.open = false;
    report_held(g);
}

static bool group_has_base(const struct qr_group *g) {
    const struct qr_begin *b = &g->generation->begin;
    return !b->from_checkpoint && !g->held.stateless &&
           g->held.applied_reductions == b->base_reductions &&
           memcmp(g->held.digest, b->base_digest, sizeof g->held.digest) == 0;
}

void group_on_begin(struct qr_group *g) {
    const struct qr_generation *gen = g->generation;
    const struct qr_begin *b = &gen->begin;
    g->ledger.open = false;
    if (!b->from_checkpoint && !group_has_base(g) && !g->held.stateless &&
        g->held.applied_reductions == b->base_reductions)
        qr_count(QR_WRONG_STATES, 1);
    /* Until a state is loaded from a checkpoint, no member continues from its old one. */
    if (b->from_checkpoint) g->held = (struct qr_held){.stateless = true};
    if ((group_has_base(g) && b->member[gen->rank].keep) || g->faults.keep_anyway)
        g->ledger.n = g->ledger.n_taken;
    else clear_ledger(g);
    report_held(g);
}

enum qr_code group_mesh_stop(void *ctx, struct qr_err *err) {
    struct qr_group *g = ctx;
    group_lock(g);
    enum qr_code code =
        g->joined && !g->all_written ? group_check_current(g, err) : group_stop_reason(g, err);
    handle(g, .kind = QR_EVENT_TRAINER, .turns = ++g->turns);
    group_unlock(g);
    group_data_roster(g);
    qr_count(QR_TURNS_TRAINING, 1);
    return code;
}

/* ---- generations ---- */

void qr_group_plan(struct qr_group *g, uint64_t epochs, uint64_t reductions) {
    group_lock(g);
    g->planned = epochs;
    if (!g->solo) qr_member_set_plan(g->member, epochs, reductions);
    group_unlock(g);
}

uint64_t qr_group_epochs(struct qr_group *g) {
    group_lock(g);
    uint64_t epochs = g->solo || !g->planned ? g->planned : qr_member_common(g->member)->epochs;
    group_unlock(g);
    return epochs;
}

bool qr_group_shares_outputs(struct qr_group *g) {
    group_lock(g);
    bool yes =
        g->solo || qr_member_common(g->member)->places == qr_member_own_settings(g->member)->places;
    group_unlock(g);
    return yes;
}

enum qr_code qr_group_ready(struct qr_group *g, uint64_t reductions, const uint8_t digest[16],
                            size_t max_micro_batches, struct qr_err *err) {
    group_lock(g);
    group_reserve_ledger(&g->ledger, max_micro_batches);
    g->held =
        (struct qr_held){.applied_reductions = reductions, .committed_reductions = reductions};
    memcpy(g->held.digest, digest, sizeof g->held.digest);
    clear_ledger(g);
    report_held(g);
    bool first = !g->is_ready;
    g->is_ready = true;
    group_unlock(g);
    return first && g->start ? g->start(g->thread_ctx, g, err) : QR_OK;
}

static void fill_members(struct qr_group *g) {
    const struct qr_begin *begin = &g->generation->begin;
    for (uint32_t r = 0; r < begin->n_members; r++)
        g->members[r] = group_peer(g, &begin->member[r].name, begin->member[r].data_port);
}

/* Assigns the sender of the state: the j-th member that lacks the base receives it from the j-th
 * holder, modulo holders. Returns the rank of the sender, or n. */
static uint32_t state_server(const struct qr_begin *b, uint32_t rank) {
    uint32_t n_holders = 0, j = 0, at = 0;
    for (uint32_t r = 0; r < b->n_members; r++) {
        n_holders += b->member[r].holder;
        j += r < rank && !b->member[r].holder;
    }
    if (b->member[rank].holder || n_holders == 0) return b->n_members;
    j %= n_holders;
    while (!b->member[at].holder || j-- > 0) at++;
    return at;
}

static bool serves_state(const struct qr_generation *gen) {
    for (uint32_t r = 0; r < gen->begin.n_members; r++)
        if (state_server(&gen->begin, r) == gen->rank) return true;
    return false;
}

/* Describes the generation that began last, as the trainer must follow it. Under the lock. */
static void fill_start(struct qr_group *g, struct qr_group_start *ret) {
    const struct qr_generation *gen = g->generation;
    const struct qr_begin *b = &gen->begin;
    g->joined = g->serial;
    g->joined_id = b->id;
    g->lingered_ns = 0;
    g->trainer = pthread_self();
    if (!g->faults.own_schedule) g->allreduce = (enum qr_allreduce)b->common.allreduce;
    *ret = (struct qr_group_start){
        .epochs = b->common.epochs,
        .view = {.generation = b->id.number, .n_members = b->n_members, .rank = gen->rank},
        .base_reductions = b->base_reductions,
        .whole = b->n_members == g->o.n_peers,
        .reload = b->from_checkpoint,
        .first = g->first,
        .fetch = !b->from_checkpoint && !group_has_base(g)};
    memcpy(ret->base_digest, b->base_digest, sizeof ret->base_digest);
    ret->give = !ret->fetch && !ret->reload && serves_state(gen);
    for (uint32_t r = 0; r < b->n_members; r++) {
        ret->view.index[r] = b->member[r].name.index;
        ret->view.servers |= (uint64_t)b->member[r].server << r;
    }
    fill_members(g);
    group_data_replay(g);
}

static enum qr_code wait_for_begin(struct qr_group *g, int64_t deadline_ns,
                                   struct qr_group_start *ret, struct qr_err *err) {
    uint64_t left = g->joined;
    enum qr_code code = QR_OK;
    qr_mesh_leave(g->mesh);
    group_lock(g);
    g->joined = 0;
    while ((code = group_stop_reason(g, err)) == QR_OK && !g->done.set &&
           !(g->begun && g->serial > left)) {
        struct qr_gen_id promised;
        bool awaits = qr_member_awaits_begin(g->member, &promised);
        group_unlock(g);
        qr_mesh_await(g->mesh, awaits ? &promised : NULL);
        bool late = group_awake_ns(g) >= deadline_ns;
        if (late && g->o.server) {
            *ret = (struct qr_group_start){.waits = true};
            group_lock(g);
            g->joined = left;
            group_unlock(g);
            return QR_OK;
        }
        if (late)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED, "no group formed within %" PRId64 " s",
                           g->o.form_timeout_ns / QR_SECOND);
        else code = qr_mesh_idle(g->mesh, group_clock_of(g, deadline_ns), err);
        group_lock(g);
        if (code != QR_OK) break;
    }
    if (code == QR_OK && g->done.set) *ret = (struct qr_group_start){.done = true};
    else if (code == QR_OK) fill_start(g, ret);
    group_unlock(g);
    return code;
}

static void set_view_gauges(const struct qr_group *g) {
    qr_gauge(QR_INDEX, g->o.index);
    qr_gauge(QR_RANK, g->view.rank);
    qr_gauge(QR_GENERATION, (int64_t)g->view.generation);
    qr_gauge(QR_MEMBERS, g->view.n_members);
}

static enum qr_code join_solo(struct qr_group *g, struct qr_group_start *ret, struct qr_err *err) {
    group_lock(g);
    enum qr_code code = group_stop_reason(g, err);
    *ret = (struct qr_group_start){.view = g->view,
                                   .epochs = g->planned,
                                   .base_reductions = g->held.applied_reductions,
                                   .whole = true,
                                   .first = g->first};
    memcpy(ret->base_digest, g->held.digest, sizeof ret->base_digest);
    group_unlock(g);
    return code;
}

enum qr_code qr_group_join(struct qr_group *g, struct qr_group_start *ret, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    int64_t wait_ns = g->o.form_timeout_ns;
    if (!g->o.server) wait_ns += FORM_GRACE_NS;
    else if (wait_ns < SERVER_WAITS_NS) wait_ns = SERVER_WAITS_NS;
    int64_t deadline_ns = group_awake_ns(g) + wait_ns;
    enum qr_code code = g->solo ? join_solo(g, ret, err) : QR_ABORTED;
    while (code == QR_ABORTED) {
        code = wait_for_begin(g, deadline_ns, ret, err);
        if (code != QR_OK || ret->done || ret->waits) break;
        int64_t by_ns = group_now_ns(g) + CONNECT_NS;
        code = qr_mesh_form(g->mesh, &g->joined_id, g->members, ret->view.n_members, ret->view.rank,
                            by_ns, err);
    }
    if (code != QR_OK) return group_note_error(g, code, err);
    if (ret->done || ret->waits) return QR_OK;
    group_lock(g);
    ret->keep = !g->ledger.dropped;
    g->ledger.dropped = g->first = false;
    g->view = ret->view;
    g->base_reductions = ret->base_reductions;
    g->shares = (struct shares){0};
    group_unlock(g);
    set_view_gauges(g);
    return QR_OK;
}

enum qr_code qr_group_form(struct qr_group *g, struct qr_group_view *ret, struct qr_err *err) {
    static const uint8_t none[16];
    struct qr_group_start start;
    enum qr_code code = g->is_ready ? QR_OK : qr_group_ready(g, 0, none, 0, err);
    if (code == QR_OK) code = qr_group_join(g, &start, err);
    if (code == QR_OK) *ret = start.view;
    return code;
}

/* ---- transfer of the state ---- */

enum qr_code qr_group_give(struct qr_group *g, struct qr_bytes state, struct qr_err *err) {
    uint32_t to[QR_MAX_MEMBERS], n = 0;
    group_lock(g);
    enum qr_code code = group_check_current(g, err);
    const struct qr_generation *gen = g->generation;
    for (uint32_t r = 0; code == QR_OK && r < gen->begin.n_members; r++)
        if (state_server(&gen->begin, r) == gen->rank) to[n++] = r;
    group_unlock(g);
    for (uint32_t i = 0; i < n && code == QR_OK; i++)
        code = qr_mesh_give(g->mesh, to[i], state, group_now_ns(g) + TRANSFER_NS, err);
    return group_note_error(g, code, err);
}

enum qr_code qr_group_fetch(struct qr_group *g, struct qr_buf *ret, struct qr_err *err) {
    group_lock(g);
    enum qr_code code = group_check_current(g, err);
    uint32_t from = code == QR_OK ? state_server(&g->generation->begin, g->generation->rank) : 0;
    bool no_holder = code == QR_OK && from >= g->generation->begin.n_members;
    group_unlock(g);
    if (no_holder)
        return group_note_error(
            g, qr_fail(err, QR_INTERNAL, "a generation began with a base that no member holds"),
            err);
    if (code == QR_OK) code = qr_mesh_fetch(g->mesh, from, ret, group_now_ns(g) + TRANSFER_NS, err);
    return group_note_error(g, code, err);
}

enum qr_code qr_group_apply(struct qr_group *g, uint64_t reductions, const uint8_t digest[16],
                            struct qr_err *err) {
    group_lock(g);
    enum qr_code code = group_check_current(g, err);
    if (code == QR_ABORTED && g->faults.apply_anyway) code = QR_OK;
    if (code == QR_OK) {
        g->applied_ns = group_now_ns(g);
        if (g->paused_ns) qr_gauge_real(QR_PAUSE, (double)(g->applied_ns - g->paused_ns) / 1e9);
        g->paused_ns = 0;
        clear_ledger(g);
        g->ledger.dropped = false;
        /* The state before the applied one is committed: a reduction based on it has passed. */
        g->held = (struct qr_held){.applied_reductions = reductions,
                                   .committed_reductions = reductions ? reductions - 1 : 0};
        memcpy(g->held.digest, digest, sizeof g->held.digest);
        report_held(g);
    }
    group_unlock(g);
    return group_note_error(g, code, err);
}

enum qr_code qr_group_reloaded(struct qr_group *g, uint64_t reductions, const uint8_t digest[16],
                               struct qr_err *err) {
    enum qr_code code = qr_group_apply(g, reductions, digest, err);
    if (code != QR_OK) return code;
    group_lock(g);
    g->coverage_rejected = true;
    group_wake_control(g);
    group_unlock(g);
    return group_aborted(err);
}

/* ---- micro-batches ---- */

enum qr_code qr_group_open_reduction(struct qr_group *g, uint64_t n_micro_batches, size_t *ret_left,
                                     struct qr_err *err) {
    struct ledger *l = &g->ledger;
    group_lock(g);
    enum qr_code code = group_check_current(g, err);
    if (code == QR_OK) {
        group_assign(g, n_micro_batches);
        for (size_t i = 0; i < l->n_taken && code == QR_OK; i++) {
            if (l->micro_batch[i] >= n_micro_batches || !l->mine[l->micro_batch[i]])
                code = qr_fail(err, QR_INTERNAL,
                               "micro-batch %" PRIu64
                               " was computed here but belongs to another member",
                               l->micro_batch[i]);
            else l->mine[l->micro_batch[i]] = 0;
        }
    }
    if (code == QR_OK) {
        l->n = l->n_taken;
        for (uint64_t b = 0; b < n_micro_batches; b++)
            if (l->mine[b]) l->micro_batch[l->n++] = b;
        l->open = true;
        *ret_left = l->n - l->n_taken;
    }
    group_unlock(g);
    return group_note_error(g, code, err);
}

bool qr_group_compares(const struct qr_group *g) { return !g->solo; }

bool qr_group_buffers_in_use(struct qr_group *g) {
    return !g->solo && qr_mesh_buffers_in_use(g->mesh);
}

bool qr_group_take_micro_batch(struct qr_group *g, uint64_t *ret_micro_batch) {
    struct ledger *l = &g->ledger;
    group_lock(g);
    if (!g->solo && group_data_is_due(g)) {
        group_unlock(g);
        group_data_linger(g);
        group_lock(g);
    }
    bool yes = l->open && l->n_taken < l->n && !g->interrupted;
    if (yes) *ret_micro_batch = l->micro_batch[l->n_taken++];
    if (yes && !g->solo)
        handle(g, .kind = QR_EVENT_TRAINER, .turns = ++g->turns,
               .micro_batch_ns = g->micro_batch_ns);
    group_unlock(g);
    return yes;
}

void qr_group_expect(struct qr_group *g, int64_t micro_batch_ns) {
    group_lock(g);
    g->micro_batch_ns = micro_batch_ns;
    group_unlock(g);
}

/* ---- sums ---- */

static enum qr_code reject_sum(struct qr_group *g, struct qr_err *err) {
    qr_warn(g->o.log, "group", "%s", err->msg);
    group_lock(g);
    g->coverage_rejected = true;
    g->held.refusals++;
    report_held(g);
    group_wake_control(g);
    group_unlock(g);
    return group_aborted(err);
}

/* When the machine has ended the job with DATA_LOSS, replaces the error by the machine's, whether
 * that ended this reduction or its check failed at the same moment. */
static bool replaced_by_verdict(struct qr_group *g, struct qr_err *err) {
    struct qr_err why;
    group_lock(g);
    bool ended = group_stop_reason(g, &why) == QR_DATA_LOSS;
    group_unlock(g);
    if (ended) *err = why;
    return ended;
}

enum qr_code qr_group_reduce(struct qr_group *g, const struct qr_contribution *c, qr_fixed *ret_sum,
                             struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    group_lock(g);
    g->ledger.open = false; /* Micro-batches that were not taken are not in the contribution. */
    enum qr_code code = group_check_current(g, err);
    group_unlock(g);
    if (code != QR_OK) return group_note_error(g, code, err);
    if (g->solo) {
        struct qr_reduction_args args = {.n_ranks = 1, .contribution = c, .sum = ret_sum};
        code = qr_reduction_begin(g->alone, &args, err);
        return code != QR_OK ? code : qr_reduction_check(g->alone, err);
    }
    code = qr_mesh_reduce(g->mesh, g->allreduce, c, ret_sum, err);
    if (code == QR_OK) group_data_linger(g);
    return code == QR_DATA_LOSS && !replaced_by_verdict(g, err) ? reject_sum(g, err)
                                                                : group_note_error(g, code, err);
}

/* ---- the end ---- */

enum qr_code qr_group_done(struct qr_group *g, const struct qr_err *leader_error,
                           int64_t timeout_ns, struct qr_err *err) {
    struct qr_err own;
    if (!err) err = &own;
    bool leads = g->view.rank == 0, failed = leader_error && leader_error->code != QR_OK;
    if (g->solo) return failed ? qr_fail(err, leader_error->code, "%s", leader_error->msg) : QR_OK;
    int64_t deadline_ns = group_awake_ns(g) + (leads ? GOODBYES_WITHIN_NS : timeout_ns);
    group_lock(g);
    enum qr_code code = g->done.set ? QR_OK : group_check_current(g, err);
    if (leads && code == QR_OK && !g->done.set) {
        g->end = true;
        g->all_written = !failed;
        g->end_code = failed ? leader_error->code : QR_OK;
        snprintf(g->end_text, sizeof g->end_text, "%s", failed ? leader_error->msg : "");
        group_wake_control(g);
    }
    while (code == QR_OK && !g->done.set) {
        group_unlock(g);
        /* All outputs are written; late goodbyes change nothing. */
        if (group_awake_ns(g) >= deadline_ns && leads) return QR_OK;
        if (group_awake_ns(g) >= deadline_ns)
            return qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "worker %" PRIu32 ", the leader, did not confirm within %" PRId64
                           " s that all outputs are written",
                           g->view.index[0], timeout_ns / QR_SECOND);
        code = qr_mesh_idle(g->mesh, group_clock_of(g, deadline_ns), err);
        group_lock(g);
        if (g->done.set)
            code = g->done.code == QR_OK ? QR_OK : qr_fail(err, g->done.code, "%s", g->done.text);
    }
    if (code == QR_OK && g->done.set && g->done.code != QR_OK)
        code = qr_fail(err, g->done.code, "%s", g->done.text);
    group_unlock(g);
    return code;
}

const char *qr_group_schedule_name(const struct qr_group *g, size_t n) {
    return qr_schedule_name(g->allreduce, g->view.n_members, n);
}
