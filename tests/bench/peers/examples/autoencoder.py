"""Romero's quantum autoencoder: ground states of hydrogen at many distances, an encoder of RY and
CNOT between all qubits (Qiskit's RealAmplitudes); the outputs are the probabilities of 1 on the
three trash qubits."""
import pennylane as qml


def model(case):
    @case.circuit(4)
    def circuit(weights, x):
        qml.BasisState([1, 1, 0, 0], wires=range(4))
        qml.DoubleExcitation(x[:, 0], wires=range(4))
        for layer in weights[:-1]:
            for q in range(4):
                qml.RY(layer[q], wires=q)
            for a in range(4):
                for b in range(a + 1, 4):
                    qml.CNOT(wires=[a, b])
        for q in range(4):
            qml.RY(weights[-1][q], wires=q)
        return [qml.expval(qml.PauliZ(q)) for q in (1, 2, 3)]

    def outputs(weights, x):
        return 0.5 - 0.5 * case.numpy.stack(circuit(weights["pqc/parameters"].reshape(-1, 4), x), -1)

    return outputs
