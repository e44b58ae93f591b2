/* Repeats, indices, blocks and ansätze in lists: equal to the last bit to the gates written by
 * hand; error messages; bounded time for small texts. */
#include "base/bytes.h"
#include "base/clock.h"
#include "circuit/circuit_json.h"
#include "tests/t.h"

static enum qr_code read_text(const char *text, struct qr_circuit **ret, struct qr_err *err) {
    struct qr_json *root = NULL;
    struct qr_qubits readouts;
    *ret = NULL;
    *err = (struct qr_err){.msg = ""};
    CHECK(qr_json_parse(qr_bytes_of_string(text), "test", &root, err) == QR_OK, "%s: %s", err->msg,
          text);
    enum qr_code code = qr_circuit_from_json(root, "circuit", ret, &readouts, err);
    qr_json_free(root);
    return code;
}

static struct qr_circuit *read_valid(const char *text) {
    struct qr_circuit *c;
    struct qr_err err;
    CHECK(read_text(text, &c, &err) == QR_OK, "%s: %s", err.msg, text);
    if (!c) exit(1);
    return c;
}

static bool same_arg(const struct qr_circuit *a, const struct qr_gate_arg *x,
                     const struct qr_circuit *b, const struct qr_gate_arg *y) {
    if (x->kind != y->kind || x->scale != y->scale) return false;
    if (x->kind != QR_ARG_EXPRESSION) return x->kind == QR_ARG_CONSTANT || x->index == y->index;
    return qr_expression_equal(&a->expressions[x->index], &b->expressions[y->index]);
}

static bool same_gate(const struct qr_circuit *a, const struct qr_circuit *b, size_t i) {
    const struct qr_gate *x = &a->gates[i], *y = &b->gates[i];
    bool same = x->kind == y->kind && memcmp(x->targets, y->targets, sizeof x->targets) == 0 &&
                x->global_shift == y->global_shift && qr_qubits_equal(&x->controls, &y->controls) &&
                qr_qubits_equal(&x->control_values, &y->control_values);
    for (unsigned k = 0; k < x->n_args && same; k++)
        same = same_arg(a, &x->args[k], b, &y->args[k]);
    return same;
}

static bool same_circuit(const struct qr_circuit *a, const struct qr_circuit *b) {
    bool same = a->n_qubits == b->n_qubits && a->n_columns == b->n_columns &&
                a->n_params == b->n_params && a->n_gates == b->n_gates;
    for (unsigned i = 0; same && i < a->n_params; i++)
        same = strcmp(a->param_names[i], b->param_names[i]) == 0;
    for (size_t i = 0; same && i < a->n_gates; i++) same = same_gate(a, b, i);
    return same;
}

#define H(q) "{\"gate\": \"H\", \"qubits\": [" q "]}"
#define CX(p, q) "{\"gate\": \"CX\", \"qubits\": [" p ", " q "]}"
#define RY(q, angle) "{\"gate\": \"RY\", \"qubits\": [" q "], \"angle\": " angle "}"
#define W(name) "{\"parameter\": \"" name "\"}"
#define FSIM(theta, phi)                                                                           \
    "{\"gate\": \"FSIM\", \"qubits\": [0, 1], \"theta\": " theta ", \"phi\": " phi "}"
#define ADJOINT(gates) "{\"adjoint\": true, \"gates\": [" gates "]}"
#define POWER(p, gates) "{\"power\": " p ", \"gates\": [" gates "]}"
#define CONTROL(qubits, values, gates)                                                             \
    "{\"control\": [" qubits "], " values "\"gates\": [" gates "]}"
#define REPEAT(n, index, gates)                                                                    \
    "{\"repeat\": " n ", \"index\": \"" index "\", \"gates\": [" gates "]}"

static const struct {
    const char *short_form, *by_hand;
} pairs[] = {
    /* rounds that wrap at both ends */
    {REPEAT("4", "i", H("\"i\"")), H("0") "," H("1") "," H("2") "," H("3")},
    {REPEAT("\"n\"", "i", CX("\"i\"", "\"(i+1)%n\"")),
     CX("0", "1") "," CX("1", "2") "," CX("2", "3") "," CX("3", "0")},
    {REPEAT("2", "q_1", CX("\"q_1\"", "\"(q_1-1)%n\"")), CX("0", "3") "," CX("1", "0")},
    {REPEAT("2", "i", H("\"-(-i - 1) * 2 - 1 % 7\"")), H("1") "," H("3")},
    {REPEAT("2", "i", H("\"(i-3) % -2 + 2\"")), H("1") "," H("2")},
    {"{\"repeat\": 2, \"gates\": [" H("1") "]}", H("1") "," H("1")},
    {H("3") "," REPEAT("0", "i", H("9")), H("3")},
    /* nested, with a number of rounds that shrinks to none */
    {REPEAT("\"n\"", "i", REPEAT("\"n-1-i\"", "j", CX("\"i\"", "\"i+j+1\""))),
     CX("0", "1") "," CX("0", "2") "," CX("0", "3") "," CX("1", "2") "," CX("1", "3") "," CX("2",
                                                                                             "3")},
    /* names, columns, controls, expressions */
    {REPEAT("2", "i", RY("\"i\"", W("w{i}")) "," RY("\"i\"", W("v{i*3+1}_{n}x"))),
     RY("0", W("w0")) "," RY("0", W("v1_4x")) "," RY("1", W("w1")) "," RY("1", W("v4_4x"))},
    {REPEAT("2", "i", RY("0", "{\"data\": \"2*i\", \"scale\": 0.5}")),
     RY("0", "{\"data\": 0, \"scale\": 0.5}") "," RY("0", "{\"data\": 2, \"scale\": 0.5}")},
    {REPEAT("2", "i",
            "{\"gate\": \"X\", \"qubits\": [\"i\"], \"controls\": [\"i+2\", \"i+1\"], "
            "\"control_values\": [1, 0]}"),
     "{\"gate\": \"X\", \"qubits\": [0], \"controls\": [2, 1], \"control_values\": [1, 0]},"
     "{\"gate\": \"X\", \"qubits\": [1], \"controls\": [3, 2], \"control_values\": [1, 0]}"},
    {REPEAT("2", "i", RY("0", "\"w{i}*x[{i+1}] + {2*i}\"")),
     RY("0", "\"w0*x[1] + 0\"") "," RY("0", "\"w1*x[2] + 2\"")},
    /* outside of repeats braces have no meaning */
    {RY("0", W("w{i}")), RY("0", W("w{i}"))},
    /* ansätze on some qubits, with a prefix */
    {"{\"ansatz\": \"basic-entangler\", \"qubits\": [3, 1], \"prefix\": \"a_\"}",
     "{\"gate\": \"RX\", \"qubits\": [3], \"angle\": " W(
         "a_w0_0") "},"
                   "{\"gate\": \"RX\", \"qubits\": [1], \"angle\": " W("a_w0_1") "}," CX("3", "1")},
    {REPEAT(
         "2", "i",
         "{\"ansatz\": \"basic-entangler\", \"qubits\": [\"i\", \"i+1\"], \"prefix\": \"{i}:\"}"),
     "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": " W(
         "0:w0_0") "},"
                   "{\"gate\": \"RX\", \"qubits\": [1], \"angle\": " W("0:w0_1") "}," CX(
                       "0", "1") ","
                                 "{\"gate\": \"RX\", \"qubits\": [1], \"angle\": " W(
                                     "1:w0_0") "},"
                                               "{\"gate\": \"RX\", \"qubits\": [2], \"angle\": " W(
                                                   "1:w0_1") "}," CX("1", "2")},
    {REPEAT("2", "k", "{\"ansatz\": \"angle\", \"qubits\": [0, 2], \"data\": \"k\"}"),
     "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": {\"data\": 0}},"
     "{\"gate\": \"RX\", \"qubits\": [2], \"angle\": {\"data\": 1}},"
     "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": {\"data\": 1}},"
     "{\"gate\": \"RX\", \"qubits\": [2], \"angle\": {\"data\": 2}}"},
    {"{\"ansatz\": \"qaoa\", \"qubits\": [2, 0], \"cost\": \"0.5*Z0 Z2 - Z0 + 7\"}",
     H("2") "," H(
         "0") ","
              "{\"gate\": \"RZZ\", \"qubits\": [0, 2], \"angle\": {\"parameter\": \"gamma_0\"}},"
              "{\"gate\": \"RZ\", \"qubits\": [0], \"angle\": {\"parameter\": \"gamma_0\", "
              "\"scale\": -2}},"
              "{\"gate\": \"RX\", \"qubits\": [2], \"angle\": {\"parameter\": \"beta_0\", "
              "\"scale\": 2}},"
              "{\"gate\": \"RX\", \"qubits\": [0], \"angle\": {\"parameter\": \"beta_0\", "
              "\"scale\": 2}}"},
    /* a block has its own qubits and n, which is 2; its names follow the block's prefix */
    {"{\"ansatz\": \"tensor-network\", \"kind\": \"mps\", \"qubits\": [3, 0, 1], \"prefix\": "
     "\"t\", "
     "\"block\": [" REPEAT("\"n\"", "i", RY("\"i\"", W("{i}"))) ", " RY("1", "\"2*a\"") "]}",
     RY("3", W("tb0_0")) "," RY("0", W("tb0_1")) "," RY("0", "\"2*tb0_a\"") "," RY(
         "0", W("tb1_0")) "," RY("1", W("tb1_1")) "," RY("1", "\"2*tb1_a\"")},
    {REPEAT("1", "k",
            "{\"ansatz\": \"tensor-network\", \"kind\": \"mps\", \"qubits\": [1, 3], "
            "\"block\": [" H("\"n-1\"") "," RY("0", W("{k}")) "]}") "," REPEAT("1", "k",
                                                                               H("\"n-1\"")),
     H("3") "," RY("1", W("b0_0")) "," H("3")},
    /* blocks: order, names, one gate scaled, fractions; changes of basis are not controlled */
    {ADJOINT(H("0") "," CX("0", "1") "," RY("2", W("w")) "," FSIM("0.5", W("v"))),
     FSIM("-0.5", "{\"parameter\": \"v\", \"scale\": -1}") "," RY(
         "2", "{\"parameter\": \"w\", \"scale\": -1}") "," CX("0", "1") "," H("0")},
    {ADJOINT(REPEAT("2", "i", RY("\"i\"", "\"w{i} + x[0]\""))),
     RY("1", "\"-(w1 + x[0])\"") "," RY("0", "\"-(w0 + x[0])\"")},
    {ADJOINT(H("\"n-1\"")), H("3")},
    {POWER("3", RY("0", W("w"))), RY("0", "{\"parameter\": \"w\", \"scale\": 3}")},
    {POWER("-0.5", RY("0", W("w"))), RY("0", "{\"parameter\": \"w\", \"scale\": -0.5}")},
    {POWER("0.5", "{\"gate\": \"X\", \"qubits\": [1]}"), "{\"gate\": \"SX\", \"qubits\": [1]}"},
    {POWER("2", H("0") "," H("1")), H("0") "," H("1") "," H("0") "," H("1")},
    {H("1") "," POWER("\"n-4\"", H("0")), H("1")},
    {CONTROL("3, 2", "\"control_values\": [1, 0], ", CX("0", "1")),
     "{\"gate\": \"CX\", \"qubits\": [0, 1], \"controls\": [3, 2], \"control_values\": [1, 0]}"},
    {CONTROL("3", "", CONTROL("2", "", "{\"gate\": \"H\", \"qubits\": [0], \"controls\": [1]}")),
     "{\"gate\": \"H\", \"qubits\": [0], \"controls\": [1, 2, 3]}"},
    {CONTROL("3", "", "{\"gate\": \"RZX\", \"qubits\": [0, 1], \"angle\": 0.3}"),
     H("1") ", {\"gate\": \"RZZ\", \"qubits\": [0, 1], \"angle\": 0.3, \"controls\": [3]}," H("1")},
    {CONTROL("0", "", "{\"ansatz\": \"basic-entangler\", \"qubits\": [1]}") "," H("0"),
     "{\"gate\": \"RX\", \"qubits\": [1], \"angle\": " W("w0_0") ", \"controls\": [0]}," H("0")},
    /* a block of a network numbers its own qubits */
    {"{\"ansatz\": \"tensor-network\", \"kind\": \"mps\", \"qubits\": [3, 1], \"block\": [" CONTROL(
         "1", "", H("0")) "]}",
     "{\"gate\": \"H\", \"qubits\": [3], \"controls\": [1]}"},
    {"{\"ansatz\": \"amplitude\", \"qubits\": [2], \"state\": [1, 0]}",
     "{\"gate\": \"I\", \"qubits\": [2]}"},
};

static void by_hand(void) {
    for (size_t i = 0; i < COUNT(pairs); i++) {
        struct qr_circuit *c[2];
        for (int k = 0; k < 2; k++) {
            struct qr_buf b = {0};
            qr_buf_printf(&b, "{\"qubits\": 4, \"gates\": [%s]}",
                          k ? pairs[i].by_hand : pairs[i].short_form);
            c[k] = read_valid(qr_buf_string(&b));
            qr_buf_free(&b);
        }
        CHECK(same_circuit(c[0], c[1]), "%s", pairs[i].short_form);
        qr_circuit_free(c[0]);
        qr_circuit_free(c[1]);
    }
}

/* Parameters of many rounds are in natural order. */
static void order(void) {
    struct qr_circuit *c =
        read_valid("{\"qubits\": 1, \"gates\": [" REPEAT("12", "i", RY("0", W("w{11-i}"))) "]}");
    CHECK(c->n_params == 12 && strcmp(c->param_names[2], "w2") == 0 &&
          strcmp(c->param_names[11], "w11") == 0 && c->gates[0].args[0].index == 11);
    qr_circuit_free(c);
}

#define NEST(x) REPEAT("1024", "i", x)
#define IN(text) REPEAT("2", "i", H(text))
static const struct {
    const char *item, *says;
} rejected_rows[] = {
    {"{\"repeat\": -1, \"gates\": [" H("0") "]}", "gates[0].repeat is -1"},
    {"{\"repeat\": \"n\", \"index\": \"n\", \"gates\": [" H("0") "]}",
     "gates[0].index: 'n' is the number of qubits already"},
    {"{\"repeat\": \"2\", \"index\": \"2i\", \"gates\": [" H("0") "]}", "gates[0].index is '2i'"},
    {"{\"repeat\": 2, \"index\": 3, \"gates\": [" H("0") "]}", "gates[0].index must be a string"},
    {"{\"repeat\": 2.5, \"gates\": [" H("0") "]}", "gates[0].repeat is 2.5"},
    {"{\"repeat\": true, \"gates\": [" H("0") "]}", "gates[0].repeat must be an integer, not true"},
    {"{\"repeat\": 1048577, \"gates\": [" H("0") "]}", "gates[0].repeat is 1048577"},
    {"{\"repeat\": 2, \"gates\": []}", "gates[0].gates has no gates"},
    {"{\"repeat\": 2}", "gates[0].gates is missing"},
    {"{\"adjoint\": 1, \"gates\": [" H("0") "]}", "gates[0].adjoint must be"},
    {"{\"adjoint\": true}", "gates[0].gates is missing"},
    {"{\"adjoint\": true, \"gates\": [" H("4") "]}", "gates[0].gates[0].qubits[0] is 4"},
    {"{\"adjoint\": true, \"index\": \"i\", \"gates\": []}", "gates[0]: unknown key 'index'"},
    {"{\"measure\": null}", "circuit.gates[0].measure is null; give its value"},
    {"{\"adjiont\": true, \"gates\": []}", "unknown key 'adjiont'; did you mean 'adjoint'?"},
    {"{\"control\": [1], \"controls\": [1], \"gates\": []}", "gates[0]: unknown key 'controls'"},
    {"{\"control\": 1, \"gates\": [" H("0") "]}", "gates[0].control must be an array"},
    {CONTROL("1, 2", "\"control_values\": [1], ", H("0")),
     "gates[0] has 2 controls, but 1 control_values"},
    {CONTROL("1", "\"control_values\": [2], ", H("0")), "gates[0].control_values[0] is 2"},
    {CONTROL("1", "", H("1")), "gates[0].gates[0]: qubit 1 is a target and a control"},
    {CONTROL("1", "", CONTROL("1", "", H("0"))),
     "gates[0].gates[0].control: qubit 1 is a control of an enclosing item already; remove it"},
    {CONTROL("1", "", "{\"gate\": \"H\", \"qubits\": [0], \"controls\": [1]}"),
     "gates[0].gates[0].controls: qubit 1 is a control of an enclosing item already"},
    {CONTROL("1", "", "{\"ansatz\": \"angle\"}"),
     "gates[0].gates[0]: qubit 1 of the ansatz is a control of an enclosing item; give other "
     "\"qubits\""},
    {"{\"power\": true, \"gates\": [" H("0") "]}", "gates[0].power must be a number"},
    {POWER("\"n/2\"", H("0")), "gates[0].power: \"n/2\""},
    {POWER("1e9", H("0")), "gates[0].power is 1000000000"},
    {POWER("0.5", H("0") "," H("1")), "gates[0].power: a fractional power of 2 gates is not known"},
    {POWER("0.5", FSIM("0.5", "1")), "gates[0].power: a fractional power of FSIM is not known"},
    {POWER("0", "") "," H("0"), "gates[0].gates has no gates"},
    {POWER("1048576", H("0") "," H("1")), "here the circuit exceeds 1048576 gates; use a smaller"},
    {POWER("1000", POWER("1000", POWER("1000", H("0") "," H("1")))),
     "gates[0].gates[0].power: here the circuit exceeds 1048576 gates"},
    {"{\"repeat\": 2, \"gate\": \"X\", \"qubits\": [0]}",
     "gates[0] has both \"gate\" and \"repeat\"; give one (items inside another go into its "
     "\"gates\")"},
    {"{\"repeat\": 2, \"ansatz\": \"angle\"}", "gates[0] has both \"repeat\" and \"ansatz\""},
    {"{\"gate\": \"X\", \"ansatz\": \"angle\"}",
     "gates[0] has both \"gate\" and \"ansatz\"; give one"},
    {"{\"repeat\": 2, \"indx\": \"i\", \"gates\": [" H("0") "]}", "did you mean 'index'?"},
    {"{\"repet\": 2, \"gates\": [" H("0") "]}",
     "gates[0]: unknown key 'repet'; did you mean 'repeat'?"},
    {"{\"gates\": [" H("0") "]}", "gates[0] has \"gates\" but no \"repeat\""},
    {"{\"ansats\": \"angle\"}", "gates[0]: unknown key 'ansats'; did you mean 'ansatz'?"},
    {REPEAT("2", "i", REPEAT("2", "i", H("0"))),
     "gates[0].gates[0].index: 'i' is the index of an enclosing repeat already; choose another "
     "name (i = 0)"},
    {REPEAT("0", "i", H("0")), "circuit.gates has no gates: all its repeats have 0 repetitions"},
    {H("\"0\""), "gates[0].qubits[0] must be an integer"},
    /* integer expressions */
    {REPEAT("5", "i", H("\"i\"")),
     "gates[0].gates[0].qubits[0]: \"i\" is 4; it must be between 0 and 3 (i = 4)"},
    {REPEAT("2", "i", REPEAT("2", "j", CX("\"i\"", "\"j\""))),
     "gates[0].gates[0].gates[0].qubits: qubit 0 is given twice (j = 0) (i = 0)"},
    {IN("\"i+\""), "qubits[0]: \"i+\", character 3: expected a number, a name or '(', found"},
    {IN("\"\""), "character 1: expected a number, a name or '('"},
    {IN("\"k\""), "character 1: unknown name 'k'; there are 'n' and 'i'"},
    {IN("\"i i\""), "character 3: expected one of + - * % or the end"},
    {IN("\"(i\""), "character 3: expected ')'"},
    {IN("\"i)\""), "character 2: expected one of + - * % or the end"},
    {IN("\"i/2\""), "character 2: expected one of + - * % or the end"},
    {IN("\"1 % i\""), "character 6: the number after % is 0 (i = 0)"},
    {IN("\"99999999999999999999\""), "the number is above 2^53"},
    {IN("\"9007199254740992 * 9007199254740992\""), "exceeds 2^53"},
    {IN("\"9007199254740992 + 1\""), "exceeds 2^53"},
    {IN("\"((((((((((((((((((i))))))))))))))))))\""), "nested more than 16 levels deep"},
    {IN("\"00000000000000000000000000000000000000000000000000000000000000000\""),
     "at most 64 bytes, not 65"},
    {"{\"repeat\": 2, \"gates\": [" H("\"i\"") "]}", "unknown name 'i'; there is 'n'"},
    {REPEAT("2", "i", RY("0", W("w{i"))), "parameter: '{' without '}' after it"},
    {REPEAT("2", "i", RY("0", W("w{}"))), "expected a number, a name or '(', found the end"},
    {REPEAT("2", "i",
            RY("0", W("{i}0123456789012345678901234567890123456789012345678901234567890123"))),
     "longer than 64 bytes after its braces are filled in"},
    {REPEAT("2", "i", RY("0", "\"w*i\"")), "'i' is an index here; an expression writes it as {i}"},
    {REPEAT("2", "i", RY("0", "\"w{i}*\"")), "gates[0].gates[0].angle"},
    {"{\"ansatz\": \"basic-entangler\", \"prefix\": "
     "\"01234567890123456789012345678901234567890123456789012345678901\"}",
     "a parameter's name has 1 to 64 bytes, not 66"},
    {REPEAT("2", "i",
            "{\"gate\": \"X\", \"qubits\": [0], \"controls\": [1], \"control_values\": [\"2\"]}"),
     "control_values[0]: \"2\" is 2; it must be between 0 and 1"},
    /* texts that would take long */
    {NEST(REPEAT("1024", "j", REPEAT("2", "k", H("0")))), "here the circuit exceeds 1048576 gates"},
    {NEST(REPEAT("1024", "j", REPEAT("1024", "k", "{\"repeat\": 0, \"gates\": [" H("0") "]}"))),
     "read more than 4194304 numbers and names"},
    {NEST(REPEAT("1024", "j",
                 REPEAT("1024", "k", "{\"repeat\": \"n-n\", \"gates\": [" H("0") "]}"))),
     "repeat less often"},
    {NEST(REPEAT("1000", "j",
                 "{\"ansatz\": \"qaoa\", \"qubits\": [0], \"layers\": 1000, \"cost\": "
                 "\"Z0\"}")),
     "here the circuit exceeds 1048576 gates"},
    {NEST(REPEAT("1024", "j",
                 "{\"gate\": \"X\", \"qubits\": [0], \"controls\": [\"1\", \"2\", "
                 "\"3\"], \"exponent\": " W("{i}{j}{i}{j}{i}{j}{i}{j}") "}")),
     "read more than"},
    {NEST(POWER("0", POWER("2", H("0")))), "has no gates: all its repeats have 0 repetitions"},
    {NEST(REPEAT("1024", "j", REPEAT("1024", "k", POWER("0", H("0"))))), "repeat less often"},
    {ADJOINT(ADJOINT(ADJOINT(ADJOINT(ADJOINT(ADJOINT(ADJOINT(ADJOINT(ADJOINT(H("0")))))))))),
     "repeats and blocks are nested more than 8 deep"},
    {REPEAT("1", "a",
            REPEAT("1", "b",
                   REPEAT("1", "c",
                          REPEAT("1", "d",
                                 REPEAT("1", "e",
                                        REPEAT("1", "f",
                                               REPEAT("1", "g",
                                                      REPEAT("1", "h",
                                                             REPEAT("1", "i", H("0")))))))))),
     "nested more than 8 deep"},
};

static void rejected(void) {
    for (size_t i = 0; i < COUNT(rejected_rows); i++) {
        struct qr_circuit *c;
        struct qr_err err;
        struct qr_buf b = {0};
        int64_t begin = qr_now_ns(&qr_clock_monotonic);
        qr_buf_printf(&b, "{\"qubits\": 4, \"gates\": [%s]}", rejected_rows[i].item);
        CHECK(read_text(qr_buf_string(&b), &c, &err) == QR_INVALID_ARGUMENT && !c, "accepted: %s",
              rejected_rows[i].item);
        CHECK(strstr(err.msg, rejected_rows[i].says), "%s\n    says: %s", rejected_rows[i].item,
              err.msg);
        double seconds = 1e-9 * (double)(qr_now_ns(&qr_clock_monotonic) - begin);
        CHECK(seconds < 300, "%s took %.1f s", rejected_rows[i].item, seconds);
        if (seconds > 1) printf("%.1f s: %s\n", seconds, rejected_rows[i].says);
        qr_buf_free(&b);
    }
}

int main(void) {
    by_hand();
    order();
    rejected();
    return t_end();
}
