/* circuit/ansatz/problems.c — ansätze of a problem: QAOA of a cost in Z; PennyLane's UCCSD and
 * AllSinglesDoubles of excitations from a Hartree-Fock state. Start reading at qr_ansatz_qaoa() and
 * build_excitations(). */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"

/* ---- qaoa: e^(-i beta sum X) e^(-i gamma C), from the uniform superposition ---- */

static void qaoa_add_cost(struct qr_ansatz_builder *b, const struct qr_ansatz_terms *cost,
                          unsigned layer) {
    for (size_t t = 0; t < cost->n && !b->code; t++) {
        size_t first = cost->terms[t].first;
        unsigned n = (unsigned)(cost->terms[t + 1].first - first);
        struct qr_ansatz_angle a =
            qr_ansatz_weight(2 * cost->terms[t].coefficient, "gamma_%u", layer);
        if (!n) {
            a.factor *= -0.5;
            qr_ansatz_emit_phase(b, &a);
            continue;
        }
        qr_ansatz_emit(
            b, &(struct qr_ansatz_gate){"MultiRZ", cost->positions + first, n, 1, &a, NULL});
    }
}

enum qr_code qr_ansatz_qaoa(const struct qr_ansatz_use *use) {
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    struct qr_ansatz_terms cost = {0};
    unsigned layers = qr_ansatz_layers(&b, 1);
    if (!b.code)
        b.code = use->host->read_terms(use->at, qr_json_get(use->options, "cost"),
                                       qr_ansatz_path(&b, "cost").s, &cost);
    for (unsigned q = 0; q < b.n; q++) qr_ansatz_emit_one(&b, "H", q, NULL);
    for (unsigned l = 0; l < layers && !b.code; l++) {
        qaoa_add_cost(&b, &cost, l);
        struct qr_ansatz_angle a = qr_ansatz_weight(2, "beta_%u", l);
        for (unsigned q = 0; q < b.n; q++) qr_ansatz_emit_one(&b, "RX", q, &a);
    }
    qr_ansatz_terms_fini(&cost);
    return b.code;
}

/* ---- excitations ---- */

struct excitations {
    struct qr_ansatz_builder b;
    bool fermionic; /* with Jordan-Wigner signs: products of Z between the qubits */
    unsigned electrons;
    const struct qr_json *singles, *doubles; /* both NULL: all that preserve the spin */
    unsigned layer, n_layers, weight;
};

static struct qr_ansatz_angle next_weight(struct excitations *e, double factor) {
    return e->fermionic ? qr_ansatz_weight(factor, "w%u_%u", e->layer, e->weight)
                        : qr_ansatz_weight(factor, "w%u", e->weight);
}

/* A rotation about these letters on the ends of one or two runs of qubits, with Z between them. */
static void add_string(struct excitations *e, const uint16_t *ends, unsigned n, const char *letters,
                       double factor) {
    unsigned length = 0, k = 0;
    for (unsigned i = 0; i < n; i += 2) length += ends[i + 1] - ends[i] + 1u;
    uint16_t *positions = qr_xcalloc(length, sizeof *positions);
    char *paulis = qr_xcalloc(length + 1, 1);
    for (unsigned i = 0; i < n; i += 2)
        for (unsigned q = ends[i]; q <= ends[i + 1]; q++, k++) {
            positions[k] = (uint16_t)q;
            paulis[k] = q == ends[i] ? letters[i] : q == ends[i + 1] ? letters[i + 1] : 'Z';
        }
    struct qr_ansatz_angle a = next_weight(e, factor);
    qr_ansatz_emit(&e->b, &(struct qr_ansatz_gate){"PauliRot", positions, length, 1, &a, paulis});
    free(positions);
    free(paulis);
}

static void add_excitation(struct excitations *e, const uint16_t *at, unsigned n) {
    static const char *const of_single[] = {"YX", "XY"};
    static const char *const of_double[] = {"XXYX", "YXYY", "XYYY", "XXXY",
                                            "YXXX", "XYXX", "YYYX", "YYXY"};
    if (!e->fermionic) {
        struct qr_ansatz_angle a = next_weight(e, 1);
        const char *gate = n == 2 ? "SingleExcitation" : "DoubleExcitation";
        qr_ansatz_emit(&e->b, &(struct qr_ansatz_gate){gate, at, n, 1, &a, NULL});
    }
    unsigned n_strings = e->fermionic ? n == 2 ? 2 : 8 : 0;
    for (unsigned k = 0; k < n_strings && !e->b.code; k++) {
        double sign = k < n_strings / 2 ? -1 : 1;
        add_string(e, at, n, n == 2 ? of_single[k] : of_double[k], sign / n_strings);
    }
    e->weight++;
}

/* Reads an excitation of a list: n qubits, by their numbers in the circuit. */
static void read_excitation(struct excitations *e, const struct qr_json *v, const char *key,
                            size_t i, unsigned n, uint16_t *ret) {
    struct qr_ansatz_builder *b = &e->b;
    char item[48];
    snprintf(item, sizeof item, "%s[%zu]", key, i);
    if (!b->code) b->code = qr_json_want(v, qr_ansatz_path(b, item).s, QR_JSON_ARRAY, b->use->err);
    if (!b->code && qr_json_size(v) != n)
        qr_ansatz_fail(b, item, "%zu qubits; %s", qr_json_size(v),
                       n == 2 ? "a single excitation has 2: from, to"
                              : "a double excitation has 4: from two, to two");
    unsigned k = 0;
    for (const struct qr_json *q = b->code ? NULL : qr_json_first(v); q && !b->code;
         q = qr_json_next(q), k++) {
        int64_t qubit = 0;
        snprintf(item, sizeof item, "%s[%zu][%u]", key, i, k);
        b->code = qr_json_i64(q, qr_ansatz_path(b, item).s, 0, INT16_MAX, &qubit, b->use->err);
        unsigned place = 0;
        while (place < b->n && b->use->qubits[place] != qubit) place++;
        if (place == b->n)
            qr_ansatz_fail(b, item, "qubit %d is not a qubit of the ansatz", (int)qubit);
        ret[k] = (uint16_t)place;
        for (unsigned j = 0; j < k; j++)
            if (e->fermionic ? ret[j] >= ret[k] : ret[j] == ret[k])
                qr_ansatz_fail(b, item,
                               e->fermionic ? "the qubits of an excitation ascend"
                                            : "a qubit is given twice");
    }
}

static void add_listed(struct excitations *e, const struct qr_json *list, const char *key,
                       unsigned n) {
    size_t i = 0;
    for (const struct qr_json *v = qr_json_first(list); v && !e->b.code; v = qr_json_next(v), i++) {
        uint16_t at[4];
        read_excitation(e, v, key, i, n, at);
        if (!e->b.code) add_excitation(e, at, n);
    }
}

/* Even positions are spin up, odd ones spin down. */
static bool keeps_spin(unsigned from_a, unsigned from_b, unsigned to_a, unsigned to_b) {
    return from_a % 2 + from_b % 2 == to_a % 2 + to_b % 2;
}

static void add_all_doubles(struct excitations *e) {
    unsigned n = e->b.n, m = e->electrons;
    for (unsigned s = 0; s < m && !e->b.code; s++)
        for (unsigned r = s + 1; r < m && !e->b.code; r++)
            for (unsigned q = m; q < n && !e->b.code; q++)
                for (unsigned p = q + 1; p < n && !e->b.code; p++)
                    if (keeps_spin(s, r, q, p))
                        add_excitation(
                            e, (uint16_t[]){(uint16_t)s, (uint16_t)r, (uint16_t)q, (uint16_t)p}, 4);
}

static void add_all_singles(struct excitations *e) {
    for (unsigned r = 0; r < e->electrons && !e->b.code; r++)
        for (unsigned p = e->electrons; p < e->b.n && !e->b.code; p++)
            if (r % 2 == p % 2) add_excitation(e, (uint16_t[]){(uint16_t)r, (uint16_t)p}, 2);
}

static unsigned count_singles(const struct excitations *e) {
    if (e->singles || e->doubles) return e->singles ? (unsigned)qr_json_size(e->singles) : 0;
    unsigned even = (e->electrons + 1) / 2, odd = e->electrons / 2;
    return even * ((e->b.n + 1) / 2 - even) + odd * (e->b.n / 2 - odd);
}

static const struct qr_json *read_excitation_list(struct qr_ansatz_builder *b, const char *key) {
    const struct qr_json *list = qr_json_get(b->use->options, key);
    if (list && !b->code)
        b->code = qr_json_want(list, qr_ansatz_path(b, key).s, QR_JSON_ARRAY, b->use->err);
    return list;
}

static enum qr_code build_excitations(const struct qr_ansatz_use *use, bool fermionic) {
    struct excitations e = {.b = {use, use->n, QR_OK, 0}, .fermionic = fermionic, .n_layers = 1};
    struct qr_ansatz_builder *b = &e.b;
    if (!qr_json_get(use->options, "electrons"))
        qr_ansatz_fail(b, "electrons",
                       "is missing; give the number of first qubits that begin in 1");
    e.electrons = qr_ansatz_integer(b, "electrons", 0, b->n, 0);
    if (fermionic) e.n_layers = qr_ansatz_layers(b, 1);
    e.singles = read_excitation_list(b, "singles");
    e.doubles = read_excitation_list(b, "doubles");
    unsigned n_singles = count_singles(&e);
    bool all = !e.singles && !e.doubles;
    if (all ? !n_singles : !n_singles && !qr_json_size(e.doubles))
        qr_ansatz_fail(b, NULL, "there is no excitation%s",
                       all ? " of these electrons that keeps the spin; give \"singles\" or "
                             "\"doubles\""
                           : "; leave \"singles\" and \"doubles\" out for all");
    for (unsigned q = 0; q < e.electrons; q++) qr_ansatz_emit_one(b, "X", q, NULL);
    for (; e.layer < e.n_layers && !b->code; e.layer++) {
        e.weight = n_singles; /* weights of singles come first, gates of doubles come first */
        if (all) add_all_doubles(&e);
        else add_listed(&e, e.doubles, "doubles", 4);
        e.weight = 0;
        if (all) add_all_singles(&e);
        else add_listed(&e, e.singles, "singles", 2);
    }
    return b->code;
}

enum qr_code qr_ansatz_uccsd(const struct qr_ansatz_use *use) {
    return build_excitations(use, true);
}
enum qr_code qr_ansatz_singles_doubles(const struct qr_ansatz_use *use) {
    return build_excitations(use, false);
}
