/* link/resolver.h — finds hosts whose names did not exist when they were first asked for, though
 * a cache remembers that (dns.h says how).
 *
 * It is asked beside the ordinary resolver, once that has found nothing: each name that is wanted
 * is asked for once in each form, by every name that the search list of /etc/resolv.conf makes of
 * it.
 * A negative answer decides nothing; the first address that comes counts.
 *
 * Threads   one of its own, which sleeps unless something is wanted. All calls from the owner's
 *           thread. found comes from the resolver's.
 * Bounds    QR_RESOLVER_NAMES wanted at once; questions are given 2 s, twice. Freeing waits for
 *           nobody's answer.
 * Errors    none are told: who is not found stays wanted.
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
    const struct qr_clock *wall; /* borrowed; as all workers have it (dns.h) */
    /* an address was found just now; calls nothing of the resolver */
    void (*found)(void *ctx);
    void *ctx;
    /* "10.0.0.10:53", and the only search domain; NULL: as the system is set */
    const char *server, *domain;
};

/* NULL: there is no room for it (memory, descriptors, threads). */
struct qr_resolver *qr_resolver_new(const struct qr_resolver_options *opt);
void qr_resolver_free(struct qr_resolver *r); /* NULL is fine */

/* Asked for from now on, at once and in each form that comes. Already wanted: nothing happens. One
 * name too many is not asked for. */
void qr_resolver_want(struct qr_resolver *r, const char *host);
void qr_resolver_drop(struct qr_resolver *r, const char *host);

/* The address that was found last, when it differs from *seen or was found again in a later form;
 * *seen, from 0 on, says which one the caller has seen. */
bool qr_resolver_find(struct qr_resolver *r, const char *host, int64_t *seen,
                      char ret[QR_IP_BYTES]);

#endif
