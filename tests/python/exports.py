"""Compares qring's exports, read by the installed programs, with its circuits.

Start reading at :func:`compare_exports`.
"""

from __future__ import annotations

import importlib.util
import json
from functools import partial
from typing import Any, Callable

import numpy as np
from random_circuits import qiskit_circuit, qiskit_evolution
from unitary import (
    GRADIENTS_WITHIN,
    MOST_QUBITS,
    WITHIN,
    Probe,
    compare_many,
    derivative,
    distance,
    qring,
    qring_unitary,
)

TFQ_WITHIN = 1e-4
"""TensorFlow Quantum's numbers have six decimals: 1.6e-6 radians for each of 28 at most, which a
symbol multiplies by up to 3."""
NOISE_WITHIN = 1e-11
"""PennyLane adds 1e-14 before it takes square roots."""
SINGLE_WITHIN = 1e-6
"""28 operations at most, with independent errors of 2^-24 each: 3.2e-7, and three times as much."""


def random_qring(rng: np.random.Generator) -> tuple[qring.Circuit, dict[str, float]]:
    """Return a random circuit of all native gates with controls, shifts and free parameters."""
    kinds = {
        "X": 1, "Y": 1, "Z": 1, "H": 1, "PhasedX": 1, "XX": 2, "YY": 2, "ZZ": 2, "CZ": 2, "CNOT": 2,
        "SWAP": 2, "ISWAP": 2, "PhasedISwap": 2, "FSIM": 2,
    }  # fmt: skip
    n = int(rng.integers(2, MOST_QUBITS + 1))
    gates: list[dict[str, Any]] = []

    def argument() -> Any:
        if rng.random() < 0.4:
            return float(rng.choice([1, -1, 0.5, 0.25, rng.uniform(-2, 2)]))
        name = str(rng.choice(["a", "theta", "w_1"]))
        return [name, f"{rng.uniform(-2, 2)}*{name}", f"a*b - {name}/3"][rng.integers(3)]

    for _ in range(int(rng.integers(3, 15))):
        kind = str(rng.choice(list(kinds)))
        qubits = [int(q) for q in rng.permutation(n)]
        gate: dict[str, Any] = {"gate": kind, "qubits": qubits[: kinds[kind]]}
        for key in ("theta", "phi") if kind == "FSIM" else ("exponent",):
            gate[key] = argument()
        if kind.startswith("Phased"):
            gate["phase_exponent"] = argument()
        # Cirq 1.6 drops the global shift of PhasedISwap when it resolves parameters.
        if kind not in ("FSIM", "PhasedISwap") and rng.random() < 0.5:
            gate["global_shift"] = float(rng.choice([-0.5, rng.uniform(-1, 1)]))
        controls = [q for q in qubits[kinds[kind] :] if rng.random() < 0.3]
        if controls:
            gate["controls"] = controls
            gate["control_values"] = [int(v) for v in rng.integers(0, 2, len(controls))]
        gates.append(gate)
    circuit = qring.Circuit.from_json({"qubits": n, "gates": gates})
    return circuit, {name: float(rng.uniform(-3, 3)) for name in ("a", "b", "theta", "w_1")}


def pennylane_unitary(text: str, n: int, values: dict[str, float], _: Probe) -> Any:
    """Return the matrix of the function in a Python file that qring wrote."""
    import pennylane as qml

    module: dict[str, Any] = {}
    exec(text, module)
    circuit = module["circuit"]
    w = () if "circuit()" in text else (values,)
    return qml.matrix(circuit.func, wire_order=range(n))(*w)


def qiskit_unitary(text: str, n: int, values: dict[str, float], _: Probe) -> Any:
    """Return Qiskit's matrix of an OpenQASM text."""
    read = qiskit_circuit(text)
    if read is None:
        raise ValueError("Qiskit cannot read the text")
    return qiskit_evolution(read)(values, None)


def pytket_unitary(text: str, n: int, values: dict[str, float], _: Probe) -> Any:
    """Return pytket's matrix of an OpenQASM 2 text."""
    from pytket.qasm import circuit_from_qasm_str

    return circuit_from_qasm_str(text).get_unitary()


def check_sums(sums: Any, qubits: Any, probe: Probe) -> None:
    """Raise ValueError unless Cirq's PauliSums are the observables of the probe."""
    numbers = {q: i for i, q in enumerate(qubits)}
    found = [s.expectation_from_state_vector(probe.state, numbers).real for s in sums]
    if not np.max(np.abs(found - probe.values(probe.state))) <= WITHIN:
        raise ValueError(f"the read-outs are {sums}, not {probe.observables}")


def cirq_unitary(text: str, n: int, values: dict[str, float], probe: Probe) -> Any:
    """Return Cirq's matrix of its JSON."""
    import cirq

    circuit, *sums = cirq.read_json(json_text=text)
    check_sums(sums, cirq.LineQubit.range(n), probe)
    return cirq.unitary(cirq.resolve_parameters(circuit, values))


def cirq_qasm_unitary(text: str, n: int, values: dict[str, float], _: Probe) -> Any:
    """Return Cirq's matrix of an OpenQASM 2 text."""
    import cirq
    from cirq.contrib.qasm_import import circuit_from_qasm

    qubits = [cirq.NamedQubit(f"q_{q}") for q in range(n)]
    return circuit_from_qasm(text).unitary(qubit_order=qubits, qubits_that_should_be_present=qubits)


def tfq_unitary(text: bytes, n: int, values: dict[str, float], _: Probe) -> Any:
    """Return Cirq's matrix of a program that TensorFlow Quantum reads."""
    import cirq
    import tensorflow as tf
    import tensorflow_quantum as tfq

    circuit = tfq.from_tensor(tf.constant([text]))[0]
    return cirq.unitary(cirq.resolve_parameters(circuit, values))


# ---- noise ----

CHANNELS: dict[str, tuple[int, tuple[str, ...]]] = {
    **dict.fromkeys(("BitFlip", "PhaseFlip", "BitPhaseFlip"), (1, ("p",))),
    **dict.fromkeys(("AmplitudeDamping", "PhaseDamping"), (1, ("gamma",))),
    "Depolarize": (2, ("p",)),
    "Dephase": (2, ("p",)),
    "PauliChannel": (1, ("p_x", "p_y", "p_z")),
    "GeneralizedAmplitudeDamping": (1, ("p", "gamma")),
    "ThermalRelaxation": (1, ("t1", "t2", "time", "excited")),
    "ResetError": (1, ("p_0", "p_1")),
    "Reset": (1, ()),
    "Kraus": (2, ()),
}
"""Numbers of qubits, and arguments, which are at most 0.3."""


def random_noise(
    rng: np.random.Generator, kinds: list[str], strengths: dict[str, float] | None = None
) -> qring.Circuit:
    """Return a circuit with a channel after each of its gates.

    With ``strengths``, the arguments of the channels are parameters, at least 0.02 inside of their
    range, whose values are added to it.
    """
    n = int(rng.integers(2, 5))
    least = 0.0 if strengths is None else 0.03
    # Braket drops qubits without gates.
    gates: list[dict[str, Any]] = [{"gate": "H", "qubits": [q]} for q in range(n)]
    for _ in range(int(rng.integers(2, 9))):
        a, b = (int(q) for q in rng.permutation(n)[:2])
        kind = str(rng.choice(kinds))
        qubits, names = CHANNELS[kind]
        gates += [
            {"gate": "RY", "qubits": [a], "angle": float(rng.uniform(-3, 3))},
            {"gate": "CNOT", "qubits": [a, b]},
        ]
        channel: dict[str, Any] = {"channel": kind, "qubits": [b, a][:qubits]}
        channel.update({name: float(rng.uniform(least, 0.3)) for name in names})
        # PennyLane's operators are inexact for times of many t1.
        if kind == "ThermalRelaxation":
            channel["t1"] += 0.3
            channel["t2"] = float(rng.uniform(*((0.5, 1.8) if least else (0.1, 2)))) * channel["t1"]
        if kind == "Kraus":
            parts = rng.normal(size=(12, 4)) + 1j * rng.normal(size=(12, 4))
            whole = np.linalg.qr(parts)[0].reshape(3, 4, 4)
            channel["operators"] = [
                [[[v.real, v.imag] for v in row] for row in m.tolist()] for m in whole
            ]
        if strengths is not None:
            for name in names:
                parameter = f"s{len(strengths)}"
                strengths[parameter], channel[name] = channel[name], parameter
        gates.append(channel)
    return qring.Circuit.from_json({"qubits": n, "gates": gates})


LETTERS: dict[str, Any] = {"X": [[0, 1], [1, 0]], "Y": [[0, -1j], [1j, 0]], "Z": [[1, 0], [0, -1]]}


def random_words(rng: np.random.Generator, n: int) -> tuple[list[str], Any]:
    """Return six products of two Paulis, as texts and as matrices."""
    texts, matrices = [], []
    for _ in range(6):
        a, b = (str(p) for p in rng.choice(list(LETTERS), 2))
        q, r = (int(v) for v in rng.permutation(n)[:2])
        texts.append(f"{a}{q} {b}{r}")
        operator = np.eye(1)
        for k in range(n):
            own = {q: LETTERS[a], r: LETTERS[b]}.get(k, np.eye(2))
            operator = np.kron(operator, own)
        matrices.append(operator)
    return texts, np.array(matrices)


def expectations(matrices: Any, rho: Any) -> Any:
    """Return the expectation values of matrices."""
    return np.einsum("kij,ji->k", matrices, rho).real


def cirq_density(text: Any, n: int, dtype: Any = np.complex128) -> Any:
    """Return Cirq's density matrix of its JSON, or of a program of TensorFlow Quantum."""
    import cirq

    if isinstance(text, str):
        circuit, qubits = cirq.read_json(json_text=text), cirq.LineQubit.range(n)
    else:
        import tensorflow as tf
        import tensorflow_quantum as tfq

        circuit, qubits = tfq.from_tensor(tf.constant([text]))[0], cirq.GridQubit.rect(1, n)
    simulator = cirq.DensityMatrixSimulator(dtype=dtype)
    return simulator.simulate(circuit, qubit_order=qubits).final_density_matrix


def pennylane_density(text: str, n: int) -> Any:
    """Return PennyLane's density matrix of the function in a Python file that qring wrote."""
    module: dict[str, Any] = {}
    exec(text, module)
    return module["circuit"]()


def braket_density(text: str, n: int) -> Any:
    """Return the density matrix of Amazon Braket's simulator, which reads no includes."""
    from braket.devices import LocalSimulator
    from braket.ir.openqasm import Program

    text = text.replace('include "stdgates.inc";\n', "").replace("cx ", "cnot ")
    program = Program(source=text + "#pragma braket result density_matrix\n")
    return np.array(LocalSimulator("braket_dm").run(program, shots=0).result().values[0])


def compare_noise(count: int, seed: int) -> int:
    """Compare count circuits with noise in each format; return the number of failures."""
    programs = "BitFlip PhaseFlip AmplitudeDamping PhaseDamping PauliChannel Reset".split()
    readers: dict[str, tuple[str, str, list[str], Callable[..., Any]]] = {
        "JSON with noise by Cirq": ("cirq", "cirq", list(CHANNELS), cirq_density),
        "program with noise by TensorFlow Quantum": (
            *("tensorflow_quantum", "tfq"),
            [*programs, "GeneralizedAmplitudeDamping"],
            cirq_density,
        ),
        "Python with noise by PennyLane": ("pennylane", "python", [*CHANNELS], pennylane_density),
        "OpenQASM 3 with noise by Amazon Braket": ("braket", "qasm3", [*CHANNELS], braket_density),
    }

    def compare(
        form: str, kinds: list[str], read: Callable[..., Any], rng: np.random.Generator
    ) -> float:
        circuit = random_noise(rng, kinds)
        n = circuit.n_qubits
        texts, matrices = random_words(rng, n)
        exact = expectations(matrices, read(circuit.export(form), n))
        return float(np.max(np.abs(qring.expval(circuit, texts).forward([]) - exact)))

    return sum(
        compare_many(
            f"qring's {what}",
            partial(compare, form, kinds, read),
            count,
            seed,
            [TFQ_WITHIN if form == "tfq" else NOISE_WITHIN],
        )
        for what, (module, form, kinds, read) in readers.items()
        if importlib.util.find_spec(module)
    )


def single_differences(rng: np.random.Generator) -> tuple[float, float, float, float]:
    """Compare qring's single precision with Cirq's density matrices of a circuit with noise.

    Returns
    -------
    tuple of float
        Largest differences of both exact methods from Cirq in single and in double precision, and
        from derivatives of the latter by up to four strengths of channels, in parts of 1 or of a
        larger derivative; and of trajectories from those in double precision with the same random
        numbers.
    """
    strengths: dict[str, float] = {}
    circuit = random_noise(rng, list(CHANNELS), strengths)
    n = circuit.n_qubits
    texts, matrices = random_words(rng, n)
    functions = [
        qring.expval(circuit, texts, dtype="float32", method=method)
        for method in ("exact", "density")
    ]
    names = functions[0].parameters

    def by_cirq(values: dict[str, float], dtype: Any = np.complex128) -> Any:
        text = circuit.export("cirq", parameters=[values[name] for name in names])
        return expectations(matrices, cirq_density(text, n, dtype))

    theta = [strengths[name] for name in names]
    single, double = by_cirq(strengths, np.complex64), by_cirq(strengths)
    values = np.array([f.forward(theta) for f in functions])
    gradients = np.nan
    for name in rng.permutation(names)[:4]:

        def moved(t: float, name: str = name) -> Any:
            return by_cirq({**strengths, name: strengths[name] + t})

        exact, k = derivative(moved), names.index(name)
        for f in functions:
            error = np.abs(f.jacobian(theta)[0][:, k] - exact) / np.maximum(1, np.abs(exact))
            gradients = float(np.fmax(gradients, np.max(error)))
    drawn = [
        qring.expval(circuit, texts, dtype=dtype, method="trajectories").forward(theta)
        for dtype in ("float32", "float64")
    ]
    return (
        float(np.max(np.abs(values - single))),
        float(np.max(np.abs(values - double))),
        gradients,
        float(np.max(np.abs(drawn[0] - drawn[1]))),
    )


def compare_single(count: int, seed: int) -> int:
    """Compare count circuits with noise in single precision; return the number of failures."""
    if not importlib.util.find_spec("cirq"):
        return 0
    return compare_many(
        "qring's noise in single precision: Cirq in single and double, by strengths, trajectories",
        single_differences,
        count,
        seed,
        # Exact methods compute in double precision whatever the dtype.
        [SINGLE_WITHIN, NOISE_WITHIN, GRADIENTS_WITHIN, SINGLE_WITHIN],
    )


# ---- all ----


def compare_exports(count: int, seed: int) -> int:
    """Compare count random circuits in each format; return the number of failures."""
    readers: dict[str, tuple[str, str, bool, Callable[..., Any]]] = {
        "OpenQASM 3 by Qiskit": ("qiskit", "qasm3", False, qiskit_unitary),
        "OpenQASM 3 with numbers by Qiskit": ("qiskit", "qasm3", True, qiskit_unitary),
        "OpenQASM 2 by Qiskit": ("qiskit", "qasm2", True, qiskit_unitary),
        "OpenQASM 2 by pytket": ("pytket", "qasm2", True, pytket_unitary),
        "OpenQASM 2 by Cirq": ("ply", "qasm2", True, cirq_qasm_unitary),
        "JSON by Cirq": ("cirq", "cirq", False, cirq_unitary),
        "program by TensorFlow Quantum": ("tensorflow_quantum", "tfq", False, tfq_unitary),
        "Python by PennyLane": ("pennylane", "python", False, pennylane_unitary),
    }
    readers = {k: v for k, v in readers.items() if importlib.util.find_spec(v[0])}

    def compare(read: Callable[..., Any], form: str, numbers: bool, rng: Any) -> float:
        circuit, values = random_qring(rng)
        if form == "tfq":  # it has numbers times one symbol
            numbers = "a*b" in json.dumps(circuit.to_json())
        used = {name: values[name] for name in qring.StateFunction(circuit).parameters}
        probe = Probe(rng, circuit.n_qubits)
        text = circuit.export(
            form,
            probe.observables if form == "cirq" else (),
            parameters=list(used.values()) if numbers else None,
        )
        try:
            error = distance(
                read(text, circuit.n_qubits, used, probe), qring_unitary(circuit, used)
            )
        except Exception:
            print(text)
            raise
        return error

    noise = compare_noise(count, seed) + compare_single(count, seed)
    return noise + sum(
        compare_many(
            f"qring's {what}",
            partial(compare, read, form, numbers),
            count,
            seed,
            [TFQ_WITHIN if form == "tfq" else WITHIN],
        )
        for what, (_, form, numbers, read) in readers.items()
    )
