#!/usr/bin/env python3
"""Makes gates.json: gates as a job file has them, and the matrices that PennyLane and Qiskit have for them.

    pip install pennylane==0.45.1 qiskit==2.6.2; python tests/golden/gates/make.py

A row: "from" (the other program's gate), "circuit" (a job's, one gate), "matrix" (of all its qubits, qubit 0 the most
significant bit, row-major, [re, im] of each entry). Phases count, but where "phase" is false: there no control stands before
the gate, and a global phase is left out."""
import json
import os

import numpy
import pennylane as qml
import qiskit
from qiskit.circuit import library as q
from qiskit.quantum_info import Operator

A, B, C, D = 0.7, -1.3, 2.1, 0.45
random = numpy.random.default_rng(3)


def unitary(dim):
    m, r = numpy.linalg.qr(random.normal(size=(dim, dim)) + 1j * random.normal(size=(dim, dim)))
    return m * (numpy.diag(r) / abs(numpy.diag(r)))


def entries(m):
    return [[[float(z.real), float(z.imag)] for z in row] for row in m]


def rows_of_pennylane():
    """(class, its parameters, our name, our arguments, qubits)"""
    one = [("PauliX", "PauliX"), ("PauliY", "PauliY"), ("PauliZ", "PauliZ"), ("Hadamard", "Hadamard"), ("Identity", "Identity"),
           ("S", "S"), ("T", "T"), ("SX", "SX")]
    for name, ours in one: yield getattr(qml, name), (), ours, {}, 1
    for name, ours in (("S", "Sdg"), ("T", "Tdg"), ("SX", "SXdg")):
        yield (lambda wires, name=name: qml.adjoint(getattr(qml, name)(wires=wires))), (), ours, {}, 1
    for name in "PhaseShift", "U1": yield getattr(qml, name), (A,), name, {"angle": A}, 1
    for name in "RX", "RY", "RZ": yield getattr(qml, name), (A,), name, {"angle": A}, 1
    yield qml.U2, (A, B), "U2", {"phi": A, "delta": B}, 1
    yield qml.U3, (A, B, C), "U3", {"theta": A, "phi": B, "delta": C}, 1
    yield qml.Rot, (A, B, C), "Rot", {"phi": A, "theta": B, "omega": C}, 1
    for name in "CNOT", "CZ", "CY", "CH", "SWAP", "ISWAP", "SISWAP", "SQISW", "ECR": yield getattr(qml, name), (), name, {}, 2
    for name in ("ControlledPhaseShift", "CPhase", "CRX", "CRY", "CRZ", "IsingXX", "IsingYY", "IsingZZ", "IsingXY", "PSWAP",
                 "SingleExcitation"):
        yield getattr(qml, name), (A,), name, {"angle": A}, 2
    yield qml.CRot, (A, B, C), "CRot", {"phi": A, "theta": B, "omega": C}, 2
    for name in "Toffoli", "CSWAP", "CCZ": yield getattr(qml, name), (), name, {}, 3
    yield qml.DoubleExcitation, (A,), "DoubleExcitation", {"angle": A}, 4
    yield (lambda wires: qml.MultiControlledX(wires=wires)), (), "MultiControlledX", {}, 4
    for n in 1, 2, 3, 4: yield qml.MultiRZ, (A,), "MultiRZ", {"angle": A}, n
    for word in "X", "Y", "Z", "XX", "YY", "XY", "ZY", "IX", "XYZ", "YIZ", "YYY", "XIIY", "ZXYX":
        yield (lambda angle, wires, word=word: qml.PauliRot(angle, word, wires=wires)), (A,), "PauliRot", {
            "pauli_word": word, "angle": A}, len(word)
    for n in 1, 2:
        for m in unitary(2 ** n), unitary(2 ** n).conj() * 1j:
            yield qml.QubitUnitary, (m,), "QubitUnitary", {"matrix": entries(m)}, n
    for state in "0110", "1", "00":
        yield qml.BasisState, ([int(s) for s in state],), "BasisState", {"state": state}, len(state)


def rows_of_qiskit():
    """(gate, our name, our arguments)"""
    for cls, ours in ((q.SGate, "S"), (q.SdgGate, "Sdg"), (q.TGate, "T"), (q.TdgGate, "Tdg"), (q.SXGate, "SX"), (q.SXdgGate, "SXdg"),
                      (q.CXGate, "CX"), (q.CYGate, "CY"), (q.CZGate, "CZ"), (q.CHGate, "CH"), (q.CSGate, "CS"), (q.CSdgGate, "CSdg"),
                      (q.CSXGate, "CSX"), (q.DCXGate, "DCX"), (q.ECRGate, "ECR"), (q.iSwapGate, "iSWAP"), (q.CCXGate, "CCX"),
                      (q.CCZGate, "CCZ"), (q.CSwapGate, "CSWAP")):
        yield cls(), ours, {}
    for cls, ours in ((q.PhaseGate, "P"), (q.U1Gate, "U1"), (q.CPhaseGate, "CP"), (q.CU1Gate, "CU1"), (q.CRXGate, "CRX"),
                      (q.CRYGate, "CRY"), (q.CRZGate, "CRZ"), (q.RXXGate, "RXX"), (q.RYYGate, "RYY"), (q.RZZGate, "RZZ"),
                      (q.RZXGate, "RZX")):
        yield cls(A), ours, {"angle": A}
    yield q.U2Gate(A, B), "U2", {"phi": A, "lambda": B}
    yield q.UGate(A, B, C), "U", {"theta": A, "phi": B, "lambda": C}
    yield q.U3Gate(A, B, C), "U3", {"theta": A, "phi": B, "lambda": C}
    yield q.CU3Gate(A, B, C), "CU3", {"theta": A, "phi": B, "lambda": C}
    yield q.CUGate(A, B, C, D), "CU", {"theta": A, "phi": B, "lambda": C, "gamma": D}
    yield q.RGate(A, B), "R", {"theta": A, "phi": B}
    for n in 2, 4: yield q.MCXGate(n), "MCX", {}
    for n in 1, 3: yield q.MCPhaseGate(A, n), "MCP", {"angle": A}
    for n in 2, 4: yield q.MSGate(n, A), "MS", {"angle": A}
    for n in 1, 2:
        m = unitary(2 ** n)
        yield q.UnitaryGate(m), "UnitaryGate", {"matrix": entries(Operator(m).reverse_qargs().data)}  # our first qubit is its last


def number(x):
    return int(x) if x == int(x) else float(x)


def row(where, name, arguments, n, total, matrix, controls=None):
    gate = {"gate": name, "qubits": list(range(n)), **arguments, **(controls or {})}
    rows.append({"from": where, "circuit": {"qubits": total, "gates": [gate]}, "phase": "matrix" not in arguments or bool(controls),
                 "matrix": [[number(z.real), number(z.imag)] for z in numpy.asarray(matrix).reshape(-1)]})


rows = []
for cls, parameters, name, arguments, n in rows_of_pennylane():
    op = cls(*parameters, wires=range(n))
    row("PennyLane " + op.name, name, arguments, n, n, qml.matrix(op, wire_order=range(n)))
    controls, on = ([n + 1, n], [0, 1]) if n < 3 else ([n], [0])
    total = n + len(controls)
    controlled = qml.ctrl(op, control=controls, control_values=[bool(v) for v in on])
    row("PennyLane " + controlled.name, name, arguments, n, total, qml.matrix(controlled, wire_order=range(total)),
        {"controls": controls, "control_values": on})
for gate, name, arguments in rows_of_qiskit():
    n = gate.num_qubits
    row("Qiskit " + gate.name, name, arguments, n, n, Operator(gate).reverse_qargs().data)
    if n > 2: continue
    controlled = qiskit.QuantumCircuit(n + 1)  # Qiskit has controls in front
    controlled.append(gate.control(1, annotated=False), [n] + list(range(n)))
    row("Qiskit c-" + gate.name, name, arguments, n, n + 1, Operator(controlled).reverse_qargs().data, {"controls": [n]})
with open(os.path.join(os.path.dirname(__file__), "gates.json"), "w", encoding="utf-8") as f:
    f.write(json.dumps({"pennylane": qml.__version__, "qiskit": qiskit.__version__})[:-1] + ', "rows": [\n')
    f.write(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]}\n")
print(len(rows), "rows")
