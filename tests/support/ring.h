/* tests/support/ring.h — whole workers in one process: the step loop and the group over links in
 * memory, two threads for each worker.
 *
 * Use       ring_init, then set fields of the ring and its workers; ring_run; compare results of
 *           the workers and ring_log; ring_fini.
 * Faults    a worker is killed at the n-th operation of its data link, or by a callback: its
 *           connections break as those of a killed process, and it sends nothing more.
 * Log       all workers write one steps.jsonl, as the workers of `qring run` do.
 * Threads   callbacks run on the training thread of their worker.
 */
#ifndef TESTS_SUPPORT_RING_H
#define TESTS_SUPPORT_RING_H

#include <pthread.h>
#include <stdatomic.h>

#include "group/group.h"
#include "output/steps_log.h"
#include "tests/t.h"
#include "train/train.h"

enum { RING_MAX = 6 };

/* Four qubits and a dense unit on ten rounds of cluster excitations, one sample a micro-batch:
 * steps of microseconds. train: the other keys of "train". */
#define RING_JOB(train)                                                                            \
    "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4," \
    "\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],"                                           \
    "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":10,\"train_fraction\":0.7},"          \
    "\"precision\":\"double\",\"micro_batch_size\":1,\"train\":{\"loss\":\"mse\"," train "}}"
#define RING_ADAM "\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.05}"

enum ring_event { RING_JOINED, RING_STEP, RING_WRITES, RING_WROTE };
struct ring;
struct ring_worker {
    struct ring *ring;
    uint32_t index;
    long fuse;                  /* operations of the data link before it is killed; < 0: never */
    uint64_t lit_at, stepped;   /* fuse counts from step lit_at on; stepped: the last step */
    int64_t start_ns, again_ns; /* delay of the first start; of a restart, INT64_MAX: none */
    bool comes_late;            /* starts after the first step of the others */
    pthread_t thread, control;
    struct qr_link *control_link, *data_link;
    struct qr_group *group; /* while it runs */
    struct qr_steps_log log;
    atomic_bool killed;
    unsigned lives, n_known; /* starts; n_known: peers in its settings, 0: all */
    unsigned survived;       /* blows of the ring that it has taken into account */
    enum qr_code code;
    struct qr_err err;
    struct qr_train_result result;
    struct qr_group_view view;
    /* Each read of the step's clock takes look_ns, two reads for a micro-batch; looks: reads so
     * far. Training thread only. */
    bool slow;
    unsigned looks;
    /* Settings of this worker; 0: those of the job and of the ring. */
    uint64_t epochs;
    unsigned min_workers;
    bool has_wish;
    enum qr_allreduce wish;
};
struct ring {
    struct qr_job *job;
    struct qr_dataset data;
    struct qr_model *model;
    struct qr_job_canonical canonical;
    uint32_t n;
    unsigned servers;  /* the first members are parameter servers */
    atomic_uint blows; /* each kills all members that compute, at their next operation */
    unsigned min_workers, threads;
    enum qr_allreduce wish;
    int64_t step_ns; /* pause of the leader in each step, so that others can join */
    int64_t form_ns;
    enum qr_code (*committed)(void *worker, bool leader, struct qr_state *state,
                              struct qr_err *err);
    enum qr_code (*reload)(void *worker, struct qr_state *ret, bool *ret_found, struct qr_err *err);
    bool (*ended)(void *worker);
    int64_t look_ns;
    char dir[64];
    struct qr_link_hub *hub;
    struct ring_worker worker[RING_MAX];
    /* May be NULL. May kill its own worker, or interrupt the group of any. */
    void (*on)(struct ring_worker *w, enum ring_event e, const struct qr_step_line *line);
    void (*looked)(struct ring_worker *w, unsigned n); /* n-th read of the clock while slow */
    void *ctx;
    atomic_uint n_wrote;
    atomic_bool has_stepped;
    atomic_bool failed; /* a worker ended with a permanent code: none is restarted */
    struct qr_log noise;
};

/* n workers on a job's text, which start at once, are not killed and not restarted. */
void ring_init(struct ring *r, const char *job, uint32_t n);
/* Runs all workers to their ends. */
void ring_run(struct ring *r);
void ring_fini(struct ring *r);
/* The text of steps.jsonl; the caller frees it. */
struct qr_buf ring_log(const struct ring *r);

/* On the training thread of w. */
void ring_kill(struct ring_worker *w);
void ring_pause(int64_t ns);
/* The others ended before this restarted worker joined. A real worker would then read LATEST, which
 * a ring does not have. */
bool ring_came_too_late(const struct ring_worker *w);

/* ---- the same job without disturbance ---- */

struct ring_reference {
    char digest[33];
    struct qr_train_result numbers; /* loss and metrics; params are freed */
    int64_t n_micro_batches;        /* of the run */
    struct qr_buf lines;            /* of steps.jsonl; free it */
};
/* A run of the job by one worker. */
struct ring_reference ring_undisturbed(const char *job);
/* Checks that the workers that were not killed for good have the reference's digest and numbers,
 * and that steps.jsonl has the same text. */
void ring_check(const struct ring *r, const struct ring_reference *want, const char *what);

#endif
