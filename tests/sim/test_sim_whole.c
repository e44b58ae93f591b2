/* Whole workers on virtual time: kills, restarts, stops, frozen threads, cuts both ways and one way, halves that train apart, resets, lost packets,
 * thin lines, streams that are slow to give back what they were lent, wrong names, leaving, slow ones, store faults, power cuts. Every stable step,
 * state and digest, what LATEST names and the log are those of one worker that nobody disturbed.
 *
 * SEEDS=n: so many seeds, by JOBS processes (default: the processors). SEED=n replays one, twice: it prints what happened, and both runs must be
 * the same. MUTATION=name adds a planted bug to it. */
#include "tests/sim/whole_world.h"
#include "group/member.h"

static const struct mutation { unsigned bit; uint64_t hint; const char *name; } mutations[] = {
    {QR_MUTATE_KEEP_OVERLAP, 180, "keep overlapping blocks"},
    {QR_MUTATE_NO_SUSPEND, 31, "works on after a promise"},
    {QR_MUTATE_COMMIT_ANYWAY, 121, "commits after its generation"},
    {QR_MUTATE_KEEP_ANYWAY, 187, "keeps what a Begin drops"},
    {QR_MUTATE_TAKE_SUSPENDED, 98, "takes blocks while suspended"},
    {PLANT_UNSTABLE, 1, "publishes an unstable state"},
    {PLANT_PLAIN_WRITE, 143, "LATEST moved by a plain write"},
    {PLANT_UNVERIFIED, 1, "a checkpoint loaded without verifying"},
    {PLANT_DEAF, 8, "who gives up a reduction is deaf to greetings"},
};
/* Seeds that have failed once, and what they were. */
static const struct { uint64_t seed; const char *was; } regressions[] = {
    {1, "the first"},
};

/* ---- faults ---- */

struct plan { bool calm, power, halves; unsigned set; int64_t quiet_ns, every_ms; };

static void flavour(struct whole *w, struct plan *p) {
    struct store *s = &w->store;
    s->on = dice(w, 6) > 0;
    s->cloud = s->on && dice(w, 5) < 2;
    s->fault = dice(w, 3) ? (unsigned)dice(w, 120) : 0;
    w->every_ns = dice(w, 2) ? 0 : dice_ns(w, 500) * MS(1);
    w->every_steps = 1 + dice(w, 3);
    w->offsets = dice(w, 2);
    *p = (struct plan){.calm = dice(w, 8) == 0, .power = s->on && dice(w, 3) == 0, .halves = w->n > 1 && dice(w, 8) == 0,
                       .set = 1 + (unsigned)dice(w, (1u << w->n) - 1), .quiet_ns = MS(200) + dice_ns(w, 4000) * MS(1), .every_ms = 1 + dice_ns(w, 400)};
    if (p->calm) return;
    if (dice(w, 6) == 0)
        for (unsigned i = 0; i < w->n; i++)
            for (int k = 0; k < 2; k++) qr_sim_net_lossy(w->net, site_of(&w->node[i], k), 1 + (unsigned)dice(w, 60));
    if (dice(w, 8) == 0) qr_sim_net_rate(w->net, site_of(&w->node[dice(w, w->n)], 0), 50000 + dice_ns(w, 400000));
}
static bool acts(const struct node *x) { return x->live && !x->killed && !x->paused; }
static void trouble_links(struct whole *w, struct node *x, struct node *o) {
    switch (dice(w, 6)) {
    case 0:
        say(x, "cannot reach worker %u", o->index);
        for (int k = 0, twice = (int)dice(w, 2); k <= twice; k++) {
            block(k ? o : x, k ? x : o, 0, true);
            if (dice(w, 2)) block(k ? o : x, k ? x : o, 1, true);
        }
        break;
    case 1:
        say(x, "reaches worker %u again", o->index);
        cut(x, o, false);
        break;
    case 2:
        if (!x->live || !o->live) break;
        say(x, "loses a connection to worker %u", o->index);
        int kind = (int)dice(w, 2);
        qr_sim_net_break(w->net, x->port[kind].inner, o->port[kind].inner);
        break;
    case 3:
        say(x, "has streams that are slow to give back");
        x->port[1].slow_ns = now_of(w) + dice_ns(w, 2000) * MS(1);
        break;
    case 4: {
        char host[16], other[16];
        snprintf(host, sizeof host, "host%u", x->index);
        snprintf(other, sizeof other, "host%u", o->index);
        bool lie = dice(w, 2);
        say(x, "its name leads %s", !lie ? "where it should" : dice(w, 2) ? "to another" : "to nobody");
        qr_sim_net_lie(w->net, lie ? host : NULL, w->random & 1 ? other : NULL);
        break;
    }
    default: qr_sim_net_rate(w->net, site_of(x, 0), dice(w, 2) ? 0 : 20000 + dice_ns(w, 200000));
    }
}
static void trouble(struct whole *w, const struct plan *p) {
    struct node *x = &w->node[dice(w, w->n)], *o = &w->node[dice(w, w->n)];
    switch (dice(w, 10)) {
    case 0:
    case 1:
        if (x->live && !x->killed) kill_node(x);
        break;
    case 2:
        if (!acts(x)) break;
        say(x, "is stopped");
        x->paused = true;
        x->resume_ns = now_of(w) + MS(20) + dice_ns(w, 3000) * MS(1);
        break;
    case 3:
        if (!acts(x)) break;
        int k = dice(w, 2) ? TRAINING : PUBLISHING;
        say(x, "its %s thread is frozen", k == TRAINING ? "training" : "publishing");
        x->actor[k].frozen_ns = now_of(w) + (dice(w, 10) ? MS(20) + dice_ns(w, 2000) * MS(1) : 15 * QR_SECOND);
        break;
    case 4:
        if (acts(x) && !x->leaving && dice(w, 2)) ask_to_leave(x);
        break;
    case 5:
        if (p->power && dice(w, 3) == 0) kill_all(w, !w->store.cloud);
        break;
    default:
        if (x != o) trouble_links(w, x, o);
    }
}

/* ---- one seed ---- */

static bool one(struct whole *w, uint64_t seed, unsigned planted) {
    struct plan p;
    bool apart = false;
    int64_t next_ns = 0;
    whole_init(w, seed, seed % 8 ? 5 : MAX_NODES);
    w->mutations = planted;
    flavour(w, &p);
    while (now_of(w) < p.quiet_ns && goes_on(w)) {
        if (!p.calm && now_of(w) >= next_ns) {
            trouble(w, &p);
            if (p.halves && now_of(w) > MS(500) && !apart) halve(w, p.set, apart = true);
            next_ns = now_of(w) + dice_ns(w, p.every_ms) * MS(1);
        }
        turn(w, next_ns < p.quiet_ns && next_ns > now_of(w) ? next_ns : p.quiet_ns);
    }
    if (goes_on(w)) say(&w->node[0], "(all is quiet from here on)");
    heal(w);
    run_until(w, now_of(w) + 240 * QR_SECOND); /* bans of 30 s, a group that waits for one that does not come, and the run itself, slow */
    check_end(w);
    return w->broken_rules == 0;
}

/* ---- many ---- */

struct tally {
    uint64_t done_seeds, failed[16], n_failed, kills, joins, ended, saves, cuts, earlier, first_seen[COUNT(mutations)];
    char why[16][360];
};
static struct tally *tally;
static struct whole world;

static void add(const struct whole *w, bool good) {
    __atomic_add_fetch(&tally->done_seeds, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->kills, w->n_kills, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->joins, w->n_joins, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->ended, w->done, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->saves, w->store.n_saves, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->cuts, w->store.n_cuts, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->earlier, w->store.n_earlier, __ATOMIC_RELAXED);
    if (good) return;
    uint64_t at = __atomic_fetch_add(&tally->n_failed, 1, __ATOMIC_RELAXED);
    if (at >= COUNT(tally->failed)) return;
    tally->failed[at] = w->seed;
    snprintf(tally->why[at], sizeof tally->why[at], "%s (%s)", w->rule, w->detail);
}
/* Runs f(job) in so many processes; false: one of them has died. */
static bool in_parallel(unsigned jobs, void (*f)(unsigned job, unsigned jobs)) {
    bool good = true;
    fflush(stdout);
    for (unsigned job = 1; job < jobs; job++)
        if (fork() == 0) {
            f(job, jobs);
            _exit(0);
        }
    f(0, jobs);
    int status;
    while (wait(&status) > 0) good = good && status == 0;
    return good;
}
static uint64_t n_seeds;
static void some_seeds(unsigned job, unsigned jobs) {
    for (uint64_t seed = 1 + job; seed <= n_seeds && tally->n_failed < 8; seed += jobs) {
        bool good = one(&world, seed, 0);
        add(&world, good);
        whole_fini(&world);
    }
}
/* A check that cannot fail proves nothing: each planted bug is seen. */
static void some_mutations(unsigned job, unsigned jobs) {
    for (size_t k = job; k < COUNT(mutations); k += jobs)
        for (uint64_t i = 0; i < 10000 && !tally->first_seen[k]; i++) {
            uint64_t seed = n_seeds >= 10000 ? 1 + i : mutations[k].hint + i;
            bool seen = !one(&world, seed, mutations[k].bit);
            snprintf(tally->why[k], sizeof tally->why[k], "%s", seen ? world.rule : "");
            whole_fini(&world);
            if (!seen) continue;
            if (one(&world, seed, 0)) tally->first_seen[k] = seed; /* else it is not the plant that is seen */
            whole_fini(&world);
        }
}

/* ---- one seed, for a person ---- */

static void replay(uint64_t seed, const char *mutation) {
    uint64_t said[2], print[2];
    unsigned planted = 0;
    hearing = true;
    for (size_t k = 0; k < COUNT(mutations); k++)
        if (mutation && strcmp(mutations[k].name, mutation) == 0) planted = mutations[k].bit;
    for (int k = 0; k < 2; k++) {
        loud = k == 0;
        bool good = one(&world, seed, planted);
        if (k == 0) CHECK(good, "SEED=%llu: %s (%s)", (unsigned long long)seed, world.rule, world.detail);
        said[k] = world.said_hash;
        print[k] = world.print;
        whole_fini(&world);
    }
    CHECK(said[0] == said[1] && print[0] == print[1], "SEED=%llu: two runs of one seed differ", (unsigned long long)seed);
    printf("trace %016llx, the same in both runs\n", (unsigned long long)said[0]);
}

int main(void) {
    const char *seed = getenv("SEED"), *seeds = getenv("SEEDS"), *jobs_text = getenv("JOBS");
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned jobs = jobs_text ? (unsigned)strtoul(jobs_text, NULL, 10) : cpus > 1 ? (unsigned)cpus : 1;
    find_truth(0);
    if (seed) {
        replay(strtoull(seed, NULL, 10), getenv("MUTATION"));
        free_truth();
        return t_end();
    }
    n_seeds = seeds ? strtoull(seeds, NULL, 10) : 250;
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t k = 0; k < COUNT(regressions); k++) {
        bool good = one(&world, regressions[k].seed, 0);
        CHECK(good, "SEED=%llu (%s): %s (%s)", (unsigned long long)regressions[k].seed, regressions[k].was, world.rule, world.detail);
        whole_fini(&world);
    }
    CHECK(in_parallel(jobs, some_mutations));
    for (size_t k = 0; k < COUNT(mutations); k++) {
        CHECK(tally->first_seen[k], "mutation \"%s\" was not seen", mutations[k].name);
        printf("mutation \"%s\": seen at seed %llu (%s)\n", mutations[k].name, (unsigned long long)tally->first_seen[k], tally->why[k]);
    }
    memset(tally, 0, sizeof *tally);
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    CHECK(in_parallel(jobs, some_seeds));
    clock_gettime(CLOCK_MONOTONIC, &ended);
    for (uint64_t i = 0; i < n_seeds && i < tally->done_seeds; i++) t_passed++;
    t_passed -= (long)tally->n_failed;
    for (uint64_t i = 0; i < tally->n_failed && i < COUNT(tally->failed); i++)
        CHECK(false, "SEED=%llu: %s. Replay: SEED=%llu %s", (unsigned long long)tally->failed[i], tally->why[i], (unsigned long long)tally->failed[i],
              "build/release/tests/sim/test_sim_whole");
    printf("%llu seeds in %.1f s by %u processes: %llu kills, %llu generations joined, %llu runs ended with the digest, LATEST moved %llu times, "
           "%llu power cuts, %llu starts from an earlier checkpoint\n", (unsigned long long)tally->done_seeds,
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9, jobs, (unsigned long long)tally->kills,
           (unsigned long long)tally->joins, (unsigned long long)tally->ended, (unsigned long long)tally->saves, (unsigned long long)tally->cuts,
           (unsigned long long)tally->earlier);
    munmap(tally, sizeof *tally);
    free_truth();
    return t_end();
}
