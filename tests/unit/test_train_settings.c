/* Workers with different settings in one ring: those of the first leader apply to all, early or
 * late, whoever leads later. Real step loops over links in memory. */
#include "tests/support/ring.h"

#define JOB RING_JOB("\"epochs\":20,\"batch_size\":28," RING_ADAM)
enum { EPOCHS = 20, FEWER = 4, MORE = 2000 };

static struct {
    char digest[33];
    struct qr_buf lines;
} reference[2]; /* of EPOCHS, of FEWER */

static void undisturbed(int which, uint64_t epochs) {
    struct ring r;
    ring_init(&r, JOB, 1);
    r.worker[0].epochs = epochs;
    ring_run(&r);
    CHECK(r.worker[0].code == QR_OK && r.worker[0].result.epochs == epochs, "%s",
          r.worker[0].err.msg);
    memcpy(reference[which].digest, r.worker[0].result.state_digest,
           sizeof reference[which].digest);
    reference[which].lines = ring_log(&r);
    ring_fini(&r);
}

/* Slow down the steps while a worker is missing, so that it joins before the end even on a busy
 * machine. */
static void wait_for_all(struct ring_worker *w, enum ring_event e,
                         const struct qr_step_line *line) {
    (void)line;
    if (e == RING_STEP && w->view.n_members < w->ring->n) ring_pause(100 * QR_MS);
}
static void open_ring(struct ring *r, uint32_t n) {
    ring_init(r, JOB, n);
    r->step_ns = 8 * QR_MS;
    r->on = wait_for_all;
}
static void make_late(struct ring *r, uint32_t i) {
    r->form_ns = 40 * QR_MS; /* the others form a ring without it */
    r->worker[i].comes_late = true;
}
static void check_ends(struct ring *r, int which, const char *what) {
    ring_run(r);
    struct qr_buf lines = ring_log(r);
    for (uint32_t i = 0; i < r->n; i++) {
        const struct ring_worker *w = &r->worker[i];
        CHECK(w->code == QR_OK, "%s: worker %u: %s", what, i, w->err.msg);
        CHECK(w->code != QR_OK || w->result.ended_by_peers ||
                  strcmp(w->result.state_digest, reference[which].digest) == 0,
              "%s: worker %u", what, i);
        CHECK(w->view.n_members == r->n, "%s: worker %u saw %u members at the end", what, i,
              w->view.n_members);
    }
    CHECK(lines.n == reference[which].lines.n &&
              memcmp(lines.p, reference[which].lines.p, lines.n) == 0,
          "%s: the log", what);
    qr_buf_free(&lines);
    ring_fini(r);
}

static void test_epochs(void) {
    struct ring r;
    char what[80];
    for (uint32_t i = 0; i < 3; i += 2)
        for (int fewer = 0; fewer < 2; fewer++)
            for (int is_late = 0; is_late < 2; is_late++) {
                snprintf(what, sizeof what, "worker %u with %s epochs, %s", i,
                         fewer ? "fewer" : "more", is_late ? "late" : "early");
                /* its value applies and trains for long */
                if (i == 0 && !is_late && !fewer) continue;
                open_ring(&r, 3);
                r.worker[i].epochs = fewer ? FEWER : MORE;
                if (is_late) make_late(&r, i);
                check_ends(&r, i == 0 && !is_late && fewer, what);
            }
}
/* All start at once: the leader's algorithm applies. Then two start and four join late with the
 * other algorithms, at indexes below, between and above. */
static void test_allreduce(void) {
    struct ring r;
    char what[80];
    for (int kind = 0; kind < QR_ALLREDUCE_KINDS; kind++)
        for (int is_late = 0; is_late < 2; is_late++) {
            static const uint32_t joiners[] = {0, 2, 3, 5};
            int other = 0;
            open_ring(&r, 6);
            r.wish = (enum qr_allreduce)kind;
            for (size_t k = 0; k < COUNT(joiners); k++, other++) {
                struct ring_worker *w = &r.worker[joiners[k]];
                other += other == kind;
                w->has_wish = true;
                w->wish = (enum qr_allreduce)other;
                if (is_late) make_late(&r, joiners[k]);
            }
            snprintf(what, sizeof what, "all-reduce %s and all others, %s",
                     qr_allreduce_names[kind], is_late ? "late" : "early");
            check_ends(&r, 0, what);
        }
}
/* min-workers is more than the ring has: no worker waits. */
static void test_min_workers(void) {
    struct ring r;
    for (uint32_t i = 0; i < 3; i += 2) {
        open_ring(&r, 3);
        r.worker[i].min_workers = 60;
        make_late(&r, i);
        check_ends(&r, 0, "a newcomer that wants 60 workers");
    }
    open_ring(&r, 3);
    r.worker[2].min_workers = 60;
    check_ends(&r, 0, "one of the first that wants 60 workers");
}

int main(void) {
    undisturbed(0, EPOCHS);
    undisturbed(1, FEWER);
    test_epochs();
    test_allreduce();
    test_min_workers();
    for (int k = 0; k < 2; k++) qr_buf_free(&reference[k].lines);
    return t_end();
}
