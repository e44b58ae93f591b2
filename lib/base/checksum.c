/* base/checksum.c — wrappers of ISA-L, zlib, OpenSSL and libxxhash. */
#include "base/checksum.h"

/* Neither may allocate, or look an algorithm up by name: a training step calls them. */
#define OPENSSL_API_COMPAT 0x10100000L
#define XXH_STATIC_LINKING_ONLY

#include <errno.h>
#include <isa-l/crc.h>
#include <limits.h>
#include <openssl/sha.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>
#if defined __x86_64__
#include <xxh_x86dispatch.h> /* XXH3 by the processor's widest vectors: half the time */
#endif
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

void qr_sha256_parts(const struct qr_bytes *part, size_t n, uint8_t ret[QR_SHA256_BYTES]) {
    SHA256_CTX c;
    bool ok = SHA256_Init(&c) == 1;
    for (size_t i = 0; i < n && ok; i++) ok = SHA256_Update(&c, part[i].p, part[i].n) == 1;
    QR_ASSERT(ok && SHA256_Final(ret, &c) == 1);
}

void qr_sha256(const void *p, size_t n, uint8_t ret[QR_SHA256_BYTES]) {
    qr_sha256_parts(&(struct qr_bytes){p, n}, 1, ret);
}

int qr_sha256_file(int fd, uint8_t ret[QR_SHA256_BYTES]) {
    SHA256_CTX c;
    uint8_t part[16384];
    ssize_t n;
    bool ok = SHA256_Init(&c) == 1;
    while ((n = read(fd, part, sizeof part)) != 0) {
        if (n < 0 && errno != EINTR) return errno;
        if (n > 0) ok &= SHA256_Update(&c, part, (size_t)n) == 1;
    }
    QR_ASSERT(ok && SHA256_Final(ret, &c) == 1);
    return 0;
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
    XXH3_state_t s;
    XXH3_INITSTATE(&s);
    bool ok = XXH3_128bits_reset(&s) == XXH_OK;
    for (size_t i = 0; i < n && ok; i++)
        ok = XXH3_128bits_update(&s, part[i].p, part[i].n) == XXH_OK;
    QR_ASSERT(ok);
    xxh3_to_bytes(XXH3_128bits_digest(&s), ret);
}
