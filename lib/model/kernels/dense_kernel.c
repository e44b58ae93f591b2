/* model/kernels/dense_kernel.c — selects the table of an instruction set. */
#include "model/kernels/dense_kernel.h"

const struct qr_dense_kernels *qr_dense_kernels_of(enum qr_isa isa) {
    switch (isa) {
#if defined __x86_64__
    case QR_ISA_AVX2: return &qr_dense_kernels_avx2;
    case QR_ISA_AVX512: return &qr_dense_kernels_avx512;
#endif
    default: return &qr_dense_kernels_portable;
    }
}
