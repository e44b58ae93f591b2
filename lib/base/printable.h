/* base/printable.h — escapes untrusted text for a terminal or one line of a text log.
 *
 * Names and values in job files, data files, replies and certificates may contain escape sequences
 * and newlines. Errors (base/err.h) and text logs (base/log.h) escape all their text here; commands
 * do the same with the names and paths that they print.
 *
 * Form      control characters (C0, DEL, C1) become \n, \t, \r or \x1b, by code point; bytes that
 *           are not UTF-8 become \xff. All other UTF-8 text is unchanged, backslashes too, so
 *           printable text stays as it is.
 * Threads   any.
 */
#ifndef QR_BASE_PRINTABLE_H
#define QR_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the UTF-8 character at the start of p[n].
 *
 * Args:     ret   its code point
 * Returns:  its length in bytes; 0 when the bytes are not valid UTF-8 (nor are overlong forms,
 *           surrogates and code points above U+10FFFF)
 */
size_t qr_utf8_next(const uint8_t *p, size_t n, uint32_t *ret);
/* Writes the escaped text, truncated between characters to at most cap bytes with the NUL. Like
 * snprintf, returns the length of the whole escaped text. ret and text must not overlap. */
size_t qr_printable(char *ret, size_t cap, const char *text);

#endif
