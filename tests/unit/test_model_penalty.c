/* Kernel regularizers: the sum and its derivative, by hand and by differences; they enter a mean
 * loss once for any number of samples. */
#include <math.h>

#include "base/mem.h"
#include "model/model.h"
#include "tests/ref/chain.h"
#include "tests/t.h"
#include "train/evaluate.h"

enum { INPUTS = 3, N = 7 };

struct setup {
    struct qr_model *m;
    struct qr_dataset data;
    double x[N * INPUTS], y[N], w[64];
};

static void setup(struct setup *u, double l1, double l2) {
    const struct qr_dense_options dense[3] = {
        {.units = 4, .activation = QR_TANH, .l1 = l1, .l2 = l2},
        {.units = 2, .activation = QR_RELU},
        {.units = 1, .l2 = 3 * l2}};
    const struct chain c = chain_of(NULL, dense, 3);
    const struct qr_model_options opt = {.n_inputs = INPUTS,
                                         .layers = c.layers,
                                         .n_layers = c.n,
                                         .loss = QR_LOG_COSH,
                                         .micro_batch_size = 4};
    struct qr_err err;
    *u = (struct setup){0};
    CHECK(qr_model_new(&opt, &u->m, &err) == QR_OK, "%s", err.msg);
    for (size_t i = 0; i < N * INPUTS; i++) u->x[i] = 0.1 * (double)i - 1;
    for (size_t i = 0; i < N; i++) u->y[i] = 0.3 * (double)(i % 3);
    u->data = (struct qr_dataset){
        .n_samples = N, .n_train = N, .n_columns = INPUTS, .n_outputs = 1, .x = u->x, .y = u->y};
    for (size_t i = 0; i < qr_model_n_params(u->m); i++)
        u->w[i] = i % 5 ? 0.25 * (double)(i % 7) - 0.7 : 0;
}

/* Kernel weights by tensor: 12 of the first layer, 8 of the second, 2 of the third. */
static void test_by_hand(void) {
    struct setup u;
    setup(&u, 0.5, 0.25);
    double sizes = 0, squares = 0, last = 0, grad[64] = {0};
    const struct qr_model_tensor *first = qr_model_tensor(u.m, 0), *third = qr_model_tensor(u.m, 4);
    for (size_t i = 0; i < first->n; i++) {
        sizes += fabs(u.w[first->offset + i]);
        squares += u.w[first->offset + i] * u.w[first->offset + i];
    }
    for (size_t i = 0; i < third->n; i++) last += u.w[third->offset + i] * u.w[third->offset + i];
    double want = 0.5 * sizes + 0.25 * squares + 0.75 * last;
    CHECK(fabs(qr_model_penalty(u.m, u.w) - want) < 1e-14, "%g", want);
    /* The parts begin and end within kernels. */
    for (size_t at = 0, n = qr_model_n_params(u.m); at < n; at += 5)
        qr_model_add_penalty_gradient(u.m, u.w, at, at + 5 < n ? at + 5 : n, grad);
    for (size_t t = 0; t < qr_model_n_tensors(u.m); t++) {
        const struct qr_model_tensor *tensor = qr_model_tensor(u.m, t);
        for (size_t i = tensor->offset; i < tensor->offset + tensor->n; i++) {
            double w = u.w[i], sign = (w > 0) - (w < 0),
                   d = t == 0   ? 0.5 * sign + 0.5 * w
                       : t == 4 ? 1.5 * w
                                : 0;
            CHECK(fabs(grad[i] - d) < 1e-15, "%s[%zu]: %g for %g", tensor->name, i, grad[i], d);
        }
    }
    qr_model_free(u.m);
}

/* The gradient of the whole mean loss, by central differences. */
static void test_differences(void) {
    struct setup u;
    struct qr_err err;
    setup(&u, 0, 0.125);
    size_t sample[N];
    for (size_t i = 0; i < N; i++) sample[i] = i;
    double grad[64], other[64], loss, up, down, h = 0x1p-16;
    CHECK(qr_loss_gradient(u.m, u.w, &u.data, sample, N, NULL, &loss, grad, &err) == QR_OK);
    for (size_t i = 0; i < qr_model_n_params(u.m); i++) {
        double was = u.w[i];
        u.w[i] = was + h;
        CHECK(qr_loss_gradient(u.m, u.w, &u.data, sample, N, NULL, &up, other, &err) == QR_OK);
        u.w[i] = was - h;
        CHECK(qr_loss_gradient(u.m, u.w, &u.data, sample, N, NULL, &down, other, &err) == QR_OK);
        u.w[i] = was;
        double slope = (up - down) / (2 * h);
        CHECK(fabs(slope - grad[i]) < 1e-8, "%zu: %.12g for %.12g", i, grad[i], slope);
    }
    qr_model_free(u.m);
}

/* Twice the samples give the same mean loss; without the regularizers it is smaller by
 * the penalty. */
static void test_once(void) {
    struct setup with, without;
    struct qr_err err;
    setup(&with, 0.5, 0.25);
    setup(&without, 0, 0);
    size_t sample[2 * N];
    for (size_t i = 0; i < 2 * N; i++) sample[i] = i % N;
    double a, b, c, grad[64], bare[64];
    CHECK(qr_loss_gradient(with.m, with.w, &with.data, sample, N, NULL, &a, grad, &err) == QR_OK);
    CHECK(qr_evaluate(with.m, with.w, &with.data, sample, 2 * N, NULL, NULL, NULL, &b, &err) ==
          QR_OK);
    CHECK(qr_loss_gradient(without.m, with.w, &with.data, sample, N, NULL, &c, bare, &err) ==
          QR_OK);
    CHECK(fabs(a - b) < 1e-15 && fabs(a - c - qr_model_penalty(with.m, with.w)) < 1e-15);
    CHECK(qr_model_penalty(without.m, with.w) == 0 && qr_model_penalty(with.m, with.w) > 1);
    qr_model_free(with.m);
    qr_model_free(without.m);
}

int main(void) {
    test_by_hand();
    test_differences();
    test_once();
    return t_end();
}
