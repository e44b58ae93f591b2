/* Hamiltonians as text: one grammar for plain terms, OpenFermion's and PennyLane's. */
#include "observable/hamiltonian.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/parse.h"
#include "observable/hamiltonian_impl.h"

/* A sum that a program added up may leave this much of an imaginary part. */
static const double imaginary_slack = 1e-10;

struct hamiltonian_reader {
    const char *at, *end, *line;
    size_t line_number; /* 0: the text is one line and has no number */
    unsigned n_qubits;
    const char *what;
    struct qr_err *err;
};

static enum qr_code bad(struct hamiltonian_reader *r, const char *fmt, ...) QR_PRINTF(2, 3);
static enum qr_code bad(struct hamiltonian_reader *r, const char *fmt, ...) {
    char why[200], line[32] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    if (r->line_number) snprintf(line, sizeof line, ", line %zu", r->line_number);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s%s, column %zu: %s", r->what, line,
                   (size_t)(r->at - r->line) + 1, why);
}

static char here(const struct hamiltonian_reader *r) { return r->at < r->end ? *r->at : '\0'; }
static bool is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool is_pauli(char ch) { return ch == 'I' || ch == 'X' || ch == 'Y' || ch == 'Z'; }
static bool begins_number(char ch) { return is_digit(ch) || ch == '.'; }

static void skip_blanks(struct hamiltonian_reader *r) {
    while (here(r) == ' ' || here(r) == '\t' || here(r) == '\r') r->at++;
}

/* Blanks, comments and ends of lines. */
static void skip_lines(struct hamiltonian_reader *r) {
    for (;;) {
        skip_blanks(r);
        if (here(r) == '#')
            while (r->at < r->end && *r->at != '\n') r->at++;
        if (here(r) != '\n') return;
        r->line = ++r->at;
        r->line_number++;
    }
}

static bool skip(struct hamiltonian_reader *r, char ch) {
    skip_blanks(r);
    if (here(r) != ch) return false;
    r->at++;
    return true;
}

/* ---- numbers ---- */

/* Decimal, its sign read before. */
static enum qr_code read_number(struct hamiltonian_reader *r, double *ret) {
    const char *from = r->at, *p = from;
    while (p < r->end && begins_number(*p)) p++;
    if (p < r->end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < r->end && (*p == '+' || *p == '-')) p++;
        while (p < r->end && is_digit(*p)) p++;
    }
    size_t n = (size_t)(p - from);
    if (!qr_parse_double_n(from, n, ret))
        return bad(r, "'%.*s' is not a finite decimal number", (int)(n > 40 ? 40 : n), from);
    r->at = p;
    return QR_OK;
}

static enum qr_code check_imaginary(struct hamiltonian_reader *r, double imaginary) {
    if (fabs(imaginary) <= imaginary_slack) return QR_OK;
    return bad(r, "the coefficient has the imaginary part %g, and an observable's is real",
               imaginary);
}

/* A number, or an imaginary one that is 0: "0j". */
static enum qr_code read_part(struct hamiltonian_reader *r, double *ret_real) {
    double v, sign = skip(r, '-') ? -1 : 1;
    skip(r, '+');
    skip_blanks(r);
    enum qr_code code = read_number(r, &v);
    if (code) return code;
    if (here(r) != 'j') {
        *ret_real += sign * v;
        return QR_OK;
    }
    r->at++;
    return check_imaginary(r, v);
}

/* "(0.5+0j)" or "(0.5)", behind its bracket. */
static enum qr_code read_complex(struct hamiltonian_reader *r, double *ret) {
    *ret = 0;
    enum qr_code code = read_part(r, ret);
    skip_blanks(r);
    if (!code && here(r) != ')') code = read_part(r, ret);
    if (!code && !skip(r, ')')) code = bad(r, "')' must end the coefficient");
    return code;
}

/* A bracket here holds a number, not Paulis. */
static bool is_complex(const struct hamiltonian_reader *r) {
    const char *p = r->at;
    if (p == r->end || *p++ != '(') return false;
    while (p < r->end && (*p == ' ' || *p == '-' || *p == '+')) p++;
    return p < r->end && begins_number(*p);
}

static enum qr_code read_coefficient(struct hamiltonian_reader *r, double *ret, bool *ret_is) {
    *ret = 1;
    *ret_is = true;
    if (begins_number(here(r))) {
        *ret = 0;
        return read_part(r, ret);
    }
    if (is_complex(r)) {
        r->at++;
        return read_complex(r, ret);
    }
    *ret_is = false;
    return QR_OK;
}

/* ---- Paulis ---- */

const char *qr_term_add_pauli(struct qr_pauli_term *term, char pauli, uint64_t qubit, unsigned n_qubits,
                        char why[96]) {
    enum { ROOM = 96 };
    if (pauli == 'I') return NULL;
    if (qubit >= n_qubits) {
        snprintf(why, ROOM, "qubit %llu is out of range, the circuit has qubits 0 to %u",
                 (unsigned long long)qubit, n_qubits - 1);
        return why;
    }
    unsigned q = (unsigned)qubit;
    if (qr_qubits_has(&term->x, q) || qr_qubits_has(&term->z, q)) {
        snprintf(why, ROOM, "qubit %u stands twice in one term", q);
        return why;
    }
    if (pauli != 'Z') qr_qubits_add(&term->x, q);
    if (pauli != 'X') qr_qubits_add(&term->z, q);
    return NULL;
}

/* Behind its "(": what qubits the identity is on says nothing. */
static enum qr_code skip_wires(struct hamiltonian_reader *r) {
    while (r->at < r->end && *r->at != ')' && *r->at != '\n') r->at++;
    return skip(r, ')') ? QR_OK : bad(r, "')' must end the qubits of I");
}

/* "X0" or "X(0)"; I may stand alone. */
static enum qr_code read_pauli(struct hamiltonian_reader *r, struct qr_pauli_term *term) {
    const char *from = r->at;
    char pauli = *r->at++, why[96];
    bool bracket = here(r) == '(', digits = false;
    uint64_t qubit = 0;
    if (bracket) r->at++;
    if (bracket && pauli == 'I') return skip_wires(r);
    for (; is_digit(here(r)); r->at++, digits = true)
        if (qubit < 1000000) qubit = 10 * qubit + (uint64_t)(*r->at - '0');
    if (!digits && is_pauli(here(r))) return bad(r, "each Pauli has its qubit: X0 Y1, not XY");
    if (!digits && pauli != 'I')
        return bad(r, "a qubit number must follow %c, as in %c0", pauli, pauli);
    if (bracket && !skip(r, ')')) return bad(r, "')' must follow the qubit");
    const char *wrong = qr_term_add_pauli(term, pauli, qubit, r->n_qubits, why);
    if (wrong) r->at = from;
    return wrong ? bad(r, "%s", wrong) : QR_OK;
}

/* Up to what is none, with @ or * between them or not. */
static enum qr_code read_paulis(struct hamiltonian_reader *r, struct qr_pauli_term *term,
                                bool *ret_any) {
    for (*ret_any = false;; *ret_any = true) {
        skip_blanks(r);
        bool joined = *ret_any && (here(r) == '@' || here(r) == '*');
        if (joined) r->at++;
        skip_blanks(r);
        if (!is_pauli(here(r)))
            return joined ? bad(r, "X, Y or Z with a qubit must stand here") : QR_OK;
        enum qr_code code = read_pauli(r, term);
        if (code) return code;
    }
}

/* The same, or in brackets, which may be empty: "[]" is the identity. */
static enum qr_code read_body(struct hamiltonian_reader *r, struct qr_pauli_term *term,
                              bool *ret_any) {
    char closing = here(r) == '[' ? ']' : here(r) == '(' ? ')' : '\0';
    if (closing) r->at++;
    enum qr_code code = read_paulis(r, term, ret_any);
    if (code || !closing) return code;
    *ret_any = true;
    return skip(r, closing) ? QR_OK
                            : bad(r, "X, Y, Z with a qubit, or '%c', must stand here", closing);
}

/* ---- sums ---- */

static enum qr_code read_term(struct hamiltonian_reader *r, struct qr_pauli_term *term) {
    *term = (struct qr_pauli_term){0};
    bool number, star = false, paulis = false;
    enum qr_code code = read_coefficient(r, &term->coefficient, &number);
    if (code) return code;
    if (number) star = skip(r, '*');
    skip_blanks(r);
    if ((code = read_body(r, term, &paulis))) return code;
    if (star && !paulis) return bad(r, "X, Y or Z with a qubit must follow '*'");
    return number || paulis ? QR_OK : bad(r, "a term like 0.5 Z0 Z1 must stand here");
}

static enum qr_code read_sum(struct hamiltonian_reader *r, struct qr_term_list *l) {
    for (bool apart = true;;) {
        skip_lines(r);
        bool minus = false, plus = skip(r, '+');
        if (plus) skip_lines(r);
        minus = skip(r, '-');
        if (plus || minus) skip_lines(r);
        if (r->at == r->end) return plus || minus ? bad(r, "a term must follow the sign") : QR_OK;
        if (!apart && !plus && !minus)
            return bad(r, "terms stand on lines of their own, or are joined by + or -");
        if (l->n == QR_MAX_HAMILTONIAN_TERMS)
            return bad(r, "more than %d terms", QR_MAX_HAMILTONIAN_TERMS);
        struct qr_pauli_term term;
        enum qr_code code = read_term(r, &term);
        if (code) return code;
        if (minus) term.coefficient = -term.coefficient;
        qr_term_list_add(l, &term);
        skip_blanks(r);
        apart = here(r) == '\n' || here(r) == '#';
    }
}

/* ---- terms that turn the same qubits stand together: an engine computes them at once ---- */

struct term_place {
    size_t index, first; /* of the term; of the first that turns the same qubits */
    const struct qr_qubits *x;
};

static int by_number(size_t a, size_t b) { return (a > b) - (a < b); }
static int by_x(const void *a, const void *b) {
    const struct term_place *p = a, *q = b;
    int order = memcmp(p->x, q->x, sizeof *p->x);
    return order ? order : by_number(p->index, q->index);
}
static int by_first(const void *a, const void *b) {
    const struct term_place *p = a, *q = b;
    int order = by_number(p->first, q->first);
    return order ? order : by_number(p->index, q->index);
}

/* Each behind the first that turns the same qubits, otherwise as they were read. */
static void group(struct qr_term_list *l) {
    struct term_place *at = qr_xcalloc(l->n + 1, sizeof *at);
    struct qr_pauli_term *grouped = qr_xcalloc(l->n + 1, sizeof *grouped);
    for (size_t i = 0; i < l->n; i++) at[i] = (struct term_place){.index = i, .x = &l->terms[i].x};
    qsort(at, l->n, sizeof *at, by_x);
    for (size_t i = 0; i < l->n; i++)
        at[i].first = i && qr_qubits_equal(at[i].x, at[i - 1].x) ? at[i - 1].first : at[i].index;
    qsort(at, l->n, sizeof *at, by_first);
    for (size_t i = 0; i < l->n; i++) grouped[i] = l->terms[at[i].index];
    free(at);
    free(l->terms);
    l->terms = grouped;
}

enum qr_code qr_hamiltonian_of(struct qr_term_list *l, const char *what, struct qr_observable *ret,
                               struct qr_err *err) {
    group(l);
    const char *wrong = qr_observable_of_terms(l, true, ret);
    free(l->terms);
    return wrong ? qr_fail(err, QR_INVALID_ARGUMENT, "%s: %s", what, wrong) : QR_OK;
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
    skip_blanks(&r);
    enum qr_code code = read_body(&r, ret, &any);
    skip_blanks(&r);
    if (code || r.at == r.end) return code;
    return bad(&r, "'%.20s' is no Pauli with its qubit, as in \"Z0 Z1\"", r.at);
}

static enum qr_code read_json(struct qr_bytes text, const char *what, unsigned n_qubits,
                              struct qr_observable *ret, struct qr_err *err) {
    struct qr_json *tree = NULL;
    enum qr_code code = qr_json_parse(text, what, &tree, err);
    if (!code) code = qr_hamiltonian_from_json(tree, what, n_qubits, ret, err);
    qr_json_free(tree);
    return code;
}

enum qr_code qr_hamiltonian_read(struct qr_bytes text, const char *what, unsigned n_qubits,
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
    skip_lines(&r);
    if (here(&r) == '[' || here(&r) == '{') return read_json(text, what, n_qubits, ret, err);
    if ((size_t)(r.end - r.at) >= sizeof header - 1 && memcmp(r.at, header, sizeof header - 1) == 0)
        r.at += sizeof header - 1;
    enum qr_code code = read_sum(&r, &l);
    if (!code) return qr_hamiltonian_of(&l, what, ret, err);
    free(l.terms);
    return code;
}
