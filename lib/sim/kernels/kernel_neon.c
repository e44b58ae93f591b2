/* sim/kernels/kernel_neon.c — kernels for arm64's base vectors: a cell is 4 + 4 registers
 * (float32). Start reading at kernel_template_impl.h. */
#if defined __aarch64__
#include "sim/kernels/kernel.h"

#include <arm_neon.h>
#include <string.h>

#define TABLE_NAME "neon"

#define D float64x2_t
#define DW 2
#define DNUMBERS(p) vld1q_f64(p)
#define DGET(p) vld1q_f64(p)
#define DPUT(p, v) vst1q_f64(p, v)
#define DSET1(e) vdupq_n_f64(e)
#define DMUL(a, b) vmulq_f64(a, b)
#define DFMA(a, b, c) vfmaq_f64(c, a, b)
#define DFNMA(a, b, c) vfmsq_f64(c, a, b)

#define NAME(x) f32_##x
#define E float
#define V float32x4_t
#define W 4
#define LOAD(p) vld1q_f32(p)
#define STORE(p, v) vst1q_f32(p, v)
#define SET1(e) vdupq_n_f32(e)
#define ZERO() vdupq_n_f32(0)
#define MUL(a, b) vmulq_f32(a, b)
#define ADD(a, b) vaddq_f32(a, b)
#define SUB(a, b) vsubq_f32(a, b)
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define FNMA(a, b, c) vfmsq_f32(c, a, b)
#define FMS(a, b, c) vfmaq_f32(vnegq_f32(c), a, b)
#define DLOAD(p) vcvt_f64_f32(vld1_f32(p))
#define DSTORE(p, v) vst1_f32(p, vcvt_f32_f64(v))
#include "sim/kernels/kernel_template_impl.h"

#define NAME(x) f64_##x
#define E double
#define V float64x2_t
#define W 2
#define LOAD(p) vld1q_f64(p)
#define STORE(p, v) vst1q_f64(p, v)
#define SET1(e) vdupq_n_f64(e)
#define ZERO() vdupq_n_f64(0)
#define MUL(a, b) vmulq_f64(a, b)
#define ADD(a, b) vaddq_f64(a, b)
#define SUB(a, b) vsubq_f64(a, b)
#define FMA(a, b, c) vfmaq_f64(c, a, b)
#define FNMA(a, b, c) vfmsq_f64(c, a, b)
#define FMS(a, b, c) vfmaq_f64(vnegq_f64(c), a, b)
#define DLOAD(p) vld1q_f64(p)
#define DSTORE(p, v) vst1q_f64(p, v)
#include "sim/kernels/kernel_template_impl.h"

const struct qr_kernels *const qr_kernels_neon[2] = {&f32_table, &f64_table};
#endif
