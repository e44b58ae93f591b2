/* qring.h — the C interface of qring: expectation values of parameterised quantum circuits and
 * their exact derivatives, for batches of samples; training of a job, and predictions.
 *
 * Use       qring_circuit_function compiles a circuit and its observables once; then
 *           qring_forward, qring_vjp, qring_jacobian and qring_states as often as needed; then
 *           qring_function_free. A job: qring_job_new, qring_train, qring_predict.
 * Libraries libqring.so.1 (pkg-config qring) has all functions above "jobs", and needs cJSON alone;
 *           libqring_train.so.1 (qring-train) has the others, and needs libraries for files too.
 * Model     A circuit has P parameters, in natural order of their names (w2 before w10), and I
 *           inputs. One call has one vector of parameters and S samples of inputs; it computes
 *           z[s][r] = <O_r> of sample s for R observables.
 * Method    adjoint differentiation: all derivatives of a sample cost about two more simulations,
 *           for any number of parameters and inputs.
 * Bits      A result depends on the arguments, options and number of samples only: not on threads,
 *           instruction set or machine, and not on the locale and floating-point environment of the
 *           caller, which every call restores, also for a callback. Without input_gradients the
 *           bits are those of `qring gradient` and of a step of a job with the same circuit. Sums
 *           over samples are rounded once for each micro-batch, so splitting a batch may change the
 *           last bit of derivatives by parameters; a qring_sum does not have this limit.
 * Arrays    struct qring_array: memory of the caller, any strides in bytes as NumPy's, float32 or
 *           float64. Values are converted; the arithmetic is that of the function's dtype
 *           (amplitudes) and float64 (sums).
 * Threads   A function or job may be used by one thread at a time; a second one at the same moment
 *           gets QRING_FAILED_PRECONDITION and changes nothing. Different handles are independent.
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
#include <stdint.h>

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
    QRING_CANCELLED = 1,           /* by a callback or by qring_job_cancel */
    QRING_INVALID_ARGUMENT = 3,    /* circuit, job, shape, option: the message says which */
    QRING_NOT_FOUND = 5,           /* a file */
    QRING_PERMISSION_DENIED = 7,   /* a file */
    QRING_RESOURCE_EXHAUSTED = 8,  /* more memory than this process may use, or a full disk */
    QRING_FAILED_PRECONDITION = 9, /* another thread is using the handle; a URL of a bucket */
    QRING_OUT_OF_RANGE = 11,       /* a number is not finite, or 2^40 or more in magnitude */
    QRING_UNIMPLEMENTED = 12,      /* compiled without what the call needs; cannot be simulated */
    QRING_UNAVAILABLE = 14,        /* memory that other programs use now: retry */
    QRING_DATA_LOSS = 15           /* a damaged file, or bad values in the data */
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
    /* How noise channels are simulated: "auto", "exact", "density" or "trajectories"; NULL: "auto".
     * Not used by circuits without channels. */
    const char *method;
    /* of each sample, for that method, at most 1048576; 0: 128, and without observables as many as
     * shots, which are then independent */
    unsigned trajectories;
    /* Of random numbers. They depend on the seed and the number of the sample in the call only, and
     * are those of an evaluation of a job, or of `qring sample`, with this seed. */
    unsigned long long seed;
    /* Bit strings drawn for each sample, at most 16777216. Expectation values are means over them;
     * without observables only qring_sample will be called. 0: exact expectation values */
    unsigned shots;
    /* "adjoint": derivatives of the exact expectation values; "parameter-shift": from shifted
     * read-outs with shots and trajectories of their own. NULL: "adjoint" */
    const char *gradient;
};

/* Compiles a circuit.
 *
 * Args:     circuit      the circuit object of a job file (JSON text, qring help job circuit),
 *                        circuit_bytes long; copied
 *           observables  n_observables texts such as "Z0" and "0.5*X0 Z1 - Y2"; copied. May be 0
 *                        with states or shots
 *           options      NULL: defaults
 *           ret          freed with qring_function_free
 * Errors:   INVALID_ARGUMENT with the path of the value; RESOURCE_EXHAUSTED with bytes needed and
 *           available; UNIMPLEMENTED: states of a circuit with noise channels, which are
 *           mixed, or measurements; shots of more than 64 qubits or measured bits
 * Cost:     linear in the gates; milliseconds for hundreds of gates
 */
QRING_EXPORT enum qring_code qring_circuit_function(
    const char *circuit, size_t circuit_bytes, const char *const *observables, size_t n_observables,
    const struct qring_options *options, struct qring_function **ret, struct qring_error *err);
/* Reads OpenQASM 2 or 3 (`qring import`; lib/qasm/README.md says what is read).
 *
 * Args:     text          UTF-8, bytes long
 *           inputs        n_inputs names of free symbols (input float, input angle) that are inputs
 *                         0, 1 ... in this order; the other free symbols are parameters
 *           ret_circuit   JSON for qring_circuit_function; freed with qring_text_free
 *           ret_readouts  JSON list of observables: "Z0" of the measured qubits, and the results of
 *                         Braket's pragmas; freed with qring_text_free. NULL: not wanted
 * Errors:   INVALID_ARGUMENT: "line 3, column 7: ...", then the line and a caret on lines of their
 *           own; UNIMPLEMENTED: the same, where the text is valid but cannot be simulated
 * Cost:     linear in the text and in the gates; any text ends within seconds
 */
QRING_EXPORT enum qring_code qring_circuit_from_qasm(const char *text, size_t bytes,
                                                     const char *const *inputs, size_t n_inputs,
                                                     char **ret_circuit, char **ret_readouts,
                                                     struct qring_error *err);
/* Reads a circuit of Cirq (the JSON of cirq.to_json) or TensorFlow Quantum (a program that
 * tfq.convert_to_tensor serialized); lib/cirq/README.md says what is read.
 *
 * Args:     as qring_circuit_from_qasm. Names are those of sympy's symbols; read-outs are the
 *           measurements, and the observables after the circuit in a JSON list
 * Errors:   INVALID_ARGUMENT, UNIMPLEMENTED: with the path of the value
 * Cost:     linear in the bytes and in the gates; any bytes end within seconds
 */
QRING_EXPORT enum qring_code qring_circuit_from_cirq(const void *text, size_t bytes,
                                                     const char *const *inputs, size_t n_inputs,
                                                     char **ret_circuit, char **ret_readouts,
                                                     struct qring_error *err);
struct qring_write_options {
    size_t struct_size;
    const char *const *observables; /* n_observables texts; the read-outs */
    size_t n_observables;
    const double *parameters; /* n_parameters numbers in place of symbols; NULL: symbols */
    size_t n_parameters;      /* those of the circuit */
    const double *inputs;     /* likewise */
    size_t n_inputs;
    unsigned columns; /* maximum width of a drawing in characters of text or 8 pixels; 0: 100 */
};
/* Writes a circuit for another program, or draws it.
 *
 * Args:     circuit    as of qring_circuit_function
 *           format     as of qring export (lib/export/README.md), or text, svg, latex: a drawing
 *           options    NULL: defaults
 *           ret        UTF-8, *ret_bytes long, then NUL; freed with qring_text_free
 *           ret_bytes  NULL: not wanted
 * Errors:   INVALID_ARGUMENT; UNIMPLEMENTED: the format cannot express the circuit
 * Cost:     linear in the gates
 */
QRING_EXPORT enum qring_code qring_circuit_write(const char *circuit, size_t circuit_bytes,
                                                 const char *format,
                                                 const struct qring_write_options *options,
                                                 char **ret, size_t *ret_bytes,
                                                 struct qring_error *err);
/* Sets the seed of later calls, as of the options. No call may be running. */
QRING_EXPORT void qring_set_seed(struct qring_function *f, unsigned long long seed);
/* f may be NULL. No call may be running. */
QRING_EXPORT void qring_function_free(struct qring_function *f);

QRING_EXPORT size_t qring_n_qubits(const struct qring_function *f);
QRING_EXPORT size_t qring_n_parameters(const struct qring_function *f);
QRING_EXPORT size_t qring_n_inputs(const struct qring_function *f);
QRING_EXPORT size_t qring_n_observables(const struct qring_function *f);
QRING_EXPORT size_t qring_n_bits(const struct qring_function *f); /* 1 + the highest measured bit */
QRING_EXPORT size_t qring_n_gates(const struct qring_function *f);
/* Name of a parameter or an input, valid until f is freed; NULL: out of range, or an input that the
 * circuit refers to by number. */
QRING_EXPORT const char *qring_parameter_name(const struct qring_function *f, size_t i);
QRING_EXPORT const char *qring_input_name(const struct qring_function *f, size_t i);
/* Engine that simulates the circuit: "cones", "streaming", "statevector" or, with noise channels,
 * "density"; static. With noise channels "statevector" means trajectories. */
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
/* Draws bit strings from final states; f was compiled with shots and without observables.
 *
 * Args:     ret  [S][shots], contiguous: bit n_qubits - 1 - q is that of qubit q
 * Errors:   as qring_forward; UNIMPLEMENTED: f has observables
 */
QRING_EXPORT enum qring_code qring_sample(struct qring_function *f,
                                          const struct qring_array *parameters,
                                          const struct qring_array *inputs, size_t n_samples,
                                          uint64_t *ret, struct qring_error *err);
/* The same, with the bits that the circuit's measurements set.
 *
 * Args:     ret_bits  [S][shots], contiguous: bit qring_n_bits - 1 - i is that of bit i, 0 if it
 *                     was not measured. NULL: not wanted
 */
QRING_EXPORT enum qring_code qring_sample_bits(struct qring_function *f,
                                               const struct qring_array *parameters,
                                               const struct qring_array *inputs, size_t n_samples,
                                               uint64_t *ret, uint64_t *ret_bits,
                                               struct qring_error *err);

/* ---- jobs: libqring_train.so.1 ----
 *
 * A job has the bits of `qring run` with the same file: weights and digest are equal, for any
 * number of threads. Only files of this machine are read, and none is written but by
 * qring_weights_write. The job's keys "sweep", "worker" and "profile" are not used.
 * After data is read, malloc_trim and mallopt(M_MMAP_THRESHOLD, 128 KiB) return its memory.
 */

struct qring_job;
/* Reads a job.
 *
 * Args:     text    a job file (JSON, qring help job), bytes long; copied
 *           folder  where files are that the job names by relative paths, after the working
 *                   directory; NULL: none
 *           ret     freed with qring_job_free
 * Errors:   INVALID_ARGUMENT: all errors of the job, one on each line
 */
QRING_EXPORT enum qring_code qring_job_new(const char *text, size_t bytes, const char *folder,
                                           struct qring_job **ret, struct qring_error *err);
/* job may be NULL. No call may be running. Results and weights stay valid. */
QRING_EXPORT void qring_job_free(struct qring_job *job);
/* Any thread: the running qring_train of this job, or else its next one, returns QRING_CANCELLED
 * within about one micro-batch. */
QRING_EXPORT void qring_job_cancel(struct qring_job *job);

/* Weights: float64 tensors named as in the weights file: "pqc/parameters" (in natural order of the
 * parameters' names), "dense/kernel" [inputs][outputs], "dense/bias". */
struct qring_weights;
/* Draws the weights that training begins with from the job's seed.
 *
 * Args:     n_inputs  columns of the data; not used where a circuit reads the data
 *           ret       freed with qring_weights_free
 */
QRING_EXPORT enum qring_code qring_weights_new(struct qring_job *job, size_t n_inputs,
                                               struct qring_weights **ret, struct qring_error *err);
/* Reads the weights of a job's model.
 *
 * Args:     path  .h5, .npz or .safetensors; a checkpoint, or the LATEST of a checkpoint folder
 * Errors:   NOT_FOUND, DATA_LOSS; INVALID_ARGUMENT: another model's weights, names both shapes
 */
QRING_EXPORT enum qring_code qring_weights_read(struct qring_job *job, const char *path,
                                                struct qring_weights **ret,
                                                struct qring_error *err);
/* Writes the file that `qring run` writes, in the format of its suffix (HDF5 has float32). Replaces
 * a file at once or not at all. */
QRING_EXPORT enum qring_code qring_weights_write(const struct qring_weights *weights,
                                                 const char *path, struct qring_error *err);
QRING_EXPORT void qring_weights_free(struct qring_weights *weights);          /* may be NULL */
QRING_EXPORT size_t qring_weights_count(const struct qring_weights *weights); /* of tensors */
/* Name of a tensor, its number of dimensions (1 or 2), and the size of one; NULL or 0: out of
 * range. */
QRING_EXPORT const char *qring_weights_name(const struct qring_weights *weights, size_t i);
QRING_EXPORT unsigned qring_weights_rank(const struct qring_weights *weights, size_t i);
QRING_EXPORT size_t qring_weights_size(const struct qring_weights *weights, size_t i,
                                       unsigned dimension);
/* The values of a tensor, row-major; may be changed; valid until the weights are freed. */
QRING_EXPORT double *qring_weights_values(struct qring_weights *weights, size_t i);

/* Samples in memory, in place of the job's training file (data.source "npz" or "csv"). The job's
 * train_fraction splits them, unless it has validation samples of its own. */
struct qring_data {
    size_t struct_size;
    size_t n_samples, n_inputs, n_labels;
    const struct qring_array *x;             /* [N][n_inputs], the inputs of the model, in order */
    const struct qring_array *y;             /* [N][n_labels], as in a file; NULL: n_labels is 0 */
    const struct qring_array *sample_weight; /* [N]; NULL unless the job has data.sample_weight */
};

enum qring_event { QRING_STEP = 1, QRING_EPOCH = 2 };
struct qring_progress {
    size_t struct_size;
    enum qring_event event;               /* a step has been applied, or an epoch has ended */
    size_t epoch, epochs, batch, batches; /* counted from 1; batch: steps done in this epoch */
    /* loss and metrics: running means over the epoch's steps; QRING_EPOCH: also val_loss and so on
     * where the job evaluates. Valid during the call. */
    size_t n_values;
    const char *const *names;
    const double *values;
};

struct qring_train_options {
    size_t struct_size;
    unsigned threads;                    /* as in qring_options */
    const char *isa;                     /* as in qring_options */
    size_t epochs;                       /* 0: the job's */
    const struct qring_data *data;       /* NULL: the job's */
    const struct qring_weights *initial; /* NULL: the job's */
    /* Called by the thread that called qring_train; returns 0, or another number to cancel. It may
     * use other handles, but not this job. NULL: not called. */
    int (*progress)(void *context, const struct qring_progress *progress);
    void *context;
};

struct qring_result;
/* Trains a job.
 *
 * Args:     options  NULL: defaults
 *           ret      freed with qring_result_free; NULL on failure
 * Errors:   CANCELLED: there is no result, and the job can be trained again from the start;
 *           DATA_LOSS and NOT_FOUND of files; RESOURCE_EXHAUSTED; OUT_OF_RANGE: names the sample
 *           with bad numbers
 * Threads:  those of the options, until it returns
 */
QRING_EXPORT enum qring_code qring_train(struct qring_job *job,
                                         const struct qring_train_options *options,
                                         struct qring_result **ret, struct qring_error *err);
QRING_EXPORT void qring_result_free(struct qring_result *result); /* may be NULL */
QRING_EXPORT size_t qring_result_steps(const struct qring_result *result);
QRING_EXPORT size_t qring_result_epochs(const struct qring_result *result);
/* 32 hexadecimal digits: the state_digest of `qring run`. */
QRING_EXPORT const char *qring_result_digest(const struct qring_result *result);
/* loss, metrics, val_loss and so on, as in result.json; names are valid until the result is freed,
 * NULL if out of range. */
QRING_EXPORT size_t qring_result_count(const struct qring_result *result);
QRING_EXPORT const char *qring_result_name(const struct qring_result *result, size_t i);
QRING_EXPORT double qring_result_value(const struct qring_result *result, size_t i);
/* The trained weights; freed with the result. */
QRING_EXPORT struct qring_weights *qring_result_weights(struct qring_result *result);

/* Predicts samples: the numbers of `qring infer`. Compiles the model, so give many samples at once.
 *
 * Args:     x          [S][n_inputs]; NULL for a job without data, which has one sample
 *           threads    as in qring_options
 *           ret        [S][n_outputs]
 * Errors:   INVALID_ARGUMENT: the weights, n_inputs or n_outputs are another model's; DATA_LOSS: a
 *           number in x; OUT_OF_RANGE: names the sample
 */
QRING_EXPORT enum qring_code qring_predict(struct qring_job *job,
                                           const struct qring_weights *weights,
                                           const struct qring_array *x, size_t n_samples,
                                           size_t n_inputs, unsigned threads,
                                           const struct qring_array *ret, size_t n_outputs,
                                           struct qring_error *err);

#ifdef __cplusplus
}
#endif

#endif
