/* model/natural/generator.c — generators of gates as sums of Paulis. Start reading at
 * qr_generator_of(). */
#include "model/natural/generator.h"

#include <math.h>

#include "base/mem.h"

enum { DIM = 4, CONTROLS = 12 };
static const double nothing = 1e-14; /* smaller coefficients are rounding errors */

typedef double complex matrix[DIM * DIM];

void qr_pauli_sum_fini(struct qr_pauli_sum *s) {
    free(s->terms);
    *s = (struct qr_pauli_sum){0};
}

static void add_pauli_term(struct qr_pauli_sum *s, double coefficient, struct qr_qubits x,
                           struct qr_qubits z) {
    if (fabs(coefficient) < nothing) return;
    if (qr_qubits_is_empty(&x) && qr_qubits_is_empty(&z)) {
        s->constant += coefficient;
        return;
    }
    s->terms = qr_xreallocarray(s->terms, s->n + 1, sizeof *s->terms);
    s->terms[s->n++] = (struct qr_pauli_term){coefficient, x, z};
}

struct qr_pauli_sum qr_pauli_sum_product(const struct qr_pauli_sum *a,
                                         const struct qr_pauli_sum *b) {
    struct qr_pauli_sum ret = {.constant = a->constant * b->constant};
    for (size_t i = 0; i < a->n; i++)
        add_pauli_term(&ret, a->terms[i].coefficient * b->constant, a->terms[i].x, a->terms[i].z);
    for (size_t k = 0; k < b->n; k++)
        add_pauli_term(&ret, a->constant * b->terms[k].coefficient, b->terms[k].x, b->terms[k].z);
    for (size_t i = 0; i < a->n; i++)
        for (size_t k = 0; k < b->n; k++) {
            struct qr_qubits x = a->terms[i].x, z = a->terms[i].z;
            qr_qubits_add_all(&x, &b->terms[k].x);
            qr_qubits_add_all(&z, &b->terms[k].z);
            add_pauli_term(&ret, a->terms[i].coefficient * b->terms[k].coefficient, x, z);
        }
    return ret;
}

bool qr_generator_needed(const struct qr_gate_arg *arg) {
    return arg->kind == QR_ARG_PARAMETER || arg->kind == QR_ARG_EXPRESSION;
}

static unsigned gate_dim(const struct qr_gate *g) { return 1u << g->n_targets; }

/* K = i dU/da U^dagger, on the targets; where: one of two test points for arguments with
 * parameters. */
static void generator_matrix(const struct qr_gate *g, unsigned arg, unsigned where, matrix ret) {
    static const double places[2][2] = {{0.3, 0.7}, {1.1, -0.4}};
    unsigned d = gate_dim(g);
    double a[2] = {0};
    matrix u;
    double complex da[2 * DIM * DIM];
    for (unsigned k = 0; k < g->n_args; k++)
        a[k] = qr_generator_needed(&g->args[k]) ? places[where][k] : g->args[k].scale;
    qr_gate_matrix(g, a, u, da);
    for (unsigned i = 0; i < d; i++)
        for (unsigned j = 0; j < d; j++) {
            double complex sum = 0;
            for (unsigned k = 0; k < d; k++)
                sum += da[arg * d * d + i * d + k] * conj(u[j * d + k]);
            ret[i * d + j] = (double complex)I * sum;
        }
}

/* The coefficient of the Pauli with masks x and z; the highest bit is the first target's. */
static double pauli_coefficient(const double complex *k, unsigned d, unsigned x, unsigned z) {
    static const double complex power_of_i[4] = {1, I, -1, -I};
    double complex sum = 0;
    for (unsigned j = 0; j < d; j++) {
        double sign = __builtin_parity(j & z) ? -1 : 1;
        sum += sign * power_of_i[__builtin_popcount(x & z)] * k[j * d + (j ^ x)];
    }
    return creal(sum) / d;
}

/* Decomposes k, acting on the targets while the controls have their values. */
static struct qr_pauli_sum pauli_decomposition(const struct qr_gate *g, const double complex *k) {
    struct qr_pauli_sum ret = {0};
    unsigned d = gate_dim(g), n_controls = qr_qubits_count(&g->controls);
    for (unsigned at = 0; at < d * d; at++) {
        unsigned px = at / d, pz = at % d;
        double c = pauli_coefficient(k, d, px, pz) / (double)(1u << n_controls);
        for (unsigned of = 0; of < 1u << n_controls; of++) {
            struct qr_qubits x = {0}, z = {0};
            double sign = 1;
            unsigned bit = 0;
            for (unsigned t = 0; t < g->n_targets; t++) {
                if (px >> (g->n_targets - 1 - t) & 1) qr_qubits_add(&x, g->targets[t]);
                if (pz >> (g->n_targets - 1 - t) & 1) qr_qubits_add(&z, g->targets[t]);
            }
            for (unsigned q = qr_qubits_first(&g->controls); q < QR_MAX_QUBITS;
                 q = qr_qubits_next(&g->controls, q)) {
                if (!(of >> bit++ & 1)) continue;
                qr_qubits_add(&z, q);
                if (qr_qubits_has(&g->control_values, q)) sign = -sign;
            }
            add_pauli_term(&ret, sign * c, x, z);
        }
    }
    return ret;
}

bool qr_generator_of(const struct qr_gate *g, unsigned arg, struct qr_pauli_sum *ret) {
    matrix here, there;
    if (qr_qubits_count(&g->controls) > CONTROLS) return false;
    generator_matrix(g, arg, 0, here);
    generator_matrix(g, arg, 1, there);
    for (unsigned i = 0; i < gate_dim(g) * gate_dim(g); i++)
        if (fabs(creal(here[i] - there[i])) + fabs(cimag(here[i] - there[i])) > 1e-12) return false;
    *ret = pauli_decomposition(g, here);
    return true;
}

struct qr_pauli_sum qr_generator_product(const struct qr_gate *g, unsigned a, unsigned b) {
    unsigned d = gate_dim(g);
    matrix ka, kb, product;
    generator_matrix(g, a, 0, ka);
    generator_matrix(g, b, 0, kb);
    for (unsigned i = 0; i < d; i++)
        for (unsigned j = 0; j < d; j++) {
            double complex sum = 0;
            for (unsigned k = 0; k < d; k++)
                sum += ka[i * d + k] * kb[k * d + j] + kb[i * d + k] * ka[k * d + j];
            product[i * d + j] = sum / 2;
        }
    return pauli_decomposition(g, product);
}
