/* Membership and data streams: a peer whose stream passes no data is not a member, but a newcomer
 * does not form a second ring beside it. */
#include "tests/support/boxes.h"

static struct box *new_box(size_t slot, uint32_t index) {
    return box((uint32_t)slot, index, 2, (uint8_t)(index + 1), fields_64);
}
/* A peer that waited 3 s for others and now computes sends no data. Its stream must not
 * be renewed. */
static void test_peer_computes_after_wait(void) {
    reset();
    struct box *a = new_box(0, 0), *b = new_box(1, 1);
    wire_up(b, a);
    pass(4 * QR_SECOND);
    int64_t t = now_ns;
    handle(b->m, .kind = QR_EVENT_TRAINER,
           .polled = &(struct qr_poll_report){
               .since_ns = t - 3 * QR_SECOND, .turn_ns = t, .received_ns = {t}});
    for (struct qr_poll_report how = {.since_ns = t, .received_ns = {[1] = t}};
         now_ns < t + 5 * QR_SECOND; pass(250 * MILLI)) {
        how.turn_ns = now_ns;
        handle(a->m, .kind = QR_EVENT_TRAINER, .polled = &how);
    }
    CHECK(a->begun && b->begun && !a->renewed && !b->renewed, "%s", a->log);
}
/* A newcomer has control connections to a ring but no data streams (long steps or a closed port).
 * It could form a ring alone and must not. */
static void test_beside_a_ring(void) {
    reset();
    few = 1;
    struct box *a = new_box(0, 0), *b = new_box(1, 1);
    wire_up(b, a);
    pass(QR_SECOND);
    struct box *c = box(2, 2, 3, 3, fields_64);
    a->data[2].held_back = b->data[2].held_back = c->data[0].held_back = c->data[1].held_back =
        true;
    wire_up(c, a), wire_up(c, b);
    pass(61 * QR_SECOND);
    CHECK(!c->begun && !c->stop, "%s", c->text);
    /* The ring regroups: for a moment no member is in a generation. */
    handle(a->m, .kind = QR_EVENT_REJECTED);
    pass(QR_SECOND);
    CHECK(!c->begun && !c->stop && a->begun && b->begun);
    pass(600 * QR_SECOND);
    CHECK(!c->begun && c->stop && c->code == QR_DEADLINE_EXCEEDED &&
              strstr(c->text, "no data connection with "),
          "%s", c->text);
    CHECK(a->begun && b->begun);
    few = 0;
}

/* A peer is silent after its goodbye while its connections stay open: its data streams are not
 * renewed. */
static void test_silence_after_goodbye(void) {
    reset();
    struct box *a = box(0, 0, 3, 1, fields_64), *b = box(1, 1, 3, 2, fields_64),
               *c = box(2, 2, 3, 3, fields_64);
    wire_up(b, a), wire_up(c, a), wire_up(c, b);
    pass(4 * QR_SECOND);
    CHECK(a->begun && b->begun && c->begun);
    handle(c->m, .kind = QR_EVENT_LEAVE, .code = QR_CANCELLED, .text = "SIGTERM");
    pass(10 * MILLI);
    unsigned renewed = a->renewed + b->renewed;
    qr_member_free(c->m), c->m = NULL; /* The process hangs with its connections open. */
    pass(5 * QR_SECOND);
    CHECK(a->renewed + b->renewed == renewed, "renewed %u times: %s",
          a->renewed + b->renewed - renewed, a->log);
}

/* Worker 0 connects, sends its hello and falls silent, again and again, like a process whose
 * library lost a thread. The others form without it. */
static void test_flapping(void) {
    reset();
    few = 1;
    struct box *a = box(0, 0, 4, 1, fields_64), *b[3];
    for (uint32_t i = 0; i < 3; i++) b[i] = box(i + 1, i + 1, 4, (uint8_t)(i + 2), fields_64);
    for (uint32_t i = 0; i < 3; i++) {
        wire_up(b[i], a);
        for (uint32_t k = 0; k < i; k++) wire_up(b[i], b[k]);
    }
    pass(QR_SECOND);
    CHECK(a->begun && b[0]->gen.begin.n_members == 4);
    unsigned n_working = 0, n_samples = 0;
    uint32_t first = 0; /* first connection of worker 0; those among the others stay open */
    for (int64_t t = now_ns; now_ns < t + 40 * QR_SECOND; pass(100 * MILLI)) {
        /* Worker 0 responds for 0.5 s of every 2 s, on new connections. */
        if ((now_ns - t) % (2 * QR_SECOND) == 0) {
            for (uint32_t i = 0; i < 3; i++) {
                if (first) wires[first + i].open = false;
            }
            first = n_wires < 60 ? n_wires : first;
            for (uint32_t i = 0; i < 3 && n_wires < 63; i++) wire_up(b[i], a);
        }
        if ((now_ns - t) % (2 * QR_SECOND) >= 500 * MILLI)
            for (uint32_t w = 0; w < n_wires; w++)
                if (wires[w].end[1] == a) wires[w].open = false;
        n_samples++;
        for (uint32_t i = 0; i < 3; i++) n_working += b[i]->begun && b[i]->gen.begin.n_members == 3;
    }
    CHECK(10 * n_working > 8 * 3 * n_samples, "%u of %u samples in a generation of three",
          n_working, 3 * n_samples);
    few = 0;
}

/* A silent peer is removed from the ring but keeps its connections, because it may only lack CPU
 * time. After 4 s both ends close the connection and renew the data stream. */
static void test_silent(void) {
    reset();
    few = 1;
    struct box *a = new_box(0, 0), *b = new_box(1, 1);
    wire_up(b, a);
    pass(QR_SECOND);
    CHECK(a->begun && b->begun && a->gen.begin.n_members == 2 && !a->renewed && !b->renewed);
    struct wire *w = &wires[n_wires - 1];
    w->open = false; /* Neither end is notified. */
    pass(3 * QR_SECOND);
    CHECK(a->gen.begin.n_members == 1 && b->gen.begin.n_members == 1);
    CHECK(!a->renewed && !b->renewed && qr_member_n_connected(a->m) == 0);
    w->open = true;
    pass(1500 * MILLI);
    CHECK(a->gen.begin.n_members == 2 && b->gen.begin.n_members == 2 && !a->renewed &&
              strstr(a->log, "worker 1 (b:2) answers again"),
          "%s", a->log);
    w->open = false;
    pass(4500 * MILLI);
    CHECK(a->renewed == 1 && b->renewed == 1, "%u %u; %s", a->renewed, b->renewed, a->log);
    few = 0;
}

/* Delivers b's heartbeat, with or without a report that data from a is missing. */
static void deliver_report(struct box *a, struct letter *heartbeat, bool no_data) {
    heartbeat->msg.heartbeat.no_data = no_data ? 1 : 0;
    /* Stay ahead of the heartbeats that b itself sends. */
    heartbeat->msg.heartbeat.sequence += 100;
    handle(a->m, .kind = QR_EVENT_MESSAGE, .conn = heartbeat->conn, .message = &heartbeat->msg);
    n_queue = 0; /* Discard a's own messages. */
}
/* A report of missing data that comes too soon after a renewal is about the old stream. If both
 * ends acted on such reports, they would renew forever. */
static void test_old_report(void) {
    reset();
    struct box *a = new_box(0, 0), *b = new_box(1, 1);
    wire_up(b, a);
    pass(QR_SECOND);
    struct letter beat = {0};
    for (now_ns += 250 * MILLI; n_queue == 0; now_ns += MILLI) handle(b->m, .kind = QR_EVENT_TICK);
    for (size_t i = 0; i < n_queue; i++)
        if (queue[i].msg.kind == QR_MESSAGE_HEARTBEAT) beat = queue[i];
    CHECK(beat.msg.kind == QR_MESSAGE_HEARTBEAT && a->begun && !a->renewed);
    deliver_report(a, &beat, true);
    CHECK(a->renewed == 1, "renewed %u times", a->renewed);
    data_streams();
    deliver_report(a, &beat, false);
    now_ns += 10 * MILLI;
    deliver_report(a, &beat, true);
    CHECK(a->renewed == 1, "renewed %u times", a->renewed);
    pass(QR_SECOND);
    deliver_report(a, &beat, false);
    deliver_report(a, &beat, true);
    CHECK(a->renewed == 2, "renewed %u times: %s", a->renewed, a->log);
}

int main(void) {
    queue = qr_xcalloc(QUEUE, sizeof *queue);
    test_peer_computes_after_wait();
    test_beside_a_ring();
    test_silence_after_goodbye();
    test_flapping();
    test_silent();
    test_old_report();
    reset();
    free(queue);
    return t_end();
}
