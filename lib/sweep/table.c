/* sweep/table.c — writes sweep.csv and sweep.json. Start reading at qr_sweep_csv(). */
#include <string.h>

#include "base/mem.h"
#include "sweep/row.h"

/* The names of all metrics, in order of first appearance by trial number. */
struct metric_names {
    size_t n;
    const char **v;
};

static void collect_metric_names(const struct qr_sweep_rows *rows, struct metric_names *names) {
    const char *status;
    for (size_t t = 0; t < rows->sweep->n_trials; t++) {
        const struct qr_sweep_row *r = qr_sweep_last_row(rows, t, &status);
        for (size_t m = 0; m < r->n_metrics; m++) {
            size_t i = 0;
            while (i < names->n && strcmp(names->v[i], r->metrics[m].name) != 0) i++;
            if (i < names->n) continue;
            names->v = qr_xreallocarray(names->v, names->n + 1, sizeof *names->v);
            names->v[names->n++] = r->metrics[m].name;
        }
    }
}

/* ---- CSV (RFC 4180) ---- */

static void csv_put_cell(struct qr_buf *ret, const char *text) {
    bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted) qr_buf_puts(ret, "\"");
    for (const char *p = text; *p; p++) {
        if (*p == '"') qr_buf_puts(ret, "\"");
        qr_buf_put(ret, p, 1);
    }
    if (quoted) qr_buf_puts(ret, "\"");
}

/* Writes a string as its text, other values as JSON. */
static void csv_put_value(struct qr_buf *ret, const char *json) {
    qr_auto(qr_json_free_p) struct qr_json *v = NULL;
    bool known = qr_json_parse(qr_bytes_of_string(json), "value", &v, QR_IGNORED) == QR_OK;
    csv_put_cell(ret, known ? qr_json_text(v, json) : json);
}

static void put_csv_row(const struct qr_sweep_rows *rows, const struct metric_names *names,
                        size_t trial, struct qr_buf *ret) {
    const char *status;
    const struct qr_sweep_row *r = qr_sweep_last_row(rows, trial, &status);
    qr_auto(qr_buf_free) struct qr_buf value = {0};
    qr_buf_printf(ret, "%zu,%s,%llu,%llu", trial, status, (unsigned long long)r->epochs,
                  (unsigned long long)r->steps);
    for (size_t k = 0; k < rows->sweep->n_keys; k++) {
        qr_sweep_value(rows->sweep, rows->seed, trial, k, &value);
        qr_buf_puts(ret, ",");
        csv_put_value(ret, qr_buf_string(&value));
        qr_buf_clear(&value);
    }
    for (size_t m = 0; m < names->n; m++) {
        double x;
        qr_buf_puts(ret, ",");
        if (!qr_sweep_row_metric(r, names->v[m], &x)) continue;
        struct qr_json_writer w = qr_json_writer(&value, 0);
        qr_json_put_number(&w, x);
        qr_buf_puts(ret, qr_buf_string(&value));
        qr_buf_clear(&value);
    }
    qr_buf_printf(ret, ",%s,%s,", r->state_digest, r->job_hash);
    if (r->error) csv_put_cell(ret, r->error);
    qr_buf_puts(ret, "\n");
}

void qr_sweep_csv(const struct qr_sweep_rows *rows, struct qr_buf *ret) {
    struct metric_names names = {0};
    collect_metric_names(rows, &names);
    qr_buf_puts(ret, "trial,status,epochs,steps");
    for (size_t k = 0; k < rows->sweep->n_keys; k++) {
        qr_buf_puts(ret, ",");
        csv_put_cell(ret, rows->sweep->keys[k].path);
    }
    for (size_t m = 0; m < names.n; m++) {
        qr_buf_puts(ret, ",");
        csv_put_cell(ret, names.v[m]);
    }
    qr_buf_puts(ret, ",state_digest,job_hash,error\n");
    for (size_t t = 0; t < rows->sweep->n_trials; t++) put_csv_row(rows, &names, t, ret);
    free(names.v);
}

/* ---- JSON ---- */

static void put_set(const struct qr_sweep_rows *rows, size_t trial, struct qr_json_writer *w) {
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_json_key_open(w, "set", '{');
    for (size_t k = 0; k < rows->sweep->n_keys; k++) {
        qr_auto(qr_json_free_p) struct qr_json *v = NULL;
        qr_sweep_value(rows->sweep, rows->seed, trial, k, &text);
        if (qr_json_parse(qr_buf_view(&text), "value", &v, QR_IGNORED) == QR_OK) {
            qr_json_put_key(w, rows->sweep->keys[k].path);
            qr_json_put_shortest(w, v);
        }
        qr_buf_clear(&text);
    }
    qr_json_close(w, '}');
}

static void put_json_row(const struct qr_sweep_rows *rows, size_t trial, struct qr_json_writer *w) {
    const char *status;
    const struct qr_sweep_row *r = qr_sweep_last_row(rows, trial, &status);
    qr_json_open(w, '{');
    qr_json_key_i64(w, "trial", (int64_t)trial);
    qr_json_key_string(w, "status", status);
    put_set(rows, trial, w);
    qr_json_key_i64(w, "epochs", (int64_t)r->epochs);
    qr_json_key_i64(w, "steps", (int64_t)r->steps);
    if (*r->job_hash) qr_json_key_string(w, "job_hash", r->job_hash);
    if (r->failed) qr_json_key_string(w, "error", r->error);
    if (r->there && !r->failed) {
        qr_json_key_string(w, "state_digest", r->state_digest);
        qr_sweep_row_put_metrics(r, w);
    }
    qr_json_close(w, '}');
}

void qr_sweep_json(const struct qr_sweep_rows *rows, struct qr_buf *ret) {
    qr_auto(qr_free_p) size_t *best = qr_xcalloc(rows->sweep->n_trials, sizeof *best);
    struct qr_json_writer w = qr_json_writer(ret, 2);
    qr_json_open(&w, '{');
    qr_json_key_string(&w, "metric", rows->metric);
    qr_json_key_string(&w, "mode", rows->maximize ? "max" : "min");
    if (qr_sweep_best(rows, best)) qr_json_key_i64(&w, "best", (int64_t)best[0]);
    else qr_json_key_string(&w, "best", NULL);
    qr_json_key_open(&w, "trials", '[');
    for (size_t t = 0; t < rows->sweep->n_trials; t++) put_json_row(rows, t, &w);
    qr_json_close(&w, ']');
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}
