"""Noise models of Qiskit Aer as qring's noise. Start at :func:`noise_from_qiskit`."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Matrix = np.ndarray[Any, np.dtype[Any]]

_GATES = {
    **dict.fromkeys(("x", "sx", "sxdg"), ("X", 1)),
    **dict.fromkeys(("z", "s", "sdg", "t", "tdg", "p", "u1"), ("Z", 1)),
    **{name: (name.upper(), 1) for name in ("y", "h", "rx", "ry", "rz")},
    **{name: (name.upper(), 2) for name in ("cx", "cy", "ch", "crx", "cry", "crz")},
    **dict.fromkeys(("cz", "cp", "cu1", "cs", "csdg"), ("CZ", 2)),
    **{name: (name.upper(), 2) for name in ("swap", "iswap")},
    **{"csx": ("CX", 2), "rxx": ("XX", 2), "ryy": ("YY", 2), "rzz": ("ZZ", 2)},
}
"""Native gates with these numbers of qubits."""
_SHARED = {"X": "RX", "Y": "RY", "Z": "RZ", "CX": "CRX", "CY": "CRY", "CZ": "CRZ"}
"""Rotations that qring gives the noise of the other gate, unless they have noise of their own."""
_MAX_OPERATORS = 16


def _matrices() -> dict[str, Matrix]:
    """Return matrices in Qiskit's order: the first qubit is the least significant."""
    import numpy as np

    x, z = np.array([[0, 1], [1, 0]]), np.diag([1, -1])
    s = np.diag([1, 1j])
    h = (x + z) / np.sqrt(2)
    return {
        **{"id": np.eye(2), "x": x, "y": 1j * x @ z, "z": z, "h": h, "s": s, "sdg": s.conj()},
        **{"sx": h @ s @ h, "cx": np.eye(4)[[0, 3, 2, 1]], "cz": np.diag([1, 1, 1, -1])},
        "swap": np.eye(4)[[0, 2, 1, 3]],
    }


def _complex(matrix: Any) -> Matrix:
    """Return a matrix of numbers, or of pairs of real and imaginary parts."""
    import numpy as np

    array = np.asarray(matrix)
    return array[..., 0] + 1j * array[..., 1] if array.ndim == 3 else array.astype(complex)


def _paulis(instruction: dict[str, Any]) -> list[tuple[int, str]] | None:
    """Return the qubits' letters; None: the instruction is not a product of Paulis."""
    name, qubits = instruction["name"], instruction["qubits"]
    if name == "pauli":
        return list(zip(qubits, reversed(instruction["params"][0])))
    return [(qubits[0], name[0].upper())] if name in ("id", "x", "y", "z") else None


def _embedded(matrix: Matrix, qubits: list[int], n: int) -> Matrix:
    """Return Qiskit's matrix on qubits as one on n, of which the first is the most significant."""
    import numpy as np

    def bits(index: int) -> list[int]:
        return [index >> (n - 1 - q) & 1 for q in range(n)]

    ret = np.zeros((2**n, 2**n), complex)
    for row, column in product(range(2**n), repeat=2):
        a, b = bits(row), bits(column)
        if all(a[q] == b[q] for q in range(n) if q not in qubits):
            at = [sum(side[q] << i for i, q in enumerate(qubits)) for side in (a, b)]
            ret[row, column] = matrix[at[0], at[1]]
    return ret


def _operators(instruction: dict[str, Any], n: int, gate: str) -> list[Matrix]:
    """Return the Kraus operators of an instruction."""
    import numpy as np

    known, name, params = _matrices(), instruction["name"], instruction.get("params", [])
    if name == "kraus":
        own = [_complex(m) for m in params]
    elif name == "unitary":
        own = [_complex(params[0])]
    elif name == "reset":
        own = [np.array([[1, 0], [0, 0]]), np.array([[0, 1], [0, 0]])]
    elif name == "pauli":
        own = [np.eye(1)]
        for letter in params[0]:
            own[0] = np.kron(own[0], known["id" if letter == "I" else letter.lower()])
    elif name in known:
        own = [known[name]]
    else:
        raise ValueError(f"cannot read the error of {gate}: its instruction {name!r} is unknown")
    return [_embedded(m, instruction["qubits"], n) for m in own]


def _reduced(operators: list[Matrix]) -> list[Matrix]:
    """Return at most 4^n operators of the same channel, from its Choi matrix."""
    import numpy as np

    vectors = np.array([m.reshape(-1) for m in operators])
    values, columns = np.linalg.eigh(vectors.T @ vectors.conj())
    shape = operators[0].shape
    return [(v**0.5 * c).reshape(shape) for v, c in zip(values, columns.T) if v > 1e-12]


def _kraus_channel(
    branches: list[list[dict[str, Any]]], probabilities: list[float], n: int, gate: str
) -> dict[str, Any]:
    import numpy as np

    operators: list[Matrix] = []
    for branch, p in zip(branches, probabilities):
        products = [p**0.5 * np.eye(2**n)]
        for instruction in branch:
            products = [k @ m for k in _operators(instruction, n, gate) for m in products]
        operators += [m for m in products if np.any(m)]
    if len(operators) > _MAX_OPERATORS:
        operators = _reduced(operators)
    rows = [[[[v.real, v.imag] for v in row] for row in m.tolist()] for m in operators]
    return {"channel": "Kraus", "qubits": n, "operators": rows}


def _channel(error: dict[str, Any], gate: str, n: int) -> dict[str, Any]:
    """Return the channel of a quantum error on n qubits."""
    branches, probabilities = error["instructions"], error["probabilities"]
    qubits = {q for branch in branches for i in branch for q in i["qubits"]}
    if not qubits <= set(range(n)):
        raise ValueError(f"cannot read the error of {gate}: it is on more than {n} qubits")
    paulis = {"".join(letters): 0.0 for letters in product("IXYZ", repeat=n)}
    for branch, p in zip(branches, probabilities):
        total = [0] * n  # products of Paulis up to a phase: exclusive or of I, X, Z, Y as 0 to 3
        for instruction in branch:
            letters = _paulis(instruction)
            if letters is None:
                return _kraus_channel(branches, probabilities, n, gate)
            for q, letter in letters:
                total[q] ^= "IXZY".index("I" if letter == "I" else letter)
        paulis["".join("IXZY"[k] for k in total)] += p
    del paulis["I" * n]
    strengths = {f"p_{name.lower()}": p for name, p in paulis.items()}
    return {"channel": "PauliChannel", "qubits": n, **strengths}


def _readout(error: dict[str, Any]) -> dict[str, float]:
    p = error["probabilities"]
    if len(p) != 2:
        raise ValueError("cannot read a read-out error on several qubits: give one for each qubit")
    return {"p_01": p[0][1], "p_10": p[1][0]}


def _add_readout(noise: dict[str, Any], error: dict[str, Any]) -> None:
    if "gate_qubits" not in error and "readout" not in noise:
        noise["readout"] = _readout(error)
    elif "gate_qubits" in error and isinstance(noise.setdefault("readout", []), list):
        for qubits in error["gate_qubits"]:
            noise["readout"].append({**_readout(error), "qubits": list(qubits)})
    else:
        raise ValueError(
            "cannot read read-out errors of all qubits and of some: give one for each qubit"
        )


def _add_error(
    after: dict[str, list[dict[str, Any]]], names: dict[str, str], error: dict[str, Any]
) -> None:
    """Add the error to its native gates; names: the gate of Qiskit that each is from."""
    for gate in error["operations"]:
        if gate not in _GATES:
            raise ValueError(
                f"cannot read the error of {gate}: it is not a native gate of qring; give errors "
                f"of {', '.join(_GATES)}"
            )
        if "gate_qubits" in error:
            raise ValueError(
                f"cannot read the error of {gate} on qubits {error['gate_qubits']}: noise after a "
                "gate is the same on all qubits; give an error of all qubits"
            )
        native, n = _GATES[gate]
        channel = _channel(error, gate, n)
        if names.setdefault(native, gate) == gate:
            after.setdefault(native, []).append(channel)
        elif after[native] != [channel]:
            raise ValueError(
                f"cannot read the errors of {names[native]} and {gate}: both are powers of "
                f"{native} in qring, and get the same noise; give equal errors"
            )


def noise_from_qiskit(model: Any) -> dict[str, Any]:
    """Return the arguments of :meth:`qring.Circuit.noise` from a noise model of Qiskit Aer.

    ``model`` is a ``NoiseModel``, or what its ``to_dict()`` returns, with or without
    ``serializable=True``. Errors whose branches are products of Paulis become PauliChannel, others
    Kraus. The noise of ``x`` also follows ``sx``, as that of ``z`` follows ``s``, ``t`` and ``p``:
    in qring these are powers of one gate. Gates without noise of their own in qring, such as ``u``
    and ``ecr``, get the noise of the native gates that they are made of.

    >>> noise = qring.noise_from_qiskit(model)
    >>> circuit.noise(**noise)

    Raises
    ------
    ValueError
        An error is of some qubits only, of a gate that is not native or on more than two qubits,
        or powers of one gate have different errors.

    """
    found = model if isinstance(model, dict) else model.to_dict()
    after: dict[str, list[dict[str, Any]]] = {}
    names: dict[str, str] = {}
    noise: dict[str, Any] = {}
    for error in found["errors"]:
        if error["type"] == "qerror":
            _add_error(after, names, error)
        elif error["type"] == "roerror":
            _add_readout(noise, error)
        else:
            raise ValueError(f"cannot read an error of type {error['type']!r}: it is unknown")
    for gate, rotation in _SHARED.items():
        if gate in after:
            after.setdefault(rotation, [])
    return {**({"after": after} if after else {}), **noise}
