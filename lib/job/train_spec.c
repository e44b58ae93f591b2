/* job/train_spec.c — reads "train" of a job. Start reading at qr_job_read_train(); loss, optimizer
 * and log have files of their own. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "job/job_impl.h"

enum { MAX_INITIAL_LAYERS = 1024 };
#define MAX_COUNT (UINT64_C(1) << 40)

/* A name, or an object with the name and the options of the metric. */
static enum qr_code read_metric(const struct qr_json *v, const char *where, struct qr_train_spec *t,
                                size_t *ret, struct qr_err *err) {
    static const char *const keys[] = {"name", "k"};
    bool object = qr_json_type(v) == QR_JSON_OBJECT;
    uint64_t k = 5; /* as in Keras */
    char name[64];
    snprintf(name, sizeof name, "%s%s", where, object ? ".name" : "");
    if (qr_job_choice(object ? qr_json_get(v, "name") : v, name, QR_JOB_METRIC, qr_metric_names,
                      QR_METRICS, ret, err) != QR_OK)
        return err->code;
    bool top = *ret == QR_TOP_K_ACCURACY;
    if (object && (qr_json_known(v, where, keys, top ? 2 : 1, err) != QR_OK ||
                   qr_job_opt_u64(v, where, "k", 1, UINT64_C(1) << 20, &k, err) != QR_OK))
        return err->code;
    if (top) t->top_k = (unsigned)k;
    return QR_OK;
}

static enum qr_code read_metrics(const struct qr_json *train, const struct qr_job *job,
                                 struct qr_train_spec *t, struct qr_err *err) {
    const struct qr_json *list = qr_json_get(train, "metrics");
    if (!list) return QR_OK;
    if (qr_json_want(list, "train.metrics", QR_JSON_ARRAY, err) != QR_OK) return err->code;
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        char where[48];
        size_t metric;
        snprintf(where, sizeof where, "train.metrics[%zu]", t->n_metrics);
        if (t->n_metrics + job->n_watched == QR_MAX_METRICS)
            return qr_fail(err, QR_INVALID_ARGUMENT, "train.metrics: more than %d metrics%s",
                           QR_MAX_METRICS, job->n_watched ? ", including watched observables" : "");
        if (read_metric(v, where, t, &metric, err) != QR_OK) return err->code;
        for (size_t i = 0; i < t->n_metrics; i++)
            if (t->metrics[i] == (enum qr_metric)metric)
                return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%s' is a duplicate; remove it",
                               where, qr_metric_names[metric]);
        t->metrics[t->n_metrics++] = (enum qr_metric)metric;
    }
    return QR_OK;
}

/* Parses the value of --metric as in the file. */
static enum qr_code parse_metric(const char *text, struct qr_json **ret, struct qr_err *err) {
    struct qr_buf quoted = {0};
    struct qr_json_writer w = qr_json_writer(&quoted, 0);
    bool object = text[strspn(text, " \t")] == '{';
    if (!object) qr_json_put_string(&w, text);
    enum qr_code code = qr_json_parse(object ? qr_bytes_of_string(text) : qr_buf_view(&quoted),
                                      "--metric", ret, err);
    qr_buf_free(&quoted);
    return code;
}

enum qr_code qr_job_add_metric(struct qr_job *job, const char *text, struct qr_err *err) {
    struct qr_train_spec *t = &job->train;
    struct qr_json *v = NULL;
    size_t metric, i = 0;
    enum qr_code code = parse_metric(text, &v, err);
    if (code == QR_OK) code = read_metric(v, "--metric", t, &metric, err);
    qr_json_free(v);
    if (code != QR_OK) return code;
    while (i < t->n_metrics && t->metrics[i] != (enum qr_metric)metric) i++;
    if (i == t->n_metrics && t->n_metrics + job->n_watched == QR_MAX_METRICS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "--metric: more than %d metrics with the job's own%s", QR_MAX_METRICS,
                       job->n_watched ? ", including watched observables" : "");
    t->metrics[i] = (enum qr_metric)metric;
    if (i == t->n_metrics) t->n_metrics++;
    return qr_job_check_outputs(job, err) == QR_OK ? QR_OK : qr_wrap(err, "--metric %.80s", text);
}

static enum qr_code read_early_stopping(const struct qr_json *o, struct qr_job *job,
                                        struct qr_err *err) {
    static const char *const keys[] = {"monitor", "mode", "min_delta", "patience",
                                       "restore_best_weights"};
    static const char *const modes[] = {"auto", "min", "max"};
    const char *where = "train.early_stopping", *monitor = "val_loss";
    struct qr_early_stopping *e = &job->train.early_stopping;
    size_t mode = 0;
    if (!o) return QR_OK;
    *e = (struct qr_early_stopping){.on = true, .patience = 0, .restore_best = true};
    if (qr_json_want(o, where, QR_JSON_OBJECT, err) != QR_OK ||
        qr_json_known(o, where, keys, 5, err) != QR_OK ||
        qr_job_opt_choice(o, where, "mode", modes, 3, &mode, err) != QR_OK ||
        qr_job_opt_double(o, where, "min_delta", 0, 1e300, &e->min_delta, err) != QR_OK ||
        qr_job_opt_u64(o, where, "patience", 0, MAX_COUNT, &e->patience, err) != QR_OK ||
        qr_job_opt_bool(o, where, "restore_best_weights", &e->restore_best, err) != QR_OK)
        return err->code;
    const struct qr_json *v = qr_json_get(o, "monitor");
    if (v && qr_json_string(v, "train.early_stopping.monitor", &monitor, err) != QR_OK)
        return err->code;
    if (!qr_job_epoch_value(job, monitor, &e->value))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "train.early_stopping.monitor: '%.40s' is not a value of an epoch; use loss, a name in "
            "train.metrics or in a layer's watch, one of these with the prefix val_, or a name in "
            "train.log without gradient_norm in its expression",
            monitor);
    snprintf(e->monitor, sizeof e->monitor, "%s", monitor);
    e->maximize = mode == 2 || (mode == 0 && e->value.grows);
    return QR_OK;
}

/* {"pqc_1": "pqc"}: name in the model and in the file; ["pqc"]: the same name in both. */
static enum qr_code read_initial_layers(const struct qr_json *v, struct qr_train_spec *t,
                                        struct qr_err *err) {
    const char *where = "train.initial_weights.layers";
    bool object = qr_json_type(v) == QR_JSON_OBJECT;
    if (!object && qr_json_want(v, where, QR_JSON_ARRAY, err) != QR_OK) return err->code;
    size_t n = qr_json_size(v);
    if (n < 1 || n > MAX_INITIAL_LAYERS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: %zu layers; give 1 to %d", where, n,
                       MAX_INITIAL_LAYERS);
    t->initial_layers = qr_xcalloc(n, sizeof *t->initial_layers);
    for (const struct qr_json *l = qr_json_first(v); l; l = qr_json_next(l)) {
        char path[96];
        const char *there;
        snprintf(path, sizeof path, "%s[%zu]", where, t->n_initial_layers);
        if (qr_json_string(l, path, &there, err) != QR_OK) return err->code;
        const char *here = object ? qr_json_key(l) : there;
        for (size_t i = 0; i < t->n_initial_layers; i++)
            if (strcmp(t->initial_layers[i].name, here) == 0)
                return qr_fail(err, QR_INVALID_ARGUMENT, "%s: '%.80s' is a duplicate; remove it",
                               path, here);
        t->initial_layers[t->n_initial_layers++] =
            (struct qr_initial_layer){qr_xstrdup(here), qr_xstrdup(there)};
    }
    return QR_OK;
}

static enum qr_code read_initial(const struct qr_json *train, struct qr_train_spec *t,
                                 struct qr_err *err) {
    static const char *const keys[] = {"url", "layers"};
    const struct qr_json *v = qr_json_get(train, "initial_weights");
    const char *where = "train.initial_weights", *url;
    if (!v) return QR_OK;
    bool object = qr_json_type(v) == QR_JSON_OBJECT;
    if (object && qr_json_known(v, where, keys, 2, err) != QR_OK) return err->code;
    if (qr_json_string(object ? qr_json_get(v, "url") : v,
                       object ? "train.initial_weights.url" : where, &url, err) != QR_OK)
        return err->code;
    t->initial_weights = qr_xstrdup(url);
    const struct qr_json *layers = object ? qr_json_get(v, "layers") : NULL;
    return layers ? read_initial_layers(layers, t, err) : QR_OK;
}

enum qr_code qr_job_read_train(const struct qr_json *train, struct qr_job *job,
                               struct qr_err *err) {
    static const char *const keys[] = {
        "epochs",          "batch_size",     "loss",         "metrics", "optimizer", "shuffle",
        "initial_weights", "early_stopping", "class_weight", "log",     "evaluate"};
    struct qr_train_spec *t = &job->train;
    t->epochs = 1; /* Keras' defaults */
    t->batch_size = job->data.source == QR_DATA_NONE ? 1 : 32;
    t->shuffle = t->evaluate = true;
    t->optimizer = qr_optimizer_defaults(QR_ADAM);
    if (!train) return QR_OK;
    if (qr_json_want(train, "train", QR_JSON_OBJECT, err) != QR_OK ||
        qr_job_check_keys(train, "train", keys, 11, err) != QR_OK ||
        qr_job_opt_u64(train, "train", "epochs", 1, MAX_COUNT, &t->epochs, err) != QR_OK ||
        qr_job_opt_u64(train, "train", "batch_size", 1, UINT64_C(1) << 31, &t->batch_size, err) !=
            QR_OK ||
        qr_job_read_loss(train, t, err) != QR_OK || read_metrics(train, job, t, err) != QR_OK ||
        qr_job_read_optimizer(qr_json_get(train, "optimizer"), &t->optimizer, err) != QR_OK ||
        qr_job_opt_bool(train, "train", "shuffle", &t->shuffle, err) != QR_OK ||
        qr_job_opt_bool(train, "train", "evaluate", &t->evaluate, err) != QR_OK ||
        read_initial(train, t, err) != QR_OK || qr_job_read_log(train, job, err) != QR_OK ||
        read_early_stopping(qr_json_get(train, "early_stopping"), job, err) != QR_OK)
        return err->code;
    if (t->early_stopping.on && t->early_stopping.value.evaluation && !t->evaluate)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.early_stopping watches %s, which training computes only when it "
                       "evaluates; remove \"evaluate\": false, or early_stopping",
                       t->early_stopping.monitor);
    return QR_OK;
}
