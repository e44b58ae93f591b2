/* Quantum layers with and without a head: predictions and gradients against golden/tfq, training
 * against its recorded run, heads of every plan against differences. */
#include <math.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "circuit/qcnn.h"
#include "exact/random.h"
#include "model/model.h"
#include "model/optimizer.h"
#include "tests/golden.h"
#include "tests/ref/chain.h"

enum { MOST_WEIGHTS = 256, BLOCK = 16 };

struct setup {
    struct qr_model *m;
    struct qr_model_state *s;
    struct qr_model_workspace *w;
    /* index in the golden files' order (quantum weights sorted by name) of each parameter */
    size_t from_sorted[MOST_WEIGHTS];
};

static enum qr_isa isa; /* of the models of setup_new() */
static enum qr_engine engine;

static void must(enum qr_code code, const struct qr_err *err) {
    if (code == QR_OK) return;
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

/* Reads out Z of the remaining qubits. */
static struct setup setup_new(unsigned n_qubits, unsigned n_stages, enum qr_qcnn_variant variant,
                              unsigned n_filters, const struct qr_dense_options *dense,
                              size_t n_dense, enum qr_loss loss, enum qr_precision precision) {
    struct setup u = {0};
    struct qr_err err;
    struct qr_circuit *circuit = NULL;
    struct qr_observable z[16];
    struct qr_qubits remaining;
    size_t n = 0;
    must(qr_qcnn_new(&(struct qr_qcnn_options){n_qubits, n_stages, variant}, &circuit, &remaining,
                     &err),
         &err);
    for (unsigned q = 0; q < n_qubits; q++) {
        char text[8];
        snprintf(text, sizeof text, "Z%u", q);
        if (qr_qubits_has(&remaining, q))
            must(qr_observable_parse(text, n_qubits, &z[n++], &err), &err);
    }
    static const enum qr_metric metrics[2] = {QR_ACCURACY, QR_BINARY_ACCURACY};
    const struct qr_quantum_options quantum = {
        .circuit = circuit, .readouts = z, .n_readouts = n, .n_filters = n_filters};
    const struct chain chain = chain_of(&quantum, dense, n_dense);
    struct qr_model_options opt = {.layers = chain.layers,
                                   .n_layers = chain.n,
                                   .loss = loss,
                                   .metrics = metrics,
                                   .n_metrics = 2,
                                   .sim = {precision, isa, engine, NULL},
                                   .micro_batch_size = BLOCK};
    must(qr_model_new(&opt, &u.m, &err), &err);
    must(qr_model_workspace_new(u.m, &u.w, &err), &err);
    u.s = qr_model_state_new(u.m);
    qr_circuit_free(circuit);
    for (size_t i = 0; i < n; i++) qr_observable_fini(&z[i]);
    /* Rank of each parameter's name by strcmp, which is TFQ's order. */
    const struct qr_circuit *c = qr_model_layer(u.m, 0).circuit;
    for (size_t i = 0; i < qr_model_n_params(u.m); i++) u.from_sorted[i] = i;
    for (size_t f = 0; f < n_filters; f++) {
        for (unsigned i = 0; i < c->n_params; i++) {
            size_t rank = 0;
            for (unsigned j = 0; j < c->n_params; j++)
                rank += strcmp(c->param_names[j], c->param_names[i]) < 0;
            u.from_sorted[f * c->n_params + i] = f * c->n_params + rank;
        }
    }
    return u;
}
static void setup_free(struct setup *u) {
    qr_model_workspace_free(u->w);
    qr_model_state_free(u->s);
    qr_model_free(u->m);
}

/* Rows of x with one angle each. */
static void place_angles(const double *angles, const double *qubits, size_t n, unsigned n_qubits,
                         double *ret_x, const double **ret_rows) {
    memset(ret_x, 0, n * n_qubits * sizeof *ret_x);
    for (size_t i = 0; i < n; i++) {
        ret_x[i * n_qubits + (size_t)qubits[i]] = angles[i];
        ret_rows[i] = ret_x + i * n_qubits;
    }
}

/* |got - want| relative to the largest component of `want`; `got` is in the model's order, `want`
 * in the file's. */
static double distance(const struct setup *u, size_t n, const double *got, const double *want) {
    double most = 0, worst = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(want[i]));
    for (size_t i = 0; i < n; i++) worst = t_worst(worst, fabs(got[i] - want[u->from_sorted[i]]));
    return worst / most;
}

static const struct qr_dense_options head[2] = {{.units = 8, .activation = QR_LINEAR},
                                                {.units = 1, .activation = QR_LINEAR}};

static void check_golden(const char *file, unsigned n_qubits, unsigned n_stages,
                         enum qr_qcnn_variant variant, unsigned n_filters, size_t n_dense,
                         enum qr_precision precision) {
    /* The documented bounds: float32 2e-6 of the largest component, double 1e-12. */
    double bound = precision == QR_DOUBLE ? 1e-12 : 2e-6;
    char path[128];
    snprintf(path, sizeof path, "tests/golden/tfq/%s.json", file);
    struct qr_json *root = golden_load(path);
    struct setup u =
        setup_new(n_qubits, n_stages, variant, n_filters, head, n_dense, QR_MSE, precision);
    size_t n_params = qr_model_n_params(u.m), n, k, per = 0;
    double *angles = golden_numbers(qr_json_get(root, "angles"), &n),
           *qubits = golden_numbers(qr_json_get(root, "qubits"), &k);
    double *labels = golden_numbers(qr_json_get(root, "labels"), &k),
           *quantum = golden_numbers(qr_json_get(root, "weights_sorted"), &per);
    double weights[MOST_WEIGHTS], params[MOST_WEIGHTS], x[BLOCK * 16], p[BLOCK], z[BLOCK * 16],
        g[MOST_WEIGHTS];
    const double *rows[BLOCK], *y[BLOCK];
    memcpy(weights, quantum, per * sizeof *weights);
    static const char *const dense[4] = {"dense_kernel", "dense_bias", "dense_1_kernel",
                                         "dense_1_bias"};
    for (size_t i = 0; i < 2 * n_dense; i++) {
        double *v = golden_numbers(qr_json_get(root, dense[i]), &k);
        memcpy(weights + per, v, k * sizeof *v);
        per += k;
        free(v);
    }
    CHECK(per == n_params, "%zu weights for %zu", per, n_params);
    for (size_t i = 0; i < n_params; i++) params[i] = weights[u.from_sorted[i]];
    place_angles(angles, qubits, n, n_qubits, x, rows);
    for (size_t i = 0; i < n; i++) y[i] = &labels[i];
    qr_model_prepare(u.s, params, NULL);

    const struct qr_json *exact = qr_json_get(root, "exact"), *tfq = qr_json_get(root, "tfq");
    double *want_z = golden_numbers(qr_json_get(exact, "expectations"), &k),
           *want_p = golden_numbers(qr_json_get(exact, "prediction"), &k);
    double *want_g = golden_numbers(qr_json_get(exact, "dprediction_dweights"), &k),
           *want_l = golden_numbers(qr_json_get(exact, "dloss_dweights"), &k);
    double *tfq_g = golden_numbers(qr_json_get(tfq, "dprediction_dweights"), &k);
    CHECK(qr_model_predict(u.s, u.w, NULL, rows, n, NULL, p, z));
    size_t each = qr_model_n_readouts(u.m) / n_filters;
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < n_filters; f++)
            for (size_t r = 0; r < each; r++)
                CHECK(fabs(z[i * each * n_filters + f * each + r] -
                           want_z[(f * n + i) * each + r]) <= bound,
                      "%s: read-out", file);
        CHECK(fabs(p[i] - want_p[i]) <= bound * 2, "%s: prediction %.17g for %.17g", file, p[i],
              want_p[i]);
        CHECK(qr_model_prediction_gradient(u.s, u.w, NULL, rows[i], NULL, 0, g));
        double off = distance(&u, n_params, g, want_g + i * n_params);
        CHECK(off <= bound, "%s: gradient of sample %zu off by %g", file, i, off);
        for (size_t j = 0; j < n_params; j++)
            CHECK(fabs(g[j] - tfq_g[i * n_params + u.from_sorted[j]]) <= 1.5e-4,
                  "%s: gradient of TFQ", file);
    }
    qr_fixed sums[3] = {0}, grad[MOST_WEIGHTS] = {0};
    CHECK(qr_model_micro_batch(u.s, u.w, NULL, rows, y, n, NULL, sums, grad));
    for (size_t j = 0; j < n_params; j++) g[j] = qr_fixed_to_double(grad[j]) / (double)n;
    double off = distance(&u, n_params, g, want_l), loss = golden_number(exact, "loss_mse", NAN);
    CHECK(off <= bound, "%s: gradient of the loss off by %g", file, off);
    CHECK(fabs(qr_model_mean(u.m, 0, sums, n) - loss) <= bound * 4 * fmax(1, loss), "%s: loss",
          file);
    /* Parameters that no read-out depends on have exact zeros. */
    uint8_t zero_gradient[MOST_WEIGHTS];
    qr_model_zero_gradient(u.m, zero_gradient);
    size_t n_zero_gradient = 0;
    for (size_t j = 0; j < n_params; j++) {
        n_zero_gradient += zero_gradient[j];
        if (zero_gradient[j]) CHECK(grad[j] == 0, "%s: weight %zu", file, j);
    }
    CHECK(n_zero_gradient >= n_filters, "qconv20 at least");
    free(angles), free(qubits), free(labels), free(quantum), free(want_z), free(want_p),
        free(want_g), free(want_l), free(tfq_g);
    setup_free(&u);
    qr_json_free(root);
}

/* One worker, batches of 64 and 48 in file order, Adam 0.02, 5 epochs: golden/tfq/train_*.json.
 * Blocks of 16 as in a job. */
static void check_training(const char *file, unsigned n_stages, enum qr_qcnn_variant variant,
                           unsigned n_filters, size_t n_dense, enum qr_precision precision) {
    /* Double: 1e-10. Single: losses 2e-6, weights 2e-5. */
    double loss_bound = precision == QR_DOUBLE ? 1e-10 : 2e-6,
           weight_bound = precision == QR_DOUBLE ? 1e-10 : 2e-5;
    enum { QUBITS = 8, TRAIN = 112, STEPS = 10 };
    char path[128];
    snprintf(path, sizeof path, "tests/golden/tfq/%s.json", file);
    struct qr_json *root = golden_load(path),
                   *data = golden_load("tests/golden/tfq/dataset_n8_seed2021.json");
    struct setup u =
        setup_new(QUBITS, n_stages, variant, n_filters, head, n_dense, QR_MSE, precision);
    size_t n, n_params = qr_model_n_params(u.m), n_tensors = qr_model_n_tensors(u.m);
    struct qr_optimizer_tensor tensors[8] = {0};
    for (size_t i = 0; i < n_tensors; i++) tensors[i].n = qr_model_tensor(u.m, i)->n;
    double *angles = golden_numbers(qr_json_get(data, "angles"), &n),
           *qubits = golden_numbers(qr_json_get(data, "qubits"), &n);
    double *labels = golden_numbers(qr_json_get(data, "labels"), &n),
           *initial = golden_numbers(qr_json_get(root, "initial_weights"), &n);
    CHECK(n == n_params);
    const struct qr_json *exact = qr_json_get(root, "exact");
    double *losses = golden_numbers(qr_json_get(exact, "step_loss"), &n),
           *final = golden_numbers(qr_json_get(exact, "final_weights"), &n);
    double *accuracies = golden_numbers(qr_json_get(exact, "step_sign_accuracy"), &n);
    double x[TRAIN * QUBITS], params[MOST_WEIGHTS], g[MOST_WEIGHTS], moments[2 * MOST_WEIGHTS],
        products[2];
    const double *rows[TRAIN], *y[TRAIN];
    place_angles(angles, qubits, TRAIN, QUBITS, x, rows);
    for (size_t i = 0; i < TRAIN; i++) y[i] = &labels[i];
    for (size_t i = 0; i < n_params; i++) params[i] = initial[u.from_sorted[i]];
    struct qr_optimizer_options adam = qr_optimizer_defaults(QR_ADAM);
    adam.learning_rate = 0.02;
    qr_optimizer_init(&adam, n_params, moments, products);
    for (uint64_t t = 0; t < STEPS; t++) {
        size_t first = t % 2 ? 64 : 0, last = t % 2 ? TRAIN : 64;
        qr_fixed sums[3] = {0}, grad[MOST_WEIGHTS] = {0};
        qr_model_prepare(u.s, params, NULL);
        for (size_t b = first; b < last; b += BLOCK)
            CHECK(qr_model_micro_batch(u.s, u.w, NULL, rows + b, y + b,
                                       last - b < BLOCK ? last - b : BLOCK, NULL, sums, grad));
        double loss = qr_model_mean(u.m, 0, sums, last - first);
        CHECK(fabs(loss - losses[t]) <= loss_bound, "%s: loss of step %d: %.17g for %.17g", file,
              (int)t, loss, losses[t]);
        CHECK(fabs(qr_model_mean(u.m, 1, sums, last - first) - accuracies[t]) < 1e-9,
              "%s: accuracy of step %d", file, (int)t);
        for (size_t i = 0; i < n_params; i++)
            g[i] = qr_fixed_to_double(grad[i]) / (double)(last - first);
        qr_optimizer_apply(&adam, t, 0, n_params, tensors, n_tensors, g, params, moments, products);
    }
    double *fixed, worst = 0;
    size_t n_fixed;
    for (size_t i = 0; i < n_params; i++)
        worst = t_worst(worst, fabs(params[i] - final[u.from_sorted[i]]));
    CHECK(worst <= weight_bound, "%s: final weights off by %g", file, worst);
    fixed = golden_numbers(qr_json_get(root, "zero_gradient_weight_indices"), &n_fixed);
    for (size_t k = 0; k < n_fixed; k++)
        for (size_t i = 0; i < n_params; i++)
            if (u.from_sorted[i] == (size_t)fixed[k])
                CHECK(params[i] == initial[u.from_sorted[i]], "%s: weight %zu moved", file, i);
    free(angles), free(qubits), free(labels), free(initial), free(losses), free(final),
        free(accuracies), free(fixed);
    setup_free(&u);
    qr_json_free(root);
    qr_json_free(data);
}

/* Every plan of the head in double, against the differences (8 (f(h) - f(-h)) - f(2h) + f(-2h)) /
 * 12 h with h = 2^-10: truncation h^4 / 30 f^(5) is below 1e-8 (a symbol turns by a few half-turns,
 * f^(5) < 2e5), rounding of the states 1e-13 / h below 1e-9. */
static void test_heads(void) {
    static const struct {
        unsigned n_filters;
        struct qr_dense_options dense[2];
        size_t n_dense;
        enum qr_loss loss;
    } cases[] = {
        {1, {{.units = 1, .activation = QR_LINEAR}}, 1, QR_MSE}, /* affine */
        {2,
         {{.units = 3, .activation = QR_LINEAR}, {.units = 1, .activation = QR_LINEAR}},
         2,
         QR_MAE},
        /* read-outs first */
        {2,
         {{.units = 3, .activation = QR_TANH}, {.units = 1, .activation = QR_LINEAR}},
         2,
         QR_MSE},
        {1, {{.units = 2, .activation = QR_LINEAR}}, 1, QR_MSE},
        {2, {{.units = 3, .activation = QR_SOFTMAX}}, 1, QR_CATEGORICAL_CROSSENTROPY},
        {3,
         {{.units = 4, .activation = QR_RELU}, {.units = 1, .activation = QR_SIGMOID}},
         2,
         QR_BINARY_CROSSENTROPY},
        /* two read-outs are the outputs */
        {1, {{.units = 0, .activation = QR_LINEAR}}, 0, QR_MSE},
    };
    enum { QUBITS = 4, SAMPLES = 3 };
    for (size_t t = 0; t < COUNT(cases); t++) {
        struct setup u = setup_new(QUBITS, 1, QR_QCNN_NOTEBOOK, cases[t].n_filters, cases[t].dense,
                                   cases[t].n_dense, cases[t].loss, QR_DOUBLE);
        size_t n_params = qr_model_n_params(u.m), k = qr_model_n_outputs(u.m);
        double params[MOST_WEIGHTS], x[SAMPLES * QUBITS], label[SAMPLES * 4] = {0};
        const double *rows[SAMPLES], *y[SAMPLES];
        qr_model_init(u.m, 5, params);
        for (size_t i = 0; i < SAMPLES; i++) {
            for (size_t j = 0; j < QUBITS; j++)
                x[i * QUBITS + j] = 3 * qr_random_uniform(8, QR_RANDOM_DATA, (uint32_t)i, j);
            for (size_t j = 0; j < k; j++) label[i * k + j] = j == i % k;
            rows[i] = x + i * QUBITS;
            y[i] = label + i * k;
        }
        qr_fixed sums[3] = {0}, grad[MOST_WEIGHTS] = {0}, apart[MOST_WEIGHTS] = {0};
        qr_model_prepare(u.s, params, NULL);
        CHECK(qr_model_micro_batch(u.s, u.w, NULL, rows, y, SAMPLES, NULL, sums, grad));
        CHECK(qr_model_micro_batch(u.s, u.w, NULL, rows, y, SAMPLES, NULL, sums, apart) &&
                  memcmp(apart, grad, sizeof grad) == 0,
              "case %zu again", t);
        double worst = 0;
        for (size_t i = 0; i < n_params; i++) {
            static const double weight[4] = {1, -8, 8, -1};
            double was = params[i], h = 0x1p-10, sum = 0;
            for (int d = 0; d < 4; d++) {
                qr_fixed shifted[3] = {0};
                params[i] = was + h * (d < 2 ? d - 2 : d - 1);
                qr_model_prepare(u.s, params, NULL);
                CHECK(qr_model_micro_batch(u.s, u.w, NULL, rows, y, SAMPLES, NULL, shifted, NULL));
                sum += weight[d] * qr_fixed_to_double(shifted[0]);
            }
            params[i] = was;
            worst = t_worst(worst, fabs(sum / (12 * h) - qr_fixed_to_double(grad[i])));
        }
        CHECK(worst < 2e-8, "case %zu: %g", t, worst);
        /* A sample with a NaN adds nothing, whichever filter evaluates it. */
        x[QUBITS] = NAN;
        qr_model_prepare(u.s, params, NULL);
        CHECK(!qr_model_micro_batch(u.s, u.w, NULL, rows, y, SAMPLES, NULL, sums, apart) &&
              memcmp(apart, grad, sizeof grad) == 0);
        setup_free(&u);
    }
}

/* Large circuits share one workspace between filters: two filters with the same weights in circuit
 * and head have the same gradient to the bit, although one runs its forward pass twice. Kernel
 * table and pool change no integer. */
static void test_same_bits(void) {
    static const struct qr_dense_options mixed[2] = {{.units = 2, .activation = QR_TANH},
                                                     {.units = 1, .activation = QR_LINEAR}};
    struct qr_pool *pool = qr_pool_new(2);
    /* 2: large, but planned so that each micro-batch has a small workspace */
    for (int large = 0; large < 3; large++) {
        engine = large == 1 ? QR_ENGINE_STATEVECTOR : QR_ENGINE_AUTO;
        for (int affine = 0; affine < 2; affine++) {
            unsigned n_qubits = large == 1 ? 16 : large ? 12 : 6;
            qr_fixed first[MOST_WEIGHTS] = {0}, first_sums[3] = {0};
            bool have = false;
            for (int table = 0; table < QR_ISAS; table++) {
                if (!qr_isa_available((enum qr_isa)table)) continue;
                isa = (enum qr_isa)table;
                struct setup u = setup_new(n_qubits, large ? 0 : 1, QR_QCNN_NOTEBOOK, 2,
                                           affine ? head : mixed, 2, QR_MSE, QR_SINGLE);
                CHECK(qr_model_micro_batches_in_parallel(u.m) == (large != 1));
                size_t n_theta = qr_model_tensor(u.m, 0)->n, each = qr_model_n_readouts(u.m) / 2;
                const struct qr_model_tensor *kernel = qr_model_tensor(u.m, 2);
                double params[2 * MOST_WEIGHTS], x[2 * 16], label[2] = {1, -1};
                const double *rows[2] = {x, x + n_qubits}, *y[2] = {label, label + 1};
                QR_ASSERT(qr_model_n_params(u.m) <= MOST_WEIGHTS);
                qr_model_init(u.m, 4, params);
                memcpy(params + n_theta, params, n_theta * sizeof *params);
                for (size_t i = 0; i < each * kernel->dims[1]; i++)
                    params[kernel->offset + each * kernel->dims[1] + i] =
                        params[kernel->offset + i];
                for (size_t i = 0; i < 2 * n_qubits; i++)
                    x[i] = qr_random_uniform(2, QR_RANDOM_DATA, 0, i);
                qr_model_prepare(u.s, params, NULL);
                for (int pooled = 0; pooled < 2; pooled++) {
                    qr_fixed sums[3] = {0}, grad[MOST_WEIGHTS] = {0};
                    CHECK(qr_model_micro_batch(u.s, u.w, pooled ? pool : NULL, rows, y, 2, NULL,
                                               sums, grad));
                    CHECK(memcmp(grad, grad + n_theta, n_theta * sizeof *grad) == 0,
                          "large %d affine %d: filters differ", large, affine);
                    if (!have)
                        memcpy(first, grad, sizeof grad), memcpy(first_sums, sums, sizeof sums);
                    have = true;
                    CHECK(memcmp(first, grad, sizeof grad) == 0 &&
                              memcmp(first_sums, sums, sizeof sums) == 0,
                          "large %d affine %d %s pool %d", large, affine, qr_isa_name(isa), pooled);
                }
                setup_free(&u);
            }
        }
    }
    isa = qr_isa_best();
    engine = QR_ENGINE_AUTO;
    qr_pool_free(pool);
}

/* Threads share a state from 15 qubits on; up to 14 each thread has its own micro-batches. */
static void test_threads_of_a_state(void) {
    engine = QR_ENGINE_STATEVECTOR;
    for (unsigned n = 12; n <= 16; n += 2) {
        struct setup u = setup_new(n, 0, QR_QCNN_NOTEBOOK, 2, head, 2, QR_MSE, QR_SINGLE);
        CHECK(qr_model_micro_batches_in_parallel(u.m) == (n <= 14), "%u qubits", n);
        setup_free(&u);
    }
    engine = QR_ENGINE_AUTO;
}

/* Blocks run on threads of their own, and idle threads take their slices: the integers are those of
 * one thread. */
struct shared {
    struct setup u[3];
    struct qr_pool *pool;
    double x[5][20];
    qr_fixed sums[3][3], grad[3][MOST_WEIGHTS];
    atomic_int bad;
};
static void shared_block(void *ctx, size_t i, unsigned worker) {
    struct shared *b = ctx;
    static const double label = 1;
    const double *x = b->x[i], *y = &label;
    /* All threads read one state; each has its own workspace. */
    if (!qr_model_micro_batch(b->u[0].s, b->u[worker].w, b->pool, &x, &y, 1, NULL, b->sums[worker],
                              b->grad[worker]))
        atomic_fetch_add(&b->bad, 1);
}
static void test_blocks_share_slices(void) {
    qr_fixed first[MOST_WEIGHTS + 3];
    for (unsigned threads = 1; threads <= 3; threads++) {
        struct shared b = {.pool = qr_pool_new(threads)};
        for (int k = 0; k < 3; k++) {
            b.u[k] = setup_new(20, 1, QR_QCNN_NOTEBOOK, 1, head, 2, QR_MSE, QR_SINGLE);
            if (!k) continue;
            qr_model_workspace_free(b.u[k].w);
            struct qr_err err;
            must(qr_model_workspace_new(b.u[0].m, &b.u[k].w, &err), &err);
        }
        double params[MOST_WEIGHTS];
        CHECK(qr_model_micro_batches_in_parallel(b.u[0].m) &&
              qr_model_n_params(b.u[0].m) <= MOST_WEIGHTS);
        qr_model_init(b.u[0].m, 6, params);
        qr_model_prepare(b.u[0].s, params, NULL);
        for (size_t i = 0; i < 5; i++)
            for (size_t q = 0; q < 20; q++)
                b.x[i][q] = qr_random_uniform(3, QR_RANDOM_DATA, (uint32_t)i, q);
        qr_pool_for(b.pool, 5, shared_block, &b);
        CHECK(atomic_load(&b.bad) == 0);
        qr_fixed all[MOST_WEIGHTS + 3] = {0};
        for (int k = 0; k < 3; k++) {
            qr_fixed_add(all, b.sums[k], 3);
            qr_fixed_add(all + 3, b.grad[k], qr_model_n_params(b.u[0].m));
        }
        if (threads == 1) memcpy(first, all, sizeof all);
        CHECK(memcmp(first, all, sizeof all) == 0 && all[0] != 0 && all[3] != 0, "%u threads",
              threads);
        /* The first one's model is that of all workspaces. */
        for (int k = 3; k-- > 0;) setup_free(&b.u[k]);
        qr_pool_free(b.pool);
    }
}

static void test_tensors(void) {
    struct setup u = setup_new(8, 1, QR_QCNN_RESEARCH, 3, head, 2, QR_MSE, QR_SINGLE);
    CHECK(strcmp(qr_model_tensor(u.m, 0)->name, "pqc/parameters") == 0 &&
          strcmp(qr_model_tensor(u.m, 2)->name, "pqc_2/parameters") == 0);
    CHECK(strcmp(qr_model_tensor(u.m, 3)->name, "dense/kernel") == 0 &&
          qr_model_tensor(u.m, 3)->dims[0] == 12 && qr_model_n_tensors(u.m) == 7);
    CHECK(qr_model_layer(u.m, 0).n_filters == 3 && qr_model_n_readouts(u.m) == 12 &&
          qr_model_n_inputs(u.m) == 8 && qr_model_n_params(u.m) == 60 + 104 + 9);
    double params[MOST_WEIGHTS];
    qr_model_init(u.m, 1, params);
    for (size_t i = 0; i < 60; i++) CHECK(params[i] >= 0 && params[i] < 6.2831853071795872);
    CHECK(params[0] != params[20]);
    setup_free(&u);
}

int main(void) {
    isa = qr_isa_best();
    for (int precision = QR_SINGLE; precision <= QR_DOUBLE; precision++) {
        enum qr_precision p = (enum qr_precision)precision;
        check_golden("golden_hybrid_research_n8", 8, 1, QR_QCNN_RESEARCH, 1, 2, p);
        check_golden("golden_pure_notebook_n8", 8, 0, QR_QCNN_NOTEBOOK, 1, 0, p);
        check_golden("golden_three_notebook_n8", 8, 1, QR_QCNN_NOTEBOOK, 3, 2, p);
        check_golden("golden_pure_notebook_n12", 12, 0, QR_QCNN_NOTEBOOK, 1, 0, p);
        check_training("train_hybrid_research", 1, QR_QCNN_RESEARCH, 1, 2, p);
        check_training("train_pure_notebook", 0, QR_QCNN_NOTEBOOK, 1, 0, p);
        check_training("train_three_notebook", 1, QR_QCNN_NOTEBOOK, 3, 2, p);
    }
    test_heads();
    test_same_bits();
    test_threads_of_a_state();
    test_blocks_share_slices();
    test_tensors();
    return t_end();
}
