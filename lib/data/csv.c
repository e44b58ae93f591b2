/* data/csv.c — the CSV parser. Start reading at qr_csv_read_rows() and next_cell(). */
#include "data/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/parse.h"
#include "base/text.h"

enum { MAX_COLUMNS = 1 << 16 };

/* The distinct words of a column, numbered in order of appearance. */
struct csv_words {
    struct qr_name_list list;
    size_t cap;
    uint32_t *sorted; /* [list.n of cap] indices, by the words' bytes */
};

/* Reads cell by cell. A cell's text is unquoted into `cell`. */
struct csv_reader {
    const char *p;
    size_t n, at;
    struct qr_buf cell;
    bool ends_row;        /* the last cell read ends its row */
    const char *bad;      /* reason of a quoting error */
    const uint8_t *cells; /* enum qr_csv_cells of each column; NULL: all numbers */
    bool as_words;        /* a column of NUMBERS_OR_WORDS is read as words */
    bool found_word;      /* it was read as numbers, and a cell is not a number */
    struct csv_words words;
};

static void end_of_cell(struct csv_reader *r) {
    r->ends_row = true;
    if (r->at >= r->n) return;
    char c = r->p[r->at++];
    if (c == ',') r->ends_row = false;
    else if (c == '\r' && r->at < r->n && r->p[r->at] == '\n') r->at++;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Offset of the first byte from `at` that is not a blank, or the end. */
static size_t csv_skip_blanks(const struct csv_reader *r, size_t at) {
    while (at < r->n && is_blank(r->p[at])) at++;
    return at;
}

/* Removes blanks at both ends of the cell. */
static void trim_cell(struct qr_buf *cell) {
    size_t n = cell->n, from = 0;
    while (n && is_blank((char)cell->p[n - 1])) n--;
    while (from < n && is_blank((char)cell->p[from])) from++;
    if (n == cell->n && !from) return;
    memmove(cell->p, cell->p + from, n - from);
    cell->n = n - from;
    cell->p[cell->n] = 0;
}

static bool next_cell(struct csv_reader *r) {
    qr_buf_clear(&r->cell);
    size_t quote = csv_skip_blanks(r, r->at);
    if (quote < r->n && r->p[quote] == '"') {
        r->at = quote;
        for (r->at++;; r->at++) {
            if (r->at >= r->n) {
                r->bad = "a quoted cell has no closing quote";
                return false;
            }
            if (r->p[r->at] == '"') {
                if (r->at + 1 >= r->n || r->p[r->at + 1] != '"') break;
                r->at++; /* "" encodes one quote */
            }
            qr_buf_put(&r->cell, r->p + r->at, 1);
        }
        r->at = csv_skip_blanks(r, r->at + 1);
        if (r->at < r->n && !memchr(",\r\n", r->p[r->at], 3)) {
            r->bad = "text follows a closing quote";
            return false;
        }
    } else {
        size_t from = r->at;
        while (r->at < r->n && r->p[r->at] != ',' && r->p[r->at] != '\n' && r->p[r->at] != '\r')
            r->at++;
        qr_buf_put(&r->cell, r->p + from, r->at - from);
    }
    end_of_cell(r);
    return true;
}

/* Parses a number; also NaN and infinities in the forms of NumPy and pandas. */
static bool csv_number(const struct qr_buf *cell, double *ret) {
    static const struct {
        const char *text;
        double value;
    } words[] = {{"nan", (double)NAN}, {"inf", HUGE_VAL}, {"infinity", HUGE_VAL}};
    const char *s = qr_buf_string(cell);
    size_t n = cell->n;
    if (memchr(s, 0, n)) return false;
    if (qr_parse_double_n(s, n, ret)) return true;
    for (; n && is_blank(*s); n--) s++;
    while (n && is_blank(s[n - 1])) n--;
    bool minus = n && *s == '-', sign = minus || (n && *s == '+');
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (n - sign != strlen(words[i].text) ||
            strncasecmp(s + sign, words[i].text, n - sign) != 0)
            continue;
        *ret = minus ? -words[i].value : words[i].value;
        return true;
    }
    return false;
}

static bool valid_name(const struct qr_buf *cell) {
    return strlen(qr_buf_string(cell)) == cell->n && qr_text_ok(qr_buf_string(cell));
}

const char *qr_csv_header_hint(const char *name) {
    double v;
    return qr_parse_double(name, &v) ? "; is the header line missing?" : "";
}

static enum qr_code csv_read_names(struct csv_reader *r, const char *what, struct qr_csv *c,
                                   struct qr_err *err) {
    do {
        if (!next_cell(r)) return qr_fail(err, QR_DATA_LOSS, "%s: header line: %s", what, r->bad);
        if (c->n_columns == MAX_COLUMNS)
            return qr_fail(err, QR_DATA_LOSS, "%s: header line: more than %d columns", what,
                           MAX_COLUMNS);
        if (c->n_columns == 0 && r->cell.n && memchr(r->cell.p, '\t', r->cell.n))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: header line: columns are separated by tabs; use commas", what);
        trim_cell(&r->cell);
        if (r->cell.n > QR_CSV_MAX_NAME_BYTES)
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: header line: the name of column %zu has %zu bytes; at most %d are "
                           "read (is this a CSV file?)",
                           what, c->n_columns + 1, r->cell.n, QR_CSV_MAX_NAME_BYTES);
        if (!valid_name(&r->cell))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: header line: the name of column %zu is not printable text in UTF-8",
                           what, c->n_columns + 1);
        if (r->cell.n == 0 && c->n_columns == 0 && r->ends_row)
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: header line: the line is blank; the first line has the names of "
                           "the columns",
                           what);
        if (r->cell.n == 0)
            return qr_fail(
                err, QR_DATA_LOSS,
                "%s: header line: column %zu has no name (a row index? write the file without it)",
                what, c->n_columns + 1);
        qr_name_list_add(&c->names, qr_buf_string(&r->cell), r->cell.n);
        c->n_columns++;
    } while (!r->ends_row);
    if (c->n_columns == 1 && strchr(c->names.v[0], ';'))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: header line: columns are separated by semicolons; use commas", what);
    const char *twice = qr_name_list_duplicate(&c->names);
    return twice ? qr_fail(err, QR_DATA_LOSS, "%s: header line: two columns are named '%.60s'%s",
                           what, twice, qr_csv_header_hint(twice))
                 : QR_OK;
}

/* Upper bound of the remaining cells: one per separator, and one. */
static size_t count_cells(const struct csv_reader *r) {
    size_t n = 1;
    for (size_t i = r->at; i < r->n; i++) n += r->p[i] == ',' || r->p[i] == '\n' || r->p[i] == '\r';
    return n;
}

/* ---- words ---- */

/* Position of a word in `sorted`, or the position where to insert it. */
static size_t words_position(const struct csv_words *w, const char *word, bool *ret_there) {
    size_t low = 0, high = w->list.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(w->list.v[w->sorted[middle]], word);
        if (order == 0) return *ret_there = true, middle;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    *ret_there = false;
    return low;
}

static size_t words_add(struct csv_words *w, const char *word) {
    bool there;
    size_t at = words_position(w, word, &there);
    if (there) return w->sorted[at];
    size_t n = w->list.n;
    if (n == w->cap)
        w->sorted =
            qr_xreallocarray(w->sorted, w->cap = w->cap ? 2 * w->cap : 16, sizeof *w->sorted);
    memmove(w->sorted + at + 1, w->sorted + at, (n - at) * sizeof *w->sorted);
    w->sorted[at] = (uint32_t)n;
    qr_name_list_add(&w->list, word, strlen(word));
    return n;
}

/* Moves the words to c in sorted order, and replaces the values by their sorted indices. */
static void words_finish(struct csv_reader *r, struct qr_csv *c) {
    struct csv_words *w = &r->words;
    size_t column = 0;
    if (!w->list.n) return;
    while (r->cells[column] != QR_CSV_NUMBERS_OR_WORDS && r->cells[column] != QR_CSV_WORDS)
        column++;
    qr_auto(qr_free_p) uint32_t *rank = qr_xcalloc(w->list.n, sizeof *rank);
    for (size_t i = 0; i < w->list.n; i++) {
        const char *word = w->list.v[w->sorted[i]];
        rank[w->sorted[i]] = (uint32_t)i;
        qr_name_list_add(&c->words, word, strlen(word));
    }
    for (size_t i = 0; i < c->n_rows; i++) {
        double *value = &c->values[i * c->n_columns + column];
        if (isfinite(*value)) *value = rank[(size_t)*value];
    }
}

static void reader_fini(struct csv_reader *r) {
    qr_buf_free(&r->cell);
    qr_name_list_fini(&r->words.list);
    free(r->words.sorted);
}

/* ---- rows ---- */

static enum qr_code csv_read_word(struct csv_reader *r, const char *what, const struct qr_csv *c,
                                  size_t column, double *ret, struct qr_err *err) {
    size_t row = c->n_rows + 1;
    /* NaN is NumPy's missing label, not a class. */
    if (csv_number(&r->cell, ret) && !isfinite(*ret)) return QR_OK;
    trim_cell(&r->cell);
    if (r->cell.n == 0)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu, column '%.60s': an empty cell; a label is "
                       "needed",
                       what, row, c->names.v[column]);
    if (r->cell.n > QR_CSV_MAX_NAME_BYTES || !valid_name(&r->cell))
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu, column '%.60s': the label is not a word in UTF-8 of at most "
                       "%d bytes",
                       what, row, c->names.v[column], QR_CSV_MAX_NAME_BYTES);
    if (r->words.list.n == QR_CSV_MAX_WORDS)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: column '%.60s' has more than %d different words; labels are classes or "
                       "numbers",
                       what, c->names.v[column], QR_CSV_MAX_WORDS);
    *ret = (double)words_add(&r->words, qr_buf_string(&r->cell));
    return QR_OK;
}

static enum qr_code csv_read_cell(struct csv_reader *r, const char *what, const struct qr_csv *c,
                                  size_t column, double *ret, struct qr_err *err) {
    uint8_t cells = r->cells ? r->cells[column] : QR_CSV_NUMBERS;
    *ret = 0;
    if (cells == QR_CSV_SKIPPED) return QR_OK;
    if (cells == QR_CSV_WORDS || (cells == QR_CSV_NUMBERS_OR_WORDS && r->as_words))
        return csv_read_word(r, what, c, column, ret, err);
    if (csv_number(&r->cell, ret)) return QR_OK;
    if (r->cell.n == 0)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu, column '%.60s': an empty cell; a number is needed", what,
                       c->n_rows + 1, c->names.v[column]);
    r->found_word = cells == QR_CSV_NUMBERS_OR_WORDS;
    if (r->found_word) return QR_OK;
    return qr_fail(err, QR_DATA_LOSS, "%s: row %zu, column '%.60s': '%.60s' is not a number%s",
                   what, c->n_rows + 1, c->names.v[column], qr_buf_string(&r->cell),
                   strchr(qr_buf_string(&r->cell), ';')
                       ? "; columns are separated by commas, not semicolons"
                   : cells == QR_CSV_INPUTS
                       ? "; if this column is not an input, list the inputs by name in data "
                         "\"columns\""
                       : "");
}

static enum qr_code csv_read_row(struct csv_reader *r, const char *what, struct qr_csv *c,
                                 struct qr_err *err) {
    size_t row = c->n_rows + 1, column = 0;
    do {
        if (!next_cell(r))
            return qr_fail(err, QR_DATA_LOSS, "%s: row %zu, column %zu: %s", what, row, column + 1,
                           r->bad);
        if (column == c->n_columns)
            return qr_fail(err, QR_DATA_LOSS, "%s: row %zu has more than the header's %zu cells",
                           what, row, c->n_columns);
        /* A blank line has too few cells. */
        if (column == 0 && r->cell.n == 0 && r->ends_row && c->n_columns > 1) break;
        double *to = &c->values[c->n_rows * c->n_columns + column];
        QR_TRY(csv_read_cell(r, what, c, column, to, err));
        column++;
    } while (!r->ends_row);
    if (column == 0)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu is a blank line; remove it (is the file cut short?)", what,
                       row);
    if (column < c->n_columns)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu has %zu cells; the header has %zu (is the file cut short?)",
                       what, row, column, c->n_columns);
    c->n_rows++;
    return QR_OK;
}

static enum qr_code csv_read_all(struct csv_reader *r, const char *what, size_t max_cells,
                                 struct qr_csv *c, struct qr_err *err) {
    size_t cells = count_cells(r), most = max_cells - max_cells % c->n_columns;
    void *values;
    /* Only complete rows are counted, so a table of at most `most` cells fits exactly. */
    enum qr_code code = qr_large_new((cells < most ? cells : most) + c->n_columns,
                                     sizeof *c->values, what, &values, err);
    if (code != QR_OK) return code;
    c->values = values;
    size_t n = r->n;
    /* Ignore blank lines at the end. */
    while (n > r->at && (r->p[n - 1] == '\n' || r->p[n - 1] == '\r')) n--;
    r->n = n;
    while (code == QR_OK && r->at < r->n) {
        if ((c->n_rows + 1) * c->n_columns > max_cells)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: more than %zu cells", what, max_cells);
        code = csv_read_row(r, what, c, err);
        if (code != QR_OK || !r->found_word) continue;
        /* The cells above are words too: read all rows again. */
        r->found_word = false, r->as_words = true;
        r->at = c->rows_at, c->n_rows = 0;
    }
    return code;
}

static struct csv_reader reader_of(struct qr_bytes text, size_t at) {
    if (at == 0 && text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0) at = 3;
    return (struct csv_reader){.p = (const char *)text.p, .n = text.n, .at = at};
}

enum qr_code qr_csv_read_header(struct qr_bytes text, const char *what, struct qr_csv *ret,
                                struct qr_err *err) {
    qr_auto(reader_fini) struct csv_reader r = reader_of(text, 0);
    qr_auto(qr_csv_fini) struct qr_csv c = {0};
    if (r.at == r.n)
        return qr_fail(err, QR_DATA_LOSS, "%s is empty; a header line with column names is needed",
                       what);
    QR_TRY(csv_read_names(&r, what, &c, err));
    c.rows_at = r.at;
    *ret = QR_MOVE(c);
    return QR_OK;
}

enum qr_code qr_csv_read_rows(struct qr_bytes text, const char *what, const uint8_t *cells,
                              size_t max_cells, struct qr_csv *c, struct qr_err *err) {
    qr_auto(reader_fini) struct csv_reader r = reader_of(text, c->rows_at);
    r.cells = cells;
    QR_TRY(csv_read_all(&r, what, max_cells, c, err));
    words_finish(&r, c);
    return QR_OK;
}

void qr_csv_fini(struct qr_csv *c) {
    qr_name_list_fini(&c->names);
    qr_name_list_fini(&c->words);
    free(c->values);
    *c = (struct qr_csv){0};
}
