"""qring.jax.expval against Function and finite differences, under jit, vmap and grad."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import numpy as np
import pytest
from framework_model import OBSERVABLES, SHOTS, circuit, close, data, differences

import qring

jax = pytest.importorskip("jax", reason="JAX is not installed")
try:
    import qring.jax
except ImportError as error:
    pytest.skip(f"the handlers for JAX are missing: {error}", allow_module_level=True)
import jax.numpy as jnp  # noqa: E402


@pytest.fixture(autouse=True)
def _float64() -> Any:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@pytest.fixture(name="f", scope="module")
def _f() -> Any:
    return qring.jax.expval(circuit(), OBSERVABLES)


@pytest.fixture(name="exact", scope="module")
def _exact() -> Any:
    return qring.expval(circuit(), OBSERVABLES)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("jit", [False, True])
def test_values_and_derivatives_are_those_of_the_function(f: Any, dtype: str, jit: bool) -> None:
    w, x = (a.astype(dtype) for a in data(7))
    c = np.random.default_rng(1).normal(size=(7, 2)).astype(dtype)
    own = qring.expval(circuit(), OBSERVABLES, dtype=dtype)

    def pull(w: Any, x: Any) -> Any:
        values, back = jax.vjp(f, w, x)
        return values, *back(c)

    found = (jax.jit(pull) if jit else pull)(w, x)
    for a, b in zip(found, own.value_and_vjp(w, x, c)):
        assert a.dtype == dtype
        assert np.array_equal(a, b.astype(dtype))


def test_derivatives_are_finite_differences(f: Any, exact: Any) -> None:
    w, x = data(4)
    by_w, by_x = jax.jit(jax.grad(lambda w, x: (f(w, x) ** 2).sum(), (0, 1)))(w, x)
    assert close(by_w, differences(lambda v: float((exact.forward(v, x) ** 2).sum()), w), 1e-8)
    assert close(by_x, differences(lambda v: float((exact.forward(w, v) ** 2).sum()), x), 1e-8)


@pytest.mark.parametrize("output", [0, 1])
def test_jit_of_vmap_of_grad_is_a_loop_over_samples(f: Any, exact: Any, output: int) -> None:
    w, x = data(9)
    g = jax.jit(jax.vmap(jax.grad(lambda w, x: f(w, x)[output], (0, 1)), (None, 0)))
    by_w, by_x = g(w, x)
    c = np.eye(2)[output]
    loop = [exact.vjp(w, row, c) for row in x]
    assert close(by_w, np.stack([a for a, _ in loop]), 1e-6)
    assert close(by_x, np.stack([b for _, b in loop]), 1e-6)


def test_jit_of_vmap_of_grad_of_one_output() -> None:
    # One output and one sample in each lane: the handler computes all lanes in one call.
    f, exact = qring.jax.expval(circuit(), "X0 Z1"), qring.expval(circuit(), "X0 Z1")
    w, x = data(9)
    scale = np.linspace(-2, 2, 9)

    def loss(w: Any, x: Any, s: Any) -> Any:
        return s * f(w, x)[0] ** 2

    by_w, by_x = jax.jit(jax.vmap(jax.grad(loss, (0, 1)), (None, 0, 0)))(w, x, scale)
    rows = zip(x, scale)
    loop = [exact.vjp(w, r, [2 * s * exact.forward(w, r)[0]]) for r, s in rows]
    assert close(by_w, np.stack([a for a, _ in loop]), 1e-6)
    assert close(by_x, np.stack([b for _, b in loop]), 1e-6)


def test_vmap_over_weights_and_inputs_in_any_order(f: Any, exact: Any) -> None:
    w, x = data(4)
    many = np.stack([w, w + 1, w + 2])
    g = jax.grad(lambda w, x: f(w, x)[1])
    loop = np.stack([[exact.vjp(v, r, [0, 1])[0] for r in x] for v in many])
    inner, outer = (None, 0), (0, None)
    assert close(jax.jit(jax.vmap(jax.vmap(g, inner), outer))(many, x), loop, 1e-6)
    found = jax.jit(jax.vmap(jax.vmap(g, outer), inner))(many, x)
    assert close(found, loop.swapaxes(0, 1), 1e-6)
    assert close(jax.vmap(g)(many, x[:3]), loop[[0, 1, 2], [0, 1, 2]], 1e-6)
    last = jax.vmap(f, (None, 1))(w, np.repeat(x[:, None], 2, axis=1))
    assert close(last, np.stack([exact.forward(w, x)] * 2), 1e-12)


def test_jacobian_is_the_functions(f: Any, exact: Any) -> None:
    w, x = data(3)
    by_w, by_x = exact.jacobian(w, x)
    assert close(jax.vmap(jax.jacrev(f), (None, 0))(w, x), by_w, 1e-12)
    assert close(jax.vmap(jax.jacrev(f, 1), (None, 0))(w, x), by_x, 1e-12)


def test_compiled_programs_do_not_call_python(f: Any) -> None:
    w, x = data(3)
    for g in (
        jax.jit(lambda w, x: f(w, x)),
        jax.jit(jax.vmap(jax.grad(lambda w, x: f(w, x)[0]), (None, 0))),
    ):
        text = g.lower(w, x).compile().as_text()
        assert "qring_xla_forward" in text or "qring_xla_vjp" in text
        assert "callback" not in text
        assert "xla_python" not in text


def test_derivatives_by_inputs_are_left_out_where_unused(f: Any) -> None:
    w, x = data(3)
    results = []
    for which in (0, (0, 1)):
        jaxpr = jax.make_jaxpr(jax.grad(lambda w, x: f(w, x).sum(), which))(w, x)
        calls = [e for e in jaxpr.eqns if e.params.get("target_name") == "qring_xla_vjp"]
        results.append([len(e.outvars) for e in calls])
    assert results == [[1], [2]]


def test_batch_shapes(f: Any, exact: Any) -> None:
    w, x = data(6)
    values = exact.forward(w, x)
    assert close(f(w, x.reshape(2, 3, 3)), values.reshape(2, 3, 2), 1e-12)
    assert close(f(w, x[0]), values[0], 1e-12)
    assert f(w, np.zeros((0, 3))).shape == (0, 2)
    assert close(jax.grad(lambda w: f(w, np.zeros((0, 3))).sum())(w), np.zeros(5), 0)


def test_a_circuit_without_inputs_or_weights() -> None:
    f = qring.jax.expval(qring.Circuit(2).ry("w0", 0).cnot(0, 1), ["Z0", "X0 X1"])
    g = jax.jit(jax.grad(lambda w: f(w).sum()))
    assert close(g(np.array([0.3])), [np.cos(0.3) - np.sin(0.3)], 1e-12)
    many = np.array([[0.1], [0.2]])
    assert close(jax.vmap(g)(many), np.cos(many) - np.sin(many), 1e-12)
    f = qring.jax.expval(qring.Circuit(1).rx("x[0]", 0), "Z0")
    x = np.array([[0.1], [0.2]])
    found = jax.grad(lambda x: f(np.zeros(0), x).sum())(x)
    assert close(found, -np.sin(x), 1e-12)


def test_training_in_one_compiled_loop(f: Any) -> None:
    w, x = data(16)
    target = np.sin(x[:, :2])
    loss = lambda w: ((f(w, x) - target) ** 2).mean()  # noqa: E731

    @jax.jit
    def train(w: Any) -> Any:
        return jax.lax.fori_loop(0, 80, lambda _, w: w - 0.2 * jax.grad(loss)(w), w)

    assert loss(train(w)) < 0.7 * loss(w)


def test_threads_share_a_function(f: Any) -> None:
    w, x = data(8)
    g = jax.jit(jax.grad(lambda w, x: f(w, x).sum()))
    expected, found = np.asarray(g(w, x)), []

    def work() -> None:
        for _ in range(50):
            found.append(np.array_equal(g(w, x), expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 200


def test_a_program_that_outlives_its_function() -> None:
    w, x = data(2)

    def compiled() -> tuple[Any, Any]:
        f = qring.jax.expval(circuit(), OBSERVABLES)
        program = jax.jit(lambda w, x: f(w, x)).lower(w, x).compile()
        assert program(w, x).shape == (2, 2)
        return program, weakref.ref(f)

    program, f = compiled()
    jax.clear_caches()
    gc.collect()
    if f() is None:
        with pytest.raises(Exception, match="keep it as long as programs that call it"):
            jax.block_until_ready(program(w, x))
    else:
        assert program(w, x).shape == (2, 2)


def test_a_program_of_another_process() -> None:
    # The number of a function that does not exist, or has other shapes.
    w, x = data(2)
    shape = jax.ShapeDtypeStruct((2, 2), np.float64)
    call = jax.ffi.ffi_call("qring_xla_forward", shape)
    with pytest.raises(Exception, match="was deleted"):
        call(w, x, function=np.int64(10**9))
    f = qring.jax.expval(circuit(), OBSERVABLES)
    number = f._number(np.float64, False)
    with pytest.raises(Exception, match="compile the program in this process"):
        call(w[:4], x, function=number)
    with pytest.raises(Exception, match="compile the program in this process"):
        call(w, x[:, :2], function=number)
    with pytest.raises(Exception, match="compile the program in this process"):
        call(w, x[:1], function=number)
    with pytest.raises(Exception, match="compile the program in this process"):
        call(w, x, other=number)
    with pytest.raises(Exception, match="compile the program in this process"):
        call(w.astype(int), x, function=number)


def test_copies(f: Any) -> None:
    w, x = data(3)
    for other in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert np.array_equal(other(w, x), f(w, x))


def test_names_and_text(f: Any) -> None:
    assert f.parameters == ("w0", "w1", "w2", "w9", "w10")
    assert f.inputs == ("x[0]", "x[1]", "x[2]")
    assert (f.n_qubits, f.n_outputs) == (3, 2)
    assert f.draw().count("\n") > 2
    assert "3 qubits" in repr(f)


def test_misuse_raises(f: Any) -> None:
    w, x = data(4)
    with pytest.raises(ValueError, match=r"cannot use weights of shape \(4,\)"):
        f(w[:4], x)
    with pytest.raises(ValueError, match=r"cannot use inputs of shape \(4, 2\)"):
        f(w, x[:, :2])
    with pytest.raises(ValueError, match="cannot call without inputs"):
        f(w)
    with pytest.raises(TypeError, match="complex"):
        f(w + 0j, x)
    with pytest.raises(TypeError, match="float16"):
        f(w.astype("float16"), x.astype("float16"))
    with pytest.raises(Exception, match="numbers must be finite"):
        jax.block_until_ready(f(w, x * np.nan))
    with pytest.raises(qring.QringError, match="out of range"):
        qring.jax.expval(circuit(), "Z7")
    assert f(jnp.arange(5), x).dtype == np.float64


def test_noise() -> None:
    """The options of noise reach the library."""
    noisy = qring.Circuit(1).rx("x[0]", 0).ry("w", 0).channel("BitFlip", 0, p=0.2)
    options: dict[str, Any] = {"method": "trajectories", "trajectories": 8, "seed": 5}
    w, x = np.array([0.3], np.float32), np.linspace(-1, 1, 20, dtype=np.float32)[:, None]
    want = qring.expval(noisy, "Z0", "float32", input_gradients=False, **options)(w, x)
    got = qring.jax.expval(noisy, "Z0", **options)(jnp.asarray(w), jnp.asarray(x))
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("gradient", ["adjoint", "parameter-shift"])
def test_shots(gradient: str) -> None:
    """Bits of the function with the same options, also of a compiled program."""
    w, x = data(7)
    options = {**SHOTS, "gradient": gradient}
    f = qring.jax.expval(circuit(), OBSERVABLES, **options)
    assert "50 shots" in repr(f)
    values, pull = jax.vjp(jax.jit(f), w, x)
    own = qring.expval(circuit(), OBSERVABLES, **options)
    for a, b in zip((values, *pull(np.ones((7, 2)))), own.value_and_vjp(w, x, np.ones((7, 2)))):
        assert np.array_equal(a, b)
