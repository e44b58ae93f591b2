/* exact/random.h — counter-based random numbers: no state, no order.
 *
 * Philox4x32-10 (Salmon et al., SC'11; Random123), key = seed, counter =
 * (purpose, a, b low, b high). A 64-bit draw is output words 0 (low) and 1 (high); a uniform is
 * (x >> 11) * 2^-53 in [0, 1).
 */
#ifndef QR_EXACT_RANDOM_H
#define QR_EXACT_RANDOM_H

#include <stdint.h>

enum qr_random_purpose {
    QR_RANDOM_SHUFFLE = 1, /* a = epoch, b = sample */
    QR_RANDOM_INIT = 2,    /* a = layer (weight tensor), b = index in it */
    QR_RANDOM_DATA = 3,    /* a = round, b = qubit */
    QR_RANDOM_SPLIT = 8,   /* a = 0, b = sample */
    QR_RANDOM_DROPOUT = 9, /* a = layer, b = step: a key; with it a = unit, b = sample */
    QR_RANDOM_SPSA = 10,   /* a = weight / 64, whose sign is bit weight % 64; b = step */
    QR_RANDOM_SWEEP = 11,  /* a = key, b = trial */
};

void qr_philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t ret[4]);
uint64_t qr_random_u64(uint64_t seed, enum qr_random_purpose purpose, uint32_t a, uint64_t b);
double qr_random_uniform(uint64_t seed, enum qr_random_purpose purpose, uint32_t a, uint64_t b);

#endif
