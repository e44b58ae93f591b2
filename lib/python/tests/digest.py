"""SHA-256 of values and derivatives of fixed circuits, to compare libraries and machines.

Run as ``python3 digest.py [ISA]``; prints the digest. Weights are multiples of 2^-10, made without
the sine of any C library.
"""

from __future__ import annotations

import hashlib
import sys
from typing import Any, Iterator

import numpy as np

import qring
from qring import Circuit, Input, Parameter


def circuits() -> Iterator[tuple[Circuit, list[str]]]:
    """Return circuits for each engine, with gates of each kind."""
    for n, layers in ((2, 1), (5, 3), (9, 2), (12, 2), (14, 1)):
        c = Circuit(n)
        for layer in range(layers):
            for q in range(n):
                c.ry(Input(q), q).rx(f"w{layer}_{q}", q).rz(0.3 * Parameter(f"v{q}"), q)
            for q in range(n - 1):
                c.cnot(q, q + 1).rzz(f"u{layer}", q, q + 1)
            c.crx("sin(w0_0)*0.5", 0, n - 1).u("w0_1", 0.2, "v0", 0).iswap(0, 1, "w0_0")
        yield c, ["Z0", "0.5*X0 Y1 - 0.3*Z1", f"Z{n - 1}"]
    c = Circuit(6).h(0).pauli_rot("a", "XYZZ", [0, 1, 3, 4]).fsim("b", "c", 1, 2).ms("a", [0, 3, 5])
    c.double_excitation("b", 0, 1, 2, 3).phased_x("c", "a", 4).cu("a", "b", "c", 0.1, 4, 5)
    c.mcx([0, 1, 2], 5).mcp("a", [1, 2], 3).cswap(0, 4, 5).ecr(2, 3).pswap("b", 0, 5)
    yield c.repeat(2), ["Z5", "X0 X1", "Y2 Z4"]
    c = Circuit(30)
    for q in range(30):
        c.ry(f"w{q}", q)
    for q in range(0, 29, 2):
        c.cnot(q, q + 1)
    yield c, ["Z11", "Z12 Z13"]
    yield Circuit(16).ansatz("strongly-entangling", layers=1), ["Z0", "Z15"]
    yield Circuit.from_json({"ansatz": "qcnn", "qubits": 8}), ["Z7"]


def numbers(*shape: int) -> Any:
    """Return multiples of 2^-10 from -2 to 2."""
    n = int(np.prod(shape))
    return ((np.arange(1, n + 1) * 2654435761 % 4099 - 2049) / 1024).reshape(shape)


def digest(isa: str = "auto", threads: int = 1) -> str:
    sha = hashlib.sha256()
    for circuit, observables in circuits():
        for dtype in ("float32", "float64"):
            f = qring.expval(circuit, observables, dtype=dtype, threads=threads, isa=isa)
            n = 3 if f.n_qubits < 14 else 1
            w, c = numbers(len(f.parameters)), numbers(n, f.n_outputs)
            x = numbers(n, len(f.inputs)) if f.inputs else None
            total = f.sum()
            results = [*f.value_and_vjp(w, x, c), *f.value_and_vjp(w, x, c, sum=total)]
            if f.n_qubits < 14:
                one = None if x is None else x[0]
                results += f.jacobian(w, one)
            for array in (*results, total.values()):
                assert array is not None
                sha.update(array.tobytes())
    return sha.hexdigest()


if __name__ == "__main__":
    print(digest(*sys.argv[1:2]))
