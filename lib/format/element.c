/* format/element.c — decodes floats, integers and booleans of either byte order. Start reading at
 * qr_element_decode(). */
#include "base/bytes.h"
#include "format/element_impl.h"

static uint64_t element_load_bits(struct qr_element e, const uint8_t *p) {
    uint64_t v = 0;
    for (unsigned i = 0; i < e.bytes; i++)
        v |= (uint64_t)p[e.big_endian ? e.bytes - 1 - i : i] << 8 * i;
    return v;
}

static double element_float_of_bits(uint32_t u) {
    union {
        uint32_t u;
        float f;
    } b = {.u = u};
    return (double)b.f;
}

size_t qr_element_decode(struct qr_element e, const uint8_t *p, size_t n, double *ret) {
    for (size_t i = 0; i < n; i++, p += e.bytes) {
        uint64_t v = element_load_bits(e, p);
        if (e.kind == 'f') {
            ret[i] = e.bytes == 4 ? element_float_of_bits((uint32_t)v) : qr_double_of_bits(v);
        } else if (e.kind == 'i') {
            unsigned shift = 64 - 8 * e.bytes;
            int64_t s = (int64_t)(v << shift) >> shift;
            if (s > (int64_t)1 << 53 || s < -((int64_t)1 << 53)) return i;
            ret[i] = (double)s;
        } else {
            if (v > (uint64_t)1 << 53 || (e.kind == 'b' && v > 1)) return i;
            ret[i] = (double)v;
        }
    }
    return n;
}
