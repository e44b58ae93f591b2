/* tests/support/evaluator_world.h — an evaluator beside a run, in virtual time over a store in
 * memory.
 *
 * Use       trained_run_init trains a small job and keeps its states. For each test: world_init,
 *           EVALUATES with the events that happen while the evaluator waits, checks of w and CURVE,
 *           world_fini. At the end: trained_run_fini.
 */
#ifndef TESTS_SUPPORT_EVALUATOR_WORLD_H
#define TESTS_SUPPORT_EVALUATOR_WORLD_H

#include "evaluator/evaluator.h"
#include "tests/t.h"
#include "train/train.h"

/* ---- a run: its committed states, and the lines of its evaluations ---- */

enum { BATCHES = 4, EPOCHS = 5, STATES = (BATCHES + 1) * EPOCHS };
#define END(epoch) (BATCHES + 1) * (epoch) /* reductions after so many epochs */
struct trained_run {
    char dir[32]; /* for the evaluator's curve */
    struct qr_job *job;
    struct qr_workload load;
    struct qr_job_canonical canonical;
    struct qr_pool *pool;
    struct qr_state states[STATES + 1];     /* by reductions */
    struct qr_buf inline_lines[EPOCHS + 1]; /* by epochs, like inline_readouts */
    uint64_t inline_readouts[EPOCHS + 1][QR_READOUT_BUCKETS];
};
/* False: checks failed, and nothing more can be tested. */
bool trained_run_init(struct trained_run *run);
void trained_run_fini(struct trained_run *run);

/* The evaluator's file of lines in run->dir. */
char *curve_path(const struct trained_run *run); /* free() it */
void curve_write(const struct trained_run *run, const char *text);
void curve_delete(const struct trained_run *run);
/* Checks that the curve has the lines of training's evaluations after these epochs, and each the
 * job's hash. */
void curve_check(const struct trained_run *run, const uint64_t *epochs, size_t n,
                 const char *where);
/* run: the test's struct trained_run. */
#define CURVE(where, ...)                                                                          \
    curve_check(&run, (const uint64_t[]){__VA_ARGS__},                                             \
                sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), where)

/* ---- the checkpoint folder, and what happens in it ---- */

enum world_event_kind { PUBLISH, DONE, FORGET, FOREIGN, BREAK_LATEST, BREAK_FILE, WAIT, STOP };
struct world_event {
    enum world_event_kind kind;
    uint64_t k; /* PUBLISH, DONE, FOREIGN: a state by reductions; WAIT: seconds */
};
struct faulty_store {
    struct qr_store base;
    struct qr_store *inner;
    long n, fail_at; /* reads so far; the read that fails, 0: none */
    enum qr_code why;
};
struct world {
    const struct trained_run *run;
    struct faulty_store store; /* the evaluator's, read-only */
    struct qr_store *inner;
    struct qr_checkpoint_location place, own; /* over store; over inner */
    const struct world_event *next, *end;     /* not yet happened */
    int64_t now_ns;
    bool stop, computing;
    unsigned n_shown, n_anew, n_waits; /* calls of the evaluator's callbacks */
    char said[8192];                   /* messages of the last evaluator */
};
void world_init(struct world *w, const struct trained_run *run);
void world_fini(struct world *w);
void world_act(struct world *w, enum world_event_kind kind, uint64_t k);
/* qr_evaluator_options.pause: moves the time, and lets the next event happen. */
void world_sleep(void *world, int64_t ns);
/* Runs an evaluator; each of its waits lets one event happen. Returns its code and error. */
enum qr_code world_evaluate(struct world *w, const struct world_event *events, size_t n,
                            uint64_t epochs, bool fresh, struct qr_err *err);
/* w, err: the test's struct world and struct qr_err. */
#define EVALUATES(epochs, fresh, ...)                                                              \
    world_evaluate(&w, (const struct world_event[]){__VA_ARGS__},                                  \
                   sizeof((const struct world_event[]){__VA_ARGS__}) / sizeof(struct world_event), \
                   epochs, fresh, &err)

#endif
