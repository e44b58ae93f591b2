/* data/csv.h — reads a CSV file: a table of numbers, with at most one column of words, under a
 * header line (RFC 4180 quoting, LF or CRLF, UTF-8 BOM allowed; blanks around names, words and
 * quotes are dropped).
 *
 * Usage     qr_csv_read_header, then qr_csv_read_rows, then qr_csv_fini, also after an error.
 * Errors    DATA_LOSS: a cell that is not a number, a row with more or fewer cells than the header.
 *           The message has `what` (the file's name), row (from 1, without the header) and column
 *           name. NaN and infinities are read as such; the data set rejects them.
 * Threads   any.
 */
#ifndef QR_DATA_CSV_H
#define QR_DATA_CSV_H

#include "format/data_names.h"

enum { QR_CSV_MAX_NAME_BYTES = 1024, QR_CSV_MAX_WORDS = 1 << 16 };

/* The contents of a column. */
enum qr_csv_cells {
    QR_CSV_NUMBERS,
    QR_CSV_SKIPPED, /* not parsed: the values are 0 */
    /* words when any cell is not a number; at most one column of a table is this or the next */
    QR_CSV_NUMBERS_OR_WORDS,
    QR_CSV_WORDS, /* words even when all cells are numbers */
    QR_CSV_INPUTS /* numbers of an input that was not chosen by name: errors say how to choose */
};

struct qr_csv {
    size_t n_rows, n_columns;
    struct qr_name_list names; /* of the columns */
    double *values;            /* [n_rows, n_columns], row-major; a word is its index in `words` */
    /* the distinct words, sorted by their bytes; empty: no column of words */
    struct qr_name_list words;
    size_t rows_at; /* offset of the first row in the text */
};
/* Reads the header line: fills names, n_columns and rows_at. */
QR_MUST_CHECK enum qr_code qr_csv_read_header(struct qr_bytes text, const char *what,
                                              struct qr_csv *ret, struct qr_err *err);
/* Reads the rows of the same text.
 *
 * Args:     cells       [n_columns] enum qr_csv_cells; NULL: all are numbers
 *           max_cells   limit for n_rows * n_columns
 * Errors:   RESOURCE_EXHAUSTED (more cells)
 */
QR_MUST_CHECK enum qr_code qr_csv_read_rows(struct qr_bytes text, const char *what,
                                            const uint8_t *cells, size_t max_cells,
                                            struct qr_csv *c, struct qr_err *err);
void qr_csv_fini(struct qr_csv *c);

/* Suffix for an error about the header: a hint when this name is a number, else "". */
const char *qr_csv_header_hint(const char *name);

#endif
