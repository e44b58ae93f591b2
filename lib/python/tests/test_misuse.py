"""Misuses: each raises an exception of the right type with a useful text, and nothing crashes."""

from __future__ import annotations

import contextlib
import platform
import threading
from typing import Any, Callable, Union

import numpy as np
import pytest

import qring
from qring import Circuit, Input, Parameter, QringError

NAN, INF = float("nan"), float("inf")
FOREIGN_ISA = "avx2" if platform.machine() == "aarch64" else "neon"


def model() -> Circuit:
    return Circuit(3).ry("w0", 0).cnot(0, 1).rx(Parameter("w1"), 1).ry(Input("x0"), 2).cz(1, 2)


def function(**options: Any) -> qring.Function:
    return qring.expval(model(), ["Z0", "X1 Z2"], **options)


def closed() -> qring.Function:
    f = function()
    f.close()
    f.close()  # a second close has no effect
    return f


W = np.array([0.1, 0.2])
X = np.array([[0.3], [0.4], [0.5]])
C = np.ones((3, 2))


def gates(*items: Any, qubits: Any = 2, **keys: Any) -> Callable[[], Any]:
    return lambda: qring.expval({"qubits": qubits, "gates": list(items), **keys}, "Z0")


def item(**keys: Any) -> dict[str, Any]:
    return {"gate": "RX", "qubits": [0], "angle": 0.1, **keys}


def build(method: Callable[[Circuit], Any]) -> Callable[[], Any]:
    return lambda: qring.expval(method(Circuit(3)), "Z0")


def read_only() -> Any:
    out = np.zeros((3, 2))
    out.flags.writeable = False
    return out


def nested(depth: int) -> Any:
    return {"repeat": 1, "gates": [nested(depth - 1) if depth else item()]}


def doubled(e: Any, once: Callable[[Any], Any] = lambda e: e + e) -> Any:
    for _ in range(20):
        e = once(e)
    return e


def wrong_sum() -> Any:
    return qring.expval(Circuit(1).rx("w", 0), "Z0").sum()


Kind = Union[type[BaseException], tuple[type[BaseException], ...]]
BAD: Kind = (ValueError, QringError)
MISUSES: dict[str, tuple[Callable[[], Any], Kind, str]] = {
    # ---- shapes ----
    "few weights": (lambda: function().forward(W[:1], X), ValueError, r"weights of shape \(1,\)"),
    "many weights": (lambda: function().forward(np.ones(3), X), ValueError, "weights of shape"),
    "weights 2-d": (lambda: function().forward(W[None], X), ValueError, "weights of shape"),
    "weights 0-d": (lambda: function().forward(0.1, X), ValueError, "weights of shape"),
    "no weights": (lambda: function().forward(None, X), ValueError, "without weights"),
    "no inputs": (lambda: function().forward(W), ValueError, "without inputs"),
    "wide inputs": (lambda: function().forward(W, np.ones((3, 2))), ValueError, "inputs of shape"),
    "inputs 3-d": (lambda: function().forward(W, X[None]), ValueError, "inputs of shape"),
    "inputs 0-d": (lambda: function().forward(W, 0.5), ValueError, "inputs of shape"),
    "inputs 5-d": (
        lambda: function().forward(W, np.ones((1, 1, 1, 1, 1))),
        ValueError,
        "inputs of shape",
    ),
    "empty inputs": (lambda: function().forward(W, []), ValueError, "inputs of shape"),
    "few cotangents": (lambda: function().vjp(W, X, C[:2]), ValueError, "cotangents of shape"),
    "wide cotangents": (lambda: function().vjp(W, X, C[:, :1]), ValueError, "cotangents of shape"),
    "cotangents 1-d": (lambda: function().vjp(W, X, C[0]), ValueError, "cotangents of shape"),
    "cotangents 0-d": (lambda: function().vjp(W, X, 1.0), ValueError, "cotangents of shape"),
    "cotangents of a batch": (
        lambda: function().vjp(W, X[0], C),
        ValueError,
        "cotangents of shape",
    ),
    "ragged inputs": (
        lambda: function().forward(W, [[0.1], [0.1, 0.2]]),
        (ValueError, TypeError),
        "inputs",
    ),
    "unneeded inputs": (
        lambda: qring.expval(Circuit(1).rx("w", 0), "Z0").forward([0.1], X),
        ValueError,
        "inputs of shape",
    ),
    "out of another shape": (
        lambda: function().forward(W, X, out=np.zeros((3, 3))),
        ValueError,
        "out of shape",
    ),
    "out read-only": (lambda: function().forward(W, X, out=read_only()), ValueError, "read-only"),
    "out not an array": (
        lambda: function().forward(W, X, out=[[0, 0]] * 3),  # type: ignore[arg-type]
        TypeError,
        "out",
    ),
    "out of integers": (
        lambda: function().forward(W, X, out=np.zeros((3, 2), int)),
        TypeError,
        "out",
    ),
    # ---- dtypes ----
    "complex weights": (lambda: function().forward(W + 0j, X), TypeError, "complex128"),
    "texts as weights": (lambda: function().forward(["a", "b"], X), TypeError, "weights"),
    "objects as inputs": (lambda: function().forward(W, [[object()]]), TypeError, "inputs"),
    "None as input": (lambda: function().forward(W, [[None]]), TypeError, "inputs"),
    "dates": (lambda: function().forward(W, np.array([["2020-01-01"]], "M8")), TypeError, "inputs"),
    "a dict": (lambda: function().forward({"w0": 1}, X), TypeError, "weights"),  # type: ignore
    "complex cotangents": (lambda: function().vjp(W, X, C * 1j), TypeError, "cotangents"),
    "dtype float16": (lambda: function(dtype="float16"), ValueError, "float16"),
    "dtype complex": (lambda: function(dtype=complex), ValueError, "complex128"),
    "dtype unknown": (lambda: function(dtype="real"), TypeError, "real"),
    # ---- numbers ----
    "NaN weight": (lambda: function().forward([0.1, NAN], X), QringError, "finite"),
    "strength out of range": (
        lambda: qring.expval(Circuit(1).channel("Depolarize", 0, p="2*w"), "Z0").forward([0.9]),
        QringError,
        r"Depolarize has p = 1\.8; give a number from 0 to 1",
    ),
    "infinite weight": (lambda: function().vjp([INF, 0.1], X, C), QringError, "finite"),
    "NaN input": (lambda: function().forward(W, [[NAN]]), QringError, "finite"),
    "infinite input": (lambda: function().jacobian(W, [[-INF]]), QringError, "finite"),
    "NaN cotangent": (lambda: function().vjp(W, X, C * NAN), QringError, "finite"),
    "huge weight": (lambda: function().forward([2.0**40, 0], X), QringError, "2\\^40"),
    "huge longdouble": (
        lambda: function().forward(np.full(2, np.finfo(np.longdouble).max), X),
        QringError,
        "finite",
    ),
    "huge float32": (
        lambda: function().forward(np.full(2, 3e38, np.float32), X),
        QringError,
        "2\\^40",
    ),
    "expression outside its domain": (
        lambda: qring.expval(Circuit(1).rx("asin(w)", 0), "Z0").forward([2.0]),
        QringError,
        "",
    ),
    "state of NaN": (lambda: qring.state(model(), [NAN, 0], [0]), QringError, "finite"),
    # ---- handles and options ----
    "closed, forward": (lambda: closed().forward(W, X), ValueError, "closed"),
    "closed, vjp": (lambda: closed().vjp(W, X, C), ValueError, "closed"),
    "closed, jacobian": (lambda: closed().jacobian(W, X), ValueError, "closed"),
    "closed, draw": (lambda: closed().draw(), ValueError, "closed"),
    "sum of another size": (
        lambda: function().vjp(W, X, C, sum=wrong_sum()),
        ValueError,
        "sum of 1",
    ),
    "no sum": (lambda: function().vjp(W, X, C, sum=W), TypeError, "Sum"),  # type: ignore
    "sums of two sizes": (lambda: function().sum().add(wrong_sum()), ValueError, "sum of"),
    "sum plus number": (lambda: function().sum().add(3), TypeError, "Sum"),  # type: ignore
    "negative sum": (lambda: qring.Sum(-1), ValueError, "-1"),
    "huge sum": (lambda: qring.Sum(1 << 39), MemoryError, "memory"),
    "threads 0": (lambda: function(threads=0), ValueError, "threads"),
    "threads -1": (lambda: function(threads=-1), ValueError, "threads"),
    "threads 2^32": (lambda: function(threads=1 << 32), ValueError, "threads"),
    "threads 1.5": (lambda: function(threads=1.5), TypeError, "threads"),
    "shots True": (lambda: function(shots=True), TypeError, "shots"),
    "seed -1": (lambda: function(seed=-1), ValueError, "seed"),
    "unknown isa": (lambda: function(isa="sse9"), ValueError, "sse9"),
    "isa of another machine": (lambda: function(isa=FOREIGN_ISA), QringError, FOREIGN_ISA),
    "draw in 0 columns": (lambda: function().draw(0), ValueError, "columns"),
    "draw in text columns": (lambda: function().draw("a"), TypeError, ""),  # type: ignore
    "complex angle": (lambda: Circuit(1).rx(1 + 2j, 0), TypeError, "not a real number"),  # type: ignore
    "NumPy's complex angle": (
        lambda: Circuit(1).rx(np.complex128(1 + 2j), 0),
        TypeError,
        "not a real number",
    ),
    # ---- observables ----
    "no observable": (lambda: qring.expval(model(), []), ValueError, "empty"),
    "None as observables": (lambda: qring.expval(model(), None), TypeError, "not an observable"),
    "3 as observables": (lambda: qring.expval(model(), 3), TypeError, "not an observable"),
    "empty observable": (lambda: qring.expval(model(), ""), QringError, ""),
    "bad observable": (lambda: qring.expval(model(), "Q0"), QringError, "Q0"),
    "observable of qubit 3": (lambda: qring.expval(model(), "Z3"), QringError, "Z3"),
    "observable twice": (lambda: qring.expval(model(), "X0 Z0"), QringError, ""),
    "observable number": (lambda: qring.expval(model(), [3]), TypeError, "3"),  # type: ignore
    "observable None": (lambda: qring.expval(model(), None), TypeError, ""),  # type: ignore
    "observable NUL": (lambda: qring.expval(model(), "Z0\0"), ValueError, "NUL"),
    "observable infinite": (lambda: qring.expval(model(), "1e999*Z0"), QringError, ""),
    "observable long": (lambda: qring.expval(model(), "Z0 + " * 100000), QringError, ""),
    "observable surrogate": (lambda: qring.expval(model(), "\ud800"), ValueError, ""),
    # ---- building circuits ----
    "0 qubits": (lambda: Circuit(0), ValueError, "qubits"),
    "-1 qubits": (lambda: Circuit(-1), ValueError, "qubits"),
    "10^30 qubits": (lambda: Circuit(10**30), ValueError, "qubits"),
    "2.5 qubits": (lambda: Circuit(2.5), TypeError, "qubits"),  # type: ignore
    "qubits as text": (lambda: Circuit("2"), TypeError, "qubits"),  # type: ignore
    "qubit outside": (lambda: Circuit(2).h(2), ValueError, "qubit"),
    "qubit -1": (lambda: Circuit(2).h(-1), ValueError, "qubit"),
    "qubit None": (lambda: Circuit(2).h(None), TypeError, "qubit"),  # type: ignore
    "qubit twice": (lambda: Circuit(2).cnot(1, 1), ValueError, "twice"),
    "angle NaN": (lambda: Circuit(2).rx(NAN, 0), ValueError, "finite"),
    "angle complex": (lambda: Circuit(2).rx(1j, 0), TypeError, "angle"),  # type: ignore
    "angle None": (lambda: Circuit(2).rx(None, 0), TypeError, "angle"),  # type: ignore
    "angle array": (lambda: Circuit(2).rx(np.ones(3), 0), TypeError, "angle"),  # type: ignore
    "angle empty": (lambda: Circuit(2).rx("", 0), ValueError, "expression"),
    "angle open bracket": (build(lambda c: c.rx("2*(w", 0)), QringError, "column"),
    "angle deep": (build(lambda c: c.rx("(" * 500 + "w" + ")" * 500, 0)), QringError, ""),
    "angle long": (build(lambda c: c.rx("+".join(["w"] * 5000), 0)), QringError, ""),
    "angle divided by 0": (build(lambda c: c.rx("1/0", 0)), QringError, "finite"),
    "parameter 0 / 0": (lambda: Parameter("w") / 0, ZeroDivisionError, "0"),
    "parameter times NaN": (lambda: Parameter("w") * NAN, ValueError, "finite"),
    "parameter without name": (lambda: Parameter(""), ValueError, "name"),
    "parameter of 65 bytes": (lambda: Parameter("w" * 65), ValueError, "64"),
    "parameter number": (lambda: Parameter(3), TypeError, "name"),  # type: ignore
    "parameter named pi": (lambda: Circuit(1).rx(Parameter("pi") + 1, 0), ValueError, "'pi'"),
    "input -1": (lambda: Input(-1), ValueError, "-1"),
    "input 1.5": (lambda: Input(1.5), TypeError, "1.5"),  # type: ignore
    "input with quote": (lambda: Input("a'b"), ValueError, "quote"),
    "input 2^20": (lambda: Input(1 << 20), ValueError, "2\\^20"),
    "truth of a parameter": (lambda: bool(Parameter("w")), TypeError, "truth"),
    "sum with a dict": (lambda: Parameter("w") + {}, TypeError, ""),  # type: ignore
    "unknown gate": (build(lambda c: c.gate("foo", 0)), QringError, "unknown gate"),
    "gate number": (build(lambda c: c.gate(3, 0)), TypeError, "name"),  # type: ignore
    "missing angle": (build(lambda c: c.gate("rx", 0)), QringError, "angle"),
    "unneeded angle": (build(lambda c: c.gate("cy", [0, 1], angle=1)), QringError, "angle"),
    "too many qubits": (build(lambda c: c.gate("h", [0, 1])), QringError, "qubit"),
    "target as control": (build(lambda c: c.gate("h", 0, controls=[0])), QringError, "control"),
    "control value 2": (
        build(lambda c: c.gate("h", 0, controls=[1], control_values=[2])),
        ValueError,
        "control value",
    ),
    "control values alone": (
        build(lambda c: c.gate("h", 0, control_values=[1])),
        QringError,
        "control",
    ),
    "not unitary": (build(lambda c: c.unitary([[1, 1], [0, 1]], 0)), QringError, "unitary"),
    "matrix ragged": (build(lambda c: c.unitary([[1], [0, 1]], 0)), QringError, "matrix"),
    "matrix NaN": (build(lambda c: c.unitary([[NAN, 0], [0, 1]], 0)), ValueError, "finite"),
    "matrix of texts": (build(lambda c: c.unitary([["a"]], 0)), TypeError, "matrix"),
    "matrix number": (build(lambda c: c.unitary(3, 0)), TypeError, "matrix"),
    "matrix of triples": (
        build(lambda c: c.gate("Unitary", 0, matrix=[[(1, 2, 3)]])),
        TypeError,
        r"or of \[re, im\]",
    ),
    "matrix on 7 qubits": (
        build(lambda c: (c + Circuit(7)).unitary(np.eye(128), range(7))),
        QringError,
        "qubit",
    ),
    "state digits": (build(lambda c: c.basis("012", [0, 1, 2])), QringError, "state"),
    "state list": (build(lambda c: c.basis([0, 5], [0, 1])), ValueError, "state"),
    "state of a named input": (build(lambda c: c.basis(Input("a"), [0])), ValueError, "columns"),
    "pauli word": (build(lambda c: c.pauli_rot(1, "XQ", [0, 1])), QringError, "pauli_word"),
    "repeat -1": (lambda: model().repeat(-1), ValueError, "repetitions"),
    "repeat 2^30": (lambda: model().repeat(1 << 30), ValueError, "repetitions"),
    "repeat 2^20": (build(lambda c: c.h(0).h(1).repeat(1 << 20)), QringError, "exceeds"),
    "repeat index": (lambda: model().repeat(2, index="1i"), ValueError, "index"),
    "repeat index n": (build(lambda c: c.h(0).repeat(2, index="n")), QringError, "index"),
    "index outside a repeat": (build(lambda c: c.h("i")), QringError, "qubits"),
    "unknown ansatz": (build(lambda c: c.ansatz("foo")), QringError, "foo"),
    "controlled by itself": (build(lambda c: c.h(0).controlled(0)), QringError, "a control"),
    "power of a text": (lambda: model().power("2"), TypeError, "exponent"),  # type: ignore
    "root of two gates": (build(lambda c: c.h(0).h(1).power(0.5)), QringError, "fractional"),
    "controlled twice": (lambda: model().controlled([3, 3]), ValueError, "different"),
    "controlled at 2": (lambda: model().controlled(3, 2), ValueError, "value of a control qubit"),
    "circuit plus number": (lambda: model() + 3, TypeError, ""),  # type: ignore
    "gate after a qcnn": (
        lambda: Circuit.from_json({"ansatz": "qcnn", "qubits": 8}).h(0),
        ValueError,
        "qcnn",
    ),
    "unknown gate inverted": (build(lambda c: c.gate("foo", 0).adjoint()), QringError, "foo"),
    "hash of a circuit": (lambda: hash(model()), TypeError, "hash"),
    "circuit of Qiskit": (lambda: Circuit.from_qiskit("h q"), TypeError, "QuantumCircuit"),
    # ---- circuits from JSON ----
    "circuit None": (lambda: qring.expval(None, "Z0"), TypeError, "None"),  # type: ignore
    "circuit text": (lambda: qring.expval("h 0", "Z0"), TypeError, "circuit"),  # type: ignore
    "circuit list": (lambda: Circuit.from_json([]), TypeError, "object"),  # type: ignore
    "circuit bad JSON": (lambda: Circuit.from_json("{"), ValueError, "cannot read .* not JSON"),
    "circuit bad bytes": (
        lambda: Circuit.from_json(b"\xff"),  # type: ignore
        ValueError,
        "cannot read .* not JSON",
    ),
    "circuit nested JSON": (lambda: Circuit.from_json('{"a":' * 99999), ValueError, "nested"),
    "circuit without qubits": (lambda: Circuit.from_json({"gates": []}), ValueError, "qubits"),
    "circuit without gates": (
        lambda: qring.expval({"qubits": 2}, "Z0"),
        QringError,
        "gates",
    ),
    "gates are a number": (gates(qubits=2, gates=3), TypeError, "gates"),
    "a gate is a list": (gates([]), TypeError, "objects"),
    "unknown key": (gates(item(foo=1)), QringError, "foo"),
    "qubits as text in JSON": (gates(item(qubits="0")), QringError, "qubits"),
    "qubit 99 in JSON": (gates(item(qubits=[99])), QringError, "qubits"),
    "qubit 1e300": (gates(item(qubits=[1e300])), QringError, "qubits"),
    "angle list": (gates(item(angle=[1])), QringError, "angle"),
    "angle NaN in JSON": (gates(item(angle=NAN)), ValueError, "JSON"),
    "angle of 1e400": (
        lambda: qring.expval(
            Circuit.from_json('{"qubits":1,"gates":[{"gate":"RX","qubits":[0],"angle":1e400}]}'),
            "Z0",
        ),
        ValueError,
        "JSON",
    ),
    "set in JSON": (gates(item(angle={1})), TypeError, "JSON"),
    "surrogate in a name": (gates(item(angle="\ud800")), BAD, ""),
    "surrogate in an observable": (
        lambda: qring.expval(Circuit(1), "Z0\ud800"),
        ValueError,
        "cannot use 'Z0.ud800'",
    ),
    "surrogate in OpenQASM": (
        lambda: Circuit.from_qasm("qubit q; // \ud800"),
        ValueError,
        "cannot use 'qubit q; // .ud800'",
    ),
    "surrogate in an input": (
        lambda: Circuit.from_qasm("qubit q;", inputs=["\ud800"]),
        ValueError,
        "cannot use '.ud800'",
    ),
    "surrogate in an exported observable": (
        lambda: Circuit(1).export("qasm3", ["\ud800"]),
        ValueError,
        "cannot use '.ud800'",
    ),
    "NUL in an exported observable": (
        lambda: Circuit(1).export("qasm3", "Z0\0 + X0"),
        ValueError,
        "NUL",
    ),
    "number exported": (lambda: Circuit(1).export("qasm3", [3]), TypeError, "'X0 Z1'"),
    "surrogate in a format": (lambda: Circuit(1).export("\ud800"), ValueError, "cannot use"),
    "expression doubled": (lambda: doubled(np.sin(Parameter("w"))), ValueError, "1024 bytes"),
    "function doubled": (
        lambda: doubled(Parameter("w"), lambda e: np.hypot(e, e)),
        ValueError,
        "1024 bytes",
    ),
    "NUL in a name": (gates(item(angle={"parameter": "a\0b"})), QringError, ""),
    "nested 20 deep": (gates(nested(20)), QringError, "nested"),
    "nested 900 deep": (gates(nested(900)), ValueError, "nested"),
    "nested 90 deep": (gates(nested(90)), QringError, "nested"),
    "column 2^40": (gates(item(angle={"data": 1 << 40})), QringError, "data"),
    "column beyond columns": (gates(item(angle={"data": 3}), columns=2), QringError, "data"),
    "repeat and gate": (gates({"repeat": 2, "gate": "H", "gates": []}), QringError, ""),
    # ---- memory ----
    "64 qubits entangled": (
        lambda: qring.expval(_entangled(64), "Z0"),
        QringError,
        "",
    ),
    "1000 qubits entangled": (lambda: qring.expval(_entangled(1000), "Z0"), QringError, ""),
    "state of 60 qubits": (lambda: qring.state(Circuit(60).h(0)), (QringError, MemoryError), ""),
    "huge batch": (
        lambda: function().forward(W, np.broadcast_to(X[:1], (1 << 44, 1))),
        (MemoryError, QringError),
        "",
    ),
    "huge Jacobian": (
        lambda: function().jacobian(W, np.broadcast_to(X[:1], (1 << 42, 1))),
        (MemoryError, QringError),
        "",
    ),
}


def _entangled(n: int) -> Circuit:
    c = Circuit(n)
    for q in range(n):
        c.ry(f"w{q}", q)
    for _ in range(3):
        for q in range(n):
            c.cnot(q, (q + n // 2) % n).cnot(q, (q + 1) % n).ry("v", q)
    return c


@pytest.mark.parametrize("name", MISUSES)
def test_misuse(name: str) -> None:
    call, kind, text = MISUSES[name]
    with pytest.raises(kind, match=text or None) as caught:
        call()
    assert str(caught.value) or kind is MemoryError


def test_number_of_misuses() -> None:
    assert len(MISUSES) >= 50


def test_function_works_after_misuse() -> None:
    f = function()
    want = f.value_and_vjp(W, X, C)
    total = f.sum()
    for weights in ([NAN, 0], [2.0**41, 0], [INF, INF]):
        with pytest.raises(QringError):
            f.vjp(weights, X, C, sum=total)
    assert not total.values().any()  # unchanged by the failures
    for got, expected in zip(f.value_and_vjp(W, X, C), want):
        assert np.array_equal(got, expected)  # type: ignore[arg-type]


def test_close_while_another_thread_calls() -> None:
    for _ in range(20):
        f = function(threads=1)
        seen: list[type] = []

        def call(f: qring.Function = f, seen: list[type] = seen) -> None:
            try:
                while True:
                    f.vjp(W, X, C)
            except BaseException as error:
                seen.append(type(error))

        threads = [threading.Thread(target=call) for _ in range(2)]
        for t in threads:
            t.start()
        f.close()
        for t in threads:
            t.join()
        assert seen == [ValueError, ValueError]


def test_close_before_a_draw_returns() -> None:
    f = qring.SampleFunction(Circuit(2).measure(1, 0), 3)
    forward = f._forward

    def close_after(*arguments: Any, **options: Any) -> None:  # as another thread may
        forward(*arguments, **options)
        f.close()

    f._forward = close_after  # type: ignore[method-assign]
    assert f.bits().tolist() == [[0]] * 3


def test_uninitialised_objects() -> None:
    for kind in (qring.Function, qring.StateFunction, qring.Sum):
        kind.__new__(kind)  # freed without a handle


def test_names_of_the_package_exist() -> None:
    """Each name that dir() lists can be used, where its framework is installed."""
    framework = ("torch", "jax", "keras", "pennylane", "from_qnode")
    for name in dir(qring):
        with contextlib.suppress(*[ImportError] if name in framework else []):
            getattr(qring, name)
