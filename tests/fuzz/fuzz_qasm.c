/* OpenQASM: any bytes give a circuit or a sentence with a place, within bounds. What was read is
 * written as a job file's circuit, which reads back as the same. */
#include "circuit/circuit_json.h"
#include "qasm/qasm.h"
#include "tests/same_circuit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_round_trip(const struct qr_circuit *c) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    struct qr_json *root = NULL;
    struct qr_circuit *again = NULL;
    struct qr_qubits readouts;
    struct qr_err err;
    qr_circuit_put_json(c, &w);
    QR_ASSERT(qr_json_parse(qr_buf_view(&text), "text", &root, &err) == QR_OK);
    QR_ASSERT(qr_circuit_from_json(root, "circuit", &again, &readouts, &err) == QR_OK);
    QR_ASSERT(same_circuit(c, again));
    qr_circuit_free(again);
    qr_json_free(root);
    qr_buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const char *inputs[] = {"x"};
    struct qr_program q;
    struct qr_err err = {0};
    struct qr_buf excerpt = {0};
    struct qr_observable o;
    /* Endless loops end in milliseconds. */
    const struct qr_qasm_options options = {.inputs = inputs,
                                            .n_inputs = n && data[0] == 'i',
                                            .max_steps = 1 << 18,
                                            .max_gates = 1 << 14};
    if (qr_qasm_read(qr_bytes_of(data, n), &options, &q, &excerpt, &err) == QR_OK) {
        check_round_trip(q.circuit);
        for (size_t i = 0; i < q.n_readouts; i++)
            if (qr_observable_parse(q.readouts[i], q.circuit->n_qubits, &o, &err) == QR_OK)
                qr_observable_fini(&o);
        qr_program_fini(&q);
    } else {
        QR_ASSERT(err.msg[0]);
    }
    qr_buf_free(&excerpt);
    return 0;
}
