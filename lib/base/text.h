/* base/text.h — texts that go to another machine: UTF-8 without control characters; numbers for
 * people. Pure. */
#ifndef QR_BASE_TEXT_H
#define QR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

bool qr_text_ok(const char *s);
/* Copies s: cut at a character, with "...", to fit cap bytes; control characters become blanks,
 * bytes that are not UTF-8 '?'. */
void qr_text_cut(char *ret, size_t cap, const char *s);
/* A loss or a metric on a screen or in a line of the log: six significant digits, with an exponent
 * below 1e-3 and from 1e6 on. printf("loss: %s", qr_text_number(x).s) */
struct qr_text_number {
    char s[24];
};
struct qr_text_number qr_text_number(double x);

#endif
