/* Keras HDF5: any bytes give layers or an error; values never exceed the file. */
#include "base/mem.h"
#include "format/hdf5.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_keras_file k = {0};
    struct qr_err err;
    if (qr_keras_read(qr_bytes_of(data, n), "file", &k, &err) != QR_OK) return 0;
    size_t values = 0;
    volatile double last = 0;
    for (size_t i = 0; i < k.n_layers; i++)
        for (size_t j = 0; j < k.layers[i].weights.n; j++) {
            const struct qr_tensor *t = &k.layers[i].weights.v[j];
            values += t->n;
            for (size_t v = 0; v < t->n; v++) last = t->values[v];
        }
    (void)last;
    QR_ASSERT(values <= n / 4);
    qr_keras_file_fini(&k);
    return 0;
}
