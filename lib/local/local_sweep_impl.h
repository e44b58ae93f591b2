/* local/local_sweep_impl.h — one slot, for the process that supervises it. */
#ifndef QR_LOCAL_LOCAL_SWEEP_IMPL_H
#define QR_LOCAL_LOCAL_SWEEP_IMPL_H

#include "local/local_sweep.h"

/* Runs a slot's process to its end. SIGINT, SIGTERM and SIGCHLD are blocked.
 *
 * Args:     number  of the slot
 *           holder  hex id of its claims, the same after a restart
 * Returns:  the exit code
 */
int qr_local_slot(const struct qr_local_sweep_options *opt, unsigned number, const char *holder);

#endif
