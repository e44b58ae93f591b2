/* circuit/ansatz/layers.c — layers of rotations and entanglers: PennyLane's
 * StronglyEntanglingLayers, BasicEntanglerLayers and SimplifiedTwoDesign; Qiskit's RealAmplitudes,
 * EfficientSU2 and TwoLocal. Start reading at qr_ansatz_strongly_entangling(). */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"

static const char *const rotations[] = {"RX", "RY", "RZ"};
static const char *const entanglers[] = {"CNOT", "CZ",    "CY",     "CH",
                                         "SWAP", "ISWAP", "SISWAP", "ECR"};
enum { N_ROTATIONS = 3, N_ENTANGLERS = 8, MAX_ROTATIONS = 8 };

static const char *layers_entangler(struct qr_ansatz_builder *b) {
    return entanglers[qr_ansatz_choice(b, "entangler", entanglers, N_ENTANGLERS, 0)];
}

/* ---- strongly-entangling ---- */

/* Distance between the two qubits of a layer's entanglers. */
static unsigned layers_range(struct qr_ansatz_builder *b, const struct qr_json *given,
                             unsigned layer) {
    if (!given) return layer % (b->n - 1) + 1;
    int64_t range = 1;
    char key[32];
    snprintf(key, sizeof key, "ranges[%u]", layer);
    if (!b->code)
        b->code =
            qr_json_i64(given, qr_ansatz_path(b, key).s, 1, (int64_t)b->n - 1, &range, b->use->err);
    return (unsigned)range;
}

enum qr_code qr_ansatz_strongly_entangling(const struct qr_ansatz_use *use) {
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    unsigned layers = qr_ansatz_layers(&b, 1);
    const char *gate = layers_entangler(&b);
    const struct qr_json *ranges = qr_json_get(use->options, "ranges");
    if (ranges && !b.code)
        b.code = qr_json_want(ranges, qr_ansatz_path(&b, "ranges").s, QR_JSON_ARRAY, use->err);
    if (ranges && !b.code && qr_json_size(ranges) != layers)
        qr_ansatz_fail(&b, "ranges", "%zu numbers for %u layers; give one per layer",
                       qr_json_size(ranges), layers);
    const struct qr_json *range = b.code ? NULL : qr_json_first(ranges);
    for (unsigned l = 0; l < layers && !b.code; l++, range = range ? qr_json_next(range) : NULL) {
        for (uint16_t q = 0; q < b.n; q++) {
            struct qr_ansatz_angle a[3];
            for (unsigned k = 0; k < 3; k++) a[k] = qr_ansatz_weight(1, "w%u_%u_%u", l, q, k);
            qr_ansatz_emit(&b, &(struct qr_ansatz_gate){"Rot", &q, 1, 3, a, NULL});
        }
        if (b.n < 2) continue;
        unsigned r = layers_range(&b, range, l);
        for (unsigned q = 0; q < b.n; q++) qr_ansatz_emit_two(&b, gate, q, (q + r) % b.n);
    }
    return b.code;
}

/* ---- basic-entangler ---- */

enum qr_code qr_ansatz_basic_entangler(const struct qr_ansatz_use *use) {
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    unsigned layers = qr_ansatz_layers(&b, 1);
    const char *rotation = rotations[qr_ansatz_choice(&b, "rotation", rotations, N_ROTATIONS, 0)];
    for (unsigned l = 0; l < layers && !b.code; l++) {
        for (unsigned q = 0; q < b.n; q++) {
            struct qr_ansatz_angle a = qr_ansatz_weight(1, "w%u_%u", l, q);
            qr_ansatz_emit_one(&b, rotation, q, &a);
        }
        for (unsigned q = 0; q + 1 < b.n; q++) qr_ansatz_emit_two(&b, "CNOT", q, q + 1);
        if (b.n > 2) qr_ansatz_emit_two(&b, "CNOT", b.n - 1, 0);
    }
    return b.code;
}

/* ---- simplified-two-design ---- */

enum qr_code qr_ansatz_simplified_two_design(const struct qr_ansatz_use *use) {
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    unsigned layers = qr_ansatz_layers(&b, 1);
    for (unsigned q = 0; q < b.n; q++) {
        struct qr_ansatz_angle a = qr_ansatz_weight(1, "initial%u", q);
        qr_ansatz_emit_one(&b, "RY", q, &a);
    }
    for (unsigned l = 0; l < layers && b.n > 1 && !b.code; l++)
        for (unsigned i = 0; i + 1 < b.n; i++) {
            unsigned p = i < b.n / 2 ? 2 * i : 2 * (i - b.n / 2) + 1;
            qr_ansatz_emit_two(&b, "CZ", p, p + 1);
            for (unsigned k = 0; k < 2; k++) {
                struct qr_ansatz_angle a = qr_ansatz_weight(1, "w%u_%u_%u", l, i, k);
                qr_ansatz_emit_one(&b, "RY", p + k, &a);
            }
        }
    return b.code;
}

/* ---- hardware-efficient ---- */

/* The rotations of a layer; RY and RZ when none are given. */
static unsigned read_rotations(struct qr_ansatz_builder *b, unsigned ret[MAX_ROTATIONS]) {
    const struct qr_json *list = qr_json_get(b->use->options, "rotations");
    unsigned n = 0;
    ret[0] = 1, ret[1] = 2;
    if (!list || b->code) return 2;
    b->code = qr_json_want(list, qr_ansatz_path(b, "rotations").s, QR_JSON_ARRAY, b->use->err);
    if (b->code) return 0;
    if (qr_json_size(list) < 1 || qr_json_size(list) > MAX_ROTATIONS)
        qr_ansatz_fail(b, "rotations", "%zu names; give 1 to %d of RX, RY and RZ",
                       qr_json_size(list), MAX_ROTATIONS);
    for (const struct qr_json *v = qr_json_first(list); v && !b->code; v = qr_json_next(v)) {
        char key[32];
        size_t which = 0;
        snprintf(key, sizeof key, "rotations[%u]", n);
        b->code = qr_json_choice(v, qr_ansatz_path(b, key).s, rotations, N_ROTATIONS, &which,
                                 b->use->err);
        ret[n++] = (unsigned)which;
    }
    return n;
}

enum qr_code qr_ansatz_hardware_efficient(const struct qr_ansatz_use *use) {
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    unsigned layers = qr_ansatz_layers(&b, 3), turns[MAX_ROTATIONS];
    unsigned n_turns = read_rotations(&b, turns), weights = 0;
    enum qr_ansatz_pattern pattern = qr_ansatz_entanglement(&b, QR_ANSATZ_REVERSE_LINEAR);
    const char *gate = layers_entangler(&b);
    bool final = qr_ansatz_flag(&b, "final_rotations", true);
    for (unsigned l = 0; l < layers + final && !b.code; l++) {
        for (unsigned k = 0; k < n_turns; k++)
            for (unsigned q = 0; q < b.n; q++) {
                struct qr_ansatz_angle a = qr_ansatz_weight(1, "theta%u", weights++);
                qr_ansatz_emit_one(&b, rotations[turns[k]], q, &a);
            }
        if (l == layers) break;
        size_t n_pairs;
        struct qr_ansatz_pair *pairs = qr_ansatz_pairs(pattern, b.n, l, &n_pairs);
        for (size_t i = 0; i < n_pairs && !b.code; i++)
            qr_ansatz_emit_two(&b, gate, pairs[i].p, pairs[i].q);
        free(pairs);
    }
    return b.code;
}
