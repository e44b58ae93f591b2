/* Membership machines with a DNS server that caches answers, also negative ones, for 30 s, in
 * virtual time: time bounds of row 15 of the fault table. SEED=n replays one seed, SEEDS=n sets the
 * number of seeds [300]. */
#include "tests/cluster_sim/world.h"
#include "tests/support/planted.h"
#include "tests/t.h"

enum { NAME_DELAY_MS = 700 }; /* from the start of a process to its DNS name */
static uint64_t last_seed;

/* Creates n workers. Those in the set `live` start now, others by start_now. */
static void set_up(struct world *w, uint64_t seed, unsigned n, uint64_t live) {
    world_init(w, seed, true, n, UINT64_MAX);
    w->trace = getenv("SEED") != NULL;
    w->dns_cache_ns = 30 * QR_SECOND;
    for (unsigned i = 0; i < n; i++) w->node[i].start_ns = live >> i & 1 ? 1 : 0;
}
static void set_names(struct world *w, uint64_t set, int64_t delay_ns) {
    for (unsigned i = 0; i < w->n; i++)
        if (set >> i & 1) w->node[i].dns_name_ns = now_of(w) + delay_ns;
}
static void advance(struct world *w, int64_t ns) {
    int64_t until = now_of(w) + ns;
    while (now_of(w) < until) world_turn(w, until);
}
static bool is_generation(const struct world *w, uint64_t set) {
    for (unsigned i = 0; i < w->n; i++)
        if (set >> i & 1 && (!w->node[i].active ||
                             w->node[i].gen.begin.n_members != (unsigned)__builtin_popcountll(set)))
            return false;
    return true;
}
/* Runs until the set is one generation; returns the time that this took. */
static int64_t form_ns(struct world *w, uint64_t set, int64_t at_most_ns) {
    int64_t began = now_of(w);
    while (!is_generation(w, set) && now_of(w) - began < at_most_ns)
        world_turn(w, began + at_most_ns);
    return now_of(w) - began;
}
static void start_now(struct world *w, uint64_t set) {
    for (unsigned i = 0; i < w->n; i++)
        if (set >> i & 1) w->node[i].start_ns = now_of(w) + 1;
    advance(w, MS(1));
    set_names(w, set, MS(NAME_DELAY_MS));
}
/* After the last seed, prints the longest time. */
static void check_bound(const char *what, uint64_t seed, int64_t took_ns, int64_t bound_ns,
                        int64_t *longest_ns) {
    if (took_ns > *longest_ns) *longest_ns = took_ns;
    CHECK(took_ns <= bound_ns, "%s: %.2f s, SEED=%llu", what, (double)took_ns / 1e9,
          (unsigned long long)seed);
    if (seed == last_seed)
        printf("ROW 15: DNS answers cached for 30 s, in virtual time: %s: at most %.2f s (bound "
               "%.1f s)\n",
               what, (double)*longest_ns / 1e9, (double)bound_ns / 1e9);
}

/* The higher index starts first, and looks up a name that does not exist yet. */
static void test_late_lower(uint64_t seed) {
    static struct world w;
    static int64_t longest_ns;
    set_up(&w, seed, 2, 2);
    advance(&w, QR_SECOND + (int64_t)(seed % 7) * QR_SECOND);
    start_now(&w, 1);
    check_bound("the lowest index starts last, its name was looked up before", seed,
                form_ns(&w, 3, 20 * QR_SECOND), 2 * QR_SECOND, &longest_ns);
    world_fini(&w);
}

/* Two workers train; two more start, and look up each other's names too early. */
static void test_growth(uint64_t seed) {
    static struct world w;
    static int64_t longest_ns;
    set_up(&w, seed, 4, 3);
    w.node[0].form_timeout_ns = w.node[1].form_timeout_ns = MS(10);
    advance(&w, 3 * QR_SECOND);
    if (!is_generation(&w, 3)) advance(&w, 30 * QR_SECOND);
    CHECK(is_generation(&w, 3), "two begin: SEED=%llu", (unsigned long long)seed);
    start_now(&w, 12);
    check_bound("2 to 4, the new workers look up each other's names too early", seed,
                form_ns(&w, 15, 20 * QR_SECOND), 2 * QR_SECOND, &longest_ns);
    world_fini(&w);
}

/* One worker has a name; it sends the addresses of the others to all. */
static void test_hub(uint64_t seed) {
    static struct world w;
    static int64_t longest_ns;
    set_up(&w, seed, 8, 0xff);
    unsigned hub = (unsigned)(seed % 8);
    advance(&w, MS(1));
    set_names(&w, 0xff, 100 * QR_SECOND);
    for (unsigned i = 0; i < 8; i++) { /* cached negative answers */
        w.dns_expires_ns[i] = i == hub ? 0 : 100 * QR_SECOND;
        w.dns_found[i] = false;
    }
    set_names(&w, UINT64_C(1) << hub, 0);
    check_bound("one of eight names is found", seed, form_ns(&w, 0xff, 20 * QR_SECOND),
                5 * QR_SECOND / 2, &longest_ns);
    world_fini(&w);
}

/* Both processes of each pair dial at the same moment: one connection of each pair remains, and no
 * loss is logged. What a peer reports about a new pair may be out of date, so several generations
 * may form, at most one for each pair. */
static void test_crossing(uint64_t seed) {
    static struct world w;
    set_up(&w, seed, 3, 7);
    w.dns_cache_ns = 0;
    advance(&w, MS(1));
    set_names(&w, 7, 0);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            if (k != i) {
                struct qr_message hint = {.kind = QR_MESSAGE_ADDRESSES};
                hint.addresses.n = 1;
                hint.addresses.name[0].index = k;
                snprintf(hint.addresses.at[0], sizeof hint.addresses.at[0], "%s", w.address[k]);
                member_on_addresses(w.node[i].m, &hint.addresses);
            }
    advance(&w, 8 * QR_SECOND);
    CHECK(is_generation(&w, 7) && w.n_gens <= 3, "crossing: SEED=%llu: %u proposals",
          (unsigned long long)seed, w.n_gens);
    for (unsigned i = 0; i < 3; i++) {
        unsigned conns = 0;
        for (int c = 0; c < MAX_CONNS; c++) conns += w.node[i].m->conns[c].state != CONN_FREE;
        CHECK(conns == 2 && !w.node[i].has_lost,
              "crossing: SEED=%llu: worker %u has %u connections: %s", (unsigned long long)seed, i,
              conns, w.node[i].text);
    }
    world_fini(&w);
}

/* Data streams within a generation of workers 1, 2 and 3 break. Worker 0 has started, and no data
 * passes between it and 2: it must wait. Returns whether 2 remained a member. */
static bool members_remain(uint64_t seed, unsigned planted) {
    static struct world w;
    set_up(&w, seed, 4, 14);
    w.mutations = planted;
    w.dns_cache_ns = 0;
    for (unsigned i = 0; i < 4; i++) w.node[i].form_timeout_ns = MS(10);
    advance(&w, 3 * QR_SECOND);
    CHECK(is_generation(&w, 14), "three begin: SEED=%llu", (unsigned long long)seed);
    w.data_blocked[0][2] = w.data_blocked[2][0] = true;
    start_now(&w, 1);
    advance(&w, 2 * QR_SECOND + (int64_t)(seed % 9) * MS(100));
    bool stays = is_generation(&w, 14);
    uint64_t pair[3][2] = {{1, 2}, {1, 3}, {2, 3}};
    for (int k = 0; k < 5 && stays; k++) {
        const uint64_t *p = pair[(seed + (unsigned)k) % 3];
        w.node[p[0]].lost_data[p[1]] = w.node[p[1]].lost_data[p[0]] = true;
        int64_t until = now_of(&w) + 1500 * MS(1);
        while (now_of(&w) < until && stays) {
            world_turn(&w, until);
            if (w.node[0].active && w.node[0].gen.begin.n_members > 1) stays = false;
        }
    }
    stays = stays && is_generation(&w, 14);
    world_fini(&w);
    return stays;
}

int main(void) {
    bool replay = getenv("SEED") != NULL;
    uint64_t first = number_from_env("SEED", 1);
    last_seed = replay ? first : number_from_env("SEEDS", 300);
    unsigned seen = 0;
    for (uint64_t s = first; s <= last_seed; s++) {
        test_late_lower(s);
        test_growth(s);
        test_hub(s);
        test_crossing(s);
        CHECK(members_remain(s, 0), "a newcomer replaces a member: SEED=%llu",
              (unsigned long long)s);
        seen += s <= 30 && !members_remain(s, PLANTED_NEWCOMERS_FIRST);
    }
    CHECK(seen || replay, "a newcomer that replaces a member is not detected");
    printf("mutation \"newcomers first\": seen in %u of 30 seeds\n", seen);
    return t_end();
}
