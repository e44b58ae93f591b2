/* tests/cluster_sim/world.h — N processes on one computed network, each a membership machine with
 * a toy trainer; rules are checked at each action. world_trainer.h has the trainer,
 * world_process.h the life of a process and the order of events in time. Included once. */
#ifndef TESTS_CLUSTER_SIM_WORLD_H
#define TESTS_CLUSTER_SIM_WORLD_H

#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "exact/coverage.h"
#include "membership/member_impl.h"
#include "tests/support/link_simulated.h"
#include "tests/support/planted.h"
#include "tests/t.h"

enum { MAX_NODES = 8, MICRO_BATCHES = 11, MAX_STEPS = 12, MAX_GENS = 4096 };
enum plant { PLANT_NONE, PLANT_TWICE, PLANT_MISSED, PLANT_OTHER_STATE };

struct part {
    bool here;
    uint64_t step, sum;
    struct qr_coverage word;
};
struct node {
    bool live, paused, finished, active, ended, stopped, has_lost;
    uint32_t index, lost, inc_count;
    uint8_t inc[16];
    struct qr_link *link;
    struct qr_member *m;
    int64_t form_ns;  /* its time to form; 0: as the world has it */
    int64_t named_ns; /* its name exists from then on */
    int64_t start_ns, resume_ns, lost_ns, micro_batch_ns, again_ns;
    enum qr_code code;
    char text[512];
    uint32_t conn[MAX_NODES]; /* the one that its machine uses */
    struct qr_gen_id promised;
    /* once received, to come again: a Begin, and a Propose, Promise or Busy */
    struct qr_message stale[2];
    uint32_t stale_from[2];
    struct qr_generation gen;
    uint64_t pending_hash; /* of the promised id: its data waits */
    /* trainer */
    uint64_t step, value, committed, mine, held, aside;
    bool sent, closed_over;
    /* data streams, by index */
    bool wanted[MAX_NODES], lost_data[MAX_NODES];
    uint8_t wanted_inc[MAX_NODES][16];
    int64_t heard_ns[MAX_NODES], polls_ns;
    unsigned refusals;
    /* by step parity and index; early: of the promised id */
    struct part part[2][MAX_NODES], early[2][MAX_NODES];
    /* the contribution without its member's word; the one sent for the step before */
    struct part own, last;
};
struct world {
    uint64_t seed, random;
    bool elastic, loud, faulty, cut, cut_data;
    /* nothing that the first sends on data streams comes to the second */
    bool deaf[MAX_NODES][MAX_NODES];
    unsigned n, mutations;
    unsigned servers; /* the first so many compute nothing */
    enum plant plant;
    int planted;    /* how often still */
    uint64_t steps; /* of the job */
    struct qr_sim_net *net;
    struct node node[MAX_NODES];
    char address[MAX_NODES][32], name[MAX_NODES][32], ip[MAX_NODES][32];
    int64_t remembers_ns, said_until_ns[MAX_NODES]; /* the DNS server */
    bool said_live[MAX_NODES];
    const char *peers[MAX_NODES];
    uint64_t ref[MAX_STEPS + 1];
    uint64_t latest;
    bool done, latest_done; /* the store */
    unsigned n_gens, refused, broken_rules;
    struct {
        struct qr_gen_id id;
        uint64_t digest;
        bool begun;
    } gen[MAX_GENS];
    const char *rule;
    char detail[300];
    int64_t quiet_ns;
};

static uint64_t mix(uint64_t z) {
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}
static uint64_t dice(struct world *w, uint64_t n) { return (w->random = mix(w->random)) % n; }
static int64_t now_of(const struct world *w) { return qr_sim_net_now_ns(w->net); }
#define handle(w, m, ...) qr_member_handle(m, now_of(w), &(struct qr_member_event){__VA_ARGS__})

static void broken(struct world *w, const char *rule, const struct node *x) {
    if (w->broken_rules++ == 0) {
        w->rule = rule;
        snprintf(w->detail, sizeof w->detail, "worker %u at %.3f s, step %llu", x->index,
                 (double)now_of(w) / 1e9, (unsigned long long)x->step);
    }
}
#define RULE(cond, text)                                                                           \
    do {                                                                                           \
        if (!(cond)) broken(w, text, x);                                                           \
    } while (0)
#define SAY(...)                                                                                   \
    do {                                                                                           \
        if (w->loud) {                                                                             \
            printf("%9.4f worker %u ", (double)now_of(w) / 1e9, x->index);                         \
            printf(__VA_ARGS__);                                                                   \
            putchar('\n');                                                                         \
        }                                                                                          \
    } while (0)

#endif
