/* tests/cluster_sim/whole_world.h — a world of whole workers: its truth, its time, its faults.
 * Included once. */
#ifndef TESTS_CLUSTER_SIM_WHOLE_WORLD_H
#define TESTS_CLUSTER_SIM_WHOLE_WORLD_H

#include "tests/cluster_sim/whole_worker.h"

/* ---- the undisturbed run ---- */

static enum qr_code keep_line(void *ctx, bool leader, const struct qr_step_line *line,
                              const struct qr_step_detail *detail, struct qr_err *err) {
    size_t place = 2 * line->step + line->eval, cap = truth.n_lines;
    (void)ctx, (void)leader, (void)detail, (void)err;
    if (place >= cap) {
        truth.n_lines = 2 * place + 64;
        truth.line = qr_xreallocarray(truth.line, truth.n_lines, sizeof *truth.line);
        memset(truth.line + cap, 0, (truth.n_lines - cap) * sizeof *truth.line);
    }
    qr_step_json(line, &truth.line[place]);
    qr_step_json(line, &truth.log);
    return QR_OK;
}
static enum qr_code keep_state(void *ctx, bool leader, struct qr_state *state, struct qr_err *err) {
    uint8_t digest[16];
    (void)ctx, (void)leader, (void)err;
    CHECK(state->reductions == truth.n_reductions);
    truth.state = qr_xreallocarray(truth.state, truth.n_reductions + 1, sizeof *truth.state);
    truth.digest_at =
        qr_xreallocarray(truth.digest_at, truth.n_reductions + 1, sizeof *truth.digest_at);
    truth.log_end = qr_xreallocarray(truth.log_end, truth.n_reductions + 1, sizeof *truth.log_end);
    struct qr_state *s = &truth.state[truth.n_reductions];
    qr_state_init(s, truth.job, truth.load.model);
    qr_state_copy(s, state);
    qr_state_digest(state, digest);
    qr_hex(digest, sizeof digest, truth.digest_at[truth.n_reductions]);
    truth.log_end[truth.n_reductions++] = truth.log.n;
    return QR_OK;
}
/* epochs 0: the job's. */
static void find_truth(uint64_t epochs) {
    static const char job[] =
        "{\"seed\":3,\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"ansatz\":\"qcnn\",\"qubits\":"
        "4,\"stages\":1}},{\"layer\":\"dense\",\"units\":1}],"
        "\"data\":{\"source\":\"cluster-excitations\",\"rounds\":10,\"train_fraction\":0.7},"
        "\"precision\":\"double\",\"micro_batch_size\":2,"
        "\"train\":{\"epochs\":3,\"batch_size\":9,\"loss\":\"mse\",\"metrics\":[\"accuracy\"],"
        "\"early_stopping\":{\"patience\":1000000},"
        "\"optimizer\":{\"name\":\"adam\",\"learning_rate\":0.05}}}";
    struct qr_err err = {0};
    struct qr_group_options g = {.run = "whole", .clock = &qr_clock_monotonic};
    struct qr_train_result result = {0};
    CHECK(qr_job_parse(qr_bytes_of_string(job), "the test", &truth.job, &err) == QR_OK, "%s",
          err.msg);
    CHECK(qr_workload_load(truth.job, qr_isa_name(qr_isa_best()), 1, &truth.load, &err) == QR_OK,
          "%s", err.msg);
    qr_job_canonical(truth.job, &truth.load.data, NULL, &truth.canonical);
    truth.epochs = epochs ? epochs : truth.job->train.epochs;
    struct qr_train_options t = {.job = truth.job,
                                 .canonical = &truth.canonical,
                                 .data = &truth.load.data,
                                 .model = truth.load.model,
                                 .group = qr_group_solo(&g),
                                 .pool = qr_pool_new(1),
                                 .clock = &qr_clock_monotonic,
                                 .epochs = truth.epochs,
                                 .observer.step = keep_line,
                                 .observer.committed = keep_state};
    CHECK(qr_train_run(&t, &result, &err) == QR_OK, "%s", err.msg);
    memcpy(truth.digest, result.state_digest, sizeof truth.digest);
    free(result.params);
    qr_group_close(t.group);
    qr_pool_free(t.pool);
}
static void free_truth(void) {
    for (size_t i = 0; i < truth.n_reductions; i++) qr_state_fini(&truth.state[i]);
    for (size_t i = 0; i < truth.n_lines; i++) qr_buf_free(&truth.line[i]);
    free(truth.state);
    free(truth.digest_at);
    free(truth.log_end);
    free(truth.line);
    qr_buf_free(&truth.log);
    qr_workload_fini(&truth.load);
    qr_job_canonical_fini(&truth.canonical);
    qr_job_free(truth.job);
}

/* ---- time ---- */

static void end_node(struct whole *w, struct node *x) {
    x->live = false;
    x->reported_ns = x->ended_ns = now_of(w);
    say(x, "has ended: %s %s", qr_code_name(x->code), x->code == QR_OK ? "" : x->err.msg);
    if (!x->killed && x->code == QR_OK) {
        x->finished = w->done = true;
        if (*x->digest && strcmp(x->digest, truth.digest) != 0)
            broken(w, x, "the digest is the undisturbed run's", x->digest);
        return;
    }
    bool retry = x->killed || x->code == QR_CANCELLED || qr_exit_code(x->code) == 138;
    if (!retry) broken(w, x, "nobody ends with a permanent error", x->err.msg);
    if (x->away) x->finished = true;
    else if (w->done && !w->store.on) x->finished = true; /* LATEST would say done */
    else if (w->n_lives++ < MAX_LIVES) x->start_ns = now_of(w) + MS(20) + dice_ns(w, 1500) * MS(1);
    else x->finished = true;
}
static void sooner(int64_t *at, int64_t t) {
    if (t < *at) *at = t;
}
static void wake_node(struct whole *w, struct node *x) {
    if (x->paused && now_of(w) >= x->resume_ns) x->paused = false;
    /* it ends itself at its bound */
    if (x->live && x->leaving && !x->killed && now_of(w) >= x->leave_by_ns) kill_node(x);
    if (x->live || !x->start_ns || now_of(w) < x->start_ns) return;
    if (w->done && !w->store.on) x->finished = true;
    else start_node(x);
    x->start_ns = 0;
}
/* One coroutine runs, or time goes on, not beyond limit_ns. */
static void turn(struct whole *w, int64_t limit_ns) {
    struct actor *can[ACTORS * MAX_NODES];
    unsigned n = 0;
    int64_t next = limit_ns;
    w->turns++;
    store_advance(w);
    for (unsigned i = 0; i < w->n; i++) {
        struct node *x = &w->node[i];
        wake_node(w, x);
        if (x->paused) sooner(&next, x->resume_ns);
        if (x->start_ns) sooner(&next, x->start_ns);
        if (x->live && x->leaving && !x->killed) sooner(&next, x->leave_by_ns);
        for (int k = 0; k < ACTORS; k++) {
            struct actor *a = &x->actor[k];
            if (!a->started || a->done || x->paused) continue;
            if (can_run(w, a)) can[n++] = a;
            else sooner(&next, a->until_ns > a->frozen_ns ? a->until_ns : a->frozen_ns);
        }
    }
    if (n == 0) {
        sooner(&next, qr_sim_net_next_ns(w->net));
        sooner(&next, store_next_ns(w));
        qr_sim_net_advance(w->net, next > now_of(w) ? next : now_of(w) + 1);
        return;
    }
    struct actor *a = can[dice(w, n)];
    if (w->instant_ns != now_of(w)) w->instant_turns = 0;
    w->instant_ns = now_of(w);
    if (++w->instant_turns == MAX_INSTANT)
        broken(w, a->node, "time goes on", "somebody polls without a wait");
    resume(w, a);
    if (w->late_ns) a->frozen_ns = now_of(w) + dice_ns(w, w->late_ns);
    if (a->done && a == &a->node->actor[TRAINING]) end_node(w, a->node);
}
static bool all_finished(const struct whole *w) {
    for (unsigned i = 0; i < w->n; i++)
        if (w->node[i].live || !w->node[i].finished) return false;
    return true;
}
static bool goes_on(const struct whole *w) {
    /* what is broken may hang */
    return !all_finished(w) && w->turns < 20000000 && !w->broken_rules;
}
static unsigned n_running(const struct whole *w) {
    unsigned n = 0;
    for (unsigned i = 0; i < w->n; i++) n += w->node[i].live;
    return n;
}
/* ---- a world ---- */

static void whole_init(struct whole *w, uint64_t seed, unsigned n_max) {
    void *stacks[MAX_NODES][ACTORS];
    for (unsigned i = 0; i < MAX_NODES; i++)
        for (int k = 0; k < ACTORS; k++) stacks[i][k] = w->node[i].actor[k].stack;
    *w = (struct whole){.seed = seed,
                        .random = mix(seed),
                        .said_hash = UINT64_C(0xcbf29ce484222325),
                        .min_workers = 1,
                        .form_ns = 5 * QR_SECOND};
    w->n = w->n_lives = 1 + (unsigned)dice(w, n_max);
    struct qr_sim_net_options opt = {
        .seed = mix(seed + 1), .min_delay_ns = 50000, .max_delay_ns = MS(1 + dice_ns(w, 20))};
    w->net = qr_sim_net_new(&opt);
    snprintf(w->dir, sizeof w->dir, "%s/qring-whole-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    CHECK(mkdtemp(w->dir) != NULL);
    int64_t micro_batch_ns = dice(w, 4) ? MS(1 + dice_ns(w, 8)) : MS(100);
    for (unsigned i = 0; i < MAX_NODES; i++) {
        struct node *x = &w->node[i];
        x->w = w;
        x->index = i;
        for (int k = 0; k < ACTORS; k++) x->actor[k].stack = stacks[i][k];
        /* some are slow */
        x->micro_batch_ns = micro_batch_ns * (dice(w, 5) == 0 ? 3 + dice_ns(w, 6) : 1);
        x->start_ns = i < w->n ? 1 + dice_ns(w, 3) * dice_ns(w, 200) * MS(1) : 0;
        snprintf(w->address[i], sizeof w->address[i], "host%u:2222", i);
        w->peers[i] = w->address[i];
    }
}
static void whole_fini(struct whole *w) {
    char path[96];
    w->n_lives = MAX_LIVES;
    /* a world that was given up: its workers must not hold files and memory */
    for (unsigned i = 0; i < w->n; i++) {
        struct node *x = &w->node[i];
        if (x->live && !x->killed) kill_node(x);
        x->start_ns = 0;
    }
    for (unsigned turns = 0; turns < 100000 && n_running(w); turns++) turn(w, now_of(w) + MS(10));
    store_fini(&w->store);
    snprintf(path, sizeof path, "%s/steps.jsonl", w->dir);
    unlink(path);
    rmdir(w->dir);
    qr_sim_net_free(w->net);
}

/* ---- all at once ---- */

/* Nobody of one half reaches the other. */
static inline void halve(struct whole *w, unsigned set, bool on) {
    for (unsigned i = 0; i < w->n; i++)
        for (unsigned k = 0; k < w->n; k++)
            if ((set >> i & 1) != (set >> k & 1)) cut(&w->node[i], &w->node[k], on);
}
#endif
