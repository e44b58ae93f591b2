/* train/train_impl.h — one run as its files see it: what is reported of it (report.c), how it comes
 * into a generation (join.c), its reductions (train.c). */
#ifndef QR_TRAIN_TRAIN_IMPL_H
#define QR_TRAIN_TRAIN_IMPL_H

#include "train/logged.h"
#include "train/pod_time.h"
#include "train/state.h"
#include "train/step.h"
#include "train/train.h"
#include "train/state_transfer.h"
#include "train/update.h"

struct train_run {
    const struct qr_train_options *opt;
    const struct qr_job *job;
    uint64_t epochs;  /* the ring's */
    size_t n_batches; /* of an epoch */
    struct qr_group_view view;
    /* spare: the next one until it is applied, then the one before */
    struct qr_state state, spare;
    struct qr_stepper *stepper;
    struct qr_order order;
    uint64_t ordered;    /* the epoch that order is of, + 1 */
    struct qr_buf bytes; /* for states that change hands */
    uint8_t digest[16]; /* of the present state; after an update alone, all 0: nobody compares it */
    qr_fixed *own_sum;
    const qr_fixed *sum; /* of the last reduction: own_sum, or, alone, the stepper's */
    struct qr_update update;
    /* as they came: of the update that led to the state, and to the spare */
    double *gradient, *next_gradient;
    size_t n_values;                                                    /* 1 + metrics */
    struct qr_named_value values[16], val_values[16], epoch_values[32]; /* loss, metrics */
    struct qr_lines lines, fetched_lines;
    struct qr_step_line reported[QR_LINES_KEPT];
    struct qr_named_value reported_metrics[QR_LINES_KEPT][QR_LINE_VALUES],
        reported_logged[QR_LINES_KEPT][QR_MAX_LOGGED];
    bool reported_leading; /* the last line was reported by this process, leading */
    /* of the last line that this process reported, leading: none is reported again, also after a
     * step back */
    uint64_t reported_place;
    int64_t epoch_began_ns;
    unsigned n_joined;
    bool has_val, said_schedule, done;
    struct qr_pod_time spent;
    /* the leader has said that its bound is reached: the members of this generation close */
    bool over;
    uint64_t in_flight[QR_STEPPER_IN_FLIGHT]; /* the control thread's */
};

static inline bool train_leads(const struct train_run *r) { return r->view.rank == 0; }

/* ---- report.c ---- */

/* The present state is committed: a reduction that was based on it has passed. What led to it may
 * be reported, once, and by who leads now in any case. */
QR_MUST_CHECK enum qr_code train_report(struct train_run *r, struct qr_err *err);
/* The log may lack what others should have written. */
enum qr_code train_report_again(struct train_run *r, struct qr_err *err);
/* A reduction that was based on the present state has passed. Its line is written before the state
 * is published, which may leave other numbers in its place. */
QR_MUST_CHECK enum qr_code train_note_committed(struct train_run *r, struct qr_err *err);
/* Of the state: its running means and its validation, into r->values and r->val_values. */
void train_show_values(struct train_run *r);
/* To who watches, at once: a line that is applied and not committed. */
void train_show(struct train_run *r, const struct qr_step_values *line);

/* ---- join.c ---- */

/* As it is before anything has been computed here: the job's first state, or that of the checkpoint
 * that this process began from. */
void train_begin_state(const struct train_run *r, struct qr_state *s);
/* The first leader's number counts for all. */
void train_plan(struct train_run *r, uint64_t epochs);
/* Until this member works in a generation and has its base, or the others have ended the
 * run (r->done). */
QR_MUST_CHECK enum qr_code train_join(struct train_run *r, struct qr_err *err);

/* ---- train.c ---- */

size_t train_batch_of(const struct train_run *r); /* of its epoch, the next one */
/* Numbers for what comes next. */
void train_prepare(struct train_run *r);
/* The spare is the state from now on. */
void train_swap(struct train_run *r, const uint8_t digest[16]);

#endif
