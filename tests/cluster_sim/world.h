/* tests/cluster_sim/world.h — processes on a simulated network in virtual time, each a membership
 * machine (membership/member.h) with a toy trainer. Rules are checked at each action.
 *
 * Use        world_init; world_turn until a time or a condition; world_fini. Between turns the test
 *            may change the nodes and the network (tests/support/link_simulated.h). Start reading
 *            at world_turn.
 * Seeds      the same seed and the same calls give the same run.
 * Violations n_violations counts broken rules; rule and detail describe the first one.
 */
#ifndef TESTS_CLUSTER_SIM_WORLD_H
#define TESTS_CLUSTER_SIM_WORLD_H

#include "base/mem.h"
#include "exact/coverage.h"
#include "membership/member_impl.h"
#include "tests/cluster_sim/sim.h"
#include "tests/support/link_simulated.h"

enum { MAX_NODES = 8, MICRO_BATCHES = 11, MAX_STEPS = 12, MAX_GENS = 4096 };
/* Faults of a trainer: a micro-batch that counts twice, not at all, or is of another state. */
enum plant { PLANT_NONE, PLANT_TWICE, PLANT_MISSED, PLANT_OTHER_STATE };

/* A contribution to a reduction. */
struct part {
    bool present;
    uint64_t step, sum;
    struct qr_coverage coverage;
};
/* A process; world_turn starts it at start_ns, if that is not 0. Sets of micro-batches are bits. */
struct node {
    struct world *w;
    uint32_t index, inc_count; /* inc_count: starts so far */
    bool live, paused;         /* paused: until resume_ns */
    bool finished;             /* is not started again */
    bool active;               /* between a Begin and the next promise */
    bool ended, stopped;       /* the machine emitted DONE or STOP, with code and text */
    bool has_lost;             /* a warning named worker `lost` at lost_ns; text has it */
    uint32_t lost;
    uint8_t inc[16];
    struct qr_link *link;
    struct qr_member *m;
    int64_t form_timeout_ns; /* 0: the world's */
    int64_t dns_name_ns;     /* its name exists from this time on */
    int64_t start_ns, resume_ns, lost_ns, micro_batch_ns, resend_ns;
    enum qr_code code;
    char text[512];
    uint32_t conn[MAX_NODES]; /* the machine's connection to each peer */
    struct qr_gen_id promised;
    /* Messages to deliver a second time: a Begin; a Propose, Promise or Busy. */
    struct qr_message stale[2];
    uint32_t stale_from[2];
    struct qr_generation gen;
    uint64_t pending_hash; /* of the promised id, until its Begin */
    /* The trainer. set_aside: computed between a promise and its Begin. */
    uint64_t step, value, committed, assigned, held, set_aside;
    bool sent;
    bool closed; /* has passed the closing reduction of this generation */
    /* Data streams, by index. wanted: to be opened, to the peer with incarnation wanted_inc. */
    bool wanted[MAX_NODES], dials[MAX_NODES], lost_data[MAX_NODES];
    uint8_t wanted_inc[MAX_NODES][16];
    int64_t data_received_ns[MAX_NODES], polling_since_ns;
    unsigned refusals;
    /* By step parity and index. early: of the promised id, before its Begin. */
    struct part part[2][MAX_NODES], early[2][MAX_NODES];
    struct part contribution; /* without the member's coverage word */
    struct part previous;     /* sent for the step before */
};
struct world {
    uint64_t seed, random;
    bool elastic; /* a job runs with any number of workers; else with all */
    bool trace;   /* print events */
    bool data_blocked[MAX_NODES][MAX_NODES]; /* from, to */
    unsigned n, mutations;                   /* mutations: enum planted */
    unsigned servers;                        /* nodes below it are parameter servers */
    enum plant plant;
    int plants_left;
    uint64_t steps; /* of the job */
    struct qr_sim_net *net;
    struct node node[MAX_NODES];
    char address[MAX_NODES][32], name[MAX_NODES][32], ip[MAX_NODES][32];
    /* The DNS server: how long it caches an answer, and its answer by index. */
    int64_t dns_cache_ns, dns_expires_ns[MAX_NODES];
    bool dns_found[MAX_NODES];
    const char *peers[MAX_NODES];
    uint64_t ref[MAX_STEPS + 1]; /* values of the undisturbed run */
    uint64_t latest;             /* the step in the store */
    bool done, latest_done;      /* a process has closed the run; the store has that */
    unsigned n_gens, refused, n_violations;
    struct {
        struct qr_gen_id id;
        uint64_t digest;
        bool begun;
    } gen[MAX_GENS];
    const char *rule;
    char detail[300];
    struct qr_buf out;    /* for world.c: the message being sent */
    struct qr_message in; /* for world.c: the message being received */
};

/* Args:     w        overwritten; world_fini frees what it owns
 *           elastic  whether the job continues without lost members
 *           n        processes, 0: random
 *           steps    of the job, before its closing reduction
 */
void world_init(struct world *w, uint64_t seed, bool elastic, unsigned n, uint64_t steps);
void world_fini(struct world *w);
/* Advances to the next event, at most to limit_ns, and serves every process. */
void world_turn(struct world *w, int64_t limit_ns);
/* Ends a process: in order if its machine has ended, else killed. */
void world_end_process(struct node *x);
/* The undisturbed run's value at a step. */
uint64_t world_value(const struct world *w, uint64_t step);
void world_violated(struct world *w, const char *rule, const struct node *x);

static inline uint64_t dice(struct world *w, uint64_t n) {
    return (w->random = mix(w->random)) % n;
}
static inline int64_t now_of(const struct world *w) { return qr_sim_net_now_ns(w->net); }

/* For functions with variables w and x. */
#define handle(w, m, ...) qr_member_handle(m, now_of(w), &(struct qr_member_event){__VA_ARGS__})
#define RULE(cond, text)                                                                           \
    do {                                                                                           \
        if (!(cond)) world_violated(w, text, x);                                                   \
    } while (0)
#define TRACE(...)                                                                                 \
    do {                                                                                           \
        if (w->trace) {                                                                            \
            printf("%9.4f worker %u ", (double)now_of(w) / 1e9, x->index);                         \
            printf(__VA_ARGS__);                                                                   \
            putchar('\n');                                                                         \
        }                                                                                          \
    } while (0)

#endif
