/* Membership machines on a computed network whose DNS server remembers for 30 s what it said:
 * that there is no such name, or where it was: what the machines do by themselves, in virtual time,
 * with its bounds (row 15 of the fault table). */
#include "tests/cluster_sim/world_process.h"

enum { NAMES_LATE_MS = 700 };
static uint64_t last; /* seed */

/* n workers, of which `live` start now; the others when they are told to. Names exist NAMES_LATE_MS
 * after their process. */
static void set_up(struct world *w, uint64_t seed, unsigned n, uint64_t live) {
    world_init(w, seed, true, n, UINT64_MAX);
    w->loud = getenv("SEED") != NULL;
    w->remembers_ns = 30 * QR_SECOND;
    w->servers = 0;
    for (unsigned i = 0; i < n; i++) w->node[i].start_ns = live >> i & 1 ? 1 : 0;
}
static void named(struct world *w, uint64_t set, int64_t late_ns) {
    for (unsigned i = 0; i < w->n; i++)
        if (set >> i & 1) w->node[i].named_ns = now_of(w) + late_ns;
}
static void pass(struct world *w, int64_t ns) {
    int64_t until = now_of(w) + ns;
    while (now_of(w) < until) turn(w, until);
}
static bool all_in(const struct world *w, uint64_t set) {
    for (unsigned i = 0; i < w->n; i++)
        if (set >> i & 1 && (!w->node[i].active ||
                             w->node[i].gen.begin.n_members != (unsigned)__builtin_popcountll(set)))
            return false;
    return true;
}
/* How long until all of the set are in one generation. */
static int64_t together_ns(struct world *w, uint64_t set, int64_t at_most_ns) {
    int64_t began = now_of(w);
    while (!all_in(w, set) && now_of(w) - began < at_most_ns) turn(w, began + at_most_ns);
    return now_of(w) - began;
}
static void start_now(struct world *w, uint64_t set) {
    for (unsigned i = 0; i < w->n; i++)
        if (set >> i & 1) w->node[i].start_ns = now_of(w) + 1;
    pass(w, MS(1));
    named(w, set, MS(NAMES_LATE_MS));
}
static void bound(const char *what, uint64_t seed, int64_t took_ns, int64_t bound_ns) {
    static const char *told[8];
    static int64_t worst[8];
    int k = 0;
    while (told[k] && strcmp(told[k], what) != 0) k++;
    told[k] = what;
    if (took_ns > worst[k]) worst[k] = took_ns;
    CHECK(took_ns <= bound_ns, "%s: %.2f s, SEED=%llu", what, (double)took_ns / 1e9,
          (unsigned long long)seed);
    if (seed == last)
        printf("ROW 15: DNS that remembers for 30 s, on virtual time: %s: %.2f s at most (bound "
               "%.1f s)\n",
               what, (double)worst[k] / 1e9, (double)bound_ns / 1e9);
}

/* The higher index was there first, and has asked for a name that did not exist. */
static void late_lower(uint64_t seed) {
    static struct world w;
    set_up(&w, seed, 2, 2);
    pass(&w, QR_SECOND + (int64_t)(seed % 7) * QR_SECOND);
    start_now(&w, 1);
    bound("the lowest comes last, its name was asked for", seed, together_ns(&w, 3, 20 * QR_SECOND),
          2 * QR_SECOND);
    world_fini(&w);
}

/* Two of four are there; two more start at once, and ask for each other too early. */
static void grows(uint64_t seed) {
    static struct world w;
    set_up(&w, seed, 4, 3);
    w.node[0].form_ns = w.node[1].form_ns = MS(10);
    pass(&w, 3 * QR_SECOND);
    if (!all_in(&w, 3)) pass(&w, 30 * QR_SECOND);
    CHECK(all_in(&w, 3), "two begin: SEED=%llu", (unsigned long long)seed);
    start_now(&w, 12);
    bound("2 to 4, the new ones ask for each other too early", seed,
          together_ns(&w, 15, 20 * QR_SECOND), 2 * QR_SECOND);
    world_fini(&w);
}

/* Only the one that all can find is found: the others are told of each other. */
static void hub(uint64_t seed) {
    static struct world w;
    set_up(&w, seed, 8, 0xff);
    unsigned hub = (unsigned)(seed % 8);
    pass(&w, MS(1));
    named(&w, 0xff, 100 * QR_SECOND);
    for (unsigned i = 0; i < 8; i++) { /* what the server says until then */
        w.said_until_ns[i] = i == hub ? 0 : 100 * QR_SECOND;
        w.said_live[i] = false;
    }
    named(&w, UINT64_C(1) << hub, 0);
    bound("of eight only one is found", seed, together_ns(&w, 0xff, 20 * QR_SECOND),
          5 * QR_SECOND / 2);
    world_fini(&w);
}

/* Both of each pair dial at the same moment: one connection of each stays, and nobody is lost. What
 * each says of a pair that is meeting may be old: no more generations than there are pairs. */
static void crossing(uint64_t seed) {
    static struct world w;
    set_up(&w, seed, 3, 7);
    w.remembers_ns = 0;
    pass(&w, MS(1));
    named(&w, 7, 0);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            if (k != i) { /* as who was told an address */
                struct qr_message told = {.kind = QR_MESSAGE_ADDRESSES};
                told.addresses.n = 1;
                told.addresses.name[0].index = k;
                snprintf(told.addresses.at[0], sizeof told.addresses.at[0], "%s", w.address[k]);
                member_on_addresses(w.node[i].m, &told.addresses);
            }
    pass(&w, 8 * QR_SECOND);
    CHECK(all_in(&w, 7) && w.n_gens <= 3, "crossing: SEED=%llu: %u proposals",
          (unsigned long long)seed, w.n_gens);
    for (unsigned i = 0; i < 3; i++) {
        unsigned conns = 0;
        for (int c = 0; c < MAX_CONNS; c++) conns += w.node[i].m->conns[c].state != CONN_FREE;
        CHECK(conns == 2 && !w.node[i].has_lost, "crossing: SEED=%llu: worker %u has %u: %s",
              (unsigned long long)seed, i, conns, w.node[i].text);
    }
    world_fini(&w);
}

/* A generation of 1, 2 and 3 breaks for a moment. Worker 0 has come, and no data passes between it
 * and 2: it is 0 that waits. Whether 2 stayed in. */
static bool prefers_members(uint64_t seed, unsigned planted) {
    static struct world w;
    set_up(&w, seed, 4, 14);
    w.mutations = planted;
    w.remembers_ns = 0;
    for (unsigned i = 0; i < 4; i++) w.node[i].form_ns = MS(10);
    pass(&w, 3 * QR_SECOND);
    CHECK(all_in(&w, 14), "three begin: SEED=%llu", (unsigned long long)seed);
    w.deaf[0][2] = w.deaf[2][0] = true;
    start_now(&w, 1);
    pass(&w, 2 * QR_SECOND + (int64_t)(seed % 9) * MS(100));
    bool stays = all_in(&w, 14);
    uint64_t pair[3][2] = {{1, 2}, {1, 3}, {2, 3}};
    for (int k = 0; k < 5 && stays; k++) {
        const uint64_t *p = pair[(seed + (unsigned)k) % 3];
        w.node[p[0]].lost_data[p[1]] = w.node[p[1]].lost_data[p[0]] = true;
        int64_t until = now_of(&w) + 1500 * MS(1);
        while (now_of(&w) < until && stays) {
            turn(&w, until);
            if (w.node[0].active && w.node[0].gen.begin.n_members > 1) stays = false;
        }
    }
    stays = stays && all_in(&w, 14);
    world_fini(&w);
    return stays;
}

int main(void) {
    const char *seed = getenv("SEED"), *n = getenv("SEEDS");
    uint64_t first = seed ? strtoull(seed, NULL, 10) : 1;
    last = seed ? first : n ? strtoull(n, NULL, 10) : 300;
    unsigned seen = 0;
    for (uint64_t s = first; s <= last; s++) {
        late_lower(s);
        grows(s);
        hub(s);
        crossing(s);
        CHECK(prefers_members(s, 0), "a newcomer takes a member's place: SEED=%llu",
              (unsigned long long)s);
        seen += s <= 30 && !prefers_members(s, PLANTED_NEWCOMERS_FIRST);
    }
    CHECK(seen || seed, "a newcomer that takes a member's place is not seen");
    printf("mutation \"newcomers first\": seen in %u of 30 seeds\n", seen);
    return t_end();
}
