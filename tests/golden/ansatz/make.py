#!/usr/bin/env python3
"""Makes ansatz.json: ansätze as a job file has them, and the states that PennyLane and Qiskit have for them.

    pip install pennylane==0.45.1 qiskit==2.6.2; python tests/golden/ansatz/make.py

A row: "from" (the other program's template), "circuit" (a job's), "weights" (its parameters in the other program's order),
"x" (inputs), "state" (qubit 0 the most significant bit, [re, im] of each amplitude; a global phase is free)."""
import json
import os

import numpy
import pennylane as qml
import qiskit
from qiskit.circuit.library import efficient_su2, n_local, qaoa_ansatz, real_amplitudes, zz_feature_map
from qiskit.quantum_info import SparsePauliOp, Statevector

random = numpy.random.default_rng(16)
rows = []


def numbers(*shape):
    return random.uniform(-3, 3, size=shape)


def row(where, circuit, weights, x, state):
    rows.append({"from": where, "circuit": circuit, "weights": [float(w) for w in numpy.asarray(weights).reshape(-1)],
                 "x": [float(v) for v in x], "state": [[float(a.real), float(a.imag)] for a in numpy.asarray(state)]})


# ---- PennyLane ----

def pennylane(where, n, circuit, weights, build, x=()):
    """build() queues the gates on wires 0 ... n - 1."""
    @qml.qnode(qml.device("default.qubit", wires=n))
    def run():
        build()
        return qml.state()
    row("PennyLane " + where, {"qubits": n, **circuit} if "ansatz" in circuit else circuit, weights, x, run())


def layers():
    gates = {"CNOT": qml.CNOT, "CZ": qml.CZ, "CY": qml.CY, "CH": qml.CH, "SWAP": qml.SWAP, "ISWAP": qml.ISWAP, "SISWAP": qml.SISWAP,
             "ECR": qml.ECR}
    for n, l in (1, 2), (2, 3), (3, 1), (4, 4), (5, 2):
        w = numbers(l, n, 3)
        pennylane("StronglyEntanglingLayers", n, {"ansatz": "strongly-entangling", "layers": l}, w,
                  lambda: qml.StronglyEntanglingLayers(w, wires=range(n)))
    for name, gate in gates.items():
        w = numbers(2, 4, 3)
        pennylane("StronglyEntanglingLayers", 4, {"ansatz": "strongly-entangling", "layers": 2, "ranges": [3, 2], "entangler": name}, w,
                  lambda: qml.StronglyEntanglingLayers(w, wires=range(4), ranges=[3, 2], imprimitive=gate))
    for n, l, name in (1, 2, "RY"), (2, 2, "RX"), (3, 1, "RZ"), (4, 3, "RY"), (6, 2, "RX"):
        w = numbers(l, n)
        pennylane("BasicEntanglerLayers", n, {"ansatz": "basic-entangler", "layers": l, "rotation": name}, w,
                  lambda: qml.BasicEntanglerLayers(w, wires=range(n), rotation=getattr(qml, name)))
    for n, l in (1, 1), (2, 2), (3, 3), (6, 2):
        first, w = numbers(n), numbers(l, n - 1, 2)
        pennylane("SimplifiedTwoDesign", n, {"ansatz": "simplified-two-design", "layers": l}, numpy.concatenate([first, w.reshape(-1)]),
                  lambda: qml.SimplifiedTwoDesign(first, w, wires=range(n)))


def excitations():
    def electrons(n, m): return qml.qchem.hf_state(m, n)
    for n, m, l in (4, 2, 1), (4, 2, 2), (4, 1, 1), (6, 2, 1), (6, 3, 1), (6, 4, 1):
        singles, doubles = qml.qchem.excitations(m, n)
        s, d = qml.qchem.excitations_to_wires(singles, doubles)
        w = numbers(l, len(s) + len(d))
        pennylane("UCCSD", n, {"ansatz": "uccsd", "electrons": m, "layers": l}, w,
                  lambda: qml.UCCSD(w if l > 1 else w[0], wires=range(n), s_wires=s, d_wires=d, init_state=electrons(n, m), n_repeats=l))
        w = numbers(len(singles) + len(doubles))
        pennylane("AllSinglesDoubles", n, {"ansatz": "all-singles-doubles", "electrons": m}, w,
                  lambda: qml.AllSinglesDoubles(w, range(n), electrons(n, m), singles=singles, doubles=doubles))
    w, s, d = numbers(3), [[1, 5], [0, 2]], [[0, 2, 3, 5]]
    pennylane("UCCSD", 6, {"ansatz": "uccsd", "electrons": 3, "singles": s, "doubles": d}, w, lambda: qml.UCCSD(
        w, wires=range(6), s_wires=[list(range(a, b + 1)) for a, b in s], d_wires=[[list(range(a, b + 1)), list(range(c, e + 1))]
                                                                                  for a, b, c, e in d],
        init_state=electrons(6, 3)))
    pennylane("AllSinglesDoubles", 6, {"ansatz": "all-singles-doubles", "electrons": 3, "singles": [[5, 1], [0, 2]], "doubles": [[5, 0, 3, 2]]},
              w, lambda: qml.AllSinglesDoubles(w, range(6), electrons(6, 3), singles=[[5, 1], [0, 2]], doubles=[[5, 0, 3, 2]]))


def networks():
    def small(weights, wires):
        qml.CNOT(wires=[wires[0], wires[1]])
        qml.RY(weights[0], wires=wires[0])
        qml.RY(weights[1], wires=wires[1])

    def large(weights, wires):
        qml.StronglyEntanglingLayers(weights.reshape(2, 2, 3), wires=wires)

    block = [{"ansatz": "strongly-entangling", "layers": 2}]
    own = [{"gate": "RX", "qubits": [1], "angle": {"parameter": "b"}}, {"gate": "CZ", "qubits": [0, 1]},
           {"gate": "RZ", "qubits": [0], "angle": {"parameter": "a"}, "controls": [1], "control_values": [0]}]

    def by_hand(weights, wires):
        qml.RX(weights[1], wires=wires[1])
        qml.CZ(wires=wires)
        qml.ctrl(qml.RZ(weights[0], wires=wires[0]), control=wires[1], control_values=[False])

    for kind, cls, sizes in ("mps", qml.MPS, (2, 3, 6)), ("ttn", qml.TTN, (2, 4, 8)), ("mera", qml.MERA, (2, 4, 8)):
        for n in sizes:
            count = cls.get_n_blocks(range(n), 2)
            for f, per, extra in (small, 2, {}), (large, 12, {"block": block}), (by_hand, 2, {"block": own}):
                w = numbers(count, per)

                def build():
                    for q in range(n): qml.Hadamard(q)
                    cls(range(n), 2, f, per, w)
                pennylane(cls.__name__, n, {"qubits": n, "gates": [
                    {"repeat": n, "index": "i", "gates": [{"gate": "H", "qubits": ["i"]}]},
                    {"ansatz": "tensor-network", "kind": kind, **extra}]}, w, build)


def states():
    for n in 1, 2, 3, 5:
        for real in True, False:
            a = random.normal(size=2 ** n) + (0 if real else 1j * random.normal(size=2 ** n))
            if n == 3: a[[1, 4, 5]] = 0
            if n == 5 and not real: a[8:24] = 0
            a = a / numpy.linalg.norm(a)
            pennylane("MottonenStatePreparation", n,
                      {"ansatz": "amplitude", "state": [float(v) for v in a] if real else [[float(v.real), float(v.imag)] for v in a]},
                      [], lambda: qml.MottonenStatePreparation(a, wires=range(n)))
    pennylane("AmplitudeEmbedding", 3, {"qubits": 3, "gates": [{"ansatz": "amplitude", "qubits": [2, 0], "normalize": True,
                                                                "state": [1, -2, [0, 3], 0]}]},
              [], lambda: qml.AmplitudeEmbedding([1, -2, 3j, 0], wires=[2, 0], normalize=True) and qml.Identity(1))


def encoders():
    for n, l in (1, 1), (2, 2), (4, 1), (4, 3):
        x = numbers(n)
        pennylane("IQPEmbedding", n, {"ansatz": "iqp", "layers": l}, [], lambda: qml.IQPEmbedding(x, wires=range(n), n_repeats=l), x)
    x = numbers(5)
    ring = [(3, 0), (0, 1), (1, 2), (2, 3)]
    pennylane("IQPEmbedding", 4, {"ansatz": "iqp", "data": [4, 0, 2, 1], "entanglement": "circular"}, [],
              lambda: qml.IQPEmbedding(x[[4, 0, 2, 1]], wires=range(4), pattern=ring), x)
    for n, name in (1, "X"), (3, "Y"), (4, "Z"):
        x, w = numbers(n), numbers(1, n, 3)

        def build():
            qml.AngleEmbedding(x, wires=range(n), rotation=name)
            qml.StronglyEntanglingLayers(w, wires=range(n))
        pennylane("AngleEmbedding", n, {"qubits": n, "gates": [{"ansatz": "angle", "rotation": "R" + name}, {"ansatz": "strongly-entangling"}]},
                  w, build, x)
    x, w = numbers(4), numbers(2, 2, 3)  # data re-uploading on two of three qubits, in another order

    def build():
        for k in range(2):
            qml.AngleEmbedding(numpy.pi * x[[3, 1]], wires=[2, 0], rotation="Y")
            qml.StronglyEntanglingLayers(w[k:k + 1], wires=[2, 0])
    pennylane("data re-uploading", 3, {"qubits": 3, "gates": [{"repeat": 2, "index": "k", "gates": [
        {"ansatz": "angle", "rotation": "RY", "qubits": [2, 0], "data": [3, 1], "scale": float(numpy.pi)},
        {"ansatz": "strongly-entangling", "qubits": [2, 0], "prefix": "{k}_"}]}]}, w, build, x)


def amplitudes():
    """States of inputs: all, padded, by a list of columns, with zeros, between other gates."""
    for n in 1, 2, 3, 4, 6:
        x = numbers(2 ** n)
        pennylane("AmplitudeEmbedding", n, {"ansatz": "amplitude"}, [], lambda: qml.AmplitudeEmbedding(x, wires=range(n), normalize=True), x)
    x = numbers(16)
    x[[0, 1, 2, 3, 6, 7, 8, 11, 13]] = 0
    for y in x, numpy.eye(16)[9], -numpy.eye(16)[0], numpy.ones(16) / 4, -1e-200 * numbers(16), 1e200 * numbers(16):
        pennylane("AmplitudeEmbedding", 4, {"ansatz": "amplitude", "data": 0, "normalize": True}, [],
                  lambda: qml.AmplitudeEmbedding(y / numpy.abs(y).max(), wires=range(4), normalize=True), y)
    for n, count, pad in (2, 3, 0.0), (3, 5, 0.25), (4, 10, 0.0), (4, 4, 0.0), (4, 15, -1.5), (3, 1, 0.0):
        x = numbers(count)
        pennylane("AmplitudeEmbedding", n, {"ansatz": "amplitude", "inputs": count, "pad_with": pad}, [],
                  lambda: qml.AmplitudeEmbedding(x, wires=range(n), pad_with=pad, normalize=True), x)
    x, columns = numbers(9), [7, 2, 2, 0, 8]
    pennylane("AmplitudeEmbedding", 3, {"ansatz": "amplitude", "data": columns, "pad_with": 0.5}, [],
              lambda: qml.AmplitudeEmbedding(x[columns], wires=range(3), pad_with=0.5, normalize=True), x)
    a = random.normal(size=5)
    pennylane("AmplitudeEmbedding", 3, {"ansatz": "amplitude", "state": [float(v) for v in a], "pad_with": -0.5, "normalize": True}, [],
              lambda: qml.AmplitudeEmbedding(a, wires=range(3), pad_with=-0.5, normalize=True))
    x, w = numbers(10), numbers(2, 4, 3)

    def build():
        qml.AmplitudeEmbedding(x[2:], wires=[3, 0, 2], normalize=True)
        qml.RX(x[0], wires=1)
        qml.StronglyEntanglingLayers(w, wires=range(4))
    pennylane("AmplitudeEmbedding", 4, {"qubits": 4, "gates": [
        {"ansatz": "amplitude", "qubits": [3, 0, 2], "data": 2}, {"gate": "RX", "qubits": [1], "angle": {"data": 0}},
        {"ansatz": "strongly-entangling", "layers": 2}]}, w, build, x)


# ---- Qiskit ----

def by_name(circuit, weights):
    names = sorted(circuit.parameters, key=lambda p: (p.vector.name, p.index))
    return circuit.assign_parameters(dict(zip(names, weights)))


def qiskit_row(where, circuit, job, x=()):
    weights = numbers(circuit.num_parameters)
    state = Statevector(by_name(circuit, weights)).reverse_qargs().data
    row("Qiskit " + where, {"qubits": circuit.num_qubits, **job}, weights, x, state)


def of_qiskit():
    for pattern in "full", "linear", "circular", "reverse_linear", "sca", "pairwise":
        for n, l in (2, 3), (3, 2), (5, 7):
            if n == 5 and pattern != "sca": l = 2
            qiskit_row("RealAmplitudes", real_amplitudes(n, entanglement=pattern, reps=l),
                       {"ansatz": "hardware-efficient", "rotations": ["RY"], "entanglement": pattern, "layers": l})
        qiskit_row("EfficientSU2", efficient_su2(4, entanglement=pattern, reps=2),
                   {"ansatz": "hardware-efficient", "entanglement": pattern, "layers": 2})
    qiskit_row("EfficientSU2", efficient_su2(3), {"ansatz": "hardware-efficient"})
    qiskit_row("RealAmplitudes", real_amplitudes(4, skip_final_rotation_layer=True),
               {"ansatz": "hardware-efficient", "rotations": ["RY"], "final_rotations": False})
    qiskit_row("EfficientSU2", efficient_su2(1, reps=2), {"ansatz": "hardware-efficient", "layers": 2})
    qiskit_row("n_local", n_local(4, ["rx", "rz", "ry"], "cz", "circular", reps=2),
               {"ansatz": "hardware-efficient", "rotations": ["RX", "RZ", "RY"], "entangler": "CZ", "entanglement": "circular", "layers": 2})
    for n, options in (2, {}), (3, {"reps": 1}), (4, {"entanglement": "linear"}), (4, {"entanglement": "sca", "reps": 3}), (
            3, {"alpha": 0.7}):
        circuit, x = zz_feature_map(n, **options), numbers(n)
        job = {{"reps": "layers"}.get(k, k): v for k, v in options.items()}
        state = Statevector(by_name(circuit, x)).reverse_qargs().data
        row("Qiskit ZZFeatureMap", {"ansatz": "zz-feature-map", "qubits": n, **job}, [], x, state)
    for n, terms, l in ((2, [("Z0 Z1", 1.0)], 1), (4, [("Z0 Z1", 0.5), ("Z1 Z2", -1.25), ("Z0 Z3", 1.0), ("Z2", 0.7)], 3),
                        (5, [("Z0 Z2 Z4", 0.3), ("Z1 Z3", -1.0), ("Z4", 2.0), ("Z0 Z1 Z2 Z3", 0.1)], 2)):
        operator = SparsePauliOp.from_sparse_list(
            [(t.replace(" ", "").translate(str.maketrans("", "", "0123456789")), [int(q[1:]) for q in t.split()], c) for t, c in terms], n)
        cost = " + ".join(f"{c!r}*{t}" for t, c in terms).replace("+ -", "- ")
        qiskit_row("QAOAAnsatz", qaoa_ansatz(operator, reps=l), {"ansatz": "qaoa", "cost": cost if n != 4 else [f"{c!r}*{t}" for t, c in terms],
                                                                 "layers": l})


layers()
states()
excitations()
networks()
encoders()
of_qiskit()
amplitudes()
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "ansatz.json"), "w", encoding="utf-8") as f:
    f.write(json.dumps({"pennylane": qml.__version__, "qiskit": qiskit.__version__})[:-1] + ', "rows": [\n')
    f.write(",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]}\n")
print(len(rows), "rows")
