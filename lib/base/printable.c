/* base/printable.c — decodes UTF-8 and escapes control characters. Start reading at
 * qr_printable(). */
#include "base/printable.h"

#include <stdio.h>
#include <string.h>

size_t qr_utf8_next(const uint8_t *p, size_t n, uint32_t *ret) {
    if (n == 0) return 0;
    if (p[0] < 0x80) {
        *ret = p[0];
        return 1;
    }
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n < len) return 0;
    uint32_t c = p[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) return 0;
    *ret = c;
    return len;
}

/* The escaped form of the character at p[n], n > 0; *ret_bytes is its length before escaping. */
struct escaped_character {
    char text[8];
    size_t n;
};
static struct escaped_character printable_escape(const uint8_t *p, size_t n, size_t *ret_bytes) {
    struct escaped_character u = {{0}, 0};
    uint32_t c = p[0];
    size_t bytes = qr_utf8_next(p, n, &c);
    *ret_bytes = bytes ? bytes : 1;
    if (bytes && c >= 0x20 && !(c >= 0x7f && c <= 0x9f)) memcpy(u.text, p, u.n = bytes);
    else if (c == '\n' || c == '\t' || c == '\r')
        u.n = (size_t)snprintf(u.text, sizeof u.text, "\\%c",
                               c == '\n'   ? 'n'
                               : c == '\t' ? 't'
                                           : 'r');
    else
        u.n =
            (size_t)snprintf(u.text, sizeof u.text, "\\x%02x", (unsigned)(bytes ? c : p[0]) & 0xff);
    return u;
}

size_t qr_printable(char *ret, size_t cap, const char *text) {
    const uint8_t *p = (const uint8_t *)text;
    size_t left = strlen(text), n = 0, all = 0, bytes;
    for (; left; p += bytes, left -= bytes) {
        struct escaped_character u = printable_escape(p, left, &bytes);
        all += u.n;
        if (all < cap) {
            memcpy(ret + n, u.text, u.n);
            n = all;
        }
    }
    if (cap) ret[n] = 0;
    return all;
}
