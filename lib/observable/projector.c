/* observable/projector.c — projectors as sums of products of Z. Start reading at qr_projector(). */
#include "observable/projector.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"

struct qr_observable qr_projector(const uint16_t *qubits, unsigned n, uint64_t bits) {
    struct qr_observable o = {.n_terms = (size_t)1 << n};
    struct qr_buf text = {0};
    o.terms = qr_xcalloc(o.n_terms, sizeof *o.terms);
    for (uint64_t set = 0; set < o.n_terms; set++) {
        struct qr_pauli_term *t = &o.terms[set];
        t->coefficient = ldexp(__builtin_parityll(set & bits) ? -1 : 1, -(int)n);
        for (unsigned i = 0; i < n; i++)
            if (set >> (n - 1 - i) & 1) qr_qubits_add(&t->z, qubits[i]);
    }
    qr_buf_puts(&text, "projector ");
    for (unsigned i = 0; i < n; i++) qr_buf_puts(&text, bits >> (n - 1 - i) & 1 ? "1" : "0");
    qr_buf_puts(&text, " on");
    for (unsigned i = 0; i < n; i++) qr_buf_printf(&text, " %u", qubits[i]);
    o.text = qr_xstrdup(qr_buf_string(&text));
    qr_buf_free(&text);
    return o;
}

enum qr_code qr_projector_qubits(const struct qr_json *v, const char *where, unsigned n_qubits,
                                 uint16_t ret[QR_PROJECTOR_QUBITS], unsigned *ret_n,
                                 struct qr_err *err) {
    struct qr_qubits seen = {{0}};
    unsigned n = 0;
    if (v) QR_TRY(qr_json_want(v, where, QR_JSON_ARRAY, err));
    size_t all = v ? qr_json_size(v) : n_qubits;
    if (all < 1 || all > QR_PROJECTOR_QUBITS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s: %zu qubits; give 1 to %d", where, all,
                       (int)QR_PROJECTOR_QUBITS);
    for (; !v && n < n_qubits; n++) ret[n] = (uint16_t)n;
    for (const struct qr_json *m = qr_json_first(v); m; m = qr_json_next(m), n++) {
        int64_t q;
        QR_TRY(qr_json_i64(m, qr_path_of("%s[%u]", where, n).s, 0, (int64_t)n_qubits - 1, &q, err));
        if (qr_qubits_has(&seen, (unsigned)q))
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s: qubit %lld is given twice", where,
                           (long long)q);
        qr_qubits_add(&seen, (unsigned)q);
        ret[n] = (uint16_t)q;
    }
    *ret_n = n;
    return QR_OK;
}

enum qr_code qr_projector_from_json(const struct qr_json *v, const char *where, unsigned n_qubits,
                                    struct qr_observable *ret, struct qr_err *err) {
    static const char *const known[] = {"projector", "qubits"};
    struct qr_path path = qr_path_of("%s.projector", where),
                   qubits_path = qr_path_of("%s.qubits", where);
    uint16_t qubits[QR_PROJECTOR_QUBITS];
    unsigned n = 0;
    const char *state;
    uint64_t bits = 0;
    QR_TRY(qr_json_known(v, where, known, 2, err));
    QR_TRY(qr_json_string(qr_json_get(v, "projector"), path.s, &state, err));
    QR_TRY(qr_projector_qubits(qr_json_get(v, "qubits"), qubits_path.s, n_qubits, qubits, &n, err));
    if (strlen(state) != n || strspn(state, "01") != n)
        return qr_fail(err, QR_INVALID_ARGUMENT, "%s must have %u digits 0 or 1, one per qubit",
                       path.s, n);
    for (unsigned i = 0; i < n; i++) bits = bits << 1 | (state[i] == '1');
    *ret = qr_projector(qubits, n, bits);
    return QR_OK;
}
