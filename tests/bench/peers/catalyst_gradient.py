"""Catalyst: PennyLane's circuit over all samples with its adjoint gradient, in one program compiled
ahead of time (complex128, the only precision)."""
import catalyst
import jax
import jax.numpy as jnp
import numpy as np
import pennylane as qml

from cases import Case, hold_the_state
from talk import serve

GATES = {"H": qml.Hadamard, "CZ": qml.CZ, "CNOT": qml.CNOT, "RX": qml.RX, "RY": qml.RY, "RZ": qml.RZ, "RXX": qml.IsingXX,
         "RYY": qml.IsingYY, "RZZ": qml.IsingZZ}


def open_case(folder):
    case = Case(folder)
    hold_the_state(case)
    words = [qml.prod(*[qml.PauliZ(q) for q in qubits]) if len(qubits) > 1 else qml.PauliZ(*qubits) for _, qubits in case.observable]
    coefficients = np.array([c for c, _ in case.observable])

    n_weights = len(case.weights)

    @qml.qnode(qml.device("lightning.qubit", wires=case.n), diff_method="adjoint")
    def value(numbers):  # weights, then a sample's inputs: the gradient takes one argument
        for g in case.gates:
            if g.weight is None and g.column is None:
                GATES[g.name](wires=g.qubits)
            else:
                GATES[g.name](g.scale * numbers[n_weights + g.column if g.weight is None else g.weight], wires=g.qubits)
        return qml.expval(qml.Hamiltonian(coefficients, words))

    @qml.qjit
    def step(weights, x, labels):
        @catalyst.for_loop(0, len(case.x), 1)
        def add(i, sums):
            v, d = catalyst.value_and_grad(value)(jnp.concatenate([weights, x[i]]))
            off = v + case.offset - labels[i]
            return sums[0] + off ** 2, sums[1] + 2 * off * d[:n_weights]

        loss, gradient = add((jnp.float64(0), jnp.zeros(n_weights)))
        return loss / len(case.x), gradient / len(case.x)

    weights, x, labels = (jnp.array(v, dtype=jnp.float64) for v in (case.weights, case.x, case.labels))

    def once():
        out = jax.block_until_ready(step(weights, x, labels))
        return lambda: out

    return once


jax.config.update("jax_enable_x64", True)
serve(open_case)
