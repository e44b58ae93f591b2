/* sim/report/report_build.h — building blocks of an engine's report: stages, lines, and the cost of
 * a kernel's call. */
#ifndef QR_SIM_REPORT_REPORT_BUILD_H
#define QR_SIM_REPORT_REPORT_BUILD_H

#include "sim/fusion/bind.h"
#include "sim/report/report.h"

/* How the kernel `apply` multiplies: by `row` entries per row (1, 2 or 4). row 0: each row has one
 * entry, 1 or -1, and `moved` of four cells change. */
struct qr_report_sparsity {
    uint8_t row, moved;
};
static const struct qr_report_sparsity qr_report_dense = {4, 0};

struct qr_report_build {
    const struct qr_sim_plan *p;
    struct qr_sim_report *r;
    /* the plan bound to parameters that make no gate trivial */
    struct qr_sim_bound *probe;
    double *x;                                /* one sample of that kind */
    struct qr_report_sparsity (*sparsity)[2]; /* per shape: of its matrix, and of its adjoint */
    double *operations;                       /* statevector: per step of one-qubit gates */
};

/* Returns the stage of that name, adding it if new; valid until the next call. */
struct qr_sim_stage *qr_report_stage(struct qr_report_build *b, const char *name, const char *what);
void qr_report_line(struct qr_report_build *b, const char *key, const char *format, ...)
    QR_PRINTF(3, 4);
void qr_report_part(struct qr_report_build *b, const char *format, ...) QR_PRINTF(2, 3);
/* base: the circuit's qubit for qubit 0 of the fused gate. */
void qr_report_gate(struct qr_report_build *b, uint32_t fused, unsigned part, unsigned half,
                    unsigned base);
/* numbers: as written by qr_narrow_numbers, or their second half. */
struct qr_report_sparsity qr_report_sparsity(const double *numbers);

/* ---- costs of kernel calls (kernels/kernel.h): cells of 16 lanes, `cell` bytes each ---- */

/* per operation; per complex multiply-add; per cell of a cross matrix */
enum { QR_FLOP = 2 * QR_LANES, QR_FLOP_COMPLEX = 4 * QR_FLOP, QR_FLOP_CROSS = 14 * QR_FLOP };

static inline void qr_cost(struct qr_sim_stage *s, double operations, double bytes) {
    s->flop += operations * QR_FLOP;
    s->bytes += bytes;
}
/* A 4x4 on `cells` cells. */
static inline void qr_cost_apply(struct qr_sim_stage *s, double cells,
                                 struct qr_report_sparsity sparsity, size_t cell) {
    double touched = sparsity.row ? cells : cells * sparsity.moved / 4;
    s->flop += sparsity.row ? cells * sparsity.row * QR_FLOP_COMPLEX : touched * 2 * QR_FLOP;
    s->bytes += 2 * touched * (double)cell;
}
/* Cross numbers of two states of `cells` cells each. */
static inline void qr_cost_cross(struct qr_sim_stage *s, double cells, size_t cell) {
    s->flop += cells * QR_FLOP_CROSS;
    s->bytes += 2 * cells * (double)cell;
}
/* `terms` complex multiply-adds per cell; `touched` states of `cells` cells are read or written. */
static inline void qr_cost_products(struct qr_sim_stage *s, double cells, double terms,
                                    double touched, size_t cell) {
    s->flop += cells * terms * QR_FLOP_COMPLEX;
    s->bytes += touched * cells * (double)cell;
}

#endif
