/* Losses with every activation against golden/keras/losses.json, through the public model: an
 * identity kernel makes the last layer's values equal to the inputs, so that the bias' gradient is
 * dL/dz. Then metrics and label rules. */
#include <math.h>

#include "base/mem.h"
#include "model/model.h"
#include "tests/golden.h"
#include "tests/ref/chain.h"

struct setup {
    struct qr_model *m;
    struct qr_model_state *s;
    struct qr_model_workspace *w;
    double params[20];
};

static size_t index_of(const char *name, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, names[i]) == 0) return i;
    exit(1);
}

static struct setup identity_of(size_t k, enum qr_activation activation,
                                struct qr_model_options opt) {
    struct setup u = {0};
    struct qr_dense_options dense = {.units = (unsigned)k, .activation = activation};
    const struct chain c = chain_of(NULL, &dense, 1);
    opt.n_inputs = (unsigned)k;
    opt.layers = c.layers;
    opt.n_layers = c.n;
    opt.micro_batch_size = 4;
    struct qr_err err;
    if (qr_model_new(&opt, &u.m, &err) != QR_OK ||
        qr_model_workspace_new(u.m, &u.w, &err) != QR_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    u.s = qr_model_state_new(u.m);
    for (size_t i = 0; i < k; i++) u.params[i * k + i] = 1;
    return u;
}
static struct setup identity(size_t k, enum qr_activation activation, enum qr_loss loss,
                             const enum qr_metric *metrics, size_t n_metrics) {
    return identity_of(k, activation,
                       (struct qr_model_options){.loss = loss,
                                                 .loss_options = {.delta = 1},
                                                 .metrics = metrics,
                                                 .n_metrics = n_metrics});
}
static void setup_free(struct setup *u) {
    qr_model_workspace_free(u->w);
    qr_model_state_free(u->s);
    qr_model_free(u->m);
}

static void test_golden(void) {
    struct qr_json *root = golden_load("tests/golden/keras/losses.json");
    size_t rows = 0, weighted = 0;
    for (const struct qr_json *e = qr_json_first(root); e; e = qr_json_next(e), rows++) {
        size_t k, n;
        double *z = golden_numbers(qr_json_get(e, "z"), &k),
               *y = golden_numbers(qr_json_get(e, "y"), &n);
        double *want_p = golden_numbers(qr_json_get(e, "p"), &n),
               *want_g = golden_numbers(qr_json_get(e, "gradient"), &n);
        const char *loss = golden_text(e, "loss"), *activation = golden_text(e, "activation");
        double want = golden_number(e, "value", NAN);
        const struct qr_json *o = qr_json_get(e, "options");
        bool logits = false;
        if (qr_json_get(o, "from_logits"))
            CHECK(qr_json_bool(qr_json_get(o, "from_logits"), "", &logits, NULL) == QR_OK);
        weighted += o != NULL;
        struct setup u = identity_of(
            k, (enum qr_activation)index_of(activation, qr_activation_names, QR_ACTIVATIONS),
            (struct qr_model_options){
                .loss = (enum qr_loss)index_of(loss, qr_loss_names, QR_LOSSES),
                .loss_options = {.delta = o ? golden_number(o, "delta", 1) : 1,
                                 .label_smoothing = o ? golden_number(o, "label_smoothing", 0) : 0,
                                 .from_logits = logits},
                .weighted = o != NULL});
        qr_model_prepare(u.s, u.params, NULL);
        double with_weight[4] = {0};
        memcpy(with_weight, y, k * sizeof *y);
        with_weight[k] = golden_number(e, "weight", 1);
        CHECK(qr_model_n_label_columns(u.m) == k + (o != NULL));
        const double *x[1] = {z}, *labels[1] = {with_weight};
        double p[4];
        qr_fixed sums[1] = {0}, grad[12] = {0};
        CHECK(qr_model_predict(u.s, u.w, NULL, x, 1, NULL, p, NULL));
        CHECK(qr_model_micro_batch(u.s, u.w, NULL, x, labels, 1, NULL, sums, grad));
        /* Some 30 roundings of 2^-53 on terms of the size of the result, or of 1. A probability
         * next to 1 - epsilon is known to 2^-53, and 1 - p + epsilon = 2e-7 amplifies that. */
        double tolerance = 30 * DBL_EPSILON;
        for (size_t j = 0; j < k; j++) {
            CHECK(fabs(p[j] - want_p[j]) <= 4 * DBL_EPSILON * fmax(1, fabs(want_p[j])),
                  "row %zu: p = %.17g", rows, p[j]);
            if (strstr(loss, "cross") && want_p[j] > 1 - 2e-7) tolerance = DBL_EPSILON / 2e-7;
        }
        double got = qr_model_mean(u.m, 0, sums, 1);
        CHECK(fabs(got - want) <= tolerance * fmax(1, fabs(want)), "row %zu %s %s: %.17g for %.17g",
              rows, loss, activation, got, want);
        for (size_t j = 0; j < k; j++) {
            double g = qr_fixed_to_double(grad[k * k + j]);
            /* Derivatives of cross-entropies have 1/p: the relative error of p, amplified by the
             * size of the derivative. */
            CHECK(fabs(g - want_g[j]) <= tolerance * fmax(1, want_g[j] * want_g[j]),
                  "row %zu %s %s: d[%zu] = %.17g for %.17g", rows, loss, activation, j, g,
                  want_g[j]);
        }
        free(z), free(y), free(want_p), free(want_g);
        setup_free(&u);
    }
    CHECK(rows >= 200 && weighted >= 80, "%zu rows, %zu with options", rows, weighted);
    qr_json_free(root);
}

/* AUC and confusion matrix of all samples of a row: micro-batches of one to four samples and of one
 * give the same integers. */
static void test_golden_metrics(void) {
    static const enum qr_metric metrics[2] = {QR_CONFUSION_MATRIX, QR_AUC};
    struct qr_json *root = golden_load("tests/golden/keras/metrics.json");
    size_t rows = 0;
    for (const struct qr_json *e = qr_json_first(root); e; e = qr_json_next(e), rows++) {
        size_t n, n_cells, at = 0, k = (size_t)golden_number(e, "k", 0);
        double *z = golden_numbers(qr_json_get(e, "z"), &n),
               *y = golden_numbers(qr_json_get(e, "y"), &n),
               *want = golden_numbers(qr_json_get(e, "confusion_matrix"), &n_cells);
        const struct qr_model_options opt = {
            .loss = (enum qr_loss)index_of(golden_text(e, "loss"), qr_loss_names, QR_LOSSES),
            .loss_options = {.from_logits = golden_flag(e, "from_logits")},
            .metrics = metrics,
            .n_metrics = 2};
        struct setup u = identity_of(k, QR_LINEAR, opt);
        qr_model_prepare(u.s, u.params, NULL);
        size_t n_sums = qr_model_n_sums(u.m), classes = qr_model_confusion(u.m, &at);
        qr_fixed *sums = qr_xaligned(2 * n_sums * sizeof *sums), *other = sums + n_sums;
        memset(sums, 0, 2 * n_sums * sizeof *sums);
        for (size_t i = 0, step = 0; i < n / k; i += step) {
            const double *x[4], *labels[4];
            step = step % 4 + 1 < n / k - i ? step % 4 + 1 : n / k - i;
            for (size_t s = 0; s < step; s++) x[s] = z + (i + s) * k, labels[s] = y + (i + s) * k;
            CHECK(qr_model_micro_batch(u.s, u.w, NULL, x, labels, step, NULL, sums, NULL));
            for (size_t s = step; s-- > 0;)
                CHECK(
                    qr_model_micro_batch(u.s, u.w, NULL, x + s, labels + s, 1, NULL, other, NULL));
        }
        /* The loss of several samples is a different sum of the same terms. */
        CHECK(memcmp(sums + 1, other + 1, (n_sums - 1) * sizeof *sums) == 0);
        CHECK(classes * classes == n_cells, "row %zu: %zu classes", rows, classes);
        double trace = 0, auc = qr_model_mean(u.m, 2, sums, n / k);
        for (size_t i = 0; i < n_cells; i++) {
            CHECK(qr_fixed_to_count(sums[at + i]) == (uint64_t)want[i], "row %zu, cell %zu", rows,
                  i);
            if (i % (classes + 1) == 0) trace += want[i];
        }
        double all = opt.loss == QR_CATEGORICAL_CROSSENTROPY ? (double)(n / k) : (double)n;
        CHECK(qr_model_mean(u.m, 1, sums, n / k) == trace / all, "row %zu", rows);
        /* Keras divides and adds 199 times in float32. */
        CHECK(fabs(auc - golden_number(e, "auc", NAN)) < 1e-6, "row %zu: %.9g for %.9g", rows, auc,
              golden_number(e, "auc", NAN));
        free(z), free(y), free(want), free(sums);
        setup_free(&u);
    }
    CHECK(rows >= 26, "%zu rows", rows);
    qr_json_free(root);
}

static double metric_of(enum qr_metric metric, enum qr_loss loss, size_t k, const double *p,
                        const double *y) {
    struct setup u = identity(k, QR_LINEAR, loss, &metric, 1);
    qr_model_prepare(u.s, u.params, NULL);
    qr_fixed sums[2] = {0};
    CHECK(qr_model_micro_batch(u.s, u.w, NULL, &p, &y, 1, NULL, sums, NULL));
    double v = qr_model_mean(u.m, 1, sums, 1);
    setup_free(&u);
    return v;
}

static void test_metrics(void) {
    static const double plus[1] = {1}, minus[1] = {-1}, zero[1] = {0}, half[1] = {0.5},
                        more[1] = {0.75}, tiny[1] = {-0.25};
    CHECK(metric_of(QR_ACCURACY, QR_MSE, 1, zero, plus) == 1 &&
          metric_of(QR_ACCURACY, QR_MSE, 1, zero, minus) == 0);
    CHECK(metric_of(QR_ACCURACY, QR_MAE, 1, tiny, minus) == 1 &&
          metric_of(QR_ACCURACY, QR_HINGE, 1, tiny, zero) == 1);
    CHECK(metric_of(QR_ACCURACY, QR_BINARY_CROSSENTROPY, 1, half, plus) == 0 &&
          metric_of(QR_ACCURACY, QR_BINARY_CROSSENTROPY, 1, half, zero) == 1);
    CHECK(metric_of(QR_ACCURACY, QR_BINARY_CROSSENTROPY, 1, more, plus) == 1);
    /* Keras' binary accuracy on labels of +-1: a negative label never counts as correct. */
    CHECK(metric_of(QR_BINARY_ACCURACY, QR_MSE, 1, tiny, minus) == 0 &&
          metric_of(QR_BINARY_ACCURACY, QR_MSE, 1, more, plus) == 1);
    static const double scores[3] = {0.25, 0.5, 0.5}, second[3] = {0, 1, 0}, third[3] = {0, 0, 1};
    CHECK(metric_of(QR_ACCURACY, QR_CATEGORICAL_CROSSENTROPY, 3, scores, second) == 1);
    CHECK(metric_of(QR_ACCURACY, QR_CATEGORICAL_CROSSENTROPY, 3, scores, third) == 0);
    CHECK(metric_of(QR_METRIC_MSE, QR_MAE, 1, half, minus) == 2.25 &&
          metric_of(QR_METRIC_MAE, QR_MSE, 1, half, minus) == 1.5);
    CHECK(fabs(metric_of(QR_BINARY_ACCURACY, QR_MSE, 3, scores, second) - 2.0 / 3) <= DBL_EPSILON);
}

/* Sums of one sample: the metric's numerator and denominator. */
static void sums_of(enum qr_metric metric, struct qr_model_options opt, size_t k, const double *p,
                    const double *y, double ret[2]) {
    opt.metrics = &metric;
    opt.n_metrics = 1;
    struct setup u = identity_of(k, QR_LINEAR, opt);
    qr_model_prepare(u.s, u.params, NULL);
    qr_fixed sums[3] = {0};
    CHECK(qr_model_n_sums(u.m) > 1 && qr_model_n_values(u.m) == 2);
    CHECK(qr_model_micro_batch(u.s, u.w, NULL, &p, &y, 1, NULL, sums, NULL));
    for (size_t i = 0; i < 2; i++) ret[i] = qr_fixed_to_double(sums[1 + i]);
    setup_free(&u);
}

/* Values above 0.5 are positives, counted over all outputs as in tf-keras' Precision and Recall.
 * Logits count by their probability. */
static void test_counts(void) {
    static const struct {
        enum qr_loss loss;
        bool logits;
        size_t k;
        double p[3], y[3], precision[2], recall[2];
    } table[] = {
        {QR_MSE, false, 3, {0.5, 0.75, 2}, {1, 1, 0}, {1, 2}, {1, 2}},
        {QR_MSE, false, 3, {-1, 0, 0.25}, {0, 0, 0}, {0, 0}, {0, 0}},
        {QR_MSE, false, 2, {0.625, 1}, {1, 1}, {2, 2}, {2, 2}},
        {QR_HINGE, false, 1, {0.25}, {1}, {0, 0}, {0, 1}},
        {QR_BINARY_CROSSENTROPY, true, 3, {0.25, -0.25, 0}, {1, 0, 1}, {1, 1}, {1, 2}},
        {QR_BINARY_CROSSENTROPY, true, 2, {0.25, 3}, {0, 0}, {0, 2}, {0, 0}},
        /* softmax 0.506, 0.186, 0.307; 0.48, 0.29, 0.23; 0.21, 0.58, 0.21 */
        {QR_CATEGORICAL_CROSSENTROPY, true, 3, {1, 0, 0.5}, {1, 0, 0}, {1, 1}, {1, 1}},
        {QR_CATEGORICAL_CROSSENTROPY, true, 3, {1, 0.5, 0.25}, {1, 0, 0}, {0, 0}, {0, 1}},
        {QR_CATEGORICAL_CROSSENTROPY, true, 3, {-7, -6, -7}, {1, 0, 0}, {0, 1}, {0, 1}},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        const struct qr_model_options opt = {.loss = table[i].loss,
                                             .loss_options = {.from_logits = table[i].logits}};
        double precision[2], recall[2];
        sums_of(QR_PRECISION, opt, table[i].k, table[i].p, table[i].y, precision);
        sums_of(QR_RECALL, opt, table[i].k, table[i].p, table[i].y, recall);
        CHECK(memcmp(precision, table[i].precision, sizeof precision) == 0, "row %zu: %g of %g", i,
              precision[0], precision[1]);
        CHECK(memcmp(recall, table[i].recall, sizeof recall) == 0, "row %zu: %g of %g", i,
              recall[0], recall[1]);
    }
}

/* The expectation loss is the weighted sum of the outputs. It has no labels, so a sample's weight
 * is the first label column. */
static void test_expectation(void) {
    static const double z[3] = {0.25, -0.5, 2}, weights[3] = {2, -1, 0.5}, heavy[1] = {4};
    static const double ones[3] = {1, 1, 1};
    for (int with = 0; with < 4; with++) {
        const double *w = with & 1 ? weights : NULL, times = with & 2 ? 4 : 1;
        struct setup u = identity_of(3, QR_LINEAR,
                                     (struct qr_model_options){.loss = QR_EXPECTATION,
                                                               .loss_options = {.weights = w},
                                                               .weighted = with & 2});
        const double *x[1] = {z}, *y[1] = {with & 2 ? heavy : NULL};
        qr_fixed sums[1] = {0}, grad[12] = {0};
        struct qr_err err;
        CHECK(qr_model_n_label_columns(u.m) == (size_t)(with >= 2));
        CHECK(qr_model_check_labels(u.m, NULL, NULL, 7, &err) == QR_OK);
        qr_model_prepare(u.s, u.params, NULL);
        CHECK(qr_model_micro_batch(u.s, u.w, NULL, x, y, 1, NULL, sums, grad));
        CHECK(qr_fixed_to_double(sums[0]) == times * (w ? 2.0 : 1.75), "%d", with);
        for (size_t j = 0; j < 3; j++)
            CHECK(qr_fixed_to_double(grad[9 + j]) == times * (w ? weights : ones)[j], "%d", with);
        setup_free(&u);
    }
}

/* Ties count as inside, as in tf.math.in_top_k. */
static void test_top_k(void) {
    static const double p[4] = {0.25, 0.5, 0.5, 1},
                        y[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
    static const unsigned first[4] = {4, 2, 2, 1}; /* smallest k that includes the class */
    for (unsigned k = 1; k <= 4; k++)
        for (size_t c = 0; c < 4; c++) {
            double sum[2];
            sums_of(QR_TOP_K_ACCURACY,
                    (struct qr_model_options){.loss = QR_CATEGORICAL_CROSSENTROPY, .top_k = k}, 4,
                    p, y[c], sum);
            CHECK(sum[0] == (k >= first[c]), "k %u, class %zu", k, c);
        }
}

/* The threshold of logits is 0 in accuracy, but 0.5 in binary_accuracy. */
static void test_accuracy_of_logits(void) {
    static const double z[2] = {0.25, -0.25}, y[2] = {1, 0};
    double sum[2];
    struct qr_model_options opt = {.loss = QR_BINARY_CROSSENTROPY,
                                   .loss_options = {.from_logits = true}};
    sums_of(QR_ACCURACY, opt, 2, z, y, sum);
    CHECK(sum[0] == 1);
    sums_of(QR_BINARY_ACCURACY, opt, 2, z, y, sum);
    CHECK(sum[0] == 0.5);
}

/* Predicted class and probabilities of a sample's outputs, for each kind of loss. */
static void test_predictions(void) {
    static const double p[3] = {0.5, 2.5, -0.25}, even[3] = {0.3, 0.3, 0.2};
    const struct qr_metric_options sign = {.loss = QR_MSE}, half = {.loss = QR_BINARY_CROSSENTROPY},
                                   bits = {.loss = QR_BINARY_CROSSENTROPY, .from_logits = true},
                                   most = {.loss = QR_CATEGORICAL_CROSSENTROPY},
                                   soft = {.loss = QR_CATEGORICAL_CROSSENTROPY,
                                           .from_logits = true};
    static const double zero[1] = {0};
    double q[3];
    CHECK(qr_metric_predicted_class(&sign, 3, p, 0) == 1 &&
          qr_metric_predicted_class(&sign, 3, p, 2) == 0);
    CHECK(qr_metric_predicted_class(&sign, 1, zero, 0) == 1 &&
          qr_metric_predicted_class(&bits, 1, zero, 0) == 0);
    CHECK(qr_metric_predicted_class(&half, 3, p, 0) == 0 &&
          qr_metric_predicted_class(&half, 3, p, 1) == 1);
    CHECK(qr_metric_predicted_class(&bits, 3, p, 0) == 1 &&
          qr_metric_predicted_class(&bits, 3, p, 2) == 0);
    CHECK(qr_metric_predicted_class(&most, 3, p, 0) == 1 &&
          qr_metric_predicted_class(&most, 3, even, 2) == 0);
    qr_metric_probabilities(&most, 3, even, q);
    CHECK(q[0] == 0.3 && q[1] == 0.3 && q[2] == 0.2);
    qr_metric_probabilities(&bits, 3, p, q);
    for (size_t j = 0; j < 3; j++) CHECK(fabs(q[j] - 1 / (1 + exp(-p[j]))) < 1e-15);
    qr_metric_probabilities(&soft, 3, p, q);
    for (size_t j = 0; j < 3; j++)
        CHECK(fabs(q[j] - exp(p[j]) / (exp(0.5) + exp(2.5) + exp(-0.25))) < 1e-15);
}

/* Values from sums: means, and ratios with a count of their own at any position; 0 if the count is
 * 0. */
static void test_values(void) {
    static const enum qr_metric metrics[4] = {QR_PRECISION, QR_METRIC_MSE, QR_RECALL, QR_ACCURACY};
    struct setup u = identity(2, QR_LINEAR, QR_BINARY_CROSSENTROPY, metrics, 4);
    static const uint64_t count[7] = {8, 3, 4, 6, 3, 12, 2};
    static const double want[5] = {2, 0.75, 1.5, 0.25, 0.5};
    qr_fixed sums[7];
    double reals[7];
    CHECK(qr_model_n_sums(u.m) == 7 && qr_model_n_values(u.m) == 5);
    for (size_t i = 0; i < 7; i++) {
        reals[i] = (double)count[i];
        CHECK(qr_fixed_from_double(reals[i], &sums[i]));
    }
    for (size_t i = 0; i < 5; i++)
        CHECK(qr_model_mean(u.m, i, sums, 4) == want[i] &&
                  qr_model_running_mean(u.m, i, reals, 4) == want[i],
              "value %zu: %g", i, qr_model_mean(u.m, i, sums, 4));
    sums[1] = sums[2] = 0;
    reals[1] = reals[2] = 0;
    CHECK(qr_model_mean(u.m, 1, sums, 4) == 0 && qr_model_running_mean(u.m, 1, reals, 4) == 0 &&
          qr_model_running_mean(u.m, 0, reals, 0) == 0);
    setup_free(&u);
}

static bool labels_accepted(enum qr_loss loss, const enum qr_metric *metric, size_t k,
                            const double *y, size_t n, const char *word) {
    struct setup u = identity(k, QR_LINEAR, loss, metric, metric != NULL);
    struct qr_err err = {0};
    enum qr_code code = qr_model_check_labels(u.m, y, NULL, n, &err);
    CHECK(code == QR_OK || (code == QR_DATA_LOSS && word && strstr(err.msg, word)), "%d: %s", code,
          err.msg);
    setup_free(&u);
    return code == QR_OK;
}

static void test_labels(void) {
    static const double signs[3] = {1, -1, 1}, bits[3] = {1, 0, 1}, mixed[3] = {1, -1, 0},
                        real[3] = {0.5, 2, -7}, bad[3] = {1, 1, NAN};
    static const double hot[6] = {0, 0, 1, 1, 0, 0}, twice[6] = {0, 0, 1, 1, 1, 0},
                        soft[6] = {1, 0, 0, 0.1f, 0.7f, 0.2f}, less[6] = {0, 1, 0, 0.5, 0.49, 0},
                        below[6] = {-0.5, 1, 0.5, 0, 0, 1};
    static const enum qr_metric accuracy = QR_ACCURACY, binary = QR_BINARY_ACCURACY;
    CHECK(labels_accepted(QR_MSE, NULL, 1, real, 3, NULL) &&
          !labels_accepted(QR_MSE, NULL, 1, bad, 3, "sample 2"));
    CHECK(labels_accepted(QR_MSE, &accuracy, 1, signs, 3, NULL) &&
          !labels_accepted(QR_MSE, &accuracy, 1, bits, 3, "sample 1"));
    CHECK(labels_accepted(QR_MAE, &binary, 1, bits, 3, NULL) &&
          !labels_accepted(QR_MAE, &accuracy, 1, real, 3, "sample 0"));
    static const enum qr_metric precision = QR_PRECISION, recall = QR_RECALL;
    CHECK(labels_accepted(QR_MSE, &precision, 1, bits, 3, NULL) &&
          !labels_accepted(QR_HINGE, &recall, 1, signs, 3,
                           "sample 1: label -1, but precision, recall and auc need"));
    CHECK(labels_accepted(QR_HUBER, &binary, 1, bits, 3, NULL) &&
          !labels_accepted(QR_LOG_COSH, &accuracy, 1, bits, 3, "sample 1"));
    CHECK(labels_accepted(QR_HINGE, NULL, 1, signs, 3, NULL) &&
          labels_accepted(QR_HINGE, &accuracy, 1, bits, 3, NULL));
    CHECK(!labels_accepted(QR_HINGE, NULL, 1, mixed, 3, "sample 2") &&
          !labels_accepted(QR_HINGE, NULL, 1, real, 3, "sample 0"));
    CHECK(labels_accepted(QR_BINARY_CROSSENTROPY, &accuracy, 1, bits, 3, NULL) &&
          !labels_accepted(QR_BINARY_CROSSENTROPY, NULL, 1, signs, 3, "sample 1"));
    CHECK(labels_accepted(QR_CATEGORICAL_CROSSENTROPY, &accuracy, 3, hot, 2, NULL));
    CHECK(labels_accepted(QR_CATEGORICAL_CROSSENTROPY, &accuracy, 3, soft, 2, NULL));
    CHECK(!labels_accepted(QR_CATEGORICAL_CROSSENTROPY, NULL, 3, twice, 2, "sample 1") &&
          !labels_accepted(QR_CATEGORICAL_CROSSENTROPY, NULL, 3, less, 2,
                           "but they add up to 0.99") &&
          !labels_accepted(QR_CATEGORICAL_CROSSENTROPY, NULL, 3, below, 2, "sample 0") &&
          !labels_accepted(QR_CATEGORICAL_CROSSENTROPY, &precision, 3, soft, 2, "need 0 or 1"));
    CHECK(!labels_accepted(QR_MSE, &accuracy, 3, hot, 2, "top_k_accuracy"));
}

/* Soft labels: cross-entropy and its derivative by hand; the class is that of the largest label. */
static void test_soft_labels(void) {
    static const double y[3] = {0.25, 0.125, 0.625}, z[3] = {0.5, -1, 2};
    const struct qr_loss_info *info = qr_loss_info(QR_CATEGORICAL_CROSSENTROPY);
    const struct qr_loss_options o = {0};
    double sum = exp(0.5) + exp(-1) + exp(2), d[3], p[3], want = 0;
    for (int j = 0; j < 3; j++) {
        p[j] = exp(z[j]) / sum;
        want -= y[j] * log(p[j]);
    }
    CHECK(fabs(info->of_logits(&o, 3, z, y, d) - want) < 1e-14);
    for (int j = 0; j < 3; j++) CHECK(fabs(d[j] - (p[j] - y[j])) < 1e-14, "%d: %g", j, d[j]);
    CHECK(fabs(info->value(&o, 3, p, y, d) - want) < 1e-14);
    for (int j = 0; j < 3; j++) CHECK(fabs(d[j] - (1 - y[j] / p[j])) < 1e-13, "%d: %g", j, d[j]);
    CHECK(qr_loss_class(QR_CATEGORICAL_CROSSENTROPY, 3, y) == 2);
}

/* Labels are read where weights follow them, and errors name the samples by row. */
static void test_rows_of_labels(void) {
    struct setup u = identity_of(
        1, QR_SIGMOID, (struct qr_model_options){.loss = QR_BINARY_CROSSENTROPY, .weighted = true});
    static const double y[8] = {1, 0.25, 0, 7, 1, 3, 5, 1};
    static const uint32_t row[4] = {3, 1, 0, 2};
    struct qr_err err = {0};
    CHECK(qr_model_check_labels(u.m, y, NULL, 3, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_model_check_labels(u.m, y, NULL, 4, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "sample 3: label 5"),
          "%s", err.msg);
    CHECK(qr_model_check_labels(u.m, y, row, 4, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "sample 2: label 5"),
          "%s", err.msg);
    setup_free(&u);
}

/* A class weight enters the loss of a training step, not that of an evaluation, and is multiplied
 * by the sample's weight. Every sample counts as 1. */
static void test_class_weight(void) {
    static const struct {
        enum qr_loss loss;
        enum qr_activation activation;
        size_t k, n;
        double weight[3], y[3][4];
        size_t classes[3];
    } table[] = {
        {QR_HINGE, QR_LINEAR, 1, 2, {3, 0.5}, {{-1, 2}, {1, 4}, {0, 1}}, {0, 1, 0}},
        {QR_BINARY_CROSSENTROPY, QR_SIGMOID, 1, 2, {0, 2}, {{1, 2}, {0, 4}, {1, 1}}, {1, 0, 1}},
        {QR_CATEGORICAL_CROSSENTROPY,
         QR_SOFTMAX,
         3,
         3,
         {1, 2, 8},
         {{0, 0, 1, 2}, {1, 0, 0, 1}, {0, 1, 0, 0.5}},
         {2, 0, 1}},
    };
    static const double z[3] = {0.25, -0.5, 0.125};
    for (size_t i = 0; i < COUNT(table); i++)
        for (size_t c = 0; c < 3; c++) {
            size_t k = table[i].k;
            const double *x = z, *y = table[i].y[c];
            qr_fixed sums[3] = {0}, grad[2][12] = {{0}};
            for (int with = 0; with < 2; with++) {
                struct setup u =
                    identity_of(k, table[i].activation,
                                (struct qr_model_options){.loss = table[i].loss,
                                                          .class_weight = table[i].weight,
                                                          .n_class_weights = with ? table[i].n : 0,
                                                          .weighted = with});
                qr_model_prepare(u.s, u.params, NULL);
                CHECK(
                    qr_model_micro_batch(u.s, u.w, NULL, &x, &y, 1, NULL, &sums[with], grad[with]));
                if (with)
                    CHECK(qr_model_micro_batch(u.s, u.w, NULL, &x, &y, 1, NULL, &sums[2], NULL));
                setup_free(&u);
            }
            double sample = y[k], both = sample * table[i].weight[table[i].classes[c]];
            /* Weights are powers of two, or 3 times a number rounded to 2^-64. */
            double bare = qr_fixed_to_double(sums[0]);
            CHECK(fabs(qr_fixed_to_double(sums[1]) - both * bare) < 1e-15, "row %zu, %zu", i, c);
            CHECK(fabs(qr_fixed_to_double(sums[2]) - sample * bare) < 1e-15, "row %zu, %zu", i, c);
            for (size_t j = 0; j < 12; j++)
                CHECK(fabs(qr_fixed_to_double(grad[1][j]) - both * qr_fixed_to_double(grad[0][j])) <
                          1e-15,
                      "row %zu, %zu: d[%zu]", i, c, j);
        }
}

/* Four losses of 2^39 each: each fits, their sum does not, and nothing is added. */
static void test_block_sum(void) {
    struct setup u = identity(1, QR_LINEAR, QR_MAE, NULL, 0);
    qr_model_prepare(u.s, u.params, NULL);
    double far = 0x1p39, zero = 0;
    const double *x[4] = {&far, &far, &far, &far}, *y[4] = {&zero, &zero, &zero, &zero};
    qr_fixed sums[1] = {5}, untouched = 5;
    CHECK(qr_model_micro_batch(u.s, u.w, NULL, x, y, 1, NULL, sums, NULL) && sums[0] != untouched);
    sums[0] = untouched;
    CHECK(!qr_model_micro_batch(u.s, u.w, NULL, x, y, 4, NULL, sums, NULL) && sums[0] == untouched);
    setup_free(&u);
}

int main(void) {
    test_golden();
    test_golden_metrics();
    test_expectation();
    test_metrics();
    test_counts();
    test_top_k();
    test_accuracy_of_logits();
    test_predictions();
    test_values();
    test_labels();
    test_rows_of_labels();
    test_soft_labels();
    test_class_weight();
    test_block_sum();
    return t_end();
}
