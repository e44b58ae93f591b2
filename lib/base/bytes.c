/* base/bytes.c — growing byte buffers and hex. Start reading at buf_reserve(), which every append
 * uses. */
#include "base/bytes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

enum { DEFAULT_MAX = 1 << 30, FIRST_CAP = 256 };

struct qr_bytes qr_bytes_of_string(const char *s) {
    return qr_bytes_of(s, strlen(s));
}

void qr_buf_free(struct qr_buf *buf) {
    if (!buf) return;
    free(buf->p);
    *buf = (struct qr_buf){.max = buf->max};
}

void qr_buf_clear(struct qr_buf *buf) {
    buf->n = 0;
    buf->overflow = false;
    if (buf->p) buf->p[0] = 0;
}

/* Makes room for n bytes and the NUL after them, and appends them unset; NULL on overflow. */
static uint8_t *buf_reserve(struct qr_buf *buf, size_t n) {
    size_t max = buf->max ? buf->max : DEFAULT_MAX;
    if (buf->overflow || n > max - buf->n) {
        buf->overflow = true;
        return NULL;
    }
    size_t need = buf->n + n + 1;
    if (need > buf->cap) {
        size_t cap = buf->cap ? buf->cap : FIRST_CAP;
        while (cap < need) cap *= 2;
        buf->p = qr_xrealloc(buf->p, cap);
        buf->cap = cap;
    }
    buf->n += n;
    buf->p[buf->n] = 0;
    return buf->p + buf->n - n;
}

uint8_t *qr_buf_grow(struct qr_buf *buf, size_t n) {
    uint8_t *at = buf_reserve(buf, n);
    if (at) memset(at, 0, n);
    return at;
}

void qr_buf_put(struct qr_buf *buf, const void *p, size_t n) {
    uint8_t *at = buf_reserve(buf, n);
    if (at && n) memcpy(at, p, n);
}

void qr_buf_puts(struct qr_buf *buf, const char *s) { qr_buf_put(buf, s, strlen(s)); }

void qr_buf_put_printable(struct qr_buf *buf, const char *s) {
    size_t n = qr_printable(NULL, 0, s);
    char *at = (char *)qr_buf_grow(buf, n);
    if (at) (void)qr_printable(at, n + 1, s);
}

void qr_buf_printf(struct qr_buf *buf, const char *fmt, ...) {
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    QR_ASSERT(n >= 0);
    uint8_t *at = qr_buf_grow(buf, (size_t)n);
    if (at) vsnprintf((char *)at, (size_t)n + 1, fmt, again);
    va_end(again);
}

void qr_buf_put_doubles(struct qr_buf *buf, const double *v, size_t n) {
    uint8_t *at = qr_buf_grow(buf, n > PTRDIFF_MAX / 8 ? PTRDIFF_MAX : 8 * n);
    for (size_t i = 0; at && i < n; i++) qr_set_u64le(at + 8 * i, qr_bits_of_double(v[i]));
}

const char *qr_buf_string(const struct qr_buf *buf) { return buf->p ? (const char *)buf->p : ""; }

void qr_hex(const uint8_t *p, size_t n, char *ret) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[p[i] >> 4];
        ret[2 * i + 1] = digits[p[i] & 15];
    }
    ret[2 * n] = 0;
}

bool qr_unhex(const char *hex, uint8_t *ret, size_t n) {
    if (strspn(hex, "0123456789abcdef") != 2 * n || hex[2 * n]) return false;
    for (size_t i = 0; i < 2 * n; i++) {
        unsigned digit = (unsigned)(hex[i] <= '9' ? hex[i] - '0' : hex[i] - 'a' + 10);
        ret[i / 2] = (uint8_t)(i % 2 ? ret[i / 2] | digit : digit << 4);
    }
    return true;
}
