/* Elementary functions against libm's long double (64-bit significand: its own error is 2^-11 ulp
 * of a double). */
#include "exact/functions.h"

#include <math.h>
#include <stdint.h>

#include "tests/t.h"

static uint64_t state = 88172645463325252u;
static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}
static double uniform(double lo, double hi) {
    return lo + (hi - lo) * ((double)(next() >> 11) * 0x1p-53);
}
static double of_bits(uint64_t b) {
    double x;
    memcpy(&x, &b, sizeof x);
    return x;
}

/* |got - want| in ulps of want as a double; for subnormals in units of the smallest double. */
static double ulps(double got, long double want) {
    double w = (double)want;
    if (isnan(got) || isnan(w)) return isnan(got) && isnan(w) ? 0 : INFINITY;
    if (isinf(got) || isinf(w)) return got == w ? 0 : INFINITY;
    int e;
    frexp(w, &e);
    return (double)(fabsl((long double)got - want) / ldexpl(1, e - 53 < -1074 ? -1074 : e - 53));
}

struct worst {
    double ulps, at;
};
static void note(struct worst *w, double x, double got, long double want) {
    double u = ulps(got, want);
    if (!(u <= w->ulps)) w->ulps = u, w->at = x;
}

static double sinpi_of(double x) {
    double s, c;
    qr_sincospi(x, &s, &c);
    return s;
}
static double cospi_of(double x) {
    double s, c;
    qr_sincospi(x, &s, &c);
    return c;
}
/* x is reduced exactly before it is multiplied by pi, so the reference is as accurate as sinl near
 * 0. */
static long double sinpil_of(long double x) {
    long double r = x - 2 * rintl(x / 2); /* [-1, 1], exact */
    if (r > 0.5L) r = 1 - r;
    if (r < -0.5L) r = -1 - r;
    return fabsl(r) > 0.25L
               ? copysignl(cosl(3.14159265358979323846264338327950288L * (0.5L - fabsl(r))), r)
               : sinl(3.14159265358979323846264338327950288L * r);
}
static long double cospil_of(long double x) {
    long double r = fabsl(x - 2 * rintl(x / 2));
    return sinpil_of(0.5L - r);
}
static long double sigmoidl_of(long double x) {
    return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x));
}

static const struct {
    const char *name;
    double (*f)(double);
    long double (*ref)(long double);
    double lo, hi, limit;
} cases[] = {
    {"sin", qr_sin, sinl, -0.8, 0.8, 1},
    {"sin", qr_sin, sinl, -10, 10, 1},
    {"sin", qr_sin, sinl, -0x1p20, 0x1p20, 1},
    {"sin", qr_sin, sinl, -0x1p23, 0x1p23, 1},
    {"sin", qr_sin, sinl, -1e15, 1e15, 1},
    {"cos", qr_cos, cosl, -0.8, 0.8, 1},
    {"cos", qr_cos, cosl, -10, 10, 1},
    {"cos", qr_cos, cosl, -0x1p20, 0x1p20, 1},
    {"cos", qr_cos, cosl, -1e15, 1e15, 1},
    {"sinpi", sinpi_of, sinpil_of, -2.1, 2.1, 1},
    {"cospi", cospi_of, cospil_of, -2.1, 2.1, 1},
    {"sinpi", sinpi_of, sinpil_of, -1e5, 1e5, 1},
    {"cospi", cospi_of, cospil_of, -1e5, 1e5, 1},
    {"tan", qr_tan, tanl, -0.8, 0.8, 2},
    {"tan", qr_tan, tanl, -10, 10, 2},
    {"tan", qr_tan, tanl, -1e15, 1e15, 2},
    {"asin", qr_asin, asinl, -1, 1, 1},
    {"asin", qr_asin, asinl, -1e-3, 1e-3, 1},
    {"asin", qr_asin, asinl, 0.9999, 1, 1},
    {"acos", qr_acos, acosl, -1, 1, 1},
    {"acos", qr_acos, acosl, -1e-3, 1e-3, 1},
    {"acos", qr_acos, acosl, 0.9999, 1, 1},
    {"atan", qr_atan, atanl, -1.1, 1.1, 1},
    {"atan", qr_atan, atanl, -50, 50, 1},
    {"atan", qr_atan, atanl, -1e-3, 1e-3, 1},
    {"exp", qr_exp, expl, -1, 1, 1},
    {"exp", qr_exp, expl, -750, 712, 1},
    {"expm1", qr_expm1, expm1l, -1, 1, 1},
    {"expm1", qr_expm1, expm1l, -60, 712, 1},
    {"expm1", qr_expm1, expm1l, -1e-5, 1e-5, 1},
    {"log", qr_log, logl, 0, 3, 1},
    {"log", qr_log, logl, 0.999, 1.001, 1},
    {"log", qr_log, logl, 1e-300, 1e300, 1},
    {"log1p", qr_log1p, log1pl, -1, 3, 1},
    {"log1p", qr_log1p, log1pl, -1e-4, 1e-4, 1},
    {"log1p", qr_log1p, log1pl, 0, 1e20, 1},
    {"tanh", qr_tanh, tanhl, -1, 1, 2},
    {"tanh", qr_tanh, tanhl, -25, 25, 2},
    {"tanh", qr_tanh, tanhl, -1e-3, 1e-3, 2},
    {"sigmoid", qr_sigmoid, sigmoidl_of, -3, 3, 2},
    {"sigmoid", qr_sigmoid, sigmoidl_of, -760, 50, 2},
};

static void test_ranges(void) {
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct worst w = {0};
        for (int k = 0; k < 20000; k++) {
            double x = uniform(cases[i].lo, cases[i].hi);
            note(&w, x, cases[i].f(x), cases[i].ref(x));
        }
        printf("%-8s [%g, %g]: worst %.4f ulp at %a\n", cases[i].name, cases[i].lo, cases[i].hi,
               w.ulps, w.at);
        CHECK(w.ulps <= cases[i].limit, "%s at %a: %g ulp", cases[i].name, w.at, w.ulps);
    }
}

/* Random bit patterns cover every exponent; glibc's sinl reduces large arguments by Payne-Hanek. */
static void test_all_exponents(void) {
    struct worst s = {0}, c = {0}, l = {0}, t = {0}, a = {0};
    for (int k = 0; k < 40000; k++) {
        double x = of_bits(next());
        if (!isfinite(x)) continue;
        note(&s, x, qr_sin(x), sinl(x));
        note(&c, x, qr_cos(x), cosl(x));
        note(&l, x, qr_log(fabs(x)), logl(fabsl(x)));
        note(&t, x, qr_tan(x), tanl(x));
        note(&a, x, qr_atan(x), atanl(x));
    }
    CHECK(t.ulps <= 2 && a.ulps <= 1, "tan, atan at %a %a: %g, %g ulp", t.at, a.at, t.ulps, a.ulps);
    printf("all exponents: sin %.4f cos %.4f log %.4f ulp\n", s.ulps, c.ulps, l.ulps);
    CHECK(s.ulps <= 1 && c.ulps <= 1 && l.ulps <= 1, "at %a %a %a", s.at, c.at, l.at);
}

/* Functions of two arguments: all sizes and quadrants. */
static void test_pairs(void) {
    struct worst a = {0}, h = {0};
    for (int k = 0; k < 40000; k++) {
        double x = k % 2 ? uniform(-3, 3) : of_bits(next()),
               y = k % 3 ? x * uniform(-2, 2) : of_bits(next());
        if (!isfinite(x) || !isfinite(y)) continue;
        note(&a, x, qr_atan2(y, x), atan2l(y, x));
        note(&h, x, qr_hypot(y, x), hypotl(y, x));
    }
    printf("atan2 %.4f hypot %.4f ulp\n", a.ulps, h.ulps);
    CHECK(a.ulps <= 2 && h.ulps <= 2, "atan2, hypot at %a %a: %g, %g ulp", a.at, h.at, a.ulps,
          h.ulps);
    CHECK(qr_atan2(0, 0) == 0 && qr_atan2(-0.0, -1) == M_PI && qr_atan2(-0.0, 1) == 0 &&
          qr_atan2(1, 0) == M_PI_2 && qr_atan2(-1, 0) == -M_PI_2 && qr_atan2(1, -1) == 3 * M_PI_4 &&
          isnan(qr_atan2(0, NAN)) && isnan(qr_atan2(NAN, 0)));
    CHECK(qr_hypot(0, -0.0) == 0 && qr_hypot(-3, 4) == 5 && qr_hypot(0, -7) == 7 &&
          isinf(qr_hypot(-INFINITY, 1)) && isnan(qr_hypot(NAN, 0)) && isnan(qr_hypot(0, NAN)) &&
          isnan(qr_hypot(1, NAN)) && qr_hypot(0x1p-1074, 0) == 0x1p-1074);
}

/* Doubles next to multiples of pi/2, with the classic worst case of the whole range. */
static void test_near_multiples(void) {
    struct worst s = {0}, t = {0};
    for (int n = 1; n < 20000; n++) {
        double x = (double)(n * 37 % 700001) * 0x1.921fb54442d18p+0;
        note(&s, x, qr_sin(x), sinl(x));
        note(&s, x, qr_cos(x), cosl(x));
        note(&t, x, qr_tan(x), tanl(x));
    }
    CHECK(t.ulps <= 2, "tan at %a: %g ulp", t.at, t.ulps);
    /* 6381956970095103 * 2^797, 2^-61 from a multiple of pi/2 */
    double worst_case = 0x1.6ac5b262ca1ffp+849;
    note(&s, worst_case, qr_sin(worst_case), sinl(worst_case));
    note(&s, worst_case, qr_cos(worst_case), cosl(worst_case));
    CHECK(s.ulps <= 1, "%a: %g ulp", s.at, s.ulps);
    /* Both reductions meet at 2^20. */
    for (int i = -3; i <= 3; i++) {
        double x = of_bits(0x4130000000000000u + (uint64_t)i);
        CHECK(ulps(qr_sin(x), sinl(x)) <= 1 && ulps(qr_cos(x), cosl(x)) <= 1, "%a", x);
    }
}

static void test_pow(void) {
    struct worst w = {0};
    for (int k = 0; k < 40000; k++) {
        double x = uniform(0, 3), y = uniform(-600, 600);
        if (k % 4 == 0) x = exp2(uniform(-1000, 1000)), y = uniform(-1.1, 1.1);
        if (k % 4 == 1) x = uniform(0.999, 1.001), y = uniform(-1e5, 1e5);
        if (k % 4 == 2) x = uniform(0.9, 1), y = uniform(0, 100); /* learning rates */
        note(&w, x, qr_pow(x, y), powl(x, y));
    }
    printf("pow: worst %.4f ulp at x = %a\n", w.ulps, w.at);
    CHECK(w.ulps <= 1, "pow at x %a: %g ulp", w.at, w.ulps);
    CHECK(qr_pow(0, 0) == 1 && qr_pow(0, 2) == 0 && isinf(qr_pow(0, -1)) &&
          qr_pow(1, INFINITY) == 1);
    CHECK(qr_pow(2, 10) == 1024 && qr_pow(2, -1074) == 0x1p-1074 && qr_pow(0.96, 1) == 0.96);
    CHECK(qr_pow(INFINITY, -1) == 0 && isinf(qr_pow(INFINITY, 0.5)) && qr_pow(0.5, INFINITY) == 0 &&
          isinf(qr_pow(0.5, -INFINITY)));
    CHECK(isinf(qr_pow(10, 309)) && qr_pow(10, -330) == 0 && isnan(qr_pow(-1, 0.5)) &&
          isnan(qr_pow(NAN, 1)));
    CHECK(qr_pow(-2, 3) == -8 && qr_pow(-2, -2) == 0.25 && qr_pow(-1, 1e300) == 1 &&
          isinf(qr_pow(-2, INFINITY)) && isnan(qr_pow(-2, NAN)));
    CHECK(isinf(qr_pow(1 + 0x1p-52, 1e300)) && qr_pow(1 + 0x1p-52, -1e300) == 0);
}

static void test_exact_points(void) {
    for (int i = -4000; i <= 4000; i++) {
        double s, c, want_s[4] = {0, 1, 0, -1}, want_c[4] = {1, 0, -1, 0};
        qr_sincospi(i * 0.5, &s, &c);
        CHECK(s == want_s[i & 3] && c == want_c[i & 3], "sincospi(%g) = %g, %g", i * 0.5, s, c);
    }
    double s, c;
    qr_sincospi(0x1p51 + 0.5, &s, &c);
    CHECK(s == 1 && c == 0);
    qr_sincospi(0x1p50 + 0.25, &s, &c);
    CHECK(ulps(s, sqrtl(0.5L)) <= 1 && ulps(c, sqrtl(0.5L)) <= 1);
    qr_sincospi(-0x1p52 - 1, &s, &c);
    CHECK(s == 0 && c == -1);
    qr_sincospi(0x1p60, &s, &c);
    CHECK(s == 0 && c == 1);
    qr_sincospi(NAN, &s, &c);
    CHECK(isnan(s) && isnan(c));
    CHECK(qr_sin(0) == 0 && signbit(qr_sin(-0.0)) && qr_cos(0) == 1 && isnan(qr_sin(INFINITY)) &&
          isnan(qr_cos(NAN)));
    CHECK(qr_sin(0x1p-1074) == 0x1p-1074 && qr_sin(1e-200) == 1e-200);
    CHECK(qr_exp(0) == 1 && qr_exp(-INFINITY) == 0 && isinf(qr_exp(INFINITY)) &&
          isnan(qr_exp(NAN)) && isinf(qr_exp(709.79)));
    CHECK(isfinite(qr_exp(709.78)) && qr_exp(-745.1) > 0 && qr_exp(-745.2) == 0);
    CHECK(qr_expm1(0) == 0 && qr_expm1(-INFINITY) == -1 && isinf(qr_expm1(INFINITY)) &&
          qr_expm1(0x1p-60) == 0x1p-60);
    CHECK(qr_log(1) == 0 && qr_log(0) == -HUGE_VAL && isnan(qr_log(-1)) && isinf(qr_log(INFINITY)));
    CHECK(qr_log1p(0) == 0 && qr_log1p(-1) == -HUGE_VAL && isnan(qr_log1p(-2)) &&
          qr_log1p(0x1p-60) == 0x1p-60);
    CHECK(qr_tanh(0) == 0 && signbit(qr_tanh(-0.0)) && qr_tanh(INFINITY) == 1 &&
          qr_tanh(-INFINITY) == -1 && isnan(qr_tanh(NAN)));
    CHECK(qr_tan(0) == 0 && signbit(qr_tan(-0.0)) && isnan(qr_tan(INFINITY)));
    CHECK(qr_asin(1) == M_PI_2 && qr_asin(-1) == -M_PI_2 && signbit(qr_asin(-0.0)) &&
          isnan(qr_asin(1 + 0x1p-52)) && isnan(qr_asin(-INFINITY)) && isnan(qr_asin(NAN)));
    CHECK(qr_acos(1) == 0 && qr_acos(-1) == M_PI && qr_acos(0) == M_PI_2 && isnan(qr_acos(-1.5)) &&
          isnan(qr_acos(NAN)));
    CHECK(qr_atan(INFINITY) == M_PI_2 && qr_atan(-INFINITY) == -M_PI_2 && qr_atan(1) == M_PI_4 &&
          signbit(qr_atan(-0.0)) && isnan(qr_atan(NAN)) && qr_atan(0x1p-1074) == 0x1p-1074);
    CHECK(qr_sigmoid(0) == 0.5 && qr_sigmoid(INFINITY) == 1 && qr_sigmoid(-INFINITY) == 0 &&
          isnan(qr_sigmoid(NAN)));
}

/* A digest over many results (FNV-1a), the same on every machine and build. */
static void test_bits(void) {
    uint64_t h = 14695981039346656037u;
    state = 1234567;
    for (int k = 0; k < 20000; k++) {
        double x = uniform(-30, 30), s, c, v[10];
        qr_sincos(x * 1e5, &s, &c);
        v[0] = s, v[1] = c, v[2] = qr_exp(x), v[3] = qr_expm1(x), v[4] = qr_log(fabs(x)),
        v[5] = qr_log1p(fabs(x));
        v[6] = qr_tanh(x), v[7] = qr_sigmoid(x), v[8] = qr_pow(fabs(x), 0.37), v[9] = sinpi_of(x);
        for (int i = 0; i < 10; i++) {
            uint64_t b;
            memcpy(&b, &v[i], 8);
            for (int j = 0; j < 8; j++) h = (h ^ (b >> (8 * j) & 255)) * 1099511628211u;
        }
    }
    CHECK(h == 0x3a73f5dc25777106u, "digest %016llx", (unsigned long long)h);
}

/* The same for functions that were added later. */
static void test_more_bits(void) {
    uint64_t h = 14695981039346656037u;
    state = 7654321;
    for (int k = 0; k < 20000; k++) {
        double x = uniform(-30, 30), in = x / 30,
               v[5] = {qr_tan(x * 1e5), qr_asin(in), qr_acos(in), qr_atan(x), qr_pow(x, k % 7 - 3)};
        for (int i = 0; i < 5; i++) {
            uint64_t b;
            memcpy(&b, &v[i], 8);
            for (int j = 0; j < 8; j++) h = (h ^ (b >> (8 * j) & 255)) * 1099511628211u;
        }
    }
    CHECK(h == 0x2b80e3e1ea20ccb6u, "digest %016llx", (unsigned long long)h);
}

/* In a batch each argument has the bits of a single call, whatever the other arguments. */
static void test_many(void) {
    static const double points[] = {0,    -0.0,  0.5,      -0.5,      1,    -1,       1.5,     2,
                                    0.25, -0.25, 0x1p-600, 0x1p-1074, 1e15, 0x1p49,   -0x1p50, 0.75,
                                    NAN,  -1e30, INFINITY, -2,        3.5,  -0x1p-60, 2.25,    4};
    for (unsigned round = 0; round < 200000; round++) {
        double x[QR_SINCOSPI_MANY], s[QR_SINCOSPI_MANY], c[QR_SINCOSPI_MANY];
        for (unsigned i = 0; i < QR_SINCOSPI_MANY; i++) {
            uint64_t bits = next(), what = next() % 8;
            x[i] = what < 5   ? uniform(-4, 4)
                   : what < 6 ? points[bits % (round % 4 ? 16 : COUNT(points))]
                   : what < 7 ? (double)(bits % 64) / 8 - 4
                              : uniform(-1, 1) * 0x1p40;
            if (round % 16 == 0 && what == 7) x[i] = of_bits(bits);
        }
        qr_sincospi_many(x, s, c);
        for (unsigned i = 0; i < QR_SINCOSPI_MANY; i++) {
            double sine, cosine;
            qr_sincospi(x[i], &sine, &cosine);
            CHECK(memcmp(&s[i], &sine, sizeof sine) == 0 &&
                      memcmp(&c[i], &cosine, sizeof cosine) == 0,
                  "sincospi(%a) = %a, %a alone and %a, %a beside others", x[i], sine, cosine, s[i],
                  c[i]);
        }
    }
}

int main(void) {
    test_ranges();
    test_all_exponents();
    test_near_multiples();
    test_pairs();
    test_pow();
    test_exact_points();
    test_bits();
    test_more_bits();
    test_many();
    return t_end();
}
