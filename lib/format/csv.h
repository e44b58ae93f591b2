/* format/csv.h — a table of numbers with a header line (RFC 4180 quoting, LF or CRLF, UTF-8
 * BOM allowed).
 *
 * Errors    DATA_LOSS naming `what`, row (counted from 1 under the header) and column name: a cell
 *           that is no number, a row with more or fewer cells. NaN and infinities are read as such
 *           (the data set refuses them by name).
 */
#ifndef QR_FORMAT_CSV_H
#define QR_FORMAT_CSV_H

#include "base/bytes.h"

struct qr_csv {
    size_t n_rows, n_columns;
    char **names;
    double *values; /* row-major */
};
QR_MUST_CHECK enum qr_code qr_csv_read(struct qr_bytes text, const char *what, size_t max_cells,
                                       struct qr_csv *ret, struct qr_err *err);
void qr_csv_fini(struct qr_csv *c);

/* Behind an error about the header: a question, where this name is a number, or nothing. */
const char *qr_csv_header_hint(const char *name);

#endif
