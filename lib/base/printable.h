/* base/printable.h — text from outside, for a terminal or one line of a text log.
 *
 * Names and values in job files, data files, replies and certificates may hold escape sequences and
 * newlines. Errors (base/err.h) and text logs (base/log.h) pass all their text through here;
 * commands do so with names and paths that they print.
 *
 * Form      control characters (C0, DEL, C1) become \n, \t, \r or \x1b, by code point; bytes that
 *           are not UTF-8 become \xff. All other UTF-8 stays as it is, backslashes too: what is
 *           printable already does not change.
 * Threads   any.
 */
#ifndef QR_BASE_PRINTABLE_H
#define QR_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>

/* One UTF-8 character of p[n]: its length in bytes and code point; 0 when it is no valid UTF-8
 * (overlong forms, surrogates and code points above U+10FFFF are not). */
size_t qr_utf8_next(const uint8_t *p, size_t n, uint32_t *ret);
/* As snprintf: at most cap bytes with the NUL, cut between characters; returns the length that all
 * of it has. ret and text do not overlap. */
size_t qr_printable(char *ret, size_t cap, const char *text);

#endif
