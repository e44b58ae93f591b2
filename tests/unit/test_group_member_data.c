/* The membership machine and the data streams: who passes no data is not heard, and who only answers is there all the same. */
#include "tests/boxes.h"

static struct box *two(size_t slot, uint32_t index) { return box((uint32_t)slot, index, 2, (uint8_t)(index + 1), fields_64); }
/* It waited for the others for 3 s, and computes now: that it sends nothing is no fault of its stream. */
static void test_waited_before(void) {
    reset();
    struct box *a = two(0, 0), *b = two(1, 1);
    wire_up(b, a);
    pass(4 * QR_SECOND);
    int64_t t = now_ns;
    qr_member_set_polled(b->m, &(struct qr_polled){.since_ns = t - 3 * QR_SECOND, .turn_ns = t, .heard_ns = {t}});
    for (struct qr_polled how = {.since_ns = t, .heard_ns = {[1] = t}}; now_ns < t + 5 * QR_SECOND; pass(250 * MILLI)) {
        how.turn_ns = now_ns;
        qr_member_set_polled(a->m, &how);
    }
    CHECK(a->begun && b->begun && !a->renewed && !b->renewed, "%s", a->log);
}
/* A ring answers, and no data passes with it yet: its steps are long, or a port is closed. A newcomer that could begin alone does not begin a second ring. */
static void test_beside_a_ring(void) {
    reset();
    few = 1;
    struct box *a = two(0, 0), *b = two(1, 1);
    wire_up(b, a);
    pass(QR_SECOND);
    struct box *c = box(2, 2, 3, 3, fields_64);
    a->data[2].held_back = b->data[2].held_back = c->data[0].held_back = c->data[1].held_back = true;
    wire_up(c, a), wire_up(c, b);
    pass(61 * QR_SECOND);
    CHECK(!c->begun && !c->stop, "%s", c->text);
    qr_member_refused(a->m, now_ns); /* the ring changes: for a moment nobody works */
    pass(QR_SECOND);
    CHECK(!c->begun && !c->stop && a->begun && b->begun);
    pass(600 * QR_SECOND);
    CHECK(!c->begun && c->stop && c->code == QR_DEADLINE_EXCEEDED && strstr(c->text, "no data connection with "), "%s", c->text);
    CHECK(a->begun && b->begun);
    few = 0;
}

int main(void) {
    queue = qr_xcalloc(QUEUE, sizeof *queue);
    test_waited_before();
    test_beside_a_ring();
    reset();
    free(queue);
    return t_end();
}
