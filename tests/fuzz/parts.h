/* tests/fuzz/parts.h — one input as several texts: each part ends with a given byte, the last one
 * with the input. */
#ifndef PARTS_H
#define PARTS_H

#include <string.h>

#include "base/bytes.h"
#include "base/mem.h"

/* Splits the input into up to `max` parts, *ret_n of them; the last has the rest. Free with
 * parts_free. */
static inline void parts_of(const uint8_t *data, size_t n, char end, char **ret, size_t max,
                            size_t *ret_n) {
    size_t k = 0, at = 0;
    while (k < max && (at < n || k == 0)) {
        const uint8_t *stop = k + 1 < max && at < n ? memchr(data + at, end, n - at) : NULL;
        size_t length = stop ? (size_t)(stop - data) - at : n - at;
        ret[k++] = n ? qr_xstrndup((const char *)data + at, length) : qr_xstrdup("");
        at += length + (stop != NULL);
        if (!stop) break;
    }
    *ret_n = k;
}
static inline void parts_free(char **parts, size_t n) {
    for (size_t i = 0; i < n; i++) free(parts[i]);
}

#endif
