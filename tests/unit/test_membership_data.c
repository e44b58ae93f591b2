/* The membership machine and the data streams: who passes no data is not heard, and who only
 * answers is there all the same. */
#include "tests/boxes.h"

static struct box *two(size_t slot, uint32_t index) {
    return box((uint32_t)slot, index, 2, (uint8_t)(index + 1), fields_64);
}
/* It waited for the others for 3 s, and computes now: that it sends nothing is no fault of
 * its stream. */
static void test_waited_before(void) {
    reset();
    struct box *a = two(0, 0), *b = two(1, 1);
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
/* A ring answers, and no data passes with it yet: its steps are long, or a port is closed. A
 * newcomer that could begin alone does not begin a second ring. */
static void test_beside_a_ring(void) {
    reset();
    few = 1;
    struct box *a = two(0, 0), *b = two(1, 1);
    wire_up(b, a);
    pass(QR_SECOND);
    struct box *c = box(2, 2, 3, 3, fields_64);
    a->data[2].held_back = b->data[2].held_back = c->data[0].held_back = c->data[1].held_back =
        true;
    wire_up(c, a), wire_up(c, b);
    pass(61 * QR_SECOND);
    CHECK(!c->begun && !c->stop, "%s", c->text);
    handle(a->m, .kind = QR_EVENT_REJECTED); /* the ring changes: no member works for a moment */
    pass(QR_SECOND);
    CHECK(!c->begun && !c->stop && a->begun && b->begun);
    pass(600 * QR_SECOND);
    CHECK(!c->begun && c->stop && c->code == QR_DEADLINE_EXCEEDED &&
              strstr(c->text, "no data connection with "),
          "%s", c->text);
    CHECK(a->begun && b->begun);
    few = 0;
}

/* One that has said goodbye falls silent before its connection closes: nobody dials it anew. */
static void test_gone_and_silent(void) {
    reset();
    struct box *a = box(0, 0, 3, 1, fields_64), *b = box(1, 1, 3, 2, fields_64),
               *c = box(2, 2, 3, 3, fields_64);
    wire_up(b, a), wire_up(c, a), wire_up(c, b);
    pass(4 * QR_SECOND);
    CHECK(a->begun && b->begun && c->begun);
    handle(c->m, .kind = QR_EVENT_LEAVE, .code = QR_CANCELLED, .text = "SIGTERM");
    pass(10 * MILLI);
    unsigned renewed = a->renewed + b->renewed;
    qr_member_free(c->m), c->m = NULL; /* its process stands, and its connections with it */
    pass(5 * QR_SECOND);
    CHECK(a->renewed + b->renewed == renewed, "renewed %u times: %s",
          a->renewed + b->renewed - renewed, a->log);
}

/* The lowest answers, says its hello, and falls silent: again and again, as a process whose library
 * has lost a thread. The others form without it. */
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
    unsigned works = 0, looks = 0;
    uint32_t first = 0; /* of its wires; those among the others stay */
    for (int64_t t = now_ns; now_ns < t + 40 * QR_SECOND; pass(100 * MILLI)) {
        /* it speaks for half a second, each time on new connections */
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
        looks++;
        for (uint32_t i = 0; i < 3; i++) works += b[i]->begun && b[i]->gen.begin.n_members == 3;
    }
    CHECK(10 * works > 8 * 3 * looks, "they worked %u of %u times", works, 3 * looks);
    few = 0;
}

/* A silent peer is left out of the ring, and keeps its connections for a while: it may only have
 * had no processor. After 4 s both are given up, at both ends. */
static void test_silent(void) {
    reset();
    few = 1;
    struct box *a = two(0, 0), *b = two(1, 1);
    wire_up(b, a);
    pass(QR_SECOND);
    CHECK(a->begun && b->begun && a->gen.begin.n_members == 2 && !a->renewed && !b->renewed);
    struct wire *w = &wires[n_wires - 1];
    w->open = false; /* neither end is told */
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

/* The heartbeat of b, which says whether it lacks data from a. */
static void report(struct box *a, struct letter *heartbeat, bool no_data) {
    heartbeat->msg.heartbeat.no_data = no_data ? 1 : 0;
    heartbeat->msg.heartbeat.sequence += 100; /* b itself sends some too */
    handle(a->m, .kind = QR_EVENT_MESSAGE, .conn = heartbeat->conn, .message = &heartbeat->msg);
    n_queue = 0; /* its own heartbeats are of no interest */
}
/* A report that a renewed stream passes no data, sooner than a peer can know that, is about the
 * stream before it. Both renewing for each other's old reports would never end. */
static void test_old_report(void) {
    reset();
    struct box *a = two(0, 0), *b = two(1, 1);
    wire_up(b, a);
    pass(QR_SECOND);
    struct letter beat = {0};
    for (now_ns += 250 * MILLI; n_queue == 0; now_ns += MILLI) handle(b->m, .kind = QR_EVENT_TICK);
    for (size_t i = 0; i < n_queue; i++)
        if (queue[i].msg.kind == QR_MESSAGE_HEARTBEAT) beat = queue[i];
    CHECK(beat.msg.kind == QR_MESSAGE_HEARTBEAT && a->begun && !a->renewed);
    report(a, &beat, true);
    CHECK(a->renewed == 1, "renewed %u times", a->renewed);
    data_streams();
    report(a, &beat, false);
    now_ns += 10 * MILLI;
    report(a, &beat, true);
    CHECK(a->renewed == 1, "renewed %u times", a->renewed);
    pass(QR_SECOND);
    report(a, &beat, false);
    report(a, &beat, true);
    CHECK(a->renewed == 2, "renewed %u times: %s", a->renewed, a->log);
}

int main(void) {
    queue = qr_xcalloc(QUEUE, sizeof *queue);
    test_waited_before();
    test_beside_a_ring();
    test_gone_and_silent();
    test_flapping();
    test_silent();
    test_old_report();
    reset();
    free(queue);
    return t_end();
}
