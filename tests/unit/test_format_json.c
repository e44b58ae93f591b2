/* JSON: errors of the parser and of the getters, and the writer's output. */
#include "tests/t.h"

#include <math.h>

#include "base/mem.h"
#include "format/json.h"

static struct qr_json *parse(const char *text, size_t n, struct qr_err *err) {
    struct qr_json *j = NULL;
    *err = (struct qr_err){0};
    enum qr_code code = qr_json_parse(qr_bytes_of(text, n), "job a.json", &j, err);
    CHECK((code == QR_OK) == (j != NULL));
    return j;
}

#define T(s, words)                                                                                \
    { s, sizeof s - 1, words }
static const struct {
    const char *text;
    size_t n;
    const char *words;
} rejected_rows[] = {
    T("", "line 1, column 1: expected a value but found the end of the text"),
    T("  ", "column 3"),
    T("{", "expected a key in double quotes but found the end"),
    T("[1,2", "expected ',' or ']' but found the end"),
    T("{\"a\":1", "expected ',' or '}'"),
    T("{\"a\" 1}", "expected ':' after a key but found '1'"),
    T("{a:1}", "expected a key in double quotes but found 'a'"),
    T("{\"a\":1,}", "column 8: trailing comma before this bracket; delete the comma"),
    T("[1, ]", "column 5: trailing comma before this bracket"),
    T("{\"a\":1} # b", "column 9: JSON has no comments"),
    T("[1 2]", "expected ',' or ']' but found '2'"),
    T("{} x", "column 4: expected the end of the text after the value but found 'x'"),
    T("1 1", "the end of the text"),
    T("{}\0", "byte 0x00"),
    T("{\n  \"a\": tru\n}", "line 2, column 8: expected a value but found 't'"),
    T("nul", "expected a value"),
    T("True", "True is Python syntax; write true"),
    T("[None]", "column 2: None is Python syntax; write null"),
    T("NaN", "JSON has no NaN; a number is finite"),
    T("Infinity", "JSON has no Infinity"),
    T("-Infinity", "expected a digit"),
    T("'a'", "expected a value but found '''"),
    T("/* c */ 1", "JSON has no comments; delete this one"),
    T("// c\n1", "no comments"),
    T("/ 1", "expected a value but found '/'"),
    T("01", "must not begin with 0"),
    T("-", "expected a digit"),
    T("+1", "expected a value"),
    T("1.", "after the decimal point"),
    T(".5", "expected a value"),
    T("1e", "exponent"),
    T("1e+", "exponent"),
    T("0x10", "the end of the text"),
    T("1e999", "outside the range of float64"),
    T("-1e400", "outside the range"),
    T("9007199254740993", "above 2^53"),
    T("[1, -9007199254740993]", "column 5: the integer -9007199254740993 is above 2^53"),
    T("99999999999999999999999", "above 2^53"),
    T("1.0000000000000000000000000000000000000000000000000000000000000001",
      "more than 63 characters"),
    T("\"abc", "no closing quote"),
    T("\"a\nb\"", "no closing quote on its line"),
    T("\"a\tb\"", "control character"),
    T("\"a\0b\"", "control character"),
    T("\"\\x41\"", "invalid escape"),
    T("\"\\u12g4\"", "four hexadecimal digits"),
    T("\"\\u12", "four hexadecimal digits"),
    T("\"\\u0000\"", "\\u0000 is not allowed"),
    T("\"\\ud800\"", "surrogate"),
    T("\"\\ud800\\u0041\"", "surrogate"),
    T("\"\\udc00\"", "surrogate"),
    T("\"\\", "ends inside a string"),
    T("\"\xff\"", "not valid UTF-8"),
    T("\"\xc0\x80\"", "not valid UTF-8"),
    T("\"\xed\xa0\x80\"", "not valid UTF-8"),
    T("\"\xe2\x82\"", "not valid UTF-8"),
    T("\"\xf4\x90\x80\x80\"", "not valid UTF-8"),
    T("\"\xc3\xa9\" \xff",
      "column 5: expected the end of the text after the value but found byte 0xff"),
    T("{\"a\":1,\"b\":2,\"a\":3}", "column 14: duplicate key \"a\""),
    T("{\"a\":1,\"\\u0061\":3}", "duplicate key"),
    T("[{\"x\":{\"k\":1,\"k\":1}}]", "duplicate key \"k\""),
    T("{\"\":1,\"\":2}", "duplicate key"),
};
#undef T

static void rejected(void) {
    for (size_t i = 0; i < COUNT(rejected_rows); i++) {
        struct qr_err err;
        char *exact = qr_xmalloc(
            rejected_rows[i].n); /* without a NUL, so that sanitizers detect an overrun */
        if (rejected_rows[i].n) memcpy(exact, rejected_rows[i].text, rejected_rows[i].n);
        struct qr_json *j = parse(exact, rejected_rows[i].n, &err);
        CHECK(!j, "row %zu: %s", i, rejected_rows[i].text);
        CHECK(err.code == QR_INVALID_ARGUMENT && strncmp(err.msg, "job a.json: line ", 17) == 0 &&
                  strstr(err.msg, rejected_rows[i].words),
              "row %zu: %s", i, err.msg);
        qr_json_free(j);
        free(exact);
    }
}

static void nesting(void) {
    for (size_t depth = 63; depth <= 66; depth++)
        for (int kind = 0; kind < 2; kind++) {
            struct qr_buf b = {0};
            struct qr_err err;
            for (size_t i = 0; i < depth; i++) qr_buf_puts(&b, kind ? "[" : "{\"a\":");
            qr_buf_puts(&b, "0");
            for (size_t i = 0; i < depth; i++) qr_buf_puts(&b, kind ? "]" : "}");
            struct qr_json *j = parse(qr_buf_string(&b), b.n, &err);
            CHECK((j != NULL) == (depth <= 64), "depth %zu", depth);
            if (!j) CHECK(strstr(err.msg, "nested more than 64 deep"), "%s", err.msg);
            qr_json_free(j);
            qr_buf_free(&b);
        }
    struct qr_buf b = {0}; /* a million brackets must not overflow the stack */
    struct qr_err err;
    for (size_t i = 0; i < 1000000; i++) qr_buf_puts(&b, "[");
    CHECK(!parse(qr_buf_string(&b), b.n, &err) && strstr(err.msg, "64 deep"), "%s", err.msg);
    qr_buf_clear(&b);
    qr_buf_puts(&b, "{"); /* many keys: n log n */
    for (size_t i = 0; i < 100000; i++) qr_buf_printf(&b, "\"key%zu\":%zu,", i, i);
    qr_buf_puts(&b, "\"key77777\":0}");
    CHECK(!parse(qr_buf_string(&b), b.n, &err) && strstr(err.msg, "duplicate key \"key77777\""),
          "%s", err.msg);
    qr_buf_free(&b);
}

static void accepted(void) {
    static const char text[] =
        "\xef\xbb\xbf {\"n\": -0, \"max\": 9007199254740992, \"e\": 1e3, \"s\": "
        "\"\\u00e9\\ud83d\\ude00\\n\\/\", \"a\": [true, false, null, [], {}], "
        "\"o\": {\"x\": 1.5}, \"big\": 1e300}\r\n";
    struct qr_err err;
    struct qr_json *j = parse(text, sizeof text - 1, &err);
    CHECK(j, "%s", err.msg);
    if (!j) return;
    int64_t i = 0;
    double x = 0;
    bool b = false;
    const char *s = NULL;
    CHECK(qr_json_type(j) == QR_JSON_OBJECT && qr_json_size(j) == 7 &&
          strcmp(qr_json_type_name(j), "an object") == 0);
    CHECK(qr_json_i64(qr_json_get(j, "max"), "max", 0, INT64_MAX, &i, &err) == QR_OK &&
          i == (int64_t)1 << 53);
    CHECK(qr_json_i64(qr_json_get(j, "e"), "e", 0, 2000, &i, &err) == QR_OK && i == 1000);
    CHECK(qr_json_string(qr_json_get(j, "s"), "s", &s, &err) == QR_OK &&
              strcmp(s, "\xc3\xa9\xf0\x9f\x98\x80\n/") == 0,
          "%s", s);
    const struct qr_json *a = qr_json_get(j, "a");
    CHECK(qr_json_size(a) == 5 && qr_json_type(qr_json_at(a, 2)) == QR_JSON_NULL &&
          qr_json_at(a, 5) == NULL && qr_json_size(qr_json_at(a, 0)) == 0);
    CHECK(qr_json_bool(qr_json_at(a, 0), "a[0]", &b, &err) == QR_OK && b);
    CHECK(qr_json_double(qr_json_get(qr_json_get(j, "o"), "x"), "o.x", 0, 2, &x, &err) == QR_OK &&
          x == 1.5);
    CHECK(qr_json_get(j, "N") == NULL && qr_json_get(NULL, "n") == NULL &&
          qr_json_get(a, "n") == NULL);

    static const char *const names[] = {"ring", "star", "auto"}, *const known[] = {"n", "max", "e",
                                                                                   "s", "a",   "o"};
    size_t c = 9;
    struct {
        enum qr_code code;
        const char *words;
    } got;
#define CHECK_ERROR(call, text_)                                                                   \
    got.code = (call);                                                                             \
    got.words = text_;                                                                             \
    CHECK(got.code == QR_INVALID_ARGUMENT && strstr(err.msg, got.words), "%s", err.msg)
    CHECK_ERROR(qr_json_i64(qr_json_get(j, "none"), "train.epochs", 1, 9, &i, &err),
                "train.epochs is missing");
    CHECK_ERROR(qr_json_i64(qr_json_get(j, "s"), "train.epochs", 1, 9, &i, &err),
                "train.epochs must be an integer, not the string");
    CHECK_ERROR(qr_json_i64(qr_json_get(qr_json_get(j, "o"), "x"), "train.epochs", 1, 9, &i, &err),
                "train.epochs is 1.5; it must be an integer");
    CHECK_ERROR(qr_json_i64(qr_json_get(j, "e"), "train.epochs", 1, 9, &i, &err),
                "train.epochs is 1000; it must be between 1 and 9");
    CHECK_ERROR(qr_json_i64(qr_json_get(j, "n"), "train.epochs", 1, INT64_MAX, &i, &err),
                "at least 1");
    CHECK_ERROR(qr_json_i64(qr_json_get(j, "big"), "seed", 0, INT64_MAX, &i, &err),
                "must not exceed 2^53");
    CHECK_ERROR(qr_json_double(qr_json_get(j, "e"), "rate", 0, 1, &x, &err),
                "rate is 1000; it must be between 0 and 1");
    CHECK_ERROR(qr_json_double(qr_json_get(j, "a"), "rate", 0, 1, &x, &err),
                "rate must be a number, not an array");
    CHECK_ERROR(qr_json_bool(qr_json_get(j, "n"), "shuffle", &b, &err),
                "shuffle must be true or false, not -0");
    CHECK_ERROR(qr_json_string(qr_json_get(j, "n"), "name", &s, &err),
                "name must be a string, not -0");
    CHECK_ERROR(qr_json_want(qr_json_get(j, "o"), "model", QR_JSON_ARRAY, &err),
                "model must be an array, not an object");
    CHECK_ERROR(qr_json_choice(qr_json_get(j, "s"), "allreduce", names, 3, &c, &err),
                "it must be 'ring', 'star' or 'auto'");
    CHECK_ERROR(qr_json_choice(qr_json_get(j, "n"), "allreduce", names, 3, &c, &err),
                "allreduce must be 'ring', 'star' or 'auto', not -0");
    CHECK_ERROR(qr_json_choice(NULL, "allreduce", names, 3, &c, &err), "allreduce is missing");
    CHECK_ERROR(qr_json_known(j, "train", known, 6, &err), "train: unknown key 'big'");
    CHECK(c == 9);
    qr_json_free(j);
    j = parse("{\"qubit\":1,\"m\":\"rng\"}", 21, &err);
    static const char *const keys[] = {"qubits", "gates"};
    CHECK_ERROR(qr_json_known(j, "model[0].circuit", keys, 2, &err),
                "model[0].circuit: unknown key 'qubit'; did you mean 'qubits'?");
    CHECK_ERROR(qr_json_choice(qr_json_get(j, "m"), "m", names, 3, &c, &err),
                "did you mean 'ring'?");
#undef CHECK_ERROR
    qr_json_free(j);
}

static void write_values(void) {
    struct qr_buf b = {0};
    struct qr_json_writer w = qr_json_writer(&b, 0);
    qr_json_open(&w, '{');
    qr_json_key_open(&w, "a", '[');
    qr_json_put_double(&w, 0.1);
    qr_json_put_double(&w, 1e15);
    qr_json_put_double(&w, (double)NAN);
    qr_json_put_i64(&w, -9007199254740992);
    qr_json_close(&w, ']');
    qr_json_key_string(&w, "q\"\\\n\x01", "\xff\xc3\xa9");
    qr_json_key_open(&w, "e", '{');
    qr_json_close(&w, '}');
    qr_json_key_bool(&w, "t", true);
    qr_json_close(&w, '}');
    CHECK(strcmp(qr_buf_string(&b),
                 "{\"a\":[0.10000000000000001,1000000000000000,null,-9007199254740992],"
                 "\"q\\\"\\\\\\n\\u0001\":\"\xef\xbf\xbd\xc3\xa9\",\"e\":{},\"t\":true}") == 0,
          "%s", qr_buf_string(&b));
    struct qr_err err;
    static const char text[] = "{\"b\":[1,2.5,{\"z\":null,\"y\":\"s\"}],\"a\":true,\"c\":[]}";
    struct qr_json *j = parse(text, sizeof text - 1, &err);
    static const struct {
        unsigned indent;
        bool sorted;
        const char *want;
    } rows[] = {{0, false, text},
                {0, true, "{\"a\":true,\"b\":[1,2.5,{\"y\":\"s\",\"z\":null}],\"c\":[]}"},
                {2, true,
                 "{\n  \"a\": true,\n  \"b\": [\n    1,\n    2.5,\n    {\n      \"y\": \"s\",\n    "
                 "  \"z\": null\n    }\n  ],\n  \"c\": []\n}"}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        qr_buf_clear(&b);
        w = qr_json_writer(&b, rows[i].indent);
        qr_json_put_value(&w, j, rows[i].sorted);
        CHECK(strcmp(qr_buf_string(&b), rows[i].want) == 0, "%s", qr_buf_string(&b));
    }
    qr_json_free(j);
    /* Every float64 is read back exactly. */
    uint64_t bits = 1;
    for (int i = 0; i < 4000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        double x = i < 40 ? (double)(bits >> 8) : qr_double_of_bits(bits), back = 0;
        if (!isfinite(x) || (bits >> 52 & 0x7ff) == 0) continue;
        qr_buf_clear(&b);
        w = qr_json_writer(&b, 0);
        if (i % 2) qr_json_put_number(&w, x);
        else qr_json_put_double(&w, x);
        j = parse(qr_buf_string(&b), b.n, &err);
        CHECK(j && qr_json_double(j, "x", -HUGE_VAL, HUGE_VAL, &back, &err) == QR_OK && back == x,
              "%s", qr_buf_string(&b));
        qr_json_free(j);
    }
    qr_buf_free(&b);
}

/* Numbers of common size are written as printf writes them: next to powers of ten and two, with few
 * digits and with 17, and at halves. */
static void common_numbers(void) {
    static const double edges[] = {1e-4,
                                   0.00099999999999999998,
                                   0.1,
                                   0.5,
                                   1,
                                   9.5,
                                   99999999999999.95,
                                   0x1p53,
                                   0x1p53 - 1,
                                   4503599627370497.5,
                                   0.99999999999999989};
    struct qr_buf b = {0};
    uint64_t bits = 1;
    for (size_t i = 0; i < 300000; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        uint64_t mixed = bits ^ bits >> 31;
        double x = i < COUNT(edges) ? edges[i]
                   : i % 3 == 0
                       ? qr_double_of_bits((UINT64_C(1006) + mixed % 72) << 52 | bits >> 12)
                   : i % 3 == 1 ? (double)(mixed % 100000) / (double)(1 + bits % 4096)
                                : (double)((int64_t)(mixed % 2000001) - 1000000) * 1e-4;
        char want[64];
        snprintf(want, sizeof want, fabs(x) > 0x1p53 && fabs(x) < 1e17 ? "%.1f" : "%.17g", x);
        qr_buf_clear(&b);
        struct qr_json_writer w = qr_json_writer(&b, 0);
        qr_json_put_double(&w, x);
        CHECK(strcmp(qr_buf_string(&b), want) == 0, "%s, not %s", qr_buf_string(&b), want);
    }
    qr_buf_free(&b);
}

int main(void) {
    common_numbers();
    rejected();
    nesting();
    accepted();
    write_values();
    return t_end();
}
