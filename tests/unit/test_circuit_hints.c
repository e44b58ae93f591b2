/* Error messages for unknown gates, and for composite gates with wrong keys, qubits or matrices;
 * bound on the native gates of a list. */
#include "base/bytes.h"
#include "circuit/circuit_json.h"
#include "tests/t.h"

#define G(gate) "{\"qubits\": 4, \"gates\": [" gate "]}"
#define N(name) G("{\"gate\": \"" name "\", \"qubits\": [0], \"anything\": 1}")
static const struct {
    const char *text, *says;
} rejected_rows[] = {
    /* names, before keys */
    {N("CNOTT"), "circuit.gates[0].gate: unknown gate 'CNOTT'; did you mean 'CNOT'?"},
    {N("Tofolli"), "did you mean 'Toffoli'?"},
    {N("U4"), "unknown gate 'U4'; a constant unitary on one to six qubits is 'Unitary'"},
    {N("measure"), "write {\"measure\": [qubits], \"bits\": [bits]}"},
    {N("MeasureAll"), "\"readouts\""},
    {N("reset"), "{\"channel\": \"Reset\", \"qubits\": [qubits]}"},
    {N("barrier"), "remove it, gates keep their order"},
    {N("sdag"), "did you mean 'Sdg'?"},
    {N("T_dagger"), "did you mean 'Tdg'?"},
    {N("phase"), "did you mean 'P'"},
    {N("SqrtX"), "did you mean 'SX'?"},
    {N("rx_gate"), "did you mean 'RX'?"},
    {N("qml.CRX"), "did you mean 'CRX'?"},
    {N("phase_shift"), "did you mean 'PhaseShift'?"},
    {N("CRXX"), "write 'RXX' with \"controls\": [qubits]"},
    {N("Controlled-U2"), "write 'U2' with \"controls\""},
    {N("mcrx"), "write 'RX' with \"controls\""},
    {N("ECRdg"), "write {\"adjoint\": true, \"gates\": [gates]} with 'ECR'"},
    {N("pow"), "write {\"power\": number, \"gates\": [gates]}"},
    {N("AmplitudeEmbedding"), "'Basis' prepares"},
    {N("AngleEmbedding"), "{\"data\": column}"},
    {N("StronglyEntanglingLayers"), "{\"ansatz\": name}; did you mean 'strongly-entangling'?"},
    {N("uccsd"), "it is an ansatz: write {\"ansatz\": name}"},
    {N("QFT"), "for each qubit 'H', then 'CP' with it and each later qubit"},
    {N("IQFT"), "{\"adjoint\": true, \"gates\": [gates]} is the inverse"},
    {N("qml.QFT"), "'SWAP' at the end"},
    {N("repeat"), "{\"repeat\": times, \"index\": \"i\", \"gates\": [gates]}"},
    {N("GlobalPhase"), "a global phase changes no read-out"},
    {N("Molmer-Sorensen"), "did you mean 'MS'?"},
    {N("DepolarizingChannel"), "{\"channel\": name, \"qubits\": [qubits]}"},
    {N("if_else"), "write {\"if\": [measured bits], \"gates\": [gates]}"},
    {N("RW"), "unknown gate 'RW'; known gates: I X"},
    {N("!"), "known gates: I X"},
    {N(""), "known gates: I X"},
    {G("{\"qubits\": [0], \"gat\": \"X\"}"), "unknown key 'gat'; did you mean 'gate'?"},
    {G("{\"qubits\": [0]}"), "gates[0].gate is missing"},
    {G("{\"gate\": \"S\", \"qubits\": [0], \"anything\": 1}"), "unknown key 'anything'"},
    /* keys of other gates */
    {G("{\"gate\": \"S\", \"qubits\": [0], \"exponent\": 1}"),
     "S takes no arguments, not \"exponent\""},
    {G("{\"gate\": \"Rot\", \"qubits\": [0], \"theta\": 1, \"lambda\": 1}"),
     "Rot takes phi, theta and omega, not \"lambda\""},
    {G("{\"gate\": \"crx\", \"qubits\": [0, 1], \"theta\": 1}"), "CRX takes angle, not \"theta\""},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"pauli_word\": \"X\"}"), "not \"pauli_word\""},
    {G("{\"gate\": \"U2\", \"qubits\": [0], \"phi\": 1}"), "gates[0].lambda is missing"},
    {G("{\"gate\": \"U2\", \"qubits\": [0], \"phi\": 1, \"lambda\": 1, \"delta\": 2}"),
     "two names of one angle"},
    {G("{\"gate\": \"P\", \"qubits\": [0], \"angle\": {\"parameter\": \"a\", \"data\": 0}}"),
     "gates[0].angle must have one of"},
    /* qubits */
    {G("{\"gate\": \"CCX\", \"qubits\": [0, 1]}"), "CCX acts on 3 qubits, but 2 are given"},
    {G("{\"gate\": \"MCX\", \"qubits\": [0]}"),
     "MultiControlledX acts on at least 2 qubits, but 1 is given"},
    {G("{\"gate\": \"CCX\", \"qubits\": [0, 1, 0]}"), "gates[0].qubits: qubit 0 is given twice"},
    {G("{\"gate\": \"CCX\", \"qubits\": [0, 1, 2], \"controls\": [1]}"),
     "qubit 1 is a target and a control"},
    {G("{\"gate\": \"MCX\", \"qubits\": [0, 1], \"control_values\": [0]}"),
     "control_values, but no controls"},
    /* words of Paulis, states */
    {G("{\"gate\": \"PauliRot\", \"qubits\": [0], \"angle\": 1}"), "pauli_word is missing"},
    {G("{\"gate\": \"PauliRot\", \"qubits\": [0, 1], \"angle\": 1, \"pauli_word\": \"XYZ\"}"),
     "pauli_word has 3 letters, but 2 qubits are given"},
    {G("{\"gate\": \"PauliRot\", \"qubits\": [0, 1], \"angle\": 1, \"pauli_word\": \"Xy\"}"),
     "letter 2 is not I, X, Y or Z"},
    {G("{\"gate\": \"PauliRot\", \"qubits\": [0, 1], \"angle\": 1, \"pauli_word\": \"II\"}"),
     "does nothing"},
    {G("{\"gate\": \"Basis\", \"qubits\": [0, 1]}"), "gates[0].state is missing"},
    {G("{\"gate\": \"Basis\", \"qubits\": [0, 1], \"state\": 1}"),
     "gates[0].state must be a string, not"},
    {G("{\"gate\": \"Basis\", \"qubits\": [0, 1], \"state\": \"012\"}"),
     "state must have 2 digits 0 or 1"},
    {G("{\"gate\": \"Basis\", \"qubits\": [0, 1], \"state\": {\"column\": 0}}"),
     "gates[0].state: unknown key 'column'"},
    {"{\"qubits\": 3, \"columns\": 2, \"gates\": [{\"gate\": \"Basis\", \"qubits\": [0, 1, 2], "
     "\"state\": {\"data\": 0}}]}",
     "state.data refers to 3 columns of data, but the circuit's columns are 2"},
    {"{\"qubits\": 3, \"columns\": 3, \"gates\": [{\"gate\": \"Basis\", \"qubits\": [0, 1], "
     "\"state\": {\"data\": 2}}]}",
     "state.data is 2"},
    /* matrices */
    {G("{\"gate\": \"Unitary\", \"qubits\": [0]}"), "gates[0].matrix is missing"},
    {"{\"qubits\": 7, \"gates\": [{\"gate\": \"Unitary\", \"qubits\": [0, 1, 2, 3, 4, 5, 6], "
     "\"matrix\": []}]}",
     "Unitary acts on 1 to 6 qubits, but 7 are given"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[1, 0, 0, 0]]}"),
     "matrix has 1 rows; on 1 qubit it must be 2x2"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[1, 0], [0, 1, 0]]}"),
     "matrix[1] has 3 entries; it must have 2"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[1, 0], [0, \"i\"]]}"),
     "matrix[1][1] must be [re, im] or a number"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[1, 0], [0, [0, true]]]}"),
     "matrix[1][1][1] must be a number"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[1, 0], [0, [1, 1]]]}"),
     "matrix is not unitary: the squares of row 1's entries add up to 1 only within 1;"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[1, 0], [1, 0]]}"),
     "matrix is not unitary: rows 0 and 1 are not orthogonal (their product is 1;"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[1e300, 0], [0, 1]]}"),
     "matrix[0][0] is above 1"},
    {G("{\"gate\": \"Unitary\", \"qubits\": [0], \"matrix\": [[0.7071, 0.7071], [0.7071, "
       "-0.7071]]}"),
     "at most 1e-06 is allowed"},
};

static void rejected(void) {
    for (size_t i = 0; i < COUNT(rejected_rows); i++) {
        struct qr_json *root = NULL;
        struct qr_circuit *c = NULL;
        struct qr_qubits readouts;
        struct qr_err err = {.msg = ""};
        CHECK(qr_json_parse(qr_bytes_of_string(rejected_rows[i].text), "test", &root, &err) ==
              QR_OK);
        CHECK(qr_circuit_from_json(root, "circuit", &c, &readouts, &err) == QR_INVALID_ARGUMENT,
              "accepted: %s", rejected_rows[i].text);
        CHECK(strstr(err.msg, rejected_rows[i].says), "%s\n    says: %s", rejected_rows[i].text,
              err.msg);
        CHECK(!strstr(err.msg, "..."), "truncated: %s", err.msg);
        qr_json_free(root);
    }
}

/* The bound holds for native gates: 1024 qubits in pairs are 523776 of them. */
static void many(void) {
    struct qr_buf b = {0};
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_qubits readouts;
    struct qr_err err = {.msg = ""};
    qr_buf_puts(&b, "{\"qubits\": 1024, \"gates\": [");
    for (int i = 0; i < 3; i++) {
        qr_buf_printf(&b, "%s{\"gate\": \"MS\", \"angle\": 1, \"qubits\": [0", i ? ", " : "");
        for (int q = 1; q < 1024; q++) qr_buf_printf(&b, ", %d", q);
        qr_buf_puts(&b, "]}");
    }
    qr_buf_puts(&b, "]}");
    CHECK(qr_json_parse(qr_buf_view(&b), "test", &root, &err) == QR_OK);
    CHECK(qr_circuit_from_json(root, "circuit", &c, &readouts, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "circuit.gates[2]: here the circuit exceeds 1048576 gates"),
          "%s", err.msg);
    qr_json_free(root);
    qr_buf_free(&b);
}

int main(void) {
    rejected();
    many();
    return t_end();
}
