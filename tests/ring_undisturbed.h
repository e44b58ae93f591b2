/* tests/ring_undisturbed.h — what rings that are disturbed are held to: one worker alone, in peace.
 * Included once, in the place of tests/ring.h. */
#ifndef TESTS_RING_UNDISTURBED_H
#define TESTS_RING_UNDISTURBED_H

#include "base/counter.h"
#include "tests/ring.h"

/* Of that one. */
static char digest[33];
static struct qr_train_result numbers; /* its loss and metrics */
static int64_t n_micro_batches;        /* of the run */
static struct qr_buf lines;            /* of steps.jsonl; the test frees it */

static void undisturbed(const char *of) {
    struct ring r;
    ring_init(&r, of, 1);
    n_micro_batches = -qr_counter_value(QR_MICRO_BATCHES);
    ring_run(&r);
    n_micro_batches += qr_counter_value(QR_MICRO_BATCHES);
    CHECK(r.worker[0].code == QR_OK, "%s", r.worker[0].err.msg);
    memcpy(digest, r.worker[0].result.state_digest, sizeof digest);
    numbers = r.worker[0].result;
    lines = ring_log(&r);
    CHECK(lines.n > 900 && strlen(digest) == 32);
    ring_fini(&r);
}

static bool same_numbers(const struct qr_train_result *a) {
    const struct qr_train_result *b = &numbers;
    bool same = a->loss == b->loss && a->has_val == b->has_val && a->val_loss == b->val_loss &&
                a->n_metrics == b->n_metrics;
    for (size_t i = 0; same && i < a->n_metrics; i++)
        same = a->metrics[i].value == b->metrics[i].value;
    return same;
}

/* Everybody who was not killed for good has the digest; the log is the log. */
static void check_ring(struct ring *r, const char *what) {
    struct qr_buf text = ring_log(r);
    unsigned ended = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        struct ring_worker *w = &r->worker[i];
        if (atomic_load(&w->killed) || ring_came_too_late(w)) continue;
        CHECK(w->code == QR_OK, "%s: member %u: %s", what, i, w->err.msg);
        if (w->result.ended_by_peers) continue;
        ended++;
        CHECK(strcmp(w->result.state_digest, digest) == 0, "%s: member %u: %s", what, i,
              w->result.state_digest);
        CHECK(same_numbers(&w->result), "%s: member %u: val_loss %.17g, not %.17g", what, i,
              w->result.val_loss, numbers.val_loss);
    }
    CHECK(ended > 0 && atomic_load(&r->n_wrote) > 0, "%s: nobody ended", what);
    CHECK(text.n == lines.n && memcmp(text.p, lines.p, text.n) == 0,
          "%s: the log differs: %zu bytes, not %zu (%s)", what, text.n, lines.n, r->dir);
    qr_buf_free(&text);
}

#endif
