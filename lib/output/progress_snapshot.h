/* output/progress_snapshot.h — how far a run is, as others are told: a snapshot, and its texts.
 *
 * Values    Keras' names: the epoch's running means (loss, metrics), those of the last validation
 *           with val_ in front, and what the job logs.
 * Threads   pure.
 */
#ifndef QR_OUTPUT_PROGRESS_SNAPSHOT_H
#define QR_OUTPUT_PROGRESS_SNAPSHOT_H

#include "base/bytes.h"
#include "base/clock.h"
#include "record/result.h"

enum { QR_PROGRESS_VALUES = 32 };
struct qr_progress_snapshot {
    uint64_t pod_ms;      /* members times time so far */
    uint64_t step, steps; /* steps: of the whole run; 0: not known */
    uint64_t epoch, epochs;
    double learning_rate;
    size_t n;
    struct {
        const char *name; /* of the job or the model; borrowed */
        bool validation;
        double value;
    } value[QR_PROGRESS_VALUES];
};
/* A committed line. What finds no place is left out. */
void qr_progress_snapshot_add(struct qr_progress_snapshot *s, const struct qr_step_line *line,
                              const struct qr_step_detail *detail);

/* At the end: loss, metrics and val_ ones of the weights that are written. */
void qr_progress_snapshot_end(struct qr_progress_snapshot *s, const struct qr_named_value *values,
                              size_t n);

/* How fast it goes: over the last minute, by the clock that is passed in. Begins as {0}. */
enum { QR_PACE_MARKS = 16 };
struct qr_pace {
    size_t n;
    struct {
        int64_t ns;
        uint64_t step;
    } mark[QR_PACE_MARKS];
};
/* Seconds that are left; -1: not known yet. */
double qr_pace_left_s(struct qr_pace *p, int64_t now_ns, const struct qr_progress_snapshot *s);

/* 0 ... 99, and 100 once it is done; -1: not known. */
int qr_progress_snapshot_percent(const struct qr_progress_snapshot *s, bool done);
/* {"trainerStatus": ...} of Kubeflow's KEP-2779. left_s: -1: not known; wall_ns: since 1970. */
void qr_progress_snapshot_trainer_status(const struct qr_progress_snapshot *s, bool done,
                                         double left_s, int64_t wall_ns, struct qr_buf *ret);
/* {"metadata": {"annotations": ...}}, a merge patch: qring.dev/progress ("45%"), step and epoch
 * ("3/50"), remaining ("120s"), updated, and each value by its name. */
void qr_progress_snapshot_annotations(const struct qr_progress_snapshot *s, bool done,
                                      double left_s, int64_t wall_ns, struct qr_buf *ret);

#endif
