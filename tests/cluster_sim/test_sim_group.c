/* N membership machines in one process, virtual time, seeds: any start order, delays, loss,
 * repeats, disorder, links cut, stops, kills, restarts.
 *
 * Each member carries a toy trainer: integer sums over micro-batches, with coverage words, sent to
 * every other member of its generation. What must hold is checked at each action; a run that breaks
 * a rule prints its seed. SEED=n replays one seed (with its events), SEEDS=n the number of seeds.
 * The last part plants faults (in the machine, in the trainer) and demands that they are seen: a
 * check that cannot fail proves nothing. */
#include "tests/cluster_sim/world_process.h"

/* ---- all are needed: a lost member stops the work, or all end together ---- */
enum loss { LOSS_NONE, LOSS_KILL, LOSS_FREEZE, LOSS_CUT };
static void run_stop(struct world *w) {
    enum loss loss = (enum loss)dice(w, 4);
    uint64_t steps = w->steps;
    while (!all_active(w) && now_of(w) < 30 * QR_SECOND && !w->broken_rules)
        turn(w, 31 * QR_SECOND);
    struct node *x = &w->node[dice(w, w->n)];
    RULE(all_active(w) || loss == LOSS_NONE,
         "the first generation forms within 30 s of any start order");
    if (loss != LOSS_NONE) {
        int64_t until = now_of(w) + (int64_t)dice(w, 400) * MS(1);
        w->steps = UINT64_MAX; /* goes on until the loss */
        while (now_of(w) < until) turn(w, until);
        int64_t at = now_of(w);
        for (unsigned i = 0; i < w->n; i++) w->node[i].has_lost = false;
        SAY("is %s", loss == LOSS_KILL ? "killed" : loss == LOSS_CUT ? "cut off" : "frozen");
        if (loss == LOSS_KILL) end_process(x);
        if (loss == LOSS_FREEZE) x->paused = true, x->resume_ns = INT64_MAX;
        for (unsigned i = 0; loss == LOSS_CUT && i < w->n; i++) {
            qr_sim_net_block(w->net, w->node[i].link, x->link, true);
            qr_sim_net_block(w->net, x->link, w->node[i].link, true);
        }
        while (now_of(w) < at + 2 * QR_SECOND && !w->broken_rules) turn(w, at + 2 * QR_SECOND);
        for (unsigned i = 0; i < w->n; i++) {
            const struct node *o = &w->node[i];
            if (o == x) continue;
            if (!o->has_lost || o->lost != x->index || o->lost_ns - at > 2 * QR_SECOND)
                SAY("worker %u: lost %d %u %s", i, o->has_lost, o->lost, o->text);
            RULE(o->has_lost && o->lost == x->index, "every survivor names the lost member");
            RULE(o->has_lost && o->lost_ns - at <= 2 * QR_SECOND, "within 2 s");
            char name[48];
            snprintf(name, sizeof name, "worker %u (%s): ", x->index, w->name[x->index]);
            RULE(strstr(o->text, name) == o->text, "with its name and address");
            RULE(!o->active, "and works on with nobody");
        }
        w->steps = steps;
        return;
    }
    int64_t until = now_of(w) + 30 * QR_SECOND;
    bool all = false;
    while (!all && now_of(w) < until && !w->broken_rules) {
        turn(w, until);
        all = true;
        for (unsigned i = 0; i < w->n; i++) all = all && w->node[i].ended;
    }
    for (unsigned i = 0; i < w->n; i++) {
        x = &w->node[i];
        RULE(x->ended && x->code == QR_OK, "all end together");
        RULE(x->step == w->steps && x->value == w->ref[w->steps % MAX_STEPS],
             "with the undisturbed weights");
    }
}

/* ---- members come and go ---- */
static void trouble(struct world *w) {
    struct node *x = &w->node[dice(w, w->n)], *o = &w->node[dice(w, w->n)];
    unsigned slot = (unsigned)dice(w, 2);
    switch (dice(w, w->faulty ? 11 : 8)) {
    case 0:
        if (!x->live || x->finished) break;
        SAY("is killed");
        end_process(x);
        x->start_ns = now_of(w) + MS(50) + (int64_t)dice(w, 2500) * MS(1);
        break;
    case 1:
    case 2:
        if (x == o || !x->live || !o->live) break;
        SAY("cannot reach worker %u", o->index);
        qr_sim_net_block(w->net, x->link, o->link, true);
        if (dice(w, 2)) qr_sim_net_block(w->net, o->link, x->link, true);
        break;
    case 3:
        if (x == o || !x->link || !o->link) break;
        qr_sim_net_block(w->net, x->link, o->link, false);
        qr_sim_net_block(w->net, o->link, x->link, false);
        break;
    case 4:
        if (x != o && x->live && o->live) qr_sim_net_break(w->net, x->link, o->link);
        break;
    case 5:
        if (!x->live || x->finished || x->paused) break;
        SAY("is stopped");
        x->paused = true, x->resume_ns = now_of(w) + MS(20) + (int64_t)dice(w, 3000) * MS(1);
        break;
    case 6:
        if (x == o || !x->live || !o->live) break;
        SAY("sends no data to worker %u", o->index);
        w->deaf[x->index][o->index] = true;
        w->deaf[o->index][x->index] = dice(w, 2);
        break;
    case 7:
        hears_again(w, x, o);
        hears_again(w, o, x);
        break;
    case 8:
        qr_sim_net_faults(w->net, (unsigned)dice(w, 100), (unsigned)dice(w, 100),
                          (unsigned)dice(w, 100));
        break;
    default: /* an old message comes again */
        if (!x->live || x->paused || x->finished || !x->stale[slot].kind ||
            x->stale_from[slot] >= w->n || !x->conn[x->stale_from[slot]])
            break;
        SAY("gets an old %s again", qr_message_kind_name(x->stale[slot].kind));
        handle(w, x->m, .kind = QR_EVENT_MESSAGE, .conn = x->conn[x->stale_from[slot]],
               .message = &x->stale[slot]);
    }
}
/* the processes that gave up start again, as a cluster does */
static void clean_up(struct world *w) {
    for (unsigned i = 0; i < w->n; i++) {
        struct node *x = &w->node[i];
        if (!x->live || x->finished) continue;
        if (i < w->servers && w->latest_done && !x->active && !x->paused) { /* it looks at LATEST */
            end_process(x);
            x->finished = true;
            continue;
        }
        if (!(x->ended || x->stopped)) continue;
        RULE(i >= w->servers || x->code != QR_DEADLINE_EXCEEDED || w->done,
             "a parameter server waits for workers");
        bool good = x->ended && x->code == QR_OK;
        RULE(!good || w->done, "done is said only after the closing reduction");
        RULE(x->value == ref_of(w, x->step), "every state is the undisturbed run's");
        end_process(x);
        if (good) x->finished = true;
        else x->start_ns = now_of(w) + MS(300);
    }
}
static void run_elastic(struct world *w) {
    int64_t quiet = MS(500) + (int64_t)dice(w, 6000) * MS(1), next = 0;
    w->faulty = dice(w, 2);
    w->cut_data = dice(w, 3) == 0; /* ... or hear each other, and no data passes */
    w->cut = dice(w, 4) == 0; /* workers 0 and 1 never hear each other again: no clique of all */
    while (now_of(w) < quiet && !w->broken_rules) {
        if (now_of(w) >= next) {
            trouble(w);
            next = now_of(w) + (int64_t)dice(w, 400) * MS(1);
        }
        turn(w, next < quiet ? next : quiet);
        clean_up(w);
    }
    qr_sim_net_faults(w->net, 0, 0, 0);
    for (unsigned i = 0; i < w->n; i++) {
        w->node[i].resume_ns = w->node[i].paused ? now_of(w) : 0;
        for (unsigned k = 0; k < w->n; k++) {
            if (w->node[i].link && w->node[k].link)
                qr_sim_net_block(w->net, w->node[i].link, w->node[k].link, w->cut && i + k == 1);
            if (w->cut_data && i + k == 1) w->deaf[i][k] = true;
            else hears_again(w, &w->node[i], &w->node[k]);
        }
    }
    w->quiet_ns = quiet;
    /* Longest waits after quiet: 20 s to form where a peer has finished and gone, 3 s back-off, a
     * ban of 30 s: 60 s hold them. */
    int64_t until = now_of(w) + 60 * QR_SECOND;
    bool all = false;
    while (!all && now_of(w) < until && !w->broken_rules) {
        turn(w, until);
        clean_up(w);
        all = true;
        for (unsigned i = 0; i < w->n; i++) all = all && w->node[i].finished;
    }
    struct node *x = &w->node[0];
    for (unsigned i = 0; i < w->n && !all; i++)
        if (!w->node[i].finished) x = &w->node[i];
    RULE(all || (w->mutations & ~(unsigned)PLANTED_CONTROL_IS_ENOUGH),
         "after quiet everybody finishes");
}

static bool one(uint64_t seed, unsigned mutations, enum plant plant, int planted, bool loud,
                struct world *w) {
    bool elastic = plant || (seed & 1);
    world_init(w, seed, elastic, plant ? 2 + (unsigned)(seed % 3) : 0,
               elastic && !plant ? 50 + mix(seed) % 200 : 5 + mix(seed) % 6);
    w->loud = loud, w->mutations = mutations, w->plant = plant, w->planted = planted;
    if (plant) {
        int64_t until = 60 * QR_SECOND;
        bool all = false;
        while (!all && now_of(w) < until) {
            turn(w, until);
            all = true;
            for (unsigned i = 0; i < w->n; i++)
                all = all && (w->node[i].ended || w->node[i].stopped);
        }
        if (!all) broken(w, "planted faults heal or end the job", &w->node[0]);
    } else if (elastic) run_elastic(w);
    else run_stop(w);
    if (!mutations && !plant && w->refused)
        broken(w, "coverage is a net that is never needed", &w->node[0]);
    return w->broken_rules == 0;
}

static void test_seeds(uint64_t first, uint64_t n, bool loud) {
    static struct world w;
    unsigned failed = 0, generations = 0;
    for (uint64_t seed = first; seed < first + n && failed < 5; seed++) {
        bool good = one(seed, 0, PLANT_NONE, 0, loud, &w);
        if (!good) failed++;
        CHECK(good, "SEED=%llu: %s (%s)", (unsigned long long)seed, w.rule, w.detail);
        generations += w.n_gens;
        world_fini(&w);
    }
    printf("seeds %llu to %llu: %u proposals\n", (unsigned long long)first,
           (unsigned long long)(first + n - 1), generations);
}
static void test_mutations(void) {
    static const struct {
        unsigned m;
        const char *name;
    } mutation[] = {
        {PLANTED_BEGIN_WITHOUT_PROMISE, "begin without promise"},
        {PLANTED_PROMISE_ANY, "promise any id"},
        {PLANTED_KEEP_OVERLAP, "keep overlapping micro-batches"},
        {PLANTED_KEEP_OTHER_BASE, "keep micro-batches of another state"},
        {PLANTED_NO_SUSPEND, "works on after a promise"},
        {PLANTED_ID_IS_NUMBER, "ids are numbers only"},
        {PLANTED_CONTROL_IS_ENOUGH, "hears who passes no data"},
    };
    static struct world w;
    for (size_t k = 0; k < COUNT(mutation); k++) {
        bool seen = false;
        uint64_t seed = 1;
        const char *how = "";
        /* odd: elastic, and a run that is good without the mutation */
        for (; seed < 400 && !seen; seed += 2) {
            seen = !one(seed, mutation[k].m, PLANT_NONE, 0, false, &w) || w.refused > 0;
            how = w.broken_rules ? w.rule : "coverage check failed";
            /* the net holds: whatever the machine does, no wrong sum is applied */
            CHECK(w.rule == NULL || strcmp(w.rule, "no wrong sum is applied") != 0, "%s", w.detail);
            world_fini(&w);
        }
        CHECK(seen, "mutation \"%s\" was not seen in %llu seeds", mutation[k].name,
              (unsigned long long)seed);
        printf("mutation \"%s\": seen at seed %llu (%s)\n", mutation[k].name,
               (unsigned long long)seed - 2, how);
    }
}
static void test_plants(void) {
    static struct world w;
    for (enum plant p = PLANT_TWICE; p <= PLANT_OTHER_STATE; p++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            bool good = one(seed, 0, p, 1, false, &w);
            CHECK(good && w.refused > 0, "plant %d seed %llu: refused %u, %s", p,
                  (unsigned long long)seed, w.refused, w.rule ? w.rule : "");
            for (unsigned i = 0; i < w.n; i++)
                CHECK(w.node[i].ended && w.node[i].code == QR_OK &&
                          w.node[i].value == ref_of(&w, w.steps),
                      "plant %d: it heals: %s", p, w.node[i].text);
            world_fini(&w);
            /* for ever: refused twice at one step ends the job for all */
            good = one(seed, 0, p, 1000, false, &w);
            for (unsigned i = 0; i < w.n; i++)
                CHECK(good && w.node[i].code == QR_DATA_LOSS &&
                          strstr(w.node[i].text, "reduction 3"),
                      "plant %d: all stop: %d %s", p, w.node[i].code, w.node[i].text);
            world_fini(&w);
        }
}

int main(void) {
    const char *seed = getenv("SEED"), *n = getenv("SEEDS");
    if (seed) {
        test_seeds(strtoull(seed, NULL, 10), n ? strtoull(n, NULL, 10) : 1, true);
        return t_end();
    }
    test_plants();
    test_mutations();
    test_seeds(1, n ? strtoull(n, NULL, 10) : 500, false);
    return t_end();
}
