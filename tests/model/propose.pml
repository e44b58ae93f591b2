/* propose.pml — when lib/group/member_propose.c proposes, promises, refuses and waits, for Spin 6: that it comes to an end. The handlers below are those of
   the code, function by function, with their durations in ticks of 100 ms; what a generation starts from and what is applied is in group.pml.

   Three workers begin in one generation. FAULTS times, at any moment: a connection breaks or comes back (each end notices in its own time), or a data
   stream breaks (one end notices, no connection does), or a worker is killed for good. Messages of one connection keep their order, and are faster than a
   tick; those of different connections, and what is due at one tick, come in any order. A back-off is 100, 200 or 400 ms, doubled as often as in the
   code, whichever is worst.

   Shown (ltl end, over all infinite runs): from some moment on every worker that lives is in a generation that works — its members are linked and in it, no
   stream of it is broken — or is kept out of one by a connection that it lacks (it goes on trying, then gives up: rule 8); and no two generations work
   that could be one. Since the faults are finite and time goes on by itself this is
   liveness without any assumption of fairness but that messages come. Not modelled: first generations, restarts (simulator), bans after two drops,
   frozen trainers, more than three workers. Environment: FAULTS, KINDS (1 links, 2 streams, 4 kills), MINW, MUT. */
#define N 3
#define Q 6
hidden byte kinds;
#define in(set, i) (((set) >> (i)) & 1)
c_code {
\#include <stdlib.h>
\#include <string.h>
static int setting(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
}
/* the machine of worker i; x[i * N + j]: what i has of j */
byte up;                                        /* set: the processes that live */
byte link[N];                                   /* connections as they are */
byte hears[N], prom[N], excl[N], act[N], last[N], lset[N], high[N], pset[N], pgot[N], need[N];
byte vheard[9], vact[9], vprom[9], fresh[N];
byte promise_age[N], pending_age[N], backoff[N], doublings[N], differs_age[N], fresh_age[N], silent[9];
byte due;                                       /* set: something is due at this tick */
byte queued[9], q[270];                            /* messages from i to j, of 5 bytes: kind and its content */
byte faults;
byte ask;                                       /* a back-off to be drawn: 1 + index; one at a time */

c_code {
enum { BEAT = 1, PROPOSE, PROMISE, BUSY, BEGIN, UP, DOWN };
enum { SUSPEND_FORGOTTEN = 1, BACKOFF_FOR_EVER, WITHOUT_OTHERS, FROM_NOTHING, NOT_STICKY, NO_DIFFERENCE, NO_SECOND_TRY, NO_SILENCE };
static int mut, minw, trace;
#define BIT(i) (1 << (i))
#define HAS(s, i) (((s) >> (i)) & 1)
#define SIZE(s) __builtin_popcount(s)
#define V(a, i, j) now.a[(i) * N + (j)]
static void consider(int i);
static void push(int from, int to, int kind, int a, int b, int c, int d) {
    int p = from * N + to;
    if (kind == BEAT && now.queued[p] && now.q[p * 30 + (now.queued[p] - 1) * 5] == BEAT) now.queued[p]--; /* newer than one that is just before it */
    if (now.queued[p] >= Q) { printf("a queue is too short\n"); exit(9); }
    unsigned char *m = &now.q[p * 30 + now.queued[p]++ * 5];
    m[0] = kind; m[1] = a; m[2] = b; m[3] = c; m[4] = d;
}
static void beats(int i) {
    for (int j = 0; j < N; j++) if (j != i && HAS(now.hears[i], j)) push(i, j, BEAT, now.hears[i], now.act[i], now.prom[i], now.high[i]);
}
static int lists(int i, int a, int b) { return a == i ? HAS(now.hears[i], b) : HAS(V(vheard, i, a), b); }
static int linked(int i, int a, int b) { return lists(i, a, b) && lists(i, b, a); }
static int works_in(int i, int j) { return V(vact, i, j) == now.last[i] || HAS(now.fresh[i], j); }
static int works(int i) {
    if (!now.act[i]) return 0;
    for (int j = 0; j < N; j++) {
        if (!HAS(now.lset[i], j)) continue;
        if (j != i && !works_in(i, j)) return 0;
        for (int k = 0; k < j; k++) if (HAS(now.lset[i], k) && !linked(i, j, k)) return 0;
    }
    return 1;
}
static int set_of(int i) {
    int set = works(i) && mut != FROM_NOTHING ? now.lset[i] : 0;
    if (mut == WITHOUT_OTHERS) return BIT(i);
    for (int j = 0; j < N; j++) {
        if (HAS(set, j) || (j != i && (!linked(i, i, j) || V(silent, i, j)))) continue;
        int all = 1;
        for (int k = 0; k < N; k++) if (HAS(set, k) && k != i && j != i && !linked(i, j, k)) all = 0;
        if (all) set |= BIT(j);
    }
    return set;
}
static void suspend(int i) { now.act[i] = 0; beats(i); }
static void promise(int i, int id) {
    now.prom[i] = id; now.promise_age[i] = 0; now.excl[i] = 1;
    if (id / 4 > now.high[i]) now.high[i] = id / 4;
    if (now.act[i]) suspend(i);
}
static void begun(int i, int id, int set) {
    now.last[i] = now.act[i] = id; now.lset[i] = set; now.need[i] = 0; now.doublings[i] = 0; now.pset[i] = now.pgot[i] = 0; now.differs_age[i] = 0;
    now.fresh[i] = now.hears[i]; now.fresh_age[i] = 0;
    beats(i);
}
static void begin(int i) {
    int id = now.prom[i], set = now.pset[i];
    for (int j = 0; j < N; j++) if (j != i && HAS(set, j) && HAS(now.hears[i], j)) push(i, j, BEGIN, id, set, 0, 0);
    begun(i, id, set);
}
static void propose(int i, int set) {
    promise(i, (now.high[i] + 1) * 4 + i);
    now.pset[i] = set; now.pgot[i] = BIT(i); now.pending_age[i] = 0;
    for (int j = 0; j < N; j++) if (j != i && HAS(set, j)) push(i, j, PROPOSE, now.prom[i], set, 0, 0);
    if (SIZE(set) == 1) begin(i);
}
static int differs(int i) {
    for (int j = 0; j < N; j++)
        if (j != i && now.act[i] && HAS(now.lset[i], j) && HAS(now.hears[i], j) && (V(vact, i, j) != now.last[i] || V(vprom, i, j) > now.last[i])) return 1;
    return 0;
}
static void consider(int i) {
    if (now.pset[i] && (now.pset[i] & ~now.pgot[i] & ~now.hears[i])) now.pset[i] = now.pgot[i] = 0;
    if (now.pset[i] && now.pending_age[i] >= 3 && mut != NO_SILENCE) {
        for (int j = 0; j < N; j++) if (HAS(now.pset[i] & ~now.pgot[i], j)) V(silent, i, j) = 13;
        now.pset[i] = now.pgot[i] = 0;
    }
    if (!differs(i)) now.differs_age[i] = 0;
    int set = set_of(i), old = differs(i) && now.differs_age[i] >= 5 && mut != NO_DIFFERENCE;
    if (now.act[i] && ((now.need[i] && mut != SUSPEND_FORGOTTEN) || SIZE(set) < minw)) suspend(i);
    if (now.pset[i] || now.backoff[i] || now.ask == 1 + i) return;
    if ((set & (BIT(i) - 1)) || SIZE(set) < minw) return;
    if (now.act[i] && set == now.lset[i] && !now.need[i] && !old) return;
    int others = now.prom[i] && !now.act[i] && now.prom[i] % 4 != i;
    if (others && now.excl[i] && (now.promise_age[i] < 5 || mut == NO_SECOND_TRY)) return;
    propose(i, set);
}
static int objects(int i, int from, int id, int set) {
    if (id < now.prom[i]) return 1;
    int to = now.prom[i] % 4;
    if (now.prom[i] && now.excl[i] && to != from && to < from && now.promise_age[i] < 10) return 1;
    for (int j = 0; mut != NOT_STICKY && works(i) && j < N; j++) if (HAS(now.lset[i], j) && j != i && !HAS(set, j) && linked(i, i, j)) return 1;
    return 0;
}
static void view(int i, int from, const unsigned char *m) {
    V(vheard, i, from) = m[1]; V(vact, i, from) = m[2]; V(vprom, i, from) = m[3];
    if (m[4] > now.high[i]) now.high[i] = m[4];
    now.fresh[i] &= ~BIT(from);
}
static void handle(int from, int i) {
    int p = from * N + i, id;
    unsigned char m[5];
    memcpy(m, &now.q[p * 30], 5);
    if (trace) printf("%s from %d to %d: ", (const char *[]){"", "BEAT", "PROPOSE", "PROMISE", "BUSY", "BEGIN", "UP", "DOWN"}[m[0]], from, i);
    now.queued[p]--;
    memmove(&now.q[p * 30], &now.q[p * 30 + 5], 25);
    id = m[1];
    switch (m[0]) {
    case BEAT:
        if (m[1] != V(vheard, i, from) && mut != BACKOFF_FOR_EVER) now.backoff[i] = 0;
        view(i, from, m);
        break;
    case UP:
        now.hears[i] |= BIT(from);
        view(i, from, m);
        beats(i);
        break;
    case DOWN:
        now.hears[i] &= ~BIT(from);
        V(vheard, i, from) = V(vact, i, from) = V(vprom, i, from) = V(silent, i, from) = 0;
        now.fresh[i] &= ~BIT(from);
        if (now.prom[i] % 4 == from) now.excl[i] = 0;
        beats(i);
        break;
    case PROPOSE:
        if (id == now.prom[i]) break;
        if (id / 4 > now.high[i]) now.high[i] = id / 4;
        if (objects(i, from, id, m[2])) { push(i, from, BUSY, id, now.high[i], 0, 0); break; }
        now.pset[i] = now.pgot[i] = 0;
        promise(i, id);
        push(i, from, PROMISE, id, 0, 0, 0);
        break;
    case PROMISE:
        if (!now.pset[i] || id != now.prom[i]) break;
        now.pgot[i] |= BIT(from);
        if (now.pgot[i] == now.pset[i]) begin(i);
        break;
    case BUSY:
        if (m[2] > now.high[i]) now.high[i] = m[2];
        if (!now.pset[i] || id != now.prom[i]) break;
        now.pset[i] = now.pgot[i] = 0;
        now.ask = 1 + i;
        break;
    case BEGIN:
        if (id == now.prom[i] && !(now.act[i] && now.last[i] == id) && !now.pset[i]) begun(i, id, m[2]);
        break;
    }
    consider(i);
}
/* only the order of ids counts, and which numbers follow each other: the same states come again */
static unsigned char map[64];
static void use(int n) { map[n] = 1; }
static void renumber(void) {
    memset(map, 0, sizeof map);
    for (int i = 0; i < N; i++) { use(now.prom[i] / 4); use(now.last[i] / 4); use(now.act[i] / 4); use(now.high[i]); }
    for (int i = 0; i < 9; i++) { use(now.vact[i] / 4); use(now.vprom[i] / 4); }
    for (int p = 0; p < 9; p++)
        for (int k = 0; k < now.queued[p]; k++) {
            unsigned char *m = &now.q[p * 30 + k * 5];
            if (m[0] == BEAT || m[0] == UP) { use(m[2] / 4); use(m[3] / 4); use(m[4]); }
            else use(m[1] / 4);
            if (m[0] == BUSY) use(m[2]);
        }
    int n = 0, before = 0;
    for (int k = 1; k < 64; k++)
        if (map[k]) { n += n == 0 || k - before == 1 ? 1 : 2; before = k; map[k] = n; }
    if (before > 60) { printf("numbers are too few\n"); exit(9); }
#define NUMBER(x) x = map[x]
#define ID(x) x = x ? map[(x) / 4] * 4 + (x) % 4 : 0
    for (int i = 0; i < N; i++) { ID(now.prom[i]); ID(now.last[i]); ID(now.act[i]); NUMBER(now.high[i]); }
    for (int i = 0; i < 9; i++) { ID(now.vact[i]); ID(now.vprom[i]); }
    for (int p = 0; p < 9; p++)
        for (int k = 0; k < now.queued[p]; k++) {
            unsigned char *m = &now.q[p * 30 + k * 5];
            if (m[0] == BEAT || m[0] == UP) { ID(m[2]); ID(m[3]); NUMBER(m[4]); }
            else ID(m[1]);
            if (m[0] == BUSY) NUMBER(m[2]);
        }
    for (int p = 0; p < 9; p++) memset(&now.q[p * 30 + now.queued[p] * 5], 0, 30 - now.queued[p] * 5);
}
/* 100 ms later; ages stop where nothing depends on them any more */
static void tick(void) {
    for (int i = 0; i < N; i++) {
        int news = 0;
        if (!HAS(now.up, i)) continue;
        if (now.pset[i]) news |= ++now.pending_age[i] >= 3; else now.pending_age[i] = 0;
        if (now.backoff[i] && mut != BACKOFF_FOR_EVER) news |= --now.backoff[i] == 0;
        if (now.prom[i] && now.promise_age[i] < 10) { now.promise_age[i]++; news |= now.promise_age[i] == 5; }
        if (!differs(i)) now.differs_age[i] = 0;
        else if (now.differs_age[i] < 5) news |= ++now.differs_age[i] == 5;
        if (now.fresh[i] && ++now.fresh_age[i] >= 5) { now.fresh[i] = 0; news = 1; }
        if (!now.fresh[i]) now.fresh_age[i] = 0;
        for (int j = 0; j < N; j++) if (V(silent, i, j)) news |= --V(silent, i, j) == 0;
        if (news) now.due |= BIT(i);
    }
}
static void connection(int i, int j, int on) {
    int both[2] = {i, j};
    now.link[i] ^= BIT(j); now.link[j] ^= BIT(i);
    for (int k = 0; k < 2; k++) {
        int a = both[k], b = both[1 - k], p = a * N + b;
        if (!on) { /* what was on its way is lost; that it came up, too, where nobody has noticed it */
            now.queued[p] = 0;
            if (HAS(now.hears[b], a)) push(a, b, DOWN, 0, 0, 0, 0);
        } else push(a, b, UP, now.hears[a], now.act[a], now.prom[a], now.high[a]);
    }
}
static void killed(int i) {
    for (int j = 0; j < N; j++)
        if (j != i && HAS(now.link[i], j)) { connection(i, j, 0); now.queued[j * N + i] = 0; }
    now.up &= ~BIT(i); now.due &= ~BIT(i); if (now.ask == 1 + i) now.ask = 0;
    now.hears[i] = now.prom[i] = now.act[i] = now.last[i] = now.lset[i] = now.high[i] = now.pset[i] = now.pgot[i] = now.need[i] = 0;
    now.excl[i] = now.fresh[i] = now.promise_age[i] = now.pending_age[i] = now.backoff[i] = now.doublings[i] = now.differs_age[i] = now.fresh_age[i] = 0;
    for (int j = 0; j < N; j++) V(vheard, i, j) = V(vact, i, j) = V(vprom, i, j) = V(silent, i, j) = now.queued[j * N + i] = 0;
}
static int clique(int set) {
    for (int i = 0; i < N; i++) if (HAS(set, i) && (set & ~(now.link[i] | BIT(i)))) return 0;
    return 1;
}
static int at_work(int i) { /* its generation, as nobody in it can know */
    if (!HAS(now.up, i) || !now.act[i] || !clique(now.lset[i])) return 0;
    for (int j = 0; j < N; j++) if (HAS(now.lset[i], j) && (now.act[j] != now.act[i] || now.need[j])) return 0;
    return 1;
}
static int good(void) {
    for (int i = 0; i < N; i++) {
        int out = !HAS(now.up, i) || at_work(i);
        for (int j = 0; j < N; j++) {
            if (!at_work(j)) continue;
            if (HAS(now.up, i) && !at_work(i) && HAS(now.link[i], j) && !clique(now.lset[j] | BIT(i))) out = 1;
            if (at_work(i) && now.act[j] != now.act[i] && clique(now.lset[i] | now.lset[j])) return 0;
        }
        if (!out) return 0;
    }
    return 1;
}
/* TRACE=1 ./pan -r: each event with the state after it */
static void say(const char *what, int a, int b) {
    if (!trace) return;
    printf("%s %d %d:", what, a, b);
    for (int i = 0; i < N; i++)
        printf("  [%d] hears %d act %d promised %d.%d age %d pending %d back-off %d broken %d views %d.%d %d.%d %d.%d", i, now.hears[i], now.act[i], now.prom[i] / 4,
               now.prom[i] % 4, now.promise_age[i], now.pset[i], now.backoff[i], now.need[i], V(vact, i, 0), V(vheard, i, 0), V(vact, i, 1), V(vheard, i, 1),
               V(vact, i, 2), V(vheard, i, 2));
    printf("  good %d\n", good());
}
static void start(void) {
    trace = setting("TRACE");
    mut = setting("MUT"); minw = setting("MINW") ? setting("MINW") : 1; kinds = setting("KINDS") ? setting("KINDS") : 7; now.faults = setting("FAULTS");
    now.up = 7;
    for (int i = 0; i < N; i++) {
        now.link[i] = now.hears[i] = 7 & ~BIT(i); now.prom[i] = now.act[i] = now.last[i] = 4; now.lset[i] = 7; now.high[i] = 1; now.promise_age[i] = 10;
        for (int j = 0; j < N; j++) if (j != i) { V(vheard, i, j) = 7 & ~BIT(j); V(vact, i, j) = V(vprom, i, j) = 4; }
    }
}
}
bool isgood = 1;
#define DONE(what, i, j) c_code { renumber(); now.isgood = good(); say(what, i, j); }
#define MESSAGE(i, j) :: d_step { queued[i * N + j] && !ask -> c_code { handle(i, j); }; DONE("message", i, j) }
#define DUE(i) :: d_step { in(due, i) && !ask -> c_code { now.due &= ~BIT(i); consider(i); }; DONE("due", i, i) }
#define PAIR(i, j) \
  :: d_step { faults && !ask && (kinds & 1) && in(up, i) && in(up, j) -> c_code { now.faults--; connection(i, j, !HAS(now.link[i], j)); }; DONE("link", i, j) }
#define WORKER(i) \
  :: d_step { faults && !ask && (kinds & 2) && act[i] && (lset[i] & (lset[i] - 1)) -> c_code { now.faults--; now.need[i] = 1; now.due |= BIT(i); }; DONE("broken", i, i) } \
  :: d_step { faults && !ask && (kinds & 4) && in(up, i) && up != (1 << i) -> c_code { now.faults--; killed(i); }; DONE("killed", i, i) }
#define DRAW(n) :: d_step { ask -> c_code { int i = now.ask - 1, t = n << now.doublings[i]; now.ask = 0; now.backoff[i] = t > 30 ? 30 : t; \
    if (now.doublings[i] < 6) now.doublings[i]++; consider(i); }; DONE("draw", n, n) }
init {
  d_step { c_code { start(); }; DONE("start", 0, 0) }
  do
  MESSAGE(0, 1) MESSAGE(0, 2) MESSAGE(1, 0) MESSAGE(1, 2) MESSAGE(2, 0) MESSAGE(2, 1)
  DUE(0) DUE(1) DUE(2)
  DRAW(1) DRAW(2) DRAW(4)
  PAIR(0, 1) PAIR(0, 2) PAIR(1, 2)
  WORKER(0) WORKER(1) WORKER(2)
  :: d_step { queued[1] + queued[2] + queued[3] + queued[5] + queued[6] + queued[7] == 0 && !due && !ask -> c_code { tick(); }; DONE("tick", 0, 0) }
  od
}
ltl end { <> [] isgood }
