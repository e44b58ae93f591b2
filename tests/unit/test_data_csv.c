/* CSV: quoting, line ends, and the error for every kind of malformed table. */
#include "tests/t.h"

#include <math.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "data/csv.h"

/* cells: the kind of each column; NULL: all are numbers. */
static enum qr_code read_as(const char *text, size_t n, const uint8_t *cells, size_t max,
                            struct qr_csv *c, struct qr_err *err) {
    char *exact = qr_xmalloc(n);
    if (n) memcpy(exact, text, n);
    *c = (struct qr_csv){0};
    *err = (struct qr_err){0};
    enum qr_code code = qr_csv_read_header(qr_bytes_of(exact, n), "d.csv", c, err);
    if (code == QR_OK) code = qr_csv_read_rows(qr_bytes_of(exact, n), "d.csv", cells, max, c, err);
    if (code != QR_OK) qr_csv_fini(c);
    free(exact);
    return code;
}

static enum qr_code read(const char *text, size_t n, size_t max, struct qr_csv *c,
                         struct qr_err *err) {
    return read_as(text, n, NULL, max, c, err);
}

static void good(void) {
    static const char *const texts[] = {"a,\"b, \"\"c\"\"\",y\n1,2,3\n-4.5,\"5e-1\", 6 \n",
                                        "a,\"b, \"\"c\"\"\",y\r\n1,2,3\r\n-4.5,\"5e-1\", 6 ",
                                        "\xef\xbb\xbf"
                                        "a,\"b, \"\"c\"\"\",y\n1,2,3\n-4.5,.5,6\n\n\n",
                                        "a,\"b, \"\"c\"\"\",y\r1,2,3\r-4.5,0.5,6\r",
                                        " a , \"b, \"\"c\"\"\" ,\ty\n1 ,2, 3\n-4.5, \"0.5\" ,6\n"};
    static const double want[] = {1, 2, 3, -4.5, 0.5, 6};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct qr_csv c;
        struct qr_err err;
        CHECK(read(texts[i], strlen(texts[i]), 100, &c, &err) == QR_OK, "%zu: %s", i, err.msg);
        CHECK(c.n_rows == 2 && c.n_columns == 3, "%zu: %zu x %zu", i, c.n_rows, c.n_columns);
        if (c.n_columns == 3)
            CHECK(strcmp(c.names.v[1], "b, \"c\"") == 0 && strcmp(c.names.v[2], "y") == 0, "%s",
                  c.names.v[1]);
        for (size_t k = 0; k < 6 && c.n_rows == 2; k++)
            CHECK(c.values[k] == want[k], "%zu: %g", i, c.values[k]);
        qr_csv_fini(&c);
    }
    struct qr_csv c;
    struct qr_err err;
    CHECK(read("x\nnan\n-inf\nInfinity\n", 20, 3, &c, &err) == QR_OK && c.n_rows == 3, "%s",
          err.msg);
    if (c.n_rows == 3)
        CHECK(isnan(c.values[0]) && c.values[1] == -HUGE_VAL && c.values[2] == HUGE_VAL);
    qr_csv_fini(&c);
    CHECK(read("x,y\n", 4, 3, &c, &err) == QR_OK && c.n_rows == 0 && c.n_columns == 2);
    qr_csv_fini(&c);
}

/* The last column has words; the columns before it are skipped. */
static void words(void) {
    static const uint8_t cells[] = {QR_CSV_SKIPPED, QR_CSV_NUMBERS_OR_WORDS},
                         forced[] = {QR_CSV_SKIPPED, QR_CSV_WORDS};
    static const struct {
        const char *text;
        bool forced;
        size_t n_words;
        const char *words[3];
        double values[4];
    } rows[] = {
        {"id,y\n,dog\nx,cat\n1,dog\n", false, 2, {"cat", "dog"}, {1, 0, 1}},
        {"id,y\nx,1\nx,-2.5\nx,7\n", false, 0, {NULL}, {1, -2.5, 7}},
        /* numbers above the first word are words too; words are in byte order */
        {"id,y\nx,10\nx,9\nx,nine\nx,10\n", false, 3, {"10", "9", "nine"}, {0, 1, 2, 0}},
        {"id,y\nx,1\nx, 1 \nx,\"1\"\n", true, 1, {"1"}, {0, 0, 0}},
        {"id,y\nx,\"a, b\"\nx,\xc3\xa4\nx,a\n", false, 3, {"a", "a, b", "\xc3\xa4"}, {1, 2, 0}},
    };
    struct qr_csv c;
    struct qr_err err;
    for (size_t i = 0; i < COUNT(rows); i++) {
        CHECK(read_as(rows[i].text, strlen(rows[i].text), rows[i].forced ? forced : cells, 100, &c,
                      &err) == QR_OK,
              "%zu: %s", i, err.msg);
        CHECK(c.words.n == rows[i].n_words, "%zu: %zu words", i, c.words.n);
        for (size_t k = 0; k < c.words.n && k < 3; k++)
            CHECK(strcmp(c.words.v[k], rows[i].words[k]) == 0, "%zu: %s", i, c.words.v[k]);
        for (size_t k = 0; k < c.n_rows; k++)
            CHECK(c.values[2 * k + 1] == rows[i].values[k] && c.values[2 * k] == 0, "%zu: %g", i,
                  c.values[2 * k + 1]);
        qr_csv_fini(&c);
    }
    CHECK(read_as("id,y\nx,cat\nx,nan\n", 17, cells, 100, &c, &err) == QR_OK && isnan(c.values[3]));
    qr_csv_fini(&c);
    struct qr_buf many = {0};
    qr_buf_puts(&many, "id,y\n");
    for (int i = 0; i <= QR_CSV_MAX_WORDS; i++) qr_buf_printf(&many, "x,w%x\n", i * 7919 % 99991);
    CHECK(read_as(qr_buf_string(&many), many.n, cells, 1 << 20, &c, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "column 'y' has more than 65536 different words"),
          "%s", err.msg);
    qr_buf_clear(&many);
    qr_buf_puts(&many, "id,y\nx,");
    for (int i = 0; i <= QR_CSV_MAX_NAME_BYTES; i++) qr_buf_puts(&many, "w");
    CHECK(
        read_as(qr_buf_string(&many), many.n, cells, 100, &c, &err) == QR_DATA_LOSS &&
            strstr(err.msg, "row 1, column 'y': the label is not a word in UTF-8 of at most 1024"),
        "%s", err.msg);
    CHECK(read_as(qr_buf_string(&many) + 7, many.n - 7, cells, 100, &c, &err) == QR_DATA_LOSS &&
              strstr(err.msg, "header line: the name of column 1 has 1025 bytes"),
          "%s", err.msg);
    qr_buf_free(&many);
}

static void bad(void) {
#define T(s, words)                                                                                \
    { s, sizeof s - 1, QR_DATA_LOSS, words }
    static const struct {
        const char *text;
        size_t n;
        enum qr_code code;
        const char *words;
    } rows[] = {
        T("", "is empty"),
        T("a,b\n1,x\n", "row 1, column 'b': 'x' is not a number"),
        T("a,b\n1,2\n3\n", "row 2 has 1 cells; the header has 2"),
        T("a,b\n1,2,3\n", "row 1 has more than the header's 2 cells"),
        T("a,b\n1,\n", "row 1, column 'b': an empty cell"),
        T("a,b\n\n1,2\n", "row 1 is a blank line; remove it"),
        T("a\tb\n1\t2\n", "header line: columns are separated by tabs; use commas"),
        T("a;b\n1;2\n", "header line: columns are separated by semicolons; use commas"),
        T("a\n1;2\n", "'1;2' is not a number; columns are separated by commas, not semicolons"),
        T("a,a\n1,2\n", "two columns are named 'a'"),
        T("0,0\n1,2\n", "two columns are named '0'; is the header line missing?"),
        T(",a\n0,1\n", "column 1 has no name"),
        T("\na,b\n0,1\n", "header line: the line is blank"),
        T(" \r\na\n0\n", "header line: the line is blank"),
        T("a,\xff\n1,2\n", "column 2 is not printable text in UTF-8"),
        T("\x1b[2J,a\n1,2\n", "column 1 is not printable text in UTF-8"),
        T("a,\x7f\n1,2\n", "column 2 is not printable text in UTF-8"),
        T("a,\xc2\x9b\n1,2\n", "column 2 is not printable text in UTF-8"),
        T("a\n\"1\n", "row 1, column 1: a quoted cell has no closing quote"),
        T("a\n\"1\"2\n", "text follows a closing quote"),
        T("a,b\n5,\"1\"\0007,\"0\"\n", "text follows a closing quote"),
        T("\"a\n", "header line: a quoted cell"),
        T("a\n0x10\n", "'0x10' is not a number"),
        T("a\n1e999\n", "not a number"),
        T("a\n1\0002\n", "not a number"),
        T("a\n1 2\n", "'1 2' is not a number"),
        {"a,b\n1,2\n3,4\n5,6\n7,8\n9,9\n1,1\n", 28, QR_RESOURCE_EXHAUSTED, "more than 11 cells"},
    };
#undef T
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_csv c;
        struct qr_err err;
        enum qr_code code = read(rows[i].text, rows[i].n, 11, &c, &err);
        CHECK(code == rows[i].code, "row %zu: code %d: %s", i, code, err.msg);
        CHECK(strncmp(err.msg, "d.csv", 5) == 0 && strstr(err.msg, rows[i].words), "row %zu: %s", i,
              err.msg);
        CHECK(c.values == NULL && c.names.v == NULL);
    }
}

int main(void) {
    good();
    words();
    bad();
    return t_end();
}
