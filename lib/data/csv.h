/* data/csv.h — a table of numbers, with at most one column of words, under a header line (RFC
 * 4180 quoting, LF or CRLF, UTF-8 BOM allowed; blanks around names, words and quotes are dropped).
 *
 * Usage     qr_csv_read_header, then qr_csv_read_rows, then qr_csv_fini, also after an error.
 * Errors    DATA_LOSS naming `what`, row (counted from 1 under the header) and column name: a cell
 *           that is no number, a row with more or fewer cells. NaN and infinities are read as such
 *           (the data set refuses them by name).
 */
#ifndef QR_DATA_CSV_H
#define QR_DATA_CSV_H

#include "base/bytes.h"

enum { QR_CSV_MAX_NAME_BYTES = 1024, QR_CSV_MAX_WORDS = 1 << 16 };

/* What the cells of a column are. */
enum qr_csv_cells {
    QR_CSV_NUMBERS,
    QR_CSV_SKIPPED, /* not read: the values are 0 */
    /* words where a cell is not a number; at most one column of a table is this or the next */
    QR_CSV_NUMBERS_OR_WORDS,
    QR_CSV_WORDS /* words even where all are numbers */
};

struct qr_csv {
    size_t n_rows, n_columns;
    char **names;
    double *values; /* row-major; in a column of words each cell's index in `words` */
    /* the different words, sorted by their bytes; 0: there is no column of words */
    size_t n_words;
    char **words;
    size_t rows_at; /* where the rows begin in the text */
};
/* Fills names. */
QR_MUST_CHECK enum qr_code qr_csv_read_header(struct qr_bytes text, const char *what,
                                              struct qr_csv *ret, struct qr_err *err);
/* Fills the rest, from the same text. cells[n_columns]: enum qr_csv_cells; NULL: all numbers. */
QR_MUST_CHECK enum qr_code qr_csv_read_rows(struct qr_bytes text, const char *what,
                                            const uint8_t *cells, size_t max_cells,
                                            struct qr_csv *c, struct qr_err *err);
void qr_csv_fini(struct qr_csv *c);

/* Behind an error about the header: a question, where this name is a number, or nothing. */
const char *qr_csv_header_hint(const char *name);

#endif
