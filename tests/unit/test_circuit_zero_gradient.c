/* Parameters that no observable depends on: the tutorial's, the golden file's list, hand-made
 * cases, and soundness on random circuits. */
#include <math.h>

#include "base/file.h"
#include "circuit/circuit_json.h"
#include "circuit/qcnn.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

static struct qr_observable parse_observable(const char *text, unsigned n) {
    struct qr_observable o;
    struct qr_err err = {.msg = ""};
    CHECK(qr_observable_parse(text, n, &o, &err) == QR_OK, "%s", err.msg);
    return o;
}

static bool flagged(const struct qr_circuit *c, const uint8_t *flags, const char *name) {
    for (unsigned k = 0; k < c->n_params; k++)
        if (strcmp(c->param_names[k], name) == 0) return flags[k];
    CHECK(0, "no parameter %s", name);
    return false;
}

static int by_string(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* zero_gradient_weight_indices of the golden file count in TFQ's string order of one filter's
 * symbols, filters one after the other. */
static void against_golden(const char *file, unsigned stages, enum qr_qcnn_variant variant,
                           unsigned n_filters) {
    char path[128];
    snprintf(path, sizeof path, "tests/golden/tfq/%s.json", file);
    struct qr_buf text = {0};
    struct qr_err err = {.msg = ""};
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_qubits left;
    const struct qr_qcnn_options opt = {8, stages, variant};
    CHECK(qr_file_read(path, 64 << 20, &text, &err) == QR_OK &&
              qr_json_parse(qr_buf_view(&text), path, &root, &err) == QR_OK &&
              qr_qcnn_new(&opt, &c, &left, &err) == QR_OK,
          "%s", err.msg);
    struct qr_observable obs[8];
    size_t n_obs = 0;
    for (unsigned q = 0; q < 8; q++) {
        char z[8];
        snprintf(z, sizeof z, "Z%u", q);
        if (qr_qubits_has(&left, q)) obs[n_obs++] = parse_observable(z, 8);
    }
    uint8_t flags[63];
    char *sorted[63];
    qr_circuit_zero_gradient(c, obs, n_obs, flags);
    memcpy(sorted, c->param_names, c->n_params * sizeof *sorted);
    qsort(sorted, c->n_params, sizeof *sorted, by_string);
    const struct qr_json *want = qr_json_get(root, "zero_gradient_weight_indices");
    size_t n_flagged = 0;
    for (unsigned k = 0; k < c->n_params; k++) n_flagged += flags[k];
    CHECK(n_flagged * n_filters == qr_json_size(want), "%s: %zu flagged", file, n_flagged);
    for (const struct qr_json *i = qr_json_first(want); i; i = qr_json_next(i)) {
        int64_t at = 0;
        CHECK(qr_json_i64(i, file, 0, (int64_t)(n_filters * c->n_params) - 1, &at, &err) == QR_OK);
        CHECK(flagged(c, flags, sorted[at % c->n_params]), "%s: %s", file,
              sorted[at % c->n_params]);
    }
    for (size_t r = 0; r < n_obs; r++) qr_observable_fini(&obs[r]);
    qr_circuit_free(c);
    qr_json_free(root);
    qr_buf_free(&text);
}

static struct qr_circuit *from_text(const char *text) {
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_err err = {.msg = ""};
    struct qr_qubits readouts;
    CHECK(qr_json_parse(qr_bytes_of_string(text), "test", &root, &err) == QR_OK &&
              qr_circuit_from_json(root, "circuit", &c, &readouts, &err) == QR_OK,
          "%s", err.msg);
    qr_json_free(root);
    return c;
}

#define P(name) "{\"parameter\": \"" name "\"}"
static void by_hand(void) {
    static const struct {
        const char *gates, *readout, *zero; /* of a, b, c, d */
    } table[] = {
        /* outside the light cone */
        {"{\"gate\":\"X\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"X\",\"qubits\":[1],\"exponent\":" P("b") "}",
         "Z1", "a"},
        /* diagonal before a diagonal read-out, also through another diagonal gate and a control */
        {"{\"gate\":\"X\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"Z\",\"qubits\":[0],\"exponent\":" P("b") "},"
                                                                          "{\"gate\":\"CZ\","
                                                                          "\"qubits\":[0,1]}",
         "Z0", "b"},
        {"{\"gate\":\"Z\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"CNOT\",\"qubits\":[0,1]}",
         "Z1", "a"},
        {"{\"gate\":\"Z\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"Y\",\"qubits\":[1],\"exponent\":0.3,\"controls\":[0]}",
         "X1", "a"},
        /* the same in the X and Y bases */
        {"{\"gate\":\"X\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"XX\",\"qubits\":[0,1],\"exponent\":" P("b") "}",
         "X0", "ab"},
        {"{\"gate\":\"Y\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"YY\",\"qubits\":[0,1],\"exponent\":" P("b") "}",
         "X1", "a"},
        /* no longer diagonal, or the second term depends on it */
        {"{\"gate\":\"Z\",\"qubits\":[0],\"exponent\":" P("a") "},{\"gate\":\"H\",\"qubits\":[0]}",
         "Z0", ""},
        {"{\"gate\":\"Z\",\"qubits\":[0],\"exponent\":" P("a") "}", "Z0 + X0", ""},
        /* one parameter of a gate inside the cone and of one outside it */
        {"{\"gate\":\"X\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"X\",\"qubits\":[1],\"exponent\":" P("a") "}",
         "Z1", ""},
        /* no parameter changes a constant */
        {"{\"gate\":\"X\",\"qubits\":[0],\"exponent\":" P(
             "a") "},{\"gate\":\"FSIM\",\"qubits\":[0,1],\"theta\":" P("b") ",\"phi\":" P("c") "}",
         "2", "abc"},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        char text[1024];
        snprintf(text, sizeof text, "{\"qubits\": 2, \"gates\": [%s]}", table[i].gates);
        struct qr_circuit *c = from_text(text);
        struct qr_observable o = parse_observable(table[i].readout, 2);
        uint8_t flags[4];
        qr_circuit_zero_gradient(c, &o, 1, flags);
        for (unsigned k = 0; k < c->n_params; k++)
            CHECK(flags[k] == (strchr(table[i].zero, c->param_names[k][0]) != NULL), "row %zu, %s",
                  i, c->param_names[k]);
        qr_observable_fini(&o);
        qr_circuit_free(c);
    }
}

/* Flagged gradients must be zero: the dense gradient has 2 * 25 gates of 4 terms, 2^-53 each, times
 * 2 pi * 2 and coefficients below 5: under 1e-13. Enough flags must be found for the test to mean
 * something. */
static void sound(void) {
    size_t n_flagged = 0, n_missed = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        unsigned n = 2 + (unsigned)(seed % 4);
        struct qr_circuit *c = ref_random_circuit(seed + 7000, n, 4 + (unsigned)(seed % 22));
        /* Wide observables see nearly every parameter: half of the trials have narrow ones. */
        char narrow[2][8];
        for (unsigned r = 0; r < 2; r++)
            snprintf(narrow[r], sizeof narrow[r], "%c%u", "XYZ"[(seed / 2) % 3],
                     (unsigned)(seed / 6) % n);
        struct qr_observable obs[2] = {
            seed % 2 ? parse_observable(narrow[0], n) : ref_random_observable(seed, n),
            seed % 2 ? parse_observable(narrow[1], n) : ref_random_observable(seed + 1, n)};
        double theta[64], x[5], g[128];
        uint8_t flags[64];
        ref_random_numbers(seed, 64, 0, 6, theta);
        ref_random_numbers(seed + 50, 5, -3, 3, x);
        ref_gradient(c, theta, x, obs, 2, g);
        qr_circuit_zero_gradient(c, obs, 2, flags);
        for (unsigned k = 0; k < c->n_params; k++) {
            double size = fmax(fabs(g[k]), fabs(g[c->n_params + k]));
            n_flagged += flags[k];
            n_missed += !flags[k] && size < 1e-13;
            CHECK(!flags[k] || size < 1e-13, "seed %d, parameter %u: %g", (int)seed, k, size);
        }
        qr_observable_fini(&obs[0]);
        qr_observable_fini(&obs[1]);
        qr_circuit_free(c);
    }
    CHECK(n_flagged > 100, "%zu flagged, %zu more were zero at these values", n_flagged, n_missed);
}

int main(void) {
    against_golden("train_hybrid_research", 1, QR_QCNN_RESEARCH, 1);
    against_golden("train_pure_notebook", 0, QR_QCNN_NOTEBOOK, 1);
    against_golden("train_three_notebook", 1, QR_QCNN_NOTEBOOK, 3);
    by_hand();
    sound();
    return t_end();
}
