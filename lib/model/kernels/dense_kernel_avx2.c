/* model/kernels/dense_kernel_avx2.c — the AVX2 table: vectors of four. */
#if defined __x86_64__
#include "model/kernels/dense_kernel.h"

#define W 4
#define VECTORS 2
#define NARROWER qr_dense_kernels_portable
#include "model/kernels/kernel_matmul_template_impl.h"

#define ORDER 0, 2, 1, 3
#define BACK 0, 2, 1, 3
#define EVENS 0, 4, 2, 6
#define ODDS 1, 5, 3, 7
#include "model/kernels/kernel_fixed_template_impl.h"

/* 28 bits at a time: an integer below 2^51 is that much above the bits of 1.5 * 2^52. */
INLINE void fixed_words(vector x, word *ret_low, word *ret_high) {
    const vector none = (vector){0} + 0x1.8p52;
    vector y = x * 0x1p8, a = y + none, r = (y - (a - none)) * 0x1p28, b = r + none;
    vector c = (r - (b - none)) * 0x1p28 + none;
    signed_vector high = (signed_vector)a - (signed_vector)none,
                  low = (((signed_vector)b - (signed_vector)none) << 28) +
                        ((signed_vector)c - (signed_vector)none);
    word above = (word)high << 56, sum = above + (word)low;
    *ret_low = sum;
    *ret_high = (word)(high >> 8) + (word)(low >> 63) - (word)(sum < above);
}

const struct qr_dense_kernels qr_dense_kernels_avx2 = {kernel_matmul, kernel_add_doubles,
                                                       kernel_set_doubles, kernel_means};
#endif
