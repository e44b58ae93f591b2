"""PennyLane's device with shots, beside default.qubit and default.mixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")
from pennylane.exceptions import DeviceError  # noqa: E402

from qring.pennylane import QringDevice  # noqa: E402

SHOTS = 20000
W = np.array([0.4, -1.1, 0.8])


def _gates(w: Any) -> None:
    qml.Hadamard(0)
    qml.RY(w[0], 1)
    qml.CNOT([0, 2])
    qml.RX(w[1], 2)
    qml.CRot(w[2], 0.3, 0.1, [1, 0])


def _device(name: str, **options: Any) -> Any:
    # The name is known to PennyLane where the package is installed.
    return QringDevice(**options) if name == "qring" else qml.device(name, **options)


def _node(measured: Any, device: str, shots: Any = None, noise: float = 0.0, **options: Any) -> Any:
    @qml.qnode(_device(device, wires=3, **options))
    def circuit(w: Any) -> Any:
        _gates(w)
        if noise:
            qml.AmplitudeDamping(noise, 0)
            qml.DepolarizingChannel(noise, 2)
        return measured()

    return qml.set_shots(circuit, shots) if shots else circuit


OBSERVABLES = [
    lambda: qml.Z(0),
    lambda: qml.X(0) @ qml.Y(2),
    lambda: 0.5 * qml.X(0) @ qml.Z(1) - qml.Y(2) + 0.25 * qml.Z(0),
    lambda: qml.Hermitian(np.array([[0.3, 0.5 - 0.2j], [0.5 + 0.2j, -0.4]]), 1),
    lambda: qml.Projector([1, 0], [0, 2]),
]


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("observable", OBSERVABLES)
def test_means(observable: Any, noise: float) -> None:
    """Within five standard errors: an eigenvalue is at most 1.75, so is the deviation."""

    def measured() -> Any:
        return qml.expval(observable())

    exact = _node(measured, "default.mixed" if noise else "default.qubit", noise=noise)(W)
    found = _node(measured, "qring", SHOTS, noise, seed=3)(W)
    assert abs(found - exact) <= 5 * 1.75 / np.sqrt(SHOTS)
    assert found != exact


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_counts(noise: float) -> None:
    """Chi-square of three wires, 7 degrees of freedom: above 40 once in 10^6."""
    device = "default.mixed" if noise else "default.qubit"
    p = _node(lambda: qml.probs(wires=range(3)), device, noise=noise)(W)
    counts = _node(lambda: qml.counts(wires=range(3)), "qring", SHOTS, noise, seed=4)(W)
    got = np.array([counts.get(f"{i:03b}", 0) for i in range(8)])
    assert got.sum() == SHOTS
    assert np.sum((got - SHOTS * p) ** 2 / (SHOTS * p)) < 40


def test_other_results() -> None:
    def measured() -> Any:
        x, z = qml.X(0), qml.Z(1)
        return qml.var(z), qml.sample(wires=[2, 0]), qml.probs(wires=[1]), qml.expval(x)

    variance, samples, probs, mean = _node(measured, "qring", SHOTS, seed=5)(W)
    exact = _node(
        lambda: (qml.var(qml.Z(1)), qml.probs(wires=[1]), qml.expval(qml.X(0))), "default.qubit"
    )(W)
    assert samples.shape == (SHOTS, 2)
    assert samples.dtype == np.int64  # as default.qubit's
    assert abs(variance - exact[0]) <= 5 * 2 / np.sqrt(SHOTS)
    assert np.abs(probs - exact[1]).max() <= 5 * 0.5 / np.sqrt(SHOTS)
    assert abs(mean - exact[2]) <= 5 / np.sqrt(SHOTS)


def test_seeds() -> None:
    """One program with one seed gives one result; its executions differ."""

    def measured() -> Any:
        return qml.expval(qml.X(0))

    a, b = (_node(measured, "qring", 100, seed=6) for _ in range(2))
    first = [float(a(W)) for _ in range(3)]
    assert first == [float(b(W)) for _ in range(3)]
    assert len(set(first)) > 1
    assert [float(_node(measured, "qring", 100, seed=7)(W)) for _ in range(1)] != first[:1]
    fresh = [_node(lambda: qml.sample(wires=0), "qring", 100)(W) for _ in range(2)]
    assert (fresh[0] != fresh[1]).any()


def test_shot_vectors_and_batches() -> None:
    node = _node(lambda: qml.expval(qml.Z(0)), "qring", (10, (1000, 2)), seed=8)
    assert [np.shape(r) for r in node(W)] == [(), (), ()]

    @qml.qnode(_device("qring", wires=1, seed=9))
    def batch(x: Any) -> Any:
        qml.RY(x, 0)
        return qml.expval(qml.Z(0)), qml.sample(wires=0)

    x = np.linspace(0, 3, 5)
    values, samples = qml.set_shots(batch, SHOTS)(x)
    assert np.abs(values - np.cos(x)).max() <= 5 / np.sqrt(SHOTS)
    assert np.shape(samples)[:2] == (5, SHOTS)


def test_gradients() -> None:
    """By parameter shift: a difference of two means has at most sqrt(2) / 2 of their error."""
    exact = _node(lambda: qml.expval(qml.Z(0) @ qml.Y(2)), "default.qubit")
    node = _node(lambda: qml.expval(qml.Z(0) @ qml.Y(2)), "qring", SHOTS, seed=10)
    w = qml.numpy.array(W, requires_grad=True)
    wanted, found = qml.grad(exact)(w), qml.grad(node)(w)
    # CRot has a rule of four terms.
    assert np.abs(found - wanted).max() <= 5 * 2 / np.sqrt(SHOTS)
    assert (found != wanted).all()


def test_measurements_in_the_middle() -> None:
    def circuit(w: Any) -> Any:
        qml.RY(w[0], 0)
        bit = qml.measure(0, reset=True)
        qml.cond(bit, qml.RX)(w[1], 1)
        qml.Hadamard(0)
        return qml.expval(qml.Z(1)), qml.expval(bit), qml.counts(bit)

    node = qml.set_shots(qml.QNode(circuit, _device("qring", wires=3, seed=11)), SHOTS)
    z, mean, counts = node(W)
    p = np.sin(W[0] / 2) ** 2
    assert abs(mean - p) <= 5 * 0.5 / np.sqrt(SHOTS)
    assert abs(z - (1 - p + p * np.cos(W[1]))) <= 5 / np.sqrt(SHOTS)
    assert abs(counts[1] / SHOTS - p) <= 5 * 0.5 / np.sqrt(SHOTS)


@pytest.mark.parametrize("overlap", [False, True])
def test_variance_of_a_sum(overlap: bool) -> None:
    """Eigenvalues are at most 2: the error of a variance is at most 8 / sqrt(shots)."""

    def measured() -> Any:
        return qml.var(qml.X(0) + qml.Z(0 if overlap else 1)), qml.expval(qml.Y(0))

    exact, found = _node(measured, "default.qubit")(W), _node(measured, "qring", SHOTS, seed=12)(W)
    assert np.abs(np.subtract(exact, found)).max() <= 5 * 8 / np.sqrt(SHOTS)
    wide = qml.QNode(lambda: qml.var(qml.sum(*(qml.X(i) for i in range(7)))), QringDevice(wires=7))
    with pytest.raises(DeviceError, match="variance of a sum on 7 wires"):
        qml.set_shots(wide, 10)()


def _teleport(w: Any) -> Any:
    qml.RY(w[0], 0)
    qml.RZ(w[1], 0)
    qml.Hadamard(1)
    qml.CNOT([1, 2])
    qml.CNOT([0, 1])
    qml.Hadamard(0)
    a, b = qml.measure(0), qml.measure(1, reset=True)
    qml.cond(b, qml.X)(2)
    qml.cond(a, qml.Z)(2)
    qml.cond(a & b, qml.RX, qml.RY)(w[2], 1)
    return (
        *(qml.expval(pauli(2)) for pauli in (qml.X, qml.Y, qml.Z)),
        qml.expval(qml.Z(1)),
        qml.expval(a * b + 2 * b),
        qml.probs(op=[a, b]),
    )


def test_teleportation() -> None:
    """Exact values, as default.qubit's; the last wire has the state of the first."""
    found, wanted = (
        np.hstack(qml.QNode(_teleport, dev)(W))
        for dev in (QringDevice(), qml.device("default.qubit"))
    )
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-12)
    a, b = W[:2]
    bloch = [np.sin(a) * np.cos(b), np.sin(a) * np.sin(b), np.cos(a)]
    np.testing.assert_allclose(found[:3], bloch, rtol=0, atol=1e-12)


def test_errors() -> None:
    for seed in (-1, "a"):
        with pytest.raises((TypeError, ValueError), match="as a seed"):
            QringDevice(seed=seed)
    operations, measurements = [qml.RY(0.3, 0)], [qml.expval(qml.Z(0))]
    tape = qml.tape.QuantumScript(operations, measurements, shots=10, trainable_params=[0])
    with pytest.raises(DeviceError, match="cannot differentiate a tape with shots"):
        QringDevice(wires=1).compute_vjp([tape], [1.0])
    chosen = qml.QNode(
        lambda: (qml.measure(0, postselect=1), qml.expval(qml.Z(0)))[1], QringDevice()
    )
    with pytest.raises(ValueError, match="Postselection is not allowed"):
        chosen()
