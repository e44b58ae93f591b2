/* Coverage words: exactly the set of all micro-batches and members passes, nothing else. */
#include "exact/coverage.h"

#include "tests/t.h"

enum { MICRO_BATCHES = 7, MEMBERS = 3 };

static struct qr_coverage_key key_of(void) {
    struct qr_coverage_key k = {.reductions = 41, .kind = QR_REDUCTION_TRAIN};
    for (int i = 0; i < 32; i++) k.job_hash[i] = (uint8_t)(i * 7);
    for (int i = 0; i < 16; i++) k.base_digest[i] = (uint8_t)(200 - i);
    return k;
}

/* The micro-batches and the members of two masks, under one key. */
static struct qr_coverage part(const struct qr_coverage_key *k, unsigned micro_batches,
                               unsigned members) {
    struct qr_coverage c = {0};
    for (unsigned b = 0; b < MICRO_BATCHES; b++)
        if (micro_batches >> b & 1) qr_coverage_add_micro_batch(&c, k, b);
    for (unsigned r = 0; r < MEMBERS; r++)
        if (members >> r & 1) qr_coverage_add_member(&c, k, r);
    return c;
}

static void test_whole_passes(void) {
    struct qr_coverage_key k = key_of();
    struct qr_coverage total = qr_coverage_total(&k, MICRO_BATCHES, MEMBERS);
    /* In any split and order. */
    struct qr_coverage a = part(&k, 0x55, 1), b = part(&k, 0x20, 4), c = part(&k, 0x0a, 2);
    CHECK(qr_coverage_equal(qr_coverage_sum(qr_coverage_sum(a, b), c), total));
    CHECK(qr_coverage_equal(qr_coverage_sum(c, qr_coverage_sum(b, a)), total));
    uint8_t le[16];
    qr_coverage_store(le, total);
    CHECK(qr_coverage_equal(qr_coverage_load(le), total));
    CHECK(le[0] == (uint8_t)total.word && le[15] == (uint8_t)(total.word >> 120));
    struct qr_coverage none = qr_coverage_total(&k, 0, 0);
    CHECK(none.word == 0);
}

static void test_wrong_sums(void) {
    struct qr_coverage_key k = key_of();
    struct qr_coverage total = qr_coverage_total(&k, MICRO_BATCHES, MEMBERS);
    for (unsigned b = 0; b < MICRO_BATCHES; b++) {
        struct qr_coverage twice = total;
        qr_coverage_add_micro_batch(&twice, &k, b);
        CHECK(!qr_coverage_equal(twice, total), "micro-batch %u twice", b);
        CHECK(!qr_coverage_equal(part(&k, 0x7f & ~(1u << b), 7), total), "micro-batch %u missing",
              b);
        /* One counted twice in place of another: a count alone would not detect it. */
        struct qr_coverage swapped = part(&k, 0x7f & ~(1u << b), 7);
        qr_coverage_add_micro_batch(&swapped, &k, (b + 1) % MICRO_BATCHES);
        CHECK(!qr_coverage_equal(swapped, total), "micro-batch %u for %u", (b + 1) % MICRO_BATCHES,
              b);
    }
    for (unsigned r = 0; r < MEMBERS; r++) {
        CHECK(!qr_coverage_equal(part(&k, 0x7f, 7 & ~(1u << r)), total), "member %u missing", r);
        struct qr_coverage twice = total;
        qr_coverage_add_member(&twice, &k, r);
        CHECK(!qr_coverage_equal(twice, total), "member %u twice", r);
    }
    /* A micro-batch in the place of a member of the same number. */
    struct qr_coverage mixed = part(&k, 0x7f, 6);
    qr_coverage_add_micro_batch(&mixed, &k, 0);
    CHECK(!qr_coverage_equal(mixed, total));
}

static void test_other_keys(void) {
    struct qr_coverage_key k = key_of();
    struct qr_coverage total = qr_coverage_total(&k, MICRO_BATCHES, MEMBERS);
    struct qr_coverage_key other[4] = {k, k, k, k};
    other[0].base_digest[15] ^= 1; /* another state */
    other[1].reductions++;
    other[2].kind = QR_REDUCTION_EVAL;
    other[3].job_hash[0] ^= 0x80;
    for (int i = 0; i < 4; i++) {
        struct qr_coverage c = part(&k, 0x7f & ~4u, 7);
        qr_coverage_add_micro_batch(&c, &other[i], 2);
        CHECK(!qr_coverage_equal(c, total), "a micro-batch of another key, field %d", i);
        c = part(&k, 0x7f, 6);
        qr_coverage_add_member(&c, &other[i], 0);
        CHECK(!qr_coverage_equal(c, total), "a member of another key, field %d", i);
    }
}

/* The words are a contract between versions on the wire, so one is fixed here (the 76 bytes of the
 * fields through libxxhash, its canonical digest read from the last byte on). */
static void test_known_word(void) {
    struct qr_coverage_key k = key_of();
    struct qr_coverage c = {0};
    qr_coverage_add_micro_batch(&c, &k, 5);
    CHECK((uint64_t)(c.word >> 64) == 0x667377f13815ce3du &&
              (uint64_t)c.word == 0x995d0ffa09cf82a9u,
          "%016llx %016llx", (unsigned long long)(c.word >> 64), (unsigned long long)c.word);
}

int main(void) {
    test_whole_passes();
    test_wrong_sums();
    test_other_keys();
    test_known_word();
    return t_end();
}
