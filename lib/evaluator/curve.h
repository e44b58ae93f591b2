/* evaluator/curve.h — OUT/evaluation.jsonl: a line for each state that was evaluated, each once,
 * also when the evaluator was killed and started again.
 *
 * Line      the evaluation's line of steps.jsonl, with the first 16 digits of the job hash behind
 *           it: the numbers of one job belong to one curve, whoever computed them and in which run.
 * Start     The last line says what has been evaluated. A torn one behind it is cut. Another job's
 *           curve is refused, and stays; where it may be replaced (--fresh) its lines go when the
 *           first one of this job is written.
 * Lock      One evaluator at a time writes it, where the file system has locks.
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
    uint64_t step; /* of its last line; 0: it has none */
    bool other;    /* what was there is another job's: it goes when a line is written */
    char job_hash[QR_CURVE_HASH_CHARS + 1];
};
/* dir is there. replace: another job's curve may go. pause: for the second that another evaluator,
 * which may be ending, is waited for. UNAVAILABLE: there is one; INVALID_ARGUMENT: the file is no
 * curve, or another job's. */
QR_MUST_CHECK enum qr_code qr_curve_open(const char *dir, const char *job_hash, bool replace,
                                         void (*pause)(void *ctx, int64_t ns), void *ctx,
                                         struct qr_curve *ret, struct qr_err *err);
/* All of it or nothing; of a later step than those that it has. */
QR_MUST_CHECK enum qr_code qr_curve_add(struct qr_curve *c, const struct qr_step_line *line,
                                        struct qr_err *err);
void qr_curve_close(struct qr_curve *c); /* also of {0} */

/* How a file ends: the last window of it, first: the whole file is in it. *ret_whole: so many of
 * the window's bytes are whole lines; the last one's step, 0 where there is none, and job hash.
 * INVALID_ARGUMENT: these are no lines of a curve. */
QR_MUST_CHECK enum qr_code qr_curve_last(struct qr_bytes window, bool first, size_t *ret_whole,
                                         uint64_t *ret_step,
                                         char ret_job_hash[QR_CURVE_HASH_CHARS + 1],
                                         struct qr_err *err);

#endif
