/* tests/ref/noisy.c — density matrices of noisy circuits. Start reading at evolve. */
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
    if (strcmp(name, "Measure") == 0) {
        n = add_one(ret, n, 1, (amp[]){1, 0, 0, 0});
        return add_one(ret, n, 1, (amp[]){0, 0, 0, 1});
    }
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

/* The matrix m on these qubits as a matrix on all qubits. */
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

/* A density matrix for each value of the measured bits; their traces are the probabilities. */
struct branches {
    size_t n;
    uint64_t *bits;
    amp *rho; /* n * dim * dim */
};

static amp *branch_of(struct branches *to, uint64_t bits, size_t size) {
    size_t i = 0;
    while (i < to->n && to->bits[i] != bits) i++;
    if (i < to->n) return to->rho + i * size;
    to->bits = qr_xreallocarray(to->bits, to->n + 1, sizeof *to->bits);
    to->rho = qr_xreallocarray(to->rho, (to->n + 1) * size, sizeof *to->rho);
    to->bits[to->n] = bits;
    memset(to->rho + to->n * size, 0, size * sizeof *to->rho);
    return to->rho + to->n++ * size;
}

static bool acts(const struct qr_circuit *c, const struct qr_gate *g, uint64_t bits) {
    const struct qr_condition *on = &c->conditions.list[g->condition - 1];
    bool all = true;
    for (unsigned b = 0; b < c->n_bits && g->condition; b++)
        if (qr_qubits_has(&on->bits, b))
            all &= (bits >> (c->n_bits - 1 - b) & 1) == qr_qubits_has(&on->values, b);
    return all;
}

/* Operators of a gate or channel; ret_read: the bit that each operator of a measurement reads. */
static unsigned operators(const struct qr_circuit *c, const struct qr_gate *g, const double *theta,
                          const double *x, amp *whole, int *ret_read) {
    const struct qr_channel *n = g->kind == QR_GATE_CHANNEL ? &c->channels[g->channel] : NULL;
    size_t size = (size_t)1 << 2 * c->n_qubits;
    double a[QR_CHANNEL_ARGS] = {0};
    amp kraus[32 * 16] = {0};
    unsigned all = 1;
    for (unsigned k = 0; k < (n ? n->info->n_args : g->n_args); k++)
        a[k] = value(c, n ? &n->args[k] : &g->args[k], theta, x);
    for (unsigned k = 0; k < 32; k++) ret_read[k] = -1;
    if (!n) {
        ref_gate_full(g, c->n_qubits, a, whole);
        return 1;
    }
    if (g->bit) { /* operators: state 0 read as 0, as 1; state 1 read as 0, as 1 */
        const double p[4] = {1 - a[0], a[0], a[1], 1 - a[1]};
        for (all = 0; all < 4; all++) {
            kraus[all * 16 + (all < 2 ? 0 : 3)] = sqrt(p[all]);
            ret_read[all] = all & 1;
        }
    } else {
        all = noisy_kraus(n, a, kraus);
    }
    for (unsigned k = 0; k < all; k++)
        widen(kraus + k * 16, g->targets, g->n_targets, c->n_qubits, whole + k * size);
    return all;
}

/* The least probability of an outcome of this measurement or reset and those before, except those
 * that are 0 up to rounding. */
static double least_outcome(const struct qr_circuit *c, const struct qr_gate *g, const amp *rho) {
    unsigned dim = 1u << c->n_qubits, at = c->n_qubits - 1 - g->targets[0];
    double p[2] = {0, 0}, least = 1;
    for (unsigned s = 0; s < dim; s++) p[s >> at & 1] += creal(rho[s * dim + s]);
    for (int k = 0; k < 2; k++)
        if (p[k] > 1e-20 && p[k] < least) least = p[k];
    if (!g->bit) return least;
    const struct qr_gate_arg *errors = c->channels[g->channel].args;
    for (int k = 0; k < 2; k++) /* constants in circuits of the generator */
        if (errors[k].scale > 0) least *= errors[k].scale;
    return least;
}

static struct branches evolve(const struct qr_circuit *c, const double *theta, const double *x,
                              double *ret_least) {
    unsigned dim = 1u << c->n_qubits;
    size_t size = (size_t)dim * dim;
    struct branches now = {0};
    amp *whole = qr_xcalloc(32 * size, sizeof *whole);
    branch_of(&now, 0, size)[0] = 1;
    *ret_least = 1;
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        struct branches next = {0};
        int read[32];
        unsigned all = operators(c, g, theta, x, whole, read);
        const struct qr_channel_info *info =
            g->kind == QR_GATE_CHANNEL ? c->channels[g->channel].info : NULL;
        bool decides = info && (info->measures || strcmp(info->names[0], "Reset") == 0);
        for (size_t k = 0; k < now.n; k++) {
            if (!acts(c, g, now.bits[k])) {
                amp *to = branch_of(&next, now.bits[k], size);
                for (size_t e = 0; e < size; e++) to[e] += now.rho[k * size + e];
                continue;
            }
            double least = decides ? least_outcome(c, g, now.rho + k * size) : 1;
            if (least < *ret_least) *ret_least = least;
            for (unsigned m = 0; m < all; m++) {
                uint64_t bits = now.bits[k];
                uint64_t bit = read[m] < 0 ? 0 : UINT64_C(1) << (c->n_bits - g->bit);
                bits = read[m] == 1 ? bits | bit : bits & ~bit;
                add_conjugated(whole + m * size, now.rho + k * size, dim,
                               branch_of(&next, bits, size));
            }
        }
        free(now.bits);
        free(now.rho);
        now = next;
    }
    free(whole);
    return now;
}

void noisy_density(const struct qr_circuit *c, const double *theta, const double *x, amp *rho) {
    size_t size = (size_t)1 << 2 * c->n_qubits;
    double least;
    struct branches b = evolve(c, theta, x, &least);
    memset(rho, 0, size * sizeof *rho);
    for (size_t i = 0; i < b.n * size; i++) rho[i % size] += b.rho[i];
    free(b.bits);
    free(b.rho);
}

double noisy_least_outcome(const struct qr_circuit *c, const double *theta, const double *x) {
    double least;
    struct branches b = evolve(c, theta, x, &least);
    free(b.bits);
    free(b.rho);
    return least;
}

void noisy_bits(const struct qr_circuit *c, const double *theta, const double *x, double *ret) {
    unsigned dim = 1u << c->n_qubits;
    double least;
    struct branches b = evolve(c, theta, x, &least);
    memset(ret, 0, (dim << c->n_bits) * sizeof *ret);
    for (size_t i = 0; i < b.n; i++)
        for (unsigned s = 0; s < dim; s++)
            ret[(s << c->n_bits) + b.bits[i]] += creal(b.rho[(i * dim + s) * dim + s]);
    free(b.bits);
    free(b.rho);
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

/* With probability p a damping of the last level to the first, else a cyclic shift with phases. */
static void random_kraus(uint64_t *s, struct qr_channel *c) {
    unsigned size = c->info->n_targets == 1 ? 4 : 16, dim = 1u << c->info->n_targets;
    double g = uniform(s, 0, 0.6), p = uniform(s, 0, 1), w = uniform(s, 0, 3);
    c->n_kraus = 3;
    c->kraus = qr_xcalloc(3 * size, sizeof *c->kraus);
    for (unsigned i = 0; i < dim; i++) {
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
                char name[32];
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

/* True if the channel has an exact equivalent when it is under a condition. */
static bool simple_channel(const struct qr_circuit *c, const struct qr_gate *g) {
    const struct qr_channel *n = &c->channels[g->channel];
    return g->n_targets == 1 && qr_channel_is_constant(n) && !n->info->measures;
}

struct qr_circuit *noisy_with_measurements(uint64_t seed, const struct qr_circuit *from,
                                           unsigned n_bits, bool once, bool any_channel) {
    struct qr_circuit *c = qr_circuit_copy(from);
    uint64_t s = seed * 524287 + 11;
    c->n_gates = 0;
    for (size_t i = 0; i < from->n_gates; i++) {
        struct qr_gate g = from->gates[i];
        const struct qr_channel *n = g.kind == QR_GATE_CHANNEL ? &c->channels[g.channel] : NULL;
        bool condition = uniform(&s, 0, 1) < 0.5 && c->n_bits && !(n && n->info->measures) &&
                         (!n || any_channel || simple_channel(c, &g));
        struct qr_condition on = {{{0}}, {{0}}};
        for (unsigned b = 0; b < c->n_bits && condition; b++) {
            bool one = n && !any_channel && !qr_qubits_is_empty(&on.bits);
            if (!qr_qubits_has(&c->measured, b) || one || uniform(&s, 0, 1) < 0.4) continue;
            qr_qubits_add(&on.bits, b);
            if (uniform(&s, 0, 1) < 0.6) qr_qubits_add(&on.values, b);
        }
        if (!qr_qubits_is_empty(&on.bits)) g.condition = qr_conditions_add(&c->conditions, &on);
        if (qr_circuit_add(c, &g, QR_IGNORED) != QR_OK) abort();
        if (uniform(&s, 0, 1) > 0.4 || (once && c->n_bits == n_bits)) continue;
        struct qr_channel m = {.info = qr_channel_info_of("Measure", 1)};
        for (unsigned k = 0; k < 2 && uniform(&s, 0, 1) < 0.4; k++)
            m.args[k].scale = uniform(&s, 0.1, 0.4);
        struct qr_gate measure = {.kind = QR_GATE_CHANNEL,
                                  .n_targets = 1,
                                  .targets = {(uint16_t)uniform(&s, 0, c->n_qubits - 1e-9)},
                                  .bit = once ? (uint16_t)(c->n_bits + 1)
                                              : (uint16_t)(1 + uniform(&s, 0, n_bits - 1e-9)),
                                  .channel = qr_circuit_channel(c, &m)};
        if (qr_circuit_add(c, &measure, QR_IGNORED) != QR_OK) abort();
    }
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
