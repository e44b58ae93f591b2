/* OpenQASM: any bytes give a circuit or a sentence with a place, within bounds. */
#include "qasm/qasm.h"
#include "tests/fuzz/round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *inputs[] = {"x"};
    struct qr_program q;
    struct qr_err err = {0};
    struct qr_buf excerpt = {0};
    /* Endless loops end in milliseconds. */
    const struct qr_qasm_options options = {.inputs = inputs,
                                            .n_inputs = n && data[0] == 'i',
                                            .max_steps = 1 << 18,
                                            .max_gates = 1 << 14};
    if (qr_qasm_read(qr_bytes_of(data, n), &options, &q, &excerpt, &err) == QR_OK) {
        check_round_trip(q.circuit);
        check_readouts(&q);
        qr_program_fini(&q);
    } else {
        QR_ASSERT(err.msg[0]);
    }
    qr_buf_free(&excerpt);
    return 0;
}
