/* tests/support/counted_kernels.h — a kernel table that counts: the kernel template over a scalar
 * that counts each operation, and wrappers that count operations and bytes by the shapes of the
 * calls. A header, because it replaces the portable table of the library in the program that
 * includes it. */
#ifndef TESTS_SUPPORT_COUNTED_KERNELS_H
#define TESTS_SUPPORT_COUNTED_KERNELS_H

#include <math.h>
#include <string.h>

#include "sim/kernels/kernel.h"

static uint64_t operations; /* on one lane each */

#define TABLE_NAME "counting"
#define D double
#define DW 1
#define DNUMBERS(p) (*(p))
#define DGET(p) (*(p))
#define DPUT(p, v) (*(p) = (v))
#define DSET1(e) (e)
#define DMUL(a, b) (operations++, (a) * (b))
#define DFMA(a, b, c) (operations++, __builtin_fma((a), (b), (c)))
#define DFNMA(a, b, c) (operations++, __builtin_fma(-(a), (b), (c)))

#define NAME(x) f32_##x
#define E float
#define V float
#define W 1
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SET1(e) (e)
#define ZERO() 0.0f
#define MUL(a, b) (operations++, (a) * (b))
#define ADD(a, b) (operations++, (a) + (b))
#define SUB(a, b) (operations++, (a) - (b))
#define FMA(a, b, c) (operations++, __builtin_fmaf((a), (b), (c)))
#define FNMA(a, b, c) (operations++, __builtin_fmaf(-(a), (b), (c)))
#define FMS(a, b, c) (operations++, __builtin_fmaf((a), (b), -(c)))
#define DLOAD(p) ((double)*(p))
#define DSTORE(p, v) (*(p) = (float)(v))
#include "sim/kernels/kernel_template_impl.h"

#define NAME(x) f64_##x
#define E double
#define V double
#define W 1
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SET1(e) (e)
#define ZERO() 0.0
#define MUL(a, b) (operations++, (a) * (b))
#define ADD(a, b) (operations++, (a) + (b))
#define SUB(a, b) (operations++, (a) - (b))
#define FMA(a, b, c) (operations++, __builtin_fma((a), (b), (c)))
#define FNMA(a, b, c) (operations++, __builtin_fma(-(a), (b), (c)))
#define FMS(a, b, c) (operations++, __builtin_fma((a), (b), -(c)))
#define DLOAD(p) (*(p))
#define DSTORE(p, v) (*(p) = (v))
#include "sim/kernels/kernel_template_impl.h"
#undef D
#undef DW
#undef DNUMBERS
#undef DGET
#undef DPUT
#undef DSET1
#undef DMUL
#undef DFMA
#undef DFNMA

/* ---- counts by the shapes of calls ---- */

static const struct qr_kernels *real[2]; /* the table that computes: counting or fastest */
static bool counts;                      /* real is the counting table */
static double sum_operations, sum_bytes; /* by shape */
static unsigned wrong_calls;

/* cells: of 16 lanes; ops: per lane of a cell; states: number of states read and written */
static void call(double cells, double ops, double states, size_t elem) {
    sum_operations += cells * ops * QR_LANES;
    sum_bytes += cells * states * 2 * QR_LANES * (double)elem;
}
/* A product of i x k and k x j matrices of float64 in each lane. */
static void call_product(size_t i, size_t k, size_t j, double lanes) {
    sum_operations += lanes * (double)(i * k * j);
    sum_bytes += lanes * (double)(sizeof(double) * (i * k + k * j + i * j));
}
static void after(uint64_t before, double expected) {
    if (counts && expected != (double)(operations - before)) wrong_calls++;
}

/* Of a 4x4 matrix on one cell: operations per lane, and cells read and written. */
struct shape {
    double ops, cells;
};
static struct shape shape_of(const void *numbers, bool wide) {
    const double *m = numbers;
    unsigned most = 1, moved = 0;
    bool moves = !wide;
    for (unsigned r = 0; r < 4 && !wide; r++) {
        unsigned n = 0;
        for (unsigned c = 0; c < 4; c++) n += m[r * 4 + c] != 0 || m[16 + r * 4 + c] != 0;
        if (n > most) most = n;
        for (unsigned c = 0; c < 4; c++) {
            if (m[r * 4 + c] == 0 && m[16 + r * 4 + c] == 0) continue;
            moves = moves && fabs(m[r * 4 + c]) == 1 && m[16 + r * 4 + c] == 0;
            moved += c != r || m[r * 4 + c] != 1;
        }
    }
    if (moves && most == 1) return (struct shape){2 * moved / 4.0, moved / 4.0};
    return (struct shape){4 * (wide || most > 2 ? 4 : most), 1};
}
static void call_matrix(double cells, const void *numbers, bool wide, size_t elem) {
    struct shape s = shape_of(numbers, wide);
    sum_operations += cells * s.ops * QR_LANES;
    sum_bytes += cells * s.cells * 2 * 2 * QR_LANES * (double)elem;
}
/* Operations of the one-qubit gates of a step on a cell. */
static double rotation_operations(const struct qr_tile_qubits *at) {
    double ops = 0;
    for (unsigned k = 0; k < at->n && at->numbers; k++)
        ops += qr_rotation_form(at->numbers[k]) == QR_ROTATION_ANY ? 8 : 2;
    return ops;
}
static double rotation_cells(const struct qr_tile_qubits *at) { return 4.0 * (double)at->groups.n; }
static double rotation_back_operations(const struct qr_tile_qubits *at) {
    double ops = 2 * rotation_operations(at);
    for (unsigned g = 0; g < at->n; g++) ops += 2 * __builtin_popcount(at->wanted[g]);
    return ops;
}
static double inside(unsigned bits, const struct qr_tile_target *at) {
    return (double)(UINT64_C(1) << (bits - (unsigned)__builtin_popcountll(at->controls)));
}

static double parities_of(const struct qr_pauli_string *at, size_t n) {
    unsigned some = 0;
    for (size_t k = 0; k < n; k++) some |= 1u << (at[k].n_y & 1);
    return some == 3 ? 2 : 1;
}

#define COUNTED(...)                                                                               \
    const struct qr_kernels *k = real[sizeof(real_elem) == sizeof(double)];                        \
    uint64_t before = operations;                                                                  \
    double said = sum_operations;                                                                  \
    __VA_ARGS__;                                                                                   \
    said = sum_operations - said
#define WRAP(T, ELEM)                                                                              \
    typedef ELEM T##_elem;                                                                         \
    static void T##_apply_(void *cells, unsigned bits, const struct qr_tile_target *at,            \
                           const void *numbers, bool wide) {                                       \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call_matrix(inside(bits, at), numbers, wide, sizeof(ELEM)));                       \
        k->apply(cells, bits, at, numbers, wide);                                                  \
        after(before, said);                                                                       \
    }                                                                                              \
    static uint64_t T##_cross_(void *phi, void *lambda, unsigned bits,                             \
                               const struct qr_tile_target *at, const void *numbers, bool wide,    \
                               uint64_t start, size_t count, double(*acc)[QR_LANES]) {             \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(4.0 * (double)count, 14, 2, sizeof(ELEM));                                    \
                if (numbers) call_matrix(8.0 * (double)count, numbers, wide, sizeof(ELEM)));       \
        uint64_t at_end = k->cross(phi, lambda, bits, at, numbers, wide, start, count, acc);       \
        after(before, said);                                                                       \
        return at_end;                                                                             \
    }                                                                                              \
    static void T##_rotate_(void *cells, const struct qr_tile_qubits *at) {                        \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(rotation_cells(at), rotation_operations(at), 2, sizeof(ELEM)));               \
        k->rotate(cells, at);                                                                      \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_rotate_back_(void *phi, void *lambda, const struct qr_tile_qubits *at) {       \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(rotation_cells(at), rotation_back_operations(at), at->numbers ? 4 : 2,        \
                     sizeof(ELEM)));                                                               \
        k->rotate_back(phi, lambda, at);                                                           \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_phase_(void *phi, void *lambda, const uint16_t *order, size_t n_rows,          \
                           const void *lanes, size_t lane_rows, const void *cells,                 \
                           const void *within) {                                                   \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)(n_rows * QR_PHASE_CELLS), (within ? 8 : 4) + (lambda ? 8 : 4),       \
                     lambda ? 4 : 2, sizeof(ELEM)));                                               \
        k->phase(phi, lambda, order, n_rows, lanes, lane_rows, cells, within);                     \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_parities_(const void *phi, const void *lambda, const uint16_t *order,          \
                              unsigned bits, void *ret) {                                          \
        typedef T##_elem real_elem;                                                                \
        double n = (double)(UINT64_C(1) << bits);                                                  \
        COUNTED(call(n, qr_parity_operations(bits) / n, 2, sizeof(ELEM)));                         \
        k->parities(phi, lambda, order, bits, ret);                                                \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_permute_(void *cells, const uint16_t *cycles, size_t n, bool inverse) {        \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)n, 0, 2, sizeof(ELEM)));                                              \
        k->permute(cells, cycles, n, inverse);                                                     \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_fold_(const double(*acc)[QR_LANES], const double scale[QR_LANES],              \
                          double ret[QR_CROSS]) {                                                  \
        real[0]->fold(acc, scale, ret);                                                            \
    }                                                                                              \
    static void T##_collect_(void *sums, size_t n, double(*acc)[QR_LANES]) {                       \
        real[sizeof(ELEM) == sizeof(double)]->collect(sums, n, acc);                               \
    }                                                                                              \
    static void T##_expect_(const void *phi, size_t first, size_t count,                           \
                            const struct qr_pauli_string *at, size_t n, void *acc) {               \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)count, 2 * parities_of(at, n) + (double)n, 1, sizeof(ELEM)));         \
        k->expect(phi, first, count, at, n, acc);                                                  \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_observe_(void *lambda, const void *phi, size_t first, size_t count,            \
                             const struct qr_pauli_string *at, size_t n, const void *weights) {    \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)count, 2 * (double)n, 3, sizeof(ELEM)));                              \
        k->observe(lambda, phi, first, count, at, n, weights);                                     \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_transpose_(void *cells, const struct qr_tile_positions *groups,                \
                               const uint16_t across[QR_LANE_BITS]) {                              \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)groups->n *QR_LANES, 0, 2, sizeof(ELEM)));                            \
        k->transpose(cells, groups, across);                                                       \
        after(before, said);                                                                       \
    }                                                                                              \
    /* Numbers of a step: a plan counts what is done with the state. */                            \
    static void T##_phase_numbers_(const struct qr_phase_cells *cells, size_t cell_rows,           \
                                   const double *re, const double *im, size_t n, void *ret) {      \
        uint64_t before = operations;                                                              \
        real[sizeof(ELEM) == sizeof(double)]->phase_numbers(cells, cell_rows, re, im, n, ret);     \
        operations = before;                                                                       \
    }                                                                                              \
    static void T##_gather_(void *to, const void *from, uint64_t base, const uint64_t *offsets,    \
                            const struct qr_tile_positions *at) {                                  \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)at->n, 0, 2, sizeof(ELEM)));                                          \
        k->gather(to, from, base, offsets, at);                                                    \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_scatter_(void *to, const void *from, uint64_t base, const uint64_t *offsets,   \
                             const struct qr_tile_positions *at) {                                 \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)at->n, 0, 2, sizeof(ELEM)));                                          \
        k->scatter(to, from, base, offsets, at);                                                   \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_tile_(const void *in, const uint32_t *ti, void *out, const uint32_t *to,       \
                          size_t groups, const void *numbers, bool wide) {                         \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(4.0 * (double)groups, 16, 2, sizeof(ELEM)));                                  \
        k->tile(in, ti, out, to, groups, numbers, wide);                                           \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_tile_cross_(const void *phi, const void *lambda, const uint32_t *at,           \
                                size_t groups, double(*acc)[QR_LANES]) {                           \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(4.0 * (double)groups, 14, 2, sizeof(ELEM)));                                  \
        k->tile_cross(phi, lambda, at, groups, acc);                                               \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_mix_(const void *a, const void *b, void *out, size_t rows, unsigned n,         \
                         bool add) {                                                               \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)rows, 4.0 * n + (add ? 4 : 2), add ? 3 : 2, sizeof(ELEM)));           \
        k->mix(a, b, out, rows, n, add);                                                           \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_columns_(const void *a, const void *b, size_t rows, unsigned n,                \
                             double(*acc)[QR_LANES]) {                                             \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)rows, 4.0 * n, 2, sizeof(ELEM)));                                     \
        k->columns(a, b, rows, n, acc);                                                            \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_dense_(const void *phi, void *lambda, unsigned dim, unsigned flip,             \
                           const void *numbers, const void *weights) {                             \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(dim, 4.0 * dim + (weights ? 2 : 0), weights ? 3 : 2, sizeof(ELEM)));          \
        k->dense(phi, lambda, dim, flip, numbers, weights);                                        \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_density_(const void *phi, unsigned bits, size_t slices, unsigned shift,        \
                             void *sums) {                                                         \
        typedef T##_elem real_elem;                                                                \
        double half = (double)(1u << bits) / 2;                                                    \
        COUNTED(call((double)(slices << bits), 16 * half * (half + 1) / 2 / (2 * half), 1,         \
                     sizeof(ELEM)));                                                               \
        k->density(phi, bits, slices, shift, sums);                                                \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_diagonal_(const void *phi, void *lambda, size_t cells, const void *numbers,    \
                              const void *weights, void *sums) {                                   \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)cells,                                                                \
                     (sums ? 2 : 0) + (!lambda   ? 0                                               \
                                       : weights ? 3                                               \
                                                 : 2),                                             \
                     !lambda   ? 1                                                                 \
                     : weights ? 3                                                                 \
                               : 2,                                                                \
                     sizeof(ELEM)));                                                               \
        k->diagonal(phi, lambda, cells, numbers, weights, sums);                                   \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_fold_sums_(const void *sums, size_t n, const double scale[QR_LANES],           \
                               double *ret) {                                                      \
        real[sizeof(ELEM) == sizeof(double)]->fold_sums(sums, n, scale, ret);                      \
    }                                                                                              \
    static void T##_weighted_sum_(const void *sums, size_t n, const double *weights,               \
                                  double ret[QR_LANES]) {                                          \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)n, 1, 0.5, sizeof(ELEM)));                                            \
        k->weighted_sum(sums, n, weights, ret);                                                    \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_encode_(const double *m, const double *b, void *ret) {                         \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(32, 16 * (4 + 16 + 1) / 32.0, 1, sizeof(ELEM)));                              \
        k->encode(m, b, ret);                                                                      \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_apply_half_(const void *in, void *out, unsigned bits,                          \
                                const struct qr_tile_target *at, const double *numbers) {          \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)(UINT64_C(1) << bits) / 2, 16, 2, sizeof(ELEM)));                     \
        k->apply_half(in, out, bits, at, numbers);                                                 \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_apply_wide_(const void *in, void *out, unsigned bits,                          \
                                const struct qr_tile_target *at, const double *numbers) {          \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)(UINT64_C(1) << bits), 16, 2, sizeof(ELEM)));                         \
        k->apply_wide(in, out, bits, at, numbers);                                                 \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_add_parts_(void *cells, size_t n, unsigned parts) {                            \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)n, 2.0 * (parts - 1), parts + 1, sizeof(ELEM)));                      \
        k->add_parts(cells, n, parts);                                                             \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_repeat_(const void *from, void *to, size_t cells) {                            \
        real[sizeof(ELEM) == sizeof(double)]->repeat(from, to, cells);                             \
    }                                                                                              \
    static void T##_numbers_of_slices_(const void *table, size_t stride, const uint32_t *at,       \
                                       unsigned terms, void *there, void *back) {                  \
        real[sizeof(ELEM) == sizeof(double)]->numbers_of_slices(table, stride, at, terms, there,   \
                                                                back);                             \
    }                                                                                              \
    static void T##_table_of_slices_(const double(*sums)[QR_LANES], void *table, size_t stride,    \
                                     const uint32_t *at, unsigned terms) {                         \
        real[sizeof(ELEM) == sizeof(double)]->table_of_slices(sums, table, stride, at, terms);     \
    }                                                                                              \
    static void T##_matmul_(double *c, const double *a, size_t a_i, size_t a_k, const double *b,   \
                            size_t n_i, size_t n_k, size_t n_j, size_t row) {                      \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call_product(n_i, n_k, n_j, 1));                                                   \
        k->matmul(c, a, a_i, a_k, b, n_i, n_k, n_j, row);                                          \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_lanes_(double(*out)[QR_LANES], const double(*x)[QR_LANES], size_t x_i,         \
                           size_t x_s, const double(*y)[QR_LANES], size_t y_o, size_t y_s,         \
                           size_t n_i, size_t n_s, size_t n_o, bool add) {                         \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call_product(n_i, n_s, n_o, QR_LANES));                                            \
        k->lanes(out, x, x_i, x_s, y, y_o, y_s, n_i, n_s, n_o, add);                               \
        after(before, said);                                                                       \
    }                                                                                              \
    static const struct qr_kernels T##_wrapped = {.name = "counted",                               \
                                                  .matmul = T##_matmul_,                           \
                                                  .lanes = T##_lanes_,                             \
                                                  .apply = T##_apply_,                             \
                                                  .cross = T##_cross_,                             \
                                                  .rotate = T##_rotate_,                           \
                                                  .rotate_back = T##_rotate_back_,                 \
                                                  .phase = T##_phase_,                             \
                                                  .phase_numbers = T##_phase_numbers_,             \
                                                  .parities = T##_parities_,                       \
                                                  .permute = T##_permute_,                         \
                                                  .fold = T##_fold_,                               \
                                                  .expect = T##_expect_,                           \
                                                  .observe = T##_observe_,                         \
                                                  .transpose = T##_transpose_,                     \
                                                  .gather = T##_gather_,                           \
                                                  .scatter = T##_scatter_,                         \
                                                  .tile = T##_tile_,                               \
                                                  .tile_cross = T##_tile_cross_,                   \
                                                  .mix = T##_mix_,                                 \
                                                  .columns = T##_columns_,                         \
                                                  .dense = T##_dense_,                             \
                                                  .density = T##_density_,                         \
                                                  .diagonal = T##_diagonal_,                       \
                                                  .collect = T##_collect_,                         \
                                                  .fold_sums = T##_fold_sums_,                     \
                                                  .weighted_sum = T##_weighted_sum_,               \
                                                  .encode = T##_encode_,                           \
                                                  .apply_half = T##_apply_half_,                   \
                                                  .apply_wide = T##_apply_wide_,                   \
                                                  .add_parts = T##_add_parts_,                     \
                                                  .repeat = T##_repeat_,                           \
                                                  .numbers_of_slices = T##_numbers_of_slices_,     \
                                                  .table_of_slices = T##_table_of_slices_}
WRAP(f32, float);
WRAP(f64, double);
const struct qr_kernels *const qr_kernels_portable[2] = {&f32_wrapped, &f64_wrapped};

#endif
