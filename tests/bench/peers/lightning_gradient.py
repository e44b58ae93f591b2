"""PennyLane Lightning's side: expectation and adjoint Jacobian at device level, complex64, of tapes that are there already, one a sample. A
gate's power of t is its rotation by pi t, up to a phase."""
import math

import numpy as np
import pennylane as qml

from cases import Case
from talk import serve


class Tape:
    """Operations, and which parameter of the model (with what factor) each trainable number is."""

    def __init__(self, theta):
        self.theta, self.ops, self.trainable, self.of = theta, [], [], []
        self.n_numbers = 0

    def fixed(self, op):
        self.ops.append(op)
        self.n_numbers += op.num_params

    def power(self, gate, wires, k, sign=1):
        self.of.append((k, sign * math.pi))
        self.trainable.append(self.n_numbers)
        self.fixed(gate(np.float32(sign * math.pi * self.theta[k]), wires=wires))

    def rotate(self, q, k):
        for i, gate in enumerate((qml.RX, qml.RY, qml.RZ)):
            self.power(gate, q, k + i)

    def entangle(self, a, b, index):
        self.rotate(a, index[0])
        self.rotate(b, index[3])
        for i, gate in enumerate((qml.IsingZZ, qml.IsingYY, qml.IsingXX)):
            self.power(gate, [a, b], index["zyx"][i])
        self.rotate(a, index[9])
        self.rotate(b, index[12])

    def stage(self, bits, index):
        half = len(bits) // 2
        for a, b in list(zip(bits[0::2], bits[1::2])) + list(zip(bits[1::2], bits[2::2] + bits[:1])):
            self.entangle(a, b, index)
        for source, sink in zip(bits[:half], bits[half:]):
            self.rotate(sink, index[15])
            self.rotate(source, index[18])
            self.fixed(qml.CNOT(wires=[source, sink]))
            for i, gate in ((2, qml.RZ), (1, qml.RY), (0, qml.RX)):
                self.power(gate, sink, index[15] + i, -1)
        return bits[half:]


def tape_of(case, qubit, angle):
    t, bits = Tape(case.theta), list(range(case.n))
    for q in bits:
        t.fixed(qml.Hadamard(q))
    for q in bits:
        t.fixed(qml.CZ(wires=[q, (q + 1) % case.n]))
    t.fixed(qml.RX(np.float32(angle), wires=qubit))
    research = case.variant == "research"
    k = 0
    while len(bits) > 1 and (case.stages == 0 or k < case.stages):
        # the research variant lacks symbol 6, so that those after it move down by one, and XX has X's of the first qubit
        first, skip = (20 if research else 21) * k, int(research)
        index = {s: first + s - (skip if s > 6 else 0) for s in (0, 3, 9, 12, 15, 18)}
        index["zyx"] = [first + 6, first + 7, first + 8]
        bits, k = t.stage(bits, index), k + 1
    tape = qml.tape.QuantumScript(t.ops, [qml.expval(qml.PauliZ(q)) for q in bits], trainable_params=t.trainable)
    return tape, t.of


def open_case(path):
    case = Case(path)
    device = qml.device("lightning.qubit", wires=case.n, c_dtype=np.complex64)
    config = qml.devices.ExecutionConfig(gradient_method="adjoint", use_device_gradient=True, grad_on_execution=True)
    tapes, of = [], None
    for qubit, angle in case.samples:
        tape, of = tape_of(case, qubit, angle)
        tapes.append(tape)

    def once():
        values, jacobians = device.execute_and_compute_derivatives(tapes, config)

        def result():
            gradient = np.zeros(len(case.theta))
            for jacobian in jacobians:
                per_number = np.array(jacobian, dtype=float).reshape(-1, len(of)).sum(axis=0)
                for (k, factor), d in zip(of, per_number):
                    gradient[k] += factor * d
            return sum(np.sum(v) for v in values) / len(tapes), gradient / len(tapes)

        return result

    return once


serve(open_case)
