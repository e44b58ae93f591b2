/* sim/fusion/bind.h — a plan bound to one theta: gate matrices, fused gates, weights of the
 * derivatives. */
#ifndef QR_SIM_FUSION_BIND_H
#define QR_SIM_FUSION_BIND_H

#include "base/pool.h"
#include "exact/integer.h"
#include "sim/fusion/buffers.h"
#include "sim/fusion/matrix.h"

struct qr_sim_bound {
    const struct qr_sim_plan *plan;
    double *theta;
    double *lowered_theta;       /* theta of the lowered circuit, if the circuit was lowered */
    double complex *matrices;    /* n_numbers * 16 */
    double complex *derivatives; /* n_numbers * 2 * 16 */
    struct qr_m4 *suffix;        /* n_shapes: product of the ops after the last one with data */
    double *narrow;              /* n_shapes * QR_NARROW; unused for shapes with data */
    double *weights;             /* n_derivatives * QR_CROSS; unused for mixed ones */
    union {                      /* numbers of the engine */
        void *own;
        struct qr_stream_bound *stream;
        struct qr_cones_bound *cones;
        struct qr_density_bound *density;
    };
    struct qr_statevector_bound *statevector; /* one of the buffers; NULL: no channels */
    struct qr_owned owned;                    /* all buffers */
};

/* As qr_sim_bound_bytes, .._new, .._free and qr_sim_bind of sim.h. */
size_t qr_bound_bytes(const struct qr_sim_plan *p);
struct qr_sim_bound *qr_bound_new(const struct qr_sim_plan *p);
void qr_bound_free(struct qr_sim_bound *b);
void qr_bound_set(struct qr_sim_bound *b, const double *theta, struct qr_pool *pool);

/* Returns the matrix of a shape with data for the data row x, of its ops from `first` (at most
 * n_prefix) on. */
struct qr_m4 qr_bound_data_matrix(const struct qr_sim_bound *b, const struct qr_plan_shape *s,
                                  uint32_t first, const double *x);

/* The sums of a micro-batch that its derivatives follow from; NULL: none. */
struct qr_bound_sums {
    const qr_fixed *cross; /* n_shapes * QR_CROSS */
    /* [(slot * mixed_stride + sample) * QR_CROSS + k], for shapes with a mixed_slot */
    const qr_fixed *mixed;
    size_t mixed_stride;
    const qr_fixed *sites; /* n_sites * QR_CROSS: corrections of cross, for all ops before a site */
    const double *channels; /* n_channels * QR_TRANSFER: by the channels' transfer matrices */
    const double *params;   /* n_params: derivatives besides */
    const double *x;        /* n_samples * n_columns */
    size_t n_samples;
};
/* derivative.c: converts sums to derivatives, as qr_sim_backward of sim.h.
 *
 * Args:     scratch  n_params numbers, overwritten
 *           ret_dx   n_samples * n_columns, added to; ignored unless input derivatives are
 *                    requested
 * Returns:  false when a number is not finite or >= 2^40
 */
bool qr_bound_gradient(const struct qr_sim_bound *b, const struct qr_bound_sums *sums,
                       double *scratch, qr_fixed *ret_grad, double *ret_dx);
/* Adds the derivatives by a channel's arguments to those by the parameters in them.
 *
 * Args:     d  derivatives by its transfer matrix, row-major
 */
void qr_bound_channel_gradient(const struct qr_sim_bound *b, size_t channel, const double *d,
                               double *ret);

#endif
