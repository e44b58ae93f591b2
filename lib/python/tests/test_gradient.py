"""Bits of ``qring gradient``, which are those of a job's step. Needs build/bin/qring or $QRING."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qring
from qring import Circuit

PROGRAM = os.environ.get("QRING", str(Path(__file__).parents[3] / "build/bin/qring"))
OBSERVABLE = "0.5*X0 Z1 - Y2"


def circuit(n: int) -> Circuit:
    c = Circuit(n)
    for q in range(n):
        c.ry(qring.Input(q), q).rx(f"w{q}", q).cnot(q, (q + 1) % n)
    return c.rz("sin(w0)*v", 0).crx("v", 0, 2)


def gradient(folder: Path, *flags: str) -> list[dict[str, Any]]:
    command = [PROGRAM, "gradient", "job.json", "--weights", "w.npz", *flags]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
    assert said.returncode == 0, said.stderr
    return [json.loads(line) for line in said.stdout.splitlines()]


@pytest.mark.skipif(not os.path.exists(PROGRAM), reason="the program qring is not built")
@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("n", [3, 9, 12])
def test_bits_of_qring_gradient(tmp_path: Path, precision: str, n: int) -> None:
    c = circuit(n)
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (8, n)), rng.choice([-1.0, 1.0], 8)
    job = {
        "precision": precision,
        "model": [{"layer": "quantum", "circuit": c.to_json(), "readouts": [OBSERVABLE]}],
        "data": {"source": "npz", "url": "d.npz"},
        "train": {"loss": "mse"},
    }
    f = qring.expval(c, OBSERVABLE, dtype="float32" if precision == "single" else "float64")
    # Weights files have float32.
    w = rng.normal(size=len(f.parameters)).astype(np.float32)
    np.savez(tmp_path / "d.npz", x=x, y=y)
    np.savez(tmp_path / "w.npz", **{"pqc/parameters": w})
    (tmp_path / "job.json").write_text(json.dumps(job))

    samples = gradient(tmp_path, "--of", "prediction")
    assert f.forward(w, x)[:, 0].tolist() == [s["prediction"] for s in samples]
    by_weights, _ = f.jacobian(w, x)
    assert by_weights[:, 0].tolist() == [s["gradient"]["pqc/parameters"] for s in samples]

    # The mean of squares over the samples: a step divides the sum
    (loss,) = gradient(tmp_path, "--of", "loss")
    # Derivatives by inputs need each sample's own sums, which a step does not have here.
    g = qring.expval(c, OBSERVABLE, dtype=f.dtype, input_gradients=False)
    z = g.forward(w, x)
    d_weights, _ = g.vjp(w, x, 2 * (z - y[:, None]))
    assert (d_weights / len(x)).tolist() == loss["gradient"]["pqc/parameters"]
