"""qring.keras.Layer on each installed backend; every backend runs in a process of its own.

QRING_TEST_TENSORFLOW may name the Python of an environment with TensorFlow: one process cannot load
TensorFlow 2.21 and PyTorch 2.15, and Keras loads what is installed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from framework_model import environment

if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

BACKENDS = ("torch", "jax", "tensorflow")
TENSORFLOW = os.environ.get("QRING_TEST_TENSORFLOW")


def run(backend: str, *arguments: str) -> Any:
    program = Path(__file__).with_name("keras_model.py")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    python = TENSORFLOW if TENSORFLOW and backend == "tensorflow" else sys.executable
    done = subprocess.run(
        [python, str(program), *arguments],
        env=environment(KERAS_BACKEND=backend, **quiet),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def installed(backend: str) -> bool:
    if TENSORFLOW and backend == "tensorflow":
        return True
    return importlib.util.find_spec(backend) is not None


@pytest.fixture(name="backend", params=BACKENDS)
def _backend(request: pytest.FixtureRequest) -> str:
    if not installed(request.param):
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


def test_values_and_derivatives_are_those_of_the_function(backend: str) -> None:
    largest = run(backend, "derivatives")
    assert largest["float64"] <= 1e-14
    assert largest["float32"] <= 1e-6


def test_trained_saved_loaded_on_every_backend(backend: str, tmp_path: Path) -> None:
    path = str(tmp_path / "model.keras")
    trained = run(backend, "train", path)
    assert trained["loss"][-1] < 0.9 * trained["loss"][0]
    assert trained["shape"] == [None, 2]
    for other in (*filter(installed, BACKENDS), "numpy"):
        loaded = run(other, "predict", path)
        difference = np.abs(np.subtract(loaded["predictions"], trained["predictions"])).max()
        assert difference <= (0 if other == backend else 1e-6), other
        assert loaded["circuit"]
        assert loaded["observables"]
        assert loaded["threads"] == 1
        assert loaded["names"] == ["w0", "w1", "w2", "w9", "w10"]


def test_misuse_raises_and_policies_hold(backend: str) -> None:
    found = run(backend, "misuse")
    wrong_shape, wrong_observable, wrong_input = found["messages"]
    assert "cannot use inputs of shape (4, 2)" in wrong_shape
    assert "out of range" in wrong_observable
    assert "cannot use inputs of shape (None, 4)" in wrong_input
    assert found["dtype"] == "bfloat16"
    assert found["weight"] == "float32"
    assert found["policy"] == "mixed_bfloat16"
    assert found["batch"] == [2, 2, 2]


def test_options_of_noise(backend: str) -> None:
    assert run(backend, "noise")["difference"] <= 1e-6


def test_shots(backend: str) -> None:
    """Bits of the function with the same options."""
    assert run(backend, "shots") == {"float64": 0, "float32": 0}
