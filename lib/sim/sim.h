/* sim/sim.h — compiled circuits: expectation values and exact gradients of micro-batches.
 *
 * Use       qr_sim_compile once per circuit; qr_sim_bound_new and qr_sim_bind once per theta;
 *           qr_sim_workspace_new once per thread; then qr_sim_forward[_for_gradient] and
 *           qr_sim_backward for each micro-batch.
 * Result    read-outs z[sample][r] = <O_r>, then sum_s scale[s] * d(sum_r direction[s][r]
 *           z[s][r])/d(theta) for all parameters in one backward sweep and, if requested, each
 *           sample's derivatives by its inputs.
 * Method    Gates are fused on two qubits at a time. The backward sweep carries two vectors and
 *           takes, per fused gate, the cross matrix K = M - M^dagger, M = Tr_rest |phi><lambda|;
 *           small dense float64 algebra turns K into the derivative of every gate in it.
 *           sim/planner.md has the details.
 * Numbers   follow the arithmetic contract (exact/contract.md). Results are a pure function of
 *           (plan, theta, samples), independent of threads, kernel table and traversal. Amplitudes
 *           are float32 pairs, rounded once per fused gate (sums inside one are float64), or
 *           float64 with QR_DOUBLE.
 * Cost      about three simulations per gradient, for any number of parameters.
 * Memory    qr_sim_bytes_per_thread per workspace, qr_sim_bound_bytes for the numbers of a step.
 * Threads   A plan is const after compile. A bound belongs to one thread while it is filled and may
 *           then be read by any. A workspace belongs to one thread
 *           (qr_sim_micro_batches_in_parallel: one micro-batch per thread). The pool works inside
 *           one large state and on rows of trajectories: with all its threads or, called from a
 *           task of the same pool, with those that are idle.
 */
#ifndef QR_SIM_SIM_H
#define QR_SIM_SIM_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/pool.h"
#include "circuit/circuit.h"
#include "exact/integer.h"
#include "sim/kernels/isa.h" /* precisions and kernel tables */
#include "sim/sim_options.h"
#include "sim/report/report.h" /* plans as text and numbers */

struct qr_sim_plan;      /* the compiled circuit; immutable */
struct qr_sim_bound;     /* a plan with numbers for one theta */
struct qr_sim_workspace; /* one thread's state vectors */

/* Compiles a circuit, in time linear in its gates.
 *
 * Args:     circuit, observables  copied
 *           ret                   freed with qr_sim_plan_free
 * Errors:   INVALID_ARGUMENT (isa not supported, number of qubits out of range);
 *           RESOURCE_EXHAUSTED (more gates than the memory limit allows, checked before
 *           planning; one workspace exceeds the limit, the message has qubits, bytes needed and
 *           bytes available, without overflow for 64 qubits; or no engine supports the circuit, the
 *           message has each engine's reason: more than 64 qubits are too many for a state vector)
 */
QR_MUST_CHECK enum qr_code qr_sim_compile(const struct qr_circuit *circuit,
                                          const struct qr_observable *observables,
                                          size_t n_observables, const struct qr_sim_options *opt,
                                          struct qr_sim_plan **ret, struct qr_err *err);
void qr_sim_plan_free(struct qr_sim_plan *plan);

enum qr_engine qr_sim_engine_of(const struct qr_sim_plan *plan); /* never AUTO */
const char *qr_sim_engine_name(const struct qr_sim_plan *plan);  /* "cones"; static */
/* Recommended samples per micro-batch: 16 where samples fill the lanes; an eighth of the batch, but
 * 32 to 256, for cones with data; else 1. */
size_t qr_sim_micro_batch_size(const struct qr_sim_plan *plan, size_t batch_size);
/* True if each thread should run its own micro-batches, because a workspace is small (lanes are
 * samples, a state of one tile, cones, or a streaming plan of less than 24 qubits). Else pass the
 * pool to one micro-batch. */
bool qr_sim_micro_batches_in_parallel(const struct qr_sim_plan *plan);
/* True if threads that are idle can help with a micro-batch: rows of trajectories, or parts of a
 * large state. */
bool qr_sim_threads_share(const struct qr_sim_plan *plan);
/* Bytes of a workspace for micro-batches of up to max_samples, and of the numbers of a step:
 * exactly what is allocated. */
size_t qr_sim_bytes_per_thread(const struct qr_sim_plan *plan, size_t max_samples);
size_t qr_sim_bound_bytes(const struct qr_sim_plan *plan);
/* Figures of the report (see report/report.h) for full lanes and a direction that is known before
 * the head. Costs about one bind. */
struct qr_sim_facts {
    size_t n_gates, n_fused, n_passes;
    double flop_per_gradient;
    const char *engine;
};
struct qr_sim_facts qr_sim_facts(const struct qr_sim_plan *plan);

/* Numbers of the plan for one theta; set them with qr_sim_bind before use. */
struct qr_sim_bound *qr_sim_bound_new(const struct qr_sim_plan *plan);
void qr_sim_bound_free(struct qr_sim_bound *b);
/* Binds to theta[n_params] (natural order), once per state. pool may be NULL. Does not allocate. */
void qr_sim_bind(struct qr_sim_bound *b, const double *theta, struct qr_pool *pool);

/* Allocates a workspace for micro-batches of up to max_samples.
 *
 * Errors:   RESOURCE_EXHAUSTED
 */
QR_MUST_CHECK enum qr_code qr_sim_workspace_new(const struct qr_sim_plan *plan, size_t max_samples,
                                                struct qr_sim_workspace **ret, struct qr_err *err);
void qr_sim_workspace_free(struct qr_sim_workspace *ws);

/* Sets the random numbers of the next forward sweep and its backward sweep; without trajectories
 * they are not used. At first the key is 0. */
void qr_sim_set_draw(struct qr_sim_workspace *ws, const struct qr_sim_draw *draw);

/* Computes the read-outs of a micro-batch. Keeps the final states for qr_sim_backward if they fit
 * (lanes are samples); else qr_sim_backward recomputes them. Does not allocate.
 *
 * Args:     pool       NULL, or a pool; may be called from one of its tasks
 *           x          x[s * x_stride + column]
 *           n_samples  at most max_samples
 *           ret_z      ret_z[s * n_readouts + r]; may be NaN for a sum out of range
 */
void qr_sim_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                    const double *x, size_t x_stride, size_t n_samples, double *ret_z);

/* As qr_sim_forward, when qr_sim_backward will follow. A streaming plan with a known direction runs
 * both sweeps at once; the other engines do as qr_sim_forward.
 *
 * Args:     direction  n_readouts numbers, equal for all samples, if they are known before the
 *                      forward sweep (affine head); qr_sim_backward must then get the same numbers
 *                      for every sample. NULL: not known yet
 */
void qr_sim_forward_for_gradient(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                 struct qr_pool *pool, const double *x, size_t x_stride,
                                 size_t n_samples, const double *direction, double *ret_z);

/* Computes derivatives, after qr_sim_forward on the same workspace and samples.
 *
 * Args:     direction  direction[s * n_readouts + r]
 *           scale      scale[s]
 *           ret_grad   added to: integers of sum_s scale[s] * d(sum_r direction[s][r] z[s][r]) /
 *                      d theta_k for k < n_params, each rounded once per micro-batch
 *           ret_dx     ret_dx[s * n_columns + c] = scale[s] * d(sum_r direction[s][r] z[s][r]) /
 *                      d x_c in float64, 0 for inputs that were not requested; ignored if none was
 * Returns:  false when a number is not finite or >= 2^40; ret_grad is then unchanged and ret_dx
 *           undefined
 */
QR_MUST_CHECK bool qr_sim_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                   struct qr_pool *pool, const double *direction,
                                   const double *scale, qr_fixed *ret_grad, double *ret_dx);

/* Draws bit strings, for a plan with shots: in the order of trajectories, all of the first sample
 * before those of the next.
 *
 * Args:     x, x_stride, n_samples  as in qr_sim_forward
 *           ret       n_samples * shots strings: bit n_qubits - 1 - q is that of qubit q
 *           ret_bits  as many sets of the circuit's measured bits, at most 64: bit 0 is the most
 *                     significant of n_bits; NULL: not wanted
 * Returns:  false: a number is not finite
 */
QR_MUST_CHECK bool qr_sim_sample(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                 struct qr_pool *pool, const double *x, size_t x_stride,
                                 size_t n_samples, uint64_t *ret, uint64_t *ret_bits);

/* Computes the final states of a micro-batch, for a plan with QR_ENGINE_STATEVECTOR.
 *
 * Args:     x, x_stride, n_samples  as in qr_sim_forward
 *           ret                     ret[s][index][2]: real and imaginary part of each of 2^n_qubits
 *                                   amplitudes; qubit 0 is the most significant bit of the index
 */
void qr_sim_states(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                   const double *x, size_t x_stride, size_t n_samples, double *ret);

#endif
