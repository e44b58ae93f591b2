/* base/checksum.c — wrappers of ISA-L, zlib, OpenSSL and libxxhash. */
#include "base/checksum.h"

#include <isa-l/crc.h>
#include <limits.h>
#include <openssl/sha.h>
#include <string.h>
#include <xxhash.h>
#include <zlib.h>

#include "base/mem.h"

uint32_t qr_crc32c(uint32_t crc, const void *p, size_t n) {
    uintptr_t at = (uintptr_t)p; /* ISA-L's pointer is not const, but the buffer is only read */
    crc = ~crc;
    for (size_t part; n; at += part, n -= part) {
        part = n < INT_MAX ? n : INT_MAX;
        crc = crc32_iscsi((unsigned char *)at, (int)part, crc);
    }
    return ~crc;
}

uint32_t qr_crc32(uint32_t crc, const void *p, size_t n) { return (uint32_t)crc32_z(crc, p, n); }

void qr_sha256(const void *p, size_t n, uint8_t ret[QR_SHA256_BYTES]) {
    qr_check_memory(SHA256(p, n, ret) != NULL, "SHA-256");
}

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
    qr_check_memory(s != NULL, "XXH3");
    bool ok = XXH3_128bits_reset(s) == XXH_OK;
    for (size_t i = 0; i < n && ok; i++)
        ok = XXH3_128bits_update(s, part[i].p, part[i].n) == XXH_OK;
    QR_ASSERT(ok);
    xxh3_to_bytes(XXH3_128bits_digest(s), ret);
    (void)XXH3_freeState(s);
}
