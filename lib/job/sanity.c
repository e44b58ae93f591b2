/* job/sanity.c — finds jobs that cannot train successfully: an error if the settings can only be a
 * mistake, a warning if they may be intended. Start reading at qr_job_check_outputs() and
 * qr_job_warnings(). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/readouts.h"
#include "job/job_impl.h"

/* columns and classes per sentence; bytes of a list to be copied */
enum { SHOWN = 12, SHOWN_PICK = 200 };
static const double slack = 1e-9; /* rounding error of a bound that was summed */

/* sentence: taken over; NULL: none. */
static void add_warning(struct qr_job_warnings *d, char *sentence) {
    if (!sentence) return;
    QR_ASSERT(d->n < sizeof d->sentence / sizeof *d->sentence);
    d->sentence[d->n++] = sentence;
}

void qr_job_warnings_fini(struct qr_job_warnings *d) {
    for (size_t i = 0; i < d->n; i++) free(d->sentence[i]);
    *d = (struct qr_job_warnings){0};
}

/* ---- range of the outputs ---- */

struct range {
    double low, high;
};

static struct range range_of_readout(const struct qr_observable *o) {
    struct range r;
    qr_readout_bounds(o, &r.low, &r.high);
    return r;
}

static struct range range_of_activation(enum qr_activation f) {
    switch (f) {
    case QR_RELU: return (struct range){0, INFINITY};
    case QR_TANH: return (struct range){-1, 1};
    case QR_SIGMOID:
    case QR_SOFTMAX: return (struct range){0, 1};
    default: return (struct range){-INFINITY, INFINITY};
    }
}

static bool keeps_range(enum qr_layer_kind kind) { return kind == QR_LAYER_DROPOUT; }

/* Index of the layer that produces the outputs. */
static size_t last_layer(const struct qr_job *job) {
    size_t i = job->n_layers - 1;
    while (i > 0 && keeps_range(job->layers[i].kind)) i--;
    return i;
}

/* Activation of the outputs. False: the outputs are read-outs, or their range is not known. */
static bool last_activation(const struct qr_job *job, enum qr_activation *ret) {
    const struct qr_layer_options *l = &job->layers[last_layer(job)];
    if (l->kind != QR_LAYER_DENSE && l->kind != QR_LAYER_ACTIVATION) return false;
    *ret = l->kind == QR_LAYER_DENSE ? l->dense.activation : l->activation;
    return true;
}

static bool is_softmax(const struct qr_job *job) {
    enum qr_activation last;
    return last_activation(job, &last) && last == QR_SOFTMAX;
}

/* The quantum layer with the read-outs that are the outputs; NULL: none. */
static const struct qr_quantum_options *last_readouts(const struct qr_job *job) {
    const struct qr_layer_options *l = &job->layers[last_layer(job)];
    return l->kind == QR_LAYER_QUANTUM ? &l->quantum : NULL;
}

static struct range range_of_readouts(const struct qr_quantum_options *q) {
    struct range all = {INFINITY, -INFINITY};
    for (size_t i = 0; i < q->n_readouts; i++) {
        struct range one = range_of_readout(&q->readouts[i]);
        if (one.low < all.low) all.low = one.low;
        if (one.high > all.high) all.high = one.high;
    }
    return all;
}

static struct range range_of_scaled(const struct qr_scale_options *s, struct range r) {
    if (s->factor == 0) return (struct range){s->offset, s->offset};
    double low = s->factor * r.low + s->offset, high = s->factor * r.high + s->offset;
    return s->factor < 0 ? (struct range){high, low} : (struct range){low, high};
}

static struct range range_of_outputs(const struct qr_job *job) {
    struct range r = range_of_activation(QR_LINEAR);
    for (size_t i = 0; i < job->n_layers; i++) {
        const struct qr_layer_options *l = &job->layers[i];
        if (l->kind == QR_LAYER_QUANTUM) r = range_of_readouts(&l->quantum);
        else if (l->kind == QR_LAYER_DENSE) r = range_of_activation(l->dense.activation);
        else if (l->kind == QR_LAYER_ACTIVATION) r = range_of_activation(l->activation);
        else if (l->kind == QR_LAYER_SCALE) r = range_of_scaled(&l->scale, r);
        else QR_ASSERT(keeps_range(l->kind));
    }
    return r;
}

static bool wants_probabilities(const struct qr_job *job) {
    return qr_loss_info(job->train.loss)->of_logits && !job->train.loss_options.from_logits;
}

static const char *suggested_activation(const struct qr_job *job) {
    return qr_activation_names[qr_loss_info(job->train.loss)->logits_of];
}

static enum qr_code check_logits(const struct qr_job *job, struct qr_err *err) {
    enum qr_activation last;
    if (!last_activation(job, &last) || (last != QR_SIGMOID && last != QR_SOFTMAX)) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "train.loss: from_logits is set, but model[%zu] outputs probabilities "
                   "(activation %s); remove one of the two",
                   last_layer(job), qr_activation_names[last]);
}

static enum qr_code check_class_weight(const struct qr_job *job, struct qr_err *err) {
    enum qr_loss loss = job->train.loss;
    bool largest = qr_loss_info(loss)->accuracy == QR_BY_LARGEST;
    size_t n_outputs = qr_job_n_outputs(job), n = largest ? n_outputs : 2;
    if (!job->train.n_class_weights) return QR_OK;
    if (!qr_loss_has_classes(loss))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.class_weight: %s has no classes; use sample weights "
                       "(data.sample_weight), or a cross-entropy or hinge loss",
                       qr_loss_names[loss]);
    if (!largest && n_outputs > 1)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.class_weight: with %s a sample with %zu outputs has no single class; "
                       "use data.sample_weight",
                       qr_loss_names[loss], n_outputs);
    if (job->train.n_class_weights == n) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "train.class_weight: %zu numbers for %zu classes; give one for each, from class "
                   "0 on",
                   job->train.n_class_weights, n);
}

static enum qr_code check_top_k(const struct qr_job *job, struct qr_err *err) {
    size_t n_outputs = qr_job_n_outputs(job);
    for (size_t i = 0; i < job->train.n_metrics; i++)
        if (job->train.metrics[i] == QR_TOP_K_ACCURACY && job->train.top_k >= n_outputs)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "train.metrics[%zu]: top_k_accuracy with k %u of %zu output%s is always "
                           "1; give a smaller \"k\"",
                           i, job->train.top_k, n_outputs, n_outputs == 1 ? "" : "s");
    return QR_OK;
}

/* True if all weights belong to one circuit without data. */
static bool is_one_state(const struct qr_job *job) {
    for (size_t i = 1; i < job->n_layers; i++)
        if (job->layers[i].kind == QR_LAYER_DENSE || job->layers[i].kind == QR_LAYER_QUANTUM)
            return false;
    return job->data.source == QR_DATA_NONE && job->layers[0].kind == QR_LAYER_QUANTUM;
}

/* Checks everything that uses labels or needs data, for jobs without them. */
static enum qr_code check_labels(const struct qr_job *job, struct qr_err *err) {
    const struct qr_train_spec *t = &job->train;
    size_t n_outputs = qr_job_n_outputs(job);
    bool none = job->data.source == QR_DATA_NONE, labels = !qr_loss_info(t->loss)->no_labels;
    if (none && labels)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.loss: %s compares outputs with labels, but without data there are "
                       "none; \"expectation\" minimizes the sum of the outputs",
                       qr_loss_names[t->loss]);
    if (none && t->batch_size > 1)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "train.batch_size is %llu, but without data a step has one sample; remove the key",
            (unsigned long long)t->batch_size);
    if (none && t->early_stopping.on && t->early_stopping.value.evaluation)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.early_stopping watches %s, but without data there is no validation; "
                       "set \"monitor\": \"loss\"",
                       t->early_stopping.monitor);
    if (t->early_stopping.on && qr_optimizer_has_line_search(t->optimizer.kind))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.early_stopping: %s has its own stopping criterion, and the loss "
                       "rises and falls in its line searches; remove the key, and set "
                       "loss_tolerance and gradient_tolerance of the optimizer",
                       qr_optimizer_names[t->optimizer.kind]);
    if (!none && t->optimizer.kind == QR_LBFGS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.optimizer: lbfgs needs the same loss in all steps, but each step "
                       "uses another batch of the data; choose another optimizer, or \"data\": "
                       "{\"source\": \"none\"} for an objective without data");
    if (t->optimizer.kind == QR_NATURAL_GRADIENT && !is_one_state(job))
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.optimizer: quantum-natural-gradient is for one quantum layer without "
                       "data and without dense layers: its weights must define a single state; "
                       "choose another optimizer");
    if (labels) return QR_OK;
    if (t->n_output_weights && t->n_output_weights != n_outputs)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "train.loss.weights: %zu number%s for %zu output%s; give one for each",
                       t->n_output_weights, t->n_output_weights == 1 ? "" : "s", n_outputs,
                       n_outputs == 1 ? "" : "s");
    if (!t->n_metrics) return QR_OK;
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "train.metrics[0]: %s compares outputs with labels, but train.loss %s has none; remove it",
        qr_metric_names[t->metrics[0]], qr_loss_names[t->loss]);
}

static enum qr_code check_counts(const struct qr_job *job, struct qr_err *err) {
    const struct qr_train_spec *t = &job->train;
    const struct qr_metric_options o = {.loss = t->loss};
    size_t classes = qr_metric_classes(&o, qr_job_n_outputs(job));
    struct range r = range_of_outputs(job);
    bool probabilities = t->loss_options.from_logits || (r.low >= -slack && r.high <= 1 + slack);
    for (size_t i = 0; i < t->n_metrics; i++) {
        if (t->metrics[i] == QR_AUC && !probabilities)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "train.metrics[%zu]: auc has thresholds from 0 to 1, but the outputs "
                           "lie in %g to %g; end the model with \"sigmoid\" or \"softmax\", or set "
                           "\"from_logits\": true in a cross-entropy loss",
                           i, r.low, r.high);
        if (t->metrics[i] == QR_CONFUSION_MATRIX && classes > QR_MAX_CONFUSION_CLASSES)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "train.metrics[%zu]: a confusion_matrix of %zu classes is not "
                           "supported; at most %d",
                           i, classes, QR_MAX_CONFUSION_CLASSES);
    }
    return QR_OK;
}

enum qr_code qr_job_check_outputs(const struct qr_job *job, struct qr_err *err) {
    const char *loss = qr_loss_names[job->train.loss];
    const struct qr_quantum_options *readouts = last_readouts(job);
    enum qr_activation last;
    size_t at = last_layer(job);
    if (check_labels(job, err) != QR_OK || check_class_weight(job, err) != QR_OK ||
        check_top_k(job, err) != QR_OK || check_counts(job, err) != QR_OK)
        return err->code;
    if (job->train.loss_options.from_logits) return check_logits(job, err);
    if (!wants_probabilities(job)) return QR_OK;
    if (last_activation(job, &last) && range_of_activation(last).low < 0)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "model[%zu]: its outputs (activation %s) may be below 0, but train.loss %s expects "
            "probabilities; set \"activation\": \"%s\" there, or \"from_logits\": true in the loss",
            at, qr_activation_names[last], loss, suggested_activation(job));
    if (job->layers[at].kind == QR_LAYER_SCALE && range_of_outputs(job).low < -slack)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "model[%zu]: its outputs lie in %g to %g, but train.loss %s expects "
                       "probabilities; change factor and offset, end the model with an "
                       "\"activation\" layer of \"%s\", or set \"from_logits\": true in the loss",
                       at, range_of_outputs(job).low, range_of_outputs(job).high, loss,
                       suggested_activation(job));
    for (size_t i = 0; readouts && i < readouts->n_readouts; i++) {
        struct range r = range_of_readout(&readouts->readouts[i]);
        if (r.low < -slack)
            return qr_fail(
                err, QR_INVALID_ARGUMENT,
                "model[%zu].readouts[%zu]: %.80s%s lies in %g to %g, but train.loss %s expects a "
                "probability; use a read-out such as \"0.5 + 0.5*Z0\", add a dense layer with "
                "\"activation\": \"%s\", or set \"from_logits\": true in the loss",
                at, i, readouts->readouts[i].text,
                strlen(readouts->readouts[i].text) > 80 ? "..." : "", r.low, r.high, loss,
                suggested_activation(job));
    }
    return QR_OK;
}

static void warn_metrics(const struct qr_job *job, struct qr_job_warnings *d) {
    for (size_t i = 0; job->train.loss_options.from_logits && i < job->train.n_metrics; i++)
        if (job->train.metrics[i] == QR_BINARY_ACCURACY)
            add_warning(d, qr_xasprintf(
                               "train.metrics[%zu]: binary_accuracy compares outputs with 0.5, but "
                               "with from_logits the classes are separated at 0; use accuracy",
                               i));
}

static void warn_outputs(const struct qr_job *job, struct qr_job_warnings *d) {
    enum qr_activation last;
    struct range r = range_of_outputs(job);
    bool probabilities = wants_probabilities(job);
    if (probabilities && job->train.loss == QR_CATEGORICAL_CROSSENTROPY &&
        last_activation(job, &last) && last != QR_SOFTMAX)
        add_warning(
            d, qr_xasprintf("train.loss: categorical_crossentropy divides the outputs by their "
                            "sum to get probabilities, but the last activation is not softmax; "
                            "set \"activation\": \"softmax\" in the last dense layer"));
    if (probabilities && job->train.loss == QR_BINARY_CROSSENTROPY && r.high > 1 + slack)
        add_warning(
            d, qr_xasprintf("train.loss: binary_crossentropy expects probabilities, but the "
                            "outputs can exceed 1, where nothing is learned; set \"activation\": "
                            "\"sigmoid\" in the last dense layer"));
    if (job->train.loss == QR_HINGE && r.low >= 0)
        add_warning(
            d,
            qr_xasprintf(
                "train.loss: hinge uses the sign of the outputs as the class, but they are never "
                "below 0; set \"activation\": \"tanh\" or \"linear\" in the last dense layer"));
}

/* ---- effect of the weights ---- */

/* True if a trainable weight can change the outputs of the layer. */
static bool is_trainable(const struct qr_layer_options *l) {
    bool seen = l->kind == QR_LAYER_DENSE;
    if (l->frozen) return false;
    if (l->kind != QR_LAYER_QUANTUM) return seen;
    qr_auto(qr_free_p) uint8_t *unmoved = qr_xmalloc(l->quantum.n_readouts);
    qr_readouts_constant(l->quantum.circuit, l->quantum.readouts, l->quantum.n_readouts, false,
                         unmoved);
    for (size_t i = 0; i < l->quantum.n_readouts; i++) seen |= !unmoved[i];
    return seen;
}

/* Read-outs with a constant value. */
static void warn_readouts(const struct qr_quantum_options *q, size_t layer,
                          struct qr_job_warnings *d) {
    uint8_t *unmoved = qr_xmalloc(q->n_readouts);
    size_t n = 0, first = 0;
    qr_readouts_constant(q->circuit, q->readouts, q->n_readouts, true, unmoved);
    for (size_t i = q->n_readouts; i-- > 0;)
        if (unmoved[i]) first = i, n++;
    free(unmoved);
    if (n)
        add_warning(
            d, qr_xasprintf("model[%zu].readouts[%zu]: no weight or input can change %.60s%s "
                            "(constant read-outs: %zu of %zu)",
                            layer, first, q->readouts[first].text,
                            strlen(q->readouts[first].text) > 60 ? "..." : "", n, q->n_readouts));
}

static void warn_learning(const struct qr_job *job, struct qr_job_warnings *d) {
    const struct qr_train_spec *t = &job->train;
    const struct qr_optimizer_options *o = &t->optimizer;
    size_t i = 0;
    while (i < job->n_layers && !is_trainable(&job->layers[i])) i++;
    if (i == job->n_layers)
        add_warning(
            d, qr_xasprintf(
                   "model: no trainable weight can change the read-outs, so nothing is learned; "
                   "\"qring show\" draws the circuit, and lists the weights without effect"));
    for (size_t k = 0; i < job->n_layers && k < job->n_layers; k++)
        if (job->layers[k].kind == QR_LAYER_QUANTUM && !job->layers[k].frozen) {
            warn_readouts(&job->layers[k].quantum, k, d);
            break;
        }
    if (o->learning_rate == 0 && o->schedule.kind == QR_SCHEDULE_CONSTANT &&
        !qr_optimizer_has_line_search(o->kind))
        add_warning(d,
                    qr_xasprintf("train.optimizer.learning_rate is 0: the weights never change"));
    if (t->loss_options.label_smoothing == 1)
        add_warning(d, qr_xasprintf("train.loss.label_smoothing is 1: all labels become equal, so "
                                    "nothing can be learned; a usual value is 0.1"));
}

/* ---- labels ---- */

static const double *label_of(const struct qr_dataset *data, size_t sample) {
    return qr_dataset_y(data, sample);
}

static bool same_label(const struct qr_dataset *data, size_t a, size_t b) {
    for (size_t k = 0; k < data->n_outputs; k++)
        if (label_of(data, a)[k] != label_of(data, b)[k]) return false;
    return true;
}

static size_t class_of(const struct qr_dataset *data, size_t sample) {
    return qr_loss_class(QR_CATEGORICAL_CROSSENTROPY, data->n_outputs, label_of(data, sample));
}

static const char shuffle_it[] = "if the file is sorted, set \"shuffle_split\" in data to a seed, "
                                 "which shuffles it before the split";

/* True if the warning was added. */
static bool warn_single_label(const struct qr_job *job, const struct qr_dataset *data,
                              struct qr_job_warnings *d) {
    bool classes = job->train.loss == QR_CATEGORICAL_CROSSENTROPY;
    size_t others = 0;
    if (data->n_train < 2 || data->n_outputs == 0) return false;
    for (size_t i = 1; i < data->n_train; i++)
        if (!same_label(data, 0, i)) return false;
    for (size_t i = data->n_train; i < data->n_samples; i++) others += !same_label(data, 0, i);
    double label = classes ? (double)class_of(data, 0) : label_of(data, 0)[0];
    struct qr_buf rest = {0}, which = {0};
    if (data->classes.n == 1 && !data->unquoted)
        qr_buf_printf(&which, "'%.60s'", data->classes.v[0]);
    else qr_buf_printf(&which, "%g", label);
    if (others)
        qr_buf_printf(&rest, ", and %zu validation samples have another; %s", others, shuffle_it);
    add_warning(
        d,
        qr_xasprintf(
            "data: all %zu training samples have the %s %s, so there is only one answer to learn%s",
            data->n_train, classes ? "class" : "label", qr_buf_string(&which),
            others ? qr_buf_string(&rest) : ""));
    qr_buf_free(&rest);
    qr_buf_free(&which);
    return true;
}

static void warn_missing_classes(const struct qr_job *job, const struct qr_dataset *data,
                                 struct qr_job_warnings *d) {
    if (job->train.loss != QR_CATEGORICAL_CROSSENTROPY) return;
    size_t missing = 0;
    struct qr_buf list = {0};
    uint8_t *there = qr_xcalloc(data->n_outputs, 1);
    for (size_t i = 0; i < data->n_train; i++) there[class_of(data, i)] = 1;
    for (size_t k = 0; k < data->n_outputs; k++)
        if (!there[k] && missing++ < SHOWN) {
            qr_buf_printf(&list, "%s%zu", missing > 1 ? ", " : "", k);
            if (k < data->classes.n && !data->unquoted)
                qr_buf_printf(&list, " (%.60s)", data->classes.v[k]);
        }
    free(there);
    if (missing)
        add_warning(d,
                    qr_xasprintf("data: no training sample has class %s%s; %s",
                                 qr_buf_string(&list), missing > SHOWN ? " ..." : "", shuffle_it));
    qr_buf_free(&list);
}

/* Squared errors and distances become small only if the outputs can reach the labels. */
static void warn_label_range(const struct qr_job *job, const struct qr_dataset *data,
                             struct qr_job_warnings *d) {
    if (qr_loss_info(job->train.loss)->accuracy != QR_BY_SIGN || job->train.loss == QR_HINGE ||
        data->n_outputs == 0 || (data->label_for_all && is_softmax(job)))
        return;
    struct range r = range_of_outputs(job), y = {INFINITY, -INFINITY};
    for (size_t i = 0; i < data->n_samples; i++)
        for (size_t k = 0; k < data->n_outputs; k++) {
            double label = label_of(data, i)[k];
            if (label < y.low) y.low = label;
            if (label > y.high) y.high = label;
        }
    if (y.low >= r.low - slack && y.high <= r.high + slack) return;
    add_warning(
        d, qr_xasprintf("data: the labels lie in %g to %g, but the model's outputs in %g to %g; "
                        "scale the labels, or end the model with a linear dense layer",
                        y.low, y.high, r.low, r.high));
}

static void warn_broadcast(const struct qr_job *job, const struct qr_dataset *data,
                           struct qr_job_warnings *d) {
    if (!data->label_for_all) return;
    if (is_softmax(job))
        add_warning(
            d, qr_xasprintf("data: a sample has one label, which %s compares with all %zu outputs "
                            "of softmax; use categorical_crossentropy, which takes class numbers, "
                            "or give one-hot labels y0 to y%zu",
                            qr_loss_names[job->train.loss], data->n_outputs, data->n_outputs - 1));
    else if (job->default_readouts && last_readouts(job))
        add_warning(d,
                    qr_xasprintf("data: a sample has one label, which is used for all %zu outputs: "
                                 "without readouts the layer reads Z of %zu qubits; give one in "
                                 "\"readouts\", or add a dense layer with 1 unit",
                                 data->n_outputs, data->n_outputs));
    else
        add_warning(d,
                    qr_xasprintf("data: a sample has one label, which is used for all %zu outputs; "
                                 "give labels y0 to y%zu, or a last layer with one output",
                                 data->n_outputs, data->n_outputs - 1));
}

/* ---- columns ---- */

/* Flags of the columns that the model reads; heap. */
static uint8_t *columns_read(const struct qr_job *job, const struct qr_dataset *data,
                             size_t *ret_n) {
    uint8_t *is = qr_xcalloc(data->n_columns, 1);
    *ret_n = 0;
    const struct qr_circuit *c = qr_layers_input_circuit(job->layers, job->n_layers);
    if (!c) memset(is, 1, data->n_columns);
    else if (c->n_columns <= data->n_columns) qr_circuit_used_columns(c, is);
    for (size_t j = 0; j < data->n_columns; j++) *ret_n += is[j];
    return is;
}

/* Appends the columns that are (or are not) read: "a, b", or their numbers. */
static void put_columns(const struct qr_dataset *data, const uint8_t *is, bool which,
                        struct qr_buf *b) {
    size_t n = 0;
    for (size_t j = 0; j < data->n_columns; j++) {
        if (is[j] != which || n++ >= SHOWN) continue;
        if (n > 1) qr_buf_puts(b, ", ");
        if (data->names && !data->unquoted) qr_buf_printf(b, "%.60s", data->names[j]);
        else qr_buf_printf(b, "%zu", j);
    }
    if (n > SHOWN) qr_buf_printf(b, " and %zu more", n - SHOWN);
}

void qr_job_put_inputs(const struct qr_job *job, const struct qr_dataset *data,
                       struct qr_buf *ret) {
    size_t n;
    if (job->data.source == QR_DATA_EXCITATIONS || job->data.source == QR_DATA_NONE) return;
    uint8_t *is = columns_read(job, data, &n);
    if (n == 0) qr_buf_puts(ret, "none");
    else if (!data->names || data->unquoted) qr_buf_puts(ret, n == 1 ? "column " : "columns ");
    put_columns(data, is, true, ret);
    if (n < data->n_columns) qr_buf_printf(ret, " (%zu of %zu columns)", n, data->n_columns);
    free(is);
}

/* Appends a hint if a weight has the name of a column that is not read. */
static void put_mistaken(const struct qr_job *job, const struct qr_dataset *data, const uint8_t *is,
                         struct qr_buf *ret) {
    const struct qr_circuit *c = qr_layers_input_circuit(job->layers, job->n_layers);
    for (size_t j = 0; c && data->names && j < data->n_columns; j++)
        for (unsigned k = 0; !is[j] && k < c->n_params; k++)
            if (strcmp(c->param_names[k], data->names[j]) == 0) {
                qr_buf_printf(ret,
                              "; %.60s is a weight of the circuit, write x.%.60s for the column",
                              data->names[j], data->names[j]);
                return;
            }
}

enum qr_code qr_job_check_columns(const struct qr_job *job, const struct qr_dataset *data,
                                  bool trains, struct qr_err *err) {
    size_t n;
    if (!job->data_may_be_wider || job->data.n_picked) return QR_OK;
    qr_auto(qr_free_p) uint8_t *is = columns_read(job, data, &n);
    enum qr_code code = QR_OK;
    if (n && n < data->n_columns && !trains) {
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "x has %zu columns, but the model reads %zu, and the weights hold no column "
                       "names; give the columns of the training data, in the same order",
                       data->n_columns, n);
    } else if (n && n < data->n_columns) {
        struct qr_buf left = {0}, pick = {0};
        put_columns(data, is, false, &left);
        put_mistaken(job, data, is, &left);
        for (size_t j = 0, k = 0; j < data->n_columns && pick.n < SHOWN_PICK; j++) {
            if (!is[j]) continue;
            qr_buf_puts(&pick, k++ ? ", " : "");
            if (data->names) qr_buf_printf(&pick, "\"%.60s\"", data->names[j]);
            else qr_buf_printf(&pick, "%zu", j);
        }
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "data: the circuit does not use column%s %s; if that is intended, list the "
                       "columns that it uses in data \"columns\": [%s], which are then x[0], x[1] "
                       "and so on",
                       data->n_columns - n == 1 ? "" : "s", qr_buf_string(&left),
                       qr_buf_string(&pick));
        qr_buf_free(&left);
        qr_buf_free(&pick);
    }
    return code;
}

static void warn_columns(const struct qr_job *job, const struct qr_dataset *data,
                         struct qr_job_warnings *d) {
    size_t n;
    uint8_t *is = columns_read(job, data, &n);
    if (n < data->n_columns) {
        struct qr_buf left = {0}, weight = {0};
        put_columns(data, is, false, &left);
        put_mistaken(job, data, is, &weight);
        add_warning(
            d,
            n ? qr_xasprintf("data: the circuit does not use column%s %s%s",
                             data->n_columns - n == 1 ? "" : "s", qr_buf_string(&left),
                             qr_buf_string(&weight))
              : qr_xasprintf(
                    "data: the circuit reads none of %zu columns (%s), so all samples have the "
                    "same output; use x[0] in one of its angles, or \"source\": \"none\" in data%s",
                    data->n_columns, qr_buf_string(&left), qr_buf_string(&weight)));
        qr_buf_free(&weight);
        qr_buf_free(&left);
    }
    free(is);
}

void qr_job_warnings(const struct qr_job *job, const struct qr_dataset *data,
                     struct qr_job_warnings *ret) {
    *ret = (struct qr_job_warnings){0};
    warn_outputs(job, ret);
    warn_metrics(job, ret);
    warn_learning(job, ret);
    add_warning(ret, qr_job_warn_constants(job));
    if (!data) return;
    warn_columns(job, data, ret);
    warn_broadcast(job, data, ret);
    if (!warn_single_label(job, data, ret)) warn_missing_classes(job, data, ret);
    warn_label_range(job, data, ret);
    add_warning(ret, qr_job_warn_angles(job, data));
    add_warning(ret, qr_job_warn_batch(job, data));
}
