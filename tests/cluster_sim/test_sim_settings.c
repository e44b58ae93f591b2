/* Whole workers on virtual time of which each that is started again has other settings: epochs,
 * all-reduce, the fewest workers. As long as one of the ring is there, who comes takes what the
 * ring has, whoever leads: every step, state, checkpoint and the end are the undisturbed run's, and
 * nobody ends with a permanent code.
 *
 * SEEDS=n: so many seeds. SEED=n replays one; MUTATION=name adds a planted bug to it. */
#include "membership/member.h"
#include "tests/cluster_sim/whole_faults.h"

static const struct {
    unsigned bit;
    const char *name;
} mutations[] = {
    {PLANTED_LEADER_DECIDES, "who proposes takes its own settings"},
    {PLANTED_OWN_SCHEDULE, "sums by its own all-reduce"},
};
enum { MAX_KILLS = 25 };
static struct whole world;

/* Newcomers that heard only each other for a while are a ring of their own, which is not it. */
static bool formed(const struct node *x) {
    return x->live && !x->killed && x->joins > 0 && x->ring_epochs == truth.epochs;
}
static unsigned n_formed(const struct whole *w) {
    unsigned n = 0;
    for (unsigned i = 0; i < w->n; i++) n += formed(&w->node[i]);
    return n;
}
/* Somebody of the ring is left, and all that are started are in it or on their way. */
static void kill_one(struct whole *w) {
    struct node *x = &w->node[dice(w, w->n)];
    if (w->n_kills < MAX_KILLS && x->live && !x->killed && n_formed(w) > formed(x)) kill_node(x);
}
/* The ring has ended: who was not in it begins another run with what it was given, and that is
 * another test. */
static void stop_the_late(struct whole *w) {
    for (unsigned i = 0; i < w->n; i++)
        if (w->node[i].live && !w->node[i].killed && w->node[i].joins == 0 &&
            w->node[i].epochs != truth.epochs)
            kill_node(&w->node[i]);
}

static bool one(struct whole *w, uint64_t seed, unsigned planted) {
    int64_t next_ns = 0;
    whole_init(w, seed, 5);
    w->mutations = planted;
    w->others = true;
    w->store = (struct store){.on = seed % 3 > 0, .cloud = seed % 3 > 1};
    w->every_steps = 1;
    /* the first generation is of these */
    for (unsigned i = 0; i < w->n; i++) w->node[i].start_ns = 1 + dice_ns(w, MS(100));
    while (goes_on(w) && now_of(w) < 600 * QR_SECOND) {
        if (now_of(w) >= next_ns && !w->done) {
            if (now_of(w) > QR_SECOND) kill_one(w);
            next_ns = now_of(w) + MS(300) + dice_ns(w, 900) * MS(1);
        }
        if (w->done) stop_the_late(w);
        turn(w, now_of(w) < next_ns ? next_ns : now_of(w) + MS(100));
    }
    check_end(w);
    return w->broken_rules == 0;
}

int main(void) {
    const char *text = getenv("SEED"), *many = getenv("SEEDS"), *mutation = getenv("MUTATION");
    uint64_t n = many ? strtoull(many, NULL, 10) : 50, kills = 0, joins = 0;
    unsigned planted = 0;
    find_truth(8);
    for (size_t k = 0; text && mutation && k < COUNT(mutations); k++)
        if (strcmp(mutation, mutations[k].name) == 0) planted = mutations[k].bit;
    hearing = loud = text != NULL;
    for (uint64_t seed = text ? strtoull(text, NULL, 10) : 1, last = text ? seed : n; seed <= last;
         seed++) {
        bool good = one(&world, seed, planted);
        CHECK(good, "SEED=%llu: %s (%s)", (unsigned long long)seed, world.rule, world.detail);
        kills += world.n_kills;
        joins += world.n_joins;
        whole_fini(&world);
    }
    for (size_t k = 0; k < COUNT(mutations) && !text; k++) {
        uint64_t seed = 1;
        bool seen = false;
        for (; seed <= 200 && !seen; seed++) {
            seen = !one(&world, seed, mutations[k].bit);
            if (seen)
                printf("mutation \"%s\": seen at seed %llu (%s)\n", mutations[k].name,
                       (unsigned long long)seed, world.rule);
            whole_fini(&world);
        }
        CHECK(seen, "mutation \"%s\" was not seen", mutations[k].name);
    }
    printf("%llu kills, %llu generations joined by workers with other settings\n",
           (unsigned long long)kills, (unsigned long long)joins);
    free_truth();
    return t_end();
}
