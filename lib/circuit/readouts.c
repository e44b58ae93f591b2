/* circuit/readouts.c — bounds of observables and constant read-outs. Start reading at
 * qr_readout_bounds() and qr_readouts_constant(). */
#include "circuit/readouts.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/cone.h"
#include "circuit/defer.h"
#include "exact/eigen.h"

/* ---- bounds ---- */

/* One basis: a value for each of 2^n states, while this costs about as much as reading the terms;
 * always for a few states. Otherwise a matrix of 2^n rows: each eigenvalue appears twice in a real
 * matrix of twice the size. */
enum { ONE_BASIS = 16, ALWAYS = 6, STATES_A_TERM = 64, MATRIX = 4 };

struct bounds {
    double low, high;
};

static void bounds_include(struct bounds *b, double value) {
    if (value < b->low) b->low = value;
    if (value > b->high) b->high = value;
}

/* Counts the qubits of the observable; ret_at gets the first `most` of them. */
static unsigned observable_support(const struct qr_observable *o, unsigned most, unsigned *ret_at) {
    struct qr_qubits all = {0};
    unsigned n = 0;
    for (size_t t = 0; t < o->n_terms; t++) {
        qr_qubits_add_all(&all, &o->terms[t].x);
        qr_qubits_add_all(&all, &o->terms[t].z);
    }
    for (unsigned q = qr_qubits_first(&all); q < QR_MAX_QUBITS; q = qr_qubits_next(&all, q), n++)
        if (n < most) ret_at[n] = q;
    return n;
}

/* Whether each qubit has the same Pauli in all terms: one measurement reads all of them. */
static bool is_of_one_basis(const struct qr_observable *o) {
    struct qr_qubits x = {0}, z = {0};
    for (size_t t = 0; t < o->n_terms; t++) {
        qr_qubits_add_all(&x, &o->terms[t].x);
        qr_qubits_add_all(&z, &o->terms[t].z);
    }
    for (size_t t = 0; t < o->n_terms; t++)
        for (unsigned w = 0; w < QR_QUBITS_WORDS; w++) {
            uint64_t tx = o->terms[t].x.word[w], tz = o->terms[t].z.word[w], on = tx | tz;
            if ((on & x.word[w]) != tx || (on & z.word[w]) != tz) return false;
        }
    return true;
}

static unsigned pack_mask(const struct qr_qubits *s, const unsigned *at, unsigned n) {
    unsigned mask = 0;
    for (unsigned k = 0; k < n; k++) mask |= (unsigned)qr_qubits_has(s, at[k]) << k;
    return mask;
}

/* The values of all states of the basis, by the Walsh-Hadamard transform. */
static struct bounds bounds_in_one_basis(const struct qr_observable *o, const unsigned *at,
                                         unsigned n) {
    size_t size = (size_t)1 << n;
    double *v = qr_xcalloc(size, sizeof *v);
    for (size_t t = 0; t < o->n_terms; t++) {
        unsigned x = pack_mask(&o->terms[t].x, at, n), z = pack_mask(&o->terms[t].z, at, n);
        v[x | z] += o->terms[t].coefficient;
    }
    for (size_t half = 1; half < size; half *= 2)
        for (size_t i = 0; i < size; i += 2 * half)
            for (size_t k = i; k < i + half; k++) {
                double a = v[k], b = v[k + half];
                v[k] = a + b;
                v[k + half] = a - b;
            }
    struct bounds b = {v[0], v[0]};
    for (size_t i = 1; i < size; i++) bounds_include(&b, v[i]);
    free(v);
    return b;
}

/* Real and imaginary parts as one symmetric matrix, [[A, -B], [B, A]]. */
static void fill_matrix(const struct qr_observable *o, const unsigned *at, unsigned n, double *m) {
    unsigned size = 1u << n, row = 2 * size;
    for (size_t t = 0; t < o->n_terms; t++) {
        unsigned x = pack_mask(&o->terms[t].x, at, n), z = pack_mask(&o->terms[t].z, at, n);
        unsigned i_power = (unsigned)__builtin_popcount(x & z);
        for (unsigned b = 0; b < size; b++) {
            bool minus = (i_power & 2) != 0;
            if (__builtin_popcount(z & b) & 1) minus = !minus;
            double c = minus ? -o->terms[t].coefficient : o->terms[t].coefficient;
            unsigned to = b ^ x;
            if (i_power & 1) {
                m[(to + size) * row + b] += c;
                m[to * row + b + size] -= c;
            } else {
                m[to * row + b] += c;
                m[(to + size) * row + b + size] += c;
            }
        }
    }
}

static struct bounds bounds_by_matrix(const struct qr_observable *o, const unsigned *at,
                                      unsigned n) {
    size_t size = (size_t)2 << n;
    double *m = qr_xcalloc(size * size, sizeof *m), most = 0;
    fill_matrix(o, at, n, m);
    for (size_t i = 0; i < size * size; i++) most = fabs(m[i]) > most ? fabs(m[i]) : most;
    /* Scale to at most 1, so that qr_eigen can add the squares. */
    for (size_t i = 0; i < size * size && most > 0; i++) m[i] /= most;
    qr_eigen(size, m, NULL);
    struct bounds b = {m[0], m[0]};
    for (size_t i = 1; i < size; i++) bounds_include(&b, m[i * size + i]);
    free(m);
    return (struct bounds){b.low * most, b.high * most};
}

void qr_readout_bounds(const struct qr_observable *o, double *ret_low, double *ret_high) {
    unsigned at[ONE_BASIS];
    double constant = 0, around = 0;
    for (size_t t = 0; t < o->n_terms; t++) {
        const struct qr_pauli_term *term = &o->terms[t];
        if (qr_qubits_is_empty(&term->x) && qr_qubits_is_empty(&term->z))
            constant += term->coefficient;
        else around += fabs(term->coefficient);
    }
    struct bounds b = {constant - around, constant + around};
    unsigned n = o->n_terms > 1 ? observable_support(o, ONE_BASIS, at) : ONE_BASIS + 1;
    bool finite = isfinite(b.low) && isfinite(b.high);
    if (finite && n <= ONE_BASIS && is_of_one_basis(o) &&
        (n <= ALWAYS || (size_t)1 << n <= STATES_A_TERM * o->n_terms))
        b = bounds_in_one_basis(o, at, n);
    else if (finite && n <= MATRIX) b = bounds_by_matrix(o, at, n);
    *ret_low = b.low;
    *ret_high = b.high;
}

/* ---- constant read-outs ---- */

/* Limit on visited gates of cones: they take about 20 of the 100 ms in which a worker starts. The
 * walk to a cone of few gates costs as much as A_CONE. */
enum { MAX_VISITED = 1 << 18, A_CONE = 16 };

static bool gate_varies(const struct qr_circuit *c, const struct qr_gate *g, bool inputs_too) {
    for (unsigned k = 0; k < g->n_args; k++) {
        const struct qr_gate_arg *a = &g->args[k];
        if (a->kind == QR_ARG_PARAMETER || (inputs_too && a->kind == QR_ARG_DATA)) return true;
        if (a->kind != QR_ARG_EXPRESSION) continue;
        const struct qr_expression *e = &c->expressions[a->index];
        for (unsigned i = 0; i < e->n; i++)
            if (e->node[i].op == QR_EXPRESSION_PARAMETER ||
                (inputs_too && e->node[i].op == QR_EXPRESSION_INPUT))
                return true;
    }
    return false;
}

void qr_readouts_constant(const struct qr_circuit *c, const struct qr_observable *obs, size_t n_obs,
                          bool inputs_too, uint8_t *ret) {
    struct qr_deferred *deferred;
    c = qr_circuit_unconditional(c, obs, n_obs, &deferred);
    if (!c) {
        memset(ret, 0, n_obs);
        return;
    }
    struct qr_cone_finder *f = qr_cone_finder_new(c);
    uint32_t *cone = qr_xcalloc(c->n_gates + 1, sizeof *cone);
    size_t visited = 0;
    for (size_t r = 0; r < n_obs; r++) {
        ret[r] = visited < MAX_VISITED;
        for (size_t t = 0; t < obs[r].n_terms && ret[r]; t++) {
            size_t n = qr_cone_find(f, &obs[r].terms[t], cone);
            visited += n + A_CONE;
            if (visited >= MAX_VISITED) ret[r] = 0;
            for (size_t i = 0; i < n && ret[r]; i++)
                ret[r] = !gate_varies(c, &c->gates[cone[i]], inputs_too);
        }
    }
    free(cone);
    qr_cone_finder_free(f);
    qr_deferred_free(deferred);
}
