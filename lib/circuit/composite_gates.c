/* circuit/composite_gates.c — the table of composite gates and their expansion to native gates.
 * Start reading at qr_gate_expand() and the table above it. */
#include "circuit/composite_gates.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"

/* ---- native gates ---- */

static struct qr_gate_arg composite_constant(double value) {
    return (struct qr_gate_arg){QR_ARG_CONSTANT, value, 0};
}

/* An angle as an exponent in half-turns. */
static struct qr_gate_arg half_turns(struct qr_gate_arg angle, double factor) {
    angle.scale = angle.scale * factor / M_PI;
    return angle;
}

/* A change of basis needs no controls: where the controls do not hold, the change and its inverse
 * cancel. */
static void add_part(const struct qr_gate_use *use, const struct qr_gate_part *p, bool frame,
                     bool inverse, struct qr_gate_list *to) {
    const struct qr_gate_info *info = qr_gate_info(p->kind);
    bool self_inverse = !p->arg && p->factor == 1;
    double factor = inverse && !self_inverse ? -p->factor : p->factor;
    struct qr_gate *g = qr_gate_list_new(to);
    *g = (struct qr_gate){.kind = p->kind,
                          .n_targets = info->n_targets,
                          .n_args = info->n_args,
                          .global_shift = p->global_shift};
    for (unsigned k = 0; k < g->n_targets; k++) g->targets[k] = use->qubits[p->at[k]];
    if (g->n_args > 1) g->args[0] = composite_constant(p->phase_exponent);
    if (g->n_args > 0)
        g->args[g->n_args - 1] =
            p->arg ? half_turns(use->args[p->arg - 1], factor) : composite_constant(factor);
    if (!frame) g->controls = use->controls, g->control_values = use->control_values;
    for (unsigned k = 0; k < 8; k++)
        if (p->controls >> k & 1) qr_gate_control(g, use->qubits[k], !(p->off >> k & 1));
}

static void expand_parts(const struct qr_gate_use *use, struct qr_gate_list *to) {
    const struct qr_composite_gate *w = use->gate;
    for (unsigned i = 0; i < QR_COMPOSITE_PARTS && w->parts[i].factor != 0; i++)
        add_part(use, &w->parts[i], i < w->n_frame, false, to);
    for (unsigned i = w->n_frame; i-- > 0;) add_part(use, &w->parts[i], true, true, to);
}

/* ---- gates on any number of qubits ---- */

/* The last qubit is the target, all others are controls. */
static struct qr_gate controlled_on_last(const struct qr_gate_use *use, enum qr_gate_kind kind) {
    unsigned last = use->n_qubits - 1;
    struct qr_gate g = qr_gate_on(use, kind, last, 1);
    for (unsigned k = 0; k < last; k++) qr_gate_control(&g, use->qubits[k], true);
    return g;
}

static void expand_controlled_x(const struct qr_gate_use *use, struct qr_gate_list *to) {
    struct qr_gate g = controlled_on_last(use, QR_GATE_X);
    qr_gate_list_add(to, &g);
}

static void expand_controlled_phase(const struct qr_gate_use *use, struct qr_gate_list *to) {
    struct qr_gate g = controlled_on_last(use, QR_GATE_Z);
    g.args[0] = half_turns(use->args[0], 1);
    qr_gate_list_add(to, &g);
}

/* e^(-i angle/2 P) on two qubits, P one of XX, YY, ZZ. */
static void add_pair(const struct qr_gate_use *use, enum qr_gate_kind kind, unsigned a, unsigned b,
                     struct qr_gate_list *to) {
    struct qr_gate g = qr_gate_on(use, kind, a, 1);
    g.n_targets = 2;
    g.targets[1] = use->qubits[b];
    g.args[0] = half_turns(use->args[0], 1);
    g.global_shift = -0.5;
    qr_gate_list_add(to, &g);
}

static void expand_ms(const struct qr_gate_use *use, struct qr_gate_list *to) {
    for (unsigned a = 0; a < use->n_qubits; a++)
        for (unsigned b = a + 1; b < use->n_qubits; b++) add_pair(use, QR_GATE_XX, a, b, to);
}

/* Rotates the letter to Z, and back: H Z H = X, and X^-1/2 Z X^1/2 = Y. */
static void add_basis_change(const struct qr_gate_use *bare, unsigned at, char pauli, bool back,
                             struct qr_gate_list *to) {
    if (pauli == 'Z') return;
    bool x = pauli == 'X';
    struct qr_gate g = qr_gate_on(bare, x ? QR_GATE_H : QR_GATE_X, at, x ? 1 : back ? -0.5 : 0.5);
    qr_gate_list_add(to, &g);
}

static void add_parity(const struct qr_gate_use *bare, unsigned from, unsigned onto,
                       struct qr_gate_list *to) {
    struct qr_gate g = qr_gate_on(bare, QR_GATE_CNOT, from, 1);
    g.n_targets = 2;
    g.targets[1] = bare->qubits[onto];
    qr_gate_list_add(to, &g);
}

/* Each letter becomes a Z, the parity of all but the last two is collected on the last but one, and
 * ZZ rotates. One letter and two equal letters are native. */
static void add_rotation(const struct qr_gate_use *use, const unsigned *at, unsigned n,
                         struct qr_gate_list *to) {
    static const char letters[] = "XYZ";
    static const enum qr_gate_kind one[] = {QR_GATE_X, QR_GATE_Y, QR_GATE_Z},
                                   two[] = {QR_GATE_XX, QR_GATE_YY, QR_GATE_ZZ};
    const char *paulis = use->paulis;
    if (n == 1) {
        struct qr_gate g = qr_gate_on(use, one[strchr(letters, paulis[at[0]]) - letters], at[0], 1);
        g.args[0] = half_turns(use->args[0], 1);
        g.global_shift = -0.5;
        qr_gate_list_add(to, &g);
        return;
    }
    if (n == 2 && paulis[at[0]] == paulis[at[1]]) {
        add_pair(use, two[strchr(letters, paulis[at[0]]) - letters], at[0], at[1], to);
        return;
    }
    struct qr_gate_use bare = *use; /* changes of basis need no controls */
    bare.controls = bare.control_values = (struct qr_qubits){0};
    for (unsigned k = 0; k < n; k++) add_basis_change(&bare, at[k], paulis[at[k]], false, to);
    for (unsigned k = 0; k + 2 < n; k++) add_parity(&bare, at[k], at[k + 1], to);
    add_pair(use, QR_GATE_ZZ, at[n - 2], at[n - 1], to);
    for (unsigned k = n - 2; k-- > 0;) add_parity(&bare, at[k], at[k + 1], to);
    for (unsigned k = 0; k < n; k++) add_basis_change(&bare, at[k], paulis[at[k]], true, to);
}

static void expand_pauli_rotation(const struct qr_gate_use *use, struct qr_gate_list *to) {
    unsigned at[QR_MAX_QUBITS] = {0}, n = 0;
    for (unsigned k = 0; k < use->n_qubits; k++)
        if (use->paulis[k] != 'I') at[n++] = k;
    add_rotation(use, at, n, to);
}

static void expand_multi_rz(const struct qr_gate_use *use, struct qr_gate_list *to) {
    char paulis[QR_MAX_QUBITS + 1] = "";
    memset(paulis, 'Z', use->n_qubits);
    struct qr_gate_use all = *use;
    all.paulis = paulis;
    expand_pauli_rotation(&all, to);
}

static void expand_basis(const struct qr_gate_use *use, struct qr_gate_list *to) {
    for (unsigned k = 0; k < use->n_qubits; k++) {
        struct qr_gate g = qr_gate_on(use, QR_GATE_X, k, 1);
        if (!use->state) g.args[0] = (struct qr_gate_arg){QR_ARG_DATA, 1, use->column + k};
        if (!use->state || use->state[k] == '1') qr_gate_list_add(to, &g);
    }
}

/* ---- the table ---- */

#define POWER(t) .factor = (t)
#define PHASE(k) .arg = (k), .factor = 1                      /* e^(i angle) on |1> */
#define TURN(k) .arg = (k), .factor = 1, .global_shift = -0.5 /* e^(-i angle/2 P) */
#define BACK(k) .arg = (k), .factor = -1, .global_shift = -0.5
#define QUARTER POWER(0.5), .global_shift = -0.5
#define BY(place) .controls = 1u << (place)
#define G(gate) .kind = QR_GATE_##gate
#define ONE .least = 1, .most = 1
#define TWO .least = 2, .most = 2
#define ANGLE .args = {"angle"}

static const struct qr_composite_gate composite_gates[] = {
    /* One qubit */
    {{"Identity", "Id"}, ONE, .parts = {{G(I), POWER(1)}}},
    {{"PauliX"}, ONE, .parts = {{G(X), POWER(1)}}},
    {{"PauliY"}, ONE, .parts = {{G(Y), POWER(1)}}},
    {{"PauliZ"}, ONE, .parts = {{G(Z), POWER(1)}}},
    {{"Hadamard"}, ONE, .parts = {{G(H), POWER(1)}}},
    {{"S"}, ONE, .parts = {{G(Z), POWER(0.5)}}},
    {{"Sdg"}, ONE, .parts = {{G(Z), POWER(-0.5)}}},
    {{"T"}, ONE, .parts = {{G(Z), POWER(0.25)}}},
    {{"Tdg"}, ONE, .parts = {{G(Z), POWER(-0.25)}}},
    {{"SX"}, ONE, .parts = {{G(X), POWER(0.5)}}},
    {{"SXdg"}, ONE, .parts = {{G(X), POWER(-0.5)}}},
    {{"P", "PhaseShift", "U1"}, ONE, ANGLE, .parts = {{G(Z), PHASE(1)}}},
    {{"U2"},
     ONE,
     .args = {"phi", "lambda"},
     .parts = {{G(Z), PHASE(2)}, {G(Y), QUARTER}, {G(Z), PHASE(1)}}},
    {{"U", "U3"},
     ONE,
     .args = {"theta", "phi", "lambda"},
     .parts = {{G(Z), PHASE(3)}, {G(Y), TURN(1)}, {G(Z), PHASE(2)}}},
    {{"R"},
     ONE,
     .args = {"theta", "phi"},
     .n_frame = 1,
     .parts = {{G(Z), BACK(2)}, {G(X), TURN(1)}}},
    {{"Rot"},
     ONE,
     .args = {"phi", "theta", "omega"},
     .parts = {{G(Z), TURN(1)}, {G(Y), TURN(2)}, {G(Z), TURN(3)}}},
    /* A control and its target */
    {{"CY"}, TWO, .parts = {{G(Y), .at = {1}, BY(0), POWER(1)}}},
    {{"CH"}, TWO, .parts = {{G(H), .at = {1}, BY(0), POWER(1)}}},
    {{"CS"}, TWO, .parts = {{G(CZ), .at = {0, 1}, POWER(0.5)}}},
    {{"CSdg"}, TWO, .parts = {{G(CZ), .at = {0, 1}, POWER(-0.5)}}},
    {{"CSX"}, TWO, .parts = {{G(CNOT), .at = {0, 1}, POWER(0.5)}}},
    {{"CP", "CPhase", "ControlledPhaseShift", "CU1"},
     TWO,
     ANGLE,
     .parts = {{G(CZ), .at = {0, 1}, PHASE(1)}}},
    {{"CRX"}, TWO, ANGLE, .parts = {{G(X), .at = {1}, BY(0), TURN(1)}}},
    {{"CRY"}, TWO, ANGLE, .parts = {{G(Y), .at = {1}, BY(0), TURN(1)}}},
    {{"CRZ"}, TWO, ANGLE, .parts = {{G(Z), .at = {1}, BY(0), TURN(1)}}},
    {{"CRot"},
     TWO,
     .args = {"phi", "theta", "omega"},
     .parts = {{G(Z), .at = {1}, BY(0), TURN(1)},
               {G(Y), .at = {1}, BY(0), TURN(2)},
               {G(Z), .at = {1}, BY(0), TURN(3)}}},
    {{"CU3"},
     TWO,
     .args = {"theta", "phi", "lambda"},
     .parts = {{G(CZ), .at = {0, 1}, PHASE(3)},
               {G(Y), .at = {1}, BY(0), TURN(1)},
               {G(CZ), .at = {0, 1}, PHASE(2)}}},
    {{"CU"},
     TWO,
     .args = {"theta", "phi", "lambda", "gamma"},
     .parts = {{G(Z), PHASE(4)},
               {G(CZ), .at = {0, 1}, PHASE(3)},
               {G(Y), .at = {1}, BY(0), TURN(1)},
               {G(CZ), .at = {0, 1}, PHASE(2)}}},
    /* Others on two qubits */
    {{"RXX", "IsingXX"}, TWO, ANGLE, .parts = {{G(XX), .at = {0, 1}, TURN(1)}}},
    {{"RYY", "IsingYY"}, TWO, ANGLE, .parts = {{G(YY), .at = {0, 1}, TURN(1)}}},
    {{"RZZ", "IsingZZ"}, TWO, ANGLE, .parts = {{G(ZZ), .at = {0, 1}, TURN(1)}}},
    {{"RZX"},
     TWO,
     ANGLE,
     .n_frame = 1,
     .parts = {{G(H), .at = {1}, POWER(1)}, {G(ZZ), .at = {0, 1}, TURN(1)}}},
    {{"IsingXY"}, TWO, ANGLE, .parts = {{G(ISWAP), .at = {0, 1}, PHASE(1)}}},
    {{"SISWAP", "SQISW"}, TWO, .parts = {{G(ISWAP), .at = {0, 1}, POWER(0.5)}}},
    {{"PSWAP"},
     TWO,
     ANGLE,
     .parts = {{G(SWAP), .at = {0, 1}, POWER(1)}, {G(ZZ), .at = {0, 1}, PHASE(1)}}},
    {{"DCX"}, TWO, .parts = {{G(CNOT), .at = {0, 1}, POWER(1)}, {G(CNOT), .at = {1, 0}, POWER(1)}}},
    /* X on the first, and e^(-i pi/4 Z x X) */
    {{"ECR"},
     TWO,
     .n_frame = 1,
     .parts = {{G(H), .at = {1}, POWER(1)},
               {G(ZZ), .at = {0, 1}, QUARTER},
               {G(X), .at = {0}, POWER(1)}}},
    /* {01, 10}: [[cos, -sin], [sin, cos]] of angle/2, and of the angle */
    {{"SingleExcitation"},
     TWO,
     ANGLE,
     .parts = {{G(PHASED_ISWAP), .at = {0, 1}, PHASE(1), .phase_exponent = 0.25}}},
    {{"Givens"},
     TWO,
     ANGLE,
     .parts = {{G(PHASED_ISWAP), .at = {0, 1}, .arg = 1, .factor = 2, .phase_exponent = 0.25}}},
    /* More than two */
    {{"CCX", "Toffoli", "CCNOT"}, .least = 3, .most = 3, .expand = expand_controlled_x},
    {{"CCZ"}, .least = 3, .most = 3, .parts = {{G(Z), .at = {2}, .controls = 3, POWER(1)}}},
    {{"CSWAP", "Fredkin"},
     .least = 3,
     .most = 3,
     .parts = {{G(SWAP), .at = {1, 2}, BY(0), POWER(1)}}},
    /* 0011 and 1100 become 011 and 111 of the others, with the first as the rotated qubit */
    {{"DoubleExcitation"},
     .least = 4,
     .most = 4,
     ANGLE,
     .n_frame = 3,
     .parts = {{G(CNOT), .at = {0, 1}, POWER(1)},
               {G(CNOT), .at = {0, 2}, POWER(1)},
               {G(CNOT), .at = {0, 3}, POWER(1)},
               {G(Y), .at = {0}, .controls = 14, .off = 2, TURN(1)}}},
    {{"MultiControlledX", "MCX"}, .least = 2, .expand = expand_controlled_x},
    {{"MCPhase", "MCP"}, .least = 2, ANGLE, .expand = expand_controlled_phase},
    {{"MultiRZ"}, .least = 1, ANGLE, .expand = expand_multi_rz},
    {{"PauliRot"},
     .least = 1,
     ANGLE,
     .takes = QR_COMPOSITE_PAULIS,
     .expand = expand_pauli_rotation},
    {{"MS"}, .least = 2, ANGLE, .expand = expand_ms},
    {{"Unitary", "QubitUnitary", "UnitaryGate"},
     .least = 1,
     .most = QR_UNITARY_QUBITS,
     .takes = QR_COMPOSITE_MATRIX,
     .expand = qr_gate_expand_unitary},
    {{"Basis", "BasisEmbedding", "BasisState"},
     .least = 1,
     .takes = QR_COMPOSITE_STATE,
     .expand = expand_basis},
};

const struct qr_composite_gate *qr_composite_gate_at(size_t i) {
    return i < sizeof composite_gates / sizeof *composite_gates ? &composite_gates[i] : NULL;
}

const struct qr_composite_gate *qr_composite_gate_of(const char *name) {
    const struct qr_composite_gate *w;
    for (size_t i = 0; (w = qr_composite_gate_at(i)); i++)
        for (unsigned k = 0; k < QR_COMPOSITE_NAMES && w->names[k]; k++)
            if (strcasecmp(name, w->names[k]) == 0) return w;
    return NULL;
}

void qr_gate_expand(const struct qr_gate_use *use, struct qr_gate_list *to) {
    size_t before = to->n;
    if (use->gate->expand) use->gate->expand(use, to);
    else expand_parts(use, to);
    if (to->n > before) return;
    struct qr_gate nothing = {.kind = QR_GATE_I, .n_targets = 1, .targets = {use->qubits[0]}};
    qr_gate_list_add(to, &nothing);
}
