/* base/parse.h — numbers from text, whole and strict; names in lists of names.
 *
 * The whole string must be the number: no blanks, no trailing characters, no locale. False and *ret
 * untouched otherwise, also when out of range.
 */
#ifndef QR_BASE_PARSE_H
#define QR_BASE_PARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool qr_parse_u64(const char *s, uint64_t *ret);  /* digits only */
bool qr_parse_i64(const char *s, int64_t *ret);   /* optional leading '-' */
bool qr_parse_double(const char *s, double *ret); /* decimal, finite; no hex, nan or inf */
bool qr_parse_bool(const char *s, bool *ret);     /* true false 1 0 yes no on off */
/* "10s" "500ms" "2m" "1h" "250us" "5ns"; a bare number is seconds. Never negative. */
bool qr_parse_duration_ns(const char *s, int64_t *ret);
/* As qr_parse_double for n bytes that need not end with NUL (CSV cells); blanks around are
 * taken off. */
bool qr_parse_double_n(const char *s, size_t n, double *ret);

/* The known name nearest to `name` (edits and swaps of neighbours at most a third of its length, at
 * least 1; case ignored), or NULL: for "did you mean ...?". */
const char *qr_nearest(const char *name, const char *const *known, size_t n_known);

/* The value of a name in NULL-terminated "NAME=value" texts, borrowed; NULL: it is not there. */
const char *qr_variable(char *const *environment, const char *name);

/* The shortest of 15, 16 or 17 digits that reads back as x: 0.03, not 0.029999999999999999. */
void qr_number_text(double x, char ret[32]);

#endif
