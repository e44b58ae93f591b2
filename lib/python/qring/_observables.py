"""Observables of other packages as qring's texts. Start at :func:`observable_text`."""

from __future__ import annotations

from operator import index
from typing import Any, Callable, Iterable, Iterator

Term = tuple[Iterable[tuple[Any, str]], complex]
"""Pairs of a qubit and its Pauli, and their coefficient."""


def _qiskit_terms(operator: Any) -> Iterator[Term]:
    from qiskit.exceptions import QiskitError
    from qiskit.quantum_info import Operator, SparsePauliOp

    try:
        if isinstance(operator, Operator):
            found = SparsePauliOp.from_operator(operator)
        elif type(operator).__name__ == "SparseObservable":  # of Qiskit 2
            found = SparsePauliOp.from_sparse_observable(operator)
        else:
            found = SparsePauliOp(operator)
    except QiskitError as error:
        raise TypeError(
            f"cannot measure {operator!r}: it is not a sum of Paulis ({error}); "
            "give a SparsePauliOp"
        ) from None
    for letters, qubits, coefficient in found.to_sparse_list():
        yield list(zip(qubits, letters)), coefficient


def _openfermion_terms(operator: Any) -> Iterator[Term]:
    yield from operator.terms.items()


def _pennylane_terms(operator: Any) -> Iterator[Term]:
    sentence = getattr(operator, "pauli_rep", None)
    if sentence is None:
        raise TypeError(
            f"cannot measure {operator!r}: it is not a sum of Paulis; give its pauli_rep"
        )
    for word, coefficient in sentence.items():
        yield word.items(), coefficient


def _cirq_terms(operator: Any) -> Iterator[Term]:
    import cirq

    try:
        terms = cirq.PauliSum.wrap(operator)
    except TypeError:
        raise TypeError(
            f"cannot measure {operator!r}: it is not a sum of Paulis on qubits; "
            "give a cirq.PauliSum"
        ) from None
    for term in terms:
        yield [(q, str(pauli)) for q, pauli in term.items()], term.coefficient


_PACKAGES: dict[str, Callable[[Any], Iterator[Term]]] = {
    "qiskit": _qiskit_terms,
    "openfermion": _openfermion_terms,
    "pennylane": _pennylane_terms,
    "cirq": _cirq_terms,
}


def is_operator(value: object) -> bool:
    """Return whether the value is an operator of a known package."""
    return type(value).__module__.partition(".")[0] in _PACKAGES


def _number(qubit: Any, numbers: dict[Any, int] | None) -> int:
    if numbers and qubit in numbers:
        return numbers[qubit]
    found = getattr(qubit, "x", qubit)  # of a cirq.LineQubit
    try:
        if isinstance(found, bool) or (numbers and found is not qubit):
            raise TypeError
        return index(found)
    except TypeError:
        raise ValueError(
            f"cannot measure qubit {qubit!r}: it is not of the circuit; number qubits from 0, or "
            "read the circuit by Circuit.from_cirq"
        ) from None


def observable_text(operator: Any, numbers: dict[Any, int] | None = None) -> str:
    """Return an operator as a text of qring.

    Parameters
    ----------
    operator : operator of qiskit.quantum_info, PennyLane or OpenFermion; or cirq.PauliSum
        A Hermitian sum of products of Paulis.
    numbers : dict, optional
        Numbers of Cirq's qubits in the circuit; without it, those of line qubits are their own.
        Qubits of other packages are numbers already.
    """
    package = type(operator).__module__.partition(".")[0]
    parts = []
    for pairs, coefficient in _PACKAGES[package](operator):
        number = complex(coefficient)
        if abs(number.imag) > 1e-10:
            raise ValueError(
                f"cannot measure {operator!r}: its coefficient {coefficient} is not real; an "
                "observable is Hermitian"
            )
        word = sorted((_number(q, numbers), letter) for q, letter in pairs if letter != "I")
        paulis = " ".join(f"{letter}{q}" for q, letter in word)
        parts.append(f"{number.real!r}*{paulis}" if paulis else repr(number.real))
    return " + ".join(parts) or "0"
