/* model/kernels/dense_kernel_avx512.c — the AVX-512 table: vectors of eight. */
#if defined __x86_64__
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

const struct qr_dense_kernels qr_dense_kernels_avx512 = {kernel_matmul, kernel_add_doubles,
                                                         kernel_set_doubles, kernel_means};
#endif
