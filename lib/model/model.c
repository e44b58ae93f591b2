#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "exact/random.h"
#include "model/model_impl.h"

/* A Pauli string lies in [-1, 1]. */
static double bound_of(const struct qr_observable *o, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t t = 0; t < o[i].n_terms; t++) sum += fabs(o[i].terms[t].coefficient);
        if (sum > most) most = sum;
    }
    return most;
}

static enum qr_code set_quantum(struct qr_model *m, const struct qr_model_options *opt,
                                struct qr_err *err) {
    if (!opt->circuit) return QR_OK;
    if (!opt->n_readouts || !opt->n_filters)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "a quantum layer needs at least one read-out and one filter");
    m->circuit = qr_circuit_copy(opt->circuit);
    enum qr_code code =
        qr_sim_compile(m->circuit, opt->readouts, opt->n_readouts, &opt->sim, &m->plan, err);
    if (code != QR_OK) return qr_wrap(err, "quantum layer");
    m->n_filters = opt->n_filters;
    m->n_theta = m->circuit->n_params;
    m->n_readouts_each = opt->n_readouts;
    m->n_readouts = m->n_filters * m->n_readouts_each;
    m->readout_bound = bound_of(opt->readouts, opt->n_readouts);
    m->n_inputs = m->circuit->n_columns;
    m->n_sims = qr_sim_micro_batches_in_parallel(m->plan) ? m->n_filters : 1;
    m->zero_gradient = qr_xcalloc(m->n_theta + 1, 1);
    qr_circuit_zero_gradient(m->circuit, opt->readouts, opt->n_readouts, m->zero_gradient);
    return QR_OK;
}

static void add_tensor(struct qr_model *m, unsigned rank, size_t rows, size_t columns, bool quantum,
                       const char *layer, size_t nth, const char *what) {
    struct qr_model_tensor *t = &m->tensors[m->n_tensors++];
    *t = (struct qr_model_tensor){.rank = rank,
                                  .dims = {rows, columns},
                                  .offset = m->n_params,
                                  .n = rows * columns,
                                  .quantum = quantum};
    if (rank == 1) t->dims[1] = 0;
    if (nth) snprintf(t->name, sizeof t->name, "%s_%zu/%s", layer, nth, what);
    else snprintf(t->name, sizeof t->name, "%s/%s", layer, what);
    m->n_params += t->n;
}

/* Those that do nothing are not kept. */
static void set_penalties(struct qr_model *m, const struct qr_model_options *opt) {
    bool any = false;
    for (size_t i = 0; opt->penalties && i < opt->n_dense; i++)
        any |= opt->penalties[i].l1 > 0 || opt->penalties[i].l2 > 0;
    if (!any) return;
    m->penalties = qr_xcalloc(opt->n_dense, sizeof *m->penalties);
    memcpy(m->penalties, opt->penalties, opt->n_dense * sizeof *m->penalties);
}

static enum qr_code set_layers(struct qr_model *m, const struct qr_model_options *opt,
                               struct qr_err *err) {
    enum { MOST_LAYERS = 1000 };
    const size_t most_params = (size_t)1 << 36;
    if (opt->n_dense > MOST_LAYERS || m->n_filters > MOST_LAYERS)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%zu dense layers and %zu filters: at most %d of each", opt->n_dense,
                       m->n_filters, MOST_LAYERS);
    m->tensors = qr_xcalloc(m->n_filters + 2 * opt->n_dense + 1, sizeof *m->tensors);
    m->dense = qr_xcalloc(opt->n_dense + 1, sizeof *m->dense);
    for (size_t f = 0; f < m->n_filters; f++)
        add_tensor(m, 1, m->n_theta, 1, true, "pqc", f, "parameters");
    size_t width = m->circuit ? m->n_readouts : m->n_inputs;
    m->widest = width;
    m->affine = m->circuit != NULL;
    for (size_t i = 0; i < opt->n_dense; i++) {
        size_t units = opt->dense[i].units;
        if (units < 1)
            return qr_fail(err, QR_INVALID_ARGUMENT,
                           "dense layer %zu has 0 units; give it at least 1", i);
        if (width > most_params / units)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                           "dense layer %zu: %zu x %zu weights are more than %zu; make it smaller",
                           i, width, units, most_params);
        m->dense[i] = (struct qr_dense){.n_in = width,
                                        .units = units,
                                        .activation = opt->dense[i].activation,
                                        .kernel = m->n_params,
                                        .by = m->kernels};
        add_tensor(m, 2, width, units, false, "dense", i, "kernel");
        m->dense[i].bias = m->n_params;
        add_tensor(m, 1, units, 1, false, "dense", i, "bias");
        m->affine &= opt->dense[i].activation == QR_LINEAR;
        width = units;
        if (width > m->widest) m->widest = width;
    }
    m->n_dense = opt->n_dense;
    set_penalties(m, opt);
    m->n_outputs = width;
    m->affine &= width == 1;
    /* weights, gradient, moments, sums, twice the state */
    uint64_t need = (uint64_t)m->n_params * 96, there = qr_memory_limit_bytes();
    if (need > there)
        return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                       "%zu weights need about %llu bytes, and there are %llu; use a smaller model "
                       "or a larger limit",
                       m->n_params, (unsigned long long)need, (unsigned long long)there);
    return QR_OK;
}

static enum qr_code set_loss(struct qr_model *m, const struct qr_model_options *opt,
                             struct qr_err *err) {
    m->loss = opt->loss;
    m->loss_options = opt->loss_options;
    m->weighted = opt->weighted;
    m->before_activation =
        m->n_dense && qr_loss_from_logits(m->loss, m->dense[m->n_dense - 1].activation);
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
    m->metrics = qr_xcalloc(opt->n_metrics + 1, sizeof *m->metrics);
    m->sum_at = qr_xcalloc(opt->n_metrics + 1, sizeof *m->sum_at);
    m->n_sums = 1;
    for (size_t i = 0; i < opt->n_metrics; i++) {
        m->metrics[i] = opt->metrics[i];
        m->sum_at[1 + i] = m->n_sums;
        m->n_sums += qr_metric_n_sums(opt->metrics[i], &m->metric_options, m->n_outputs);
    }
    m->n_metrics = opt->n_metrics;
    return QR_OK;
}

enum qr_code qr_model_new(const struct qr_model_options *opt, struct qr_model **ret,
                          struct qr_err *err) {
    enum { MOST_SAMPLES = 1 << 20 };
    if (opt->micro_batch_size < 1 || opt->micro_batch_size > MOST_SAMPLES)
        return qr_fail(err, QR_INVALID_ARGUMENT, "micro_batch_size is %zu; it must be 1 to %d",
                       opt->micro_batch_size, MOST_SAMPLES);
    if (!opt->circuit && (!opt->n_inputs || !opt->n_dense))
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "a model without a quantum layer needs data columns and at least one dense layer");
    struct qr_model *m = qr_xcalloc(1, sizeof *m);
    m->micro_batch_size = opt->micro_batch_size;
    m->n_inputs = opt->n_inputs;
    m->kernels = qr_dense_kernels_of(opt->sim.isa);
    enum qr_code code = set_quantum(m, opt, err);
    if (code == QR_OK) code = set_layers(m, opt, err);
    if (code == QR_OK) code = set_loss(m, opt, err);
    if (code != QR_OK) {
        qr_model_free(m);
        return code;
    }
    *ret = m;
    return QR_OK;
}

void qr_model_free(struct qr_model *m) {
    if (!m) return;
    if (m->plan) qr_sim_plan_free(m->plan);
    if (m->circuit) qr_circuit_free(m->circuit);
    free(m->zero_gradient);
    free(m->dense);
    free(m->penalties);
    free(m->tensors);
    free(m->metrics);
    free(m->sum_at);
    free(m->class_weight);
    free(m->output_weights);
    free(m);
}

size_t qr_model_n_params(const struct qr_model *m) { return m->n_params; }
size_t qr_model_n_tensors(const struct qr_model *m) { return m->n_tensors; }
const struct qr_model_tensor *qr_model_tensor(const struct qr_model *m, size_t i) {
    QR_ASSERT(i < m->n_tensors);
    return &m->tensors[i];
}
const struct qr_circuit *qr_model_circuit(const struct qr_model *m) { return m->circuit; }
const struct qr_sim_plan *qr_model_plan(const struct qr_model *m) { return m->plan; }
bool qr_model_head_known(const struct qr_model *m) { return m->affine; }
size_t qr_model_n_inputs(const struct qr_model *m) { return m->n_inputs; }
size_t qr_model_n_outputs(const struct qr_model *m) { return m->n_outputs; }
size_t qr_model_n_readouts(const struct qr_model *m) { return m->n_readouts; }
double qr_model_readout_bound(const struct qr_model *m) { return m->readout_bound; }
size_t qr_model_n_filters(const struct qr_model *m) { return m->n_filters; }
size_t qr_model_micro_batch_size(const struct qr_model *m) { return m->micro_batch_size; }
size_t qr_model_n_sums(const struct qr_model *m) { return m->n_sums; }
size_t qr_model_n_values(const struct qr_model *m) { return 1 + m->n_metrics; }
size_t qr_model_n_label_columns(const struct qr_model *m) { return m->n_labels + m->weighted; }

void qr_model_zero_gradient(const struct qr_model *m, uint8_t *ret) {
    memset(ret, 0, m->n_params);
    for (size_t f = 0; f < m->n_filters; f++)
        memcpy(ret + f * m->n_theta, m->zero_gradient, m->n_theta);
}

void qr_model_init(const struct qr_model *m, uint64_t seed, double *ret_params) {
    static const double two_pi = 0x1.921fb54442d18p+2;
    for (size_t t = 0; t < m->n_tensors; t++) {
        const struct qr_model_tensor *tensor = &m->tensors[t];
        double limit = tensor->rank == 2
                           ? sqrt(6.0 / ((double)tensor->dims[0] + (double)tensor->dims[1]))
                           : 0.0;
        for (size_t i = 0; i < tensor->n; i++) {
            double u = qr_random_uniform(seed, QR_RANDOM_INIT, (uint32_t)t, i);
            ret_params[tensor->offset + i] = tensor->quantum ? two_pi * u : limit * (2.0 * u - 1.0);
        }
        if (!tensor->quantum && tensor->rank == 1)
            memset(ret_params + tensor->offset, 0, tensor->n * sizeof *ret_params);
    }
}

bool qr_model_micro_batches_in_parallel(const struct qr_model *m) {
    return !m->plan || qr_sim_micro_batches_in_parallel(m->plan);
}

struct means {
    const struct qr_model *m;
    const qr_fixed *grad;
    double by, *ret;
};

enum { MEANS = 1 << 14 }; /* of one task */
static void means_task(void *ctx, size_t i, unsigned worker) {
    const struct means *t = ctx;
    size_t at = i * MEANS, left = t->m->n_params - at;
    (void)worker;
    t->m->kernels->means(t->ret + at, t->grad + at, left < MEANS ? left : MEANS, t->by);
}

void qr_model_mean_gradient(const struct qr_model *m, struct qr_pool *pool, const qr_fixed *grad,
                            uint64_t n, double *ret) {
    struct means t = {m, grad, (double)n, ret};
    size_t tasks = (m->n_params + MEANS - 1) / MEANS;
    if (pool && tasks > 1) qr_pool_for(pool, tasks, means_task, &t);
    else
        for (size_t i = 0; i < tasks; i++) means_task(&t, i, 0);
}

static double value_of(const struct qr_model *m, size_t i, struct qr_metric_sums sums, double n) {
    QR_ASSERT(i < qr_model_n_values(m));
    if (i == 0) return n > 0 ? qr_metric_sum(sums, 0) / n : 0;
    if (sums.fixed) sums.fixed += m->sum_at[i];
    else sums.real += m->sum_at[i];
    return qr_metric_value(m->metrics[i - 1], &m->metric_options, m->n_outputs, sums, n);
}

double qr_model_mean(const struct qr_model *m, size_t i, const qr_fixed *sums, uint64_t n) {
    QR_ASSERT(n > 0);
    return value_of(m, i, (struct qr_metric_sums){.fixed = sums}, (double)n);
}

double qr_model_running_mean(const struct qr_model *m, size_t i, const double *sums, double n) {
    return value_of(m, i, (struct qr_metric_sums){.real = sums}, n);
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
        l.with_accuracy |=
            m->metrics[i] == QR_ACCURACY || m->metrics[i] == QR_CONFUSION_MATRIX;
        l.with_bits |= qr_metric_wants_bits(m->metrics[i]);
    }
    return qr_loss_check_labels(m->loss, &l, err);
}
