"""deploy/jobs/examples/vqe-h2.json: one double excitation of the Hartree-Fock state."""
import pennylane as qml

PAULIS = {"X": qml.PauliX, "Y": qml.PauliY, "Z": qml.PauliZ}


def hamiltonian(path):
    coefficients, operators = [], []
    with open(path) as f:
        for line in f:
            coefficient, *paulis = line.partition("#")[0].split() or [None]
            if coefficient is not None:
                coefficients.append(float(coefficient))
                operators.append(qml.prod(*[PAULIS[p[0]](int(p[1:])) for p in paulis]) if paulis else qml.Identity(0))
    return qml.Hamiltonian(coefficients, operators)


def model(case):
    energy = hamiltonian(case.folder + "/h2.txt")

    @case.circuit(4)
    def circuit(w):
        qml.BasisState([1, 1, 0, 0], wires=range(4))
        qml.DoubleExcitation(w[0], wires=range(4))
        return qml.expval(energy)

    return lambda weights, x: circuit(weights["pqc/parameters"])[None, None]
