/* local/local_sweep_impl.h — one slot, as the process that supervises it sees it. */
#ifndef QR_LOCAL_LOCAL_SWEEP_IMPL_H
#define QR_LOCAL_LOCAL_SWEEP_IMPL_H

#include "local/local_sweep.h"

/* The whole life of a slot's process: its exit code. holder: hex, the same when it is started
 * again. SIGINT, SIGTERM and SIGCHLD are blocked. */
int qr_local_slot(const struct qr_local_sweep_options *opt, unsigned number, const char *holder);

#endif
