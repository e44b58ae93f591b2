/* Whole workers in virtual time: kills, restarts, stops, frozen threads, links blocked in one or
 * both directions, partitions that train apart, resets, packet loss, links that carry control but
 * no data, slow lines, streams that release bodies late, wrong names, SIGTERM, slow workers, store
 * faults, power cuts. Every committed step, state and digest, what LATEST names and the log are
 * those of one undisturbed worker.
 *
 * SEEDS=n sets the number of seeds [250], JOBS=n that of processes [processors]. SEED=n replays one
 * seed, twice: it prints the events, and both runs must be the same. MUTATION=name adds a planted
 * bug. */
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/cluster_sim/cluster.h"
#include "tests/support/planted.h"
#include "tests/t.h"

/* first: the first seed that detects it, where a short run begins. */
static const struct mutation {
    unsigned bit;
    uint64_t first;
    const char *name;
} mutations[] = {
    {PLANTED_KEEP_OVERLAP, 4247, "keep overlapping micro-batches"},
    {PLANTED_NO_SUSPEND, 376, "no suspension after a promise"},
    {PLANTED_APPLY_ANYWAY, 100, "applies a state after its generation"},
    {PLANTED_KEEP_ANYWAY, 1977, "keeps micro-batches that a Begin drops"},
    {PLANTED_TAKE_SUSPENDED, 69, "takes micro-batches while suspended"},
    {PLANT_UNCOMMITTED, 1, "publishes an uncommitted state"},
    {PLANT_PLAIN_WRITE, 5498, "LATEST moved by a plain write"},
    {PLANT_UNVERIFIED, 6, "a checkpoint loaded without verifying"},
    {PLANTED_CONTROL_IS_ENOUGH, 12, "peers without a data stream count as reachable"},
};
/* Seeds that have failed, or would have, and why. They are always run. */
static const struct {
    uint64_t seed;
    const char *why;
} regressions[] = {
    {2205, "a stream that broke while it was paused delivered a second mark"},
    {720, "an abandoned reduction dropped greetings of the next generation"},
};

static struct reference *ref;
static struct cluster cluster;
static bool trace, print; /* of a replay */

/* ---- faults ---- */

struct plan {
    bool calm; /* only faults of the store, and power cuts */
    bool power, partition;
    bool no_data;    /* at the end workers 0 and 1 exchange messages, but no data */
    unsigned set;    /* of the partition */
    unsigned n_cuts; /* power cuts left; the next one waits for after_saves checkpoints */
    uint64_t after_saves;
    int64_t until_ns, every_ms; /* every_ms: the longest time between two faults */
};
/* Draws a plan, and settings of the store, the publisher and the network. */
static void make_plan(struct cluster *c, struct plan *p) {
    struct store *s = &c->store;
    s->on = dice(c, 6) > 0;
    s->bucket = s->on && dice(c, 5) < 2;
    s->faults = dice(c, 3) ? (unsigned)dice(c, 120) : 0;
    c->every_ns = dice(c, 2) ? 0 : dice_ns(c, 500) * MS(1);
    c->every_steps = 1 + dice(c, 3);
    c->clock_offsets = dice(c, 2);
    bool no_data = dice(c, 6) == 0;
    /* Only with a store: without LATEST a server that is left alone waits for workers forever. */
    if (c->seed % 3 == 2 && s->on && c->n > 1) c->servers = 1 + (c->n > 3);
    *p = (struct plan){.no_data = no_data,
                       .calm = dice(c, 8) == 0,
                       .power = s->on && dice(c, 3) == 0,
                       .partition = c->n > 1 && dice(c, 8) == 0,
                       .n_cuts = 1 + (unsigned)dice(c, 3),
                       .after_saves = dice(c, 6),
                       .set = 1 + (unsigned)dice(c, (1u << c->n) - 1),
                       .until_ns = MS(200) + dice_ns(c, 4000) * MS(1),
                       .every_ms = 1 + dice_ns(c, 400)};
    if (p->calm) return;
    if (dice(c, 6) == 0)
        for (unsigned i = 0; i < c->n; i++)
            for (int k = 0; k < 2; k++)
                qr_sim_net_lossy(c->net, cluster_site(&c->node[i], k), 1 + (unsigned)dice(c, 60));
    if (dice(c, 8) == 0)
        qr_sim_net_rate(c->net, cluster_site(&c->node[dice(c, c->n)], CONTROL_LINK),
                        50000 + dice_ns(c, 400000));
}
static void kill_all(struct cluster *c) {
    for (unsigned i = 0; i < c->n; i++)
        if (c->node[i].live && !c->node[i].killed) cluster_kill(&c->node[i]);
}
/* A bucket keeps its power. */
static void cut_power(struct cluster *c, struct plan *p) {
    if (!p->power || !p->n_cuts || c->done || c->store.n_saves < p->after_saves || dice(c, 60))
        return;
    kill_all(c);
    if (!c->store.bucket) {
        cluster_trace(&c->node[0], "(power) all machines are off");
        cluster_cut_power(c);
    }
    p->after_saves = c->store.n_saves + dice(c, 6);
    p->n_cuts--;
}
static bool acts(const struct node *x) { return x->live && !x->killed && !x->paused; }
static void inject_link_fault(struct cluster *c, struct node *x, struct node *o) {
    switch (dice(c, 9)) {
    case 7:
    case 8:
        cluster_trace(x, "passes no data to worker %u", o->index);
        cluster_block(x, o, DATA_LINK, true);
        if (dice(c, 2)) cluster_block(o, x, DATA_LINK, true);
        break;
    case 0:
        cluster_trace(x, "cannot reach worker %u", o->index);
        for (int k = 0, twice = (int)dice(c, 2); k <= twice; k++) {
            cluster_block(k ? o : x, k ? x : o, CONTROL_LINK, true);
            if (dice(c, 2)) cluster_block(k ? o : x, k ? x : o, DATA_LINK, true);
        }
        break;
    case 1:
        cluster_trace(x, "reaches worker %u again", o->index);
        cluster_cut(x, o, false);
        break;
    case 2:
        if (!x->live || !o->live) break;
        cluster_trace(x, "loses a connection to worker %u", o->index);
        int link = (int)dice(c, 2);
        qr_sim_net_break(c->net, x->port[link].inner, o->port[link].inner);
        break;
    case 3:
    case 6:
        cluster_trace(x, "has data streams that release bodies late");
        x->port[DATA_LINK].slow_until_ns = now_of(c) + dice_ns(c, 4000) * MS(1);
        break;
    case 4: {
        char host[16], other[16];
        snprintf(host, sizeof host, "host%u", x->index);
        snprintf(other, sizeof other, "host%u", o->index);
        bool lie = dice(c, 2), another = lie && dice(c, 2);
        cluster_trace(x, "has a name that resolves to %s",
                      another ? "another host"
                      : lie   ? "no host"
                              : "its host");
        qr_sim_net_lie(c->net, lie ? host : NULL, another ? other : NULL);
        break;
    }
    default:
        qr_sim_net_rate(c->net, cluster_site(x, CONTROL_LINK),
                        dice(c, 2) ? 0 : 20000 + dice_ns(c, 200000));
    }
}
static void inject_fault(struct cluster *c) {
    struct node *x = &c->node[dice(c, c->n)], *o = &c->node[dice(c, c->n)];
    switch (dice(c, 10)) {
    case 0:
    case 1:
        if (x->live && !x->killed) cluster_kill(x);
        break;
    case 2:
        if (!acts(x)) break;
        cluster_trace(x, "is stopped");
        x->paused = true;
        x->resume_ns = now_of(c) + MS(20) + dice_ns(c, 3000) * MS(1);
        break;
    case 3:
        if (!acts(x)) break;
        int k = dice(c, 2) ? TRAINING : PUBLISHING;
        cluster_trace(x, "has a frozen %s thread", k == TRAINING ? "training" : "publishing");
        x->actor[k].frozen_until_ns =
            now_of(c) + (dice(c, 10) ? MS(20) + dice_ns(c, 2000) * MS(1) : 15 * QR_SECOND);
        break;
    case 4:
        if (acts(x) && !x->leaving && dice(c, 2)) cluster_terminate(x);
        break;
    case 5:
        if (dice(c, 12) == 0) kill_all(c);
        break;
    default:
        if (x != o) inject_link_fault(c, x, o);
    }
}
static void end_faults(struct cluster *c, const struct plan *p) {
    for (unsigned i = 0; i < c->n; i++) {
        struct node *x = &c->node[i];
        if (x->paused) x->resume_ns = now_of(c);
        x->actor[TRAINING].frozen_until_ns = x->actor[PUBLISHING].frozen_until_ns = 0;
        for (int k = 0; k < 2; k++) {
            qr_sim_net_lossy(c->net, cluster_site(x, k), 0);
            x->port[k].slow_until_ns = 0;
        }
        qr_sim_net_rate(c->net, cluster_site(x, CONTROL_LINK), 0);
        for (unsigned o = 0; o < c->n; o++) cluster_cut(x, &c->node[o], false);
    }
    if (p->no_data && c->n > 1) {
        cluster_trace(&c->node[0], "passes no data to worker 1 from now on");
        cluster_block(&c->node[0], &c->node[1], DATA_LINK, true);
        if (dice(c, 2)) cluster_block(&c->node[1], &c->node[0], DATA_LINK, true);
    }
    qr_sim_net_lie(c->net, NULL, NULL);
    c->store.faults = 0;
}

/* ---- one seed ---- */

static bool run_seed(struct cluster *c, uint64_t seed, unsigned planted) {
    struct plan p;
    bool apart = false;
    int64_t next_ns = 0;
    cluster_init(c, ref, seed, seed % 8 ? 5 : 8, 8);
    c->mutations = planted;
    c->trace = trace;
    c->print = print;
    make_plan(c, &p);
    while (now_of(c) < p.until_ns && cluster_runs(c)) {
        if (!p.calm && now_of(c) >= next_ns) {
            inject_fault(c);
            if (p.partition && now_of(c) > MS(500) && !apart)
                cluster_partition(c, p.set, apart = true);
            next_ns = now_of(c) + dice_ns(c, p.every_ms) * MS(1);
        }
        cut_power(c, &p);
        cluster_turn(c, next_ns < p.until_ns && next_ns > now_of(c) ? next_ns : p.until_ns);
    }
    if (cluster_runs(c)) cluster_trace(&c->node[0], "(no more faults)");
    end_faults(c, &p);
    /* For bans of 30 s, a group that waits for an absent worker, and slow training. */
    int64_t until_ns = now_of(c) + 240 * QR_SECOND;
    while (now_of(c) < until_ns && cluster_runs(c)) {
        cut_power(c, &p);
        cluster_turn(c, until_ns);
    }
    cluster_check_end(c);
    return c->n_violations == 0;
}

/* ---- many ---- */

enum { MAX_JOBS = 64 };
struct tally {
    uint64_t current[MAX_JOBS], done_seeds, failed[16], n_failed, kills, joins, ended, saves, cuts,
        earlier, gaps, gap_seed, first_seen[COUNT(mutations)];
    char why[16][360];
};
static struct tally *tally; /* shared by all processes */

static void count(const struct cluster *c, bool good) {
    __atomic_add_fetch(&tally->done_seeds, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->kills, c->n_kills, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->joins, c->n_joins, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->ended, c->done, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->saves, c->store.n_saves, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->cuts, c->store.n_power_cuts, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->earlier, c->store.n_earlier_loads, __ATOMIC_RELAXED);
    if (c->store.log_gap) {
        __atomic_add_fetch(&tally->gaps, 1, __ATOMIC_RELAXED);
        tally->gap_seed = c->seed;
    }
    if (good) return;
    uint64_t at = __atomic_fetch_add(&tally->n_failed, 1, __ATOMIC_RELAXED);
    if (at >= COUNT(tally->failed)) return;
    tally->failed[at] = c->seed;
    snprintf(tally->why[at], sizeof tally->why[at], "%s (%s)", c->rule, c->detail);
}
/* Runs f(job, jobs) in a process for each job. */
static void in_parallel(unsigned jobs, void (*f)(unsigned job, unsigned jobs)) {
    pid_t child[MAX_JOBS];
    fflush(stdout);
    for (unsigned job = 0; job < jobs; job++) {
        child[job] = fork();
        CHECK(child[job] >= 0);
        if (child[job] != 0) continue;
        f(job, jobs);
        _exit(t_failed > 0);
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
        bool good = run_seed(&cluster, seed, 0);
        count(&cluster, good);
        cluster_fini(&cluster);
    }
}
/* Each planted bug must be detected. */
static void some_mutations(unsigned job, unsigned jobs) {
    for (size_t k = job; k < COUNT(mutations); k += jobs)
        for (uint64_t i = 0; i < 10000 && !tally->first_seen[k]; i++) {
            uint64_t seed = n_seeds >= 10000 ? 1 + i : mutations[k].first + i;
            tally->current[job] = seed;
            bool seen = !run_seed(&cluster, seed, mutations[k].bit);
            snprintf(tally->why[k], sizeof tally->why[k], "%s", seen ? cluster.rule : "");
            cluster_fini(&cluster);
            if (!seen) continue;
            /* Without the bug the seed must pass. */
            if (run_seed(&cluster, seed, 0)) tally->first_seen[k] = seed;
            cluster_fini(&cluster);
        }
}

/* ---- replay ---- */

static void replay(uint64_t seed, const char *mutation) {
    uint64_t hash[2], schedule[2];
    unsigned planted = 0;
    trace = true;
    for (size_t k = 0; k < COUNT(mutations); k++)
        if (mutation && strcmp(mutations[k].name, mutation) == 0) planted = mutations[k].bit;
    for (int k = 0; k < 2; k++) {
        print = k == 0;
        bool good = run_seed(&cluster, seed, planted);
        if (k == 0)
            CHECK(good, "SEED=%llu: %s (%s)", (unsigned long long)seed, cluster.rule,
                  cluster.detail);
        hash[k] = cluster.trace_hash;
        schedule[k] = cluster.schedule;
        cluster_fini(&cluster);
    }
    CHECK(hash[0] == hash[1] && schedule[0] == schedule[1],
          "SEED=%llu: two runs of one seed differ", (unsigned long long)seed);
    printf("trace %016llx, the same in both runs\n", (unsigned long long)hash[0]);
}

int main(void) {
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned jobs = (unsigned)number_from_env("JOBS", cpus > 1 ? (uint64_t)cpus : 1);
    if (jobs > MAX_JOBS) jobs = MAX_JOBS;
    ref = reference_new(0);
    if (getenv("SEED")) {
        replay(number_from_env("SEED", 0), getenv("MUTATION"));
        reference_free(ref);
        return t_end();
    }
    n_seeds = number_from_env("SEEDS", 250);
    tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (size_t k = 0; k < COUNT(regressions); k++) {
        bool good = run_seed(&cluster, regressions[k].seed, 0);
        CHECK(good, "SEED=%llu (%s): %s (%s)", (unsigned long long)regressions[k].seed,
              regressions[k].why, cluster.rule, cluster.detail);
        cluster_fini(&cluster);
    }
    in_parallel(jobs, some_mutations);
    for (size_t k = 0; k < COUNT(mutations); k++) {
        CHECK(tally->first_seen[k], "mutation \"%s\" was not detected", mutations[k].name);
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
    if (tally->gaps) /* see check_log in cluster.c */
        printf("%llu runs whose log lacks a line, since the leader was killed before writing it "
               "(SEED=%llu is one)\n",
               (unsigned long long)tally->gaps, (unsigned long long)tally->gap_seed);
    munmap(tally, sizeof *tally);
    reference_free(ref);
    return t_end();
}
