/* train/join.c — how a run joins a generation, and which state it resumes from. Start reading at
 * train_join(). */
#include <stdio.h>
#include <string.h>

#include "base/bounds.h"
#include "base/counter.h"
#include "base/span.h"
#include "train/members.h"
#include "train/train_impl.h"

size_t train_batch_of(const struct train_run *r) {
    return (size_t)(r->state.step - r->state.epoch * r->n_batches);
}

void train_prepare(struct train_run *r) {
    int64_t span_ns = qr_span_begin();
    qr_update_prepare(&r->update, r->stepper, &r->state, train_batch_of(r) < r->n_batches);
    qr_span_end(span_ns, QR_SPAN_PREPARE, NULL, 0);
}

void train_swap(struct train_run *r, const uint8_t digest[16]) {
    struct qr_state s = r->state;
    struct qr_buf text = r->text;
    double *gradient = r->gradient;
    r->state = r->spare;
    r->spare = s;
    r->gradient = r->next_gradient;
    r->next_gradient = gradient;
    r->text = r->next_text;
    r->next_text = text;
    memcpy(r->digest, digest, sizeof r->digest);
    qr_stepper_clear(r->stepper);
    train_prepare(r);
    train_show_values(r);
}

static enum qr_code fetch_state(struct train_run *r, const struct qr_group_start *start,
                                struct qr_err *err) {
    qr_buf_clear(&r->bytes);
    r->bytes.max = qr_transfer_length(&r->state); /* a peer may send without end */
    QR_TRY(qr_group_fetch(r->opt->group, &r->bytes, err));
    QR_TRY(qr_transfer_decode(qr_buf_view(&r->bytes), start->base_reductions, start->base_digest,
                              &r->spare, r->next_gradient, &r->fetched_lines, err));
    QR_TRY(qr_group_apply(r->opt->group, start->base_reductions, start->base_digest, err));
    train_swap(r, start->base_digest);
    qr_pod_time_reset(&r->pod_time, qr_now_ns(r->opt->clock));
    r->lines = r->fetched_lines;
    r->reported_leading = false;
    r->epoch_began_ns = qr_now_ns(r->opt->clock);
    qr_info(r->opt->log, "train", "fetched the state of step %llu from the group",
            (unsigned long long)r->state.step);
    return QR_OK;
}

void train_begin_state(const struct train_run *r, struct qr_state *s) {
    const struct qr_train_options *opt = r->opt;
    qr_state_fini(s);
    qr_state_init(s, r->job, opt->model);
    char data_hash[2 * QR_SHA256_BYTES + 1];
    qr_hex(opt->data->digest, QR_SHA256_BYTES, data_hash);
    qr_chain_begin(opt->canonical->hex, data_hash, s->contract, s->chain);
    if (opt->resume) qr_state_copy(s, opt->resume);
    else if (opt->initial) memcpy(s->weights, opt->initial, s->n_params * sizeof *s->weights);
    else qr_model_init(opt->model, r->job->seed, s->weights);
}

/* The next generation resumes from the spare, a checkpoint's state. */
static enum qr_code resume_from_spare(struct train_run *r, const char *goes, const char *where,
                                      struct qr_err *err) {
    uint8_t digest[16];
    qr_state_digest(&r->spare, digest);
    enum qr_code code = qr_group_reloaded(r->opt->group, r->spare.reductions, digest, err);
    if (code != QR_ABORTED) return code;
    train_swap(r, digest);
    r->lines = (struct qr_lines){0};
    qr_warn(r->opt->log, "train", "%s step %llu (%s)", goes, (unsigned long long)r->state.step,
            where);
    return code;
}

/* The members' states differ without a majority: go back to the last checkpoint. */
static enum qr_code reload_checkpoint(struct train_run *r, struct qr_err *err) {
    const struct qr_train_options *o = r->opt;
    bool found = false;
    if (o->reload && o->reload(o->reload_ctx, &r->spare, &found, err) != QR_OK)
        return qr_wrap(err, "go back to the last checkpoint");
    if (!found) train_begin_state(r, &r->spare);
    return resume_from_spare(r, "went back to",
                             found ? "the last checkpoint" : "there is no newer checkpoint", err);
}

enum { ENDED_WITHIN_S = 60 };

/* Rule 7: checks whether other workers have trained further since these started; sets r->done when
 * they have ended the run. */
static enum qr_code check_newer_checkpoint(struct train_run *r, struct qr_err *err) {
    const struct qr_train_options *o = r->opt;
    bool found = false;
    struct qr_err why;
    if (o->anew) return o->anew(o->reload_ctx, err);
    if (!train_leads(r) || !o->reload || !o->ended) return QR_OK;
    if (!qr_group_compares(o->group)) return QR_OK; /* single-worker run */
    if (o->reload(o->reload_ctx, &r->spare, &found, &why) != QR_OK) {
        qr_warn(o->log, "train", "cannot check whether other workers have trained further: %s",
                why.msg);
        return QR_OK;
    }
    if (found && o->ended(o->reload_ctx)) {
        r->done = true;
        return qr_group_done(o->group, NULL, ENDED_WITHIN_S * QR_SECOND, err);
    }
    if (!found || r->spare.reductions <= r->state.reductions) return QR_OK;
    return resume_from_spare(r, "resumed from",
                             "other workers have trained further since this one started", err);
}

static enum qr_code give_state(struct train_run *r, struct qr_err *err) {
    qr_buf_clear(&r->bytes);
    qr_transfer_encode(&r->state, r->gradient, &r->lines, &r->bytes);
    return qr_group_give(r->opt->group, qr_buf_view(&r->bytes), err);
}

static void log_members(struct train_run *r, int64_t took_ns) {
    char members[900];
    qr_members_text(&r->view, members, sizeof members);
    if (r->n_joined > 1)
        qr_info(r->opt->log, "train", "resumed after step %llu with %s (regroup took %.2f s)",
                (unsigned long long)r->state.step, members, (double)took_ns / 1e9);
}

void train_plan(struct train_run *r, uint64_t epochs) {
    r->epochs = epochs;
    qr_gauge(QR_EPOCHS_PLANNED, (int64_t)epochs);
    qr_gauge(QR_STEPS_PLANNED, (int64_t)(epochs * r->n_batches));
}

/* A parameter server without workers: checks whether they have continued without it and ended the
 * run. */
static bool run_ended_elsewhere(struct train_run *r) {
    const struct qr_train_options *o = r->opt;
    bool found = false;
    struct qr_err why;
    if (!o->reload || !o->ended) return false;
    if (o->reload(o->reload_ctx, &r->spare, &found, &why) == QR_OK)
        return found && o->ended(o->reload_ctx);
    qr_warn(o->log, "train", "cannot check whether other workers have ended the run: %s", why.msg);
    return false;
}

enum qr_code train_join(struct train_run *r, struct qr_err *err) {
    const struct qr_train_observer *o = &r->opt->observer;
    int64_t began_ns = qr_now_ns(r->opt->clock);
    enum qr_code code;
    do {
        struct qr_group_start start;
        if ((code = qr_group_join(r->opt->group, &start, err)) != QR_OK) return code;
        r->done = start.done || (start.waits && run_ended_elsewhere(r));
        if (r->done) return QR_OK;
        if (start.waits) {
            code = QR_ABORTED;
            continue;
        }
        r->view = start.view;
        r->over = false; /* new members do not know: the next sum announces the limit again */
        qr_pod_time_set_members(&r->pod_time, r->view.n_members, qr_now_ns(r->opt->clock));
        train_plan(r, start.epochs);
        r->n_joined++;
        qr_stepper_set_rank(r->stepper, r->view.rank, r->view.n_members);
        if (!start.keep) qr_stepper_clear(r->stepper);
        if (start.first && ((code = check_newer_checkpoint(r, err)) != QR_OK || r->done)) continue;
        if (o->joined && !start.reload &&
            (code = o->joined(o->ctx, &r->view, r->epochs,
                              start.whole && start.base_reductions == 0, err)) != QR_OK)
            return code;
        if (start.reload) code = reload_checkpoint(r, err);
        else if (start.fetch) code = fetch_state(r, &start, err);
        else if (start.give) code = give_state(r, err);
    } while (code == QR_ABORTED);
    /* Only the rest of an epoch that began in an earlier process */
    if (!r->epoch_began_ns) r->epoch_began_ns = qr_now_ns(r->opt->clock);
    if (code == QR_OK && !r->done && train_leads(r) && !r->reported_leading)
        code = train_report_again(r, err);
    if (code == QR_OK && !r->done) log_members(r, qr_now_ns(r->opt->clock) - began_ns);
    return code;
}
