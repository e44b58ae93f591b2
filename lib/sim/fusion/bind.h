/* sim/fusion/bind.h — a plan with numbers for one theta: gate matrices, fused gates, weights of
 * the derivatives. */
#ifndef QR_SIM_FUSION_BIND_H
#define QR_SIM_FUSION_BIND_H

#include "base/pool.h"
#include "exact/integer.h"
#include "sim/fusion/matrix.h"

struct qr_sim_bound {
    const struct qr_sim_plan *plan;
    double *theta;
    double *lowered_theta;       /* where the circuit was lowered: what theta is set to */
    double complex *matrices;    /* n_numbers * 16 */
    double complex *derivatives; /* n_numbers * 2 * 16 */
    struct qr_m4 *suffix;        /* n_shapes: product of the ops after the data */
    double *narrow;              /* n_shapes * QR_NARROW; those with data unused */
    double *weights;             /* n_derivatives * QR_CROSS; mixed ones unused */
    /* the streaming engine's own numbers, where it is the engine; else NULL */
    struct qr_stream_bound *stream;
    struct qr_cones_bound *cones; /* the same of the cones engine */
};

/* sim.h's qr_sim_bound_..., the engine's own numbers among them. */
size_t qr_bound_bytes(const struct qr_sim_plan *p);
struct qr_sim_bound *qr_bound_new(const struct qr_sim_plan *p);
void qr_bound_free(struct qr_sim_bound *b);
void qr_bound_set(struct qr_sim_bound *b, const double *theta, struct qr_pool *pool);

/* The matrix of a shape with data, for data row x; of its ops from `first` on alone, which is at
 * most n_prefix. */
struct qr_m4 qr_bound_data_matrix(const struct qr_sim_bound *b, const struct qr_plan_shape *s,
                                  uint32_t first, const double *x);

/* derivative.c: sums of all pieces to derivatives (see sim.h). mixed[(slot * n_samples + sample) *
 * QR_CROSS + k]. ret_dx: as sim.h's, but added to; not looked at where no input is wanted. */
bool qr_bound_gradient(const struct qr_sim_bound *b, const qr_fixed *cross, const qr_fixed *mixed,
                       size_t mixed_stride, const double *x, size_t n_samples, double *scratch,
                       qr_fixed *ret_grad, double *ret_dx);

#endif
