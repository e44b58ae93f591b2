"""Random circuits of Qiskit with measurements before the end, compared with Aer. See ``qasm``."""

from __future__ import annotations

from typing import Any, Callable

import numpy as np
from unitary import qring

SHOTS = 20000
N = 3
MOST = 5.5
"""Standard deviations of chi-square, whose cube root is nearly normal (Wilson and Hilferty): once
in 10^7 circuits."""


def random_dynamic(rng: np.random.Generator) -> Any:
    """Return a circuit on three qubits with two bits and one, conditions, switches and resets."""
    from qiskit import ClassicalRegister, QuantumCircuit, QuantumRegister
    from qiskit.circuit.classical import expr

    c, d = ClassicalRegister(2, "c"), ClassicalRegister(1, "d")
    circuit = QuantumCircuit(QuantumRegister(N, "q"), c, d)

    def qubit() -> int:
        return int(rng.integers(N))

    def gate() -> None:
        a, b = (int(q) for q in rng.permutation(N)[:2])
        t = float(rng.uniform(-3, 3))
        kinds: list[Callable[[], Any]] = [
            lambda: circuit.rx(t, a),
            lambda: circuit.ry(t, a),
            lambda: circuit.cx(a, b),
            lambda: circuit.h(a),
            lambda: circuit.crz(t, a, b),
        ]
        kinds[rng.integers(len(kinds))]()

    def item() -> None:
        kind = rng.integers(6)
        if kind == 0:
            with circuit.if_test((c, int(rng.integers(4)))) as otherwise:
                gate()
                gate()
            with otherwise:
                gate()
        elif kind == 1:
            with circuit.if_test((d[0], 1)):
                gate()
        elif kind == 2:
            with circuit.if_test(expr.bit_xor(c[0], c[1])):
                gate()
        elif kind == 3:
            with circuit.switch(c) as case:
                with case(0):
                    gate()
                with case(1, 2):
                    gate()
                with case(case.DEFAULT):
                    gate()
        elif kind == 4:
            circuit.reset(qubit())
        else:
            circuit.measure(qubit(), c[int(rng.integers(2))])

    for _ in range(4):
        gate()
    for bit in (*c, *d):
        circuit.measure(qubit(), bit)
    for _ in range(4):
        item()
        gate()
    for i in range(2):
        circuit.measure(i, c[i])
    return circuit


def counts_by_aer(circuit: Any, seed: int) -> Any:
    """Return the counts of the values of the bits d c1 c0, the lowest first."""
    from qiskit import transpile
    from qiskit_aer import AerSimulator

    ret = np.zeros(1 << circuit.num_clbits)
    aer = AerSimulator(method="statevector")
    native = transpile(circuit, aer, optimization_level=0)
    found = aer.run(native, shots=SHOTS, seed_simulator=seed)
    for text, n in found.result().get_counts().items():
        ret[int(text.replace(" ", ""), 2)] += n
    return ret


def counts_by_qring(circuit: qring.Circuit, n_bits: int, seed: int, theta: Any = None) -> Any:
    """Return qring's counts, with values of the parameters."""
    bits = qring.SampleFunction(circuit, SHOTS, seed=seed).bits(theta)
    return np.bincount(bits @ (1 << np.arange(bits.shape[-1])), minlength=1 << n_bits)


def deviation(a: Any, b: Any) -> float:
    """Return chi-square of two counts, in standard deviations of the cube root."""
    both = a + b >= 10  # rare values are left out
    freedom = max(1, int(both.sum()) - 1)
    chi = float(np.sum((a - b)[both] ** 2 / (a + b)[both])) / freedom
    variance = 2 / (9 * freedom)
    return float((np.cbrt(chi) - (1 - variance)) / np.sqrt(variance))


def compare_dynamic(count: int, seed: int) -> int:
    """Compare count circuits; return the number of failures."""
    failed, worst = 0, 0.0
    for i in range(count):
        circuit = random_dynamic(np.random.default_rng([seed, i]))
        a = counts_by_qring(qring.Circuit.from_qiskit(circuit), circuit.num_clbits, seed + i)
        b = counts_by_aer(circuit, seed + i)
        z = deviation(a, b)
        worst = max(worst, z)
        if z > MOST:
            failed += 1
            print(f"circuit {i}: {a.astype(int)}, Aer {b.astype(int)}")
    print(
        f"dynamic circuits by Qiskit Aer: {count - failed} of {count} equal, largest deviation "
        f"{worst:.1f} of {MOST}"
    )
    return failed
