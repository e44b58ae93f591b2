/* sweep/board_impl.h — a board over an open store, for tests that make the store's calls fail. */
#ifndef QR_SWEEP_BOARD_IMPL_H
#define QR_SWEEP_BOARD_IMPL_H

#include "sweep/board.h"

/* Takes ownership of the store and of dir: the folder of job.json, rows and claims in it, with a
 * trailing '/'. */
struct qr_sweep_board *qr_sweep_board_over(const struct qr_sweep_board_options *opt,
                                           struct qr_store *store, char *dir);

#endif
