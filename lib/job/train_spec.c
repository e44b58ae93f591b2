/* job/train_spec.c — reads the irregular keys of "train" of a job; those of its optimizer are in
 * optimizer_spec.c, "log" is in log_spec.c. Start reading at qr_job_finish_train(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "job/job_impl.h"

enum { MAX_INITIAL_LAYERS = 1024, MAX_CLASSES = 1 << 16 };

void qr_job_set_train_defaults(size_t kind, void *to) {
    struct qr_train_spec *t = to;
    (void)kind;
    t->epochs = 1; /* Keras' defaults */
    t->batch_size = 32;
    t->loss_options.delta = 1;
    t->shuffle = t->evaluate = true;
    t->optimizer = qr_optimizer_defaults(QR_ADAM);
}

/* ---- loss ---- */

bool qr_job_loss_has(size_t kind, const char *key) {
    const struct qr_loss_info *info = qr_loss_info((enum qr_loss)kind);
    return strcmp(key, "delta") == 0     ? info->has_delta
           : strcmp(key, "weights") == 0 ? info->no_labels
                                         : info->of_logits != NULL;
}

/* A name, or an object. */
enum qr_code qr_job_read_loss(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                              void *to) {
    const struct qr_job_object *o = qr_job_object_of(r, "loss");
    if (qr_json_type(v) != QR_JSON_OBJECT)
        return qr_job_read_value(r, qr_job_key(o, "name"), v, where, to);
    return qr_job_read_object(r, o, v, where, &r->job->train);
}

static enum qr_code read_weights(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, const struct qr_job_numbers *range,
                                 const char *effect, double **ret, size_t *ret_n) {
    QR_TRY(qr_job_read_numbers(r, v, where, range, ret, ret_n));
    for (size_t i = 0; i < *ret_n; i++)
        if ((*ret)[i] != 0) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: all weights are 0, so %s", where, effect);
}

enum qr_code qr_job_read_output_weights(struct qr_job_reader *r, const struct qr_json *v,
                                        const char *where, void *to) {
    static const struct qr_job_numbers any = {.most = SIZE_MAX, .low = -0x1p40, .high = 0x1p40};
    struct qr_train_spec *t = &r->job->train;
    QR_TRY(
        read_weights(r, v, where, &any, "there is nothing to minimize", to, &t->n_output_weights));
    t->loss_options.weights = t->output_weights;
    return QR_OK;
}

enum qr_code qr_job_read_class_weight(struct qr_job_reader *r, const struct qr_json *v,
                                      const char *where, void *to) {
    static const struct qr_job_numbers by_class = {.least = 2,
                                                   .most = MAX_CLASSES,
                                                   .high = 0x1p40,
                                                   .give =
                                                       "give one for each class, from class 0 on"};
    if (qr_json_type(v) == QR_JSON_OBJECT || qr_json_type(v) == QR_JSON_STRING)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s must be an array, not %s; give a number for each class from class 0 "
                       "on, such as [1, 3]",
                       where, qr_json_type_name(v));
    return read_weights(r, v, where, &by_class, "nothing would train", to,
                        &r->job->train.n_class_weights);
}

/* ---- metrics ---- */

/* A name, or an object with the name and the options of the metric. */
static enum qr_code read_metric(struct qr_job_reader *r, const struct qr_json *v, const char *where,
                                enum qr_metric *ret) {
    const struct qr_job_object *o = qr_job_object_of(r, "metric");
    struct qr_metric_spec m = {.k = 5}; /* as in Keras */
    if (qr_json_type(v) == QR_JSON_OBJECT) QR_TRY(qr_job_read_object(r, o, v, where, &m));
    else QR_TRY(qr_job_read_value(r, qr_job_key(o, "name"), v, where, &m.metric));
    if (qr_job_object_has(o, m.metric, qr_job_key(o, "k"))) r->job->train.top_k = m.k;
    *ret = m.metric;
    return QR_OK;
}

enum qr_code qr_job_read_metrics(struct qr_job_reader *r, const struct qr_json *v,
                                 const char *where, void *to) {
    const struct qr_job *job = r->job;
    struct qr_train_spec *t = &r->job->train;
    enum qr_metric *metrics = to;
    QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, r->err));
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m)) {
        struct qr_path path = qr_path_of("%s[%zu]", where, t->n_metrics);
        enum qr_metric metric;
        if (t->n_metrics + job->n_watched == QR_MAX_METRICS)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: more than %d metrics%s", where,
                           QR_MAX_METRICS,
                           r->job->n_watched ? ", including watched observables" : "");
        QR_TRY(read_metric(r, m, path.s, &metric));
        for (size_t i = 0; i < t->n_metrics; i++)
            if (metrics[i] == metric)
                return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: '%s' is a duplicate; remove it",
                               path.s, qr_metric_names[metric]);
        metrics[t->n_metrics++] = metric;
    }
    return QR_OK;
}

/* Parses the value of --metric as in the file. */
static enum qr_code parse_metric(const char *text, struct qr_json **ret, struct qr_err *err) {
    qr_auto(qr_buf_free) struct qr_buf quoted = {0};
    struct qr_json_writer w = qr_json_writer(&quoted, 0);
    bool object = text[strspn(text, " \t")] == '{';
    if (!object) qr_json_put_string(&w, text);
    return qr_json_parse(object ? qr_bytes_of_string(text) : qr_buf_view(&quoted), "--metric", ret,
                         err);
}

enum qr_code qr_job_read_metric(struct qr_job_reader *r, const char *text) {
    struct qr_train_spec *t = &r->job->train;
    qr_auto(qr_json_free_p) struct qr_json *v = NULL;
    enum qr_metric metric;
    size_t i = 0;
    QR_TRY(parse_metric(text, &v, r->err));
    QR_TRY(read_metric(r, v, "--metric", &metric));
    while (i < t->n_metrics && t->metrics[i] != metric) i++;
    if (i == t->n_metrics && t->n_metrics + r->job->n_watched == QR_MAX_METRICS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "--metric: more than %d metrics with the job's own%s", QR_MAX_METRICS,
                       r->job->n_watched ? ", including watched observables" : "");
    t->metrics[i] = metric;
    if (i == t->n_metrics) t->n_metrics++;
    if (qr_job_check_outputs(r->job, r->err) == QR_OK) return QR_OK;
    return qr_wrap(r->err, "--metric %.80s", text);
}

/* ---- early stopping ---- */

void qr_job_set_stopping_defaults(size_t kind, void *to) {
    (void)kind;
    ((struct qr_early_stopping *)to)->restore_best = true;
}

enum qr_code qr_job_finish_stopping(struct qr_job_reader *r, void *to) {
    struct qr_early_stopping *e = to;
    if (!e->monitor) e->monitor = qr_xstrdup("val_loss");
    if (!qr_job_epoch_value(r->job, e->monitor, &e->value))
        return qr_fail(
            r->err, QR_INVALID_ARGUMENT,
            "train.early_stopping.monitor: '%.40s' is not a value of an epoch; use loss, a name in "
            "train.metrics or in a layer's watch, one of these with the prefix val_, or a name in "
            "train.log without gradient_norm in its expression",
            e->monitor);
    e->on = true;
    e->maximize = e->mode == 2 || (e->mode == 0 && e->value.grows);
    return QR_OK;
}

/* ---- initial weights ---- */

/* {"pqc_1": "pqc"}: name in the model and in the file; ["pqc"]: the same name in both. */
enum qr_code qr_job_read_initial_layers(struct qr_job_reader *r, const struct qr_json *v,
                                        const char *where, void *to) {
    struct qr_train_spec *t = &r->job->train;
    bool object = qr_json_type(v) == QR_JSON_OBJECT;
    if (!object) QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, r->err));
    size_t n = qr_json_size(v);
    if (n < 1 || n > MAX_INITIAL_LAYERS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %zu layers; give 1 to %d", where, n,
                       MAX_INITIAL_LAYERS);
    struct qr_initial_layer *all = *(struct qr_initial_layer **)to = qr_xcalloc(n, sizeof *all);
    for (const struct qr_json *l = qr_json_first(v); l; l = qr_json_next(l)) {
        struct qr_path path = qr_path_of("%s[%zu]", where, t->n_initial_layers);
        const char *there;
        QR_TRY(qr_json_string(l, path.s, &there, r->err));
        const char *here = object ? qr_json_key(l) : there;
        for (size_t i = 0; i < t->n_initial_layers; i++)
            if (strcmp(all[i].name, here) == 0)
                return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: '%.80s' is a duplicate; remove it",
                               path.s, here);
        all[t->n_initial_layers++] = (struct qr_initial_layer){qr_xstrdup(here), qr_xstrdup(there)};
    }
    return QR_OK;
}

/* A URL, or an object. */
enum qr_code qr_job_read_initial_weights(struct qr_job_reader *r, const struct qr_json *v,
                                         const char *where, void *to) {
    const struct qr_job_object *o = qr_job_object_of(r, "initial_weights");
    if (qr_json_type(v) != QR_JSON_OBJECT)
        return qr_job_read_value(r, qr_job_key(o, "url"), v, where, to);
    return qr_job_read_object(r, o, v, where, &r->job->train);
}

/* ---- all of it ---- */

enum qr_code qr_job_finish_train(struct qr_job_reader *r, void *to) {
    const struct qr_train_spec *t = to;
    if (!t->early_stopping.on || !t->early_stopping.value.evaluation || t->evaluate) return QR_OK;
    return qr_fail(r->err, QR_INVALID_ARGUMENT,
                   "train.early_stopping watches %s, which training computes only when it "
                   "evaluates; remove \"evaluate\": false, or early_stopping",
                   t->early_stopping.monitor);
}

void qr_job_free_train(struct qr_train_spec *t) {
    free(t->class_weight);
    free(t->output_weights);
    free(t->initial_weights);
    for (size_t i = 0; i < t->n_initial_layers; i++) {
        free(t->initial_layers[i].name);
        free(t->initial_layers[i].file_name);
    }
    free(t->initial_layers);
    for (size_t i = 0; i < t->n_logged; i++) {
        free(t->logged[i].name);
        free(t->logged[i].text);
        qr_expression_fini(&t->logged[i].expression);
    }
    free(t->early_stopping.monitor);
}
