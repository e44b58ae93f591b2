/* qasm/library_gates.c — the gates of qelib1.inc, stdgates.inc and Amazon Braket as gates of
 * lib/circuit. Start reading at the table and qasm_library_add(). */
#include <math.h>
#include <string.h>

#include "qasm/qasm_impl.h"

/* ---- the table ---- */

struct library_gate {
    const char *name, *gate; /* gate: a name of circuit/gate_rows.h or composite_gates.h */
    unsigned sets;
    uint8_t n_angles, n_qubits;
    /* The global phase is the sum of the angles times these, in addition to the gate's. */
    double phase[3];
    const struct qr_composite_gate *parts; /* instead of gate */
    bool phase_only;                       /* the phase of one state */
    uint8_t off;                           /* of it: the qubits that are 0 */
};

#define Q QASM_QELIB
#define S QASM_STDGATES
#define B QASM_BRAKET
#define ROW(word, includes, angles, qubits)                                                        \
    .name = (word), .sets = (includes), .n_angles = (angles), .n_qubits = (qubits)
#define G(gate) .kind = QR_GATE_##gate, .factor = 1

/* Toffolis with relative phases, as Qiskit's definitions multiply out. */
static const struct qr_composite_gate rccx = {
    .parts = {{G(Y), .at = {2}, .controls = 3}, {G(Z), .at = {2}, .controls = 3, .off = 2}}};
static const struct qr_composite_gate rc3x = {
    .parts = {{G(Y), .at = {3}, .controls = 7},
              {G(Z), .at = {3}, .controls = 7, .off = 4},
              {.kind = QR_GATE_CZ, .factor = 0.5, .at = {0, 1}}}};

static const struct qr_composite_gate c3sqrtx = {
    .parts = {{.kind = QR_GATE_X, .factor = 0.5, .at = {3}, .controls = 7}}};

static const struct library_gate library[] = {
    /* OpenQASM 3's U has another global phase than OpenQASM 2's. */
    {ROW("U", QASM_ALWAYS, 3, 1), .gate = "U", .phase = {0.5}},
    {ROW("CX", QASM_ALWAYS, 0, 2), .gate = "CNOT"},
    {ROW("x", Q | S | B, 0, 1), .gate = "X"},
    {ROW("y", Q | S | B, 0, 1), .gate = "Y"},
    {ROW("z", Q | S | B, 0, 1), .gate = "Z"},
    {ROW("h", Q | S | B, 0, 1), .gate = "H"},
    {ROW("s", Q | S | B, 0, 1), .gate = "S"},
    {ROW("t", Q | S | B, 0, 1), .gate = "T"},
    {ROW("sdg", Q | S, 0, 1), .gate = "Sdg"},
    {ROW("si", B, 0, 1), .gate = "Sdg"},
    {ROW("tdg", Q | S, 0, 1), .gate = "Tdg"},
    {ROW("ti", B, 0, 1), .gate = "Tdg"},
    {ROW("sx", Q | S, 0, 1), .gate = "SX"},
    {ROW("v", B, 0, 1), .gate = "SX"},
    {ROW("sxdg", Q, 0, 1), .gate = "SXdg"},
    {ROW("vi", B, 0, 1), .gate = "SXdg"},
    {ROW("id", Q | S, 0, 1), .gate = "I"},
    {ROW("i", B, 0, 1), .gate = "I"},
    {ROW("u0", Q, 1, 1), .gate = "I"},
    {ROW("rx", Q | S | B, 1, 1), .gate = "RX"},
    {ROW("ry", Q | S | B, 1, 1), .gate = "RY"},
    {ROW("rz", Q | S | B, 1, 1), .gate = "RZ"},
    {ROW("p", Q | S, 1, 1), .gate = "P"},
    {ROW("phase", S, 1, 1), .gate = "P"},
    {ROW("phaseshift", B, 1, 1), .gate = "P"},
    {ROW("u1", Q | S, 1, 1), .gate = "P"},
    {ROW("u2", Q | S, 2, 1), .gate = "U2", .phase = {-0.5, -0.5}},
    {ROW("u3", Q | S, 3, 1), .gate = "U3", .phase = {0, -0.5, -0.5}},
    {ROW("u", Q, 3, 1), .gate = "U3"},
    {ROW("r", Q, 2, 1), .gate = "R"},
    {ROW("prx", B, 2, 1), .gate = "R"},
    {ROW("cx", Q | S, 0, 2), .gate = "CNOT"},
    {ROW("cnot", B, 0, 2), .gate = "CNOT"},
    {ROW("cy", Q | S | B, 0, 2), .gate = "CY"},
    {ROW("cz", Q | S | B, 0, 2), .gate = "CZ"},
    {ROW("ch", Q | S, 0, 2), .gate = "CH"},
    {ROW("csx", Q, 0, 2), .gate = "CSX"},
    {ROW("cv", B, 0, 2), .gate = "CSX"},
    {ROW("cp", Q | S, 1, 2), .gate = "CP"},
    {ROW("cphase", S, 1, 2), .gate = "CP"},
    {ROW("cu1", Q, 1, 2), .gate = "CP"},
    {ROW("cphaseshift", B, 1, 2), .gate = "CP"},
    {ROW("cphaseshift00", B, 1, 2), .phase_only = true, .off = 3},
    {ROW("cphaseshift01", B, 1, 2), .phase_only = true, .off = 1},
    {ROW("cphaseshift10", B, 1, 2), .phase_only = true, .off = 2},
    {ROW("crx", Q | S, 1, 2), .gate = "CRX"},
    {ROW("cry", Q | S, 1, 2), .gate = "CRY"},
    {ROW("crz", Q | S, 1, 2), .gate = "CRZ"},
    {ROW("cu3", Q, 3, 2), .gate = "CU3"},
    {ROW("cu", Q | S, 4, 2), .gate = "CU"},
    {ROW("swap", Q | S | B, 0, 2), .gate = "SWAP"},
    {ROW("iswap", B, 0, 2), .gate = "ISWAP"},
    {ROW("pswap", B, 1, 2), .gate = "PSWAP"},
    {ROW("xy", B, 1, 2), .gate = "IsingXY"},
    {ROW("ecr", B, 0, 2), .gate = "ECR"},
    {ROW("rxx", Q, 1, 2), .gate = "RXX"},
    {ROW("xx", B, 1, 2), .gate = "RXX"},
    {ROW("yy", B, 1, 2), .gate = "RYY"},
    {ROW("rzz", Q, 1, 2), .gate = "RZZ"},
    {ROW("zz", B, 1, 2), .gate = "RZZ"},
    {ROW("ccx", Q | S, 0, 3), .gate = "CCX"},
    {ROW("ccnot", B, 0, 3), .gate = "CCX"},
    {ROW("cswap", Q | S | B, 0, 3), .gate = "CSWAP"},
    {ROW("rccx", Q, 0, 3), .parts = &rccx},
    {ROW("c3x", Q, 0, 4), .gate = "MCX"},
    {ROW("rc3x", Q, 0, 4), .parts = &rc3x},
    {ROW("c3sqrtx", Q, 0, 4), .parts = &c3sqrtx},
    {ROW("c4x", Q, 0, 5), .gate = "MCX"},
};
enum { N_LIBRARY = sizeof library / sizeof *library };

static unsigned known_sets(const struct qasm_reader *r) {
    /* Braket's programs include nothing. */
    return r->sets | QASM_ALWAYS | (r->version == 3 && !r->sets ? QASM_BRAKET : 0);
}

static bool row_has_name(unsigned row, const char *name, size_t n) {
    return strlen(library[row].name) == n && memcmp(library[row].name, name, n) == 0;
}

static const struct library_gate *find_row(const struct qasm_reader *r, uint32_t name) {
    struct qasm_name *n = &r->names[name];
    if (!n->library) {
        n->library = 1;
        while (n->library <= N_LIBRARY && !row_has_name(n->library - 1u, n->text, n->bytes))
            n->library++;
    }
    return n->library <= N_LIBRARY ? &library[n->library - 1] : NULL;
}

bool qasm_stdgates_has(const char *name, size_t n) {
    for (unsigned i = 0; i < N_LIBRARY; i++)
        if (library[i].sets & (S | QASM_ALWAYS) && row_has_name(i, name, n)) return true;
    return false;
}

bool qasm_library_find(const struct qasm_reader *r, uint32_t name, unsigned *ret_n_angles,
                       unsigned *ret_n_qubits) {
    const struct library_gate *row = find_row(r, name);
    if (!row || !(row->sets & known_sets(r))) return false;
    *ret_n_angles = row->n_angles;
    *ret_n_qubits = row->n_qubits;
    return true;
}

const char *qasm_library_include(const struct qasm_reader *r, uint32_t name) {
    const struct library_gate *row = find_row(r, name);
    if (!row) return NULL;
    return row->sets & Q && (r->version == 2 || !(row->sets & S)) ? "qelib1.inc"
           : row->sets & S                                        ? "stdgates.inc"
                                                                  : NULL;
}

/* The gate of lib/circuit, which is looked up once. */
static void resolve_gate(struct qasm_name *n, const struct library_gate *row) {
    if (n->resolved) return;
    n->resolved = true;
    n->kind = row->gate ? qr_gate_kind_of(row->gate) : -1;
    n->composite = !row->gate ? row->parts : n->kind < 0 ? qr_composite_gate_of(row->gate) : NULL;
}

/* ---- adding gates ---- */

enum qr_code qasm_phase_add(struct qasm_reader *r, uint32_t token, struct qasm_value angle) {
    struct qr_gate_arg arg;
    if (qr_qubits_is_empty(&r->gates.controls)) return QR_OK;
    QR_TRY(qasm_angle(r, token, angle, &arg));
    arg.scale /= M_PI;
    qr_gate_list_add_phase(&r->gates.list, &r->gates.controls, &r->gates.control_values, arg);
    return QR_OK;
}

static enum qr_code add_row_phase(struct qasm_reader *r, uint32_t token,
                                  const struct library_gate *row, const struct qasm_value *angles) {
    struct qasm_value sum = qasm_whole(0), term;
    bool any = false;
    for (unsigned k = 0; k < 3 && k < row->n_angles; k++) {
        if (row->phase[k] == 0) continue;
        QR_TRY(qasm_binary(r, token, '*', qasm_real(row->phase[k]), angles[k], &term));
        if (any) QR_TRY(qasm_binary(r, token, '+', sum, term, &sum));
        else sum = term;
        any = true;
    }
    return any ? qasm_phase_add(r, token, sum) : QR_OK;
}

static void add_native(struct qasm_reader *r, const struct library_gate *row,
                       enum qr_gate_kind kind, const struct qr_gate_arg *angle,
                       const uint16_t *qubits) {
    const struct qr_gate_info *info = qr_gate_info(kind);
    struct qr_gate *g = qr_gate_list_new(&r->gates.list);
    *g = (struct qr_gate){.kind = kind,
                          .n_targets = info->n_targets,
                          .n_args = info->n_args,
                          .targets = {qubits[0], info->n_targets > 1 ? qubits[1] : 0},
                          .args = {{QR_ARG_CONSTANT, info->n_args ? 1 : 0, 0}},
                          .controls = r->gates.controls,
                          .control_values = r->gates.control_values};
    if (info->rotation && row->n_angles) {
        g->args[0] = *angle;
        g->args[0].scale /= M_PI;
        g->global_shift = -0.5;
    }
}

/* The phase of one state of the qubits. */
static enum qr_code add_state_phase(struct qasm_reader *r, uint32_t token,
                                    const struct library_gate *row, struct qasm_value angle,
                                    const uint16_t *qubits) {
    struct qr_qubits controls = r->gates.controls, values = r->gates.control_values;
    for (unsigned k = 0; k < row->n_qubits; k++)
        qr_gate_reader_control(&r->gates, qubits[k], !(row->off >> k & 1));
    QR_TRY(qasm_phase_add(r, token, angle));
    r->gates.controls = controls, r->gates.control_values = values;
    return QR_OK;
}

enum qr_code qasm_library_add(struct qasm_reader *r, uint32_t token, uint32_t name,
                              const struct qasm_value *angles, const uint16_t *qubits) {
    const struct library_gate *row = find_row(r, name);
    struct qasm_name *n = &r->names[name];
    if (row->phase_only) return add_state_phase(r, token, row, angles[0], qubits);
    resolve_gate(n, row);
    struct qr_gate_arg args[QR_COMPOSITE_ARGS];
    for (unsigned k = 0; k < row->n_angles; k++) QR_TRY(qasm_angle(r, token, angles[k], &args[k]));
    if (r->version == 3 && !qr_qubits_is_empty(&r->gates.controls))
        QR_TRY(add_row_phase(r, token, row, angles));
    if (n->kind >= 0) {
        add_native(r, row, (enum qr_gate_kind)n->kind, args, qubits);
        return QR_OK;
    }
    struct qr_gate_use use = {.gate = n->composite,
                              .qubits = qubits,
                              .n_qubits = row->n_qubits,
                              .controls = r->gates.controls,
                              .control_values = r->gates.control_values};
    memcpy(use.args, args, sizeof use.args);
    qr_gate_expand(&use, &r->gates.list);
    return QR_OK;
}
