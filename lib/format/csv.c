#include "format/csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/parse.h"
#include "format/json_impl.h"

enum { MAX_COLUMNS = 1 << 16 };

/* Reads cell by cell. A cell's text is unquoted into `cell`. */
struct csv_reader {
    const char *p;
    size_t n, at;
    struct qr_buf cell;
    bool ends_row;   /* the cell just read is its row's last */
    const char *bad; /* what is wrong with the quoting */
};

static void end_of_cell(struct csv_reader *r) {
    r->ends_row = true;
    if (r->at >= r->n) return;
    char c = r->p[r->at++];
    if (c == ',') r->ends_row = false;
    else if (c == '\r' && r->at < r->n && r->p[r->at] == '\n') r->at++;
}

static bool next_cell(struct csv_reader *r) {
    qr_buf_clear(&r->cell);
    if (r->at < r->n && r->p[r->at] == '"') {
        for (r->at++;; r->at++) {
            if (r->at >= r->n) {
                r->bad = "a quoted cell has no closing quote";
                return false;
            }
            if (r->p[r->at] == '"') {
                if (r->at + 1 >= r->n || r->p[r->at + 1] != '"') break;
                r->at++; /* "" is one quote */
            }
            qr_buf_put(&r->cell, r->p + r->at, 1);
        }
        r->at++;
        if (r->at < r->n && !strchr(",\r\n", r->p[r->at])) {
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

/* NaN and infinities too, as NumPy and pandas write them. */
static bool number(const struct qr_buf *cell, double *ret) {
    const char *s = qr_buf_string(cell);
    size_t n = cell->n;
    if (memchr(s, 0, n)) return false;
    if (qr_parse_double_n(s, n, ret)) return true;
    while (n && (*s == ' ' || *s == '\t')) {
        s++;
        n--;
    }
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\t')) n--;
    bool minus = n && *s == '-';
    if (n && (*s == '-' || *s == '+')) {
        s++;
        n--;
    }
    if (n == 3 && strncasecmp(s, "nan", 3) == 0) {
        *ret = (double)NAN;
        return true;
    }
    if ((n == 3 && strncasecmp(s, "inf", 3) == 0) ||
        (n == 8 && strncasecmp(s, "infinity", 8) == 0)) {
        *ret = minus ? -HUGE_VAL : HUGE_VAL;
        return true;
    }
    return false;
}

static bool valid_name(const struct qr_buf *cell) {
    for (size_t at = 0; at < cell->n;) {
        uint32_t c;
        size_t len = qr_utf8_next(cell->p + at, cell->n - at, &c);
        if (!len || c < 0x20 || (c >= 0x7f && c <= 0x9f)) return false;
        at += len;
    }
    return true;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

const char *qr_csv_header_hint(const char *name) {
    double v;
    return qr_parse_double(name, &v) ? "; is the line with the columns' names missing?" : "";
}

static enum qr_code read_names(struct csv_reader *r, const char *what, struct qr_csv *c,
                               struct qr_err *err) {
    size_t cap = 0;
    do {
        if (!next_cell(r)) return qr_fail(err, QR_DATA_LOSS, "%s: header line: %s", what, r->bad);
        if (c->n_columns == MAX_COLUMNS)
            return qr_fail(err, QR_DATA_LOSS, "%s: header line: more than %d columns", what,
                           MAX_COLUMNS);
        if (c->n_columns == 0 && r->cell.n && memchr(r->cell.p, '\t', r->cell.n))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: header line: there are tabs between the columns; write commas",
                           what);
        if (!valid_name(&r->cell))
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: header line: the name of column %zu is not printable text in UTF-8",
                           what, c->n_columns + 1);
        if (r->cell.n == 0)
            return qr_fail(
                err, QR_DATA_LOSS,
                "%s: header line: column %zu has no name (a row index? write the file without it)",
                what, c->n_columns + 1);
        if (c->n_columns == cap)
            c->names = qr_xreallocarray(c->names, cap = cap ? 2 * cap : 16, sizeof *c->names);
        c->names[c->n_columns++] = qr_xstrdup(qr_buf_string(&r->cell));
    } while (!r->ends_row);
    char **sorted = qr_xcalloc(c->n_columns, sizeof *sorted);
    memcpy(sorted, c->names, c->n_columns * sizeof *sorted);
    qsort(sorted, c->n_columns, sizeof *sorted, by_text);
    const char *twice = NULL;
    for (size_t i = 1; i < c->n_columns && !twice; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) twice = sorted[i];
    free(sorted);
    return twice ? qr_fail(err, QR_DATA_LOSS, "%s: header line: two columns are named '%.60s'%s",
                           what, twice, qr_csv_header_hint(twice))
                 : QR_OK;
}

/* At most this many cells follow: one per separator, and one. */
static size_t count_cells(const struct csv_reader *r) {
    size_t n = 1;
    for (size_t i = r->at; i < r->n; i++) n += r->p[i] == ',' || r->p[i] == '\n' || r->p[i] == '\r';
    return n;
}

static enum qr_code read_row(struct csv_reader *r, const char *what, struct qr_csv *c,
                             struct qr_err *err) {
    size_t row = c->n_rows + 1, column = 0;
    do {
        if (!next_cell(r))
            return qr_fail(err, QR_DATA_LOSS, "%s: row %zu, column %zu: %s", what, row, column + 1,
                           r->bad);
        if (column == c->n_columns)
            return qr_fail(err, QR_DATA_LOSS, "%s: row %zu has more than the header's %zu cells",
                           what, row, c->n_columns);
        if (!number(&r->cell, &c->values[c->n_rows * c->n_columns + column])) {
            /* a blank line: too few cells */
            if (column == 0 && r->cell.n == 0 && r->ends_row && c->n_columns > 1) break;
            if (r->cell.n == 0)
                return qr_fail(err, QR_DATA_LOSS,
                               "%s: row %zu, column '%.60s': an empty cell; a number is needed",
                               what, row, c->names[column]);
            return qr_fail(err, QR_DATA_LOSS,
                           "%s: row %zu, column '%.60s': '%.60s' is not a number%s", what, row,
                           c->names[column], qr_buf_string(&r->cell),
                           strchr(qr_buf_string(&r->cell), ';')
                               ? "; between columns stand commas, not semicolons"
                               : "");
        }
        column++;
    } while (!r->ends_row);
    if (column == 0)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu is a blank line; take it away (is the file cut short?)", what,
                       row);
    if (column < c->n_columns)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s: row %zu has %zu cells; the header has %zu (is the file cut short?)",
                       what, row, column, c->n_columns);
    c->n_rows++;
    return QR_OK;
}

static enum qr_code read_all(struct csv_reader *r, const char *what, size_t max_cells,
                             struct qr_csv *c, struct qr_err *err) {
    if (r->n == 0)
        return qr_fail(err, QR_DATA_LOSS,
                       "%s is empty; a header line with the columns' names is needed", what);
    enum qr_code code = read_names(r, what, c, err);
    if (code != QR_OK) return code;
    size_t cells = count_cells(r), most = max_cells - max_cells % c->n_columns;
    void *values;
    /* every row is whole when it is counted, so a table of at most `most` cells fits exactly */
    if ((code = qr_large_new((cells < most ? cells : most) + c->n_columns, sizeof *c->values, what,
                             &values, err)) != QR_OK)
        return code;
    c->values = values;
    size_t n = r->n;
    /* blank lines at the end */
    while (n > r->at && (r->p[n - 1] == '\n' || r->p[n - 1] == '\r')) n--;
    r->n = n;
    while (code == QR_OK && r->at < r->n) {
        if ((c->n_rows + 1) * c->n_columns > max_cells)
            return qr_fail(err, QR_RESOURCE_EXHAUSTED, "%s: more than %zu cells", what, max_cells);
        code = read_row(r, what, c, err);
    }
    return code;
}

enum qr_code qr_csv_read(struct qr_bytes text, const char *what, size_t max_cells,
                         struct qr_csv *ret, struct qr_err *err) {
    if (text.n >= 3 && memcmp(text.p, "\xef\xbb\xbf", 3) == 0)
        text = qr_bytes_of(text.p + 3, text.n - 3);
    struct csv_reader r = {.p = (const char *)text.p, .n = text.n};
    struct qr_csv c = {0};
    enum qr_code code = read_all(&r, what, max_cells, &c, err);
    qr_buf_free(&r.cell);
    if (code == QR_OK) *ret = c;
    else qr_csv_fini(&c);
    return code;
}

void qr_csv_fini(struct qr_csv *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n_columns; i++) free(c->names[i]);
    free(c->names);
    free(c->values);
    *c = (struct qr_csv){0};
}
