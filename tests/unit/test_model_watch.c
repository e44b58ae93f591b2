/* Observables watched beside the read-outs: their values are means of expectation values, and
 * watching changes no other result. */
#include <math.h>

#include "circuit/qcnn.h"
#include "model/model.h"
#include "tests/ref/chain.h"
#include "tests/t.h"

enum { MOST_WEIGHTS = 256 };

static void must(enum qr_code code, const struct qr_err *err) {
    if (code == QR_OK) return;
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

/* Two watched observables of a layer with two filters, before a dense layer. Two micro-batches of
 * the same samples have the means of one. */
enum { WATCHED = 2, W_QUBITS = 4, W_SAMPLES = 5 };
struct watching {
    double grad[MOST_WEIGHTS], value[1 + 1 + WATCHED], readouts[W_SAMPLES * 2 * WATCHED];
    size_t n_values;
    char val_name[64];
};

/* Evaluates the model with the read-outs `z`, watching `watched`. */
static struct watching watching(const struct qr_circuit *c, const struct qr_observable *z,
                                const struct qr_observable *watched, size_t n_watched) {
    static char first[] = "magnetisation", second[] = "energy";
    static char *const names[WATCHED] = {first, second};
    static const enum qr_metric metric = QR_METRIC_MAE;
    const struct qr_quantum_options quantum = {.circuit = c,
                                               .readouts = z,
                                               .n_readouts = WATCHED,
                                               .n_filters = 2,
                                               .watched = watched,
                                               .watched_names = names,
                                               .n_watched = n_watched};
    const struct qr_dense_options dense = {.units = 1, .activation = QR_TANH};
    const struct chain chain = chain_of(&quantum, &dense, 1);
    struct qr_model_options opt = {.layers = chain.layers,
                                   .n_layers = chain.n,
                                   .loss = QR_MSE,
                                   .metrics = &metric,
                                   .n_metrics = 1,
                                   .sim = {QR_DOUBLE, qr_isa_best(), QR_ENGINE_AUTO, NULL},
                                   .micro_batch_size = W_SAMPLES};
    struct qr_err err;
    struct qr_model *m;
    struct qr_model_workspace *w;
    struct watching ret = {0};
    must(qr_model_new(&opt, &m, &err), &err);
    must(qr_model_workspace_new(m, &w, &err), &err);
    struct qr_model_state *s = qr_model_state_new(m);
    double params[MOST_WEIGHTS], x[W_SAMPLES * W_QUBITS], y = 1, p[W_SAMPLES];
    const double *rows[W_SAMPLES], *labels[W_SAMPLES];
    qr_fixed sums[8] = {0}, grad[MOST_WEIGHTS] = {0};
    qr_model_init(m, 3, params);
    for (size_t i = 0; i < W_SAMPLES * W_QUBITS; i++) x[i] = 0.1 * (double)i;
    for (size_t i = 0; i < W_SAMPLES; i++) rows[i] = x + i * W_QUBITS, labels[i] = &y;
    qr_model_prepare(s, params, NULL);
    for (int times = 0; times < 2; times++)
        CHECK(qr_model_micro_batch(s, w, NULL, rows, labels, W_SAMPLES, NULL, sums, grad));
    CHECK(qr_model_predict(s, w, NULL, rows, W_SAMPLES, NULL, p, ret.readouts));
    ret.n_values = qr_model_n_values(m);
    CHECK(ret.n_values == 2 + n_watched && qr_model_n_sums(m) == ret.n_values);
    for (size_t i = 0; i < ret.n_values; i++)
        ret.value[i] = qr_model_mean(m, i, sums, 2 * W_SAMPLES);
    for (size_t i = 0; i < qr_model_n_params(m); i++) ret.grad[i] = qr_fixed_to_double(grad[i]);
    snprintf(ret.val_name, sizeof ret.val_name, "%s %s",
             qr_model_value_name(m, ret.n_values - 1, false),
             qr_model_value_name(m, ret.n_values - 1, true));
    qr_model_state_free(s);
    qr_model_workspace_free(w);
    qr_model_free(m);
    return ret;
}

/* Watching changes no bit of loss, metrics and gradient. The values are the means over samples and
 * filters of the same observables as read-outs. */
static void test_watch(void) {
    static const char *const texts[2 * WATCHED] = {"Z0", "Z3", "X0 Y1 + 0.5*Z2", "Z1 Z2 - 2"};
    struct qr_err err;
    struct qr_circuit *c = NULL;
    struct qr_qubits remaining;
    struct qr_observable o[2 * WATCHED];
    must(
        qr_qcnn_new(&(struct qr_qcnn_options){W_QUBITS, 0, QR_QCNN_NOTEBOOK}, &c, &remaining, &err),
        &err);
    for (size_t i = 0; i < COUNT(texts); i++)
        must(qr_observable_parse(texts[i], W_QUBITS, &o[i], &err), &err);
    struct watching without = watching(c, o, NULL, 0), with = watching(c, o, o + WATCHED, WATCHED),
                    read = watching(c, o + WATCHED, NULL, 0);
    CHECK(memcmp(without.grad, with.grad, sizeof with.grad) == 0);
    CHECK(memcmp(without.value, with.value, 2 * sizeof *with.value) == 0);
    for (size_t k = 0; k < WATCHED; k++) {
        double mean = 0;
        for (size_t i = 0; i < W_SAMPLES; i++)
            for (size_t f = 0; f < 2; f++)
                mean += read.readouts[(i * 2 + f) * WATCHED + k] / (2 * W_SAMPLES);
        CHECK(fabs(with.value[2 + k] - mean) <= 1e-14 && fabs(mean) > 1e-3, "%.17g not %.17g",
              with.value[2 + k], mean);
    }
    CHECK(strcmp(with.val_name, "energy val_energy") == 0, "%s", with.val_name);
    for (size_t i = 0; i < COUNT(texts); i++) qr_observable_fini(&o[i]);
    qr_circuit_free(c);
}

/* Two layers watch different observables; those of the second are its read-outs too. */
static void test_two_watch(void) {
    static char names[3][2] = {"a", "b", "c"};
    static char *const first[] = {names[0]}, *const second[] = {names[1], names[2]};
    struct qr_err err;
    struct qr_observable o[3];
    static const char *const texts[3] = {"X0", "Z0", "Y0 - 0.5*Z0"};
    for (size_t i = 0; i < 3; i++) must(qr_observable_parse(texts[i], 1, &o[i], &err), &err);
    struct qr_circuit *c = qr_circuit_new(1, 1);
    const uint32_t theta = qr_circuit_param(c, "t");
    struct qr_gate turn = {.kind = QR_GATE_X, .n_targets = 1, .n_args = 1};
    turn.args[0] = (struct qr_gate_arg){QR_ARG_DATA, 0.7, 0};
    must(qr_circuit_add(c, &turn, &err), &err);
    turn.kind = QR_GATE_Y;
    turn.args[0] = (struct qr_gate_arg){QR_ARG_PARAMETER, 1, theta};
    must(qr_circuit_add(c, &turn, &err), &err);
    const struct qr_layer_options layers[] = {{.kind = QR_LAYER_QUANTUM,
                                               .quantum = {.circuit = c,
                                                           .readouts = &o[1],
                                                           .n_readouts = 1,
                                                           .n_filters = 1,
                                                           .watched = &o[0],
                                                           .watched_names = first,
                                                           .n_watched = 1}},
                                              {.kind = QR_LAYER_QUANTUM,
                                               .quantum = {.circuit = c,
                                                           .readouts = &o[1],
                                                           .n_readouts = 2,
                                                           .n_filters = 1,
                                                           .watched = &o[1],
                                                           .watched_names = second,
                                                           .n_watched = 2}}};
    struct qr_model_options opt = {.layers = layers,
                                   .n_layers = 2,
                                   .loss = QR_MSE,
                                   .sim = {QR_DOUBLE, qr_isa_best(), QR_ENGINE_AUTO, NULL},
                                   .micro_batch_size = 1};
    struct qr_model *m;
    struct qr_model_workspace *w;
    must(qr_model_new(&opt, &m, &err), &err);
    must(qr_model_workspace_new(m, &w, &err), &err);
    struct qr_model_state *s = qr_model_state_new(m);
    const double params[2] = {0.3, 0.8}, x = 0.4, y[2] = {0}, *row = &x, *label = y;
    double p[2], z[2];
    qr_fixed sums[4] = {0};
    qr_model_prepare(s, params, NULL);
    CHECK(qr_model_micro_batch(s, w, NULL, &row, &label, 1, NULL, sums, NULL) &&
          qr_model_predict(s, w, NULL, &row, 1, NULL, p, z));
    double want = cos(0.7 * 3.14159265358979 * x) * sin(0.3 * 3.14159265358979);
    CHECK(fabs(qr_model_mean(m, 1, sums, 1) - want) < 1e-14 && fabs(want) > 0.1, "%.17g not %.17g",
          qr_model_mean(m, 1, sums, 1), want);
    for (size_t i = 0; i < 2; i++)
        CHECK(fabs(qr_model_mean(m, 2 + i, sums, 1) - z[i]) < 1e-15 && fabs(z[i]) > 0.1,
              "%.17g not %.17g", qr_model_mean(m, 2 + i, sums, 1), z[i]);
    for (size_t i = 0; i < 3; i++)
        CHECK(strcmp(qr_model_value_name(m, 1 + i, false), names[i]) == 0);
    qr_model_state_free(s);
    qr_model_workspace_free(w);
    qr_model_free(m);
    for (size_t i = 0; i < 3; i++) qr_observable_fini(&o[i]);
    qr_circuit_free(c);
}

int main(void) {
    test_watch();
    test_two_watch();
    return t_end();
}
