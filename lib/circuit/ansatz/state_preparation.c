/* circuit/ansatz/state_preparation.c — prepares a state from |0...0> (Möttönen, Vartiainen,
 * Bergholm, Salomaa 2005). Start reading at qr_ansatz_amplitude().
 *
 * Rotations about Y of each qubit, controlled by the qubits before it, give the magnitudes of the
 * amplitudes. For a constant state rotations about Z give the phases. Amplitudes that are inputs
 * are real: the last qubit's rotations give their signs. Angles are ratios, so nothing is divided
 * by the norm.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"
#include "exact/functions.h"

enum { MAX_STATE_QUBITS = 20, MAX_INPUT_QUBITS = 14 };

/* A norm with seven digits is accurate enough: only the ratios of amplitudes matter. */
#define NORM_WITHIN 1e-6

/* ---- constants, or numbers of each sample ---- */

static struct qr_expression_node constant_node(double v) {
    return (struct qr_expression_node){.op = QR_EXPRESSION_NUMBER, .number = v};
}

static struct qr_expression_node state_combine(struct qr_ansatz_builder *b,
                                               enum qr_expression_op op,
                                               struct qr_expression_node x,
                                               struct qr_expression_node y) {
    struct qr_expression_node made = constant_node(0);
    if (x.op == QR_EXPRESSION_NUMBER && y.op == QR_EXPRESSION_NUMBER)
        return constant_node(qr_expression_apply(op, x.number, y.number));
    if (!b->code) b->code = b->use->host->combine(b->use->at, op, x, y, &made);
    return made;
}

/* Rotates qubit k by turn * angles[j], j the state of the qubits before it, the first most
 * significant: uncontrolled rotations between CNOTs from the qubit of the bit that changes in the
 * Gray code. */
static void add_multiplexed(struct qr_ansatz_builder *b, const char *gate, unsigned k, double turn,
                            struct qr_expression_node *angles) {
    size_t n = (size_t)1 << k;
    bool any = false;
    for (size_t j = 0; j < n; j++)
        any |= angles[j].op != QR_EXPRESSION_NUMBER || fabs(angles[j].number) > 0;
    if (!any) return;
    for (size_t half = 1; half < n; half *= 2) /* Walsh-Hadamard transform */
        for (size_t at = 0; at < n; at += 2 * half)
            for (size_t j = at; j < at + half; j++) {
                struct qr_expression_node one = angles[j], two = angles[j + half];
                angles[j] = state_combine(b, QR_EXPRESSION_ADD, one, two);
                angles[j + half] = state_combine(b, QR_EXPRESSION_SUBTRACT, one, two);
            }
    for (size_t i = 0; i < n && !b->code; i++) {
        const struct qr_expression_node *v = &angles[i ^ i >> 1];
        bool known = v->op == QR_EXPRESSION_NUMBER;
        struct qr_ansatz_angle a = {known ? QR_ANSATZ_NUMBER : QR_ANSATZ_SHARED,
                                    turn / (double)n * (known ? v->number : 1), v->index, ""};
        qr_ansatz_emit_one(b, gate, k, &a);
        if (k) {
            unsigned bit = i + 1 < n ? (unsigned)__builtin_ctzll(i + 1) : k - 1;
            qr_ansatz_emit_two(b, "CNOT", k - 1 - bit, k);
        }
    }
}

/* ---- a constant state ---- */

/* square[j]: squared magnitude of each amplitude; overwritten. */
static void state_add_magnitudes(struct qr_ansatz_builder *b, double *square,
                                 struct qr_expression_node *angles) {
    unsigned n = b->n;
    /* level[k][j]: sum over all amplitudes that begin with j in the first k qubits */
    double *level[MAX_STATE_QUBITS + 1], *all = qr_xcalloc((size_t)2 << n, sizeof *all);
    level[n] = square;
    for (unsigned k = n; k-- > 0;) {
        level[k] = all + ((size_t)1 << k);
        for (size_t j = 0; j < (size_t)1 << k; j++)
            level[k][j] = level[k + 1][2 * j] + level[k + 1][2 * j + 1];
    }
    for (unsigned k = 0; k < n; k++) {
        for (size_t j = 0; j < (size_t)1 << k; j++)
            angles[j] =
                constant_node(qr_atan2(sqrt(level[k + 1][2 * j + 1]), sqrt(level[k + 1][2 * j])));
        add_multiplexed(b, "RY", k, 2, angles);
    }
    free(all);
}

static void state_add_phases(struct qr_ansatz_builder *b, double *phase,
                             struct qr_expression_node *angles) {
    for (unsigned k = b->n; k-- > 0;) {
        for (size_t j = 0; j < (size_t)1 << k; j++) {
            double zero = phase[2 * j], one = phase[2 * j + 1];
            angles[j] = constant_node(one - zero);
            phase[j] = 0.5 * (zero + one);
        }
        add_multiplexed(b, "RZ", k, 1, angles);
    }
    qr_ansatz_emit_phase(b, &(struct qr_ansatz_angle){QR_ANSATZ_NUMBER, phase[0], 0, ""});
}

/* Reads a number, or [re, im]. */
static void read_amplitude(struct qr_ansatz_builder *b, const struct qr_json *v, size_t i,
                           double ret[2]) {
    char key[32];
    snprintf(key, sizeof key, "state[%zu]", i);
    struct qr_ansatz_path path = qr_ansatz_path(b, key);
    bool pair = qr_json_type(v) == QR_JSON_ARRAY && qr_json_size(v) == 2;
    ret[1] = 0;
    if (!pair && qr_json_type(v) != QR_JSON_NUMBER)
        qr_ansatz_fail(b, key, "must be a number or [re, im]");
    for (unsigned k = 0; k < 1u + pair && !b->code; k++)
        b->code = qr_json_double(pair ? qr_json_at(v, k) : v, path.s, -1e100, 1e100, &ret[k],
                                 b->use->err);
}

/* The value of amplitudes that are not given. */
static double read_padding(struct qr_ansatz_builder *b) {
    const struct qr_json *v = qr_json_get(b->use->options, "pad_with");
    struct qr_ansatz_path path = qr_ansatz_path(b, "pad_with");
    double pad = 0;
    if (v && !b->code) b->code = qr_json_double(v, path.s, -1e100, 1e100, &pad, b->use->err);
    return pad;
}

/* Fails unless n amplitudes are enough; without padding all must be given. */
static void check_amplitude_count(struct qr_ansatz_builder *b, const char *key, size_t n) {
    size_t dim = (size_t)1 << b->n;
    if (n > dim || (n < dim && !qr_json_get(b->use->options, "pad_with")))
        qr_ansatz_fail(b, key, "%zu amplitudes; %u qubit%s have %zu%s", n, b->n,
                       b->n == 1 ? "" : "s", dim,
                       n < dim ? "; \"pad_with\": 0 fills the others" : "");
}

static void read_amplitudes(struct qr_ansatz_builder *b, double *square, double *phase) {
    const struct qr_json *list = qr_json_get(b->use->options, "state");
    size_t dim = (size_t)1 << b->n, i = 0;
    double sum = 0, pad = read_padding(b);
    bool normalize = qr_ansatz_flag(b, "normalize", false);
    if (!b->code)
        b->code = qr_json_want(list, qr_ansatz_path(b, "state").s, QR_JSON_ARRAY, b->use->err);
    if (!b->code) check_amplitude_count(b, "state", qr_json_size(list));
    const struct qr_json *v = b->code ? NULL : qr_json_first(list);
    for (; i < dim && !b->code; i++) {
        double a[2] = {pad, 0};
        if (v) read_amplitude(b, v, i, a);
        square[i] = a[0] * a[0] + a[1] * a[1];
        phase[i] = qr_atan2(a[1], a[0]);
        sum += square[i];
        v = v ? qr_json_next(v) : NULL;
    }
    if (!b->code && !(sum > DBL_MIN)) qr_ansatz_fail(b, "state", "all amplitudes are 0");
    if (!b->code && !normalize && fabs(sum - 1) > NORM_WITHIN)
        qr_ansatz_fail(b, "state",
                       "the squares of the amplitudes add up to %.9g, not to 1; \"normalize\": "
                       "true divides them by the norm",
                       sum);
}

static void build_constant_state(struct qr_ansatz_builder *b) {
    if (b->n > MAX_STATE_QUBITS)
        qr_ansatz_fail(b, NULL, "'amplitude' takes at most %d qubits, not %u", MAX_STATE_QUBITS,
                       b->n);
    size_t dim = b->code ? 0 : (size_t)1 << b->n;
    if (!b->code) b->code = b->use->host->count(b->use->at, qr_ansatz_path(b, "state").s, dim);
    if (b->code) return;
    double *square = qr_xcalloc(2 * dim, sizeof *square), *phase = square + dim;
    struct qr_expression_node *angles = qr_xcalloc(dim, sizeof *angles);
    read_amplitudes(b, square, phase);
    if (!b->code) {
        state_add_magnitudes(b, square, angles);
        state_add_phases(b, phase, angles);
        if (!b->n_emitted) qr_ansatz_emit_one(b, "I", 0, NULL);
    }
    free(square);
    free(angles);
}

/* ---- a state of inputs ---- */

/* The number of amplitudes that are inputs. */
static unsigned read_input_count(struct qr_ansatz_builder *b) {
    const struct qr_json *options = b->use->options, *data = qr_json_get(options, "data");
    bool list = data && qr_json_type(data) == QR_JSON_ARRAY, given = qr_json_get(options, "inputs");
    unsigned n = qr_ansatz_integer(b, "inputs", 1, 1u << MAX_INPUT_QUBITS, 1u << b->n);
    if (list) n = (unsigned)qr_json_size(data);
    if (list && given)
        qr_ansatz_fail(b, "inputs",
                       "the list in \"data\" sets the number of inputs; remove \"inputs\"");
    if (list && !n) qr_ansatz_fail(b, "data", "no columns");
    if (qr_json_get(options, "pad_with") && !list && !given)
        qr_ansatz_fail(b, "pad_with",
                       "give \"inputs\" (how many amplitudes are inputs), or "
                       "\"data\" as a list of columns");
    if (!qr_ansatz_flag(b, "normalize", true))
        qr_ansatz_fail(b, "normalize", "inputs are always divided by their norm; remove the key");
    check_amplitude_count(b, list ? "data" : "inputs", n);
    return n;
}

/* amplitude: inputs and numbers; overwritten. The last qubit's rotation sets the ratio and the
 * signs of its two amplitudes, each rotation before it splits a magnitude between its two
 * halves. */
static void state_add_angles(struct qr_ansatz_builder *b, struct qr_expression_node *amplitude,
                             struct qr_expression_node *angles) {
    for (unsigned k = b->n; k-- > 0;)
        for (size_t j = 0; j < (size_t)1 << k; j++) {
            struct qr_expression_node zero = amplitude[2 * j], one = amplitude[2 * j + 1];
            angles[((size_t)1 << k) + j] = state_combine(b, QR_EXPRESSION_ATAN2, one, zero);
            if (k) amplitude[j] = state_combine(b, QR_EXPRESSION_HYPOT, zero, one);
        }
    for (unsigned k = 0; k < b->n; k++) add_multiplexed(b, "RY", k, 2, angles + ((size_t)1 << k));
}

static void build_input_state(struct qr_ansatz_builder *b) {
    if (b->n > MAX_INPUT_QUBITS)
        qr_ansatz_fail(b, NULL, "'amplitude' of inputs takes at most %d qubits, not %u",
                       MAX_INPUT_QUBITS, b->n);
    if (b->code) return;
    size_t dim = (size_t)1 << b->n;
    double pad = read_padding(b);
    unsigned n = read_input_count(b);
    if (!b->code) /* combinations count too */
        b->code = b->use->host->count(b->use->at, qr_ansatz_path(b, "data").s, dim * (2 + b->n));
    if (b->code) return;
    uint32_t *columns = qr_xcalloc(dim, sizeof *columns);
    struct qr_expression_node *amplitude = qr_xcalloc(2 * dim, sizeof *amplitude);
    b->code = b->use->host->read_columns(b->use->at, qr_json_get(b->use->options, "data"),
                                         qr_ansatz_path(b, "data").s, n, columns);
    for (size_t i = 0; i < dim; i++)
        amplitude[i] = i < n ? (struct qr_expression_node){QR_EXPRESSION_INPUT, columns[i], 0}
                             : constant_node(pad);
    if (!b->code) state_add_angles(b, amplitude, amplitude + dim);
    free(columns);
    free(amplitude);
}

enum qr_code qr_ansatz_amplitude(const struct qr_ansatz_use *use) {
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    bool constant = qr_json_get(use->options, "state");
    if (constant && (qr_json_get(use->options, "data") || qr_json_get(use->options, "inputs")))
        qr_ansatz_fail(&b, NULL, "has both \"state\" and \"%s\"; give one",
                       qr_json_get(use->options, "data") ? "data" : "inputs");
    (constant ? build_constant_state : build_input_state)(&b);
    return b.code;
}
