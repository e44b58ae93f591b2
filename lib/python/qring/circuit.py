"""Circuits: a builder that makes the circuit object of a job file. Start at :class:`Circuit`."""

from __future__ import annotations

import ctypes
import functools
import json
import operator
import re
from typing import Any, Dict, Iterable, Iterator, Sequence

from ._gates import Angle, GateMethods, Qubit, _listed, _matrix_json
from .expression import Expression, Input, Parameter, real

__all__ = ["Angle", "Circuit", "Expression", "Input", "Parameter", "Qubit"]

Item = Dict[str, Any]
"""A gate, an ansatz, a repeat or a block of a job file."""

_MAX_QUBITS = 1024
_MAX_REPEATS = 1 << 20
# Keys with integers, which may be index expressions.
_INDICES = frozenset(
    "qubits control controls control_values data repeat power measure bits if if_values".split()
)
_INDEX = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,15}\Z")


def _integer(value: object, what: str, low: int, high: int) -> int:
    if isinstance(value, bool):
        raise TypeError(f"cannot use {value!r} as {what}: give an integer")
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"cannot use {value!r} as {what}: give an integer") from None
    if not low <= number <= high:
        raise ValueError(f"cannot use {number} as {what}: give an integer from {low} to {high}")
    return number


def _angle_json(value: Angle, what: str) -> object:
    """Return an angle as in a job file."""
    if isinstance(value, Expression):
        return value.to_json()
    if isinstance(value, str):
        if not value.strip() or "\0" in value:
            raise ValueError(
                f"cannot use {value!r} as {what}: it is not an expression; give a name"
            )
        return value
    return real(value, what)


class Circuit(GateMethods):
    """A parameterised circuit.

    Parameters
    ----------
    n_qubits : int
        1 to 1024. At most about 30 fit as a state vector; more where every observable depends on
        few qubits.
    columns : int, optional
        Number of inputs that are referred to by number. Default: the highest in use, + 1.

    Examples
    --------
    >>> c = Circuit(2).h(0).cnot(0, 1).ry("w0", 0)
    >>> c.n_qubits, len(c)
    (2, 3)
    """

    def __init__(self, n_qubits: int, columns: int | None = None) -> None:
        self._n_qubits = _integer(n_qubits, "a number of qubits", 1, _MAX_QUBITS)
        self._columns = (
            None if columns is None else _integer(columns, "a number of columns", 0, 1 << 20)
        )
        self._items = []
        self._whole: Item | None = None  # a circuit that is not a list of gates
        self._noise: Item = {}  # channels after gates, and read-out errors
        self._readouts: tuple[str, ...] = ()
        self._qubit_numbers: dict[Any, int] | None = None  # of from_cirq

    @property
    def _items(self) -> list[Item]:
        """Gates, ansätze, repeats and blocks; circuits share them, so none is changed in place."""
        if self._unread is not None:
            self._items = json.loads(self._unread)["gates"]
        return self._read_items

    @_items.setter
    def _items(self, items: list[Item]) -> None:
        self._read_items = items
        self._unread: bytes | None = None  # the library's text of the items, until they are used

    @property
    def n_qubits(self) -> int:
        """Number of qubits."""
        return self._n_qubits

    @property
    def readouts(self) -> tuple[str, ...]:
        """Observables that the text or circuit measured, for :func:`qring.expval`."""
        return self._readouts

    # ---- gates ----

    def _add(
        self,
        gate: str,
        qubits: Sequence[Qubit],
        angles: dict[str, Angle] | None = None,
        others: dict[str, object] | None = None,
    ) -> Circuit:
        self._require_list("add a gate")
        item: Item = {"gate": gate, "qubits": self._qubits(qubits, gate)}
        for key, value in (angles or {}).items():
            item[key] = _angle_json(value, f"{key} of {gate}")
        self._items.append({**item, **(others or {})})
        return self

    def gate(
        self,
        name: str,
        qubits: Qubit | Iterable[Qubit],
        controls: Iterable[Qubit] = (),
        control_values: Iterable[int] | None = None,
        **arguments: Any,
    ) -> Circuit:
        """Add a gate by its name in the job file.

        Parameters
        ----------
        name : str
            A name that ``qring help job gate`` lists; the case of letters does not matter.
        qubits : int or sequence of int
            The qubits it acts on, own controls first.
        controls : sequence of int
            Additional control qubits.
        control_values : sequence of 0 and 1, optional
            Values at which the additional controls act. Default: 1.
        **arguments
            Angles in radians and other arguments, by their keys in the job file; ``lam`` means
            ``lambda``.

        Returns
        -------
        Circuit
            This circuit.
        """
        self._require_list("add a gate")
        if not isinstance(name, str):
            raise TypeError(f"cannot add the gate {name!r}: a gate's name is a text; give a str")
        item: Item = {"gate": name, "qubits": self._qubits(_listed(qubits), name)}
        for key, value in arguments.items():
            key = "lambda" if key == "lam" else key
            if key == "matrix":
                value = _matrix_json(value)
            plain = key in ("pauli_word", "matrix", "state")
            item[key] = _copied(value) if plain else _angle_json(value, f"{key} of {name}")
        control = self._qubits(list(controls), name)
        if control:
            item["controls"] = control
        if control_values is not None:
            item["control_values"] = [_integer(v, "a control value", 0, 1) for v in control_values]
        self._items.append(item)
        return self

    def ansatz(
        self,
        name: str,
        qubits: Iterable[Qubit] | None = None,
        prefix: str | None = None,
        **keys: Any,
    ) -> Circuit:
        """Add a well-known ansatz or encoder.

        Parameters
        ----------
        name : str
            For example ``"strongly-entangling"``; ``qring help job circuit`` lists all.
        qubits : sequence of int, optional
            Default: all.
        prefix : str, optional
            Put before the names of its parameters.
        **keys
            Its keys in the job file, for example ``layers=3``.
        """
        self._require_list("add an ansatz")
        if not isinstance(name, str):
            raise TypeError(f"cannot add the ansatz {name!r}: its name is a text; give a str")
        item: Item = {"ansatz": name}
        if qubits is not None:
            item["qubits"] = self._qubits(list(qubits), name)
        if prefix is not None:
            item["prefix"] = prefix
        item.update(_copied(keys))
        self._items.append(item)
        return self

    # ---- noise ----

    def channel(self, name: str, qubits: Qubit | Iterable[Qubit], **strengths: Any) -> Circuit:
        """Add a noise channel.

        Parameters
        ----------
        name : str
            A name that ``qring help job channel`` lists, for example ``"Depolarize"``.
        qubits : int or sequence of int
            A channel on one qubit acts on each of them.
        **strengths
            Its keys in the job file, such as ``p`` and ``gamma``: numbers, or expressions of
            parameters; ``operators`` of ``"Kraus"`` is a list of matrices.

        Returns
        -------
        Circuit
            This circuit.

        Examples
        --------
        >>> c = Circuit(1).ry("w", 0).channel("AmplitudeDamping", 0, gamma="g")
        """
        self._require_list("add a channel")
        if not isinstance(name, str):
            raise TypeError(f"cannot add the channel {name!r}: its name is a text; give a str")
        qubits = self._qubits(_listed(qubits), name)
        self._items.append(_channel_json({"channel": name, "qubits": qubits, **strengths}))
        return self

    def measure(
        self,
        qubits: Qubit | Iterable[Qubit],
        bits: Qubit | Iterable[Qubit] | None = None,
        p_01: Angle = 0,
        p_10: Angle = 0,
    ) -> Circuit:
        """Measure qubits in the basis of Z.

        Parameters
        ----------
        qubits : int, or sequence of int
            Each sets a bit and goes on in the state that was read.
        bits : int, or sequence of int, optional
            Bits that :meth:`conditional` gates depend on and :meth:`SampleFunction.bits` draws; an
            empty list: none. Default: the qubits' numbers.
        p_01, p_10 : float, str or Expression
            Probabilities of reading 1 for 0, and 0 for 1. Default: those of :meth:`noise`.
        """
        self._require_list("measure")
        item: Item = {"measure": self._qubits(_listed(qubits), "measure")}
        if bits is not None:
            item["bits"] = _copied(_listed(bits))
        for key, p in (("p_01", p_01), ("p_10", p_10)):
            if not isinstance(p, (int, float)) or p != 0:
                item[key] = _angle_json(p, key)
        self._items.append(item)
        return self

    def noise(self, after: dict[str, Any] | None = None, readout: Any = None) -> Circuit:
        """Set the noise of all gates of the circuit, also of those that are added later.

        Parameters
        ----------
        after : dict, optional
            Names of native gates, ``"*1"``, ``"*2"`` or ``"*"``, with a channel or a list of
            channels that act on each qubit of the gate. A channel is the object of a job file;
            strengths may be expressions of parameters.
        readout : float, dict or list of dict, optional
            Probability of a wrong bit; or its ``p_01`` and ``p_10``; or a list of these, with
            their ``qubits``.

        Returns
        -------
        Circuit
            This circuit.

        Examples
        --------
        >>> c = Circuit(2).h(0).cnot(0, 1)
        >>> c = c.noise(after={"*": {"channel": "Depolarize", "p": 0.01}}, readout=0.02)
        """
        found: Item = {}
        if after is not None:
            if not isinstance(after, dict):
                raise TypeError(f"cannot use {after!r} as noise: give a dict of channels")
            found["after"] = {
                gate: [_channel_json(c) for c in channel]
                if isinstance(channel, (list, tuple))
                else _channel_json(channel)
                for gate, channel in after.items()
            }
        if readout is not None:
            plain = isinstance(readout, (dict, list, tuple))
            found["readout"] = _copied(readout) if plain else {"p": real(readout, "readout")}
        if self._whole is None:
            self._items = self._items  # drops the library's text, which has no noise
            self._noise = found
        else:
            self._whole = {k: v for k, v in self._whole.items() if k != "noise"}
            self._whole.update({"noise": found} if found else {})
        return self

    def _qubits(self, qubits: Sequence[Qubit], gate: str) -> list[Qubit]:
        ret: list[Qubit] = []
        for q in qubits:
            if isinstance(q, str):
                ret.append(q)
                continue
            number = _integer(q, f"a qubit of {gate}", 0, self._n_qubits - 1)
            if number in ret:
                raise ValueError(
                    f"cannot add {gate}: qubit {number} is given twice; give different qubits"
                )
            ret.append(number)
        return ret

    def _require_list(self, action: str) -> None:
        if self._whole is not None:
            raise ValueError(
                f"cannot {action}: the circuit is the ansatz {self._whole.get('ansatz')!r}, "
                "not a list of gates; start from Circuit(n)"
            )

    # ---- new circuits ----

    def _with(self, items: list[Item]) -> Circuit:
        if self._noise:
            raise ValueError(
                "cannot make a circuit of this one: it has noise, which belongs to a whole "
                "circuit; call noise() last"
            )
        return self._list(items)

    def _list(self, items: list[Item]) -> Circuit:
        ret = Circuit(self._n_qubits, self._columns)
        ret._items = items
        ret._qubit_numbers = self._qubit_numbers
        return ret

    def copy(self) -> Circuit:
        """Return a copy; gates added to it are not added to this circuit."""
        ret = self._list(list(self._items))
        ret._whole = self._whole
        ret._noise = self._noise
        ret._readouts = self._readouts
        return ret

    __copy__ = copy

    def repeat(self, n: int, index: str | None = None) -> Circuit:
        """Return this circuit `n` times in a row.

        Parameters
        ----------
        n : int
            0 to 2^20.
        index : str, optional
            Name of the repetition's number, from 0. Names of parameters and texts of angles may
            then contain it in braces, ``"w{i}"``, and qubits be texts such as ``"(i+1)%n"``,
            where n is the number of qubits. Without it, all repetitions share their parameters.

        Examples
        --------
        >>> c = Circuit(2).ry("w{i}", 0).cnot(0, 1).repeat(3, index="i")
        """
        n = _integer(n, "a number of repetitions", 0, _MAX_REPEATS)
        self._require_list("repeat the circuit")
        if index is not None and not _INDEX.match(index):
            raise ValueError(
                f"cannot use {index!r} as an index: give up to 16 letters, digits and _, not "
                "starting with a digit"
            )
        if n == 0 or not self._items:
            return self._with([])
        if n == 1 and index is None:
            return self.copy()
        item: Item = {"repeat": n, **({"index": index} if index else {}), "gates": self._items[:]}
        return self._with([item])

    def adjoint(self) -> Circuit:
        """Return the inverse: the inverse gates in reverse order."""
        self._require_list("invert the circuit")
        if len(self._items) == 1 and self._items[0].get("adjoint"):
            return self._with(self._items[0]["gates"][:])
        return self._with(self._block({"adjoint": True}))

    def power(self, exponent: float) -> Circuit:
        """Return a power of this circuit.

        Parameters
        ----------
        exponent : float
            An integer repeats the circuit, a negative one its inverse, 0 is the empty circuit.
            A fraction is known of one gate with an exponent or an angle.
        """
        self._require_list("raise the circuit to a power")
        number = real(exponent, "an exponent")
        return self._with(self._block({"power": number}) if number else [])

    def controlled(
        self, qubits: int | Iterable[int], values: int | Iterable[int] | None = None
    ) -> Circuit:
        """Return this circuit controlled by other qubits.

        A global phase counts under a control. Circuits of :meth:`from_qasm` and the like have none:
        control a circuit with ``gphase`` or a matrix before it is read.

        Parameters
        ----------
        qubits : int or sequence of int
            Control qubits. The circuit gets more qubits if they are beyond its own.
        values : 0, 1 or a sequence of these, optional
            Value of each control at which the circuit acts. Default: 1.
        """
        self._require_list("control the circuit")
        at, on = _with_values(qubits, values, "control qubit", "control the circuit by")
        n = max([self._n_qubits, *(q + 1 for q in at)])
        ret = self._with(self._items_on(n))
        ret._n_qubits = n
        if at:
            ret._items = ret._block({"control": at, **({"control_values": on} if on else {})})
        return ret

    def conditional(
        self, bits: int | Iterable[int], values: int | Iterable[int] | None = None
    ) -> Circuit:
        """Return this circuit as gates and channels that act if measured bits have values.

        Parameters
        ----------
        bits : int or sequence of int
            Bits that :meth:`measure` set before.
        values : 0, 1 or a sequence of these, optional
            Value of each bit at which the circuit acts. Default: 1.

        Examples
        --------
        >>> c = Circuit(2).h(0).measure(0, 0) + Circuit(2).x(1).conditional(0)
        """
        self._require_list("make the circuit conditional")
        at, on = _with_values(bits, values, "bit", "make the circuit conditional on")
        if not at:
            raise ValueError("cannot make the circuit conditional: give at least one bit")
        return self._with(self._block({"if": at, **({"if_values": on} if on else {})}))

    def _block(self, keys: Item) -> list[Item]:
        """Return the items as one; a job file has no empty lists of gates."""
        return [{**keys, "gates": self._items[:]}] if self._items else []

    def _items_on(self, n: int) -> list[Item]:
        """Return a list of the items with the same meaning in a circuit of n qubits."""
        own = self._n_qubits
        return list(self._items) if n == own else [_fixed(item, own) for item in self._items]

    def __add__(self, other: Circuit) -> Circuit:
        if not isinstance(other, Circuit):
            return NotImplemented
        self._require_list("add circuits")
        other._require_list("add circuits")
        n = max(self._n_qubits, other._n_qubits)
        ret = self._with(self._items_on(n) + other._with(other._items_on(n))._items)
        ret._n_qubits = n
        own, its = self._qubit_numbers or {}, other._qubit_numbers or {}
        numbers = {**own, **its}
        if len(set(numbers.values())) < len(numbers) or {**numbers, **own} != numbers:
            raise ValueError(
                "cannot add circuits: Cirq's qubits have other numbers in the second; add them in "
                "Cirq, and read the sum by Circuit.from_cirq"
            )
        ret._qubit_numbers = numbers or None
        columns = [c for c in (self._columns, other._columns) if c is not None]
        ret._columns = max(columns) if columns else None
        return ret

    # ---- text ----

    def to_json(self) -> dict[str, Any]:
        """Return the circuit object of a job file."""
        if self._whole is not None:
            return dict(_copied(self._whole))
        ret: dict[str, Any] = {"qubits": self._n_qubits}
        if self._columns is not None:
            ret["columns"] = self._columns
        # A job file has no empty lists of gates.
        ret["gates"] = _copied(self._items) or [{"gate": "I", "qubits": [0]}]
        if self._noise:
            ret["noise"] = _copied(self._noise)
        return ret

    @classmethod
    def from_json(cls, circuit: dict[str, Any] | str) -> Circuit:
        """Return the circuit of a job file's circuit object, or of its text.

        Gates are checked when the circuit is compiled by :func:`qring.expval`.
        """
        try:
            found: Any = json.loads(circuit) if isinstance(circuit, (str, bytes)) else circuit
            if not isinstance(found, dict):
                raise TypeError(
                    f"cannot read a circuit from {found!r}: it is not an object; give a dict"
                )
            found = _copied(found)
        except ValueError as error:
            raise ValueError(
                f"cannot read the circuit: it is not JSON ({error}); give the text of an object"
            ) from None
        except RecursionError:
            raise ValueError(
                "cannot read the circuit: it is nested too deeply; nest less"
            ) from None
        if "qubits" not in found:
            raise ValueError('cannot read the circuit: "qubits" is missing; give their number')
        ret = cls(found["qubits"], found.get("columns"))
        if "gates" not in found or set(found) - {"qubits", "columns", "gates", "noise"}:
            ret._whole = found
            return ret
        gates = found["gates"]
        if not isinstance(gates, list) or not all(isinstance(g, dict) for g in gates):
            raise TypeError('cannot read the circuit: "gates" must be a list of objects')
        ret._items = gates
        ret._noise = found.get("noise", {})
        return ret

    @classmethod
    def from_qasm(cls, text: str, inputs: Iterable[str] = ()) -> Circuit:
        """Return the circuit of an OpenQASM 2 or 3 program, in native gates.

        Free symbols, ``input float`` and ``input angle``, become parameters of the same name.
        Measurements at the end become :attr:`readouts`.

        Parameters
        ----------
        text : str
            The program.
        inputs : sequence of str, optional
            Free symbols that are inputs 0, 1 ... instead, in this order.

        Raises
        ------
        QringError
            With the line and column of what is malformed or cannot be simulated.

        Examples
        --------
        >>> c = Circuit.from_qasm("input float w; qubit q; U(w, 0, 0) q;")
        >>> c.to_json()["gates"]
        [{'gate': 'RY', 'qubits': [0], 'angle': 'w'}]
        """
        if not isinstance(text, str):
            raise TypeError(f"cannot read {text!r} as OpenQASM: it is not text; give a str")
        return cls._read("qring_circuit_from_qasm", text, inputs)

    @classmethod
    def _read(cls, function: str, text: str | bytes, inputs: Iterable[Any]) -> Circuit:
        """Return the circuit that a function of the library reads; inputs: names or symbols."""
        from ._library import Error, failure, lib, owned_text, utf8

        source = utf8(text) if isinstance(text, str) else text
        names = [utf8(str(name)) for name in _listed(inputs)]
        circuit, readouts, error = ctypes.c_void_p(), ctypes.c_void_p(), Error()
        if getattr(lib, function)(
            source,
            len(source),
            (ctypes.c_char_p * max(len(names), 1))(*names),
            len(names),
            ctypes.byref(circuit),
            ctypes.byref(readouts),
            ctypes.byref(error),
        ):
            raise failure(error)
        found = json.loads(owned_text(readouts))
        read = owned_text(circuit)
        ret = cls.from_json(read[: read.index(b'"gates":')].decode() + '"gates":[]}')
        ret._unread = read
        ret._readouts = tuple(found)
        return ret

    @classmethod
    def _read_cirq(cls, circuit: Any, inputs: Iterable[Any] = ()) -> Circuit:
        import cirq

        try:
            text = cirq.to_json(circuit, indent=None)
        except (TypeError, ValueError) as error:
            for path, op in _paths_of_cirq(circuit):
                try:
                    cirq.to_json(op)
                except (TypeError, ValueError):
                    raise ValueError(
                        f"cannot read the circuit: {path} is {op}, which has no JSON ({error}); "
                        "give gates of Cirq, with sums, products and powers of symbols"
                    ) from None
            raise
        return cls._read("qring_circuit_from_cirq", text, inputs)

    @classmethod
    def from_cirq(cls, circuit: Any, inputs: Iterable[Any] = ()) -> Circuit:
        """Return the circuit of a ``cirq.Circuit``, through Cirq's JSON.

        Qubits are numbered in Cirq's order, also in a ``cirq.PauliSum`` that is measured on this
        circuit. Symbols become parameters of the same name; measurements at the end become
        :attr:`readouts`. Gates of other classes, such as your own, are read by their decomposition,
        or by their matrix on up to six qubits.

        Parameters
        ----------
        circuit : cirq.Circuit or cirq.FrozenCircuit
            The circuit.
        inputs : sequence of sympy.Symbol or str, optional
            Symbols that are inputs 0, 1 ... instead, in this order.
        """
        import cirq

        if not isinstance(circuit, cirq.AbstractCircuit):
            raise TypeError(
                f"cannot read {type(circuit).__name__} as a circuit: give a cirq.Circuit; "
                "cirq.read_json(json_text=...) reads one from JSON"
            )
        inputs = _listed(inputs)
        try:
            ret = cls._read_cirq(circuit, inputs)
        except (ValueError, TypeError, RuntimeError):
            native = _native_of_cirq(circuit)
            if native == circuit:
                raise
            ret = cls._read_cirq(native, inputs)
        ret._qubit_numbers = {q: i for i, q in enumerate(sorted(circuit.all_qubits()))}
        return ret

    @classmethod
    def from_tfq(cls, program: Any, inputs: Iterable[Any] = ()) -> Circuit:
        """Return the circuit of a program that TensorFlow Quantum serialized.

        Numbers have the six decimals that ``tfq.convert_to_tensor`` keeps. Data circuits with their
        labels become a job by ``qring import``.

        Parameters
        ----------
        program : bytes or tensor of one string
            An element of ``tfq.convert_to_tensor(circuits)``.
        inputs : sequence of sympy.Symbol or str, optional
            Symbols that are inputs 0, 1 ... instead, in this order.
        """
        found = program.numpy() if hasattr(program, "numpy") else program
        while not isinstance(found, bytes):
            if not hasattr(found, "__len__") or isinstance(found, str) or len(found) != 1:
                raise TypeError(
                    f"cannot read {program!r} as a program: give bytes, or a tensor of one string"
                )
            found = found[0]
        return cls._read("qring_circuit_from_cirq", found, inputs)

    @classmethod
    def from_qiskit(cls, circuit: Any, inputs: Iterable[Any] = ()) -> Circuit:
        """Return the circuit of a Qiskit ``QuantumCircuit``, through Qiskit's OpenQASM 3.

        What has no OpenQASM, such as ``Clifford``, is read by its definition. Qubit 0 is Qiskit's
        qubit 0. Free parameters have the names that Qiskit's exporter gives them: ``theta`` stays,
        ``v[0]`` becomes ``_v_0_``.

        Parameters
        ----------
        circuit : qiskit.QuantumCircuit
            Measurements may stand at its end.
        inputs : sequence of qiskit.circuit.Parameter or str, optional
            Parameters, or their names in Qiskit, that are inputs 0, 1 ... in this order.
        """
        if not hasattr(circuit, "find_bit"):
            raise TypeError(f"cannot read {circuit!r} as a circuit: give a qiskit.QuantumCircuit")
        text = _text_of_qiskit(circuit)
        exported = re.findall(r"^input float\[64\] (\S+);$", text, re.MULTILINE)
        names = dict(zip((p.name for p in circuit.parameters), exported))
        wanted = [getattr(name, "name", name) for name in _listed(inputs)]
        return cls.from_qasm(text, [names.get(name, name) for name in wanted])

    @classmethod
    def from_pennylane(cls, circuit: Any, *args: Any, **kwargs: Any) -> Circuit:
        """Return the circuit of a PennyLane QNode or tape, through PennyLane's OpenQASM 2.

        This text has numbers instead of free parameters; :func:`qring.from_qnode` keeps the
        parameters trainable.

        Parameters
        ----------
        circuit : pennylane.QNode or pennylane.tape.QuantumScript
            Wires 0 to n - 1 are the qubits of these numbers; others become qubits in the order in
            which PennyLane lists them.
        *args, **kwargs
            Arguments of the QNode.
        """
        import pennylane

        from ._pl_plans import wire_order

        tape = circuit
        if isinstance(circuit, pennylane.QNode):
            tape = pennylane.workflow.construct_tape(circuit)(*args, **kwargs)
        if not isinstance(tape, pennylane.tape.QuantumScript):
            raise TypeError(f"cannot read {circuit!r} as a circuit: give a QNode or a tape")
        wires = pennylane.wires.Wires(wire_order(tape, None))
        ret = cls.from_qasm(pennylane.to_openqasm(tape, wires, rotations=False, measure_all=False))
        ret._readouts = ()  # the text measures wires, not the QNode's observables
        return ret

    def _text(self) -> bytes:
        """Return the compact JSON text."""
        if self._unread is not None:
            return self._unread
        whole = self.to_json() if self._whole is not None or not self._items else None
        if whole is None:
            whole = {"qubits": self._n_qubits, "gates": self._items}
            if self._columns is not None:
                whole["columns"] = self._columns
            if self._noise:
                whole["noise"] = self._noise
        try:
            return json.dumps(whole, allow_nan=False, separators=(",", ":")).encode()
        except (TypeError, ValueError, RecursionError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(f"cannot write the circuit as JSON: {error}; give numbers") from None

    def draw(self, columns: int = 100, format: str = "text") -> str:
        """Draw the circuit as text, or as ``svg`` or ``latex`` (quantikz).

        Parameters
        ----------
        columns : int
            Maximum width in characters of text, or 8 pixels.
        format : {"text", "svg", "latex"}
        """
        from ._write import draw

        return draw(self._text(), (), columns, format)

    def _repr_svg_(self) -> str:
        """Draw the circuit in a notebook."""
        return self.draw(format="svg")

    def export(
        self,
        format: str,
        observables: Any = (),
        parameters: Sequence[float] | None = None,
        inputs: Sequence[float] | None = None,
    ) -> Any:
        """Write the circuit for another program: a text, or bytes for ``tfq``.

        With read-outs, ``cirq`` is a list of the circuit and PauliSums; ``tfq`` has none.

        Parameters
        ----------
        format : str
            ``qasm3``, or another format of ``qring export --to``.
        observables : str, operator, or sequence of these, optional
            Read-outs, as of :func:`qring.expval`.
        parameters, inputs : sequence of float, optional
            Numbers in place of symbols, in the order of :func:`qring.expval`.

        Examples
        --------
        >>> print(Circuit(1).ry("w", 0).export("qasm3"))
        OPENQASM 3.0;
        include "stdgates.inc";
        input float[64] w;
        qubit[1] q;
        ry(w) q[0];
        <BLANKLINE>
        """
        from ._observables import is_operator
        from ._write import write

        texts = [observables] if is_operator(observables) else _listed(observables)
        if texts:
            from .function import _check_observables

            texts = list(_check_observables(texts, self))
        data = write(self._text(), format, texts, parameters, inputs)
        return data if format == "tfq" else data.decode()

    def __len__(self) -> int:
        """Return the number of items: gates, ansätze, repeats and blocks."""
        return len(self._items)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Circuit):
            return NotImplemented
        return self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Circuit({self._n_qubits} qubits, {len(self._items)} items)"


def _channel_json(channel: Any) -> Item:
    """Return a channel as in a job file."""
    if not isinstance(channel, dict):
        raise TypeError(
            f"cannot use {channel!r} as a channel: give a dict such as "
            '{"channel": "Depolarize", "p": 0.01}'
        )
    ret: Item = {}
    for key, value in channel.items():
        if key in ("channel", "qubits"):
            ret[key] = _copied(value)
        elif key == "operators":
            ret[key] = [_matrix_json(matrix) for matrix in value]
        else:
            ret[key] = _angle_json(value, f"{key} of {channel.get('channel')}")
    return ret


def _copied(value: Any) -> Any:
    """Copy objects and lists, as copy.deepcopy, but faster; NumPy's numbers become Python's."""
    if isinstance(value, dict):
        return {key: _copied(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_copied(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _with_values(
    places: int | Iterable[int], values: int | Iterable[int] | None, noun: str, what: str
) -> tuple[list[int], list[int]]:
    """Return different qubits or bits, and their values; no values if all are 1."""
    at = [_integer(p, f"a {noun}", 0, _MAX_QUBITS - 1) for p in _listed(places)]
    on = [1] * len(at)
    if values is not None:
        on = [_integer(v, f"the value of a {noun}", 0, 1) for v in _listed(values)]
    if len(at) != len(on) or len(set(at)) != len(at):
        raise ValueError(
            f"cannot {what} {noun}s {at} at values {on}: give different {noun}s, and a value "
            "for each"
        )
    return at, on if 0 in on else []


# The gates of stdgates.inc by those that a program without an include has.
_STDGATES = """\
gate id a { i a; }
gate sdg a { si a; }
gate tdg a { ti a; }
gate sx a { v a; }
gate p(t) a { phaseshift(t) a; }
gate phase(t) a { phaseshift(t) a; }
gate u1(t) a { phaseshift(t) a; }
gate u2(f, l) a { gphase(-(f + l) / 2); phaseshift(l) a; ry(pi / 2) a; phaseshift(f) a; }
gate u3(t, f, l) a { gphase(-(f + l) / 2); phaseshift(l) a; ry(t) a; phaseshift(f) a; }
gate cx a, b { cnot a, b; }
gate ch a, b { ctrl @ h a, b; }
gate cp(t) a, b { cphaseshift(t) a, b; }
gate cphase(t) a, b { cphaseshift(t) a, b; }
gate crx(t) a, b { ctrl @ rx(t) a, b; }
gate cry(t) a, b { ctrl @ ry(t) a, b; }
gate crz(t) a, b { ctrl @ rz(t) a, b; }
gate cu(t, f, l, g) a, b { p(g) a; cp(l) a, b; ctrl @ ry(t) a, b; cp(f) a, b; }
gate ccx a, b, c { ccnot a, b, c; }
"""
# Other gates of Qiskit that are one native gate.
_NATIVE_OF_QISKIT = {
    "sxdg": "vi",
    "cs": "ctrl @ s",
    "csdg": "ctrl @ si",
    "csx": "cv",
    "cu1": "cphaseshift",
    "rxx": "xx",
    "ryy": "yy",
    "rzz": "zz",
    "iswap": "iswap",
    "ccz": "ctrl(2) @ z",
}


@functools.lru_cache(None)
def _definitions_of_qiskit() -> list[tuple[str, str]]:
    """Return patterns of definitions that Qiskit's exporter writes, and those by one native gate.

    The exporter adds a number to a name that is in use.
    """
    from qiskit import QuantumCircuit, qasm3
    from qiskit.circuit.library import get_standard_gate_name_mapping

    found = []
    for name, native in _NATIVE_OF_QISKIT.items():
        gate = get_standard_gate_name_mapping()[name]
        circuit = QuantumCircuit(gate.num_qubits)
        circuit.append(gate, range(gate.num_qubits))
        text = qasm3.dumps(circuit)
        written = re.search(rf"^gate {name}\b([^{{]*)({{.*?^}}\n)", text, re.MULTILINE | re.DOTALL)
        if written:
            head, body = written.groups()
            pattern = rf"(?m)^gate ({name}(?:_\d+)?){re.escape(head + body)}"
            found.append((pattern, rf"gate \1{head}{{ {native}{head.rstrip()}; }}\n"))
    return found


def _writable(circuit: Any) -> Any:
    """Return the circuit with definitions in place of what Qiskit's exporter cannot write."""
    from qiskit.circuit import Gate, Instruction

    def is_written(op: Any) -> bool:
        if getattr(op, "_standard_gate", None) is not None or hasattr(op, "_qasm_decomposition"):
            return True
        # Words, amplitudes and matrices would be written as if they were angles.
        if not isinstance(op, Instruction) or any(
            isinstance(p, (str, complex)) or hasattr(p, "tolist") for p in op.params
        ):
            return False
        parts = [] if op.definition is None else [item.operation for item in op.definition.data]
        return not parts or (isinstance(op, Gate) and all(map(is_written, parts)))

    for _ in range(100):  # definitions in definitions
        names = {i.operation.name for i in circuit.data if not is_written(i.operation)}
        if not names:
            break
        circuit = circuit.decompose(sorted(names))
    if not any(hasattr(item.operation, "replace_blocks") for item in circuit.data):
        return circuit
    ret = circuit.copy_empty_like()
    for item in circuit.data:
        op = item.operation
        if hasattr(op, "replace_blocks"):
            op = op.replace_blocks([_writable(block) for block in op.blocks])
        ret.append(op, item.qubits, item.clbits)
    return ret


def _in_order(circuit: Any) -> Any:
    """Return the circuit with registers that have its qubits and bits in their order.

    Qiskit's exporter declares bits without a register first, and of a circuit with a layout the
    qubits that it uses.
    """
    from qiskit import ClassicalRegister, QuantumCircuit, QuantumRegister

    qubits, bits = circuit.qubits, circuit.clbits
    if circuit.layout is None and (qubits, bits) == (
        [q for register in circuit.qregs for q in register],
        [b for register in circuit.cregs for b in register],
    ):
        return circuit
    places = {bit: circuit.find_bit(bit) for bit in bits}
    alone = [b for b in bits if not places[b].registers]
    registers = [ClassicalRegister(bits=[b], name=f"_bit{places[b].index}") for b in alone]
    registers += [register for register in circuit.cregs if len(register)]
    registers.sort(key=lambda register: min(places[b].index for b in register))
    ret = QuantumCircuit(QuantumRegister(bits=qubits, name="_qubits"), *registers)
    return ret.compose(circuit, qubits, bits)


def _text_of_qiskit(circuit: Any) -> str:
    """Return OpenQASM 3 in which native gates are one gate."""
    from qiskit import qasm3

    try:
        text = str(qasm3.dumps(_in_order(_writable(circuit))))
    except (qasm3.QASM3ExporterError, TypeError) as error:
        raise ValueError(
            f"cannot read the circuit: Qiskit does not write it as OpenQASM 3 ({error}); "
            "decompose it"
        ) from error
    known = _STDGATES
    for pattern, native in _definitions_of_qiskit():
        for found in re.finditer(pattern, text):
            known += found.expand(native)
        text = re.sub(pattern, "", text)
    return text.replace('include "stdgates.inc";\n', known, 1)


def _paths_of_cirq(circuit: Any) -> Iterator[tuple[str, Any]]:
    for i, moment in enumerate(circuit):
        for k, op in enumerate(moment.operations):
            yield f"moments[{i}].operations[{k}]", op


def _native_of_cirq(circuit: Any) -> Any:
    """Return the circuit with other operations in place of those that cannot be read."""
    import cirq

    def is_read(op: Any) -> bool:
        try:
            Circuit._read_cirq(cirq.Circuit(op))
        except (ValueError, TypeError, RuntimeError):
            return False
        return True

    def as_matrix(op: Any, _: int) -> Any:
        if len(op.qubits) > 6 or is_read(op) or not cirq.has_unitary(op):
            return op
        return cirq.MatrixGate(cirq.unitary(op)).on(*op.qubits)

    expanded = cirq.expand_composite(circuit, no_decomp=is_read)
    return cirq.map_operations(expanded, as_matrix)


# ---- operations on items ----


def _fixed(item: Item, n: int) -> Item:
    """Return the item without reference to the number of qubits, which is n."""
    if "ansatz" in item and "qubits" not in item:
        item = {**item, "qubits": list(range(n))}
    if "gates" in item:
        item = {**item, "gates": [_fixed(g, n) for g in item["gates"]]}
    fixed: Item = _substituted(item, "n", str(n), "")
    return fixed


def _substituted(value: Any, index: str, by: str, key: str) -> Any:
    """Replace the index in index expressions: all of a qubit's text, a name's text in braces."""
    if isinstance(value, dict):
        return {k: v if k == "gate" else _substituted(v, index, by, k) for k, v in value.items()}
    if isinstance(value, list):
        return [_substituted(v, index, by, key) for v in value]
    if not isinstance(value, str):
        return value
    word = re.compile(rf"\b{re.escape(index)}\b")
    if key in _INDICES:
        return word.sub(by, value)
    return re.sub(r"\{[^{}]*\}", lambda found: word.sub(by, found.group()), value)
