/* evaluator/curve.h — OUT/evaluation.jsonl: one line for each evaluated state, without duplicates,
 * also when the evaluator is killed and restarted.
 *
 * Line      the evaluation's line of steps.jsonl, followed by the first 16 digits of the job hash:
 *           the values of one job form one curve, in whatever process and run they were computed.
 * Order     qr_curve_open, qr_curve_add for each state, qr_curve_close.
 * Start     The last line names the last evaluated state. A partial line after it is removed.
 *           Another job's curve is rejected and kept; where it may be replaced (--fresh), its lines
 *           are deleted when the first line of this job is written.
 * Lock      One evaluator at a time, where the file system has locks.
 * Threads   one.
 */
#ifndef QR_EVALUATOR_CURVE_H
#define QR_EVALUATOR_CURVE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "record/result.h"

enum { QR_CURVE_HASH_CHARS = 16, QR_CURVE_WINDOW_BYTES = 64 << 10 };

struct qr_curve {
    char *path;
    int fd;
    long long end;
    uint64_t step; /* of the last line; 0: no line */
    bool other;    /* holds another job's lines, deleted at the first write */
    char job_hash[QR_CURVE_HASH_CHARS + 1];
};
/* Opens a curve, and waits a second for another evaluator that may be ending.
 *
 * Args:     dir         existing folder
 *           replace     another job's curve may be deleted
 *           pause, ctx  sleeps
 *           ret         close with qr_curve_close
 * Errors:   UNAVAILABLE (another evaluator); INVALID_ARGUMENT (not a curve, or another job's)
 */
QR_MUST_CHECK enum qr_code qr_curve_open(const char *dir, const char *job_hash, bool replace,
                                         void (*pause)(void *ctx, int64_t ns), void *ctx,
                                         struct qr_curve *ret, struct qr_err *err);
/* Appends a line, completely or not at all. Its step must be later than all others. */
QR_MUST_CHECK enum qr_code qr_curve_add(struct qr_curve *c, const struct qr_step_line *line,
                                        struct qr_err *err);
void qr_curve_close(struct qr_curve *c); /* also valid for {0} */

/* Parses the end of a curve file.
 *
 * Args:     window        the last bytes of the file, QR_CURVE_WINDOW_BYTES at most
 *           first         window is the whole file
 *           ret_whole     bytes of the window that are complete lines
 *           ret_step      step of the last line; 0: none
 *           ret_job_hash  of the last line
 * Errors:   INVALID_ARGUMENT: not lines of a curve
 */
QR_MUST_CHECK enum qr_code qr_curve_last(struct qr_bytes window, bool first, size_t *ret_whole,
                                         uint64_t *ret_step,
                                         char ret_job_hash[QR_CURVE_HASH_CHARS + 1],
                                         struct qr_err *err);

#endif
