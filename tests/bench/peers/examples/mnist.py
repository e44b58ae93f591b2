"""deploy/jobs/examples/mnist.json: the classifier of TFQ's MNIST tutorial."""
import math

PIXELS = 16


def by_hand(case):
    """JAX without a simulator: each pixel's qubit interacts with the read-out only. The read-out
    starts in |->, so XX is a rotation of the pixel's qubit, and X of the read-out after the ZZ is a
    product over the pixels."""
    np = case.numpy

    def outputs(weights, x):
        w = math.pi * weights["pqc/parameters"]
        z = np.cos(w[:PIXELS]) * (1 - 2 * x)
        return -np.prod(np.cos(w[PIXELS:]) + 1j * np.sin(w[PIXELS:]) * z, -1).real[:, None]

    return outputs


def model(case):
    if case.who == "jax":
        return by_hand(case)
    import pennylane as qml

    @case.circuit(PIXELS + 1)
    def circuit(w, x):
        for q in range(PIXELS):
            qml.RX(math.pi * x[:, q], wires=q)  # X where the pixel is 1
        qml.PauliX(PIXELS)
        qml.Hadamard(PIXELS)
        for q in range(PIXELS):
            qml.IsingXX(math.pi * w[q], wires=[q, PIXELS])
        for q in range(PIXELS):
            qml.IsingZZ(math.pi * w[PIXELS + q], wires=[q, PIXELS])
        qml.Hadamard(PIXELS)
        return qml.expval(qml.PauliZ(PIXELS))

    return lambda weights, x: circuit(weights["pqc/parameters"], x)[:, None]
