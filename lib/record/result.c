/* record/result.c — result.json and lines of steps.jsonl. Start reading at qr_result_json(). */
#include "record/result.h"

#include "format/json.h"

static void result_put_values(struct qr_json_writer *w, const struct qr_named_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        qr_json_put_key(w, v[i].name);
        qr_json_put_double(w, v[i].value);
    }
}
void qr_named_values_json(struct qr_json_writer *w, const char *key, const struct qr_named_value *v,
                          size_t n) {
    qr_json_put_key(w, key);
    qr_json_open(w, '{');
    result_put_values(w, v, n);
    qr_json_close(w, '}');
}
static void result_put_string(struct qr_json_writer *w, const char *key, const char *s) {
    qr_json_put_key(w, key);
    if (s) qr_json_put_string(w, s);
    else qr_json_put_null(w);
}
static void result_put_u64(struct qr_json_writer *w, const char *key, uint64_t v) {
    qr_json_put_key(w, key);
    qr_json_put_i64(w, (int64_t)v);
}
static void result_put_double(struct qr_json_writer *w, const char *key, double v) {
    qr_json_put_key(w, key);
    qr_json_put_double(w, v);
}

static void result_put_confusion(struct qr_json_writer *w, const char *key, const uint64_t *counts,
                                 size_t n) {
    if (!counts) return;
    qr_json_put_key(w, key);
    qr_json_open(w, '[');
    for (size_t i = 0; i < n * n; i++) {
        if (i % n == 0) qr_json_open(w, '[');
        qr_json_put_i64(w, (int64_t)counts[i]);
        if (i % n == n - 1) qr_json_close(w, ']');
    }
    qr_json_close(w, ']');
}

static void result_put_early_stopping(struct qr_json_writer *w, const struct qr_result *r) {
    qr_json_put_key(w, "early_stopping");
    qr_json_open(w, '{');
    result_put_string(w, "monitor", r->monitor);
    result_put_u64(w, "best_epoch", r->best_epoch);
    qr_json_put_key(w, "best");
    if (r->best_epoch) qr_json_put_double(w, r->best);
    else qr_json_put_null(w);
    qr_json_put_key(w, "restored");
    qr_json_put_bool(w, r->restored);
    qr_json_close(w, '}');
}

void qr_result_json(const struct qr_result *r, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 2);
    qr_json_open(&w, '{');
    result_put_string(&w, "job", r->job);
    result_put_string(&w, "job_hash", r->job_hash);
    result_put_u64(&w, "steps", r->steps);
    result_put_u64(&w, "epochs", r->epochs);
    if (r->monitor) result_put_early_stopping(&w, r);
    result_put_double(&w, "loss", r->loss);
    qr_json_put_key(&w, "val_loss");
    if (r->has_val_loss) qr_json_put_double(&w, r->val_loss);
    else qr_json_put_null(&w);
    qr_named_values_json(&w, "metrics", r->metrics, r->n_metrics);
    result_put_confusion(&w, "confusion_matrix", r->confusion, r->n_classes);
    result_put_confusion(&w, "val_confusion_matrix", r->val_confusion, r->n_classes);
    result_put_string(&w, "state_digest", r->state_digest);
    qr_json_put_key(&w, "weights");
    qr_json_open(&w, '{');
    result_put_string(&w, "url", r->weights_url);
    result_put_string(&w, "sha256", r->weights_sha256);
    result_put_string(&w, "safetensors_sha256", r->safetensors_sha256);
    qr_json_close(&w, '}');
    result_put_u64(&w, "workers", r->workers);
    result_put_double(&w, "seconds", r->seconds);
    if (r->cost) {
        qr_json_put_key(&w, "cost");
        qr_json_open(&w, '{');
        r->cost(r->cost_ctx, &w);
        qr_json_close(&w, '}');
    }
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}

void qr_step_json(const struct qr_step_line *l, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    qr_json_open(&w, '{');
    result_put_u64(&w, "step", l->step);
    result_put_u64(&w, "epoch", l->epoch);
    result_put_string(&w, "kind", l->eval ? "EVAL" : "TRAIN");
    result_put_u64(&w, "samples", l->samples);
    result_put_double(&w, "loss", l->loss);
    qr_json_put_key(&w, "metrics");
    qr_json_open(&w, '{');
    result_put_values(&w, l->metrics, l->n_metrics);
    result_put_values(&w, l->logged, l->n_logged);
    qr_json_close(&w, '}');
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}
