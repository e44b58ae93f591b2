/* job/log_spec.c — user-defined values: expressions in train.log, and observables in "watch" of
 * quantum layers. Start reading at qr_job_read_log() and qr_job_read_watched(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "base/parse.h"
#include "job/job_impl.h"

static const char *const own[QR_LOG_VALUES] = {[QR_LOG_STEP] = "step",
                                               [QR_LOG_EPOCH] = "epoch",
                                               [QR_LOG_SAMPLES] = "samples",
                                               [QR_LOG_LEARNING_RATE] = "learning_rate",
                                               [QR_LOG_GRADIENT_NORM] = "gradient_norm"};

/* Name of the i-th value of the model: loss, metrics, watched observables. NULL after the last. */
static const char *model_value_name(const struct qr_job *job, size_t i) {
    const struct qr_train_spec *t = &job->train;
    if (i == 0) return "loss";
    if (i <= t->n_metrics) return qr_metric_names[t->metrics[i - 1]];
    i -= 1 + t->n_metrics;
    for (size_t n = 0, l; (l = qr_job_quantum(job, n)) < job->n_layers; n++) {
        const struct qr_quantum_options *q = &job->layers[l].quantum;
        if (i < q->n_watched) return q->watched_names[i];
        i -= q->n_watched;
    }
    return NULL;
}

static bool value_at(const struct qr_job *job, const char *name, uint32_t *ret) {
    bool val = strncmp(name, "val_", 4) == 0;
    const char *value;
    for (uint32_t i = 0; i < QR_LOG_VALUES; i++)
        if (strcmp(own[i], name) == 0) return *ret = i, true;
    for (uint32_t i = 0; (value = model_value_name(job, i)) != NULL; i++)
        if (strcmp(value, val ? name + 4 : name) == 0)
            return *ret = (val ? QR_LOG_VAL_VALUES : QR_LOG_VALUES) + i, true;
    return false;
}

/* The names in one expression. */
struct log_names {
    const struct qr_job *job;
    bool used[QR_LOG_NAMES];
    char unknown[QR_EXPRESSION_NAME + 1]; /* the first unknown one */
};

static uint32_t note_name(void *context, const char *text, size_t n) {
    struct log_names *names = context;
    char name[QR_EXPRESSION_NAME + 1];
    uint32_t at = 0;
    snprintf(name, sizeof name, "%.*s", (int)n, text);
    if (value_at(names->job, name, &at)) names->used[at] = true;
    else if (!*names->unknown) memcpy(names->unknown, name, sizeof name);
    return at;
}

static enum qr_code unknown_name(const struct qr_job *job, const char *where, const char *name,
                                 struct qr_err *err) {
    const char *known[QR_LOG_NAMES], *near;
    size_t n = 0;
    qr_auto(qr_buf_free) struct qr_buf list = {0};
    for (; n < QR_LOG_VALUES; n++) known[n] = own[n];
    for (size_t i = 0; model_value_name(job, i); i++) known[n++] = model_value_name(job, i);
    for (size_t i = 0; i < n; i++) qr_buf_printf(&list, "%s%s", i ? ", " : "", known[i]);
    near = qr_nearest(name, known, n);
    return near ? qr_fail(err, QR_INVALID_ARGUMENT,
                          "%s: '%s' is not a value of a step; did you mean %s?", where, name, near)
                : qr_fail(
                      err, QR_INVALID_ARGUMENT,
                      "%s: '%s' is not a value of a step; use %s, or one of these with the prefix "
                      "val_ for the evaluation's value; add other metrics to train.metrics",
                      where, name, qr_buf_string(&list));
}

/* An evaluation has no gradient, and a step has no evaluation. */
static enum qr_code check_kind(const char *where, const struct log_names *names, bool *ret_val,
                               struct qr_err *err) {
    *ret_val = false;
    for (size_t i = QR_LOG_VAL_VALUES; i < QR_LOG_NAMES; i++) *ret_val |= names->used[i];
    if (*ret_val && names->used[QR_LOG_GRADIENT_NORM])
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: gradient_norm belongs to a step, and names with val_ to an evaluation; "
                       "log two values",
                       where);
    return QR_OK;
}

static enum qr_code read_logged(const struct qr_json *v, const char *where, struct qr_job *job,
                                struct qr_logged *ret, struct qr_err *err) {
    const char *text;
    struct log_names names = {.job = job};
    const struct qr_expression_names readers = {
        .context = &names, .parameter = note_name, .no_inputs = "a step has no inputs"};
    QR_TRY(qr_json_string(v, where, &text, err));
    QR_TRY(qr_expression_parse(text, where, &readers, &ret->scale, &ret->expression, err));
    ret->text = qr_xstrdup(text);
    if (*names.unknown) return unknown_name(job, where, names.unknown, err);
    ret->gradient = names.used[QR_LOG_GRADIENT_NORM];
    return check_kind(where, &names, &ret->evaluation, err);
}

/* ---- names ---- */

enum { LONGEST_NAME = 24 };

static bool is_watched(const struct qr_job *job, const char *name) {
    for (size_t n = 0, i; (i = qr_job_quantum(job, n)) < job->n_layers; n++) {
        const struct qr_quantum_options *q = &job->layers[i].quantum;
        for (size_t k = 0; k < q->n_watched; k++)
            if (strcmp(q->watched_names[k], name) == 0) return true;
    }
    return false;
}

static bool is_value(const char *name) {
    if (strcmp(name, "loss") == 0) return true;
    for (size_t i = 0; i < QR_LOG_VALUES; i++)
        if (strcmp(name, own[i]) == 0) return true;
    for (size_t i = 0; i < QR_METRICS; i++)
        if (strcmp(name, qr_metric_names[i]) == 0) return true;
    return false;
}

/* INVALID_ARGUMENT if the name is not valid for a user-defined value, or is already used. */
static enum qr_code check_value_name(const struct qr_job *job, const char *where, const char *name,
                                     struct qr_err *err) {
    const struct qr_train_spec *t = &job->train;
    bool used = is_watched(job, name);
    if (!qr_is_name(name, LONGEST_NAME, "_-"))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "%s: '%.40s' is not a valid metric name; use 1 to %d letters, digits, _ and -", where,
            name, LONGEST_NAME);
    if (is_value(name) || strncmp(name, "val_", 4) == 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s: '%s' is the name of another value; choose another name", where, name);
    for (size_t i = 0; i < t->n_logged; i++) used |= strcmp(t->logged[i].name, name) == 0;
    if (!used) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%s' is a duplicate; remove it", where, name);
}

/* ---- the two keys ---- */

enum qr_code qr_job_read_log(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                             void *to) {
    struct qr_logged *logged = to;
    struct qr_train_spec *t = &r->job->train;
    QR_TRY(qr_json_want(v, where, QR_JSON_OBJECT, r->err));
    if (qr_json_size(v) > QR_MAX_LOGGED)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu values; give at most %d", where,
                       qr_json_size(v), QR_MAX_LOGGED);
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        const char *name = qr_json_key(m);
        QR_TRY(check_value_name(r->job, where, name, r->err));
        struct qr_logged *l = &logged[t->n_logged++];
        l->name = qr_xstrdup(name);
        QR_TRY(read_logged(m, qr_path_of("%s.%s", where, name).s, r->job, l, r->err));
    }
    return QR_OK;
}

enum qr_code qr_job_read_watched(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, void *to) {
    struct qr_quantum_options *q = to;
    struct qr_job *job = r->job;
    QR_TRY(qr_json_want(v, where, QR_JSON_OBJECT, r->err));
    size_t n = qr_json_size(v);
    if (job->n_watched + n > QR_MAX_METRICS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: %zu observables are watched; give at most %d", where,
                       job->n_watched + n, QR_MAX_METRICS);
    struct qr_observable *watched = qr_xcalloc(n + 1, sizeof *watched);
    char **names = qr_xcalloc(n + 1, sizeof *names);
    q->watched = watched;
    q->watched_names = names;
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), job->n_watched++) {
        const char *name = qr_json_key(m);
        QR_TRY(check_value_name(job, where, name, r->err));
        QR_TRY(qr_job_read_observable(job, m, qr_path_of("%s.%s", where, name).s,
                                      q->circuit->n_qubits, &watched[q->n_watched], r->err));
        names[q->n_watched++] = qr_xstrdup(name);
    }
    return QR_OK;
}

bool qr_job_epoch_value(const struct qr_job *job, const char *name, struct qr_epoch_value *ret) {
    const struct qr_train_spec *t = &job->train;
    uint32_t at;
    for (size_t i = 0; i < t->n_logged; i++) {
        if (strcmp(t->logged[i].name, name) != 0) continue;
        *ret = (struct qr_epoch_value){t->logged[i].evaluation, true, i, false};
        return !t->logged[i].gradient;
    }
    if (!value_at(job, name, &at) || at < QR_LOG_VALUES) return false;
    bool val = at >= QR_LOG_VAL_VALUES;
    size_t i = at - (val ? QR_LOG_VAL_VALUES : QR_LOG_VALUES);
    bool metric = i >= 1 && i <= t->n_metrics;
    *ret = (struct qr_epoch_value){val, false, i, metric && qr_metric_maximized(t->metrics[i - 1])};
    return true;
}

enum qr_code qr_job_check_validation(const struct qr_job *job, bool has_validation,
                                     struct qr_err *err) {
    const struct qr_train_spec *t = &job->train;
    if (has_validation) return QR_OK;
    for (size_t i = 0; i < t->n_logged; i++)
        if (t->logged[i].evaluation)
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "train.log.%s: %.80s uses a value of an evaluation, but there is no validation "
                "data; set data.train_fraction below 1 or data.validation_url",
                t->logged[i].name, t->logged[i].text);
    if (!t->early_stopping.on || !t->early_stopping.value.evaluation) return QR_OK;
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "train.early_stopping watches %s, but there is no validation data; set data.train_fraction "
        "below 1 or data.validation_url, or \"monitor\": \"loss\" for the training loss",
        t->early_stopping.monitor);
}
