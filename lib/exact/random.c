/* exact/random.c — Philox4x32-10. Start reading at qr_philox4x32(). */
#include "exact/random.h"

/* Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC'11), §3.3. */
enum { ROUNDS = 10 };
static inline void philox_round(const uint32_t key[2], uint32_t *c0, uint32_t *c1, uint32_t *c2,
                                uint32_t *c3) {
    uint64_t p0 = (uint64_t)0xD2511F53u * *c0, p1 = (uint64_t)0xCD9E8D57u * *c2;
    *c0 = (uint32_t)(p1 >> 32) ^ *c1 ^ key[0];
    *c1 = (uint32_t)p1;
    *c2 = (uint32_t)(p0 >> 32) ^ *c3 ^ key[1];
    *c3 = (uint32_t)p0;
}
static inline void next_key(uint32_t key[2]) {
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
}

void qr_philox4x32(const uint32_t key[2], const uint32_t counter[4], uint32_t ret[4]) {
    uint32_t k[2] = {key[0], key[1]}, c0 = counter[0], c1 = counter[1], c2 = counter[2],
             c3 = counter[3];
    for (int round = 0; round < ROUNDS; round++, next_key(k)) philox_round(k, &c0, &c1, &c2, &c3);
    ret[0] = c0, ret[1] = c1, ret[2] = c2, ret[3] = c3;
}

void qr_philox4x32_many(const uint32_t key[2], uint32_t word[4][QR_PHILOX_MANY]) {
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < ROUNDS; round++, next_key(k))
        for (int i = 0; i < QR_PHILOX_MANY; i++)
            philox_round(k, &word[0][i], &word[1][i], &word[2][i], &word[3][i]);
}

uint64_t qr_random_u64(uint64_t seed, enum qr_random_purpose purpose, uint32_t a, uint64_t b) {
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)purpose, a, (uint32_t)b, (uint32_t)(b >> 32)};
    uint32_t out[4];
    qr_philox4x32(key, counter, out);
    return (uint64_t)out[1] << 32 | out[0];
}

double qr_random_uniform(uint64_t seed, enum qr_random_purpose purpose, uint32_t a, uint64_t b) {
    return (double)(qr_random_u64(seed, purpose, a, b) >> 11) * 0x1p-53;
}
