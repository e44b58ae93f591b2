/* Trains a two-qubit classifier on four samples: derivatives by weights and inputs of a batch.
 *
 * Build: cc classify.c $(pkg-config --cflags --libs qring) -o classify */
#include <qring.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLES = 4, INPUTS = 2, PARAMETERS = 4 };

static const char circuit[] =
    "{\"qubits\": 2, \"gates\": ["
    "{\"gate\": \"RY\", \"qubits\": [0], \"angle\": {\"data\": 0}},"
    "{\"gate\": \"RY\", \"qubits\": [1], \"angle\": {\"data\": 1}},"
    "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"w0\"},"
    "{\"gate\": \"RY\", \"qubits\": [1], \"angle\": \"w1\"},"
    "{\"gate\": \"CNOT\", \"qubits\": [0, 1]},"
    "{\"gate\": \"RY\", \"qubits\": [1], \"angle\": \"w2\"},"
    "{\"gate\": \"RX\", \"qubits\": [1], \"angle\": \"w3\"}]}";
static const char *const readout[] = {"Z1"};

int main(void) {
    struct qring_function *f;
    struct qring_error err;
    const struct qring_options options = {
        .struct_size = sizeof options, .threads = 1, .input_gradients = 1};
    double x[SAMPLES][INPUTS] = {{0, 0}, {0, 3.1}, {3.1, 0}, {3.1, 3.1}};
    const double y[SAMPLES] = {1, -1, -1, 1};
    double w[PARAMETERS] = {0.3, 0.4, 0.5, 0.6}, z[SAMPLES], d[SAMPLES], dw[PARAMETERS],
           dx[SAMPLES][INPUTS], loss = 0;
    const struct qring_array weights = {w, QRING_FLOAT64, {sizeof *w}},
                             inputs = {x, QRING_FLOAT64, {sizeof *x, sizeof **x}},
                             outputs = {z, QRING_FLOAT64, {sizeof *z, sizeof *z}},
                             cotangents = {d, QRING_FLOAT64, {sizeof *d, sizeof *d}},
                             by_weights = {dw, QRING_FLOAT64, {sizeof *dw}},
                             by_inputs = {dx, QRING_FLOAT64, {sizeof *dx, sizeof **dx}};

    enum qring_code code =
        qring_circuit_function(circuit, strlen(circuit), readout, 1, &options, &f, &err);
    for (int step = 0; step < 100 && code == QRING_OK; step++) {
        code = qring_forward(f, &weights, &inputs, SAMPLES, &outputs, &err);
        loss = 0;
        for (int s = 0; s < SAMPLES; s++) {
            loss += (z[s] - y[s]) * (z[s] - y[s]) / SAMPLES;
            d[s] = 2 * (z[s] - y[s]) / SAMPLES;
        }
        if (code == QRING_OK)
            code = qring_vjp(f, &weights, &inputs, SAMPLES, &cotangents, NULL, &by_weights,
                             &by_inputs, NULL, &err);
        for (int i = 0; i < PARAMETERS; i++) w[i] -= 0.3 * dw[i];
    }
    if (code != QRING_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    printf("loss %.6f, derivative by the first input %.6f\n", loss, dx[0][0]);
    qring_function_free(f);
    return 0;
}
