/* The membership machine's words and clocks: two or three machines wired to each other without
 * delay, on virtual time. */
#include "tests/boxes.h"

static void test_forms_and_ends(void) {
    reset();
    struct box *a = box(0, 0, 2, 1, fields_64);
    pass(5 * QR_SECOND);
    CHECK(!a->begun && !a->stop); /* waits for the late one */
    struct box *b = box(1, 1, 2, 2, fields_64);
    int64_t t = now_ns;
    wire_up(b, a);
    deliver();
    CHECK(a->begun && b->begun && now_ns == t, "in no time but that of the messages");
    CHECK(a->gen.rank == 0 && b->gen.rank == 1 && b->gen.begin.n_members == 2 &&
          a->gen.id_hash == b->gen.id_hash);
    CHECK(b->gen.begin.member[0].data_port == 2224 && a->gen.begin.member[1].data_port == 2224);
    qr_member_end(a->m, now_ns, QR_OK, "");
    deliver();
    qr_member_tick(a->m, now_ns);
    CHECK(a->done && b->done && a->code == QR_OK && b->code == QR_OK);

    /* a leader that could not write tells all the same sentence; a member that says no goodbye
     * costs 5 s */
    reset();
    a = box(0, 0, 2, 1, fields_64), b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    t = now_ns;
    qr_member_end(a->m, now_ns, QR_PERMISSION_DENIED, "gs://x: 403");
    n_queue = 0;                               /* it never arrives */
    for (int i = 0; i < 30 && !a->done; i++) { /* b lives, its heartbeats come */
        now_ns += 200 * MILLI;
        qr_member_tick(b->m, now_ns), qr_member_tick(a->m, now_ns);
        deliver();
    }
    CHECK(a->done && a->at_ns - t >= 5 * QR_SECOND && a->at_ns - t < 5500 * MILLI, "%.2f s",
          (double)(a->at_ns - t) / 1e9);
    CHECK(b->done && b->code == QR_PERMISSION_DENIED && strstr(b->text, "403"),
          "the goodbye repeats it: %s", b->text);

    reset();
    a = box(0, 0, 1, 1, fields_64);
    CHECK(a->begun && a->gen.begin.n_members == 1, "alone it begins at once");
}
static void test_settings(void) {
    reset();
    struct box *a = box(0, 0, 2, 1, fields_64), *b = box(1, 1, 2, 2, fields_32);
    int64_t t = now_ns;
    wire_up(b, a);
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

    reset(); /* all exit, also those that agree with each other */
    a = box(0, 0, 3, 1, fields_64), b = box(1, 1, 3, 2, fields_64);
    struct box *c = box(2, 2, 3, 3, fields_32);
    wire_up(b, a), wire_up(c, a), wire_up(c, b);
    pass(31 * QR_SECOND);
    CHECK(a->code == QR_FAILED_PRECONDITION && b->code == QR_FAILED_PRECONDITION &&
          c->code == QR_FAILED_PRECONDITION);

    /* a group that runs is not disturbed; the stranger is told by the leader at once, when a step
     * is committed */
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
static void test_strangers(void) {
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
    qr_member_up(a->m, now_ns, 1, false, 0);
    qr_member_message(a->m, now_ns, 1, hello);
    CHECK(
        strstr(a->log,
               "turned away worker 1 of another job: name is \"other\" there and \"qcnn\" here") &&
            !wires[0].open,
        "%s", a->log);
    pass(40 * QR_SECOND);
    CHECK(!a->stop, "a stranger never makes a member exit");
    strcpy(hello->hello.run, "qcnn");
    hello->hello.protocol_min = hello->hello.protocol_max = 9;
    wires[n_wires++] = (struct wire){{b, a}, true};
    qr_member_up(a->m, now_ns, 3, false, 0);
    qr_member_message(a->m, now_ns, 3, hello);
    CHECK(strstr(a->log, "protocol is 9-9 there and 3-3 here"), "%s", a->log);
    wires[n_wires++] = (struct wire){{b, a}, true};
    qr_member_up(b->m, now_ns, 4, true, 0); /* who answers at a:1 says it is worker 1 */
    hello->hello.protocol_min = QR_PROTOCOL_MIN;
    memcpy(hello->hello.job_hash, b->m->opt.job_hash, 32);
    memset(hello->hello.incarnation, 5, 16);
    qr_member_message(b->m, now_ns, 4, hello);
    CHECK(strstr(b->log, "who answers at a:1 says that it is worker 1, not 0"), "%s", b->log);
    qr_member_up(a->m, now_ns, 7, false, 0);
    qr_member_garbage(a->m, now_ns, 7, "hello message: index 99");
    CHECK(strstr(a->log, "a connection was closed: hello message: index 99"), "%s", a->log);
    free(hello);
}
static void test_claims(void) {
    reset(); /* before the group: the later wins, the earlier is told and gives up */
    struct box *a = box(0, 0, 3, 1, fields_64), *b = box(1, 1, 3, 2, fields_64),
               *twin = box(2, 1, 3, 3, fields_64);
    wire_up(b, a);
    deliver();
    wire_up(twin, a);
    deliver();
    CHECK(b->stop && b->code == QR_UNAVAILABLE &&
              strstr(b->text, "another process claimed index 1 (worker 0 (a:1) tells so)"),
          "%s", b->text);
    CHECK(!twin->stop && !a->stop && strstr(a->log, "worker 1 (b:2) was started again"), "%s",
          a->log);
    reset(); /* in a running group it is a loss: what it held is gone */
    few = 1;
    a = box(0, 0, 2, 1, fields_64), b = box(1, 1, 2, 2, fields_64),
    twin = box(2, 1, 2, 3, fields_64);
    wire_up(b, a);
    deliver();
    CHECK(a->begun && b->begun);
    wire_up(twin, a);
    deliver();
    few = 0;
    CHECK(strstr(a->log, "worker 1 (b:2) was started again") && a->begun && twin->begun &&
              a->gen.begin.n_members == 2,
          "%s", a->log);
    CHECK(memcmp(a->gen.begin.member[1].name.incarnation, twin->m->opt.incarnation,
                 QR_INCARNATION_BYTES) == 0);
}
/* Named in the log, and the others begin without it. */
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
            qr_member_down(a->m, now_ns, 3, "reset"), qr_member_down(b->m, now_ns, 5, "reset"),
                wires[1].open = wires[2].open = false;
        if (how == 1) { /* silence */
            qr_member_free(c->m);
            c->m = NULL;
        }
        if (how == 2) qr_member_leave(c->m, now_ns, "SIGTERM");
        /* all are there: the same begin again */
        if (how == 3) qr_member_data_down(a->m, now_ns, 2, "reset by peer", true);
        /* only one sees it: the other hears of it */
        if (how == 4) qr_member_down(a->m, now_ns, 3, "reset"), wires[1].open = false;
        pass(1500 * MILLI);
        static const char *const words[] = {
            "worker 2 (c:3): the connection broke (reset)", "worker 2 (c:3): silent for 1.2",
            "worker 2 (c:3) left: SIGTERM", "", "worker 2 (c:3): the connection broke (reset)"};
        CHECK(strstr(a->log, words[how]), "%d: %s", how, a->log);
        CHECK(a->begun && b->begun && a->gen.begin.n_members == (how == 3 ? 3 : 2) &&
                  b->gen.begin.n_members == a->gen.begin.n_members && a->gen.begin.id.number >= 2,
              "%d: %u members", how, a->gen.begin.n_members);
    }
    reset(); /* a trainer that stands still, in a process that answers */
    struct box *a = box(0, 0, 2, 1, fields_64), *b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    qr_member_set_turns(b->m, 1, QR_SECOND);
    pass(9 * QR_SECOND);
    CHECK(a->gen.begin.n_members == 2);
    pass(3 * QR_SECOND);
    CHECK(a->begun && a->gen.begin.n_members == 1 &&
              strstr(a->log, "worker 1 (b:2): its training thread has stood still for 10."),
          "%s", a->log);
    reset(); /* this process was stopped: the other's silence proves nothing */
    a = box(0, 0, 2, 1, fields_64), b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    now_ns += 20 * QR_SECOND;
    qr_member_tick(a->m, now_ns);
    CHECK(a->begun && a->gen.begin.n_members == 2 && strstr(a->log, "stood still for 20.0 s"), "%s",
          a->log);
    reset(); /* nor is it time in which a group was to form */
    a = box(0, 0, 2, 1, fields_64);
    pass(20 * QR_SECOND);
    now_ns += 300 * QR_SECOND;
    qr_member_tick(a->m, now_ns);
    pass(30 * QR_SECOND);
    CHECK(!a->begun && !a->stop, "stopped for five of six minutes, of one that it may take: %s",
          a->text);
    b = box(1, 1, 2, 2, fields_64);
    wire_up(b, a);
    deliver();
    CHECK(a->begun && b->begun && a->gen.begin.n_members == 2, "%s", a->log);
    few = 0;
}
/* A data stream and the control connection beside it break, and that one is back at once: the
 * stream is not forgotten for it. */
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
    qr_member_data_down(b[1]->m, now_ns, 2, "reset", true);
    qr_member_data_down(b[2]->m, now_ns, 1, "reset", true);
    wires[between].open = false;
    qr_member_down(b[2]->m, now_ns, 2 * between, "reset");
    qr_member_down(b[1]->m, now_ns, 2 * between + 1, "reset");
    /* what they said of it meanwhile is lost: the third one never hears that there was a break */
    n_queue = 0;
    wire_up(b[2], b[1]);
    pass(2 * QR_SECOND);
    for (uint32_t i = 0; i < 3; i++)
        CHECK(b[i]->begun && b[i]->gen.begin.n_members == 3 && b[i]->gen.begin.id.number > before,
              "worker %u: generation %llu", i, (unsigned long long)b[i]->gen.begin.id.number);
}

static void test_timeouts(void) {
    reset();
    struct box *a = box(0, 0, 4, 1, fields_64);
    pass(61 * QR_SECOND);
    CHECK(a->stop && a->code == QR_DEADLINE_EXCEEDED &&
              strstr(a->text, "worker 1 (b:2), worker 2 (c:3), worker 3 (d:4) did not answer (1 of "
                              "4 are here, 2 are needed)"),
          "%s", a->text);
    reset(); /* enough of them: they begin without the rest, by the clock that started first */
    struct box *b = box(1, 1, 4, 2, fields_64);
    pass(30 * QR_SECOND);
    a = box(0, 0, 4, 1, fields_64);
    wire_up(b, a);
    pass(29 * QR_SECOND);
    CHECK(!a->begun && !b->begun);
    pass(2 * QR_SECOND);
    CHECK(a->begun && b->begun && a->gen.begin.n_members == 2);
    /* reaches one of them only, so it is no member when they end: it need not wait for the rest of
     * its time */
    struct box *c = box(2, 2, 4, 3, fields_64);
    wire_up(c, b);
    pass(5 * QR_SECOND);
    CHECK(a->begun && a->gen.begin.n_members == 2 && !c->begun && !c->stop);
    int64_t t = now_ns;
    qr_member_end(a->m, now_ns, QR_OK, "");
    deliver();
    CHECK(b->done && c->stop && c->at_ns == t && c->code == QR_DEADLINE_EXCEEDED &&
              strstr(c->text, "the others have ended the run"),
          "%s", c->text);
    reset(); /* one that waits itself, and gives up, has ended nothing */
    a = box(0, 0, 4, 1, fields_64), b = box(1, 1, 4, 2, fields_64);
    wire_up(b, a);
    qr_member_leave(b->m, now_ns, "SIGTERM");
    deliver();
    CHECK(!a->stop);
}
static const struct qr_member_faults no_faults;
static void test_base(void) {
    struct qr_held h[3] = {
        {.applied_reductions = 4, .base_reductions = 4, .n_runs = 1, .run = {{0, 3, 2}}},
        {.applied_reductions = 4, .base_reductions = 4, .n_runs = 1, .run = {{1, 2, 3}}},
        {.applied_reductions = 3, .base_reductions = 3, .n_runs = 1, .run = {{7, 1, 1}}}};
    struct qr_begin b = {.n_members = 3};
    /* 0 2 4 against 1 4: not disjoint; rank 2 is behind */
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
          "after a refusal nobody's micro-batches are kept");
    h[2].refusals = 2;
    CHECK(member_choose_base(h, &no_faults, &b) == BASE_REFUSED_TWICE);
    for (uint64_t i = 0; i < 4000; i++) { /* disjointness against enumeration */
        struct qr_run x = {i % 7, 1 + i % 5, 1 + i / 7 % 6},
                      y = {i / 5 % 11, 1 + i / 3 % 6, 1 + i / 11 % 5};
        bool meet = false;
        for (uint64_t p = 0; p < x.count; p++)
            for (uint64_t q = 0; q < y.count; q++)
                meet = meet || x.first + p * x.stride == y.first + q * y.stride;
        if (qr_runs_disjoint(&x, &y) == meet) CHECK(false, "runs %llu", (unsigned long long)i);
    }
}
/* ---- lib/membership/protocol.md §8: a micro-batch that kills ---- */
static void four(void) {
    reset();
    for (uint32_t i = 0; i < 4; i++) box(i, i, 4, (uint8_t)(i + 1), fields_64);
    for (uint32_t i = 1; i < 4; i++)
        for (uint32_t k = 0; k < i; k++) wire_up(&boxes[i], &boxes[k]);
    pass(100 * MILLI);
    for (uint32_t i = 0; i < 4; i++)
        CHECK(boxes[i].begun && boxes[i].gen.begin.n_members == 4, "worker %u", i);
}
/* The others notice it at once, those of `late` when all else has been said. */
static void cut_late(uint32_t who, bool dies, unsigned late) {
    if (dies) qr_member_free(boxes[who].m), boxes[who].m = NULL;
    for (int turn = 0; turn < 2; turn++, deliver())
        for (uint32_t k = 0; k < n_wires; k++)
            for (int e = 0; e < 2; e++) {
                struct box *o = wires[k].end[!e];
                if (!wires[k].open || wires[k].end[e] != &boxes[who] ||
                    (late >> o->index & 1) != (unsigned)turn)
                    continue;
                wires[k].open = false;
                if (o->m) qr_member_down(o->m, now_ns, 2 * k + (unsigned)!e, "reset");
                if (!dies) qr_member_down(boxes[who].m, now_ns, 2 * k + (unsigned)e, "reset");
            }
    pass(100 * MILLI);
}
static void cut(uint32_t who, bool dies) { cut_late(who, dies, 0); }
static void name(uint32_t who, uint64_t micro_batch) {
    qr_member_name_in_flight(boxes[who].m, now_ns,
                             &(struct qr_in_flight){.n = 1, .micro_batch = {micro_batch}});
    CHECK(!qr_member_in_flight_heard(boxes[who].m), "nobody has answered");
    deliver();
    CHECK(qr_member_in_flight_heard(boxes[who].m), "all have");
}
static unsigned deaths(uint32_t who, uint64_t micro_batch) {
    return qr_deaths_of(&boxes[who].gen.begin.deaths, micro_batch);
}

static void test_poison(void) {
    four();
    cut(3, true);
    CHECK(deaths(0, 30) == 1 && deaths(1, 39) == 1 && deaths(2, 29) == 0, "what it owned: %u %u %u",
          deaths(0, 30), deaths(1, 39), deaths(2, 29));
    name(2, 35);
    cut(2, true);
    CHECK(deaths(0, 35) == 2 && deaths(1, 35) == 2 && deaths(0, 34) == 1 && deaths(0, 25) == 0,
          "what it had named");
    CHECK(!boxes[0].stop);
    name(1, 35);
    int64_t t = now_ns;
    cut(1, true);
    CHECK(boxes[0].stop && boxes[0].code == QR_DATA_LOSS && boxes[0].at_ns == t &&
              strcmp(boxes[0].text, "micro-batch 35 killed 3 workers, one after the other: worker "
                                    "3 (d:4), worker 2 (c:3), worker 1 (b:2)") == 0,
          "%s", boxes[0].text);

    /* some hear of a death before they notice it themselves: whoever is left knows of all three */
    for (unsigned late = 1; late < 8; late++) {
        uint32_t last = late & 1 ? 0 : late & 2 ? 1 : 2;
        four();
        cut_late(3, true, late);
        for (uint32_t i = 3; i-- > 0;) {
            if (i == last) continue;
            name(i, 35);
            cut_late(i, true, late);
        }
        CHECK(boxes[last].stop && strstr(boxes[last].text, "micro-batch 35 killed 3 workers"),
              "%x: worker %u: %s", late, last, boxes[last].text);
    }

    four(); /* in other micro-batches, or in none: no poison; nor is a step later */
    cut(3, true);
    name(2, 35);
    cut(2, true);
    name(1, 36);
    cut(1, true);
    CHECK(!boxes[0].stop && boxes[0].begun && deaths(0, 35) == 2 && deaths(0, 36) == 2);

    four(); /* the survivors are too few to begin anything */
    for (int i = 0; i < 4; i++) boxes[i].m->common.min_workers = 2;
    for (uint32_t i = 3; i > 0; i--) {
        if (i < 3) name(i, 35);
        cut(i, true);
    }
    CHECK(!boxes[0].stop, "somebody may come back: %s", boxes[0].text);
    pass(QR_SECOND);
    CHECK(boxes[0].stop && strstr(boxes[0].text, "micro-batch 35 killed 3 workers"), "%s",
          boxes[0].text);
}
/* A connection that breaks is no death when the same process comes back; a goodbye is
 * none either. */
static void test_no_deaths(void) {
    four();
    name(3, 35);
    for (int round = 0; round < 5; round++) {
        cut(3, false);
        CHECK(boxes[0].gen.begin.n_members == 3 && deaths(0, 35) == 1,
              "round %d: %u members, %u deaths", round, boxes[0].gen.begin.n_members,
              deaths(0, 35));
        for (uint32_t k = 0; k < 3; k++) wire_up(&boxes[3], &boxes[k]);
        pass(40 * QR_SECOND); /* it may be kept out for a while: it flaps */
        CHECK(boxes[0].begun && boxes[0].gen.begin.n_members == 4 && deaths(0, 35) == 0 &&
                  boxes[3].gen.begin.n_members == 4,
              "round %d: %u deaths", round, deaths(0, 35));
    }
    four();
    name(3, 35);
    qr_member_leave(boxes[3].m, now_ns, "SIGTERM");
    deliver();
    cut(3, true);
    CHECK(boxes[0].gen.begin.n_members == 3 && deaths(0, 35) == 0 && deaths(0, 30) == 0);
}
/* ---- rule 5: states that differ ---- */
static void tell_state(uint32_t who, uint64_t step, uint8_t digest, bool stateless) {
    struct qr_held h = {
        .stateless = stateless, .applied_reductions = step, .base_reductions = step};
    h.digest[0] = h.base_digest[0] = digest;
    qr_member_set_held(boxes[who].m, &h);
}
static void test_split(void) {
    struct qr_held h[3] = {
        {.stateless = true}, {.applied_reductions = 4}, {.applied_reductions = 2}};
    struct qr_begin b = {.n_members = 3};
    CHECK(member_choose_base(h, &no_faults, &b) == BASE_OK && b.base_reductions == 4 &&
              !b.member[0].holder && b.member[1].holder,
          "who has no state has no vote");
    h[1].stateless = h[2].stateless = true;
    b = (struct qr_begin){.n_members = 3};
    CHECK(member_choose_base(h, &no_faults, &b) == BASE_NONE && b.from_checkpoint);
    four(); /* three against one */
    for (uint32_t i = 0; i < 4; i++) tell_state(i, 7, i == 2 ? 9 : 1, false);
    qr_member_refused(boxes[0].m, now_ns);
    deliver();
    CHECK(boxes[0].begun && !boxes[0].gen.begin.from_checkpoint &&
          !boxes[0].gen.begin.member[2].holder && boxes[0].gen.begin.base_digest[0] == 1);
    CHECK(strstr(boxes[0].log,
                 "reduction 7: worker 2 (c:3) computed wrongly: its state is "
                 "09000000000000000000000000000000, and that of the majority is 0100"),
          "%s", boxes[0].log);
    CHECK(strstr(boxes[2].log, "reduction 7: this worker computed wrongly: its state is 0900") &&
              !strstr(boxes[1].log, "wrongly"),
          "%s", boxes[2].log);
    four(); /* two against two; a slow store; the same again */
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 4; i++) tell_state(i, 7, i < 2 ? 1 : 9, false);
        qr_member_refused(boxes[0].m, now_ns);
        deliver();
        if (round == 1) break;
        CHECK(boxes[3].begun && boxes[3].gen.begin.from_checkpoint &&
              boxes[3].gen.begin.base_reductions == 7);
        for (uint32_t i = 0; i < 4; i++) tell_state(i, 0, 0, true);
        tell_state(1, 3, 5, false);
        qr_member_refused(boxes[0].m, now_ns);
        deliver();
        CHECK(boxes[3].begun && !boxes[3].gen.begin.from_checkpoint &&
                  boxes[3].gen.begin.base_reductions == 3 && boxes[3].gen.begin.member[1].holder &&
                  !boxes[3].gen.begin.member[0].holder,
              "who has read it first is the base");
    }
    for (uint32_t i = 0; i < 4; i++)
        CHECK(
            (boxes[i].stop || boxes[i].done) && boxes[i].code == QR_DATA_LOSS &&
                strstr(boxes[i].text,
                       "reduction 7: the workers' states differ, twice, and no "
                       "majority agrees; states: 01000000000000000000000000000000 at worker 0 "
                       "(a:1), worker 1 (b:2); 09000000000000000000000000000000 at worker 2 (c:3), "
                       "worker 3 (d:4)"),
            "worker %u: %s", i, boxes[i].text);
}
/* ---- settings that differ and may ---- */
/* ten reductions an epoch */
static struct box *with(struct box *b, uint64_t epochs, enum qr_allreduce kind,
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
/* Two of three work, with 7 epochs, the star, and 2 as the fewest; the one that will come is
 * not there. */
static void two_work(uint32_t newcomer) {
    reset();
    uint32_t one = newcomer == 0, two = newcomer == 2 ? 1 : 2;
    with(box(one, one, 3, 1, fields_64), 7, QR_ALLREDUCE_STAR, 2);
    with(box(two, two, 3, 2, fields_64), 7, QR_ALLREDUCE_STAR, 2);
    wire_up(&boxes[two], &boxes[one]);
    pass(61 * QR_SECOND);
    CHECK(boxes[one].begun && boxes[two].begun && boxes[one].gen.begin.n_members == 2 &&
          !strstr(boxes[two].log, " here and "));
}
static void come(uint32_t newcomer) {
    for (uint32_t k = 0; k < 3; k++)
        if (k < newcomer) wire_up(&boxes[newcomer], &boxes[k]);
        else if (k > newcomer) wire_up(&boxes[k], &boxes[newcomer]);
}
static void test_others_settings(void) {
    static const char *const said[] = {"epochs is 900 here and 7 in the ring, whose value counts "
                                       "until it ends: to change it, stop all workers",
                                       "allreduce is ring here and star",
                                       "min-workers is 60 here and 2"};
    for (uint32_t newcomer = 0; newcomer < 3; newcomer++) {
        two_work(newcomer);
        struct box *late =
            with(box(newcomer, newcomer, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 60);
        come(newcomer);
        pass(QR_SECOND);
        CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3), "late, worker %u: %u members", newcomer,
              boxes[1].gen.begin.n_members);
        for (size_t k = 0; k < COUNT(said); k++)
            CHECK(strstr(late->log, said[k]) && !strstr(strstr(late->log, said[k]) + 1, said[k]),
                  "%s", late->log);
        for (uint32_t i = 0; i < 3; i++)
            CHECK(i == newcomer || !strstr(boxes[i].log, " here and "), "worker %u says: %s", i,
                  boxes[i].log);
        /* of the others one after the other is started again, with the newcomer's: what is handed
         * on stays */
        for (uint32_t gone = 0; gone < 3; gone++) {
            if (gone == newcomer) continue;
            for (uint32_t k = 0; k < n_wires; k++)
                if (wires[k].open &&
                    (wires[k].end[0] == &boxes[gone] || wires[k].end[1] == &boxes[gone])) {
                    wires[k].open = false;
                    qr_member_down(wires[k].end[wires[k].end[0] == &boxes[gone]]->m, now_ns,
                                   2 * k + (wires[k].end[0] == &boxes[gone]), "reset");
                }
            with(box(gone, gone, 3, (uint8_t)(20 + gone), fields_64), 900, QR_ALLREDUCE_RING, 60);
            come(gone);
            pass(3 * QR_SECOND);
            CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3), "worker %u came, then %u again", newcomer,
                  gone);
        }
    }
    two_work(2); /* one has begun alone, and is ahead of them: still theirs */
    with(box(2, 2, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 1);
    pass(61 * QR_SECOND);
    CHECK(boxes[2].begun && boxes[2].gen.begin.n_members == 1 &&
          boxes[2].gen.begin.common.epochs == 900);
    tell_state(2, 20, 5, false);
    come(2);
    pass(QR_SECOND);
    CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[0].gen.begin.base_reductions == 20);
    reset(); /* early: the leader's */
    for (uint32_t i = 0; i < 3; i++)
        with(box(i, i, 3, (uint8_t)(1 + i), fields_64), 900 - i, (enum qr_allreduce)(i + 1), 1 + i);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t k = 0; k < i; k++) wire_up(&boxes[i], &boxes[k]);
    pass(QR_SECOND);
    CHECK(all_have(900, QR_ALLREDUCE_RING, 1, 3));
    CHECK(!strstr(boxes[0].log, " here and ") &&
          strstr(boxes[2].log, "epochs is 898 here and 900") &&
          strstr(boxes[2].log, "allreduce is star here and ring"));
}
/* A state beyond the ring's epochs is not gone on from; beyond those of a first leader
 * nothing begins. */
static void test_beyond(void) {
    for (uint32_t newcomer = 0; newcomer < 3; newcomer += 2) {
        two_work(newcomer);
        with(box(newcomer, newcomer, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 1);
        tell_state(newcomer, 71, 5, false);
        come(newcomer);
        pass(QR_SECOND);
        CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[1].gen.begin.base_reductions == 0 &&
                  !boxes[1].gen.begin.member[newcomer].holder,
              "step %llu", (unsigned long long)boxes[1].gen.begin.base_reductions);
        two_work(newcomer); /* the last one of them is */
        with(box(newcomer, newcomer, 3, 9, fields_64), 900, QR_ALLREDUCE_RING, 1);
        tell_state(newcomer, 70, 5, false);
        come(newcomer);
        pass(QR_SECOND);
        CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[1].gen.begin.base_reductions == 70);
    }
    reset();
    for (uint32_t i = 0; i < 2; i++) {
        with(box(i, i, 2, (uint8_t)(1 + i), fields_64), 7 + i, QR_ALLREDUCE_AUTO, 1);
        tell_state(i, 75, 5, false);
    }
    wire_up(&boxes[1], &boxes[0]);
    pass(QR_SECOND);
    for (int i = 0; i < 2; i++)
        CHECK((boxes[i].stop || boxes[i].done) && !boxes[i].begun &&
                  boxes[i].code == QR_INVALID_ARGUMENT &&
                  strstr(boxes[i].text, "7 epochs are trained already, and worker 0 (a:1), which "
                                        "leads, has --epochs 7"),
              "%s", boxes[i].text);
}
/* A stranger beside a newcomer of the job's: it keeps a first generation from forming, and
 * nothing else. */
static void test_stranger_beside(void) {
    for (uint32_t newcomer = 0; newcomer < 3; newcomer += 2)
        for (int order = 0; order < 2; order++) {
            two_work(newcomer);
            with(box(newcomer, newcomer, 4, 9, fields_64), 7, QR_ALLREDUCE_STAR, 1);
            box(3, 3, 4, 8, fields_32);
            if (order) come(newcomer); /* the stranger comes between promise and Begin */
            wire_up(&boxes[3], &boxes[newcomer]);
            if (!order) come(newcomer);
            pass(500 * MILLI);
            CHECK(boxes[newcomer].begun && all_have(7, QR_ALLREDUCE_STAR, 2, 3),
                  "worker %u, order %d: %s", newcomer, order, boxes[newcomer].log);
            for (uint32_t i = 0; i < 3; i++)
                if (i != newcomer) wire_up(&boxes[3], &boxes[i]);
            pass(40 * QR_SECOND);
            CHECK(all_have(7, QR_ALLREDUCE_STAR, 2, 3) && boxes[3].stop &&
                  boxes[3].code == QR_FAILED_PRECONDITION);
        }
    /* one is left of two that are needed; a stranger comes, and then the other one again */
    two_work(0);
    qr_member_leave(boxes[2].m, now_ns, "SIGTERM");
    deliver();
    box(0, 0, 3, 8, fields_32);
    wire_up(&boxes[1], &boxes[0]);
    pass(50 * QR_SECOND);
    CHECK(!boxes[1].stop && !boxes[1].begun && boxes[0].stop, "%s", boxes[1].text);
    with(box(2, 2, 3, 7, fields_64), 900, QR_ALLREDUCE_RING, 1);
    wire_up(&boxes[2], &boxes[1]);
    pass(QR_SECOND);
    CHECK(boxes[1].begun && boxes[2].begun && boxes[1].gen.begin.common.epochs == 7);
}
/* Who was started again under the leader's index is not the leader yet: its end is
 * nobody else's. */
static void test_end_of_another(void) {
    static struct qr_message end[2] = {
        {.kind = QR_MESSAGE_DONE, .done = {.code = QR_INVALID_ARGUMENT, .text = "mine"}},
        {.kind = QR_MESSAGE_GOODBYE,
         .goodbye = {.why = QR_GOODBYE_DONE, .code = QR_INVALID_ARGUMENT, .text = "mine"}}};
    for (int how = 0; how < 2; how++) {
        two_work(2);
        box(2, 0, 3, 9, fields_64);
        wires[n_wires++] = (struct wire){{&boxes[1], &boxes[2]}, true};
        uint32_t conn = 2 * (n_wires - 1);
        qr_member_up(boxes[1].m, now_ns, conn, true, 0);
        qr_member_up(boxes[2].m, now_ns, conn + 1, false, 0);
        for (size_t i = 0; i < n_queue; i++)
            if (queue[i].conn == conn && queue[i].msg.kind == QR_MESSAGE_HELLO)
                qr_member_message(boxes[1].m, now_ns, conn, &queue[i].msg);
        n_queue = 0;
        qr_member_message(boxes[1].m, now_ns, conn, &end[how]);
        CHECK(!boxes[1].done && !boxes[1].stop &&
                  strstr(boxes[1].log, "worker 0 (a:1) was started again"),
              "%s", boxes[1].log);
    }
}
int main(void) {
    queue = qr_xcalloc(QUEUE, sizeof *queue);
    test_forms_and_ends();
    test_settings();
    test_strangers();
    test_claims();
    test_losses();
    test_broken_stream();
    test_timeouts();
    test_base();
    few = 1;
    test_poison();
    test_no_deaths();
    test_split();
    few = 0;
    test_others_settings();
    test_beyond();
    test_stranger_beside();
    test_end_of_another();
    reset();
    free(queue);
    return t_end();
}
