/* The QCNN builder: sizes, structure, and the golden values of other programs through the
 * dense reference. */
#include <math.h>

#include "base/file.h"
#include "circuit/qcnn.h"
#include "format/json.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

static struct qr_circuit *make(unsigned n, unsigned stages, enum qr_qcnn_variant variant,
                               struct qr_qubits *left) {
    struct qr_circuit *c = NULL;
    struct qr_err err;
    struct qr_qcnn_options opt = {n, stages, variant};
    CHECK(qr_qcnn_new(&opt, &c, left, &err) == QR_OK, "%s", err.msg);
    return c;
}

static size_t parametrised(const struct qr_circuit *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->n_gates; i++)
        n += c->gates[i].n_args && c->gates[i].args[0].kind == QR_ARG_PARAMETER;
    return n;
}

static bool is_only(const struct qr_qubits *s, unsigned q) {
    return qr_qubits_count(s) == 1 && qr_qubits_has(s, q);
}

/* Counts of another program, with one data gate; ours has one on every qubit. */
static void sizes(void) {
    static const struct {
        unsigned n, gates, parametrised, params;
    } table[] = {{8, 297, 273, 63},   {12, 465, 429, 84},  {16, 633, 585, 84}, {20, 801, 741, 105},
                 {22, 885, 819, 105}, {23, 927, 858, 105}, {24, 969, 897, 105}};
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_qubits left;
        unsigned n = table[i].n;
        struct qr_circuit *c = make(n, 0, QR_QCNN_NOTEBOOK, &left);
        CHECK(c->n_gates == table[i].gates + n - 1 && parametrised(c) == table[i].parametrised &&
                  c->n_params == table[i].params,
              "n = %u", n);
        CHECK(is_only(&left, n - 1) && c->n_columns == n);
        qr_circuit_free(c);
    }
    struct qr_qubits left;
    struct qr_circuit *c = make(8, 1, QR_QCNN_RESEARCH, &left);
    CHECK(qr_qubits_mask(&left) == 0xf0 && c->n_params == 20 && c->n_gates == 184 &&
          parametrised(c) == 156);
    CHECK(strcmp(c->param_names[6], "qconv7") == 0 && strcmp(c->param_names[19], "qconv20") == 0);
    qr_circuit_free(c);
    c = make(8, 0, QR_QCNN_RESEARCH, &left);
    CHECK(c->n_params == 60);
    qr_circuit_free(c);
    c = make(64, 0, QR_QCNN_NOTEBOOK, &left);
    CHECK(is_only(&left, 63) && c->n_params == 6 * 21);
    for (unsigned i = 1; i < c->n_params; i++)
        CHECK(qr_natural_compare(c->param_names[i - 1], c->param_names[i]) < 0);
    qr_circuit_free(c);
    /* H, CZ and RX on each qubit, 15 gates on each of the ring's pairs, 10 a pool */
    c = make(1024, 1, QR_QCNN_NOTEBOOK, &left);
    CHECK(c->n_params == 21 && c->n_columns == 1024 && qr_qubits_count(&left) == 512 &&
          qr_qubits_first(&left) == 512 && qr_qubits_last(&left) == 1023);
    CHECK(c->n_gates == 1024 * 3 + 1024 * 15 + 512 * 10, "%zu gates", c->n_gates);
    qr_circuit_free(c);
    c = make(1023, 0, QR_QCNN_NOTEBOOK, &left);
    CHECK(is_only(&left, 1022) && c->n_params == 210, "%u", c->n_params);
    qr_circuit_free(c);
    /* 5 -> 3 -> 2 -> 1: the unpaired last qubit stays. */
    c = make(5, 1, QR_QCNN_NOTEBOOK, &left);
    CHECK(qr_qubits_mask(&left) == 0x1c);
    qr_circuit_free(c);
}

static void rejected(void) {
    static const struct {
        unsigned n, stages;
        const char *says;
    } table[] = {{3, 0, "4 to 1024 qubits, not 3"},
                 {1025, 0, "not 1025"},
                 {8, 4, "after 3 stages, so it cannot have 4"}};
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_circuit *c = NULL;
        struct qr_err err;
        struct qr_qcnn_options opt = {table[i].n, table[i].stages, QR_QCNN_NOTEBOOK};
        CHECK(qr_qcnn_new(&opt, &c, NULL, &err) == QR_INVALID_ARGUMENT && !c &&
                  strstr(err.msg, table[i].says),
              "%s", err.msg);
    }
}

static struct qr_json *golden(const char *name) {
    char path[128];
    struct qr_buf text = {0};
    struct qr_err err;
    struct qr_json *root = NULL;
    snprintf(path, sizeof path, "tests/golden/tfq/%s.json", name);
    enum qr_code code = qr_file_read(path, 64 << 20, &text, &err);
    if (!code) code = qr_json_parse(qr_buf_view(&text), path, &root, &err);
    CHECK(code == QR_OK, "%s", err.msg);
    qr_buf_free(&text);
    if (code) exit(1);
    return root;
}

static double number(const struct qr_json *v) {
    double x = NAN;
    struct qr_err err;
    CHECK(qr_json_double(v, "golden", -INFINITY, INFINITY, &x, &err) == QR_OK, "%s", err.msg);
    return x;
}

/* qconv<k> → golden's array by symbol number. */
static unsigned symbol_of(const char *name) { return (unsigned)strtoul(name + 5, NULL, 10); }

/* Both programs round in the last bits of ~300 gates on unit vectors: 300 * 8 * 2^-53 * pi
 * < 1e-12. */
static void against_golden(const char *file, unsigned stages, enum qr_qcnn_variant variant,
                           size_t n_samples) {
    struct qr_json *root = golden(file);
    const struct qr_json *exact = qr_json_get(root, "exact"),
                         *weights = qr_json_get(root, "weights_natural");
    struct qr_circuit *c = make(8, stages, variant, NULL);
    const struct qr_json *readouts = qr_json_get(root, "readout_qubits");
    size_t n_obs = qr_json_size(readouts);
    struct qr_observable obs[4];
    struct qr_err err;
    for (size_t r = 0; r < n_obs; r++) {
        char text[8];
        snprintf(text, sizeof text, "Z%.0f", number(qr_json_at(readouts, r)));
        CHECK(qr_observable_parse(text, 8, &obs[r], &err) == QR_OK);
    }
    double theta[63], z[4], g[4 * 63];
    for (unsigned k = 0; k < c->n_params; k++)
        theta[k] = number(qr_json_at(weights, symbol_of(c->param_names[k])));
    for (size_t s = 0; s < n_samples; s++) {
        double x[8] = {0}, worst_z = 0, worst_g = 0;
        x[(size_t)number(qr_json_at(qr_json_get(root, "qubits"), s))] =
            number(qr_json_at(qr_json_get(root, "angles"), s));
        ref_expectation(c, theta, x, obs, n_obs, z);
        if (s == 0) ref_gradient(c, theta, x, obs, n_obs, g);
        const struct qr_json *want_z = qr_json_at(qr_json_get(exact, "expectations"), s);
        const struct qr_json *want_g =
            qr_json_at(qr_json_get(exact, "jacobian_exp_wrt_symbols"), s);
        for (size_t r = 0; r < n_obs; r++) {
            worst_z = t_worst(worst_z, fabs(z[r] - number(qr_json_at(want_z, r))));
            for (unsigned k = 0; k < c->n_params && s == 0; k++)
                worst_g = t_worst(worst_g, fabs(g[r * c->n_params + k] -
                                                number(qr_json_at(qr_json_at(want_g, r),
                                                                  symbol_of(c->param_names[k])))));
        }
        CHECK(worst_z < 1e-12, "%s sample %zu: %g", file, s, worst_z);
        CHECK(worst_g < 1e-12, "%s sample %zu: %g", file, s, worst_g);
    }
    for (size_t r = 0; r < n_obs; r++) qr_observable_fini(&obs[r]);
    qr_circuit_free(c);
    qr_json_free(root);
}

int main(void) {
    sizes();
    rejected();
    against_golden("golden_hybrid_research_n8", 1, QR_QCNN_RESEARCH, 6);
    against_golden("golden_pure_notebook_n8", 0, QR_QCNN_NOTEBOOK, 3);
    return t_end();
}
