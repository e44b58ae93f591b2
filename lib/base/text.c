/* base/text.c — checks, truncates and formats text. Start reading at text_character_bytes(). */
#include "base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Length of the UTF-8 character at s in bytes (1..4); 0 when s is malformed or begins with a
 * control character. Reads no byte after the NUL. */
static int text_character_bytes(const char *s) {
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] >= 0x20 && u[0] < 0x7f) return 1;
    int n = u[0] >= 0xf0 && u[0] < 0xf5   ? 4
            : u[0] >= 0xe0 && u[0] < 0xf0 ? 3
            : u[0] >= 0xc2 && u[0] < 0xe0 ? 2
                                          : 0;
    for (int i = 1; i < n; i++)
        if ((u[i] & 0xc0) != 0x80) return 0;
    /* C1 control characters */
    if (n == 2 && u[0] == 0xc2 && u[1] < 0xa0) return 0;
    /* Overlong forms; surrogates; code points above U+10FFFF */
    if (n == 3 && ((u[0] == 0xe0 && u[1] < 0xa0) || (u[0] == 0xed && u[1] > 0x9f))) return 0;
    if (n == 4 && ((u[0] == 0xf0 && u[1] < 0x90) || (u[0] == 0xf4 && u[1] > 0x8f))) return 0;
    return n;
}

bool qr_text_ok(const char *s) {
    for (int n; *s; s += n)
        if ((n = text_character_bytes(s)) == 0) return false;
    return true;
}

void qr_text_cut(char *ret, size_t cap, const char *s) {
    size_t n = 0, cut = 0; /* cut: the longest prefix of whole characters that fits with "..." */
    while (*s) {
        int c = text_character_bytes(s);
        size_t step = c ? (size_t)c : 1;
        if (n + step >= cap) {
            if (cap > 3) {
                memcpy(ret + cut, "...", 3);
                n = cut + 3;
            }
            break;
        }
        if (c) memcpy(ret + n, s, step);
        else ret[n] = (unsigned char)*s < 0x20 || *s == 0x7f ? ' ' : '?';
        n += step;
        s += step;
        if (n + 4 <= cap) cut = n;
    }
    if (cap > 0) ret[n] = '\0';
}

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
