/* Hamiltonians: all forms that OpenFermion and PennyLane write give the same operator; small texts
 * by their canonical form; error messages of rejected ones; many terms. */
#include <math.h>

#include "observable/hamiltonian.h"
#include "tests/golden.h"

static void put_path(char path[128], const char *name, const char *form) {
    snprintf(path, 128, "tests/golden/hamiltonians/%s-%s", name, form);
}

static const struct qr_pauli_term *find(const struct qr_observable *o,
                                        const struct qr_observable *one) {
    for (size_t t = 0; t < o->n_terms; t++)
        if (qr_qubits_equal(&o->terms[t].x, &one->terms[0].x) &&
            qr_qubits_equal(&o->terms[t].z, &one->terms[0].z))
            return &o->terms[t];
    return NULL;
}

static void check_operator(const struct qr_json *e, const char *form) {
    const char *name = golden_text(e, "name");
    unsigned n_qubits = (unsigned)golden_number(e, "qubits", 0);
    const struct qr_json *terms = qr_json_get(e, "terms");
    char path[128];
    struct qr_err err = {.msg = ""};
    struct qr_buf text = {0};
    struct qr_observable o = {0};
    put_path(path, name, form);
    CHECK(qr_file_read(path, 1 << 20, &text, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_hamiltonian_read(qr_buf_view(&text), path, n_qubits, &o, &err) == QR_OK, "%s",
          err.msg);
    CHECK(o.n_terms == qr_json_size(terms), "%s: %zu terms", path, o.n_terms);
    for (const struct qr_json *t = qr_json_first(terms); t; t = qr_json_next(t)) {
        const struct qr_json *words = qr_json_first(t);
        struct qr_observable one = {0};
        const char *word;
        double want = 0;
        CHECK(qr_json_string(words, "", &word, QR_IGNORED) == QR_OK &&
              qr_json_double(qr_json_next(words), "", -INFINITY, INFINITY, &want, QR_IGNORED) ==
                  QR_OK);
        CHECK(qr_observable_parse(*word ? word : "1", n_qubits, &one, &err) == QR_OK, "%s",
              err.msg);
        const struct qr_pauli_term *got = one.terms ? find(&o, &one) : NULL;
        CHECK(got && got->coefficient == want, "%s: '%s' is %.17g, not %.17g", path, word,
              got ? got->coefficient : 0, want);
        qr_observable_fini(&one);
    }
    qr_observable_fini(&o);
    qr_buf_free(&text);
}

static void against_other_programs(void) {
    static const char *const forms[] = {"plain.txt",    "openfermion.txt", "pennylane.txt",
                                        "sentence.txt", "terms.json",      "ops.json",
                                        "members.json"};
    struct qr_json *root = golden_load("tests/golden/hamiltonians/values.json");
    size_t n = 0;
    for (const struct qr_json *e = qr_json_first(qr_json_get(root, "operators")); e;
         e = qr_json_next(e))
        for (size_t i = 0; i < COUNT(forms); i++, n++) check_operator(e, forms[i]);
    CHECK(n == 14, "%zu", n);
    qr_json_free(root);
}

static enum qr_code read_text(const char *text, struct qr_observable *ret, struct qr_err *err) {
    return qr_hamiltonian_read(qr_bytes_of_string(text), "h.txt", 8, ret, err);
}

static void accepted(void) {
    static const struct {
        const char *text, *canonical;
    } table[] = {
        {"Z0", "Z0"},
        {"# nothing but this\n\n  -0.5 Z1 X0  # behind it too\r\n\r\n", "-0.5*X0 Z1"},
        {"0.5 Z0\n0.25 Z0\nX1", "0.75*Z0 + X1"},
        {"Z0 - Z1 + 2", "Z0 - Z1 + 2"},
        {"1.5 [] +\n-.5 [X0 Y1]", "1.5 - 0.5*X0 Y1"},
        {"QubitOperator:\n(2-0j) [Z3] +\n0j [Z1] +\n1e-1 [Z0]", "2*Z3 + 0.1*Z0"},
        {"(0.5) [Z0]\n+ (-2) [Z1]", "0.5*Z0 - 2*Z1"},
        {"-1.0 * I([0, 1]) + (X(0) @ Z(7)) + 3 * Y(2) + I(1)", "X0 Z7 + 3*Y2"},
        {"2 * X0*X1", "2*X0 X1"},
        {"+ Z0", "Z0"},
        {"[[\"Z0\", 1], [\"X(1) @ Y(2)\", -0.5], [\"\", 2], [\"I\", 1]]", "Z0 + 3 - 0.5*X1 Y2"},
        {" {\"Z0 Z1\": 0.5, \"I()\": 1}", "0.5*Z0 Z1 + 1"},
        {"[[[[0, \"X\"], [3, \"I\"]], 2]]", "2*X0"},
        {"{\"ops\": [\"Z(0)\"], \"coeffs\": [4]}", "4*Z0"},
        /* Terms that flip the same qubits are adjacent; otherwise the order is that of the text. */
        {"Z1\nX0 Y2\n2 Z0\nX3\nY0 X2\n3 X0 X2 Z1\n4",
         "Z1 + 2*Z0 + 4 + X0 Y2 + Y0 X2 + 3*X0 Z1 X2 + X3"},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_observable o = {0};
        struct qr_err err = {.msg = ""};
        CHECK(read_text(table[i].text, &o, &err) == QR_OK, "'%s': %s", table[i].text, err.msg);
        CHECK(o.text && strcmp(o.text, table[i].canonical) == 0, "'%s': %s", table[i].text,
              o.text ? o.text : "nothing");
        qr_observable_fini(&o);
    }
}

static void rejected(void) {
    static const struct {
        const char *text, *says;
    } table[] = {
        {"", "h.txt: the sum is zero"},
        {"# all of it\n", "the sum is zero"},
        {"Z0\n-1 Z0", "the sum is zero"},
        {"1 Z0\n\n 0.5 Q1", "h.txt, line 3, column 6: put each term on its own line"},
        {"Z0 Z1 0.5", "line 1, column 7: put each term on its own line, or join"},
        {"0.5 XX", "column 6: each Pauli needs a qubit number: X0 Y1, not XY"},
        {"0.5 X", "column 6: expected a qubit number after X, as in X0"},
        {"Z8", "qubit 8 is out of range, the circuit has qubits 0 to 7"},
        {"Z0 X0", "qubit 0 appears twice"},
        {"(0.5+0.25j) [Z0]", "imaginary part 0.25; an observable must have real ones"},
        {"(0.5", "column 5: "},
        {"0.5 [Z0", "expected X, Y or Z with a qubit, or ']'"},
        {"0.5 [Z0 Q]", "expected X, Y or Z with a qubit, or ']'"},
        {"0.5 *", "expected X, Y or Z with a qubit after '*'"},
        {"Z0 @", "expected X, Y or Z with a qubit"},
        {"Z0 +", "expected a term after the sign"},
        {"Z0 + - - Z1", "a term like 0.5 Z0 Z1"},
        {"1e999 Z0", "'1e999' is not a finite decimal number"},
        {"1e308 Z0\n1e308 Z0", "a coefficient is too large"},
        {"FermionOperator:", "line 1, column 1: expected a term like"},
        {"X('a')", "expected a qubit number after X"},
        {"{}", "the sum is zero"},
        {"[]", "the sum is zero"},
        {"[1]", "h.txt[0]: a term must be Paulis and a coefficient, as in [\"Z0 Z1\", 0.5]"},
        {"[[\"Z0\"]]", "h.txt[0]: a term must be"},
        {"[[\"Z0\", \"1\"]]", "h.txt[0]"},
        {"[[\"Z0 & Z1\", 1]]", "h.txt[0], column 4: '& Z1' is not a Pauli"},
        {"[[\"0.5 Z0\", 1]]", "h.txt[0], column 1: '0.5 Z0' is not a Pauli"},
        {"[[[[0, \"Q\"]], 1]]", "h.txt[0]: a factor must be a qubit and its Pauli"},
        {"[[[[0]], 1]]", "h.txt[0]: a factor must be"},
        {"[[[[9, \"X\"]], 1]]", "qubit 9 is out of range"},
        {"[[[[-1, \"X\"]], 1]]", "h.txt[0] is -1"},
        {"{\"ops\": [\"Z0\"]}", "h.txt.coeffs"},
        {"{\"ops\": [\"Z0\"], \"coeffs\": []}",
         "1 ops but 0 coeffs; give one coefficient for each op"},
        {"{\"Z0\": \"x\"}", "h.txt.Z0"},
        {"{\"Q\": 1}", "h.txt.Q, column 1"},
        {"[[\"Z0\", 1]", "line 1"},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_observable o = {0};
        struct qr_err err = {.msg = ""};
        CHECK(read_text(table[i].text, &o, &err) == QR_INVALID_ARGUMENT, "'%s' was accepted",
              table[i].text);
        CHECK(strstr(err.msg, table[i].says), "'%s': %s", table[i].text, err.msg);
        CHECK(!o.terms && !o.text);
    }
    static const char nul[] = "Z0\0Z1";
    struct qr_observable o = {0};
    CHECK(qr_hamiltonian_read(qr_bytes_of(nul, 5), "h", 8, &o, QR_IGNORED) == QR_INVALID_ARGUMENT);
}

/* Terms on 16 qubits by the bits of i, each twice. Another `last` coefficient must give another
 * name. */
static char *many_terms(size_t n, double last) {
    struct qr_buf b = {0};
    for (size_t i = 0; i < 2 * n; i++) {
        qr_buf_printf(&b, "%.17g", i + 1 == 2 * n ? last : 0.5);
        for (unsigned q = 0; q < 16; q++)
            if ((i % n + 1) >> q & 1) qr_buf_printf(&b, " Y%u", q);
        qr_buf_puts(&b, "\n");
    }
    return (char *)b.p;
}

static void many(void) {
    enum { N = 20000, MOST = 1 << 16 };
    char *text[2] = {many_terms(N, 0.5), many_terms(N, 0.25)};
    struct qr_observable o[2] = {{0}};
    struct qr_err err = {.msg = ""};
    for (int i = 0; i < 2; i++)
        CHECK(qr_hamiltonian_read(qr_bytes_of_string(text[i]), "h", 16, &o[i], &err) == QR_OK, "%s",
              err.msg);
    CHECK(o[0].n_terms == N && o[1].n_terms == N);
    for (size_t t = 0; t < N; t++)
        CHECK(o[0].terms[t].coefficient == 1 && qr_qubits_mask(&o[0].terms[t].x) == t + 1);
    CHECK(strncmp(o[0].text, "a Hamiltonian of 20000 terms, sha256 ", 37) == 0 &&
              strlen(o[0].text) == 37 + 64,
          "%s", o[0].text);
    CHECK(strcmp(o[0].text, o[1].text) != 0);
    for (int i = 0; i < 2; i++) qr_observable_fini(&o[i]);
    char *over = many_terms(MOST / 2 + 1, 0.5);
    CHECK(qr_hamiltonian_read(qr_bytes_of_string(over), "h", 17, &o[0], &err) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "line 65537, column 1: more than 65536 terms"),
          "%s", err.msg);
    free(over), free(text[0]), free(text[1]);
}

int main(void) {
    against_other_programs();
    accepted();
    rejected();
    many();
    return t_end();
}
