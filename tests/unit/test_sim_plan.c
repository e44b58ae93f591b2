/* A plan's report against what runs: operations that kernels carry out, bytes that they touch,
 * memory that is allocated, and its words.
 *
 * This program has a portable table of its own, in the library's place: the kernels' template over
 * a scalar that counts, so that all the engines do is counted, in the amplitudes' precision and in
 * the tail's. A call's operations must be those of its shape; their sum those of the report. Above
 * 12 qubits counting each operation would take minutes: there the calls' shapes are summed, and the
 * machine's fastest table computes. */
#include "sim/cones/cones_impl.h"
#include "sim/report/build.h"
#include "sim/sim.h"
#include "sim/statevector/statevector_impl.h"
#include "sim/streaming/streaming_impl.h"
#include "tests/ref/problem.h"
#include "tests/t.h"

#include <math.h>

static uint64_t operations; /* of one lane each */

#define TABLE_NAME "counting"
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
#define D double
#define DW 1
#define DLOAD(p) ((double)*(p))
#define DSTORE(p, v) (*(p) = (float)(v))
#define DNUMBERS(p) (*(p))
#define DGET(p) (*(p))
#define DPUT(p, v) (*(p) = (v))
#define DSET1(e) (e)
#define DMUL(a, b) (operations++, (a) * (b))
#define DFMA(a, b, c) (operations++, __builtin_fma((a), (b), (c)))
#define DFNMA(a, b, c) (operations++, __builtin_fma(-(a), (b), (c)))
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
#define D double
#define DW 1
#define DLOAD(p) (*(p))
#define DSTORE(p, v) (*(p) = (v))
#define DNUMBERS(p) (*(p))
#define DGET(p) (*(p))
#define DPUT(p, v) (*(p) = (v))
#define DSET1(e) (e)
#define DMUL(a, b) (operations++, (a) * (b))
#define DFMA(a, b, c) (operations++, __builtin_fma((a), (b), (c)))
#define DFNMA(a, b, c) (operations++, __builtin_fma(-(a), (b), (c)))
#include "sim/kernels/kernel_template_impl.h"

/* ---- calls, by their shapes ---- */

static const struct qr_kernels *real[2]; /* what computes: the counting table or the fastest */
static bool counts;                      /* the former */
static double sum_operations, sum_bytes; /* by shape */
static unsigned wrong_calls;

/* cells: each of 16 lanes; ops: of a lane of a cell; states: touched */
static void call(double cells, double ops, double states, size_t elem) {
    sum_operations += cells * ops * QR_LANES;
    sum_bytes += cells * states * 2 * QR_LANES * (double)elem;
}
/* An i x k by a k x j matrix of float64, in each of so many lanes. */
static void call_product(size_t i, size_t k, size_t j, double lanes) {
    sum_operations += lanes * (double)(i * k * j);
    sum_bytes += lanes * (double)(sizeof(double) * (i * k + k * j + i * j));
}
static void after(uint64_t before, double said) {
    if (counts && said != (double)(operations - before)) wrong_calls++;
}

/* Operations of a lane of a cell, and cells touched, of a 4x4 on one cell. */
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
static double inside(unsigned bits, const struct qr_tile_place *at) {
    return (double)(UINT64_C(1) << (bits - (unsigned)__builtin_popcountll(at->controls)));
}

#define COUNTED(...)                                                                               \
    const struct qr_kernels *k = real[sizeof(real_elem) == sizeof(double)];                        \
    uint64_t before = operations;                                                                  \
    double said = sum_operations;                                                                  \
    __VA_ARGS__;                                                                                   \
    said = sum_operations - said
#define WRAP(T, ELEM)                                                                              \
    typedef ELEM T##_elem;                                                                         \
    static void T##_apply_(void *cells, unsigned bits, const struct qr_tile_place *at,             \
                           const void *numbers, bool wide) {                                       \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call_matrix(inside(bits, at), numbers, wide, sizeof(ELEM)));                       \
        k->apply(cells, bits, at, numbers, wide);                                                  \
        after(before, said);                                                                       \
    }                                                                                              \
    static uint64_t T##_cross_(void *phi, void *lambda, unsigned bits,                             \
                               const struct qr_tile_place *at, const void *numbers, bool wide,     \
                               uint64_t start, size_t count, double(*acc)[QR_LANES]) {             \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(4.0 * (double)count, 14, 2, sizeof(ELEM));                                    \
                if (numbers) call_matrix(8.0 * (double)count, numbers, wide, sizeof(ELEM)));       \
        uint64_t at_end = k->cross(phi, lambda, bits, at, numbers, wide, start, count, acc);       \
        after(before, said);                                                                       \
        return at_end;                                                                             \
    }                                                                                              \
    static void T##_fold_(const double(*acc)[QR_LANES], const double scale[QR_LANES],              \
                          double ret[QR_CROSS]) {                                                  \
        real[0]->fold(acc, scale, ret);                                                            \
    }                                                                                              \
    static void T##_collect_(void *sums, size_t n, double(*acc)[QR_LANES]) {                       \
        real[sizeof(ELEM) == sizeof(double)]->collect(sums, n, acc);                               \
    }                                                                                              \
    static void T##_expect_(const void *phi, size_t first, size_t count,                           \
                            const struct qr_pauli_place *at, void *acc) {                          \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)count, 3, 1, sizeof(ELEM)));                                          \
        k->expect(phi, first, count, at, acc);                                                     \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_observe_(void *lambda, const void *phi, size_t first, size_t count,            \
                             const struct qr_pauli_place *at, const void *weight) {                \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)count, 2, 3, sizeof(ELEM)));                                          \
        k->observe(lambda, phi, first, count, at, weight);                                         \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_transpose_(void *cells, const uint64_t offsets[QR_LANES]) {                    \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(QR_LANES, 0, 2, sizeof(ELEM)));                                               \
        k->transpose(cells, offsets);                                                              \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_gather_(void *to, const void *from, uint64_t base, const uint64_t *offsets,    \
                            size_t n) {                                                            \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)n, 0, 2, sizeof(ELEM)));                                              \
        k->gather(to, from, base, offsets, n);                                                     \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_scatter_(void *to, const void *from, uint64_t base, const uint64_t *offsets,   \
                             size_t n) {                                                           \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)n, 0, 2, sizeof(ELEM)));                                              \
        k->scatter(to, from, base, offsets, n);                                                    \
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
    static void T##_weigh_(const void *sums, size_t n, const double *weights,                      \
                           double ret[QR_LANES]) {                                                 \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)n, 1, 0.5, sizeof(ELEM)));                                            \
        k->weigh(sums, n, weights, ret);                                                           \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_encode_(const double *m, const double *b, void *ret) {                         \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call(32, 16 * (4 + 16 + 1) / 32.0, 1, sizeof(ELEM)));                              \
        k->encode(m, b, ret);                                                                      \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_apply_half_(const void *in, void *out, unsigned bits,                          \
                                const struct qr_tile_place *at, const double *numbers) {           \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call((double)(UINT64_C(1) << bits) / 2, 16, 2, sizeof(ELEM)));                     \
        k->apply_half(in, out, bits, at, numbers);                                                 \
        after(before, said);                                                                       \
    }                                                                                              \
    static void T##_apply_wide_(const void *in, void *out, unsigned bits,                          \
                                const struct qr_tile_place *at, const double *numbers) {           \
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
                            size_t n_i, size_t n_k, size_t n_j) {                                  \
        typedef T##_elem real_elem;                                                                \
        COUNTED(call_product(n_i, n_k, n_j, 1));                                                   \
        k->matmul(c, a, a_i, a_k, b, n_i, n_k, n_j);                                               \
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
                                                  .weigh = T##_weigh_,                             \
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

/* ---- allocations that stay: by base/mem.h's functions (files of the cgroup are read through the
 * library's malloc) ---- */

static size_t allocated;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { ALLOCATIONS_SEEN = 0 };
#else
enum { ALLOCATIONS_SEEN = 1, RECENT = 64 };
static struct {
    void *p;
    size_t n;
} recent[RECENT]; /* from calloc: some are given back at once */
static size_t n_recent;
void *__libc_calloc(size_t count, size_t n);
void *__libc_memalign(size_t align, size_t n);
void __libc_free(void *p);
__attribute__((visibility("default"))) void *calloc(size_t count, size_t n) {
    void *p = __libc_calloc(count, n);
    allocated += count * n;
    recent[n_recent % RECENT].p = p;
    recent[n_recent++ % RECENT].n = count * n;
    return p;
}
__attribute__((visibility("default"))) int posix_memalign(void **ret, size_t align, size_t n) {
    allocated += n;
    *ret = __libc_memalign(align, n);
    return *ret ? 0 : 12;
}
__attribute__((visibility("default"))) void free(void *p) {
    for (size_t i = 0; p && i < RECENT; i++) {
        if (recent[i].p != p) continue;
        allocated -= recent[i].n;
        recent[i].p = NULL;
    }
    __libc_free(p);
}
#endif

/* ---- a plan and what it does ---- */

static size_t n_cases;

/* Bytes of everything are exact; of operations the counted ones too, where the kernels count. */
static void check_plan(const struct problem *p, enum qr_engine engine, enum qr_precision precision,
                       bool known, bool count, const char *wanted) {
    struct qr_err err;
    struct qr_sim_options opt = {precision, QR_ISA_PORTABLE, engine};
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    double z[MAX_SAMPLES * MAX_OBS];
    qr_fixed grad[MAX_PARAMS] = {0};
    unsigned n = p->c->n_qubits;
    counts = count;
    for (int k = 0; k < 2; k++)
        real[k] = count || qr_isa_best() == QR_ISA_PORTABLE
                      ? k ? &f64_table : &f32_table
                      : qr_kernels_of(qr_isa_best(), (enum qr_precision)k);
    CHECK(qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    CHECK(!wanted || strcmp(qr_sim_facts(plan).engine, wanted) == 0, "n %u: %s", n, plan->why);
    allocated = 0;
    CHECK(qr_sim_workspace_new(plan, p->n_samples, &ws, &err) == QR_OK, "%s", err.msg);
    size_t heads = plan->stream  ? sizeof(struct qr_stream_workspace)
                   : plan->cones ? sizeof(struct cones_workspace)
                                 : sizeof(struct qr_statevector_workspace),
           said = qr_sim_bytes_per_thread(plan, p->n_samples) + heads;
    CHECK(!ALLOCATIONS_SEEN || said == allocated,
          "n %u %s: a workspace takes %zu bytes, the plan says %zu", n, plan->why, allocated, said);
    allocated = 0;
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    heads =
        sizeof *b + (plan->stream ? sizeof *b->stream : 0) + (plan->cones ? sizeof *b->cones : 0);
    said = qr_sim_bound_bytes(plan) + heads;
    CHECK(!ALLOCATIONS_SEEN || said == allocated,
          "n %u %s: numbers of a step take %zu bytes, the plan says %zu", n, plan->why, allocated,
          said);

    struct qr_sim_report *r = qr_sim_report_new(
        plan, &(struct qr_sim_report_options){.n_samples = p->n_samples, .head_known = known});
    double flop[3] = {0}, bytes[3] = {0}; /* by when */
    for (size_t i = 0; i < r->n_stages; i++) {
        flop[r->stages[i].when] += r->stages[i].flop;
        bytes[r->stages[i].when] += r->stages[i].bytes;
    }
    CHECK(r->workspace_bytes == qr_sim_bytes_per_thread(plan, p->n_samples) &&
              flop[QR_EACH_MICRO_BATCH] == r->flop && bytes[QR_EACH_MICRO_BATCH] == r->bytes,
          "n %u", n);
    sum_operations = sum_bytes = wrong_calls = 0;
    qr_sim_bind(b, p->theta);
    CHECK(2 * sum_operations == flop[QR_EACH_STEP] && sum_bytes == bytes[QR_EACH_STEP],
          "n %u: a bind takes %.17g flop, %.17g bytes; the plan says %.17g, %.17g", n,
          2 * sum_operations, sum_bytes, flop[QR_EACH_STEP], bytes[QR_EACH_STEP]);
    for (int again = 0; again < 2; again++) {
        double want_flop = flop[QR_EACH_MICRO_BATCH] + (again ? 0 : flop[QR_ONCE]),
               want_bytes = bytes[QR_EACH_MICRO_BATCH] + (again ? 0 : bytes[QR_ONCE]);
        uint64_t before = operations;
        sum_operations = sum_bytes = 0;
        qr_sim_forward_for_gradient(b, ws, NULL, p->x, p->c->n_columns, p->n_samples,
                                    known ? p->direction : NULL, z);
        CHECK(qr_sim_backward(b, ws, NULL, p->direction, p->scale, grad));
        CHECK(fabs(2 * sum_operations - want_flop) <= 1e-9 * want_flop,
              "n %u %s: %.17g flop by the calls' shapes, the plan says %.17g", n, plan->why,
              2 * sum_operations, want_flop);
        CHECK(fabs(sum_bytes - want_bytes) <= 1e-9 * want_bytes,
              "n %u %s: %.17g bytes, the plan says %.17g", n, plan->why, sum_bytes, want_bytes);
        CHECK(!count || fabs(2 * (double)(operations - before) - want_flop) <= 1e-9 * want_flop,
              "n %u %s: counted %.17g flop, the plan says %.17g", n, plan->why,
              2 * (double)(operations - before), want_flop);
    }
    CHECK(!wrong_calls, "n %u: %u calls of kernels did other operations than their shapes say", n,
          wrong_calls);
    n_cases++;
    qr_sim_report_free(r);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
}

/* The same direction for all samples, told before or not; each its own. */
static void check_orders(struct problem *p, enum qr_engine engine, enum qr_precision precision,
                         bool count, const char *wanted) {
    check_plan(p, engine, precision, false, count, wanted);
    for (size_t i = 1; i < p->n_samples; i++)
        memcpy(p->direction + i * p->n_obs, p->direction, p->n_obs * sizeof *p->direction);
    check_plan(p, engine, precision, true, count, wanted);
}

static void check_streaming(unsigned n, unsigned stages, enum kind kind, size_t samples,
                            enum qr_precision precision, bool count) {
    struct problem p = case_of(n, stages, kind, samples);
    check_orders(&p, QR_ENGINE_STREAMING, precision, count, "streaming");
    drop(&p);
}

/* Every sample's angles are its own, so no two items are equal: the report's figures are exact. */
static void check_cones(unsigned n, unsigned stages, enum kind kind, size_t samples,
                        enum qr_precision precision) {
    struct problem p = case_of(n, stages, kind, samples);
    check_orders(&p, QR_ENGINE_CONES, precision, true, "cones");
    drop(&p);
}

static void check_statevector(unsigned n, unsigned stages, size_t samples, bool count) {
    struct problem p = case_of(n, stages, stages ? EACH : LAST, samples);
    check_orders(&p, QR_ENGINE_STATEVECTOR, QR_SINGLE, count, "statevector");
    drop(&p);
}

/* Gates of all kinds, with controls. */
static void check_random(unsigned n, uint64_t seed, size_t samples) {
    struct problem p = {
        .c = ref_random_circuit(seed, n, 40 + 2 * n), .n_obs = 2, .n_samples = samples};
    for (unsigned r = 0; r < 2; r++) p.obs[r] = ref_random_observable(seed + r, n);
    problem_room(&p, p.c->n_columns);
    ref_random_numbers(seed, p.c->n_params, 0, 6.28, p.theta);
    ref_random_numbers(seed + 1, samples * p.c->n_columns, -2, 2, p.x);
    ref_random_numbers(seed + 2, samples * 2, -1, 1, p.direction);
    ref_random_numbers(seed + 3, samples, -2, 2, p.scale);
    check_orders(&p, QR_ENGINE_STATEVECTOR, n % 2 ? QR_DOUBLE : QR_SINGLE, n < 12, "statevector");
    drop(&p);
}

/* ---- words, and the reason for an engine ---- */

static void check_words(const struct problem *p, enum qr_engine engine, const char *const *says,
                        size_t n_says) {
    struct qr_sim_options opt = {QR_SINGLE, QR_ISA_PORTABLE, engine};
    struct qr_sim_plan *plan = NULL;
    struct qr_err err;
    struct qr_buf text = {0}, flat = {0};
    CHECK(qr_sim_compile(p->c, p->obs, p->n_obs, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    struct qr_sim_report *r =
        qr_sim_report_new(plan, &(struct qr_sim_report_options){.n_samples = 1});
    qr_sim_report_text(r, true, &text);
    for (const char *c = qr_buf_string(&text); *c; c++) /* as if lines were as long as they like */
        if (*c != '\n') qr_buf_printf(&flat, "%c", *c);
        else if (strncmp(c + 1, "            ", 12) == 0) c += 12, qr_buf_puts(&flat, " ");
        else qr_buf_puts(&flat, "\n");
    for (size_t i = 0; i < n_says; i++)
        CHECK(strstr(qr_buf_string(&flat), says[i]), "n %u: no \"%s\" in\n%s", p->c->n_qubits,
              says[i], qr_buf_string(&flat));
    qr_buf_free(&text);
    qr_buf_free(&flat);
    qr_sim_report_free(r);
    qr_sim_plan_free(plan);
}

static void check_case(unsigned n, unsigned stages, enum kind kind, enum qr_engine engine,
                       const char *const *says, size_t n_says) {
    struct problem p = case_of(n, stages, kind, 1);
    check_words(&p, engine, says, n_says);
    drop(&p);
}

/* A gate more at the end of a QCNN. */
static void check_refused(unsigned n, const struct qr_gate *more, const char *reason) {
    struct problem p = case_of(n, 0, LAST, 1);
    struct qr_err err;
    CHECK(qr_circuit_add(p.c, more, &err) == QR_OK, "%s", err.msg);
    check_words(&p, QR_ENGINE_AUTO, (const char *const[]){"statevector engine", reason}, 2);
    drop(&p);
}

static void check_texts(void) {
    static const char *const pure_8[] = {"16 samples",
                                         "layer 1   qubits 0-7: 4 fused gates",
                                         "0-3 are traced out by the pool onto 4-7",
                                         "matrix of 16 x 16",
                                         "one read-out: lambda's direction is known",
                                         "8 one-qubit gates and 8 CZ"};
    static const char *const pure_16[] = {
        "a table of 2^8 (qubits 0-7) times one of 2^8 (8-15) for 4 outcomes, 16 products",
        "256 of 2^8 amplitudes", "layer 2   qubits 8-15",
        "8-11 are traced out by the pool onto 12-15", "tail      4 qubits"};
    static const char *const hybrid_15[] = {"for 1 outcome, 8 products", "across the cut: 6-7;",
                                            "read-outs of Z only", "read-outs first"};
    static const char *const shared_24[] = {"all share the slices of one sample"};
    static const char *const asked[] = {"statevector engine", "it was asked for",
                                        "forward, read-outs to the head"};
    static const char *const small[] = {"statevector engine", "7 qubits: streaming is for 8 to 36"};
    static const char *const cones_15[] = {
        "cones engine", "each term of a read-out sees at most 12 qubits",
        "8 terms, 5 different cones of at most 12 qubits", "16 items side by side"};
    check_case(8, 0, LAST, QR_ENGINE_AUTO, pure_8, COUNT(pure_8));
    check_case(16, 0, LAST, QR_ENGINE_AUTO, pure_16, COUNT(pure_16));
    check_case(15, 1, EACH, QR_ENGINE_STREAMING, hybrid_15, COUNT(hybrid_15));
    check_case(15, 1, EACH, QR_ENGINE_AUTO, cones_15, COUNT(cones_15));
    check_case(24, 0, LAST, QR_ENGINE_AUTO, shared_24, COUNT(shared_24));
    check_case(8, 0, LAST, QR_ENGINE_STATEVECTOR, asked, COUNT(asked));
    check_case(7, 0, LAST, QR_ENGINE_AUTO, small, COUNT(small));
    const struct qr_gate data = {.kind = QR_GATE_X,
                                 .n_targets = 1,
                                 .n_args = 1,
                                 .targets = {8},
                                 .args = {{QR_ARG_DATA, 1, 0}}};
    check_refused(9, &data, "(X) brings data in behind the preparation");
    const struct qr_gate onto_a_source = {.kind = QR_GATE_ZZ,
                                          .n_targets = 2,
                                          .n_args = 1,
                                          .targets = {0, 11},
                                          .args = {{QR_ARG_CONSTANT, 0.3, 0}}};
    check_refused(12, &onto_a_source, "behind 0 layers no pool comes");
}

/* Streaming memory is O(2^(n/2)). 32 qubits with as many threads as there are processors here, up
 * to four. */
static void check_memory(void) {
    size_t last = 0;
    for (unsigned n = 12; n <= 36; n++) {
        struct problem p = case_of(n, 0, LAST, 1);
        struct qr_sim_options opt = {QR_SINGLE, QR_ISA_PORTABLE, QR_ENGINE_AUTO};
        struct qr_sim_plan *plan = NULL;
        struct qr_err err;
        CHECK(qr_sim_compile(p.c, p.obs, 1, &opt, &plan, &err) == QR_OK, "%s", err.msg);
        size_t bytes = qr_sim_bytes_per_thread(plan, 1);
        CHECK(plan->stream && bytes > last / 2, "n %u", n);
        if (n == 24) CHECK(bytes < (size_t)32 << 20, "%zu bytes", bytes);
        if (n == 32 && qr_cpu_limit() <= 4)
            CHECK(bytes <= (size_t)200 * 1000 * 1000, "%zu bytes", bytes);
        last = bytes;
        qr_sim_plan_free(plan);
        drop(&p);
    }
}

int main(void) {
    unsigned top = t_qubits();
    for (unsigned n = 8; n <= 20 && n <= top; n++) {
        size_t samples = n <= 11 ? 17 : n <= 16 ? 2 : 1;
        check_streaming(n, 0, LAST, samples, QR_SINGLE, n <= 12);
        check_streaming(n, 1, EACH, samples, n % 2 ? QR_DOUBLE : QR_SINGLE, n <= 12);
    }
    check_streaming(10, 1, MIXED, 5, QR_SINGLE, true);
    check_streaming(12, 2, EACH, 1, QR_DOUBLE, true);
    if (top >= 21) check_streaming(21, 0, LAST, 1, QR_SINGLE, false);
    for (unsigned n = 8; n <= 14 && n <= top; n++) {
        check_statevector(n, 0, n <= 11 ? 17 : 2, n < 10);
        check_statevector(n, 1, n <= 11 ? 16 : 1, n < 10);
    }
    for (unsigned n = 8; n <= 20 && n <= top; n++)
        check_cones(n, 1, EACH, 1 + n % 5, n % 2 ? QR_DOUBLE : QR_SINGLE);
    check_cones(10, 1, MIXED, 17, QR_SINGLE);
    check_cones(9, 2, EACH, 2, QR_SINGLE);
    for (unsigned n = 2; n <= 14 && n <= top; n++) check_random(n, 70 + n, n <= 11 ? 18 : 2);
    check_texts();
    check_memory();
    printf("%zu plans\n", n_cases);
    return t_end();
}
