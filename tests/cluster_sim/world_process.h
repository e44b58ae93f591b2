/* tests/cluster_sim/world_process.h — processes of a world: actions of their machines, start,
 * service and end; virtual time. Included once. */
#ifndef TESTS_CLUSTER_SIM_WORLD_PROCESS_H
#define TESTS_CLUSTER_SIM_WORLD_PROCESS_H

#include "tests/cluster_sim/world_trainer.h"

/* ---- actions of the machine ---- */
struct context {
    struct world *w;
    struct node *x;
};
static struct context contexts[MAX_NODES];
static void send_control(struct node *x, uint32_t conn, const struct qr_message *msg) {
    static struct qr_buf buf;
    struct qr_err err;
    qr_buf_clear(&buf);
    qr_buf_put(&buf, "", 1);
    if (qr_message_encode(msg, &buf, &err) != QR_OK) {
        CHECK(false, "encode: %s", err.msg);
        return;
    }
    x->link->ops->send(x->link, conn, qr_buf_view(&buf), qr_bytes_of(NULL, 0));
}
static void note_promise(struct world *w, struct node *x, const struct qr_gen_id *id) {
    RULE(qr_gen_id_compare(id, &x->promised) > 0, "promises only greater ids");
    x->promised = *id;
    x->pending_hash = qr_gen_id_hash(id);
    memset(x->early, 0, sizeof x->early);
}
static void emit(void *ctx, const struct qr_member_action *a) {
    struct world *w = ((struct context *)ctx)->w;
    struct node *x = ((struct context *)ctx)->x;
    switch (a->kind) {
    case QR_ACT_SEND:
        if (a->message->kind == QR_MESSAGE_PROPOSE &&
            qr_gen_id_compare(&a->message->propose.id, &x->promised) != 0) {
            const struct qr_propose *p = &a->message->propose;
            for (unsigned k = 0; k < w->n_gens; k++)
                RULE(qr_gen_id_compare(&w->gen[k].id, &p->id) != 0, "ids are unique");
            note_promise(w, x, &p->id);
            if (w->n_gens < MAX_GENS) w->gen[w->n_gens++].id = p->id;
            SAY("PROPOSE %llu of %u", (unsigned long long)p->id.number, p->n_members);
        }
        if (a->message->kind == QR_MESSAGE_PROMISE) {
            SAY("PROMISE %llu.%u step %llu", (unsigned long long)a->message->promise.id.number,
                a->message->promise.id.index, (unsigned long long)x->step);
            note_promise(w, x, &a->message->promise.id);
        }
        send_control(x, a->conn, a->message);
        break;
    case QR_ACT_CLOSE: x->link->ops->close_conn(x->link, a->conn); break;
    case QR_ACT_DIAL: x->link->ops->dial(x->link, a->index, a->text); break;
    case QR_ACT_HANG_UP: x->link->ops->hang_up(x->link, a->index); break;
    case QR_ACT_LOG:
        SAY("log: %s", a->text);
        if (a->level == QR_LOG_WARNING && !x->has_lost &&
            sscanf(a->text, "worker %" SCNu32 " (", &x->lost) == 1) {
            x->has_lost = true, x->lost_ns = now_of(w);
            snprintf(x->text, sizeof x->text, "%s", a->text);
        }
        break;
    case QR_ACT_SUSPEND: x->active = false; break;
    case QR_ACT_PEER:
        x->wanted[a->index] = true;
        memcpy(x->wanted_inc[a->index], a->incarnation, 16);
        break;
    case QR_ACT_PEER_GONE: x->wanted[a->index] = false; break;
    case QR_ACT_RENEW_DATA:
        SAY("gives up its data stream to worker %u", a->index);
        x->wanted[a->index] = true;
        break;
    case QR_ACT_BEGIN:
        if (a->generation->begin.n_members == 1) { /* alone it sends no Propose */
            note_promise(w, x, &a->generation->begin.id);
            if (w->n_gens < MAX_GENS) w->gen[w->n_gens++].id = a->generation->begin.id;
        }
        on_begin(w, x, a->generation);
        break;
    case QR_ACT_DONE: x->ended = true; goto out;
    case QR_ACT_STOP:
        x->stopped = true;
        goto out;
    out:
        SAY("%s: %s", a->kind == QR_ACT_DONE ? "DONE" : "STOP", a->text);
        x->code = a->code;
        snprintf(x->text, sizeof x->text, "%s", a->text);
        x->active = false;
    }
}

/* ---- a process ---- */
static void start(struct world *w, struct node *x) {
    uint32_t index = x->index, count = x->inc_count;
    int64_t form_ns = x->form_ns;
    memset(x, 0, sizeof *x);
    x->index = index, x->inc_count = count + 1, x->form_ns = form_ns;
    x->live = true;
    x->named_ns = now_of(w) + (w->remembers_ns ? (int64_t)dice(w, 800) * MS(1) : 0);
    qr_set_u64le(x->inc, mix(w->seed * 1000 + index * 100 + count));
    x->step = x->committed = w->latest;
    x->value = ref_of(w, x->step);
    SAY("starts at step %llu", (unsigned long long)x->step);
    struct qr_err err;
    unsigned port;
    x->link = qr_link_simulated_new(w->net);
    CHECK(x->link->ops->listen(x->link, w->address[index], &port, &err) == QR_OK, "%s", err.msg);
    struct qr_member_options opt = {.run = "toy",
                                    .contract = "f64-v1",
                                    .index = index,
                                    .n_peers = w->n,
                                    .peers = w->peers,
                                    .count_known = true,
                                    .control_port = port,
                                    .server = index < w->servers,
                                    .min_workers = w->elastic ? 1 : w->n,
                                    .form_timeout_ns = form_ns      ? form_ns
                                                       : w->elastic ? 20 * QR_SECOND
                                                                    : 600 * QR_SECOND,
                                    .seed = mix(w->seed + index),
                                    .faults = planted_faults(w->mutations).member};
    memcpy(opt.incarnation, x->inc, 16);
    contexts[index] = (struct context){w, x};
    x->m = qr_member_new(&opt, emit, &contexts[index]);
    tell_held(w, x);
    handle(w, x->m, .kind = QR_EVENT_START);
}
static inline void end_process(struct node *x) {
    if (x->ended || x->stopped) x->link->ops->free(x->link);
    else qr_sim_net_kill(x->link);
    qr_member_free(x->m);
    x->m = NULL, x->live = false, x->active = false;
}
/* The streams come up where data passes both ways; who sees no beat where nothing passes
 * says so. */
static void serve_data(struct world *w, struct node *x) {
    struct qr_poll_report how = {.turn_ns = now_of(w)};
    if (!x->active || !x->polls_ns) x->polls_ns = now_of(w); /* its trainer takes no time */
    how.since_ns = x->polls_ns;
    for (unsigned i = 0; i < w->n; i++) {
        const struct node *o = &w->node[i];
        bool passes = !w->deaf[i][x->index] && !w->deaf[x->index][i];
        if (!w->deaf[i][x->index]) x->heard_ns[i] = now_of(w);
        how.received_ns[i] = x->heard_ns[i];
        if (x->lost_data[i])
            handle(w, x->m, .kind = QR_EVENT_DATA_DOWN, .index = i, .text = "reset", .lost = true);
        x->wanted[i] = x->wanted[i] || x->lost_data[i];
        x->lost_data[i] = false;
        if (!x->wanted[i] || !passes || !o->live || memcmp(o->inc, x->wanted_inc[i], 16) != 0)
            continue;
        x->wanted[i] = false;
        handle(w, x->m, .kind = QR_EVENT_DATA_UP, .index = i, .incarnation = x->wanted_inc[i]);
    }
    handle(w, x->m, .kind = QR_EVENT_TRAINER, .turns = (uint64_t)now_of(w) / 1000000,
           .micro_batch_ns = MS(20), .polled = &how);
}
/* What was sent meanwhile is lost: as when a stream breaks. */
static inline void hears_again(struct world *w, struct node *a, struct node *b) {
    if (!w->deaf[a->index][b->index]) return;
    w->deaf[a->index][b->index] = false;
    a->lost_data[b->index] = b->lost_data[a->index] = true;
}
static void use_conns(struct node *x) {
    for (uint32_t i = 0; i < MAX_NODES; i++) x->conn[i] = qr_member_conn(x->m, i);
}
static void serve(struct world *w, struct node *x) {
    static struct qr_message msg;
    struct qr_link_event ev;
    for (int turns = 0; qr_sim_link_ready(x->link) && turns < 200; turns++) {
        x->link->ops->poll(x->link, now_of(w), &ev);
        if (ev.kind == QR_LINK_UP)
            handle(w, x->m, .kind = QR_EVENT_UP, .conn = ev.conn, .outgoing = ev.outgoing,
                   .index = ev.tag, .text = ev.host);
        if (ev.kind == QR_LINK_DOWN)
            handle(w, x->m, .kind = QR_EVENT_DOWN, .conn = ev.conn, .text = ev.reason);
        use_conns(x);
        if (ev.kind != QR_LINK_MESSAGE) continue;
        if (ev.message.p[0] != TAG_CONTROL) {
            on_data(w, x, ev.message.p);
            continue;
        }
        struct qr_err err;
        if (qr_message_decode(qr_bytes_of(ev.message.p + 1, ev.message.n - 1), &msg, &err) !=
            QR_OK) {
            CHECK(false, "decode: %s", err.msg);
            continue;
        }
        if (msg.kind >= QR_MESSAGE_PROPOSE && msg.kind <= QR_MESSAGE_BEGIN && dice(w, 3)) {
            unsigned slot = msg.kind != QR_MESSAGE_BEGIN;
            x->stale[slot] = msg;
            for (x->stale_from[slot] = 0;
                 x->stale_from[slot] < w->n && x->conn[x->stale_from[slot]] != ev.conn;)
                x->stale_from[slot]++;
        }
        handle(w, x->m, .kind = QR_EVENT_MESSAGE, .conn = ev.conn, .message = &msg);
        use_conns(x);
    }
    serve_data(w, x);
    train(w, x);
}
static void turn(struct world *w, int64_t limit_ns) {
    int64_t at = limit_ns, next = qr_sim_net_next_ns(w->net);
    if (next < at) at = next;
    for (unsigned i = 0; i < w->n; i++) {
        const struct node *x = &w->node[i];
        int64_t t = x->live ? x->paused ? x->resume_ns : qr_member_deadline_ns(x->m) : INT64_MAX;
        if (x->live && !x->paused && x->gen.begin.n_members && x->micro_batch_ns > now_of(w) &&
            x->micro_batch_ns < t)
            t = x->micro_batch_ns;
        if (!x->live && x->start_ns > 0) t = x->start_ns;
        if (t < at) at = t;
    }
    if (at <= now_of(w)) at = now_of(w) + 1;
    qr_sim_net_advance(w->net, at);
    unsigned first = (unsigned)dice(w, w->n);
    for (unsigned k = 0; k < w->n; k++) {
        struct node *x = &w->node[(first + k) % w->n];
        if (!x->live && x->start_ns > 0 && now_of(w) >= x->start_ns) {
            x->start_ns = 0;
            if (w->elastic && w->latest_done) x->finished = true; /* LATEST says done: exit 0 */
            else start(w, x);
        }
        if (x->paused && now_of(w) >= x->resume_ns) x->paused = false;
        if (x->live && !x->paused) serve(w, x);
    }
}
/* The cluster's DNS server. One that remembers answers as it did a moment ago to whoever asked:
 * that there is no such name, or where it was. */
static const char *resolve(void *ctx, const char *host) {
    struct world *w = ctx;
    unsigned i = 0;
    if (sscanf(host, "host%u", &i) != 1) return host;
    if (now_of(w) >= w->said_until_ns[i]) {
        w->said_until_ns[i] = now_of(w) + w->remembers_ns;
        w->said_live[i] = w->node[i].live && now_of(w) >= w->node[i].named_ns;
    }
    return w->said_live[i] ? w->ip[i] : NULL;
}
static void world_init(struct world *w, uint64_t seed, bool elastic, unsigned n, uint64_t steps) {
    memset(w, 0, sizeof *w);
    w->seed = seed, w->random = mix(seed), w->elastic = elastic, w->steps = steps;
    /* shorter than CoreDNS: nobody waits for names alone here; test_sim_dns has its 30 s */
    w->remembers_ns = !n && mix(seed ^ 99) % 2 ? MS(4500) : 0;
    w->n = n ? n : 2 + (unsigned)dice(w, elastic ? 4 : 7);
    if (!n && elastic && mix(seed ^ 77) % 3 == 0) w->servers = 1 + (w->n > 3);
    struct qr_sim_net_options opt = {.resolve = resolve,
                                     .ctx = w,
                                     .seed = mix(seed + 1),
                                     .min_delay_ns = 50000,
                                     .max_delay_ns = MS(1 + (int64_t)dice(w, 30))};
    w->net = qr_sim_net_new(&opt);
    for (unsigned s = 0; s < MAX_STEPS; s++)
        w->ref[s + 1] = next_value(w->ref[s], whole_sum(w->ref[s], s));
    for (unsigned i = 0; i < w->n; i++) {
        snprintf(w->address[i], sizeof w->address[i], "10.7.0.%u:2222", 10 + i);
        snprintf(w->ip[i], sizeof w->ip[i], "10.7.0.%u", 10 + i);
        snprintf(w->name[i], sizeof w->name[i], "host%u:2222", i);
        w->peers[i] = w->name[i];
        w->node[i].index = i;
        /* any order, some late */
        w->node[i].start_ns =
            1 + (int64_t)dice(w, 3) * (int64_t)dice(w, elastic ? 200 : 1500) * MS(1);
    }
}
static void world_fini(struct world *w) {
    for (unsigned i = 0; i < w->n; i++) qr_member_free(w->node[i].m);
    qr_sim_net_free(w->net);
}
static inline bool all_active(const struct world *w) {
    for (unsigned i = 0; i < w->n; i++)
        if (!w->node[i].active || w->node[i].gen.begin.n_members != w->n) return false;
    return true;
}

#endif
