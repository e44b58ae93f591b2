/* base/checksum.c — CRC-32C in three variants (table, SSE4.2, AVX-512 carry-less multiplication)
 * and wrappers of zlib, OpenSSL and libxxhash. Start reading at qr_crc32c(), which picks a variant.
 */
#include "base/checksum.h"

#include <openssl/sha.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Slicing-by-8 tables for the reflected Castagnoli polynomial, filled by checksum_init(). */
static uint32_t crc32c_tables[8][256];

static void make_crc32c_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++) c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
        crc32c_tables[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            crc32c_tables[t][i] =
                crc32c_tables[t - 1][i] >> 8 ^ crc32c_tables[0][crc32c_tables[t - 1][i] & 255];
}

static uint32_t crc32c_portable(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 8; p += 8, n -= 8) {
        uint32_t lo = crc ^ qr_get_u32le(p), hi = qr_get_u32le(p + 4);
        crc = crc32c_tables[7][lo & 255] ^ crc32c_tables[6][lo >> 8 & 255] ^
              crc32c_tables[5][lo >> 16 & 255] ^ crc32c_tables[4][lo >> 24] ^
              crc32c_tables[3][hi & 255] ^ crc32c_tables[2][hi >> 8 & 255] ^
              crc32c_tables[1][hi >> 16 & 255] ^ crc32c_tables[0][hi >> 24];
    }
    while (n--) crc = crc >> 8 ^ crc32c_tables[0][(crc ^ *p++) & 255];
    return crc;
}

#if defined(__x86_64__)
/* The crc32 instruction has a latency of three cycles and a throughput of one per cycle, so three
 * blocks of STRETCH bytes are computed in parallel. after_zeros advances a CRC register by STRETCH
 * zero bytes: the result is the XOR of one table entry per byte of the register. */
enum { STRETCH = 1024 };
static uint32_t after_zeros[4][256];

__attribute__((target("sse4.2"))) static void make_zeros_table(void) {
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t v = 0; v < 256; v++) {
            uint64_t c = v << 8 * i;
            for (int k = 0; k < STRETCH / 8; k++) c = __builtin_ia32_crc32di(c, 0);
            after_zeros[i][v] = (uint32_t)c;
        }
}

static uint32_t crc32c_skip_zeros(uint32_t c) {
    return after_zeros[0][c & 255] ^ after_zeros[1][c >> 8 & 255] ^ after_zeros[2][c >> 16 & 255] ^
           after_zeros[3][c >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const uint8_t *p,
                                                               size_t n) {
    uint64_t c = crc;
    for (; n >= 3 * STRETCH; p += 3 * STRETCH, n -= 3 * STRETCH) {
        uint64_t d = 0, e = 0;
        for (size_t k = 0; k < STRETCH; k += 8) {
            c = __builtin_ia32_crc32di(c, qr_get_u64le(p + k));
            d = __builtin_ia32_crc32di(d, qr_get_u64le(p + STRETCH + k));
            e = __builtin_ia32_crc32di(e, qr_get_u64le(p + 2 * STRETCH + k));
        }
        c = crc32c_skip_zeros(crc32c_skip_zeros((uint32_t)c) ^ (uint32_t)d) ^ (uint32_t)e;
    }
    for (; n >= 8; p += 8, n -= 8) c = __builtin_ia32_crc32di(c, qr_get_u64le(p));
    uint32_t r = (uint32_t)c;
    while (n--) r = __builtin_ia32_crc32qi(r, *p++);
    return r;
}

/* Folding by carry-less multiplication: 64 bytes already read are folded onto the bytes that lie
 * `bits` ahead, as (low half) * x^(bits + 32) + (high half) * x^(bits - 32) modulo the polynomial,
 * all reflected. Four registers of 64 bytes are folded in parallel; in the end they hold a message
 * of 64 bytes with the same remainder. Gopal et al., "Fast CRC Computation for Generic Polynomials
 * Using PCLMULQDQ" (2009). */
enum { LANES = 64, ABREAST = 4 * LANES };
static struct { uint64_t low, high; } fold_by_lane, fold_by_block;

/* x^exponent modulo the polynomial, reflected. 33 bits, because the product of two reflected
 * polynomials is shifted by one bit. */
static uint64_t reflected_power(unsigned exponent) {
    uint32_t r = 1u << 31;
    while (exponent--) r = r >> 1 ^ (r & 1 ? 0x82f63b78u : 0);
    return (uint64_t)r << 1;
}

static void make_fold_constants(void) {
    fold_by_lane.low = reflected_power(8 * LANES + 32);
    fold_by_lane.high = reflected_power(8 * LANES - 32);
    fold_by_block.low = reflected_power(8 * ABREAST + 32);
    fold_by_block.high = reflected_power(8 * ABREAST - 32);
}

#define WIDE __attribute__((target("sse4.2,avx512f,vpclmulqdq")))
WIDE static inline __m512i crc32c_fold(__m512i a, __m512i past, __m512i next) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(a, past, 0x00),
                                     _mm512_clmulepi64_epi128(a, past, 0x11), next, 0x96);
}

/* n is a positive multiple of ABREAST. */
WIDE static uint32_t crc32c_wide(uint32_t crc, const uint8_t *p, size_t n) {
    const __m512i past = _mm512_set4_epi64((int64_t)fold_by_block.high, (int64_t)fold_by_block.low,
                                           (int64_t)fold_by_block.high, (int64_t)fold_by_block.low);
    const __m512i last = _mm512_set4_epi64((int64_t)fold_by_lane.high, (int64_t)fold_by_lane.low,
                                           (int64_t)fold_by_lane.high, (int64_t)fold_by_lane.low);
    __m512i a = _mm512_xor_si512(_mm512_loadu_si512(p),
                                 _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    __m512i b = _mm512_loadu_si512(p + LANES), c = _mm512_loadu_si512(p + 2 * LANES),
            d = _mm512_loadu_si512(p + 3 * LANES);
    for (p += ABREAST, n -= ABREAST; n; p += ABREAST, n -= ABREAST) {
        a = crc32c_fold(a, past, _mm512_loadu_si512(p));
        b = crc32c_fold(b, past, _mm512_loadu_si512(p + LANES));
        c = crc32c_fold(c, past, _mm512_loadu_si512(p + 2 * LANES));
        d = crc32c_fold(d, past, _mm512_loadu_si512(p + 3 * LANES));
    }
    uint8_t rest[LANES];
    _mm512_storeu_si512(rest, crc32c_fold(crc32c_fold(crc32c_fold(a, last, b), last, c), last, d));
    /* gcc does not emit vzeroupper here; without it the SSE code that follows is slow. */
    _mm256_zeroupper();
    return crc32c_sse42(0, rest, sizeof rest);
}
#endif

__attribute__((constructor)) static void checksum_init(void) {
    make_crc32c_tables();
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) make_zeros_table();
    make_fold_constants();
#endif
}

uint32_t qr_crc32c(uint32_t crc, const void *p, size_t n) {
#if defined(__x86_64__)
    if (n >= ABREAST && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq")) {
        size_t whole = n / ABREAST * ABREAST;
        crc = ~crc32c_wide(~crc, p, whole);
        p = (const uint8_t *)p + whole;
        n -= whole;
    }
    if (__builtin_cpu_supports("sse4.2")) return ~crc32c_sse42(~crc, p, n);
#endif
    return ~crc32c_portable(~crc, p, n);
}

uint32_t qr_crc32(uint32_t crc, const void *p, size_t n) { return (uint32_t)crc32_z(crc, p, n); }

void qr_sha256(const void *p, size_t n, uint8_t ret[QR_SHA256_BYTES]) { SHA256(p, n, ret); }

static void xxh3_to_bytes(XXH128_hash_t hash, uint8_t ret[QR_XXH3_BYTES]) {
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, hash);
    memcpy(ret, c.digest, QR_XXH3_BYTES);
}

void qr_xxh3(const void *p, size_t n, uint8_t ret[QR_XXH3_BYTES]) {
    xxh3_to_bytes(XXH3_128bits(p, n), ret);
}

void qr_xxh3_parts(const struct qr_bytes *part, size_t n, uint8_t ret[QR_XXH3_BYTES]) {
    XXH3_state_t *s = XXH3_createState();
    bool ok = s && XXH3_128bits_reset(s) == XXH_OK;
    for (size_t i = 0; i < n && ok; i++)
        ok = XXH3_128bits_update(s, part[i].p, part[i].n) == XXH_OK;
    QR_ASSERT(ok);
    xxh3_to_bytes(XXH3_128bits_digest(s), ret);
    (void)XXH3_freeState(s);
}
