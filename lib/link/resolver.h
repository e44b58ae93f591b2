/* link/resolver.h — finds the addresses of hosts whose names did not exist at the first lookup,
 * despite negative caches (see dns.h).
 *
 * Usage     qr_resolver_new; qr_resolver_want after the ordinary resolver has failed; on `found`,
 *           qr_resolver_find; qr_resolver_drop; qr_resolver_free.
 * Lookups   Each wanted name is looked up once in each form, with every entry of the search list of
 *           /etc/resolv.conf. Negative replies are ignored; the first address counts.
 * Threads   One of its own, which sleeps while no name is wanted. All calls from the owner's
 *           thread; `found` is called on the resolver's.
 * Bounds    QR_RESOLVER_NAMES at once; 2 tries of 2 s for each query. Freeing does not wait for
 *           replies.
 * Errors    None are reported: a name that is not found stays wanted.
 */
#ifndef QR_LINK_RESOLVER_H
#define QR_LINK_RESOLVER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/ip.h"

enum { QR_RESOLVER_NAMES = 64 };

struct qr_resolver;
struct qr_resolver_options {
    const struct qr_clock *wall; /* borrowed; all workers use the same form at a time (dns.h) */
    /* Called when an address was found; must not call the resolver. */
    void (*found)(void *ctx);
    void *ctx;
    /* server "10.0.0.10:53"; domain: the only search domain. NULL: the system's settings */
    const char *server, *domain;
};

/* NULL: not enough memory, descriptors or threads. */
struct qr_resolver *qr_resolver_new(const struct qr_resolver_options *opt);
void qr_resolver_free(struct qr_resolver *r); /* NULL is fine */

/* Looks a name up, at once and in each later form. No effect when the name is already wanted or
 * QR_RESOLVER_NAMES are. */
void qr_resolver_want(struct qr_resolver *r, const char *host);
/* Stops looking a name up. */
void qr_resolver_drop(struct qr_resolver *r, const char *host);

/* Returns the last found address of a host.
 *
 * Args:     seen   0 at first; identifies the result that the caller has seen
 * Returns:  false when there is no result, or none newer than *seen
 */
bool qr_resolver_find(struct qr_resolver *r, const char *host, int64_t *seen,
                      char ret[QR_IP_BYTES]);

#endif
