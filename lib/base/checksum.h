/* base/checksum.h — digests and checksums.
 *
 * crc32c    Castagnoli, reflected, as in GCS and TFRecord (RFC 3720 B.4), by ISA-L.
 * crc32     ISO-HDLC, as in zip.
 * sha256    FIPS 180-4, by OpenSSL.
 * xxh3      XXH3-128 by libxxhash, canonical (big-endian) byte order: hex equals `xxhsum -H2`.
 * Memory    none is allocated.
 * Threads   any.
 */
#ifndef QR_BASE_CHECKSUM_H
#define QR_BASE_CHECKSUM_H

#include "base/bytes.h"

enum { QR_SHA256_BYTES = 32, QR_XXH3_BYTES = 16 };

/* Checksum of n bytes. Start with crc 0; to continue, pass the previous result. */
uint32_t qr_crc32c(uint32_t crc, const void *p, size_t n);
uint32_t qr_crc32(uint32_t crc, const void *p, size_t n);
void qr_sha256(const void *p, size_t n, uint8_t ret[QR_SHA256_BYTES]);
/* Digest of n parts as if they were concatenated. */
void qr_sha256_parts(const struct qr_bytes *part, size_t n, uint8_t ret[QR_SHA256_BYTES]);
/* Digest of a file from its present position to its end. Returns 0 or errno. */
int qr_sha256_file(int fd, uint8_t ret[QR_SHA256_BYTES]);
void qr_xxh3(const void *p, size_t n, uint8_t ret[QR_XXH3_BYTES]);
void qr_xxh3_parts(const struct qr_bytes *part, size_t n, uint8_t ret[QR_XXH3_BYTES]);

#endif
