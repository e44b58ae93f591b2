/* format/event.h — encodes TensorBoard's events (proto/tensorboard.proto). tfrecord.h frames them
 * in files.
 *
 * What      An event is the first of a file (version and writer), the start of a session, a graph
 *           (a GraphDef's bytes, not parsed), or a list of tagged tensors at one step. The tensor
 *           of plugin "scalars" is one float32 (rank 0); that of "histograms" has rows of (left,
 *           right, count) in float64 (rank 2); that of "hparams" is empty, its data is in the
 *           plugin's content.
 * Encoding  appends to a buffer and allocates nothing else; it borrows its arguments.
 * Threads   any; pure functions.
 * Source    TensorFlow's event.proto, summary.proto, tensor.proto; TensorBoard's
 *           hparams plugin.proto.
 */
#ifndef QR_FORMAT_EVENT_H
#define QR_FORMAT_EVENT_H

#include "base/bytes.h"

enum { QR_EVENT_MAX_VALUES = 32, QR_EVENT_MAX_RANK = 2 };
enum qr_event_dtype { QR_EVENT_FLOAT = 1, QR_EVENT_DOUBLE = 2 };
enum qr_event_class { QR_EVENT_CLASS_NONE, QR_EVENT_CLASS_SCALAR, QR_EVENT_CLASS_TENSOR };

struct qr_event_value {
    const char *tag, *plugin;
    struct qr_bytes content; /* in the plugin's own format */
    enum qr_event_class data_class;
    enum qr_event_dtype dtype;
    unsigned rank;
    size_t dims[QR_EVENT_MAX_RANK];
    struct qr_bytes tensor; /* little-endian; product of dims times the type's size */
};
struct qr_event {
    double wall_time; /* seconds since 1970 */
    int64_t step;
    const char *file_version, *writer; /* NULL: absent */
    bool session_start;                /* readers discard the run's values from this step on */
    struct qr_bytes graph;             /* empty: none */
    size_t n_values;                   /* 0 if one of the three fields above is set */
    const struct qr_event_value *values;
};

/* Appends the event to ret. At most QR_EVENT_MAX_VALUES values. */
void qr_event_encode(const struct qr_event *e, struct qr_buf *ret);

/* The content of plugin "hparams": one hyperparameter, one metric. */
struct qr_hparam {
    const char *name, *text; /* text NULL: the value is number */
    double number;
};
struct qr_hparam_metric {
    const char *group, *tag; /* group: the run's directory below the session's; "" for the same */
    bool validation;
};
enum { QR_HPARAMS_MAX = 32 };
/* Append the content of the experiment (names and types of hyperparameters and metrics), of a
 * session start (values, group of repetitions, time since 1970) and of a session end. */
void qr_hparams_experiment(const struct qr_hparam *h, size_t n, const struct qr_hparam_metric *m,
                           size_t n_metrics, struct qr_buf *ret);
void qr_hparams_start(const struct qr_hparam *h, size_t n, const char *group, double seconds,
                      struct qr_buf *ret);
void qr_hparams_end(bool success, double seconds, struct qr_buf *ret);

#endif
