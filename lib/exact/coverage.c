/* exact/coverage.c — hashes of micro-batches and members, and their sums mod 2^128. Start reading
 * at coverage_hash(). */
#include "exact/coverage.h"

#include <string.h>

#include "base/checksum.h"

/* Input of the hash, all little-endian: job hash 32 bytes, base digest 16, reductions 8, kind 4,
 * "batch" or "member" padded with NUL to 8, the number 8. The digest (canonical bytes) is read as a
 * little-endian number. */
enum { WORD_BYTES = 32 + 16 + 8 + 4 + 8 + 8 };

static void coverage_put_le(uint8_t *p, uint64_t v, unsigned bytes) {
    for (unsigned i = 0; i < bytes; i++) p[i] = (uint8_t)(v >> (8 * i));
}

static unsigned __int128 coverage_hash(const struct qr_coverage_key *key, const char what[8],
                                       uint64_t number) {
    uint8_t text[WORD_BYTES], digest[QR_XXH3_BYTES];
    memcpy(text, key->job_hash, 32);
    memcpy(text + 32, key->base_digest, 16);
    coverage_put_le(text + 48, key->reductions, 8);
    coverage_put_le(text + 56, (uint64_t)key->kind, 4);
    memcpy(text + 60, what, 8);
    coverage_put_le(text + 68, number, 8);
    qr_xxh3(text, sizeof text, digest);
    return qr_coverage_load(digest).word;
}

void qr_coverage_add_micro_batch(struct qr_coverage *c, const struct qr_coverage_key *key,
                                 uint64_t micro_batch) {
    c->word += coverage_hash(key, "batch\0\0", micro_batch);
}

void qr_coverage_add_member(struct qr_coverage *c, const struct qr_coverage_key *key,
                            uint32_t rank) {
    c->word += coverage_hash(key, "member\0", rank);
}

struct qr_coverage qr_coverage_sum(struct qr_coverage a, struct qr_coverage b) {
    return (struct qr_coverage){a.word + b.word};
}

struct qr_coverage qr_coverage_total(const struct qr_coverage_key *key, uint64_t n_micro_batches,
                                     uint32_t n_members) {
    struct qr_coverage c = {0};
    for (uint64_t i = 0; i < n_micro_batches; i++) qr_coverage_add_micro_batch(&c, key, i);
    for (uint32_t i = 0; i < n_members; i++) qr_coverage_add_member(&c, key, i);
    return c;
}

bool qr_coverage_equal(struct qr_coverage a, struct qr_coverage b) { return a.word == b.word; }

void qr_coverage_store(uint8_t ret_le[16], struct qr_coverage c) {
    coverage_put_le(ret_le, (uint64_t)c.word, 8);
    coverage_put_le(ret_le + 8, (uint64_t)(c.word >> 64), 8);
}

struct qr_coverage qr_coverage_load(const uint8_t le[16]) {
    struct qr_coverage c = {0};
    for (int i = 15; i >= 0; i--) c.word = c.word << 8 | le[i];
    return c;
}
