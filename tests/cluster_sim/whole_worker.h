/* tests/cluster_sim/whole_worker.h — a worker from start to end, as lib/worker/worker.c runs it:
 * LATEST, group, publisher, step loop, end. Included once. */
#ifndef TESTS_CLUSTER_SIM_WHOLE_WORKER_H
#define TESTS_CLUSTER_SIM_WHOLE_WORKER_H

#include "tests/cluster_sim/whole_store.h"
#include "train/train_checkpoint.h"

/* as worker/stop.h */
static const int64_t awaits_publish_ns = 5 * QR_SECOND, stop_bound_ns = 13 * QR_SECOND / 2;

/* The clock of a step: looking at it takes time, in which anything may happen. Computing,
 * that is. */
static int64_t node_now(void *ctx) {
    const struct node *x = ctx;
    return now_of(x->w) + x->offset_ns;
}
static int64_t busy_now(void *ctx) {
    struct node *x = ctx;
    wait_until(x->w, now_of(x->w) + dice_ns(x->w, x->micro_batch_ns));
    return node_now(x);
}
static enum qr_code dead(const struct node *x, struct qr_err *err) {
    return x->killed ? qr_fail(err, QR_CANCELLED, "killed") : QR_OK;
}

/* ---- what the step loop tells ---- */

static enum qr_code on_joined(void *ctx, const struct qr_group_view *view, uint64_t epochs,
                              bool fresh, struct qr_err *err) {
    struct node *x = ctx;
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    say(x, "JOINS generation %llu: rank %u of %u%s", (unsigned long long)view->generation,
        view->rank, view->n_members, fresh ? ", from the start" : "");
    x->w->n_joins++;
    x->joins++;
    x->ring_epochs = epochs;
    x->n_members = view->n_members;
    x->leader = view->rank == 0;
    if (x->publisher) qr_publisher_set_epochs(x->publisher, epochs);
    return fresh ? qr_steps_log_truncate(&x->log, err) : QR_OK;
}
static enum qr_code on_step(void *ctx, bool leader, const struct qr_step_line *line,
                            const struct qr_step_detail *detail, struct qr_err *err) {
    static struct qr_buf text;
    struct node *x = ctx;
    bool continues = false;
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    uint64_t place = 2 * line->step + line->eval;
    qr_buf_clear(&text);
    qr_step_json(line, &text);
    if (place >= truth.n_lines || text.n != truth.line[place].n ||
        memcmp(text.p, truth.line[place].p, text.n) != 0)
        broken(x->w, x, "every committed step is the undisturbed run's", qr_buf_string(&text));
    x->reported_ns = now_of(x->w);
    x->leader = leader;
    if (place > x->w->top) {
        int64_t pause_ns = now_of(x->w) - x->w->top_ns;
        if (pause_ns > x->w->longest_ns) x->w->longest_ns = pause_ns;
        x->w->top = place;
        x->w->top_ns = now_of(x->w);
        x->w->n_reported++;
    }
    say(x, "TELLS step %llu%s%s", (unsigned long long)line->step, line->eval ? " (evaluation)" : "",
        leader ? ", and leads" : "");
    enum qr_code code = leader ? qr_steps_log_write(&x->log, line, detail->before, detail->n_before,
                                                    &continues, err)
                               : QR_OK;
    if (continues) say(x, "continues the log");
    return code;
}
static enum qr_code on_reported(void *ctx, bool leader, const struct qr_step_line *line, size_t n,
                                struct qr_err *err) {
    struct node *x = ctx;
    bool continues;
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    if (leader) return qr_steps_log_write(&x->log, &line[n - 1], line, n - 1, &continues, err);
    enum qr_code code = qr_steps_log_write_leaving(&x->log, line, n, err);
    if (code == QR_OK) qr_publisher_logged(x->publisher);
    return code;
}
static enum qr_code on_committed(void *ctx, bool leader, struct qr_state *state,
                                 struct qr_err *err) {
    struct node *x = ctx;
    uint8_t digest[16];
    char hex[33];
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    qr_state_digest(state, digest);
    qr_hex(digest, sizeof digest, hex);
    bool known = state->reductions < truth.n_reductions;
    if (!known || strcmp(hex, truth.digest_at[state->reductions]) != 0)
        broken(x->w, x, "every committed state is the undisturbed run's", hex);
    if (!x->publisher) return QR_OK;
    if ((x->w->mutations & PLANT_UNCOMMITTED) && state->reductions + 1 < truth.n_reductions)
        qr_state_copy(state, &truth.state[state->reductions + 1]);
    bool logged = leader && !qr_steps_log_pending(&x->log);
    return qr_publisher_committed(x->publisher, leader, logged, state, err);
}
static enum qr_code on_finish(void *ctx, const struct qr_group_view *view,
                              const struct qr_train_result *result, struct qr_err *err) {
    struct node *x = ctx;
    struct qr_err done_err = {0};
    enum qr_code wrote = QR_OK;
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    if (strcmp(result->state_digest, truth.digest) != 0)
        broken(x->w, x, "the digest is the undisturbed run's", result->state_digest);
    say(x, "CLOSES%s", view->rank == 0 ? " and writes" : "");
    if (view->rank == 0) {
        wait_until(x->w, now_of(x->w) + dice_ns(x->w, MS(30))); /* the weights */
        if (x->publisher && !x->killed)
            wrote = qr_publisher_finish(x->publisher, true, 620 * QR_SECOND, err);
    }
    if (dead(x, err) != QR_OK) return QR_CANCELLED;
    enum qr_code done =
        qr_group_done(x->group, wrote == QR_OK ? NULL : err, 1900 * QR_SECOND, &done_err);
    x->told_end = done != QR_ABORTED;
    if (wrote != QR_OK) return wrote;
    /* written: a goodbye that is missing changes nothing */
    if (done != QR_OK && done != QR_ABORTED && view->rank == 0) return QR_OK;
    if (done != QR_OK) *err = done_err;
    return done;
}
static void write_log(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    struct node *x = ctx;
    char name[48];
    if (x->killed) return;
    if (level == QR_LOG_WARNING && strstr(message, "coverage check failed"))
        broken(x->w, x, "coverage is a net that is never needed", message);
    say(x, "log: %s: %s", module, message);
    if (strstr(message, "cannot publish the last checkpoint")) x->w->store.gave_up = true;
    for (unsigned i = 0; i < x->w->n && !x->named_ns; i++) {
        snprintf(name, sizeof name, "worker %u (host%u:2222)", i, i);
        if ((x->w->victims >> i & 1) && i != x->index && level == QR_LOG_WARNING &&
            strstr(message, name))
            x->named_ns = now_of(x->w);
    }
}

/* ---- its threads ---- */

static void run_control(struct node *x) { qr_group_control_run(x->group); }
static enum qr_code start_control(void *ctx, struct qr_group *g, struct qr_err *err) {
    struct node *x = ctx;
    (void)g, (void)err;
    begin_actor(&x->actor[CONTROL], x, run_control);
    return QR_OK;
}
static void await_actor(struct node *x, const struct actor *a) {
    while (a->started && !a->done) wait_until(x->w, now_of(x->w) + MS(1));
}
static void join_control(void *ctx) {
    struct node *x = ctx;
    await_actor(x, &x->actor[CONTROL]);
}
static void run_publishing(struct node *x) { x->publish(x->publisher); }
static int publishing_start(void *ctx, void (*body)(struct qr_publisher *p),
                            struct qr_publisher *p) {
    struct node *x = ctx;
    x->publish = body;
    x->publisher = p;
    begin_actor(&x->actor[PUBLISHING], x, run_publishing);
    return 0;
}
static void publishing_wait(void *ctx, pthread_mutex_t *lock, int64_t until_ns) {
    struct node *x = ctx;
    pthread_mutex_unlock(lock);
    wait_for(x->w, until_ns - x->offset_ns, NULL, &x->news);
    pthread_mutex_lock(lock);
}
static void publishing_wake(void *ctx) { ((struct node *)ctx)->news++; }
static void publishing_end(void *ctx, bool hangs) {
    struct node *x = ctx;
    if (!hangs) await_actor(x, &x->actor[PUBLISHING]);
}
/* Nothing of it runs any more, and what it asked for is answered nowhere. */
static void die(struct node *x) {
    x->killed = true;
    x->paused = false;
    orphan_requests(x->w, x);
    for (int k = 0; k < ACTORS; k++) {
        x->actor[k].until_ns = now_of(x->w);
        x->actor[k].frozen_ns = 0;
    }
    x->news++;
    qr_publisher_publish_now(x->publisher); /* to hear of it */
}
static void close_publisher(struct node *x) {
    bool was = x->killed;
    if (!x->publisher || qr_publisher_free(x->publisher)) return;
    say(x, "ends beside a request that hangs"); /* and its thread with it */
    die(x);
    x->killed = true;
    await_actor(x, &x->actor[PUBLISHING]);
    (void)!qr_publisher_free(x->publisher);
    x->killed = was;
}

/* ---- begin ---- */

static uint64_t ring_epochs(struct node *x) {
    uint64_t ring = x->group ? qr_group_epochs(x->group) : 0;
    return ring ? ring : x->epochs;
}
static const struct qr_state *goes_on_from(const struct node *x) {
    return x->start.found == QR_FOUND_STATE || x->start.found == QR_FOUND_BEYOND ? &x->start.state
                                                                                 : NULL;
}

static enum qr_code begin_from(struct node *x) {
    struct whole *w = x->w;
    const struct store *s = &w->store;
    struct qr_checkpoint_folder place = place_of(x);
    uint64_t at_least = s->lied ? 0 : s->acked_reductions;
    x->damage_hidden = (w->mutations & PLANT_UNVERIFIED) != 0;
    x->looked_ns = node_now(x);
    x->code = qr_run_checkpoints_load_from(&place, &truth.load, truth.canonical.hex, ring_epochs(x),
                                           &x->start, &x->err);
    qr_checkpoint_folder_close(&place);
    if (x->killed) return x->code = qr_fail(&x->err, QR_CANCELLED, "killed");
    for (const char *at = qr_buf_string(&x->start.notes); *at;
         at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n'))
        say(x, "WARNS %.*s", (int)strcspn(at, "\n"), at);
    if (x->code != QR_OK) return x->code;
    struct qr_state *state = &x->start.state;
    if (x->start.found == QR_FOUND_NOTHING) {
        if (at_least) broken(w, x, "what was acknowledged is found", "nothing is");
        return QR_OK;
    }
    uint8_t digest[16];
    char hex[33];
    qr_state_digest(state, digest);
    qr_hex(digest, sizeof digest, hex);
    bool good = state->reductions < truth.n_reductions &&
                strcmp(hex, truth.digest_at[state->reductions]) == 0;
    if (!good) broken(w, x, "what is loaded is the undisturbed run's", hex);
    if (state->reductions < at_least && !x->start.notes.n)
        broken(w, x, "an older checkpoint is loaded loudly", hex);
    if (s->has_newest && state->reductions < s->newest.reductions && x->start.notes.n)
        w->store.n_earlier++;
    if (x->damage_hidden)
        for (size_t i = 0; i < s->n; i++)
            if (s->v[i].damaged && s->has_newest &&
                strcmp(s->v[i].name + strlen("run/"), s->newest.object) == 0)
                state->weights[0] += 0x1p-30;
    say(x, "%s step %llu (%llu reductions)",
        x->start.found == QR_FOUND_DONE ? "finds all done at" : "goes on from",
        (unsigned long long)state->step, (unsigned long long)state->reductions);
    return QR_OK;
}

/* For training, as worker.c does it: what is there by now, if the last look is not fresh. */
static enum qr_code reload(void *ctx, struct qr_state *ret, bool *ret_found, struct qr_err *err) {
    struct node *x = ctx;
    struct qr_resume_point start = {0};
    *ret_found = x->saw_end = false;
    if (!x->w->store.on || node_now(x) - x->looked_ns < 2 * QR_SECOND) return QR_OK;
    struct qr_checkpoint_folder place = place_of(x);
    x->looked_ns = node_now(x);
    enum qr_code code = qr_run_checkpoints_load_from(&place, &truth.load, truth.canonical.hex,
                                                     ring_epochs(x), &start, err);
    qr_checkpoint_folder_close(&place);
    x->saw_end = start.found == QR_FOUND_DONE;
    *ret_found = code == QR_OK && start.found != QR_FOUND_NOTHING;
    if (*ret_found) qr_state_copy(ret, &start.state);
    if (*ret_found)
        say(x, "looks again, and finds step %llu%s", (unsigned long long)start.state.step,
            x->saw_end ? ", done" : "");
    qr_resume_point_fini(&start);
    return code;
}
static bool saw_end(void *ctx) { return ((struct node *)ctx)->saw_end; }

static enum qr_code open_group(struct node *x) {
    struct whole *w = x->w;
    static const struct qr_field field = {"contract", "f64-v1"};
    const struct qr_group_faults faults = planted_faults(w->mutations);
    struct qr_group_options o = {.run = "whole",
                                 .fields = &field,
                                 .n_fields = 1,
                                 .index = x->index,
                                 .n_peers = w->n,
                                 .peers = w->peers,
                                 .count_known = true,
                                 .server = x->index < w->servers,
                                 .min_workers = x->fewest,
                                 .allreduce = x->wish,
                                 .listen_address = w->address[x->index],
                                 .data_port = 2224,
                                 .form_timeout_ns = w->form_ns,
                                 .clock = &x->clock,
                                 .log = &x->say,
                                 .seed = mix(w->seed * 1000 + x->index * 100 + x->lives) | 1,
                                 .faults = &faults};
    unsigned port;
    memcpy(o.job_hash, truth.canonical.hash, sizeof o.job_hash);
    x->code = qr_group_over(&o, &x->port[0].base, &x->port[1].base, &x->group, &port, &x->err);
    if (x->code == QR_OK) qr_group_set_thread(x->group, start_control, join_control, x);
    return x->code;
}

static void open_publisher(struct node *x) {
    struct whole *w = x->w;
    char path[96];
    if (!w->store.on) return;
    struct qr_checkpoint_folder place = place_of(x);
    snprintf(path, sizeof path, "%s/steps.jsonl", w->dir);
    const struct qr_publisher_options opt = {
        .url = place.url,
        .log_path = path,
        .job = truth.job,
        .model = truth.load.model,
        .job_hash = truth.canonical.hex,
        .begin = goes_on_from(x),
        .every_ns = w->every_ns,
        .every_steps = w->every_steps,
        .epochs = x->epochs,
        .clock = &x->clock,
        .log = &x->say,
    };
    const struct qr_publisher_threads threads = {x, publishing_start, publishing_wait,
                                                 publishing_wake, publishing_end};
    struct qr_publisher *made; /* publishing_start keeps it */
    QR_ASSERT(qr_publisher_new_with(&opt, &place, &threads, &made, &x->err) == QR_OK);
}

static enum qr_code leave_state(struct node *x, enum qr_code code) {
    struct qr_err told;
    if (x->killed || !x->publisher) return code;
    if (!qr_publisher_has_failed(x->publisher)) {
        qr_publisher_publish_now(x->publisher);
        qr_publisher_wait(x->publisher, awaits_publish_ns);
    } else if (!x->told_end && x->leader) (void)!qr_group_done(x->group, &x->err, QR_SECOND, &told);
    return qr_exit_code(code) == 138 && qr_publisher_training_done(x->publisher) ? QR_OK : code;
}

static void train(struct node *x) {
    struct qr_train_result result = {0};
    struct qr_train_options t = {
        .job = truth.job,
        .canonical = &truth.canonical,
        .data = &truth.load.data,
        .model = truth.load.model,
        .clock = &x->busy_clock,
        .log = &x->say,
        .resume = goes_on_from(x),
        .epochs = x->epochs,
        .server = x->index < x->w->servers,
        .observer = {.ctx = x,
                     .joined = on_joined,
                     .step = on_step,
                     .reported = on_reported,
                     .committed = on_committed},
        .finish = on_finish,
        .finish_ctx = x,
        .reload = reload,
        .reload_ctx = x,
        .ended = saw_end,
    };
    t.group = x->group;
    t.pool = qr_pool_new(1);
    x->code = qr_train_run(&t, &result, &x->err);
    if (x->code != QR_OK) x->code = leave_state(x, x->code);
    snprintf(x->digest, sizeof x->digest, "%s", result.state_digest);
    free(result.params);
    qr_pool_free(t.pool);
}

static void run_training(struct node *x) {
    qr_steps_log_init(&x->log, x->w->dir);
    x->code = x->w->store.on ? begin_from(x) : QR_OK;
    if (x->code == QR_OK && x->start.found != QR_FOUND_DONE) {
        if (x->leaving)
            x->code = qr_fail(&x->err, QR_CANCELLED, "asked to stop before training began");
        else if (open_group(x) == QR_OK) {
            open_publisher(x);
            train(x);
            close_publisher(x);
            x->publisher = NULL;
            qr_group_close(x->group);
            x->group = NULL;
        }
    }
    qr_resume_point_fini(&x->start);
    qr_steps_log_fini(&x->log);
}

static void start_node(struct node *x) {
    struct whole *w = x->w;
    say(x, "starts");
    x->live = true;
    x->killed = x->paused = x->leaving = x->told_end = x->leader = false;
    x->lives++;
    x->start_ns = x->leave_by_ns = 0;
    x->start = (struct qr_resume_point){0};
    x->joins = 0;
    *x->digest = 0;
    bool others = w->others && x->lives > 1 && !w->done;
    x->epochs = others ? 1 + dice(w, 2 * truth.epochs) : truth.epochs;
    x->wish = w->others ? (enum qr_allreduce)dice(w, QR_ALLREDUCE_KINDS) : QR_ALLREDUCE_AUTO;
    x->fewest = others ? 1 + (unsigned)dice(w, MAX_NODES) : w->min_workers;
    if (w->offsets) x->offset_ns = dice_ns(w, INT64_C(1) << 50);
    x->clock = (struct qr_clock){node_now, x};
    x->busy_clock = (struct qr_clock){busy_now, x};
    x->say = (struct qr_log){.level = QR_LOG_INFO, .write = write_log, .ctx = x};
    for (int k = 0; k < ACTORS; k++) x->actor[k].started = x->actor[k].done = false;
    open_ports(x);
    begin_actor(&x->actor[TRAINING], x, run_training);
}
static void kill_node(struct node *x) {
    say(x, "is killed");
    x->w->n_kills++;
    die(x);
    for (int k = 0; k < 2; k++) qr_sim_net_kill(x->port[k].inner);
    if (x->group) qr_group_interrupt(x->group); /* what is left of it ends at the next look */
}
static void ask_to_leave(struct node *x) { /* SIGTERM */
    say(x, "is asked to leave");
    x->leaving = true;
    x->leave_by_ns = now_of(x->w) + stop_bound_ns;
    if (x->group) qr_group_interrupt(x->group);
    qr_publisher_publish_now(x->publisher);
}

#endif
