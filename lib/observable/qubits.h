/* observable/qubits.h — a set of a circuit's qubits, as a value.
 *
 * To visit the members in ascending order:
 *
 *     for (unsigned q = qr_qubits_first(&s); q < QR_MAX_QUBITS; q = qr_qubits_next(&s, q)) */
#ifndef QR_OBSERVABLE_QUBITS_H
#define QR_OBSERVABLE_QUBITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { QR_MAX_QUBITS = 1024, QR_QUBITS_WORDS = QR_MAX_QUBITS / 64 };

struct qr_qubits {
    uint64_t word[QR_QUBITS_WORDS]; /* bit q % 64 of word q / 64: qubit q is a member */
};

static inline bool qr_qubits_has(const struct qr_qubits *s, unsigned q) {
    return s->word[q / 64] >> q % 64 & 1;
}
static inline void qr_qubits_add(struct qr_qubits *s, unsigned q) {
    s->word[q / 64] |= UINT64_C(1) << q % 64;
}
static inline void qr_qubits_remove(struct qr_qubits *s, unsigned q) {
    s->word[q / 64] &= ~(UINT64_C(1) << q % 64);
}
static inline void qr_qubits_add_all(struct qr_qubits *s, const struct qr_qubits *more) {
    for (unsigned w = 0; w < QR_QUBITS_WORDS; w++) s->word[w] |= more->word[w];
}
/* Returns the lowest member >= q, or QR_MAX_QUBITS. */
static inline unsigned qr_qubits_from(const struct qr_qubits *s, unsigned q) {
    uint64_t skip = UINT64_MAX << q % 64;
    for (unsigned w = q / 64; w < QR_QUBITS_WORDS; w++, skip = UINT64_MAX)
        if (s->word[w] & skip) return w * 64 + (unsigned)__builtin_ctzll(s->word[w] & skip);
    return QR_MAX_QUBITS;
}
static inline unsigned qr_qubits_first(const struct qr_qubits *s) { return qr_qubits_from(s, 0); }
static inline unsigned qr_qubits_next(const struct qr_qubits *s, unsigned q) {
    return qr_qubits_from(s, q + 1);
}
/* Returns the highest member; the set must not be empty. */
static inline unsigned qr_qubits_last(const struct qr_qubits *s) {
    unsigned w = QR_QUBITS_WORDS - 1;
    while (w && !s->word[w]) w--;
    return w * 64 + 63 - (unsigned)__builtin_clzll(s->word[w]);
}
static inline bool qr_qubits_is_empty(const struct qr_qubits *s) {
    return qr_qubits_first(s) == QR_MAX_QUBITS;
}
static inline unsigned qr_qubits_count(const struct qr_qubits *s) {
    unsigned n = 0;
    for (unsigned w = 0; w < QR_QUBITS_WORDS; w++) n += (unsigned)__builtin_popcountll(s->word[w]);
    return n;
}
static inline bool qr_qubits_equal(const struct qr_qubits *a, const struct qr_qubits *b) {
    return memcmp(a, b, sizeof *a) == 0;
}

/* Qubits 0 to 63 as a mask, bit q for qubit q; for circuits of at most 64 qubits. */
static inline uint64_t qr_qubits_mask(const struct qr_qubits *s) { return s->word[0]; }
static inline struct qr_qubits qr_qubits_of_mask(uint64_t mask) {
    return (struct qr_qubits){{mask}};
}

#endif
