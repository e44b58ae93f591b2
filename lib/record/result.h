/* record/result.h — writes result.json and the lines of steps.jsonl.
 *
 * Threads   any; pure functions. All pointers are borrowed for the call.
 */
#ifndef QR_RECORD_RESULT_H
#define QR_RECORD_RESULT_H

#include <stdbool.h>

#include "base/bytes.h"

struct qr_named_value {
    const char *name;
    double value;
};
struct qr_json_writer;
/* Writes "key":{"name":value,…} into the object that w has open. */
void qr_named_values_json(struct qr_json_writer *w, const char *key, const struct qr_named_value *v,
                          size_t n);

struct qr_result {
    const char *job, *job_hash; /* hash: hex */
    uint64_t steps, epochs;
    /* Early stopping: the monitored metric, or NULL; best_epoch 0: none yet. restored: the weights
     * and all values are those of the best epoch */
    const char *monitor;
    uint64_t best_epoch;
    double best;
    bool restored;
    double loss;
    bool has_val_loss;
    double val_loss;
    /* Validation metrics have the prefix "val_" */
    const struct qr_named_value *metrics;
    size_t n_metrics;
    /* Confusion matrices, row-major [label, prediction], n_classes by n_classes; NULL: none */
    size_t n_classes;
    const uint64_t *confusion, *val_confusion;
    const char *state_digest; /* hex */
    /* SHA-256 of the samples, name of the arithmetic contract, version of the program, chain of the
     * last line of steps.jsonl (chain.h; "": none) */
    const char *data_hash, *arithmetic, *program, *chain;
    const char *weights_url, *weights_sha256, *safetensors_sha256; /* of the files' bytes; hex */
    uint32_t workers;
    double seconds;
    /* Writes the members of the object "cost"; NULL: no such object */
    void (*cost)(const void *ctx, struct qr_json_writer *w);
    const void *cost_ctx;
};
/* Appends result.json. */
void qr_result_json(const struct qr_result *r, struct qr_buf *ret);

/* One line of steps.jsonl: a committed training step or evaluation. */
struct qr_step_line {
    uint64_t step, epoch; /* from 1; of an evaluation: the step of the evaluated state */
    bool eval;
    uint64_t samples;
    double loss;
    const struct qr_named_value *metrics;
    size_t n_metrics;
    /* Values of the job's logged expressions, after the metrics; null when not finite */
    const struct qr_named_value *logged;
    size_t n_logged;
    /* Digest of the state after the line, and the line's chain (chain.h), hex; "": not known */
    char state_digest[33], chain[65];
    struct qr_bytes text; /* what qr_step_json appends; empty: not made yet */
};
/* Histogram of read-outs: buckets of equal width over [-bound, bound]; the last bucket includes its
 * right edge. */
enum { QR_READOUT_BUCKETS = 30 };
/* Further values of a committed step, for TensorBoard. All borrowed for the call. */
struct qr_step_detail {
    const double *weights;  /* n_params, model order: of the state after the step */
    const double *gradient; /* n_params: the mean gradient before clipping; NULL for an EVAL */
    /* Histogram of all samples' read-outs at the weights before the step, QR_READOUT_BUCKETS
     * counts; NULL: none */
    const uint64_t *readouts;
    double readout_bound;
    double learning_rate; /* of the step after this one */
    uint64_t pod_ms;      /* members times milliseconds so far (train/pod_time.h) */
    double cost;          /* of pod_ms; 0: no price is set */
    /* The epoch's last line: its validation, or its last step without validation */
    bool ends_epoch;
    /* Keras' running means of the epoch: loss, then metrics in job order */
    const struct qr_named_value *running;
    size_t n_running;
    /* The lines just before, oldest first: another process reported them, and may have exited
     * before it wrote them */
    const struct qr_step_line *before;
    size_t n_before;
};
/* Appends {"step":1,"epoch":1,"kind":"TRAIN","samples":64,"loss":…,"metrics":{"accuracy":…},
 * "state_digest":"…","chain":"…"}\n */
void qr_step_json(const struct qr_step_line *l, struct qr_buf *ret);

#endif
