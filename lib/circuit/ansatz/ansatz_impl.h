/* circuit/ansatz/ansatz_impl.h — shared by the ansätze: emitting gates, reading keys. */
#ifndef QR_CIRCUIT_ANSATZ_ANSATZ_IMPL_H
#define QR_CIRCUIT_ANSATZ_ANSATZ_IMPL_H

#include "circuit/ansatz/ansatz.h"

/* After the first failure nothing is read or emitted any more. */
struct qr_ansatz_builder {
    const struct qr_ansatz_use *use;
    unsigned n; /* qubits */
    enum qr_code code;
    size_t n_emitted; /* gates */
};

void qr_ansatz_emit(struct qr_ansatz_builder *b, const struct qr_ansatz_gate *g);
void qr_ansatz_emit_phase(struct qr_ansatz_builder *b, const struct qr_ansatz_angle *angle);
/* angle NULL: a gate without arguments */
void qr_ansatz_emit_one(struct qr_ansatz_builder *b, const char *gate, unsigned place,
                        const struct qr_ansatz_angle *angle);
void qr_ansatz_emit_two(struct qr_ansatz_builder *b, const char *gate, unsigned p, unsigned q);
struct qr_ansatz_angle qr_ansatz_weight(double factor, const char *fmt, ...) QR_PRINTF(2, 3);

/* The value of a key, or `absent`. */
unsigned qr_ansatz_integer(struct qr_ansatz_builder *b, const char *key, unsigned low,
                           unsigned high, unsigned absent);
double qr_ansatz_number(struct qr_ansatz_builder *b, const char *key, double absent);
bool qr_ansatz_flag(struct qr_ansatz_builder *b, const char *key, bool absent);
unsigned qr_ansatz_choice(struct qr_ansatz_builder *b, const char *key, const char *const *names,
                          unsigned n, unsigned absent);
unsigned qr_ansatz_layers(struct qr_ansatz_builder *b, unsigned absent);
/* Fails with "PATH.key: ..."; key NULL: with the ansatz's own path. */
void qr_ansatz_fail(struct qr_ansatz_builder *b, const char *key, const char *fmt, ...)
    QR_PRINTF(3, 4);
struct qr_ansatz_path {
    char s[256];
};
struct qr_ansatz_path qr_ansatz_path(const struct qr_ansatz_builder *b, const char *key);

/* Which pairs of qubits are entangled, Qiskit's names. */
enum qr_ansatz_pattern {
    QR_ANSATZ_FULL,
    QR_ANSATZ_LINEAR,
    QR_ANSATZ_REVERSE_LINEAR,
    QR_ANSATZ_CIRCULAR,
    QR_ANSATZ_SCA,
    QR_ANSATZ_PAIRWISE,
    QR_ANSATZ_PATTERNS
};
enum qr_ansatz_pattern qr_ansatz_entanglement(struct qr_ansatz_builder *b,
                                              enum qr_ansatz_pattern absent);
struct qr_ansatz_pair {
    uint16_t p, q;
};
/* Heap array of the pairs of a layer. */
struct qr_ansatz_pair *qr_ansatz_pairs(enum qr_ansatz_pattern pattern, unsigned n, unsigned layer,
                                       size_t *ret_n);

enum qr_code qr_ansatz_strongly_entangling(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_basic_entangler(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_simplified_two_design(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_hardware_efficient(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_qaoa(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_uccsd(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_singles_doubles(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_tensor_network(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_angle_encoder(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_iqp(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_zz_feature_map(const struct qr_ansatz_use *use);
enum qr_code qr_ansatz_amplitude(const struct qr_ansatz_use *use);

#endif
