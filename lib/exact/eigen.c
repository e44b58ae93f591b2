/* exact/eigen.c — cyclic Jacobi rotations in a fixed order. Start reading at qr_eigen(). */
#include "exact/eigen.h"

#include <math.h>
#include <string.h>

enum { SWEEPS = 60 }; /* Upper bound; about ten sweeps suffice. */

/* Zeroes a_pq by one rotation (Golub and Van Loan, Matrix Computations, 8.5). */
static void eigen_rotate(size_t n, double *a, double *v, size_t p, size_t q) {
    double of = a[p * n + q];
    double theta = (a[q * n + q] - a[p * n + p]) / (2.0 * of);
    double t = (theta >= 0 ? 1.0 : -1.0) / (fabs(theta) + sqrt(theta * theta + 1.0));
    double c = 1.0 / sqrt(t * t + 1.0), s = t * c;
    for (size_t k = 0; k < n; k++) {
        double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (size_t k = 0; k < n; k++) {
        double x = a[p * n + k], y = a[q * n + k];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
    }
    a[p * n + q] = a[q * n + p] = 0;
    for (size_t k = 0; v && k < n; k++) {
        double x = v[k * n + p], y = v[k * n + q];
        v[k * n + p] = c * x - s * y;
        v[k * n + q] = s * x + c * y;
    }
}

void qr_eigen(size_t n, double *a, double *v) {
    if (v) memset(v, 0, n * n * sizeof *v);
    for (size_t i = 0; v && i < n; i++) v[i * n + i] = 1.0;
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        double off = 0, on = 0;
        for (size_t p = 0; p < n; p++)
            for (size_t q = 0; q < n; q++) *(p == q ? &on : &off) += a[p * n + q] * a[p * n + q];
        if (off <= 0x1p-120 * on) return;
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                if (a[p * n + q] != 0) eigen_rotate(n, a, v, p, q);
    }
}
