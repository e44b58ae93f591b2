/* sim/fusion/workspace.h — workspaces of any engine: the engine's own part and, where the circuit
 * was lowered (circuit/lower.h), its samples with derived columns, and derivatives by them.
 */
#ifndef QR_SIM_FUSION_WORKSPACE_H
#define QR_SIM_FUSION_WORKSPACE_H

#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

/* Counts what a workspace takes. */
void qr_workspace_buffers(const struct qr_sim_plan *p, size_t max_samples, struct qr_buffers *r);
/* As sim.h's. */
QR_MUST_CHECK enum qr_code qr_workspace_new(const struct qr_sim_plan *p, size_t max_samples,
                                            struct qr_sim_workspace **ret, struct qr_err *err);
void qr_workspace_free(struct qr_sim_workspace *ws);

/* Of a lowered circuit: the samples with derived columns, for the engine; n_columns apart. */
const double *qr_workspace_lower(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                 const double *x, size_t x_stride, size_t n_samples);
/* Of the derivatives that the engine gave those of the circuit's own columns. */
void qr_workspace_raise(const struct qr_sim_workspace *ws, double *ret_dx);

#endif
