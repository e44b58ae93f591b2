/* Whole workers are killed, leave and join while they train: the digest and steps.jsonl are those
 * of one undisturbed worker. */
#include "tests/support/ring.h"

#include "base/counter.h"

#define ADAM                                                                                       \
    "\"name\":\"adam\",\"learning_rate\":0.05,\"use_ema\":true,\"ema_momentum\":0.9,"              \
    "\"ema_overwrite_frequency\":4"
#define JOB(epochs, optimizer)                                                                     \
    RING_JOB("\"epochs\":" #epochs                                                                 \
             ",\"batch_size\":9,\"metrics\":[\"accuracy\"],\"optimizer\":{" optimizer "}")
static const char *job = JOB(6, ADAM);
static struct ring_reference reference; /* of job */

#define TURN(gate, name, qubit)                                                                    \
    "{\"gate\":\"" gate "\",\"qubits\":[" qubit "],\"angle\":{\"parameter\":\"" name "\"}},"
#define TURNS(k) TURN("RY", "a" k, "0") TURN("RY", "b" k, "1") TURN("RX", "c" k, "2")
#define LBFGS                                                                                      \
    "{\"seed\":4,\"precision\":\"double\",\"model\":[{\"layer\":\"quantum\",\"circuit\":{"         \
    "\"qubits\":3,\"gates\":[" TURNS("0") "{\"gate\":\"CX\",\"qubits\":[0,1]}," TURNS(             \
        "1") "{\"gate\":\"CX\",\"qubits\":[1,2]}," TURNS("2") "{\"gate\":\"CZ\",\"qubits\":[0,2]}" \
                                                              "]"                                  \
                                                              "},\"readouts\":[\"Z0 Z1 + 0.5*X1 "  \
                                                              "Y2 - X2 + "                         \
                                                              "0.3*Y0\"]}],\"data\":{\"source\":"  \
                                                              "\"none\"},"                         \
                                                              "\"train\":{\"epochs\":80,\"loss\":" \
                                                              "\"expectation\",\"optimizer\":{"    \
                                                              "\"name\":\"lbfgs\","                \
                                                              "\"memory\":3,\"gradient_"           \
                                                              "tolerance\":1e-12,\"loss_"          \
                                                              "tolerance\":0}}}"

static void test_undisturbed(void) {
    for (uint32_t n = 2; n <= 4; n++) {
        struct ring r;
        ring_init(&r, job, n);
        ring_run(&r);
        ring_check(&r, &reference, "undisturbed");
        CHECK(atomic_load(&r.n_wrote) == 1);
        ring_fini(&r);
    }
}

/* One worker is killed at its k-th operation on the data link: at any point of a step, of a forming
 * ring, or of the end. */
static void test_killed_anywhere(void) {
    for (unsigned k = 0; k < 24; k++) {
        struct ring r;
        char what[64];
        ring_init(&r, job, 2 + k % 3);
        uint32_t member = k / 3 % r.n;
        r.wish = (enum qr_allreduce)(k / 2 % 4);
        r.worker[member].fuse = (long)(2 + k * k / 4 + k);
        snprintf(what, sizeof what, "worker %u of %u killed at operation %ld", member, r.n,
                 r.worker[member].fuse);
        ring_run(&r);
        ring_check(&r, &reference, what);
        ring_fini(&r);
    }
}

/* ---- what callbacks do ---- */

struct plan {
    enum ring_event event;
    uint64_t step; /* of RING_STEP */
    /* Worker of the event, which is killed unless `leaver` is asked to stop. */
    uint32_t member, leaver;
    bool leaves;
    atomic_bool over;
};
static void run_plan(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line) {
    struct plan *p = w->ring->ctx;
    if (e != p->event || w->index != p->member || (line && line->step != p->step) ||
        atomic_exchange(&p->over, true))
        return;
    if (p->leaves) qr_group_interrupt(w->ring->worker[p->leaver].group);
    else ring_kill(w);
}
static const char *const event_names[] = {"it joins", "it reports a step", "it starts to write",
                                          "it has written"};

/* At named points, the leader and another worker: before and after each visible effect. */
static void test_killed_at(void) {
    for (unsigned e = RING_JOINED; e <= RING_WROTE; e++)
        for (uint32_t member = 0; member < 3; member += 2) {
            if (e == RING_WROTE && member != 0) continue;
            struct plan plan = {.event = (enum ring_event)e, .step = 7, .member = member};
            struct ring r;
            char what[64];
            ring_init(&r, job, 3);
            r.on = run_plan;
            r.ctx = &plan;
            snprintf(what, sizeof what, "worker %u killed when %s", member, event_names[e]);
            ring_run(&r);
            CHECK(atomic_load(&plan.over), "%s: never happened", what);
            ring_check(&r, &reference, what);
            ring_fini(&r);
        }
}

static void test_leaves(void) {
    for (uint32_t member = 0; member < 3; member++) {
        struct plan plan = {
            .event = RING_STEP, .step = 5, .member = 1, .leaver = member, .leaves = true};
        struct ring r;
        ring_init(&r, job, 3);
        r.on = run_plan;
        r.ctx = &plan;
        ring_run(&r);
        CHECK(r.worker[member].code == QR_CANCELLED, "worker %u: %s", member,
              r.worker[member].err.msg);
        atomic_store(&r.worker[member].killed, true); /* excluded from ring_check */
        ring_check(&r, &reference, "one leaves");
        ring_fini(&r);
    }
}

/* In the first step a micro-batch takes 120 ms. Workers `member` and `also` are asked to stop in
 * their first one, or with in_flight_ns in their second one, which then takes that much longer. */
struct drain {
    uint32_t member, also;
    int64_t in_flight_ns;
};
static void slow_down(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line) {
    (void)line;
    /* The first step is distributed equally. */
    w->slow = e == RING_JOINED && w->view.n_members == w->ring->n;
}
static void ask_to_stop(struct ring_worker *w, unsigned n) {
    struct drain *d = w->ring->ctx;
    if ((w->index != d->member && w->index != d->also) || n < (d->in_flight_ns ? 8 : 7)) return;
    w->slow = false;
    qr_group_interrupt(w->group);
    ring_pause(d->in_flight_ns);
}

/* The others compute again what a leaver has computed of the step. */
static void test_leaves_in_a_step(void) {
    for (uint32_t k = 0; k < 6; k++) {
        struct drain d = {
            .member = k % 3, .also = k == 4 ? 2 : k % 3, .in_flight_ns = k == 5 ? 700 * QR_MS : 0};
        struct ring r;
        char what[96];
        ring_init(&r, job, k == 3 ? 2 : 3);
        r.on = slow_down;
        r.looked = ask_to_stop;
        r.look_ns = 60 * QR_MS;
        r.ctx = &d;
        int64_t micro_batches = qr_counter_value(QR_MICRO_BATCHES);
        ring_run(&r);
        micro_batches = qr_counter_value(QR_MICRO_BATCHES) - micro_batches;
        snprintf(what, sizeof what, "workers %u and %u of %u leave in a step%s", d.member, d.also,
                 r.n, d.in_flight_ns ? ", with a long micro-batch in flight" : "");
        CHECK(micro_batches > reference.n_micro_batches,
              "%s: %lld micro-batches were computed, not over %lld", what, (long long)micro_batches,
              (long long)reference.n_micro_batches);
        for (uint32_t i = 0; i < r.n; i++) {
            if (i != d.member && i != d.also) continue;
            CHECK(r.worker[i].code == QR_CANCELLED, "%s: %s", what, r.worker[i].err.msg);
            atomic_store(&r.worker[i].killed, true); /* excluded from ring_check */
        }
        ring_check(&r, &reference, what);
        ring_fini(&r);
    }
}

/* Killed and restarted, also as the leader; and a worker that starts late. */
static void test_joins(void) {
    for (uint32_t member = 0; member < 3; member++) {
        struct ring r;
        ring_init(&r, job, 3);
        r.step_ns = 4 * QR_MS;
        r.worker[member].fuse = 30 + 20 * member;
        r.worker[member].again_ns = 10 * QR_MS;
        r.form_ns = 300 * QR_MS; /* the others do not wait for the late worker */
        if (member == 2) r.worker[1].start_ns = 350 * QR_MS;
        ring_run(&r);
        CHECK(r.worker[member].lives == 2, "worker %u started %u times", member,
              r.worker[member].lives);
        ring_check(&r, &reference, "killed and restarted");
        ring_fini(&r);
    }
}

/* Slow down the steps while workers are missing, so that they join before the end even on a busy
 * machine. */
static void wait_for_all(struct ring_worker *w, enum ring_event e,
                         const struct qr_step_line *line) {
    (void)line;
    if (e == RING_STEP && w->view.n_members < w->ring->n) ring_pause(100 * QR_MS);
}

/* A job is scaled up: the settings of the old workers do not list the new ones. */
static void test_scaled_up(void) {
    struct ring r;
    ring_init(&r, job, 4);
    r.on = wait_for_all;
    r.worker[0].n_known = r.worker[1].n_known = 2;
    r.worker[2].start_ns = 20 * QR_MS;
    r.worker[3].start_ns = 30 * QR_MS;
    ring_run(&r);
    ring_check(&r, &reference, "scaled up");
    CHECK(r.worker[0].view.n_members == 4 && r.worker[3].view.rank == 3, "%u members",
          r.worker[0].view.n_members);
    ring_fini(&r);
}

/* All workers but one are killed, each in a step of its own. In the second turn they restart. */
static void test_all_but_one(void) {
    for (unsigned again = 0; again < 2; again++) {
        struct ring r;
        ring_init(&r, job, 5);
        r.step_ns = again ? 4 * QR_MS : 0;
        for (uint32_t i = 0; i < 5; i++) {
            if (i == 3) continue;
            r.worker[i].lit_at = 2 + 4 * i;
            r.worker[i].fuse = (long)i;
            r.worker[i].again_ns = again ? (int64_t)(5 + i) * QR_MS : INT64_MAX;
        }
        ring_run(&r);
        for (uint32_t i = 0; i < 5; i++)
            CHECK(r.worker[i].lives == (again && i != 3 ? 2U : 1U), "worker %u started %u times", i,
                  r.worker[i].lives);
        for (uint32_t i = 0; i < 5 && !again; i++)
            CHECK(atomic_load(&r.worker[i].killed) == (i != 3), "worker %u was not killed", i);
        ring_check(&r, &reference, "all but one killed");
        ring_fini(&r);
    }
}

/* Fewer than min_workers are left: they wait until the timeout and exit with a retryable code. */
static void test_too_few(void) {
    struct ring r;
    ring_init(&r, job, 3);
    r.min_workers = 2;
    r.form_ns = 400 * QR_MS;
    r.worker[0].fuse = 40;
    r.worker[1].fuse = 60;
    ring_run(&r);
    CHECK(qr_exit_code(r.worker[2].code) == 138, "%d: %s", r.worker[2].code, r.worker[2].err.msg);
    CHECK(strstr(r.worker[2].err.msg, "1 of 3 present, 2 needed"), "%s", r.worker[2].err.msg);
    ring_fini(&r);
    /* One returns in time: the run continues. */
    ring_init(&r, job, 3);
    r.min_workers = 2;
    r.form_ns = 4 * QR_SECOND;
    r.worker[0].fuse = 40;
    r.worker[1].fuse = 60;
    r.worker[1].again_ns = 100 * QR_MS;
    ring_run(&r);
    ring_check(&r, &reference, "below min_workers for a while");
    ring_fini(&r);
}

int main(void) {
    reference = ring_undisturbed(job);
    test_undisturbed();
    test_killed_anywhere();
    test_killed_at();
    test_leaves();
    test_leaves_in_a_step();
    test_joins();
    test_scaled_up();
    test_all_but_one();
    test_too_few();
    qr_buf_free(&reference.lines);
    /* One number a step instead of gradients. */
    job = JOB(6, "\"name\":\"spsa\"");
    reference = ring_undisturbed(job);
    test_undisturbed();
    test_leaves();
    test_leaves_in_a_step();
    test_joins();
    qr_buf_free(&reference.lines);
    /* Interrupted within line searches. */
    job = LBFGS;
    reference = ring_undisturbed(job);
    test_undisturbed();
    test_joins();
    qr_buf_free(&reference.lines);
    return t_end();
}
