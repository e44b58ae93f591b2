"""Probabilities and fidelities as observables. Start at :func:`probs` and :func:`fidelity`."""

from __future__ import annotations

from typing import Any, Iterable

from .circuit import Circuit, _integer, _listed
from .function import Function, expval

__all__ = ["fidelity", "probs", "projector"]

_MOST_QUBITS = 12
_MOST_PROBS = 8


def projector(bits: str, qubits: int | Iterable[int] | None = None) -> str:
    """Return the projector onto a basis state, whose expectation value is its probability.

    Parameters
    ----------
    bits : str
        0 or 1 for each qubit, at most 12.
    qubits : int or sequence of int, optional
        Default: 0, 1 ... as many as there are bits.

    Examples
    --------
    >>> projector("1", 3)
    '0.5 - 0.5*Z3'
    """
    at = range(len(bits)) if qubits is None else _listed(qubits)
    at = [_integer(q, "a qubit", 0, 1023) for q in at]
    if not bits or set(bits) - {"0", "1"} or len(at) != len(bits) or len(set(at)) != len(at):
        raise ValueError(
            f"cannot project onto {bits!r} of qubits {at}: give 0 or 1 for each of different qubits"
        )
    if len(at) > _MOST_QUBITS:
        raise ValueError(f"cannot project {len(at)} qubits: at most {_MOST_QUBITS}")
    terms = []
    for mask in range(1 << len(at)):
        chosen = [i for i in range(len(at)) if mask >> i & 1]
        sign = "-" if sum(bits[i] == "1" for i in chosen) % 2 else "+"
        word = " ".join(f"Z{at[i]}" for i in chosen)
        terms.append(f"{sign} {0.5 ** len(at)!r}" + (f"*{word}" if word else ""))
    return " ".join(terms).removeprefix("+ ")


def probs(qubits: int | Iterable[int]) -> list[str]:
    """Return a projector for each bit string of qubits, in the order 00.., 0..1, ..

    Parameters
    ----------
    qubits : int or sequence of int
        At most 8.

    Examples
    --------
    >>> import qring
    >>> qring.expval(qring.Circuit(2).h(0).cnot(0, 1), qring.probs([0, 1])).forward([])
    array([0.5, 0. , 0. , 0.5])
    """
    at = _listed(qubits)
    if not 0 < len(at) <= _MOST_PROBS:
        raise ValueError(
            f"cannot list the probabilities of {len(at)} qubits: give 1 to {_MOST_PROBS}, or "
            "projectors onto the strings of interest"
        )
    return [projector(f"{i:0{len(at)}b}", at) for i in range(1 << len(at))]


def fidelity(circuit: Circuit, other: Circuit, **options: Any) -> Function:
    """Compile the fidelity of the states of two circuits, with derivatives by both.

    Parameters
    ----------
    circuit, other : Circuit
        Of as many qubits, at most 12, without channels in `other`, and without
        :meth:`Circuit.noise`. Parameters of one name are one.
    **options
        As for :func:`qring.expval`.

    Returns
    -------
    Function
        Of one value: ``|<other|circuit>|**2``; with channels ``<other|rho|other>``.

    Examples
    --------
    >>> import qring
    >>> a, b = qring.Circuit(1).ry("a", 0), qring.Circuit(1).h(0)
    >>> f = qring.fidelity(a, b)
    >>> f.forward([0.0])
    array([0.5])
    """
    n = circuit.n_qubits
    if other.n_qubits != n:
        raise ValueError(
            f"cannot compare states of {n} and {other.n_qubits} qubits: give as many in both"
        )
    return expval(circuit + other.adjoint(), projector("0" * n), **options)
