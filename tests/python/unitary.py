"""Unitaries and gradients of qring's circuits, for comparisons with other programs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "lib" / "python"))

import numpy as np

import qring

MOST_QUBITS = 8
"""Largest number of qubits of random circuits."""

WITHIN = 1e-12
"""Tolerance of unitaries, up to a global phase."""

GRADIENTS_WITHIN = 1e-10
"""Tolerance of derivatives."""


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


# ---- gradients ----


def derivative(f: Callable[[float], Any]) -> Any:
    """Return f'(0) of an analytic function, from 12 values in double precision.

    The derivative is that of the polynomial p through the 12 Chebyshev nodes in [-r, r]. With c_k
    as its Chebyshev coefficients, p'(0) is the sum over odd k of c_k k (-1)^((k-1)/2) / r. If
    abs(f^(m)) <= W^m, as for an expectation value whose angles have total slope W (Bernstein's
    inequality), then the error of p'(0), which has the next odd power, is at most
    W (W r / 2)^12 2 / 13!: 8e-12 for r = 0.01 and W = 100. A slope that is larger shows in c_11,
    of which the neglected terms are a part that falls faster than geometrically: r is halved until
    that of p'(0) is below 5e-12. An error e of the values becomes at most 12 e / r, with e about
    1e-15, and this for r = 0.0025: 5e-12.
    """
    at = np.cos(np.pi * (np.arange(12) + 0.5) / 12)
    k = np.arange(1, 12, 2)
    parts = k * np.array([1, -1, 1, -1, 1, -1])
    transform = np.cos(np.outer(k, np.arccos(at))) / 6
    r = 0.02
    while True:
        terms = parts[:, None] / r * (transform @ np.array([np.atleast_1d(f(r * t)) for t in at]))
        if r < 0.003 or np.max(np.abs(terms[-1])) < 5e-12:
            return terms.sum(0)
        r /= 2


def pauli_product(rng: np.random.Generator, n: int) -> str:
    """Return a product of Paulis such as IXZ, at least one of them not I."""
    letters = rng.choice(list("IXYZ"), n)
    letters[rng.integers(n)] = rng.choice(list("XYZ"))
    return "".join(letters)


def expectation(product: str, state: Any) -> float:
    """Return the expectation value of a product of Paulis."""
    turned = state.reshape((2,) * len(product))
    for q, pauli in enumerate(product):
        if pauli in "XY":
            turned = np.flip(turned, q)
        if pauli in "YZ":  # after the flip: Y is diag(-i, i) X
            by = np.array([-1j, 1j] if pauli == "Y" else [1, -1])
            turned = turned * by.reshape((2,) + (1,) * (len(product) - 1 - q))
    return float(np.vdot(state, turned.reshape(-1)).real)


class Probe:
    """Two random observables on a random product state, for a circuit of n qubits."""

    def __init__(self, rng: np.random.Generator, n: int) -> None:
        self._rng = rng
        self.start = qring.Circuit(n)
        """Prepares the product state."""
        self.state = np.ones(1, complex)
        """The product state."""
        for q in range(n):
            a, b = (float(angle) for angle in rng.uniform(-3, 3, 2))
            self.start.ry(a, q).rz(b, q)
            one = np.array([np.exp(-0.5j * b) * np.cos(a / 2), np.exp(0.5j * b) * np.sin(a / 2)])
            self.state = np.kron(self.state, one)
        self.sums = [
            [(float(rng.uniform(-1, 1)), pauli_product(rng, n)) for _ in "12"] for _ in "12"
        ]
        """Coefficients and Pauli products such as IXZ."""
        self.observables = [
            " + ".join(
                " ".join([repr(c), *(p + str(q) for q, p in enumerate(product) if p != "I")])
                for c, product in terms
            ).replace("+ -", "- ")
            for terms in self.sums
        ]
        """The sums as texts of qring."""

    def values(self, state: Any) -> Any:
        """Return the observables' expectation values."""
        return np.array([sum(c * expectation(p, state) for c, p in terms) for terms in self.sums])

    def difference(
        self,
        circuit: qring.Circuit,
        values: dict[str, float],
        evolve: Callable[[dict[str, float], Any], Any],
        most: int = 9,
    ) -> float:
        """Return the largest difference of derivatives by parameters, NaN if there are none.

        Parameters
        ----------
        circuit : qring.Circuit
            The circuit that qring read.
        values : dict
            Values of its parameters.
        evolve : callable
            Final state of the other program, from values and the state before.
        most : int
            Number of parameters, chosen at random if there are more.
        """
        f = qring.expval(self.start + circuit, self.observables)
        found = f.jacobian([values[name] for name in f.parameters])[0]
        worst = np.nan
        for name in self._rng.permutation(f.parameters)[:most]:

            def moved(t: float, name: str = name) -> Any:
                return self.values(evolve({**values, name: values[name] + t}, self.state))

            error = found[:, f.parameters.index(name)] - derivative(moved)
            worst = float(np.fmax(worst, np.max(np.abs(error))))
        return worst


# ---- many comparisons ----


class Misread(Exception):
    """The other program reads its own text like qring, as another circuit than it wrote."""


def compare_many(
    what: str,
    compare: Callable[[np.random.Generator], Any],
    count: int,
    seed: int,
    bounds: Any,
) -> int:
    """Run a comparison for many random seeds; return the number of failures.

    Parameters
    ----------
    what : str
        Name of the comparison, for the printed line.
    compare : callable
        Returns as many differences as bounds; NaN if there is nothing to compare.
    count, seed : int
        Number i below count has the generator of [seed, i].
    bounds : sequence of float
        Largest allowed differences.
    """
    worst, compared = np.zeros(len(bounds)), np.zeros(len(bounds), int)
    failed = misread = 0
    begin = time.perf_counter()
    for i in range(count):
        try:
            found = np.atleast_1d(compare(np.random.default_rng([seed, i])))
        except Misread:
            misread += 1
            continue
        except Exception as problem:
            print(f"FAILED {what}, number {i}: {type(problem).__name__}: {problem}")
            failed += 1
            continue
        some = ~np.isnan(found)
        compared += some
        worst = np.fmax(worst, found)
        if not (found <= bounds)[some].all():
            print(f"FAILED {what}, number {i}: differs by {found}")
            failed += 1
    parts = zip(compared, worst)
    print(
        f"{what}: {count - failed - misread} of {count} equal, largest difference "
        + ", ".join(f"{w:.1e}" + (f" (of {n})" if n < count - misread else "") for n, w in parts)
        + (f"; {misread} texts that the exporter wrote wrongly" if misread else "")
        + f" [{time.perf_counter() - begin:.0f} s]",
        flush=True,
    )
    return failed
