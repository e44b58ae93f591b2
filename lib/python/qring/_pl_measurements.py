"""PennyLane's measurements as linear and quadratic functions of expectation values.

Use
    :func:`outputs_of` turns a measurement into :class:`Outputs`: Pauli words, and the coefficients
    with which their expectation values give the result. A plan merges the words of all
    measurements of a tape and computes each word once.

Coefficients are not part of a compiled circuit, so a Hamiltonian whose coefficients change, or are
differentiated, needs no new plan.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pennylane as qml
from numpy.typing import NDArray
from pennylane.pauli import PauliSentence, PauliWord

Floats = NDArray[np.float64]

MATRIX_WIRES = 6
"""Most wires of an observable that is given as a matrix and decomposed into Pauli words."""

_NEGLIGIBLE = 1e-14
_IMAGINARY = 1e-8
_ROUNDING = 1e-12  # relative, of sums of a few products


class UnsupportedObservable(ValueError):
    """The observable has no sum of Pauli words within the limits."""


@dataclass(frozen=True, eq=False)
class Outputs:
    """What one measurement computes from the expectation values r of Pauli words.

    Attributes
    ----------
    words : tuple of PauliWord
        The words, without the identity.
    linear : ndarray, shape (O, W)
        With `constant`, the linear part: ``linear @ r + constant``.
    constant : ndarray, shape (O,)
    square, square_constant : ndarray or None
        For a variance: the result is ``square @ r + square_constant - (linear @ r + constant)**2``.
    shape : tuple of int
        () or (O,): the shape of the result of one sample.
    """

    words: tuple[PauliWord, ...]
    linear: Floats
    constant: Floats
    square: Floats | None
    square_constant: Floats | None
    shape: tuple[int, ...]

    def key(self) -> Any:
        """Return what is equal for equal outputs only.

        Probabilities have large matrices, but are made once for each set of wires.
        """
        if self.shape != ():
            return self
        square = None if self.square is None else self.square.tobytes()
        return self.words, self.linear.tobytes(), self.constant.tobytes(), square


_matrix_cache: OrderedDict[tuple[Any, ...], PauliSentence] = OrderedDict()


def _matrix_sentence(matrix: Any, wires: Any) -> PauliSentence:
    if len(wires) > MATRIX_WIRES:
        raise UnsupportedObservable(
            f"the matrix acts on {len(wires)} wires; at most {MATRIX_WIRES} can be decomposed"
        )
    m = np.ascontiguousarray(qml.math.toarray(matrix), dtype=np.complex128)
    key = (m.tobytes(), tuple(wires))
    if (found := _matrix_cache.get(key)) is None:
        found = qml.pauli_decompose(m, wire_order=wires, pauli=True, check_hermitian=False)
        _matrix_cache[key] = found
        if len(_matrix_cache) > 64:
            _matrix_cache.popitem(last=False)
    return found


def _projector_sentence(obs: Any) -> PauliSentence:
    data = np.asarray(qml.math.toarray(obs.data[0]))
    if len(data) == len(obs.wires) and set(data.ravel().tolist()) <= {0, 1}:
        sentence = PauliSentence({PauliWord({}): 1.0})
        for wire, bit in zip(obs.wires, data.tolist(), strict=True):
            factor = {PauliWord({}): 0.5, PauliWord({wire: "Z"}): 0.5 - bit}
            sentence = sentence @ PauliSentence(factor)
        return sentence
    return _matrix_sentence(obs.matrix(), obs.wires)


def sentence_of(obs: Any) -> PauliSentence:
    if obs.pauli_rep is not None:
        return obs.pauli_rep
    if isinstance(obs, qml.Projector):
        if len(obs.wires) > 2 * MATRIX_WIRES:
            raise UnsupportedObservable(f"a projector on {len(obs.wires)} wires has too many terms")
        return _projector_sentence(obs)
    if isinstance(obs, qml.ops.Prod):
        sentence = PauliSentence({PauliWord({}): 1.0})
        for factor in obs.operands:
            sentence = sentence @ sentence_of(factor)
        return sentence
    if isinstance(obs, qml.ops.SProd):
        return float(qml.math.toarray(obs.scalar)) * sentence_of(obs.base)
    if isinstance(obs, (qml.ops.LinearCombination, qml.ops.Sum)):
        sentence = PauliSentence({})
        for coefficient, term in zip(*obs.terms(), strict=True):
            sentence = sentence + float(qml.math.toarray(coefficient)) * sentence_of(term)
        return sentence
    if isinstance(obs, qml.SparseHamiltonian) or not obs.has_matrix:
        raise UnsupportedObservable(f"{obs.name} is not a sum of Pauli words")
    return _matrix_sentence(obs.matrix(), obs.wires)


def _split(sentence: PauliSentence, obs: Any) -> tuple[tuple[PauliWord, ...], Floats, float]:
    """Words, their coefficients, and the coefficient of the identity."""
    words, coefficients, constant = [], [], 0.0
    for word, value in sentence.items():
        c = complex(qml.math.toarray(value))
        if abs(c.imag) > _IMAGINARY * max(1.0, abs(c.real)):
            raise UnsupportedObservable(f"{obs} is not Hermitian: {word} has the factor {c}")
        if len(word) == 0:
            constant += c.real
        else:
            words.append(word)
            coefficients.append(c.real)
    return tuple(words), np.array(coefficients, dtype=np.float64), constant


def _linear(sentence: PauliSentence, obs: Any) -> Outputs:
    words, linear, constant = _split(sentence, obs)
    return Outputs(words, linear[None, :], np.array([constant]), None, None, ())


def _variance(sentence: PauliSentence, obs: Any) -> Outputs:
    squared = sentence @ sentence
    first, linear, constant = _split(sentence, obs)
    second, square, square_constant = _split(squared, obs)
    position = {word: i for i, word in enumerate(dict.fromkeys(first + second))}
    both = np.zeros((2, len(position)))
    for row, words, values in ((0, first, linear), (1, second, square)):
        for word, value in zip(words, values, strict=True):
            both[row, position[word]] += 0.0 if abs(value) < _NEGLIGIBLE else value
    return Outputs(
        tuple(position),
        both[:1],
        np.array([constant]),
        both[1:],
        np.array([square_constant]),
        (),
    )


# Measurements whose result is one number for a sample
VALUES = (qml.measurements.ExpectationMP, qml.measurements.VarianceMP)
_LETTER_GATES = {"PauliX": "X", "PauliY": "Y", "PauliZ": "Z", "Identity": "Z"}


def _probability_letters(mp: Any) -> dict[Any, str] | None:
    """Letter of the Pauli in whose basis each wire is measured; None: another basis."""
    if mp.mv is not None or getattr(mp, "_eigvals", None) is not None:
        return None
    if mp.obs is None:
        return dict.fromkeys(mp.wires, "Z")
    factors = mp.obs.operands if isinstance(mp.obs, qml.ops.Prod) else (mp.obs,)
    letters = {}
    for factor in factors:
        if factor.name not in _LETTER_GATES or len(factor.wires) != 1:
            return None
        letters[factor.wires[0]] = _LETTER_GATES[factor.name]
    return letters if len(letters) == len(mp.wires) else None


def hadamard_matrix(n: int) -> Floats:
    """Return the Walsh-Hadamard matrix of size 2^n, rows and columns in binary order."""
    h = np.ones((1, 1))
    for _ in range(n):
        h = np.kron(np.array([[1.0, 1.0], [1.0, -1.0]]), h)
    return h


@lru_cache(maxsize=32)
def _probabilities(wires: tuple[Any, ...], letters: str) -> Outputs:
    """p[b] = 2^-n sum over subsets s of (-1)^(b.s) <Z_s>."""
    h = hadamard_matrix(len(wires)) / 2 ** len(wires)
    words = tuple(
        PauliWord({w: p for w, p, used in zip(wires, letters, bits, strict=True) if used})
        for bits in product((0, 1), repeat=len(wires))
    )
    return Outputs(words[1:], np.ascontiguousarray(h[:, 1:]), h[:, 0], None, None, (len(h),))


def measured_sentence(mp: Any) -> PauliSentence:
    """Return the observable of an expectation value or a variance.

    For deferred measurements: the sum of their outcomes, times the projectors.
    """
    if mp.mv is None:
        return sentence_of(mp.obs)
    if len(mp.wires) > MATRIX_WIRES:
        raise UnsupportedObservable(f"{mp} has more than {MATRIX_WIRES} measurements")
    # PennyLane orders the wires by random names of the measurements.
    labels = mp.wires.labels
    order = sorted(range(len(labels)), key=lambda i: str(labels[i]))
    p = _probabilities(tuple(labels[i] for i in order), "Z" * len(labels))
    outcomes = np.asarray(qml.math.toarray(mp.eigvals()), dtype=np.float64)
    outcomes = outcomes.reshape((2,) * len(labels)).transpose(order).ravel()
    coefficients = dict(zip(p.words, outcomes @ p.linear, strict=True))
    return PauliSentence({PauliWord({}): outcomes @ p.constant, **coefficients})


def has_outputs(mp: Any, probability_wires: int) -> bool:
    """Whether :func:`outputs_of` accepts a measurement.

    Parameters
    ----------
    mp : pennylane.measurements.MeasurementProcess
    probability_wires : int
        Most wires of probabilities; 0 refuses all.
    """
    if mp.mv is not None:
        return isinstance(mp, VALUES) and 0 < len(mp.wires) <= MATRIX_WIRES
    if isinstance(mp, qml.measurements.ProbabilityMP):
        return 0 < len(mp.wires) <= probability_wires and _probability_letters(mp) is not None
    if not isinstance(mp, VALUES) or mp.obs is None:
        return False
    if mp.obs.pauli_rep is not None:
        return True
    try:
        sentence_of(mp.obs)
    except (UnsupportedObservable, qml.exceptions.MatrixUndefinedError):
        return False
    return True


def outputs_of(mp: Any) -> Outputs:
    """Turn a measurement that :func:`has_outputs` accepts into words and coefficients."""
    if isinstance(mp, qml.measurements.ProbabilityMP):
        letters = _probability_letters(mp)
        assert letters is not None
        return _probabilities(mp.wires.labels, "".join(letters[w] for w in mp.wires))
    sentence = measured_sentence(mp)
    make = _variance if isinstance(mp, qml.measurements.VarianceMP) else _linear
    return make(sentence, mp.obs)


def coefficient_derivatives(mp: Any, number: int) -> tuple[Outputs, Outputs, float] | None:
    """Return what gives the derivative of a result by one coefficient of its observable.

    The result is a polynomial of second degree in the coefficient, where a central difference of
    any width is exact: a sum of Pauli words is linear in each coefficient, its variance quadratic.

    Parameters
    ----------
    mp : pennylane.measurements.MeasurementProcess
    number : int
        Index of the coefficient among the observable's parameters.

    Returns
    -------
    (Outputs, Outputs, float) or None
        The measurement with a larger and a smaller coefficient, and the difference of these. None:
        the parameter is a matrix or a state.

    Raises
    ------
    UnsupportedObservable
        The observable has a higher power of the coefficient.
    """
    data = list(mp.obs.data)
    if np.ndim(data[number]) != 0 or mp.obs.name in ("Hermitian", "Projector"):
        return None
    value = float(qml.math.toarray(data[number]))
    step = max(1.0, abs(value))

    def sentence(steps: float) -> PauliSentence:
        data[number] = value + steps * step
        return sentence_of(qml.ops.functions.bind_new_parameters(mp.obs, data))

    # Zero for polynomials of second degree, and of first degree for a variance.
    rest = sentence(2) + -2.0 * sentence(1) + 2.0 * sentence(-1) + -1.0 * sentence(-2)
    if isinstance(mp, qml.measurements.VarianceMP):
        rest = sentence(1) + -2.0 * sentence(0) + sentence(-1)
    size = max(abs(complex(qml.math.toarray(v))) for v in [0.0, *sentence(2).values()])
    if any(abs(complex(qml.math.toarray(v))) > _ROUNDING * size for v in rest.values()):
        raise UnsupportedObservable(
            f"cannot differentiate {mp} by coefficient {number} of its observable, which has a "
            "power of it; write the observable as a sum of terms with one coefficient each"
        )
    make = _variance if isinstance(mp, qml.measurements.VarianceMP) else _linear
    return make(sentence(1), mp.obs), make(sentence(-1), mp.obs), 2 * step


def observable_text(word: PauliWord, index: dict[Any, int]) -> str:
    """Write a Pauli word as qring's observable: "X0 Z3"."""
    return " ".join(f"{letter}{q}" for q, letter in sorted((index[w], p) for w, p in word.items()))
