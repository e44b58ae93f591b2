/* base/text.h — texts that go to another machine: UTF-8 without control characters. Pure. */
#ifndef QR_BASE_TEXT_H
#define QR_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

bool qr_text_ok(const char *s);
/* Copies s: cut at a character, with "...", to fit cap bytes; control characters become blanks,
 * bytes that are not UTF-8 '?'. */
void qr_text_cut(char *ret, size_t cap, const char *s);

#endif
