/* worker/last_words.h — the container's termination message: why it ended, for whoever runs `kubectl describe`.
 *
 * What      One sentence into the file that the kubelet made (settings: --termination-log, else /dev/termination-log); nothing where that
 *           file is missing. Written on every error exit and on SIGTERM.
 * Threads   any; qr_last_words_to before the first use.
 */
#ifndef QR_WORKER_LAST_WORDS_H
#define QR_WORKER_LAST_WORDS_H

#include <stddef.h>

void qr_last_words_to(const char *path); /* copied; NULL: the default */
void qr_last_words(const char *text);
/* "step 17 of 100: drained on SIGTERM", by base/counter.h; before the first stable step "before the first step: ...". */
void qr_last_words_drained(char *ret, size_t bytes);

#endif
