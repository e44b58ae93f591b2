/* The C API: the first line is an observable, the rest a circuit. Any bytes give an error with a
 * message, or a function whose calls succeed or return a code; results are numbers. */
#include <math.h>
#include <string.h>

#include "api/qring.h"
#include "base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

enum { MOST_QUBITS = 6, MOST_GATES = 64, MOST_NUMBERS = 256 };

static void call(struct qring_function *f) {
    struct qring_error err;
    double w[MOST_NUMBERS], x[MOST_NUMBERS], dw[MOST_NUMBERS], dx[MOST_NUMBERS], z = 0, one = 1;
    if (qring_n_qubits(f) > MOST_QUBITS || qring_n_gates(f) > MOST_GATES ||
        qring_n_parameters(f) > MOST_NUMBERS || qring_n_inputs(f) > MOST_NUMBERS)
        return;
    for (size_t i = 0; i < MOST_NUMBERS; i++) w[i] = x[i] = 0.1 * (double)(i % 7);
    const struct qring_array weights = {w, QRING_FLOAT64, {sizeof *w}},
                             inputs = {x, QRING_FLOAT64, {0, sizeof *x}},
                             cotangents = {&one, QRING_FLOAT64, {0}},
                             outputs = {&z, QRING_FLOAT64, {0}},
                             by_weights = {dw, QRING_FLOAT64, {sizeof *dw}},
                             by_inputs = {dx, QRING_FLOAT64, {0, sizeof *dx}};
    if (qring_vjp(f, &weights, &inputs, 1, &cotangents, &outputs, &by_weights, &by_inputs, NULL,
                  &err) == QRING_OK)
        QR_ASSERT(isfinite(z));
    else QR_ASSERT(err.message[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const uint8_t *end = memchr(data, '\n', n);
    size_t first = end ? (size_t)(end - data) : n, rest = end ? first + 1 : n;
    qr_auto(qr_free_p) char *observable = qr_xstrndup((const char *)data, first);
    const char *observables[] = {observable};
    struct qring_options opt = {
        .struct_size = sizeof opt, .threads = 1, .isa = "portable", .input_gradients = 1};
    struct qring_function *f = NULL;
    struct qring_error err;
    enum qring_code code =
        qring_circuit_function((const char *)data + rest, n - rest, observables, 1, &opt, &f, &err);
    QR_ASSERT((code == QRING_OK) == (f != NULL) && (code == QRING_OK) == !err.message[0]);
    if (!f) return 0;
    char *drawing = qring_draw(f, 60);
    QR_ASSERT(drawing);
    qring_text_free(drawing);
    call(f);
    qring_function_free(f);
    return 0;
}
