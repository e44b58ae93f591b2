/* sim/kernels/kernel_avx2.c — kernels for AVX2 and FMA: a cell is 2 + 2 registers (float32). Start
 * reading at kernel_template_impl.h. */
#if defined __x86_64__
#include "sim/kernels/kernel.h"

#include <immintrin.h>
#include <string.h>

#define TABLE_NAME "avx2"

#define D __m256d
#define DW 4
#define DNUMBERS(p) _mm256_load_pd(p)
#define DGET(p) _mm256_loadu_pd(p)
#define DPUT(p, v) _mm256_storeu_pd(p, v)
#define DSET1(e) _mm256_set1_pd(e)
#define DMUL(a, b) _mm256_mul_pd(a, b)
#define DFMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define DFNMA(a, b, c) _mm256_fnmadd_pd(a, b, c)

#define NAME(x) f32_##x
#define E float
#define V __m256
#define W 8
#define LOAD(p) _mm256_load_ps(p)
#define STORE(p, v) _mm256_store_ps(p, v)
#define SET1(e) _mm256_set1_ps(e)
#define ZERO() _mm256_setzero_ps()
#define MUL(a, b) _mm256_mul_ps(a, b)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define FNMA(a, b, c) _mm256_fnmadd_ps(a, b, c)
#define FMS(a, b, c) _mm256_fmsub_ps(a, b, c)
#define DLOAD(p) _mm256_cvtps_pd(_mm_load_ps(p))
#define DSTORE(p, v) _mm_store_ps(p, _mm256_cvtpd_ps(v))
#define JOIN(p)                                                                                    \
    _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_load_ps((p)[0])), _mm_load_ps((p)[1]), 1)
#include "sim/kernels/kernel_template_impl.h"

#define NAME(x) f64_##x
#define E double
#define V __m256d
#define W 4
#define LOAD(p) _mm256_load_pd(p)
#define STORE(p, v) _mm256_store_pd(p, v)
#define SET1(e) _mm256_set1_pd(e)
#define ZERO() _mm256_setzero_pd()
#define MUL(a, b) _mm256_mul_pd(a, b)
#define ADD(a, b) _mm256_add_pd(a, b)
#define SUB(a, b) _mm256_sub_pd(a, b)
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define FNMA(a, b, c) _mm256_fnmadd_pd(a, b, c)
#define FMS(a, b, c) _mm256_fmsub_pd(a, b, c)
#define DLOAD(p) _mm256_load_pd(p)
#define DSTORE(p, v) _mm256_store_pd(p, v)
#define JOIN(p)                                                                                    \
    _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_load_pd((p)[0])), _mm_load_pd((p)[1]), 1)
#include "sim/kernels/kernel_template_impl.h"

const struct qr_kernels *const qr_kernels_avx2[2] = {&f32_table, &f64_table};
#endif
