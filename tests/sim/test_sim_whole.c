/* Whole workers on virtual time under kills, restarts, stops, cuts, breaks, leaving and slow ones: every stable step, the digest and the log are those
 * of one worker that nobody disturbed. SEED=n replays one seed and tells what happens, N=n is the number of seeds. */
#include "group/member.h"
#include "tests/sim/whole.h"

static const char job[] =
    "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":4,\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],"
    "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":10,\"train_fraction\":0.7},\"precision\":\"double\",\"block_size\":2,"
    "\"train\":{\"epochs\":3,\"batch_size\":9,\"loss\":\"mse\",\"metrics\":[\"accuracy\"],\"early_stopping\":{\"patience\":9},"
    "\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.05}}}";

static enum qr_code keep_line(void *ctx, bool leader, const struct qr_step_line *line, const struct qr_step_detail *detail, struct qr_err *err) {
    (void)ctx, (void)leader, (void)detail, (void)err;
    CHECK(2 * line->step + line->eval < MAX_LINES);
    qr_step_json(line, &truth.line[2 * line->step + line->eval]);
    qr_step_json(line, &truth.log);
    return QR_OK;
}
static void find_truth(void) {
    struct qr_err err = {0};
    struct qr_group_options g = {.run = "whole", .clock = &qr_clock_monotonic};
    struct qr_train_result result = {0};
    CHECK(qr_job_parse(qr_bytes_of_string(job), "the test", &truth.job, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_data(truth.job, &truth.data, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_job_model(truth.job, QR_ISA_PORTABLE, truth.data.n_columns, &truth.model, &err) == QR_OK, "%s", err.msg);
    qr_job_canonical(truth.job, &truth.data, NULL, &truth.canonical);
    struct qr_train_options t = {.job = truth.job, .canonical = &truth.canonical, .data = &truth.data, .model = truth.model,
                                 .group = qr_group_solo(&g), .pool = qr_pool_new(1), .clock = &qr_clock_monotonic, .observer.step = keep_line};
    CHECK(qr_train_run(&t, &result, &err) == QR_OK, "%s", err.msg);
    memcpy(truth.digest, result.state_digest, sizeof truth.digest);
    free(result.params);
    qr_group_close(t.group);
    qr_pool_free(t.pool);
}

static void trouble(struct whole *w) {
    struct node *x = &w->node[dice(w, w->n)], *o = &w->node[dice(w, w->n)];
    bool both = x != o && x->live && o->live && !x->killed && !o->killed;
    switch (dice(w, 7)) {
    case 0:
    case 1:
        if (x->live && !x->killed) kill_node(x);
        break;
    case 2:
        if (!both) break;
        SAY(x, "cannot reach worker %u", o->index);
        for (int k = 0, twice = (int)dice(w, 2); k <= twice; k++) {
            struct node *a = k ? o : x, *b = k ? x : o;
            qr_sim_net_block(w->net, a->control_port.inner, b->control_port.inner, true);
            if (dice(w, 2)) qr_sim_net_block(w->net, a->data_port.inner, b->data_port.inner, true);
        }
        break;
    case 3:
        if (!both) break;
        SAY(x, "reaches worker %u again", o->index);
        for (int k = 0; k < 2; k++) {
            struct node *a = k ? o : x, *b = k ? x : o;
            qr_sim_net_block(w->net, a->control_port.inner, b->control_port.inner, false);
            qr_sim_net_block(w->net, a->data_port.inner, b->data_port.inner, false);
        }
        break;
    case 4:
        if (!both) break;
        SAY(x, "loses a connection to worker %u", o->index);
        if (dice(w, 2)) qr_sim_net_break(w->net, x->control_port.inner, o->control_port.inner);
        else qr_sim_net_break(w->net, x->data_port.inner, o->data_port.inner);
        break;
    case 5:
        if (!x->live || x->killed || x->paused) break;
        SAY(x, "is stopped");
        x->paused = true;
        x->resume_ns = now_of(w) + MS(20) + (int64_t)dice(w, 3000) * MS(1);
        break;
    default:
        if (!x->live || x->killed || x->paused || !x->group || dice(w, 2)) break;
        SAY(x, "is asked to leave");
        qr_group_interrupt(x->group);
    }
}
static void heal(struct whole *w) {
    for (unsigned i = 0; i < w->n; i++) {
        struct node *x = &w->node[i];
        if (x->paused) x->resume_ns = now_of(w);
        for (unsigned k = 0; k < w->n; k++)
            if (k != i && x->live && w->node[k].live) {
                qr_sim_net_block(w->net, x->control_port.inner, w->node[k].control_port.inner, false);
                qr_sim_net_block(w->net, x->data_port.inner, w->node[k].data_port.inner, false);
            }
    }
}
static bool all_finished(const struct whole *w) {
    for (unsigned i = 0; i < w->n; i++)
        if (w->node[i].live || !w->node[i].finished) return false;
    return true;
}
static bool goes_on(const struct whole *w) {
    return !all_finished(w) && w->turns < 2000000 && !(w->mutations && w->broken_rules); /* what is broken may hang */
}
static void check_log(struct whole *w) {
    struct qr_buf text = {0};
    struct qr_err err;
    char path[96];
    snprintf(path, sizeof path, "%s/steps.jsonl", w->dir);
    if (qr_file_read(path, 1 << 20, &text, &err) != QR_OK || text.n != truth.log.n || memcmp(text.p, truth.log.p, text.n) != 0)
        broken(w, &w->node[0], "each step is in the log once", text.n ? "it differs" : "there is none");
    qr_buf_free(&text);
}
static bool one(struct whole *w, uint64_t seed, bool loud, unsigned mutations) {
    whole_init(w, seed, loud);
    w->mutations = mutations;
    int64_t quiet_ns = MS(200) + (int64_t)dice(w, 4000) * MS(1), every = 1 + (int64_t)dice(w, 400), next_ns = 0;
    bool calm = dice(w, 8) == 0;
    while (now_of(w) < quiet_ns && goes_on(w)) {
        if (!calm && now_of(w) >= next_ns) {
            trouble(w);
            next_ns = now_of(w) + (int64_t)dice(w, (uint64_t)every) * MS(1);
        }
        turn(w, next_ns < quiet_ns && next_ns > now_of(w) ? next_ns : quiet_ns);
    }
    heal(w);
    int64_t until_ns = now_of(w) + 180 * QR_SECOND; /* bans of 30 s, a group that waits for one that does not come, and the run itself, slow */
    while (now_of(w) < until_ns && goes_on(w)) turn(w, until_ns);
    for (unsigned i = 0; i < w->n; i++)
        if (w->node[i].live || !w->node[i].finished) broken(w, &w->node[i], "after quiet everybody finishes", "it has not");
    if (w->done) check_log(w);
    return w->broken_rules == 0;
}

/* One dies, freezes or is cut off: the others name it within 1.5 s, and a step is stable again within 2 s, always. */
static void run_loss(struct whole *w, uint64_t seed, int64_t *ret_named_ns, int64_t *ret_on_ns) {
    whole_init(w, seed, false);
    if (w->n < 2) w->n = w->n_lives = 2;
    for (unsigned i = 0; i < w->n; i++) {
        w->node[i].start_ns = 1 + (int64_t)dice(w, 50) * MS(1);
        w->node[i].block_ns = MS(2);
    }
    while (w->n_joins < w->n && goes_on(w)) turn(w, 10 * QR_SECOND);
    int64_t at_ns = now_of(w) + (int64_t)dice(w, 60) * MS(1);
    while (now_of(w) < at_ns && goes_on(w)) turn(w, at_ns);
    struct node *x = w->victim = &w->node[dice(w, w->n)];
    at_ns = now_of(w);
    unsigned how = (unsigned)dice(w, 3);
    if (how == 0) kill_node(x);
    if (how == 1) {
        x->paused = true;
        x->resume_ns = INT64_MAX;
    }
    for (unsigned i = 0; i < w->n && how == 2; i++)
        for (int k = 0; k < 2 && &w->node[i] != x; k++) {
            struct node *a = k ? x : &w->node[i], *b = k ? &w->node[i] : x;
            qr_sim_net_block(w->net, a->control_port.inner, b->control_port.inner, true);
            qr_sim_net_block(w->net, a->data_port.inner, b->data_port.inner, true);
        }
    for (unsigned i = 0; i < w->n; i++) w->node[i].told_ns = 0;
    int64_t first_ns[MAX_NODES] = {0};
    while (now_of(w) < at_ns + 3 * QR_SECOND && goes_on(w)) {
        turn(w, at_ns + 3 * QR_SECOND);
        for (unsigned i = 0; i < w->n; i++) /* a step that was under way may pass before anybody misses the victim */
            if (w->node[i].named_ns && w->node[i].told_ns > w->node[i].named_ns && !first_ns[i]) first_ns[i] = w->node[i].told_ns;
    }
    for (unsigned i = 0; i < w->n; i++) {
        struct node *o = &w->node[i];
        if (o == x || (o->finished && !o->named_ns)) continue; /* it ended before it could miss anybody */
        int64_t named_ns = o->named_ns ? o->named_ns - at_ns : INT64_MAX, on_ns = first_ns[i] ? first_ns[i] - at_ns : INT64_MAX;
        if (named_ns > 3 * QR_SECOND / 2) broken(w, o, "who is lost is named within 1.5 s", "it is not");
        if (on_ns > 2 * QR_SECOND) broken(w, o, "training goes on within 2 s", "it does not");
        if (named_ns > *ret_named_ns && o->named_ns) *ret_named_ns = named_ns;
        if (on_ns > *ret_on_ns && first_ns[i]) *ret_on_ns = on_ns;
    }
    x->resume_ns = now_of(w);
    heal(w);
    int64_t until_ns = now_of(w) + 180 * QR_SECOND;
    while (now_of(w) < until_ns && goes_on(w)) turn(w, until_ns);
}
static void test_bounds(struct whole *w) {
    int64_t named_ns = 0, on_ns = 0;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        run_loss(w, seed, &named_ns, &on_ns);
        CHECK(w->broken_rules == 0, "seed %llu: %s (%s)", (unsigned long long)seed, w->rule, w->detail);
        whole_fini(w);
    }
    printf("60 losses: named after at most %.2f s, a step is stable again after at most %.2f s\n", (double)named_ns / 1e9, (double)on_ns / 1e9);
}

/* A check that cannot fail proves nothing: each planted bug is seen. */
static void test_mutations(struct whole *w) {
    static const struct { unsigned m; const char *name; } mutation[] = {
        {QR_MUTATE_KEEP_OVERLAP, "keep overlapping blocks"},         {QR_MUTATE_NO_SUSPEND, "works on after a promise"},
        {QR_MUTATE_COMMIT_ANYWAY, "commits after its generation"}, {QR_MUTATE_KEEP_ANYWAY, "keeps what a Begin drops"},
        {QR_MUTATE_TAKE_SUSPENDED, "takes blocks while suspended"},
    };
    for (size_t k = 0; k < COUNT(mutation); k++) {
        bool seen = false;
        uint64_t seed = 1;
        for (; seed < 400 && !seen; seed++) {
            seen = !one(w, seed, false, mutation[k].m);
            if (seen) printf("mutation \"%s\": seen at seed %llu (%s)\n", mutation[k].name, (unsigned long long)seed, w->rule);
            whole_fini(w);
        }
        CHECK(seen, "mutation \"%s\" was not seen in %llu seeds", mutation[k].name, (unsigned long long)seed);
    }
}

int main(void) {
    static struct whole w;
    const char *seed_text = getenv("SEED"), *n_text = getenv("N");
    uint64_t first = seed_text ? strtoull(seed_text, NULL, 10) : 1, n = n_text ? strtoull(n_text, NULL, 10) : seed_text ? 1 : 150;
    unsigned failed = 0, kills = 0, joins = 0, done = 0;
    find_truth();
    if (!seed_text) test_bounds(&w);
    if (!seed_text) test_mutations(&w);
    for (uint64_t seed = first; seed < first + n && failed < 5; seed++) {
        bool good = one(&w, seed, seed_text != NULL, 0);
        CHECK(good, "SEED=%llu: %s (%s)", (unsigned long long)seed, w.rule, w.detail);
        failed += !good;
        kills += w.n_kills;
        joins += w.n_joins;
        done += w.done;
        whole_fini(&w);
    }
    printf("seeds %llu to %llu: %u kills, %u generations joined, %u runs ended with the digest\n", (unsigned long long)first,
           (unsigned long long)(first + n - 1), kills, joins, done);
    return t_end();
}
