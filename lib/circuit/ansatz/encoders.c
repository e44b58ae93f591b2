/* circuit/ansatz/encoders.c — inputs as angles: PennyLane's AngleEmbedding. */
#include <stdlib.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"

/* Heap array of the column of each qubit. */
static uint32_t *read_columns(struct qr_ansatz_builder *b) {
    uint32_t *columns = qr_xcalloc(b->n, sizeof *columns);
    if (!b->code)
        b->code = b->use->host->read_columns(b->use->at, qr_json_get(b->use->options, "data"),
                                             qr_ansatz_path(b, "data").s, b->n, columns);
    return columns;
}

enum qr_code qr_ansatz_angle_encoder(const struct qr_ansatz_use *use) {
    static const char *const rotations[] = {"RX", "RY", "RZ"};
    struct qr_ansatz_builder b = {use, use->n, QR_OK};
    const char *rotation = rotations[qr_ansatz_choice(&b, "rotation", rotations, 3, 0)];
    double scale = qr_ansatz_number(&b, "scale", 1);
    uint32_t *columns = read_columns(&b);
    for (unsigned q = 0; q < b.n; q++) {
        struct qr_ansatz_angle a = {QR_ANSATZ_INPUT, scale, columns[q], ""};
        qr_ansatz_one(&b, rotation, q, &a);
    }
    free(columns);
    return b.code;
}
