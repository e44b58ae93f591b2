/* circuit/ansatz/encoders.c — inputs as angles: PennyLane's AngleEmbedding and IQPEmbedding,
 * Qiskit's ZZFeatureMap. Start reading at qr_ansatz_angle_encoder(). */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "circuit/ansatz/ansatz_impl.h"

/* Heap array of the column of each qubit. */
static uint32_t *encoder_read_columns(struct qr_ansatz_builder *b) {
    uint32_t *columns = qr_xcalloc(b->n, sizeof *columns);
    if (!b->code)
        b->code = b->use->host->read_columns(b->use->at, qr_json_get(b->use->options, "data"),
                                             qr_ansatz_path(b, "data").s, b->n, columns);
    return columns;
}

static struct qr_ansatz_angle encoder_input(double factor, uint32_t column) {
    return (struct qr_ansatz_angle){QR_ANSATZ_INPUT, factor, column, ""};
}

enum qr_code qr_ansatz_angle_encoder(const struct qr_ansatz_use *use) {
    static const char *const rotations[] = {"RX", "RY", "RZ"};
    struct qr_ansatz_builder b = {use, use->n, QR_OK, 0};
    const char *rotation = rotations[qr_ansatz_choice(&b, "rotation", rotations, 3, 0)];
    double scale = qr_ansatz_number(&b, "scale", 1);
    uint32_t *columns = encoder_read_columns(&b);
    for (unsigned q = 0; q < b.n; q++) {
        struct qr_ansatz_angle a = encoder_input(scale, columns[q]);
        qr_ansatz_emit_one(&b, rotation, q, &a);
    }
    free(columns);
    return b.code;
}

/* ---- products of two inputs ---- */

struct products {
    struct qr_ansatz_builder b;
    double scale; /* of angles */
    uint32_t *columns;
    /* Emit the gates of one qubit, and of a pair. */
    void (*one)(struct products *e, unsigned q);
    void (*two)(struct products *e, unsigned p, unsigned q);
};

/* The product of (`before` x) of two qubits' columns. */
static struct qr_ansatz_angle encoder_product(const struct products *e, const char *before,
                                              unsigned p, unsigned q) {
    struct qr_ansatz_angle a = {QR_ANSATZ_TEXT, e->scale, 0, ""};
    snprintf(a.name, sizeof a.name, "(%sx[%u]) * (%sx[%u])", before, e->columns[p], before,
             e->columns[q]);
    return a;
}

static enum qr_code build_products(struct products *e, unsigned layers) {
    struct qr_ansatz_builder *b = &e->b;
    layers = qr_ansatz_layers(b, layers);
    enum qr_ansatz_pattern pattern = qr_ansatz_entanglement(b, QR_ANSATZ_FULL);
    e->columns = encoder_read_columns(b);
    for (unsigned l = 0; l < layers && !b->code; l++) {
        size_t n_pairs;
        struct qr_ansatz_pair *pairs = qr_ansatz_pairs(pattern, b->n, l, &n_pairs);
        for (unsigned q = 0; q < b->n; q++) e->one(e, q);
        for (size_t i = 0; i < n_pairs && !b->code; i++) e->two(e, pairs[i].p, pairs[i].q);
        free(pairs);
    }
    free(e->columns);
    return b->code;
}

/* ---- iqp: H, RZ(x), RZZ(x x') ---- */

static void iqp_one(struct products *e, unsigned q) {
    struct qr_ansatz_angle a = encoder_input(e->scale, e->columns[q]);
    qr_ansatz_emit_one(&e->b, "H", q, NULL);
    qr_ansatz_emit_one(&e->b, "RZ", q, &a);
}

static void iqp_two(struct products *e, unsigned p, unsigned q) {
    struct qr_ansatz_angle a = encoder_product(e, "", p, q);
    uint16_t at[2] = {(uint16_t)p, (uint16_t)q};
    qr_ansatz_emit(&e->b, &(struct qr_ansatz_gate){"MultiRZ", at, 2, 1, &a, NULL});
}

enum qr_code qr_ansatz_iqp(const struct qr_ansatz_use *use) {
    struct products e = {.b = {use, use->n, QR_OK, 0}, .scale = 1, .one = iqp_one, .two = iqp_two};
    return build_products(&e, 1);
}

/* ---- zz-feature-map: H, P(alpha x), P(alpha (pi - x) (pi - x')) of the parity ---- */

static void zz_one(struct products *e, unsigned q) {
    struct qr_ansatz_angle a = encoder_input(e->scale, e->columns[q]);
    qr_ansatz_emit_one(&e->b, "H", q, NULL);
    qr_ansatz_emit_one(&e->b, "P", q, &a);
}

static void zz_two(struct products *e, unsigned p, unsigned q) {
    struct qr_ansatz_angle a = encoder_product(e, "pi - ", p, q);
    qr_ansatz_emit_two(&e->b, "CNOT", p, q);
    qr_ansatz_emit_one(&e->b, "P", q, &a);
    qr_ansatz_emit_two(&e->b, "CNOT", p, q);
}

enum qr_code qr_ansatz_zz_feature_map(const struct qr_ansatz_use *use) {
    struct products e = {.b = {use, use->n, QR_OK, 0}, .one = zz_one, .two = zz_two};
    e.scale = qr_ansatz_number(&e.b, "alpha", 2);
    if (e.b.n < 2) qr_ansatz_fail(&e.b, NULL, "'zz-feature-map' takes 2 or more qubits, not 1");
    return build_products(&e, 2);
}
