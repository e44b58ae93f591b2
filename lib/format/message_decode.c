/* format/message_decode.c — decodes untrusted bytes into a struct qr_message; checks every field.
 * Start reading at qr_message_decode(). */
#include <string.h>

#include "base/ip.h"
#include "base/text.h"
#include "format/message_impl.h"
#include "group.pb-c.h"

/* protobuf-c keeps unknown fields and allocates 50 times their size. This arena bounds all its
 * allocations and is released at once. The largest valid message (a Begin of QR_MAX_MEMBERS members
 * with 16 runs each) needs 170 KB. */
struct message_decode_arena {
    size_t used;
    _Alignas(16) uint8_t bytes[272 * 1024];
};
static void *message_decode_arena_alloc(void *ctx, size_t n) {
    struct message_decode_arena *a = ctx;
    n = (n + 15) & ~(size_t)15;
    if (n > sizeof a->bytes - a->used) return NULL;
    void *p = a->bytes + a->used;
    a->used += n;
    return p;
}

static void message_decode_arena_free(void *ctx, void *p) {
    (void)ctx;
    (void)p;
}

#define REJECT(...) return qr_fail(err, QR_DATA_LOSS, __VA_ARGS__)

static enum qr_code message_decode_string(const char *s, char *ret, size_t cap, const char *what,
                                          struct qr_err *err) {
    size_t n = strnlen(s, cap);
    if (n == cap) REJECT("%s: longer than %zu bytes", what, cap - 1);
    if (!qr_text_ok(s)) REJECT("%s: not UTF-8 text", what);
    memcpy(ret, s, n + 1);
    return QR_OK;
}

static enum qr_code message_decode_bytes(const ProtobufCBinaryData *b, uint8_t *ret, size_t n,
                                         const char *what, struct qr_err *err) {
    if (b->len != n) REJECT("%s: %zu bytes, not %zu", what, b->len, n);
    memcpy(ret, b->data, n);
    return QR_OK;
}

/* As message_decode_bytes; an absent field becomes all zeros. */
static enum qr_code message_decode_bytes_or_none(const ProtobufCBinaryData *b, uint8_t *ret,
                                                 size_t n, const char *what, struct qr_err *err) {
    if (b->len != 0) return message_decode_bytes(b, ret, n, what, err);
    memset(ret, 0, n);
    return QR_OK;
}

static enum qr_code message_decode_index(uint32_t v, uint32_t *ret, const char *what,
                                         struct qr_err *err) {
    if (v >= QR_MAX_MEMBERS) REJECT("%s: index %u is not below %d", what, v, QR_MAX_MEMBERS);
    *ret = v;
    return QR_OK;
}

static enum qr_code message_decode_number(uint64_t v, uint64_t *ret, struct qr_err *err) {
    if (v >= QR_MESSAGE_NUMBER_LIMIT)
        REJECT("generation number %llu: too large", (unsigned long long)v);
    *ret = v;
    return QR_OK;
}

static enum qr_code message_decode_id(const Qring__GenerationId *id, bool needed,
                                      struct qr_gen_id *ret, const char *what, struct qr_err *err) {
    memset(ret, 0, sizeof *ret);
    if (id == NULL || id->number == 0) {
        if (needed) REJECT("%s: missing", what);
        return QR_OK;
    }
    QR_TRY(message_decode_number(id->number, &ret->number, err));
    QR_TRY(message_decode_index(id->index, &ret->index, what, err));
    return message_decode_bytes(&id->incarnation, ret->incarnation, QR_INCARNATION_BYTES, what,
                                err);
}

static enum qr_code message_decode_phase(uint32_t v, enum qr_phase *ret, struct qr_err *err) {
    if (v != QR_PHASE_STARTING && v != QR_PHASE_MEMBER && v != QR_PHASE_DONE)
        REJECT("phase: unknown value %u", v);
    *ret = (enum qr_phase)v;
    return QR_OK;
}

static enum qr_code message_decode_code(uint32_t v, enum qr_code *ret, struct qr_err *err) {
    if (v > QR_OVER_BUDGET) REJECT("code: unknown value %u", v);
    *ret = (enum qr_code)v;
    return QR_OK;
}

static enum qr_code message_decode_name(const Qring__MemberName *in, struct qr_member_name *ret,
                                        const char *what, struct qr_err *err) {
    QR_TRY(message_decode_index(in->index, &ret->index, what, err));
    return message_decode_bytes(&in->incarnation, ret->incarnation, QR_INCARNATION_BYTES, what,
                                err);
}

static enum qr_code message_decode_names(Qring__MemberName *const *in, size_t n,
                                         struct qr_member_name *ret, uint32_t *ret_n,
                                         const char *what, struct qr_err *err) {
    if (n > QR_MAX_MEMBERS) REJECT("%s: %zu, above the limit of %d", what, n, QR_MAX_MEMBERS);
    for (size_t i = 0; i < n; i++) {
        QR_TRY(message_decode_name(in[i], &ret[i], what, err));
        if (i && ret[i].index <= ret[i - 1].index) REJECT("%s: indices not ascending", what);
    }
    *ret_n = (uint32_t)n;
    return QR_OK;
}

static enum qr_code message_decode_runs(Qring__Run *const *in, size_t n, struct qr_run *ret,
                                        uint32_t *ret_n, struct qr_err *err) {
    if (n > QR_MESSAGE_MAX_RUNS)
        REJECT("runs of micro-batches: %zu, above the limit of %d", n, QR_MESSAGE_MAX_RUNS);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct qr_run){in[i]->first, in[i]->count, in[i]->stride};
        if (!qr_message_run_ok(&ret[i]))
            REJECT("runs of micro-batches: run %zu is empty or too long", i);
    }
    *ret_n = (uint32_t)n;
    return QR_OK;
}

static enum qr_code message_decode_port(uint32_t v, uint32_t *ret, struct qr_err *err) {
    if (v > 65535) REJECT("port: %u is out of range", v);
    *ret = v;
    return QR_OK;
}

static enum qr_code message_decode_common(const Qring__Common *p, struct qr_common *ret,
                                          struct qr_err *err) {
    *ret = (struct qr_common){0};
    if (p == NULL) return QR_OK;
    *ret = (struct qr_common){.epochs = p->epochs,
                              .allreduce = p->allreduce,
                              .min_workers = p->min_workers,
                              .places = p->places};
    if (!qr_message_common_ok(ret)) REJECT("settings in common: out of range");
    return QR_OK;
}

static enum qr_code message_decode_age(uint64_t ms, uint64_t *ret, struct qr_err *err) {
    if (ms > QR_MESSAGE_MAX_AGE_MS) REJECT("the ring's age: out of range");
    *ret = ms;
    return QR_OK;
}

static enum qr_code message_decode_hello(const Qring__Hello *p, struct qr_hello *h,
                                         struct qr_err *err) {
    if (p->protocol_min > p->protocol_max)
        REJECT("protocol: invalid range %u to %u", p->protocol_min, p->protocol_max);
    h->protocol_min = p->protocol_min;
    h->protocol_max = p->protocol_max;
    QR_TRY(message_decode_string(p->contract, h->contract, sizeof h->contract, "contract", err));
    QR_TRY(message_decode_string(p->run, h->run, sizeof h->run, "run", err));
    QR_TRY(message_decode_index(p->index, &h->index, "index", err));
    QR_TRY(message_decode_bytes(&p->incarnation, h->incarnation, sizeof h->incarnation,
                                "incarnation", err));
    QR_TRY(message_decode_bytes(&p->job_hash, h->job_hash, sizeof h->job_hash, "job hash", err));
    if (p->n_fields > QR_MESSAGE_MAX_FIELDS)
        REJECT("fields: %zu, above the limit of %d", p->n_fields, QR_MESSAGE_MAX_FIELDS);
    for (size_t i = 0; i < p->n_fields; i++) {
        QR_TRY(message_decode_string(p->fields[i]->name, h->field[i].name, sizeof h->field[i].name,
                                     "name of a field", err));
        h->field[i].digest = p->fields[i]->digest;
    }
    h->n_fields = (uint32_t)p->n_fields;
    h->committed_reductions = p->committed_reductions;
    QR_TRY(message_decode_phase(p->phase, &h->phase, err));
    h->leader = p->leader != 0;
    QR_TRY(message_decode_id(p->generation, false, &h->generation, "generation", err));
    QR_TRY(message_decode_number(p->highest_number, &h->highest_number, err));
    QR_TRY(message_decode_port(p->data_port, &h->data_port, err));
    QR_TRY(message_decode_port(p->control_port, &h->control_port, err));
    QR_TRY(message_decode_string(p->address, h->address, sizeof h->address, "address", err));
    h->server = p->server != 0;
    return message_decode_names(p->heard, p->n_heard, h->heard, &h->n_heard, "members heard", err);
}

static enum qr_code message_decode_heartbeat(const Qring__Heartbeat *p, struct qr_heartbeat *h,
                                             struct qr_err *err) {
    h->sequence = p->sequence;
    QR_TRY(message_decode_bytes(&p->incarnation, h->incarnation, sizeof h->incarnation,
                                "incarnation", err));
    QR_TRY(message_decode_id(p->active, false, &h->active, "active", err));
    QR_TRY(message_decode_id(p->promised, false, &h->promised, "promised", err));
    QR_TRY(message_decode_number(p->highest_number, &h->highest_number, err));
    h->refusals = p->refusals;
    h->applied_reductions = p->applied_reductions;
    h->committed_reductions = p->committed_reductions;
    QR_TRY(message_decode_phase(p->phase, &h->phase, err));
    h->form_expired = p->form_expired != 0;
    h->trainer_turns = p->trainer_turns;
    h->expected_micro_batch_ms = p->expected_micro_batch_ms;
    QR_TRY(message_decode_number(p->polled_ms, &h->polled_ms, err));
    h->no_data = p->no_data;
    if (p->interval_ms > QR_MESSAGE_MAX_INTERVAL_MS) REJECT("heartbeats' interval: out of range");
    h->interval_ms = p->interval_ms;
    QR_TRY(message_decode_common(p->common, &h->common, err));
    return message_decode_names(p->heard, p->n_heard, h->heard, &h->n_heard, "members heard", err);
}

static enum qr_code message_decode_promise(const Qring__Promise *p, struct qr_promise *q,
                                           struct qr_err *err) {
    QR_TRY(message_decode_id(p->id, true, &q->id, "id", err));
    q->held.stateless = p->stateless != 0;
    q->held.applied_reductions = p->applied_reductions;
    QR_TRY(message_decode_bytes_or_none(&p->digest, q->held.digest, sizeof q->held.digest, "digest",
                                        err));
    q->held.committed_reductions = p->committed_reductions;
    q->held.base_reductions = p->base_reductions;
    QR_TRY(message_decode_bytes_or_none(&p->base_digest, q->held.base_digest,
                                        sizeof q->held.base_digest, "base digest", err));
    q->held.refusals = p->refusals;
    QR_TRY(message_decode_common(p->common, &q->common, err));
    QR_TRY(message_decode_age(p->ring_age_ms, &q->ring_age_ms, err));
    return message_decode_runs(p->held, p->n_held, q->held.run, &q->held.n_runs, err);
}

static enum qr_code message_decode_begin(const Qring__Begin *p, struct qr_begin *b,
                                         struct qr_err *err) {
    QR_TRY(message_decode_id(p->id, true, &b->id, "id", err));
    b->base_reductions = p->base_reductions;
    QR_TRY(message_decode_bytes_or_none(&p->base_digest, b->base_digest, sizeof b->base_digest,
                                        "base digest", err));
    b->from_checkpoint = p->from_checkpoint != 0;
    if (p->common == NULL) REJECT("settings in common: missing");
    QR_TRY(message_decode_common(p->common, &b->common, err));
    QR_TRY(message_decode_age(p->ring_age_ms, &b->ring_age_ms, err));
    if (p->n_members == 0 || p->n_members > QR_MAX_MEMBERS)
        REJECT("members: %zu, expected 1 to %d", p->n_members, QR_MAX_MEMBERS);
    bool computes = false;
    for (size_t i = 0; i < p->n_members; i++) {
        const Qring__BeginMember *in = p->members[i];
        struct qr_begin_member *out = &b->member[i];
        if (in->name == NULL) REJECT("members: rank %zu has no name", i);
        QR_TRY(message_decode_name(in->name, &out->name, "members", err));
        if (i && out->name.index <= b->member[i - 1].name.index)
            REJECT("members: indices not ascending");
        QR_TRY(message_decode_port(in->data_port, &out->data_port, err));
        out->holder = in->holder != 0;
        out->keep = in->keep != 0;
        out->server = in->server != 0;
        computes = computes || !out->server;
        QR_TRY(message_decode_runs(in->kept, in->n_kept, out->kept, &out->n_kept, err));
        if (!out->keep && out->n_kept)
            REJECT("members: rank %zu lists kept micro-batches without `keep`", i);
    }
    if (!computes) REJECT("members: all are parameter servers, none computes");
    b->n_members = (uint32_t)p->n_members;
    return QR_OK;
}

static enum qr_code message_decode_goodbye(const Qring__Goodbye *p, struct qr_goodbye *g,
                                           struct qr_err *err) {
    if (p->why > QR_GOODBYE_CLAIMED || p->why == 2) REJECT("why: unknown value %u", p->why);
    g->why = (enum qr_goodbye_reason)p->why;
    QR_TRY(message_decode_code(p->code, &g->code, err));
    return message_decode_string(p->text, g->text, sizeof g->text, "text", err);
}

static enum qr_code message_decode_addresses(const Qring__Addresses *p, struct qr_addresses *a,
                                             struct qr_err *err) {
    QR_TRY(message_decode_names(p->names, p->n_names, a->name, &a->n, "addresses", err));
    if (p->n_at != a->n || a->n == 0) REJECT("addresses: %zu for %u peers", p->n_at, a->n);
    for (uint32_t i = 0; i < a->n; i++) {
        QR_TRY(message_decode_string(p->at[i], a->at[i], sizeof a->at[i], "addresses", err));
        if (!qr_ip_port_ok(a->at[i]))
            REJECT("addresses: %s cannot be used by other machines", a->at[i]);
    }
    return QR_OK;
}

static enum qr_code message_decode_body(const Qring__Message *in, struct qr_message *ret,
                                        struct qr_err *err) {
    switch (in->body_case) {
    case QRING__MESSAGE__BODY_HELLO: return message_decode_hello(in->hello, &ret->hello, err);
    case QRING__MESSAGE__BODY_HEARTBEAT:
        return message_decode_heartbeat(in->heartbeat, &ret->heartbeat, err);
    case QRING__MESSAGE__BODY_PROMISE:
        return message_decode_promise(in->promise, &ret->promise, err);
    case QRING__MESSAGE__BODY_BEGIN: return message_decode_begin(in->begin, &ret->begin, err);
    case QRING__MESSAGE__BODY_ADDRESSES:
        return message_decode_addresses(in->addresses, &ret->addresses, err);
    case QRING__MESSAGE__BODY_GOODBYE:
        return message_decode_goodbye(in->goodbye, &ret->goodbye, err);
    case QRING__MESSAGE__BODY_FIELD:
        QR_TRY(message_decode_string(in->field->name, ret->field.name, sizeof ret->field.name,
                                     "name of a field", err));
        ret->field.absent = in->field->absent != 0;
        return message_decode_string(in->field->value, ret->field.value, sizeof ret->field.value,
                                     "value of a field", err);
    case QRING__MESSAGE__BODY_PROPOSE:
        QR_TRY(message_decode_id(in->propose->id, true, &ret->propose.id, "id", err));
        if (in->propose->n_members == 0) REJECT("members: none");
        return message_decode_names(in->propose->members, in->propose->n_members,
                                    ret->propose.member, &ret->propose.n_members, "members", err);
    case QRING__MESSAGE__BODY_BUSY:
        QR_TRY(message_decode_id(in->busy->id, true, &ret->busy.id, "id", err));
        QR_TRY(message_decode_number(in->busy->highest_number, &ret->busy.highest_number, err));
        return message_decode_string(in->busy->why, ret->busy.why, sizeof ret->busy.why, "why",
                                     err);
    case QRING__MESSAGE__BODY_DONE:
        QR_TRY(message_decode_code(in->done->code, &ret->done.code, err));
        return message_decode_string(in->done->text, ret->done.text, sizeof ret->done.text, "text",
                                     err);
    default: REJECT("unknown kind");
    }
}

enum qr_code qr_message_decode(struct qr_bytes bytes, struct qr_message *ret, struct qr_err *err) {
    if (bytes.n > QR_MESSAGE_MAX_BYTES)
        REJECT("control message of %zu bytes exceeds the limit of %d", bytes.n,
               QR_MESSAGE_MAX_BYTES);
    struct message_decode_arena message_decode_arena __attribute__((uninitialized));
    message_decode_arena.used = 0;
    ProtobufCAllocator allocator = {.alloc = message_decode_arena_alloc,
                                    .free = message_decode_arena_free,
                                    .allocator_data = &message_decode_arena};
    const Qring__Message *in = qring__message__unpack(&allocator, bytes.n, bytes.p);
    if (in == NULL)
        REJECT("control message of %zu bytes: not a protobuf message, or mostly unknown fields",
               bytes.n);
    enum qr_message_kind kind = (enum qr_message_kind)in->body_case;
    ret->kind = kind;
    if (message_decode_body(in, ret, err) != QR_OK)
        return qr_wrap(err, "%s message", qr_message_kind_name(kind));
    return QR_OK;
}
