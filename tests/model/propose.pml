/* propose.pml — Spin 6 model of lib/membership/member_propose.c: when a worker proposes, promises,
   rejects and waits, and that proposing ends. The handlers below are those of the code, function by
   function, with durations in ticks of 100 ms; group.pml has the state that a generation starts from
   and the applied sums.

   Three workers begin in one generation. FAULTS times, at any moment: a connection breaks or is
   restored (each end notices at its own time), or a data stream breaks and is restored at once (one
   end notices), or a worker is killed for good, or a data stream becomes silent while control works
   (data is lost in one direction or both), or a data stream breaks and is dialed again. A silence
   begins between two ticks, or before an event of another stream is noticed; it heals between two
   ticks, each direction at its own time, or never (HEAL: not after more rejections of a worker in a
   row). Messages of one connection keep their order, and are faster than a tick; those of different
   connections, and timers that expire at one tick, come in any order. A back-off is 100, 200 or
   400 ms, doubled as often as in the code, whichever is worst.

   Data streams: each end has its own state of a stream (member_data.c). All workers poll without a
   pause: a member without a beat from another one for 1.5 s abandons the stream, and its heartbeat
   reports that. The other end notices a close at its own time, but not if its direction is silent:
   then it learns from the heartbeat only. The dialer dials again if both directions work and all
   earlier messages of the pair have arrived (a dial takes more round trips than a message; without
   this assumption, the model finds two workers that repeatedly abandon each other's new stream for a
   report about the old one). The dialed worker has the stream at once, the dialer with the answer,
   which waits while its direction is silent.

   Property (ltl end, over all infinite runs): from some moment on, every live worker is in a working
   generation — its members are linked and in it, and each pair has a data stream that passes data in
   both directions — or is kept out of one by a missing connection or a silent direction (it retries,
   then gives up: rule 8); and no two working generations could be one. Since faults are finite and
   time always advances, this is liveness with one fairness assumption: messages arrive. Not modelled:
   first generations, restarts (simulator), bans after two drops, frozen trainers, steps during which
   no worker polls, more than three workers. Environment: FAULTS, KINDS (1 links, 2 streams that are
   restored at once, 4 kills, 8 silent streams, 16 streams that are dialed again), HEAL, MINW, MUT. */
#define N 3
#define Q 6
hidden byte kinds, heal;
#define in(set, i) (((set) >> (i)) & 1)
c_code {
\#include <stdlib.h>
\#include <string.h>
static int setting(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
}
/* the state of worker i; x[i * N + j]: the state that i has about j */
byte up;                                        /* set of live processes */
byte link[N];                                   /* control connections */
byte blocked[N];                                   /* sets of workers whose data does not arrive at i */
byte data[9];                                   /* state of the data stream with j at i: enum data_state */
byte events[N];                                   /* sets of unnoticed events: the stream with j has closed (if up at i), or j has answered (if not) */
byte reported[N];                                /* sets of workers whose last heartbeat reports no data with i */
byte beatless[9];                                /* ticks without a beat on the stream, in a generation */
byte conn[N], prom[N], excl[N], act[N], last[N], lset[N], high[N], pset[N], pgot[N], need[N];
byte vreach[9], vact[9], vprom[9], fresh[N];
byte promise_age[N], pending_age[N], backoff[N], doublings[N], differs_age[N], fresh_age[N], silent[9];
byte broken_age[N];                             /* ticks since the generation worked; 10: has no effect any more */
byte due;                                       /* set of workers with an expired timer at this tick */
byte queued[9], q[270];                            /* messages from i to j, of 5 bytes: kind and content */
byte ready[N], dials[N];                                                /* sets of peers whose events i can notice, and which it can dial */
bool quiet, steady;                             /* only time can advance; ... or events of data streams are noticed */
byte faults;
byte drawing;                                       /* 1 + index of the worker whose back-off is to be drawn */

c_code {
enum { BEAT = 1, PROPOSE, PROMISE, BUSY, BEGIN, UP, DOWN };
enum data_state { DATA_NONE, DATA_UP, DATA_BROKEN, DATA_BAD };
enum { NO_SUSPEND = 1, ENDLESS_BACKOFF, WITHOUT_OTHERS, EMPTY_START, NOT_STICKY, NO_DIFFERENCE, NO_RETRY, NO_ANSWER_TIMEOUT,
       CONTROL_ONLY, NEVER_RENEWED, IGNORE_REPORT, NO_BEATS };
static int mut, minw, trace;
enum { SILENT = 16 }; /* ticks */
#define BIT(i) (1 << (i))
#define HAS(s, i) (((s) >> (i)) & 1)
#define SIZE(s) __builtin_popcount(s)
#define V(a, i, j) now.a[(i) * N + (j)]
static void consider(int i);
static int is_reachable(int i, int j) { /* rule 1 */
    return j != i && HAS(now.conn[i], j) && (mut == CONTROL_ONLY || V(data, i, j) == DATA_UP || V(data, i, j) == DATA_BROKEN);
}
static int reachable(int i) { return is_reachable(i, 0) | is_reachable(i, 1) << 1 | is_reachable(i, 2) << 2; }
static int member(int i, int j) { return j != i && now.act[i] && HAS(now.lset[i], j); }
static int no_data(int i) {
    int set = 0;
    for (int j = 0; j < N; j++) if (HAS(now.conn[i], j) && V(data, i, j) == DATA_BAD) set |= BIT(j);
    return set;
}
static void queue_message(int from, int to, int kind, int a, int b, int c, int d) {
    int p = from * N + to;
    if (kind == BEAT && now.queued[p] && now.q[p * 30 + (now.queued[p] - 1) * 5] == BEAT) now.queued[p]--; /* replaces a heartbeat that is last in the queue */
    if (now.queued[p] >= Q) { printf("a queue is full\n"); exit(9); }
    unsigned char *m = &now.q[p * 30 + now.queued[p]++ * 5];
    m[0] = kind; m[1] = a; m[2] = b; m[3] = c; m[4] = d;
}
static void send_heartbeats(int i) {
    for (int j = 0; j < N; j++) if (j != i && HAS(now.conn[i], j)) queue_message(i, j, BEAT, reachable(i) | no_data(i) << 3, now.act[i], now.prom[i], now.high[i]);
}
static int lists(int i, int a, int b) { return a == i ? is_reachable(i, b) : HAS(V(vreach, i, a), b); }
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
    int set = works(i) && mut != EMPTY_START ? now.lset[i] : 0;
    if (mut == WITHOUT_OTHERS) return BIT(i);
    for (int newcomers = 0; newcomers < 2; newcomers++) /* members of the last generation first */
        for (int j = 0; j < N; j++) {
            if (j == i || HAS(set, j) || HAS(now.lset[i], j) == newcomers || !linked(i, i, j) || V(silent, i, j)) continue;
            int all = 1;
            for (int k = 0; k < N; k++) if (HAS(set, k) && k != i && !linked(i, j, k)) all = 0;
            if (all) set |= BIT(j);
        }
    return set | BIT(i);
}
/* ---- data streams: member_data.c and mesh_streams.c; the higher index dials ---- */
static void set_data(int i, int j, int state) {
    int old_report = reachable(i) | no_data(i) << 3;
    V(data, i, j) = state;
    now.events[i] &= ~BIT(j);
    if (old_report != (reachable(i) | no_data(i) << 3)) send_heartbeats(i);
}
static void lose_stream(int i, int j, int work) { /* i has lost its stream with j */
    if (V(data, i, j) == DATA_UP) set_data(i, j, now.last[i] && HAS(now.lset[i], j) ? DATA_BROKEN : DATA_NONE);
    if (work && member(i, j)) now.need[i] = 1;
}
static void close_stream(int i, int j) { /* j does not notice if its direction is silent */
    lose_stream(i, j, 0);
    if (V(data, j, i) == DATA_UP && !HAS(now.blocked[j], i)) now.events[j] |= BIT(i);
}
static void abandon_stream(int i, int j) {
    if (mut != NEVER_RENEWED) close_stream(i, j);
    if (member(i, j)) now.need[i] = 1;
    set_data(i, j, DATA_BAD);
}
static int beats_arrive(int i, int j) { return V(data, i, j) == DATA_UP && V(data, j, i) == DATA_UP && !HAS(now.blocked[i], j); }
static int overdue(int i, int j) { return member(i, j) && V(data, i, j) != DATA_BAD && V(beatless, i, j) >= SILENT && mut != NO_BEATS; }
static void check_data(int i) {
    for (int j = 0; j < N; j++) if (overdue(i, j) && HAS(now.conn[i], j) && V(vact, i, j) == now.last[i]) abandon_stream(i, j);
}
static int may_dial(int d, int a) { /* the dialer has no stream, both directions work, and all messages have arrived */
    if (d <= a || !HAS(now.up, a) || !HAS(now.up, d) || V(data, d, a) == DATA_UP || HAS(now.events[d], a)) return 0;
    if (now.queued[d * N + a] || now.queued[a * N + d]) return 0;
    return !HAS(now.blocked[a], d) && !HAS(now.blocked[d], a) && !(mut == NEVER_RENEWED && V(data, d, a) == DATA_BAD);
}
static void dial(int d, int a) { /* d greets a, which replaces its stream and answers */
    lose_stream(a, d, 1);
    set_data(a, d, DATA_UP);
    now.events[d] |= BIT(a);
    consider(a);
}
static int noticeable(int i, int j) { return HAS(now.events[i], j) && (V(data, i, j) == DATA_UP || !HAS(now.blocked[i], j)); }
static void notice(int i, int j) {
    now.events[i] &= ~BIT(j);
    if (V(data, i, j) == DATA_UP) lose_stream(i, j, 1);
    else if (V(data, j, i) == DATA_UP) set_data(i, j, DATA_UP); /* otherwise the stream has closed again */
    consider(i);
}
static void suspend(int i) { now.act[i] = 0; send_heartbeats(i); }
static void promise(int i, int id) {
    now.prom[i] = id; now.promise_age[i] = 0; now.excl[i] = 1;
    if (id / 4 > now.high[i]) now.high[i] = id / 4;
    if (now.act[i]) suspend(i);
}
static void enter_generation(int i, int id, int set) {
    now.last[i] = now.act[i] = id; now.lset[i] = set; now.need[i] = 0; now.doublings[i] = 0; now.pset[i] = now.pgot[i] = 0; now.differs_age[i] = 0;
    now.fresh[i] = now.conn[i]; now.fresh_age[i] = 0;
    for (int j = 0; j < N; j++) {
        V(beatless, i, j) = 0;
        if (V(data, i, j) == DATA_BROKEN && !HAS(set, j)) V(data, i, j) = DATA_NONE;
    }
    send_heartbeats(i);
}
static void begin(int i) {
    int id = now.prom[i], set = now.pset[i];
    for (int j = 0; j < N; j++) if (j != i && HAS(set, j) && HAS(now.conn[i], j)) queue_message(i, j, BEGIN, id, set, 0, 0);
    enter_generation(i, id, set);
}
static void propose(int i, int set) {
    promise(i, (now.high[i] + 1) * 4 + i);
    now.pset[i] = set; now.pgot[i] = BIT(i); now.pending_age[i] = 0;
    for (int j = 0; j < N; j++) if (j != i && HAS(set, j)) queue_message(i, j, PROPOSE, now.prom[i], set, 0, 0);
    if (SIZE(set) == 1) begin(i);
}
static int differs(int i) {
    for (int j = 0; j < N; j++)
        if (j != i && now.act[i] && HAS(now.lset[i], j) && is_reachable(i, j) && (V(vact, i, j) != now.last[i] || V(vprom, i, j) > now.last[i])) return 1;
    return 0;
}
static void consider(int i) {
    check_data(i);
    if (works(i)) now.broken_age[i] = now.lset[i] == 7 ? 10 : 0;
    if (now.pset[i] && (now.pset[i] & ~now.pgot[i] & ~reachable(i))) now.pset[i] = now.pgot[i] = 0;
    if (now.pset[i] && now.pending_age[i] >= 3 && mut != NO_ANSWER_TIMEOUT) {
        for (int j = 0; j < N; j++) if (HAS(now.pset[i] & ~now.pgot[i], j)) V(silent, i, j) = 13;
        now.pset[i] = now.pgot[i] = 0;
    }
    if (!differs(i)) now.differs_age[i] = 0;
    int set = set_of(i), old = differs(i) && now.differs_age[i] >= 5 && mut != NO_DIFFERENCE;
    if (now.act[i] && ((now.need[i] && mut != NO_SUSPEND) || SIZE(set) < minw)) suspend(i);
    if (now.pset[i] || now.backoff[i] || now.drawing == 1 + i) return;
    if ((set & (BIT(i) - 1)) || SIZE(set) < minw) return;
    if (now.act[i] && set == now.lset[i] && !now.need[i] && !old) return;
    int others = now.prom[i] && !now.act[i] && now.prom[i] % 4 != i;
    if (others && now.excl[i] && (now.promise_age[i] < 5 || mut == NO_RETRY)) return;
    propose(i, set);
}
static int displaces(int i, int set) { /* the set replaces a member that is linked with all named members by a newcomer */
    int named = set & now.lset[i], yes = 0;
    for (int j = 0; j < N && named != set; j++) {
        int all = j != i && HAS(now.lset[i] & ~named, j);
        for (int k = 0; k < N; k++) if (HAS(named, k) && all) all = linked(i, j, k);
        yes |= all;
    }
    return yes;
}
static int rejects(int i, int from, int id, int set) {
    if (id < now.prom[i]) return 1;
    int to = now.prom[i] % 4;
    if (now.prom[i] && now.excl[i] && to != from && to < from && now.promise_age[i] < 10) return 1;
    for (int j = 0; mut != NOT_STICKY && works(i) && j < N; j++) if (HAS(now.lset[i], j) && j != i && !HAS(set, j) && linked(i, i, j)) return 1;
    if (!works(i) && now.broken_age[i] < 10 && displaces(i, set)) return 1;
    return 0;
}
static void store_view(int i, int from, const unsigned char *m) {
    V(vreach, i, from) = m[1] & 7; V(vact, i, from) = m[2]; V(vprom, i, from) = m[3];
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
        if ((m[1] & 7) != V(vreach, i, from) && mut != ENDLESS_BACKOFF) now.backoff[i] = 0;
        store_view(i, from, m);
        if (!HAS(m[1] >> 3, i)) now.reported[i] &= ~BIT(from);
        else if (!HAS(now.reported[i], from)) {
            now.reported[i] |= BIT(from);
            if (V(data, i, from) != DATA_BAD && mut != IGNORE_REPORT) abandon_stream(i, from);
        }
        break;
    case UP:
        now.conn[i] |= BIT(from);
        store_view(i, from, m);
        send_heartbeats(i);
        break;
    case DOWN:
        now.conn[i] &= ~BIT(from);
        V(vreach, i, from) = V(vact, i, from) = V(vprom, i, from) = V(silent, i, from) = 0;
        now.fresh[i] &= ~BIT(from);
        if (now.prom[i] % 4 == from) now.excl[i] = 0;
        send_heartbeats(i);
        break;
    case PROPOSE:
        if (id == now.prom[i]) break;
        if (id / 4 > now.high[i]) now.high[i] = id / 4;
        if (rejects(i, from, id, m[2])) { queue_message(i, from, BUSY, id, now.high[i], 0, 0); break; }
        now.pset[i] = now.pgot[i] = 0;
        promise(i, id);
        queue_message(i, from, PROMISE, id, 0, 0, 0);
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
        now.drawing = 1 + i;
        break;
    case BEGIN:
        if (id == now.prom[i] && !(now.act[i] && now.last[i] == id) && !now.pset[i]) enter_generation(i, id, m[2]);
        break;
    }
    consider(i);
}
/* Only the order of ids and which numbers are consecutive matter: keeps the state space finite. */
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
    if (before > 60) { printf("too many numbers\n"); exit(9); }
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
/* Advances time by 100 ms. Ages stop at the last value that has an effect. */
static void tick(void) {
    for (int i = 0; i < N; i++) {
        int expired = 0;
        if (!HAS(now.up, i)) continue;
        if (now.pset[i]) expired |= ++now.pending_age[i] >= 3; else now.pending_age[i] = 0;
        if (now.backoff[i] && mut != ENDLESS_BACKOFF) expired |= --now.backoff[i] == 0;
        if (now.prom[i] && now.promise_age[i] < 10) { now.promise_age[i]++; expired |= now.promise_age[i] == 5; }
        if (!differs(i)) now.differs_age[i] = 0;
        else if (now.differs_age[i] < 5) expired |= ++now.differs_age[i] == 5;
        if (now.broken_age[i] < 10 && !works(i)) now.broken_age[i]++;
        if (now.fresh[i] && ++now.fresh_age[i] >= 5) { now.fresh[i] = 0; expired = 1; }
        if (!now.fresh[i]) now.fresh_age[i] = 0;
        for (int j = 0; j < N; j++) {
            if (V(silent, i, j)) expired |= --V(silent, i, j) == 0;
            if (!member(i, j) || !HAS(now.up, j) || V(data, i, j) == DATA_BAD || beats_arrive(i, j)) V(beatless, i, j) = 0;
            else if (V(beatless, i, j) < SILENT) expired |= ++V(beatless, i, j) == SILENT;
        }
        if (expired) now.due |= BIT(i);
    }
}
static void connection(int i, int j, int on) {
    int both[2] = {i, j};
    now.link[i] ^= BIT(j); now.link[j] ^= BIT(i);
    for (int k = 0; k < 2; k++) {
        int a = both[k], b = both[1 - k], p = a * N + b;
        if (!on) { /* messages in flight are lost, also UP: then no DOWN follows */
            now.queued[p] = 0;
            if (HAS(now.conn[b], a)) queue_message(a, b, DOWN, 0, 0, 0, 0);
        } else queue_message(a, b, UP, reachable(a), now.act[a], now.prom[a], now.high[a]);
    }
}
static void kill_worker(int i) {
    for (int j = 0; j < N; j++)
        if (j != i && HAS(now.link[i], j)) { connection(i, j, 0); now.queued[j * N + i] = 0; }
    now.up &= ~BIT(i); now.due &= ~BIT(i); if (now.drawing == 1 + i) now.drawing = 0;
    now.conn[i] = now.blocked[i] = now.events[i] = now.reported[i] = 0;
    now.prom[i] = now.act[i] = now.last[i] = now.lset[i] = now.high[i] = now.pset[i] = now.pgot[i] = now.need[i] = 0;
    now.excl[i] = now.fresh[i] = now.promise_age[i] = now.pending_age[i] = now.backoff[i] = now.doublings[i] = now.differs_age[i] = now.fresh_age[i] = now.broken_age[i] = 0;
    for (int j = 0; j < N; j++) V(vreach, i, j) = V(vact, i, j) = V(vprom, i, j) = V(silent, i, j) = V(data, i, j) = V(beatless, i, j) = now.queued[j * N + i] = 0;
    for (int j = 0; j < N; j++) {
        V(beatless, j, i) = 0;
        now.blocked[j] &= ~BIT(i); now.events[j] &= ~BIT(i); now.reported[j] &= ~BIT(i);
    }
}
static int reaches(int i, int j) { return i == j || (HAS(now.link[i], j) && !HAS(now.blocked[i], j) && !HAS(now.blocked[j], i)); } /* by control and data */
static int clique(int set) {
    for (int i = 0; i < N; i++) for (int j = 0; j < i; j++) if (HAS(set, i) && HAS(set, j) && !reaches(i, j)) return 0;
    return 1;
}
static int at_work(int i) { /* the generation of i works, by global knowledge */
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
static void break_stream(int i, int j) { /* i notices, and j if its direction works */
    close_stream(i, j);
    now.need[i] = 1; now.due |= BIT(i);
}
static void find_enabled(void) { /* updates the enabled events */
    int messages = 0, events = 0, dials = 0;
    for (int i = 0; i < N; i++) {
        now.ready[i] = now.dials[i] = 0;
        for (int j = 0; j < N; j++) {
            if (noticeable(i, j)) now.ready[i] |= BIT(j);
            if (may_dial(i, j)) now.dials[i] |= BIT(j);
            messages |= now.queued[i * N + j];
        }
        events |= now.ready[i]; dials |= now.dials[i];
    }
    now.quiet = !now.due && !now.drawing && !messages && !events && !dials;
    now.steady = now.quiet || (events && !now.drawing);
}
/* TRACE=1 ./pan -r: prints each event with the state after it */
static void trace_event(const char *what, int a, int b) {
    if (!trace) return;
    printf("%s %d %d:", what, a, b);
    for (int i = 0; i < N; i++)
        printf("  [%d] reachable %d blocked %d data %d%d%d events %d beatless %d.%d.%d act %d promised %d.%d age %d pending %d back-off %d need %d views %d.%d %d.%d %d.%d",
               i, reachable(i), now.blocked[i], V(data, i, 0), V(data, i, 1), V(data, i, 2), now.events[i], V(beatless, i, 0), V(beatless, i, 1), V(beatless, i, 2), now.act[i],
               now.prom[i] / 4,
               now.prom[i] % 4, now.promise_age[i], now.pset[i], now.backoff[i], now.need[i], V(vact, i, 0), V(vreach, i, 0), V(vact, i, 1), V(vreach, i, 1),
               V(vact, i, 2), V(vreach, i, 2));
    printf("  good %d\n", good());
}
static void start(void) {
    trace = setting("TRACE");
    mut = setting("MUT"); heal = setting("HEAL") ? setting("HEAL") : 6;
    minw = setting("MINW") ? setting("MINW") : 1; kinds = setting("KINDS") ? setting("KINDS") : 7; now.faults = setting("FAULTS");
    now.up = 7;
    for (int i = 0; i < N; i++) {
        now.link[i] = now.conn[i] = 7 & ~BIT(i); now.prom[i] = now.act[i] = now.last[i] = 4; now.lset[i] = 7; now.high[i] = 1; now.promise_age[i] = now.broken_age[i] = 10;
        for (int j = 0; j < N; j++) if (j != i) { V(vreach, i, j) = 7 & ~BIT(j); V(vact, i, j) = V(vprom, i, j) = 4; V(data, i, j) = DATA_UP; }
    }
}
}
bool isgood = 1;
#define DONE(what, i, j) c_code { renumber(); find_enabled(); now.isgood = good(); trace_event(what, i, j); }
#define MESSAGE(i, j) :: d_step { queued[i * N + j] && !drawing -> c_code { handle(i, j); }; DONE("message", i, j) }
#define DUE(i) :: d_step { in(due, i) && !drawing -> c_code { now.due &= ~BIT(i); consider(i); }; DONE("due", i, i) }
#define PAIR(i, j) \
  :: d_step { faults && !drawing && (kinds & 1) && in(up, i) && in(up, j) -> c_code { now.faults--; connection(i, j, !HAS(now.link[i], j)); }; DONE("link", i, j) }
#define STREAM(i, j) \
  :: d_step { faults && !drawing && (kinds & 16) && act[i] && in(lset[i], j) && data[i * N + j] == 1 -> c_code { now.faults--; break_stream(i, j); }; DONE("breaks", i, j) } \
  :: d_step { quiet && in(blocked[i], j) && doublings[0] <= heal && doublings[1] <= heal && doublings[2] <= heal -> \
    c_code { now.blocked[i] &= ~BIT(j); }; DONE("healed", i, j) } \
  :: d_step { !drawing && in(ready[i], j) -> c_code { notice(i, j); }; DONE("notices", i, j) }
#define BLOCK(i, j, both) \
  :: d_step { faults && steady && (kinds & 8) && in(up, i) && in(up, j) && !in(blocked[i], j) && !(both && in(blocked[j], i)) -> \
    c_code { now.faults--; now.blocked[i] |= BIT(j); if (both) now.blocked[j] |= BIT(i); }; DONE("blocked", i, j) }
#define SILENCE(i, j) BLOCK(i, j, 0) BLOCK(j, i, 0) BLOCK(i, j, 1) \
  :: d_step { !drawing && in(dials[j], i) -> c_code { dial(j, i); }; DONE("dials", j, i) }
#define WORKER(i) \
  :: d_step { faults && !drawing && (kinds & 2) && act[i] && (lset[i] & (lset[i] - 1)) -> c_code { now.faults--; now.need[i] = 1; now.due |= BIT(i); }; DONE("broken", i, i) } \
  :: d_step { faults && !drawing && (kinds & 4) && in(up, i) && up != (1 << i) -> c_code { now.faults--; kill_worker(i); }; DONE("killed", i, i) }
#define DRAW(n) :: d_step { drawing -> c_code { int i = now.drawing - 1, t = n << now.doublings[i]; now.drawing = 0; now.backoff[i] = t > 30 ? 30 : t; \
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
