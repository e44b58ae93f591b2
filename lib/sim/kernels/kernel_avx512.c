/* sim/kernels/kernel_avx512.c — kernels for AVX-512: a cell is 1 + 1 registers (float32). Start
 * reading at kernel_template_impl.h. */
#if defined __x86_64__
#include "sim/kernels/kernel.h"

#include <immintrin.h>
#include <string.h>

#define TABLE_NAME "avx512"

#define D __m512d
#define DW 8
#define DNUMBERS(p) _mm512_load_pd(p)
#define DGET(p) _mm512_loadu_pd(p)
#define DPUT(p, v) _mm512_storeu_pd(p, v)
#define DSET1(e) _mm512_set1_pd(e)
#define DMUL(a, b) _mm512_mul_pd(a, b)
#define DFMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define DFNMA(a, b, c) _mm512_fnmadd_pd(a, b, c)

#define NAME(x) f32_##x
#define E float
#define V __m512
#define W 16
#define LOAD(p) _mm512_load_ps(p)
#define STORE(p, v) _mm512_store_ps(p, v)
#define SET1(e) _mm512_set1_ps(e)
#define ZERO() _mm512_setzero_ps()
#define MUL(a, b) _mm512_mul_ps(a, b)
#define ADD(a, b) _mm512_add_ps(a, b)
#define SUB(a, b) _mm512_sub_ps(a, b)
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define FNMA(a, b, c) _mm512_fnmadd_ps(a, b, c)
#define FMS(a, b, c) _mm512_fmsub_ps(a, b, c)
#define DLOAD(p) _mm512_cvtps_pd(_mm256_load_ps(p))
#define DSTORE(p, v) _mm256_store_ps(p, _mm512_cvtpd_ps(v))
#define JOIN(p)                                                                                    \
    _mm512_insertf32x4(                                                                            \
        _mm512_insertf32x4(_mm512_insertf32x4(_mm512_castps128_ps512(_mm_load_ps((p)[0])),         \
                                              _mm_load_ps((p)[1]), 1),                             \
                           _mm_load_ps((p)[2]), 2),                                                \
        _mm_load_ps((p)[3]), 3)
#include "sim/kernels/kernel_template_impl.h"

#define NAME(x) f64_##x
#define E double
#define V __m512d
#define W 8
#define LOAD(p) _mm512_load_pd(p)
#define STORE(p, v) _mm512_store_pd(p, v)
#define SET1(e) _mm512_set1_pd(e)
#define ZERO() _mm512_setzero_pd()
#define MUL(a, b) _mm512_mul_pd(a, b)
#define ADD(a, b) _mm512_add_pd(a, b)
#define SUB(a, b) _mm512_sub_pd(a, b)
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define FNMA(a, b, c) _mm512_fnmadd_pd(a, b, c)
#define FMS(a, b, c) _mm512_fmsub_pd(a, b, c)
#define DLOAD(p) _mm512_load_pd(p)
#define DSTORE(p, v) _mm512_store_pd(p, v)
#define JOIN(p)                                                                                    \
    _mm512_insertf64x2(                                                                            \
        _mm512_insertf64x2(_mm512_insertf64x2(_mm512_castpd128_pd512(_mm_load_pd((p)[0])),         \
                                              _mm_load_pd((p)[1]), 1),                             \
                           _mm_load_pd((p)[2]), 2),                                                \
        _mm_load_pd((p)[3]), 3)
#include "sim/kernels/kernel_template_impl.h"

const struct qr_kernels *const qr_kernels_avx512[2] = {&f32_table, &f64_table};
#endif
