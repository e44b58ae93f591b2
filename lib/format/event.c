/* format/event.c — encodes and decodes TensorBoard's events, and encodes the hparams plugin's
 * content. Start reading at qr_event_encode(). */
#include "format/event.h"

#include <string.h>

#include "base/mem.h"
#include "base/protobuf.h"
#include "tensorboard.pb-c.h"

/* ---- encode: protobuf-c's structs on the stack point into the caller's (protobuf-c's pointers are
 * not const, but packing only reads) ---- */

static char *event_text(const char *s) {
    union {
        const char *in;
        char *out;
    } u = {.in = s ? s : ""};
    return u.out;
}
static ProtobufCBinaryData event_data(struct qr_bytes b) {
    union {
        const uint8_t *in;
        uint8_t *out;
    } u = {.in = b.p};
    return (ProtobufCBinaryData){.len = b.n, .data = u.out};
}

struct value_scratch {
    Qring__Tensorboard__Value value;
    Qring__Tensorboard__Metadata metadata;
    Qring__Tensorboard__Plugin plugin;
    Qring__Tensorboard__Tensor tensor;
    Qring__Tensorboard__Shape shape;
    Qring__Tensorboard__Dim dim[QR_EVENT_MAX_RANK], *dims[QR_EVENT_MAX_RANK];
};

static void event_encode_value(struct value_scratch *s, const struct qr_event_value *v) {
    qring__tensorboard__value__init(&s->value);
    qring__tensorboard__metadata__init(&s->metadata);
    qring__tensorboard__plugin__init(&s->plugin);
    qring__tensorboard__tensor__init(&s->tensor);
    qring__tensorboard__shape__init(&s->shape);
    s->value.tag = event_text(v->tag);
    s->value.tensor = &s->tensor;
    s->value.metadata = &s->metadata;
    s->metadata.plugin_data = &s->plugin;
    s->metadata.data_class = (uint32_t)v->data_class;
    s->plugin.plugin_name = event_text(v->plugin);
    s->plugin.content = event_data(v->content);
    s->tensor.dtype = (uint32_t)v->dtype;
    s->tensor.tensor_shape = &s->shape;
    s->tensor.tensor_content = event_data(v->tensor);
    QR_ASSERT(v->rank <= QR_EVENT_MAX_RANK);
    for (unsigned i = 0; i < v->rank; i++) {
        qring__tensorboard__dim__init(&s->dim[i]);
        s->dim[i].size = (int64_t)v->dims[i];
        s->dims[i] = &s->dim[i];
    }
    s->shape.n_dim = v->rank;
    s->shape.dim = s->dims;
}

void qr_event_encode(const struct qr_event *e, struct qr_buf *ret) {
    struct value_scratch scratch[QR_EVENT_MAX_VALUES] __attribute__((uninitialized));
    Qring__Tensorboard__Value *values[QR_EVENT_MAX_VALUES] __attribute__((uninitialized));
    Qring__Tensorboard__Event out = QRING__TENSORBOARD__EVENT__INIT;
    Qring__Tensorboard__SourceMetadata source;
    Qring__Tensorboard__SessionLog session = QRING__TENSORBOARD__SESSION_LOG__INIT;
    Qring__Tensorboard__Summary summary = QRING__TENSORBOARD__SUMMARY__INIT;
    QR_ASSERT(e->n_values <= QR_EVENT_MAX_VALUES);
    out.wall_time = e->wall_time;
    out.step = e->step;
    if (e->writer) {
        qring__tensorboard__source_metadata__init(&source);
        source.writer = event_text(e->writer);
        out.source_metadata = &source;
    }
    if (e->file_version) {
        out.what_case = QRING__TENSORBOARD__EVENT__WHAT_FILE_VERSION;
        out.file_version = event_text(e->file_version);
    } else if (e->session_start) {
        session.status = 1;
        out.what_case = QRING__TENSORBOARD__EVENT__WHAT_SESSION_LOG;
        out.session_log = &session;
    } else if (e->graph.n) {
        out.what_case = QRING__TENSORBOARD__EVENT__WHAT_GRAPH_DEF;
        out.graph_def = event_data(e->graph);
    } else {
        for (size_t i = 0; i < e->n_values; i++) {
            event_encode_value(&scratch[i], &e->values[i]);
            values[i] = &scratch[i].value;
        }
        summary.n_value = e->n_values;
        summary.value = values;
        out.what_case = QRING__TENSORBOARD__EVENT__WHAT_SUMMARY;
        out.summary = &summary;
    }
    uint8_t *p = qr_buf_grow(ret, qring__tensorboard__event__get_packed_size(&out));
    if (p) qring__tensorboard__event__pack(&out, p);
}

/* ---- the plugin "hparams", messages of TensorBoard's plugin_data.proto and api.proto ---- */

enum { DATA_EXPERIMENT = 2, DATA_SESSION_START = 3, DATA_SESSION_END = 4 };

void qr_hparams_experiment(const struct qr_hparam *h, size_t n, const struct qr_hparam_metric *m,
                           size_t n_metrics, struct qr_buf *ret) {
    qr_auto(qr_buf_free) struct qr_buf experiment = {0}, info = {0}, name = {0};
    enum { STRING = 1, FLOAT64 = 3, TRAINING = 1, VALIDATION = 2 };
    for (size_t i = 0; i < n; i++) {
        qr_protobuf_text(&info, 1, h[i].name);
        qr_protobuf_uint(&info, 4, h[i].text ? STRING : FLOAT64);
        qr_protobuf_part(&experiment, 4, &info);
    }
    for (size_t i = 0; i < n_metrics; i++) {
        if (*m[i].group) qr_protobuf_text(&name, 1, m[i].group);
        qr_protobuf_text(&name, 2, m[i].tag);
        qr_protobuf_part(&info, 1, &name);
        qr_protobuf_uint(&info, 5, m[i].validation ? VALIDATION : TRAINING);
        qr_protobuf_part(&experiment, 5, &info);
    }
    qr_protobuf_part(ret, DATA_EXPERIMENT, &experiment);
}

void qr_hparams_start(const struct qr_hparam *h, size_t n, const char *group, double seconds,
                      struct qr_buf *ret) {
    qr_auto(qr_buf_free) struct qr_buf start = {0}, entry = {0}, value = {0};
    for (size_t i = 0; i < n; i++) {
        if (h[i].text) qr_protobuf_text(&value, 3, h[i].text);
        else qr_protobuf_double(&value, 2, h[i].number);
        qr_protobuf_text(&entry, 1, h[i].name);
        qr_protobuf_part(&entry, 2, &value);
        qr_protobuf_part(&start, 1, &entry);
    }
    if (*group) qr_protobuf_text(&start, 4, group);
    qr_protobuf_double(&start, 5, seconds);
    qr_protobuf_part(ret, DATA_SESSION_START, &start);
}

void qr_hparams_end(bool success, double seconds, struct qr_buf *ret) {
    qr_auto(qr_buf_free) struct qr_buf end = {0};
    qr_protobuf_uint(&end, 1, success ? 1 : 2);
    qr_protobuf_double(&end, 2, seconds);
    qr_protobuf_part(ret, DATA_SESSION_END, &end);
}

/* ---- decode ---- */

/* protobuf-c keeps unknown fields and allocates many times their size. This arena bounds all its
 * allocations and is freed at once. */
struct event_arena {
    struct qr_event_value values[QR_EVENT_MAX_VALUES];
    size_t used, cap;
    _Alignas(16) uint8_t bytes[];
};
static void *event_arena_alloc(void *ctx, size_t n) {
    struct event_arena *a = ctx;
    n = (n + 15) & ~(size_t)15;
    if (n > a->cap - a->used) return NULL;
    void *p = a->bytes + a->used;
    a->used += n;
    return p;
}
static void event_arena_free(void *ctx, void *p) { (void)ctx, (void)p; }

static enum qr_code event_decode_tensor(const Qring__Tensorboard__Tensor *t,
                                        struct qr_event_value *v, struct qr_err *err) {
    if (t->dtype != QR_EVENT_FLOAT && t->dtype != QR_EVENT_DOUBLE)
        return qr_fail(err, QR_DATA_LOSS, "tensor of type %u", t->dtype);
    size_t n_dims = t->tensor_shape ? t->tensor_shape->n_dim : 0,
           n = t->dtype == QR_EVENT_FLOAT ? 4 : 8;
    if (n_dims > QR_EVENT_MAX_RANK) return qr_fail(err, QR_DATA_LOSS, "tensor of rank %zu", n_dims);
    v->dtype = (enum qr_event_dtype)t->dtype;
    v->rank = (unsigned)n_dims;
    for (size_t i = 0; i < n_dims; i++) {
        int64_t size = t->tensor_shape->dim[i]->size;
        if (size < 0 || size > QR_EVENT_MAX_BYTES)
            return qr_fail(err, QR_DATA_LOSS, "tensor with a dimension of %lld", (long long)size);
        v->dims[i] = (size_t)size;
        n *= (size_t)size; /* at most 8 * 2^40 */
    }
    if (n != t->tensor_content.len)
        return qr_fail(err, QR_DATA_LOSS, "tensor of %zu bytes, not %zu", t->tensor_content.len, n);
    v->tensor = qr_bytes_of(t->tensor_content.data, n);
    return QR_OK;
}

static enum qr_code event_decode_values(const Qring__Tensorboard__Summary *s, struct event_arena *a,
                                        struct qr_event *ret, struct qr_err *err) {
    if (s->n_value > QR_EVENT_MAX_VALUES)
        return qr_fail(err, QR_DATA_LOSS, "event: %zu values, above the limit of %d", s->n_value,
                       QR_EVENT_MAX_VALUES);
    for (size_t i = 0; i < s->n_value; i++) {
        const Qring__Tensorboard__Value *in = s->value[i];
        if (!in->tensor) continue;
        struct qr_event_value *v = &a->values[ret->n_values];
        *v = (struct qr_event_value){.tag = in->tag, .plugin = ""};
        if (in->metadata)
            v->data_class = in->metadata->data_class <= QR_EVENT_CLASS_TENSOR
                                ? (enum qr_event_class)in->metadata->data_class
                                : QR_EVENT_CLASS_NONE;
        if (in->metadata && in->metadata->plugin_data) {
            const Qring__Tensorboard__Plugin *p = in->metadata->plugin_data;
            v->plugin = p->plugin_name;
            v->content = qr_bytes_of(p->content.data, p->content.len);
        }
        if (event_decode_tensor(in->tensor, v, err) != QR_OK)
            return qr_wrap(err, "event: %.80s", in->tag);
        ret->n_values++;
    }
    ret->values = a->values;
    return QR_OK;
}

enum qr_code qr_event_decode(struct qr_bytes bytes, struct qr_event *ret, struct qr_err *err) {
    if (bytes.n > QR_EVENT_MAX_BYTES)
        return qr_fail(err, QR_DATA_LOSS, "event of %zu bytes, above the limit of %d", bytes.n,
                       QR_EVENT_MAX_BYTES);
    size_t cap = 16 * bytes.n + 4096;
    qr_auto(qr_free_p) struct event_arena *a = qr_xmalloc(sizeof *a + cap);
    a->used = 0;
    a->cap = cap;
    ProtobufCAllocator allocator = {
        .alloc = event_arena_alloc, .free = event_arena_free, .allocator_data = a};
    const Qring__Tensorboard__Event *in =
        qring__tensorboard__event__unpack(&allocator, bytes.n, bytes.p);
    struct qr_event e = {.owned = a};
    if (!in)
        return qr_fail(err, QR_DATA_LOSS,
                       "event of %zu bytes: not a protobuf message, or mostly unknown fields",
                       bytes.n);
    e.wall_time = in->wall_time;
    e.step = in->step;
    if (in->source_metadata) e.writer = in->source_metadata->writer;
    if (in->what_case == QRING__TENSORBOARD__EVENT__WHAT_FILE_VERSION)
        e.file_version = in->file_version;
    if (in->what_case == QRING__TENSORBOARD__EVENT__WHAT_SESSION_LOG)
        e.session_start = in->session_log->status == 1;
    if (in->what_case == QRING__TENSORBOARD__EVENT__WHAT_GRAPH_DEF)
        e.graph = qr_bytes_of(in->graph_def.data, in->graph_def.len);
    if (in->what_case == QRING__TENSORBOARD__EVENT__WHAT_SUMMARY)
        QR_TRY(event_decode_values(in->summary, a, &e, err));
    a = NULL; /* owned by e */
    *ret = e;
    return QR_OK;
}

void qr_event_free(struct qr_event *e) {
    free(e->owned);
    *e = (struct qr_event){0};
}
