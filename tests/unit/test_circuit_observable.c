/* Observables from text: accepted forms, their canonical text, and each error with its column. */
#include "circuit/circuit.h"
#include "tests/t.h"

static void accepted(void) {
    static const struct {
        const char *text, *canonical;
        size_t n_terms;
    } table[] = {
        {"Z4", "Z4", 1},
        {"0.5*X0 Z1 - Y2", "0.5*X0 Z1 - Y2", 2},
        {"1.5 + Z0", "1.5 + Z0", 2},
        {"  -Z1*X0  ", "-X0 Z1", 1},
        {"2 Z0", "2*Z0", 1},
        {"0.1*Z0 + 0.2*Z0", "0.30000000000000004*Z0", 1},
        {"X0 Z1 + Z1 X0", "2*X0 Z1", 1},
        {"Z0 + X1 - Z0", "X1", 1},
        {"1e-3*Y7", "0.001*Y7", 1},
        {".25Z3", "0.25*Z3", 1},
        {"-1", "-1", 1},
        {"0.333333333333333315*Z0", "0.3333333333333333*Z0", 1},
        {"+Z0", "Z0", 1},
        {"Z0 + -1*Z1", "Z0 - Z1", 2},
        {"-1*Z0 + -0.5*X1 - -2 - -Y2 + +.5 Z3", "-Z0 - 0.5*X1 + 2 + Y2 + 0.5*Z3", 5},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_observable o = {0}, again = {0};
        struct qr_err err = {.msg = ""};
        CHECK(qr_observable_parse(table[i].text, 8, &o, &err) == QR_OK, "%s", err.msg);
        CHECK(o.text && strcmp(o.text, table[i].canonical) == 0, "'%s' became '%s'", table[i].text,
              o.text);
        CHECK(o.n_terms == table[i].n_terms, "%s", table[i].text);
        /* The canonical text gives the same terms to the last bit, and is its own canonical
         * text. */
        CHECK(qr_observable_parse(o.text, 8, &again, &err) == QR_OK &&
                  strcmp(again.text, o.text) == 0,
              "%s", o.text);
        CHECK(again.n_terms == o.n_terms &&
                  memcmp(again.terms, o.terms, o.n_terms * sizeof *o.terms) == 0,
              "%s", o.text);
        qr_observable_fini(&o);
        qr_observable_fini(&again);
    }
    struct qr_observable o;
    CHECK(qr_observable_parse("0.5*X0 Z1 - Y2", 8, &o, QR_IGNORED) == QR_OK);
    CHECK(o.terms[0].coefficient == 0.5 && qr_qubits_mask(&o.terms[0].x) == 1 &&
          qr_qubits_mask(&o.terms[0].z) == 2);
    CHECK(o.terms[1].coefficient == -1 && qr_qubits_mask(&o.terms[1].x) == 4 &&
          qr_qubits_mask(&o.terms[1].z) == 4);
    qr_observable_fini(&o);
    CHECK(qr_observable_parse("Z63", 64, &o, QR_IGNORED) == QR_OK &&
          qr_qubits_mask(&o.terms[0].z) == UINT64_C(1) << 63);
    qr_observable_fini(&o);
}

/* Terms across words, and like terms beyond the first word. */
static void wide(void) {
    struct qr_observable o = {0};
    const char *text = "2*X0 Y64 Z700 X1023 - Z64";
    CHECK(qr_observable_parse("X0 Y64 Z700 X1023 - Z64 + X1023 Z700 Y64 X0", 1024, &o,
                              QR_IGNORED) == QR_OK &&
          o.n_terms == 2);
    CHECK(strcmp(o.text, text) == 0, "%s", o.text);
    const struct qr_pauli_term *t = o.terms;
    CHECK(qr_qubits_count(&t->x) == 3 && qr_qubits_has(&t->x, 64) && qr_qubits_last(&t->x) == 1023);
    CHECK(qr_qubits_count(&t->z) == 2 && qr_qubits_has(&t->z, 64) && qr_qubits_last(&t->z) == 700);
    qr_observable_fini(&o);
    struct qr_err err = {.msg = ""};
    CHECK(qr_observable_parse("Z1024", 1024, &o, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "qubit 1024 is out of range, the circuit has qubits 0 to 1023"),
          "%s", err.msg);
    CHECK(qr_observable_parse("Z700 X700", 1024, &o, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "qubit 700 appears twice"),
          "%s", err.msg);
}

static void rejected(void) {
    static const struct {
        const char *text, *says;
    } table[] = {
        {"", "column 1: expected a term like"},
        {"Z", "column 2: expected a qubit number after Z"},
        {"Z(0)", "expected a qubit number after Z, as in Z0, without parentheses"},
        {"Z8", "column 1: qubit 8 is out of range, the circuit has qubits 0 to 7"},
        {"Z99999999999999999999", "out of range"},
        {"X0 Z0", "column 4: qubit 0 appears twice"},
        {"Z0 +", "column 5: expected a term like"},
        {"Z0 - - Z1", "column 6: expected a term like"},
        {"Z0 + --1*Z1", "column 6: expected a term like"},
        {"1e999", "column 1: '1e999' is not a finite"},
        {"1.2.3*Z0", "'1.2.3' is not a finite"},
        {"Z0 - Z0", "column 1: the sum is zero"},
        {"0*Z0", "column 1: the sum is zero"},
        {"0.5*", "column 5: expected X, Y or Z"},
        {"*Z0", "column 1: expected a term like"},
        {"z4", "column 1: expected a term like"},
        {"Q1", "column 1: expected a term like"},
        {"Z1 2", "column 4: unexpected '2'"},
        {"Z1 & Z2", "column 4: unexpected '& Z2'"},
        {"nan*Z0", "column 1"},
        {"1e308 Z0 + 1e308 Z0", "a coefficient is too large"},
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        struct qr_observable o = {0};
        struct qr_err err = {.msg = ""};
        CHECK(qr_observable_parse(table[i].text, 8, &o, &err) == QR_INVALID_ARGUMENT,
              "'%s' was accepted", table[i].text);
        CHECK(strstr(err.msg, table[i].says), "'%s': %s", table[i].text, err.msg);
        CHECK(!o.terms && !o.text);
    }
}

int main(void) {
    accepted();
    wide();
    rejected();
    return t_end();
}
