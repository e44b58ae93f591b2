/* exact/functions.c — exponential, logarithm and the functions built on them (trigonometry:
 * trig.c). Start reading at exp_core() and log_core(). */
#include "exact/functions.h"

#include <stdbool.h>

#include "exact/functions_impl.h"

/* Method: one core for e^x and one for log x, both in pairs of doubles (about 2^-62 and 2^-70
 * relative), from which all the others follow with a single rounding that matters.
 *   e^x     x = k ln 2 + r, |r| <= ln 2 / 2 (Cody and Waite); e^r - 1 by its Taylor series to r^14
 *           (next term below 2^-62 of r).
 *   log x   x = 2^k m, m in [1/sqrt 2, sqrt 2]; log m = 2 atanh s, s = (m - 1)/(m + 1), to s^29.
 * The trigonometric functions are in trig.c. */

static const double infinity = __builtin_inf();

/* x * 2^k by two exact factors (the result may be subnormal or infinite). */
static double scale_by_power(double x, int k) {
    int half = k / 2, rest = k - half;
    return x * qr_double_of((uint64_t)(1023 + half) << 52) *
           qr_double_of((uint64_t)(1023 + rest) << 52);
}

/* e^(x.hi + x.lo) = 2^k (1 + result), for |x.hi| <= 750. */
static struct qr_pair exp_core(struct qr_pair x, int *ret_k) {
    static const double c[12] = {1.0 / 6,         1.0 / 24,         1.0 / 120,
                                 1.0 / 720,       1.0 / 5040,       1.0 / 40320,
                                 1.0 / 362880,    1.0 / 3628800,    1.0 / 39916800,
                                 1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200};
    double k = qr_nearest_integer(x.hi * 0x1.71547652b82fep+0);
    struct qr_pair a = qr_two_sum(x.hi, -(k * 0x1.62e42fefa3800p-1));
    struct qr_pair b = qr_two_sum(a.hi, -(k * 0x1.ef35793c76730p-45));
    struct qr_pair r = qr_fast_two_sum(b.hi, (a.lo + b.lo) + (x.lo - k * 0x1.f97b57a079a19p-103));
    /* k times the second part of ln 2 is rounded at 2^-87: add the rounding error. */
    r.lo -= qr_two_prod(k, 0x1.ef35793c76730p-45).lo;
    double p = c[11];
    for (int i = 10; i >= 0; i--) p = p * r.hi + c[i];
    struct qr_pair square = qr_two_prod(r.hi, r.hi);
    struct qr_pair s = qr_fast_two_sum(r.hi, 0.5 * square.hi);
    *ret_k = (int)k;
    return qr_fast_two_sum(
        s.hi, s.lo + (r.lo + (0.5 * square.lo + (r.hi * r.lo + r.hi * square.hi * p))));
}

/* 1 + e as a pair. */
static struct qr_pair one_plus(struct qr_pair e) {
    struct qr_pair s = qr_two_sum(1.0, e.hi);
    return qr_fast_two_sum(s.hi, s.lo + e.lo);
}

/* e^x - 1 as a pair, for |x| <= 45. */
static struct qr_pair expm1_pair(double x) {
    int k;
    struct qr_pair e = exp_core((struct qr_pair){x, 0}, &k);
    if (k == 0) return e;
    struct qr_pair s = one_plus(e);
    double f = qr_double_of((uint64_t)(1023 + k) << 52);
    struct qr_pair d = qr_two_sum(s.hi * f, -1.0);
    return qr_fast_two_sum(d.hi, d.lo + s.lo * f);
}

static double exp_pair(struct qr_pair x) {
    if (x.hi > 710.0) return infinity;
    if (x.hi < -746.0) return 0.0;
    int k;
    struct qr_pair e = exp_core(x, &k);
    return scale_by_power(one_plus(e).hi, k);
}

double qr_exp(double x) { return x != x ? x : exp_pair((struct qr_pair){x, 0}); }

double qr_expm1(double x) {
    if (x != x || (x > -0x1p-54 && x < 0x1p-54)) return x;
    if (x > 45.0) return qr_exp(x); /* The 1 is below 2^-64 of the result. */
    if (x < -45.0) return -1.0;
    return expm1_pair(x).hi;
}

/* log(x + rest) for finite x > 0, |rest| <= ulp(x) / 2. */
static struct qr_pair log_core(double x, double rest) {
    int k = 0;
    if (x < 0x1p-1022) { /* Subnormal */
        x *= 0x1p54;
        k = -54;
    }
    /* Exponents change at sqrt(1/2), so that m is in [0.7071, 1.4142). */
    uint64_t bits = qr_bits_of(x) + (0x3ff0000000000000 - 0x3fe6a09e00000000);
    k += (int)(bits >> 52) - 1023;
    double m = qr_double_of((bits & 0xfffffffffffff) + 0x3fe6a09e00000000);
    double tail = rest == 0 ? 0 : scale_by_power(rest, -k);
    struct qr_pair above = qr_two_sum(m - 1.0, tail), below = qr_two_sum(m, 1.0);
    below.lo += tail;
    struct qr_pair s = qr_pair_div(above, below), z = qr_pair_mul(s, s);
    double p = 1.0 / 29;
    for (int i = 27; i >= 7; i -= 2) p = p * z.hi + 1.0 / i;
    struct qr_pair t = qr_pair_add((struct qr_pair){0x1.999999999999ap-3, -0x1.999999999999ap-57},
                                   qr_pair_mul(z, (struct qr_pair){p, 0}));
    t = qr_pair_add((struct qr_pair){0x1.5555555555555p-2, 0x1.5555555555555p-56},
                    qr_pair_mul(z, t));
    t = qr_pair_mul(qr_pair_mul(s, z), t);
    t = qr_pair_add(s, t);
    struct qr_pair twice = {2 * t.hi, 2 * t.lo};
    if (k == 0) return twice;
    struct qr_pair l = qr_two_prod((double)k, 0x1.ef35793c76730p-45);
    l = qr_pair_add(qr_fast_two_sum(k * 0x1.62e42fefa3800p-1, l.hi), (struct qr_pair){l.lo, 0});
    return qr_pair_add(l, twice);
}

double qr_log(double x) {
    if (x != x || x == infinity) return x;
    if (x < 0) return __builtin_nan("");
    if (x == 0) return -infinity;
    return log_core(x, 0).hi;
}

double qr_log1p(double x) {
    if (x != x || x == infinity || (x > -0x1p-54 && x < 0x1p-54)) return x;
    if (x < -1) return __builtin_nan("");
    if (x == -1) return -infinity;
    struct qr_pair s = qr_two_sum(1.0, x);
    return log_core(s.hi, s.lo).hi;
}

double qr_tanh(double x) {
    if (x != x || (x > -0x1p-28 && x < 0x1p-28)) return x; /* x^3 / 3 is below 2^-57 of x. */
    double size = x < 0 ? -x : x, t = 1.0;
    if (size < 22.0) { /* Above 22, 1 - tanh x < 2^-62. */
        struct qr_pair e = expm1_pair(2 * size);
        t = qr_pair_div(e, qr_pair_add(e, (struct qr_pair){2.0, 0})).hi;
    }
    return x < 0 ? -t : t;
}

double qr_sigmoid(double x) {
    if (x != x) return x;
    if (x < -40.0) return qr_exp(x); /* 1 + e^x is 1 within 2^-57. */
    if (x > 40.0) return 1.0;
    int k;
    struct qr_pair e = exp_core((struct qr_pair){x < 0 ? x : -x, 0}, &k);
    double f = qr_double_of((uint64_t)(1023 + k) << 52);
    e = one_plus(e);
    e = (struct qr_pair){e.hi * f, e.lo * f}; /* e^-|x| */
    return qr_pair_div(x < 0 ? e : (struct qr_pair){1.0, 0}, one_plus(e)).hi;
}

/* x^y = (-1)^y (-x)^y. */
static double pow_of_negative(double x, double y) {
    double half = 0.5 * y;
    if (y != __builtin_floor(y)) return __builtin_nan("");
    return half == __builtin_floor(half) ? qr_pow(-x, y) : -qr_pow(-x, y);
}

double qr_pow(double x, double y) {
    if (y == 0 || x == 1) return 1.0;
    if (x != x || y != y) return __builtin_nan("");
    if (x < 0) return pow_of_negative(x, y);
    bool grows = (x > 1) == (y > 0); /* Tends to infinity, else to 0. */
    if (x == 0 || x == infinity || y == infinity || y == -infinity) return grows ? infinity : 0.0;
    struct qr_pair l = log_core(x, 0);
    double p = y * l.hi;
    if (!(p < 750.0 && p > -750.0)) return grows ? infinity : 0.0;
    struct qr_pair e = qr_two_prod(y, l.hi);
    return exp_pair(qr_fast_two_sum(e.hi, e.lo + y * l.lo));
}
