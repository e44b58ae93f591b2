/* Kernels of dense layers: the table of every ISA against plain sums, bit for bit, at sizes with
 * every remainder. */
#include "base/mem.h"
#include "model/kernels/dense_kernel.h"
#include "tests/isa.h"
#include "tests/t.h"

#include <math.h>
#include <string.h>

static uint64_t state = 12345;
static uint64_t random_bits(void) {
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 11;
}
static double random_uniform(void) { return (double)random_bits() * 0x1p-52 - 1; }
/* A number of any magnitude below 2^40, sometimes a zero of either sign. */
static double random_wide(void) {
    double x = ldexp(random_uniform(), (int)(random_bits() % 140) - 100);
    return random_bits() % 16 == 0 ? copysign(0, x) : x;
}

enum { MOST_K = 131, MOST_J = 70, MOST_I = 9, GAP = 3 };
static const size_t terms[] = {0, 1, 2, 7, 63, 64, 65, MOST_K};
static const size_t columns[] = {1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 64, MOST_J};

static void check_matmul(const struct qr_dense_kernels *k, const char *name, size_t n_i, size_t n_k,
                         size_t n_j, bool transposed) {
    static double a[MOST_I * MOST_K], b[MOST_K * (MOST_J + GAP)], c[MOST_I * (MOST_J + GAP)];
    size_t row = n_j + GAP;
    struct qr_matrix at = {a, transposed ? 1 : n_k, transposed ? n_i : 1};
    for (size_t i = 0; i < n_i * n_k; i++) a[i] = random_wide();
    for (size_t i = 0; i < n_k * row; i++) b[i] = random_wide();
    for (size_t i = 0; i < n_i * row; i++) c[i] = 5;
    k->matmul(c, row, at, b, row, n_i, n_k, n_j);
    size_t bad = 0;
    for (size_t i = 0; i < n_i; i++)
        for (size_t j = 0; j < row; j++) {
            double sum = 0;
            for (size_t t = 0; t < n_k; t++) sum += a[i * at.row + t * at.column] * b[t * row + j];
            if (j >= n_j) sum = 5; /* The columns beside the result are not written. */
            bad += memcmp(&sum, &c[i * row + j], sizeof sum) != 0;
        }
    CHECK(bad == 0, "%s: %zu x %zu x %zu%s: %zu wrong numbers", name, n_i, n_k, n_j,
          transposed ? ", transposed" : "", bad);
}

static void check_sums(const struct qr_dense_kernels *k, const char *name, size_t n) {
    static const double edges[] = {0.0,
                                   -0.0,
                                   0x1p-64,
                                   -0x1p-64,
                                   0x1p-65,
                                   -0x1p-65,
                                   0x1.8p-64,
                                   -0x1.8p-64,
                                   0x1p-1000,
                                   0x1p-36,
                                   -0x1p-36,
                                   -0x1p-1074,
                                   0x1.fffffffp39,
                                   -0x1.8p39,
                                   0x1p-1,
                                   -0x1p-1,
                                   0x1.8p0,
                                   -0x1.8p0,
                                   0x1.fffffffffffffp-2};
    static const double n_terms[] = {1, 7, 32, 33, 0x1p40};
    enum { MOST = 200 };
    static qr_fixed acc[MOST], want[MOST];
    static double x[MOST], mean[MOST];
    for (size_t i = 0; i < n; i++) {
        x[i] = random_bits() % 3 ? random_wide() : edges[random_bits() % COUNT(edges)];
        /* Lower words that carry, upper words of all lengths. */
        uint64_t low = random_bits() % 4 ? random_bits() << 11 : UINT64_MAX - random_bits() % 2;
        int64_t high = (int64_t)(random_bits() << 11) >>
                       (n % 2 ? 44 + random_bits() % 20 : random_bits() % 64);
        acc[i] = (qr_fixed)((unsigned __int128)(uint64_t)high << 64 | low);
        qr_fixed term;
        CHECK(qr_fixed_from_double(x[i], &term));
        want[i] = (qr_fixed)((unsigned __int128)acc[i] + (unsigned __int128)term);
    }
    size_t bad;
    for (size_t t = 0; t < COUNT(n_terms); t++) {
        k->means(mean, acc, n, n_terms[t]);
        for (size_t i = bad = 0; i < n; i++) {
            double one = qr_fixed_to_double(acc[i]) / n_terms[t];
            bad += memcmp(&one, &mean[i], sizeof one) != 0;
        }
        CHECK(bad == 0, "%s: means of %zu: %zu wrong numbers by %g", name, n, bad, n_terms[t]);
    }
    acc[n] = 5;
    k->add_doubles(acc, x, n);
    for (size_t i = bad = 0; i < n; i++) bad += acc[i] != want[i];
    CHECK(bad == 0 && acc[n] == 5, "%s: sums of %zu: %zu wrong numbers", name, n, bad);
    k->set_doubles(acc, x, n);
    for (size_t i = bad = 0; i < n; i++) {
        CHECK(qr_fixed_from_double(x[i], &want[i]));
        bad += acc[i] != want[i];
    }
    CHECK(bad == 0 && acc[n] == 5, "%s: %zu numbers set: %zu wrong", name, n, bad);
}

int main(void) {
    for (int isa = 0; isa < QR_ISAS; isa++) {
        const char *name = qr_isa_name((enum qr_isa)isa);
        if (!qr_isa_available((enum qr_isa)isa)) {
            if (of_this_architecture(isa)) SKIP("%s: not on this machine", name);
            continue;
        }
        const struct qr_dense_kernels *k = qr_dense_kernels_of((enum qr_isa)isa);
        for (size_t t = 0; t < COUNT(terms); t++)
            for (size_t j = 0; j < COUNT(columns); j++)
                for (size_t i = 1; i <= MOST_I; i += i < 5 ? 1 : 4)
                    for (int transposed = 0; transposed < 2; transposed++)
                        check_matmul(k, name, i, terms[t], columns[j], transposed);
        for (size_t n = 0; n < 150; n++) check_sums(k, name, n);
    }
    return t_end();
}
