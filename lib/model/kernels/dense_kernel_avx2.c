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

const struct qr_dense_kernels qr_dense_kernels_avx2 = {kernel_matmul, kernel_add_doubles,
                                                       kernel_set_doubles, kernel_means};
#endif
