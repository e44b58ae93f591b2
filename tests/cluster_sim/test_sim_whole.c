/* Whole workers on virtual time: kills, restarts, stops, frozen threads, cuts both ways and one
 * way, halves that train apart, resets, lost packets, links that carry control but no data, thin
 * lines, streams that are slow to give back what they were lent, wrong names, leaving, slow ones,
 * store faults, power cuts. Every committed step, state and digest, what LATEST names and the log
 * are those of one worker that nobody disturbed.
 *
 * SEEDS=n: so many seeds, by JOBS processes (default: the processors). SEED=n replays one,
 * twice: it prints what happened, and both runs must be the same. MUTATION=name adds a planted
 * bug to it. */
#include "membership/member.h"
#include "tests/cluster_sim/whole_faults.h"

/* first: where it is seen for the first time; a short run begins there. */
static const struct mutation {
    unsigned bit;
    uint64_t first;
    const char *name;
} mutations[] = {
    {PLANTED_KEEP_OVERLAP, 4247, "keep overlapping micro-batches"},
    {PLANTED_NO_SUSPEND, 376, "works on after a promise"},
    {PLANTED_APPLY_ANYWAY, 100, "applies after its generation"},
    {PLANTED_KEEP_ANYWAY, 1977, "keeps what a Begin drops"},
    {PLANTED_TAKE_SUSPENDED, 69, "takes micro-batches while suspended"},
    {PLANT_UNCOMMITTED, 1, "publishes an uncommitted state"},
    {PLANT_PLAIN_WRITE, 5498, "LATEST moved by a plain write"},
    {PLANT_UNVERIFIED, 6, "a checkpoint loaded without verifying"},
    {PLANTED_CONTROL_IS_ENOUGH, 12, "hears who passes no data"},
};
/* Seeds that have failed once (or would have, had they been there), and why. They are
 * run always. */
static const struct {
    uint64_t seed;
    const char *was;
} regressions[] = {
    {2205, "a stream that broke while it was paused brought a second mark"},
    {720, "who gave up a reduction threw away greetings for the next generation"},
};

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
            trouble(w);
            if (p.halves && now_of(w) > MS(500) && !apart) halve(w, p.set, apart = true);
            next_ns = now_of(w) + dice_ns(w, p.every_ms) * MS(1);
        }
        power_cut(w, &p);
        turn(w, next_ns < p.quiet_ns && next_ns > now_of(w) ? next_ns : p.quiet_ns);
    }
    if (goes_on(w)) say(&w->node[0], "(all is quiet from here on)");
    heal(w);
    /* bans of 30 s, a group that waits for one that does not come, and the run itself, slow */
    int64_t until_ns = now_of(w) + 240 * QR_SECOND;
    while (now_of(w) < until_ns && goes_on(w)) {
        power_cut(w, &p);
        turn(w, until_ns);
    }
    check_end(w);
    return w->broken_rules == 0;
}

/* ---- many ---- */

enum { MAX_JOBS = 64 };
struct tally {
    uint64_t current[MAX_JOBS], done_seeds, failed[16], n_failed, kills, joins, ended, saves, cuts,
        earlier, gaps, first_gap, first_seen[COUNT(mutations)];
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
    if (w->store.gap) {
        __atomic_add_fetch(&tally->gaps, 1, __ATOMIC_RELAXED);
        tally->first_gap = w->seed;
    }
    if (good) return;
    uint64_t at = __atomic_fetch_add(&tally->n_failed, 1, __ATOMIC_RELAXED);
    if (at >= COUNT(tally->failed)) return;
    tally->failed[at] = w->seed;
    snprintf(tally->why[at], sizeof tally->why[at], "%s (%s)", w->rule, w->detail);
}
/* Runs f(job) in so many processes. */
static void in_parallel(unsigned jobs, void (*f)(unsigned job, unsigned jobs)) {
    pid_t child[MAX_JOBS];
    fflush(stdout);
    for (unsigned job = 0; job < jobs; job++) {
        child[job] = fork();
        CHECK(child[job] >= 0);
        if (child[job] != 0) continue;
        f(job, jobs);
        _exit(0);
    }
    for (unsigned job = 0; job < jobs; job++) {
        int status = 0;
        waitpid(child[job], &status, 0);
        CHECK(status == 0, "SEED=%llu ends the process (status %d)",
              (unsigned long long)tally->current[job], status);
    }
}
static uint64_t n_seeds;
static void some_seeds(unsigned job, unsigned jobs) {
    for (uint64_t seed = 1 + job; seed <= n_seeds && tally->n_failed < 8; seed += jobs) {
        tally->current[job] = seed;
        bool good = one(&world, seed, 0);
        add(&world, good);
        whole_fini(&world);
    }
}
/* A check that cannot fail proves nothing: each planted bug is seen. */
static void some_mutations(unsigned job, unsigned jobs) {
    for (size_t k = job; k < COUNT(mutations); k += jobs)
        for (uint64_t i = 0; i < 10000 && !tally->first_seen[k]; i++) {
            uint64_t seed = n_seeds >= 10000 ? 1 + i : mutations[k].first + i;
            tally->current[job] = seed;
            bool seen = !one(&world, seed, mutations[k].bit);
            snprintf(tally->why[k], sizeof tally->why[k], "%s", seen ? world.rule : "");
            whole_fini(&world);
            if (!seen) continue;
            /* else it is not the plant that is seen */
            if (one(&world, seed, 0)) tally->first_seen[k] = seed;
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
        if (k == 0)
            CHECK(good, "SEED=%llu: %s (%s)", (unsigned long long)seed, world.rule, world.detail);
        said[k] = world.said_hash;
        print[k] = world.print;
        whole_fini(&world);
    }
    CHECK(said[0] == said[1] && print[0] == print[1], "SEED=%llu: two runs of one seed differ",
          (unsigned long long)seed);
    printf("trace %016llx, the same in both runs\n", (unsigned long long)said[0]);
}

int main(void) {
    const char *seed = getenv("SEED"), *seeds = getenv("SEEDS"), *jobs_text = getenv("JOBS");
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned jobs = jobs_text  ? (unsigned)strtoul(jobs_text, NULL, 10)
                    : cpus > 1 ? (unsigned)cpus
                               : 1;
    if (jobs > MAX_JOBS) jobs = MAX_JOBS;
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
        CHECK(good, "SEED=%llu (%s): %s (%s)", (unsigned long long)regressions[k].seed,
              regressions[k].was, world.rule, world.detail);
        whole_fini(&world);
    }
    in_parallel(jobs, some_mutations);
    for (size_t k = 0; k < COUNT(mutations); k++) {
        CHECK(tally->first_seen[k], "mutation \"%s\" was not seen", mutations[k].name);
        printf("mutation \"%s\": seen at seed %llu (%s)\n", mutations[k].name,
               (unsigned long long)tally->first_seen[k], tally->why[k]);
    }
    memset(tally, 0, sizeof *tally);
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    in_parallel(jobs, some_seeds);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    for (uint64_t i = 0; i < n_seeds && i < tally->done_seeds; i++) t_passed++;
    t_passed -= (long)tally->n_failed;
    for (uint64_t i = 0; i < tally->n_failed && i < COUNT(tally->failed); i++)
        CHECK(false, "SEED=%llu: %s. Replay: SEED=%llu %s", (unsigned long long)tally->failed[i],
              tally->why[i], (unsigned long long)tally->failed[i],
              "build/release/tests/cluster_sim/test_sim_whole");
    printf("%llu seeds in %.1f s by %u processes: %llu kills, %llu generations joined, %llu runs "
           "ended with the digest, LATEST moved %llu times, "
           "%llu power cuts, %llu starts from an earlier checkpoint\n",
           (unsigned long long)tally->done_seeds,
           (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) / 1e9,
           jobs, (unsigned long long)tally->kills, (unsigned long long)tally->joins,
           (unsigned long long)tally->ended, (unsigned long long)tally->saves,
           (unsigned long long)tally->cuts, (unsigned long long)tally->earlier);
    if (tally->gaps) /* see check_log */
        printf("%llu runs whose log lacks a line that its leader died before writing (SEED=%llu is "
               "one)\n",
               (unsigned long long)tally->gaps, (unsigned long long)tally->first_gap);
    munmap(tally, sizeof *tally);
    free_truth();
    return t_end();
}
