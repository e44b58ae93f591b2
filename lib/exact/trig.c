/* exact/trig.c — trigonometric functions and their inverses. Start reading at qr_sincos() and
 * point_angle(). */
#include "exact/functions.h"

#include <stdbool.h>

#include "base/mem.h"
#include "exact/functions_impl.h"

/* Method: x = n * pi/2 + (y, t) with |y| <= pi/4, then the Taylor polynomials of sin and cos (to
 * y^17 and y^18; the next term is below 2^-60 of the result), with the tail t of the reduced
 * argument to first order.
 *
 * Reduction: for |x| < 2^20 Cody and Waite's, pi/2 in three parts of 33 bits, so that their
 * products with n are exact, and a fourth of 53 bits. Above, Payne and Hanek's (SIGNUM 18, 1983)
 * with the 192 bits of 2/pi that matter for the exponent of x. No double below 2^1024 comes nearer
 * than 2^-62 to a multiple of pi/2, so of 137 fraction bits 75 are accurate. */

static const double pi_hi = 0x1.921fb54442d18p+1, pi_lo = 0x1.1a62633145c07p-53;
static const double pio2_hi = 0x1.921fb54442d18p+0, pio2_lo = 0x1.1a62633145c07p-54;

/* A zero word, then 1280 bits of 2/pi. */
static const uint64_t two_over_pi[21] = {
    0,
    0xa2f9836e4e441529,
    0xfc2757d1f534ddc0,
    0xdb6295993c439041,
    0xfe5163abdebbc561,
    0xb7246e3a424dd2e0,
    0x06492eea09d1921c,
    0xfe1deb1cb129a73e,
    0xe88235f52ebb4484,
    0xe99c7026b45f7e41,
    0x3991d639835339f4,
    0x9c845f8bbdf9283b,
    0x1ff897ffde05980f,
    0xef2f118b5a0a6d1f,
    0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b,
    0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08,
    0x56033046fc7b6bab,
    0xf0cfbc209af4361d,
};

/* sin and cos of y + t, |y| <= pi/4: the corrections added to y and to the rounded 1 - y^2 / 2. */
static const double sine[8] = {
    -1.0 / 6,        1.0 / 120,        -1.0 / 5040,          1.0 / 362880,
    -1.0 / 39916800, 1.0 / 6227020800, -1.0 / 1307674368000, 1.0 / 355687428096000};
static const double cosine[8] = {
    1.0 / 24,        -1.0 / 720,         1.0 / 40320,          -1.0 / 3628800,
    1.0 / 479001600, -1.0 / 87178291200, 1.0 / 20922789888000, -1.0 / 6402373705728000};
static double sin_rest(double y, double t) {
    double z = y * y, p = sine[7];
    for (int i = 6; i >= 0; i--) p = p * z + sine[i];
    return y * z * p + t * (1.0 - 0.5 * z);
}
static double cos_rest(double y, double t) {
    double z = y * y, half = 0.5 * z, w = 1.0 - half, p = cosine[7];
    for (int i = 6; i >= 0; i--) p = p * z + cosine[i];
    return ((1.0 - w) - half) + (z * z * p - y * t);
}
static double sin_kernel(double y, double t) { return y + sin_rest(y, t); }
static double cos_kernel(double y, double t) { return 1.0 - 0.5 * (y * y) + cos_rest(y, t); }

/* The unrounded sine and cosine, within about 2^-56. */
static void sincos_pairs(struct qr_pair y, struct qr_pair *ret_sin, struct qr_pair *ret_cos) {
    *ret_sin = qr_fast_two_sum(y.hi, sin_rest(y.hi, y.lo));
    *ret_cos = qr_fast_two_sum(1.0 - 0.5 * (y.hi * y.hi), cos_rest(y.hi, y.lo));
}

/* x mod pi/2 for |x| >= 2^20, finite. Returns the quadrant. */
static unsigned trig_reduce_large(double x, struct qr_pair *ret) {
    uint64_t bits = qr_bits_of(x), m = (bits & 0xfffffffffffff) | 0x10000000000000;
    int e = (int)(bits >> 52 & 0x7ff) - 1075; /* |x| = m * 2^e */
    /* Bits of weight 4 and more drop out; the leading zero word covers small exponents. */
    unsigned at = (unsigned)(e - 2 + 64);
    unsigned word = at / 64, shift = at % 64;
    uint64_t w[4];
    for (unsigned i = 0; i < 3; i++) {
        uint64_t next = shift ? two_over_pi[word + i + 1] >> (64 - shift) : 0;
        w[i] = two_over_pi[word + i] << shift | next;
    }
    /* (m * w) mod 2^192 is |x| * 2/pi mod 4 with 190 fraction bits. */
    unsigned __int128 p2 = (unsigned __int128)m * w[2];
    unsigned __int128 p1 = (unsigned __int128)m * w[1] + (uint64_t)(p2 >> 64);
    uint64_t r2 = (uint64_t)p2, r1 = (uint64_t)p1, r0 = m * w[0] + (uint64_t)(p1 >> 64);
    unsigned quadrant = (unsigned)(r0 >> 62);
    /* Fraction, 128 bits */
    unsigned __int128 high = ((unsigned __int128)r0 << 64 | r1) << 2 | r2 >> 62;
    bool negative = high >> 127;
    if (negative) {
        high = -high; /* The bits below 2^-128 are beyond the stated accuracy. */
        quadrant++;
    }
    /* Leading 53 bits and the next 53, each exact. */
    int zeros = (uint64_t)(high >> 64) ? __builtin_clzll((uint64_t)(high >> 64))
                                       : 64 + __builtin_clzll((uint64_t)high | 1);
    high <<= zeros;
    double hi = (double)(uint64_t)(high >> 75) * 0x1p-53,
           lo = (double)(uint64_t)(high << 53 >> 75) * 0x1p-106;
    uint64_t scale = (uint64_t)(1023 - zeros) << 52;
    struct qr_pair f = {hi * qr_double_of(scale), lo * qr_double_of(scale)};
    f = qr_pair_mul(f, (struct qr_pair){pio2_hi, pio2_lo});
    if (negative != (x < 0)) f = (struct qr_pair){-f.hi, -f.lo};
    *ret = f;
    return x < 0 ? -quadrant & 3 : quadrant & 3;
}

static unsigned trig_reduce(double x, struct qr_pair *ret) {
    if (x > -0.75 && x < 0.75) {
        *ret = (struct qr_pair){x, 0};
        return 0;
    }
    if (!(x > -0x1p20 && x < 0x1p20)) return trig_reduce_large(x, ret);
    double n = qr_nearest_integer(x * 0x1.45f306dc9c883p-1);
    struct qr_pair a = qr_two_sum(x - n * 0x1.921fb544p+0, -(n * 0x1.0b4611a6p-34));
    struct qr_pair b = qr_two_sum(a.hi, -(n * 0x1.3198a2ep-69));
    *ret = qr_fast_two_sum(b.hi, (a.lo + b.lo) - n * 0x1.b839a252049c1p-104);
    return (unsigned)(int64_t)n & 3;
}

static void sincos_in_quadrant(unsigned quadrant, struct qr_pair r, double *ret_sin,
                               double *ret_cos) {
    double s = sin_kernel(r.hi, r.lo), c = cos_kernel(r.hi, r.lo);
    double sin = quadrant & 1 ? c : s, cos = quadrant & 1 ? s : c;
    *ret_sin = quadrant & 2 ? -sin : sin;
    *ret_cos = (quadrant + 1) & 2 ? -cos : cos;
}

void qr_sincos(double x, double *ret_sin, double *ret_cos) {
    struct qr_pair r;
    if (x - x != 0) { /* Infinite or NaN */
        *ret_sin = *ret_cos = x - x;
        return;
    }
    unsigned quadrant = trig_reduce(x, &r);
    sincos_in_quadrant(quadrant, r, ret_sin, ret_cos);
    if (x == 0) *ret_sin = x; /* Keep the sign of -0. */
}

double qr_sin(double x) {
    double s, c;
    qr_sincos(x, &s, &c);
    return s;
}

double qr_cos(double x) {
    double s, c;
    qr_sincos(x, &s, &c);
    return c;
}

void qr_sincospi(double x, double *ret_sin, double *ret_cos) {
    if (x - x != 0) {
        *ret_sin = *ret_cos = x - x;
        return;
    }
    double size = x < 0 ? -x : x;
    if (size >= 0x1p53) size = 0; /* An even integer */
    uint64_t n;
    double rest;
    if (size < 0x1p50) {
        double twice = qr_nearest_integer(2 * size);
        n = (uint64_t)twice;
        rest = size - 0.5 * twice; /* Exact */
    } else {
        n = (uint64_t)(2 * size); /* x is a multiple of 1/4 below 2^51, of 1/2 above. */
        rest = size - 0.5 * (double)n;
    }
    double s, c;
    if (rest == 0) {
        s = n & 1 ? (n & 2 ? -1.0 : 1.0) : 0.0;
        c = n & 1 ? 0.0 : (n & 2 ? -1.0 : 1.0);
    } else {
        struct qr_pair r = qr_two_prod(rest, pi_hi);
        sincos_in_quadrant((unsigned)n & 3, qr_fast_two_sum(r.hi, r.lo + rest * pi_lo), &s, &c);
    }
    *ret_sin = qr_bits_of(x) >> 63 ? -s : s;
    *ret_cos = c;
}

/* Vectors of two lanes, which every base instruction set has; four of them keep the CPU busy. Each
 * number is computed by the same operations as in qr_sincospi. */
typedef double two __attribute__((vector_size(16)));
typedef int64_t two_bits __attribute__((vector_size(16)));
enum { TWOS = QR_SINCOSPI_MANY / 2 };
#define EACH_TWO _Pragma("GCC unroll 4") for (unsigned i = 0; i < TWOS; i++)

/* y = rest * pi, with tail t. */
static void multiply_by_pi(const two rest[TWOS], two y[TWOS], two t[TWOS]) {
    EACH_TWO {
        double c = 0x1.0000002p27 * pi_hi, bh = c - (c - pi_hi), bl = pi_hi - bh;
        two p = rest[i] * pi_hi, ca = 0x1.0000002p27 * rest[i], ah = ca - (ca - rest[i]),
            al = rest[i] - ah;
        two lo = (((ah * bh - p) + ah * bl + al * bh) + al * bl) + rest[i] * pi_lo;
        y[i] = p + lo;
        t[i] = lo - (y[i] - p);
    }
}

/* Overwrites y with the sine and t with the cosine. */
static void sincos_twos(two y[TWOS], two t[TWOS]) {
    two z[TWOS] QR_RAW, p[TWOS] QR_RAW, q[TWOS] QR_RAW;
    EACH_TWO {
        z[i] = y[i] * y[i];
        p[i] = z[i] * sine[7] + sine[6];
        q[i] = z[i] * cosine[7] + cosine[6];
    }
#pragma GCC unroll 8
    for (int k = 5; k >= 0; k--) EACH_TWO {
            p[i] = p[i] * z[i] + sine[k];
            q[i] = q[i] * z[i] + cosine[k];
        }
    EACH_TWO {
        two half = 0.5 * z[i], w = 1.0 - half;
        two sin = y[i] + (y[i] * z[i] * p[i] + t[i] * (1.0 - half)),
            cos = w + (((1.0 - w) - half) + (z[i] * z[i] * q[i] - y[i] * t[i]));
        y[i] = sin;
        t[i] = cos;
    }
}

void qr_sincospi_many(const double x[QR_SINCOSPI_MANY], double ret_sin[QR_SINCOSPI_MANY],
                      double ret_cos[QR_SINCOSPI_MANY]) {
    const two_bits sign = (two_bits){INT64_MIN, INT64_MIN};
    two rest[TWOS] QR_RAW, y[TWOS] QR_RAW, t[TWOS] QR_RAW;
    two_bits n[TWOS] QR_RAW;
    bool small = true; /* False for NaN too */
    for (unsigned i = 0; i < QR_SINCOSPI_MANY; i++) small &= x[i] > -0x1p50 && x[i] < 0x1p50;
    for (unsigned i = 0; i < QR_SINCOSPI_MANY && !small; i++)
        qr_sincospi(x[i], &ret_sin[i], &ret_cos[i]);
    if (!small) return;
    EACH_TWO {
        two a = {x[2 * i], x[2 * i + 1]};
        two size = (two)((two_bits)a & ~sign), sum = 2 * size + 0x1.8p52;
        n[i] = (two_bits)sum; /* The lowest bits are those of the rounded integer. */
        rest[i] = size - 0.5 * (sum - 0x1.8p52);
    }
    multiply_by_pi(rest, y, t);
    sincos_twos(y, t);
    EACH_TWO {
        two_bits odd = -(n[i] & 1), s = (two_bits)y[i], c = (two_bits)t[i],
                 sin = ((c & odd) | (s & ~odd)) ^ (n[i] & 2) << 62,
                 cos = ((s & odd) | (c & ~odd)) ^ ((n[i] + 1) & 2) << 62;
        two_bits minus = {(int64_t)qr_bits_of(x[2 * i]), (int64_t)qr_bits_of(x[2 * i + 1])};
        /* A zero has the sign of x. */
        two a = (two)((two_bits)((two)sin + 0.0) ^ (minus & sign)), b = (two)cos + 0.0;
        memcpy(ret_sin + 2 * i, &a, sizeof a);
        memcpy(ret_cos + 2 * i, &b, sizeof b);
    }
}

double qr_tan(double x) {
    struct qr_pair r, s, c;
    if (x - x != 0) return x - x; /* Infinite or NaN */
    if (x > -0x1p-28 && x < 0x1p-28) return x;
    unsigned quadrant = trig_reduce(x, &r);
    sincos_pairs(r, &s, &c);
    if (!(quadrant & 1)) return qr_pair_div(s, c).hi;
    return -qr_pair_div(c, s).hi;
}

/* ---- inverse functions ----
 *
 * Each is the angle of a point (x, y) with x, y >= 0 and not both 0. A first angle a, accurate to
 * 2^-21, comes from atan t = 4 atan u, u = tan of a quarter of the angle, by two half-angle steps
 * and a short Taylor series. Rotated back by a, the point has the tangent
 * (y cos a - x sin a) / (x cos a + y sin a), so small that it equals its angle. */

static struct qr_pair pair_negate(struct qr_pair a) { return (struct qr_pair){-a.hi, -a.lo}; }

static struct qr_pair sqrt_pair(struct qr_pair a) {
    if (a.hi == 0) return a;
    double s = __builtin_sqrt(a.hi);
    struct qr_pair p = qr_two_prod(s, s);
    return qr_fast_two_sum(s, ((a.hi - p.hi) - p.lo + a.lo) / (2 * s));
}

static struct qr_pair angle_below_45(struct qr_pair y, struct qr_pair x) {
    double t = y.hi / x.hi;
    t = t / (1.0 + __builtin_sqrt(1.0 + t * t));
    t = t / (1.0 + __builtin_sqrt(1.0 + t * t));
    double z = t * t, a = 4 * (t - t * z * (1.0 / 3 - z * (1.0 / 5 - z * (1.0 / 7 - z / 9))));
    struct qr_pair s, c;
    sincos_pairs((struct qr_pair){a, 0}, &s, &c);
    struct qr_pair rest = qr_pair_add(qr_pair_mul(y, c), pair_negate(qr_pair_mul(x, s)));
    return qr_fast_two_sum(a, rest.hi / (x.hi * c.hi + y.hi * s.hi));
}

/* Angle of (x, y), in [0, pi/2]. */
static struct qr_pair point_angle(struct qr_pair y, struct qr_pair x) {
    if (y.hi <= x.hi) return angle_below_45(y, x);
    return qr_pair_add((struct qr_pair){pio2_hi, pio2_lo}, pair_negate(angle_below_45(x, y)));
}

/* Cosine of the angle with the sine |x| <= 1. */
static struct qr_pair pair_cosine(double x) {
    double size = x < 0 ? -x : x;
    return sqrt_pair(qr_pair_mul(qr_two_sum(1.0, -size), qr_two_sum(1.0, size)));
}

double qr_atan(double x) {
    double size = x < 0 ? -x : x, a = size;
    if (x != x) return x;
    if (size >= 0x1p60) a = pio2_hi;
    else if (size >= 0x1p-28) a = point_angle((struct qr_pair){size, 0}, (struct qr_pair){1, 0}).hi;
    return x < 0 ? -a : size == 0 ? x : a;
}

double qr_atan2(double y, double x) {
    double width = x < 0 ? -x : x, height = y < 0 ? -y : y;
    if (x != x || y != y) return x + y;
    if (height <= 0) return x < 0 ? 2 * pio2_hi : 0;
    if (width <= height) {
        double a = qr_atan(x / y); /* The angle to the other axis */
        return y > 0 ? pio2_hi - a : -pio2_hi - a;
    }
    double a = qr_atan(y / x);
    return x > 0 ? a : y > 0 ? a + 2 * pio2_hi : a - 2 * pio2_hi;
}

double qr_hypot(double x, double y) {
    double a = x < 0 ? -x : x, b = y < 0 ? -y : y, large = a < b ? b : a, small = a < b ? a : b;
    if (!(small > 0)) return large + small;
    double ratio = small / large;
    return large * __builtin_sqrt(1 + ratio * ratio);
}

double qr_asin(double x) {
    double size = x < 0 ? -x : x;
    if (x != x || size < 0x1p-28) return x;
    if (size > 1.0) return __builtin_nan("");
    double a = point_angle((struct qr_pair){size, 0}, pair_cosine(x)).hi;
    return x < 0 ? -a : a;
}

double qr_acos(double x) {
    double size = x < 0 ? -x : x;
    if (x != x) return x;
    if (size > 1.0) return __builtin_nan("");
    struct qr_pair a = point_angle(pair_cosine(x), (struct qr_pair){size, 0});
    if (x >= 0) return a.hi;
    return qr_pair_add((struct qr_pair){2 * pio2_hi, 2 * pio2_lo}, pair_negate(a)).hi;
}
