/* output/progress_snapshot.h — the progress of a run at one moment, and its text formats.
 *
 * Values    Named as in Keras: running means of the epoch (loss, metrics), those of the last
 *           validation with the prefix val_, and values that the job logs.
 * Threads   Any; pure functions.
 */
#ifndef QR_OUTPUT_PROGRESS_SNAPSHOT_H
#define QR_OUTPUT_PROGRESS_SNAPSHOT_H

#include "base/bytes.h"
#include "base/clock.h"
#include "record/result.h"

enum { QR_PROGRESS_VALUES = 32 };
struct qr_progress_snapshot {
    uint64_t pod_ms;      /* pod-time so far: number of members times time */
    uint64_t step, steps; /* steps: of the whole run, 0: not known */
    uint64_t epoch, epochs;
    double learning_rate;
    size_t n;
    struct {
        const char *name; /* of the job or the model; borrowed */
        bool validation;
        double value;
    } value[QR_PROGRESS_VALUES];
};
/* Adds a committed line. Values beyond QR_PROGRESS_VALUES are left out. */
void qr_progress_snapshot_add(struct qr_progress_snapshot *s, const struct qr_step_line *line,
                              const struct qr_step_detail *detail);

/* Sets the final values: loss, metrics and val_ metrics of the weights that are written. */
void qr_progress_snapshot_end(struct qr_progress_snapshot *s, const struct qr_named_value *values,
                              size_t n);

/* Speed over the last minute, by the clock of the caller. Initialized with {0}. */
enum { QR_PACE_MARKS = 16 };
struct qr_pace {
    size_t n;
    struct {
        int64_t ns;
        uint64_t step;
    } mark[QR_PACE_MARKS];
};
/* Returns the remaining seconds; -1: not known yet. */
double qr_pace_left_s(struct qr_pace *p, int64_t now_ns, const struct qr_progress_snapshot *s);

/* Returns 0 ... 99, or 100 when done; -1: not known. */
int qr_progress_snapshot_percent(const struct qr_progress_snapshot *s, bool done);
/* Appends {"trainerStatus": ...} of Kubeflow's KEP-2779. left_s: -1: not known; wall_ns: since
 * 1970. */
void qr_progress_snapshot_trainer_status(const struct qr_progress_snapshot *s, bool done,
                                         double left_s, int64_t wall_ns, struct qr_buf *ret);
/* Appends {"metadata": {"annotations": ...}}, a merge patch: qring.dev/progress ("45%"), step and
 * epoch ("3/50"), remaining ("120s"), updated, and each value by its name. */
void qr_progress_snapshot_annotations(const struct qr_progress_snapshot *s, bool done,
                                      double left_s, int64_t wall_ns, struct qr_buf *ret);

#endif
