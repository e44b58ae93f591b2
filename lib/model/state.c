#include <string.h>

#include "base/mem.h"
#include "model/model_impl.h"

/* ---- numbers of one state ---- */

struct qr_model_state *qr_model_state_new(const struct qr_model *m) {
    struct qr_model_state *s = qr_xcalloc(1, sizeof *s);
    s->m = m;
    s->bound = qr_xcalloc(m->n_filters + 1, sizeof(struct qr_sim_bound *));
    for (size_t f = 0; f < m->n_filters; f++) s->bound[f] = qr_sim_bound_new(m->plan);
    s->transposed = qr_xcalloc(m->n_dense + 1, sizeof(double *));
    for (size_t l = 0; l < m->n_dense; l++) {
        bool flows = l > 0 || (m->circuit && !m->affine);
        if (flows)
            s->transposed[l] = qr_xaligned(m->dense[l].n_in * m->dense[l].units * sizeof(double));
    }
    s->row = qr_xcalloc(2 * m->widest + 1, sizeof(double));
    return s;
}

void qr_model_state_free(struct qr_model_state *s) {
    if (!s) return;
    for (size_t f = 0; f < s->m->n_filters; f++) qr_sim_bound_free(s->bound[f]);
    for (size_t l = 0; l < s->m->n_dense; l++) free(s->transposed[l]);
    free(s->bound);
    free(s->transposed);
    free(s->row);
    free(s);
}

/* The product of the kernels, from the last to the first: row[i] = sum_j w[i][j] row_next[j],
 * j ascending. */
static void fold_head(struct qr_model_state *s) {
    const struct qr_model *m = s->m;
    double *next = s->row + m->widest; /* the second half of row is scratch */
    s->row[0] = 1.0;
    for (size_t l = m->n_dense; l-- > 0;) {
        const struct qr_dense *d = &m->dense[l];
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
    for (size_t f = 0; f < m->n_filters; f++)
        qr_sim_bind(s->bound[f], params + f * m->n_theta, pool);
    for (size_t l = 0; l < m->n_dense; l++) {
        const struct qr_dense *d = &m->dense[l];
        if (!s->transposed[l]) continue;
        for (size_t i = 0; i < d->n_in; i++)
            for (size_t j = 0; j < d->units; j++)
                s->transposed[l][j * d->n_in + i] = params[d->kernel + i * d->units + j];
    }
    if (m->affine) fold_head(s);
}

/* ---- a micro-batch's workspace ---- */

/* Doubles of one workspace, and, unless w is NULL, who has which. Each part starts on 64 bytes. */
static size_t share_out(const struct qr_model *m, struct qr_model_workspace *w) {
    size_t at = 0, b = m->micro_batch_size;
    double *base = w ? w->numbers : NULL;
#define PART(place, count)                                                                         \
    do {                                                                                           \
        if (w) (place) = base + at;                                                                \
        at += ((count) + 7) & ~(size_t)7;                                                          \
    } while (0)
    PART(w->x, b * m->n_inputs);
    PART(w->filter_z, b * m->n_readouts_each);
    PART(w->readouts, b * m->n_readouts);
    PART(w->direction, b * m->n_readouts_each);
    PART(w->scale, b);
    PART(w->magnitude, m->n_dense + 1);
    PART(w->dz[0], b * m->n_readouts);
    for (size_t l = 0; l < m->n_dense; l++) {
        PART(w->z[l], b * m->dense[l].units);
        PART(w->p[l], b * m->dense[l].units);
        PART(w->dz[l + 1], b * m->dense[l].units);
    }
#undef PART
    return at;
}

enum qr_code qr_model_workspace_new(const struct qr_model *m, struct qr_model_workspace **ret,
                                    struct qr_err *err) {
    struct qr_model_workspace *w = qr_xcalloc(1, sizeof *w);
    void *p = NULL;
    w->m = m;
    w->sim = qr_xcalloc(m->n_sims + 1, sizeof(struct qr_sim_workspace *));
    w->z = qr_xcalloc(m->n_dense + 1, sizeof(double *));
    w->p = qr_xcalloc(m->n_dense + 1, sizeof(double *));
    w->dz = qr_xcalloc(m->n_dense + 1, sizeof(double *));
    w->sums = qr_xcalloc(qr_model_n_sums(m), sizeof(qr_fixed));
    enum qr_code code =
        qr_large_new(share_out(m, NULL), sizeof(double), "the layers of a micro-batch", &p, err);
    if (code != QR_OK) goto fail;
    w->numbers = p;
    (void)share_out(m, w);
    code = qr_large_new(m->n_params, sizeof(qr_fixed), "a micro-batch's gradient", &p, err);
    if (code != QR_OK) goto fail;
    w->grad = p;
    for (size_t f = 0; f < m->n_sims && code == QR_OK; f++)
        code = qr_sim_workspace_new(m->plan, m->micro_batch_size, &w->sim[f], err);
    if (code != QR_OK) goto fail;
    *ret = w;
    return QR_OK;
fail:
    qr_model_workspace_free(w);
    return code;
}

void qr_model_workspace_free(struct qr_model_workspace *w) {
    if (!w) return;
    for (size_t f = 0; f < w->m->n_sims; f++)
        if (w->sim[f]) qr_sim_workspace_free(w->sim[f]);
    free(w->sim);
    free(w->z);
    free(w->p);
    free(w->dz);
    free(w->sums);
    free(w->numbers);
    free(w->grad);
    free(w);
}

size_t qr_model_bytes_per_thread(const struct qr_model *m) {
    size_t bytes = share_out(m, NULL) * sizeof(double) + m->n_params * sizeof(qr_fixed);
    if (m->plan) bytes += m->n_sims * qr_sim_bytes_per_thread(m->plan, m->micro_batch_size);
    return bytes;
}

size_t qr_model_bytes_of_state(const struct qr_model *m) {
    size_t numbers = 2 * m->widest;
    for (size_t l = 0; l < m->n_dense; l++) numbers += m->dense[l].n_in * m->dense[l].units;
    return numbers * sizeof(double) + (m->plan ? m->n_filters * qr_sim_bound_bytes(m->plan) : 0);
}
