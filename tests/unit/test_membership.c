/* Membership state machine: messages and timeouts. Two or three machines are connected without
 * delay, on virtual time. */
#include "tests/support/boxes.h"

static void test_forms_and_ends(void) {
    reset();
    struct box *a = box(0, 0, 2, 1, fields_64);
    pass(5 * QR_SECOND);
    CHECK(!a->begun && !a->stop); /* Waits for worker 1. */
    struct box *b = box(1, 1, 2, 2, fields_64);
    int64_t t = now_ns;
    wire_up(b, a);
    deliver();
    CHECK(a->begun && b->begun && now_ns == t, "the ring forms without a delay");
    CHECK(a->gen.rank == 0 && b->gen.rank == 1 && b->gen.begin.n_members == 2 &&
          a->gen.id_hash == b->gen.id_hash);
    CHECK(b->gen.begin.member[0].data_port == 2224 && a->gen.begin.member[1].data_port == 2224);
    handle(a->m, .kind = QR_EVENT_END, .code = QR_OK);
    deliver();
    handle(a->m, .kind = QR_EVENT_TICK);
    CHECK(a->done && b->done && a->code == QR_OK && b->code == QR_OK);

    /* Every member exits with the leader's error, here taken from its goodbye because the Done
     * message is lost. The leader waits 5 s for the members' goodbyes. */
    reset();
    a = box(0, 0, 2, 1, fields_64), b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    t = now_ns;
    handle(a->m, .kind = QR_EVENT_END, .code = QR_PERMISSION_DENIED, .text = "gs://x: 403");
    n_queue = 0;                               /* The Done message is lost. */
    for (int i = 0; i < 30 && !a->done; i++) { /* Worker 1 keeps sending heartbeats. */
        now_ns += 200 * MILLI;
        handle(b->m, .kind = QR_EVENT_TICK), handle(a->m, .kind = QR_EVENT_TICK);
        deliver();
    }
    CHECK(a->done && a->at_ns - t >= 5 * QR_SECOND && a->at_ns - t < 5500 * MILLI, "%.2f s",
          (double)(a->at_ns - t) / 1e9);
    CHECK(b->done && b->code == QR_PERMISSION_DENIED && strstr(b->text, "403"),
          "the goodbye repeats the error: %s", b->text);

    reset();
    a = box(0, 0, 1, 1, fields_64);
    CHECK(a->begun && a->gen.begin.n_members == 1, "a ring of one forms at once");
}
static void test_rejected_hellos(void) {
    reset();
    struct box *a = box(0, 0, 2, 1, fields_64), *b = box(1, 1, 2, 2, fields_64);
    struct qr_message *hello = qr_xcalloc(1, sizeof *hello);
    hello->kind = QR_MESSAGE_HELLO;
    hello->hello = (struct qr_hello){.protocol_min = QR_PROTOCOL_MIN,
                                     .protocol_max = QR_PROTOCOL_MAX,
                                     .contract = "f32-v1",
                                     .run = "other",
                                     .index = 1};
    wires[n_wires++] = (struct wire){{b, a}, true};
    handle(a->m, .kind = QR_EVENT_UP, .conn = 1);
    handle(a->m, .kind = QR_EVENT_MESSAGE, .conn = 1, .message = hello);
    CHECK(strstr(a->log,
                 "rejected worker 1 of another job: name is \"other\" there and \"qcnn\" here") &&
              !wires[0].open,
          "%s", a->log);
    pass(40 * QR_SECOND);
    CHECK(!a->stop, "a worker of another job never makes a member exit");
    strcpy(hello->hello.run, "qcnn");
    hello->hello.protocol_min = hello->hello.protocol_max = 9;
    wires[n_wires++] = (struct wire){{b, a}, true};
    handle(a->m, .kind = QR_EVENT_UP, .conn = 3);
    handle(a->m, .kind = QR_EVENT_MESSAGE, .conn = 3, .message = hello);
    CHECK(strstr(a->log, "protocol is 9-9 there and 6-6 here"), "%s", a->log);
    wires[n_wires++] = (struct wire){{b, a}, true};
    handle(b->m, .kind = QR_EVENT_UP, .conn = 4,
           .outgoing = true); /* the peer at a:1 identifies as worker 1 */
    hello->hello.protocol_min = QR_PROTOCOL_MIN;
    memcpy(hello->hello.job_hash, b->m->opt.job_hash, 32);
    memset(hello->hello.incarnation, 5, 16);
    handle(b->m, .kind = QR_EVENT_MESSAGE, .conn = 4, .message = hello);
    CHECK(strstr(b->log, "peer at a:1 identifies as worker 1, expected 0"), "%s", b->log);
    handle(a->m, .kind = QR_EVENT_UP, .conn = 7);
    handle(a->m, .kind = QR_EVENT_MALFORMED, .conn = 7, .text = "hello message: index 99");
    CHECK(strstr(a->log, "a connection was closed: hello message: index 99"), "%s", a->log);
    free(hello);
}
/* A process at worker 0's address has an incompatible protocol, then sends a malformed message.
 * Close the connection and dial again, because worker 0 may have replaced that process. */
static void test_malformed_message(void) {
    reset();
    struct box *b = box(1, 1, 2, 2, fields_64);
    struct qr_message *hello = qr_xcalloc(1, sizeof *hello);
    hello->kind = QR_MESSAGE_HELLO;
    hello->hello = (struct qr_hello){
        .protocol_min = 9, .protocol_max = 9, .contract = "f32-v1", .run = "qcnn", .index = 0};
    wires[n_wires++] = (struct wire){{b, b}, true};
    handle(b->m, .kind = QR_EVENT_UP, .conn = 0, .outgoing = true);
    handle(b->m, .kind = QR_EVENT_MESSAGE, .conn = 0, .message = hello);
    unsigned before = b->dialed[0];
    pass(2 * QR_SECOND);
    CHECK(b->dialed[0] == before, "no second connection beside an open one: %u, then %u", before,
          b->dialed[0]);
    handle(b->m, .kind = QR_EVENT_MALFORMED, .conn = 0, .text = "bad frame");
    pass(2 * QR_SECOND);
    CHECK(b->dialed[0] == before + 1, "dialed %u times, then %u", before, b->dialed[0]);
    free(hello);
}
static void test_claims(void) {
    /* Before a group forms, the later process with an index wins and the earlier one exits. */
    reset();
    struct box *a = box(0, 0, 3, 1, fields_64), *b = box(1, 1, 3, 2, fields_64),
               *twin = box(2, 1, 3, 3, fields_64);
    wire_up(b, a);
    deliver();
    wire_up(twin, a);
    deliver();
    CHECK(b->stop && b->code == QR_UNAVAILABLE &&
              strstr(b->text, "another process claimed index 1 (reported by worker 0 (a:1))"),
          "%s", b->text);
    CHECK(!twin->stop && !a->stop && strstr(a->log, "worker 1 (b:2) restarted"), "%s", a->log);
    reset(); /* In a running group the earlier process is lost, with its state. */
    few = 1;
    a = box(0, 0, 2, 1, fields_64), b = box(1, 1, 2, 2, fields_64),
    twin = box(2, 1, 2, 3, fields_64);
    wire_up(b, a);
    deliver();
    CHECK(a->begun && b->begun);
    wire_up(twin, a);
    deliver();
    few = 0;
    CHECK(strstr(a->log, "worker 1 (b:2) restarted") && a->begun && twin->begun &&
              a->gen.begin.n_members == 2,
          "%s", a->log);
    CHECK(memcmp(a->gen.begin.member[1].name.incarnation, twin->m->opt.incarnation,
                 QR_INCARNATION_BYTES) == 0);
}
/* A worker outside this worker's peer list is named as in its own list. */
static void test_names(void) {
    reset();
    struct box *a = box(0, 0, 2, 1, fields_64), *d = box(3, 3, 4, 4, fields_64);
    CHECK(strcmp(qr_member_peer_text(a->m, 3), "worker 3") == 0, "%s",
          qr_member_peer_text(a->m, 3));
    wire_up(d, a);
    deliver();
    CHECK(strstr(a->log, "worker 3 (d:4) answered"), "%s", a->log);
    reset(); /* A worker outside its own peer list is named by its source address. */
    a = box(0, 0, 2, 1, fields_64), d = box(3, 3, 2, 4, fields_64);
    d->m->opt.control_port = 2222;
    wire_from("10.0.0.7", d, a);
    deliver();
    CHECK(strstr(a->log, "worker 3 (10.0.0.7:2222) answered"), "%s", a->log);
}
/* After a goodbye on request, a broken or silent connection logs no warning. A goodbye because of
 * an error does, with that error. */
static void test_leavers(void) {
    few = 1;
    for (int how = 0; how < 4; how++) {
        reset();
        struct box *a = box(0, 0, 2, 1, fields_64), *b = box(1, 1, 2, 2, fields_64);
        bool asked = how < 2, hangs = how % 2;
        wire_up(b, a);
        deliver();
        CHECK(a->begun && b->begun);
        handle(b->m, .kind = QR_EVENT_LEAVE, .code = asked ? QR_CANCELLED : QR_INVALID_ARGUMENT,
               .text = "planted reason");
        deliver();
        wires[0].open = false;
        if (!hangs) handle(a->m, .kind = QR_EVENT_DOWN, .conn = 1, .text = "closed");
        pass(3 * QR_SECOND);
        const char *want = hangs ? "worker 1 (b:2): silent for 1.2"
                                 : "worker 1 (b:2): the connection broke (closed)";
        CHECK(strstr(a->log, "worker 1 (b:2) left: planted reason") && strstr(a->log, want) &&
                  a->begun && a->gen.begin.n_members == 1,
              "%d: %s", how, a->log);
        CHECK(strcmp(a->warnings, asked ? "" : "worker 1 (b:2) left: planted reason\n") == 0,
              "%d: %s", how, a->warnings);
    }
    few = 0;
}
/* A loss is logged, and the remaining workers begin the next generation without the lost one. */
static void test_losses(void) {
    few = 1;
    for (int how = 0; how < 5; how++) {
        reset();
        struct box *a = box(0, 0, 3, 1, fields_64), *b = box(1, 1, 3, 2, fields_64),
                   *c = box(2, 2, 3, 3, fields_64);
        wire_up(b, a), wire_up(c, a), wire_up(c, b);
        pass(QR_SECOND);
        CHECK(a->begun && b->begun && c->begun);
        if (how == 0) /* broken connections */
            handle(a->m, .kind = QR_EVENT_DOWN, .conn = 3, .text = "reset"),
                handle(b->m, .kind = QR_EVENT_DOWN, .conn = 5, .text = "reset"),
                wires[1].open = wires[2].open = false;
        if (how == 1) { /* silence */
            qr_member_free(c->m);
            c->m = NULL;
        }
        if (how == 2) handle(c->m, .kind = QR_EVENT_LEAVE, .code = QR_CANCELLED, .text = "SIGTERM");
        /* No worker is lost: the same members begin again. */
        if (how == 3)
            handle(a->m, .kind = QR_EVENT_DATA_DOWN, .index = 2, .text = "reset by peer",
                   .lost = true);
        /* Only worker 0 loses the connection, and reports it to worker 1. */
        if (how == 4)
            handle(a->m, .kind = QR_EVENT_DOWN, .conn = 3, .text = "reset"), wires[1].open = false;
        pass(1500 * MILLI);
        static const char *const words[] = {
            "worker 2 (c:3): the connection broke (reset)", "worker 2 (c:3): silent for 1.2",
            "worker 2 (c:3) left: SIGTERM", "", "worker 2 (c:3): the connection broke (reset)"};
        CHECK(strstr(a->log, words[how]), "%d: %s", how, a->log);
        CHECK(a->begun && b->begun && a->gen.begin.n_members == (how == 3 ? 3 : 2) &&
                  b->gen.begin.n_members == a->gen.begin.n_members && a->gen.begin.id.number >= 2,
              "%d: %u members", how, a->gen.begin.n_members);
    }
    reset(); /* A training thread without progress, in a process that responds. */
    struct box *a = box(0, 0, 2, 1, fields_64), *b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    handle(b->m, .kind = QR_EVENT_TRAINER, .turns = 1, .micro_batch_ns = QR_SECOND);
    pass(9 * QR_SECOND);
    CHECK(a->gen.begin.n_members == 2);
    pass(3 * QR_SECOND);
    CHECK(a->begun && a->gen.begin.n_members == 1 &&
              strstr(a->log, "worker 1 (b:2): training thread has made no progress for 10."),
          "%s", a->log);
    reset(); /* This process was stopped: do not count that time as peer silence. */
    a = box(0, 0, 2, 1, fields_64), b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    now_ns += 20 * QR_SECOND;
    handle(a->m, .kind = QR_EVENT_TICK);
    CHECK(a->begun && a->gen.begin.n_members == 2 && strstr(a->log, "was not scheduled for 20.0 s"),
          "%s", a->log);
    reset(); /* Nor does that time count towards the form timeout. */
    a = box(0, 0, 2, 1, fields_64);
    pass(20 * QR_SECOND);
    now_ns += 300 * QR_SECOND;
    handle(a->m, .kind = QR_EVENT_TICK);
    pass(30 * QR_SECOND);
    CHECK(!a->begun && !a->stop, "time while stopped counted towards the form timeout: %s",
          a->text);
    b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    CHECK(a->begun && b->begun && a->gen.begin.n_members == 2, "%s", a->log);
    few = 0;
}
/* A data stream and the control connection to the same peer break, and the control connection is
 * back at once. The broken stream must still lead to a new generation. */
static void test_broken_stream(void) {
    reset();
    struct box *b[3];
    for (uint32_t i = 0; i < 3; i++) b[i] = box(i, i, 3, (uint8_t)(i + 1), fields_64);
    wire_up(b[1], b[0]);
    wire_up(b[2], b[0]);
    uint32_t between = n_wires;
    wire_up(b[2], b[1]);
    pass(2 * QR_SECOND);
    CHECK(b[0]->begun && b[1]->begun && b[2]->begun && b[2]->gen.begin.n_members == 3);
    uint64_t before = b[2]->gen.begin.id.number;
    handle(b[1]->m, .kind = QR_EVENT_DATA_DOWN, .index = 2, .text = "reset", .lost = true);
    handle(b[2]->m, .kind = QR_EVENT_DATA_DOWN, .index = 1, .text = "reset", .lost = true);
    wires[between].open = false;
    handle(b[2]->m, .kind = QR_EVENT_DOWN, .conn = 2 * between, .text = "reset");
    handle(b[1]->m, .kind = QR_EVENT_DOWN, .conn = 2 * between + 1, .text = "reset");
    /* Drop the reports of the break: worker 0 never receives one. */
    n_queue = 0;
    wire_up(b[2], b[1]);
    pass(2 * QR_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(b[i]->begun && b[i]->gen.begin.n_members == 3 && b[i]->gen.begin.id.number > before,
              "worker %u: generation %llu", i, (unsigned long long)b[i]->gen.begin.id.number);
}

static void connect_pair(uint32_t i, uint32_t k) {
    for (uint32_t w = 0; w < n_wires; w++)
        if (wires[w].open && wires[w].end[0] == &boxes[i] && wires[w].end[1] == &boxes[k]) return;
    wire_up(&boxes[i], &boxes[k]);
}
static void connect_all(uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++) connect_pair(i, k);
}
/* Breaks all connections but that of i and k. */
static void cut_all_but(uint32_t i, uint32_t k) {
    for (uint32_t w = 0; w < n_wires; w++) {
        if (!wires[w].open || (wires[w].end[0] == &boxes[i] && wires[w].end[1] == &boxes[k]))
            continue;
        wires[w].open = false;
        for (uint32_t e = 0; e < 2; e++)
            handle(wires[w].end[e]->m, .kind = QR_EVENT_DOWN, .conn = 2 * w + e, .text = "reset");
    }
}
static unsigned n_in_ring(uint32_t i) { return boxes[i].begun ? boxes[i].gen.begin.n_members : 0; }

/* Rule 3: a peer lost twice within 10 s returns after a second. The two that begin anew beside it
 * work on meanwhile: they do not propose it in vain. */
static void test_bans(void) {
    few = 1; /* Losses within a moment are one. */
    reset();
    for (uint32_t i = 0; i < 2; i++) box(i, i, 2, (uint8_t)(i + 1), fields_64);
    connect_all(2);
    pass(QR_SECOND);
    for (int times = 0; times < 3; times++) {
        cut_all_but(0, 0);
        pass(20 * MILLI);
        CHECK(n_in_ring(0) == 1 && n_in_ring(1) == 1, "%d: they train apart", times);
        connect_all(2);
        pass(20 * MILLI);
        CHECK(n_in_ring(0) == 2 && n_in_ring(1) == 2, "%d: together again: %s", times,
              boxes[0].log);
    }
    pass(QR_SECOND);
    cut_all_but(0, 0);
    pass(20 * MILLI);
    connect_all(2);
    pass(900 * MILLI);
    CHECK(n_in_ring(0) == 1 && n_in_ring(1) == 1, "a second loss: not within a second");
    pass(500 * MILLI);
    CHECK(n_in_ring(0) == 2 && n_in_ring(1) == 2, "then it returns: %s", boxes[0].log);

    few = 2; /* Worker 3 has lost worker 1 twice, and worker 1 has never begun without it. */
    reset();
    for (uint32_t i = 0; i < 4; i++) box(i, i, 4, (uint8_t)(i + 1), fields_64);
    connect_all(4);
    pass(QR_SECOND);
    cut_all_but(3, 0);
    pass(QR_SECOND);
    CHECK(n_in_ring(0) == 2 && n_in_ring(3) == 2);
    connect_all(4);
    pass(2 * QR_SECOND);
    for (uint32_t i = 0; i < 4; i++) CHECK(n_in_ring(i) == 4, "worker %u", i);
    cut_all_but(3, 2);
    pass(100 * MILLI);
    CHECK(n_in_ring(2) == 2 && n_in_ring(3) == 2);
    cut_all_but(0, 0);
    connect_pair(2, 1);
    pass(100 * MILLI);
    CHECK(n_in_ring(1) == 2 && n_in_ring(2) == 2, "%s", boxes[1].log);
    uint64_t number = boxes[1].gen.begin.id.number;
    connect_pair(3, 1);
    connect_pair(3, 2);
    for (int i = 0; i < 60; i++) {
        pass(10 * MILLI);
        CHECK(!qr_member_awaits_begin(boxes[1].m, &(struct qr_gen_id){0}) &&
                  boxes[1].gen.begin.id.number == number,
              "%d ms later worker 1 has left its ring of two", 10 * i);
    }
    pass(2 * QR_SECOND);
    CHECK(n_in_ring(1) == 3 && n_in_ring(2) == 3 && n_in_ring(3) == 3, "%s", boxes[1].log);
    few = 0;
}

static void test_timeouts(void) {
    reset();
    struct box *a = box(0, 0, 4, 1, fields_64);
    pass(61 * QR_SECOND);
    CHECK(a->stop && a->code == QR_DEADLINE_EXCEEDED &&
              strstr(a->text, "worker 1 (b:2), worker 2 (c:3), worker 3 (d:4) did not answer (1 of "
                              "4 present, 2 needed)"),
          "%s", a->text);
    /* With enough workers, the ring forms without the rest when the earliest worker's
     * timeout ends. */
    reset();
    struct box *b = box(1, 1, 4, 2, fields_64);
    pass(30 * QR_SECOND);
    a = box(0, 0, 4, 1, fields_64);
    wire_up(b, a);
    pass(29 * QR_SECOND);
    CHECK(!a->begun && !b->begun);
    pass(2 * QR_SECOND);
    CHECK(a->begun && b->begun && a->gen.begin.n_members == 2);
    /* Worker 2 reaches only worker 1 and so is not a member. When the run ends, it exits before its
     * own timeout. */
    struct box *c = box(2, 2, 4, 3, fields_64);
    wire_up(c, b);
    pass(5 * QR_SECOND);
    CHECK(a->begun && a->gen.begin.n_members == 2 && !c->begun && !c->stop);
    int64_t t = now_ns;
    handle(a->m, .kind = QR_EVENT_END, .code = QR_OK);
    deliver();
    CHECK(b->done && c->stop && c->at_ns == t && c->code == QR_DEADLINE_EXCEEDED &&
              strstr(c->text, "the run ended before"),
          "%s", c->text);
    reset(); /* A worker that leaves while it waits does not end the run. */
    a = box(0, 0, 4, 1, fields_64), b = box(1, 1, 4, 2, fields_64);
    wire_up(b, a);
    handle(b->m, .kind = QR_EVENT_LEAVE, .code = QR_CANCELLED, .text = "SIGTERM");
    deliver();
    CHECK(!a->stop);
}
/* A parameter server exits with the workers' error when all of them failed permanently, and waits
 * while one may be retried. */
static void test_server_after_permanent_failures(void) {
    for (int last = 0; last < 2; last++) {
        reset();
        servers = 1;
        struct box *a = box(0, 0, 3, 1, fields_64), *b = box(1, 1, 3, 2, fields_64),
                   *c = box(2, 2, 3, 3, fields_64);
        wire_up(b, a), wire_up(c, a), wire_up(c, b);
        pass(2 * QR_SECOND);
        CHECK(a->begun && a->gen.begin.n_members == 3);
        handle(b->m, .kind = QR_EVENT_LEAVE, .code = QR_OUT_OF_RANGE, .text = "sample 3 is bad");
        handle(c->m, .kind = QR_EVENT_LEAVE, .code = last ? QR_UNAVAILABLE : QR_OUT_OF_RANGE,
               .text = "sample 3 is bad");
        deliver();
        CHECK(a->stop == !last, "%s", a->text);
        CHECK(last || (a->code == QR_OUT_OF_RANGE && strcmp(a->text, "sample 3 is bad") == 0));
    }
}
/* A parameter server leads, does not count as a worker, and waits for workers. */
static void test_servers(void) {
    reset();
    servers = 1;
    struct box *a = box(0, 0, 4, 1, fields_64), *b = box(1, 1, 4, 2, fields_64),
               *c = box(2, 2, 4, 3, fields_64);
    wire_up(b, a), wire_up(c, a), wire_up(c, b);
    pass(61 * QR_SECOND); /* Two of three workers are enough; the third has 60 s to connect. */
    CHECK(a->begun && b->begun && c->begun && a->gen.rank == 0 && a->gen.begin.n_members == 3);
    CHECK(a->gen.begin.member[0].server && !a->gen.begin.member[1].server &&
          c->gen.begin.member[0].server && !c->gen.begin.member[2].server);
    CHECK(strstr(b->log, "parameter server 0 (a:1) answered"), "%s", b->log);
    uint8_t mine[3][9];
    for (uint32_t r = 0; r < 3; r++) qr_generation_micro_batches(&c->gen.begin, r, 9, mine[r]);
    for (int k = 0; k < 9; k++)
        CHECK(!mine[0][k] && mine[1][k] == !(k % 2) && mine[2][k] == k % 2, "micro-batch %d", k);
    /* Worker 2 is lost: one worker is too few, and the server does not count. */
    tell_state(0, 7, 1, false);
    tell_state(1, 7, 1, false);
    qr_member_free(c->m);
    c->m = NULL;
    wires[1].open = wires[2].open = false;
    handle(a->m, .kind = QR_EVENT_DOWN, .conn = 3, .text = "gone");
    handle(b->m, .kind = QR_EVENT_DOWN, .conn = 5, .text = "gone");
    pass(2 * QR_SECOND);
    CHECK(!a->begun && !b->begun);
    CHECK(strstr(a->log, "too few workers left (1 of 2 needed): this parameter "
                         "server keeps the state of 7 reductions"),
          "%s", a->log);
    pass(100 * QR_SECOND);
    CHECK(b->stop && b->code == QR_DEADLINE_EXCEEDED &&
              strstr(b->text, "(1 of 3 present, 2 needed)"),
          "%s", b->text);
    pass(1000 * QR_SECOND);
    CHECK(!a->stop &&
              strstr(a->log, "this parameter server keeps the state of 7 reductions and waits"),
          "%s", a->log);
    /* Both workers restart and resume from the server's state. */
    *a->log = '\0';
    b = box(1, 1, 4, 12, fields_64), c = box(2, 2, 4, 13, fields_64);
    wire_up(b, a), wire_up(c, a), wire_up(c, b);
    pass(2 * QR_SECOND);
    CHECK(a->begun && b->begun && c->begun && b->gen.begin.base_reductions == 7 &&
              b->gen.begin.member[0].holder && !b->gen.begin.member[1].holder,
          "%s", a->log);
    /* The server is lost, and the workers continue. */
    qr_member_free(a->m);
    a->m = NULL;
    for (uint32_t k = 3; k < 5; k++) wires[k].open = false;
    handle(b->m, .kind = QR_EVENT_DOWN, .conn = 6, .text = "gone");
    handle(c->m, .kind = QR_EVENT_DOWN, .conn = 8, .text = "gone");
    pass(2 * QR_SECOND);
    CHECK(b->begun && c->begun && b->gen.rank == 0 && b->gen.begin.n_members == 2, "%s", b->log);
    servers = 0;
    reset(); /* The default minimum is half of the workers. */
    servers = 2;
    a = box(0, 0, 4, 1, fields_64);
    CHECK(qr_member_common(a->m)->min_workers == 1);
    servers = 0;
}
static const struct qr_member_faults no_faults;
static void test_base(void) {
    struct qr_held h[3] = {
        {.applied_reductions = 4, .base_reductions = 4, .n_runs = 1, .run = {{0, 3, 2}}},
        {.applied_reductions = 4, .base_reductions = 4, .n_runs = 1, .run = {{1, 2, 3}}},
        {.applied_reductions = 3, .base_reductions = 3, .n_runs = 1, .run = {{7, 1, 1}}}};
    struct qr_begin b = {.n_members = 3};
    /* Micro-batches 0 2 4 and 1 4 overlap; rank 2 is behind. */
    CHECK(member_choose_base(h, &no_faults, &b) == BASE_OK && b.base_reductions == 4);
    CHECK(b.member[0].keep && !b.member[1].keep && !b.member[2].keep && b.member[0].holder &&
          b.member[1].holder && !b.member[2].holder);
    uint8_t mine[3][9];
    for (uint32_t r = 0; r < 3; r++) qr_generation_micro_batches(&b, r, 9, mine[r]);
    for (int k = 0; k < 9; k++) CHECK(mine[0][k] + mine[1][k] + mine[2][k] == 1, "block %d", k);
    CHECK(mine[0][0] && mine[0][2] && mine[0][4] && mine[0][1] && mine[1][3] && mine[2][5] &&
          mine[0][6]);
    h[1].digest[0] = 1;
    b = (struct qr_begin){.n_members = 3};
    CHECK(member_choose_base(h, &no_faults, &b) == BASE_SPLIT && b.from_checkpoint);
    h[2].applied_reductions = 4, h[0].refusals = 1;
    b = (struct qr_begin){.n_members = 3};
    CHECK(member_choose_base(h, &no_faults, &b) == BASE_OK && !b.member[0].keep,
          "after a refusal no micro-batches are kept");
    h[2].refusals = 2;
    CHECK(member_choose_base(h, &no_faults, &b) == BASE_REFUSED_TWICE);
    for (uint64_t i = 0; i < 4000; i++) { /* Compare with an enumeration. */
        struct qr_run x = {i % 7, 1 + i % 5, 1 + i / 7 % 6},
                      y = {i / 5 % 11, 1 + i / 3 % 6, 1 + i / 11 % 5};
        bool meet = false;
        for (uint64_t p = 0; p < x.count; p++)
            for (uint64_t q = 0; q < y.count; q++)
                meet = meet || x.first + p * x.stride == y.first + q * y.stride;
        if (qr_runs_disjoint(&x, &y) == meet) CHECK(false, "runs %llu", (unsigned long long)i);
    }
}
int main(void) {
    queue = qr_xcalloc(QUEUE, sizeof *queue);
    test_forms_and_ends();
    test_rejected_hellos();
    test_malformed_message();
    test_claims();
    test_names();
    test_leavers();
    test_losses();
    test_broken_stream();
    test_bans();
    test_timeouts();
    test_servers();
    test_server_after_permanent_failures();
    test_base();
    reset();
    free(queue);
    return t_end();
}
