/* job/keys.c — the table of all keys of a job file. Start reading at qr_job_objects. */
#include "job/keys.h"

#include <math.h>

#include "job/job_impl.h"

/* ---- columns of the rows ---- */

#define KEY(name_, about_, ...)                                                                    \
    { .name = (name_), .about = (about_), __VA_ARGS__ }
#define AT(type_, field) .at = offsetof(struct type_, field)
#define WITHIN(low_, high_) .low = (low_), .high = (high_)
#define COUNT(type_, field, ...) .type = QR_KEY_COUNT, AT(type_, field), WITHIN(__VA_ARGS__)
#define UNSIGNED(type_, field, ...) .type = QR_KEY_UNSIGNED, AT(type_, field), WITHIN(__VA_ARGS__)
#define NUMBER(type_, field, ...) .type = QR_KEY_NUMBER, AT(type_, field), WITHIN(__VA_ARGS__)
#define FLAG(type_, field) .type = QR_KEY_FLAG, AT(type_, field)
#define ONE_OF(names_) .names = (names_), .n_names = sizeof(names_) / sizeof *(names_)
#define CHOICE(type_, field, names_) .type = QR_KEY_CHOICE, AT(type_, field), ONE_OF(names_)
#define TEXT(type_, field) .type = QR_KEY_TEXT, AT(type_, field)
#define URL(type_, field) .type = QR_KEY_URL, AT(type_, field)
#define OBJECT(type_, field, name_) .type = QR_KEY_OBJECT, AT(type_, field), .object = (name_)
#define OTHER(words_, schema_) .type = QR_KEY_OTHER, .words = (words_), .schema = schema_
/* Keys that another component reads. */
#define INTEGER(...) .type = QR_KEY_COUNT, WITHIN(__VA_ARGS__)
#define REAL .type = QR_KEY_NUMBER, WITHIN(-INFINITY, INFINITY)
#define BOOLEAN .type = QR_KEY_FLAG
#define STRING .type = QR_KEY_TEXT
#define NAME_OF(names_) .type = QR_KEY_CHOICE, ONE_OF(names_)

#define MAX_COUNT 0x1p40
#define MAX_SEED 0x1p53
#define LARGE 1e300
#define BELOW_ONE (1 - 0x1p-53)

/* JSON Schema */
#define REF(name_) "{\"$ref\": \"#/$defs/" name_ "\"}"
#define IS(type_) "{\"type\": \"" type_ "\"}"
#define LIST(items) "{\"type\": \"array\", \"items\": " items "}"
#define LIST_OF(min, max, items)                                                                   \
    "{\"type\": \"array\", \"minItems\": " min ", \"maxItems\": " max ", \"items\": " items "}"
#define TABLE(items) "{\"type\": \"object\", \"additionalProperties\": " items "}"
#define ANY_OF(a, b) "{\"anyOf\": [" a ", " b "]}"
#define BETWEEN(type_, low_, high_)                                                                \
    "{\"type\": \"" type_ "\", \"minimum\": " low_ ", \"maximum\": " high_ "}"
#define FROM_ZERO "{\"type\": \"number\", \"minimum\": 0}"
#define COLUMN ANY_OF(BETWEEN("integer", "0", "1048575"), IS("string"))
#define INDEX ANY_OF(IS("integer"), IS("string"))
#define ANGLE "{\"anyOf\": [" IS("number") ", " IS("string") ", " REF("argument") "]}"
#define OBSERVABLE ANY_OF(IS("string"), ANY_OF(REF("Hamiltonian"), REF("projector")))
#define URLS ANY_OF(IS("string"), LIST_OF("1", "4096", IS("string")))
#define GATES LIST(REF("item"))
#define COMPLEX REF("complex")
#define MATRIX LIST(LIST(COMPLEX))

#define ROWS(rows) .keys = (rows), .n_keys = sizeof(rows) / sizeof *(rows)
#define KINDS(by_, names_)                                                                         \
    .by = (by_), .kinds = (names_), .n_kinds = sizeof(names_) / sizeof *(names_)

/* ---- the job ---- */

static const char *const precisions[] = {[QR_SINGLE] = "single", [QR_DOUBLE] = "double"};

static const struct qr_job_key job_keys[] = {
    KEY("name",
        "name of the run, for out/NAME: 1 to 63 letters, digits, -, _, ., first a letter or "
        "digit",
        AT(qr_job, name),
        OTHER("text", "{\"type\": \"string\", \"pattern\": \"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$\"}"),
        .value = "\"job\"", .read = qr_job_read_name),
    KEY("seed", "seed of initial weights, shuffling and generated data",
        COUNT(qr_job, seed, 0, MAX_SEED)),
    KEY("precision", "numbers of the simulator: float32 or float64; all others are float64",
        CHOICE(qr_job, precision, precisions), .aliases = QR_JOB_PRECISION),
    KEY("model", "the layers, in order", AT(qr_job, layers), .required = true,
        OTHER("list of 1 to 64 layers", LIST_OF("1", "64", REF("layer"))),
        .missing = "give a list of layers", .read = qr_job_read_model),
    KEY("data", "source of the samples", OBJECT(qr_job, data, "data"), .required = true,
        .missing = "give {\"source\": ...}", .dependent = true),
    KEY("train", "training", OBJECT(qr_job, train, "train")),
    KEY("micro_batch_size",
        "samples of a micro-batch, the unit of work of a worker; qring show prints it. At most "
        "2^22 "
        "per batch or evaluation",
        COUNT(qr_job, micro_batch_size, 1, 4096),
        .value = "1 with source none; 32 to 256, an eighth of the batch, where qring show says "
                 "cones (1 without data gates); 1 with noise elsewhere; else 16 up to 11 qubits (9 "
                 "without data gates), 1 above; 32 without a circuit"),
    KEY("profile", "steps for TensorBoard's profiler", .type = QR_KEY_OBJECT, .object = "profile"),
    KEY("sweep", "trials of qring sweep; other commands ignore the key", AT(qr_job, sweep),
        OTHER("object", REF("sweep")), .read = qr_job_read_sweep),
    KEY("worker",
        "settings of the workers: flags of qringd, with _ for -; texts, numbers, true or false",
        AT(qr_job, worker), OTHER("object", REF("worker")), .read = qr_job_read_worker),
    KEY("$schema", "job.schema.json, for editors only", STRING, .read = qr_job_read_nothing),
};

static const struct qr_job_key profile_keys[] = {
    KEY("steps", "first and last step to record, from 1", AT(qr_job, profile_first),
        OTHER("list of 2 integers", LIST_OF("2", "2", BETWEEN("integer", "1", "9007199254740992"))),
        .read = qr_job_read_profile_steps),
};

/* ---- model ---- */

static const char *const gradients[] = {"adjoint", "parameter-shift"};

static const struct qr_job_key layer_keys[] = {
    KEY("layer", "kind of layer", CHOICE(qr_layer_options, kind, qr_layer_names), .required = true,
        .aliases = QR_JOB_LAYER),
    KEY("name",
        "name in weights files: 1 to 32 letters, digits, _, -, first a letter; filters add _1 ...",
        AT(qr_layer_options, name),
        OTHER("text", "{\"type\": \"string\", \"pattern\": "
                      "\"^[A-Za-z][A-Za-z0-9_-]{0,31}$\"}"),
        .of = "quantum dense", .value = "pqc, pqc_1 ..., dense, dense_1 ...",
        .read = qr_job_read_layer_name),
    KEY("trainable", "false: freeze the layer's weights", AT(qr_layer_options, frozen),
        .type = QR_KEY_NOT, .of = "quantum dense"),
    KEY("circuit", "an ansatz, a list of gates or a file", AT(qr_layer_options, quantum),
        OTHER("object", REF("circuit")), .of = "quantum", .required = true,
        .missing = "give an ansatz, a list of gates or a file", .read = qr_job_read_circuit),
    KEY("filters",
        "copies of the circuit with weights of their own; outputs are concatenated. Also a key of "
        "a "
        "qcnn",
        UNSIGNED(qr_layer_options, quantum.n_filters, 1, 256), .of = "quantum"),
    KEY("readouts", "the observables to measure", AT(qr_layer_options, quantum),
        OTHER("list of 1 to 4096 observables or probabilities",
              LIST_OF("1", "4096", ANY_OF(OBSERVABLE, REF("probs")))),
        .of = "quantum",
        .value = "measurements of a file, Z of each qubit that a qcnn leaves, else of all qubits",
        .dependent = true, .read = qr_job_read_readouts),
    KEY("method",
        "how noise is simulated: exact by transfer matrices or density matrices, the latter alone "
        "(up to 12 qubits), or averages of trajectories; auto: by cost (qring show)",
        CHOICE(qr_layer_options, quantum.method, qr_method_names), .of = "quantum"),
    KEY("trajectories", "trajectories per sample of that method",
        UNSIGNED(qr_layer_options, quantum.n_trajectories, 1, 0x1p20), .of = "quantum"),
    KEY("gradient",
        "adjoint: derivatives of the exact expectation values, or with noise of the trajectories; "
        "parameter-shift: from shifted read-outs with shots and trajectories of their own, as "
        "devices compute them",
        CHOICE(qr_layer_options, quantum.gradient, gradients), .of = "quantum"),
    KEY("shots", "bit strings per sample and basis: read-outs are means over them; 0: exact",
        UNSIGNED(qr_layer_options, quantum.shots, 0, 0x1p24), .of = "quantum"),
    KEY("watch", "named observables, computed as metrics only", AT(qr_layer_options, quantum),
        OTHER("object of observables", TABLE(OBSERVABLE)), .of = "quantum", .dependent = true,
        .read = qr_job_read_watched),
    KEY("units", "number of outputs", UNSIGNED(qr_layer_options, dense.units, 1, 0x1p20),
        .of = "dense", .required = true),
    KEY("activation", "applied to the outputs",
        CHOICE(qr_layer_options, dense.activation, qr_activation_names), .of = "dense"),
    KEY("l1", "penalty l1 * sum of |w| over the kernel, added to the loss",
        NUMBER(qr_layer_options, dense.l1, 0, LARGE), .of = "dense"),
    KEY("l2", "penalty l2 * sum of w^2 over the kernel, added to the loss",
        NUMBER(qr_layer_options, dense.l2, 0, LARGE), .of = "dense"),
    KEY("activation", "the function", CHOICE(qr_layer_options, activation, qr_activation_names),
        .of = "activation", .required = true),
    KEY("rate", "probability of dropping a value", NUMBER(qr_layer_options, dropout.rate, 0, 1),
        .not_high = "with 1 every value is dropped", .of = "dropout", .required = true),
    KEY("factor", "multiplies the input", NUMBER(qr_layer_options, scale.factor, -LARGE, LARGE),
        .of = "scale"),
    KEY("offset", "added after that; one of the two is required",
        NUMBER(qr_layer_options, scale.offset, -LARGE, LARGE), .of = "scale"),
};

/* ---- circuits, which lib/circuit reads ---- */

static const char *const circuits[] = {"gates",
                                       "url",
                                       "qcnn",
                                       "strongly-entangling",
                                       "basic-entangler",
                                       "simplified-two-design",
                                       "hardware-efficient",
                                       "qaoa",
                                       "uccsd",
                                       "all-singles-doubles",
                                       "tensor-network",
                                       "angle",
                                       "iqp",
                                       "zz-feature-map",
                                       "amplitude"};
#define ANSATZE                                                                                    \
    "strongly-entangling basic-entangler simplified-two-design hardware-efficient qaoa uccsd "     \
    "all-singles-doubles tensor-network angle iqp zz-feature-map amplitude"
static const char *const variants[] = {"notebook", "research"};
static const char *const entanglers[] = {"CNOT", "CZ",    "CY",     "CH",
                                         "SWAP", "ISWAP", "SISWAP", "ECR"};
static const char *const rotations[] = {"RX", "RY", "RZ"};
static const char *const networks[] = {"mps", "ttn", "mera"};
static const char *const patterns[] = {"full",     "linear", "reverse_linear",
                                       "circular", "sca",    "pairwise"};
#define PAIRS                                                                                      \
    "{\"type\": \"array\", \"items\": {\"type\": \"array\", \"items\": " IS("integer") "}}"

static const struct qr_job_key circuit_keys[] = {
    KEY("ansatz", "name of the ansatz; without it, a list of gates or a file",
        .type = QR_KEY_CHOICE, .names = circuits + 2,
        .n_names = sizeof circuits / sizeof *circuits - 2, .value = ""),
    KEY("qubits",
        "number of qubits; at least 4 for a qcnn, at most 64 for a state vector. In a list of "
        "gates: "
        "the qubits that the ansatz is on",
        INTEGER(1, 1024), .of = "gates qcnn " ANSATZE, .required = true),
    KEY("url",
        "a file of OpenQASM 2 or 3, Cirq's JSON or a TensorFlow Quantum program; its gates enter "
        "the job hash, its name does not. Without readouts in the layer, its measurements are the "
        "read-outs",
        OTHER("URL", IS("string")), .of = "url", .required = true),
    KEY("inputs", "free symbols of the file that are inputs, in this order; others are weights",
        OTHER("list of texts", LIST(IS("string"))), .of = "url", .value = "none"),
    KEY("gates",
        "gates, ansätze, repeats and blocks in order of time; the limit counts what they expand to",
        OTHER("list of 1 to 2^20 gates", LIST_OF("1", "1048576", REF("item"))), .of = "gates",
        .required = true),
    KEY("columns",
        "number of inputs. Without it, gates must use all columns of the data, or all that its "
        "columns lists",
        INTEGER(0, 0x1p20), .of = "gates", .value = "the highest column in use, + 1"),
    KEY("noise", "noise channels after gates of a kind, and read-out errors",
        OTHER("object", REF("noise")), .value = ""),
    KEY("stages", "stages of convolution and pooling; each halves the qubits (an odd one stays)",
        INTEGER(1, 1024), .of = "qcnn", .value = "down to one qubit"),
    KEY("variant",
        "symbols of ZZ, YY, XX: 6, 7, 8 of the stage, or 7, 8, 9 as in the multi-worker "
        "tutorial",
        NAME_OF(variants), .of = "qcnn", .value = "\"notebook\""),
    KEY("filters", "the layer's filters; set one of the two", INTEGER(1, 256), .of = "qcnn",
        .value = "1"),
    KEY("prefix", "prefix of weight names; ansätze with equal names share weights", STRING,
        .of = ANSATZE),
    KEY("layers", "number of layers (Qiskit: reps, PennyLane: n_repeats)", INTEGER(1, 0x1p20),
        .of = "strongly-entangling basic-entangler simplified-two-design qaoa uccsd iqp",
        .value = "1"),
    KEY("layers", "number of layers", INTEGER(1, 0x1p20), .of = "hardware-efficient", .value = "3"),
    KEY("layers", "number of layers", INTEGER(1, 0x1p20), .of = "zz-feature-map", .value = "2"),
    KEY("ranges", "distance of entangled qubits, per layer",
        OTHER("list of integers", LIST(IS("integer"))), .of = "strongly-entangling",
        .value = "1, 2, ..., qubits - 1, 1, ..."),
    KEY("entangler", "the two-qubit gate (PennyLane: imprimitive)", NAME_OF(entanglers),
        .of = "strongly-entangling hardware-efficient", .value = "\"CNOT\""),
    KEY("rotation", "rotation of each qubit", NAME_OF(rotations), .of = "basic-entangler angle",
        .value = "\"RX\""),
    KEY("rotations", "in this order, each on all qubits",
        OTHER("list of 1 to 8 of RX, RY, RZ",
              LIST_OF("1", "8", "{\"enum\": [\"RX\", \"RY\", \"RZ\"]}")),
        .of = "hardware-efficient", .value = "[\"RY\", \"RZ\"]"),
    KEY("entanglement",
        "Qiskit's pairs: all; 01 12 23; 23 12 01; 30 01 12 23; the same, shifted and reversed per "
        "layer; 01 23 12",
        NAME_OF(patterns), .of = "hardware-efficient", .value = "\"reverse_linear\""),
    KEY("entanglement", "pairs, as of hardware-efficient", NAME_OF(patterns),
        .of = "iqp zz-feature-map", .value = "\"full\""),
    KEY("final_rotations", "rotations after the last layer", BOOLEAN, .of = "hardware-efficient",
        .value = "true"),
    KEY("cost", "observables of Z alone, summed; qubits by circuit number",
        OTHER("text or list of texts", ANY_OF(IS("string"), LIST(IS("string")))), .of = "qaoa",
        .required = true),
    KEY("electrons", "qubits that start in 1, from the first; 0 to all", INTEGER(0, 1024),
        .of = "uccsd all-singles-doubles", .required = true),
    KEY("singles", "from one qubit to another; ascending for uccsd",
        OTHER("list of lists of integers", PAIRS), .of = "uccsd all-singles-doubles",
        .value = "none beside doubles, else all that keep the spin (even qubits up, odd down)"),
    KEY("doubles", "from two qubits to two", OTHER("list of lists of integers", PAIRS),
        .of = "uccsd all-singles-doubles",
        .value = "none beside singles, else all that keep the spin"),
    KEY("kind", "network; ttn and mera need 2, 4, 8, ... qubits", NAME_OF(networks),
        .of = "tensor-network", .required = true),
    KEY("block", "gates on qubits 0 and 1", OTHER("list of gates", GATES), .of = "tensor-network",
        .value = "CNOT, then RY of qubit 0 by w0 and of qubit 1 by w1"),
    KEY("data", "column number of the first input (others follow), or one per qubit or amplitude",
        OTHER("integer or text, or list of these", ANY_OF(COLUMN, LIST(COLUMN))),
        .of = "angle iqp zz-feature-map amplitude", .value = "0"),
    KEY("scale", "factor of the inputs", REAL, .of = "angle", .value = "1"),
    KEY("alpha", "factor of all angles", REAL, .of = "zz-feature-map", .value = "2"),
    KEY("inputs", "amplitudes from inputs; the others are pad_with. 1 to 14 qubits",
        INTEGER(1, 16384), .of = "amplitude",
        .value = "2^qubits, or as many as the list in data has"),
    KEY("pad_with", "value of the remaining amplitudes", REAL, .of = "amplitude", .value = ""),
    KEY("state", "constant amplitudes instead of inputs, numbers or [re, im]; 1 to 20 qubits",
        OTHER("list of complex numbers", LIST(COMPLEX)), .of = "amplitude"),
    KEY("normalize", "divide by the norm, as always for inputs", BOOLEAN, .of = "amplitude",
        .value = "false for a state, true for inputs"),
};

#define GATES_KEY(about_) KEY("gates", about_, OTHER("list of gates", GATES), .required = true)
static const struct qr_job_key repeat_keys[] = {
    KEY("repeat", "number of repetitions",
        OTHER("integer, 0 to 2^20, or text",
              ANY_OF(BETWEEN("integer", "0", "1048576"), IS("string"))),
        .required = true),
    KEY("index", "name of the loop index, from 0", STRING),
    GATES_KEY("gates, ansätze, repeats and blocks, nested up to eight deep"),
};

static const struct qr_job_key adjoint_keys[] = {
    KEY("adjoint", "true: the inverse; false: the gates as they are", BOOLEAN, .required = true),
    GATES_KEY("as in a repeat; they act in reverse order, each inverted"),
};

static const struct qr_job_key control_keys[] = {
    KEY("control", "control qubits, which the gates do not act on",
        OTHER("list of integers or texts", LIST(INDEX)), .required = true),
    KEY("control_values", "the value at which each control acts: 0 or 1",
        OTHER("list of integers or texts", LIST(INDEX)), .value = "1 for each control"),
    GATES_KEY("as in a repeat; all act where the controls have their values, phases included"),
};

static const struct qr_job_key power_keys[] = {
    KEY("power",
        "-2^20 to 2^20: an integer repeats the gates, a negative one their inverse; a fraction "
        "multiplies the exponent or angle of one native gate (constant: its principal power)",
        OTHER("number or text", ANY_OF(BETWEEN("number", "-1048576", "1048576"), IS("string"))),
        .required = true),
    GATES_KEY("as in a repeat"),
};

#define ANGLE_KEY(name_, about_) KEY(name_, about_, OTHER("angle", ANGLE), .required = true)
static const struct qr_job_key gate_keys[] = {
    KEY("gate", "name of the gate, in any case", STRING, .required = true),
    KEY("qubits", "distinct qubits, controls before targets",
        OTHER("list of integers or texts", LIST(INDEX)), .required = true),
    KEY("exponent", "t, in half-turns: X^1 is X, X^0.5 its root", OTHER("angle", ANGLE),
        .value = "1"),
    ANGLE_KEY("angle", "radians; in place of an exponent: a rotation e^(-i angle P/2)"),
    ANGLE_KEY("phase_exponent", "p, in half-turns"),
    ANGLE_KEY("theta", "radians"),
    ANGLE_KEY("phi", "radians"),
    ANGLE_KEY("lambda", "radians"),
    ANGLE_KEY("delta", "PennyLane's name of lambda; set one of the two"),
    ANGLE_KEY("gamma", "radians"),
    ANGLE_KEY("omega", "radians"),
    KEY("pauli_word", "I, X, Y or Z for each qubit, in order",
        OTHER("text", "{\"type\": \"string\", \"pattern\": \"^[IXYZ]+$\"}"), .required = true),
    KEY("matrix",
        "rows of a unitary matrix, numbers or [re, im], at least seven digits; the first qubit is "
        "most significant (Qiskit: the last)",
        OTHER("list of lists of complex numbers", MATRIX), .required = true),
    KEY("state", "0 or 1 for each qubit, in order; or inputs 0 and 1",
        OTHER("text or input", ANY_OF(IS("string"), REF("input"))), .required = true),
    KEY("controls", "control qubits", OTHER("list of integers or texts", LIST(INDEX))),
    KEY("control_values", "the value at which each control acts: 0 or 1",
        OTHER("list of integers or texts", LIST(INDEX)), .value = "1 for each control"),
    KEY("global_shift", "g: factor e^(i pi g t), which matters for controlled gates", REAL,
        .value = "0"),
};

#define STRENGTH(name_, about_) KEY(name_, about_, OTHER("number or text", ANGLE), .value = "")
static const struct qr_job_key noise_channel_keys[] = {
    KEY("channel",
        "BitFlip, PhaseFlip, BitPhaseFlip (p); Depolarize (p, on one or two qubits); Dephase (p, "
        "on two); PauliChannel (p_x, p_y, p_z, or p_ix to p_zz; absent: 0); AmplitudeDamping, "
        "PhaseDamping (gamma); GeneralizedAmplitudeDamping (p, gamma); ThermalRelaxation (t1, t2, "
        "time, "
        "excited); Reset; ResetError (p_0, p_1); Kraus (operators)",
        STRING, .required = true),
    KEY("qubits",
        "qubits; the channel acts on each. On two qubits, Depolarize, PauliChannel (p_ix to p_zz) "
        "and Kraus (4x4 matrices) act on both together, as Dephase does. In noise: the number of "
        "qubits, 1 or 2",
        OTHER("list of integers or texts, or integer",
              ANY_OF(LIST(INDEX), BETWEEN("integer", "1", "2"))),
        .value = ""),
    STRENGTH("p", "probability of an error; strengths may be expressions of weights"),
    STRENGTH("gamma", "probability of a decay"),
    STRENGTH("p_x", "probability of this Pauli"),
    STRENGTH("p_y", "probability of this Pauli"),
    STRENGTH("p_z", "probability of this Pauli"),
    STRENGTH("p_ix", "probability of these Paulis on both qubits"),
    STRENGTH("p_iy", "as p_ix"),
    STRENGTH("p_iz", "as p_ix"),
    STRENGTH("p_xi", "as p_ix"),
    STRENGTH("p_xx", "as p_ix"),
    STRENGTH("p_xy", "as p_ix"),
    STRENGTH("p_xz", "as p_ix"),
    STRENGTH("p_yi", "as p_ix"),
    STRENGTH("p_yx", "as p_ix"),
    STRENGTH("p_yy", "as p_ix"),
    STRENGTH("p_yz", "as p_ix"),
    STRENGTH("p_zi", "as p_ix"),
    STRENGTH("p_zx", "as p_ix"),
    STRENGTH("p_zy", "as p_ix"),
    STRENGTH("p_zz", "as p_ix"),
    STRENGTH("t1", "relaxation time, in any unit"),
    STRENGTH("t2", "dephasing time, in the same unit, at most 2 t1"),
    STRENGTH("time", "duration, in the same unit"),
    STRENGTH("excited", "population of 1 in equilibrium [0]"),
    STRENGTH("p_0", "probability of becoming 0"),
    STRENGTH("p_1", "probability of becoming 1"),
    KEY("operators", "1 to 16 Kraus operators, as matrix of a gate",
        OTHER("list of matrices", LIST_OF("1", "16", MATRIX)), .value = ""),
};

static const struct qr_job_key measure_keys[] = {
    KEY("measure", "qubits, measured in the basis of Z",
        OTHER("list of integers or texts", LIST(INDEX)), .required = true),
    KEY("bits", "the bits that are set, one for each qubit; [] for none",
        OTHER("list of integers or texts", LIST(INDEX)), .value = "the qubits' numbers"),
    KEY("p_01", "probability of reading 1 for 0", OTHER("number or text", ANGLE),
        .value = "that of the noise's readout, or 0"),
    KEY("p_10", "probability of reading 0 for 1", OTHER("number or text", ANGLE),
        .value = "that of the noise's readout, or 0"),
};

static const struct qr_job_key if_keys[] = {
    KEY("if", "measured bits", OTHER("list of integers or texts", LIST(INDEX)), .required = true),
    KEY("if_values", "the value of each bit at which the gates act: 0 or 1",
        OTHER("list of integers or texts", LIST(INDEX)), .value = "1 for each bit"),
    GATES_KEY("as in a repeat, noise channels too"),
};

static const struct qr_job_key noise_keys[] = {
    KEY("after",
        "by native gate (qring show draws them): CNOT, CZ, X, RX ...; *1, *2 on one or two qubits; "
        "* "
        "all others. Channels act on each qubit of the gate",
        OTHER("object of channels, or lists of channels",
              TABLE(ANY_OF(REF("noise_channel"), LIST(REF("noise_channel"))))),
        .value = ""),
    KEY("readout", "read-out errors of all qubits, or a list with qubits",
        OTHER("object or list of objects",
              ANY_OF(REF("readout_error"), LIST(REF("readout_error")))),
        .value = ""),
};

#define PROBABILITY(name_, about_) KEY(name_, about_, .type = QR_KEY_NUMBER, WITHIN(0, 1))
static const struct qr_job_key readout_error_keys[] = {
    PROBABILITY("p", "probability of a wrong bit"),
    PROBABILITY("p_01", "probability of reading 1 for 0"),
    PROBABILITY("p_10", "probability of reading 0 for 1"),
    KEY("qubits", "in a list: the qubits", OTHER("list of integers", LIST(IS("integer"))),
        .value = ""),
};

static const struct qr_job_key argument_keys[] = {
    KEY("parameter", "a trainable weight of this name, 1 to 64 bytes", STRING),
    KEY("data",
        "column number of an input, from 0; by name write an expression: \"x.width\". Set one of "
        "parameter and data",
        OTHER("integer, 0 to 2^20 - 1, or text", COLUMN)),
    KEY("scale", "a factor", REAL, .value = "1"),
};

static const struct qr_job_key input_keys[] = {
    KEY("data", "column number of the first qubit's input; the next ones follow",
        OTHER("integer, 0 to 2^20 - 1, or text", COLUMN), .required = true),
};

static const struct qr_job_key hamiltonian_keys[] = {
    KEY("hamiltonian", "terms, as in [[\"Z0 Z1\", 0.5]], or a file of them",
        OTHER("terms, or URL", "{\"type\": [\"array\", \"object\", \"string\"]}"),
        .required = true),
};

static const struct qr_job_key projector_keys[] = {
    KEY("projector",
        "0 or 1 for each qubit: the observable is the probability of this string, up to 12 qubits",
        OTHER("text", "{\"type\": \"string\", \"pattern\": \"^[01]+$\"}"), .required = true),
    KEY("qubits", "in the order of the digits", OTHER("list of integers", LIST(IS("integer"))),
        .value = "all"),
};

static const struct qr_job_key probs_keys[] = {
    KEY("probs",
        "1 to 8 qubits: a read-out for the probability of each of their bit strings, from 00..",
        OTHER("list of integers", LIST(IS("integer"))), .required = true),
};

/* ---- data ---- */

static const char *const sources[] = {[QR_DATA_EXCITATIONS] = "cluster-excitations",
                                      [QR_DATA_NPZ] = "npz",
                                      [QR_DATA_CSV] = "csv",
                                      [QR_DATA_NONE] = "none"};
static const char *const file_sources[] = {"npz", "csv"};
#define FILES "csv npz"
#define COLUMNS LIST_OF("1", "4096", COLUMN_OR_NAME)
#define COLUMN_OR_NAME ANY_OF(IS("string"), IS("integer"))

static const struct qr_job_key data_keys[] = {
    KEY("source", "kind of data", CHOICE(qr_data_options, source, sources), .required = true),
    KEY("url",
        "file or folder, required without a channel train: a path (from the working folder, else "
        "the "
        "job's), file:///path, gs://bucket/name, s3://bucket/name, https://host/path",
        URL(qr_data_options, url), .of = FILES),
    KEY("validation_url",
        "a file or folder with the same columns that validates; all of url trains. Not with "
        "train_fraction",
        URL(qr_data_options, validation_url), .of = FILES),
    KEY("sample_weight",
        "column (csv) or array (npz) of factors of the loss, 0 or more, also in validation; the "
        "mean "
        "divides by the number of samples. Not for metrics",
        AT(qr_data_options, sample_weight), OTHER("text", IS("string")), .of = FILES,
        .read = qr_job_read_sample_weight),
    KEY("labels",
        "label column (csv, also a list) or array (npz). A single column may hold words: classes",
        AT(qr_data_options, labels),
        OTHER("text or list of texts", ANY_OF(IS("string"), LIST(IS("string")))), .of = FILES,
        .value = "y, or y0, y1 ...", .read = qr_job_read_labels),
    KEY("columns",
        "input columns, in this order: names (csv) or numbers from 0 without labels and weights. "
        "They "
        "become x[0], x[1] ...",
        AT(qr_data_options, picked), OTHER("list of texts or integers", COLUMNS), .of = FILES,
        .value = "all", .read = qr_job_read_data_columns),
    KEY("channels",
        "1 to 32 named inputs: train and validation in place of the URLs, others for "
        "evaluation",
        AT(qr_data_options, channels),
        OTHER("object of URLs, channels or lists of 1 to 4096 URLs",
              "{\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": 32, "
              "\"propertyNames\": {\"pattern\": \"^[A-Za-z0-9_-]{1,63}$\"}, "
              "\"additionalProperties\": " ANY_OF(URLS, REF("channel")) "}"),
        .of = FILES, .read = qr_job_read_channels),
    KEY("shuffle_split", "seed of a shuffle before the split. Needs train_fraction below 1",
        AT(qr_data_options, split_seed),
        OTHER("integer, 0 to 2^53", BETWEEN("integer", "0", "9007199254740992")), .of = FILES,
        .read = qr_job_read_shuffle_split),
    KEY("rounds", "samples per qubit", UNSIGNED(qr_data_options, rounds, 1, 0x1p20),
        .of = "cluster-excitations"),
    KEY("train_fraction", "share that trains, above 0; with 1 nothing validates",
        NUMBER(qr_data_options, train_fraction, 0, 1),
        .not_low = "with 0 there are no training samples", .of = "csv npz cluster-excitations"),
};

static const struct qr_job_key channel_keys[] = {
    KEY("url", "files and folders", AT(qr_data_channel, urls),
        OTHER("URL, or list of 1 to 4096 URLs", URLS), .required = true,
        .missing = "give the path or URL of the data", .read = qr_job_read_urls),
    KEY("source", "kind of files", AT(qr_data_channel, source), .type = QR_KEY_CHOICE,
        ONE_OF(file_sources), .value = "the data's", .read = qr_job_read_file_source),
    KEY("columns", "this channel's names of the inputs, as many as in data",
        AT(qr_data_channel, picked), OTHER("list of texts or integers", COLUMNS),
        .value = "the data's", .read = qr_job_read_channel_columns),
};

/* ---- training ---- */

static const struct qr_job_key train_keys[] = {
    KEY("epochs", "passes over the training samples; --epochs overrides",
        COUNT(qr_train_spec, epochs, 1, MAX_COUNT)),
    KEY("batch_size", "samples per step, of all workers together; the last batch may be smaller",
        COUNT(qr_train_spec, batch_size, 1, 0x1p31)),
    KEY("loss", "what to minimize; an object has options",
        CHOICE(qr_train_spec, loss, qr_loss_names), .aliases = QR_JOB_LOSS, .object = "loss",
        .read = qr_job_read_loss),
    KEY("class_weight",
        "factor of the training loss per class. For categorical_crossentropy; binary_crossentropy, "
        "hinge with one output",
        AT(qr_train_spec, class_weight), OTHER("list of numbers", LIST_OF("2", "65536", FROM_ZERO)),
        .read = qr_job_read_class_weight),
    KEY("metrics", "metrics to compute", AT(qr_train_spec, metrics), .dependent = true,
        OTHER("list of names or objects", LIST(ANY_OF(REF("metric_name"), REF("metric")))),
        .value = "none", .read = qr_job_read_metrics),
    KEY("optimizer", "update rule", OBJECT(qr_train_spec, optimizer, "optimizer"),
        .value = "Adam, all defaults", .read = qr_job_read_optimizer),
    KEY("shuffle", "new order in each epoch, fixed by the seed", FLAG(qr_train_spec, shuffle)),
    KEY("evaluate",
        "validate after each epoch; false: leave that to an evaluator. Not with early_stopping by "
        "val_ values",
        FLAG(qr_train_spec, evaluate)),
    KEY("initial_weights", "weights to start with; of some layers with url and layers",
        OBJECT(qr_train_spec, initial_weights, "initial_weights"), .words = "URL, or object",
        .read = qr_job_read_initial_weights),
    KEY("log", "values of your own: named expressions, at most 7", AT(qr_train_spec, logged),
        OTHER("object of texts", TABLE(IS("string"))), .dependent = true, .value = "none",
        .read = qr_job_read_log),
    KEY("early_stopping", "when to stop early",
        OBJECT(qr_train_spec, early_stopping, "early_stopping"), .dependent = true),
};

static const struct qr_job_key initial_weights_keys[] = {
    KEY("url", "file or checkpoint", URL(qr_train_spec, initial_weights), .required = true),
    KEY("layers", "layers to load; an object maps their names here to those in the file",
        AT(qr_train_spec, initial_layers),
        OTHER("list of texts, or object of texts", ANY_OF(LIST(IS("string")), TABLE(IS("string")))),
        .value = "all", .read = qr_job_read_initial_layers),
};

static const struct qr_job_key loss_keys[] = {
    KEY("name", "name of the loss", CHOICE(qr_train_spec, loss, qr_loss_names),
        .aliases = QR_JOB_LOSS),
    KEY("delta", "where the square ends; above 0",
        NUMBER(qr_train_spec, loss_options.delta, 0, LARGE),
        .not_low = "with 0 every error has loss 0", .value = "1"),
    KEY("from_logits",
        "outputs and predictions are z, not probabilities: for a linear last layer, or read-outs. "
        "Metrics use the probability, except binary_accuracy, mse, mae",
        FLAG(qr_train_spec, loss_options.from_logits)),
    KEY("label_smoothing", "s: label y becomes y (1 - s) + s/2; one-hot: y (1 - s) + s/outputs",
        NUMBER(qr_train_spec, loss_options.label_smoothing, 0, 1)),
    KEY("weights", "a factor per output; not all 0", AT(qr_train_spec, output_weights),
        OTHER("list of numbers", LIST(IS("number"))), .value = "1 for each output",
        .read = qr_job_read_output_weights),
};

static const struct qr_job_key metric_keys[] = {
    KEY("name", "name of the metric", CHOICE(qr_metric_spec, metric, qr_metric_names),
        .required = true, .aliases = QR_JOB_METRIC),
    KEY("k", "below the number of outputs", UNSIGNED(qr_metric_spec, k, 1, 0x1p20),
        .of = "top_k_accuracy", .value = "5"),
};

#define OPTIMIZER(field, ...) NUMBER(qr_optimizer_options, field, __VA_ARGS__)
static const struct qr_job_key optimizer_keys[] = {
    KEY("name", "name of the optimizer", CHOICE(qr_optimizer_options, kind, qr_optimizer_names),
        .aliases = QR_JOB_OPTIMIZER),
    KEY("learning_rate", "rate or schedule", OPTIMIZER(learning_rate, 0, LARGE),
        .object = "learning_rate", .read = qr_job_read_rate),
    KEY("clipvalue", "limit of each component of the mean gradient; 0: off",
        OPTIMIZER(clipvalue, 0, LARGE)),
    KEY("clipnorm", "limit of each tensor's gradient norm; 0: off", OPTIMIZER(clipnorm, 0, LARGE)),
    KEY("global_clipnorm", "limit of the whole gradient's norm; 0: off. Set one of the three",
        OPTIMIZER(global_clipnorm, 0, LARGE)),
    KEY("weight_decay", "before each update subtract this * rate * weight",
        OPTIMIZER(weight_decay, 0, LARGE)),
    KEY("use_ema", "write the exponential moving average of the weights",
        FLAG(qr_optimizer_options, use_ema)),
    KEY("ema_momentum", "share of the average kept by an update", OPTIMIZER(ema_momentum, 0, 1)),
    KEY("ema_overwrite_frequency", "updates after which the weights become the average",
        COUNT(qr_optimizer_options, ema_overwrite, 1, MAX_COUNT), .value = ""),
    KEY("momentum", "of the velocity or step", OPTIMIZER(momentum, 0, 1)),
    KEY("nesterov", "look ahead along the velocity", FLAG(qr_optimizer_options, nesterov)),
    KEY("rho", "decay of the mean square", OPTIMIZER(rho, 0, 1)),
    KEY("centered", "subtract the mean gradient", FLAG(qr_optimizer_options, centered)),
    KEY("beta_1", "decay of the mean gradient; lion: share of the momentum in the direction",
        OPTIMIZER(beta_1, 0, BELOW_ONE)),
    KEY("beta_2", "decay of the mean square (adamax: largest gradient, lion: momentum)",
        OPTIMIZER(beta_2, 0, BELOW_ONE)),
    KEY("epsilon",
        "added to the root (adam, adamw, nadam), under it (rmsprop, adagrad, adadelta), to the "
        "largest gradient (adamax)",
        OPTIMIZER(epsilon, 0, LARGE)),
    KEY("amsgrad", "divide by the largest mean square so far", FLAG(qr_optimizer_options, amsgrad)),
    KEY("initial_accumulator_value", "initial sum of squares",
        OPTIMIZER(initial_accumulator, 0, LARGE)),
    KEY("perturbation", "c: first distance of the two points from the weights",
        OPTIMIZER(perturbation, 1e-300, LARGE)),
    KEY("stability", "A: steps with an almost constant rate; usually a tenth of all",
        OPTIMIZER(stability, 0, LARGE)),
    KEY("alpha", "decay of the rate", OPTIMIZER(alpha, 0, 100)),
    KEY("gamma", "decay of the distance", OPTIMIZER(gamma, 0, 100)),
    KEY("regularization", "PennyLane's lam, added to the metric's diagonal",
        OPTIMIZER(regularization, 0, LARGE)),
    KEY("memory", "past steps that model the curvature",
        UNSIGNED(qr_optimizer_options, memory, 1, QR_LBFGS_MEMORY)),
    KEY("gradient_tolerance", "stop when no derivative is larger",
        OPTIMIZER(gradient_tolerance, 0, LARGE)),
    KEY("loss_tolerance", "stop when a step lowers the loss by no more than this * max(|loss|, 1)",
        OPTIMIZER(loss_tolerance, 0, LARGE)),
};

#define STEPS(field, ...) COUNT(qr_optimizer_options, schedule.field, __VA_ARGS__, MAX_COUNT)
static const struct qr_job_key learning_rate_keys[] = {
    KEY("schedule", "name of the schedule",
        CHOICE(qr_optimizer_options, schedule.kind, qr_schedule_names), .required = true,
        .aliases = QR_JOB_SCHEDULE),
    KEY("initial_learning_rate", "r", OPTIMIZER(learning_rate, 0, LARGE),
        .value = "the optimizer's"),
    KEY("warmup_steps", "updates of linear growth to r, before the schedule starts with n = 0",
        STEPS(warmup_steps, 0)),
    KEY("warmup_learning_rate", "rate of the first warm-up update",
        OPTIMIZER(schedule.warmup_from, 0, LARGE)),
    KEY("decay_steps", "d, in updates", STEPS(decay_steps, 1), .required = true),
    KEY("first_decay_steps", "updates of the first period", STEPS(decay_steps, 1),
        .required = true),
    KEY("decay_rate", "factor, above 0", OPTIMIZER(schedule.decay_rate, 0, LARGE), .required = true,
        .not_low = "with 0 the rate becomes 0"),
    KEY("staircase", "round n / d down", FLAG(qr_optimizer_options, schedule.staircase)),
    KEY("alpha", "final share of r", OPTIMIZER(schedule.alpha, 0, 1)),
    KEY("t_mul", "length of a period, relative to the one before",
        OPTIMIZER(schedule.t_mul, 1, 0x1p20), .value = "2"),
    KEY("m_mul", "initial rate of a period, relative to the one before",
        OPTIMIZER(schedule.m_mul, 0, LARGE), .value = "1"),
    KEY("end_learning_rate", "final rate", OPTIMIZER(schedule.end, 0, LARGE), .value = "0.0001"),
    KEY("power", "exponent", OPTIMIZER(schedule.power, 0, LARGE), .value = "1"),
    KEY("cycle", "restart after the end, with a longer d",
        FLAG(qr_optimizer_options, schedule.cycle)),
    KEY("boundaries", "ascending numbers of updates", AT(qr_optimizer_options, schedule),
        OTHER("list of 1 to 31 integers",
              LIST_OF("1", "31", BETWEEN("integer", "0", "1099511627776"))),
        .required = true, .read = qr_job_read_boundaries),
    KEY("values", "rates, one more than boundaries", AT(qr_optimizer_options, schedule),
        OTHER("list of 2 to 32 numbers", LIST_OF("2", "32", FROM_ZERO)), .required = true,
        .read = qr_job_read_rate_values),
};

static const char *const modes[] = {"auto", "min", "max"};

static const struct qr_job_key early_stopping_keys[] = {
    KEY("monitor",
        "loss or a name in metrics or watch, also with val_; or a name in log, if its expression "
        "has "
        "no gradient_norm",
        TEXT(qr_early_stopping, monitor), .value = "\"val_loss\""),
    KEY("mode",
        "better value; auto: larger for accuracies, precision, recall, auc, confusion_matrix, else "
        "smaller",
        CHOICE(qr_early_stopping, mode, modes)),
    KEY("min_delta", "an improvement must be larger than this",
        NUMBER(qr_early_stopping, min_delta, 0, LARGE)),
    KEY("patience",
        "stop after so many epochs in a row without improvement; 0 means 1. Never after the first "
        "epoch",
        COUNT(qr_early_stopping, patience, 0, MAX_COUNT)),
    KEY("restore_best_weights",
        "write the best epoch's weights; false: the last epoch's (Keras' default)",
        FLAG(qr_early_stopping, restore_best)),
};

/* ---- sweeps, which lib/sweep reads ---- */

#define RANGE(type_) LIST_OF("2", "2", IS(type_))
static const struct qr_job_key sweep_keys[] = {
    KEY("keys", "1 to 32 keys to vary, by --set path; not name, worker, $schema",
        OTHER("object of draws or lists of 1 to 4096 values",
              "{\"type\": \"object\", \"minProperties\": 1, \"maxProperties\": 32, "
              "\"additionalProperties\": " ANY_OF(REF("draw"), LIST_OF("1", "4096", "{}")) "}"),
        .required = true),
    KEY("trials", "number of trials to draw; default: all combinations, at most 4096",
        INTEGER(1, 4096), .value = ""),
    KEY("seed", "seed of the draws", INTEGER(0, MAX_SEED), .value = "the job's"),
    KEY("metric", "as monitor of early_stopping, without confusion_matrix", STRING,
        .value = "val_loss; without validation samples loss"),
    KEY("mode", "better value, as in early_stopping", NAME_OF(modes), .value = "\"auto\""),
    KEY("halving", "successive halving: stop bad trials early", OTHER("object", REF("halving"))),
};

static const struct qr_job_key draw_keys[] = {
    KEY("choice", "one of them; a plain list means the same",
        OTHER("list of 1 to 4096 values", LIST_OF("1", "4096", "{}"))),
    KEY("uniform", "uniform from the first to the second",
        OTHER("list of 2 numbers", RANGE("number"))),
    KEY("log_uniform", "uniform logarithm; both above 0",
        OTHER("list of 2 numbers", RANGE("number"))),
    KEY("integer", "an integer from the first to the second, inclusive",
        OTHER("list of 2 integers", RANGE("integer"))),
};

static const struct qr_job_key halving_keys[] = {
    KEY("epochs", "ascending; replaces train.epochs",
        OTHER("list of 2 to 16 integers",
              LIST_OF("2", "16", "{\"type\": \"integer\", \"minimum\": 1}")),
        .required = true),
    KEY("factor", "one in this many continues", INTEGER(2, 4096), .value = "2"),
};

/* ---- all objects ---- */

#define OBJECT_AT(name_, path_, ...)                                                               \
    { .name = (name_), .path = (path_), __VA_ARGS__ }
const struct qr_job_object qr_job_objects[] = {
    OBJECT_AT("job", "", ROWS(job_keys), .finish = qr_job_finish),
    OBJECT_AT("layer", "model[]", ROWS(layer_keys), KINDS("layer", qr_layer_names),
              .set_defaults = qr_job_set_layer_defaults, .finish = qr_job_finish_layer,
              .schema = "\"if\": {\"properties\": {\"layer\": {\"const\": \"scale\"}}}, "
                        "\"then\": {\"minProperties\": 2}"),
    OBJECT_AT("circuit", "model[].circuit", ROWS(circuit_keys), KINDS("ansatz", circuits)),
    OBJECT_AT("repeat", "model[].circuit.gates[]", ROWS(repeat_keys)),
    OBJECT_AT("adjoint", "model[].circuit.gates[]", ROWS(adjoint_keys)),
    OBJECT_AT("control", "model[].circuit.gates[]", ROWS(control_keys)),
    OBJECT_AT("power", "model[].circuit.gates[]", ROWS(power_keys)),
    OBJECT_AT("gate", "model[].circuit.gates[]", ROWS(gate_keys)),
    OBJECT_AT("noise_channel", "model[].circuit.gates[]", ROWS(noise_channel_keys)),
    OBJECT_AT("measure", "model[].circuit.gates[]", ROWS(measure_keys)),
    OBJECT_AT("if", "model[].circuit.gates[]", ROWS(if_keys)),
    OBJECT_AT("noise", "model[].circuit.noise", ROWS(noise_keys)),
    OBJECT_AT("readout_error", "model[].circuit.noise.readout", ROWS(readout_error_keys)),
    OBJECT_AT("argument", "model[].circuit.gates[].angle", ROWS(argument_keys),
              .schema = "\"oneOf\": [{\"required\": [\"parameter\"]}, {\"required\": [\"data\"]}]"),
    OBJECT_AT("input", "model[].circuit.gates[].state", ROWS(input_keys)),
    OBJECT_AT("Hamiltonian", "model[].readouts[]", ROWS(hamiltonian_keys)),
    OBJECT_AT("projector", "model[].readouts[]", ROWS(projector_keys)),
    OBJECT_AT("probs", "model[].readouts[]", ROWS(probs_keys)),
    OBJECT_AT("data", "data", ROWS(data_keys), KINDS("source", sources),
              .set_defaults = qr_job_set_data_defaults, .finish = qr_job_finish_data,
              .schema = "\"if\": {\"properties\": {\"source\": {\"enum\": [\"csv\", \"npz\"]}}}, "
                        "\"then\": {\"oneOf\": [{\"required\": [\"url\"]}, {\"properties\": "
                        "{\"channels\": {\"required\": [\"train\"]}}, "
                        "\"required\": [\"channels\"]}]}"),
    OBJECT_AT("channel", "data.channels", ROWS(channel_keys)),
    OBJECT_AT("train", "train", ROWS(train_keys), .set_defaults = qr_job_set_train_defaults,
              .finish = qr_job_finish_train),
    OBJECT_AT("initial_weights", "train.initial_weights", ROWS(initial_weights_keys)),
    OBJECT_AT("loss", "train.loss", ROWS(loss_keys), KINDS("name", qr_loss_names), .kind = QR_MSE,
              .has = qr_job_loss_has),
    OBJECT_AT("metric", "train.metrics[]", ROWS(metric_keys), KINDS("name", qr_metric_names)),
    OBJECT_AT("optimizer", "train.optimizer", ROWS(optimizer_keys),
              KINDS("name", qr_optimizer_names), .kind = QR_ADAM, .has = qr_job_optimizer_has,
              .set_defaults = qr_job_set_optimizer_defaults, .reject = qr_job_reject_optimizer_key,
              .finish = qr_job_finish_optimizer),
    OBJECT_AT("learning_rate", "train.optimizer.learning_rate", ROWS(learning_rate_keys),
              KINDS("schedule", qr_schedule_names), .has = qr_job_schedule_has,
              .reject = qr_job_reject_schedule_key, .finish = qr_job_finish_schedule),
    OBJECT_AT("early_stopping", "train.early_stopping", ROWS(early_stopping_keys),
              .set_defaults = qr_job_set_stopping_defaults, .finish = qr_job_finish_stopping),
    OBJECT_AT("profile", "profile", ROWS(profile_keys)),
    OBJECT_AT("sweep", "sweep", ROWS(sweep_keys)),
    OBJECT_AT("draw", "sweep.keys", ROWS(draw_keys),
              .schema = "\"minProperties\": 1, \"maxProperties\": 1"),
    OBJECT_AT("halving", "sweep.halving", ROWS(halving_keys)),
};
const size_t qr_job_n_objects = sizeof qr_job_objects / sizeof *qr_job_objects;

const struct qr_job_object *qr_job_object(const char *name) {
    const struct qr_job_reader r = {.objects = qr_job_objects, .n_objects = qr_job_n_objects};
    return qr_job_object_of(&r, name);
}
