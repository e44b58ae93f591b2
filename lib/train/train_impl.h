/* train/train_impl.h — one run: reporting (report.c), joining a generation (join.c), reductions
 * (train.c). */
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
    /* spare: the next state until it is applied, then the previous one */
    struct qr_state state, spare;
    struct qr_stepper *stepper;
    struct qr_order order;
    uint64_t ordered;    /* the epoch that order is of, + 1 */
    struct qr_buf bytes; /* buffer for transferred states */
    uint8_t digest[16];  /* of the current state */
    qr_fixed *own_sum;
    const qr_fixed *sum; /* of the last reduction: own_sum, or, alone, the stepper's */
    struct qr_update update;
    /* Unclipped gradients of the updates that led to the state and to the spare */
    double *gradient, *next_gradient;
    size_t n_values;                                                    /* 1 + metrics */
    struct qr_named_value values[16], val_values[16], epoch_values[32]; /* loss, metrics */
    struct qr_lines lines, fetched_lines;
    struct qr_buf text, next_text; /* of the lines that led to the state and to the spare */
    struct qr_step_line reported[QR_LINES_KEPT];
    struct qr_named_value reported_metrics[QR_LINES_KEPT][QR_LINE_VALUES],
        reported_logged[QR_LINES_KEPT][QR_MAX_LOGGED];
    bool reported_leading; /* the last line was reported by this process as leader */
    /* Position of the last line that this process reported as leader; a line is not reported twice,
     * even after going back to an earlier step */
    uint64_t last_reported;
    int64_t epoch_began_ns;
    unsigned n_joined;
    bool has_val, logged_schedule, done;
    struct qr_pod_time pod_time;
    /* The leader has announced that the limit is reached: the members of this generation close */
    bool over;
};

static inline bool train_leads(const struct train_run *r) { return r->view.rank == 0; }

/* ---- report.c ---- */

/* Computes the chain of a line from that of the state before it, for the line and for the state
 * that it leads to. */
void train_chain(struct train_run *r, struct qr_state *s, struct qr_step_values *line);
/* Reports the line that led to the current state, after a reduction from this state has completed;
 * once, and again by a new leader. */
QR_MUST_CHECK enum qr_code train_report(struct train_run *r, struct qr_err *err);
/* Reports lines that the previous leader may not have written. */
enum qr_code train_report_again(struct train_run *r, struct qr_err *err);
/* Handles the commit of the current state, when a reduction based on it has completed. Writes its
 * line before the state is published, since publishing may exchange the state. */
QR_MUST_CHECK enum qr_code train_note_committed(struct train_run *r, struct qr_err *err);
/* Computes the state's running means and validation into r->values and r->val_values. */
void train_show_values(struct train_run *r);
/* Shows a line that is applied but not committed to the progress callbacks. */
void train_show(struct train_run *r, const struct qr_step_values *line);

/* ---- join.c ---- */

/* Initializes s with the first state here: the job's, or that of the checkpoint that this process
 * began from. */
void train_begin_state(const struct train_run *r, struct qr_state *s);
/* Sets the number of epochs, which the first leader decides. */
void train_plan(struct train_run *r, uint64_t epochs);
/* Returns when this member works in a generation and has its base state, or when the others have
 * ended the run (r->done). */
QR_MUST_CHECK enum qr_code train_join(struct train_run *r, struct qr_err *err);
size_t train_batch_of(const struct train_run *r); /* of its epoch, the next one */
/* Prepares the stepper for the current state. */
void train_prepare(struct train_run *r);
/* Makes the spare the current state. */
void train_swap(struct train_run *r, const uint8_t digest[16]);

#endif
