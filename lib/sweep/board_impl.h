/* sweep/board_impl.h — a board over a store that is open, whose calls a test can make fail (inside
 * the room). */
#ifndef QR_SWEEP_BOARD_IMPL_H
#define QR_SWEEP_BOARD_IMPL_H

#include "sweep/board.h"

/* Takes the store and dir: the folder of job.json, rows and claims there, with a '/' at its end. */
struct qr_sweep_board *qr_sweep_board_over(const struct qr_sweep_board_options *opt,
                                           struct qr_store *store, char *dir);

#endif
