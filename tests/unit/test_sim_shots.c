/* Bit strings drawn from states: their frequencies against the diagonal of full density matrices,
 * with and without noise and read-out errors; strings together with measured bits; read-outs as
 * means over shots; the same strings alone, with other samples, and in both precisions. */
#include "base/mem.h"
#include "sim/sim.h"
#include "tests/ref/dense.h"
#include "tests/ref/noisy.h"
#include "tests/t.h"

#include <math.h>

enum { SHOTS = 20000, MOST = 64 };

struct sampled {
    struct qr_circuit *c;
    double theta[MOST], x[3 * NOISY_MAX_QUBITS];
};

static struct sampled sampled_new(uint64_t seed, bool noisy) {
    unsigned n = 1 + seed % 4;
    struct sampled p = {.c = noisy ? noisy_random_circuit(seed, n, 8 + seed % 7, 4)
                                   : ref_random_circuit(seed, n, 8 + seed % 7)};
    CHECK(p.c->n_params <= MOST);
    noisy_random_parameters(seed + 1, p.c, p.theta);
    ref_random_numbers(seed + 2, 3 * n, -1, 1, p.x);
    if (seed % 3 == 0) {
        p.c->readout_errors = qr_xcalloc(n, sizeof *p.c->readout_errors);
        for (unsigned q = 0; q < n; q++)
            p.c->readout_errors[q][0] = 0.1 + 0.05 * q, p.c->readout_errors[q][1] = 0.2 / (q + 1);
    }
    return p;
}

/* Samples first .. first + n - 1 of p, whose draws depend only on their data. */
static void strings_of(const struct sampled *p, struct qr_sim_options opt, size_t first, size_t n,
                       uint64_t *ret, uint64_t *ret_bits) {
    static const uint32_t numbers[] = {7, 5, 9};
    struct qr_sim_plan *plan;
    struct qr_sim_workspace *ws;
    struct qr_err err;
    CHECK(qr_sim_compile(p->c, NULL, 0, &opt, &plan, &err) == QR_OK, "%s", err.msg);
    CHECK(qr_sim_workspace_new(plan, 3, &ws, &err) == QR_OK, "%s", err.msg);
    struct qr_sim_bound *b = qr_sim_bound_new(plan);
    qr_sim_bind(b, p->theta, NULL);
    qr_sim_set_draw(ws, &(struct qr_sim_draw){.key = 12345, .sample = numbers + first});
    CHECK(qr_sim_sample(b, ws, NULL, p->x + first * p->c->n_columns, p->c->n_columns, n, ret,
                        ret_bits));
    qr_sim_bound_free(b);
    qr_sim_workspace_free(ws);
    qr_sim_plan_free(plan);
}

static void expected_of(const struct sampled *p, size_t sample, double *ret) {
    static double complex rho[1 << 2 * NOISY_MAX_QUBITS];
    unsigned n = p->c->n_qubits, dim = 1u << n;
    noisy_density(p->c, p->theta, p->x + sample * p->c->n_columns, rho);
    for (unsigned i = 0; i < dim; i++) ret[i] = creal(rho[i * dim + i]);
    for (unsigned q = 0; q < n && p->c->readout_errors; q++)
        for (unsigned i = 0; i < dim; i++) {
            unsigned bit = 1u << (n - 1 - q);
            if (i & bit) continue;
            double zero = ret[i], one = ret[i | bit];
            const double *e = p->c->readout_errors[q];
            ret[i] = zero * (1 - e[0]) + one * e[1];
            ret[i | bit] = zero * e[0] + one * (1 - e[1]);
        }
}

/* Chi-square, with the strings of less than five expected counts merged; its cube root is nearly
 * normal (Wilson and Hilferty). 5.5 standard deviations: once in 10^7. */
static double chi_square(const uint64_t *strings, const double *expected, unsigned dim) {
    unsigned counts[1 << NOISY_MAX_QUBITS] = {0};
    double sum = 0, rare = 0, rare_count = 0;
    int freedom = -1;
    for (size_t i = 0; i < SHOTS; i++) counts[strings[i]]++;
    for (unsigned i = 0; i < dim; i++) {
        double e = expected[i] * SHOTS;
        if (e < 5) {
            rare += e;
            rare_count += counts[i];
            continue;
        }
        sum += (counts[i] - e) * (counts[i] - e) / e;
        freedom++;
    }
    if (rare >= 5) {
        sum += (rare_count - rare) * (rare_count - rare) / rare;
        freedom++;
    } else {
        CHECK(rare_count <= rare + 40, "%g rare strings, expected %g", rare_count, rare);
    }
    if (freedom < 1) return 0;
    return (cbrt(sum / freedom) - (1 - 2.0 / (9 * freedom))) / sqrt(2.0 / (9 * freedom));
}

static void test_frequencies(bool noisy) {
    static uint64_t all[3 * SHOTS], one[SHOTS], wide[3 * SHOTS];
    double worst = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct sampled p = sampled_new(seed, noisy);
        struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                     .isa = qr_isa_best(),
                                     .n_trajectories = noisy ? SHOTS / 2 : 0,
                                     .shots = SHOTS};
        strings_of(&p, opt, 0, 3, all, NULL);
        for (size_t s = 0; s < 3; s++) {
            double expected[1 << NOISY_MAX_QUBITS];
            expected_of(&p, s, expected);
            double z = chi_square(all + s * SHOTS, expected, 1u << p.c->n_qubits);
            if (z > worst) worst = z;
            CHECK(z < 5.5, "seed %d, sample %zu: %.1f standard deviations", (int)seed, s, z);
        }
        strings_of(&p, opt, 1, 1, one, NULL);
        CHECK(memcmp(one, all + SHOTS, sizeof one) == 0, "seed %d", (int)seed);
        opt.isa = QR_ISA_PORTABLE;
        strings_of(&p, opt, 0, 3, wide, NULL);
        CHECK(memcmp(wide, all, sizeof all) == 0, "seed %d: other strings", (int)seed);
        qr_circuit_free(p.c);
    }
    printf("chi-square%s: at most %.1f standard deviations\n", noisy ? " with noise" : "", worst);
}

/* Strings together with measured bits: with qubits in place of bits where that costs less, and by
 * trajectories. */
static void test_measured_bits(void) {
    static uint64_t strings[3 * SHOTS], bits[3 * SHOTS];
    double worst = 0;
    unsigned n_deferred = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        unsigned n = 1 + seed % 3;
        struct qr_circuit *plain = seed % 2 ? ref_random_circuit(seed, n, 8 + seed % 7)
                                            : noisy_random_circuit(seed, n, 8 + seed % 7, 3);
        struct sampled p = {.c = noisy_with_measurements(seed, plain, 3, false, true)};
        for (size_t i = 0; i < p.c->n_channels && seed % 2; i++) /* without noise: no errors */
            for (unsigned k = 0; k < 2; k++) p.c->channels[i].args[k].scale = 0;
        noisy_random_parameters(seed + 1, p.c, p.theta);
        ref_random_numbers(seed + 2, 3 * n, -1, 1, p.x);
        for (int trajectories = 0; trajectories < 2; trajectories++) {
            struct qr_sim_options opt = {.precision = QR_DOUBLE,
                                         .isa = qr_isa_best(),
                                         .method =
                                             trajectories ? QR_METHOD_TRAJECTORIES : QR_METHOD_AUTO,
                                         .shots = SHOTS};
            strings_of(&p, opt, 0, 3, strings, bits);
            for (size_t s = 0; s < 3; s++) {
                double expected[1 << NOISY_MAX_QUBITS];
                noisy_bits(p.c, p.theta, p.x + s * p.c->n_columns, expected);
                for (size_t i = s * SHOTS; i < (s + 1) * SHOTS; i++)
                    strings[i] = strings[i] << p.c->n_bits | bits[i];
                double z = chi_square(strings + s * SHOTS, expected, 1u << (n + p.c->n_bits));
                if (z > worst) worst = z;
                CHECK(z < 5.5, "seed %d, %s, sample %zu: %.1f standard deviations", (int)seed,
                      trajectories ? "trajectories" : "auto", s, z);
            }
        }
        n_deferred += p.c->n_bits > 0 && !qr_circuit_is_noisy(plain);
        qr_circuit_free(plain);
        qr_circuit_free(p.c);
    }
    CHECK(n_deferred > 5, "%u", n_deferred);
    printf("measured bits: at most %.1f standard deviations\n", worst);
}

/* Means over shots against exact read-outs: each string gives -1 or 1 for a term, so the standard
 * error of a read-out is at most the sum of |coefficients| / sqrt(shots). Six of these. */
static void test_means(void) {
    static const char *const texts[] = {"Z0", "0.5*X0 Y1 - Z1 + 0.25", "X0 + Y1 + Z0 Z1"};
    static const double sums[] = {1, 1.5, 3};
    for (uint64_t seed = 1; seed <= 24; seed++) {
        bool noisy = seed % 2;
        struct sampled p = sampled_new(4 * seed + 1, noisy); /* two qubits */
        struct qr_observable obs[3];
        struct qr_sim_options opt = {.precision = QR_DOUBLE, .isa = qr_isa_best()};
        double z[2][9];
        struct qr_err err;
        for (size_t r = 0; r < 3; r++)
            CHECK(qr_observable_parse(texts[r], p.c->n_qubits, &obs[r], &err) == QR_OK, "%s",
                  err.msg);
        for (int shots = 0; shots < 2; shots++) {
            struct qr_sim_plan *plan;
            struct qr_sim_workspace *ws;
            opt.shots = shots ? SHOTS : 0;
            opt.n_trajectories = SHOTS;
            opt.method = shots ? QR_METHOD_AUTO : QR_METHOD_EXACT;
            CHECK(qr_sim_compile(p.c, obs, 3, &opt, &plan, &err) == QR_OK, "%s", err.msg);
            CHECK(qr_sim_workspace_new(plan, 3, &ws, &err) == QR_OK, "%s", err.msg);
            struct qr_sim_bound *b = qr_sim_bound_new(plan);
            qr_sim_bind(b, p.theta, NULL);
            qr_sim_set_draw(ws, &(struct qr_sim_draw){.key = seed});
            qr_sim_forward(b, ws, NULL, p.x, p.c->n_columns, 3, z[shots]);
            qr_sim_bound_free(b);
            qr_sim_workspace_free(ws);
            qr_sim_plan_free(plan);
        }
        for (size_t i = 0; i < 9; i++)
            CHECK(fabs(z[1][i] - z[0][i]) < 6 * sums[i % 3] / sqrt(SHOTS) && z[1][i] != z[0][i],
                  "seed %d %s: %g, exactly %g", (int)seed, texts[i % 3], z[1][i], z[0][i]);
        for (size_t r = 0; r < 3; r++) qr_observable_fini(&obs[r]);
        qr_circuit_free(p.c);
    }
}

int main(void) {
    test_frequencies(false);
    test_frequencies(true);
    test_measured_bits();
    test_means();
    return t_end();
}
