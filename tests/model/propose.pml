/* propose.pml — when lib/membership/member_propose.c proposes, promises, refuses and waits, for Spin 6: that it comes to an end. The handlers below are those of
   the code, function by function, with their durations in ticks of 100 ms; what a generation starts from and what is applied is in group.pml.

   Three workers begin in one generation. FAULTS times, at any moment: a connection breaks or comes back (each end notices in its own time), or a data
   stream breaks and is there again at once (one end notices, no connection does), or a worker is killed for good, or a data stream gets silent while
   control goes on (what one sends to another on it is lost, or both ways), or a data stream breaks and is dialed again. A silence begins between two ticks or
   before news of another stream is noticed; it heals between two ticks, each way at its own time, or never (HEAL: not once
   a worker was refused more often in a row). Messages of one connection keep their order, and are faster than a tick; those of
   different connections, and what is due at one tick, come in any order. A back-off is 100, 200 or 400 ms, doubled as often as in the code, whichever is
   worst.

   Data streams: each end has its own view of one (member_data.c). All poll without a pause: of two in one generation an end that hears no beat for 1.6 s gives
   the stream up, and its heartbeat says so. What it closes the other end notices in its own time, but never where nothing comes through: then only the
   heartbeat tells. The dialer calls again where both ways are open, after what the two told each other before has come (a dial takes more round trips than a
   message: without this assumption the model finds two that give up each other's new stream for a word on the old one, again and again). Who is called has the
   stream at once, the dialer with the answer, which waits where nothing comes through.

   Shown (ltl end, over all infinite runs): from some moment on every worker that lives is in a generation that works — its members are linked and in it, and
   each two have a data stream at both ends that passes data each way — or is kept out of one by a connection or a way for data that it lacks (it goes on
   trying, then gives up: rule 8); and no two generations work that could be one. Since the faults are finite and time goes on by itself this is
   liveness without any assumption of fairness but that messages come. Not modelled: first generations, restarts (simulator), bans after two drops,
   frozen trainers, steps so long that nobody polls, more than three workers. Environment: FAULTS, KINDS (1 links, 2 streams that are there again at
   once, 4 kills, 8 silent streams, 16 streams that are dialed again), HEAL, MINW, MUT. */
#define N 3
#define Q 6
hidden byte kinds, heal;
#define in(set, i) (((set) >> (i)) & 1)
c_code {
\#include <stdlib.h>
\#include <string.h>
static int setting(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
}
/* the machine of worker i; x[i * N + j]: what i has of j */
byte up;                                        /* set: the processes that live */
byte link[N];                                   /* control connections as they are */
byte deaf[N];                                   /* sets: nothing that these send on data streams comes to i */
byte data[9];                                   /* i's data stream with j, as i knows it: enum data_state */
byte news[N];                                   /* sets: i will notice: the stream with j is closed (is up here), or j answers its call (is not) */
byte without[N];                                /* sets: who said in its last heartbeat that it has no data with i */
byte unheard[9];                                /* so long, in a generation, no beat has come on that stream */
byte conn[N], prom[N], excl[N], act[N], last[N], lset[N], high[N], pset[N], pgot[N], need[N];
byte vheard[9], vact[9], vprom[9], fresh[N];
byte promise_age[N], pending_age[N], backoff[N], doublings[N], differs_age[N], fresh_age[N], silent[9];
byte broken_age[N];                             /* since its generation worked; 10: nothing depends on it */
byte due;                                       /* set: something is due at this tick */
byte queued[9], q[270];                            /* messages from i to j, of 5 bytes: kind and its content */
byte ready[N], dials[N];                                                /* sets: whose news i can notice, and whom it reaches when it dials */
bool quiet, steady;                             /* only time can go on; ... or news of data streams come */
byte faults;
byte ask;                                       /* a back-off to be drawn: 1 + index; one at a time */

c_code {
enum { BEAT = 1, PROPOSE, PROMISE, BUSY, BEGIN, UP, DOWN };
enum data_state { DATA_NONE, DATA_UP, DATA_BROKEN, DATA_BAD };
enum { SUSPEND_FORGOTTEN = 1, BACKOFF_FOR_EVER, WITHOUT_OTHERS, FROM_NOTHING, NOT_STICKY, NO_DIFFERENCE, NO_SECOND_TRY, NO_SILENCE,
       CONTROL_IS_ENOUGH, NEVER_RENEWED, ONE_WORD, NO_BEATS };
static int mut, minw, trace;
enum { SILENT = 16 }; /* ticks */
#define BIT(i) (1 << (i))
#define HAS(s, i) (((s) >> (i)) & 1)
#define SIZE(s) __builtin_popcount(s)
#define V(a, i, j) now.a[(i) * N + (j)]
static void consider(int i);
static int hears_it(int i, int j) { /* rule 1 */
    return j != i && HAS(now.conn[i], j) && (mut == CONTROL_IS_ENOUGH || V(data, i, j) == DATA_UP || V(data, i, j) == DATA_BROKEN);
}
static int hears(int i) { return hears_it(i, 0) | hears_it(i, 1) << 1 | hears_it(i, 2) << 2; }
static int member(int i, int j) { return j != i && now.act[i] && HAS(now.lset[i], j); }
static int no_data(int i) {
    int set = 0;
    for (int j = 0; j < N; j++) if (HAS(now.conn[i], j) && V(data, i, j) == DATA_BAD) set |= BIT(j);
    return set;
}
static void push(int from, int to, int kind, int a, int b, int c, int d) {
    int p = from * N + to;
    if (kind == BEAT && now.queued[p] && now.q[p * 30 + (now.queued[p] - 1) * 5] == BEAT) now.queued[p]--; /* newer than one that is just before it */
    if (now.queued[p] >= Q) { printf("a queue is too short\n"); exit(9); }
    unsigned char *m = &now.q[p * 30 + now.queued[p]++ * 5];
    m[0] = kind; m[1] = a; m[2] = b; m[3] = c; m[4] = d;
}
static void beats(int i) {
    for (int j = 0; j < N; j++) if (j != i && HAS(now.conn[i], j)) push(i, j, BEAT, hears(i) | no_data(i) << 3, now.act[i], now.prom[i], now.high[i]);
}
static int lists(int i, int a, int b) { return a == i ? hears_it(i, b) : HAS(V(vheard, i, a), b); }
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
    for (int newcomers = 0; newcomers < 2; newcomers++) /* after who was in the last generation */
        for (int j = 0; j < N; j++) {
            if (j == i || HAS(set, j) || HAS(now.lset[i], j) == newcomers || !linked(i, i, j) || V(silent, i, j)) continue;
            int all = 1;
            for (int k = 0; k < N; k++) if (HAS(set, k) && k != i && !linked(i, j, k)) all = 0;
            if (all) set |= BIT(j);
        }
    return set | BIT(i);
}
/* ---- data streams: member_data.c, and mesh_streams.c below it. Of two the higher index dials ---- */
static void set_data(int i, int j, int state) {
    int said = hears(i) | no_data(i) << 3;
    V(data, i, j) = state;
    now.news[i] &= ~BIT(j);
    if (said != (hears(i) | no_data(i) << 3)) beats(i);
}
static void lost_data(int i, int j, int work) { /* its stream is no more, for the mesh of i */
    if (V(data, i, j) == DATA_UP) set_data(i, j, now.last[i] && HAS(now.lset[i], j) ? DATA_BROKEN : DATA_NONE);
    if (work && member(i, j)) now.need[i] = 1;
}
static void close_data(int i, int j) { /* where nothing comes through, j does not see that */
    lost_data(i, j, 0);
    if (V(data, j, i) == DATA_UP && !HAS(now.deaf[j], i)) now.news[j] |= BIT(i);
}
static void give_up(int i, int j) {
    if (mut != NEVER_RENEWED) close_data(i, j);
    if (member(i, j)) now.need[i] = 1;
    set_data(i, j, DATA_BAD);
}
static int beats_come(int i, int j) { return V(data, i, j) == DATA_UP && V(data, j, i) == DATA_UP && !HAS(now.deaf[i], j); }
static int overdue(int i, int j) { return member(i, j) && V(data, i, j) != DATA_BAD && V(unheard, i, j) >= SILENT && mut != NO_BEATS; }
static void check_data(int i) {
    for (int j = 0; j < N; j++) if (overdue(i, j) && HAS(now.conn[i], j) && V(vact, i, j) == now.last[i]) give_up(i, j);
}
static int calls(int d, int a) { /* the dialer has no stream, both ways are open, and what they told each other before has come */
    if (d <= a || !HAS(now.up, a) || !HAS(now.up, d) || V(data, d, a) == DATA_UP || HAS(now.news[d], a)) return 0;
    if (now.queued[d * N + a] || now.queued[a * N + d]) return 0;
    return !HAS(now.deaf[a], d) && !HAS(now.deaf[d], a) && !(mut == NEVER_RENEWED && V(data, d, a) == DATA_BAD);
}
static void called(int d, int a) { /* d greets a, which takes that in place of what it had, and answers */
    lost_data(a, d, 1);
    set_data(a, d, DATA_UP);
    now.news[d] |= BIT(a);
    consider(a);
}
static int noticeable(int i, int j) { return HAS(now.news[i], j) && (V(data, i, j) == DATA_UP || !HAS(now.deaf[i], j)); }
static void notice(int i, int j) {
    now.news[i] &= ~BIT(j);
    if (V(data, i, j) == DATA_UP) lost_data(i, j, 1);
    else if (V(data, j, i) == DATA_UP) set_data(i, j, DATA_UP); /* else it is closed again */
    consider(i);
}
static void suspend(int i) { now.act[i] = 0; beats(i); }
static void promise(int i, int id) {
    now.prom[i] = id; now.promise_age[i] = 0; now.excl[i] = 1;
    if (id / 4 > now.high[i]) now.high[i] = id / 4;
    if (now.act[i]) suspend(i);
}
static void begun(int i, int id, int set) {
    now.last[i] = now.act[i] = id; now.lset[i] = set; now.need[i] = 0; now.doublings[i] = 0; now.pset[i] = now.pgot[i] = 0; now.differs_age[i] = 0;
    now.fresh[i] = now.conn[i]; now.fresh_age[i] = 0;
    for (int j = 0; j < N; j++) {
        V(unheard, i, j) = 0;
        if (V(data, i, j) == DATA_BROKEN && !HAS(set, j)) V(data, i, j) = DATA_NONE;
    }
    beats(i);
}
static void begin(int i) {
    int id = now.prom[i], set = now.pset[i];
    for (int j = 0; j < N; j++) if (j != i && HAS(set, j) && HAS(now.conn[i], j)) push(i, j, BEGIN, id, set, 0, 0);
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
        if (j != i && now.act[i] && HAS(now.lset[i], j) && hears_it(i, j) && (V(vact, i, j) != now.last[i] || V(vprom, i, j) > now.last[i])) return 1;
    return 0;
}
static void consider(int i) {
    check_data(i);
    if (works(i)) now.broken_age[i] = now.lset[i] == 7 ? 10 : 0;
    if (now.pset[i] && (now.pset[i] & ~now.pgot[i] & ~hears(i))) now.pset[i] = now.pgot[i] = 0;
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
static int displaces(int i, int set) { /* a newcomer in place of one that hears all members of the last generation in the set */
    int named = set & now.lset[i], yes = 0;
    for (int j = 0; j < N && named != set; j++) {
        int all = j != i && HAS(now.lset[i] & ~named, j);
        for (int k = 0; k < N; k++) if (HAS(named, k) && all) all = linked(i, j, k);
        yes |= all;
    }
    return yes;
}
static int objects(int i, int from, int id, int set) {
    if (id < now.prom[i]) return 1;
    int to = now.prom[i] % 4;
    if (now.prom[i] && now.excl[i] && to != from && to < from && now.promise_age[i] < 10) return 1;
    for (int j = 0; mut != NOT_STICKY && works(i) && j < N; j++) if (HAS(now.lset[i], j) && j != i && !HAS(set, j) && linked(i, i, j)) return 1;
    if (!works(i) && now.broken_age[i] < 10 && displaces(i, set)) return 1;
    return 0;
}
static void view(int i, int from, const unsigned char *m) {
    V(vheard, i, from) = m[1] & 7; V(vact, i, from) = m[2]; V(vprom, i, from) = m[3];
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
        if ((m[1] & 7) != V(vheard, i, from) && mut != BACKOFF_FOR_EVER) now.backoff[i] = 0;
        view(i, from, m);
        if (!HAS(m[1] >> 3, i)) now.without[i] &= ~BIT(from);
        else if (!HAS(now.without[i], from)) {
            now.without[i] |= BIT(from);
            if (V(data, i, from) != DATA_BAD && mut != ONE_WORD) give_up(i, from);
        }
        break;
    case UP:
        now.conn[i] |= BIT(from);
        view(i, from, m);
        beats(i);
        break;
    case DOWN:
        now.conn[i] &= ~BIT(from);
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
        if (now.broken_age[i] < 10 && !works(i)) now.broken_age[i]++;
        if (now.fresh[i] && ++now.fresh_age[i] >= 5) { now.fresh[i] = 0; news = 1; }
        if (!now.fresh[i]) now.fresh_age[i] = 0;
        for (int j = 0; j < N; j++) {
            if (V(silent, i, j)) news |= --V(silent, i, j) == 0;
            if (!member(i, j) || !HAS(now.up, j) || V(data, i, j) == DATA_BAD || beats_come(i, j)) V(unheard, i, j) = 0;
            else if (V(unheard, i, j) < SILENT) news |= ++V(unheard, i, j) == SILENT;
        }
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
            if (HAS(now.conn[b], a)) push(a, b, DOWN, 0, 0, 0, 0);
        } else push(a, b, UP, hears(a), now.act[a], now.prom[a], now.high[a]);
    }
}
static void killed(int i) {
    for (int j = 0; j < N; j++)
        if (j != i && HAS(now.link[i], j)) { connection(i, j, 0); now.queued[j * N + i] = 0; }
    now.up &= ~BIT(i); now.due &= ~BIT(i); if (now.ask == 1 + i) now.ask = 0;
    now.conn[i] = now.deaf[i] = now.news[i] = now.without[i] = 0;
    now.prom[i] = now.act[i] = now.last[i] = now.lset[i] = now.high[i] = now.pset[i] = now.pgot[i] = now.need[i] = 0;
    now.excl[i] = now.fresh[i] = now.promise_age[i] = now.pending_age[i] = now.backoff[i] = now.doublings[i] = now.differs_age[i] = now.fresh_age[i] = now.broken_age[i] = 0;
    for (int j = 0; j < N; j++) V(vheard, i, j) = V(vact, i, j) = V(vprom, i, j) = V(silent, i, j) = V(data, i, j) = V(unheard, i, j) = now.queued[j * N + i] = 0;
    for (int j = 0; j < N; j++) {
        V(unheard, j, i) = 0;
        now.deaf[j] &= ~BIT(i); now.news[j] &= ~BIT(i); now.without[j] &= ~BIT(i);
    }
}
static int reaches(int i, int j) { return i == j || (HAS(now.link[i], j) && !HAS(now.deaf[i], j) && !HAS(now.deaf[j], i)); } /* for control and data */
static int clique(int set) {
    for (int i = 0; i < N; i++) for (int j = 0; j < i; j++) if (HAS(set, i) && HAS(set, j) && !reaches(i, j)) return 0;
    return 1;
}
static int at_work(int i) { /* its generation, as nobody in it can know */
    if (!HAS(now.up, i) || !now.act[i] || !clique(now.lset[i])) return 0;
    for (int j = 0; j < N; j++) if (HAS(now.lset[i], j) && (now.act[j] != now.act[i] || now.need[j])) return 0;
    for (int j = 0; j < 9; j++) if (j % 4 && HAS(now.lset[i], j / N) && HAS(now.lset[i], j % N) && now.data[j] != DATA_UP) return 0;
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
static void broken(int i, int j) { /* i notices; j does if that comes through */
    close_data(i, j);
    now.need[i] = 1; now.due |= BIT(i);
}
static void look(void) { /* what can happen now */
    int messages = 0, news = 0, dials = 0;
    for (int i = 0; i < N; i++) {
        now.ready[i] = now.dials[i] = 0;
        for (int j = 0; j < N; j++) {
            if (noticeable(i, j)) now.ready[i] |= BIT(j);
            if (calls(i, j)) now.dials[i] |= BIT(j);
            messages |= now.queued[i * N + j];
        }
        news |= now.ready[i]; dials |= now.dials[i];
    }
    now.quiet = !now.due && !now.ask && !messages && !news && !dials;
    now.steady = now.quiet || (news && !now.ask);
}
/* TRACE=1 ./pan -r: each event with the state after it */
static void say(const char *what, int a, int b) {
    if (!trace) return;
    printf("%s %d %d:", what, a, b);
    for (int i = 0; i < N; i++)
        printf("  [%d] hears %d deaf %d data %d%d%d news %d unheard %d.%d.%d act %d promised %d.%d age %d pending %d back-off %d broken %d views %d.%d %d.%d %d.%d",
               i, hears(i), now.deaf[i], V(data, i, 0), V(data, i, 1), V(data, i, 2), now.news[i], V(unheard, i, 0), V(unheard, i, 1), V(unheard, i, 2), now.act[i],
               now.prom[i] / 4,
               now.prom[i] % 4, now.promise_age[i], now.pset[i], now.backoff[i], now.need[i], V(vact, i, 0), V(vheard, i, 0), V(vact, i, 1), V(vheard, i, 1),
               V(vact, i, 2), V(vheard, i, 2));
    printf("  good %d\n", good());
}
static void start(void) {
    trace = setting("TRACE");
    mut = setting("MUT"); heal = setting("HEAL") ? setting("HEAL") : 6;
    minw = setting("MINW") ? setting("MINW") : 1; kinds = setting("KINDS") ? setting("KINDS") : 7; now.faults = setting("FAULTS");
    now.up = 7;
    for (int i = 0; i < N; i++) {
        now.link[i] = now.conn[i] = 7 & ~BIT(i); now.prom[i] = now.act[i] = now.last[i] = 4; now.lset[i] = 7; now.high[i] = 1; now.promise_age[i] = now.broken_age[i] = 10;
        for (int j = 0; j < N; j++) if (j != i) { V(vheard, i, j) = 7 & ~BIT(j); V(vact, i, j) = V(vprom, i, j) = 4; V(data, i, j) = DATA_UP; }
    }
}
}
bool isgood = 1;
#define DONE(what, i, j) c_code { renumber(); look(); now.isgood = good(); say(what, i, j); }
#define MESSAGE(i, j) :: d_step { queued[i * N + j] && !ask -> c_code { handle(i, j); }; DONE("message", i, j) }
#define DUE(i) :: d_step { in(due, i) && !ask -> c_code { now.due &= ~BIT(i); consider(i); }; DONE("due", i, i) }
#define PAIR(i, j) \
  :: d_step { faults && !ask && (kinds & 1) && in(up, i) && in(up, j) -> c_code { now.faults--; connection(i, j, !HAS(now.link[i], j)); }; DONE("link", i, j) }
#define STREAM(i, j) \
  :: d_step { faults && !ask && (kinds & 16) && act[i] && in(lset[i], j) && data[i * N + j] == 1 -> c_code { now.faults--; broken(i, j); }; DONE("breaks", i, j) } \
  :: d_step { quiet && in(deaf[i], j) && doublings[0] <= heal && doublings[1] <= heal && doublings[2] <= heal -> \
    c_code { now.deaf[i] &= ~BIT(j); }; DONE("healed", i, j) } \
  :: d_step { !ask && in(ready[i], j) -> c_code { notice(i, j); }; DONE("notices", i, j) }
#define DEAF(i, j, both) \
  :: d_step { faults && steady && (kinds & 8) && in(up, i) && in(up, j) && !in(deaf[i], j) && !(both && in(deaf[j], i)) -> \
    c_code { now.faults--; now.deaf[i] |= BIT(j); if (both) now.deaf[j] |= BIT(i); }; DONE("deaf", i, j) }
#define SILENCE(i, j) DEAF(i, j, 0) DEAF(j, i, 0) DEAF(i, j, 1) \
  :: d_step { !ask && in(dials[j], i) -> c_code { called(j, i); }; DONE("calls", j, i) }
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
  STREAM(0, 1) STREAM(0, 2) STREAM(1, 0) STREAM(1, 2) STREAM(2, 0) STREAM(2, 1)
  SILENCE(0, 1) SILENCE(0, 2) SILENCE(1, 2)
  WORKER(0) WORKER(1) WORKER(2)
  :: d_step { quiet -> c_code { tick(); }; DONE("tick", 0, 0) }
  od
}
ltl end { <> [] isgood }
