/* Circuits from job files: their gates, and the message of each error. */
#include <math.h>

#include "circuit/circuit_json.h"
#include "tests/ref/dense.h"
#include "tests/t.h"

static enum qr_code read_text(const char *text, struct qr_circuit **ret,
                              struct qr_qubits *ret_readouts, struct qr_err *err) {
    struct qr_json *root = NULL;
    *err = (struct qr_err){.msg = ""};
    CHECK(qr_json_parse(qr_bytes_of_string(text), "test", &root, err) == QR_OK, "%s", err->msg);
    enum qr_code code = qr_circuit_from_json(root, "model[0].circuit", ret, ret_readouts, err);
    qr_json_free(root);
    return code;
}

static struct qr_circuit *read_valid(const char *text, struct qr_qubits *ret_readouts) {
    struct qr_circuit *c = NULL;
    struct qr_err err;
    CHECK(read_text(text, &c, ret_readouts, &err) == QR_OK, "%s", err.msg);
    if (!c) exit(1);
    return c;
}

static bool is_mask(const struct qr_qubits *s, uint64_t mask) {
    struct qr_qubits want = qr_qubits_of_mask(mask);
    return qr_qubits_equal(s, &want);
}

static void ansatz(void) {
    struct qr_qubits readouts = {0};
    struct qr_circuit *c = read_valid(
        "{\"ansatz\": \"qcnn\", \"qubits\": 8, \"stages\": 1, \"variant\": \"research\"}",
        &readouts);
    CHECK(is_mask(&readouts, 0xf0) && c->n_params == 20 && c->n_columns == 8);
    qr_circuit_free(c);
    c = read_valid("{\"ansatz\": \"qcnn\", \"qubits\": 12}", &readouts);
    CHECK(is_mask(&readouts, 0x800) && c->n_params == 84);
    qr_circuit_free(c);
}

static void gates(void) {
    struct qr_qubits readouts = {{1}};
    struct qr_circuit *c = read_valid(
        "{\"qubits\": 4, \"gates\": ["
        "{\"gate\": \"H\", \"qubits\": [0]},"
        "{\"gate\": \"rx\", \"qubits\": [1], \"angle\": {\"data\": 2}},"
        "{\"gate\": \"X\", \"qubits\": [1], \"angle\": {\"parameter\": \"w10\", \"scale\": 2}},"
        "{\"gate\": \"CX\", \"qubits\": [1, 2], \"exponent\": {\"parameter\": \"w9\"}, "
        "\"global_shift\": 0.25},"
        "{\"gate\": \"PhasedX\", \"qubits\": [3], \"phase_exponent\": {\"parameter\": \"w10\"}},"
        "{\"gate\": \"fsim\", \"qubits\": [3, 0], \"theta\": 0.5, \"phi\": {\"parameter\": \"a\", "
        "\"scale\": -1}},"
        "{\"gate\": \"ISWAP\", \"qubits\": [2, 3], \"exponent\": -0.5, \"controls\": [0, 1], "
        "\"control_values\": [1, 0]},"
        "{\"gate\": \"I\", \"qubits\": [3], \"controls\": [2]},"
        "{\"gate\": \"ZZ\", \"qubits\": [2, 3], \"angle\": 3.141592653589793}"
        "]}",
        &readouts);
    CHECK(is_mask(&readouts, 0xf) && c->n_gates == 9 && c->n_columns == 3 && c->n_params == 3);
    CHECK(!strcmp(c->param_names[0], "a") && !strcmp(c->param_names[1], "w9") &&
          !strcmp(c->param_names[2], "w10"));
    const struct qr_gate *g = c->gates;
    CHECK(g[0].kind == QR_GATE_H && g[0].args[0].kind == QR_ARG_CONSTANT &&
          g[0].args[0].scale == 1 && g[0].global_shift == 0);
    CHECK(g[1].kind == QR_GATE_X && g[1].args[0].kind == QR_ARG_DATA && g[1].args[0].index == 2 &&
          g[1].global_shift == -0.5);
    CHECK(g[1].args[0].scale == 1 / M_PI && g[2].args[0].scale == 2 / M_PI &&
          g[2].args[0].index == 2);
    CHECK(g[3].kind == QR_GATE_CNOT && g[3].args[0].index == 1 && g[3].global_shift == 0.25 &&
          g[3].targets[1] == 2);
    CHECK(g[4].n_args == 2 && g[4].args[0].index == 2 && g[4].args[1].kind == QR_ARG_CONSTANT &&
          g[4].args[1].scale == 1);
    CHECK(g[5].args[0].scale == 0.5 && g[5].args[1].index == 0 && g[5].args[1].scale == -1 &&
          g[5].targets[0] == 3);
    CHECK(is_mask(&g[6].controls, 3) && is_mask(&g[6].control_values, 1) &&
          g[6].args[0].scale == -0.5);
    CHECK(is_mask(&g[7].controls, 4) && is_mask(&g[7].control_values, 4) && g[7].n_args == 0);
    CHECK(g[8].args[0].scale == 1 && g[8].global_shift == -0.5);
    qr_circuit_free(c);
    c = read_valid(
        "{\"qubits\": 1, \"columns\": 5, \"gates\": [{\"gate\": \"RY\", \"qubits\": [0], "
        "\"angle\": 0.7}]}",
        &readouts);
    struct qr_observable o;
    double z;
    CHECK(c->n_columns == 5 && qr_observable_parse("X0", 1, &o, QR_IGNORED) == QR_OK);
    ref_expectation(c, NULL, NULL, &o, 1, &z);
    /* RY(a)|0> has <X> = sin a; a few operations on numbers <= 1. */
    CHECK(fabs(z - sin(0.7)) < 1e-15);
    qr_observable_fini(&o);
    qr_circuit_free(c);
}

#define G(gate) "{\"qubits\": 3, \"gates\": [{\"gate\": \"H\", \"qubits\": [0]}, " gate "]}"
static const struct {
    const char *text, *says;
} rejected_rows[] = {
    {"[]", "model[0].circuit must be an object"},
    {"{}", "model[0].circuit must have \"ansatz\""},
    {"{\"ansatz\": \"qcn\", \"qubits\": 8}", "model[0].circuit.ansatz is 'qcn'"},
    {"{\"ansatz\": \"qcnn\"}", "model[0].circuit.qubits is missing"},
    {"{\"ansatz\": \"qcnn\", \"qubit\": 8}", "did you mean 'qubits'"},
    {"{\"ansatz\": \"qcnn\", \"qubits\": 8.5}", "model[0].circuit.qubits is 8.5"},
    {"{\"ansatz\": \"qcnn\", \"qubits\": 1025}", "model[0].circuit.qubits is 1025"},
    {"{\"ansatz\": \"qcnn\", \"qubits\": 3}", "model[0].circuit: a qcnn has 4 to 1024 qubits"},
    {"{\"ansatz\": \"qcnn\", \"qubits\": 8, \"stages\": 0}", "model[0].circuit.stages is 0"},
    {"{\"ansatz\": \"qcnn\", \"qubits\": 8, \"stages\": 9}", "down to one qubit after 3 stages"},
    {"{\"ansatz\": \"qcnn\", \"qubits\": 8, \"variant\": \"reserch\"}",
     "model[0].circuit.variant is 'reserch'"},
    {"{\"ansatz\": \"qcnn\", \"qubits\": 8, \"gates\": []}", "give one"},
    {"{\"qubits\": 3, \"gates\": []}", "model[0].circuit.gates has 0 gates"},
    {"{\"qubits\": 3, \"gates\": {}}", "model[0].circuit.gates must be an array"},
    {"{\"qubits\": 3, \"stages\": 1, \"gates\": []}", "unknown key 'stages'"},
    {G("7"), "model[0].circuit.gates[1] must be an object"},
    {G("{\"qubits\": [0]}"), "model[0].circuit.gates[1].gate is missing"},
    {G("{\"gate\": \"FSIN\", \"qubits\": [0, 1]}"),
     "model[0].circuit.gates[1].gate: unknown gate 'FSIN'; did you mean 'FSIM'"},
    {G("{\"gate\": \"Toffoli\", \"qubits\": [0, 1]}"), "CCX acts on 3 qubits, but 2 are given"},
    {G("{\"gate\": \"X\"}"), "model[0].circuit.gates[1].qubits is missing"},
    {G("{\"gate\": \"X\", \"qubits\": [0, 1]}"), "gates[1].qubits: X acts on 1 qubit, but 2"},
    {G("{\"gate\": \"X\", \"qubits\": [3]}"), "gates[1].qubits[0] is 3"},
    {G("{\"gate\": \"X\", \"qubits\": [\"0\"]}"), "gates[1].qubits[0] must be an integer"},
    {G("{\"gate\": \"XX\", \"qubits\": [1, 1]}"), "gates[1].qubits: qubit 1 is given twice"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponant\": 1}"),
     "gates[1]: unknown key 'exponant'; did you mean 'exponent'"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": [1]}"),
     "model[0].circuit.gates[1].exponent must be a number"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": \"1 +\"}"),
     "model[0].circuit.gates[1].exponent: expression \"1 +\", column 4: expected a number, a name "
     "or ("},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {}}"),
     "gates[1].exponent must have \"parameter\""},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"parameter\": \"a\", \"data\": 0}}"),
     "not both"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"parameter\": 3}}"),
     "gates[1].exponent.parameter must be a string"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"parameter\": \"\"}}"),
     "1 to 64 bytes, not 0"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"parameter\": \"a\\n\"}}"),
     "no control characters"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"data\": -1}}"),
     "gates[1].exponent.data is -1"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"data\": 0, \"scal\": 2}}"),
     "did you mean 'scale'"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": {\"data\": 0, \"scale\": true}}"),
     "gates[1].exponent.scale must be a number"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"exponent\": 1, \"angle\": 1}"),
     "give the angle alone"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"angle\": 1, \"global_shift\": 0}"),
     "give the angle alone"},
    {G("{\"gate\": \"RX\", \"qubits\": [0]}"), "gates[1].angle is missing"},
    {G("{\"gate\": \"RX\", \"qubits\": [0], \"exponent\": 1}"), "RX takes angle, not \"exponent\""},
    {G("{\"gate\": \"ISWAP\", \"qubits\": [0, 1], \"angle\": 1}"),
     "ISWAP takes exponent, not \"angle\""},
    {G("{\"gate\": \"FSIM\", \"qubits\": [0, 1], \"theta\": 1}"), "gates[1].phi is missing"},
    {G("{\"gate\": \"FSIM\", \"qubits\": [0, 1], \"exponent\": 1}"),
     "FSIM takes theta and phi, not \"exponent\""},
    {G("{\"gate\": \"FSIM\", \"qubits\": [0, 1], \"theta\": 1, \"phi\": 1, \"global_shift\": "
       "1}"),
     "not \"global_shift\""},
    {G("{\"gate\": \"I\", \"qubits\": [0], \"exponent\": 1}"),
     "I takes no arguments, not \"exponent\""},
    {G("{\"gate\": \"PhasedX\", \"qubits\": [0], \"exponent\": 1}"),
     "gates[1].phase_exponent is missing"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"controls\": [0]}"),
     "qubit 0 is a target and a control"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"controls\": [1, 1]}"),
     "gates[1].controls: qubit 1 is given twice"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"controls\": [9]}"), "gates[1].controls[0] is 9"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"control_values\": [1]}"),
     "control_values, but no controls"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"controls\": [1, 2], \"control_values\": [1]}"),
     "2 controls, but 1 control_values"},
    {G("{\"gate\": \"X\", \"qubits\": [0], \"controls\": [1], \"control_values\": [2]}"),
     "control_values[0] is 2"},
    {"{\"qubits\": 1, \"columns\": 2, \"gates\": [{\"gate\": \"X\", \"qubits\": [0], "
     "\"angle\": {\"data\": 2}}]}",
     "gates[0].angle.data is 2"},
    {"{\"qubits\": 1, \"columns\": 0, \"gates\": [{\"gate\": \"X\", \"qubits\": [0], "
     "\"angle\": {\"data\": 0}}]}",
     "the circuit's columns are 0"},
};

/* Qubits beyond the first word: targets, controls with their values, default read-outs. */
static void wide(void) {
    struct qr_qubits readouts = {0};
    struct qr_circuit *c =
        read_valid("{\"qubits\": 1024, \"gates\": ["
                   "{\"gate\": \"CNOT\", \"qubits\": [1023, 64], \"controls\": [700, 0, 128], "
                   "\"control_values\": [1, 0, 1]},"
                   "{\"gate\": \"X\", \"qubits\": [700], \"exponent\": {\"data\": 1023}}]}",
                   &readouts);
    const struct qr_gate *g = c->gates;
    CHECK(c->n_columns == 1024 && qr_qubits_count(&readouts) == 1024);
    CHECK(g[0].targets[0] == 1023 && g[0].targets[1] == 64 && g[1].targets[0] == 700);
    CHECK(qr_qubits_count(&g[0].controls) == 3 && qr_qubits_has(&g[0].controls, 0) &&
          qr_qubits_has(&g[0].controls, 128) && qr_qubits_has(&g[0].controls, 700));
    CHECK(qr_qubits_count(&g[0].control_values) == 2 && qr_qubits_has(&g[0].control_values, 128) &&
          qr_qubits_has(&g[0].control_values, 700));
    qr_circuit_free(c);
    c = read_valid("{\"qubits\": 65, \"gates\": [{\"gate\": \"I\", \"qubits\": [64]}]}", &readouts);
    CHECK(qr_qubits_count(&readouts) == 65 && qr_qubits_last(&readouts) == 64);
    qr_circuit_free(c);
}

static void rejected(void) {
    for (size_t i = 0; i < COUNT(rejected_rows); i++) {
        struct qr_circuit *c = NULL;
        struct qr_err err;
        struct qr_qubits readouts = {{77}};
        CHECK(read_text(rejected_rows[i].text, &c, &readouts, &err) == QR_INVALID_ARGUMENT && !c &&
                  is_mask(&readouts, 77),
              "accepted: %s", rejected_rows[i].text);
        CHECK(strstr(err.msg, rejected_rows[i].says), "%s\n    says: %s", rejected_rows[i].text,
              err.msg);
    }
}

int main(void) {
    ansatz();
    gates();
    wide();
    rejected();
    return t_end();
}
