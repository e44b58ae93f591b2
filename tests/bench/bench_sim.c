/* Seconds of one gradient (forward and backward) per sample of the tutorial's circuits, per kernel table, beside the blocked
 * engine's and what the machine gives in the same run: fused multiply-adds from registers, and copying. One JSON line per case.
 * One thread unless an argument says how many. */
#include "base/mem.h"
#include "base/parse.h"
#include "base/pool.h"
#include "circuit/qcnn.h"
#include "sim/sim.h"
#include "tests/t.h"

#include <math.h>
#include <time.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Twelve chains of 16 lanes; 0 without AVX-512. */
static double fma_once(void) {
#if defined __x86_64__
    if (!__builtin_cpu_supports("avx512f")) return 0;
    long n = 1000000;
    double t = now();
    __asm__ volatile("1:\n"
                     "vfmadd213ps %%zmm0, %%zmm0, %%zmm1\nvfmadd213ps %%zmm0, %%zmm0, %%zmm2\nvfmadd213ps %%zmm0, %%zmm0, %%zmm3\n"
                     "vfmadd213ps %%zmm0, %%zmm0, %%zmm4\nvfmadd213ps %%zmm0, %%zmm0, %%zmm5\nvfmadd213ps %%zmm0, %%zmm0, %%zmm6\n"
                     "vfmadd213ps %%zmm0, %%zmm0, %%zmm7\nvfmadd213ps %%zmm0, %%zmm0, %%zmm8\nvfmadd213ps %%zmm0, %%zmm0, %%zmm9\n"
                     "vfmadd213ps %%zmm0, %%zmm0, %%zmm10\nvfmadd213ps %%zmm0, %%zmm0, %%zmm11\nvfmadd213ps %%zmm0, %%zmm0, %%zmm12\n"
                     "dec %0\njnz 1b\nvzeroupper\n"
                     : "+r"(n)
                     :
                     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12");
    return 1000000.0 * 12 * 32 / (now() - t) * 1e-9;
#else
    return 0;
#endif
}

static double fma_gflops(void) {
    double best = 0;
    for (int r = 0; r < 20; r++) best = fmax(best, fma_once());
    return best;
}

static double copy_gbs(size_t bytes) {
    char *a = qr_xaligned(bytes), *b = qr_xaligned(bytes);
    double best = 1e9;
    for (int r = 0; r < 5; r++) {
        double t = now();
        memcpy(a, b, bytes);
        __asm__ volatile("" ::"r"(a) : "memory");
        t = now() - t;
        if (t < best) best = t;
    }
    free(a);
    free(b);
    return 2 * (double)bytes / best * 1e-9; /* read and written */
}

/* The tutorial's circuits: pure (down to one qubit, one read-out) or hybrid (one stage, a read-out on each qubit that is left). */
struct bench_case { unsigned n; enum qr_isa isa; enum qr_engine engine; bool hybrid; };

static void set_problem(const struct bench_case *k, struct qr_circuit **c, struct qr_observable *o, size_t *n_obs) {
    struct qr_err err;
    struct qr_qcnn_options qo = {k->n, k->hybrid, QR_QCNN_NOTEBOOK};
    uint64_t remaining;
    char text[16];
    bool ok = qr_qcnn_new(&qo, c, &remaining, &err) == QR_OK;
    for (unsigned q = 0; ok && q < k->n; q++) {
        if (!(remaining >> q & 1)) continue;
        snprintf(text, sizeof text, "Z%u", q);
        ok = qr_observable_parse(text, k->n, &o[(*n_obs)++], &err) == QR_OK;
    }
    if (ok) return;
    fprintf(stderr, "%s\n", err.msg);
    exit(1);
}

/* Seconds of one gradient a sample, and of one bind. */
static double one(const struct bench_case *k, struct qr_pool *pool, double *ret_bind, struct qr_sim_facts *ret_facts) {
    struct qr_err err;
    struct qr_circuit *c = NULL;
    struct qr_observable o[QR_MAX_QUBITS];
    struct qr_sim_plan *plan = NULL;
    struct qr_sim_workspace *ws = NULL;
    struct qr_sim_options so = {QR_SINGLE, k->isa, k->engine};
    size_t n_obs = 0, samples = k->n <= 11 ? 16 : 1, n = k->n;
    set_problem(k, &c, o, &n_obs);
    if (qr_sim_compile(c, o, n_obs, &so, &plan, &err) != QR_OK || qr_sim_workspace_new(plan, samples, &ws, &err) != QR_OK) {
        fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    double *theta = qr_xcalloc(c->n_params, sizeof(double)), *x = qr_xcalloc(samples * n, sizeof(double));
    double *z = qr_xcalloc(samples * n_obs, sizeof(double)), *d = qr_xcalloc(samples * n_obs, sizeof(double)), s[16];
    qr_fixed *g = qr_xcalloc(c->n_params, sizeof *g);
    for (unsigned i = 0; i < c->n_params; i++) theta[i] = 0.37 * i - (int)(0.37 * i / 2) * 2;
    for (size_t i = 0; i < samples; i++) {
        x[i * n + i % n] = 0.7;
        s[i] = 1;
    }
    for (size_t i = 0; i < samples * n_obs; i++) d[i] = 1;
    double start = now(), best = 1e9;
    int reps = 0;
    *ret_bind = 1e9;
    do {
        double t = now();
        qr_sim_bind(b, theta);
        double u = now();
        qr_sim_forward_for_gradient(b, ws, pool, x, n, samples, d, z);
        if (!qr_sim_backward(b, ws, pool, d, s, g)) exit(1);
        double e = now();
        if (e - u < best) best = e - u;
        if (u - t < *ret_bind) *ret_bind = u - t;
        reps++;
    } while (now() - start < 0.4 || reps < 3);
    *ret_facts = qr_sim_facts(plan);
    free(theta);
    free(x);
    free(z);
    free(d);
    free(g);
    qr_sim_workspace_free(ws);
    qr_sim_bound_free(b);
    qr_sim_plan_free(plan);
    for (size_t i = 0; i < n_obs; i++) qr_observable_fini(&o[i]);
    qr_circuit_free(c);
    return best / (double)samples;
}

/* The plan that is used beside the blocked one. */
static void compare(struct bench_case k, struct qr_pool *pool, double gflops, double gbs) {
    struct qr_sim_facts f, blocked;
    double bind, other_bind, seconds = one(&k, pool, &bind, &f);
    k.engine = QR_ENGINE_BLOCKED;
    double other = one(&k, pool, &other_bind, &blocked);
    printf("{\"bench\":\"sim_gradient\",\"qubits\":%u,\"circuit\":\"%s\",\"isa\":\"%s\",\"engine\":\"%s\",\"threads\":%u,"
           "\"us_per_sample\":%.3f,\"us_bind\":%.1f,\"us_blocked\":%.3f,\"blocked_over_this\":%.2f,\"gflops\":%.1f,"
           "\"fma_ceiling_gflops_per_core\":%.1f,\"copy_ceiling_gb_per_s\":%.1f}\n",
           k.n, k.hybrid ? "hybrid" : "pure", qr_isa_name(k.isa), f.engine, pool ? qr_pool_size(pool) : 1, seconds * 1e6, bind * 1e6,
           other * 1e6, other / seconds, f.flop_per_gradient / seconds * 1e-9, gflops, gbs);
    fflush(stdout);
}

int main(int argc, char **argv) {
    uint64_t threads = 1;
    if (argc > 1 && (!qr_parse_u64(argv[1], &threads) || threads < 1 || threads > 256)) return 2;
    struct qr_pool *pool = threads > 1 ? qr_pool_new((unsigned)threads) : NULL;
    double gflops = fma_gflops(), gbs = copy_gbs(64 << 20);
    static const unsigned sizes[] = {8, 12, 16, 20};
    for (int isa = QR_ISAS - 1; isa >= 0; isa--) {
        if (!qr_isa_available((enum qr_isa)isa)) continue;
        for (size_t i = 0; i < COUNT(sizes); i++)
            if (isa != QR_ISA_PORTABLE || sizes[i] <= 16)
                compare((struct bench_case){sizes[i], (enum qr_isa)isa, QR_ENGINE_AUTO, false}, pool, gflops, gbs);
        compare((struct bench_case){8, (enum qr_isa)isa, QR_ENGINE_AUTO, true}, pool, gflops, gbs);
    }
    qr_pool_free(pool);
    return 0;
}
