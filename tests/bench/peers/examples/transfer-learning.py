"""PennyLane's tutorial "Quantum transfer learning": a trained network's features, and a dressed
quantum circuit instead of the last layer: dense to four, tanh times pi / 2, H and RY, six layers of
CNOTs and RY, four read-outs, dense to two."""
import pennylane as qml


def model(case):
    np = case.numpy

    @case.circuit(4)
    def circuit(weights, x):
        for q in range(4):
            qml.Hadamard(wires=q)
        for q in range(4):
            qml.RY(x[:, q], wires=q)
        for layer in weights:
            qml.CNOT(wires=[0, 1])
            qml.CNOT(wires=[2, 3])
            qml.CNOT(wires=[1, 2])
            for q in range(4):
                qml.RY(layer[q], wires=q)
        return [qml.expval(qml.PauliZ(q)) for q in range(4)]

    def outputs(weights, x):
        features = np.maximum(0.1 * x @ weights["dense/kernel"] + weights["dense/bias"], 0)
        angles = np.tanh(features @ weights["dense_1/kernel"] + weights["dense_1/bias"]) * np.pi / 2
        z = np.stack(circuit(weights["pqc/parameters"].reshape(6, 4), angles), -1)
        return case.jax.nn.softmax(z @ weights["dense_2/kernel"] + weights["dense_2/bias"])

    return outputs
