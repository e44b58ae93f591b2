/* Time bounds of the fault table in virtual time, with whole workers: when a loss is named, how
 * long training pauses, what a bad network costs. Every committed step is compared with the
 * undisturbed run's, as in test_sim_whole. WORLDS=n sets the number of runs for each row [10]. */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "collective/allreduce_schedule.h"
#include "tests/cluster_sim/cluster.h"
#include "tests/t.h"

enum { SMALL = 8 }; /* workers; in a ring of at most this many, each names a loss itself */
static struct reference *ref;
static struct cluster cluster;
static unsigned n_runs;
static long clock_reads[2]; /* by workers, of the wall clock and the monotonic clock */
static int64_t wall_jump_s;

/* Replaces the C library's function: counts the workers' reads, and makes the wall clock jump. */
int clock_gettime(clockid_t id, struct timespec *ret) {
    long rc = syscall(SYS_clock_gettime, id, ret);
    if (cluster.running) clock_reads[id == CLOCK_REALTIME ? 0 : 1]++;
    if (id == CLOCK_REALTIME) ret->tv_sec += wall_jump_s;
    return (int)rc;
}

static void run_until(struct cluster *c, int64_t until_ns) {
    while (now_of(c) < until_ns && cluster_runs(c)) cluster_turn(c, until_ns);
}
static void replace_net(struct cluster *c, uint64_t seed, int64_t min_ns, int64_t max_ns) {
    struct qr_sim_net_options opt = {
        .seed = mix(seed), .min_delay_ns = min_ns, .max_delay_ns = max_ns};
    qr_sim_net_free(c->net);
    c->net = qr_sim_net_new(&opt);
}
/* n workers that start within 50 ms, on a network with delays up to 1 ms. */
static struct cluster *start_ring(uint64_t seed, unsigned n) {
    struct cluster *c = &cluster;
    cluster_init(c, ref, seed, 1, MAX_NODES);
    replace_net(c, seed + 7, 50000, MS(1));
    c->n = c->n_starts = n;
    c->clock_offsets = true;
    for (unsigned i = 0; i < n; i++) {
        c->node[i].start_ns = 1 + dice_ns(c, 50) * MS(1);
        c->node[i].micro_batch_ns = MS(4);
    }
    return c;
}
static bool is_ring(const struct cluster *c, unsigned n) {
    unsigned in = 0;
    for (unsigned i = 0; i < c->n; i++)
        in += c->node[i].live && !c->node[i].killed && c->node[i].group && c->node[i].joins &&
              c->node[i].n_members == n;
    return in == n;
}
static void await_ring(struct cluster *c, unsigned n, int64_t within_ns) {
    int64_t until_ns = now_of(c) + within_ns;
    while (!is_ring(c, n) && now_of(c) < until_ns && cluster_runs(c)) cluster_turn(c, until_ns);
    if (!is_ring(c, n))
        cluster_violated(&c->node[0], "these workers form one generation", "they do not");
}
static void finish(struct cluster *c) {
    struct qr_buf text = {0};
    struct qr_err err;
    CHECK(c->n_violations == 0, "seed %llu: %s (%s)", (unsigned long long)c->seed, c->rule,
          c->detail);
    if (qr_file_read(c->log_path, 1 << 24, &text, &err) == QR_OK)
        CHECK(text.n <= ref->log.n && memcmp(text.p, ref->log.p, text.n) == 0,
              "the log differs from the undisturbed run's");
    qr_buf_free(&text);
    cluster_fini(c);
}
static void raise_to(int64_t *at, int64_t ns) {
    if (ns > *at) *at = ns;
}
static void lower_to(int64_t *at, int64_t ns) {
    if (ns < *at) *at = ns;
}
static double seconds(int64_t ns) { return (double)ns / 1e9; }
static void row(const char *what, int64_t worst_ns, double bound_s) {
    printf("ROW %s %.2f s (bound %.1f s)\n", what, seconds(worst_ns), bound_s);
    CHECK(seconds(worst_ns) <= bound_s, "%s", what);
}

/* ---- losses ---- */

enum how { KILLED, STOPPED, CUT_OFF, NO_DATA };
struct loss {
    int64_t named_ns, step_ns; /* the latest, after the loss */
};
static void block_data(struct node *a, struct node *b) {
    cluster_block(a, b, 1, true);
    cluster_block(b, a, 1, true);
}
static void lose(struct cluster *c, unsigned set, enum how how) {
    c->victims = set;
    for (unsigned i = 0; i < c->n; i++) c->node[i].named_ns = c->node[i].reported_ns = 0;
    for (unsigned i = 0; i < c->n; i++) {
        struct node *x = &c->node[i];
        if (!(set >> i & 1)) continue;
        x->away = how == KILLED;
        if (how == KILLED) cluster_kill(x);
        x->paused = how == STOPPED;
        x->resume_ns = INT64_MAX;
        for (unsigned k = 0; k < c->n && how == CUT_OFF; k++) cluster_cut(x, &c->node[k], true);
        for (unsigned k = i + 1; k < c->n && how == NO_DATA; k++)
            if (set >> k & 1) block_data(x, &c->node[k]);
    }
}
/* When this survivor named a loss; 0: not yet. In a large ring the leader names it for all. */
static int64_t named_ns(const struct cluster *c, const struct node *x) {
    int64_t first_ns = INT64_MAX;
    if (c->n <= SMALL) return x->named_ns;
    for (unsigned i = 0; i < c->n; i++)
        if (c->node[i].named_ns) lower_to(&first_ns, c->node[i].named_ns);
    return first_ns == INT64_MAX ? 0 : first_ns;
}
/* Times the survivors' first step reports after they named the loss; a reduction in progress may
 * complete before. */
static void time_loss(struct cluster *c, struct loss *ret) {
    int64_t at_ns = now_of(c), first_ns[MAX_NODES] = {0}, until_ns = at_ns + 4 * QR_SECOND;
    bool all = false;
    while (!all && now_of(c) < until_ns && cluster_runs(c)) {
        cluster_turn(c, until_ns);
        all = true;
        for (unsigned i = 0; i < c->n; i++) {
            const struct node *x = &c->node[i];
            if (named_ns(c, x) && x->reported_ns > named_ns(c, x) && !first_ns[i])
                first_ns[i] = x->reported_ns;
            all = all && ((c->victims >> i & 1) || first_ns[i]);
        }
    }
    for (unsigned i = 0; i < c->n; i++) {
        const struct node *x = &c->node[i];
        if (c->victims >> i & 1) continue;
        if (!named_ns(c, x) || !first_ns[i])
            cluster_violated(x, "a loss is named, and training continues",
                             named_ns(c, x) ? "it does not" : "it is not");
        raise_to(&ret->named_ns, named_ns(c, x) - at_ns);
        raise_to(&ret->step_ns, first_ns[i] - at_ns);
    }
}
static struct loss losses(enum how how, bool many) {
    struct loss l = {0};
    for (uint64_t seed = 1; seed <= n_runs; seed++) {
        struct cluster *c = start_ring(seed, 2 + (unsigned)(seed % 7));
        await_ring(c, c->n, 10 * QR_SECOND);
        run_until(c, now_of(c) + dice_ns(c, 100) * MS(1));
        unsigned all = (1u << c->n) - 1,
                 set = many ? all & ~(1u << dice(c, c->n)) : 1u << dice(c, c->n);
        lose(c, set, how);
        time_loss(c, &l);
        finish(c);
    }
    return l;
}
static void test_losses(void) {
    struct loss killed = losses(KILLED, false), many = losses(KILLED, true),
                stopped = losses(STOPPED, false), off = losses(CUT_OFF, false);
    row("1: SIGKILL of one of 2 to 8: next step after", killed.step_ns, 1.0);
    row("3: SIGKILL of all but one: next step after", many.step_ns, 1.0);
    row("5: SIGSTOP: named after", stopped.named_ns, 1.5);
    row("5: SIGSTOP: next step after", stopped.step_ns, 2.0);
    row("9: cut off both ways: named after", off.named_ns, 1.5);
    row("9: cut off both ways: next step after", off.step_ns, 2.0);
}
/* Most pairs exchange heartbeats less often than the leader sends them. */
static void test_large_ring(void) {
    static const struct {
        unsigned set;
        enum how how;
        const char *what;
        double bound_s;
        int64_t within_ns; /* after the ring formed */
    } rows[] = {
        {1u << 0, KILLED, "1: SIGKILL of the leader of 24 at the start: next step after", 1.0,
         100 * QR_MS},
        {1u << 13, KILLED, "1: SIGKILL of one of 24: next step after", 1.0, 3 * QR_SECOND},
        {1u << 13, STOPPED, "5: SIGSTOP of one of 24: next step after", 2.0, 3 * QR_SECOND},
        {1u << 0, STOPPED, "5: SIGSTOP of the leader of 24: next step after", 2.0, 3 * QR_SECOND},
        {1u << 0 | 1u << 13, STOPPED, "5: SIGSTOP of the leader and another: next step after", 2.0,
         3 * QR_SECOND},
        {1u << 13, CUT_OFF, "9: one of 24 cut off both ways: next step after", 2.0, 3 * QR_SECOND},
        {3u << 13, NO_DATA, "9: no data between two of 24: next step after", 2.0, 3 * QR_SECOND},
    };
    int64_t named_ns = 0;
    for (size_t k = 0; k < COUNT(rows); k++) {
        struct loss l = {0};
        for (uint64_t seed = 1; seed <= n_runs / 4 + 1; seed++) {
            struct cluster *c = start_ring(seed, MAX_NODES);
            await_ring(c, c->n, 10 * QR_SECOND);
            run_until(c, now_of(c) + dice_ns(c, rows[k].within_ns));
            lose(c, rows[k].set, rows[k].how);
            time_loss(c, &l);
            finish(c);
        }
        row(rows[k].what, l.step_ns, rows[k].bound_s);
        if (rows[k].how == NO_DATA)
            row("9: no data between two of 24: named after", l.named_ns, 2.0);
        else raise_to(&named_ns, l.named_ns);
    }
    row("another loss of 24 is named after", named_ns, 1.5);
}
/* Training needs no data between two members that are not neighbours: the generation stays. */
static void test_unused_streams(void) {
    unsigned changes = 0;
    for (uint64_t seed = 1; seed <= n_runs / 4 + 1; seed++) {
        struct cluster *c = start_ring(seed, MAX_NODES);
        await_ring(c, c->n, 10 * QR_SECOND);
        unsigned joins = c->n_joins;
        CHECK(!qr_schedule_pairs(c->n, 5, 14));
        block_data(&c->node[5], &c->node[14]);
        run_until(c, now_of(c) + 10 * QR_SECOND);
        changes += c->n_joins - joins;
        finish(c);
    }
    printf(
        "ROW 9: no data between two of 24 that are not neighbours, 10 s: generations changed: %u "
        "(bound 0)\n",
        changes);
    CHECK(changes == 0);
}
/* A worker stopped for 0.2 s remains a member; after a longer time it rejoins. */
static void test_stops(void) {
    static const int64_t stop_ns[] = {MS(200), 2 * QR_SECOND, 60 * QR_SECOND};
    for (size_t k = 0; k < COUNT(stop_ns); k++) {
        unsigned changes = 0;
        int64_t back_ns = 0;
        for (uint64_t seed = 1; seed <= n_runs; seed++) {
            struct cluster *c = start_ring(seed, 4);
            await_ring(c, c->n, 10 * QR_SECOND);
            run_until(c, now_of(c) + dice_ns(c, 100) * MS(1));
            unsigned joins = c->n_joins;
            struct node *x = &c->node[dice(c, c->n)];
            x->paused = true;
            x->resume_ns = now_of(c) + stop_ns[k];
            run_until(c, x->resume_ns);
            int64_t at_ns = now_of(c);
            if (k > 0) await_ring(c, c->n, 40 * QR_SECOND);
            raise_to(&back_ns, now_of(c) - at_ns);
            run_until(c, now_of(c) + 2 * QR_SECOND);
            changes += k == 0 ? c->n_joins - joins : 0;
            finish(c);
        }
        if (k == 0) {
            printf("ROW 5: SIGSTOP of 0.2 s: generations changed: %u (bound 0)\n", changes);
            CHECK(changes == 0);
        } else
            printf("ROW 5: SIGSTOP of %lld s: all together again at most %.2f s after SIGCONT\n",
                   (long long)(stop_ns[k] / QR_SECOND), seconds(back_ns));
    }
}
/* Every connection of a ring of four breaks within some milliseconds, three times within 10 s; two
 * workers can train. Halves that form after a break must not stop each other. */
static void test_resets(void) {
    int64_t step_ns = 0, whole_ns = 0;
    for (uint64_t seed = 1; seed <= 10 * n_runs; seed++) {
        struct cluster *c = start_ring(seed, 4);
        c->min_workers = 2;
        for (int times = 0; times < 3; times++) {
            await_ring(c, c->n, 40 * QR_SECOND);
            run_until(c, now_of(c) + (50 + dice_ns(c, 1000)) * MS(1));
            int64_t at_ns = now_of(c), next_ns = 0;
            for (unsigned i = 0; i < c->n; i++)
                for (unsigned k = i + 1; k < c->n; k++) {
                    for (int link = 0; link < 2; link++)
                        qr_sim_net_break(c->net, c->node[i].port[link].inner,
                                         c->node[k].port[link].inner);
                    run_until(c, now_of(c) + dice_ns(c, 5000) * 1000);
                }
            /* A step that was complete before may be reported after the break. */
            run_until(c, now_of(c) + MS(20));
            int64_t broken_ns = now_of(c);
            while (!next_ns && cluster_runs(c)) {
                cluster_turn(c, broken_ns + 40 * QR_SECOND);
                for (unsigned i = 0; i < c->n; i++)
                    if (c->node[i].reported_ns > broken_ns) next_ns = c->node[i].reported_ns;
            }
            raise_to(&step_ns, next_ns - at_ns);
            await_ring(c, c->n, 40 * QR_SECOND);
            raise_to(&whole_ns, now_of(c) - at_ns);
        }
        finish(c);
    }
    row("12: RST of every connection, three times: next step after", step_ns, 1.5);
    row("12: RST of every connection, three times: one ring of all after", whole_ns, 6);
}
/* Messages of a do not reach b: one of the two must be removed. */
static void test_one_way(void) {
    int64_t named_ns = 0, step_ns = 0;
    for (uint64_t seed = 1; seed <= n_runs; seed++) {
        struct cluster *c = start_ring(seed, 3 + (unsigned)(seed % 4));
        await_ring(c, c->n, 10 * QR_SECOND);
        struct node *a = &c->node[dice(c, c->n)],
                    *b = &c->node[(a->index + 1 + dice(c, c->n - 1)) % c->n];
        c->victims = 1u << a->index | 1u << b->index;
        int64_t at_ns = now_of(c), first_ns = INT64_MAX;
        for (int k = 0; k < 2; k++) cluster_block(a, b, k, true);
        await_ring(c, c->n - 1, 4 * QR_SECOND);
        for (unsigned i = 0; i < c->n; i++)
            if (c->node[i].named_ns) lower_to(&first_ns, c->node[i].named_ns);
        raise_to(&named_ns, first_ns - at_ns);
        uint64_t reported = c->n_reported + 1;
        while (c->n_reported < reported && now_of(c) < at_ns + 4 * QR_SECOND && cluster_runs(c))
            cluster_turn(c, at_ns + 4 * QR_SECOND);
        raise_to(&step_ns, now_of(c) - at_ns);
        finish(c);
    }
    row("9: one-way partition: named after", named_ns, 1.5);
    row("9: one-way partition: next step after", step_ns, 2.0);
}

/* ---- partitions ---- */

static void test_halves(void) {
    int64_t merged_ns = 0;
    unsigned both = 0;
    for (uint64_t seed = 1; seed <= n_runs; seed++) {
        struct cluster *c = start_ring(seed, 2 + 2 * (unsigned)(seed % 4));
        c->store = (struct store){.on = true, .bucket = seed % 2};
        c->every_steps = 1;
        await_ring(c, c->n, 10 * QR_SECOND);
        unsigned set = (1u << c->n / 2) - 1;
        cluster_partition(c, set, true);
        run_until(c, now_of(c) + 4 * QR_SECOND);
        uint64_t reporting[2] = {0};
        for (unsigned i = 0; i < c->n; i++)
            if (now_of(c) - c->node[i].reported_ns < QR_SECOND) reporting[set >> i & 1]++;
        both += reporting[0] && reporting[1];
        cluster_partition(c, set, false);
        int64_t at_ns = now_of(c);
        await_ring(c, c->n, 10 * QR_SECOND);
        raise_to(&merged_ns, now_of(c) - at_ns);
        run_until(c, now_of(c) + QR_SECOND);
        CHECK(c->store.n_saves > 0);
        finish(c);
    }
    CHECK(both == n_runs, "both halves trained in %u of %u runs", both, n_runs);
    row("8: half/half partition, both train, one store: LATEST never went back; merged after",
        merged_ns, 2.0);
}

/* ---- bad networks ---- */

static uint64_t flapping(uint64_t seed, bool flaps) {
    struct cluster *c = start_ring(seed, 4);
    for (unsigned i = 0; i < c->n; i++) c->node[i].micro_batch_ns = MS(40);
    await_ring(c, c->n, 10 * QR_SECOND);
    uint64_t reported = c->n_reported;
    for (int k = 0; k < 600 && cluster_runs(c); k++) {
        if (flaps) cluster_cut(&c->node[0], &c->node[1], k % 2); /* one is a star's hub */
        run_until(c, now_of(c) + MS(500));
    }
    reported = c->n_reported - reported;
    finish(c);
    return reported;
}
static void test_flapping(void) {
    uint64_t clean = flapping(1, false), with = flapping(1, true);
    printf("ROW 10: link 500 ms on, 500 ms off, 5 min: %llu of %llu steps, %.0f %% (bound 30 %%)\n",
           (unsigned long long)with, (unsigned long long)clean,
           100.0 * (double)with / (double)clean);
    CHECK(10 * with >= 3 * clean);
}
static void test_loss(void) {
    static const unsigned lose[] = {10, 50, 200}; /* of 1000 packets */
    for (size_t k = 0; k < COUNT(lose); k++) {
        unsigned changes = 0, minutes = 0;
        uint64_t reported = 0;
        for (uint64_t seed = 1; seed <= n_runs / 4 + 1; seed++) {
            struct cluster *c = start_ring(seed, 4);
            replace_net(c, seed + 9, MS(30), MS(70));
            await_ring(c, c->n, 10 * QR_SECOND);
            unsigned joins = c->n_joins;
            for (unsigned i = 0; i < c->n; i++) /* half at each end */
                for (int link = 0; link < 2; link++)
                    qr_sim_net_lossy(c->net, cluster_site(&c->node[i], link), lose[k] / 2);
            uint64_t before = c->n_reported;
            run_until(c, now_of(c) + 60 * QR_SECOND);
            changes += c->n_joins - joins;
            reported += c->n_reported - before;
            minutes++;
            finish(c);
        }
        printf("ROW 11: %.0f %% of packets lost, delay 50 +- 20 ms, %u min of 4 workers: %u times "
               "in another generation%s, %llu steps\n",
               lose[k] / 10.0, minutes, changes, lose[k] <= 50 ? " (bound 0)" : "",
               (unsigned long long)reported);
        CHECK(lose[k] > 50 || changes == 0);
    }
}
/* Counts generation changes and step reports in the time ns after all workers have formed one
 * generation; ends the run. */
static void count_changes(struct cluster *c, int64_t within_ns, int64_t ns, unsigned *changes,
                          uint64_t *reported) {
    await_ring(c, c->n, within_ns);
    unsigned joins = c->n_joins;
    uint64_t before = c->n_reported;
    run_until(c, now_of(c) + ns);
    *changes += c->n_joins - joins;
    *reported += c->n_reported - before;
    finish(c);
}
static void test_slow_line(void) {
    unsigned changes = 0;
    uint64_t reported = 0;
    for (uint64_t seed = 1; seed <= n_runs / 4 + 1; seed++) {
        struct cluster *c = start_ring(seed, 4);
        qr_sim_net_rate(c->net, cluster_site(&c->node[dice(c, c->n)], 0), 125000);
        count_changes(c, 10 * QR_SECOND, 60 * QR_SECOND, &changes, &reported);
    }
    printf("ROW 13: one worker with 1 Mbit/s, %u min: ejections and timeouts: %u (bound 0), %llu "
           "steps\n",
           n_runs / 4 + 1, changes, (unsigned long long)reported);
    CHECK(changes == 0 && reported > 0);
}

/* ---- new and leaving workers ---- */

static void test_late_starts(void) {
    int64_t ring_ns = 0;
    for (uint64_t seed = 1; seed <= n_runs; seed++) {
        struct cluster *c = start_ring(seed, 2 + (unsigned)(seed % 7));
        int64_t last_ns = 0;
        c->form_timeout_ns = 600 * QR_SECOND;
        for (unsigned i = 0; i < c->n; i++) {
            c->node[i].start_ns = 1 + dice_ns(c, 300 * QR_SECOND);
            raise_to(&last_ns, c->node[i].start_ns);
        }
        run_until(c, last_ns);
        await_ring(c, c->n, 10 * QR_SECOND);
        raise_to(&ring_ns, now_of(c) - last_ns);
        finish(c);
    }
    row("16: pods start up to 5 min apart: ring after the last arrival in", ring_ns, 1.0);
}
static void scale(struct cluster *c, unsigned from, unsigned to) {
    c->newest_ns = now_of(c);
    c->pause_ns = 0;
    for (unsigned i = from; i < to; i++) { /* new pods */
        c->node[i].away = c->node[i].finished = false;
        c->node[i].start_ns = now_of(c) + 1 + dice_ns(c, MS(300));
    }
    for (unsigned i = to; i < from; i++) { /* the highest indices leave, at once */
        c->node[i].away = true;
        cluster_terminate(&c->node[i]);
    }
    run_until(c, now_of(c) + QR_SECOND);
    await_ring(c, to, 40 * QR_SECOND);
    run_until(c, now_of(c) + QR_SECOND);
}
static void test_scaling(void) {
    static const unsigned sizes[] = {2, 8, 3, 1, 5};
    int64_t pause_ns[COUNT(sizes)] = {0};
    for (uint64_t seed = 1; seed <= n_runs; seed++) {
        struct cluster *c = start_ring(seed, SMALL);
        c->store = (struct store){.on = true, .bucket = seed % 2};
        c->every_steps = 10;
        c->form_timeout_ns = QR_SECOND;
        for (unsigned i = sizes[0]; i < c->n; i++) c->node[i].start_ns = 0;
        await_ring(c, sizes[0], 10 * QR_SECOND);
        run_until(c, now_of(c) + QR_SECOND);
        for (size_t k = 1; k < COUNT(sizes); k++) {
            scale(c, sizes[k - 1], sizes[k]);
            raise_to(&pause_ns[k], c->pause_ns);
        }
        finish(c);
    }
    for (size_t k = 1; k < COUNT(sizes); k++) {
        char what[80];
        snprintf(what, sizeof what, "17: %u to %u workers while training: longest pause",
                 sizes[k - 1], sizes[k]);
        row(what, pause_ns[k], 1.0);
    }
}

/* ---- clocks and processors ---- */

static void test_clock_jumps(void) {
    unsigned changes = 0;
    for (uint64_t seed = 1; seed <= n_runs / 2 + 1; seed++) {
        uint64_t schedule[2];
        for (int jumps = 0; jumps < 2; jumps++) {
            struct cluster *c = start_ring(seed, 4);
            c->store = (struct store){.on = true};
            c->every_steps = 1;
            await_ring(c, c->n, 10 * QR_SECOND);
            unsigned joins = c->n_joins;
            for (int k = 0; k < 10; k++) {
                wall_jump_s = jumps ? k % 2 ? 3600 : -3600 : 0;
                run_until(c, now_of(c) + MS(200));
            }
            wall_jump_s = 0;
            changes += c->n_joins - joins;
            schedule[jumps] = c->schedule;
            finish(c);
        }
        CHECK(schedule[0] == schedule[1], "seed %llu: the run depends on the wall clock",
              (unsigned long long)seed);
    }
    printf("ROW 20: wall clock jumps of +-1 h: ejections: %u (bound 0), every run the same as "
           "without jumps; workers read the wall clock %ld times (a metric), "
           "the system's monotonic clock %ld times (bound 0)\n",
           changes, clock_reads[0], clock_reads[1]);
    CHECK(changes == 0 && clock_reads[1] == 0);
}
static void test_busy_machine(void) {
    unsigned changes = 0;
    uint64_t reported = 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        struct cluster *c = start_ring(seed, 4);
        c->late_ns = MS(200);
        for (unsigned i = 0; i < c->n; i++) c->node[i].micro_batch_ns = MS(30);
        count_changes(c, 20 * QR_SECOND, 600 * QR_SECOND, &changes, &reported);
    }
    printf("ROW 38: every thread up to 200 ms late each time it may run, 20 min: ejections: %u "
           "(bound 0), %llu steps\n",
           changes, (unsigned long long)reported);
    CHECK(changes == 0 && reported > 0);
}
/* A machine that is too slow for the first 20 s: then all workers soon form one generation. */
static void test_starved_machine(unsigned n) {
    char what[80];
    int64_t worst_ns = 0;
    for (uint64_t seed = 1; seed <= n_runs; seed++) {
        struct cluster *c = start_ring(seed, n);
        c->late_ns = MS(1500);
        run_until(c, now_of(c) + 20 * QR_SECOND);
        c->late_ns = 0;
        int64_t at_ns = now_of(c);
        await_ring(c, c->n, 20 * QR_SECOND);
        raise_to(&worst_ns, now_of(c) - at_ns);
        finish(c);
    }
    snprintf(what, sizeof what,
             "38: every thread up to 1.5 s late for 20 s, ring of all %u workers after", n);
    row(what, worst_ns, 5);
}

int main(void) {
    n_runs = (unsigned)number_from_env("WORLDS", 10);
    ref = reference_new(1500);
    test_losses();
    test_large_ring();
    test_unused_streams();
    test_stops();
    test_resets();
    test_one_way();
    test_halves();
    test_flapping();
    test_loss();
    test_slow_line();
    test_late_starts();
    test_scaling();
    test_clock_jumps();
    test_busy_machine();
    test_starved_machine(SMALL);
    test_starved_machine(MAX_NODES);
    reference_free(ref);
    return t_end();
}
