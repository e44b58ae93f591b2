"""PennyLane's channels on the device, beside default.mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from pennylane import numpy as pnp  # noqa: E402
from pennylane.exceptions import DeviceError  # noqa: E402

from qring.pennylane import QringDevice, from_qnode  # noqa: E402

# Name -> how many strengths; the others have a constant that is not a number.
CHANNELS = {
    "BitFlip": 1,
    "PhaseFlip": 1,
    "DepolarizingChannel": 1,
    "AmplitudeDamping": 1,
    "GeneralizedAmplitudeDamping": 2,
    "PhaseDamping": 1,
    "ResetError": 2,
    "ThermalRelaxationError": 4,
    "PauliError": 1,
    "QubitChannel": 0,
}


def _circuit(seed: int, n: int) -> tuple[Any, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return a quantum function of angles and strengths, and values of these."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(list(CHANNELS)).tolist()
    plan = []
    for name in names:
        wires = rng.permutation(n).tolist()
        word = "".join(rng.choice(list("XYZ"), 1 + int(rng.integers(2))))
        isometry = np.linalg.qr(rng.normal(size=(6, 2)) + 1j * rng.normal(size=(6, 2)))[0]
        plan.append((name, wires, word, isometry.reshape(3, 2, 2), str(rng.choice(list("XYZ")))))
    offsets = np.concatenate(
        [
            [0, 3, 2 + 2 * (seed % 2), 0.5]
            if name == "ThermalRelaxationError"
            else [0] * CHANNELS[name]
            for name in names
        ]
    )
    angles = rng.uniform(-2, 2, 2 * len(names) + n)
    strengths = rng.uniform(0.05, 0.3, len(offsets)) + offsets

    def function(w: Any, p: Any) -> Any:
        at = 0
        for q in range(n):
            qml.RY(w[q], q)
        for i, (name, wires, word, kraus, axis) in enumerate(plan):
            getattr(qml, "R" + axis)(w[n + 2 * i], wires[0])
            qml.CRY(w[n + 2 * i + 1], wires[:2])
            given = [p[at + k] for k in range(CHANNELS[name])]
            at += CHANNELS[name]
            if name == "PauliError":
                qml.PauliError(word, given[0], wires=wires[: len(word)])
            elif name == "QubitChannel":
                qml.QubitChannel([pnp.array(k, requires_grad=False) for k in kraus], wires[0])
            else:
                getattr(qml, name)(*given, wires=wires[0])
        return (
            qml.expval(qml.Z(0) @ qml.X(n - 1)),
            qml.expval(0.5 * qml.Y(0) - 1.5 * qml.Z(1)),
            qml.probs(wires=[1, 0]),
        )

    return function, pnp.array(angles), pnp.array(strengths)


@pytest.mark.parametrize("device_vjp", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_random_circuit(seed: int, device_vjp: bool) -> None:
    n = 2 + seed % 3
    function, w, p = _circuit(seed, n)
    found = []
    for dev in (QringDevice(wires=n), qml.device("default.mixed", wires=n)):
        diff = {"diff_method": "backprop"}
        if dev.name == "qring":
            diff = {"diff_method": "adjoint", "device_vjp": device_vjp}
        node = qml.QNode(function, dev, **diff)

        def cost(a: Any, b: Any, node: Any = node) -> Any:
            return sum(pnp.sum(pnp.sin(v + 0.3 * i)) for i, v in enumerate(node(a, b)))

        found.append((np.hstack(node(w, p)), *qml.grad(cost, argnums=(0, 1))(w, p)))
    for got, want, within in zip(*found, (1e-12, 1e-9, 1e-9)):
        assert np.abs(want).max() > 1e-3
        np.testing.assert_allclose(got, want, rtol=0, atol=within)


@pytest.mark.parametrize("seed", range(4))
def test_jacobian_and_batches(seed: int) -> None:
    """Jacobians by the device; tapes with equal and with other strengths in one batch."""
    function, w, p = _circuit(seed + 100, 3)
    tapes = [qml.tape.make_qscript(function)(a, b) for a, b in ((w, p), (-w, p), (w, 0.9 * p))]
    exact = qml.device("default.mixed", wires=3)
    dev = QringDevice(wires=3)
    # Operators of a QubitChannel are constants.
    scalars = [i for i, d in enumerate(tapes[0].get_parameters()) if np.ndim(d) == 0]
    for trainable in (list(range(3)), scalars):
        for tape in tapes:
            tape.trainable_params = trainable
        results, jacobians = dev.execute_and_compute_derivatives(tapes)
        cotangents = [tuple(np.ones(np.shape(r)) for r in result) for result in results]
        values, vjps = dev.execute_and_compute_vjp(tapes, cotangents)
        for tape, result, value, jacobian, vjp in zip(tapes, results, values, jacobians, vjps):
            want = exact.execute([tape])[0]
            np.testing.assert_allclose(np.hstack(result), np.hstack(want), rtol=0, atol=1e-12)
            np.testing.assert_allclose(np.hstack(value), np.hstack(want), rtol=0, atol=1e-12)
            total = [sum(np.sum(part[k]) for part in jacobian) for k in range(len(trainable))]
            np.testing.assert_allclose(total, np.hstack(vjp), rtol=0, atol=1e-10)
    assert dev.plan_cache()["plans"] == 1


def test_errors() -> None:
    @qml.qnode(QringDevice(wires=2))
    def states() -> Any:
        qml.BitFlip(0.1, 0)
        return qml.state()

    with pytest.raises(DeviceError, match="mixed"):
        states()

    @qml.qnode(QringDevice(wires=3))
    def three() -> Any:
        qml.PauliError("XYX", 0.1, wires=[0, 1, 2])
        return qml.expval(qml.Z(0))

    with pytest.raises(DeviceError, match="PauliError"):
        three()


@pytest.mark.parametrize(
    "excited",
    [
        lambda v, w: 0.2,
        lambda v, w: w,
        lambda v, w: 2 * w,
        lambda v, w: w + 0.1,
        lambda v, w: w * v,
    ],
)
def test_from_qnode(excited: Any) -> None:
    """PennyLane's p is qring's 1 - p, of a number and of expressions."""

    @qml.qnode(qml.device("default.mixed", wires=1))
    def function(v: Any, w: Any, inputs: Any) -> Any:
        qml.RY(v + inputs, 0)
        qml.RX(w, 0)
        qml.GeneralizedAmplitudeDamping(0.3, excited(v, w), wires=0)
        qml.RY(0.3, 0)
        return qml.expval(qml.Z(0)), qml.expval(qml.X(0))

    got = from_qnode(function).forward([0.7, 0.13], [0.21])
    np.testing.assert_allclose(got, function(0.7, 0.13, 0.21), atol=1e-12)
