/* tests/ref/chain.h — a chain of an optional quantum layer and dense layers. */
#ifndef QR_TESTS_REF_CHAIN_H
#define QR_TESTS_REF_CHAIN_H

#include "model/model.h"

struct chain {
    size_t n;
    struct qr_layer_options layers[16];
};

static inline struct chain chain_of(const struct qr_quantum_options *quantum,
                                    const struct qr_dense_options *dense, size_t n_dense) {
    struct chain c = {0};
    if (quantum)
        c.layers[c.n++] = (struct qr_layer_options){.kind = QR_LAYER_QUANTUM, .quantum = *quantum};
    for (size_t i = 0; i < n_dense; i++)
        c.layers[c.n++] = (struct qr_layer_options){.kind = QR_LAYER_DENSE, .dense = dense[i]};
    return c;
}

#endif
