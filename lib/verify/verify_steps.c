/* verify/verify_steps.c — computes steps of a run again from its checkpoints. Start reading at
 * verify_steps(). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "exact/random.h"
#include "record/checkpoint_folder.h"
#include "store/store.h"
#include "train/train_checkpoint.h"
#include "verify/verify_impl.h"

/* ---- checkpoints ---- */

/* The line whose state a checkpoint is; NULL: none. */
static const struct qr_chain_line *line_of(const struct verifying *v, uint64_t step,
                                           const char *digest) {
    for (int eval = 0; eval < 2; eval++) {
        const struct qr_chain_line *l = qr_chain_find(&v->chain, step, eval);
        if (l && strcmp(l->digest, digest) == 0) return l;
    }
    return NULL;
}

static uint64_t position_of(const struct verifying *v, const struct qr_checkpoint *c) {
    const struct qr_chain_line *l = line_of(v, c->step, c->digest);
    return l ? qr_chain_position(l) : 0;
}

/* Reads one checkpoint. A finding is appended to wrong. */
static enum qr_code take_checkpoint(struct verifying *v, const struct qr_checkpoint_folder *p,
                                    const char *name, struct qr_buf *wrong, struct qr_err *err) {
    qr_auto(qr_checkpoint_fini) struct qr_checkpoint c = {0};
    uint64_t step;
    char digest[33], chain[65];
    const char *sep = wrong->n ? "; " : "";
    if (!qr_checkpoint_parse_name(name, &step, digest)) return QR_OK;
    unsigned long long number = (unsigned long long)step;
    const struct qr_chain_line *l = line_of(v, step, digest),
                               *at = qr_chain_find(&v->chain, step, false);
    /* A run that goes on may publish a state beyond the lines that were read. */
    if (!at && (!v->chain.n || step > v->chain.line[v->chain.n - 1].step)) return QR_OK;
    if (!l) {
        qr_buf_printf(wrong,
                      "%sthe checkpoint of step %llu is another state: digest %s, in "
                      "steps.jsonl %s",
                      sep, number, digest, at ? at->digest : "none");
        return QR_OK;
    }
    enum qr_code code = qr_checkpoint_read(&p->at, name, v->canonical.hex, &c, err);
    if (code == QR_NOT_FOUND) return QR_OK;
    if (code == QR_DATA_LOSS) {
        qr_buf_printf(wrong, "%s%.300s", sep, err->msg);
        return QR_OK;
    }
    if (code != QR_OK) return code;
    qr_hex(l->chain, sizeof l->chain, chain);
    if (*c.chain && strcmp(c.chain, chain) != 0) {
        qr_buf_printf(wrong, "%sthe checkpoint of step %llu has chain %.16s..., its line %.16s...",
                      sep, number, c.chain, chain);
        return QR_OK;
    }
    v->checkpoint = qr_xreallocarray(v->checkpoint, v->n_checkpoints + 1, sizeof *v->checkpoint);
    v->checkpoint[v->n_checkpoints++] = QR_MOVE(c);
    return QR_OK;
}

/* Names of the checkpoints; a web server, whose files cannot be listed, has that of LATEST. */
static enum qr_code list_checkpoints(const struct qr_checkpoint_folder *p, const char *job_hash,
                                     struct qr_buf *ret, struct qr_err *err) {
    struct qr_checkpoint_latest l;
    enum qr_code code = qr_checkpoint_list(&p->at, job_hash, ret, err);
    if (code != QR_UNIMPLEMENTED) return code;
    QR_TRY(qr_checkpoint_peek(&p->at, &l, err));
    if (*l.job_hash) qr_buf_puts(ret, l.object);
    return QR_OK;
}

enum qr_code verify_checkpoints(struct verifying *v, struct qr_err *err) {
    qr_auto(qr_checkpoint_folder_close) struct qr_checkpoint_folder p = {0};
    qr_auto(qr_buf_free) struct qr_buf names = {0}, wrong = {0};
    qr_auto(qr_free_p) char *beside = qr_xasprintf("%s/checkpoints", v->files.url);
    if (!v->loaded || !v->same_job) return QR_OK;
    QR_TRY(qr_checkpoint_folder_open(v->opt->checkpoints ? v->opt->checkpoints : beside, &p, err));
    enum qr_code code = list_checkpoints(&p, v->canonical.hex, &names, err);
    if (code == QR_NOT_FOUND) code = QR_OK;
    if (code == QR_OK && v->opt->checkpoints && !names.n)
        code = qr_fail(err, QR_NOT_FOUND, "--checkpoints %.300s: no checkpoint of this job",
                       v->opt->checkpoints);
    for (char *at = names.n ? (char *)names.p : NULL, *end; at && code == QR_OK; at = end) {
        if ((end = memchr(at, '\n', names.n - (size_t)(at - (char *)names.p)))) *end++ = 0;
        qr_auto(qr_free_p) char *name =
            end ? qr_xstrdup(at) : qr_xstrndup(at, names.n - (size_t)(at - (char *)names.p));
        code = take_checkpoint(v, &p, name, &wrong, err);
    }
    if (code != QR_OK) return code;
    if (wrong.n) verify_add(v, "checkpoints", QR_CHECK_DIFFERS, "%s", qr_buf_string(&wrong));
    else if (v->n_checkpoints)
        verify_add(v, "checkpoints", QR_CHECK_SAME, "%zu, the last of step %llu", v->n_checkpoints,
                   (unsigned long long)v->checkpoint[v->n_checkpoints - 1].step);
    return QR_OK;
}

/* ---- steps ---- */

struct steps {
    uint64_t *step; /* ascending */
    size_t n;
};

static int compare_steps(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Draws distinct steps: the first o->sample ones of the stream of this seed. */
static void draw_steps(const struct qr_verify_options *o, uint64_t n_steps, struct steps *ret) {
    size_t n = o->sample < n_steps ? (size_t)o->sample : (size_t)n_steps;
    qr_auto(qr_free_p) bool *drawn = qr_xcalloc((size_t)n_steps + 1, sizeof *drawn);
    ret->step = qr_xcalloc(n + 1, sizeof *ret->step);
    for (uint64_t i = 0; ret->n < n; i++) {
        uint64_t step =
            n == n_steps ? i + 1 : 1 + qr_random_u64(o->seed, QR_RANDOM_VERIFY, 0, i) % n_steps;
        if (drawn[step]) continue;
        drawn[step] = true;
        ret->step[ret->n++] = step;
    }
    qsort(ret->step, ret->n, sizeof *ret->step, compare_steps);
}

/* last: step of the last intact line. */
static enum qr_code choose_steps(const struct verifying *v, uint64_t last, struct steps *ret,
                                 struct qr_err *err) {
    const struct qr_verify_options *o = v->opt;
    if (o->sample) {
        draw_steps(o, last, ret);
        return QR_OK;
    }
    uint64_t from = o->all ? 1 : o->first, to = o->all ? last : o->last;
    if (v->chain.state == QR_CHAIN_BROKEN && to > last) to = last;
    if (from > last || to > last)
        return qr_fail(err, QR_INVALID_ARGUMENT,
                       "cannot verify step %llu: the run has steps 1 to %llu",
                       (unsigned long long)(from > last ? from : to), (unsigned long long)last);
    ret->n = (size_t)(to - from + 1);
    ret->step = qr_xcalloc(ret->n, sizeof *ret->step);
    for (size_t i = 0; i < ret->n; i++) ret->step[i] = from + i;
    return QR_OK;
}

/* The last checkpoint before a step; NULL: the beginning of the run. */
static const struct qr_checkpoint *start_of(const struct verifying *v, uint64_t step) {
    const struct qr_checkpoint *best = NULL;
    for (size_t i = 0; i < v->n_checkpoints; i++) {
        const struct qr_checkpoint *c = &v->checkpoint[i];
        if (c->step < step && (!best || c->reductions > best->reductions)) best = c;
    }
    return v->opt->all ? NULL : best;
}

/* A recorded state at or after the line that differs, to name a tensor. */
static const struct qr_checkpoint *state_after(const struct verifying *v,
                                               const struct qr_replay *d) {
    for (size_t i = 0; i < v->n_checkpoints; i++)
        if (position_of(v, &v->checkpoint[i]) >= 2 * d->step + d->eval) return &v->checkpoint[i];
    return NULL;
}

static void add_difference(struct verifying *v, const struct qr_checkpoint *at) {
    const struct qr_replay *d = &v->ret->difference;
    unsigned long long step = (unsigned long long)d->step;
    char tensor[256] = "", key[256] = "";
    if (*d->tensor)
        snprintf(tensor, sizeof tensor,
                 "; at step %llu the first tensor that differs is %s, element %zu: %.17g recorded, "
                 "%.17g computed",
                 (unsigned long long)at->step, d->tensor, d->element, d->recorded_number,
                 d->computed_number);
    if (*d->key && strcmp(d->key, "state_digest") != 0)
        snprintf(key, sizeof key, "; %s is %s recorded, %s computed", d->key, d->recorded_value,
                 d->computed_value);
    bool same_state = strcmp(d->recorded, d->computed) == 0;
    if (!*d->computed) {
        verify_add(v, "steps", QR_CHECK_DIFFERS,
                   "%s %llu is recorded, but not computed: training does not have it",
                   d->eval ? "the evaluation of step" : "step", step);
        return;
    }
    verify_add(v, "steps", QR_CHECK_DIFFERS, "%s %llu differs: state digest %s recorded, %s %s%s%s",
               d->eval ? "the evaluation of step" : "step", step,
               *d->recorded ? d->recorded : "not", d->computed,
               same_state ? "computed too" : "computed", key, tensor);
}

/* Steps that are computed from one start. */
struct stretch {
    const struct qr_checkpoint *from; /* NULL: the beginning */
    uint64_t last;                    /* step */
};

/* The last line to compute; NULL: none. */
static const struct qr_chain_line *last_in_place(const struct verifying *v) {
    return v->chain.n_in_place ? &v->chain.line[v->chain.n_in_place - 1] : NULL;
}

static enum qr_code replay_stretch(struct verifying *v, const struct stretch *s,
                                   struct qr_pool *pool, struct qr_err *err) {
    const struct qr_chain_line *end = last_in_place(v);
    bool complete = s->last == end->step && v->chain.state == QR_CHAIN_INTACT;
    bool ended = !v->result_bytes && (v->files.has_result || v->files.has_provenance);
    bool evaluated = qr_chain_find(&v->chain, s->last, true) != NULL;
    struct qr_state begin = {0};
    struct qr_replay r = {0};
    struct qr_replay_options o = {
        .load = &v->load,
        .canonical = &v->canonical,
        .recorded = &v->chain,
        .pool = pool,
        .after = s->from ? position_of(v, s->from) : 0,
        .epochs = ended || end->epoch > v->job->train.epochs ? end->epoch : v->job->train.epochs,
        .last = ended && complete ? 0 : 2 * s->last + evaluated,
    };
    enum qr_code code = QR_OK;
    if (s->from) {
        qr_state_init(&begin, v->job, v->load.model);
        code = qr_state_load(s->from, v->job, v->load.model, &begin, err);
        o.begin = &begin;
    }
    if (code == QR_OK) code = qr_replay_run(&o, &r, err);
    v->ret->n_steps += r.n_steps;
    const struct qr_checkpoint *at = code == QR_OK && *r.computed ? state_after(v, &r) : NULL;
    if (at) {
        struct qr_replay state = {0};
        o.with = at;
        o.last = 0;
        code = qr_replay_run(&o, &state, err);
        memcpy(r.tensor, state.tensor, sizeof r.tensor);
        r.element = state.element;
        r.recorded_number = state.recorded_number;
        r.computed_number = state.computed_number;
        qr_replay_fini(&state);
    }
    if (code == QR_OK && r.differs) {
        v->ret->difference = QR_MOVE(r);
        add_difference(v, at);
    } else if (code == QR_OK && r.ended) {
        verify_result(v, &r.result);
        code = verify_weights(v, r.result.params, err);
    }
    qr_replay_fini(&r);
    qr_state_fini(&begin);
    return code;
}

static enum qr_code replay_steps(struct verifying *v, const struct steps *steps,
                                 struct qr_pool *pool, struct qr_err *err) {
    for (size_t i = 0; i < steps->n && !v->ret->difference.differs;) {
        struct stretch s = {.from = start_of(v, steps->step[i])};
        for (; i < steps->n && start_of(v, steps->step[i]) == s.from; i++) s.last = steps->step[i];
        QR_TRY(replay_stretch(v, &s, pool, err));
    }
    return QR_OK;
}

enum qr_code verify_steps(struct verifying *v, struct qr_err *err) {
    struct steps steps = {0};
    v->ret->seed = v->opt->seed;
    const struct qr_chain_line *last = last_in_place(v);
    bool broken = v->chain.state == QR_CHAIN_BROKEN;
    if (!v->same_job || !last || (broken && v->opt->first > last->step)) {
        verify_add(v, "steps", QR_CHECK_UNKNOWN, "not computed: %s",
                   !v->same_job ? "job, data or arithmetic are not those of the run"
                   : broken     ? "the chain is broken before"
                                : "there is no chain to compare with");
        return QR_OK;
    }
    QR_TRY(choose_steps(v, last->step, &steps, err));
    int64_t began_ns = qr_now_ns(&qr_clock_monotonic);
    struct qr_pool *pool = qr_pool_new(v->load.n_threads);
    enum qr_code code = replay_steps(v, &steps, pool, err);
    qr_pool_free(pool);
    v->ret->seconds = (double)(qr_now_ns(&qr_clock_monotonic) - began_ns) / 1e9;
    if (code == QR_OK && !v->ret->difference.differs)
        verify_add(v, "steps", QR_CHECK_SAME,
                   "%zu step%s, %llu to %llu%s: %zu computed in %.2f s with %u thread%s", steps.n,
                   steps.n == 1 ? "" : "s", (unsigned long long)steps.step[0],
                   (unsigned long long)steps.step[steps.n - 1], v->opt->sample ? " (drawn)" : "",
                   v->ret->n_steps, v->ret->seconds, v->load.n_threads,
                   v->load.n_threads == 1 ? "" : "s");
    free(steps.step);
    return code;
}
