/* group/group.c — runs the membership machine on the control link and the mesh on the data link,
 * and passes requests and facts between their threads. Start reading at qr_group_control_run().
 *
 * The control thread alone uses the control link, and alone makes the calls that may emit actions.
 * The training thread leaves requests in the group, under its lock, and wakes that link. Actions
 * become facts (begun, stop, done), also under the lock. Every wait of the training thread is a
 * poll of the data link, which the control thread wakes.
 */
#include "group/group.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/counter.h"
#include "base/mem.h"
#include "group/group_impl.h"

/* ---- the control thread ---- */

static void record_verdict(struct verdict *t, const struct qr_member_action *a) {
    *t = (struct verdict){.set = true, .code = a->code};
    snprintf(t->text, sizeof t->text, "%s", a->text ? a->text : "");
}

static bool begin_has_member(const struct qr_begin *b, const struct qr_begin_member *member) {
    for (uint32_t r = 0; r < b->n_members; r++)
        if (b->member[r].name.index == member->name.index &&
            memcmp(b->member[r].name.incarnation, member->name.incarnation, QR_INCARNATION_BYTES) ==
                0)
            return true;
    return false;
}

/* Updates the metrics of members that joined or left between two generations, and of those
 * present. */
static void count_change(const struct qr_group *g, const struct qr_begin *before,
                         const struct qr_begin *now) {
    if (g->serial) {
        qr_count(QR_REGROUPS, 1);
        for (uint32_t r = 0; r < now->n_members; r++)
            qr_count(QR_MEMBERS_JOINED, !begin_has_member(before, &now->member[r]));
        for (uint32_t r = 0; r < before->n_members; r++)
            qr_count(QR_MEMBERS_LOST, !begin_has_member(now, &before->member[r]));
    }
    for (uint32_t i = 0; i < g->o.n_peers; i++)
        qr_peer_set(i, g->o.count_known || qr_peer_get(i) ? QR_PEER_ABSENT : QR_PEER_UNKNOWN);
    for (uint32_t i = 0; i < QR_MAX_MEMBERS; i++) qr_peer_serves(i, i < g->o.n_servers);
    for (uint32_t r = 0; r < now->n_members; r++) {
        qr_peer_set(now->member[r].name.index, QR_PEER_MEMBER);
        qr_peer_serves(now->member[r].name.index, now->member[r].server);
    }
}

/* Messages between control threads end with a crc32c: a flipped bit in a hello would name another
 * job, in a promise another state. TLS detects that earlier; plaintext does not. */
bool group_post(struct qr_group *g, uint32_t conn) {
    uint8_t crc[4];
    qr_set_u32le(crc, qr_crc32c(0, g->out.p, g->out.n));
    qr_buf_put(&g->out, crc, sizeof crc);
    return g->control->ops->send(g->control, conn, qr_buf_view(&g->out), (struct qr_bytes){0});
}

static bool strip_crc(struct qr_bytes m, struct qr_bytes *ret) {
    if (m.n < 4 || qr_get_u32le(m.p + m.n - 4) != qr_crc32c(0, m.p, m.n - 4)) return false;
    *ret = qr_bytes_of(m.p, m.n - 4);
    return true;
}

static void group_act(void *ctx, const struct qr_member_action *a) {
    struct qr_group *g = ctx;
    const struct qr_link_ops *ops = g->control->ops;
    struct qr_err err;
    switch (a->kind) {
    case QR_ACT_SEND:
        qr_buf_clear(&g->out);
        if (qr_message_encode(a->message, &g->out, &err) != QR_OK)
            qr_error(g->o.log, "group", "%s", err.msg);
        else if (!group_post(g, a->conn))
            qr_debug(g->o.log, "group", "dropped a %s message: no connection, or its queue is full",
                     qr_message_kind_name(a->message->kind));
        return;
    case QR_ACT_CLOSE: ops->close_conn(g->control, a->conn); return;
    case QR_ACT_DIAL: ops->dial(g->control, a->index, a->text); return;
    case QR_ACT_HANG_UP: ops->hang_up(g->control, a->index); return;
    case QR_ACT_PEER:
    case QR_ACT_PEER_GONE:
    case QR_ACT_RENEW_DATA: group_data_wanted(g, a); break;
    case QR_ACT_LOG: qr_log_at(g->o.log, a->level, "group", "%s", a->text); return;
    case QR_ACT_SUSPEND:
        if (g->begun && !g->paused_ns) g->paused_ns = g->applied_ns;
        g->begun = false;
        group_on_suspend(g);
        break;
    case QR_ACT_BEGIN:
        count_change(g, &g->generation->begin, &a->generation->begin);
        *g->generation = *a->generation;
        g->begun = true;
        g->first |= a->generation->first;
        g->serial++;
        group_on_begin(g);
        break;
    case QR_ACT_STOP: record_verdict(&g->stop, a); break;
    case QR_ACT_DONE:
        record_verdict(&g->done, a);
        g->done_ns = group_now_ns(g);
        break;
    }
    /* While closing, the data link is freed in parallel. */
    if (!g->quit) g->data->ops->wake(g->data);
}

static void handle_requests(struct qr_group *g) {
    group_data_requests(g);
    if (g->coverage_rejected) {
        g->coverage_rejected = false;
        handle(g, .kind = QR_EVENT_REJECTED);
    }
    if (g->end) {
        g->end = false;
        handle(g, .kind = QR_EVENT_END, .code = g->end_code, .text = g->end_text);
    }
    if (g->leave) {
        const char *why = *g->leave_reason ? g->leave_reason : "it ended early";
        enum qr_code code = *g->leave_reason ? g->leave_code : QR_ABORTED;
        g->leave = false;
        if (g->interrupted) code = QR_CANCELLED, why = "it was asked to stop";
        handle(g, .kind = QR_EVENT_LEAVE, .code = code, .text = why);
    }
}

static void group_on_event(struct qr_group *g, const struct qr_link_event *e) {
    struct qr_err err;
    struct qr_bytes whole;
    switch (e->kind) {
    case QR_LINK_UP:
        handle(g, .kind = QR_EVENT_UP, .conn = e->conn, .outgoing = e->outgoing, .index = e->tag,
               .text = e->host);
        break;
    case QR_LINK_DOWN: handle(g, .kind = QR_EVENT_DOWN, .conn = e->conn, .text = e->reason); break;
    case QR_LINK_MESSAGE:
        if (!strip_crc(e->message, &whole))
            handle(g, .kind = QR_EVENT_MALFORMED, .conn = e->conn,
                   .text = "damaged message: its crc32c is wrong");
        else if (group_echo_message(g, e->conn, whole)) break;
        else if (qr_message_decode(whole, g->in, &err) == QR_OK)
            handle(g, .kind = QR_EVENT_MESSAGE, .conn = e->conn, .message = g->in);
        else handle(g, .kind = QR_EVENT_MALFORMED, .conn = e->conn, .text = err.msg);
        break;
    case QR_LINK_NOTHING: handle(g, .kind = QR_EVENT_TICK); break;
    case QR_LINK_WOKEN: break;
    }
    if (group_now_ns(g) >= qr_member_deadline_ns(g->member)) handle(g, .kind = QR_EVENT_TICK);
}

void qr_group_control_run(struct qr_group *g) {
    pthread_mutex_lock(&g->lock);
    handle(g, .kind = QR_EVENT_START);
    for (;;) {
        handle_requests(g);
        if (g->quit) break;
        int64_t until_ns = qr_member_deadline_ns(g->member);
        pthread_mutex_unlock(&g->lock);
        struct qr_link_event e;
        g->control->ops->poll(g->control, until_ns, &e);
        pthread_mutex_lock(&g->lock);
        int64_t began_ns = group_now_ns(g);
        group_on_event(g, &e);
        group_echo_ask(g);
        qr_count_time(QR_MEMBERSHIP_TIME, group_now_ns(g) - began_ns);
        qr_count(QR_TURNS_CONTROL, 1);
        g->awaits_data = qr_member_awaits_data(g->member);
        for (uint32_t i = 0; i < g->o.n_peers; i++)
            qr_peer_no_data(i, qr_member_lacks_data(g->member, i));
        qr_gauge(QR_PEERS_CONNECTED, qr_member_n_connected(g->member));
    }
    pthread_mutex_unlock(&g->lock);
    g->control->ops->free(g->control); /* Still sends what is queued. */
    g->control = NULL;
}

/* ---- between the threads ---- */

/* The control thread closes its link only after it has seen `quit` under the lock. */
void group_wake_control(struct qr_group *g) {
    if (g->control) g->control->ops->wake(g->control);
}

enum qr_code group_stop_reason(struct qr_group *g, struct qr_err *err) {
    if (g->interrupted) return qr_fail(err, QR_CANCELLED, "asked to stop");
    if (g->stop.set) return qr_fail(err, g->stop.code, "%s", g->stop.text);
    if (g->done.set && g->done.code != QR_OK) return qr_fail(err, g->done.code, "%s", g->done.text);
    return QR_OK;
}

/* ---- creating and closing ---- */

static struct qr_group *new_group(const struct qr_group_options *opt) {
    struct qr_group *g = qr_xcalloc(1, sizeof *g);
    g->o = *opt;
    if (opt->faults) g->faults = *opt->faults;
    g->allreduce = opt->allreduce;
    pthread_mutex_init(&g->lock, NULL);
    return g;
}

struct qr_group *qr_group_solo(const struct qr_group_options *opt) {
    struct qr_group *g = new_group(opt);
    g->solo = g->first = true;
    g->alone = qr_reduction_new();
    g->view = (struct qr_group_view){.generation = 1, .n_members = 1, .index = {opt->index}};
    return g;
}

static const char *find_contract(const struct qr_group_options *opt) {
    for (size_t i = 0; i < opt->n_fields; i++)
        if (strcmp(opt->fields[i].name, "contract") == 0) return opt->fields[i].value;
    return "";
}

static uint64_t group_digest_text(const char *text) {
    uint8_t d[QR_XXH3_BYTES];
    qr_xxh3(text ? text : "", text ? strlen(text) : 0, d);
    return qr_get_u64le(d);
}

/* Formats host:port with another port. False when it is too long or has no port. */
bool group_with_port(const char *address, unsigned port, char *ret, size_t cap) {
    const char *colon = strrchr(address, ':');
    int n = colon ? snprintf(ret, cap, "%.*s:%u", (int)(colon - address), address, port) : -1;
    return n > 0 && (size_t)n < cap;
}

enum qr_code qr_group_over(const struct qr_group_options *opt, struct qr_link *control,
                           struct qr_link *data, struct qr_group **ret, unsigned *ret_port,
                           struct qr_err *err) {
    char data_address[300];
    unsigned port = 0, data_port = 0;
    enum qr_code code = QR_OK;
    if (opt->n_peers < 1 || opt->n_peers > QR_MAX_MEMBERS || opt->index >= opt->n_peers)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "index %" PRIu32
                       " of %zu peers: a group has 1 to %d peers, this process included",
                       opt->index, opt->n_peers, (int)QR_MAX_MEMBERS);
    else if (!group_with_port(opt->listen_address, opt->data_port, data_address,
                              sizeof data_address))
        code = qr_fail(err, QR_INVALID_ARGUMENT, "listen address '%s' is not host:port",
                       opt->listen_address);
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
    g->members = qr_xcalloc(QR_MAX_MEMBERS, sizeof *g->members);
    g->generation = qr_xcalloc(1, sizeof *g->generation);
    struct qr_member_options m = {
        .run = opt->run,
        .contract = find_contract(opt),
        .fields = opt->fields,
        .n_fields = opt->n_fields,
        .index = opt->index,
        .n_peers = opt->n_peers,
        .peers = opt->peers,
        .count_known = opt->count_known,
        .n_servers = opt->n_servers,
        .server = opt->server,
        .min_workers = opt->min_workers,
        .allreduce = opt->allreduce,
        .places = group_digest_text(opt->places),
        .form_timeout_ns = opt->form_timeout_ns,
        .data_port = data_port,
        .control_port = port,
        .faults = g->faults.member,
    };
    memcpy(m.job_hash, opt->job_hash, sizeof m.job_hash);
    qr_entropy(m.incarnation, sizeof m.incarnation);
    qr_entropy(&m.seed, sizeof m.seed);
    if (opt->seed) {
        qr_set_u64le(m.incarnation, opt->seed);
        qr_set_u64le(m.incarnation + 8, ~opt->seed);
        m.seed = opt->seed;
    }
    g->member = qr_member_new(&m, group_act, g);
    struct qr_mesh_options mesh = {
        .link = data,
        .clock = opt->clock,
        .log = opt->log,
        .index = opt->index,
        .ctx = g,
        .stop = group_mesh_stop,
        .up = group_mesh_up,
        .down = group_mesh_down,
        .polled = group_mesh_polled,
    };
    memcpy(mesh.incarnation, m.incarnation, sizeof mesh.incarnation);
    g->mesh = qr_mesh_new(&mesh);
    *ret = g;
    *ret_port = port;
    return QR_OK;
}

void qr_group_set_thread(struct qr_group *g,
                         enum qr_code (*start)(void *ctx, struct qr_group *g, struct qr_err *err),
                         void (*join)(void *ctx), void *ctx) {
    g->start = start;
    g->join = join;
    g->thread_ctx = ctx;
}

void qr_group_close(struct qr_group *g) {
    if (!g) return;
    if (!g->solo) {
        pthread_mutex_lock(&g->lock);
        g->leave = g->quit = true;
        group_wake_control(g);
        pthread_mutex_unlock(&g->lock);
        /* Concurrently with the goodbye of the control thread; each takes at most a second. */
        g->data->ops->free(g->data);
        if (g->join) g->join(g->thread_ctx);
        if (g->control) g->control->ops->free(g->control); /* the control thread never ran */
        qr_mesh_free(g->mesh);
        qr_member_free(g->member);
    }
    qr_reduction_free(g->alone);
    qr_buf_free(&g->out);
    free(g->ledger.micro_batch);
    free(g->ledger.mine);
    free(g->members);
    free(g->in);
    free(g->generation);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void qr_group_interrupt(struct qr_group *g) {
    pthread_mutex_lock(&g->lock);
    g->leave = g->interrupted = true;
    if (!g->solo && !g->quit) {
        group_wake_control(g);
        g->data->ops->wake(g->data);
    }
    pthread_mutex_unlock(&g->lock);
}
