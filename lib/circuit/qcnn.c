/* circuit/qcnn.c — the quantum convolutional network of TFQ's tutorial. Start reading at
 * qr_qcnn_new(). */
#include "circuit/qcnn.h"

#include <stdio.h>
#include <string.h>

/* Symbols of one stage, as in TFQ's tutorial: 0-14 the convolution, 15-20 the pooling. */
enum { SYMBOLS_PER_STAGE = 21, POOL_FIRST = 15, MIN_QUBITS = 4 };

struct builder {
    struct qr_circuit *c;
    unsigned first;    /* the stage's first symbol */
    unsigned entangle; /* 6 or 7: symbol of ZZ; YY and XX take the next two */
    /* 1 + the parameter of each symbol of the stage; 0: not looked up yet. A look-up by name
     * compares all names. */
    uint32_t param[SYMBOLS_PER_STAGE];
};

/* Gates built here are valid by construction; a failure is a bug in this file. */
static void qcnn_add(struct builder *b, struct qr_gate g) {
    const struct qr_gate_info *info = qr_gate_info(g.kind);
    g.n_targets = info->n_targets;
    g.n_args = info->n_args;
    QR_ASSERT(qr_circuit_add(b->c, &g, QR_IGNORED) == QR_OK);
}

static struct qr_gate_arg qcnn_constant(double v) {
    return (struct qr_gate_arg){QR_ARG_CONSTANT, v, 0};
}

static struct qr_gate_arg qcnn_symbol(struct builder *b, unsigned k, double scale) {
    if (!b->param[k]) {
        char name[24];
        snprintf(name, sizeof name, "qconv%u", b->first + k);
        b->param[k] = qr_circuit_param(b->c, name) + 1;
    }
    return (struct qr_gate_arg){QR_ARG_PARAMETER, scale, b->param[k] - 1};
}

static void qcnn_one(struct builder *b, enum qr_gate_kind kind, unsigned q, unsigned k,
                     double scale) {
    qcnn_add(b, (struct qr_gate){
                    .kind = kind, .targets = {(uint16_t)q}, .args = {qcnn_symbol(b, k, scale)}});
}

static void qcnn_two(struct builder *b, enum qr_gate_kind kind, unsigned p, unsigned q,
                     struct qr_gate_arg arg) {
    qcnn_add(b,
             (struct qr_gate){.kind = kind, .targets = {(uint16_t)p, (uint16_t)q}, .args = {arg}});
}

static void qcnn_rotate(struct builder *b, unsigned q, unsigned k) {
    qcnn_one(b, QR_GATE_X, q, k, 1);
    qcnn_one(b, QR_GATE_Y, q, k + 1, 1);
    qcnn_one(b, QR_GATE_Z, q, k + 2, 1);
}

static void qcnn_entangle(struct builder *b, unsigned p, unsigned q) {
    qcnn_rotate(b, p, 0);
    qcnn_rotate(b, q, 3);
    qcnn_two(b, QR_GATE_ZZ, p, q, qcnn_symbol(b, b->entangle, 1));
    qcnn_two(b, QR_GATE_YY, p, q, qcnn_symbol(b, b->entangle + 1, 1));
    qcnn_two(b, QR_GATE_XX, p, q, qcnn_symbol(b, b->entangle + 2, 1));
    qcnn_rotate(b, p, 9);
    qcnn_rotate(b, q, 12);
}

static void qcnn_pool(struct builder *b, unsigned source, unsigned sink) {
    qcnn_rotate(b, sink, POOL_FIRST);
    qcnn_rotate(b, source, POOL_FIRST + 3);
    qcnn_two(b, QR_GATE_CNOT, source, sink, qcnn_constant(1));
    qcnn_one(b, QR_GATE_Z, sink, POOL_FIRST + 2, -1);
    qcnn_one(b, QR_GATE_Y, sink, POOL_FIRST + 1, -1);
    qcnn_one(b, QR_GATE_X, sink, POOL_FIRST, -1);
}

static void qcnn_encode(struct builder *b) {
    unsigned n = b->c->n_qubits;
    for (unsigned q = 0; q < n; q++)
        qcnn_add(b, (struct qr_gate){
                        .kind = QR_GATE_H, .targets = {(uint16_t)q}, .args = {qcnn_constant(1)}});
    for (unsigned q = 0; q < n; q++) qcnn_two(b, QR_GATE_CZ, q, (q + 1) % n, qcnn_constant(1));
    for (unsigned q = 0; q < n; q++) /* RX(x_q): angle in radians, so exponent x / pi */
        qcnn_add(b, (struct qr_gate){.kind = QR_GATE_X,
                                     .targets = {(uint16_t)q},
                                     .global_shift = -0.5,
                                     .args = {{QR_ARG_DATA, 0x1.45f306dc9c883p-2, q}}});
}

/* One stage on the m qubits from `begin` on; the first floor(m / 2) are sources, the next as many
 * sinks, and the last of an odd m is unchanged. */
static void qcnn_stage(struct builder *b, unsigned begin, unsigned m) {
    memset(b->param, 0, sizeof b->param);
    for (unsigned i = 0; i + 1 < m; i += 2) qcnn_entangle(b, begin + i, begin + i + 1);
    for (unsigned i = 1; i + 1 < m; i += 2) qcnn_entangle(b, begin + i, begin + i + 1);
    if (m % 2 == 0) qcnn_entangle(b, begin + m - 1, begin); /* zip drops this pair when m is odd */
    for (unsigned i = 0; i < m / 2; i++) qcnn_pool(b, begin + i, begin + m / 2 + i);
}

static unsigned stages_to_one(unsigned n) {
    unsigned k = 0;
    for (; n > 1; n -= n / 2) k++;
    return k;
}

enum qr_code qr_qcnn_new(const struct qr_qcnn_options *opt, struct qr_circuit **ret,
                         struct qr_qubits *ret_remaining, struct qr_err *err) {
    unsigned n = opt->n_qubits;
    if (n < MIN_QUBITS || n > QR_MAX_QUBITS)
        return qr_fail(err, QR_INVALID_ARGUMENT, "a qcnn has %d to %d qubits, not %u", MIN_QUBITS,
                       QR_MAX_QUBITS, n);
    unsigned most = stages_to_one(n), n_stages = opt->n_stages ? opt->n_stages : most;
    if (n_stages > most)
        return qr_fail(
            err, QR_INVALID_ARGUMENT,
            "a qcnn on %u qubits is down to one qubit after %u stages, so it cannot have %u", n,
            most, n_stages);
    struct builder b = {.c = qr_circuit_new(n, n),
                        .entangle = opt->variant == QR_QCNN_RESEARCH ? 7 : 6};
    qcnn_encode(&b);
    unsigned begin = 0;
    for (unsigned k = 0; k < n_stages; k++, b.first += SYMBOLS_PER_STAGE) {
        qcnn_stage(&b, begin, n - begin);
        begin += (n - begin) / 2;
    }
    *ret = b.c;
    if (ret_remaining) {
        *ret_remaining = (struct qr_qubits){0};
        for (unsigned q = begin; q < n; q++) qr_qubits_add(ret_remaining, q);
    }
    return QR_OK;
}
