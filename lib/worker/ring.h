/* worker/ring.h — the ring that a worker would form: who it is, who the others are, whether their
 * names exist.
 *
 * What      the same answers for a worker that starts and for `qring validate`.
 * Threads   one at a time; qr_ring_resolve lets glibc's resolver threads ask, and takes no longer
 *           than it is told.
 */
#ifndef QR_WORKER_RING_H
#define QR_WORKER_RING_H

#include "cluster/identity.h"
#include "group/group.h"
#include "worker/settings.h"

/* From the settings, TF_CONFIG, JOB_COMPLETION_INDEX and the host's name. environment:
 * NULL-terminated "NAME=value" texts. */
QR_MUST_CHECK enum qr_code qr_ring_identity(const struct qr_settings *s, char *const *environment,
                                            struct qr_identity *ret, struct qr_err *err);
/* Of a worker with peers: *ret_local when all of them are on this machine. INVALID_ARGUMENT when
 * they are not and nothing protects the network. */
QR_MUST_CHECK enum qr_code qr_ring_network(const struct qr_settings *s,
                                           const struct qr_identity *id, bool *ret_local,
                                           struct qr_err *err);

/* How sums travel, by its name. */
enum qr_allreduce qr_ring_allreduce(const struct qr_settings *s);

/* Asks for the addresses of all names at once, for at most timeout_ns. ret_code[n]: QR_OK;
 * NOT_FOUND: there is no such name; UNAVAILABLE: nobody could say; DEADLINE_EXCEEDED.
 * ret_address[n]: the first address as text, heap, NULL without one. */
void qr_ring_resolve(const char *const *hosts, size_t n, int64_t timeout_ns, enum qr_code *ret_code,
                     char **ret_address);

#endif
