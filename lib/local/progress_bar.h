/* local/progress_bar.h — shows a worker's progress: Keras' bar on a terminal (epochs of one step
 * share one line), one line for each epoch elsewhere.
 *
 * Ownership the caller owns the struct and the stream. Threads: one.
 */
#ifndef QR_LOCAL_PROGRESS_BAR_H
#define QR_LOCAL_PROGRESS_BAR_H

#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "format/json.h"

struct qr_progress {
    FILE *out;
    bool terminal; /* redraw a bar in place */
    const struct qr_clock *clock;
    int64_t drawn_ns, epoch_began_ns, epoch;
    int last_chars; /* of the present line, to erase it */
};
/* Shows one event of output/outputs.h: "progress" and "epoch"; others and malformed ones are
 * ignored. */
void qr_progress_event(struct qr_progress *p, const struct qr_json *event);
/* Ends an unfinished line. */
void qr_progress_end(struct qr_progress *p);

/* Appends "2/2 [==============================] - 0s 1ms/step - loss: 0.7213". seconds < 0 while
 * the epoch runs ("ETA"). Also for tests. */
void qr_progress_line(struct qr_buf *buf, uint64_t batch, uint64_t n_batches, double seconds,
                      double eta_seconds, const struct qr_json *values);

#endif
