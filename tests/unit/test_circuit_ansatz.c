/* Ansätze and encoders by name: states equal to those of PennyLane and Qiskit, with weights in the
 * same order; rejected keys. */
#include <math.h>

#include "circuit/circuit_json.h"
#include "tests/golden.h"
#include "tests/ref/dense.h"

/* Rounding of a few hundred gates on amplitudes of at most 1, in both programs. */
#define WITHIN 1e-13

static void against_others(void) {
    struct qr_json *root = golden_load("tests/golden/ansatz/ansatz.json");
    size_t n = 0;
    for (const struct qr_json *row = qr_json_first(qr_json_get(root, "rows")); row;
         row = qr_json_next(row), n++) {
        static double complex ours[1 << REF_MAX_QUBITS];
        size_t n_weights, n_x, n_state;
        double *weights = golden_numbers(qr_json_get(row, "weights"), &n_weights),
               *x = golden_numbers(qr_json_get(row, "x"), &n_x),
               *state = golden_numbers(qr_json_get(row, "state"), &n_state);
        struct qr_circuit *c = NULL;
        struct qr_qubits readouts;
        struct qr_err err;
        const char *from = golden_text(row, "from");
        CHECK(qr_circuit_from_json(qr_json_get(row, "circuit"), "circuit", &c, &readouts, &err) ==
                  QR_OK,
              "row %zu, %s: %s", n, from, err.msg);
        if (!c) exit(1);
        CHECK(c->n_params == n_weights && c->n_columns <= n_x, "row %zu, %s: %u weights, not %zu",
              n, from, c->n_params, n_weights);
        CHECK(n_state == (size_t)2 << c->n_qubits && qr_qubits_count(&readouts) == c->n_qubits);
        ref_state(c, weights, x, ours);
        double complex overlap = 0;
        double worst = 0;
        for (size_t i = 0; i < n_state / 2; i++)
            overlap += __builtin_complex(state[2 * i], -state[2 * i + 1]) * ours[i];
        for (size_t i = 0; i < n_state / 2; i++)
            worst = t_worst(
                worst, cabs(ours[i] - overlap * __builtin_complex(state[2 * i], state[2 * i + 1])));
        CHECK(fabs(cabs(overlap) - 1) < WITHIN && worst < WITHIN, "row %zu, %s: %g, overlap %g", n,
              from, worst, cabs(overlap));
        qr_circuit_free(c);
        free(weights);
        free(x);
        free(state);
    }
    CHECK(n > 90, "%zu rows", n);
    qr_json_free(root);
}

/* ---- rejected ---- */

#define WHOLE(name, keys) "{\"ansatz\": \"" name "\", \"qubits\": 4" keys "}"
#define ITEM(keys) "{\"qubits\": 4, \"gates\": [{\"gate\": \"H\", \"qubits\": [0]}, {" keys "}]}"
#define UCCSD(keys) WHOLE("uccsd", ", \"electrons\": 2" keys)
static const struct {
    const char *text, *says;
} rejected_rows[] = {
    {WHOLE("strongly", ""),
     "circuit.ansatz is 'strongly'; it must be 'qcnn', 'strongly-entangling'"},
    {WHOLE("hardware-eficient", ""), "did you mean 'hardware-efficient'?"},
    {WHOLE("StronglyEntanglingLayers", ""), "did you mean 'strongly-entangling'?"},
    {WHOLE("qml.AngleEmbedding", ""), "did you mean 'angle'?"},
    {WHOLE("QFT", ""), "unknown ansatz 'QFT'; write its gates: for each qubit 'H'"},
    {WHOLE("measure", ""),
     "unknown ansatz 'measure'; write {\"measure\": [qubits], \"bits\": [bits]}"},
    {WHOLE("RealAmplitudes", ""), "\"rotations\": [\"RY\"]"},
    {WHOLE("basic-entangler", ", \"layer\": 2"), "unknown key 'layer'; did you mean 'layers'?"},
    {WHOLE("basic-entangler", ", \"filters\": 2"), "unknown key 'filters'"},
    {WHOLE("basic-entangler", ", \"layers\": 0"), "circuit.layers is 0"},
    {WHOLE("basic-entangler", ", \"rotation\": \"RW\""), "circuit.rotation is 'RW'"},
    {WHOLE("basic-entangler", ", \"layers\": 1048576"), "circuit: here the circuit exceeds"},
    {WHOLE("basic-entangler", ", \"prefix\": 1"), "circuit.prefix must be a string"},
    {WHOLE("strongly-entangling", ", \"ranges\": [1, 2]"),
     "circuit.ranges: 2 numbers for 1 layers"},
    {WHOLE("strongly-entangling", ", \"ranges\": [4]"), "circuit.ranges[0] is 4"},
    {WHOLE("strongly-entangling", ", \"entangler\": \"RX\""), "circuit.entangler is 'RX'"},
    {WHOLE("hardware-efficient", ", \"rotations\": []"), "circuit.rotations: 0 names; give 1 to 8"},
    {WHOLE("hardware-efficient", ", \"rotations\": [\"RY\", \"H\"]"),
     "circuit.rotations[1] is 'H'"},
    {WHOLE("hardware-efficient", ", \"entanglement\": \"ring\""), "circuit.entanglement is 'ring'"},
    {WHOLE("qaoa", ""), "circuit.cost is missing"},
    {WHOLE("qaoa", ", \"cost\": \"Z0 X1\""), "circuit.cost: a cost has only Z"},
    {WHOLE("qaoa", ", \"cost\": \"Z0 Y1\""), "has X or Y on qubit 1"},
    {WHOLE("qaoa", ", \"cost\": \"Z4\""), "circuit.cost: observable \"Z4\", column 1"},
    {WHOLE("qaoa", ", \"cost\": \"1.5\""), "circuit.cost has no Z"},
    {WHOLE("qaoa", ", \"cost\": [\"Z0\", 3]"), "circuit.cost[1] must be a string"},
    {ITEM("\"ansatz\": \"qaoa\", \"qubits\": [1, 2], \"cost\": \"Z1 Z3\""),
     "gates[1].cost: \"Z1 Z3\" has qubit 3, which is not a qubit of the ansatz"},
    {WHOLE("uccsd", ""), "circuit.electrons: is missing"},
    {WHOLE("uccsd", ", \"electrons\": 5"), "circuit.electrons is 5"},
    {WHOLE("uccsd", ", \"electrons\": 4"), "circuit: there is no excitation of these electrons"},
    {UCCSD(", \"singles\": []"), "leave \"singles\" and \"doubles\" out for all"},
    {UCCSD(", \"singles\": [[0, 1, 2]]"),
     "circuit.singles[0]: 3 qubits; a single excitation has 2"},
    {UCCSD(", \"doubles\": [[0, 1]]"), "circuit.doubles[0]: 2 qubits; a double excitation has 4"},
    {UCCSD(", \"singles\": [[2, 0]]"), "circuit.singles[0][1]: the qubits of an excitation ascend"},
    {UCCSD(", \"singles\": [[0, 4]]"),
     "circuit.singles[0][1]: qubit 4 is not a qubit of the ansatz"},
    {UCCSD(", \"singles\": {}"), "circuit.singles must be an array"},
    {WHOLE("all-singles-doubles", ", \"electrons\": 2, \"singles\": [[2, 2]]"),
     "circuit.singles[0][1]: a qubit is given twice"},
    {WHOLE("tensor-network", ""), "circuit.kind: is missing"},
    {WHOLE("tensor-network", ", \"kind\": \"peps\""), "circuit.kind is 'peps'"},
    {WHOLE("tensor-network", ", \"kind\": \"mps\", \"block\": []"), "circuit.block: has no gates"},
    {WHOLE("tensor-network",
           ", \"kind\": \"mps\", \"block\": [{\"gate\": \"X\", \"qubits\": [2]}]"),
     "circuit.block[0].qubits[0] is 2; it must be between 0 and 1"},
    {"{\"qubits\": 6, \"ansatz\": \"tensor-network\", \"kind\": \"ttn\"}",
     "circuit: 'ttn' takes 2, 4, 8, ... qubits, not 6"},
    {"{\"qubits\": 1, \"ansatz\": \"tensor-network\", \"kind\": \"mps\"}", "not 1"},
    {WHOLE("angle", ", \"rotation\": \"X\""), "circuit.rotation is 'X'"},
    {WHOLE("angle", ", \"data\": [0, 1]"), "circuit.data has 2 columns for 4 qubits"},
    {WHOLE("angle", ", \"data\": -1"), "circuit.data is -1"},
    {WHOLE("angle", ", \"data\": [0, 1, 2, \"i\"]"), "circuit.data[3] must be an integer"},
    {"{\"qubits\": 4, \"columns\": 2, \"gates\": [{\"ansatz\": \"angle\"}]}",
     "circuit.gates[0].data refers to 4 columns of data, but the circuit's columns are 2"},
    {WHOLE("amplitude", ", \"inputs\": 10"),
     "circuit.inputs: 10 amplitudes; 4 qubits have 16; \"pad_with\": 0 fills the others"},
    {WHOLE("amplitude", ", \"inputs\": 17, \"pad_with\": 0"),
     "circuit.inputs: 17 amplitudes; 4 qubits have 16"},
    {WHOLE("amplitude", ", \"inputs\": 0"), "circuit.inputs is 0"},
    {WHOLE("amplitude", ", \"pad_with\": 0"),
     "circuit.pad_with: give \"inputs\" (how many amplitudes are inputs)"},
    {WHOLE("amplitude", ", \"pad_with\": \"0\", \"inputs\": 3"),
     "circuit.pad_with must be a number"},
    {WHOLE("amplitude", ", \"data\": [0, 1, 2]"), "circuit.data: 3 amplitudes; 4 qubits have 16"},
    {WHOLE("amplitude", ", \"data\": [], \"pad_with\": 1"), "circuit.data: no columns"},
    {WHOLE("amplitude", ", \"data\": [0, 1, -2], \"pad_with\": 0"), "circuit.data[2] is -2"},
    {WHOLE("amplitude", ", \"data\": [0, 1], \"inputs\": 2, \"pad_with\": 0"),
     "circuit.inputs: the list in \"data\" sets the number of inputs"},
    {WHOLE("amplitude", ", \"normalize\": false"),
     "circuit.normalize: inputs are always divided by their norm"},
    {WHOLE("amplitude", ", \"data\": 0, \"state\": [1]"),
     "circuit: has both \"state\" and \"data\"; give one"},
    {WHOLE("amplitude", ", \"state\": [1, 0]"),
     "circuit.state: 2 amplitudes; 4 qubits have 16; \"pad_with\": 0 fills the others"},
    {WHOLE("amplitude", ", \"state\": [1, 1], \"pad_with\": 1"),
     "circuit.state: the squares of the amplitudes add up to 16, not to 1"},
    {"{\"qubits\": 15, \"ansatz\": \"amplitude\"}",
     "circuit: 'amplitude' of inputs takes at most 14 qubits, not 15"},
    {"{\"qubits\": 4, \"columns\": 10, \"gates\": [{\"ansatz\": \"amplitude\"}]}",
     "circuit.gates[0].data refers to 16 columns of data, but the circuit's columns are 10"},
    {"{\"qubits\": 10, \"gates\": [{\"repeat\": 100, \"gates\": [{\"ansatz\": \"amplitude\"}]}]}",
     "up to here states of inputs take more than 262144 numbers"},
    {ITEM("\"ansatz\": \"qcnn\""), "gates[1].ansatz: a 'qcnn' is a whole circuit"},
    {ITEM("\"ansatz\": \"angle\", \"qubits\": []"), "gates[1].qubits is empty"},
    {ITEM("\"ansatz\": \"angle\", \"qubits\": 4"), "gates[1].qubits must be an array"},
    {ITEM("\"ansatz\": \"angle\", \"qubits\": [1, 1]"), "qubit 1 is given twice"},
    {ITEM("\"ansatz\": \"angle\", \"columns\": 4"), "gates[1]: unknown key 'columns'"},
    {ITEM("\"ansatz\": \"angel\""), "gates[1].ansatz is 'angel'"},
};

static void rejected(void) {
    for (size_t i = 0; i < COUNT(rejected_rows); i++) {
        struct qr_json *root = NULL;
        struct qr_circuit *c = NULL;
        struct qr_qubits readouts;
        struct qr_err err = {0};
        CHECK(qr_json_parse(qr_bytes_of_string(rejected_rows[i].text), "test", &root, &err) ==
                  QR_OK,
              "%s: %s", err.msg, rejected_rows[i].text);
        CHECK(qr_circuit_from_json(root, "circuit", &c, &readouts, &err) == QR_INVALID_ARGUMENT &&
                  !c,
              "accepted: %s", rejected_rows[i].text);
        CHECK(strstr(err.msg, rejected_rows[i].says), "%s\n    says: %s", rejected_rows[i].text,
              err.msg);
        qr_json_free(root);
    }
}

int main(void) {
    against_others();
    rejected();
    return t_end();
}
