/* tests/ref/dense.h — a slow reference: whole matrices in complex double with libm, for at most
 * 8 qubits.
 *
 * Shares no formula with lib: gate matrices are built from the definitions (e^{i pi g t}[(I+P)/2 +
 * e^{i pi t}(I-P)/2]), and the gradient replaces one gate at a time by its derivative and runs the
 * whole circuit again (product rule; no adjoint). Conventions as circuit/circuit.h: qubit 0 is the
 * most significant bit.
 */
#ifndef TESTS_REF_DENSE_H
#define TESTS_REF_DENSE_H

#include <complex.h>

#include "circuit/circuit.h"

enum { REF_MAX_QUBITS = 8 };

/* The gate's matrix on its targets (row-major, 4 or 16 entries) and with respect to argument k when
 * ret_da[k] is not NULL. */
void ref_gate_matrix(const struct qr_gate *g, const double a[2], double complex *ret_u,
                     double complex *ret_da[2]);
/* The whole 2^n x 2^n matrix with controls, row-major. */
void ref_gate_full(const struct qr_gate *g, unsigned n_qubits, const double a[2],
                   double complex *ret);
/* The final state from |0...0>: 2^n amplitudes. theta and x may be NULL if the circuit does not use
 * them. */
void ref_state(const struct qr_circuit *c, const double *theta, const double *x,
               double complex *ret);
/* ret_z[n_obs] */
void ref_expectation(const struct qr_circuit *c, const double *theta, const double *x,
                     const struct qr_observable *obs, size_t n_obs, double *ret_z);
/* ret[n_obs * n_params], observables outermost */
void ref_gradient(const struct qr_circuit *c, const double *theta, const double *x,
                  const struct qr_observable *obs, size_t n_obs, double *ret);
/* The same by the sample's data: ret[n_obs * n_columns]. */
void ref_input_gradient(const struct qr_circuit *c, const double *theta, const double *x,
                        const struct qr_observable *obs, size_t n_obs, double *ret);

/* A circuit of n_gates gates of all kinds that fit, with controls on 0 and 1, global shifts,
 * constants, parameters (shared, scaled) and data columns (one per qubit; scaled). A pure function
 * of its arguments. */
struct qr_circuit *ref_random_circuit(uint64_t seed, unsigned n_qubits, unsigned n_gates);
/* One to three terms of random Paulis. */
struct qr_observable ref_random_observable(uint64_t seed, unsigned n_qubits);
/* At most `terms` terms that flip the same qubits: one run of the statevector engine, or more. */
struct qr_observable ref_alike_observable(uint64_t seed, unsigned n, unsigned terms);
/* n numbers in [low, high). */
void ref_random_numbers(uint64_t seed, size_t n, double low, double high, double *ret);

#endif
