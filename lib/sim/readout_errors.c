/* sim/readout_errors.c — observables with read-out errors. Start reading at
 * qr_readouts_with_errors(). */
#include "sim/readout_errors.h"

#include <string.h>

#include "base/mem.h"

/* Adds a term, or its coefficient to an equal one. */
static bool add_term(struct qr_observable *o, size_t *cap, const struct qr_pauli_term *t) {
    for (size_t i = 0; i < o->n_terms; i++)
        if (qr_qubits_equal(&o->terms[i].x, &t->x) && qr_qubits_equal(&o->terms[i].z, &t->z)) {
            o->terms[i].coefficient += t->coefficient;
            return true;
        }
    if (o->n_terms == QR_READOUT_TERMS) return false;
    if (o->n_terms == *cap) {
        *cap = *cap ? 2 * *cap : 8;
        o->terms = qr_xreallocarray(o->terms, *cap, sizeof *o->terms);
    }
    o->terms[o->n_terms++] = *t;
    return true;
}

/* Multiplies the term's Paulis from qubit q on by their errors. */
static bool add_with_errors(struct qr_observable *o, size_t *cap, struct qr_pauli_term t,
                            unsigned q, const double (*errors)[2]) {
    const struct qr_qubits on = qr_pauli_qubits(&t);
    if (!qr_qubits_has(&on, q)) q = qr_qubits_next(&on, q);
    for (; q < QR_MAX_QUBITS; q = qr_qubits_next(&on, q)) {
        double shift = errors[q][1] - errors[q][0];
        if (shift != 0) {
            struct qr_pauli_term without = t;
            without.coefficient *= shift;
            qr_qubits_remove(&without.x, q);
            qr_qubits_remove(&without.z, q);
            if (!add_with_errors(o, cap, without, q, errors)) return false;
        }
        t.coefficient *= 1 - errors[q][0] - errors[q][1];
    }
    return add_term(o, cap, &t);
}

enum qr_code qr_readouts_with_errors(const struct qr_observable *obs, size_t n_obs,
                                     const double (*errors)[2], struct qr_observable **ret,
                                     struct qr_err *err) {
    struct qr_observable *all = qr_xcalloc(n_obs + 1, sizeof *all);
    for (size_t r = 0; r < n_obs; r++) {
        size_t cap = 0;
        all[r].text = qr_xstrdup(obs[r].text);
        for (size_t t = 0; t < obs[r].n_terms; t++) {
            if (add_with_errors(&all[r], &cap, obs[r].terms[t], 0, errors)) continue;
            qr_readouts_free(all, n_obs);
            return qr_fail(err, QR_RESOURCE_EXHAUSTED,
                           "cannot read %.40s with errors: more than %d terms; use equal p_01 and "
                           "p_10, or observables on fewer qubits",
                           obs[r].text, (int)QR_READOUT_TERMS);
        }
    }
    *ret = all;
    return QR_OK;
}

void qr_readouts_free(struct qr_observable *obs, size_t n_obs) {
    for (size_t r = 0; obs && r < n_obs; r++) qr_observable_fini(&obs[r]);
    free(obs);
}
