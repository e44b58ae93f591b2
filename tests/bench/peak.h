/* tests/bench/peak.h — peak rate of fused multiply-adds from registers with a kernel table's
 * instructions: enough chains to hide their latency, no memory. The base of `ceiling_percent`. */
#ifndef BENCH_PEAK_H
#define BENCH_PEAK_H

#include <math.h>

#include "base/pool.h"
#include "sim/sim.h"
#include "tests/bench/figures.h"

enum { PEAK_TURNS = 20000, PEAK_CHAINS = 12 };

#if defined __x86_64__
/* clang-format off */
#define PEAK_CHAIN(op, r, n) op " %%" r "0, %%" r "0, %%" r #n "\n"
#define PEAK_ALL(op, r)                                                                            \
    PEAK_CHAIN(op, r, 1)                                                                           \
    PEAK_CHAIN(op, r, 2)                                                                           \
    PEAK_CHAIN(op, r, 3) PEAK_CHAIN(op, r, 4) PEAK_CHAIN(op, r, 5) PEAK_CHAIN(op, r, 6)            \
        PEAK_CHAIN(op, r, 7) PEAK_CHAIN(op, r, 8) PEAK_CHAIN(op, r, 9) PEAK_CHAIN(op, r, 10)       \
            PEAK_CHAIN(op, r, 11) PEAK_CHAIN(op, r, 12)
/* clang-format on */
/* Zero times zero plus zero: no denormal numbers. */
#define PEAK_LOOP(op, r)                                                                           \
    do {                                                                                           \
        long n = PEAK_TURNS;                                                                       \
        __asm__ volatile("vzeroall\n1:\n" PEAK_ALL(op, r) "dec %0\njnz 1b\nvzeroupper\n"           \
                         : "+r"(n)                                                                 \
                         :                                                                         \
                         : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",   \
                           "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");  \
    } while (0)
static inline void peak_avx512_f32(void) { PEAK_LOOP("vfmadd213ps", "zmm"); }
static inline void peak_avx512_f64(void) { PEAK_LOOP("vfmadd213pd", "zmm"); }
static inline void peak_avx2_f32(void) { PEAK_LOOP("vfmadd213ps", "ymm"); }
static inline void peak_avx2_f64(void) { PEAK_LOOP("vfmadd213pd", "ymm"); }
#elif defined __aarch64__
#define PEAK_CHAIN(n, t) "fmla v" #n "." t ", v0." t ", v0." t "\n"
#define PEAK_LOOP(t)                                                                               \
    do {                                                                                           \
        long n = PEAK_TURNS;                                                                       \
        __asm__ volatile("movi v0.2d, #0\n1:\n" PEAK_CHAIN(16, t) PEAK_CHAIN(17, t)                \
                             PEAK_CHAIN(18, t) PEAK_CHAIN(19, t) PEAK_CHAIN(20, t)                 \
                                 PEAK_CHAIN(21, t) PEAK_CHAIN(22, t) PEAK_CHAIN(23, t)             \
                                     PEAK_CHAIN(24, t) PEAK_CHAIN(25, t) PEAK_CHAIN(26, t)         \
                                         PEAK_CHAIN(27, t) "subs %0, %0, #1\nb.ne 1b\n"            \
                         : "+r"(n)                                                                 \
                         :                                                                         \
                         : "cc", "v0", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23",     \
                           "v24", "v25", "v26", "v27");                                            \
    } while (0)
static inline void peak_neon_f32(void) { PEAK_LOOP("4s"); }
static inline void peak_neon_f64(void) { PEAK_LOOP("2d"); }
#endif
/* The portable table's multiply-adds are libm's, one number at a time. */
static inline void peak_portable_f32(void) {
    float c[PEAK_CHAINS] = {0};
    for (long i = 0; i < PEAK_TURNS / 8; i++)
        for (int k = 0; k < PEAK_CHAINS; k++) c[k] = fmaf(0.5F, 0.25F, c[k]);
    __asm__ volatile("" : : "r"(c) : "memory");
}
static inline void peak_portable_f64(void) {
    double c[PEAK_CHAINS] = {0};
    for (long i = 0; i < PEAK_TURNS / 8; i++)
        for (int k = 0; k < PEAK_CHAINS; k++) c[k] = fma(0.5, 0.25, c[k]);
    __asm__ volatile("" : : "r"(c) : "memory");
}

struct peak_loop {
    void (*run)(void);
    double flop;
};
static inline struct peak_loop peak_loop(enum qr_isa isa, enum qr_precision precision) {
    bool f64 = precision == QR_DOUBLE;
    double chains = 2.0 * PEAK_CHAINS * PEAK_TURNS / (f64 ? 2 : 1);
    switch (isa) {
#if defined __x86_64__
    case QR_ISA_AVX2: return (struct peak_loop){f64 ? peak_avx2_f64 : peak_avx2_f32, 8 * chains};
    case QR_ISA_AVX512:
        return (struct peak_loop){f64 ? peak_avx512_f64 : peak_avx512_f32, 16 * chains};
#elif defined __aarch64__
    case QR_ISA_NEON: return (struct peak_loop){f64 ? peak_neon_f64 : peak_neon_f32, 4 * chains};
#endif
    default:
        return (struct peak_loop){f64 ? peak_portable_f64 : peak_portable_f32,
                                  2.0 * PEAK_CHAINS * (PEAK_TURNS / 8)};
    }
}

struct peak_each {
    struct peak_loop loop;
    int times;
};
static inline void peak_task(void *ctx, size_t i, unsigned worker) {
    (void)i;
    (void)worker;
    const struct peak_each *p = ctx;
    for (int k = 0; k < p->times; k++) p->loop.run();
}
/* Gflop/s of all threads of the pool (NULL: one thread), over `times` runs of the loop on each: 64
 * take some ms. */
static inline double peak_gflops(struct qr_pool *pool, enum qr_isa isa, enum qr_precision precision,
                                 int times) {
    struct peak_each p = {peak_loop(isa, precision), times};
    size_t threads = pool ? qr_pool_size(pool) : 1;
    int64_t start = bench_now_ns();
    if (pool) qr_pool_for(pool, threads, peak_task, &p);
    else peak_task(&p, 0, 0);
    return p.loop.flop * times * (double)threads / (double)(bench_now_ns() - start);
}

#endif
