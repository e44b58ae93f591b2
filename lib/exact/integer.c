#include "exact/integer.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire integers are little-endian and copied as they are");
_Static_assert(sizeof(qr_fixed) == QR_FIXED_BYTES, "a Q64.64 has 16 bytes");

typedef unsigned __int128 wide; /* sums wrap; signed ones must not */

/* Adding this rounds a double below 2^51 to an integer, ties to even, and leaves that integer in its lowest bits. */
static const double to_integer = 0x1.8p52;

static int64_t bits_of(double x) {
    int64_t b;
    memcpy(&b, &x, sizeof b);
    return b;
}

/* |x| < 2^40: three integers, of 48, 28 and 28 bits. Only the last is rounded, all else is exact; what stands above it is even. */
static wide fixed_of(double x) {
    double y = x * 0x1p8, a = y + to_integer;
    double r = (y - (a - to_integer)) * 0x1p28, b = r + to_integer;
    double c = (r - (b - to_integer)) * 0x1p28 + to_integer;
    int64_t none = bits_of(to_integer), high = bits_of(a) - none, low = (bits_of(b) - none) * (1 << 28) + (bits_of(c) - none);
    return ((wide)high << 56) + (wide)low;
}

bool qr_fixed_from_double(double x, qr_fixed *ret) {
    if (!(fabs(x) < 0x1p40)) return false; /* infinities and NaN too */
    *ret = (qr_fixed)fixed_of(x);
    return true;
}

bool qr_fixed_add_doubles(qr_fixed *restrict acc, const double *restrict x, size_t n) {
    bool good = true;
    for (size_t i = 0; i < n; i++) good &= fabs(x[i]) < 0x1p40;
    for (size_t i = 0; i < n && good; i++) acc[i] = (qr_fixed)((wide)acc[i] + fixed_of(x[i]));
    return good;
}

/* Below 2^20 the upper 53 bits or fewer are a sum without rounding, so that the last addition rounds once. */
double qr_fixed_to_double(qr_fixed sum) {
    int64_t high = (int64_t)(sum >> 64);
    uint64_t low = (uint64_t)sum;
    if (high >= 1 << 20 || high < -(1 << 20)) return (double)sum * 0x1p-64;
    return ((double)high + (double)(int64_t)(low >> 32) * 0x1p-32) + (double)(int64_t)(low & 0xffffffff) * 0x1p-64;
}

qr_fixed qr_fixed_from_count(uint64_t count) {
    return (qr_fixed)((wide)count << 64);
}

uint64_t qr_fixed_to_count(qr_fixed sum) {
    return (uint64_t)((wide)sum >> 64);
}

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

void qr_fixed_load(qr_fixed *restrict ret, const uint8_t *restrict le, size_t n) {
    if (n) memcpy(ret, le, n * QR_FIXED_BYTES);
}

void qr_fixed_store(uint8_t *restrict ret_le, const qr_fixed *restrict v, size_t n) {
    if (n) memcpy(ret_le, v, n * QR_FIXED_BYTES);
}
