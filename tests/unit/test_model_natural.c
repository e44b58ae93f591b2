/* The natural gradient against PennyLane's block-diagonal metric and QNGOptimizer
 * (golden/optimizers/natural-gradient.json); pseudo-inverses; unsupported gates. */
#include "model/natural/natural_gradient.h"

#include <math.h>

#include "job/job.h"
#include "model/natural/pseudo_inverse.h"
#include "tests/golden.h"
#include "tests/ref/dense.h"
#include "train/evaluate.h"

enum { MOST = 32 };
static struct qr_err err;

struct fixture {
    struct qr_job *job;
    struct qr_model *model;
    struct qr_dataset data;
    const struct qr_circuit *circuit;
    size_t n;
};
static bool setup(struct fixture *f, const char *text) {
    *f = (struct fixture){0};
    CHECK(qr_job_parse(qr_bytes_of_string(text), "the test", &f->job, &err) == QR_OK &&
              qr_job_data(f->job, &f->data, &err) == QR_OK &&
              qr_job_model(f->job, QR_ISA_PORTABLE, 0, &f->model, &err) == QR_OK,
          "%s", err.msg);
    if (!f->model) return false;
    f->circuit = f->job->layers[0].quantum.circuit;
    f->n = qr_model_n_params(f->model);
    CHECK(f->n <= MOST);
    return true;
}
static void teardown(struct fixture *f) {
    qr_model_free(f->model);
    qr_dataset_fini(&f->data);
    qr_job_free(f->job);
}

static void metric_of(const struct fixture *f, const double *w, double *ret) {
    struct qr_natural_gradient *natural = NULL;
    CHECK(qr_natural_gradient_new(f->circuit, QR_ISA_PORTABLE, &natural, &err) == QR_OK, "%s",
          err.msg);
    if (natural) qr_natural_gradient_metric(natural, w, NULL, ret);
    qr_natural_gradient_free(natural);
}

static double max_difference(const double *a, const double *b, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++) most = t_worst(most, fabs(a[i] - b[i]));
    return most;
}

static void golden_row(const struct qr_json *e, size_t row) {
    struct fixture f;
    size_t n, n_metric, n_after, zero = 0;
    double *w = golden_numbers(qr_json_get(e, "weights"), &n),
           *want = golden_numbers(qr_json_get(e, "metric"), &n_metric),
           *after = golden_numbers(qr_json_get(e, "after"), &n_after), got[MOST * MOST], worst = 0,
           loss, g[MOST];
    if (!setup(&f, golden_text(e, "job"))) return;
    const struct qr_optimizer_options *o = &f.job->train.optimizer;
    const struct qr_optimizer_tensor all = {n, false};
    CHECK(f.n == n && n_metric == n * n && n_after == 8 * n, "row %zu: %zu weights", row, f.n);
    metric_of(&f, w, got);
    CHECK(max_difference(got, want, n * n) <= 1e-14, "row %zu: metric off by %g", row,
          max_difference(got, want, n * n));
    for (size_t t = 0; t < 8; t++) {
        CHECK(qr_loss_gradient(f.model, w, &f.data, &zero, 1, NULL, &loss, g, &err) == QR_OK, "%s",
              err.msg);
        qr_model_natural_gradient(f.model, w, o->regularization, NULL, g);
        qr_optimizer_apply(o, t, loss, n, &all, 1, g, w, NULL, NULL);
        worst = t_worst(worst, max_difference(w, after + t * n, n));
    }
    CHECK(worst <= 1e-12, "row %zu: off by %g", row, worst);
    free(w), free(want), free(after);
    teardown(&f);
}

static void test_golden(void) {
    struct qr_json *root = golden_load("tests/golden/optimizers/natural-gradient.json");
    size_t row = 0;
    for (const struct qr_json *e = qr_json_first(root); e; e = qr_json_next(e))
        golden_row(e, row++);
    CHECK(row == 4, "%zu rows", row);
    qr_json_free(root);
}

/* For a parameter of one gate, the diagonal entry is that of the full metric, whatever gates are
 * beside it: also a gate without parameters between two trained gates, or controlled by a qubit
 * with trained gates and acting on one without. The reference are differences of dense states. */
static void test_diagonal(void) {
#define T(gate, qubits, name, more)                                                                \
    "{\"gate\":\"" gate "\",\"qubits\":[" qubits "],\"angle\":" name more "},"
#define P(name) "{\"parameter\":\"" name "\"}"
    /* clang-format off */
    static const char text[] =
        "{\"precision\":\"double\",\"model\":[{\"layer\":\"quantum\",\"circuit\":{\"qubits\":5,"
        "\"gates\":["
        T("RY", "0", P("a"), "") T("RX", "1", P("b"), "")
        T("RX", "1", P("c"), ",\"controls\":[0]") T("RY", "2", P("d"), "")
        T("RZ", "2", P("e"), ",\"controls\":[1,0],\"control_values\":[0,1]")
        T("RXX", "2,3", P("f"), ",\"controls\":[0]")
        T("P", "1", P("g"), ",\"controls\":[2]") T("RX", "3", "0.9", "")
        T("RY", "3", "\"sin(h)*2 + 0.5*h\"", "") T("RX", "4", "1.1", ",\"controls\":[3]")
        "{\"gate\":\"RY\",\"qubits\":[4],\"angle\":" P("k") "}]},"
        "\"readouts\":[\"Z0 Z1 + X2 Y3\"]}],\"data\":{\"source\":\"none\"},\"train\":"
        "{\"loss\":\"expectation\",\"optimizer\":{\"name\":\"quantum-natural-gradient\"}}}";
    /* clang-format on */
    static const double h = 1e-5;
    enum { N = 9 };
    double w[N] = {0.7, -1.1, 0.4, 2.2, -0.6, 1.3, 0.9, 0.35, 1.7}, got[N * N];
    struct fixture f;
    if (!setup(&f, text)) return;
    CHECK(f.n == N);
    metric_of(&f, w, got);
    for (size_t p = 0; p < N; p++) {
        double complex at[32], up[32], down[32], along = 0;
        double v[N], length = 0;
        ref_state(f.circuit, w, NULL, at);
        memcpy(v, w, sizeof v), v[p] = w[p] + h;
        ref_state(f.circuit, v, NULL, up);
        v[p] = w[p] - h;
        ref_state(f.circuit, v, NULL, down);
        for (int i = 0; i < 32; i++) {
            double complex d = (up[i] - down[i]) / (2 * h);
            length += creal(d * conj(d));
            along += conj(at[i]) * d;
        }
        double want = length - creal(along * conj(along));
        CHECK(fabs(got[p * N + p] - want) < 1e-8 && want > 0.001, "parameter %zu: %.12g, not %.12g",
              p, got[p * N + p], want);
    }
    teardown(&f);
}

/* Two parameters of one gate whose generators commute; a gate whose axis depends on a parameter is
 * unsupported. */
static void test_gates(void) {
    struct qr_circuit *c = qr_circuit_new(2, 0);
    struct qr_natural_gradient *natural = NULL;
    uint32_t a = qr_circuit_param(c, "a"), b = qr_circuit_param(c, "b");
    struct qr_gate h = {.kind = QR_GATE_H,
                        .n_targets = 1,
                        .n_args = 1,
                        .args = {{.kind = QR_ARG_CONSTANT, .scale = 1}}};
    struct qr_gate fsim = {.kind = QR_GATE_FSIM,
                           .n_targets = 2,
                           .n_args = 2,
                           .targets = {0, 1},
                           .args = {{QR_ARG_PARAMETER, 1, a}, {QR_ARG_PARAMETER, 1, b}}};
    struct qr_gate phased = {.kind = QR_GATE_PHASED_X,
                             .n_targets = 1,
                             .n_args = 2,
                             .args = {{QR_ARG_PARAMETER, 1, a}, {QR_ARG_PARAMETER, 1, b}}};
    double metric[4], theta[2] = {0.3, 0.4};
    CHECK(qr_circuit_add(c, &h, &err) == QR_OK && (h.targets[0] = 1, true) &&
          qr_circuit_add(c, &h, &err) == QR_OK && qr_circuit_add(c, &fsim, &err) == QR_OK);
    CHECK(qr_natural_gradient_new(c, QR_ISA_PORTABLE, &natural, &err) == QR_OK, "%s", err.msg);
    /* In |++>, K_theta = (XX + YY) / 2 has the mean 1/2 and its square (1 - ZZ) / 2 the mean 1/2;
     * K_phi = |11><11| has the mean 1/4; their product is 0. */
    if (natural) qr_natural_gradient_metric(natural, theta, NULL, metric);
    CHECK(natural && fabs(metric[0] - 0.25) < 1e-15 && fabs(metric[3] - 0.1875) < 1e-15 &&
              fabs(metric[1] + 0.125) < 1e-15 && metric[1] == metric[2],
          "%g %g %g", metric[0], metric[1], metric[3]);
    qr_natural_gradient_free(natural);
    CHECK(qr_circuit_add(c, &phased, &err) == QR_OK);
    CHECK(qr_natural_gradient_new(c, QR_ISA_PORTABLE, &natural, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "gate 3 (PhasedX)"),
          "%s", err.msg);
    qr_circuit_free(c);
}

/* Solves A x = y; the pseudo-inverse of a singular matrix and of zero. */
static void test_pseudo_inverse(void) {
    enum { N = 12 };
    double a[N * N], b[N * N], scratch[N * N + N], x[N], y[N] = {0};
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j <= i; j++)
            a[i * N + j] = a[j * N + i] = b[i * N + j] = b[j * N + i] =
                i == j ? 3 : sin((double)(7 * i + j));
    for (size_t i = 0; i < N; i++) x[i] = cos((double)i);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++) y[i] += a[i * N + j] * x[j];
    qr_pseudo_inverse_apply(N, b, 1e-12, scratch, y);
    CHECK(max_difference(x, y, N) < 1e-13, "%g", max_difference(x, y, N));
    double ones[4] = {1, 1, 1, 1}, z[2] = {3, 1}, none[4] = {0}, same[2] = {3, 1};
    qr_pseudo_inverse_apply(2, ones, 1e-12, scratch, z);
    CHECK(fabs(z[0] - 1) < 1e-15 && fabs(z[1] - 1) < 1e-15, "%g %g", z[0], z[1]);
    qr_pseudo_inverse_apply(2, none, 1e-12, scratch, same);
    CHECK(same[0] == 0 && same[1] == 0);
    /* The cutoff is relative to the largest eigenvalue. */
    double small[4] = {2e-13, 0, 0, 1e-13}, large[4] = {1e6, 0, 0, 1e-8};
    double of_small[2] = {2e-13, 3e-13}, of_large[2] = {2e6, 1};
    qr_pseudo_inverse_apply(2, small, 1e-12, scratch, of_small);
    qr_pseudo_inverse_apply(2, large, 1e-12, scratch, of_large);
    CHECK(fabs(of_small[0] - 1) < 1e-15 && fabs(of_small[1] - 3) < 1e-15, "%g %g", of_small[0],
          of_small[1]);
    CHECK(fabs(of_large[0] - 2) < 1e-15 && of_large[1] == 0, "%g %g", of_large[0], of_large[1]);
}

int main(void) {
    test_golden();
    test_diagonal();
    test_gates();
    test_pseudo_inverse();
    return t_end();
}
