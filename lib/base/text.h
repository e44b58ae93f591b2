/* base/text.h — UTF-8, text that is safe to print or send, names and numbers in text. Pure
 * functions.
 *
 * Names and values in job files, data files, replies and certificates may contain escape sequences
 * and newlines. Errors (base/err.h) and text logs (base/log.h) escape all their text by
 * qr_printable; commands do the same with the names and paths that they print.
 */
#ifndef QR_BASE_TEXT_H
#define QR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes the UTF-8 character at the start of p[n].
 *
 * Args:     ret   its code point
 * Returns:  its length in bytes; 0 when the bytes are not valid UTF-8 (nor are overlong forms,
 *           surrogates and code points above U+10FFFF)
 */
size_t qr_utf8_next(const uint8_t *p, size_t n, uint32_t *ret);
bool qr_is_utf8(const char *s);
/* Returns the bytes of the whole characters in the first n bytes of s; s may end before. */
size_t qr_utf8_cut(const char *s, size_t n);

/* Writes the escaped text, truncated between characters to at most cap bytes with the NUL: control
 * characters (C0, DEL, C1) become \n, \t, \r or \x1b, by code point; bytes that are not UTF-8
 * become \xff. All other text is unchanged, backslashes too, so printable text stays as it is.
 * Like snprintf, returns the length of the whole escaped text. ret and text must not overlap. */
size_t qr_printable(char *ret, size_t cap, const char *text);

/* True when s is UTF-8 without control characters. */
bool qr_text_ok(const char *s);
/* Copies s into ret, truncated between characters and with "..." at the end when s does not fit cap
 * bytes. Control characters become blanks; bytes that are not UTF-8 become '?'. */
void qr_text_cut(char *ret, size_t cap, const char *s);

/* True when s has 1 to `most` characters, all of them ASCII letters, digits or one of `more`. */
bool qr_is_name(const char *s, size_t most, const char *more);
/* True when s has exactly n characters, all of them 0-9 or a-f. */
bool qr_is_hex(const char *s, size_t n);

/* Formats a loss or a metric for a terminal or the log: six significant digits, with an exponent
 * below 1e-3 and from 1e6 on. Use: printf("loss: %s", qr_text_number(x).s) */
struct qr_text_number {
    char s[24];
};
struct qr_text_number qr_text_number(double x);

#endif
