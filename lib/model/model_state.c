/* model/model_state.c — states and workspaces of a model. Start reading at qr_model_prepare() and
 * qr_model_workspace_new(). */
#include <string.h>

#include "base/mem.h"
#include "model/model_impl.h"

/* ---- numbers of one state ---- */

struct qr_model_state *qr_model_state_new(const struct qr_model *m) {
    struct qr_model_state *s = qr_xcalloc(1, sizeof *s);
    s->m = m;
    s->layers = qr_xcalloc(m->n_layers, sizeof *s->layers);
    s->row = qr_xcalloc(2 * m->widest + 1, sizeof(double));
    for (size_t i = 0; i < m->n_layers; i++) {
        struct qr_layer_state *l = &s->layers[i];
        l->layer = &m->layers[i];
        l->row = s->row;
        if (l->layer->table->state_new) l->layer->table->state_new(l);
    }
    return s;
}

void qr_model_state_free(struct qr_model_state *s) {
    if (!s) return;
    for (size_t i = 0; i < s->m->n_layers; i++)
        if (s->m->layers[i].table->state_free) s->m->layers[i].table->state_free(&s->layers[i]);
    free(s->layers);
    free(s->row);
    free(s);
}

/* The product of the kernels, from the last to the first after the read-outs: row[i] = sum_j
 * w[i][j] row_next[j], j ascending. */
static void fold_head(struct qr_model_state *s) {
    const struct qr_model *m = s->m;
    double *next = s->row + m->widest; /* the second half of row is scratch */
    s->row[0] = 1.0;
    for (size_t l = m->n_layers; l-- > m->known + 1;) {
        const struct qr_dense *d = &m->layers[l].dense;
        memcpy(next, s->row, d->units * sizeof *next);
        for (size_t i = 0; i < d->n_in; i++) {
            const double *w = s->params + d->kernel + i * d->units;
            double sum = 0;
            for (size_t j = 0; j < d->units; j++) sum += w[j] * next[j];
            s->row[i] = sum;
        }
    }
}

void qr_model_prepare(struct qr_model_state *s, const double *params, struct qr_pool *pool) {
    const struct qr_model *m = s->m;
    s->params = params;
    for (size_t i = 0; i < m->n_layers; i++) {
        s->layers[i].params = params;
        if (m->layers[i].table->prepare) m->layers[i].table->prepare(&s->layers[i], pool);
    }
    if (m->known < m->n_layers) fold_head(s);
}

/* ---- a micro-batch's workspace ---- */

/* Returns the number of doubles of a workspace; assigns them to the layers unless w is NULL. */
static size_t lay_out_workspace(const struct qr_model *m, struct qr_model_workspace *w) {
    size_t at = 0, n = m->micro_batch_size;
    double *base = w ? w->numbers : NULL;
    qr_layer_part(base, &at, n * m->n_inputs, w ? &w->x : NULL);
    const double *in = w ? w->x : NULL;
    for (size_t i = 0; i < m->n_layers; i++) {
        const struct qr_layer *l = &m->layers[i];
        struct qr_layer_work *own = w ? &w->layers[i] : NULL;
        qr_layer_part(base, &at, n * l->n_out, own ? &own->out : NULL);
        qr_layer_part(base, &at, n * l->n_out, own ? &own->d : NULL);
        if (l->table->doubles) at += l->table->doubles(l, n, own, base ? base + at : NULL);
        if (!own) continue;
        own->layer = l;
        own->in = in;
        in = own->out;
    }
    return at;
}

enum qr_code qr_model_workspace_new(const struct qr_model *m, struct qr_model_workspace **ret,
                                    struct qr_err *err) {
    struct qr_model_workspace *w = qr_xcalloc(1, sizeof *w);
    void *p = NULL;
    w->m = m;
    w->layers = qr_xcalloc(m->n_layers, sizeof *w->layers);
    w->sums = qr_xcalloc(qr_model_n_sums(m), sizeof(qr_fixed));
    enum qr_code code = qr_large_new(lay_out_workspace(m, NULL), sizeof(double),
                                     "the layers of a micro-batch", &p, err);
    if (code == QR_OK) {
        w->numbers = p;
        (void)lay_out_workspace(m, w);
    }
    for (size_t i = 0; i < m->n_layers && code == QR_OK; i++)
        if (m->layers[i].table->work_new)
            code = m->layers[i].table->work_new(&w->layers[i], m->micro_batch_size, err);
    if (code != QR_OK) qr_model_workspace_free(w);
    else *ret = w;
    return code;
}

void qr_model_workspace_free(struct qr_model_workspace *w) {
    if (!w) return;
    for (size_t i = 0; i < w->m->n_layers; i++)
        if (w->layers[i].layer && w->m->layers[i].table->work_free)
            w->m->layers[i].table->work_free(&w->layers[i]);
    free(w->layers);
    free(w->sums);
    free(w->numbers);
    free(w);
}

size_t qr_model_bytes_per_thread(const struct qr_model *m) {
    size_t bytes = lay_out_workspace(m, NULL) * sizeof(double);
    for (size_t i = 0; i < m->n_layers; i++) {
        const struct qr_layer *l = &m->layers[i];
        if (l->table->work_bytes) bytes += l->table->work_bytes(l, m->micro_batch_size);
    }
    return bytes;
}

size_t qr_model_bytes_of_state(const struct qr_model *m) {
    size_t bytes = 2 * m->widest * sizeof(double);
    if (m->natural) bytes += qr_natural_gradient_bytes(m->natural);
    for (size_t i = 0; i < m->n_layers; i++)
        if (m->layers[i].table->state_bytes)
            bytes += m->layers[i].table->state_bytes(&m->layers[i]);
    return bytes;
}
