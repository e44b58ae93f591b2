/* Membership in a large ring and on an overloaded machine, on virtual time: messages per change,
 * when to dial, and ticks that are late. */
#include "base/clock.h"
#include "base/mem.h"
#include "collective/allreduce_schedule.h"
#include "membership/member.h"
#include "tests/t.h"

#define handle(m, ...) qr_member_handle(m, now_ns, &(struct qr_member_event){__VA_ARGS__})
enum { N = 32 };
static char names[N][8];
static const char *peers[N];
static struct qr_member *m;
static int64_t now_ns;
static unsigned n_heartbeats, n_dials, n_silent, n_closed, n_begun, n_suspended, n_promised;
static unsigned heartbeats[N];            /* by peer index, which is the connection modulo N */
static unsigned n_later[N], n_streams[N]; /* requests for data streams, by peer index */
static int64_t form_timeout_ns = 600 * QR_SECOND;

static void emit(void *ctx, const struct qr_member_action *a) {
    (void)ctx;
    bool heartbeat = a->kind == QR_ACT_SEND && a->message->kind == QR_MESSAGE_HEARTBEAT;
    n_heartbeats += heartbeat;
    heartbeats[a->conn % N] += heartbeat;
    n_begun += a->kind == QR_ACT_BEGIN;
    n_suspended += a->kind == QR_ACT_SUSPEND;
    n_promised += a->kind == QR_ACT_SEND && a->message->kind == QR_MESSAGE_PROMISE;
    n_dials += a->kind == QR_ACT_DIAL;
    n_closed += a->kind == QR_ACT_CLOSE;
    if (a->kind == QR_ACT_PEER) (a->later ? n_later : n_streams)[a->index]++;
    n_silent += a->kind == QR_ACT_LOG && strstr(a->text, "silent for");
}

static void start_member(uint32_t index) {
    struct qr_member_options o = {.run = "r",
                                  .contract = "c",
                                  .index = index,
                                  .incarnation = {1},
                                  .n_peers = N,
                                  .peers = peers,
                                  .count_known = true,
                                  .form_timeout_ns = form_timeout_ns,
                                  .seed = 1};
    qr_member_free(m);
    m = qr_member_new(&o, emit, NULL);
    now_ns = QR_SECOND;
    n_heartbeats = n_dials = n_silent = n_closed = n_begun = n_suspended = n_promised = 0;
    memset(n_later, 0, sizeof n_later);
    memset(n_streams, 0, sizeof n_streams);
    handle(m, .kind = QR_EVENT_START);
}

static uint32_t conn_of(uint32_t index) { return index ? index : N; }

static void send_hello_in(uint32_t index, enum qr_phase phase) {
    struct qr_message *msg = qr_xcalloc(1, sizeof *msg);
    msg->kind = QR_MESSAGE_HELLO;
    msg->hello = (struct qr_hello){.protocol_min = QR_PROTOCOL_MIN,
                                   .protocol_max = QR_PROTOCOL_MAX,
                                   .contract = "c",
                                   .run = "r",
                                   .index = index,
                                   .phase = phase,
                                   .incarnation = {1, (uint8_t)index}};
    handle(m, .kind = QR_EVENT_UP, .conn = conn_of(index));
    handle(m, .kind = QR_EVENT_MESSAGE, .conn = conn_of(index), .message = msg);
    free(msg);
}
static void send_hello(uint32_t index) { send_hello_in(index, QR_PHASE_STARTING); }
static void send_data_up(uint32_t index) {
    handle(m, .kind = QR_EVENT_DATA_UP, .index = index,
           .incarnation = (uint8_t[QR_INCARNATION_BYTES]){1, (uint8_t)index});
}

static void pass_time(int64_t ns) {
    for (int64_t end_ns = now_ns + ns; now_ns < end_ns;) {
        int64_t due_ns = qr_member_deadline_ns(m);
        now_ns = due_ns < end_ns ? due_ns : end_ns;
        handle(m, .kind = QR_EVENT_TICK);
    }
}

/* Changes are batched: one message for each change and peer would be 31 * 31. */
static void test_changes_are_batched(void) {
    start_member(0);
    for (uint32_t i = 1; i < N; i++) send_hello(i);
    for (uint32_t i = 1; i < N; i++) send_data_up(i);
    pass_time(100 * QR_MS);
    CHECK(n_heartbeats <= 3 * N && n_heartbeats >= N - 1, "%u heartbeats", n_heartbeats);
}

/* The higher index dials. The lower one dials only later, in a large ring much later, because a
 * second connection costs as much as the first. */
static void test_dials_after_the_newcomers(void) {
    start_member(0);
    for (uint32_t i = 1; i < 30; i++) {
        pass_time(100 * QR_MS);
        send_hello(i);
    }
    CHECK(n_dials == 0, "%u dials while newcomers connect", n_dials);
    pass_time(1100 * QR_MS);
    CHECK(n_dials == 0, "%u dials a second after the last of 29", n_dials);
    pass_time(QR_SECOND);
    CHECK(n_dials == 2, "%u dials of two absent peers", n_dials);
}

static void test_late_ticks_are_no_silence(void) {
    start_member(0);
    for (uint32_t i = 1; i < N; i++) send_hello(i);
    for (int i = 0; i < 50; i++) {
        now_ns += 400 * QR_MS; /* 150 ms after the deadline */
        handle(m, .kind = QR_EVENT_TICK);
    }
    CHECK(n_silent == 0 && n_closed == 0, "%u silent, %u closed", n_silent, n_closed);
    pass_time(QR_SECOND); /* on time again */
    CHECK(n_silent == 0, "%u silent", n_silent);
    /* Silent after 5 intervals of 986 ms, closed after 16. */
    pass_time(INT64_C(3800) * QR_MS);
    CHECK(n_silent == 0, "%u silent", n_silent);
    pass_time(200 * QR_MS);
    CHECK(n_silent == N - 1 && n_closed == 0, "%u silent, %u closed", n_silent, n_closed);
    pass_time(11 * QR_SECOND);
    CHECK(n_closed == N - 1, "%u closed", n_closed);
}

/* Before the first generation the interval grows by 32 ms for each peer beyond eight: 250 + 23 * 32
 * ms. */
static void test_heartbeats_of_a_large_ring_that_forms(void) {
    start_member(0);
    for (uint32_t i = 1; i < N; i++) send_hello(i);
    pass_time(QR_SECOND);
    unsigned before = n_heartbeats;
    for (int i = 0; i < 10; i++) {
        for (uint32_t k = 1; k < N; k++)
            handle(m, .kind = QR_EVENT_MESSAGE, .conn = k,
                   .message = &(struct qr_message){.kind = QR_MESSAGE_BUSY});
        pass_time(986 * QR_MS);
    }
    CHECK(n_heartbeats - before == 10 * (N - 1), "%u heartbeats in ten turns",
          n_heartbeats - before);
}

/* While a ring forms, peers come one after the other: the proposer is told of each, others get the
 * news with the next heartbeat. */
static void test_news_while_a_ring_forms(void) {
    start_member(N - 1);
    for (uint32_t i = 0; i < N - 1; i++) {
        if (i == 16) memset(heartbeats, 0, sizeof heartbeats);
        send_hello(i);
        pass_time(100 * QR_MS);
    }
    CHECK(heartbeats[0] == 15, "%u to the proposer after 15 newcomers", heartbeats[0]);
    for (uint32_t i = 1; i < 16; i++)
        CHECK(heartbeats[i] <= 4, "%u to worker %u in 1.5 s", heartbeats[i], i);
}

static void send_message(uint32_t from, const struct qr_message *msg) {
    handle(m, .kind = QR_EVENT_MESSAGE, .conn = conn_of(from), .message = msg);
}

static uint64_t polled_ms; /* reported by heartbeats */
/* listed: it lists worker 5, which is this one. */
static void send_heartbeat_in(uint32_t from, uint32_t interval_ms, enum qr_phase phase,
                              bool listed) {
    static struct qr_message msg;
    static uint64_t sequence;
    struct qr_heartbeat *h = &msg.heartbeat;
    msg.kind = QR_MESSAGE_HEARTBEAT;
    *h = (struct qr_heartbeat){.sequence = ++sequence,
                               .incarnation = {1, (uint8_t)from},
                               .phase = phase,
                               .polled_ms = polled_ms,
                               .interval_ms = interval_ms};
    if (phase == QR_PHASE_MEMBER) h->active = h->promised = (struct qr_gen_id){1, 0, {1, 0}};
    for (uint32_t i = 0; i < N; i++) {
        if (i == from || (i == 5 && !listed)) continue;
        h->heard[h->n_heard].index = i;
        h->heard[h->n_heard++].incarnation[0] = 1;
        if (i != 5) h->heard[h->n_heard - 1].incarnation[1] = (uint8_t)i;
    }
    send_message(from, &msg);
}
static void send_heartbeat(uint32_t from, uint32_t interval_ms) {
    send_heartbeat_in(from, interval_ms, QR_PHASE_MEMBER, true);
}

static struct qr_message propose = {.kind = QR_MESSAGE_PROPOSE};

/* Proposes generation `number` of worker `from` and all higher ones except `without`. */
static void send_propose(uint64_t number, uint32_t from, uint32_t without) {
    struct qr_propose *p = &propose.propose;
    *p = (struct qr_propose){.id = {number, from, {1, (uint8_t)from}}};
    for (uint32_t i = from; i < N; i++)
        if (i != without)
            p->member[p->n_members++] =
                (struct qr_member_name){.index = i, .incarnation = {1, i == 5 ? 0 : (uint8_t)i}};
    send_message(from, &propose);
}

/* Sends the Begin of the last proposal. */
static void send_begin(void) {
    static struct qr_message begun = {.kind = QR_MESSAGE_BEGIN};
    const struct qr_propose *p = &propose.propose;
    begun.begin = (struct qr_begin){
        .id = p->id, .n_members = p->n_members, .common = {.epochs = 1, .min_workers = 1}};
    for (uint32_t r = 0; r < p->n_members; r++) begun.begin.member[r].name = p->member[r];
    send_message(p->id.index, &begun);
}

/* Worker 5 in a generation of 32 that worker 0 leads. No peer has reported a link yet: the Begin
 * implies all of them. */
static void begin_generation(void) {
    start_member(5);
    for (uint32_t i = 0; i < N; i++)
        if (i != 5) send_hello(i);
    for (uint32_t i = 0; i < N; i++)
        if (i != 5) send_data_up(i);
    send_propose(1, 0, N);
    send_begin();
    pass_time(QR_MS);
    CHECK(n_begun == 1 && n_suspended == 0, "%u generations, %u suspended", n_begun, n_suspended);
}

/* Every 250 ms to and from the leader and between neighbours, 986 ms between others: 1750
 * heartbeats a second in a ring of 32 instead of 3970. */
static void test_heartbeats_of_a_large_ring_that_works(void) {
    begin_generation();
    unsigned n_near = 0;
    for (uint32_t i = 0; i < N; i++) {
        if (i != 5) send_heartbeat(i, qr_schedule_pairs(N, 5, i) ? 250 : 986);
        n_near += qr_schedule_pairs(N, 5, i);
    }
    pass_time(QR_SECOND / 2);
    memset(heartbeats, 0, sizeof heartbeats);
    for (int k = 0; k < 40; k++) {
        pass_time(250 * QR_MS);
        for (uint32_t i = 0; i < N; i++)
            if (i != 5 && (i == 0 || k % 2))
                send_heartbeat(i, qr_schedule_pairs(N, 5, i) ? 250 : 986);
    }
    for (uint32_t i = 0; i < N; i++) {
        unsigned least = qr_schedule_pairs(N, 5, i) ? 40 : 10;
        CHECK(i == 5 || heartbeats[i] == least || (least == 10 && heartbeats[i] == 11),
              "%u to worker %u in 10 s", heartbeats[i], i);
    }
    CHECK(n_silent == 0 && n_begun == 1, "%u silent", n_silent);
    /* The announced interval applies: worker 8 and the neighbours are silent after 1.25 s, the
     * others after 4.93 s. */
    CHECK(n_near == 7 && !qr_schedule_pairs(N, 5, 8));
    send_heartbeat(8, 250);
    pass_time(1300 * QR_MS);
    CHECK(n_silent == n_near + 1, "%u silent", n_silent);
    pass_time(INT64_C(3500) * QR_MS);
    CHECK(n_silent == n_near + 1, "%u silent", n_silent);
    pass_time(200 * QR_MS);
    CHECK(n_silent == N - 1, "%u silent", n_silent);
}

/* A peer of a version without intervals has a fixed silence timeout of 1.25 s. */
static void test_heartbeats_to_an_old_version(void) {
    begin_generation();
    send_heartbeat(8, 0);
    pass_time(QR_SECOND);
    memset(heartbeats, 0, sizeof heartbeats);
    pass_time(QR_SECOND);
    CHECK(heartbeats[8] == 4 && heartbeats[9] <= 2, "%u and %u", heartbeats[8], heartbeats[9]);
}

/* The leader has removed worker 3 already. The later silence of worker 3 here must not count as a
 * second loss, which would bar its proposals. */
static void test_one_loss_counts_once(void) {
    begin_generation();
    send_propose(2, 0, 3);
    send_begin();
    CHECK(n_begun == 2, "%u generations", n_begun);
    for (int i = 0; i < 100 && n_silent < N - 1; i++) pass_time(50 * QR_MS);
    CHECK(n_silent == N - 1, "%u silent", n_silent);
    unsigned before = n_promised;
    send_propose(1000, 3, N); /* greater than any number proposed here */
    CHECK(n_promised == before + 1, "%u promises", n_promised - before);
}

/* Worker 5 of 32, with all workers answering; it dials 0 to 4, and passes no data to 2 and 3. */
static void start_with_streams_left(void) {
    start_member(5);
    for (uint32_t i = 0; i < N - 1; i++)
        if (i != 5) send_hello(i);
    pass_time(QR_SECOND);
    send_hello(N - 1);
    for (uint32_t i = 0; i < N; i++) {
        bool left = i == 2 || i == 3;
        CHECK(i == 5 || (n_later[i] == left && n_streams[i] == !left), "worker %u: %u %u", i,
              n_later[i], n_streams[i]);
        if (i != 5 && qr_schedule_pairs(N, 5, i)) send_data_up(i);
    }
}
static void pass_with_heartbeats(int64_t ns, bool listed) {
    for (; ns > 0; ns -= 100 * QR_MS) {
        for (uint32_t i = 0; i < N; i++)
            if (i != 5) send_heartbeat_in(i, 986, QR_PHASE_STARTING, listed || (i != 2 && i != 3));
        pass_time(100 * QR_MS);
    }
}
static unsigned n_streams_left(void) { return n_streams[2] + n_streams[3]; }

/* A stream over which the first generation passes no data is dialed after its Begin, one stream in
 * 986 ms, and when the one before is up or 3 s have passed. */
static void test_streams_left_for_later(bool first_comes_up) {
    start_with_streams_left();
    pass_with_heartbeats(10 * QR_SECOND, true);
    CHECK(n_streams_left() == 0 && !qr_member_awaits_data(m), "%u dials", n_streams_left());
    send_propose(1, 0, N);
    CHECK(n_promised == 1);
    send_begin();
    CHECK(n_begun == 1);
    for (unsigned k = 0; k < 3; k++) {
        CHECK(n_streams_left() == (k > 0), "%u dials after %u s", n_streams_left(), k);
        for (int turn = 0; turn < 10; turn++) {
            for (uint32_t i = 0; i < N; i++)
                if (i != 5) send_heartbeat(i, 250);
            pass_time(100 * QR_MS);
        }
    }
    CHECK(n_streams_left() == 1 && n_suspended == 0 && qr_member_awaits_data(m));
    if (first_comes_up) send_data_up(n_streams[2] ? 2 : 3);
    pass_time(QR_MS);
    CHECK(n_streams_left() == (first_comes_up ? 2 : 1));
    pass_time(QR_SECOND + QR_MS);
    CHECK(n_streams_left() == 2, "%u dials 3 s after the first", n_streams_left());
    unsigned before = n_heartbeats;
    for (uint32_t i = 0; i < N; i++)
        if (i != 5) send_data_up(i);
    CHECK(!qr_member_awaits_data(m));
    CHECK(n_heartbeats == before, "no link has changed: %u heartbeats", n_heartbeats - before);
}

/* A generation that needs such a stream waits 3 s for it, while both poll. */
static void test_stream_left_has_time(void) {
    struct qr_poll_report report = {0};
    int64_t suspended_ns = 0;
    start_with_streams_left();
    send_propose(1, 0, N);
    send_begin();
    int64_t begun_ns = report.since_ns = now_ns;
    while (now_ns < begun_ns + 4 * QR_SECOND && !suspended_ns) {
        report.turn_ns = now_ns;
        polled_ms = (uint64_t)((now_ns - begun_ns) / QR_MS);
        for (uint32_t i = 0; i < N; i++) {
            if (i != 2) report.received_ns[i] = now_ns;
            if (i != 5) send_heartbeat(i, 250);
        }
        handle(m, .kind = QR_EVENT_TRAINER, .polled = &report);
        pass_time(100 * QR_MS);
        if (n_suspended) suspended_ns = now_ns - begun_ns;
    }
    polled_ms = 0;
    CHECK(suspended_ns >= 3 * QR_SECOND && suspended_ns <= 3 * QR_SECOND + 400 * QR_MS,
          "suspended after %.2f s", (double)suspended_ns / 1e9);
}

/* ... or when the peer needs it: a program that counts only streams that are up does not list this
 * worker; another is in a generation already. */
static void test_streams_that_a_peer_needs(void) {
    start_with_streams_left();
    pass_with_heartbeats(400 * QR_MS, false);
    CHECK(n_streams_left() == 0, "%u dials", n_streams_left());
    pass_with_heartbeats(100 * QR_MS, false);
    CHECK(n_streams_left() == 2, "%u dials of peers that do not list this worker",
          n_streams_left());
    start_with_streams_left();
    send_heartbeat_in(2, 986, QR_PHASE_MEMBER, true);
    CHECK(n_streams[2] == 1 && n_streams[3] == 0, "%u %u", n_streams[2], n_streams[3]);
    start_member(5);
    send_hello_in(2, QR_PHASE_MEMBER);
    CHECK(n_streams[2] == 1 && n_later[2] == 0, "%u %u", n_streams[2], n_later[2]);
}

/* ... or when no worker has come for half of the form timeout: not all may come, and then others
 * are neighbours. */
static void test_streams_of_an_incomplete_ring(void) {
    form_timeout_ns = 10 * QR_SECOND;
    start_with_streams_left();
    pass_with_heartbeats(INT64_C(4900) * QR_MS, true);
    CHECK(n_streams_left() == 0, "%u dials", n_streams_left());
    pass_with_heartbeats(200 * QR_MS, true);
    CHECK(n_streams_left() == 2, "%u dials half of the form timeout after the last",
          n_streams_left());
    form_timeout_ns = 600 * QR_SECOND;
}

/* Addresses reported by a peer are dialed only at the configured port and at most once a second for
 * each index. */
static void test_reported_addresses_are_limited(void) {
    struct qr_message *msg = qr_xcalloc(1, sizeof *msg);
    start_member(0);
    send_hello(1);
    msg->kind = QR_MESSAGE_ADDRESSES;
    msg->addresses.n = 1;
    msg->addresses.name[0].index = 2;
    snprintf(msg->addresses.at[0], sizeof msg->addresses.at[0], "10.0.0.9:22");
    handle(m, .kind = QR_EVENT_MESSAGE, .conn = 1, .message = msg);
    CHECK(n_dials == 0, "%u dials of another port", n_dials);
    for (int i = 0; i < 50; i++) {
        snprintf(msg->addresses.at[0], sizeof msg->addresses.at[0], "10.0.0.%d:1", i);
        handle(m, .kind = QR_EVENT_MESSAGE, .conn = 1, .message = msg);
    }
    CHECK(n_dials == 1, "%u dials at once", n_dials);
    free(msg);
}

int main(void) {
    for (uint32_t i = 0; i < N; i++) {
        snprintf(names[i], sizeof names[i], "w%u:1", i);
        peers[i] = names[i];
    }
    test_changes_are_batched();
    test_dials_after_the_newcomers();
    test_late_ticks_are_no_silence();
    test_heartbeats_of_a_large_ring_that_forms();
    test_news_while_a_ring_forms();
    test_heartbeats_of_a_large_ring_that_works();
    test_heartbeats_to_an_old_version();
    test_one_loss_counts_once();
    test_streams_left_for_later(true);
    test_streams_left_for_later(false);
    test_stream_left_has_time();
    test_streams_that_a_peer_needs();
    test_streams_of_an_incomplete_ring();
    test_reported_addresses_are_limited();
    qr_member_free(m);
    return t_end();
}
