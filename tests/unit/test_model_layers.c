/* Dense models: tensors and initial weights; gradients against differences; the same block gives
 * the same integers; numbers that are not finite or too large. */
#include <math.h>

#include "base/mem.h"
#include "exact/random.h"
#include "model/model.h"
#include "tests/golden.h"
#include "tests/ref/chain.h"

enum { BLOCK = 5, INPUTS = 6, MOST = 200 };
struct setup {
    struct qr_model *m;
    struct qr_model_state *s;
    struct qr_model_workspace *w;
    double params[MOST];
};

static struct setup setup_new(const struct qr_dense_options *dense, size_t n_dense,
                              enum qr_loss loss) {
    struct setup u = {0};
    static const enum qr_metric metrics[2] = {QR_METRIC_MSE, QR_METRIC_MAE};
    const struct chain c = chain_of(NULL, dense, n_dense);
    struct qr_model_options opt = {.n_inputs = INPUTS,
                                   .layers = c.layers,
                                   .n_layers = c.n,
                                   .loss = loss,
                                   .metrics = metrics,
                                   .n_metrics = 2,
                                   .micro_batch_size = BLOCK};
    struct qr_err err;
    if (qr_model_new(&opt, &u.m, &err) != QR_OK ||
        qr_model_workspace_new(u.m, &u.w, &err) != QR_OK || qr_model_n_params(u.m) > MOST) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    u.s = qr_model_state_new(u.m);
    qr_model_init(u.m, 3, u.params);
    return u;
}
static void setup_free(struct setup *u) {
    qr_model_workspace_free(u->w);
    qr_model_state_free(u->s);
    qr_model_free(u->m);
}

static double x_of[BLOCK][INPUTS], y_of[BLOCK][8];
static const double *x[BLOCK], *y[BLOCK];
static void make_samples(bool one_hot) {
    for (unsigned i = 0; i < BLOCK; i++) {
        for (unsigned j = 0; j < INPUTS; j++)
            x_of[i][j] = 2 * qr_random_uniform(9, QR_RANDOM_DATA, i, j) - 1;
        for (unsigned j = 0; j < 8; j++)
            y_of[i][j] =
                one_hot ? j == i % 3 : qr_random_uniform(9, QR_RANDOM_DATA, i, 100 + j) < 0.5;
        x[i] = x_of[i];
        y[i] = y_of[i];
    }
}

static double loss_at(struct setup *u) {
    qr_fixed sums[3] = {0};
    qr_model_prepare(u->s, u->params, NULL);
    CHECK(qr_model_micro_batch(u->s, u->w, NULL, x, y, BLOCK, NULL, sums, NULL));
    return qr_fixed_to_double(sums[0]);
}

/* Central differences, h = 2^-17: truncation h^2/6 |f'''| (at most ~20 here: 2e-10), rounding 2^-53
 * |L| / h (|L| < 20: 3e-10). Near relu's corner a difference would be wrong; the samples stay away
 * from it. */
static void test_differences(void) {
    static const struct {
        struct qr_dense_options dense[3];
        size_t n;
        enum qr_loss loss;
    } nets[] = {
        {{{.units = 4, .activation = QR_LINEAR}, {.units = 1, .activation = QR_LINEAR}}, 2, QR_MSE},
        {{{.units = 4, .activation = QR_TANH},
          {.units = 3, .activation = QR_RELU},
          {.units = 2, .activation = QR_LINEAR}},
         3,
         QR_MSE},
        {{{.units = 4, .activation = QR_SIGMOID}, {.units = 1, .activation = QR_TANH}},
         2,
         QR_HINGE},
        {{{.units = 5, .activation = QR_SOFTMAX}, {.units = 2, .activation = QR_LINEAR}},
         2,
         QR_MSE},
        {{{.units = 4, .activation = QR_TANH}, {.units = 1, .activation = QR_SIGMOID}},
         2,
         QR_BINARY_CROSSENTROPY},
        {{{.units = 4, .activation = QR_RELU}, {.units = 3, .activation = QR_SOFTMAX}},
         2,
         QR_CATEGORICAL_CROSSENTROPY},
        {{{.units = 4, .activation = QR_TANH}, {.units = 3, .activation = QR_SIGMOID}},
         2,
         QR_CATEGORICAL_CROSSENTROPY},
        {{{.units = 4, .activation = QR_TANH}, {.units = 3, .activation = QR_SOFTMAX}},
         2,
         QR_BINARY_CROSSENTROPY},
    };
    for (size_t t = 0; t < COUNT(nets); t++) {
        struct setup u = setup_new(nets[t].dense, nets[t].n, nets[t].loss);
        make_samples(nets[t].loss == QR_CATEGORICAL_CROSSENTROPY);
        size_t n = qr_model_n_params(u.m);
        qr_fixed sums[3] = {0}, grad[MOST] = {0};
        qr_model_prepare(u.s, u.params, NULL);
        CHECK(qr_model_micro_batch(u.s, u.w, NULL, x, y, BLOCK, NULL, sums, grad));
        double worst = 0;
        for (size_t i = 0; i < n; i++) {
            double was = u.params[i], h = 0x1p-17;
            u.params[i] = was + h;
            double up = loss_at(&u);
            u.params[i] = was - h;
            double down = loss_at(&u);
            u.params[i] = was;
            worst = t_worst(worst, fabs((up - down) / (2 * h) - qr_fixed_to_double(grad[i])));
        }
        CHECK(worst < 1e-8, "net %zu: %g", t, worst);
        /* Prediction gradients of each output, against differences too. */
        for (size_t c = 0; c < qr_model_n_outputs(u.m); c++) {
            double g[MOST], p[BLOCK * 8];
            qr_model_prepare(u.s, u.params, NULL);
            CHECK(qr_model_prediction_gradient(u.s, u.w, NULL, x[1], NULL, c, g));
            worst = 0;
            for (size_t i = 0; i < n; i++) {
                double was = u.params[i], h = 0x1p-17, side[2];
                for (int k = 0; k < 2; k++) {
                    u.params[i] = k ? was - h : was + h;
                    qr_model_prepare(u.s, u.params, NULL);
                    CHECK(qr_model_predict(u.s, u.w, NULL, &x[1], 1, NULL, p, NULL));
                    side[k] = p[c];
                }
                u.params[i] = was;
                worst = t_worst(worst, fabs((side[0] - side[1]) / (2 * h) - g[i]));
            }
            CHECK(worst < 1e-8, "net %zu output %zu: %g", t, c, worst);
        }
        setup_free(&u);
    }
}

/* The contract's arithmetic, written out: one accumulator per output, index ascending; one integer
 * per weight and block. The sizes leave a remainder after groups of four. */
static void test_integers(void) {
    enum { UNITS = 7, WEIGHTS = INPUTS * UNITS };
    static const struct qr_dense_options dense[2] = {{.units = UNITS, .activation = QR_LINEAR},
                                                     {.units = UNITS, .activation = QR_LINEAR}};
    struct setup u = setup_new(dense, 2, QR_MSE);
    make_samples(false);
    qr_model_prepare(u.s, u.params, NULL);
    qr_fixed sums[3] = {0}, grad[MOST] = {0}, want, loss = 0, term;
    CHECK(qr_model_micro_batch(u.s, u.w, NULL, x, y, BLOCK, NULL, sums, grad));
    const double *w1 = u.params, *b1 = w1 + WEIGHTS, *w2 = b1 + UNITS, *b2 = w2 + UNITS * UNITS;
    double h[BLOCK][UNITS], d[BLOCK][UNITS], back[BLOCK][UNITS];
    for (int s = 0; s < BLOCK; s++) {
        double sum = 0;
        for (int j = 0; j < UNITS; j++) {
            double z = 0;
            for (int i = 0; i < INPUTS; i++) z += x[s][i] * w1[i * UNITS + j];
            h[s][j] = z + b1[j];
        }
        for (int j = 0; j < UNITS; j++) {
            double z = 0;
            for (int i = 0; i < UNITS; i++) z += h[s][i] * w2[i * UNITS + j];
            double e = z + b2[j] - y[s][j];
            sum += e * e;
            d[s][j] = 2 * e / UNITS;
        }
        for (int i = 0; i < UNITS; i++) {
            double z = 0;
            for (int j = 0; j < UNITS; j++) z += d[s][j] * w2[i * UNITS + j];
            back[s][i] = z;
        }
        CHECK(qr_fixed_from_double(sum / UNITS, &term));
        loss += term;
    }
    for (int i = 0; i < INPUTS + UNITS + 2; i++) { /* rows of both layers, their biases last */
        bool first = i <= INPUTS;
        int row = first ? i : i - INPUTS - 1,
            at = first ? i * UNITS : WEIGHTS + UNITS + row * UNITS;
        for (int j = 0; j < UNITS; j++) {
            double sum = 0;
            for (int s = 0; s < BLOCK; s++) {
                double a = row == (first ? INPUTS : UNITS) ? 1 : first ? x[s][row] : h[s][row];
                sum += a * (first ? back[s][j] : d[s][j]);
            }
            CHECK(qr_fixed_from_double(sum, &want) && want == grad[at + j], "row %d, unit %d", i,
                  j);
        }
    }
    CHECK(loss == sums[0] && sums[0] == sums[1]);
    setup_free(&u);
}

/* A block's integers depend neither on earlier uses of the workspace nor on the sums that they are
 * added to. */
static void test_block_is_pure(void) {
    static const struct qr_dense_options dense[2] = {{.units = 4, .activation = QR_TANH},
                                                     {.units = 2, .activation = QR_LINEAR}};
    struct setup u = setup_new(dense, 2, QR_MSE), v = setup_new(dense, 2, QR_MSE);
    make_samples(false);
    size_t n = qr_model_n_params(u.m);
    qr_fixed alone[MOST] = {0}, among[MOST] = {0}, before[MOST], sums[3] = {0}, more[3] = {0},
             start[3];
    qr_model_prepare(u.s, u.params, NULL);
    qr_model_prepare(v.s, v.params, NULL);
    CHECK(qr_model_micro_batch(u.s, u.w, NULL, x + 1, y + 1, 2, NULL, sums, alone));
    CHECK(qr_model_micro_batch(v.s, v.w, NULL, x, y, BLOCK, NULL, more, among));
    memcpy(before, among, sizeof among);
    memcpy(start, more, sizeof more);
    CHECK(qr_model_micro_batch(v.s, v.w, NULL, x + 1, y + 1, 2, NULL, more, among));
    for (size_t i = 0; i < n; i++) CHECK(among[i] - before[i] == alone[i]);
    for (size_t i = 0; i < 3; i++) CHECK(more[i] - start[i] == sums[i]);
    /* Evaluation gives the same sums as training. */
    qr_fixed eval[3] = {0};
    CHECK(qr_model_micro_batch(v.s, v.w, NULL, x + 1, y + 1, 2, NULL, eval, NULL) &&
          memcmp(eval, sums, sizeof eval) == 0);
    qr_fixed none[3] = {0}, none_grad[MOST] = {0};
    CHECK(qr_model_micro_batch(v.s, v.w, NULL, x, y, 0, NULL, none, none_grad) && none[0] == 0 &&
          none_grad[0] == 0);
    setup_free(&u), setup_free(&v);
}

static void test_bad_numbers(void) {
    static const struct qr_dense_options dense[2] = {{.units = 4, .activation = QR_TANH},
                                                     {.units = 1, .activation = QR_LINEAR}},
                                         relu[2] = {{.units = 4, .activation = QR_RELU},
                                                    {.units = 1, .activation = QR_SIGMOID}};
    static const double bad[] = {NAN, INFINITY, -INFINITY, 0x1p41, -1e300};
    for (int net = 0; net < 2; net++) {
        struct setup u = setup_new(net ? relu : dense, 2, net ? QR_BINARY_CROSSENTROPY : QR_MSE);
        qr_fixed sums[3] = {5, 6, 7}, grad[MOST] = {8};
        for (size_t b = 0; b < COUNT(bad); b++) {
            for (int where = 0; where < 4; where++) {
                make_samples(false);
                double keep = u.params[5];
                if (where == 0) x_of[3][1] = bad[b];
                if (where == 1) u.params[5] = bad[b] * 4;                      /* a kernel weight */
                if (where == 2) u.params[qr_model_n_params(u.m) - 1] = bad[b]; /* the last bias */
                if (where == 3) y_of[2][0] = b < 3 ? bad[b] : 1e300;
                qr_model_prepare(u.s, u.params, NULL);
                CHECK(!qr_model_micro_batch(u.s, u.w, NULL, x, y, BLOCK, NULL, sums, grad),
                      "net %d, %g, case %d", net, bad[b], where);
                double g[MOST] = {3}, p[BLOCK];
                if (where < 3)
                    CHECK(!qr_model_predict(u.s, u.w, NULL, x + 3, 1, NULL, p, NULL) || where == 1);
                if (where == 0)
                    CHECK(!qr_model_prediction_gradient(u.s, u.w, NULL, x[3], NULL, 0, g) &&
                          g[0] == 3);
                u.params[5] = keep;
                u.params[qr_model_n_params(u.m) - 1] = 0;
            }
        }
        CHECK(sums[0] == 5 && sums[1] == 6 && sums[2] == 7 && grad[0] == 8 && grad[1] == 0,
              "a rejected block adds nothing");
        setup_free(&u);
    }
}

/* A layer larger than one task of a product: every kernel table, with and without a pool, gives the
 * integers of plain sums. For inputs of a large `size` a gradient's bound by magnitudes does not
 * hold, so every sum is checked. */
enum { WIDE_IN = 260, WIDE = 270, WIDE_BLOCK = 8, WIDE_PARAMS = (WIDE_IN + 1) * WIDE };
struct wide {
    double params[WIDE_PARAMS], x[WIDE_BLOCK][WIDE_IN], y[WIDE_BLOCK][WIDE];
    const double *xs[WIDE_BLOCK], *ys[WIDE_BLOCK];
    qr_fixed grad[WIDE_PARAMS], want[WIDE_PARAMS];
};

static void fill_wide(struct wide *t, double size) {
    for (size_t i = 0; i < WIDE_PARAMS; i++)
        t->params[i] = qr_random_uniform(5, QR_RANDOM_DATA, 0, i) - 0.5;
    for (size_t s = 0; s < WIDE_BLOCK; s++) {
        for (size_t i = 0; i < WIDE_IN; i++)
            t->x[s][i] = size * (qr_random_uniform(5, QR_RANDOM_DATA, 1, s * WIDE_IN + i) - 0.5);
        for (size_t j = 0; j < WIDE; j++) t->y[s][j] = (double)(j % 2);
        t->xs[s] = t->x[s];
        t->ys[s] = t->y[s];
    }
    memset(t->want, 0, sizeof t->want);
    double sign[WIDE_BLOCK]; /* of mae's derivative */
    for (size_t j = 0; j < WIDE; j++) {
        for (size_t s = 0; s < WIDE_BLOCK; s++) {
            double z = 0;
            for (size_t i = 0; i < WIDE_IN; i++) z += t->x[s][i] * t->params[i * WIDE + j];
            z += t->params[WIDE_IN * WIDE + j];
            sign[s] = (z > t->y[s][j] ? 1.0 : -1.0) / WIDE;
        }
        for (size_t i = 0; i <= WIDE_IN; i++) {
            double sum = 0;
            for (size_t s = 0; s < WIDE_BLOCK; s++) sum += (i < WIDE_IN ? t->x[s][i] : 1) * sign[s];
            CHECK(qr_fixed_from_double(sum, &t->want[i * WIDE + j]));
        }
    }
}

static void test_wide(void) {
    static struct wide t;
    static const struct qr_dense_options dense = {.units = WIDE, .activation = QR_LINEAR};
    static const double sizes[] = {1, 0x1p32};
    const struct chain c = chain_of(NULL, &dense, 1);
    struct qr_pool *pool = qr_pool_new(2);
    for (int run = 0; run < 4 * QR_ISAS; run++) {
        enum qr_isa isa = (enum qr_isa)(run / 4);
        if (!qr_isa_available(isa)) continue;
        struct qr_model_options opt = {.n_inputs = WIDE_IN,
                                       .layers = c.layers,
                                       .n_layers = 1,
                                       .loss = QR_MAE,
                                       .sim = {.isa = isa},
                                       .micro_batch_size = WIDE_BLOCK};
        struct qr_model *m = NULL;
        struct qr_model_workspace *w = NULL;
        struct qr_err err;
        CHECK(qr_model_new(&opt, &m, &err) == QR_OK &&
              qr_model_workspace_new(m, &w, &err) == QR_OK);
        struct qr_model_state *s = qr_model_state_new(m);
        qr_fixed sum = 0;
        fill_wide(&t, sizes[run % 2]);
        memset(t.grad, 0, sizeof t.grad);
        qr_model_prepare(s, t.params, NULL);
        CHECK(qr_model_micro_batch(s, w, run & 2 ? pool : NULL, t.xs, t.ys, WIDE_BLOCK, NULL, &sum,
                                   t.grad) &&
                  memcmp(t.grad, t.want, sizeof t.grad) == 0,
              "%s, inputs of size %g%s", qr_isa_name(isa), sizes[run % 2],
              run & 2 ? ", two threads" : "");
        qr_model_workspace_free(w);
        qr_model_state_free(s);
        qr_model_free(m);
    }
    qr_pool_free(pool);
}

/* Sums of derivatives that reach 2^40 although no term does: those of the upper layer fit, those of
 * the lower one do not, and nothing is added. */
static void test_gradient_too_large(void) {
    static const struct qr_dense_options dense[2] = {{.units = 1, .activation = QR_LINEAR},
                                                     {.units = 1, .activation = QR_LINEAR}};
    struct setup u = setup_new(dense, 2, QR_MAE);
    make_samples(false);
    memset(u.params, 0, sizeof u.params);
    u.params[INPUTS + 1] = 1; /* the upper kernel */
    for (unsigned i = 0; i < BLOCK; i++) x_of[i][2] = 0x1p39, y_of[i][0] = 1;
    qr_fixed sums[3] = {5, 6, 7}, grad[MOST] = {8};
    qr_model_prepare(u.s, u.params, NULL);
    CHECK(!qr_model_micro_batch(u.s, u.w, NULL, x, y, BLOCK, NULL, sums, grad));
    for (size_t i = 0; i < MOST; i++) CHECK(grad[i] == (i ? 0 : 8));
    CHECK(sums[0] == 5 && sums[1] == 6 && sums[2] == 7);
    CHECK(qr_model_micro_batch(u.s, u.w, NULL, x, y, 1, NULL, sums, grad), "one sample fits");
    setup_free(&u);
}

static void test_tensors(void) {
    static const struct qr_dense_options dense[3] = {{.units = 4, .activation = QR_TANH},
                                                     {.units = 3, .activation = QR_RELU},
                                                     {.units = 2, .activation = QR_LINEAR}};
    struct setup u = setup_new(dense, 3, QR_MSE);
    static const char *const names[6] = {"dense/kernel", "dense/bias",     "dense_1/kernel",
                                         "dense_1/bias", "dense_2/kernel", "dense_2/bias"};
    CHECK(qr_model_n_tensors(u.m) == 6 && qr_model_n_params(u.m) == 24 + 4 + 12 + 3 + 6 + 2 &&
          qr_model_n_outputs(u.m) == 2);
    CHECK(qr_model_n_sums(u.m) == 3 && qr_model_n_label_columns(u.m) == 2 &&
          qr_model_n_inputs(u.m) == INPUTS && qr_model_quantum(u.m, 0) == 3 &&
          qr_model_n_layers(u.m) == 3);
    CHECK(qr_model_micro_batches_in_parallel(u.m) && qr_model_n_readouts(u.m) == 0 &&
          qr_model_bytes_per_thread(u.m) > 0);
    size_t at = 0;
    for (size_t i = 0; i < 6; i++) {
        const struct qr_model_tensor *t = qr_model_tensor(u.m, i);
        CHECK(strcmp(t->name, names[i]) == 0 && t->offset == at && !t->circuit &&
                  t->rank == 2 - i % 2,
              "%s", t->name);
        double limit = sqrt(6.0 / (double)(t->dims[0] + t->dims[1])), most = 0;
        for (size_t k = 0; k < t->n; k++) {
            double w = u.params[at + k],
                   draw = qr_random_uniform(3, QR_RANDOM_INIT, (uint32_t)i, k);
            CHECK(t->rank == 1 ? w == 0 && !signbit(w) : w == limit * (2 * draw - 1));
            most = t_worst(most, fabs(w));
        }
        CHECK(most <= limit && (t->rank == 1 || most > limit / 4));
        at += t->n;
    }
    uint8_t seen[MOST];
    memset(seen, 7, sizeof seen);
    qr_model_zero_gradient(u.m, seen);
    CHECK(seen[0] == 0 && seen[qr_model_n_params(u.m) - 1] == 0 &&
          seen[qr_model_n_params(u.m)] == 7);
    setup_free(&u);
}

static void test_rejected_options(void) {
    static const struct qr_dense_options one = {.units = 1, .activation = QR_SIGMOID},
                                         none = {.units = 0, .activation = QR_LINEAR},
                                         huge[2] = {
                                             {.units = 4294967295u, .activation = QR_LINEAR},
                                             {.units = 4294967295u, .activation = QR_LINEAR}};
    const struct chain ones = chain_of(NULL, &one, 1), nones = chain_of(NULL, &none, 1),
                       huges = chain_of(NULL, huge, 2);
    struct qr_model_options ok = {.n_inputs = 3,
                                  .layers = ones.layers,
                                  .n_layers = 1,
                                  .loss = QR_BINARY_CROSSENTROPY,
                                  .micro_batch_size = 1},
                            o;
    struct qr_model *m = NULL;
    struct qr_err err;
    o = ok, o.micro_batch_size = 0;
    CHECK(qr_model_new(&o, &m, &err) == QR_INVALID_ARGUMENT && !m &&
          strstr(err.msg, "micro_batch_size"));
    o = ok, o.n_layers = 0;
    CHECK(qr_model_new(&o, &m, &err) == QR_INVALID_ARGUMENT && !m);
    o = ok, o.n_inputs = 0;
    CHECK(qr_model_new(&o, &m, &err) == QR_INVALID_ARGUMENT && !m);
    o = ok, o.layers = nones.layers;
    CHECK(qr_model_new(&o, &m, &err) == QR_INVALID_ARGUMENT && !m && strstr(err.msg, "0 units"));
    o = ok, o.loss = QR_CATEGORICAL_CROSSENTROPY;
    CHECK(qr_model_new(&o, &m, &err) == QR_INVALID_ARGUMENT && !m &&
          strstr(err.msg, "binary_crossentropy"));
    o = ok, o.layers = huges.layers, o.n_layers = 2;
    CHECK(qr_model_new(&o, &m, &err) == QR_RESOURCE_EXHAUSTED && !m);
    CHECK(qr_model_new(&ok, &m, &err) == QR_OK && m);
    qr_model_free(m);
}

int main(void) {
    test_differences();
    test_integers();
    test_block_is_pure();
    test_bad_numbers();
    test_wide();
    test_gradient_too_large();
    test_tensors();
    test_rejected_options();
    return t_end();
}
