"""Time of a call on two qubits, of the calls into the library alone, and of the import.

Run with the interpreter to measure: ``python3 tests/bench_call.py``. Prints microseconds, the
least of many repetitions.
"""

from __future__ import annotations

import os
import subprocess
import sys
import timeit

import numpy as np

import qring
from qring._library import lib

IMPORT = (
    "import time; t = time.perf_counter(); import qring; print(1e6 * (time.perf_counter() - t))"
)


def microseconds(statement: str, names: dict[str, object]) -> float:
    timer = timeit.Timer(statement, globals=names)
    return min(timer.repeat(repeat=200, number=200)) / 200 * 1e6


def main() -> None:
    circuit = qring.Circuit(2).ry("w", 0).cnot(0, 1).rx("x[0]", 1)
    f = qring.expval(circuit, ["Z0", "Z1"], threads=1)
    names: dict[str, object] = {
        "f": f,
        "w": np.array([0.1]),
        "x": np.array([[0.2]]),
        "c": np.ones((1, 2)),
        "lib": lib,
        "h": f._handle,
        "wa": f._weights_argument.pointer,
        "xa": f._inputs_argument.pointer,
        "ca": f._cotangents_argument.pointer,
        "za": f._results[0].pointer,
        "dw": f._results[1].pointer,
        "dx": f._results[2].pointer,
        "e": f._error_pointer,
    }
    kept = f.value_and_vjp(names["w"], names["x"], names["c"])  # type: ignore[arg-type]
    for argument, array in zip(f._results, kept):
        assert array is not None
        argument.fill(array)
    f._cotangents_argument.fill(names["c"])  # type: ignore[arg-type]
    for name, whole, inner in (
        ("forward", "f.forward(w, x)", "lib.qring_forward(h, wa, xa, 1, za, e)"),
        (
            "value_and_vjp",
            "f.value_and_vjp(w, x, c)",
            "lib.qring_vjp(h, wa, xa, 1, ca, za, dw, dx, None, e)",
        ),
    ):
        print(f"{name}: {microseconds(whole, names):.1f}, in C {microseconds(inner, names):.1f}")
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    times = [
        float(subprocess.run([sys.executable, "-c", IMPORT], env=path, capture_output=True).stdout)
        for _ in range(5)
    ]
    print(f"import qring: {min(times):.0f}")


if __name__ == "__main__":
    main()
