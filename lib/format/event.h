/* format/event.h — TensorBoard's events as plain structs and as bytes (proto/tensorboard.proto).
 * tfrecord.h frames them in files.
 *
 * What      an event is the first of a file (version and writer), a start of a session, a graph
 *           (a GraphDef's bytes, not looked into), or a list of tagged tensors at one step. The
 *           tensor of plugin "scalars" is one float32 (rank 0), that of "histograms" rows of (left,
 *           right, count) in float64 (rank 2), that of "hparams" is empty: what it says is in the
 *           plugin's content.
 * Encode    appends to a buffer; allocates nothing else.
 * Decode    of any bytes: bounded memory; every tensor's bytes are checked against its type and
 *           shape, texts are taken as they stand (no UTF-8 check). Values of other kinds are passed
 *           over. DATA_LOSS says what is wrong.
 * Ownership a decoded event owns what it points to until qr_event_free. Encoding borrows.
 * Source    TensorFlow's event.proto, summary.proto, tensor.proto; TensorBoard's
 *           hparams plugin.proto.
 */
#ifndef QR_FORMAT_EVENT_H
#define QR_FORMAT_EVENT_H

#include "base/bytes.h"

enum { QR_EVENT_MAX_VALUES = 32, QR_EVENT_MAX_RANK = 2, QR_EVENT_MAX_BYTES = 1 << 20 };
enum qr_event_dtype { QR_EVENT_FLOAT = 1, QR_EVENT_DOUBLE = 2 };
enum qr_event_class { QR_EVENT_CLASS_NONE, QR_EVENT_CLASS_SCALAR, QR_EVENT_CLASS_TENSOR };

struct qr_event_value {
    const char *tag, *plugin;
    struct qr_bytes content; /* the plugin's own */
    enum qr_event_class data_class;
    enum qr_event_dtype dtype;
    unsigned rank;
    size_t dims[QR_EVENT_MAX_RANK];
    struct qr_bytes tensor; /* little-endian, product of dims times the type's size */
};
struct qr_event {
    double wall_time; /* seconds since 1970 */
    int64_t step;
    const char *file_version, *writer; /* NULL: absent */
    bool session_start;                /* readers forget the run's values from this step on */
    struct qr_bytes graph;             /* empty: none */
    size_t n_values;                   /* with one of the three before: 0 */
    const struct qr_event_value *values;
    void *owned; /* decoded: what the pointers above point into */
};

void qr_event_encode(const struct qr_event *e, struct qr_buf *ret);
QR_MUST_CHECK enum qr_code qr_event_decode(struct qr_bytes bytes, struct qr_event *ret,
                                           struct qr_err *err);
void qr_event_free(struct qr_event *e); /* of a decoded event; leaves it empty */

/* The content of plugin "hparams". */
struct qr_hparam {
    const char *name, *text; /* text NULL: the number */
    double number;
};
struct qr_hparam_metric {
    const char *group, *tag; /* group: a run's folder below the session's, "" for that itself */
    bool validation;
};
enum { QR_HPARAMS_MAX = 32 };
void qr_hparams_experiment(const struct qr_hparam *h, size_t n, const struct qr_hparam_metric *m,
                           size_t n_metrics, struct qr_buf *ret);
void qr_hparams_start(const struct qr_hparam *h, size_t n, const char *group, double seconds,
                      struct qr_buf *ret);
void qr_hparams_end(bool success, double seconds, struct qr_buf *ret);

#endif
