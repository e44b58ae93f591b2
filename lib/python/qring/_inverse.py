"""The inverse of every gate, on the objects of a job file. Start reading at :func:`inverse`."""

from __future__ import annotations

from typing import Any, Callable, Dict

Item = Dict[str, Any]
"""A gate, a repeat or an ansatz of a job file."""

_SELF_INVERSE = frozenset(
    "I IDENTITY ID PAULIX PAULIY PAULIZ HADAMARD CY CH CCX TOFFOLI CCNOT CCZ CSWAP FREDKIN "
    "MULTICONTROLLEDX MCX ECR".split()
)
# Powers of involutions: with exponent 1 and without a shift their own inverse.
_INVOLUTIONS = frozenset(
    "X XP Y YP Z ZP H HP XX XXP YY YYP ZZ ZZP CZ CZP CNOT CX CNP SWAP SP".split()
)
_POWERS = frozenset("ISWAP ISP PHASEDX PXP PHASEDXPOW PHASEDISWAP PISP PHASEDISWAPPOW".split())
_BY_ANGLE = frozenset(
    "RX RY RZ P PHASESHIFT U1 CP CPHASE CONTROLLEDPHASESHIFT CU1 CRX CRY CRZ RXX ISINGXX RYY "
    "ISINGYY RZZ ISINGZZ RZX ISINGXY PSWAP SINGLEEXCITATION GIVENS DOUBLEEXCITATION MCPHASE MCP "
    "MULTIRZ PAULIROT MS".split()
)
_RENAMED: dict[str, Item] = {
    "S": {"gate": "Sdg"},
    "SDG": {"gate": "S"},
    "T": {"gate": "Tdg"},
    "TDG": {"gate": "T"},
    "SX": {"gate": "SXdg"},
    "SXDG": {"gate": "SX"},
    "CS": {"gate": "CSdg"},
    "CSDG": {"gate": "CS"},
    "CSX": {"gate": "CNOT", "exponent": -0.5},
    "SISWAP": {"gate": "ISWAP", "exponent": -0.5},
    "SQISW": {"gate": "ISWAP", "exponent": -0.5},
}


def negated(angle: Any) -> Any:
    """Return minus an angle of a job file."""
    if isinstance(angle, str):
        return f"-({angle})"
    if isinstance(angle, dict):
        return {**angle, "scale": -angle.get("scale", 1.0)}
    return -angle


def _negate(item: Item, *keys: str) -> Item:
    return {**item, **{key: negated(item[key]) for key in keys if key in item}}


def _exchange(item: Item, first: str, last: str) -> list[Item]:
    """Negate all angles of three rotations and exchange the first and the last."""
    ret = _negate(item, "phi", "theta", "omega", "lambda", "delta", "gamma")
    ret[first], ret[last] = ret[last], ret[first]
    return [ret]


def _invert_power(item: Item) -> list[Item]:
    if "angle" in item:
        return [_negate(item, "angle")]
    return [{**item, "exponent": negated(item.get("exponent", 1.0))}]


def _invert_involution(item: Item) -> list[Item]:
    shifted = item.get("global_shift", 0) != 0
    return _invert_power(item) if shifted or "exponent" in item or "angle" in item else [item]


def _invert_u(item: Item) -> list[Item]:
    return _exchange(item, "phi", "delta" if "delta" in item else "lambda")


def _invert_u2(item: Item) -> list[Item]:
    return _invert_u({**item, "gate": "U", "theta": 1.5707963267948966})


def _invert_unitary(item: Item) -> list[Item]:
    def conjugate(entry: Any) -> list[float]:
        return [entry[0], -entry[1]] if isinstance(entry, list) else [entry, 0.0]

    columns = zip(*item["matrix"])
    return [{**item, "matrix": [[conjugate(entry) for entry in column] for column in columns]}]


def _invert_basis(item: Item) -> list[Item]:
    if isinstance(item["state"], str):
        return [item]
    # X^x is its own inverse for 0 and 1 only, and X^x X^x has another derivative than X^x X^-x.
    first = item["state"]["data"]
    rest: Item = {key: item[key] for key in ("controls", "control_values") if key in item}
    return [
        {"gate": "X", "qubits": [q], "exponent": {"data": first + k, "scale": -1.0}, **rest}
        for k, q in enumerate(item["qubits"])
    ]


_SPECIAL: dict[str, Callable[[Item], list[Item]]] = {
    "U2": _invert_u2,
    "U": _invert_u,
    "U3": _invert_u,
    "CU3": _invert_u,
    "CU": _invert_u,
    "ROT": lambda item: _exchange(item, "phi", "omega"),
    "CROT": lambda item: _exchange(item, "phi", "omega"),
    "R": lambda item: [_negate(item, "theta")],
    "FSIM": lambda item: [_negate(item, "theta", "phi")],
    "DCX": lambda item: [{**item, "qubits": item["qubits"][::-1]}],
    "UNITARY": _invert_unitary,
    "QUBITUNITARY": _invert_unitary,
    "UNITARYGATE": _invert_unitary,
    "BASIS": _invert_basis,
    "BASISEMBEDDING": _invert_basis,
    "BASISSTATE": _invert_basis,
}


def inverse(item: Item) -> list[Item]:
    """Return the gates that undo a gate."""
    name = str(item.get("gate")).upper()
    if name in _SELF_INVERSE:
        return [item]
    if name in _INVOLUTIONS:
        return _invert_involution(item)
    if name in _POWERS:
        return _invert_power(item)
    if name in _BY_ANGLE:
        return [_negate(item, "angle")]
    if name in _RENAMED:
        return [{**item, **_RENAMED[name]}]
    if name not in _SPECIAL:
        raise ValueError(
            f"cannot invert the gate {item.get('gate')!r}: it is unknown; see qring help job gate"
        )
    try:
        return _SPECIAL[name](item)
    except (KeyError, TypeError, IndexError) as error:
        raise ValueError(
            f"cannot invert the gate {item.get('gate')!r}: its arguments are incomplete "
            f"({error}); see qring help job gate"
        ) from None
