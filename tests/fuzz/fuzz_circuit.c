/* Circuits and read-outs from job files: any bytes give one or an error; a circuit that was read
 * can be drawn and analysed, and a canonical read-out reads back as itself. */
#include <string.h>

#include "base/mem.h"
#include "circuit/circuit_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void readout(const uint8_t *data, size_t n) {
    struct qr_observable o, again;
    struct qr_err err;
    char *text = qr_xstrndup((const char *)data, n);
    if (qr_observable_parse(text, QR_MAX_QUBITS, &o, &err) == QR_OK) {
        QR_ASSERT(qr_observable_parse(o.text, QR_MAX_QUBITS, &again, &err) == QR_OK &&
                  strcmp(o.text, again.text) == 0);
        qr_observable_fini(&o);
        qr_observable_fini(&again);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_observable o;
    struct qr_err err;
    struct qr_qubits readouts;
    readout(data, n);
    if (qr_json_parse(qr_bytes_of(data, n), "text", &root, &err) != QR_OK) return 0;
    if (qr_circuit_from_json(root, "circuit", &c, &readouts, &err) == QR_OK) {
        QR_ASSERT(qr_observable_parse("Z0", c->n_qubits, &o, &err) == QR_OK);
        uint8_t *flags = qr_xmalloc(c->n_params);
        qr_circuit_zero_gradient(c, &o, 1, flags);
        for (int form = QR_DRAWING_TEXT; form <= QR_DRAWING_LATEX; form++)
            free(qr_circuit_draw(c, &o, 1, (enum qr_drawing)form, 60));
        free(flags);
        qr_observable_fini(&o);
        qr_circuit_free(c);
    }
    qr_json_free(root);
    return 0;
}
