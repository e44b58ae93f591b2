/* CSV: quoting, line ends, and the words for every kind of bad table. */
#include "tests/t.h"

#include <math.h>

#include "base/mem.h"
#include "format/csv.h"

static enum qr_code read(const char *text, size_t n, size_t max, struct qr_csv *c,
                         struct qr_err *err) {
    char *exact = qr_xmalloc(n);
    if (n) memcpy(exact, text, n);
    *c = (struct qr_csv){0};
    *err = (struct qr_err){0};
    enum qr_code code = qr_csv_read(qr_bytes_of(exact, n), "d.csv", max, c, err);
    free(exact);
    return code;
}

static void good(void) {
    static const char *const texts[] = {"a,\"b, \"\"c\"\"\",y\n1,2,3\n-4.5,\"5e-1\", 6 \n",
                                        "a,\"b, \"\"c\"\"\",y\r\n1,2,3\r\n-4.5,\"5e-1\", 6 ",
                                        "\xef\xbb\xbf"
                                        "a,\"b, \"\"c\"\"\",y\n1,2,3\n-4.5,.5,6\n\n\n",
                                        "a,\"b, \"\"c\"\"\",y\r1,2,3\r-4.5,0.5,6\r"};
    static const double want[] = {1, 2, 3, -4.5, 0.5, 6};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct qr_csv c;
        struct qr_err err;
        CHECK(read(texts[i], strlen(texts[i]), 100, &c, &err) == QR_OK, "%zu: %s", i, err.msg);
        CHECK(c.n_rows == 2 && c.n_columns == 3, "%zu: %zu x %zu", i, c.n_rows, c.n_columns);
        if (c.n_columns == 3)
            CHECK(strcmp(c.names[1], "b, \"c\"") == 0 && strcmp(c.names[2], "y") == 0, "%s",
                  c.names[1]);
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
        T("a,b\n\n1,2\n", "row 1 is a blank line; take it away"),
        T("a\tb\n1\t2\n", "header line: there are tabs between the columns; write commas"),
        T("a;b\n1;2\n", "'1;2' is not a number; between columns stand commas, not semicolons"),
        T("a,a\n1,2\n", "two columns are named 'a'"),
        T("0,0\n1,2\n", "two columns are named '0'; is the line with the columns' names missing?"),
        T(",a\n0,1\n", "column 1 has no name"),
        T("a,\xff\n1,2\n", "column 2 is not printable text in UTF-8"),
        T("\x1b[2J,a\n1,2\n", "column 1 is not printable text in UTF-8"),
        T("a,\x7f\n1,2\n", "column 2 is not printable text in UTF-8"),
        T("a,\xc2\x9b\n1,2\n", "column 2 is not printable text in UTF-8"),
        T("a\n\"1\n", "row 1, column 1: a quoted cell has no closing quote"),
        T("a\n\"1\"2\n", "text follows a closing quote"),
        T("\"a\n", "header line: a quoted cell"),
        T("a\n0x10\n", "'0x10' is not a number"),
        T("a\n1e999\n", "not a number"),
        T("a\n1\0002\n", "not a number"),
        T("a;b\n1;2\n", "'1;2' is not a number"),
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
        CHECK(c.values == NULL && c.names == NULL);
    }
}

int main(void) {
    good();
    bad();
    return t_end();
}
