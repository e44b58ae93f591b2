/* exact/integer.h — Q64.64 sums: the only additions above a piece (contract.md §3).
 *
 * A float64 enters by round-to-nearest-even of x * 2^64 and must have |x| < 2^40. At most 2^22 such
 * terms are added, so no sum overflows and every order gives the same bits. On the wire an integer
 * is 16 bytes, little-endian, two's complement. A sum leaves as (double)sum * 2^-64 (one rounding).
 * Threads   pure functions.
 */
#ifndef QR_EXACT_INTEGER_H
#define QR_EXACT_INTEGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef __int128 qr_fixed; /* Q64.64 */
enum { QR_FIXED_BYTES = 16 };

/* False, and *ret untouched, for NaN, infinity and |x| >= 2^40. */
bool qr_fixed_from_double(double x, qr_fixed *ret);
double qr_fixed_to_double(qr_fixed sum);
/* acc[i] += x[i], unless one of them is out of range: then false, and acc stays. */
bool qr_fixed_add_doubles(qr_fixed *restrict acc, const double *restrict x, size_t n);
/* A plain count (samples, correct predictions, block ids): count * 2^64 would waste range, so
 * counts enter as the integer itself in the high word: value = count << 64. count < 2^40. */
qr_fixed qr_fixed_from_count(uint64_t count);
uint64_t qr_fixed_to_count(qr_fixed sum);

void qr_fixed_add(qr_fixed *restrict acc, const qr_fixed *restrict term, size_t n);
/* The same from/to wire bytes of any alignment. */
void qr_fixed_add_bytes(qr_fixed *restrict acc, const uint8_t *restrict le, size_t n);
/* ret = a + le */
void qr_fixed_sum_bytes(qr_fixed *restrict ret, const qr_fixed *restrict a,
                        const uint8_t *restrict le, size_t n);
void qr_fixed_load(qr_fixed *restrict ret, const uint8_t *restrict le, size_t n);

#endif
