/* circuit/ansatz/state.c — a constant state from |0...0> (Möttönen, Vartiainen, Bergholm, Salomaa
 * 2005): rotations about Y of each qubit by the state of those before it give the sizes of the
 * amplitudes, rotations about Z their phases. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"
#include "exact/functions.h"

enum { MAX_STATE_QUBITS = 20 };

/* The norm of seven digits is near enough: only the amplitudes' ratios count. */
#define NORM_WITHIN 1e-6

static double angle_of(double y, double x) {
    if (fabs(y) <= 0) return x < 0 ? M_PI : 0;
    if (fabs(x) <= fabs(y)) {
        double a = qr_atan(x / y); /* from the other axis */
        return y > 0 ? M_PI_2 - a : -M_PI_2 - a;
    }
    double a = qr_atan(y / x);
    return x > 0 ? a : y > 0 ? a + M_PI : a - M_PI;
}

/* A rotation of qubit k by angles[j], j the state of the qubits before it, the first most
 * significant: rotations of its own between CNOTs from the qubit whose bit changes in Gray's
 * code. */
static void add_multiplexed(struct qr_ansatz_builder *b, const char *gate, unsigned k,
                            double *angles) {
    size_t n = (size_t)1 << k;
    bool any = false;
    for (size_t j = 0; j < n; j++) any |= fabs(angles[j]) > 0;
    if (!any) return;
    for (size_t half = 1; half < n; half *= 2) /* Walsh and Hadamard */
        for (size_t at = 0; at < n; at += 2 * half)
            for (size_t j = at; j < at + half; j++) {
                double sum = angles[j] + angles[j + half], less = angles[j] - angles[j + half];
                angles[j] = sum;
                angles[j + half] = less;
            }
    for (size_t i = 0; i < n && !b->code; i++) {
        struct qr_ansatz_angle a = {QR_ANSATZ_NUMBER, angles[i ^ i >> 1] / (double)n, 0, ""};
        qr_ansatz_one(b, gate, k, &a);
        if (k) {
            unsigned bit = i + 1 < n ? (unsigned)__builtin_ctzll(i + 1) : k - 1;
            qr_ansatz_two(b, "CNOT", k - 1 - bit, k);
        }
    }
}

/* square[j]: of each amplitude's size; changed. */
static void add_sizes(struct qr_ansatz_builder *b, double *square, double *angles) {
    unsigned n = b->n;
    /* level k: the sums over all that begin alike in the first k qubits, from its place on */
    double *level[MAX_STATE_QUBITS + 1], *all = qr_xcalloc((size_t)2 << n, sizeof *all);
    level[n] = square;
    for (unsigned k = n; k-- > 0;) {
        level[k] = all + ((size_t)1 << k);
        for (size_t j = 0; j < (size_t)1 << k; j++)
            level[k][j] = level[k + 1][2 * j] + level[k + 1][2 * j + 1];
    }
    for (unsigned k = 0; k < n; k++) {
        for (size_t j = 0; j < (size_t)1 << k; j++)
            angles[j] = 2 * angle_of(sqrt(level[k + 1][2 * j + 1]), sqrt(level[k + 1][2 * j]));
        add_multiplexed(b, "RY", k, angles);
    }
    free(all);
}

static void add_phases(struct qr_ansatz_builder *b, double *phase, double *angles) {
    for (unsigned k = b->n; k-- > 0;) {
        for (size_t j = 0; j < (size_t)1 << k; j++) {
            double zero = phase[2 * j], one = phase[2 * j + 1];
            angles[j] = one - zero;
            phase[j] = 0.5 * (zero + one);
        }
        add_multiplexed(b, "RZ", k, angles);
    }
}

/* A number, or [re, im]. */
static void read_amplitude(struct qr_ansatz_builder *b, const struct qr_json *v, size_t i,
                           double ret[2]) {
    char key[32];
    snprintf(key, sizeof key, "state[%zu]", i);
    struct qr_ansatz_path path = qr_ansatz_path(b, key);
    bool pair = qr_json_type(v) == QR_JSON_ARRAY && qr_json_size(v) == 2;
    ret[1] = 0;
    if (!pair && qr_json_type(v) != QR_JSON_NUMBER)
        qr_ansatz_refuse(b, key, "must be a number or [re, im]");
    for (unsigned k = 0; k < 1u + pair && !b->code; k++)
        b->code = qr_json_double(pair ? qr_json_at(v, k) : v, path.s, -1e100, 1e100, &ret[k],
                                 b->use->err);
}

static void read_state(struct qr_ansatz_builder *b, double *square, double *phase) {
    const struct qr_json *list = qr_json_get(b->use->options, "state");
    size_t dim = (size_t)1 << b->n, i = 0;
    double sum = 0;
    bool normalize = qr_ansatz_flag(b, "normalize", false);
    if (!b->code)
        b->code = qr_json_want(list, qr_ansatz_path(b, "state").s, QR_JSON_ARRAY, b->use->err);
    if (!b->code && qr_json_size(list) != dim)
        qr_ansatz_refuse(b, "state", "%zu amplitudes; %u qubit%s have %zu", qr_json_size(list),
                         b->n, b->n == 1 ? "" : "s", dim);
    for (const struct qr_json *v = b->code ? NULL : qr_json_first(list); v && !b->code;
         v = qr_json_next(v), i++) {
        double a[2];
        read_amplitude(b, v, i, a);
        square[i] = a[0] * a[0] + a[1] * a[1];
        phase[i] = angle_of(a[1], a[0]);
        sum += square[i];
    }
    if (!b->code && !(sum > DBL_MIN)) qr_ansatz_refuse(b, "state", "all amplitudes are 0");
    if (!b->code && !normalize && fabs(sum - 1) > NORM_WITHIN)
        qr_ansatz_refuse(b, "state",
                         "the squares of the amplitudes add up to %.9g, not to 1; \"normalize\": "
                         "true divides them",
                         sum);
}

enum qr_code qr_ansatz_amplitude(const struct qr_ansatz_use *use) {
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    if (b.n > MAX_STATE_QUBITS)
        qr_ansatz_refuse(&b, NULL, "'amplitude' is on at most %d qubits, not on %u",
                         MAX_STATE_QUBITS, b.n);
    size_t dim = b.code ? 0 : (size_t)1 << b.n;
    if (!b.code) b.code = use->host->count(use->at, qr_ansatz_path(&b, "state").s, dim);
    if (b.code) return b.code;
    double *numbers = qr_xcalloc(3 * dim, sizeof *numbers);
    double *square = numbers, *phase = numbers + dim, *angles = numbers + 2 * dim;
    read_state(&b, square, phase);
    if (!b.code) {
        add_sizes(&b, square, angles);
        add_phases(&b, phase, angles);
        if (!b.n_said) qr_ansatz_one(&b, "I", 0, NULL);
    }
    free(numbers);
    return b.code;
}
