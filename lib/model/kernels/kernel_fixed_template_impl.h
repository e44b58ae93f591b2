/* model/kernels/kernel_fixed_template_impl.h — Q64.64 integers by vectors of W; the file of a table
 * includes it after kernel_matmul_template_impl.h, with
 *
 *   EVENS, ODDS  lanes of two vectors a and b: the even (odd) lanes of a and b, alternating.
 *                Applied to their own results they give a and b again
 *   ORDER        positions in a row of the numbers with lower words in EVENS
 *   BACK         from that order to the row's
 *
 * and defines fixed_words() after it. The results are those of exact/integer.c. No include guard,
 * on purpose.
 */

typedef int64_t signed_vector __attribute__((vector_size(8 * W)));
typedef uint64_t word __attribute__((vector_size(8 * W)));
typedef uint64_t word_at __attribute__((vector_size(8 * W), aligned(8), may_alias));

/* Computes lower and upper words of the integers nearest to 2^64 x, ties to even. |x| < 2^40. */
INLINE void fixed_words(vector x, word *ret_low, word *ret_high);

/* Adds W numbers from x on to acc, which has lower and upper words alternating; `sets`: acc counts
 * as 0. */
INLINE void add_vector(const bool sets, uint64_t *acc, const double *x) {
    vector given = *(const vector_at *)x;
    word low, high;
    fixed_words(__builtin_shufflevector(given, given, ORDER), &low, &high);
    if (!sets) {
        word first = *(const word_at *)acc, second = *(const word_at *)(acc + W);
        word was = __builtin_shufflevector(first, second, EVENS);
        low += was;
        high += __builtin_shufflevector(first, second, ODDS) - (word)(low < was);
    }
    *(word_at *)acc = __builtin_shufflevector(low, high, EVENS);
    *(word_at *)(acc + W) = __builtin_shufflevector(low, high, ODDS);
}

static void kernel_add_doubles(qr_fixed *restrict acc, const double *restrict x, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) add_vector(false, (uint64_t *)(acc + i), x + i);
    if (i < n) NARROWER.add_doubles(acc + i, x + i, n - i);
}

static void kernel_set_doubles(qr_fixed *restrict acc, const double *restrict x, size_t n) {
    size_t i = 0;
    for (; i + W <= n; i += W) add_vector(true, (uint64_t *)(acc + i), x + i);
    if (i < n) NARROWER.set_doubles(acc + i, x + i, n - i);
}

/* Sums with an upper half outside +-2^20 set a bit of `large`; their result is then invalid. An
 * integer below 2^51 added to the bits of 1.5 * 2^52, or one below 2^32 or-ed into those of 2^52,
 * is that much above it. `multiplies`: by is the inverse of a power of two. */
INLINE void means_vector(const bool multiplies, double *ret, const uint64_t *sum, double by,
                         word *large) {
    const vector none = (vector){0} + 0x1.8p52, empty = (vector){0} + 0x1p52;
    const word limit = (word){0} + (1 << 20), mask = (word){0} + 0xffffffff;
    word first = *(const word_at *)sum, second = *(const word_at *)(sum + W);
    word low = __builtin_shufflevector(first, second, EVENS),
         high = __builtin_shufflevector(first, second, ODDS);
    *large |= (high + limit) >> 21;
    vector x = (vector)(high + (word)none) - none, y = (vector)(low >> 32 | (word)empty) - empty,
           z = (vector)((low & mask) | (word)empty) - empty;
    vector v = (x + y * 0x1p-32) + z * 0x1p-64;
    v = multiplies ? v * by : v / by;
    *(vector_at *)ret = __builtin_shufflevector(v, v, BACK);
}

INLINE void all_means(const bool multiplies, double *restrict ret, const qr_fixed *restrict sum,
                      size_t n, double n_terms) {
    enum { SOME = 8 * W };
    double by = multiplies ? 1 / n_terms : n_terms;
    size_t i = 0;
    for (; i + SOME <= n; i += SOME) {
        word large = {0};
        uint64_t any = 0;
        for (size_t k = i; k < i + SOME; k += W)
            means_vector(multiplies, ret + k, (const uint64_t *)(sum + k), by, &large);
        for (int k = 0; k < W; k++) any |= large[k];
        if (any) NARROWER.means(ret + i, sum + i, SOME, n_terms);
    }
    if (i < n) NARROWER.means(ret + i, sum + i, n - i, n_terms);
}

/* A product takes a fifth of the time of a division, and is the same number here. */
static void kernel_means(double *restrict ret, const qr_fixed *restrict sum, size_t n,
                         double n_terms) {
    uint64_t integer = (uint64_t)n_terms;
    if ((integer & (integer - 1)) == 0) all_means(true, ret, sum, n, n_terms);
    else all_means(false, ret, sum, n, n_terms);
}
