/* Whole workers that are killed, leave and join while they train: the digest and steps.jsonl are those of one worker that nobody disturbed. */
#include "tests/ring.h"

#define JOB(epochs) "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4,\"stages\":1}}," \
    "{\"layer\":\"dense\",\"units\":1}],\"data\":{\"source\":\"cluster-excitations\",\"rounds\":10,\"train_fraction\":0.7}," \
    "\"precision\":\"double\",\"block_size\":1,\"train\":{\"epochs\":" #epochs ",\"batch_size\":9,\"loss\":\"mse\"," \
    "\"metrics\":[\"accuracy\"],\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.05}}}"
static const char job[] = JOB(6);

static char digest[33];
static struct qr_buf lines;

/* One worker, nobody else. */
static void undisturbed(void) {
    struct ring r;
    ring_init(&r, job, 1);
    ring_run(&r);
    CHECK(r.worker[0].code == QR_OK, "%s", r.worker[0].err.msg);
    memcpy(digest, r.worker[0].result.state_digest, sizeof digest);
    lines = ring_log(&r);
    CHECK(lines.n > 1000 && strlen(digest) == 32);
    ring_fini(&r);
}

/* Everybody who was not killed for good has the digest; the log is the log. */
static void check_ring(struct ring *r, const char *what) {
    struct qr_buf text = ring_log(r);
    unsigned ended = 0;
    for (uint32_t i = 0; i < r->n; i++) {
        struct ring_worker *w = &r->worker[i];
        if (atomic_load(&w->killed)) continue;
        CHECK(w->code == QR_OK, "%s: worker %u: %s", what, i, w->err.msg);
        if (w->result.by_others) continue;
        ended++;
        CHECK(strcmp(w->result.state_digest, digest) == 0, "%s: worker %u: %s", what, i, w->result.state_digest);
    }
    CHECK(ended > 0 && atomic_load(&r->n_wrote) > 0, "%s: nobody ended", what);
    CHECK(text.n == lines.n && memcmp(text.p, lines.p, text.n) == 0, "%s: the log differs: %zu bytes, not %zu (%s)", what, text.n, lines.n, r->dir);
    qr_buf_free(&text);
}

static void test_nobody_disturbed(void) {
    for (uint32_t n = 2; n <= 4; n++) {
        struct ring r;
        ring_init(&r, job, n);
        ring_run(&r);
        check_ring(&r, "undisturbed");
        CHECK(atomic_load(&r.n_wrote) == 1);
        ring_fini(&r);
    }
}

/* One of the workers dies at its k-th operation on the data link: at any point of a step, of a forming ring, or of the end. */
static void test_killed_anywhere(void) {
    for (unsigned k = 0; k < 40; k++) {
        struct ring r;
        char what[64];
        ring_init(&r, job, 2 + k % 3);
        uint32_t who = k % r.n;
        r.wish = (enum qr_allreduce)(k / 3 % 4);
        r.worker[who].fuse = (long)(k * k * 3 / 2 + k);
        snprintf(what, sizeof what, "worker %u of %u killed at operation %ld", who, r.n, r.worker[who].fuse);
        ring_run(&r);
        check_ring(&r, what);
        ring_fini(&r);
    }
}

int main(void) {
    undisturbed();
    test_nobody_disturbed();
    test_killed_anywhere();
    qr_buf_free(&lines);
    return t_end();
}
