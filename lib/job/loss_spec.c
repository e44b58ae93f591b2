/* job/loss_spec.c — reads "loss" and "class_weight" of train. Start reading at
 * qr_job_read_loss(). */
#include <stdio.h>

#include "base/mem.h"
#include "job/job_impl.h"

enum { MAX_CLASSES = 1 << 16 };

static enum qr_code read_weights(const struct qr_json *list, struct qr_train_spec *t,
                                 struct qr_err *err) {
    const char *where = "train.loss.weights";
    bool any = false;
    if (!list) return QR_OK;
    if (qr_json_want(list, where, QR_JSON_ARRAY, err) != QR_OK) return err->code;
    t->output_weights = qr_xcalloc(qr_json_size(list) + 1, sizeof *t->output_weights);
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        char item[48];
        double *to = &t->output_weights[t->n_output_weights];
        snprintf(item, sizeof item, "%s[%zu]", where, t->n_output_weights++);
        if (qr_json_double(v, item, -0x1p40, 0x1p40, to, err) != QR_OK) return err->code;
        any |= *to != 0;
    }
    t->loss_options.weights = t->output_weights;
    if (any) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "%s: all weights are 0, so there is nothing to minimize", where);
}

static enum qr_code read_options(const struct qr_json *o, struct qr_train_spec *t,
                                 struct qr_err *err) {
    const struct qr_loss_info *info = qr_loss_info(t->loss);
    struct qr_loss_options *l = &t->loss_options;
    const char *where = "train.loss", *keys[4] = {"name"};
    size_t n = 1;
    if (info->has_delta) keys[n++] = "delta";
    if (info->of_logits) keys[n++] = "from_logits";
    if (info->of_logits) keys[n++] = "label_smoothing";
    if (info->no_labels) keys[n++] = "weights";
    if (qr_json_known(o, where, keys, n, err) != QR_OK ||
        read_weights(qr_json_get(o, "weights"), t, err) != QR_OK ||
        qr_job_opt_double(o, where, "delta", 0, 1e300, &l->delta, err) != QR_OK ||
        qr_job_opt_bool(o, where, "from_logits", &l->from_logits, err) != QR_OK ||
        qr_job_opt_double(o, where, "label_smoothing", 0, 1, &l->label_smoothing, err) != QR_OK)
        return err->code;
    if (l->delta <= 0)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.loss.delta must be above 0: with 0 every error has loss 0");
    return QR_OK;
}

static enum qr_code read_class_weight(const struct qr_json *list, struct qr_train_spec *t,
                                      struct qr_err *err) {
    const char *where = "train.class_weight";
    double most = 0;
    if (!list) return QR_OK;
    if (qr_json_type(list) == QR_JSON_OBJECT || qr_json_type(list) == QR_JSON_STRING)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s must be an array, not %s; give a number for each class from class 0 "
                       "on, such as [1, 3]",
                       where, qr_json_type_name(list));
    if (qr_json_want(list, where, QR_JSON_ARRAY, err) != QR_OK) return err->code;
    size_t n = qr_json_size(list);
    if (n < 2 || n > MAX_CLASSES)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has %zu numbers; give one for each class, from class 0 on", where, n);
    t->class_weight = qr_xcalloc(n, sizeof *t->class_weight);
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        char item[48];
        double *to = &t->class_weight[t->n_class_weights];
        snprintf(item, sizeof item, "%s[%zu]", where, t->n_class_weights++);
        if (qr_json_double(v, item, 0, 0x1p40, to, err) != QR_OK) return err->code;
        if (*to > most) most = *to;
    }
    if (most > 0) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s: all weights are 0, so nothing would train",
                   where);
}

enum qr_code qr_job_read_loss(const struct qr_json *train, struct qr_train_spec *t,
                              struct qr_err *err) {
    const struct qr_json *v = qr_json_get(train, "loss");
    bool object = v && qr_json_type(v) == QR_JSON_OBJECT;
    size_t loss = QR_MSE;
    t->loss_options.delta = 1; /* as in Keras */
    const struct qr_json *name = object ? qr_json_get(v, "name") : v;
    if (name && qr_job_choice(name, object ? "train.loss.name" : "train.loss", QR_JOB_LOSS,
                              qr_loss_names, QR_LOSSES, &loss, err) != QR_OK)
        return err->code;
    t->loss = (enum qr_loss)loss;
    if (object && read_options(v, t, err) != QR_OK) return err->code;
    return read_class_weight(qr_json_get(train, "class_weight"), t, err);
}
