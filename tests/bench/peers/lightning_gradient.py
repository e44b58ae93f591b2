"""PennyLane Lightning (lightning.qubit or lightning.kokkos): expectation and adjoint Jacobian at
device level, complex64, of prepared tapes, one per sample. Usage: lightning_gradient.py DEVICE"""
import sys

import numpy as np
import pennylane as qml

from cases import Case, hold_the_state
from talk import serve

GATES = {"H": qml.Hadamard, "CZ": qml.CZ, "CNOT": qml.CNOT, "RX": qml.RX, "RY": qml.RY, "RZ": qml.RZ, "RXX": qml.IsingXX,
         "RYY": qml.IsingYY, "RZZ": qml.IsingZZ}


def observable_of(case):
    paulis = {"X": qml.PauliX, "Y": qml.PauliY, "Z": qml.PauliZ}
    words = [qml.prod(*[paulis[p](q) for p, q in word]) if len(word) > 1 else paulis[word[0][0]](word[0][1]) for _, word in case.paulis]
    return words[0] if case.paulis[0][0] == 1 and len(words) == 1 else qml.Hamiltonian([np.float32(c) for c, _ in case.paulis], words)


def tape_of(case, x):
    """(tape, (weight, factor) of each of its trainable parameters)"""
    ops, trainable, of, n_numbers = [], [], [], 0
    for g in case.gates_for(x):
        if g.weight is None and g.column is None:
            ops.append(GATES[g.name](wires=g.qubits))
            continue
        angle = g.scale * (x[g.column] if g.weight is None else case.weights[g.weight])
        ops.append(GATES[g.name](np.float32(angle), wires=g.qubits))
        if g.weight is not None:
            of.append((g.weight, g.scale))
            trainable.append(n_numbers)
        n_numbers += 1
    return qml.tape.QuantumScript(ops, [qml.expval(observable_of(case))], trainable_params=trainable), of


def open_case(folder):
    case = Case(folder)
    hold_the_state(case)
    device = qml.device(sys.argv[1], wires=case.n, c_dtype=np.complex64)
    config = qml.devices.ExecutionConfig(gradient_method="adjoint", use_device_gradient=True, grad_on_execution=True)
    both = [tape_of(case, x) for x in case.x]
    tapes = [t for t, _ in both]

    def once():
        values, jacobians = device.execute_and_compute_derivatives(tapes, config)

        def result():
            rows = np.array(jacobians, dtype=float).reshape(len(tapes), -1)
            return case.loss_and_gradient(np.array(values, dtype=float).ravel(), [case.by_weight(d, of) for d, (_, of) in zip(rows, both)])

        return result

    return once


if __name__ == "__main__":
    serve(open_case)
