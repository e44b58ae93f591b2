/* format/message.c — generation ids, and the encoder of control messages (message_decode.c has the
 * decoder). Start reading at qr_message_encode(). */
#include "format/message_impl.h"

#include <string.h>

#include "base/checksum.h"
#include "base/ip.h"
#include "base/text.h"
#include "group.pb-c.h"

int qr_gen_id_compare(const struct qr_gen_id *a, const struct qr_gen_id *b) {
    if (a->number != b->number) return a->number < b->number ? -1 : 1;
    if (a->index != b->index) return a->index < b->index ? -1 : 1;
    return memcmp(a->incarnation, b->incarnation, QR_INCARNATION_BYTES);
}

uint64_t qr_gen_id_hash(const struct qr_gen_id *id) {
    uint8_t b[12 + QR_INCARNATION_BYTES], digest[QR_XXH3_BYTES];
    qr_set_u64le(b, id->number);
    qr_set_u32le(b + 8, id->index);
    memcpy(b + 12, id->incarnation, QR_INCARNATION_BYTES);
    qr_xxh3(b, sizeof b, digest);
    return qr_get_u64le(digest);
}

const char *qr_message_kind_name(enum qr_message_kind k) {
    static const char *const name[] = {"?",    "hello", "field", "heartbeat", "propose",  "promise",
                                       "busy", "begin", "done",  "goodbye",   "addresses"};
    return (unsigned)k < sizeof name / sizeof *name ? name[k] : "?";
}

bool qr_message_run_ok(const struct qr_run *r) {
    if (r->count == 0 || r->stride == 0 || r->first >= QR_MESSAGE_MICRO_BATCH_LIMIT ||
        r->count > QR_MESSAGE_MICRO_BATCH_LIMIT || r->stride > QR_MESSAGE_MICRO_BATCH_LIMIT)
        return false;
    return (unsigned __int128)r->stride * (r->count - 1) + r->first < QR_MESSAGE_MICRO_BATCH_LIMIT;
}

bool qr_message_common_ok(const struct qr_common *c) {
    return c->epochs >= 1 && c->epochs <= UINT64_C(1) << 53 &&
           c->allreduce < QR_MESSAGE_ALLREDUCES && c->min_workers >= 1 &&
           c->min_workers <= QR_MAX_MEMBERS;
}

/* ---- encode: protobuf-c's structs on the stack point into the caller's (protobuf-c's pointers are
 * not const, but packing only reads) ---- */
enum { MAX_RUNS = QR_MAX_MEMBERS * QR_MESSAGE_MAX_RUNS };
struct message_encode_scratch {
    Qring__GenerationId id[2];
    Qring__MemberName name[QR_MAX_MEMBERS], *names[QR_MAX_MEMBERS];
    Qring__FieldDigest field[QR_MESSAGE_MAX_FIELDS], *fields[QR_MESSAGE_MAX_FIELDS];
    Qring__BeginMember member[QR_MAX_MEMBERS], *members[QR_MAX_MEMBERS];
    Qring__Run run[MAX_RUNS], *runs[MAX_RUNS];
    Qring__Common common;
    char *at[QR_MAX_MEMBERS];
    union {
        Qring__Hello hello;
        Qring__FieldText field_text;
        Qring__Heartbeat heartbeat;
        Qring__Propose propose;
        Qring__Promise promise;
        Qring__Busy busy;
        Qring__Begin begin;
        Qring__Done done;
        Qring__Goodbye goodbye;
        Qring__Addresses addresses;
    };
    const char *bad; /* a field that exceeds its limit, or NULL */
};

static char *message_encode_text(struct message_encode_scratch *s, const char *text,
                                 const char *what) {
    if (!qr_text_ok(text)) s->bad = what;
    union {
        const char *in;
        char *out;
    } u = {.in = text};
    return u.out;
}

static ProtobufCBinaryData message_encode_bytes(const uint8_t *p, size_t n) {
    union {
        const uint8_t *in;
        uint8_t *out;
    } u = {.in = p};
    return (ProtobufCBinaryData){n, u.out};
}

static Qring__GenerationId *message_encode_id(struct message_encode_scratch *s, int which,
                                              const struct qr_gen_id *id) {
    if (qr_gen_id_none(id)) return NULL;
    if (id->number >= QR_MESSAGE_NUMBER_LIMIT || id->index >= QR_MAX_MEMBERS)
        s->bad = "generation id";
    Qring__GenerationId *g = &s->id[which];
    qring__generation_id__init(g);
    g->number = id->number;
    g->index = id->index;
    g->incarnation = message_encode_bytes(id->incarnation, QR_INCARNATION_BYTES);
    return g;
}

static Qring__MemberName **message_encode_names(struct message_encode_scratch *s,
                                                const struct qr_member_name *name, size_t n,
                                                const char *what) {
    if (n > QR_MAX_MEMBERS) {
        s->bad = what;
        n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (name[i].index >= QR_MAX_MEMBERS || (i && name[i].index <= name[i - 1].index))
            s->bad = what;
        qring__member_name__init(&s->name[i]);
        s->name[i].index = name[i].index;
        s->name[i].incarnation = message_encode_bytes(name[i].incarnation, QR_INCARNATION_BYTES);
        s->names[i] = &s->name[i];
    }
    return s->names;
}

/* at: index of the first of n entries in run[] and runs[] */
static Qring__Run **message_encode_runs(struct message_encode_scratch *s, size_t at,
                                        const struct qr_run *run, size_t n) {
    if (n > QR_MESSAGE_MAX_RUNS) {
        s->bad = "runs of micro-batches";
        n = 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (!qr_message_run_ok(&run[i])) s->bad = "runs of micro-batches";
        qring__run__init(&s->run[at + i]);
        s->run[at + i].first = run[i].first;
        s->run[at + i].count = run[i].count;
        s->run[at + i].stride = run[i].stride;
        s->runs[at + i] = &s->run[at + i];
    }
    return &s->runs[at];
}

static Qring__Common *message_encode_common(struct message_encode_scratch *s,
                                            const struct qr_common *c) {
    if (c->epochs == 0) return NULL;
    if (!qr_message_common_ok(c)) s->bad = "settings in common";
    qring__common__init(&s->common);
    s->common.epochs = c->epochs;
    s->common.allreduce = c->allreduce;
    s->common.min_workers = c->min_workers;
    s->common.places = c->places;
    return &s->common;
}

static void message_encode_hello(struct message_encode_scratch *s, const struct qr_hello *h) {
    Qring__Hello *p = &s->hello;
    qring__hello__init(p);
    p->protocol_min = h->protocol_min;
    p->protocol_max = h->protocol_max;
    p->contract = message_encode_text(s, h->contract, "contract");
    p->run = message_encode_text(s, h->run, "run");
    p->index = h->index;
    p->incarnation = message_encode_bytes(h->incarnation, sizeof h->incarnation);
    p->job_hash = message_encode_bytes(h->job_hash, sizeof h->job_hash);
    if (h->n_fields > QR_MESSAGE_MAX_FIELDS) s->bad = "fields";
    p->n_fields = s->bad ? 0 : h->n_fields;
    for (size_t i = 0; i < p->n_fields; i++) {
        qring__field_digest__init(&s->field[i]);
        s->field[i].name = message_encode_text(s, h->field[i].name, "name of a field");
        s->field[i].digest = h->field[i].digest;
        s->fields[i] = &s->field[i];
    }
    p->fields = s->fields;
    p->committed_reductions = h->committed_reductions;
    p->phase = h->phase;
    p->leader = h->leader;
    p->generation = message_encode_id(s, 0, &h->generation);
    p->highest_number = h->highest_number;
    p->data_port = h->data_port;
    p->control_port = h->control_port;
    p->address = message_encode_text(s, h->address, "address");
    p->server = h->server;
    p->n_heard = h->n_heard;
    p->heard = message_encode_names(s, h->heard, h->n_heard, "members heard");
    if (h->index >= QR_MAX_MEMBERS) s->bad = "index";
    if (h->data_port > 65535 || h->control_port > 65535) s->bad = "port";
}

static void message_encode_heartbeat(struct message_encode_scratch *s,
                                     const struct qr_heartbeat *h) {
    Qring__Heartbeat *p = &s->heartbeat;
    qring__heartbeat__init(p);
    p->sequence = h->sequence;
    p->incarnation = message_encode_bytes(h->incarnation, sizeof h->incarnation);
    p->active = message_encode_id(s, 0, &h->active);
    p->promised = message_encode_id(s, 1, &h->promised);
    p->highest_number = h->highest_number;
    p->refusals = h->refusals;
    p->applied_reductions = h->applied_reductions;
    p->committed_reductions = h->committed_reductions;
    p->phase = h->phase;
    p->form_expired = h->form_expired;
    p->trainer_turns = h->trainer_turns;
    p->expected_micro_batch_ms = h->expected_micro_batch_ms;
    p->polled_ms = h->polled_ms;
    p->no_data = h->no_data;
    p->interval_ms = h->interval_ms;
    if (h->interval_ms > QR_MESSAGE_MAX_INTERVAL_MS) s->bad = "heartbeats' interval";
    p->common = message_encode_common(s, &h->common);
    p->n_heard = h->n_heard;
    p->heard = message_encode_names(s, h->heard, h->n_heard, "members heard");
}

static void message_encode_promise(struct message_encode_scratch *s, const struct qr_promise *q) {
    Qring__Promise *p = &s->promise;
    qring__promise__init(p);
    p->id = message_encode_id(s, 0, &q->id);
    p->applied_reductions = q->held.applied_reductions;
    p->digest = message_encode_bytes(q->held.digest, sizeof q->held.digest);
    p->committed_reductions = q->held.committed_reductions;
    p->base_reductions = q->held.base_reductions;
    p->base_digest = message_encode_bytes(q->held.base_digest, sizeof q->held.base_digest);
    p->refusals = q->held.refusals;
    p->stateless = q->held.stateless;
    p->common = message_encode_common(s, &q->common);
    p->ring_age_ms = q->ring_age_ms;
    if (q->ring_age_ms > QR_MESSAGE_MAX_AGE_MS) s->bad = "the ring's age";
    p->n_held = q->held.n_runs;
    p->held = message_encode_runs(s, 0, q->held.run, q->held.n_runs);
}

static void message_encode_begin(struct message_encode_scratch *s, const struct qr_begin *b) {
    Qring__Begin *p = &s->begin;
    qring__begin__init(p);
    p->id = message_encode_id(s, 0, &b->id);
    p->base_reductions = b->base_reductions;
    p->base_digest = message_encode_bytes(b->base_digest, sizeof b->base_digest);
    p->from_checkpoint = b->from_checkpoint;
    p->common = message_encode_common(s, &b->common);
    p->ring_age_ms = b->ring_age_ms;
    if (b->ring_age_ms > QR_MESSAGE_MAX_AGE_MS) s->bad = "the ring's age";
    if (b->common.epochs == 0) s->bad = "settings in common";
    if (b->n_members > QR_MAX_MEMBERS) s->bad = "members";
    p->n_members = s->bad ? 0 : b->n_members;
    for (size_t i = 0; i < p->n_members; i++) {
        const struct qr_begin_member *in = &b->member[i];
        if (in->name.index >= QR_MAX_MEMBERS ||
            (i && in->name.index <= b->member[i - 1].name.index))
            s->bad = "members";
        Qring__BeginMember *out = &s->member[i];
        qring__begin_member__init(out);
        qring__member_name__init(&s->name[i]);
        s->name[i].index = in->name.index;
        s->name[i].incarnation = message_encode_bytes(in->name.incarnation, QR_INCARNATION_BYTES);
        out->name = &s->name[i];
        out->data_port = in->data_port;
        out->holder = in->holder;
        out->keep = in->keep;
        out->server = in->server;
        out->n_kept = in->n_kept;
        out->kept = message_encode_runs(s, i * QR_MESSAGE_MAX_RUNS, in->kept, in->n_kept);
        s->members[i] = out;
    }
    p->members = s->members;
}

static void message_encode_addresses(struct message_encode_scratch *s,
                                     const struct qr_addresses *a) {
    qring__addresses__init(&s->addresses);
    s->addresses.names = message_encode_names(s, a->name, a->n, "addresses");
    s->addresses.n_names = s->addresses.n_at = s->bad ? 0 : a->n;
    s->addresses.at = s->at;
    if (a->n == 0) s->bad = "addresses";
    for (size_t i = 0; i < s->addresses.n_at; i++) {
        s->at[i] = message_encode_text(s, a->at[i], "addresses");
        if (!qr_ip_port_ok(a->at[i])) s->bad = "addresses";
    }
}

enum qr_code qr_message_encode(const struct qr_message *m, struct qr_buf *ret, struct qr_err *err) {
    struct message_encode_scratch s __attribute__((uninitialized));
    s.bad = NULL;
    Qring__Message out;
    qring__message__init(&out);
    out.body_case = (Qring__Message__BodyCase)m->kind;
    out.hello = &s.hello; /* all kinds share the union's address */
    switch (m->kind) {
    case QR_MESSAGE_HELLO: message_encode_hello(&s, &m->hello); break;
    case QR_MESSAGE_HEARTBEAT: message_encode_heartbeat(&s, &m->heartbeat); break;
    case QR_MESSAGE_PROMISE: message_encode_promise(&s, &m->promise); break;
    case QR_MESSAGE_BEGIN: message_encode_begin(&s, &m->begin); break;
    case QR_MESSAGE_ADDRESSES: message_encode_addresses(&s, &m->addresses); break;
    case QR_MESSAGE_FIELD:
        qring__field_text__init(&s.field_text);
        s.field_text.name = message_encode_text(&s, m->field.name, "name of a field");
        s.field_text.value = message_encode_text(&s, m->field.value, "value of a field");
        s.field_text.absent = m->field.absent;
        break;
    case QR_MESSAGE_PROPOSE:
        qring__propose__init(&s.propose);
        s.propose.id = message_encode_id(&s, 0, &m->propose.id);
        s.propose.n_members = m->propose.n_members;
        s.propose.members =
            message_encode_names(&s, m->propose.member, m->propose.n_members, "members");
        break;
    case QR_MESSAGE_BUSY:
        qring__busy__init(&s.busy);
        s.busy.id = message_encode_id(&s, 0, &m->busy.id);
        s.busy.highest_number = m->busy.highest_number;
        s.busy.why = message_encode_text(&s, m->busy.why, "why");
        break;
    case QR_MESSAGE_DONE:
        qring__done__init(&s.done);
        s.done.code = m->done.code;
        s.done.text = message_encode_text(&s, m->done.text, "text");
        break;
    case QR_MESSAGE_GOODBYE:
        qring__goodbye__init(&s.goodbye);
        s.goodbye.why = m->goodbye.why;
        s.goodbye.code = m->goodbye.code;
        s.goodbye.text = message_encode_text(&s, m->goodbye.text, "text");
        break;
    default: return qr_fail(err, QR_INVALID_ARGUMENT, "unknown message kind %d", (int)m->kind);
    }
    if (s.bad)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s message: %s: out of range",
                       qr_message_kind_name(m->kind), s.bad);
    size_t n = qring__message__get_packed_size(&out);
    if (n > QR_MESSAGE_MAX_BYTES)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s message of %zu bytes exceeds the limit of %d",
                       qr_message_kind_name(m->kind), n, QR_MESSAGE_MAX_BYTES);
    uint8_t *p = qr_buf_grow(ret, n);
    if (p == NULL)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s message of %zu bytes: the buffer is full",
                       qr_message_kind_name(m->kind), n);
    qring__message__pack(&out, p);
    return QR_OK;
}
