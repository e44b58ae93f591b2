"""PennyLane's tutorials "Turning quantum nodes into Keras/Torch layers": dense, angle embedding
with basic entangler layers, dense with softmax."""
import pennylane as qml


def model(case):
    @case.circuit(2)
    def circuit(weights, x):
        qml.AngleEmbedding(x, wires=range(2))
        qml.BasicEntanglerLayers(weights, wires=range(2))
        return [qml.expval(qml.PauliZ(q)) for q in range(2)]

    def outputs(weights, x):
        h = x @ weights["dense/kernel"] + weights["dense/bias"]
        z = case.numpy.stack(circuit(weights["pqc/parameters"].reshape(6, 2), h), -1)
        return case.jax.nn.softmax(z @ weights["dense_1/kernel"] + weights["dense_1/bias"])

    return outputs
