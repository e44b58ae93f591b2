"""PennyLane Lightning's side: expectation and adjoint Jacobian at device level, complex64, of tapes that are there already, one a sample. A
gate's power of t is its rotation by pi t, up to a phase."""
import math

import numpy as np
import pennylane as qml

from cases import Case, stages
from talk import serve


class Tape:
    """Operations, and which weight (with what factor) each trainable number is."""

    def __init__(self, weights):
        self.weights, self.ops, self.trainable, self.of, self.n_numbers = weights, [], [], [], 0

    def fixed(self, op):
        self.ops.append(op)
        self.n_numbers += op.num_params

    def power(self, gate, wires, k, sign=1):
        self.of.append((k, sign * math.pi))
        self.trainable.append(self.n_numbers)
        self.fixed(gate(np.float32(sign * math.pi * self.weights[k]), wires=wires))

    def rotate(self, q, k):
        for i, gate in enumerate((qml.RX, qml.RY, qml.RZ)):
            self.power(gate, q, k + i)

    def entangle(self, a, b, k):
        self.rotate(a, k)
        self.rotate(b, k + 3)
        for i, gate in enumerate((qml.IsingZZ, qml.IsingYY, qml.IsingXX)):
            self.power(gate, [a, b], k + 6 + i)
        self.rotate(a, k + 9)
        self.rotate(b, k + 12)

    def stage(self, bits, k):
        half = len(bits) // 2
        for a, b in list(zip(bits[0::2], bits[1::2])) + list(zip(bits[1::2], bits[2::2] + bits[:1])):
            self.entangle(a, b, k)
        for source, sink in zip(bits[:half], bits[half:]):
            self.rotate(sink, k + 15)
            self.rotate(source, k + 18)
            self.fixed(qml.CNOT(wires=[source, sink]))
            for i, gate in ((2, qml.RZ), (1, qml.RY), (0, qml.RX)):
                self.power(gate, sink, k + 15 + i, -1)


def tape_of(case, qubit, angle):
    t, n = Tape(case.weights), case.n
    for q in range(n):
        t.fixed(qml.Hadamard(q))
    for q in range(n):
        t.fixed(qml.CZ(wires=[q, (q + 1) % n]))
    t.fixed(qml.RX(np.float32(angle), wires=qubit))
    for k, bits in enumerate(stages(case.kind, n)):
        t.stage(bits, 21 * k)
    return qml.tape.QuantumScript(t.ops, [qml.expval(qml.PauliZ(n - 1))], trainable_params=t.trainable), t.of


def open_case(path):
    case = Case(path)
    device = qml.device("lightning.qubit", wires=case.n, c_dtype=np.complex64)
    config = qml.devices.ExecutionConfig(gradient_method="adjoint", use_device_gradient=True, grad_on_execution=True)
    both = [tape_of(case, qubit, angle) for qubit, angle in case.samples]
    tapes, of = [t for t, _ in both], both[0][1]

    def once():
        values, jacobians = device.execute_and_compute_derivatives(tapes, config)

        def result():
            off = np.array(values, dtype=float).ravel() - case.labels
            per_number = 2 * off @ np.array(jacobians, dtype=float).reshape(len(tapes), -1) / len(tapes)
            gradient = np.zeros(len(case.weights))
            for (k, factor), d in zip(of, per_number):
                gradient[k] += factor * d
            return np.mean(off ** 2), gradient

        return result

    return once


serve(open_case)
