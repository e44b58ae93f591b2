/* observable/hamiltonian.c — Hamiltonians as text: one grammar for plain terms and for the output
 * of OpenFermion and PennyLane. Start reading at qr_hamiltonian_read_text(). */
#include "observable/hamiltonian.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/parse.h"
#include "observable/hamiltonian_impl.h"

/* Largest imaginary part accepted as rounding noise of a program that summed terms. */
static const double imaginary_slack = 1e-10;

struct hamiltonian_reader {
    const char *at, *end, *line;
    size_t line_number; /* 0: the text is a single line without a number */
    unsigned n_qubits;
    const char *what;
    struct qr_err *err;
};

static enum qr_code hamiltonian_fail(struct hamiltonian_reader *r, const char *fmt, ...)
    QR_PRINTF(2, 3);
static enum qr_code hamiltonian_fail(struct hamiltonian_reader *r, const char *fmt, ...) {
    char why[200], line[32] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (r->line_number) snprintf(line, sizeof line, ", line %zu", r->line_number);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s%s, column %zu: %s", r->what, line,
                   (size_t)(r->at - r->line) + 1, why);
}

static char hamiltonian_peek(const struct hamiltonian_reader *r) {
    return r->at < r->end ? *r->at : '\0';
}
static bool hamiltonian_is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool hamiltonian_is_pauli(char ch) {
    return ch == 'I' || ch == 'X' || ch == 'Y' || ch == 'Z';
}
static bool hamiltonian_is_number(char ch) { return hamiltonian_is_digit(ch) || ch == '.'; }

static void hamiltonian_skip_blanks(struct hamiltonian_reader *r) {
    while (hamiltonian_peek(r) == ' ' || hamiltonian_peek(r) == '\t' || hamiltonian_peek(r) == '\r')
        r->at++;
}

/* Skips blanks, comments and newlines. */
static void hamiltonian_skip_lines(struct hamiltonian_reader *r) {
    for (;;) {
        hamiltonian_skip_blanks(r);
        if (hamiltonian_peek(r) == '#')
            while (r->at < r->end && *r->at != '\n') r->at++;
        if (hamiltonian_peek(r) != '\n') return;
        r->line = ++r->at;
        r->line_number++;
    }
}

static bool hamiltonian_skip_char(struct hamiltonian_reader *r, char ch) {
    hamiltonian_skip_blanks(r);
    if (hamiltonian_peek(r) != ch) return false;
    r->at++;
    return true;
}

/* ---- numbers ---- */

/* Reads a decimal number after its sign. */
static enum qr_code hamiltonian_read_number(struct hamiltonian_reader *r, double *ret) {
    const char *from = r->at, *p = from;
    while (p < r->end && hamiltonian_is_number(*p)) p++;
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < r->end && (*p == '+' || *p == '-')) p++;
        while (p < r->end && hamiltonian_is_digit(*p)) p++;
    }
    size_t n = (size_t)(p - from);
    if (!qr_parse_double_n(from, n, ret))
        return hamiltonian_fail(r, "'%.*s' is not a finite decimal number", (int)(n > 40 ? 40 : n),
                                from);
    r->at = p;
    return QR_OK;
}

static enum qr_code hamiltonian_check_imaginary(struct hamiltonian_reader *r, double imaginary) {
    if (fabs(imaginary) <= imaginary_slack) return QR_OK;
    return hamiltonian_fail(
        r, "the coefficient has imaginary part %g; an observable must have real ones", imaginary);
}

/* A real number, or a zero imaginary one such as "0j". */
static enum qr_code hamiltonian_read_part(struct hamiltonian_reader *r, double *ret_real) {
    double v, sign = hamiltonian_skip_char(r, '-') ? -1 : 1;
    hamiltonian_skip_char(r, '+');
    hamiltonian_skip_blanks(r);
    QR_TRY(hamiltonian_read_number(r, &v));
    if (hamiltonian_peek(r) != 'j') {
        *ret_real += sign * v;
        return QR_OK;
    }
    r->at++;
    return hamiltonian_check_imaginary(r, v);
}

/* Reads "(0.5+0j)" or "(0.5)" after the opening bracket. */
static enum qr_code hamiltonian_read_complex(struct hamiltonian_reader *r, double *ret) {
    *ret = 0;
    enum qr_code code = hamiltonian_read_part(r, ret);
    hamiltonian_skip_blanks(r);
    if (!code && hamiltonian_peek(r) != ')') code = hamiltonian_read_part(r, ret);
    if (!code && !hamiltonian_skip_char(r, ')'))
        code = hamiltonian_fail(r, "expected ')' after the coefficient");
    return code;
}

/* True when the bracket holds a number, not Paulis. */
static bool is_complex_coefficient(const struct hamiltonian_reader *r) {
    const char *p = r->at;
    if (p == r->end || *p++ != '(') return false;
    while (p < r->end && (*p == ' ' || *p == '-' || *p == '+')) p++;
    return p < r->end && hamiltonian_is_number(*p);
}

static enum qr_code hamiltonian_read_coefficient(struct hamiltonian_reader *r, double *ret,
                                                 bool *ret_is) {
    *ret = 1;
    *ret_is = true;
    if (hamiltonian_is_number(hamiltonian_peek(r))) {
        *ret = 0;
        return hamiltonian_read_part(r, ret);
    }
    if (is_complex_coefficient(r)) {
        r->at++;
        return hamiltonian_read_complex(r, ret);
    }
    *ret_is = false;
    return QR_OK;
}

/* ---- Paulis ---- */

const char *qr_term_add_pauli(struct qr_pauli_term *term, char pauli, uint64_t qubit,
                              unsigned n_qubits, char why[96]) {
    enum { WHY_BYTES = 96 };
    if (pauli == 'I') return NULL;
    if (qubit >= n_qubits) {
        snprintf(why, WHY_BYTES, "qubit %llu is out of range, the circuit has qubits 0 to %u",
                 (unsigned long long)qubit, n_qubits - 1);
        return why;
    }
    unsigned q = (unsigned)qubit;
    if (qr_qubits_has(&term->x, q) || qr_qubits_has(&term->z, q)) {
        snprintf(why, WHY_BYTES, "qubit %u appears twice in one term", q);
        return why;
    }
    if (pauli != 'Z') qr_qubits_add(&term->x, q);
    if (pauli != 'X') qr_qubits_add(&term->z, q);
    return NULL;
}

/* After "I(": the qubits of the identity have no meaning. */
static enum qr_code skip_identity_qubits(struct hamiltonian_reader *r) {
    while (r->at < r->end && *r->at != ')' && *r->at != '\n') r->at++;
    return hamiltonian_skip_char(r, ')')
               ? QR_OK
               : hamiltonian_fail(r, "expected ')' after the qubits of I");
}

/* "X0" or "X(0)"; I may lack a qubit. */
static enum qr_code hamiltonian_read_pauli(struct hamiltonian_reader *r,
                                           struct qr_pauli_term *term) {
    const char *from = r->at;
    char pauli = *r->at++, why[96];
    bool bracket = hamiltonian_peek(r) == '(', digits = false;
    uint64_t qubit = 0;
    if (bracket) r->at++;
    if (bracket && pauli == 'I') return skip_identity_qubits(r);
    for (; hamiltonian_is_digit(hamiltonian_peek(r)); r->at++, digits = true)
        if (qubit < 1000000) qubit = 10 * qubit + (uint64_t)(*r->at - '0');
    if (!digits && hamiltonian_is_pauli(hamiltonian_peek(r)))
        return hamiltonian_fail(r, "each Pauli needs a qubit number: X0 Y1, not XY");
    if (!digits && pauli != 'I')
        return hamiltonian_fail(r, "expected a qubit number after %c, as in %c0", pauli, pauli);
    if (bracket && !hamiltonian_skip_char(r, ')'))
        return hamiltonian_fail(r, "expected ')' after the qubit");
    const char *wrong = qr_term_add_pauli(term, pauli, qubit, r->n_qubits, why);
    if (wrong) r->at = from;
    return wrong ? hamiltonian_fail(r, "%s", wrong) : QR_OK;
}

/* Reads Paulis, joined by @, * or nothing, until the first character that starts none. */
static enum qr_code hamiltonian_read_paulis(struct hamiltonian_reader *r,
                                            struct qr_pauli_term *term, bool *ret_any) {
    for (*ret_any = false;; *ret_any = true) {
        hamiltonian_skip_blanks(r);
        bool joined = *ret_any && (hamiltonian_peek(r) == '@' || hamiltonian_peek(r) == '*');
        if (joined) r->at++;
        hamiltonian_skip_blanks(r);
        if (!hamiltonian_is_pauli(hamiltonian_peek(r)))
            return joined ? hamiltonian_fail(r, "expected X, Y or Z with a qubit") : QR_OK;
        QR_TRY(hamiltonian_read_pauli(r, term));
    }
}

/* Paulis, optionally in brackets; empty brackets "[]" are the identity. */
static enum qr_code hamiltonian_read_body(struct hamiltonian_reader *r, struct qr_pauli_term *term,
                                          bool *ret_any) {
    char closing = hamiltonian_peek(r) == '[' ? ']' : hamiltonian_peek(r) == '(' ? ')' : '\0';
    if (closing) r->at++;
    enum qr_code code = hamiltonian_read_paulis(r, term, ret_any);
    if (code || !closing) return code;
    *ret_any = true;
    return hamiltonian_skip_char(r, closing)
               ? QR_OK
               : hamiltonian_fail(r, "expected X, Y or Z with a qubit, or '%c'", closing);
}

/* ---- sums ---- */

static enum qr_code hamiltonian_read_term(struct hamiltonian_reader *r,
                                          struct qr_pauli_term *term) {
    *term = (struct qr_pauli_term){0};
    bool number, star = false, paulis = false;
    enum qr_code code = hamiltonian_read_coefficient(r, &term->coefficient, &number);
    if (code) return code;
    if (number) star = hamiltonian_skip_char(r, '*');
    hamiltonian_skip_blanks(r);
    if ((code = hamiltonian_read_body(r, term, &paulis))) return code;
    if (star && !paulis) return hamiltonian_fail(r, "expected X, Y or Z with a qubit after '*'");
    return number || paulis ? QR_OK : hamiltonian_fail(r, "expected a term like 0.5 Z0 Z1");
}

static enum qr_code hamiltonian_read_sum(struct hamiltonian_reader *r, struct qr_term_list *l) {
    for (bool apart = true;;) {
        hamiltonian_skip_lines(r);
        bool minus = false, plus = hamiltonian_skip_char(r, '+');
        if (plus) hamiltonian_skip_lines(r);
        minus = hamiltonian_skip_char(r, '-');
        if (plus || minus) hamiltonian_skip_lines(r);
        if (r->at == r->end)
            return plus || minus ? hamiltonian_fail(r, "expected a term after the sign") : QR_OK;
        if (!apart && !plus && !minus)
            return hamiltonian_fail(r, "put each term on its own line, or join terms with + or -");
        if (l->n == QR_MAX_HAMILTONIAN_TERMS)
            return hamiltonian_fail(r, "more than %d terms", QR_MAX_HAMILTONIAN_TERMS);
        struct qr_pauli_term term;
        QR_TRY(hamiltonian_read_term(r, &term));
        if (minus) term.coefficient = -term.coefficient;
        qr_term_list_add(l, &term);
        hamiltonian_skip_blanks(r);
        apart = hamiltonian_peek(r) == '\n' || hamiltonian_peek(r) == '#';
    }
}

/* ---- order: terms that flip the same qubits (X or Y) are adjacent, an engine computes them at
 * once ---- */

struct term_place {
    size_t index, first; /* of the term; of the first term that flips the same qubits */
    const struct qr_qubits *x;
};

static int compare_index(size_t a, size_t b) { return (a > b) - (a < b); }
static int compare_x(const void *a, const void *b) {
    const struct term_place *p = a, *q = b;
    int order = memcmp(p->x, q->x, sizeof *p->x);
    return order ? order : compare_index(p->index, q->index);
}
static int compare_first(const void *a, const void *b) {
    const struct term_place *p = a, *q = b;
    int order = compare_index(p->first, q->first);
    return order ? order : compare_index(p->index, q->index);
}

/* Moves each term behind the first that flips the same qubits; otherwise keeps the order. */
static void hamiltonian_group_terms(struct qr_term_list *l) {
    struct term_place *at = qr_xcalloc(l->n + 1, sizeof *at);
    struct qr_pauli_term *grouped = qr_xcalloc(l->n + 1, sizeof *grouped);
    for (size_t i = 0; i < l->n; i++) at[i] = (struct term_place){.index = i, .x = &l->terms[i].x};
    qsort(at, l->n, sizeof *at, compare_x);
    for (size_t i = 0; i < l->n; i++)
        at[i].first = i && qr_qubits_equal(at[i].x, at[i - 1].x) ? at[i - 1].first : at[i].index;
    qsort(at, l->n, sizeof *at, compare_first);
    for (size_t i = 0; i < l->n; i++) grouped[i] = l->terms[at[i].index];
    free(at);
    free(l->terms);
    l->terms = grouped;
}

/* Replaces a long text by its digest: the text goes to every worker and into the job hash. */
static char *observable_short_text(char *text, size_t n_terms) {
    enum { LONGEST = 120 };
    uint8_t digest[QR_SHA256_BYTES];
    char hex[2 * QR_SHA256_BYTES + 1];
    if (strlen(text) <= LONGEST) return text;
    qr_sha256(text, strlen(text), digest);
    qr_hex(digest, sizeof digest, hex);
    free(text);
    return qr_xasprintf("a Hamiltonian of %zu terms, sha256 %s", n_terms, hex);
}

enum qr_code qr_hamiltonian_of(struct qr_term_list *l, const char *what, struct qr_observable *ret,
                               struct qr_err *err) {
    hamiltonian_group_terms(l);
    const char *wrong = qr_observable_of_terms(l, ret);
    free(l->terms);
    if (wrong) return qr_fail(err, QR_INVALID_ARGUMENT, "%s: %s", what, wrong);
    ret->text = observable_short_text(ret->text, ret->n_terms);
    return QR_OK;
}

enum qr_code qr_hamiltonian_parse_paulis(const char *words, const char *where, unsigned n_qubits,
                                         struct qr_pauli_term *ret, struct qr_err *err) {
    struct hamiltonian_reader r = {.at = words,
                                   .end = words + strlen(words),
                                   .line = words,
                                   .n_qubits = n_qubits,
                                   .what = where,
                                   .err = err};
    bool any;
    *ret = (struct qr_pauli_term){0};
    hamiltonian_skip_blanks(&r);
    enum qr_code code = hamiltonian_read_body(&r, ret, &any);
    hamiltonian_skip_blanks(&r);
    if (code || r.at == r.end) return code;
    return hamiltonian_fail(&r, "'%.20s' is not a Pauli with a qubit, as in \"Z0 Z1\"", r.at);
}

enum qr_code qr_hamiltonian_read_text(struct qr_bytes text, const char *what, unsigned n_qubits,
                                      struct qr_observable *ret, struct qr_err *err) {
    static const char header[] = "QubitOperator:";
    const char *from = text.n ? (const char *)text.p : "";
    struct hamiltonian_reader r = {.at = from,
                                   .end = from + text.n,
                                   .line = from,
                                   .line_number = 1,
                                   .n_qubits = n_qubits,
                                   .what = what,
                                   .err = err};
    struct qr_term_list l = {0};
    hamiltonian_skip_lines(&r);
    if ((size_t)(r.end - r.at) >= sizeof header - 1 && memcmp(r.at, header, sizeof header - 1) == 0)
        r.at += sizeof header - 1;
    enum qr_code code = hamiltonian_read_sum(&r, &l);
    if (!code) return qr_hamiltonian_of(&l, what, ret, err);
    free(l.terms);
    return code;
}
