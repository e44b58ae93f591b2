"""Circuits, operators and noise models of Qiskit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from test_circuit import TOLERANCE

import qring
from qring import Circuit

qiskit = pytest.importorskip("qiskit", reason="Qiskit is not installed")
info = pytest.importorskip("qiskit.quantum_info")


def test_qiskit() -> None:
    t, v = qiskit.circuit.Parameter("t"), qiskit.circuit.ParameterVector("v", 2)
    theirs = qiskit.QuantumCircuit(2, 1)
    theirs.rx(v[0] * t, 0)
    theirs.cry(v[1], 0, 1)
    theirs.measure(1, 0)
    c = Circuit.from_qiskit(theirs, [v[1], "t"])
    assert c.readouts == ("Z1",)
    f = qring.expval(c, c.readouts)
    assert f.parameters == ("_v_0_",)
    angle, turn = 0.4 * 0.7, 0.9
    wanted = 1 - math.sin(angle / 2) ** 2 * (1 - math.cos(turn))
    assert abs(f.forward([0.4], [turn, 0.7])[0] - wanted) < TOLERANCE
    theirs = qiskit.QuantumCircuit(3)
    theirs.pauli("XY", [2, 0])  # Y on qubit 2
    theirs.pauli("ZI", [0, 1])
    c = Circuit.from_qiskit(theirs)
    found = np.asarray(qring.StateFunction(c)([])).reshape(-1)
    by_gates = qring.StateFunction(Circuit(3).y(2).x(0).z(1))([])
    assert abs(np.vdot(found, np.asarray(by_gates).reshape(-1))) > 1 - TOLERANCE


def qiskit_agrees(theirs: Any, c: Circuit) -> bool:
    """Whether the states are equal up to a phase."""
    from qiskit.quantum_info import Statevector

    wanted = Statevector(theirs.reverse_bits()).data
    return abs(abs(np.vdot(wanted, np.ravel(qring.StateFunction(c)([])))) - 1) < TOLERANCE


def test_qiskit_keeps_the_order_of_bits() -> None:
    """Also of those without a register, in several, or in a layout, which may be idle."""
    from qiskit.circuit import Clbit, Qubit

    a, b = qiskit.QuantumRegister(2, "a"), qiskit.QuantumRegister(bits=[Qubit()], name="b")
    alone = [Qubit(), Qubit()]
    for registers in (
        [a, alone, b],
        [b, a, qiskit.QuantumRegister(bits=[a[1], b[0]], name="c")],
        [alone, qiskit.QuantumRegister(bits=alone[::-1], name="d")],
    ):
        theirs = qiskit.QuantumCircuit(*registers)
        for q in range(theirs.num_qubits):
            theirs.ry(0.3 + q, q)
        assert qiskit_agrees(theirs, Circuit.from_qiskit(theirs)), registers
    theirs = qiskit.QuantumCircuit(1)
    theirs.sx(0)
    theirs = qiskit.transpile(theirs, initial_layout=[1], coupling_map=[[0, 1], [1, 2]])
    assert qiskit_agrees(theirs, Circuit.from_qiskit(theirs))
    m, k = qiskit.ClassicalRegister(1, "m"), qiskit.ClassicalRegister(1, "k")
    theirs = qiskit.QuantumCircuit(a, m, [Clbit()], k)
    theirs.x(0)
    theirs.measure([0, 1, 0], [0, 1, 2])
    with theirs.if_test((k, 1)):
        theirs.x(1)
    bits = qring.SampleFunction(Circuit.from_qiskit(theirs), 1).bits()
    assert bits.tolist() == [[1, 0, 1]]


def test_qiskit_native_gates() -> None:
    """A native gate stays one, also where names are taken, and in definitions and blocks."""
    from qiskit.circuit.library import get_standard_gate_name_mapping

    standard = get_standard_gate_name_mapping()
    native = (
        *("id x y z h s sdg t tdg sx sxdg rx ry rz p u1 cx cy cz ch csx cs csdg cp cu1".split()),
        *("crx cry crz swap iswap rxx ryy rzz ccx ccz cswap".split()),
    )
    for name in standard.keys() - {"measure", "reset", "delay", "global_phase"}:
        gate = standard[name]
        gate = type(gate)(*(0.3 + 0.4 * i for i in range(len(gate.params))))
        theirs = qiskit.QuantumCircuit(4)
        for q in range(4):
            theirs.ry(0.3 + q, q)
        theirs.append(gate, [2, 0, 3, 1][: gate.num_qubits])
        c = Circuit.from_qiskit(theirs)
        assert qiskit_agrees(theirs, c), name
        assert len(c) == 5 or name not in native, name
    own = qiskit.QuantumCircuit(2, name="rzz")
    own.cx(1, 0)
    own.iswap(0, 1)
    theirs = qiskit.QuantumCircuit(2, 1)
    theirs.append(own.to_gate(), [0, 1])
    theirs.ryy(qiskit.circuit.Parameter("ryy"), 0, 1)
    theirs.rzz(0.3, 0, 1)
    theirs.measure(0, 0)
    with theirs.if_test((theirs.clbits[0], 1)):
        theirs.rxx(0.4, 0, 1)
    found = Circuit.from_qiskit(theirs).to_json()["gates"]
    assert [item.get("gate") for item in found] == ["CNOT", "ISWAP", "RYY", "RZZ", None, None]
    assert [item["gate"] for item in found[-1]["gates"]] == ["RXX"]


def test_qiskit_definitions() -> None:
    """What Qiskit's exporter does not write is read by its definition, in blocks too."""
    from qiskit.circuit import AnnotatedOperation, ControlModifier, Gate
    from qiskit.circuit.library import PauliGate, StatePreparation, UnitaryGate, XGate
    from qiskit.quantum_info import Clifford

    unitary = UnitaryGate([[0.6, -0.8], [0.8, 0.6]]).control()
    inner = qiskit.QuantumCircuit(3)
    inner.pauli("XYZ", range(3))
    inner.append(unitary, [2, 0])
    for op in (
        unitary,
        PauliGate("XYZ").control(),
        AnnotatedOperation(XGate(), [ControlModifier(2)]),
        Clifford([[1, 1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]),
        StatePreparation([0.6, 0.8j]),
        inner.to_gate(),
    ):
        theirs = qiskit.QuantumCircuit(4)
        if not isinstance(op, StatePreparation):
            theirs.ry(0.3, range(4))
        theirs.append(op, range(op.num_qubits))
        assert qiskit_agrees(theirs, Circuit.from_qiskit(theirs)), op
    theirs = qiskit.QuantumCircuit(3, 1)
    theirs.measure(0, 0)
    with theirs.if_test((theirs.clbits[0], 1)):
        theirs.pauli("XYZ", range(3))
    block = Circuit.from_qiskit(theirs).to_json()["gates"][-1]["gates"]
    assert sorted(item["gate"] for item in block) == ["X", "Y", "Z"]
    assert theirs.data[-1].operation.blocks[0].data[0].operation.name == "pauli"
    theirs.append(Gate("zap", 1, []), [0])
    with pytest.raises(ValueError, match="zap.* decompose it"):
        Circuit.from_qiskit(theirs)


def test_qiskit_instructions() -> None:
    from qiskit.circuit.library import DiagonalGate
    from qiskit.quantum_info import Statevector

    theirs = qiskit.QuantumCircuit(3, 1)
    theirs.initialize(np.arange(1, 9) / np.linalg.norm(np.arange(1, 9)), range(3))
    inner = qiskit.QuantumCircuit(2, 1)
    inner.append(DiagonalGate([1, -1, 1j, 1]), [0, 1])
    inner.measure(1, 0)
    theirs.append(inner.to_instruction(), [2, 0], [0])
    c = Circuit.from_qiskit(theirs)
    assert c.readouts == ("Z0",)
    plain = theirs.decompose().remove_final_measurements(inplace=False)
    wanted = Statevector(plain.reverse_bits()).data
    found = np.asarray(qring.StateFunction(c)([])).reshape(-1)
    assert abs(abs(np.vdot(found, wanted)) - 1) < TOLERANCE


def test_operators_of_qiskit() -> None:
    c = Circuit(2).ry(0.4, 0).rx(0.3, 1)
    pauli = info.Pauli("YX")
    for operator in (
        pauli,
        info.SparsePauliOp(pauli),
        info.Operator(pauli),
        info.SparseObservable(pauli),
    ):
        assert qring.expval(c, operator).observables == ("1.0*X0 Y1",)
    plus = info.SparseObservable("I+")  # a projector
    assert abs(qring.expval(c, plus).forward([])[0] - (1 + math.sin(0.4)) / 2) < TOLERANCE
    with pytest.raises(ValueError, match="is not real"):
        qring.expval(c, info.Operator([[0, 1], [0, 0]]))
    for other in (info.Statevector([1, 0]), info.Operator(np.eye(3))):
        with pytest.raises(TypeError, match="give a SparsePauliOp"):
            qring.expval(c, other)


def test_aer() -> None:
    """Noise of a model of Aer, against its density matrix."""
    aer = pytest.importorskip("qiskit_aer")
    noise = pytest.importorskip("qiskit_aer.noise")
    model = noise.NoiseModel()
    model.add_all_qubit_quantum_error(noise.depolarizing_error(0.1, 2), ["cx"])
    model.add_all_qubit_quantum_error(noise.thermal_relaxation_error(50, 70, 10), ["h", "sx"])
    model.add_all_qubit_quantum_error(noise.amplitude_damping_error(0.2), ["ry"])
    model.add_all_qubit_quantum_error(noise.thermal_relaxation_error(50, 40, 10), ["y"])
    model.add_all_qubit_quantum_error(noise.depolarizing_error(0.2, 2), ["rzz", "ryy"])
    circuit = qiskit.QuantumCircuit(2)
    for _ in range(2):
        circuit.h(0)
        circuit.ry(0.4, 1)
        circuit.cx(0, 1)
        circuit.sx(0)
        circuit.y(1)
        circuit.rx(0.7, 0)
        # Their definitions have gates with noise.
        circuit.rzz(0.6, 0, 1)
        circuit.ryy(0.5, 1, 0)
        circuit.rxx(0.4, 0, 1)
    measured = circuit.copy()
    measured.save_density_matrix()
    simulator = aer.AerSimulator(method="density_matrix", noise_model=model)
    rho = simulator.run(measured).result().data()["density_matrix"]
    read = qring.Circuit.from_qiskit(circuit)
    for form in (model, model.to_dict(), model.to_dict(serializable=True)):
        noisy = read.copy().noise(**qring.noise_from_qiskit(form))
        letters = ["ZI", "IZ", "XX", "YX", "ZY", "IX", "YI"]
        names = [
            " ".join(f"{p}{q}" for q, p in enumerate(reversed(text)) if p != "I")
            for text in letters
        ]
        exact = [info.DensityMatrix(rho).expectation_value(info.Pauli(t)).real for t in letters]
        assert qring.expval(noisy, names).forward([]) == pytest.approx(exact, abs=1e-9)
