/* model/natural/pseudo_inverse.c — the pseudo-inverse of a symmetric matrix applied to a vector. */
#include "model/natural/pseudo_inverse.h"

#include <math.h>

#include "exact/eigen.h"

void qr_pseudo_inverse_apply(size_t n, double *a, double cutoff, double *scratch, double *y) {
    double *v = scratch, *in = scratch + n * n, most = 0;
    qr_eigen(n, a, v);
    for (size_t i = 0; i < n; i++) most = fabs(a[i * n + i]) > most ? fabs(a[i * n + i]) : most;
    for (size_t i = 0; i < n; i++) {
        double sum = 0, value = a[i * n + i];
        for (size_t k = 0; k < n; k++) sum += v[k * n + i] * y[k];
        in[i] = fabs(value) > cutoff * most ? sum / value : 0;
    }
    for (size_t k = 0; k < n; k++) {
        y[k] = 0;
        for (size_t i = 0; i < n; i++) y[k] += v[k * n + i] * in[i];
    }
}
