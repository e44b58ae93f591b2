/* Eigenvalues and eigenvectors of symmetric matrices. */
#include "exact/eigen.h"

#include <math.h>
#include <string.h>

#include "exact/random.h"
#include "tests/t.h"

enum { MOST = 24 };

/* A V = V D and V^T V = 1; without vectors the values have the same bits. */
static void check_matrix(size_t n, const double *of) {
    double a[MOST * MOST], alone[MOST * MOST], v[MOST * MOST];
    memcpy(a, of, n * n * sizeof *a);
    memcpy(alone, of, n * n * sizeof *a);
    qr_eigen(n, a, v);
    qr_eigen(n, alone, NULL);
    CHECK(memcmp(a, alone, n * n * sizeof *a) == 0, "n = %zu: bits differ without vectors", n);
    double worst = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            double turned = 0, product = 0;
            for (size_t m = 0; m < n; m++) turned += of[i * n + m] * v[m * n + k];
            for (size_t m = 0; m < n; m++) product += v[m * n + i] * v[m * n + k];
            worst = t_worst(worst, fabs(turned - v[i * n + k] * a[k * n + k]));
            worst = t_worst(worst, fabs(product - (i == k)));
        }
    CHECK(worst < 1e-13 * (double)n, "n = %zu: off by %g", n, worst);
}

static void test_random(void) {
    for (size_t n = 1; n <= MOST; n++) {
        double a[MOST * MOST];
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k <= i; k++)
                a[i * n + k] = a[k * n + i] =
                    2 * qr_random_uniform(n, QR_RANDOM_DATA, (uint32_t)i, k) - 1;
        check_matrix(n, a);
    }
}

/* Known eigenvalues: of an off-diagonal matrix, of one with a double eigenvalue, of zeros. */
static void test_known(void) {
    double x[4] = {0, 1, 1, 0}, twice[9] = {2, 1, 1, 1, 2, 1, 1, 1, 2}, none[4] = {0}, v[4];
    qr_eigen(2, x, NULL);
    CHECK(fabs(fmin(x[0], x[3]) + 1) < 1e-15 && fabs(fmax(x[0], x[3]) - 1) < 1e-15, "%.17g %.17g",
          x[0], x[3]);
    qr_eigen(3, twice, NULL);
    double most = fmax(fmax(twice[0], twice[4]), twice[8]);
    CHECK(fabs(most - 4) < 1e-14, "%.17g", most);
    CHECK(fabs(twice[0] + twice[4] + twice[8] - 6) < 1e-14);
    qr_eigen(2, none, v);
    CHECK(none[0] == 0 && none[3] == 0 && v[0] == 1 && v[1] == 0 && v[2] == 0 && v[3] == 1);
}

int main(void) {
    test_random();
    test_known();
    return t_end();
}
