/* base/parse.h — strict parsing of numbers; suggestions for misspelt names.
 *
 * The whole string must be the number: no blanks, no trailing characters, no locale. Otherwise, and
 * when the number is out of range, the result is false and *ret is unchanged.
 * Threads   any; pure functions.
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
/* As qr_parse_double, for n bytes that need not end with NUL (a CSV cell), below 320 without the
 * blanks and tabs around the number, which are ignored. */
bool qr_parse_double_n(const char *s, size_t n, double *ret);

/* Returns the known name nearest to `name`, for "did you mean ...?": at most a third of its length
 * in edits and swaps of adjacent characters, at least 1, ignoring case. NULL when no name is that
 * near. */
const char *qr_nearest(const char *name, const char *const *known, size_t n_known);

/* Returns the value of a variable in a NULL-terminated list of "NAME=value" texts, borrowed; NULL
 * when the variable is not set. */
const char *qr_variable(char *const *environment, const char *name);

/* Formats x with the fewest of 15, 16 or 17 significant digits that read back as x: 0.03, not
 * 0.029999999999999999. */
void qr_number_text(double x, char ret[32]);

#endif
