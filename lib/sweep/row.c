/* sweep/row.c — reads and writes rows, and ranks trials. Start reading at qr_sweep_row_read() and
 * qr_sweep_rung_trials(). */
#include "sweep/row.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

static const double largest = 1.7976931348623157e308;
static const int64_t max_count = INT64_C(1) << 53;

void qr_sweep_row_fini(struct qr_sweep_row *r) {
    free(r->error);
    *r = (struct qr_sweep_row){0};
}

bool qr_sweep_row_metric(const struct qr_sweep_row *r, const char *name, double *ret) {
    for (size_t i = 0; i < r->n_metrics; i++) {
        if (strcmp(r->metrics[i].name, name) != 0) continue;
        *ret = r->metrics[i].value;
        return true;
    }
    return false;
}

/* ---- reading ---- */

static enum qr_code row_read_hex(const struct qr_json *o, const char *key, char *ret, size_t digits,
                                 struct qr_err *err) {
    const char *s;
    QR_TRY(qr_json_string(qr_json_get(o, key), key, &s, err));
    if (!qr_is_hex(s, digits))
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must have %zu digits 0-9, a-f", key, digits);
    memcpy(ret, s, digits + 1);
    return QR_OK;
}

static enum qr_code row_read_count(const struct qr_json *o, const char *key, uint64_t *ret,
                                   struct qr_err *err) {
    int64_t v;
    QR_TRY(qr_json_i64(qr_json_get(o, key), key, 0, max_count, &v, err));
    *ret = (uint64_t)v;
    return QR_OK;
}

static enum qr_code add_metric(struct qr_sweep_row *r, const char *name, const struct qr_json *v,
                               struct qr_err *err) {
    struct qr_sweep_metric *m = &r->metrics[r->n_metrics];
    double unused;
    if (qr_json_type(v) == QR_JSON_NULL) return QR_OK; /* no value */
    if (r->n_metrics == QR_SWEEP_MAX_METRICS || strlen(name) >= sizeof m->name ||
        qr_sweep_row_metric(r, name, &unused))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "metrics: '%.48s' is duplicate, too long, or too many", name);
    QR_TRY(qr_json_double(v, name, -largest, largest, &m->value, err));
    snprintf(m->name, sizeof m->name, "%s", name);
    r->n_metrics++;
    return QR_OK;
}

static enum qr_code row_read_metrics(const struct qr_json *o, struct qr_sweep_row *r,
                                     struct qr_err *err) {
    QR_TRY(qr_json_want(o, "metrics", QR_JSON_OBJECT, err));
    for (const struct qr_json *m = qr_json_first(o); m; m = qr_json_next(m))
        QR_TRY(add_metric(r, qr_json_key(m), m, err));
    return QR_OK;
}

/* Reads the keys that result.json and a row share. */
static enum qr_code read_outcome(const struct qr_json *o, struct qr_sweep_row *r,
                                 struct qr_err *err) {
    const struct qr_json *weights = qr_json_get(o, "weights");
    QR_TRY(row_read_count(o, "steps", &r->steps, err));
    QR_TRY(row_read_count(o, "epochs", &r->epochs, err));
    QR_TRY(row_read_hex(o, "job_hash", r->job_hash, 64, err));
    QR_TRY(row_read_hex(o, "state_digest", r->state_digest, 32, err));
    QR_TRY(qr_json_want(weights, "weights", QR_JSON_OBJECT, err));
    QR_TRY(row_read_hex(weights, "sha256", r->weights_sha256, 64, err));
    return row_read_hex(weights, "safetensors_sha256", r->safetensors_sha256, 64, err);
}

static enum qr_code read_result(struct qr_bytes text, const char *what, struct qr_sweep_row *r,
                                struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *o = NULL;
    QR_TRY(qr_json_parse(text, what, &o, err));
    QR_TRY(qr_json_want(o, "the result", QR_JSON_OBJECT, err));
    QR_TRY(read_outcome(o, r, err));
    const struct qr_json *loss = qr_json_get(o, "loss"), *val = qr_json_get(o, "val_loss");
    if (loss) QR_TRY(add_metric(r, "loss", loss, err));
    if (val) QR_TRY(add_metric(r, "val_loss", val, err));
    return row_read_metrics(qr_json_get(o, "metrics"), r, err);
}

enum qr_code qr_sweep_row_of_result(struct qr_bytes text, const char *what, size_t trial,
                                    size_t rung, struct qr_sweep_row *ret, struct qr_err *err) {
    struct qr_sweep_row r = {.there = true, .trial = trial, .rung = rung};
    if (read_result(text, what, &r, err) != QR_OK)
        return qr_fail(err, QR_DATA_LOSS, "%s is not the result of a run: %.400s", what, err->msg);
    *ret = r;
    return QR_OK;
}

static enum qr_code parse_row(struct qr_bytes text, const char *what, struct qr_sweep_row *r,
                              struct qr_err *err) {
    static const char *const keys[] = {"trial",  "rung",     "failed",       "error",   "steps",
                                       "epochs", "job_hash", "state_digest", "weights", "metrics"};
    qr_auto(qr_json_free_p) struct qr_json *o = NULL;
    const char *error = NULL;
    uint64_t trial, rung;
    QR_TRY(qr_json_parse(text, what, &o, err));
    QR_TRY(qr_json_want(o, what, QR_JSON_OBJECT, err));
    QR_TRY(qr_json_known(o, what, keys, 10, err));
    QR_TRY(row_read_count(o, "trial", &trial, err));
    QR_TRY(row_read_count(o, "rung", &rung, err));
    QR_TRY(qr_json_bool(qr_json_get(o, "failed"), "failed", &r->failed, err));
    if (r->failed) {
        QR_TRY(qr_json_string(qr_json_get(o, "error"), "error", &error, err));
        if (qr_json_get(o, "job_hash")) QR_TRY(row_read_hex(o, "job_hash", r->job_hash, 64, err));
    } else {
        QR_TRY(read_outcome(o, r, err));
        QR_TRY(row_read_metrics(qr_json_get(o, "metrics"), r, err));
    }
    if (trial >= QR_SWEEP_MAX_TRIALS || rung >= QR_SWEEP_MAX_RUNGS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "trial %llu or rung %llu is out of range",
                       (unsigned long long)trial, (unsigned long long)rung);
    r->trial = (size_t)trial;
    r->rung = (size_t)rung;
    r->error = error ? qr_xstrdup(error) : NULL;
    return QR_OK;
}

enum qr_code qr_sweep_row_read(struct qr_bytes text, const char *what, struct qr_sweep_row *ret,
                               struct qr_err *err) {
    struct qr_sweep_row r = {.there = true};
    if (parse_row(text, what, &r, err) != QR_OK) return qr_wrap(err, "%s", what);
    *ret = r;
    return QR_OK;
}

/* ---- writing ---- */

void qr_sweep_row_put_metrics(const struct qr_sweep_row *r, struct qr_json_writer *w) {
    qr_json_key_open(w, "metrics", '{');
    for (size_t i = 0; i < r->n_metrics; i++)
        qr_json_key_number(w, r->metrics[i].name, r->metrics[i].value);
    qr_json_close(w, '}');
}

static void put_outcome(struct qr_json_writer *w, const struct qr_sweep_row *r) {
    if (r->failed) {
        if (*r->job_hash) qr_json_key_string(w, "job_hash", r->job_hash);
        qr_json_key_string(w, "error", r->error);
        return;
    }
    qr_json_key_i64(w, "steps", (int64_t)r->steps);
    qr_json_key_i64(w, "epochs", (int64_t)r->epochs);
    qr_json_key_string(w, "job_hash", r->job_hash);
    qr_json_key_string(w, "state_digest", r->state_digest);
    qr_json_key_open(w, "weights", '{');
    qr_json_key_string(w, "sha256", r->weights_sha256);
    qr_json_key_string(w, "safetensors_sha256", r->safetensors_sha256);
    qr_json_close(w, '}');
    qr_sweep_row_put_metrics(r, w);
}

void qr_sweep_row_json(const struct qr_sweep_row *r, struct qr_buf *ret) {
    struct qr_json_writer w = qr_json_writer(ret, 0);
    qr_json_open(&w, '{');
    qr_json_key_i64(&w, "trial", (int64_t)r->trial);
    qr_json_key_i64(&w, "rung", (int64_t)r->rung);
    qr_json_key_bool(&w, "failed", r->failed);
    put_outcome(&w, r);
    qr_json_close(&w, '}');
    qr_buf_puts(ret, "\n");
}

/* ---- all rows ---- */

void qr_sweep_rows_init(struct qr_sweep_rows *rows, const struct qr_sweep_spec *s, uint64_t seed) {
    *rows = (struct qr_sweep_rows){.sweep = s, .seed = seed};
    rows->row = qr_xcalloc(s->n_trials * s->n_rungs, sizeof *rows->row);
}

void qr_sweep_rows_fini(struct qr_sweep_rows *rows) {
    for (size_t i = 0; rows->row && i < rows->sweep->n_trials * rows->sweep->n_rungs; i++)
        qr_sweep_row_fini(&rows->row[i]);
    free(rows->row);
    *rows = (struct qr_sweep_rows){0};
}

struct qr_sweep_row *qr_sweep_row_at(const struct qr_sweep_rows *rows, size_t rung, size_t trial) {
    return &rows->row[rung * rows->sweep->n_trials + trial];
}

/* True when trial a ranks before b in a rung. */
static bool row_before(const struct qr_sweep_rows *rows, size_t rung, size_t a, size_t b) {
    double x = 0, y = 0;
    bool has_x = qr_sweep_row_metric(qr_sweep_row_at(rows, rung, a), rows->metric, &x),
         has_y = qr_sweep_row_metric(qr_sweep_row_at(rows, rung, b), rows->metric, &y);
    if (has_x != has_y) return has_x;
    if (has_x && x != y) return rows->maximize ? x > y : x < y;
    return a < b;
}

static void sort_trials(const struct qr_sweep_rows *rows, size_t rung, size_t *trial, size_t n) {
    for (size_t i = 1; i < n; i++) {
        size_t t = trial[i], k = i;
        for (; k > 0 && row_before(rows, rung, t, trial[k - 1]); k--) trial[k] = trial[k - 1];
        trial[k] = t;
    }
}

/* Sorts the trials, and returns the number of those with the metric, which come first. */
static size_t rank_trials(const struct qr_sweep_rows *rows, size_t rung, size_t *trial, size_t n) {
    double unused;
    size_t good = 0;
    sort_trials(rows, rung, trial, n);
    while (good < n &&
           qr_sweep_row_metric(qr_sweep_row_at(rows, rung, trial[good]), rows->metric, &unused))
        good++;
    return good;
}

static void sort_by_number(size_t *trial, size_t n) {
    for (size_t i = 1; i < n; i++)
        for (size_t k = i; k > 0 && trial[k - 1] > trial[k]; k--) {
            size_t t = trial[k];
            trial[k] = trial[k - 1];
            trial[k - 1] = t;
        }
}

size_t qr_sweep_rung_trials(const struct qr_sweep_rows *rows, size_t rung, size_t *ret) {
    size_t n = rows->sweep->n_trials;
    for (size_t i = 0; i < n; i++) ret[i] = i;
    for (size_t r = 0; r < rung; r++) {
        size_t kept = qr_sweep_promoted(rows->sweep, n), good = rank_trials(rows, r, ret, n);
        n = kept < good ? kept : good;
        sort_by_number(ret, n);
    }
    return n;
}

bool qr_sweep_complete(const struct qr_sweep_rows *rows) {
    qr_auto(qr_free_p) size_t *trial = qr_xcalloc(rows->sweep->n_trials, sizeof *trial);
    for (size_t r = 0; r < rows->sweep->n_rungs; r++) {
        size_t n = qr_sweep_rung_trials(rows, r, trial);
        for (size_t i = 0; i < n; i++)
            if (!qr_sweep_row_at(rows, r, trial[i])->there) return false;
    }
    return true;
}

const struct qr_sweep_row *qr_sweep_last_row(const struct qr_sweep_rows *rows, size_t trial,
                                             const char **ret_status) {
    size_t r = rows->sweep->n_rungs;
    while (r > 1 && !qr_sweep_row_at(rows, r - 1, trial)->there) r--;
    const struct qr_sweep_row *row = qr_sweep_row_at(rows, r - 1, trial);
    *ret_status = !row->there                 ? "missing"
                  : row->failed               ? "failed"
                  : r == rows->sweep->n_rungs ? "done"
                                              : "stopped";
    return row;
}

size_t qr_sweep_best(const struct qr_sweep_rows *rows, size_t *ret) {
    size_t last = rows->sweep->n_rungs - 1, n = qr_sweep_rung_trials(rows, last, ret);
    return rank_trials(rows, last, ret, n);
}
