/* format/element_impl.h — converts the number types of files to float64; private to format. */
#ifndef QR_FORMAT_ELEMENT_IMPL_H
#define QR_FORMAT_ELEMENT_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qr_element {
    char kind;      /* 'f', 'i', 'u', 'b' (boolean: 0 or 1) */
    unsigned bytes; /* f: 4 8; i, u: 1 2 4 8; b: 1 */
    bool big_endian;
};

/* Converts n elements into ret[n]. Returns n, or the index of the first element that float64 cannot
 * hold (an integer above 2^53) or that is malformed (a boolean that is neither 0 nor 1). */
size_t qr_element_decode(struct qr_element e, const uint8_t *p, size_t n, double *ret);

#endif
