"""qring.torch.Layer against Function and finite differences, under autograd and torch.compile."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
from typing import Any

import numpy as np
import pytest
from framework_model import OBSERVABLES, SHOTS, circuit, close, data, differences
from test_noise import W, X, noisy_circuit

import qring

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import qring.torch  # noqa: E402


def layer_with(
    weights: np.ndarray, tensors: str = "float64", **options: object
) -> qring.torch.Layer:
    layer = qring.torch.Layer(circuit(), OBSERVABLES, **options)
    layer.to(getattr(torch, tensors))
    with torch.no_grad():
        layer.weight.copy_(torch.tensor(weights))
    return layer


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_values_and_derivatives_are_those_of_the_function(dtype: str) -> None:
    w, x = (a.astype(dtype) for a in data(7))
    f = qring.expval(circuit(), OBSERVABLES, dtype=dtype)
    c = np.random.default_rng(1).normal(size=(7, 2)).astype(dtype)
    layer = layer_with(w, dtype)
    inputs = torch.tensor(x, requires_grad=True)
    values = layer(inputs)
    values.backward(torch.tensor(c))
    z, dw, dx = f.value_and_vjp(w, x, c)
    assert values.dtype == layer.weight.grad.dtype == inputs.grad.dtype == getattr(torch, dtype)
    assert np.array_equal(values.detach().numpy(), z.astype(dtype))
    assert np.array_equal(layer.weight.grad.numpy(), dw.astype(dtype))
    assert np.array_equal(inputs.grad.numpy(), dx.astype(dtype))


@pytest.mark.parametrize("gradient", ["adjoint", "parameter-shift"])
def test_shots(gradient: str) -> None:
    """Bits of the function with the same options, also of a copy."""
    w, x = data(7)
    options = {**SHOTS, "gradient": gradient}
    layer = pickle.loads(pickle.dumps(layer_with(w, **options)))
    assert "shots=50" in repr(layer)
    for by_inputs in (False, True):
        f = qring.expval(circuit(), OBSERVABLES, input_gradients=by_inputs, **options)
        z, dw, dx = f.value_and_vjp(w, x, np.ones((7, 2)))
        layer.weight.grad = None
        inputs = torch.tensor(x, requires_grad=by_inputs)
        values = layer(inputs)
        values.sum().backward()
        assert np.array_equal(values.detach().numpy(), z)
        assert np.array_equal(layer.weight.grad.numpy(), dw)
    assert np.array_equal(inputs.grad.numpy(), dx)


def test_derivatives_without_those_by_inputs_are_the_same() -> None:
    w, x = data(7)
    layer = layer_with(w)
    layer(torch.tensor(x)).sum().backward()
    _, dw, _ = qring.expval(circuit(), OBSERVABLES).value_and_vjp(w, x, np.ones((7, 2)))
    assert close(layer.weight.grad.numpy(), dw, 1e-14)


def test_derivatives_are_finite_differences() -> None:
    w, x = data(4)
    layer = layer_with(w)
    inputs = torch.tensor(x, requires_grad=True)
    (layer(inputs) ** 2).sum().backward()
    f = qring.expval(circuit(), OBSERVABLES)
    by_w = differences(lambda v: float((f.forward(v, x) ** 2).sum()), w)
    by_x = differences(lambda v: float((f.forward(w, v) ** 2).sum()), x)
    assert close(layer.weight.grad.numpy(), by_w, 1e-8)
    assert close(inputs.grad.numpy(), by_x, 1e-8)


def test_gradcheck() -> None:
    w, x = data(3)
    layer = layer_with(w)
    inputs = torch.tensor(x, requires_grad=True)

    def call(weight: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"weight": weight}, (at,))

    assert torch.autograd.gradcheck(call, (layer.weight, inputs))


def test_operators_pass_pytorchs_checks() -> None:
    w, x = data(3)
    layer = layer_with(w)
    inputs = torch.tensor(x, requires_grad=True)
    arguments = (layer.weight, inputs, layer._number, 2, True)
    found = torch.library.opcheck(torch.ops.qring.expval, arguments)
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("by_inputs", [False, True])
def test_compiles_without_a_graph_break(by_inputs: bool) -> None:
    w, x = data(6)
    layer = layer_with(w)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), layer, torch.nn.Tanh()).double()
    inputs = torch.tensor(x, requires_grad=by_inputs)
    results = []
    for call in (model, torch.compile(model, fullgraph=True)):
        model.zero_grad()
        inputs.grad = None
        values = call(inputs)
        values.sum().backward()
        grads = [p.grad.clone() for p in model.parameters()]
        results.append([values.detach(), *grads, *([inputs.grad.clone()] if by_inputs else [])])
    assert all(torch.allclose(a, b, rtol=0, atol=1e-12) for a, b in zip(*results))
    explained = torch._dynamo.explain(model)(inputs)
    assert explained.graph_break_count == 0


def test_batch_shapes() -> None:
    w, x = data(6)
    layer = layer_with(w)
    flat = layer(torch.tensor(x))
    assert flat.shape == (6, 2)
    assert torch.equal(layer(torch.tensor(x).reshape(2, 3, 3)), flat.reshape(2, 3, 2))
    assert torch.allclose(layer(torch.tensor(x[0])), flat[0], rtol=0, atol=1e-14)
    assert layer(torch.zeros(0, 3, dtype=torch.float64)).shape == (0, 2)
    strided = torch.tensor(np.repeat(x, 2, axis=0))[::2]
    assert torch.equal(layer(strided), flat)


def test_a_circuit_without_inputs() -> None:
    layer = qring.torch.Layer(qring.Circuit(2).ry("w0", 0).cnot(0, 1), ["Z0", "X0 X1"])
    values = layer()
    assert values.shape == (2,)
    values.sum().backward()
    w = float(layer.weight.detach()[0])
    assert abs(float(layer.weight.grad[0]) - (np.cos(w) - np.sin(w))) < 1e-5


@pytest.mark.parametrize("transform", [torch.func.jacfwd, torch.func.linearize])
def test_forward_mode_is_refused(transform: Any) -> None:
    layer = qring.torch.Layer(qring.Circuit(1).rx("x[0]", 0).ry("w", 0), "Z0").double()
    inputs, weight = torch.tensor([[0.3]]).double(), torch.tensor([0.7]).double()

    def by_weight(w: torch.Tensor) -> Any:
        return torch.func.functional_call(layer, {"weight": w}, (inputs,)).sum()

    for function, at in ((by_weight, weight), (lambda x: layer(x).sum(), inputs)):
        with pytest.raises(NotImplementedError, match="forward mode"):
            transform(function, *((at,) if transform is torch.func.linearize else ()))(at)
        with (
            torch.autograd.forward_ad.dual_level(),
            pytest.raises(NotImplementedError, match="forward mode"),
        ):
            function(torch.autograd.forward_ad.make_dual(at, torch.ones_like(at)))


def test_vmap_over_inputs_and_weights() -> None:
    w, x = data(6)
    layer = layer_with(w)
    inputs = torch.tensor(x)
    assert torch.allclose(torch.vmap(layer)(inputs), layer(inputs), rtol=0, atol=1e-14)

    def call(weight: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"weight": weight}, (at,))

    many = torch.stack([layer.weight.detach(), layer.weight.detach() + 1])
    found = torch.vmap(call, (0, None))(many, inputs)
    assert torch.equal(found, torch.stack([call(v, inputs) for v in many]))


def test_functional_derivatives() -> None:
    """torch.func, as torch.autograd; vmap of grad gives a gradient for each sample."""
    w, x = data(6)
    layer, inputs = layer_with(w), torch.tensor(x)
    weight = layer.weight.detach()

    def call(weight: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, {"weight": weight}, (at,))

    def loss(weight: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return (call(weight, at) ** 2).sum()

    exact = torch.autograd.functional.jacobian(call, (weight, inputs))
    for found, expected in zip(torch.func.jacrev(call, (0, 1))(weight, inputs), exact):
        assert torch.allclose(found, expected, rtol=0, atol=1e-14)
    exact = [torch.autograd.functional.jacobian(loss, (weight, row)) for row in inputs]
    expected = [torch.stack(parts) for parts in zip(*exact)]
    by_weights = torch.func.vmap(torch.func.grad(loss), (None, 0))(weight, inputs)
    assert torch.allclose(by_weights, expected[0], rtol=0, atol=1e-14)
    for found, row in zip(
        torch.func.vmap(torch.func.grad(loss, (0, 1)), (None, 0))(weight, inputs), expected
    ):
        assert torch.allclose(found, row, rtol=0, atol=1e-14)
    many = torch.stack([weight, weight + 1])
    found = torch.func.vmap(torch.func.grad(loss), (0, None))(many, inputs)
    rows = [torch.func.grad(loss)(v, inputs) for v in many]
    assert torch.equal(found, torch.stack(rows))
    total = torch.func.grad(lambda w: torch.func.vmap(loss, (None, 0))(w, inputs).sum())(weight)
    assert torch.allclose(total, by_weights.sum(0), rtol=0, atol=1e-14)
    with pytest.raises(NotImplementedError, match="differentiate a circuit twice"):
        torch.func.jacrev(torch.func.grad(loss))(weight, inputs)
    compiled = torch.compile(torch.func.vmap(torch.func.grad(loss), (None, 0)))
    assert torch.allclose(compiled(weight, inputs), by_weights, rtol=0, atol=1e-14)


def test_contiguous_arguments_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    original = qring.torch.lib.qring_forward

    def forward(handle: int, w: object, x: object, n: int, out: object, error: object) -> int:
        seen.extend(argument._obj.data for argument in (w, x, out))  # type: ignore[attr-defined]
        return original(handle, w, x, n, out, error)

    monkeypatch.setattr(qring.torch.lib, "qring_forward", forward)
    w, x = data(5)
    layer, inputs = layer_with(w, "float32"), torch.tensor(x, dtype=torch.float32)
    values = layer(inputs)
    assert seen == [layer.weight.data_ptr(), inputs.data_ptr(), values.data_ptr()]


def test_tensors_are_read_as_stored() -> None:
    """Expanded, reversed, negated and misaligned memory, and weights of a wrong shape."""
    w, x = data(5)
    layer = layer_with(w)
    exact = layer(torch.tensor(x)).detach()
    wide = torch.tensor(np.repeat(x, 2, 1)).T.contiguous().T[:, ::2]
    assert torch.equal(layer(wide), exact)
    negated = torch.complex(torch.zeros(x.shape, dtype=torch.float64), torch.tensor(-x)).conj().imag
    assert negated.is_neg()
    assert torch.equal(layer(negated), exact)
    raw = bytearray(x.nbytes + 1)
    raw[1:] = x.tobytes()
    odd = torch.frombuffer(raw, dtype=torch.float64, offset=1, count=x.size).reshape(x.shape)
    assert torch.equal(layer(odd), exact)
    # x86 reads misaligned numbers too.
    assert qring.torch._fill(qring.function._Argument(), odd).data_ptr() % 8 == 0
    row = torch.tensor(x[:1]).expand(5, -1)
    assert torch.equal(layer(row), exact[:1].expand(5, -1))
    with pytest.raises(ValueError, match="cannot use weights of shape"):
        torch.func.functional_call(layer, {"weight": layer.weight[:-1]}, (torch.tensor(x),))


def test_precision_follows_the_weights() -> None:
    w, x = data(5)
    exact = qring.expval(circuit(), OBSERVABLES).forward(w, x)
    assert close(layer_with(w)(torch.tensor(x)).detach().numpy(), exact, 0)
    w32, x32 = w.astype("float32"), x.astype("float32")
    exact = qring.expval(circuit(), OBSERVABLES).forward(w32, x32).astype("float32")
    fixed = layer_with(w32, "float32", dtype="float64")
    assert close(fixed(torch.tensor(x32)).detach().numpy(), exact, 0)


def test_training_lowers_the_loss() -> None:
    torch.manual_seed(0)
    w, x = data(16)
    inputs, target = torch.tensor(x), torch.tensor(np.sin(x[:, :2]))
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), layer_with(w)).double()
    optimizer = torch.optim.Adam(model.parameters(), 0.05)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = ((model(inputs) - target) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]


def test_copies_and_saves(tmp_path: object) -> None:
    w, x = data(4)
    layer, inputs = layer_with(w), torch.tensor(x)
    values = layer(inputs)
    assert torch.equal(copy.deepcopy(layer)(inputs), values)
    assert torch.equal(pickle.loads(pickle.dumps(layer))(inputs), values)
    other = qring.torch.Layer(circuit(), OBSERVABLES).double()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(inputs), values)


def test_backward_after_the_layer_was_deleted() -> None:
    w, x = data(4)
    layer = layer_with(w)
    weight = layer.weight
    values = layer(torch.tensor(x))
    del layer
    gc.collect()
    values.sum().backward()
    assert weight.grad is not None


def test_threads_share_a_layer() -> None:
    w, x = data(8)
    layer, inputs = layer_with(w), torch.tensor(x)
    expected, found = layer(inputs).detach(), []

    def work() -> None:
        for _ in range(50):
            found.append(torch.equal(layer(inputs).detach(), expected))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == [True] * 200


def test_names_and_text() -> None:
    layer = qring.torch.Layer(circuit(), OBSERVABLES)
    assert layer.parameter_names == ("w0", "w1", "w2", "w9", "w10")
    assert layer.input_names == ("x[0]", "x[1]", "x[2]")
    assert repr(layer) == "Layer(qubits=3, parameters=5, inputs=3, outputs=2)"
    assert layer.draw().count("\n") > 2


def test_misuse_raises() -> None:
    w, x = data(4)
    layer = layer_with(w)
    with pytest.raises(ValueError, match=r"cannot use inputs of shape \(4, 2\)"):
        layer(torch.tensor(x[:, :2]))
    with pytest.raises(ValueError, match="cannot call without inputs"):
        layer()
    with pytest.raises(ValueError, match="cannot use inputs of shape"):
        layer(torch.tensor(1.0))
    with pytest.raises(TypeError, match=r"torch\.int64"):
        layer(torch.tensor([[1, 2, 3]]))
    with pytest.raises(TypeError, match=r"torch\.float16"):
        layer.half()(torch.zeros(1, 3).half())
    with pytest.raises(qring.QringError, match="finite"):
        layer_with(w)(torch.full((1, 3), float("nan"), dtype=torch.float64))
    with pytest.raises(qring.QringError, match="out of range"):
        qring.torch.Layer(circuit(), "Z7")
    layer = layer_with(w)
    loss = layer(torch.tensor(x)).sum()
    (first,) = torch.autograd.grad(loss, layer.weight, create_graph=True)
    with pytest.raises(NotImplementedError, match="a circuit twice"):
        torch.autograd.grad(first.sum(), layer.weight)
    with pytest.raises(RuntimeError, match="was deleted"):
        torch.ops.qring.expval(torch.zeros(5), torch.zeros(1, 3), 10**9, 2, False)


def test_compiles_a_model_of_several_layers() -> None:
    last = qring.torch.Layer(qring.Circuit(1).ry("w", 0).rx("x[0]", 0), "Z0")
    first = qring.torch.Layer(circuit(), OBSERVABLES)
    model = torch.nn.Sequential(
        first, torch.nn.Linear(2, 3), copy.deepcopy(first), torch.nn.Linear(2, 1), last
    )
    program = torch.compile(model, fullgraph=True)
    for n in (5, 9, 7):  # the batch becomes a symbol
        x = torch.rand(n, 3)
        assert torch.allclose(program(x), model(x), rtol=0, atol=1e-6)


def test_noise_options() -> None:
    """A layer passes the options on, and keeps them in a copy."""
    options = {"method": "trajectories", "trajectories": 8, "seed": 5}
    want = qring.expval(noisy_circuit(), "Z0", **options).forward(W, X)
    layer = qring.torch.Layer(noisy_circuit(), "Z0", dtype="float64", **options).double()
    with torch.no_grad():
        layer.weight[:] = torch.tensor(W)
        x = torch.tensor(X)
        assert (layer(x).numpy() == want).all()
        assert (pickle.loads(pickle.dumps(layer))(x).numpy() == want).all()
