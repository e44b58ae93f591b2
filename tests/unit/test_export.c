/* Exported circuits read back: the unitary up to a global phase, names of parameters, read-outs;
 * circuits that cannot be exported. */
#include <complex.h>
#include <math.h>

#include "base/mem.h"
#include "circuit/circuit_json.h"
#include "cirq/cirq.h"
#include "export/export.h"
#include "qasm/qasm.h"
#include "tests/ref/dense.h"
#include "tests/same_circuit.h"
#include "tests/t.h"

enum { QUBITS = 4, GATES = 12, CIRCUITS = 400, AMPLITUDES = 1 << 2 * QUBITS, MOST = 64 };

/* At most 200 gates, each with entries within a few 2^-53 of angles up to 20 half-turns. */
#define TOLERANCE 1e-12
/* TensorFlow Quantum's numbers are floats of six decimals: each of 3 in a gate is off by 1.6e-6
 * radians, which a symbol multiplies by up to 3. */
#define TFQ_TOLERANCE (3 * 3 * 1.6e-6 * GATES)

/* The unitary as a state: each qubit is entangled with a second one before the circuit. */
static void unitary(const struct qr_circuit *c, const double *theta, const double *x,
                    double complex *ret) {
    struct qr_circuit *both = qr_circuit_new(2 * c->n_qubits, c->n_columns);
    struct qr_err err = {0};
    for (uint16_t q = 0; q < c->n_qubits; q++) {
        const struct qr_gate_arg one = {.scale = 1};
        const struct qr_gate h = {QR_GATE_H, 1, 1, {q}, .args = {one}, .global_shift = 0},
                             cnot = {QR_GATE_CNOT,
                                     2,
                                     1,
                                     {q, (uint16_t)(q + c->n_qubits)},
                                     .args = {one},
                                     .global_shift = 0};
        CHECK(!qr_circuit_add(both, &h, &err) && !qr_circuit_add(both, &cnot, &err), "%s", err.msg);
    }
    for (unsigned i = 0; i < c->n_params; i++) qr_circuit_param(both, c->param_names[i]);
    for (size_t i = 0; i < c->n_expressions; i++) qr_circuit_expression(both, &c->expressions[i]);
    for (size_t i = 0; i < c->n_gates; i++)
        CHECK(!qr_circuit_add(both, &c->gates[i], &err), "%s", err.msg);
    ref_state(both, theta, x, ret);
    qr_circuit_free(both);
}

static double distance(const double complex *a, const double complex *b, unsigned n) {
    double complex overlap = 0;
    double worst = 0;
    for (unsigned i = 0; i < n; i++) overlap += conj(b[i]) * a[i];
    for (unsigned i = 0; i < n; i++) {
        double d = cabs(a[i] - overlap / cabs(overlap) * b[i]);
        if (d > worst || isnan(d)) worst = d;
    }
    return worst;
}

static struct qr_buf exported(const char *format, const struct qr_export *what) {
    const struct qr_export_format *f;
    struct qr_buf text = {0};
    struct qr_err err = {0};
    CHECK(!qr_export_format(format, &f, &err) && !qr_export(f, what, &text, &err), "%s", err.msg);
    return text;
}

/* Reads OpenQASM; its inputs are the columns x0, x1 ... of the circuit. */
static struct qr_program read_back(const struct qr_buf *text, unsigned n_columns) {
    char names[MOST][16];
    const char *inputs[MOST];
    struct qr_program q = {0};
    struct qr_err err = {0};
    struct qr_buf excerpt = {0};
    for (unsigned i = 0; i < n_columns; i++) {
        snprintf(names[i], sizeof names[i], "x%u", i);
        inputs[i] = names[i];
    }
    const struct qr_program_options options = {.inputs = inputs, .n_inputs = n_columns};
    CHECK(qr_qasm_read(qr_buf_view(text), &options, &q, &excerpt, &err) == QR_OK, "%s\n%s\n%s",
          err.msg, qr_buf_string(&excerpt), qr_buf_string(text));
    if (!q.circuit) exit(1);
    qr_buf_free(&excerpt);
    return q;
}

static struct qr_circuit *circuit_of(const char *json) {
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_qubits unused;
    struct qr_err err = {0};
    CHECK(!qr_json_parse(qr_bytes_of_string(json), "json", &root, &err) &&
              !qr_circuit_from_json(root, "circuit", &c, &unused, &err),
          "%s", err.msg);
    if (!c) exit(1);
    qr_json_free(root);
    return c;
}

/* Reads the text of format cirq or tfq. The symbols x0 .. x9 that occur become columns, and x is
 * compacted to them. */
static struct qr_program read_model(const struct qr_buf *text, double *x) {
    char names[10][4];
    const char *inputs[10];
    unsigned n_columns = 0;
    struct qr_program q = {0};
    struct qr_err err = {0};
    for (unsigned i = 0; i < COUNT(names); i++) {
        const char json[] = {'"', 'x', (char)('0' + i), '"'},
                   protobuf[] = {0x12, 2, 'x', (char)('0' + i)};
        snprintf(names[i], sizeof names[i], "x%u", i);
        if (!memmem(text->p, text->n, json, 4) && !memmem(text->p, text->n, protobuf, 4)) continue;
        inputs[n_columns] = names[i];
        x[n_columns++] = x[i];
    }
    const struct qr_program_options options = {.inputs = inputs, .n_inputs = n_columns};
    CHECK(!qr_cirq_read(qr_buf_view(text), &options, &q, &err), "%s\n%s", err.msg,
          qr_buf_string(text));
    if (!q.circuit) exit(1);
    return q;
}

/* With symbols, if the format can write the circuit's functions of them, and with numbers. */
static void check_model(const char *format, const struct qr_circuit *c, uint64_t seed) {
    bool tfq = strcmp(format, "tfq") == 0;
    double theta[MOST], x[MOST], used[MOST], worst;
    double complex wanted[AMPLITUDES], found[AMPLITUDES];
    const struct qr_export_format *f;
    struct qr_err err = {0};
    unsigned n_symbols = 0;
    ref_random_numbers(seed, MOST, -3, 3, theta);
    ref_random_numbers(~seed, MOST, 0.1, 0.9, x);
    unitary(c, theta, x, wanted);
    CHECK(!qr_export_format(format, &f, &err), "%s", err.msg);
    for (int numbers = 1; numbers >= 0; numbers--) { /* read_model compacts x */
        const struct qr_export what = {
            .circuit = c, .theta = numbers ? theta : NULL, .x = numbers ? x : NULL};
        struct qr_buf text = {0};
        enum qr_code code = qr_export(f, &what, &text, &err);
        if (code == QR_UNIMPLEMENTED) { /* a function of symbols; TFQ's PhasedISwap */
            CHECK(!numbers || tfq, "%s", err.msg);
            qr_buf_free(&text);
            continue;
        }
        CHECK(code == QR_OK, "%s", err.msg);
        struct qr_program q = read_model(&text, x);
        for (unsigned k = 0; k < q.circuit->n_params; k++)
            for (unsigned i = 0; i < c->n_params; i++)
                if (strcmp(q.circuit->param_names[k], c->param_names[i]) == 0) {
                    used[k] = theta[i];
                    n_symbols++;
                }
        CHECK(q.circuit->n_qubits == c->n_qubits, "%u", q.circuit->n_qubits);
        CHECK(n_symbols == (numbers ? 0 : q.circuit->n_params), "%u of %u parameters", n_symbols,
              q.circuit->n_params);
        n_symbols = 0;
        unitary(q.circuit, used, x, found);
        worst = distance(found, wanted, 1u << 2 * c->n_qubits);
        CHECK(worst < (tfq ? TFQ_TOLERANCE : TOLERANCE), "%s, seed %llu: %g\n%s", format,
              (unsigned long long)seed, worst, qr_buf_string(&text));
        qr_program_fini(&q);
        qr_buf_free(&text);
    }
}

/* With symbols: the same unitary for any numbers. With numbers: no symbols remain. */
static void check_qasm(const char *format, const struct qr_circuit *c, uint64_t seed) {
    double theta[MOST], x[MOST], worst;
    double complex wanted[AMPLITUDES], found[AMPLITUDES];
    const struct qr_export symbols = {.circuit = c},
                           numbers = {.circuit = c, .theta = theta, .x = x},
                           weights = {.circuit = c, .theta = theta};
    const struct qr_export *const all[] = {&numbers, &weights, &symbols};
    ref_random_numbers(seed, MOST, -3, 3, theta);
    ref_random_numbers(~seed, MOST, 0.1, 0.9, x);
    unitary(c, theta, x, wanted);
    for (size_t i = 0; i < (strcmp(format, "qasm2") ? COUNT(all) : 1); i++) {
        struct qr_buf text = exported(format, all[i]);
        struct qr_program q = read_back(&text, all[i]->x ? 0 : c->n_columns);
        CHECK(q.circuit->n_params == (all[i]->theta ? 0 : c->n_params) && !q.n_readouts, "%u",
              q.circuit->n_params);
        for (unsigned k = 0; k < q.circuit->n_params; k++)
            CHECK(strcmp(q.circuit->param_names[k], c->param_names[k]) == 0, "%s is %s",
                  c->param_names[k], q.circuit->param_names[k]);
        unitary(q.circuit, theta, x, found);
        worst = distance(found, wanted, 1u << 2 * c->n_qubits);
        CHECK(worst < TOLERANCE, "seed %llu: %g\n%s", (unsigned long long)seed, worst,
              qr_buf_string(&text));
        qr_program_fini(&q);
        qr_buf_free(&text);
    }
}

static void random_circuits(void) {
    for (uint64_t seed = 0; seed < CIRCUITS; seed++) {
        struct qr_circuit *c = ref_random_circuit(seed, 2 + seed % (QUBITS - 1), GATES);
        check_qasm("qasm3", c, seed);
        check_qasm("qasm2", c, seed);
        check_model("cirq", c, seed);
        check_model("tfq", c, seed);
        qr_circuit_free(c);
    }
}

/* Names, arrays and functions. */
static void expressions(void) {
    static const char *const circuits[] = {
        "{'qubits': 2, 'gates': [{'gate': 'RX', 'qubits': [0], 'angle': 'w[3] + 2*w[0]*x[1]'},"
        "{'gate': 'X', 'qubits': [1], 'exponent': '-(w[3] - w[11])/b', 'controls': [0]},"
        "{'gate': 'RZ', 'qubits': [1], 'angle': 'pow(b, -2)*sin(asin(x[0]) + acos(x[2])) - "
        "pow(pow(b, 2), x[1])'},"
        "{'gate': 'FSIM', 'qubits': [0, 1], 'theta': 'exp(sqrt(x[0]))*tan(cos(b))', 'phi': "
        "'-atan(-w[0])*-2'},"
        "{'gate': 'RY', 'qubits': [1], 'angle': 'atan2(b, x[0]) + hypot(w[0], b) - abs(log(x[2]))'"
        "}]}",
        "{'qubits': 1, 'gates': [{'gate': 'RX', 'qubits': [0], 'angle': 'q'}, {'gate': 'RY', "
        "'qubits': [0], 'angle': 'c*u[2]'}]}",
        "{'qubits': 3, 'ansatz': 'amplitude'}",
        "{'qubits': 2, 'gates': [{'gate': 'X', 'qubits': [0], 'exponent': '(w[3] - x[0])/b'},"
        "{'gate': 'H', 'qubits': [1], 'exponent': '-pow(w[3], 3)*sqrt(x[1]) + 2', 'controls': "
        "[0]}]}",
    };
    for (size_t i = 0; i < COUNT(circuits); i++) {
        char json[1024];
        snprintf(json, sizeof json, "%s", circuits[i]);
        for (char *p = json; *p; p++)
            if (*p == '\'') *p = '"';
        struct qr_circuit *c = circuit_of(json);
        check_qasm("qasm3", c, i);
        check_qasm("qasm2", c, i);
        check_model("cirq", c, i);
        qr_circuit_free(c);
    }
}

/* Names that OpenQASM does not allow are mapped, with the original in a comment. */
static void mapped_names(void) {
    static const char *const names[] = {"h",   "a.b",  "a b", "w",    "w[1]",     "w[03]",
                                        "x0",  "sin_", "",    "a\nb", "z[70000]", "pow_",
                                        "for", "u[2]", "q",   "x_",   "β[1]",     "Δt"};
    enum { FIRST_KEPT = 13 }; /* this name and those after it are kept */
    struct qr_circuit *c = qr_circuit_new(1, 1);
    struct qr_err err = {0};
    struct qr_buf text;
    for (unsigned i = 0; i < COUNT(names); i++) {
        struct qr_gate g = {QR_GATE_X,        1, 1, {0}, .args = {{QR_ARG_PARAMETER, 1, i}},
                            .global_shift = 0};
        qr_circuit_param(c, names[i]);
        CHECK(!qr_circuit_add(c, &g, &err), "%s", err.msg);
    }
    text = exported("qasm3", &(struct qr_export){.circuit = c, .title = "a\njob"});
    struct qr_program q = read_back(&text, 0);
    CHECK(q.circuit->n_params == COUNT(names), "%u\n%s", q.circuit->n_params, qr_buf_string(&text));
    static const char *const lines[] = {"// a\\njob\n",
                                        "input float[64] h_0; // h\n",
                                        "input float[64] a_b_1; // a.b\n",
                                        "input float[64] a_b_2; // a b\n",
                                        "input float[64] w_3; // w\n",
                                        "input float[64] w_1__4; // w[1]\n",
                                        "input float[64] x0;\n",
                                        "input float[64] x_;\n",
                                        "input float[64] x_0;\n",
                                        "input float[64] sin_;\n",
                                        "input float[64] a_b_9; // a\\nb\n",
                                        "input array[float[64], 3] u;\n",
                                        "input float[64] q;\n",
                                        "qubit[1] q_;\n"};
    for (size_t i = 0; i < COUNT(lines); i++)
        CHECK(strstr(qr_buf_string(&text), lines[i]), "%s is not in\n%s", lines[i],
              qr_buf_string(&text));
    for (unsigned i = FIRST_KEPT; i < COUNT(names); i++) {
        bool kept = false;
        for (unsigned k = 0; k < q.circuit->n_params; k++)
            kept |= strcmp(q.circuit->param_names[k], names[i]) == 0;
        CHECK(kept, "%s is lost\n%s", names[i], qr_buf_string(&text));
    }
    qr_program_fini(&q);
    qr_buf_free(&text);
    qr_circuit_free(c);
}

static void readouts(void) {
    static const char *const texts[] = {"Z2", "Z0", "0.5*Z0 Z1 - X2"};
    struct qr_circuit *c = circuit_of("{\"qubits\": 3, \"gates\": [{\"gate\": \"H\", \"qubits\": "
                                      "[1]}]}");
    struct qr_observable o[COUNT(texts)];
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(texts); i++)
        CHECK(!qr_observable_parse(texts[i], 3, &o[i], &err), "%s", err.msg);
    for (size_t n = 2; n <= 3; n++) {
        struct qr_buf text = exported("qasm3", &(struct qr_export){c, o, n, .title = NULL}),
                      old = exported("qasm2", &(struct qr_export){c, o, n, .title = NULL});
        bool bits = strstr(qr_buf_string(&text), "c[0] = measure q[2];\nc[1] = measure q[0];\n") &&
                    strstr(qr_buf_string(&old), "measure q[2] -> c[0];\nmeasure q[0] -> c[1];\n");
        CHECK(bits == (n == 2), "%s\n%s", qr_buf_string(&text), qr_buf_string(&old));
        qr_buf_free(&old);
        struct qr_program q = read_back(&text, 0);
        if (n == 2)
            CHECK(q.n_readouts == 2 && !strcmp(q.readouts[0], "Z2") && !strcmp(q.readouts[1], "Z0"),
                  "%s", qr_buf_string(&text));
        else
            CHECK(!q.n_readouts && strstr(qr_buf_string(&text), "\n// read-out 2: 0.5*Z0 Z1 - "),
                  "%s", qr_buf_string(&text));
        qr_program_fini(&q);
        qr_buf_free(&text);
    }
    for (size_t i = 0; i < COUNT(texts); i++) qr_observable_fini(&o[i]);
    qr_circuit_free(c);
}

/* Cirq's JSON keeps observables. A program of TensorFlow Quantum has none. */
static void model_readouts(void) {
    static const char *const texts[] = {"Z2", "0.25*X0 Y2 - Z1 + 2", "-Y1", "3"};
    struct qr_circuit *c = circuit_of("{\"qubits\": 3, \"gates\": [{\"gate\": \"RX\", "
                                      "\"qubits\": [1], \"angle\": \"w\"}]}");
    struct qr_observable o[COUNT(texts)], back;
    const struct qr_export what = {c, o, COUNT(o), .x = NULL};
    const struct qr_export_format *tfq;
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(texts); i++)
        CHECK(!qr_observable_parse(texts[i], 3, &o[i], &err), "%s", err.msg);
    struct qr_buf text = exported("cirq", &what), none = {0};
    struct qr_program q = read_model(&text, NULL);
    CHECK(q.circuit->n_qubits == 3 && q.circuit->n_params == 1 &&
              strcmp(q.circuit->param_names[0], "w") == 0 && q.n_readouts == COUNT(texts),
          "%zu read-outs", q.n_readouts);
    for (size_t i = 0; i < q.n_readouts; i++) {
        CHECK(!qr_observable_parse(q.readouts[i], 3, &back, &err), "%s", err.msg);
        CHECK(strcmp(back.text, o[i].text) == 0, "%s is %s", o[i].text, back.text);
        qr_observable_fini(&back);
    }
    CHECK(!qr_export_format("tfq", &tfq, &err) &&
              qr_export(tfq, &what, &none, &err) == QR_UNIMPLEMENTED &&
              strstr(err.msg, "has no read-outs"),
          "%s", err.msg);
    qr_program_fini(&q);
    qr_buf_free(&text);
    qr_buf_free(&none);
    for (size_t i = 0; i < COUNT(texts); i++) qr_observable_fini(&o[i]);
    qr_circuit_free(c);
}

/* Cirq's classes, sympy's operations, controls on 0, qubits without gates. */
static void cirq(void) {
    static const char text[] =
        "{\"cirq_type\":\"Circuit\",\"moments\":[{\"cirq_type\":\"Moment\",\"operations\":["
        "{\"cirq_type\":\"ControlledOperation\",\"controls\":[{\"cirq_type\":\"LineQubit\",\"x\":2}"
        "],"
        "\"control_values\":{\"cirq_type\":\"ProductOfSums\",\"data\":[[0]]},\"sub_operation\":"
        "{\"cirq_type\":\"GateOperation\",\"gate\":{\"cirq_type\":\"XPowGate\",\"exponent\":"
        "{\"cirq_type\":\"sympy.Add\",\"args\":[{\"cirq_type\":\"sympy.Symbol\",\"name\":\"w[1]\"},"
        "{\"cirq_type\":\"sympy.Mul\",\"args\":[{\"cirq_type\":\"sympy.Integer\",\"i\":-1},"
        "{\"cirq_type\":\"sympy.Symbol\",\"name\":\"x0\"}]}]},\"global_shift\":0.25},\"qubits\":["
        "{\"cirq_type\":\"LineQubit\",\"x\":0}]}},{\"cirq_type\":\"GateOperation\",\"gate\":"
        "{\"cirq_type\":\"IdentityGate\",\"num_qubits\":1},\"qubits\":[{\"cirq_type\":"
        "\"LineQubit\","
        "\"x\":1}]}]}]}\n";
    struct qr_circuit *c =
        circuit_of("{\"qubits\": 3, \"gates\": [{\"gate\": \"X\", \"qubits\": [0], \"controls\": "
                   "[2], \"control_values\": [0], \"exponent\": \"w[1] - x[0]\", \"global_shift\": "
                   "0.25}]}");
    struct qr_buf found = exported("cirq", &(struct qr_export){.circuit = c});
    CHECK(strcmp(qr_buf_string(&found), text) == 0, "%s\n%s", qr_buf_string(&found), text);
    qr_buf_free(&found);
    qr_circuit_free(c);
}

/* A function that PennyLane runs: controls on 0 with their phase, shared expressions, weights,
 * read-outs. */
static void python(void) {
    static const char text[] =
        "from math import pi\n\nimport pennylane as qml\n\nweights = {\n    \"a\": 0.125,\n}\n\n\n"
        "@qml.qnode(qml.device(\"default.qubit\", wires=3))\ndef circuit(x, w=weights):\n"
        "    qml.ctrl(qml.RX(-pi*(w[\"a\"] + x[..., 1]), 0), [1, 2], [0, 1])\n"
        "    qml.ctrl(qml.PhaseShift(-0.75*pi*(w[\"a\"] + x[..., 1]), 2), [1], [0])\n"
        "    qml.IsingYY(-0.5, [2, 0])\n    qml.PauliZ(1)\n    qml.SWAP([0, 2])\n    return [\n"
        "        qml.expval(qml.PauliZ(1)),\n"
        "        qml.expval(qml.Hamiltonian([0.5, -1], [qml.PauliX(0) @ qml.PauliY(2), "
        "qml.PauliZ(0)])),\n"
        "        qml.expval(qml.Hamiltonian([-1], [qml.PauliZ(2)])),\n    ]\n";
    static const char *const readouts[] = {"Z1", "0.5*X0 Y2 - Z0", "-Z2"};
    static const char shared[] = "    s1 = qml.math.hypot(x[..., 0], x[..., 1])\n";
    const double theta = 0.125;
    struct qr_circuit *c =
        circuit_of("{\"qubits\": 3, \"gates\": [{\"gate\": \"X\", \"qubits\": [0], \"exponent\": "
                   "\"-(a + x[1])\", \"global_shift\": 0.25, \"controls\": [1, 2], "
                   "\"control_values\": [0, 1]},"
                   "{\"gate\": \"RYY\", \"qubits\": [2, 0], \"angle\": -0.5}, {\"gate\": \"Z\", "
                   "\"qubits\": [1]},"
                   "{\"gate\": \"SWAP\", \"qubits\": [0, 2]}]}");
    struct qr_observable o[COUNT(readouts)];
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(o); i++)
        CHECK(!qr_observable_parse(readouts[i], 3, &o[i], &err), "%s", err.msg);
    struct qr_buf found = exported("python", &(struct qr_export){c, o, COUNT(o), .theta = &theta});
    CHECK(strcmp(qr_buf_string(&found), text) == 0, "%s\n%s", qr_buf_string(&found), text);
    for (size_t i = 0; i < COUNT(o); i++) qr_observable_fini(&o[i]);
    qr_buf_free(&found);
    qr_circuit_free(c);
    c = circuit_of("{\"qubits\": 2, \"ansatz\": \"amplitude\"}");
    found = exported("python", &(struct qr_export){.circuit = c});
    CHECK(strstr(qr_buf_string(&found), shared), "%s", qr_buf_string(&found));
    qr_buf_free(&found);
    qr_circuit_free(c);
}

/* Bytes that TensorFlow Quantum 0.7.6 reads as a controlled X**(0.5*t). */
static void tfq(void) {
    static const char bytes[] =
        "\n\x0e\n\x0ctfq_gate_set\x12\x8f\x01\x08\x01\x12\x8a\x01\n\x87\x01\n\x04\n\x02XP"
        "\x12\x0f\n\x08"
        "exponent\x12\x03\x12\x01t"
        "\x12\x1a\n\x0f"
        "exponent_scalar\x12\x07\n\x05\r\0\0\0?"
        "\x12\x17\n\x0c"
        "global_shift\x12\x07\n\x05\r\0\0\0\0"
        "\x12\x19\n\x0e"
        "control_qubits\x12\x07\n\x05\x1a\x03"
        "0_1"
        "\x12\x17\n\x0e"
        "control_values\x12\x05\n\x03\x1a\x01"
        "0"
        "\x1a\x05\x12\x03"
        "0_0";
    struct qr_circuit *c =
        circuit_of("{\"qubits\": 2, \"gates\": [{\"gate\": \"X\", \"qubits\": [0], \"exponent\": "
                   "\"0.5*t\", \"controls\": [1], \"control_values\": [0]}]}");
    struct qr_buf found = exported("tfq", &(struct qr_export){.circuit = c});
    CHECK(found.n == sizeof bytes - 1 && memcmp(found.p, bytes, found.n) == 0, "%zu bytes",
          found.n);
    qr_buf_free(&found);
    qr_circuit_free(c);
}

/* ---- noise ---- */

static const char *const channels[] = {
    "\"BitFlip\", \"p\": 0.1",
    "\"PhaseFlip\", \"p\": 0.25",
    "\"BitPhaseFlip\", \"p\": 0.1",
    "\"Depolarize\", \"p\": 0.1",
    "\"PauliChannel\", \"p_x\": 0.1, \"p_y\": 0.2, \"p_z\": 0.3",
    "\"AmplitudeDamping\", \"gamma\": 0.3",
    "\"GeneralizedAmplitudeDamping\", \"p\": 0.75, \"gamma\": 0.3",
    "\"PhaseDamping\", \"gamma\": 0.3",
    "\"ThermalRelaxation\", \"t1\": 50, \"t2\": 70, \"time\": 10, \"excited\": 0.125",
    "\"Reset\"",
    "\"ResetError\", \"p_0\": 0.1, \"p_1\": 0.2",
    "\"Kraus\", \"operators\": [[[0.6, 0], [0, [0, 0.6]]], [[0, [0, -0.8]], [0.8, 0]]]",
    "\"Depolarize\", \"p\": 0.1",
    "\"Dephase\", \"p\": 0.1",
    "\"PauliChannel\", \"p_ix\": 0.1, \"p_iy\": 0, \"p_iz\": 0, \"p_xi\": 0.0625, \"p_xx\": 0, "
    "\"p_xy\": 0.2, \"p_xz\": 0, \"p_yi\": 0, \"p_yx\": 0, \"p_yy\": 0.125, \"p_yz\": 0, \"p_zi\": "
    "0, \"p_zx\": 0, \"p_zy\": 0, \"p_zz\": 0.05",
    "\"Kraus\", \"operators\": [[[1, 0, 0, 0], [0, [0.5, 0.5], 0, [-0.5, 0.5]], [0, 0, 1, 0], "
    "[0, [-0.5, 0.5], 0, [0.5, 0.5]]]]",
};
enum { FIRST_OF_TWO = 12 };

/* A channel between gates, on qubit 1, or on 2 and 0. */
static struct qr_circuit *noisy_circuit(size_t i) {
    qr_auto(qr_free_p) char *json = qr_xasprintf(
        "{\"qubits\": 3, \"gates\": [{\"gate\": \"H\", \"qubits\": [0]}, {\"gate\": \"H\", "
        "\"qubits\": [1]}, {\"gate\": \"H\", \"qubits\": [2]}, {\"channel\": %s, \"qubits\": %s}]}",
        channels[i], i < FIRST_OF_TWO ? "[1]" : "[2, 0]");
    return circuit_of(json);
}

/* The same channel on the same qubits, and of the same kind where the format has a name for it. */
static void check_channel(const char *format, const struct qr_circuit *a,
                          const struct qr_circuit *b, bool named, double within) {
    double values[QR_CHANNEL_ARGS], wanted[QR_CHANNEL_TRANSFER], found[QR_CHANNEL_TRANSFER];
    const struct qr_gate *g = &a->gates[a->n_gates - 1], *h = &b->gates[b->n_gates - 1];
    CHECK(a->n_channels == 1 && b->n_channels == 1 && h->kind == QR_GATE_CHANNEL &&
          memcmp(g->targets, h->targets, sizeof g->targets) == 0);
    if (b->n_channels != 1) return;
    const struct qr_channel *from = a->channels, *to = b->channels;
    size_t size = from->info->n_targets == 1 ? 16 : 256;
    CHECK(!named || from->info == to->info, "%s: %s is %s", format, from->info->names[0],
          to->info->names[0]);
    CHECK(!named || within > TOLERANCE || qr_channel_equal(from, to), "%s: %s", format,
          from->info->names[0]);
    if (from->info->n_targets != to->info->n_targets) CHECK(false, "%s", format);
    qr_channel_values(from, NULL, values);
    qr_channel_transfer(from, values, wanted, NULL);
    qr_channel_values(to, NULL, values);
    qr_channel_transfer(to, values, found, NULL);
    for (size_t k = 0; k < size; k++)
        CHECK(fabs(found[k] - wanted[k]) < within, "%s: %s [%zu] is %g, not %g", format,
              from->info->names[0], k, found[k], wanted[k]);
}

/* OpenQASM 3 keeps bits, conditions and conditional channels; other formats reject them. */
static void measurements(void) {
    struct qr_circuit *c = circuit_of(
        "{\"qubits\": 3, \"gates\": [{\"gate\": \"H\", \"qubits\": [0]},"
        "{\"measure\": [0, 1], \"bits\": [1, 0]}, {\"measure\": [2], \"bits\": []},"
        "{\"if\": [0, 1], \"if_values\": [1, 0], \"gates\": [{\"gate\": \"X\", \"qubits\": [2]},"
        "{\"channel\": \"BitFlip\", \"qubits\": [2], \"p\": 0.25}, {\"channel\": \"Reset\", "
        "\"qubits\": [1]}]}, {\"gate\": \"H\", \"qubits\": [1]}, {\"measure\": [1], \"bits\": [0]},"
        "{\"if\": [0], \"gates\": [{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"w\"}]}]}");
    const struct qr_export what = {.circuit = c};
    struct qr_buf text = exported("qasm3", &what);
    struct qr_program q = read_back(&text, 0);
    CHECK(same_circuit(q.circuit, c), "%s", qr_buf_string(&text));
    qr_program_fini(&q);
    qr_buf_free(&text);
    static const char *const others[] = {"qasm2", "cirq", "tfq", "python"};
    double theta = 0;
    for (size_t i = 0; i < COUNT(others); i++) {
        const struct qr_export_format *format;
        const struct qr_export numbers = {.circuit = c, .theta = &theta};
        struct qr_err err = {0};
        struct qr_buf out = {0};
        CHECK(!qr_export_format(others[i], &format, &err));
        CHECK(qr_export(format, &numbers, &out, &err) == QR_UNIMPLEMENTED &&
                  strstr(err.msg, "only qasm3 has measurements before the end"),
              "%s: %s", others[i], err.msg);
        qr_buf_free(&out);
    }
    qr_circuit_free(c);
}

static void noise(void) {
    const struct qr_export_format *tfq_format;
    struct qr_err err = {0};
    CHECK(!qr_export_format("tfq", &tfq_format, &err));
    for (size_t i = 0; i < COUNT(channels); i++) {
        struct qr_circuit *c = noisy_circuit(i);
        const struct qr_export what = {.circuit = c};
        const struct qr_channel_info *info = c->channels->info;
        struct qr_buf text = exported("qasm3", &what), bytes = {0};
        struct qr_program q = read_back(&text, 0);
        check_channel("qasm3", c, q.circuit, info->braket || !info->n_args, TOLERANCE);
        CHECK(q.circuit->n_gates == 4, "%s", qr_buf_string(&text));
        qr_program_fini(&q);
        qr_buf_free(&text);
        text = exported("cirq", &what);
        q = read_model(&text, NULL);
        check_channel("cirq", c, q.circuit, info->cirq, TOLERANCE);
        CHECK(q.circuit->n_gates == 4, "%s", qr_buf_string(&text));
        qr_program_fini(&q);
        qr_buf_free(&text);
        enum qr_code code = qr_export(tfq_format, &what, &bytes, &err);
        CHECK(code == (info->tfq ? QR_OK : QR_UNIMPLEMENTED) &&
                  (info->tfq || strstr(err.msg, "cannot export to tfq: TensorFlow Quantum has no")),
              "%s: %s", info->names[0], err.msg);
        if (info->tfq) {
            q = read_model(&bytes, NULL);
            check_channel("tfq", c, q.circuit, true, 1e-6);
            qr_program_fini(&q);
        }
        qr_buf_free(&bytes);
        qr_circuit_free(c);
    }
}

/* Strengths of weights: symbols in OpenQASM and PennyLane; Cirq and TFQ need numbers. */
static const char weighted[] =
    "{\"qubits\": 2, \"gates\": [{\"gate\": \"H\", \"qubits\": [0]}, {\"gate\": \"CNOT\", "
    "\"qubits\": "
    "[0, 1]},{\"channel\": \"BitFlip\", \"qubits\": [0], \"p\": \"0.5*w\"}, {\"channel\": "
    "\"GeneralizedAmplitudeDamping\", \"qubits\": [1], \"p\": \"v*w\", \"gamma\": \"0.25*(v + "
    "w)\"}, "
    "{\"channel\": \"Depolarize\", \"qubits\": [1, 0], \"p\": \"v\"}, {\"channel\": \"Kraus\", "
    "\"qubits\": [1], \"operators\": [[[0.6, 0], [0, [0, 0.6]]], [[0, 0.8], [0.8, 0]]]}]}";
static const char thermal[] = "{\"qubits\": 1, \"gates\": [{\"channel\": \"ThermalRelaxation\", "
                              "\"qubits\": [0], \"t1\": 4, \"t2\": \"w\", \"time\": 1}]}";

static void strengths(void) {
    static const char lines[] =
        "#pragma braket noise bit_flip(0.5*w) q[0]\n"
        "#pragma braket noise generalized_amplitude_damping(0.25*(v + w), v*w) q[1]\n"
        "#pragma braket noise two_qubit_depolarizing(v) q[1], q[0]\n"
        "#pragma braket noise kraus([[0.6, 0], [0, 0.6im]], [[0, 0.8], [0.8, 0]]) q[1]\n";
    const double theta[] = {0.25, 0.5};
    struct qr_circuit *c = circuit_of(weighted);
    struct qr_buf text = exported("qasm3", &(struct qr_export){.circuit = c});
    CHECK(strstr(qr_buf_string(&text), lines), "%s", qr_buf_string(&text));
    struct qr_program q = read_back(&text, 0);
    CHECK(same_circuit(c, q.circuit), "%s", qr_buf_string(&text));
    qr_program_fini(&q);
    qr_buf_free(&text);
    text = exported("qasm3", &(struct qr_export){.circuit = c, .theta = theta});
    CHECK(strstr(qr_buf_string(&text), "(0.1875, 0.125) q[1]"), "%s", qr_buf_string(&text));
    qr_buf_free(&text);
    qr_circuit_free(c);
}

/* PennyLane's order of arguments and its own p of the generalized damping; operators. */
static void python_noise(void) {
    static const char lines[] =
        "@qml.qnode(qml.device(\"default.mixed\", wires=2))\n"
        "def circuit(w):\n    qml.Hadamard(0)\n    qml.ctrl(qml.PauliX(1), [0], [1])\n"
        "    qml.BitFlip(0.5*w[\"w\"], 0)\n"
        "    qml.GeneralizedAmplitudeDamping(0.25*(w[\"v\"] + w[\"w\"]), 1 - (w[\"v\"]*w[\"w\"]), "
        "1)\n";
    const struct {
        struct qr_circuit *c; /* freed */
        const char *words;
    } rows[] = {
        {circuit_of(thermal), "qml.ThermalRelaxationError(0, 4, w[\"w\"], 1, 0)\n"},
        {noisy_circuit(6), "qml.GeneralizedAmplitudeDamping(0.3, 0.25, 1)\n"},
        {noisy_circuit(11), "[[0.6, 0], [0, 0.6j]]), qml.numpy.array([[0, -0.8j], "},
    };
    const struct qr_export_format *f;
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_buf text = exported("python", &(struct qr_export){.circuit = rows[i].c});
        CHECK(strstr(qr_buf_string(&text), rows[i].words), "%s", qr_buf_string(&text));
        qr_buf_free(&text);
        qr_circuit_free(rows[i].c);
    }
    /* The first two channels are written before the error. */
    struct qr_circuit *c = circuit_of(weighted);
    struct qr_buf text = {0};
    CHECK(!qr_export_format("python", &f, &err) &&
              qr_export(f, &(struct qr_export){.circuit = c}, &text, &err) == QR_UNIMPLEMENTED &&
              strstr(err.msg, "PennyLane has no Depolarize with strengths that depend on weights"),
          "%s", err.msg);
    CHECK(strstr(qr_buf_string(&text), lines), "%s", qr_buf_string(&text));
    qr_buf_free(&text);
    qr_circuit_free(c);
}

static void noise_errors(void) {
    static const double high[] = {0.25, 3};
    static const struct {
        const char *format, *circuit;
        const double *theta;
        const char *words;
    } rows[] = {
        {"cirq", weighted, NULL,
         "cannot export to cirq: Cirq has no BitFlip with strengths that depend on weights; give "
         "weights"},
        {"tfq", weighted, NULL,
         "TensorFlow Quantum has no BitFlip with strengths that depend on weights"},
        {"qasm2", weighted, NULL,
         "cannot export to qasm2: qasm2 has no noise channels; choose qasm3"},
        {"qasm3", thermal, NULL, "Braket's OpenQASM has no ThermalRelaxation with strengths"},
        {"qasm3", weighted, high, "cannot export to qasm3: BitFlip has p = 1.5; give a number"},
        {"qasm3",
         "{\"qubits\": 1, \"gates\": [{\"gate\": \"X\", \"qubits\": [0]}], \"noise\": "
         "{\"readout\": "
         "{\"p\": 0.1}}}",
         NULL, "no format has read-out errors; remove readout from"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct qr_circuit *c = circuit_of(rows[i].circuit);
        const struct qr_export_format *f;
        struct qr_err err = {0};
        struct qr_buf text = {0};
        CHECK(!qr_export_format(rows[i].format, &f, &err));
        enum qr_code code =
            qr_export(f, &(struct qr_export){.circuit = c, .theta = rows[i].theta}, &text, &err);
        CHECK(code == (rows[i].theta ? QR_INVALID_ARGUMENT : QR_UNIMPLEMENTED) &&
                  strstr(err.msg, rows[i].words),
              "%s, not %s", err.msg, rows[i].words);
        qr_buf_free(&text);
        qr_circuit_free(c);
    }
}

static void rejects(const char *format, const char *gates, const struct qr_export *with,
                    const char *words) {
    const struct qr_export_format *f = NULL;
    qr_auto(qr_free_p) char *json = qr_xasprintf("{\"qubits\": 14, \"gates\": [%s]}", gates);
    struct qr_circuit *c = circuit_of(json);
    struct qr_export what = *with;
    struct qr_err err = {0};
    struct qr_buf text = {0};
    what.circuit = c;
    CHECK(!qr_export_format(format, &f, &err) && qr_export(f, &what, &text, &err) != QR_OK &&
              strstr(err.msg, words),
          "%s, not %s", err.msg, words);
    qr_buf_free(&text);
    qr_circuit_free(c);
}

static void errors(void) {
    static const struct qr_export symbols = {.title = NULL};
    const struct qr_export_format *f = NULL;
    const double zero = 0;
    struct qr_err err = {0};
    CHECK(qr_export_format("qasm", &f, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "unknown format 'qasm'; choose one of qasm3, qasm2, cirq"),
          "%s", err.msg);
    rejects("qasm3", "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"log(x[0])\"}",
            &(struct qr_export){.x = &zero}, "cannot export to qasm3: gate 0 (X)");
    rejects("qasm2", "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"w\"}", &symbols,
            "qasm2 has no symbols, and the circuit has parameters (w); give weights");
    rejects("qasm2", "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"x[1]\"}", &symbols,
            "the circuit has inputs; give 2 numbers for them");
    rejects("qasm2",
            "{\"gate\": \"X\", \"qubits\": [0], \"exponent\": 0.3, \"controls\": "
            "[1,2,3,4,5,6,7,8,9,10,11,12]}",
            &symbols, "cannot export to qasm2: a gate has more than 12 qubits with its controls");
    rejects("cirq", "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"sin(w)\"}", &symbols,
            "cannot export to cirq: Cirq's JSON has no sin; give numbers");
    rejects("tfq", "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": \"v*w\"}", &symbols,
            "cannot export to tfq: TensorFlow Quantum has numbers times one symbol");
    rejects("tfq",
            "{\"gate\": \"PhasedISwap\", \"qubits\": [0, 1], \"phase_exponent\": 0, "
            "\"global_shift\": 1, \"controls\": [2]}",
            &symbols, "ignores the global shift of PhasedISwap, which matters with controls");
}

int main(void) {
    random_circuits();
    expressions();
    mapped_names();
    readouts();
    model_readouts();
    cirq();
    python();
    tfq();
    noise();
    measurements();
    strengths();
    python_noise();
    noise_errors();
    errors();
    return t_end();
}
