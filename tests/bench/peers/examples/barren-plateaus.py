"""deploy/jobs/examples/barren-plateaus.json: all its copies at once, as a batch of angles."""
import math

import pennylane as qml

QUBITS, LAYERS = 6, 80


def model(case):
    @case.circuit(QUBITS)
    def circuit(w):
        for i in range(QUBITS):
            qml.RY(math.pi / 4, wires=i)
        for d in range(LAYERS):
            for i in range(QUBITS):
                kind = (i ** 3 + 5 * i * d + 3 * d * d) % 17 % 3
                (qml.RY, qml.RX, qml.RZ)[kind](w[:, d, i], wires=i)
            for i in range(QUBITS - 1):
                qml.CZ(wires=[i, i + 1])
        return qml.expval(qml.PauliZ(0) @ qml.PauliZ(1))

    def outputs(weights, x):
        copies = [weights[n] for n in case.tensors]
        return circuit(case.numpy.stack(copies).reshape(-1, LAYERS, QUBITS))[None, :]

    return outputs
