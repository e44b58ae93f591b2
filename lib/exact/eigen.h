/* exact/eigen.h — eigenvalues and eigenvectors of a small real symmetric matrix, by Jacobi
 * rotations in a fixed order. Only float64 +, -, *, / and sqrt are used, so every machine gives the
 * same bits. */
#ifndef QR_EXACT_EIGEN_H
#define QR_EXACT_EIGEN_H

#include <stddef.h>

/* Diagonalizes a symmetric matrix in place.
 *
 * Args:     n   dimension
 *           a   n x n, row-major; on return its diagonal holds the eigenvalues, unordered
 *           v   n x n, overwritten: column k is the eigenvector of a[k][k]. NULL: not computed;
 *               the eigenvalues have the same bits
 *           The squares of the numbers of a, and their sum, must neither overflow nor vanish.
 * Cost:     about ten sweeps of n^2 / 2 rotations of O(n) each
 * Threads:  any; pure function
 */
void qr_eigen(size_t n, double *a, double *v);

#endif
