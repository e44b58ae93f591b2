/* CSV: any bytes give a table or a sentence, within the bound. */
#include "base/mem.h"
#include "format/csv.h"

enum { MAX_CELLS = 10000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct qr_csv c = {0};
    struct qr_err err;
    if (qr_csv_read(qr_bytes_of(data, n), "file", MAX_CELLS, &c, &err) != QR_OK) return 0;
    QR_ASSERT(c.n_columns > 0 && c.n_rows * c.n_columns <= MAX_CELLS);
    volatile double last = 0;
    /* every cell is there to be read */
    for (size_t i = 0; i < c.n_rows * c.n_columns; i++) last = c.values[i];
    (void)last;
    qr_csv_fini(&c);
    return 0;
}
