/* Expectations and gradients of the tutorial's circuits against exact values of other programs
 * (tests/golden). */
#include "base/mem.h"
#include "circuit/qcnn.h"
#include "sim/sim.h"
#include "tests/t.h"

#include <cjson/cJSON.h>
#include <math.h>

enum { MAX_PARAMS = 128, MAX_READOUTS = 8 };

static cJSON *read_json(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f) {
        CHECK(false, "%s", path);
        exit(t_end());
    }
    char *text = NULL;
    size_t n = 0, cap = 0;
    do {
        cap = cap ? 2 * cap : 1 << 16;
        text = qr_xrealloc(text, cap + 1);
        n += fread(text + n, 1, cap - n, f);
    } while (n == cap);
    text[n] = 0;
    fclose(f);
    cJSON *j = cJSON_Parse(text);
    free(text);
    if (!j) {
        CHECK(false, "%s is not JSON", path);
        exit(t_end());
    }
    return j;
}
static cJSON *get(const cJSON *j, const char *key) {
    return cJSON_GetObjectItemCaseSensitive(j, key);
}
static cJSON *at(const cJSON *j, int i) { return cJSON_GetArrayItem(j, i); }
static double number(const cJSON *j) { return cJSON_GetNumberValue(j); }

struct engine {
    struct qr_circuit *c;
    struct qr_observable obs[MAX_READOUTS];
    unsigned n_obs;
    struct qr_sim_plan *plan;
    struct qr_sim_bound *b;
    struct qr_sim_workspace *ws;
};

static void start(struct engine *e, unsigned n, unsigned stages, enum qr_qcnn_variant variant,
                  const cJSON *readouts, enum qr_precision precision) {
    struct qr_err err;
    struct qr_qcnn_options opt = {n, stages, variant};
    CHECK(qr_qcnn_new(&opt, &e->c, NULL, &err) == QR_OK, "%s", err.msg);
    e->n_obs = (unsigned)cJSON_GetArraySize(readouts);
    for (unsigned r = 0; r < e->n_obs; r++) {
        char text[16];
        snprintf(text, sizeof text, "Z%d", (int)number(at(readouts, (int)r)));
        CHECK(qr_observable_parse(text, n, &e->obs[r], &err) == QR_OK, "%s", err.msg);
    }
    struct qr_sim_options so = {
        .precision = precision, .isa = qr_isa_best(), .engine = QR_ENGINE_AUTO};
    if (qr_sim_compile(e->c, e->obs, e->n_obs, &so, &e->plan, &err) != QR_OK ||
        qr_sim_workspace_new(e->plan, 1, &e->ws, &err) != QR_OK) {
        CHECK(false, "%s", err.msg);
        exit(t_end());
    }
    e->b = qr_sim_bound_new(e->plan);
}

static void stop(struct engine *e) {
    qr_sim_workspace_free(e->ws);
    qr_sim_bound_free(e->b);
    qr_sim_plan_free(e->plan);
    for (unsigned r = 0; r < e->n_obs; r++) qr_observable_fini(&e->obs[r]);
    qr_circuit_free(e->c);
}

/* float32: 2e-6 of the largest component of the gradient; double: 1e-12 of it (the golden values
 * themselves are good to ~1e-14 absolute). Read-outs: 2^-24 * sqrt(60 fused gates) * 2 = 1e-6;
 * double 1e-13. */
static const double grad_tolerance[2] = {2e-6, 1e-12}, z_tolerance[2] = {1e-6, 1e-13};

/* jac[r][symbol] times the prediction's derivative by each read-out; the largest component. */
static double wanted(const struct engine *e, const cJSON *jac, const int *symbol,
                     const double *weight, double *ret) {
    double top = 0;
    for (unsigned k = 0; k < e->c->n_params; k++) {
        ret[k] = 0;
        for (unsigned r = 0; r < e->n_obs; r++)
            ret[k] += weight[r] * number(at(at(jac, (int)r), symbol[k]));
        top = fmax(top, fabs(ret[k]));
    }
    return top;
}

/* z[r]; top: the largest component of the sample's gradient, over all filters */
static void sample(struct engine *e, enum qr_precision precision, unsigned qubit, double angle,
                   const cJSON *z, const cJSON *jac, const int *symbol, const double *weight,
                   double top, const char *what) {
    double x[64] = {0}, got[MAX_READOUTS], worst = 0, want[MAX_PARAMS], one = 1;
    x[qubit] = angle;
    qr_fixed grad[MAX_PARAMS] = {0};
    qr_sim_forward(e->b, e->ws, NULL, x, 64, 1, got);
    CHECK(qr_sim_backward(e->b, e->ws, NULL, weight, &one, grad, NULL));
    for (unsigned r = 0; r < e->n_obs; r++)
        CHECK(fabs(got[r] - number(at(z, (int)r))) <= z_tolerance[precision], "%s z[%u] %.17g",
              what, r, got[r]);
    wanted(e, jac, symbol, weight, want);
    for (unsigned k = 0; k < e->c->n_params; k++) {
        double have = qr_fixed_to_double(grad[k]);
        worst = t_worst(worst, fabs(have - want[k]) / top);
        CHECK(fabs(have - want[k]) <= grad_tolerance[precision] * top,
              "%s symbol %d: %.17g not %.17g, largest %.3g", what, symbol[k], have, want[k], top);
        CHECK(want[k] != 0 || grad[k] == 0, "%s symbol %d: no observable depends on it", what,
              symbol[k]);
    }
    printf("%s %s: worst %.2g of the largest component (%.3g)\n", what,
           precision ? "double" : "single", worst, top);
}

/* The product of a linear head's kernels (read-outs x 8) and (8 x 1), from row `first` on; 1
 * without a head. */
static void head(const cJSON *j, unsigned first, unsigned n, double *ret) {
    const cJSON *k0 = get(j, "dense_kernel"), *k1 = get(j, "dense_1_kernel");
    for (unsigned r = 0; r < n; r++) {
        ret[r] = k0 ? 0 : 1;
        for (int h = 0; k0 && h < cJSON_GetArraySize(k1); h++)
            ret[r] += number(at(at(k0, (int)(first + r)), h)) * number(at(at(k1, h), 0));
    }
}

static void bind_row(struct engine *e, const cJSON *weights, const int *symbol) {
    double theta[MAX_PARAMS];
    for (unsigned k = 0; k < e->c->n_params; k++) theta[k] = number(at(weights, symbol[k]));
    qr_sim_bind(e->b, theta, NULL);
}

static void test_golden_file(const char *name, enum qr_qcnn_variant variant, unsigned stages,
                             bool filters) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/tfq/golden_%s.json", name);
    cJSON *j = read_json(path);
    int symbol[MAX_PARAMS], n_used = cJSON_GetArraySize(get(j, "symbols_used_natural"));
    for (int k = 0; k < n_used; k++) symbol[k] = (int)number(at(get(j, "symbols_used_natural"), k));
    const cJSON *exact = get(j, "exact"), *z = get(exact, "expectations"),
                *jac = get(exact, "jacobian_exp_wrt_symbols");
    for (int precision = 0; precision < 2; precision++) {
        struct engine e = {0};
        start(&e, (unsigned)number(get(j, "n")), stages, variant, get(j, "readout_qubits"),
              (enum qr_precision)precision);
        CHECK((int)e.c->n_params == n_used, "%u parameters", e.c->n_params);
        int n_filters = filters ? 3 : 1;
        double weight[3][MAX_READOUTS], top[6] = {0}, row[MAX_PARAMS];
        for (int f = 0; f < n_filters; f++) {
            head(j, (unsigned)f * e.n_obs, e.n_obs, weight[f]);
            for (int s = 0; s < 6; s++)
                top[s] = fmax(top[s], wanted(&e, filters ? at(at(jac, f), s) : at(jac, s), symbol,
                                             weight[f], row));
        }
        for (int f = 0; f < n_filters; f++) {
            bind_row(&e, filters ? at(get(j, "weights_natural"), f) : get(j, "weights_natural"),
                     symbol);
            for (int s = 0; s < 6; s++)
                sample(&e, (enum qr_precision)precision, (unsigned)number(at(get(j, "qubits"), s)),
                       number(at(get(j, "angles"), s)), filters ? at(at(z, f), s) : at(z, s),
                       filters ? at(at(jac, f), s) : at(jac, s), symbol, weight[f], top[s], name);
        }
        stop(&e);
    }
    cJSON_Delete(j);
}

static void test_lcg(unsigned n) {
    char path[128], what[16];
    snprintf(path, sizeof path, "tests/golden/tfq/golden_lcg_pure_n%u.json", n);
    snprintf(what, sizeof what, "lcg n=%u", n);
    cJSON *j = read_json(path), *z = cJSON_CreateArray(), *jac = cJSON_CreateArray();
    cJSON_AddItemReferenceToArray(z, get(j, "exact_expectation"));
    cJSON_AddItemReferenceToArray(jac, get(j, "exact_gradient"));
    int symbol[MAX_PARAMS];
    for (int k = 0; k < MAX_PARAMS; k++) symbol[k] = k;
    for (int precision = 0; precision < 2; precision++) {
        struct engine e = {0};
        start(&e, n, 0, QR_QCNN_NOTEBOOK, get(j, "readout_qubits"), (enum qr_precision)precision);
        double row[MAX_PARAMS];
        bind_row(&e, get(j, "weights_natural"), symbol);
        sample(&e, (enum qr_precision)precision, (unsigned)number(get(j, "qubit")),
               number(get(j, "angle")), z, jac, symbol, &(double){1},
               wanted(&e, jac, symbol, &(double){1}, row), what);
        struct qr_sim_facts f = qr_sim_facts(e.plan);
        printf("%s: %zu gates, %zu fused gates\n", what, f.n_gates, f.n_fused);
        stop(&e);
    }
    cJSON_Delete(z);
    cJSON_Delete(jac);
    cJSON_Delete(j);
}

int main(void) {
    test_golden_file("hybrid_research_n8", QR_QCNN_RESEARCH, 1, false);
    test_golden_file("pure_notebook_n8", QR_QCNN_NOTEBOOK, 0, false);
    test_golden_file("three_notebook_n8", QR_QCNN_NOTEBOOK, 1, true);
    test_golden_file("pure_notebook_n12", QR_QCNN_NOTEBOOK, 0, false);
    test_lcg(8);
    test_lcg(12);
    unsigned top = t_qubits();
    if (top >= 16) test_lcg(16);
#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
    if (top >= 20) test_lcg(20); /* too slow there */
#endif
    return t_end();
}
