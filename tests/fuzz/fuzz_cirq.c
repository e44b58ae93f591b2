/* Cirq's JSON: any bytes give a circuit or an error with a path, within bounds. */
#include "cirq/cirq.h"
#include "tests/fuzz/round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *inputs[] = {"a"};
    struct qr_program p;
    struct qr_err err = {0};
    const struct qr_program_options options = {
        .inputs = inputs, .n_inputs = n % 2, .max_steps = 1 << 14, .max_gates = 1 << 12};
    if (qr_cirq_read(qr_bytes_of(data, n), &options, &p, &err) == QR_OK) {
        check_round_trip(p.circuit);
        check_readouts(&p);
        qr_program_fini(&p);
    } else {
        QR_ASSERT(err.msg[0]);
    }
    return 0;
}
