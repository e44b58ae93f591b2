/* base/text.c — decodes UTF-8; checks, escapes, truncates and formats text. Start reading at
 * qr_utf8_next(). */
#include "base/text.h"

#include <ctype.h>
#include <math.h>
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

static bool text_is_control(uint32_t c) { return c < 0x20 || (c >= 0x7f && c <= 0x9f); }

static bool text_is_valid(const char *s, bool controls) {
    uint32_t c;
    for (size_t left = strlen(s), n; left; s += n, left -= n) {
        n = qr_utf8_next((const uint8_t *)s, left, &c);
        if (!n || (!controls && text_is_control(c))) return false;
    }
    return true;
}
bool qr_is_utf8(const char *s) { return text_is_valid(s, true); }
bool qr_text_ok(const char *s) { return text_is_valid(s, false); }

size_t qr_utf8_cut(const char *s, size_t n) {
    n = strnlen(s, n);
    while (n && ((unsigned char)s[n] & 0xc0) == 0x80) n--;
    return n;
}

size_t qr_printable(char *ret, size_t cap, const char *text) {
    const uint8_t *p = (const uint8_t *)text;
    size_t left = strlen(text), n = 0, all = 0, bytes;
    for (; left; p += bytes, left -= bytes) {
        static const char plain[] = "\n\t\r", letters[] = "ntr";
        char escaped[8];
        uint32_t c = p[0];
        size_t valid = qr_utf8_next(p, left, &c), shown;
        bytes = valid ? valid : 1;
        const char *special = strchr(plain, (int)c);
        if (valid && !text_is_control(c)) memcpy(escaped, p, shown = bytes);
        else if (special)
            shown = (size_t)snprintf(escaped, sizeof escaped, "\\%c", letters[special - plain]);
        else shown = (size_t)snprintf(escaped, sizeof escaped, "\\x%02x", (unsigned)c & 0xff);
        all += shown;
        if (all < cap) {
            memcpy(ret + n, escaped, shown);
            n = all;
        }
    }
    if (cap) ret[n] = 0;
    return all;
}

void qr_text_cut(char *ret, size_t cap, const char *s) {
    size_t n = 0, cut = 0; /* cut: the longest prefix of whole characters that fits with "..." */
    for (size_t left = strlen(s), bytes; left; s += bytes, left -= bytes) {
        uint32_t c;
        size_t valid = qr_utf8_next((const uint8_t *)s, left, &c);
        bool shown = valid && !text_is_control(c);
        bytes = valid ? valid : 1;
        if (n + (shown ? bytes : 1) >= cap) {
            if (cap > 3) {
                memcpy(ret + cut, "...", 3);
                n = cut + 3;
            }
            break;
        }
        if (shown) memcpy(ret + n, s, bytes);
        else ret[n] = valid ? ' ' : '?';
        n += shown ? bytes : 1;
        if (n + 4 <= cap) cut = n;
    }
    if (cap > 0) ret[n] = '\0';
}

bool qr_is_name(const char *s, size_t most, const char *more) {
    size_t n = 0;
    while (s[n] && (isalnum((unsigned char)s[n]) || strchr(more, s[n]))) n++;
    return n > 0 && n <= most && !s[n];
}

bool qr_is_hex(const char *s, size_t n) { return strspn(s, "0123456789abcdef") == n && !s[n]; }

struct qr_text_number qr_text_number(double x) {
    struct qr_text_number ret;
    bool small = x != 0 && fabs(x) < 1e-3;
    snprintf(ret.s, sizeof ret.s, small ? "%.5e" : "%.6g", x);
    if (!small) return ret;
    char *e = strchr(ret.s, 'e'), *end = e;
    while (end[-1] == '0') end--; /* as %g prints it */
    if (end[-1] == '.') end--;
    memmove(end, e, strlen(e) + 1);
    return ret;
}
