/* model/layers/options.h — kinds of layers, and the options of each.
 *
 * Ownership everything pointed to is borrowed while a model is made; the model copies it.
 */
#ifndef QR_MODEL_LAYERS_OPTIONS_H
#define QR_MODEL_LAYERS_OPTIONS_H

#include "base/rows.h"
#include "circuit/circuit.h"
#include "model/layers/activation.h"
#include "sim/sim_options.h"

/* Kind, name in job files, function table: in the file of its name. */
#define QR_LAYER_ROWS(ROW)                                                                         \
    ROW(QR_LAYER_QUANTUM, "quantum", qr_layer_quantum)                                             \
    ROW(QR_LAYER_DENSE, "dense", qr_layer_dense)                                                   \
    ROW(QR_LAYER_ACTIVATION, "activation", qr_layer_activation)                                    \
    ROW(QR_LAYER_DROPOUT, "dropout", qr_layer_dropout)                                             \
    ROW(QR_LAYER_SCALE, "scale", qr_layer_scale)

enum qr_layer_kind { QR_LAYER_ROWS(QR_ROW_KIND) QR_LAYERS };
extern const char *const qr_layer_names[QR_LAYERS];

/* The circuit's columns are the layer's inputs; its outputs are the read-outs' expectation values,
 * those of the first filter first. Filters are copies with parameters of their own. */
struct qr_quantum_options {
    const struct qr_circuit *circuit;
    const struct qr_observable *readouts;
    size_t n_readouts;
    unsigned n_filters;    /* at least 1 */
    enum qr_method method; /* of noise */
    unsigned n_trajectories, shots;
    enum { QR_GRADIENT_ADJOINT, QR_GRADIENT_SHIFT } gradient;
    /* Observables besides the read-outs, by name: metrics, which do not affect training. */
    const struct qr_observable *watched;
    char *const *watched_names;
    size_t n_watched;
};
/* activation(in kernel + bias). l1 sum |w| + l2 sum w^2 of the kernel is added to the mean loss. */
struct qr_dense_options {
    unsigned units;
    enum qr_activation activation;
    double l1, l2;
};
/* In training each value is 0 with probability `rate`, and otherwise divided by 1 - rate. */
struct qr_dropout_options {
    double rate; /* [0, 1) */
};
/* in * factor + offset, Keras' Rescaling. */
struct qr_scale_options {
    double factor, offset;
};

enum { QR_LAYER_NAME = 32 }; /* maximum bytes of a name */
struct qr_layer_options {
    enum qr_layer_kind kind;
    const char *name; /* of its weights; NULL: Keras' for layers without one */
    bool frozen;      /* its weights do not change */
    union {
        struct qr_quantum_options quantum;
        struct qr_dense_options dense;
        enum qr_activation activation;
        struct qr_dropout_options dropout;
        struct qr_scale_options scale;
    };
};

/* Source of a micro-batch's random numbers: the same on every worker that computes a sample. */
struct qr_draw {
    uint64_t seed, step;
    const uint32_t *sample; /* number in the data of each sample of the micro-batch */
    bool trains; /* false: an evaluation, in which nothing is dropped; step is not used */
};

#endif
