/* model/optimizer.c — what all optimizers share: clipping, decay, average. Start reading at
 * qr_optimizer_apply(). */
#include "model/optimizer_impl.h"

#include <math.h>
#include <string.h>

#include "base/err.h"

const char *const qr_optimizer_names[QR_OPTIMIZERS] = {QR_OPTIMIZER_ROWS(QR_ROW_NAME)};

static const struct qr_optimizer_rule *rule_of(enum qr_optimizer_kind kind) {
#define RULE(kind, name, rule) [kind] = &rule,
    static const struct qr_optimizer_rule *const rules[QR_OPTIMIZERS] = {QR_OPTIMIZER_ROWS(RULE)};
    return rules[kind];
}

struct qr_optimizer_options qr_optimizer_defaults(enum qr_optimizer_kind kind) {
    struct qr_optimizer_options o = {
        .kind = kind,
        .learning_rate = rule_of(kind)->learning_rate,
        .rho = 0.9,
        .beta_1 = 0.9,
        .beta_2 = 0.999,
        .epsilon = 1e-7,
        .initial_accumulator = 0.1,
        .ema_momentum = 0.99,
        .perturbation = 0.2,
        .stability = 10,
        .alpha = 0.602,
        .gamma = 0.101,
        .memory = 10,
        .gradient_tolerance = 1e-5,
        .loss_tolerance = 2.2e-9,
        .schedule = qr_rate_schedule_defaults(),
    };
    if (rule_of(kind)->set_defaults) rule_of(kind)->set_defaults(&o);
    return o;
}

size_t qr_optimizer_keys(enum qr_optimizer_kind kind, const char *ret[QR_OPTIMIZER_KEYS]) {
    const struct qr_optimizer_rule *r = rule_of(kind);
    size_t n = 0;
    for (; n < QR_OPTIMIZER_KEYS && r->keys[n]; n++) ret[n] = r->keys[n];
    return n;
}

/* Moments of the rule; the average of the weights follows them. */
static size_t n_rule_moments(const struct qr_optimizer_options *o) {
    const char *names[QR_OPTIMIZER_MOMENTS];
    return rule_of(o->kind)->moments(o, names);
}

size_t qr_optimizer_n_moments(const struct qr_optimizer_options *o) {
    return n_rule_moments(o) + o->use_ema;
}

size_t qr_optimizer_n_products(const struct qr_optimizer_options *o) {
    return rule_of(o->kind)->n_products;
}

const char *qr_optimizer_moment_name(const struct qr_optimizer_options *o, size_t i) {
    const char *names[QR_OPTIMIZER_MOMENTS];
    size_t n = rule_of(o->kind)->moments(o, names);
    QR_ASSERT(i < n + o->use_ema);
    return i < n ? names[i] : "average";
}

void qr_optimizer_init(const struct qr_optimizer_options *o, size_t n, double *moments,
                       double *products) {
    size_t n_values = qr_optimizer_n_moments(o) * n;
    if (n_values) memset(moments, 0, n_values * sizeof *moments);
    if (rule_of(o->kind)->begin) {
        double value = rule_of(o->kind)->begin(o);
        for (size_t i = 0; i < n_rule_moments(o) * n; i++) moments[i] = value;
    }
    for (size_t i = 0; i < qr_optimizer_n_products(o); i++) products[i] = 1.0;
}

const double *qr_optimizer_result(const struct qr_optimizer_options *o, uint64_t step, size_t n,
                                  const double *weights, const double *moments) {
    if (step == 0) return weights;
    return rule_of(o->kind)->evaluated ? moments
           : o->use_ema                ? moments + n_rule_moments(o) * n
                                       : weights;
}

double qr_learning_rate_at(const struct qr_optimizer_options *o, uint64_t step) {
    double rate = qr_rate_schedule_at(&o->schedule, o->learning_rate, step);
    return rule_of(o->kind)->gain ? rate * rule_of(o->kind)->gain(o, step) : rate;
}

static double sum_of_squares(const double *g, size_t n) {
    double s = 0;
    for (size_t i = 0; i < n; i++) s += g[i] * g[i];
    return s;
}

/* tf.clip_by_value, tf.clip_by_norm per tensor, tf.clip_by_global_norm: one of them, in Keras'
 * order of precedence. */
static void clip_gradient(const struct qr_optimizer_options *o,
                          const struct qr_optimizer_tensor *tensors, size_t n_tensors, size_t n,
                          double *g) {
    if (o->clipnorm > 0) {
        for (size_t t = 0; t < n_tensors; g += tensors[t].n, t++) {
            double norm = sqrt(sum_of_squares(g, tensors[t].n));
            double below = norm > o->clipnorm ? norm : o->clipnorm;
            for (size_t i = 0; i < tensors[t].n; i++) g[i] = g[i] * o->clipnorm / below;
        }
    } else if (o->global_clipnorm > 0) {
        double total = 0;
        size_t at = 0;
        for (size_t t = 0; t < n_tensors; at += tensors[t].n, t++)
            total += sum_of_squares(g + at, tensors[t].n);
        double norm = sqrt(total), inverse = 1.0 / norm, most = 1.0 / o->global_clipnorm;
        double scale = o->global_clipnorm * (inverse < most ? inverse : most);
        for (size_t i = 0; i < n; i++) g[i] *= scale;
    } else if (o->clipvalue > 0) {
        double c = o->clipvalue;
        for (size_t i = 0; i < n; i++) g[i] = g[i] > c ? c : g[i] < -c ? -c : g[i];
    }
}

/* Applies weight decay to weights from..end-1. */
static void decay_weights(double wd, double lr, const struct qr_optimizer_tensor *tensors,
                          size_t n_tensors, size_t from, size_t end, double *w) {
    for (size_t t = 0, at = 0; t < n_tensors; at += tensors[t].n, t++) {
        size_t first = at > from ? at : from,
               last = at + tensors[t].n < end ? at + tensors[t].n : end;
        for (size_t i = first; i < last && !tensors[t].frozen; i++)
            qr_weight_move(&w[i], -(w[i] * wd * lr));
    }
}

/* In a form in which a weight that does not change equals its average, to the bit. */
static void update_average(const struct qr_optimizer_options *o, uint64_t done, size_t n, double *w,
                           double *mean) {
    for (size_t i = 0; i < n; i++)
        qr_weight_move(&mean[i], (w[i] - mean[i]) * (1 - o->ema_momentum));
    if (o->ema_overwrite && done % o->ema_overwrite == 0) memcpy(w, mean, n * sizeof *w);
}

size_t qr_optimizer_n_points(enum qr_optimizer_kind kind) { return rule_of(kind)->points ? 2 : 1; }

void qr_optimizer_points(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                         size_t n, const uint8_t *still, const double *weights, double *ret_plus,
                         double *ret_minus) {
    rule_of(o->kind)->points(o, seed, step, n, still, weights, ret_plus, ret_minus);
}

void qr_optimizer_estimate(const struct qr_optimizer_options *o, uint64_t seed, uint64_t step,
                           size_t n, const uint8_t *still, double difference, double *ret) {
    rule_of(o->kind)->estimate(o, seed, step, n, still, difference, ret);
}

bool qr_optimizer_has_line_search(enum qr_optimizer_kind kind) { return rule_of(kind)->evaluated; }

const char *qr_optimizer_ended(const struct qr_optimizer_options *o, const double *products) {
    return rule_of(o->kind)->ended ? rule_of(o->kind)->ended(products) : NULL;
}

bool qr_optimizer_clips(const struct qr_optimizer_options *o) {
    return o->clipnorm > 0 || o->global_clipnorm > 0 || o->clipvalue > 0;
}

void qr_optimizer_begin(const struct qr_optimizer_options *o, double *products) {
    if (rule_of(o->kind)->advance) rule_of(o->kind)->advance(o, products);
}

void qr_optimizer_part(const struct qr_optimizer_options *o, uint64_t step, size_t from, size_t end,
                       const struct qr_optimizer_update *u) {
    const struct qr_optimizer_rule *rule = rule_of(o->kind);
    size_t n = end - from;
    double lr = qr_learning_rate_at(o, step), *w = u->weights + from;
    double *mean = o->use_ema ? u->moments + n_rule_moments(o) * u->n + from : NULL;
    if (mean && step == 0) memcpy(mean, w, n * sizeof *mean);
    if (o->weight_decay > 0)
        decay_weights(o->weight_decay, lr, u->tensors, u->n_tensors, from, end, u->weights);
    rule->update(o, lr, n, u->gradient + from, w, (struct qr_moments){u->moments + from, u->n},
                 u->products);
    if (mean) update_average(o, step + 1, n, w, mean);
}

void qr_optimizer_apply(const struct qr_optimizer_options *o, uint64_t step, double loss, size_t n,
                        const struct qr_optimizer_tensor *tensors, size_t n_tensors,
                        double *gradient, double *weights, double *moments, double *products) {
    const struct qr_optimizer_rule *rule = rule_of(o->kind);
    if (rule->evaluated) return rule->evaluated(o, loss, n, gradient, weights, moments, products);
    clip_gradient(o, tensors, n_tensors, n, gradient);
    qr_optimizer_begin(o, products);
    qr_optimizer_part(
        o, step, 0, n,
        &(struct qr_optimizer_update){n, tensors, n_tensors, gradient, weights, moments, products});
}
