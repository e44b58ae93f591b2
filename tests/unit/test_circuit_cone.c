/* Light cones: against a walk over every gate, against whole matrices, and by hand. */
#include <math.h>

#include "base/mem.h"
#include "circuit/cone.h"
#include "circuit/qcnn.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

enum { ALL = QR_PAULI_X | QR_PAULI_Y | QR_PAULI_Z };

static uint8_t factor_on(const struct qr_gate *g, unsigned q) {
    for (unsigned k = 0; k < g->n_targets; k++)
        if (g->targets[k] == q) return qr_gate_info(g->kind)->factor[k];
    return qr_qubits_has(&g->controls, q) ? QR_PAULI_Z : ALL + 1;
}

/* Checks every gate and every qubit, whether the walk has reached it or not. */
static size_t plain_walk(const struct qr_circuit *c, const struct qr_pauli_term *term,
                         bool *ret_in) {
    uint8_t known[QR_MAX_QUBITS];
    size_t n = 0;
    for (unsigned q = 0; q < c->n_qubits; q++) {
        bool x = qr_qubits_has(&term->x, q), z = qr_qubits_has(&term->z, q);
        known[q] = x && z ? QR_PAULI_Y : x ? QR_PAULI_X : z ? QR_PAULI_Z : ALL;
    }
    for (size_t i = c->n_gates; i-- > 0;) {
        bool passes = true;
        for (unsigned q = 0; q < c->n_qubits; q++) {
            uint8_t factor = factor_on(&c->gates[i], q);
            if (factor <= ALL)
                passes = passes && (factor ? (known[q] & factor) == factor : known[q] == ALL);
        }
        ret_in[i] = !passes && !qr_gate_info(c->gates[i].kind)->identity;
        for (unsigned q = 0; q < c->n_qubits && ret_in[i]; q++) {
            uint8_t factor = factor_on(&c->gates[i], q);
            if (factor <= ALL) known[q] &= factor;
        }
        n += ret_in[i];
    }
    return n;
}

/* One finder for all terms, and each term twice: no state is left from the walk before. */
static void against_plain_walk(void) {
    size_t n_in = 0, n_out = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        unsigned n = 2 + (unsigned)(seed % 9);
        struct qr_circuit *c = ref_random_circuit(seed + 900, n, 1 + (unsigned)(seed % 60));
        struct qr_cone_finder *f = qr_cone_finder_new(c);
        struct qr_observable o = ref_random_observable(seed, n);
        for (size_t t = 0; t < 2 * o.n_terms; t++) {
            uint32_t cone[64];
            bool in[64];
            size_t n_found = qr_cone_find(f, &o.terms[t / 2], cone),
                   n_want = plain_walk(c, &o.terms[t / 2], in), k = 0;
            for (size_t i = 0; i < c->n_gates; i++)
                if (in[i]) k += k < n_found && cone[k] == i;
            CHECK(n_found == n_want && k == n_want, "seed %d, term %zu: %zu gates, not %zu",
                  (int)seed, t, n_found, n_want);
            n_in += n_found;
            n_out += c->n_gates - n_found;
        }
        qr_observable_fini(&o);
        qr_cone_finder_free(f);
        qr_circuit_free(c);
    }
    CHECK(n_in > 1000 && n_out > 1000, "%zu in, %zu out: too few gates of one kind", n_in, n_out);
}

/* The cone alone gives the whole circuit's expectation value: at most 40 gates on 5 qubits, 4 terms
 * an amplitude, 2^-53 each: under 1e-13. */
static void against_matrices(void) {
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct qr_circuit *c = ref_random_circuit(seed + 70, 5, 40), part = *c;
        struct qr_observable o = ref_random_observable(seed % 3, 5);
        double theta[128], x[5], whole, cut;
        ref_random_numbers(seed, 128, 0, 6, theta);
        ref_random_numbers(seed + 50, 5, -3, 3, x);
        struct qr_cone_finder *f = qr_cone_finder_new(c);
        o.n_terms = 1;
        uint32_t cone[40];
        part.n_gates = qr_cone_find(f, &o.terms[0], cone);
        part.gates = qr_xcalloc(c->n_gates, sizeof *part.gates);
        for (size_t i = 0; i < part.n_gates; i++) part.gates[i] = c->gates[cone[i]];
        ref_expectation(c, theta, x, &o, 1, &whole);
        ref_expectation(&part, theta, x, &o, 1, &cut);
        CHECK(fabs(whole - cut) < 1e-13, "seed %d: %g and %g", (int)seed, whole, cut);
        free(part.gates);
        qr_observable_fini(&o);
        qr_cone_finder_free(f);
        qr_circuit_free(c);
    }
}

/* 1024 qubits: read-outs of pooled qubits in every word, and a term across words. */
static void wide(void) {
    struct qr_circuit *c = NULL;
    const struct qr_qcnn_options opt = {1024, 1, QR_QCNN_NOTEBOOK};
    CHECK(qr_qcnn_new(&opt, &c, NULL, QR_IGNORED) == QR_OK);
    struct qr_cone_finder *f = qr_cone_finder_new(c);
    uint32_t *cone = qr_xcalloc(c->n_gates, sizeof *cone);
    bool *in = qr_xcalloc(c->n_gates, sizeof *in);
    static const char *const terms[] = {"Z1023", "Z600", "X3 Y63 Z64 Y900"};
    for (size_t r = 0; r < COUNT(terms); r++) {
        struct qr_observable o;
        CHECK(qr_observable_parse(terms[r], 1024, &o, QR_IGNORED) == QR_OK);
        size_t n = qr_cone_find(f, &o.terms[0], cone), k = 0;
        CHECK(n == plain_walk(c, &o.terms[0], in) && n > 50 && n < 1000, "%s: %zu gates", terms[r],
              n);
        while (k < n && in[cone[k]] && (k == 0 || cone[k - 1] < cone[k])) k++;
        CHECK(k == n, "%s: gate %u at %zu", terms[r], cone[k], k);
        qr_observable_fini(&o);
    }
    free(in);
    free(cone);
    qr_cone_finder_free(f);
    qr_circuit_free(c);
}

int main(void) {
    wide();
    against_plain_walk();
    against_matrices();
    return t_end();
}
