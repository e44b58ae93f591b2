/* exact/coverage.h — exactly once is checked, not assumed (membership/protocol.md §6).
 *
 * A coverage word is the sum mod 2^128 of H(job hash, base digest, reductions, kind, "batch",
 * micro-batch) over the micro-batches added into a vector, plus H(job hash, base digest,
 * reductions, kind, "member", rank) once per member. It must equal the total over all micro-batches
 * 0..n_micro_batches-1 and ranks 0..n_members-1, else no member applies the sum. H is XXH3-128 of
 * the fields' little-endian bytes. 16 bytes little-endian on the wire.
 */
#ifndef QR_EXACT_COVERAGE_H
#define QR_EXACT_COVERAGE_H

#include <stdbool.h>
#include <stdint.h>

enum qr_reduction_kind { QR_REDUCTION_TRAIN = 0, QR_REDUCTION_EVAL = 1, QR_REDUCTION_CLOSE = 2 };

struct qr_coverage {
    unsigned __int128 word;
};

/* What all words of one reduction have in common. */
struct qr_coverage_key {
    uint8_t job_hash[32];
    uint8_t base_digest[16]; /* XXH3-128 of the state that the reduction starts from */
    uint64_t reductions;     /* of the base state */
    enum qr_reduction_kind kind;
};

void qr_coverage_add_micro_batch(struct qr_coverage *c, const struct qr_coverage_key *key,
                                 uint64_t micro_batch);
void qr_coverage_add_member(struct qr_coverage *c, const struct qr_coverage_key *key,
                            uint32_t rank);
struct qr_coverage qr_coverage_sum(struct qr_coverage a, struct qr_coverage b);
struct qr_coverage qr_coverage_total(const struct qr_coverage_key *key, uint64_t n_micro_batches,
                                     uint32_t n_members);
bool qr_coverage_equal(struct qr_coverage a, struct qr_coverage b);
void qr_coverage_store(uint8_t ret_le[16], struct qr_coverage c);
struct qr_coverage qr_coverage_load(const uint8_t le[16]);

#endif
