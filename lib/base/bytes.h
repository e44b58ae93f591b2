/* base/bytes.h — views of bytes, growing buffers, little-endian numbers.
 *
 * A view borrows. A buffer owns; the all-zero buffer is empty and valid. A buffer has a maximum
 * size, so that no input can make the buffer grow without bound: an append past the maximum marks
 * the buffer as overflowed and drops the bytes. Check once after the last append with qr_buf_ok.
 *
 * Use       struct qr_buf b = {0}; qr_buf_puts(&b, "x"); if (!qr_buf_ok(&b)) ...; qr_buf_free(&b);
 * Errors    out of memory ends the process (base/mem.h).
 * Threads   a buffer belongs to one thread at a time.
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
    uint8_t *p;    /* NULL while empty; a NUL byte always follows the last byte */
    size_t n, cap; /* bytes used; bytes allocated */
    size_t max;    /* maximum of n; 0 means 1 GiB */
    bool overflow; /* an append was dropped */
};
void qr_buf_free(struct qr_buf *buf);  /* leaves an empty buffer with the same maximum */
void qr_buf_clear(struct qr_buf *buf); /* empties the buffer, keeps its memory */
/* Append n bytes; a string without its NUL; a string with its control characters escaped; formatted
 * text. */
void qr_buf_put(struct qr_buf *buf, const void *p, size_t n);
void qr_buf_puts(struct qr_buf *buf, const char *s);
void qr_buf_put_printable(struct qr_buf *buf, const char *s); /* base/text.h */
void qr_buf_printf(struct qr_buf *buf, const char *fmt, ...) QR_PRINTF(2, 3);
void qr_buf_put_doubles(struct qr_buf *buf, const double *v, size_t n); /* little-endian */
/* Appends n zero bytes and returns a pointer to them; NULL on overflow. */
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

/* Writes n bytes as lower-case hex into ret, 2n + 1 characters with the NUL. */
void qr_hex(const uint8_t *p, size_t n, char *ret);
/* Reads exactly 2n lower-case hex digits. False: other text; *ret is unchanged. */
bool qr_unhex(const char *hex, uint8_t *ret, size_t n);

#endif
