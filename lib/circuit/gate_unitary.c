/* circuit/gate_unitary.c — a constant unitary on one or two qubits as native gates. Start reading
 * at qr_gate_expand_unitary().
 *
 * Column by column, the entries below the diagonal are eliminated (Givens rotations), each against
 * a row with an index that differs in one bit: a controlled phase makes the phases of the two
 * entries equal, a controlled RY rotates one into the other. Phases remain. The unitary is the
 * inverse sequence.
 */
#include <math.h>

#include "circuit/composite_gates.h"
#include "exact/functions.h"

/* Smaller angles change nothing above the rounding of a matrix's entries. */
#define NO_ANGLE 0x1p-52

enum { MAX_ROTATIONS = 6 };

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

static double complex turned(double complex z, double t) {
    double s, c;
    qr_sincospi(t, &s, &c);
    return __builtin_complex(creal(z) * c - cimag(z) * s, creal(z) * s + cimag(z) * c);
}

/* Normalizes an angle to (-1, 1]. */
static double wrapped(double t) { return t > 1 ? t - 2 : t <= -1 ? t + 2 : t; }

/* Acts on the qubit of the bit in which rows a and b differ; the other qubit has the same value in
 * both. */
struct rotation {
    unsigned a, b;
    double phase, turn; /* of |1>, and the exponent of RY */
};

/* Makes entry (b, column) zero; returns the rotation. */
static struct rotation eliminate_entry(double complex *u, unsigned dim, unsigned a, unsigned b,
                                       unsigned column) {
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
    double s, c;
    qr_sincospi(0.5 * r.turn, &s, &c);
    for (unsigned k = 0; k < dim; k++) {
        double complex p = u[zero * dim + k], q = turned(u[one * dim + k], r.phase);
        u[zero * dim + k] =
            __builtin_complex(c * creal(p) - s * creal(q), c * cimag(p) - s * cimag(q));
        u[one * dim + k] =
            __builtin_complex(s * creal(p) + c * creal(q), s * cimag(p) + c * cimag(q));
    }
    return r;
}

static void add_controlled(const struct qr_gate_use *use, enum qr_gate_kind kind, unsigned a,
                           unsigned b, double exponent, double shift, struct qr_gate_list *to) {
    if (fabs(exponent) <= NO_ANGLE) return;
    unsigned n = use->n_qubits, bit = a ^ b, target = bit == 1 ? n - 1 : 0;
    struct qr_gate g = qr_gate_on(use, kind, target, exponent);
    g.global_shift = shift;
    if (n == 2) qr_gate_control(&g, use->qubits[1 - target], (a & ~bit) != 0);
    qr_gate_list_add(to, &g);
}

static void unitary_add_phases(const struct qr_gate_use *use, const double *phase,
                               struct qr_gate_list *to) {
    unsigned n = use->n_qubits;
    struct qr_gate g = qr_gate_on(use, QR_GATE_Z, 0, 2); /* with this shift a phase only */
    g.global_shift = 0.5 * phase[0];
    if (!qr_qubits_is_empty(&use->controls) && fabs(phase[0]) > NO_ANGLE) qr_gate_list_add(to, &g);
    for (unsigned k = 0; k < n; k++) {
        g = qr_gate_on(use, QR_GATE_Z, k, wrapped(phase[1u << (n - 1 - k)] - phase[0]));
        if (fabs(g.args[0].scale) > NO_ANGLE) qr_gate_list_add(to, &g);
    }
    if (n == 2) {
        double both = wrapped(wrapped(phase[3] - phase[2]) - wrapped(phase[1] - phase[0]));
        add_controlled(use, QR_GATE_Z, 2, 3, both, 0, to);
    }
}

void qr_gate_expand_unitary(const struct qr_gate_use *use, struct qr_gate_list *to) {
    static const unsigned path[] = {0, 1, 3, 2}; /* consecutive entries differ in one bit */
    unsigned dim = 1u << use->n_qubits, n = 0;
    double complex u[16];
    struct rotation made[MAX_ROTATIONS];
    for (unsigned i = 0; i < dim * dim; i++) u[i] = use->matrix[i];
    for (unsigned c = 0; c + 1 < dim; c++)
        for (unsigned k = dim - 1; k > c; k--)
            made[n++] = eliminate_entry(u, dim, path[k - 1], path[k], path[c]);
    double phase[4] = {0};
    for (unsigned i = 0; i < dim; i++) phase[i] = phase_of(u[i * dim + i]);
    unitary_add_phases(use, phase, to);
    while (n-- > 0) {
        const struct rotation *r = &made[n];
        add_controlled(use, QR_GATE_Y, r->a, r->b, -r->turn, -0.5, to);
        add_controlled(use, QR_GATE_Z, r->a, r->b, -r->phase, 0, to);
    }
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
