/* sim/streaming/tail.c — the circuit after the last simulated layer: observables propagated back
 * through it as matrices, and its derivatives from density matrices. float64, with the kernels for
 * states: a matrix is a state of the row qubits with columns as lanes. Start reading at
 * qr_tail_bind() and qr_tail_gradient(). */
#include <string.h>

#include "base/mem.h"
#include "sim/streaming/streaming_impl.h"

static size_t tail_group_count(const struct qr_stream *s) {
    return (s->dim + QR_LANES - 1) / QR_LANES;
}
size_t qr_tail_doubles(const struct qr_stream *s) {
    return s->diagonal ? 0 : tail_group_count(s) * s->dim * 2 * QR_LANES;
}
size_t qr_tail_numbers(const struct qr_stream *s) {
    return s->diagonal ? s->dim : (size_t)2 * s->dim * s->dim;
}

static double *tail_entry(const struct qr_stream *s, double *m, unsigned row, unsigned column) {
    return m + ((column / QR_LANES) * s->dim + row) * 2 * QR_LANES + column % QR_LANES;
}
static const double *tail_const_entry(const struct qr_stream *s, const double *m, unsigned row,
                                      unsigned column) {
    return m + ((column / QR_LANES) * s->dim + row) * 2 * QR_LANES + column % QR_LANES;
}

static void tail_adjoint(const struct qr_stream *s, const double *m, double *ret) {
    unsigned lanes = s->dim < QR_LANES ? s->dim : QR_LANES;
    for (unsigned first = 0; first < s->dim; first += QR_LANES)
        for (unsigned r = 0; r < s->dim; r++) {
            const double *from = tail_const_entry(s, m, r, first);
            double *to = tail_entry(s, ret, first, r);
            for (unsigned l = 0; l < lanes; l++, from++, to += 2 * QR_LANES) {
                to[0] = from[0];
                to[QR_LANES] = -from[QR_LANES];
            }
        }
}

static struct qr_tile_target tail_target(const struct qr_stream *s, const struct qr_fused_gate *b) {
    return (struct qr_tile_target){
        .bit = {(uint8_t)(s->tail_bits - 1 - b->q[0]), (uint8_t)(s->tail_bits - 1 - b->q[1])}};
}

/* The float64 kernels, for any precision of the amplitudes. */
static const struct qr_kernels *tail_kernels(const struct qr_sim_plan *p) {
    return qr_kernels_of(p->isa, QR_DOUBLE);
}

static void tail_apply(const struct qr_sim_plan *p, double *m, const struct qr_tile_target *at,
                       const double *numbers) {
    const struct qr_stream *s = p->stream;
    for (size_t g = 0; g < tail_group_count(s); g++)
        tail_kernels(p)->apply(m + g * s->dim * 2 * QR_LANES, s->tail_bits, at, numbers, false);
}

/* m = U m U^adjoint for Hermitian m, computed as U (U m)^adjoint. */
static void tail_conjugate(const struct qr_sim_plan *p, double *m, double *scratch, uint32_t fused,
                           const double *numbers) {
    struct qr_tile_target at = tail_target(p->stream, &p->fused[fused]);
    tail_apply(p, m, &at, numbers);
    tail_adjoint(p->stream, m, scratch);
    memcpy(m, scratch, qr_tail_doubles(p->stream) * sizeof *m);
    tail_apply(p, m, &at, numbers);
}

static const double *tail_gate_numbers(const struct qr_sim_bound *b, uint32_t fused, bool adjoint) {
    return b->narrow + (size_t)b->plan->fused[fused].shape * QR_NARROW +
           (adjoint ? QR_NARROW / 2 : 0);
}

/* Converts a mask of qubits to index bits; qubit 0 is the most significant. */
static unsigned tail_index_bits(uint64_t qubits, unsigned n) {
    unsigned x = 0;
    for (unsigned q = 0; q < n; q++) x |= (unsigned)(qubits >> q & 1) << (n - 1 - q);
    return x;
}

static void tail_observable(const struct qr_stream *s, const struct qr_observable *o, double *ret) {
    memset(ret, 0, qr_tail_doubles(s) * sizeof *ret);
    for (size_t t = 0; t < o->n_terms; t++) {
        unsigned x = tail_index_bits(qr_qubits_mask(&o->terms[t].x), s->tail_bits),
                 z = tail_index_bits(qr_qubits_mask(&o->terms[t].z), s->tail_bits);
        unsigned n_y = (unsigned)__builtin_popcount(x & z) % 4;
        for (unsigned c = 0; c < s->dim; c++) { /* P|c> = i^n_y (-1)^(c.z) |c ^ x> */
            double sign =
                __builtin_popcount(c & z) & 1 ? -o->terms[t].coefficient : o->terms[t].coefficient;
            double *e = tail_entry(s, ret, c ^ x, c);
            e[n_y & 1 ? QR_LANES : 0] += n_y & 2 ? -sign : sign;
        }
    }
}

/* In the order of the kernel density: Tr(rho O) = sum of weights * sums. */
static void tail_set_weights(const struct qr_stream *s, const double *o, double *ret) {
    for (unsigned i = 0; i < s->dim; i += 2)
        for (unsigned j = i; j < s->dim; j += 2)
            for (unsigned u = 0; u < 2; u++)
                for (unsigned w = 0; w < 2; w++, ret += 2) {
                    const double *e = tail_const_entry(s, o, i + u, j + w);
                    double f = i + u == j + w ? 1 : i + u < j + w ? 2 : 0;
                    ret[0] = f * e[0];
                    ret[1] = f * e[QR_LANES];
                }
}

static void tail_set_dense(const struct qr_sim_plan *p, const double *o, void *ret) {
    const struct qr_stream *s = p->stream;
    for (unsigned r = 0; r < s->dim; r++)
        for (unsigned c = 0; c < s->dim; c++) {
            const double *e = tail_const_entry(s, o, r, c);
            size_t at = (size_t)r * s->dim + c, im = (size_t)s->dim * s->dim;
            qr_element_set(p, ret, at, e[0]);
            qr_element_set(p, ret, im + at, e[QR_LANES]);
        }
}

/* For Z strings only: one number per index, the same for every theta. */
static void tail_diagonal_weights(const struct qr_stream *s, const struct qr_observable *o,
                                  double *ret) {
    memset(ret, 0, s->dim * sizeof *ret);
    for (size_t t = 0; t < o->n_terms; t++) {
        unsigned z = tail_index_bits(qr_qubits_mask(&o->terms[t].z), s->tail_bits);
        for (unsigned i = 0; i < s->dim; i++)
            ret[i] +=
                __builtin_popcount(i & z) & 1 ? -o->terms[t].coefficient : o->terms[t].coefficient;
    }
}

void qr_tail_bind(struct qr_sim_bound *b) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_stream *s = p->stream;
    struct qr_stream_bound *sb = b->stream;
    size_t size = qr_tail_doubles(s);
    /* One extra matrix at the end */
    double *scratch = sb->after + (size_t)p->n_readouts * s->n_tail * size;
    for (unsigned r = 0; r < p->n_readouts; r++) {
        double *o = sb->input + r * size;
        if (s->diagonal && sb->generation) continue;
        if (s->diagonal) {
            tail_diagonal_weights(s, &s->observables[r], sb->weights + r * s->density_numbers);
            continue;
        }
        tail_observable(s, &s->observables[r], o);
        for (uint32_t i = s->n_tail; i-- > 0;) {
            memcpy(sb->after + (r * s->n_tail + i) * size, o, size * sizeof *o);
            tail_conjugate(p, o, scratch, s->tail_first + i,
                           tail_gate_numbers(b, s->tail_first + i, true));
        }
        tail_set_weights(s, o, sb->weights + r * s->density_numbers);
    }
}

void qr_tail_set_direction(struct qr_stream_direction *d, const struct qr_sim_bound *b,
                           const double *row) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_stream_bound *sb = b->stream;
    size_t size = qr_tail_doubles(p->stream), all = size * (p->stream->n_tail + 1);
    if (d->bound == b && d->generation == sb->generation &&
        memcmp(d->row, row, p->n_readouts * sizeof *row) == 0)
        return;
    d->bound = b;
    d->generation = sb->generation;
    memcpy(d->row, row, p->n_readouts * sizeof *row);
    if (p->stream->diagonal) {
        for (size_t i = 0; i < p->stream->dim; i++) {
            double x = 0;
            for (unsigned r = 0; r < p->n_readouts; r++)
                x += row[r] * sb->weights[r * p->stream->density_numbers + i];
            qr_element_set(p, d->dense, i, x);
        }
        return;
    }
    memset(d->after, 0, all * sizeof *d->after);
    double *input = d->after + size * p->stream->n_tail;
    for (unsigned r = 0; r < p->n_readouts; r++) {
        const double *after = sb->after + r * p->stream->n_tail * size;
        for (size_t i = 0; i < size * p->stream->n_tail; i++) d->after[i] += row[r] * after[i];
        for (size_t i = 0; i < size; i++) input[i] += row[r] * sb->input[r * size + i];
    }
    tail_set_dense(p, input, d->dense);
}

void qr_tail_each(const struct qr_sim_bound *b, unsigned char *ret) {
    const struct qr_sim_plan *p = b->plan;
    const struct qr_stream *s = p->stream;
    size_t n = qr_tail_numbers(s);
    for (unsigned k = 0; k < p->n_readouts; k++, ret += n * p->elem_bytes) {
        if (!s->diagonal) tail_set_dense(p, b->stream->input + k * qr_tail_doubles(s), ret);
        for (size_t i = 0; s->diagonal && i < n; i++)
            qr_element_set(p, ret, i, b->stream->weights[k * n + i]);
    }
}

static void tail_set_density(const struct qr_stream *s, const double *rho, double *ret) {
    memset(ret, 0, qr_tail_doubles(s) * sizeof *ret);
    for (unsigned i = 0; i < s->dim; i += 2)
        for (unsigned j = i; j < s->dim; j += 2)
            for (unsigned u = 0; u < 2; u++)
                for (unsigned w = 0; w < 2; w++, rho += 2) {
                    if (i + u > j + w) continue;
                    double *e = tail_entry(s, ret, i + u, j + w),
                           *f = tail_entry(s, ret, j + w, i + u);
                    e[0] = f[0] = rho[0];
                    f[QR_LANES] = -rho[1];
                    e[QR_LANES] = i + u == j + w ? 0 : rho[1];
                }
}

bool qr_tail_gradient(const struct qr_sim_bound *b, const double *after, double *const matrix[3],
                      const double *rho, qr_fixed *cross) {
    static const double ones[QR_LANES] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct qr_sim_plan *p = b->plan;
    const struct qr_stream *s = p->stream;
    size_t size = qr_tail_doubles(s), part = (size_t)s->dim * 2 * QR_LANES;
    bool ok = true;
    if (!s->n_tail) return true;
    tail_set_density(s, rho, matrix[0]);
    for (uint32_t i = 0; i < s->n_tail; i++) {
        uint32_t fused = s->tail_first + i, shape = p->fused[fused].shape;
        struct qr_tile_target at = tail_target(s, &p->fused[fused]);
        tail_conjugate(p, matrix[0], matrix[1], fused, tail_gate_numbers(b, fused, false));
        if (!p->shapes[shape].n_derivatives) continue;
        /* The kernel's argument is not const. */
        memcpy(matrix[2], after + i * size, size * sizeof(double));
        _Alignas(64) double acc[QR_CROSS][QR_LANES];
        double k[QR_CROSS];
        memset(acc, 0, sizeof acc);
        for (size_t g = 0; g < tail_group_count(s); g++)
            tail_kernels(p)->cross(matrix[0] + g * part, matrix[2] + g * part, s->tail_bits, &at,
                                   NULL, false, 0, s->dim / 4, acc);
        tail_kernels(p)->fold((const double(*)[QR_LANES])acc, ones, k);
        ok &= qr_fixed_add_doubles(cross + (size_t)shape * QR_CROSS, k, QR_CROSS);
    }
    return ok;
}
