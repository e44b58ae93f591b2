/* Philox4x32-10: the known answers of Random123's kat_vectors; draws and uniforms as exact/random.h
 * defines them. */
#include "exact/random.h"

#include <math.h>

#include "tests/t.h"

static void test_known_answers(void) {
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } kat[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < COUNT(kat); i++) {
        uint32_t got[4];
        qr_philox4x32(kat[i].key, kat[i].counter, got);
        CHECK(memcmp(got, kat[i].want, sizeof got) == 0, "vector %zu: %08x %08x %08x %08x", i,
              got[0], got[1], got[2], got[3]);
    }
    /* Several blocks at once give the same words as each block alone. */
    uint32_t word[4][QR_PHILOX_MANY], counter[QR_PHILOX_MANY][4], got[4];
    for (uint32_t b = 0; b < QR_PHILOX_MANY; b++)
        for (uint32_t k = 0; k < 4; k++)
            word[k][b] = counter[b][k] = (uint32_t)qr_random_u64(1, QR_RANDOM_DATA, b, k);
    qr_philox4x32_many(kat[2].key, word);
    for (uint32_t b = 0; b < QR_PHILOX_MANY; b++) {
        qr_philox4x32(kat[2].key, counter[b], got);
        for (uint32_t k = 0; k < 4; k++) CHECK(word[k][b] == got[k], "block %u, word %u", b, k);
    }
}

static void test_draws(void) {
    /* Key and counter words in the order that the header states. */
    const uint32_t key[2] = {0x89abcdef, 0x01234567},
                   counter[4] = {QR_RANDOM_DATA, 7, 0xfeedbeef, 3};
    uint32_t out[4];
    qr_philox4x32(key, counter, out);
    uint64_t draw = qr_random_u64(0x0123456789abcdef, QR_RANDOM_DATA, 7, 0x3feedbeef);
    CHECK(draw == ((uint64_t)out[1] << 32 | out[0]));
    CHECK(qr_random_uniform(0x0123456789abcdef, QR_RANDOM_DATA, 7, 0x3feedbeef) ==
          (double)(draw >> 11) * 0x1p-53);
    CHECK(qr_random_u64(1, QR_RANDOM_SHUFFLE, 0, 0) != qr_random_u64(1, QR_RANDOM_INIT, 0, 0));
    CHECK(qr_random_u64(1, QR_RANDOM_INIT, 1, 0) != qr_random_u64(1, QR_RANDOM_INIT, 0, 1));
    double sum = 0;
    enum { N = 20000 };
    for (uint64_t i = 0; i < N; i++) {
        double u = qr_random_uniform(42, QR_RANDOM_INIT, 0, i);
        CHECK(u >= 0 && u < 1);
        sum += u;
    }
    /* Mean 1/2 with deviation 1/sqrt(12 N) = 0.00204: within five deviations. */
    CHECK(fabs(sum / N - 0.5) < 0.0102, "mean %g", sum / N);
}

int main(void) {
    test_known_answers();
    test_draws();
    return t_end();
}
