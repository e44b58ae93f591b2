"""Functions: values and derivatives against dense matrices, batches, arrays, bits, threads."""

from __future__ import annotations

import copy
import os
import pickle
import signal
import subprocess
import sys
import threading
from typing import Any

import dense
import numpy as np
import pytest

import qring
from qring import Circuit, Input, Parameter
from qring._function_set import FunctionSet

OBSERVABLES = ["Z0", "0.5*X0 Z1 - Y2", "X3 Y1 Z2", "1.5 - 2*Z3"]
NORM = 3.5  # largest sum of an observable's coefficients
EPS = {"float32": float(np.finfo(np.float32).eps), "float64": float(np.finfo(np.float64).eps)}
STEP = 1e-4  # of central differences


def model(n: int = 4, layers: int = 2) -> Circuit:
    """Return a circuit with 2 * n parameters and n + 1 inputs."""
    c = Circuit(n)
    for layer in range(layers):
        for q in range(n):
            c.ry(Input(f"x{q}"), q).rx(f"w{q}", q).rz(2 * Parameter(f"v{q}"), q)
        for q in range(n):
            c.cnot(q, (q + 1) % n)
        c.crx("w0*0.5 + x.extra", 0, n - 1).rzz(0.3 + layer, 1, 2)
    return c


# |d angle / d a parameter or an input| summed over gates: a bound of the frequency in any of them.
# RZ(2 v) twice: 4; crx has frequencies up to 1 and the factor 1/2, beside RX(w0): 3 in all.
FREQUENCY = 4
GATES = 2 * (3 * 4 + 4 + 2)


def error_of_value(dtype: str) -> float:
    """Rounding of a few operations per gate, of amplitudes and of the sum."""
    return 8 * GATES * EPS[dtype] * NORM


def error_of_derivative(dtype: str) -> float:
    """Add the truncation of central differences and the rounding of their two values."""
    differences = STEP**2 / 6 * FREQUENCY**3 * NORM + error_of_value("float64") / STEP
    return differences + FREQUENCY * error_of_value(dtype)


def data(f: qring.Function, n: int, seed: int = 3) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    w = rng.uniform(-2, 2, len(f.parameters))
    x = rng.uniform(-1, 1, (n, len(f.inputs)))
    return w, x, rng.normal(size=(n, f.n_outputs))


def expected(f: qring.Function, c: Circuit, w: Any, x: Any) -> Any:
    return dense.expectation(
        c.to_json(),
        list(f.observables),
        dict(zip(f.parameters, w)),
        dict(zip(f.inputs, x)),
    )


def differences(f: qring.Function, c: Circuit, w: Any, x: Any) -> tuple[Any, Any]:
    """Return central differences (R, P) and (R, I) of one sample."""
    both = []
    for array in (w, x):
        columns = []
        for k in range(len(array)):
            moved = []
            for sign in (1, -1):
                a = array.copy()
                a[k] += sign * STEP
                moved.append(expected(f, c, a if array is w else w, a if array is x else x))
            columns.append((moved[0] - moved[1]) / (2 * STEP))
        both.append(np.array(columns).T)
    return both[0], both[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_derivatives(dtype: str) -> None:
    c = model()
    f = qring.expval(c, OBSERVABLES, dtype=dtype)
    w, x, cotangents = data(f, 3)
    values, by_weights, by_inputs = [], [], []
    for sample in x:
        values.append(expected(f, c, w, sample))
        dw, dx = differences(f, c, w, sample)
        by_weights.append(dw)
        by_inputs.append(dx)
    assert np.abs(f.forward(w, x) - values).max() < error_of_value(dtype)
    jw, jx = f.jacobian(w, x)
    assert jw.shape == (3, 4, 8)
    assert jx is not None
    assert jx.shape == (3, 4, 5)
    assert np.abs(jw - by_weights).max() < error_of_derivative(dtype)
    assert np.abs(jx - by_inputs).max() < error_of_derivative(dtype)
    z, dw, dx = f.value_and_vjp(w, x, cotangents)
    assert dx is not None
    # The vector product adds the errors of B R terms, at most.
    factor = np.abs(cotangents).sum()
    assert np.abs(z - values).max() < error_of_value(dtype)
    assert np.abs(dw - np.einsum("br,brp->p", cotangents, by_weights)).max() < (
        factor * error_of_derivative(dtype)
    )
    assert np.abs(dx - np.einsum("br,bri->bi", cotangents, by_inputs)).max() < (
        factor * error_of_derivative(dtype)
    )
    dw2, dx2 = f.vjp(w, x, cotangents)
    assert np.array_equal(dw, dw2)
    assert np.array_equal(dx, dx2)


def test_expression_gradient() -> None:
    c = Circuit(1).rx(np.sin(Parameter("a") * Input("b")) + Parameter("c") ** 2, 0)
    f = qring.expval(c, "Z0")
    a, b, d = 0.7, 0.4, 0.9
    angle = np.sin(a * b) + d**2
    slope = -np.sin(angle)
    jw, jx = f.jacobian([a, d], [b])
    assert jx is not None
    assert f.parameters == ("a", "c")
    assert np.allclose(jw, [[slope * np.cos(a * b) * b, slope * 2 * d]], rtol=0, atol=1e-14)
    assert np.allclose(jx, [[slope * np.cos(a * b) * a]], rtol=0, atol=1e-14)


def test_shapes() -> None:
    f = qring.expval(model(), OBSERVABLES)
    w, x, c = data(f, 5)
    n_p, n_i, n_r = 8, 5, 4
    assert (len(f.parameters), len(f.inputs), f.n_outputs, f.n_qubits) == (n_p, n_i, n_r, 4)
    assert f.forward(w, x).shape == (5, n_r)
    assert f(w, x[0]).shape == (n_r,)
    assert f.forward(w, x[:0]).shape == (0, n_r)
    assert [a.shape for a in f.value_and_vjp(w, x, c)] == [(5, n_r), (n_p,), (5, n_i)]  # type: ignore
    assert [a.shape for a in f.value_and_vjp(w, x[0], c[0])] == [(n_r,), (n_p,), (n_i,)]  # type: ignore
    empty = f.value_and_vjp(w, x[:0], c[:0])
    assert [a.shape for a in empty] == [(0, n_r), (n_p,), (0, n_i)]  # type: ignore
    assert not empty[1].any()
    assert [a.shape for a in f.jacobian(w, x[0])] == [(n_r, n_p), (n_r, n_i)]  # type: ignore
    assert all(a.dtype == np.float64 for a in f.value_and_vjp(w, x, c))  # type: ignore
    assert f.dtype == "float64"
    assert f.engine in ("cones", "streaming", "statevector")
    one = f.value_and_vjp(w, x[0], c[0])
    row = f.value_and_vjp(w, x[:1], c[:1])
    assert np.array_equal(one[0], row[0][0])
    assert np.array_equal(one[1], row[1])


def test_without_inputs_or_parameters() -> None:
    f = qring.expval(Circuit(2).ry("w", 0), ["Z0", "X0"])
    assert f.forward([0.0]).tolist() == [1, 0]
    dw, dx = f.vjp([0.0], None, [1.0, 1.0])
    assert dw.tolist() == [1.0]
    assert dx is not None
    assert dx.shape == (0,)
    assert f.vjp([0.0], None, np.ones((3, 2)))[0].tolist() == [3.0]
    assert f.forward([0.0], np.empty((3, 0))).shape == (3, 2)
    assert f.jacobian([0.0])[0].shape == (2, 1)
    g = qring.expval(Circuit(2).x(0), "Z0")
    for nothing in (None, [], np.empty(0)):
        assert g.forward(nothing).tolist() == [-1]
    assert g.vjp(None, None, [1.0])[0].shape == (0,)
    total = g.sum()
    g.vjp(None, None, [1.0], sum=total)
    assert total.values().shape == (0,)


def test_without_input_gradients() -> None:
    f = qring.expval(model(), OBSERVABLES)
    g = qring.expval(model(), OBSERVABLES, input_gradients=False)
    w, x, c = data(f, 3)
    assert not g.input_gradients
    dw, dx = g.vjp(w, x, c)
    assert dx is None
    assert np.allclose(dw, f.vjp(w, x, c)[0], rtol=0, atol=1e-12)
    assert g.jacobian(w, x)[1] is None
    assert g.value_and_vjp(w, x[0], c[0])[2] is None


def variants(array: Any) -> list[Any]:
    """Return arrays of equal values that lie differently in memory."""
    n = array.ndim
    wide = np.empty([3 * s for s in array.shape])
    strided = wide[(slice(1, None, 3),) * n]
    strided[...] = array
    backward = array[(slice(None, None, -1),) * n].copy()[(slice(None, None, -1),) * n]
    record = np.zeros(array.shape, [("flag", "i1"), ("value", "f8")])
    record["value"] = array  # not aligned
    frozen = array.copy()
    frozen.flags.writeable = False
    return [
        strided,
        backward,
        record["value"],
        frozen,
        np.asfortranarray(array),
        array.astype(">f8"),
        array.astype(np.longdouble),
        array.tolist(),
    ]


def test_arrays() -> None:
    f = qring.expval(model(), OBSERVABLES)
    w, x, c = data(f, 4)
    values = f.value_and_vjp(w, x, c)
    for w2, x2, c2 in zip(variants(w), variants(x), variants(c)):
        for got, want in zip(f.value_and_vjp(w2, x2, c2), values):
            assert np.array_equal(got, want)  # type: ignore
    # One row for all samples
    same = np.broadcast_to(x[0], x.shape)
    assert np.array_equal(f.forward(w, same), f.forward(w, same.copy()))
    # float32 arrays are read as they are: values that float32 has give the same bits
    w32, x32, c32 = (a.astype(np.float32) for a in (w, x, c))
    wide = f.value_and_vjp(*(a.astype(np.float64) for a in (w32, x32, c32)))
    for got, want in zip(f.value_and_vjp(w32, x32, c32), wide):
        assert np.array_equal(got, want)  # type: ignore
    # Integers and booleans
    g = qring.expval(Circuit(1).rx("w*x[0]", 0), "Z0")
    assert g.forward([1], [[True], [0]]).tolist() == g.forward([1.0], [[1.0], [0.0]]).tolist()
    assert g.forward(np.float16([1]), np.uint8([[1]])) == g.forward([1.0], [[1.0]])


def test_out() -> None:
    f = qring.expval(model(), OBSERVABLES)
    w, x, _ = data(f, 4)
    values = f.forward(w, x)
    out = np.zeros((4, 4))
    assert f.forward(w, x, out=out) is out
    assert np.array_equal(out, values)
    wide = np.zeros((8, 12), np.float32)
    f.forward(w, x, out=wide[::2, ::3])
    assert np.array_equal(wide[::2, ::3], values.astype(np.float32))
    assert not wide[1::2].any()
    row = np.zeros(4)
    assert f.forward(w, x[0], out=row) is row
    assert np.array_equal(row, f.forward(w, x[0]))


def test_out_overlaps_the_inputs() -> None:
    f = qring.expval(model(), OBSERVABLES)
    w, x, _ = data(f, 200)
    memory = np.zeros((201, 5))
    memory[:200] = x
    f.forward(w, memory[:200], out=memory[1:, :4])  # over the next sample
    assert np.array_equal(memory[1:, :4], f.forward(w, x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_qubits", [4, 12])
def test_threads_give_equal_bits(dtype: str, n_qubits: int) -> None:
    c = model(n_qubits)
    one, two = (qring.expval(c, ["Z0", "X1"], dtype=dtype, threads=t) for t in (1, 2))
    w, x, cotangents = data(one, 37)
    for a, b in zip(one.value_and_vjp(w, x, cotangents), two.value_and_vjp(w, x, cotangents)):
        assert a is not None
        assert b is not None
        assert a.tobytes() == b.tobytes()
    for a, b in zip(one.jacobian(w, x[:3]), two.jacobian(w, x[:3])):
        assert a is not None
        assert b is not None
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_instruction_sets_give_equal_bits(dtype: str) -> None:
    a = qring.expval(model(), OBSERVABLES, dtype=dtype)
    b = qring.expval(model(), OBSERVABLES, dtype=dtype, isa="portable")
    w, x, c = data(a, 9)
    for got, want in zip(a.value_and_vjp(w, x, c), b.value_and_vjp(w, x, c)):
        assert got.tobytes() == want.tobytes()  # type: ignore


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_exact_sum_of_any_split_has_equal_bits(dtype: str) -> None:
    f = qring.expval(model(), OBSERVABLES, dtype=dtype, threads=2)
    g = qring.expval(model(), OBSERVABLES, dtype=dtype, threads=1)
    w, x, c = data(f, 40)
    whole = f.sum()
    f.vjp(w, x, c, sum=whole)
    bits = whole.values().tobytes()
    for cuts in ([1], [16, 32], [3, 4, 39], list(range(1, 40))):
        total = f.sum()
        for i, (xs, cs) in enumerate(zip(np.split(x, cuts), np.split(c, cuts))):
            (f if i % 2 else g).vjp(w, xs, cs, sum=total)
        assert total.values().tobytes() == bits
    # Sums of two halves, in another order
    first, second = f.sum(), f.sum()
    order = np.random.default_rng(1).permutation(40)
    g.vjp(w, x[order[:11]], c[order[:11]], sum=first)
    f.value_and_vjp(w, x[order[11:]], c[order[11:]], sum=second)
    second += first
    assert second.values().tobytes() == bits
    # Each term is rounded to a multiple of 2^-64.
    dw = f.vjp(w, x, c)[0]
    assert np.abs(whole.values() - dw).max() < 40 * error_of_derivative(dtype)
    assert len(first) == len(f.parameters)
    doubled = f.sum().add(first).add(first)
    assert np.array_equal(first.add(first).values(), doubled.values())


def test_state() -> None:
    c = model()
    f = qring.expval(c, OBSERVABLES)
    w, x, _ = data(f, 3)
    got = qring.state(c, w, x)
    assert got.dtype == np.complex128
    assert got.shape == (3, 16)
    for row, sample in zip(got, x):
        want = dense.simulate(c.to_json(), dict(zip(f.parameters, w)), dict(zip(f.inputs, sample)))
        assert np.abs(row - want).max() < error_of_value("float64")
    assert np.array_equal(qring.state(c, w, x[0]), got[0])
    assert qring.state(c, w, x[:0]).shape == (0, 16)
    assert np.abs(qring.state(c, w, x, dtype="float32") - got).max() < error_of_value("float32")
    # Qubit 0 is the most significant bit
    assert np.argmax(np.abs(qring.state(Circuit(3).x(0)))) == 4
    s = qring.StateFunction(c, threads=1)
    assert np.array_equal(pickle.loads(pickle.dumps(s))(w, x), got)
    assert "StateFunction(4 qubits" in repr(s)
    with pytest.raises(ValueError, match="closed"):
        s.close() or s(w, x)


def test_many_qubits() -> None:
    c = Circuit(100)
    for q in range(100):
        c.ry(f"w{q}", q)
    for q in range(0, 99, 2):
        c.cnot(q, q + 1)
    f = qring.expval(c, ["Z50", "Z51"])
    w = np.linspace(0, 1, 100)
    assert f.engine == "cones"
    assert np.allclose(
        f.forward(w), [np.cos(w[50]), np.cos(w[50]) * np.cos(w[51])], rtol=0, atol=1e-14
    )


def test_copies() -> None:
    f = qring.expval(model(), OBSERVABLES, dtype="float32", threads=1)
    w, x, c = data(f, 3)
    want = f.vjp(w, x, c)
    for g in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f), copy.copy(f)):
        assert g.parameters == f.parameters
        assert g.dtype == f.dtype
        for a, b in zip(g.vjp(w, x, c), want):
            assert np.array_equal(a, b)
        g.close()
    assert np.array_equal(f.vjp(w, x, c)[0], want[0])
    assert repr(f) == (
        f"Function(4 qubits, 8 parameters, 5 inputs, 4 outputs, float32, {f.engine})"
    )


def test_threads_on_one_function() -> None:
    f = qring.expval(model(8), ["Z0", "X1"], threads=1)
    w, x, c = data(f, 20)
    want = f.value_and_vjp(w, x, c)
    wrong: list[int] = []

    def call(n: int) -> None:
        for _ in range(20):
            # Different sizes, so that exchanged arguments would show
            got = f.value_and_vjp(w, x[:n], c[:n])
            if not np.array_equal(got[0], want[0][:n]):
                wrong.append(n)

    threads = [threading.Thread(target=call, args=(n,)) for n in (1, 7, 16, 20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_sums_from_two_threads() -> None:
    f = qring.expval(model(), "Z0", threads=1)
    g = qring.expval(model(), "Z0", threads=1)
    w, x, c = data(f, 30)
    total, whole = f.sum(), f.sum()
    threads = [
        threading.Thread(target=lambda f=f: [f.vjp(w, x, c, sum=total) for _ in range(10)])
        for f in (f, g)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for _ in range(20):
        f.vjp(w, x, c, sum=whole)
    assert total.values().tobytes() == whole.values().tobytes()


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copy_of_a_sum(copied: Any) -> None:
    f = qring.expval(model(4), ["Z0"])
    w, x, c = data(f, 3)
    total = f.sum()
    f.vjp(w, x, c, sum=total)
    before = total.values().tobytes()
    twin = copied(total)
    assert twin._handle != total._handle
    f.vjp(w, x, c, sum=twin)
    assert total.values().tobytes() == before != twin.values().tobytes()
    assert twin.values().tobytes() == copied(total).add(total).values().tobytes()
    with pytest.raises(TypeError, match="cannot pickle a Sum"):
        pickle.dumps(total)


CALLED_IN_A_CALL = """
import signal, qring
f = qring.expval(qring.Circuit(14).h(0).ry("w", 0), ["Z0"])
total, seen = f.sum(), []
f.vjp([0.5], None, [1.0], sum=total)
def handler(*_):
    for call in (lambda: f.forward([0.5]), total.values, lambda: total.add(f.sum())):
        try:
            call()
        except RuntimeError as error:
            seen.append(str(error))
signal.signal(signal.SIGALRM, handler)
for owner in (f, total):
    with owner._lock:
        signal.raise_signal(signal.SIGALRM)
signal.raise_signal(signal.SIGALRM)
print(*seen, f.forward([0.5]).size, total.values().size, sep="\\n")
"""


def test_call_from_a_signal_handler_within_a_call() -> None:
    guard = "import faulthandler; faulthandler.dump_traceback_later(20, exit=True)\n"
    done = python(guard + CALLED_IN_A_CALL)
    *seen, outputs, size = done.stdout.splitlines() or ("", "")
    assert (outputs, size, len(seen)) == ("1", "1", 3), done.stderr
    assert seen[0].startswith("cannot call the function within a call of it, as from a signal")
    assert seen[1] == seen[2]
    assert seen[1].startswith("cannot use the sum within a call that uses it, as from a signal")


def test_fork() -> None:
    f = qring.expval(model(10), ["Z0"], threads=2)
    w, x, c = data(f, 33)
    want = f.vjp(w, x, c)[0].tobytes()
    child = os.fork()
    if child == 0:
        try:
            same = f.vjp(w, x, c)[0].tobytes() == want
        except BaseException:
            same = False
        os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert f.vjp(w, x, c)[0].tobytes() == want


def python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )


def test_import_needs_no_framework() -> None:
    code = (
        "import sys, qring; qring.Circuit(2).h(0)\n"
        "print([m for m in ('numpy', 'torch', 'jax', 'keras', 'pennylane') if m in sys.modules])"
    )
    assert python(code).stdout.strip() == "[]"


def test_import_without_library() -> None:
    if os.path.exists(os.path.join(os.path.dirname(qring.__file__), "libqring.so.1")):
        pytest.skip("the wheel has a library of its own")
    for path, reason in (("/nonexistent.so", "cannot load"), (os.__file__, "cannot load")):
        result = python("import qring", QRING_LIBRARY=path)
        assert "ImportError: " + reason in result.stderr
        assert "QRING_LIBRARY" in result.stderr
    # A library that is not libqring
    result = python("import qring", QRING_LIBRARY="libc.so.6")
    assert "ImportError: cannot use libc.so.6 as the library of qring" in result.stderr


def test_version() -> None:
    path = os.path.join(os.path.dirname(qring.__file__), "..", "..", "VERSION")
    if not os.path.exists(path):
        pytest.skip("not in a source tree")
    with open(path) as file:
        assert file.read().strip() == qring.__version__


def test_errors_have_codes() -> None:
    with pytest.raises(qring.QringError, match="Z9") as caught:
        qring.expval(Circuit(2).h(0), "Z9")
    assert caught.value.code == qring.Code.INVALID_ARGUMENT == 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.code is qring.Code.INVALID_ARGUMENT
    assert str(again) == str(caught.value)
    assert isinstance(caught.value, RuntimeError)


def test_attributes() -> None:
    assert {"Circuit", "expval", "torch", "Job"} <= set(dir(qring))
    with pytest.raises(AttributeError, match="nothing"):
        qring.nothing  # noqa: B018


def test_fork_while_another_thread_calls() -> None:
    f = qring.expval(model(10), ["Z0"], threads=2)
    w, x, c = data(f, 33)
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            f.vjp(w, x, c)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                try:
                    # The state of a function in use is not usable; others are, and none blocks.
                    f.vjp(w, x, c)
                except qring.QringError:
                    pass
                except BaseException:
                    os._exit(1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()


def test_fork_while_another_thread_compiles_for_a_layer() -> None:
    functions = FunctionSet(model(), "Z0")
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with functions._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits for the thread
        try:
            same = functions.get("float64", True).parameters == functions.parameters
        except BaseException:
            same = False
        os._exit(0 if same else 1)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        done.set()
        thread.join()
