/* train/train_checkpoint.c — states as checkpoints. Start reading at walk_state(). */
#include "train/train_checkpoint.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

enum { NAME_CHARS = 128 };

/* One walk over the tensors of a state, for writing and for reading, so that names, shapes and
 * order are defined once. */
struct tensor_walk {
    const struct qr_job *job;
    const struct qr_model *model;
    void (*each)(struct tensor_walk *w, const char *name, unsigned rank, const size_t *dims,
                 double *values);
    struct qr_tensors *out;      /* writing */
    const struct qr_tensors *in; /* reading */
    size_t at;
    char wrong[NAME_CHARS]; /* the first tensor that is missing or differs */
};

static void write_tensor(struct tensor_walk *w, const char *name, unsigned rank, const size_t *dims,
                         double *values) {
    qr_tensors_add(w->out, name, rank, dims, values);
}

static void read_tensor(struct tensor_walk *w, const char *name, unsigned rank, const size_t *dims,
                        double *values) {
    const struct qr_tensor *t = w->at < w->in->n ? &w->in->v[w->at] : NULL;
    bool same = t && strcmp(t->name, name) == 0 && t->rank == rank;
    for (unsigned d = 0; d < rank && same; d++) same = t->dims[d] == dims[d];
    w->at++;
    if (same) memcpy(values, t->values, t->n * sizeof *values);
    else if (!*w->wrong) snprintf(w->wrong, sizeof w->wrong, "%s", name);
}

/* One tensor per weight tensor, with the same names after the prefix. */
static void walk_weights(struct tensor_walk *w, const char *before, double *values) {
    for (size_t i = 0; i < qr_model_n_tensors(w->model); i++) {
        const struct qr_model_tensor *t = qr_model_tensor(w->model, i);
        char name[NAME_CHARS];
        snprintf(name, sizeof name, "%s%s", before, t->name);
        w->each(w, name, t->rank, t->dims, values + t->offset);
    }
}

static void walk_row(struct tensor_walk *w, const char *name, size_t n, double *values) {
    w->each(w, name, 1, &n, values);
}

/* Returns the number of tensors that the digest covers. */
static size_t walk_state(struct tensor_walk *w, struct qr_state *s) {
    const struct qr_optimizer_options *o = &w->job->train.optimizer;
    const struct qr_early_stopping *e = &w->job->train.early_stopping;
    size_t n = qr_model_n_tensors(w->model);
    walk_weights(w, "", s->weights);
    for (size_t i = 0; i < s->n_moments; i++) {
        char before[NAME_CHARS / 2];
        snprintf(before, sizeof before, "optimizer/%.30s/", qr_optimizer_moment_name(o, i));
        walk_weights(w, before, s->moments + i * s->n_params);
    }
    walk_row(w, "optimizer/products", s->n_products, s->products);
    walk_row(w, "epoch/sums", s->n_sums + 1, s->sums);
    walk_row(w, "early_stopping/counters", QR_STOP_COUNTERS, s->stop);
    if (e->on && e->restore_best) {
        walk_weights(w, "early_stopping/best/", s->best);
        walk_row(w, "early_stopping/best_sums", s->n_sums + 1, s->best_sums);
        walk_row(w, "early_stopping/best_validation", s->n_sums, s->best_validation);
    }
    walk_row(w, "validation/last", s->n_sums, s->validation);
    return n * (1 + s->n_moments) + 3;
}

void qr_state_save(const struct qr_state *s, const struct qr_job *job, const struct qr_model *m,
                   const char *job_hash, struct qr_checkpoint *ret) {
    struct qr_checkpoint c = {.step = s->step, .epoch = s->epoch, .reductions = s->reductions};
    struct tensor_walk w = {.job = job, .model = m, .each = write_tensor, .out = &c.tensors};
    struct qr_state view = *s; /* only read: write_tensor copies */
    uint8_t digest[16];
    c.n_digested = walk_state(&w, &view);
    snprintf(c.job_hash, sizeof c.job_hash, "%s", job_hash);
    snprintf(c.contract, sizeof c.contract, "%s", s->contract);
    qr_state_digest(s, digest);
    qr_hex(digest, sizeof digest, c.digest);
    if (qr_chain_known(s->chain)) qr_hex(s->chain, sizeof s->chain, c.chain);
    *ret = c;
}

enum qr_code qr_state_load(const struct qr_checkpoint *c, const struct qr_job *job,
                           const struct qr_model *m, struct qr_state *ret, struct qr_err *err) {
    struct qr_state s;
    struct tensor_walk w = {.job = job, .model = m, .each = read_tensor, .in = &c->tensors};
    qr_state_init(&s, job, m);
    s.step = c->step;
    s.epoch = c->epoch;
    s.reductions = c->reductions;
    bool known = qr_unhex(c->chain, s.chain, sizeof s.chain);
    if (!known) memset(s.chain, 0, sizeof s.chain); /* of before chains */
    enum qr_code code = QR_OK;
    size_t n_digested = walk_state(&w, &s);
    if (strcmp(c->contract, s.contract) != 0)
        code = qr_fail(err, QR_DATA_LOSS,
                       "cannot load the checkpoint of step %llu: it was computed with %s, this job "
                       "uses %s",
                       (unsigned long long)c->step, c->contract, s.contract);
    else if (*w.wrong)
        code = qr_fail(err, QR_DATA_LOSS,
                       "cannot load the checkpoint of step %llu: '%s' is missing or has another "
                       "shape than in this job's model",
                       (unsigned long long)c->step, w.wrong);
    else if (w.at != c->tensors.n || c->n_digested != n_digested)
        code = qr_fail(err, QR_DATA_LOSS,
                       "cannot load the checkpoint of step %llu: it has %zu tensors, this job's "
                       "state has %zu",
                       (unsigned long long)c->step, c->tensors.n, w.at);
    else qr_state_copy(ret, &s);
    qr_state_fini(&s);
    return code;
}
