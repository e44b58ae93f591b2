/* tests/ref/words.c — writes the JSON of random circuits. Start reading at ref_random_words. */
#include "tests/ref/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "circuit/circuit_json.h"
#include "circuit/composite_gates.h"
#include "tests/ref/dense.h"

struct writer {
    uint64_t seed;
    unsigned n_qubits, n_columns;
    bool in_repeat;
    struct qr_buf text;
    struct ref_drawn *drawn;
};

static double uniform(struct writer *w, double low, double high) {
    double u;
    ref_random_numbers(w->seed++, 1, low, high, &u);
    return u;
}
static unsigned below(struct writer *w, unsigned n) { return (unsigned)uniform(w, 0, n); }

unsigned ref_n_gates(void) {
    unsigned n = 0;
    while (qr_composite_gate_at(n)) n++;
    return QR_GATE_KINDS + n;
}
const char *ref_gate_name(unsigned i) {
    return i < QR_GATE_KINDS ? qr_gate_info((enum qr_gate_kind)i)->name
                             : qr_composite_gate_at(i - QR_GATE_KINDS)->names[0];
}

/* ---- arguments ---- */

/* W: a parameter, X: an input. Every function, within its domain and moderate for all arguments. */
static const char *const expressions[] = {
    "W*X + W",
    "2*asin(0.9*sin(W + X))",
    "-acos(0.8*cos(X + 1))/2",
    "exp(0.3*sin(W*X)) - abs(W + 9)",
    "atan(W*X + X)*log(2 + sin(W))",
    "pow(1.5 + sin(W), cos(X))",
    "tan(0.5*sin(W - X))",
    "sqrt(2 + cos(X))/3 + W*pi",
    "atan2(X, 2 + cos(W))",
    "hypot(2 + sin(W), X)",
    "W/(2 + sin(W))",
    "X - X/(2 + cos(X))",
};

/* In a repeat, a third of the names contain the round. */
static void put_name(struct writer *w) {
    const char *round = w->in_repeat && !below(w, 3) ? "{i}_" : "";
    qr_buf_printf(&w->text, "p%s%u", round, below(w, 6));
}

static void put_expression(struct writer *w) {
    const char *s = expressions[below(w, sizeof expressions / sizeof *expressions)];
    w->drawn->expressions++;
    qr_buf_puts(&w->text, "\"");
    for (; *s; s++)
        if (*s == 'W') put_name(w);
        else if (*s == 'X') qr_buf_printf(&w->text, "x[%u]", below(w, w->n_columns));
        else qr_buf_put(&w->text, s, 1);
    qr_buf_puts(&w->text, "\"");
}

static void put_argument(struct writer *w) {
    static const double scales[] = {1, -1, 0.5, -0.25};
    unsigned what = below(w, 6);
    double scale = scales[below(w, 4)];
    if (what == 0) {
        qr_buf_printf(&w->text, "%.3f", uniform(w, -2, 2));
    } else if (what == 1) {
        qr_buf_printf(&w->text, "{\"data\": %u, \"scale\": %g}", below(w, w->n_columns), scale);
    } else if (what < 4) {
        qr_buf_puts(&w->text, "{\"parameter\": \"");
        put_name(w);
        qr_buf_printf(&w->text, "\", \"scale\": %g}", scale);
    } else {
        put_expression(w);
    }
}

/* ---- gates ---- */

/* A random permutation of all qubits. */
static void draw_qubits(struct writer *w, unsigned *q) {
    for (unsigned i = 0; i < w->n_qubits; i++) q[i] = i;
    for (unsigned i = w->n_qubits; i-- > 1;) {
        unsigned k = below(w, i + 1), other = q[i];
        q[i] = q[k];
        q[k] = other;
    }
}

static void put_list(struct writer *w, const char *key, const unsigned *q, unsigned n) {
    qr_buf_printf(&w->text, ", \"%s\": [", key);
    for (unsigned i = 0; i < n; i++) qr_buf_printf(&w->text, "%s%u", i ? ", " : "", q[i]);
    qr_buf_puts(&w->text, "]");
}

/* On more than two qubits: a cyclic shift of the basis states, one of them with a phase. */
static void put_matrix(struct writer *w, unsigned n) {
    unsigned size = 1u << n;
    qr_buf_puts(&w->text, ", \"matrix\": [");
    if (n == 1) qr_buf_puts(&w->text, "[0.6, [0, 0.8]], [[0, 0.8], 0.6]");
    if (n == 2)
        qr_buf_puts(&w->text, "[0, 0, 1, 0], [0.6, 0, 0, [0, 0.8]], [0, 1, 0, 0], [[0, 0.8], 0, 0, "
                              "0.6]");
    for (unsigned row = 0; n > 2 && row < size; row++)
        for (unsigned column = 0; column < size; column++)
            qr_buf_printf(&w->text, "%s%s%s",
                          column ? ", "
                          : row  ? ", ["
                                 : "[",
                          column != (row + 1) % size ? "0"
                          : row                      ? "1"
                                                     : "[0.6, 0.8]",
                          column + 1 == size ? "]" : "");
    qr_buf_puts(&w->text, "]");
}

static void put_special(struct writer *w, enum qr_composite_takes takes, unsigned n) {
    if (takes == QR_COMPOSITE_MATRIX) put_matrix(w, n);
    if (takes == QR_COMPOSITE_PAULIS) {
        qr_buf_puts(&w->text, ", \"pauli_word\": \"");
        for (unsigned i = 0; i < n; i++)
            qr_buf_printf(&w->text, "%c", i ? "IXYZ"[below(w, 4)] : "XYZ"[below(w, 3)]);
        qr_buf_puts(&w->text, "\"");
    }
    if (takes != QR_COMPOSITE_STATE) return;
    if (n <= w->n_columns && below(w, 2)) {
        qr_buf_printf(&w->text, ", \"state\": {\"data\": %u}", below(w, w->n_columns - n + 1));
        return;
    }
    qr_buf_puts(&w->text, ", \"state\": \"");
    for (unsigned i = 0; i < n; i++) qr_buf_puts(&w->text, below(w, 2) ? "1" : "0");
    qr_buf_puts(&w->text, "\"");
}

/* The least and the largest number of qubits of gate i. */
static unsigned most_qubits(unsigned i, unsigned *ret_least) {
    if (i < QR_GATE_KINDS) return *ret_least = qr_gate_info((enum qr_gate_kind)i)->n_targets;
    const struct qr_composite_gate *word = qr_composite_gate_at(i - QR_GATE_KINDS);
    *ret_least = word->least;
    return word->most ? word->most : REF_WORDS_QUBITS;
}

static void put_gate(struct writer *w) {
    unsigned q[REF_WORDS_QUBITS], i, least, most;
    do {
        i = below(w, ref_n_gates());
        most = most_qubits(i, &least);
    } while (least > w->n_qubits);
    most = most < w->n_qubits ? most : w->n_qubits;
    unsigned n = least + below(w, most - least + 1), left = w->n_qubits - n;
    w->drawn->gates[i]++;
    draw_qubits(w, q);
    qr_buf_printf(&w->text, "{\"gate\": \"%s\"", ref_gate_name(i));
    put_list(w, "qubits", q, n);
    if (left && !below(w, 5)) put_list(w, "controls", q + n, 1 + below(w, left));
    if (i >= QR_GATE_KINDS) {
        const struct qr_composite_gate *word = qr_composite_gate_at(i - QR_GATE_KINDS);
        for (unsigned k = 0; k < QR_COMPOSITE_ARGS && word->args[k]; k++) {
            qr_buf_printf(&w->text, ", \"%s\": ", word->args[k]);
            put_argument(w);
        }
        put_special(w, word->takes, n);
    } else {
        const struct qr_gate_info *info = qr_gate_info((enum qr_gate_kind)i);
        for (unsigned k = 0; k < info->n_args; k++) {
            qr_buf_printf(&w->text, ", \"%s\": ", info->arg_names[k]);
            put_argument(w);
        }
        if (info->has_exponent && !below(w, 3)) qr_buf_puts(&w->text, ", \"global_shift\": -0.5");
    }
    qr_buf_puts(&w->text, "}");
}

/* ---- circuits ---- */

/* On up to three qubits, from as many inputs as fit; at least one amplitude is padding, so that the
 * norm is not 0 for any inputs. */
static void put_amplitudes(struct writer *w) {
    unsigned q[REF_WORDS_QUBITS], n = w->n_qubits < 3 ? w->n_qubits : 3, dim = 1u << n, columns[8];
    unsigned most = w->n_columns < dim ? w->n_columns : dim - 1, first = below(w, w->n_columns);
    for (unsigned i = 0; i < most; i++) columns[i] = (first + i) % w->n_columns;
    draw_qubits(w, q);
    qr_buf_puts(&w->text, "{\"ansatz\": \"amplitude\", \"pad_with\": 0.5");
    put_list(w, "qubits", q, n);
    put_list(w, "data", columns, most);
    qr_buf_puts(&w->text, "}, ");
    w->drawn->amplitudes++;
}

static void put_rounds(struct writer *w, unsigned n_gates) {
    static const char *const rotations[] = {"RX", "RY", "RZ"};
    unsigned columns[REF_WORDS_QUBITS];
    for (unsigned i = 0; i < w->n_qubits; i++) columns[i] = below(w, w->n_columns);
    qr_buf_puts(&w->text, "{\"repeat\": 2, \"index\": \"i\", \"gates\": [{\"ansatz\": \"angle\"");
    qr_buf_printf(&w->text, ", \"rotation\": \"%s\"", rotations[below(w, 3)]);
    put_list(w, "data", columns, w->n_qubits);
    qr_buf_puts(&w->text, "}");
    w->in_repeat = true;
    for (unsigned i = 0; i < n_gates; i++) {
        qr_buf_puts(&w->text, ", ");
        put_gate(w);
    }
    w->in_repeat = false;
    qr_buf_puts(&w->text, "]}, ");
    w->drawn->rounds++;
}

struct qr_circuit *ref_random_words(uint64_t seed, unsigned n_qubits, unsigned n_columns,
                                    unsigned n_gates, struct ref_drawn *drawn) {
    struct writer w = {seed << 16, n_qubits, n_columns, false, {0}, drawn};
    struct qr_json *root = NULL;
    struct qr_circuit *c = NULL;
    struct qr_qubits readouts;
    struct qr_err err = {0};
    unsigned in_rounds = below(&w, n_gates);
    qr_buf_printf(&w.text, "{\"qubits\": %u, \"columns\": %u, \"gates\": [", n_qubits, n_columns);
    if (!below(&w, 3)) put_amplitudes(&w);
    if (below(&w, 3)) put_rounds(&w, in_rounds);
    for (unsigned i = in_rounds; i <= n_gates; i++) {
        put_gate(&w);
        qr_buf_puts(&w.text, i < n_gates ? ", " : "]}");
    }
    const char *text = qr_buf_string(&w.text);
    if (qr_json_parse(qr_bytes_of_string(text), "text", &root, &err) ||
        qr_circuit_from_json(root, "circuit", &c, &readouts, &err)) {
        fprintf(stderr, "words: %s: %s\n", text, err.msg);
        abort();
    }
    qr_json_free(root);
    qr_buf_free(&w.text);
    return c;
}
