/* tests/support/link_memory.h — links between threads of one process. The links of a hub reach each
 * other by address. */
#ifndef QR_TESTS_SUPPORT_LINK_MEMORY_H
#define QR_TESTS_SUPPORT_LINK_MEMORY_H

#include "link/link.h"

struct qr_link_hub;
struct qr_link_hub *qr_link_hub_new(void);
/* Free its links first. */
void qr_link_hub_free(struct qr_link_hub *hub);
struct qr_link *qr_link_memory_new(struct qr_link_hub *hub);
/* As if the process of the link were killed: its connections break now, and it sends and receives
 * nothing more. Any thread. Free the link afterwards. */
void qr_link_memory_kill(struct qr_link *l);

#endif
