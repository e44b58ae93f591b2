/* observable/hamiltonian_json.c — Hamiltonians as JSON, in the forms of hamiltonian.h. Start
 * reading at qr_hamiltonian_from_json(). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "observable/hamiltonian_impl.h"

struct collector {
    const char *where;
    unsigned n_qubits;
    struct qr_err *err;
    struct qr_term_list l;
};

static enum qr_code collector_add_term(struct collector *c, struct qr_pauli_term *term,
                                       const struct qr_json *coefficient, const char *where) {
    if (c->l.n == QR_MAX_HAMILTONIAN_TERMS)
        return qr_fail(c->err, QR_INVALID_ARGUMENT, "%s: more than %d terms", c->where,
                       QR_MAX_HAMILTONIAN_TERMS);
    QR_TRY(qr_json_double(coefficient, where, -1e300, 1e300, &term->coefficient, c->err));
    qr_term_list_add(&c->l, term);
    return QR_OK;
}

static enum qr_code collector_read_text(struct collector *c, const struct qr_json *v,
                                        const char *where, struct qr_pauli_term *ret) {
    const char *words;
    QR_TRY(qr_json_string(v, where, &words, c->err));
    return qr_hamiltonian_parse_paulis(words, where, c->n_qubits, ret, c->err);
}

/* OpenFermion's form: [[0, "X"], [1, "Y"]]. */
static enum qr_code collector_read_factors(struct collector *c, const struct qr_json *list,
                                           const char *where, struct qr_pauli_term *ret) {
    *ret = (struct qr_pauli_term){0};
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        const char *pauli = "";
        char why[96];
        int64_t qubit = 0;
        const struct qr_json *first = qr_json_first(v);
        bool pair = qr_json_type(v) == QR_JSON_ARRAY && qr_json_size(v) == 2;
        enum qr_code code = QR_OK;
        if (pair) code = qr_json_i64(first, where, 0, INT32_MAX, &qubit, c->err);
        if (pair && !code) code = qr_json_string(qr_json_next(first), where, &pauli, c->err);
        if (code) return code;
        if (!pair || strlen(pauli) != 1 || !strchr("IXYZ", *pauli))
            return qr_fail(c->err, QR_INVALID_ARGUMENT,
                           "%s: a factor must be a qubit and its Pauli, as in [0, \"X\"]", where);
        const char *wrong = qr_term_add_pauli(ret, *pauli, (uint64_t)qubit, c->n_qubits, why);
        if (wrong) return qr_fail(c->err, QR_INVALID_ARGUMENT, "%s: %s", where, wrong);
    }
    return QR_OK;
}

static enum qr_code collector_read_pairs(struct collector *c, const struct qr_json *list) {
    size_t i = 0;
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        struct qr_path path = qr_path_of("%s[%zu]", c->where, i++);
        struct qr_pauli_term term;
        if (qr_json_type(v) != QR_JSON_ARRAY || qr_json_size(v) != 2)
            return qr_fail(c->err, QR_INVALID_ARGUMENT,
                           "%s: a term must be Paulis and a coefficient, as in [\"Z0 Z1\", 0.5]",
                           path.s);
        const struct qr_json *words = qr_json_first(v);
        QR_TRY(qr_json_type(words) == QR_JSON_ARRAY
                   ? collector_read_factors(c, words, path.s, &term)
                   : collector_read_text(c, words, path.s, &term));
        QR_TRY(collector_add_term(c, &term, qr_json_next(words), path.s));
    }
    return QR_OK;
}

static enum qr_code collector_read_members(struct collector *c, const struct qr_json *object) {
    for (const struct qr_json *v = qr_json_first(object); v; v = qr_json_next(v)) {
        struct qr_path path = qr_path_of("%s.%s", c->where, qr_json_key(v));
        struct qr_pauli_term term;
        QR_TRY(qr_hamiltonian_parse_paulis(qr_json_key(v), path.s, c->n_qubits, &term, c->err));
        QR_TRY(collector_add_term(c, &term, v, path.s));
    }
    return QR_OK;
}

static enum qr_code collector_read_lists(struct collector *c, const struct qr_json *ops,
                                         const struct qr_json *coeffs) {
    struct qr_path path = qr_path_of("%s.coeffs", c->where);
    size_t i = 0;
    QR_TRY(qr_json_want(coeffs, path.s, QR_JSON_ARRAY, c->err));
    path = qr_path_of("%s.ops", c->where);
    QR_TRY(qr_json_want(ops, path.s, QR_JSON_ARRAY, c->err));
    if (qr_json_size(ops) != qr_json_size(coeffs))
        return qr_fail(c->err, QR_INVALID_ARGUMENT,
                       "%s: %zu ops but %zu coeffs; give one coefficient for each op", c->where,
                       qr_json_size(ops), qr_json_size(coeffs));
    const struct qr_json *number = qr_json_first(coeffs);
    for (const struct qr_json *v = qr_json_first(ops); v; v = qr_json_next(v)) {
        struct qr_pauli_term term;
        path = qr_path_of("%s.ops[%zu]", c->where, i);
        QR_TRY(collector_read_text(c, v, path.s, &term));
        path = qr_path_of("%s.coeffs[%zu]", c->where, i++);
        QR_TRY(collector_add_term(c, &term, number, path.s));
        number = qr_json_next(number);
    }
    return QR_OK;
}

enum qr_code qr_hamiltonian_from_json(const struct qr_json *v, const char *where, unsigned n_qubits,
                                      struct qr_observable *ret, struct qr_err *err) {
    struct collector c = {.where = where, .n_qubits = n_qubits, .err = err};
    const struct qr_json *ops = qr_json_get(v, "ops"), *coeffs = qr_json_get(v, "coeffs");
    enum qr_code code;
    if (qr_json_type(v) == QR_JSON_ARRAY) code = collector_read_pairs(&c, v);
    else if (qr_json_type(v) != QR_JSON_OBJECT)
        code = qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s is %s; it must be terms, as in [[\"Z0 Z1\", 0.5], [\"X0\", -1]]", where,
                       qr_json_type_name(v));
    else
        code =
            ops || coeffs ? collector_read_lists(&c, ops, coeffs) : collector_read_members(&c, v);
    if (!code) return qr_hamiltonian_of(&c.l, where, ret, err);
    free(c.l.terms);
    return code;
}

static enum qr_code hamiltonian_read_json(struct qr_bytes text, const char *what, unsigned n_qubits,
                                          struct qr_observable *ret, struct qr_err *err) {
    qr_auto(qr_json_free_p) struct qr_json *tree = NULL;
    QR_TRY(qr_json_parse(text, what, &tree, err));
    return qr_hamiltonian_from_json(tree, what, n_qubits, ret, err);
}

enum qr_code qr_hamiltonian_read(struct qr_bytes text, const char *what, unsigned n_qubits,
                                 struct qr_observable *ret, struct qr_err *err) {
    size_t at = 0;
    while (at < text.n && text.p[at] && strchr(" \t\r\n", text.p[at])) at++;
    if (at < text.n && (text.p[at] == '[' || text.p[at] == '{'))
        return hamiltonian_read_json(text, what, n_qubits, ret, err);
    return qr_hamiltonian_read_text(text, what, n_qubits, ret, err);
}
