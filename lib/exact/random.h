/* exact/random.h — counter-based random numbers: no state, no order.
 *
 * Philox4x32-10 (Salmon et al., SC'11; Random123), key = seed, counter =
 * (purpose, a, b low, b high). A 64-bit draw is output words 0 (low) and 1 (high); a uniform is
 * (x >> 11) * 2^-53 in [0, 1).
 * Threads   pure functions.
 */
#ifndef QR_EXACT_RANDOM_H
#define QR_EXACT_RANDOM_H

#include <stdint.h>

/* Purposes separate streams of one seed; a and b identify the draw within a purpose. */
enum qr_random_purpose {
    QR_RANDOM_SHUFFLE = 1, /* a = epoch, b = sample */
    QR_RANDOM_INIT = 2,    /* a = layer (weight tensor), b = index in it */
    QR_RANDOM_DATA = 3,    /* a = round, b = qubit */
    QR_RANDOM_SPLIT = 8,   /* a = 0, b = sample */
    /* a = layer, b = step: the draw is a key, used with a = unit, b = sample */
    QR_RANDOM_DROPOUT = 9,
    QR_RANDOM_SPSA = 10,  /* a = weight / 64, b = step; bit weight % 64 of the draw is the sign */
    QR_RANDOM_SWEEP = 11, /* a = key, b = trial */
    /* a = circuit (layer and filter), b = step: the draw is a key. With it: TRAJECTORY, a = half
     * the number of a channel (word 0 of the pair: even), b = sample * 2^32 + trajectory */
    QR_RANDOM_TRAJECTORY = 12,
    /* with the same key: SHOT, a = group of observables, b as above: the draw is a key. With it:
     * SHOT, a = 0 for the bits, 1 + half the qubit for read-out errors, b = shot */
    QR_RANDOM_SHOT = 13,
    QR_RANDOM_SHIFT = 14,  /* a = occurrence, b = 0 or 1 for its sign: the draw is a key */
    QR_RANDOM_VERIFY = 15, /* a = 0, b = number of the draw: a step to verify */
};

/* One block: four 32-bit words of output from a key and a counter. */
void qr_philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t ret[4]);
/* Several blocks with one key, in half of the time: word[k][i] is word k of block i, of the counter
 * and then of the output. */
enum { QR_PHILOX_MANY = 4 };
void qr_philox4x32_many(const uint32_t key[2], uint32_t word[4][QR_PHILOX_MANY]);
/* One draw as 64 bits, or as a uniform number in [0, 1). */
uint64_t qr_random_u64(uint64_t seed, enum qr_random_purpose purpose, uint32_t a, uint64_t b);
double qr_random_uniform(uint64_t seed, enum qr_random_purpose purpose, uint32_t a, uint64_t b);

#endif
