/* circuit/gate_rows.h — every native gate: one row each, from which its kind, names and properties
 * follow.
 *
 * A row begins with the suffix of QR_GATE_ in the kind; the rest are fields of struct qr_gate_info
 * (circuit.h), absent fields are 0. `power` and `matrix` are functions of gate.c: a power of an
 * involution has the first, any other gate the second.
 */
#ifndef QR_CIRCUIT_GATE_ROWS_H
#define QR_CIRCUIT_GATE_ROWS_H

#define QR_GATE_ROWS(ROW)                                                                          \
    /* One qubit */                                                                                \
    ROW(I, .name = "I", .n_targets = 1, .identity = true, .matrix = identity_matrix)               \
    ROW(X, .name = "X", .also = "RX", .tfq = "XP", .n_targets = 1, ONE_EXPONENT, .rotation = "RX", \
        .factor = {QR_PAULI_X}, .power = power_of_x)                                               \
    ROW(Y, .name = "Y", .also = "RY", .tfq = "YP", .n_targets = 1, ONE_EXPONENT, .rotation = "RY", \
        .factor = {QR_PAULI_Y}, .power = power_of_y)                                               \
    ROW(Z, .name = "Z", .also = "RZ", .tfq = "ZP", .n_targets = 1, ONE_EXPONENT, .rotation = "RZ", \
        .factor = {QR_PAULI_Z}, .power = power_of_z)                                               \
    ROW(H, .name = "H", .tfq = "HP", .n_targets = 1, ONE_EXPONENT, .power = power_of_h)            \
    /* Two qubits: powers of a product of Paulis */                                                \
    ROW(XX, .name = "XX", .tfq = "XXP", .n_targets = 2, ONE_EXPONENT, .rotation = "RXX",           \
        .factor = {QR_PAULI_X, QR_PAULI_X}, .power = power_of_xx)                                  \
    ROW(YY, .name = "YY", .tfq = "YYP", .n_targets = 2, ONE_EXPONENT, .rotation = "RYY",           \
        .factor = {QR_PAULI_Y, QR_PAULI_Y}, .power = power_of_yy)                                  \
    ROW(ZZ, .name = "ZZ", .tfq = "ZZP", .n_targets = 2, ONE_EXPONENT, .rotation = "RZZ",           \
        .factor = {QR_PAULI_Z, QR_PAULI_Z}, .power = power_of_zz)                                  \
    /* A control and its target */                                                                 \
    ROW(CZ, .name = "CZ", .tfq = "CZP", .n_targets = 2, ONE_EXPONENT, .controlled = "Z",           \
        .factor = {QR_PAULI_Z, QR_PAULI_Z}, .power = power_of_cz)                                  \
    ROW(CNOT, .name = "CNOT", .also = "CX", .tfq = "CNP", .n_targets = 2, ONE_EXPONENT,            \
        .controlled = "X", .factor = {QR_PAULI_Z, QR_PAULI_X}, .power = power_of_cnot)             \
    /* Others on two qubits, and those of two arguments */                                         \
    ROW(SWAP, .name = "SWAP", .tfq = "SP", .n_targets = 2, ONE_EXPONENT, .symbol = "×",            \
        .power = power_of_swap)                                                                    \
    ROW(ISWAP, .name = "ISWAP", .tfq = "ISP", .n_targets = 2, ONE_EXPONENT,                        \
        .matrix = iswap_matrix)                                                                    \
    /* Z^p X^t Z^-p e^{i pi g t} */                                                                \
    ROW(PHASED_X, .name = "PhasedX", .tfq = "PXP", .cirq = "PhasedXPow", .n_targets = 1,           \
        PHASE_AND_EXPONENT, .matrix = phased_x_matrix)                                             \
    ROW(PHASED_ISWAP, .name = "PhasedISwap", .tfq = "PISP", .cirq = "PhasedISwapPow",              \
        .n_targets = 2, PHASE_AND_EXPONENT, .matrix = phased_iswap_matrix)                         \
    /* radians */                                                                                  \
    ROW(FSIM, .name = "FSIM", .n_targets = 2, .n_args = 2, .arg_names = {"theta", "phi"},          \
        .matrix = fsim_matrix)

#endif
