/* tests/conform/link_forms.h — implementations of link for the conformance suite. Each makes links
 * that can reach each other, and has a clock. */
#ifndef LINK_FORMS_H
#define LINK_FORMS_H

#include "base/clock.h"
#include "link/link.h"

struct link_form {
    const char *name, *host; /* host: to listen on */
    void *(*start)(void);    /* once per case */
    struct qr_link *(*make)(void *ctx);
    int64_t (*now_ns)(void *ctx);
    void (*stop)(void *ctx); /* all links are freed */
    bool copies;             /* never borrows a body */
};
#endif
