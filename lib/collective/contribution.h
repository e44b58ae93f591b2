/* collective/contribution.h — the input of a reduction: its schedule, and what a member adds. */
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

/* What one member adds. The vector is never written. */
struct qr_contribution {
    struct qr_coverage_key key;
    uint64_t n_micro_batches; /* of the whole reduction */
    /* Coverage of the micro-batches in `vector`; the reduction adds the member's word. */
    struct qr_coverage coverage;
    const qr_fixed *vector;
    size_t n;
    size_t n_by_rank; /* the last ones are by rank: valid in this generation only */
};

#endif
