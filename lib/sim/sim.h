/* sim/sim.h — compiled circuits: expectation values and exact gradients of micro-batches.
 *
 * What      For a micro-batch: read-outs z[sample][r] = <O_r>, and then sum_s scale[s] *
 *           d(sum_r direction[s][r] z[s][r])/d(theta) for all parameters in one backward sweep;
 *           where they are wanted, each sample's derivatives by its inputs too.
 * Method    Gates are fused, two qubits at a time; the backward pass carries two vectors and takes
 *           per fused gate the cross matrix K = M - M^dagger, M = Tr_rest |phi><lambda|, from which
 *           small dense float64 algebra gives the derivative of every gate in it. sim/planner.md
 *           has the details.
 * Numbers   The arithmetic contract (exact/contract.md). Results are a pure function of
 *           (plan, theta, samples): not of threads, kernel table or traversal. Amplitudes are
 *           float32 pairs, rounded once per fused gate (sums inside one are float64), or
 *           float64 with QR_DOUBLE.
 * Cost      about three simulations per gradient, however many parameters.
 * Memory    qr_sim_bytes_per_thread for each thread's workspace, qr_sim_bound_bytes for a
 *           step's numbers.
 * Threads   a plan is const after compile; a bound belongs to one owner while it is filled and is
 *           then read by any; a workspace belongs to one thread (qr_sim_micro_batches_in_parallel:
 *           one micro-batch per thread). The pool works inside one state where that is large: with
 *           all its threads, or, called from a task of the same pool, with those that have nothing
 *           else to do.
 */
#ifndef QR_SIM_SIM_H
#define QR_SIM_SIM_H

#include <stdbool.h>

#include "base/bytes.h"
#include "base/pool.h"
#include "circuit/circuit.h"
#include "exact/integer.h"
#include "sim/kernels/isa.h"   /* precisions and kernel tables */
#include "sim/report/report.h" /* a plan in words and figures */

/* Which engine simulates: the best by counted work, or this one whatever it costs. The statevector
 * one is for any circuit of up to 62 qubits; sim/planner.md says which circuits the others know. */
enum qr_engine { QR_ENGINE_AUTO, QR_ENGINE_CONES, QR_ENGINE_STREAMING, QR_ENGINE_STATEVECTOR };

struct qr_sim_options {
    enum qr_precision precision;
    enum qr_isa isa;
    enum qr_engine engine;
    /* n_columns of the circuit, 0 or 1: derivatives by this input are wanted. NULL: by none. Read
     * while compiling. */
    const uint8_t *wanted;
};

struct qr_sim_plan;      /* the compiled circuit; immutable */
struct qr_sim_bound;     /* a plan with numbers for one theta */
struct qr_sim_workspace; /* one thread's state vectors */

/* Compiles, in time that grows with the gates' number. circuit and observables are copied.
 * RESOURCE_EXHAUSTED, before anything is planned, for more gates than the memory limit has room
 * for; when one workspace exceeds that limit, naming qubits, bytes needed and bytes there (64
 * qubits must say so, not overflow); and when no engine can plan the circuit, naming qubits and
 * what is in the way of each engine (more than 64 qubits are too many for a state vector). */
QR_MUST_CHECK enum qr_code qr_sim_compile(const struct qr_circuit *circuit,
                                          const struct qr_observable *observables,
                                          size_t n_observables, const struct qr_sim_options *opt,
                                          struct qr_sim_plan **ret, struct qr_err *err);
void qr_sim_plan_free(struct qr_sim_plan *plan);

enum qr_engine qr_sim_engine_of(const struct qr_sim_plan *plan); /* never AUTO */
const char *qr_sim_engine_name(const struct qr_sim_plan *plan);  /* "cones"; static */
/* Samples of a micro-batch that suit the plan, in batches of so many: 16 where they fill the lanes;
 * where cones share parts of them an eighth of the batch, but 32 to 256; else 1. */
size_t qr_sim_micro_batch_size(const struct qr_sim_plan *plan, size_t batch_size);
/* A workspace is small (lanes are samples, cones, or a streaming plan of less than 24 qubits): each
 * thread takes micro-batches of its own. Else the pool goes inside one. */
bool qr_sim_micro_batches_in_parallel(const struct qr_sim_plan *plan);
/* Bytes of a workspace for micro-batches of up to max_samples, and of a step's numbers: what is
 * allocated, to the byte. */
size_t qr_sim_bytes_per_thread(const struct qr_sim_plan *plan, size_t max_samples);
size_t qr_sim_bound_bytes(const struct qr_sim_plan *plan);
/* The report's figures (report/report.h has what they mean) for full lanes and a direction known
 * before the head. engine: "streaming" or "statevector". Costs about a bind. */
struct qr_sim_facts {
    size_t n_gates, n_fused, n_passes;
    double flop_per_gradient;
    const char *engine;
};
struct qr_sim_facts qr_sim_facts(const struct qr_sim_plan *plan);

struct qr_sim_bound *qr_sim_bound_new(const struct qr_sim_plan *plan);
void qr_sim_bound_free(struct qr_sim_bound *b);
/* Numbers for theta[n_params] (natural order). Once per state. pool may be NULL. No allocation. */
void qr_sim_bind(struct qr_sim_bound *b, const double *theta, struct qr_pool *pool);

QR_MUST_CHECK enum qr_code qr_sim_workspace_new(const struct qr_sim_plan *plan, size_t max_samples,
                                                struct qr_sim_workspace **ret, struct qr_err *err);
void qr_sim_workspace_free(struct qr_sim_workspace *ws);

/* Read-outs of n_samples <= max_samples samples: ret_z[s * n_readouts + r]; x[s * x_stride +
 * column]. Keeps the final states in the workspace for qr_sim_backward when they fit (lanes =
 * samples), else recomputes. pool may be NULL, or one of whose tasks this is one. No allocation. */
void qr_sim_forward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws, struct qr_pool *pool,
                    const double *x, size_t x_stride, size_t n_samples, double *ret_z);

/* The same when qr_sim_backward will follow. direction: n_readouts numbers, the same for all
 * samples, when they are known before the forward sweep (an affine head); backward must then get
 * these for every sample. NULL: not known yet. A streaming plan then does both sweeps at once;
 * others do as qr_sim_forward does. */
void qr_sim_forward_for_gradient(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                 struct qr_pool *pool, const double *x, size_t x_stride,
                                 size_t n_samples, const double *direction, double *ret_z);

/* After qr_sim_forward on the same workspace and samples. Adds to ret_grad[0 .. n_params) the
 * integers of the micro-batch's derivatives: sum_s scale[s] * d(sum_r direction[s * n_readouts + r]
 * z[s][r])/d theta_k, rounded once per parameter and micro-batch. Where inputs are wanted,
 * ret_dx[s * n_columns + c] = scale[s] * d(sum_r direction[s * n_readouts + r] z[s][r])/d x_c in
 * float64, 0 for the others; else ret_dx is not looked at. False (ret_grad untouched, ret_dx
 * without meaning) when a number is not finite or >= 2^40. */
QR_MUST_CHECK bool qr_sim_backward(const struct qr_sim_bound *b, struct qr_sim_workspace *ws,
                                   struct qr_pool *pool, const double *direction,
                                   const double *scale, qr_fixed *ret_grad, double *ret_dx);

#endif
