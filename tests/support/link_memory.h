/* tests/support/link_memory.h — links between threads of one process: those of one hub reach each
 * other by address strings. */
#ifndef QR_TESTS_SUPPORT_LINK_MEMORY_H
#define QR_TESTS_SUPPORT_LINK_MEMORY_H

#include "link/link.h"

struct qr_link_hub;
struct qr_link_hub *qr_link_hub_new(void);
void qr_link_hub_free(struct qr_link_hub *hub);
struct qr_link *qr_link_memory_new(struct qr_link_hub *hub);
/* As if its process died: its connections break now, and nothing goes out or comes in any more. Any
 * thread; free it as ever. */
void qr_link_memory_kill(struct qr_link *l);

#endif
