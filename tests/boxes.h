/* tests/boxes.h — membership machines wired to each other without delay, on virtual time. */
#ifndef QR_TESTS_BOXES_H
#define QR_TESTS_BOXES_H

#include "base/clock.h"
#include "base/mem.h"
#include "membership/member.h"
#include "membership/member_impl.h"
#include "tests/t.h"

enum { MAX = 4, QUEUE = 512 };
#define MILLI INT64_C(1000000)
static const char *const peers[4] = {"a:1", "b:2", "c:3", "d:4"};
static const struct qr_field fields_64[] = {{"train.batch_size", "64"}, {"seed", "1"}},
                             fields_32[] = {{"train.batch_size", "32"}, {"seed", "1"}};

struct box {
    struct qr_member *m;
    uint32_t index;
    bool begun, done, stop;
    int64_t at_ns;
    enum qr_code code;
    char text[QR_ERR_MSG_BYTES], log[4096], warnings[1024];
    /* a data stream comes up as soon as both want it, unless a test says so */
    struct {
        bool wanted, held_back;
        uint8_t inc[16];
    } data[MAX];
    unsigned renewed, dialed[MAX];
    struct qr_generation gen;
};
static struct box boxes[MAX];
static unsigned few;     /* min_workers; 0: half */
static unsigned servers; /* the first so many are parameter servers */
/* connection numbers: 2k at the dialing end, 2k + 1 at the other; wires never break unless a test
 * says so */
static struct wire {
    struct box *end[2];
    bool open;
} wires[64];
static uint32_t n_wires;
static struct letter {
    uint32_t conn;
    struct qr_message msg;
} * queue;
static size_t n_queue;
static int64_t now_ns;

#define handle(m, ...) qr_member_handle(m, now_ns, &(struct qr_member_event){__VA_ARGS__})
/* host: where `from` is, as the link of `to` knows it */
static void wire_from(const char *host, struct box *from, struct box *to) {
    wires[n_wires] = (struct wire){{from, to}, true};
    uint32_t k = n_wires++;
    handle(from->m, .kind = QR_EVENT_UP, .conn = 2 * k, .outgoing = true, .index = to->index);
    handle(to->m, .kind = QR_EVENT_UP, .conn = 2 * k + 1, .text = host);
}
static void wire_up(struct box *from, struct box *to) { wire_from(NULL, from, to); }
static void emit(void *ctx, const struct qr_member_action *a) {
    struct box *b = ctx;
    switch (a->kind) {
    case QR_ACT_SEND:
        if (wires[a->conn / 2].open && n_queue < QUEUE)
            queue[n_queue++] = (struct letter){a->conn ^ 1, *a->message};
        break;
    case QR_ACT_LOG:
        if (strlen(b->log) + strlen(a->text) + 2 < sizeof b->log)
            strcat(strcat(b->log, a->text), "\n");
        if (a->level >= QR_LOG_WARNING &&
            strlen(b->warnings) + strlen(a->text) + 2 < sizeof b->warnings)
            strcat(strcat(b->warnings, a->text), "\n");
        break;
    case QR_ACT_BEGIN: b->begun = true, b->gen = *a->generation; break;
    case QR_ACT_DONE: b->done = true; goto text;
    case QR_ACT_STOP:
        b->stop = true;
        goto text;
    text:
        b->code = a->code, b->at_ns = now_ns;
        snprintf(b->text, sizeof b->text, "%s", a->text);
        break;
    case QR_ACT_CLOSE: wires[a->conn / 2].open = false; break;
    case QR_ACT_SUSPEND: b->begun = false; break;
    case QR_ACT_PEER:
        b->data[a->index].wanted = true;
        memcpy(b->data[a->index].inc, a->incarnation, 16);
        break;
    case QR_ACT_PEER_GONE: b->data[a->index].wanted = false; break;
    case QR_ACT_RENEW_DATA:
        b->data[a->index].wanted = true;
        b->renewed++;
        break;
    case QR_ACT_DIAL: b->dialed[a->index]++; break;
    case QR_ACT_HANG_UP: break;
    }
}
static struct box *box(uint32_t slot, uint32_t index, size_t n_peers, uint8_t inc,
                       const struct qr_field *fields) {
    struct box *b = &boxes[slot];
    qr_member_free(b->m);
    *b = (struct box){.index = index};
    struct qr_member_options opt = {.run = "qcnn",
                                    .contract = "f32-v1",
                                    .fields = fields,
                                    .n_fields = 2,
                                    .index = index,
                                    .n_peers = n_peers,
                                    .peers = peers,
                                    .count_known = true,
                                    .n_servers = servers,
                                    .server = index < servers,
                                    .form_timeout_ns = 60 * QR_SECOND,
                                    .data_port = 2224,
                                    .min_workers = few,
                                    .seed = index};
    memset(opt.incarnation, inc, 16);
    opt.job_hash[0] = fields == fields_32;
    b->m = qr_member_new(&opt, emit, b);
    handle(b->m, .kind = QR_EVENT_START);
    return b;
}
static void data_streams(void) {
    for (int i = 0; i < MAX; i++)
        for (uint32_t k = 0; boxes[i].m && k < MAX; k++) {
            if (!boxes[i].data[k].wanted || boxes[i].data[k].held_back) continue;
            boxes[i].data[k].wanted = false;
            handle(boxes[i].m, .kind = QR_EVENT_DATA_UP, .index = k,
                   .incarnation = boxes[i].data[k].inc);
        }
}
static void deliver(void) {
    for (size_t i = 0; i < n_queue; i++) { /* answers come behind */
        uint32_t conn = queue[i].conn;
        if (wires[conn / 2].end[conn & 1]->m)
            handle(wires[conn / 2].end[conn & 1]->m, .kind = QR_EVENT_MESSAGE, .conn = conn,
                   .message = &queue[i].msg);
    }
    n_queue = 0;
    data_streams();
    if (n_queue) deliver();
}
static void pass(int64_t ns) {
    int64_t until = now_ns + ns;
    deliver();
    while (now_ns < until) {
        now_ns += 10 * MILLI;
        for (int i = 0; i < MAX; i++)
            if (boxes[i].m && now_ns >= qr_member_deadline_ns(boxes[i].m))
                handle(boxes[i].m, .kind = QR_EVENT_TICK);
        deliver();
    }
}
static void reset(void) {
    for (int i = 0; i < MAX; i++) qr_member_free(boxes[i].m), boxes[i] = (struct box){0};
    n_wires = 0, n_queue = 0, now_ns = QR_SECOND;
}

/* Worker `who` says which state it holds. */
static inline void tell_state(uint32_t who, uint64_t step, uint8_t digest, bool stateless) {
    struct qr_held h = {
        .stateless = stateless, .applied_reductions = step, .base_reductions = step};
    h.digest[0] = h.base_digest[0] = digest;
    qr_member_set_held(boxes[who].m, &h);
}

#endif
