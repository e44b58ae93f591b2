"""deploy/jobs/examples/maxcut.json: multi-angle QAOA of Petersen's graph."""
import pennylane as qml

EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 5), (1, 6), (2, 7), (3, 8), (4, 9), (5, 7), (6, 8), (7, 9), (8, 5), (9, 6)]
LAYERS, QUBITS = 3, 10


def model(case):
    cut = qml.Hamiltonian([0.5] * len(EDGES), [qml.PauliZ(a) @ qml.PauliZ(b) for a, b in EDGES])

    @case.circuit(QUBITS)
    def circuit(beta, gamma):
        for q in range(QUBITS):
            qml.Hadamard(q)
        for layer in range(LAYERS):
            for k, edge in enumerate(EDGES):
                qml.IsingZZ(gamma[layer, k], wires=edge)
            for q in range(QUBITS):
                qml.RX(beta[layer, q], wires=q)
        return qml.expval(cut)

    def outputs(weights, x):
        w, betas = weights["pqc/parameters"], LAYERS * QUBITS
        return circuit(w[:betas].reshape(LAYERS, QUBITS), w[betas:].reshape(LAYERS, len(EDGES)))[None, None] - len(EDGES) / 2

    return outputs
