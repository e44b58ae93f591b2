/* tests/ref/field.c — matrices of composite gates. Start reading at ref_field_gate_at. */
#include "tests/ref/field.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef double complex amp;
#define IMAG __builtin_complex(0.0, 1.0)

static amp e(double angle) { return cexp(IMAG * angle); }

/* cos(angle/2) I - i sin(angle/2) P for a word of Paulis, from the image of each basis state. */
static void exponential(const char *word, double angle, amp *ret) {
    unsigned n = (unsigned)strlen(word), dim = 1u << n;
    for (unsigned i = 0; i < dim * dim; i++) ret[i] = 0;
    for (unsigned col = 0; col < dim; col++) {
        amp value = 1;
        unsigned row = col;
        for (unsigned q = 0; q < n; q++) {
            unsigned mask = 1u << (n - 1 - q);
            bool one = col & mask;
            if (word[q] == 'X' || word[q] == 'Y') row ^= mask;
            if (word[q] == 'Y') value *= one ? -IMAG : IMAG;
            if (word[q] == 'Z' && one) value = -value;
        }
        ret[col * dim + col] += cos(angle / 2);
        ret[row * dim + col] += -IMAG * sin(angle / 2) * value;
    }
}

static void product(unsigned dim, const amp *a, const amp *b, amp *ret) {
    for (unsigned i = 0; i < dim; i++)
        for (unsigned j = 0; j < dim; j++) {
            ret[i * dim + j] = 0;
            for (unsigned k = 0; k < dim; k++) ret[i * dim + j] += a[i * dim + k] * b[k * dim + j];
        }
}

/* The block where the first qubit is 1, the identity elsewhere. */
static void controlled(const amp *u, amp *ret) {
    for (unsigned i = 0; i < 16; i++) ret[i] = i % 5 == 0;
    ret[10] = u[0], ret[11] = u[1], ret[14] = u[2], ret[15] = u[3];
}

#define MATRIX(name) static void name(const struct ref_field_gate *g, const double *a, amp *u)

MATRIX(phase) {
    (void)g;
    u[0] = 1, u[1] = u[2] = 0, u[3] = e(a[0]);
}
MATRIX(u3) {
    (void)g;
    double c = cos(a[0] / 2), s = sin(a[0] / 2);
    u[0] = c, u[1] = -e(a[2]) * s, u[2] = e(a[1]) * s, u[3] = e(a[1] + a[2]) * c;
}
MATRIX(u2) {
    const double b[3] = {M_PI_2, a[0], a[1]};
    u3(g, b, u);
}
/* A rotation about cos(phi) X + sin(phi) Y. */
MATRIX(r) {
    (void)g;
    double c = cos(a[0] / 2), s = sin(a[0] / 2);
    u[0] = u[3] = c, u[1] = -IMAG * s * e(-a[1]), u[2] = -IMAG * s * e(a[1]);
}
MATRIX(rot) {
    (void)g;
    double c = cos(a[1] / 2), s = sin(a[1] / 2), sum = (a[0] + a[2]) / 2, gap = (a[0] - a[2]) / 2;
    u[0] = e(-sum) * c, u[1] = -e(gap) * s, u[2] = e(-gap) * s, u[3] = e(sum) * c;
}
MATRIX(of_word) { exponential(g->word, a[0], u); }
MATRIX(c_phase) {
    amp m[4];
    phase(g, a, m);
    controlled(m, u);
}
MATRIX(c_of_word) {
    amp m[4];
    exponential(g->word, a[0], m);
    controlled(m, u);
}
MATRIX(c_rot) {
    amp m[4];
    rot(g, a, m);
    controlled(m, u);
}
MATRIX(c_u3) {
    amp m[4];
    u3(g, a, m);
    controlled(m, u);
}
MATRIX(c_u) {
    amp m[4];
    u3(g, a, m);
    for (int i = 0; i < 4; i++) m[i] *= e(a[3]);
    controlled(m, u);
}
static void block(amp u01, amp u0110, amp u1001, amp u10, amp *u) {
    for (unsigned i = 0; i < 16; i++) u[i] = i == 0 || i == 15;
    u[5] = u01, u[6] = u0110, u[9] = u1001, u[10] = u10;
}
MATRIX(xy) {
    (void)g;
    double c = cos(a[0] / 2), s = sin(a[0] / 2);
    block(c, IMAG * s, IMAG * s, c, u);
}
MATRIX(pswap) {
    (void)g;
    block(0, e(a[0]), e(a[0]), 0, u);
}
MATRIX(single) {
    (void)g;
    block(cos(a[0] / 2), -sin(a[0] / 2), sin(a[0] / 2), cos(a[0] / 2), u);
}
MATRIX(givens) {
    (void)g;
    block(cos(a[0]), -sin(a[0]), sin(a[0]), cos(a[0]), u);
}
MATRIX(doubled) {
    (void)g;
    for (unsigned i = 0; i < 256; i++) u[i] = i % 17 == 0;
    u[3 * 16 + 3] = u[12 * 16 + 12] = cos(a[0] / 2);
    u[12 * 16 + 3] = sin(a[0] / 2);
    u[3 * 16 + 12] = -sin(a[0] / 2);
}
MATRIX(mc_phase) {
    (void)g;
    for (unsigned i = 0; i < 64; i++) u[i] = i % 9 == 0;
    u[63] = e(a[0]);
}
MATRIX(ms) {
    (void)g;
    amp x[64], y[64], xy_[64];
    exponential("XXI", a[0], x);
    exponential("XIX", a[0], y);
    product(8, x, y, xy_);
    exponential("IXX", a[0], x);
    product(8, xy_, x, u);
}

static const struct ref_field_gate gates[] = {
    {"P", 1, {"angle"}, NULL, phase},
    {"U2", 1, {"phi", "lambda"}, NULL, u2},
    {"U3", 1, {"theta", "phi", "delta"}, NULL, u3},
    {"U", 1, {"theta", "phi", "lambda"}, NULL, u3},
    {"R", 1, {"theta", "phi"}, NULL, r},
    {"Rot", 1, {"phi", "theta", "omega"}, NULL, rot},
    {"CP", 2, {"angle"}, NULL, c_phase},
    {"CRX", 2, {"angle"}, "X", c_of_word},
    {"CRY", 2, {"angle"}, "Y", c_of_word},
    {"CRZ", 2, {"angle"}, "Z", c_of_word},
    {"CRot", 2, {"phi", "theta", "omega"}, NULL, c_rot},
    {"CU3", 2, {"theta", "phi", "lambda"}, NULL, c_u3},
    {"CU", 2, {"theta", "phi", "lambda", "gamma"}, NULL, c_u},
    {"RXX", 2, {"angle"}, "XX", of_word},
    {"RYY", 2, {"angle"}, "YY", of_word},
    {"RZZ", 2, {"angle"}, "ZZ", of_word},
    {"RZX", 2, {"angle"}, "ZX", of_word},
    {"IsingXY", 2, {"angle"}, NULL, xy},
    {"PSWAP", 2, {"angle"}, NULL, pswap},
    {"SingleExcitation", 2, {"angle"}, NULL, single},
    {"Givens", 2, {"angle"}, NULL, givens},
    {"MultiRZ", 3, {"angle"}, "ZZZ", of_word},
    {"MS", 3, {"angle"}, NULL, ms},
    {"MCPhase", 3, {"angle"}, NULL, mc_phase},
    {"PauliRot", 1, {"angle"}, "Y", of_word},
    {"PauliRot", 2, {"angle"}, "YX", of_word},
    {"PauliRot", 3, {"angle"}, "XIY", of_word},
    {"PauliRot", 3, {"angle"}, "YZX", of_word},
    {"PauliRot", 4, {"angle"}, "XYZY", of_word},
    {"DoubleExcitation", 4, {"angle"}, NULL, doubled},
};

const struct ref_field_gate *ref_field_gate_at(unsigned i) {
    return i < sizeof gates / sizeof *gates ? &gates[i] : NULL;
}
