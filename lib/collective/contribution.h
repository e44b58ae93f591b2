/* collective/contribution.h — what goes into a reduction: by which schedule it is summed, and what
 * a member adds. */
#ifndef QR_COLLECTIVE_CONTRIBUTION_H
#define QR_COLLECTIVE_CONTRIBUTION_H

#include <stddef.h>

#include "exact/coverage.h"
#include "exact/integer.h"

enum qr_allreduce {
    QR_ALLREDUCE_AUTO,
    QR_ALLREDUCE_RING,
    QR_ALLREDUCE_DOUBLING,
    QR_ALLREDUCE_STAR,
    QR_ALLREDUCE_HALVING,
    QR_ALLREDUCE_KINDS
};
/* "auto" "ring" "doubling" "star" "halving" */
extern const char *const qr_allreduce_names[QR_ALLREDUCE_KINDS];

/* The vector is never written. */
struct qr_contribution {
    struct qr_coverage_key key;
    uint64_t n_micro_batches; /* of the whole reduction */
    /* over the micro-batches in `vector`; the member's own word is added inside */
    struct qr_coverage coverage;
    const qr_fixed *vector;
    size_t n;
    size_t n_by_rank; /* the last so many are by rank: of this generation only */
};

#endif
