/* Membership and settings: those that must be equal, those that may differ, and newcomers with
 * other settings at a working ring. */
#include "tests/support/boxes.h"

static void test_settings(void) {
    reset();
    struct box *a = box(0, 0, 2, 1, fields_64), *b = box(1, 1, 2, 2, fields_32);
    int64_t t = now_ns;
    wire_up(b, a), wire_up(a, b);
    pass(QR_SECOND);
    CHECK(strstr(a->log, "worker 1 (b:2) has other settings under the job name \"qcnn\": "
                         "train.batch_size is 32 there and 64 here (worker 0)"),
          "%s", a->log);
    CHECK(strstr(b->log, "worker 0 (a:1) has other settings under the job name \"qcnn\": "
                         "train.batch_size is 64 there and 32 here (worker 1)"),
          "%s", b->log);
    CHECK(!a->stop && !b->stop);
    pass(31 * QR_SECOND);
    CHECK(a->stop && b->stop && !a->begun && !b->begun);
    for (int i = 0; i < 2; i++)
        CHECK(boxes[i].code == QR_FAILED_PRECONDITION && boxes[i].at_ns - t >= 30 * QR_SECOND &&
                  boxes[i].at_ns - t < 31 * QR_SECOND && strstr(boxes[i].text, "batch_size is "),
              "%s", boxes[i].text);

    reset(); /* All exit, including the two that agree with each other. */
    a = box(0, 0, 3, 1, fields_64), b = box(1, 1, 3, 2, fields_64);
    struct box *c = box(2, 2, 3, 3, fields_32);
    wire_up(b, a), wire_up(c, a), wire_up(c, b), wire_up(a, c), wire_up(b, c);
    pass(31 * QR_SECOND);
    CHECK(a->code == QR_FAILED_PRECONDITION && b->code == QR_FAILED_PRECONDITION &&
          c->code == QR_FAILED_PRECONDITION);

    /* A running group is not disturbed. The leader rejects the newcomer at once if a step is
     * committed. */
    reset();
    a = box(0, 0, 2, 1, fields_64), b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    qr_member_set_held(a->m, &(struct qr_held){.applied_reductions = 2, .committed_reductions = 1});
    c = box(2, 2, 3, 3, fields_32);
    t = now_ns;
    wire_up(c, a);
    pass(100 * MILLI);
    CHECK(c->stop && c->code == QR_FAILED_PRECONDITION && strstr(c->text, "worker 0 (a:1)"), "%s",
          c->text);
    CHECK(a->begun && !a->stop);
}

/* Processes with other settings claim to be the absent worker, one after the other. None answers at
 * its address, so the others form without it. */
static void test_settings_of_impostors(void) {
    reset();
    struct box *a = box(0, 0, 3, 1, fields_64), *b = box(1, 1, 3, 2, fields_64), *c = NULL;
    wire_up(b, a);
    for (uint8_t k = 0; k < 7; k++) {
        c = box(2, 2, 3, (uint8_t)(10 + k), fields_32);
        wire_up(c, a), wire_up(c, b);
        pass(9 * QR_SECOND);
    }
    CHECK(strstr(a->log, "worker 2 (c:3) has other settings") && a->dialed[2] && b->dialed[2]);
    CHECK(a->begun && b->begun && !a->stop && !b->stop && a->gen.begin.n_members == 2, "%s",
          a->text);
}

/* ---- settings that may differ ---- */
/* With ten reductions an epoch. */
static struct box *set_options(struct box *b, uint64_t epochs, enum qr_allreduce kind,
                               unsigned min_workers) {
    qr_member_set_plan(b->m, epochs, 10);
    b->m->own.allreduce = kind;
    b->m->own.min_workers = min_workers;
    return b;
}
static bool all_have(uint64_t epochs, enum qr_allreduce kind, unsigned min_workers,
                     uint32_t n_members) {
    for (uint32_t i = 0; i < n_members; i++) {
        const struct qr_common *c = &boxes[i].gen.begin.common;
        if (!boxes[i].begun || boxes[i].gen.begin.n_members != n_members || c->epochs != epochs ||
            c->allreduce != kind || c->min_workers != min_workers)
            return false;
    }
    return true;
}
/* Two of three workers form a ring with 7 epochs, the star and min-workers 2; `newcomer`
 * is absent. */
static void start_two(uint32_t newcomer) {
    reset();
    uint32_t one = newcomer == 0, two = newcomer == 2 ? 1 : 2;
    set_options(box(one, one, 3, 1, fields_64), 7, QR_ALLREDUCE_STAR, 2);
    set_options(box(two, two, 3, 2, fields_64), 7, QR_ALLREDUCE_STAR, 2);
    wire_up(&boxes[two], &boxes[one]);
    pass(61 * QR_SECOND);
    CHECK(boxes[one].begun && boxes[two].begun && boxes[one].gen.begin.n_members == 2 &&
          !strstr(boxes[two].log, " here and "));
}
static void connect_newcomer(uint32_t newcomer) {
    for (uint32_t k = 0; k < 3; k++)
        if (k < newcomer) wire_up(&boxes[newcomer], &boxes[k]);
        else if (k > newcomer) wire_up(&boxes[k], &boxes[newcomer]);
}
static void test_others_settings(void) {
    static const char *const want[] = {"epochs is 900 here and 7 in the ring; the ring's value "
                                       "applies until the run ends: to change it, stop all workers",
                                       "allreduce is ring here and star",
                                       "min-workers is 60 here and 2"};
    for (uint32_t newcomer = 0; newcomer < 3; newcomer++) {
        start_two(newcomer);
        struct box *late =
            set_options(box(newcomer, newcomer, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 60);
        connect_newcomer(newcomer);
        pass(QR_SECOND);
        CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3), "newcomer %u: %u members", newcomer,
              boxes[1].gen.begin.n_members);
        for (size_t k = 0; k < COUNT(want); k++)
            CHECK(strstr(late->log, want[k]) && !strstr(strstr(late->log, want[k]) + 1, want[k]),
                  "%s", late->log);
        for (uint32_t i = 0; i < 3; i++)
            CHECK(i == newcomer || !strstr(boxes[i].log, " here and "), "log of worker %u: %s", i,
                  boxes[i].log);
        /* Restart the other workers one by one with the newcomer's settings: the ring's
         * are kept. */
        for (uint32_t gone = 0; gone < 3; gone++) {
            if (gone == newcomer) continue;
            for (uint32_t k = 0; k < n_wires; k++)
                if (wires[k].open &&
                    (wires[k].end[0] == &boxes[gone] || wires[k].end[1] == &boxes[gone])) {
                    wires[k].open = false;
                    handle(wires[k].end[wires[k].end[0] == &boxes[gone]]->m, .kind = QR_EVENT_DOWN,
                           .conn = 2 * k + (wires[k].end[0] == &boxes[gone]), .text = "reset");
                }
            set_options(box(gone, gone, 3, (uint8_t)(20 + gone), fields_64), 900, QR_ALLREDUCE_RING,
                        60);
            connect_newcomer(gone);
            pass(3 * QR_SECOND);
            CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3), "newcomer %u, then restarted worker %u",
                  newcomer, gone);
        }
    }
    /* A worker that formed a ring alone joins with a later state: the ring's settings are kept. */
    start_two(2);
    set_options(box(2, 2, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 1);
    pass(61 * QR_SECOND);
    CHECK(boxes[2].begun && boxes[2].gen.begin.n_members == 1 &&
          boxes[2].gen.begin.common.epochs == 900);
    tell_state(2, 20, 5, false);
    connect_newcomer(2);
    pass(QR_SECOND);
    CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[0].gen.begin.base_reductions == 20);
    reset(); /* Before a ring forms, the leader's settings apply. */
    for (uint32_t i = 0; i < 3; i++)
        set_options(box(i, i, 3, (uint8_t)(1 + i), fields_64), 900 - i, (enum qr_allreduce)(i + 1),
                    1 + i);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < i; k++) wire_up(&boxes[i], &boxes[k]);
    pass(QR_SECOND);
    CHECK(all_have(900, QR_ALLREDUCE_RING, 1, 3));
    CHECK(!strstr(boxes[0].log, " here and ") &&
          strstr(boxes[2].log, "epochs is 898 here and 900") &&
          strstr(boxes[2].log, "allreduce is star here and ring"));
}
/* A state beyond the ring's epochs is not used. If all states are beyond the first leader's epochs,
 * no ring forms. */
static void test_state_beyond_epochs(void) {
    for (uint32_t newcomer = 0; newcomer < 3; newcomer += 2) {
        start_two(newcomer);
        set_options(box(newcomer, newcomer, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 1);
        tell_state(newcomer, 71, 5, false);
        connect_newcomer(newcomer);
        pass(QR_SECOND);
        CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[1].gen.begin.base_reductions == 0 &&
                  !boxes[1].gen.begin.member[newcomer].holder,
              "step %llu", (unsigned long long)boxes[1].gen.begin.base_reductions);
        start_two(newcomer); /* A state at the end of the last epoch is used. */
        set_options(box(newcomer, newcomer, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 1);
        tell_state(newcomer, 70, 5, false);
        connect_newcomer(newcomer);
        pass(QR_SECOND);
        CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[1].gen.begin.base_reductions == 70);
    }
    reset();
    for (uint32_t i = 0; i < 2; i++) {
        set_options(box(i, i, 2, (uint8_t)(1 + i), fields_64), 7 + i, QR_ALLREDUCE_AUTO, 1);
        tell_state(i, 75, 5, false);
    }
    wire_up(&boxes[1], &boxes[0]);
    pass(QR_SECOND);
    for (int i = 0; i < 2; i++)
        CHECK(
            (boxes[i].stop || boxes[i].done) && !boxes[i].begun &&
                boxes[i].code == QR_INVALID_ARGUMENT &&
                strstr(
                    boxes[i].text,
                    "7 epochs are already trained, and the leader, worker 0 (a:1), has --epochs 7"),
            "%s", boxes[i].text);
}
/* A worker with other settings beside a valid newcomer prevents only a first generation. */
static void test_mismatch_beside_newcomer(void) {
    for (uint32_t newcomer = 0; newcomer < 3; newcomer += 2)
        for (int order = 0; order < 2; order++) {
            start_two(newcomer);
            set_options(box(newcomer, newcomer, 4, 9, fields_64), 7, QR_ALLREDUCE_STAR, 1);
            box(3, 3, 4, 8, fields_32);
            /* The mismatched worker connects between promise and Begin. */
            if (order) connect_newcomer(newcomer);
            wire_up(&boxes[3], &boxes[newcomer]);
            if (!order) connect_newcomer(newcomer);
            pass(500 * MILLI);
            CHECK(boxes[newcomer].begun && all_have(7, QR_ALLREDUCE_STAR, 2, 3),
                  "worker %u, order %d: %s", newcomer, order, boxes[newcomer].log);
            for (uint32_t i = 0; i < 3; i++)
                if (i != newcomer) wire_up(&boxes[3], &boxes[i]);
            pass(40 * QR_SECOND);
            CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[3].stop &&
                  boxes[3].code == QR_FAILED_PRECONDITION);
        }
    /* One of two needed workers is left. A mismatched worker connects, then the missing one
     * returns. */
    start_two(0);
    handle(boxes[2].m, .kind = QR_EVENT_LEAVE, .code = QR_CANCELLED, .text = "SIGTERM");
    deliver();
    box(0, 0, 3, 8, fields_32);
    wire_up(&boxes[1], &boxes[0]), wire_up(&boxes[0], &boxes[1]);
    pass(50 * QR_SECOND);
    CHECK(!boxes[1].stop && !boxes[1].begun && boxes[0].stop, "%s", boxes[1].text);
    set_options(box(2, 2, 3, 7, fields_64), 900, QR_ALLREDUCE_RING, 1);
    wire_up(&boxes[2], &boxes[1]);
    pass(QR_SECOND);
    CHECK(boxes[1].begun && boxes[2].begun && boxes[1].gen.begin.common.epochs == 7);
}
/* A restarted process with the leader's index is not the leader yet: its Done or Goodbye does not
 * end the run. */
static void test_end_of_another(void) {
    static struct qr_message end[2] = {
        {.kind = QR_MESSAGE_DONE, .done = {.code = QR_INVALID_ARGUMENT, .text = "mine"}},
        {.kind = QR_MESSAGE_GOODBYE,
         .goodbye = {.why = QR_GOODBYE_DONE, .code = QR_INVALID_ARGUMENT, .text = "mine"}}};
    for (int how = 0; how < 2; how++) {
        start_two(2);
        box(2, 0, 3, 9, fields_64);
        wires[n_wires++] = (struct wire){{&boxes[1], &boxes[2]}, true};
        uint32_t conn = 2 * (n_wires - 1);
        handle(boxes[1].m, .kind = QR_EVENT_UP, .conn = conn, .outgoing = true);
        handle(boxes[2].m, .kind = QR_EVENT_UP, .conn = conn + 1);
        for (size_t i = 0; i < n_queue; i++)
            if (queue[i].conn == conn && queue[i].msg.kind == QR_MESSAGE_HELLO)
                handle(boxes[1].m, .kind = QR_EVENT_MESSAGE, .conn = conn,
                       .message = &queue[i].msg);
        n_queue = 0;
        handle(boxes[1].m, .kind = QR_EVENT_MESSAGE, .conn = conn, .message = &end[how]);
        CHECK(!boxes[1].done && !boxes[1].stop && strstr(boxes[1].log, "worker 0 (a:1) restarted"),
              "%s", boxes[1].log);
    }
}
int main(void) {
    queue = qr_xcalloc(QUEUE, sizeof *queue);
    test_settings();
    test_settings_of_impostors();
    test_others_settings();
    test_state_beyond_epochs();
    test_mismatch_beside_newcomer();
    test_end_of_another();
    reset();
    free(queue);
    return t_end();
}
