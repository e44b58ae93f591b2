/* model/kernels/kernel_fixed_template_impl.h — Q64.64 integers by vectors of W; the file of a table
 * includes it after kernel_matmul_template_impl.h, with
 *
 *   EVENS, ODDS  lanes of two vectors a and b: the even (odd) lanes of a and b, alternating.
 *                Applied to their own results they give a and b again
 *   ORDER        positions in a row of the numbers with lower words in EVENS
 *   BACK         from that order to the row's
 *
 * The steps are those of exact/integer.c. No include guard, on purpose.
 */

typedef int64_t signed_vector __attribute__((vector_size(8 * W)));
typedef uint64_t word __attribute__((vector_size(8 * W)));
typedef uint64_t word_at __attribute__((vector_size(8 * W), aligned(8), may_alias));

/* Adds W numbers from x on to acc, which has lower and upper words alternating; `sets`: acc counts
 * as 0. */
INLINE void add_vector(const bool sets, uint64_t *acc, const double *x) {
    const vector none = (vector){0} + 0x1.8p52;
    vector given = *(const vector_at *)x;
    vector y = __builtin_shufflevector(given, given, ORDER) * 0x1p8;
    vector a = y + none, r = (y - (a - none)) * 0x1p28, b = r + none;
    vector c = (r - (b - none)) * 0x1p28 + none;
    signed_vector high = (signed_vector)a - (signed_vector)none,
                  low = (((signed_vector)b - (signed_vector)none) << 28) +
                        ((signed_vector)c - (signed_vector)none);
    word above = (word)high << 56, sum = above + (word)low;
    word upper = (word)(high >> 8) + (word)(low >> 63) - (word)(sum < above);
    if (!sets) {
        word first = *(const word_at *)acc, second = *(const word_at *)(acc + W);
        word was = __builtin_shufflevector(first, second, EVENS);
        sum += was;
        upper += __builtin_shufflevector(first, second, ODDS) - (word)(sum < was);
    }
    *(word_at *)acc = __builtin_shufflevector(sum, upper, EVENS);
    *(word_at *)(acc + W) = __builtin_shufflevector(sum, upper, ODDS);
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
 * is that much above it. */
INLINE void means_vector(double *ret, const uint64_t *sum, double by, word *large) {
    const vector none = (vector){0} + 0x1.8p52, empty = (vector){0} + 0x1p52;
    const word limit = (word){0} + (1 << 20), mask = (word){0} + 0xffffffff;
    word first = *(const word_at *)sum, second = *(const word_at *)(sum + W);
    word low = __builtin_shufflevector(first, second, EVENS),
         high = __builtin_shufflevector(first, second, ODDS);
    *large |= (high + limit) >> 21;
    vector x = (vector)(high + (word)none) - none, y = (vector)(low >> 32 | (word)empty) - empty,
           z = (vector)((low & mask) | (word)empty) - empty;
    vector v = ((x + y * 0x1p-32) + z * 0x1p-64) / by;
    *(vector_at *)ret = __builtin_shufflevector(v, v, BACK);
}

static void kernel_means(double *restrict ret, const qr_fixed *restrict sum, size_t n, double by) {
    enum { SOME = 8 * W };
    size_t i = 0;
    for (; i + SOME <= n; i += SOME) {
        word large = {0};
        uint64_t any = 0;
        for (size_t k = i; k < i + SOME; k += W)
            means_vector(ret + k, (const uint64_t *)(sum + k), by, &large);
        for (int k = 0; k < W; k++) any |= large[k];
        if (any) NARROWER.means(ret + i, sum + i, SOME, by);
    }
    if (i < n) NARROWER.means(ret + i, sum + i, n - i, by);
}
