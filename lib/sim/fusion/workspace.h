/* sim/fusion/workspace.h — workspaces of any engine: the engine's own part and, if the circuit was
 * lowered (circuit/lower.h), the samples with derived columns and the derivatives by those. */
#ifndef QR_SIM_FUSION_WORKSPACE_H
#define QR_SIM_FUSION_WORKSPACE_H

#include "sim/fusion/bind.h"
#include "sim/fusion/engine.h"

/* Counts the buffers of a workspace. */
struct qr_buffers qr_workspace_buffers(const struct qr_sim_plan *p, size_t max_samples);

/* As qr_sim_workspace_new and qr_sim_workspace_free of sim.h. */
QR_MUST_CHECK enum qr_code qr_workspace_new(const struct qr_sim_plan *p, size_t max_samples,
                                            struct qr_sim_workspace **ret, struct qr_err *err);
void qr_workspace_free(struct qr_sim_workspace *ws);

/* For a lowered circuit: returns the samples with derived columns, n_columns apart, for the
 * engine. */
const double *qr_workspace_lower(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                 const double *x, size_t x_stride, size_t n_samples);
/* Copies the derivatives by the circuit's own columns from those of the engine. */
void qr_workspace_raise(const struct qr_sim_workspace *ws, double *ret_dx);

#endif
