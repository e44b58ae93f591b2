/* exact/functions_impl.h — pairs of doubles: error-free sums and products.
 *
 * A pair (hi, lo) represents hi + lo with |lo| <= ulp(hi) / 2. TwoSum is Knuth's; FastTwoSum and
 * the product with Veltkamp's split are Dekker's (Numer. Math. 18, 1971). The operations are exact
 * under round-to-nearest while nothing overflows. They use no fma, so that a base ISA without FMA
 * loses no time. */
#ifndef QR_EXACT_FUNCTIONS_IMPL_H
#define QR_EXACT_FUNCTIONS_IMPL_H

#include <stdint.h>
#include <string.h>

struct qr_pair {
    double hi, lo;
};

static inline uint64_t qr_bits_of(double x) {
    uint64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}
static inline double qr_double_of(uint64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* Nearest integer, ties to even, for |x| < 2^51: the rounding of the sum does the work. */
static inline double qr_nearest_integer(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

static inline struct qr_pair qr_two_sum(double a, double b) {
    double s = a + b, t = s - a;
    return (struct qr_pair){s, (a - (s - t)) + (b - t)};
}
/* Requires |a| >= |b| or a = 0. */
static inline struct qr_pair qr_fast_two_sum(double a, double b) {
    double s = a + b;
    return (struct qr_pair){s, b - (s - a)};
}
static inline struct qr_pair qr_two_prod(double a, double b) {
    double p = a * b, ca = 0x1.0000002p27 * a, cb = 0x1.0000002p27 * b;
    double ah = ca - (ca - a), bh = cb - (cb - b), al = a - ah, bl = b - bh;
    return (struct qr_pair){p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
}
static inline struct qr_pair qr_pair_add(struct qr_pair a, struct qr_pair b) {
    struct qr_pair s = qr_two_sum(a.hi, b.hi);
    return qr_fast_two_sum(s.hi, s.lo + (a.lo + b.lo));
}
static inline struct qr_pair qr_pair_mul(struct qr_pair a, struct qr_pair b) {
    struct qr_pair p = qr_two_prod(a.hi, b.hi);
    return qr_fast_two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
static inline struct qr_pair qr_pair_div(struct qr_pair a, struct qr_pair b) {
    double q = a.hi / b.hi;
    struct qr_pair p = qr_two_prod(q, b.hi);
    double rest = ((a.hi - p.hi) - p.lo) + (a.lo - q * b.lo);
    return qr_fast_two_sum(q, rest / b.hi);
}

#endif
