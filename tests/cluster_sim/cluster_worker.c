/* tests/cluster_sim/cluster_worker.c — a worker from start to end, as lib/worker/worker.c runs it:
 * LATEST, group, publisher, step loop, end. Start reading at run_training(). */
#include "base/mem.h"
#include "group/group_over_impl.h"
#include "tests/cluster_sim/cluster_impl.h"
#include "tests/support/planted.h"
#include "train/train_checkpoint.h"

/* Time limits after SIGTERM: of the last checkpoint, of the process. */
static const int64_t publish_bound_ns = 5 * QR_SECOND, stop_bound_ns = 13 * QR_SECOND / 2;

static int64_t node_now(void *ctx) {
    const struct node *x = ctx;
    return now_of(x->c) + x->clock_offset_ns;
}
/* The clock of a step: a read takes a random time, as computing does. */
static int64_t busy_now(void *ctx) {
    struct node *x = ctx;
    actor_sleep(x->c, now_of(x->c) + dice_ns(x->c, x->micro_batch_ns));
    return node_now(x);
}
static enum qr_code check_alive(const struct node *x, struct qr_err *err) {
    return x->killed ? qr_fail(err, QR_CANCELLED, "killed") : QR_OK;
}

/* ---- callbacks of the step loop ---- */

static enum qr_code on_joined(void *ctx, const struct qr_group_view *view, uint64_t epochs,
                              bool fresh, struct qr_err *err) {
    struct node *x = ctx;
    if (check_alive(x, err) != QR_OK) return QR_CANCELLED;
    cluster_trace(x, "joins generation %llu: rank %u of %u%s", (unsigned long long)view->generation,
                  view->rank, view->n_members, fresh ? ", from the start" : "");
    x->c->n_joins++;
    x->joins++;
    x->ring_epochs = epochs;
    x->n_members = view->n_members;
    x->leader = view->rank == 0;
    if (x->publisher) qr_publisher_set_epochs(x->publisher, epochs);
    return fresh ? qr_steps_log_truncate(&x->steps_log, err) : QR_OK;
}
static enum qr_code on_step(void *ctx, bool leader, const struct qr_step_line *line,
                            const struct qr_step_detail *detail, struct qr_err *err) {
    struct node *x = ctx;
    struct cluster *c = x->c;
    const struct reference *ref = c->ref;
    bool continues = false;
    if (check_alive(x, err) != QR_OK) return QR_CANCELLED;
    uint64_t place = 2 * line->step + line->eval;
    qr_buf_clear(&c->line);
    qr_step_json(line, &c->line);
    if (place >= ref->n_lines || c->line.n != ref->line[place].n ||
        memcmp(c->line.p, ref->line[place].p, c->line.n) != 0)
        cluster_violated(x, "every committed step equals the undisturbed run's",
                         qr_buf_string(&c->line));
    x->reported_ns = now_of(c);
    x->leader = leader;
    if (place > c->newest) {
        int64_t pause_ns = now_of(c) - c->newest_ns;
        if (pause_ns > c->pause_ns) c->pause_ns = pause_ns;
        c->newest = place;
        c->newest_ns = now_of(c);
        c->n_reported++;
    }
    cluster_trace(x, "reports step %llu%s%s", (unsigned long long)line->step,
                  line->eval ? " (evaluation)" : "", leader ? " as leader" : "");
    enum qr_code code = leader ? qr_steps_log_write(&x->steps_log, line, detail->before,
                                                    detail->n_before, &continues, err)
                               : QR_OK;
    if (continues) cluster_trace(x, "continues the log");
    return code;
}
static enum qr_code on_reported(void *ctx, bool leader, const struct qr_step_line *line, size_t n,
                                struct qr_err *err) {
    struct node *x = ctx;
    bool continues;
    if (check_alive(x, err) != QR_OK) return QR_CANCELLED;
    if (leader)
        return qr_steps_log_write(&x->steps_log, &line[n - 1], line, n - 1, &continues, err);
    enum qr_code code = qr_steps_log_write_leaving(&x->steps_log, line, n, err);
    if (code == QR_OK) qr_publisher_logged(x->publisher);
    return code;
}
static enum qr_code on_committed(void *ctx, bool leader, struct qr_state *state,
                                 struct qr_err *err) {
    struct node *x = ctx;
    const struct reference *ref = x->c->ref;
    char hex[33];
    if (check_alive(x, err) != QR_OK) return QR_CANCELLED;
    if (!reference_has(ref, state, hex))
        cluster_violated(x, "every committed state equals the undisturbed run's", hex);
    if (!x->publisher) return QR_OK;
    if ((x->c->mutations & PLANT_UNCOMMITTED) && state->reductions + 1 < ref->n_reductions)
        qr_state_copy(state, &ref->state[state->reductions + 1]);
    bool logged = leader && !qr_steps_log_pending(&x->steps_log);
    return qr_publisher_committed(x->publisher, leader, logged, state, err);
}
static enum qr_code on_finish(void *ctx, const struct qr_group_view *view,
                              const struct qr_train_result *result, struct qr_err *err) {
    struct node *x = ctx;
    struct qr_err done_err = {0};
    enum qr_code wrote = QR_OK;
    if (check_alive(x, err) != QR_OK) return QR_CANCELLED;
    if (strcmp(result->state_digest, x->c->ref->digest) != 0)
        cluster_violated(x, "the last digest equals the undisturbed run's", result->state_digest);
    cluster_trace(x, "has passed the closing reduction%s", view->rank == 0 ? ", and writes" : "");
    if (view->rank == 0) {
        actor_sleep(x->c, now_of(x->c) + dice_ns(x->c, MS(30))); /* to write the weights */
        if (x->publisher && !x->killed)
            wrote = qr_publisher_finish(x->publisher, true, 620 * QR_SECOND, err);
    }
    if (check_alive(x, err) != QR_OK) return QR_CANCELLED;
    enum qr_code done =
        qr_group_done(x->group, wrote == QR_OK ? NULL : err, 1900 * QR_SECOND, &done_err);
    x->end_sent = done != QR_ABORTED;
    if (wrote != QR_OK) return wrote;
    /* The results are written: a missing goodbye is not an error. */
    if (done != QR_OK && done != QR_ABORTED && view->rank == 0) return QR_OK;
    if (done != QR_OK) *err = done_err;
    return done;
}
static void write_log(void *ctx, enum qr_log_level level, const char *module, const char *message) {
    struct node *x = ctx;
    struct cluster *c = x->c;
    char name[48];
    if (x->killed) return;
    if (level == QR_LOG_WARNING && strstr(message, "coverage check failed"))
        cluster_violated(x, "no coverage check fails", message);
    cluster_trace(x, "log: %s: %s", module, message);
    if (strstr(message, "cannot publish the last checkpoint")) c->store.gave_up = true;
    for (unsigned i = 0; i < c->n && !x->named_ns; i++) {
        snprintf(name, sizeof name, "worker %u (host%u:2222)", i, i);
        if ((c->victims >> i & 1) && i != x->index && level == QR_LOG_WARNING &&
            strstr(message, name))
            x->named_ns = now_of(c);
    }
}

/* ---- threads ---- */

static void run_control(struct node *x) { qr_group_control_run(x->group); }
static enum qr_code start_control(void *ctx, struct qr_group *g, struct qr_err *err) {
    struct node *x = ctx;
    (void)g, (void)err;
    actor_start(&x->actor[CONTROL], x, run_control);
    return QR_OK;
}
static void await_actor(struct node *x, const struct actor *a) {
    while (a->started && !a->done) actor_sleep(x->c, now_of(x->c) + MS(1));
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
    actor_start(&x->actor[PUBLISHING], x, run_publishing);
    return 0;
}
static void publishing_wait(void *ctx, pthread_mutex_t *lock, int64_t until_ns) {
    struct node *x = ctx;
    pthread_mutex_unlock(lock);
    actor_wait(x->c, until_ns - x->clock_offset_ns, NULL, &x->wakes);
    pthread_mutex_lock(lock);
}
static void publishing_wake(void *ctx) { ((struct node *)ctx)->wakes++; }
static void publishing_end(void *ctx, bool hangs) {
    struct node *x = ctx;
    if (!hangs) await_actor(x, &x->actor[PUBLISHING]);
}
/* Ends all waits: calls fail from now on, and the threads end without effect on others. */
static void mark_killed(struct node *x) {
    x->killed = true;
    x->paused = false;
    store_orphan_requests(x->c, x);
    for (int k = 0; k < ACTORS; k++) {
        x->actor[k].until_ns = now_of(x->c);
        x->actor[k].frozen_until_ns = 0;
    }
    x->wakes++;
    qr_publisher_publish_now(x->publisher); /* wakes its thread */
}
static void close_publisher(struct node *x) {
    bool was = x->killed;
    if (!x->publisher || qr_publisher_free(x->publisher)) return;
    cluster_trace(x, "ends although a request hangs");
    mark_killed(x);
    await_actor(x, &x->actor[PUBLISHING]);
    (void)!qr_publisher_free(x->publisher);
    x->killed = was;
}

/* ---- the start of a run ---- */

static const struct qr_state *resume_state(const struct node *x) {
    return x->resume.found == QR_FOUND_STATE || x->resume.found == QR_FOUND_BEYOND
               ? &x->resume.state
               : NULL;
}
static enum qr_code load_checkpoint(struct node *x, struct qr_resume_point *ret,
                                    struct qr_err *err) {
    const struct reference *ref = x->c->ref;
    struct qr_checkpoint_folder folder = store_folder(x);
    uint64_t ring = x->group ? qr_group_epochs(x->group) : 0;
    x->loaded_ns = node_now(x);
    enum qr_code code = qr_run_checkpoints_load_from(&folder, &ref->load, ref->canonical.hex,
                                                     ring ? ring : x->epochs, ret, err);
    qr_checkpoint_folder_close(&folder);
    return code;
}
static enum qr_code load_first(struct node *x) {
    struct cluster *c = x->c;
    struct store *s = &c->store;
    struct qr_state *state = &x->resume.state;
    uint64_t at_least = s->damaged ? 0 : s->acked_reductions;
    char hex[33];
    x->damage_hidden = (c->mutations & PLANT_UNVERIFIED) != 0;
    x->code = load_checkpoint(x, &x->resume, &x->err);
    if (x->killed) return x->code = qr_fail(&x->err, QR_CANCELLED, "killed");
    for (const char *at = qr_buf_string(&x->resume.notes); *at;
         at += strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n'))
        cluster_trace(x, "warns: %.*s", (int)strcspn(at, "\n"), at);
    if (x->code != QR_OK) return x->code;
    if (x->resume.found == QR_FOUND_NOTHING) {
        if (at_least) cluster_violated(x, "an acknowledged checkpoint is found", "none is");
        return QR_OK;
    }
    if (!reference_has(c->ref, state, hex))
        cluster_violated(x, "a loaded state equals the undisturbed run's", hex);
    if (state->reductions < at_least && !x->resume.notes.n)
        cluster_violated(x, "an older checkpoint is loaded with a warning", hex);
    if (s->has_newest && state->reductions < s->newest.reductions && x->resume.notes.n)
        s->n_earlier_loads++;
    if (x->damage_hidden && store_newest_is_damaged(s)) state->weights[0] += 0x1p-30;
    cluster_trace(x, "%s step %llu (%llu reductions)",
                  x->resume.found == QR_FOUND_DONE ? "finds the run done at" : "resumes at",
                  (unsigned long long)state->step, (unsigned long long)state->reductions);
    return QR_OK;
}
/* For training, as worker.c does it: loads again, unless the last load was less than 2 s ago. */
static enum qr_code reload(void *ctx, struct qr_state *ret, bool *ret_found, struct qr_err *err) {
    struct node *x = ctx;
    struct qr_resume_point start = {0};
    *ret_found = x->found_done = false;
    if (!x->c->store.on || node_now(x) - x->loaded_ns < 2 * QR_SECOND) return QR_OK;
    enum qr_code code = load_checkpoint(x, &start, err);
    x->found_done = start.found == QR_FOUND_DONE;
    *ret_found = code == QR_OK && start.found != QR_FOUND_NOTHING;
    if (*ret_found) qr_state_copy(ret, &start.state);
    if (*ret_found)
        cluster_trace(x, "reloads step %llu%s", (unsigned long long)start.state.step,
                      x->found_done ? ", done" : "");
    qr_resume_point_fini(&start);
    return code;
}
static bool found_done(void *ctx) { return ((struct node *)ctx)->found_done; }

static enum qr_code open_group(struct node *x) {
    struct cluster *c = x->c;
    static const struct qr_field field = {"contract", "f64-v1"};
    const struct qr_group_faults faults = planted_faults(c->mutations);
    struct qr_group_options o = {.run = "whole",
                                 .fields = &field,
                                 .n_fields = 1,
                                 .index = x->index,
                                 .n_peers = c->n,
                                 .peers = c->peers,
                                 .count_known = true,
                                 .server = x->index < c->servers,
                                 .min_workers = x->min_workers,
                                 .allreduce = x->allreduce,
                                 .listen_address = c->address[x->index],
                                 .data_port = 2224,
                                 .form_timeout_ns = c->form_timeout_ns,
                                 .clock = &x->clock,
                                 .log = &x->log,
                                 .seed = mix(c->seed * 1000 + x->index * 100 + x->starts) | 1,
                                 .faults = &faults};
    unsigned port;
    memcpy(o.job_hash, c->ref->canonical.hash, sizeof o.job_hash);
    x->code = qr_group_over(&o, &x->port[CONTROL_LINK].base, &x->port[DATA_LINK].base, &x->group,
                            &port, &x->err);
    if (x->code == QR_OK) qr_group_set_thread(x->group, start_control, join_control, x);
    return x->code;
}
static void open_publisher(struct node *x) {
    struct cluster *c = x->c;
    if (!c->store.on) return;
    struct qr_checkpoint_folder folder = store_folder(x);
    const struct qr_publisher_options opt = {
        .url = folder.url,
        .log_path = c->log_path,
        .job = c->ref->job,
        .model = c->ref->load.model,
        .job_hash = c->ref->canonical.hex,
        .begin = resume_state(x),
        .every_ns = c->every_ns,
        .every_steps = c->every_steps,
        .epochs = x->epochs,
        .clock = &x->clock,
        .log = &x->log,
    };
    const struct qr_publisher_threads threads = {x, publishing_start, publishing_wait,
                                                 publishing_wake, publishing_end};
    struct qr_publisher *made; /* publishing_start keeps it */
    QR_ASSERT(qr_publisher_new_with(&opt, &folder, &threads, &made, &x->err) == QR_OK);
}

/* ---- the run and its end ---- */

static enum qr_code publish_last(struct node *x, enum qr_code code) {
    struct qr_err ignored;
    if (x->killed || !x->publisher) return code;
    if (!qr_publisher_has_failed(x->publisher)) {
        qr_publisher_publish_now(x->publisher);
        qr_publisher_wait(x->publisher, publish_bound_ns);
    } else if (!x->end_sent && x->leader)
        (void)!qr_group_done(x->group, &x->err, QR_SECOND, &ignored);
    return qr_exit_code(code) == 138 && qr_publisher_training_done(x->publisher) ? QR_OK : code;
}
static void train(struct node *x) {
    const struct reference *ref = x->c->ref;
    struct qr_train_result result = {0};
    struct qr_train_options t = {
        .job = ref->job,
        .canonical = &ref->canonical,
        .data = &ref->load.data,
        .model = ref->load.model,
        .group = x->group,
        .pool = qr_pool_new(1),
        .clock = &x->busy_clock,
        .log = &x->log,
        .resume = resume_state(x),
        .epochs = x->epochs,
        .server = x->index < x->c->servers,
        .observer = {.ctx = x,
                     .joined = on_joined,
                     .step = on_step,
                     .reported = on_reported,
                     .committed = on_committed},
        .finish = on_finish,
        .finish_ctx = x,
        .reload = reload,
        .reload_ctx = x,
        .ended = found_done,
    };
    x->code = qr_train_run(&t, &result, &x->err);
    if (x->code != QR_OK) x->code = publish_last(x, x->code);
    snprintf(x->digest, sizeof x->digest, "%s", result.state_digest);
    free(result.params);
    qr_pool_free(t.pool);
}
static void run_training(struct node *x) {
    qr_steps_log_init(&x->steps_log, x->c->dir);
    x->code = x->c->store.on ? load_first(x) : QR_OK;
    if (x->code == QR_OK && x->resume.found != QR_FOUND_DONE) {
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
    qr_resume_point_fini(&x->resume);
    qr_steps_log_fini(&x->steps_log);
}
void worker_start(struct node *x) {
    struct cluster *c = x->c;
    cluster_trace(x, "starts");
    x->live = true;
    x->killed = x->paused = x->leaving = x->end_sent = x->leader = false;
    x->starts++;
    x->start_ns = x->leave_by_ns = 0;
    x->resume = (struct qr_resume_point){0};
    x->joins = 0;
    *x->digest = 0;
    bool others = c->other_settings && x->starts > 1 && !c->done;
    x->epochs = others ? 1 + dice(c, 2 * c->ref->epochs) : c->ref->epochs;
    x->allreduce =
        c->other_settings ? (enum qr_allreduce)dice(c, QR_ALLREDUCE_KINDS) : QR_ALLREDUCE_AUTO;
    x->min_workers = others ? 1 + (unsigned)dice(c, c->n_slots) : c->min_workers;
    if (c->clock_offsets) x->clock_offset_ns = dice_ns(c, INT64_C(1) << 50);
    x->clock = (struct qr_clock){node_now, x};
    x->busy_clock = (struct qr_clock){busy_now, x};
    x->log = (struct qr_log){.level = QR_LOG_INFO, .write = write_log, .ctx = x};
    for (int k = 0; k < ACTORS; k++) x->actor[k].started = x->actor[k].done = false;
    ports_open(x);
    actor_start(&x->actor[TRAINING], x, run_training);
}
void cluster_kill(struct node *x) {
    cluster_trace(x, "is killed");
    x->c->n_kills++;
    mark_killed(x);
    for (int k = 0; k < 2; k++) qr_sim_net_kill(x->port[k].inner);
    if (x->group) qr_group_interrupt(x->group); /* the code ends at its next poll */
}
void cluster_terminate(struct node *x) {
    cluster_trace(x, "is asked to leave");
    x->leaving = true;
    x->leave_by_ns = now_of(x->c) + stop_bound_ns;
    if (x->group) qr_group_interrupt(x->group);
    qr_publisher_publish_now(x->publisher);
}
