/* OpenQASM: gates and modifiers against matrices of the specification's formulas, pairs of
 * equivalent texts, free symbols, read-outs, positions of errors, time limits. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "qasm/qasm.h"
#include "tests/ref/dense.h"
#include "tests/same_circuit.h"
#include "tests/t.h"

enum { MOST_QUBITS = 5, MOST_ENTRIES = 1 << (2 * MOST_QUBITS) };

static const double complex i1 = __builtin_complex(0.0, 1.0);

/* A matrix has at most 40 gates here, each with entries within a few 2^-53. */
#define TOLERANCE 1e-13

static enum qr_code read_with(const char *text, const char *const *inputs, size_t n,
                              struct qr_program *ret, struct qr_buf *excerpt, struct qr_err *err) {
    const struct qr_program_options options = {.inputs = inputs, .n_inputs = n};
    return qr_qasm_read(qr_bytes_of_string(text), &options, ret, excerpt, err);
}

/* Reads a valid text. */
static struct qr_program read_text(const char *text, const char *const *inputs, size_t n) {
    struct qr_program q = {0};
    struct qr_err err = {0};
    struct qr_buf excerpt = {0};
    CHECK(read_with(text, inputs, n, &q, &excerpt, &err) == QR_OK, "%s\n%s%s", text, err.msg,
          qr_buf_string(&excerpt));
    qr_buf_free(&excerpt);
    if (!q.circuit) exit(1);
    return q;
}

static char *json_of(const struct qr_circuit *c) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_circuit_put_json(c, &w);
    char *ret = qr_xstrdup(qr_buf_string(&text));
    qr_buf_free(&text);
    return ret;
}

/* The circuit's JSON reads back as the same circuit. */
static void check_round_trip(const struct qr_circuit *c) {
    char *json = json_of(c);
    struct qr_json *root = NULL;
    struct qr_circuit *again = NULL;
    struct qr_qubits readouts;
    struct qr_err err = {0};
    CHECK(qr_json_parse(qr_bytes_of_string(json), "json", &root, &err) == QR_OK &&
              qr_circuit_from_json(root, "json", &again, &readouts, &err) == QR_OK,
          "%s: %s", json, err.msg);
    CHECK(again && same_circuit(c, again), "%s", json);
    qr_circuit_free(again);
    qr_json_free(root);
    free(json);
}

/* ---- matrices ---- */

/* The product of all gates of a text without symbols, which is freed. */
static unsigned matrix_of(const char *text, double complex *ret) {
    static double complex gate[MOST_ENTRIES], before[MOST_ENTRIES];
    struct qr_program q = read_text(text, NULL, 0);
    check_round_trip(q.circuit);
    size_t dim = (size_t)1 << q.circuit->n_qubits;
    for (size_t i = 0; i < dim * dim; i++) ret[i] = i % (dim + 1) == 0;
    for (size_t i = 0; i < q.circuit->n_gates; i++) {
        double a[2] = {0, 0};
        const struct qr_gate *g = &q.circuit->gates[i];
        for (unsigned k = 0; k < g->n_args; k++) a[k] = qr_gate_arg_value(&g->args[k], NULL, NULL);
        ref_gate_full(g, q.circuit->n_qubits, a, gate);
        memcpy(before, ret, dim * dim * sizeof *ret);
        for (size_t r = 0; r < dim; r++)
            for (size_t k = 0; k < dim; k++) {
                double complex sum = 0;
                for (size_t j = 0; j < dim; j++) sum += gate[r * dim + j] * before[j * dim + k];
                ret[r * dim + k] = sum;
            }
    }
    qr_program_fini(&q);
    return (unsigned)dim;
}

/* The largest difference up to a global phase. */
static double distance(const double complex *a, const double complex *b, unsigned dim) {
    double complex overlap = 0;
    double worst = 0;
    for (unsigned i = 0; i < dim * dim; i++) overlap += conj(b[i]) * a[i];
    double complex turn = overlap / cabs(overlap);
    for (unsigned i = 0; i < dim * dim; i++) {
        double d = cabs(a[i] - turn * b[i]);
        if (d > worst || isnan(d)) worst = d;
    }
    return worst;
}

/* OpenQASM 3's formula. */
static void spec_u(double theta, double phi, double lambda, double complex *u) {
    double complex t = cexp(i1 * theta), p = cexp(i1 * phi), l = cexp(i1 * lambda);
    u[0] = (1 + t) / 2;
    u[1] = -i1 * l * (1 - t) / 2;
    u[2] = i1 * p * (1 - t) / 2;
    u[3] = p * l * (1 + t) / 2;
}

/* Checks that the text, on two qubits, applies u to the second one if the first is 1 (or 0). */
static void check_controlled(const char *text, const double complex *u, bool one) {
    double complex wanted[16] = {0};
    static double complex found[MOST_ENTRIES];
    unsigned at = one ? 2 : 0, other = 2 - at;
    wanted[5 * other] = wanted[5 * (other + 1)] = 1;
    for (unsigned r = 0; r < 2; r++)
        for (unsigned c = 0; c < 2; c++) wanted[4 * (at + r) + at + c] = u[2 * r + c];
    unsigned dim = matrix_of(text, found);
    CHECK(dim == 4 && distance(found, wanted, 4) < TOLERANCE, "%s: %g", text,
          distance(found, wanted, 4));
}

#define TWO "include \"stdgates.inc\"; include \"qelib1.inc\"; qubit[2] q; "

static void test_modifiers(void) {
    double complex u[4], v[4], adjoint[4], phase = cexp(0.7 * i1), half[4];
    spec_u(0.3, 0.5, 1.1, u);
    for (unsigned i = 0; i < 4; i++) adjoint[i] = conj(u[i % 2 * 2 + i / 2]);
    check_controlled(TWO "ctrl @ U(0.3, 0.5, 1.1) q[0], q[1];", u, true);
    check_controlled(TWO "negctrl @ U(0.3, 0.5, 1.1) q[0], q[1];", u, false);
    check_controlled(TWO "ctrl @ inv @ U(0.3, 0.5, 1.1) q[0], q[1];", adjoint, true);
    check_controlled(TWO "pow(-1) @ ctrl @ U(0.3, 0.5, 1.1) q[0], q[1];", adjoint, true);
    check_controlled(
        TWO "gate g q { U(0.3, 0.5, 1.1) q; gphase(0.7); }\n"
            "ctrl @ inv @ pow(2) @ inv @ inv @ pow(-0) @ g q[0], q[1]; "
            "negctrl @ pow(2) @ inv @ g q[0], q[1]; negctrl @ pow(3) @ g q[0], q[1];",
        (spec_u(0.3, 0.5, 1.1, v), v[0] *= phase, v[1] *= phase, v[2] *= phase, v[3] *= phase, v),
        false);
    double complex turn[4] = {phase, 0, 0, phase},
                   root[4] = {(1 + i1) / 2, (1 - i1) / 2, (1 - i1) / 2, (1 + i1) / 2};
    check_controlled(TWO "ctrl @ gphase(0.7) q[0];", turn, true);
    check_controlled(TWO "negctrl @ gphase(0.7) q[0];", turn, false);
    check_controlled(TWO "ctrl @ pow(0.5) @ x q[0], q[1];", root, true);
    /* rx(3 pi) has the eigenvalues i and -i, whose principal roots are those of rx(-pi). */
    double complex c = M_SQRT1_2;
    half[0] = half[3] = c, half[1] = half[2] = c * i1;
    check_controlled(TWO "ctrl @ pow(1/2.) @ rx(3*pi) q[0], q[1];", half, true);
    spec_u(0.3, 0.5, 1.1, u); /* u3's determinant is 1 */
    for (unsigned i = 0; i < 4; i++) u[i] *= cexp(-0.95 * i1);
    check_controlled(TWO "ctrl @ u3(0.3, 0.5, 1.1) q[0], q[1];", u, true);
    spec_u(M_PI_2, 0.5, 1.1, u);
    for (unsigned i = 0; i < 4; i++) u[i] *= cexp(-i1 * (1.6 + M_PI_2) / 2);
    check_controlled(TWO "ctrl @ u2(0.5, 1.1) q[0], q[1];", u, true);
}

#define FIVE "include \"stdgates.inc\"; include \"qelib1.inc\"; qubit[5] q; "
#define A "q[0]"
#define B "q[0], q[1]"
#define C "q[0], q[1], q[2]"
#define D "q[0], q[1], q[2], q[3]"
#define H3 "h q[2]; t q[2]; cx q[1], q[2]; tdg q[2]; "

/* Each text follows FIVE; ctrl(1) in the first makes phases count. */
static const char *const equal_matrix_texts[][2] = {
    {"ctrl @ x q[4]," A ";", "ctrl @ U(pi, 0, pi) q[4]," A "; ctrl @ gphase(-pi/2) q[4];"},
    {"ctrl @ y q[4]," A ";", "ctrl @ U(pi, pi/2, pi/2) q[4]," A "; ctrl @ gphase(-pi/2) q[4];"},
    {"ctrl @ z q[4]," A ";", "ctrl @ U(0, 0, pi) q[4]," A ";"},
    {"ctrl @ h q[4]," A ";", "ctrl @ U(pi/2, 0, pi) q[4]," A "; ctrl @ gphase(-pi/4) q[4];"},
    {"ctrl @ s q[4]," A ";", "ctrl @ U(0, pi/2, 0) q[4]," A ";"},
    {"ctrl @ tdg q[4]," A ";", "ctrl @ U(0, 0, -pi/4) q[4]," A ";"},
    {"ctrl @ sx q[4]," A ";", "ctrl @ h q[4], q[0]; ctrl @ s q[4], q[0]; ctrl @ h q[4], q[0];"},
    {"ctrl @ sxdg q[4]," A ";", "inv @ ctrl @ sx q[4]," A ";"},
    {"ctrl @ rx(0.3) q[4]," A ";",
     "ctrl @ U(0.3, -pi/2, pi/2) q[4]," A "; ctrl @ gphase(-0.15) q[4];"},
    {"ctrl @ ry(0.3) q[4]," A ";", "ctrl @ U(0.3, 0, 0) q[4]," A "; ctrl @ gphase(-0.15) q[4];"},
    {"ctrl @ rz(0.3) q[4]," A ";", "ctrl @ U(0, 0, 0.3) q[4]," A "; ctrl @ gphase(-0.15) q[4];"},
    {"ctrl @ p(0.3) q[4]," A ";", "ctrl @ ctrl @ gphase(0.3) q[4]," A ";"},
    {"ctrl @ phase(0.3) q[4]," A ";", "ctrl @ u1(0.3) q[4]," A ";"},
    {"cy " B ";", "ctrl @ y " B ";"},
    {"ch " B ";", "ctrl @ h " B ";"},
    {"csx " B ";", "ctrl @ sx " B ";"},
    {"cp(0.3) " B ";", "ctrl @ p(0.3) " B ";"},
    {"cphase(0.3) " B ";", "cu1(0.3) " B ";"},
    {"crx(0.3) " B ";", "ctrl @ rx(0.3) " B ";"},
    {"cry(0.3) " B ";", "ctrl @ ry(0.3) " B ";"},
    {"crz(0.3) " B ";", "ctrl @ rz(0.3) " B ";"},
    {"cu(0.3, 0.5, 1.1, 0.7) " B ";", "p(0.55) q[0]; ctrl @ U(0.3, 0.5, 1.1) " B ";"},
    {"cu3(0.3, 0.5, 1.1) " B ";", "p(-0.15) q[0]; ctrl @ U(0.3, 0.5, 1.1) " B ";"},
    {"swap " B ";", "cx " B "; cx q[1], q[0]; cx " B ";"},
    {"rxx(0.3) " B ";", "h " A "; h q[1]; rzz(0.3) " B "; h " A "; h q[1];"},
    {"rzz(0.3) " B ";", "cx " B "; rz(0.3) q[1]; cx " B ";"},
    {"ccx " C ";", "ctrl(2) @ x " C ";"},
    {"cswap " C ";", "ctrl @ swap " C ";"},
    {"c3x " D ";", "ctrl(3) @ x " D ";"},
    {"c4x " D ", q[4];", "ctrl(2) @ ctrl(2) @ x " D ", q[4];"},
    {"c3sqrtx " D ";", "ctrl(3) @ pow(0.5) @ x " D ";"},
    {"rccx " C ";", H3 "cx q[0], q[2]; t q[2]; cx q[1], q[2]; tdg q[2]; h q[2];"},
    {"rc3x " D ";", "h q[3]; t q[3]; cx q[2], q[3]; tdg q[3]; h q[3]; cx q[0], q[3]; t q[3]; "
                    "cx q[1], q[3]; tdg q[3]; cx q[0], q[3]; t q[3]; cx q[1], q[3]; tdg q[3]; "
                    "h q[3]; t q[3]; cx q[2], q[3]; tdg q[3]; h q[3];"},
    {"ctrl @ pow(6/2) @ pow(1.0/2) @ z " B ";", "ctrl @ sdg " B ";"},
    {"ctrl @ pow(-0.5) @ z " B ";", "ctrl @ U(0, 0, -pi/2) " B ";"},
    {"ctrl @ pow(-0.25) @ x " B ";", "ctrl @ inv @ pow(0.25) @ x " B ";"},
    {"ctrl @ pow(-1.5) @ y " B ";", "ctrl @ inv @ pow(1.5) @ y " B ";"},
    {"negctrl @ pow(-2.5) @ h " B ";", "negctrl @ inv @ pow(2.5) @ h " B ";"},
    {"pow(-0.3) @ ctrl @ z " B ";", "inv @ pow(0.3) @ ctrl @ z " B ";"},
    {"ctrl @ pow(-0.5) @ pow(-0.5) @ z " B ";", "ctrl @ pow(0.25) @ z " B ";"},
    {"ctrl @ inv @ pow(-0.5) @ z " B ";", "ctrl @ s " B ";"},
    {"ctrl @ pow(-0.5) @ rx(3*pi) " B ";", "ctrl @ rx(pi/2) " B ";"},
    {"ctrl @ negctrl(2) @ ctrl @ x q[0], q[1], q[2], q[3], q[4];",
     "x q[1]; x q[2]; ctrl(4) @ x q[0], q[1], q[2], q[3], q[4]; x q[1]; x q[2];"},
};

/* Braket's gates need no include. */
static const char *const braket[][2] = {
    {"qubit[2] q; cphaseshift00(0.3) " B ";", "qubit[2] q; negctrl(2) @ gphase(0.3) " B ";"},
    {"qubit[2] q; cphaseshift01(0.3) " B ";", "qubit[2] q; negctrl @ ctrl @ gphase(0.3) " B ";"},
    {"qubit[2] q; cphaseshift10(0.3) " B ";", "qubit[2] q; ctrl @ negctrl @ gphase(0.3) " B ";"},
    {"qubit[2] q; xy(0.6) " B ";", "qubit[2] q; xx(-0.3) " B "; yy(-0.3) " B ";"},
    {"qubit[2] q; iswap " B ";", "qubit[2] q; xy(pi) " B ";"},
    {"qubit[2] q; v " A "; cv " B ";", "qubit[2] q; pow(0.5) @ x " A "; ctrl @ v " B ";"},
    {"qubit[2] q; prx(0.3, 0.5) " A ";",
     "qubit[2] q; rz(-0.5) " A "; rx(0.3) " A "; rz(0.5) " A ";"},
};

static void check_equal_matrices(const char *before, const char *const (*rows)[2], size_t n) {
    static double complex a[MOST_ENTRIES], b[MOST_ENTRIES];
    for (size_t i = 0; i < n; i++) {
        char *first = qr_xasprintf("%s%s", before, rows[i][0]),
             *second = qr_xasprintf("%s%s", before, rows[i][1]);
        unsigned dim = matrix_of(first, a);
        CHECK(dim == matrix_of(second, b) && distance(a, b, dim) < TOLERANCE, "%s: %g", rows[i][0],
              distance(a, b, dim));
        free(first);
        free(second);
    }
}

/* ---- equivalent texts ---- */

#define STD "include \"stdgates.inc\"; "

static const char *const equal_texts[][2] = {
    {STD "qubit[3] q; h q;", STD "qubit[3] q; h q[0]; h q[1]; h q[2];"},
    {STD "qubit[2] a; qubit[2] b; qubit c; ccx a, b, c;",
     STD "qubit[5] q; ccx q[0], q[2], q[4]; ccx q[1], q[3], q[4];"},
    {STD "qubit[4] q; for int i in [0:2] cx q[i], q[i + 1];",
     STD "qubit[4] q; cx q[0], q[1]; cx q[1], q[2]; cx q[2], q[3];"},
    {STD "qubit[4] q; for uint[8] i in [3:-2:0] x q[i];", STD "qubit[4] q; x q[3]; x q[1];"},
    {STD "qubit[4] q; for int i in {2, 0} x q[i];", STD "qubit[4] q; x q[2]; x q[0];"},
    {STD "qubit[4] q; let a = q[1:2] ++ q[{0}]; x a; y a[-1];",
     STD "qubit[4] q; x q[1]; x q[2]; x q[0]; y q[0];"},
    {STD "qubit[4] q; let a = q[:2:]; let b = a[1]; x b; x q[3:-1:2];",
     STD "qubit[4] q; x q[2]; x q[3]; x q[2];"},
    {STD "const int n = 2; const float t = pi / n; qubit[n] q; rx(t * 0.5) q[n - 1];",
     STD "qubit[2] q; rx(pi / 4) q[1];"},
    {STD "qubit q; int a = 7 / 2; uint[3] b = 9; rx(a + b) q;", STD "qubit q; rx(4) q;"},
    {STD "qubit q; int[4] a = 9; bool b = 2 > 1 && !(3 <= 2); rx(a) q; if (b) x q; else y q;",
     STD "qubit q; rx(-7) q; x q;"},
    {STD "qubit q; rx(2 ** 3 ** 2 / 2 - -2 ** 2) q;", STD "qubit q; rx(260) q;"},
    {STD "qubit q; rx(1 + 2 * 3 << 1 & 12 | 1 ^ 4) q;", STD "qubit q; rx(13) q;"},
    {STD "qubit q; rx(float(0x1f) + 0b101 + 0o17 + 1_000 + .5 + 1e-1) q;",
     STD "qubit q; rx(1051.6) q;"},
    {STD "qubit q; rx(arccos(cos(0.5)) * 0 + mod(7, 4) + popcount(7) + ceiling(0.2)) q;",
     STD "qubit q; rx(7) q;"},
    {STD "bit[4] m = \"0110\"; qubit[4] q; for int i in [0:3] if (m[i]) x q[i];",
     STD "qubit[4] q; x q[1]; x q[2];"},
    {STD "uint[4] m = 5; qubit[4] q; m[1] = 1; m <<= 1; for int i in [0:3] if (bool(m[i])) x q[i];",
     STD "qubit[4] q; x q[1]; x q[2]; x q[3];"},
    {STD "qubit q; uint[8] c = 255; uint[4] a = 15; rx(c + a) q; rx(a - c) q; rx(a * c) q; "
         "rx(c / a) q; uint d = 7; rx(a - d) q; rx(d + a) q; rx(a | c) q;",
     STD "qubit q; rx(14) q; rx(16) q; rx(241) q; rx(17) q; rx(8) q; rx(22) q; rx(255) q;"},
    {STD "qubit q; uint[4] a = 0; a[2] |= 1; rx(a) q; int b = 8; b[3] ^= 1; rx(b) q; "
         "b = 7; b[1] &= 0; rx(b) q; b[1] |= 0; rx(b) q;",
     STD "qubit q; rx(4) q; rx(0) q; rx(5) q; rx(5) q;"},
    {STD "qubit q; bit[8] a = \"10001111\"; if ((a << 1) == \"00011110\") x q; rx(a >> 4) q; "
         "rx(~a) q; rx(~(a ^ 15)) q; rx(~a[0]) q; rx(~(a[0] ^ a[4])) q; rx(a[0] << 3 | a[1]) q; "
         "rx(~bit[2](1)) q;",
     STD "qubit q; x q; rx(8) q; rx(112) q; rx(127) q; rx(0) q; rx(0) q; rx(9) q; rx(2) q;"},
    {STD "qubit q; uint[4] a = 3; uint[4] b = 14; if (~a == 12) x q; "
         "rx(popcount(~a) + uint[8](~a)) q; rx(a + b) q; rx(a - b) q; rx(b * b) q; rx(b ** a) q; "
         "rx(b << 2) q; rx(b + 2) q; rx(-a) q;",
     STD "qubit q; x q; rx(14) q; rx(1) q; rx(5) q; rx(4) q; rx(8) q; rx(8) q; rx(16) q; "
         "rx(-3) q;"},
    {STD
     "qubit[2] q; angle a = pi; a = a + pi; crx(a) q[0], q[1]; angle[4] b = 9 * (pi / 8); "
     "rx(b) q[0]; if (bit[4](b) == \"1001\") x q; rx(uint[4](bit[4](b))) q[0]; "
     "angle[2] c = -0.3; rx(c) q[0]; angle[8] d = 127 * pi / 256; rx(d) q[0]; "
     "rx(angle[4](\"1100\")) q[0]; rx(angle(-pi / 2)) q[0]; rx(-0.5) q[0]; b += pi; rx(b) q[0]; "
     "rx(angle(5 * pi / 2)) q[0];",
     STD "qubit[2] q; crx(0) q[0], q[1]; rx(9 * (pi / 8)) q[0]; x q; rx(9) q[0]; rx(0) q[0]; "
         "rx(pi / 2) q[0]; rx(3 * pi / 2) q[0]; rx(3 * pi / 2) q[0]; rx(-0.5) q[0]; "
         "rx(pi / 8) q[0]; rx(pi / 2) q[0];"},
    {STD "qubit q; rx(mod(-7, 3)) q; rx(-7 % 3) q; rx(mod(7, -1)) q; rx(mod(-7.5, 2)) q; "
         "rx(-7.5 % 2) q; rx(-8 / -1) q;",
     STD "qubit q; rx(-1) q; rx(-1) q; rx(0) q; rx(-1.5) q; rx(-1.5) q; rx(8) q;"},
    {STD "qubit q; int[64] a = 9223372036854775807; if (a - 0x7fff_ffff_ffff_fffe == 1) x q;",
     STD "qubit q; x q;"},
    {STD "qubit q; int a = 9007199254740993; int b = 9007199254740992; if (a == b) x q; "
         "if (a != b) y q; if (a > b) z q; if (a <= b) h q; if (b >= a) s q; if (b < a) t q;",
     STD "qubit q; y q; z q; t q;"},
    {STD "qubit q; rx(pow(7, 1) / 2) q; rx(pow(2, -1)) q; rx(pow(9, 0.5) / 2) q; "
         "int[8] b = -1; rx(popcount(bit[8](b))) q;",
     STD "qubit q; rx(3) q; rx(0.5) q; rx(1.5) q; rx(8) q;"},
    {STD "array[float, 2, 2] m = {{1, 2}, {3, 4}}; array[float, 2] r = m[1]; m[0] = r; qubit q; "
         "rx(m[0, 1] + sizeof(m, 1) + m[1][0]) q;",
     STD "qubit q; rx(9) q;"},
    {STD "array[int, 3] a = {4, 5, 6}; qubit q; for int v in a rx(v) q;",
     STD "qubit q; rx(4) q; rx(5) q; rx(6) q;"},
    {STD "gate g(a, b) p, q { rx(a / b) p; for int i in [0:1] cx p, q; } qubit[2] q; g(1, 4) q[1], "
         "q[0];",
     STD "qubit[2] q; rx(0.25) q[1]; cx q[1], q[0]; cx q[1], q[0];"},
    {STD
     "def f(qubit[2] q, int n) -> int { if (n == 0) return 3; x q[n - 1]; return f(q, n - 1); }\n"
     "qubit[2] q; int r = f(q, 2); rx(r) q[0];",
     STD "qubit[2] q; x q[1]; x q[0]; rx(3) q[0];"},
    {STD "def f(int n) -> int { if (n == 0) return 1; return n * f(n - 1); }\n"
         "def g(int n) -> int { return f(n) * f(n + 1) - f(n); }\n"
         "def s(float x) -> float { return sin(x) + f(3); } qubit q; rx(f(4)) q; rx(g(3)) q; "
         "rx(s(0.5)) q;",
     STD "qubit q; rx(24) q; rx(138) q; rx(sin(0.5) + 6) q;"},
    {STD "def f(bit[2] a, qubit b) { a[0] = 0; if (a == 2) x b; } const bit[2] c = 3; qubit q; "
         "f(c, q); rx(c) q;",
     STD "qubit q; x q; rx(3) q;"},
    {STD
     "def f(mutable array[float, 2, 3] a, readonly array[float[64], #dim = 2] b, "
     "readonly array[int[8], #dim = 1] n, qubit q) { a[1, 2] = b[1, 2] / n[0]; } "
     "array[float, 2, 3] a = {{1, 2, 3}, {4, 5, 6}}; array[int[8], 4] n = {1, 2, 3, 4}; qubit q; "
     "f(a, a, n[1:2], q); rx(a[1, 2]) q;",
     STD "qubit q; rx(3) q;"},
    {STD "def set(mutable array[int, #dim = 1] a, readonly array[int, 2] b) { a[0] = b[1]; }\n"
         "array[int, 2] a = {1, 2}; array[int, 2] b = {7, 8}; set(a, b); qubit q; rx(a[0]) q;",
     STD "qubit q; rx(8) q;"},
    {STD "qubit q; int i = 0; while (true) { i += 1; if (i == 2) continue; if (i > 3) break; rx(i) "
         "q; }",
     STD "qubit q; rx(1) q; rx(3) q;"},
    {STD "qubit q; int i = 2; switch (i) { case 0, 1 { x q; } case 2 { y q; } default { z q; } }",
     STD "qubit q; y q;"},
    {STD "qubit[2] q; reset q; x q[0]; end; foo;", STD "qubit[2] q; x q[0];"},
    {STD "x $1; cx $1, $0;", STD "qubit[2] q; x q[1]; cx q[1], q[0];"},
    {STD "/* a */ qubit q; // b\n@bind c\n#pragma other d\nbarrier q; x q;", STD "qubit q; x q;"},
    {"OPENQASM 2.0; include \"qelib1.inc\"; qreg ctrl[2]; creg angle[2]; rx(2^3/2*1/2) ctrl[0]; "
     "if (angle == 0) x ctrl; cx ctrl[0], ctrl[1];",
     STD "qubit[2] q; rx(2) q[0]; x q; cx q[0], q[1];"},
    {"OPENQASM 2.0; include \"qelib1.inc\"; qreg q[2]; x q[1]; gphase(0.5) ; gphase(pi) q[0]; "
     "gphase(0.1) q[1],q[0]; gate g a { gphase(1); x a; } g q[0];",
     STD "qubit[2] q; x q[1]; x q[0];"},
    {STD "gate x a { U(1, 2, 3) a; } qubit q; x q;", "qubit q; U(1, 2, 3) q;"},
    {STD "gate a q { h q; } gate h q { x q; } qubit q; a q; h q;", STD "qubit q; h q; x q;"},
    {"qubit q;", STD "qubit q; id q;"},
    {STD "qubit q; int a = 2; 1; -a + 3; a; a == 2; a[0]; int[8](a); (2); x q;",
     STD "qubit q; x q;"},
    {STD
     "array[int, 2, 2,] a = {{1, 2,}, {3, 4},}; qubit q; switch (a[1, 1,]) { case 4, { x q; } }",
     STD "qubit q; x q;"},
    {"OPENQASM 2.0; include \"qelib1.inc\";; qreg q[1]; gate g a { x a; }; g q[0];",
     STD "qubit q; x q;"},
    {"OPENQASM // a\n/* b */ 2.0 // c\n; include \"qelib1.inc\"; opaque o(a) b; qreg e[0]; "
     "creg c[0]; qreg q[2]; gate g(rx) x, cx { cx cx, x; rx(rx) x; } g(0.5) q[0], q[1]; "
     "barrier e; barrier; measure e -> c;",
     STD "qubit[2] q; cx q[1], q[0]; rx(0.5) q[0];"},
    /* Tokens of definitions are kept while others are dropped. */
    {STD "gate g a { x a; } def f(qubit a) { g a; } qubit q; f(q); y q; if (false) x q; else g q; "
         "f(q);",
     STD "qubit q; x q; y q; x q; x q;"},
};

static void test_equal_circuits(void) {
    for (size_t i = 0; i < COUNT(equal_texts); i++) {
        struct qr_program a = read_text(equal_texts[i][0], NULL, 0),
                          b = read_text(equal_texts[i][1], NULL, 0);
        char *first = json_of(a.circuit), *second = json_of(b.circuit);
        CHECK(strcmp(first, second) == 0, "%s\n%s\n%s", equal_texts[i][0], first, second);
        free(first);
        free(second);
        qr_program_fini(&a);
        qr_program_fini(&b);
    }
}

/* ---- symbols, read-outs, JSON ---- */

static void test_symbols(void) {
    static const char *const inputs[] = {"v", "b"};
    struct qr_program q =
        read_text(STD "input float b; input float x; input angle[32] θ; "
                      "input array[float, 2] v; input array[float, 2] w; qubit q; "
                      "gate g(t) a { rx(t / 2 + θ) a; } "
                      "rx(2 * b) q; g(v[1]) q; ry(-x ** 2) q; rz(w[1] * v[0]) q;",
                  inputs, 2);
    const struct qr_circuit *c = q.circuit;
    char *json = json_of(c);
    CHECK(c->n_params == 3 && c->n_columns == 3, "%u %u", c->n_params, c->n_columns);
    CHECK(strcmp(c->param_names[0], "w[1]") == 0 && strcmp(c->param_names[1], "x_") == 0 &&
              strcmp(c->param_names[2], "θ") == 0,
          "%s", json);
    CHECK(strcmp(json, "{\"qubits\":1,\"columns\":3,\"gates\":["
                       "{\"gate\":\"RX\",\"qubits\":[0],\"angle\":\"2*x[2]\"},"
                       "{\"gate\":\"RX\",\"qubits\":[0],\"angle\":\"x[1]/2 + θ\"},"
                       "{\"gate\":\"RY\",\"qubits\":[0],\"angle\":\"-pow(x_, 2)\"},"
                       "{\"gate\":\"RZ\",\"qubits\":[0],\"angle\":\"w[1]*x[0]\"}]}") == 0,
          "%s", json);
    check_round_trip(c);
    free(json);
    qr_program_fini(&q);
}

/* Angles are written as they were read, although 0.1 / pi * pi is another number. */
static void test_angles(void) {
    struct qr_program q = read_text(STD "qubit q; rx(0.1) q; rx(1.9) q; rx(-3.5) q;", NULL, 0);
    char *json = json_of(q.circuit);
    CHECK(strstr(json, ":0.1}") && strstr(json, ":1.9}") && strstr(json, ":-3.5}"), "%s", json);
    check_round_trip(q.circuit);
    free(json);
    qr_program_fini(&q);
}

static void test_readouts(void) {
    static const char *const wanted[] = {"Z2", "Z0", "1*Z0", "1*Z0 Y1 + 0.5*Z0 Z1"};
    struct qr_program q = read_text(
        "qubit[3] q; bit[2] c; h q;\n"
        "#pragma braket result expectation z(q[0])\n"
        "#pragma braket result expectation z(q[0]) @ hermitian([[0.5, -1im], [1im, -0.5]]) q[1]\n"
        "c[0] = measure q[2]; measure q[0] -> c[1]; measure q[2] -> c[0];",
        NULL, 0);
    CHECK(q.n_readouts == COUNT(wanted), "%zu", q.n_readouts);
    for (size_t i = 0; i < q.n_readouts && i < COUNT(wanted); i++)
        CHECK(strcmp(q.readouts[i], wanted[i]) == 0, "%s", q.readouts[i]);
    qr_program_fini(&q);
}

/* ---- measured bits ---- */

/* Registers of any length beside integers of any size. */
static void test_long_registers(void) {
    static const struct {
        const char *condition;
        int value; /* of the measured bit 69 that enables X; -1: none does */
    } rows[] = {{"c == 0", 0},
                {"c == 590295810358705651712", 1}, /* 2^69 */
                {"c == 590295810358705651713", -1},
                {"c == 590295810358705651711", -1},
                {"c == 1180591620717411303424", -1}, /* 2^70 */
                {"c == 18446744073709551616", -1}};  /* 2^64 */
    for (size_t i = 0; i < COUNT(rows); i++) {
        qr_auto(qr_buf_free) struct qr_buf text = {0};
        qr_buf_printf(&text,
                      "OPENQASM 2.0; include \"qelib1.inc\"; qreg q[2]; creg c[70]; h q[0];"
                      "measure q[0] -> c[69]; if (%s) x q[1];",
                      rows[i].condition);
        struct qr_program q = read_text(qr_buf_string(&text), NULL, 0);
        bool acts =
            q.circuit->n_gates && q.circuit->gates[q.circuit->n_gates - 1].kind == QR_GATE_X;
        CHECK(acts == (rows[i].value >= 0), "%s: %zu gates", rows[i].condition, q.circuit->n_gates);
        if (acts) {
            const struct qr_gate *g = &q.circuit->gates[q.circuit->n_gates - 1];
            const struct qr_condition *c = &q.circuit->conditions.list[g->condition - 1];
            CHECK(qr_qubits_count(&c->bits) == 1 && qr_qubits_has(&c->bits, 69), "bits");
            CHECK(qr_qubits_count(&c->values) == (unsigned)rows[i].value, "values");
        }
        qr_program_fini(&q);
    }
}

/* A long integer counts one step for each digit, also in a comparison. */
static void test_long_integers(void) {
    static const char *const forms[] = {"int k = %s; x q;", "if (c == %s) { } x q;"};
    char zeros[100001];
    memset(zeros, '0', sizeof zeros - 1);
    zeros[sizeof zeros - 1] = 0;
    for (size_t i = 0; i < COUNT(forms); i++) {
        qr_auto(qr_buf_free) struct qr_buf text = {0}, excerpt = {0};
        struct qr_program q = {0};
        struct qr_err err = {0};
        qr_buf_puts(&text, "qubit q; bit[2] c; ");
        for (const char *p = forms[i]; *p; p++)
            if (*p == '%') qr_buf_puts(&text, zeros), p++;
            else qr_buf_put(&text, p, 1);
        CHECK(qr_qasm_read(qr_buf_view(&text), &(struct qr_program_options){.max_steps = 10000}, &q,
                           &excerpt, &err) == QR_INVALID_ARGUMENT &&
                  strstr(err.msg, "more than 10000 steps"),
              "%s: %s", forms[i], err.msg);
    }
}

/* Statements after the measurement of qubit 0 into bit 0 and of qubit 1 into bit 1, and their
 * gates. */
static const char *const after_measurement[][2] = {
    {"if (c[0]) x q[2];", "{\"if\":[0],\"gates\":[X]}"},
    {"if (c == 1) x q[2];", "{\"if\":[0,1],\"if_values\":[1,0],\"gates\":[X]}"},
    {"if (c[0] == 1 && !c[1]) x q[2];", "{\"if\":[0,1],\"if_values\":[1,0],\"gates\":[X]}"},
    {"if (c[1]) x q[2]; else h q[2];",
     "{\"if\":[1],\"if_values\":[0],\"gates\":[H]},{\"if\":[1],\"gates\":[X]}"},
    {"if (c[0]) { if (c[1]) { h q[2]; } x q[2]; }",
     "{\"if\":[0,1],\"gates\":[H]},{\"if\":[0],\"gates\":[X]}"},
    {"if (c[0] ^ c[1]) x q[2];", "{\"if\":[0,1],\"if_values\":[0,1],\"gates\":[X]},"
                                 "{\"if\":[0,1],\"if_values\":[1,0],\"gates\":[X]}"},
    {"if (~c == 1) x q[2];", "{\"if\":[0,1],\"if_values\":[0,1],\"gates\":[X]}"},
    {"if (c << 1 == 2) x q[2];", "{\"if\":[0,1],\"if_values\":[1,0],\"gates\":[X]},"
                                 "{\"if\":[0,1],\"gates\":[X]}"},
    {"if (~c[0]) x q[2];", "{\"if\":[0],\"if_values\":[0],\"gates\":[X]}"},
    {"if (c[0] && false) x q[2]; if (c[0] || true) h q[2]; if (c[1]) x q[2];",
     "H,{\"if\":[1],\"gates\":[X]}"},
    {"switch (c) { case 2 { x q[2]; } default { h q[2]; } }",
     "{\"if\":[0,1],\"if_values\":[0,0],\"gates\":[H]},"
     "{\"if\":[0,1],\"if_values\":[1,0],\"gates\":[H]},"
     "{\"if\":[0,1],\"if_values\":[0,1],\"gates\":[X]},{\"if\":[0,1],\"gates\":[H]}"},
    {"rx(0.5 * float(c[0])) q[2];", "{\"if\":[0],\"gates\":["
                                    "{\"gate\":\"RX\",\"qubits\":[2],\"angle\":0.5}]}"},
    {"def f(bit[2] a, qubit b) { a[0] = 0; a[1] = measure b; } f(c, q[2]); if (c[0]) x q[2];",
     "{\"measure\":[2],\"bits\":[2]},{\"if\":[0],\"gates\":[X]}"},
    {"def f(bit[2] a, qubit b) { if (a == 1) x b; } f(c, q[2]);",
     "{\"if\":[0,1],\"if_values\":[1,0],\"gates\":[X]}"},
    {"bit d = !c[0]; if (d) x q[2];", "{\"if\":[0],\"if_values\":[0],\"gates\":[X]}"},
    {"bool d = !c[0]; bit e = !d; if (e) x q[2];", "{\"if\":[0],\"gates\":[X]}"},
    {"int n = c; bit d = n[1]; bit[2] e; e[1] = d & !c[0]; if (e == 2) x q[2];",
     "{\"if\":[0,1],\"if_values\":[0,1],\"gates\":[X]}"},
    {"def f(bit a, uint[1] n, qubit b) { if (a) x b; if (n == 0) h b; } f(!c[0], 2 * c[1], q[2]);",
     "{\"if\":[0],\"if_values\":[0],\"gates\":[X]},"
     "{\"if\":[1],\"if_values\":[0],\"gates\":[H]},{\"if\":[1],\"gates\":[H]}"},
    {"def f(bit[2] a, qubit b) -> uint[1] { int n = a; h b; return n; } int k = f(c, q[2]); "
     "if (k == 0) x q[2];",
     "H,{\"if\":[0,1],\"if_values\":[0,0],\"gates\":[X]},"
     "{\"if\":[0,1],\"if_values\":[0,1],\"gates\":[X]}"},
    {"int n = 2; n[0] ^= c[0]; c[0] = 0; if (c[1]) x q[2];", "{\"if\":[1],\"gates\":[X]}"},
    {"bit d = c[1]; if (d) x q[2];", "{\"if\":[1],\"gates\":[X]}"},
    {"int s; s = c; switch (s) { case 3 { x q[2]; } }", "{\"if\":[0,1],\"gates\":[X]}"},
    {"int s = 2 * c[1] + 1; bool b = s > 1 && !c[0]; if (b) x q[2]; if (s == 1) h q[2];",
     "{\"if\":[0,1],\"if_values\":[0,1],\"gates\":[X]},"
     "{\"if\":[1],\"if_values\":[0],\"gates\":[H]}"},
    {"bit[2] d = c; if (d == 1) x q[2];", "{\"if\":[0,1],\"if_values\":[1,0],\"gates\":[X]}"},
    {"bit[2] d; d = c; d[0] = 1; if (d == 1) x q[2];",
     "{\"if\":[1],\"if_values\":[0],\"gates\":[X]}"},
    {"def f(qubit a) -> bit[2] { bit[2] b; b[1] = measure a; return b; } "
     "def g(qubit a) -> bit[2] { return f(a); } bit[2] e = g(q[2]); if (e == 2) h q[0];",
     "{\"measure\":[2],\"bits\":[4]},{\"if\":[4],\"gates\":["
     "{\"gate\":\"H\",\"qubits\":[0]}]}"},
    {"def f(qubit[2] a) -> bit[2] { return measure a; } bit[2] e = f(q[0:1]); if (e == 2) x "
     "q[2];",
     "{\"measure\":[0],\"bits\":[4]},{\"measure\":[1],\"bits\":[5]},"
     "{\"if\":[4,5],\"if_values\":[0,1],\"gates\":[X]}"},
    {"def f() -> bool { bit[2] b = 2; return b; } bit[2] e = f(); if (e == 1) x q[2]; "
     "if (c[0]) x q[2];",
     "X,{\"if\":[0],\"gates\":[X]}"},
    {"box { if (c[0]) x q[2]; }", "{\"if\":[0],\"gates\":[X]}"},
    {"if (c[0]) reset q[0];", "{\"if\":[0],\"gates\":[{\"channel\":\"Reset\",\"qubits\":[0]}]}"},
    {"c[0] = measure q[0]; if (c[0]) x q[2];",
     "{\"measure\":[0],\"bits\":[0]},{\"if\":[0],\"gates\":[X]}"},
    {"measure q[2]; x q[2];", "{\"measure\":[2],\"bits\":[]},X"},
    {"x q[2]; bit e = measure q[2]; if (e) h q[0];",
     "X,{\"measure\":[2],\"bits\":[2]},{\"if\":[2],\"gates\":["
     "{\"gate\":\"H\",\"qubits\":[0]}]}"},
    {"def f(qubit a) -> bit { return measure a; } bit e = f(q[2]); if (e) h q[0];",
     "{\"measure\":[2],\"bits\":[3]},{\"if\":[3],\"gates\":["
     "{\"gate\":\"H\",\"qubits\":[0]}]}"},
    {"#pragma braket noise bit_flip(0.5*float(c[0])) q[2]\n",
     "{\"if\":[0],\"if_values\":[0],\"gates\":[{\"channel\":\"BitFlip\",\"qubits\":[2],"
     "\"p\":0}]},{\"if\":[0],\"gates\":[{\"channel\":\"BitFlip\",\"qubits\":[2],"
     "\"p\":0.5}]}"},
};

static void test_measured_bits(void) {
    static const char begin[] = "\"gates\":[{\"gate\":\"H\",\"qubits\":[0]},"
                                "{\"measure\":[0],\"bits\":[0]},{\"measure\":[1],\"bits\":[1]},";
    for (size_t i = 0; i < COUNT(after_measurement); i++) {
        qr_auto(qr_buf_free) struct qr_buf text = {0}, wanted = {0};
        qr_buf_printf(&text, STD "qubit[3] q; bit[2] c; h q[0]; c = measure q[0:1];\n%s",
                      after_measurement[i][0]);
        qr_buf_puts(&wanted, begin);
        for (const char *p = after_measurement[i][1]; *p; p++)
            if ((*p == 'X' || *p == 'H') && p[1] != '\"')
                qr_buf_printf(&wanted, "{\"gate\":\"%c\",\"qubits\":[2]}", *p);
            else qr_buf_put(&wanted, p, 1);
        qr_buf_puts(&wanted, "]}");
        struct qr_program q = read_text(qr_buf_string(&text), NULL, 0);
        char *json = json_of(q.circuit);
        const char *gates = strstr(json, "\"gates\"");
        CHECK(gates && strcmp(gates, qr_buf_string(&wanted)) == 0, "%s: %s, not %s",
              after_measurement[i][0], json, qr_buf_string(&wanted));
        check_round_trip(q.circuit);
        free(json);
        qr_program_fini(&q);
    }
}

/* ---- noise ---- */

/* Braket's pragmas and their form in a job file. */
static void test_noise(void) {
    static const char *const rows[][2] = {
        {"bit_flip(0.1) q[0]", "\"BitFlip\",\"qubits\":[0],\"p\":0.1}"},
        {"phase_flip(1/4.) q[0]", "\"PhaseFlip\",\"qubits\":[0],\"p\":0.25}"},
        {"depolarizing(1e-3) q[1]", "\"Depolarize\",\"qubits\":[1],\"p\":0.001}"},
        {"two_qubit_depolarizing(0.1) q[1], q[0]", "\"Depolarize\",\"qubits\":[1,0],\"p\":0.1}"},
        {"two_qubit_dephasing(0.1) q", "\"Dephase\",\"qubits\":[0,1],\"p\":0.1}"},
        {"pauli_channel(0.1, 0.2, 0.3) q[0]",
         "\"PauliChannel\",\"qubits\":[0],\"p_x\":0.1,\"p_y\":0.2,\"p_z\":0.3}"},
        {"amplitude_damping(w) q[0]", "\"AmplitudeDamping\",\"qubits\":[0],\"gamma\":\"w\"}"},
        {"generalized_amplitude_damping(0.1, 0.75) q[0]",
         "\"GeneralizedAmplitudeDamping\",\"qubits\":[0],\"p\":0.75,\"gamma\":0.1}"},
        {"phase_damping(0.5*sin(w)) q",
         "\"PhaseDamping\",\"qubits\":[0],\"gamma\":\"0.5*sin(w)\"},{\"channel\":"
         "\"PhaseDamping\",\"qubits\":[1],\"gamma\":\"0.5*sin(w)\"}"},
        {"kraus([[0.6, 0], [0, 0.6im]], [[0, -0.8im], [0.8, 0]]) q[1]",
         "\"Kraus\",\"qubits\":[1],\"operators\":[[[[0.6,0],[0,0]],[[0,0],[0,0.6]]],"
         "[[[0,0],[0,-0.8]],[[0.8,0],[0,0]]]]}"},
        {"kraus([[1, 0, 0, 0], [0, 0.5+0.5im, 0, -0.5+0.5im], [0, 0, 1, 0], "
         "[0, -0.5+0.5im, 0, 0.5+0.5im]]) q[1], q[0]",
         "\"Kraus\",\"qubits\":[1,0],\"operators\":[[[[1,0],[0,0],[0,0],[0,0]],[[0,0],[0.5,0.5],"
         "[0,0],[-0.5,0.5]],[[0,0],[0,0],[1,0],[0,0]],[[0,0],[-0.5,0.5],[0,0],[0.5,0.5]]]]}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        qr_auto(qr_free_p) char *text = qr_xasprintf(
            "input float w;\nqubit[2] q;\nU(0, 0, 0) q;\n#pragma braket noise %s\n", rows[i][0]);
        struct qr_program q = read_text(text, NULL, 0);
        qr_auto(qr_free_p) char *json = json_of(q.circuit);
        CHECK(strstr(json, rows[i][1]), "%s: %s", rows[i][0], json);
        qr_program_fini(&q);
    }
    /* A reset of an untouched qubit is dropped; after gates and noise it is a channel. */
    struct qr_program q = read_text(STD "qubit[3] q; reset q; h q[1];\n"
                                        "for int i in [0:1] {\n"
                                        "#pragma braket noise bit_flip((i + 1)/8.) q[i]\n"
                                        "}\nreset q; x q[0];",
                                    NULL, 0);
    qr_auto(qr_free_p) char *json = json_of(q.circuit);
    CHECK(strstr(json, "[{\"gate\":\"H\",\"qubits\":[1]},"
                       "{\"channel\":\"BitFlip\",\"qubits\":[0],\"p\":0.125},"
                       "{\"channel\":\"BitFlip\",\"qubits\":[1],\"p\":0.25},"
                       "{\"channel\":\"Reset\",\"qubits\":[0]},"
                       "{\"channel\":\"Reset\",\"qubits\":[1]},"
                       "{\"gate\":\"X\",\"qubits\":[0]}]"),
          "%s", json);
    qr_program_fini(&q);
    /* A channel's strength cannot depend on data. */
    static const char *const inputs[] = {"x"};
    struct qr_err err = {0};
    struct qr_buf excerpt = {0};
    CHECK(read_with("input float x; qubit q;\n#pragma braket noise bit_flip(2*x) q", inputs, 1, &q,
                    &excerpt, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "line 2, column 31: p depends on data"),
          "%s", err.msg);
    qr_buf_free(&excerpt);
}

/* ---- errors ---- */

static const struct {
    const char *text, *place, *words;
    bool valid; /* valid OpenQASM that cannot be simulated */
} rejected[] = {
    {"qubit q;\n\tfoo q;", "line 2, column 2", "'foo' is not defined", false},
    {"OPENQASM 2.0; qreg q[1]; h q;", "line 1, column 26", "add include \"qelib1.inc\"", false},
    {STD "h q;", "column 27", "'q' is not declared", false},
    {STD "qubit q; h q, q;", "column 34", "acts on 1 qubit here, but 2 are given", false},
    {STD "qubit q; rx q;", "column 34", "takes 1 angle, but 0 are given", false},
    {STD "qubit[2] q; cx q, q[0];", "column 37", "is an operand already", false},
    {STD "qubit[2] q; qubit[3] r; cx q, r;", "column 55", "3 qubits, but another operand has 2",
     false},
    {STD "qubit[2] q; x q[2];", "column 41", "index 2 is out of range; there are 0 to 1", false},
    {STD "qubit q; gate g a { h a; foo a; }", "column 50", "'foo' is not defined", false},
    {STD "qubit q; gate g a { g a; }", "column 45", "'g' is not defined", false},
    {STD "qubit q; gate g a { measure a; }", "column 45", "a gate measures no qubits", false},
    {STD "qubit q; gate g a { h $0; }", "column 47", "no qubits by number", false},
    {STD "h $a;", "column 27", "'$' is not followed by the number", false},
    {"defcal x $q { }", "column 1", "no pulses", true},
    {"qubit q; x = 2;", "column 10", "'x' is not declared", false},
    {"array[bit[8], 2] a;", "column 7", "an array has no bits", false},
    {STD "qubit q; rx(f(1, 2, 3)) q;", "column 37", "there is no function 'f'", false},
    {"qubit q; for int i in [0:1] if (true; false);", "column 37", "expected ')'", false},
    {"qubit q; def f(int a; x q; ", "column 23", "the statement ends here", false},
    {STD "qubit q; int q;", "column 38", "declared already", false},
    {STD "qubit q; const int n = 2; n = 3;", "column 51", "a constant", false},
    {STD "qubit q; uint[4] n = 2; n[1] += 1;", "column 54", "use &=, |= or ^=", false},
    {STD "qubit q; uint[4] n = 2; n[4] = 1;", "column 49", "it must be from 0 to 3", false},
    {STD "qubit q; angle[4] t = 0; t[1] = 1;", "column 50", "only bits of integers", true},
    {STD "qubit q; pow(1/2) @ x q;", "column 39", "write 1/2 as 0.5", true},
    {STD "qubit q; const int n = 3; pow(-n/2) @ x q;", "column 57", "drops a fraction", true},
    {STD "qubit q; int[8] b = -1; rx(popcount(b)) q;", "column 52", "convert it to bit[n]", false},
    {STD "def f(readonly array[float[64], #dim = 1] b) { } array[int[8], 2] a; qubit q; f(a);",
     "column 105", "this is not an array of the type", false},
    {STD "def f(mutable array[int[16], 2] b) { } array[int[8], 2] a; qubit q; f(a);", "column 95",
     "this is not an array of the type", false},
    {STD "def f(readonly array[int, 3] b) { } array[int, 2] a; qubit q; f(a);", "column 89",
     "this is not an array of the type", false},
    {STD "def f(readonly array[int, #dim = 1] b) { } array[int, 2, 2] a; qubit q; f(a);",
     "column 99", "this is not an array of the type", false},
    {STD "def f(readonly array[int, #dim = 1] b) { } bit[2] a; qubit q; f(a);", "column 89",
     "this is not an array of the type", false},
    {STD "qubit q; rx(1/0) q;", "column 38", "division by zero", false},
    {STD "qubit q; rx(sqrt(-1)) q;", "column 37", "not a finite number", false},
    {STD "qubit q; pow(1e300) @ rx(1e300) q;", "gate 0 (X)", "not a finite number", false},
    {STD "qubit q; x q", "column 37", "the text ends here", false},
    {STD "qubit q; { x q;", "column 34", "this { is not closed", false},
    {"qubit q; input float w; input int n;", "column 31", "only float and angle", true},
    {"qubit q;\n#pragma braket noise foo(0.1) q", "line 2, column 22",
     "expected a channel: bit_flip, phase_flip, depolarizing, two_qubit_depolarizing, "
     "two_qubit_dephasing, pauli_channel, amplitude_damping, generalized_amplitude_damping, "
     "phase_damping, kraus",
     false},
    {"qubit q;\n#pragma braket noise bit_flip(1.5) q", "line 2, column 22",
     "BitFlip has p = 1.5; give a number from 0 to 1", false},
    {"qubit q;\n#pragma braket noise pauli_channel(0.5, 0.4, 0.2) q", "line 2, column 22",
     "probabilities with a sum above 1", false},
    {"qubit q;\n#pragma braket noise pauli_channel(0.5) q", "line 2, column 39",
     "pauli_channel takes 3 numbers, but 1 is given", false},
    {"qubit q;\n#pragma braket noise bit_flip(0.5, 0.4) q", "line 2, column 34", "expected ')'",
     false},
    {"qubit q;\n#pragma braket noise bit_flip(0.5)", "line 2, column 35", "expected", false},
    {"qubit[2] q;\n#pragma braket noise bit_flip(0.5) q[0], q[0]", "line 2, column 42",
     "a qubit is given twice", false},
    {"qubit[2] q;\n#pragma braket noise two_qubit_dephasing(0.5) q[0]", "line 2, column 22",
     "acts on 2 qubits, but 1 are given", false},
    {"gate g a {\n#pragma braket noise bit_flip(0.5) a\n}", "line 2, column 22",
     "a gate has no noise", false},
    {"qubit q;\n#pragma braket noise kraus([[1, 0], [0, 0.5]]) q", "line 2, column 22",
     "is not the identity (off by 0.75)", false},
    {"qubit q;\n#pragma braket noise kraus([[1, 0, 0], [0, 1, 0]]) q", "line 2, column 37",
     "a row has 3 numbers", false},
    {"qubit q;\n#pragma braket noise kraus([[1, 0], [0, 1]], [[0, 0, 0]]) q", "line 2, column 54",
     "a row has more than 2 numbers", false},
    {"qubit q;\n#pragma braket noise kraus([[1, 0]]) q", "line 2, column 35", "a row", false},
    {"qubit q;\n#pragma braket verbatim", "line 2, column 16", "results and noise", true},
    {STD "qubit q; delay[10ns] q;", "column 34", "no timing", true},
    {STD "qubit q; box[10ns] { x q; }", "column 37", "no timing", true},
    {STD "qubit q; box x q;", "column 38", "expected '{'", false},
    {"defcal x $0 { }", "column 1", "no pulses", true},
    {"OPENQASM 2.0; opaque g a; qreg q[1];\ng q[0];", "line 2, column 1", "no definition", true},
    {"OPENQASM 2.0; qreg e[0]; reset e[0];", "column 34", "nothing to index", false},
    {STD "qubit[0] e; qubit q; cx e, q;", "column 49", "this register has no qubits", false},
    {"extern f(int) -> int;", "column 1", "not known here", true},
    {"include \"other.inc\";", "column 9", "only qelib1.inc and stdgates.inc", true},
    {STD "qubit q; pow(0.5) @ inv @ U(1, 2, 3) q;", "column 34", "fractional power", true},
    {STD "input float w; qubit q; if (w > 1) x q;", "column 55", "free symbols have", true},
    {"qubit[1025] q;", "column 13", "exceeds 1024 qubits", true},
    /* bounds */
    {"qubit q; while (true) { }", "column 16", "more than 33554432 steps", false},
    {"qubit q; for int i in [0:1000000000] { }", "column 24", "more than 1048576 elements", false},
    {STD "gate g a { x a; y a; } qubit q; pow(1000000000) @ g q;", "column 57",
     "exceeds 1048576 gates", false},
    {STD "qubit q; bit c = measure q; if (c) c = measure q;", "column 64",
     "whether this is measured depends on a measured bit", true},
    {STD "qubit q; bit c = measure q; bit d = c; c = measure q; if (d) x q;", "column 83",
     "depends on a measured bit by a variable, or on a bit that was measured again", true},
    {STD "qubit q; bit c = measure q; int n = 2 * c; n += 1; if (n == 2) x q;", "column 80",
     "depends on a measured bit by a variable, or on a bit that was measured again", true},
    {STD "qubit q; bit c = measure q; for int i in [0:2] { if (c) break; }", "column 74",
     "a jump or declaration depends on a measured bit", true},
    {STD "qubit q; uint[64] a = 1; a <<= 63;", "column 52", "exceeds 63 bits", true},
    {STD "qubit q; uint a = 1; a = a - 2;", "column 50", "limited to 0 to 2^63 - 1", true},
    {STD "qubit q; uint a = 1; uint[8] b = 2; rx(a - b) q;", "column 66", "exceeds 63 bits", true},
    {STD "qubit q; uint[64] a = 1; rx(~a) q;", "column 53", "exceeds 63 bits", true},
    {STD "qubit q; uint[64] a = 18446744073709551615;", "column 47", "too large for an integer",
     true},
    {STD "qubit q; bit[70] a; if (~a == 0) x q;", "column 49", "exceeds 63 bits", true},
    {STD "qubit q; bit[70] a; if (a << 1 == 0) x q;", "column 51", "exceeds 63 bits", true},
    {STD "qubit q; angle[4] a = pi; bit[5] b = a;", "column 62", "only to bit[n]", false},
    {STD "qubit q; angle[4] a = pi; rx(uint[4](a)) q;", "column 54", "only to bit[n]", false},
    {STD "qubit q; rx(angle[4](\"101\")) q;", "column 37", "only angle[3] takes 3 bits", false},
    {STD "qubit q; rx(7.5 % 0) q;", "column 41", "division by zero", false},
    {STD "qubit[3] q; let a = q ++ q; x a;", "column 50", "with a part of itself", false},
    {STD "qubit[3] q; let a = q[0:1] ++ q[2] ++ q[-2]; x a;", "column 63", "with a part of itself",
     false},
    {STD "qubit[13] q; bit[13] c = measure q; if (c > 5) x q[0];", "column 61",
     "more than 12 measured bits", true},
    {STD "qubit[65] q; bit[65] c = measure q; if (c == 5) x q[0];", "column 61",
     "more than 64 measured bits", true},
    {STD "qubit q; bit c = measure q; while (c) x q;", "column 63", "exceeds 1048576 gates", false},
    {"def f(qubit q) { f(q); } qubit q; f(q);", "column 18", "nested", false},
    {"bit[1000000000] c;", "column 5", "from 1 to 1048576", false},
    {"input float x; input float x_; qubit q;", "column 28", "input is named 'x_' too", true},
    {"input float w; qubit q; float v = w; for int i in [0:60] { v = v + v; } U(v, 0, 0) q;",
     "column 73", "exceeds 1024 bytes", false},
    {"input float w; qubit q; float v = w; for int i in [0:100] { v = v + v; } U(v, 0, 0) q;",
     "column 74", "nests more than 100 operations", false},
    {"input float w; qubit q; float v = w; for int i in [0:999] { v = v * v + v; } U(v, 0, 0) q;",
     "column 78", "nests more than 100 operations", false},
};

static void test_errors(void) {
    for (size_t i = 0; i < COUNT(rejected); i++) {
        struct qr_program q;
        struct qr_err err = {0};
        struct qr_buf excerpt = {0};
        int64_t begin = qr_now_ns(&qr_clock_monotonic);
        enum qr_code code = read_with(rejected[i].text, NULL, 0, &q, &excerpt, &err);
        CHECK(code == (rejected[i].valid ? QR_UNIMPLEMENTED : QR_INVALID_ARGUMENT), "%s: %s",
              rejected[i].text, err.msg);
        CHECK(strstr(err.msg, rejected[i].place) && strstr(err.msg, rejected[i].words), "%s: %s",
              rejected[i].text, err.msg);
        CHECK(qr_now_ns(&qr_clock_monotonic) - begin < T_MINUTE, "%s", rejected[i].text);
        if (i == 0)
            CHECK(strcmp(qr_buf_string(&excerpt), "   foo q;\n   ^\n") == 0, "%s",
                  qr_buf_string(&excerpt));
        qr_buf_free(&excerpt);
    }
}

/* ---- long texts ---- */

static void put_times(struct qr_buf *to, const char *part, size_t n) {
    if (!*part) return;
    size_t bytes = strlen(part);
    uint8_t *at = qr_buf_grow(to, n * bytes);
    for (size_t i = 0; i < n * bytes; i++) at[i] = (uint8_t)part[i % bytes];
}

enum { DEEP = 1000000, LONG_TEXT = QR_PROGRAM_BYTES - 64 };
static const struct {
    const char *before, *part, *middle, *close; /* `part` and `close` are repeated */
    size_t times;
    const char *words;
} repeated[] = {
    /* Nested brackets, blocks and signs are rejected before the stack overflows. */
    {"qubit q; U(", "(", "1", ")", DEEP, "nested here"},
    {"qubit q; U(", "-", "1", "", DEEP, "nested here"},
    {"qubit q; U(", "2**", "1", "", DEEP, "nested here"},
    {"qubit q; ", "if (true) ", "x q;", "", DEEP, "nested here"},
    {"qubit q; if (false) ", "if (true) ", "x q;", "", DEEP, "nested here"},
    {"qubit q; ", "{", "x q;", "}", DEEP, "nested here"},
    {"qubit q; ", "inv @ ", "x q;", "", DEEP, "at most 32 modifiers"},
    {"", "{", "", "", DEEP, "this { is not closed"},
    /* One token, and as many tokens as fit. */
    {"qubit q; ", "a", " q;", "", LONG_TEXT, "is not defined"},
    {"qubit q; rx(", "1", ") q;", "", LONG_TEXT, "exceeds 64 bits"},
    {"qubit q; rx(.", "1", ") q;", "", LONG_TEXT, "not a finite number"},
    {"/*", "*", "", "", LONG_TEXT, "this comment is not closed"},
    {"\"", "0", "", "", LONG_TEXT, "this quote is not closed"},
    {"", "(", "", "", LONG_TEXT, "more than 16777216 words"},
    {"", " ", "", "", LONG_TEXT, "no qubits"},
    {"", " ", "", "", QR_PROGRAM_BYTES + 1, "more than 67108864"},
    {"qubit q; ", "z q;", "", "", LONG_TEXT / 4, "exceeds 1048576 gates"},
};

static void test_long_texts(void) {
    for (size_t i = 0; i < COUNT(repeated); i++) {
        struct qr_buf text = {0}, excerpt = {0};
        struct qr_program q;
        struct qr_err err = {0};
        put_times(&text, repeated[i].before, 1);
        put_times(&text, repeated[i].part, repeated[i].times);
        put_times(&text, repeated[i].middle, 1);
        put_times(&text, repeated[i].close, repeated[i].times);
        int64_t begin = qr_now_ns(&qr_clock_monotonic);
        CHECK(read_with(qr_buf_string(&text), NULL, 0, &q, &excerpt, &err) != QR_OK &&
                  strstr(err.msg, repeated[i].words),
              "%s%s: %s", repeated[i].before, repeated[i].part, err.msg);
        CHECK(qr_now_ns(&qr_clock_monotonic) - begin < T_MINUTE, "%s", repeated[i].part);
        qr_buf_free(&text);
        qr_buf_free(&excerpt);
    }
}

/* Lists of which one more item would not fit. # in an item is its number. */
static void test_longest_lists(void) {
    static const struct {
        const char *before, *item, *between, *value, *after;
        unsigned most;
        const char *words;
    } lists[] = {
        {"qubit[20] q; x q;\ndef f(", "int a#", ") {}\nf(", "#", ");", 64,
         "a subroutine has at most 64 arguments"},
        {"qubit[20] q; x q;\n#pragma braket result expectation ", "z(q[#])", "\n", "", "", 16,
         "a product has at most 16 factors"},
    };
    for (size_t i = 0; i < COUNT(lists); i++)
        for (unsigned n = lists[i].most; n <= lists[i].most + 1; n++) {
            struct qr_buf text = {0}, excerpt = {0};
            struct qr_program q;
            struct qr_err err = {0};
            const char *const items[] = {lists[i].item, lists[i].value};
            qr_buf_puts(&text, lists[i].before);
            for (size_t k = 0; k < 2; k++) {
                for (unsigned at = 0; at < n && *items[k]; at++) {
                    if (at) qr_buf_puts(&text, i ? " @ " : ", ");
                    for (const char *c = items[k]; *c; c++)
                        if (*c == '#') qr_buf_printf(&text, "%u", at);
                        else qr_buf_printf(&text, "%c", *c);
                }
                qr_buf_puts(&text, k ? lists[i].after : lists[i].between);
            }
            bool fine = read_with(qr_buf_string(&text), NULL, 0, &q, &excerpt, &err) == QR_OK;
            CHECK(fine == (n <= lists[i].most), "%u of %s: %s", n, lists[i].item, err.msg);
            if (fine) qr_program_fini(&q);
            else CHECK(strstr(err.msg, lists[i].words), "%s", err.msg);
            qr_buf_free(&text);
            qr_buf_free(&excerpt);
        }
}

/* As many different channels as fit: a lookup takes constant time. */
static void test_many_channels(void) {
    int64_t begin = qr_now_ns(&qr_clock_monotonic);
    struct qr_program q = read_text("qubit q;\nfor int i in [0:500000] {\n"
                                    "#pragma braket noise bit_flip(i/1000000.0) q\n}\n",
                                    NULL, 0);
    CHECK(q.circuit->n_gates == 500001 && q.circuit->n_channels == 500001, "%zu channels",
          q.circuit->n_channels);
    CHECK(qr_now_ns(&qr_clock_monotonic) - begin < T_MINUTE);
    qr_program_fini(&q);
}

enum { BLOCK_BYTES = 8, BLOCKS = 16 };

static void put_letters(uint64_t i, char ret[BLOCK_BYTES + 1]) {
    i *= UINT64_C(0x9e3779b97f4a7c15);
    for (int c = 0; c < BLOCK_BYTES; c++) ret[c] = (char)('a' + (i >> 8 * c & 0xff) % 26);
    ret[BLOCK_BYTES] = 0;
}

/* Finds two blocks of letters after which the hash (FNV-1a) of a name is the same, and
 * returns it. */
static uint32_t find_collision(uint32_t state, char ret[2][BLOCK_BYTES + 1]) {
    enum { SLOTS = 1 << 20 };
    static uint32_t states[SLOTS], tried[SLOTS];
    memset(tried, 0, sizeof tried);
    for (uint32_t i = 1;; i++) {
        put_letters(i, ret[1]);
        uint32_t h = state, at;
        for (int c = 0; c < BLOCK_BYTES; c++) h = (h ^ (uint8_t)ret[1][c]) * 16777619u;
        at = (h ^ h >> 12) % SLOTS;
        if (tried[at] && states[at] == h) {
            put_letters(tried[at], ret[0]);
            return h;
        }
        tried[at] = i, states[at] = h;
    }
}

/* 65536 names with the same hash: each block has two choices. */
static void test_colliding_names(void) {
    char blocks[BLOCKS][2][BLOCK_BYTES + 1];
    uint32_t state = 2166136261u;
    for (int k = 0; k < BLOCKS; k++) state = find_collision(state, blocks[k]);
    struct qr_buf text = {0}, excerpt = {0};
    qr_buf_puts(&text, "barrier ");
    for (unsigned i = 0; i < 1u << BLOCKS; i++) {
        qr_buf_puts(&text, i ? ", " : "");
        for (int k = 0; k < BLOCKS; k++) qr_buf_puts(&text, blocks[k][i >> k & 1]);
    }
    qr_buf_puts(&text, ";");
    struct qr_program q;
    struct qr_err err = {0};
    CHECK(read_with(qr_buf_string(&text), NULL, 0, &q, &excerpt, &err) != QR_OK &&
              strstr(err.msg, "more than 33554432 steps"),
          "%s", err.msg);
    qr_buf_free(&text);
    qr_buf_free(&excerpt);
}

int main(void) {
    test_modifiers();
    check_equal_matrices(FIVE, equal_matrix_texts, COUNT(equal_matrix_texts));
    check_equal_matrices("", braket, COUNT(braket));
    test_equal_circuits();
    test_symbols();
    test_angles();
    test_readouts();
    test_measured_bits();
    test_long_registers();
    test_long_integers();
    test_noise();
    test_errors();
    test_long_texts();
    test_longest_lists();
    test_many_channels();
    test_colliding_names();
    return t_end();
}
