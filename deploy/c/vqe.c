/* Finds the ground state energy of a three-qubit Ising chain by gradient descent.
 *
 * Build: cc vqe.c $(pkg-config --cflags --libs qring) -o vqe */
#include <qring.h>
#include <stdio.h>
#include <string.h>

static const char circuit[] =
    "{\"qubits\": 3, \"gates\": [{\"repeat\": 2, \"index\": \"l\", \"gates\": ["
    "{\"repeat\": 3, \"index\": \"q\", \"gates\": ["
    "{\"gate\": \"RY\", \"qubits\": [\"q\"], \"angle\": \"w{3*l+q}\"}]},"
    "{\"gate\": \"CNOT\", \"qubits\": [0, 1]}, {\"gate\": \"CNOT\", \"qubits\": [1, 2]}]}]}";
static const char *const energy[] = {"-1*Z0 Z1 - Z1 Z2 - 0.5*X0 - 0.5*X1 - 0.5*X2"};

int main(void) {
    struct qring_function *f;
    struct qring_error err;
    double w[6] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}, one = 1, z = 0, gradient[6];
    const struct qring_array weights = {w, QRING_FLOAT64, {sizeof *w}},
                             cotangent = {&one, QRING_FLOAT64, {sizeof one, sizeof one}},
                             value = {&z, QRING_FLOAT64, {sizeof z, sizeof z}},
                             derivatives = {gradient, QRING_FLOAT64, {sizeof *gradient}};

    if (qring_circuit_function(circuit, strlen(circuit), energy, 1, NULL, &f, &err) != QRING_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int step = 0; step < 200; step++) {
        if (qring_vjp(f, &weights, NULL, 1, &cotangent, &value, &derivatives, NULL, NULL, &err) !=
            QRING_OK) {
            fprintf(stderr, "%s\n", err.message);
            return 1;
        }
        for (int i = 0; i < 6; i++) w[i] -= 0.1 * gradient[i];
    }
    printf("energy %.6f\n", z);
    qring_function_free(f);
    return 0;
}
