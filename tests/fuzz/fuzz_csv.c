/* CSV: any bytes give a table or an error, within the bound; the last column may hold words, and
 * one before it is skipped. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "data/csv.h"

enum { MAX_CELLS = 10000 };

/* Every cell can be read, and words are sorted and unique. */
static void check_table(const struct qr_csv *c) {
    QR_ASSERT(c->n_rows * c->n_columns <= MAX_CELLS);
    volatile double last = 0;
    for (size_t i = 0; i < c->n_rows * c->n_columns; i++) {
        last = c->values[i];
        if (c->words.n && i % c->n_columns == c->n_columns - 1)
            QR_ASSERT(!isfinite(last) || last < (double)c->words.n);
    }
    for (size_t i = 1; i < c->words.n; i++) QR_ASSERT(strcmp(c->words.v[i - 1], c->words.v[i]) < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    const struct qr_bytes text = qr_bytes_of(data, n);
    for (int kind = QR_CSV_NUMBERS; kind <= QR_CSV_WORDS; kind++) {
        struct qr_csv c = {0};
        struct qr_err err;
        if (qr_csv_read_header(text, "file", &c, &err) != QR_OK) return 0;
        QR_ASSERT(c.n_columns > 0);
        uint8_t *cells = qr_xcalloc(c.n_columns, 1);
        if (kind != QR_CSV_NUMBERS) cells[c.n_columns / 2] = QR_CSV_SKIPPED;
        cells[c.n_columns - 1] = (uint8_t)kind;
        if (qr_csv_read_rows(text, "file", cells, MAX_CELLS, &c, &err) == QR_OK) check_table(&c);
        free(cells);
        qr_csv_fini(&c);
    }
    return 0;
}
