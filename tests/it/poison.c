/* Linked into a qringd of its own (--wrap): the worker that computes one block, POISON="step block", dies of it as if the kernel had killed it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "exact/coverage.h"

void __real_qr_coverage_add_block(struct qr_coverage *c, const struct qr_coverage_key *key, uint64_t block);
void __wrap_qr_coverage_add_block(struct qr_coverage *c, const struct qr_coverage_key *key, uint64_t block);
void __wrap_qr_coverage_add_block(struct qr_coverage *c, const struct qr_coverage_key *key, uint64_t block) {
    const char *poison = getenv("POISON");
    unsigned long long bad_step, bad_block;
    if (poison && sscanf(poison, "%llu %llu", &bad_step, &bad_block) == 2 && key->step == bad_step && block == bad_block) raise(SIGKILL);
    __real_qr_coverage_add_block(c, key, block);
}
