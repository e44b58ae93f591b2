/* Q64.64 against the compiler's arithmetic in long double (64 bits: exact for every conversion used
 * here). */
#include "exact/integer.h"

#include <math.h>

#include "tests/t.h"

static uint64_t state = 88172645463325252u;
static uint64_t next(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state;
}

/* x * 2^64 to nearest-even: rintl is exact where |x * 2^64| < 2^63; beyond, a double of 53 bits has
 * no fraction left. */
static qr_fixed reference(double x) {
    long double v = ldexpl(x, 64);
    if (fabsl(v) < 0x1p63L) return (qr_fixed)rintl(v);
    return (qr_fixed)v;
}

static void test_from_double(void) {
    for (int k = 0; k < 200000; k++) {
        double m = (double)(next() >> 11) * 0x1p-53 - 0.5;
        double x = ldexp(m, (int)(next() % 110) - 68);
        qr_fixed got = 1, want = reference(x);
        CHECK(qr_fixed_from_double(x, &got) == (fabs(x) < 0x1p40) &&
                  (fabs(x) >= 0x1p40 || got == want),
              "%a", x);
    }
    /* Ties at the last bit go to even: (q + 1/2) * 2^-64. */
    for (int q = -6; q <= 6; q++) {
        qr_fixed got = 0;
        CHECK(qr_fixed_from_double((q + 0.5) * 0x1p-64, &got) && got == (qr_fixed)rint(q + 0.5),
              "q = %d", q);
        CHECK(qr_fixed_from_double((q + 0.5) * 0x1p-64 * (1 + 0x1p-50), &got) &&
              got == (qr_fixed)rint((q + 0.5) * (1 + 0x1p-50)));
    }
    static const double zeros[] = {0.0,       -0.0,     0x1p-65,  -0x1p-65,  0x1p-66,
                                   0x1.fp-66, 0x1p-119, 0x1p-200, 0x1p-1074, -0x1p-1022};
    for (size_t i = 0; i < COUNT(zeros); i++) {
        qr_fixed got = 7;
        CHECK(qr_fixed_from_double(zeros[i], &got) && got == 0, "%a", zeros[i]);
    }
    qr_fixed got = 7;
    CHECK(qr_fixed_from_double(0x1.0000000000001p-65, &got) && got == 1);
    CHECK(qr_fixed_from_double(0x1.fffffffffffffp39, &got) && got == (qr_fixed)0x1fffffffffffff
                                                                         << 51);
    CHECK(qr_fixed_from_double(-1.5, &got) && got == -((qr_fixed)3 << 63));
    static const double rejected[] = {0x1p40, -0x1p40, 1e300, INFINITY, -INFINITY, NAN};
    for (size_t i = 0; i < COUNT(rejected); i++) {
        got = 7;
        CHECK(!qr_fixed_from_double(rejected[i], &got) && got == 7, "%a", rejected[i]);
    }
}

static void test_to_double(void) {
    for (int k = 0; k < 100000; k++) {
        double x = ldexp((double)(next() >> 11) * 0x1p-53 - 0.5, (int)(next() % 50) - 10);
        qr_fixed v;
        CHECK(qr_fixed_from_double(x, &v) && qr_fixed_to_double(v) == x, "%a is not restored", x);
    }
    /* One rounding, ties to even: 53 bits and a half. */
    qr_fixed one = (qr_fixed)1 << 64;
    CHECK(qr_fixed_to_double(((qr_fixed)1 << 53) + 1) == 0x1p-11);
    CHECK(qr_fixed_to_double(((qr_fixed)1 << 53) + 3) == (0x1p53 + 4) * 0x1p-64);
    CHECK(qr_fixed_to_double(-one) == -1 && qr_fixed_to_double(0) == 0 &&
          qr_fixed_to_double(-1) == -0x1p-64);
    CHECK(qr_fixed_to_double((qr_fixed)((unsigned __int128)1 << 127)) == -0x1p63);
    for (uint64_t c = 0; c < 1000000000000; c = c * 3 + 1) {
        CHECK(qr_fixed_to_count(qr_fixed_from_count(c)) == c &&
              qr_fixed_to_double(qr_fixed_from_count(c)) == (double)c);
    }
}

/* Against the compiler's conversion, at every length; and an array of terms against one term at a
 * time. */
static void test_many(void) {
    enum { N = 19 };
    for (int k = 0; k < 100000; k++) {
        qr_fixed v = (qr_fixed)((unsigned __int128)next() << 64 | next()) >> next() % 128;
        CHECK(qr_fixed_to_double(v) == (double)v * 0x1p-64, "%a", (double)v);
        v = ((qr_fixed)1 << next() % 127) + (int64_t)(next() % 5) - 2;
        CHECK(qr_fixed_to_double(v) == (double)v * 0x1p-64 &&
                  qr_fixed_to_double(-v) == (double)-v * 0x1p-64,
              "%a", (double)v);
    }
    double x[N];
    qr_fixed acc[N], want[N], one;
    for (int i = 0; i < N; i++) {
        x[i] = ldexp((double)(next() >> 11) * 0x1p-53 - 0.5, (int)(next() % 40) - 20);
        acc[i] = want[i] = (qr_fixed)next() << 20;
        CHECK(qr_fixed_from_double(x[i], &one));
        want[i] += one;
    }
    CHECK(qr_fixed_add_doubles(acc, x, N) && memcmp(acc, want, sizeof acc) == 0);
    CHECK(qr_fixed_add_doubles(acc, x, 0) && memcmp(acc, want, sizeof acc) == 0);
    static const double rejected[] = {0x1p40, -0x1p40, INFINITY, NAN};
    for (size_t i = 0; i < COUNT(rejected); i++) {
        x[N - 1] = rejected[i];
        CHECK(!qr_fixed_add_doubles(acc, x, N) && memcmp(acc, want, sizeof acc) == 0);
    }
}

static void test_order_and_bytes(void) {
    enum { N = 257 };
    static qr_fixed a[N], b[N], sum[N], other[N];
    static uint8_t wire[16 * N + 3];
    for (int i = 0; i < N; i++) {
        a[i] = (qr_fixed)((unsigned __int128)next() << 40 | next());
        b[i] = -(qr_fixed)((unsigned __int128)next() << 30);
    }
    memcpy(sum, a, sizeof a);
    qr_fixed_add(sum, b, N);
    memcpy(other, b, sizeof b);
    for (size_t shift = 0; shift < 4; shift++) { /* unaligned */
        memcpy(wire + shift % 3, a, sizeof a);
        qr_fixed_load(other, wire + shift % 3, N);
        CHECK(memcmp(other, a, sizeof a) == 0);
        memcpy(other, b, sizeof b);
        qr_fixed_add_bytes(other, wire + shift % 3, N);
        CHECK(memcmp(other, sum, sizeof sum) == 0, "shift %zu", shift);
        memset(other, 0, sizeof other);
        qr_fixed_sum_bytes(other, b, wire + shift % 3, N);
        CHECK(memcmp(other, sum, sizeof sum) == 0, "shift %zu", shift);
    }
    qr_fixed minus_two;
    uint8_t le[16] = {0xfe};
    memset(le + 1, 0xff, 15);
    qr_fixed_load(&minus_two, le, 1);
    CHECK(minus_two == -2, "two's complement, little-endian");
    qr_fixed_add(NULL, NULL, 0);
    qr_fixed_load(NULL, NULL, 0);

    /* 2^22 terms at the edge of the range do not overflow, and their sum is exact. */
    qr_fixed edge, total = 0;
    CHECK(qr_fixed_from_double(-0x1.fffffffffffffp39, &edge));
    for (int i = 0; i < 1 << 22; i++) qr_fixed_add(&total, &edge, 1);
    CHECK(qr_fixed_to_double(total) == -0x1.fffffffffffffp61);
}

int main(void) {
    test_from_double();
    test_to_double();
    test_many();
    test_order_and_bytes();
    return t_end();
}
