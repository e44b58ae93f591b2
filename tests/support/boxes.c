/* tests/support/boxes.c — the actions of a machine become events of the others. Start reading at
 * emit. */
#include "tests/support/boxes.h"

static const char *const peers[4] = {"a:1", "b:2", "c:3", "d:4"};
const struct qr_field fields_64[2] = {{"train.batch_size", "64"}, {"seed", "1"}},
                      fields_32[2] = {{"train.batch_size", "32"}, {"seed", "1"}};
struct box boxes[MAX];
unsigned few, servers;
struct wire wires[64];
uint32_t n_wires;
struct letter *queue;
size_t n_queue;
int64_t now_ns;

void wire_from(const char *host, struct box *from, struct box *to) {
    wires[n_wires] = (struct wire){{from, to}, true};
    uint32_t k = n_wires++;
    handle(from->m, .kind = QR_EVENT_UP, .conn = 2 * k, .outgoing = true, .index = to->index);
    handle(to->m, .kind = QR_EVENT_UP, .conn = 2 * k + 1, .text = host);
}

void wire_up(struct box *from, struct box *to) { wire_from(NULL, from, to); }

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

struct box *box(uint32_t slot, uint32_t index, size_t n_peers, uint8_t inc,
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

void data_streams(void) {
    for (int i = 0; i < MAX; i++)
        for (uint32_t k = 0; boxes[i].m && k < MAX; k++) {
            if (!boxes[i].data[k].wanted || boxes[i].data[k].held_back) continue;
            boxes[i].data[k].wanted = false;
            handle(boxes[i].m, .kind = QR_EVENT_DATA_UP, .index = k,
                   .incarnation = boxes[i].data[k].inc);
        }
}

void deliver(void) {
    for (size_t i = 0; i < n_queue; i++) { /* deliveries append answers */
        uint32_t conn = queue[i].conn;
        if (wires[conn / 2].end[conn & 1]->m)
            handle(wires[conn / 2].end[conn & 1]->m, .kind = QR_EVENT_MESSAGE, .conn = conn,
                   .message = &queue[i].msg);
    }
    n_queue = 0;
    data_streams();
    if (n_queue) deliver();
}

void pass(int64_t ns) {
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

void reset(void) {
    for (int i = 0; i < MAX; i++) qr_member_free(boxes[i].m), boxes[i] = (struct box){0};
    n_wires = 0, n_queue = 0, now_ns = QR_SECOND;
}

void tell_state(uint32_t slot, uint64_t step, uint8_t digest, bool stateless) {
    struct qr_held h = {
        .stateless = stateless, .applied_reductions = step, .base_reductions = step};
    h.digest[0] = h.base_digest[0] = digest;
    qr_member_set_held(boxes[slot].m, &h);
}
