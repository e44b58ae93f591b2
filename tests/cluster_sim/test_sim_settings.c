/* Whole workers in virtual time, restarted with other settings: epochs, all-reduce, minimum number
 * of workers. As long as one member of the ring remains, a new worker uses the ring's values,
 * whichever worker leads: every step, state, checkpoint and the end are the undisturbed run's, and
 * no worker ends with a permanent code.
 *
 * SEEDS=n sets the number of seeds [50]. SEED=n replays one; MUTATION=name adds a planted bug. */
#include "tests/cluster_sim/cluster.h"
#include "tests/support/planted.h"
#include "tests/t.h"

static const struct {
    unsigned bit;
    const char *name;
} mutations[] = {
    {PLANTED_LEADER_DECIDES, "the leader proposes its own settings"},
    {PLANTED_OWN_SCHEDULE, "a worker sums by its own all-reduce setting"},
};
enum { MAX_KILLS = 25 };
static struct cluster cluster;

/* New workers that reach only each other for a while form another ring, with other epochs. */
static bool in_ring(const struct node *x) {
    return x->live && !x->killed && x->joins > 0 && x->ring_epochs == x->c->ref->epochs;
}
static unsigned count_in_ring(const struct cluster *c) {
    unsigned n = 0;
    for (unsigned i = 0; i < c->n; i++) n += in_ring(&c->node[i]);
    return n;
}
/* Kills a random worker, unless no member of the ring would remain. */
static void kill_one(struct cluster *c) {
    struct node *x = &c->node[dice(c, c->n)];
    if (c->n_kills < MAX_KILLS && x->live && !x->killed && count_in_ring(c) > in_ring(x))
        cluster_kill(x);
}
/* After the end of the ring, a worker that was not in it would start another run with its own
 * settings. */
static void kill_late(struct cluster *c) {
    for (unsigned i = 0; i < c->n; i++)
        if (c->node[i].live && !c->node[i].killed && c->node[i].joins == 0 &&
            c->node[i].epochs != c->ref->epochs)
            cluster_kill(&c->node[i]);
}

static bool run_seed(struct cluster *c, const struct reference *ref, uint64_t seed,
                     unsigned planted, bool trace) {
    int64_t next_ns = 0;
    cluster_init(c, ref, seed, 5, 8);
    c->trace = c->print = trace;
    c->mutations = planted;
    c->other_settings = true;
    c->store = (struct store){.on = seed % 3 > 0, .bucket = seed % 3 > 1};
    c->every_steps = 1;
    /* All start at once, so that the ring forms with the job's settings. */
    for (unsigned i = 0; i < c->n; i++) c->node[i].start_ns = 1 + dice_ns(c, MS(100));
    while (cluster_runs(c) && now_of(c) < 600 * QR_SECOND) {
        if (now_of(c) >= next_ns && !c->done) {
            if (now_of(c) > QR_SECOND) kill_one(c);
            next_ns = now_of(c) + MS(300) + dice_ns(c, 900) * MS(1);
        }
        if (c->done) kill_late(c);
        cluster_turn(c, now_of(c) < next_ns ? next_ns : now_of(c) + MS(100));
    }
    cluster_check_end(c);
    return c->n_violations == 0;
}

int main(void) {
    const char *mutation = getenv("MUTATION");
    bool replay = getenv("SEED") != NULL;
    uint64_t first = number_from_env("SEED", 1), kills = 0, joins = 0,
             last = replay ? first : number_from_env("SEEDS", 50);
    unsigned planted = 0;
    struct reference *ref = reference_new(8);
    for (size_t k = 0; replay && mutation && k < COUNT(mutations); k++)
        if (strcmp(mutation, mutations[k].name) == 0) planted = mutations[k].bit;
    for (uint64_t seed = first; seed <= last; seed++) {
        bool good = run_seed(&cluster, ref, seed, planted, replay);
        CHECK(good, "SEED=%llu: %s (%s)", (unsigned long long)seed, cluster.rule, cluster.detail);
        kills += cluster.n_kills;
        joins += cluster.n_joins;
        cluster_fini(&cluster);
    }
    for (size_t k = 0; k < COUNT(mutations) && !replay; k++) {
        uint64_t seed = 1;
        bool seen = false;
        for (; seed <= 200 && !seen; seed++) {
            seen = !run_seed(&cluster, ref, seed, mutations[k].bit, false);
            if (seen)
                printf("mutation \"%s\": seen at seed %llu (%s)\n", mutations[k].name,
                       (unsigned long long)seed, cluster.rule);
            cluster_fini(&cluster);
        }
        CHECK(seen, "mutation \"%s\" was not detected", mutations[k].name);
    }
    printf("%llu kills, %llu generations joined by workers with other settings\n",
           (unsigned long long)kills, (unsigned long long)joins);
    reference_free(ref);
    return t_end();
}
