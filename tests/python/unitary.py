"""Unitaries of qring's circuits, for comparisons with other programs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib" / "python"))

import numpy as np

import qring


def distance(a: Any, b: Any) -> float:
    """Return the largest difference of two arrays up to a global phase."""
    overlap = np.vdot(b, a)
    return float(np.max(np.abs(a - b * (overlap / abs(overlap) if overlap else 1))))


def qring_unitary(circuit: qring.Circuit, values: dict[str, float]) -> Any:
    """Return the matrix of a circuit, a column for each basis state."""
    n = circuit.n_qubits
    start = qring.Circuit(n)
    for q in range(n):
        start.x(q, exponent=qring.Input(q))
    f = qring.StateFunction(start + circuit)
    bits = (np.arange(2**n)[:, None] >> np.arange(n - 1, -1, -1)) & 1
    theta = [values[name] for name in f.parameters]
    return np.asarray(f(theta, bits.astype(float))).T
