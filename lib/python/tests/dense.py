"""A dense-matrix simulator for the tests, written from the gates' definitions.

It shares no code with the library: states are vectors of 2^n complex numbers, gates full matrices
from matrix exponentials of Hermitian generators, expressions are evaluated by Python.
"""

from __future__ import annotations

import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np

I2 = np.eye(2)
X = np.array([[0, 1], [1, 0]], complex)
Y = np.array([[0, -1j], [1j, 0]])
Z = np.diag([1, -1]).astype(complex)
H = (X + Z) / math.sqrt(2)
PAULI = {"I": I2, "X": X, "Y": Y, "Z": Z}
SWAP = np.eye(4)[[0, 2, 1, 3]].astype(complex)


def kron(*matrices: np.ndarray) -> np.ndarray:
    ret = np.eye(1)
    for m in matrices:
        ret = np.kron(ret, m)
    return ret


def exp_i(hermitian: np.ndarray, factor: float) -> np.ndarray:
    """e^(i factor hermitian)."""
    values, vectors = np.linalg.eigh(hermitian)
    return (vectors * np.exp(1j * factor * values)) @ vectors.conj().T


def power(involution: np.ndarray, t: float, shift: float = 0) -> np.ndarray:
    """Eigenvalue 1 stays, -1 becomes e^(i pi t); times e^(i pi shift t)."""
    projector = (np.eye(len(involution)) - involution) / 2
    return exp_i(projector + shift * np.eye(len(involution)), math.pi * t)


def controlled(u: np.ndarray, values: tuple[int, ...]) -> np.ndarray:
    """Controls first."""
    d = len(u)
    ret = np.eye(d << len(values), dtype=complex)
    at = int("".join(map(str, values)) or "0", 2) * d
    ret[at : at + d, at : at + d] = u
    return ret


def rotation(pauli: str, angle: float) -> np.ndarray:
    return exp_i(kron(*(PAULI[p] for p in pauli)), -angle / 2)


def phase(angle: float) -> np.ndarray:
    return np.diag([1, np.exp(1j * angle)])


def u3(theta: float, phi: float, lam: float) -> np.ndarray:
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    return np.array(
        [
            [c, -np.exp(1j * lam) * s],
            [np.exp(1j * phi) * s, np.exp(1j * (phi + lam)) * c],
        ]
    )


def rot(phi: float, theta: float, omega: float) -> np.ndarray:
    return rotation("Z", omega) @ rotation("Y", theta) @ rotation("Z", phi)


def iswap(t: float) -> np.ndarray:
    return exp_i(kron(X, X) + kron(Y, Y), math.pi * t / 4)


def plane(dim: int, i: int, j: int, angle: float) -> np.ndarray:
    """|i> -> cos |i> + sin |j>, |j> -> cos |j> - sin |i>."""
    ret = np.eye(dim, dtype=complex)
    ret[i, i] = ret[j, j] = math.cos(angle)
    ret[j, i], ret[i, j] = math.sin(angle), -math.sin(angle)
    return ret


def fsim(theta: float, phi: float) -> np.ndarray:
    c, s = math.cos(theta), -1j * math.sin(theta)
    ret = np.eye(4, dtype=complex)
    ret[1:3, 1:3] = [[c, s], [s, c]]
    ret[3, 3] = np.exp(-1j * phi)
    return ret


ECR = np.array([[0, 0, 1, 1j], [0, 0, 1j, 1], [1, -1j, 0, 0], [-1j, 1, 0, 0]]) / math.sqrt(2)
POWERS = {"X": X, "Y": Y, "Z": Z, "H": H, "XX": kron(X, X), "YY": kron(Y, Y), "ZZ": kron(Z, Z)}
POWERS["SWAP"] = SWAP
CONTROLLED = {"CNOT": X, "CX": X, "CZ": Z}


def matrix(item: dict[str, Any], value: Any) -> np.ndarray:
    """Return a gate's matrix on its qubits; value evaluates an angle."""
    name = item["gate"].upper()
    n = len(item["qubits"])

    def a(*keys: str) -> list[float]:
        return [value(item[k]) for k in keys]

    if name in POWERS or name in CONTROLLED:
        t, shift = value(item.get("exponent", 1)), item.get("global_shift", 0)
        if "angle" in item:
            t, shift = value(item["angle"]) / math.pi, -0.5
        if name in POWERS:
            return power(POWERS[name], t, shift)
        return controlled(power(CONTROLLED[name], t), (1,)) * np.exp(1j * math.pi * shift * t)
    if name == "ISWAP":
        return iswap(value(item.get("exponent", 1)))
    if name == "PHASEDX":
        p, t = a("phase_exponent", "exponent")
        return power(Z, p) @ power(X, t) @ power(Z, -p)
    if name == "PHASEDISWAP":
        p, t = a("phase_exponent", "exponent")
        frame = kron(power(Z, -p), power(Z, p))
        return frame @ iswap(t) @ frame.conj().T
    if name in ("RX", "RY", "RZ", "RXX", "RYY", "RZZ", "RZX"):
        return rotation(name[1:], *a("angle"))
    if name in ("CRX", "CRY", "CRZ"):
        return controlled(rotation(name[2:], *a("angle")), (1,))
    if name in ("CP", "P"):
        return phase(*a("angle")) if name == "P" else controlled(phase(*a("angle")), (1,))
    if name == "U2":
        return u3(math.pi / 2, *a("phi", "lambda"))
    if name in ("U", "U3"):
        return u3(*a("theta", "phi", "lambda"))
    if name == "CU3":
        return controlled(u3(*a("theta", "phi", "lambda")), (1,))
    if name == "CU":
        g = value(item["gamma"])
        return controlled(np.exp(1j * g) * u3(*a("theta", "phi", "lambda")), (1,))
    if name == "R":
        theta, phi = a("theta", "phi")
        return exp_i(math.cos(phi) * X + math.sin(phi) * Y, -theta / 2)
    if name in ("ROT", "CROT"):
        u = rot(*a("phi", "theta", "omega"))
        return u if name == "ROT" else controlled(u, (1,))
    if name == "FSIM":
        return fsim(*a("theta", "phi"))
    if name == "ISINGXY":
        return iswap(a("angle")[0] / math.pi)
    if name == "PSWAP":
        return SWAP @ np.diag([1, *[np.exp(1j * a("angle")[0])] * 2, 1])
    if name == "SINGLEEXCITATION":
        return plane(4, 1, 2, a("angle")[0] / 2)
    if name == "GIVENS":
        return plane(4, 1, 2, a("angle")[0])
    if name == "DOUBLEEXCITATION":
        return plane(16, 3, 12, a("angle")[0] / 2)
    if name == "MULTIRZ":
        return rotation("Z" * n, *a("angle"))
    if name == "PAULIROT":
        return rotation(item["pauli_word"], *a("angle"))
    if name == "MS":
        pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
        words = ["".join("X" if k in pair else "I" for k in range(n)) for pair in pairs]
        return exp_i(sum(kron(*(PAULI[c] for c in w)) for w in words), -a("angle")[0] / 2)
    if name == "MCP":
        return controlled(phase(*a("angle")), (1,) * (n - 1))
    if name == "MCX":
        return controlled(X, (1,) * (n - 1))
    if name == "UNITARY":
        return np.array([[complex(*e) for e in row] for row in item["matrix"]])
    if name == "BASIS":
        state = item["state"]
        if isinstance(state, str):
            return kron(*(X if d == "1" else I2 for d in state))
        first = state["data"]
        return kron(*(power(X, value({"data": first + k})) for k in range(n)))
    root_x = power(X, 0.5)
    return {
        "I": I2,
        "S": phase(math.pi / 2),
        "SDG": phase(-math.pi / 2),
        "T": phase(math.pi / 4),
        "TDG": phase(-math.pi / 4),
        "SX": root_x,
        "SXDG": root_x.conj().T,
        "CY": controlled(Y, (1,)),
        "CH": controlled(H, (1,)),
        "CS": controlled(phase(math.pi / 2), (1,)),
        "CSDG": controlled(phase(-math.pi / 2), (1,)),
        "CSX": controlled(root_x, (1,)),
        "SISWAP": iswap(0.5),
        "DCX": kron_cnot(1, 0) @ kron_cnot(0, 1),
        "ECR": ECR,
        "CCX": controlled(X, (1, 1)),
        "CCZ": controlled(Z, (1, 1)),
        "CSWAP": controlled(SWAP, (1,)),
    }[name]


def kron_cnot(control: int, target: int) -> np.ndarray:
    cnot = controlled(X, (1,))
    return cnot if control < target else SWAP @ cnot @ SWAP


def apply(state: np.ndarray, u: np.ndarray, qubits: list[int], n: int) -> np.ndarray:
    k = len(qubits)
    tensor = state.reshape((2,) * n)
    tensor = np.tensordot(u.reshape((2,) * (2 * k)), tensor, (range(k, 2 * k), qubits))
    return np.moveaxis(tensor, range(k), qubits).reshape(-1)


class Inputs:
    """x of an expression: x[0], x.name, x['name']."""

    def __init__(self, values: dict[Any, float]) -> None:
        self._values = values

    def __getitem__(self, key: Any) -> float:
        return self._values[key]

    def __getattr__(self, key: str) -> float:
        return self._values[key]


FUNCTIONS = {name: getattr(math, name) for name in "sin cos tan asin acos atan sqrt exp".split()}
FUNCTIONS.update(log=math.log, pow=pow, atan2=math.atan2, hypot=math.hypot, abs=abs, pi=math.pi)


def simulate(
    circuit: dict[str, Any], weights: dict[str, float], inputs: dict[Any, float] | None = None
) -> np.ndarray:
    """Return the final state of a circuit object."""
    n = circuit["qubits"]
    state = np.zeros(1 << n, complex)
    state[0] = 1
    for item, scope, inverse in flat(circuit["gates"], {"n": n}, False):
        state = step(state, item, n, weights, inputs or {}, scope, inverse)
    return state


def flat(items: list[dict[str, Any]], scope: dict[str, int], inverse: bool) -> Any:
    """Each gate, with the values of indices and whether its inverse is meant."""
    for item in reversed(items) if inverse else items:
        if "adjoint" in item:
            yield from flat(item["gates"], scope, not inverse)
        elif "control" in item:
            for gate, *rest in flat(item["gates"], scope, inverse):
                both = {
                    "controls": [*gate.get("controls", []), *item["control"]],
                    "control_values": [*values(gate, "controls"), *values(item, "control")],
                }
                yield {**gate, **both}, *rest
        elif "repeat" in item or "power" in item:
            n = item.get("repeat", abs(item.get("power", 0)))
            back = inverse != (item.get("power", 0) < 0)
            for i in reversed(range(n)) if inverse else range(n):
                inside = {**scope, item["index"]: i} if "index" in item else scope
                yield from flat(item["gates"], inside, back)
        else:
            yield item, scope, inverse


def values(item: dict[str, Any], key: str) -> list[int]:
    return list(item.get("control_values", [1] * len(item.get(key, []))))


def step(
    state: np.ndarray,
    item: dict[str, Any],
    n: int,
    weights: dict[str, float],
    inputs: dict[Any, float],
    scope: dict[str, int],
    inverse: bool,
) -> np.ndarray:
    def fill(text: str) -> str:
        return re.sub(r"\{([^{}]*)\}", lambda m: str(eval(m[1], {}, scope)), text)

    def value(angle: Any) -> float:
        if isinstance(angle, dict):
            scale = angle.get("scale", 1)
            known = weights if "parameter" in angle else inputs
            key = angle.get("parameter", angle.get("data"))
            return scale * known[fill(key) if isinstance(key, str) else key]
        if isinstance(angle, str):
            names = {**FUNCTIONS, **weights, "x": Inputs(inputs)}
            return eval(fill(angle), {}, SimpleNamespace(**names).__dict__)
        return angle

    def qubits(key: str) -> list[int]:
        return [eval(q, {}, scope) if isinstance(q, str) else q for q in item.get(key, [])]

    u = controlled(matrix(item, value), tuple(values(item, "controls")))
    return apply(state, u.conj().T if inverse else u, qubits("controls") + qubits("qubits"), n)


def observable(text: str, n: int) -> np.ndarray:
    """Return the matrix of an observable such as "0.5*X0 Z1 - Y2"."""
    total = np.zeros((1 << n, 1 << n), complex)
    for sign, term in re.findall(r"([+-]?)\s*([^+-]+)", text):
        coefficient, paulis = re.fullmatch(r"\s*(?:([0-9.]+)\s*\*?)?\s*(.*?)\s*", term).groups()
        letters = ["I"] * n
        for word in paulis.split():
            letters[int(word[1:])] = word[0]
        factor = float(coefficient or 1) * (-1 if sign == "-" else 1)
        total += factor * kron(*(PAULI[c] for c in letters))
    return total


def expectation(
    circuit: dict[str, Any],
    observables: list[str],
    weights: dict[str, float],
    inputs: dict[Any, float] | None = None,
) -> np.ndarray:
    state = simulate(circuit, weights, inputs)
    n = circuit["qubits"]
    return np.array([(state.conj() @ observable(o, n) @ state).real for o in observables])
