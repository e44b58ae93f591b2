/* output/steps_log.h — steps.jsonl: each committed step's line exactly once, whoever leads, also
 * when several workers write into one folder.
 *
 * What      A line is written under a lock of the file, after a look at its end, at the place where
 *           that was. Lines before it that this worker has not seen there are written first. If
 *           somebody else has written since (or this worker never has), the end is compared with
 *           the lines that are known: a torn line is cut, lines that are missing are added, a line
 *           that is there is not written again, and a file of another run begins anew. Of a file of
 *           any length one window is in memory (QR_STEPS_WINDOW_BYTES).
 * Failure   A disk that is full or broken keeps no step waiting: the lines are kept here, and tried
 *           again once a second, with the next line. None is given up: when they take more than
 *           QR_STEPS_KEPT_BYTES the log is full, and training must end.
 * Stopped   in the lock, a worker is waited for once, for 0.2 s; then lines are written without the
 *           lock. When it wakes it writes the bytes that are there already, where they are.
 * Links     are not written through: a steps.jsonl that is a symbolic link, has several names or is
 *           no ordinary file is an error.
 * Threads   one.
 */
#ifndef QR_OUTPUT_STEPS_LOG_H
#define QR_OUTPUT_STEPS_LOG_H

#include <time.h>

#include "record/result.h"

enum { QR_STEPS_WINDOW_BYTES = 64 << 10, QR_STEPS_KEPT_BYTES = 16 << 20 };

struct qr_steps_log {
    char *path;
    int fd;         /* -1: not open yet */
    long long end;  /* of the file when this worker wrote last; -1: it never did */
    uint64_t last;  /* place of the last line that is there then */
    bool impatient; /* the lock's holder did not give it back in time */
    bool was_there; /* what a former run left: its size and time */
    long long found_size;
    struct timespec found;
    struct qr_buf kept; /* lines that could not be written yet, oldest first */
    uint64_t kept_last; /* place of its last */
    bool full;          /* they are more than may be kept */
    bool ours;          /* what is in the file is this run's */
    bool leaves;        /* in qr_steps_log_write_leaving */
    int64_t retry_ns;   /* when they are tried again */
    struct qr_err why;  /* why the last try failed */
    /* the file went on without the lines between these two, when this worker came: their places,
     * 0: it lacked none */
    uint64_t lacks_after, lacks_before;
    struct qr_buf tail;
};
void qr_steps_log_init(struct qr_steps_log *l, const char *dir);
void qr_steps_log_fini(struct qr_steps_log *l);
/* A run begins at its first step: what a former one left is taken away, if it is as it was at
 * qr_steps_log_init. (Who was stopped since then may believe that the run begins, and others
 * have written.) */
QR_MUST_CHECK enum qr_code qr_steps_log_truncate(struct qr_steps_log *l, struct qr_err *err);
/* This run goes on from a state of this step, which a checkpoint of it had: lines that reach it are
 * this run's. A file that cannot be read is met again when a line is written. */
void qr_steps_log_resume(struct qr_steps_log *l, uint64_t step);
/* Of a worker that leaves and does not lead: n lines, oldest first; the leader may lack the
 * last. FAILED_PRECONDITION: the file does not reach them, and is left as it is. */
QR_MUST_CHECK enum qr_code qr_steps_log_write_leaving(struct qr_steps_log *l,
                                                      const struct qr_step_line *line, size_t n,
                                                      struct qr_err *err);
/* before: the lines just before it, oldest first. *ret_continues: this worker's first line, behind
 * lines of others. An error: this try failed, and the line is kept. OK without a try while the next
 * one is not due: qr_steps_log_n_pending tells. */
QR_MUST_CHECK enum qr_code qr_steps_log_write(struct qr_steps_log *l,
                                              const struct qr_step_line *line,
                                              const struct qr_step_line *before, size_t n_before,
                                              bool *ret_continues, struct qr_err *err);
/* Some lines are not in the file yet; how many. */
bool qr_steps_log_pending(const struct qr_steps_log *l);
size_t qr_steps_log_n_pending(const struct qr_steps_log *l);
/* Tries now to write those. */
QR_MUST_CHECK enum qr_code qr_steps_log_flush(struct qr_steps_log *l, struct qr_err *err);

#endif
