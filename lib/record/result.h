/* record/result.h — result.json and steps.jsonl. */
#ifndef QR_RECORD_RESULT_H
#define QR_RECORD_RESULT_H

#include <stdbool.h>

#include "base/bytes.h"

struct qr_named_value {
    const char *name;
    double value;
};
struct qr_json_writer;
/* "key":{"name":value,…} in the object that w is in. */
void qr_named_values_json(struct qr_json_writer *w, const char *key, const struct qr_named_value *v,
                          size_t n);

struct qr_result {
    const char *job, *job_hash; /* hash: hex */
    uint64_t steps, epochs;
    /* early stopping's, or NULL; best_epoch 0: there is none yet. restored: the weights are that
     * epoch's, and so are all values */
    const char *monitor;
    uint64_t best_epoch;
    double best;
    bool restored;
    double loss;
    bool has_val_loss;
    double val_loss;
    /* validation ones with "val_" in front */
    const struct qr_named_value *metrics;
    size_t n_metrics;
    /* confusion matrices: so many rows, labels', of so many counts; NULL: there is none */
    size_t n_classes;
    const uint64_t *confusion, *val_confusion;
    const char *state_digest;                                      /* hex */
    const char *weights_url, *weights_sha256, *safetensors_sha256; /* of the files' bytes; hex */
    uint32_t workers;
    double seconds;
    /* puts what the run has cost into the object of "cost" */
    void (*cost)(const void *ctx, struct qr_json_writer *w);
    const void *cost_ctx;
};
void qr_result_json(const struct qr_result *r, struct qr_buf *ret);

/* One line per committed step. */
struct qr_step_line {
    uint64_t step, epoch; /* from 1; of an EVAL: the step of the state it evaluated */
    bool eval;
    uint64_t samples;
    double loss;
    const struct qr_named_value *metrics;
    size_t n_metrics;
    /* of the user's, by expressions: behind the metrics; one that is no finite number is null */
    const struct qr_named_value *logged;
    size_t n_logged;
};
/* Read-outs by value: buckets of equal width over [-bound, bound], the last one with its
 * right edge. */
enum { QR_READOUT_BUCKETS = 30 };
/* What else is known of a committed step. All borrowed for the length of the call. */
struct qr_step_detail {
    const double *weights;  /* n_params, model order: of the state after the step */
    const double *gradient; /* n_params: the mean gradient before clipping; NULL for an EVAL */
    /* QR_READOUT_BUCKETS counts of all samples' read-outs at the weights before the step;
     * NULL: none */
    const uint64_t *readouts;
    double readout_bound;
    double learning_rate; /* of the step after this one */
    uint64_t pod_ms;      /* members times time so far (train/pod_time.h) */
    double cost;          /* of that, for TensorBoard; 0: no price is set */
    /* the epoch's last line: its validation, or its last step where there is none */
    bool ends_epoch;
    /* Keras' running means of the epoch: loss, metrics in job order */
    const struct qr_named_value *running;
    size_t n_running;
    /* the lines just before, oldest first: another process reported them, and may have been
     * cut off */
    const struct qr_step_line *before;
    size_t n_before;
};
/* {"step":1,"epoch":1,"kind":"TRAIN","samples":64,"loss":…,"metrics":{"accuracy":…}}\n */
void qr_step_json(const struct qr_step_line *l, struct qr_buf *ret);

#endif
