#include "tests/ref/noisy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tests/ref/dense.h"

typedef double complex amp;
enum { MAX_DIM = 1 << NOISY_MAX_QUBITS };

static const amp pauli[4][4] = {{1, 0, 0, 1},
                                {0, 1, 1, 0},
                                {0, __builtin_complex(0.0, -1.0), __builtin_complex(0.0, 1.0), 0},
                                {1, 0, 0, -1}};

static unsigned add_one(amp *ret, unsigned n, double weight, const amp m[4]) {
    for (int i = 0; i < 4; i++) ret[n * 16 + (unsigned)i] = sqrt(weight) * m[i];
    return n + 1;
}
static unsigned add_two(amp *ret, unsigned n, double weight, unsigned p, unsigned q) {
    for (unsigned r = 0; r < 4; r++)
        for (unsigned c = 0; c < 4; c++)
            ret[n * 16 + r * 4 + c] =
                sqrt(weight) * pauli[p][(r >> 1) * 2 + (c >> 1)] * pauli[q][(r & 1) * 2 + (c & 1)];
    return n + 1;
}

static unsigned two_qubit_kraus(const char *name, const double *a, amp *ret) {
    unsigned n = 0;
    double rest = 1;
    for (unsigned k = 1; k < 16; k++) {
        double p = strcmp(name, "Depolarize") == 0     ? a[0] / 15
                   : strcmp(name, "PauliChannel") == 0 ? a[k - 1]
                   : k == 3 || k == 12 || k == 15      ? a[0] / 3
                                                       : 0;
        rest -= p;
        n = add_two(ret, n, p, k / 4, k % 4);
    }
    return add_two(ret, n, rest, 0, 0);
}

static unsigned damping_kraus(const char *name, const double *a, amp *ret) {
    unsigned n = 0;
    double p = 1, gamma = a[0], pure = 0; /* generalized damping, then pure dephasing */
    if (strcmp(name, "GeneralizedAmplitudeDamping") == 0) p = a[0], gamma = a[1];
    if (strcmp(name, "ThermalRelaxation") == 0) {
        p = 1 - a[3];
        gamma = 1 - exp(-a[2] / a[0]);
        pure = (1 - exp(-a[2] / a[1]) / sqrt(1 - gamma)) / 2;
    }
    for (int z = 0; z < 2; z++) {
        double w = z ? pure : 1 - pure, s = z ? -1 : 1;
        n = add_one(ret, n, w * p, (amp[]){1, 0, 0, s * sqrt(1 - gamma)});
        n = add_one(ret, n, w * p, (amp[]){0, s * sqrt(gamma), 0, 0});
        n = add_one(ret, n, w * (1 - p), (amp[]){sqrt(1 - gamma), 0, 0, s});
        n = add_one(ret, n, w * (1 - p), (amp[]){0, 0, sqrt(gamma), 0});
    }
    return n;
}

unsigned noisy_kraus(const struct qr_channel *c, const double *a, amp *ret) {
    const char *name = c->info->names[0];
    unsigned n = 0, size = c->info->n_targets == 1 ? 4 : 16;
    if (strcmp(name, "Kraus") == 0) {
        for (; n < c->n_kraus; n++) memcpy(ret + n * 16, c->kraus + n * size, size * sizeof *ret);
        return n;
    }
    if (c->info->n_targets == 2) return two_qubit_kraus(name, a, ret);
    if (strcmp(name, "PhaseDamping") == 0) {
        n = add_one(ret, n, 1, (amp[]){1, 0, 0, sqrt(1 - a[0])});
        return add_one(ret, n, 1, (amp[]){0, 0, 0, sqrt(a[0])});
    }
    if (strcmp(name, "Reset") == 0 || strcmp(name, "ResetError") == 0) {
        double p0 = *name && name[5] ? a[0] : 1, p1 = name[5] ? a[1] : 0;
        n = add_one(ret, n, 1 - p0 - p1, pauli[0]);
        n = add_one(ret, n, p0, (amp[]){1, 0, 0, 0});
        n = add_one(ret, n, p0, (amp[]){0, 1, 0, 0});
        n = add_one(ret, n, p1, (amp[]){0, 0, 1, 0});
        return add_one(ret, n, p1, (amp[]){0, 0, 0, 1});
    }
    if (strcmp(name, "AmplitudeDamping") == 0 || strcmp(name, "GeneralizedAmplitudeDamping") == 0 ||
        strcmp(name, "ThermalRelaxation") == 0)
        return damping_kraus(name, a, ret);
    double x = 0, y = 0, z = 0;
    if (strcmp(name, "BitFlip") == 0) x = a[0];
    else if (strcmp(name, "PhaseFlip") == 0) z = a[0];
    else if (strcmp(name, "BitPhaseFlip") == 0) y = a[0];
    else if (strcmp(name, "Depolarize") == 0) x = y = z = a[0] / 3;
    else if (strcmp(name, "PauliChannel") == 0) x = a[0], y = a[1], z = a[2];
    else {
        fprintf(stderr, "noisy: unknown channel %s\n", name);
        abort();
    }
    n = add_one(ret, n, 1 - x - y - z, pauli[0]);
    n = add_one(ret, n, x, pauli[1]);
    n = add_one(ret, n, y, pauli[2]);
    return add_one(ret, n, z, pauli[3]);
}

/* m on these qubits, as a whole matrix */
static void widen(const amp *m, const uint16_t *targets, unsigned n_targets, unsigned n, amp *ret) {
    unsigned dim = 1u << n;
    for (unsigned r = 0; r < dim; r++)
        for (unsigned c = 0; c < dim; c++) {
            unsigned in = 0, out = 0, mask = 0;
            for (unsigned k = 0; k < n_targets; k++) {
                unsigned at = n - 1 - targets[k];
                out = out << 1 | (r >> at & 1);
                in = in << 1 | (c >> at & 1);
                mask |= 1u << at;
            }
            ret[r * dim + c] = (r & ~mask) == (c & ~mask) ? m[(out << n_targets) + in] : 0;
        }
}

/* to += k rho k^adjoint */
static void add_conjugated(const amp *k, const amp *rho, unsigned dim, amp *to) {
    static amp half[MAX_DIM * MAX_DIM];
    memset(half, 0, sizeof half);
    for (unsigned i = 0; i < dim; i++)
        for (unsigned j = 0; j < dim; j++)
            for (unsigned s = 0; s < dim && k[i * dim + j] != 0; s++)
                half[i * dim + s] += k[i * dim + j] * rho[j * dim + s];
    for (unsigned i = 0; i < dim; i++)
        for (unsigned s = 0; s < dim; s++)
            for (unsigned j = 0; j < dim; j++)
                if (k[s * dim + j] != 0)
                    to[i * dim + s] += half[i * dim + j] * conj(k[s * dim + j]);
}

static double value(const struct qr_circuit *c, const struct qr_gate_arg *a, const double *theta,
                    const double *x) {
    return a->kind == QR_ARG_EXPRESSION
               ? a->scale * qr_expression_value(&c->expressions[a->index], theta, x)
               : qr_gate_arg_value(a, theta, x);
}

void noisy_density(const struct qr_circuit *c, const double *theta, const double *x, amp *rho) {
    static amp whole[MAX_DIM * MAX_DIM], next[MAX_DIM * MAX_DIM];
    unsigned dim = 1u << c->n_qubits;
    size_t bytes = (size_t)dim * dim * sizeof *rho;
    memset(rho, 0, bytes);
    rho[0] = 1;
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        memset(next, 0, bytes);
        if (g->kind == QR_GATE_CHANNEL) {
            const struct qr_channel *n = &c->channels[g->channel];
            amp kraus[32 * 16];
            double a[QR_CHANNEL_ARGS];
            for (unsigned k = 0; k < n->info->n_args; k++) a[k] = value(c, &n->args[k], theta, x);
            for (unsigned k = 0, all = noisy_kraus(n, a, kraus); k < all; k++) {
                widen(kraus + k * 16, g->targets, g->n_targets, c->n_qubits, whole);
                add_conjugated(whole, rho, dim, next);
            }
        } else {
            double a[2] = {0, 0};
            for (unsigned k = 0; k < g->n_args; k++) a[k] = value(c, &g->args[k], theta, x);
            ref_gate_full(g, c->n_qubits, a, whole);
            add_conjugated(whole, rho, dim, next);
        }
        memcpy(rho, next, bytes);
    }
}

void noisy_expectation(const struct qr_circuit *c, const double *theta, const double *x,
                       const struct qr_observable *obs, size_t n_obs, double *ret_z) {
    static amp rho[MAX_DIM * MAX_DIM];
    unsigned n = c->n_qubits, dim = 1u << n;
    noisy_density(c, theta, x, rho);
    for (size_t r = 0; r < n_obs; r++) {
        ret_z[r] = 0;
        for (size_t t = 0; t < obs[r].n_terms; t++)
            for (unsigned col = 0; col < dim; col++) {
                amp factor = obs[r].terms[t].coefficient;
                unsigned row = col;
                for (unsigned q = 0; q < n; q++) {
                    bool px = qr_qubits_has(&obs[r].terms[t].x, q),
                         pz = qr_qubits_has(&obs[r].terms[t].z, q);
                    unsigned p = px && pz ? 2
                                 : px     ? 1
                                 : pz     ? 3
                                          : 0,
                             at = n - 1 - q, in = col >> at & 1, out = px ? !in : in;
                    factor *= pauli[p][2 * out + in];
                    if (px) row ^= 1u << at;
                }
                ret_z[r] += creal(factor * rho[col * dim + row]);
            }
    }
}

/* ---- random circuits ---- */

static double uniform(uint64_t *s, double low, double high) {
    double u;
    ref_random_numbers((*s)++ * 7919, 1, low, high, &u);
    return u;
}

/* Two operators of a random rotation and a random damping. */
static void random_kraus(uint64_t *s, struct qr_channel *c) {
    unsigned size = c->info->n_targets == 1 ? 4 : 16, dim = 1u << c->info->n_targets;
    double g = uniform(s, 0, 0.6), p = uniform(s, 0, 1), w = uniform(s, 0, 3);
    c->n_kraus = 3;
    c->kraus = qr_xcalloc(3 * size, sizeof *c->kraus);
    for (unsigned i = 0; i < dim; i++) { /* damping of the last level to the first; a phase */
        double stay = i + 1 == dim ? sqrt(1 - g) : 1;
        c->kraus[i * dim + i] = sqrt(p) * stay;
        c->kraus[2 * size + i * dim + (i + 1) % dim] = sqrt(1 - p) * cexp(CMPLX(0, w * i));
    }
    c->kraus[size + dim - 1] = sqrt(p * g);
}

struct qr_circuit *noisy_random_circuit(uint64_t seed, unsigned n_qubits, unsigned n_gates,
                                        unsigned n_channels) {
    struct qr_circuit *plain = ref_random_circuit(seed, n_qubits, n_gates),
                      *c = qr_circuit_new(n_qubits, plain->n_columns);
    uint64_t s = seed * 131071 + 5;
    size_t rows = 0;
    while (qr_channel_info_at(rows)) rows++;
    for (unsigned i = 0; i < plain->n_params; i++) qr_circuit_param(c, plain->param_names[i]);
    for (size_t i = 0, left = n_channels; i < plain->n_gates; i++) {
        if (qr_circuit_add(c, &plain->gates[i], QR_IGNORED) != QR_OK) abort();
        bool last = i + 1 == plain->n_gates && left == n_channels; /* at least one */
        while (left && (last || uniform(&s, 0, 1) < (double)n_channels / n_gates)) {
            struct qr_channel channel = {
                .info = qr_channel_info_at((size_t)uniform(&s, 0, (double)rows - 1e-9))};
            uint16_t q[2] = {(uint16_t)uniform(&s, 0, n_qubits - 1e-9), 0};
            if (channel.info->n_targets > n_qubits) continue;
            do q[1] = (uint16_t)uniform(&s, 0, n_qubits - 1e-9);
            while (n_qubits > 1 && q[1] == q[0]);
            if (channel.info->kraus) random_kraus(&s, &channel);
            bool trains = uniform(&s, 0, 1) < 0.4;
            for (unsigned k = 0; k < channel.info->n_args; k++) {
                bool time = strcmp(channel.info->names[0], "ThermalRelaxation") == 0 && k < 3;
                double v = time ? uniform(&s, 1, 2) : uniform(&s, 0.01, 0.9 / channel.info->n_args);
                char name[24];
                snprintf(name, sizeof name, "s%zu_%u", left, k);
                channel.args[k] = trains ? (struct qr_gate_arg){QR_ARG_PARAMETER, time ? 2 : 1,
                                                                qr_circuit_param(c, name)}
                                         : (struct qr_gate_arg){QR_ARG_CONSTANT, v, 0};
            }
            if (qr_circuit_add_channel(c, qr_circuit_channel(c, &channel), q, QR_IGNORED) != QR_OK)
                abort();
            qr_channel_fini(&channel);
            left--;
            last = false;
        }
    }
    qr_circuit_free(plain);
    return c;
}

void noisy_random_parameters(uint64_t seed, const struct qr_circuit *c, double *ret) {
    ref_random_numbers(seed, c->n_params, -2, 2, ret);
    for (size_t i = 0; i < c->n_channels; i++)
        for (unsigned k = 0; k < c->channels[i].info->n_args; k++) {
            const struct qr_gate_arg *a = &c->channels[i].args[k];
            bool time = strcmp(c->channels[i].info->names[0], "ThermalRelaxation") == 0 && k < 3;
            if (a->kind == QR_ARG_PARAMETER)
                ref_random_numbers(seed + 1000 * i + k, 1, time ? 0.5 : 0.02,
                                   time ? 0.9 : 0.9 / c->channels[i].info->n_args, &ret[a->index]);
        }
}
