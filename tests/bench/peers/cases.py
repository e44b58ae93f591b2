"""The cases. A case is a folder that every program reads: job.json, a job of qring; data.csv, its
samples; weights.safetensors. The result is the gradient of the mean squared error over all
samples with respect to the circuit's weights (and the head's, where a program computes it
anyway). All numbers are reproducible."""
import collections
import csv
import fractions
import itertools
import json
import math
import os
import random
import re
import struct

# Programs besides qring. tfq and lightning run the tutorial's circuits, the others what is fastest
# in each.
STATES = ("lightning", "kokkos", "qulacs", "scaluq", "mindquantum", "catalyst", "jax", "tensorcircuit")
SLOW = ("tfq",) + STATES[:6]  # one circuit per sample, the whole state: 64 samples of 20 qubits would take minutes
CASES = [  # name, qubits, batch, repetitions, programs; "2": qring and TensorFlow Quantum on two cores too
    ("qcnn-pure", 8, 16, 21, ("tfq", "2")),
    ("qcnn-pure", 8, 64, 21, ("tfq", "2") + STATES),
    ("qcnn-pure", 8, 112, 15, ("tfq", "2")),
    ("qcnn-hybrid", 8, 64, 21, ("tfq", "2") + STATES),
    ("qcnn-pure", 12, 16, 21, ("tfq", "2") + STATES),
    ("qcnn-pure", 16, 16, 7, ("tfq", "2") + STATES),
    ("qcnn-pure", 20, 2, 7, ("tfq", "2", "statevector") + STATES),
    ("qcnn-hybrid", 12, 64, 7, ("tfq",) + STATES + ("contraction",)),
    ("qcnn-hybrid", 16, 64, 5, ("jax", "contraction")),
    ("qcnn-hybrid", 20, 64, 5, ("jax", "contraction")),
    ("qcnn-hybrid", 23, 64, 5, ("jax", "contraction")),
    ("qcnn-hybrid", 16, 4, 5, SLOW + ("jax", "tensorcircuit")),
    ("qcnn-hybrid", 20, 1, 5, SLOW + ("jax", "tensorcircuit")),
    ("qaoa-1", 20, 1, 7, STATES + ("contraction",)),
    ("qaoa-2", 20, 1, 7, STATES + ("contraction",)),
    ("qaoa-1", 100, 1, 7, STATES + ("contraction",)),
    ("qaoa-2", 100, 1, 5, STATES + ("contraction",)),
    ("layers-4", 16, 1, 11, STATES),
    ("layers-4", 20, 1, 7, STATES),
    ("data-layers-2", 4, 1000, 11, STATES),
    ("data-layers-6", 10, 64, 5, STATES),
    # deep circuits whose read-outs depend on all gates
    ("ising-10", 12, 1, 21, ("2",) + STATES),
    ("ising-10", 16, 1, 11, ("2",) + STATES),
    ("ising-10", 20, 1, 5, ("2",) + STATES),
    ("ising-10", 24, 1, 2, ("2",) + STATES),
    ("cnot-layers-10", 12, 1, 21, STATES),
    ("cnot-layers-10", 16, 1, 11, ("2",) + STATES),
    ("cnot-layers-10", 20, 1, 5, ("2",) + STATES),
    ("cnot-layers-10", 24, 1, 2, STATES),
    ("brickwork-10", 12, 1, 21, STATES),
    ("brickwork-10", 16, 1, 11, ("2",) + STATES),
    ("brickwork-10", 20, 1, 5, STATES),
    ("qaoa-8", 20, 1, 5, STATES),
    ("uccsd-6", 12, 1, 3, STATES),
    ("qcnn-exact", 8, 1, 5, ("mixed", "aer")),
    ("qcnn-trajectories", 8, 1, 3, ("tfq", "2", "noiseless", "qsim", "aer")),
    ("qcnn-shots", 8, 1, 3, ("tfq", "2", "qsim", "aer")),
    ("qcnn-exact", 12, 1, 2, ("aer",)),
    ("qcnn-trajectories", 12, 1, 3, ("tfq", "2", "noiseless", "qsim", "aer")),
    ("qcnn-shots", 12, 1, 3, ("tfq", "qsim", "aer")),
]
# The tutorial's circuit with depolarizing noise on each qubit of a gate after it; estimates are
# means over REPETITIONS
NOISE, REPETITIONS = 0.01, 64
NOISY = {"qcnn-exact": {"method": "exact"}, "qcnn-trajectories": {"method": "trajectories", "trajectories": REPETITIONS},
         "qcnn-shots": {"method": "trajectories", "trajectories": REPETITIONS, "shots": REPETITIONS}}
ESTIMATED = "qcnn-trajectories", "qcnn-shots"
LONG_CASES = [
    ("qcnn-pure", 22, 2, 5, ("tfq", "2")),
    ("qcnn-pure", 23, 1, 5, ("tfq", "2")),
]

# A gate's angle is scale times the circuit's weight number `weight`, or times the sample's input
# `column`, in radians; a gate with neither is fixed. Rotations are e^(-i angle P / 2) with P = X,
# Y, Z, XX, YY or ZZ; the others are H, CZ, CNOT (control first).
Gate = collections.namedtuple("Gate", "name qubits weight column scale", defaults=(None, None, 1.0))


def stages(n, most=None):
    """Each stage's qubits; pooling keeps the unpaired last qubit of an odd number."""
    bits, k = list(range(n)), 0
    while len(bits) > 1 and k != most:
        yield bits
        bits, k = bits[len(bits) // 2:], k + 1


def qcnn(n, most=None):
    """The tutorial's circuit; a gate to the power t is a rotation by pi t, up to a phase."""
    gates = [Gate("H", (q,)) for q in range(n)] + [Gate("CZ", (q, (q + 1) % n)) for q in range(n)]
    gates += [Gate("RX", (q,), column=q) for q in range(n)]

    def rotate(q, w):
        return [Gate(name, (q,), weight=w + i, scale=math.pi) for i, name in enumerate(("RX", "RY", "RZ"))]

    for k, bits in enumerate(stages(n, most)):
        w, half = 21 * k, len(bits) // 2
        for a, b in list(zip(bits[0::2], bits[1::2])) + list(zip(bits[1::2], bits[2::2] + bits[:1])):
            gates += rotate(a, w) + rotate(b, w + 3)
            gates += [Gate(name, (a, b), weight=w + 6 + i, scale=math.pi) for i, name in enumerate(("RZZ", "RYY", "RXX"))]
            gates += rotate(a, w + 9) + rotate(b, w + 12)
        for a, b in zip(bits[:half], bits[half:]):
            back = [g._replace(scale=-math.pi) for g in reversed(rotate(b, w + 15))]
            gates += rotate(b, w + 15) + rotate(a, w + 18) + [Gate("CNOT", (a, b))] + back
    return gates


def graph(n):
    """Edges of a reproducible random 3-regular graph: three ends per vertex, shuffled and joined in
    pairs, repeated until there is no double edge and no loop."""
    rng, edges = random.Random("graph %d" % n), []
    while len(set(edges)) < 3 * n // 2 or any(a == b for a, b in edges):
        ends = [v for v in range(n) for _ in range(3)]
        rng.shuffle(ends)
        edges = [(min(e), max(e)) for e in zip(ends[0::2], ends[1::2])]
    return sorted(edges)


def qaoa(n, p):
    """QAOA of MaxCut: p times ZZ on each edge by one angle and X on each vertex by another. The
    read-out is the cost: the sum of Z Z over edges."""
    gates = [Gate("H", (q,)) for q in range(n)]
    for k in range(p):
        gates += [Gate("RZZ", e, weight=2 * k) for e in graph(n)] + [Gate("RX", (q,), weight=2 * k + 1) for q in range(n)]
    return gates, [" + ".join("Z%d Z%d" % e for e in graph(n))]


def layers(n, depth, data, ring="CZ"):
    """A hardware-efficient ansatz: `depth` layers of RY and RZ on each qubit and a ring of CZ or
    CNOT; with `data`, RX of an input before each layer. The read-out is the sum of all Z."""
    gates = []
    for k in range(depth):
        gates += [Gate("RX", (q,), column=q) for q in range(n) if data]
        gates += [Gate(name, (q,), weight=2 * (k * n + q) + i) for q in range(n) for i, name in enumerate(("RY", "RZ"))]
        gates += [Gate(ring, (q, (q + 1) % n)) for q in range(n)]
    return gates, [" + ".join("Z%d" % q for q in range(n))]


def ising(n, depth):
    """The ansatz for the transverse-field Ising chain: H, then `depth` times RZZ on each bond and
    RX on each site, an angle each. The read-out is the energy."""
    gates, w = [Gate("H", (q,)) for q in range(n)], 0
    for _ in range(depth):
        gates += [Gate("RZZ", (q, q + 1), weight=w + q) for q in range(n - 1)] + [Gate("RX", (q,), weight=w + n - 1 + q) for q in range(n)]
        w += 2 * n - 1
    return gates, [" + ".join(["Z%d Z%d" % (q, q + 1) for q in range(n - 1)] + ["X%d" % q for q in range(n)])]


def brickwork(n, depth):
    """Layers of two-qubit blocks, general unitaries of 15 angles. The read-out is the sum of all
    Z."""
    gates, w = [], 0
    for k in range(depth):
        for q in range(k % 2, n - 1, 2):
            one = [(name, (b,)) for b in (q, q + 1) for name in ("RZ", "RY", "RZ")]
            block = one + [(name, (q, q + 1)) for name in ("RXX", "RYY", "RZZ")] + one
            gates += [Gate(name, qubits, weight=w + i) for i, (name, qubits) in enumerate(block)]
            w += len(block)
    return gates, [" + ".join("Z%d" % q for q in range(n))]


# Excitations by gates with real amplitudes (arXiv:2104.05695): of one electron from qubit 0 to 1,
# and of two from 0 and 1 to 2 and 3. The number after RY's qubit is its fraction of the angle.
SINGLE = "CNOT 0 1, RY 0 1/2, CNOT 1 0, RY 0 -1/2, CNOT 1 0, CNOT 0 1"
DOUBLE = ("CNOT 2 3, CNOT 0 2, H 3, H 0, CNOT 2 3, CNOT 0 1, RY 1 1/8, RY 0 -1/8, CNOT 0 3, H 3, CNOT 3 1, RY 1 1/8, RY 0 -1/8, CNOT 2 1, "
          "CNOT 2 0, RY 1 -1/8, RY 0 1/8, CNOT 3 1, H 3, CNOT 0 3, RY 1 -1/8, RY 0 1/8, CNOT 0 1, CNOT 2 0, H 0, H 3, CNOT 0 2, CNOT 2 3")


def excitation(words, qubits, weight):
    for word in words.split(", "):
        name, *at = word.split()
        if name == "RY":
            yield Gate(name, (qubits[int(at[0])],), weight=weight, scale=float(fractions.Fraction(at[1])))
        else:
            yield Gate(name, tuple(qubits[int(q)] for q in at))


def uccsd(n, electrons):
    """All excitations of one and of two electrons that conserve the spin (q mod 2), an angle each,
    from occupied qubits (prepared by RY) to the others. The read-out is the energy of electrons
    with hopping and repulsion."""
    low, high = range(electrons), range(electrons, n)
    gates = [Gate("RY", (q,), weight=q) for q in low]
    pairs = [(i, a) for i in low for a in high if i % 2 == a % 2]
    fours = [(i, j, a, b) for i, j in itertools.combinations(low, 2) for a, b in itertools.combinations(high, 2)
             if sorted((i % 2, j % 2)) == sorted((a % 2, b % 2))]
    for k, qubits in enumerate(pairs + fours):
        gates += excitation(SINGLE if len(qubits) == 2 else DOUBLE, qubits, electrons + k)
    hops = ["%s%d Z%d %s%d" % (p, q, q + 1, p, q + 2) for q in range(n - 2) for p in "XY"]
    return gates, [" + ".join(hops + ["Z%d Z%d" % (q, q + 1) for q in range(0, n, 2)])]


def as_json(gate):
    """A gate in the form of a job file"""
    name = gate.name[1:] if gate.name in ("RXX", "RYY", "RZZ") else gate.name
    if gate.weight is None and gate.column is None:
        return {"gate": name, "qubits": gate.qubits}
    by = {"parameter": "w%d" % gate.weight} if gate.column is None else {"data": gate.column}
    return {"gate": name, "qubits": gate.qubits, "angle": dict(by, scale=gate.scale)}


def model_of(name, n):
    """(quantum layer, period of its weights, units of the dense layers)"""
    kind, _, size = name.rpartition("-")
    if kind == "qcnn":
        left = list(range(n // 2, n // 2 * 2)) if size == "hybrid" else [n - 1]
        circuit = dict({"ansatz": "qcnn", "qubits": n}, **({"stages": 1} if size == "hybrid" else {}))
        if name in NOISY:
            circuit["noise"] = {"after": {"*": {"channel": "Depolarize", "p": NOISE}}}
        layer = dict(NOISY.get(name, {}), layer="quantum", circuit=circuit, readouts=["Z%d" % q for q in left])
        return layer, 2, [8, 1] if size == "hybrid" else []
    kinds = {"qaoa": qaoa, "ising": ising, "brickwork": brickwork, "layers": lambda n, k: layers(n, k, False),
             "data-layers": lambda n, k: layers(n, k, True), "cnot-layers": lambda n, k: layers(n, k, False, "CNOT"), "uccsd": uccsd}
    gates, readouts = kinds[kind](n, int(size))
    circuit = {"qubits": n, "gates": [as_json(g) for g in gates]}
    return {"layer": "quantum", "circuit": circuit, "readouts": readouts}, 2 * math.pi, []


def gates_of(circuit):
    if "ansatz" in circuit:
        return qcnn(circuit["qubits"], circuit.get("stages"))
    gates = []
    for g in circuit["gates"]:
        angle, name = g.get("angle"), g["gate"] if g["gate"] not in ("XX", "YY", "ZZ") else "R" + g["gate"]
        by = {} if angle is None else {"column": angle["data"]} if "data" in angle else {"weight": int(angle["parameter"][1:])}
        gates.append(Gate(name, tuple(g["qubits"]), scale=angle["scale"] if angle else 1.0, **by))
    return gates


def write_safetensors(path, tensors):
    """name -> (shape, numbers), float64"""
    head, at = {}, 0
    for name, (shape, numbers) in tensors.items():
        head[name] = {"dtype": "F64", "shape": shape, "data_offsets": [at, at + 8 * len(numbers)]}
        at += 8 * len(numbers)
    text = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(struct.pack("<%dd" % len(v), *v) for _, v in tensors.values()))


def read_safetensors(path):
    with open(path, "rb") as f:
        size, = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(size)), f.read()
    slices = {name: data[t["data_offsets"][0]:t["data_offsets"][1]] for name, t in head.items()}
    return {name: [v for v, in struct.iter_unpack("<d", part)] for name, part in slices.items()}


def float32(v):
    return struct.unpack("f", struct.pack("f", v))[0]


def write_case(folder, name, n, batch):
    """Weights are float32 numbers over their whole period. A sample of the tutorial is one RX,
    whose exponent has six decimals, the precision that reaches TFQ's simulator."""
    os.makedirs(folder, exist_ok=True)
    rng = random.Random("%s %d" % ("qcnn-pure" if name in NOISY else name, n))
    quantum, period, units = model_of(name, n)
    n_weights = 1 + max(g.weight for g in gates_of(quantum["circuit"]) if g.weight is not None)
    tensors = {"pqc/parameters": ([n_weights], [float32(rng.uniform(0, period)) for _ in range(n_weights)])}
    inputs = len(quantum["readouts"])
    for i, u in enumerate(units):
        dense = "dense_%d" % i if i else "dense"
        tensors[dense + "/kernel"] = [inputs, u], [float32(rng.uniform(-0.7, 0.7)) for _ in range(inputs * u)]
        tensors[dense + "/bias"] = [u], [float32(rng.uniform(-0.7, 0.7)) for _ in range(u)]
        inputs = u
    write_safetensors(folder + "/weights.safetensors", tensors)
    job = {"name": name, "model": [quantum] + [{"layer": "dense", "units": u} for u in units],
           "data": {"source": "csv", "url": folder + "/data.csv"},
           "train": {"batch_size": batch, "loss": "mse", "initial_weights": folder + "/weights.safetensors"}}
    with open(folder + "/job.json", "w") as f:
        json.dump(job, f, indent=1)
    columns = n if name.startswith(("qcnn", "data-layers")) else 1  # data need at least one column
    with open(folder + "/data.csv", "w") as f:
        f.write(",".join(["x%d" % q for q in range(columns)] + ["y"]) + "\n")
        for _ in range(batch):
            exponent, x = round(rng.uniform(-1, 1), 6), [0.0] * columns
            if name.startswith("qcnn"):
                x[rng.randrange(n)] = exponent * math.pi
            elif columns > 1:
                x = [rng.uniform(-math.pi, math.pi) for _ in x]
            f.write(",".join([repr(v) for v in x] + ["1" if abs(exponent) <= 0.5 else "-1"]) + "\n")


def observable_of(text):
    """A read-out as [(coefficient, [(X, Y or Z, qubit)])]"""
    return [(1.0, [(p, int(q)) for p, q in re.findall(r"([XYZ])(\d+)", term)]) for term in text.split(" + ")]


class Case:
    """A case as a peer reads it. The head is affine, so the prediction is the value of `observable`
    plus `offset`."""

    def __init__(self, folder):
        with open(folder + "/job.json") as f:
            job = json.load(f)
        quantum = job["model"][0]
        self.name, self.n, self.stages = job["name"], quantum["circuit"]["qubits"], quantum["circuit"].get("stages")
        self.noise, self.samples_shots = (NOISE if "noise" in quantum["circuit"] else 0), "shots" in quantum
        self.gates, self.readouts = gates_of(quantum["circuit"]), [observable_of(r) for r in quantum["readouts"]]
        tensors = read_safetensors(folder + "/weights.safetensors")
        self.weights = tensors.pop("pqc/parameters")
        self.dense = list(tensors.values())  # kernel, bias, kernel ...
        with open(folder + "/data.csv") as f:
            rows = [[float(v) for v in row] for row in list(csv.reader(f))[1:]]
        self.x, self.labels = [r[:-1] for r in rows], [r[-1] for r in rows]
        self.direction, self.offset = [1.0] * len(self.readouts), 0.0
        for kernel, bias in reversed(list(zip(self.dense[0::2], self.dense[1::2]))):
            self.offset += sum(d * b for d, b in zip(self.direction, bias))
            self.direction = [sum(k * d for k, d in zip(kernel[i:i + len(bias)], self.direction)) for i in range(0, len(kernel), len(bias))]
        self.paulis = [(d * c, word) for d, r in zip(self.direction, self.readouts) for c, word in r]

    @property
    def observable(self):
        """[(coefficient, qubits of the product of Z)], for peers that support no other read-outs"""
        if any(p != "Z" for _, word in self.paulis for p, _ in word):
            raise Cannot("only read-outs of Z are supported")
        return [(c, tuple(q for _, q in word)) for c, word in self.paulis]

    def gates_for(self, x):
        """The circuit of one sample, without gates of inputs that are 0."""
        return [g for g in self.gates if g.column is None or x[g.column] != 0]

    def by_weight(self, derivatives, of):
        """Converts derivatives by angles to those by weights: `of` has (weight, factor) of each
        angle."""
        sums = [0.0] * len(self.weights)
        for d, (weight, factor) in zip(derivatives, of):
            sums[weight] += factor * float(d)
        return sums

    def loss_and_gradient(self, values, derivatives):
        """Mean squared error and gradient, from each sample's value and derivatives by the
        weights"""
        off = [float(v) + self.offset - y for v, y in zip(values, self.labels)]
        rows = [[2 * o / len(off) * float(d) for d in row] for o, row in zip(off, derivatives)]
        return sum(o * o for o in off) / len(off), [sum(column) for column in zip(*rows)]


class Cannot(Exception):
    """A peer does not support a case."""


def hold_the_state(case, most=30):
    if case.n > most:
        raise Cannot("it holds all 2^n amplitudes, n = %d" % case.n)
