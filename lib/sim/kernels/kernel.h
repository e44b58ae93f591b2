/* sim/kernels/kernel.h — the hot loops, one table per instruction set and precision.
 *
 * Data      A cell is 16 lanes: E re[16], im[16], 64-byte aligned. A tile is 2^bits cells.
 * Bits      Every table evaluates the same expressions with the same fused multiply-adds in the
 *           same order, so all tables give the same bits (exact/contract.md §1);
 *           tests/unit/test_sim_kernels.c checks it.
 * Numbers   float64 in both precisions. narrow: re[16], im[16] of a 4x4 matrix, row-major, the
 *           same for all lanes. wide: for each of the 16 entries re[16 lanes], im[16 lanes],
 *           64-byte aligned.
 * Threads   pure functions of their arguments.
 */
#ifndef QR_SIM_KERNELS_KERNEL_H
#define QR_SIM_KERNELS_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "sim/kernels/isa.h"

enum {
    QR_LANES = 16,
    QR_LANE_BITS = 4,
    QR_HALF_LANES = 8,
    QR_TILE_BITS = 10, /* cells of one tile: 2^10, 128 KiB in float32, which fits L2 */
    /* Terms summed in the amplitudes' precision before float64 takes over. A longer sum loses more
     * bits, a shorter one converts more often
     * (sim/planner.md#accuracy-and-why-fused-gates-are-summed-in-float64). */
    QR_BATCH_GROUPS = 16, /* of 4 cells, so 64 terms per lane */
    QR_BATCH_ROWS = 64,   /* the same for sums over single cells */
    /* numbers of a cross matrix: re, im of K01 K02 K03 K12 K13 K23, then Im K00/2 .. Im K33/2 */
    QR_CROSS = 16,
};

/* Position of cell i in a state of more than one tile. The cells of a tile are powers of two apart
 * and would all map to a few sets of the caches, so the higher bits of i are XORed onto its lower
 * ones, within a block of a tile's size. qr_cell_at(i ^ j) = qr_cell_at(i) ^ qr_cell_at(j). */
static inline uint64_t qr_cell_at(uint64_t i) { return i ^ (i >> 5 & ((1 << QR_TILE_BITS) - 1)); }

/* Prefetches the next tile into L2 during the work on this one: cells offsets[i] ^ base, i < n, of
 * from[0], then of from[1]. */
struct qr_prefetch {
    const unsigned char *from[2];
    const uint64_t *offsets;
    uint64_t base;
    /* next to prefetch: cell `next` of from[vector]; nothing if vector is 2 */
    size_t n, vector, next;
};

/* Prefetches one more cell. */
static inline void qr_prefetch_cell(struct qr_prefetch *a, size_t cell_bytes) {
    if (a->vector == 2) return;
    const unsigned char *c = a->from[a->vector] + (a->offsets[a->next] ^ a->base) * cell_bytes;
    for (size_t line = 0; line < cell_bytes; line += 64) __builtin_prefetch(c + line, 0, 2);
    if (++a->next < a->n) return;
    a->next = 0;
    a->vector++;
}

/* The cells of a tile that a 4x4 acts on: those with bits `controls` equal to `values`. */
struct qr_tile_target {
    uint8_t bit[2]; /* cell bits of frame positions 0 (more significant) and 1 */
    uint64_t controls, values;
    struct qr_prefetch *prefetch; /* prefetches one cell per group; NULL: none */
};

enum {
    QR_ROTATION_NUMBERS = 5, /* of a one-qubit gate, see rotate */
    QR_ROTATION_CROSS = 3,   /* numbers of its cross matrix, and a set of them: */
    QR_ROTATION_RE = 1,
    QR_ROTATION_IM = 2,
    QR_ROTATION_Z = 4,
};
/* Gates with a 1 and a 0 among their numbers need a quarter of the multiply-adds; sign is 1 unless
 * noted. */
enum qr_rotation_form {
    QR_ROTATION_ANY,
    QR_ROTATION_REAL_A,     /* a = 1, b real */
    QR_ROTATION_REFLECTION, /* the same, sign -1 */
    QR_ROTATION_REAL_B,     /* a real, b = 1 */
    QR_ROTATION_X_A,        /* a = 1, b imaginary */
    QR_ROTATION_X_B,        /* a real, b = i */
};
/* n positions in a tile: at[k] ^ origin. */
struct qr_tile_positions {
    const uint16_t *at;
    size_t n;
    uint16_t origin;
};
/* One or two one-qubit gates ((a, -sign conj b), (b, sign conj a)) on groups of four cells, at
 * positions p, p ^ across[0], p ^ across[1], p ^ across[0] ^ across[1]. The first gate acts across
 * across[0], a second one across across[1]. */
struct qr_tile_qubits {
    struct qr_tile_positions groups;
    uint16_t across[2];
    uint8_t n;         /* gates */
    uint8_t wanted[2]; /* numbers that rotate_back sums for each: QR_ROTATION_RE ... */
    /* per gate: a, b, sign (1 or -1); rotate_back: NULL leaves the vectors as they are */
    const double (*numbers)[QR_ROTATION_NUMBERS];
    enum qr_rotation_form form[2]; /* of the numbers */
    double (*acc)[QR_LANES];       /* rotate_back: QR_ROTATION_CROSS per gate */
    struct qr_prefetch *prefetch;  /* prefetches one cell per group; NULL: none */
};
static inline enum qr_rotation_form qr_rotation_form(const double a[QR_ROTATION_NUMBERS]) {
    bool real = a[1] == 0 && a[3] == 0, x = a[1] == 0 && a[2] == 0;
    if (real && a[0] == 1) return a[4] == 1 ? QR_ROTATION_REAL_A : QR_ROTATION_REFLECTION;
    if (a[4] != 1) return QR_ROTATION_ANY;
    if (real && a[2] == 1) return QR_ROTATION_REAL_B;
    if (x && a[0] == 1) return QR_ROTATION_X_A;
    return x && a[3] == 1 ? QR_ROTATION_X_B : QR_ROTATION_ANY;
}
/* Operations on a cell. */
static inline double qr_rotation_operations(enum qr_rotation_form form) {
    return form == QR_ROTATION_ANY ? 8 : 2;
}
/* Marks the last cell of a cycle. */
enum { QR_CYCLE_END = 0x8000 };
/* Cells that share one row of phases: those of the lowest three bits. */
enum { QR_PHASE_BITS = 3, QR_PHASE_CELLS = 1 << QR_PHASE_BITS };
/* Factors of the cells of a row. */
struct qr_phase_cells {
    _Alignas(64) double re[QR_PHASE_CELLS];
    double im[QR_PHASE_CELLS];
};
/* Masks of up to two bits of a tile: 0 .. 6, then, for each next bit b, 2^b and its masks with one
 * of the bits below it. */
enum { QR_PARITY_MASKS = 1 + QR_TILE_BITS + QR_TILE_BITS * (QR_TILE_BITS - 1) / 2 };
static inline size_t qr_parity_masks(unsigned bits) { return 1 + bits * (bits + 1) / 2; }
/* The index of a mask of these bits, of one bit, or of none; low <= high. */
static inline size_t qr_parity_index(unsigned low, unsigned high) {
    if (high < QR_PHASE_BITS) return (size_t)1 << low | (size_t)1 << high;
    return qr_parity_masks(high) + (low == high ? 0 : 1 + low);
}
/* Operations of parities on one lane. */
static inline double qr_parity_operations(unsigned bits) {
    double n = (double)((uint64_t)1 << bits), sum = n * (2 + QR_PHASE_BITS);
    for (unsigned b = QR_PHASE_BITS; b < bits; b++) {
        n = (double)((uint64_t)1 << (bits - 1 - b));
        sum += n * (double)(qr_parity_masks(b) + 1 + b);
    }
    return sum;
}

/* A Pauli string on cell and lane bits: i^n_y X^x Z^z. */
struct qr_pauli_string {
    uint64_t x, z;          /* cell bits */
    uint8_t x_lane, z_lane; /* lane bits */
    uint8_t n_y;            /* mod 4 */
    bool turned;            /* cells lie at qr_cell_at of their index, not in order */
};

enum { QR_RUN_MOST = 32 }; /* strings of one call of observe */

struct qr_kernels {
    const char *name;
    /* Multiplies the target cells by a matrix, for all groups. */
    void (*apply)(void *cells, unsigned bits, const struct qr_tile_target *at, const void *numbers,
                  bool wide);
    /* acc[k][lane] += the cross numbers of `count` groups from group `start` (0, or the value
     * returned by the previous call); count is a multiple of QR_BATCH_GROUPS except in the last
     * call. Each batch is summed in E, batches in float64. Then, unless numbers is NULL, multiplies
     * both vectors by the matrix. Returns the next start. */
    uint64_t (*cross)(void *phi, void *lambda, unsigned bits, const struct qr_tile_target *at,
                      const void *numbers, bool wide, uint64_t start, size_t count,
                      double (*acc)[QR_LANES]);
    /* ret[k] = sum over lanes, as a fixed tree, of acc[k][lane] * scale[lane] */
    void (*fold)(const double (*acc)[QR_LANES], const double scale[QR_LANES], double ret[QR_CROSS]);
    /* For n strings with the same x and x_lane: acc[k][lane] += <phi|P_k|phi> over cells first ..
     * first + count - 1, without the signs of z_lane */
    void (*expect)(const void *phi, size_t first, size_t count, const struct qr_pauli_string *at,
                   size_t n, void *acc);
    /* lambda[i] += weights[k][lane] * (P_k phi)[i], k ascending, k < n <= QR_RUN_MOST, without the
     * signs of z_lane; weights: n rows, then their negations */
    void (*observe)(void *lambda, const void *phi, size_t first, size_t count,
                    const struct qr_pauli_string *at, size_t n, const void *weights);
    /* Multiplies by one-qubit gates. */
    void (*rotate)(void *cells, const struct qr_tile_qubits *at);
    /* acc[gate * QR_ROTATION_CROSS + k][lane] += the wanted numbers of M - M^adjoint, M =
     * Tr_rest |phi><lambda| on the gate's qubit: Re and Im of entry 01, Im of M_00 - M_11. Then
     * multiplies both vectors. Two sums of 32 terms in E, then float64. */
    void (*rotate_back)(void *phi, void *lambda, const struct qr_tile_qubits *at);
    /* Multiplies cell k of row r, k < QR_PHASE_CELLS, which lies at order[8 r + k] (NULL: in
     * order), by lanes[r & lane_rows] * cells[r][k] * inside[k]; if lambda is not NULL both
     * vectors, by the conjugate. lanes, inside: cells, inside may be NULL; cells, in E: re[8],
     * im[8] per row */
    void (*phase)(void *phi, void *lambda, const uint16_t *order, size_t n_rows, const void *lanes,
                  size_t lane_rows, const void *cells, const void *inside);
    /* ret, the `cells` of phase: those of row r are cells[r & cell_rows] * (re[r] + i im[r]) in
     * float64, then rounded */
    void (*phase_numbers)(const struct qr_phase_cells *cells, size_t cell_rows, const double *re,
                          const double *im, size_t n_rows, void *ret);
    /* Permutes cells in cycles: each takes what the next one has, the last what the first one had;
     * or the inverse */
    void (*permute)(void *cells, const uint16_t *cycles, size_t n, bool inverse);
    /* For masks m of up to two bits, by qr_parity_index: ret[m][lane] = sum over cells c, which lie
     * at order[c] (NULL: in order), of (-1)^popcount(m & c) Im(phi_c conj(lambda_c));
     * bits >= QR_PHASE_BITS */
    void (*parities)(const void *phi, const void *lambda, const uint16_t *order, unsigned bits,
                     void *ret);
    /* Exchanges the lane bits with four bits of positions: in each group the 16 cells at p ^ x, x
     * the XOR of across[k] for the bits k of the cell's number. */
    void (*transpose)(void *cells, const struct qr_tile_positions *groups,
                      const uint16_t across[QR_LANE_BITS]);
    /* gather: to[p] = from[offsets[p] ^ base] for each position p, with at->at NULL for p < at->n;
     * scatter: the inverse */
    void (*gather)(void *to, const void *from, uint64_t base, const uint64_t *offsets,
                   const struct qr_tile_positions *at);
    void (*scatter)(void *to, const void *from, uint64_t base, const uint64_t *offsets,
                    const struct qr_tile_positions *at);

    /* ---- streaming engine: coefficients in E (kernel_stream_template_impl.h), sums in the
     * amplitudes' precision ---- */
    /* out[to[4g + r]] = sum_j c[r][j] in[ti[4g + j]], for `groups` groups; in may equal out if to
     * equals ti */
    void (*tile)(const void *in, const uint32_t *ti, void *out, const uint32_t *to, size_t groups,
                 const void *numbers, bool wide);
    /* acc[k][lane] += the cross numbers of those groups, summed in E */
    void (*tile_cross)(const void *phi, const void *lambda, const uint32_t *at, size_t groups,
                       double (*acc)[QR_LANES]);
    /* out[z] = or += sum_j (lane j of a[z]) * b[j], j < n: each half of the terms summed
     * separately; rows: a multiple of 4 */
    void (*mix)(const void *a, const void *b, void *out, size_t rows, unsigned n, bool add);
    /* acc[2k], acc[2k + 1] += re, im of sum_z conj(lane k of a[z]) * b[z], k < n (8 or 16); batches
     * summed in E */
    void (*columns)(const void *a, const void *b, size_t rows, unsigned n, double (*acc)[QR_LANES]);
    /* lambda[i ^ flip] = sum_j O[i][j] phi[j ^ flip]; numbers: dim * dim real parts, then as many
     * imaginary parts; dim >= 4. With weights (one per lane): += weight times that */
    void (*dense)(const void *phi, void *lambda, unsigned dim, unsigned flip, const void *numbers,
                  const void *weights);
    /* Sums of phi[i ^ f] conj(phi[j ^ f]) over `slices` runs of 2^bits cells, f = index of the run
     * << flip_shift: in tiles of 2 x 2, i ascending, j from i; row-major within a tile; re[16
     * lanes], im[16 lanes] */
    void (*density)(const void *phi, unsigned bits, size_t slices, unsigned flip_shift, void *sums);
    /* acc[k][lane] += sums[k][lane], k < n; sums become 0 */
    void (*collect)(void *sums, size_t n, double (*acc)[QR_LANES]);
    /* lambda[z] = numbers[z] * phi[z], unless lambda is NULL; with weights as above. sums[z][lane]
     * += |phi[z]|^2, unless sums is NULL */
    void (*diagonal)(const void *phi, void *lambda, size_t cells, const void *numbers,
                     const void *weights, void *sums);
    /* ret[k] = sum over lanes, as a fixed tree, of sums[k][lane] * scale[lane] */
    void (*fold_sums)(const void *sums, size_t n, const double scale[QR_LANES], double *ret);
    /* ret[lane] = sum_k weights[k] * sums[k][lane], k ascending */
    void (*weighted_sum)(const void *sums, size_t n, const double *weights, double ret[QR_LANES]);
    /* Writes the wide coefficients of m (b0 x b1), then those of its adjoint. m: narrow numbers; b:
     * 2x2 matrices per lane, entry e of frame position f at (f * 4 + e) * 32: re[16], im[16] */
    void (*encode)(const double *m, const double *b, void *ret);
    /* Multiplies lanes 0-7 of the target cells by one matrix per lane; the other lanes are
     * unchanged. numbers: for each of the 16 entries re[8], im[8], 64-byte aligned. out may equal
     * in. */
    void (*apply_half)(const void *in, void *out, unsigned bits, const struct qr_tile_target *at,
                       const double *numbers);
    /* Multiplies the target cells by one matrix per lane; numbers: wide, as for apply; at least two
     * groups. out may equal in. */
    void (*apply_wide)(const void *in, void *out, unsigned bits, const struct qr_tile_target *at,
                       const double *numbers);
    /* lane l of to = lane 4 + l / 4 of from */
    void (*repeat)(const void *from, void *to, size_t cells);
    /* cells[i] += cells[n + i], then cells[2 n + i] ... */
    void (*add_parts)(void *cells, size_t n, unsigned parts);
    /* Term t of slice l is at table[l * stride + at[t]], its imaginary part QR_LANES further.
     * numbers_of_slices copies it to lane l of forward[t], and its conjugate to lane t of
     * adjoint[l]. table_of_slices writes sums of terms, re in sums[2 t], im in sums[2 t + 1], to
     * those positions. */
    void (*numbers_of_slices)(const void *table, size_t stride, const uint32_t *at, unsigned terms,
                              void *forward, void *adjoint);
    void (*table_of_slices)(const double (*sums)[QR_LANES], void *table, size_t stride,
                            const uint32_t *at, unsigned terms);

    /* ---- cones engine: float64 in both precisions (kernel_cones_template_impl.h) ---- */
    /* c[i * row + j] = sum_k a[i * a_i + k * a_k] b[k * row + j], n_k >= 1, j < n_j <= row */
    void (*matmul)(double *c, const double *a, size_t a_i, size_t a_k, const double *b, size_t n_i,
                   size_t n_k, size_t n_j, size_t row);
    /* Per lane: out[i * n_o + o] = or += sum_s x[i * x_i + s * x_s] y[o * y_o + s * y_s], s < n_s
     * >= 1; all 64-byte aligned */
    void (*lanes)(double (*out)[QR_LANES], const double (*x)[QR_LANES], size_t x_i, size_t x_s,
                  const double (*y)[QR_LANES], size_t y_o, size_t y_s, size_t n_i, size_t n_s,
                  size_t n_o, bool add);
};

/* index 0: float32, 1: float64 */
extern const struct qr_kernels *const qr_kernels_portable[2],
    *const qr_kernels_avx2[2], *const qr_kernels_avx512[2], *const qr_kernels_neon[2];
const struct qr_kernels *qr_kernels_of(enum qr_isa isa, enum qr_precision precision);

#endif
