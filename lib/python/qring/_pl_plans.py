"""Compiled plans of PennyLane's tapes. Start reading at :func:`read_tape`.

A tape is split into its structure (:attr:`Tape.key`: gates, wires, Pauli words) and its numbers.
Tapes of the same structure share a :class:`Plan`, which compiles one function for each way of
passing the numbers, and are computed together, one sample for each tape or broadcast element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pennylane as qml
from numpy.typing import NDArray

from ._pl_gates import CHANNELS, Gate, describe, gates_of
from ._pl_measurements import Floats, Outputs, coefficient_derivatives, observable_text, outputs_of
from .circuit import Circuit
from .function import Function, SampleFunction, StateFunction, expval, state


@dataclass
class Tape:
    """The numbers of a tape, and the key of its plan.

    Attributes
    ----------
    tape : pennylane.tape.QuantumScript
    key : tuple
        Structure of the tape; hashable.
    counts : list of int
        Number of scalar parameters of each gate.
    slots : list of int
        Indices of the scalar parameters of gates among all parameters of the tape.
    values : list
        Their values: numbers, or arrays of shape (B,).
    strengths : list of int
        Numbers of the slots that are strengths of channels.
    batch : int or None
        B, of a broadcast tape.
    outputs : list of Outputs
        One for each measurement that is computed from Pauli words.
    coefficients : dict
        Index of a trainable coefficient of an observable -> number of its measurement, and what
        :func:`coefficient_derivatives` returns.
    """

    tape: Any
    key: tuple[Any, ...]
    counts: list[int]
    slots: list[int]
    values: list[Any]
    strengths: list[int]
    batch: int | None
    outputs: list[Outputs]
    coefficients: dict[int, tuple[int, tuple[Outputs, Outputs, float]]] = field(
        default_factory=dict
    )

    @property
    def samples(self) -> int:
        """Number of samples: 1 without broadcasting."""
        return 1 if self.batch is None else self.batch

    def group(self, number: int) -> tuple[Any, ...]:
        """Return a key that tapes have in common if one call may compute them.

        One call has one set of strengths, and sums derivatives by them.
        """
        slots = {self.slots[k] for k in self.strengths}
        alone = number if slots.intersection(self.tape.trainable_params) else None
        return (self.key, tuple(float(self.values[k]) for k in self.strengths), alone)


def wire_order(tape: Any, device_wires: Any) -> tuple[Any, ...]:
    """Labels of all wires, qubit 0 first: the device's, else as PennyLane orders the tape's."""
    if device_wires is not None:
        return tuple(device_wires.labels)
    labels = tuple(tape.wires.labels)
    if set(labels) == set(range(len(labels))):
        return tuple(range(len(labels)))
    return labels


def _trainable_coefficients(
    tape: Any, first: int
) -> dict[int, tuple[int, tuple[Outputs, Outputs, float]]]:
    """first: index of the first parameter that belongs to an observable."""
    found = {}
    wanted = {i for i in tape.trainable_params if i >= first}
    at = first
    for j, mp in enumerate(tape.measurements):
        n = 0 if mp.obs is None else len(mp.obs.data)
        for number in range(n):
            if at + number in wanted:
                derivative = coefficient_derivatives(mp, number)
                if derivative is not None:
                    found[at + number] = (j, derivative)
        at += n
    return found


def read_tape(
    tape: Any, wires: tuple[Any, ...], measurements: Sequence[Any] | None, derivatives: bool
) -> Tape:
    """Split a tape into structure and numbers.

    Parameters
    ----------
    tape : pennylane.tape.QuantumScript
        Of native gates.
    wires : tuple
        Labels of all wires, qubit 0 first.
    measurements : sequence or None
        Those that are computed from Pauli words; None: the final state is wanted.
    derivatives : bool
        Whether trainable coefficients of observables matter.
    """
    structures, counts, values = [], [], []
    slots: list[int] = []
    strengths: list[int] = []
    batch: int | None = None
    index = 0
    for op in tape.operations:
        structure, data = describe(op)
        if structure[0] == "GlobalPhase" and not structure[2] and measurements is not None:
            index += len(op.data)  # no expectation value depends on the phase
            batch = next((len(v) for v in data if np.ndim(v) == 1), batch)
            continue
        counts.append(len(data))
        structures.append(structure)
        for i, value in enumerate(data):
            if type(value) is not float:
                value = np.asarray(value, dtype=np.float64)
                if value.ndim == 1:
                    batch = len(value)
            if structure[0] in CHANNELS:
                strengths.append(len(slots))
            slots.append(index + i)
            values.append(value)
        index += len(op.data)
    outputs = [] if measurements is None else [outputs_of(mp) for mp in measurements]
    coefficients = {}
    if derivatives and tape.trainable_params and tape.trainable_params[-1] >= index:
        coefficients = _trainable_coefficients(tape, index)
    words: dict[Any, None] = {}
    for o in outputs:
        words.update(dict.fromkeys(o.words))
    for _, (above, below, _) in coefficients.values():
        words.update(dict.fromkeys(above.words + below.words))
    # Tapes of one plan have equally many results, so that their Jacobians are one array.
    sizes = tuple(len(o.constant) for o in outputs)
    key = (wires, tuple(structures), None if measurements is None else tuple(words), sizes)
    return Tape(tape, key, counts, slots, values, strengths, batch, outputs, coefficients)


class Plan:
    """What is compiled for a structure.

    Parameters
    ----------
    tape : Tape
        The first tape of this structure.
    dtype, threads
        As of :func:`qring.expval`.
    """

    def __init__(self, tape: Tape, dtype: str, threads: int | None) -> None:
        wires, self._structures, words, _ = tape.key
        self._counts = tape.counts
        self._index = {label: i for i, label in enumerate(wires)}
        self._dtype, self._threads = dtype, threads
        self._rows = {} if words is None else {word: i for i, word in enumerate(words)}
        self._states = words is None
        self._functions: dict[tuple[bytes, bool], Function] = {}
        self._state_functions: dict[bytes, StateFunction] = {}
        self._sample_functions: dict[bytes, SampleFunction] = {}
        self._combined: tuple[tuple[Any, ...], Combination] | None = None

    def _circuit(self, as_input: bytes) -> Circuit:
        """Write the circuit; as_input[k] is 1 where slot k is an input, else it is a parameter."""
        columns = np.cumsum(np.frombuffer(as_input, dtype=np.uint8), dtype=np.intp) - 1
        slot = 0

        def argument(number: int, factor: float) -> Any:
            k = slot + number
            name = {"data": int(columns[k])} if as_input[k] else {"parameter": f"p{k}"}
            return name if factor == 1.0 else {**name, "scale": factor}

        gates: list[Gate] = []
        for structure, n in zip(self._structures, self._counts, strict=True):
            gates += gates_of(structure, self._index, argument)
            if self._states and structure[0] == "QubitUnitary" and not structure[3]:
                gates += _unitary_phase(gates[-1])
            slot += n
        if not gates:
            gates.append({"gate": "I", "qubits": [0]})
        return Circuit.from_json({"qubits": len(self._index), "gates": gates})

    def function(self, as_input: bytes, input_gradients: bool) -> Function:
        """Return the function for expectation values, compiled at its first use."""
        key = (as_input, input_gradients)
        if (f := self._functions.get(key)) is None:
            observables = [observable_text(word, self._index) for word in self._rows]
            f = self._functions[key] = expval(
                self._circuit(as_input),
                observables,
                dtype=self._dtype,
                threads=self._threads,
                input_gradients=input_gradients,
                method="exact",
            )
        return f

    def state_function(self, as_input: bytes) -> StateFunction:
        """Return the function for states, compiled at its first use."""
        if (f := self._state_functions.get(as_input)) is None:
            f = StateFunction(self._circuit(as_input), dtype=self._dtype, threads=self._threads)
            self._state_functions[as_input] = f
        return f

    def sample_function(self, as_input: bytes, shots: int) -> SampleFunction:
        """Return the function for bit strings, compiled at its first use; of one shots number."""
        f = self._sample_functions.get(as_input)
        if f is None or f.shots != shots:
            f = SampleFunction(
                self._circuit(as_input), shots, dtype=self._dtype, threads=self._threads
            )
            self._sample_functions[as_input] = f
        return f

    @property
    def n_rows(self) -> int:
        """Number of Pauli words."""
        return len(self._rows)

    def row_vector(self, outputs: Outputs, values: Floats) -> Floats:
        """Scatter coefficients of the words of one measurement to all words: (O, W) -> (O, R)."""
        ret = np.zeros((len(values), len(self._rows)))
        ret[:, [self._rows[word] for word in outputs.words]] = values
        return ret

    def combination(self, outputs: list[Outputs]) -> Combination:
        """Return how results follow from rows; the last one is kept, for constant coefficients."""
        key = tuple(o.key() for o in outputs)
        if self._combined is None or self._combined[0] != key:
            self._combined = (key, Combination(self, outputs))
        return self._combined[1]


class Combination:
    """Results y (O,) of one tape from expectation values r (R,) of Pauli words.

    y = linear @ r + constant; for variances y = square @ r + square_constant - (that)**2.
    """

    def __init__(self, plan: Plan, outputs: list[Outputs]) -> None:
        self.linear = np.vstack([plan.row_vector(o, o.linear) for o in outputs])
        self.constant = np.concatenate([o.constant for o in outputs])
        self.identity = bool(
            self.linear.shape[0] == self.linear.shape[1]
            and np.array_equal(self.linear, np.eye(len(self.linear)))
        )
        squares = [np.zeros_like(o.linear) if o.square is None else o.square for o in outputs]
        self.quadratic: NDArray[np.bool_] = np.repeat(
            [o.square is not None for o in outputs], [len(o.linear) for o in outputs]
        )
        self.any_quadratic = bool(self.quadratic.any())
        if self.any_quadratic:
            self.square = np.vstack(
                [plan.row_vector(o, s) for o, s in zip(outputs, squares, strict=True)]
            )
            self.square_constant = np.concatenate(
                [
                    np.zeros_like(o.constant) if o.square_constant is None else o.square_constant
                    for o in outputs
                ]
            )

    def results(self, rows: Floats) -> Floats:
        """(S, R) -> (S, O)."""
        if self.identity and not self.any_quadratic:
            return np.asarray(rows + self.constant)
        y = np.asarray(rows @ self.linear.T + self.constant)
        if self.any_quadratic:
            y = np.where(self.quadratic, rows @ self.square.T + self.square_constant - y * y, y)
        return np.asarray(y)

    def derivative(self, rows: Floats) -> Floats:
        """Compute derivatives of each result by each row: (S, R) -> (S or 1, O, R)."""
        if not self.any_quadratic:
            return self.linear[None]
        y = rows @ self.linear.T + self.constant
        by_row = self.square[None] - 2.0 * y[:, :, None] * self.linear[None]
        return np.asarray(np.where(self.quadratic[None, :, None], by_row, self.linear[None]))


def _unitary_phase(gate: Gate) -> list[Gate]:
    """Return the phase that the reader of circuits drops from an uncontrolled unitary."""
    n = len(gate["qubits"])
    small = {"qubits": n, "gates": [{**gate, "qubits": list(range(n))}]}
    made = state(small)
    u = np.array([complex(*row[0]) for row in gate["matrix"]])
    phase = -float(np.angle(np.vdot(made, u)))
    target = gate["qubits"][:1]
    return [
        {"gate": "RZ", "qubits": target, "angle": 2 * phase},
        {"gate": "PhaseShift", "qubits": target, "angle": -2 * phase},
    ]


def to_wires(mp: Any, index: dict[Any, int]) -> Any:
    """Map a measurement's wires to qubits."""
    if all(label == q for label, q in index.items()):
        return mp
    return qml.map_wires(mp, index)
