/* exact/eigen.h — eigenvalues and eigenvectors of a small real symmetric matrix, by Jacobi's
 * rotations in one order: float64, +, -, *, / and sqrt, so the same bits everywhere.
 *
 * Cost      some ten sweeps of n^2 / 2 rotations of O(n) each.
 */
#ifndef QR_EXACT_EIGEN_H
#define QR_EXACT_EIGEN_H

#include <stddef.h>

/* a, n x n, becomes diagonal, with its eigenvalues in no order; the columns of v, n x n, their
 * vectors (NULL: they are not wanted; the values have the same bits). Squares of a's numbers and
 * their sum must neither overflow nor vanish. */
void qr_eigen(size_t n, double *a, double *v);

#endif
