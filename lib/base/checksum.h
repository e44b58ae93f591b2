/* base/checksum.h — digests and checksums.
 *
 * crc32c    Castagnoli, reflected, as in GCS and TFRecord (RFC 3720 B.4); hardware where present.
 * crc32     ISO-HDLC, as in zip.
 * sha256    FIPS 180-4, by OpenSSL.
 * xxh3      XXH3-128 by libxxhash, canonical (big-endian) byte order: hex equals `xxhsum -H2`.
 */
#ifndef QR_BASE_CHECKSUM_H
#define QR_BASE_CHECKSUM_H

#include "base/bytes.h"

enum { QR_SHA256_BYTES = 32, QR_XXH3_BYTES = 16 };

/* start with 0; chain by passing the result */
uint32_t qr_crc32c(uint32_t crc, const void *p, size_t n);
uint32_t qr_crc32(uint32_t crc, const void *p, size_t n);
void qr_sha256(const void *p, size_t n, uint8_t ret[QR_SHA256_BYTES]);
void qr_xxh3(const void *p, size_t n, uint8_t ret[QR_XXH3_BYTES]);
/* of n parts, one after the other */
void qr_xxh3_parts(const struct qr_bytes *part, size_t n, uint8_t ret[QR_XXH3_BYTES]);

#endif
