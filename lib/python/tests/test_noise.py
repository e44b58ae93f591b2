"""Noise channels and noise of circuits: values, derivatives, methods, misuse."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qring

WITHIN = 1e-12
PROGRAM = os.environ.get("QRING", Path(__file__).parents[3] / "build/bin/qring")


def noisy_circuit() -> qring.Circuit:
    c = qring.Circuit(2).ry("w0", 0).rx("x[0]", 1).cnot(0, 1)
    c.channel("AmplitudeDamping", [0, 1], gamma=0.1 * qring.Parameter("g"))
    c.rz("w1", 1).h(1)
    return c.noise(after={"*2": {"channel": "Depolarize", "p": 0.05}}, readout=0.02)


W = np.array([0.3, 0.4, 0.7])  # g, w0, w1
X = np.linspace(-1, 1, 40)[:, None]
OBSERVABLES = ["Z0", "Z0 Z1", "X1"]


def test_values_of_one_qubit() -> None:
    """By hand: damping keeps 1 - gamma of |1>; the others shrink the Bloch vector."""
    gamma, p = 0.3, 0.2
    c = qring.Circuit(1).ry("w", 0).channel("AmplitudeDamping", 0, gamma=gamma)
    z = np.cos(0.7)
    assert qring.expval(c, "Z0")([0.7])[0] == pytest.approx(gamma + (1 - gamma) * z, abs=WITHIN)
    c.channel("Depolarize", 0, p="p")
    f = qring.expval(c, "Z0")
    assert f.parameters == ("p", "w")
    damped = gamma + (1 - gamma) * z
    assert f([p, 0.7])[0] == pytest.approx((1 - 4 * p / 3) * damped, abs=WITHIN)
    by_p, by_w = f.vjp([p, 0.7], None, [1.0])[0]
    assert by_p == pytest.approx(-4 / 3 * damped, abs=WITHIN)
    assert by_w == pytest.approx(-(1 - 4 * p / 3) * (1 - gamma) * np.sin(0.7), abs=WITHIN)


def test_kraus_and_rules() -> None:
    """Operators, noise after gates, and read-out errors give the numbers of channels by hand."""
    flip = [np.sqrt(0.9) * np.eye(2), np.sqrt(0.1) * np.array([[0, 1], [1, 0]])]
    a = qring.Circuit(2).ry("w", 0).channel("Kraus", 0, operators=flip)
    a.cnot(0, 1).channel("Depolarize", 0, p=0.05).channel("Depolarize", 1, p=0.05)
    a.channel("BitFlip", 1, p=0.02)
    b = qring.Circuit(2).ry("w", 0).cnot(0, 1)
    b.noise(
        after={"RY": [{"channel": "BitFlip", "p": 0.1}], "*": {"channel": "Depolarize", "p": 0.05}},
        readout=[{"p": 0.02, "qubits": [1]}],
    )
    z = ["Z0", "Z1", "Z0 Z1"]
    np.testing.assert_allclose(
        qring.expval(a, z)([0.4]), qring.expval(b, z)([0.4]), rtol=0, atol=WITHIN
    )


def test_json_and_copies() -> None:
    c = noisy_circuit()
    assert qring.Circuit.from_json(c.to_json()) == c == c.copy()
    assert c.to_json()["noise"]["readout"] == {"p": 0.02}
    assert "noise" not in c.copy().noise().to_json()
    read = qring.Circuit.from_qasm("input float w; qubit q; U(w, 0, 0) q;").noise(readout=0.5)
    assert qring.expval(read, "Z0")([0.3])[0] == 0
    whole = qring.Circuit.from_json({"ansatz": "qcnn", "qubits": 4}).noise(readout=0.1)
    assert whole.to_json()["noise"] == {"readout": {"p": 0.1}}
    for change in (lambda: c.repeat(2), lambda: c + c, lambda: qring.Circuit(1) + c, c.adjoint):
        with pytest.raises(ValueError, match="has noise"):
            change()


def test_methods_and_seeds() -> None:
    exact = qring.expval(noisy_circuit(), OBSERVABLES, method="exact")
    density = qring.expval(noisy_circuit(), OBSERVABLES, method="density")
    assert density.engine == "density"
    ones = np.ones((len(X), 3))
    for a, b in zip(exact.value_and_vjp(W, X, ones), density.value_and_vjp(W, X, ones)):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-11)

    def drawn(**options: Any) -> np.ndarray[Any, Any]:
        f = qring.expval(noisy_circuit(), OBSERVABLES, method="trajectories", **options)
        assert f.engine == "statevector"
        assert (pickle.loads(pickle.dumps(f)).forward(W, X) == f.forward(W, X)).all()
        return f.forward(W, X)

    few = drawn(trajectories=16, seed=3)
    assert (few == drawn(trajectories=16, seed=3, threads=1)).all()
    assert (few[:7] == drawn(trajectories=16, seed=3)[:7]).all()
    assert (few != drawn(trajectories=16, seed=2**64 - 1)).any()
    assert (few != drawn(trajectories=17, seed=3)).any()
    np.testing.assert_allclose(drawn(trajectories=20000), exact(W, X), rtol=0, atol=0.05)


@pytest.mark.skipif(not Path(PROGRAM).exists(), reason="the program qring is not built")
def test_numbers_of_predict(tmp_path: Path) -> None:
    """The program's predictions have the same trajectories, to the last digit that it prints.

    Its bit strings are the same.
    """
    circuit = noisy_circuit().to_json()
    job = {
        "name": "noisy",
        "model": [
            {
                "layer": "quantum",
                "circuit": {**circuit, "columns": 1},
                "readouts": ["Z0"],
                "method": "trajectories",
                "trajectories": 16,
            }
        ],
        "data": {"source": "csv", "url": "data.csv", "labels": "y"},
        "seed": 9,
        "precision": "double",
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    (tmp_path / "data.csv").write_text("x,y\n" + "".join(f"{x!r},1\n" for x in X[:, 0].tolist()))

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [PROGRAM, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout

    run("weights", "--init", "job.json", "--to", "w.safetensors")
    lines = run("predict", "job.json", "--weights", "w.safetensors", "--data", "data.csv")
    assert lines, "predictions"
    from qring._safetensors import read

    w = np.ravel(read(tmp_path / "w.safetensors")[0]["pqc/parameters"])
    f = qring.expval(circuit, "Z0", method="trajectories", trajectories=16, seed=9)
    got = [float(line.split(",")[-1]) for line in lines.splitlines()[1:]]
    np.testing.assert_allclose(got, f(w, X)[:, 0], rtol=0, atol=1e-6)
    drawn = "sample job.json --weights w.safetensors --samples 0,7 --shots 100"
    lines = run(*drawn.split())
    bits = qring.sample(circuit, w, X, shots=100, seed=9)
    assert bits.shape == (40, 100, 2)
    rows = [f"{i}," + "".join(map(str, b)) for i in (0, 7) for b in bits[i].tolist()]
    assert lines.splitlines()[1:] == rows


def test_shots() -> None:
    """Means of strings, and derivatives from shifted ones, within five standard errors."""
    bell = qring.Circuit(2).h(0).cnot(0, 1).ry("w", 1)
    shots = 10000
    f = qring.expval(bell, "Z0 Z1", shots=shots, gradient="parameter-shift", seed=2)
    found, by_w = f.value_and_vjp([0.7], None, [1.0])[:2]
    assert abs(found[0] - np.cos(0.7)) <= 5 * np.sin(0.7) / np.sqrt(shots)
    assert abs(by_w[0] + np.sin(0.7)) <= 5 * np.sqrt(0.5 / shots)
    assert found[0] != np.cos(0.7)
    assert (pickle.loads(pickle.dumps(f))([0.7]) == f([0.7])).all()
    draw = qring.SampleFunction(bell, shots, seed=2)
    bits = draw([0.0])
    assert bits.dtype == np.int8
    assert (bits[:, 0] == bits[:, 1]).all()
    assert abs(bits[:, 0].mean() - 0.5) <= 5 * 0.5 / np.sqrt(shots)
    assert (pickle.loads(pickle.dumps(draw))([0.0]) == bits).all()
    assert (qring.sample(bell, [0.0], shots=shots, seed=3) != bits).any()
    draw.seed, f.seed = 3, 3
    assert (qring.sample(bell, [0.0], shots=shots, seed=3) == draw([0.0])).all()
    assert (pickle.loads(pickle.dumps(f))([0.7]) == f([0.7])).all()
    assert f([0.7])[0] != found[0]
    with pytest.raises(qring.QringError, match="at most 64"):
        qring.sample(qring.Circuit(65).h(0))


def _teleport() -> qring.Circuit:
    c = qring.Circuit(3).ry("w0", 0).rz("w1", 0).rx("x[0]", 0).h(1).cnot(1, 2)
    c.cnot(0, 1).h(0).measure([0, 1], [1, 0])
    return c + qring.Circuit(3).x(2).conditional(0) + qring.Circuit(3).z(2).conditional([1], [1])


@pytest.mark.parametrize("method", ["auto", "exact", "trajectories"])
def test_teleportation(method: str) -> None:
    """Every trajectory has the state: values are those of the qubit before."""
    source = qring.Circuit(1).ry("w0", 0).rz("w1", 0).rx("x[0]", 0)
    f = qring.expval(source, ["X0", "Y0", "Z0"])
    g = qring.expval(_teleport(), ["X2", "Y2", "Z2"], method=method, trajectories=64)
    w = [0.4, 1.1]
    np.testing.assert_allclose(g(w, X), f(w, X), rtol=0, atol=WITHIN)
    if method != "trajectories":
        for a, b in zip(g.jacobian(w, X), f.jacobian(w, X)):
            np.testing.assert_allclose(a, b, rtol=0, atol=WITHIN)
    assert qring.Circuit.from_json(_teleport().to_json()) == _teleport()
    back = qring.Circuit.from_qasm(_teleport().export("qasm3"), inputs=["x0"])
    h = qring.expval(back, ["X2", "Y2", "Z2"], method=method, trajectories=64)
    np.testing.assert_allclose(h(w, X), f(w, X), rtol=0, atol=WITHIN)


def test_measured_bits(tmp_path: Path) -> None:
    """Bits are those that gates saw, and those of the command line."""
    c = qring.Circuit(2).ry(1.0, 0).measure(0, 3).h(0)
    c = c + qring.Circuit(2).x(1).conditional(3)
    draw = qring.SampleFunction(c, 2000, seed=4)
    strings, bits = draw(), draw.bits()
    assert bits.shape == (2000, 4)
    assert (bits[:, 3] == strings[:, 1]).all()
    assert not bits[:, :3].any()
    p = np.sin(0.5) ** 2
    assert abs(bits[:, 3].mean() - p) <= 5 * np.sqrt(p * (1 - p) / 2000)
    job = {
        "model": [{"layer": "quantum", "circuit": c.to_json(), "readouts": ["Z1"]}],
        "data": {"source": "none"},
        "train": {"loss": "expectation"},
        "precision": "double",
        "seed": 4,
    }
    (tmp_path / "job.json").write_text(json.dumps(job))
    lines = subprocess.run(
        [PROGRAM, "sample", "job.json", "--shots", "2000"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    rows = ["".join(map(str, s)) + "," + "".join(map(str, b)) for s, b in zip(strings, bits)]
    assert lines == ["sample,string,bits", *(f"0,{row}" for row in rows)]
    read = qring.Circuit(1).h(0).measure(0, 0, p_01=0.2, p_10="p")
    read += qring.Circuit(1).x(0).conditional(0)
    f = qring.expval(read, "Z0")
    assert f([0.3])[0] == pytest.approx((1 - 2 * 0.2) / 2 + (1 - 2 * 0.3) / 2, abs=WITHIN)
    assert np.ravel(f.jacobian([0.3])[0])[0] == pytest.approx(-1, abs=WITHIN)
    with pytest.raises(qring.QringError, match="which was not measured before"):
        qring.expval(qring.Circuit(1).x(0).conditional(0), "Z0")
    for wrong in ([], [0, 0], 2000):
        with pytest.raises(ValueError, match="bit"):
            qring.Circuit(1).x(0).conditional(wrong)


def test_probabilities() -> None:
    """Those of states, with noise of density matrices; fidelities by overlaps of states."""
    rng = np.random.default_rng(5)
    a = qring.Circuit(3).ry("a", 0).cnot(0, 1).rx("b", 2).cz(1, 2).ry("a", 1)
    b = qring.Circuit(3).h(0).rx("b", 1).cnot(1, 2).ry("c", 0)
    w = rng.uniform(-2, 2, 2)
    p = np.abs(qring.state(a, w)) ** 2
    np.testing.assert_allclose(
        qring.expval(a, qring.probs([2, 0]))(w),
        np.einsum("ijk->ki", p.reshape(2, 2, 2)).ravel(),
        rtol=0,
        atol=WITHIN,
    )
    assert qring.expval(a, qring.projector("101"))(w)[0] == pytest.approx(p[5], abs=WITHIN)
    f = qring.fidelity(a, b)
    assert f.parameters == ("a", "b", "c")
    at = np.array([*w, 0.4])

    def overlap(v: Any) -> float:
        return float(abs(np.vdot(qring.state(b, v[1:]), qring.state(a, v[:2]))) ** 2)

    assert f(at)[0] == pytest.approx(overlap(at), abs=WITHIN)
    for k in range(3):
        step = 1e-5 * np.eye(3)[k]
        slope = (overlap(at + step) - overlap(at - step)) / 2e-5
        assert np.ravel(f.jacobian(at)[0])[k] == pytest.approx(slope, abs=1e-9)
    noisy = a.copy().channel("Depolarize", 1, p=0.3)
    assert qring.fidelity(noisy, a)(w)[0] < 1 - 0.05
    for wrong in ("", "2", "00"):
        with pytest.raises(ValueError, match="cannot project"):
            qring.projector(wrong, [1])
    with pytest.raises(ValueError, match="as many"):
        qring.fidelity(a, qring.Circuit(2).h(0))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "exactly"}, "cannot use method 'exactly'"),
        ({"trajectories": 0}, "cannot use 0 as trajectories"),
        ({"trajectories": 1 << 21}, "cannot use 2097152"),
        ({"seed": -1}, "cannot use -1 as a seed"),
        ({"shots": 0}, "cannot use 0 as shots"),
        ({"gradient": "shift"}, "cannot use gradient 'shift'"),
    ],
)
def test_options(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        qring.expval(noisy_circuit(), "Z0", **options)


def test_misuse() -> None:
    with pytest.raises(TypeError, match="give an integer"):
        qring.expval(noisy_circuit(), "Z0", seed=0.5)
    with pytest.raises(TypeError, match="as a channel"):
        qring.Circuit(1).noise(after={"*": 0.1})
    with pytest.raises(TypeError, match="as noise"):
        qring.Circuit(1).noise(after=[])
    with pytest.raises(TypeError, match="give a str"):
        qring.Circuit(1).channel(1, 0)
    with pytest.raises(qring.QringError, match="mixed"):
        qring.state(noisy_circuit(), W, X)
    for bad in ({"p": "x[0]"}, {"p": 1.5}, {}):
        with pytest.raises(qring.QringError):
            qring.expval(qring.Circuit(1).channel("BitFlip", 0, **bad), "Z0")
