/* qasm/result_pragmas.c — Amazon Braket's pragmas for results: expectation values of products as
 * observables of lib/observable. Start reading at qasm_pragma(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "qasm/qasm_impl.h"

enum { MAX_FACTORS = 16, MAX_TERMS = 4096 };

/* An operator on one qubit as a sum of I, X, Y and Z. */
struct observable_factor {
    double coefficient[4];
    uint32_t qubit;
};

static void readout_add(struct qasm_reader *r, char *text) {
    if (r->n_readouts == r->cap_readouts) {
        r->cap_readouts = r->cap_readouts ? 2 * r->cap_readouts : 16;
        r->readouts = qr_xreallocarray(r->readouts, r->cap_readouts, sizeof *r->readouts);
    }
    r->readouts[r->n_readouts++] = text;
}

bool qasm_word_is(const struct qasm_reader *r, uint32_t token, const char *word) {
    const struct qasm_token *t = &r->tokens[token];
    return t->kind == QASM_NAME && t->bytes == strlen(word) &&
           memcmp(r->text.p + t->at, word, t->bytes) == 0;
}

/* A sum such as 0.5-0.5im. */
enum qr_code qasm_complex(struct qasm_reader *r, double ret[2]) {
    ret[0] = ret[1] = 0;
    for (bool first = true;; first = false) {
        double sign = qasm_is(r, '-') ? -1 : 1, v;
        if (!qasm_skip(r, '-') && !qasm_skip(r, '+') && !first) return QR_OK;
        const struct qasm_token *t = qasm_here(r);
        bool imaginary = t->kind == QASM_IMAGINARY;
        if ((!imaginary && t->kind != QASM_INTEGER && t->kind != QASM_FLOAT) ||
            !qr_parse_double_n((const char *)r->text.p + t->at, t->bytes - 2u * imaginary, &v))
            return qasm_fail(r, r->at, "expected a number, such as 0.5 or 0.5im");
        ret[imaginary] += sign * v;
        qasm_next(r);
    }
}

/* ([[a, b], [c, d]]) of one qubit, as its parts of I, X, Y and Z */
static enum qr_code read_matrix(struct qasm_reader *r, double ret[4]) {
    double m[4][2];
    uint32_t token = r->at;
    QR_TRY(qasm_expect(r, '(', "'(' and a matrix"));
    QR_TRY(qasm_expect(r, '[', "'['"));
    for (unsigned row = 0; row < 2; row++) {
        if (row) QR_TRY(qasm_expect(r, ',', "','"));
        QR_TRY(qasm_expect(r, '[', "'['"));
        QR_TRY(qasm_complex(r, m[2 * row]));
        QR_TRY(qasm_expect(r, ',', "',' and a second number"));
        QR_TRY(qasm_complex(r, m[2 * row + 1]));
        if (qasm_is(r, ','))
            return qasm_refuse(r, r->at,
                               "only matrices of one qubit are read; write the observable "
                               "as products of x, y and z");
        QR_TRY(qasm_expect(r, ']', "']'"));
    }
    QR_TRY(qasm_expect(r, ']', "']' after two rows"));
    QR_TRY(qasm_expect(r, ')', "')'"));
    if (m[0][1] != 0 || m[3][1] != 0 || m[1][0] != m[2][0] || m[1][1] != -m[2][1])
        return qasm_fail(r, token, "the matrix is not Hermitian; correct it");
    ret[0] = 0.5 * (m[0][0] + m[3][0]);
    ret[1] = m[1][0];
    ret[2] = -m[1][1];
    ret[3] = 0.5 * (m[0][0] - m[3][0]);
    return QR_OK;
}

static enum qr_code read_one_qubit(struct qasm_reader *r, uint32_t *ret) {
    struct qasm_selection s;
    uint32_t token = r->at;
    QR_TRY(qasm_select_qubits(r, &s));
    if (s.n != 1)
        return qasm_fail(r, token, "this observable acts on one qubit, but %u are given; give one",
                         s.n);
    *ret = r->pool[s.first];
    return QR_OK;
}

/* z(q[0]), or hermitian(matrix) q[0] */
static enum qr_code read_factor(struct qasm_reader *r, struct observable_factor *ret) {
    static const struct {
        const char *name;
        double coefficient[4];
    } known[] = {{"i", {1}},
                 {"x", {0, 1}},
                 {"y", {0, 0, 1}},
                 {"z", {0, 0, 0, 1}},
                 {"h", {0, M_SQRT1_2, 0, M_SQRT1_2}}};
    uint32_t token = r->at;
    qasm_next(r);
    if (qasm_word_is(r, token, "hermitian")) {
        QR_TRY(read_matrix(r, ret->coefficient));
        return read_one_qubit(r, &ret->qubit);
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (qasm_word_is(r, token, known[i].name)) {
            memcpy(ret->coefficient, known[i].coefficient, sizeof ret->coefficient);
            QR_TRY(qasm_expect(r, '(', "'(' and a qubit"));
            QR_TRY(read_one_qubit(r, &ret->qubit));
            return qasm_expect(r, ')', "')' after the qubit");
        }
    return qasm_fail(r, token, "expected an observable: x, y, z, i, h or hermitian");
}

/* Multiplies the factors out: each term is a choice of one Pauli per factor. */
static char *product_text(const struct observable_factor *factors, unsigned n) {
    struct qr_buf text = {0};
    for (uint64_t choice = 0; choice < UINT64_C(1) << (2 * n); choice++) {
        double c = 1;
        for (unsigned k = 0; k < n; k++) c *= factors[k].coefficient[choice >> (2 * k) & 3];
        if (c == 0) continue;
        char number[32];
        qr_number_text(c, number);
        qr_buf_printf(&text, "%s%s", text.n ? " + " : "", number);
        bool first = true;
        for (unsigned k = 0; k < n; k++) {
            unsigned pauli = choice >> (2 * k) & 3;
            if (!pauli) continue;
            qr_buf_printf(&text, "%s%c%u", first ? "*" : " ", "IXYZ"[pauli], factors[k].qubit);
            first = false;
        }
    }
    char *ret = qr_xstrdup(text.n ? qr_buf_string(&text) : "0");
    qr_buf_free(&text);
    return ret;
}

static enum qr_code read_expectation(struct qasm_reader *r) {
    struct observable_factor factors[MAX_FACTORS];
    uint32_t token = r->at;
    unsigned n = 0;
    uint64_t n_terms = 1;
    struct qr_qubits seen = {0};
    do {
        if (n == MAX_FACTORS)
            return qasm_refuse(r, r->at, "a product has at most %d factors here; use fewer",
                               MAX_FACTORS);
        QR_TRY(read_factor(r, &factors[n]));
        if (qr_qubits_has(&seen, factors[n].qubit))
            return qasm_fail(r, token, "a qubit occurs twice in the product; give it once");
        qr_qubits_add(&seen, factors[n].qubit);
        unsigned terms = 0;
        for (unsigned k = 0; k < 4; k++) terms += factors[n].coefficient[k] != 0;
        n_terms *= terms;
        n++;
    } while (qasm_skip(r, '@'));
    if (n_terms > MAX_TERMS)
        return qasm_refuse(r, token, "the product has more than %d terms; simplify it", MAX_TERMS);
    readout_add(r, product_text(factors, n));
    return QR_OK;
}

enum qr_code qasm_pragma(struct qasm_reader *r) {
    qasm_next(r);
    uint32_t token = r->at;
    bool noise = qasm_word_is(r, token, "noise");
    if (!noise && !qasm_word_is(r, token, "result"))
        return qasm_refuse(r, token,
                           "only Braket's pragmas of results and noise are read; remove this one");
    if (!noise && !qasm_word_is(r, token + 1, "expectation"))
        return qasm_refuse(r, token + 1,
                           "only expectation values are read-outs; remove the result");
    qasm_next(r);
    if (!noise) qasm_next(r);
    QR_TRY(noise ? qasm_noise(r) : read_expectation(r));
    return qasm_expect(r, QASM_PRAGMA_END, "the end of the line");
}
