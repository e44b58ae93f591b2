/* format/event.c — encodes TensorBoard's events and the hparams plugin's content. Start reading at
 * qr_event_encode(). */
#include "format/event.h"

#include <string.h>

#include "base/mem.h"
#include "base/protobuf.h"
#include "tensorboard.pb-c.h"

/* protobuf-c's structs on the stack point into the caller's (protobuf-c's pointers are not const,
 * but packing only reads). */

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
