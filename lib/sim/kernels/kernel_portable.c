/* sim/kernels/kernel_portable.c — kernels for any CPU: libm's fused multiply-add, which uses the
 * instruction if there is one. Start reading at kernel_template_impl.h. */
#include "sim/kernels/kernel.h"

#include <string.h>

#define TABLE_NAME "portable"

#define D double
#define DW 1
#define DNUMBERS(p) (*(p))
#define DGET(p) (*(p))
#define DPUT(p, v) (*(p) = (v))
#define DSET1(e) (e)
#define DMUL(a, b) ((a) * (b))
#define DFMA(a, b, c) __builtin_fma((a), (b), (c))
#define DFNMA(a, b, c) __builtin_fma(-(a), (b), (c))

#define NAME(x) f32_##x
#define E float
#define V float
#define W 1
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SET1(e) (e)
#define ZERO() 0.0f
#define MUL(a, b) ((a) * (b))
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#define FNMA(a, b, c) __builtin_fmaf(-(a), (b), (c))
#define FMS(a, b, c) __builtin_fmaf((a), (b), -(c))
#define DLOAD(p) ((double)*(p))
#define DSTORE(p, v) (*(p) = (float)(v))
#include "sim/kernels/kernel_template_impl.h"

#define NAME(x) f64_##x
#define E double
#define V double
#define W 1
#define LOAD(p) (*(p))
#define STORE(p, v) (*(p) = (v))
#define SET1(e) (e)
#define ZERO() 0.0
#define MUL(a, b) ((a) * (b))
#define ADD(a, b) ((a) + (b))
#define SUB(a, b) ((a) - (b))
#define FMA(a, b, c) __builtin_fma((a), (b), (c))
#define FNMA(a, b, c) __builtin_fma(-(a), (b), (c))
#define FMS(a, b, c) __builtin_fma((a), (b), -(c))
#define DLOAD(p) (*(p))
#define DSTORE(p, v) (*(p) = (v))
#include "sim/kernels/kernel_template_impl.h"

const struct qr_kernels *const qr_kernels_portable[2] = {&f32_table, &f64_table};
