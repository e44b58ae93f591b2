/* Rows of the estimate, computed by hand from the model in preflight/estimate.h. */
#include <math.h>
#include <stdbool.h>

#include "preflight/estimate.h"
#include "tests/t.h"

/* Sums of a few products of decimal fractions: a handful of roundings of 2^-53 each. */
static bool near(double got, double want) { return fabs(got - want) <= 1e-13 * fabs(want); }

/* 160 samples, batches of 64 in blocks of 16: two whole batches of 4 blocks and a short one of 2;
 * 48 validation samples, 3 blocks. */
static const struct qr_estimate_facts base = {
    .n_train = 160,
    .n_validate = 48,
    .batch_size = 64,
    .micro_batch_size = 16,
    .epochs = 10,
    .n_derivatives = 20,
    .n_sums = 2,
    .lanes = 1,
    .train_wave_s = 0.010,
    .validate_wave_s = 0.004,
    .own_s = 0.001,
    .message_s = 0.0002,
    .bytes_per_s = 1e9,
};

static void test_rows(void) {
    struct qr_estimate_row r = qr_estimate_row(&base, 1);
    /* step 1 + 4 * 10 ms; epoch 2 * 41 + (1 + 20) + (1 + 12) = 116 ms */
    CHECK(near(r.step_s, 0.041), "%.17g", r.step_s);
    CHECK(near(r.total_s, 1.16), "%.17g", r.total_s);
    CHECK(r.speedup == 1 && r.n_workers == 1);
    CHECK(near(r.pod_hours, 1.16 / 3600), "%.17g", r.pod_hours);
    /* Two: doubling, one round. Vector 18 + 2 + 20 + 2 = 42 integers, 672 bytes, 0.672 us; without
     * gradients 22, 352 bytes. step 1 + 2 * 10 + 0.2 + 0.000672 ms; short batch 1 + 10 + ...;
     * validation 1 + 2 * 4 + 0.2 + 0.000352 */
    r = qr_estimate_row(&base, 2);
    CHECK(near(r.step_s, 0.021200672), "%.17g", r.step_s);
    CHECK(near(r.total_s, 10 * (2 * 0.021200672 + 0.011200672 + 0.009200352)), "%.17g", r.total_s);
    CHECK(near(r.speedup, 1.16 / r.total_s), "%.17g", r.speedup);
    CHECK(near(r.pod_hours, 2 * r.total_s / 3600), "%.17g", r.pod_hours);
    /* Three: star, two rounds with two vectors of 43 integers = 688 bytes through worker 0; the
     * busiest has 2 blocks of 4 */
    r = qr_estimate_row(&base, 3);
    CHECK(near(r.step_s, 0.001 + 0.020 + 2 * (0.0002 + 2 * 0.688e-6)), "%.17g", r.step_s);
    struct qr_estimate_facts f = base;
    f.lanes = 2; /* 4 blocks on one worker are two waves */
    CHECK(near(qr_estimate_row(&f, 1).step_s, 0.021));
    CHECK(near(qr_estimate_row(&f, 2).step_s, 0.011200672));
    f = base;
    f.batch_size = 1000; /* the one batch is short: 10 blocks */
    CHECK(near(qr_estimate_row(&f, 1).step_s, 0.101));
    f.n_validate = 0;
    CHECK(near(qr_estimate_row(&f, 1).total_s, 1.01));
}

static void test_reductions(void) {
    struct qr_estimate_facts f = base;
    CHECK(qr_estimate_reduce_s(&f, 1, 1000) == 0);
    f.allreduce = QR_ALLREDUCE_RING; /* 2 * 3 rounds of a fourth of 16000 bytes, 4 us */
    CHECK(near(qr_estimate_reduce_s(&f, 4, 1000), 6 * 204e-6), "%.17g",
          qr_estimate_reduce_s(&f, 4, 1000));
    /* 3 rounds of all of it, 16 us; for 6 workers the 2 rounds of 4, one to fold two workers in and
     * one to send them the result */
    f.allreduce = QR_ALLREDUCE_DOUBLING;
    CHECK(near(qr_estimate_reduce_s(&f, 8, 1000), 3 * 216e-6));
    CHECK(near(qr_estimate_reduce_s(&f, 6, 1000), 4 * 216e-6));
    /* 3 rounds there and 3 back, with seven eighths of 16 us each way; for 6 workers a ring */
    f.allreduce = QR_ALLREDUCE_HALVING;
    CHECK(near(qr_estimate_reduce_s(&f, 8, 1000), 6 * 200e-6 + 28e-6));
    CHECK(near(qr_estimate_reduce_s(&f, 6, 1200), 10 * (200e-6 + 3.2e-6)));
    f.allreduce = QR_ALLREDUCE_AUTO; /* 160 kB: ring */
    CHECK(near(qr_estimate_reduce_s(&f, 2, 10000), 2 * (200e-6 + 80e-6)));
}

static void test_best(void) {
    struct qr_estimate_facts f = base;
    /* 4 blocks a batch. Three workers are no faster than two in a whole batch. Four: 2 * 11.4 +
     * 11.4 + 5.4 = 39.6 ms an epoch against 116 ms of one, a speed-up of 2.9 >= 2. More than four
     * would be idle. */
    CHECK(qr_estimate_best(&f, 64) == 4, "%u", qr_estimate_best(&f, 64));
    CHECK(qr_estimate_best(&f, 3) == 3 || qr_estimate_best(&f, 3) == 2, "%u",
          qr_estimate_best(&f, 3));
    CHECK(qr_estimate_best(&f, 1) == 1);
    f = (struct qr_estimate_facts){.n_train = 64,
                                   .batch_size = 64,
                                   .micro_batch_size = 1,
                                   .lanes = 1,
                                   .epochs = 1,
                                   .train_wave_s = 0.001,
                                   .own_s = 0.004,
                                   .bytes_per_s = 1e18};
    /* 4 + 64 / n ms: 16 workers take 8 ms of 68, a speed-up of 8.5 >= 8; 22 take 7 ms, 9.7 < 11:
     * less than half of their time is of use, though 64 take 5 ms */
    CHECK(qr_estimate_best(&f, 64) == 16, "%u", qr_estimate_best(&f, 64));
    f = base;
    f.train_wave_s = 0.0001; /* A step takes 0.4 ms, as long as a message. */
    f.validate_wave_s = 0.00004;
    f.own_s = 0;
    f.message_s = 0.0004;
    CHECK(qr_estimate_best(&f, 64) == 1, "%u", qr_estimate_best(&f, 64));
    f = base;
    /* two: 2 * 31 + 21 + 19 = 102 < 116 ms, a speed-up of 1.14 >= 1; four: 2 * 31 + 31 + 25 = 118
     * ms is slower */
    f.message_s = 0.010;
    CHECK(qr_estimate_best(&f, 64) == 2, "%u", qr_estimate_best(&f, 64));
    f.message_s = 0.015; /* two: 2 * 36 + 26 + 24 = 122 ms */
    CHECK(qr_estimate_best(&f, 64) == 1);
}

int main(void) {
    test_rows();
    test_reductions();
    test_best();
    return t_end();
}
