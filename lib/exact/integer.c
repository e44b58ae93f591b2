/* exact/integer.c — conversion of float64 to and from Q64.64, and sums. Start reading at
 * fixed_of(). */
#include "exact/integer.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "wire integers are little-endian and copied as they are");
_Static_assert(sizeof(qr_fixed) == QR_FIXED_BYTES, "a Q64.64 has 16 bytes");

typedef unsigned __int128 wide; /* Sums wrap; signed overflow is undefined. */

/* Adding this constant rounds a double below 2^51 to an integer, ties to even, in its lowest
 * bits. */
static const double to_integer = 0x1.8p52;

typedef double two_doubles __attribute__((vector_size(16)));
typedef int64_t two_integers __attribute__((vector_size(16)));

/* x * 2^64 = high * 2^56 + low. */
struct two_fixed {
    two_integers high, low;
};

/* Splits x, |x| < 2^40, into three integers of 48, 28 and 28 bits. Only the last is rounded; the
 * bits above it are exact and even. */
static inline struct two_fixed fixed_of(two_doubles x) {
    const two_doubles offset = {to_integer, to_integer};
    two_doubles y = x * 0x1p8, a = y + offset;
    two_doubles r = (y - (a - offset)) * 0x1p28, b = r + offset;
    two_doubles c = (r - (b - offset)) * 0x1p28 + offset;
    return (struct two_fixed){(two_integers)a - (two_integers)offset,
                              (((two_integers)b - (two_integers)offset) << 28) +
                                  ((two_integers)c - (two_integers)offset)};
}

/* Word by word: a shift across both words is many times slower. */
static inline wide fixed_lane(const struct two_fixed *f, int i) {
    int64_t high = f->high[i];
    return ((wide)(uint64_t)(high >> 8) << 64 | (uint64_t)high << 56) + (wide)f->low[i];
}

bool qr_fixed_from_double(double x, qr_fixed *ret) {
    if (!(fabs(x) < 0x1p40)) return false; /* Rejects infinities and NaN too. */
    struct two_fixed f = fixed_of((two_doubles){x, 0});
    *ret = (qr_fixed)fixed_lane(&f, 0);
    return true;
}

bool qr_fixed_add_doubles(qr_fixed *restrict acc, const double *restrict x, size_t n) {
    bool good = true;
    for (size_t i = 0; i < n; i++) good &= fabs(x[i]) < 0x1p40;
    if (!good) return false;
    for (size_t i = 0; i + 2 <= n; i += 2) {
        two_doubles v;
        memcpy(&v, x + i, sizeof v);
        struct two_fixed f = fixed_of(v);
        acc[i] = (qr_fixed)((wide)acc[i] + fixed_lane(&f, 0));
        acc[i + 1] = (qr_fixed)((wide)acc[i + 1] + fixed_lane(&f, 1));
    }
    if (n % 2) {
        struct two_fixed f = fixed_of((two_doubles){x[n - 1], 0});
        acc[n - 1] = (qr_fixed)((wide)acc[n - 1] + fixed_lane(&f, 0));
    }
    return true;
}

/* Below 2^20 the upper 53 bits or fewer are summed without rounding, so only the last addition
 * rounds. */
double qr_fixed_to_double(qr_fixed sum) {
    int64_t high = (int64_t)(sum >> 64);
    uint64_t low = (uint64_t)sum;
    if (high >= 1 << 20 || high < -(1 << 20)) return (double)sum * 0x1p-64;
    return ((double)high + (double)(int64_t)(low >> 32) * 0x1p-32) +
           (double)(int64_t)(low & 0xffffffff) * 0x1p-64;
}

qr_fixed qr_fixed_from_count(uint64_t count) { return (qr_fixed)((wide)count << 64); }

uint64_t qr_fixed_to_count(qr_fixed sum) { return (uint64_t)((wide)sum >> 64); }

void qr_fixed_add(qr_fixed *restrict acc, const qr_fixed *restrict term, size_t n) {
    for (size_t i = 0; i < n; i++) acc[i] = (qr_fixed)((wide)acc[i] + (wide)term[i]);
}

void qr_fixed_add_bytes(qr_fixed *restrict acc, const uint8_t *restrict le, size_t n) {
    for (size_t i = 0; i < n; i++) {
        wide t;
        memcpy(&t, le + QR_FIXED_BYTES * i, sizeof t);
        acc[i] = (qr_fixed)((wide)acc[i] + t);
    }
}

void qr_fixed_sum_bytes(qr_fixed *restrict ret, const qr_fixed *restrict a,
                        const uint8_t *restrict le, size_t n) {
    for (size_t i = 0; i < n; i++) {
        wide t;
        memcpy(&t, le + QR_FIXED_BYTES * i, sizeof t);
        ret[i] = (qr_fixed)((wide)a[i] + t);
    }
}

void qr_fixed_load(qr_fixed *restrict ret, const uint8_t *restrict le, size_t n) {
    if (n) memcpy(ret, le, n * QR_FIXED_BYTES);
}
