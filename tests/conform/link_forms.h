/* The forms of the link that the conformance suite runs: each is a maker of links that can reach
 * each other, with a clock. */
#ifndef LINK_FORMS_H
#define LINK_FORMS_H

#include "base/clock.h"
#include "link/link.h"

struct link_form {
    const char *name, *host; /* host: what to listen on */
    void *(*start)(void);    /* once per case */
    struct qr_link *(*make)(void *ctx);
    int64_t (*now_ns)(void *ctx);
    void (*stop)(void *ctx); /* all links are freed */
    bool copies;             /* it never borrows a body */
};
#endif
