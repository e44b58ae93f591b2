/* OpenQASM: any bytes give a circuit or an error with a position, within bounds. A circuit is
 * written as OpenQASM that reads back without further parameters. */
#include "export/export.h"
#include "qasm/qasm.h"
#include "tests/fuzz/round_trip.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_export(const struct qr_circuit *c) {
    struct qr_buf text = {0}, excerpt = {0};
    struct qr_program again;
    struct qr_err err;
    const struct qr_export_format *format;
    const struct qr_program_options options = {.n_inputs = 0};
    QR_ASSERT(qr_export_format("qasm3", &format, &err) == QR_OK);
    QR_ASSERT(qr_export(format, &(struct qr_export){.circuit = c}, &text, &err) == QR_OK);
    QR_ASSERT(qr_qasm_read(qr_buf_view(&text), &options, &again, &excerpt, &err) == QR_OK);
    /* Symbols that no gate uses are only declared. */
    QR_ASSERT(again.circuit->n_params <= c->n_params + c->n_columns);
    qr_program_fini(&again);
    qr_buf_free(&text);
    qr_buf_free(&excerpt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *inputs[] = {"x"};
    struct qr_program q;
    struct qr_err err = {0};
    struct qr_buf excerpt = {0};
    /* Endless loops must end within milliseconds. */
    const struct qr_program_options options = {.inputs = inputs,
                                               .n_inputs = n && data[0] == 'i',
                                               .max_steps = 1 << 18,
                                               .max_gates = 1 << 14};
    if (qr_qasm_read(qr_bytes_of(data, n), &options, &q, &excerpt, &err) == QR_OK) {
        check_round_trip(q.circuit);
        check_export(q.circuit);
        check_readouts(&q);
        qr_program_fini(&q);
    } else {
        QR_ASSERT(err.msg[0]);
    }
    qr_buf_free(&excerpt);
    return 0;
}
