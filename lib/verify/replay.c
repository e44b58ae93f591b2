/* verify/replay.c — computes steps of a run again. Start reading at qr_replay_run(). */
#include "verify/replay.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "group/group.h"
#include "train/train_checkpoint.h"

struct replay {
    const struct qr_replay_options *opt;
    struct qr_replay *ret;
    struct qr_group *group;
    size_t next; /* of the recorded lines: those before are computed, or precede the first state */
    bool reached;
};

static void replay_stop(struct replay *r) {
    r->reached = true;
    qr_group_interrupt(r->group);
}

/* ---- lines ---- */

/* The value behind the key before this byte: up to the next comma or brace. */
static void copy_value(struct qr_bytes text, size_t at, size_t n, char *ret) {
    size_t end = at;
    while (end < text.n && text.p[end] != ',' && text.p[end] != '}') end++;
    snprintf(ret, n, "%.*s", (int)(end - at), (const char *)text.p + at);
}

/* Names the first key whose value differs. */
static void name_key(struct qr_bytes recorded, struct qr_bytes computed, struct qr_replay *ret) {
    size_t at = 0, n = recorded.n < computed.n ? recorded.n : computed.n;
    while (at < n && recorded.p[at] == computed.p[at]) at++;
    while (at > 0 && !(computed.p[at - 1] == ':' && at > 1 && computed.p[at - 2] == '"')) at--;
    size_t key = at > 2 ? at - 2 : 0, end = key;
    while (key > 0 && computed.p[key - 1] != '"') key--;
    snprintf(ret->key, sizeof ret->key, "%.*s", (int)(end - key), (const char *)computed.p + key);
    copy_value(recorded, at, sizeof ret->recorded_value, ret->recorded_value);
    copy_value(computed, at, sizeof ret->computed_value, ret->computed_value);
}

static uint64_t next_position(const struct replay *r) {
    const struct qr_chain *c = r->opt->recorded;
    return r->next < c->n_in_place ? qr_chain_position(&c->line[r->next]) : UINT64_MAX;
}

/* The next recorded line was not computed, although it is before this position. */
static bool find_not_computed(struct replay *r, uint64_t before) {
    if (r->ret->differs || next_position(r) >= before) return r->ret->differs;
    const struct qr_chain_line *l = &r->opt->recorded->line[r->next];
    r->ret->differs = true;
    r->ret->step = l->step;
    r->ret->eval = l->eval;
    snprintf(r->ret->recorded, sizeof r->ret->recorded, "%s", l->digest);
    return true;
}

static enum qr_code replay_step(void *ctx, bool leader, const struct qr_step_line *line,
                                const struct qr_step_detail *detail, struct qr_err *err) {
    struct replay *r = ctx;
    struct qr_replay *ret = r->ret;
    uint64_t at = 2 * line->step + line->eval;
    (void)leader, (void)detail, (void)err;
    ret->n_steps += !line->eval;
    if (r->opt->with || (r->opt->last && next_position(r) > r->opt->last)) return QR_OK;
    if (find_not_computed(r, at)) {
        replay_stop(r);
        return QR_OK;
    }
    const struct qr_chain_line *was =
        next_position(r) == at ? &r->opt->recorded->line[r->next++] : NULL;
    qr_auto(qr_buf_free) struct qr_buf text = {0};
    qr_step_json(line, &text);
    text.n--; /* the newline */
    bool same = was && was->text.n == text.n && memcmp(was->text.p, text.p, text.n) == 0;
    if (same) return QR_OK;
    ret->differs = true;
    ret->step = line->step;
    ret->eval = line->eval;
    snprintf(ret->recorded, sizeof ret->recorded, "%s", was ? was->digest : "");
    snprintf(ret->computed, sizeof ret->computed, "%s", line->state_digest);
    if (was) name_key(was->text, qr_buf_view(&text), ret);
    replay_stop(r);
    return QR_OK;
}

/* Called at once after an update; the line is reported when the group has stopped. */
static void replay_progress(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t batch,
                            uint64_t n_batches, const struct qr_named_value *running, size_t n) {
    struct replay *r = ctx;
    (void)epochs, (void)running, (void)n;
    uint64_t step = (epoch - 1) * n_batches + batch;
    if (r->opt->last && !r->opt->with && 2 * step >= r->opt->last) replay_stop(r);
}

static void replay_epoch(void *ctx, uint64_t epoch, uint64_t epochs, uint64_t n_batches,
                         double seconds, const struct qr_named_value *values, size_t n) {
    struct replay *r = ctx;
    (void)epochs, (void)seconds, (void)values, (void)n;
    if (r->opt->last && !r->opt->with && 2 * epoch * n_batches + 1 >= r->opt->last) replay_stop(r);
}

/* ---- states ---- */

bool qr_replay_compare(const struct qr_tensors *recorded, const struct qr_tensors *computed,
                       struct qr_replay *ret) {
    for (size_t i = 0; i < computed->n && i < recorded->n; i++) {
        const struct qr_tensor *a = &recorded->v[i], *b = &computed->v[i];
        for (size_t k = 0; k < a->n && k < b->n; k++) {
            if (qr_bits_of_double(a->values[k]) == qr_bits_of_double(b->values[k])) continue;
            snprintf(ret->tensor, sizeof ret->tensor, "%s", b->name);
            ret->element = k;
            ret->recorded_number = a->values[k];
            ret->computed_number = b->values[k];
            return true;
        }
    }
    return false;
}

static enum qr_code replay_committed(void *ctx, bool leader, struct qr_state *state,
                                     struct qr_err *err) {
    struct replay *r = ctx;
    struct qr_checkpoint is;
    (void)leader, (void)err;
    if (!r->opt->with || state->reductions != r->opt->with->reductions || r->reached) return QR_OK;
    const struct qr_workload *w = r->opt->load;
    qr_state_save(state, w->job, w->model, r->opt->canonical->hex, &is);
    (void)qr_replay_compare(&r->opt->with->tensors, &is.tensors, r->ret);
    qr_checkpoint_fini(&is);
    replay_stop(r);
    return QR_OK;
}

enum qr_code qr_replay_run(const struct qr_replay_options *opt, struct qr_replay *ret,
                           struct qr_err *err) {
    struct replay r = {.opt = opt, .ret = ret};
    const struct qr_workload *w = opt->load;
    const struct qr_group_options group = {.run = w->job->name, .clock = &qr_clock_monotonic};
    *ret = (struct qr_replay){0};
    while (next_position(&r) <= opt->after) r.next++;
    r.group = qr_group_solo(&group);
    const struct qr_train_options o = {
        .job = w->job,
        .canonical = opt->canonical,
        .data = &w->data,
        .model = w->model,
        .initial = w->initial,
        .resume = opt->begin,
        .epochs = opt->epochs,
        .group = r.group,
        .pool = opt->pool,
        .clock = &qr_clock_monotonic,
        .observer = {.ctx = &r,
                     .step = replay_step,
                     .committed = replay_committed,
                     .progress = replay_progress,
                     .epoch = replay_epoch},
    };
    enum qr_code code = qr_train_run(&o, &ret->result, err);
    ret->ended = code == QR_OK;
    qr_group_close(r.group);
    if (code == QR_CANCELLED && r.reached) code = QR_OK;
    if (code == QR_OK && !opt->with) find_not_computed(&r, opt->last ? opt->last + 1 : UINT64_MAX);
    return code;
}

void qr_replay_fini(struct qr_replay *r) {
    if (r->ended) qr_train_result_fini(&r->result);
    *r = (struct qr_replay){0};
}
