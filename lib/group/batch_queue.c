/* group/batch_queue.c — what this member has taken and holds, as the other members may count on it.
 * Start reading at batch_queue_take(), batch_queue_freeze() and batch_queue_begin().
 */
#include "group/batch_queue.h"

#include <inttypes.h>
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"

void batch_queue_init(struct batch_queue *q, const struct qr_group_faults *faults, bool alone) {
    *q = (struct batch_queue){.active = alone};
    if (faults) q->faults = *faults;
    pthread_mutex_init(&q->lock, NULL);
}

void batch_queue_fini(struct batch_queue *q) {
    free(q->micro_batch);
    pthread_mutex_destroy(&q->lock);
}

/* ---- under the lock ---- */

enum qr_code batch_queue_aborted(struct qr_err *err) {
    return qr_fail(err, QR_ABORTED, "the group's membership is changing");
}

static enum qr_code check_active(const struct batch_queue *q, uint64_t serial, struct qr_err *err) {
    return q->active && q->serial == serial ? QR_OK : batch_queue_aborted(err);
}

static void reserve_list(struct batch_queue *q, size_t n) {
    if (q->cap >= n) return;
    q->micro_batch = qr_xreallocarray(q->micro_batch, n, sizeof *q->micro_batch);
    q->cap = n;
}

static void clear_queue(struct batch_queue *q) {
    q->dropped = q->dropped || q->n_taken;
    q->n = q->n_taken = 0;
    q->open = false;
}

/* Lists the taken micro-batches as runs, in the order of taking; false: too many. */
static bool list_runs(struct batch_queue *q) {
    struct qr_held *h = &q->held;
    h->n_runs = 0;
    for (size_t i = 0; i < q->n_taken; i++) {
        struct qr_run *r = h->n_runs ? &h->run[h->n_runs - 1] : NULL;
        uint64_t b = q->micro_batch[i], last = r ? r->first + (r->count - 1) * r->stride : 0;
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

static void update_held(struct batch_queue *q) {
    struct qr_held *h = &q->held;
    h->base_reductions = h->applied_reductions;
    memcpy(h->base_digest, h->digest, sizeof h->base_digest);
    if (list_runs(q)) return;
    clear_queue(q);
    h->n_runs = 0;
}

static void set_state(struct batch_queue *q, uint64_t applied, uint64_t committed,
                      const uint8_t digest[16]) {
    clear_queue(q);
    q->held = (struct qr_held){.applied_reductions = applied, .committed_reductions = committed};
    memcpy(q->held.digest, digest, sizeof q->held.digest);
    update_held(q);
}

static bool has_base(const struct batch_queue *q, const struct qr_begin *b) {
    const struct qr_held *h = &q->held;
    return !b->from_checkpoint && !h->stateless && h->applied_reductions == b->base_reductions &&
           memcmp(h->digest, b->base_digest, sizeof h->digest) == 0;
}

/* ---- the training thread ---- */

void batch_queue_start(struct batch_queue *q, uint64_t reductions, const uint8_t digest[16],
                       size_t max_micro_batches) {
    pthread_mutex_lock(&q->lock);
    reserve_list(q, max_micro_batches);
    set_state(q, reductions, reductions, digest);
    pthread_mutex_unlock(&q->lock);
}

enum qr_code batch_queue_check(struct batch_queue *q, uint64_t serial, struct qr_err *err) {
    pthread_mutex_lock(&q->lock);
    enum qr_code code = check_active(q, serial, err);
    pthread_mutex_unlock(&q->lock);
    return code;
}

bool batch_queue_kept(struct batch_queue *q) {
    pthread_mutex_lock(&q->lock);
    bool yes = !q->dropped;
    q->dropped = false;
    pthread_mutex_unlock(&q->lock);
    return yes;
}

static enum qr_code list_mine(struct batch_queue *q, uint8_t *mine, uint64_t n_micro_batches,
                              struct qr_err *err) {
    reserve_list(q, n_micro_batches);
    for (size_t i = 0; i < q->n_taken; i++) {
        uint64_t taken = q->micro_batch[i];
        if (taken >= n_micro_batches || !mine[taken])
            return qr_fail(
                err, QR_INTERNAL,
                "micro-batch %" PRIu64 " was computed here but belongs to another member", taken);
        mine[taken] = 0;
    }
    q->n = q->n_taken;
    for (uint64_t b = 0; b < n_micro_batches; b++)
        if (mine[b]) q->micro_batch[q->n++] = b;
    q->open = true;
    return QR_OK;
}

enum qr_code batch_queue_open(struct batch_queue *q, uint64_t serial, uint8_t *mine,
                              uint64_t n_micro_batches, size_t *ret_left, struct qr_err *err) {
    pthread_mutex_lock(&q->lock);
    enum qr_code code = check_active(q, serial, err);
    if (code == QR_OK) code = list_mine(q, mine, n_micro_batches, err);
    if (code == QR_OK) *ret_left = q->n - q->n_taken;
    pthread_mutex_unlock(&q->lock);
    return code;
}

bool batch_queue_take(struct batch_queue *q, uint64_t *ret_micro_batch) {
    pthread_mutex_lock(&q->lock);
    bool yes = q->open && q->n_taken < q->n;
    if (yes) *ret_micro_batch = q->micro_batch[q->n_taken++];
    pthread_mutex_unlock(&q->lock);
    return yes;
}

void batch_queue_close(struct batch_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->open = false;
    pthread_mutex_unlock(&q->lock);
}

enum qr_code batch_queue_apply(struct batch_queue *q, uint64_t serial, uint64_t reductions,
                               const uint8_t digest[16], struct qr_err *err) {
    pthread_mutex_lock(&q->lock);
    enum qr_code code = q->faults.apply_anyway ? QR_OK : check_active(q, serial, err);
    if (code == QR_OK) {
        /* The state before is committed: a reduction based on it has passed. */
        set_state(q, reductions, reductions ? reductions - 1 : 0, digest);
        q->dropped = false;
    }
    pthread_mutex_unlock(&q->lock);
    return code;
}

void batch_queue_refuse(struct batch_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->held.refusals++;
    pthread_mutex_unlock(&q->lock);
}

/* ---- the control thread ---- */

void batch_queue_held(struct batch_queue *q, struct qr_held *ret) {
    pthread_mutex_lock(&q->lock);
    *ret = q->held;
    pthread_mutex_unlock(&q->lock);
}

void batch_queue_freeze(struct batch_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->active = false;
    if (!q->faults.take_suspended) q->open = false;
    update_held(q);
    pthread_mutex_unlock(&q->lock);
}

bool batch_queue_begin(struct batch_queue *q, const struct qr_generation *gen) {
    const struct qr_begin *b = &gen->begin;
    pthread_mutex_lock(&q->lock);
    bool has = has_base(q, b);
    q->serial++;
    q->active = true;
    q->open = false;
    if (!b->from_checkpoint && !has && !q->held.stateless &&
        q->held.applied_reductions == b->base_reductions)
        qr_count(QR_WRONG_STATES, 1);
    /* Until a state is loaded from a checkpoint, no member continues from its old one. */
    if (b->from_checkpoint) q->held = (struct qr_held){.stateless = true};
    if ((has && b->member[gen->rank].keep) || q->faults.keep_anyway) q->n = q->n_taken;
    else clear_queue(q);
    update_held(q);
    pthread_mutex_unlock(&q->lock);
    return has;
}
