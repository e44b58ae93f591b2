/* circuit/channel.c — the table of noise channels, their transfer matrices and operators. Start
 * reading at `rows` and qr_channel_transfer(). */
#include "circuit/channel.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/bytes.h"
#include "base/mem.h"
#include "exact/functions.h"

/* Kraus operators with seven digits are accurate enough. */
#define COMPLETE_WITHIN 1e-6
/* Rounding of a sum of probabilities. */
#define SUM_WITHIN 1e-12

/* ---- damping ---- */

/* gamma: |1> becomes |0> */
static void amplitude_damping(const double *a, struct qr_damping *ret, struct qr_damping *ret_da) {
    double c = sqrt(1 - a[0]);
    *ret = (struct qr_damping){c, 1 - a[0], a[0]};
    if (ret_da) *ret_da = (struct qr_damping){-0.5 / c, -1, 1};
}
/* p, gamma: with probability p as above, else |0> becomes |1> */
static void generalized_damping(const double *a, struct qr_damping *ret,
                                struct qr_damping *ret_da) {
    double c = sqrt(1 - a[1]);
    *ret = (struct qr_damping){c, 1 - a[1], a[1] * (2 * a[0] - 1)};
    if (!ret_da) return;
    ret_da[0] = (struct qr_damping){0, 0, 2 * a[1]};
    ret_da[1] = (struct qr_damping){-0.5 / c, -1, 2 * a[0] - 1};
}
static void phase_damping(const double *a, struct qr_damping *ret, struct qr_damping *ret_da) {
    double c = sqrt(1 - a[0]);
    *ret = (struct qr_damping){c, 1, 0};
    if (ret_da) *ret_da = (struct qr_damping){-0.5 / c, 0, 0};
}
/* t1, t2, time, population of |1> in equilibrium */
static void thermal_relaxation(const double *a, struct qr_damping *ret, struct qr_damping *ret_da) {
    double s = qr_exp(-a[2] / a[0]), c = qr_exp(-a[2] / a[1]), rest = 1 - 2 * a[3];
    *ret = (struct qr_damping){c, s, (1 - s) * rest};
    if (!ret_da) return;
    double by_t1 = s * a[2] / (a[0] * a[0]), by_time = -s / a[0];
    ret_da[0] = (struct qr_damping){0, by_t1, -by_t1 * rest};
    ret_da[1] = (struct qr_damping){c * a[2] / (a[1] * a[1]), 0, 0};
    ret_da[2] = (struct qr_damping){-c / a[1], by_time, -by_time * rest};
    ret_da[3] = (struct qr_damping){0, 0, -2 * (1 - s)};
}
static void reset(const double *a, struct qr_damping *ret, struct qr_damping *ret_da) {
    (void)a, (void)ret_da;
    *ret = (struct qr_damping){0, 0, 1};
}
/* p_0, p_1: the qubit becomes |0>, |1> */
static void reset_error(const double *a, struct qr_damping *ret, struct qr_damping *ret_da) {
    double rest = 1 - a[0] - a[1];
    *ret = (struct qr_damping){rest, rest, a[0] - a[1]};
    if (!ret_da) return;
    ret_da[0] = (struct qr_damping){-1, -1, 1};
    ret_da[1] = (struct qr_damping){-1, -1, -1};
}

/* Dephasing, whatever the errors of reading. */
static void measurement(const double *a, struct qr_damping *ret, struct qr_damping *ret_da) {
    (void)a;
    *ret = (struct qr_damping){0, 1, 0};
    if (ret_da) ret_da[0] = ret_da[1] = (struct qr_damping){0, 0, 0};
}

/* ---- the table ---- */

enum { X = 1, Y, Z };
#define ONE(p) (uint16_t)(1u << (p))
#define ON(p, q) ONE(4 * (p) + (q))

static const struct qr_channel_info rows[] = {
    {.names = {"BitFlip", "bit_flip"},
     .tfq = "BF",
     .cirq = "BitFlipChannel",
     .braket = "bit_flip",
     .pennylane = "BitFlip",
     .symbol = "BF",
     .n_targets = 1,
     .n_args = 1,
     .arg_names = {"p"},
     .paulis = {ONE(X)}},
    {.names = {"PhaseFlip", "phase_flip"},
     .tfq = "PF",
     .cirq = "PhaseFlipChannel",
     .braket = "phase_flip",
     .pennylane = "PhaseFlip",
     .symbol = "PF",
     .n_targets = 1,
     .n_args = 1,
     .arg_names = {"p"},
     .paulis = {ONE(Z)}},
    {.names = {"BitPhaseFlip"},
     .symbol = "BPF",
     .n_targets = 1,
     .n_args = 1,
     .arg_names = {"p"},
     .paulis = {ONE(Y)}},
    {.names = {"Depolarize", "Depolarizing", "DepolarizingChannel"},
     .tfq = "DP",
     .cirq = "DepolarizingChannel",
     .braket = "depolarizing",
     .pennylane = "DepolarizingChannel",
     .symbol = "D",
     .n_targets = 1,
     .n_args = 1,
     .arg_names = {"p"},
     .paulis = {ONE(X) | ONE(Y) | ONE(Z)}},
    {.names = {"Depolarize", "Depolarizing", "DepolarizingChannel", "two_qubit_depolarizing"},
     .cirq = "DepolarizingChannel",
     .braket = "two_qubit_depolarizing",
     .symbol = "D",
     .n_targets = 2,
     .n_args = 1,
     .arg_names = {"p"},
     .paulis = {0xfffe}},
    {.names = {"Dephase", "two_qubit_dephasing"},
     .braket = "two_qubit_dephasing",
     .symbol = "PF",
     .n_targets = 2,
     .n_args = 1,
     .arg_names = {"p"},
     .paulis = {ON(0, Z) | ON(Z, 0) | ON(Z, Z)}},
    {.names = {"PauliChannel", "AsymmetricDepolarize", "pauli_channel"},
     .tfq = "ADP",
     .cirq = "AsymmetricDepolarizingChannel",
     .braket = "pauli_channel",
     .symbol = "Pauli",
     .n_targets = 1,
     .n_args = 3,
     .n_optional = 3,
     .arg_names = {"p_x", "p_y", "p_z"},
     .paulis = {ONE(X), ONE(Y), ONE(Z)}},
    {.names = {"PauliChannel", "two_qubit_pauli_channel"},
     .cirq = "AsymmetricDepolarizingChannel",
     .symbol = "Pauli",
     .n_targets = 2,
     .n_args = 15,
     .n_optional = 15,
     .arg_names = {"p_ix", "p_iy", "p_iz", "p_xi", "p_xx", "p_xy", "p_xz", "p_yi", "p_yx", "p_yy",
                   "p_yz", "p_zi", "p_zx", "p_zy", "p_zz"},
     .paulis = {ON(0, X), ON(0, Y), ON(0, Z), ON(X, 0), ON(X, X), ON(X, Y), ON(X, Z), ON(Y, 0),
                ON(Y, X), ON(Y, Y), ON(Y, Z), ON(Z, 0), ON(Z, X), ON(Z, Y), ON(Z, Z)}},
    {.names = {"AmplitudeDamping", "amplitude_damping"},
     .tfq = "AD",
     .cirq = "AmplitudeDampingChannel",
     .braket = "amplitude_damping",
     .pennylane = "AmplitudeDamping",
     .symbol = "AD",
     .n_targets = 1,
     .n_args = 1,
     .arg_names = {"gamma"},
     .damping = amplitude_damping},
    {.names = {"GeneralizedAmplitudeDamping", "generalized_amplitude_damping"},
     .tfq = "GAD",
     .cirq = "GeneralizedAmplitudeDampingChannel",
     .braket = "generalized_amplitude_damping",
     .last_first = true,
     .pennylane = "GeneralizedAmplitudeDamping",
     .symbol = "GAD",
     .n_targets = 1,
     .n_args = 2,
     .arg_names = {"p", "gamma"},
     .damping = generalized_damping},
    {.names = {"PhaseDamping", "phase_damping"},
     .tfq = "PD",
     .cirq = "PhaseDampingChannel",
     .braket = "phase_damping",
     .pennylane = "PhaseDamping",
     .symbol = "PD",
     .n_targets = 1,
     .n_args = 1,
     .arg_names = {"gamma"},
     .damping = phase_damping},
    {.names = {"ThermalRelaxation", "ThermalRelaxationError"},
     .pennylane = "ThermalRelaxationError",
     .last_first = true,
     .symbol = "TR",
     .n_targets = 1,
     .n_args = 4,
     .arg_names = {"t1", "t2", "time", "excited"},
     .n_optional = 1,
     .damping = thermal_relaxation},
    {.names = {"Reset", "ResetChannel"},
     .tfq = "RST",
     .cirq = "ResetChannel",
     .symbol = "|0⟩",
     .n_targets = 1,
     .damping = reset},
    {.names = {"ResetError"},
     .pennylane = "ResetError",
     .symbol = "R",
     .n_targets = 1,
     .n_args = 2,
     .arg_names = {"p_0", "p_1"},
     .damping = reset_error},
    {.names = {"Measure"},
     .symbol = "M",
     .n_targets = 1,
     .n_args = 2,
     .n_optional = 2,
     .arg_names = {"p_01", "p_10"},
     .damping = measurement,
     .measures = true},
    {.names = {"Kraus", "QubitChannel"},
     .cirq = "KrausChannel",
     .braket = "kraus",
     .symbol = "K",
     .n_targets = 1,
     .kraus = true},
    {.names = {"Kraus", "QubitChannel"},
     .cirq = "KrausChannel",
     .braket = "kraus",
     .symbol = "K",
     .n_targets = 2,
     .kraus = true},
};
enum { N_ROWS = sizeof rows / sizeof *rows };

const struct qr_channel_info *qr_channel_info_at(size_t i) { return i < N_ROWS ? &rows[i] : NULL; }

const struct qr_channel_info *qr_channel_info_of(const char *name, unsigned n_qubits) {
    for (size_t i = 0; i < N_ROWS; i++)
        for (size_t k = 0; k < QR_CHANNEL_NAMES && rows[i].names[k]; k++)
            if (rows[i].n_targets == n_qubits && strcasecmp(rows[i].names[k], name) == 0)
                return &rows[i];
    return NULL;
}

/* ---- channels of a circuit ---- */

/* Numbers of one operator. */
static size_t kraus_size(const struct qr_channel *c) { return c->info->n_targets == 1 ? 4 : 16; }

struct qr_channel qr_channel_copy(const struct qr_channel *c) {
    struct qr_channel copy = *c;
    size_t n = c->n_kraus * kraus_size(c);
    if (!n) return copy;
    copy.kraus = qr_xcalloc(n, sizeof *copy.kraus);
    memcpy(copy.kraus, c->kraus, n * sizeof *copy.kraus);
    return copy;
}

void qr_channel_fini(struct qr_channel *c) {
    free(c->kraus);
    c->kraus = NULL;
}

bool qr_channel_equal(const struct qr_channel *a, const struct qr_channel *b) {
    if (a->info != b->info || a->n_kraus != b->n_kraus || a->unset != b->unset) return false;
    for (unsigned k = 0; k < a->info->n_args; k++)
        if (a->args[k].kind != b->args[k].kind || a->args[k].index != b->args[k].index ||
            qr_bits_of_double(a->args[k].scale) != qr_bits_of_double(b->args[k].scale))
            return false;
    return !a->n_kraus ||
           memcmp(a->kraus, b->kraus, a->n_kraus * kraus_size(a) * sizeof *a->kraus) == 0;
}

bool qr_channel_is_constant(const struct qr_channel *c) {
    bool constant = true;
    for (unsigned k = 0; k < c->info->n_args; k++) constant &= c->args[k].kind == QR_ARG_CONSTANT;
    return constant;
}

bool qr_channel_reads_exactly(const struct qr_channel *c) {
    for (unsigned k = 0; k < c->info->n_args; k++)
        if (c->args[k].kind != QR_ARG_CONSTANT || c->args[k].scale != 0) return false;
    return c->info->measures;
}

void qr_channel_values(const struct qr_channel *c, const double *theta,
                       double ret[QR_CHANNEL_ARGS]) {
    for (unsigned k = 0; k < c->info->n_args; k++)
        ret[k] = qr_gate_arg_value(&c->args[k], theta, NULL);
}

/* ---- checks ---- */

/* The populations' transitions, and the largest coherence that they allow. */
static bool damping_is_valid(const struct qr_damping *d) {
    double up = (1 - d->s - d->b) / 2, down = (1 - d->s + d->b) / 2;
    return up >= -SUM_WITHIN && down >= -SUM_WITHIN && up <= 1 + SUM_WITHIN &&
           down <= 1 + SUM_WITHIN && d->c * d->c <= (1 - up) * (1 - down) + SUM_WITHIN;
}

/* Probabilities are between 0 and 1, and those of Pauli errors together. */
static bool values_are_valid(const struct qr_channel_info *info, const double *a) {
    struct qr_damping d;
    double sum = 0;
    if (info->kraus) return true;
    if (info->damping == thermal_relaxation && !(a[0] > 0 && a[1] > 0 && a[2] >= 0)) return false;
    for (unsigned k = 0; k < info->n_args; k++) {
        bool time = info->damping == thermal_relaxation && k < 3;
        if (!time && !(a[k] >= 0 && a[k] <= 1)) return false;
        sum += a[k];
    }
    if (!info->damping || info->measures) return sum <= 1 + SUM_WITHIN;
    info->damping(a, &d, NULL);
    return damping_is_valid(&d);
}

static enum qr_code check_kraus(const struct qr_channel *c, struct qr_err *err) {
    unsigned dim = 1u << c->info->n_targets;
    double worst = 0;
    for (unsigned i = 0; i < dim; i++)
        for (unsigned j = 0; j < dim; j++) {
            double re = i == j ? -1 : 0, im = 0;
            for (unsigned k = 0; k < c->n_kraus; k++)
                for (unsigned r = 0; r < dim; r++) {
                    const double complex *m = c->kraus + k * kraus_size(c) + r * dim;
                    re += creal(m[i]) * creal(m[j]) + cimag(m[i]) * cimag(m[j]);
                    im += creal(m[i]) * cimag(m[j]) - cimag(m[i]) * creal(m[j]);
                }
            double off = sqrt(re * re + im * im);
            if (!(off <= worst)) worst = off;
        }
    if (worst <= COMPLETE_WITHIN) return QR_OK;
    return qr_fail(err, QR_INVALID_ARGUMENT,
                   "the sum of K^adjoint K over the operators is not the identity (off by %.3g); "
                   "correct them, or give more digits",
                   worst);
}

enum qr_code qr_channel_check(const struct qr_channel *c, struct qr_err *err) {
    return qr_channel_is_constant(c) ? qr_channel_check_at(c, NULL, err) : QR_OK;
}

enum qr_code qr_channel_check_at(const struct qr_channel *c, const double *theta,
                                 struct qr_err *err) {
    double a[QR_CHANNEL_ARGS];
    if (c->info->kraus) return check_kraus(c, err);
    qr_channel_values(c, theta, a);
    if (values_are_valid(c->info, a)) return QR_OK;
    if (c->info->damping == thermal_relaxation)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "%s has t1 = %g, t2 = %g, time = %g, excited = %g; give t1 > 0, 0 < t2 <= 2 "
                       "t1, time >= 0 and excited from 0 to 1",
                       c->info->names[0], a[0], a[1], a[2], a[3]);
    for (unsigned k = 0; k < c->info->n_args; k++)
        if (!(a[k] >= 0 && a[k] <= 1))
            return qr_fail(err, QR_INVALID_ARGUMENT, "%s has %s = %g; give a number from 0 to 1",
                           c->info->names[0], c->info->arg_names[k], a[k]);
    return qr_fail(err, QR_INVALID_ARGUMENT, "%s has probabilities with a sum above 1",
                   c->info->names[0]);
}

/* ---- numbers ---- */

static void set_nan(double *ret, size_t n) {
    for (size_t i = 0; i < n; i++) ret[i] = __builtin_nan("");
}

bool qr_channel_errors(const struct qr_channel *c, const double *a, double *ret, double *ret_da) {
    const struct qr_channel_info *info = c->info;
    size_t n = info->n_targets == 1 ? 4 : 16;
    if (info->damping || info->kraus) return false;
    double none = 1;
    for (size_t p = 1; p < n; p++) ret[p] = 0;
    for (size_t i = 0; ret_da && i < info->n_args * n; i++) ret_da[i] = 0;
    for (unsigned k = 0; k < info->n_args; k++) {
        double share = 1.0 / __builtin_popcount(info->paulis[k]);
        none -= a[k];
        for (size_t p = 1; p < n; p++) {
            if (!(info->paulis[k] >> p & 1)) continue;
            ret[p] += share * a[k];
            if (ret_da) ret_da[k * n + p] = share;
        }
        if (ret_da) ret_da[k * n] = -1;
    }
    ret[0] = none > 0 ? none : 0;
    if (!values_are_valid(info, a)) set_nan(ret, n);
    return true;
}

/* Whether two Paulis, by their digits, anticommute. */
static bool paulis_anticommute(unsigned a, unsigned b) { return a && b && a != b; }

/* R of Pauli errors with these probabilities, or their derivative. */
static void transfer_of_errors(unsigned n_targets, const double *p, double *ret) {
    unsigned n = n_targets == 1 ? 4 : 16;
    for (unsigned q = 0; q < n; q++) {
        double sum = 0;
        for (unsigned k = 0; k < n; k++)
            sum +=
                paulis_anticommute(q / 4, k / 4) != paulis_anticommute(q % 4, k % 4) ? -p[k] : p[k];
        ret[q * n + q] = sum;
    }
}

static void transfer_of_damping(const struct qr_damping *d, double unit, double *ret) {
    ret[0] = unit;
    ret[X * 4 + X] = ret[Y * 4 + Y] = d->c;
    ret[Z * 4 + Z] = d->s;
    ret[Z * 4] = d->b;
}

/* Entry [row][column] of a Pauli string by its digits, first qubit most significant. */
static double complex string_entry(unsigned p, unsigned n_targets, unsigned row, unsigned column) {
    const double complex i = CMPLX(0.0, 1.0),
                         one[4][4] = {{1, 0, 0, 1}, {0, 1, 1, 0}, {0, -i, i, 0}, {1, 0, 0, -1}};
    if (n_targets == 1) return one[p][row * 2 + column];
    double complex a = one[p / 4][(row >> 1) * 2 + (column >> 1)],
                   b = one[p % 4][(row & 1) * 2 + (column & 1)];
    return CMPLX(creal(a) * creal(b) - cimag(a) * cimag(b),
                 creal(a) * cimag(b) + cimag(a) * creal(b));
}

/* ret += 2^-n Re Tr(P K Q K^adjoint) */
static void add_transfer_of_kraus(const double complex *k, unsigned n_targets, double *ret) {
    unsigned dim = 1u << n_targets, n = n_targets == 1 ? 4 : 16;
    for (unsigned p = 0; p < n; p++)
        for (unsigned q = 0; q < n; q++) {
            double sum = 0;
            for (unsigned i = 0; i < dim * dim * dim * dim; i++) {
                unsigned r = i % dim, s = i / dim % dim, t = i / dim / dim % dim,
                         u = i / dim / dim / dim;
                /* P[u][r] K[r][s] Q[s][t] conj K[u][t] */
                double complex x = string_entry(p, n_targets, u, r),
                               y = string_entry(q, n_targets, s, t);
                if (x == 0 || y == 0) continue;
                double complex z = CMPLX(creal(x) * creal(y) - cimag(x) * cimag(y),
                                         creal(x) * cimag(y) + cimag(x) * creal(y)),
                               a = k[r * dim + s], b = k[u * dim + t];
                double re = creal(a) * creal(b) + cimag(a) * cimag(b),
                       im = cimag(a) * creal(b) - creal(a) * cimag(b);
                sum += creal(z) * re - cimag(z) * im;
            }
            ret[p * n + q] += sum / dim;
        }
}

void qr_channel_transfer(const struct qr_channel *c, const double *a, double *ret, double *ret_da) {
    const struct qr_channel_info *info = c->info;
    size_t n = info->n_targets == 1 ? 4 : 16, size = n * n;
    double p[16], dp[QR_CHANNEL_ARGS * 16];
    for (size_t i = 0; i < size; i++) ret[i] = 0;
    for (size_t i = 0; ret_da && i < size * info->n_args; i++) ret_da[i] = 0;
    if (qr_channel_errors(c, a, p, ret_da ? dp : NULL)) {
        transfer_of_errors(info->n_targets, p, ret);
        for (unsigned k = 0; ret_da && k < info->n_args; k++)
            transfer_of_errors(info->n_targets, dp + k * n, ret_da + k * size);
    } else if (info->damping) {
        struct qr_damping d, da[QR_CHANNEL_ARGS] = {0};
        info->damping(a, &d, ret_da ? da : NULL);
        transfer_of_damping(&d, 1, ret);
        for (unsigned k = 0; ret_da && k < info->n_args; k++)
            transfer_of_damping(&da[k], 0, ret_da + k * size);
        if (!values_are_valid(info, a)) set_nan(ret, size);
    } else {
        for (unsigned k = 0; k < c->n_kraus; k++)
            add_transfer_of_kraus(c->kraus + k * size / n, info->n_targets, ret);
    }
}

/* The operators diag(r, c / r), diag(0, t), w |0><1| and v |1><0|. */
struct damping_roots {
    double r, c_over_r, t, w, v;
};

static struct damping_roots roots_of_damping(const struct qr_damping *d) {
    double up = (1 - d->s - d->b) / 2, down = (1 - d->s + d->b) / 2, stay = 1 - up, rest;
    up = up > 0 ? up : 0;
    down = down > 0 ? down : 0;
    struct damping_roots k = {.r = stay > 0 ? sqrt(stay) : 0, .w = sqrt(down), .v = sqrt(up)};
    k.c_over_r = k.r > 0 ? d->c / k.r : 0;
    rest = (1 - down) - k.c_over_r * k.c_over_r;
    k.t = rest > 0 ? sqrt(rest) : 0;
    return k;
}

static void set_damping_kraus(const struct damping_roots *k, double complex *ret) {
    for (int i = 0; i < 4 * 16; i++) ret[i] = 0;
    ret[0] = k->r, ret[3] = k->c_over_r;
    ret[16 + 3] = k->t;
    ret[32 + 1] = k->w;
    ret[48 + 2] = k->v;
}

/* sqrt of the probability of reading r, times |s><s|, at 2 s + r. */
static void set_measurement_kraus(const double *a, double complex *ret, double complex *ret_da) {
    const double p[4] = {1 - a[0], a[0], a[1], 1 - a[1]};
    for (unsigned k = 0; k < 4; k++)
        for (unsigned i = 0; i < 16; i++) {
            double root = sqrt(p[k]);
            bool on = i == (k < 2 ? 0 : 3);
            ret[k * 16 + i] = on ? root : 0;
            for (unsigned arg = 0; ret_da && arg < 2; arg++)
                ret_da[(arg * 4 + k) * 16 + i] =
                    on && arg == k / 2 ? (k == 0 || k == 3 ? -0.5 : 0.5) / root : 0;
        }
}

unsigned qr_channel_kraus(const struct qr_channel *c, const double *a, double complex *ret,
                          double complex *ret_da) {
    if (c->info->kraus) {
        size_t n = kraus_size(c);
        for (unsigned k = 0; k < c->n_kraus; k++)
            memcpy(ret + (size_t)k * 16, c->kraus + k * n, n * sizeof *ret);
        return c->n_kraus;
    }
    if (c->info->measures) {
        set_measurement_kraus(a, ret, ret_da);
        return 4;
    }
    struct qr_damping d, da[QR_CHANNEL_ARGS] = {0};
    QR_ASSERT(c->info->damping);
    c->info->damping(a, &d, ret_da ? da : NULL);
    struct damping_roots k = roots_of_damping(&d);
    if (!values_are_valid(c->info, a)) k.r = k.c_over_r = k.t = k.w = k.v = __builtin_nan("");
    set_damping_kraus(&k, ret);
    for (unsigned i = 0; ret_da && i < c->info->n_args; i++) {
        double up = -(da[i].s + da[i].b) / 2, down = (da[i].b - da[i].s) / 2;
        struct damping_roots dk = {
            .r = -up / (2 * k.r), .w = down / (2 * k.w), .v = up / (2 * k.v)};
        dk.c_over_r = (da[i].c - k.c_over_r * dk.r) / k.r;
        dk.t = (-down - 2 * k.c_over_r * dk.c_over_r) / (2 * k.t);
        set_damping_kraus(&dk, ret_da + (size_t)i * 4 * 16);
    }
    return 4;
}

/* root times the Pauli with these digits. */
static void set_pauli(unsigned pauli, unsigned n_targets, double root, double complex *ret) {
    unsigned dim = 1u << n_targets;
    for (unsigned row = 0; row < dim; row++) {
        unsigned column = row;
        double re = root, im = 0;
        for (unsigned k = 0; k < n_targets; k++) {
            unsigned digit = pauli >> 2 * k & 3, bit = row >> k & 1;
            double sign = bit ? 1 : -1, old = re;
            if (digit == 1 || digit == 2) column ^= 1u << k;
            if (digit == 2) re = -sign * im, im = sign * old; /* Y: -i above, i below */
            if (digit == 3 && bit) re = -re, im = -im;
        }
        ret[row * dim + column] = __builtin_complex(re, im);
    }
}

unsigned qr_channel_operators(const struct qr_channel *c, const double *a,
                              double complex ret[QR_CHANNEL_KRAUS * 16]) {
    double p[16];
    unsigned n = 0, kept = 0, n_targets = c->info->n_targets, size = 1u << 2 * n_targets;
    memset(ret, 0, QR_CHANNEL_KRAUS * 16 * sizeof *ret);
    if (!qr_channel_errors(c, a, p, NULL)) n = qr_channel_kraus(c, a, ret, NULL);
    else
        for (; n < size; n++) set_pauli(n, n_targets, sqrt(p[n]), ret + (size_t)n * 16);
    for (unsigned k = 0; k < n; k++) {
        bool zero = true;
        for (unsigned i = 0; i < size; i++) zero &= ret[k * 16 + i] == 0;
        if (!zero) memmove(ret + (size_t)kept++ * 16, ret + (size_t)k * 16, 16 * sizeof *ret);
    }
    return kept;
}
