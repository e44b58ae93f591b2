/* sim/fusion/workspace.c — workspaces of all engines, including buffers for the lowered circuit.
 * Start reading at qr_workspace_new(). */
#include "sim/fusion/workspace.h"

#include <stdlib.h>
#include <string.h>

/* One walk counts and allocates. */
static void lowered_buffers(struct qr_buffers *r, const struct qr_sim_plan *p, size_t max_samples,
                            struct qr_sim_workspace *ws) {
    size_t bytes = max_samples * p->n_columns * sizeof(double);
    if (!p->lowered) return;
    qr_buffers_take(r, "samples", bytes, &ws->lowered_x);
    if (p->wanted) qr_buffers_take(r, "samples", bytes, &ws->lowered_dx);
}

void qr_workspace_buffers(const struct qr_sim_plan *p, size_t max_samples, struct qr_buffers *r) {
    struct qr_sim_workspace unused;
    p->engine->workspace_buffers(p, max_samples, r);
    lowered_buffers(r, p, max_samples, &unused);
}

enum qr_code qr_workspace_new(const struct qr_sim_plan *p, size_t max_samples,
                              struct qr_sim_workspace **ret, struct qr_err *err) {
    struct qr_sim_workspace *ws;
    enum qr_code code = p->engine->workspace_new(p, max_samples, &ws, err);
    if (code != QR_OK) return code;
    struct qr_buffers r = {.allocate = true, .err = err};
    lowered_buffers(&r, p, max_samples, ws);
    if (r.code == QR_OK) *ret = ws;
    else qr_workspace_free(ws);
    return r.code;
}

void qr_workspace_free(struct qr_sim_workspace *ws) {
    if (!ws) return;
    free(ws->lowered_x);
    free(ws->lowered_dx);
    ws->plan->engine->workspace_free(ws);
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
