/* circuit/gate_unitary.c — a constant unitary on up to six qubits as native gates. Start reading at
 * qr_gate_expand_unitary().
 *
 * Column by column, the entries below the diagonal are eliminated (Givens rotations), each against
 * a row with an index that differs in one bit: a controlled phase makes the phases of the two
 * entries equal, a controlled RY rotates one into the other. From three qubits on the phase is then
 * taken back, and all are one PhasedX: 4^n / 2 of them at most. Phases remain. The unitary is the
 * inverse sequence. Each gate changes two of the 2^n rows, which engines make use of: 2016 gates on
 * six qubits take as long as 126 on two.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "circuit/composite_gates.h"
#include "exact/functions.h"

/* Smaller angles change nothing above the rounding of a matrix's entries. */
#define NO_ANGLE 0x1p-52

/* Up to this many qubits the phases are gates of their own. */
enum { PHASES_APART = 2 };

/* The angle of (x, y) in half-turns, -1 to 1. Newton's method on sin and cos: from 0.08 at most the
 * error is cubed at each step. */
static double half_turns_of(double y, double x) {
    double size = sqrt(x * x + y * y);
    if (size <= 0) return 0;
    x /= size, y /= size;
    double t = 0.5 * fabs(y) / (fabs(x) + fabs(y));
    if (x < 0) t = 1 - t;
    if (y < 0) t = -t;
    for (int i = 0; i < 4; i++) {
        double s, c;
        qr_sincospi(t, &s, &c);
        t += (y * c - x * s) / M_PI;
    }
    return t;
}
static double phase_of(double complex z) { return half_turns_of(cimag(z), creal(z)); }

/* s, c: sine and cosine of the angle. */
static double complex turned(double complex z, double s, double c) {
    return __builtin_complex(creal(z) * c - cimag(z) * s, creal(z) * s + cimag(z) * c);
}

/* Normalizes an angle to (-1, 1]. */
static double wrapped(double t) { return t > 1 ? t - 2 : t <= -1 ? t + 2 : t; }

/* Acts on the qubit of the bit in which rows a and b differ; the others have the same value in
 * both. */
struct rotation {
    unsigned a, b;
    double phase, turn; /* of |1>, and the exponent of RY */
};

/* Makes entry (b, column) zero; returns the rotation. */
static struct rotation eliminate_entry(double complex *u, unsigned n_qubits, unsigned a, unsigned b,
                                       unsigned column) {
    unsigned dim = 1u << n_qubits;
    double complex top = u[a * dim + column], low = u[b * dim + column];
    double size_a = sqrt(creal(top) * creal(top) + cimag(top) * cimag(top)),
           size_b = sqrt(creal(low) * creal(low) + cimag(low) * cimag(low));
    bool rising = b > a; /* b has the 1 bit */
    struct rotation r = {a, b, 0, 0};
    if (size_b <= NO_ANGLE) return r;
    if (size_a > NO_ANGLE)
        r.phase = wrapped(rising ? phase_of(top) - phase_of(low) : phase_of(low) - phase_of(top));
    r.turn = (rising ? -2 : 2) * half_turns_of(size_b, size_a);
    unsigned zero = rising ? a : b, one = rising ? b : a;
    double s, c, sin_phase, cos_phase;
    qr_sincospi(0.5 * r.turn, &s, &c);
    qr_sincospi(r.phase, &sin_phase, &cos_phase);
    for (unsigned k = 0; k < dim; k++) {
        double complex p = u[zero * dim + k], q = turned(u[one * dim + k], sin_phase, cos_phase);
        u[zero * dim + k] =
            __builtin_complex(c * creal(p) - s * creal(q), c * cimag(p) - s * cimag(q));
        u[one * dim + k] =
            __builtin_complex(s * creal(p) + c * creal(q), s * cimag(p) + c * cimag(q));
        if (n_qubits > PHASES_APART)
            u[one * dim + k] = turned(u[one * dim + k], -sin_phase, cos_phase);
    }
    return r;
}

/* A gate on the qubit of the bit in which rows a and b differ, controlled by all others. */
static struct qr_gate gate_on_rows(const struct qr_gate_use *use, enum qr_gate_kind kind,
                                   unsigned a, unsigned b, double exponent, double shift) {
    unsigned n = use->n_qubits, target = n - 1 - (unsigned)__builtin_ctz(a ^ b);
    struct qr_gate g = qr_gate_on(use, kind, target, exponent);
    g.global_shift = shift;
    for (unsigned k = 0; k < n; k++)
        if (k != target) qr_gate_control(&g, use->qubits[k], a >> (n - 1 - k) & 1);
    return g;
}

static void unitary_add_rotation(const struct qr_gate_use *use, const struct rotation *r,
                                 struct qr_gate_list *to) {
    struct qr_gate g = gate_on_rows(use, QR_GATE_Y, r->a, r->b, -r->turn, -0.5);
    if (use->n_qubits > PHASES_APART) { /* Z^-phase Y^-turn Z^phase, and Y is X between Z^1/2 */
        g.kind = QR_GATE_PHASED_X;
        g.n_args = 2;
        g.args[1] = g.args[0];
        g.args[0].scale = 0.5 - r->phase;
    }
    if (fabs(r->turn) > NO_ANGLE) qr_gate_list_add(to, &g);
    if (g.kind == QR_GATE_PHASED_X || fabs(r->phase) <= NO_ANGLE) return;
    g = gate_on_rows(use, QR_GATE_Z, r->a, r->b, -r->phase, 0);
    qr_gate_list_add(to, &g);
}

/* The phase of each basis state, as a power of Z for each set of qubits, one the target, the others
 * controls. */
static void unitary_add_phases(const struct qr_gate_use *use, double *phase,
                               struct qr_gate_list *to) {
    unsigned n = use->n_qubits, dim = 1u << n;
    for (unsigned bit = 1; bit < dim; bit *= 2) /* from each set subtract those of its subsets */
        for (unsigned set = 0; set < dim; set++)
            if (set & bit) phase[set] = wrapped(phase[set] - phase[set ^ bit]);
    if (fabs(phase[0]) > NO_ANGLE)
        qr_gate_list_add_phase(to, &use->controls, &use->control_values,
                               (struct qr_gate_arg){QR_ARG_CONSTANT, phase[0], 0});
    for (unsigned k = 0, last = dim / 2; k < n; k++, last /= 2) /* last: the target, qubit k */
        for (unsigned set = last; set < dim; set += 2 * last) {
            struct qr_gate g = qr_gate_on(use, QR_GATE_Z, k, phase[set]);
            for (unsigned q = 0; q < k; q++)
                if (set >> (n - 1 - q) & 1) qr_gate_control(&g, use->qubits[q], true);
            if (fabs(phase[set]) > NO_ANGLE) qr_gate_list_add(to, &g);
        }
}

/* The rows in an order in which the indices of consecutive ones differ in one bit. */
static unsigned gray(unsigned i) { return i ^ i >> 1; }

void qr_gate_expand_unitary(const struct qr_gate_use *use, struct qr_gate_list *to) {
    unsigned dim = 1u << use->n_qubits, n = 0;
    double complex *u = qr_xcalloc((size_t)dim * dim, sizeof *u);
    struct rotation *made = qr_xcalloc((size_t)dim * dim / 2, sizeof *made);
    double phase[1u << QR_UNITARY_QUBITS];
    memcpy(u, use->matrix, (size_t)dim * dim * sizeof *u);
    for (unsigned c = 0; c + 1 < dim; c++)
        for (unsigned k = dim - 1; k > c; k--)
            made[n++] = eliminate_entry(u, use->n_qubits, gray(k - 1), gray(k), gray(c));
    for (unsigned i = 0; i < dim; i++) phase[i] = phase_of(u[i * dim + i]);
    unitary_add_phases(use, phase, to);
    while (n-- > 0) unitary_add_rotation(use, &made[n], to);
    free(u);
    free(made);
}

double qr_unitarity_error(const double complex *u, unsigned dim, unsigned *ret_row,
                          unsigned *ret_column) {
    double worst = -1;
    for (unsigned r = 0; r < dim; r++)
        for (unsigned c = 0; c < dim; c++) {
            double re = r == c ? -1 : 0, im = 0;
            for (unsigned k = 0; k < dim; k++) {
                double complex a = u[r * dim + k], b = u[c * dim + k];
                re += creal(a) * creal(b) + cimag(a) * cimag(b);
                im += cimag(a) * creal(b) - creal(a) * cimag(b);
            }
            double size = sqrt(re * re + im * im);
            if (size <= worst) continue;
            worst = size;
            *ret_row = r, *ret_column = c;
        }
    return worst;
}
