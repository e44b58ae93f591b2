/* model/model.c — builds a model from its layers, loss and metrics. Start reading at
 * qr_model_new(). */
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "exact/random.h"
#include "model/model_impl.h"

/* ---- a chain of layers ---- */

static bool keeps_values(enum qr_layer_kind kind) {
    return kind != QR_LAYER_QUANTUM && kind != QR_LAYER_DENSE;
}

const struct qr_circuit *qr_layers_input_circuit(const struct qr_layer_options *layers, size_t n) {
    size_t i = 0;
    while (i < n && keeps_values(layers[i].kind)) i++;
    return i < n && layers[i].kind == QR_LAYER_QUANTUM ? layers[i].quantum.circuit : NULL;
}

size_t qr_layers_n_outputs(const struct qr_layer_options *layers, size_t n) {
    while (n > 0 && keeps_values(layers[n - 1].kind)) n--;
    if (!n) return 0;
    const struct qr_layer_options *last = &layers[n - 1];
    return last->kind == QR_LAYER_DENSE ? last->dense.units
                                        : last->quantum.n_readouts * last->quantum.n_filters;
}

/* The index of the last quantum layer, if only linear dense layers with one final output follow;
 * else n. */
static size_t known_head(const struct qr_layer_options *layers, size_t n) {
    size_t i = n;
    while (i > 0 && layers[i - 1].kind == QR_LAYER_DENSE &&
           layers[i - 1].dense.activation == QR_LINEAR)
        i--;
    bool known =
        i > 0 && layers[i - 1].kind == QR_LAYER_QUANTUM && qr_layers_n_outputs(layers, n) == 1;
    return known ? i - 1 : n;
}

static enum qr_code check_width(const struct qr_layer *l, const struct qr_layer_options *o,
                                struct qr_err *err) {
    if (l->kind != QR_LAYER_QUANTUM || o->quantum.circuit->n_columns == l->n_in) return QR_OK;
    return qr_fail(
        err, QR_INVALID_ARGUMENT,
        "its circuit takes %u input%s, and %s gives %zu: give the circuit as many columns, "
        "or put a dense layer of %u unit%s between",
        o->quantum.circuit->n_columns, o->quantum.circuit->n_columns == 1 ? "" : "s",
        l->number ? "the layer before it" : "the data", l->n_in, o->quantum.circuit->n_columns,
        o->quantum.circuit->n_columns == 1 ? "" : "s");
}

/* Span names in the form that the profile plugin parses: a name, and a type that begins with a
 * capital letter, with the engine of a quantum layer. */
static void name_spans(struct qr_layer *l) {
    char number[16] = "";
    const char *kind = l->table->name;
    bool quantum = l->kind == QR_LAYER_QUANTUM;
    if (!*l->name) snprintf(number, sizeof number, "_%u", l->number);
    snprintf(l->span, sizeof l->span, "%s%s:%c%s%s%s", *l->name ? l->name : kind, number,
             kind[0] - 'a' + 'A', kind + 1, quantum ? "_" : "",
             quantum ? qr_sim_engine_name(l->quantum.plan) : "");
}

static enum qr_code make_layer(struct qr_model *m, const struct qr_model_options *opt, size_t i,
                               bool learns_before, struct qr_err *err) {
    const struct qr_layer_context place = {.micro_batch_size = opt->micro_batch_size,
                                           .sim = opt->sim};
    const struct qr_layer_options *o = &opt->layers[i];
    struct qr_layer *l = &m->layers[i];
    l->table = qr_layer_tables[o->kind];
    l->kind = o->kind;
    l->number = (uint32_t)i;
    if (o->name) snprintf(l->name, sizeof l->name, "%s", o->name);
    l->n_in = i ? m->layers[i - 1].n_out : m->n_inputs;
    l->first_param = m->n_params;
    l->learns = l->table->n_tensors && !o->frozen;
    /* Read-outs of a known head get no derivatives: the row has them */
    l->flows = learns_before && !(m->known < m->n_layers && i == m->known + 1);
    enum qr_code code = check_width(l, o, err);
    if (code == QR_OK) code = l->table->make(l, o, &place, err);
    if (code != QR_OK && err)
        return opt->n_layers > 1
                   ? qr_wrap(err, "%s layer, number %zu of the model", l->table->name, i)
                   : qr_wrap(err, "%s layer", l->table->name);
    if (code != QR_OK) return code;
    name_spans(l);
    m->n_params += l->n_params;
    if (l->n_out > m->widest) m->widest = l->n_out;
    if (l->kind == QR_LAYER_QUANTUM) m->quantum = i;
    if (l->kind == QR_LAYER_QUANTUM) l->quantum.known = i == m->known;
    m->penalized |= l->kind == QR_LAYER_DENSE && (l->l1 > 0 || l->l2 > 0);
    return QR_OK;
}

static void add_tensor(struct qr_model *m, const struct qr_layer *l,
                       const struct qr_layer_tensor *of, size_t nth) {
    const char *layer = *l->name ? l->name : of->layer;
    struct qr_model_tensor *t = &m->tensors[m->n_tensors];
    size_t before = m->n_tensors ? t[-1].offset + t[-1].n : 0;
    *t =
        (struct qr_model_tensor){.rank = of->rank,
                                 .dims = {of->dims[0], of->rank == 2 ? of->dims[1] : 0},
                                 .offset = before,
                                 .n = of->dims[0] * (of->rank == 2 ? of->dims[1] : 1),
                                 .circuit = l->kind == QR_LAYER_QUANTUM ? l->quantum.circuit : NULL,
                                 .frozen = !l->learns};
    if (nth) snprintf(t->name, sizeof t->name, "%s_%zu/%s", layer, nth, of->what);
    else snprintf(t->name, sizeof t->name, "%s/%s", layer, of->what);
    m->n_tensors++;
}

/* Keras numbers the unnamed layers of a kind in order of appearance; the first has no number. The
 * filters of a named layer are numbered the same way. */
static void name_tensors(struct qr_model *m) {
    size_t n = 0, seen[QR_LAYERS] = {0};
    for (size_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].table->n_tensors) n += m->layers[i].table->n_tensors(&m->layers[i]);
    m->tensors = qr_xcalloc(n + 1, sizeof *m->tensors);
    for (size_t i = 0; i < m->n_layers; i++) {
        const struct qr_layer *l = &m->layers[i];
        bool one_each = false;
        size_t own = 0, *nth = *l->name ? &own : &seen[l->kind];
        for (size_t k = 0; l->table->n_tensors && k < l->table->n_tensors(l); k++) {
            struct qr_layer_tensor t = l->table->tensor(l, k);
            one_each = t.one_each;
            add_tensor(m, l, &t, *nth);
            *nth += one_each;
        }
        *nth += !one_each;
    }
}

static enum qr_code set_layers(struct qr_model *m, const struct qr_model_options *opt,
                               struct qr_err *err) {
    enum { MAX_LAYERS = 1000 };
    if (opt->n_layers > MAX_LAYERS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%zu layers: at most %d", opt->n_layers,
                       MAX_LAYERS);
    m->layers = qr_xcalloc(opt->n_layers, sizeof *m->layers);
    m->n_layers = m->quantum = opt->n_layers;
    m->known = known_head(opt->layers, opt->n_layers);
    m->widest = m->n_inputs;
    bool learns = false;
    for (size_t i = 0; i < opt->n_layers; i++) {
        QR_TRY(make_layer(m, opt, i, learns, err));
        learns |= m->layers[i].learns;
    }
    m->n_outputs = m->layers[m->n_layers - 1].n_out;
    name_tensors(m);
    /* Weights, gradient, moments, sums, twice the state */
    uint64_t need = (uint64_t)m->n_params * 96, there = qr_memory_limit_bytes();
    if (need > there)
        return qr_fail(
            err, QR_RESOURCE_EXHAUSTED,
            "%zu weights need about %llu bytes, but %llu are available; use a smaller model "
            "or a larger limit",
            m->n_params, (unsigned long long)need, (unsigned long long)there);
    return QR_OK;
}

/* The last activation before the model's outputs. */
static enum qr_activation output_activation(const struct qr_model *m) {
    const struct qr_layer *last = &m->layers[m->n_layers - 1];
    return last->kind == QR_LAYER_DENSE        ? last->dense.activation
           : last->kind == QR_LAYER_ACTIVATION ? last->activation
                                               : QR_LINEAR;
}

static void name_value(struct qr_model *m, size_t i, const char *name) {
    m->value_names[i] = qr_xstrdup(name);
    m->value_names[qr_model_n_values(m) + i] = qr_xasprintf("val_%s", name);
}

static size_t n_watched(const struct qr_layer_options *l) {
    return l->kind == QR_LAYER_QUANTUM ? l->quantum.n_watched : 0;
}

/* Sets the names of all values, and the positions of their sums. */
static void set_values(struct qr_model *m, const struct qr_model_options *opt) {
    m->n_metrics = opt->n_metrics;
    for (size_t i = 0; i < opt->n_layers; i++) m->n_watched += n_watched(&opt->layers[i]);
    size_t n = qr_model_n_values(m), at = 1 + m->n_metrics;
    m->metrics = qr_xcalloc(m->n_metrics + 1, sizeof *m->metrics);
    m->sum_at = qr_xcalloc(n, sizeof *m->sum_at);
    m->value_names = qr_xcalloc(2 * n, sizeof *m->value_names);
    m->n_sums = 1;
    name_value(m, 0, "loss");
    for (size_t i = 0; i < m->n_metrics; i++) {
        m->metrics[i] = opt->metrics[i];
        m->sum_at[1 + i] = m->n_sums;
        m->n_sums += qr_metric_n_sums(opt->metrics[i], &m->metric_options, m->n_outputs);
        name_value(m, 1 + i, qr_metric_names[m->metrics[i]]);
    }
    for (size_t i = 0; i < opt->n_layers; i++)
        for (size_t k = 0; k < n_watched(&opt->layers[i]); k++) {
            m->sum_at[at] = m->n_sums++;
            name_value(m, at++, opt->layers[i].quantum.watched_names[k]);
        }
}

static enum qr_code set_loss(struct qr_model *m, const struct qr_model_options *opt,
                             struct qr_err *err) {
    m->loss = opt->loss;
    m->loss_options = opt->loss_options;
    m->weighted = opt->weighted;
    m->before_activation = m->layers[m->n_layers - 1].table->before_activation &&
                           qr_loss_from_logits(m->loss, output_activation(m));
    if (opt->n_class_weights) {
        QR_ASSERT(qr_loss_has_classes(m->loss));
        m->class_weight = qr_xcalloc(opt->n_class_weights, sizeof *m->class_weight);
        memcpy(m->class_weight, opt->class_weight, opt->n_class_weights * sizeof *m->class_weight);
    }
    m->n_labels = qr_loss_info(m->loss)->no_labels ? 0 : m->n_outputs;
    if (opt->loss_options.weights) {
        m->output_weights = qr_xcalloc(m->n_outputs, sizeof *m->output_weights);
        memcpy(m->output_weights, opt->loss_options.weights,
               m->n_outputs * sizeof *m->output_weights);
        m->loss_options.weights = m->output_weights;
    }
    if (qr_loss_info(m->loss)->accuracy == QR_BY_LARGEST && m->n_outputs < 2)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s needs at least 2 outputs, one per class; with 1 use binary_crossentropy",
                       qr_loss_names[m->loss]);
    m->metric_options = (struct qr_metric_options){
        .loss = m->loss, .from_logits = m->loss_options.from_logits, .top_k = opt->top_k};
    set_values(m, opt);
    return QR_OK;
}

enum qr_code qr_model_new(const struct qr_model_options *opt, struct qr_model **ret,
                          struct qr_err *err) {
    enum { MAX_SAMPLES = 1 << 20 };
    if (opt->micro_batch_size < 1 || opt->micro_batch_size > MAX_SAMPLES)
        return qr_fail(err, QR_INVALID_ARGUMENT, "micro_batch_size is %zu; it must be 1 to %d",
                       opt->micro_batch_size, MAX_SAMPLES);
    const struct qr_circuit *reads = qr_layers_input_circuit(opt->layers, opt->n_layers);
    if (!opt->n_layers)
        return qr_fail(err, QR_INVALID_ARGUMENT, "a model needs at least one layer");
    if (!opt->n_inputs && !reads)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "a model that does not begin with a quantum layer needs data columns");
    struct qr_model *m = qr_xcalloc(1, sizeof *m);
    m->micro_batch_size = opt->micro_batch_size;
    m->seed = opt->seed;
    m->n_inputs = reads ? reads->n_columns : opt->n_inputs;
    m->kernels = qr_dense_kernels_of(opt->sim.isa);
    enum qr_code code = set_layers(m, opt, err);
    if (code == QR_OK) code = set_loss(m, opt, err);
    if (code == QR_OK && opt->natural_gradient)
        code = qr_natural_gradient_new(reads, opt->sim.isa, &m->natural, err);
    if (code != QR_OK) {
        qr_model_free(m);
        return code;
    }
    *ret = m;
    return QR_OK;
}

void qr_model_free(struct qr_model *m) {
    if (!m) return;
    for (size_t i = 0; m->layers && i < m->n_layers; i++)
        if (m->layers[i].table && m->layers[i].table->free) m->layers[i].table->free(&m->layers[i]);
    free(m->layers);
    free(m->tensors);
    free(m->metrics);
    for (size_t i = 0; m->value_names && i < 2 * qr_model_n_values(m); i++) free(m->value_names[i]);
    free(m->value_names);
    free(m->sum_at);
    free(m->class_weight);
    free(m->output_weights);
    qr_natural_gradient_free(m->natural);
    free(m);
}

size_t qr_model_n_params(const struct qr_model *m) { return m->n_params; }
size_t qr_model_n_frozen(const struct qr_model *m) {
    size_t n = 0;
    for (size_t i = 0; i < qr_model_n_tensors(m); i++)
        if (qr_model_tensor(m, i)->frozen) n += qr_model_tensor(m, i)->n;
    return n;
}
size_t qr_model_n_tensors(const struct qr_model *m) { return m->n_tensors; }
const struct qr_model_tensor *qr_model_tensor(const struct qr_model *m, size_t i) {
    QR_ASSERT(i < m->n_tensors);
    return &m->tensors[i];
}
size_t qr_model_n_inputs(const struct qr_model *m) { return m->n_inputs; }
size_t qr_model_n_outputs(const struct qr_model *m) { return m->n_outputs; }
size_t qr_model_n_layers(const struct qr_model *m) { return m->n_layers; }

struct qr_model_layer qr_model_layer(const struct qr_model *m, size_t i) {
    QR_ASSERT(i < m->n_layers);
    const struct qr_layer *l = &m->layers[i];
    struct qr_model_layer ret = {.kind = l->kind,
                                 .n_in = l->n_in,
                                 .n_out = l->n_out,
                                 .n_params = l->n_params,
                                 .frozen = l->table->n_tensors && !l->learns};
    if (l->kind != QR_LAYER_QUANTUM) return ret;
    ret.circuit = l->quantum.circuit;
    ret.plan = l->quantum.plan;
    ret.n_filters = l->quantum.n_filters;
    ret.head_known = l->quantum.known;
    return ret;
}

size_t qr_model_quantum(const struct qr_model *m, size_t nth) {
    size_t i = 0;
    while (i < m->n_layers && (m->layers[i].kind != QR_LAYER_QUANTUM || nth-- > 0)) i++;
    return i;
}

size_t qr_model_n_readouts(const struct qr_model *m) {
    return m->quantum < m->n_layers ? m->layers[m->quantum].n_out : 0;
}
double qr_model_readout_bound(const struct qr_model *m) {
    return m->quantum < m->n_layers ? m->layers[m->quantum].quantum.readout_bound : 0;
}
size_t qr_model_micro_batch_size(const struct qr_model *m) { return m->micro_batch_size; }
size_t qr_model_n_sums(const struct qr_model *m) { return m->n_sums; }
size_t qr_model_n_values(const struct qr_model *m) { return 1 + m->n_metrics + m->n_watched; }
const char *qr_model_value_name(const struct qr_model *m, size_t i, bool validation) {
    QR_ASSERT(i < qr_model_n_values(m));
    return m->value_names[validation ? qr_model_n_values(m) + i : i];
}
size_t qr_model_n_label_columns(const struct qr_model *m) { return m->n_labels + m->weighted; }

void qr_model_zero_gradient(const struct qr_model *m, uint8_t *ret) {
    memset(ret, 0, m->n_params);
    for (size_t i = 0; i < m->n_layers; i++) {
        const struct qr_layer *l = &m->layers[i];
        if (!l->learns) memset(ret + l->first_param, 1, l->n_params);
        else if (l->kind == QR_LAYER_QUANTUM)
            for (size_t f = 0; f < l->quantum.n_filters; f++)
                memcpy(ret + l->first_param + f * l->quantum.n_theta, l->quantum.zero_gradient,
                       l->quantum.n_theta);
    }
}

uint64_t qr_model_seed(const struct qr_model *m) { return m->seed; }

void qr_model_init(const struct qr_model *m, uint64_t seed, double *ret_params) {
    static const double two_pi = 0x1.921fb54442d18p+2;
    for (size_t t = 0; t < m->n_tensors; t++) {
        const struct qr_model_tensor *tensor = &m->tensors[t];
        double limit = tensor->rank == 2
                           ? sqrt(6.0 / ((double)tensor->dims[0] + (double)tensor->dims[1]))
                           : 0.0;
        for (size_t i = 0; i < tensor->n; i++) {
            double u = qr_random_uniform(seed, QR_RANDOM_INIT, (uint32_t)t, i);
            ret_params[tensor->offset + i] = tensor->circuit ? two_pi * u : limit * (2.0 * u - 1.0);
        }
        if (!tensor->circuit && tensor->rank == 1)
            memset(ret_params + tensor->offset, 0, tensor->n * sizeof *ret_params);
    }
}

bool qr_model_micro_batches_in_parallel(const struct qr_model *m) {
    for (size_t i = 0; i < m->n_layers; i++) {
        const struct qr_layer_quantum *q = &m->layers[i].quantum;
        if (m->layers[i].kind != QR_LAYER_QUANTUM) continue;
        if (!qr_sim_micro_batches_in_parallel(q->plan)) return false;
        if (q->watch_plan && !qr_sim_micro_batches_in_parallel(q->watch_plan)) return false;
    }
    return true;
}

void qr_model_mean_gradient(const struct qr_model *m, size_t from, size_t end, const qr_fixed *grad,
                            uint64_t n, double *ret) {
    m->kernels->means(ret + from, grad + from, end - from, (double)n);
}

void qr_model_natural_gradient(const struct qr_model *m, const double *params,
                               double regularization, struct qr_pool *pool, double *ret) {
    const struct qr_layer_quantum *q = &m->layers[m->quantum].quantum;
    for (size_t f = 0; f < q->n_filters; f++)
        qr_natural_gradient_apply(m->natural, params + f * q->n_theta, regularization, pool,
                                  ret + f * q->n_theta);
}

static double value_from_sums(const struct qr_model *m, size_t i, struct qr_metric_sums sums,
                              double n) {
    QR_ASSERT(i < qr_model_n_values(m));
    if (i == 0 || i > m->n_metrics) return n > 0 ? qr_metric_sum(sums, m->sum_at[i]) / n : 0;
    if (sums.fixed) sums.fixed += m->sum_at[i];
    else sums.real += m->sum_at[i];
    return qr_metric_value(m->metrics[i - 1], &m->metric_options, m->n_outputs, sums, n);
}

double qr_model_mean(const struct qr_model *m, size_t i, const qr_fixed *sums, uint64_t n) {
    QR_ASSERT(n > 0);
    return value_from_sums(m, i, (struct qr_metric_sums){.fixed = sums}, (double)n);
}

double qr_model_running_mean(const struct qr_model *m, size_t i, const double *sums, double n) {
    return value_from_sums(m, i, (struct qr_metric_sums){.real = sums}, n);
}

size_t qr_model_confusion(const struct qr_model *m, size_t *ret_at) {
    for (size_t i = 0; i < m->n_metrics; i++)
        if (m->metrics[i] == QR_CONFUSION_MATRIX) {
            *ret_at = m->sum_at[1 + i] + 1;
            return qr_metric_classes(&m->metric_options, m->n_outputs);
        }
    return 0;
}

enum qr_code qr_model_check_labels(const struct qr_model *m, const double *y, const uint32_t *row,
                                   size_t n_samples, struct qr_err *err) {
    struct qr_labels l = {.y = y,
                          .n_samples = n_samples,
                          .k = m->n_labels,
                          .stride = qr_model_n_label_columns(m),
                          .row = row};
    for (size_t i = 0; i < m->n_metrics; i++) {
        l.with_accuracy |= m->metrics[i] == QR_ACCURACY || m->metrics[i] == QR_CONFUSION_MATRIX;
        l.with_bits |= qr_metric_binary_labels(m->metrics[i]);
    }
    return qr_loss_check_labels(m->loss, &l, err);
}
