"""Circuits of Cirq."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_circuit import TOLERANCE, QubitOperator

import qring
from qring import Circuit

cirq = pytest.importorskip("cirq", reason="Cirq is not installed")


def test_cirq() -> None:
    sympy = pytest.importorskip("sympy")
    q = cirq.GridQubit.rect(1, 2)
    a, b = sympy.symbols("a b")
    circuit = cirq.Circuit(cirq.ry(a)(q[1]), cirq.CNOT(q[1], q[0]), cirq.X(q[0]) ** b)
    circuit.append(cirq.measure(q[1], key="m"))
    c = Circuit.from_cirq(circuit, [b])
    assert c.readouts == ("Z1",)
    operators = [cirq.Z(q[0]) * cirq.Z(q[1]) * 0.5 - 2, cirq.Y(q[0]) * 1.0]
    found = qring.expval(c, operators).forward([0.7], [0.2])
    state = cirq.final_state_vector(
        cirq.resolve_parameters(circuit, {"a": 0.7, "b": 0.2}), ignore_terminal_measurements=True
    )
    order = {q[0]: 0, q[1]: 1}
    wanted = [
        cirq.PauliSum.wrap(o).expectation_from_state_vector(state, order).real for o in operators
    ]
    assert np.abs(found - wanted).max() < 1e-6  # Cirq's state is complex64
    with pytest.raises(ValueError, match="not of the circuit"):
        qring.expval(c, cirq.Z(cirq.LineQubit(0)) * 1.0)
    other = QubitOperator({((0, "Z"), (1, "Z")): 0.5, (): -2})  # has numbers, as texts have
    assert abs(qring.expval(c, other).forward([0.7], [0.2])[0] - found[0]) < TOLERANCE
    for operator in (cirq.Z, cirq.DensePauliString("ZZ")):
        with pytest.raises(TypeError, match=r"give a cirq\.PauliSum"):
            qring.expval(c, operator)
    with pytest.raises(TypeError, match=r"cirq\.read_json"):
        Circuit.from_cirq(cirq.to_json(circuit))
    with pytest.raises(ValueError, match=r"moments\[1\]\.operations\[0\] is .*sin\(a\)"):
        Circuit.from_cirq(cirq.Circuit(cirq.X(q[0]), cirq.rx(sympy.sin(a))(q[0])))


def test_sum_of_cirq_circuits() -> None:
    """A sum has the qubit numbers of both, which must agree."""
    q = cirq.LineQubit.range(4)
    c = Circuit.from_cirq(cirq.Circuit(cirq.X(q[1]), cirq.I(q[2])))
    part = Circuit.from_cirq(cirq.Circuit(cirq.Z(q[1])))
    for both in (c, Circuit(2) + c, c + Circuit(3), c + part):
        assert qring.expval(both, [cirq.Z(q[1]), cirq.Z(q[2])]).forward([]).tolist() == [-1, 1]
    for others in ([q[2], q[1], q[0]], [q[3]], [q[2]]):
        other = Circuit.from_cirq(cirq.Circuit(map(cirq.X, others)))
        with pytest.raises(ValueError, match="other numbers"):
            c + other


def test_cirq_gates_of_others() -> None:
    sympy = pytest.importorskip("sympy")

    class Composite(cirq.Gate):
        def __init__(self, angle: Any) -> None:
            self.angle = angle

        def _num_qubits_(self) -> int:
            return 2

        def _decompose_(self, qubits: Any) -> Any:
            return [cirq.ry(self.angle)(qubits[0]), Dense()(*qubits)]

    class Dense(cirq.Gate):
        def _num_qubits_(self) -> int:
            return 2

        def _unitary_(self) -> Any:
            return cirq.unitary(cirq.ISWAP**0.3)

    class Opaque(cirq.Gate):
        def _num_qubits_(self) -> int:
            return 1

    q = cirq.LineQubit.range(3)

    def circuit(angle: Any) -> Any:
        return cirq.Circuit(
            cirq.H.on_each(*q),
            Composite(angle)(q[0], q[1]),
            Dense()(q[2], q[0]).controlled_by(q[1]),
            cirq.CXSWAP(q[1], q[2]),
            cirq.SingleQubitCliffordGate.X_sqrt(q[0]),
            cirq.measure(q[0]),
        )

    c = Circuit.from_cirq(circuit(sympy.Symbol("a")))
    assert c.readouts == ("Z0",)
    found = np.asarray(qring.StateFunction(c)([0.7])).reshape(-1)
    wanted = circuit(0.7).final_state_vector(ignore_terminal_measurements=True, dtype=np.complex128)
    assert abs(abs(np.vdot(found, wanted)) - 1) < 1e-12
    with pytest.raises(ValueError, match="not a Cirq type"):
        Circuit.from_cirq(cirq.Circuit(Opaque()(q[0])))
    with pytest.raises(qring.QringError, match="depends on a measurement"):
        Circuit.from_cirq(
            cirq.Circuit(cirq.measure(q[0], key="m"), cirq.X(q[1]).with_classical_controls("m"))
        )
