"""PennyLane's tutorial "Data-reuploading classifier": one qubit, in each layer a Rot by the point
and a Rot by weights. Its cost is the square of 1 - fidelity with the label's state, equal to (p -
y)^2 with p = <0|rho|0> and labels 1, 0."""
import pennylane as qml


def model(case):
    @case.circuit(1)
    def circuit(weights, x):
        for layer in weights:
            qml.Rot(x[:, 0], x[:, 1], 0.0, wires=0)
            qml.Rot(*layer, wires=0)
        return qml.expval(qml.PauliZ(0))

    return lambda weights, x: 0.5 + 0.5 * circuit(weights["pqc/parameters"].reshape(5, 3), x)[:, None]
