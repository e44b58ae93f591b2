/* tests/cluster_sim/world.c — the processes of a world: actions of their machines, start, service
 * and end, in the order of their events. Start reading at world_turn(). */
#include "tests/cluster_sim/world.h"

#include <inttypes.h>

#include "collective/allreduce_schedule.h"
#include "tests/cluster_sim/world_trainer.h"
#include "tests/support/planted.h"
#include "tests/t.h"

void world_violated(struct world *w, const char *rule, const struct node *x) {
    if (w->n_violations++ > 0) return;
    w->rule = rule;
    snprintf(w->detail, sizeof w->detail, "worker %u at %.3f s, step %llu", x->index,
             (double)now_of(w) / 1e9, (unsigned long long)x->step);
}

/* ---- actions of the machine ---- */

static void send_control(struct node *x, uint32_t conn, const struct qr_message *msg) {
    static const char tag = TAG_CONTROL;
    struct qr_buf *out = &x->w->out;
    struct qr_err err;
    qr_buf_clear(out);
    qr_buf_put(out, &tag, 1);
    if (qr_message_encode(msg, out, &err) != QR_OK) CHECK(false, "%s", err.msg);
    else x->link->ops->send(x->link, conn, qr_buf_view(out), qr_bytes_of(NULL, 0));
}
static void note_promise(struct world *w, struct node *x, const struct qr_gen_id *id) {
    RULE(qr_gen_id_compare(id, &x->promised) > 0, "promises only greater ids");
    x->promised = *id;
    x->pending_hash = qr_gen_id_hash(id);
    memset(x->early, 0, sizeof x->early);
}
static void note_proposal(struct world *w, struct node *x, const struct qr_gen_id *id) {
    note_promise(w, x, id);
    if (w->n_gens < MAX_GENS) w->gen[w->n_gens++].id = *id;
}
/* A generation needs the streams over which it passes data, also those left for later. */
static void dial_needed(struct node *x, const struct qr_begin *b, uint32_t rank) {
    for (uint32_t r = 0; r < b->n_members; r++)
        if (qr_schedule_pairs(b->n_members, rank, r)) x->dials[b->member[r].name.index] = true;
}
static void emit(void *ctx, const struct qr_member_action *a) {
    struct node *x = ctx;
    struct world *w = x->w;
    switch (a->kind) {
    case QR_ACT_SEND:
        if (a->message->kind == QR_MESSAGE_PROPOSE &&
            qr_gen_id_compare(&a->message->propose.id, &x->promised) != 0) {
            const struct qr_propose *p = &a->message->propose;
            for (unsigned k = 0; k < w->n_gens; k++)
                RULE(qr_gen_id_compare(&w->gen[k].id, &p->id) != 0, "ids are unique");
            note_proposal(w, x, &p->id);
            TRACE("PROPOSE %llu of %u", (unsigned long long)p->id.number, p->n_members);
        }
        if (a->message->kind == QR_MESSAGE_PROMISE) {
            TRACE("PROMISE %llu.%u step %llu", (unsigned long long)a->message->promise.id.number,
                  a->message->promise.id.index, (unsigned long long)x->step);
            note_promise(w, x, &a->message->promise.id);
        }
        send_control(x, a->conn, a->message);
        break;
    case QR_ACT_CLOSE: x->link->ops->close_conn(x->link, a->conn); break;
    case QR_ACT_DIAL: x->link->ops->dial(x->link, a->index, a->text); break;
    case QR_ACT_HANG_UP: x->link->ops->hang_up(x->link, a->index); break;
    case QR_ACT_LOG:
        TRACE("log: %s", a->text);
        if (a->level == QR_LOG_WARNING && !x->has_lost &&
            sscanf(a->text, "worker %" SCNu32 " (", &x->lost) == 1) {
            x->has_lost = true, x->lost_ns = now_of(w);
            snprintf(x->text, sizeof x->text, "%s", a->text);
        }
        break;
    case QR_ACT_SUSPEND: x->active = false; break;
    case QR_ACT_PEER:
        x->wanted[a->index] = true;
        x->dials[a->index] = !a->later;
        memcpy(x->wanted_inc[a->index], a->incarnation, 16);
        break;
    case QR_ACT_PEER_GONE: x->wanted[a->index] = false; break;
    case QR_ACT_RENEW_DATA:
        TRACE("renews its data stream to worker %u", a->index);
        x->wanted[a->index] = true;
        break;
    case QR_ACT_BEGIN:
        if (a->generation->begin.n_members == 1) /* alone it sends no Propose */
            note_proposal(w, x, &a->generation->begin.id);
        dial_needed(x, &a->generation->begin, a->generation->rank);
        trainer_begin(w, x, a->generation);
        break;
    case QR_ACT_DONE:
    case QR_ACT_STOP:
        *(a->kind == QR_ACT_DONE ? &x->ended : &x->stopped) = true;
        TRACE("%s: %s", a->kind == QR_ACT_DONE ? "DONE" : "STOP", a->text);
        x->code = a->code;
        snprintf(x->text, sizeof x->text, "%s", a->text);
        x->active = false;
    }
}

/* ---- a process ---- */

static void start_process(struct world *w, struct node *x) {
    uint32_t index = x->index, count = x->inc_count;
    int64_t form_timeout_ns = x->form_timeout_ns;
    memset(x, 0, sizeof *x);
    x->w = w, x->index = index, x->inc_count = count + 1, x->form_timeout_ns = form_timeout_ns;
    x->live = true;
    x->dns_name_ns = now_of(w) + (w->dns_cache_ns ? (int64_t)dice(w, 800) * MS(1) : 0);
    qr_set_u64le(x->inc, mix(w->seed * 1000 + index * 100 + count));
    x->step = x->committed = w->latest;
    x->value = world_value(w, x->step);
    TRACE("starts at step %llu", (unsigned long long)x->step);
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
                                    .form_timeout_ns = form_timeout_ns ? form_timeout_ns
                                                       : w->elastic    ? 20 * QR_SECOND
                                                                       : 600 * QR_SECOND,
                                    .seed = mix(w->seed + index),
                                    .faults = planted_faults(w->mutations).member};
    memcpy(opt.incarnation, x->inc, 16);
    x->m = qr_member_new(&opt, emit, x);
    trainer_set_held(x);
    handle(w, x->m, .kind = QR_EVENT_START);
}
void world_end_process(struct node *x) {
    if (x->ended || x->stopped) x->link->ops->free(x->link);
    else qr_sim_net_kill(x->link);
    qr_member_free(x->m);
    x->m = NULL, x->live = false, x->active = false;
}
/* A data stream comes up where data passes both ways. The report tells the machine from which peers
 * data arrives. */
static void serve_data(struct world *w, struct node *x) {
    struct qr_poll_report report = {.turn_ns = now_of(w)};
    if (!x->active || !x->polling_since_ns) x->polling_since_ns = now_of(w);
    report.since_ns = x->polling_since_ns;
    for (unsigned i = 0; i < w->n; i++) {
        const struct node *o = &w->node[i];
        bool passes = !w->data_blocked[i][x->index] && !w->data_blocked[x->index][i];
        bool dialed = i < x->index ? x->dials[i] : o->dials[x->index];
        if (!w->data_blocked[i][x->index]) x->data_received_ns[i] = now_of(w);
        report.received_ns[i] = x->data_received_ns[i];
        if (x->lost_data[i])
            handle(w, x->m, .kind = QR_EVENT_DATA_DOWN, .index = i, .text = "reset", .lost = true);
        x->wanted[i] = x->wanted[i] || x->lost_data[i];
        x->lost_data[i] = false;
        if (!x->wanted[i] || !passes || !dialed || !o->live ||
            memcmp(o->inc, x->wanted_inc[i], 16) != 0)
            continue;
        x->wanted[i] = false;
        handle(w, x->m, .kind = QR_EVENT_DATA_UP, .index = i, .incarnation = x->wanted_inc[i]);
    }
    handle(w, x->m, .kind = QR_EVENT_TRAINER, .turns = (uint64_t)now_of(w) / 1000000,
           .micro_batch_ns = MS(20), .polled = &report);
}
/* Copies the machine's connections for world_trainer.c. */
static void copy_conns(struct node *x) {
    for (uint32_t i = 0; i < MAX_NODES; i++) x->conn[i] = qr_member_conn(x->m, i);
}
static void serve(struct world *w, struct node *x) {
    struct qr_message *msg = &w->in;
    struct qr_link_event ev;
    for (int turns = 0; qr_sim_link_ready(x->link) && turns < 200; turns++) {
        x->link->ops->poll(x->link, now_of(w), &ev);
        if (ev.kind == QR_LINK_UP)
            handle(w, x->m, .kind = QR_EVENT_UP, .conn = ev.conn, .outgoing = ev.outgoing,
                   .index = ev.tag, .text = ev.host);
        if (ev.kind == QR_LINK_DOWN)
            handle(w, x->m, .kind = QR_EVENT_DOWN, .conn = ev.conn, .text = ev.reason);
        copy_conns(x);
        if (ev.kind != QR_LINK_MESSAGE) continue;
        if (ev.message.p[0] != TAG_CONTROL) {
            trainer_receive(w, x, ev.message.p);
            continue;
        }
        struct qr_err err;
        if (qr_message_decode(qr_bytes_of(ev.message.p + 1, ev.message.n - 1), msg, &err) !=
            QR_OK) {
            CHECK(false, "%s", err.msg);
            continue;
        }
        if (msg->kind >= QR_MESSAGE_PROPOSE && msg->kind <= QR_MESSAGE_BEGIN && dice(w, 3)) {
            unsigned slot = msg->kind != QR_MESSAGE_BEGIN;
            x->stale[slot] = *msg;
            for (x->stale_from[slot] = 0;
                 x->stale_from[slot] < w->n && x->conn[x->stale_from[slot]] != ev.conn;)
                x->stale_from[slot]++;
        }
        handle(w, x->m, .kind = QR_EVENT_MESSAGE, .conn = ev.conn, .message = msg);
        copy_conns(x);
    }
    serve_data(w, x);
    trainer_run(w, x);
}
void world_turn(struct world *w, int64_t limit_ns) {
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
            if (w->elastic && w->latest_done) x->finished = true; /* it exits 0 */
            else start_process(w, x);
        }
        if (x->paused && now_of(w) >= x->resume_ns) x->paused = false;
        if (x->live && !x->paused) serve(w, x);
    }
}

/* ---- a world ---- */

/* The DNS server: an answer, also a negative one, is cached for all clients. */
static const char *resolve(void *ctx, const char *host) {
    struct world *w = ctx;
    unsigned i = 0;
    if (sscanf(host, "host%u", &i) != 1) return host;
    if (now_of(w) >= w->dns_expires_ns[i]) {
        w->dns_expires_ns[i] = now_of(w) + w->dns_cache_ns;
        w->dns_found[i] = w->node[i].live && now_of(w) >= w->node[i].dns_name_ns;
    }
    return w->dns_found[i] ? w->ip[i] : NULL;
}
void world_init(struct world *w, uint64_t seed, bool elastic, unsigned n, uint64_t steps) {
    memset(w, 0, sizeof *w);
    w->seed = seed, w->random = mix(seed), w->elastic = elastic, w->steps = steps;
    /* Shorter than CoreDNS' 30 s (test_sim_dns has these), so that runs do not only wait. */
    w->dns_cache_ns = !n && mix(seed ^ 99) % 2 ? MS(4500) : 0;
    w->n = n ? n : 2 + (unsigned)dice(w, elastic ? 4 : 7);
    if (!n && elastic && mix(seed ^ 77) % 3 == 0) w->servers = 1 + (w->n > 3);
    struct qr_sim_net_options opt = {.resolve = resolve,
                                     .ctx = w,
                                     .seed = mix(seed + 1),
                                     .min_delay_ns = 50000,
                                     .max_delay_ns = MS(1 + (int64_t)dice(w, 30))};
    w->net = qr_sim_net_new(&opt);
    for (unsigned s = 0; s < MAX_STEPS; s++) w->ref[s + 1] = trainer_next_value(w->ref[s], s);
    for (unsigned i = 0; i < w->n; i++) {
        snprintf(w->address[i], sizeof w->address[i], "10.7.0.%u:2222", 10 + i);
        snprintf(w->ip[i], sizeof w->ip[i], "10.7.0.%u", 10 + i);
        snprintf(w->name[i], sizeof w->name[i], "host%u:2222", i);
        w->peers[i] = w->name[i];
        w->node[i].index = i;
        w->node[i].start_ns =
            1 + (int64_t)dice(w, 3) * (int64_t)dice(w, elastic ? 200 : 1500) * MS(1);
    }
}
void world_fini(struct world *w) {
    for (unsigned i = 0; i < w->n; i++) qr_member_free(w->node[i].m);
    qr_buf_free(&w->out);
    qr_sim_net_free(w->net);
}
