/* base/bytes.h — views of bytes, growing buffers, little-endian numbers.
 *
 * A view borrows. A buffer owns; the all-zero buffer is empty and valid. A buffer has a maximum, so
 * that no input can make it grow without bound; growing past it marks the buffer as overflowed and
 * drops the rest (checked once at the end with qr_buf_ok).
 */
#ifndef QR_BASE_BYTES_H
#define QR_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct qr_bytes {
    const uint8_t *p;
    size_t n;
};

static inline struct qr_bytes qr_bytes_of(const void *p, size_t n) {
    return (struct qr_bytes){(const uint8_t *)p, n};
}
struct qr_bytes qr_bytes_of_string(const char *s);

struct qr_buf {
    uint8_t *p; /* NULL while empty; one NUL is always kept behind the last byte */
    size_t n, cap;
    size_t max; /* 0 means 1 GiB */
    bool overflow;
};
void qr_buf_free(struct qr_buf *buf);  /* leaves an empty buffer */
void qr_buf_clear(struct qr_buf *buf); /* keeps the memory */
void qr_buf_put(struct qr_buf *buf, const void *p, size_t n);
void qr_buf_puts(struct qr_buf *buf, const char *s);
void qr_buf_put_printable(struct qr_buf *buf, const char *s); /* base/printable.h */
void qr_buf_printf(struct qr_buf *buf, const char *fmt, ...) QR_PRINTF(2, 3);
/* n zeroed bytes at the end; NULL on overflow */
uint8_t *qr_buf_grow(struct qr_buf *buf, size_t n);
static inline bool qr_buf_ok(const struct qr_buf *buf) { return !buf->overflow; }
static inline struct qr_bytes qr_buf_view(const struct qr_buf *buf) {
    return (struct qr_bytes){buf->p, buf->n};
}
/* The content as a string; "" while empty. Borrowed until the next change. */
const char *qr_buf_string(const struct qr_buf *buf);

static inline uint16_t qr_get_u16le(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static inline uint32_t qr_get_u32le(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static inline uint64_t qr_get_u64le(const uint8_t *p) {
    return (uint64_t)qr_get_u32le(p) | (uint64_t)qr_get_u32le(p + 4) << 32;
}
static inline void qr_set_u32le(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> 8 * i);
}
static inline void qr_set_u64le(uint8_t *p, uint64_t v) {
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> 8 * i);
}
static inline uint64_t qr_bits_of_double(double x) {
    union {
        double d;
        uint64_t u;
    } b = {.d = x};
    return b.u;
}
static inline double qr_double_of_bits(uint64_t u) {
    union {
        uint64_t u;
        double d;
    } b = {.u = u};
    return b.d;
}

/* Lower-case hex of n bytes into ret (2n + 1 chars). */
void qr_hex(const uint8_t *p, size_t n, char *ret);

#endif
