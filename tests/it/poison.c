/* Linked into a qringd of its own (--wrap): the worker that computes one micro-batch, POISON="step
 * micro-batch", dies of it as if the kernel had killed it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "exact/coverage.h"

void __real_qr_coverage_add_micro_batch(struct qr_coverage *c, const struct qr_coverage_key *key,
                                        uint64_t micro_batch);
void __wrap_qr_coverage_add_micro_batch(struct qr_coverage *c, const struct qr_coverage_key *key,
                                        uint64_t micro_batch);
void __wrap_qr_coverage_add_micro_batch(struct qr_coverage *c, const struct qr_coverage_key *key,
                                        uint64_t micro_batch) {
    const char *poison = getenv("POISON");
    unsigned long long bad_step, bad_micro_batch;
    if (poison && sscanf(poison, "%llu %llu", &bad_step, &bad_micro_batch) == 2 &&
        key->reductions == bad_step && micro_batch == bad_micro_batch)
        raise(SIGKILL);
    __real_qr_coverage_add_micro_batch(c, key, micro_batch);
}
