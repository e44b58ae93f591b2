/* Random chains of layers: losses and gradients against a dense float64 oracle that shares no
 * formula with lib. Quantum layers use tests/ref/dense.h, with their inputs as parameters;
 * everything else is written out. A third of the models have two circuits with a dense layer
 * between them; another third also have a dense layer before them, whose gradient needs each
 * sample's derivatives by the inputs. SEEDS=2000 tests 2000 models. */
#include <math.h>

#include "base/mem.h"
#include "base/parse.h"
#include "exact/random.h"
#include "model/model.h"
#include "tests/ref/dense.h"
#include "tests/ref/expression.h"
#include "tests/ref/words.h"
#include "tests/t.h"

enum { MOST = 5, WIDE = 4, WIDEST = 2 * WIDE, MOST_PARAMS = 400, SAMPLES = 3, READOUTS = 3 };

struct random_model {
    size_t n_layers, n_inputs;
    struct qr_layer_options layers[MOST];
    struct qr_circuit *circuit[MOST];
    struct qr_observable readouts[MOST][READOUTS];
    double x[SAMPLES * WIDE], y[SAMPLES * WIDEST];
};

static unsigned draw(uint64_t seed, unsigned what, unsigned n) {
    return (unsigned)(qr_random_u64(seed, QR_RANDOM_DATA, what, 0) % n);
}

static struct ref_drawn drawn;

static void add_quantum(struct random_model *r, uint64_t seed, size_t i, size_t width) {
    struct qr_layer_options *l = &r->layers[i];
    unsigned at = (unsigned)i, n_qubits = 1 + draw(seed, 20 + at, REF_WORDS_QUBITS);
    if (i || draw(seed, 30 + at, 4)) {
        r->circuit[i] = ref_random_words(seed * 31 + i, n_qubits, (unsigned)width,
                                         2 + draw(seed, 9, 7), &drawn);
    } else {
        n_qubits = (unsigned)width;
        r->circuit[i] = ref_random_circuit(seed * 31 + i, n_qubits, 4 + draw(seed, 9, 12));
    }
    size_t n = 1 + draw(seed, 10 + at, READOUTS);
    for (size_t k = 0; k < n; k++)
        r->readouts[i][k] = ref_random_observable(seed * 7 + i * 3 + k, n_qubits);
    l->kind = QR_LAYER_QUANTUM;
    l->quantum = (struct qr_quantum_options){.circuit = r->circuit[i],
                                             .readouts = r->readouts[i],
                                             .n_readouts = n,
                                             .n_filters = 1 + draw(seed, 8, 2)};
}

static size_t width_behind(const struct qr_layer_options *l, size_t width) {
    if (l->kind == QR_LAYER_DENSE) return l->dense.units;
    return l->kind == QR_LAYER_QUANTUM ? l->quantum.n_readouts * l->quantum.n_filters : width;
}

/* Layers of each third of the models: quantum, dense, or any. */
static const char *const shapes[] = {"?????", "qdq?d", "dqdqd"};

/* Fills *r, whose layers point into *r: do not copy it. */
static void random_model_init(uint64_t seed, struct random_model *r) {
    const char *shape = shapes[seed % COUNT(shapes)];
    *r = (struct random_model){.n_layers = *shape == '?' ? 2 + draw(seed, 0, MOST - 1) : MOST,
                               .n_inputs = 1 + draw(seed, 1, WIDE)};
    size_t width = r->n_inputs;
    for (size_t i = 0; i < r->n_layers; i++) {
        struct qr_layer_options *l = &r->layers[i];
        unsigned what = shape[i] == 'q'   ? 0
                        : shape[i] == 'd' ? 4
                                          : draw(seed, 100 + (unsigned)i, 8);
        if (what < 3 && width <= WIDE) add_quantum(r, seed, i, width);
        else if (what < 5 || i + 1 == r->n_layers || width > WIDE)
            *l = (struct qr_layer_options){
                .kind = QR_LAYER_DENSE,
                .dense = {.units = 1 + draw(seed, 200 + (unsigned)i, WIDE),
                          .activation =
                              (enum qr_activation)draw(seed, 300 + (unsigned)i, QR_ACTIVATIONS)}};
        else if (what == 5)
            *l = (struct qr_layer_options){.kind = QR_LAYER_ACTIVATION, .activation = QR_TANH};
        else if (what == 6)
            *l = (struct qr_layer_options){.kind = QR_LAYER_DROPOUT, .dropout = {0.25}};
        else *l = (struct qr_layer_options){.kind = QR_LAYER_SCALE, .scale = {1.5, -0.25}};
        l->frozen = draw(seed, 400 + (unsigned)i, 5) == 0;
        width = width_behind(l, width);
    }
    ref_random_numbers(seed + 1, SAMPLES * WIDE, -1.5, 1.5, r->x);
    ref_random_numbers(seed + 2, SAMPLES * WIDEST, -1, 1, r->y);
}

static void random_model_fini(struct random_model *r) {
    for (size_t i = 0; i < r->n_layers; i++) {
        if (r->layers[i].kind != QR_LAYER_QUANTUM) continue;
        for (size_t k = 0; k < r->layers[i].quantum.n_readouts; k++)
            qr_observable_fini(&r->readouts[i][k]);
        qr_circuit_free(r->circuit[i]);
    }
}

/* ---- the oracle ---- */

/* A layer's outputs and Jacobians by its inputs and weights, for one sample. */
struct oracle_layer {
    size_t n_in, n_out, n_params, at;
    double *out, *by_in, *by_param; /* n_out; n_out x n_in; n_out x n_params */
};

static double activation_value(enum qr_activation f, const double *z, size_t n, size_t j) {
    double sum = 0;
    switch (f) {
    case QR_RELU: return z[j] > 0 ? z[j] : 0;
    case QR_TANH: return tanh(z[j]);
    case QR_SIGMOID: return 1 / (1 + exp(-z[j]));
    case QR_SOFTMAX:
        for (size_t k = 0; k < n; k++) sum += exp(z[k] - z[j]);
        return 1 / sum;
    default: return z[j];
    }
}

/* d activation_value(j) / d z[k] */
static double activation_derivative(enum qr_activation f, const double *z, size_t n, size_t j,
                                    size_t k) {
    double p = activation_value(f, z, n, j);
    if (f == QR_SOFTMAX) return p * ((j == k) - activation_value(f, z, n, k));
    if (j != k) return 0;
    return f == QR_RELU ? z[j] > 0 : f == QR_TANH ? 1 - p * p : f == QR_SIGMOID ? p * (1 - p) : 1;
}

/* Points where rounding decides a derivative: relu at 0, or atan2 of two inputs near 0. They occur,
 * because a read-out may be 0 for all weights. */
static unsigned n_kinks;

static void oracle_dense(struct oracle_layer *o, const struct qr_dense_options *d, const double *in,
                         const double *w) {
    double z[WIDE], by_z[WIDE * WIDE];
    size_t units = o->n_out;
    for (size_t j = 0; j < units; j++) {
        z[j] = w[o->n_in * units + j];
        for (size_t i = 0; i < o->n_in; i++) z[j] += in[i] * w[i * units + j];
    }
    for (size_t j = 0; j < units; j++) {
        n_kinks += d->activation == QR_RELU && fabs(z[j]) < 1e-9;
        o->out[j] = activation_value(d->activation, z, units, j);
        for (size_t k = 0; k < units; k++)
            by_z[j * units + k] = activation_derivative(d->activation, z, units, j, k);
    }
    for (size_t j = 0; j < units; j++)
        for (size_t k = 0; k < units; k++) {
            for (size_t i = 0; i < o->n_in; i++) {
                o->by_in[j * o->n_in + i] += by_z[j * units + k] * w[i * units + k];
                o->by_param[j * o->n_params + i * units + k] += by_z[j * units + k] * in[i];
            }
            o->by_param[j * o->n_params + o->n_in * units + k] += by_z[j * units + k];
        }
}

static void input_as_parameter(struct qr_circuit *ret, const struct qr_circuit *c,
                               const struct qr_expression *e) {
    struct qr_expression copy = qr_expression_copy(e);
    for (unsigned k = 0; k < copy.n; k++) {
        if (copy.node[k].op != QR_EXPRESSION_INPUT) continue;
        copy.node[k].op = QR_EXPRESSION_PARAMETER;
        copy.node[k].index += c->n_params;
    }
    CHECK(qr_circuit_expression(ret, &copy) + 1 == ret->n_expressions);
    qr_expression_fini(&copy);
}

/* Turns the inputs into parameters after the circuit's own. Expressions keep their indexes. */
static struct qr_circuit *inputs_as_parameters(const struct qr_circuit *c) {
    struct qr_circuit *ret = qr_circuit_new(c->n_qubits, 0);
    struct qr_err err;
    for (unsigned i = 0; i < c->n_params; i++) (void)qr_circuit_param(ret, c->param_names[i]);
    for (unsigned i = 0; i < c->n_columns; i++) {
        char name[32];
        snprintf(name, sizeof name, "~input%u", i); /* sorts last */
        (void)qr_circuit_param(ret, name);
    }
    for (size_t i = 0; i < c->n_expressions; i++) input_as_parameter(ret, c, &c->expressions[i]);
    for (size_t i = 0; i < c->n_gates; i++) {
        struct qr_gate g = c->gates[i];
        for (unsigned k = 0; k < g.n_args; k++)
            if (g.args[k].kind == QR_ARG_DATA) {
                g.args[k].kind = QR_ARG_PARAMETER;
                g.args[k].index += c->n_params;
            }
        CHECK(qr_circuit_add(ret, &g, &err) == QR_OK, "%s", err.msg);
    }
    return ret;
}

/* atan2 of two inputs amplifies rounding by the inverse of their length. */
static bool has_kink(const struct qr_circuit *c, const double *in) {
    for (size_t i = 0; i < c->n_expressions; i++) {
        const struct qr_expression_node *n = c->expressions[i].node;
        if (c->expressions[i].n == 3 && n[2].op == QR_EXPRESSION_ATAN2 &&
            n[0].op == QR_EXPRESSION_INPUT && n[1].op == QR_EXPRESSION_INPUT &&
            hypot(in[n[0].index], in[n[1].index]) < 0.1)
            return true;
    }
    return false;
}

static void oracle_quantum(struct oracle_layer *o, const struct qr_quantum_options *q,
                           const double *in, const double *w) {
    struct qr_circuit *c = inputs_as_parameters(q->circuit);
    size_t n_theta = q->circuit->n_params, n = n_theta + o->n_in;
    double *theta = qr_xcalloc(n + 1, sizeof *theta),
           *by = qr_xcalloc(q->n_readouts * n + 1, sizeof *by);
    n_kinks += has_kink(q->circuit, in);
    for (size_t f = 0; f < q->n_filters; f++) {
        memcpy(theta, w + f * n_theta, n_theta * sizeof *theta);
        memcpy(theta + n_theta, in, o->n_in * sizeof *theta);
        ref_expectation(c, theta, NULL, q->readouts, q->n_readouts, o->out + f * q->n_readouts);
        ref_gradient(c, theta, NULL, q->readouts, q->n_readouts, by);
        for (size_t r = 0; r < q->n_readouts; r++) {
            size_t j = f * q->n_readouts + r;
            for (size_t k = 0; k < n_theta; k++)
                o->by_param[j * o->n_params + f * n_theta + k] = by[r * n + k];
            for (size_t i = 0; i < o->n_in; i++)
                o->by_in[j * o->n_in + i] = by[r * n + n_theta + i];
        }
    }
    free(theta);
    free(by);
    qr_circuit_free(c);
}

static double dropout_factor(const struct qr_draw *d, size_t layer, double rate, size_t unit,
                             size_t s) {
    uint64_t key = qr_random_u64(d->seed, QR_RANDOM_DROPOUT, (uint32_t)layer, d->step);
    return qr_random_uniform(key, QR_RANDOM_DROPOUT, (uint32_t)unit, d->sample[s]) < rate
               ? 0
               : 1 / (1 - rate);
}

static void oracle_forward(struct oracle_layer *o, const struct random_model *r, size_t i,
                           const double *in, const double *params, const struct qr_draw *d,
                           size_t s) {
    const struct qr_layer_options *l = &r->layers[i];
    if (l->kind == QR_LAYER_DENSE) {
        oracle_dense(o, &l->dense, in, params + o->at);
        return;
    }
    if (l->kind == QR_LAYER_QUANTUM) {
        oracle_quantum(o, &l->quantum, in, params + o->at);
        return;
    }
    for (size_t j = 0; j < o->n_out; j++) {
        double factor = l->kind == QR_LAYER_SCALE ? l->scale.factor : 1;
        if (l->kind == QR_LAYER_DROPOUT) factor = dropout_factor(d, i, l->dropout.rate, j, s);
        o->out[j] = in[j] * factor + (l->kind == QR_LAYER_SCALE ? l->scale.offset : 0);
        o->by_in[j * o->n_in + j] = factor;
        if (l->kind != QR_LAYER_ACTIVATION) continue;
        o->out[j] = tanh(in[j]);
        o->by_in[j * o->n_in + j] = 1 - o->out[j] * o->out[j];
    }
}

/* Returns one sample's loss and adds its derivatives to `grad`. */
static double oracle_sample(const struct random_model *r, const double *params,
                            const struct qr_draw *d, size_t s, double *grad) {
    struct oracle_layer o[MOST];
    double back[WIDEST], before[WIDEST], loss = 0;
    size_t width = r->n_inputs, at = 0;
    for (size_t i = 0; i < r->n_layers; i++) {
        const struct qr_layer_options *l = &r->layers[i];
        o[i] = (struct oracle_layer){.n_in = width, .n_out = width_behind(l, width), .at = at};
        if (l->kind == QR_LAYER_DENSE) o[i].n_params = (width + 1) * o[i].n_out;
        if (l->kind == QR_LAYER_QUANTUM)
            o[i].n_params = l->quantum.circuit->n_params * l->quantum.n_filters;
        o[i].out = qr_xcalloc(o[i].n_out, sizeof(double));
        o[i].by_in = qr_xcalloc(o[i].n_out * width, sizeof(double));
        o[i].by_param = qr_xcalloc(o[i].n_out * o[i].n_params + 1, sizeof(double));
        oracle_forward(&o[i], r, i, i ? o[i - 1].out : r->x + s * r->n_inputs, params, d, s);
        at += o[i].n_params;
        width = o[i].n_out;
    }
    for (size_t j = 0; j < width; j++) {
        double e = o[r->n_layers - 1].out[j] - r->y[s * WIDEST + j];
        loss += e * e / (double)width;
        back[j] = 2 * e / (double)width;
    }
    for (size_t i = r->n_layers; i-- > 0;) {
        for (size_t k = 0; k < o[i].n_params && !r->layers[i].frozen; k++)
            for (size_t j = 0; j < o[i].n_out; j++)
                grad[o[i].at + k] += back[j] * o[i].by_param[j * o[i].n_params + k];
        for (size_t k = 0; k < o[i].n_in; k++) {
            before[k] = 0;
            for (size_t j = 0; j < o[i].n_out; j++)
                before[k] += back[j] * o[i].by_in[j * o[i].n_in + k];
        }
        memcpy(back, before, sizeof back);
        free(o[i].out);
        free(o[i].by_in);
        free(o[i].by_param);
    }
    return loss;
}

/* ---- the model ---- */

static const uint32_t numbers[SAMPLES] = {7, 70000, 4000000000u};

/* Precision, engine and tolerance. The engine of light cones, which auto selects for most of these
 * circuits, always computes in float64. */
static const struct variant {
    const char *name;
    enum qr_precision precision;
    enum qr_engine engine;
    double tolerance;
} variants[] = {{"double", QR_DOUBLE, QR_ENGINE_AUTO, 1e-12},
                {"double, by state vectors", QR_DOUBLE, QR_ENGINE_STATEVECTOR, 1e-12},
                {"single, by state vectors", QR_SINGLE, QR_ENGINE_STATEVECTOR, 0x1p29 * 1e-12}};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Computes the loss and gradient sums. Returns false if the model is rejected. */
static bool sums_of(const struct random_model *r, const struct qr_draw *d, const struct variant *v,
                    const double *params, qr_fixed *loss, qr_fixed *grad) {
    const struct qr_model_options opt = {
        .layers = r->layers,
        .n_layers = r->n_layers,
        .n_inputs = r->n_inputs,
        .loss = QR_MSE,
        .sim = {v->precision, qr_isa_best(), v->engine, NULL},
        .micro_batch_size = SAMPLES,
    };
    struct qr_model *m = NULL;
    struct qr_model_workspace *w = NULL;
    struct qr_err err;
    const double *x[SAMPLES], *y[SAMPLES];
    if (qr_model_new(&opt, &m, &err) != QR_OK) {
        CHECK(m != NULL, "%s", err.msg);
        return false;
    }
    CHECK(qr_model_n_params(m) <= MOST_PARAMS);
    CHECK(qr_model_workspace_new(m, &w, &err) == QR_OK);
    struct qr_model_state *s = qr_model_state_new(m);
    for (size_t i = 0; i < SAMPLES; i++) {
        x[i] = r->x + i * r->n_inputs;
        y[i] = r->y + i * WIDEST;
    }
    qr_model_prepare(s, params, NULL);
    memset(grad, 0, MOST_PARAMS * sizeof *grad);
    *loss = 0;
    CHECK(qr_model_micro_batch(s, w, NULL, x, y, SAMPLES, d, loss, grad), "seed %llu, %s",
          (unsigned long long)(d ? d->seed : 0), v->name);
    qr_model_workspace_free(w);
    qr_model_state_free(s);
    qr_model_free(m);
    return true;
}

static double worst[VARIANTS]; /* in units of the tolerance */
static unsigned n_left_out;    /* models at a point without a derivative */

static void compare(uint64_t seed, size_t v, double got, double want, double scale) {
    double off = fabs(got - want) / (variants[v].tolerance * scale);
    CHECK(off <= 1, "seed %llu, %s: %.17g, not %.17g", (unsigned long long)seed, variants[v].name,
          got, want);
    worst[v] = t_worst(worst[v], off);
}

/* The tolerance is 1e-12 of the largest component, because later layers amplify rounding by weights
 * of order 1. Single precision rounds 2^29 times as coarsely. */
static void test_oracle(uint64_t seed) {
    const struct qr_draw d = {
        .seed = seed, .step = seed * 3 + (seed << 33), .sample = numbers, .trains = true};
    struct random_model r;
    random_model_init(seed, &r);
    double params[MOST_PARAMS], want[MOST_PARAMS] = {0}, loss = 0, largest = 1;
    qr_fixed got[VARIANTS][MOST_PARAMS], sum[VARIANTS];
    /* Not the initial weights: with a bias of 0, a read-out that is 0 up to rounding is at the kink
     * of relu. */
    ref_random_numbers(seed + 3, MOST_PARAMS, -1.5, 1.5, params);
    unsigned before = n_kinks;
    for (size_t s = 0; s < SAMPLES; s++) loss += oracle_sample(&r, params, &d, s, want);
    bool ok = n_kinks == before;
    n_left_out += !ok;
    for (size_t v = 0; v < VARIANTS && ok; v++)
        ok = sums_of(&r, &d, &variants[v], params, &sum[v], got[v]);
    for (size_t i = 0; i < MOST_PARAMS; i++) largest = fmax(largest, fabs(want[i]));
    for (size_t v = 0; v < VARIANTS && ok; v++) {
        compare(seed, v, qr_fixed_to_double(sum[v]), loss, fmax(1, loss));
        for (size_t i = 0; i < MOST_PARAMS; i++)
            compare(seed, v, qr_fixed_to_double(got[v][i]), want[i], largest);
    }
    random_model_fini(&r);
}

/* Dropout is the same for the same step, differs in another step, and is off without a draw. */
static void test_dropout(void) {
    struct random_model r;
    random_model_init(1, &r);
    random_model_fini(&r);
    r.n_layers = 2;
    r.n_inputs = WIDE;
    r.layers[0] = (struct qr_layer_options){.kind = QR_LAYER_DROPOUT, .dropout = {0.5}};
    r.layers[1] = (struct qr_layer_options){.kind = QR_LAYER_DENSE, .dense = {.units = 1}};
    const struct qr_draw now = {.seed = 1, .step = 2, .sample = numbers, .trains = true},
                         later = {.seed = 1, .step = 3, .sample = numbers, .trains = true};
    double params[MOST_PARAMS];
    ref_random_numbers(3, MOST_PARAMS, -1.5, 1.5, params);
    qr_fixed a[MOST_PARAMS], b[MOST_PARAMS], c[MOST_PARAMS], none[MOST_PARAMS], sum;
    CHECK(sums_of(&r, &now, variants, params, &sum, a));
    CHECK(sums_of(&r, &now, variants, params, &sum, b));
    CHECK(sums_of(&r, &later, variants, params, &sum, c));
    CHECK(sums_of(&r, NULL, variants, params, &sum, none));
    CHECK(memcmp(a, b, sizeof a) == 0);
    CHECK(memcmp(a, c, sizeof a) != 0);
    CHECK(memcmp(a, none, sizeof a) != 0);
}

/* The generator has drawn every gate and enough of each rare construct. */
static void test_drawn(void) {
    for (unsigned i = 0; i < ref_n_gates(); i++)
        CHECK(drawn.gates[i], "no model has a gate '%s'", ref_gate_name(i));
    CHECK(drawn.expressions > 200 && drawn.rounds > 100 && drawn.amplitudes > 50,
          "%u expressions, %u repeats, %u states", drawn.expressions, drawn.rounds,
          drawn.amplitudes);
    printf("    %u expressions, %u repeats that upload inputs again, %u states of inputs\n",
           drawn.expressions, drawn.rounds, drawn.amplitudes);
}

int main(void) {
    const char *seeds = getenv("SEEDS");
    uint64_t n = 200;
    if (seeds) CHECK(qr_parse_u64(seeds, &n));
    for (uint64_t seed = 1; seed <= n; seed++) test_oracle(seed);
    if (n >= 200) test_drawn();
    CHECK(n_left_out <= n / 10, "%u of %llu models are at a kink", n_left_out,
          (unsigned long long)n);
    test_dropout();
    for (size_t v = 0; v < VARIANTS; v++)
        printf("    %s: at worst %.2g of the tolerance\n", variants[v].name, worst[v]);
    return t_end();
}
