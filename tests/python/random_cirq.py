"""Random circuits of Cirq: all gates that qring reads, controlled, repeated, with symbols.

Start reading at :func:`random_circuit`.
"""

from __future__ import annotations

from typing import Any, Callable

import cirq
import numpy as np
import sympy
from unitary import MOST_QUBITS

NAMES = ("a", "theta_1", "w[3]", "π", "x", "two words")
TEXTS = {"x": "x_", "two words": "two_words", "π": "π_"}
"""Names of parameters that differ from the symbols'."""

Random = np.random.Generator


def number(rng: Random) -> float:
    """Return a number, some of them special."""
    return (
        float(rng.choice([0, 1, 0.5, -1, 2])) if rng.random() < 0.2 else float(rng.uniform(-4, 4))
    )


def expression(rng: Random) -> Any:
    """Return a number or an expression of symbols that Cirq can write."""
    x = number(rng)
    if rng.random() < 0.5:
        return x
    a, b = (sympy.Symbol(str(name)) for name in rng.choice(NAMES, 2))
    kinds = [a, 2 * a - b / 3, a * b + x, (a - x) ** 2, sympy.pi * a / 2, -b + sympy.E, a - 1]
    return kinds[rng.integers(len(kinds))]


def power(gate: type, rng: Random, value: Callable[[], Any]) -> Any:
    """Return a gate with an exponent and, sometimes, a global shift."""
    return gate(exponent=value(), global_shift=number(rng) if rng.random() < 0.3 else 0)


def paulis(rng: Random, n: int, least: int = 0) -> Any:
    """Return a dense Pauli string with coefficient 1 or -1; least 1: without identities."""
    return cirq.DensePauliString(rng.integers(least, 4, n), coefficient=int(rng.choice([1, -1])))


def random_gate(rng: Random, inner: bool, free: bool = True) -> Any:
    """Return a gate of Cirq; inner: one that can be inverted; free: with symbols."""

    def value() -> Any:
        return expression(rng) if free else number(rng)

    makers: list[Callable[[], Any]] = [
        *(
            lambda gate=gate: power(gate, rng, value)
            for gate in (
                *(cirq.XPowGate, cirq.YPowGate, cirq.ZPowGate, cirq.HPowGate, cirq.XXPowGate),
                *(cirq.YYPowGate, cirq.ZZPowGate, cirq.CZPowGate, cirq.CXPowGate),
                *(cirq.SwapPowGate, cirq.ISwapPowGate, cirq.CCXPowGate, cirq.CCZPowGate),
            )
        ),
        lambda: rng.choice([cirq.X, cirq.Y, cirq.Z, cirq.H, cirq.S, cirq.T, cirq.CNOT, cirq.CSWAP]),
        lambda: rng.choice([cirq.rx, cirq.ry, cirq.rz, cirq.ms])(value()),
        lambda: cirq.PhasedXPowGate(
            phase_exponent=value(), exponent=value(), global_shift=number(rng)
        ),
        lambda: cirq.PhasedXZGate(
            x_exponent=value(),
            z_exponent=value(),
            axis_phase_exponent=value(),
        ),
        lambda: cirq.PhasedISwapPowGate(phase_exponent=value(), exponent=value()),
        lambda: cirq.FSimGate(value(), value()),
        lambda: cirq.PhasedFSimGate(*(value() for _ in range(5))),
        lambda: cirq.IdentityGate(int(rng.integers(1, 4))),
        lambda: cirq.GlobalPhaseGate(np.exp(1j * number(rng))),
        lambda: cirq.MatrixGate(
            cirq.testing.random_unitary(
                2 ** int(rng.integers(1, 4)), random_state=int(rng.integers(99))
            )
        ),
        lambda: cirq.DiagonalGate([value() for _ in range(2 ** int(rng.integers(1, 4)))]),
        lambda: cirq.TwoQubitDiagonalGate([number(rng) for _ in range(4)]),
        lambda: cirq.ThreeQubitDiagonalGate([number(rng) for _ in range(8)]),
        lambda: paulis(rng, int(rng.integers(1, 4))),
        lambda: cirq.PauliStringPhasorGate(  # Cirq 1.5 takes I as Z
            paulis(rng, 3, 1), exponent_neg=value(), exponent_pos=number(rng)
        ),
        lambda: cirq.PauliInteractionGate(
            *(rng.choice([cirq.X, cirq.Y, cirq.Z]), bool(rng.integers(2))),
            *(rng.choice([cirq.X, cirq.Y, cirq.Z]), bool(rng.integers(2))),
        ),  # Cirq's JSON has no exponent of it
        lambda: cirq.QubitPermutationGate([int(i) for i in rng.permutation(4)]),
        lambda: cirq.QuantumFourierTransformGate(3, without_reverse=bool(rng.integers(2))),
        lambda: cirq.inverse(cirq.QuantumFourierTransformGate(3)),
        lambda: cirq.PhaseGradientGate(num_qubits=3, exponent=number(rng)),
        lambda: cirq.ParallelGate(power(cirq.YPowGate, rng, value), 3),
        lambda: cirq.WaitGate(cirq.Duration(nanos=5)),
        lambda: cirq.circuits.qasm_output.QasmUGate(
            *rng.uniform(0, 2, 3)
        ),  # has no inverse in Cirq
    ]
    return makers[rng.integers(len(makers) - inner)]()


def on_qubits(gate: Any, rng: Random, qubits: list[Any]) -> Any:
    """Return the gate on some of the qubits, perhaps controlled; None: there are too few."""
    n = cirq.num_qubits(gate)
    free = len(qubits) - n
    if free < 0:
        return None
    order = [qubits[i] for i in rng.permutation(len(qubits))]
    controls = order[n : n + int(rng.integers(0, min(free, 2) + 1))] if rng.random() < 0.4 else []
    if not controls:
        return gate(*order[:n])
    if n and rng.random() < 0.3:
        values = [(0, 1), (1, 0)] if len(controls) == 2 and rng.random() < 0.5 else None
        products = (
            cirq.SumOfProducts(values) if values else [int(rng.integers(2)) for _ in controls]
        )
        controlled = cirq.ControlledGate(gate, len(controls), control_values=products)
        return controlled(*controls, *order[:n])
    values = [[0, 1, (0, 1)][rng.integers(3)] for _ in controls]
    return cirq.ControlledOperation(controls, gate(*order[:n]), control_values=values)


def random_qubits(rng: Random) -> list[Any]:
    """Return qubits of a kind, or of all kinds, in random order."""
    n = int(rng.integers(2, MOST_QUBITS + 1))
    kinds = [
        lambda i: cirq.LineQubit(3 * i - 4),
        lambda i: cirq.GridQubit(i % 2 - 1, 11 - i),
        lambda i: cirq.NamedQubit(f"q{7 + i}" if i % 2 else f"a-{10**i}"),
    ]
    which = int(rng.integers(4))
    return [kinds[(i if which == 3 else which) % 3](i) for i in rng.permutation(n)]


def random_circuit(
    rng: Random, qubits: list[Any], n: int, deep: bool, inner: bool = False
) -> cirq.Circuit:
    """Return a circuit; deep: with circuits in it; inner: one of these."""
    circuit = cirq.Circuit()
    while len(list(circuit.all_operations())) < n:
        if deep and rng.random() < 0.1:
            part = random_circuit(rng, qubits[:3], 3, rng.random() < 0.3, True).freeze()
            times = int(rng.choice([1, 1, 2, 3, -1, -2]))
            operation = cirq.CircuitOperation(
                part,
                repetitions=times if cirq.inverse(part, None) is not None else abs(times),
                qubit_map=dict(
                    zip(qubits[:3], [qubits[i] for i in rng.permutation(len(qubits))][:3])
                )
                if rng.random() < 0.5 and set(part.all_qubits()) <= set(qubits[:3])
                else {},
                param_resolver={"a": sympy.Symbol("theta_1") * 2, "π": 0.3}
                if rng.random() < 0.5
                else {},
                use_repetition_ids=False,
            )
            if any(len(set(m.values())) < len(m) for m in [operation.qubit_map]):
                continue
            circuit.append(operation)
            if rng.random() < 0.3:  # the same circuit again, which the JSON refers to by its key
                circuit.append(cirq.CircuitOperation(part, use_repetition_ids=False))
            continue
        operation = on_qubits(random_gate(rng, inner), rng, qubits)
        if operation is not None:
            circuit.append(operation.with_tags("tag") if rng.random() < 0.1 else operation)
        if rng.random() < 0.05:
            some = cirq.PauliString({q: rng.choice([cirq.X, cirq.Y, cirq.Z]) for q in qubits[:2]})
            circuit.append(
                some
                if rng.random() < 0.5
                else cirq.PauliStringPhasor(
                    -some, exponent_neg=expression(rng), exponent_pos=number(rng)
                )
            )
    return circuit
