/* The evaluator: its numbers are those of training's own evaluations, byte for byte; which
 * published states it evaluates, in virtual time over a store in memory, with restarts, damaged
 * files and each call of the store failing once. */
#include "base/counter.h"
#include "base/file.h"
#include "base/mem.h"
#include "tests/support/evaluator_world.h"
#include "train/validation.h"
#include "train/logged.h"

static struct trained_run run;
static struct world w;
static struct qr_err err;

/* The state after this epoch and its evaluation. */
static const struct qr_state *end_of(uint64_t epoch) { return &run.states[(BATCHES + 1) * epoch]; }

static void test_numbers(void) {
    for (unsigned threads = 1; threads <= 3; threads += 2) {
        struct qr_pool *p = qr_pool_new(threads);
        struct qr_validation_pass *h = NULL;
        const struct qr_validation_pass_options o = {.job = run.job,
                                                     .model = run.load.model,
                                                     .data = &run.load.data,
                                                     .pool = p,
                                                     .clock = &qr_clock_monotonic};
        CHECK(qr_validation_pass_new(&o, &h, &err) == QR_OK, "%s", err.msg);
        for (uint64_t k = 2 * EPOCHS; k-- > 0;) { /* before and after its evaluation; backward */
            const struct qr_state *s = end_of(k / 2 + 1) - 1 + k % 2;
            struct qr_named_value metrics[QR_LINE_VALUES], logged[QR_MAX_LOGGED];
            struct qr_step_line line;
            struct qr_step_values r;
            struct qr_buf text = {0};
            CHECK(qr_validation_pass_evaluate(h, s, &r, &err) == QR_OK, "%s", err.msg);
            qr_logged_line(run.job, run.load.model, &r, metrics, logged, &line);
            qr_step_json(&line, &text);
            CHECK(strcmp(qr_buf_string(&text), qr_buf_string(&run.inline_lines[k / 2 + 1])) == 0,
                  "%u threads: %s%s", threads, qr_buf_string(&text),
                  qr_buf_string(&run.inline_lines[k / 2 + 1]));
            CHECK(memcmp(r.readouts, run.inline_readouts[k / 2 + 1], sizeof r.readouts) == 0 &&
                  r.ends_epoch);
            qr_buf_free(&text);
        }
        struct qr_step_values r;
        CHECK(qr_validation_pass_evaluate(h, &run.states[BATCHES + 2], &r, &err) == QR_OK &&
                  r.step == BATCHES + 1 && r.epoch == 2 && !r.ends_epoch,
              "within an epoch");
        double label = run.load.data.y[run.load.data.n_train + 2];
        run.load.data.y[run.load.data.n_train + 2] = 1e30;
        CHECK(qr_validation_pass_evaluate(h, end_of(1), &r, &err) == QR_OUT_OF_RANGE &&
                  strstr(err.msg, "validation batch"),
              "%s", err.msg);
        run.load.data.y[run.load.data.n_train + 2] = label;
        qr_validation_pass_free(h);
        qr_pool_free(p);
    }
}

static void test_run(void) {
    world_init(&w, &run);
    curve_delete(&run);
    /* The evaluator starts before the run. The state before an epoch's evaluation serves as the
     * epoch's last. */
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 3000}, {PUBLISH, END(1) - 1}, {PUBLISH, END(1)},
                    {PUBLISH, END(3)}, {WAIT, 0}, {PUBLISH, END(5)}, {WAIT, 700},
                    {DONE, END(5)}) == QR_OK,
          "%s", err.msg);
    CURVE("a run from its beginning", 1, 3, 5);
    CHECK(w.n_shown == 3 && w.n_anew == 0 && w.next == w.end);
    CHECK(strstr(w.said, "yet; waiting\n") && strstr(w.said, "job in memory://checkpoints for") &&
              strstr(w.said, "has stayed at step 20 for 1") && strstr(w.said, "done: "),
          "%s", w.said);
    CHECK(qr_counter_value(QR_EVALUATED_STEP) == 20 && qr_counter_value(QR_CHECKPOINT_STEP) == 20);
    /* Started again, the evaluator has nothing to do, and logs it. */
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK && w.n_waits == 0 && w.n_shown == 0, "%s",
          err.msg);
    CURVE("again", 1, 3, 5);
    CHECK(strstr(w.said, "the curve had its last state"), "%s", w.said);
    /* Started after the end of the run, it evaluates the last state. */
    curve_delete(&run);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK && w.n_waits == 0, "%s", err.msg);
    CURVE("started after the end", 5);
    world_fini(&w);
}

static void test_restarts(void) {
    world_init(&w, &run);
    curve_delete(&run);
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(1)}, {PUBLISH, END(2)}, {STOP, 0}) ==
                  QR_CANCELLED &&
              strstr(err.msg, "asked to stop; the curve ends at step 8"),
          "%s", err.msg);
    /* No step is evaluated twice, and of the states published in between only the newest. */
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(3)}, {PUBLISH, END(4)}, {STOP, 0}) ==
          QR_CANCELLED);
    CHECK(w.n_shown == 2);
    CURVE("stopped and started", 1, 2, 3, 4);
    /* A partial line is removed. */
    qr_auto(qr_free_p) char *path = curve_path(&run);
    struct qr_appender *a;
    CHECK(qr_appender_open(path, false, &a, &err) == QR_OK &&
          qr_appender_write(a, qr_bytes_of_string("{\"step\":20,\"epo"), &err) == QR_OK);
    qr_appender_close(a);
    CHECK(EVALUATES(EPOCHS, false, {DONE, END(5)}) == QR_OK, "%s", err.msg);
    CURVE("torn", 1, 2, 3, 4, 5);
    /* The run starts over with the same job: the curve already has its points. */
    CHECK(EVALUATES(EPOCHS + 1, true, {FORGET, 0}, {PUBLISH, END(2)}, {DONE, END(5)}) == QR_OK &&
              w.n_shown == 0 && w.next == w.end,
          "%s", err.msg);
    CURVE("the run started over", 1, 2, 3, 4, 5);
    world_fini(&w);
}

/* A state that is marked done at the start may be the end of this run or of an earlier one. */
static void test_ends(void) {
    world_init(&w, &run);
    curve_delete(&run);
    world_act(&w, DONE, END(2));
    /* The job has more epochs, and they follow. */
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 0}, {PUBLISH, END(3)}, {DONE, END(5)}) == QR_OK &&
              w.next == w.end,
          "%s", err.msg);
    CURVE("more epochs", 2, 3, 5);
    CHECK(strstr(w.said, "a run of 2 epochs has ended"), "%s", w.said);
    /* They do not follow within a minute: a run with fewer epochs than the job has ended too. */
    CHECK(EVALUATES(EPOCHS + 3, false, {WAIT, 20}, {WAIT, 20}, {WAIT, 20}, {STOP, 0}) == QR_OK &&
              w.next == w.end - 1,
          "%s", err.msg);
    CHECK(EVALUATES(EPOCHS, true, {WAIT, 20}, {WAIT, 20}, {WAIT, 20}, {STOP, 0}) == QR_OK &&
              w.next == w.end - 1,
          "%s", err.msg);
    world_act(&w, FORGET, 0);
    curve_delete(&run);
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(1)}, {DONE, END(2)}, {STOP, 0}) == QR_OK,
          "a run that ends while it is watched has ended: %s", err.msg);
    CURVE("fewer epochs", 1, 2);
    /* Stopped early. */
    world_act(&w, FORGET, 0);
    curve_delete(&run);
    struct qr_state *s = &run.states[END(3)];
    double was = s->stop[QR_STOP_STOPPED];
    s->stop[QR_STOP_STOPPED] = 1;
    world_act(&w, DONE, END(3));
    for (int i = 0; i < 2; i++)
        CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK && w.n_waits == 0, "%s", err.msg);
    CURVE("stopped early", 3);
    s->stop[QR_STOP_STOPPED] = was;
    world_fini(&w);
}

static bool curve_is(const char *text) {
    qr_auto(qr_free_p) char *path = curve_path(&run);
    struct qr_buf b = {0};
    struct qr_err read_err;
    bool equal =
        qr_file_read(path, 1 << 20, &b, &read_err) == QR_OK && strcmp(qr_buf_string(&b), text) == 0;
    qr_buf_free(&b);
    return equal;
}

static void test_others(void) {
    world_init(&w, &run);
    curve_delete(&run);
    world_act(&w, FOREIGN, END(1));
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "another job: its hash is ffffffff") &&
              strstr(err.msg, run.canonical.hex) && strstr(err.msg, "--set"),
          "%s", err.msg);
    CHECK(EVALUATES(EPOCHS, true, {WAIT, 30}, {WAIT, 30}, {WAIT, 30}, {STOP, 0}) ==
                  QR_INVALID_ARGUMENT &&
              w.next == w.end - 2,
          "%s", err.msg);
    CHECK(EVALUATES(EPOCHS, true, {FORGET, 0}, {PUBLISH, END(2)}, {DONE, END(5)}) == QR_OK, "%s",
          err.msg);
    CURVE("another job's checkpoints, deleted", 2, 5);
    /* Another job's curve is rejected; with --fresh the first new line replaces it. A file that is
     * not a curve is rejected. */
    static const char theirs[] = "{\"step\":7,\"loss\":1,\"job_hash\":\"0123456789abcdef\"}\n";
    curve_write(&run, theirs);
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_INVALID_ARGUMENT && w.n_anew == 0 &&
              strstr(err.msg, "0123456789abcdef") && strstr(err.msg, "--fresh"),
          "%s", err.msg);
    CHECK(curve_is(theirs), "another job's curve has changed");
    world_act(&w, FORGET, 0);
    CHECK(EVALUATES(EPOCHS, true, {WAIT, 30}, {STOP, 0}) == QR_CANCELLED, "%s", err.msg);
    CHECK(curve_is(theirs), "no line has been written");
    CHECK(EVALUATES(EPOCHS, true, {PUBLISH, END(2)}, {DONE, END(5)}) == QR_OK && w.n_anew == 1,
          "%s", err.msg);
    CURVE("another job's curve", 2, 5);
    static const char *const none[] = {"hello\n",
                                       "{}\n",
                                       "{\"step\":7}\n",
                                       "{\"step\":\"7\",\"job_hash\":\"0123456789abcdef\"}\n",
                                       "{\"step\":7,\"job_hash\":\"0123456789abcdef0\"}\n",
                                       "[1]\n",
                                       "\n"};
    for (size_t i = 0; i < COUNT(none); i++) {
        curve_write(&run, none[i]);
        CHECK(
            EVALUATES(EPOCHS, false, {STOP, 0}) == QR_INVALID_ARGUMENT &&
                strstr(err.msg, "evaluation.jsonl: its last line was not written by an evaluator"),
            "%zu: %s", i, err.msg);
    }
    curve_delete(&run);
    size_t n_train = run.load.data.n_train;
    run.load.data.n_train = run.load.data.n_samples;
    CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "needs validation samples") && strstr(err.msg, "train_fraction"),
          "%s", err.msg);
    run.load.data.n_train = n_train;
    world_fini(&w);
}

static void test_damage(void) {
    world_init(&w, &run);
    curve_delete(&run);
    /* Twice, far apart. */
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(1)}, {BREAK_LATEST, 0}, {WAIT, 0},
                    {PUBLISH, END(2)}, {WAIT, 700}, {BREAK_LATEST, 0}, {WAIT, 0}, {PUBLISH, END(3)},
                    {WAIT, 0}, {DONE, END(5)}) == QR_OK,
          "%s", err.msg);
    CHECK(strstr(w.said, "for ten minutes at most"), "%s", w.said);
    CURVE("a damaged LATEST", 1, 2, 3, 5);
    /* A damaged file: the state before it is used, which is in the curve already. */
    world_act(&w, FORGET, 0);
    curve_delete(&run);
    world_act(&w, PUBLISH, END(1));
    world_act(&w, PUBLISH, END(2));
    world_act(&w, BREAK_FILE, 0);
    CHECK(EVALUATES(EPOCHS, false, {PUBLISH, END(3)}, {DONE, END(5)}) == QR_OK, "%s", err.msg);
    CURVE("a damaged file", 1, 3, 5);
    /* The last state is damaged. */
    world_act(&w, FORGET, 0);
    curve_delete(&run);
    world_act(&w, PUBLISH, END(4));
    world_act(&w, DONE, END(5));
    world_act(&w, BREAK_FILE, 0);
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 300}, {WAIT, 200}, {WAIT, 200}, {STOP, 0}) ==
                  QR_DATA_LOSS &&
              w.next == w.end - 1 && strstr(err.msg, "the last state of the run, of step 20"),
          "%s", err.msg);
    CURVE("the last one", 4);
    /* No file is intact. */
    world_act(&w, FORGET, 0);
    world_act(&w, PUBLISH, END(1));
    world_act(&w, BREAK_LATEST, 0);
    CHECK(EVALUATES(EPOCHS, false, {WAIT, 300}, {WAIT, 300}, {STOP, 0}) == QR_DATA_LOSS, "%s",
          err.msg);
    world_fini(&w);
}

/* Each call of the store fails once: its error is returned, and the next start continues. */
static void test_faults(void) {
    const enum qr_code whys[] = {QR_UNAVAILABLE, QR_PERMISSION_DENIED};
    for (long at = 1, failed = 1; failed; at++) {
        failed = 0;
        for (size_t i = 0; i < COUNT(whys); i++) {
            world_init(&w, &run);
            curve_delete(&run);
            w.store.fail_at = at;
            w.store.why = whys[i];
            world_act(&w, PUBLISH, END(1));
            enum qr_code code =
                EVALUATES(EPOCHS, false, {PUBLISH, END(2)}, {PUBLISH, END(3)}, {DONE, END(5)});
            CHECK(code == (w.store.n >= at ? whys[i] : QR_OK), "call %ld: %s", at, err.msg);
            failed += code != QR_OK;
            if (code != QR_OK) CHECK(strstr(err.msg, "planted"), "%s", err.msg);
            for (; w.next < w.end; w.next++) world_act(&w, w.next->kind, w.next->k);
            w.store.fail_at = 0;
            CHECK(EVALUATES(EPOCHS, false, {STOP, 0}) == QR_OK, "%s", err.msg);
            qr_auto(qr_free_p) char *path = curve_path(&run);
            struct qr_buf text = {0};
            CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK, "%s", err.msg);
            uint64_t last = 0;
            for (const char *l = qr_buf_string(&text); *l; l = strchr(l, '\n') + 1) {
                uint64_t step = strtoull(l + strlen("{\"step\":"), NULL, 10);
                CHECK(step > last && step % BATCHES == 0, "call %ld: %s", at, qr_buf_string(&text));
                last = step;
            }
            CHECK(last == BATCHES * EPOCHS);
            qr_buf_free(&text);
            world_fini(&w);
        }
    }
}

/* A stop during an evaluation cancels it. */
static unsigned n_polled;
static bool stops_soon(void *ctx) { return (void)ctx, ++n_polled > 2; }
static void test_stop(void) {
    struct qr_validation_pass *h = NULL;
    struct qr_step_values r;
    const struct qr_validation_pass_options o = {.job = run.job,
                                                 .model = run.load.model,
                                                 .data = &run.load.data,
                                                 .pool = run.pool,
                                                 .clock = &qr_clock_monotonic,
                                                 .stopping = stops_soon};
    CHECK(qr_validation_pass_new(&o, &h, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_validation_pass_evaluate(h, end_of(1), &r, &err) == QR_CANCELLED, "%s", err.msg);
    qr_validation_pass_free(h);
}

int main(void) {
    if (!trained_run_init(&run)) return t_end();
    test_numbers();
    test_run();
    test_restarts();
    test_ends();
    test_others();
    test_damage();
    test_faults();
    test_stop();
    trained_run_fini(&run);
    return t_end();
}
