"""PennyLane's tutorial "Variational classifier", the parity of four bits: basis embedding, two
layers of Rot and a ring of CNOT, and a bias. The dense layer has a factor besides the bias, which
the tutorial does not have."""
import pennylane as qml


def model(case):
    @case.circuit(4)
    def circuit(weights, x):
        for q in range(4):
            qml.RX(case.numpy.pi * x[:, q], wires=q)  # BasisEmbedding takes no batch; the phase of RX does not matter
        for layer in weights:
            for q in range(4):
                qml.Rot(*layer[q], wires=q)
            for q in range(4):
                qml.CNOT(wires=[q, (q + 1) % 4])
        return qml.expval(qml.PauliZ(0))

    def outputs(weights, x):
        z = circuit(weights["pqc/parameters"].reshape(2, 4, 3), x)
        return z[:, None] @ weights["dense/kernel"] + weights["dense/bias"]

    return outputs
