/* sim/fusion/workspace.c — workspaces of all engines, including buffers for the lowered circuit.
 * Start reading at qr_workspace_new(). */
#include "sim/fusion/workspace.h"

#include <string.h>

#include "base/mem.h"

static void workspace_take_buffers(struct qr_buffers *r, struct qr_sim_workspace *ws) {
    const struct qr_sim_plan *p = ws->plan;
    size_t bytes = ws->max_samples * p->n_columns * sizeof(double);
    p->engine->workspace_buffers(r, ws);
    if (p->lowered) qr_buffers_take(r, "samples", bytes, &ws->lowered_x);
    if (p->lowered && p->wanted) qr_buffers_take(r, "samples", bytes, &ws->lowered_dx);
}

static struct qr_sim_workspace *workspace_new_head(const struct qr_sim_plan *p,
                                                   size_t max_samples) {
    struct qr_sim_workspace *ws = qr_xcalloc(1, p->engine->workspace_size);
    ws->plan = p;
    ws->max_samples = max_samples;
    return ws;
}

struct qr_buffers qr_workspace_buffers(const struct qr_sim_plan *p, size_t max_samples) {
    struct qr_buffers r = {.owner = NULL};
    qr_auto(qr_free_p) struct qr_sim_workspace *ws = workspace_new_head(p, max_samples);
    workspace_take_buffers(&r, ws);
    return r;
}

enum qr_code qr_workspace_new(const struct qr_sim_plan *p, size_t max_samples,
                              struct qr_sim_workspace **ret, struct qr_err *err) {
    struct qr_sim_workspace *ws = workspace_new_head(p, max_samples);
    struct qr_buffers r = {.owner = &ws->owned, .err = err};
    workspace_take_buffers(&r, ws);
    if (r.code != QR_OK) {
        qr_owned_free(&ws->owned);
        free(ws);
        return r.code;
    }
    if (p->engine->workspace_begin) p->engine->workspace_begin(ws);
    *ret = ws;
    return QR_OK;
}

void qr_workspace_free(struct qr_sim_workspace *ws) {
    if (!ws) return;
    if (ws->plan->engine->workspace_end) ws->plan->engine->workspace_end(ws);
    qr_owned_free(&ws->owned);
    free(ws);
}

const double *qr_workspace_lower(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                 const double *x, size_t x_stride, size_t n_samples) {
    const struct qr_sim_plan *p = b->plan;
    for (size_t s = 0; s < n_samples; s++)
        qr_lowered_x(p->lowered, b->theta, x + s * x_stride, ws->lowered_x + s * p->n_columns);
    ws->lowered_samples = n_samples;
    return ws->lowered_x;
}

void qr_workspace_raise(const struct qr_sim_workspace *ws, double *ret_dx) {
    const struct qr_sim_plan *p = ws->plan;
    size_t own = p->lowered->n_columns;
    for (size_t s = 0; s < ws->lowered_samples && own; s++)
        memcpy(ret_dx + s * own, ws->lowered_dx + s * p->n_columns, own * sizeof *ret_dx);
}
