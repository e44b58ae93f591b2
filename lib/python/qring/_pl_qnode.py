"""Turns a QNode into a :class:`qring.Function`. Start reading at :func:`from_qnode`.

The QNode is called with placeholders: floats that remember the expression by which they were made.
They cannot be compared or rounded. Where code reads their value by another way, such as float(),
the expression is lost; calls with small and large values of both signs then give other constants or
other gates, and the QNode is refused.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import autoray
import numpy as np
import pennylane as qml
from pennylane.devices.preprocess import decompose
from pennylane.exceptions import DeviceError

from ._pl_gates import Gate, describe, gates_of, is_native
from ._pl_measurements import UnsupportedObservable, observable_text, outputs_of
from ._pl_plans import wire_order
from .circuit import Circuit
from .expression import RESERVED, Expression, Input, Parameter, Symbol
from .function import Function, expval

# Of placeholders' values, so that branches by size, sign or order differ between calls.
_INTERVALS = ((0.1, 0.9), (-0.9, -0.1), (10, 20), (-20, -10), (-3, 3), (-3, 3), (-100, 100))


class _Traced(float):
    """A number with the expression that gives it."""

    expression: Expression

    def __new__(cls, value: float, expression: Expression) -> _Traced:
        self = super().__new__(cls, value)
        self.expression = expression
        return self

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if options or method != "__call__" or any(np.ndim(v) for v in inputs):
            objects = tuple(_as_objects(v) for v in inputs)
            return getattr(ufunc, method)(*objects, **options)
        value = float(ufunc(*(float(v) for v in inputs)))
        return _Traced(value, ufunc(*(_expression(v) for v in inputs)))

    # NumPy calls these for the elements of arrays of objects.
    def sin(self) -> Any:
        return np.sin(self)

    def cos(self) -> Any:
        return np.cos(self)

    def tan(self) -> Any:
        return np.tan(self)

    def arcsin(self) -> Any:
        return np.arcsin(self)

    def arccos(self) -> Any:
        return np.arccos(self)

    def arctan(self) -> Any:
        return np.arctan(self)

    def sqrt(self) -> Any:
        return np.sqrt(self)

    def exp(self) -> Any:
        return np.exp(self)

    def log(self) -> Any:
        return np.log(self)

    def __neg__(self) -> _Traced:
        return _Traced(-float(self), -self.expression)

    def __pos__(self) -> _Traced:
        return self

    def __abs__(self) -> _Traced:
        return _Traced(abs(float(self)), abs(self.expression))

    def __reduce__(self) -> Any:  # copies keep the expression
        return _Traced, (float(self), self.expression)


def _as_objects(value: Any) -> Any:
    if not isinstance(value, _Traced):
        return value
    ret = np.empty((), dtype=object)
    ret[()] = value
    return ret


def _expression(value: Any) -> Any:
    return value.expression if isinstance(value, _Traced) else float(value)


def _binary(name: str) -> Callable[[_Traced, Any], Any]:
    apply = getattr(operator, name.replace("__r", "__"))
    reflected = name.startswith("__r")

    def method(self: _Traced, other: Any) -> Any:
        if not isinstance(other, (int, float, np.number)) or isinstance(other, bool):
            return NotImplemented
        a, b = (other, self) if reflected else (self, other)
        value = apply(np.float64(a), np.float64(b))  # NaN where float's would be complex
        return _Traced(value, apply(_expression(a), _expression(b)))

    return method


def _refused(name: str) -> Callable[..., Any]:
    def method(self: _Traced, *others: Any) -> Any:
        raise TypeError(f"__{name}__ needs the value of {self.expression}")

    return method


for _name in ("add", "sub", "mul", "truediv", "pow"):
    for _method in (f"__{_name}__", f"__r{_name}__"):
        setattr(_Traced, _method, _binary(_method))
for _name in (
    *("lt", "le", "gt", "ge", "eq", "ne", "bool", "int", "trunc", "floor", "ceil", "round"),
    *("floordiv", "rfloordiv", "mod", "rmod", "divmod", "rdivmod"),
):
    setattr(_Traced, f"__{_name}__", _refused(_name))
autoray.register_backend(_Traced, "numpy")


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Shape of a traced argument; None: the argument is passed as it is."""
    if isinstance(value, (bool, int, str)) or value is None:
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    return array.shape if array.dtype.kind == "f" else None


class _Arguments:
    """The arguments of a QNode, with placeholders for numbers."""

    def __init__(self, qnode: Any, args: Any, kwargs: Any, inputs: Sequence[str]) -> None:
        self._signature = inspect.signature(qnode.func)
        bound = self._signature.bind_partial(*args, **kwargs)
        self._fixed = dict(bound.arguments)
        self._shapes: dict[str, tuple[int, ...]] = {}
        for name, p in self._signature.parameters.items():
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                if name in self._fixed:
                    raise ValueError(
                        f"cannot turn the QNode into a function: its argument {name} collects "
                        "others; name the arguments"
                    )
                continue
            if name in self._fixed:
                shape = _shape_of(self._fixed[name])
            else:
                shape = () if p.default is p.empty else None
            if shape is not None:
                self._shapes[name] = shape
        for name in inputs:
            if name not in self._shapes:
                raise ValueError(
                    f"cannot use {name} as inputs: the QNode has no such argument of floats; "
                    f"it has {', '.join(self._shapes) or 'none'}"
                )
        # As OpenQASM's inputs: these names mean something else in an expression.
        self._names = {name: name for name in self._shapes}
        for name in RESERVED & self._names.keys():
            while self._names[name] in self._shapes:
                self._names[name] += "_"
        self._inputs = tuple(inputs)
        self.n_columns = sum(int(np.prod(self._shapes[name])) for name in inputs)

    def _symbols(self, name: str) -> list[Symbol]:
        shape = self._shapes[name]
        n = int(np.prod(shape))
        if name in self._inputs:
            before = self._inputs[: self._inputs.index(name)]
            first = sum(int(np.prod(self._shapes[other])) for other in before)
            return [Input(first + i) for i in range(n)]
        name = self._names[name]
        if shape == ():
            return [Parameter(name)]
        return [Parameter(f"{name}[{i}]") for i in range(n)]

    def parameters(self) -> set[str]:
        """Names of all parameters."""
        return {
            symbol.name
            for name in self._shapes
            if name not in self._inputs
            for symbol in self._symbols(name)
        }

    def traced(self, rng: np.random.Generator, low: float, high: float) -> dict[str, Any]:
        """Return the arguments with placeholders of random values from an interval."""
        ret = dict(self._fixed)
        for name, shape in self._shapes.items():
            elements = [_Traced(rng.uniform(low, high), s) for s in self._symbols(name)]
            if shape == ():
                ret[name] = elements[0]
                continue
            array = np.empty(len(elements), dtype=object)
            array[:] = elements
            ret[name] = array.reshape(shape)
        return ret


def _scalar(value: Any) -> Any:
    while isinstance(value, np.ndarray):
        if value.ndim:
            raise ValueError(
                "cannot turn the QNode into a function: a gate has an array of angles; call it "
                "with one sample's inputs, without a batch axis"
            )
        value = value.item()
    return value


def _angle(value: Any, factor: float) -> Any:
    value = _scalar(value)
    if not isinstance(value, _Traced):
        return float(value) * factor
    expression = value.expression
    return (expression if factor == 1.0 else factor * expression).to_json()


def _angles(data: Sequence[Any]) -> Callable[[int, float], Any]:
    return lambda number, factor: _angle(data[number], factor)


def _native_tape(qnode: Any, arguments: dict[str, Any]) -> Any:
    tape = qml.workflow.construct_tape(qnode, level="user")(**arguments)
    if tape.shots:
        raise ValueError("cannot turn the QNode into a function: it has shots; remove them")
    (tape,), _ = qml.defer_measurements(tape, allow_postselect=False)
    (tape,), _ = decompose(
        tape, stopping_condition=is_native, skip_initial_state_prep=False, name="qring"
    )
    return tape


def _circuit(tape: Any, n_columns: int) -> dict[str, Any]:
    index = {label: q for q, label in enumerate(_wires(tape))}
    gates: list[Gate] = []
    for op in tape.operations:
        structure, data = describe(op)
        if structure[0] != "GlobalPhase" or structure[2]:
            gates += gates_of(structure, index, _angles(data))
    gates = gates or [{"gate": "I", "qubits": [0]}]
    circuit: dict[str, Any] = {"qubits": len(index), "gates": gates}
    return {**circuit, "columns": n_columns} if n_columns else circuit


def _wires(tape: Any) -> tuple[Any, ...]:
    return wire_order(tape, None)


def _observables(tape: Any) -> list[str]:
    index = {label: q for q, label in enumerate(_wires(tape))}
    texts = []
    for mp in tape.measurements:
        if not isinstance(mp, qml.measurements.ExpectationMP):
            raise ValueError(
                f"cannot turn the QNode into a function: it returns {mp}; return expectation "
                "values only"
            )
        try:
            outputs = outputs_of(mp)
        except UnsupportedObservable as error:
            raise ValueError(f"cannot turn the QNode into a function: {error}") from None
        terms = [
            f"{float(factor)!r}*{observable_text(word, index)}"
            for word, factor in zip(outputs.words, outputs.linear[0], strict=True)
        ]
        if (constant := float(outputs.constant[0])) or not terms:
            terms.append(repr(constant))
        texts.append(" + ".join(terms))
    return texts


def from_qnode(
    qnode: Any,
    *args: Any,
    inputs: str | Sequence[str] | None = None,
    dtype: str = "float64",
    threads: int | None = None,
    **kwargs: Any,
) -> Function:
    """Turn a QNode into a function that does not use PennyLane any more.

    Parameters
    ----------
    qnode : pennylane.QNode
        Returns expectation values. Its device is not used.
    *args, **kwargs
        Examples of the QNode's arguments: floats and arrays of floats become parameters, only
        their shapes matter; anything else is passed as it is. An argument without an example
        and without a default is one float.
    inputs : str or sequence of str, optional
        Arguments that are inputs (features), not parameters. Default: ``inputs``, if there is
        such an argument.
    dtype : {"float64", "float32"}
        Precision of amplitudes.
    threads : int, optional
        Default: all processors that this process may use.

    Returns
    -------
    Function
        A float ``w`` is the parameter ``w``; an array of any shape has ``w[0]``, ``w[1]``, ... in
        C order, so that one array's weights are ``w.ravel()``. ``x``, ``pi`` and names of functions
        become ``x_`` and so on. Several arguments follow in
        natural order of their names (``Function.parameters``). Columns of inputs are in order of
        `inputs`.

    Raises
    ------
    ValueError
        The QNode depends on the values of its arguments, or computes with them in a way that is
        no expression (``+ - * / **``, NumPy's sin, cos, tan, arcsin, arccos, arctan, sqrt, exp,
        log, abs); it returns something else than expectation values; an element of an argument is
        used by no gate.

    Examples
    --------
    >>> import numpy as np, pennylane as qml, qring
    >>> @qml.qnode(qml.device("default.qubit"))
    ... def model(inputs, w):
    ...     qml.AngleEmbedding(inputs, wires=range(2))
    ...     qml.BasicEntanglerLayers(w, wires=range(2))
    ...     return qml.expval(qml.Z(0))
    >>> f = qring.from_qnode(model, np.zeros(2), np.zeros((3, 2)))
    >>> f.parameters
    ('w[0]', 'w[1]', 'w[2]', 'w[3]', 'w[4]', 'w[5]')
    >>> f.forward(np.zeros(6), np.zeros((5, 2))).shape
    (5, 1)
    """
    if not isinstance(qnode, qml.QNode):
        raise TypeError(f"cannot turn {qnode!r} into a function: it is not a QNode")
    if inputs is None:
        inputs = ("inputs",) if "inputs" in inspect.signature(qnode.func).parameters else ()
    elif isinstance(inputs, str):
        inputs = (inputs,)
    arguments = _Arguments(qnode, args, kwargs, inputs)
    rng = np.random.default_rng(1)
    traces = []
    for low, high in _INTERVALS:
        try:
            with np.errstate(all="ignore"):  # arccos of 20
                tape = _native_tape(qnode, arguments.traced(rng, low, high))
                traces.append((_circuit(tape, arguments.n_columns), _observables(tape)))
        except (TypeError, AttributeError, NotImplementedError, ImportError, DeviceError) as error:
            raise ValueError(
                f"cannot turn the QNode into a function: {error}; it may compute with its "
                "arguments by arithmetic and NumPy's functions only"
            ) from error
    circuit, observables = traces[0]
    for other, other_observables in traces[1:]:
        if circuit != other or observables != other_observables:
            raise ValueError(
                "cannot turn the QNode into a function: its gates depend on the values of its "
                f"arguments ({_difference(circuit, other)}); use arithmetic and NumPy's functions "
                "on the arguments, or pass an argument that selects gates as an integer"
            )
    f = expval(Circuit.from_json(circuit), observables, dtype=dtype, threads=threads)
    if unused := sorted(arguments.parameters() - set(f.parameters)):
        raise ValueError(
            f"cannot turn the QNode into a function: no gate uses {', '.join(unused[:4])}; "
            "remove what is not used"
        )
    return f


def _difference(first: dict[str, Any], second: dict[str, Any]) -> str:
    for i, (a, b) in enumerate(zip(first["gates"], second["gates"])):
        if a != b:
            return f"gate {i} is {a}, or {b}"
    return f"{len(first['gates'])} gates, or {len(second['gates'])}"
