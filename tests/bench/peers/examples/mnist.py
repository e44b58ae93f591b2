"""deploy/jobs/examples/mnist.json: the classifier of TFQ's MNIST tutorial."""
import math

import pennylane as qml

PIXELS = 16


def model(case):
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
