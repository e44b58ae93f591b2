/* model/layers/layer.c — the tables of all kinds of layers. */
#include "model/layers/layer.h"

extern const struct qr_layer_table qr_layer_quantum, qr_layer_dense, qr_layer_activation,
    qr_layer_dropout, qr_layer_scale;

const struct qr_layer_table *const qr_layer_tables[QR_LAYERS] = {
#define QR_LAYER_TABLE(kind, name, functions) [kind] = &(functions),
    QR_LAYER_ROWS(QR_LAYER_TABLE)
#undef QR_LAYER_TABLE
};

const char *const qr_layer_names[QR_LAYERS] = {QR_LAYER_ROWS(QR_ROW_NAME)};
