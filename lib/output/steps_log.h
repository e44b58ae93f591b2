/* output/steps_log.h — steps.jsonl: one line for each committed step, whichever worker leads, also
 * when several workers write into one folder.
 *
 * Use       qr_steps_log_init; qr_steps_log_truncate for a new run or qr_steps_log_resume;
 *           qr_steps_log_write for each step; qr_steps_log_flush and qr_steps_log_fini at the end.
 * Write     Under a lock of the file, after checking its end, at that offset; with the preceding
 *           lines that this worker has not seen there. If another worker has written since (or this
 *           worker never has), the end of the file is compared with the known lines: a torn line is
 *           cut, missing lines are added, existing lines are not written again, and a file of
 *           another run is truncated. One window of the file is in memory (QR_STEPS_WINDOW_BYTES).
 * Failure   A full or broken disk delays no step: the lines are kept in memory and retried once a
 *           second, with the next line. None is dropped: above QR_STEPS_KEPT_BYTES the log is full,
 *           and training must end.
 * Stopped   A worker that is stopped while it holds the lock is waited for once, for 0.2 s; then
 *           lines are written without the lock. When it continues, it writes the same bytes at the
 *           same offset.
 * Links     Not followed: a steps.jsonl that is a symbolic link, has several names or is not a
 *           regular file is an error.
 * Position  2 * step, plus 1 for an evaluation: the order of the lines.
 * Threads   One.
 */
#ifndef QR_OUTPUT_STEPS_LOG_H
#define QR_OUTPUT_STEPS_LOG_H

#include <time.h>

#include "record/result.h"

enum { QR_STEPS_WINDOW_BYTES = 64 << 10, QR_STEPS_KEPT_BYTES = 16 << 20 };

struct qr_steps_log {
    char *path;
    int fd; /* -1: not open */
    /* size of the file after the last write of this worker; -1: it has not written */
    long long end;
    uint64_t last;  /* position of the last line in the file then */
    bool impatient; /* the holder of the lock did not release it in time */
    bool was_there; /* a file of an earlier run existed: its size and time */
    long long found_size;
    struct timespec found;
    struct qr_buf kept; /* pending lines, oldest first */
    uint64_t kept_last; /* position of the last of these */
    bool full;          /* they exceed QR_STEPS_KEPT_BYTES */
    bool ours;          /* the content of the file is of this run */
    bool leaves;        /* inside qr_steps_log_write_leaving */
    int64_t retry_ns;   /* time of the next attempt */
    struct qr_err why;  /* error of the last attempt */
    /* Positions around lines that are missing in the file since before this worker wrote; 0:
     * none. */
    uint64_t lacks_after, lacks_before;
    struct qr_buf tail;
};
void qr_steps_log_init(struct qr_steps_log *l, const char *dir);
void qr_steps_log_fini(struct qr_steps_log *l);
/* Empties the file of an earlier run, at the first step of a run, if it has not changed since
 * qr_steps_log_init. (A process that was stopped meanwhile may believe that the run starts, while
 * others have written.) */
QR_MUST_CHECK enum qr_code qr_steps_log_truncate(struct qr_steps_log *l, struct qr_err *err);
/* Resumes from a checkpoint of this step: a file with lines up to it is of this run. Read errors
 * are reported when a line is written. */
void qr_steps_log_resume(struct qr_steps_log *l, uint64_t step);
/* Writes the lines of a worker that leaves and does not lead; the leader may lack the last one.
 *
 * Args:     line  n lines, oldest first
 * Errors:   FAILED_PRECONDITION: the file ends before these lines, and is left unchanged
 */
QR_MUST_CHECK enum qr_code qr_steps_log_write_leaving(struct qr_steps_log *l,
                                                      const struct qr_step_line *line, size_t n,
                                                      struct qr_err *err);
/* Writes a line, or keeps it as pending.
 *
 * Args:     before         the preceding lines, oldest first
 *           ret_continues  true: the first line of this worker after those of other workers
 * Returns:  OK also without an attempt, while the next one is not due: see qr_steps_log_pending
 * Errors:   the attempt failed; the line is pending
 */
QR_MUST_CHECK enum qr_code qr_steps_log_write(struct qr_steps_log *l,
                                              const struct qr_step_line *line,
                                              const struct qr_step_line *before, size_t n_before,
                                              bool *ret_continues, struct qr_err *err);
/* True if lines are pending; their number. */
bool qr_steps_log_pending(const struct qr_steps_log *l);
size_t qr_steps_log_n_pending(const struct qr_steps_log *l);
/* Writes the pending lines now. */
QR_MUST_CHECK enum qr_code qr_steps_log_flush(struct qr_steps_log *l, struct qr_err *err);

#endif
