/* train/state_transfer.h — the message that brings a member without the current state up to date:
 * the state, and what is needed to continue reporting it.
 *
 * Bytes     three counters, chain, all numbers of the state, the gradient of its last update, its
 *           last lines, and an XXH3-128 of all that. Not a file format: both sides run the same
 *           job, and the length must be exactly that of this job's state.
 * Threads   any (pure functions).
 */
#ifndef QR_TRAIN_STATE_TRANSFER_H
#define QR_TRAIN_STATE_TRANSFER_H

#include "record/result.h"
#include "train/state.h"

/* A line of the log as numbers. */
enum { QR_LINE_VALUES = 16 };
struct qr_step_values {
    uint64_t step, epoch, samples;
    bool eval, ends_epoch;
    double value[QR_LINE_VALUES]; /* loss, metrics, then logged values */
    uint64_t readouts[QR_READOUT_BUCKETS];
    /* Of the state after the line; all 0: not known */
    uint8_t digest[QR_XXH3_BYTES], chain[QR_CHAIN_BYTES];
};
/* The last lines, oldest first. waits: the last line belongs to the current state and is reported
 * when that state is committed. */
enum { QR_LINES_KEPT = 4 };
struct qr_lines {
    size_t n;
    bool waits;
    struct qr_step_values line[QR_LINES_KEPT];
};
/* Appends a line; drops the oldest when there are QR_LINES_KEPT. */
void qr_lines_add(struct qr_lines *l, const struct qr_step_values *t);

/* Bytes of a message with a state of this job. */
size_t qr_transfer_length(const struct qr_state *s);
/* Appends the encoded message to ret. gradient: n_params. */
void qr_transfer_encode(const struct qr_state *s, const double *gradient, const struct qr_lines *l,
                        struct qr_buf *ret);
/* Decodes a message.
 *
 * Args:     reductions, digest  those of the expected state
 *           ret_state           made by qr_state_init for this job
 *           ret_gradient        n_params
 * Errors:   UNAVAILABLE: corrupt, or not the expected state; the ret arguments are unchanged
 */
QR_MUST_CHECK enum qr_code qr_transfer_decode(struct qr_bytes bytes, uint64_t reductions,
                                              const uint8_t digest[16], struct qr_state *ret_state,
                                              double *ret_gradient, struct qr_lines *ret_lines,
                                              struct qr_err *err);

#endif
