/* sim/statevector/noise_branches.c — channels that are not lists of Pauli errors act on the state:
 * an operator K is drawn with its probability, and the state becomes K phi / sqrt(probability).
 * Start reading at qr_branch_forward(). */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "sim/statevector/statevector_impl.h"

enum { OPERATOR = QR_NOISE_OPERATOR };

/* ---- branches ---- */

/* Re and im of a cell's sixteen lanes. */
static void load_cell(const struct qr_sim_plan *p, const unsigned char *cells, uint64_t cell,
                      double re[QR_LANES], double im[QR_LANES]) {
    const unsigned char *at = cells + cell * p->cell_bytes;
    if (p->precision == QR_DOUBLE) {
        memcpy(re, at, QR_LANES * sizeof *re);
        memcpy(im, at + p->cell_bytes / 2, QR_LANES * sizeof *im);
        return;
    }
    const float *f = (const float *)(const void *)at;
    for (unsigned l = 0; l < QR_LANES; l++) {
        re[l] = (double)f[l];
        im[l] = (double)f[QR_LANES + l];
    }
}

/* sums[i][j] of a-state and b-state on the channel's qubits, per lane: sum of a_i conj b_j. */
struct branch_sums {
    double re[4][4][QR_LANES], im[4][4][QR_LANES];
};

static void branch_products(const struct qr_sim_plan *p, const struct qr_plan_step *st,
                            const struct qr_plan_noise *noise, const unsigned char *a,
                            const unsigned char *b, struct branch_sums *ret) {
    unsigned dim = 1u << noise->n_targets;
    uint64_t bits[2] = {UINT64_C(1) << st->target.bit[noise->t[0]],
                        UINT64_C(1) << st->target.bit[noise->t[1]]},
             mask = noise->n_targets == 1 ? bits[0] : bits[0] | bits[1];
    memset(ret, 0, sizeof *ret);
    for (uint64_t cell = 0; cell < UINT64_C(1) << p->cell_bits; cell++) {
        double ar[4][QR_LANES], ai[4][QR_LANES], br[4][QR_LANES], bi[4][QR_LANES];
        if (cell & mask) continue;
        for (unsigned i = 0; i < dim; i++) {
            uint64_t at = noise->n_targets == 1 ? (i ? bits[0] : 0)
                                                : (i & 2 ? bits[0] : 0) | (i & 1 ? bits[1] : 0);
            load_cell(p, a, cell | at, ar[i], ai[i]);
            load_cell(p, b, cell | at, br[i], bi[i]);
        }
        for (unsigned i = 0; i < dim; i++)
            for (unsigned j = 0; j < dim; j++)
                for (unsigned l = 0; l < QR_LANES; l++) {
                    ret->re[i][j][l] += ar[i][l] * br[j][l] + ai[i][l] * bi[j][l];
                    ret->im[i][j][l] += ai[i][l] * br[j][l] - ar[i][l] * bi[j][l];
                }
    }
    if (p->lanes_are_samples) return;
    for (unsigned i = 0; i < dim; i++) /* One row: its sums are those of all lanes. */
        for (unsigned j = 0; j < dim; j++)
            for (unsigned half = QR_LANES / 2; half; half /= 2)
                for (unsigned l = 0; l < half; l++) {
                    ret->re[i][j][l] += ret->re[i][j][l + half];
                    ret->im[i][j][l] += ret->im[i][j][l + half];
                }
}

static const struct qr_plan_noise *branch_noise(const struct qr_sim_plan *p,
                                                const struct qr_plan_step *st) {
    return &p->noise[qr_step_gate(p, st, 0)->first_noise];
}

/* Tr(K^adjoint K rho) of one lane. */
static double operator_probability(const double complex *k, unsigned dim,
                                   const struct branch_sums *rho, unsigned lane) {
    double sum = 0;
    for (unsigned r = 0; r < dim; r++)
        for (unsigned i = 0; i < dim; i++)
            for (unsigned j = 0; j < dim; j++) {
                double complex x = k[r * dim + i], y = k[r * dim + j];
                double re = creal(x) * creal(y) + cimag(x) * cimag(y),
                       im = cimag(x) * creal(y) - creal(x) * cimag(y);
                sum += re * rho->re[i][j][lane] - im * rho->im[i][j][lane];
            }
    return sum;
}

/* The operator in the frame of the step, times a factor. */
static struct qr_m4 branch_matrix(const struct qr_plan_noise *noise, const double complex *k,
                                  double factor) {
    struct qr_m4 m = {0};
    for (unsigned r = 0; r < 4; r++)
        for (unsigned c = 0; c < 4; c++) {
            double complex z;
            if (noise->n_targets == 1) {
                unsigned bit = noise->t[0] ? 1 : 2, other = 3 - bit;
                if ((r & other) != (c & other)) continue;
                z = k[!!(r & bit) * 2 + !!(c & bit)];
            } else {
                unsigned rr = noise->t[0] ? (r & 1) << 1 | r >> 1 : r,
                         cc = noise->t[0] ? (c & 1) << 1 | c >> 1 : c;
                z = k[rr * 4 + cc];
            }
            m.e[r * 4 + c] = (struct qr_c64){factor * creal(z), factor * cimag(z)};
        }
    return m;
}

void qr_branch_forward(struct qr_sweep *r, const struct qr_plan_step *st, unsigned char *phi) {
    const struct qr_sim_plan *p = r->p;
    struct qr_trajectories *t = r->ws->noise;
    const struct qr_plan_noise *noise = branch_noise(p, st);
    unsigned dim = 1u << noise->n_targets, lanes = p->lanes_are_samples ? QR_LANES : 1;
    uint32_t n = r->b->statevector->n_kraus[noise->channel];
    const double complex *kraus =
        r->b->statevector->kraus + (size_t)noise->channel * QR_CHANNEL_KRAUS * OPERATOR;
    struct branch_sums rho;
    double *to = t->branch_numbers + (size_t)st->branch * qr_noise_numbers_size(p);
    branch_products(p, st, noise, phi, phi, &rho);
    for (unsigned l = 0; l < lanes; l++) {
        struct qr_m4 m = qr_m4_identity();
        if (l < r->n && qr_condition_holds(r, st, l)) {
            const struct qr_trajectory *row = &t->rows->list[r->first + l];
            uint64_t u[2];
            double probability[QR_CHANNEL_KRAUS], all = 0, sum = 0;
            uint32_t k = 0;
            qr_noise_draw_pair(r->ws->head.draw.key, noise->number / 2,
                               qr_noise_sample(r->ws, row->sample), row->number, u);
            for (uint32_t i = 0; i < n; i++) {
                double x = operator_probability(kraus + (size_t)i * OPERATOR, dim, &rho, l);
                all += probability[i] = x > 0 || x != x ? x : 0;
            }
            double at = (double)(u[noise->number % 2] >> 11) * 0x1p-53 * all;
            for (sum = probability[0]; k + 1 < n && at >= sum; sum += probability[++k]) continue;
            while (k > 0 && probability[k] == 0) k--; /* Rounding of the sum */
            double root = 1 / sqrt(probability[k]);
            t->branch_outcomes[(size_t)st->branch * QR_LANES + l] = (uint8_t)k;
            t->branch_roots[(size_t)st->branch * QR_LANES + l] = root;
            if (noise->bit) t->bits[(noise->bit - 1u) * QR_LANES + l] = k & 1;
            m = branch_matrix(noise, kraus + (size_t)k * OPERATOR, root);
        }
        if (p->lanes_are_samples) qr_wide_numbers(&m, l, to);
        else qr_narrow_numbers(&m, to);
    }
    if (r->gradient)
        memcpy(t->kept + (size_t)st->branch * (p->cell_bytes << p->cell_bits), phi,
               p->cell_bytes << p->cell_bits);
}

/* Adds 2 Re <lambda| dK |phi> / sqrt(probability) for each argument. */
static void branch_gradient(struct qr_sweep *r, const struct qr_plan_step *st,
                            const unsigned char *kept, const unsigned char *lambda) {
    const struct qr_sim_plan *p = r->p;
    struct qr_trajectories *t = r->ws->noise;
    const struct qr_plan_noise *noise = branch_noise(p, st);
    const struct qr_channel *c = &p->channels[noise->channel];
    unsigned dim = 1u << noise->n_targets, lanes = p->lanes_are_samples ? (unsigned)r->n : 1;
    double a[QR_CHANNEL_ARGS];
    double complex k[QR_CHANNEL_KRAUS * OPERATOR],
        dk[QR_CHANNEL_ARGS * QR_CHANNEL_KRAUS * OPERATOR / 4];
    struct branch_sums sums;
    qr_channel_values(c, r->b->theta, a);
    unsigned n = qr_channel_kraus(c, a, k, dk);
    branch_products(p, st, noise, kept, lambda, &sums); /* phi_i conj lambda_j */
    for (unsigned l = 0; l < lanes; l++)
        for (unsigned i = 0; i < c->info->n_args; i++) {
            const struct qr_gate_arg *arg = &c->args[i];
            size_t at = (size_t)st->branch * QR_LANES + l;
            const double complex *d = dk + ((size_t)i * n + t->branch_outcomes[at]) * OPERATOR;
            double sum = 0;
            qr_fixed f;
            if (arg->kind != QR_ARG_PARAMETER || p->zero_gradient[arg->index] ||
                !qr_condition_holds(r, st, l))
                continue;
            for (unsigned row = 0; row < dim; row++)
                for (unsigned column = 0; column < dim; column++)
                    sum += creal(d[row * dim + column]) * sums.re[column][row][l] -
                           cimag(d[row * dim + column]) * sums.im[column][row][l];
            if (qr_fixed_from_double(2 * arg->scale * sum * t->branch_roots[at] * r->scale[l], &f))
                t->params[arg->index] += f;
            else t->bad = true;
        }
}

void qr_branch_backward(struct qr_sweep *r, const struct qr_plan_step *st, unsigned char *phi,
                        unsigned char *lambda) {
    const struct qr_sim_plan *p = r->p;
    size_t bytes = p->cell_bytes << p->cell_bits;
    const unsigned char *kept = r->ws->noise->kept + (size_t)st->branch * bytes;
    const double *numbers = qr_noise_numbers(r, st) + qr_noise_numbers_size(p) / 2;
    if (st->cross) branch_gradient(r, st, kept, lambda);
    p->kernels->apply(lambda, r->v->tile_bits, &st->target, numbers, p->lanes_are_samples);
    memcpy(phi, kept, bytes);
}
