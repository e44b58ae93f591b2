/* tests/ref/noisy.h — a slow reference for circuits with noise and measurements: whole density
 * matrices in complex double, one for each value of the measured bits, and Kraus operators from
 * textbooks, for at most 6 qubits. Shares no formula with lib. */
#ifndef TESTS_REF_NOISY_H
#define TESTS_REF_NOISY_H

#include <complex.h>

#include "circuit/circuit.h"

enum { NOISY_MAX_QUBITS = 6 };

/* Kraus operators of a channel by its name and arguments: 2^n x 2^n each, 16 numbers apart; returns
 * their number. */
unsigned noisy_kraus(const struct qr_channel *c, const double *a, double complex *ret);
/* ret_rho: 4^n_qubits, row-major */
void noisy_density(const struct qr_circuit *c, const double *theta, const double *x,
                   double complex *ret_rho);
/* ret: the probability of each string of qubits and measured bits; 2^(n_qubits + n_bits) */
void noisy_bits(const struct qr_circuit *c, const double *theta, const double *x, double *ret);
/* The least probability, other than 0, of the outcomes up to any measurement or reset. */
double noisy_least_outcome(const struct qr_circuit *c, const double *theta, const double *x);
void noisy_expectation(const struct qr_circuit *c, const double *theta, const double *x,
                       const struct qr_observable *obs, size_t n_obs, double *ret_z);
/* A random circuit of ref_random_circuit with n_channels channels of all kinds in between, some
 * with trainable strengths. */
struct qr_circuit *noisy_random_circuit(uint64_t seed, unsigned n_qubits, unsigned n_gates,
                                        unsigned n_channels);
/* A copy with measurements into n_bits bits in between, some with errors, after which gates and
 * channels depend on bits. once: each bit is set once. any_channel: also channels that have no
 * exact equivalent. */
struct qr_circuit *noisy_with_measurements(uint64_t seed, const struct qr_circuit *from,
                                           unsigned n_bits, bool once, bool any_channel);
/* Parameters for which all strengths are valid. */
void noisy_random_parameters(uint64_t seed, const struct qr_circuit *c, double *ret);

#endif
