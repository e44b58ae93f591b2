/* cirq/json_gates.c — gates of Cirq's JSON as native gates. Start reading at cirq_json_gate() and
 * the two tables above it. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "cirq/cirq_impl.h"

struct json_gate {
    const struct cirq_scope *scope;
    const struct qr_json *v;
    const char *path;
    const uint16_t *qubits;
    unsigned n;
};

enum { MAX_DIAGONAL_QUBITS = 12 };
/* Entries with seven digits are accurate enough. */
#define UNITARY_WITHIN 1e-6

/* ---- appending ---- */

static enum qr_code read_arg(struct cirq_reader *r, const struct json_gate *g, const char *key,
                             struct qr_gate_arg *ret) {
    struct qr_path path = qr_path_of("%s.%s", g->path, key);
    return cirq_json_arg(r, g->scope, qr_json_get(g->v, key), path.s, ret);
}

static struct qr_gate_arg scaled(struct qr_gate_arg arg, double by) {
    arg.scale *= by;
    return arg;
}
static bool is_zero(const struct qr_gate_arg *arg) {
    return arg->kind == QR_ARG_CONSTANT && arg->scale == 0;
}

/* Appends a gate on one qubit, unless its exponent is 0. */
static enum qr_code add_power(struct cirq_reader *r, const char *path, enum qr_gate_kind kind,
                              uint16_t qubit, struct qr_gate_arg exponent, double global_shift) {
    struct qr_gate g = {.kind = kind,
                        .n_targets = 1,
                        .n_args = 1,
                        .targets = {qubit},
                        .args = {exponent},
                        .global_shift = global_shift};
    return is_zero(&exponent) ? QR_OK : cirq_gate_add(r, path, &g);
}

static enum qr_code add_constant(struct cirq_reader *r, const char *path, enum qr_gate_kind kind,
                                 uint16_t qubit, double exponent) {
    return add_power(r, path, kind, qubit, (struct qr_gate_arg){QR_ARG_CONSTANT, exponent, 0}, 0);
}

static enum qr_code add_swap(struct cirq_reader *r, const char *path, uint16_t a, uint16_t b) {
    struct qr_gate g = {.kind = QR_GATE_SWAP,
                        .n_targets = 2,
                        .n_args = 1,
                        .targets = {a, b},
                        .args = {{QR_ARG_CONSTANT, 1, 0}}};
    return cirq_gate_add(r, path, &g);
}

/* Fails when there is no room for n more gates. */
static enum qr_code check_room(struct cirq_reader *r, const char *path, size_t n) {
    return r->gates.list.n + n <= r->max_gates
               ? QR_OK
               : qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: here the circuit exceeds %u gates", path,
                         r->max_gates);
}

/* A phase under the controls in force, in half-turns. */
static enum qr_code add_phase(struct cirq_reader *r, const char *path,
                              struct qr_gate_arg half_turns) {
    QR_TRY(check_room(r, path, 1));
    if (!is_zero(&half_turns))
        qr_gate_list_add_phase(&r->gates.list, &r->controls, &r->control_values, half_turns);
    return QR_OK;
}

/* A phase of one basis state of these qubits; bit 0 is the last. */
static enum qr_code add_state_phase(struct cirq_reader *r, const struct json_gate *g,
                                    uint32_t state, struct qr_gate_arg half_turns) {
    const struct qr_qubits controls = r->controls, values = r->control_values;
    for (unsigned k = 0; k < g->n; k++) {
        qr_qubits_add(&r->controls, g->qubits[k]);
        if (state >> (g->n - 1 - k) & 1) qr_qubits_add(&r->control_values, g->qubits[k]);
    }
    enum qr_code code = add_phase(r, g->path, half_turns);
    r->controls = controls;
    r->control_values = values;
    return code;
}

/* A constant of modulus 1, in half-turns. */
static enum qr_code phase_of(struct cirq_reader *r, const char *path, double complex c,
                             struct qr_gate_arg *ret) {
    double size = sqrt(creal(c) * creal(c) + cimag(c) * cimag(c));
    if (!(fabs(size - 1) <= UNITARY_WITHIN))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: the coefficient has modulus %.10g; only 1 is unitary", path, size);
    double angle = qr_expression_apply(QR_EXPRESSION_ATAN2, cimag(c), creal(c));
    *ret = (struct qr_gate_arg){QR_ARG_CONSTANT, angle / M_PI, 0};
    return QR_OK;
}

/* ---- Paulis ---- */

enum qr_code cirq_paulis_apply(struct cirq_reader *r, const char *path, const uint16_t *qubits,
                               const char *paulis, unsigned n, double complex coefficient) {
    struct qr_gate_arg phase;
    QR_TRY(cirq_touch(r, path, qubits, n));
    for (unsigned i = 0; i < n; i++)
        if (paulis[i] != 'I')
            QR_TRY(add_constant(r, path,
                                paulis[i] == 'X'   ? QR_GATE_X
                                : paulis[i] == 'Y' ? QR_GATE_Y
                                                   : QR_GATE_Z,
                                qubits[i], 1));
    QR_TRY(phase_of(r, path, coefficient, &phase));
    return add_phase(r, path, phase);
}

/* e^(i pi exponent) where the product's value is -1, by a rotation and a phase; sign -1: where it
 * is +1. */
static enum qr_code add_eigenspace(struct cirq_reader *r, const char *path, const uint16_t *qubits,
                                   const char *paulis, unsigned n, struct qr_gate_arg exponent,
                                   double sign) {
    const struct qr_gate_use use = {.gate = qr_composite_gate_of("PauliRot"),
                                    .qubits = qubits,
                                    .n_qubits = n,
                                    .paulis = paulis,
                                    .args = {scaled(exponent, sign * M_PI)},
                                    .controls = r->controls,
                                    .control_values = r->control_values};
    if (is_zero(&exponent)) return QR_OK;
    if (strspn(paulis, "I") == n) return sign < 0 ? add_phase(r, path, exponent) : QR_OK;
    QR_TRY(check_room(r, path, 4 * (size_t)n + 2));
    qr_gate_expand(&use, &r->gates.list);
    return add_phase(r, path, scaled(exponent, 0.5));
}

enum qr_code cirq_phasor_apply(struct cirq_reader *r, const struct cirq_scope *scope,
                               const struct qr_json *v, const char *path, const uint16_t *qubits,
                               const char *paulis, unsigned n, double complex coefficient) {
    const struct json_gate g = {scope, v, path, qubits, n};
    struct qr_gate_arg negative, positive;
    double sign = creal(coefficient);
    QR_TRY(cirq_touch(r, path, qubits, n));
    if (cimag(coefficient) != 0 || (sign != 1 && sign != -1))
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s: the Pauli string's coefficient must be 1 or -1", path);
    QR_TRY(read_arg(r, &g, "exponent_neg", &negative));
    QR_TRY(read_arg(r, &g, "exponent_pos", &positive));
    QR_TRY(add_eigenspace(r, path, qubits, paulis, n, negative, sign));
    return add_eigenspace(r, path, qubits, paulis, n, positive, -sign);
}

/* Reads {"pauli_mask": [0..3, ..], "coefficient"}. */
static enum qr_code read_dense(struct cirq_reader *r, const struct json_gate *g,
                               const struct qr_json *v, char paulis[QR_MAX_QUBITS + 1],
                               double complex *ret_coefficient) {
    const struct qr_json *mask = qr_json_get(v, "pauli_mask"), *one = qr_json_first(mask);
    if (qr_json_size(mask) != g->n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.pauli_mask must have %u entries", g->path,
                       g->n);
    for (unsigned i = 0; i < g->n; i++, one = qr_json_next(one)) {
        int64_t pauli;
        QR_TRY(qr_json_i64(one, g->path, 0, 3, &pauli, r->err));
        paulis[i] = "IXYZ"[pauli];
    }
    paulis[g->n] = 0;
    return cirq_json_complex(r, qr_json_get(v, "coefficient"), g->path, ret_coefficient);
}

static enum qr_code read_dense_pauli(struct cirq_reader *r, const struct json_gate *g) {
    char paulis[QR_MAX_QUBITS + 1];
    double complex coefficient;
    QR_TRY(read_dense(r, g, g->v, paulis, &coefficient));
    return cirq_paulis_apply(r, g->path, g->qubits, paulis, g->n, coefficient);
}

static enum qr_code read_phasor(struct cirq_reader *r, const struct json_gate *g) {
    char paulis[QR_MAX_QUBITS + 1];
    double complex coefficient;
    QR_TRY(read_dense(r, g, qr_json_get(g->v, "dense_pauli_string"), paulis, &coefficient));
    return cirq_phasor_apply(r, g->scope, g->v, g->path, g->qubits, paulis, g->n, coefficient);
}

/* CZ^t in the bases of two Paulis; a sign exchanges the eigenspaces. */
static enum qr_code read_interaction(struct cirq_reader *r, const struct json_gate *g) {
    static const char *const keys[][2] = {{"pauli0", "invert0"}, {"pauli1", "invert1"}};
    const struct qr_qubits controls = r->controls, values = r->control_values;
    struct qr_gate_arg exponent = {QR_ARG_CONSTANT, 1, 0}; /* Cirq 1.5 does not write it */
    uint32_t state = 3;
    if (qr_json_get(g->v, "exponent")) QR_TRY(read_arg(r, g, "exponent", &exponent));
    for (unsigned pass = 0; pass < 2; pass++) {
        /* Changes of basis need no controls. */
        r->controls = r->control_values = (struct qr_qubits){0};
        for (unsigned k = 0; k < 2; k++) {
            const char *type = cirq_json_type(qr_json_get(g->v, keys[k][0]));
            bool inverted = false, x = strcmp(type, "_PauliX") == 0;
            if (!x && strcmp(type, "_PauliY") != 0 && strcmp(type, "_PauliZ") != 0)
                return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.%s is not a Pauli", g->path,
                               keys[k][0]);
            QR_TRY(qr_json_bool(qr_json_get(g->v, keys[k][1]), g->path, &inverted, r->err));
            if (inverted) state &= ~(2u >> k);
            if (strcmp(type, "_PauliZ") != 0)
                QR_TRY(add_constant(r, g->path, x ? QR_GATE_H : QR_GATE_X, g->qubits[k],
                                    x      ? 1
                                    : pass ? -0.5
                                           : 0.5));
        }
        r->controls = controls;
        r->control_values = values;
        if (!pass) QR_TRY(add_state_phase(r, g, state, exponent));
    }
    return QR_OK;
}

/* ---- gates of several native gates ---- */

/* Z^-a X^x Z^a, then Z^z. */
static enum qr_code read_phased_xz(struct cirq_reader *r, const struct json_gate *g) {
    struct qr_gate_arg z;
    struct qr_gate x = {
        .kind = QR_GATE_PHASED_X, .n_targets = 1, .n_args = 2, .targets = {g->qubits[0]}};
    QR_TRY(read_arg(r, g, "axis_phase_exponent", &x.args[0]));
    QR_TRY(read_arg(r, g, "x_exponent", &x.args[1]));
    QR_TRY(read_arg(r, g, "z_exponent", &z));
    QR_TRY(cirq_gate_add(r, g->path, &x));
    return add_power(r, g->path, QR_GATE_Z, g->qubits[0], z, 0);
}

/* FSIM between phases of 1: chi - gamma and -gamma - zeta before, zeta - chi on the first after. */
static enum qr_code read_phased_fsim(struct cirq_reader *r, const struct json_gate *g) {
    struct qr_gate_arg zeta, chi, gamma;
    struct qr_gate fsim = {
        .kind = QR_GATE_FSIM, .n_targets = 2, .n_args = 2, .targets = {g->qubits[0], g->qubits[1]}};
    QR_TRY(read_arg(r, g, "theta", &fsim.args[0]));
    QR_TRY(read_arg(r, g, "phi", &fsim.args[1]));
    QR_TRY(read_arg(r, g, "zeta", &zeta));
    QR_TRY(read_arg(r, g, "chi", &chi));
    QR_TRY(read_arg(r, g, "gamma", &gamma));
    const struct {
        unsigned qubit;
        const struct qr_gate_arg *angle;
        double sign;
        bool after;
    } phases[] = {{0, &chi, 1, false},   {0, &gamma, -1, false}, {1, &gamma, -1, false},
                  {1, &zeta, -1, false}, {0, &zeta, 1, true},    {0, &chi, -1, true}};
    for (unsigned i = 0; i < 6; i++) {
        if (i == 4) QR_TRY(cirq_gate_add(r, g->path, &fsim));
        QR_TRY(add_power(r, g->path, QR_GATE_Z, g->qubits[phases[i].qubit],
                         scaled(*phases[i].angle, phases[i].sign / M_PI), 0));
    }
    return QR_OK;
}

static enum qr_code read_u(struct cirq_reader *r, const struct json_gate *g) {
    static const struct {
        const char *key;
        enum qr_gate_kind kind;
    } turns[] = {{"lmda", QR_GATE_Z}, {"theta", QR_GATE_Y}, {"phi", QR_GATE_Z}};
    struct qr_gate_arg angle;
    for (unsigned i = 0; i < 3; i++) {
        QR_TRY(read_arg(r, g, turns[i].key, &angle));
        QR_TRY(add_power(r, g->path, turns[i].kind, g->qubits[0], angle, -0.5));
    }
    return QR_OK;
}

static enum qr_code read_phase_gradient(struct cirq_reader *r, const struct json_gate *g) {
    struct qr_gate_arg exponent;
    QR_TRY(read_arg(r, g, "exponent", &exponent));
    for (unsigned i = 0; i < g->n; i++)
        QR_TRY(
            add_power(r, g->path, QR_GATE_Z, g->qubits[i], scaled(exponent, ldexp(1, -(int)i)), 0));
    return QR_OK;
}

static enum qr_code read_fourier(struct cirq_reader *r, const struct json_gate *g) {
    bool without_reverse = false;
    const struct qr_json *reverse = qr_json_get(g->v, "without_reverse");
    if (reverse) QR_TRY(qr_json_bool(reverse, g->path, &without_reverse, r->err));
    for (unsigned i = 0; i < g->n; i++) {
        for (unsigned k = 0; k < i; k++) {
            struct qr_gate cz = {.kind = QR_GATE_CZ,
                                 .n_targets = 2,
                                 .n_args = 1,
                                 .targets = {g->qubits[i], g->qubits[k]},
                                 .args = {{QR_ARG_CONSTANT, ldexp(0.5, -(int)(i - 1 - k)), 0}}};
            QR_TRY(cirq_gate_add(r, g->path, &cz));
        }
        QR_TRY(add_constant(r, g->path, QR_GATE_H, g->qubits[i], 1));
    }
    for (unsigned i = 0; i < g->n / 2 && !without_reverse; i++)
        QR_TRY(add_swap(r, g->path, g->qubits[i], g->qubits[g->n - 1 - i]));
    return QR_OK;
}

/* The qubit at i moves to permutation[i]. */
static enum qr_code read_permutation(struct cirq_reader *r, const struct json_gate *g) {
    int64_t to[QR_MAX_QUBITS];
    struct qr_qubits seen = {0};
    const struct qr_json *list = qr_json_get(g->v, "permutation"), *one = qr_json_first(list);
    if (qr_json_size(list) != g->n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.permutation must have %u entries", g->path,
                       g->n);
    for (unsigned i = 0; i < g->n; i++, one = qr_json_next(one)) {
        QR_TRY(qr_json_i64(one, g->path, 0, (int64_t)g->n - 1, &to[i], r->err));
        if (qr_qubits_has(&seen, (unsigned)to[i]))
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s.permutation has %d twice", g->path,
                           (int)to[i]);
        qr_qubits_add(&seen, (unsigned)to[i]);
    }
    for (unsigned i = 0; i < g->n; i++)
        while (to[i] != i) {
            unsigned at = (unsigned)to[i];
            QR_TRY(add_swap(r, g->path, g->qubits[i], g->qubits[at]));
            to[i] = to[at];
            to[at] = at;
        }
    return QR_OK;
}

static enum qr_code read_diagonal(struct cirq_reader *r, const struct json_gate *g) {
    const struct qr_json *angles = qr_json_get(g->v, "diag_angles_radians");
    struct qr_gate_arg angle;
    uint32_t state = 0;
    if (g->n > MAX_DIAGONAL_QUBITS || qr_json_size(angles) != (size_t)1 << g->n)
        return qr_fail(r->err, QR_INVALID_ARGUMENT,
                       "%s.diag_angles_radians must have 2^n angles for n qubits, n at most %d",
                       g->path, MAX_DIAGONAL_QUBITS);
    for (const struct qr_json *v = qr_json_first(angles); v; v = qr_json_next(v), state++) {
        struct qr_path path = qr_path_of("%s.diag_angles_radians[%u]", g->path, state);
        QR_TRY(cirq_json_arg(r, g->scope, v, path.s, &angle));
        QR_TRY(add_state_phase(r, g, state, scaled(angle, 1 / M_PI)));
    }
    return QR_OK;
}

static enum qr_code read_entries(struct cirq_reader *r, const struct qr_json *rows,
                                 const char *path, unsigned dim, double complex *ret) {
    unsigned i = 0;
    for (const struct qr_json *one = qr_json_first(rows); one; one = qr_json_next(one)) {
        if (qr_json_size(one) != dim || i == dim * dim) break;
        for (const struct qr_json *v = qr_json_first(one); v; v = qr_json_next(v), i++) {
            struct qr_path at = qr_path_of("%s[%u][%u]", path, i / dim, i % dim);
            QR_TRY(cirq_json_complex(r, v, at.s, &ret[i]));
            /* Larger entries would overflow below. */
            if (!(fabs(creal(ret[i])) <= 2) || !(fabs(cimag(ret[i])) <= 2))
                return qr_fail(r->err, QR_INVALID_ARGUMENT,
                               "%s is above 1: no entry of a unitary matrix or Kraus operator is",
                               at.s);
        }
    }
    if (i != dim * dim || qr_json_size(rows) != dim)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s must be %ux%u", path, dim, dim);
    return QR_OK;
}

static enum qr_code read_unitary(struct cirq_reader *r, const struct json_gate *g, unsigned dim,
                                 double complex *ret) {
    struct qr_path path = qr_path_of("%s.matrix", g->path);
    unsigned row = 0, column = 0;
    QR_TRY(read_entries(r, qr_json_get(g->v, "matrix"), path.s, dim, ret));
    double off = qr_unitarity_error(ret, dim, &row, &column);
    return off <= UNITARY_WITHIN
               ? QR_OK
               : qr_fail(r->err, QR_INVALID_ARGUMENT,
                         "%s.matrix is unitary only within %.2g; at most %g is allowed", g->path,
                         off, UNITARY_WITHIN);
}

static enum qr_code read_matrix(struct cirq_reader *r, const struct json_gate *g) {
    const struct qr_composite_gate *unitary = qr_composite_gate_of("Unitary");
    if (g->n < unitary->least || g->n > unitary->most)
        return qr_fail(r->err, QR_UNIMPLEMENTED, "%s: a matrix acts on 1 to %u qubits, not %u",
                       g->path, unitary->most, g->n);
    unsigned dim = 1u << g->n;
    qr_auto(qr_free_p) double complex *u = qr_xcalloc((size_t)dim * dim, sizeof *u);
    QR_TRY(read_unitary(r, g, dim, u));
    const struct qr_gate_use use = {.gate = unitary,
                                    .qubits = g->qubits,
                                    .n_qubits = g->n,
                                    .matrix = u,
                                    .controls = r->controls,
                                    .control_values = r->control_values};
    qr_gate_expand(&use, &r->gates.list);
    return check_room(r, g->path, 0);
}

/* ---- gates with other gates in them ---- */

static enum qr_code read_parallel(struct cirq_reader *r, const struct json_gate *g) {
    struct qr_path path = qr_path_of("%s.sub_gate", g->path);
    for (unsigned i = 0; i < g->n; i++)
        QR_TRY(
            cirq_json_gate(r, g->scope, qr_json_get(g->v, "sub_gate"), path.s, &g->qubits[i], 1));
    return QR_OK;
}

static enum qr_code read_controlled(struct cirq_reader *r, const struct json_gate *g) {
    return cirq_json_controlled(r, g->scope, g->v, g->path, g->qubits, g->n);
}

static enum qr_code read_inverse(struct cirq_reader *r, const struct json_gate *g) {
    size_t from = r->gates.list.n;
    struct qr_path path = qr_path_of("%s.original", g->path);
    QR_TRY(cirq_json_gate(r, g->scope, qr_json_get(g->v, "original"), path.s, g->qubits, g->n));
    QR_TRY(qr_channel_reject(&r->gates, from, path.s, "inverted"));
    qr_gate_list_invert(&r->gates.list, from);
    return QR_OK;
}

/* ---- no gates ---- */

static enum qr_code read_nothing(struct cirq_reader *r, const struct json_gate *g) {
    (void)r;
    (void)g;
    return QR_OK;
}

static enum qr_code read_global_phase(struct cirq_reader *r, const struct json_gate *g) {
    struct qr_gate_arg phase;
    double complex coefficient;
    struct qr_path path = qr_path_of("%s.coefficient", g->path);
    QR_TRY(cirq_json_complex(r, qr_json_get(g->v, "coefficient"), path.s, &coefficient));
    QR_TRY(phase_of(r, path.s, coefficient, &phase));
    return add_phase(r, g->path, phase);
}

/* Qubits begin as 0: an untouched one is reset already, except in a circuit that may be repeated.
 */
static enum qr_code read_reset(struct cirq_reader *r, const struct json_gate *g) {
    const struct qr_json *dimension = qr_json_get(g->v, "dimension");
    struct qr_path path = qr_path_of("%s.dimension", g->path);
    int64_t two;
    if (dimension) QR_TRY(qr_json_i64(dimension, path.s, 2, 2, &two, r->err));
    for (unsigned i = 0; i < g->n; i++) {
        struct qr_channel reset = {.info = qr_channel_info_of("Reset", 1)};
        if (g->scope || qr_qubits_has(&r->touched, g->qubits[i]))
            QR_TRY(cirq_channel_add(r, g->path, &reset, &g->qubits[i]));
        else qr_qubits_add(&r->used, g->qubits[i]);
    }
    return QR_OK;
}

static enum qr_code start_measurement(struct cirq_reader *r, const struct json_gate *g) {
    if (!qr_qubits_is_empty(&r->controls))
        return qr_fail(r->err, QR_UNIMPLEMENTED, "%s: a controlled measurement; remove the control",
                       g->path);
    for (unsigned i = 0; i < g->n; i++) qr_qubits_add(&r->measured, g->qubits[i]);
    return QR_OK;
}

/* Z of each qubit, with the opposite sign where the result is inverted. */
static enum qr_code read_measurement(struct cirq_reader *r, const struct json_gate *g) {
    const struct qr_json *invert = qr_json_first(qr_json_get(g->v, "invert_mask"));
    if (qr_json_first(qr_json_get(g->v, "confusion_map")))
        return qr_fail(r->err, QR_UNIMPLEMENTED,
                       "%s.confusion_map: measurements have no errors; remove it", g->path);
    QR_TRY(start_measurement(r, g));
    for (unsigned i = 0; i < g->n; i++) {
        bool inverted = false;
        if (invert) QR_TRY(qr_json_bool(invert, g->path, &inverted, r->err));
        if (invert) invert = qr_json_next(invert);
        cirq_readout_new(r);
        QR_TRY(cirq_term_add(r, g->path, inverted ? -1 : 1, 0, &g->qubits[i], "Z", 1));
    }
    return QR_OK;
}

static enum qr_code read_pauli_measurement(struct cirq_reader *r, const struct json_gate *g) {
    char paulis[QR_MAX_QUBITS + 1];
    uint16_t qubits[QR_MAX_QUBITS];
    double complex coefficient;
    unsigned n = 0;
    QR_TRY(read_dense(r, g, qr_json_get(g->v, "observable"), paulis, &coefficient));
    for (unsigned i = 0; i < g->n; i++)
        if (paulis[i] != 'I') qubits[n] = g->qubits[i], paulis[n++] = paulis[i];
    QR_TRY(start_measurement(r, g));
    cirq_readout_new(r);
    return cirq_term_add(r, g->path, creal(coefficient), cimag(coefficient), qubits, paulis, n);
}

/* ---- noise ---- */

/* {"I": 0.9, "X": 0.1}, or letters of two qubits; the rest is not an error. */
static enum qr_code read_errors(struct cirq_reader *r, const struct json_gate *g,
                                const struct qr_json *errors, struct qr_channel *c) {
    static const char letters[] = "IXYZ";
    struct qr_path path = qr_path_of("%s.error_probabilities", g->path);
    QR_TRY(qr_json_want(errors, path.s, QR_JSON_OBJECT, r->err));
    for (const struct qr_json *v = qr_json_first(errors); v; v = qr_json_next(v)) {
        const char *key = qr_json_key(v);
        unsigned pauli = 0;
        double p;
        if (strlen(key) != g->n || strspn(key, letters) != g->n)
            return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: '%.20s' has no Pauli for each qubit",
                           path.s, key);
        for (const char *s = key; *s; s++)
            pauli = 4 * pauli + (unsigned)(strchr(letters, *s) - letters);
        QR_TRY(qr_json_double(v, path.s, 0, 1, &p, r->err));
        for (unsigned k = 0; k < c->info->n_args; k++)
            if (c->info->paulis[k] == 1u << pauli) c->args[k].scale = p;
    }
    return QR_OK;
}

static enum qr_code read_strengths(struct cirq_reader *r, const struct json_gate *g,
                                   struct qr_channel *c) {
    const struct qr_json *n_qubits = qr_json_get(g->v, "n_qubits"),
                         *errors = qr_json_get(g->v, "error_probabilities");
    struct qr_path path = qr_path_of("%s.n_qubits", g->path);
    int64_t n;
    if (n_qubits) QR_TRY(qr_json_i64(n_qubits, path.s, g->n, g->n, &n, r->err));
    if (errors) return read_errors(r, g, errors, c);
    for (unsigned k = 0; k < c->info->n_args; k++) {
        QR_TRY(read_arg(r, g, c->info->arg_names[k], &c->args[k]));
        if (c->args[k].kind != QR_ARG_CONSTANT)
            return qr_fail(r->err, QR_UNIMPLEMENTED,
                           "%s.%s must be a number; resolve the symbols first", g->path,
                           c->info->arg_names[k]);
    }
    return QR_OK;
}

/* Operators; or [probability, unitary matrix] pairs. */
static enum qr_code read_operators(struct cirq_reader *r, const struct json_gate *g, bool mixture,
                                   struct qr_channel *c) {
    struct qr_path path = qr_path_of("%s.%s", g->path, mixture ? "_mixture" : "_kraus_ops");
    const struct qr_json *list = qr_json_get(g->v, mixture ? "_mixture" : "_kraus_ops");
    size_t n = qr_json_size(list), size = (size_t)1 << 2 * g->n;
    QR_TRY(qr_json_want(list, path.s, QR_JSON_ARRAY, r->err));
    if (n < 1 || n > QR_CHANNEL_KRAUS)
        return qr_fail(r->err, QR_INVALID_ARGUMENT, "%s has %zu operators; give 1 to %d", path.s, n,
                       QR_CHANNEL_KRAUS);
    c->kraus = qr_xcalloc(n * size, sizeof *c->kraus);
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v), c->n_kraus++) {
        struct qr_path at = qr_path_of("%s[%u]", path.s, c->n_kraus);
        double complex *m = c->kraus + c->n_kraus * size;
        double p = 1;
        if (mixture) QR_TRY(qr_json_double(qr_json_at(v, 0), at.s, 0, 1, &p, r->err));
        QR_TRY(read_entries(r, mixture ? qr_json_at(v, 1) : v, at.s, 1u << g->n, m));
        for (size_t i = 0; i < size && mixture; i++) m[i] *= sqrt(p);
    }
    return QR_OK;
}

static enum qr_code read_channel(struct cirq_reader *r, const struct json_gate *g, bool mixture,
                                 const struct qr_channel_info *info) {
    struct qr_channel c = {.info = info};
    enum qr_code code = info->kraus ? read_operators(r, g, mixture, &c) : read_strengths(r, g, &c);
    if (!code) return cirq_channel_add(r, g->path, &c, g->qubits);
    qr_channel_fini(&c);
    return code;
}

/* A channel of this class, on n qubits if there is one. */
static const struct qr_channel_info *find_channel(const char *type, unsigned n) {
    const struct qr_channel_info *info, *any = NULL;
    for (size_t i = 0; (info = qr_channel_info_at(i)); i++) {
        if (!info->cirq || strcmp(info->cirq, type) != 0) continue;
        if (info->n_targets == n) return info;
        any = info;
    }
    return any;
}

/* ---- the tables ---- */

#define ROW(name, gate) .type = (name), .kind = QR_GATE_##gate
#define RADIANS .key = "rads", .factor = 1 / M_PI, .shift = -0.5
/* Native gates, on the qubits after n_controls controls of their own. */
static const struct native_row {
    const char *type;
    enum qr_gate_kind kind;
    uint8_t n_controls;
    const char *key; /* of the argument; NULL: the names of the gate */
    double factor;   /* of the argument, where it has a key */
    double shift;
    bool fixed; /* exponent 1 */
} native_rows[] = {
    {ROW("_PauliX", X)},
    {ROW("_PauliY", Y)},
    {ROW("_PauliZ", Z)},
    {ROW("XPowGate", X)},
    {ROW("YPowGate", Y)},
    {ROW("ZPowGate", Z)},
    {ROW("HPowGate", H)},
    {ROW("Rx", X), RADIANS},
    {ROW("Ry", Y), RADIANS},
    {ROW("Rz", Z), RADIANS},
    {ROW("XXPowGate", XX)},
    {ROW("YYPowGate", YY)},
    {ROW("ZZPowGate", ZZ)},
    {ROW("cirq.MSGate", XX), .key = "rads", .factor = 2 / M_PI, .shift = -0.5},
    {ROW("CZPowGate", CZ)},
    {ROW("CXPowGate", CNOT)},
    {ROW("CNotPowGate", CNOT)},
    {ROW("SwapPowGate", SWAP)},
    {ROW("ISwapPowGate", ISWAP)},
    {ROW("PhasedXPowGate", PHASED_X)},
    {ROW("PhasedISwapPowGate", PHASED_ISWAP)},
    {ROW("FSimGate", FSIM)},
    {ROW("CCXPowGate", X), .n_controls = 2},
    {ROW("CCNotPowGate", X), .n_controls = 2},
    {ROW("CCZPowGate", Z), .n_controls = 2},
    {ROW("CSwapGate", SWAP), .n_controls = 1, .fixed = true},
};

/* Others; n_qubits 0: any number. */
static const struct other_row {
    const char *type;
    uint8_t n_qubits;
    bool any; /* measured or untouched qubits, which read checks */
    enum qr_code (*read)(struct cirq_reader *r, const struct json_gate *g);
} other_rows[] = {
    {"PhasedXZGate", 1, false, read_phased_xz},
    {"PhasedFSimGate", 2, false, read_phased_fsim},
    {"QasmUGate", 1, false, read_u},
    {"PhaseGradientGate", 0, false, read_phase_gradient},
    {"QuantumFourierTransformGate", 0, false, read_fourier},
    {"QubitPermutationGate", 0, false, read_permutation},
    {"DiagonalGate", 0, false, read_diagonal},
    {"TwoQubitDiagonalGate", 2, false, read_diagonal},
    {"ThreeQubitDiagonalGate", 3, false, read_diagonal},
    {"MatrixGate", 0, false, read_matrix},
    {"DensePauliString", 0, true, read_dense_pauli},
    {"MutableDensePauliString", 0, true, read_dense_pauli},
    {"PauliStringPhasorGate", 0, true, read_phasor},
    {"PauliInteractionGate", 2, false, read_interaction},
    {"ParallelGate", 0, true, read_parallel},
    {"ControlledGate", 0, true, read_controlled},
    {"_InverseCompositeGate", 0, true, read_inverse},
    {"IdentityGate", 0, false, read_nothing},
    {"WaitGate", 0, false, read_nothing},
    {"GlobalPhaseGate", 0, false, read_global_phase},
    {"GlobalPhaseOperation", 0, false, read_global_phase},
    {"ResetChannel", 0, true, read_reset},
    {"MeasurementGate", 0, false, read_measurement},
    {"PauliMeasurementGate", 0, false, read_pauli_measurement},
};

static enum qr_code check_qubits(struct cirq_reader *r, const struct json_gate *g, const char *type,
                                 unsigned wanted) {
    return !wanted || g->n == wanted
               ? QR_OK
               : qr_fail(r->err, QR_INVALID_ARGUMENT, "%s: %s acts on %u qubits, not %u", g->path,
                         type, wanted, g->n);
}

static enum qr_code read_native(struct cirq_reader *r, const struct json_gate *from,
                                const struct native_row *row) {
    const struct qr_gate_info *info = qr_gate_info(row->kind);
    const struct qr_json *shift = qr_json_get(from->v, "global_shift");
    struct qr_gate g = {.kind = row->kind,
                        .n_targets = info->n_targets,
                        .n_args = info->n_args,
                        .args = {{QR_ARG_CONSTANT, 1, 0}},
                        .global_shift = row->shift};
    struct qr_path path = qr_path_of("%s.global_shift", from->path);
    QR_TRY(check_qubits(r, from, row->type, (unsigned)row->n_controls + info->n_targets));
    QR_TRY(cirq_touch(r, from->path, from->qubits, from->n));
    for (unsigned k = 0; k < g.n_targets; k++) g.targets[k] = from->qubits[row->n_controls + k];
    for (unsigned k = 0; k < row->n_controls; k++) qr_gate_control(&g, from->qubits[k], true);
    for (unsigned k = 0; k < g.n_args && !row->fixed; k++)
        QR_TRY(read_arg(r, from, row->key ? row->key : info->arg_names[k], &g.args[k]));
    if (row->key) g.args[0].scale *= row->factor;
    if (shift && info->has_exponent && !row->key)
        QR_TRY(qr_json_double(shift, path.s, -INFINITY, INFINITY, &g.global_shift, r->err));
    /* The phase of a gate with controls of its own is that of the whole. */
    if (row->n_controls) QR_TRY(add_phase(r, from->path, scaled(g.args[0], g.global_shift)));
    if (row->n_controls) g.global_shift = 0;
    return cirq_gate_add(r, from->path, &g);
}

enum qr_code cirq_json_gate(struct cirq_reader *r, const struct cirq_scope *scope,
                            const struct qr_json *gate, const char *path, const uint16_t *qubits,
                            unsigned n) {
    const char *type = cirq_json_type(gate);
    const struct json_gate g = {scope, gate, path, qubits, n};
    QR_TRY(cirq_count(r, path, 1));
    for (size_t i = 0; i < sizeof native_rows / sizeof *native_rows; i++)
        if (strcmp(native_rows[i].type, type) == 0) return read_native(r, &g, &native_rows[i]);
    for (size_t i = 0; i < sizeof other_rows / sizeof *other_rows; i++) {
        if (strcmp(other_rows[i].type, type) != 0) continue;
        QR_TRY(check_qubits(r, &g, type, other_rows[i].n_qubits));
        if (!other_rows[i].any) QR_TRY(cirq_touch(r, path, qubits, n));
        return other_rows[i].read(r, &g);
    }
    bool mixture = strcmp(type, "MixedUnitaryChannel") == 0;
    const struct qr_channel_info *channel = find_channel(mixture ? "KrausChannel" : type, n);
    if (channel) {
        QR_TRY(check_qubits(r, &g, type, channel->n_targets));
        return read_channel(r, &g, mixture, channel);
    }
    size_t end = strlen(type);
    return qr_fail(
        r->err, QR_UNIMPLEMENTED, "%s: the gate '%.60s' is unknown; %s may rewrite it", path, type,
        end > 7 && strcmp(type + end - 7, "Channel") == 0 ? "cirq.KrausChannel.from_channel(gate)"
                                                          : "cirq.expand_composite");
}
