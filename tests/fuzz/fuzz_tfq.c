/* TensorFlow Quantum's programs and models: any bytes give a circuit or an error, within bounds.
 * The first byte is the number of data circuits; 0: the rest is one program. Otherwise the rest is
 * a circuit, a read-out and the data circuits, of the same width. */
#include <stdlib.h>

#include "cirq/cirq.h"
#include "tests/fuzz/round_trip.h"

static void check_program(const struct qr_program *p) {
    check_round_trip(p->circuit);
    check_readouts(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_program p;
    struct qr_tfq_samples samples = {0};
    struct qr_err err = {0};
    size_t n_data = n ? data[0] % 8 : 0, width = n ? (n - 1) / (n_data + 2) : 0;
    const uint8_t *at = data + (n > 0);
    const struct qr_tfq_model model = {.circuit = {at, 1, width},
                                       .readouts = {at + width, 1, width},
                                       .data = {at + 2 * width, n_data, width}};
    enum qr_code code =
        n_data ? qr_tfq_read(&model, &p, &samples, &err)
               : qr_cirq_read(qr_bytes_of(at, n ? n - 1 : 0),
                              &(struct qr_program_options){.max_gates = 1 << 12}, &p, &err);
    if (code == QR_OK) {
        check_program(&p);
        qr_program_fini(&p);
        free(samples.x);
    } else {
        QR_ASSERT(err.msg[0]);
    }
    return 0;
}
