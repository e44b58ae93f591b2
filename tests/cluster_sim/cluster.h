/* tests/cluster_sim/cluster.h — whole workers in one process in virtual time: the real step loop,
 * group, state copies, log, publisher and checkpoints over a simulated network and store.
 *
 * What       A worker's three threads are coroutines. One runs until it polls its link, waits for
 *            the publisher, calls the store or, in a step, reads the clock; then time, the network,
 *            the store and the other coroutines advance. So a seed determines a run, a fault can
 *            happen at every wait of the code, and an hour takes a second.
 * Use        reference_new; for each seed cluster_init, settings in the struct, cluster_turn while
 *            cluster_runs, cluster_check_end, cluster_fini; reference_free. Start reading at
 *            cluster_turn.
 * Violations n_violations counts broken rules; rule and detail describe the first one.
 * Files      cluster.c: time, start and end; cluster_worker.c: a worker; cluster_thread.c:
 *            coroutines and links; cluster_store.c: the store; cluster_reference.c: the undisturbed
 *            run.
 */
#ifndef TESTS_CLUSTER_SIM_CLUSTER_H
#define TESTS_CLUSTER_SIM_CLUSTER_H

#include <ucontext.h>

#include "group/group.h"
#include "output/publisher_impl.h"
#include "output/run_checkpoints.h"
#include "output/steps_log.h"
#include "tests/cluster_sim/sim.h"
#include "tests/support/link_simulated.h"
#include "train/train.h"

enum { MAX_NODES = 24, MAX_SENT = 64 };
#define MS(n) ((int64_t)(n)*1000000)

/* Bugs of the simulator; those of the code are the smaller bits of enum planted. */
enum plant {
    PLANT_UNCOMMITTED = 1 << 16, /* publishes a state that is not committed yet */
    PLANT_PLAIN_WRITE = 1 << 17, /* moves LATEST by a plain write instead of compare-and-swap */
    PLANT_UNVERIFIED = 1 << 18,  /* loads a damaged checkpoint as if it were intact */
};

/* A job and its undisturbed run. */
struct reference {
    struct qr_workload load;
    struct qr_job *job;
    struct qr_job_canonical canonical;
    char digest[33]; /* of the last step's state */
    uint64_t epochs;
    size_t n_reductions, n_lines;
    /* By reductions: states, their digests, and bytes of the log at that time. */
    struct qr_state *state;
    char (*digest_at)[33];
    size_t *log_end;
    struct qr_buf *line; /* by 2 * step + eval; may be empty */
    struct qr_buf log;
};

struct node;
/* A link whose poll lets other coroutines run, and whose streams may release bodies late. */
struct port {
    struct qr_link base;
    struct qr_link *inner;
    struct node *node;
    bool woken;
    int64_t slow_until_ns;
    int64_t held_until_ns[MAX_SENT]; /* bodies that are not released */
};
struct actor {
    ucontext_t context;
    void *stack;
    void (*run)(struct node *x);
    struct node *node;
    bool started, done;
    /* It waits until until_ns, an event of this port, or a change of *counter from `seen`. */
    struct port *port;
    const unsigned *counter;
    unsigned seen;
    int64_t until_ns, frozen_until_ns;
};
enum { CONTROL_LINK, DATA_LINK };
enum { CONTROL, TRAINING, PUBLISHING, ACTORS };
/* A worker, or a parameter server; it starts at start_ns, if that is not 0. */
struct node {
    struct cluster *c;
    uint32_t index;
    bool live, killed;
    bool paused;   /* until resume_ns */
    bool finished; /* is not started again */
    bool away;     /* is not to be started again after its end */
    bool leaving;  /* asked to, and killed at leave_by_ns */
    bool end_sent, leader, damage_hidden, found_done;
    unsigned starts, wakes; /* wakes: of the publishing thread */
    int64_t loaded_ns, start_ns, resume_ns, leave_by_ns, clock_offset_ns;
    int64_t micro_batch_ns; /* the longest time between two reads of the clock in a step */
    struct qr_clock clock, busy_clock; /* busy_clock: a step's; reading it takes time */
    struct qr_log log;
    struct port port[2];
    struct actor actor[ACTORS];
    struct qr_group *group;
    struct qr_publisher *publisher;
    void (*publish)(struct qr_publisher *p);
    struct qr_steps_log steps_log;
    struct qr_resume_point resume;
    enum qr_code code;
    struct qr_err err;
    char digest[33];
    int64_t reported_ns; /* last step report, or end */
    int64_t named_ns;    /* first log of a victim's loss; 0: none */
    unsigned joins, n_members;
    uint64_t ring_epochs; /* of the generation that it joined last */
    /* Its own settings; see cluster.other_settings. */
    uint64_t epochs;
    enum qr_allreduce allreduce;
    unsigned min_workers;
};
struct store {
    bool on;
    bool bucket;     /* else a file system */
    unsigned faults; /* of 1000 requests that many fail, are slow, or lose their answer */
    struct object *object;
    size_t n;
    uint64_t versions;
    struct request *requests, *lock;    /* lock: of LATEST in a file system */
    struct qr_checkpoint_latest newest; /* what LATEST was moved to last */
    uint64_t acked_reductions;          /* of the newest acknowledged LATEST */
    bool has_newest;
    bool damaged; /* an acknowledged object was damaged */
    /* A leaving worker published a state before its line was in the log; the log lacks a line for
     * that. */
    bool ahead_of_log, log_gap;
    bool gave_up;         /* the last checkpoint was abandoned, as a local disk's may be */
    long long log_synced; /* bytes */
    unsigned n_saves, n_power_cuts, n_earlier_loads;
};
struct cluster {
    const struct reference *ref;
    uint64_t seed, random, turns;
    uint64_t schedule; /* hash of all coroutine switches */
    int64_t instant_ns;
    unsigned instant_turns; /* at instant_ns */
    bool done;              /* a worker has finished the run */
    unsigned n, n_slots, n_starts, n_kills, n_joins, n_violations;
    unsigned mutations; /* enum plant, enum planted */
    struct qr_sim_net *net;
    struct store store;
    struct node node[MAX_NODES];
    char address[MAX_NODES][32], dir[64], log_path[96];
    const char *peers[MAX_NODES];
    bool trace, print; /* hash events; print them too */
    unsigned n_traced;
    uint64_t trace_hash;
    bool other_settings; /* restarted workers get random settings */
    bool clock_offsets;  /* monotonic clocks begin at different times */
    int64_t every_ns, form_timeout_ns;
    uint64_t every_steps;
    unsigned min_workers;
    unsigned servers; /* nodes below it are parameter servers */
    ucontext_t scheduler;
    struct actor *running;
    unsigned victims;            /* a set of indices, whose loss is timed */
    uint64_t newest, n_reported; /* step reports: the newest one's line, and number of new lines */
    int64_t newest_ns, pause_ns; /* pause_ns: the longest time between two since it was cleared */
    int64_t late_ns;             /* how late a thread may run each time, on a busy machine */
    struct qr_buf line;
    const char *rule;
    char detail[300];
};

/* Trains the job alone. epochs: 0: the job's. Free with reference_free. */
struct reference *reference_new(uint64_t epochs);
void reference_free(struct reference *ref);
/* Returns whether the state is one of the undisturbed run; sets its hex digest. */
bool reference_has(const struct reference *ref, const struct qr_state *state, char ret_hex[33]);

/* Creates 1 to n_max workers, to be started at random times.
 *
 * Args:     c        overwritten; cluster_fini frees what it owns
 *           ref      borrowed until cluster_fini
 *           n_slots  nodes that are prepared: c->n may be raised to it; at most MAX_NODES
 */
void cluster_init(struct cluster *c, const struct reference *ref, uint64_t seed, unsigned n_max,
                  unsigned n_slots);
void cluster_fini(struct cluster *c);
/* Runs one coroutine, or advances time, at most to limit_ns. */
void cluster_turn(struct cluster *c, int64_t limit_ns);
/* Returns whether a worker is unfinished, and no rule is broken; false after 20 million turns. */
bool cluster_runs(const struct cluster *c);
/* Checks what must hold after cluster_runs has returned false. */
void cluster_check_end(struct cluster *c);

void cluster_kill(struct node *x);
void cluster_terminate(struct node *x); /* SIGTERM */
/* Site of a link for qr_sim_net_*. */
unsigned cluster_site(const struct node *x, int link);
/* Blocks or unblocks a link from a to b; all links between a and b; all between a set and the
 * other nodes. */
void cluster_block(struct node *a, struct node *b, int link, bool on);
void cluster_cut(struct node *a, struct node *b, bool on);
void cluster_partition(struct cluster *c, unsigned set, bool on);
/* Cuts the store's power, after all processes were killed: loses writes that were not acknowledged,
 * and may damage an object. */
void cluster_cut_power(struct cluster *c);

void cluster_violated(const struct node *x, const char *rule, const char *detail);
void cluster_trace(const struct node *x, const char *fmt, ...) QR_PRINTF(2, 3);

static inline uint64_t dice(struct cluster *c, uint64_t n) {
    return (c->random = mix(c->random)) % n;
}
static inline int64_t dice_ns(struct cluster *c, int64_t n) {
    return (int64_t)dice(c, (uint64_t)n);
}
static inline int64_t now_of(const struct cluster *c) { return qr_sim_net_now_ns(c->net); }

#endif
