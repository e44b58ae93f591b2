/* local/progress_bar.h — a worker's progress for a person: Keras' bar on a terminal, of which
 * epochs of
 * one step have one that is drawn over; one line per epoch elsewhere.
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
    bool terminal; /* a bar that is drawn over itself */
    const struct qr_clock *clock;
    int64_t drawn_ns, epoch_began_ns, epoch;
    int last_chars; /* of the line on the terminal, to wipe it */
};
/* One event of output/outputs.h: "progress" and "epoch" are drawn, others are passed over; so is
 * what does not look like one. */
void qr_progress_event(struct qr_progress *p, const struct qr_json *event);
/* Ends a half-drawn line. */
void qr_progress_end(struct qr_progress *p);

/* "2/2 [==============================] - 0s 1ms/step - loss: 0.7213" into buf: seconds < 0 while
 * it runs ("ETA"). For tests too. */
void qr_progress_line(struct qr_buf *buf, uint64_t batch, uint64_t n_batches, double seconds,
                      double eta_seconds, const struct qr_json *values);

#endif
