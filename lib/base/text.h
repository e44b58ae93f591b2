/* base/text.h — text for messages to other machines (UTF-8 without control characters) and numbers
 * in a readable form. Pure functions. */
#ifndef QR_BASE_TEXT_H
#define QR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* True when s is UTF-8 without control characters. */
bool qr_text_ok(const char *s);
/* Copies s into ret, truncated between characters and with "..." at the end when s does not fit cap
 * bytes. Control characters become blanks; bytes that are not UTF-8 become '?'. */
void qr_text_cut(char *ret, size_t cap, const char *s);
/* Formats a loss or a metric for a terminal or the log: six significant digits, with an exponent
 * below 1e-3 and from 1e6 on. Use: printf("loss: %s", qr_text_number(x).s) */
struct qr_text_number {
    char s[24];
};
struct qr_text_number qr_text_number(double x);

#endif
