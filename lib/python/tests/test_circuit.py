"""Circuits: every gate against matrices, inverses, controls, repeats, expressions, JSON."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any, Callable

import dense
import numpy as np
import pytest

import qring
from qring import Circuit, Input, Parameter, QringError, expval

RNG = np.random.default_rng(7)
U2 = np.linalg.qr(RNG.normal(size=(2, 2)) + 1j * RNG.normal(size=(2, 2)))[0]
U4 = np.linalg.qr(RNG.normal(size=(4, 4)) + 1j * RNG.normal(size=(4, 4)))[0]
U8 = np.linalg.qr(RNG.normal(size=(8, 8)) + 1j * RNG.normal(size=(8, 8)))[0]
# Amplitudes differ by rounding of about one hundred float64 operations of numbers below 1.
TOLERANCE = 100 * np.finfo(float).eps

GATES: dict[str, Callable[[Circuit], Circuit]] = {
    "i": lambda c: c.i(0),
    "identity": lambda c: c.identity(0),
    **{g: lambda c, g=g: getattr(c, g)(1) for g in "x y z h s sdg t tdg sx sxdg".split()},
    **{g + "^t": lambda c, g=g: getattr(c, g)(1, exponent=0.3) for g in "x y z h".split()},
    **{g: lambda c, g=g: getattr(c, g)(0.7, 1) for g in "rx ry rz p phase u1 ".split()},
    "u2": lambda c: c.u2(0.3, 0.5, 1),
    "u": lambda c: c.u(0.3, 0.5, 0.9, 1),
    "u3": lambda c: c.u3(0.3, 0.5, 0.9, 0),
    "r": lambda c: c.r(0.3, 0.5, 1),
    "rot": lambda c: c.rot(0.3, 0.5, 0.9, 1),
    "phased_x": lambda c: c.phased_x(0.3, 0.4, 1),
    **{g: lambda c, g=g: getattr(c, g)(2, 0) for g in "cnot cx cz cy ch cs csdg csx".split()},
    **{g + "^t": lambda c, g=g: getattr(c, g)(2, 0, exponent=0.3) for g in "cnot cz".split()},
    **{g: lambda c, g=g: getattr(c, g)(0.7, 2, 0) for g in "cp cphase cu1 crx cry crz".split()},
    "crot": lambda c: c.crot(0.3, 0.5, 0.9, 2, 0),
    "cu3": lambda c: c.cu3(0.3, 0.5, 0.9, 2, 0),
    "cu": lambda c: c.cu(0.3, 0.5, 0.9, 1.3, 2, 0),
    **{
        g: lambda c, g=g: getattr(c, g)(2, 0)
        for g in "swap iswap siswap sqisw dcx ecr xx yy zz".split()
    },
    **{
        g + "^t": lambda c, g=g: getattr(c, g)(2, 0, exponent=0.3)
        for g in "swap iswap xx yy zz".split()
    },
    **{
        g: lambda c, g=g: getattr(c, g)(0.7, 2, 0)
        for g in "rxx ryy rzz isingxx isingyy isingzz rzx isingxy pswap single_excitation "
        "givens".split()
    },
    "phased_iswap": lambda c: c.phased_iswap(0.3, 0.4, 2, 0),
    "fsim": lambda c: c.fsim(0.3, 0.4, 2, 0),
    "ccx": lambda c: c.ccx(0, 3, 1),
    "toffoli": lambda c: c.toffoli(0, 3, 1),
    "ccz": lambda c: c.ccz(0, 3, 1),
    "cswap": lambda c: c.cswap(3, 0, 1),
    "fredkin": lambda c: c.fredkin(3, 0, 1),
    "double_excitation": lambda c: c.double_excitation(0.7, 3, 0, 2, 1),
    "mcx": lambda c: c.mcx([0, 3, 2], 1),
    "mcp": lambda c: c.mcp(0.7, [0, 3], 1),
    "multi_rz": lambda c: c.multi_rz(0.7, [3, 0, 1]),
    "pauli_rot": lambda c: c.pauli_rot(0.7, "XIYZ", [3, 0, 1, 2]),
    "ms": lambda c: c.ms(0.7, [3, 0, 1]),
    "unitary1": lambda c: c.unitary(U2, 2),
    "unitary by name": lambda c: c.gate("Unitary", 2, matrix=U2),
    "unitary2": lambda c: c.unitary(U4, [2, 0]),
    "unitary3": lambda c: c.unitary(U8, [3, 0, 1]),
    "basis": lambda c: c.basis("101", [3, 0, 1]),
    "basis list": lambda c: c.basis([1, 0, 1], [3, 0, 1]),
}


def prepared(n: int = 4) -> Circuit:
    """Return a circuit to a state without symmetry."""
    c = Circuit(n)
    for q in range(n):
        c.ry(0.4 + 0.3 * q, q).rz(0.2 + 0.5 * q, q)
    for q in range(n - 1):
        c.cnot(q, q + 1)
    return c


def same(state: Any, other: Any, phase: bool = False) -> bool:
    """Whether the states are equal; phase: up to a global phase."""
    if phase:
        overlap = np.vdot(other, state)
        state = state * (abs(overlap) / overlap)
    return bool(np.abs(state - other).max() < TOLERANCE)


@pytest.mark.parametrize("name", GATES)
def test_gate(name: str) -> None:
    c = GATES[name](prepared())
    # A matrix without controls is defined up to a phase.
    assert same(qring.state(c), dense.simulate(c.to_json(), {}), "unitary" in name)


@pytest.mark.parametrize("name", GATES)
def test_inverse(name: str) -> None:
    c = GATES[name](Circuit(4))
    both = prepared() + c + c.adjoint()
    assert same(qring.state(both), qring.state(prepared()), "unitary" in name)
    assert c.adjoint().adjoint() == c
    # The same with controls, where phases count, and on either value
    both = prepared(6) + c.controlled([4, 5], [1, 0]) + c.adjoint().controlled([4, 5], [1, 0])
    assert same(qring.state(both), qring.state(prepared(6)))
    both = prepared() + c.power(2) + c.power(-2)
    assert same(qring.state(both), qring.state(prepared()), "unitary" in name)


@pytest.mark.parametrize("name", GATES)
def test_controlled(name: str) -> None:
    c = prepared(6) + GATES[name](Circuit(4)).controlled([5, 4], [0, 1])
    assert c.n_qubits == 6
    got = qring.state(c)
    assert same(got, dense.simulate(c.to_json(), {}))
    # Twice controlled is controlled by both
    twice = prepared(6) + GATES[name](Circuit(4)).controlled(5, 0).controlled(4)
    assert same(got, qring.state(twice))


def test_every_gate_of_the_job_file_has_a_method() -> None:
    names = {json.loads(build(Circuit(4))._text())["gates"][0]["gate"] for build in GATES.values()}
    assert len(names) >= 58


def test_global_shift() -> None:
    c = prepared().gate("X", 0, controls=[1], exponent=0.3, global_shift=0.25)
    assert same(qring.state(c), dense.simulate(c.to_json(), {}))
    assert same(qring.state(c + c.adjoint()), qring.state(Circuit(4)))


def test_gate_by_name() -> None:
    a = prepared().gate("crx", [0, 1], angle="w").gate("u3", 2, theta=1, phi=2, lam=0.5)
    a.gate("x", [3], controls=[0, 1], control_values=[0, 1])
    b = prepared().crx("w", 0, 1).u(1, 2, 0.5, 2) + Circuit(4).x(3).controlled([0, 1], [0, 1])
    assert same(qring.state(a, [0.3]), qring.state(b, [0.3]))


def test_ansatz_inverted_and_controlled() -> None:
    c = Circuit(3).ansatz("iqp").ansatz("basic-entangler", layers=2)
    x, w = [0.3, -1.2, 0.8], np.arange(6) / 7
    assert same(qring.state(prepared(3) + c + c.adjoint(), w, x), qring.state(prepared(3)))
    on = qring.state(prepared(3) + c, w, x).reshape(-1, 1) * [1, 0]
    assert same(qring.state(prepared(3) + c.controlled(3, 0), w, x), on.ravel())


def test_adjoint_of_a_block() -> None:
    """Also of one that is a plain list, which other programs write."""
    for inverted in (False, True):
        gates = [{"gate": "RX", "qubits": [0], "angle": 0.3}]
        c = Circuit.from_json({"qubits": 1, "gates": [{"adjoint": inverted, "gates": gates}]})
        y = [expval(each, "Y0")([])[0] for each in (c, c.adjoint(), c.adjoint().adjoint())]
        wanted = math.sin(0.3) * (1 if inverted else -1)
        assert np.abs(np.array(y) - [wanted, -wanted, wanted]).max() < TOLERANCE


def test_exported_names_are_distinct() -> None:
    """Also where a parameter has the name of an input."""
    c = Circuit(1).rx(Parameter("x0"), 0).ry(Parameter("x"), 0).rx(Input(0), 0)
    again = Circuit.from_qasm(c.export("qasm3"))
    assert len(expval(again, "Z0").parameters) == 3


def test_adjoint_of_expressions() -> None:
    c = Circuit(2).ry("w0", 0).rx(Parameter("w1"), 1).ry(2 * Input("a"), 0).rz("w0*w1 + x.b", 1)
    c.basis(Input(0), [0, 1]).p("-w1", 0).u("w0", 0.3, Parameter("w2") / 3, 1)
    both = prepared(2) + c + c.adjoint()
    got = qring.state(both, [0.3, 0.4, 0.5], [1, 0, 0.7, 0.8])
    assert same(got, qring.state(prepared(2)))


@pytest.mark.parametrize("inverted", [False, True])
@pytest.mark.parametrize("controlled", [False, True])
def test_repeat_with_index(inverted: bool, controlled: bool) -> None:
    layer = Circuit(3)
    for q in range(3):
        layer.ry(f"w{{i}}_{q}", q)
    layer.gate("CNOT", ["i%n", "(i+1)%n"]).rz("2*v{i} + x[{i}]", "i%n").rx(Parameter("p{i}"), 0)
    c = layer.repeat(4, index="i")
    c = c.adjoint() if inverted else c
    c = c.controlled(3) if controlled else c
    c = prepared(c.n_qubits) + c
    if controlled:
        # The index expressions still count modulo 3
        assert c.n_qubits == 4
    f = qring.StateFunction(c)
    weights = RNG.normal(size=len(f.parameters))
    inputs = RNG.normal(size=4)
    named = dict(zip(f.parameters, weights))
    expected = dense.simulate(c.to_json(), named, dict(enumerate(inputs)))
    assert same(f(weights, inputs), expected)


def test_more_qubits_keep_the_meaning_of_gates() -> None:
    layer = Circuit(3).gate("CNOT", ["i", "(i+1)%n"]).ry("w{n}", "(i+2)%n").repeat(3, index="i")
    both = layer + Circuit(5)
    assert both.n_qubits == 5
    assert qring.expval(both, "Z0").parameters == ("w3",)
    assert same(qring.state(both, [0.3]).reshape(8, 4)[:, 0], qring.state(layer, [0.3]))
    ansatz = Circuit(3).ansatz("basic-entangler")
    assert len(qring.expval(Circuit(5) + ansatz, "Z0").parameters) == 3


def test_repeat_shares_parameters() -> None:
    layer = Circuit(2).ry("w", 0).cnot(0, 1)
    thrice = layer.repeat(3)
    assert qring.expval(thrice, "Z0").parameters == ("w",)
    assert same(qring.state(thrice, [0.3]), qring.state(layer + layer + layer, [0.3]))
    assert layer.repeat(0) == layer.power(0) == Circuit(2)
    assert layer.repeat(1) == layer


def test_circuits_do_not_share_later_gates() -> None:
    a = Circuit(2).h(0)
    b, r, s, t = a.copy(), a.repeat(2), a + a, copy.copy(a)
    a.x(1)
    assert len(b) == len(t) == 1
    assert len(s) == 2
    assert r.to_json()["gates"][0]["gates"] == b.to_json()["gates"]
    b.to_json()["gates"].clear()
    assert len(b) == 1


def test_json() -> None:
    c = Circuit(3, columns=5).h(0).crx("2*w", 0, 2) + Circuit(3).ry("v", 0).repeat(2)
    text = json.dumps(c.to_json())
    assert Circuit.from_json(json.loads(text)) == c
    assert Circuit.from_json(text) == c
    assert Circuit(2).to_json()["gates"]  # a job file has no empty list of gates
    assert qring.expval(Circuit(2), "Z0").forward([]) == [1.0]
    assert qring.expval(c.to_json(), "Z0").inputs == tuple(f"x[{i}]" for i in range(5))


def test_numbers_of_numpy() -> None:
    """NumPy's integers and arrays are stored as Python's."""
    one = np.int64(1)
    for c, plain in (
        (Circuit(2).unitary(U2, one), Circuit(2).unitary(U2, 1)),
        (Circuit(2).gate("H", np.array(1)), Circuit(2).h(1)),
        (Circuit(2).measure(0, bits=one), Circuit(2).measure(0, bits=1)),
        (Circuit(2).measure([0, 1], np.arange(2)), Circuit(2).measure([0, 1], [0, 1])),
        (Circuit(2).ansatz("iqp", layers=one), Circuit(2).ansatz("iqp", layers=1)),
        (
            Circuit(2).noise({"*2": {"channel": "Depolarize", "qubits": 2 * one, "p": 0.5}}),
            Circuit(2).noise({"*2": {"channel": "Depolarize", "qubits": 2, "p": 0.5}}),
        ),
        (
            Circuit(2).noise(readout={"p_01": np.float32(0.5)}),
            Circuit(2).noise(readout={"p_01": 0.5}),
        ),
        (
            Circuit.from_json({"qubits": 2 * one, "gates": [{"gate": "H", "qubits": [one]}]}),
            Circuit(2).h(1),
        ),
    ):
        assert json.dumps(c.to_json()) == json.dumps(plain.to_json())


def test_ansatz() -> None:
    c = Circuit(4).h(0).ansatz("strongly-entangling", layers=2, prefix="a_")
    c.ansatz("basic-entangler", [0, 2])
    f = qring.expval(c, "Z0")
    assert len(f.parameters) == 2 * 4 * 3 + 2
    assert f.parameters[0].startswith("a_")
    whole = Circuit.from_json({"ansatz": "strongly-entangling", "qubits": 4, "layers": 2})
    part = Circuit(4).ansatz("strongly-entangling", layers=2)
    w = RNG.normal(size=24)
    assert (qring.expval(whole, "Z0").forward(w) == qring.expval(part, "Z0").forward(w)).all()
    qcnn = Circuit.from_json({"ansatz": "qcnn", "qubits": 8})
    assert qring.expval(qcnn, "Z7").n_qubits == 8
    assert qcnn == Circuit.from_json(qcnn.to_json()) == qcnn.copy()


w, v, a = Parameter("w"), Parameter("v"), Input("a")
EXPRESSIONS: list[tuple[Any, Callable[[float, float, float], float]]] = [
    (w, lambda w, v, a: w),
    (2 * w, lambda w, v, a: 2 * w),
    (w * 2 / 3, lambda w, v, a: 2 * w / 3),
    (-w, lambda w, v, a: -w),
    (np.float64(2.5) * w, lambda w, v, a: 2.5 * w),
    (w * np.pi, lambda w, v, a: math.pi * w),
    (np.float32(0.5) + w, lambda w, v, a: 0.5 + w),
    (w + v - a, lambda w, v, a: w + v - a),
    (w - (v - a), lambda w, v, a: w - (v - a)),
    (w / (v / a), lambda w, v, a: w / (v / a)),
    (w * (v + a), lambda w, v, a: w * (v + a)),
    ((w + v) * (a - 2), lambda w, v, a: (w + v) * (a - 2)),
    (1 - w * -2, lambda w, v, a: 1 + 2 * w),
    (-(w * v), lambda w, v, a: -w * v),
    (-(w + v) * a, lambda w, v, a: -(w + v) * a),
    (a - -(w * v), lambda w, v, a: a + w * v),
    (w**2, lambda w, v, a: w**2),
    (2**w, lambda w, v, a: 2**w),
    (-(w**2), lambda w, v, a: -(w**2)),
    (w / 1e-5 * 1e-5, lambda w, v, a: w),
    (w * v * 1e-5, lambda w, v, a: w * v * 1e-5),
    (np.sin(w), lambda w, v, a: math.sin(w)),
    (
        np.arccos(w) + np.arcsin(v) + np.arctan(a),
        lambda w, v, a: math.acos(w) + math.asin(v) + math.atan(a),
    ),
    (
        np.sqrt(w * v) + np.exp(-a) * np.log(w),
        lambda w, v, a: math.sqrt(w * v) + math.exp(-a) * math.log(w),
    ),
    (np.arctan2(w, v) + np.hypot(w, a), lambda w, v, a: math.atan2(w, v) + math.hypot(w, a)),
    (abs(w - 1) + np.abs(v - 1), lambda w, v, a: abs(w - 1) + abs(v - 1)),
    (np.cos(w) * np.tan(v), lambda w, v, a: math.cos(w) * math.tan(v)),
    (w + "2*v", lambda w, v, a: w + 2 * v),
    ("v - 1" - w, lambda w, v, a: v - 1 - w),
    (3 / w, lambda w, v, a: 3 / w),
    (+w - 2, lambda w, v, a: w - 2),
    ("2*w + x.a", lambda w, v, a: 2 * w + a),
    ("pi*w", lambda w, v, a: math.pi * w),
]


@pytest.mark.parametrize("i", range(len(EXPRESSIONS)))
def test_expression(i: int) -> None:
    expression, function = EXPRESSIONS[i]
    at = {"w": 0.31, "v": 0.47, "a": 0.83}
    c = Circuit(1).rx(expression, 0)
    f = qring.expval(c, ["Z0", "Y0"])
    weights = [at[name] for name in f.parameters]
    angle = function(**at)
    got = f.forward(weights, [at["a"]] if f.inputs else None)
    assert np.abs(got - [math.cos(angle), -math.sin(angle)]).max() < TOLERANCE
    # A multiple of a symbol is an object, which the engine treats without an expression
    assert repr(expression)


def test_symbols() -> None:
    assert Parameter("w") == Parameter("w") != Parameter("v")
    assert len({Parameter("w"), Parameter("w"), Input("w"), Input(0)}) == 3
    assert (2 * Parameter("w")).to_json() == {"parameter": "w", "scale": 2.0}
    assert Input(3).to_json() == {"data": 3}
    assert (Input(3) / 2).to_json() == {"data": 3, "scale": 0.5}
    assert (2 * Input("a b")).to_json() == "2.0*x['a b']"
    assert str(Parameter("a b")) == "{'parameter': 'a b'}"
    c = Circuit(1).rx(2 * Parameter("any name!"), 0).ry(Input("b c"), 0).rz(Input("pi"), 0)
    c.rx(Parameter("pi"), 0).ry(Input(1), 0)
    f = qring.expval(c, "Z0")
    assert set(f.parameters) == {"any name!", "pi"}
    assert f.inputs == ("x[0]", "x[1]", "b c", "pi")


def test_natural_order() -> None:
    c = Circuit(1)
    for i in (10, 2, 1):
        c.rx(f"w{i}", 0)
    assert qring.expval(c, "Z0").parameters == ("w1", "w2", "w10")


def test_draw() -> None:
    drawing = Circuit(2).ry("w0", 0).cnot(0, 1).draw()
    assert "RY(w0)" in drawing
    assert "reads" not in drawing


def test_draw_as_svg_and_latex() -> None:
    circuit = Circuit(2).ry("w0", 0).cnot(0, 1)
    assert circuit.draw(format="svg") == circuit._repr_svg_()
    assert circuit.draw(format="svg").startswith("<svg ")
    assert r"\gate{R_{Y}(w_{0})}" in circuit.draw(format="latex")
    assert "⟨Z⟩" in expval(circuit, "Z1")._repr_svg_()
    with pytest.raises(ValueError, match="use text, svg or latex"):
        circuit.draw(format="png")


def test_export() -> None:
    circuit = Circuit(2).ry("w0", 0).rx(Input(0) * 2, 1).cnot(0, 1)
    text = circuit.export("qasm3", "Z1")
    assert Circuit.from_qasm(text, "x0").readouts == ("Z1",)
    again = Circuit.from_qasm(circuit.export("qasm3", inputs=[0.25], parameters=[0.5]))
    assert again.to_json()["gates"][:2] == [
        {"gate": "RY", "qubits": [0], "angle": 0.5},
        {"gate": "RX", "qubits": [1], "angle": 0.5},
    ]
    assert b"tfq_gate_set" in circuit.export("tfq")
    with pytest.raises(QringError, match="the circuit has 1 parameters, not 2"):
        circuit.export("qasm3", parameters=[1, 2])
    with pytest.raises(QringError, match="unknown format 'qasm'; choose one of qasm3"):
        circuit.export("qasm")
    assert "2 qubits" in repr(Circuit(2))


QASM = """
OPENQASM 3.0; include "stdgates.inc";
input float a; input array[angle, 2] v; input float b;
qubit[3] q; bit[2] c;
ry(v[1] * a) q[0]; rx(b) q[2]; ctrl @ U(0.3, v[0], -0.2) q[0], q[1];
measure q[0:1] -> c;
"""


def test_qasm() -> None:
    c = Circuit.from_qasm(QASM, ["b", "a"])
    assert c.n_qubits == 3
    assert c.readouts == c.copy().readouts == ("Z0", "Z1")
    assert Circuit(2).readouts == ()
    f = qring.expval(c, c.readouts)
    assert f.parameters == ("v[0]", "v[1]")
    assert len(f.inputs) == 2
    v, b, a = (0.4, 0.7), 1.1, 0.9
    theta = v[1] * a
    # OpenQASM 3's U(t, 0, 0) is cos, -sin, sin, cos of t/2, times a phase.
    one = math.sin(theta / 2) ** 2
    wanted = [math.cos(theta), 1 - one * (1 - math.cos(0.3))]
    assert np.abs(f.forward(v, [b, a]) - wanted).max() < TOLERANCE


def test_gates_of_a_text_are_read_when_they_are_used() -> None:
    c = Circuit.from_qasm("qubit[2] q; h q[0]; x q[1];")
    assert c._text() == Circuit(2).h(0).x(1)._text()
    copy, more = c.copy(), Circuit.from_qasm("qubit[2] q; h q[0]; x q[1];").cz(0, 1)
    assert len(c) == len(copy) == 2
    assert more == Circuit(2).h(0).x(1).cz(0, 1)
    assert c == copy
    assert c._text() == Circuit(2).h(0).x(1)._text()
    assert c + c == Circuit(2).h(0).x(1).h(0).x(1)


def test_qasm_errors() -> None:
    with pytest.raises(qring.QringError) as error:
        Circuit.from_qasm("qubit q;\n  foo q;")
    assert error.value.code == qring.Code.INVALID_ARGUMENT
    assert str(error.value) == (
        "cannot read the OpenQASM text: line 2, column 3: the gate 'foo' is not defined; define it "
        "before\n    foo q;\n    ^"
    )
    with pytest.raises(qring.QringError) as error:
        Circuit.from_qasm("qubit q; delay[1ns] q;")
    assert error.value.code == qring.Code.UNIMPLEMENTED
    with pytest.raises(qring.QringError, match="no free symbol 'w'"):
        Circuit.from_qasm("qubit q;", "w")
    with pytest.raises(TypeError, match="give a str"):
        Circuit.from_qasm(b"qubit q;")  # type: ignore[arg-type]


GOLDEN = Path(__file__).resolve().parents[3] / "tests" / "golden" / "cirq" / "tfq.json"


@pytest.mark.skipif(not GOLDEN.exists(), reason="needs the checkout")
def test_tfq() -> None:
    golden = json.loads(GOLDEN.read_text())
    row = golden["rows"][2]
    c = Circuit.from_tfq(np.array([bytes.fromhex(row["program"])], object))
    f = qring.StateFunction(c)
    found = np.asarray(f([golden["values"][name] for name in f.parameters])).reshape(-1)
    wanted = np.array(row["state"]).view(complex)
    assert abs(abs(np.vdot(found, wanted)) - 1) < TOLERANCE
    assert Circuit.from_tfq(bytes.fromhex(row["program"]), "a").to_json()["columns"] == 1
    with pytest.raises(TypeError, match="one string"):
        Circuit.from_tfq([b"", b""])
    with pytest.raises(qring.QringError, match="cannot read the circuit: the program is malformed"):
        Circuit.from_tfq(bytes.fromhex(row["program"])[:-3])


@pytest.mark.parametrize("name", ["x", "x[0]", "x.a", "pi", "sin", "a b"])
def test_parameters_that_no_expression_can_name(name: str) -> None:
    w = Parameter(name)
    assert Circuit(1).rx(2 * w, 0).n_qubits == 1
    with pytest.raises(ValueError, match="rename the parameter"):
        Circuit(1).rx(np.sin(w), 0)


class QubitOperator:
    """Stands in for OpenFermion's, of which its terms are read."""

    __module__ = "openfermion.ops"

    def __init__(self, terms: dict[tuple[tuple[int, str], ...], complex]) -> None:
        self.terms = terms


def test_operators() -> None:
    c = Circuit(2).ry(0.4, 0).rx(0.3, 1)
    operator = QubitOperator({(): 0.25, ((1, "Y"), (0, "X")): -1.5 + 1e-12j})
    assert qring.expval(c, operator).observables == ("0.25 + -1.5*X0 Y1",)
    wanted = 0.25 + 1.5 * math.sin(0.4) * math.sin(0.3)
    assert abs(qring.expval(c, [operator, "Z0"]).forward([])[0] - wanted) < TOLERANCE
    with pytest.raises(ValueError, match="is not real"):
        qring.expval(c, QubitOperator({(): 1j}))
    with pytest.raises(ValueError, match="number qubits from 0"):
        qring.expval(c, QubitOperator({(("a", "X"),): 1}))  # type: ignore[dict-item]
    assert c.export("qasm3", operator) == c.export("qasm3", "0.25 + -1.5*X0 Y1")
    number = QubitOperator({((np.int64(1), "Y"),): 2})  # type: ignore[dict-item]
    assert qring.expval(c, number).observables == ("2.0*Y1",)
