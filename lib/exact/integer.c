#include "exact/integer.h"

#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "wire integers are little-endian and copied as they are");
_Static_assert(sizeof(qr_fixed) == QR_FIXED_BYTES, "a Q64.64 has 16 bytes");

typedef unsigned __int128 wide; /* sums wrap; signed ones must not */

bool qr_fixed_from_double(double x, qr_fixed *ret) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    unsigned exponent = (unsigned)(bits >> 52) & 0x7ff;
    if (exponent >= 1023 + 40) return false; /* |x| >= 2^40, infinities, NaN */
    uint64_t m = bits & 0xfffffffffffff;
    if (exponent) m |= 0x10000000000000;
    int shift = (int)exponent - 1011; /* |x| * 2^64 = m * 2^shift (subnormals round to 0 anyway) */
    wide v;
    if (shift >= 0) {
        v = (wide)m << shift;
    } else if (shift < -54) {
        v = 0;
    } else {
        uint64_t rest = m << (64 + shift); /* the bits that go, at the top of a word */
        uint64_t whole = m >> -shift;
        v = whole + (rest > 1ull << 63 || (rest == 1ull << 63 && (whole & 1)));
    }
    *ret = (qr_fixed)(bits >> 63 ? -v : v);
    return true;
}

double qr_fixed_to_double(qr_fixed sum) {
    return (double)sum * 0x1p-64;
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

void qr_fixed_sum_bytes(qr_fixed *restrict ret, const qr_fixed *restrict a, const uint8_t *restrict le, size_t n) {
    for (size_t i = 0; i < n; i++) {
        wide t;
        memcpy(&t, le + QR_FIXED_BYTES * i, sizeof t);
        ret[i] = (qr_fixed)((wide)a[i] + t);
    }
}

void qr_fixed_load(qr_fixed *restrict ret, const uint8_t *restrict le, size_t n) {
    if (n) memcpy(ret, le, n * QR_FIXED_BYTES);
}

void qr_fixed_store(uint8_t *restrict ret_le, const qr_fixed *restrict v, size_t n) {
    if (n) memcpy(ret_le, v, n * QR_FIXED_BYTES);
}
