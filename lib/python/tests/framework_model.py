"""Circuit, data and finite differences that the tests of framework layers share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable

import numpy as np

import qring

SHOTS: dict[str, Any] = {"shots": 50, "seed": 3, "gradient": "parameter-shift"}
OBSERVABLES = ["Z0", "0.5*X0 Z1 - Y2"]


def circuit() -> qring.Circuit:
    """Return 3 qubits, 3 inputs and 5 parameters, where two names need the natural order."""
    c = qring.Circuit(3)
    for i in range(3):
        c.rx(f"x[{i}]", i)
    for i in range(3):
        c.ry(f"w{i}", i)
    c.cnot(0, 1)
    c.cz(1, 2)
    c.rx("2*w10", 2)
    c.rz("w9", 1)
    c.ry("w0*x[0]", 1)
    return c


def data(samples: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return weights (5,) and inputs (samples, 3)."""
    rng = np.random.default_rng(seed)
    return rng.uniform(0, 2 * np.pi, 5), rng.uniform(-1, 1, (samples, 3))


def differences(f: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return central differences of a scalar function."""
    ret = np.empty(at.shape)
    for i in np.ndindex(*at.shape):
        high, low = at.copy(), at.copy()
        high[i] += step
        low[i] -= step
        ret[i] = (f(high) - f(low)) / (2 * step)
    return ret


def environment(**more: str) -> dict[str, str]:
    """Return the environment for a Python of its own that imports the modules beside this one."""
    path = [str(Path(__file__).resolve().parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path)), **more}


def close(a: Any, b: Any, tolerance: float) -> bool:
    """Return whether all elements are equal within an absolute tolerance."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= tolerance))
