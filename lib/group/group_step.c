/* group/group_step.c — the calls of the step loop: joining generations, taking micro-batches, sums,
 * applying states, the end. Start reading at qr_group_join(); elastic.md has the whole picture.
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
#define LONG_NS (100 * QR_MS)   /* polling more often than this makes a wait unnecessary */
#define LINGER_NS (200 * QR_MS) /* some round trips of a handshake */
enum { LINGER_PART = 20, FORGET_REDUCTIONS = 64 }; /* 1/20 of the time since the last wait */

static int64_t group_awake_ns(const struct qr_group *g) {
    return qr_now_ns(g->o.awake ? g->o.awake : g->o.clock);
}
/* Converts a time of the awake clock to the group's clock; off by any time that this process is
 * stopped in between. */
static int64_t group_clock_of(const struct qr_group *g, int64_t until_ns) {
    return group_now_ns(g) + (until_ns - group_awake_ns(g));
}

/* ---- reasons to stop ---- */

static enum qr_code read_end(struct qr_group *g, bool *ret_late, struct qr_err *err) {
    const struct trainer_mail *mail = &g->mail;
    enum qr_code code = QR_OK;
    mailbox_lock(&g->mail.box);
    if (mail->interrupted) code = qr_fail(err, QR_CANCELLED, "asked to stop");
    else if (mail->stopped) code = (*err = mail->stop).code;
    else if (mail->done && mail->end.code != QR_OK) code = (*err = mail->end).code;
    *ret_late = mail->done && group_now_ns(g) - mail->done_ns > QR_SECOND;
    mailbox_unlock(&g->mail.box);
    return code;
}

static enum qr_code check_end(struct qr_group *g, struct qr_err *err) {
    bool late;
    return read_end(g, &late, err);
}

static enum qr_code check_current(struct qr_group *g, struct qr_err *err) {
    bool late;
    QR_TRY(read_end(g, &late, err));
    /* After Done no other generation begins, but the last chunks of the closing reduction may still
     * arrive. */
    return late ? batch_queue_aborted(err) : batch_queue_check(&g->queue, g->joined, err);
}

static void update_streams(struct qr_group *g) {
    struct trainer_mail *mail = &g->mail;
    mailbox_lock(&mail->box);
    bool any = mail->streams_changed;
    mail->streams_changed = false;
    mailbox_unlock(&mail->box);
    for (uint32_t i = 0; any && i < QR_MAX_MEMBERS; i++) {
        mailbox_lock(&mail->box);
        struct wanted_stream s = mail->stream[i];
        mail->stream[i].changed = mail->stream[i].renew = false;
        mailbox_unlock(&mail->box);
        if (s.changed && s.expected) qr_mesh_expect(g->mesh, &s.member);
        else if (s.changed) qr_mesh_forget(g->mesh, i);
        if (s.renew) qr_mesh_renew(g->mesh, i);
    }
}

static bool awaits_data(struct qr_group *g) {
    mailbox_lock(&g->mail.box);
    bool yes = g->mail.awaits_data;
    mailbox_unlock(&g->mail.box);
    return yes && check_current(g, QR_IGNORED) == QR_OK;
}

static void linger(struct qr_group *g) {
    int64_t now = group_now_ns(g), since_ns = g->lingered_ns ? now - g->lingered_ns : 0;
    int64_t part_ns = since_ns < LONG_NS ? 0 : since_ns / LINGER_PART;
    int64_t until_ns = now + (part_ns < LINGER_NS ? part_ns : LINGER_NS);
    while (awaits_data(g) && qr_mesh_idle(g->mesh, until_ns, QR_IGNORED) == QR_OK &&
           group_now_ns(g) < until_ns)
        continue; /* The next call reports the same error. */
    g->lingered_ns = group_now_ns(g);
}

/* ---- the mesh ---- */

static enum qr_code mesh_stop(void *ctx, struct qr_err *err) {
    struct qr_group *g = ctx;
    enum qr_code code = g->joined && !g->all_written ? check_current(g, err) : check_end(g, err);
    group_post(g, .kind = QR_EVENT_TRAINER);
    update_streams(g);
    qr_count(QR_TURNS_TRAINING, 1);
    return code;
}

static void mesh_up(void *ctx, uint32_t index, const uint8_t incarnation[QR_INCARNATION_BYTES]) {
    struct qr_group *g = ctx;
    group_post(g, .kind = QR_EVENT_DATA_UP, .index = index, .incarnation = incarnation);
}

static void mesh_down(void *ctx, uint32_t index, const char *reason, bool lost) {
    struct qr_group *g = ctx;
    group_post(g, .kind = QR_EVENT_DATA_DOWN, .index = index, .text = reason, .lost = lost);
}

static void mesh_polled(void *ctx, const struct qr_poll_report *how) {
    struct qr_group *g = ctx;
    group_post(g, .kind = QR_EVENT_TRAINER, .polled = how);
}

struct qr_mesh *group_new_mesh(struct qr_group *g, const uint8_t *incarnation) {
    struct qr_mesh_options o = {.link = g->data,
                                .clock = g->o.clock,
                                .log = g->o.log,
                                .index = g->o.index,
                                .ctx = g,
                                .stop = mesh_stop,
                                .up = mesh_up,
                                .down = mesh_down,
                                .polled = mesh_polled};
    memcpy(o.incarnation, incarnation, sizeof o.incarnation);
    return qr_mesh_new(&o);
}

/* ---- settings in common ---- */

void qr_group_plan(struct qr_group *g, uint64_t epochs, uint64_t reductions) {
    if (!g->solo) qr_member_set_plan(g->control.member, epochs, reductions);
    mailbox_lock(&g->mail.box);
    g->mail.common.epochs = epochs;
    mailbox_unlock(&g->mail.box);
}

uint64_t qr_group_epochs(struct qr_group *g) {
    mailbox_lock(&g->mail.box);
    uint64_t epochs = g->mail.common.epochs;
    mailbox_unlock(&g->mail.box);
    return epochs;
}

bool qr_group_shares_outputs(struct qr_group *g) {
    mailbox_lock(&g->mail.box);
    bool yes = g->solo || g->mail.common.places == g->places;
    mailbox_unlock(&g->mail.box);
    return yes;
}

/* ---- assignment: by measured speed, in the first reduction of a generation by its Begin ---- */

/* Returns the first micro-batch of rank r. Ranges are proportional to speed, rounded to the
 * nearest, so that clock noise between equal machines moves none. An unknown speed counts as the
 * mean, and no speed counts as less than a sixteenth of the mean. */
static uint64_t first_micro_batch(const struct qr_group *g, uint32_t rank,
                                  uint64_t n_micro_batches) {
    const uint64_t *speed = g->speed;
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

void qr_group_set_speeds(struct qr_group *g, uint64_t n_micro_batches, const uint64_t *ns) {
    uint64_t count[QR_MAX_MEMBERS];
    if (g->solo || g->view.n_members < 2) return;
    /* The first reduction of a generation is assigned by its Begin. */
    if (g->applied_reductions <= g->base_reductions + 1) return;
    for (uint32_t r = 0; r < g->view.n_members; r++)
        count[r] =
            first_micro_batch(g, r + 1, n_micro_batches) - first_micro_batch(g, r, n_micro_batches);
    uint64_t mean = 0;
    uint32_t n = g->view.n_members - (uint32_t)__builtin_popcountll(g->view.servers);
    for (uint32_t r = 0; r < g->view.n_members; r++) mean += g->speed[r] / n;
    for (uint32_t r = 0; r < g->view.n_members; r++) {
        uint64_t *speed = &g->speed[r], now = (count[r] << 30) / (ns[r] + 1) + 1;
        if (count[r] && now < UINT64_C(1) << 50) *speed = *speed ? (7 * *speed + now) / 8 : now;
        /* A member without micro-batches is not measured: a low speed fades until the member gets
         * one again. */
        if (!count[r] && *speed && *speed < mean) *speed += (mean - *speed) / FORGET_REDUCTIONS + 1;
        qr_peer_speed(g->view.index[r], (double)*speed * 1e9 / (double)(1 << 30));
    }
}

static void reserve_mine(struct qr_group *g, size_t n_micro_batches) {
    if (g->mine_cap >= n_micro_batches) return;
    g->mine = qr_xreallocarray(g->mine, n_micro_batches, 1);
    g->mine_cap = n_micro_batches;
}

static void assign_micro_batches(struct qr_group *g, uint64_t n_micro_batches) {
    reserve_mine(g, n_micro_batches);
    if (!g->solo && g->applied_reductions == g->base_reductions) {
        qr_generation_micro_batches(&g->generation.begin, g->view.rank, n_micro_batches, g->mine);
        return;
    }
    uint64_t first = first_micro_batch(g, g->view.rank, n_micro_batches),
             end = first_micro_batch(g, g->view.rank + 1, n_micro_batches);
    for (uint64_t b = 0; b < n_micro_batches; b++) g->mine[b] = b >= first && b < end;
}

/* ---- generations ---- */

enum qr_code qr_group_ready(struct qr_group *g, uint64_t reductions, const uint8_t digest[16],
                            size_t max_micro_batches, struct qr_err *err) {
    reserve_mine(g, max_micro_batches);
    batch_queue_start(&g->queue, reductions, digest, max_micro_batches);
    g->applied_reductions = reductions;
    return g->start ? g->start(g->thread_ctx, g, err) : QR_OK;
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

/* Makes the generation that began last the joined one. Its members' streams are handed to the mesh
 * again, since they may have changed meanwhile. */
static void take_generation(struct qr_group *g, struct qr_group_start *ret) {
    struct trainer_mail *mail = &g->mail;
    const struct qr_begin *b = &g->generation.begin;
    mailbox_lock(&mail->box);
    g->generation = mail->generation;
    g->joined = mail->serial;
    *ret = (struct qr_group_start){
        .epochs = b->common.epochs,
        .view = {.generation = b->id.number, .n_members = b->n_members, .rank = g->generation.rank},
        .base_reductions = b->base_reductions,
        .whole = b->n_members == g->o.n_peers,
        .reload = b->from_checkpoint,
        .fetch = !b->from_checkpoint && !mail->has_base};
    memcpy(ret->base_digest, b->base_digest, sizeof ret->base_digest);
    for (uint32_t r = 0; r < b->n_members; r++) {
        const struct qr_member_name *name = &b->member[r].name;
        struct wanted_stream *s = &mail->stream[name->index];
        g->members[r] = s->member;
        g->members[r].index = ret->view.index[r] = name->index;
        g->members[r].passes_state = !b->from_checkpoint && (state_server(b, r) == ret->view.rank ||
                                                             state_server(b, ret->view.rank) == r);
        memcpy(g->members[r].incarnation, name->incarnation, sizeof name->incarnation);
        if (name->index != g->o.index) s->changed = mail->streams_changed = true;
        ret->view.servers |= (uint64_t)b->member[r].server << r;
        ret->give |= !ret->fetch && !ret->reload && state_server(b, r) == ret->view.rank;
    }
    mailbox_unlock(&mail->box);
    g->lingered_ns = 0;
    g->trainer = pthread_self();
    if (!g->own_schedule) g->allreduce = (enum qr_allreduce)b->common.allreduce;
}

static enum qr_code wait_for_begin(struct qr_group *g, int64_t deadline_ns,
                                   struct qr_group_start *ret, struct qr_err *err) {
    struct trainer_mail *mail = &g->mail;
    uint64_t left = g->joined;
    qr_mesh_leave(g->mesh);
    if (left && !g->paused_ns) g->paused_ns = g->applied_ns;
    for (g->joined = 0;;) {
        QR_TRY(check_end(g, err));
        mailbox_lock(&mail->box);
        bool done = mail->done, awaits = mail->awaits_begin;
        uint64_t serial = mail->serial;
        struct qr_gen_id promised = mail->promised;
        mailbox_unlock(&mail->box);
        *ret = (struct qr_group_start){.done = done};
        if (done) return QR_OK;
        if (serial > left && batch_queue_check(&g->queue, serial, QR_IGNORED) == QR_OK) break;
        qr_mesh_await(g->mesh, awaits ? &promised : NULL);
        if (group_awake_ns(g) < deadline_ns) {
            QR_TRY(qr_mesh_idle(g->mesh, group_clock_of(g, deadline_ns), err));
        } else if (g->o.server) {
            ret->waits = true;
            g->joined = left;
            return QR_OK;
        } else {
            return qr_fail(err, QR_DEADLINE_EXCEEDED, "no group formed within %" PRId64 " s",
                           g->o.form_timeout_ns / QR_SECOND);
        }
    }
    take_generation(g, ret);
    return QR_OK;
}

static enum qr_code join_solo(struct qr_group *g, struct qr_group_start *ret, struct qr_err *err) {
    struct qr_held held;
    batch_queue_held(&g->queue, &held);
    *ret = (struct qr_group_start){.view = g->view,
                                   .epochs = qr_group_epochs(g),
                                   .base_reductions = held.applied_reductions,
                                   .whole = true};
    memcpy(ret->base_digest, held.digest, sizeof ret->base_digest);
    return check_end(g, err);
}

static enum qr_code join_ring(struct qr_group *g, struct qr_group_start *ret, struct qr_err *err) {
    int64_t wait_ns = g->o.form_timeout_ns;
    if (!g->o.server) wait_ns += FORM_GRACE_NS;
    else if (wait_ns < SERVER_WAITS_NS) wait_ns = SERVER_WAITS_NS;
    int64_t deadline_ns = group_awake_ns(g) + wait_ns;
    enum qr_code code = QR_ABORTED;
    while (code == QR_ABORTED) {
        code = wait_for_begin(g, deadline_ns, ret, err);
        if (code != QR_OK || ret->done || ret->waits) break;
        code = qr_mesh_form(g->mesh, &g->generation.begin.id, g->members, ret->view.n_members,
                            ret->view.rank, group_now_ns(g) + CONNECT_NS, err);
    }
    return code;
}

enum qr_code qr_group_join(struct qr_group *g, struct qr_group_start *ret, struct qr_err *err) {
    QR_TRY(g->solo ? join_solo(g, ret, err) : join_ring(g, ret, err));
    if (ret->done || ret->waits) return QR_OK;
    ret->keep = batch_queue_kept(&g->queue);
    mailbox_lock(&g->mail.box);
    ret->first = g->mail.first;
    g->mail.first = false;
    mailbox_unlock(&g->mail.box);
    g->view = ret->view;
    g->base_reductions = ret->base_reductions;
    memset(g->speed, 0, sizeof g->speed);
    qr_gauge(QR_INDEX, g->o.index);
    qr_gauge(QR_RANK, g->view.rank);
    qr_gauge(QR_GENERATION, (int64_t)g->view.generation);
    qr_gauge(QR_MEMBERS, g->view.n_members);
    return QR_OK;
}

/* ---- transfer of the state ---- */

enum qr_code qr_group_give(struct qr_group *g, struct qr_bytes state, struct qr_err *err) {
    const struct qr_generation *gen = &g->generation;
    QR_TRY(check_current(g, err));
    for (uint32_t r = 0; r < gen->begin.n_members; r++)
        if (state_server(&gen->begin, r) == gen->rank)
            QR_TRY(qr_mesh_give(g->mesh, r, state, group_now_ns(g) + TRANSFER_NS, err));
    return QR_OK;
}

enum qr_code qr_group_fetch(struct qr_group *g, struct qr_buf *ret, struct qr_err *err) {
    const struct qr_generation *gen = &g->generation;
    uint32_t from = state_server(&gen->begin, gen->rank);
    QR_TRY(check_current(g, err));
    if (from >= gen->begin.n_members)
        return qr_fail(err, QR_INTERNAL, "a generation began with a base that no member holds");
    return qr_mesh_fetch(g->mesh, from, ret, group_now_ns(g) + TRANSFER_NS, err);
}

enum qr_code qr_group_apply(struct qr_group *g, uint64_t reductions, const uint8_t digest[16],
                            struct qr_err *err) {
    QR_TRY(check_end(g, err));
    QR_TRY(batch_queue_apply(&g->queue, g->joined, reductions, digest, err));
    g->applied_reductions = reductions;
    g->applied_ns = group_now_ns(g);
    if (g->paused_ns) qr_gauge_real(QR_PAUSE, (double)(g->applied_ns - g->paused_ns) / 1e9);
    g->paused_ns = 0;
    return QR_OK;
}

enum qr_code qr_group_reloaded(struct qr_group *g, uint64_t reductions, const uint8_t digest[16],
                               struct qr_err *err) {
    QR_TRY(qr_group_apply(g, reductions, digest, err));
    if (!g->solo) group_post(g, .kind = QR_EVENT_REJECTED);
    return batch_queue_aborted(err);
}

/* ---- micro-batches ---- */

enum qr_code qr_group_open_reduction(struct qr_group *g, uint64_t n_micro_batches, size_t *ret_left,
                                     struct qr_err *err) {
    QR_TRY(check_current(g, err));
    assign_micro_batches(g, n_micro_batches);
    return batch_queue_open(&g->queue, g->joined, g->mine, n_micro_batches, ret_left, err);
}

bool qr_group_compares(const struct qr_group *g) { return !g->solo; }

bool qr_group_buffers_in_use(struct qr_group *g) {
    return !g->solo && qr_mesh_buffers_in_use(g->mesh);
}

bool qr_group_take_micro_batch(struct qr_group *g, uint64_t *ret_micro_batch) {
    mailbox_lock(&g->mail.box);
    bool interrupted = g->mail.interrupted, due = g->mail.awaits_data;
    mailbox_unlock(&g->mail.box);
    if (due && pthread_equal(pthread_self(), g->trainer)) {
        linger(g);
        interrupted = check_end(g, QR_IGNORED) != QR_OK;
    }
    if (interrupted || !batch_queue_take(&g->queue, ret_micro_batch)) return false;
    if (!g->solo) group_post(g, .kind = QR_EVENT_TRAINER, .micro_batch_ns = g->micro_batch_ns);
    return true;
}

void qr_group_expect(struct qr_group *g, int64_t micro_batch_ns) {
    g->micro_batch_ns = micro_batch_ns;
}

/* ---- sums ---- */

static enum qr_code reject_sum(struct qr_group *g, struct qr_err *err) {
    qr_warn(g->o.log, "group", "%s", err->msg);
    batch_queue_refuse(&g->queue);
    group_post(g, .kind = QR_EVENT_REJECTED);
    return batch_queue_aborted(err);
}

enum qr_code qr_group_reduce(struct qr_group *g, const struct qr_contribution *c, qr_fixed *ret_sum,
                             struct qr_err *err) {
    struct qr_err ended;
    batch_queue_close(&g->queue); /* Those that were not taken are not in the contribution. */
    QR_TRY(check_current(g, err));
    if (g->solo) {
        struct qr_reduction_args args = {.n_ranks = 1, .contribution = c, .sum = ret_sum};
        QR_TRY(qr_reduction_begin(g->alone, &args, err));
        return qr_reduction_check(g->alone, err);
    }
    enum qr_code code = qr_mesh_reduce(g->mesh, g->allreduce, c, ret_sum, err);
    if (code == QR_OK) linger(g);
    /* Not if the machine has ended the job with this code, here or at the same moment. */
    if (code == QR_DATA_LOSS && check_end(g, &ended) != QR_DATA_LOSS) return reject_sum(g, err);
    if (code == QR_DATA_LOSS) *err = ended;
    return code;
}

/* ---- the end ---- */

/* Returns whether the run has ended. *ret: the code of Done; its error is set. */
static bool is_done(struct qr_group *g, enum qr_code *ret, struct qr_err *err) {
    mailbox_lock(&g->mail.box);
    bool yes = g->mail.done;
    if (yes) *ret = (*err = g->mail.end).code;
    mailbox_unlock(&g->mail.box);
    return yes;
}

enum qr_code qr_group_done(struct qr_group *g, const struct qr_err *leader_error,
                           int64_t timeout_ns, struct qr_err *err) {
    bool leads = g->view.rank == 0, failed = leader_error && leader_error->code != QR_OK;
    enum qr_code code, idle = QR_OK;
    if (g->solo) return failed ? qr_fail(err, leader_error->code, "%s", leader_error->msg) : QR_OK;
    int64_t deadline_ns = group_awake_ns(g) + (leads ? GOODBYES_WITHIN_NS : timeout_ns);
    if (is_done(g, &code, err)) return code;
    QR_TRY(check_current(g, err));
    if (leads) {
        g->all_written = !failed;
        group_post(g, .kind = QR_EVENT_END, .code = failed ? leader_error->code : QR_OK,
                   .text = failed ? leader_error->msg : "");
    }
    while (!is_done(g, &code, err)) {
        if (idle != QR_OK) return idle;
        /* All outputs are written; late goodbyes change nothing. */
        if (group_awake_ns(g) >= deadline_ns && leads) return QR_OK;
        if (group_awake_ns(g) >= deadline_ns)
            return qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "worker %" PRIu32 ", the leader, did not confirm within %" PRId64
                           " s that all outputs are written",
                           g->view.index[0], timeout_ns / QR_SECOND);
        idle = qr_mesh_idle(g->mesh, group_clock_of(g, deadline_ns), err);
    }
    return code;
}

const char *qr_group_schedule_name(const struct qr_group *g, size_t n) {
    return qr_schedule_name(g->allreduce, g->view.n_members, n);
}
