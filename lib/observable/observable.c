/* observable/observable.c — parses sums of Pauli products and prints their canonical text. Start
 * reading at qr_observable_parse(). */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "base/parse.h"
#include "observable/observable_impl.h"

enum { MAX_TERMS = 4096 };

struct observable_reader {
    const char *text, *at;
    unsigned n_qubits;
    struct qr_err *err;
};

static enum qr_code observable_fail(struct observable_reader *r, const char *fmt, ...)
    QR_PRINTF(2, 3);
static enum qr_code observable_fail(struct observable_reader *r, const char *fmt, ...) {
    char why[160];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return qr_fail(r->err, QR_INVALID_ARGUMENT, "observable \"%.100s\", column %zu: %s", r->text,
                   (size_t)(r->at - r->text) + 1, why);
}

static void observable_skip_blanks(struct observable_reader *r) {
    while (*r->at == ' ' || *r->at == '\t') r->at++;
}
static bool observable_is_digit(char ch) { return ch >= '0' && ch <= '9'; }
static bool observable_is_pauli(char ch) { return ch == 'X' || ch == 'Y' || ch == 'Z'; }

/* Reads an unsigned decimal number if there is one; else sets *ret_is to false and reads
 * nothing. */
static enum qr_code observable_read_number(struct observable_reader *r, double *ret, bool *ret_is) {
    const char *p = r->at;
    *ret_is = observable_is_digit(*p) || *p == '.';
    if (!*ret_is) return QR_OK;
    while (observable_is_digit(*p) || *p == '.') p++;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-') p++;
        while (observable_is_digit(*p)) p++;
    }
    if (!qr_parse_double_n(r->at, (size_t)(p - r->at), ret))
        return observable_fail(r, "'%.*s' is not a finite decimal number",
                               (int)(p - r->at > 40 ? 40 : p - r->at), r->at);
    r->at = p;
    return QR_OK;
}

static enum qr_code observable_read_pauli(struct observable_reader *r, struct qr_pauli_term *term) {
    char pauli = *r->at;
    const char *p = r->at + 1;
    if (!observable_is_digit(*p)) {
        r->at = p;
        return observable_fail(r, "expected a qubit number after %c, as in %c0%s", pauli, pauli,
                               *p == '(' ? ", without parentheses" : "");
    }
    unsigned q = 0;
    while (observable_is_digit(*p)) {
        if (q < 1000000) q = 10 * q + (unsigned)(*p - '0');
        p++;
    }
    if (q >= r->n_qubits)
        return observable_fail(r, "qubit %u is out of range, the circuit has qubits 0 to %u", q,
                               r->n_qubits - 1);
    if (qr_qubits_has(&term->x, q) || qr_qubits_has(&term->z, q))
        return observable_fail(r, "qubit %u appears twice in one term", q);
    if (pauli != 'Z') qr_qubits_add(&term->x, q);
    if (pauli != 'X') qr_qubits_add(&term->z, q);
    r->at = p;
    return QR_OK;
}

/* term = [number] {["*"] Pauli}, with at least one of the two. */
static enum qr_code observable_read_term(struct observable_reader *r, struct qr_pauli_term *term) {
    *term = (struct qr_pauli_term){.coefficient = 1};
    bool any;
    enum qr_code code = observable_read_number(r, &term->coefficient, &any);
    if (code) return code;
    if (any && (*r->at == 'i' || *r->at == 'j'))
        return observable_fail(r, "coefficients must be real; this one is imaginary");
    for (;;) {
        observable_skip_blanks(r);
        bool star = *r->at == '*' && any;
        if (star) {
            r->at++;
            observable_skip_blanks(r);
        }
        if (*r->at == '@' && any)
            return observable_fail(r, "write the Paulis of a term side by side, without @: Z0 Z1");
        if (!observable_is_pauli(*r->at)) {
            if (star) return observable_fail(r, "expected X, Y or Z with a qubit number after '*'");
            break;
        }
        if ((code = observable_read_pauli(r, term))) return code;
        any = true;
    }
    return any ? QR_OK : observable_fail(r, "expected a term like Z4 or 0.5*X0 Z1");
}

/* ---- terms ---- */

void qr_term_list_add(struct qr_term_list *l, const struct qr_pauli_term *term) {
    if ((l->n & (l->n - 1)) == 0)
        l->terms = qr_xreallocarray(l->terms, l->n ? 2 * l->n : 1, sizeof *l->terms);
    l->terms[l->n++] = *term;
}

static uint64_t term_hash(const struct qr_pauli_term *t) {
    const struct qr_qubits *sets[2] = {&t->x, &t->z};
    uint64_t h = 0;
    for (unsigned i = 0; i < 2 * QR_QUBITS_WORDS; i++) {
        h = (h ^ sets[i / QR_QUBITS_WORDS]->word[i % QR_QUBITS_WORDS]) *
            UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio: Fibonacci hashing */
        h ^= h >> 29;
    }
    return h;
}

static bool terms_are_alike(const struct qr_pauli_term *a, const struct qr_pauli_term *b) {
    return qr_qubits_equal(&a->z, &b->z) && qr_qubits_equal(&a->x, &b->x);
}

/* Adds like terms into the first of them. */
static void merge_like_terms(struct qr_term_list *l) {
    struct qr_pauli_term *t = l->terms;
    size_t slots = 16, kept = 0;
    while (slots < 2 * l->n) slots *= 2;
    uint32_t *table = qr_xcalloc(slots, sizeof *table); /* index of a term + 1; 0: empty */
    for (size_t i = 0; i < l->n; i++) {
        size_t s = term_hash(&t[i]) & (slots - 1);
        while (table[s] && !terms_are_alike(&t[table[s] - 1], &t[i])) s = (s + 1) & (slots - 1);
        if (table[s]) {
            t[table[s] - 1].coefficient += t[i].coefficient;
        } else {
            t[kept++] = t[i];
            table[s] = (uint32_t)kept;
        }
    }
    free(table);
    l->n = kept;
}

/* Reads + or -, which must be next. */
static double observable_read_sign(struct observable_reader *r) {
    double sign = *r->at == '-' ? -1 : 1;
    r->at++;
    return sign;
}

/* True for the sign of a coefficient after + or -, as in "+ -1*Z0", which programs print. */
static bool is_signed_term(const char *p) {
    return (*p == '+' || *p == '-') &&
           (observable_is_digit(p[1]) || p[1] == '.' || observable_is_pauli(p[1]));
}

static enum qr_code observable_read_sum(struct observable_reader *r, struct qr_term_list *l) {
    for (size_t i = 0;; i++) {
        observable_skip_blanks(r);
        double sign = 1;
        if (*r->at == '+' || *r->at == '-') {
            sign = observable_read_sign(r);
            observable_skip_blanks(r);
            if (is_signed_term(r->at)) sign *= observable_read_sign(r);
        } else if (i > 0) {
            if (!*r->at) return QR_OK;
            return observable_fail(r, "unexpected '%.10s'; join terms with + or -", r->at);
        }
        if (i == MAX_TERMS) return observable_fail(r, "more than %d terms", MAX_TERMS);
        struct qr_pauli_term term;
        QR_TRY(observable_read_term(r, &term));
        term.coefficient *= sign;
        qr_term_list_add(l, &term);
    }
}

static char *observable_canonical_text(const struct qr_observable *o) {
    struct qr_buf text = {0};
    for (size_t i = 0; i < o->n_terms; i++) {
        const struct qr_pauli_term *t = &o->terms[i];
        double size = fabs(t->coefficient);
        if (i > 0) qr_buf_puts(&text, t->coefficient < 0 ? " - " : " + ");
        else if (t->coefficient < 0) qr_buf_puts(&text, "-");
        const struct qr_qubits on = qr_pauli_qubits(t);
        unsigned q = qr_qubits_first(&on), next;
        if (size != 1 || q == QR_MAX_QUBITS) {
            char number[32];
            qr_number_text(size, number);
            qr_buf_printf(&text, "%s%s", number, q < QR_MAX_QUBITS ? "*" : "");
        }
        for (; q < QR_MAX_QUBITS; q = next) {
            next = qr_qubits_next(&on, q);
            qr_buf_printf(&text, "%c%u%s", qr_pauli_letter(t, q), q,
                          next < QR_MAX_QUBITS ? " " : "");
        }
    }
    return (char *)QR_MOVE(text.p);
}

const char *qr_observable_of_terms(struct qr_term_list *l, struct qr_observable *ret) {
    const char *wrong = NULL;
    size_t kept = 0;
    merge_like_terms(l);
    for (size_t i = 0; i < l->n && !wrong; i++) {
        if (!isfinite(l->terms[i].coefficient)) wrong = "a coefficient is too large";
        if (l->terms[i].coefficient != 0) l->terms[kept++] = l->terms[i];
    }
    if (!wrong && kept == 0) wrong = "the sum is zero; there is nothing to measure";
    if (wrong) return wrong;
    struct qr_observable o = {.n_terms = kept, .terms = l->terms};
    o.text = observable_canonical_text(&o);
    *l = (struct qr_term_list){0};
    *ret = o;
    return NULL;
}

enum qr_code qr_observable_parse(const char *text, unsigned n_qubits, struct qr_observable *ret,
                                 struct qr_err *err) {
    struct qr_term_list l = {0};
    struct observable_reader r = {text, text, n_qubits, err};
    enum qr_code code = observable_read_sum(&r, &l);
    const char *wrong = code ? NULL : qr_observable_of_terms(&l, ret);
    r.at = wrong ? text : r.at;
    if (wrong) code = observable_fail(&r, "%s", wrong);
    free(l.terms);
    return code;
}

void qr_observable_fini(struct qr_observable *o) {
    free(o->terms);
    free(o->text);
    *o = (struct qr_observable){0};
}
