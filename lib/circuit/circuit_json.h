/* circuit/circuit_json.h — circuits as they stand in job files.
 *
 * Ansatz    {"ansatz": "qcnn", "qubits", "stages"?, "variant"?: "notebook" | "research",
 *           "filters"?}; how many copies ("filters") is read by the job room, since the copies are
 *           the layer's. {"ansatz": NAME, "qubits", "prefix"?, KEYS}: a name and its keys of
 *           ansatz/ansatz.h
 * Gates     {"qubits", "columns"?, "gates": [ITEM, ..]}. Without "columns" the circuit takes 1 +
 *           the highest data column in use, and the data may have more. An item is
 *           {"gate", "qubits": [..], ARGUMENTS, "controls"?: [..], "control_values"?: [0 | 1, ..],
 *           "global_shift"?}; {"repeat", "index"?, "gates": [ITEM, ..]}; or {"ansatz": NAME,
 *           "qubits"?: [..], "prefix"?, KEYS}, on these qubits or all.
 * Repeats   the items so many times (0 to 2^20), with the index from 0 on. In them an integer may
 *           be a text that counts ("(i+1)%n", ansatz/index.h), and such texts stand in braces in
 *           parameters' names and expressions ("w{i}"). n is the number of qubits.
 * Prefix    of the names of an ansatz's parameters; one inside another stands behind it.
 * Bounds    2^20 gates, those counted of which gates are made; QR_MAX_REPEATS repeats around
 *           another, which read 2^22 numbers and names in all: seconds.
 * Names     I X Y Z H XX YY ZZ CZ CNOT (CX) SWAP ISWAP PhasedX PhasedISwap FSIM, and RX RY RZ (X Y
 *           Z by angle alone); case is ignored. TFQ's names (XP ... PISP) and Cirq's PhasedXPow,
 *           PhasedISwapPow mean the same. Gates of gate_words.c become the native gates that they
 *           are made of.
 * Arguments power gates: "exponent" in half-turns (absent: 1), or "angle" a in radians: exponent
 *           a / pi with global shift -1/2, so that X with an angle is RX (not for ISWAP). PhasedX,
 *           PhasedISwap: "phase_exponent" and "exponent" (absent: 1). All others in radians, by the
 *           names in their row. Each is a number, {"parameter": name, "scale"?},
 *           {"data": column, "scale"?}: value = scale * it, or a text (expression.h), which becomes
 *           one of these where it is no more. PauliRot has "pauli_word", Basis "state", Unitary
 *           "matrix" (unitary within 1e-6).
 * Columns   by number or, in a text, by name: those with names stand behind the others, in order of
 *           first mention (qr_circuit_resolve_columns).
 * Order     the parameters of a gate list are sorted naturally by name (qconv2 before qconv10),
 *           whatever order they appear in.
 * Qubits    1 to QR_MAX_QUBITS.
 * Controls  without control_values every control must be 1.
 * Errors    INVALID_ARGUMENT with the path of the value ("model[0].circuit.gates[3].exponent");
 *           a gate's name first; unknown keys and gates with what was probably meant.
 */
#ifndef QR_CIRCUIT_CIRCUIT_JSON_H
#define QR_CIRCUIT_CIRCUIT_JSON_H

#include "circuit/circuit.h"
#include "format/json.h"

/* where: path of the circuit in messages. *ret_default_readouts: of which qubits Z is read when
 * the layer names no read-outs: those left by an ansatz, all of a gate list. */
QR_MUST_CHECK enum qr_code qr_circuit_from_json(const struct qr_json *circuit, const char *where,
                                                struct qr_circuit **ret,
                                                struct qr_qubits *ret_default_readouts,
                                                struct qr_err *err);

#endif
