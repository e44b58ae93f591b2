/* group/group.c — the membership machine on the control link, the mesh on the data link, and what passes between their threads.
 *
 * The control thread alone touches the control link, and alone calls what may emit. The training thread leaves requests in the group,
 * under its lock, and wakes that link. Actions come back as facts (begun, lost, stop, done), also under the lock; whoever waits is woken
 * by the condition or the data link. */
#include "group/group.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/counter.h"
#include "base/mem.h"
#include "group/group_impl.h"
#include "group/member.h"
#include "group/mesh.h"

#define FORM_GRACE_NS (60 * QR_SECOND)   /* the machine ends its own waits before that */
#define CONNECT_WITHIN_NS (20 * QR_SECOND)
#define GOODBYES_WITHIN_NS (8 * QR_SECOND)

struct told { bool is; enum qr_code code; char text[QR_ERR_MSG_BYTES]; };
struct qr_group {
    struct qr_group_options o;
    bool solo;
    struct qr_link *control, *data;
    struct qr_member *member;
    struct qr_mesh *mesh;
    struct qr_reduction *alone; /* of a group of one */
    struct qr_group_view view;
    void (*join)(void *ctx);
    void *join_ctx;
    struct qr_buf out;             /* control thread's */
    struct qr_message *in;         /* control thread's */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under lock: requests of the training thread */
    bool quit, leave, end, interrupted;
    enum qr_code end_code;
    char end_text[QR_ERR_MSG_BYTES];
    char why_leave[QR_ERR_MSG_BYTES]; /* what the others are told; the first error */
    bool data_broken[QR_MAX_MEMBERS];
    char data_reason[QR_MAX_MEMBERS][160];
    uint64_t turns;
    /* under lock: facts from the machine */
    bool begun;
    struct qr_generation *generation;
    struct told lost, stop, done;
};

static int64_t now_ns(const struct qr_group *g) { return qr_now_ns(g->o.clock); }

/* ---- the control thread ---- */

static void tell(struct told *t, enum qr_code code, const char *text) {
    t->is = true;
    t->code = code;
    snprintf(t->text, sizeof t->text, "%s", text ? text : "");
}

static void act(void *ctx, const struct qr_member_action *a) {
    struct qr_group *g = ctx;
    const struct qr_link_ops *ops = g->control->ops;
    struct qr_err err;
    switch (a->kind) {
    case QR_ACT_SEND:
        qr_buf_clear(&g->out);
        if (qr_message_encode(a->message, &g->out, &err) != QR_OK) qr_error(g->o.log, "group", "%s", err.msg);
        else if (!ops->send(g->control, a->conn, qr_buf_view(&g->out), (struct qr_bytes){0}))
            qr_debug(g->o.log, "group", "a %s message found no connection, or a full one", qr_message_kind_name(a->message->kind));
        return;
    case QR_ACT_CLOSE: ops->close_conn(g->control, a->conn); return;
    case QR_ACT_DIAL: ops->dial(g->control, a->index, a->text); return;
    case QR_ACT_HANG_UP: ops->hang_up(g->control, a->index); return;
    case QR_ACT_LOG: qr_log_at(g->o.log, a->level, "group", "%s", a->text); return;
    case QR_ACT_SUSPEND: g->begun = false; return;
    case QR_ACT_BEGIN:
        *g->generation = *a->generation;
        g->begun = true;
        break;
    case QR_ACT_LOST: tell(&g->lost, QR_UNAVAILABLE, a->text); break;
    case QR_ACT_STOP: tell(&g->stop, a->code, a->text); break;
    case QR_ACT_DONE: tell(&g->done, a->code, a->text); break;
    }
    pthread_cond_broadcast(&g->changed);
    if (!g->quit) g->data->ops->wake(g->data); /* it goes while the group closes */
}

static void do_requests(struct qr_group *g) {
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++)
        if (g->data_broken[i]) {
            g->data_broken[i] = false;
            qr_member_data_broken(g->member, now_ns(g), i, g->data_reason[i]);
        }
    if (g->end) {
        g->end = false;
        qr_member_end(g->member, now_ns(g), g->end_code, g->end_text);
    }
    if (g->leave) {
        const char *why = *g->why_leave ? g->why_leave : "it ended early";
        g->leave = false;
        qr_member_leave(g->member, now_ns(g), g->interrupted ? "it was asked to stop" : why);
    }
}

static void on_event(struct qr_group *g, const struct qr_link_event *e) {
    struct qr_err err;
    int64_t now = now_ns(g);
    switch (e->kind) {
    case QR_LINK_UP: qr_member_up(g->member, now, e->conn, e->outgoing, e->tag); break;
    case QR_LINK_DOWN: qr_member_down(g->member, now, e->conn, e->reason); break;
    case QR_LINK_MESSAGE:
        if (qr_message_decode(e->message, g->in, &err) == QR_OK) qr_member_message(g->member, now, e->conn, g->in);
        else qr_member_garbage(g->member, now, e->conn, err.msg);
        break;
    case QR_LINK_NOTHING: qr_member_tick(g->member, now); break;
    case QR_LINK_WOKEN: break;
    }
    if (now_ns(g) >= qr_member_deadline_ns(g->member)) qr_member_tick(g->member, now_ns(g));
}

void qr_group_control_run(struct qr_group *g) {
    pthread_mutex_lock(&g->lock);
    qr_member_start(g->member, now_ns(g));
    for (;;) {
        do_requests(g);
        if (g->quit) break;
        int64_t until_ns = qr_member_deadline_ns(g->member);
        pthread_mutex_unlock(&g->lock);
        struct qr_link_event e;
        g->control->ops->poll(g->control, until_ns, &e);
        pthread_mutex_lock(&g->lock);
        on_event(g, &e);
        qr_count(QR_TURNS_CONTROL, 1);
        qr_gauge(QR_PEERS_CONNECTED, qr_member_n_connected(g->member));
    }
    pthread_mutex_unlock(&g->lock);
    g->control->ops->free(g->control); /* what was said last still leaves */
    g->control = NULL;
}

/* ---- between the threads ---- */

/* Under lock: the control thread closes its link only after it has seen `quit` under it. */
static void wake_control(struct qr_group *g) { g->control->ops->wake(g->control); }

/* Why a wait of the training thread must end; under lock. */
static enum qr_code why_stop(struct qr_group *g, struct qr_err *err) {
    if (g->interrupted) return qr_fail(err, QR_CANCELLED, "asked to stop");
    if (g->stop.is) return qr_fail(err, g->stop.code, "%s", g->stop.text);
    if (g->lost.is) return qr_fail(err, g->lost.code, "%s", g->lost.text);
    if (g->done.is && g->done.code != QR_OK) return qr_fail(err, g->done.code, "%s", g->done.text);
    return QR_OK;
}

static enum qr_code mesh_stop(void *ctx, struct qr_err *err) {
    struct qr_group *g = ctx;
    pthread_mutex_lock(&g->lock);
    enum qr_code code = why_stop(g, err);
    qr_member_set_turns(g->member, ++g->turns, 0);
    qr_count(QR_TURNS_TRAINING, 1);
    pthread_mutex_unlock(&g->lock);
    return code;
}

static void mesh_broken(void *ctx, uint32_t index, const char *reason) {
    struct qr_group *g = ctx;
    if (index >= QR_MAX_MEMBERS) return;
    pthread_mutex_lock(&g->lock);
    g->data_broken[index] = true;
    snprintf(g->data_reason[index], sizeof g->data_reason[index], "%s", reason);
    wake_control(g);
    pthread_mutex_unlock(&g->lock);
}

/* Under lock: until the condition changes, or deadline_ns. */
static void wait_changed(struct qr_group *g, int64_t deadline_ns) {
    struct timespec ts = {.tv_sec = deadline_ns / QR_SECOND, .tv_nsec = deadline_ns % QR_SECOND};
    pthread_cond_timedwait(&g->changed, &g->lock, &ts);
}

/* ---- making and closing ---- */

static struct qr_group *new_group(const struct qr_group_options *opt) {
    struct qr_group *g = qr_xcalloc(1, sizeof *g);
    g->o = *opt;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&g->changed, &attr);
    pthread_condattr_destroy(&attr);
    return g;
}

struct qr_group *qr_group_solo(const struct qr_group_options *opt) {
    struct qr_group *g = new_group(opt);
    g->solo = true;
    g->alone = qr_reduction_new();
    g->view = (struct qr_group_view){.generation = 1, .n_members = 1, .index = {opt->index}};
    return g;
}

static const char *contract_of(const struct qr_group_options *opt) {
    for (size_t i = 0; i < opt->n_fields; i++)
        if (strcmp(opt->fields[i].name, "contract") == 0) return opt->fields[i].value;
    return "";
}

/* host:port with another port. False when it is too long or has none. */
static bool with_port(const char *address, unsigned port, char *ret, size_t cap) {
    const char *colon = strrchr(address, ':');
    int n = colon ? snprintf(ret, cap, "%.*s:%u", (int)(colon - address), address, port) : -1;
    return n > 0 && (size_t)n < cap;
}

enum qr_code qr_group_over(const struct qr_group_options *opt, struct qr_link *control, struct qr_link *data, struct qr_group **ret,
                           unsigned *ret_port, struct qr_err *err) {
    char data_address[300];
    unsigned port = 0, data_port = 0;
    enum qr_code code = QR_OK;
    if (opt->n_peers < 1 || opt->n_peers > QR_MAX_MEMBERS || opt->index >= opt->n_peers)
        code = qr_fail(err, QR_INVALID_ARGUMENT, "index %" PRIu32 " of %zu peers: a group has 1 to %d peers, this one among them",
                       opt->index, opt->n_peers, (int)QR_MAX_MEMBERS);
    else if (!with_port(opt->listen_address, opt->data_port, data_address, sizeof data_address))
        code = qr_fail(err, QR_INVALID_ARGUMENT, "listen address '%s' is not host:port", opt->listen_address);
    if (code == QR_OK) code = control->ops->listen(control, opt->listen_address, &port, err);
    if (code == QR_OK) code = data->ops->listen(data, data_address, &data_port, err);
    if (code != QR_OK) {
        control->ops->free(control);
        data->ops->free(data);
        return code;
    }
    struct qr_group *g = new_group(opt);
    g->control = control;
    g->data = data;
    g->in = qr_xcalloc(1, sizeof *g->in);
    g->generation = qr_xcalloc(1, sizeof *g->generation);
    struct qr_member_options m = {
        .run = opt->run, .contract = contract_of(opt), .fields = opt->fields, .n_fields = opt->n_fields, .index = opt->index,
        .n_peers = opt->n_peers,
        .peers = opt->peers, .count_known = opt->count_known, .min_workers = opt->min_workers, .form_timeout_ns = opt->form_timeout_ns,
        .data_port = data_port, .stop_on_loss = true,
    };
    memcpy(m.job_hash, opt->job_hash, sizeof m.job_hash);
    qr_entropy(m.incarnation, sizeof m.incarnation);
    qr_entropy(&m.seed, sizeof m.seed);
    g->member = qr_member_new(&m, act, g);
    struct qr_mesh_options mesh = {.link = data, .clock = opt->clock, .log = opt->log, .ctx = g, .stop = mesh_stop, .broken = mesh_broken};
    g->mesh = qr_mesh_new(&mesh);
    *ret = g;
    *ret_port = port;
    return QR_OK;
}

void qr_group_set_join(struct qr_group *g, void (*join)(void *ctx), void *ctx) {
    g->join = join;
    g->join_ctx = ctx;
}

void qr_group_close(struct qr_group *g) {
    if (!g) return;
    if (!g->solo) {
        pthread_mutex_lock(&g->lock);
        g->leave = g->quit = true;
        wake_control(g);
        pthread_mutex_unlock(&g->lock);
        if (g->join) {
            g->data->ops->free(g->data); /* while the control thread says goodbye: each at most a second */
            g->join(g->join_ctx);
        } else {
            g->data->ops->free(g->data);
            if (g->control) g->control->ops->free(g->control);
        }
        qr_mesh_free(g->mesh);
        qr_member_free(g->member);
    }
    qr_reduction_free(g->alone);
    qr_buf_free(&g->out);
    free(g->in);
    free(g->generation);
    pthread_cond_destroy(&g->changed);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

/* ---- what the step loop asks for ---- */

static enum qr_code members_of(struct qr_group *g, const struct qr_generation *gen, struct qr_mesh_member *ret, struct qr_err *err) {
    for (uint32_t r = 0; r < gen->begin.n_members; r++) {
        const struct qr_begin_member *b = &gen->begin.member[r];
        const char *address = b->name.index < g->o.n_peers ? g->o.peers[b->name.index] : "";
        ret[r] = (struct qr_mesh_member){.index = b->name.index};
        memcpy(ret[r].incarnation, b->name.incarnation, sizeof ret[r].incarnation);
        snprintf(ret[r].name, sizeof ret[r].name, "worker %" PRIu32 " (%.120s)", b->name.index, address);
        if (!with_port(address, b->data_port, ret[r].address, sizeof ret[r].address))
            return qr_fail(err, QR_INTERNAL, "the address '%s' of worker %" PRIu32 " is not host:port", address, b->name.index);
    }
    return QR_OK;
}

/* Keeps the first error of the training thread for the goodbye. */
static enum qr_code noted(struct qr_group *g, enum qr_code code, const struct qr_err *err) {
    if (code == QR_OK || !err) return code;
    pthread_mutex_lock(&g->lock);
    if (!*g->why_leave) snprintf(g->why_leave, sizeof g->why_leave, "%s", err->msg);
    pthread_mutex_unlock(&g->lock);
    return code;
}

static void tell_view(const struct qr_group *g) {
    qr_gauge(QR_GENERATION, (int64_t)g->view.generation);
    qr_gauge(QR_MEMBERS, g->view.n_members);
}

enum qr_code qr_group_form(struct qr_group *g, struct qr_group_view *ret, struct qr_err *err) {
    if (g->solo) {
        *ret = g->view;
        tell_view(g);
        return QR_OK;
    }
    int64_t deadline_ns = now_ns(g) + g->o.form_timeout_ns + FORM_GRACE_NS;
    enum qr_code code = QR_OK;
    pthread_mutex_lock(&g->lock);
    while (code == QR_OK && !g->begun) {
        code = why_stop(g, err);
        if (code == QR_OK && now_ns(g) >= deadline_ns)
            code = qr_fail(err, QR_DEADLINE_EXCEEDED, "no group formed within %" PRId64 " s", g->o.form_timeout_ns / QR_SECOND);
        if (code == QR_OK) wait_changed(g, deadline_ns);
    }
    const struct qr_generation *gen = g->generation;
    struct qr_mesh_member *members = qr_xcalloc(QR_MAX_MEMBERS, sizeof *members);
    uint32_t n = gen->begin.n_members, rank = gen->rank;
    uint64_t hash = gen->id_hash, number = gen->begin.id.number;
    if (code == QR_OK) code = members_of(g, gen, members, err);
    pthread_mutex_unlock(&g->lock);
    if (code == QR_OK) code = qr_mesh_form(g->mesh, hash, members, n, rank, now_ns(g) + CONNECT_WITHIN_NS, err);
    if (code == QR_OK) {
        g->view = (struct qr_group_view){.generation = number, .n_members = n, .rank = rank};
        for (uint32_t r = 0; r < n; r++) g->view.index[r] = members[r].index;
        *ret = g->view;
        tell_view(g);
    }
    free(members);
    return noted(g, code, err);
}

enum qr_code qr_group_reduce(struct qr_group *g, const struct qr_contribution *c, qr_fixed *ret_sum, struct qr_err *err) {
    if (!g->solo) return noted(g, qr_mesh_reduce(g->mesh, g->o.allreduce, c, ret_sum, err), err);
    pthread_mutex_lock(&g->lock);
    enum qr_code code = why_stop(g, err);
    pthread_mutex_unlock(&g->lock);
    if (code != QR_OK) return code;
    struct qr_reduction_args args = {.n_ranks = 1, .contribution = c, .sum = ret_sum};
    code = qr_reduction_begin(g->alone, &args, err);
    return code != QR_OK ? code : qr_reduction_check(g->alone, err);
}

void qr_group_progress(struct qr_group *g, uint64_t applied_step, const uint8_t digest[16]) {
    if (g->solo) return;
    /* the state before the applied one is stable: a reduction based on it has passed */
    struct qr_held held = {.applied_step = applied_step, .stable_step = applied_step ? applied_step - 1 : 0};
    memcpy(held.digest, digest, sizeof held.digest);
    pthread_mutex_lock(&g->lock);
    qr_member_set_held(g->member, &held);
    pthread_mutex_unlock(&g->lock);
}

enum qr_code qr_group_done(struct qr_group *g, const struct qr_err *leader_error, int64_t timeout_ns, struct qr_err *err) {
    bool leads = g->view.rank == 0;
    bool failed = leader_error && leader_error->code != QR_OK;
    if (g->solo) return failed ? qr_fail(err, leader_error->code, "%s", leader_error->msg) : QR_OK;
    int64_t deadline_ns = now_ns(g) + (leads ? GOODBYES_WITHIN_NS : timeout_ns);
    enum qr_code code = QR_OK;
    pthread_mutex_lock(&g->lock);
    if (leads) {
        g->end = true;
        g->end_code = failed ? leader_error->code : QR_OK;
        snprintf(g->end_text, sizeof g->end_text, "%s", failed ? leader_error->msg : "");
        wake_control(g);
    }
    while (code == QR_OK && !g->done.is) {
        code = why_stop(g, err);
        if (code == QR_OK && now_ns(g) >= deadline_ns) {
            if (leads) break; /* the work is written: late goodbyes change nothing */
            code = qr_fail(err, QR_DEADLINE_EXCEEDED,
                           "worker %" PRIu32 ", which leads, did not say within %" PRId64 " s that everything is written",
                           g->view.index[0], timeout_ns / QR_SECOND);
        }
        if (code == QR_OK) wait_changed(g, deadline_ns);
    }
    if (code == QR_OK && g->done.is && g->done.code != QR_OK) code = qr_fail(err, g->done.code, "%s", g->done.text);
    pthread_mutex_unlock(&g->lock);
    return code;
}

void qr_group_interrupt(struct qr_group *g) {
    pthread_mutex_lock(&g->lock);
    g->interrupted = g->leave = true;
    pthread_cond_broadcast(&g->changed);
    if (!g->solo && !g->quit) {
        wake_control(g);
        g->data->ops->wake(g->data);
    }
    pthread_mutex_unlock(&g->lock);
}

const char *qr_group_schedule_name(const struct qr_group *g, size_t n) { return qr_schedule_name(g->o.allreduce, g->view.n_members, n); }
