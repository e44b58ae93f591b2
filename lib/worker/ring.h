/* worker/ring.h — the ring that a worker would join: its own identity, the other workers, and
 * whether their names exist.
 *
 * What      Gives the same answers to a worker that starts and to `qring validate`.
 * Threads   one at a time; qr_ring_resolve queries DNS on glibc's resolver threads.
 */
#ifndef QR_WORKER_RING_H
#define QR_WORKER_RING_H

#include "cluster/identity.h"
#include "group/group.h"
#include "worker/settings.h"

/* Finds the identity from the settings, TF_CONFIG, JOB_COMPLETION_INDEX and the host name.
 *
 * Args:     environment  NULL-terminated "NAME=value" texts
 *           ret          free with qr_identity_fini
 * Errors:   INVALID_ARGUMENT
 */
QR_MUST_CHECK enum qr_code qr_ring_identity(const struct qr_settings *s, char *const *environment,
                                            struct qr_identity *ret, struct qr_err *err);
/* Checks the network of a worker with peers.
 *
 * Args:     ret_local  set when all peers are on this machine
 * Errors:   INVALID_ARGUMENT: some are not, and neither certificates nor --plaintext are set
 */
QR_MUST_CHECK enum qr_code qr_ring_network(const struct qr_settings *s,
                                           const struct qr_identity *id, bool *ret_local,
                                           struct qr_err *err);

/* Returns the all-reduce setting. */
enum qr_allreduce qr_ring_allreduce(const struct qr_settings *s);

/* Resolves all names at once.
 *
 * Args:     hosts        [n]
 *           timeout_ns   for all together
 *           ret_code     [n]: QR_OK; NOT_FOUND (no such name); UNAVAILABLE (no answer);
 *                        DEADLINE_EXCEEDED
 *           ret_address  [n]: first address as text, heap; NULL without one
 */
void qr_ring_resolve(const char *const *hosts, size_t n, int64_t timeout_ns, enum qr_code *ret_code,
                     char **ret_address);

#endif
