/* circuit/channel.h — noise channels on one and two qubits: what may happen between gates.
 *
 * A channel is a gate of kind QR_GATE_CHANNEL in a circuit, which refers to an entry of the
 * circuit's list of channels. Three forms:
 *   Pauli errors   the state gets the Pauli P_k with probability p_k. p_k is linear in the
 *                  arguments: each argument is shared equally by a set of Paulis.
 *   damping        a qubit's Bloch vector (x, y, z) becomes (c x, c y, s z + b): amplitude and
 *                  phase damping, thermal relaxation, reset, measurement.
 *   Kraus          any operators K_k with sum K_k^adjoint K_k = 1.
 * Paulis    by digits, I X Y Z = 0 1 2 3; of two qubits the first one's digit counts four times.
 * Arguments constants, parameters, or expressions of parameters; no inputs. Outside of their range
 *           all numbers are NaN.
 * Numbers   float64 with exact/functions: the same bits on every machine.
 * Threads   pure functions.
 */
#ifndef QR_CIRCUIT_CHANNEL_H
#define QR_CIRCUIT_CHANNEL_H

#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "circuit/argument.h"

enum {
    QR_CHANNEL_NAMES = 4,
    QR_CHANNEL_ARGS = 15,
    QR_CHANNEL_KRAUS = 16,
    QR_CHANNEL_TRANSFER = 256
};

/* The Bloch vector (x, y, z) becomes (c x, c y, s z + b). */
struct qr_damping {
    double c, s, b;
};

/* Properties of a kind of channel. */
struct qr_channel_info {
    /* in job files, then other accepted names; those of one and two qubits may be equal */
    const char *names[QR_CHANNEL_NAMES];
    /* Id of TFQ's serializer, Cirq's class, Braket's pragma, PennyLane's operation, or NULL */
    const char *tfq, *cirq, *braket, *pennylane;
    bool last_first;    /* Braket and PennyLane have the last argument as the first */
    const char *symbol; /* in drawings */
    uint8_t n_targets, n_args;
    const char *arg_names[QR_CHANNEL_ARGS];
    uint8_t n_optional;               /* so many of the last may be absent: 0; but not all */
    uint16_t paulis[QR_CHANNEL_ARGS]; /* Pauli errors: the Paulis that share each argument */
    bool kraus;                       /* operators in place of arguments */
    bool measures; /* a measurement; the lowest bit of its operator's number is the result */
    /* Damping: its numbers, and unless NULL their derivatives by each argument. */
    void (*damping)(const double *a, struct qr_damping *ret, struct qr_damping *ret_da);
};

struct qr_channel {
    const struct qr_channel_info *info;
    struct qr_gate_arg args[QR_CHANNEL_ARGS]; /* info->n_args; no data */
    unsigned unset; /* of a measurement: bit k: args[k] was not given; that of the read-out */
    unsigned n_kraus;
    double complex *kraus; /* n_kraus row-major matrices, first target most significant; owned */
};

/* The argument at this place in Braket and PennyLane. */
static inline unsigned qr_channel_arg_at(const struct qr_channel_info *info, unsigned place) {
    return !info->last_first ? place : place ? place - 1 : info->n_args - 1u;
}
/* Row i of the table; NULL after the last. */
const struct qr_channel_info *qr_channel_info_at(size_t i);
/* Finds a channel by any of its names, case ignored, on so many qubits; NULL: unknown. */
const struct qr_channel_info *qr_channel_info_of(const char *name, unsigned n_qubits);
/* A copy with operators of its own. */
struct qr_channel qr_channel_copy(const struct qr_channel *c);
void qr_channel_fini(struct qr_channel *c);
bool qr_channel_equal(const struct qr_channel *a, const struct qr_channel *b);
/* True if no argument is a parameter. */
bool qr_channel_is_constant(const struct qr_channel *c);
/* True for a measurement that is read without errors, whatever the parameters. */
bool qr_channel_reads_exactly(const struct qr_channel *c);
/* Values of the arguments; theta NULL: they are constant. */
void qr_channel_values(const struct qr_channel *c, const double *theta,
                       double ret[QR_CHANNEL_ARGS]);
/* Fails if constant arguments, or the operators, are not a channel. The message has no path.
 *
 * Errors:   INVALID_ARGUMENT
 */
QR_MUST_CHECK enum qr_code qr_channel_check(const struct qr_channel *c, struct qr_err *err);
/* The same, of arguments at these parameters. */
QR_MUST_CHECK enum qr_code qr_channel_check_at(const struct qr_channel *c, const double *theta,
                                               struct qr_err *err);

/* Computes the probabilities of the Pauli errors.
 *
 * Args:     a       values of the arguments
 *           ret     4^n_targets probabilities
 *           ret_da  n_args x 4^n_targets derivatives by each argument; NULL: not wanted
 * Returns:  false, ret unchanged: the channel has no Pauli errors alone
 */
bool qr_channel_errors(const struct qr_channel *c, const double *a, double *ret, double *ret_da);
/* Computes the Pauli transfer matrix R_PQ = 2^-n Tr(P channel(Q)).
 *
 * Args:     ret     4^n x 4^n, row (out) major
 *           ret_da  n_args such matrices; NULL: not wanted
 */
void qr_channel_transfer(const struct qr_channel *c, const double *a, double *ret, double *ret_da);
/* Computes Kraus operators of a channel that is not a list of Pauli errors.
 *
 * Args:     ret     at most QR_CHANNEL_KRAUS matrices, 2^n x 2^n, row-major
 *           ret_da  for each argument as many matrices, 16 numbers apart: derivatives; NULL: not
 *                   wanted. Not finite where an operator vanishes
 * Returns:  number of operators
 */
unsigned qr_channel_kraus(const struct qr_channel *c, const double *a, double complex *ret,
                          double complex *ret_da);
/* Computes Kraus operators of any channel, but for those that vanish; as qr_channel_kraus. */
unsigned qr_channel_operators(const struct qr_channel *c, const double *a,
                              double complex ret[QR_CHANNEL_KRAUS * 16]);

#endif
