/* record/result.c — result.json and lines of steps.jsonl. Start reading at qr_result_json(). */
#include "record/result.h"

#include <math.h>

#include "format/json.h"

static void result_put_values(struct qr_json_writer *w, const struct qr_named_value *v, size_t n) {
    for (size_t i = 0; i < n; i++) qr_json_key_double(w, v[i].name, v[i].value);
}
void qr_named_values_json(struct qr_json_writer *w, const char *key, const struct qr_named_value *v,
                          size_t n) {
    qr_json_key_open(w, key, '{');
    result_put_values(w, v, n);
    qr_json_close(w, '}');
}
static void result_put_confusion(struct qr_json_writer *w, const char *key, const uint64_t *counts,
                                 size_t n) {
    if (!counts) return;
    qr_json_key_open(w, key, '[');
    for (size_t i = 0; i < n * n; i++) {
        if (i % n == 0) qr_json_open(w, '[');
        qr_json_put_i64(w, (int64_t)counts[i]);
        if (i % n == n - 1) qr_json_close(w, ']');
    }
    qr_json_close(w, ']');
}

static void result_put_early_stopping(struct qr_json_writer *w, const struct qr_result *r) {
    qr_json_key_open(w, "early_stopping", '{');
    qr_json_key_string(w, "monitor", r->monitor);
    qr_json_key_i64(w, "best_epoch", (int64_t)r->best_epoch);
    qr_json_key_double(w, "best", r->best_epoch ? r->best : (double)NAN);
    qr_json_key_bool(w, "restored", r->restored);
    qr_json_close(w, '}');
}

void qr_result_json(const struct qr_result *r, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 2);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "job", r->job);
    qr_json_key_string(&w, "job_hash", r->job_hash);
    qr_json_key_string(&w, "data_hash", r->data_hash);
    qr_json_key_string(&w, "arithmetic", r->arithmetic);
    qr_json_key_string(&w, "program", r->program);
    qr_json_key_i64(&w, "steps", (int64_t)r->steps);
    qr_json_key_i64(&w, "epochs", (int64_t)r->epochs);
    if (r->monitor) result_put_early_stopping(&w, r);
    qr_json_key_double(&w, "loss", r->loss);
    qr_json_key_double(&w, "val_loss", r->has_val_loss ? r->val_loss : (double)NAN);
    qr_named_values_json(&w, "metrics", r->metrics, r->n_metrics);
    result_put_confusion(&w, "confusion_matrix", r->confusion, r->n_classes);
    result_put_confusion(&w, "val_confusion_matrix", r->val_confusion, r->n_classes);
    qr_json_key_string(&w, "state_digest", r->state_digest);
    if (*r->chain) qr_json_key_string(&w, "chain", r->chain);
    qr_json_key_open(&w, "weights", '{');
    qr_json_key_string(&w, "url", r->weights_url);
    qr_json_key_string(&w, "sha256", r->weights_sha256);
    qr_json_key_string(&w, "safetensors_sha256", r->safetensors_sha256);
    qr_json_close(&w, '}');
    qr_json_key_i64(&w, "workers", (int64_t)r->workers);
    qr_json_key_double(&w, "seconds", r->seconds);
    if (r->cost) {
        qr_json_key_open(&w, "cost", '{');
        r->cost(r->cost_ctx, &w);
        qr_json_close(&w, '}');
    }
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}

void qr_step_json(const struct qr_step_line *l, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    if (l->text.n) {
        qr_buf_put(ret, l->text.p, l->text.n);
        return;
    }
    qr_json_open(&w, '{');
    qr_json_key_i64(&w, "step", (int64_t)l->step);
    qr_json_key_i64(&w, "epoch", (int64_t)l->epoch);
    qr_json_key_string(&w, "kind", l->eval ? "EVAL" : "TRAIN");
    qr_json_key_i64(&w, "samples", (int64_t)l->samples);
    qr_json_key_double(&w, "loss", l->loss);
    qr_json_key_open(&w, "metrics", '{');
    result_put_values(&w, l->metrics, l->n_metrics);
    result_put_values(&w, l->logged, l->n_logged);
    qr_json_close(&w, '}');
    if (*l->state_digest) qr_json_key_string(&w, "state_digest", l->state_digest);
    if (*l->chain) qr_json_key_string(&w, "chain", l->chain);
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}
