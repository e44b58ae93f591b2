/* Cirq's JSON and TensorFlow Quantum's programs: states and read-outs against those programs
 * (tests/golden/cirq), data circuits against the same circuits one by one, names of symbols, order
 * of qubits, errors with their paths, bounds. */
#include <complex.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/protobuf.h"
#include "circuit/circuit_json.h"
#include "cirq/cirq.h"
#include "tests/golden.h"
#include "tests/ref/dense.h"
#include "tests/ref/expression.h"
#include "tests/t.h"

enum { MOST_QUBITS = 6, MOST_STATES = 1 << MOST_QUBITS, MOST_NAMES = 8, MOST_BYTES = 1 << 14 };

/* At most 60 gates, each with entries within a few 2^-53; Cirq's states have the same error. */
#define TOLERANCE 1e-13

/* ---- values ---- */

/* Values of the parameters; a name may have an underscore added. */
static void values_of(const struct qr_circuit *c, const struct qr_json *values, double *ret) {
    for (unsigned i = 0; i < c->n_params; i++) {
        ret[i] = NAN;
        for (const struct qr_json *v = qr_json_first(values); v; v = qr_json_next(v)) {
            const char *key = qr_json_key(v), *name = c->param_names[i];
            bool same = strcmp(key, name) == 0 || (strcmp(key, "x") == 0 && !strcmp(name, "x_")) ||
                        (strcmp(key, "two words") == 0 && strcmp(name, "two_words") == 0);
            if (same) golden_fill(v, &ret[i]);
        }
        CHECK(!isnan(ret[i]), "%s", c->param_names[i]);
    }
}

/* Applies the circuit's gates to a state. */
static void apply_circuit(const struct qr_circuit *c, const double *theta, double complex *state) {
    static double complex gate[MOST_STATES * MOST_STATES];
    double complex before[MOST_STATES];
    size_t dim = (size_t)1 << c->n_qubits;
    for (size_t i = 0; i < c->n_gates; i++) {
        const struct qr_gate *g = &c->gates[i];
        double a[2] = {0, 0};
        for (unsigned k = 0; k < g->n_args; k++)
            a[k] = g->args[k].kind == QR_ARG_EXPRESSION
                       ? g->args[k].scale * ref_expression(c, g->args[k].index, theta, NULL,
                                                           QR_EXPRESSION_NUMBER, 0, NULL)
                       : qr_gate_arg_value(&g->args[k], theta, NULL);
        ref_gate_full(g, c->n_qubits, a, gate);
        memcpy(before, state, sizeof before);
        for (size_t r = 0; r < dim; r++) {
            state[r] = 0;
            for (size_t k = 0; k < dim; k++) state[r] += gate[r * dim + k] * before[k];
        }
    }
}

static double distance(const double complex *a, const double complex *b, size_t dim) {
    double complex overlap = 0;
    double worst = 0;
    for (size_t i = 0; i < dim; i++) overlap += conj(b[i]) * a[i];
    for (size_t i = 0; i < dim; i++) {
        double d = cabs(a[i] - b[i] * (overlap / cabs(overlap)));
        if (d > worst || isnan(d)) worst = d;
    }
    return worst;
}

static void state_of(const struct qr_json *v, double complex *ret) {
    double numbers[2 * MOST_STATES];
    size_t n = golden_count(v);
    CHECK(n <= 2 * MOST_STATES);
    golden_fill(v, numbers);
    for (size_t i = 0; i < n / 2; i++)
        ret[i] = __builtin_complex(numbers[2 * i], numbers[2 * i + 1]);
}

static struct qr_program read_program(struct qr_bytes bytes, const char *what) {
    struct qr_program p = {0};
    struct qr_err err = {0};
    CHECK(qr_cirq_recognizes(bytes), "%s", what);
    CHECK(qr_cirq_read(bytes, &(struct qr_program_options){0}, &p, &err) == QR_OK, "%s: %s", what,
          err.msg);
    if (!p.circuit) exit(1);
    return p;
}

static void check_readouts(const struct qr_program *p, const double *theta, const double *x,
                           const double *wanted, size_t n, const char *what) {
    CHECK(p->n_readouts == n, "%s: %zu", what, p->n_readouts);
    for (size_t i = 0; i < n && i < p->n_readouts; i++) {
        struct qr_observable o;
        double z = 0;
        CHECK(qr_observable_parse(p->readouts[i], p->circuit->n_qubits, &o, QR_IGNORED) == QR_OK);
        ref_expectation(p->circuit, theta, x, &o, 1, &z);
        CHECK(fabs(z - wanted[i]) < TOLERANCE, "%s: %s is %.17g, not %.17g", what, p->readouts[i],
              z, wanted[i]);
        qr_observable_fini(&o);
    }
}

static size_t bytes_of_hex(const char *hex, uint8_t *ret) {
    size_t n = strlen(hex) / 2;
    CHECK(n <= MOST_BYTES);
    for (size_t i = 0; i < n; i++) {
        unsigned v = 0;
        sscanf(hex + 2 * i, "%2x", &v);
        ret[i] = (uint8_t)v;
    }
    return n;
}

/* ---- golden circuits ---- */

static void check_row(const struct qr_json *row, const struct qr_json *start,
                      const struct qr_json *values, struct qr_bytes bytes, size_t number) {
    char what[32];
    double theta[MOST_NAMES], readouts[4];
    double complex found[MOST_STATES] = {1}, wanted[MOST_STATES] = {0};
    const struct qr_json *list = qr_json_get(row, "readouts");
    size_t n_readouts = golden_count(list);
    snprintf(what, sizeof what, "row %zu", number);
    struct qr_program p = read_program(bytes, what);
    CHECK(p.circuit->n_params <= MOST_NAMES && n_readouts <= 4);
    values_of(p.circuit, values, theta);
    state_of(qr_json_get(row, "state"), wanted);
    if (start && !n_readouts) state_of(start, found);
    apply_circuit(p.circuit, theta, found);
    double off = distance(found, wanted, (size_t)1 << p.circuit->n_qubits);
    CHECK(off < TOLERANCE, "%s: %g", what, off);
    golden_fill(list, readouts);
    check_readouts(&p, theta, NULL, readouts, n_readouts, what);
    qr_program_fini(&p);
}

static void golden_cirq(void) {
    struct qr_json *root = golden_load("tests/golden/cirq/cirq.json");
    size_t number = 0;
    for (const struct qr_json *row = qr_json_first(qr_json_get(root, "rows")); row;
         row = qr_json_next(row), number++) {
        struct qr_buf text = {0};
        struct qr_json_writer w = qr_json_writer(&text, 0);
        qr_json_put_value(&w, qr_json_get(row, "circuit"), false);
        check_row(row, qr_json_get(root, "start"), qr_json_get(root, "values"), qr_buf_view(&text),
                  number);
        qr_buf_free(&text);
    }
    CHECK(number >= 50, "%zu", number);
    qr_json_free(root);
}

static void golden_tfq(void) {
    static uint8_t bytes[MOST_BYTES];
    struct qr_json *root = golden_load("tests/golden/cirq/tfq.json");
    size_t number = 0;
    for (const struct qr_json *row = qr_json_first(qr_json_get(root, "rows")); row;
         row = qr_json_next(row), number++) {
        size_t n = bytes_of_hex(golden_text(row, "program"), bytes);
        check_row(row, NULL, qr_json_get(root, "values"), qr_bytes_of(bytes, n), number);
    }
    CHECK(number == 3, "%zu", number);
    qr_json_free(root);
}

/* ---- a model with data circuits ---- */

/* The elements of a list of hex texts, padded to the longest; freed by the caller. */
static struct qr_tfq_tensor tensor_of(const struct qr_json *list) {
    struct qr_tfq_tensor t = {.n = qr_json_size(list)};
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v)) {
        size_t n = strlen(qr_json_text(v, "")) / 2;
        if (n > t.width) t.width = n;
    }
    uint8_t *bytes = qr_xcalloc(t.n, t.width);
    size_t i = 0;
    for (const struct qr_json *v = qr_json_first(list); v; v = qr_json_next(v))
        bytes_of_hex(qr_json_text(v, ""), bytes + i++ * t.width);
    t.bytes = bytes;
    return t;
}

static void free_tensor(struct qr_tfq_tensor *t) {
    union {
        const uint8_t *in;
        uint8_t *out;
    } u = {.in = t->bytes};
    free(u.out);
}

static void data_circuits(void) {
    struct qr_json *root = golden_load("tests/golden/cirq/tfq.json");
    const struct qr_json *hex = qr_json_get(root, "model"),
                         *expected = qr_json_get(root, "expected");
    struct qr_tfq_model model = {
        tensor_of(qr_json_get(hex, "prepend")), tensor_of(qr_json_get(hex, "data")),
        tensor_of(qr_json_get(hex, "circuit")), tensor_of(qr_json_get(hex, "readouts"))};
    struct qr_program p = {0};
    struct qr_tfq_samples samples = {0};
    struct qr_err err = {0};
    double theta[MOST_NAMES], wanted[2];
    CHECK(qr_tfq_read(&model, &p, &samples, &err) == QR_OK, "%s", err.msg);
    /* RX, CNOT, X, ZZ, the other order of RX and CNOT, FSIM; X's 0.25 is absent in two samples */
    CHECK(samples.n_samples == 4 && samples.n_columns == p.circuit->n_columns &&
              samples.n_columns == 7,
          "%zu samples, %zu columns", samples.n_samples, samples.n_columns);
    /* Columns of rotations are angles, with six decimals of the exponent. */
    for (size_t i = 0; i < p.circuit->n_gates; i++) {
        const struct qr_gate *g = &p.circuit->gates[i];
        double angle = samples.x[g->args[0].index];
        if (g->args[0].kind != QR_ARG_DATA || g->global_shift == 0) continue;
        CHECK(g->kind == QR_GATE_X && (angle == 0 || fabs(angle - 0.5) < 2e-6), "%.17g", angle);
    }
    values_of(p.circuit, qr_json_get(root, "values"), theta);
    const struct qr_json *v = qr_json_first(expected);
    for (size_t i = 0; i < 4; i++, v = qr_json_next(v)) {
        golden_fill(v, wanted);
        check_readouts(&p, theta, samples.x + i * samples.n_columns, wanted, 2, "sample");
    }
    qr_program_fini(&p);
    free(samples.x);

    struct qr_tfq_tensor two = {model.data.bytes, 2, model.data.width};
    struct qr_tfq_model wrong = model;
    wrong.circuit = two;
    CHECK(qr_tfq_read(&wrong, &p, &samples, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "circuit has 2 programs"),
          "%s", err.msg);
    wrong = model;
    wrong.data = model.circuit;
    CHECK(qr_tfq_read(&wrong, &p, &samples, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "data circuit 0: its gates must have numbers"),
          "%s", err.msg);
    wrong = model;
    wrong.readouts = model.circuit;
    CHECK(qr_tfq_read(&wrong, &p, &samples, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "readouts[0]: "),
          "%s", err.msg);
    free_tensor(&model.prepend);
    free_tensor(&model.data);
    free_tensor(&model.circuit);
    free_tensor(&model.readouts);
    qr_json_free(root);
}

/* ---- texts ---- */

#define Q0 "{\"cirq_type\": \"LineQubit\", \"x\": 0}"
#define Q1 "{\"cirq_type\": \"LineQubit\", \"x\": 1}"
#define GATE(gate, qubits)                                                                         \
    "{\"cirq_type\": \"GateOperation\", \"gate\": {\"cirq_type\": " gate "}, \"qubits\": [" qubits \
    "]}"
#define MOMENT(operations) "{\"cirq_type\": \"Moment\", \"operations\": [" operations "]}"
#define CIRCUIT(moments) "{\"cirq_type\": \"Circuit\", \"moments\": [" moments "]}"
#define FROZEN(moments) "{\"cirq_type\": \"FrozenCircuit\", \"moments\": [" moments "]}"
#define ONE(gate, qubits) CIRCUIT(MOMENT(GATE(gate, qubits)))
#define SYMBOL(name) "{\"cirq_type\": \"sympy.Symbol\", \"name\": \"" name "\"}"
#define POWER(exponent) "\"XPowGate\", \"global_shift\": 0, \"exponent\": " exponent
#define H0 GATE("\"HPowGate\", \"exponent\": 1.0, \"global_shift\": 0", Q0)
#define REPEATED(circuit, times)                                                                   \
    "{\"cirq_type\": \"CircuitOperation\", \"circuit\": " circuit                                  \
    ", \"qubit_map\": [], \"param_resolver\": {\"param_dict\": []}, \"repetitions\": " times "}"
#define CHANNEL(type) ONE("\"" type "\", \"p\": 0.1", Q0)
#define MEASURE "\"MeasurementGate\", \"num_qubits\": 1, \"key\": \"m\", \"invert_mask\": []"

static const struct {
    const char *text, *words;
    enum qr_code code;
} rejected_rows[] = {
    {"{}", "'' is not a circuit of Cirq; write it with cirq.to_json(circuit)", QR_INVALID_ARGUMENT},
    {"[]", "[0]: '' is not a circuit", QR_INVALID_ARGUMENT},
    {"{\"cirq_type\": \"Circuit\"}", "moments", QR_INVALID_ARGUMENT},
    {CIRCUIT(""), "the circuit has no qubits", QR_INVALID_ARGUMENT},
    {"{\"cirq_type\": \"Circuit\", ", "the circuit", QR_INVALID_ARGUMENT},
    {CIRCUIT(MOMENT("7")), "moments[0].operations[0]: the operation '' is unknown",
     QR_UNIMPLEMENTED},
    {ONE("\"BooleanHamiltonianGate\"", Q0),
     "moments[0].operations[0].gate: the gate 'BooleanHamiltonianGate' is unknown; "
     "cirq.expand_composite may rewrite it",
     QR_UNIMPLEMENTED},
    {CHANNEL("RandomGateChannel"),
     "'RandomGateChannel' is unknown; cirq.KrausChannel.from_channel(gate) may rewrite it",
     QR_UNIMPLEMENTED},
    {CHANNEL("AmplitudeDampingChannel"), "operations[0].gate.gamma is missing",
     QR_INVALID_ARGUMENT},
    {ONE("\"BitFlipChannel\", \"p\": 1.5", Q0), "gate: BitFlip has p = 1.5; give a number",
     QR_INVALID_ARGUMENT},
    {ONE("\"BitFlipChannel\", \"p\": " SYMBOL("a"), Q0), "gate.p must be a number; resolve",
     QR_UNIMPLEMENTED},
    {ONE("\"BitFlipChannel\", \"p\": 0.1", Q0 ", " Q1), "BitFlipChannel acts on 1 qubits, not 2",
     QR_INVALID_ARGUMENT},
    {ONE("\"DepolarizingChannel\", \"p\": 0.1, \"n_qubits\": 2", Q0), "gate.n_qubits",
     QR_INVALID_ARGUMENT},
    {ONE("\"AsymmetricDepolarizingChannel\", \"error_probabilities\": {\"XX\": 0.1}", Q0),
     "gate.error_probabilities: 'XX' has no Pauli for each qubit", QR_INVALID_ARGUMENT},
    {ONE("\"AsymmetricDepolarizingChannel\", \"error_probabilities\": {\"X\": 0.6, \"Y\": 0.6}",
         Q0),
     "probabilities with a sum above 1", QR_INVALID_ARGUMENT},
    {ONE("\"KrausChannel\", \"_kraus_ops\": [[[1, 0], [0, 0.5]]]", Q0),
     "is not the identity (off by 0.75)", QR_INVALID_ARGUMENT},
    {ONE("\"KrausChannel\", \"_kraus_ops\": [[[1, 0]]]", Q0), "_kraus_ops[0] must be 2x2",
     QR_INVALID_ARGUMENT},
    {ONE("\"KrausChannel\", \"_kraus_ops\": []", Q0), "_kraus_ops has 0 operators; give 1 to 16",
     QR_INVALID_ARGUMENT},
    {CIRCUIT(MOMENT("{\"cirq_type\": \"ControlledOperation\", \"controls\": [" Q1
                    "], \"control_values\": [[1]], \"sub_operation\": " GATE(
                        "\"BitFlipChannel\", \"p\": 0.1", Q0) "}")),
     "a noise channel (BitFlip) cannot be controlled", QR_INVALID_ARGUMENT},
    {ONE("\"_InverseCompositeGate\", \"original\": {\"cirq_type\": \"PhaseFlipChannel\", \"p\": "
         "0.1}",
         Q0),
     "gate.original: a noise channel (PhaseFlip) cannot be inverted", QR_INVALID_ARGUMENT},
    {CIRCUIT(
         MOMENT(REPEATED(FROZEN(MOMENT(GATE("\"ResetChannel\", \"dimension\": 2", Q0))), "-1"))),
     "a noise channel (Reset) cannot be inverted", QR_INVALID_ARGUMENT},
    {ONE("\"XPowGate\"", Q0), "gate.exponent is missing", QR_INVALID_ARGUMENT},
    {ONE(POWER("1"), Q0 ", " Q1), "XPowGate acts on 1 qubits, not 2", QR_INVALID_ARGUMENT},
    {ONE("\"CXPowGate\", \"exponent\": 1", Q0 ", " Q0), "qubits[1]: the qubit is given twice",
     QR_INVALID_ARGUMENT},
    {ONE(POWER("{\"cirq_type\": \"sympy.sin\"}"), Q0),
     "gate.exponent: 'sympy.sin'; expected a number or an expression", QR_UNIMPLEMENTED},
    {ONE(POWER("\"a\""), Q0), "gate.exponent: a string; expected a number", QR_INVALID_ARGUMENT},
    {ONE(POWER("{\"cirq_type\": \"sympy.Rational\", \"p\": 1, \"q\": 0}"), Q0), "division by zero",
     QR_INVALID_ARGUMENT},
    {ONE(POWER("1"), "{\"cirq_type\": \"LineQid\", \"x\": 0, \"dimension\": 3}"),
     "qubits[0]: 'LineQid' is not a GridQubit, LineQubit or NamedQubit", QR_UNIMPLEMENTED},
    {ONE("\"MatrixGate\", \"matrix\": [[1, 0], [0, 0.5]]", Q0), "is unitary only within",
     QR_INVALID_ARGUMENT},
    {ONE("\"MatrixGate\", \"matrix\": [[1, 0]]", Q0), "must be 2x2", QR_INVALID_ARGUMENT},
    {ONE("\"GlobalPhaseGate\", \"coefficient\": 0.5", ""), "only 1 is unitary",
     QR_INVALID_ARGUMENT},
    {ONE("\"QubitPermutationGate\", \"permutation\": [1, 1]", Q0 ", " Q1), "has 1 twice",
     QR_INVALID_ARGUMENT},
    {ONE("\"DiagonalGate\", \"diag_angles_radians\": [1]", Q0), "must have 2^n angles",
     QR_INVALID_ARGUMENT},
    {CIRCUIT(MOMENT(GATE(MEASURE, Q0)) ", " MOMENT(H0)),
     "moments[1].operations[0].gate: its qubit 0 was measured before", QR_UNIMPLEMENTED},
    {ONE("\"ResetChannel\", \"dimension\": 3", Q0), "gate.dimension", QR_INVALID_ARGUMENT},
    {CIRCUIT(MOMENT("{\"cirq_type\": \"ClassicallyControlledOperation\"}")),
     "depends on a measurement, which is read from OpenQASM 3 only", QR_UNIMPLEMENTED},
    {"[" CIRCUIT(MOMENT(H0)) ", " CIRCUIT("") "]",
     "[1]: 'Circuit' is not a PauliString or PauliSum", QR_UNIMPLEMENTED},
    {"[" CIRCUIT(MOMENT(H0)) ", {\"cirq_type\": \"PauliSum\", \"items\": []}]", "read-out 0",
     QR_INVALID_ARGUMENT},
    {"[" CIRCUIT(MOMENT(H0)) ", {\"cirq_type\": \"PauliSum\", \"items\": [[[], "
                             "{\"cirq_type\": \"complex\", \"real\": 0, \"imag\": 1}]]}]",
     "an observable is Hermitian", QR_INVALID_ARGUMENT},
    /* bounds */
    {CIRCUIT(MOMENT(REPEATED(FROZEN(MOMENT(H0) ", " MOMENT(H0)), "1000000000"))),
     "moments[0].operations[0].repetitions: here the circuit exceeds 1048576 gates",
     QR_INVALID_ARGUMENT},
    {CIRCUIT(MOMENT(REPEATED(FROZEN(MOMENT(GATE(MEASURE, Q0))), "2"))),
     "a circuit with measurements is repeated", QR_UNIMPLEMENTED},
    {CIRCUIT(MOMENT(REPEATED("{\"cirq_type\": \"REF\", \"key\": 3}", "1"))),
     "no circuit has the key 3", QR_INVALID_ARGUMENT},
    /* A circuit that contains itself. */
    {CIRCUIT(MOMENT(REPEATED("{\"cirq_type\": \"VAL\", \"key\": 1, \"val\": " FROZEN(
                                 MOMENT(REPEATED("{\"cirq_type\": \"REF\", \"key\": 1}", "1"))) "}",
                             "1"))),
     "more than 32 nested operations", QR_INVALID_ARGUMENT},
};

static void rejected(void) {
    for (size_t i = 0; i < COUNT(rejected_rows); i++) {
        struct qr_program p;
        struct qr_err err = {0};
        enum qr_code code = qr_cirq_read(qr_bytes_of_string(rejected_rows[i].text),
                                         &(struct qr_program_options){0}, &p, &err);
        CHECK(code == rejected_rows[i].code && strstr(err.msg, rejected_rows[i].words),
              "%s\n%s %s, not '%s'", rejected_rows[i].text, qr_code_name(code), err.msg,
              rejected_rows[i].words);
    }
}

static void check_json(const struct qr_circuit *c, const char *gates) {
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    qr_circuit_put_json(c, &w);
    CHECK(strstr(qr_buf_string(&text), gates), "%s\n%s", qr_buf_string(&text), gates);
    qr_buf_free(&text);
}

/* Each channel as Cirq 1.6 writes it, and its form in a job file. */
static void cirq_channels(void) {
    static const struct {
        const char *gate, *wanted;
    } rows[] = {
        {"\"BitFlipChannel\", \"p\": 0.1", "\"BitFlip\",\"qubits\":[0],\"p\":0.1}"},
        {"\"PhaseFlipChannel\", \"p\": 0.1", "\"PhaseFlip\",\"qubits\":[0],\"p\":0.1}"},
        {"\"DepolarizingChannel\", \"p\": 0.1", "\"Depolarize\",\"qubits\":[0],\"p\":0.1}"},
        {"\"AsymmetricDepolarizingChannel\", \"error_probabilities\": {\"I\": 0.4, \"X\": 0.1, "
         "\"Y\": 0.2, \"Z\": 0.3}",
         "\"PauliChannel\",\"qubits\":[0],\"p_x\":0.1,\"p_y\":0.2,\"p_z\":0.3}"},
        {"\"AsymmetricDepolarizingChannel\", \"p_x\": 0.1, \"p_y\": 0.2, \"p_z\": 0.3",
         "\"PauliChannel\",\"qubits\":[0],\"p_x\":0.1,\"p_y\":0.2,\"p_z\":0.3}"},
        {"\"AmplitudeDampingChannel\", \"gamma\": 0.1",
         "\"AmplitudeDamping\",\"qubits\":[0],\"gamma\":0.1}"},
        {"\"GeneralizedAmplitudeDampingChannel\", \"p\": 0.1, \"gamma\": 0.2",
         "\"GeneralizedAmplitudeDamping\",\"qubits\":[0],\"p\":0.1,\"gamma\":0.2}"},
        {"\"PhaseDampingChannel\", \"gamma\": {\"cirq_type\": \"sympy.Float\", \"approx\": 0.1}",
         "\"PhaseDamping\",\"qubits\":[0],\"gamma\":0.1}"},
        {"\"ResetChannel\", \"dimension\": 2", "{\"channel\":\"Reset\",\"qubits\":[0]}"},
        {"\"KrausChannel\", \"_kraus_ops\": [[[1, 0], [0, 0.8]], [[0, {\"cirq_type\": \"complex\", "
         "\"real\": 0, \"imag\": -0.6}], [0, 0]]], \"_key\": null",
         "[[[[1,0],[0,0]],[[0,0],[0.8,0]]],[[[0,0],[0,-0.6]],[[0,0],[0,0]]]]"},
        {"\"MixedUnitaryChannel\", \"_mixture\": [[0.75, [[1, 0], [0, 1]]], [0.25, [[0, 1], [1, "
         "0]]]], \"_key\": null",
         "[[[[0.8660254037844386,0],[0,0]],[[0,0],[0.8660254037844386,0]]],"
         "[[[0,0],[0.5,0]],[[0.5,0],[0,0]]]]"},
    };
    static const char *const pairs[][2] = {
        {"\"DepolarizingChannel\", \"p\": 0.1, \"n_qubits\": 2",
         "\"Depolarize\",\"qubits\":[1,0],\"p\":0.1}"},
        {"\"AsymmetricDepolarizingChannel\", \"error_probabilities\": {\"II\": 0.7, \"YZ\": 0.1, "
         "\"IY\": 0.2}",
         "\"PauliChannel\",\"qubits\":[1,0],\"p_ix\":0,\"p_iy\":0.2,\"p_iz\":0,\"p_xi\":0,"
         "\"p_xx\":0,\"p_xy\":0,\"p_xz\":0,\"p_yi\":0,\"p_yx\":0,\"p_yy\":0,\"p_yz\":0.1,"},
    };
    struct qr_program p;
    for (size_t i = 0; i < COUNT(rows); i++) {
        qr_auto(qr_free_p) char *text =
            qr_xasprintf(CIRCUIT(MOMENT(H0) ", " MOMENT(GATE("%s", Q0))), rows[i].gate);
        p = read_program(qr_bytes_of_string(text), rows[i].gate);
        check_json(p.circuit, rows[i].wanted);
        qr_program_fini(&p);
    }
    for (size_t i = 0; i < COUNT(pairs); i++) {
        qr_auto(qr_free_p) char *text = qr_xasprintf(ONE("%s", Q1 ", " Q0), pairs[i][0]);
        p = read_program(qr_bytes_of_string(text), pairs[i][0]);
        check_json(p.circuit, pairs[i][1]);
        qr_program_fini(&p);
    }
    /* A reset at the start of a repeated circuit applies in each repetition. */
    p = read_program(
        qr_bytes_of_string(CIRCUIT(MOMENT(REPEATED(
            FROZEN(MOMENT(GATE("\"ResetChannel\", \"dimension\": 2", Q0)) ", " MOMENT(H0)), "2")))),
        "reset");
    CHECK(p.circuit->n_gates == 4 && p.circuit->gates[2].kind == QR_GATE_CHANNEL, "%zu",
          p.circuit->n_gates);
    qr_program_fini(&p);
    /* A reset before any gate is dropped. */
    p = read_program(qr_bytes_of_string(CIRCUIT(
                         MOMENT(GATE("\"ResetChannel\", \"dimension\": 2", Q0)) ", " MOMENT(H0))),
                     "reset");
    CHECK(p.circuit->n_gates == 1, "%zu", p.circuit->n_gates);
    qr_program_fini(&p);
}

/* Each circuit contains the one before twice: no gates, and 2^30 operations. */
static void doubling(void) {
    struct qr_buf text = {0};
    struct qr_program p;
    struct qr_err err = {0};
    qr_buf_puts(&text, "{\"cirq_type\": \"Circuit\", \"moments\": [");
    for (unsigned i = 0; i < 30; i++) {
        char inner[256] = "";
        if (i)
            snprintf(inner, sizeof inner,
                     "{\"cirq_type\": \"CircuitOperation\", \"repetitions\": 0, "
                     "\"circuit\": {\"cirq_type\": \"REF\", \"key\": %u}}",
                     i - 1);
        qr_buf_printf(&text,
                      "%s{\"operations\": [{\"cirq_type\": \"CircuitOperation\", "
                      "\"repetitions\": 0, \"circuit\": {\"cirq_type\": \"VAL\", \"key\": %u, "
                      "\"val\": {\"moments\": [{\"operations\": [%s%s%s]}]}}}]}",
                      i ? ", " : "", i, inner, i ? ", " : "", inner);
    }
    qr_buf_puts(&text, "]}");
    CHECK(qr_cirq_read(qr_buf_view(&text), &(struct qr_program_options){.max_steps = 1 << 16}, &p,
                       &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "more than 65536 objects"),
          "%s", err.msg);
    qr_buf_free(&text);
}

/* Nested circuits; Cirq 1.3 lists them before the circuit that contains them. */
static void nested(void) {
    static const char text[] =
        "{\"cirq_type\": \"_ContextualSerialization\", \"object_dag\": ["
        "{\"cirq_type\": \"_SerializedContext\", \"key\": 1, \"obj\": " FROZEN(MOMENT(
            H0)) "}, " CIRCUIT(MOMENT(REPEATED("{\"cirq_type\": \"_SerializedKey\", \"key\": 1}",
                                               "-3"))) "]}";
    struct qr_program p = read_program(qr_bytes_of_string(text), "nested");
    const struct qr_gate *g = p.circuit->gates;
    CHECK(p.circuit->n_gates == 1 && g->kind == QR_GATE_H && g->args[0].scale == 3, "%g",
          g->args[0].scale);
    qr_program_fini(&p);
    /* Values in a param_resolver refer to symbols of the enclosing circuit. */
    static const char own[] =
        CIRCUIT(MOMENT("{\"cirq_type\": \"CircuitOperation\", \"circuit\": " FROZEN(MOMENT(GATE(
            POWER(SYMBOL("a")),
            Q0))) ", \"repetitions\": 1, \"param_resolver\": {\"param_dict\": "
                  "[[\"a\", {\"cirq_type\": \"sympy.Mul\", \"args\": [2, " SYMBOL("a") "]}]]}}"));
    p = read_program(qr_bytes_of_string(own), "own");
    g = p.circuit->gates;
    CHECK(g->args[0].kind == QR_ARG_PARAMETER && g->args[0].scale == 2, "%g", g->args[0].scale);
    qr_program_fini(&p);
    /* A symbol that is only in a global phase is not a parameter of the circuit. */
    static const char phase[] = CIRCUIT(MOMENT(
        "{\"cirq_type\": \"PauliStringPhasor\", \"pauli_string\": {\"qubit_pauli_map\": [], "
        "\"coefficient\": 1}, \"exponent_neg\": 0, \"exponent_pos\": " SYMBOL("a") "}, " H0));
    p = read_program(qr_bytes_of_string(phase), "phase");
    CHECK(p.circuit->n_gates == 1 && p.circuit->n_params == 0, "%u", p.circuit->n_params);
    qr_program_fini(&p);
}

/* ---- symbols and inputs ---- */

static void symbols(void) {
    static const char text[] = CIRCUIT(MOMENT(GATE(POWER(SYMBOL("b")), Q0)) ", " MOMENT(
        GATE(POWER("{\"cirq_type\": \"sympy.Mul\", \"args\": [2, " SYMBOL("a 1") "]}"),
             Q0)) ", " MOMENT(GATE("\"Rx\", \"rads\": " SYMBOL("c"), Q0)));
    const char *inputs[] = {"c", "b"};
    struct qr_program_options options = {.inputs = inputs, .n_inputs = 2};
    struct qr_program p;
    struct qr_err err = {0};
    CHECK(qr_cirq_read(qr_bytes_of_string(text), &options, &p, &err) == QR_OK, "%s", err.msg);
    const struct qr_gate *g = p.circuit->gates;
    CHECK(p.circuit->n_columns == 2 && p.circuit->n_params == 1 &&
          strcmp(p.circuit->param_names[0], "a_1") == 0);
    CHECK(g[0].args[0].kind == QR_ARG_DATA && g[0].args[0].index == 1);
    CHECK(g[1].args[0].kind == QR_ARG_PARAMETER && g[1].args[0].scale == 2);
    CHECK(g[2].args[0].kind == QR_ARG_DATA && g[2].args[0].index == 0 &&
          g[2].args[0].scale == 1 / M_PI && g[2].global_shift == -0.5);
    qr_program_fini(&p);

    static const char *const names[][2] = {
        {"theta", "theta"}, {"w[3]", "w[3]"}, {"w[i]", "w_i_"},  {"x", "x_"},    {"x[0]", "x_[0]"},
        {"x.a", "x_.a"},    {"pi", "pi_"},    {"a.Pi", "a.Pi_"}, {"π", "π_"},    {"sin", "sin_"},
        {"1st", "_1st"},    {"NaN", "NaN_"},  {"a-b", "a_b"},    {"θ_1", "θ_1"}, {"", "_"}};
    for (size_t i = 0; i < COUNT(names); i++) {
        qr_auto(qr_free_p) char *named = qr_xasprintf(ONE(POWER(SYMBOL("%s")), Q0), names[i][0]);
        CHECK(qr_cirq_read(qr_bytes_of_string(named), &(struct qr_program_options){0}, &p, &err) ==
                  QR_OK,
              "%s", err.msg);
        CHECK(strcmp(p.circuit->param_names[0], names[i][1]) == 0, "%s", p.circuit->param_names[0]);
        qr_program_fini(&p);
    }

    inputs[1] = "d";
    CHECK(qr_cirq_read(qr_bytes_of_string(text), &options, &p, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "no symbol 'd' for an input; it has b, a 1"),
          "%s", err.msg);
    inputs[1] = "c";
    CHECK(qr_cirq_read(qr_bytes_of_string(text), &options, &p, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "'c' is given twice"),
          "%s", err.msg);
    static const char alike[] =
        CIRCUIT(MOMENT(GATE(POWER(SYMBOL("a b")), Q0)) ", " MOMENT(GATE(POWER(SYMBOL("a_b")), Q0)));
    CHECK(qr_cirq_read(qr_bytes_of_string(alike), &(struct qr_program_options){0}, &p, &err) ==
                  QR_INVALID_ARGUMENT &&
              strstr(err.msg, "the symbol 'a_b' and another would both be called 'a_b'"),
          "%s", err.msg);
}

/* ---- the bytes of TensorFlow Quantum ---- */

/* A symbol whose name is invalid in expressions keeps it, in the circuit and in its JSON. */
static void any_name(void) {
    static const uint8_t program[] = "\x0a\x0e\x0a\x0ctfq_gate_set"
                                     "\x12\x47\x12\x45\x0a\x43\x0a\x04\x0a\x02XP"
                                     "\x12\x13\x0a\x08"
                                     "exponent\x12\x07\x12\x05xx1-0"
                                     "\x12\x1a\x0a\x0f"
                                     "exponent_scalar\x12\x07\x0a\x05\x0d\0\0\x20\x40"
                                     "\x1a\x0a\x12\x08-12_1234";
    struct qr_program p = read_program(qr_bytes_of(program, sizeof program - 1), "any name");
    struct qr_buf text = {0};
    struct qr_json_writer w = qr_json_writer(&text, 0);
    CHECK(strcmp(p.circuit->param_names[0], "xx1-0") == 0);
    qr_circuit_put_json(p.circuit, &w);
    CHECK(strstr(qr_buf_string(&text), "{\"parameter\":\"xx1-0\",\"scale\":2.5}"), "%s",
          qr_buf_string(&text));
    qr_buf_free(&text);
    qr_program_fini(&p);
}

/* A program of one operation on these qubits ("0_0,0_1") with arguments that are numbers or
 * symbols, ended by a NULL name. */
struct tfq_argument {
    const char *name;
    float number;
    const char *symbol;
};
static struct qr_buf tfq_program(const char *id, const struct tfq_argument *args,
                                 const char *controls, const char *qubits) {
    struct qr_buf name = {0}, language = {0}, circuit = {0}, moment = {0}, operation = {0},
                  ret = {0};
    qr_protobuf_text(&name, 1, id);
    qr_protobuf_part(&operation, 1, &name);
    for (const struct tfq_argument *a = args; a->name || controls; a++) {
        struct qr_buf entry = {0}, arg = {0}, value = {0};
        qr_protobuf_text(&entry, 1, a->name ? a->name : "control_qubits");
        if (!a->name) qr_protobuf_text(&value, 3, controls);
        else if (a->symbol) qr_buf_puts(&value, a->symbol);
        else qr_protobuf_float(&value, 1, a->number);
        qr_protobuf_part(&arg, a->symbol ? 2 : 1, &value);
        qr_protobuf_part(&entry, 2, &arg);
        qr_protobuf_part(&operation, 2, &entry);
        qr_buf_free(&entry), qr_buf_free(&arg), qr_buf_free(&value);
        if (a->name) continue;
        qr_protobuf_text(&entry, 1, "control_values");
        qr_protobuf_text(&value, 3, *controls ? "1" : "");
        qr_protobuf_part(&arg, 1, &value);
        qr_protobuf_part(&entry, 2, &arg);
        qr_protobuf_part(&operation, 2, &entry);
        qr_buf_free(&entry), qr_buf_free(&arg), qr_buf_free(&value);
        break;
    }
    for (const char *q = qubits; q; q = strchr(q, ',') ? strchr(q, ',') + 1 : NULL) {
        qr_protobuf_bytes(&name, 2, q, strcspn(q, ","));
        qr_protobuf_part(&operation, 3, &name);
    }
    qr_protobuf_part(&moment, 1, &operation);
    qr_protobuf_text(&language, 1, "tfq_gate_set");
    qr_protobuf_part(&ret, 1, &language);
    qr_protobuf_uint(&circuit, 1, 1);
    qr_protobuf_part(&circuit, 2, &moment);
    qr_protobuf_part(&ret, 2, &circuit);
    qr_buf_free(&name), qr_buf_free(&language), qr_buf_free(&circuit);
    qr_buf_free(&moment), qr_buf_free(&operation);
    return ret;
}

static const struct {
    const char *id;
    struct tfq_argument args[4];
    const char *controls, *qubits, *gate;
} accepted_operations[] = {
    {"DP", {{"p", 0.1f, 0}}, "", "0_0", "\"Depolarize\",\"qubits\":[0],\"p\":0.1}"},
    {"ADP",
     {{"p_x", 0.1f, 0}, {"p_y", 0.2f, 0}, {"p_z", 0.3f, 0}},
     "",
     "0_0",
     "\"PauliChannel\",\"qubits\":[0],\"p_x\":0.1,\"p_y\":0.2,\"p_z\":0.3}"},
    {"GAD",
     {{"p", 0.1f, 0}, {"gamma", 0.2f, 0}},
     "",
     "0_0",
     "\"GeneralizedAmplitudeDamping\",\"qubits\":[0],\"p\":0.1,\"gamma\":0.2}"},
    {"AD", {{"gamma", 0.2f, 0}}, NULL, "0_0", "\"AmplitudeDamping\",\"qubits\":[0],\"gamma\":0.2"},
    {"PD", {{"gamma", 0.2f, 0}}, "", "0_0", "\"PhaseDamping\",\"qubits\":[0],\"gamma\":0.2}"},
    {"PF", {{"p", 1, 0}}, "", "7", "\"PhaseFlip\",\"qubits\":[0],\"p\":1}"},
    {"BF", {{"p", 0.1f, 0}}, "", "0_0", "\"BitFlip\",\"qubits\":[0],\"p\":0.1}"},
    {"RST", {{NULL, 0, 0}}, "", "0_0", "{\"channel\":\"Reset\",\"qubits\":[0]}"},
    /* The sum is 1.000001. */
    {"ADP",
     {{"p_x", 0.166667f, 0}, {"p_y", 0.166667f, 0}, {"p_z", 0.666667f, 0}},
     "",
     "0_0",
     "\"PauliChannel\""},
};
static const struct {
    const char *id;
    struct tfq_argument args[4];
    const char *controls, *qubits, *words;
} rejected_operations[] = {
    {"DP", {{NULL, 0, 0}}, "", "0_0", "moments[0].operations[0].args['p'] is missing"},
    {"DP", {{"p", 0, "s"}}, "", "0_0", "moments[0].operations[0].args['p'] must be a number"},
    {"DP", {{"p", 1.5f, 0}}, "", "0_0", "operations[0]: Depolarize has p = 1.5; give a number"},
    {"DP",
     {{"p", 0.1f, 0}},
     "0_1",
     "0_0",
     "operations[0]: a noise channel (Depolarize) cannot be controlled"},
    {"DP", {{"p", 0.1f, 0}}, "", "0_0,0_1", "Depolarize acts on 1 qubit, not 2"},
    {"ADP",
     {{"p_x", 0.5f, 0}, {"p_y", 0.5f, 0}, {"p_z", 0.1f, 0}},
     "",
     "0_0",
     "PauliChannel has probabilities with a sum above 1"},
    {"QQ", {{"p", 0.1f, 0}}, "", "0_0", "the gate 'QQ' is unknown"},
};

static void tfq_channels(void) {
    struct qr_program p;
    struct qr_err err = {0};
    for (size_t i = 0; i < COUNT(accepted_operations); i++) {
        struct qr_buf b =
            tfq_program(accepted_operations[i].id, accepted_operations[i].args,
                        accepted_operations[i].controls, accepted_operations[i].qubits);
        p = read_program(qr_buf_view(&b), accepted_operations[i].id);
        check_json(p.circuit, accepted_operations[i].gate);
        qr_program_fini(&p);
        qr_buf_free(&b);
    }
    for (size_t i = 0; i < COUNT(rejected_operations); i++) {
        struct qr_buf b =
            tfq_program(rejected_operations[i].id, rejected_operations[i].args,
                        rejected_operations[i].controls, rejected_operations[i].qubits);
        CHECK(qr_cirq_read(qr_buf_view(&b), &(struct qr_program_options){0}, &p, &err) ==
                      QR_INVALID_ARGUMENT &&
                  strstr(err.msg, rejected_operations[i].words),
              "%s, not %s", err.msg, rejected_operations[i].words);
        qr_buf_free(&b);
    }
    /* Noise in data circuits would differ from sample to sample. */
    struct qr_buf b =
        tfq_program(accepted_operations[0].id, accepted_operations[0].args, "", "0_0");
    struct qr_tfq_tensor one = {b.p, 1, b.n};
    struct qr_tfq_samples samples;
    struct qr_tfq_model model = {.data = one, .circuit = one};
    CHECK(qr_tfq_read(&model, &p, &samples, &err) == QR_INVALID_ARGUMENT &&
              strstr(err.msg, "data circuit 0: its gates: a noise channel (Depolarize) cannot be "
                              "data; write it outside"),
          "%s", err.msg);
    qr_buf_free(&b);
}

static void damaged_programs(void) {
    static uint8_t bytes[MOST_BYTES], copy[MOST_BYTES];
    struct qr_json *root = golden_load("tests/golden/cirq/tfq.json");
    const struct qr_json *row = qr_json_first(qr_json_get(root, "rows"));
    size_t n = bytes_of_hex(golden_text(row, "program"), bytes);
    struct qr_program p;
    struct qr_err err = {0};
    for (size_t i = 0; i < n; i += 7) {
        if (qr_cirq_read(qr_bytes_of(bytes, i), &(struct qr_program_options){0}, &p, &err) == QR_OK)
            CHECK(false, "%zu bytes", i);
        memcpy(copy, bytes, n);
        copy[i] ^= 0x51;
        if (qr_cirq_read(qr_bytes_of(copy, n), &(struct qr_program_options){0}, &p, &err) == QR_OK)
            qr_program_fini(&p);
        else CHECK(err.msg[0]);
    }
    qr_json_free(root);
}

int main(void) {
    golden_cirq();
    golden_tfq();
    data_circuits();
    rejected();
    cirq_channels();
    doubling();
    nested();
    symbols();
    any_name();
    tfq_channels();
    damaged_programs();
    return t_end();
}
