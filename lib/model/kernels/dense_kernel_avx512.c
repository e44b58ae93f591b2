/* model/kernels/dense_kernel_avx512.c — the AVX-512 table: vectors of eight. */
#if defined __x86_64__
#include <immintrin.h>

#include "model/kernels/dense_kernel.h"

#define W 8
#define VECTORS 4
#define NARROWER qr_dense_kernels_avx2
#include "model/kernels/kernel_matmul_template_impl.h"

#define ORDER 0, 4, 1, 5, 2, 6, 3, 7
#define BACK 0, 2, 4, 6, 1, 3, 5, 7
#define EVENS 0, 8, 2, 10, 4, 12, 6, 14
#define ODDS 1, 9, 3, 11, 5, 13, 7, 15
#include "model/kernels/kernel_fixed_template_impl.h"

/* The fraction, at most 1/2, is exact. 2^63, which does not fit, becomes -2^63: the same word. */
INLINE void fixed_words(vector x, word *ret_low, word *ret_high) {
    __m512d whole = _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT),
            fraction = (x - whole) * 0x1p64;
    __m512i high = _mm512_cvtpd_epi64(whole);
    __mmask8 below = _mm512_cmp_pd_mask(fraction, _mm512_set1_pd(-0.5), _CMP_LT_OQ);
    *ret_low = (word)_mm512_cvtpd_epi64(fraction);
    *ret_high = (word)_mm512_mask_sub_epi64(high, below, high, _mm512_set1_epi64(1));
}

const struct qr_dense_kernels qr_dense_kernels_avx512 = {kernel_matmul, kernel_add_doubles,
                                                         kernel_set_doubles, kernel_means};
#endif
