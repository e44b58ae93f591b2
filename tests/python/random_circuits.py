"""Random circuits of Qiskit, PennyLane, pytket and Cirq, compared with qring's reading of them.

Start reading at :func:`compare_random`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Callable

import numpy as np
from unitary import (
    GRADIENTS_WITHIN,
    MOST_QUBITS,
    WITHIN,
    Misread,
    Probe,
    compare_many,
    distance,
    qring,
    qring_unitary,
)

Random = np.random.Generator


@dataclass
class Written:
    """A circuit that another program wrote."""

    text: str
    """OpenQASM."""
    evolve: Callable[[dict[str, float], Any], Any]
    """The other program's final state, from numbers for the symbols and a state; its matrix, from
    None instead of a state."""
    values: dict[str, float] = field(default_factory=dict)
    """Numbers for the free symbols."""


def some_qubits(rng: Random) -> int:
    """Return a number of qubits."""
    return int(rng.integers(2, MOST_QUBITS + 1))


# ---- Qiskit ----


def random_qiskit(rng: Random, free: bool) -> tuple[Any, dict[str, float]]:
    """Return a random circuit of Qiskit's gates, some of them controlled, inverted or nested."""
    from qiskit.circuit import Parameter, QuantumCircuit
    from qiskit.circuit.library import get_standard_gate_name_mapping

    gates = [
        g
        for g in get_standard_gate_name_mapping().values()
        if g.num_qubits and not g.num_clbits and g.name not in ("delay", "reset", "measure")
    ]
    n = some_qubits(rng)
    circuit = QuantumCircuit(n)
    symbols = [Parameter(name) for name in ("a", "theta", "w_1")] if free else []

    def angle(gate: Any) -> Any:
        # Qiskit 2.6 writes other gates wrongly: defined with the expression in their body, they
        # are called with the expression too: mcphase_1(w) {.. w**2 ..}, mcphase_1(w**2).
        number = float(rng.uniform(-7, 7))
        if not symbols or gate._standard_gate is None or rng.random() < 0.4:
            return number
        a, b = rng.choice(symbols), rng.choice(symbols)
        return [a, 2 * a - b, a * b + number, (a - number).sin(), -(a**2) / 3][rng.integers(5)]

    def fill(c: Any, count: int, deep: bool) -> None:
        for _ in range(count):
            gate = gates[rng.integers(len(gates))]
            made = gate.base_class(*[angle(gate) for _ in gate.params])
            if rng.random() < 0.2:
                made = made.inverse()
            fixed = all(isinstance(p, float) for p in made.params)
            if deep and rng.random() < 0.15 and fixed:
                made = made.control(1, ctrl_state=int(rng.integers(2)))
            if made.num_qubits <= c.num_qubits:
                qubits = rng.permutation(c.num_qubits)[: made.num_qubits]
                c.append(made, [int(q) for q in qubits])

    fill(circuit, int(rng.integers(3, 25)), True)
    inner = QuantumCircuit(2, name="inner")
    fill(inner, 3, False)
    circuit.append(inner.to_gate(), [0, 1])
    used = {p.name for p in circuit.parameters}
    return circuit, {s.name: float(rng.uniform(-3, 3)) for s in symbols if s.name in used}


def qiskit_evolution(circuit: Any) -> Callable[[dict[str, float], Any], Any]:
    """Return Written.evolve of a circuit; qubit 0 is the most significant one."""
    from qiskit.quantum_info import Operator, Statevector

    turned = circuit.reverse_bits()

    def evolve(values: dict[str, float], state: Any) -> Any:
        bound = turned.assign_parameters({p: values[p.name] for p in turned.parameters})
        return Operator(bound).data if state is None else Statevector(state).evolve(bound).data

    return evolve


def written_by_qiskit(rng: Random, version: int) -> Written:
    """Return a circuit that Qiskit wrote; OpenQASM 3 has free parameters."""
    from qiskit import qasm2, qasm3

    circuit, values = random_qiskit(rng, version == 3)
    text = (qasm3 if version == 3 else qasm2).dumps(circuit)
    return Written(text, qiskit_evolution(circuit), values)


def qiskit_circuit(text: str) -> Any:
    """Return Qiskit's circuit, or None if Qiskit cannot read the text."""
    from qiskit import qasm2, qasm3

    version = re.search(r"OPENQASM\s+(\d)(\.\d)?\s*;", text)
    try:
        if version and version[1] == "2":
            defined = set(re.findall(r"\bgate\s+(\w+)", text))
            known = [c for c in qasm2.LEGACY_CUSTOM_INSTRUCTIONS if c.name not in defined]
            return qasm2.loads(text, custom_instructions=known)
        # Qiskit's U lacks the phase that OpenQASM 3 defines, which matters where it is controlled.
        begin, rest = (text[: version.end()], text[version.end() :]) if version else ("", text)
        rest = re.sub(r"\bU(?=\s*\()", "exact_U", rest)
        exact = "gate exact_U(a, b, c) q { gphase(a / 2); U(a, b, c) q; } "
        return qasm3.loads(begin + exact + rest if "exact_U" in rest else text)
    except Exception:
        return None


# ---- pytket ----

PYTKET = {
    0: "Z X Y S Sdg T Tdg V Vdg SX SXdg H CX CY CZ CH CV CVdg CSX CSXdg CS CSdg CCX ECR SWAP CSWAP "
    "noop BRIDGE CnX ZZMax ISWAPMax",
    1: "Rx Ry Rz U1 CRz CRx CRy CU1 ISWAP XXPhase YYPhase ZZPhase XXPhase3 ESWAP",
    2: "U2 PhasedISWAP FSim",
    3: "U3 TK1 TK2 CU3",
}
"""All gates that pytket 2.18 writes as OpenQASM 2, by the number of angles."""


def written_by_pytket(rng: Random) -> Written:
    """Return a circuit that pytket wrote; its symbols are declared as those of OpenQASM 3."""
    import sympy
    from pytket.circuit import Circuit, OpType
    from pytket.qasm import circuit_to_qasm_str

    n = some_qubits(rng)
    circuit = Circuit()
    first = int(rng.integers(1, n))
    for name, size in (("b", first), ("a_2", n - first)):  # sorted by their names
        circuit.add_q_register(name, size)
    gates = [(name, count) for count, names in PYTKET.items() for name in names.split()]
    symbols = [sympy.Symbol(name) for name in ("alpha", "theta", "w_1")]

    def angle() -> Any:
        number = float(rng.uniform(-2, 2))
        if rng.random() < 0.5:
            return number
        a, b = rng.choice(symbols), rng.choice(symbols)
        return [a, 2 * a - b / 3, a * b + number, sympy.sin(a - number), -(a**2) / 3][
            rng.integers(5)
        ]

    for _ in range(int(rng.integers(3, 25))):
        name, count = gates[rng.integers(len(gates))]
        kind = getattr(OpType, name)
        angles = [angle() for _ in range(count)]
        for size in [int(rng.integers(2, 6))] if name == "CnX" else [1, 2, 3]:
            qubits = [circuit.qubits[q] for q in rng.permutation(n)[:size]]
            try:
                circuit.add_gate(kind, angles, qubits)
                break
            except RuntimeError:  # the gate has another number of qubits
                continue
    used = circuit.free_symbols()
    values = {s.name: float(rng.uniform(-1, 1)) for s in symbols if s in used}
    text = circuit_to_qasm_str(circuit)
    if values:
        inputs = "".join(f"\ninput float[64] {name};" for name in values)
        text = text.replace("OPENQASM 2.0;", "OPENQASM 3.0;").replace(
            'include "qelib1.inc";', 'include "qelib1.inc";' + inputs
        )

    def evolve(values: dict[str, float], state: Any) -> Any:
        bound = circuit.copy()
        bound.symbol_substitution({sympy.Symbol(name): v for name, v in values.items()})
        if state is None:
            return bound.get_unitary()
        return bound.get_unitary_times_other(state[:, None])[:, 0]

    return Written(text, evolve, values)


# ---- Cirq ----


def written_by_cirq(rng: Random, version: str) -> Written:
    """Return a circuit that Cirq wrote; its OpenQASM has no symbols."""
    import cirq
    from random_cirq import on_qubits, random_gate

    qubits = cirq.LineQubit.range(some_qubits(rng))
    args = cirq.QasmArgs(version=version, qubit_id_map=dict.fromkeys(qubits, "q"))
    circuit = cirq.Circuit(cirq.I.on_each(*qubits))
    while len(circuit) < 12:
        operation = on_qubits(random_gate(rng, False, free=False), rng, qubits)
        # Cirq 1.6 finds gates for a matrix within 1e-8.
        if operation is None or isinstance(operation.gate, cirq.MatrixGate):
            continue
        try:
            cirq.qasm(operation, args=args)
        except (TypeError, ValueError):  # OpenQASM has no such gate
            continue
        circuit.append(operation)
    text = circuit.to_qasm(precision=17, qubit_order=qubits, version=version)
    return Written(text, lambda v, state: circuit.unitary(qubit_order=qubits))


# ---- PennyLane ----

PENNYLANE = (
    "PauliX PauliY PauliZ Hadamard S T SX RX RY RZ PhaseShift U1 U2 U3 Rot CNOT CZ CY CH SWAP "
    "ISWAP ECR IsingXX IsingYY IsingZZ IsingXY PSWAP CRX CRY CRZ CRot ControlledPhaseShift CSWAP "
    "Toffoli CCZ MultiRZ SingleExcitation DoubleExcitation"
).split()


def written_by_pennylane(rng: Random) -> Written:
    """Return a tape that PennyLane wrote; its OpenQASM has no symbols."""
    import pennylane as qml

    n = some_qubits(rng)
    ops = []
    for _ in range(int(rng.integers(3, 25))):
        kind = getattr(qml, str(rng.choice(PENNYLANE)))
        wires = kind.num_wires or 2
        if wires > n:
            continue
        at = [int(q) for q in rng.permutation(n)[:wires]]
        ops.append(kind(*rng.uniform(-7, 7, kind.num_params), wires=at))
        if rng.random() < 0.2:
            ops[-1] = qml.adjoint(ops[-1])
    tape = qml.tape.QuantumScript(ops, [qml.probs(wires=range(n))])
    text = qml.to_openqasm(tape, wires=qml.wires.Wires(range(n)), rotations=False)
    return Written(text, lambda v, state: qml.matrix(tape, wire_order=range(n)))


def compare_qnode(rng: Random) -> tuple[float, float]:
    """Return the differences of values and derivatives of a QNode through qring.from_qnode.

    default.qubit differentiates by backpropagation, so its derivatives are exact but for rounding.
    """
    import pennylane as qml
    from pennylane import numpy as pnp

    n = some_qubits(rng)
    probe = Probe(rng, n)
    calls: list[Callable[[Any], None]] = []

    def argument() -> Callable[[Any], Any]:
        i, j, number = (
            int(rng.integers(3)),
            int(rng.integers(3)),
            float(rng.uniform(-7, 7)),
        )
        forms: list[Callable[[Any], Any]] = [
            lambda w: number,
            lambda w: w[i],
            lambda w: 2 * w[i] - w[j],
            lambda w: w[i] * w[j] + number,
            lambda w: -(w[i] ** 2) / 3,
        ]
        return forms[rng.integers(len(forms))]

    def add_gate(kind: Any, wires: list[int], controls: list[int]) -> None:
        arguments = [argument() for _ in range(kind.num_params)]
        # PennyLane takes the angles of U2's and U3's adjoints modulo 2 pi, which has no expression.
        adjoint = rng.random() < 0.2 and kind not in (qml.U2, qml.U3)
        bits = [int(b) for b in rng.integers(0, 2, len(controls))]

        def call(w: Any) -> None:
            def gate() -> Any:
                return kind(*[a(w) for a in arguments], wires=wires)

            make = (lambda: qml.adjoint(gate)()) if adjoint else gate
            if controls:
                qml.ctrl(make, control=controls, control_values=bits)()
            else:
                make()

        calls.append(call)

    for _ in range(int(rng.integers(3, 20))):
        kind = getattr(qml, str(rng.choice(PENNYLANE)))
        wires = kind.num_wires or 2
        if wires <= n:
            at = [int(q) for q in rng.permutation(n)]
            add_gate(kind, at[:wires], at[wires : wires + 1] if rng.random() < 0.15 else [])
    start = probe.start.to_json()["gates"]
    sums = [pennylane_sum(terms) for terms in probe.sums]

    @qml.qnode(qml.device("default.qubit", wires=n), diff_method="backprop")
    def node(w: Any) -> Any:
        for gate in start:
            getattr(qml, gate["gate"])(gate["angle"], gate["qubits"][0])
        for i in range(3):  # each weight must be used
            qml.RX(w[i], i % n)
        for call in calls:
            call(w)
        return [qml.expval(o) for o in sums]

    weights = pnp.array(rng.uniform(-3, 3, 3), requires_grad=True)
    f = qring.from_qnode(node, np.zeros(3))
    wanted = np.array(node(weights))
    slopes = np.array(qml.jacobian(lambda w: pnp.stack(node(w)))(weights))
    values = dict(zip(("w[0]", "w[1]", "w[2]"), weights))
    order = [list(values).index(name) for name in f.parameters]
    found = f.forward(np.asarray(weights)[order])
    jacobian = f.jacobian(np.asarray(weights)[order])[0]
    used = np.abs(jacobian - slopes[:, order])
    return float(np.max(np.abs(found - wanted))), float(np.max(used)) if used.size else np.nan


def pennylane_sum(terms: list[tuple[float, str]]) -> Any:
    """Return a sum of Pauli products as PennyLane's."""
    import pennylane as qml

    products = [
        qml.prod(*[getattr(qml, p)(q) for q, p in enumerate(product) if p != "I"])
        for _, product in terms
    ]
    return qml.dot([c for c, _ in terms], products)


# ---- the comparison ----


def compare_written(write: Callable[[Random], Written], rng: Random) -> tuple[float, float]:
    """Return the differences of unitaries, and of derivatives by free symbols."""
    written = write(rng)
    circuit = qring.Circuit.from_qasm(written.text)
    found = qring_unitary(circuit, written.values)
    error = distance(found, written.evolve(written.values, None))
    again = qiskit_circuit(written.text) if not error <= WITHIN else None
    if again is not None:
        read = qiskit_evolution(again)(written.values, None)
        if distance(found, read) <= WITHIN:
            raise Misread
    if not error <= WITHIN:
        print(written.text)
    return error, Probe(rng, circuit.n_qubits).difference(circuit, written.values, written.evolve)


def compare_random(count: int, seed: int) -> int:
    """Compare count random circuits of each source; return the number of failures."""
    sources: dict[str, Callable[[Random], Written]] = {
        "Qiskit's OpenQASM 3": lambda rng: written_by_qiskit(rng, 3),
        "Qiskit's OpenQASM 2": lambda rng: written_by_qiskit(rng, 2),
        "pytket's OpenQASM 2": written_by_pytket,
        "Cirq's OpenQASM 3": lambda rng: written_by_cirq(rng, "3.0"),
        "Cirq's OpenQASM 2": lambda rng: written_by_cirq(rng, "2.0"),
        "PennyLane's OpenQASM 2": written_by_pennylane,
    }
    compares: dict[str, Callable[[Random], tuple[float, float]]] = {
        "PennyLane's QNodes": compare_qnode,
        **{name: partial(compare_written, write) for name, write in sources.items()},
    }
    bounds = [WITHIN, GRADIENTS_WITHIN]
    return sum(compare_many(name, f, count, seed, bounds) for name, f in compares.items())
