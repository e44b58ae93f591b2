/* qring.h — the C interface of libqring: expectation values of parameterised quantum circuits and
 * their exact derivatives, for batches of samples.
 *
 * Use       qring_circuit_function compiles a circuit and its observables once; then
 *           qring_forward, qring_vjp, qring_jacobian and qring_states as often as needed; then
 *           qring_function_free.
 * Model     A circuit has P parameters, in natural order of their names (w2 before w10), and I
 *           inputs. One call has one vector of parameters and S samples of inputs; it computes
 *           z[s][r] = <O_r> of sample s for R observables.
 * Method    adjoint differentiation: all derivatives of a sample cost about two more simulations,
 *           for any number of parameters and inputs.
 * Bits      A result depends on the arguments, dtype and number of samples only: not on threads,
 *           instruction set or machine. Without input_gradients the bits are those of `qring
 *           gradient` and of a step of a job with the same circuit. Sums over samples are rounded
 *           once for each micro-batch, so splitting a batch may change the last bit of derivatives
 *           by parameters; a qring_sum does not have this limit.
 * Arrays    struct qring_array: memory of the caller, any strides in bytes as NumPy's, float32 or
 *           float64. Values are converted; the arithmetic is that of the function's dtype
 *           (amplitudes) and float64 (sums).
 * Threads   A function may be used by one thread at a time; a second one at the same moment gets
 *           QRING_FAILED_PRECONDITION and changes nothing. Different functions are independent.
 *           There is no global state, no signal handler and no output.
 * Errors    Every call that can fail returns an enum qring_code and fills *err, which may be NULL.
 *           Results are then undefined. Lack of memory beyond what the plan accounts for ends the
 *           process, as malloc's callers commonly do; large allocations return
 *           QRING_RESOURCE_EXHAUSTED.
 * Versions  Structs with a struct_size may grow: set it to sizeof the struct. Symbols have the
 *           version QRING_1. */
#ifndef QRING_H
#define QRING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define QRING_EXPORT __attribute__((visibility("default")))
#else
#define QRING_EXPORT
#endif

/* gRPC's canonical numbers. */
enum qring_code {
    QRING_OK = 0,
    QRING_INVALID_ARGUMENT = 3,    /* circuit, observable, shape, option: the message says which */
    QRING_RESOURCE_EXHAUSTED = 8,  /* the circuit needs more memory than this process may use */
    QRING_FAILED_PRECONDITION = 9, /* another thread is using the function */
    QRING_OUT_OF_RANGE = 11,       /* a number is not finite, or 2^40 or more in magnitude */
    QRING_UNIMPLEMENTED = 12       /* the function was compiled without what the call needs */
};

struct qring_error {
    enum qring_code code;
    char message[768]; /* "cannot do X: reason; what to do", UTF-8, always terminated */
};

enum qring_dtype { QRING_FLOAT32 = 1, QRING_FLOAT64 = 2 };

/* An array of up to three dimensions. */
struct qring_array {
    void *data;
    enum qring_dtype dtype;
    ptrdiff_t strides[3]; /* in bytes, one for each dimension of the argument */
};

/* "0.1.0"; static. */
QRING_EXPORT const char *qring_version(void);

/* ---- functions ---- */

struct qring_function;

struct qring_options {
    size_t struct_size;
    enum qring_dtype dtype; /* of amplitudes; 0: QRING_FLOAT64 */
    /* 0: the processors that this process may use; at most these, or 4 */
    unsigned threads;
    const char *isa;     /* "auto", "portable", "avx2", "avx512" or "neon"; NULL: "auto" */
    int input_gradients; /* not 0: derivatives by inputs can be computed */
    int states;          /* not 0: only qring_states will be called */
};

/* Compiles a circuit.
 *
 * Args:     circuit      the circuit object of a job file (JSON text, qring help job circuit),
 *                        circuit_bytes long; copied
 *           observables  n_observables texts such as "Z0" and "0.5*X0 Z1 - Y2"; copied. May be 0
 *                        with states
 *           options      NULL: defaults
 *           ret          freed with qring_function_free
 * Errors:   INVALID_ARGUMENT with the path of the value; RESOURCE_EXHAUSTED with bytes needed and
 *           available
 * Cost:     linear in the gates; milliseconds for hundreds of gates
 */
QRING_EXPORT enum qring_code qring_circuit_function(
    const char *circuit, size_t circuit_bytes, const char *const *observables, size_t n_observables,
    const struct qring_options *options, struct qring_function **ret, struct qring_error *err);
/* f may be NULL. No call may be running. */
QRING_EXPORT void qring_function_free(struct qring_function *f);

QRING_EXPORT size_t qring_n_qubits(const struct qring_function *f);
QRING_EXPORT size_t qring_n_parameters(const struct qring_function *f);
QRING_EXPORT size_t qring_n_inputs(const struct qring_function *f);
QRING_EXPORT size_t qring_n_observables(const struct qring_function *f);
QRING_EXPORT size_t qring_n_gates(const struct qring_function *f);
/* Name of a parameter or an input, valid until f is freed; NULL: out of range, or an input that the
 * circuit refers to by number. */
QRING_EXPORT const char *qring_parameter_name(const struct qring_function *f, size_t i);
QRING_EXPORT const char *qring_input_name(const struct qring_function *f, size_t i);
/* Engine that simulates the circuit: "cones", "streaming" or "statevector"; static. */
QRING_EXPORT const char *qring_engine(const struct qring_function *f);
/* Draws the circuit as UTF-8 text of at most `columns` columns; freed with qring_text_free. */
QRING_EXPORT char *qring_draw(const struct qring_function *f, unsigned columns);
QRING_EXPORT void qring_text_free(char *text);

/* ---- calls ----
 *
 * Common arguments:
 *   parameters  [P]; NULL if P is 0
 *   inputs      [S][I]; NULL if I is 0
 *   n_samples   S; 0 is allowed
 */

/* Computes expectation values.
 *
 * Args:     ret  [S][R]
 * Errors:   OUT_OF_RANGE, FAILED_PRECONDITION, RESOURCE_EXHAUSTED
 */
QRING_EXPORT enum qring_code qring_forward(struct qring_function *f,
                                           const struct qring_array *parameters,
                                           const struct qring_array *inputs, size_t n_samples,
                                           const struct qring_array *ret, struct qring_error *err);

/* Exact sum of derivatives by parameters over any number of calls, samples and threads: every
 * sample's term is rounded to a multiple of 2^-64 once, and terms are added as integers, so
 * any split of the samples gives the same bits. Calls that add to a sum simulate one sample at a
 * time, up to 16 times slower for circuits of at most 11 qubits. */
struct qring_sum;
/* Returns a sum of n zeros; NULL if memory is exhausted. */
QRING_EXPORT struct qring_sum *qring_sum_new(size_t n);
QRING_EXPORT void qring_sum_free(struct qring_sum *sum); /* may be NULL */
/* sum += other, of the same size. */
QRING_EXPORT enum qring_code qring_sum_add(struct qring_sum *sum, const struct qring_sum *other,
                                           struct qring_error *err);
/* ret [n]: the sum, rounded once. */
QRING_EXPORT enum qring_code qring_sum_values(const struct qring_sum *sum,
                                              const struct qring_array *ret,
                                              struct qring_error *err);

/* Computes a vector-Jacobian product (reverse mode). NULL results are not computed.
 *
 * Args:     cotangents      [S][R]
 *           ret_outputs     [S][R], the expectation values, or NULL
 *           ret_parameters  [P]: sum over s and r of cotangents[s][r] dz[s][r] / dparameter, or
 *                           NULL
 *           ret_inputs      [S][I]: sum over r of cotangents[s][r] dz[s][r] / dinput[s], or NULL
 *           sum             of size P, to which the sum over s and r is added, or NULL; unchanged
 *                           on failure
 * Errors:   as qring_forward; UNIMPLEMENTED: ret_inputs without input_gradients
 */
QRING_EXPORT enum qring_code qring_vjp(
    struct qring_function *f, const struct qring_array *parameters,
    const struct qring_array *inputs, size_t n_samples, const struct qring_array *cotangents,
    const struct qring_array *ret_outputs, const struct qring_array *ret_parameters,
    const struct qring_array *ret_inputs, struct qring_sum *sum, struct qring_error *err);

/* Computes all derivatives, at the cost of R backward sweeps for each sample.
 *
 * Args:     ret_outputs     [S][R] or NULL
 *           ret_parameters  [S][R][P] or NULL
 *           ret_inputs      [S][R][I] or NULL
 * Errors:   as qring_vjp
 */
QRING_EXPORT enum qring_code qring_jacobian(struct qring_function *f,
                                            const struct qring_array *parameters,
                                            const struct qring_array *inputs, size_t n_samples,
                                            const struct qring_array *ret_outputs,
                                            const struct qring_array *ret_parameters,
                                            const struct qring_array *ret_inputs,
                                            struct qring_error *err);

/* Computes final states, of a function that was compiled with `states`.
 *
 * Args:     ret  [S][2^n_qubits][2]: real and imaginary part of each amplitude; qubit 0 is the most
 *                significant bit of the index
 * Errors:   as qring_forward; UNIMPLEMENTED: compiled without states
 */
QRING_EXPORT enum qring_code qring_states(struct qring_function *f,
                                          const struct qring_array *parameters,
                                          const struct qring_array *inputs, size_t n_samples,
                                          const struct qring_array *ret, struct qring_error *err);

#ifdef __cplusplus
}
#endif

#endif
