/* model/natural/pseudo_inverse.h — y = A^+ y of a small symmetric matrix, from its eigenvalues
 * (exact/eigen.h): the same bits on every machine. */
#ifndef QR_MODEL_NATURAL_PSEUDO_INVERSE_H
#define QR_MODEL_NATURAL_PSEUDO_INVERSE_H

#include <stddef.h>

/* a: n x n, overwritten; scratch: n x n + n. Eigenvalues of at most cutoff times the largest
 * absolute one count as 0. */
void qr_pseudo_inverse_apply(size_t n, double *a, double cutoff, double *scratch, double *y);

#endif
