/* The membership machine and members that do harm: a micro-batch that kills whoever computes it,
 * and states that differ. */
#include "tests/boxes.h"

static const struct qr_member_faults no_faults;

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
    CHECK(!qr_member_in_flight_acknowledged(boxes[who].m), "nobody has answered");
    deliver();
    CHECK(qr_member_in_flight_acknowledged(boxes[who].m), "all have");
}
static unsigned deaths(uint32_t who, uint64_t micro_batch) {
    return qr_death_count(&boxes[who].gen.begin.deaths, micro_batch);
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
    qr_member_leave(boxes[3].m, now_ns, QR_CANCELLED, "SIGTERM");
    deliver();
    cut(3, true);
    CHECK(boxes[0].gen.begin.n_members == 3 && deaths(0, 35) == 0 && deaths(0, 30) == 0);
}
/* ---- rule 5: states that differ ---- */
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
    qr_member_coverage_rejected(boxes[0].m, now_ns);
    deliver();
    CHECK(boxes[0].begun && !boxes[0].gen.begin.from_checkpoint &&
          !boxes[0].gen.begin.member[2].holder && boxes[0].gen.begin.base_digest[0] == 1);
    CHECK(strstr(boxes[0].log, "reduction 7: worker 2 (c:3) computed a wrong state: its digest is "
                               "09000000000000000000000000000000, the majority's is 0100"),
          "%s", boxes[0].log);
    CHECK(strstr(boxes[2].log,
                 "reduction 7: this worker computed a wrong state: its digest is 0900") &&
              !strstr(boxes[1].log, "wrong state"),
          "%s", boxes[2].log);
    four(); /* two against two; a slow store; the same again */
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 4; i++) tell_state(i, 7, i < 2 ? 1 : 9, false);
        qr_member_coverage_rejected(boxes[0].m, now_ns);
        deliver();
        if (round == 1) break;
        CHECK(boxes[3].begun && boxes[3].gen.begin.from_checkpoint &&
              boxes[3].gen.begin.base_reductions == 7);
        for (uint32_t i = 0; i < 4; i++) tell_state(i, 0, 0, true);
        tell_state(1, 3, 5, false);
        qr_member_coverage_rejected(boxes[0].m, now_ns);
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
                       "reduction 7: the workers' states differ a second time, without a majority; "
                       "states: 01000000000000000000000000000000 at worker 0 (a:1), worker 1 "
                       "(b:2); 09000000000000000000000000000000 at worker 2 (c:3), worker 3 (d:4)"),
            "worker %u: %s", i, boxes[i].text);
}
int main(void) {
    queue = qr_xcalloc(QUEUE, sizeof *queue);
    few = 1;
    test_poison();
    test_no_deaths();
    test_split();
    few = 0;
    reset();
    free(queue);
    return t_end();
}
