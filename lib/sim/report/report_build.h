/* sim/report/report_build.h — what an engine's report is built with: stages, lines, and what a
 * kernel's
 * call costs. */
#ifndef QR_SIM_REPORT_REPORT_BUILD_H
#define QR_SIM_REPORT_REPORT_BUILD_H

#include "sim/fusion/bind.h"
#include "sim/report/report.h"

/* How kernels' `apply` multiplies: `row` entries a row (1, 2 or 4); 0: rows of one entry 1 or -1,
 * by which `moved` of four cells change. */
struct qr_report_sparsity {
    uint8_t row, moved;
};
static const struct qr_report_sparsity qr_report_dense = {4, 0};

struct qr_report_build {
    const struct qr_sim_plan *p;
    struct qr_sim_report *r;
    struct qr_sim_bound *probe;     /* bound to parameters that make nothing trivial */
    double *x;                      /* a sample of that kind */
    struct qr_report_sparsity (*way)[2]; /* of each shape: of its matrix, and of its adjoint */
};

/* The stage of that name, added when it is new; valid until the next call. */
struct qr_sim_stage *qr_report_stage(struct qr_report_build *b, const char *name, const char *what);
void qr_report_line(struct qr_report_build *b, const char *key, const char *format, ...)
    QR_PRINTF(3, 4);
void qr_report_part(struct qr_report_build *b, const char *format, ...) QR_PRINTF(2, 3);
/* base: the circuit's number of the fused gate's qubit 0. */
void qr_report_gate(struct qr_report_build *b, uint32_t fused, unsigned part, unsigned half,
                    unsigned base);
/* numbers: as qr_narrow_numbers, or its second half. */
struct qr_report_sparsity qr_report_sparsity(const double *numbers);

/* ---- calls of kernels (kernels/kernel.h), summed: cells of 16 lanes, of `cell` bytes ---- */

/* of an operation, a complex multiply-add; a cross matrix, each cell */
enum { QR_FLOP = 2 * QR_LANES, QR_FLOP_COMPLEX = 4 * QR_FLOP, QR_FLOP_CROSS = 14 * QR_FLOP };

static inline void qr_cost(struct qr_sim_stage *s, double operations, double bytes) {
    s->flop += operations * QR_FLOP;
    s->bytes += bytes;
}
/* A 4x4 on that many cells. */
static inline void qr_cost_apply(struct qr_sim_stage *s, double cells, struct qr_report_sparsity way,
                                 size_t cell) {
    double touched = way.row ? cells : cells * way.moved / 4;
    s->flop += way.row ? cells * way.row * QR_FLOP_COMPLEX : touched * 2 * QR_FLOP;
    s->bytes += 2 * touched * (double)cell;
}
/* Cross numbers of two states of that many cells each. */
static inline void qr_cost_cross(struct qr_sim_stage *s, double cells, size_t cell) {
    s->flop += cells * QR_FLOP_CROSS;
    s->bytes += 2 * cells * (double)cell;
}
/* terms complex multiply-adds for each cell; touched: states of so many cells read or written. */
static inline void qr_cost_products(struct qr_sim_stage *s, double cells, double terms,
                                    double touched, size_t cell) {
    s->flop += cells * terms * QR_FLOP_COMPLEX;
    s->bytes += touched * cells * (double)cell;
}

#endif
