/* circuit/circuit_json.h — circuits of job files.
 *
 * Ansatz    {"ansatz": "qcnn", "qubits", "stages"?, "variant"?: "notebook" | "research",
 *           "filters"?}; "filters" (the number of copies) is read by lib/job, since the copies
 *           belong to the layer. {"ansatz": NAME, "qubits", "prefix"?, KEYS}: a name and its keys
 *           of ansatz/ansatz.h
 * Gates     {"qubits", "columns"?, "gates": [ITEM, ..]}. Without "columns" the circuit takes 1 +
 *           the highest data column in use, and the data may have more. An item is
 *           {"gate", "qubits": [..], ARGUMENTS, "controls"?: [..], "control_values"?: [0 | 1, ..],
 *           "global_shift"?}; {"ansatz": NAME, "qubits"?: [..], "prefix"?, KEYS}, on these qubits
 *           or all; {"repeat", "index"?, "gates": [ITEM, ..]}; or a block.
 * Repeats   the items this many times (0 to 2^20), with the index from 0 on. Inside, an integer may
 *           be an index expression ("(i+1)%n", ansatz/index.h); parameter names and expressions
 *           contain index expressions in braces ("w{i}"). n is the number of qubits.
 * Blocks    {"adjoint": true, "gates"}: the inverse. {"control": [..], "control_values"?, "gates"}:
 *           these controls on all gates but changes of basis; global phases are kept. {"power":
 *           p, "gates"}: qr_gate_list_power.
 * Measured  {"measure": [..], "bits"?: [..], "p_01"?, "p_10"?} sets a bit for each qubit [the
 *           qubits' numbers; []: none], with these probabilities of reading 1 for 0, and 0 for 1.
 *           {"if": [..], "if_values"?: [..], "gates"}: gates and channels that act where these
 *           bits have their values [1].
 * Prefix    of the names of an ansatz's parameters; a nested prefix follows the outer one.
 * Bounds    2^20 gates after expansion; QR_MAX_REPEATS nested repeats and blocks; repeats read 2^22
 *           numbers and names in all (seconds).
 * Names     I X Y Z H XX YY ZZ CZ CNOT (CX) SWAP ISWAP PhasedX PhasedISwap FSIM, and RX RY RZ (X Y
 *           Z with an angle); case is ignored. TFQ's names (XP ... PISP) and Cirq's PhasedXPow,
 *           PhasedISwapPow mean the same. Gates of composite_gates.c are expanded to native gates.
 * Arguments power gates: "exponent" in half-turns (absent: 1), or "angle" a in radians: exponent
 *           a / pi with global shift -1/2, so that X with an angle is RX (not for ISWAP). PhasedX,
 *           PhasedISwap: "phase_exponent" and "exponent" (absent: 1). All others in radians, by the
 *           names in their row. Each is a number, {"parameter": name, "scale"?},
 *           {"data": column, "scale"?} (value = scale * parameter or column), or a text
 *           (expression.h), which is simplified to one of these where possible. PauliRot has
 *           "pauli_word", Basis "state", Unitary "matrix" (unitary within 1e-6).
 * Columns   by number or, in a text, by name: named columns follow the others, in order of first
 *           use (qr_circuit_resolve_columns).
 * Order     the parameters of a gate list are sorted naturally by name (qconv2 before qconv10),
 *           whatever order they appear in.
 * Qubits    1 to QR_MAX_QUBITS.
 * Controls  without control_values every control must be 1.
 */
#ifndef QR_CIRCUIT_CIRCUIT_JSON_H
#define QR_CIRCUIT_CIRCUIT_JSON_H

#include "circuit/circuit.h"
#include "format/json.h"

/* Reads a circuit.
 *
 * Args:     where  path of the circuit in messages
 *          ret    the circuit; caller frees with qr_circuit_free
 *          ret_default_readouts  the qubits on which Z is read when the layer names no read-outs:
 *                 those that an ansatz leaves, all of a gate list
 * Errors:   INVALID_ARGUMENT with the path of the value ("model[0].circuit.gates[3].exponent");
 *          a wrong gate name is reported first; unknown keys and gates with a suggestion
 * Threads:  any
 */
QR_MUST_CHECK enum qr_code qr_circuit_from_json(const struct qr_json *circuit, const char *where,
                                                struct qr_circuit **ret,
                                                struct qr_qubits *ret_default_readouts,
                                                struct qr_err *err);

/* Reads "noise" of a circuit, {"after": {GATE: CHANNEL or list, ..}, "readout": ..}, into a new
 * circuit with channels and read-out errors in place of *c.
 *
 * After     native gates by name: RX, X, CNOT (CX), CCX; *1, *2 for those on so many qubits, * for
 *           all. The most special name counts. CHANNEL is an item of a gate list without "gate" and
 *           "qubits": it acts on each qubit of the gate; with "qubits": 2, on the two.
 * Read-out  {"p"} or {"p_01", "p_10"}: probabilities of reading 1 for 0, and 0 for 1, also of
 *           measurements without their own; a list has "qubits" too
 * Args:     noise  NULL: nothing is done
 * Errors:   INVALID_ARGUMENT with the path of the value; *c is unchanged
 */
QR_MUST_CHECK enum qr_code qr_noise_read(const struct qr_json *noise, const char *where,
                                         struct qr_circuit **c, struct qr_err *err);

/* Writes the circuit as an object that reads back as the same circuit, bit by bit: native gates,
 * inputs by number. No expression may be shared (circuits from this reader share them only for an
 * ansatz that prepares a state of inputs). */
void qr_circuit_put_json(const struct qr_circuit *c, struct qr_json_writer *w);

#endif
